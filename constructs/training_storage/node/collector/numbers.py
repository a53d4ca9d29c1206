"""Numbers as kernels print them."""

from __future__ import annotations

_LARGEST = 2**64 - 1


def whole(text: str) -> int | None:
    """Return a counter; None where the text is none, or more than 64 bits hold.

    Args:
        text: Digits alone: ``int`` would take signs, underscores and digits of other scripts too.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        return None
    value = int(text)
    return value if value <= _LARGEST else None


def lines_of(text: str) -> list[str]:
    """Return the lines that are whole; what a reader was cut off in has no newline, and its numbers may lack digits."""
    return text.split("\n")[:-1]
