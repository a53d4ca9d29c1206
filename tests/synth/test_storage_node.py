"""The storage node: an empty group that starts nothing, found by its name and its tags."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from tests.assemblies import Assembly, example, synthesize
from training_storage import ValidationError
from training_storage.lifecycle import StorageNode

STACK = "llama3-70b-hot"


@pytest.fixture(scope="module")
def made() -> Assembly:
    return example("llama3-70b")


def the_one(made: Assembly, kind: str, word: str = "StorageNode") -> dict[str, Any]:
    (found,) = [resource for key, resource in made.of(STACK, kind).items() if key.startswith(word)]
    return found


def test_deploying_starts_no_instance_and_waits_for_none(made: Assembly) -> None:
    group = the_one(made, "AWS::AutoScaling::AutoScalingGroup")
    properties = group["Properties"]
    assert (properties["MinSize"], properties["DesiredCapacity"], properties["MaxSize"]) == ("0", "0", "1")
    assert "CreationPolicy" not in group
    # A later deploy leaves a size that a release has set.
    assert group["UpdatePolicy"]["AutoScalingScheduledAction"] == {"IgnoreUnmodifiedGroupSizeProperties": True}
    assert "signal-resource" not in json.dumps(the_one(made, "AWS::EC2::LaunchTemplate"))


def test_the_group_is_found_by_its_name_and_its_instance_by_its_tags(made: Assembly) -> None:
    properties = the_one(made, "AWS::AutoScaling::AutoScalingGroup")["Properties"]
    assert properties["AutoScalingGroupName"] == "llama3-70b-storage-node"
    tags = {tag["Key"]: tag["Value"] for tag in properties["Tags"] if tag["PropagateAtLaunch"]}
    assert tags["training-storage:workload"] == "llama3-70b"
    assert tags["training-storage:role"] == "storage-node"


def test_fleet_and_file_system_carry_the_name_of_the_workload(made: Assembly) -> None:
    (fleet,) = made.of("llama3-70b-compute", "AWS::AutoScaling::AutoScalingGroup").values()
    wanted = {"Key": "training-storage:workload", "Value": "llama3-70b", "PropagateAtLaunch": True}
    assert wanted in fleet["Properties"]["Tags"]
    (file_system,) = made.of(STACK, "AWS::FSx::FileSystem").values()
    assert {"Key": "training-storage:workload", "Value": "llama3-70b"} in file_system["Properties"]["Tags"]


def test_the_instance_is_small_encrypted_and_asks_for_tokens(made: Assembly) -> None:
    data = the_one(made, "AWS::EC2::LaunchTemplate")["Properties"]["LaunchTemplateData"]
    assert data["InstanceType"] == "m6i.large"
    assert data["ImageId"].startswith("resolve:ssm:/aws/service/ami-amazon-linux-latest/al2023-")
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    assert [each["Ebs"]["Encrypted"] for each in data["BlockDeviceMappings"]] == [True]


def test_it_mounts_the_file_system_over_tcp_with_an_agent_and_no_timer(made: Assembly) -> None:
    text = json.dumps(the_one(made, "AWS::EC2::LaunchTemplate"))
    assert "KIND=lustre" in text
    assert "EFA=" not in text
    assert "KIND=mountpoint" not in text
    assert "agent.json" in text
    assert "TS_AGENT_TIMER" not in text
    assert "CHECKPOINTS=" not in text.replace("TRAINING_STORAGE_CHECKPOINTS=", "")


def test_it_is_let_into_the_file_system_and_ends_before_its_rules_do(made: Assembly) -> None:
    group = the_one(made, "AWS::AutoScaling::AutoScalingGroup")
    rules = {
        key
        for kind in ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")
        for key, rule in made.of(STACK, kind).items()
        if "StorageNode" in json.dumps(rule)
    }
    assert rules
    assert rules <= set(group["DependsOn"])


def test_the_guard_goes_before_what_finds_out_why_it_refuses(made: Assembly) -> None:
    (group,) = made.of(STACK, "AWS::AutoScaling::AutoScalingGroup")
    guards = [
        resource
        for key, resource in made.templates[STACK]["Resources"].items()
        if key.startswith("ReleaseGuard") and resource["Type"].startswith(("Custom::", "AWS::CloudFormation::Custom"))
    ]
    assert guards
    assert all(group in guard["DependsOn"] for guard in guards)


@pytest.mark.parametrize("name", ["lora-finetune", "object-native-2048", "existing-everything"])
def test_there_is_none_without_a_file_system_of_ours(name: str) -> None:
    groups = example(name).all("AWS::AutoScaling::AutoScalingGroup")
    assert "storage-node" not in json.dumps(groups)


def test_a_file_system_without_checkpoints_has_one_too() -> None:
    made = synthesize(
        {
            "name": "run1",
            "region": "us-east-1",
            "availability_zone_id": "use1-az6",
            "compute": {"instance_type": "p5en.48xlarge", "instance_count": 2},
            "dataset": {"size": "10 TB"},
            "hot_tier": "lustre",
        }
    )
    assert "run1-storage-node" in json.dumps(made.templates["run1-hot"])


def place(app: cdk.App) -> dict[str, Any]:
    stack = cdk.Stack(app, "Stack")
    vpc = ec2.Vpc.from_vpc_attributes(stack, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
    subnet = ec2.Subnet.from_subnet_attributes(stack, "Subnet", subnet_id="subnet-0abc")
    return {"scope": stack, "construct_id": "Node", "vpc": vpc, "subnet": subnet}


def test_commands_that_are_added_later_run_too(app: cdk.App) -> None:
    user_data = ec2.UserData.for_linux()
    node = StorageNode(**place(app), workload="run1", user_data=user_data)
    node.user_data.add_commands("echo later")
    (template,) = Template.from_stack(cdk.Stack.of(node)).find_resources("AWS::EC2::LaunchTemplate").values()
    assert "echo later" in json.dumps(template)


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        ({"workload": "Run 1"}, "workload"),
        ({"workload": 1}, "workload"),
        ({"image": "al2023"}, "image"),
        ({"user_data": "#!/bin/bash"}, "user_data"),
        ({"subnet": "subnet-0abc"}, "subnet"),
        ({"root_volume_gib": "30"}, "root_volume_gib"),
    ],
)
def test_what_does_not_fit_is_refused(app: cdk.App, wrong: dict[str, Any], path: str) -> None:
    good = {**place(app), "workload": "run1", "user_data": ec2.UserData.for_linux()}
    with pytest.raises(ValidationError, match=path):
        StorageNode(**{**good, **wrong})
