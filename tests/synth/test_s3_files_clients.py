"""Clients of S3 Files, of file systems made here and of ones that exist already; and references between stacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.synth.s3_files import (
    ACCOUNT,
    FILE_SYSTEM_ID,
    actions,
    client,
    files,
    known_stack,
    node_role,
    statements,
    text,
)
from tests.synth.storage import EGRESS, GROUP, INGRESS, only, resources, vpc, warnings
from training_storage.errors import ValidationError
from training_storage.tiers import DataLake, ImportedS3FileSystem, S3FileSystem


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot")


def theirs(stack: cdk.Stack, **options: Any) -> ImportedS3FileSystem:
    """A file system that exists already."""
    given: dict[str, Any] = {"file_system_id": FILE_SYSTEM_ID, **options}
    if "security_group" not in given:
        given["security_group"] = ec2.SecurityGroup.from_security_group_id(stack, "TheirGroup", "sg-0abc")
    return S3FileSystem.from_attributes(stack, "Theirs", **given)


def rules(stack: cdk.Stack) -> list[dict[str, Any]]:
    return [
        {**found["Properties"], "Type": kind} for kind in (INGRESS, EGRESS) for found in resources(stack, kind).values()
    ]


# -- rules


def test_the_group_of_the_mount_target_lets_nothing_in_or_out_by_itself(stack: cdk.Stack) -> None:
    files(stack)
    group = only(stack, GROUP)["Properties"]
    assert "SecurityGroupIngress" not in group
    assert [each["CidrIp"] for each in group["SecurityGroupEgress"]] == ["255.255.255.255/32"]  # CDK's "nothing"
    assert rules(stack) == []


@pytest.mark.parametrize("open_outbound", [False, True])
def test_report_35_nfs_is_let_in_from_the_clients_group_alone(app: cdk.App, open_outbound: bool) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    made, group = files(storage), client(compute, open_outbound=open_outbound)
    made.allow_client(group)
    mine = compute.resolve(group.security_group_id)
    into, out = rules(compute)
    assert (into["Type"], into["SourceSecurityGroupId"]) == (INGRESS, mine)
    assert (out["Type"], out["GroupId"]) == (EGRESS, mine)
    assert into["GroupId"] == out["DestinationSecurityGroupId"]
    assert "FilesSecurityGroup" in json.dumps(into["GroupId"])
    for each in (into, out):
        assert (each["IpProtocol"], each["FromPort"], each["ToPort"]) == ("tcp", 2049, 2049)
        assert not {"CidrIp", "CidrIpv6"} & set(each)
    assert rules(storage) == []


def test_a_client_waits_for_rules_and_mount_target(stack: cdk.Stack) -> None:
    made = files(stack)
    waits = made.allow_client(client(stack))
    assert [each.cfn_resource_type for each in waits] == [EGRESS, INGRESS, "AWS::S3Files::MountTarget"]


def test_a_client_asked_for_twice_is_let_in_once(stack: cdk.Stack) -> None:
    made, group = files(stack), client(stack)
    first, second = made.allow_client(group), made.allow_client(group)
    assert [each.node.path for each in first] == [each.node.path for each in second]
    assert len(rules(stack)) == 2


def test_two_clients_and_two_file_systems_have_rules_of_their_own(stack: cdk.Stack) -> None:
    made = [files(stack, name) for name in ("One", "Two")]
    for name in ("A", "B"):
        group = ec2.SecurityGroup.from_security_group_id(stack, name, f"sg-{name}")
        for each in made:
            each.allow_client(group)
    assert len(rules(stack)) == 2 * 2 * 2


def test_an_instance_with_two_groups_is_let_in_with_both(stack: cdk.Stack) -> None:
    groups = [ec2.SecurityGroup.from_security_group_id(stack, name, f"sg-{name}") for name in ("a", "b")]
    files(stack).allow_client(ec2.Connections(security_groups=groups))
    assert {each.get("SourceSecurityGroupId") for each in rules(stack)} >= {"sg-a", "sg-b"}


def test_a_client_without_a_group_fails(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError, match="security group"):
        files(stack).allow_client(ec2.Connections())


def test_a_client_that_is_no_client_fails_naming_it(stack: cdk.Stack) -> None:
    made = files(stack)
    with pytest.raises(ValidationError) as caught:
        made.allow_client("sg-0abc")  # type: ignore[arg-type]
    assert [problem.path for problem in caught.value.problems] == ["client"]


def test_other_code_can_let_itself_in_through_connections(stack: cdk.Stack) -> None:
    network = ec2.Vpc(stack, "Vpc", restrict_default_security_group=False)
    made = files(stack, vpc=network, subnet=network.private_subnets[0])
    client(stack, network, open_outbound=True).connections.allow_to_default_port(made)
    (into,) = [each for each in rules(stack) if each["Type"] == INGRESS]
    assert (into["FromPort"], into["ToPort"]) == (2049, 2049)


# -- a group that was brought


def test_a_given_group_gets_the_rules(stack: cdk.Stack) -> None:
    group = ec2.SecurityGroup.from_security_group_id(stack, "Mine", "sg-0abc")
    made = files(stack, security_group=group)
    made.allow_client(ec2.SecurityGroup.from_security_group_id(stack, "Nodes", "sg-0def"))
    assert resources(stack, GROUP) == {}
    into, out = rules(stack)
    assert (into["GroupId"], into["SourceSecurityGroupId"]) == ("sg-0abc", "sg-0def")
    assert (out["GroupId"], out["DestinationSecurityGroupId"]) == ("sg-0def", "sg-0abc")


def test_rules_left_to_the_owner_are_named_for_each_client(stack: cdk.Stack) -> None:
    group = ec2.SecurityGroup.from_security_group_id(stack, "Mine", "sg-0abc")
    made = files(stack, security_group=group, manage_security_group_rules=False)
    made.allow_client(ec2.SecurityGroup.from_security_group_id(stack, "Nodes", "sg-0def"))
    (out,) = rules(stack)
    assert (out["Type"], out["GroupId"]) == (EGRESS, "sg-0def")
    (warning,) = warnings(stack)
    for said in ("sg-0abc", "sg-0def", "tcp 2049", "[ack: training_storage:s3Files.securityGroupRules]"):
        assert said in warning


def test_two_file_systems_with_one_group_have_each_rule_once(stack: cdk.Stack) -> None:
    group = ec2.SecurityGroup.from_security_group_id(stack, "Mine", "sg-0abc")
    nodes = ec2.SecurityGroup.from_security_group_id(stack, "Nodes", "sg-0def")
    for name in ("One", "Two"):
        files(stack, name, security_group=group).allow_client(nodes)
    assert len(rules(stack)) == 2


def test_a_client_in_the_same_given_group_reaches_the_mount_target(stack: cdk.Stack) -> None:
    shared = ec2.SecurityGroup.from_security_group_id(stack, "Shared", "sg-0abc")
    files(stack, security_group=shared).allow_client(shared)
    assert {(each["Type"], each["GroupId"]) for each in rules(stack)} == {(INGRESS, "sg-0abc"), (EGRESS, "sg-0abc")}


# -- between stacks


def app_with(cdk_context: dict[str, Any], folder: Path, references: str) -> cdk.App:
    return cdk.App(
        context={**cdk_context, "@aws-cdk/core:defaultCrossStackReferences": references},
        outdir=str(folder / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )


@pytest.mark.parametrize("references", ["strong", "weak"])
def test_report_39_a_client_in_a_second_stack_makes_no_circle(
    cdk_context: dict[str, Any], tmp_path: Path, references: str
) -> None:
    app = app_with(cdk_context, tmp_path, references)
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    network = ec2.Vpc(storage, "Vpc", restrict_default_security_group=False)
    made = files(storage, vpc=network, subnet=network.private_subnets[0], bucket=DataLake(storage, "Lake"))
    made.allow_client(client(compute, network))
    made.grant_root(node_role(compute))
    app.synth()
    template = json.dumps(Template.from_stack(storage).to_json())
    assert "Fn::ImportValue" not in template
    assert "Fn::GetStackOutput" not in template
    assert rules(storage) == []
    assert len(rules(compute)) == 2
    assert compute.dependencies == [storage]
    assert storage.dependencies == []


@pytest.mark.parametrize("references", ["strong", "weak"])
def test_report_39_four_stacks_depend_in_one_direction(
    cdk_context: dict[str, Any], tmp_path: Path, references: str
) -> None:
    app = app_with(cdk_context, tmp_path, references)
    network_stack, lake_stack, hot, compute = (cdk.Stack(app, name) for name in ("Network", "Lake", "Hot", "Compute"))
    network = ec2.Vpc(network_stack, "Vpc", restrict_default_security_group=False)
    lake = DataLake(lake_stack, "Lake")
    made = files(hot, vpc=network, subnet=network.private_subnets[0], bucket=lake, prefix="datasets/")
    made.allow_client(client(compute, network))
    made.grant_read_write(node_role(compute))
    app.synth()
    names = {each.stack_name: {other.stack_name for other in each.dependencies} for each in (lake_stack, hot, compute)}
    assert names == {"Lake": set(), "Hot": {"Network", "Lake"}, "Compute": {"Network", "Lake", "Hot"}}


@pytest.mark.parametrize("owner", ["Network", "Lake"])
@pytest.mark.parametrize("policy", [cdk.RemovalPolicy.RETAIN, cdk.RemovalPolicy.DESTROY])
def test_report_39_a_bare_group_of_an_earlier_stack_gets_its_rules_beside_the_file_system(
    app: cdk.App, owner: str, policy: cdk.RemovalPolicy
) -> None:
    stacks = {name: cdk.Stack(app, name) for name in ("Network", "Lake", "Hot")}
    network = ec2.Vpc(stacks["Network"], "Vpc", restrict_default_security_group=False)
    made = files(
        stacks["Hot"],
        vpc=network,
        subnet=network.private_subnets[0],
        bucket=DataLake(stacks["Lake"], "Lake"),
        removal_policy=policy,
    )
    made.allow_client(ec2.SecurityGroup(stacks[owner], "Nodes", vpc=network))
    app.synth()
    assert rules(stacks[owner]) == []
    found = [*resources(stacks["Hot"], INGRESS).values(), *resources(stacks["Hot"], EGRESS).values()]
    kept = "Retain" if policy is cdk.RemovalPolicy.RETAIN else "Delete"
    assert [each["DeletionPolicy"] for each in found] == [kept] * 2


def test_rules_in_the_clients_stack_go_with_the_client(app: cdk.App) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    files(storage).allow_client(client(compute))
    for kind in (INGRESS, EGRESS):
        assert "DeletionPolicy" not in only(compute, kind)


def test_a_client_of_the_same_stack_may_wait_for_the_file_system(stack: cdk.Stack) -> None:
    made, group = files(stack), client(stack)
    group.node.add_dependency(made)
    made.allow_client(group)
    Template.from_stack(stack)  # fails on a cycle


# -- a file system that exists already


def test_an_existing_file_system_adds_nothing_of_its_own(stack: cdk.Stack) -> None:
    made = theirs(stack)
    assert isinstance(made, ImportedS3FileSystem)
    assert made.file_system_id == FILE_SYSTEM_ID
    assert "Resources" not in Template.from_stack(stack).to_json()


@pytest.mark.parametrize(
    ("region", "partition"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_its_arn_is_of_the_stacks_place(app: cdk.App, region: str, partition: str) -> None:
    stack = known_stack(app, region=region)
    arn = text(stack.resolve(theirs(stack).file_system_arn)).replace("<AWS::Partition>", partition)
    assert arn == f"arn:{partition}:s3files:{region}:{ACCOUNT}:file-system/{FILE_SYSTEM_ID}"


def test_report_34_grants_on_it_name_it_alone(stack: cdk.Stack) -> None:
    nodes = node_role(stack)
    assert theirs(stack, bucket=DataLake(stack, "Lake"), prefix="datasets/").grant_read_write(nodes).success
    given = statements(stack, "NodesDefaultPolicy")
    (mount,) = [each for each in given if actions(each)[0].startswith("s3files:")]
    assert actions(mount) == ["s3files:ClientMount", "s3files:ClientWrite"]
    assert json.dumps(mount["Resource"]).endswith(f':file-system/{FILE_SYSTEM_ID}"]]}}')
    direct = {actions(each)[0] for each in given if each is not mount}
    assert direct == {"s3:ListBucket", "s3:GetObject", "kms:Decrypt"}


@pytest.mark.parametrize("direct_read", [True, False])
def test_without_its_bucket_direct_reads_are_not_granted_and_that_is_said(stack: cdk.Stack, direct_read: bool) -> None:
    nodes = node_role(stack)
    assert theirs(stack).grant_read(nodes, direct_read=direct_read).success
    assert [actions(each) for each in statements(stack, "NodesDefaultPolicy")] == [["s3files:ClientMount"]]
    assert [("training_storage:s3Files.noDirectRead" in each) for each in warnings(stack)] == [True] * direct_read


def test_another_account_needs_the_owner_of_an_existing_file_system(app: cdk.App) -> None:
    stack = known_stack(app)
    grant = theirs(stack).grant_read(cdk.aws_iam.AccountPrincipal("222222222222"), direct_read=False)
    assert not grant.success
    assert any(
        "training_storage:s3Files.fileSystemPolicy" in each and "s3files:ClientMount" in each
        for each in warnings(stack)
    )


@pytest.mark.parametrize("manages", [True, False])
def test_clients_of_an_existing_file_system_are_let_in(app: cdk.App, manages: bool) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    theirs(storage, manage_security_group_rules=manages).allow_client(client(compute))
    found = {(each["Type"], json.dumps(each["GroupId"])) for each in rules(compute)}
    assert ((INGRESS, '"sg-0abc"') in found) is manages
    assert len(found) == (2 if manages else 1)
    assert any("s3Files.securityGroupRules" in each for each in warnings(storage)) is not manages


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"file_system_id": "fs-0abc"}, "file_system_id"),
        ({"prefix": "datasets"}, "prefix"),
        ({"bucket": "their-bucket"}, "bucket"),
        ({"security_group": "sg-0abc"}, "security_group"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_slip_in_its_attributes_is_named(stack: cdk.Stack, options: dict[str, Any], path: str) -> None:
    with pytest.raises(ValidationError) as caught:
        theirs(stack, **options)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_a_directory_bucket_is_not_its_bucket(stack: cdk.Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Express", "base--use1-az6--x-s3")
    with pytest.raises(ValidationError, match="directory bucket"):
        theirs(stack, bucket=bucket)


def test_a_client_in_a_vpc_that_exists_is_let_in(stack: cdk.Stack) -> None:
    network = vpc(stack)
    made = files(stack, vpc=network)
    assert len(made.allow_client(client(stack, network))) == 3
