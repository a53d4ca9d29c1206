"""Amazon S3 on the bill: what lies in the data lake, and the requests of reads, saves and restores."""

from __future__ import annotations

import math
from collections.abc import Iterator

from training_storage.planner.cost.express import COPY_PART_BYTES, keeps_in_cache, refills_per_h, shared_cache_items
from training_storage.planner.cost.lines import Item, requests
from training_storage.planner.cost.s3_files import s3_files_items
from training_storage.planner.cost.usage import Parts, Usage
from training_storage.planner.draft import Draft
from training_storage.planner.model import MountPlan, SharedCachePlan
from training_storage.planner.model_cost import HOURS_PER_MONTH
from training_storage.planner.words import counted, number
from training_storage.units import GIB, MIB

_NOISE = 1e-9
"""A share of the time that is rounding."""


def lake_items(draft: Draft, parts: Parts, usage: Usage) -> Iterator[Item]:
    """Yield what lies in the data lake and what is written there.

    Args:
        draft: The plan while it is written; takes assumptions.
        parts: The parts of the plan.
        usage: What is stored and moved.
    """
    if usage.bucket is None:
        yield _stored("data set in the data lake", per_month=usage.dataset_gib)
    else:
        draft.assume(
            f"the data set lies in {usage.bucket}, whose owner pays for its storage; requests of this job count"
        )
    if usage.saves_per_h:
        yield from _checkpoints(draft, parts, usage)
    lake = draft.workload.data_lake
    if lake.bucket is None and lake.encryption == "kms" and lake.kms_key_arn is None:
        yield Item(item="kms.key", label="key of the data lake", kind="storage", unit="month", per_month=1.0)


def _stored(label: str, *, per_month: float | None = None, per_hour: float | None = None) -> Item:
    return Item(
        item="s3.standard.storage",
        label=label,
        kind="storage",
        unit="GB-month",
        per_month=per_month,
        per_hour=per_hour,
    )


def _checkpoints(draft: Draft, parts: Parts, usage: Usage) -> Iterator[Item]:
    """Yield key versions; without a hot tier every save goes to the lake, and those that are pruned go on costing."""
    size, promoted, lake = usage.checkpoint_gib, usage.promoted_per_h, draft.workload.data_lake
    hot = parts.tiers.hot
    if hot == "none":
        kept = usage.kept_checkpoints
        yield _stored(f"{kept:,} newest checkpoints in the data lake", per_month=kept * size)
    yield _stored(
        f"key versions in the data lake: {number(promoted * HOURS_PER_MONTH)} a month, each for a month",
        per_hour=promoted * size,
    )
    draft.assume(
        "a key version is kept, and counts one month of S3 Standard storage: older ones go on costing, less once they "
        "are in infrequent access"
    )
    if hot != "none":
        # FSx exports in parts that are not published: 8 MiB are taken. ``archive`` copies in parts of 256 MiB.
        pieces = math.ceil(size * GIB / COPY_PART_BYTES) if hot == "express" else usage.checkpoint_parts
        yield requests("s3.put_requests", "PUT: key versions go to the data lake", per_hour=promoted * pieces)
        return
    pruned = usage.saves_per_h - promoted
    if lake.bucket is not None:
        draft.assume(
            f"whether {lake.bucket} keeps old versions is not known: checkpoints that are pruned cost nothing more"
        )
    elif lake.versioned and pruned > 0:
        days = lake.noncurrent_versions_expire_after.seconds / 86400
        yield _stored(
            f"pruned checkpoints, whose versions stay {counted(days, 'day')}",
            per_hour=pruned * size * days * 24 / HOURS_PER_MONTH,
        )
    puts = usage.saves_per_h * usage.checkpoint_parts
    yield requests("s3.put_requests", "PUT: saves in parts of 8 MiB", per_hour=puts)
    gets = usage.restored_per_h * usage.checkpoint_parts
    yield requests("s3.get_requests", "GET: restores after failures", per_hour=gets)


