"""Arguments as rules take them: plain values, and None for what is only known at deploy."""

from __future__ import annotations

from math import isfinite

from aws_cdk import Duration

from training_storage._tokens import concrete, is_concrete
from training_storage.errors import Problem

__all__ = ["concrete", "days", "is_concrete", "whole"]

_DAY_MS = 86_400_000


def days(duration: Duration | None, path: str, problems: list[Problem]) -> float | None:
    """Return a duration in days; None where it is a token or not given.

    Args:
        duration: The argument.
        path: Its name, for the problem.
        problems: Where it goes when the duration is a token in another unit: CDK would fail on it during synthesis.
    """
    if duration is None:
        return None
    if duration.is_unresolved():
        if duration.unit_label() != "days":
            problems.append(
                Problem(
                    what=f"a token in {duration.unit_label()}",
                    path=path,
                    allowed="days: what is only known at deploy cannot be turned into another unit",
                    fix="make it with Duration.days",
                )
            )
        return None
    return float(duration.to_milliseconds(integral=False)) / _DAY_MS


def whole(value: float | None, path: str, problems: list[Problem]) -> int | None:
    """Return a number as an int; None where it is a token or not given. What is no whole number becomes a problem.

    Args:
        value: The argument.
        path: Its name, for the problem.
        problems: Where the problem goes.
    """
    known = concrete(value)
    if known is None:
        return None
    if isinstance(known, bool) or not isinstance(known, int | float) or not isfinite(known) or known != int(known):
        problems.append(Problem(what="not a whole number", path=path, value=known, allowed="a whole number"))
        return None
    return int(known)
