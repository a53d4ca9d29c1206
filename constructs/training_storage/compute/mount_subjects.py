"""Mounts as the rules look at them."""

from __future__ import annotations

from typing import Any, Final

from aws_cdk import aws_kms as kms

from training_storage._arguments import has
from training_storage._tokens import concrete, is_concrete
from training_storage.compute.mount_model import (
    LustreMount,
    Mount,
    MountpointMount,
    S3FilesMount,
    bucket_name_of,
    bucket_of,
    is_directory_bucket,
)
from training_storage.rules.mount_settings import MountSettings

_AS_THEY_ARE: Final = (
    "prefix",
    "allow_delete",
    "allow_overwrite",
    "incremental_upload",
    "maximum_throughput_gbps",
    "max_threads",
    "cache_size_mib",
    "metadata_ttl",
    "negative_metadata_ttl",
    "memory_target_mib",
    "part_size_mib",
    "read_part_size_mib",
    "write_part_size_mib",
    "sse",
    "upload_checksums",
    "storage_class",
    "expected_bucket_owner",
    "requester_pays",
    "transfer_acceleration",
    "dual_stack",
    "endpoint_url",
    "otlp_endpoint",
    "otlp_export_interval_seconds",
    "log_metrics",
    "file_mode",
    "dir_mode",
)
"""Fields of a Mountpoint mount that the rules look at under their own names."""


def mount_settings(mount: Mount) -> MountSettings:
    """Return a mount as the rules look at it."""
    if isinstance(mount, LustreMount):
        return MountSettings(
            path=concrete(mount.path), kind="lustre", read_only=False, efa=concrete(mount.efa), gds=concrete(mount.gds)
        )
    if isinstance(mount, S3FilesMount):
        return MountSettings(
            path=concrete(mount.path),
            kind="s3-files",
            read_only=mount.read_only,
            root_access=mount.root_access,
            ship_logs=mount.ship_logs,
        )
    return _mountpoint(mount)


def _mountpoint(mount: MountpointMount) -> MountSettings:
    values: dict[str, Any] = {name: getattr(mount, name) for name in _AS_THEY_ARE}
    values["bind"] = tuple(mount.bind) if is_concrete(list(mount.bind)) else mount.bind
    values["bucket_name"] = bucket_name_of(mount.bucket)
    values["cache_bucket"] = None if mount.cache_bucket is None else mount.cache_bucket.bucket_name
    values["sse_kms_key"] = None if mount.sse_kms_key is None else _key_arn(mount.sse_kms_key)
    known = {name: value for name, value in values.items() if is_concrete(value)}
    return MountSettings(
        path=concrete(mount.path),
        kind="mountpoint",
        read_only=mount.read_only,
        unknown=frozenset(values) - frozenset(known),
        directory_bucket=is_directory_bucket(mount.bucket),
        bucket_region=_region(mount),
        cache_zone_id=None if mount.cache_bucket is None else concrete(mount.cache_bucket.availability_zone_id),
        cache=mount.cache,
        **known,
    )


def _region(mount: MountpointMount) -> str | None:
    """Return the region of a bucket where it is given, or the CDK knows it."""
    environment = getattr(bucket_of(mount.bucket), "env", None)
    return concrete(mount.region) if mount.region is not None or environment is None else concrete(environment.region)


def _key_arn(key: kms.IKey) -> str:
    """Return the ARN of a key; of an alias what is known of it, since its ARN is often known only at deploy."""
    arn = key.key_arn
    return "alias" if has(key, "alias_name") and not is_concrete(arn) else arn
