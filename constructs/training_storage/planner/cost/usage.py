"""What a workload stores and moves, in the units that AWS bills: GiB, requests, an hour of training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from training_storage.planner.demand import PART_BYTES
from training_storage.planner.draft import Draft
from training_storage.planner.links import dataset_source
from training_storage.planner.model import ExpressPlan, LustrePlan, MountPlan, S3FilesPlan, SharedCachePlan, Tiers
from training_storage.planner.model_prediction import Prediction
from training_storage.units import GIB, MB

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts of a plan that cost something.

    Attributes:
        tiers: Which tiers there are.
        lustre: The file system, if any.
        express: The directory buckets, if any.
        s3_files: The S3 Files file system, if any.
        shared_cache: The directory bucket of Mountpoint's cache, if any.
        mounts: What nodes mount.
        prediction: What training will see.
    """

    tiers: Tiers
    lustre: LustrePlan | None
    express: ExpressPlan | None
    s3_files: S3FilesPlan | None
    shared_cache: SharedCachePlan | None
    mounts: tuple[MountPlan, ...]
    prediction: Prediction


@dataclass(slots=True, kw_only=True)
class Usage:
    """What is stored and moved. AWS counts 2^30 bytes as one GB of storage and of transfer (S3 FAQs, worked examples).

    Attributes:
        bucket: Bucket of the data set; None: the data lake.
        prefix: Its prefix.
        dataset_gib: The whole data set.
        hot_gib: What one run reads of it.
        file_bytes: Size of one file; None where it is not known.
        files: Files of the data set; None where they are not known.
        hot_files: Files that one run reads; None where they are not known.
        hot_parts: Requests of up to 8 MiB that read everything once, opens not counted.
        read_gib_per_h: What the tier delivers to the fleet; None where reads are not known.
        read_requests_per_h: GET and HEAD requests of these reads, an open and one for each part.
        opens_per_h: File opens of these reads; None where they are not known.
        checkpoint_gib: One checkpoint; 0 without checkpoints.
        checkpoint_parts: One checkpoint in parts of 8 MiB.
        kept_checkpoints: Newest checkpoints that stand where the job saves, the one being written among them.
        saves_per_h: Saves in an hour of training.
        promoted_per_h: Those that become key versions.
        restored_per_h: Checkpoints that are read after failures, each reader counted.
    """

    bucket: str | None
    prefix: str
    dataset_gib: float
    hot_gib: float
    file_bytes: float | None
    files: float | None
    hot_files: float | None
    hot_parts: float
    read_gib_per_h: float | None
    read_requests_per_h: float
    opens_per_h: float | None
    checkpoint_gib: float
    checkpoint_parts: float
    kept_checkpoints: int
    saves_per_h: float
    promoted_per_h: float
    restored_per_h: float


def measure_usage(draft: Draft, prediction: Prediction) -> Usage:
    """Return what the workload stores and moves.

    Reads count as far as the tier delivers them. Saves count once an interval: what a synchronous save takes itself is
    not added to the interval, so that a faster file system never makes a cheaper bill.

    Args:
        draft: The plan while it is written.
        prediction: What training will see.
    """
    needs, workload = draft.needs, draft.workload
    dataset, checkpoints = workload.dataset, workload.checkpoints
    bucket, prefix = dataset_source(workload)
    hot_bytes = dataset.size.bytes * dataset.hot_fraction
    files, size = needs.file_count, needs.file_bytes
    if size is None and files:
        size = dataset.size.bytes / files
    hot_files = None if files is None else files * dataset.hot_fraction
    if hot_files is None or size is None:
        hot_parts = hot_bytes / PART_BYTES
    else:
        hot_parts = hot_files * math.ceil(size / PART_BYTES)
    delivered = SECONDS_PER_HOUR * (1 - (prediction.data_wait_fraction or 0.0))
    read, opens = needs.demand.read_mb_per_s, needs.demand.file_opens_per_s
    saves, interval_s = needs.saves, prediction.checkpoint_interval_s
    found = Usage(
        bucket=bucket,
        prefix=prefix,
        dataset_gib=dataset.size.bytes / GIB,
        hot_gib=hot_bytes / GIB,
        file_bytes=size,
        files=files,
        hot_files=hot_files,
        hot_parts=hot_parts,
        read_gib_per_h=None if read is None else read * MB / GIB * delivered,
        read_requests_per_h=(needs.read_requests_per_s or 0.0) * delivered,
        opens_per_h=None if opens is None else opens * delivered,
        checkpoint_gib=0.0,
        checkpoint_parts=0.0,
        kept_checkpoints=0,
        saves_per_h=0.0,
        promoted_per_h=0.0,
        restored_per_h=0.0,
    )
    if saves is not None and checkpoints is not None:
        found.checkpoint_gib = saves.checkpoint_bytes / GIB
        found.checkpoint_parts = float(math.ceil(saves.checkpoint_bytes / PART_BYTES))
        found.kept_checkpoints = checkpoints.keep_hot + 1
        found.saves_per_h = SECONDS_PER_HOUR / interval_s if interval_s else 0.0
        found.promoted_per_h = found.saves_per_h / checkpoints.promote_every
        found.restored_per_h = prediction.failures_per_day / 24 * saves.restore_readers
    return found
