"""Arguments that the constructs of this room share: the name of a workload, a lake."""

from __future__ import annotations

import re
from typing import Final

from training_storage._arguments import Kind, has
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
