"""What is looked at before mounts become a bootstrap and is no rule of a service: kinds, places, names of settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from training_storage._arguments import (
    BUCKET,
    CATALOG,
    FLAG,
    KEY,
    LISTED_TEXTS,
    NUMBER,
    TEXT,
    WHOLE,
    Kind,
    between,
    has,
    misfits,
    optional,
)
from training_storage._tokens import is_concrete, literal_text
from training_storage.compute.agent import NodeAgent
from training_storage.compute.mount_model import (
    BucketAccess,
    LustreMount,
    Mount,
    MountpointMount,
    S3FilesMount,
    mount_name,
)
from training_storage.compute.node_metrics import NodeMetrics
from training_storage.errors import Problem

_DIRECTORY = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+")
_LOG_NAME = re.compile(r"[A-Za-z0-9._-]{1,255}")
_BELOW = re.compile(r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_VALUE = re.compile(r"[^\r\n\"\\$`]*")
"""What stands the same in double quotes for a shell, for systemd and for the readers of languages."""

_SYSTEM: Final = frozenset(
    "bin boot dev etc home lib lib64 opt proc root run sbin snap sys tmp usr var".split()  # noqa: SIM905 - twenty lines else
)
"""Directories that an operating system lives in (Filesystem Hierarchy Standard); a mount on one hides it."""
_LONGEST_PATH: Final = 200
"""The path becomes part of the name of a systemd unit, and a file name has at most 255 bytes."""
_ON_TCP: Final = ("report", "fail")

_FILE_SYSTEM: Final = Kind(
    allowed="a LustreFileSystem, or what has its id, DNS name, mount name and allow_client",
    fits=lambda value: has(value, "file_system_id", "dns_name", "mount_name", "allow_client"),
)
SOURCE: Final = replace(
    BUCKET,
    allowed="a DataLake, a DirectoryBucket, or a bucket of the CDK",
    fits=lambda value: BUCKET.fits(value) or has(value, "bucket", "grant_read"),
)
_DIRECTORY_BUCKET: Final = Kind(
    allowed="a DirectoryBucket, or what has its name, ARN, zone and grants",
    fits=lambda value: has(value, "bucket_name", "bucket_arn", "availability_zone_id", "grant_read_write"),
    fix="make a DirectoryBucket, or DirectoryBucket.from_bucket_name",
)
_S3_FILES: Final = Kind(
    allowed="an S3FileSystem, or what has its id, allow_client and grants",
    fits=lambda value: has(value, "file_system_id", "allow_client", "grant_read", "grant_read_write", "grant_root"),
    fix="make an S3FileSystem, or S3FileSystem.from_attributes",
)
_REGION: Final = Kind(
    allowed="a region such as us-east-1",
    fits=lambda value: (
        isinstance(value, str)
        and (not is_concrete(value) or re.fullmatch(r"[a-z]{2,}(-[a-z]+)+-\d+", value) is not None)
    ),
)
_OWNER: Final = Kind(
    allowed="a user or group id, 1 to 4294967294: Mountpoint gives files to no root, and an id has 32 bits",
    fits=lambda value: WHOLE.fits(value) and between(value, 1, 2**32 - 2),
)
_TTL: Final = Kind(allowed="seconds, minimal or indefinite", fits=lambda value: TEXT.fits(value) or WHOLE.fits(value))
_LUSTRE_KINDS: Final[Mapping[str, Kind]] = {
    "file_system": _FILE_SYSTEM,
    "path": TEXT,
    "efa": FLAG,
    "on_tcp": Kind(
        allowed=" or ".join(_ON_TCP),
        fits=lambda value: isinstance(value, str) and (not is_concrete(value) or value in _ON_TCP),
    ),
    "gds": FLAG,
    "checkpoints": optional(TEXT),
    "scratch": optional(TEXT),
}
_MOUNTPOINT_KINDS: Final[Mapping[str, Kind]] = {
    "bucket": SOURCE,
    "path": TEXT,
    "prefix": TEXT,
    "read_only": FLAG,
    "allow_delete": FLAG,
    "allow_overwrite": FLAG,
    "incremental_upload": FLAG,
    "maximum_throughput_gbps": optional(NUMBER),
    "max_threads": optional(WHOLE),
    "cache": TEXT,
    "cache_size_mib": optional(WHOLE),
    "cache_bucket": optional(_DIRECTORY_BUCKET),
    "metadata_ttl": optional(_TTL),
    "negative_metadata_ttl": optional(_TTL),
    "memory_target_mib": optional(WHOLE),
    "part_size_mib": optional(WHOLE),
    "read_part_size_mib": optional(WHOLE),
    "write_part_size_mib": optional(WHOLE),
    "sse": optional(TEXT),
    "sse_kms_key": optional(KEY),
    "upload_checksums": optional(TEXT),
    "storage_class": optional(TEXT),
    "expected_bucket_owner": optional(TEXT),
    "requester_pays": FLAG,
    "transfer_acceleration": FLAG,
    "dual_stack": FLAG,
    "endpoint_url": optional(TEXT),
    "bind": LISTED_TEXTS,
    "otlp_endpoint": optional(TEXT),
    "otlp_export_interval_seconds": optional(WHOLE),
    "log_metrics": FLAG,
    "region": optional(_REGION),
    "uid": _OWNER,
    "gid": _OWNER,
    "file_mode": TEXT,
    "dir_mode": TEXT,
    "key": optional(KEY),
}
_S3_FILES_KINDS: Final[Mapping[str, Kind]] = {
    "file_system": _S3_FILES,
    "path": TEXT,
    "read_only": FLAG,
    "root_access": FLAG,
    "direct_read": FLAG,
    "ship_logs": FLAG,
    "region": optional(_REGION),
}
_ACCESS_KINDS: Final[Mapping[str, Kind]] = {"bucket": SOURCE, "prefix": TEXT, "write": FLAG, "key": optional(KEY)}
_KINDS: Final[Mapping[type, Mapping[str, Kind]]] = {
    LustreMount: _LUSTRE_KINDS,
    MountpointMount: _MOUNTPOINT_KINDS,
    S3FilesMount: _S3_FILES_KINDS,
    BucketAccess: _ACCESS_KINDS,
}


def kind_problems(
    mounts: object,
    buckets: object,
    environment: object,
    directories: object,
    local_nvme_gb: object,
    checkpoint_path: object,
    catalog: object,
    agent: object,
    metrics: object,
) -> list[Problem]:
    """Return what is of another kind than the arguments of ``NodeStorage`` and the fields of its mounts."""
    problems = misfits(
        {
            "mounts": (mounts, _list_of("a list of mounts", LustreMount, MountpointMount, S3FilesMount)),
            "buckets": (buckets, _list_of("a list of BucketAccess", BucketAccess)),
            "environment": (environment, Kind(allowed="texts by their names", fits=_are_texts_by_name)),
            "directories": (directories, LISTED_TEXTS),
            "local_nvme_gb": (local_nvme_gb, optional(NUMBER)),
            "checkpoint_path": (checkpoint_path, optional(TEXT)),
            "catalog": (catalog, optional(CATALOG)),
            "agent": (agent, optional(_AGENT)),
            "metrics": (metrics, optional(_METRICS)),
        }
    )
    if problems:
        return problems
    for name, values in (("mounts", mounts), ("buckets", buckets)):
        assert isinstance(values, Sequence)  # noqa: S101 - looked at above
        for index, value in enumerate(values):
            kinds = _KINDS[type(value)]
            given = {field: getattr(value, field) for field in kinds}
            found = misfits({f"{name}[{index}].{field}": (given[field], kinds[field]) for field in kinds})
            problems += found or _late(f"{name}[{index}]", given, kinds)
    return problems


_AGENT = Kind(
    allowed="a NodeAgent", fits=lambda value: isinstance(value, NodeAgent), fix="NodeAgent(settings=..., data_lake=...)"
)


def _are_metrics(value: object) -> bool:
    if not isinstance(value, NodeMetrics) or not TEXT.fits(value.workload) or not isinstance(value.gpus, bool):
        return False
    # Part of the name of a log group.
    return not is_concrete(value.workload) or _LOG_NAME.fullmatch(value.workload) is not None


_METRICS = Kind(
    allowed="a NodeMetrics with the name of a workload: letters, digits, dots, hyphens and underscores",
    fits=_are_metrics,
    fix='NodeMetrics(workload="llama3-70b")',
)


def _late(path: str, values: Mapping[str, object], kinds: Mapping[str, Kind]) -> list[Problem]:
    """Return what decides over rights and settings, and is known only when the stack is deployed."""
    return [
        Problem(
            what=f"{field} of a mount is known only when the stack is deployed",
            path=f"{path}.{field}",
            allowed="True or False" if kinds[field] is FLAG else "a plain string such as none",
        )
        for field, value in values.items()
        if (kinds[field] is FLAG and not isinstance(value, bool)) or (field == "cache" and not is_concrete(value))
    ]


def _list_of(allowed: str, *types: type) -> Kind:
    def fits(value: object) -> bool:
        return isinstance(value, list | tuple) and all(isinstance(each, types) for each in value)

    return Kind(allowed=allowed, fits=fits, fix="put it in a list")


def _are_texts_by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)


def _place_problems(mounts: Sequence[Mount]) -> list[Problem]:
    problems: list[Problem] = []
    for index, mount in enumerate(mounts):
        path = f"mounts[{index}].path"
        if not is_concrete(mount.path):
            problems.append(
                Problem(
                    what="the path of a mount is known only when the stack is deployed",
                    path=path,
                    allowed="a plain string such as /lake",
                )
            )
            continue
        parts = [part for part in mount.path.split("/") if part]
        if any(part in (".", "..") for part in parts):
            what, allowed = "a path that goes back on itself", "a path without . and .."
        elif len(parts) == 1 and parts[0] in _SYSTEM:
            what, allowed = "a directory of the operating system", "a directory of its own, such as /lake or /mnt/lake"
        elif len(mount.path) > _LONGEST_PATH:
            what, allowed = "the path is too long for the name of a unit", f"at most {_LONGEST_PATH} characters"
        else:
            continue
        problems.append(Problem(what=what, path=path, value=mount.path, allowed=allowed))
    return problems


def _lustre_problems(mounts: Sequence[Mount]) -> list[Problem]:
    problems: list[Problem] = []
    for index, mount in enumerate(mounts):
        if not isinstance(mount, LustreMount):
            continue
        if mount.efa and getattr(mount.file_system, "efa_enabled", None) is False:
            problems.append(
                Problem(
                    what="EFA to a file system that is not EFA-enabled",
                    path=f"mounts[{index}].efa",
                    value=True,
                    allowed="False for this file system",
                    fix="make the file system with efa_enabled, or leave efa out",
                )
            )
        for field in ("checkpoints", "scratch"):
            name = getattr(mount, field)
            plain = name is None or not is_concrete(name) or _BELOW.fullmatch(name)
            if not plain or (name is not None and {".", ".."} & set(name.split("/"))):
                problems.append(
                    Problem(
                        what="not a directory below the mount",
                        path=f"mounts[{index}].{field}",
                        value=name,
                        allowed="letters, digits, dots, hyphens and underscores, such as checkpoints or runs/scratch",
                    )
                )
    return problems


def node_problems(mounts: Sequence[Mount], environment: Mapping[str, str], directories: Sequence[str]) -> list[Problem]:
    """Return what the service rules don't cover: one file system, names of settings, paths that must be known."""
    problems = [*_place_problems(mounts), *_lustre_problems(mounts)]
    known = [mount.path for mount in mounts if is_concrete(mount.path)]
    for index, path in enumerate(known):
        twin = next((other for other in known[:index] if mount_name(other) == mount_name(path) and other != path), None)
        if twin is not None:
            problems.append(
                Problem(
                    what=f"mounts {twin} and {path} would have the same unit",
                    path="mounts",
                    value=path,
                    allowed="paths that differ in more than / and -",
                )
            )
    if sum(isinstance(mount, LustreMount) for mount in mounts) > 1:
        problems.append(
            Problem(
                what="more than one Lustre file system",
                path="mounts",
                allowed="one: the client settings of a node are those of one file system",
            )
        )
    if len({mount.ship_logs for mount in mounts if isinstance(mount, S3FilesMount)}) > 1:
        problems.append(
            Problem(
                what="ship_logs on one mount of S3 Files and not on another",
                path="mounts",
                allowed="the same on all: the client of a node has one configuration",
            )
        )
    for name, value in environment.items():
        if not is_concrete(name) or not _NAME.fullmatch(name) or not _VALUE.fullmatch(literal_text(value)):
            problems.append(
                Problem(
                    what="not a line for /etc/training-storage/env",
                    path="environment",
                    value=f"{name}={value}",
                    allowed="an upper-case name, and a value in one line without double quotes, backslash, $ or `",
                )
            )
    problems.extend(
        Problem(
            what="not a directory to make",
            path="directories",
            value=directory if is_concrete(directory) else None,
            allowed="an absolute path of letters, digits, dots, hyphens and underscores, known at synth",
        )
        for directory in directories
        if not is_concrete(directory) or not _DIRECTORY.fullmatch(directory)
    )
    return problems
