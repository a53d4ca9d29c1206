"""State machines of ours: a role with exact rights, a log of every step, and names that are known beforehand."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from training_storage import _nag
from training_storage.lifecycle._waits import wait_for_policy


def make_machine(
    scope: Construct, construct_id: str, *, name: str, body: str, rights: Sequence[iam.PolicyStatement], comment: str
) -> sfn.StateMachine:
    """Make a state machine with its role and its log.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        name: Name of the machine, at most 80 characters.
        body: Definition in the Amazon States Language.
        rights: What it may do, besides writing its log.
        comment: What it is for.
    """
    role = iam.Role(
        scope,
        f"{construct_id}Role",
        assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
        description=comment,
    )
    for statement in rights:
        role.add_to_principal_policy(statement)
    log_group = logs.LogGroup(
        scope,
        f"{construct_id}LogGroup",
        # The prefix keeps the policy of log delivery, which names every group, below its largest size (Step Functions
        # Developer Guide, logging).
        log_group_name=f"/aws/vendedlogs/states/{name}",
        retention=logs.RetentionDays.ONE_YEAR,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    machine = sfn.StateMachine(
        scope,
        construct_id,
        state_machine_name=name,
        definition_body=sfn.DefinitionBody.from_string(body),
        role=role,
        logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
    )
    wait_for_policy(machine, role)
    _nag.acknowledge(
        role, "IAM5[Resource::*]", "Delivery of the machine's log takes no resource (Step Functions, logging)"
    )
    _nag.acknowledge(
        machine,
        "SF2",
        "The history of an execution and the log have every step with its times; traces would say nothing more",
    )
    return machine
