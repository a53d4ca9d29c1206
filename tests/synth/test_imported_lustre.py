"""A Lustre file system that exists already: clients, links and names, and nothing of the file system itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.synth.storage import (
    ASSOCIATION,
    EGRESS,
    FILE_SYSTEM,
    GROUP,
    INGRESS,
    LUSTRE_PORTS,
    file_system,
    only,
    ports,
    resources,
    subnet,
    vpc,
    warnings,
)
from training_storage.compute import GpuFleet, LustreMount, NodeStorage
from training_storage.errors import ValidationError
from training_storage.tiers import DataLake, DataRepositoryAssociation, ImportedLustreFileSystem, LustreFileSystem

NAMES: dict[str, Any] = {"file_system_id": "fs-0123456789abcdef0", "mount_name": "abcdefgh"}


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Stack")


def theirs(stack: cdk.Stack, construct_id: str = "Theirs", **options: Any) -> ImportedLustreFileSystem:
    given = {**NAMES, **options}
    if "security_group" not in given:
        given["security_group"] = ec2.SecurityGroup.from_security_group_id(stack, f"{construct_id}Group", "sg-0abc")
    return LustreFileSystem.from_attributes(stack, construct_id, **given)


def refused(stack: cdk.Stack, **options: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        theirs(stack, **options)
    assert stack.node.try_find_child("Theirs") is None
    return caught.value


def bucket(stack: cdk.Stack, name: str = "their-bucket") -> s3.IBucket:
    return s3.Bucket.from_bucket_name(stack, f"Bucket-{name}", name)


def rules_of(stack: cdk.Stack, resource_type: str) -> list[dict[str, Any]]:
    return [found["Properties"] for found in resources(stack, resource_type).values()]


# -- what it is


def test_it_makes_nothing_by_itself(stack: cdk.Stack) -> None:
    theirs(stack)
    assert Template.from_stack(stack).to_json().get("Resources", {}) == {}
    assert warnings(stack) == []


def test_names_are_those_given(stack: cdk.Stack) -> None:
    made = theirs(stack, dns_name="10.0.1.23", efa_enabled=True)
    assert (made.file_system_id, made.mount_name, made.dns_name) == ("fs-0123456789abcdef0", "abcdefgh", "10.0.1.23")
    assert made.efa_enabled is True
    assert made.security_group.security_group_id == "sg-0abc"


@pytest.mark.parametrize(
    ("region", "partition"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_name_and_arn_follow_region_and_partition(app: cdk.App, region: str, partition: str) -> None:
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account="111111111111", region=region))
    made = theirs(stack)
    assert stack.resolve(made.dns_name) == {
        "Fn::Join": ["", [f"fs-0123456789abcdef0.fsx.{region}.", {"Ref": "AWS::URLSuffix"}]]
    }
    assert stack.resolve(made.file_system_arn) == (
        f"arn:{partition}:fsx:{region}:111111111111:file-system/fs-0123456789abcdef0"
    )


def test_in_a_stack_without_an_environment_the_name_is_made_of_tokens(stack: cdk.Stack) -> None:
    assert stack.resolve(theirs(stack).dns_name) == {
        "Fn::Join": ["", ["fs-0123456789abcdef0.fsx.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]
    }


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("file_system_id", "fsx-data"),
        ("mount_name", "/fsx"),
        ("dns_name", "fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh"),
        ("deployment_type", "PERSISTENT_3"),
        ("file_system_type_version", "2.17"),
        ("existing_links", {"/datasets": "their-bucket/datasets/"}),
        ("existing_links", {"/datasets": "s3://"}),
        ("existing_links", {"/datasets/../x": "s3://their-bucket/x/"}),
    ],
)
def test_a_value_outside_its_set_fails_naming_the_argument(stack: cdk.Stack, argument: str, value: object) -> None:
    assert [problem.path for problem in refused(stack, **{argument: value}).problems] == [argument]


def test_a_storage_type_without_its_deployment_type_fails(stack: cdk.Stack) -> None:
    error = refused(stack, deployment_type="PERSISTENT_2", storage_type="HDD")
    assert [problem.path for problem in error.problems] == ["storage_type"]


@pytest.mark.parametrize("deployment_type", ["SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"])
def test_every_deployment_type_can_be_there(stack: cdk.Stack, deployment_type: str) -> None:
    theirs(stack, deployment_type=deployment_type)


@pytest.mark.parametrize(
    "types",
    [
        {"deployment_type": "SCRATCH_2"},
        {"storage_type": "HDD"},
        {"deployment_type": "PERSISTENT_1", "storage_type": "SSD"},
    ],
)
def test_report_05_efa_on_a_type_that_has_none_fails(stack: cdk.Stack, types: dict[str, str]) -> None:
    assert [problem.path for problem in refused(stack, efa_enabled=True, **types).problems] == ["efa_enabled"]


def test_report_07_2_10_warns_naming_version_and_new_clients(stack: cdk.Stack) -> None:
    theirs(stack, file_system_type_version="2.10")
    (warning,) = warnings(stack)
    assert "2.10" in warning
    assert "[ack: training_storage:lustre.oldVersion]" in warning


def test_all_problems_are_raised_at_once_and_nothing_is_added(stack: cdk.Stack) -> None:
    error = refused(stack, file_system_id="data", mount_name="/fsx", file_system_type_version="2.17")
    assert {problem.path for problem in error.problems} == {
        "file_system_id",
        "mount_name",
        "file_system_type_version",
    }
    assert error.where == "Stack/Theirs"


# -- clients


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("open_outbound", [False, True])
@pytest.mark.parametrize("efa", [False, True])
def test_report_13_client_and_file_system_reach_each_other(
    app: cdk.App, open_outbound: bool, efa: bool, imported: bool
) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    made = theirs(storage, efa_enabled=efa)
    client = (
        ec2.SecurityGroup.from_security_group_id(compute, "Client", "sg-0def", allow_all_outbound=open_outbound)
        if imported
        else ec2.SecurityGroup(compute, "Client", vpc=vpc(compute), allow_all_outbound=open_outbound)
    )
    made.allow_client(client)
    mine = compute.resolve(client.security_group_id)
    for resource_type, other in ((INGRESS, "SourceSecurityGroupId"), (EGRESS, "DestinationSecurityGroupId")):
        rules = rules_of(compute, resource_type)
        pairs = {json.dumps([rule["GroupId"], rule[other]]) for rule in rules}
        assert pairs == {json.dumps([mine, "sg-0abc"]), json.dumps(["sg-0abc", mine])}
        for group in (mine, "sg-0abc"):
            side = [rule for rule in rules if rule["GroupId"] == group]
            assert ports(side) >= LUSTRE_PORTS
            assert {rule["IpProtocol"] for rule in side} == ({"-1"} if efa else {"tcp"})
    assert warnings(storage) == []
    if not imported:
        assert ("0.0.0.0/0" in json.dumps(only(compute, GROUP))) is open_outbound


@pytest.mark.parametrize("efa", [False, True])
def test_report_14_rules_name_groups_and_never_addresses(stack: cdk.Stack, efa: bool) -> None:
    theirs(stack, efa_enabled=efa).allow_client(ec2.SecurityGroup.from_security_group_id(stack, "Client", "sg-0def"))
    rules = [*rules_of(stack, INGRESS), *rules_of(stack, EGRESS)]
    assert rules
    assert not [rule for rule in rules if "CidrIp" in rule or "CidrIpv6" in rule]


@pytest.mark.parametrize("efa", [False, True])
def test_report_13_rules_left_to_the_owner_are_listed_for_each_client(stack: cdk.Stack, efa: bool) -> None:
    made = theirs(stack, manage_security_group_rules=False, efa_enabled=efa)
    for name in ("sg-0def", "sg-0123"):
        rules = made.allow_client(ec2.SecurityGroup.from_security_group_id(stack, name, name))
        assert len(rules) == (2 if efa else 4)
    found = warnings(stack)
    for name in ("sg-0def", "sg-0123"):
        (said,) = [text for text in found if name in text]
        assert "sg-0abc" in said
        for passing in ("all traffic",) if efa else ("tcp 988", "tcp 1018-1023"):
            assert f"inbound {passing} from {name}" in said
            assert f"outbound {passing} to {name}" in said
        assert "[ack: training_storage:lustre.securityGroupRules]" in said
    assert {rule["GroupId"] for rule in (*rules_of(stack, INGRESS), *rules_of(stack, EGRESS))} == {
        "sg-0def",
        "sg-0123",
    }


def test_a_client_whose_id_is_not_known_yet_is_named_by_its_path(app: cdk.App) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    made = theirs(storage, manage_security_group_rules=False)
    made.allow_client(ec2.SecurityGroup(compute, "Client", vpc=vpc(compute)))
    (warning,) = warnings(storage)
    assert "Compute/Client" in warning
    assert "Token" not in warning


def test_a_client_asked_for_twice_is_let_in_once(stack: cdk.Stack) -> None:
    made = theirs(stack)
    client = ec2.SecurityGroup.from_security_group_id(stack, "Client", "sg-0def")
    first, second = made.allow_client(client), made.allow_client(client)
    assert [rule.node.path for rule in first] == [rule.node.path for rule in second]
    assert len(resources(stack, INGRESS)) == 4


def test_one_file_system_taken_twice_has_each_rule_once(app: cdk.App) -> None:
    stacks = [cdk.Stack(app, name) for name in ("One", "Two")]
    compute = cdk.Stack(app, "Compute")
    client = ec2.SecurityGroup.from_security_group_id(compute, "Client", "sg-0def")
    for each in stacks:
        theirs(each).allow_client(client)
    rules = [json.dumps(rule, sort_keys=True) for kind in (INGRESS, EGRESS) for rule in rules_of(compute, kind)]
    assert len(rules) == len(set(rules)) == 8


def test_a_client_in_the_file_systems_own_group_needs_no_more(stack: cdk.Stack) -> None:
    made = theirs(stack)
    assert made.allow_client(made) == ()


def test_a_client_without_a_group_fails(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError, match="security group"):
        theirs(stack).allow_client(ec2.Connections())


def test_other_code_can_let_itself_in_through_connections(stack: cdk.Stack) -> None:
    made = theirs(stack)
    client = ec2.SecurityGroup(stack, "Client", vpc=vpc(stack), allow_all_outbound=False)
    client.connections.allow_to_default_port(made)
    assert ports(rules_of(stack, INGRESS)) == set(range(988, 1024))


@pytest.mark.parametrize("references", ["strong", "weak"])
@pytest.mark.parametrize("efa", [False, True])
def test_report_39_rules_stand_in_the_clients_stack_and_storage_refers_to_nothing(
    cdk_context: dict[str, Any], tmp_path: Any, references: str, efa: bool
) -> None:
    app = cdk.App(
        context={**cdk_context, "@aws-cdk/core:defaultCrossStackReferences": references},
        outdir=str(tmp_path / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    network = ec2.Vpc(storage, "Vpc", restrict_default_security_group=False)
    own = ec2.SecurityGroup(storage, "Servers", vpc=network)
    raw = fsx.CfnFileSystem(
        storage, "Raw", file_system_type="LUSTRE", subnet_ids=[network.private_subnets[0].subnet_id]
    )
    made = theirs(
        storage,
        file_system_id=raw.ref,
        mount_name=raw.attr_lustre_mount_name,
        dns_name=raw.attr_dns_name,
        security_group=own,
        efa_enabled=efa,
    )
    made.allow_client(ec2.SecurityGroup(compute, "Client", vpc=network))
    cdk.CfnOutput(compute, "Name", value=made.dns_name)
    text = json.dumps(Template.from_stack(storage).to_json())
    assert "Fn::ImportValue" not in text
    assert "Fn::GetStackOutput" not in text
    assert resources(storage, INGRESS) == resources(storage, EGRESS) == {}
    assert ports(rules_of(compute, INGRESS)) >= LUSTRE_PORTS
    assert ports(rules_of(compute, EGRESS)) >= LUSTRE_PORTS
    assert compute.dependencies == [storage]
    assert storage.dependencies == []


# -- links


def test_a_link_names_the_file_system_by_its_id(stack: cdk.Stack) -> None:
    made = theirs(stack)
    made.add_link("Data", file_system_path="/datasets", bucket=bucket(stack), bucket_prefix="d", import_events=["new"])
    assert only(stack, ASSOCIATION)["Properties"] == {
        "BatchImportMetaDataOnCreate": False,
        "DataRepositoryPath": "s3://their-bucket/d/",
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemPath": "/datasets",
        "S3": {"AutoImportPolicy": {"Events": ["NEW"]}},
    }
    assert [link.node.path for link in made.links] == ["Stack/Theirs/Data"]


def test_report_18_a_link_goes_with_its_stack_since_it_holds_no_data(stack: cdk.Stack) -> None:
    theirs(stack).add_link("Data", file_system_path="/datasets", bucket=DataLake(stack, "Lake"), bucket_prefix="d/")
    link = only(stack, ASSOCIATION)
    assert (link["DeletionPolicy"], link["UpdateReplacePolicy"]) == ("Delete", "Delete")
    assert only(stack, "AWS::S3::Bucket")["DeletionPolicy"] == "Retain"


def test_report_18_the_rules_of_a_client_go_with_its_stack(app: cdk.App) -> None:
    storage, compute = cdk.Stack(app, "Storage"), cdk.Stack(app, "Compute")
    theirs(storage).allow_client(ec2.SecurityGroup.from_security_group_id(compute, "Client", "sg-0def"))
    for kind in (INGRESS, EGRESS):
        assert {each.get("DeletionPolicy", "Delete") for each in resources(compute, kind).values()} == {"Delete"}


@pytest.mark.parametrize(
    ("types", "said"),
    [
        ({"storage_type": "INTELLIGENT_TIERING"}, "S3 links are not supported"),
        ({"deployment_type": "PERSISTENT_2", "storage_type": "INTELLIGENT_TIERING"}, "S3 links are not supported"),
        ({"file_system_type_version": "2.10"}, "2.10"),
        ({"deployment_type": "SCRATCH_1"}, "SCRATCH_1"),
    ],
)
def test_report_06_a_file_system_that_takes_no_links_is_refused_one(
    stack: cdk.Stack, types: dict[str, str], said: str
) -> None:
    made = theirs(stack, **types)
    with pytest.raises(ValidationError) as caught:
        made.add_link("Data", file_system_path="/datasets", bucket=bucket(stack))
    assert said in str(caught.value)
    assert resources(stack, ASSOCIATION) == {}


@pytest.mark.parametrize(
    "types",
    [{}, {"deployment_type": "PERSISTENT_2"}, {"storage_type": "HDD"}, {"file_system_type_version": "2.12"}],
)
def test_report_06_what_may_take_links_takes_them(stack: cdk.Stack, types: dict[str, str]) -> None:
    theirs(stack, **types).add_link("Data", file_system_path="/datasets", bucket=bucket(stack))
    assert len(resources(stack, ASSOCIATION)) == 1


@pytest.mark.parametrize("path", ["/datasets", "datasets/", "/datasets/v3", "/"])
def test_report_09_a_path_of_a_link_that_is_there_fails_naming_both(stack: cdk.Stack, path: str) -> None:
    made = theirs(stack, existing_links={"/datasets": "s3://other-bucket/"})
    with pytest.raises(ValidationError) as caught:
        made.add_link("Data", file_system_path=path, bucket=bucket(stack), bucket_prefix="a/")
    assert [problem.path for problem in caught.value.problems] == ["file_system_path"]
    assert "/datasets" in str(caught.value)


@pytest.mark.parametrize("prefix", ["", "datasets", "datasets/v3/"])
def test_report_09_a_prefix_of_a_link_that_is_there_fails(stack: cdk.Stack, prefix: str) -> None:
    made = theirs(stack, existing_links={"/datasets": "s3://their-bucket/datasets/"})
    with pytest.raises(ValidationError) as caught:
        made.add_link("Data", file_system_path="/other", bucket=bucket(stack), bucket_prefix=prefix)
    assert [problem.path for problem in caught.value.problems] == ["bucket_prefix"]


def test_report_09_links_that_are_there_count_among_the_eight(stack: cdk.Stack) -> None:
    there = {f"/d{index}": f"s3://other-bucket/p{index}/" for index in range(6)}
    made = theirs(stack, existing_links=there)
    for index in range(2):
        made.add_link(f"L{index}", file_system_path=f"/n{index}", bucket=bucket(stack, f"bucket-{index}"))
    with pytest.raises(ValidationError, match="8"):
        made.add_link("L2", file_system_path="/n2", bucket=bucket(stack, "bucket-2"))
    assert len(resources(stack, ASSOCIATION)) == 2


def test_report_09_nine_links_that_are_there_cannot_be(stack: cdk.Stack) -> None:
    there = {f"/d{index}": f"s3://other-bucket/p{index}/" for index in range(9)}
    (problem,) = refused(stack, existing_links=there).problems
    assert (problem.path, problem.value) == ("existing_links", 9)


@pytest.mark.parametrize("there", [{}, {"/datasets": "s3://their-bucket/datasets/"}])
def test_a_link_beside_those_that_are_there_passes(stack: cdk.Stack, there: dict[str, str]) -> None:
    made = theirs(stack, existing_links=there)
    made.add_link("Data", file_system_path="/results", bucket=bucket(stack), bucket_prefix="results/")
    assert len(resources(stack, ASSOCIATION)) == 1


def test_report_09_links_of_an_existing_file_system_are_made_one_after_another(stack: cdk.Stack) -> None:
    made = theirs(stack)
    for index in range(3):
        made.add_link(f"L{index}", file_system_path=f"/n{index}", bucket=bucket(stack, f"bucket-{index}"))
    found = resources(stack, ASSOCIATION)
    by_path = {each["Properties"]["FileSystemPath"]: name for name, each in found.items()}
    for index in (1, 2):
        assert by_path[f"/n{index - 1}"] in found[by_path[f"/n{index}"]]["DependsOn"]


def one_link(scope: cdk.Stack, made: LustreFileSystem | ImportedLustreFileSystem, name: str) -> None:
    DataRepositoryAssociation(scope, name, file_system=made, file_system_path=f"/{name}", bucket=bucket(scope, name))


@pytest.mark.parametrize("order", ["AAB", "ABB", "BAA", "BBA", "AB", "BA"])
def test_links_of_an_existing_file_system_may_stand_in_several_stacks(
    make_app: Callable[[], cdk.App], order: str
) -> None:
    app = make_app()
    stacks = {name: cdk.Stack(app, name) for name in "AB"}
    made = theirs(stacks["A"])
    for index, name in enumerate(order):
        one_link(stacks[name], made, f"link-{index}")
    app.synth()
    assert len(made.links) == len(order)


@pytest.mark.parametrize("own", [False, True], ids=["existing", "own"])
def test_report_39_links_that_would_make_two_stacks_wait_for_each_other_are_refused(app: cdk.App, own: bool) -> None:
    stacks = {name: cdk.Stack(app, name) for name in "HAB"}
    made = file_system(stacks["H"]) if own else theirs(stacks["H"])
    one_link(stacks["A"], made, "link-0")
    one_link(stacks["B"], made, "link-1")
    with pytest.raises(ValidationError, match="wait for each other"):
        one_link(stacks["A"], made, "link-2")
    app.synth()


@pytest.mark.parametrize("argument", ["file_system_id", "mount_name", "dns_name"])
def test_a_token_reaches_the_template(stack: cdk.Stack, argument: str) -> None:
    text = cdk.CfnParameter(stack, "Text").value_as_string
    made = theirs(stack, **{argument: text})
    assert stack.resolve(getattr(made, argument)) == {"Ref": "Text"}
    made.add_link("Data", file_system_path="/datasets", bucket=bucket(stack))
    Template.from_stack(stack)


def test_report_38_the_same_settings_give_the_same_bytes_in_two_folders(make_app: Callable[[], cdk.App]) -> None:
    texts = []
    for _ in range(2):
        app = make_app()
        stack = cdk.Stack(app, "Stack")
        made = theirs(stack)
        made.add_link("Data", file_system_path="/datasets", bucket=DataLake(stack, "Lake"), bucket_prefix="datasets/")
        made.allow_client(ec2.SecurityGroup(stack, "Client", vpc=vpc(stack)))
        texts.append((Path(app.synth().directory) / "Stack.template.json").read_bytes())
    assert texts[0] == texts[1]
    assert FILE_SYSTEM.encode() not in texts[0]


@pytest.mark.parametrize("efa", [False, True])
def test_nodes_mount_it_like_one_of_our_own(stack: cdk.Stack, efa: bool) -> None:
    made = theirs(stack, efa_enabled=efa, dns_name="hot.example.com")
    fleet = GpuFleet(
        stack,
        "Fleet",
        vpc=vpc(stack),
        subnet=subnet(stack),
        instance_type="p5.48xlarge",
        instance_count=2,
        storage=NodeStorage(stack, "Storage", mounts=[LustreMount(file_system=made, efa=efa)]),
    )
    template = json.dumps(Template.from_stack(stack).to_json())
    assert "hot.example.com" in template
    assert "abcdefgh" in template
    group = stack.resolve(fleet.security_group.security_group_id)
    for kind, other in ((INGRESS, "SourceSecurityGroupId"), (EGRESS, "DestinationSecurityGroupId")):
        rules = rules_of(stack, kind)
        assert ports([rule for rule in rules if rule["GroupId"] == group and rule[other] == "sg-0abc"]) >= LUSTRE_PORTS
        assert ports([rule for rule in rules if rule["GroupId"] == "sg-0abc" and rule[other] == group]) >= LUSTRE_PORTS


def test_efa_to_one_that_is_not_efa_enabled_is_refused(stack: cdk.Stack) -> None:
    mount = LustreMount(file_system=theirs(stack), efa=True)
    with pytest.raises(ValidationError) as caught:
        NodeStorage(stack, "Storage", mounts=[mount])
    assert [problem.path for problem in caught.value.problems] == ["mounts[0].efa"]
