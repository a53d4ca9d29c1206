"""S3 Files file systems for tests, and what is asked of their templates."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam

from tests.synth.storage import resources, subnet, vpc
from training_storage.tiers import DataLake, S3FileSystem

FILE_SYSTEM = "AWS::S3Files::FileSystem"
MOUNT_TARGET = "AWS::S3Files::MountTarget"
FILE_SYSTEM_POLICY = "AWS::S3Files::FileSystemPolicy"
POLICY = "AWS::IAM::Policy"
ROLE = "AWS::IAM::Role"
ACCOUNT = "111111111111"
REGION = "us-east-1"
FILE_SYSTEM_ID = "fs-0123456789abcdef0"


def known_stack(app: cdk.App, construct_id: str = "Hot", region: str = REGION) -> cdk.Stack:
    """A stack whose account and region are known."""
    return cdk.Stack(app, construct_id, env=cdk.Environment(account=ACCOUNT, region=region))


def files(stack: cdk.Stack, construct_id: str = "Files", **options: Any) -> S3FileSystem:
    """The smallest file system, over a lake of the same stack, with options changed."""
    given: dict[str, Any] = dict(options)
    if "bucket" not in given:
        given["bucket"] = DataLake(stack, f"{construct_id}Lake")
    if "vpc" not in given:
        given["vpc"] = vpc(stack, f"{construct_id}Vpc")
    if "subnet" not in given:
        given["subnet"] = subnet(stack, f"{construct_id}Subnet")
    return S3FileSystem(stack, construct_id, **given)


def node_role(stack: cdk.Stack, construct_id: str = "Nodes") -> iam.Role:
    """A role of instances."""
    return iam.Role(stack, construct_id, assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))


def client(stack: cdk.Stack, network: ec2.IVpc | None = None, *, open_outbound: bool = False) -> ec2.SecurityGroup:
    """A client's group."""
    return ec2.SecurityGroup(stack, "Client", vpc=network or vpc(stack), allow_all_outbound=open_outbound)


def statements(stack: cdk.Stack, logical_id: str, resource_type: str = POLICY) -> list[dict[str, Any]]:
    """Statements of the policies whose logical id begins so."""
    return [
        statement
        for name, found in resources(stack, resource_type).items()
        if name.startswith(logical_id)
        for statement in found["Properties"].get("PolicyDocument", found["Properties"].get("Policy"))["Statement"]
    ]


def actions(statement: dict[str, Any]) -> list[str]:
    """Actions of a statement, as a list."""
    listed = statement["Action"]
    return listed if isinstance(listed, list) else [listed]


def text(value: object) -> str:
    """A template value with its references, as one line."""
    if isinstance(value, dict) and set(value) == {"Fn::Join"}:
        return "".join(map(text, value["Fn::Join"][1]))
    if isinstance(value, dict) and set(value) == {"Ref"}:
        return f"<{value['Ref']}>"
    if isinstance(value, dict) and set(value) == {"Fn::GetAtt"}:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    return value if isinstance(value, str) else json.dumps(value)
