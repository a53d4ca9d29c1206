"""Mounts as settings of the bootstrap scripts: one small file a mount, ``NAME='value'`` a line."""

from __future__ import annotations

import math
from typing import Final

import aws_cdk as cdk

from training_storage._tokens import is_concrete
from training_storage.compute.mount_model import (
    LustreMount,
    Mount,
    MountpointMount,
    S3FilesMount,
    bucket_name_of,
    bucket_of,
    directory_bucket_of,
    is_directory_bucket,
)

_FIRST_FLAGS: Final = ("read_only", "allow_delete", "allow_overwrite")
_FIRST_NUMBERS: Final = ("cache_size_mib", "memory_target_mib")
_FLAGS: Final = ("incremental_upload", "requester_pays", "transfer_acceleration", "dual_stack", "log_metrics")
_NUMBERS: Final = (
    "max_threads",
    "part_size_mib",
    "read_part_size_mib",
    "write_part_size_mib",
    "otlp_export_interval_seconds",
)
_TEXTS: Final = (
    "metadata_ttl",
    "negative_metadata_ttl",
    "sse",
    "upload_checksums",
    "storage_class",
    "expected_bucket_owner",
    "endpoint_url",
    "otlp_endpoint",
)
"""Fields of a Mountpoint mount that stand in the file under their own names, in capitals.

New ones come last: another order would be other user data, and a new launch template version for every fleet.
"""


def script_settings(stack: cdk.Stack, mount: Mount) -> dict[str, str]:
    """Return the settings of a mount; what is empty is not asked for.

    Args:
        stack: Stack of the mounts, whose region counts where none is given.
        mount: The mount.
    """
    if isinstance(mount, LustreMount):
        return {
            "KIND": "lustre",
            "MOUNT_PATH": mount.path,
            "FILE_SYSTEM_ID": mount.file_system.file_system_id,
            "DNS_NAME": mount.file_system.dns_name,
            "MOUNT_NAME": mount.file_system.mount_name,
            "EFA": _yes(mount.efa),
            "ON_TCP": mount.on_tcp if mount.efa else "",
            "GDS": _yes(mount.gds),
            "CHECKPOINTS": mount.checkpoints or "",
            "SCRATCH": mount.scratch or "",
        }
    if isinstance(mount, S3FilesMount):
        return {
            "KIND": "s3-files",
            "MOUNT_PATH": mount.path,
            "FILE_SYSTEM_ID": mount.file_system.file_system_id,
            "FILE_SYSTEM_REGION": mount.region or stack.region,
            "READ_ONLY": _yes(mount.read_only),
            "ROOT_ACCESS": _yes(mount.root_access),
            "NO_DIRECT_READ": _yes(not mount.direct_read),
            "SHIP_LOGS": _yes(mount.ship_logs),
        }
    return _mountpoint(stack, mount)


def bucket_region(stack: cdk.Stack, mount: MountpointMount) -> str:
    """Return the region of a bucket: as given, else as CDK knows it, which is the stack's where nobody said more."""
    if mount.region is not None:
        return mount.region
    # Every bucket of the CDK and of this package knows it; another one with the same ways may not.
    environment = getattr(bucket_of(mount.bucket) or directory_bucket_of(mount.bucket), "env", None)
    return stack.region if environment is None else str(environment.region)


def _mountpoint(stack: cdk.Stack, mount: MountpointMount) -> dict[str, str]:
    kinds = mount.cache.split("+")
    return {
        "KIND": "mountpoint",
        "MOUNT_PATH": mount.path,
        "BUCKET": bucket_name_of(mount.bucket),
        "PREFIX": mount.prefix,
        "BUCKET_REGION": bucket_region(stack, mount),
        **{name.upper(): _yes(getattr(mount, name)) for name in _FIRST_FLAGS},
        "THROUGHPUT_GBPS": whole_number(mount.maximum_throughput_gbps),
        "CACHE": _yes("nvme" in kinds),
        **{name.upper(): whole_number(getattr(mount, name)) for name in _FIRST_NUMBERS},
        "OWNER_UID": whole_number(mount.uid),
        "OWNER_GID": whole_number(mount.gid),
        "FILE_MODE": mount.file_mode,
        "DIR_MODE": mount.dir_mode,
        "DIRECTORY_BUCKET": _yes(is_directory_bucket(mount.bucket)),
        "CACHE_BUCKET": "" if mount.cache_bucket is None else mount.cache_bucket.bucket_name,
        "SSE_KMS_KEY": "" if mount.sse_kms_key is None else mount.sse_kms_key.key_arn,
        "BIND": " ".join(mount.bind),
        **{name.upper(): _yes(getattr(mount, name)) for name in _FLAGS},
        **{name.upper(): whole_number(getattr(mount, name)) for name in _NUMBERS},
        **{name.upper(): _text(getattr(mount, name)) for name in _TEXTS},
    }


def _yes(flag: bool) -> str:
    return "yes" if flag else ""


def _text(value: str | float | None) -> str:
    if isinstance(value, str) or value is None:
        return value or ""
    return whole_number(value)


def whole_number(value: float | None) -> str:
    """Return a number as settings have it, rounded up; a token as it will be."""
    if value is None:
        return ""
    return str(math.ceil(value)) if is_concrete(value) else cdk.Tokenization.stringify_number(value)
