"""The file system on the bill: capacity or throughput, metadata IOPS, caches, backups, and its first load from S3."""

from __future__ import annotations

from collections.abc import Iterator

from training_storage.planner.cost.lines import Item, requests
from training_storage.planner.cost.usage import Usage
from training_storage.planner.demand import CAPACITY_SHARE
from training_storage.planner.draft import Draft
from training_storage.planner.links import covers_dataset, touches_dataset
from training_storage.planner.model import LustrePlan
from training_storage.planner.words import counted

HDD_CACHE_SHARE = 5
"""The SSD read cache of HDD storage is a fifth of the capacity (FSx for Lustre price page)."""


def lustre_items(draft: Draft, lustre: LustrePlan, usage: Usage) -> Iterator[Item]:
    """Yield what the file system costs, and what its first load costs on S3.

    A file system that is there already is paid by its capacity whether this job runs or not: it has no line.

    Args:
        draft: The plan while it is written; takes assumptions.
        lustre: The file system.
        usage: What is stored and moved.
    """
    existing = draft.workload.lustre.file_system_id
    yield from standing_items(draft, lustre)
    if existing is not None:
        draft.assume(f"{existing} is there already and is paid whatever this job does: it is not in the bill")
    else:
        yield from _backups(draft, usage)
    if covers_dataset(lustre.links, draft.workload):
        yield from _load(draft, usage)
    elif touches_dataset(lustre.links, draft.workload):
        draft.assume(
            "the links bring a part of the data set, of a size that is not known: loading it is not in the bill, and "
            "copying the rest is up to its owner"
        )
    elif existing is None or draft.workload.lustre.links is not None:
        draft.assume(
            "no link brings the data set to the file system: copying it there is up to its owner and not in the bill"
        )


def standing_items(draft: Draft, lustre: LustrePlan) -> Iterator[Item]:
    """Yield what the file system costs by being there, trained or not, backups left out; nothing of one that is given.

    Args:
        draft: The plan while it is written; takes assumptions.
        lustre: The file system.
    """
    if draft.workload.lustre.file_system_id is not None:
        return
    if lustre.storage_capacity_gib is None:
        yield from _tiered(draft, lustre)
    else:
        yield from _provisioned(draft, lustre, lustre.storage_capacity_gib)


def _provisioned(draft: Draft, lustre: LustrePlan, capacity: int) -> Iterator[Item]:
    kind = f"{lustre.deployment_type} {lustre.storage_type}"
    name, tier = f"lustre.{lustre.deployment_type}.{lustre.storage_type}", lustre.per_unit_storage_throughput
    yield Item(
        item=f"{name}.{tier}" if tier else name,
        label=f"Lustre {kind}{f' {tier} MB/s per TiB' if tier else ''}, {capacity:,} GiB",
        kind="storage",
        unit="GiB-month",
        per_month=float(capacity),
        hot=True,
    )
    if draft.workload.lustre.drive_cache == "read":
        yield Item(
            item=f"{name}.read_cache",
            label="SSD read cache, a fifth of the capacity",
            kind="storage",
            unit="GiB-month",
            per_month=capacity / HDD_CACHE_SHARE,
            hot=True,
        )
    if lustre.metadata_mode == "USER_PROVISIONED" and lustre.metadata_iops is not None:
        extra = lustre.metadata_iops - draft.catalog.lustre.automatic_metadata_iops(capacity)
        if extra > 0:
            yield Item(
                item="lustre.metadata_iops",
                label=f"{extra:,} metadata IOPS above AUTOMATIC",
                kind="metadata",
                unit="IOPS-month",
                per_month=float(extra),
                hot=True,
            )


def _tiered(draft: Draft, lustre: LustrePlan) -> Iterator[Item]:
    """INTELLIGENT_TIERING: throughput, the read cache and metadata IOPS are bought, and stored data is counted."""
    name, given = f"lustre.{lustre.deployment_type}.{lustre.storage_type}", draft.workload.lustre
    throughput = float(lustre.throughput_capacity_mb_per_s or 0)
    yield Item(
        item=f"{name}.throughput",
        label=f"Lustre {lustre.deployment_type} {lustre.storage_type}, {throughput:,.0f} MB/s",
        kind="throughput",
        unit="MB/s-month",
        per_month=throughput,
        hot=True,
    )
    yield Item(
        item=f"{name}.frequent",
        label="stored data, all of it in the frequent access tier",
        kind="storage",
        unit="GB-month",
        per_month=draft.needs.demand.hot_capacity_gib * CAPACITY_SHARE,
        hot=True,
    )
    if given.read_cache_gib is not None:
        yield Item(
            item=f"{name}.read_cache",
            label=f"SSD read cache, {given.read_cache_gib:,} GiB",
            kind="storage",
            unit="GiB-month",
            per_month=float(given.read_cache_gib),
            hot=True,
        )
    elif given.read_cache != "none":  # what is made where nothing is said
        yield Item(
            item=f"{name}.read_cache_proportional",
            label="SSD read cache in proportion to the throughput; its size is not published",
            kind="storage",
            unit="MB/s-month",
            per_month=throughput,
            hot=True,
        )
    if lustre.metadata_iops is not None:
        yield Item(
            item=f"{name}.metadata_iops",
            label=f"{lustre.metadata_iops:,} metadata IOPS",
            kind="metadata",
            unit="IOPS-month",
            per_month=float(lustre.metadata_iops),
            hot=True,
        )
    draft.assume(
        "INTELLIGENT_TIERING: all that is stored is read often and stays in the frequent access tier; reads that miss "
        "the caches are charged by the request, of a size that is not published, and are not in the bill"
    )


def _backups(draft: Draft, usage: Usage) -> Iterator[Item]:
    """Daily backups: all data once, and for each further day kept the checkpoints that were new on it."""
    days = draft.workload.lustre.backup_retention_days
    if not days:
        return
    stored = draft.needs.demand.hot_capacity_gib * CAPACITY_SHARE
    new_a_day = min(float(usage.kept_checkpoints), usage.saves_per_h * 24) * usage.checkpoint_gib
    yield Item(
        item="lustre.backup",
        label=f"daily backups kept {days} day{'' if days == 1 else 's'}",
        kind="storage",
        unit="GB-month",
        per_month=stored + (days - 1) * new_a_day,
        hot=True,
    )
    draft.assume(
        "backups are incremental: they hold all data once, and for each further day the checkpoints that are new; "
        "neither compression nor other changes are counted"
    )


def _load(draft: Draft, usage: Usage) -> Iterator[Item]:
    files, parts = usage.files, usage.hot_parts
    if files is None:
        yield requests("s3.get_requests", "GET: the data is loaded from S3 once a run", once=parts, hot=True)
        draft.assume(
            "FSx reads S3 in parts of 8 MiB, which is not published; requests that import the listing are not in the "
            "bill, for the number of files is not known"
        )
        return
    named = f"{counted(files, 'file')} {'is' if files == 1 else 'are'} imported"
    yield requests("s3.get_requests", f"GET and HEAD: {named} and loaded once a run", once=parts + files, hot=True)
    lists = files / draft.catalog.object_storage.list_keys_per_request
    yield requests("s3.put_requests", "LIST: names are imported once a run", once=lists, hot=True)
    draft.assume(
        "FSx reads S3 in parts of 8 MiB, and asks for each file by one HEAD when it imports the listing; neither is "
        "published"
    )
