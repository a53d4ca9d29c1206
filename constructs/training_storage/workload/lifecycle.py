"""Section of a workload file about how a hot tier comes and goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from training_storage.errors import Problem
from training_storage.units import Duration
from training_storage.workload import fields as read
from training_storage.workload.section import Section, item, list_of
from training_storage.workload.together import without


class Lifecycle(Section):
    """What stands in front of the file system's end, what is released before it, and what is loaded ahead."""

    guard: bool = item(read.flag, default=True)
    release_data_after: Duration | None = item(read.days, default=None)
    warn_when_free_below: float = item(read.number(0, 0.9), default=0.1)
    release_data_when_free_below: float | None = item(read.number(0.01, 0.9), default=None)
    release_when_idle_for: Duration | None = item(read.hours, default=None)
    preload_at: datetime | None = item(read.moment, default=None)
    preload_paths: tuple[str, ...] = item(list_of(read.link_path), default=("/datasets",))

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:
        """Paths are those of a preload that has its time."""
        if "preload_paths" in given and "preload_at" not in given:
            yield without("preload_paths", given, "are paths of a preload that has no time", "preload_at")
        if given.get("preload_paths") == [] and "preload_at" in given:
            yield Problem(
                what="names nothing to load",
                path="preload_paths",
                value=given["preload_paths"],
                allowed="one directory or more",
                fix="leave it out for /datasets, or leave preload_at out",
            )
