"""What nodes mount, and how they come to it: mounts as values, and ``NodeStorage`` that turns them into a bootstrap."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from training_storage._tokens import concrete, is_concrete
from training_storage.compute.bootstrap import SCRIPTS, Signal, start_commands
from training_storage.errors import NotDeployableError, Problem, ValidationError
from training_storage.rules.base import find_problems
from training_storage.rules.mounts import MOUNT_RULES, MountSettings, NodeSettings

if TYPE_CHECKING:
    from training_storage.planner.model import MountPlan, Plan

LOCAL_NVME = "/opt/dlami/nvme"
"""Where Deep Learning images join the instance store (dlami-nvme.service)."""

_DIRECTORY = re.compile(r"(?:/[A-Za-z0-9._-]+)+")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_VALUE = re.compile(r"[^\r\n\"\\$`]*")
"""What stands the same in double quotes for a shell, for systemd and for the readers of languages."""


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
        region: Region of the bucket. Left out: that of the stack.
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


class NodeStorage(Construct):
    """Storage as nodes see it: mounts, their rights, and the bootstrap that mounts and proves them.

    Made for ``GpuFleet``, and usable with anybody's instances:

        >>> storage = NodeStorage(stack, "Storage", mounts=[LustreMount(file_system=file_system)])
        >>> storage.attach(client=my_instance, grantee=my_instance.role)
        >>> storage.add_to(my_instance.user_data)

    On the node: retries with a bound, a write and read probe, the transport really in use, a status file
    ``/var/lib/training-storage/status.json``, the log ``/var/log/training-storage.log``, and
    ``/etc/training-storage/env`` with paths and URIs for training code.

    Args:
        scope: Scope of the construct.
        construct_id: Id in that scope.
        mounts: What is mounted, in this order; at most one Lustre file system.
        buckets: Buckets that training code speaks to itself.
        environment: More lines for ``/etc/training-storage/env``: upper-case names, values in one line.
        directories: Directories that are made on the node, each only where its disk is there.
        local_nvme_gb: Instance store of the type. Left out: not known, and caches are only checked on the node.
        checkpoint_path: Where training code saves, to check that it can rename there. Left out: not checked.

    Raises:
        ValidationError: A mount, a path or a value breaks a rule.

    Attributes:
        mounts: As given.
        scripts: The bootstrap scripts as an S3 asset.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        mounts: Sequence[Mount],
        buckets: Sequence[BucketAccess] = (),
        environment: Mapping[str, str] | None = None,
        directories: Sequence[str] = (),
        local_nvme_gb: float | None = None,
        checkpoint_path: str | None = None,
    ) -> None:
        environment = dict(environment or {})
        problems = [
            *find_problems(
                MOUNT_RULES,
                NodeSettings(
                    mounts=tuple(_settings(mount) for mount in mounts),
                    local_nvme_gb=concrete(local_nvme_gb),
                    checkpoint_path=concrete(checkpoint_path),
                ),
            ),
            *_shape_problems(mounts, environment, directories),
        ]
        if problems:
            raise ValidationError(problems, where=f"{scope.node.path}/{construct_id}".lstrip("/"))
        super().__init__(scope, construct_id)

        self.mounts: tuple[Mount, ...] = tuple(mounts)
        self._buckets = tuple(buckets)
        self._directories = tuple(directories)
        self._environment = {"TRAINING_STORAGE_REGION": cdk.Stack.of(self).region} | _mount_paths(mounts) | environment
        self.scripts = s3_assets.Asset(self, "Scripts", path=str(SCRIPTS), exclude=["__pycache__"])

    @classmethod
    def from_plan(
        cls,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        data_lake: Lake,
        file_system: LustreClientTarget | None = None,
        source_bucket: s3.IBucket | None = None,
        source_key: kms.IKey | None = None,
    ) -> NodeStorage:
        """Make the mounts, paths and rights of a plan.

        Args:
            scope: Scope of the construct.
            construct_id: Id in that scope.
            plan: The plan.
            data_lake: The data lake of the workload.
            file_system: The file system; needed where the plan mounts Lustre.
            source_bucket: The bucket that ``dataset.source`` names. Left out: taken by its name.
            source_key: Its KMS key, where it has one.

        Raises:
            NotDeployableError: The plan mounts something that this version has no construct for.
            ValidationError: The plan mounts Lustre and no file system is given.
        """
        planned = _Planned(scope, construct_id, plan, data_lake, file_system, source_bucket, source_key)
        return cls(
            scope,
            construct_id,
            mounts=planned.mounts(),
            buckets=planned.buckets(),
            environment=planned.environment(),
            directories=planned.directories(),
            local_nvme_gb=plan.compute.facts.local_nvme_gb,
            checkpoint_path=plan.paths.checkpoints,
        )

    def attach(self, *, client: ec2.IConnectable, grantee: iam.IGrantable) -> list[cdk.CfnResource]:
        """Give instances the network paths and the rights that the mounts need.

        Args:
            client: Whose security groups reach the file system; the rules are made in its stack.
            grantee: Role of the instances, or what carries one.

        Returns:
            The security group rules, so that instances can wait for them.
        """
        self.grant(grantee)
        return self.allow_client(client)

    def allow_client(self, client: ec2.IConnectable) -> list[cdk.CfnResource]:
        """Open the Lustre ports between the client and the file system, and return the rules."""
        rules: list[cdk.CfnResource] = []
        for mount in self.mounts:
            if isinstance(mount, LustreMount):
                rules.extend(mount.file_system.allow_client(client))
        return rules

    def grant(self, grantee: iam.IGrantable) -> None:
        """Grant what the nodes need: the scripts, and read or read-write on the buckets."""
        stack = cdk.Stack.of(self)
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["s3:GetObject"],
            resource_arns=[
                stack.format_arn(
                    service="s3",
                    region="",
                    account="",
                    resource=self.scripts.s3_bucket_name,
                    resource_name=self.scripts.s3_object_key,
                )
            ],
        )
        for mount in self.mounts:
            if isinstance(mount, MountpointMount):
                _grant(grantee, mount.bucket, mount.prefix, not mount.read_only, mount.allow_delete, mount.key)
        for access in self._buckets:
            _grant(grantee, access.bucket, access.prefix, access.write, False, access.key)

    def commands(self, *, user_commands: Sequence[str] = (), signal: Signal | None = None) -> list[str]:
        """Return the bootstrap as shell commands.

        Args:
            user_commands: Shell lines that run after the storage is mounted and proven, in a shell of their own that
                stops at the first error. Long work belongs in the background: the node is ready when they end.
            signal: Resource that waits for the node. Left out: nothing is signalled.
        """
        cached = sum(1 for mount in self.mounts if isinstance(mount, MountpointMount) and mount.cache == "nvme")
        processes = sum(1 for mount in self.mounts if isinstance(mount, MountpointMount))
        return start_commands(
            settings={
                "TS_REGION": cdk.Stack.of(self).region,
                "TS_SCRIPTS_BUCKET": self.scripts.s3_bucket_name,
                "TS_SCRIPTS_KEY": self.scripts.s3_object_key,
                "TS_DIRECTORIES": " ".join(self._directories),
                "TS_CACHES": str(cached) if cached else "",
                "TS_MOUNTPOINTS": str(processes) if processes else "",
            },
            mounts={_mount_name(mount.path): self._mount_settings(mount) for mount in self.mounts},
            environment=self._environment,
            user_commands=user_commands,
            signal=signal,
        )

    def add_to(
        self, user_data: ec2.UserData, *, user_commands: Sequence[str] = (), signal: Signal | None = None
    ) -> None:
        """Append the bootstrap to any Linux user data; where it fails, the user data ends there.

        Args:
            user_data: User data of a shell script.
            user_commands: As for ``commands``.
            signal: As for ``commands``.
        """
        user_data.add_commands(*self.commands(user_commands=user_commands, signal=signal))

    def _mount_settings(self, mount: Mount) -> dict[str, str]:
        if isinstance(mount, LustreMount):
            return {
                "KIND": "lustre",
                "MOUNT_PATH": mount.path,
                "FILE_SYSTEM_ID": mount.file_system.file_system_id,
                "DNS_NAME": mount.file_system.dns_name,
                "MOUNT_NAME": mount.file_system.mount_name,
                "EFA": "yes" if mount.efa else "",
                "ON_TCP": mount.on_tcp if mount.efa else "",
                "GDS": "yes" if mount.gds else "",
                "CHECKPOINTS": mount.checkpoints or "",
                "SCRATCH": mount.scratch or "",
            }
        return {
            "KIND": "mountpoint",
            "MOUNT_PATH": mount.path,
            "BUCKET": _bucket(mount.bucket).bucket_name,
            "PREFIX": mount.prefix,
            "BUCKET_REGION": mount.region or cdk.Stack.of(self).region,
            "READ_ONLY": "yes" if mount.read_only else "",
            "ALLOW_DELETE": "yes" if mount.allow_delete else "",
            "ALLOW_OVERWRITE": "yes" if mount.allow_overwrite else "",
            "THROUGHPUT_GBPS": _whole_number(mount.maximum_throughput_gbps),
            "CACHE": "yes" if mount.cache == "nvme" else "",
            "CACHE_SIZE_MIB": _whole_number(mount.cache_size_mib),
            "MEMORY_TARGET_MIB": _whole_number(mount.memory_target_mib),
            "OWNER_UID": _whole_number(mount.uid),
            "OWNER_GID": _whole_number(mount.gid),
            "FILE_MODE": mount.file_mode,
            "DIR_MODE": mount.dir_mode,
        }


