"""The network of the reference stacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Annotations, Match, Template

from training_storage.compute import TrainingNetwork
from training_storage.errors import ValidationError


def network(app: cdk.App, **options: Any) -> Template:
    stack = cdk.Stack(app, "Network", env=cdk.Environment(account="111111111111", region="us-east-1"))
    TrainingNetwork(stack, "Network", **{"availability_zone_id": "use1-az6", **options})
    return Template.from_stack(stack)


def services(template: Template, kind: str) -> set[str]:
    found = template.find_resources("AWS::EC2::VPCEndpoint", {"Properties": {"VpcEndpointType": kind}})
    names = set()
    for endpoint in found.values():
        name = endpoint["Properties"]["ServiceName"]
        # With the region as a pseudo parameter the name is a join, and its last part has the service.
        names.add(str(name["Fn::Join"][1][-1] if isinstance(name, dict) else name).rsplit(".", 1)[-1])
    return names


def test_report_20_dns_support_and_host_names_are_on(app: cdk.App) -> None:
    network(app).has_resource_properties(
        "AWS::EC2::VPC", {"CidrBlock": "10.0.0.0/16", "EnableDnsSupport": True, "EnableDnsHostnames": True}
    )


def test_subnets_are_pinned_by_zone_id_and_sized_as_promised(app: cdk.App) -> None:
    # contract, the deployed shape: one private /18 and one public /24 in the zone
    template = network(app)
    template.resource_count_is("AWS::EC2::Subnet", 2)
    for cidr in ("10.0.0.0/18", "10.0.64.0/24"):
        template.has_resource_properties(
            "AWS::EC2::Subnet",
            {"CidrBlock": cidr, "AvailabilityZoneId": "use1-az6", "MapPublicIpOnLaunch": False},
        )


def test_another_range_gives_its_own_subnets(app: cdk.App) -> None:
    template = network(app, cidr="172.16.0.0/16")
    for cidr in ("172.16.0.0/18", "172.16.64.0/24"):
        template.has_resource_properties("AWS::EC2::Subnet", {"CidrBlock": cidr})


def test_private_traffic_leaves_through_nat(app: cdk.App) -> None:
    template = network(app)
    template.resource_count_is("AWS::EC2::NatGateway", 1)
    template.has_resource_properties(
        "AWS::EC2::Route",
        {"NatGatewayId": Match.any_value(), "RouteTableId": {"Ref": Match.string_like_regexp("PrivateRouteTable")}},
    )


def test_report_36_s3_has_a_gateway_endpoint_on_the_compute_route_table(app: cdk.App) -> None:
    template = network(app)
    assert services(template, "Gateway") == {"s3"}
    template.has_resource_properties(
        "AWS::EC2::VPCEndpoint", {"RouteTableIds": [{"Ref": Match.string_like_regexp("PrivateRouteTable")}]}
    )


def test_report_36_express_has_a_second_one(app: cdk.App) -> None:
    assert services(network(app, express=True), "Gateway") == {"s3", "s3express"}


@pytest.mark.parametrize("internet", ["nat", "none"])
def test_report_36_s3_never_has_an_interface_endpoint(app: cdk.App, internet: str) -> None:
    assert "s3" not in services(network(app, internet=internet), "Interface")


def test_without_internet_there_are_eight_interface_endpoints_and_no_way_out(app: cdk.App) -> None:
    # contract, the deployed shape
    template = network(app, internet="none")
    assert services(template, "Interface") == {
        "ssm", "ssmmessages", "ec2messages", "logs", "monitoring", "cloudformation", "kms", "sts",
    }  # fmt: skip
    for kind in ("AWS::EC2::NatGateway", "AWS::EC2::InternetGateway", "AWS::EC2::Route", "AWS::EC2::EIP"):
        template.resource_count_is(kind, 0)
    template.resource_count_is("AWS::EC2::Subnet", 1)


def test_interface_endpoints_are_open_on_443_from_the_vpc_only(app: cdk.App) -> None:
    template = network(app, internet="none")
    (group,) = template.find_resources("AWS::EC2::SecurityGroup").values()
    (rule,) = group["Properties"]["SecurityGroupIngress"]
    assert (rule["CidrIp"], rule["FromPort"], rule["ToPort"]) == ("10.0.0.0/16", 443, 443)
    template.resource_count_is("AWS::EC2::SecurityGroupIngress", 0)


def test_there_is_no_custom_resource(app: cdk.App) -> None:
    template = network(app).to_json()
    kinds = {resource["Type"] for resource in template["Resources"].values()}
    assert not any(kind.startswith("Custom::") or kind == "AWS::Lambda::Function" for kind in kinds)


def test_rejected_traffic_is_logged_for_a_month(app: cdk.App) -> None:
    template = network(app)
    template.has_resource_properties("AWS::EC2::FlowLog", {"ResourceType": "VPC", "TrafficType": "REJECT"})
    template.has_resource_properties("AWS::Logs::LogGroup", {"RetentionInDays": 30})


def test_flow_logs_can_be_left_out(app: cdk.App) -> None:
    network(app, flow_logs=False).resource_count_is("AWS::EC2::FlowLog", 0)


@pytest.mark.parametrize(
    ("options", "value"),
    [
        ({"availability_zone_id": "us-east-1a"}, "us-east-1a"),
        ({"cidr": "10.0.0.0/20"}, "10.0.0.0/20"),
        ({"cidr": "my range"}, "my range"),
        ({"internet": "public"}, "public"),
    ],
)
def test_bad_arguments_are_refused_with_their_value(app: cdk.App, options: dict[str, str], value: str) -> None:
    with pytest.raises(ValidationError, match=value):
        network(app, **options)


def test_all_problems_come_at_once_and_leave_nothing_behind(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    with pytest.raises(ValidationError) as caught:
        TrainingNetwork(stack, "Network", availability_zone_id="us-east-1a", cidr="x")
    assert len(caught.value.problems) == 2
    assert stack.node.try_find_child("Network") is None


@pytest.mark.parametrize("argument", ["availability_zone_id", "cidr"])
def test_a_token_in_any_argument_passes(app: cdk.App, argument: str) -> None:
    stack = cdk.Stack(app, "Stack")
    value = cdk.CfnParameter(stack, "Value").value_as_string
    options: dict[str, Any] = {"availability_zone_id": "use1-az6", argument: value}
    TrainingNetwork(stack, "Network", **options)
    Template.from_stack(stack).resource_count_is("AWS::EC2::Subnet", 2)


def test_vpc_and_subnet_are_usable_in_another_stack(app: cdk.App) -> None:
    owner, user = cdk.Stack(app, "Owner"), cdk.Stack(app, "User")
    made = TrainingNetwork(owner, "Network", availability_zone_id="use1-az6")
    ec2.SecurityGroup(user, "Group", vpc=made.vpc)
    cdk.CfnOutput(user, "Subnet", value=made.subnet.subnet_id)
    Template.from_stack(user).has_resource_properties("AWS::EC2::SecurityGroup", {"VpcId": Match.any_value()})


# A network that is there already


def imported(stack: cdk.Stack, **options: Any) -> Any:
    return TrainingNetwork.from_attributes(
        stack, "Network", vpc_id="vpc-0abc", subnet_id="subnet-0abc", availability_zone_id="use1-az6", **options
    )


def test_report_36_route_tables_of_a_given_vpc_get_the_endpoints(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    imported(stack, route_table_ids=["rtb-0abc"], express=True)
    template = Template.from_stack(stack)
    assert len(template.find_resources("AWS::EC2::VPCEndpoint")) == 2
    template.has_resource_properties(
        "AWS::EC2::VPCEndpoint", {"VpcId": "vpc-0abc", "RouteTableIds": ["rtb-0abc"], "VpcEndpointType": "Gateway"}
    )


def warnings(stack: cdk.Stack) -> list[str]:
    found = Annotations.from_stack(stack).find_warning("*", Match.any_value())
    return [str(entry.entry.data) for entry in found]


def test_report_36_without_route_tables_none_is_made_and_a_warning_says_what_it_costs(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    imported(stack)
    (warning,) = warnings(stack)
    assert "training_storage:network.noGatewayEndpoint" in warning
    assert "NAT gateway" in warning


def test_report_36_a_vpc_that_has_its_endpoints_is_left_alone_in_silence(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    imported(stack, has_gateway_endpoints=True)
    assert warnings(stack) == []


def test_a_given_subnet_keeps_its_id_and_zone(app: cdk.App) -> None:
    taken = imported(cdk.Stack(app, "Stack"), availability_zone="us-east-1a")
    assert taken.subnet.subnet_id == "subnet-0abc"
    assert taken.subnet.availability_zone == "us-east-1a"


def test_a_given_zone_must_be_an_id(app: cdk.App) -> None:
    with pytest.raises(ValidationError, match="us-east-1a"):
        TrainingNetwork.from_attributes(
            cdk.Stack(app, "Stack"), "Network", vpc_id="v", subnet_id="s", availability_zone_id="us-east-1a"
        )


def test_the_same_network_gives_the_same_template_twice(make_app: Callable[[], cdk.App]) -> None:
    assert network(make_app()).to_json() == network(make_app()).to_json()
