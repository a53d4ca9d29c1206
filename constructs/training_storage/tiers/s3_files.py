"""A bucket as a shared file system: Amazon S3 Files, and what it needs around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3files as s3files
from constructs import Construct

from training_storage._arguments import misfits_among
from training_storage.catalog import Catalog
from training_storage.errors import Problem, ValidationError
from training_storage.rules.base import find_problems
from training_storage.rules.s3_files import S3_FILES_RULES
from training_storage.rules.s3_files_settings import DEFAULT_EXPIRE_DAYS, S3FilesSettings
from training_storage.tiers import _s3_files_role
from training_storage.tiers._kms import given_by_alias
from training_storage.tiers._removal import keep_on_replacement, require_keep_or_delete
from training_storage.tiers._s3_files_arguments import (
    DEFAULT_IMPORT_RULES,
    S3_FILES_KINDS,
    S3FilesImportRule,
    import_settings,
    misfits_of_rules,
)
from training_storage.tiers._s3_files_base import S3FileSystemBase
from training_storage.tiers._s3_files_bucket import facts_of, say_what_the_owner_does
from training_storage.tiers._tokens import concrete, days, is_concrete

if TYPE_CHECKING:
    from training_storage.tiers.data_lake import DataLake
    from training_storage.tiers.imported_s3_files import ImportedS3FileSystem

__all__ = ["S3FileSystem", "S3FilesImportRule"]


class S3FileSystem(S3FileSystemBase):
    """A file system over a bucket, or over a prefix of one, with its mount target, its group and its service role.

    What clients write reaches the bucket about a minute after the last write, and what changes in the bucket appears
    in the file system within seconds. Where both changed, the bucket wins, and the file that lost goes to
    ``.s3files-lost+found-FILE_SYSTEM_ID`` at the root, which is billed until somebody removes it. There are no hard
    links, and objects of archive classes cannot be read. Clients mount it by its id with
    ``amazon-efs-utils``, always with TLS and their IAM role, in the zone of the subnet. Its host name there is
    ``ZONE_ID.FILE_SYSTEM_ID.s3files.REGION.on.aws`` (``on.amazonwebservices.com.cn`` in China); the VPC must have DNS
    support and DNS host names on. In a network without a way out, reads straight from S3 need its gateway endpoint, and
    a client that ships logs, as ``amazon-efs-utils`` does by default, can hang at mounting without an endpoint for
    ``logs``.

    The service never looks at its role again: a file system that is made before the role may read the bucket stays in
    ``creating``, with the reason in ``aws s3files get-file-system``, and only deleting and making it again helps. So it
    waits for the role's policy, and for the bucket with its policy.

    The bucket must be versioned and send its events to EventBridge; a ``DataLake`` does both. A policy that denies
    access from outside a VPC or an endpoint must except the service role, which comes from neither. Every change of a
    file, ``chmod`` and ``chown`` too, makes a new version of its object. For a bucket that exists already, warnings
    print what its owner does. Whoever deploys needs, beside CloudFormation's own rights, ``iam:PassRole`` on the role,
    ``s3:GetBucketNotification`` and ``s3:PutBucketNotification`` on the bucket, the EventBridge rights on rules named
    ``DO-NOT-DELETE-S3-Files*``, and with ``encryption_key`` ``kms:DescribeKey``,
    ``kms:GenerateDataKeyWithoutPlaintext`` and ``kms:CreateGrant``.

    What is kept: with RETAIN the file system, its mount target, group, role and policies all stay when the stack is
    deleted, and cost as before; with DESTROY all go. S3 Files refuses to delete a file system while files wait to be
    exported, and CloudFormation cannot force it: deleting the stack then fails at the file system, after the mount
    target has gone. The metric ``PendingExports`` (``AWS/S3/Files``, ``FileSystemId``) says how many wait; when it is
    0, delete the stack again. Objects stay in the bucket either way.

    Only ``import_rules``, ``expire_after``, groups and tags change in place. Changing ``bucket``, ``prefix``, ``role``,
    ``encryption_key`` or ``accept_bucket_warning`` means another file system: the old one is left behind whatever the
    policy, and its role is given to the new one, so let ``PendingExports`` reach 0 first. Changing ``subnet`` means
    another mount target, made before the old one goes: one in the same zone is refused, as a zone takes one.

    Example::

        files = S3FileSystem(
            self, "Files",
            bucket=lake,
            prefix="datasets/",
            vpc=vpc,
            subnet=vpc.private_subnets[0],
        )
        files.allow_client(fleet)
        files.grant_read(fleet)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        bucket: A ``DataLake``, or a general purpose bucket of the same region and account. An existing bucket with a
            key of its own is given as ``DataLake(bucket=..., encryption_key=...)``, so that the role reaches the key.
        vpc: Network of the mount target's own security group.
        subnet: The one subnet of the mount target; the zone of the clients.
        prefix: Keys that the file system shows, ending in a slash. Left out, the whole bucket.
        expire_after: Time without access after which data leaves the file system's own storage, 1 to 365 whole days;
            it stays in the bucket. Left out, 7 days: AWS advises 1 to 7 for training; the service's own default is 30.
        import_rules: What is copied into the file system's own storage, and when: 1 to 10 rules, exactly one of them
            with an empty prefix. Left out, what the service does by itself: files below 128 KiB when their directory is
            first opened. Everything else is read from the bucket each time.
        security_group: A group that exists already. Left out, one is made that lets in NFS from clients, and lets out
            nothing.
        additional_security_groups: Groups that the mount target carries beside it, as they are; at most 5 in all.
            Left out, none.
        manage_security_group_rules: Whether rules are added to the given group. Left out, they are. With False only
            those of the clients' groups are made, and for each client a warning lists what the group's owner adds.
        role: The role that the service takes on. Left out, one is made. A given one must trust
            ``elasticfilesystem.amazonaws.com``; what it needs is added to it, or printed where it takes no policies.
        encryption_key: Key of the file system's own storage; that of the bucket is the bucket's. Left out, a key that
            the service owns.
        accept_bucket_warning: Whether a bucket is taken that the service warns of: with about 12 million objects or
            more, renaming a directory can take hours. Left out, creation fails there.
        removal_policy: RETAIN or DESTROY, see above. Left out, RETAIN.
        catalog: Facts that the arguments are held against. Left out, those of the package.

    Raises:
        ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.

    Attributes:
        resource: The ``AWS::S3Files::FileSystem`` itself.
        mount_target: The ``AWS::S3Files::MountTarget``.
        role: The role that the service takes on.
        bucket: The bucket.
        prefix: As given.
        subnet: As given.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket: DataLake | s3.IBucket,
        vpc: ec2.IVpc,
        subnet: ec2.ISubnet,
        prefix: str = "",
        expire_after: cdk.Duration | None = None,
        import_rules: Sequence[S3FilesImportRule] | None = None,
        security_group: ec2.ISecurityGroup | None = None,
        additional_security_groups: Sequence[ec2.ISecurityGroup] = (),
        manage_security_group_rules: bool = True,
        role: iam.IRole | None = None,
        encryption_key: kms.IKey | None = None,
        accept_bucket_warning: bool = False,
        removal_policy: cdk.RemovalPolicy | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits_among(S3_FILES_KINDS, locals()) or misfits_of_rules(import_rules):
            raise ValidationError(wrong, where=where)
        facts, rules = facts_of(bucket), tuple(DEFAULT_IMPORT_RULES if import_rules is None else import_rules)
        stack = cdk.Stack.of(scope)
        problems: list[Problem] = []
        settings = S3FilesSettings(
            catalog=catalog,
            region=concrete(stack.region),
            account=concrete(stack.account),
            bucket_region=facts.region,
            bucket_account=facts.account,
            directory_bucket=facts.directory,
            versioned=facts.versioned,
            bucket_encryption=facts.encryption,
            bucket_key_is_alias=given_by_alias(facts.key),
            encryption_key=None if encryption_key is None else concrete(encryption_key.key_arn),
            prefix=concrete(prefix),
            import_rules=import_settings(rules),
            expire_after_days=days(expire_after, "expire_after", problems),
            subnet_count=len(subnet) if isinstance(subnet, Sequence) else 1,
            security_group_count=1 + len(additional_security_groups),
        )
        problems += [*find_problems(S3_FILES_RULES, settings), *require_keep_or_delete(removal_policy)]
        if problems or facts.bucket is None:
            raise ValidationError(problems, where=where)
        keeps = removal_policy or cdk.RemovalPolicy.RETAIN
        groups = (*([] if security_group is None else [security_group]), *additional_security_groups)
        super().__init__(
            scope,
            construct_id,
            bucket=facts.bucket,
            bucket_key=facts.key,
            prefix=prefix,
            manages_group=security_group is None or manage_security_group_rules,
            brought_group=security_group is not None,
            client_rules_removal=keeps,
            # Stacks that this one refers to: a rule there that names the mount target's group would close a circle.
            upstream=frozenset(
                cdk.Stack.of(each).node.path
                for each, name in (
                    (vpc, vpc.vpc_id),
                    (subnet, subnet.subnet_id),
                    (facts.bucket, facts.bucket.bucket_name),
                    *((key, key.key_arn) for key in (facts.key, encryption_key) if key is not None),
                    *((role, role.role_name) for role in (role,) if role is not None),
                    *((group, group.security_group_id) for group in groups),
                )
                if not is_concrete(name) and cdk.Stack.of(each).node.path != stack.node.path
            ),
        )
        self._removal_policy: Final = keeps
        self._policy_document: iam.PolicyDocument | None = None
        self.subnet: Final = subnet
        self._stand_in(security_group or self._make_group(vpc))
        self.role: Final = role or self._make_role()
        policy = _s3_files_role.attach_to(self, self.role, facts.bucket, facts.key, prefix)
        if facts.key is not None:
            _s3_files_role.say_what_the_key_needs(self, self.role, facts.bucket, facts.key, prefix)
        say_what_the_owner_does(self, facts)

        self.resource: Final = s3files.CfnFileSystem(
            self,
            "Resource",
            bucket=facts.bucket.bucket_arn,
            prefix=prefix or None,
            role_arn=self.role.role_arn,
            kms_key_id=encryption_key.key_arn if encryption_key is not None else None,
            accept_bucket_warning=accept_bucket_warning if accept_bucket_warning is not False else None,
            synchronization_configuration=s3files.CfnFileSystem.SynchronizationConfigurationProperty(
                import_data_rules=[rule.as_property() for rule in rules],
                expiration_data_rules=[
                    s3files.CfnFileSystem.ExpirationDataRuleProperty(
                        days_after_last_access=DEFAULT_EXPIRE_DAYS if expire_after is None else expire_after.to_days()
                    )
                ],
            ),
        )
        # The bucket's own policy is what no reference leads to; one that is added to a bucket later comes with it.
        for earlier in (policy, facts.bucket.policy or facts.bucket):
            if earlier is not None:
                self.resource.node.add_dependency(earlier)
        self.mount_target: Final = s3files.CfnMountTarget(
            self,
            "MountTarget",
            file_system_id=self.resource.attr_file_system_id,
            subnet_id=subnet.subnet_id,
            security_groups=[group.security_group_id for group in (self.security_group, *additional_security_groups)],
        )
        if policy is not None:
            policy.apply_removal_policy(keeps)
        for each in (self.resource, self.mount_target):
            each.apply_removal_policy(keeps)
        keep_on_replacement(self.resource)

    @staticmethod
    def from_attributes(
        scope: Construct,
        construct_id: str,
        *,
        file_system_id: str,
        security_group: ec2.ISecurityGroup,
        bucket: DataLake | s3.IBucket | None = None,
        prefix: str = "",
        manage_security_group_rules: bool = True,
    ) -> ImportedS3FileSystem:
        """Return a file system that exists already; see ``ImportedS3FileSystem``.

        Args:
            scope: Parent.
            construct_id: Id in the parent.
            file_system_id: Id such as ``fs-0123456789abcdef0``.
            security_group: A security group of its mount target in the zone of the clients.
            bucket: Its bucket, for the rights to read past the file system. Left out, such rights are not given.
            prefix: Its prefix, ending in a slash. Left out, the whole bucket.
            manage_security_group_rules: Whether rules are added to the group. Left out, they are.

        Returns:
            The file system.

        Raises:
            ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.
        """
        from training_storage.tiers.imported_s3_files import ImportedS3FileSystem

        return ImportedS3FileSystem(
            scope,
            construct_id,
            file_system_id=file_system_id,
            security_group=security_group,
            bucket=bucket,
            prefix=prefix,
            manage_security_group_rules=manage_security_group_rules,
        )

    # -- around the file system

    def _make_group(self, vpc: ec2.IVpc) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, "SecurityGroup", vpc=vpc, description="S3 Files mount target", allow_all_outbound=False
        )
        group.apply_removal_policy(self._removal_policy)
        return group

    def _make_role(self) -> iam.Role:
        role = iam.Role(
            self,
            "ServiceRole",
            assumed_by=_s3_files_role.service_principal(self),
            description="S3 Files reads and writes the bucket by it",
        )
        role.apply_removal_policy(self._removal_policy)
        return role

    # -- what users take from it

    @property
    def file_system_id(self) -> str:
        """Id such as ``fs-0123456789abcdef0``, which is what clients mount."""
        return self.resource.attr_file_system_id

    @property
    def file_system_arn(self) -> str:
        """ARN of the file system."""
        return self.resource.attr_file_system_arn

    def _before_clients(self) -> tuple[cdk.CfnResource, ...]:
        return (self.mount_target,)

    def add_to_resource_policy(self, statement: iam.PolicyStatement) -> iam.AddToResourcePolicyResult:
        """Add a statement to the policy of the file system, which is made with the first one.

        Roles of the account need none: what their own policies allow is enough.

        Args:
            statement: The statement.

        Returns:
            That it was added.
        """
        if self._policy_document is None:
            self._policy_document = iam.PolicyDocument()
            policy = s3files.CfnFileSystemPolicy(
                self, "Policy", file_system_id=self.file_system_id, policy=self._policy_document
            )
            policy.apply_removal_policy(self._removal_policy)
        self._policy_document.add_statements(statement)
        return iam.AddToResourcePolicyResult(statement_added=True, policy_dependable=self.node.find_child("Policy"))
