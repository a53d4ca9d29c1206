"""Stands in front of a file system while its stack is being deleted: without a proof the delete fails, and says why.

CloudFormation calls it as a custom resource that waits for the file system and its links, and so is deleted before
them. An update that takes the file system out of the template is asked the same question. Otherwise Create and Update
only look whether a later Delete will be able to look. It exports nothing, deletes nothing, and answers within minutes
in every case.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Callable

from ...aws import Aws, connect
from ...cloudformation import answer, state_of
from ...release import guard

GUARDED_WHILE = ("DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS")
"""States of a stack in which its file system goes: it is deleted, or its creation is taken back."""

NEVER_STOOD = "never-stood"
"""Physical id of a guard whose creation failed: CloudFormation still sends a Delete for it."""

RIGHTS_S = 90
"""How long rights that were given a moment ago are waited for: IAM takes its time to tell every service."""

TRIES, READ_S = 3, 5
"""A call that hangs takes half a minute with all its tries: Lambda ends the function after ten minutes, and then nobody
answers CloudFormation."""

_LOG = logging.getLogger("release_guard")
_LOG.setLevel(logging.INFO)


def handler(
    event: dict[str, Any],
    _context: Any,
    *,
    aws: Aws | None = None,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Do what CloudFormation asks for, and answer.

    Args:
        event: A custom resource request.
        _context: Context of the run.
        aws: Clients. Left out: those of the function's role.
        clock: The time, in seconds since 1970.
        sleep: Waits some seconds.
    """
    physical_id = event.get("PhysicalResourceId") or event.get("LogicalResourceId")
    try:
        status, reason = _outcome(event, aws or connect(tries=TRIES, read_s=READ_S), clock, sleep)
    except Exception as error:  # whatever it is: without an answer CloudFormation waits for an hour
        _LOG.exception("failed")
        status, reason = "FAILED", f"nothing is deleted: {type(error).__name__}: {error}"
    if status == "FAILED" and event.get("RequestType") == "Create":
        physical_id = NEVER_STOOD
    _LOG.info("%s", json.dumps({"request": event.get("RequestType"), "status": status, "reason": reason}))
    answer(event, status, reason, physical_id=physical_id, sleep=sleep)


def _outcome(
    event: dict[str, Any], aws: Aws, clock: Callable[[], float], sleep: Callable[[float], None]
) -> tuple[str, str]:
    asked = _asked(event["ResourceProperties"])
    if event["RequestType"] == "Update":
        before = event.get("OldResourceProperties") or {}
        if before.get("LogicalId") and before["LogicalId"] != event["ResourceProperties"].get("LogicalId"):
            # The update will delete it: only what is replaced under its own name is kept by CloudFormation.
            return _decided(aws, _asked(before), clock, sleep)
    if not asked.file_system_id:
        return "SUCCESS", "there is no file system to guard"
    if event["RequestType"] != "Delete":
        return _check(event, aws, asked, clock, sleep)
    state = state_of(aws, event["StackId"])
    if state not in GUARDED_WHILE:
        return "SUCCESS", f"the guard goes and {asked.file_system_id} is not its concern: its stack is {state}"
    if event.get("PhysicalResourceId") == NEVER_STOOD and state == "ROLLBACK_IN_PROGRESS":
        return "SUCCESS", "the guard never stood: the creation that failed with it is taken back"
    return _decided(aws, asked, clock, sleep)


def _asked(given: dict[str, Any]) -> guard.Asked:
    return guard.Asked(given["FileSystemId"], given["Workload"], given["LakeBucket"])


def _decided(
    aws: Aws, asked: guard.Asked, clock: Callable[[], float], sleep: Callable[[float], None]
) -> tuple[str, str]:
    said = guard.decide(aws, asked, clock=clock, sleep=sleep)
    if said.override is not None:
        _LOG.warning("override: %s", json.dumps(said.override.to_dict(), sort_keys=True))
    return ("SUCCESS" if said.may_go else "FAILED"), said.reason


def _check(
    event: dict[str, Any],
    aws: Aws,
    asked: guard.Asked,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[str, str]:
    """Look once at everything: a guard that cannot look would hold its file system for ever."""
    began = clock()
    doubt = _doubt(event, aws, asked, clock)
    while doubt and clock() - began < RIGHTS_S:
        sleep(guard.LOOK_S)
        doubt = _doubt(event, aws, asked, clock)
    if not doubt:
        return "SUCCESS", f"{asked.file_system_id} is guarded"
    if event["RequestType"] == "Update" and state_of(aws, event["StackId"]) != "UPDATE_IN_PROGRESS":
        return "SUCCESS", f"an update is taken back, and is not held up: {doubt}"
    return "FAILED", f"the guard of {asked.file_system_id} could never let it go: {doubt}"


def _doubt(event: dict[str, Any], aws: Aws, asked: guard.Asked, clock: Callable[[], float]) -> str:
    try:
        guard.check_rights(aws, asked, clock=clock)
        state_of(aws, event["StackId"])
    except Exception as error:  # whatever it is, a Delete would meet it too
        return str(error)
    return ""
