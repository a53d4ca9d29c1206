"""What a directory bucket offers to those who use it, whether it is made here or exists already."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Final

import aws_cdk as cdk
import jsii
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms

from training_storage._arguments import FLAG, GRANTEE, TEXT, misfits
from training_storage.errors import ValidationError
from training_storage.rules.base import find_problems, relabel
from training_storage.rules.links import LINK_RULES, LinkSettings, normalized_prefix
from training_storage.tiers import _iam, _warnings
from training_storage.tiers._express_arguments import known_switches
from training_storage.tiers._tokens import concrete

SESSION_ACTIONS: Final = ("s3express:CreateSession",)
"""The one action that covers every operation on objects; ``s3:GetObject`` and its like are not asked for."""

READ_ONLY: Final = {"StringEquals": {"s3express:SessionMode": "ReadOnly"}}

# A session of an encrypted bucket is opened with both, by readers too (CreateSession, S3 API reference).
KEY_ACTIONS: Final = ("kms:Decrypt", "kms:GenerateDataKey")


@jsii.implements(iam.IResourceWithPolicy)
class DirectoryBucketBase(cdk.Resource):
    """Names, addresses and grants of a directory bucket.

    Attributes:
        encryption_key: Key of the bucket; None where S3 holds it, or where the key of an existing bucket is not known.
    """

    encryption_key: kms.IKey | None

    @property
    @abstractmethod
    def bucket_name(self) -> str:
        """Whole name, suffix included."""

    @property
    @abstractmethod
    def availability_zone_id(self) -> str | None:
        """Zone ID such as ``use1-az6``; None where it is only known at deploy."""

    @abstractmethod
    def add_to_resource_policy(self, statement: iam.PolicyStatement) -> iam.AddToResourcePolicyResult:
        """Add a statement to the policy of the bucket.

        Args:
            statement: The statement; its actions are those of ``s3express``.

        Returns:
            Whether it was added; it is not where the bucket exists already.
        """

    @property
    def bucket_arn(self) -> str:
        """ARN of the bucket: ``arn:PARTITION:s3express:REGION:ACCOUNT:bucket/NAME``."""
        return cdk.Stack.of(self).format_arn(
            service="s3express",
            region=self.env.region,
            account=self.env.account,
            resource="bucket",
            resource_name=self.bucket_name,
        )

    def uri_for(self, prefix: str = "") -> str:
        """Return the ``s3://`` address of a prefix, with a trailing slash: directory buckets know no other prefixes.

        Args:
            prefix: Key prefix. Left out, the whole bucket.

        Raises:
            ValidationError: The prefix is none.
        """
        if wrong := misfits({"prefix": (prefix, TEXT)}):
            raise ValidationError(wrong, where=self.node.path)
        known = concrete(prefix)
        problems = relabel(find_problems(LINK_RULES, (LinkSettings(prefix=known),)), {"links[].prefix": "prefix"})
        if problems:
            raise ValidationError(problems, where=self.node.path)
        return f"s3://{self.bucket_name}/{prefix if known is None else normalized_prefix(known)}"

    def grant_read(self, grantee: iam.IGrantable, session_mode_condition: bool = False) -> iam.Grant:
        """Let a principal read: ``s3express:CreateSession``, and ``kms:Decrypt``, ``kms:GenerateDataKey`` on the key.

        Without the condition the right is that of ``grant_read_write``: S3 Express knows one action for both, and
        Mountpoint asks for a session that writes even where it mounts read-only, so that the condition would keep it
        from mounting (field report 17). Readers that are not Mountpoint can be held to reading.

        Args:
            grantee: Who may read.
            session_mode_condition: Whether only sessions that read are given. Left out, sessions of both modes are.

        Returns:
            The grant; not successful where only an owner could give the right, which a warning then prints.
        """
        wrong = misfits({"session_mode_condition": (session_mode_condition, FLAG)})
        if wrong := wrong or known_switches(session_mode_condition=session_mode_condition):
            raise ValidationError(wrong, where=self.node.path)
        return self._grant(grantee, READ_ONLY if session_mode_condition else None)

    def grant_read_write(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let a principal read, write, rename and delete: ``s3express:CreateSession`` and the same rights on the key.

        Args:
            grantee: Who may read and write.

        Returns:
            The grant; not successful where only an owner could give the right, which a warning then prints.
        """
        return self._grant(grantee, None)

    def _grant(self, grantee: iam.IGrantable, conditions: dict[str, dict[str, Any]] | None) -> iam.Grant:
        if wrong := misfits({"grantee": (grantee, GRANTEE)}):
            raise ValidationError(wrong, where=self.node.path)
        grant = _iam.grant_on(
            self,
            self,
            grantee,
            SESSION_ACTIONS,
            self.bucket_arn,
            noun="directory bucket",
            warning_id=_warnings.DIRECTORY_BUCKET_POLICY,
            conditions=conditions,
        )
        if self.encryption_key is None:
            return grant
        on_key = _iam.grant_on(
            self,
            self.encryption_key,
            grantee,
            KEY_ACTIONS,
            self.encryption_key.key_arn,
            noun="key",
            warning_id=_warnings.DIRECTORY_BUCKET_KEY_POLICY,
        )
        if not (grant.success and on_key.success):
            return iam.Grant.drop(grantee, "a policy that is not ours to change lacks the right")
        return grant.combine(on_key)
