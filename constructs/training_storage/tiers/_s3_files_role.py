"""The role by which S3 Files reads and writes the bucket: who may take it on, and what it may do."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import _nag
from training_storage.tiers import _iam, _warnings

SERVICE: Final = "elasticfilesystem.amazonaws.com"
"""S3 Files stands on Amazon EFS and takes the role on under its name."""

BUCKET_ACTIONS: Final = ("s3:ListBucket", "s3:ListBucketVersions")

OBJECT_ACTIONS: Final = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:DeleteObjectAnnotation",
    "s3:DeleteObjectTagging",
    "s3:DeleteObjectVersion",
    "s3:DeleteObjectVersionAnnotation",
    "s3:DeleteObjectVersionTagging",
    "s3:GetObject",
    "s3:GetObjectAcl",
    "s3:GetObjectAnnotation",
    "s3:GetObjectAttributes",
    "s3:GetObjectLegalHold",
    "s3:GetObjectRetention",
    "s3:GetObjectTagging",
    "s3:GetObjectTorrent",
    "s3:GetObjectVersion",
    "s3:GetObjectVersionAcl",
    "s3:GetObjectVersionAnnotation",
    "s3:GetObjectVersionAnnotationForReplication",
    "s3:GetObjectVersionAttributes",
    "s3:GetObjectVersionForReplication",
    "s3:GetObjectVersionTagging",
    "s3:GetObjectVersionTorrent",
    "s3:ListMultipartUploadParts",
    "s3:ListObjectAnnotations",
    "s3:ListObjectVersionAnnotations",
    "s3:PutObject",
    "s3:PutObjectAcl",
    "s3:PutObjectAnnotation",
    "s3:PutObjectLegalHold",
    "s3:PutObjectRetention",
    "s3:PutObjectTagging",
    "s3:PutObjectVersionAcl",
    "s3:PutObjectVersionAnnotation",
    "s3:PutObjectVersionTagging",
)
"""What the User Guide writes as AbortMultipartUpload, DeleteObject*, GetObject*, List* and PutObject* (Amazon S3 User
Guide, prerequisites for S3 Files), with the names that the Service Authorization Reference has for objects. AWS does
not say which of them the service does without, and a role that lacked one could not be mended: the file system would
have to be made again."""

KEY_ACTIONS: Final = ("kms:Decrypt", "kms:Encrypt", "kms:GenerateDataKey", "kms:ReEncryptFrom", "kms:ReEncryptTo")

EVENT_WRITE_ACTIONS: Final = (
    "events:DeleteRule",
    "events:DisableRule",
    "events:EnableRule",
    "events:PutRule",
    "events:PutTargets",
    "events:RemoveTargets",
)
EVENT_READ_ACTIONS: Final = (
    "events:DescribeRule",
    "events:ListRuleNamesByTarget",
    "events:ListRules",
    "events:ListTargetsByRule",
)
_RULE_NAMES: Final = "DO-NOT-DELETE-S3-Files*"


def service_principal(scope: Construct) -> iam.IPrincipal:
    """Return who may take the role on: the service, for file systems of this account and region."""
    stack = cdk.Stack.of(scope)
    return iam.ServicePrincipal(
        SERVICE,
        conditions={
            "StringEquals": {"aws:SourceAccount": stack.account},
            "ArnLike": {"aws:SourceArn": _arn(stack, "s3files", "file-system", "*")},
        },
    )


def service_statements(
    scope: Construct, bucket: s3.IBucket, key: kms.IKey | None, prefix: str
) -> list[iam.PolicyStatement]:
    """Return what the service may do.

    Objects are those under the prefix. Listing is not: the service lists the bucket before it knows of a prefix.

    Args:
        scope: Where the file system is.
        bucket: Its bucket.
        key: Key of the bucket, if it has one.
        prefix: Prefix of the file system; empty for the whole bucket.
    """
    stack = cdk.Stack.of(scope)
    ours = {"StringEquals": {"aws:ResourceAccount": stack.account}}
    statements = [
        iam.PolicyStatement(
            sid="Bucket", actions=list(BUCKET_ACTIONS), resources=[bucket.bucket_arn], conditions=dict(ours)
        ),
        iam.PolicyStatement(
            sid="Objects",
            actions=list(OBJECT_ACTIONS),
            resources=[bucket.arn_for_objects(_iam.keys_below(prefix))],
            conditions=dict(ours),
        ),
        iam.PolicyStatement(
            sid="EventRules",
            actions=list(EVENT_WRITE_ACTIONS),
            resources=[_arn(stack, "events", "rule", _RULE_NAMES)],
            conditions={"StringEquals": {"events:ManagedBy": SERVICE}},
        ),
        iam.PolicyStatement(
            sid="EventRulesRead", actions=list(EVENT_READ_ACTIONS), resources=[_arn(stack, "events", "rule", "*")]
        ),
    ]
    if key is not None:
        statements.append(key_statement(scope, bucket, key.key_arn, prefix))
    return statements


def key_statement(scope: Construct, bucket: s3.IBucket, key_arn: str, prefix: str) -> iam.PolicyStatement:
    """Return the use of the bucket's key, by way of S3 and for the objects of the file system alone.

    The encryption context is the bucket with Bucket Keys and the object without.

    Args:
        scope: Where the file system is.
        bucket: Its bucket.
        key_arn: The key; ``*`` in the policy of the key itself.
        prefix: Prefix of the file system.
    """
    stack = cdk.Stack.of(scope)
    return iam.PolicyStatement(
        sid="S3FilesBucketKey",
        actions=list(KEY_ACTIONS),
        resources=[key_arn],
        conditions={
            "StringEquals": {"kms:ViaService": f"s3.{stack.region}.{stack.url_suffix}"},
            "StringLike": {
                "kms:EncryptionContext:aws:s3:arn": [bucket.bucket_arn, bucket.arn_for_objects(_iam.keys_below(prefix))]
            },
        },
    )


def attach_to(
    scope: Construct, role: iam.IRole, bucket: s3.IBucket, key: kms.IKey | None, prefix: str
) -> iam.Policy | None:
    """Give a role what the service needs, as a policy that the file system can wait for.

    Args:
        scope: The file system.
        role: Our role, or one that was given.
        bucket: Bucket of the file system.
        key: Key of the bucket, if it has one.
        prefix: Prefix of the file system.

    Returns:
        The policy; None where the role takes none, which a warning says with what it must have.
    """
    statements = service_statements(scope, bucket, key, prefix)
    policy = iam.Policy(scope, "ServicePolicy", statements=statements)
    # Through the role, and not by its name: a role that was imported as not to be changed stays as it is.
    role.attach_inline_policy(policy)
    stack, resource = cdk.Stack.of(scope), policy.node.default_child
    if isinstance(resource, iam.CfnPolicy) and not stack.resolve(resource.roles):
        trust = iam.PolicyStatement(actions=["sts:AssumeRole"], principals=[service_principal(scope)])
        _warnings.warn(
            scope,
            _warnings.S3_FILES_ROLE,
            f"the given role takes no policies, so its owner must let the service take it on: "
            f"{_iam.as_json(scope, trust)}, and grant it, before the file system is made: "
            + ", ".join(_iam.as_json(scope, statement) for statement in statements),
        )
        return None
    for resource_arn, reason in (
        (bucket.arn_for_objects(_iam.keys_below(prefix)), "S3 Files serves every object under the prefix"),
        (_arn(stack, "events", "rule", _RULE_NAMES), "S3 Files makes these rules itself; their names begin so"),
        (_arn(stack, "events", "rule", "*"), "S3 Files looks for its own rules among those of the account"),
    ):
        _nag.acknowledge(policy, _nag.wildcard(stack, resource_arn), reason)
    return policy


def say_what_the_key_needs(scope: Construct, role: iam.IRole, bucket: s3.IBucket, key: kms.IKey, prefix: str) -> None:
    """Warn of what the policy of a key must allow that is not of this app.

    A key of the app lets the policies of its account decide; what another one's policy says is not known.
    """
    if isinstance(key.node.default_child, kms.CfnKey):
        return
    statement = key_statement(scope, bucket, "*", prefix)
    statement.add_arn_principal(role.role_arn)
    _warnings.warn(
        scope,
        _warnings.S3_FILES_KEY,
        "S3 Files reads and writes the bucket once the policy of its key allows it. Where that policy does not leave "
        f"it to the policies of the account, the key's owner adds: {_iam.as_json(scope, statement)}",
    )


def _arn(stack: cdk.Stack, service: str, resource: str, name: str) -> str:
    return stack.format_arn(service=service, resource=resource, resource_name=name)
