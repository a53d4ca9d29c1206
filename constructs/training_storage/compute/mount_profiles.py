"""Mounts by what they are for: the values that suit a role, each with its reason.

Each function returns a plain mount, so that all of it can be looked at and, with ``dataclasses.replace``, changed.
"""

from __future__ import annotations

import math
from typing import Final, Literal, cast

from training_storage._arguments import NUMBER, WHOLE, Kind, between, has, misfits, optional
from training_storage._tokens import is_concrete
from training_storage.catalog import Catalog, default_catalog
from training_storage.compute.mount_checks import SOURCE
from training_storage.compute.mount_model import (
    BucketSource,
    DirectoryBucketTarget,
    LustreClientTarget,
    LustreMount,
    MountpointMount,
    is_directory_bucket,
)
from training_storage.errors import Problem, ValidationError
from training_storage.rules.mountpoint_values import PART_MIB, PARTS
from training_storage.rules.mounts import cache_limit_mib

_MIB: Final = 2**20
_NVME: Final = "/opt/dlami/nvme"
"""Where Deep Learning images join the instance store (dlami-nvme.service)."""
_NOT_NEGATIVE: Final = Kind(
    allowed="a number, 0 or more, known at synth",
    fits=lambda value: NUMBER.fits(value) and between(value, 0),
)
_COUNT: Final = Kind(
    allowed="a whole number, 1 or more, known at synth",
    fits=lambda value: WHOLE.fits(value) and between(value, 1),
)


def dataset_reading(
    bucket: BucketSource,
    *,
    path: str = "/lake",
    prefix: str = "",
    immutable: bool = False,
    local_nvme_gb: float = 0.0,
    read_bytes: float | None = None,
    cache_bucket: DirectoryBucketTarget | None = None,
    fleet_read_mb_per_s: float | None = None,
    file_bytes: float | None = None,
    maximum_throughput_gbps: float | None = None,
    catalog: Catalog | None = None,
) -> MountpointMount:
    """Return a mount to read a data set through.

    - Read-only: a mistake in training code deletes nothing.
    - Metadata is kept for ever where the data never changes (a version of its own, such as ``datasets/v3/``): each file
      is then looked up once a node, not once an epoch. Otherwise it is kept as Mountpoint does by itself.
    - A cache on local NVMe where the type has disks and all that one run reads fits into 80 % of them. Every node reads
      a random part of the data in each epoch, so a smaller cache would throw files out before they are read again.
    - A shared cache where a directory bucket for it is given: worth it for many small files, since it keeps objects up
      to 1 MiB.
    - Parts for reading as large as it takes for the whole fleet to stay below the requests that one prefix serves
      (5,500 GET a second; a directory bucket serves 200,000), in steps that double Mountpoint's own 8 MiB, and no
      larger than a file. Larger parts than that cost throughput.
    - Reading ahead is left to Mountpoint, which has no option for it: it does so for each open file, and more the
      longer a file is read in order.

    Args:
        bucket: Bucket of the data set.
        path: Where it is mounted.
        prefix: Key prefix that becomes the root.
        immutable: Whether objects below it are never replaced or removed while nodes run.
        local_nvme_gb: Instance store of the type in GB. Left out, there is no cache on it.
        read_bytes: Bytes that one run reads. Left out, they are taken to fit.
        cache_bucket: Directory bucket of a shared cache. Left out, there is none.
        fleet_read_mb_per_s: What all nodes read together, MB/s. Left out, parts stay at 8 MiB.
        file_bytes: Size of a file. Left out, files are taken to be larger than a part.
        maximum_throughput_gbps: As for ``MountpointMount``; for several mounts on one node, the share of each.
        catalog: Facts for the limits. Left out, those of the package.

    Raises:
        ValidationError: The bucket is none, or a number is none or below 0.
    """
    _require(
        {
            "bucket": (bucket, SOURCE),
            "local_nvme_gb": (local_nvme_gb, _NOT_NEGATIVE),
            "read_bytes": (read_bytes, optional(_NOT_NEGATIVE)),
            "fleet_read_mb_per_s": (fleet_read_mb_per_s, optional(_NOT_NEGATIVE)),
            "file_bytes": (file_bytes, optional(_NOT_NEGATIVE)),
        },
        "dataset_reading",
    )
    facts = (catalog or default_catalog()).object_storage
    room = cache_limit_mib(local_nvme_gb, facts.mountpoint_cache_disk_share_max) * _MIB
    on_nvme = local_nvme_gb > 0 and (read_bytes is None or read_bytes <= room)
    caches = [name for name, wanted in (("nvme", on_nvme), ("express", cache_bucket is not None)) if wanted]
    gets = facts.express_get_requests_per_s if is_directory_bucket(bucket) else facts.get_requests_per_s_per_prefix
    return MountpointMount(
        bucket=bucket,
        path=path,
        prefix=prefix,
        read_only=True,
        cache=cast(Literal["none", "nvme", "express", "nvme+express"], "+".join(caches) or "none"),
        cache_bucket=cache_bucket,
        metadata_ttl="indefinite" if immutable else None,
        read_part_size_mib=_read_part_mib(fleet_read_mb_per_s, file_bytes, gets, facts.part_bytes),
        maximum_throughput_gbps=maximum_throughput_gbps,
    )


