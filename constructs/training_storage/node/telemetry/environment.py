"""What the environment says of this process: where its records go, and which workload, run, node and rank it is."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import roots
from . import quiet

METRICS = "TRAINING_STORAGE_METRICS"
WORKLOAD = "TRAINING_STORAGE_WORKLOAD"
RUN = "TRAINING_STORAGE_RUN"
INTERVAL = "TRAINING_STORAGE_METRICS_INTERVAL"
PER_RANK = "TRAINING_STORAGE_METRICS_PER_RANK"

FILE = "/etc/training-storage/env"
"""What a node says to training code; read where the environment itself is silent."""

OFF = "off"
UNNAMED = "unnamed"
"""The workload where nothing names one: without the dimension there would be no metric."""

INTERVAL_S = 60.0
_SHORTEST_S, _LONGEST_S = 0.05, 3_600.0

# torchrun's own id where nobody gives one is "none".
_RUNS = (RUN, "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


@dataclass(frozen=True)
class Identity:
    """Who writes, and where to.

    Attributes:
        metrics: Where records go; ``off`` for nowhere.
        workload: Name of the workload.
        run: Id of the run.
        rank: Number of this process in the run.
        instance: Id of the instance, else the host's name.
        interval_s: Seconds of one record.
        per_rank: Whether each rank has metrics of its own beside the node's and the fleet's.
    """

    metrics: str
    workload: str
    run: str
    rank: str
    instance: str
    interval_s: float
    per_rank: bool

    def dimensions(self) -> dict[str, str]:
        """Return value by name of dimension."""
        of_node = {"Workload": self.workload, "InstanceId": self.instance}
        return {**of_node, "Run": self.run, "Rank": self.rank} if self.per_rank else of_node

    def properties(self) -> dict[str, Any]:
        """Return what the log event has besides."""
        return {} if self.per_rank else {"Run": self.run, "Rank": self.rank}


def identity(given: Mapping[str, Any], wall: float | None = None) -> Identity:
    """Return who writes; what is wrong is warned of once and left out.

    Args:
        given: What code says, by name of attribute; None counts as not said.
        wall: Seconds since 1970 at the start, for the id of a run that nothing names; now where left out.
    """
    said = _File()

    def first(names: tuple[str, ...], besides: tuple[str, ...] = ()) -> str:
        for name in names:
            value = (os.environ.get(name) or said.get(name) or "").strip()
            if value and value not in besides:
                return value
        return ""

    def text(key: str, value: str) -> str:
        told = given.get(key)
        return str(told) if told is not None and str(told) else value

    started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() if wall is None else wall))
    per_rank = given.get("per_rank")
    return Identity(
        metrics=text("metrics", first((METRICS,)) or OFF),
        workload=text("workload", first((WORKLOAD,)) or UNNAMED),
        run=text("run", first(_RUNS, ("none",)) or started),
        rank=text("rank", first(_RANKS) or "0"),
        instance=text("instance", roots.node_name()),
        interval_s=_interval(text("interval_s", first((INTERVAL,)))),
        per_rank=first((PER_RANK,)).lower() not in ("off", "0", "false", "no") if per_rank is None else bool(per_rank),
    )


def _interval(value: str) -> float:
    if not value:
        return INTERVAL_S
    try:
        seconds = float(value)
        if not _SHORTEST_S <= seconds <= _LONGEST_S:
            raise ValueError(value)  # noqa: TRY301 - one warning for both
    except ValueError:
        quiet.warn(
            "interval",
            "an interval of %r is no number of seconds from %g to %g; it is %g s",
            value,
            _SHORTEST_S,
            _LONGEST_S,
            INTERVAL_S,
        )
        return INTERVAL_S
    return seconds


class _File:
    """Lines of ``FILE``, read when one is asked for."""

    def __init__(self) -> None:
        self._lines: dict[str, str] | None = None

    def get(self, name: str) -> str:
        if self._lines is None:
            self._lines = {}
            try:
                with open(roots.rooted(FILE), encoding="utf-8") as stream:  # noqa: PTH123 - as in ``settings``
                    for line in stream.read().splitlines():
                        key, found, value = line.strip().partition("=")
                        if found and key.startswith("TRAINING_STORAGE_"):
                            self._lines[key] = "".join(shlex.split(value))
            except (OSError, ValueError):
                # No node of ours, or a line that no shell would read either.
                pass
        return self._lines.get(name, "")
