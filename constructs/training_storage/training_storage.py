"""From a plan to constructs: one function a part, and ``TrainingStorage``, which joins the parts in one scope.

The reference stacks call the same functions, one a stack; nothing is sized or chosen here.
"""

from __future__ import annotations

import hashlib

import aws_cdk as cdk
from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage._arguments import FLAG, SUBNET, VPC, Kind, misfits, optional
from training_storage.compute import GpuFleet, NodeStorage
from training_storage.errors import NotDeployableError, Problem, ValidationError
from training_storage.monitoring import StorageDashboard
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake, LustreFileSystem

_PLAN = Kind(allowed="a Plan", fits=lambda value: isinstance(value, Plan), fix='plan(load_workload("workload.yaml"))')
_DATA_LAKE = Kind(
    allowed="a DataLake", fits=lambda value: isinstance(value, DataLake), fix="DataLake(..., bucket=...) of your bucket"
)
_REMOVAL = {"retain": RemovalPolicy.RETAIN, "delete": RemovalPolicy.DESTROY}


def check_deployable(plan: Plan) -> None:
    """Pass a plan that this version can deploy, and refuse any other before a construct is made.

    Args:
        plan: The plan.

    Raises:
        NotDeployableError: Names every part that is planned but has no construct yet.
    """
    missing: list[str] = []
    if plan.tiers.hot == "express":
        missing.append("hot tier express (S3 Express One Zone directory buckets)")
    if plan.tiers.file_access == "s3-files":
        missing.append("file access s3-files (S3 Files)")
    if plan.workload.mountpoint.cache == "express":
        missing.append("mountpoint.cache express (a shared cache in a directory bucket)")
    if missing:
        raise NotDeployableError(
            f"{plan.name}: planned, but not deployable yet: {'; '.join(missing)}; fix: keep the plan for sizing, or "
            "choose a tier that can be deployed with hot_tier, file_access or lustre in the workload file"
        )


def make_data_lake(scope: Construct, construct_id: str, plan: Plan) -> DataLake:
    """Make the data lake of a plan, or take the bucket that the workload names.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
    """
    settings = plan.workload.data_lake
    key = kms.Key.from_key_arn(scope, f"{construct_id}Key", settings.kms_key_arn) if settings.kms_key_arn else None
    if settings.bucket is not None:
        bucket = s3.Bucket.from_bucket_attributes(
            scope, f"{construct_id}Existing", bucket_name=settings.bucket, encryption_key=key
        )
        return DataLake(scope, construct_id, bucket=bucket, encryption_key=key)
    return DataLake(
        scope,
        construct_id,
        bucket_name=settings.bucket_name,
        encryption=settings.encryption,
        encryption_key=key,
        versioned=settings.versioned,
        removal_policy=_REMOVAL[settings.removal],
        checkpoints_to_infrequent_access_after=_duration(settings.checkpoints_to_infrequent_access_after.seconds),
        noncurrent_versions_expire_after=_duration(settings.noncurrent_versions_expire_after.seconds),
        logs_expire_after=_duration(settings.logs_expire_after.seconds),
    )


def make_file_system(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    *,
    vpc: ec2.IVpc,
    subnet: ec2.ISubnet,
    data_lake: DataLake,
) -> LustreFileSystem | None:
    """Make the Lustre file system of a plan with its links, or nothing where the plan has none.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
        vpc: VPC of the subnet.
        subnet: The one subnet for storage and fleet.
        data_lake: Where links without a bucket of their own lead.
    """
    planned = plan.lustre
    if planned is None:
        return None
    settings = plan.workload.lustre
    key = kms.Key.from_key_arn(scope, f"{construct_id}Key", settings.kms_key_arn) if settings.kms_key_arn else None
    file_system = LustreFileSystem(
        scope,
        construct_id,
        vpc=vpc,
        subnet=subnet,
        storage_capacity_gib=planned.storage_capacity_gib,
        deployment_type=planned.deployment_type,  # type: ignore[arg-type]  # the plan's text is one of the three
        storage_type=planned.storage_type,  # type: ignore[arg-type]
        per_unit_storage_throughput=planned.per_unit_storage_throughput,
        throughput_capacity_mb_per_s=planned.throughput_capacity_mb_per_s,
        drive_cache_type=settings.drive_cache_type,  # type: ignore[arg-type]
        read_cache_mode=settings.read_cache_mode,  # type: ignore[arg-type]
        read_cache_gib=settings.read_cache_gib,
        metadata_mode=planned.metadata_mode,  # type: ignore[arg-type]
        metadata_iops=planned.metadata_iops if planned.metadata_mode == "USER_PROVISIONED" else None,
        efa_enabled=planned.efa,
        data_compression_type="LZ4" if settings.compression == "lz4" else "NONE",
        file_system_type_version=planned.file_system_type_version,
        kms_key=key,
        automatic_backup_retention_days=settings.backup_retention_days,
        removal_policy=_REMOVAL[settings.removal],
        catalog=plan.catalog,
    )
    foreign: dict[str, s3.IBucket] = {}
    for link in planned.links:
        bucket: DataLake | s3.IBucket = data_lake
        if link.bucket is not None:
            if link.bucket not in foreign:
                id_ = f"{construct_id}Source{len(foreign) + 1}"
                foreign[link.bucket] = s3.Bucket.from_bucket_name(scope, id_, link.bucket)
            bucket = foreign[link.bucket]
        file_system.add_link(
            link_id(link.path),
            file_system_path=link.path,
            bucket=bucket,
            bucket_prefix=link.prefix,
            import_events=link.import_events,  # type: ignore[arg-type]  # the plan's text is one of the three
            export_events=link.export_events,  # type: ignore[arg-type]
            batch_import_meta_data_on_create=link.import_metadata_on_create,
        )
    return file_system


