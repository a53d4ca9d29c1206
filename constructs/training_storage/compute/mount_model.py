"""Mounts as values, and as the rules look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from training_storage._tokens import concrete, is_concrete
from training_storage.rules.mounts import MountSettings


class LustreClientTarget(Protocol):
    """What a mount needs of an FSx for Lustre file system; ``LustreFileSystem`` is one."""

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``."""

    @property
    def dns_name(self) -> str:
        """DNS name of the file system."""

    @property
    def mount_name(self) -> str:
        """Mount name that FSx gave."""

    def allow_client(self, client: ec2.IConnectable) -> Sequence[cdk.CfnResource]:
        """Open the Lustre ports between client and file system, and return the rules, made in the client's stack."""


@runtime_checkable
class Lake(Protocol):
    """What a mount needs of a data lake; ``DataLake`` is one."""

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket."""

    def grant_read(self, grantee: iam.IGrantable, *, prefix: str | None = None) -> iam.Grant:
        """Let the grantee list and read below a prefix."""

    def grant_read_write(self, grantee: iam.IGrantable, *, prefix: str | None = None) -> iam.Grant:
        """Let the grantee list, read and write below a prefix."""

    def grant_delete(self, grantee: iam.IGrantable, *, prefix: str | None = None) -> iam.Grant:
        """Let the grantee delete below a prefix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LustreMount:
    """An FSx for Lustre file system on every node.

    Attributes:
        file_system: The file system.
        path: Where it is mounted.
        efa: Whether nodes reach it over EFA: the FSx EFA client is set up, and the transport in use is checked.
        on_tcp: What to do where EFA is wanted and the traffic goes over TCP: ``report`` (the default) goes on, with a
            warning and ``"transport": "tcp"`` in the status file; ``fail`` ends the bootstrap.
        gds: Whether the EFA client is set up for GPUDirect Storage.
        checkpoints: Directory below the mount that gets a layout over all storage targets; None for none.
        scratch: Directory below the mount for temporary data; None for none.
    """

    file_system: LustreClientTarget
    path: str = "/fsx"
    efa: bool = False
    on_tcp: Literal["report", "fail"] = "report"
    gds: bool = False
    checkpoints: str | None = "checkpoints"
    scratch: str | None = "scratch"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountpointMount:
    """A bucket as files, through Mountpoint for Amazon S3, one process and one systemd unit a mount.

    Attributes:
        bucket: A ``DataLake``, or any bucket.
        path: Where it is mounted.
        prefix: Key prefix that becomes the root, ending in a slash; empty for the whole bucket.
        read_only: Whether the mount refuses writes. Default: yes.
        allow_delete: Whether files can be deleted. Default: no.
        allow_overwrite: Whether files can be overwritten. Default: no.
        maximum_throughput_gbps: Gbit/s of this one process. Left out: Mountpoint's own guess, 10 for types that its
            table lacks.
        cache: ``nvme`` keeps a cache on local NVMe; ``none`` (the default) none.
        cache_size_mib: Largest size of that cache in MiB. Left out: this mount's share of 80 % of the disk.
        memory_target_mib: Memory of the process in MiB (Mountpoint 1.24 and later). Left out: its share of one eighth
            of the host's memory; Mountpoint's own default is 95 %.
        region: Region of the bucket. Left out: the one that CDK knows of the bucket, else that of the stack. Another
            one than the stack's gives a warning: data between regions is charged by the gigabyte.
        uid: Owner of the files.
        gid: Group of the files.
        file_mode: Octal mode of files.
        dir_mode: Octal mode of directories.
        key: KMS key of an imported bucket, which CDK can't know. Left out: the bucket's own key, if CDK knows one.
    """

    bucket: Lake | s3.IBucket
    path: str = "/lake"
    prefix: str = ""
    read_only: bool = True
    allow_delete: bool = False
    allow_overwrite: bool = False
    maximum_throughput_gbps: float | None = None
    cache: Literal["none", "nvme"] = "none"
    cache_size_mib: int | None = None
    memory_target_mib: int | None = None
    region: str | None = None
    uid: int = 1000
    gid: int = 1000
    file_mode: str = "0644"
    dir_mode: str = "0755"
    key: kms.IKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAccess:
    """A bucket that training code speaks to itself, without a mount.

    Attributes:
        bucket: A ``DataLake``, or any bucket.
        prefix: Key prefix; empty for the whole bucket.
        write: Whether the nodes also write below it.
        key: KMS key of an imported bucket.
    """

    bucket: Lake | s3.IBucket
    prefix: str = ""
    write: bool = False
    key: kms.IKey | None = None


Mount = LustreMount | MountpointMount


def bucket_of(source: Lake | s3.IBucket) -> s3.IBucket:
    """Return the bucket of a lake, or the bucket itself."""
    return source.bucket if isinstance(source, Lake) else source


def mount_name(path: str) -> str:
    """Return the name of a mount in file names and units: ``data-lake`` for ``/data/lake``."""
    return path.strip("/").replace("/", "-")


def mount_settings(mount: Mount) -> MountSettings:
    """Return a mount as the rules look at it."""
    if isinstance(mount, LustreMount):
        return MountSettings(path=concrete(mount.path), kind="lustre", read_only=False)
    name = bucket_of(mount.bucket).bucket_name
    return MountSettings(
        path=concrete(mount.path),
        kind="mountpoint",
        read_only=mount.read_only,
        # Only the name tells a directory bucket; one that CloudFormation makes up is a general purpose bucket's.
        directory_bucket=is_concrete(name) and name.endswith("--x-s3"),
        prefix=concrete(mount.prefix),
        maximum_throughput_gbps=concrete(mount.maximum_throughput_gbps),
        cache=mount.cache,
        cache_size_mib=concrete(mount.cache_size_mib),
        memory_target_mib=concrete(mount.memory_target_mib),
        allow_delete=mount.allow_delete,
        allow_overwrite=mount.allow_overwrite,
        file_mode=concrete(mount.file_mode),
        dir_mode=concrete(mount.dir_mode),
    )
