"""Mistakes that mypy must find in a user's stack: were one not found, its comment would be an error of its own."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage import DataLake, DirectoryBucket, LustreFileSystem, S3FileSystem, TrainingStorage
from training_storage.compute import GpuFleet, LustreMount, MountpointMount, S3FilesMount
from training_storage.testing import still


def mistakes(scope: Construct, vpc: ec2.IVpc, subnet: ec2.ISubnet, lake: DataLake, hot: LustreFileSystem) -> None:
    DataLake(scope, name="A")  # type: ignore[call-arg]
    DataLake(scope, "B", versioned="yes")  # type: ignore[arg-type]
    DataLake(scope, "C", encryption="aes")  # type: ignore[arg-type]
    LustreFileSystem(scope, "D", vpc=vpc, subnet=subnet, deployment_type="PERSISTENT_9")  # type: ignore[arg-type]
    LustreFileSystem(scope, "E", vpc="vpc-0abc", subnet=subnet)  # type: ignore[arg-type]
    hot.add_link("F", file_system_path="/f", bucket=lake, import_events=["added"])  # type: ignore[list-item]
    hot.storage_capacity = 1200  # type: ignore[attr-defined]
    DirectoryBucket(scope, "G")  # type: ignore[call-arg]
    DirectoryBucket(scope, "H", availability_zone_id="use1-az6", expire_after=3)  # type: ignore[arg-type]
    S3FileSystem(scope, "I", bucket="theirs", vpc=vpc, subnet=subnet)  # type: ignore[arg-type]
    GpuFleet(scope, "J", vpc=vpc, subnet=subnet, instance_type="p5.48xlarge", instance_count="2")  # type: ignore[arg-type]
    GpuFleet(scope, "K", vpc=vpc, subnet=subnet, instance_type="p5.48xlarge", count=2)  # type: ignore[call-arg]
    LustreMount(file_system=lake)  # type: ignore[arg-type]
    MountpointMount(bucket=hot)  # type: ignore[arg-type]
    MountpointMount(bucket=lake, cache="disk")  # type: ignore[arg-type]
    S3FilesMount(file_system=hot)  # type: ignore[arg-type]
    TrainingStorage(scope, "L", plan="workload.yaml", vpc=vpc, subnet=subnet)  # type: ignore[arg-type]
    still(cdk.Stack(scope, "M"))  # type: ignore[arg-type]
