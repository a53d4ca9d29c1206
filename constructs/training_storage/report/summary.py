"""The decision in words: the paragraph that is read when nothing else is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from training_storage.planner.model import Plan
from training_storage.planner.model_cost import Cost
from training_storage.planner.model_prediction import FirstEpoch, Prediction
from training_storage.planner.words import gib, listed, mb_per_s, number, seconds
from training_storage.report.chart_limits import NAMES
from training_storage.report.words import is_wait, nearly, usd

if TYPE_CHECKING:
    from training_storage.whatif.model import Step

TIERS: Final = {
    "none": "Amazon S3 alone, without a hot tier",
    "lustre": "FSx for Lustre in front of Amazon S3",
    "express": "S3 Express One Zone in front of Amazon S3",
}
"""Hot tiers as a person calls them."""

UNKNOWN: Final = "not known"
"""What stands in place of a value that is not known."""

_SAME: Final = 1e-9
"""Two rates or times that differ by less, relatively, are equal."""

_BETTER: Final = ("cheaper and no slower", "faster at the same price", "pays")
"""Verdicts of a step that is worth taking, the surest first."""


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
    elif is_wait(seen.data_wait_fraction):
        yield (
            f"Accelerators will wait for data {nearly(seen.data_wait_fraction)} of the time: of the {mb_per_s(asked)} "
            f"that they ask for, the tightest limit ({limit}) lets {supply} through."
        )
    else:
        yield (
            f"Accelerators will not wait for data: they ask for {mb_per_s(asked)}, and the tightest limit ({limit}) "
            f"lets {supply} through."
        )
    yield from _saving(seen)
    first = seen.first_epoch
    if first is not None and is_wait(first.data_wait_fraction) and first.first_s > first.steady_s * (1 + 1e-9):
        yield (
            f"The first pass over the data reads through from S3 and takes {seconds(first.first_s)} in place of "
            f"{seconds(first.steady_s)}{_loaded_ahead(first)}."
        )


def _loaded_ahead(first: FirstEpoch) -> str:
    """Return what loading the data before the fleet starts saves, where it does."""
    added, storage = first.added_gpu_usd, first.preload_storage_usd
    if added is None or storage is None or added <= storage:
        return ""
    return (
        f", {usd(added)} of accelerators; loaded ahead, in {seconds(first.preload_s)} without them, it takes "
        f"{usd(storage)} of storage instead"
    )


def _saving(seen: Prediction) -> Iterator[str]:
    if seen.checkpoint_write_s is None or seen.checkpoint_stall_fraction is None:
        return
    write = seconds(seen.checkpoint_write_s)
    if seen.checkpoint_mode == "asynchronous":
        slowed = seen.data_wait_during_save_fraction
        while_saving = ""
        if slowed and seen.data_wait_with_saves_fraction is not None:
            over_all = nearly(seen.data_wait_with_saves_fraction)
            while_saving = (
                f"; while one is written accelerators wait for data {nearly(slowed)} of the time, which makes it "
                f"{over_all} of all"
            )
        yield f"Saves take {write} each and do not stall training{while_saving}."
    else:
        yield f"Saves take {write} each and stall training {nearly(seen.checkpoint_stall_fraction)} of the time."


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
        run = f"One run of {seconds(cost.run_h * 3600)} costs {usd(cost.run)}"
        yield f"{run}, without what has no known price." if cost.unpriced else f"{run}."


def change(plan: Plan, steps: Sequence[Step]) -> str:
    """Return what to change, or that nothing has to.

    Advice is only what makes nothing worse: a step that saves money by letting accelerators wait, or that misses more
    of what is asked for, stands in the table of steps with its numbers, and is for people to weigh.

    Args:
        plan: The plan.
        steps: Other configurations of the same workload.
    """
    worth = [step for verdict in _BETTER for step in steps if step.verdict == verdict and _no_worse(plan, step)]
    if worth:
        best = min(worth, key=_saves)
        return f"{best.option}: {best.because}{_new_warnings(best)}."
    read = f"read the {'warning' if len(plan.warnings) == 1 else f'{len(plan.warnings)} warnings'} first"
    possible = [step for step in steps if step.verdict != "not possible"]
    if not steps:
        return f"{read[0].upper()}{read[1:]}." if plan.warnings else "Nothing: the plan covers what is asked for."
    if not possible:
        said = "Nothing by a step: none up or down in throughput, capacity or tier is possible"
    elif all(step.verdict == "not known" for step in possible):
        unknown = [step.because for step in possible]
        why = f"prices of {plan.cost.region}" if any("price" in each for each in unknown) else "reads and saves"
        said = f"Not known: what a step up or down would change, because {why} are not known"
    elif any(step.verdict in _BETTER for step in possible):
        said = (
            "Nothing: each step that saves money lets accelerators wait longer, misses a part of what is asked for, "
            "or cannot be judged without the reads; their table has the numbers"
        )
    else:
        said = (
            "Nothing by cost: no step up or down in throughput, capacity or tier is better and serves all that is "
            "asked for"
        )
    return f"{said}{f'; {read}' if plan.warnings else ''}."


def _no_worse(plan: Plan, step: Step) -> bool:
    """Whether a step is known to serve what is asked for at least as well as the plan does.

    Reads that are not known count as none in a step's wait, and a demand that both miss is no news of the step: both
    are looked at here by what the step delivers.
    """
    difference, theirs = step.difference, step.figures
    if step.misses or difference is None or theirs is None:
        return False
    reads_known = plan.demand.read_mb_per_s is not None
    if not reads_known and theirs.read_supply_mb_per_s < plan.prediction.read_supply_mb_per_s * (1 - _SAME):
        return False
    waits = (difference.gpu_wait_fraction, difference.data_wait_fraction)
    if any(is_wait(each) for each in waits):
        return False
    given = plan.workload.checkpoints
    if given is None:
        return True
    # A save or a restore may take longer as long as the workload allows it.
    times = (
        (difference.checkpoint_write_s, theirs.checkpoint_write_s, given.max_write_time.seconds),
        (difference.restore_s, theirs.restore_s, given.max_restore_time.seconds),
    )
    return not any(
        more is not None and after is not None and more > after * _SAME and after > allowed * (1 + _SAME)
        for more, after, allowed in times
    )


def _new_warnings(step: Step) -> str:
    new = step.new_warnings
    return f". It brings the warning{'' if len(new) == 1 else 's'} {listed(list(new))}" if new else ""


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
    from training_storage.whatif.figures import gpu_wait_fraction

    seen, cost = plan.prediction, plan.cost
    wait, ratio = gpu_wait_fraction(plan), seen.effective_training_time_ratio
    beside = seen.data_wait_with_saves_fraction
    data = seen.data_wait_fraction if beside is None else beside
    parts = [
        f"{name} {UNKNOWN if share is None else nearly(share)}"
        for name, share in (("data", data), ("saves", seen.checkpoint_stall_fraction))
    ]
    storage, everything = cost.storage_monthly, cost.monthly
    failures = f"{number(seen.failures_per_day)} failures a day"
    low = seen.effective_training_time_ratio_low
    if ratio is not None and low is not None and nearly(low) != nearly(ratio):
        failures += f"; {nearly(low)} where saves take all that the disks give"
    return (
        ("GPU wait", UNKNOWN if wait is None else nearly(wait), ", ".join(parts)),
        ("Effective training", UNKNOWN if ratio is None else nearly(ratio), failures),
        ("Storage, month", UNKNOWN if storage is None else usd(storage), _missing(cost, "storage")),
        (
            "With fleet, month",
            UNKNOWN if everything is None or cost.compute_monthly is None else usd(everything),
            _missing(cost, None)
            if cost.hourly is None or cost.compute_hourly is None or cost.unpriced
            else f"{usd(cost.hourly)} an hour",
        ),
    )


def takes_from_reads(seen: Prediction) -> bool:
    """Return whether asynchronous saves make accelerators wait longer than they do between saves.

    Args:
        seen: What training will see.
    """
    beside, between = seen.data_wait_with_saves_fraction, seen.data_wait_fraction
    return beside is not None and between is not None and is_wait(beside - between)


def _missing(cost: Cost, group: str | None) -> str:
    """Return how many prices of a group, or of all, are in no sum."""
    found = {line.item for line in cost.lines if line.unit_price is None and group in {None, line.group}}
    return f"{_count(len(found), 'price')} not known" if found else "all prices known"
