"""An S3 Files file system that exists already: mounted like one of our own, and otherwise left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage._arguments import FLAG, SECURITY_GROUP, TEXT, Kind, misfits_among, optional
from training_storage.errors import ValidationError
from training_storage.rules.base import find_problems
from training_storage.rules.s3_files import S3_FILES_RULES
from training_storage.rules.s3_files_settings import S3FilesSettings
from training_storage.tiers._s3_files_base import S3FileSystemBase
from training_storage.tiers._s3_files_bucket import BUCKET_OR_LAKE, facts_of
from training_storage.tiers._tokens import concrete

if TYPE_CHECKING:
    from training_storage.tiers.data_lake import DataLake

_KINDS: Final[Mapping[str, Kind]] = {
    "file_system_id": TEXT,
    "security_group": SECURITY_GROUP,
    "bucket": optional(BUCKET_OR_LAKE),
    "prefix": TEXT,
    "manage_security_group_rules": FLAG,
}


class ImportedS3FileSystem(S3FileSystemBase):
    """An S3 Files file system that exists already, by its attributes; nothing is looked up in AWS.

    It is of the region and the account of the stack. Nothing of it is changed, and nothing of it goes with a stack:
    what is made is rules for its clients, in the stacks of the clients, and rights in the policies of those who read.
    There must be a mount target in the zone of the clients.

    Example::

        theirs = S3FileSystem.from_attributes(
            self, "Theirs",
            file_system_id="fs-0123456789abcdef0",
            security_group=ec2.SecurityGroup.from_security_group_id(self, "Group", "sg-0123456789abcdef0"),
            bucket=lake,
            prefix="datasets/",
        )
        theirs.allow_client(fleet)
        theirs.grant_read(fleet)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        file_system_id: Id such as ``fs-0123456789abcdef0``.
        security_group: A security group of its mount target in the zone of the clients. Where it stands in several,
            any one will do: rules of one are enough.
        bucket: Its bucket, for the rights to read past the file system. Left out, such rights are not given, and a
            warning says so.
        prefix: Its prefix, ending in a slash. Left out, the whole bucket.
        manage_security_group_rules: Whether rules are added to the group. Left out, they are. With False only those of
            the clients' groups are made, and for each client a warning lists what the group's owner adds.

    Raises:
        ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.

    Attributes:
        bucket: Its bucket; None where it was left out.
        prefix: As given.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        file_system_id: str,
        security_group: ec2.ISecurityGroup,
        bucket: DataLake | s3.IBucket | None = None,
        prefix: str = "",
        manage_security_group_rules: bool = True,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits_among(_KINDS, locals()):
            raise ValidationError(wrong, where=where)
        facts = None if bucket is None else facts_of(bucket)
        problems = find_problems(
            S3_FILES_RULES,
            S3FilesSettings(
                file_system_id=concrete(file_system_id),
                prefix=concrete(prefix),
                directory_bucket=facts.directory if facts is not None else None,
            ),
        )
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(
            scope,
            construct_id,
            bucket=facts.bucket if facts is not None else None,
            bucket_key=facts.key if facts is not None else None,
            prefix=prefix,
            manages_group=manage_security_group_rules,
            brought_group=True,
            client_rules_removal=cdk.RemovalPolicy.DESTROY,
        )
        self._stand_in(security_group)
        self._id: Final = file_system_id

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``, which is what clients mount."""
        return self._id

    @property
    def file_system_arn(self) -> str:
        """ARN of the file system, in region and account of the stack."""
        return cdk.Stack.of(self).format_arn(service="s3files", resource="file-system", resource_name=self._id)

    # As its base has it.
    def add_to_resource_policy(self, statement: iam.PolicyStatement) -> iam.AddToResourcePolicyResult:  # noqa: ARG002
        """Leave the policy of the file system as it is: it belongs to its owner.

        Args:
            statement: What is not added.

        Returns:
            That it was not added.
        """
        return iam.AddToResourcePolicyResult(statement_added=False)
