"""A directory bucket that exists already."""

from __future__ import annotations

from typing import Final

from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from training_storage._arguments import misfits_among
from training_storage.errors import ValidationError
from training_storage.rules.base import require
from training_storage.rules.express import (
    DIRECTORY_BUCKET_RULES,
    DirectoryBucketSettings,
    zone_of_directory_bucket,
)
from training_storage.tiers._directory_bucket import DirectoryBucketBase
from training_storage.tiers._express_arguments import IMPORTED_DIRECTORY_BUCKET_KINDS, key_facts, region_of
from training_storage.tiers._tokens import concrete


class ImportedDirectoryBucket(DirectoryBucketBase):
    """A directory bucket that exists already, taken as it is.

    Rights that only its owner or its key's owner can give are printed in warnings.

    Example::

        shared = DirectoryBucket.from_bucket_name(self, "Shared", "shared--use1-az6--x-s3")
        shared.grant_read(role)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        bucket_name: Whole name, suffix included.
        encryption_key: Key that the bucket is encrypted with, so that grants reach it. Left out, grants are on the
            bucket alone, which is right for a bucket whose key S3 holds.
        account: Account that owns the bucket. Left out, that of the stack.

    Raises:
        ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.

    Attributes:
        encryption_key: As given.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket_name: str,
        encryption_key: kms.IKey | None = None,
        account: str | None = None,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits_among(IMPORTED_DIRECTORY_BUCKET_KINDS, locals()):
            raise ValidationError(wrong, where=where)
        name = concrete(bucket_name)
        zone = zone_of_directory_bucket(name) if name is not None else None
        key, alias = key_facts(encryption_key)
        settings = DirectoryBucketSettings(
            region=region_of(scope),
            availability_zone_id=zone,
            existing=True,
            bucket_name=name,
            account=concrete(account),
            encryption_key=key,
            encryption_key_is_alias=alias,
        )
        require(DIRECTORY_BUCKET_RULES, settings, where=where)
        super().__init__(scope, construct_id, physical_name=bucket_name, account=account)
        self._name: Final = bucket_name
        self._zone: Final = zone
        self.encryption_key = encryption_key

    @property
    def bucket_name(self) -> str:
        """Whole name, suffix included."""
        return self._name

    @property
    def availability_zone_id(self) -> str | None:
        """Zone ID, read out of the name; None where the name is only known at deploy."""
        return self._zone

    # As its base has it.
    def add_to_resource_policy(self, statement: iam.PolicyStatement) -> iam.AddToResourcePolicyResult:  # noqa: ARG002
        """Add nothing: the policy belongs to the owner of the bucket.

        Args:
            statement: What the owner would have to add.

        Returns:
            That it was not added.
        """
        return iam.AddToResourcePolicyResult(statement_added=False)
