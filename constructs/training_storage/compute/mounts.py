"""What nodes mount, and how they come to it: rights, network paths and the bootstrap."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from training_storage._tokens import concrete, is_concrete
from training_storage.compute.agent import NodeAgent, agent_of, grant_agent, settings_line
from training_storage.compute.bootstrap import NODE, NOT_ON_NODES, Signal, start_commands
from training_storage.compute.mount_checks import kind_problems, node_problems
from training_storage.compute.mount_model import (
    BucketAccess,
    DirectoryBucketTarget,
    Lake,
    LustreClientTarget,
    LustreMount,
    Mount,
    MountpointMount,
    S3FilesMount,
    S3FilesTarget,
    mount_name,
)
from training_storage.compute.mount_rights import grant_access, grant_mount
from training_storage.compute.mount_scripts import bucket_region, script_settings
from training_storage.compute.mount_subjects import mount_settings
from training_storage.compute.mounts_from_plan import PlannedMounts
from training_storage.compute.node_metrics import (
    NodeMetrics,
    agent_configuration,
    grant_metrics,
    make_log_group,
    metered,
    metrics_environment,
    metrics_of,
)
from training_storage.errors import ValidationError
from training_storage.rules.base import find_problems
from training_storage.rules.mounts import MOUNT_RULES, NodeSettings

if TYPE_CHECKING:
    from training_storage.catalog import Catalog
    from training_storage.planner.model import Plan


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
        agent: What promotes and prunes checkpoints, loads and lists files on nodes. Left out: there is none.
        metrics: What nodes tell of themselves, by the CloudWatch agent and a collector. Left out: nothing.
        catalog: Facts that mounts are held against. Left out: those of the package.

    Raises:
        ValidationError: A mount, a path or a value breaks a rule.

    Attributes:
        mounts: As given.
        buckets: As given.
        agent: As given.
        metrics: As given.
        log_group: The log group that records of metrics go to; None without metrics.
        scripts: The bootstrap scripts, and the agent that they install, as an S3 asset.
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
        agent: NodeAgent | None = None,
        metrics: NodeMetrics | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        environment = {} if environment is None else environment
        if wrong := kind_problems(
            mounts, buckets, environment, directories, local_nvme_gb, checkpoint_path, catalog, agent, metrics
        ):
            raise ValidationError(wrong, where=where)
        environment = dict(environment)
        problems = [
            *find_problems(
                MOUNT_RULES,
                NodeSettings(
                    catalog=catalog,
                    mounts=tuple(mount_settings(mount) for mount in mounts),
                    local_nvme_gb=concrete(local_nvme_gb),
                    checkpoint_path=concrete(checkpoint_path),
                ),
            ),
            *node_problems(mounts, environment, directories),
        ]
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)

        self.mounts: tuple[Mount, ...] = tuple(mounts)
        self.buckets: tuple[BucketAccess, ...] = tuple(buckets)
        self._directories = tuple(directories)
        self._environment = (
            {"TRAINING_STORAGE_REGION": cdk.Stack.of(self).region}
            | _mount_paths(mounts)
            | metrics_environment(metrics)
            | environment
        )
        self.agent = agent
        self.metrics = metrics
        self.log_group = None if metrics is None else make_log_group(self, "MetricsLogGroup", metrics)
        self.scripts = s3_assets.Asset(
            self, "Scripts", path=str(NODE), exclude=[*NOT_ON_NODES], ignore_mode=cdk.IgnoreMode.GIT
        )
        self._warn_of_other_regions()

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
        directory_buckets: Sequence[DirectoryBucketTarget] = (),
        shared_cache: DirectoryBucketTarget | None = None,
        s3_file_system: S3FilesTarget | None = None,
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
            directory_buckets: The hot tier in S3 Express One Zone, in the order of their index; needed where the plan
                has it.
            shared_cache: The directory bucket of a shared cache; needed where the plan has one.
            s3_file_system: The S3 Files file system; needed where the plan mounts one.

        Raises:
            ValidationError: The plan mounts something that is not given.
        """
        planned = PlannedMounts(
            scope,
            construct_id,
            plan,
            data_lake,
            file_system,
            source_bucket,
            source_key,
            directory_buckets,
            shared_cache,
            s3_file_system,
        )
        return cls(
            scope,
            construct_id,
            mounts=planned.mounts(),
            buckets=planned.buckets(),
            environment=planned.environment(),
            directories=planned.directories(),
            local_nvme_gb=plan.compute.facts.local_nvme_gb,
            checkpoint_path=plan.paths.checkpoints,
            agent=agent_of(
                plan,
                region=cdk.Stack.of(scope).region,
                data_lake=data_lake,
                file_system=file_system,
                directory_buckets=tuple(directory_buckets),
            ),
            metrics=metrics_of(plan),
            catalog=plan.catalog,
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
        """Open the ports of Lustre and S3 Files between the client and the file systems, and return the rules."""
        rules: list[cdk.CfnResource] = []
        opened: list[object] = []
        for mount in self.mounts:
            # One file system may be mounted twice, once to read and once to write.
            if isinstance(mount, LustreMount | S3FilesMount) and not any(mount.file_system is it for it in opened):
                opened.append(mount.file_system)
                rules.extend(mount.file_system.allow_client(client))
        return rules

    def grant(self, grantee: iam.IGrantable) -> None:
        """Grant what nodes need: the scripts, rights on buckets and S3 Files, what agent and metrics need."""
        stack = cdk.Stack.of(self)
        # Once: every question to a construct of Python's goes to the other process and back.
        grantee = grantee.grant_principal
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
            grant_mount(stack, grantee, mount)
        for access in self.buckets:
            grant_access(stack, grantee, access)
        if self.agent is not None:
            grant_agent(stack, grantee, self.agent)
        if self.metrics is not None:
            grant_metrics(stack, grantee, self.metrics)

    def commands(self, *, user_commands: Sequence[str] = (), signal: Signal | None = None) -> list[str]:
        """Return the bootstrap as shell commands.

        Args:
            user_commands: Shell lines that run after the storage is mounted and proven, in a shell of their own that
                stops at the first error. Long work belongs in the background: the node is ready when they end.
            signal: Resource that waits for the node. Left out: nothing is signalled.
        """
        stack = cdk.Stack.of(self)
        processes = [mount for mount in self.mounts if isinstance(mount, MountpointMount)]
        cached = [mount for mount in processes if "nvme" in mount.cache.split("+")]
        return start_commands(
            settings={
                "TS_REGION": stack.region,
                "TS_SCRIPTS_BUCKET": self.scripts.s3_bucket_name,
                "TS_SCRIPTS_KEY": self.scripts.s3_object_key,
                "TS_DIRECTORIES": " ".join(self._directories),
                "TS_CACHES": str(len(cached)) if cached else "",
                "TS_MOUNTPOINTS": str(len(processes)) if processes else "",
                "TS_AGENT_TIMER": "yes" if self.agent is not None and self.agent.runs_by_itself else "",
            },
            mounts={
                mount_name(mount.path): script_settings(stack, metered(mount, self.metrics)) for mount in self.mounts
            },
            environment=self._environment,
            user_commands=user_commands,
            signal=signal,
            agent="" if self.agent is None else settings_line(self.agent.settings),
            cloudwatch_agent=agent_configuration(self.metrics),
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

    def _warn_of_other_regions(self) -> None:
        stack = cdk.Stack.of(self)
        here = stack.region
        for mount in self.mounts:
            if not isinstance(mount, MountpointMount):
                continue
            there = bucket_region(stack, mount)
            if is_concrete(here) and is_concrete(there) and here != there:
                cdk.Annotations.of(self).add_warning_v2(
                    "training_storage:mounts.otherRegion",
                    f"{mount.path} reads a bucket of {there} from {here}: every read is charged as transfer between "
                    f"regions, by the gigabyte; copy the data to a bucket of {here}",
                )


def _mount_paths(mounts: Sequence[Mount]) -> dict[str, str]:
    """``TRAINING_STORAGE_MOUNT_FSX=/fsx`` and so on."""
    return {f"TRAINING_STORAGE_MOUNT_{re.sub('[^A-Z0-9]', '_', mount_name(m.path).upper())}": m.path for m in mounts}
