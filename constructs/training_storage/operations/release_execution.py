"""Executions of the release machine: the one that runs is joined, and followed to its end."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from training_storage.errors import AwsError
from training_storage.node.aws import Aws
from training_storage.operations.aws import aws_errors

POLL_S: Final = 5.0
_NAMES: Final = 10
"""Names that are tried for a new execution."""

REFUSED: Final = "Refused"
"""Error of an execution whose answer is no; its cause is the state as JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution.

    Attributes:
        arn: Its ARN.
        status: ``RUNNING``, ``SUCCEEDED``, ``FAILED``, ``TIMED_OUT`` or ``ABORTED``.
        given: Its input.
        state: What it ended with: its output, or of one that refused the state behind it; empty while it runs.
        error: Error of one that failed; empty otherwise.
        cause: Its cause in words; empty otherwise.
    """

    arn: str
    status: str
    given: Mapping[str, Any]
    state: Mapping[str, Any]
    error: str = ""
    cause: str = ""

    @property
    def is_running(self) -> bool:
        """Whether it goes on."""
        return self.status == "RUNNING"

    @property
    def action(self) -> str:
        """``check``, ``prove`` or ``release``."""
        return str(self.given.get("action", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What an execution is at.

    Attributes:
        step: The step.
        waiting: Whether it waits for the next look of that step.
        message: What the step says of it; empty where it says nothing.
    """

    step: str
    waiting: bool
    message: str


def running(aws: Aws, machine_arn: str) -> Execution | None:
    """Return the execution of a machine that runs; None where none does.

    Args:
        aws: Clients.
        machine_arn: The machine.

    Raises:
        AwsError: AWS refused or failed.
    """
    with aws_errors("ListExecutions"):
        listed = aws("stepfunctions").list_executions(stateMachineArn=machine_arn, statusFilter="RUNNING")
        found = listed["executions"]
    for each in found:  # one that has ended since is none
        execution = describe(aws, each["executionArn"])
        if execution.is_running:
            return execution
    return None


def describe(aws: Aws, arn: str) -> Execution:
    """Return an execution as it is now.

    Args:
        aws: Clients.
        arn: Its ARN.

    Raises:
        AwsError: AWS refused or failed.
    """
    with aws_errors("DescribeExecution"):
        found = aws("stepfunctions").describe_execution(executionArn=arn)
    cause = str(found.get("cause") or "")
    return Execution(
        arn=arn,
        status=found["status"],
        given=_json(found.get("input")),
        state=_json(found.get("output")) or _json(cause),
        error=str(found.get("error") or ""),
        cause=cause,
    )


def start(aws: Aws, machine_arn: str, given: Mapping[str, Any]) -> Execution:
    """Start an execution, or return the one that somebody else started at the same moment.

    Its name follows from the execution before: two that start at once ask for the same name, and one is refused.

    Args:
        aws: Clients.
        machine_arn: The machine.
        given: The input.

    Raises:
        AwsError: AWS refused or failed.
    """
    with aws_errors("ListExecutions"):
        before = aws("stepfunctions").list_executions(stateMachineArn=machine_arn, maxResults=1)["executions"]
    last = before[0]["executionArn"] if before else ""
    for _ in range(_NAMES):
        name = f"{given['action']}-{hashlib.sha256(last.encode()).hexdigest()[:16]}"
        try:
            with aws_errors("StartExecution"):
                answer = aws("stepfunctions").start_execution(
                    stateMachineArn=machine_arn, name=name, input=json.dumps(given, sort_keys=True)
                )
        except AwsError as error:
            if error.code != "ExecutionAlreadyExists":
                raise
            other = running(aws, machine_arn)
            if other is not None:
                return other
            # It has ended, and the listing is late; or a machine of this name was there before, whose names stay
            # taken for 90 days (Step Functions API reference, StartExecution).
            last = name
            failure = error
        else:
            return describe(aws, answer["executionArn"])
    raise failure


def follow(
    aws: Aws,
    execution: Execution,
    *,
    on_look: Callable[[Look], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    poll_s: float = POLL_S,
) -> Execution:
    """Follow an execution to its end.

    Args:
        aws: Clients.
        execution: The execution.
        on_look: Called with each look; nothing is called when left out.
        sleep: Replaced in tests.
        poll_s: Seconds between two looks.

    Returns:
        The execution at its end: it succeeded, or it refused.

    Raises:
        AwsError: AWS refused or failed, or the execution ended in another way.
    """
    while execution.is_running:
        if on_look is not None and (look := _look(aws, execution.arn)) is not None:
            on_look(look)
        sleep(poll_s)
        execution = describe(aws, execution.arn)
    if execution.status == "SUCCEEDED" or execution.error == REFUSED:
        return execution
    look = _look(aws, execution.arn)
    where = f" at step {look.step}" if look is not None else ""
    why = f": {execution.error}: {_short(execution)}" if execution.error else ""
    raise AwsError(
        f"the execution ended {execution.status}{where}{why}; fix: what was done stays done, so run the same command "
        f"again; its history is that of {execution.arn}",
        operation="DescribeExecution",
        code=execution.error or execution.status,
    )


def _look(aws: Aws, arn: str) -> Look | None:
    with aws_errors("GetExecutionHistory"):
        events = aws("stepfunctions").get_execution_history(
            executionArn=arn, reverseOrder=True, maxResults=25, includeExecutionData=True
        )["events"]
    for event in sorted(events, key=lambda each: -int(each.get("id", 0))):
        entered = event.get("stateEnteredEventDetails")
        if entered is None:
            continue
        step, _, what = str(entered["name"]).partition(": ")
        state = _json(entered.get("input"))
        waits = what == "wait"
        return Look(step=step, waiting=waits, message=str(state.get("waiting_for") or "") if waits else "")
    return None


def _short(execution: Execution) -> str:
    """Return the words of a failed function, whose cause is an object with a stack trace."""
    return str(execution.state.get("errorMessage") or execution.cause)[:500]


def _json(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return dict(found) if isinstance(found, dict) else {}
