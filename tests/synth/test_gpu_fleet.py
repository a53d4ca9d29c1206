"""The GPU fleet: launch template and Auto Scaling group."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match, Template

from training_storage.catalog import default_catalog, instance_type_from_facts
from training_storage.compute import GpuFleet, ImportedNetwork, LustreMount, NodeStorage, TrainingNetwork
from training_storage.compute.capacity import scale_down_time
from training_storage.errors import ValidationError

TYPES = default_catalog().instance_types
EFA_TYPES = sorted(name for name, row in TYPES.items() if row.has_efa)
EXPECTED_EFA = {
    # EC2 User Guide, efa-acc-inst-types, and DescribeInstanceTypes (field report 24)
    "p4d.24xlarge": 4, "p4de.24xlarge": 4, "p5.48xlarge": 32, "p5e.48xlarge": 32, "p5en.48xlarge": 16,
    "p6-b200.48xlarge": 8, "p6-b300.48xlarge": 16, "p6e-gb200.36xlarge": 8, "g6e.48xlarge": 4, "g5.48xlarge": 1,
    "trn1.32xlarge": 8, "trn1n.32xlarge": 16, "trn2.48xlarge": 16, "p5.4xlarge": 1,
}  # fmt: skip
START, END = datetime(2026, 12, 1, 11, 30, tzinfo=UTC), datetime(2026, 12, 8, 10, 30, tzinfo=UTC)


def given_network(stack: cdk.Stack) -> ImportedNetwork:
    """A network without resources, so that a template holds the fleet alone."""
    return TrainingNetwork.from_attributes(
        stack,
        "Network",
        vpc_id="vpc-0abc",
        subnet_id="subnet-0abc",
        availability_zone_id="use1-az6",
        has_gateway_endpoints=True,
    )


class Made:
    """One fleet in one stack."""

    def __init__(self, app: cdk.App, **options: Any) -> None:
        self.stack = cdk.Stack(app, "Compute", env=cdk.Environment(account="111111111111", region="us-east-1"))
        self.network = given_network(self.stack)
        defaults: dict[str, Any] = {
            "vpc": self.network.vpc,
            "subnet": self.network.subnet,
            "instance_type": "p5en.48xlarge",
            "instance_count": 2,
        }
        self.fleet = GpuFleet(self.stack, "Fleet", **{**defaults, **options})

    @cached_property
    def template(self) -> Template:
        return Template.from_stack(self.stack)

    @property
    def launch(self) -> dict[str, Any]:
        (found,) = self.template.find_resources("AWS::EC2::LaunchTemplate").values()
        return dict(found["Properties"]["LaunchTemplateData"])

    @property
    def group(self) -> dict[str, Any]:
        (found,) = self.template.find_resources("AWS::AutoScaling::AutoScalingGroup").values()
        return dict(found)


def any_image(name: str) -> dict[str, Any]:
    """What a type needs beside its name, whatever its family and way of being sold."""
    row = TYPES[name]
    options: dict[str, Any] = {"instance_type": name, "image": "ami-0123456789abcdef0"}
    if "on-demand" not in row.usage_classes:
        options |= {"purchase": "capacity-block", "capacity_reservation_id": "cr-0123"}
    return options


def refused(app: cdk.App, **options: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Made(app, **options)
    return str(caught.value)


@pytest.fixture(scope="module")
def launches(
    cdk_context: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], dict[str, Any]]:
    """Launch template data of every type, made in one go: with EFA and default image, and in a capacity block."""
    app = cdk.App(
        context=cdk_context | {"@aws-cdk/core:stackResourceLimit": 0},
        outdir=str(tmp_path_factory.mktemp("cdk.out")),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    stack = cdk.Stack(app, "Compute")
    network = given_network(stack)
    fleets: dict[tuple[str, str], GpuFleet] = {}

    def make(kind: str, name: str, **options: Any) -> None:
        fleets[kind, name] = GpuFleet(
            stack,
            f"{kind}-{name}",
            vpc=network.vpc,
            subnet=network.subnet,
            instance_count=2,
            **{"efa": False, **any_image(name), **options},
        )

    for name in sorted(TYPES):
        known = default_catalog().image_parameter(name) is not None
        make("type", name, efa=name in EFA_TYPES, **({"image": "auto"} if known else {}))
        if TYPES[name].capacity_block:
            make("block", name, **block())
    resources = Template.from_stack(stack).to_json()["Resources"]
    return {
        key: resources[stack.resolve(fleet.launch_template.logical_id)]["Properties"]["LaunchTemplateData"]
        for key, fleet in fleets.items()
    }


# Group and template


def test_the_group_has_its_size_and_the_one_subnet(app: cdk.App) -> None:
    made = Made(app, instance_count=3)
    properties = made.group["Properties"]
    assert (properties["MinSize"], properties["DesiredCapacity"], properties["MaxSize"]) == ("3", "3", "3")
    assert len(properties["VPCZoneIdentifier"]) == 1


def test_report_15_a_vpc_with_three_zones_uses_the_subnet_that_is_given(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack", env=cdk.Environment(account="111111111111", region="us-east-1"))
    vpc = ec2.Vpc(stack, "Vpc", max_azs=3)
    subnet = vpc.private_subnets[1]
    GpuFleet(stack, "Fleet", vpc=vpc, subnet=subnet, instance_type="p5en.48xlarge", instance_count=2)
    template = Template.from_stack(stack)
    template.has_resource_properties(
        "AWS::AutoScaling::AutoScalingGroup", {"VPCZoneIdentifier": [stack.resolve(subnet.subnet_id)]}
    )
    (launch,) = template.find_resources("AWS::EC2::LaunchTemplate").values()
    assert all("SubnetId" not in each for each in launch["Properties"]["LaunchTemplateData"]["NetworkInterfaces"])


def test_report_15_two_subnets_fail_naming_the_option(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    vpc = ec2.Vpc(stack, "Vpc")
    with pytest.raises(ValidationError, match="subnet: more than one subnet"):
        GpuFleet(
            stack, "Fleet", vpc=vpc, subnet=vpc.private_subnets, instance_type="g5.xlarge", instance_count=1  # type: ignore[arg-type]
        )  # fmt: skip


def test_report_15_a_file_system_in_another_zone_fails_naming_both(app: cdk.App) -> None:
    from tests.synth._fakes import FakeFileSystem

    stack = cdk.Stack(app, "Stack")
    here = TrainingNetwork.from_attributes(
        stack,
        "Here",
        vpc_id="vpc-1",
        subnet_id="subnet-1",
        availability_zone_id="use1-az6",
        availability_zone="us-east-1a",
    )
    there = TrainingNetwork.from_attributes(
        stack,
        "There",
        vpc_id="vpc-1",
        subnet_id="subnet-2",
        availability_zone_id="use1-az1",
        availability_zone="us-east-1b",
    )
    storage = NodeStorage(stack, "Storage", mounts=[LustreMount(file_system=FakeFileSystem(stack, there.subnet))])
    with pytest.raises(ValidationError) as caught:
        GpuFleet(
            stack,
            "Fleet",
            vpc=here.vpc,
            subnet=here.subnet,
            instance_type="g5.xlarge",
            instance_count=1,
            storage=storage,
        )
    assert "us-east-1a" in str(caught.value)
    assert "us-east-1b" in str(caught.value)


def test_imds_is_version_2_with_two_hops(app: cdk.App) -> None:
    assert Made(app).launch["MetadataOptions"] == {
        "HttpEndpoint": "enabled",
        "HttpTokens": "required",
        "HttpPutResponseHopLimit": 2,
    }


def test_the_root_volume_is_encrypted_gp3_of_200_gib(app: cdk.App) -> None:
    (device,) = Made(app).launch["BlockDeviceMappings"]
    assert device["DeviceName"] == "/dev/xvda"
    assert device["Ebs"] == {"Encrypted": True, "VolumeType": "gp3", "VolumeSize": 200, "DeleteOnTermination": True}


def test_ubuntu_images_have_their_own_root_device(app: cdk.App) -> None:
    (device,) = Made(app, image="ssm:/images/ubuntu-22.04").launch["BlockDeviceMappings"]
    assert device["DeviceName"] == "/dev/sda1"


def test_creation_waits_an_hour_for_each_node(app: cdk.App) -> None:
    assert Made(app, instance_count=3).group["CreationPolicy"]["ResourceSignal"] == {"Count": 3, "Timeout": "PT1H"}


def test_the_time_out_can_be_set(app: cdk.App) -> None:
    made = Made(app, signal_timeout=cdk.Duration.minutes(90))
    assert made.group["CreationPolicy"]["ResourceSignal"]["Timeout"] == "PT1H30M"


def test_the_signal_can_be_left_out(app: cdk.App) -> None:
    made = Made(app, signal=False)
    assert "CreationPolicy" not in made.group
    assert "signal-resource" not in json.dumps(made.launch["UserData"])
    assert "cloudformation:SignalResource" not in json.dumps(statements(made.template))


def test_a_deploy_replaces_no_instance_and_no_size(app: cdk.App) -> None:
    policy = Made(app).group["UpdatePolicy"]
    assert policy == {"AutoScalingScheduledAction": {"IgnoreUnmodifiedGroupSizeProperties": True}}


def test_nodes_wait_for_their_rights_and_rules(app: cdk.App) -> None:
    made = Made(app)
    waits = " ".join(made.group["DependsOn"])
    for name in ("FleetPolicy", "FleetRole", "FleetEfaIngress", "FleetEfaEgress"):
        assert name in waits


# Image


def test_report_23_the_default_image_is_resolved_by_ec2_at_launch(app: cdk.App) -> None:
    made = Made(app)
    # public parameter of the Deep Learning Base GPU image, facts 2.3
    assert made.launch["ImageId"] == (
        "resolve:ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023/latest/ami-id"
    )
    found = Annotations.from_stack(made.stack).find_info("*", Match.string_like_regexp(".*pin it.*"))
    assert len(found) == 1


def test_report_23_an_ami_id_is_a_literal(app: cdk.App) -> None:
    assert Made(app, image="ami-0123456789abcdef0").launch["ImageId"] == "ami-0123456789abcdef0"


def test_report_23_a_parameter_of_ones_own_is_resolved_at_launch(app: cdk.App) -> None:
    assert Made(app, image="ssm:/images/training").launch["ImageId"] == "resolve:ssm:/images/training"


def test_report_23_no_template_parameter_is_an_image(app: cdk.App) -> None:
    template = Made(app).template.to_json()
    kinds = [parameter["Type"] for parameter in template["Parameters"].values()]
    assert not any("AWS::EC2::Image" in kind for kind in kinds)
    assert not any(resource["Type"] == "AWS::EC2::Instance" for resource in template["Resources"].values())


def test_trainium_boots_the_neuron_image(app: cdk.App) -> None:
    assert "/aws/service/neuron/dlami/base/" in Made(app, instance_type="trn1.32xlarge").launch["ImageId"]


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_has_an_image_or_says_that_one_must_be_given(
    make_app: Callable[[], cdk.App], launches: dict[tuple[str, str], dict[str, Any]], name: str
) -> None:
    if default_catalog().image_parameter(name) is None:
        assert "image" in refused(make_app(), **any_image(name) | {"image": "auto"})
    else:
        assert launches["type", name]["ImageId"].startswith("resolve:ssm:/aws/service/")


def test_an_image_in_another_form_is_refused(app: cdk.App) -> None:
    assert "latest" in refused(app, image="latest")


# EFA


@pytest.mark.parametrize("name", EFA_TYPES)
def test_report_24_every_type_with_efa_has_its_layout(
    launches: dict[tuple[str, str], dict[str, Any]], name: str
) -> None:
    interfaces = launches["type", name]["NetworkInterfaces"]
    pairs = [(each["NetworkCardIndex"], each["DeviceIndex"]) for each in interfaces]
    assert sum(each["InterfaceType"] in ("efa", "efa-only") for each in interfaces) == TYPES[name].efa_interfaces
    assert len(set(pairs)) == len(pairs)
    assert max(device for _, device in pairs) <= 1
    assert pairs[0] == (0, 0)
    assert interfaces[0]["InterfaceType"] in ("interface", "efa")
    assert all(each["Groups"] and each["DeleteOnTermination"] is True for each in interfaces)
    assert not any("SubnetId" in each for each in interfaces)


@pytest.mark.parametrize(("name", "count"), EXPECTED_EFA.items())
def test_report_24_published_numbers_of_efa_interfaces(name: str, count: int) -> None:
    assert TYPES[name].efa_interfaces == count


def test_report_24_p6_b300_has_no_efa_on_its_primary_card(app: cdk.App) -> None:
    interfaces = Made(app, instance_type="p6-b300.48xlarge").launch["NetworkInterfaces"]
    assert [each["InterfaceType"] for each in interfaces if each["NetworkCardIndex"] == 0] == ["interface"]
    assert [each["NetworkCardIndex"] for each in interfaces[1:]] == list(range(1, 17))


@pytest.mark.parametrize("name", EFA_TYPES)
def test_report_25_no_interface_asks_for_a_public_address(
    launches: dict[tuple[str, str], dict[str, Any]], name: str
) -> None:
    for each in launches["type", name]["NetworkInterfaces"]:
        assert each.get("AssociatePublicIpAddress", False) is False


@pytest.mark.parametrize("name", ["p5.48xlarge", "g5.8xlarge"])
def test_report_25_a_public_subnet_fails_naming_it_and_the_fix(app: cdk.App, name: str) -> None:
    stack = cdk.Stack(app, "Stack")
    vpc = ec2.Vpc(stack, "Vpc")
    with pytest.raises(ValidationError) as caught:
        GpuFleet(stack, "Fleet", vpc=vpc, subnet=vpc.public_subnets[0], instance_type=name, instance_count=2, efa=True)
    assert "PublicSubnet1" in str(caught.value)
    assert "private subnet" in str(caught.value)


def test_report_25_the_public_subnet_of_our_own_network_fails_too(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    network = TrainingNetwork(stack, "Network", availability_zone_id="use1-az6")
    with pytest.raises(ValidationError, match="public subnet"):
        GpuFleet(
            stack,
            "Fleet",
            vpc=network.vpc,
            subnet=network.vpc.public_subnets[0],
            instance_type="p5.48xlarge",
            instance_count=2,
        )


def test_report_26_with_efa_groups_stand_on_the_interfaces_only(app: cdk.App) -> None:
    launch = Made(app).launch
    assert "SecurityGroupIds" not in launch
    assert "SecurityGroups" not in launch


def test_report_26_without_efa_groups_stand_on_the_template_only(app: cdk.App) -> None:
    launch = Made(app, efa=False).launch
    assert "NetworkInterfaces" not in launch
    assert len(launch["SecurityGroupIds"]) == 1


@pytest.mark.parametrize("way", ["add_security_group", "connections"])
def test_report_26_a_group_added_later_lands_on_every_interface(app: cdk.App, way: str) -> None:
    made = Made(app)
    extra = ec2.SecurityGroup(made.stack, "Extra", vpc=made.network.vpc)
    adder = made.fleet.add_security_group if way == "add_security_group" else made.fleet.connections.add_security_group
    adder(extra)
    assert {len(each["Groups"]) for each in made.launch["NetworkInterfaces"]} == {2}


def test_report_26_a_group_added_later_lands_on_the_template_without_efa(app: cdk.App) -> None:
    made = Made(app, efa=False)
    made.fleet.add_security_group(ec2.SecurityGroup(made.stack, "Extra", vpc=made.network.vpc))
    assert len(made.launch["SecurityGroupIds"]) == 2


NO_EFA = sorted(name for name, row in TYPES.items() if not row.has_efa)


@pytest.mark.parametrize("name", NO_EFA)
def test_report_27_efa_on_a_type_without_it_fails_naming_the_type(make_app: Callable[[], cdk.App], name: str) -> None:
    assert name in refused(make_app(), **any_image(name), efa=True)


def test_report_27_g5_48xlarge_passes(app: cdk.App) -> None:
    assert len(Made(app, instance_type="g5.48xlarge", efa=True).launch["NetworkInterfaces"]) == 2


def test_report_27_an_unknown_type_fails_saying_which_option_to_give(app: cdk.App) -> None:
    message = refused(app, instance_type="p9.48xlarge", efa=True)
    assert "p9.48xlarge" in message
    assert "type_facts" in message


def test_report_27_an_unknown_type_with_its_counts_passes(app: cdk.App) -> None:
    facts = instance_type_from_facts(
        "p9.48xlarge",
        accelerators=8,
        network_cards=8,
        efa_interfaces=8,
        primary_card_has_efa=True,
        network_gbps=3200,
        architecture="x86_64",
    )
    interfaces = Made(app, instance_type="p9.48xlarge", type_facts=facts, image="ami-0123", efa=True).launch[
        "NetworkInterfaces"
    ]
    assert sum(each["InterfaceType"] == "efa-only" for each in interfaces) == 8


def test_an_unknown_type_without_efa_needs_only_an_image(app: cdk.App) -> None:
    assert Made(app, instance_type="p9.48xlarge", image="ami-0123").launch["InstanceType"] == "p9.48xlarge"


@pytest.mark.parametrize(
    ("count", "name", "efa"), [(1, "p5.48xlarge", False), (2, "p5.48xlarge", True), (2, "g5.xlarge", False)]
)
def test_efa_is_on_for_types_that_have_it_from_two_instances_on(app: cdk.App, count: int, name: str, efa: bool) -> None:
    assert Made(app, instance_count=count, instance_type=name).fleet.efa is efa


# Security group


def rules(made: Made, kind: str) -> list[dict[str, Any]]:
    return [found["Properties"] for found in made.template.find_resources(f"AWS::EC2::SecurityGroup{kind}").values()]


@pytest.mark.parametrize("outbound", [True, False])
def test_report_14_efa_rules_name_the_group_both_ways(app: cdk.App, outbound: bool) -> None:
    stack = cdk.Stack(app, "Stack")
    network = given_network(stack)
    group = ec2.SecurityGroup(stack, "Group", vpc=network.vpc, allow_all_outbound=outbound)
    GpuFleet(
        stack,
        "Fleet",
        vpc=network.vpc,
        subnet=network.subnet,
        instance_type="p5.48xlarge",
        instance_count=2,
        security_group=group,
    )
    template = Template.from_stack(stack)
    own = stack.resolve(group.security_group_id)
    template.has_resource_properties(
        "AWS::EC2::SecurityGroupEgress", {"GroupId": own, "DestinationSecurityGroupId": own, "IpProtocol": "-1"}
    )
    template.has_resource_properties(
        "AWS::EC2::SecurityGroupIngress", {"GroupId": own, "SourceSecurityGroupId": own, "IpProtocol": "-1"}
    )


def test_report_14_outbound_stays_open_to_the_world(app: cdk.App) -> None:
    Made(app).template.has_resource_properties(
        "AWS::EC2::SecurityGroup", {"SecurityGroupEgress": [Match.object_like({"CidrIp": "0.0.0.0/0"})]}
    )


def test_without_efa_no_rule_is_added(app: cdk.App) -> None:
    made = Made(app, efa=False)
    assert rules(made, "Egress") == rules(made, "Ingress") == []


# Purchase


def test_on_demand_with_efa_stands_in_a_cluster_placement_group(app: cdk.App) -> None:
    made = Made(app)
    made.template.has_resource_properties("AWS::EC2::PlacementGroup", {"Strategy": "cluster"})
    assert "GroupName" in made.launch["Placement"]


@pytest.mark.parametrize("options", [{"efa": False}, {"placement_group": "none"}, {"purchase": "spot"}])
def test_otherwise_there_is_no_placement_group(app: cdk.App, options: dict[str, Any]) -> None:
    made = Made(app, **options)
    assert "Placement" not in made.launch
    made.template.resource_count_is("AWS::EC2::PlacementGroup", 0)


def test_a_placement_group_that_exists_is_used(app: cdk.App) -> None:
    assert Made(app, placement_group="ours").launch["Placement"] == {"GroupName": "ours"}


def test_spot_has_its_market_option_alone(app: cdk.App) -> None:
    launch = Made(app, purchase="spot").launch
    assert launch["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "CapacityReservationSpecification" not in launch


def test_report_29_on_demand_has_neither_market_nor_reservation(app: cdk.App) -> None:
    launch = Made(app).launch
    assert "InstanceMarketOptions" not in launch
    assert "CapacityReservationSpecification" not in launch


def test_report_29_a_reservation_is_its_target_without_a_preference(app: cdk.App) -> None:
    launch = Made(app, purchase="reservation", capacity_reservation_id="cr-0123").launch
    assert launch["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationId": "cr-0123"}
    }
    assert "InstanceMarketOptions" not in launch


def test_report_29_a_resource_group_takes_the_place_of_the_id(app: cdk.App) -> None:
    arn = "arn:aws:resource-groups:us-east-1:111111111111:group/blocks"
    launch = Made(app, purchase="reservation", capacity_reservation_resource_group_arn=arn).launch
    assert launch["CapacityReservationSpecification"] == {
        "CapacityReservationTarget": {"CapacityReservationResourceGroupArn": arn}
    }


def test_report_29_id_and_group_together_fail(app: cdk.App) -> None:
    message = refused(
        app,
        purchase="reservation",
        capacity_reservation_id="cr-0123",
        capacity_reservation_resource_group_arn="arn:aws:resource-groups:us-east-1:111111111111:group/blocks",
    )
    assert "capacity_reservation_resource_group_arn" in message


def block(**options: Any) -> dict[str, Any]:
    return {
        "purchase": "capacity-block",
        "capacity_reservation_id": "cr-123",
        "start": START,
        "end": END,
        **options,
    }


BLOCK_TYPES = sorted(name for name, row in TYPES.items() if row.capacity_block)


@pytest.mark.parametrize("name", BLOCK_TYPES)
def test_report_28_every_block_type_has_market_type_and_id_and_no_placement(
    launches: dict[tuple[str, str], dict[str, Any]], name: str
) -> None:
    launch = launches["block", name]
    assert launch["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    target = launch["CapacityReservationSpecification"]["CapacityReservationTarget"]
    assert target == {"CapacityReservationId": "cr-123"}
    assert "Placement" not in launch


def test_report_28_a_block_with_a_placement_group_fails_naming_both(app: cdk.App) -> None:
    message = refused(app, **block(placement_group="cluster"))
    assert "capacity-block" in message
    assert "placement group cluster" in message


def test_report_28_a_block_with_spot_fails(app: cdk.App) -> None:
    assert "spot" in refused(app, **block(purchase="spot", start=None, end=None))


def test_report_28_a_block_without_an_id_fails(app: cdk.App) -> None:
    assert "capacity_reservation_id" in refused(app, **block(capacity_reservation_id=None))


def test_a_block_starts_empty_and_waits_for_nothing(app: cdk.App) -> None:
    made = Made(app, **block(instance_count=16))
    properties = made.group["Properties"]
    assert (properties["MinSize"], properties["DesiredCapacity"], properties["MaxSize"]) == ("0", "0", "16")
    assert "CreationPolicy" not in made.group


def test_a_block_is_scaled_up_at_its_start_and_down_at_its_end(app: cdk.App) -> None:
    template = Made(app, **block(instance_count=16)).template
    template.has_resource_properties(
        "AWS::AutoScaling::ScheduledAction", {"StartTime": "2026-12-01T11:30:00Z", "DesiredCapacity": 16}
    )
    template.has_resource_properties(
        "AWS::AutoScaling::ScheduledAction", {"StartTime": "2026-12-08T10:30:00Z", "DesiredCapacity": 0, "MinSize": 0}
    )


@pytest.mark.parametrize(
    ("end", "name", "down"),
    [
        # Blocks end at 11:30 UTC, EC2 terminates from 11:00 (P6e-GB200: 10:30); ours comes 30 minutes before.
        ("2026-12-08T11:30:00+00:00", "p5.48xlarge", "2026-12-08T10:30:00+00:00"),
        ("2026-12-08T10:31:00+00:00", "p5.48xlarge", "2026-12-08T10:30:00+00:00"),
        ("2026-12-08T10:30:00+00:00", "p5.48xlarge", "2026-12-08T10:30:00+00:00"),
        ("2026-12-08T09:00:00+00:00", "p5.48xlarge", "2026-12-08T09:00:00+00:00"),
        ("2026-12-08T12:30:00+01:00", "p5.48xlarge", "2026-12-08T10:30:00+00:00"),
        ("2026-12-07T15:00:00+00:00", "p5.48xlarge", "2026-12-07T15:00:00+00:00"),
        ("2026-12-08T11:30:00+00:00", "p6e-gb200.36xlarge", "2026-12-08T10:00:00+00:00"),
    ],
)
def test_scaling_down_comes_before_ec2_terminates(end: str, name: str, down: str) -> None:
    assert scale_down_time(datetime.fromisoformat(end), TYPES[name]).isoformat() == down


def test_an_end_that_is_moved_gives_a_warning(app: cdk.App) -> None:
    made = Made(app, **block(end=datetime(2026, 12, 8, 11, 30, tzinfo=UTC)))
    found = Annotations.from_stack(made.stack).find_warning("*", Match.string_like_regexp(".*2026-12-08T10:30:00Z.*"))
    assert len(found) == 1


def test_a_block_without_times_is_never_scaled_and_says_so(app: cdk.App) -> None:
    made = Made(app, **block(start=None, end=None))
    found = Annotations.from_stack(made.stack).find_warning("*", Match.string_like_regexp(".*by hand.*"))
    assert len(found) == 1
    made.template.resource_count_is("AWS::AutoScaling::ScheduledAction", 0)


def test_a_type_that_is_no_capacity_block_is_refused(app: cdk.App) -> None:
    assert "g5.48xlarge is not sold as capacity-block" in refused(app, **block(instance_type="g5.48xlarge"))


# Rights


def statements(template: Template) -> list[dict[str, Any]]:
    found = template.find_resources("AWS::IAM::Policy").values()
    return [each for policy in found for each in policy["Properties"]["PolicyDocument"]["Statement"]]


def actions(statement: dict[str, Any]) -> list[str]:
    found = statement["Action"]
    return [found] if isinstance(found, str) else list(found)


def test_no_action_is_a_wildcard_and_no_managed_policy_is_used(app: cdk.App) -> None:
    template = Made(app).template
    assert not any("*" in action for statement in statements(template) for action in actions(statement))
    assert not any(
        "ManagedPolicyArns" in role["Properties"] for role in template.find_resources("AWS::IAM::Role").values()
    )


def test_only_the_message_services_have_no_resource_to_name(app: cdk.App) -> None:
    # Service Authorization Reference: ec2messages and ssmmessages have no resource types
    everywhere = {a for each in statements(Made(app).template) if each["Resource"] == "*" for a in actions(each)}
    assert {action.split(":")[0] for action in everywhere} == {"ec2messages", "ssmmessages"}


def test_the_signal_is_allowed_on_the_own_stack_only(app: cdk.App) -> None:
    found = [each for each in statements(Made(app).template) if "cloudformation:SignalResource" in actions(each)]
    assert [each["Resource"] for each in found] == [{"Ref": "AWS::StackId"}]


def test_the_fleet_is_grantable_and_connectable_for_other_constructs(app: cdk.App) -> None:
    made = Made(app)
    bucket = s3.Bucket(made.stack, "Bucket")
    bucket.grant_read(made.fleet)
    other = ec2.SecurityGroup(made.stack, "Other", vpc=made.network.vpc)
    other.connections.allow_from(made.fleet, ec2.Port.tcp(2049))
    assert any("s3:GetObject*" in actions(each) for each in statements(made.template))
    assert rules(made, "Ingress")


def test_a_role_of_ones_own_gets_what_nodes_need(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    network = given_network(stack)
    role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::111111111111:role/training")
    GpuFleet(
        stack, "Fleet", vpc=network.vpc, subnet=network.subnet, instance_type="g5.xlarge", instance_count=1, role=role
    )
    template = Template.from_stack(stack)
    template.has_resource_properties("AWS::IAM::Policy", {"Roles": ["training"]})
    template.resource_count_is("AWS::IAM::Role", 0)


# User data


def test_user_commands_come_in_a_file_of_their_own(app: cdk.App) -> None:
    made = Made(app, user_commands=["echo one", "echo two"])
    text = json.dumps(made.launch["UserData"])
    assert "user-commands.sh" in text
    assert "echo one\\\\necho two" in text or "echo one\\necho two" in text


@pytest.mark.parametrize("kilobytes", [12, 14])
def test_report_22_what_fits_in_16384_bytes_passes(app: cdk.App, kilobytes: int) -> None:
    assert Made(app, user_commands=["#" + "x" * 1022] * kilobytes).fleet.user_data_bytes <= 16_384


def test_report_22_too_much_fails_naming_size_and_limit(app: cdk.App) -> None:
    # 17 lines of 1024 bytes are 17408 bytes, and our own part comes on top
    message = refused(app, user_commands=["#" + "x" * 1022] * 17)
    (size,) = re.findall(r"got (\d+)", message)
    assert int(size) > 17_408
    assert "16384" in message


def test_report_22_a_token_counts_with_its_longest_value(app: cdk.App) -> None:
    made = Made(app)
    parameter = cdk.CfnParameter(made.stack, "Value").value_as_string
    before = made.fleet.user_data_bytes
    made.fleet.user_data.add_commands(f"echo {parameter}")
    assert made.fleet.user_data_bytes == before + len("\necho ") + 256


def test_report_22_commands_that_are_added_later_are_measured_at_synth(app: cdk.App) -> None:
    made = Made(app)
    made.fleet.user_data.add_commands("#" + "x" * 17_000)
    with pytest.raises(RuntimeError, match="16384"):
        app.synth()


def test_commands_that_are_added_later_are_in_the_template(app: cdk.App) -> None:
    made = Made(app)
    made.fleet.user_data.add_commands("echo later")
    assert "echo later" in json.dumps(made.launch["UserData"])


def test_user_data_of_ones_own_is_taken_as_it_is_and_not_waited_for(app: cdk.App) -> None:
    own = ec2.UserData.for_linux()
    own.add_commands("echo own")
    made = Made(app, user_data=own)
    assert "CreationPolicy" not in made.group
    assert made.launch["UserData"] == {"Fn::Base64": "#!/bin/bash\necho own"}


def test_user_data_of_ones_own_and_commands_exclude_each_other(app: cdk.App) -> None:
    assert "user_data" in refused(app, user_data=ec2.UserData.for_linux(), user_commands=["echo"])


# The whole


def test_all_problems_come_at_once_and_leave_nothing_behind(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    network = given_network(stack)
    with pytest.raises(ValidationError) as caught:
        GpuFleet(
            stack,
            "Fleet",
            vpc=network.vpc,
            subnet=network.subnet,
            instance_type="g5.xlarge",
            instance_count=0,
            efa=True,
            image="latest",
        )
    assert {problem.path for problem in caught.value.problems} == {"instance_count", "efa", "image"}
    assert stack.node.try_find_child("Fleet") is None


TOKENS: dict[str, Callable[[cdk.Stack], Any]] = {
    "instance_type": lambda stack: cdk.CfnParameter(stack, "T").value_as_string,
    "instance_count": lambda stack: cdk.CfnParameter(stack, "T", type="Number").value_as_number,
    "max_instance_count": lambda stack: cdk.CfnParameter(stack, "T", type="Number").value_as_number,
    "root_volume_gib": lambda stack: cdk.CfnParameter(stack, "T", type="Number").value_as_number,
    "capacity_reservation_id": lambda stack: cdk.CfnParameter(stack, "T").value_as_string,
    "capacity_reservation_resource_group_arn": lambda stack: cdk.CfnParameter(stack, "T").value_as_string,
    "image": lambda stack: cdk.CfnParameter(stack, "T").value_as_string,
    "placement_group": lambda stack: cdk.CfnParameter(stack, "T").value_as_string,
    "root_device_name": lambda stack: cdk.CfnParameter(stack, "T").value_as_string,
    "user_commands": lambda stack: [cdk.CfnParameter(stack, "T").value_as_string],
}


ALWAYS = sorted(name for name in TOKENS if not name.startswith("capacity_reservation"))
TARGETS = ["capacity_reservation_id", "capacity_reservation_resource_group_arn"]


@pytest.mark.parametrize(
    ("purchase", "argument"),
    [
        *[("on-demand", argument) for argument in ALWAYS],
        *[("reservation", argument) for argument in [*ALWAYS, *TARGETS]],
        # a block brings its own placement
        *[("capacity-block", argument) for argument in [*ALWAYS, *TARGETS] if argument != "placement_group"],
    ],
)
def test_a_token_in_any_argument_crashes_nothing(app: cdk.App, purchase: str, argument: str) -> None:
    stack = cdk.Stack(app, "Stack")
    network = given_network(stack)
    options: dict[str, Any] = {"instance_type": "p5en.48xlarge", "instance_count": 2, "image": "ami-0123"}
    if purchase != "on-demand" and argument not in TARGETS:
        options["capacity_reservation_id"] = "cr-0123"
    if purchase == "capacity-block":
        options |= {"start": START, "end": END}
    options |= {"purchase": purchase, argument: TOKENS[argument](stack)}
    GpuFleet(stack, "Fleet", vpc=network.vpc, subnet=network.subnet, **options)
    assert '"Ref": "T"' in json.dumps(Template.from_stack(stack).to_json())


def test_the_same_fleet_gives_the_same_template_twice(make_app: Callable[[], cdk.App]) -> None:
    assert Made(make_app()).template.to_json() == Made(make_app()).template.to_json()


def test_the_template_does_not_grow_with_the_fleet(make_app: Callable[[], cdk.App]) -> None:
    small, large = (json.dumps(Made(make_app(), instance_count=n).template.to_json()) for n in (20, 120))
    assert abs(len(large) - len(small)) / len(small) < 0.01


def test_report_39_fleet_and_network_in_two_stacks(app: cdk.App) -> None:
    owner, user = cdk.Stack(app, "Owner"), cdk.Stack(app, "User")
    network = TrainingNetwork(owner, "Network", availability_zone_id="use1-az6")
    GpuFleet(user, "Fleet", vpc=network.vpc, subnet=network.subnet, instance_type="p5en.48xlarge", instance_count=2)
    app.synth()
    assert [dependency.stack_name for dependency in user.dependencies] == ["Owner"]
    assert owner.dependencies == []


def test_the_group_is_the_main_resource(app: cdk.App) -> None:
    made = Made(app)
    assert isinstance(made.fleet.node.find_child("Resource"), autoscaling.CfnAutoScalingGroup)
