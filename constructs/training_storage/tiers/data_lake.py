"""The durable base: one general purpose bucket for raw data, data sets, checkpoints, models, logs and evaluations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import _nag
from training_storage._arguments import (
    DURATION,
    FLAG,
    GENERAL_PURPOSE_BUCKET,
    GRANTEE,
    KEY,
    REMOVAL,
    TEXT,
    misfits,
    optional,
)
from training_storage.errors import Problem, ValidationError
from training_storage.node import places
from training_storage.node.metrics.services import CHECKPOINTS_FILTER, DATASETS_FILTER
from training_storage.rules.base import find_problems, require
from training_storage.rules.data_lake import DATA_LAKE_RULES, LAKE_PREFIXES, DataLakeSettings
from training_storage.rules.links import LINK_RULES, LinkSettings, normalized_prefix
from training_storage.tiers import _iam, _kms, _warnings
from training_storage.tiers._express_arguments import known_switches
from training_storage.tiers._names import unique_name
from training_storage.tiers._removal import keep_on_replacement, require_keep_or_delete
from training_storage.tiers._tokens import concrete, days

_INFREQUENT_ACCESS_DAYS: Final = 30
DEFAULT_DAYS: Final = {
    "checkpoints_to_infrequent_access_after": _INFREQUENT_ACCESS_DAYS,
    "noncurrent_versions_expire_after": 30,
    "logs_expire_after": 180,
    "abort_incomplete_multipart_upload_after": 7,
}
"""Lifecycle ages of a new lake where none is given, in days."""

_LONGEST_BUCKET_NAME: Final = 63

REQUEST_METRICS: Final[Mapping[str, str]] = {DATASETS_FILTER: "datasets/", CHECKPOINTS_FILTER: "checkpoints/"}
"""Prefix by id of the filter that its requests are counted under."""

PASSING: Final = {
    "node-answers": places.ANSWERS,
    "finished-removals": places.PRUNING,
    "finished-orders": places.ORDERS,
    "preload-lists": places.LISTS,
}
"""Notes of ours that nobody needs once they are done, by id of their rule. No node may delete in the lake.

