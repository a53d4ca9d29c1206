"""What every node mounts, and where training code finds its directories (contract section 5)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from training_storage.planner.draft import Draft
from training_storage.planner.links import CHECKPOINTS_PREFIX, dataset_source
from training_storage.planner.model import LustrePlan, MountPlan, Paths, S3FilesPlan, SharedCachePlan, Tiers
from training_storage.planner.s3_supply import SAVED_CHECKPOINTS_ON_NVME, s3_gbps
from training_storage.planner.words import gib, number
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.mountpoint_values import PARTS
from training_storage.rules.mounts import MOUNT_RULES, MOUNT_WORKLOAD_PATHS, MountSettings, NodeSettings
from training_storage.units import GB, GIB, MIB

LUSTRE = "/fsx"
LAKE = "/lake"
SOURCE = "/source"
HOT = "/hot"
NVME = "/opt/dlami/nvme"
"""Where the Deep Learning AMI joins and mounts all local NVMe."""

SHARED_CACHE_DAYS = 7
"""Days after which a shared cache forgets an object where nothing is given: as long as AWS advises for training data
that S3 Files keeps (1 to 7 days); Mountpoint itself never removes any."""

Cache = Literal["none", "nvme", "express"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _CachePlan:
    kind: Cache
    size_mib: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """What a node mounts.

    Attributes:
        mounts: The mounts, hot tier first.
        paths: Where training code finds its directories.
        s3_files: The S3 Files file system; None without one.
        shared_cache: The directory bucket of a shared cache; None without one.
    """

    mounts: tuple[MountPlan, ...]
    paths: Paths
    s3_files: S3FilesPlan | None
    shared_cache: SharedCachePlan | None


def plan_node(draft: Draft, tiers: Tiers, lustre: LustrePlan | None) -> NodePlan:
    """Return mounts and paths; what cannot be mounted goes to the draft's problems."""
    workload = draft.workload
    posix = workload.dataset.interface == "posix"
    source_bucket, source_prefix = dataset_source(workload)
    own_mount = source_bucket is not None and tiers.hot != "lustre" and tiers.file_access != "none"
    mounts: list[MountPlan] = []
    if lustre is not None:
        mounts.append(MountPlan(path=LUSTRE, kind="lustre", read_only=False, options={}))
    if tiers.hot == "express":  # object code too: the mount proves on each node that the bucket can be reached
        mounts.append(_mountpoint(draft, path=HOT, prefix="", read_only=False, cache=_CachePlan(kind="none"), hot=True))
    s3_files = None
    if tiers.file_access == "s3-files":
        s3_files = _s3_files(draft)
        mounts.append(MountPlan(path=LAKE, kind="s3-files", read_only=s3_files.read_only, options={}))
    cache = _cache(draft, tiers) if tiers.file_access == "mountpoint" or own_mount else _CachePlan(kind="none")
    if tiers.file_access == "mountpoint":
        mounts.append(
            _mountpoint(
                draft,
                path=LAKE,
                prefix="",
                read_only=workload.mountpoint.read_only,
                cache=_CachePlan(kind="none") if own_mount else cache,
            )
        )
    if own_mount:
        mounts.append(
            _mountpoint(draft, path=SOURCE, bucket=source_bucket, prefix=source_prefix, read_only=True, cache=cache)
        )
    paths = Paths(
        datasets=_datasets_path(tiers, lustre, source_bucket, source_prefix, own_mount=own_mount, posix=posix),
        checkpoints=_checkpoints_path(draft, tiers, lustre, posix=posix),
        scratch=f"{LUSTRE}/scratch" if lustre is not None else None,
    )
    if workload.mountpoint.model_fields_set:
        _check(draft, mounts, paths)
    if workload.scratch_size.bytes and lustre is None:
        draft.warn(
            "scratch-without-lustre",
            f"scratch_size asks for {gib(workload.scratch_size.gib)} on Lustre, and there is no Lustre: temporary "
            f"results have local NVMe only ({gib(draft.facts.local_nvme_gb * GB / GIB)} an instance)",
        )
    if paths.checkpoints is not None and paths.checkpoints.startswith(NVME) and draft.needs.saves is not None:
        draft.warn(
            "saves-on-nodes",
            f"POSIX code saves to {paths.checkpoints} on local NVMe, which is gone with its node. The nodes' agent "
            "looks every minute and uploads what the policy promotes (checkpoints.promote_every, best) to checkpoints/ "
            "of the data lake; what is newer is lost with a node unless `training-storage checkpoints promote` uploads "
            "it before. "
            "Save and restore times and the bill count the whole way to S3",
        )
    shared = _shared_cache(draft, tiers) if any(mount.options.get("cache") == "express" for mount in mounts) else None
    return NodePlan(mounts=tuple(mounts), paths=paths, s3_files=s3_files, shared_cache=shared)


