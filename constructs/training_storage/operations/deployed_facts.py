"""What AWS says of the storage of a workload besides metrics, as plain data; read-only calls."""

from __future__ import annotations

import json
from typing import Any, Final

from training_storage.node.aws import Aws
from training_storage.operations.diagnosis.saved import read_expected
from training_storage.operations.questions import Unanswered, ask
from training_storage.planner.expectations import Expectations

EXPECTED_PARAMETER: Final = "/training-storage/{}/expected"
"""Parameter of Systems Manager that the stack of monitoring makes, with the workload's name in its middle."""

_FSX_NOTIFICATION: Final = "FSx"
_NO_STACK: Final = "does not exist"


def stack(aws: Aws, name: str) -> dict[str, Any] | None:
    """Return a stack as the API has it; None where there is none.

    Raises:
        Unanswered: CloudFormation does not say.
    """
    try:
        found = ask(
            "cloudformation:DescribeStacks",
            lambda: dict(aws("cloudformation").describe_stacks(StackName=name)["Stacks"][0]),
        )
    except Unanswered as none:
        if _NO_STACK in none.why:
            return None
        raise
    return None if found["StackStatus"] == "DELETE_COMPLETE" else found


def outputs(found: dict[str, Any] | None) -> dict[str, str]:
    """Return the outputs of a stack by their keys."""
    return {each["OutputKey"]: each["OutputValue"] for each in (found or {}).get("Outputs") or ()}


def expected(aws: Aws, name: str) -> Expectations:
    """Return what the plan of the deployment expects.

    Raises:
        Unanswered: There is no parameter, or it cannot be read.
    """
    parameter = EXPECTED_PARAMETER.format(name)
    return ask(
        "ssm:GetParameter",
        lambda: read_expected(json.loads(aws("ssm").get_parameter(Name=parameter)["Parameter"]["Value"])),
    )


def file_system(aws: Aws, file_system_id: str) -> dict[str, Any]:
    """Return a Lustre file system: id, lifecycle, capacity and throughput tier.

    Raises:
        Unanswered: FSx does not say.
    """

    def question() -> dict[str, Any]:
        (found,) = aws("fsx").describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
        lustre = found.get("LustreConfiguration") or {}
        return {
            "id": file_system_id,
            "lifecycle": found["Lifecycle"],
            "storage_capacity_gib": found.get("StorageCapacity"),
            "storage_type": found.get("StorageType"),
            "deployment_type": lustre.get("DeploymentType"),
            "per_unit_storage_throughput": lustre.get("PerUnitStorageThroughput"),
            "throughput_capacity": lustre.get("ThroughputCapacity"),
            "metadata_iops": (lustre.get("MetadataConfiguration") or {}).get("Iops"),
            "efa": lustre.get("EfaEnabled"),
            "message": (found.get("FailureDetails") or {}).get("Message", ""),
        }

    return ask("fsx:DescribeFileSystems", question)


def associations(aws: Aws, file_system_id: str) -> list[dict[str, Any]]:
    """Return the links of a file system in the order of their paths.

    Raises:
        Unanswered: FSx does not say.
    """

    def question() -> list[dict[str, Any]]:
        found = [
            {
                "id": each["AssociationId"],
                "path": each.get("FileSystemPath", ""),
                "source": each.get("DataRepositoryPath", ""),
                "bucket": each.get("DataRepositoryPath", "").removeprefix("s3://").partition("/")[0],
                "lifecycle": each["Lifecycle"],
                "message": (each.get("FailureDetails") or {}).get("Message", ""),
                **{
                    way: list(((each.get("S3") or {}).get(policy) or {}).get("Events") or ())
                    for way, policy in (("import", "AutoImportPolicy"), ("export", "AutoExportPolicy"))
                },
            }
            for each in _all(aws, "describe_data_repository_associations", "Associations", file_system_id)
        ]
        return sorted(found, key=lambda each: str(each["path"]))

    return ask("fsx:DescribeDataRepositoryAssociations", question)


def tasks(aws: Aws, file_system_id: str) -> list[dict[str, Any]]:
    """Return the data repository tasks of a file system, those that go on first, then the newest.

    Raises:
        Unanswered: FSx does not say.
    """

    def question() -> list[dict[str, Any]]:
        found = [
            {
                "id": each["TaskId"],
                "type": each["Type"],
                "lifecycle": each["Lifecycle"],
                "created": each["CreationTime"].timestamp(),
                "paths": list(each.get("Paths") or ()),
                "total": (each.get("Status") or {}).get("TotalCount"),
                "succeeded": (each.get("Status") or {}).get("SucceededCount"),
                "failed": (each.get("Status") or {}).get("FailedCount"),
                "message": (each.get("FailureDetails") or {}).get("Message", ""),
            }
            for each in _all(aws, "describe_data_repository_tasks", "DataRepositoryTasks", file_system_id)
        ]
        going = ("PENDING", "EXECUTING", "CANCELING")
        return sorted(found, key=lambda each: (each["lifecycle"] not in going, -each["created"]))

    return ask("fsx:DescribeDataRepositoryTasks", question)


def _all(aws: Aws, operation: str, key: str, file_system_id: str) -> list[dict[str, Any]]:
    request: dict[str, Any] = {"Filters": [{"Name": "file-system-id", "Values": [file_system_id]}]}
    found: list[dict[str, Any]] = []
    while True:
        page = getattr(aws("fsx"), operation)(**request)
        found += page[key]
        if not page.get("NextToken"):
            return found
        request["NextToken"] = page["NextToken"]


def notification(aws: Aws, bucket: str) -> dict[str, Any]:
    """Return the ids of a bucket's notifications, and whether FSx has its own among them.

    Raises:
        Unanswered: S3 does not say.
    """

    def question() -> dict[str, Any]:
        found = aws("s3").get_bucket_notification_configuration(Bucket=bucket)
        ids = [
            str(each.get("Id", ""))
            for kind in ("TopicConfigurations", "QueueConfigurations", "LambdaFunctionConfigurations")
            for each in found.get(kind) or ()
        ]
        return {"fsx": any(each == _FSX_NOTIFICATION or each.startswith("FSx") for each in ids), "ids": ids}

    return ask("s3:GetBucketNotification", question)
