"""One step up and one step down in throughput, capacity and tier: what each costs, and what wait it takes or adds."""

from __future__ import annotations

from training_storage.errors import PlanError, WorkloadError
from training_storage.planner.demand import covers
from training_storage.planner.model import Plan
from training_storage.planner.planning import plan as make_plan
from training_storage.planner.words import gib, listed, percent
from training_storage.units import Duration, format_seconds
from training_storage.whatif.candidates import Candidate, candidates
from training_storage.whatif.figures import difference_of, figures_of, refusal, unpriced_differences, with_capacity
from training_storage.whatif.model import Difference, Direction, Figures, Step, Verdict
from training_storage.workload.changing import change_workload

_SAME_SHARE = 1e-9
"""Two shares of the time that differ by less are equal: both are quotients of decimal input."""
_SAME_USD = 1e-6
"""Two amounts of USD an hour that differ by less are equal."""

_SHORTFALLS = frozenset(
    {
        "lustre-too-small",
        "client-limit",
        "metadata-short",
        "s3-too-small",
        "express-buckets-short",
        "express-too-slow",
    }
)
"""Ids of warnings that name a part of the demand which a configuration misses."""


def steps(plan: Plan) -> tuple[Step, ...]:
    """Return the configurations one step away from a plan, each planned by the planner itself.

    Throughput up and down: the next tier of the file system at its capacity, or at the next legal one above where that
    tier has larger steps; of INTELLIGENT_TIERING one step of throughput capacity. Capacity up and down: the next legal
    capacity at its tier. Tier: each other hot tier, sized for the same workload. A step that does not exist, or that no
    legal plan does, is there with its reason.

    Args:
        plan: The plan. Its catalog and the length of its run count for the steps too.

    Returns:
        Throughput up and down, capacity up and down, then the other hot tiers; always six.
    """
    return tuple(_first_possible(plan, options) for options in candidates(plan))


def _first_possible(plan: Plan, options: list[Candidate]) -> Step:
    first: Step | None = None
    for option in options:
        step = _step(plan, option)
        if step.plan is not None:
            return step
        first = first or step
    assert first is not None  # noqa: S101 - every list of candidates has one
    return first


def _step(plan: Plan, option: Candidate) -> Step:
    if option.impossible:
        return _not_possible(option, option.impossible)
    run_h = plan.cost.run_h
    try:
        workload = change_workload(plan.workload, option.changes, catalog=plan.catalog)
        other = make_plan(workload, catalog=plan.catalog, run_length=None if run_h is None else Duration(run_h * 3600))
    except (WorkloadError, PlanError) as error:
        return _not_possible(option, refusal(error.problems))
    lacking = _lacking(plan, other)
    if lacking:
        return _not_possible(option, lacking)
    difference = difference_of(plan, other)
    verdict, because = _judge(plan, other, difference)
    over_a_run = _over_a_run(plan, difference)
    known = {warning.id for warning in plan.warnings}
    new = [warning for warning in other.warnings if warning.id not in known]
    figures = figures_of(other)
    return Step(
        kind=option.kind,
        direction=_direction(difference) if option.kind == "tier" else option.direction,
        option=_named(figures) if option.kind == "tier" else option.option,
        changes=option.changes,
        figures=figures,
        difference=difference,
        verdict=verdict,
        because=f"{because}; {over_a_run}" if over_a_run else because,
        over_a_run=over_a_run,
        misses=_missed(plan, other, option),
        new_warnings=tuple(dict.fromkeys(warning.id for warning in new)),
        plan=other,
    )


def _not_possible(option: Candidate, reason: str) -> Step:
    return Step(
        kind=option.kind,
        direction=option.direction,
        option=option.option,
        changes={},
        figures=None,
        difference=None,
        verdict="not possible",
        because=reason,
        over_a_run="",
        misses=(),
        new_warnings=(),
        plan=None,
    )


def _missed(plan: Plan, other: Plan, option: Candidate) -> tuple[str, ...]:
    """Return the shortfalls that the plan has not, and those of the plan that a smaller file system makes larger."""
    known = {warning.id: warning.message for warning in plan.warnings}
    smaller = option.kind != "tier" and option.direction == "down"
    found = tuple(
        warning.message
        for warning in other.warnings
        if warning.id in _SHORTFALLS and (warning.id not in known or (smaller and warning.message != known[warning.id]))
    )
    if other.tiers.hot == "express" != plan.tiers.hot and plan.workload.dataset.interface == "posix":
        # The planner never takes it for such code: a mount of one bucket is no file system, whatever its rates are.
        found += ("POSIX code needs a file system, and would have one directory bucket as files",)
    return found


