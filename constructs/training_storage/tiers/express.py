"""The hot tier of object code: a directory bucket in the zone of the GPUs (S3 Express One Zone)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3express as s3express
from constructs import Construct

from training_storage._arguments import misfits_among
from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import Problem, ValidationError
from training_storage.node.metrics.services import WHOLE_BUCKET_FILTER
from training_storage.rules.base import find_problems
from training_storage.rules.express import DIRECTORY_BUCKET_RULES, DirectoryBucketSettings, directory_bucket_suffix
from training_storage.tiers._directory_bucket import SESSION_ACTIONS, DirectoryBucketBase
from training_storage.tiers._express_arguments import DIRECTORY_BUCKET_KINDS, key_facts, known_switches, region_of
from training_storage.tiers._names import unique_name
from training_storage.tiers._removal import keep_on_replacement, require_keep_or_delete
from training_storage.tiers._tokens import concrete, days, is_concrete
from training_storage.tiers.imported_directory_bucket import ImportedDirectoryBucket

DEFAULT_ABORT_DAYS: Final = 7
"""Age at which incomplete uploads go where none is given: what they hold is billed and keeps a bucket from going."""

_LONGEST_KNOWN_SUFFIX: Final = "--apne1-az10--x-s3"
_MINIMUM_TLS_VERSION: Final = 1.2


class DirectoryBucket(DirectoryBucketBase):
    """A directory bucket: objects of one zone, read and written in single-digit milliseconds.

    Its name is ``BASE--ZONE--x-s3``. It is private and serves HTTPS only, and there is no way to change that; its
    policy refuses TLS before 1.2. There are no versions, no object lock, no tags on objects and no events:
    what must last belongs to the data lake. A bucket without a request for 90 days falls asleep: it answers 503 until
    it wakes, minutes later.

    What is kept: with RETAIN the bucket and its policy stay, and cost, when the stack is deleted. With DESTROY they go,
    but S3 deletes no bucket that holds an object or an upload in progress: deleting the stack then fails and nothing is
    lost. ``content_is_cache`` says that the content may go too: a function then empties the bucket first. It does so
    only while the stack itself is deleted, or rolled back while it is being made; taking the bucket or the flag out of
    the stack deletes no object. Stop whoever writes before: an object that comes after the emptying keeps the bucket
    from going. By hand, ``aws s3 rm s3://NAME --recursive`` removes objects and ``aws s3api abort-multipart-upload`` an
    upload in progress; then delete the stack again. An update that would replace the bucket leaves the old one behind
    with all that is in it, whatever the policy.

    Changing ``availability_zone_id`` or ``base_name`` means another bucket. The key is one for life: S3 refuses
    another one, and so does an update of the stack; take another ``base_name`` for another key.

    Example::

        hot = DirectoryBucket(
            self, "Hot",
            availability_zone_id="use1-az6",
            base_name="llama3-70b",
            expire_after=cdk.Duration.days(3),
            expire_prefixes=["checkpoints/"],
        )
        hot.grant_read_write(role)

        theirs = DirectoryBucket.from_bucket_name(self, "Theirs", "shared--use1-az6--x-s3")
        theirs.grant_read(role)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        availability_zone_id: Zone ID such as ``use1-az6``: the zone of the GPUs, one that has S3 Express One Zone.
        base_name: Name without its suffix: lower-case letters, digits and hyphens, 63 characters with the suffix. Left
            out, a name is made of the stack's id; stacks of another account or region cannot refer to such a name.
        encryption_key: Customer managed key, not an alias of one, for the life of the bucket. Whoever deploys needs
            ``kms:GenerateDataKey`` and ``kms:Decrypt`` on it. Left out, S3 encrypts with a key of its own (SSE-S3).
        expire_after: Age, counted from writing, at which objects go, whole days. Left out, they stay.
        expire_prefixes: Prefixes such as ``checkpoints/`` that this age is for; data sets beside them stay. Left out,
            it is for every object.
        abort_incomplete_multipart_upload_after: Age at which incomplete uploads are aborted, whole days. Left out, 7.
        removal_policy: RETAIN or DESTROY, see above. Left out, RETAIN.
        content_is_cache: Whether the content may be deleted with the bucket, DESTROY only. Left out, it may not.
        request_metrics: Whether S3 counts the requests of the bucket each minute, which CloudWatch charges for as
            custom metrics. Left out, it does not.
        catalog: Facts that the arguments are held against: zones with S3 Express, and names. Left out, those of the
            package.

    Raises:
        ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.

    Attributes:
        resource: The ``AWS::S3Express::DirectoryBucket`` itself.
        policy: Its policy: the lifecycle service may open sessions, which it needs to remove anything.
        encryption_key: As given; None where S3 holds the key.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        availability_zone_id: str,
        base_name: str | None = None,
        encryption_key: kms.IKey | None = None,
        expire_after: cdk.Duration | None = None,
        expire_prefixes: Sequence[str] = (),
        abort_incomplete_multipart_upload_after: cdk.Duration | None = None,
        removal_policy: cdk.RemovalPolicy | None = None,
        content_is_cache: bool = False,
        request_metrics: bool = False,
        catalog: Catalog | None = None,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits_among(DIRECTORY_BUCKET_KINDS, locals()):
            raise ValidationError(wrong, where=where)
        problems: list[Problem] = []
        key, alias = key_facts(encryption_key)
        abort_after = abort_incomplete_multipart_upload_after
        settings = DirectoryBucketSettings(
            catalog=catalog,
            region=region_of(scope),
            availability_zone_id=concrete(availability_zone_id),
            base_name=concrete(base_name),
            encryption_key=key,
            encryption_key_is_alias=alias,
            expire_after_days=days(expire_after, "expire_after", problems),
            expire_prefixes=tuple(concrete(prefix) for prefix in expire_prefixes),
            expires=expire_after is not None,
            abort_incomplete_multipart_upload_after_days=days(
                abort_after, "abort_incomplete_multipart_upload_after", problems
            ),
            content_is_cache=content_is_cache is True,
            deleted_with_stack=removal_policy is cdk.RemovalPolicy.DESTROY,
        )
        problems += [
            *find_problems(DIRECTORY_BUCKET_RULES, settings),
            *known_switches(content_is_cache=content_is_cache, request_metrics=request_metrics),
            *require_keep_or_delete(removal_policy),
        ]
        if problems:
            raise ValidationError(problems, where=where)
        if base_name is not None:
            suffix = directory_bucket_suffix(availability_zone_id, catalog or default_catalog())
            super().__init__(scope, construct_id, physical_name=f"{base_name}{suffix}")
        else:
            super().__init__(scope, construct_id)

        removal_policy = removal_policy or cdk.RemovalPolicy.RETAIN
        self._zone: Final = availability_zone_id
        self.encryption_key = encryption_key
        self.resource: Final = s3express.CfnDirectoryBucket(
            self,
            "Resource",
            bucket_name=self._name(base_name, availability_zone_id, catalog or default_catalog()),
            location_name=availability_zone_id,
            data_redundancy=_redundancy(settings.availability_zone_id),
            bucket_encryption=_encryption(encryption_key),
            lifecycle_configuration=_lifecycle(
                expire_after, expire_prefixes, abort_after or cdk.Duration.days(DEFAULT_ABORT_DAYS)
            ),
            metrics_configurations=[s3express.CfnDirectoryBucket.MetricsConfigurationProperty(id=WHOLE_BUCKET_FILTER)]
            if request_metrics
            else None,
        )
        self.resource.apply_removal_policy(removal_policy)
        keep_on_replacement(self.resource)
        self._policy_document = iam.PolicyDocument()
        self.policy: Final = s3express.CfnBucketPolicy(
            self, "Policy", bucket=self.resource.ref, policy_document=self._policy_document
        )
        self.policy.apply_removal_policy(removal_policy)  # a bucket that stays keeps its lifecycle
        keep_on_replacement(self.policy)
        self._policy_document.add_statements(*self._statements())
        if content_is_cache:
            # Only this needs Lambda, whose module takes a tenth of a second to load.
            from training_storage.tiers._express_emptying import Emptying

            Emptying(self, "Emptying", bucket=self)

    @classmethod
    def from_bucket_name(
        cls,
        scope: Construct,
        construct_id: str,
        bucket_name: str,
        *,
        encryption_key: kms.IKey | None = None,
        account: str | None = None,
    ) -> ImportedDirectoryBucket:
        """Take a directory bucket that exists already, as it is.

        Rights that only its owner or its key's owner can give are printed in warnings.

        Args:
            scope: Parent.
            construct_id: Id in the parent.
            bucket_name: Whole name such as ``shared--use1-az6--x-s3``, of a zone of the stack's region.
            encryption_key: Key that it is encrypted with, so that grants reach it. Left out, grants are on the bucket
                alone, which is right for a bucket whose key S3 holds.
            account: Account that owns it. Left out, that of the stack.

        Returns:
            The bucket, with the same names, addresses and grants as one that is made here.

        Raises:
            ValidationError: The name or the key breaks a rule.
        """
        return ImportedDirectoryBucket(
            scope, construct_id, bucket_name=bucket_name, encryption_key=encryption_key, account=account
        )

    @property
    def bucket_name(self) -> str:
        """Whole name, suffix included."""
        return self._get_resource_name_attribute(self.resource.ref)

    @property
    def availability_zone_id(self) -> str:
        """Zone ID, as given."""
        return self._zone

    def add_to_resource_policy(self, statement: iam.PolicyStatement) -> iam.AddToResourcePolicyResult:
        """Add a statement to the policy of the bucket.

        Args:
            statement: The statement; its actions are those of ``s3express``.

        Returns:
            That it was added.
        """
        self._policy_document.add_statements(statement)
        return iam.AddToResourcePolicyResult(statement_added=True, policy_dependable=self.policy)

    def _name(self, base_name: str | None, zone: str, catalog: Catalog) -> str:
        suffix = directory_bucket_suffix(zone, catalog)
        if base_name is not None:
            return f"{base_name}{suffix}"
        known = suffix if is_concrete(zone) else _LONGEST_KNOWN_SUFFIX
        longest = catalog.object_storage.directory_bucket_name_max_length
        return f"{unique_name(self, length=longest - len(known))}{suffix}"

    def _statements(self) -> tuple[iam.PolicyStatement, ...]:
        """Return the lifecycle service's right, without which its rules silently do nothing, and the TLS version.

        S3 Express has no plain HTTP, so ``aws:SecureTransport`` would refuse nothing; the version can still be old.
        """
        return (
            iam.PolicyStatement(
                sid="Lifecycle",
                principals=[iam.ServicePrincipal("lifecycle.s3.amazonaws.com")],
                actions=list(SESSION_ACTIONS),
                resources=[self.bucket_arn],
                conditions={
                    "StringEquals": {
                        "s3express:SessionMode": "ReadWrite",
                        "aws:SourceAccount": cdk.Stack.of(self).account,
                    }
                },
            ),
            iam.PolicyStatement(
                sid="TlsVersion",
                effect=iam.Effect.DENY,
                principals=[iam.AnyPrincipal()],
                actions=list(SESSION_ACTIONS),
                resources=[self.bucket_arn],
                conditions={"NumericLessThan": {"s3express:TlsVersion": _MINIMUM_TLS_VERSION}},
            ),
        )


