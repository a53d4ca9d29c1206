"""Directory buckets and S3 Files of a plan."""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.parts.settings import REMOVAL, days_of, group_of, key_of
from training_storage.planner.model import Plan
from training_storage.tiers import (
    DataLake,
    DirectoryBucket,
    ImportedDirectoryBucket,
    ImportedS3FileSystem,
    S3FileSystem,
)

_UNIQUE_CHARACTERS: Final = 8


def make_directory_buckets(
    scope: Construct, construct_id: str, plan: Plan
) -> tuple[DirectoryBucket | ImportedDirectoryBucket, ...]:
    """Make the directory buckets of a plan, or take those that the workload names; none where the plan has none.

    Args:
        scope: Parent.
        construct_id: Id of the first in the parent; the others are ``<construct_id>2`` and so on.
        plan: The plan.
    """
    if plan.express is None:
        return ()
    settings, count = plan.workload.express, plan.express.bucket_count
    ids = [f"{construct_id}{number if number > 1 else ''}" for number in range(1, count + 1)]
    key = key_of(scope, f"{construct_id}Key", settings.kms_key_arn)
    if settings.bucket_names:
        return tuple(
            DirectoryBucket.from_bucket_name(scope, id_, name, encryption_key=key)
            for id_, name in zip(ids, settings.bucket_names, strict=True)
        )
    return tuple(
        DirectoryBucket(
            scope,
            id_,
            availability_zone_id=plan.express.availability_zone_id,
            base_name=_base_name(plan, settings.base_name, f"-{number}" if number > 1 else ""),
            encryption_key=key,
            expire_after=days_of(settings.expire_after.seconds) if settings.expire_after else None,
            expire_prefixes=settings.expire_prefixes,
            removal_policy=REMOVAL[settings.removal],
            content_is_cache=settings.content_is_cache,
            request_metrics=plan.workload.monitoring.enabled,
            catalog=plan.catalog,
        )
        for number, id_ in enumerate(ids, start=1)
    )


def directory_bucket_patterns(plan: Plan) -> tuple[str, ...]:
    """Return the names of a plan's directory buckets as IAM patterns; what is made of a stack's id is ``?`` each.

    Args:
        plan: The plan. Without S3 Express as its hot tier there are none.
    """
    if plan.express is None:
        return ()
    settings, zone = plan.workload.express, plan.express.availability_zone_id
    if settings.bucket_names:
        return settings.bucket_names
    facts = plan.catalog.object_storage
    bases = (
        _base_name(plan, settings.base_name, f"-{number}" if number > 1 else "", unique="?" * _UNIQUE_CHARACTERS)
        for number in range(1, plan.express.bucket_count + 1)
    )
    return tuple(facts.directory_bucket_name(base, zone) for base in bases)


def make_shared_cache(
    scope: Construct, construct_id: str, plan: Plan
) -> DirectoryBucket | ImportedDirectoryBucket | None:
    """Make the directory bucket of a shared cache, or take the one that the workload names.

    A new one goes with its stack, whatever is in it: everything there is a copy.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
    """
    cache, workload = plan.shared_cache, plan.workload
    if cache is None:
        return None
    key = key_of(scope, f"{construct_id}Key", workload.express.kms_key_arn)
    if workload.mountpoint.cache_bucket is not None:
        return DirectoryBucket.from_bucket_name(
            scope, construct_id, workload.mountpoint.cache_bucket, encryption_key=key
        )
    return DirectoryBucket(
        scope,
        construct_id,
        availability_zone_id=cache.availability_zone_id,
        base_name=_base_name(plan, None, "-cache"),
        encryption_key=key,
        expire_after=None if cache.expire_after_days is None else Duration.days(cache.expire_after_days),
        removal_policy=RemovalPolicy.DESTROY,
        content_is_cache=True,
        catalog=plan.catalog,
    )


def make_s3_file_system(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    *,
    vpc: ec2.IVpc,
    subnet: ec2.ISubnet,
    data_lake: DataLake,
) -> S3FileSystem | ImportedS3FileSystem | None:
    """Make the S3 Files file system over the lake, or take the one that the workload names.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
        vpc: VPC of the subnet.
        subnet: The one subnet for storage and fleet.
        data_lake: The lake that it shows.
    """
    if plan.s3_files is None:
        return None
    settings = plan.workload.s3_files
    group = group_of(scope, f"{construct_id}Group", settings.security_group_id)
    if settings.file_system_id is not None and group is not None:
        return S3FileSystem.from_attributes(
            scope, construct_id, file_system_id=settings.file_system_id, security_group=group, bucket=data_lake
        )
    return S3FileSystem(
        scope,
        construct_id,
        bucket=data_lake,
        vpc=vpc,
        subnet=subnet,
        expire_after=days_of(settings.expire_after.seconds),
        security_group=group,
        removal_policy=REMOVAL[settings.removal],
        catalog=plan.catalog,
    )


def _base_name(plan: Plan, given: str | None, ending: str, *, unique: str | None = None) -> str:
    """Return the base of a directory bucket's name: as given, or the workload's name and part of the stack's id.

    A name of the workload alone would collide with the bucket that an earlier stack left behind, and with those of
    others: names are unique in a zone, not in an account.
    """
    if given is not None:
        return f"{given}{ending}"
    facts, zone = plan.catalog.object_storage, plan.workload.availability_zone_id
    room = facts.directory_bucket_name_max_length - len(facts.directory_bucket_name("", zone)) - len(ending)
    name = plan.name
    if name.startswith(facts.directory_bucket_forbidden_prefixes):
        name = f"ts-{name}"
    head = name[: room - _UNIQUE_CHARACTERS - 1].rstrip("-")
    unique = unique or cdk.Fn.select(0, cdk.Fn.split("-", cdk.Fn.select(2, cdk.Fn.split("/", cdk.Aws.STACK_ID))))
    return f"{head}-{unique}{ending}"
