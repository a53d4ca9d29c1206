"""Security groups that file systems and fleets share: no rule twice, and no circle between stacks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from tests.synth.storage import EGRESS, GROUP, INGRESS, LUSTRE_PORTS, file_system, ports, subnet, vpc
from training_storage.compute import GpuFleet, LustreMount, NodeStorage
from training_storage.tiers import LustreFileSystem

EFA = {"efa_enabled": True, "storage_capacity_gib": 38_400}


def fleet(stack: cdk.Stack, construct_id: str, hot: LustreFileSystem | None, **options: Any) -> GpuFleet:
    mounts = [LustreMount(file_system=hot)] if hot is not None else []
    options.setdefault("vpc", vpc(stack, f"{construct_id}Vpc"))
    options.setdefault("subnet", subnet(stack, f"{construct_id}Subnet"))
    return GpuFleet(
        stack,
        construct_id,
        instance_type="p5.48xlarge",
        instance_count=2,
        storage=NodeStorage(stack, f"{construct_id}Storage", mounts=mounts),
        **options,
    )


def rules(*stacks: cdk.Stack) -> list[tuple[str, dict[str, Any]]]:
    """Kind and properties of every rule, without its description."""
    found = []
    for stack in stacks:
        template = Template.from_stack(stack)
        for kind in (INGRESS, EGRESS):
            for each in template.find_resources(kind).values():
                properties = dict(each["Properties"])
                properties.pop("Description")
                found.append((kind, properties))
    return found


def assert_no_rule_twice(*stacks: cdk.Stack) -> None:
    """EC2 refuses the second of two equal rules: InvalidPermission.Duplicate."""
    counted = Counter(json.dumps(rule, sort_keys=True) for rule in rules(*stacks))
    assert counted
    assert [rule for rule, count in counted.items() if count > 1] == []


def allowed(stack: cdk.Stack, kind: str, group: str, other: str) -> set[int]:
    key = "SourceSecurityGroupId" if kind == INGRESS else "DestinationSecurityGroupId"
    return ports([rule for of, rule in rules(stack) if of == kind and rule["GroupId"] == group and rule[key] == other])


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Stack")


@pytest.fixture
def shared(stack: cdk.Stack) -> ec2.ISecurityGroup:
    return ec2.SecurityGroup.from_security_group_id(stack, "Shared", "sg-0abc")


@pytest.mark.parametrize("hot_options", [{}, EFA], ids=["tcp", "efa"])
def test_report_14_one_group_for_file_system_and_fleets_has_each_rule_once(
    stack: cdk.Stack, shared: ec2.ISecurityGroup, hot_options: dict[str, Any]
) -> None:
    hot = file_system(stack, security_group=shared, **hot_options)
    fleet(stack, "One", hot, security_group=shared)
    fleet(stack, "Two", hot, security_group=shared)
    assert_no_rule_twice(stack)
    for kind in (INGRESS, EGRESS):
        assert allowed(stack, kind, "sg-0abc", "sg-0abc") >= LUSTRE_PORTS


@pytest.mark.parametrize("options", [{}, EFA], ids=["tcp", "efa"])
def test_two_file_systems_with_one_group_and_a_client_have_each_rule_once(
    stack: cdk.Stack, shared: ec2.ISecurityGroup, options: dict[str, Any]
) -> None:
    client = ec2.SecurityGroup.from_security_group_id(stack, "Client", "sg-0def")
    for name in ("One", "Two"):
        file_system(stack, name, security_group=shared, **options).allow_client(client)
    assert_no_rule_twice(stack)
    for kind in (INGRESS, EGRESS):
        for one, other in (("sg-0abc", "sg-0abc"), ("sg-0abc", "sg-0def"), ("sg-0def", "sg-0abc")):
            assert allowed(stack, kind, one, other) >= LUSTRE_PORTS


def test_both_file_systems_wait_for_the_rules_that_they_share(stack: cdk.Stack, shared: ec2.ISecurityGroup) -> None:
    for name in ("One", "Two"):
        file_system(stack, name, security_group=shared)
    template = Template.from_stack(stack)
    names = {*template.find_resources(INGRESS), *template.find_resources(EGRESS)}
    for each in template.find_resources("AWS::FSx::FileSystem").values():
        assert names <= set(each["DependsOn"])


def test_shared_rules_keep_their_ids_when_one_that_shares_them_goes(make_app: Callable[[], cdk.App]) -> None:
    def rule_ids(*names: str) -> set[str]:
        stack = cdk.Stack(make_app(), "Stack")
        shared = ec2.SecurityGroup.from_security_group_id(stack, "Shared", "sg-0abc")
        for name in names:
            file_system(stack, name, security_group=shared)
        return {name for kind in (INGRESS, EGRESS) for name in Template.from_stack(stack).find_resources(kind)}

    assert rule_ids("Two") == rule_ids("One", "Two")


@pytest.mark.parametrize(
    ("policies", "kept"),
    [(("DESTROY", "DESTROY"), False), (("DESTROY", "RETAIN"), True), (("RETAIN", "DESTROY"), True)],
)
def test_report_18_shared_rules_stay_while_one_file_system_stays(
    stack: cdk.Stack, shared: ec2.ISecurityGroup, policies: tuple[str, str], kept: bool
) -> None:
    for name, policy in zip(("One", "Two"), policies, strict=True):
        file_system(stack, name, security_group=shared, removal_policy=cdk.RemovalPolicy[policy])
    for kind in (INGRESS, EGRESS):
        found = Template.from_stack(stack).find_resources(kind).values()
        assert {each.get("DeletionPolicy", "Delete") == "Retain" for each in found} == {kept}


def test_a_group_imported_twice_is_one_group(stack: cdk.Stack, shared: ec2.ISecurityGroup) -> None:
    again = ec2.SecurityGroup.from_security_group_id(stack, "Again", "sg-0abc")
    hot = file_system(stack, security_group=shared)
    fleet(stack, "Fleet", hot, security_group=again)
    assert_no_rule_twice(stack)


def test_a_rule_of_the_users_own_is_not_made_again(stack: cdk.Stack) -> None:
    mine = ec2.SecurityGroup(stack, "Mine", vpc=vpc(stack), allow_all_outbound=False)
    mine.add_ingress_rule(mine, ec2.Port.all_traffic())
    mine.add_egress_rule(mine, ec2.Port.all_traffic())
    fleet(stack, "Fleet", None, security_group=mine)
    assert_no_rule_twice(stack)


def test_two_fleets_of_two_stacks_with_one_group_have_each_rule_once(app: cdk.App) -> None:
    network, hot_stack = cdk.Stack(app, "Network"), cdk.Stack(app, "Hot")
    group = ec2.SecurityGroup(network, "Group", vpc=vpc(network))
    hot = file_system(hot_stack)
    fleets = [cdk.Stack(app, name) for name in ("One", "Two")]
    for stack in fleets:
        fleet(stack, "Fleet", hot, security_group=group)
    assert_no_rule_twice(*fleets)
    assert Template.from_stack(network).find_resources(INGRESS) == {}


@pytest.mark.parametrize("references", ["strong", "weak"])
@pytest.mark.parametrize("options", [{}, EFA], ids=["tcp", "efa"])
def test_report_39_a_group_of_the_network_stack_makes_no_circle(
    cdk_context: dict[str, Any], tmp_path: Any, references: str, options: dict[str, Any]
) -> None:
    app = cdk.App(
        context={**cdk_context, "@aws-cdk/core:defaultCrossStackReferences": references},
        outdir=str(tmp_path / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    network, hot_stack, compute = (cdk.Stack(app, name) for name in ("Network", "Hot", "Compute"))
    own = ec2.Vpc(network, "Vpc", restrict_default_security_group=False)
    group = ec2.SecurityGroup(network, "Nodes", vpc=own)
    place: dict[str, Any] = {"vpc": own, "subnet": own.private_subnets[0]}
    hot = file_system(hot_stack, **place, **options)
    fleet(compute, "Fleet", hot, security_group=group, **place)
    app.synth()
    assert [each.stack_name for each in network.dependencies] == []
    assert "Compute" not in [each.stack_name for each in hot_stack.dependencies]
    assert allowed_anywhere(compute)


def test_report_39_a_bare_group_of_the_network_stack_gets_its_rules_beside_the_file_system(app: cdk.App) -> None:
    network, hot_stack = cdk.Stack(app, "Network"), cdk.Stack(app, "Hot")
    own = ec2.Vpc(network, "Vpc", restrict_default_security_group=False)
    group = ec2.SecurityGroup(network, "Nodes", vpc=own)
    hot = file_system(hot_stack, vpc=own, subnet=own.private_subnets[0])
    hot.allow_client(group)
    app.synth()
    assert network.dependencies == []
    assert len(Template.from_stack(hot_stack).find_resources(INGRESS)) == 2 + 4


def allowed_anywhere(stack: cdk.Stack) -> bool:
    """Whether rules with a file system of another stack stand in this one: groups of both sides, both ways."""
    pairs = {
        (
            json.dumps(rule["GroupId"]),
            json.dumps(rule.get("SourceSecurityGroupId", rule.get("DestinationSecurityGroupId"))),
        )
        for _, rule in rules(stack)
    }
    return any((other, one) in pairs and one != other for one, other in pairs)


def test_every_group_is_the_users_own(stack: cdk.Stack, shared: ec2.ISecurityGroup) -> None:
    hot = file_system(stack, security_group=shared)
    fleet(stack, "Fleet", hot, security_group=shared)
    assert Template.from_stack(stack).find_resources(GROUP) == {}
