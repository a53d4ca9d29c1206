"""Deletes the stacks of a run, in their order, and says why one does not go."""

from __future__ import annotations

import json
from typing import Any

from ..aws import Aws, code_of
from .context import Context, Refused

PARTS = ("monitoring", "compute", "hot")
"""Stacks of a run, in the order in which they are deleted."""

LONGEST_S = 2 * 3600.0
"""How long one delete may take; a file system of hundreds of terabytes goes within the hour."""
_WAIT_S = 30.0
_TOLD = 600


def find_stack(aws: Aws, name: str) -> dict[str, Any] | None:
    """Return a stack by its name or id; None where it is gone."""
    try:
        stack: dict[str, Any] = aws("cloudformation").describe_stacks(StackName=name)["Stacks"][0]
    except Exception as error:
        if code_of(error) == "ValidationError" and "does not exist" in str(error):
            return None
        raise
    return None if stack["StackStatus"] == "DELETE_COMPLETE" else stack


def resources_of(aws: Aws, stack_id: str) -> list[dict[str, Any]]:
    """Return the resources of a stack, also of one that is gone when asked by its id.

    By pages: DescribeStackResources shows the first hundred and does not say so (CloudFormation API reference).

    Raises:
        ClientError: There is no such stack, or CloudFormation refused or failed.
    """
    found: list[dict[str, Any]] = []
    given = {"StackName": stack_id}
    while True:
        page = aws("cloudformation").list_stack_resources(**given)
        found += page["StackResourceSummaries"]
        if not page.get("NextToken"):
            return found
        given["NextToken"] = page["NextToken"]


def stacks_of(ctx: Context) -> dict[str, dict[str, Any]]:
    """Return the stacks of the run that are there, by part."""
    found = {part: find_stack(ctx.aws, f"{ctx.workload}-{part}") for part in PARTS}
    return {part: stack for part, stack in found.items() if stack is not None}


def delete(ctx: Context, part: str) -> None:
    """Delete one stack and wait for its end; one that is gone is done.

    Only the stack that was there when the release began is deleted: one that was made of the same name since is another
    run's.

    Raises:
        Again: It is under way.
        Refused: CloudFormation could not delete it, or something else is being done to it.
    """
    name = f"{ctx.workload}-{part}"
    stack_id = (ctx.state.get("stacks") or {}).get(part)
    stack = find_stack(ctx.aws, stack_id) if stack_id else None
    if stack is None:
        return
    asked = ctx.state.setdefault("asked", {})
    status = stack["StackStatus"]
    if status == "DELETE_FAILED" and part in asked:
        told = reason(ctx.aws, stack["StackId"]) or "no reason is given"
        del asked[part]
        raise Refused(
            f"stack {name} was not deleted: {told[:_TOLD]}. What is deleted already stays deleted; put this right "
            "and run "
            "the release again, which goes on here",
            [name],
        )
    if not status.endswith("_IN_PROGRESS") or status == "REVIEW_IN_PROGRESS":  # a change set that nobody executed
        try:
            ctx.aws("cloudformation").delete_stack(StackName=stack_id)
        except Exception as error:
            if code_of(error) != "ValidationError":
                raise
            raise Refused(
                f"stack {name} cannot be deleted: {error}. Put this right and run the release again", [name]
            ) from None
        asked[part] = True
    elif status == "DELETE_IN_PROGRESS":
        asked[part] = True
    ctx.wait(
        part,
        _WAIT_S,
        LONGEST_S,
        f"stack {name} is {status} for more than {LONGEST_S / 3600:.0f} hours; see its events, and run the release "
        "again",
        [name],
        now=f"stack {name} is being deleted",
    )


def removable(aws: Aws, stack_id: str, kind: str) -> list[str]:
    """Return the resources of a type that a stack, as it is deployed, deletes together with itself.

    One whose policy cannot be read is not among them, nor one that only the delete of a failed create removes.

    Args:
        aws: Clients.
        stack_id: The stack.
        kind: The type.

    Raises:
        ClientError: CloudFormation refused or failed.
    """
    body: Any = aws("cloudformation").get_template(StackName=stack_id)["TemplateBody"]
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:  # YAML, which the standard library does not read
            return []
    written = body.get("Resources") or {}
    return [
        each["PhysicalResourceId"]
        for each in resources_of(aws, stack_id)
        if each["ResourceType"] == kind
        and each.get("PhysicalResourceId")
        and each["LogicalResourceId"] in written
        and written[each["LogicalResourceId"]].get("DeletionPolicy", "Delete") == "Delete"
    ]


def kept_resources(ctx: Context, part: str) -> list[str]:
    """Return what the delete of a stack left standing because the stack says so."""
    stack_id = (ctx.state.get("stacks") or {}).get(part)
    if not stack_id:
        return []
    try:
        found = resources_of(ctx.aws, stack_id)
    except Exception as error:
        if code_of(error) == "ValidationError":
            return []
        raise
    return [
        f"{each['ResourceType']} {each['PhysicalResourceId']}"
        for each in found
        if each.get("ResourceStatus") == "DELETE_SKIPPED" and each.get("PhysicalResourceId")
    ]


def reason(aws: Aws, stack_id: str) -> str:
    """Return why the last delete of a stack failed: the first failure that is not a consequence of another.

    Empty where CloudFormation names none.
    """
    first = ""
    given: dict[str, Any] = {"StackName": stack_id}
    while True:
        page = aws("cloudformation").describe_stack_events(**given)
        for each in page["StackEvents"]:  # the newest first
            if each.get("ResourceStatus") == "DELETE_FAILED" and each.get("LogicalResourceId") != each["StackName"]:
                told = each.get("ResourceStatusReason") or "no reason is given"
                if "cancelled" not in told.lower():
                    first = f"{each['LogicalResourceId']}: {told}"
            if (
                each.get("ResourceStatus") == "DELETE_IN_PROGRESS"
                and each.get("LogicalResourceId") == each["StackName"]
            ):
                return first
        if not page.get("NextToken"):
            return first
        given["NextToken"] = page["NextToken"]
