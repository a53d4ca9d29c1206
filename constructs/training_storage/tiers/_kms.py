"""Keys: the statement that lets FSx read and write linked buckets that a key encrypts, and keys that are aliases."""

from __future__ import annotations

from aws_cdk import ArnFormat, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import IConstruct

from training_storage._arguments import has
from training_storage._tokens import literal_text

FSX_KEY_ACTIONS = ("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
"""As the FSx for Lustre User Guide lists them for server-side encrypted buckets."""

_ROLE = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*"


def fsx_statement(scope: IConstruct, bucket_arn: str) -> iam.PolicyStatement:
    """Return the statement for every file system of the account, those of later runs too.

    FSx makes one service-linked role for each linked file system, named after its id, when the link is made. A
    principal must exist when a policy names it, so the principal is any, held by conditions: the account, S3 of the
    region, the path and name pattern of those roles, and the bucket as encryption context. That way no reference runs
    from the lake to the file system of a run.

    Args:
        scope: Where the key is; its stack gives account, region and partition.
        bucket_arn: ARN of the bucket. The context is the bucket with Bucket Keys and the object without.
    """
    stack = Stack.of(scope)
    role = stack.format_arn(
        service="iam",
        region="",
        resource="role",
        resource_name=_ROLE,
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )
    return iam.PolicyStatement(
        sid="FsxLinkedFileSystems",
        principals=[iam.AnyPrincipal()],
        actions=list(FSX_KEY_ACTIONS),
        resources=["*"],
        conditions={
            "StringEquals": {
                "kms:CallerAccount": stack.account,
                "kms:ViaService": f"s3.{stack.region}.{stack.url_suffix}",
            },
            "StringLike": {"kms:EncryptionContext:aws:s3:arn": [bucket_arn, f"{bucket_arn}/*"]},
            "ArnLike": {"aws:PrincipalArn": role},
        },
    )


def given_by_alias(key: kms.IKey | None) -> bool | None:
    """Return whether a key is given by an alias, as far as its ARN is known; None without a key."""
    return None if key is None else has(key, "alias_name") or ":alias/" in literal_text(key.key_arn)
