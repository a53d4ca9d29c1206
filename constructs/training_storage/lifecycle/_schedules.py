"""Schedules of EventBridge Scheduler: a name, a role with exact rights, and retries that end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage.lifecycle._waits import wait_for_policy

if TYPE_CHECKING:
    from aws_cdk import aws_scheduler as scheduler

_LONGEST_S: Final = 6 * 3600
_TRIES: Final = 60
"""Scheduler backs off between tries; a call that is still refused after six hours is left to the next turn."""


def make_schedule(
    scope: Construct,
    *,
    name: str,
    description: str,
    expression: str,
    target_arn: str,
    given: Mapping[str, object],
    rights: Sequence[iam.PolicyStatement],
) -> scheduler.CfnSchedule:
    """Make a schedule of the default group with its role.

    Args:
        scope: Parent; the schedule takes its id ``Resource``, so that there is one a construct.
        name: Name of the schedule, at most 64 characters.
        description: What it is for.
        expression: ``rate(...)`` or ``at(...)`` in UTC.
        target_arn: What is called.
        given: Input of the call.
        rights: What the role may do.
    """
    # Loading it takes a tenth of a second, and most stacks have no schedule.
    from aws_cdk import aws_scheduler as scheduler

    stack = cdk.Stack.of(scope)
    role = iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal(
            "scheduler.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": stack.account}}
        ),
        description=description,
    )
    for statement in rights:
        role.add_to_principal_policy(statement)
    schedule = scheduler.CfnSchedule(
        scope,
        "Resource",
        name=name,
        description=description,
        schedule_expression=expression,
        schedule_expression_timezone="UTC",
        flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
        target=scheduler.CfnSchedule.TargetProperty(
            arn=target_arn,
            role_arn=role.role_arn,
            input=stack.to_json_string(dict(given)),
            retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                maximum_event_age_in_seconds=_LONGEST_S, maximum_retry_attempts=_TRIES
            ),
        ),
    )
    # The first turn may come at once; the policy of the role, which stands beside it, has to be there by then.
    wait_for_policy(schedule, role)
    return schedule
