"""Promotion by an export task of FSx: no byte goes through a client.

FSx runs one task of a file system at a time. One that is in the way is waited for, never cancelled; one over the same
path is joined.
"""

from __future__ import annotations

import csv
import hashlib
import io
from typing import Any

from ..aws import Aws, code_of
from . import lake
from .promotion import Job, PromotionError, Sums, failed, prove

RUNNING = ("PENDING", "EXECUTING", "CANCELING")
TYPE = "EXPORT_TO_REPOSITORY"
BUSY = "DataRepositoryTaskExecuting"
POLL_S = 15.0
LONGEST_WAIT_S = 120.0


def export(job: Job) -> Sums:
    """Export a checkpoint by a task, and follow it to its end.

    Raises:
        PromotionError: The task failed, or some of its files did.
        ClientError: FSx refused or failed.
    """
    if not prove(job, job.checkpoint.files, {}, strict=True)[1]:
        return {}  # a run before this one came so far
    for _ in range(2):
        task, joined = _start(job)
        task = _follow(job, task)
        counts = task.get("Status") or {}
        if task["Lifecycle"] != "SUCCEEDED" or counts.get("FailedCount"):
            message = (task.get("FailureDetails") or {}).get("Message", "")
            about = f"task {task['TaskId']} ended {task['Lifecycle']}" + (f": {message}" if message else "")
            raise failed(job.checkpoint.path, "export-task", _reasons(job, task), about)
        # A task that was joined may have begun before the last file was written.
        if not joined or not prove(job, job.checkpoint.files, {}, strict=True)[1]:
            break
    return {}


def export_path(job: Job) -> str:
    """Return the path of the task: below the mount, without a slash at either end."""
    settings = job.settings
    root = settings.checkpoints[len(settings.mount.rstrip("/")) :].strip("/")
    return "/".join(part for part in (root, job.checkpoint.path) if part)


def _start(job: Job) -> tuple[dict[str, Any], bool]:
    """Start the task or join the one that runs already; return it, and whether it was joined."""
    fsx = job.aws("fsx")
    path = export_path(job)
    link = job.place(job.checkpoint.path).link
    if link is None:  # method_of sends nobody here
        raise PromotionError(f"{job.checkpoint.path} lies under no link of the file system")
    pause = POLL_S
    while True:
        tasks = _tasks(job.aws, job.settings.hot_tier_id)
        running = [each for each in tasks if each["Lifecycle"] in RUNNING]
        ours = [each for each in tasks if each["Type"] == TYPE and list(each.get("Paths") or ()) == [path]]
        for each in ours:
            if each["Lifecycle"] in ("PENDING", "EXECUTING"):
                return each, True
        if not running:
            try:
                answer = fsx.create_data_repository_task(
                    FileSystemId=job.settings.hot_tier_id,
                    Type=TYPE,
                    Paths=[path],
                    ClientRequestToken=_token(job, ours),
                    Tags=[
                        {"Key": "Name", "Value": f"{job.settings.workload}-checkpoint"},
                        {"Key": "training-storage:checkpoint", "Value": _tag(job.checkpoint.path)},
                    ],
                    Report={
                        "Enabled": True,
                        "Path": f"s3://{link.bucket}/{link.prefix}.training-storage",
                        "Format": "REPORT_CSV_20191124",
                        "Scope": "FAILED_FILES_ONLY",
                    },
                )
            except Exception as error:
                if code_of(error) != BUSY:
                    raise
            else:
                return answer["DataRepositoryTask"], False
        job.tell("waiting", waiting_for=running[0]["TaskId"] if running else "another task")
        job.sleep(pause)
        pause = min(pause * 1.5, LONGEST_WAIT_S)


def _token(job: Job, ended: list[dict[str, Any]]) -> str:
    """Return what makes a second request, after an answer that got lost, the same task.

    A task that has ended cannot be started again under its token, so that it goes into the next one's.
    """
    last = max(ended, key=lambda each: each["CreationTime"])["TaskId"] if ended else ""
    text = "\0".join((job.settings.hot_tier_id, job.checkpoint.path, job.checkpoint.fingerprint, last))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:60]


def _tag(path: str) -> str:
    """Return a path as a tag takes it: 256 characters, letters, digits and some signs."""
    return "".join(each if each.isalnum() or each in " +-=._:/@" else "_" for each in path)[-256:]


def _tasks(aws: Aws, file_system_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    request: dict[str, Any] = {"Filters": [{"Name": "file-system-id", "Values": [file_system_id]}]}
    while True:
        page = aws("fsx").describe_data_repository_tasks(**request)
        found += page["DataRepositoryTasks"]
        if not page.get("NextToken"):
            return found
        request["NextToken"] = page["NextToken"]


def _follow(job: Job, task: dict[str, Any]) -> dict[str, Any]:
    while task["Lifecycle"] in RUNNING:
        status = task.get("Status") or {}
        job.tell("exporting", task=task["TaskId"], files_done=status.get("SucceededCount") or 0)
        job.sleep(POLL_S)
        found = job.aws("fsx").describe_data_repository_tasks(TaskIds=[task["TaskId"]])["DataRepositoryTasks"]
        if not found:
            raise PromotionError(f"task {task['TaskId']} is gone; the next run starts another")
        task = found[0]
    return task


def _reasons(job: Job, task: dict[str, Any]) -> dict[str, str]:
    """Return the failed files of a task's report, by path below the checkpoint root."""
    report = task.get("Report") or {}
    if not report.get("Enabled") or not report.get("Path"):
        return {}
    bucket, _, prefix = report["Path"].replace("s3://", "", 1).partition("/")
    key = f"{prefix.rstrip('/')}/{task['TaskId']}/failures.csv"
    try:
        body = job.aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except Exception as error:  # what failed is known without its details; the report is a help
        job.tell("no report", report=f"s3://{bucket}/{key}", error=str(error))
        return {}
    return read_report(body.decode("utf-8", "replace"), export_path(job), job.checkpoint.path)


def read_report(text: str, exported: str, path: str) -> dict[str, str]:
    """Read ``failures.csv``: FilePath, FileStatus, ErrorCode, with or without a header, quoted or not.

    Args:
        text: The report.
        exported: Path of the task, below the mount.
        path: The same folder, below the checkpoint root.

    Returns:
        Error codes by path below the checkpoint root; a name outside the exported path stays as it is.
    """
    found: dict[str, str] = {}
    for row in csv.reader(io.StringIO(text.lstrip("\ufeff")), skipinitialspace=True):
        cells = [each.strip() for each in row]
        if len(cells) < 2 or cells[0].lower() == "filepath":
            continue
        name, code = cells[0], cells[-1] or "no code"
        cut = ("/" + name.lstrip("/")).find("/" + exported.strip("/") + "/")
        if cut >= 0:
            name = lake.inside(path) + name.lstrip("/")[cut + len(exported.strip("/")) + 1 :]
        found[name] = code
    return found
