"""What each alarm watches, as readings and the expression over them; None where the subject has no such thing."""

from __future__ import annotations

from typing import Final

from training_storage.monitoring.metrics import Math, Reading, read, select
from training_storage.monitoring.subject import Subject
from training_storage.node.metrics.services import FILE_SERVER, PUBLISHERS, TARGET
from training_storage.units import MB

_PER_MB_S: Final = 60 * MB
"""A minute's bytes are so many MB/s times this."""
REPORT_PERIOD_S: Final = 300
_AUTO_IMPORT, _AUTO_EXPORT = PUBLISHERS


def fleet(subject: Subject, key: str, statistic: str | None = None, *, id: str = "") -> Reading:
    """Return a reading of what all nodes of the workload wrote together."""
    return read(key, statistic, id=id, Workload=subject.workload or "")


def fsx(subject: Subject, key: str, statistic: str | None = None, *, id: str = "") -> Reading:
    """Return a reading of the file system."""
    return read(f"AWS/FSx {key}", statistic, id=id, FileSystemId=subject.file_system_id or "")


def gpu_utilisation(subject: Subject) -> Math | None:
    """Mean over all GPUs."""
    return _single(subject, "nvidia_smi_utilization_gpu", "GPU utilisation, %")


def data_wait(subject: Subject) -> Math | None:
    """Share of watched time in which ranks waited for a batch; nothing while none is watched."""
    if not subject.workload:
        return None
    return Math(
        expression="100 * wait / elapsed",
        readings=(fleet(subject, "DataWaitTime", id="wait"), fleet(subject, "ElapsedTime", id="elapsed")),
        label="waits for data, %",
    )


def training_read(subject: Subject) -> Math | None:
    """Bytes of batches by the second."""
    if not subject.workload:
        return None
    return Math(
        expression=f"bytes / {_PER_MB_S:.0f}",
        readings=(fleet(subject, "TrainingReadBytes", id="bytes"),),
        label="read by training, MB/s",
    )


def throughput(subject: Subject) -> Math | None:
    """What is moved, of what can be moved at most: the file system's own count where there is one, else the nodes'."""
    expected = subject.expected
    limit = expected.limit_mb_per_s
    if limit is None:
        return None
    if subject.file_system_id:
        readings = [fsx(subject, "DataReadBytes", id="reads"), fsx(subject, "DataWriteBytes", id="writes")]
        read_share = f"100 * reads / {limit * _PER_MB_S:.0f}"
        if not expected.write_mb_per_s:
            return Math(expression=read_share, readings=(readings[0],), label="of the limit, %")
        written = f"100 * writes / {expected.write_mb_per_s * _PER_MB_S:.0f}"
        return Math(
            expression=f"IF({read_share} > {written}, {read_share}, {written})",
            readings=tuple(readings),
            label="of the limit, %",
        )
    if not subject.workload:
        return None
    return Math(
        expression=f"100 * reads / {limit * _PER_MB_S:.0f}",
        readings=(fleet(subject, "StorageReadBytes", id="reads"),),
        label="of the limit, %",
    )


def file_opens(subject: Subject) -> Math | None:
    """Opens a minute, of all metadata targets together."""
    if not subject.file_system_id:
        return None
    query = select("AWS/FSx FileOpenOperations", over=(TARGET,), FileSystemId=subject.file_system_id)
    return Math(expression=query, label="files opened a minute")


def metadata_cpu(subject: Subject) -> Math | None:
    """The busiest server."""
    if not subject.file_system_id:
        return None
    query = select("AWS/FSx CPUUtilization", over=(FILE_SERVER,), FileSystemId=subject.file_system_id)
    return Math(expression=query, label="CPU of the busiest metadata server, %")


def throttled(subject: Subject) -> Math | None:
    """Share of requests to the lake that S3 failed, over the filters of its request metrics."""
    filters = subject.bucket_filter_ids
    if not subject.bucket_name or not filters:
        return None
    readings = [
        read(f"AWS/S3 {key}", id=f"{id_}{number}", BucketName=subject.bucket_name, FilterId=each)
        for key, id_ in (("5xxErrors", "errors"), ("AllRequests", "requests"))
        for number, each in enumerate(filters, start=1)
    ]
    # A folder without requests has no datapoint, and its errors none.
    errors, requests = (
        " + ".join(f"FILL({name}{number}, 0)" for number in range(1, len(filters) + 1))
        for name in ("errors", "requests")
    )
    return Math(
        expression=f"100 * ({errors}) / ({requests})", readings=tuple(readings), label="requests that S3 failed, %"
    )


