"""What the network construct makes and what a plan counts of it are the same."""

from __future__ import annotations

from typing import Literal

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tests.unit._cost import bill
from training_storage.compute import TrainingNetwork

HOURS_PER_MONTH = 730


@pytest.mark.parametrize("internet", ["nat", "none"])
def test_every_gateway_address_and_interface_endpoint_is_on_the_bill(
    app: cdk.App, internet: Literal["nat", "none"]
) -> None:
    stack = cdk.Stack(app, "Network", env=cdk.Environment(account="111111111111", region="us-east-1"))
    TrainingNetwork(stack, "Network", availability_zone_id="use1-az6", internet=internet)
    template = Template.from_stack(stack)
    endpoints = template.find_resources("AWS::EC2::VPCEndpoint", {"Properties": {"VpcEndpointType": "Interface"}})
    made = {
        "nat.gateway": len(template.find_resources("AWS::EC2::NatGateway")),
        "vpc.public_ipv4": len(template.find_resources("AWS::EC2::EIP")),
        # An endpoint is paid in each zone that it has a subnet in.
        "vpc.interface_endpoint": sum(len(each["Properties"]["SubnetIds"]) for each in endpoints.values()),
    }
    counted = {
        line.item: line.quantity / HOURS_PER_MONTH
        for line in bill({"network.internet": internet}).lines
        if line.kind == "network"
    }
    assert counted == {item: count for item, count in made.items() if count}