class _Planned:
    """What a plan says about nodes, as arguments of ``NodeStorage``."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        plan: Plan,
        data_lake: Lake,
        file_system: LustreClientTarget | None,
        source_bucket: s3.IBucket | None,
        source_key: kms.IKey | None,
    ) -> None:
        self._where = f"{scope.node.path}/{construct_id}".lstrip("/")
        self._plan = plan
        self._lake = data_lake
        self._file_system = file_system
        self._source_key = source_key
        self._source_name, self._source_prefix = _split_uri(plan.workload.dataset.source)
        self._source = source_bucket
        if self._source is None and self._source_name is not None:
            self._source = s3.Bucket.from_bucket_name(scope, f"{construct_id}SourceBucket", self._source_name)

    def mounts(self) -> list[Mount]:
        return [self._mount(mount) for mount in self._plan.mounts]

    def _mount(self, mount: MountPlan) -> Mount:
        if mount.kind == "lustre":
            return self._lustre(mount)
        if mount.kind != "mountpoint":
            raise NotDeployableError(
                f"{mount.path} is planned as {mount.kind}, and this version has no construct for that"
            )
        options = mount.options
        throughput, size = options.get("maximum_throughput_gbps"), options.get("cache_size_mib")
        of_lake = options.get("bucket") is None
        return MountpointMount(
            bucket=self._lake if of_lake or self._source is None else self._source,
            key=None if of_lake else self._source_key,
            path=mount.path,
            prefix=str(options.get("prefix") or ""),
            read_only=mount.read_only,
            maximum_throughput_gbps=throughput if isinstance(throughput, int | float) else None,
            cache="nvme" if options.get("cache") == "nvme" else "none",
            cache_size_mib=size if isinstance(size, int) else None,
        )

    def _lustre(self, mount: MountPlan) -> LustreMount:
        plan = self._plan.lustre
        if self._file_system is None or plan is None:
            raise ValidationError(
                Problem(
                    what=f"the plan mounts Lustre on {mount.path}, and no file system is given",
                    path="file_system",
                    allowed="a LustreFileSystem, or what has its id, DNS name, mount name and allow_client",
                ),
                where=self._where,
            )
        return LustreMount(
            file_system=self._file_system,
            path=mount.path,
            efa=plan.efa_interfaces_per_client is not None,
            gds=self._plan.workload.lustre.gds,
            checkpoints=_below(self._plan.paths.checkpoints, mount.path),
            scratch=_below(self._plan.paths.scratch, mount.path),
        )

    def buckets(self) -> list[BucketAccess]:
        """The lake to read; its checkpoints to write where no file system holds them; the source of the data set."""
        access = [BucketAccess(bucket=self._lake)]
        if self._plan.lustre is None and self._plan.workload.checkpoints is not None:
            access.append(BucketAccess(bucket=self._lake, prefix="checkpoints/", write=True))
        mounted = any(mount.options.get("bucket") is not None for mount in self._plan.mounts)
        if self._source is not None and not mounted:
            access.append(BucketAccess(bucket=self._source, prefix=self._source_prefix, key=self._source_key))
        return access

    def environment(self) -> dict[str, str]:
        lake = f"s3://{self._lake.bucket.bucket_name}/"
        version = self._plan.workload.dataset.version
        datasets = f"{lake}datasets/{version}/" if version else f"{lake}datasets/"
        if self._source_name is not None:
            datasets = f"s3://{self._source_name}/{self._source_prefix}"
        values = {
            "TRAINING_STORAGE_WORKLOAD": self._plan.name,
            "TRAINING_STORAGE_DATASETS": self._plan.paths.datasets,
            "TRAINING_STORAGE_CHECKPOINTS": self._plan.paths.checkpoints,
            "TRAINING_STORAGE_SCRATCH": self._plan.paths.scratch,
            "TRAINING_STORAGE_DATA_LAKE_URI": lake,
            "TRAINING_STORAGE_DATASETS_URI": datasets,
            "TRAINING_STORAGE_CHECKPOINTS_URI": f"{lake}checkpoints/",
        }
        return {name: value for name, value in values.items() if value}

    def directories(self) -> list[str]:
        paths = (self._plan.paths.datasets, self._plan.paths.checkpoints, self._plan.paths.scratch)
        return [path for path in paths if path and path.startswith(f"{LOCAL_NVME}/")]


def _settings(mount: Mount) -> MountSettings:
    if isinstance(mount, LustreMount):
        return MountSettings(path=concrete(mount.path), kind="lustre", read_only=False)
    name = _bucket(mount.bucket).bucket_name
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


def _shape_problems(
    mounts: Sequence[Mount], environment: Mapping[str, str], directories: Sequence[str]
) -> list[Problem]:
    """Return what the service rules don't cover: one file system, names of settings, paths that must be known."""
    problems: list[Problem] = []
    for index, mount in enumerate(mounts):
        if not is_concrete(mount.path):
            problems.append(
                Problem(
                    what="the path of a mount is known only when the stack is deployed",
                    path=f"mounts[{index}].path",
                    allowed="a plain string such as /lake",
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
    for name, value in environment.items():
        if not is_concrete(name) or not _NAME.fullmatch(name) or (is_concrete(value) and not _VALUE.fullmatch(value)):
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


def _mount_name(path: str) -> str:
    return path.strip("/").replace("/", "-").lower()


def _mount_paths(mounts: Sequence[Mount]) -> dict[str, str]:
    """``TRAINING_STORAGE_MOUNT_FSX=/fsx`` and so on."""
    return {f"TRAINING_STORAGE_MOUNT_{re.sub('[^A-Z0-9]', '_', _mount_name(m.path).upper())}": m.path for m in mounts}


def _bucket(source: Lake | s3.IBucket) -> s3.IBucket:
    return source.bucket if isinstance(source, Lake) else source


def _below(path: str | None, root: str) -> str | None:
    """Return a path relative to the mount that it lies on; None where it lies elsewhere."""
    return path.removeprefix(f"{root}/") if path is not None and path.startswith(f"{root}/") else None


def _whole_number(value: float | None) -> str:
    """Return a number as settings have it, rounded up; a token as it will be."""
    if value is None:
        return ""
    return str(math.ceil(value)) if is_concrete(value) else cdk.Tokenization.stringify_number(value)


def _split_uri(uri: str | None) -> tuple[str | None, str]:
    if uri is None:
        return None, ""
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return bucket, prefix


def _grant(
    grantee: iam.IGrantable,
    source: Lake | s3.IBucket,
    prefix: str,
    write: bool,
    delete: bool,
    key: kms.IKey | None,
) -> None:
    """Grant what Mountpoint needs (its CONFIGURATION page), through the lake where it is one."""
    bucket = _bucket(source)
    if isinstance(source, Lake):
        (source.grant_read_write if write else source.grant_read)(grantee, prefix=prefix or None)
        if delete:
            source.grant_delete(grantee, prefix=prefix or None)
        return
    iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["s3:ListBucket"],
        resource_arns=[bucket.bucket_arn],
        conditions={"StringLike": {"s3:prefix": [f"{prefix}*"]}} if prefix else None,
    )
    actions = ["s3:GetObject"]
    if write:
        actions += ["s3:AbortMultipartUpload", "s3:PutObject"]
    if delete:
        actions.append("s3:DeleteObject")
    iam.Grant.add_to_principal(
        grantee=grantee, actions=sorted(actions), resource_arns=[bucket.arn_for_objects(f"{prefix}*")]
    )
    used = key or bucket.encryption_key
    if used is not None:
        used.grant(grantee, "kms:Decrypt", *(["kms:GenerateDataKey"] if write else []))
