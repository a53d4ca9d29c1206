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
DATA_LAKE_BUCKET_NAME = "DataLakeBucketName"
DIRECTORY_BUCKET_NAMES = "DirectoryBucketNames"


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
    outputs = stack_outputs(session, stack_name)
    if outputs is None:
        raise RefusedError(
            f"no stack {stack_name} in {session.region_name}; either the workload {name!r} is not deployed "
            "there, or its plan has no hot tier; fix: check the name, which stands in the workload file, and --region"
        )
    if FILE_SYSTEM_ID not in outputs:
        raise RefusedError(
            f"stack {stack_name} in {session.region_name} has no output {FILE_SYSTEM_ID}: it holds no Lustre file "
            "system; fix: check the name and --region; only a plan with Lustre has a listing or data to load"
        )
    return DeployedHotTier(name=name, file_system_id=outputs[FILE_SYSTEM_ID])


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedBuckets:
    """The buckets of a deployed workload.

    Attributes:
        name: Workload name.
        data_lake: Name of the data lake's bucket.
        directory_buckets: Names of the directory buckets in the order of their index.
    """

    name: str
    data_lake: str
    directory_buckets: tuple[str, ...]


def find_buckets(session: Session, name: str) -> DeployedBuckets:
    """Find the data lake and the directory buckets of a workload.

    Args:
        session: Session of the account and region.
        name: Workload name, the prefix of its stacks.

    Raises:
        RefusedError: There is no such stack, it is not in a finished state, or it holds no directory bucket.
        AwsError: AWS refused or failed.
    """
    hot = stack_outputs(session, f"{name}-hot")
    if hot is None or DIRECTORY_BUCKET_NAMES not in hot:
        found = f"stack {name}-hot holds no directory bucket" if hot is not None else f"there is no stack {name}-hot"
        raise RefusedError(
            f"{found} in {session.region_name}; fix: check the name, which stands in the workload file, and --region; "
            "a workload has directory buckets of its own where its hot tier is express; other places, and those of "
            "express.bucket_names, are given with --from and --to"
        )
    # A bucket that was there already is named by the first stack of the run.
    lake = (stack_outputs(session, f"{name}-lake") or {}) | hot
    if DATA_LAKE_BUCKET_NAME not in lake:
        raise RefusedError(
            f"neither stack {name}-lake nor {name}-hot in {session.region_name} has the output "
            f"{DATA_LAKE_BUCKET_NAME}; fix: give the places with --from and --to"
        )
    return DeployedBuckets(
        name=name,
        data_lake=lake[DATA_LAKE_BUCKET_NAME],
        directory_buckets=tuple(hot[DIRECTORY_BUCKET_NAMES].split(",")),
    )


def find_lake(session: Session, name: str) -> str:
    """Return the name of a workload's data lake, which outlives its runs.

    Args:
        session: Session of the account and region.
        name: Workload name, the prefix of its stacks.

    Raises:
        RefusedError: None of its stacks names one, or a stack is not in a finished state.
        AwsError: AWS refused or failed.
    """
    for part in ("lake", "hot", "compute"):  # a bucket that was there already is named by the first stack of the run
        found = (stack_outputs(session, f"{name}-{part}") or {}).get(DATA_LAKE_BUCKET_NAME)
        if found:
            return found
    raise RefusedError(
        f"no stack {name}-lake, {name}-hot or {name}-compute in {session.region_name} names a data lake: the workload "
        f"{name!r} is not deployed there; fix: check the name, which stands in the workload file, and --region"
    )


def stack_outputs(session: Session, stack_name: str) -> dict[str, str] | None:
    """Return the outputs of a stack by their keys, None where there is no such stack.

    Args:
        session: Session of the account and region.
        stack_name: Name of the stack.

    Raises:
        RefusedError: The stack is not in a finished state.
        AwsError: AWS refused or failed.
    """
    try:
        with aws_errors("DescribeStacks"):
            client = session.client("cloudformation", config=CLIENT_CONFIG)
            stacks = client.describe_stacks(StackName=stack_name)["Stacks"]
    except AwsError as error:
        if error.code == "ValidationError":  # CloudFormation's word for "does not exist"
            return None
        raise
    stack = stacks[0]
    status = stack["StackStatus"]
    if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE", "IMPORT_COMPLETE"):
        raise RefusedError(f"stack {stack_name} is {status}; fix: wait for the deployment to finish, or mend it first")
    return {item["OutputKey"]: item["OutputValue"] for item in stack.get("Outputs", [])}
