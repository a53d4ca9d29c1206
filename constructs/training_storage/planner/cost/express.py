"""S3 Express One Zone on the bill: the hot tier, and the shared cache of Mountpoint."""

from __future__ import annotations

import math
from collections.abc import Iterator

from training_storage.planner.cost.lines import Item, gigabytes, requests
from training_storage.planner.cost.usage import Usage
from training_storage.planner.draft import Draft
from training_storage.planner.model import ExpressPlan, SharedCachePlan
from training_storage.planner.words import counted
from training_storage.units import GIB, MIB

SINGLE_COPY_BYTES = GIB
COPY_PART_BYTES = 256 * MIB
"""Up to which size ``stage`` and ``archive`` copy an object by one request, and their parts beyond it."""

_UPLOAD_REQUESTS = 2
"""An upload in parts is begun and completed by a request each."""


def express_items(draft: Draft, express: ExpressPlan, usage: Usage) -> Iterator[Item]:
    """Yield what the hot tier in directory buckets costs.

    Buckets that are there already are paid by what lies in them: what this job puts there counts all the same, and
    releasing the stacks does not end it.

    Args:
        draft: The plan while it is written; takes assumptions.
        express: The directory buckets.
        usage: What is stored and moved.
    """
    ours = not draft.workload.express.bucket_names
    if not ours:
        draft.assume(
            "what this job puts into express.bucket_names and asks of them is in the bill; what else lies there is not"
        )
    kept = usage.kept_checkpoints
    buckets = f"{express.bucket_count:,} directory bucket{'' if express.bucket_count == 1 else 's'}"
    yield Item(
        item="s3_express.storage",
        label=f"S3 Express, {buckets}: the data{f' and {kept:,} checkpoints' if kept else ''}",
        kind="storage",
        unit="GB-month",
        per_month=usage.hot_gib + kept * usage.checkpoint_gib,
        hot=ours,
    )
    yield from _staging(draft, usage, ours)
    yield from _training(draft, usage, ours)


def _staging(draft: Draft, usage: Usage, hot: bool) -> Iterator[Item]:
    """Copy the data once a run, as ``training-storage stage`` does: on the servers' side, each copy looked at after."""
    files, copies = usage.hot_files, _copies(usage)
    listing = (files or 0.0) / draft.catalog.object_storage.list_keys_per_request
    yield requests("s3_express.put_requests", "COPY: the data is staged once a run", once=copies + listing, hot=hot)
    yield gigabytes("s3_express.upload", "upload of the staged data", once=usage.hot_gib, hot=hot)
    if files is None:
        draft.assume("files of unknown number are staged in parts of 8 MiB; listing and checking them is not counted")
        return
    yield requests(
        "s3_express.get_requests", f"HEAD: the copies of {counted(files, 'file')} are checked", once=files, hot=hot
    )
    yield requests("s3.put_requests", "LIST: what is to be staged", once=listing, hot=hot)


def _copies(usage: Usage) -> float:
    if usage.hot_files is None or usage.file_bytes is None:
        return usage.hot_parts
    if usage.file_bytes <= SINGLE_COPY_BYTES:
        return usage.hot_files
    return usage.hot_files * (math.ceil(usage.file_bytes / COPY_PART_BYTES) + _UPLOAD_REQUESTS)


def _training(draft: Draft, usage: Usage, hot: bool) -> Iterator[Item]:
    gets = usage.read_requests_per_h + usage.restored_per_h * usage.checkpoint_parts
    if gets:
        label = "GET and HEAD: reads of training, and restores"
        yield requests("s3_express.get_requests", label, per_hour=gets, hot=hot)
    puts, lists = usage.saves_per_h * usage.checkpoint_parts, 0.0
    if draft.workload.dataset.interface == "posix":
        lists = (usage.opens_per_h or 0.0) * draft.catalog.object_storage.mountpoint_lists_per_open
    if puts or lists:
        label = "PUT and LIST: saves, and look-ups of files" if lists else "PUT: saves in parts of 8 MiB"
        yield requests("s3_express.put_requests", label, per_hour=puts + lists, hot=hot)
    if usage.saves_per_h:
        saved = usage.saves_per_h * usage.checkpoint_gib
        yield gigabytes("s3_express.upload", "upload of saves", per_hour=saved, hot=hot)
    copied = (usage.restored_per_h + usage.promoted_per_h) * usage.checkpoint_gib
    retrieved = (usage.read_gib_per_h or 0.0) + copied
    if retrieved:
        label = "retrieval: reads, restores and key versions"
        yield gigabytes("s3_express.retrieval", label, per_hour=retrieved, hot=hot)


def keeps_in_cache(draft: Draft, usage: Usage) -> bool:
    """Whether a shared cache keeps the files of the data set; of an unknown size it is taken that it does not."""
    size = usage.file_bytes
    return size is not None and size <= draft.catalog.object_storage.mountpoint_shared_cache_max_object_bytes


def refills_per_h(cache: SharedCachePlan) -> float:
    """Return how often in an hour everything enters the cache again: once each time that it has expired."""
    return 0.0 if cache.expire_after_days is None else 1 / (cache.expire_after_days * 24)


def shared_cache_items(cache: SharedCachePlan, usage: Usage) -> Iterator[Item]:
    """Yield what the shared cache costs where training reads through it and it keeps the files.

    Args:
        cache: The directory bucket of the cache.
        usage: What is stored and moved.
    """
    days, refills = cache.expire_after_days, refills_per_h(cache)
    files, hot = usage.hot_files or 0.0, days is not None
    yield Item(
        item="s3_express.storage",
        label="shared cache in S3 Express: all that one run reads",
        kind="storage",
        unit="GB-month",
        per_month=usage.hot_gib,
        hot=hot,
    )
    yield requests("s3_express.put_requests", f"PUT: {counted(files, 'file')} into the cache", once=files, hot=hot)
    yield gigabytes("s3_express.upload", "upload of what enters the cache", once=usage.hot_gib, hot=hot)
    if days is not None:
        label = f"PUT: they enter it again, for it forgets them after {counted(days, 'day')}"
        yield requests("s3_express.put_requests", label, per_hour=files * refills, hot=hot)
        again = usage.hot_gib * refills
        yield gigabytes("s3_express.upload", "upload of what enters it again", per_hour=again, hot=hot)
    if usage.opens_per_h:
        yield requests("s3_express.get_requests", "GET: reads from the cache", per_hour=usage.opens_per_h, hot=hot)
    if usage.read_gib_per_h:
        yield gigabytes("s3_express.retrieval", "retrieval from the cache", per_hour=usage.read_gib_per_h, hot=hot)
