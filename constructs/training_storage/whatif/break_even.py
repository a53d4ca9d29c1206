"""Where two configurations cost the same: storage and lost accelerator time, by the reads that the fleet asks for.

Accelerators wait max(0, 1 - supply / reads), between saves and while one is written, and failures take a share of the
remaining time, so that between the bends of two
curves the points at which they meet are roots of linear and quadratic equations: nothing is searched for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

from training_storage.errors import PlanError, Problem, ValidationError, WorkloadError
from training_storage.planner.model import Plan
from training_storage.planner.planning import plan as make_plan
from training_storage.units import GIB, MB, Duration, Rate
from training_storage.whatif.figures import failure_fraction, fleet_usd_per_hour, unpriced_differences
from training_storage.whatif.model import BreakEven, Curve, Point, Segment, Step
from training_storage.workload.changing import change_workload

GRID = 100
"""Even parts of the range that points are given for."""

_SAME = 1e-9
"""Two costs that differ by a smaller share are equal."""
_FARTHEST = 10.0
"""A crossing at so many times the reads is still shown where no range is asked for."""


def break_even(plan: Plan, step: Step, *, up_to_mb_per_s: float | None = None) -> BreakEven:
    """Return where a plan and a step cost the same, and who is cheaper in between.

    The fleet, its saves, its failures and both configurations stay as they are; only the reads differ. What the bill
    has for requests and data read grows with the reads that are delivered, everything else of the storage stays.

    Args:
        plan: The plan.
        step: A step of it that is possible.
        up_to_mb_per_s: End of the range of reads, MB/s of the whole fleet. Left out: twice the planned reads, or twice
            the supply at which accelerators begin to wait where that is more, and as far as a crossing within ten times
            of that.

    Raises:
        ValidationError: The step is not possible, so that there is nothing to compare, or the range is empty.
    """
    if step.plan is None:
        raise ValidationError(Problem(what=f"the step is not possible: {step.because}", path=step.option))
    if up_to_mb_per_s is not None and not (0 < up_to_mb_per_s < math.inf):
        raise ValidationError(
            Problem(what="is no end of a range", path="up_to_mb_per_s", value=up_to_mb_per_s, allowed="above 0")
        )
    read = plan.demand.read_mb_per_s
    fleet = fleet_usd_per_hour(plan)
    unpriced = unpriced_differences(plan, step.plan)
    missing = tuple(f"no price for {item}" for item in unpriced)
    if fleet is None:
        missing += ("the price of the fleet is not known",)
    supplies = (plan.prediction.read_supply_mb_per_s, step.plan.prediction.read_supply_mb_per_s)
    least = max(2 * (read or 0.0), 2 * min(supplies))
    left_out = _unpriced_in_both(plan, unpriced)
    if missing or fleet is None:
        return BreakEven(
            step=step.option,
            read_mb_per_s=read,
            up_to_mb_per_s=up_to_mb_per_s or least,
            plan_curve=None,
            step_curve=None,
            crossings_mb_per_s=None,
            segments=(),
            points=(),
            break_even_wait_fraction=None,
            missing=missing,
            left_out=left_out,
        )
    ours, theirs = _curve(plan, read, fleet), _curve(step.plan, read, fleet)
    roots = _roots(ours, theirs)
    end = up_to_mb_per_s or max(least, *(1.25 * root for root in roots if root <= _FARTHEST * least), 0.0)
    segments = segments_of(ours, theirs, end)
    crossings = tuple(segment.from_mb_per_s for segment in segments[1:])
    now = read or 0.0
    extra = theirs.storage_usd_per_hour(now) - ours.storage_usd_per_hour(now)
    bends = (*(supply for curve in (ours, theirs) for _, supply in curve.supplies), now, *crossings)
    return BreakEven(
        step=step.option,
        read_mb_per_s=read,
        up_to_mb_per_s=end,
        plan_curve=ours,
        step_curve=theirs,
        crossings_mb_per_s=crossings,
        segments=segments,
        points=_points(ours, theirs, bends, end),
        break_even_wait_fraction=extra / fleet if fleet else None,
        missing=(),
        left_out=left_out,
    )


def _unpriced_in_both(plan: Plan, differing: tuple[str, ...]) -> tuple[str, ...]:
    items = (line.item for line in plan.cost.lines if line.group == "storage" and line.unit_price is None)
    return tuple(item for item in dict.fromkeys(items) if item not in differing)


def _curve(plan: Plan, read: float | None, fleet: float) -> Curve:
    storage = sum(line.hourly or 0.0 for line in plan.cost.lines if line.group == "storage")
    supply = plan.prediction.read_supply_mb_per_s
    slope = 0.0 if not read else _usd_per_mb_per_s(plan, read)
    saving_fraction, saving_supply = _while_saving(plan)
    return Curve(
        storage_hourly=storage - slope * min(read or 0.0, supply),
        storage_hourly_per_mb_per_s=slope,
        read_supply_mb_per_s=supply,
        saving_supply_mb_per_s=saving_supply,
        saving_fraction=saving_fraction,
        checkpoint_stall_fraction=plan.prediction.checkpoint_stall_fraction or 0.0,
        failure_fraction=failure_fraction(plan) or 0.0,
        fleet_usd_per_hour=fleet,
    )


def _while_saving(plan: Plan) -> tuple[float, float]:
    """Return the share of the time that asynchronous saves are written on Lustre, and the reads that they leave, MB/s.

    A save is spread over the time that it may take, as the prediction of the plan has it; elsewhere saves take nothing
    from reads.
    """
    seen, lustre, saves = plan.prediction, plan.lustre, plan.workload.checkpoints
    supply, write_s = seen.read_supply_mb_per_s, seen.checkpoint_write_s
    rate, checkpoint_gib = plan.demand.checkpoint_write_mb_per_s, plan.demand.checkpoint_gib
    if lustre is None or saves is None or not saves.asynchronous:
        return 0.0, supply
    if write_s is None or not rate or checkpoint_gib is None:
        return 0.0, supply
    checkpoint_mb = checkpoint_gib * GIB / MB
    save_s = max(write_s, checkpoint_mb / rate)
    left = lustre.throughput_mb_per_s * max(0.0, 1 - checkpoint_mb / save_s / lustre.write_throughput_mb_per_s)
    interval_s = math.sqrt(2 * save_s * seen.mtbf_h * 3600)
    if isinstance(saves.interval, Duration):
        interval_s = saves.interval.seconds
    return min(1.0, save_s / interval_s), min(supply, left)


def _usd_per_mb_per_s(plan: Plan, read: float) -> float:
    """Return what each MB/s that is delivered adds to the storage, USD an hour: the bill at half of the reads tells.

    A file system is left out: it stays as large as it is. 0 where the half cannot be planned.
    """
    delivered = min(read, plan.prediction.read_supply_mb_per_s)
    if not delivered:
        return 0.0
    share = delivered / 2 / read
    rate = plan.workload.dataset.read_rate
    path = "dataset.read_rate"
    value: float | dict[str, Rate] | None = None
    if rate is not None and rate.samples is not None:
        path = "dataset.read_rate.samples.per_second_per_accelerator"
        value = rate.samples.per_second_per_accelerator * share
    elif rate is not None and rate.tokens is not None:
        path = "dataset.read_rate.tokens.per_second_per_accelerator"
        value = rate.tokens.per_second_per_accelerator * share
    elif plan.demand.read_mb_per_s_per_accelerator is not None:
        value = {"per_accelerator": Rate(plan.demand.read_mb_per_s_per_accelerator * MB * share)}
    try:
        half = make_plan(
            change_workload(plan.workload, {path: value, "hot_tier": plan.tiers.hot}, catalog=plan.catalog),
            catalog=plan.catalog,
        )
    except (WorkloadError, PlanError):
        return 0.0
    return (_without_file_system(plan) - _without_file_system(half)) / (delivered / 2)


def _without_file_system(plan: Plan) -> float:
    lines = (line for line in plan.cost.lines if line.group == "storage" and not line.item.startswith("lustre."))
    return sum(line.hourly or 0.0 for line in lines)


def _roots(ours: Curve, theirs: Curve) -> tuple[float, ...]:
    """Return every read demand above 0 at which both cost the same, ascending; touching ones too.

    Between two bends the difference is slope x + constant + quotient / x of the reads x.
    """
    bends = sorted({supply for curve in (ours, theirs) for _, supply in curve.supplies if supply > 0})
    found: set[float] = set()
    for low, high in pairwise((0.0, *bends, math.inf)):
        (our_slope, our_constant, our_quotient), (slope, constant, quotient) = _terms(ours, low), _terms(theirs, low)
        roots = _quadratic(slope - our_slope, constant - our_constant, quotient - our_quotient)
        found.update(root for root in roots if root > 0 and low <= root <= high)
    return tuple(sorted(found))


def _terms(curve: Curve, low: float) -> tuple[float, float, float]:
    """Return slope, constant and quotient of a curve from a bend to the next one."""
    fleet = curve.fleet_usd_per_hour * (1 - curve.failure_fraction)
    lost = curve.fleet_usd_per_hour * curve.failure_fraction + fleet * curve.checkpoint_stall_fraction
    slope, constant, quotient = 0.0, curve.storage_hourly + lost, 0.0
    if curve.read_supply_mb_per_s <= low:
        constant += curve.storage_hourly_per_mb_per_s * curve.read_supply_mb_per_s
    else:
        slope = curve.storage_hourly_per_mb_per_s
    for share, supply in curve.supplies:
        if supply <= low:
            constant += fleet * share
            quotient -= fleet * share * supply
    return slope, constant, quotient


def _quadratic(a: float, b: float, c: float) -> list[float]:
    """Return the real roots of a x^2 + b x + c, without the loss of digits that the school formula has."""
    if a == 0:
        return [] if b == 0 else [-c / b]
    inner = b * b - 4 * a * c
    if inner < 0:
        return []
    q = -(b + math.copysign(math.sqrt(inner), b)) / 2
    return [0.0] if q == 0 else [q / a, c / q]


def segments_of(ours: Curve, theirs: Curve, end: float) -> tuple[Segment, ...]:
    """Return who is cheaper from no reads to the end of a range; neighbours always differ, and nothing is left out.

    Args:
        ours: Curve of the plan.
        theirs: Curve of the step, of the same fleet.
        end: End of the range, MB/s.
    """
    bends = (supply for curve in (ours, theirs) for _, supply in curve.supplies)
    borders = sorted({0.0, end, *(each for each in (*_roots(ours, theirs), *bends) if 0 < each < end)})
    found: list[Segment] = []
    for low, high in pairwise(borders):
        answer = _cheaper(ours, theirs, (low + high) / 2)
        if found and found[-1].cheaper == answer:
            found[-1] = Segment(from_mb_per_s=found[-1].from_mb_per_s, to_mb_per_s=high, cheaper=answer)
        else:
            found.append(Segment(from_mb_per_s=low, to_mb_per_s=high, cheaper=answer))
    return tuple(found)


def _cheaper(ours: Curve, theirs: Curve, read: float) -> Literal["plan", "step", "same"]:
    plan_usd, step_usd = ours.usd_per_hour(read), theirs.usd_per_hour(read)
    if math.isclose(plan_usd, step_usd, rel_tol=_SAME, abs_tol=_SAME):
        return "same"
    return "plan" if plan_usd < step_usd else "step"


def _points(ours: Curve, theirs: Curve, bends: Iterable[float], end: float) -> tuple[Point, ...]:
    grid = {end * part / GRID for part in range(GRID + 1)}
    grid.update(each for each in bends if 0 < each < end)
    return tuple(
        Point(
            read_mb_per_s=read,
            plan_usd_per_hour=ours.usd_per_hour(read),
            step_usd_per_hour=theirs.usd_per_hour(read),
        )
        for read in sorted(grid)
    )