def checkpoint_writing(
    target: LustreClientTarget | DirectoryBucketTarget,
    *,
    path: str | None = None,
    prefix: str = "",
    file_bytes: float | None = None,
    files_at_once: int | None = None,
    append: bool = False,
    efa: bool = False,
    gds: bool = False,
    maximum_throughput_gbps: float | None = None,
    catalog: Catalog | None = None,
) -> LustreMount | MountpointMount:
    """Return a mount to save checkpoints on: Lustre, or a directory bucket.

    A general purpose bucket is refused: savers write a temporary file and rename it, and only a directory bucket can
    rename. On a directory bucket the mount

    - takes writes, deletes and overwrites: old checkpoints are removed, and a rename that replaces a file (``latest``)
      is an overwrite;
    - uploads in many parts at once. Appending is left off unless it is asked for: one upload then runs at the speed of
      single requests;
    - has parts for writing that let a file of ``file_bytes`` fit into the 10,000 parts of an object, where Mountpoint's
      own 8 MiB end at 78 GiB;
    - has memory for ``files_at_once`` open files: from 1.24 on Mountpoint refuses more than
      (target - max(128 MiB, target / 8) - part for reading) / part for writing.

    Args:
        target: A ``LustreFileSystem``, a ``DirectoryBucket``, or what has their ways.
        path: Where it is mounted. Left out: ``/fsx`` or ``/hot``.
        prefix: Directory bucket only: key prefix that becomes the root.
        file_bytes: Size of the largest file of a checkpoint, with room for it to grow. Left out, at most 78 GiB.
        files_at_once: Files that one node writes at once, at most. Left out, memory is shared as for other mounts.
        append: Directory bucket only: whether files are appended to or must be seen before they are closed.
        efa: Lustre only, as for ``LustreMount``.
        gds: Lustre only, as for ``LustreMount``.
        maximum_throughput_gbps: Directory bucket only, as for ``MountpointMount``.
        catalog: Facts for the limits. Left out, those of the package.

    Raises:
        ValidationError: The target is a general purpose bucket, or a file is larger than an object can be.
    """
    if has(target, "file_system_id", "dns_name", "mount_name", "allow_client"):
        return LustreMount(file_system=cast(LustreClientTarget, target), path=path or "/fsx", efa=efa, gds=gds)
    bucket = cast(BucketSource, target)
    if not has(target, "bucket_arn") or not is_directory_bucket(bucket):
        raise ValidationError(
            Problem(
                what="checkpoints on a general purpose bucket, which has no rename"
                if has(target, "bucket_arn") or has(target, "bucket", "grant_read")
                else "not what checkpoints can be saved on",
                path="target",
                allowed="a LustreFileSystem or a DirectoryBucket: savers write a temporary file and rename it",
                fix="save to one of them or to local NVMe, and copy finished checkpoints to the lake",
            ),
            where="checkpoint_writing",
        )
    _require(
        {"file_bytes": (file_bytes, optional(_NOT_NEGATIVE)), "files_at_once": (files_at_once, optional(_COUNT))},
        "checkpoint_writing",
    )
    facts = (catalog or default_catalog()).object_storage
    usual_mib = facts.part_bytes // _MIB
    part_mib = _write_part_mib(file_bytes, usual_mib)
    memory = None
    if files_at_once is not None:
        least = facts.mountpoint_memory_target_min_mib
        memory = _memory_target_mib(files_at_once, part_mib, usual_mib, least)
    return MountpointMount(
        bucket=bucket,
        path=path or "/hot",
        prefix=prefix,
        read_only=False,
        allow_delete=True,
        allow_overwrite=True,
        incremental_upload=append,
        write_part_size_mib=part_mib if part_mib > usual_mib else None,
        memory_target_mib=memory,
        maximum_throughput_gbps=maximum_throughput_gbps,
    )


