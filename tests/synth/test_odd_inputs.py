"""Inputs that are legal and odd: strange names, fixed roles, later values, other regions, stacks in any order."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.synth.storage import file_system, subnet, vpc, warnings
from training_storage.compute import GpuFleet, LustreMount, MountpointMount, NodeStorage, TrainingNetwork
from training_storage.compute.mount_model import Mount
from training_storage.errors import ValidationError
from training_storage.tiers import DataLake, DataRepositoryAssociation

ENV = cdk.Environment(account="111111111111", region="us-east-1")


def fleet(stack: cdk.Stack, construct_id: str = "Fleet", **options: Any) -> GpuFleet:
    place = {"vpc": vpc(stack, f"{construct_id}Vpc"), "subnet": subnet(stack, f"{construct_id}Subnet")}
    return GpuFleet(stack, construct_id, **{**place, "instance_type": "p5.48xlarge", "instance_count": 2, **options})


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Stack", env=ENV)


# -- names


@pytest.mark.parametrize(
    "construct_id",
    ["with spaces", "é ü 漢", "quotes \" ' and <angles> | %", "x" * 240, "long " * 60],
    ids=["spaces", "letters", "quotes", "240", "300"],
)
def test_any_construct_id_gives_texts_that_ec2_takes(stack: cdk.Stack, construct_id: str) -> None:
    fleet(stack, construct_id)
    TrainingNetwork(stack, f"{construct_id} network", availability_zone_id="use1-az6", internet="none")
    template = Template.from_stack(stack)
    # EC2 API reference, CreateSecurityGroup: at most 255 of these characters; tag values at most 256
    for group in template.find_resources("AWS::EC2::SecurityGroup").values():
        assert re.fullmatch(r"[A-Za-z0-9 ._\-:/()#,@\[\]+=&;{}!$*]{1,255}", group["Properties"]["GroupDescription"])
    for each in template.to_json()["Resources"].values():
        for tag in each.get("Properties", {}).get("Tags", []):
            assert len(tag["Value"]) <= 256


def test_a_path_that_is_too_long_keeps_its_end(stack: cdk.Stack) -> None:
    fleet(stack, "x" * 252 + "-the-end")
    (group,) = Template.from_stack(stack).find_resources("AWS::EC2::SecurityGroup").values()
    assert group["Properties"]["GroupDescription"].endswith("-the-end")


# -- roles


def test_a_role_that_is_not_to_be_changed_stays_and_its_owner_is_told_what_to_grant(stack: cdk.Stack) -> None:
    role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::111111111111:role/theirs", mutable=False)
    storage = NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=DataLake(stack, "Lake"))])
    fleet(stack, role=role, storage=storage)
    assert Template.from_stack(stack).find_resources("AWS::IAM::Policy") == {}
    (warning,) = [each for each in warnings(stack) if "training_storage:fleet.roleNotMutable" in each]
    for said in ("cloudformation:SignalResource", "ssm:UpdateInstanceInformation", "bootstrap scripts", "buckets"):
        assert said in warning


def test_a_role_that_takes_policies_gets_them_and_nobody_is_warned(stack: cdk.Stack) -> None:
    fleet(stack, role=iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::111111111111:role/theirs"))
    (policy,) = Template.from_stack(stack).find_resources("AWS::IAM::Policy").values()
    assert policy["Properties"]["Roles"] == ["theirs"]
    assert warnings(stack) == []


# -- values known at deploy


@pytest.mark.parametrize(("instance_type", "efa"), [("p5.48xlarge", True), ("g6.xlarge", False)])
def test_a_count_known_only_at_deploy_counts_as_many(stack: cdk.Stack, instance_type: str, efa: bool) -> None:
    count = cdk.CfnParameter(stack, "Count", type="Number").value_as_number
    assert fleet(stack, instance_type=instance_type, instance_count=count).efa is efa


# -- regions


def mounted(stack: cdk.Stack, mount: MountpointMount) -> str:
    made = fleet(stack, storage=NodeStorage(stack, "Storage", mounts=[mount]))
    return made.user_data.render()


def test_report_33_the_region_that_cdk_knows_of_a_bucket_is_used(stack: cdk.Stack) -> None:
    theirs = s3.Bucket.from_bucket_attributes(stack, "Theirs", bucket_name="theirs", region="eu-south-2")
    assert "BUCKET_REGION=eu-south-2" in mounted(stack, MountpointMount(bucket=theirs))


@pytest.mark.parametrize("given", [None, "eu-south-2"])
def test_report_33_a_bucket_of_another_region_gives_a_cost_warning(stack: cdk.Stack, given: str | None) -> None:
    region = None if given else "eu-south-2"
    theirs = s3.Bucket.from_bucket_attributes(stack, "Theirs", bucket_name="theirs", region=region)
    mounted(stack, MountpointMount(bucket=theirs, region=given))
    (warning,) = [each for each in warnings(stack) if "training_storage:mounts.otherRegion" in each]
    assert "eu-south-2" in warning
    assert "us-east-1" in warning
    assert "charged" in warning


@pytest.mark.parametrize("given", [None, "us-east-1"])
def test_report_33_a_bucket_of_the_same_region_gives_none(stack: cdk.Stack, given: str | None) -> None:
    theirs = s3.Bucket.from_bucket_name(stack, "Theirs", "theirs")
    mounted(stack, MountpointMount(bucket=theirs, region=given))
    assert warnings(stack) == []


# -- stacks


def test_links_of_other_stacks_come_last_and_a_wrong_order_is_named(app: cdk.App) -> None:
    own, other = cdk.Stack(app, "Own"), cdk.Stack(app, "Other")
    hot, lake = file_system(own), DataLake(own, "Lake")
    hot.add_link("First", file_system_path="/first", bucket=lake, bucket_prefix="first/")
    second = DataRepositoryAssociation(
        other, "Second", file_system=hot, file_system_path="/second", bucket=lake, bucket_prefix="second/"
    )
    before = len(hot.node.children)
    with pytest.raises(ValidationError, match="Other/Second") as caught:
        hot.add_link("Third", file_system_path="/third", bucket=lake, bucket_prefix="third/")
    assert "before the links of other stacks" in str(caught.value)
    assert len(hot.node.children) == before
    assert hot.links == (*hot.links[:1], second)
    app.synth()


REFERENCES = ["strong", "weak"]
ORDERS = [("lake", "hot", "compute"), ("hot", "lake", "compute"), ("compute", "hot", "lake")]


@pytest.mark.parametrize("references", REFERENCES)
@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_report_39_stacks_in_any_order_make_no_circle(
    cdk_context: dict[str, Any], tmp_path: Any, order: tuple[str, ...], references: str
) -> None:
    app = cdk.App(
        context={**cdk_context, "@aws-cdk/core:defaultCrossStackReferences": references},
        outdir=str(tmp_path / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    stacks = {name: cdk.Stack(app, name, env=ENV) for name in order}
    lake = DataLake(stacks["lake"], "Lake")
    hot = file_system(stacks["hot"])
    hot.add_link("Data", file_system_path="/data", bucket=lake, bucket_prefix="data/", import_events=["new"])
    mounts: list[Mount] = [LustreMount(file_system=hot), MountpointMount(bucket=lake)]
    fleet(stacks["compute"], storage=NodeStorage(stacks["compute"], "Storage", mounts=mounts))
    app.synth()
    assert {each.stack_name for each in stacks["hot"].dependencies} == {"lake"}
    assert stacks["lake"].dependencies == []


@pytest.mark.parametrize("flags", [True, False], ids=["flags", "no flags"])
@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_other_partitions_name_no_arn_of_this_one(
    cdk_context: dict[str, Any], tmp_path: Any, region: str, partition: str, flags: bool
) -> None:
    app = cdk.App(
        context=cdk_context if flags else {},
        outdir=str(tmp_path / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account="111111111111", region=region))
    lake, hot = DataLake(stack, "Lake"), file_system(stack, deployment_type="SCRATCH_2")  # what every region has
    hot.add_link("Data", file_system_path="/data", bucket=lake, bucket_prefix="data/")
    mounts: list[Mount] = [LustreMount(file_system=hot), MountpointMount(bucket=lake)]
    fleet(stack, storage=NodeStorage(stack, "Storage", mounts=mounts), instance_type="g4dn.xlarge")
    text = json.dumps(Template.from_stack(stack).to_json())
    assert f"arn:{partition}:" in text or '{"Ref": "AWS::Partition"}' in text
    assert "arn:aws:" not in text


def test_nested_stacks_and_stages_take_every_part(app: cdk.App) -> None:
    stage = cdk.Stage(app, "Prod", env=ENV)
    root = cdk.Stack(stage, "Root")
    lakes, hots, nodes = (cdk.NestedStack(root, name) for name in ("Lakes", "Hots", "Nodes"))
    lake, hot = DataLake(lakes, "Lake"), file_system(hots)
    hot.add_link("Data", file_system_path="/data", bucket=lake, bucket_prefix="data/")
    mounts: list[Mount] = [LustreMount(file_system=hot), MountpointMount(bucket=lake)]
    fleet(nodes, storage=NodeStorage(nodes, "Storage", mounts=mounts))
    app.synth()


def test_tags_of_the_app_reach_what_costs_money_and_boundaries_the_role(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack", env=ENV)
    cdk.Tags.of(app).add("team", "vision")
    boundary = "arn:aws:iam::111111111111:policy/boundary"
    iam.PermissionsBoundary.of(app).apply(iam.ManagedPolicy.from_managed_policy_arn(stack, "Boundary", boundary))
    file_system(stack)
    fleet(stack)
    template = Template.from_stack(stack)
    for kind in ("AWS::FSx::FileSystem", "AWS::AutoScaling::AutoScalingGroup"):
        (found,) = template.find_resources(kind).values()
        assert {"team": "vision"}.items() <= {tag["Key"]: tag["Value"] for tag in found["Properties"]["Tags"]}.items()
    (role,) = template.find_resources("AWS::IAM::Role").values()
    assert role["Properties"]["PermissionsBoundary"] == boundary


def test_an_instance_of_ones_own_is_a_client_once(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    group = ec2.SecurityGroup(stack, "Group", vpc=vpc(stack))
    first = hot.allow_client(group)
    assert hot.allow_client(group.connections) == first
