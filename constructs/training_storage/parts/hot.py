"""What stands between the lake and the fleet of one run: every tier, new or already there."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.parts.lustre import make_file_system
from training_storage.parts.object_storage import make_directory_buckets, make_s3_file_system, make_shared_cache
from training_storage.parts.settings import WORKLOAD_TAG
from training_storage.planner.model import Plan
from training_storage.tiers import (
    DataLake,
    DirectoryBucket,
    ImportedDirectoryBucket,
    ImportedLustreFileSystem,
    ImportedS3FileSystem,
    LustreFileSystem,
    S3FileSystem,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HotStorage:
    """What a run reads and writes besides the lake.

    Attributes:
        file_system: The Lustre file system; None without one.
        directory_buckets: The hot tier in S3 Express One Zone; empty without one.
        shared_cache: The directory bucket of Mountpoint's shared cache; None without one.
        s3_file_system: The lake as a file system; None without one.
    """

    file_system: LustreFileSystem | ImportedLustreFileSystem | None = None
    directory_buckets: tuple[DirectoryBucket | ImportedDirectoryBucket, ...] = ()
    shared_cache: DirectoryBucket | ImportedDirectoryBucket | None = None
    s3_file_system: S3FileSystem | ImportedS3FileSystem | None = None


def is_anything_made(plan: Plan) -> bool:
    """Whether the hot tier of a plan holds a resource: what is there already, and is not linked anew, makes none.

    Args:
        plan: The plan.
    """
    workload = plan.workload
    return any(
        (
            plan.lustre is not None and (workload.lustre.file_system_id is None or bool(plan.lustre.links)),
            plan.express is not None and not workload.express.bucket_names,
            plan.shared_cache is not None and workload.mountpoint.cache_bucket is None,
            plan.s3_files is not None and workload.s3_files.file_system_id is None,
        )
    )


def uses_directory_buckets(plan: Plan) -> bool:
    """Whether nodes reach S3 Express One Zone, and the network needs its gateway endpoint.

    Args:
        plan: The plan.
    """
    return plan.express is not None or plan.shared_cache is not None


def make_hot_storage(
    scope: Construct, plan: Plan, *, vpc: ec2.IVpc, subnet: ec2.ISubnet, data_lake: DataLake
) -> HotStorage:
    """Make everything of a plan that stands between lake and fleet, under ids that never change.

    Args:
        scope: Parent.
        plan: The plan.
        vpc: VPC of the subnet.
        subnet: The one subnet for storage and fleet.
        data_lake: The lake.
    """
    file_system = make_file_system(scope, "FileSystem", plan, vpc=vpc, subnet=subnet, data_lake=data_lake)
    if isinstance(file_system, LustreFileSystem):
        cdk.Tags.of(file_system.resource).add(WORKLOAD_TAG, plan.name)
    return HotStorage(
        file_system=file_system,
        directory_buckets=make_directory_buckets(scope, "DirectoryBucket", plan),
        shared_cache=make_shared_cache(scope, "SharedCache", plan),
        s3_file_system=make_s3_file_system(scope, "S3FileSystem", plan, vpc=vpc, subnet=subnet, data_lake=data_lake),
    )
