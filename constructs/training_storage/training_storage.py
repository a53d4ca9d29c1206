"""``TrainingStorage``: every part of a plan in one scope."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage._arguments import (
    CLIENT,
    FLAG,
    GRANTEE,
    LISTED_TEXTS,
    SUBNET,
    USER_DATA,
    VPC,
    Kind,
    misfits,
    optional,
)
from training_storage.compute import GpuFleet, NodeStorage, Signal
from training_storage.errors import Problem, ValidationError
from training_storage.lifecycle import ReleaseGuard
from training_storage.monitoring import AlarmTopic, StorageAlarms, StorageDashboard
from training_storage.parts import (
    make_data_lake,
    make_fleet,
    make_hot_storage,
    make_monitoring,
    make_node_storage,
    make_release_guard,
)
from training_storage.planner.model import Plan
from training_storage.tiers import (
    DataLake,
    DirectoryBucket,
    ImportedDirectoryBucket,
    ImportedLustreFileSystem,
    ImportedS3FileSystem,
    LustreFileSystem,
    S3FileSystem,
)

_PLAN = Kind(allowed="a Plan", fits=lambda value: isinstance(value, Plan), fix='plan(load_workload("workload.yaml"))')
_DATA_LAKE = Kind(
    allowed="a DataLake", fits=lambda value: isinstance(value, DataLake), fix="DataLake(..., bucket=...) of your bucket"
)
_SIGNAL = Kind(
    allowed="a Signal",
    fits=lambda value: isinstance(value, Signal),
    fix='Signal(stack_name=..., logical_id="Nodes")',
)


class TrainingStorage(Construct):
    """The whole storage of one training workload in one scope: lake, file system with links, fleet, dashboard, alarms.

    Sizes come from the plan; the network is yours. Use the single constructs, or the reference stacks, where the parts
    should live in stacks of their own. A VPC of yours needs gateway endpoints for S3, and with directory buckets for S3
    Express, or traffic goes through NAT and is charged by the gigabyte.

    Example:
        ```python
        plan_ = plan(load_workload("llama3-70b.yaml"))
        storage = TrainingStorage(self, "Storage", plan=plan_, vpc=vpc, subnet=subnet)
        storage.data_lake.grant_read(analysts, prefix="evaluations/")
        ```

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan of the workload.
        vpc: VPC that fleet and file system stand in.
        subnet: The one private subnet for both, in the workload's zone.
        data_lake: A lake that exists already, for example in a stack that outlives the run. One is made when left out.
        fleet: Whether the GPU fleet is made too. False: bring your own instances and call ``connect``. Default: yes.

    Raises:
        ValidationError: The stack is known to stand in another region or account than the workload names.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        data_lake: DataLake | None = None,
        fleet: bool = True,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits(
            {
                "plan": (plan, _PLAN),
                "vpc": (vpc, VPC),
                "subnet": (subnet, SUBNET),
                "data_lake": (data_lake, optional(_DATA_LAKE)),
                "fleet": (fleet, FLAG),
            }
        ):
            raise ValidationError(wrong, where=where)
        problems = _wrong_place(cdk.Stack.of(scope), plan)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        self._plan = plan
        self._data_lake = data_lake or make_data_lake(self, "DataLake", plan)
        self._storage = make_hot_storage(self, plan, vpc=vpc, subnet=subnet, data_lake=self._data_lake)
        self._node_storage = make_node_storage(
            self, "FleetStorage", plan, data_lake=self._data_lake, storage=self._storage
        )
        self._fleet = (
            make_fleet(self, "Fleet", plan, vpc=vpc, subnet=subnet, node_storage=self._node_storage) if fleet else None
        )
        self._release_guard = make_release_guard(
            self, "ReleaseGuard", plan, storage=self._storage, data_lake=self._data_lake
        )
        if self._release_guard is not None and self._fleet is not None:
            # Last to be made and first to be deleted: a no of the guard comes before any node is ended, and nodes that
            # fail while the stack is made are taken back without it.
            self._release_guard.resource.node.add_dependency(self._fleet)
        self._monitoring = make_monitoring(
            self, plan, data_lake=self._data_lake, storage=self._storage, fleet=self._fleet
        )

    def connect(
        self,
        client: ec2.IConnectable,
        *,
        role: iam.IGrantable,
        user_data: ec2.UserData | None = None,
        user_commands: Sequence[str] = (),
        signal: Signal | None = None,
    ) -> list[cdk.CfnResource]:
        """Give instances that are not ours the storage of the plan: network paths, rights and the bootstrap.

        They stand in the subnet of the storage, or at least in its zone. Rules of security groups go into the stack of
        the client, so that the storage is not touched by a second fleet.

        Example:
            ```python
            node = ec2.Instance(self, "Node", vpc=vpc, ...)
            for rule in storage.connect(node, role=node.role, user_data=node.user_data):
                node.instance.node.add_dependency(rule)  # the instance alone: the rules name its group
            ```

        Args:
            client: What has the security groups: an instance, an Auto Scaling group, a security group.
            role: Role of the instances, or what carries one.
            user_data: User data of a Linux shell, to which the bootstrap is appended. Left out: the instances mount
                nothing by themselves; ``node_storage.commands()`` has the bootstrap for an image or a launcher.
            user_commands: Shell lines that run once the storage is mounted and proven; only with ``user_data``.
            signal: The resource of a stack that waits for the nodes; only with ``user_data``. Left out: none does.

        Returns:
            The security group rules, and what else must be there before the instances boot.

        Raises:
            ValidationError: An argument is of another kind, or needs user data and none is given.
        """
        wrong = misfits(
            {
                "client": (client, CLIENT),
                "role": (role, GRANTEE),
                "user_data": (user_data, optional(USER_DATA)),
                "user_commands": (user_commands, LISTED_TEXTS),
                "signal": (signal, optional(_SIGNAL)),
            }
        )
        if user_data is None:
            wrong += [
                Problem(
                    what="has no user data to stand in",
                    path=path,
                    allowed="together with user_data",
                    fix=f"give user_data, or leave {path} out",
                )
                for path, given in (("user_commands", bool(user_commands)), ("signal", signal is not None))
                if given
            ]
        if wrong:
            raise ValidationError(wrong, where=self.node.path)
        rules = self._node_storage.attach(client=client, grantee=role)
        if user_data is not None:
            self._node_storage.add_to(user_data, user_commands=user_commands, signal=signal)
        return rules

    @property
    def plan(self) -> Plan:
        """The plan behind the sizes."""
        return self._plan

    @property
    def data_lake(self) -> DataLake:
        """The durable base."""
        return self._data_lake

    @property
    def file_system(self) -> LustreFileSystem | ImportedLustreFileSystem | None:
        """The Lustre file system; None where the plan has none."""
        return self._storage.file_system

    @property
    def directory_buckets(self) -> tuple[DirectoryBucket | ImportedDirectoryBucket, ...]:
        """The hot tier in S3 Express One Zone; empty where the plan has none."""
        return self._storage.directory_buckets

    @property
    def shared_cache(self) -> DirectoryBucket | ImportedDirectoryBucket | None:
        """The directory bucket of Mountpoint's shared cache; None where the plan has none."""
        return self._storage.shared_cache

    @property
    def s3_file_system(self) -> S3FileSystem | ImportedS3FileSystem | None:
        """The lake as a file system; None where the plan has none."""
        return self._storage.s3_file_system

    @property
    def node_storage(self) -> NodeStorage:
        """What nodes mount: rights, network paths and bootstrap, for compute that is not ours."""
        return self._node_storage

    @property
    def fleet(self) -> GpuFleet | None:
        """The GPU fleet; None where it was left out."""
        return self._fleet

    @property
    def release_guard(self) -> ReleaseGuard | None:
        """What keeps the file system until it is proven to be in S3; None where nothing is deleted, or nobody asks."""
        return self._release_guard

    @property
    def dashboard(self) -> StorageDashboard | None:
        """The dashboard; None where monitoring is off."""
        return self._monitoring.dashboard if self._monitoring else None

    @property
    def alarms(self) -> StorageAlarms | None:
        """The alarms; None where monitoring is off."""
        return self._monitoring.alarms if self._monitoring else None

    @property
    def alarm_topic(self) -> AlarmTopic | None:
        """The topic that is told by mail; None where the workload names no address."""
        return self._monitoring.topic if self._monitoring else None


def _wrong_place(stack: cdk.Stack, plan: Plan) -> list[Problem]:
    problems = []
    for what, path, here, wanted in (
        ("region", "region", stack.region, plan.workload.region),
        ("account", "account", stack.account, plan.workload.account),
    ):
        if wanted is not None and not cdk.Token.is_unresolved(here) and here != wanted:
            problems.append(
                Problem(
                    what=f"the stack stands in another {what} than the workload",
                    path=path,
                    value=here,
                    allowed=wanted,
                    fix=f"set the {what} of the stack's env, or of the workload",
                )
            )
    return problems