def save(subject: Subject) -> Math | None:
    """The slowest rank's save."""
    return _single(subject, "CheckpointSaveTime", "slowest save, s")


def restore(subject: Subject) -> Math | None:
    """The slowest restore of the training."""
    return _single(subject, "RestoreTime", "slowest restore, s")


def drill(subject: Subject) -> Math | None:
    """The slowest drill on the hot tier. Apart from the training's: one that is missing would hide the other."""
    if not subject.workload:
        return None
    reading = read("RestoreTime", Workload=subject.workload, Source="hot")
    return Math(expression="", readings=(reading,), label="slowest drill, s")


def variation(subject: Subject) -> Math | None:
    """Mean over ranks."""
    return _single(subject, "StepTimeVariation", "variation of step times, %")


def idle_cost(subject: Subject) -> Math | None:
    """What the fleet costs an hour while it waits for data or for saves."""
    price = subject.expected.gpu_usd_per_hour
    if not subject.workload or not price:
        return None
    return Math(
        expression=f"{_written(price)} * (FILL(wait, 0) + FILL(blocked, 0)) / elapsed",
        readings=(
            fleet(subject, "DataWaitTime", id="wait"),
            fleet(subject, "CheckpointBlockedTime", id="blocked"),
            fleet(subject, "ElapsedTime", id="elapsed"),
        ),
        label="idle GPUs, USD/h",
    )


def _written(value: float) -> str:
    """Return a number with six significant digits as metric math takes it: without an exponent."""
    return f"{float(f'{value:.6g}'):.9f}".rstrip("0").rstrip(".")


def export_age(subject: Subject) -> Math | None:
    """Age of the oldest change that is not in S3."""
    return _age(subject, _AUTO_EXPORT) if subject.expected.export_events else None


def import_age(subject: Subject) -> Math | None:
    """Age of the oldest change that is not in the file system."""
    return _age(subject, _AUTO_IMPORT) if subject.expected.import_events else None


def broken_links(subject: Subject) -> Math | None:
    """Whether a link has stopped, as ``LinkWatch`` sees it: FSx has no metric of it."""
    if not subject.workload or not subject.links:
        return None
    looks = read("LinksBroken", period_s=2 * REPORT_PERIOD_S, Workload=subject.workload)
    return Math(expression="", readings=(looks,), label="a link has stopped")


def free_space(subject: Subject) -> Math | None:
    """What would be free if every storage target were as full as the fullest.

    FSx publishes a sample a minute and storage target: the smallest times their number.
    """
    if not subject.file_system_id:
        return None
    return Math(
        expression="least * targets",
        readings=(
            fsx(subject, "FreeDataStorageCapacity", "Minimum", id="least"),
            fsx(subject, "FreeDataStorageCapacity", "SampleCount", id="targets"),
        ),
        label="free, bytes",
    )


def clients(subject: Subject) -> Math | None:
    """Clients that are connected."""
    if not subject.file_system_id:
        return None
    return Math(expression="", readings=(fsx(subject, "ClientConnections"),), label="clients")


def files_import_failures(subject: Subject) -> Math | None:
    """Objects that did not arrive."""
    return _files(subject, "ImportFailures")


def files_export_failures(subject: Subject) -> Math | None:
    """Files that did not arrive."""
    return _files(subject, "ExportFailures")


def reporting_nodes(subject: Subject) -> Math | None:
    """Nodes that report, in a mean of five minutes: the agent of each has one sample a minute of its memory.

    What the collector writes has a record for each kind of storage, and none of a kind that a node does not have.
    """
    if not subject.workload:
        return None
    samples = read("mem_used_percent", "SampleCount", id="samples", period_s=REPORT_PERIOD_S, Workload=subject.workload)
    return Math(expression="samples / 5", readings=(samples,), label="nodes that report")


def _single(subject: Subject, key: str, label: str) -> Math | None:
    return Math(expression="", readings=(fleet(subject, key),), label=label) if subject.workload else None


def _age(subject: Subject, publisher: str) -> Math | None:
    if not subject.file_system_id:
        return None
    reading = read("AWS/FSx AgeOfOldestQueuedMessage", FileSystemId=subject.file_system_id, Publisher=publisher)
    return Math(expression="", readings=(reading,), label="oldest change that waits, s")


def _files(subject: Subject, key: str) -> Math | None:
    if not subject.s3_file_system_id:
        return None
    reading = read(f"AWS/S3/Files {key}", FileSystemId=subject.s3_file_system_id)
    return Math(expression="", readings=(reading,), label="failures")
