"""Warnings that the other way would do: with and without a hot tier, and what both cost by the lines of one bill."""

from __future__ import annotations

from dataclasses import replace

from training_storage.planner.cost import Parts, estimate
from training_storage.planner.draft import RANKING_REGION, Draft
from training_storage.planner.links import plan_links
from training_storage.planner.lustre_plan import plan_lustre
from training_storage.planner.model import FileAccess, HotTier, LustrePlan, Tiers
from training_storage.planner.model_cost import Cost
from training_storage.planner.mounts import plan_node
from training_storage.planner.prediction import predict
from training_storage.planner.supply import Limits, outcome, tightest
from training_storage.planner.tiers import TierChoice
from training_storage.planner.words import percent, usd_per_month

_NOISE = 1e-9
"""A share of the time that is rounding."""

_NAMES: dict[HotTier, str] = {"lustre": "Lustre", "express": "S3 Express"}


def warn_would_serve(draft: Draft, choice: TierChoice, cost: Cost) -> None:
    """Say that a rule on the size of the fleet chose the hot tier, and S3 would serve everything without one.

    Args:
        draft: The plan while it is written; takes the warning.
        choice: The tiers.
        cost: The bill of the plan.
    """
    if choice.rule not in ("object-scale", "instances") or not choice.s3_would_serve:
        return
    without = _bill_without_hot_tier(draft, choice)
    if without is None:
        return
    there = "" if draft.workload.lustre.file_system_id is None else "; the file system that is there already is in none"
    draft.warn(
        "s3-would-serve",
        "S3 without a hot tier would serve everything that is asked for. Storage, requests and network: with "
        f"{_NAMES[choice.tiers.hot]} {usd_per_month(_storage_usd(cost))}, without a hot tier "
        f"{usd_per_month(_storage_usd(without))}{there}{_but(choice)}",
    )


def warn_lustre_cheaper(draft: Draft, choice: TierChoice, cost: Cost) -> None:
    """Say that reading from S3 costs more in requests than a file system in front of it would cost.

    The size of the fleet and what S3 can do decide on the tier, not the bill: small files read over and over can make
    S3 the dearer way.

    Args:
        draft: The plan while it is written; takes the warning.
        choice: The tiers.
        cost: The bill of the plan.
    """
    if choice.rule != "otherwise" or _requests_usd(cost) <= _least_lustre_usd(draft):
        return
    bill = _bill_with_lustre(draft, choice)
    ours, theirs = _storage_usd(cost), None if bill is None else _storage_usd(bill)
    if ours is None or theirs is None or theirs >= ours:
        return
    draft.warn(
        "lustre-would-be-cheaper",
        f"S3 serves what is asked for, and a file system in front of it costs less: storage, requests and network are "
        f"{usd_per_month(ours)}, {usd_per_month(_requests_usd(cost))} of it for requests; with hot_tier: lustre they "
        f"would be {usd_per_month(theirs)}",
    )


def _requests_usd(cost: Cost) -> float:
    """Return what requests cost in a month, as far as their prices are known."""
    return sum(each.monthly or 0.0 for each in cost.lines if each.kind == "requests")


def _least_lustre_usd(draft: Draft) -> float:
    """Return the price of a month of the smallest file system: nothing that costs less can pay for one."""
    prices, smallest = draft.catalog.prices, draft.catalog.lustre.option("PERSISTENT_2", "SSD")
    usd = prices.usd("lustre.PERSISTENT_2.SSD.125", draft.workload.region)
    if usd is None:
        usd = prices.usd("lustre.PERSISTENT_2.SSD.125", RANKING_REGION) or 0.0
    return usd * (smallest.first_gib[0] if smallest is not None and smallest.first_gib else 0)


def _bill_with_lustre(draft: Draft, choice: TierChoice) -> Cost | None:
    """Return the bill of ``hot_tier: lustre``; None where there is no legal file system."""
    workload = draft.workload
    apart = replace(draft, problems=[], decisions=[], assumptions=[], warnings=[])
    lustre = plan_lustre(apart, plan_links(apart))
    if lustre is None or apart.problems:
        return None
    access: FileAccess = "mountpoint" if workload.dataset.interface == "posix" else "none"
    if workload.file_access != "auto":
        access = workload.file_access
    tiers = replace(choice.tiers, hot="lustre", file_access=access)
    return _bill(apart, tiers, lustre.plan, lustre.limits)


def _bill(apart: Draft, tiers: Tiers, lustre: LustrePlan | None, limits: Limits) -> Cost | None:
    """Return the bill of other tiers for the same workload; None where its nodes cannot be planned.

    Args:
        apart: A draft of its own, so that nothing of the other way is said in the plan.
        tiers: The tiers.
        lustre: The file system, if any.
        limits: What they deliver.
    """
    node = plan_node(apart, tiers, lustre)
    if apart.problems:
        return None
    parts = Parts(
        tiers=tiers,
        lustre=lustre,
        express=None,
        s3_files=node.s3_files,
        shared_cache=node.shared_cache,
        mounts=node.mounts,
        prediction=predict(apart, limits, outcome(apart.needs, limits), lustre),
    )
    return estimate(apart, parts, run_h=None)


def _but(choice: TierChoice) -> str:
    """Return what S3 does not do although its rates suffice: bring reads in time to loaders that keep few in flight."""
    wait = choice.s3.outcome.data_wait_fraction
    if wait is None or wait <= _NOISE:
        return ""
    limit = tightest(choice.s3.limits.reads).name
    return f". Accelerators would wait for data {percent(wait)} of the time there, for {limit}"


def _bill_without_hot_tier(draft: Draft, choice: TierChoice) -> Cost | None:
    """Return the bill of ``hot_tier: none``; None where its nodes cannot be planned.

    Sizing and tiers are not planned again: what S3 gives is known from the choice between them.
    """
    apart = replace(draft, problems=[], decisions=[], assumptions=[], warnings=[])
    tiers = replace(choice.tiers, hot="none", file_access=choice.access_without_hot)
    return _bill(apart, tiers, None, choice.s3.limits)


def _storage_usd(cost: Cost) -> float | None:
    """Return the storage lines of a month; None where one of them is used and has no price: a part is no comparison."""
    lines = [each for each in cost.lines if each.group == "storage"]
    if any(each.monthly is None and each.quantity > 0 for each in lines):
        return None
    return cost.storage_monthly