Never records, ledgers, status, manifests or proofs: they say what is saved.
"""

PASSING_DAYS: Final = 30
"""Age at which they go: the longest command runs for two days, and Systems Manager forgets it after 30."""


class DataLake(Construct):
    """The data lake: a new bucket with the settings that training needs, or a bucket that exists already.

    A new bucket blocks public access, takes TLS only, is encrypted, versioned and kept when its stack is deleted. It
    sends its events to EventBridge from the first deploy on, moves checkpoints to S3 Standard-IA, and removes old logs,
    noncurrent versions, incomplete uploads and, after 30 days, answers of nodes. Nothing goes to an archive class: FSx,
    Mountpoint and S3 Files could not read it.

    EventBridge is switched on in the bucket's own properties. CDK's ``event_bridge_enabled`` would do it by a custom
    resource that replaces all notifications of the bucket, also the one by which FSx imports: never use
    ``add_event_notification`` on a bucket that a file system is linked to.

    A bucket that exists already is taken as it is; rights that only its owner or its key's owner can give are printed
    in warnings.

    Example::

        lake = DataLake(self, "Lake")
        lake.grant_read(role, prefix="datasets/")
        lake.grant_read_write(role, prefix="checkpoints/")

        existing = DataLake(self, "Existing", bucket=s3.Bucket.from_bucket_name(self, "Theirs", "their-bucket"))

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        bucket: A bucket that exists already. Left out, a bucket is made. Goes with ``encryption_key`` only.
        bucket_name: Name of the new bucket, no dots. Left out, a name is made of the stack's name and id.
        encryption: ``s3`` or ``kms``. Left out, or a token, ``kms`` with Bucket Keys. A later change counts for new
            objects only: older ones stay under the old key, which is kept, and grants no longer reach it.
        encryption_key: Key of the bucket. Left out with ``kms``, a key of its own with yearly rotation is made, whose
            policy lets FSx use it for linked file systems. For an existing bucket: the key it is encrypted with, so
            that grants reach it; left out, the key that the bucket object knows.
        versioned: Whether the new bucket keeps old versions. Left out, it does. S3 Files needs it.
        removal_policy: RETAIN or DESTROY of the new bucket and its key. Left out, RETAIN: both stay, and cost, when the
            stack is deleted. DESTROY does not empty the bucket: deleting the stack fails while anything is in it.
        checkpoints_to_infrequent_access_after: Age at which objects under ``checkpoints/`` go to S3 Standard-IA, whole
            days, 30 or more. Left out, 30 days.
        checkpoints_expire_after: Age at which objects under ``checkpoints/`` go, no less than the age before. Left out,
            they never do.
        noncurrent_versions_expire_after: Age at which noncurrent versions go. Left out, 30 days.
        logs_expire_after: Age at which objects under ``logs/`` go. Left out, 180 days.
        abort_incomplete_multipart_upload_after: Age at which incomplete uploads are aborted. Left out, 7 days.
        request_metrics: Whether S3 counts the requests under ``datasets/`` and ``checkpoints/`` each minute, which
            CloudWatch charges for as custom metrics. Left out, it does not.

    Raises:
        ValidationError: An argument breaks a rule; all problems at once, and nothing is added to the tree.

    Attributes:
        bucket: The bucket.
        encryption_key: Its key; None with ``s3`` and where the key of an existing bucket is not known.
        versioned: Whether it keeps old versions; None for a bucket that exists already, whose owner decides that.
    """

    PREFIXES: Final = tuple(LAKE_PREFIXES)
    """Top-level prefixes: ``raw/``, ``datasets/``, ``checkpoints/``, ``models/``, ``logs/``, ``evaluations/``, ours."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bucket: s3.IBucket | None = None,
        bucket_name: str | None = None,
        encryption: Literal["s3", "kms"] | None = None,
        encryption_key: kms.IKey | None = None,
        versioned: bool | None = None,
        removal_policy: cdk.RemovalPolicy | None = None,
        checkpoints_to_infrequent_access_after: cdk.Duration | None = None,
        checkpoints_expire_after: cdk.Duration | None = None,
        noncurrent_versions_expire_after: cdk.Duration | None = None,
        logs_expire_after: cdk.Duration | None = None,
        abort_incomplete_multipart_upload_after: cdk.Duration | None = None,
        request_metrics: bool = False,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits(
            {
                "bucket": (bucket, optional(GENERAL_PURPOSE_BUCKET)),
                "bucket_name": (bucket_name, optional(TEXT)),
                "encryption": (encryption, optional(TEXT)),
                "encryption_key": (encryption_key, optional(KEY)),
                "versioned": (versioned, optional(FLAG)),
                "removal_policy": (removal_policy, optional(REMOVAL)),
                "checkpoints_to_infrequent_access_after": (checkpoints_to_infrequent_access_after, optional(DURATION)),
                "checkpoints_expire_after": (checkpoints_expire_after, optional(DURATION)),
                "noncurrent_versions_expire_after": (noncurrent_versions_expire_after, optional(DURATION)),
                "logs_expire_after": (logs_expire_after, optional(DURATION)),
                "abort_incomplete_multipart_upload_after": (
                    abort_incomplete_multipart_upload_after,
                    optional(DURATION),
                ),
                "request_metrics": (request_metrics, FLAG),
            }
        ):
            raise ValidationError(wrong, where=where)
        ages = {
            "checkpoints_to_infrequent_access_after": checkpoints_to_infrequent_access_after,
            "checkpoints_expire_after": checkpoints_expire_after,
            "noncurrent_versions_expire_after": noncurrent_versions_expire_after,
            "logs_expire_after": logs_expire_after,
            "abort_incomplete_multipart_upload_after": abort_incomplete_multipart_upload_after,
        }
        deletes = None if removal_policy is cdk.RemovalPolicy.RETAIN else removal_policy
        shaping: dict[str, object] = {
            "bucket_name": bucket_name,
            "encryption": encryption,
            "versioned": versioned,
            "removal_policy": deletes,
            "request_metrics": request_metrics or None,
            **ages,
        }
        problems: list[Problem] = []
        ages_days = {f"{name}_days": days(age, name, problems) for name, age in ages.items()}
        if bucket is None and checkpoints_to_infrequent_access_after is None:
            ages_days["checkpoints_to_infrequent_access_after_days"] = _INFREQUENT_ACCESS_DAYS
        settings = DataLakeSettings(
            existing=bucket is not None,
            bucket_name=concrete(bucket_name),
            encryption=concrete(encryption) or ("kms" if bucket is None and encryption is None else None),
            encryption_key=encryption_key is not None,
            encryption_key_is_alias=_kms.given_by_alias(
                encryption_key or (None if bucket is None else bucket.encryption_key)
            ),
            new_bucket_options=tuple(name for name, value in shaping.items() if value is not None),
            **ages_days,
        )
        problems += [
            *find_problems(DATA_LAKE_RULES, settings),
            *known_switches(request_metrics=request_metrics),
            *require_keep_or_delete(removal_policy),
        ]
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)

        self.versioned: Final[bool | None] = None if bucket is not None else versioned is not False
        if bucket is None:
            lifetime = {name: cdk.Duration.days(number) for name, number in DEFAULT_DAYS.items()}
            lifetime |= {name: age for name, age in ages.items() if age is not None}
            self.bucket, self.encryption_key = self._make(
                name=bucket_name or unique_name(self, length=_LONGEST_BUCKET_NAME),
                encryption=concrete(encryption) or "kms",
                key=encryption_key,
                versioned=versioned is not False,
                removal_policy=removal_policy or cdk.RemovalPolicy.RETAIN,
                ages=lifetime,
                metrics=REQUEST_METRICS if request_metrics else {},
            )
            return
        self.bucket = bucket
        self.encryption_key = encryption_key or bucket.encryption_key
        if self.encryption_key is not None:
            self._let_fsx_use(self.encryption_key, bucket.bucket_arn, ours=False)

    def _make(
        self,
        *,
        name: str,
        encryption: str,
        key: kms.IKey | None,
        versioned: bool,
        removal_policy: cdk.RemovalPolicy,
        ages: dict[str, cdk.Duration],
        metrics: Mapping[str, str],
    ) -> tuple[s3.IBucket, kms.IKey | None]:
        # The key policy names the bucket by this text and not by reference: the bucket already refers to the key.
        bucket_arn = cdk.Stack.of(self).format_arn(
            service="s3", region="", account="", resource=name, arn_format=cdk.ArnFormat.NO_RESOURCE_NAME
        )
        if encryption == "kms" and key is None:
            key = kms.Key(
                self,
                "Key",
                description=f"Data lake {self.node.path}",
                enable_key_rotation=True,
                removal_policy=removal_policy,
            )
            keep_on_replacement(key)
            key.add_to_resource_policy(_kms.fsx_statement(self, bucket_arn))
        elif key is not None:
            self._let_fsx_use(key, bucket_arn, ours=key.stack == cdk.Stack.of(self))
        bucket = s3.Bucket(
            self,
            "Bucket",
            bucket_name=name,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=True,
            encryption=s3.BucketEncryption.S3_MANAGED if encryption == "s3" else s3.BucketEncryption.KMS,
            encryption_key=key,
            bucket_key_enabled=True if encryption == "kms" else None,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            versioned=versioned,
            removal_policy=removal_policy,
            lifecycle_rules=_lifecycle(ages),
            metrics=[s3.BucketMetrics(id=id_, prefix=prefix) for id_, prefix in metrics.items()] or None,
        )
        keep_on_replacement(bucket)
        _nag.acknowledge(
            bucket,
            "S1",
            "CloudTrail data events record who reads the lake where that is wanted; access logs need another bucket",
        )
        if bucket.policy is not None:
            bucket.policy.apply_removal_policy(removal_policy)  # a bucket that stays keeps its TLS rule
        resource = bucket.node.default_child
        if isinstance(resource, s3.CfnBucket):
            resource.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
                event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
            )
        return bucket, key

    def _let_fsx_use(self, key: kms.IKey, bucket_arn: str, *, ours: bool) -> None:
        """Add the FSx statement where the key's policy may name the bucket; otherwise print it for the key's owner.

        A key of another stack could not name a bucket of this one without both stacks waiting for each other.
        """
        statement = _kms.fsx_statement(self, bucket_arn)
        if ours and key.add_to_resource_policy(statement).statement_added:
            return
        _warnings.warn(
            self,
            _warnings.KEY_POLICY,
            "file systems can be linked to this bucket once the owner of its key has added to the key's policy: "
            + _iam.as_json(self, statement),
        )

    @property
    def bucket_name(self) -> str:
        """Name of the bucket."""
        return self.bucket.bucket_name

    @property
    def bucket_arn(self) -> str:
        """ARN of the bucket."""
        return self.bucket.bucket_arn

    def uri_for(self, prefix: str = "") -> str:
        """Return the ``s3://`` address of a prefix, with a trailing slash.

        Args:
            prefix: Key prefix. Left out, the whole bucket.
        """
        return f"s3://{self.bucket.bucket_name}/{_plain(prefix)}"

    def grant_read(self, grantee: iam.IGrantable, *, prefix: str | None = None) -> iam.Grant:
        """Let a principal list and read objects: ``s3:ListBucket``, ``s3:GetObject``, and ``kms:Decrypt`` on the key.

        Args:
            grantee: Who may read.
            prefix: Only under this prefix. Left out, the whole bucket.

        Returns:
            The grant; not successful where only the bucket's owner could give the right, which a warning then prints.
        """
        return self._grant(grantee, prefix, _iam.READ_ACTIONS, _iam.KEY_READ_ACTIONS)

    def grant_read_write(self, grantee: iam.IGrantable, *, prefix: str | None = None) -> iam.Grant:
        """Let a principal list, read and write objects; not delete them, see ``grant_delete``.

        ``grant_read`` and ``s3:PutObject``, ``s3:AbortMultipartUpload``, and ``kms:GenerateDataKey`` on the key.

        Args:
            grantee: Who may read and write.
            prefix: Only under this prefix. Left out, the whole bucket.

        Returns:
            The grant; not successful where only the bucket's owner could give the right, which a warning then prints.
        """
        return self._grant(grantee, prefix, _iam.READ_ACTIONS + _iam.WRITE_ACTIONS, _iam.KEY_WRITE_ACTIONS)

    def grant_delete(self, grantee: iam.IGrantable, *, prefix: str | None = None) -> iam.Grant:
        """Let a principal list and delete objects; with versioning a delete leaves the old version.

        Args:
            grantee: Who may delete.
            prefix: Only under this prefix. Left out, the whole bucket.

        Returns:
            The grant; not successful where only the bucket's owner could give the right, which a warning then prints.
        """
        return self._grant(grantee, prefix, _iam.DELETE_ACTIONS, ())

    def _grant(
        self, grantee: iam.IGrantable, prefix: str | None, objects: tuple[str, ...], key: tuple[str, ...]
    ) -> iam.Grant:
        if wrong := misfits({"grantee": (grantee, GRANTEE), "prefix": (prefix, optional(TEXT))}):
            raise ValidationError(wrong, where=self.node.path)
        require(LINK_RULES, (LinkSettings(prefix=concrete(prefix)),), where=self.node.path)
        return _iam.grant_bucket(
            self,
            self.bucket,
            self.encryption_key if key else None,
            grantee,
            prefix=_plain(prefix or ""),
            object_actions=objects,
            key_actions=key,
        )


