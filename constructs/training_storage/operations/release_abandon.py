"""The override: a run is deleted although nothing proves that it is in S3, because somebody says so and says why."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from training_storage.errors import AwsError, RefusedError
from training_storage.node import places
from training_storage.node.aws import Aws
from training_storage.node.checkpoints import status as statuses
from training_storage.node.release import proof as proofs
from training_storage.node.release.stacks import reason as why
from training_storage.operations.aws import aws_errors
from training_storage.operations.release import Release
from training_storage.operations.release_execution import running
from training_storage.operations.release_find import Deployed, describe_stack, find_deployed

POLL_S: Final = 10.0
OVERRIDE_S: Final = 3600
"""How long an override lets the guard pass (``node.release.guard``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """What is given up, as far as anybody knows.

    Attributes:
        deployed: What is deployed.
        unsaved: Checkpoints that were due in the lake and are not there, as the agent of the nodes saw it last.
        seen_at: When it saw that, seconds since 1970; None where it never reported.
        by: Who asks, as an ARN.
    """

    deployed: Deployed
    unsaved: tuple[str, ...]
    seen_at: float | None
    by: str


def abandon(
    aws: Aws,
    name: str,
    region: str,
    *,
    reason: str,
    confirm: Callable[[Loss], bool],
    on_delete: Callable[[str, str], None] | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    poll_s: float = POLL_S,
) -> Release:
    """Write an override into the lake, and delete the stacks of a run with the rights of the caller.

    The override stays in the lake as a record. It counts for an hour, for this hot tier; an interrupted call is run
    again.

    Args:
        aws: Clients.
        name: The workload's name.
        region: Region of the clients.
        reason: Why, for the record.
        confirm: Asked with what is given up; what it denies is not deleted.
        on_delete: Called with the name and status of each stack on each look.
        clock: The time, seconds since 1970.
        sleep: Replaced in tests.
        poll_s: Seconds between two looks.

    Raises:
        RefusedError: Nothing is deployed, a release is running, or CloudFormation could not delete a stack.
        AwsError: AWS refused or failed.
    """
    deployed = find_deployed(aws, name, region)
    other = running(aws, deployed.machine_arn)
    if other is not None and "idle_hours" not in other.given:
        raise RefusedError(
            f"a release of {name} is running, which abandoning would cut off: {other.arn}; fix: run `training-storage "
            f"release {name}` to follow it to its end, or stop that execution, then abandon"
        )
    if not deployed.stacks:
        return Release(deployed=deployed, outcome="nothing-to-release", state={})
    with aws_errors("GetCallerIdentity"):
        by = str(aws("sts").get_caller_identity()["Arn"])
    with aws_errors("GetObject"):
        status = statuses.read(aws, deployed.lake_bucket, deployed.hot_tier_id) or {}
    loss = Loss(
        deployed=deployed,
        unsaved=tuple(str(each) for each in status.get("unsaved") or ()),
        seen_at=status.get("written_at"),
        by=by,
    )
    if not confirm(loss):
        return Release(deployed=deployed, outcome="not-confirmed", state={})
    now = clock()
    override = proofs.Proof(
        kind="override",
        workload=name,
        hot_tier_id=deployed.hot_tier_id,
        written_at=now,
        valid_from=now,
        by=by,
        reason=reason,
    )
    with aws_errors("PutObject"):
        proofs.write(aws, deployed.lake_bucket, override)
    for stack_name in deployed.stacks:
        _delete(aws, stack_name, on_delete, sleep, poll_s)
    return Release(deployed=deployed, outcome="abandoned", state={"proof": override.to_dict()})


def override_uri(deployed: Deployed) -> str:
    """Return where the override lies."""
    return f"s3://{deployed.lake_bucket}/{places.proof_key(deployed.hot_tier_id)}"


def _delete(
    aws: Aws,
    stack_name: str,
    on_delete: Callable[[str, str], None] | None,
    sleep: Callable[[float], None],
    poll_s: float,
) -> None:
    stack = describe_stack(aws, stack_name)
    if stack is None:
        return
    stack_id = str(stack.get("StackId") or stack_name)
    if stack["StackStatus"] != "DELETE_IN_PROGRESS":
        with aws_errors("DeleteStack"):
            aws("cloudformation").delete_stack(StackName=stack_id)
        stack = {**stack, "StackStatus": "DELETE_IN_PROGRESS"}
    while stack is not None and stack["StackStatus"] == "DELETE_IN_PROGRESS":
        if on_delete is not None:
            on_delete(stack_name, str(stack["StackStatus"]))
        sleep(poll_s)
        stack = describe_stack(aws, stack_id)
    if stack is not None:
        raise RefusedError(
            f"stack {stack_name} is {stack['StackStatus']}: {_reason(aws, stack_id, stack)}; fix: put that right and "
            "run the same command again: what is deleted stays deleted"
        )
    if on_delete is not None:
        on_delete(stack_name, "DELETE_COMPLETE")


def _reason(aws: Aws, stack_id: str, stack: Mapping[str, Any]) -> str:
    try:
        with aws_errors("DescribeStackEvents"):
            told = why(aws, stack_id)
    except AwsError:
        told = ""
    return told or str(stack.get("StackStatusReason") or "CloudFormation gives no reason")
