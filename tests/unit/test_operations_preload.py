"""The import of the listing as a task, call by call against the service model of FSx (botocore Stubber)."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from training_storage.errors import AwsError, RefusedError
from training_storage.operations import preload
from training_storage.operations.tasks import TaskStatus

FILE_SYSTEM = "fs-0123456789abcdef0"
ASSOCIATIONS = {"/datasets": "dra-0123456789abcdef1", "/checkpoints": "dra-0123456789abcdef2"}
TASK, OTHER = "task-0123456789abcdef0", "task-0123456789abcdef9"
NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
FILTER = [{"Name": "file-system-id", "Values": [FILE_SYSTEM]}]


class Aws:
    """A session whose clients are stubbed."""

    region_name = "us-east-1"

    def __init__(self) -> None:
        options: dict[str, Any] = {
            "region_name": "us-east-1", "aws_access_key_id": "testing", "aws_secret_access_key": "testing",
        }  # fmt: skip
        self.clients = {name: boto3.client(name, **options) for name in ("fsx", "cloudformation")}
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        for stub in self.stubs.values():
            stub.activate()

    def client(self, name: str, **_: Any) -> Any:
        return self.clients[name]

    def stack(self, status: str = "CREATE_COMPLETE", outputs: dict[str, str] | None = None) -> None:
        shown = {"FileSystemId": FILE_SYSTEM} if outputs is None else outputs
        self.stubs["cloudformation"].add_response(
            "describe_stacks",
            {
                "Stacks": [
                    {
                        "StackName": "vision-hot",
                        "CreationTime": NOW,
                        "StackStatus": status,
                        "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in shown.items()],
                    }
                ]
            },
            {"StackName": "vision-hot"},
        )

    def links(self, *links: dict[str, Any]) -> None:
        self.stubs["fsx"].add_response(
            "describe_data_repository_associations", {"Associations": list(links)}, {"Filters": FILTER}
        )

    def tasks(self, *tasks: dict[str, Any]) -> None:
        self.stubs["fsx"].add_response(
            "describe_data_repository_tasks", {"DataRepositoryTasks": list(tasks)}, {"Filters": FILTER}
        )

    def look(self, task: dict[str, Any]) -> None:
        self.stubs["fsx"].add_response(
            "describe_data_repository_tasks", {"DataRepositoryTasks": [task]}, {"TaskIds": [task["TaskId"]]}
        )

    def create(self, answer: dict[str, Any], paths: list[str]) -> None:
        self.stubs["fsx"].add_response(
            "create_data_repository_task",
            {"DataRepositoryTask": answer},
            {
                "FileSystemId": FILE_SYSTEM,
                "Type": "IMPORT_METADATA_FROM_REPOSITORY",
                "Paths": paths,
                "Report": {"Enabled": False},
            },
        )

    def run(self, **options: Any) -> tuple[preload.ImportResult, ...]:
        self.slept: list[float] = []
        return preload.import_metadata(self, "vision", sleep=self.slept.append, **options)  # type: ignore[arg-type]


@pytest.fixture
def aws() -> Iterator[Aws]:
    made = Aws()
    yield made
    for stub in made.stubs.values():
        stub.assert_no_pending_responses()


def link(path: str = "/datasets", lifecycle: str = "AVAILABLE") -> dict[str, Any]:
    return {
        "AssociationId": ASSOCIATIONS[path],
        "FileSystemId": FILE_SYSTEM,
        "FileSystemPath": path,
        "DataRepositoryPath": f"s3://lake{path}/",
        "Lifecycle": lifecycle,
    }


def task(lifecycle: str, *, done: int = 0, failed: int = 0, task_id: str = TASK, **extra: Any) -> dict[str, Any]:
    return {
        "TaskId": task_id,
        "Lifecycle": lifecycle,
        "Type": "IMPORT_METADATA_FROM_REPOSITORY",
        "CreationTime": NOW,
        "FileSystemId": FILE_SYSTEM,
        "Paths": ["s3://lake/datasets/"],
        "Status": {"TotalCount": 10, "SucceededCount": done, "FailedCount": failed},
        **extra,
    }


def test_imports_a_link_and_follows_it_to_the_end(aws: Aws) -> None:
    aws.stack()
    aws.links(link())
    aws.tasks()
    aws.create(task("PENDING"), ["s3://lake/datasets/"])
    aws.look(task("EXECUTING", done=4))
    aws.look(task("SUCCEEDED", done=10))
    seen: list[TaskStatus] = []
    (result,) = aws.run(on_progress=lambda _, status: seen.append(status))
    assert [status.succeeded for status in seen] == [4, 10]
    assert result.task.is_clean


def test_joins_the_task_that_an_interrupted_run_left(aws: Aws) -> None:
    aws.stack()
    aws.links(link())
    aws.tasks(task("EXECUTING", done=7))
    aws.look(task("SUCCEEDED", done=10))
    started: list[bool] = []
    aws.run(on_start=lambda *a: started.append(a[2]))
    assert started == [False]


def test_waits_for_another_task_and_never_cancels_it(aws: Aws) -> None:
    other = task("EXECUTING", task_id=OTHER, Type="EXPORT_TO_REPOSITORY", Paths=["checkpoints"])
    aws.stack()
    aws.links(link())
    aws.tasks(other)
    aws.tasks()
    aws.create(task("PENDING"), ["s3://lake/datasets/"])
    aws.look(task("SUCCEEDED", done=10))
    queued: list[str] = []
    aws.run(on_queue=lambda _, status: queued.append(status.task_id))
    assert queued == [OTHER]
    assert len(aws.slept) == 1


def test_a_task_that_slips_in_between_is_waited_for(aws: Aws) -> None:
    aws.stack()
    aws.links(link())
    aws.tasks()
    aws.stubs["fsx"].add_client_error("create_data_repository_task", "DataRepositoryTaskExecuting", "one at a time")
    aws.tasks(task("EXECUTING", task_id=OTHER, Paths=["s3://lake/checkpoints/"]))
    aws.tasks()
    aws.create(task("PENDING"), ["s3://lake/datasets/"])
    aws.look(task("SUCCEEDED", done=10))
    (result,) = aws.run()
    assert result.task.lifecycle == "SUCCEEDED"


def test_succeeded_with_failed_files_is_not_clean(aws: Aws) -> None:
    aws.stack()
    aws.links(link())
    aws.tasks()
    aws.create(task("PENDING"), ["s3://lake/datasets/"])
    aws.look(task("SUCCEEDED", done=9, failed=1))
    (result,) = aws.run()
    assert not result.task.is_clean


def test_links_are_imported_one_after_another_in_the_order_of_their_paths(aws: Aws) -> None:
    aws.stack()
    aws.links(link("/datasets"), link("/checkpoints"))
    for path in ("/checkpoints", "/datasets"):
        aws.tasks()
        aws.create(task("PENDING", Paths=[f"s3://lake{path}/"]), [f"s3://lake{path}/"])
        aws.look(task("SUCCEEDED", done=1))
    assert [result.link.path for result in aws.run()] == ["/checkpoints", "/datasets"]


@pytest.mark.parametrize("given", ["/datasets", "datasets", "/datasets/"])
def test_one_link_by_its_path_however_it_is_written(aws: Aws, given: str) -> None:
    aws.stack()
    aws.links(link("/datasets"), link("/checkpoints"))
    aws.tasks()
    aws.create(task("PENDING"), ["s3://lake/datasets/"])
    aws.look(task("SUCCEEDED", done=10))
    assert [result.link.path for result in aws.run(path=given)] == ["/datasets"]


def test_without_wait_it_returns_after_the_start(aws: Aws) -> None:
    aws.stack()
    aws.links(link())
    aws.tasks()
    aws.create(task("PENDING"), ["s3://lake/datasets/"])
    (result,) = aws.run(wait=False)
    assert not result.task.is_finished


def test_unknown_path_names_the_known_ones(aws: Aws) -> None:
    aws.stack()
    aws.links(link("/datasets"), link("/checkpoints"))
    with pytest.raises(RefusedError, match="no link at /data; there are links at /checkpoints, /datasets"):
        aws.run(path="/data")


@pytest.mark.parametrize("lifecycle", ["CREATING", "MISCONFIGURED", "DELETING", "FAILED"])
def test_a_link_that_is_not_available_is_refused_by_name(aws: Aws, lifecycle: str) -> None:
    aws.stack()
    aws.links(link(lifecycle=lifecycle))
    with pytest.raises(RefusedError, match=rf"/datasets \(dra-0123456789abcdef1\) is {lifecycle}"):
        aws.run()


def test_a_missing_stack_is_refused_with_advice(aws: Aws) -> None:
    aws.stubs["cloudformation"].add_client_error("describe_stacks", "ValidationError", "does not exist")
    with pytest.raises(RefusedError, match="no stack vision-hot in us-east-1"):
        aws.run()


def test_a_stack_in_motion_is_refused(aws: Aws) -> None:
    aws.stack("UPDATE_IN_PROGRESS")
    with pytest.raises(RefusedError, match="UPDATE_IN_PROGRESS"):
        aws.run()


def test_a_stack_without_file_system_is_refused(aws: Aws) -> None:
    aws.stack(outputs={})
    with pytest.raises(RefusedError, match="no output FileSystemId"):
        aws.run()


def test_denied_calls_keep_the_code_and_say_what_to_do(aws: Aws) -> None:
    aws.stack()
    aws.stubs["fsx"].add_client_error(
        "describe_data_repository_associations", "AccessDeniedException", "not authorized"
    )
    with pytest.raises(AwsError, match="the caller lacks this right") as caught:
        aws.run()
    assert caught.value.code == "AccessDeniedException"


def test_a_task_that_vanishes_is_said(aws: Aws) -> None:
    aws.stack()
    aws.links(link())
    aws.tasks()
    aws.create(task("PENDING"), ["s3://lake/datasets/"])
    aws.stubs["fsx"].add_response("describe_data_repository_tasks", {"DataRepositoryTasks": []}, {"TaskIds": [TASK]})
    with pytest.raises(RefusedError, match=f"{TASK} is gone"):
        aws.run()
