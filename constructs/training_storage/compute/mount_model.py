"""Mounts as values, and what they need of the storage that they mount."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, cast, runtime_checkable

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from training_storage._arguments import has
from training_storage._tokens import is_concrete


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


class DirectoryBucketTarget(Protocol):
    """What a mount needs of a directory bucket; ``DirectoryBucket`` is one."""

    @property
    def bucket_name(self) -> str:
        """Full name such as ``hot--use1-az6--x-s3``."""

    @property
    def bucket_arn(self) -> str:
        """ARN of the bucket, in the form of S3 Express."""

    @property
    def availability_zone_id(self) -> str | None:
        """Zone of the bucket; None where the name of an existing bucket does not say it yet."""

    @property
    def encryption_key(self) -> kms.IKey | None:
        """KMS key of the bucket; None with keys of Amazon S3."""

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let the grantee open sessions, without a condition on their mode."""

    def grant_read_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let the grantee open sessions that write."""


class S3FilesTarget(Protocol):
    """What a mount needs of an S3 Files file system; ``S3FileSystem`` is one."""

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``."""

    def allow_client(self, client: ec2.IConnectable) -> Sequence[cdk.CfnResource]:
        """Open the NFS port between client and mount target, and return the rules, made in the client's stack."""

    def grant_read(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        """Let the grantee mount and read; with ``direct_read`` the objects past the file system too."""

    def grant_read_write(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        """Let the grantee mount, read and write."""

    def grant_root(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        """Let root of the grantee be root, which includes writing."""


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

    Which option is for which bucket, and which go together, is one table: docs/bootstrap.md. Mountpoint reads ahead by
    itself, for each open file and more the longer it is read in order; it has no option for that, and what sizes it is
    ``memory_target_mib``, ``maximum_throughput_gbps`` and ``read_part_size_mib``.

    Attributes:
        bucket: A ``DataLake``, any bucket, or a ``DirectoryBucket``.
        path: Where it is mounted.
        prefix: Key prefix that becomes the root, ending in a slash; empty for the whole bucket.
        read_only: Whether the mount refuses writes. Default: yes. Mountpoint asks for a session that writes on a
            directory bucket even then, so that the rights of the nodes carry no condition on its mode.
        allow_delete: Whether files can be deleted. Default: no.
        allow_overwrite: Whether files can be overwritten, and on a directory bucket replaced by a rename. Default: no.
        incremental_upload: Directory bucket only: whether files can be appended to, and are seen before they are
            closed. One upload then runs at the speed of single requests, not of many parts at once. Default: no.
        maximum_throughput_gbps: Gbit/s of this one process. Left out: Mountpoint's own guess, 10 for types that its
            table lacks.
        max_threads: File operations that are served at once. Left out: 16.
        cache: ``nvme`` keeps a cache on local NVMe, ``express`` one that all nodes share in ``cache_bucket``,
            ``nvme+express`` both; ``none`` (the default) none. With a cache, metadata is kept for 60 seconds.
        cache_size_mib: Largest size of the cache on NVMe in MiB. Left out: this mount's share of 80 % of the disk.
        cache_bucket: Directory bucket of the shared cache, which holds nothing else: who can write there decides what
            every node reads. Objects up to 1 MiB are kept there, and Mountpoint never removes any, so let them expire.
        metadata_ttl: How long metadata is kept: seconds, ``minimal``, or ``indefinite`` for data that never changes.
            Left out: ``minimal``, 60 seconds with a cache.
        negative_metadata_ttl: The same for names that are not there. Left out: as ``metadata_ttl``.
        memory_target_mib: Memory of the process in MiB (Mountpoint 1.24 and later). Left out: its share of one eighth
            of the host's memory; Mountpoint's own default is 95 %.
        part_size_mib: Size of a part in MiB, both ways. Left out: 8. A file has at most 10,000 parts.
        read_part_size_mib: The same for reading alone.
        write_part_size_mib: The same for writing alone; 8 MiB let a file grow to 78 GiB.
        sse: Encryption of new objects: ``aws:kms``, ``aws:kms:dsse`` or ``AES256``. Left out: the bucket's own.
        sse_kms_key: Key for it. Left out: the bucket's own.
        upload_checksums: ``crc32c``, ``crc64nvme`` (1.23 and later) or ``off``. Left out: ``crc32c``.
        storage_class: Storage class of new objects, one that can be read as it lies. Left out: STANDARD.
        expected_bucket_owner: Account id that the bucket, and that of a shared cache, must belong to. Left out: any.
        requester_pays: Whether requests and transfer are charged to the nodes' account. Default: no.
        transfer_acceleration: Whether requests go over the edge network; the bucket must have it on. Default: no.
        dual_stack: Whether requests may go over IPv6. Default: no.
        endpoint_url: Endpoint of its own, such as that of an interface endpoint. Left out: by bucket and region.
        bind: Network interfaces that requests leave by. Left out: the one of the default route.
        otlp_endpoint: Where metrics go by OTLP over HTTP, such as ``http://localhost:4318`` (1.21 and later). Left
            out: nowhere.
        otlp_export_interval_seconds: How often. Left out: every 60 seconds.
        log_metrics: Whether metrics stand in the journal every 5 seconds. Default: no.
        region: Region of the bucket. Left out: the one that CDK knows of the bucket, else that of the stack. Another
            one than the stack's gives a warning: data between regions is charged by the gigabyte.
        uid: Owner of the files, 1 or more.
        gid: Group of the files, 1 or more.
        file_mode: Octal mode of files.
        dir_mode: Octal mode of directories.
        key: KMS key of an imported bucket, which CDK can't know. Left out: the bucket's own key, if CDK knows one.
    """

    bucket: Lake | s3.IBucket | DirectoryBucketTarget
    path: str = "/lake"
    prefix: str = ""
    read_only: bool = True
    allow_delete: bool = False
    allow_overwrite: bool = False
    incremental_upload: bool = False
    maximum_throughput_gbps: float | None = None
    max_threads: int | None = None
    cache: Literal["none", "nvme", "express", "nvme+express"] = "none"
    cache_size_mib: int | None = None
    cache_bucket: DirectoryBucketTarget | None = None
    metadata_ttl: int | Literal["minimal", "indefinite"] | None = None
    negative_metadata_ttl: int | Literal["minimal", "indefinite"] | None = None
    memory_target_mib: int | None = None
    part_size_mib: int | None = None
    read_part_size_mib: int | None = None
    write_part_size_mib: int | None = None
    sse: Literal["aws:kms", "aws:kms:dsse", "AES256"] | None = None
    sse_kms_key: kms.IKey | None = None
    upload_checksums: Literal["crc32c", "crc64nvme", "off"] | None = None
    storage_class: str | None = None
    expected_bucket_owner: str | None = None
    requester_pays: bool = False
    transfer_acceleration: bool = False
    dual_stack: bool = False
    endpoint_url: str | None = None
    bind: Sequence[str] = ()
    otlp_endpoint: str | None = None
    otlp_export_interval_seconds: int | None = None
    log_metrics: bool = False
    region: str | None = None
    uid: int = 1000
    gid: int = 1000
    file_mode: str = "0644"
    dir_mode: str = "0755"
    key: kms.IKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class S3FilesMount:
    """An S3 Files file system on every node: NFS with TLS and IAM, through amazon-efs-utils 3.1.2 or later.

    The client's own settings (rsize, timeo, TLS, IAM) are AWS's and can't be given; ``nconnect`` is not supported.

    Attributes:
        file_system: The file system.
        path: Where it is mounted.
        read_only: Whether the mount refuses writes. Default: yes.
        root_access: Whether root of a node is root on it, with the right to write that comes with it. Default: no;
            root is then squashed to another user, who writes only where the mode of a directory lets others write.
        direct_read: Whether large reads go to S3 past the file system, at the price of a GET, with the rights for it.
            Default: yes.
        ship_logs: Whether the client sends its logs to CloudWatch. Default: no, because without a way to the service
            (an interface endpoint in a private network) the mount may hang; the role must let it write logs.
        region: Region of the file system. Left out: that of the stack.
    """

    file_system: S3FilesTarget
    path: str = "/lake"
    read_only: bool = True
    root_access: bool = False
    direct_read: bool = True
    ship_logs: bool = False
    region: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketAccess:
    """A bucket that training code speaks to itself, without a mount.

    Attributes:
        bucket: A ``DataLake``, any bucket, or a ``DirectoryBucket``.
        prefix: Key prefix; empty for the whole bucket. A directory bucket is opened as a whole: its rights know none.
        write: Whether the nodes also write below it.
        key: KMS key of an imported bucket.
    """

    bucket: Lake | s3.IBucket | DirectoryBucketTarget
    prefix: str = ""
    write: bool = False
    key: kms.IKey | None = None


Mount = LustreMount | MountpointMount | S3FilesMount
BucketSource = Lake | s3.IBucket | DirectoryBucketTarget


_DIRECTORY_SUFFIX = "--x-s3"
"""End of every directory bucket's name (Amazon S3 User Guide, directory bucket naming rules)."""


def directory_bucket_of(source: BucketSource) -> DirectoryBucketTarget | None:
    """Return a source that is a ``DirectoryBucket`` or has its ways, else None: no other bucket lies in one zone."""
    wanted = ("bucket_name", "bucket_arn", "availability_zone_id", "grant_read", "grant_read_write")
    return cast(DirectoryBucketTarget, source) if has(source, *wanted) else None


def bucket_of(source: BucketSource) -> s3.IBucket | None:
    """Return the bucket of a lake, or the bucket itself; None for a ``DirectoryBucket``, which is none of the CDK's."""
    if directory_bucket_of(source) is not None:
        return None
    return source.bucket if isinstance(source, Lake) else cast(s3.IBucket, source)


def bucket_name_of(source: BucketSource) -> str:
    """Return the name of a bucket of any kind."""
    bucket = bucket_of(source) or directory_bucket_of(source)
    return bucket.bucket_name if bucket is not None else ""


def is_directory_bucket(source: BucketSource) -> bool:
    """Whether a source is a directory bucket, by its type, or by a name that is known and ends as theirs do."""
    if directory_bucket_of(source) is not None:
        return True
    # Only the name tells one that the CDK has imported; one that CloudFormation makes up is a general purpose bucket's.
    name = bucket_name_of(source)
    return is_concrete(name) and name.endswith(_DIRECTORY_SUFFIX)


def mount_name(path: str) -> str:
    """Return the name of a mount in file names and units: ``data-lake`` for ``/data/lake``."""
    return path.strip("/").replace("/", "-")
