"""Metrics of the services: names and dimensions as the facts have them.

Sources: FSx for Lustre user guide (fs-metrics) and the CloudWatch list of AWS/FSx; S3 user guide on metrics and
dimensions, on directory buckets and on S3 Files. Dimensions that are not known before a file system exists (FileServer,
StorageTargetId) can be searched for, and drawn, but no alarm can stand on a search.
"""

from __future__ import annotations

from .model import Metric

FILE_SYSTEM = "FileSystemId"
FILE_SERVER = "FileServer"
TARGET = "StorageTargetId"
PUBLISHER = "Publisher"
PUBLISHERS = ("AutoImport", "AutoExport")

DATASETS_FILTER = "datasets"
CHECKPOINTS_FILTER = "checkpoints"
WHOLE_BUCKET_FILTER = "all"
"""Filter ids (dimension FilterId) of the request metrics that our data lake is told to keep: those of its two folders
on a bucket of ours, and of everything in a directory bucket of ours. Only where monitoring is on."""

_FSX = ((FILE_SYSTEM,),)
_SERVER = ((FILE_SYSTEM, FILE_SERVER),)
_TARGET = ((FILE_SYSTEM, TARGET),)
_FILTER = (("BucketName", "FilterId"),)


def _fsx(
    name: str,
    unit: str,
    statistic: str,
    meaning: str,
    dimensions: tuple[tuple[str, ...], ...] = _FSX,
    trust: str = "seen",
) -> tuple[str, Metric]:
    return f"AWS/FSx {name}", Metric(name, "AWS/FSx", unit, dimensions, statistic, "fsx", meaning, trust)


def _s3(name: str, unit: str, statistic: str, meaning: str) -> tuple[str, Metric]:
    return f"AWS/S3 {name}", Metric(name, "AWS/S3", unit, _FILTER, statistic, "s3", meaning)


def _files(name: str, unit: str, statistic: str, meaning: str) -> tuple[str, Metric]:
    return f"AWS/S3/Files {name}", Metric(name, "AWS/S3/Files", unit, _FSX, statistic, "s3-files", meaning)


SERVICES: dict[str, Metric] = dict(
    (
        # Sum is the file system's, Maximum the hottest storage target's.
        _fsx("DataReadBytes", "Bytes", "Sum", "bytes that clients read"),
        _fsx("DataWriteBytes", "Bytes", "Sum", "bytes that clients wrote"),
        _fsx("DataReadOperations", "Count", "Sum", "reads of clients"),
        _fsx("DataWriteOperations", "Count", "Sum", "writes of clients"),
        _fsx("MetadataOperations", "Count", "Sum", "metadata operations of clients"),
        _fsx("ClientConnections", "Count", "Sum", "clients connected"),
        _fsx("FreeDataStorageCapacity", "Bytes", "Sum", "free space; Minimum: the fullest target", (*_FSX, *_TARGET)),
        _fsx(
            "StorageCapacityUtilization", "Percent", "Average", "share of the space that is used", _TARGET, "doubtful"
        ),
        _fsx("NetworkThroughputUtilization", "Percent", "Maximum", "share of a server's network that is used", _SERVER),
        _fsx(
            "FileServerDiskThroughputUtilization",
            "Percent",
            "Maximum",
            "share of a server's disk throughput that is used",
            _SERVER,
        ),
        _fsx("CPUUtilization", "Percent", "Maximum", "CPU of a metadata server", _SERVER),
        _fsx("DiskReadBytes", "Bytes", "Sum", "bytes read from the disks of one target", _TARGET),
        _fsx("DiskWriteBytes", "Bytes", "Sum", "bytes written to the disks of one target", _TARGET),
        _fsx("DiskIopsUtilization", "Percent", "Maximum", "share of a target's disk operations used", _TARGET),
        _fsx("FileOpenOperations", "Count", "Sum", "files opened on one metadata target", _TARGET),
        _fsx(
            "AgeOfOldestQueuedMessage",
            "Seconds",
            "Maximum",
            "age of the oldest change that a link has not carried over",
            ((FILE_SYSTEM, PUBLISHER),),
        ),
        # Request metrics: only where a metrics configuration with this filter is on the bucket; one minute.
        _s3("AllRequests", "Count", "Sum", "requests"),
        _s3("GetRequests", "Count", "Sum", "GET requests"),
        _s3("PutRequests", "Count", "Sum", "PUT requests"),
        _s3("BytesDownloaded", "Bytes", "Sum", "bytes downloaded"),
        _s3("BytesUploaded", "Bytes", "Sum", "bytes uploaded"),
        _s3("4xxErrors", "Count", "Sum", "requests refused as wrong or denied"),
        _s3("5xxErrors", "Count", "Sum", "requests that S3 failed or throttled (503)"),
        _s3("FirstByteLatency", "Milliseconds", "Average", "time to the first byte"),
        _s3("TotalRequestLatency", "Milliseconds", "Average", "time to the last byte"),
        (
            "AWS/S3 BucketSizeBytes",
            Metric(
                "BucketSizeBytes",
                "AWS/S3",
                "Bytes",
                (("BucketName", "StorageType"),),
                "Average",
                "s3",
                "bytes in a bucket by storage class, once a day",
            ),
        ),
        _files("PendingExports", "Count", "Maximum", "files that are not in the bucket yet"),
        _files("ImportFailures", "Count", "Sum", "objects that did not arrive as files"),
        _files("ExportFailures", "Count", "Sum", "files that did not arrive as objects"),
        _files("ImportAge", "Seconds", "Maximum", "age of the oldest object that waits to arrive"),
        _files("ExportAge", "Seconds", "Maximum", "age of the oldest file that waits to arrive"),
        _files("DataReadBytes", "Bytes", "Sum", "bytes that clients read"),
        _files("DataWriteBytes", "Bytes", "Sum", "bytes that clients wrote"),
        _files("MetadataReadBytes", "Bytes", "Sum", "bytes of metadata read"),
        _files("MetadataWriteBytes", "Bytes", "Sum", "bytes of metadata written"),
        _files("ClientConnections", "Count", "Sum", "clients connected"),
        _files("LostAndFoundFiles", "Count", "Maximum", "files that went aside, as their object changed too"),
        (
            "AWS/EC2 NetworkIn",
            Metric(
                "NetworkIn",
                "AWS/EC2",
                "Bytes",
                (("AutoScalingGroupName",), ("InstanceId",)),
                "Sum",
                "ec2",
                "bytes received; EFA does not count",
            ),
        ),
    )
)
"""By namespace and name."""
