"""Stacks for tests of the storage constructs, and what is asked of their templates."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Annotations, Match, Template

from training_storage.tiers.lustre import LustreFileSystem

FILE_SYSTEM = "AWS::FSx::FileSystem"
ASSOCIATION = "AWS::FSx::DataRepositoryAssociation"
INGRESS = "AWS::EC2::SecurityGroupIngress"
EGRESS = "AWS::EC2::SecurityGroupEgress"
GROUP = "AWS::EC2::SecurityGroup"
LUSTRE_PORTS = {988, *range(1018, 1024)}  # FSx for Lustre User Guide, limit access with security groups


def vpc(scope: cdk.Stack, construct_id: str = "Vpc") -> ec2.IVpc:
    """A VPC that exists already."""
    return ec2.Vpc.from_vpc_attributes(
        scope, construct_id, vpc_id="vpc-0abc", availability_zones=["us-east-1a", "us-east-1b", "us-east-1c"]
    )


def subnet(scope: cdk.Stack, construct_id: str = "Subnet", subnet_id: str = "subnet-0abc") -> ec2.ISubnet:
    """A subnet that exists already."""
    return ec2.Subnet.from_subnet_attributes(
        scope, construct_id, subnet_id=subnet_id, availability_zone="us-east-1b", route_table_id="rtb-0abc"
    )


def file_system(stack: cdk.Stack, construct_id: str = "Hot", **options: Any) -> LustreFileSystem:
    """The smallest file system, with options changed."""
    given: dict[str, Any] = {"storage_capacity_gib": 1200, **options}
    given.setdefault("vpc", None)
    given.setdefault("subnet", None)
    if given["vpc"] is None:
        given["vpc"] = vpc(stack, f"{construct_id}Vpc")
    if given["subnet"] is None:
        given["subnet"] = subnet(stack, f"{construct_id}Subnet")
    return LustreFileSystem(stack, construct_id, **given)


def resources(stack: cdk.Stack, resource_type: str) -> dict[str, dict[str, Any]]:
    """Resources of one type by logical id."""
    return {name: dict(found) for name, found in Template.from_stack(stack).find_resources(resource_type).items()}


def only(stack: cdk.Stack, resource_type: str) -> dict[str, Any]:
    """The one resource of a type."""
    (found,) = resources(stack, resource_type).values()
    return found


def lustre(stack: cdk.Stack) -> dict[str, Any]:
    """LustreConfiguration of the one file system."""
    configuration: dict[str, Any] = only(stack, FILE_SYSTEM)["Properties"]["LustreConfiguration"]
    return configuration


def warnings(stack: cdk.Stack) -> list[str]:
    """Texts of all warnings on a stack; each ends in its id."""
    return [str(each.entry.data) for each in Annotations.from_stack(stack).find_warning("*", Match.any_value())]


def ports(rules: list[dict[str, Any]]) -> set[int]:
    """TCP ports that rules let through; every port for a rule on all traffic."""
    opened: set[int] = set()
    for rule in rules:
        if rule["IpProtocol"] == "-1":
            return set(range(65_536))
        opened |= set(range(rule["FromPort"], rule["ToPort"] + 1))
    return opened
