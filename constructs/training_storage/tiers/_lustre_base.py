"""What a Lustre file system is to its clients and to its links, whether this app makes it or it exists already."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage._arguments import CLIENT, misfits
from training_storage.errors import Problem, ValidationError
from training_storage.rules.links import LinkSettings
from training_storage.rules.lustre import LustreSettings
from training_storage.tiers import _security_groups, _warnings

if TYPE_CHECKING:
    from training_storage.tiers.association import DataRepositoryAssociation, LinkEvent
    from training_storage.tiers.data_lake import DataLake


@jsii.implements(ec2.IConnectable)
class LustreFileSystemBase(Construct):
    """Clients, links and names of a file system; ``LustreFileSystem`` and ``ImportedLustreFileSystem`` are two.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        settings: What is known of the file system, for the rules of links.
        efa_enabled: Whether clients may use EFA.
        manages_group: Whether rules are added to the file system's own group.
        brought_group: Whether that group may be the one of other file systems and clients too.
        exists_already: Whether the file system is made outside of this app.
        link_removal: What becomes of links when their stack is deleted.
        existing_links: Links that the file system is known to have already.
        upstream: Paths of the stacks that the file system's stack refers to.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: LustreSettings,
        efa_enabled: bool,
        manages_group: bool,
        brought_group: bool,
        exists_already: bool,
        link_removal: cdk.RemovalPolicy,
        existing_links: tuple[LinkSettings, ...] = (),
        upstream: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(scope, construct_id)
        self.efa_enabled: Final = efa_enabled
        self._settings: Final = settings
        self._manages_group: Final = manages_group
        self._brought_group: Final = brought_group
        self._exists_already: Final = exists_already
        self._link_removal: Final = link_removal
        self._upstream: Final = upstream
        self._client_rules: dict[str, tuple[cdk.CfnResource, ...]] = {}
        self._links: list[DataRepositoryAssociation] = []
        self._after_links: list[Construct] = []
        self._link_settings: tuple[LinkSettings, ...] = existing_links
        if settings.file_system_type_version == "2.10":
            _warnings.warn(
                self,
                _warnings.OLD_LUSTRE,
                "Lustre 2.10 does not serve the 2.15 clients of Amazon Linux 2023, Ubuntu 22.04 and 24.04, RHEL 9 and "
                "Rocky 9, and has no links to S3; use 2.15",
            )

    def _stand_in(self, group: ec2.ISecurityGroup) -> None:
        """Take the group that clients are let into; a group of our own is a child and can only be made now."""
        self._security_group = group
        self._connections = ec2.Connections(
            security_groups=[group], default_port=ec2.Port.tcp_range(*_security_groups.DEFAULT_PORT)
        )

    # -- what users take from it

    @property
    def security_group(self) -> ec2.ISecurityGroup:
        """Its security group."""
        return self._security_group

    @property
    def connections(self) -> ec2.Connections:
        """The file system's group with the default ports 988-1023, for code that knows ``IConnectable``."""
        return self._connections

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``."""
        raise NotImplementedError

    @property
    def file_system_arn(self) -> str:
        """ARN of the file system."""
        raise NotImplementedError

    @property
    def dns_name(self) -> str:
        """Name that clients mount."""
        raise NotImplementedError

    @property
    def mount_name(self) -> str:
        """Path behind the name: clients mount ``DNS_NAME@tcp:/MOUNT_NAME``."""
        raise NotImplementedError

    @property
    def file_system_type_version(self) -> str | None:
        """Lustre version such as ``2.15``; None where it is not known at synth."""
        return self._settings.file_system_type_version

    @property
    def links(self) -> tuple[DataRepositoryAssociation, ...]:
        """Links to S3 that this app makes, in the order in which they are made."""
        return tuple(self._links)

    def _take_link(self, link: DataRepositoryAssociation, settings: LinkSettings) -> None:
        self._links.append(link)
        self._link_settings += (settings,)
        for resource in self._after_links:
            resource.node.add_dependency(link)

    def wait_for_links(self, resource: Construct) -> None:
        """Let a resource be made after every link, also those that are added later, and so be deleted before them.

        Args:
            resource: What waits.
        """
        self._after_links.append(resource)
        for link in self._links:
            resource.node.add_dependency(link)

    # -- clients

    def allow_client(self, client: ec2.IConnectable) -> tuple[cdk.CfnResource, ...]:
        """Let a client's security groups reach the file system, and the file system's group reach them.

        TCP 988 and 1018-1023, or everything with EFA, named by group id in both directions on both groups. The rules
        are made in the stack of the client, so a file system of another stack is not touched, and no reference runs
        from it to its clients. A group that stands in the stack of the file system's own network (a security group
        given as the client) gets them in the file system's stack, since the other way would close a circle.

        Where the rules of the file system's group are left to its owner, only those of the client's group are made, and
        a warning says which ones the owner adds.

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
                if not self._manages_group:
                    self._say_rules_of_owner(group)
            made += self._client_rules[group_id]
        return tuple(made)

    def _place_of_rules(self, client: ec2.IConnectable, group: ec2.ISecurityGroup) -> cdk.Stack:
        """Return the client's stack, whichever stack its group comes from; and where that is upstream, our own."""
        place = cdk.Stack.of(client if isinstance(client, Construct) else group)
        return cdk.Stack.of(self) if place.node.path in self._upstream else place

    def _say_rules_of_owner(self, client: ec2.ISecurityGroup) -> None:
        own, other = _security_groups.name_of(self.security_group), _security_groups.name_of(client)
        _warnings.warn(
            self,
            _warnings.SECURITY_GROUP_RULES,
            f"rules of security group {own} are left to its owner, who adds for the client group {other}: "
            + "; ".join(
                f"{direction} {each} {word} {other}"
                for each in _security_groups.traffic(efa=self.efa_enabled)
                for direction, word in (("inbound", "from"), ("outbound", "to"))
            ),
        )

    # -- links

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
