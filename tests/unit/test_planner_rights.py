"""The rights for links, field report 11."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit._planner import planned
from training_storage.planner import plan
from training_storage.planner.rights import deploy_rights
from training_storage.workload import Workload


def rights(**changes: Any) -> dict[str, Any]:
    workload: dict[str, Any] = {
        "name": "run",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "account": "111111111111",
        "compute": {"instance_type": "p5en.48xlarge", "instance_count": 20},
        "dataset": {"size": "10 TB", "average_file_size": "100 MB", "read_rate": {"per_accelerator": "50 MB/s"}},
    }
    return deploy_rights(plan(Workload.model_validate(workload | changes)))


def resources(document: dict[str, Any]) -> list[str]:
    return [resource for statement in document["Statement"] for resource in statement["Resource"]]


def test_report_11_names_both_the_bucket_and_its_objects() -> None:
    found = resources(rights(data_lake={"bucket": "my-lake"}))
    assert "arn:aws:s3:::my-lake" in found
    assert "arn:aws:s3:::my-lake/*" in found


def test_report_11_holds_every_right_that_fsx_asks_for() -> None:
    # facts: deploy_role_actions of data repository associations, and the three of the error text.
    actions = {action for statement in rights()["Statement"] for action in statement["Action"]}
    assert actions >= {
        "fsx:CreateDataRepositoryAssociation", "fsx:DescribeDataRepositoryAssociations", "fsx:TagResource", "s3:Get*",
        "s3:List*", "s3:PutObject", "s3:PutBucketPolicy", "iam:CreateServiceLinkedRole", "iam:AttachRolePolicy",
        "iam:PutRolePolicy",
    }  # fmt: skip


def test_report_11_names_every_linked_bucket() -> None:
    links = [
        {"path": "/a", "source": "s3://first-bucket/x/"},
        {"path": "/b", "source": "s3://second-bucket/y/"},
    ]
    found = resources(rights(lustre={"links": links}))
    assert {"arn:aws:s3:::first-bucket", "arn:aws:s3:::second-bucket"} <= set(found)


def test_a_lake_that_is_still_to_be_made_stands_as_its_output() -> None:
    assert "arn:aws:s3:::${DataLakeBucketName}" in resources(rights())


@pytest.mark.parametrize(
    ("region", "zone", "partition"),
    [("cn-north-1", "cnn1-az1", "aws-cn"), ("us-gov-west-1", "usgw1-az1", "aws-us-gov")],
)
def test_arns_have_the_partition_of_the_region(region: str, zone: str, partition: str) -> None:
    settings = {"deployment_type": "SCRATCH_2"}
    found = resources(rights(region=region, availability_zone_id=zone, lustre=settings))
    assert all(arn.startswith(f"arn:{partition}:") for arn in found)


def test_without_links_nothing_is_needed() -> None:
    assert rights(lustre={"links": []})["Statement"] == []


def statements(changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    document: dict[str, Any] = deploy_rights(planned(changes))
    return {each["Sid"]: each for each in document["Statement"]}


def test_new_directory_buckets_need_the_rights_of_their_handler_in_the_zone() -> None:
    found = statements({"hot_tier": "express"})
    (resource,) = found["MakeDirectoryBuckets"]["Resource"]
    assert resource == "arn:aws:s3express:us-east-1:${AWS::AccountId}:bucket/*--use1-az6--x-s3"
    assert "s3express:PutBucketPolicy" in found["MakeDirectoryBuckets"]["Action"]
    assert "UseTheKeyOfDirectoryBuckets" not in found


def test_the_bucket_of_a_shared_cache_needs_them_too() -> None:
    key = "arn:aws:kms:us-east-1:111111111111:key/0123abcd"
    found = statements({"mountpoint.cache": "express", "express.kms_key_arn": key})
    assert found["UseTheKeyOfDirectoryBuckets"]["Resource"] == [key]


def test_directory_buckets_that_are_there_need_none() -> None:
    assert statements({"hot_tier": "express", "express.bucket_names": ["hot--use1-az6--x-s3"]}) == {}


def test_s3_files_sets_notifications_and_its_rule_with_the_rights_of_the_caller() -> None:
    found = statements({"dataset.access": "read-write", "data_lake.bucket": "theirs", "account": "111111111111"})
    assert found["LetS3FilesHearOfChanges"]["Resource"] == ["arn:aws:s3:::theirs"]
    assert found["HandTheRoleToS3Files"]["Condition"]["StringEquals"] == {
        "iam:PassedToService": "elasticfilesystem.amazonaws.com"
    }
    (rule,) = found["MakeTheRuleOfS3Files"]["Resource"]
    assert rule == "arn:aws:events:us-east-1:111111111111:rule/DO-NOT-DELETE-S3-Files*"


# Permissions of the handlers in the CloudFormation registry, schemas of 2026-10-20, for what the stacks make; the key
# of a file system, and a grant on it, only with a key of one's own, which a workload file does not name.
HANDLERS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "AWS::S3Express::DirectoryBucket": (
        {"hot_tier": "express", "express.kms_key_arn": "arn:aws:kms:us-east-1:111111111111:key/0123abcd"},
        {
            "ec2:DescribeAvailabilityZones", "kms:Decrypt", "kms:GenerateDataKey", "s3express:CreateBucket",
            "s3express:DeleteBucket", "s3express:GetEncryptionConfiguration", "s3express:GetInventoryConfiguration",
            "s3express:GetLifecycleConfiguration", "s3express:GetMetricsConfiguration",
            "s3express:ListAllMyDirectoryBuckets", "s3express:ListTagsForResource",
            "s3express:PutEncryptionConfiguration", "s3express:PutInventoryConfiguration",
            "s3express:PutLifecycleConfiguration", "s3express:PutMetricsConfiguration", "s3express:TagResource",
            "s3express:UntagResource",
        },
    ),
    "AWS::S3Files::FileSystem": (
        {"dataset.access": "read-write"},
        {
            "events:DeleteRule", "events:DescribeRule", "events:ListRules", "events:ListTargetsByRule",
            "events:PutRule", "events:PutTargets", "events:RemoveTargets", "iam:PassRole",
            "s3:GetBucketNotification", "s3:PutBucketNotification", "s3files:CreateFileSystem",
            "s3files:DeleteFileSystem", "s3files:GetFileSystem", "s3files:GetSynchronizationConfiguration",
            "s3files:ListTagsForResource", "s3files:PutSynchronizationConfiguration", "s3files:TagResource",
            "s3files:UntagResource",
        },
    ),
    "AWS::S3Files::MountTarget": (
        {"dataset.access": "read-write"},
        {
            "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeSubnets",
            "ec2:ModifyNetworkInterfaceAttribute", "s3files:CreateMountTarget", "s3files:DeleteMountTarget",
            "s3files:GetMountTarget", "s3files:ListMountTargets", "s3files:UpdateMountTarget",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("resource_type", HANDLERS)
def test_every_right_of_a_handler_is_there(resource_type: str) -> None:
    changes, wanted = HANDLERS[resource_type]
    assert {action for each in statements(changes).values() for action in each["Action"]} >= wanted
