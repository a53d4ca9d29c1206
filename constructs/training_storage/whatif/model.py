"""What another configuration, or another workload, would mean. USD, decimal MB/s, seconds; shares of the time 0 to 1.

None stands for what is not known or does not apply; no figure is guessed from a part of what it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from training_storage.errors import Problem
from training_storage.planner.model import HotTier, Plan, plain_data

StepKind = Literal["throughput", "capacity", "tier"]
Direction = Literal["up", "down", "sideways"]
Verdict = Literal[
    "pays",
    "does not pay",
    "cheaper and no slower",
    "dearer and no faster",
    "dearer and slower",
    "faster at the same price",
    "slower at the same price",
    "no difference",
    "not known",
    "not possible",
]
Value = str | int | bool
"""What stands behind a key of a workload file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What one decides on, of one plan.

    Attributes:
        hot: Hot tier.
        configuration: What holds the data while the job runs, without its capacity: two plans with the same text differ
            in size alone. Such as ``PERSISTENT_2 SSD 500 MB/s per TiB, EFA``.
        storage_capacity_gib: Capacity of the file system; None without one, or where it grows by itself.
        throughput_mb_per_s: Baseline throughput of the file system for reads; None without one.
        read_supply_mb_per_s: Reads that the tier delivers to the whole fleet.
        binds: The limit that sets it.
        storage_hourly: Storage lines of the bill, one hour of training; 0 where the bill has no such line, None where
            no line has a price.
        storage_monthly: The same for a month.
        storage_run: The same for one run, loading included; None where its length is not known.
        unpriced_storage: Items of storage whose price is not known: they are in neither sum.
        compute_hourly: The same of compute lines; None where no price is known.
        compute_monthly: The same for a month.
        data_wait_fraction: Share of the time that accelerators wait for data, between saves.
        data_wait_with_saves_fraction: The same of all the time, where asynchronous saves take their part of the disks;
            None where they take nothing from reads.
        checkpoint_stall_fraction: Share of the time that saves stall training.
        gpu_wait_fraction: Wait of all the time and stall together; an unknown part counts as 0, None where both are
            unknown.
        failure_loss_fraction: Share of the time that failures take: restarts, restores and work that is done again, all
            beside ``gpu_wait_fraction``; None where failures are not predicted.
        checkpoint_write_s: One save.
        restore_s: One restore.
        effective_training_time_ratio: Share of the time that ends as training progress.
        idle_gpu_usd_per_hour: ``gpu_wait_fraction`` x price of the fleet; None where either is not known.
        warnings: Ids of the plan's warnings.
    """

    hot: HotTier
    configuration: str
    storage_capacity_gib: int | None
    throughput_mb_per_s: float | None
    read_supply_mb_per_s: float
    binds: str
    storage_hourly: float | None
    storage_monthly: float | None
    storage_run: float | None
    unpriced_storage: tuple[str, ...]
    compute_hourly: float | None
    compute_monthly: float | None
    data_wait_fraction: float | None
    data_wait_with_saves_fraction: float | None
    checkpoint_stall_fraction: float | None
    gpu_wait_fraction: float | None
    failure_loss_fraction: float | None
    checkpoint_write_s: float | None
    restore_s: float | None
    effective_training_time_ratio: float | None
    idle_gpu_usd_per_hour: float | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Figures of a step less those of the plan: above 0 the step costs, waits or takes more.

    Attributes:
        storage_hourly: Storage, USD an hour; None where an item that differs has no price.
        storage_monthly: The same for a month.
        storage_run: The same for one run, loading included; None where its length is not known.
        data_wait_fraction: Data wait between saves.
        checkpoint_stall_fraction: Stall.
        gpu_wait_fraction: Data wait of all the time, and stall.
        failure_loss_fraction: What failures take beside it.
        checkpoint_write_s: One save.
        restore_s: One restore.
        effective_training_time_ratio: Share of the time that ends as training progress: above 0 is better here.
        idle_gpu_usd_per_hour: Accelerators that wait; None where the price of the fleet is not known.
        failure_usd_per_hour: Accelerators that do work again or are restored; None where either is not known.
        net_usd_per_hour: Storage, waiting accelerators and what failures take together: below 0 the step saves money.
            Failures that are not predicted count as 0.
    """

    storage_hourly: float | None
    storage_monthly: float | None
    storage_run: float | None
    data_wait_fraction: float | None
    checkpoint_stall_fraction: float | None
    gpu_wait_fraction: float | None
    failure_loss_fraction: float | None
    checkpoint_write_s: float | None
    restore_s: float | None
    effective_training_time_ratio: float | None
    idle_gpu_usd_per_hour: float | None
    failure_usd_per_hour: float | None
    net_usd_per_hour: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One other configuration of the same workload, planned by the planner.

    Attributes:
        kind: What is changed: ``throughput``, ``capacity`` or ``tier``.
        direction: ``up`` or ``down``. Another hot tier is ``up`` only where it costs more and waits no more, ``down``
            only where it costs less and waits no less, and else ``sideways``.
        option: The configuration, or what was looked for where there is none.
        changes: Keys of the workload file with the values to write there; a file with them is planned as this step.
        figures: Figures of the step; None where it is not possible.
        difference: Those less the plan's; None where it is not possible.
        verdict: What the figures say.
        because: The same with its numbers; the reason where it is not possible.
        over_a_run: What a run of the length that is asked for says against it, for what is paid once: a step that is
            cheaper by the hour may cost more to load. Empty where it says the same, or has no length.
        misses: Parts of the demand that the step misses and the plan serves, as its warnings say them: a step that is
            cheaper and no slower may take longer to save or to restore than the workload allows.
        new_warnings: Ids of warnings that the step has and the plan has not.
        plan: The plan of the step; not printed. None where it is not possible.
    """

    kind: StepKind
    direction: Direction
    option: str
    changes: dict[str, Value] = field(hash=False)
    figures: Figures | None
    difference: Difference | None
    verdict: Verdict
    because: str
    over_a_run: str
    misses: tuple[str, ...]
    new_warnings: tuple[str, ...]
    plan: Plan | None = field(metadata={"print": False}, repr=False)

    def to_dict(self) -> dict[str, object]:
        """Return plain data, every key always present."""
        return _mapping(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Storage and lost accelerator time of one configuration, USD an hour, by the reads that the fleet asks for.

    Attributes:
        storage_hourly: Storage that does not depend on reads.
        storage_hourly_per_mb_per_s: What each MB/s that is delivered adds in requests and in data read.
        read_supply_mb_per_s: Reads that the configuration delivers between saves: above it accelerators wait.
        saving_supply_mb_per_s: Reads that it delivers while an asynchronous save is written.
        saving_fraction: Share of the time that such saves are written, 0 where they take nothing from reads.
        checkpoint_stall_fraction: Share of the time that saves stall training, 0 where there are none.
        failure_fraction: Share of the remaining time that failures take, 0 where they are not predicted.
        fleet_usd_per_hour: Price of the fleet.
    """

    storage_hourly: float
    storage_hourly_per_mb_per_s: float
    read_supply_mb_per_s: float
    saving_supply_mb_per_s: float
    saving_fraction: float
    checkpoint_stall_fraction: float
    failure_fraction: float
    fleet_usd_per_hour: float

    @property
    def supplies(self) -> tuple[tuple[float, float], ...]:
        """Shares of the time, each with the reads that are delivered meanwhile, MB/s."""
        return (
            (1 - self.saving_fraction, self.read_supply_mb_per_s),
            (self.saving_fraction, self.saving_supply_mb_per_s),
        )

    def wait_fraction(self, read_mb_per_s: float) -> float:
        """Return data wait and stall at a read demand of the fleet."""
        if read_mb_per_s <= 0:
            return self.checkpoint_stall_fraction
        waits = (share * max(0.0, 1 - supply / read_mb_per_s) for share, supply in self.supplies)
        return sum(waits) + self.checkpoint_stall_fraction

    def lost_fraction(self, read_mb_per_s: float) -> float:
        """Return data wait, stall, and what failures take of the remaining time, at a read demand of the fleet."""
        return self.failure_fraction + (1 - self.failure_fraction) * self.wait_fraction(read_mb_per_s)

    def storage_usd_per_hour(self, read_mb_per_s: float) -> float:
        """Return storage alone at a read demand of the fleet."""
        return self.storage_hourly + self.storage_hourly_per_mb_per_s * min(read_mb_per_s, self.read_supply_mb_per_s)

    def usd_per_hour(self, read_mb_per_s: float) -> float:
        """Return storage and lost accelerator time at a read demand of the fleet."""
        return self.storage_usd_per_hour(read_mb_per_s) + self.fleet_usd_per_hour * self.lost_fraction(read_mb_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A range of read demand with one answer.

    Attributes:
        from_mb_per_s: Its lower end.
        to_mb_per_s: Its upper end.
        cheaper: Which of the two costs less inside it: ``plan``, ``step``, or ``same``.
    """

    from_mb_per_s: float
    to_mb_per_s: float
    cheaper: Literal["plan", "step", "same"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of both curves, USD an hour."""

    read_mb_per_s: float
    plan_usd_per_hour: float
    step_usd_per_hour: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """Where storage and lost accelerator time of a plan and of a step cost the same.

    Attributes:
        step: What the step is, as ``Step.option``.
        read_mb_per_s: What the workload reads; None where it does not say.
        up_to_mb_per_s: End of the range that was looked at; it starts at 0.
        plan_curve: The plan; None where a price is missing.
        step_curve: The step; None where a price is missing.
        crossings_mb_per_s: Read demands of the fleet at which both cost the same and the answer changes, ascending, not
            rounded; None where a price is missing.
        segments: Who is cheaper between them, without gaps; empty where a price is missing.
        points: Both curves on an even grid and at each bend and crossing, for a chart; empty where a price is missing.
        break_even_wait_fraction: Extra storage / price of the fleet at the planned reads: the share of GPU time that
            the step must save to pay, below 0 the share that it may take; None where a price is missing.
        missing: Prices that are not known and that both answers need, in words; empty where all are.
        left_out: Items without a price that both have the same of: they move both curves alike, and are in neither.
    """

    step: str
    read_mb_per_s: float | None
    up_to_mb_per_s: float
    plan_curve: Curve | None
    step_curve: Curve | None
    crossings_mb_per_s: tuple[float, ...] | None
    segments: tuple[Segment, ...]
    points: tuple[Point, ...]
    break_even_wait_fraction: float | None
    missing: tuple[str, ...]
    left_out: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain data, every key always present."""
        return _mapping(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """The answer for one value.

    Attributes:
        value: The value as a number: a count or a plain number as it is, sizes in bytes, rates in bytes per second,
            durations in seconds.
        text: The value as it stands in a workload file.
        figures: Figures of the plan; None where there is none.
        problems: Why there is no plan; empty where there is one.
        asked: Whether the value was asked for; false for one that was looked at to find where the answer changes.
    """

    value: float
    text: str
    figures: Figures | None
    problems: tuple[Problem, ...]
    asked: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Neighbouring values with one answer.

    Attributes:
        answer: The hot tier or the configuration; ``refused`` where there is no plan.
        first: Text of its first value.
        last: Text of its last value.
        first_index: Its first point in ``Sweep.points``.
        last_index: Its last point.
    """

    answer: str
    first: str
    last: str
    first_index: int
    last_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One field of a workload over many values, each planned by itself.

    Attributes:
        workload: Name of the workload.
        field: Dotted path of the field.
        unit: Unit of ``SweepPoint.value``: ``B``, ``B/s``, ``s``, or empty for counts and plain numbers.
        given: What the workload says itself, as a number of that unit; None where it says nothing.
        points: The answers, by ascending values.
        tiers: Ranges with one hot tier: each start after the first is where the tier changes.
        configurations: Ranges with one configuration, whatever its capacity.
    """

    workload: str
    field: str
    unit: str
    given: float | None
    points: tuple[SweepPoint, ...]
    tiers: tuple[Span, ...]
    configurations: tuple[Span, ...]

    def to_dict(self) -> dict[str, object]:
        """Return plain data, every key always present."""
        plain = _mapping(self)
        plain["points"] = [
            {**_mapping(point), "problems": [problem.to_dict() for problem in point.problems]} for point in self.points
        ]
        return plain


def _mapping(value: object) -> dict[str, object]:
    plain = plain_data(value)
    assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy; plain_data maps a dataclass to a dict
    return plain
