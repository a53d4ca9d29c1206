"""Arguments that the constructs of this room share: the name of a workload, a lake, whole days and hours."""

from __future__ import annotations

import re
from typing import Final

import aws_cdk as cdk

from training_storage._arguments import DURATION, Kind, has
from training_storage._tokens import concrete
from training_storage.errors import Problem

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
LAKE: Final = Kind(
    allowed="a DataLake", fits=lambda value: has(value, "grant_read_write", "bucket"), fix="DataLake(self, ...)"
)


def name_problems(workload: object) -> list[Problem]:
    """Return what is wrong with the name of a workload; nothing of one that is only known at deploy."""
    name = concrete(workload) if isinstance(workload, str) else None
    if name is None or _NAME.fullmatch(name):
        return []
    return [
        Problem(
            what="not the name of a workload",
            path="workload",
            value=name,
            allowed="a lower-case letter, then lower-case letters, digits and hyphens, at most 40 characters",
            fix="give the name that stands in the workload file",
        )
    ]


def whole_units(
    given: object, path: str, *, unit: str, seconds: int, least: int, why: str
) -> tuple[int, list[Problem]]:
    """Return a duration in whole days or hours, and what is wrong with it.

    Args:
        given: The argument; what is no duration at all is left to ``misfits``.
        path: Its name.
        unit: ``days`` or ``hours``, as a duration of the CDK is made of them.
        seconds: Seconds of one.
        least: The fewest that are allowed.
        why: Why nothing else is.

    Returns:
        Their number, and problems; 0 where there are any.
    """
    if not isinstance(given, cdk.Duration) or not DURATION.fits(given):
        return 0, []
    if given.is_unresolved():
        return 0, [at_deploy(path, "a Duration that is known at synth")]
    count, rest = divmod(given.to_seconds(), seconds)
    if count >= least and not rest:
        return int(count), []
    return 0, [
        Problem(
            what=f"not whole {unit}",
            path=path,
            value=str(given.to_human_string()),
            allowed=f"whole {unit}, {least} or more: {why}",
            fix=f"cdk.Duration.{unit}({int(count) + 1})",
        )
    ]


def at_deploy(path: str, allowed: str) -> Problem:
    """Return the problem of an argument that is only known at deploy."""
    return Problem(what="only known at deploy", path=path, allowed=allowed)
