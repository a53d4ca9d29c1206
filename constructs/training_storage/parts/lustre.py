"""The Lustre file system of a plan, with its links."""

from __future__ import annotations

import hashlib

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage.parts.settings import REMOVAL, group_of, key_of
from training_storage.planner.model import LustrePlan, Plan
from training_storage.tiers import DataLake, ImportedLustreFileSystem, LustreFileSystem


def make_file_system(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    *,
    vpc: ec2.IVpc,
    subnet: ec2.ISubnet,
    data_lake: DataLake,
) -> LustreFileSystem | ImportedLustreFileSystem | None:
    """Make the Lustre file system of a plan, or take the one that the workload names, and make its links.

    None where the plan has no Lustre.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
        vpc: VPC of the subnet.
        subnet: The one subnet for storage and fleet.
        data_lake: Where links without a bucket of their own lead.
    """
    planned = plan.lustre
    if planned is None:
        return None
    settings = plan.workload.lustre
    group = group_of(scope, f"{construct_id}Group", settings.security_group_id)
    file_system = (
        _existing(scope, construct_id, plan, planned, group)
        if settings.file_system_id is not None and group is not None
        else _new(scope, construct_id, plan, planned, vpc, subnet, group)
    )
    foreign: dict[str, s3.IBucket] = {}
    for link in planned.links:
        bucket: DataLake | s3.IBucket = data_lake
        if link.bucket is not None:
            if link.bucket not in foreign:
                id_ = f"{construct_id}Source{len(foreign) + 1}"
                foreign[link.bucket] = s3.Bucket.from_bucket_name(scope, id_, link.bucket)
            bucket = foreign[link.bucket]
        file_system.add_link(
            link_id(link.path),
            file_system_path=link.path,
            bucket=bucket,
            bucket_prefix=link.prefix,
            import_events=link.import_events,  # type: ignore[arg-type]  # the plan's text is one of the three
            export_events=link.export_events,  # type: ignore[arg-type]  # the plan's text is one of those
            batch_import_meta_data_on_create=link.import_metadata_on_create,
        )
    return file_system


def _existing(
    scope: Construct, construct_id: str, plan: Plan, planned: LustrePlan, group: ec2.ISecurityGroup
) -> ImportedLustreFileSystem:
    settings = plan.workload.lustre
    return LustreFileSystem.from_attributes(
        scope,
        construct_id,
        file_system_id=settings.file_system_id or "",
        mount_name=settings.mount_name or "",
        security_group=group,
        efa_enabled=planned.efa,
        deployment_type=planned.deployment_type,
        storage_type=planned.storage_type,
        file_system_type_version=planned.file_system_type_version,
        catalog=plan.catalog,
    )


def _new(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    planned: LustrePlan,
    vpc: ec2.IVpc,
    subnet: ec2.ISubnet,
    group: ec2.ISecurityGroup | None,
) -> LustreFileSystem:
    settings = plan.workload.lustre
    return LustreFileSystem(
        scope,
        construct_id,
        vpc=vpc,
        subnet=subnet,
        storage_capacity_gib=planned.storage_capacity_gib,
        deployment_type=planned.deployment_type,  # type: ignore[arg-type]  # the plan's text is one of the three
        storage_type=planned.storage_type,  # type: ignore[arg-type]  # the plan's text is one of those
        per_unit_storage_throughput=planned.per_unit_storage_throughput,
        throughput_capacity_mb_per_s=planned.throughput_capacity_mb_per_s,
        drive_cache_type=settings.drive_cache_type,  # type: ignore[arg-type]  # the plan's text is one of those
        read_cache_mode=settings.read_cache_mode,  # type: ignore[arg-type]  # the plan's text is one of those
        read_cache_gib=settings.read_cache_gib,
        metadata_mode=planned.metadata_mode,  # type: ignore[arg-type]  # the plan's text is one of those
        metadata_iops=planned.metadata_iops if planned.metadata_mode == "USER_PROVISIONED" else None,
        efa_enabled=planned.efa,
        data_compression_type="LZ4" if settings.compression == "lz4" else "NONE",
        file_system_type_version=planned.file_system_type_version,
        kms_key=key_of(scope, f"{construct_id}Key", settings.kms_key_arn),
        security_group=group,
        automatic_backup_retention_days=settings.backup_retention_days,
        removal_policy=REMOVAL[plan.workload.file_system_removal],
        catalog=plan.catalog,
    )


def link_id(path: str) -> str:
    """Return the construct id of the link at a path; two paths never share one.

    Args:
        path: Path on the file system: ``/datasets`` is ``LinkDatasets``, ``/`` is ``LinkRoot``, and a path that is more
            than one lower-case word carries a digest, since ``/a-b`` and ``/a/b`` read alike.
    """
    word = path.strip("/")
    if not word:
        return "LinkRoot"
    if word.isalnum() and word.islower():
        return f"Link{word.capitalize()}"
    words = "".join(letter if letter.isalnum() else " " for letter in word).split()
    digest = hashlib.sha256(word.encode()).hexdigest()[:8]
    return f"Link{''.join(w[:1].upper() + w[1:] for w in words)}{digest}"
