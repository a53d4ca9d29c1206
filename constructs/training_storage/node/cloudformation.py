"""Custom resources of CloudFormation: the answer that each request waits for, and the state of the stack behind it."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Callable

from .aws import Aws

TRIES = 3
LONGEST_REASON = 1000
"""Letters of a reason: CloudFormation cuts longer ones, and the console shows the first thousand."""
LONGEST_BODY = 4096
"""Bytes of an answer: CloudFormation takes a longer one for a failure (User Guide, custom resource responses)."""


def answer(
    event: Mapping[str, Any],
    status: str,
    reason: str,
    *,
    physical_id: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Tell CloudFormation how a request ended; what does not arrive is tried again, and then ends with an error.

    Args:
        event: The request.
        status: ``SUCCESS`` or ``FAILED``.
        reason: What people read in the events of the stack.
        physical_id: Id of the resource. Left out: the one that it has, or its logical id. Another one after an update
            makes CloudFormation send a Delete for the old.
        sleep: Waits some seconds.

    Raises:
        OSError: CloudFormation could not be reached.
        HTTPException: It was reached, and did not answer in HTTP.
    """
    about = {
        "Status": status,
        "Reason": reason[:LONGEST_REASON] or status,
        "PhysicalResourceId": physical_id or event.get("PhysicalResourceId") or event["LogicalResourceId"],
        "StackId": event["StackId"],
        "RequestId": event["RequestId"],
        "LogicalResourceId": event["LogicalResourceId"],
    }
    # A letter that is not of ASCII takes six bytes or twelve.
    while len(body := json.dumps(about).encode()) > LONGEST_BODY and about["Reason"] != status:
        about["Reason"] = about["Reason"][:-50] or status
    for left in reversed(range(TRIES)):
        # The address is one that CloudFormation signed; it wants no content type.
        request = urllib.request.Request(  # noqa: S310 - CloudFormation signed it
            event["ResponseURL"], data=body, method="PUT", headers={"Content-Type": ""}
        )
        try:
            with urllib.request.urlopen(request, timeout=20):  # noqa: S310 - CloudFormation signed it
                return
        except (OSError, HTTPException):
            if not left:
                raise
            sleep(2)


def state_of(aws: Aws, stack_id: str) -> str:
    """Return the state of a stack, such as ``DELETE_IN_PROGRESS``.

    Args:
        aws: Clients.
        stack_id: Its ARN.

    Raises:
        ClientError: CloudFormation refused or failed.
    """
    return str(aws("cloudformation").describe_stacks(StackName=stack_id)["Stacks"][0]["StackStatus"])
