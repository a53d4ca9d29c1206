"""The figures of a plan that a step or a sweep sets beside those of another one."""

from __future__ import annotations

from collections.abc import Iterable

from training_storage.errors import Problem
from training_storage.planner.model import LustrePlan, Plan
from training_storage.planner.words import number
from training_storage.whatif.model import Difference, Figures


def figures_of(plan: Plan) -> Figures:
    """Return what one decides on, of one plan."""
    cost, seen, lustre = plan.cost, plan.prediction, plan.lustre
    storage = [line for line in cost.lines if line.group == "storage"]
    waits, fleet = gpu_wait_fraction(plan), fleet_usd_per_hour(plan)
    return Figures(
        hot=plan.tiers.hot,
        configuration=configuration(plan),
        storage_capacity_gib=None if lustre is None else lustre.storage_capacity_gib,
        throughput_mb_per_s=None if lustre is None else lustre.throughput_mb_per_s,
        read_supply_mb_per_s=seen.read_supply_mb_per_s,
        binds=seen.binds,
        storage_hourly=cost.storage_hourly if storage else 0.0,
        storage_monthly=cost.storage_monthly if storage else 0.0,
        storage_run=cost.storage_run if storage or cost.run_h is None else 0.0,
        unpriced_storage=tuple(dict.fromkeys(line.item for line in storage if line.unit_price is None)),
        compute_hourly=cost.compute_hourly,
        compute_monthly=cost.compute_monthly,
        data_wait_fraction=seen.data_wait_fraction,
        data_wait_with_saves_fraction=seen.data_wait_with_saves_fraction,
        checkpoint_stall_fraction=seen.checkpoint_stall_fraction,
        gpu_wait_fraction=waits,
        failure_loss_fraction=None if (failed := failure_fraction(plan)) is None else (1 - (waits or 0.0)) * failed,
        checkpoint_write_s=seen.checkpoint_write_s,
        restore_s=seen.restore_s,
        effective_training_time_ratio=seen.effective_training_time_ratio,
        idle_gpu_usd_per_hour=None if waits is None or fleet is None else waits * fleet,
        warnings=tuple(dict.fromkeys(warning.id for warning in plan.warnings)),
    )


def gpu_wait_fraction(plan: Plan) -> float | None:
    """Return data wait of all the time and stall together; an unknown part counts as 0, None where both are unknown.

    The wait between saves alone would hide what asynchronous saves take from reads.
    """
    seen = plan.prediction
    wait = seen.data_wait_with_saves_fraction
    parts = (seen.data_wait_fraction if wait is None else wait, seen.checkpoint_stall_fraction)
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def failure_fraction(plan: Plan) -> float | None:
    """Return the share that failures take of the time without waits and stalls; None where it is not predicted.

    The effective training time ratio is what is left when waits between saves, stalls and failures have had their part.
    """
    seen = plan.prediction
    ratio = seen.effective_training_time_ratio
    left = (1 - (seen.data_wait_fraction or 0.0)) * (1 - (seen.checkpoint_stall_fraction or 0.0))
    return None if ratio is None or left <= 0 else max(0.0, 1 - ratio / left)


def configuration(plan: Plan) -> str:
    """Return what holds the data while the job runs, without its capacity."""
    if plan.lustre is not None:
        return _lustre(plan.lustre)
    if plan.express is not None:
        count = plan.express.bucket_count
        return f"S3 Express One Zone, {count} directory bucket{'' if count == 1 else 's'}"
    ways = {"none": "S3", "mountpoint": "S3 through Mountpoint", "s3-files": "S3 through S3 Files"}
    return ways[plan.tiers.file_access]


def with_capacity(figures: Figures) -> str:
    """Return the configuration with its capacity where it has one: ``67,200 GiB of PERSISTENT_2 SSD ...``."""
    gib = figures.storage_capacity_gib
    return figures.configuration if gib is None else f"{number(gib)} GiB of {figures.configuration}"


def _lustre(lustre: LustrePlan) -> str:
    kind = f"{lustre.deployment_type} {lustre.storage_type}"
    if lustre.per_unit_storage_throughput:
        kind += f" {lustre.per_unit_storage_throughput} MB/s per TiB"
    elif lustre.throughput_capacity_mb_per_s is not None:
        kind += f" {number(lustre.throughput_capacity_mb_per_s)} MB/s"
    return f"{kind}, EFA" if lustre.efa else kind


def fleet_usd_per_hour(plan: Plan) -> float | None:
    """Return the price of the whole fleet, USD an hour; None where it is not known."""
    gpus = [line.hourly for line in plan.cost.lines if line.kind == "gpu"]
    known = [hourly for hourly in gpus if hourly is not None]
    return sum(known) if known and len(known) == len(gpus) else None


def unpriced_differences(plan: Plan, other: Plan) -> tuple[str, ...]:
    """Return the items of storage without a price that one bill has more of than the other.

    What both have the same of drops out of a difference, whatever it costs.
    """
    quantities: list[dict[str, float]] = []
    for each in (plan, other):
        found: dict[str, float] = {}
        for line in each.cost.lines:
            if line.group == "storage" and line.unit_price is None:
                found[line.item] = found.get(line.item, 0.0) + line.quantity
        quantities.append(found)
    ours, theirs = quantities
    return tuple(item for item in dict.fromkeys((*ours, *theirs)) if ours.get(item) != theirs.get(item))


def difference_of(plan: Plan, other: Plan) -> Difference:
    """Return the figures of another plan less those of a plan.

    Args:
        plan: The plan.
        other: The other one, for the same fleet.
    """
    ours, theirs = figures_of(plan), figures_of(other)
    priced = not unpriced_differences(plan, other)
    storage = _less(theirs.storage_hourly or 0.0, ours.storage_hourly or 0.0) if priced else None
    monthly = _less(theirs.storage_monthly or 0.0, ours.storage_monthly or 0.0) if priced else None
    a_run = None
    if priced and plan.cost.run_h is not None:
        a_run = _less(theirs.storage_run or 0.0, ours.storage_run or 0.0)
    waits = _less(theirs.gpu_wait_fraction, ours.gpu_wait_fraction)
    fleet = fleet_usd_per_hour(plan)
    idle = None if waits is None or fleet is None else waits * fleet
    failures = _less(theirs.failure_loss_fraction, ours.failure_loss_fraction)
    failing = None if failures is None or fleet is None else failures * fleet
    return Difference(
        storage_hourly=storage,
        storage_monthly=monthly,
        storage_run=a_run,
        data_wait_fraction=_less(theirs.data_wait_fraction, ours.data_wait_fraction),
        checkpoint_stall_fraction=_less(theirs.checkpoint_stall_fraction, ours.checkpoint_stall_fraction),
        gpu_wait_fraction=waits,
        failure_loss_fraction=failures,
        checkpoint_write_s=_less(theirs.checkpoint_write_s, ours.checkpoint_write_s),
        restore_s=_less(theirs.restore_s, ours.restore_s),
        effective_training_time_ratio=_less(theirs.effective_training_time_ratio, ours.effective_training_time_ratio),
        idle_gpu_usd_per_hour=idle,
        failure_usd_per_hour=failing,
        net_usd_per_hour=None if storage is None or idle is None else storage + idle + (failing or 0.0),
    )


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def refusal(problems: Iterable[Problem]) -> str:
    """Return why there is no plan, in one line."""
    return "; ".join(dict.fromkeys(f"{each.path}: {each.what}" if each.path else each.what for each in problems))
