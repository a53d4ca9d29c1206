"""The guard in templates: what it waits for, what it may do, and when a plan has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.assemblies import synthesize
from tests.synth.storage import (
    ASSOCIATION,
    EGRESS,
    FILE_SYSTEM,
    GROUP,
    INGRESS,
    file_system,
    only,
    resources,
    subnet,
    vpc,
)
from training_storage.errors import ValidationError
from training_storage.lifecycle import ReleaseGuard
from training_storage.planner import plan
from training_storage.tiers import DataLake, LustreFileSystem
from training_storage.training_storage import TrainingStorage
from training_storage.workload import Workload

GUARD = "Custom::ReleaseGuard"
LOG_GROUP = "AWS::Logs::LogGroup"
DESTROY = cdk.RemovalPolicy.DESTROY
LUSTRE: dict[str, Any] = {
    "name": "small",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5.48xlarge", "instance_count": 2, "image": "ami-0123456789abcdef0"},
    "dataset": {"size": "1 TB"},
    "checkpoints": {"size": "10 GB"},
    "hot_tier": "lustre",
}
EXISTING = {
    "file_system_id": "fs-0123456789abcdef0",
    "mount_name": "fsx",
    "security_group_id": "sg-0123456789abcdef0",
    "efa": False,
    "storage_capacity": "4800 GiB",
    "per_unit_storage_throughput": 250,
    "links": [{"path": "/data", "source": "s3://some-bucket/data/"}],
}


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "run-hot", env=cdk.Environment(region="us-east-1"))


def guard(stack: cdk.Stack, **given: Any) -> ReleaseGuard:
    arguments = {
        "data_lake": given.pop("data_lake", None) or DataLake(stack, "Lake"),
        "workload_name": "small",
        **given,
    }
    if "file_system" not in arguments:
        arguments["file_system"] = file_system(stack, removal_policy=DESTROY)
    return ReleaseGuard(stack, "Guard", **arguments)


# -- where it stands


def test_it_waits_for_everything_of_the_file_system_also_for_links_that_come_later(stack: cdk.Stack) -> None:
    made, bucket = file_system(stack, removal_policy=DESTROY), s3.Bucket.from_bucket_name(stack, "B", "their-bucket")
    made.add_link("Before", file_system_path="/a", bucket=bucket, bucket_prefix="a/")
    guard(stack, file_system=made)
    made.add_link("After", file_system_path="/b", bucket=bucket, bucket_prefix="b/")
    links = resources(stack, ASSOCIATION)
    assert len(links) == 2
    assert set(links) <= set(only(stack, GUARD)["DependsOn"])
    # It refers to the file system, which waits for what stands below it.
    (system,) = resources(stack, FILE_SYSTEM)
    assert only(stack, GUARD)["Properties"]["FileSystemId"] == {"Ref": system}
    assert {*resources(stack, INGRESS), *resources(stack, EGRESS)} <= set(only(stack, FILE_SYSTEM)["DependsOn"])


def test_what_its_last_call_needs_goes_after_it(stack: cdk.Stack) -> None:
    guard(stack)
    waits = set(only(stack, GUARD)["DependsOn"])
    for kind in ("AWS::IAM::Policy", "AWS::IAM::Role"):
        assert {name for name in resources(stack, kind) if name.startswith("Guard")} <= waits, kind


def test_its_log_outlives_the_stack_for_a_year(stack: cdk.Stack) -> None:
    made = guard(stack)
    found = resources(stack, LOG_GROUP)[stack.get_logical_id(made.log_group.node.default_child)]  # type: ignore[arg-type]  # the CDK's types
    assert found["DeletionPolicy"] == found["UpdateReplacePolicy"] == "Retain"
    assert found["Properties"]["RetentionInDays"] == 365


# -- what it may do


def statements(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for policy in resources(stack, "AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions = statement["Action"]
            for action in [actions] if isinstance(actions, str) else actions:
                assert action not in found
                found[action] = statement
    return found


def test_it_reads_three_keys_and_changes_nothing(stack: cdk.Stack) -> None:
    guard(stack)
    found = statements(stack)
    assert set(found) == {
        "cloudformation:DescribeStacks",
        "cloudwatch:GetMetricData",
        "fsx:DescribeFileSystems",
        "kms:Decrypt",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
        "s3:GetObject",
        "s3:ListBucket",
    }
    assert found["cloudformation:DescribeStacks"]["Resource"] == {"Ref": "AWS::StackId"}
    (system,) = resources(stack, FILE_SYSTEM)
    keys = json.dumps(found["s3:GetObject"]["Resource"])
    assert keys.count(f'{{"Ref": "{system}"}}') == 3
    assert "*" not in keys
    listed = found["s3:ListBucket"]["Condition"]["StringEquals"]["s3:prefix"]
    assert [key["Fn::Join"][1] for key in listed] == [
        [".training-storage/release/", {"Ref": system}, "/proof.json"],
        [".training-storage/release/", {"Ref": system}, "/survey.json"],
        [".training-storage/checkpoints/status/", {"Ref": system}, ".json"],
    ]
    stars = {action for action, statement in found.items() if statement["Resource"] == "*"}
    assert stars == {"cloudwatch:GetMetricData", "fsx:DescribeFileSystems"}


def test_a_lake_without_a_key_needs_no_right_on_one(stack: cdk.Stack) -> None:
    guard(stack, data_lake=DataLake(stack, "Lake", encryption="s3"))
    assert "kms:Decrypt" not in statements(stack)


def test_it_is_told_which_file_system_workload_and_lake(stack: cdk.Stack) -> None:
    guard(stack)
    given = only(stack, GUARD)["Properties"]
    (system,) = resources(stack, FILE_SYSTEM)
    assert (given["FileSystemId"], given["LogicalId"], given["Workload"]) == ({"Ref": system}, system, "small")


def test_without_a_file_system_it_looks_for_any_that_an_update_would_delete(stack: cdk.Stack) -> None:
    guard(stack, file_system=None)
    given = only(stack, GUARD)["Properties"]
    assert (given["FileSystemId"], given["LogicalId"]) == ("", "")
    assert statements(stack)["s3:ListBucket"]["Condition"] == {
        "StringLike": {"s3:prefix": [".training-storage/release/fs-*", ".training-storage/checkpoints/status/fs-*"]}
    }


# -- what is refused


def test_a_file_system_that_stays_needs_no_guard(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError, match="stays when its stack is deleted: there is nothing to guard"):
        guard(stack, file_system=file_system(stack))
    assert not stack.node.try_find_child("Guard")


def test_a_file_system_that_was_there_before_needs_no_guard(stack: cdk.Stack) -> None:
    theirs = LustreFileSystem.from_attributes(
        stack,
        "Theirs",
        file_system_id="fs-0123456789abcdef0",
        mount_name="fsx",
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc"),
    )
    with pytest.raises(ValidationError, match="exists already, and no stack of this app deletes it"):
        guard(stack, file_system=theirs)


def test_a_guard_in_another_stack_would_guard_nothing(app: cdk.App, stack: cdk.Stack) -> None:
    other = cdk.Stack(app, "other")
    with pytest.raises(ValidationError, match="stands in another stack, which can be deleted without the guard"):
        guard(stack, file_system=file_system(other, removal_policy=DESTROY))


def test_arguments_are_checked_all_at_once(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError) as caught:
        ReleaseGuard(stack, "Guard", file_system="fs-1", data_lake=1, workload_name="Bad Name")  # type: ignore[arg-type]  # on purpose
    assert [each.path for each in caught.value.problems] == ["file_system", "data_lake", "workload_name"]


# -- plans


def hot(**sections: Any) -> dict[str, dict[str, Any]]:
    """Resources of the hot stack by logical id."""
    found: dict[str, dict[str, Any]] = synthesize(LUSTRE | sections).templates["small-hot"]["Resources"]
    return found


def of(found: dict[str, dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in found.values() if each["Type"] == kind]


TIED = (FILE_SYSTEM, ASSOCIATION, GROUP, INGRESS, EGRESS)


@pytest.mark.parametrize(
    ("sections", "policy", "guards"),
    [
        ({}, "Delete", 1),
        ({"lifecycle": {"guard": False}}, "Retain", 0),
        ({"lustre": {"removal": "retain"}}, "Retain", 0),
        ({"lustre": {"removal": "delete"}}, "Delete", 1),
        ({"lustre": {"removal": "delete"}, "lifecycle": {"guard": False}}, "Delete", 0),
    ],
)
def test_report_18_one_setting_drives_the_whole_hot_tier_and_the_guard_stands_in_front(
    sections: dict[str, Any], policy: str, guards: int
) -> None:
    found = hot(**sections)
    own = {name: each for name, each in found.items() if name.startswith("FileSystem")}
    for kind in TIED:
        assert of(own, kind), kind
        assert {each["DeletionPolicy"] for each in of(own, kind)} == {policy}, kind
    assert {each["UpdateReplacePolicy"] for each in of(found, FILE_SYSTEM)} == {"Retain"}
    made = of(found, GUARD)
    assert len(made) == guards
    for each in made:
        # Deleted first: it waits for the links and refers to the file system.
        assert {name for name, other in own.items() if other["Type"] == ASSOCIATION} <= set(each["DependsOn"])
        assert own[each["Properties"]["FileSystemId"]["Ref"]]["Type"] == FILE_SYSTEM


def test_a_file_system_that_is_not_ours_leaves_a_guard_for_one_that_was() -> None:
    (made,) = of(hot(lustre=EXISTING), GUARD)
    assert made["Properties"]["FileSystemId"] == ""
    assert of(hot(lustre=EXISTING, lifecycle={"guard": False}), GUARD) == []


def test_in_one_stack_it_waits_for_the_fleet_too(make_app: Callable[[], cdk.App]) -> None:
    stack = cdk.Stack(make_app(), "One", env=cdk.Environment(region="us-east-1"))
    made = TrainingStorage(
        stack, "Storage", plan=plan(Workload.model_validate(LUSTRE)), vpc=vpc(stack), subnet=subnet(stack)
    )
    assert made.release_guard is not None
    (waiting,) = Template.from_stack(stack).find_resources(GUARD).values()
    (fleet,) = Template.from_stack(stack).find_resources("AWS::AutoScaling::AutoScalingGroup")
    assert fleet in waiting["DependsOn"]
