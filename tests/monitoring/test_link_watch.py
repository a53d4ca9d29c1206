"""The watch on links: exact rights, and no construct where an argument is wrong."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from tests.monitoring import bodies
from tests.monitoring.subjects import ENV, FILE_SYSTEM
from training_storage.errors import ValidationError
from training_storage.lifecycle import LinkWatch
from training_storage.tiers import LustreFileSystem


def file_system(stack: cdk.Stack) -> Any:
    group = ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0123456789abcdef0")
    return LustreFileSystem.from_attributes(
        stack, "FileSystem", file_system_id=FILE_SYSTEM, mount_name="abcdefgh", security_group=group
    )


def test_it_may_describe_links_and_write_our_metrics_and_nothing_else() -> None:
    stack = cdk.Stack(cdk.App(), "Stack", env=ENV)
    LinkWatch(stack, "Links", workload="run", file_system=file_system(stack))
    template = Template.from_stack(stack).to_json()
    statements = [
        statement
        for policy in bodies.of(template, "AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
    ]
    actions = {
        action
        for statement in statements
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
        if not action.startswith("logs:")
    }
    assert actions == {
        "fsx:DescribeDataRepositoryAssociations",
        "cloudwatch:PutMetricData",
        "states:StartExecution",
    }
    (writes,) = (each for each in statements if each["Action"] == "cloudwatch:PutMetricData")
    assert writes["Condition"] == {"StringEquals": {"cloudwatch:namespace": "TrainingStorage"}}
    (machine,) = bodies.of(template, "AWS::StepFunctions::StateMachine").values()
    steps = json.loads(machine["DefinitionString"])["States"]
    assert steps["look"]["Parameters"]["Filters"] == [{"Name": "file-system-id", "Values": [FILE_SYSTEM]}]
    assert {steps[each]["Parameters"]["MetricData"][0]["Value"] for each in ("write 0", "write 1")} == {0, 1}


@pytest.mark.parametrize(("workload", "says"), [("Run", "not the name of a workload"), (3, "not what this argument")])
def test_a_wrong_name_is_refused_before_anything_is_made(workload: Any, says: str) -> None:
    stack = cdk.Stack(cdk.App(), "Stack", env=ENV)
    made = file_system(stack)
    with pytest.raises(ValidationError, match=says):
        LinkWatch(stack, "Links", workload=workload, file_system=made)
    assert stack.node.try_find_child("Links") is None
