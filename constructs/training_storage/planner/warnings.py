"""Warnings that compare tiers or name what is not known. Ids are public contract."""

from __future__ import annotations

from training_storage.planner.demand import covers
from training_storage.planner.draft import RANKING_REGION, Draft
from training_storage.planner.lustre_plan import LustreResult, price_at
from training_storage.planner.model import Tiers
from training_storage.planner.supply import Outcome
from training_storage.planner.tiers import TierChoice
from training_storage.planner.words import listed, mb_per_s, percent, seconds, usd_per_month
from training_storage.units import GB, GIB

_SAME = 1e-9
"""Two shares of the time that differ by less are equal."""


def warn_unknown(draft: Draft) -> None:
    """Name each part of the demand that is not given; it is null and not counted."""
    demand = draft.needs.demand
    if demand.read_mb_per_s is None:
        draft.warn(
            "reads-unknown", "no dataset.read_rate: reads are not counted, and the plan may be too slow for them"
        )
    if demand.file_opens_per_s is None:
        draft.warn(
            "opens-unknown",
            "file opens are not known and not counted: give a read rate, and dataset.file_count or "
            "dataset.average_file_size",
        )
    if draft.needs.saves is None:
        draft.warn("checkpoints-unknown", "no checkpoints section: saves and restores are not counted")


def warn_unused(draft: Draft, tiers: Tiers, *, shared_cache: bool) -> None:
    """Name each section that says something about a tier which the plan does not have."""
    workload = draft.workload
    if tiers.hot != "lustre" and workload.lustre.model_fields_set - {"removal"}:
        draft.warn("lustre-unused", "the lustre section has no effect: there is no Lustre in this plan")
    if tiers.hot != "express" and not shared_cache and workload.express.model_fields_set - {"removal"}:
        draft.warn("express-unused", "the express section has no effect: there is no S3 Express in this plan")
    if tiers.file_access != "s3-files" and workload.s3_files.model_fields_set - {"removal"}:
        draft.warn("s3-files-unused", "the s3_files section has no effect: there is no S3 Files in this plan")
    if not shared_cache and workload.mountpoint.cache == "express":
        draft.warn("shared-cache-unused", "mountpoint.cache: express has no effect: nothing is mounted by Mountpoint")


def warn_tiers(draft: Draft, choice: TierChoice, hot: Outcome, lustre: LustreResult | None) -> None:
    """Say where S3 would do as well or better, or where it does not do what is asked for."""
    s3 = choice.s3
    if choice.tiers.hot == "none":
        if s3.shortfalls:
            draft.warn(
                "s3-too-small",
                f"hot_tier: none is given, and S3 alone does not serve the workload: "
                f"{'; '.join(shortfall.text for shortfall in s3.shortfalls)}",
            )
        return
    if choice.rule in ("object-scale", "instances") and choice.s3_would_serve:
        draft.warn(
            "s3-would-serve",
            f"S3 without a hot tier would serve everything that is asked for: {_hot_cost(draft, choice, lustre)}, "
            "against 0 USD a month for no hot tier (the data lake is there in both)",
        )
    _warn_slower(draft, choice, hot)


def _hot_cost(draft: Draft, choice: TierChoice, lustre: LustreResult | None) -> str:
    if choice.tiers.hot == "lustre":
        price = None if lustre is None else lustre.plan.ranking_usd_per_month
        return f"Lustre: {usd_per_month(price)} by the {RANKING_REGION} rows"
    usd = draft.catalog.prices.usd("s3_express.storage", RANKING_REGION)
    dataset = draft.workload.dataset
    held_gb = dataset.size.bytes * dataset.hot_fraction / GB
    if draft.workload.checkpoints is not None:
        held_gb += (draft.workload.checkpoints.keep_hot + 1) * (draft.needs.demand.checkpoint_gib or 0.0) * GIB / GB
    price = None if usd is None else usd * held_gb
    return f"S3 Express storage: {usd_per_month(price)} and requests, by the {RANKING_REGION} rows"


def _warn_slower(draft: Draft, choice: TierChoice, hot: Outcome) -> None:
    s3, parts = choice.s3.outcome, []
    save, save_s3 = hot.checkpoint_write_s, s3.checkpoint_write_s
    if save is not None and save_s3 is not None and not covers(save_s3, save):
        parts.append(f"a save takes {seconds(save)}, on S3 {seconds(save_s3)}")
    wait, wait_s3 = hot.data_wait_fraction, s3.data_wait_fraction
    if wait is not None and wait_s3 is not None and wait > wait_s3 + _SAME:
        parts.append(f"accelerators wait for data {percent(wait)} of the time, on S3 {percent(wait_s3)}")
    if parts:
        draft.warn("slower-than-s3", f"on {choice.tiers.hot} {listed(parts)}")


def warn_stall_bound(draft: Draft, lustre: LustreResult) -> None:
    """Say what the bound on stalls costs, where it and not ``max_write_time`` sets the write rate."""
    saves = draft.needs.saves
    if saves is None or not saves.stall_bound or saves.stall_write_s is None:
        return
    price, relaxed = lustre.plan.ranking_usd_per_month, price_at(lustre, saves.max_write_s)
    write = draft.needs.demand.checkpoint_write_mb_per_s or 0.0
    draft.warn(
        "stall-bound",
        f"max_stall {percent(saves.max_stall)} allows {seconds(saves.stall_write_s)} for a save, less than "
        f"max_write_time ({seconds(saves.max_write_s)}), and sets the write rate of {mb_per_s(write)}: "
        f"{usd_per_month(price)}; at max_write_time {usd_per_month(relaxed)}. Asynchronous saves "
        "(checkpoints.asynchronous: true) do not stall training",
    )
