"""The hot tier: an FSx for Lustre file system and what it needs around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage._arguments import CLIENT, misfits, misfits_among
from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import NotDeployableError, Problem, ValidationError
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.links import LinkSettings
from training_storage.rules.lustre import LUSTRE_CONSTRUCT_PATHS, LUSTRE_RULES, LustreSettings
from training_storage.tiers import _security_groups, _warnings
from training_storage.tiers._lustre_arguments import LUSTRE_KINDS, one_log_group
from training_storage.tiers._names import unique_name
from training_storage.tiers._removal import keep_on_replacement, require_keep_or_delete
from training_storage.tiers._tokens import concrete, is_concrete, whole

if TYPE_CHECKING:
    from training_storage.tiers.association import DataRepositoryAssociation, LinkEvent
    from training_storage.tiers.data_lake import DataLake

DEFAULT_MAINTENANCE: Final = "7:04:00"
"""Sunday 04:00 UTC: half an hour in which the file system may be away for minutes; training waits and goes on."""

DEFAULT_LOG_RETENTION: Final = logs.RetentionDays.SIX_MONTHS
"""As long as the lake keeps logs."""

_LONGEST_LOG_GROUP_NAME: Final = 512
_LOG_GROUP_PREFIX: Final = "/aws/fsx/"


@jsii.implements(ec2.IConnectable)
class LustreFileSystem(Construct):
    """A Lustre file system in one subnet, with its security group and its log group.

    Links to S3 are data repository associations, see ``add_link``; the older paths inside the file system are never
    written. Clients are let in with ``allow_client``: the rules go into the stack of the client, and the file system is
    not touched.

    What is kept: with RETAIN the file system, its group, rules, log group and links all stay when the stack is
    deleted, and cost as before; with DESTROY all go, with every file that was not exported. An update that would
    replace the file system leaves the old one behind whatever the policy: CloudFormation must never delete data to make
    room.

    Changing ``deployment_type``, ``subnet``, ``security_group``, ``kms_key`` or ``efa_enabled`` means another file
    system. Capacity and metadata IOPS grow in place and never shrink.

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

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        vpc: Network of the file system's own security group.
        subnet: The one subnet; the zone of the clients.
        storage_capacity_gib: Capacity in GiB. SSD: 1200, or a multiple of 2400; with EFA a multiple of 38400, 19200,
            9600 or 4800 at 125, 250, 500 or 1000 MB/s per TiB.
        deployment_type: ``SCRATCH_2``, ``PERSISTENT_1`` or ``PERSISTENT_2``. Left out, ``PERSISTENT_2``.
        storage_type: ``SSD``. ``HDD`` and ``INTELLIGENT_TIERING`` are known, but not deployed by this version.
        per_unit_storage_throughput: MB/s per TiB: 125, 250, 500 or 1000 on PERSISTENT_2; 50, 100 or 200 on
            PERSISTENT_1; nothing on SCRATCH_2. Left out, the lowest of the type: 125 and 50.
        metadata_mode: ``AUTOMATIC`` or ``USER_PROVISIONED``, PERSISTENT_2 only. Left out, ``AUTOMATIC`` there, because
            a metadata configuration can never be added later.
        metadata_iops: Metadata IOPS with ``USER_PROVISIONED``: 1500, 3000, 6000, 12000, or a multiple of 12000 to
            192000.
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
        NotDeployableError: The storage type is known, but not deployed by this version.

    Attributes:
        resource: The ``AWS::FSx::FileSystem`` itself.
        security_group: Its security group.
        log_group: Where data repository events go.
        connections: For ``other.connections.allow_to_default_port(hot)``; its one default port range is 988-1023.
        deployment_type: As given.
        storage_capacity_gib: As given; may be a token.
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
        storage_capacity_gib: float,
        deployment_type: Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"] = "PERSISTENT_2",
        storage_type: Literal["SSD", "HDD", "INTELLIGENT_TIERING"] = "SSD",
        per_unit_storage_throughput: float | None = None,
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
        lustre = (catalog or default_catalog()).lustre
        option = lustre.option(concrete(deployment_type) or "", concrete(storage_type) or "")
        if option is not None and option.tiers and per_unit_storage_throughput is None:
            per_unit_storage_throughput = option.tiers[0]
        if option is not None and option.metadata_configuration and metadata_mode is None:
            metadata_mode = "AUTOMATIC"

        problems: list[Problem] = []
        settings = LustreSettings(
            catalog=catalog,
            deployment_type=concrete(deployment_type),
            storage_type=concrete(storage_type),
            storage_capacity_gib=whole(storage_capacity_gib, "storage_capacity_gib", problems),
            per_unit_storage_throughput=whole(per_unit_storage_throughput, "per_unit_storage_throughput", problems),
            metadata_mode=concrete(metadata_mode),
            metadata_iops=whole(metadata_iops, "metadata_iops", problems),
            efa=concrete(efa_enabled),
            compression=concrete(data_compression_type),
            file_system_type_version=concrete(file_system_type_version),
            backup_retention_days=whole(automatic_backup_retention_days, "automatic_backup_retention_days", problems),
            kms_key=kms_key is not None,
            subnet_count=len(subnet) if isinstance(subnet, Sequence) else 1,
            weekly_maintenance_start_time=concrete(weekly_maintenance_start_time),
            log_group_name=concrete(log_group.log_group_name) if log_group is not None else None,
            omitted=frozenset() if metadata_iops is not None else frozenset({"metadata_iops"}),
        )
        if option is not None and storage_type in {"HDD", "INTELLIGENT_TIERING"}:
            linked = "" if option.links else "; it can never be linked to S3: S3 links are not supported there"
            raise NotDeployableError(
                f"{where}: storage_type: {deployment_type} {storage_type} is known to the planner, but this version "
                f"has no construct for it{linked}; use SSD"
            )
        problems += relabel(find_problems(LUSTRE_RULES, settings), LUSTRE_CONSTRUCT_PATHS)
        problems += one_log_group(log_group, log_retention)
        problems += require_keep_or_delete(removal_policy)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)

        self._settings: Final = settings
        self._removal_policy: Final = removal_policy or cdk.RemovalPolicy.RETAIN
        self._manages_group: Final = security_group is None or manage_security_group_rules
        self._brought_group: Final = security_group is not None
        self._client_rules: dict[str, tuple[cdk.CfnResource, ...]] = {}
        # Stacks that this one refers to: a rule there that names the file system's group would close a circle.
        self._upstream: Final = {
            cdk.Stack.of(each).node.path
            for each, name in ((vpc, vpc.vpc_id), (subnet, subnet.subnet_id))
            if not is_concrete(name)
        }
        self._links: list[DataRepositoryAssociation] = []
        self._link_settings: tuple[LinkSettings, ...] = ()
        self.deployment_type: Final[str] = deployment_type
        self.storage_capacity_gib: Final = storage_capacity_gib
        self.efa_enabled: Final = efa_enabled
        self.subnet: Final = subnet

        self.security_group: Final = security_group or self._make_group(vpc)
        self.log_group: Final = log_group or self._make_log_group(log_retention or DEFAULT_LOG_RETENTION)
        self._connections = ec2.Connections(
            security_groups=[self.security_group], default_port=ec2.Port.tcp_range(*_security_groups.DEFAULT_PORT)
        )
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
                per_unit_storage_throughput=per_unit_storage_throughput,
                metadata_configuration=None
                if metadata_mode is None
                else fsx.CfnFileSystem.MetadataConfigurationProperty(mode=metadata_mode, iops=metadata_iops),
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
        if settings.file_system_type_version == "2.10":
            _warnings.warn(
                self,
                _warnings.OLD_LUSTRE,
                "Lustre 2.10 does not serve the 2.15 clients of Amazon Linux 2023, Ubuntu 22.04 and 24.04, RHEL 9 and "
                "Rocky 9, and has no links to S3; set file_system_type_version to 2.15",
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
    def connections(self) -> ec2.Connections:
        """The file system's group with the default ports 988-1023, for code that knows ``IConnectable``."""
        return self._connections

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

    @property
    def links(self) -> tuple[DataRepositoryAssociation, ...]:
        """Links to S3, in the order in which they are made."""
        return tuple(self._links)

    def _take_link(self, link: DataRepositoryAssociation, settings: LinkSettings) -> None:
        self._links.append(link)
        self._link_settings += (settings,)

    def allow_client(self, client: ec2.IConnectable) -> tuple[cdk.CfnResource, ...]:
        """Let a client's security groups reach the file system, and the file system's group reach them.

        TCP 988 and 1018-1023, or everything with EFA, named by group id in both directions on both groups. The rules
        are made in the stack of the client, so a file system of another stack is not touched, and no reference runs
        from it to its clients. A group that stands in the stack of the file system's own network (a security group
        given as the client) gets them in the file system's stack, since the other way would close a circle.

        Args:
            client: Anything with connections: a fleet, an instance, a security group.

        Returns:
            The rules, so that what mounts the file system can wait for them.

        Raises:
            ValidationError: The client has no connections, or no security group.
        """
        if wrong := misfits({"client": (client, CLIENT)}):
            raise ValidationError(wrong, where=self.node.path)
        groups = client.connections.security_groups
        if not groups:
            raise ValidationError(
                Problem(what="the client has no security group", path="client", allowed="at least one security group"),
                where=self.node.path,
            )
        made: list[cdk.CfnResource] = []
        for group in groups:
            group_id = group.security_group_id
            if group_id == self.security_group.security_group_id:
                continue  # the group's rules with itself are there already
            if group_id not in self._client_rules:
                self._client_rules[group_id] = _security_groups.rules_with_client(
                    self._place_of_rules(client, group),
                    group,
                    self.security_group,
                    owner=self,
                    efa=self.efa_enabled,
                    file_system_side=self._manages_group,
                    brought=self._brought_group,
                )
            made += self._client_rules[group_id]
        return tuple(made)

    def _place_of_rules(self, client: ec2.IConnectable, group: ec2.ISecurityGroup) -> cdk.Stack:
        """Return the client's stack, whichever stack its group comes from; and where that is upstream, our own."""
        place = cdk.Stack.of(client if isinstance(client, Construct) else group)
        return cdk.Stack.of(self) if place.node.path in self._upstream else place

    def add_link(
        self,
        construct_id: str,
        *,
        file_system_path: str,
        bucket: s3.IBucket | DataLake,
        bucket_prefix: str = "",
        import_events: Sequence[LinkEvent] = (),
        export_events: Sequence[LinkEvent] = (),
        batch_import_meta_data_on_create: bool = False,
        imported_file_chunk_size_mib: float | None = None,
    ) -> DataRepositoryAssociation:
        """Link a directory to a prefix of a bucket; see ``DataRepositoryAssociation`` for the arguments.

        Args:
            construct_id: Id of the link in this construct.
            file_system_path: Directory such as ``/datasets``.
            bucket: Bucket, or data lake.
            bucket_prefix: Key prefix. Left out, the whole bucket.
            import_events: What FSx imports by itself. Left out, nothing.
            export_events: What FSx exports by itself. Left out, nothing.
            batch_import_meta_data_on_create: Whether the listing is imported while the link is made. Left out, not.
            imported_file_chunk_size_mib: Most data of an imported file on one disk, MiB. Left out, 1024.

        Returns:
            The link.
        """
        from training_storage.tiers.association import DataRepositoryAssociation

        return DataRepositoryAssociation(
            self,
            construct_id,
            file_system=self,
            file_system_path=file_system_path,
            bucket=bucket,
            bucket_prefix=bucket_prefix,
            import_events=import_events,
            export_events=export_events,
            batch_import_meta_data_on_create=batch_import_meta_data_on_create,
            imported_file_chunk_size_mib=imported_file_chunk_size_mib,
        )
