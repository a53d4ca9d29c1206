"""Data repository tasks: start one or join the one that already does the same, and follow it to its end.

FSx runs one task of a file system at a time and refuses a second with ``DataRepositoryTaskExecuting``. Interrupting the
follower leaves the task running; calling again joins it, so running twice is always safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from training_storage.errors import AwsError, RefusedError
from training_storage.operations.aws import aws_errors

if TYPE_CHECKING:
    from mypy_boto3_fsx.client import FSxClient

RUNNING = ("PENDING", "EXECUTING", "CANCELING")
FINISHED = ("SUCCEEDED", "FAILED", "CANCELED")

POLL_S = 15.0  # the counts move once or twice a minute; a faster look only costs API calls


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One look at a task.

    Attributes:
        task_id: ``task-...``.
        lifecycle: ``PENDING``, ``EXECUTING``, ``SUCCEEDED``, ``FAILED``, ``CANCELING`` or ``CANCELED``.
        total: Files that the task will look at; None until FSx has counted them.
        succeeded: Files done.
        failed: Files that failed.
        message: FSx's own words about a failure; empty without one.
        paths: What the task works on.
    """

    task_id: str
    lifecycle: str
    total: int | None
    succeeded: int
    failed: int
    message: str
    paths: tuple[str, ...]

    @property
    def is_finished(self) -> bool:
        """Whether the task will not change any more."""
        return self.lifecycle in FINISHED

    @property
    def is_clean(self) -> bool:
        """Whether the task ended with every file done. ``SUCCEEDED`` alone does not say so."""
        return self.lifecycle == "SUCCEEDED" and self.failed == 0


def describe(task: Any) -> TaskStatus:
    """Read a ``DataRepositoryTask`` of the API."""
    status = task.get("Status") or {}
    return TaskStatus(
        task_id=task["TaskId"],
        lifecycle=task["Lifecycle"],
        total=status.get("TotalCount"),
        succeeded=status.get("SucceededCount") or 0,
        failed=status.get("FailedCount") or 0,
        message=(task.get("FailureDetails") or {}).get("Message", ""),
        paths=tuple(task.get("Paths") or ()),
    )


def list_tasks(client: FSxClient, file_system_id: str) -> list[dict[str, Any]]:
    """Return every task of a file system, in the form of the API.

    Raises:
        AwsError: AWS refused or failed.
    """
    found: list[dict[str, Any]] = []
    with aws_errors("DescribeDataRepositoryTasks"):
        # Not one of boto3's paginators.
        request: dict[str, Any] = {"Filters": [{"Name": "file-system-id", "Values": [file_system_id]}]}
        while True:
            page = client.describe_data_repository_tasks(**request)
            found.extend(dict(task) for task in page["DataRepositoryTasks"])
            token = page.get("NextToken")
            if not token:
                return found
            request["NextToken"] = token


def start_or_join(
    client: FSxClient,
    file_system_id: str,
    task_type: str,
    paths: Sequence[str],
    *,
    on_wait: Callable[[TaskStatus], None] | None = None,
    sleep: Callable[[float], None] = time.sleep,
    poll_s: float = POLL_S,
) -> tuple[TaskStatus, bool]:
    """Start a task, or join the running one of the same type over the same paths.

    Another task that is in the way is waited for, not cancelled.

    Args:
        client: FSx client.
        file_system_id: ``fs-...``.
        task_type: ``IMPORT_METADATA_FROM_REPOSITORY`` or ``EXPORT_TO_REPOSITORY``.
        paths: Paths of the task: ``s3://`` for imports, relative to the mount for exports; at most 100.
        on_wait: Called with the task in the way on each look; nothing is called when left out.
        sleep: Replaced in tests.
        poll_s: Seconds between two looks.

    Returns:
        The task, and whether it was started here.

    Raises:
        AwsError: AWS refused or failed.
    """
    wanted = tuple(paths)
    while True:
        running = [task for task in list_tasks(client, file_system_id) if task["Lifecycle"] in RUNNING]
        same = next((t for t in running if t["Type"] == task_type and tuple(t.get("Paths") or ()) == wanted), None)
        if same is not None and same["Lifecycle"] != "CANCELING":
            return describe(same), False
        if not running:
            try:
                with aws_errors("CreateDataRepositoryTask"):
                    answer = client.create_data_repository_task(
                        FileSystemId=file_system_id,
                        Type=task_type,  # type: ignore[arg-type]  # a closed set for the stubs, text for us
                        Paths=list(wanted),
                        # A report has to lie below a linked prefix, where it would become a file of the data set;
                        # failures of imports are in the file system's log group.
                        Report={"Enabled": False},
                    )
            except AwsError as error:
                if error.code != "DataRepositoryTaskExecuting":
                    raise
            else:
                return describe(answer["DataRepositoryTask"]), True
        elif on_wait is not None:
            on_wait(describe(running[0]))
        sleep(poll_s)


def follow(
    client: FSxClient, task_id: str, *, sleep: Callable[[float], None] = time.sleep, poll_s: float = POLL_S
) -> Iterator[TaskStatus]:
    """Yield one status a look until the task has finished; the last one yielded is the end.

    Args:
        client: FSx client.
        task_id: ``task-...``.
        sleep: Replaced in tests.
        poll_s: Seconds between two looks.

    Raises:
        RefusedError: The task is gone.
        AwsError: AWS refused or failed.
    """
    while True:
        with aws_errors("DescribeDataRepositoryTasks"):
            tasks = client.describe_data_repository_tasks(TaskIds=[task_id])["DataRepositoryTasks"]
        if not tasks:
            raise RefusedError(f"task {task_id} is gone; fix: run the command again to start a new one")
        status = describe(tasks[0])
        yield status
        if status.is_finished:
            return
        sleep(poll_s)
