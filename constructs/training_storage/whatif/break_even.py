"""Where two configurations cost the same: storage and waiting accelerators, by the reads that the fleet asks for.

Accelerators wait max(0, 1 - supply / reads), so that the difference of two curves is, between their bends, a line or a
quotient: its roots are those of a linear or a quadratic equation, and nothing is searched for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Literal

from training_storage.errors import Problem, ValidationError
from training_storage.planner.model import Plan
from training_storage.whatif.figures import fleet_usd_per_hour, unpriced_differences
from training_storage.whatif.model import BreakEven, Curve, Point, Segment, Step

GRID = 100
"""Even parts of the range that points are given for."""

_SAME = 1e-9
"""Two costs that differ by a smaller share are equal."""
_FARTHEST = 10.0
"""A crossing at so many times the reads is still shown where no range is asked for."""
_WITH_READS = frozenset(
    {"s3.get_requests", "s3_express.get_requests", "s3_express.retrieval", "s3_files.read", "nat.data_processed"}
)
"""Items of storage that are paid for each read: their lines are taken to grow with the reads of the fleet."""


def break_even(plan: Plan, step: Step, *, up_to_mb_per_s: float | None = None) -> BreakEven:
    """Return where a plan and a step cost the same, and who is cheaper in between.

    The fleet, its saves and both configurations stay as they are; only the reads differ. Lines of requests and of data
    read are taken to grow with the reads, everything else of the storage stays.

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
    segments = _segments(ours, theirs, roots, end)
    crossings = tuple(segment.from_mb_per_s for segment in segments[1:])
    now = read or 0.0
    extra = (theirs.storage_hourly - ours.storage_hourly) + now * (
        theirs.storage_hourly_per_mb_per_s - ours.storage_hourly_per_mb_per_s
    )
    bends = (*supplies, now, *crossings)
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
    fixed = growing = 0.0
    for line in plan.cost.lines:
        if line.group != "storage" or line.hourly is None:
            continue
        if read and line.item in _WITH_READS:
            growing += line.hourly
        else:
            fixed += line.hourly
    return Curve(
        storage_hourly=fixed,
        storage_hourly_per_mb_per_s=growing / read if read else 0.0,
        read_supply_mb_per_s=plan.prediction.read_supply_mb_per_s,
        checkpoint_stall_fraction=plan.prediction.checkpoint_stall_fraction or 0.0,
        fleet_usd_per_hour=fleet,
    )


def _roots(ours: Curve, theirs: Curve) -> tuple[float, ...]:
    """Return every read demand above 0 at which both cost the same, ascending; touching ones too."""
    fleet = ours.fleet_usd_per_hour
    constant = theirs.storage_hourly - ours.storage_hourly
    constant += fleet * (theirs.checkpoint_stall_fraction - ours.checkpoint_stall_fraction)
    slope = theirs.storage_hourly_per_mb_per_s - ours.storage_hourly_per_mb_per_s
    first, last = sorted((ours.read_supply_mb_per_s, theirs.read_supply_mb_per_s))
    # Where only one waits, its wait is added: 1 of the fleet, less supply / reads. Multiplied by the reads, each range
    # is slope x^2 + b x + c.
    only = fleet if theirs.read_supply_mb_per_s < ours.read_supply_mb_per_s else -fleet
    both = fleet * (ours.read_supply_mb_per_s - theirs.read_supply_mb_per_s)
    found = [root for root in _quadratic(0.0, slope, constant) if 0 < root <= first]
    found += [root for root in _quadratic(slope, constant + only, -only * first) if first <= root <= last]
    found += [root for root in _quadratic(slope, constant, both) if root >= last]
    return tuple(sorted(set(found)))


def _quadratic(a: float, b: float, c: float) -> list[float]:
    """Return the real roots of a x^2 + b x + c, without the loss of digits that the school formula has."""
    if a == 0:
        return [] if b == 0 else [-c / b]
    inner = b * b - 4 * a * c
    if inner < 0:
        return []
    q = -(b + math.copysign(math.sqrt(inner), b)) / 2
    return [0.0] if q == 0 else [q / a, c / q]


def _segments(ours: Curve, theirs: Curve, roots: Iterable[float], end: float) -> tuple[Segment, ...]:
    """Return who is cheaper from 0 to the end; ranges with the same answer are one."""
    bends = (ours.read_supply_mb_per_s, theirs.read_supply_mb_per_s)
    borders = sorted({0.0, end, *(each for each in (*roots, *bends) if 0 < each < end)})
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
