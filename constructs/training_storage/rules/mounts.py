"""Rules of what nodes mount and where they write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule
from training_storage.rules.subject import Subject, catalog_of

_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+")
_MODE = re.compile(r"0?[0-7]{3}")
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr")  # noqa: S108
"""Directories in which nothing is mounted: they are the operating system's, or empty after a reboot."""
_SHARED = (
    "/home", "/media", "/mnt", "/opt", "/opt/dlami", "/opt/dlami/nvme", "/root", "/srv", "/var", "/var/lib", "/var/log",
)  # fmt: skip
"""Directories that hold what others need; a new directory in them is fine."""
_OURS = ("/opt/training-storage", "/var/lib/training-storage")
"""Where the scripts of the bootstrap and its status lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountSettings:
    """One mount. A field is None where it is not given or not known at synth.

    Attributes:
        path: Absolute directory such as ``/lake``.
        kind: ``lustre`` or ``mountpoint``.
        read_only: Whether it refuses writes.
        directory_bucket: Mountpoint only: whether the bucket is a directory bucket, which can rename.
        prefix: Mountpoint only: key prefix, empty or ending in a slash.
        maximum_throughput_gbps: Mountpoint only: Gbit/s for this one process.
        cache: Mountpoint only: ``none`` or ``nvme``.
        cache_size_mib: Mountpoint only: largest size of the cache in MiB.
        memory_target_mib: Mountpoint only: memory in MiB.
        allow_delete: Mountpoint only: whether files can be deleted.
        allow_overwrite: Mountpoint only: whether files can be overwritten.
        file_mode: Mountpoint only: octal mode of files.
        dir_mode: Mountpoint only: octal mode of directories.
    """

    path: str | None = None
    kind: str | None = None
    read_only: bool | None = None
    directory_bucket: bool | None = None
    prefix: str | None = None
    maximum_throughput_gbps: float | None = None
    cache: str | None = None
    cache_size_mib: int | None = None
    memory_target_mib: int | None = None
    allow_delete: bool | None = None
    allow_overwrite: bool | None = None
    file_mode: str | None = None
    dir_mode: str | None = None


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


MOUNT_WORKLOAD_PATHS: Final[Mapping[str, str]] = {
    "mounts[].cache": "mountpoint.cache",
    "mounts[].cache_size_mib": "mountpoint.cache_size",
    "mounts[].read_only": "mountpoint.read_only",
}
"""Field paths of ``MOUNT_RULES`` as fields of a workload file; for ``base.relabel``."""


def cache_limit_mib(local_nvme_gb: float, share: float | None = None) -> int:
    """Return the MiB that all caches on the local disks may take together (field report 32).

    Args:
        local_nvme_gb: Local disks in GB.
        share: Part of them that caches may take. Left out: that of the package's catalog, 80 %.
    """
    most = catalog_of().object_storage.mountpoint_cache_disk_share_max if share is None else share
    return int(local_nvme_gb * 10**9 * most / 2**20)


def _path_form(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        if mount.path is not None and not _PATH.fullmatch(mount.path):
            yield Problem(
                what="not a directory to mount on",
                path=f"mounts[{index}].path",
                value=mount.path,
                allowed="an absolute path of letters, digits, dots, hyphens and underscores, without .., such as /lake",
            )


def _system_directory(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        path = mount.path
        if path is not None and (
            path in _SHARED or any(f"{path}/".startswith(f"{each}/") for each in (*_SYSTEM, *_OURS))
        ):
            yield Problem(
                what="a mount there hides what the operating system or the bootstrap needs",
                path=f"mounts[{index}].path",
                value=path,
                allowed="a directory of its own, such as /lake or /mnt/lake",
            )


def _paths_apart(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        for other in node.mounts[:index]:
            if mount.path is None or other.path is None:
                continue
            first, second = sorted((mount.path.rstrip("/") + "/", other.path.rstrip("/") + "/"), key=len)
            if second.startswith(first):
                yield Problem(
                    what=f"mounts {other.path} and {mount.path} lie in each other",
                    path=f"mounts[{index}].path",
                    value=mount.path,
                    allowed="a directory that lies in no other mount",
                )


def _prefix(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        prefix = mount.prefix
        if prefix and (not prefix.endswith("/") or prefix.startswith("/") or not prefix.isprintable()):
            yield Problem(
                what="not a key prefix that Mountpoint takes",
                path=f"mounts[{index}].prefix",
                value=prefix,
                allowed="empty, or printable characters that end in a slash and start with none, such as datasets/",
            )


def _cache_disk(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        if mount.cache not in (None, "none", "nvme"):
            yield Problem(
                what="unknown kind of cache", path=f"mounts[{index}].cache", value=mount.cache, allowed="none or nvme"
            )
        if mount.cache == "nvme" and node.local_nvme_gb == 0:
            yield Problem(
                what="a cache on local NVMe, and the instance type has none",
                path=f"mounts[{index}].cache",
                value="nvme",
                allowed="none: a cache never goes on the root volume",
                fix="set the cache to none, or choose a type with local NVMe",
            )
        if mount.cache_size_mib is not None and mount.cache in (None, "none"):
            yield Problem(
                what="a cache size without a cache",
                path=f"mounts[{index}].cache_size_mib",
                value=mount.cache_size_mib,
                allowed="only with cache nvme",
            )


def _cache_size(node: NodeSettings) -> Iterator[Problem]:
    sized = [
        (index, mount.cache_size_mib)
        for index, mount in enumerate(node.mounts)
        if mount.cache == "nvme" and mount.cache_size_mib is not None
    ]
    for index, size in sized:
        if size < 1:
            yield Problem(
                what="not a cache size", path=f"mounts[{index}].cache_size_mib", value=size, allowed="1 MiB or more"
            )
    if not sized or not node.local_nvme_gb:
        return
    share = catalog_of(node).object_storage.mountpoint_cache_disk_share_max
    total, limit = sum(size for _, size in sized), cache_limit_mib(node.local_nvme_gb, share)
    if total > limit:
        yield Problem(
            what=f"the caches take more than {share:.0%} of the local disks",
            path=f"mounts[{sized[-1][0]}].cache_size_mib",
            value=total,
            allowed=f"at most {limit} MiB together, {share:.0%} of {node.local_nvme_gb:g} GB",
            fix="ask for less, or leave the size out",
        )


def _throughput(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        rate = mount.maximum_throughput_gbps
        if rate is not None and rate <= 0:
            yield Problem(
                what="not a throughput",
                path=f"mounts[{index}].maximum_throughput_gbps",
                value=rate,
                allowed="Gbit/s above 0",
            )


def _memory_target(node: NodeSettings) -> Iterator[Problem]:
    least = catalog_of(node).object_storage.mountpoint_memory_target_min_mib
    for index, mount in enumerate(node.mounts):
        target = mount.memory_target_mib
        if target is not None and target < least:
            yield Problem(
                what="a memory target that Mountpoint refuses",
                path=f"mounts[{index}].memory_target_mib",
                value=target,
                allowed=f"{least} MiB or more",
            )


def _modes(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        for name in ("file_mode", "dir_mode"):
            mode = getattr(mount, name)
            if mode is not None and not _MODE.fullmatch(mode):
                yield Problem(
                    what="not a file mode", path=f"mounts[{index}].{name}", value=mode, allowed="octal, such as 0644"
                )


def _write_flags(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        for name in ("allow_delete", "allow_overwrite"):
            if mount.read_only and getattr(mount, name):
                yield Problem(
                    what=f"{name} on a read-only mount",
                    path=f"mounts[{index}].{name}",
                    value=True,
                    allowed="only with read_only false",
                )


def _rename(node: NodeSettings) -> Iterator[Problem]:
    if node.checkpoint_path is None:
        return
    for mount in node.mounts:
        if mount.kind != "mountpoint" or mount.directory_bucket is not False or mount.path is None:
            continue
        if (node.checkpoint_path.rstrip("/") + "/").startswith(mount.path.rstrip("/") + "/"):
            yield Problem(
                what="checkpoints under a Mountpoint mount of a general purpose bucket, which has no rename",
                path="checkpoint_path",
                value=node.checkpoint_path,
                allowed="a directory on Lustre, on local NVMe or on a directory bucket",
                fix="save to Lustre or local NVMe, and copy finished checkpoints to S3",
            )


_LAKE = MountSettings(
    path="/lake", kind="mountpoint", read_only=True, directory_bucket=False, maximum_throughput_gbps=100, cache="none"
)
_FSX = MountSettings(path="/fsx", kind="lustre", read_only=False)
_NODE = NodeSettings(mounts=(_FSX, _LAKE), local_nvme_gb=644.245, checkpoint_path="/fsx/checkpoints")
_CACHED = replace(_LAKE, cache="nvme", cache_size_mib=102_400)


def _with(mount: MountSettings) -> NodeSettings:
    return replace(_NODE, mounts=(_FSX, mount))


MOUNT_RULES: Final[tuple[Rule[NodeSettings], ...]] = (
    Rule(
        id="mounts.path",
        statement="a mount has an absolute path of plain characters",
        reason="it becomes part of fstab and of a systemd unit, which have their own ideas of other characters",
        source="fstab(5), systemd.unit(5)",
        check=_path_form,
        passes=_NODE,
        fails=_with(replace(_LAKE, path="my lake")),
    ),
    Rule(
        id="mounts.system-directory",
        statement="no mount covers a directory of the operating system, its shared ones or the bootstrap's",
        reason="what lies there is hidden, or the mount's directory is gone after a reboot",
        source="Filesystem Hierarchy Standard; aws/aws-parallelcluster, which refuses such directories too",
        check=_system_directory,
        passes=_with(replace(_LAKE, path="/mnt/lake")),
        fails=_with(replace(_LAKE, path="/usr/lake")),
    ),
    Rule(
        id="mounts.apart",
        statement="no mount lies in another",
        reason="the one that comes second hides or is hidden, depending on boot order",
        source="mount(8)",
        check=_paths_apart,
        passes=_NODE,
        fails=_with(replace(_LAKE, path="/fsx/lake")),
    ),
    Rule(
        id="mounts.prefix",
        statement="a mounted prefix ends in a slash",
        reason="Mountpoint refuses others",
        source="Mountpoint for Amazon S3, CONFIGURATION, --prefix",
        check=_prefix,
        passes=_with(replace(_LAKE, prefix="datasets/")),
        fails=_with(replace(_LAKE, prefix="datasets")),
    ),
    Rule(
        id="mounts.cache-disk",
        statement="a Mountpoint cache lies on local NVMe",
        reason="a cache on the root volume fills it and stops the node",
        source="field report 32",
        check=_cache_disk,
        passes=_with(_CACHED),
        fails=replace(_with(_CACHED), local_nvme_gb=0.0),
    ),
    Rule(
        id="mounts.cache-size",
        statement="Mountpoint caches take at most 80% of the local disks",
        reason="eviction is slower than fill, so a cache passes its limit for a while",
        source="field report 32",
        check=_cache_size,
        passes=_with(_CACHED),
        fails=_with(replace(_CACHED, cache_size_mib=512_000)),
    ),
    Rule(
        id="mounts.throughput",
        statement="Mountpoint's throughput is above 0 Gbit/s",
        reason="the value sizes its memory and its connections",
        source="field report 33",
        check=_throughput,
        passes=_NODE,
        fails=_with(replace(_LAKE, maximum_throughput_gbps=0)),
    ),
    Rule(
        id="mounts.memory-target",
        statement="Mountpoint's memory target is 512 MiB or more",
        reason="Mountpoint refuses less",
        source="Mountpoint for Amazon S3 1.24, CONFIGURATION, --memory-target",
        check=_memory_target,
        passes=_with(replace(_LAKE, memory_target_mib=4096)),
        fails=_with(replace(_LAKE, memory_target_mib=511)),
    ),
    Rule(
        id="mounts.mode",
        statement="modes of files and directories are octal",
        reason="they are passed to Mountpoint as they are",
        source="Mountpoint for Amazon S3, CONFIGURATION, --file-mode and --dir-mode",
        check=_modes,
        passes=_with(replace(_LAKE, file_mode="0644", dir_mode="755")),
        fails=_with(replace(_LAKE, file_mode="rw-r--r--")),
    ),
    Rule(
        id="mounts.write-flags",
        statement="deleting and overwriting are asked for only where writing is",
        reason="Mountpoint refuses the mix, and the reader of the file would expect writes to work",
        source="field report 31",
        check=_write_flags,
        passes=_with(replace(_LAKE, read_only=False, allow_delete=True)),
        fails=_with(replace(_LAKE, allow_delete=True)),
    ),
    Rule(
        id="mounts.checkpoint-rename",
        statement="checkpoints are never saved through a Mountpoint mount of a general purpose bucket",
        reason="savers write a temporary file and rename it; a general purpose bucket has no rename",
        source="field report 30",
        check=_rename,
        passes=_NODE,
        fails=replace(_NODE, checkpoint_path="/lake/checkpoints"),
    ),
)
