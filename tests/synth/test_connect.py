"""``TrainingStorage.connect``: the storage of a plan on compute that is not ours."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from tests.assemblies import ROOT
from training_storage.compute import Signal
from training_storage.errors import ValidationError
from training_storage.planner import plan
from training_storage.training_storage import TrainingStorage
from training_storage.workload import load_workload

TIERS = ("llama3-70b", "object-native-2048", "legacy-nfs-finetune", "express-cache")


class Made:
    """The storage of an example without its fleet, and an instance of somebody else."""

    def __init__(self, app: cdk.App, name: str) -> None:
        workload = load_workload(ROOT / "examples" / f"{name}.yaml")
        env = cdk.Environment(account="111111111111", region=workload.region)
        self.stack = cdk.Stack(app, "Storage", env=env)
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self.stack, "Vpc", vpc_id="vpc-0abc", availability_zones=[f"{workload.region}a"]
        )
        self.subnet = ec2.Subnet.from_subnet_attributes(
            self.stack, "Subnet", subnet_id="subnet-0abc", availability_zone=f"{workload.region}a"
        )
        self.storage = TrainingStorage(
            self.stack, "Storage", plan=plan(workload), vpc=self.vpc, subnet=self.subnet, fleet=False
        )
        self.theirs = cdk.Stack(app, "Theirs", env=env)

    def instance(self, name: str = "Node") -> ec2.Instance:
        return ec2.Instance(
            self.theirs,
            name,
            vpc=self.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[self.subnet]),
            instance_type=ec2.InstanceType("g6e.12xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )


@pytest.mark.parametrize("name", TIERS)
def test_an_instance_of_another_stack_gets_rights_rules_and_bootstrap(app: cdk.App, name: str) -> None:
    made = Made(app, name)
    node = made.instance()
    before = json.dumps(made.stack.resolve(node.user_data.render()))
    made.storage.connect(node, role=node.role, user_data=node.user_data)
    template = Template.from_stack(made.theirs)
    assert "training-storage" in json.dumps(made.stack.resolve(node.user_data.render())).removeprefix(before)
    policies = json.dumps(template.find_resources("AWS::IAM::Policy"))
    wanted = {
        "llama3-70b": "s3:GetObject",
        "object-native-2048": "s3express:CreateSession",
        "legacy-nfs-finetune": "s3files:ClientMount",
        "express-cache": "s3express:CreateSession",
    }[name]
    assert wanted in policies
    rules = template.find_resources("AWS::EC2::SecurityGroupIngress")
    assert bool(rules) is (name in ("llama3-70b", "legacy-nfs-finetune"))


@pytest.mark.parametrize("name", TIERS)
def test_the_storage_stays_as_it_is_with_one_client_or_two(make_app: Any, name: str) -> None:
    templates = []
    for count in (1, 2):
        made = Made(make_app(), name)
        for index in range(count):
            node = made.instance(f"Node{index}")
            made.storage.connect(node, role=node.role, user_data=node.user_data)
        templates.append(json.dumps(Template.from_stack(made.stack).to_json()))
    assert templates[0] == templates[1]


def test_the_rules_are_handed_back_so_that_instances_can_wait(app: cdk.App) -> None:
    made = Made(app, "llama3-70b")
    node = made.instance()
    rules = made.storage.connect(node, role=node.role, user_data=node.user_data)
    assert {type(rule).__name__ for rule in rules} == {"CfnSecurityGroupIngress", "CfnSecurityGroupEgress"}
    for rule in rules:
        node.instance.add_resource_dependency(rule)
    (instance,) = Template.from_stack(made.theirs).find_resources("AWS::EC2::Instance").values()
    assert len(instance["DependsOn"]) >= len(rules)


def test_an_auto_scaling_group_signals_for_itself(app: cdk.App) -> None:
    made = Made(app, "llama3-70b")
    group = autoscaling.AutoScalingGroup(
        made.theirs,
        "Group",
        vpc=made.vpc,
        vpc_subnets=ec2.SubnetSelection(subnets=[made.subnet]),
        instance_type=ec2.InstanceType("g6e.12xlarge"),
        machine_image=ec2.MachineImage.latest_amazon_linux2023(),
    )
    signal = Signal(stack_name=made.theirs.stack_name, logical_id="Group")
    made.storage.connect(group, role=group.role, user_data=group.user_data, user_commands=["echo ready"], signal=signal)
    text = json.dumps(made.theirs.resolve(group.user_data.render()))
    assert "TS_LOGICAL_ID=Group" in text
    assert "echo ready" in text


def test_without_user_data_the_commands_are_there_for_a_launcher(app: cdk.App) -> None:
    made = Made(app, "legacy-nfs-finetune")
    group = ec2.SecurityGroup(made.theirs, "Jobs", vpc=made.vpc)
    role = iam.Role(made.theirs, "JobRole", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    assert made.storage.connect(group, role=role)
    assert any("KIND=s3-files" in line or "s3" in line for line in made.storage.node_storage.commands())


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("client", "sg-0123", "client"),
        ("role", "arn:aws:iam::111111111111:role/x", "role"),
        ("user_data", "#!/bin/bash", "user_data"),
        ("user_commands", "echo", "user_commands"),
        ("signal", "Group", "signal"),
    ],
)
def test_an_argument_of_another_kind_is_named(app: cdk.App, argument: str, value: Any, said: str) -> None:
    made = Made(app, "llama3-70b")
    node = made.instance()
    given: dict[str, Any] = {"client": node, "role": node.role, "user_data": node.user_data} | {argument: value}
    with pytest.raises(ValidationError, match=said):
        made.storage.connect(given.pop("client"), **given)


@pytest.mark.parametrize(
    "given", [{"user_commands": ["echo"]}, {"signal": Signal(stack_name="Theirs", logical_id="Node")}]
)
def test_what_stands_in_user_data_needs_some(app: cdk.App, given: dict[str, Any]) -> None:
    made = Made(app, "llama3-70b")
    node = made.instance()
    with pytest.raises(ValidationError, match="together with user_data"):
        made.storage.connect(node, role=node.role, **given)
