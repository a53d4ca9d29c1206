"""What a function, a machine or a schedule waits for: the policy of its role, and nothing that it refers to anyway."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import IConstruct


def wait_for_policy(made: IConstruct, role: iam.Role) -> None:
    """Let a resource be made after the policy of its role, so that its first use does not fail.

    The CDK lets L2s wait for role and policy; the role is referred to already, and cfn-lint says so.

    Args:
        made: A resource, or an L2 around one.
        role: Its role, whose rights have all been added.
    """
    resource = made if isinstance(made, cdk.CfnResource) else made.node.default_child
    policy = role.node.find_child("DefaultPolicy").node.default_child
    if isinstance(resource, cdk.CfnResource) and isinstance(policy, cdk.CfnResource):
        resource.add_override("DependsOn", [cdk.Stack.of(made).resolve(policy.logical_id)])
