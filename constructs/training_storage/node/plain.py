"""Answers of functions: text that UTF-8 can hold, whatever files are called."""

from __future__ import annotations

import json
from typing import Any


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer with ``?`` for every part of a name that is no UTF-8.

    Names of files are bytes. Lambda answers in UTF-8 and fails at one that has none, so that a refusal that names such
    a file would become a failure that nobody understands.

    Args:
        answer: Plain data for JSON.
    """
    found: dict[str, Any] = json.loads(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace"))
    return found
