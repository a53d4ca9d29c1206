"""What the simulation takes and what it measures: plain frozen data, no plan needed. Seconds and decimal MB."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from training_storage.errors import Problem, ValidationError

Progress = Callable[[float], None]
"""Called now and then with the share that is done, 0 to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineInput:
    """The way of the data to some accelerators that share a link.

    Attributes:
        demand_mb_per_s: What one accelerator takes while it never waits, MB/s.
        supply_mb_per_s: What the tier delivers to one accelerator, MB/s: its share of the supply.
        unit_mb: Bytes that one read brings, MB: a sample, a file, or a part of one.
        workers: Readers of one accelerator.
        prefetch: Units that one reader keeps on the way or ready.
        latency_s: From the start of a read to its first byte, seconds.
        stream_mb_per_s: Most that one read gets by itself, MB/s. Left out: no such limit.
        accelerators: Accelerators that are simulated, with a link of as many shares.
        varying_latency: Whether the latency of a read is drawn (exponential, the same mean) and not constant.
        in_order: Whether units are handed over in the order in which their reads began, as many loaders do.
    """

    demand_mb_per_s: float
    supply_mb_per_s: float
    unit_mb: float
    workers: int
    prefetch: int
    latency_s: float
    stream_mb_per_s: float | None = None
    accelerators: int = 1
    varying_latency: bool = False
    in_order: bool = False

    def __post_init__(self) -> None:
        _refuse(
            self,
            positive=("demand_mb_per_s", "supply_mb_per_s", "unit_mb", "workers", "prefetch", "accelerators"),
            optional=("stream_mb_per_s",),
            at_least_0=("latency_s",),
        )

    @property
    def slots(self) -> int:
        """Units of one accelerator that are on the way or ready at once."""
        return self.workers * self.prefetch


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineResult:
    """What was measured once the pipeline ran evenly.

    Attributes:
        wait_fraction: Share of the time that accelerators waited for data.
        empty_fraction: Share of the units that an accelerator had to wait for: it found the queue empty.
        delivered_mb_per_s: What one accelerator took, MB/s.
        read_s: From the start of a read to its last byte, seconds, on average.
        units: Units that were measured.
        window_s: How long was measured, seconds.
        bundle: Units that were simulated as one; 1 unless there are very many slots.
    """

    wait_fraction: float
    empty_fraction: float
    delivered_mb_per_s: float
    read_s: float
    units: int
    window_s: float
    bundle: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One training run.

    Attributes:
        run_s: How long it runs, seconds.
        mtbf_s: Mean time between failures of the fleet, seconds; infinite for none.
        interval_s: Training between two saves, or between two snapshots of asynchronous saves, seconds.
        save_s: One save until it is durable, seconds.
        restart_s: From a failure to the start of the restore, seconds.
        restore_s: One restore, seconds.
        asynchronous: Whether saves overlap with training.
        wait_fraction: Share of training that accelerators wait for data.
        saving_wait_fraction: The same while an asynchronous save is written. Left out: no difference.
    """

    run_s: float
    mtbf_s: float
    interval_s: float
    save_s: float
    restart_s: float
    restore_s: float
    asynchronous: bool
    wait_fraction: float = 0.0
    saving_wait_fraction: float | None = None

    def __post_init__(self) -> None:
        _refuse(
            self,
            positive=("run_s", "mtbf_s", "interval_s"),
            at_least_0=("save_s", "restart_s", "restore_s"),
            shares=("wait_fraction", "saving_wait_fraction"),
        )

    @property
    def cycle_s(self) -> float:
        """From one save to the next, or from one snapshot to the next, while nothing fails, seconds."""
        return max(self.interval_s, self.save_s) if self.asynchronous else self.interval_s + self.save_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Where the time of a run went. ``wall_s`` is the sum of the six seconds below it.

    Attributes:
        wall_s: What was simulated, seconds.
        work_s: Training that lasts: neither waiting nor lost to a failure, seconds.
        lost_s: Training that failures threw away, seconds.
        wait_s: Waiting for data, in work that lasts and in work that was lost, seconds.
        stall_s: Training stopped for saves, seconds.
        restart_s: From failures to restores, seconds.
        restore_s: Restores, those that failed too, seconds.
        lost_training_s: Training that failures threw away with the waits in it, seconds: part of ``lost_s`` and
            ``wait_s``.
        failures: Failures.
        saves: Saves that became durable.
        restores: Restores that ended.
        cut_short: Whether the run was longer than what was simulated.
        cycles_a_step: Cycles of training and saving that were taken in one step; 1 unless there are very many.
    """

    wall_s: float
    work_s: float
    lost_s: float
    wait_s: float
    stall_s: float
    restart_s: float
    restore_s: float
    lost_training_s: float
    failures: int
    saves: int
    restores: int
    cut_short: bool
    cycles_a_step: int

    @property
    def effective_training_time_ratio(self) -> float:
        """Share of the time that ends as training progress."""
        return self.work_s / self.wall_s if self.wall_s else 0.0

    @property
    def stall_fraction(self) -> float:
        """Share of training and saving that saves stall; time after failures does not count."""
        running = self.work_s + self.lost_s + self.wait_s + self.stall_s
        return self.stall_s / running if running else 0.0

    @property
    def wait_fraction(self) -> float:
        """Share of training that accelerators wait for data; saves that stall and time after failures do not count."""
        training = self.work_s + self.lost_s + self.wait_s
        return self.wait_s / training if training else 0.0

    @property
    def lost_s_per_failure(self) -> float | None:
        """Training that one failure throws away on average, seconds; None where nothing failed."""
        return self.lost_training_s / self.failures if self.failures else None


def _refuse(
    given: object,
    *,
    positive: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    at_least_0: tuple[str, ...] = (),
    shares: tuple[str, ...] = (),
) -> None:
    """Refuse what nothing can be simulated with, all of it at once."""
    problems: list[Problem] = []
    for name in (*positive, *optional, *at_least_0, *shares):
        value: float | None = getattr(given, name)
        if value is None:
            continue
        if name in at_least_0:
            holds, allowed = 0 <= value < math.inf, "0 or more"
        elif name in shares:
            holds, allowed = 0 <= value <= 1, "0 to 1"
        else:
            holds, allowed = value > 0, "above 0"
        if not holds:
            problems.append(Problem(what="cannot be simulated", path=name, value=value, allowed=allowed))
    if problems:
        raise ValidationError(problems)
