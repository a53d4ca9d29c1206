"""Rights that every node has, whatever it mounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage import _nag
from training_storage.tiers._iam import as_json

if TYPE_CHECKING:
    from training_storage.compute.mounts import NodeStorage


def node_statements(stack: cdk.Stack, *, signal: bool) -> list[iam.PolicyStatement]:
    """Return access through Systems Manager, and the signal to the own stack.

    It is what Session Manager and Run Command need of ``AmazonSSMManagedInstanceCore``; that managed policy would let
    nodes read every parameter of the account. The message services have no resources to name (Service Authorization
    Reference, ec2messages and ssmmessages).

    Args:
        stack: Stack of the nodes.
        signal: Whether nodes signal to it.
    """
    instances = _instances(stack)
    statements = [
        iam.PolicyStatement(actions=["ssm:UpdateInstanceInformation"], resources=[instances]),
        iam.PolicyStatement(
            actions=[
                "ec2messages:AcknowledgeMessage",
                "ec2messages:DeleteMessage",
                "ec2messages:FailMessage",
                "ec2messages:GetEndpoint",
                "ec2messages:GetMessages",
                "ec2messages:SendReply",
                "ssmmessages:CreateControlChannel",
                "ssmmessages:CreateDataChannel",
                "ssmmessages:OpenControlChannel",
                "ssmmessages:OpenDataChannel",
            ],
            resources=["*"],
        ),
    ]
    if signal:
        statements.append(iam.PolicyStatement(actions=["cloudformation:SignalResource"], resources=[cdk.Aws.STACK_ID]))
    return statements


def acknowledge_node_statements(policy: iam.Policy) -> None:
    """Acknowledge the wildcards of ``node_statements``, which no narrower resource can replace."""
    _nag.acknowledge(policy, "IAM5[Resource::*]", "ec2messages and ssmmessages actions have no resources to name")
    stack = cdk.Stack.of(policy)
    _nag.acknowledge(
        policy,
        _nag.wildcard(stack, _instances(stack)),
        "an instance reports itself to Systems Manager; its id is not known before it runs",
    )


def warn_where_role_is_fixed(scope: Construct, policy: iam.Policy, storage: NodeStorage | None) -> None:
    """Warn where a role took no policy: nothing that nodes need is granted, and CDK reports every grant as given."""
    stack, resource = cdk.Stack.of(scope), policy.node.default_child
    if not isinstance(resource, iam.CfnPolicy) or stack.resolve(resource.roles):
        return
    needed = ", ".join(as_json(scope, statement) for statement in node_statements(stack, signal=True))
    beside = "" if storage is None else ", s3:GetObject on the bootstrap scripts, and what its mounts and buckets need"
    cdk.Annotations.of(scope).add_warning_v2(
        "training_storage:fleet.roleNotMutable",
        f"the given role takes no policies, so its owner must grant what nodes need: {needed}{beside}",
    )


def _instances(stack: cdk.Stack) -> str:
    return stack.format_arn(service="ec2", resource="instance", resource_name="*")