def _redundancy(zone: str | None) -> str:
    """Return the redundancy of a zone: IDs of Local Zones have three parts."""
    return "SingleLocalZone" if zone is not None and zone.count("-") > 1 else "SingleAvailabilityZone"


def _encryption(key: kms.IKey | None) -> s3express.CfnDirectoryBucket.BucketEncryptionProperty:
    default = s3express.CfnDirectoryBucket.ServerSideEncryptionByDefaultProperty(
        sse_algorithm="AES256" if key is None else "aws:kms",
        kms_master_key_id=None if key is None else key.key_arn,
    )
    rule = s3express.CfnDirectoryBucket.ServerSideEncryptionRuleProperty(
        server_side_encryption_by_default=default, bucket_key_enabled=None if key is None else True
    )
    return s3express.CfnDirectoryBucket.BucketEncryptionProperty(server_side_encryption_configuration=[rule])


def _lifecycle(
    expire_after: cdk.Duration | None, expire_prefixes: Sequence[str], abort_after: cdk.Duration
) -> s3express.CfnDirectoryBucket.LifecycleConfigurationProperty:
    rules = [
        s3express.CfnDirectoryBucket.RuleProperty(
            id="incomplete-uploads",
            status="Enabled",
            abort_incomplete_multipart_upload=s3express.CfnDirectoryBucket.AbortIncompleteMultipartUploadProperty(
                days_after_initiation=abort_after.to_days()
            ),
        )
    ]
    if expire_after is not None:
        rules += [
            s3express.CfnDirectoryBucket.RuleProperty(
                id=f"expiry{number if number > 1 else ''}",
                status="Enabled",
                prefix=prefix,
                expiration_in_days=expire_after.to_days(),
            )
            for number, prefix in enumerate(expire_prefixes or [None], start=1)
        ]
    return s3express.CfnDirectoryBucket.LifecycleConfigurationProperty(rules=rules)
