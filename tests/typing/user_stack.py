"""A user's own stack: checked by mypy, not run. What fails to type-check here would fail for every user."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import (
    DataLake,
    DirectoryBucket,
    GpuFleet,
    LustreFileSystem,
    Plan,
    TrainingNetwork,
    TrainingStorage,
    load_workload,
    plan,
)


class UserStack(cdk.Stack):
    """Uses every construct the way the README does."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        network = TrainingNetwork(self, "Network", availability_zone_id="use1-az6")
        key = kms.Key.from_key_arn(self, "Key", "arn:aws:kms:us-east-1:111111111111:key/0f0f")
        existing = s3.Bucket.from_bucket_name(self, "Existing", "existing-bucket")
        lake = DataLake(self, "Lake", encryption_key=key)
        borrowed = DataLake(self, "Borrowed", bucket=existing, encryption_key=key)
        file_system = LustreFileSystem(
            self,
            "FileSystem",
            vpc=network.vpc,
            subnet=network.subnet,
            storage_capacity_gib=4800,
            per_unit_storage_throughput=250,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        file_system.add_link(
            "Datasets",
            file_system_path="/datasets",
            bucket=lake,
            bucket_prefix="datasets/",
            import_events=["new", "changed"],
        )
        fleet = GpuFleet(
            self,
            "Fleet",
            vpc=network.vpc,
            subnet=network.subnet,
            instance_type="g6e.48xlarge",
            instance_count=2,
        )
        file_system.allow_client(fleet)
        fleet.connections.allow_to_default_port(file_system)
        lake.grant_read(fleet, prefix="datasets/")
        borrowed.grant_read_write(fleet.role)
        cache = DirectoryBucket(
            self,
            "Cache",
            availability_zone_id="use1-az6",
            expire_after=cdk.Duration.days(3),
            removal_policy=cdk.RemovalPolicy.DESTROY,
            content_is_cache=True,
        )
        cache.grant_read_write(fleet)
        shared = DirectoryBucket.from_bucket_name(self, "Shared", "shared--use1-az6--x-s3", encryption_key=key)
        shared.grant_read(fleet.role, session_mode_condition=True)
        cdk.CfnOutput(self, "Shards", value=cache.uri_for("shards/"))
        answer: Plan = plan(load_workload("workload.yaml"))
        storage = TrainingStorage(self, "Storage", plan=answer, vpc=network.vpc, subnet=network.subnet)
        group: ec2.ISecurityGroup = file_system.security_group
        cdk.CfnOutput(self, "Group", value=group.security_group_id)
        if storage.file_system is not None:
            cdk.CfnOutput(self, "Id", value=storage.file_system.file_system_id)
