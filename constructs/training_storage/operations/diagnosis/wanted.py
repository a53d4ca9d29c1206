"""Which series the rules look at: metric, names of dimensions and statistic.

CloudWatch is asked for these, and records of files are folded into them.
"""

from __future__ import annotations

from typing import Final

from training_storage.node.metrics.model import FLEET, NODE, RANK
from training_storage.node.metrics.ours import OURS
from training_storage.node.metrics.services import (
    CHECKPOINTS_FILTER,
    DATASETS_FILTER,
    FILE_SERVER,
    FILE_SYSTEM,
    PUBLISHER,
    PUBLISHERS,
    SERVICES,
    TARGET,
    WHOLE_BUCKET_FILTER,
)

Wanted = tuple[str, tuple[str, ...], str]
"""Key of the metrics' tables, names of dimensions, statistic."""

_FSX: Final = (FILE_SYSTEM,)
_BUCKET: Final = ("BucketName", "FilterId")
FILTERS: Final = (DATASETS_FILTER, CHECKPOINTS_FILTER, WHOLE_BUCKET_FILTER)


def _ours(names: tuple[str, ...], *metrics: str) -> tuple[Wanted, ...]:
    return tuple((metric, names, OURS[metric].statistic) for metric in metrics)


def _service(names: tuple[str, ...], *metrics: str) -> tuple[Wanted, ...]:
    return tuple((metric, names, SERVICES[metric].statistic) for metric in metrics)


FLEETS: Final = _ours(
    FLEET,
    *("ElapsedTime", "DataWaitTime", "Steps", "StepTime", "LoaderQueueEmptyShare", "TrainingReadBytes", "Epoch"),
    *("CheckpointSaveTime", "CheckpointBlockedTime", "CheckpointSaveBytes", "RestoreTime", "DroppedRecords"),
    *("StorageReadBytes", "StorageWriteBytes", "ApplicationReadBytes", "FileOpens", "StorageRpcWaitTime"),
    *("StorageRequestErrors", "ThrottledRequests", "EfaBytes", "TcpBytes"),
    *("nvidia_smi_utilization_gpu", "cpu_usage_active"),
)
NODES: Final = _ours(
    NODE,
    *("ElapsedTime", "DataWaitTime", "StorageReadBytes", "StorageRpcWaitTime", "MountsMissing"),
    *("nvidia_smi_utilization_gpu", "cpu_usage_active"),
)
RANKS: Final = _ours(RANK, "ElapsedTime", "DataWaitTime", "StepTime")
FILE_SYSTEMS: Final[tuple[Wanted, ...]] = (
    *_service(_FSX, "AWS/FSx DataReadBytes", "AWS/FSx DataWriteBytes", "AWS/FSx MetadataOperations"),
    *_service(_FSX, "AWS/FSx ClientConnections", "AWS/FSx FreeDataStorageCapacity"),
    ("AWS/FSx DataReadBytes", _FSX, "Maximum"),
    ("AWS/FSx DataReadBytes", _FSX, "Average"),
    ("AWS/FSx FreeDataStorageCapacity", _FSX, "Minimum"),
    ("AWS/FSx FreeDataStorageCapacity", _FSX, "Average"),
)
SERVERS: Final[tuple[Wanted, ...]] = tuple(
    # The mean of a minute, not its peak: what is full for a second holds nobody up.
    (metric, (FILE_SYSTEM, FILE_SERVER), "Average")
    for metric in (
        "AWS/FSx NetworkThroughputUtilization",
        "AWS/FSx FileServerDiskThroughputUtilization",
        "AWS/FSx CPUUtilization",
    )
)
TARGETS: Final = _service((FILE_SYSTEM, TARGET), "AWS/FSx DiskReadBytes", "AWS/FSx FileOpenOperations")
QUEUES: Final = _service((FILE_SYSTEM, PUBLISHER), "AWS/FSx AgeOfOldestQueuedMessage")
BUCKETS: Final = _service(
    _BUCKET, "AWS/S3 AllRequests", "AWS/S3 GetRequests", "AWS/S3 BytesDownloaded", "AWS/S3 5xxErrors"
)
S3_FILES: Final = _service(_FSX, "AWS/S3/Files ExportAge", "AWS/S3/Files ImportAge", "AWS/S3/Files PendingExports")

WANTED: Final[tuple[Wanted, ...]] = (
    *FLEETS,
    *NODES,
    *RANKS,
    *FILE_SYSTEMS,
    *SERVERS,
    *TARGETS,
    *QUEUES,
    *BUCKETS,
    *S3_FILES,
)
"""All of them."""

__all__ = ["PUBLISHERS", "WANTED", "Wanted"]
