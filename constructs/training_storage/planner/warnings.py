"""Warnings that compare tiers or name what is not known. Ids are public contract."""

from __future__ import annotations

from training_storage.planner.demand import PART_BYTES, covers
from training_storage.planner.draft import Draft
from training_storage.planner.latency import unit_bytes
from training_storage.planner.lustre_plan import LustreResult, price_at
from training_storage.planner.model import Tiers
from training_storage.planner.model_prediction import LimitName, Prediction
from training_storage.planner.s3_supply import save_shortfalls
from training_storage.planner.supply import Outcome
from training_storage.planner.tiers import TierChoice
from training_storage.planner.words import listed, mb_per_s, percent, seconds, usd_per_month

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
    idle = _unused_lifecycle(draft, tiers)
    if idle:
        draft.warn(
            "lifecycle-unused",
            f"{listed([f'lifecycle.{key}' for key in idle])} {'has' if len(idle) == 1 else 'have'} no effect: "
            + ("there is no hot tier in this plan" if tiers.hot == "none" else "there is no Lustre in this plan"),
        )
    if not shared_cache and workload.mountpoint.cache == "express":
        draft.warn("shared-cache-unused", "mountpoint.cache: express has no effect: nothing is mounted by Mountpoint")


def _unused_lifecycle(draft: Draft, tiers: Tiers) -> list[str]:
    """Return the keys of the lifecycle section that are given for a tier which the plan does not have."""
    # A guard in front of nothing says nothing; an idle tier of either kind can be released.
    used = {"lustre": None, "express": {"guard", "release_when_idle_for"}, "none": {"guard"}}[tiers.hot]
    life = draft.workload.lifecycle
    return [] if used is None else [key for key in life.fields if key in life.model_fields_set - used]


def warn_tiers(draft: Draft, choice: TierChoice, hot: Outcome) -> None:
    """Say where S3 does better than the hot tier, or where it does not do what is asked for."""
    s3 = choice.s3
    if choice.tiers.hot == "none":
        if s3.shortfalls:
            draft.warn(
                "s3-too-small",
                f"hot_tier: none is given, and S3 alone does not serve the workload: "
                f"{'; '.join(shortfall.text for shortfall in s3.shortfalls)}",
            )
        return
    if choice.tiers.hot == "express":
        missed = save_shortfalls(draft.needs, hot, draft.facts, saves_on_nvme=False)
        if missed:
            draft.warn(
                "express-too-slow",
                f"the fleet reaches S3 Express too slowly: {'; '.join(each.text for each in missed)}. More instances, "
                "or a type with more network, would be faster",
            )
    _warn_slower(draft, choice, hot)


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


_SAID: dict[LimitName, tuple[str, ...]] = {
    "disk": ("lustre-too-small",),
    "network": ("client-limit", "s3-too-small"),
    "client": ("client-limit", "s3-too-small"),
    "requests": ("s3-too-small",),
    "opens": ("metadata-short",),
    "latency": (),
}
"""Warnings that have the figures of a limit already."""

_ADVISED = ("client-limit", "metadata-short")
"""Those among them that say what lifts it, too."""


def warn_data_wait(draft: Draft, prediction: Prediction, tiers: Tiers) -> None:
    """Say that accelerators will wait for data, for what, and what would lift that."""
    wait, demand = prediction.data_wait_fraction, draft.needs.demand.read_mb_per_s
    if wait is None or demand is None or wait <= _SAME:
        return
    limit, there = prediction.limits[0], {warning.id for warning in draft.warnings}
    said = next((each for each in _SAID[limit.name] if each in there), None)
    why = f", as {said} says" if said else f" ({limit.because})"
    advice = "" if said in _ADVISED else f"; {_lift(draft, limit.name, tiers)}"
    draft.warn(
        "data-wait",
        f"accelerators wait for data {percent(wait)} of the time: reads need {mb_per_s(demand)} and get "
        f"{mb_per_s(limit.mb_per_s)}, which {_BINDS[limit.name]} allows{why}{advice}",
    )


_BINDS: dict[LimitName, str] = {
    "disk": "the throughput of the disks",
    "network": "the network of the fleet",
    "client": "what one client may move",
    "requests": "the request rate of one S3 prefix",
    "opens": "the rate of file opens",
    "latency": "latency",
}


def _lift(draft: Draft, name: LimitName, tiers: Tiers) -> str:
    """What the author can change to lift a limit."""
    or_lustre = "" if tiers.hot == "lustre" else ", or hot_tier: lustre"
    if name == "disk":
        if draft.workload.lustre.storage_type == "INTELLIGENT_TIERING":
            return "give a larger lustre.throughput_capacity"
        return "give a larger lustre.storage_capacity or a higher lustre.per_unit_storage_throughput"
    if name == "latency":
        # A read brings one part at most: beyond it only more of them help.
        larger = "" if unit_bytes(draft.needs) >= PART_BYTES else ", or larger samples and files,"
        return f"more workers or prefetch of dataset.loader{larger} would lift it{or_lustre}"
    if name == "requests":
        return f"larger files, or shards of many samples, would lift it{or_lustre}"
    return f"more instances, or a type with more network, would lift it{or_lustre}"
