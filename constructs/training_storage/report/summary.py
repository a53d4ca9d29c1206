"""The decision in words: the paragraph that is read when nothing else is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from training_storage.planner.model import Plan
from training_storage.planner.model_prediction import Prediction
from training_storage.planner.words import gib, listed, mb_per_s, number, percent, seconds
from training_storage.report.chart_limits import NAMES

if TYPE_CHECKING:
    from training_storage.whatif.model import Step

TIERS: Final = {
    "none": "Amazon S3 alone, without a hot tier",
    "lustre": "FSx for Lustre in front of Amazon S3",
    "express": "S3 Express One Zone in front of Amazon S3",
}
"""Hot tiers as a person calls them."""

_UNKNOWN: Final = "not known"

_BETTER: Final = ("cheaper and no slower", "faster at the same price", "pays")
"""Verdicts of a step that is worth taking, the surest first."""


def usd(value: float) -> str:
    """Return an amount: cents below 100, none above.

    Args:
        value: USD.
    """
    return f"{value:,.0f} USD" if abs(value) >= 100 or value == 0 else f"{value:,.2f} USD"


def nearly(share: float) -> str:
    """Return a share in percent with two more digits near 100, where three would round all of it up.

    Args:
        share: 0 to 1.
    """
    return f"{share * 100:.2f} %" if 0.99 <= share < 1 else percent(share)


def decision(plan: Plan) -> tuple[str, ...]:
    """Return the decision in sentences: tier, waiting, cost.

    Args:
        plan: The plan.
    """
    return (*_tier(plan), *_waiting(plan), *_cost(plan))


def _tier(plan: Plan) -> Iterator[str]:
    reason = next((each.because for each in plan.decisions if each.rule == "hot-tier" and each.verdict == "chosen"), "")
    size = ""
    if plan.lustre is not None:
        capacity = plan.lustre.storage_capacity_gib
        size = mb_per_s(plan.lustre.throughput_mb_per_s)
        size = f" ({size})" if capacity is None else f" ({gib(capacity)}, {size})"
    fleet = f"{number(plan.compute.instance_count)} x {plan.compute.instance_type}"
    yield f"{fleet} train on {TIERS[plan.tiers.hot]}{size}{': ' if reason else ''}{reason}."


def _waiting(plan: Plan) -> Iterator[str]:
    seen, asked = plan.prediction, plan.demand.read_mb_per_s
    limit = NAMES[seen.binds].lower().replace("s3", "S3")
    supply = mb_per_s(seen.read_supply_mb_per_s)
    if seen.data_wait_fraction is None or asked is None:
        yield "Whether accelerators will wait for data is not known: no read rate is given."
    elif seen.data_wait_fraction > 0:
        yield (
            f"Accelerators will wait for data {percent(seen.data_wait_fraction)} of the time: of the {mb_per_s(asked)} "
            f"that they ask for, the tightest limit ({limit}) lets {supply} through."
        )
    else:
        yield (
            f"Accelerators will not wait for data: they ask for {mb_per_s(asked)}, and the tightest limit ({limit}) "
            f"lets {supply} through."
        )
    yield from _saving(seen)
    first = seen.first_epoch
    if first is not None and first.data_wait_fraction > 0 and first.first_s > first.steady_s:
        yield (
            f"The first pass over the data reads through from S3 and takes {seconds(first.first_s)} in place of "
            f"{seconds(first.steady_s)}."
        )


def _saving(seen: Prediction) -> Iterator[str]:
    if seen.checkpoint_write_s is None or seen.checkpoint_stall_fraction is None:
        return
    write = seconds(seen.checkpoint_write_s)
    if seen.checkpoint_mode == "asynchronous":
        slowed = seen.data_wait_during_save_fraction
        while_saving = ""
        if slowed and seen.data_wait_with_saves_fraction is not None:
            over_all = percent(seen.data_wait_with_saves_fraction)
            while_saving = (
                f"; one that is written at full speed makes data wait {percent(slowed)} of that time, {over_all} of all"
            )
        yield f"Saves take {write} each and do not stall training{while_saving}."
    else:
        yield f"Saves take {write} each and stall training {percent(seen.checkpoint_stall_fraction)} of the time."


def _cost(plan: Plan) -> Iterator[str]:
    cost = plan.cost
    known = []
    if cost.storage_monthly is not None:
        known.append(f"storage costs {usd(cost.storage_monthly)}")
    if cost.compute_monthly is not None:
        known.append(f"the fleet {'' if known else 'costs '}{usd(cost.compute_monthly)}")
    sentence = f"A month of training: {listed(known)}" if known else f"No price is known for {cost.region}"
    if known and cost.unpriced:
        sentence += f"; {_count(len(cost.unpriced), 'price')} not known and in no sum"
    yield f"{sentence}."
    if cost.run is not None and cost.run_h is not None:
        yield f"One run of {seconds(cost.run_h * 3600)} costs {usd(cost.run)}."


def change(plan: Plan, steps: Sequence[Step]) -> str:
    """Return what to change, or that nothing has to.

    Args:
        plan: The plan.
        steps: Other configurations of the same workload.
    """
    # A cheaper step that misses a part of the demand is no advice: the table of steps has it, with what it misses.
    worth = [step for verdict in _BETTER for step in steps if step.verdict == verdict and not step.misses]
    if worth:
        best = min(worth, key=lambda step: _saves(step))
        return f"{best.option}: {best.because}."
    read = f"read the {'warning' if len(plan.warnings) == 1 else f'{len(plan.warnings)} warnings'} first"
    if steps and all(step.verdict in {"not known", "not possible"} for step in steps):
        unknown = f"what a step up or down would change, because prices of {plan.cost.region} or the demand are missing"
        return f"Not known: {unknown}{f'; {read}' if plan.warnings else ''}."
    if steps:
        nothing = "no step up or down in throughput, capacity or tier is better and serves all that is asked for"
        return f"Nothing by cost: {nothing}{f'; {read}' if plan.warnings else ''}."
    return f"{read[0].upper()}{read[1:]}." if plan.warnings else "Nothing: the plan covers what is asked for."


def _saves(step: Step) -> float:
    """Return what a step changes in all, USD an hour; storage alone where the price of the fleet is not known."""
    difference = step.difference
    if difference is None:
        return 0.0
    return difference.net_usd_per_hour if difference.net_usd_per_hour is not None else difference.storage_hourly or 0.0


def _count(count: int, what: str) -> str:
    return f"1 {what} is" if count == 1 else f"{number(count)} {what}s are"


def key_figures(plan: Plan) -> tuple[tuple[str, str, str], ...]:
    """Return the figures at the head of the page: what, how much, and what goes with it.

    Args:
        plan: The plan.
    """
    seen, cost = plan.prediction, plan.cost
    wait, ratio = seen.gpu_wait_fraction, seen.effective_training_time_ratio
    parts = [
        f"{name} {'not known' if share is None else percent(share)}"
        for name, share in (("data", seen.data_wait_fraction), ("saves", seen.checkpoint_stall_fraction))
    ]
    storage, everything = cost.storage_monthly, cost.monthly
    failures = f"{number(seen.failures_per_day)} failures a day"
    return (
        ("GPU wait", _UNKNOWN if wait is None else percent(wait), ", ".join(parts)),
        ("Effective training", _UNKNOWN if ratio is None else nearly(ratio), failures),
        (
            "Storage, month",
            _UNKNOWN if storage is None else usd(storage),
            f"{_count(len(cost.unpriced), 'price')} not known" if cost.unpriced else "all prices known",
        ),
        (
            "With fleet, month",
            _UNKNOWN if everything is None or cost.compute_monthly is None else usd(everything),
            "" if cost.hourly is None or cost.compute_hourly is None else f"{usd(cost.hourly)} an hour",
        ),
    )