def _named(figures: Figures) -> str:
    """Return a hot tier with what it would be."""
    if figures.hot == "lustre":
        return f"FSx for Lustre, {with_capacity(figures)}"
    return figures.configuration if figures.hot == "express" else f"{figures.configuration}, no hot tier"


def _lacking(plan: Plan, other: Plan) -> str:
    """Why a smaller file system is no step: what has to be hot does not fit any more. Empty where it does."""
    if plan.lustre is None or other.lustre is None:
        return ""
    before, after = plan.lustre.storage_capacity_gib, other.lustre.storage_capacity_gib
    needed = other.demand.hot_capacity_gib
    if before is None or after is None or after >= before or covers(after, needed):
        return ""
    return f"{gib(after)} do not hold the {gib(needed)} that have to be hot"


def _direction(difference: Difference) -> Direction:
    storage, waits = difference.storage_hourly, difference.gpu_wait_fraction
    if storage is None or waits is None:
        return "sideways"
    if storage > _SAME_USD and waits <= _SAME_SHARE:
        return "up"
    if storage < -_SAME_USD and waits >= -_SAME_SHARE:
        return "down"
    return "sideways"


def _judge(plan: Plan, other: Plan, difference: Difference) -> tuple[Verdict, str]:
    """Return the verdict and its numbers."""
    storage, waits, net = difference.storage_hourly, difference.gpu_wait_fraction, difference.net_usd_per_hour
    if storage is None:
        return "not known", _unpriced(unpriced_differences(plan, other))
    cost = "storage costs the same"
    if abs(storage) > _SAME_USD:
        cost = f"storage costs {abs(storage):,.2f} USD an hour {'more' if storage > 0 else 'less'}"
    if waits is None:
        return "not known", f"{cost}; reads and saves are not known, so that no wait is"
    failures = difference.failure_loss_fraction or 0.0
    lost = waits + failures
    more, longer = _sign(storage, _SAME_USD), _sign(lost, _SAME_SHARE)
    text = f"{cost}, {_waits(waits, failures)}"
    plain = _PLAIN.get((more, longer))
    if plain is not None:
        return plain, text
    if net is None:
        worth = storage / -lost
        at = "pays from" if more > 0 else "pays up to"
        return "not known", f"{text}; the price of the fleet is not known: it {at} {worth:,.2f} USD an hour"
    word = "less" if net < 0 else "more"
    value = f"worth {abs(net - storage):,.2f} USD an hour"
    return ("pays" if net < 0 else "does not pay"), f"{text}, {value}: {abs(net):,.2f} USD an hour {word} in all"


def _unpriced(items: tuple[str, ...]) -> str:
    more = f" and {len(items) - 2} more items" if len(items) > 3 else ""
    return f"no price for {', '.join(items[:2]) if more else listed(items)}{more}"


_PLAIN: dict[tuple[int, int], Verdict] = {
    (1, 1): "dearer and slower",
    (1, 0): "dearer and no faster",
    (0, 1): "slower at the same price",
    (0, 0): "no difference",
    (0, -1): "faster at the same price",
    (-1, 0): "cheaper and no slower",
    (-1, -1): "cheaper and no slower",
}
"""Verdicts that need no price of the fleet, by more (1) or less (-1) cost and lost time."""


def _sign(value: float, same: float) -> int:
    return 0 if abs(value) <= same else 1 if value > 0 else -1


def _waits(waits: float, failures: float) -> str:
    """Return what is lost of the time, in words."""
    found = "accelerators wait as long"
    if abs(waits) > _SAME_SHARE:
        found = f"accelerators wait {percent(abs(waits))} of the time {'more' if waits > 0 else 'less'}"
    if abs(failures) > _SAME_SHARE:
        found += f", failures take {percent(abs(failures))} of the time {'more' if failures > 0 else 'less'}"
    return found


def _over_a_run(plan: Plan, difference: Difference) -> str:
    """Return what a run says where an hour says the opposite, for what is paid once; empty where both say the same."""
    run_h, storage, run = plan.cost.run_h, difference.storage_hourly, difference.storage_run
    if run_h is None or storage is None or run is None:
        return ""
    lost = (difference.net_usd_per_hour or storage) - storage
    of_hour, of_run = _sign(storage + lost, _SAME_USD), _sign(run + lost * run_h, _SAME_USD * max(run_h, 1.0))
    if of_run in {0, of_hour}:
        return ""
    total = abs(run + lost * run_h)
    much = f"{total:,.2f} USD {'more' if of_run > 0 else 'less'}"
    return f"a run of {format_seconds(run_h * 3600)} costs {much} in all, with what is paid once"
