"""Findings of cdk-nag that are right as they are, acknowledged where the resource is made, each with its reason.

An acknowledgement without the plugin changes nothing in the template.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct


def acknowledge(construct: IConstruct, rule: str, reason: str) -> None:
    """Acknowledge one finding of the AwsSolutions pack on a construct and everything below it.

    Args:
        construct: Where the finding is.
        rule: Rule id such as ``S1``, or with its evidence ``IAM5[Resource::*]``.
        reason: Why it is right as it is.
    """
    cdk.Validations.of(construct).acknowledge(
        cdk.Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason)
    )


def wildcard(stack: cdk.Stack, resource: str) -> str:
    """Return the IAM5 rule id for a resource that ends in a wildcard.

    Args:
        stack: Stack that holds the policy.
        resource: ARN with tokens of that stack.
    """
    return f"IAM5[Resource::{flat(stack, resource)}]"


def flat(stack: cdk.Stack, value: str) -> str:
    """Return text with its references as cdk-nag writes them: ``<AWS::AccountId>``, or the name of an export."""
    return _flat(stack.resolve(value))


def _flat(value: object) -> str:
    if isinstance(value, dict) and len(value) == 1:
        ((function, argument),) = value.items()
        if function == "Ref":
            return f"<{argument}>"
        if function == "Fn::GetAtt":
            return f"<{'.'.join(argument)}>"
        if function == "Fn::Join":
            return str(argument[0]).join(_flat(part) for part in argument[1])
        if function == "Fn::ImportValue":
            return _flat(argument)
    return str(value)