def _shared_cache(draft: Draft, tiers: Tiers) -> SharedCachePlan:
    """Return the directory bucket of the cache, and say where the files are too large for it."""
    workload, most = draft.workload, draft.catalog.object_storage.mountpoint_shared_cache_max_object_bytes
    size = draft.needs.file_bytes
    if size is not None and size > most:
        draft.warn(
            "shared-cache-large-files",
            f"a shared cache keeps objects up to {number(most / MIB)} MiB, and files of the data set have "
            f"{number(size / MIB)} MiB: they are read from the lake each time; set mountpoint.cache to nvme or none",
        )
    days: int | None = SHARED_CACHE_DAYS
    if workload.mountpoint.cache_bucket is not None:
        days = None
    elif workload.express.expire_after is not None and tiers.hot != "express":
        days = int(workload.express.expire_after.seconds // 86400)
    return SharedCachePlan(availability_zone_id=workload.availability_zone_id, expire_after_days=days)


def _s3_files(draft: Draft) -> S3FilesPlan:
    given = draft.workload.s3_files
    read_only = draft.workload.dataset.access == "read-mostly" if given.read_only is None else given.read_only
    if not read_only and not given.root_access and given.file_system_id is None:
        draft.warn(
            "s3-files-root-squashed",
            "S3 Files is mounted for writing without root: directories that nobody gave an owner belong to root, and "
            "only root may write there; set s3_files.root_access: true, or give them to the user of the job",
        )
    return S3FilesPlan(read_only=read_only, root_access=given.root_access)


def _mountpoint(
    draft: Draft,
    *,
    path: str,
    prefix: str,
    read_only: bool,
    cache: _CachePlan,
    bucket: str | None = None,
    hot: bool = False,
) -> MountPlan:
    options: dict[str, str | int | float | bool | None] = {
        "bucket": bucket,
        "prefix": prefix,
        "maximum_throughput_gbps": s3_gbps(draft.facts),
        "cache": cache.kind,
        "cache_size_mib": cache.size_mib,
    }
    if hot:
        options["directory_bucket"] = True
        options["write_part_size_mib"] = _write_part_mib(draft)
    return MountPlan(path=path, kind="mountpoint", read_only=read_only, options=options)


def _write_part_mib(draft: Draft) -> int | None:
    """Return the part in which a node's share of a checkpoint fits one file; None where the default part does.

    A file has at most 10,000 parts, 78 GiB in the default part of 8 MiB; savers that write one file a rank or a node
    then never meet the limit. A larger part costs memory for every open file.
    """
    saves = draft.needs.saves
    if saves is None:
        return None
    part = math.ceil(saves.checkpoint_bytes / draft.needs.instances / PARTS / MIB)
    return part if part * MIB > draft.catalog.object_storage.part_bytes else None


def _cache_room_bytes(draft: Draft, tiers: Tiers) -> float:
    """Bytes of local NVMe that a cache may take: 80 % of what saves to NVMe leave."""
    room = draft.facts.local_nvme_gb * GB
    saves = draft.needs.saves
    if saves is not None and tiers.hot == "none" and draft.workload.dataset.interface == "posix":
        room -= SAVED_CHECKPOINTS_ON_NVME * saves.checkpoint_bytes / draft.needs.instances
    return max(0.0, room * draft.catalog.object_storage.mountpoint_cache_disk_share_max)


def _cache(draft: Draft, tiers: Tiers) -> _CachePlan:
    """Return the cache of the mount that the data set is read through.

    ``auto`` takes NVMe where training reads through Mountpoint and everything that one run reads fits on the disks of
    one instance. Each instance reads a random part of the data in every epoch, so a smaller cache would throw files out
    before they are read again, and each read would cost a write on top.
    """
    given = draft.workload.mountpoint
    room = _cache_room_bytes(draft, tiers)
    size_mib = None if given.cache_size is None else int(given.cache_size.bytes // MIB)
    if given.cache == "express":
        if draft.workload.availability_zone_id not in draft.region.express_zone_ids:
            draft.refuse(
                f"{draft.workload.availability_zone_id} has no S3 Express One Zone for the cache",
                path="mountpoint.cache",
                value="express",
                allowed="none or nvme in this zone",
            )
        draft.choose("mountpoint.cache", "express", "mountpoint.cache is given")
        return _CachePlan(kind="express")
    if given.cache == "none":
        draft.choose("mountpoint.cache", "none", "mountpoint.cache is given")
        return _CachePlan(kind="none")
    if given.cache == "nvme" or size_mib is not None:
        draft.choose("mountpoint.cache", "nvme", "mountpoint.cache or its size is given")
        return _CachePlan(kind="nvme", size_mib=int(room // MIB) if size_mib is None else size_mib)
    dataset = draft.workload.dataset
    read_bytes = dataset.size.bytes * dataset.hot_fraction
    reads, limit = gib(read_bytes / GIB), gib(room / GIB)
    if tiers.hot != "none":
        why, cache = f"training reads on {tiers.hot}", False
    elif draft.facts.local_nvme_gb <= 0:
        why, cache = f"{draft.facts.name} has no local NVMe", False
    elif not given.read_only:
        why, cache = "the mount takes writes", False
    elif read_bytes > room:
        why = (
            f"one run reads {reads}, more than the {limit} that one instance can cache: files would leave before reuse"
        )
        cache = False
    else:
        why, cache = f"all that one run reads ({reads}) fits in the {limit} that one instance can cache", True
    draft.choose("mountpoint.cache", "nvme" if cache else "none", why)
    if cache:
        against = f"each epoch would read the {reads} from S3 again"
    elif draft.facts.local_nvme_gb <= 0:
        against = f"{draft.facts.name} has no disk for a cache"
    else:
        against = f"a cache of up to {limit} an instance would take disk and writes for no reuse"
    draft.reject("mountpoint.cache", "none" if cache else "nvme", against)
    return _CachePlan(kind="nvme", size_mib=int(room // MIB)) if cache else _CachePlan(kind="none")


def _datasets_path(
    tiers: Tiers,
    lustre: LustrePlan | None,
    source_bucket: str | None,
    source_prefix: str,
    *,
    own_mount: bool,
    posix: bool,
) -> str | None:
    if lustre is not None:
        return _linked_path(lustre, source_bucket, source_prefix) or f"{LUSTRE}/datasets"
    if tiers.hot == "express" and posix:
        return f"{HOT}/{source_prefix}".rstrip("/")  # what is staged keeps its key
    if own_mount:
        return SOURCE
    if tiers.file_access == "none":
        return None
    return f"{LAKE}/{source_prefix}".rstrip("/")


def _linked_path(lustre: LustrePlan, bucket: str | None, prefix: str) -> str | None:
    """Return the directory under which a link shows a prefix, or None where no link does."""
    for link in lustre.links:
        if link.bucket == bucket and prefix.startswith(link.prefix):
            return f"{LUSTRE}{link.path.rstrip('/')}/{prefix[len(link.prefix) :]}".rstrip("/")
    return None


def _checkpoints_path(draft: Draft, tiers: Tiers, lustre: LustrePlan | None, *, posix: bool) -> str | None:
    """Where code saves; never under a Mountpoint mount of a general purpose bucket, which has no rename."""
    if draft.needs.saves is None:
        return None
    if lustre is not None:
        return _linked_path(lustre, None, CHECKPOINTS_PREFIX) or f"{LUSTRE}/checkpoints"
    if not posix:
        return None
    return f"{HOT}/checkpoints" if tiers.hot == "express" else f"{NVME}/checkpoints"


def _check(draft: Draft, mounts: list[MountPlan], paths: Paths) -> None:
    settings: list[MountSettings] = []
    for mount in mounts:
        options = mount.options
        kind, size = options.get("cache"), options.get("cache_size_mib")
        gbps = options.get("maximum_throughput_gbps")
        settings.append(
            MountSettings(
                path=mount.path,
                kind=mount.kind,
                read_only=mount.read_only,
                directory_bucket=bool(options.get("directory_bucket")) if mount.kind == "mountpoint" else None,
                prefix=str(options["prefix"]) if "prefix" in options else None,
                maximum_throughput_gbps=gbps if isinstance(gbps, int | float) else None,
                # A cache on S3 Express is no matter of the local disks.
                cache=kind if isinstance(kind, str) and kind != "express" else None,
                cache_size_mib=size if isinstance(size, int) else None,
            )
        )
    node = NodeSettings(
        catalog=draft.catalog,
        mounts=tuple(settings),
        local_nvme_gb=draft.facts.local_nvme_gb,
        checkpoint_path=paths.checkpoints,
    )
    draft.problems.extend(relabel(find_problems(MOUNT_RULES, node), MOUNT_WORKLOAD_PATHS))