def read_items(draft: Draft, parts: Parts, usage: Usage) -> Iterator[Item]:
    """Yield what reading the data set costs where there is no hot tier in between.

    Args:
        draft: The plan while it is written; takes assumptions.
        parts: The parts of the plan.
        usage: What is stored and moved.
    """
    if parts.tiers.hot != "none":
        if parts.shared_cache is not None:
            draft.assume(
                f"training reads on {parts.tiers.hot}: what else is read through the lake's mount and its shared cache "
                "is not known and not in the bill"
            )
        return
    mount = _reader(draft, parts.mounts, usage)
    if mount is not None and mount.kind == "s3-files":
        yield from s3_files_items(draft, usage)
        return
    if mount is None:
        if usage.read_requests_per_h:
            label = "GET and HEAD: training reads objects"
            yield requests("s3.get_requests", label, per_hour=usage.read_requests_per_h)
        return
    cache, shared = mount.options.get("cache"), parts.shared_cache
    if cache == "nvme" and _fits(mount, usage):
        _assume_wait(draft, parts, "nvme")
        nodes = draft.needs.instances
        label = (
            f"GET: {counted(nodes, 'node')} read{'s' if nodes == 1 else ''} everything once a run, then from local NVMe"
        )
        yield requests("s3.get_requests", label, once=nodes * usage.hot_parts)
        yield from _look_ups(draft, usage)
    elif cache == "express" and shared is not None and keeps_in_cache(draft, usage):
        _assume_wait(draft, parts, "express")
        yield from _through_shared_cache(draft, shared, usage)
    else:
        if cache in ("nvme", "express"):
            draft.assume(f"the {cache} cache does not keep what one run reads: every read counts as one of S3")
        if usage.read_requests_per_h:
            label = f"GET and HEAD: training reads through {mount.path}"
            yield requests("s3.get_requests", label, per_hour=usage.read_requests_per_h)
        yield from _lists(draft, usage)


def _assume_wait(draft: Draft, parts: Parts, cache: str) -> None:
    """Say that a wait for data is that of a first pass, where a cache serves the later ones."""
    if (parts.prediction.data_wait_fraction or 0.0) > _NOISE:
        draft.assume(
            f"the data wait is that of the first pass, in which every read is one of S3: what the {cache} cache serves "
            "after it is not counted as faster, and the bill has no more reads for it"
        )


def _reader(draft: Draft, mounts: tuple[MountPlan, ...], usage: Usage) -> MountPlan | None:
    """Return the mount that training reads the data set through; None where it reads objects itself."""
    if draft.workload.dataset.interface == "object":
        return None
    if usage.bucket is not None:
        return next((each for each in mounts if each.options.get("bucket") == usage.bucket), None)
    return mounts[0] if mounts else None


def _fits(mount: MountPlan, usage: Usage) -> bool:
    size = mount.options.get("cache_size_mib")
    return isinstance(size, int) and usage.hot_gib * GIB <= size * MIB


def _look_ups(draft: Draft, usage: Usage) -> Iterator[Item]:
    """Mountpoint holds what it knows of a file for a minute where it caches data, less otherwise: each open asks S3."""
    if usage.opens_per_h:
        yield requests("s3.get_requests", "HEAD: look-ups of files", per_hour=usage.opens_per_h)
    yield from _lists(draft, usage)


def _lists(draft: Draft, usage: Usage) -> Iterator[Item]:
    if usage.opens_per_h:
        lists = usage.opens_per_h * draft.catalog.object_storage.mountpoint_lists_per_open
        yield requests("s3.put_requests", "LIST: look-ups of files by Mountpoint", per_hour=lists)
        draft.assume(
            "Mountpoint looks a file up by a HEAD and a LIST each time it is opened, and a LIST costs as much as a PUT"
        )


def _through_shared_cache(draft: Draft, cache: SharedCachePlan, usage: Usage) -> Iterator[Item]:
    yield from shared_cache_items(cache, usage)
    yield requests("s3.get_requests", "GET: what enters the shared cache", once=usage.hot_parts)
    if refills := refills_per_h(cache):
        yield requests("s3.get_requests", "GET: what enters it again", per_hour=usage.hot_parts * refills)
    yield from _look_ups(draft, usage)
