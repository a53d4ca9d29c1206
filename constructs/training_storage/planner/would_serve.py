"""The warning that S3 alone would do, with what both ways cost by the lines of the same bill."""

from __future__ import annotations

from dataclasses import replace

from training_storage.planner.cost import Parts, estimate
from training_storage.planner.draft import Draft
from training_storage.planner.model import HotTier
from training_storage.planner.model_cost import Cost
from training_storage.planner.mounts import plan_node
from training_storage.planner.prediction import predict
from training_storage.planner.supply import tightest
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
    node = plan_node(apart, tiers, None)
    if apart.problems:
        return None
    parts = Parts(
        tiers=tiers,
        lustre=None,
        express=None,
        s3_files=node.s3_files,
        shared_cache=node.shared_cache,
        mounts=node.mounts,
        prediction=predict(apart, choice.s3.limits, choice.s3.outcome, None),
    )
    return estimate(apart, parts, run_h=None)


def _storage_usd(cost: Cost) -> float | None:
    """Return the storage lines of a month; None where one of them is used and has no price: a part is no comparison."""
    lines = [each for each in cost.lines if each.group == "storage"]
    if any(each.monthly is None and each.quantity > 0 for each in lines):
        return None
    return cost.storage_monthly
