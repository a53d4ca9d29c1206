"""S3 Files on the bill: what it stores and meters where training reads the data set through it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from training_storage.planner.cost.lines import Item, gigabytes, requests
from training_storage.planner.cost.usage import Usage
from training_storage.planner.draft import Draft
from training_storage.planner.words import counted
from training_storage.rules.s3_files_settings import DEFAULT_IMPORT_BELOW_BYTES
from training_storage.units import GIB


def s3_files_items(draft: Draft, usage: Usage) -> Iterator[Item]:
    """Yield what reading through S3 Files costs.

    Files below 128 KiB are copied into its own storage once, and read there; larger ones are read from S3 each time.
    It is paid by use: a file system that is there already counts like one that is made.

    Args:
        draft: The plan while it is written; takes assumptions.
        usage: What is stored and moved.
    """
    facts = draft.catalog.object_storage
    ours = draft.workload.s3_files.file_system_id is None
    metadata = facts.s3_files_metadata_min_bytes
    # S3 Files copies the small files of a directory when it is first opened: all of them count, not the hot ones.
    size, files = usage.file_bytes, usage.files
    written, read_requests = 0.0, usage.read_requests_per_h
    read = read_requests * metadata
    small = size is not None and size < DEFAULT_IMPORT_BELOW_BYTES
    if size is not None and small:
        step = facts.s3_files_size_step_bytes
        billed = max(facts.s3_files_data_min_bytes, math.ceil(size / step) * step)
        stored = (files or 0.0) * max(facts.s3_files_file_min_bytes, size)
        written = (files or 0.0) * billed
        read = (usage.opens_per_h or 0.0) * (billed + metadata)
        yield Item(
            item="s3_files.storage",
            label="S3 Files: files below 128 KiB in its own storage",
            kind="storage",
            unit="GB-month",
            per_month=stored / GIB,
            hot=ours,
        )
    if files is not None:
        imported = (written + files * metadata) / GIB
        label = f"S3 Files imports {counted(files, 'file')} once a run"
        yield gigabytes("s3_files.write", label, once=imported, hot=True)
    if read:
        label = "S3 Files: reads of its own storage" if small else "S3 Files: look-ups for reads of S3"
        yield gigabytes("s3_files.read", label, per_hour=read / GIB, hot=True)
    if small:
        yield requests("s3.get_requests", "GET: S3 Files imports the data once a run", once=files or 0.0, hot=True)
    elif read_requests:
        yield requests("s3.get_requests", "GET: S3 Files reads the data from S3", per_hour=read_requests, hot=True)
    _assume(draft, size, small=small)


def _assume(draft: Draft, size: float | None, *, small: bool) -> None:
    if small:
        draft.assume(
            "S3 Files copies files below 128 KiB once a run and meters 32 KiB for each read at least; what the job "
            "writes in the data tree is not known and not in the bill"
        )
        return
    unknown = "files of unknown size count as large; " if size is None else ""
    draft.assume(
        f"S3 Files reads files of 128 KiB and more from S3 and meters 4 KiB of metadata for each request; {unknown}"
        "what the job writes in the data tree is not known and not in the bill"
    )
