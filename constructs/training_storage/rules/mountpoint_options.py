"""Which option is for which kind of mount, and which options go together: one table and the rules that read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule
from training_storage.rules.mount_settings import MountSettings, NodeSettings

GENERAL: Final = "general purpose bucket"
DIRECTORY: Final = "directory bucket"
_BOTH: Final = (GENERAL, DIRECTORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class MountOption:
    """One option of a mount.

    Attributes:
        name: Field of the mount.
        kind: Kind of mount that has it: ``mountpoint``, ``lustre`` or ``s3-files``.
        flag: Mountpoint's name of it; empty for other kinds.
        buckets: Mountpoint only: kinds of bucket that take it.
        writing: Whether it says something of writing alone.
        why: Why other mounts don't take it; empty where all do.
        needs: Option that must be given with it.
        excludes: Options that can't be given with it.
        since: First version of Mountpoint that has it; empty for those that every version has that we mount with.
    """

    name: str
    kind: str = "mountpoint"
    flag: str = ""
    buckets: tuple[str, ...] = _BOTH
    writing: bool = False
    why: str = ""
    needs: str = ""
    excludes: tuple[str, ...] = ()
    since: str = ""


MOUNT_OPTIONS: Final[tuple[MountOption, ...]] = (
    # what can be done with files
    MountOption(name="allow_delete", flag="--allow-delete", writing=True),
    MountOption(name="allow_overwrite", flag="--allow-overwrite", writing=True),
    MountOption(
        name="incremental_upload",
        flag="--incremental-upload",
        buckets=(DIRECTORY,),
        writing=True,
        why="only directory buckets take appends",
    ),
    # caches
    MountOption(name="cache", flag="--cache"),
    MountOption(name="cache_size_mib", flag="--max-cache-size"),
    MountOption(
        name="cache_bucket",
        flag="--cache-xz",
        buckets=(GENERAL,),
        why="a directory bucket is as near as its cache would be",
        # One client speaks to both buckets, and a directory bucket has neither.
        excludes=("endpoint_url", "transfer_acceleration"),
    ),
    MountOption(name="metadata_ttl", flag="--metadata-ttl"),
    MountOption(name="negative_metadata_ttl", flag="--negative-metadata-ttl"),
    # speed
    MountOption(name="maximum_throughput_gbps", flag="--maximum-throughput-gbps"),
    MountOption(name="max_threads", flag="--max-threads"),
    MountOption(name="memory_target_mib", flag="--memory-target", since="1.24.0"),
    MountOption(name="part_size_mib", flag="--part-size", excludes=("read_part_size_mib", "write_part_size_mib")),
    MountOption(name="read_part_size_mib", flag="--read-part-size"),
    MountOption(name="write_part_size_mib", flag="--write-part-size", writing=True),
    MountOption(name="bind", flag="--bind"),
    # new objects
    MountOption(
        name="sse",
        flag="--sse",
        buckets=(GENERAL,),
        writing=True,
        why="a directory bucket has one encryption for all its objects",
        excludes=("cache_bucket",),
    ),
    MountOption(
        name="sse_kms_key",
        flag="--sse-kms-key-id",
        buckets=(GENERAL,),
        writing=True,
        why="a directory bucket has one key for all its objects",
        needs="sse",
    ),
    MountOption(name="upload_checksums", flag="--upload-checksums", writing=True),
    MountOption(
        name="storage_class",
        flag="--storage-class",
        buckets=(GENERAL,),
        writing=True,
        why="a directory bucket has one storage class",
    ),
    # the bucket and the way to it
    MountOption(name="expected_bucket_owner", flag="--expected-bucket-owner"),
    MountOption(
        name="requester_pays", flag="--requester-pays", buckets=(GENERAL,), why="S3 Express has no Requester Pays"
    ),
    MountOption(
        name="transfer_acceleration",
        flag="--transfer-acceleration",
        buckets=(GENERAL,),
        why="S3 Express has no Transfer Acceleration",
    ),
    MountOption(name="dual_stack", flag="--dual-stack"),
    MountOption(name="endpoint_url", flag="--endpoint-url", excludes=("dual_stack", "transfer_acceleration")),
    # what is seen of it
    MountOption(name="otlp_endpoint", flag="--otlp-endpoint", since="1.21.0"),
    MountOption(
        name="otlp_export_interval_seconds", flag="--otlp-export-interval", needs="otlp_endpoint", since="1.21.0"
    ),
    MountOption(name="log_metrics", flag="--log-metrics"),
    # other kinds of mounts
    MountOption(name="efa", kind="lustre"),
    MountOption(name="gds", kind="lustre", needs="efa"),
    MountOption(name="root_access", kind="s3-files"),
    MountOption(name="ship_logs", kind="s3-files"),
)
"""Every option that a mount can be given, read-only and prefix aside, which every kind of Mountpoint mount takes."""

MANAGED_FLAGS: Final[Mapping[str, str]] = {
    "--read-only": "field read_only",
    "--prefix": "field prefix",
    "--region": "field region; always written",
    "--uid": "field uid; always written",
    "--gid": "field gid; always written",
    "--file-mode": "field file_mode; always written",
    "--dir-mode": "field dir_mode; always written",
    "--allow-other": "always on: training code runs as another user than root",
}
"""Flags of Mountpoint that every mount has by other fields, or by itself."""

UNOFFERED_FLAGS: Final[Mapping[str, str]] = {
    "--allow-root": "excludes --allow-other, without which no user but root could read",
    "--auto-unmount": "the unit unmounts",
    "--foreground": "the unit waits for the mount, which a process in front never reports",
    "--profile": "nodes have a role, and no profiles",
    "--no-sign-request": "nodes have a role, and public buckets take its requests",
    "--force-path-style": "for stores that are not Amazon S3",
    "--ca-bundle": "for stores that are not Amazon S3; AWS's certificates are those of the operating system",
    "--user-agent-prefix": "nothing of ours reads it",
    "--infer-content-type": "for objects that browsers fetch",
    "--log-directory": "the log is in the journal, which rotates; these files do not",
    "--debug": "fills the journal of every node; for one node, edit its unit",
    "--debug-crt": "as --debug",
    "--no-log": "a mount that fails would say nothing",
}
"""Flags of Mountpoint that are left out on purpose, and why."""

_BY_NAME: Final = {option.name: option for option in MOUNT_OPTIONS}
_NAMES: Final[Mapping[str, str]] = {
    "mountpoint": "Mountpoint for Amazon S3",
    "lustre": "FSx for Lustre",
    "s3-files": "S3 Files",
}


def mount_option(name: str) -> MountOption:
    """Return the row of an option."""
    return _BY_NAME[name]


def _given(node: NodeSettings) -> Iterator[tuple[int, MountSettings, MountOption]]:
    for index, mount in enumerate(node.mounts):
        for option in MOUNT_OPTIONS:
            if mount.gives(option.name):
                yield index, mount, option


def _value(mount: MountSettings, name: str) -> object:
    value = getattr(mount, name)
    return ", ".join(value) if isinstance(value, tuple) else value


def _kind(node: NodeSettings) -> Iterator[Problem]:
    for index, mount, option in _given(node):
        if mount.kind is not None and mount.kind != option.kind:
            yield Problem(
                what=f"{option.name} on a mount of {_NAMES.get(mount.kind, mount.kind)}, which has no such option",
                path=f"mounts[{index}].{option.name}",
                value=_value(mount, option.name),
                allowed=f"only on a mount of {_NAMES[option.kind]}",
            )


def _writing(node: NodeSettings) -> Iterator[Problem]:
    for index, mount, option in _given(node):
        if option.writing and mount.read_only:
            yield Problem(
                what=f"{option.name} on a read-only mount",
                path=f"mounts[{index}].{option.name}",
                value=_value(mount, option.name),
                allowed="only with read_only false",
            )


def _bucket(node: NodeSettings) -> Iterator[Problem]:
    for index, mount, option in _given(node):
        if mount.directory_bucket is None:
            continue
        bucket = DIRECTORY if mount.directory_bucket else GENERAL
        if bucket not in option.buckets:
            yield Problem(
                what=f"{option.name} on a mount of a {bucket}: {option.why}",
                path=f"mounts[{index}].{option.name}",
                value=_value(mount, option.name),
                allowed=f"only on a mount of a {option.buckets[0]}",
            )


def _together(node: NodeSettings) -> Iterator[Problem]:
    for index, mount, option in _given(node):
        if option.needs and not mount.gives(option.needs):
            yield Problem(
                what=f"{option.name} without {option.needs}",
                path=f"mounts[{index}].{option.name}",
                value=_value(mount, option.name),
                allowed=f"only with {option.needs}",
            )
        for other in option.excludes:
            if mount.gives(other):
                yield Problem(
                    what=f"{option.name} and {other} together",
                    path=f"mounts[{index}].{option.name}",
                    value=_value(mount, option.name),
                    allowed="one of them",
                )


_LAKE = MountSettings(path="/lake", kind="mountpoint", read_only=True, directory_bucket=False)
_HOT = MountSettings(path="/hot", kind="mountpoint", read_only=False, directory_bucket=True)


def _node(mount: MountSettings) -> NodeSettings:
    return NodeSettings(mounts=(mount,), local_nvme_gb=644.245)


OPTION_RULES: Final[tuple[Rule[NodeSettings], ...]] = (
    Rule(
        id="mounts.option-kind",
        statement="an option stands on a mount of the kind that has it",
        reason="another client would refuse it, or take it for something else",
        source="Mountpoint for Amazon S3, CONFIGURATION; mount.s3files(8); FSx for Lustre User Guide",
        check=_kind,
        passes=_node(MountSettings(path="/fsx", kind="lustre", efa=True, gds=True)),
        fails=_node(MountSettings(path="/fsx", kind="lustre", metadata_ttl="indefinite")),
    ),
    Rule(
        id="mounts.write-flags",
        statement="deleting, overwriting and all that is said of uploads stand only on a mount that writes",
        reason="Mountpoint refuses the mix, and the reader of the file would expect writes to work",
        source="field report 31; Mountpoint for Amazon S3, CONFIGURATION",
        check=_writing,
        passes=_node(replace(_LAKE, read_only=False, allow_delete=True)),
        fails=_node(replace(_LAKE, allow_delete=True)),
    ),
    Rule(
        id="mounts.bucket-options",
        statement="a directory bucket takes appends, and no storage class, encryption, Requester Pays, acceleration or "
        "shared cache of its own",
        reason="S3 Express refuses what it does not have, and the mount fails on every node",
        source="S3 User Guide, s3-express-differences; Mountpoint for Amazon S3, CONFIGURATION; field report 17",
        check=_bucket,
        passes=_node(replace(_HOT, incremental_upload=True)),
        fails=_node(replace(_HOT, storage_class="STANDARD_IA")),
    ),
    Rule(
        id="mounts.option-pairs",
        statement="options that need or exclude each other keep to that",
        reason="Mountpoint refuses the mix when it starts, on every node; one encryption, endpoint or acceleration "
        "would be the cache's too",
        source="Mountpoint for Amazon S3, cli.rs; S3 endpoint rules: a given endpoint excludes dual-stack and "
        "acceleration",
        check=_together,
        passes=_node(replace(_LAKE, otlp_endpoint="http://localhost:4318", otlp_export_interval_seconds=30)),
        fails=_node(replace(_LAKE, otlp_export_interval_seconds=30)),
    ),
)