def _plain(prefix: str) -> str:
    return normalized_prefix(prefix) if concrete(prefix) is not None else prefix


def _lifecycle(ages: dict[str, cdk.Duration]) -> list[s3.LifecycleRule]:
    """Return the lifecycle rules; that of noncurrent versions without versioning too, which may have been on before."""
    expiry = ages.get("checkpoints_expire_after")
    return [
        s3.LifecycleRule(
            id="incomplete-uploads",
            abort_incomplete_multipart_upload_after=ages["abort_incomplete_multipart_upload_after"],
        ),
        s3.LifecycleRule(
            id="checkpoints-to-infrequent-access",
            prefix="checkpoints/",
            transitions=[
                s3.Transition(
                    storage_class=s3.StorageClass.INFREQUENT_ACCESS,
                    transition_after=ages["checkpoints_to_infrequent_access_after"],
                )
            ],
        ),
        *([s3.LifecycleRule(id="checkpoints", prefix="checkpoints/", expiration=expiry)] if expiry else []),
        s3.LifecycleRule(id="logs", prefix="logs/", expiration=ages["logs_expire_after"]),
        *(
            s3.LifecycleRule(id=name, prefix=prefix, expiration=cdk.Duration.days(PASSING_DAYS))
            for name, prefix in PASSING.items()
        ),
        s3.LifecycleRule(
            id="noncurrent-versions",
            noncurrent_version_expiration=ages["noncurrent_versions_expire_after"],
            expired_object_delete_marker=True,
        ),
    ]
