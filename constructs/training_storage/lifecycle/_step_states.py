"""States around a function that works steps: a call, what its answer opens, and an end for every way out.

What travels from state to state is small: counts, ids and keys; lists of files lie in the lake.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

_LONGEST_CALL_S: Final = 16 * 60
"""A call that Lambda has ended after 15 minutes has failed by then."""

_BUSY: Final = (
    "Lambda.ClientExecutionTimeoutException",
    "Lambda.SdkClientException",
    "Lambda.ServiceException",
    "Lambda.AWSLambdaException",
    "Lambda.TooManyRequestsException",
)
"""What Lambda answers when the fault is not the function's (Step Functions Developer Guide, error handling)."""


def machine_of(states: Mapping[str, Any], *, start: str, longest_s: int, comment: str) -> str:
    """Return the definition of a machine of steps, with its two ends.

    Args:
        states: States of the steps, which go on to ``done`` and ``refused``.
        start: The first.
        longest_s: Seconds after which an execution is ended: none is endless.
        comment: What it does.
    """
    ends = {
        "done": {"Type": "Succeed"},
        "refused": {
            "Type": "Fail",
            "Comment": "The cause is the state as JSON: what is refused, and what blocks it",
            "Error": "Refused",
            "CausePath": "States.JsonToString($)",
        },
    }
    return json.dumps(
        {"Comment": comment, "StartAt": start, "TimeoutSeconds": longest_s, "States": {**states, **ends}},
        separators=(",", ":"),
    )


def step_states(
    step: str, following: str, function_arn: str, partition: str, *, ends: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the states of one step: ``STEP``, ``STEP: answer`` and ``STEP: wait``.

    The function is called with ``{"step": STEP, "state": ...}`` and returns the next state, whose ``status`` says how
    it goes on: ``next``, ``again`` after ``wait`` seconds, ``done`` or ``refused``; with ``quiet`` that is no failure.

    Args:
        step: Name of the step.
        following: State after it.
        function_arn: The function.
        partition: Partition of the integration's ARN.
        ends: Actions of the execution that end after this step.
    """
    decide, wait = f"{step}: answer", f"{step}: wait"
    goes_on = {"Variable": "$.status", "StringEquals": "next"}
    return {
        step: {
            "Type": "Task",
            "Resource": f"arn:{partition}:states:::lambda:invoke",
            "Parameters": {"FunctionName": function_arn, "Payload": {"step": step, "state.$": "$"}},
            "OutputPath": "$.Payload",
            "TimeoutSeconds": _LONGEST_CALL_S,
            # Every step may be worked again: it looks at what is there first.
            "Retry": [
                {
                    "ErrorEquals": list(_BUSY),
                    "IntervalSeconds": 2,
                    "MaxAttempts": 8,
                    "BackoffRate": 2,
                    "MaxDelaySeconds": 120,
                },
                {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 15, "MaxAttempts": 5, "BackoffRate": 2},
            ],
            "Next": decide,
        },
        decide: {
            "Type": "Choice",
            "Choices": [
                {"Variable": "$.status", "StringEquals": "again", "Next": wait},
                {"Variable": "$.status", "StringEquals": "done", "Next": "done"},
                *(
                    {"And": [goes_on, {"Variable": "$.action", "StringEquals": action}], "Next": "done"}
                    for action in ends
                ),
                {**goes_on, "Next": following},
                # Looked at by a schedule, and not due: nothing has failed.
                {
                    "And": [
                        {"Variable": "$.quiet", "IsPresent": True},
                        {"Variable": "$.quiet", "BooleanEquals": True},
                    ],
                    "Next": "done",
                },
            ],
            # Refused, and whatever else an answer may be: what is not understood deletes nothing.
            "Default": "refused",
        },
        wait: {"Type": "Wait", "SecondsPath": "$.wait", "Next": step},
    }
