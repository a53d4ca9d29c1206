"""A user's own compute on our storage: checked by mypy, not run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template
from constructs import Construct

from training_storage import DirectoryBucket, LustreFileSystem, S3FileSystem, TrainingStorage, load_workload, plan
from training_storage.compute import (
    BucketAccess,
    ImportedNetwork,
    LustreMount,
    MountpointMount,
    NodeStorage,
    S3FilesMount,
    checkpoint_writing,
    dataset_reading,
    local_scratch,
)
from training_storage.testing import logical_ids, still


class UserNodes(cdk.Stack):
    """What exists already, mounted on an Auto Scaling group and on a launch template."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        super().__init__(scope, construct_id)
        network = ImportedNetwork(
            self, "Network", vpc_id="vpc-0abc", subnet_id="subnet-0abc", availability_zone_id="use1-az6"
        )
        bucket: s3.IBucket = s3.Bucket.from_bucket_name(self, "Bucket", "theirs")
        group: ec2.ISecurityGroup = ec2.SecurityGroup.from_security_group_id(self, "Group", "sg-0abc")
        hot = LustreFileSystem.from_attributes(
            self, "Hot", file_system_id="fs-0123456789abcdef0", mount_name="abcdefgh", security_group=group
        )
        files = S3FileSystem(self, "Files", bucket=bucket, vpc=network.vpc, subnet=network.subnet)
        theirs = S3FileSystem.from_attributes(
            self, "TheirFiles", file_system_id="fs-0123456789abcdef0", security_group=group, bucket=bucket
        )
        objects = DirectoryBucket.from_bucket_name(self, "Objects", "shared--use1-az6--x-s3")
        storage = NodeStorage(
            self,
            "Storage",
            mounts=[
                LustreMount(file_system=hot),
                MountpointMount(bucket=bucket, cache="express", cache_bucket=objects),
                S3FilesMount(file_system=files, path="/files"),
                S3FilesMount(file_system=theirs, path="/theirs", read_only=False),
                dataset_reading(bucket, path="/data"),
                checkpoint_writing(objects),
            ],
            buckets=[BucketAccess(bucket=objects, write=True)],
            directories=local_scratch(local_nvme_gb=900),
        )
        fleet = autoscaling.AutoScalingGroup(
            self,
            "Fleet",
            vpc=network.vpc,
            instance_type=ec2.InstanceType("g6e.12xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )
        rules: list[cdk.CfnResource] = storage.attach(client=fleet, grantee=fleet.role)
        storage.add_to(fleet.user_data, user_commands=["true"])
        fleet.connections.allow_to_default_port(files)
        granted: iam.Grant = files.grant_read(fleet)
        assert granted.success
        assert rules

        whole = TrainingStorage(
            self,
            "Whole",
            plan=plan(load_workload("workload.yaml")),
            vpc=network.vpc,
            subnet=network.subnet,
            fleet=False,
        )
        whole.connect(fleet, role=fleet.role, user_data=fleet.user_data)
        whole.connect(group, role=iam.Role.from_role_name(self, "Role", "trainers"))


def users_test(stack: cdk.Stack) -> None:
    template: Mapping[str, Any] = Template.from_stack(stack).to_json()
    shown: dict[str, Any] = still(template)
    ids: dict[str, str] = logical_ids(shown)
    assert ids
