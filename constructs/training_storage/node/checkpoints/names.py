"""Keys of records and ledgers: readable, one for each path, whatever bytes the path has."""

from __future__ import annotations

import hashlib
from urllib.parse import quote

_LONGEST = 800
"""S3 takes 1,024 bytes a key; folder and ending need some of them."""


def quoted(path: str) -> str:
    """Return a path as a part of a key: plain where it is plain, percent-encoded elsewhere; never with an ``@``.

    A path that is too long for a key is cut, and ends with ``~`` and digits of its SHA-256.
    """
    text = quote(path, safe="/-_.=+,", errors="surrogateescape")
    if len(text) <= _LONGEST:
        return text
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{text[: _LONGEST - 40]}~{digest[:32]}"
