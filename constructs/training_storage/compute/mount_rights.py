"""What nodes may do with what they mount: exact actions on exact buckets and file systems."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from training_storage.compute.mount_model import (
    BucketAccess,
    DirectoryBucketTarget,
    Lake,
    Mount,
    MountpointMount,
    S3FilesMount,
    bucket_of,
    directory_bucket_of,
    is_directory_bucket,
)
from training_storage.tiers._iam import keys_below


def grant_mount(stack: cdk.Stack, grantee: iam.IGrantable, mount: Mount) -> None:
    """Grant what a mount needs; Lustre needs the network alone.

    Args:
        stack: Stack of the mounts.
        grantee: Role of the nodes, or what carries one.
        mount: The mount.
    """
    if isinstance(mount, S3FilesMount):
        target = mount.file_system
        grant = target.grant_read if mount.read_only else target.grant_read_write
        (target.grant_root if mount.root_access else grant)(grantee, direct_read=mount.direct_read)
    if isinstance(mount, MountpointMount):
        access = BucketAccess(bucket=mount.bucket, prefix=mount.prefix, write=not mount.read_only, key=mount.key)
        grant_access(stack, grantee, access, delete=mount.allow_delete, region=mount.region)
        if mount.cache_bucket is not None:
            mount.cache_bucket.grant_read_write(grantee)
        if mount.sse_kms_key is not None:
            # Decrypt besides: the last step of a multipart upload reads the parts.
            mount.sse_kms_key.grant(grantee, "kms:Decrypt", "kms:GenerateDataKey")


def grant_access(
    stack: cdk.Stack,
    grantee: iam.IGrantable,
    access: BucketAccess,
    *,
    delete: bool = False,
    region: str | None = None,
) -> None:
    """Grant what reading or writing a bucket needs (Mountpoint's CONFIGURATION page), through the lake where it is one.

    Args:
        stack: Stack of the mounts.
        grantee: Role of the nodes, or what carries one.
        access: Bucket, prefix, and whether it is written.
        delete: Whether objects may be deleted.
        region: Region of the bucket, where one was given.
    """
    source = access.bucket
    target, bucket = directory_bucket_of(source), bucket_of(source)
    if target is not None:
        _grant_sessions(grantee, target, access)
    elif bucket is not None and is_directory_bucket(source):
        _grant_named_sessions(stack, grantee, bucket, access, region)
    elif isinstance(source, Lake):
        prefix = access.prefix or None
        (source.grant_read_write if access.write else source.grant_read)(grantee, prefix=prefix)
        if delete:
            source.grant_delete(grantee, prefix=prefix)
    elif bucket is not None:
        _grant_bucket(grantee, bucket, access, delete=delete)


def _grant_sessions(grantee: iam.IGrantable, target: DirectoryBucketTarget, access: BucketAccess) -> None:
    # grant_read puts no condition on the mode of the session: Mountpoint asks for one that writes even with
    # --read-only, and would be refused.
    (target.grant_read_write if access.write else target.grant_read)(grantee)
    _grant_key(grantee, access.key, write=True)


def _grant_named_sessions(
    stack: cdk.Stack, grantee: iam.IGrantable, bucket: s3.IBucket, access: BucketAccess, region: str | None
) -> None:
    """Grant sessions on a directory bucket that came as a bucket of the CDK, whose ARN there is another service's."""
    arn = stack.format_arn(
        service="s3express",
        region=region or bucket.env.region,
        account=bucket.env.account,
        resource="bucket",
        resource_name=bucket.bucket_name,
    )
    iam.Grant.add_to_principal(grantee=grantee, actions=["s3express:CreateSession"], resource_arns=[arn])
    # A session on an encrypted bucket is opened with both rights on its key, by readers too.
    _grant_key(grantee, access.key or bucket.encryption_key, write=True)


def _grant_bucket(grantee: iam.IGrantable, bucket: s3.IBucket, access: BucketAccess, *, delete: bool) -> None:
    prefix = access.prefix
    iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["s3:ListBucket"],
        resource_arns=[bucket.bucket_arn],
        conditions={"StringLike": {"s3:prefix": [keys_below(prefix)]}} if prefix else None,
    )
    actions = ["s3:GetObject"]
    if access.write:
        actions += ["s3:AbortMultipartUpload", "s3:PutObject"]
    if delete:
        actions.append("s3:DeleteObject")
    iam.Grant.add_to_principal(
        grantee=grantee, actions=sorted(actions), resource_arns=[bucket.arn_for_objects(keys_below(prefix))]
    )
    _grant_key(grantee, access.key or bucket.encryption_key, write=access.write)


def _grant_key(grantee: iam.IGrantable, key: kms.IKey | None, *, write: bool) -> None:
    if key is not None:
        key.grant(grantee, "kms:Decrypt", *(["kms:GenerateDataKey"] if write else []))
