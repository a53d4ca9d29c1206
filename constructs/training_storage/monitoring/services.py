"""Rows of the dashboard below the ten figures: nodes that stand out, and the services one by one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from training_storage.monitoring.definitions import IMPORT_AGE_S
from training_storage.monitoring.metrics import Math, Reading, farthest, read, search
from training_storage.monitoring.subject import Subject
from training_storage.monitoring.watches import fleet, fsx
from training_storage.monitoring.widgets import (
    RED,
    Line,
    Row,
    Widget,
    found,
    graph,
    math,
    reading,
    words,
)
from training_storage.node.metrics.services import FILE_SERVER, PUBLISHERS, TARGET
from training_storage.units import GIB, MB

_DAY_S: Final = 86_400
_MOST_BUCKETS: Final = 20
"""Directory buckets that are drawn one by one; more lines nobody can tell apart."""


def _divided(one: Reading, label: str, divisor: float) -> list[Row]:
    return math(Math(expression=f"{one.id} / {divisor:.0f}", readings=(one,), label=label))


def _per_second(one: Reading, label: str, divisor: float = 1) -> list[Row]:
    return _divided(one, label, one.period_s * divisor)


def outlier_rows(subject: Subject, region: str) -> list[list[Widget]]:
    """Return what single nodes do: those farthest from the others.

    Args:
        subject: What is watched; its nodes write metrics.
        region: Region.
    """
    workload = subject.workload or ""

    def of_nodes(title: str, key: str, unit: str, *, highest: bool = True, statistic: str | None = None) -> Widget:
        expression = search(key, statistic, over=("InstanceId",), Workload=workload)
        rows = found(farthest(expression, highest=highest), label="${PROP('Dim.InstanceId')}")
        return graph(title, rows, region=region, unit=unit, width=6)

    efa = _per_second(fleet(subject, "EfaBytes"), "EFA", MB) + _per_second(fleet(subject, "TcpBytes"), "TCP", MB)
    failed = reading(fleet(subject, "StorageRequestErrors"), "failed requests")
    failed += reading(fleet(subject, "ThrottledRequests"), "throttled requests")
    return [
        [words("## Nodes that stand out")],
        [
            of_nodes("Nodes that wait longest for data", "DataWaitShare", "%"),
            of_nodes("Nodes whose GPUs do least", "nvidia_smi_utilization_gpu", "%", highest=False),
            of_nodes("Nodes with the slowest steps", "StepTime", "s"),
            of_nodes("Nodes that wait longest for an answer of the storage", "StorageRpcWaitTime", "ms"),
        ],
        [
            of_nodes("Nodes without a mount of the plan", "MountsMissing", "mounts"),
            of_nodes("Nodes with the busiest CPUs", "cpu_usage_active", "%"),
            graph("Bytes to and from file servers by EFA and TCP", efa, region=region, unit="MB/s", width=6),
            graph("Requests to storage that failed", failed, region=region, unit="a minute", width=6),
        ],
    ]


def file_system_rows(subject: Subject, region: str, throughput_mb_per_s: float | None) -> list[list[Widget]]:
    """Return what the file system moves, what would stop it, and its servers and targets one by one.

    Args:
        subject: What is watched, with a file system.
        region: Region.
        throughput_mb_per_s: Throughput of the file system, drawn as a line.
    """
    expected = subject.expected
    moved = _per_second(fsx(subject, "DataReadBytes"), "read", MB)
    moved += _per_second(fsx(subject, "DataWriteBytes"), "written", MB)
    free = fsx(subject, "FreeDataStorageCapacity", "Minimum")
    age = [
        row
        for publisher in PUBLISHERS
        for row in reading(
            read(
                "AWS/FSx AgeOfOldestQueuedMessage",
                id=publisher[0].lower() + publisher[1:],
                FileSystemId=subject.file_system_id or "",
                Publisher=publisher,
            ),
            publisher,
        )
    ]
    return [
        [words("## FSx for Lustre")],
        [
            graph(
                "File system throughput",
                moved,
                region=region,
                unit="MB/s",
                lines=[
                    Line(value=expected.read_mb_per_s, label="planned read demand"),
                    Line(value=throughput_mb_per_s, label="planned throughput", colour=RED),
                ],
            ),
            graph(
                "Metadata operations",
                _per_second(fsx(subject, "MetadataOperations"), "operations"),
                region=region,
                unit="1/s",
                lines=[Line(value=expected.file_opens_per_s, label="planned file opens")],
            ),
            graph(
                "Client connections",
                reading(fsx(subject, "ClientConnections"), "clients"),
                region=region,
                unit="clients",
                lines=[Line(value=expected.instance_count, label="instances")],
            ),
        ],
        [
            graph(
                "Free space on the fullest storage target",
                _divided(free, "free", GIB),
                region=region,
                unit="GiB",
            ),
            graph(
                "Oldest change waiting in the S3 link",
                age,
                region=region,
                unit="s",
                lines=[Line(value=IMPORT_AGE_S, label="one day; changes are lost after 14", colour=RED)],
            ),
            _by_part(subject, region, "Network of the busiest file servers", "NetworkThroughputUtilization", "%"),
        ],
        [
            _by_part(subject, region, "Disks of the busiest file servers", "FileServerDiskThroughputUtilization", "%"),
            _by_part(subject, region, "CPU of the metadata servers", "CPUUtilization", "%"),
            _by_part(subject, region, "Operations of the busiest storage targets", "DiskIopsUtilization", "%"),
        ],
        [
            _by_part(subject, region, "Storage targets that are read most", "DiskReadBytes", "bytes a minute"),
            _by_part(subject, region, "Storage targets that are written most", "DiskWriteBytes", "bytes a minute"),
            _by_part(subject, region, "Files opened by metadata target", "FileOpenOperations", "a minute"),
        ],
    ]


def _by_part(subject: Subject, region: str, title: str, name: str, unit: str) -> Widget:
    key = f"AWS/FSx {name}"
    over = FILE_SERVER if name in _OF_SERVERS else TARGET
    expression = search(key, over=(over,), FileSystemId=subject.file_system_id or "")
    return graph(title, found(farthest(expression), label=f"${{PROP('Dim.{over}')}}"), region=region, unit=unit)


_OF_SERVERS: Final = frozenset(
    {"NetworkThroughputUtilization", "FileServerDiskThroughputUtilization", "CPUUtilization"}
)


def fleet_widget(subject: Subject, region: str, read_mb_per_s: float | None) -> Widget:
    """Return what the fleet receives.

    Args:
        subject: What is watched, with a group.
        region: Region.
        read_mb_per_s: Read demand, drawn as a line.
    """
    one = read("AWS/EC2 NetworkIn", AutoScalingGroupName=subject.auto_scaling_group_name or "")
    return graph(
        "Network into the fleet (without EFA)",
        _per_second(one, "received", MB),
        region=region,
        unit="MB/s",
        lines=[Line(value=read_mb_per_s, label="planned read demand")],
    )


def bucket_widgets(subject: Subject, region: str) -> list[Widget]:
    """Return the lake: its size, and its requests where it keeps such metrics."""
    bucket = subject.bucket_name or ""
    size = read("AWS/S3 BucketSizeBytes", period_s=_DAY_S, BucketName=bucket, StorageType="StandardStorage")
    widgets = [graph("Data lake", _divided(size, "S3 Standard", GIB), region=region, unit="GiB")]
    sources = [(bucket, each, each) for each in subject.bucket_filter_ids]
    return widgets + (_requests("the lake", sources, region) if sources else [])


def directory_rows(subject: Subject, region: str) -> list[list[Widget]]:
    """Return the requests of directory buckets."""
    filter_id = subject.directory_filter_id or ""
    names = subject.directory_bucket_names[:_MOST_BUCKETS]
    sources = [(name, filter_id, f"bucket {number}") for number, name in enumerate(names, start=1)]
    return [
        [words("## Directory buckets (S3 Express One Zone)")],
        _requests("directory buckets", sources, region, width=6),
    ]


def _requests(of: str, sources: Sequence[tuple[str, str, str]], region: str, *, width: int = 8) -> list[Widget]:
    def rows(key: str, statistic: str | None = None, divisor: float | None = 60) -> Iterable[Row]:
        for number, (bucket, filter_id, label) in enumerate(sources, start=1):
            id_ = f"{'n' if key[0].isdigit() else ''}{key[0].lower()}{key[1:]}{number}"
            one = read(f"AWS/S3 {key}", statistic, id=id_, BucketName=bucket, FilterId=filter_id)
            yield from reading(one, label) if divisor is None else _divided(one, label, divisor)

    return [
        graph(f"Read from {of}", rows("BytesDownloaded", divisor=60 * MB), region=region, width=width, unit="MB/s"),
        graph(f"Requests to {of}", rows("AllRequests"), region=region, width=width, unit="1/s"),
        graph(
            f"Requests to {of} that S3 failed or throttled", rows("5xxErrors"), region=region, width=width, unit="1/s"
        ),
        graph(f"First byte from {of}", rows("FirstByteLatency", divisor=None), region=region, width=width, unit="ms"),
    ]


def files_rows(subject: Subject, region: str) -> list[list[Widget]]:
    """Return the lake as a file system."""

    def one(name: str, label: str, divisor: float | None = None) -> list[Row]:
        it = read(f"AWS/S3/Files {name}", FileSystemId=subject.s3_file_system_id or "")
        return reading(it, label) if divisor is None else _divided(it, label, divisor)

    return [
        [words("## S3 Files")],
        [
            graph(
                "Moved by the S3 file system",
                one("DataReadBytes", "read", 60 * MB) + one("DataWriteBytes", "written", 60 * MB),
                region=region,
                unit="MB/s",
            ),
            graph(
                "Objects and files that did not arrive",
                one("ImportFailures", "objects") + one("ExportFailures", "files"),
                region=region,
                unit="a minute",
            ),
            graph(
                "Oldest that waits to arrive",
                one("ImportAge", "object") + one("ExportAge", "file"),
                region=region,
                unit="s",
            ),
        ],
        [
            graph("Files not in the bucket yet", one("PendingExports", "files"), region=region, unit="files"),
            graph("Files that went aside", one("LostAndFoundFiles", "files"), region=region, unit="files"),
            graph("Clients of the S3 file system", one("ClientConnections", "clients"), region=region, unit="clients"),
        ],
    ]
