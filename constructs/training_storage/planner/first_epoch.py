"""The first pass over the data, which a linked file system reads through from S3 as files are opened."""

from __future__ import annotations

import math

from training_storage.planner.cost.lines import line
from training_storage.planner.cost.lustre import standing_items
from training_storage.planner.draft import Draft
from training_storage.planner.links import covers_dataset
from training_storage.planner.model import LustrePlan
from training_storage.planner.model_prediction import FirstEpoch
from training_storage.planner.prices import fleet_usd_per_hour
from training_storage.planner.supply import data_wait
from training_storage.planner.words import mb_per_s, number
from training_storage.units import GB, MB


def first_epoch(draft: Draft, lustre: LustrePlan | None, supply_mb_per_s: float) -> FirstEpoch | None:
    """Return the first pass, or None where nothing is read through from S3, or reads are not known.

    Args:
        draft: The plan while it is written; takes the assumption.
        lustre: The file system, where it is the hot tier.
        supply_mb_per_s: Reads that it delivers to the fleet once the data is there.
    """
    needs, dataset = draft.needs, draft.workload.dataset
    read = needs.demand.read_mb_per_s
    pass_mb = dataset.size.bytes * dataset.hot_fraction / MB
    if lustre is None or not read or pass_mb <= 0:
        return None
    if not covers_dataset(lustre.links, draft.workload):
        return None
    rates = draft.catalog.object_storage
    gets, get_mb = rates.get_requests_per_s_per_prefix, _get_bytes(needs.file_bytes, rates.part_bytes) / MB
    from_s3, written = gets * get_mb, lustre.write_throughput_mb_per_s
    load = min(from_s3, written)
    assumption = (
        f"no rate is published at which a linked file system loads files from S3; it counts as {mb_per_s(load)}, the "
        f"smaller of what one prefix gives ({number(gets)} GET a second x {number(get_mb)} MB: {mb_per_s(from_s3)}) "
        f"and what the disks write ({mb_per_s(written)})"
    )
    draft.assume(assumption)
    steady = min(read, supply_mb_per_s)
    first = min(steady, load)
    steady_s, first_s, preload_s = pass_mb / steady, pass_mb / first, pass_mb / load
    fleet = fleet_usd_per_hour(draft)
    storage = _storage_usd_per_hour(draft, lustre)
    return FirstEpoch(
        read_gb=pass_mb * MB / GB,
        load_mb_per_s=load,
        steady_s=steady_s,
        first_s=first_s,
        data_wait_fraction=data_wait(read, first) or 0.0,
        added_gpu_usd=None if fleet is None else (first_s - steady_s) / 3600 * fleet,
        preload_s=preload_s,
        preload_storage_usd=None if storage is None else preload_s / 3600 * storage,
        assumption=assumption,
    )


def _get_bytes(file_bytes: float | None, part_bytes: int) -> float:
    """Bytes of one request where a file is loaded in parts; a file of unknown size counts as full parts.

    The request that looks a file up came when the listing was imported.
    """
    return part_bytes if file_bytes is None else file_bytes / math.ceil(file_bytes / part_bytes)


def _storage_usd_per_hour(draft: Draft, lustre: LustrePlan) -> float | None:
    """What the file system costs in an hour, by the lines of its bill; None where a price of it is not known.

    Of one that is there already 0: it is paid whatever this job does.
    """
    hourly = [line(draft, item, None).hourly for item in standing_items(draft, lustre)]
    known = [usd for usd in hourly if usd is not None]
    return math.fsum(known) if len(known) == len(hourly) else None
