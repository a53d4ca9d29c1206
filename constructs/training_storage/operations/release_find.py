"""What of a workload is deployed, and the machine that releases it: read as it is, also half deleted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from training_storage.errors import AwsError, RefusedError
from training_storage.node.aws import Aws
from training_storage.node.release.stacks import PARTS, resources_of
from training_storage.operations.aws import aws_errors
from training_storage.operations.deployment import DATA_LAKE_BUCKET_NAME, FILE_SYSTEM_ID

RELEASE_STATE_MACHINE_ARN: Final = "ReleaseStateMachineArn"
"""Output of the lake's stack; a test compares it with the synthesized templates."""

RUN_PARTS: Final = PARTS
"""Stacks of one run, in the order in which they are deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """What of a workload is deployed.

    Attributes:
        name: The workload's name.
        region: Where.
        lake_bucket: The data lake.
        machine_arn: The state machine that releases runs.
        stacks: Status by name of the stacks of the run that are there, in the order in which they are deleted.
        hot_tier_id: ``fs-...``, or the workload's name where the hot stack makes no file system.
    """

    name: str
    region: str
    lake_bucket: str
    machine_arn: str
    stacks: Mapping[str, str]
    hot_tier_id: str


def find_deployed(aws: Aws, name: str, region: str) -> Deployed:
    """Find the stacks of a workload and its release machine.

    Args:
        aws: Clients.
        name: The workload's name, the prefix of its stacks.
        region: Region of the clients, for messages.

    Raises:
        RefusedError: Nothing of that name is deployed, or no machine that releases it.
        AwsError: AWS refused or failed.
    """
    run = {part: stack for part in RUN_PARTS if (stack := describe_stack(aws, f"{name}-{part}")) is not None}
    lake = describe_stack(aws, f"{name}-lake")
    if lake is None and not run:
        raise RefusedError(
            f"no stack of a workload {name!r} in {region}: neither {name}-lake nor {', '.join(_named(name))}; fix: "
            "check the name, which stands in the workload file, and --region and --profile"
        )
    found = _outputs(lake) if lake is not None else {}
    missing = {RELEASE_STATE_MACHINE_ARN, DATA_LAKE_BUCKET_NAME} - set(found)
    if missing:
        what = f"has no output {' and '.join(sorted(missing))}" if lake is not None else "is not there"
        raise RefusedError(
            f"stack {name}-lake in {region} {what}, so that nothing can prove that the run is in S3: it was deployed "
            f"by an older version, or its deployment has not ended; fix: cdk deploy {name}-lake -c workload=FILE, then "
            "run the release again; no run has to stop for that"
        )
    hot = _outputs(run["hot"]) if "hot" in run else {}
    if "hot" in run and not hot:
        # A stack whose creation failed has no outputs; what it made is still there where a guard kept it.
        hot = _made(aws, str(run["hot"].get("StackId") or f"{name}-hot"))
    return Deployed(
        name=name,
        region=region,
        lake_bucket=found[DATA_LAKE_BUCKET_NAME],
        machine_arn=found[RELEASE_STATE_MACHINE_ARN],
        stacks={f"{name}-{part}": str(stack["StackStatus"]) for part, stack in run.items()},
        hot_tier_id=hot.get(FILE_SYSTEM_ID, name),
    )


def describe_stack(aws: Aws, stack_name: str) -> Mapping[str, Any] | None:
    """Return a stack in the form of the API, whatever its status; None where there is none.

    Args:
        aws: Clients.
        stack_name: Name of the stack.

    Raises:
        AwsError: AWS refused or failed.
    """
    try:
        with aws_errors("DescribeStacks"):
            (stack,) = aws("cloudformation").describe_stacks(StackName=stack_name)["Stacks"]
    except AwsError as error:
        if error.code == "ValidationError":  # CloudFormation's word for "does not exist"
            return None
        raise
    return None if stack["StackStatus"] == "DELETE_COMPLETE" else dict(stack)


def _made(aws: Aws, stack_id: str) -> dict[str, str]:
    with aws_errors("ListStackResources"):
        found = resources_of(aws, stack_id)
    ids = [
        str(each["PhysicalResourceId"])
        for each in found
        if each["ResourceType"] == "AWS::FSx::FileSystem"
        and each.get("PhysicalResourceId")
        and each.get("ResourceStatus") not in ("DELETE_COMPLETE", "DELETE_SKIPPED")
    ]
    return {FILE_SYSTEM_ID: ids[0]} if ids else {}


def _outputs(stack: Mapping[str, Any]) -> dict[str, str]:
    return {each["OutputKey"]: each["OutputValue"] for each in stack.get("Outputs") or ()}


def _named(name: str) -> list[str]:
    return [f"{name}-{part}" for part in RUN_PARTS]
