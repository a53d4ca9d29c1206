"""Texts that EC2 takes: what comes out of a construct path may be too long, or hold characters that it refuses."""

from __future__ import annotations

import re

_NOT_IN_DESCRIPTIONS = re.compile(r"[^A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]")
"""EC2 API reference, CreateSecurityGroup: characters of a description."""
_LONGEST_DESCRIPTION = 255
_LONGEST_TAG_VALUE = 256


def group_description(path: str) -> str:
    """Return the description of the security group of a construct; other characters become hyphens."""
    return _short(_NOT_IN_DESCRIPTIONS.sub("-", f"Nodes of {path}"), _LONGEST_DESCRIPTION)


def name_tag(path: str) -> str:
    """Return the ``Name`` tag of a construct."""
    return _short(path, _LONGEST_TAG_VALUE)


def _short(text: str, longest: int) -> str:
    """Return the end of a text that is too long: paths differ there."""
    return text if len(text) <= longest else f"...{text[3 - longest :]}"
