"""Rules of what nodes mount and where they write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from training_storage.errors import Problem
from training_storage.rules.base import Rule
from training_storage.rules.mount_settings import MountSettings, NodeSettings
from training_storage.rules.mountpoint_options import OPTION_RULES
from training_storage.rules.mountpoint_values import VALUE_RULES
from training_storage.rules.subject import catalog_of

__all__ = ["CACHES", "MOUNT_RULES", "MOUNT_WORKLOAD_PATHS", "MountSettings", "NodeSettings", "cache_limit_mib"]

CACHES: Final = ("none", "nvme", "express", "nvme+express")
"""Where a Mountpoint mount keeps what it has read."""
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+")
# Refused, not used.
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp", "/usr")  # noqa: S108
"""Directories in which nothing is mounted: they are the operating system's, or empty after a reboot."""
_SHARED = (
    "/home", "/media", "/mnt", "/opt", "/opt/dlami", "/opt/dlami/nvme", "/root", "/srv", "/var", "/var/lib", "/var/log",
)  # fmt: skip
"""Directories that hold what others need; a new directory in them is fine."""
_OURS = ("/opt/training-storage", "/var/lib/training-storage")
"""Where the scripts of the bootstrap and its status lie."""


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


def _cache_disk(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        if mount.cache is not None and mount.cache not in CACHES:
            yield Problem(
                what="unknown kind of cache",
                path=f"mounts[{index}].cache",
                value=mount.cache,
                allowed=", ".join(CACHES[:-1]) + f" or {CACHES[-1]}",
            )
        if _on_nvme(mount) and node.local_nvme_gb == 0:
            yield Problem(
                what="a cache on local NVMe, and the instance type has none",
                path=f"mounts[{index}].cache",
                value=mount.cache,
                allowed="none: a cache never goes on the root volume",
                fix="set the cache to none, or choose a type with local NVMe",
            )
        if mount.gives("cache_size_mib") and not _on_nvme(mount):
            yield Problem(
                what="a cache size without a cache",
                path=f"mounts[{index}].cache_size_mib",
                value=mount.cache_size_mib,
                allowed="only with cache nvme",
            )


def _on_nvme(mount: MountSettings) -> bool:
    return mount.cache in ("nvme", "nvme+express")


def _cache_bucket(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        shared, path = mount.cache in ("express", "nvme+express"), f"mounts[{index}].cache_bucket"
        if shared and not mount.gives("cache_bucket"):
            yield Problem(
                what="a shared cache without its bucket",
                path=path,
                allowed="a DirectoryBucket that holds nothing else",
                fix="make one in the zone of the nodes, with content_is_cache and expire_after",
            )
        if not shared and mount.gives("cache_bucket"):
            yield Problem(
                what="a bucket for a shared cache that is not asked for",
                path=path,
                value=mount.cache_bucket,
                allowed="only with cache express or nvme+express",
            )
        if mount.cache_bucket is not None and mount.cache_bucket in {each.bucket_name for each in node.mounts}:
            yield Problem(
                what="a shared cache in a bucket that is mounted",
                path=path,
                value=mount.cache_bucket,
                allowed="a directory bucket that holds nothing else: who writes there decides what others read",
            )


def _cache_region(node: NodeSettings) -> Iterator[Problem]:
    for index, mount in enumerate(node.mounts):
        if mount.cache_zone_id is None or mount.bucket_region is None:
            continue
        prefix = mount.cache_zone_id.partition("-")[0]
        regions = catalog_of(node).regions.items()
        there = next((name for name, region in regions if region.zone_id_prefix == prefix), None)
        if there is not None and there != mount.bucket_region:
            yield Problem(
                what=f"a shared cache in {there} for a bucket of {mount.bucket_region}",
                path=f"mounts[{index}].cache_bucket",
                value=mount.cache_bucket or mount.cache_zone_id,
                allowed=f"a directory bucket of {mount.bucket_region}: one mount speaks to one region",
                fix=f"copy the data to a bucket of {there}, or keep the cache on local NVMe",
            )


def _cache_size(node: NodeSettings) -> Iterator[Problem]:
    sized = [
        (index, mount.cache_size_mib)
        for index, mount in enumerate(node.mounts)
        if _on_nvme(mount) and mount.cache_size_mib is not None
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


def _holds_checkpoints(node: NodeSettings, mount: MountSettings) -> bool:
    if node.checkpoint_path is None or mount.path is None:
        return False
    return (node.checkpoint_path.rstrip("/") + "/").startswith(mount.path.rstrip("/") + "/")


def _rename(node: NodeSettings) -> Iterator[Problem]:
    for mount in node.mounts:
        if mount.kind == "mountpoint" and mount.directory_bucket is False and _holds_checkpoints(node, mount):
            yield Problem(
                what="checkpoints under a Mountpoint mount of a general purpose bucket, which has no rename",
                path="checkpoint_path",
                value=node.checkpoint_path,
                allowed="a directory on Lustre, on local NVMe or on a directory bucket",
                fix="save to Lustre or local NVMe, and copy finished checkpoints to S3",
            )


def _checkpoints_writable(node: NodeSettings) -> Iterator[Problem]:
    for mount in node.mounts:
        # A general purpose bucket would not be right with writes either: that is said once, by the rule of renames.
        general = mount.kind == "mountpoint" and mount.directory_bucket is False
        if mount.read_only and not general and _holds_checkpoints(node, mount):
            yield Problem(
                what=f"checkpoints under the read-only mount {mount.path}",
                path="checkpoint_path",
                value=node.checkpoint_path,
                allowed="a directory on a mount with read_only false",
            )


_LAKE = MountSettings(
    path="/lake", kind="mountpoint", read_only=True, directory_bucket=False, maximum_throughput_gbps=100, cache="none"
)
_FSX = MountSettings(path="/fsx", kind="lustre", read_only=False)
_HOT = MountSettings(path="/hot", kind="mountpoint", read_only=False, directory_bucket=True)
_NODE = NodeSettings(mounts=(_FSX, _LAKE), local_nvme_gb=644.245, checkpoint_path="/fsx/checkpoints")
_CACHED = replace(_LAKE, cache="nvme", cache_size_mib=102_400)
_SHARED_CACHE = replace(_LAKE, cache="express", cache_bucket="cache--use1-az6--x-s3", cache_zone_id="use1-az6")


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
        id="mounts.cache-disk",
        statement="a Mountpoint cache lies on local NVMe",
        reason="a cache on the root volume fills it and stops the node",
        source="field report 32",
        check=_cache_disk,
        passes=_with(_CACHED),
        fails=replace(_with(_CACHED), local_nvme_gb=0.0),
    ),
    Rule(
        id="mounts.cache-bucket",
        statement="a shared cache has a directory bucket of its own",
        reason="Mountpoint fills it and never clears it, and who can write there decides what every node reads",
        source="Mountpoint for Amazon S3, CONFIGURATION, --cache-xz",
        check=_cache_bucket,
        passes=_with(replace(_LAKE, cache="express", cache_bucket="cache--use1-az6--x-s3")),
        fails=_with(replace(_LAKE, cache="express")),
    ),
    Rule(
        id="mounts.cache-region",
        statement="a shared cache lies in the region of the bucket that it is for",
        reason="Mountpoint has one client for both and refuses to start where it can't write to the cache",
        source="Mountpoint for Amazon S3, CONFIGURATION, --cache-xz",
        check=_cache_region,
        passes=_with(replace(_SHARED_CACHE, bucket_region="us-east-1")),
        fails=_with(replace(_SHARED_CACHE, bucket_region="eu-west-1")),
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
        id="mounts.checkpoint-rename",
        statement="checkpoints are never saved through a Mountpoint mount of a general purpose bucket",
        reason="savers write a temporary file and rename it; a general purpose bucket has no rename",
        source="field report 30",
        check=_rename,
        passes=_NODE,
        fails=replace(_NODE, checkpoint_path="/lake/checkpoints"),
    ),
    Rule(
        id="mounts.checkpoint-writable",
        statement="checkpoints are saved on a mount that takes writes",
        reason="the first save would fail after the nodes have trained for it",
        source="Mountpoint for Amazon S3, CONFIGURATION, --read-only; mount(8)",
        check=_checkpoints_writable,
        passes=replace(_NODE, mounts=(_HOT,), checkpoint_path="/hot/checkpoints"),
        fails=replace(_NODE, mounts=(replace(_HOT, read_only=True),), checkpoint_path="/hot/checkpoints"),
    ),
    *VALUE_RULES,
    *OPTION_RULES,
)