def local_scratch(*names: str, local_nvme_gb: float) -> tuple[str, ...]:
    """Return directories on local NVMe, for ``NodeStorage(directories=...)``.

    Each is open to every user, as ``/tmp`` is, and gone with the instance: for temporary results, shards that are put
    together on the node, and checkpoints on their way to S3. A node whose disks are not there ends its bootstrap.

    Args:
        names: Names below the disks. Left out: ``scratch``.
        local_nvme_gb: Instance store of the type in GB.

    Raises:
        ValidationError: The type has no local NVMe, or a name is no plain one.
    """
    _require({"local_nvme_gb": (local_nvme_gb, _NOT_NEGATIVE)}, "local_scratch")
    if local_nvme_gb == 0:
        raise ValidationError(
            Problem(
                what="scratch on local NVMe, and the instance type has none",
                path="local_nvme_gb",
                value=local_nvme_gb,
                allowed="a type with local NVMe",
                fix="use scratch on Lustre, or choose a type with local NVMe",
            ),
            where="local_scratch",
        )
    wrong = [name for name in names if not _is_plain(name)]
    if wrong:
        raise ValidationError(
            [
                Problem(
                    what="not a directory below the local disks",
                    path="names",
                    value=name if isinstance(name, str) and is_concrete(name) else None,
                    allowed="letters, digits, dots, hyphens and underscores, such as scratch",
                )
                for name in wrong
            ],
            where="local_scratch",
        )
    return tuple(f"{_NVME}/{name}" for name in names or ("scratch",))


def _require(arguments: dict[str, tuple[object, Kind]], where: str) -> None:
    if wrong := misfits(arguments):
        raise ValidationError(wrong, where=where)
    late = [name for name, (value, kind) in arguments.items() if kind is not SOURCE and not is_concrete(value)]
    if late:
        raise ValidationError(
            [
                Problem(what=f"{name} is known only when the stack is deployed", path=name, allowed="a plain number")
                for name in late
            ],
            where=where,
        )


def _is_plain(name: object) -> bool:
    return (
        isinstance(name, str)
        and is_concrete(name)
        and name not in ("", ".", "..")
        and all(letter.isascii() and (letter.isalnum() or letter in "._-") for letter in name)
    )


def _read_part_mib(
    fleet_mb_per_s: float | None, file_bytes: float | None, gets_per_s: int, usual_bytes: int
) -> int | None:
    """Return the size of a part for reading in MiB; None where Mountpoint's own does."""
    if fleet_mb_per_s is None:
        return None
    wanted = fleet_mb_per_s * 1e6 / gets_per_s
    if file_bytes is not None:
        wanted = min(wanted, file_bytes)  # a file that is smaller than a part is one request anyhow
    doublings = math.ceil(math.log2(wanted / usual_bytes)) if wanted > usual_bytes else 0
    return min(usual_bytes // _MIB * 2**doublings, PART_MIB[1]) if doublings else None


def _write_part_mib(file_bytes: float | None, usual_mib: int) -> int:
    """Return the size of a part for writing in MiB that lets a file fit into the parts of one object."""
    part_mib = max(usual_mib, math.ceil((file_bytes or 0) / PARTS / _MIB))
    if part_mib > PART_MIB[1]:
        raise ValidationError(
            Problem(
                what="a file that is larger than an object of Amazon S3 can be",
                path="file_bytes",
                value=file_bytes,
                allowed=f"at most {PARTS:,} parts of {PART_MIB[1]:,} MiB",
                fix="save a checkpoint in several files",
            ),
            where="checkpoint_writing",
        )
    return part_mib


def _memory_target_mib(files: int, write_part_mib: int, read_part_mib: int, least_mib: int) -> int:
    """Return the smallest memory target in MiB with which Mountpoint 1.24 takes so many files that are written."""
    needed = files * write_part_mib + read_part_mib
    # Above 1 GiB an eighth of the target is kept back, below 128 MiB are.
    target = needed + 128 if needed + 128 <= 1024 else math.ceil(needed * 8 / 7)
    return max(least_mib, target)
