"""Moments on the command line: a time of day with its zone, or a length of time before now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def moment(text: str) -> Callable[[float], float]:
    """Return what gives the seconds since 1970 of a moment, from those of now.

    Args:
        text: Such as ``90m`` (so long before now) or ``2026-12-01T12:00:00Z``; UTC where it names no zone.

    Raises:
        ArgumentTypeError: It is neither.
    """
    from argparse import ArgumentTypeError

    from training_storage.cli.inputs import length_of_time

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        given = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        return lambda _now: given
    try:
        seconds = float(length_of_time(text).seconds)
    except ArgumentTypeError:
        raise ArgumentTypeError(
            f"{text!r} is no moment; allowed: a length of time before now, such as 90m, 1h or 2d, or a moment such as "
            "2026-12-01T12:00:00Z"
        ) from None
    return lambda now: now - seconds


def told(seconds: float) -> str:
    """Return a moment for people, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
