"""A Lustre file system that exists already: mounted and linked like one of our own, and otherwise left alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage._arguments import CATALOG, FLAG, SECURITY_GROUP, TEXT, Kind, misfits_among, optional
from training_storage.catalog import Catalog, default_catalog
from training_storage.catalog.lustre import LustreCatalog
from training_storage.errors import Problem, ValidationError
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.links import LINK_RULES, LinkSettings
from training_storage.rules.lustre import LUSTRE_CONSTRUCT_PATHS, LUSTRE_RULES, LustreSettings
from training_storage.rules.lustre_existing import EXISTING_LUSTRE_RULES, ExistingLustreSettings
from training_storage.tiers._lustre_base import LustreFileSystemBase
from training_storage.tiers._tokens import concrete

_KINDS: Final[Mapping[str, Kind]] = {
    "file_system_id": TEXT,
    "mount_name": TEXT,
    "security_group": SECURITY_GROUP,
    "dns_name": optional(TEXT),
    "efa_enabled": FLAG,
    "manage_security_group_rules": FLAG,
    "deployment_type": optional(TEXT),
    "storage_type": optional(TEXT),
    "file_system_type_version": optional(TEXT),
    "existing_links": optional(
        Kind(
            allowed="addresses in S3 by directories of the file system",
            fits=lambda value: (
                isinstance(value, Mapping) and all(isinstance(text, str) for pair in value.items() for text in pair)
            ),
            fix='{"/datasets": "s3://their-bucket/datasets/"}',
        )
    ),
    "catalog": optional(CATALOG),
}
_LINK_PATHS: Final = dict.fromkeys(("links", "links[].path", "links[].prefix"), "existing_links")
_ADDRESS: Final = re.compile(r"s3://[^/\s]+")
_UNLINKED_TYPE: Final = "SCRATCH_1"
"""Can be mounted, but neither be made nor linked by us; FSx takes it where no type is named."""


class ImportedLustreFileSystem(LustreFileSystemBase):
    """A Lustre file system that exists already, by its attributes; nothing is looked up in AWS.

    It is mounted and linked like one of our own, also from other stacks. Nothing of the file system itself is changed,
    and nothing of it goes with a stack. What is made is rules for its clients, in the stacks of the clients, and links
    that you add.

    Links that you add go with their stack, whatever becomes of the file system: a link holds no data. Files and objects
    stay where they are, and what was changed and not exported by then is only on the file system.

    Example::

        theirs = LustreFileSystem.from_attributes(
            self, "Theirs",
            file_system_id="fs-0123456789abcdef0",
            mount_name="abcdefgh",
            security_group=ec2.SecurityGroup.from_security_group_id(self, "Group", "sg-0123456789abcdef0"),
            existing_links={"/datasets": "s3://their-bucket/datasets/"},
        )
        theirs.add_link("Results", file_system_path="/results", bucket=lake, bucket_prefix="models/",
                        export_events=["new", "changed"])
        theirs.allow_client(fleet)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        file_system_id: Id such as ``fs-0123456789abcdef0``.
        mount_name: Name that FSx gave for mounting, such as ``abcdefgh``; ``MountName`` of
            ``aws fsx describe-file-systems``.
        security_group: A security group that the file system stands in. Where it stands in several, any one will do:
            rules of one are enough.
        dns_name: Name that clients mount. Left out, the id with ``.fsx.``, region and DNS suffix of the stack. Give the
            address of its network interface for clients that do not see the names of its VPC.
        efa_enabled: Whether it is EFA-enabled. Left out, no.
        manage_security_group_rules: Whether rules are added to its group. Left out, they are. With False only those of
            the clients' groups are made, and for each client a warning lists what the group's owner adds.
        deployment_type: Its deployment type, where it is known: links and EFA are then held against it.
        storage_type: Its storage type, where it is known: ``INTELLIGENT_TIERING`` takes no links.
        file_system_type_version: Its Lustre version, where it is known: ``2.10`` takes no links, and does not serve new
            clients.
        existing_links: Links that it has already: address such as ``s3://bucket/prefix/`` by directory. New links are
            held against them, and they count among the eight. Left out, only FSx notices at deploy when two overlap.
        catalog: Facts that the arguments and links are held against. Left out, those of the package.

    Raises:
        ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.

    Attributes:
        security_group: As given.
        connections: For ``other.connections.allow_to_default_port(theirs)``; its one default port range is 988-1023.
        efa_enabled: As given.
    """

    def __init__(
        self,
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
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits_among(_KINDS, locals()):
            raise ValidationError(wrong, where=where)
        lustre = (catalog or default_catalog()).lustre
        deployment, storage = _types(lustre, concrete(deployment_type), concrete(storage_type))
        settings = LustreSettings(
            catalog=catalog,
            deployment_type=deployment,
            storage_type=storage,
            efa=concrete(efa_enabled),
            file_system_type_version=concrete(file_system_type_version),
        )
        links = tuple(_link(path, address, catalog) for path, address in (existing_links or {}).items())
        # That a type cannot be made is no reason not to mount it; where it matters for links they say so themselves.
        known = replace(settings, deployment_type=None) if deployment == _UNLINKED_TYPE else settings
        problems = [
            *find_problems(
                EXISTING_LUSTRE_RULES,
                ExistingLustreSettings(
                    file_system_id=concrete(file_system_id),
                    mount_name=concrete(mount_name),
                    dns_name=concrete(dns_name),
                ),
            ),
            *relabel(find_problems(LUSTRE_RULES, known), LUSTRE_CONSTRUCT_PATHS),
            *_no_addresses(existing_links or {}),
            *relabel(find_problems(LINK_RULES, links), _LINK_PATHS),
        ]
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(
            scope,
            construct_id,
            settings=settings,
            efa_enabled=efa_enabled,
            manages_group=manage_security_group_rules,
            brought_group=True,
            exists_already=True,
            link_removal=cdk.RemovalPolicy.DESTROY,
            existing_links=links,
        )
        self._stand_in(security_group)
        self._id: Final = file_system_id
        self._mount_name: Final = mount_name
        stack = cdk.Stack.of(self)
        self._dns_name: Final = dns_name or f"{file_system_id}.fsx.{stack.region}.{stack.url_suffix}"

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``."""
        return self._id

    @property
    def file_system_arn(self) -> str:
        """ARN of the file system, in region and account of the stack."""
        return cdk.Stack.of(self).format_arn(service="fsx", resource="file-system", resource_name=self._id)

    @property
    def dns_name(self) -> str:
        """Name that clients mount."""
        return self._dns_name

    @property
    def mount_name(self) -> str:
        """Path behind the name: clients mount ``DNS_NAME@tcp:/MOUNT_NAME``."""
        return self._mount_name


def _types(lustre: LustreCatalog, deployment: str | None, storage: str | None) -> tuple[str | None, str | None]:
    """Return both types where one of them leaves only one possibility for the other."""
    fitting = [
        (option.deployment_type, option.storage_type)
        for option in lustre.options.values()
        if deployment in {None, option.deployment_type} and storage in {None, option.storage_type}
    ]
    return fitting[0] if len(fitting) == 1 else (deployment, storage)


def _link(path: str, address: str, catalog: Catalog | None) -> LinkSettings:
    known = concrete(address)
    bucket, _, prefix = (known or "").removeprefix("s3://").partition("/")
    return LinkSettings(
        catalog=catalog,
        path=concrete(path),
        bucket=bucket or None,
        prefix=None if known is None else prefix,
    )


def _no_addresses(links: Mapping[str, str]) -> Iterator[Problem]:
    for address in links.values():
        known = concrete(address)
        if known is not None and not _ADDRESS.match(known):
            yield Problem(
                what="not the address of a prefix in S3",
                path="existing_links",
                value=known,
                allowed="addresses such as s3://their-bucket/datasets/",
            )
