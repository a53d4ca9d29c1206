"""The hot tier: an FSx for Lustre file system and what it needs around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from training_storage._arguments import misfits_among
from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import Problem, ValidationError
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.lustre import LUSTRE_CONSTRUCT_PATHS, LUSTRE_RULES, LustreSettings
from training_storage.rules.lustre_storage_classes import SMALL_HDD_GIB
from training_storage.tiers import _security_groups, _warnings
from training_storage.tiers._lustre_arguments import LUSTRE_KINDS, StorageClass, one_log_group
from training_storage.tiers._lustre_base import LustreFileSystemBase
from training_storage.tiers._names import unique_name
from training_storage.tiers._removal import keep_on_replacement, require_keep_or_delete
from training_storage.tiers._tokens import concrete, is_concrete, whole
from training_storage.tiers.imported_lustre import ImportedLustreFileSystem

DEFAULT_MAINTENANCE: Final = "7:04:00"
"""Sunday 04:00 UTC: half an hour in which the file system may be away for minutes; training waits and goes on."""

DEFAULT_LOG_RETENTION: Final = logs.RetentionDays.SIX_MONTHS
"""As long as the lake keeps logs."""

_LONGEST_LOG_GROUP_NAME: Final = 512
_LOG_GROUP_PREFIX: Final = "/aws/fsx/"


class LustreFileSystem(LustreFileSystemBase):
    """A Lustre file system in one subnet, with its security group and its log group.

    Links to S3 are data repository associations, see ``add_link``; the older paths inside the file system are never
    written. Clients are let in with ``allow_client``: the rules go into the stack of the client, and the file system is
    not touched. A file system that exists already is taken with ``from_attributes``.

    What is kept: with RETAIN the file system, its group, rules, log group and links all stay when the stack is
    deleted, and cost as before; with DESTROY all go, with every file that was not exported. An update that would
    replace the file system leaves the old one behind whatever the policy: CloudFormation must never delete data to make
    room.

    INTELLIGENT_TIERING can never be linked to S3, so what is written there lies nowhere else unless you copy it:
    DESTROY deletes the only copy of every file with the stack, and automatic backups with it. Keep RETAIN, the default,
    until what matters is proven to be in the data lake.

    Changing ``deployment_type``, ``storage_type``, ``subnet``, ``security_group``, ``kms_key``, ``drive_cache_type`` or
    ``efa_enabled`` means another file system. Capacity, throughput capacity and metadata IOPS grow in place and never
    shrink; the read cache is changed in place.

    Example::

        hot = LustreFileSystem(
            self, "Hot",
            vpc=vpc,
            subnet=vpc.private_subnets[0],
            storage_capacity_gib=9600,
            per_unit_storage_throughput=500,
        )
        hot.add_link("Datasets", file_system_path="/datasets", bucket=lake, bucket_prefix="datasets/",
                     import_events=["new", "changed"])
        hot.allow_client(fleet)

        archive = LustreFileSystem(
            self, "Archive",
            vpc=vpc,
            subnet=vpc.private_subnets[0],
            storage_type="INTELLIGENT_TIERING",
            throughput_capacity_mb_per_s=4000,
        )

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        vpc: Network of the file system's own security group.
        subnet: The one subnet; the zone of the clients.
        storage_capacity_gib: Capacity in GiB, SSD and HDD only, which need one. SSD: 1200, or a multiple of 2400; with
            EFA a multiple of 38400, 19200, 9600 or 4800 at 125, 250, 500 or 1000 MB/s per TiB. HDD: a multiple of 6000
            or 1800 at 12 or 40 MB/s per TiB; under 6000 there is a warning.
        deployment_type: ``SCRATCH_2``, ``PERSISTENT_1`` or ``PERSISTENT_2``. Left out, ``PERSISTENT_2``.
        storage_type: ``SSD``; ``HDD`` on PERSISTENT_1; ``INTELLIGENT_TIERING`` on PERSISTENT_2, which grows and shrinks
            with its data. Left out, ``SSD``.
        per_unit_storage_throughput: MB/s per TiB: 125, 250, 500 or 1000 on PERSISTENT_2; 50, 100 or 200 on
            PERSISTENT_1, and 12 or 40 with HDD; nothing on SCRATCH_2 and with INTELLIGENT_TIERING. Left out, the lowest
            of the type: 125, 50 and 12.
        throughput_capacity_mb_per_s: MB/s of INTELLIGENT_TIERING, which needs it: a multiple of 4000, with EFA and
            without.
        drive_cache_type: HDD only: ``READ`` adds an SSD read cache of a fifth of the capacity, ``NONE`` does not. Left
            out, ``NONE``.
        read_cache_mode: SSD read cache of INTELLIGENT_TIERING: ``NO_CACHE``, ``USER_PROVISIONED`` or
            ``PROPORTIONAL_TO_THROUGHPUT_CAPACITY``. Left out, ``USER_PROVISIONED`` where a size is given and otherwise
            proportional. What is not in the cache is read in tens of milliseconds, at a charge for each request.
        read_cache_gib: Size of a ``USER_PROVISIONED`` read cache: 32 to 131,072 GiB for each 4000 MB/s.
        metadata_mode: ``AUTOMATIC`` or ``USER_PROVISIONED``, PERSISTENT_2 only. Left out, ``AUTOMATIC`` there, because
            a metadata configuration can never be added later; ``USER_PROVISIONED`` with INTELLIGENT_TIERING.
        metadata_iops: Metadata IOPS with ``USER_PROVISIONED``: 1500, 3000, 6000, 12000, or a multiple of 12000 to
            192000; 6000 or 12000 with INTELLIGENT_TIERING, where 6000 is taken when it is left out.
        efa_enabled: Whether clients may use EFA, PERSISTENT_2 only. Left out, no.
        data_compression_type: ``LZ4`` or ``NONE``. Left out, ``LZ4``.
        file_system_type_version: Lustre version. Left out, ``2.15``. ``2.10`` has no links and serves no new clients.
        kms_key: Key for the data at rest, persistent types only. Left out, the key of the service.
        security_group: A group that exists already. Left out, one is made that lets in and out nothing but Lustre.
        manage_security_group_rules: Whether rules are added to the given group. Left out, they are. With False a
            warning lists what is needed.
        log_group: Where data repository events go; its name must begin with ``/aws/fsx``. Left out, a group is made.
        log_retention: How long that group keeps them. Left out, six months.
        weekly_maintenance_start_time: ``d:HH:MM`` in UTC, Monday is 1. Left out, ``7:04:00``.
        automatic_backup_retention_days: Days that daily backups are kept, persistent types without links only. Left
            out, or 0, there are none.
        removal_policy: RETAIN or DESTROY, see above. Left out, RETAIN.
        catalog: Facts that the arguments and links are held against. Left out, those of the package.

    Raises:
        ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.

    Attributes:
        resource: The ``AWS::FSx::FileSystem`` itself.
        security_group: Its security group.
        log_group: Where data repository events go.
        connections: For ``other.connections.allow_to_default_port(hot)``; its one default port range is 988-1023.
        deployment_type: As given.
        storage_type: As given.
        storage_capacity_gib: As given; may be a token, and is None with INTELLIGENT_TIERING.
        efa_enabled: As given.
        subnet: As given.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        storage_capacity_gib: float | None = None,
        deployment_type: Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"] = "PERSISTENT_2",
        storage_type: Literal["SSD", "HDD", "INTELLIGENT_TIERING"] = "SSD",
        per_unit_storage_throughput: float | None = None,
        throughput_capacity_mb_per_s: float | None = None,
        drive_cache_type: Literal["NONE", "READ"] | None = None,
        read_cache_mode: Literal["NO_CACHE", "USER_PROVISIONED", "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"] | None = None,
        read_cache_gib: float | None = None,
        metadata_mode: Literal["AUTOMATIC", "USER_PROVISIONED"] | None = None,
        metadata_iops: float | None = None,
        efa_enabled: bool = False,
        data_compression_type: Literal["LZ4", "NONE"] = "LZ4",
        file_system_type_version: str = "2.15",
        kms_key: kms.IKey | None = None,
        security_group: ec2.ISecurityGroup | None = None,
        manage_security_group_rules: bool = True,
        log_group: logs.ILogGroup | None = None,
        log_retention: logs.RetentionDays | None = None,
        weekly_maintenance_start_time: str = DEFAULT_MAINTENANCE,
        automatic_backup_retention_days: float | None = None,
        removal_policy: cdk.RemovalPolicy | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits_among(LUSTRE_KINDS, locals()):
            raise ValidationError(wrong, where=where)
        sized = StorageClass(
            storage_capacity_gib=storage_capacity_gib,
            per_unit_storage_throughput=per_unit_storage_throughput,
            throughput_capacity_mb_per_s=throughput_capacity_mb_per_s,
            drive_cache_type=drive_cache_type,
            read_cache_mode=read_cache_mode,
            read_cache_gib=read_cache_gib,
            metadata_mode=metadata_mode,
            metadata_iops=metadata_iops,
        ).filled((catalog or default_catalog()).lustre, deployment_type, storage_type)

        problems: list[Problem] = []
        settings = LustreSettings(
            catalog=catalog,
            deployment_type=concrete(deployment_type),
            storage_type=concrete(storage_type),
            storage_capacity_gib=whole(storage_capacity_gib, "storage_capacity_gib", problems),
            per_unit_storage_throughput=whole(
                sized.per_unit_storage_throughput, "per_unit_storage_throughput", problems
            ),
            throughput_capacity_mb_per_s=whole(throughput_capacity_mb_per_s, "throughput_capacity_mb_per_s", problems),
            drive_cache_type=concrete(sized.drive_cache_type),
            read_cache_mode=concrete(sized.read_cache_mode),
            read_cache_gib=whole(read_cache_gib, "read_cache_gib", problems),
            metadata_mode=concrete(sized.metadata_mode),
            metadata_iops=whole(sized.metadata_iops, "metadata_iops", problems),
            efa=concrete(efa_enabled),
            compression=concrete(data_compression_type),
            file_system_type_version=concrete(file_system_type_version),
            backup_retention_days=whole(automatic_backup_retention_days, "automatic_backup_retention_days", problems),
            kms_key=kms_key is not None,
            subnet_count=len(subnet) if isinstance(subnet, Sequence) else 1,
            weekly_maintenance_start_time=concrete(weekly_maintenance_start_time),
            log_group_name=concrete(log_group.log_group_name) if log_group is not None else None,
            region=concrete(cdk.Stack.of(scope).region),
            omitted=sized.omitted,
        )
        problems += relabel(find_problems(LUSTRE_RULES, settings), LUSTRE_CONSTRUCT_PATHS)
        problems += one_log_group(log_group, log_retention)
        problems += require_keep_or_delete(removal_policy)
        if problems:
            raise ValidationError(problems, where=where)
        policy = removal_policy or cdk.RemovalPolicy.RETAIN
        super().__init__(
            scope,
            construct_id,
            settings=settings,
            efa_enabled=efa_enabled,
            manages_group=security_group is None or manage_security_group_rules,
            brought_group=security_group is not None,
            exists_already=False,
            link_removal=policy,
            # A rule in one of these stacks that names the file system's group would close a circle.
            upstream=frozenset(
                cdk.Stack.of(each).node.path
                for each, name in ((vpc, vpc.vpc_id), (subnet, subnet.subnet_id))
                if not is_concrete(name)
            ),
        )

        self._removal_policy: Final = policy
        self.deployment_type: Final[str] = deployment_type
        self.storage_type: Final[str] = storage_type
        self.storage_capacity_gib: Final = storage_capacity_gib
        self.subnet: Final = subnet

        self._stand_in(security_group or self._make_group(vpc))
        self.log_group: Final = log_group or self._make_log_group(log_retention or DEFAULT_LOG_RETENTION)
        rules = self._make_rules()
        keeps_backups = automatic_backup_retention_days is not None and automatic_backup_retention_days != 0
        self.resource: Final = fsx.CfnFileSystem(
            self,
            "Resource",
            file_system_type="LUSTRE",
            file_system_type_version=file_system_type_version,
            subnet_ids=[subnet.subnet_id],
            security_group_ids=[self.security_group.security_group_id],
            storage_capacity=storage_capacity_gib,
            storage_type=storage_type,
            kms_key_id=kms_key.key_arn if kms_key is not None else None,
            lustre_configuration=fsx.CfnFileSystem.LustreConfigurationProperty(
                deployment_type=deployment_type,
                per_unit_storage_throughput=sized.per_unit_storage_throughput,
                throughput_capacity=throughput_capacity_mb_per_s,
                drive_cache_type=sized.drive_cache_type,
                data_read_cache_configuration=None
                if sized.read_cache_mode is None and read_cache_gib is None
                else fsx.CfnFileSystem.DataReadCacheConfigurationProperty(
                    sizing_mode=sized.read_cache_mode, size_gib=read_cache_gib
                ),
                metadata_configuration=None
                if sized.metadata_mode is None
                else fsx.CfnFileSystem.MetadataConfigurationProperty(
                    mode=sized.metadata_mode, iops=sized.metadata_iops
                ),
                efa_enabled=efa_enabled if efa_enabled else None,
                data_compression_type=data_compression_type,
                log_configuration=fsx.CfnFileSystem.LogConfigurationProperty(
                    level="WARN_ERROR", destination=self._log_destination()
                ),
                weekly_maintenance_start_time=weekly_maintenance_start_time,
                automatic_backup_retention_days=automatic_backup_retention_days if keeps_backups else None,
            ),
        )
        self.resource.apply_removal_policy(self._removal_policy)
        keep_on_replacement(self.resource)
        for rule in rules:
            # FSx looks at the group while it makes the file system, and refuses it where the rules are not there yet.
            self.resource.node.add_dependency(rule)
        capacity = settings.storage_capacity_gib
        if settings.storage_type == "HDD" and capacity is not None and capacity < SMALL_HDD_GIB:
            _warnings.warn(
                self,
                _warnings.SMALL_HDD,
                f"{capacity} GiB of HDD storage: the API takes them, but the quotas of FSx name {SMALL_HDD_GIB} GiB as "
                "the least; where the file system is refused, take that or more",
            )

    # -- around the file system

    def _make_group(self, vpc: ec2.IVpc) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="Lustre file system", allow_all_outbound=False
        )
        group.apply_removal_policy(self._removal_policy)
        return group

    def _make_rules(self) -> list[cdk.CfnResource]:
        if self._manages_group:
            rules = (
                _security_groups.rules_of_brought_group(self, self.security_group, efa=self.efa_enabled)
                if self._brought_group
                else _security_groups.rules_with_itself(
                    self, self.security_group.security_group_id, efa=self.efa_enabled
                )
            )
            for rule in rules:
                if not self._brought_group or self._removal_policy is cdk.RemovalPolicy.RETAIN:
                    rule.apply_removal_policy(self._removal_policy)
            return rules
        passing = ", ".join(map(str, _security_groups.traffic(efa=self.efa_enabled)))
        _warnings.warn(
            self,
            _warnings.SECURITY_GROUP_RULES,
            f"rules of the given security group are left to its owner; it needs {passing}, named by group id, in and "
            "out, with itself and with the group of every client, before the file system is made",
        )
        return []

    def _make_log_group(self, retention: logs.RetentionDays) -> logs.LogGroup:
        name = unique_name(self, length=_LONGEST_LOG_GROUP_NAME - len(_LOG_GROUP_PREFIX))
        return logs.LogGroup(
            self,
            "LogGroup",
            log_group_name=f"{_LOG_GROUP_PREFIX}{name}",
            retention=retention,
            removal_policy=self._removal_policy,
        )

    def _log_destination(self) -> str:
        """ARN of the log group without the ``:*`` that its own attribute ends in."""
        return cdk.Stack.of(self.log_group).format_arn(
            service="logs",
            resource="log-group",
            resource_name=self.log_group.log_group_name,
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )

    # -- what users take from it

    @property
    def removal_policy(self) -> cdk.RemovalPolicy:
        """What becomes of it when its stack is deleted: RETAIN or DESTROY."""
        return self._removal_policy

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``."""
        return self.resource.ref

    @property
    def file_system_arn(self) -> str:
        """ARN of the file system."""
        return self.resource.attr_resource_arn

    @property
    def dns_name(self) -> str:
        """Name that clients mount."""
        return self.resource.attr_dns_name

    @property
    def mount_name(self) -> str:
        """Path behind the name: clients mount ``DNS_NAME@tcp:/MOUNT_NAME``."""
        return self.resource.attr_lustre_mount_name

    @staticmethod
    def from_attributes(
        scope: Construct,
        construct_id: str,
        *,
        file_system_id: str,
        mount_name: str,
        security_group: ec2.ISecurityGroup,
        dns_name: str | None = None,
        efa_enabled: bool = False,
        manage_security_group_rules: bool = True,
        deployment_type: str | None = None,
        storage_type: str | None = None,
        file_system_type_version: str | None = None,
        existing_links: Mapping[str, str] | None = None,
        catalog: Catalog | None = None,
    ) -> ImportedLustreFileSystem:
        """Return a file system that exists already; see ``ImportedLustreFileSystem`` for the arguments."""
        return ImportedLustreFileSystem(
            scope,
            construct_id,
            file_system_id=file_system_id,
            mount_name=mount_name,
            security_group=security_group,
            dns_name=dns_name,
            efa_enabled=efa_enabled,
            manage_security_group_rules=manage_security_group_rules,
            deployment_type=deployment_type,
            storage_type=storage_type,
            file_system_type_version=file_system_type_version,
            existing_links=existing_links,
            catalog=catalog,
        )
