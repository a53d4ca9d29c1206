"""What an S3 Files file system is to its clients, whether this app makes it or it exists already."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage._arguments import CLIENT, FLAG, GRANTEE, misfits
from training_storage.errors import Problem, ValidationError
from training_storage.tiers import _iam, _s3_files_clients, _security_groups, _warnings
from training_storage.tiers._tokens import concrete

MOUNT: Final = ("s3files:ClientMount",)
WRITE: Final = ("s3files:ClientMount", "s3files:ClientWrite")
ROOT: Final = ("s3files:ClientMount", "s3files:ClientRootAccess", "s3files:ClientWrite")
_DIRECT_READ: Final = ("s3:GetObject", "s3:GetObjectVersion")


@jsii.implements(ec2.IConnectable, iam.IResourceWithPolicyV2)
class S3FileSystemBase(Construct):
    """Clients and rights of a file system; ``S3FileSystem`` and ``ImportedS3FileSystem`` are two.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        bucket: Bucket of the file system; None where it is not known.
        bucket_key: Key of the bucket, if it has one that is known.
        prefix: Prefix of the file system; empty for the whole bucket.
        manages_group: Whether rules are added to the mount target's group.
        brought_group: Whether that group may be the one of other file systems and clients too.
        client_rules_removal: What becomes of rules that stand in the file system's own stack.
        upstream: Paths of the stacks that the file system's stack refers to.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket: s3.IBucket | None,
        bucket_key: kms.IKey | None,
        prefix: str,
        manages_group: bool,
        brought_group: bool,
        client_rules_removal: cdk.RemovalPolicy,
        upstream: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(scope, construct_id)
        self.bucket: Final = bucket
        self.prefix: Final = prefix
        self._bucket_key: Final = bucket_key
        self._manages_group: Final = manages_group
        self._brought_group: Final = brought_group
        self._client_rules_removal: Final = client_rules_removal
        self._upstream: Final = upstream
        self._client_rules: dict[str, tuple[cdk.CfnResource, ...]] = {}

    def _stand_in(self, group: ec2.ISecurityGroup) -> None:
        """Take the group that clients are let into; a group of our own is a child and can only be made now."""
        self._security_group = group
        self._connections = ec2.Connections(security_groups=[group], default_port=ec2.Port.tcp(_s3_files_clients.PORT))

    # -- what users take from it

    @property
    def security_group(self) -> ec2.ISecurityGroup:
        """Security group of the mount target that clients are let into."""
        return self._security_group

    @property
    def connections(self) -> ec2.Connections:
        """That group with the default port 2049, for code that knows ``IConnectable``."""
        return self._connections

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``, which is what clients mount."""
        raise NotImplementedError

    @property
    def file_system_arn(self) -> str:
        """ARN of the file system."""
        raise NotImplementedError

    @property
    def env(self) -> cdk.interfaces.ResourceEnvironment:
        """Account and region of the file system: those of its stack."""
        stack = cdk.Stack.of(self)
        return cdk.interfaces.ResourceEnvironment(account=stack.account, region=stack.region)

    def add_to_resource_policy(self, statement: iam.PolicyStatement) -> iam.AddToResourcePolicyResult:
        """Add a statement to the policy of the file system, where that is ours.

        Args:
            statement: The statement.
        """
        raise NotImplementedError

    # -- clients

    def _before_clients(self) -> tuple[cdk.CfnResource, ...]:
        """Return what a mount has to wait for beside the rules."""
        return ()

    def allow_client(self, client: ec2.IConnectable) -> tuple[cdk.CfnResource, ...]:
        """Let a client's security groups reach the mount target: TCP 2049, by group id, on both groups.

        The rules are made in the stack of the client, so a file system of another stack is not touched, and no
        reference runs from it to its clients. A group that stands in a stack that the file system's stack refers to,
        such as that of its network (a security group given as the client), gets them in the file system's stack, since
        the other way would close a circle.

        Where the rules of the mount target's group are left to its owner, only that of the client's group is made, and
        a warning says which one the owner adds.

        Args:
            client: Anything with connections: a fleet, an instance, a security group.

        Returns:
            The rules, and the mount target where this app makes it, so that what mounts the file system can wait.

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
        made: dict[str, cdk.CfnResource] = {}
        for group in groups:
            group_id = group.security_group_id
            if group_id not in self._client_rules:
                self._client_rules[group_id] = self._make_rules(client, group)
            made |= {rule.node.path: rule for rule in self._client_rules[group_id]}
        return (*made.values(), *self._before_clients())

    def _make_rules(self, client: ec2.IConnectable, group: ec2.ISecurityGroup) -> tuple[cdk.CfnResource, ...]:
        place = cdk.Stack.of(client if isinstance(client, Construct) else group)
        beside = place.node.path in self._upstream
        rules = _s3_files_clients.rules_with_client(
            cdk.Stack.of(self) if beside else place,
            group,
            self.security_group,
            owner=self,
            file_system_side=self._manages_group,
            brought=self._brought_group,
        )
        if beside:  # the client lives on when this stack is deleted, so they stay as long as the mount target
            for rule in rules:
                rule.apply_removal_policy(self._client_rules_removal)
        if not self._manages_group:
            ours, theirs = _security_groups.name_of(self.security_group), _security_groups.name_of(group)
            _warnings.warn(
                self,
                _warnings.S3_FILES_GROUP,
                f"rules of security group {ours} are left to its owner, who adds for the client group {theirs}: "
                f"inbound tcp {_s3_files_clients.PORT} from {theirs}",
            )
        return rules

    # -- rights

    def grant_read(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        """Let a principal mount the file system and read: ``s3files:ClientMount`` on this file system alone.

        A client that has the rights to read the objects themselves takes large reads straight from S3: faster, and not
        billed as reads of the file system. They are ``s3:GetObject`` and ``s3:GetObjectVersion`` under the prefix,
        ``s3:ListBucket`` for it, and ``kms:Decrypt`` on the bucket's key.

        Logs and metrics that ``amazon-efs-utils`` sends by default are not among the rights; the AWS managed policy
        AmazonElasticFileSystemsUtils has them.

        Args:
            grantee: Who may read. One of another account, or one that takes no policies, gets the right in the policy
                of the file system.
            direct_read: Whether it may read objects past the file system. Left out, it may. With access points give
                False: they do not bound such reads.

        Returns:
            The grant; not successful where a part could only be given by somebody else, which a warning then prints.

        Raises:
            ValidationError: An argument is of another kind.
        """
        return self._grant(grantee, MOUNT, direct_read=direct_read)

    def grant_read_write(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        """Let a principal mount the file system, read and write: ``grant_read`` and ``s3files:ClientWrite``.

        What is written reaches the bucket by the file system's own role about a minute after the last write. Files of
        the user ``root`` are squashed to an anonymous user, see ``grant_root``.

        Args:
            grantee: Who may read and write.
            direct_read: As for ``grant_read``.

        Returns:
            The grant, as for ``grant_read``.

        Raises:
            ValidationError: An argument is of another kind.
        """
        return self._grant(grantee, WRITE, direct_read=direct_read)

    def grant_root(self, grantee: iam.IGrantable, *, direct_read: bool = True) -> iam.Grant:
        """Let root of a client be root of the file system: ``grant_read_write`` and ``s3files:ClientRootAccess``.

        Args:
            grantee: Who may do everything.
            direct_read: As for ``grant_read``.

        Returns:
            The grant, as for ``grant_read``.

        Raises:
            ValidationError: An argument is of another kind.
        """
        return self._grant(grantee, ROOT, direct_read=direct_read)

    def _grant(self, grantee: iam.IGrantable, actions: tuple[str, ...], *, direct_read: bool) -> iam.Grant:
        if wrong := misfits({"grantee": (grantee, GRANTEE), "direct_read": (direct_read, FLAG)}):
            raise ValidationError(wrong, where=self.node.path)
        grant = _iam.grant_on(
            self,
            self,
            grantee,
            actions,
            self.file_system_arn,
            noun="file system",
            warning_id=_warnings.S3_FILES_POLICY,
        )
        self._say_rights_of_other_account(grantee, actions)
        if not direct_read:
            return grant
        if self.bucket is None:
            _warnings.warn(
                self,
                _warnings.S3_FILES_NO_DIRECT_READ,
                "the bucket of this file system is not known, so its clients read everything through the file system, "
                "which bills it: give bucket, or direct_read=False where that is meant",
            )
            return grant
        direct = _iam.grant_bucket(
            self,
            self.bucket,
            self._bucket_key,
            grantee,
            prefix=self.prefix,
            object_actions=_DIRECT_READ,
            key_actions=_iam.KEY_READ_ACTIONS,
        )
        if not (grant.success and direct.success):
            return iam.Grant.drop(grantee, "a policy that is not ours to change lacks the right")
        return grant.combine(direct)

    def _say_rights_of_other_account(self, grantee: iam.IGrantable, actions: tuple[str, ...]) -> None:
        here = concrete(cdk.Stack.of(self).account)
        there = concrete(grantee.grant_principal.principal_account)
        if here is None or there is None or here == there:
            return
        statement = iam.PolicyStatement(actions=list(actions), resources=[self.file_system_arn])
        _warnings.warn(
            self,
            _warnings.S3_FILES_OTHER_ACCOUNT,
            f"a client of account {there} must be allowed by its own account, too: "
            f"{_iam.as_json(self, statement)}; it mounts by the address of the mount target (mounttargetip=)",
        )
