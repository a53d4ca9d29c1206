"""Words of a workload file as the CDK has them."""

from __future__ import annotations

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from constructs import Construct

REMOVAL: Final = {"retain": RemovalPolicy.RETAIN, "delete": RemovalPolicy.DESTROY}
"""Removal policies by the words of a workload file."""


WORKLOAD_TAG: Final = "training-storage:workload"
"""Tag of nodes and of our own file system, with the name of the workload."""


def key_of(scope: Construct, construct_id: str, arn: str | None) -> kms.IKey | None:
    """Return the key that an ARN names; None without one."""
    return kms.Key.from_key_arn(scope, construct_id, arn) if arn else None


def group_of(scope: Construct, construct_id: str, group_id: str | None) -> ec2.ISecurityGroup | None:
    """Return the security group that an id names; None without one."""
    return ec2.SecurityGroup.from_security_group_id(scope, construct_id, group_id) if group_id else None


def days_of(seconds: float) -> Duration:
    """Return whole days: loading refuses ages that are none."""
    return Duration.days(round(seconds / 86400))