def link_id(path: str) -> str:
    """Return the construct id of the link at a path; two paths never share one.

    Args:
        path: Path on the file system: ``/datasets`` is ``LinkDatasets``, ``/`` is ``LinkRoot``, and a path that is more
            than one lower-case word carries a digest, since ``/a-b`` and ``/a/b`` read alike.
    """
    word = path.strip("/")
    if not word:
        return "LinkRoot"
    if word.isalnum() and word.islower():
        return f"Link{word.capitalize()}"
    words = "".join(letter if letter.isalnum() else " " for letter in word).split()
    digest = hashlib.sha256(word.encode()).hexdigest()[:8]
    return f"Link{''.join(w[:1].upper() + w[1:] for w in words)}{digest}"


def make_fleet(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    *,
    vpc: ec2.IVpc,
    subnet: ec2.ISubnet,
    data_lake: DataLake,
    file_system: LustreFileSystem | None,
) -> GpuFleet:
    """Make the GPU fleet of a plan with its mounts.

    Args:
        scope: Parent.
        construct_id: Id in the parent; the mounts are ``<construct_id>Storage``.
        plan: The plan.
        vpc: VPC of the subnet.
        subnet: The one subnet for storage and fleet.
        data_lake: The lake that nodes read and write.
        file_system: What the plan mounts at ``/fsx``; None where it has no Lustre.
    """
    compute = plan.workload.compute
    storage = NodeStorage.from_plan(
        scope, f"{construct_id}Storage", plan=plan, data_lake=data_lake, file_system=file_system
    )
    return GpuFleet(
        scope,
        construct_id,
        vpc=vpc,
        subnet=subnet,
        instance_type=plan.compute.instance_type,
        instance_count=plan.compute.instance_count,
        purchase=compute.purchase,
        capacity_reservation_id=compute.capacity_reservation_id,
        start=compute.start,
        end=compute.end,
        placement_group=plan.compute.placement_group,
        efa=plan.compute.efa,
        type_facts=plan.compute.facts,
        image=compute.image,
        storage=storage,
        user_commands=compute.user_commands,
        catalog=plan.catalog,
    )


def make_dashboard(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    *,
    data_lake: DataLake,
    file_system: LustreFileSystem | None,
    fleet: GpuFleet | None,
) -> StorageDashboard | None:
    """Make the dashboard of a plan, or nothing where monitoring is off.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan, whose figures are drawn as lines.
        data_lake: The lake to show.
        file_system: The file system to show, if there is one.
        fleet: The fleet to show, if it is ours.
    """
    if not plan.workload.monitoring.enabled:
        return None
    return StorageDashboard(
        scope,
        construct_id,
        dashboard_name=f"{plan.name}-storage",
        file_system_id=file_system.file_system_id if file_system else None,
        bucket_name=data_lake.bucket_name,
        auto_scaling_group_name=fleet.auto_scaling_group.ref if fleet else None,
        planned_read_mb_per_s=plan.demand.read_mb_per_s,
        planned_throughput_mb_per_s=plan.lustre.throughput_mb_per_s if plan.lustre else None,
        planned_file_opens_per_s=plan.demand.file_opens_per_s,
        instance_count=plan.compute.instance_count,
    )


class TrainingStorage(Construct):
    """The whole storage of one training workload in one scope: lake, file system with links, fleet, dashboard.

    Sizes come from the plan; the network is yours. Use the single constructs, or the reference stacks, where the parts
    should live in stacks of their own.

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
        NotDeployableError: The plan holds a tier that this version cannot deploy yet.
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
        check_deployable(plan)
        problems = _wrong_place(cdk.Stack.of(scope), plan)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        self._plan = plan
        self._data_lake = data_lake or make_data_lake(self, "DataLake", plan)
        self._file_system = make_file_system(
            self, "FileSystem", plan, vpc=vpc, subnet=subnet, data_lake=self._data_lake
        )
        self._fleet = (
            make_fleet(
                self, "Fleet", plan, vpc=vpc, subnet=subnet, data_lake=self._data_lake, file_system=self._file_system
            )
            if fleet
            else None
        )
        self._dashboard = make_dashboard(
            self, "Dashboard", plan, data_lake=self._data_lake, file_system=self._file_system, fleet=self._fleet
        )

    @property
    def plan(self) -> Plan:
        """The plan behind the sizes."""
        return self._plan

    @property
    def data_lake(self) -> DataLake:
        """The durable base."""
        return self._data_lake

    @property
    def file_system(self) -> LustreFileSystem | None:
        """The Lustre file system; None where the plan has none."""
        return self._file_system

    @property
    def fleet(self) -> GpuFleet | None:
        """The GPU fleet; None where it was left out."""
        return self._fleet

    @property
    def dashboard(self) -> StorageDashboard | None:
        """The dashboard; None where monitoring is off."""
        return self._dashboard


def _duration(seconds: float) -> Duration:
    return Duration.seconds(seconds)


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
