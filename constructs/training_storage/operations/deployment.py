"""What is deployed under a workload's name, read from the outputs of its stacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from training_storage.errors import AwsError, RefusedError
from training_storage.operations.aws import CLIENT_CONFIG, aws_errors

if TYPE_CHECKING:
    from boto3.session import Session

# Keys of the outputs that `stacks` make; a test compares them with the synthesized templates.
FILE_SYSTEM_ID = "FileSystemId"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedHotTier:
    """The hot tier of a deployed workload.

    Attributes:
        name: Workload name.
        file_system_id: ``fs-...``.
    """

    name: str
    file_system_id: str


def find_hot_tier(session: Session, name: str) -> DeployedHotTier:
    """Find the Lustre file system of a workload.

    Args:
        session: Session of the account and region.
        name: Workload name, the prefix of its stacks.

    Raises:
        RefusedError: There is no such stack, it is not in a finished state, or it holds no file system.
        AwsError: AWS refused or failed.
    """
    stack_name = f"{name}-hot"
    client = session.client("cloudformation", config=CLIENT_CONFIG)
    try:
        with aws_errors("DescribeStacks"):
            stacks = client.describe_stacks(StackName=stack_name)["Stacks"]
    except AwsError as error:
        if error.code == "ValidationError":  # CloudFormation's word for "does not exist"
            raise RefusedError(
                f"no stack {stack_name} in {session.region_name}; either the workload {name!r} is not deployed "
                "there, or its plan has no hot tier; fix: check the name and --region"
            ) from error
        raise
    stack = stacks[0]
    status = stack["StackStatus"]
    if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE"):
        raise RefusedError(f"stack {stack_name} is {status}; fix: wait for the deployment to finish, or mend it first")
    outputs = {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
    if FILE_SYSTEM_ID not in outputs:
        raise RefusedError(f"stack {stack_name} has no output {FILE_SYSTEM_ID}: it holds no Lustre file system")
    return DeployedHotTier(name=name, file_system_id=outputs[FILE_SYSTEM_ID])
