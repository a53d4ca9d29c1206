"""Mounts and nodes as the rules look at them."""

from __future__ import annotations

from dataclasses import dataclass

from training_storage.rules.subject import Subject


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSettings:
    """One mount. A field is None where it is not given or not known at synth.

    Attributes:
        path: Absolute directory such as ``/lake``.
        kind: ``lustre``, ``mountpoint`` or ``s3-files``.
        read_only: Whether it refuses writes.
        unknown: Options that are given with a value that is known only at deploy.
        efa: Lustre only: whether it is reached over EFA.
        gds: Lustre only: whether the client is set up for GPUDirect Storage.
        root_access: S3 Files only: whether root is root on it.
        ship_logs: S3 Files only: whether the client sends its logs to CloudWatch.
        directory_bucket: Mountpoint only, as all that follow: whether the bucket is a directory bucket.
        bucket_name: Name of the bucket.
        bucket_region: Region of the bucket.
        prefix: Key prefix, empty or ending in a slash.
        maximum_throughput_gbps: Gbit/s for this one process.
        max_threads: Threads that answer the kernel.
        memory_target_mib: Memory in MiB.
        cache: ``none``, ``nvme``, ``express`` or ``nvme+express``.
        cache_size_mib: Largest size of the cache on NVMe in MiB.
        cache_bucket: Name of the directory bucket that is the shared cache.
        cache_zone_id: Zone of that bucket.
        metadata_ttl: Seconds, ``minimal`` or ``indefinite``.
        negative_metadata_ttl: The same, for names that are not there.
        part_size_mib: Size of a part in MiB, both ways.
        read_part_size_mib: Size of a part when reading, MiB.
        write_part_size_mib: Size of a part when writing, MiB.
        allow_delete: Whether files can be deleted.
        allow_overwrite: Whether files can be overwritten.
        incremental_upload: Whether files can be appended to, and uploads end with each fsync.
        sse: Encryption of new objects.
        sse_kms_key: ARN of the key for it.
        upload_checksums: Checksum of uploads.
        storage_class: Storage class of new objects.
        expected_bucket_owner: Account that the bucket must belong to.
        requester_pays: Whether the reader pays.
        transfer_acceleration: Whether requests go to the accelerated endpoint.
        dual_stack: Whether requests may use IPv6.
        endpoint_url: Endpoint in place of the one that follows from bucket and region.
        bind: Network interfaces that requests leave by.
        otlp_endpoint: Where metrics are sent.
        otlp_export_interval_seconds: How often.
        log_metrics: Whether metrics stand in the log.
        file_mode: Octal mode of files.
        dir_mode: Octal mode of directories.
    """

    path: str | None = None
    kind: str | None = None
    read_only: bool | None = None
    unknown: frozenset[str] = frozenset()
    efa: bool | None = None
    gds: bool | None = None
    root_access: bool | None = None
    ship_logs: bool | None = None
    directory_bucket: bool | None = None
    bucket_name: str | None = None
    bucket_region: str | None = None
    prefix: str | None = None
    maximum_throughput_gbps: float | None = None
    max_threads: int | None = None
    memory_target_mib: int | None = None
    cache: str | None = None
    cache_size_mib: int | None = None
    cache_bucket: str | None = None
    cache_zone_id: str | None = None
    metadata_ttl: int | str | None = None
    negative_metadata_ttl: int | str | None = None
    part_size_mib: int | None = None
    read_part_size_mib: int | None = None
    write_part_size_mib: int | None = None
    allow_delete: bool | None = None
    allow_overwrite: bool | None = None
    incremental_upload: bool | None = None
    sse: str | None = None
    sse_kms_key: str | None = None
    upload_checksums: str | None = None
    storage_class: str | None = None
    expected_bucket_owner: str | None = None
    requester_pays: bool | None = None
    transfer_acceleration: bool | None = None
    dual_stack: bool | None = None
    endpoint_url: str | None = None
    bind: tuple[str, ...] | None = None
    otlp_endpoint: str | None = None
    otlp_export_interval_seconds: int | None = None
    log_metrics: bool | None = None
    file_mode: str | None = None
    dir_mode: str | None = None

    def gives(self, option: str) -> bool:
        """Whether an option is asked for, with a value that is known or not."""
        return option in self.unknown or getattr(self, option) not in (None, False, "", (), "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings(Subject):
    """All mounts of a node and the disks and paths that they touch.

    Attributes:
        mounts: The mounts, in the order given.
        local_nvme_gb: Instance store of the type in GB; None where not known.
        checkpoint_path: Directory that the training code saves to; None without one.
    """

    mounts: tuple[MountSettings, ...] = ()
    local_nvme_gb: float | None = None
    checkpoint_path: str | None = None
