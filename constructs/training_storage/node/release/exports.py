"""Export tasks over everything that must be kept, one after another: FSx runs one at a time and takes 100 paths."""

from __future__ import annotations

import csv
import io
from typing import Any

from ..aws import MISSING, code_of
from .checks import QUEUE_S, RUN_TAG, RUNNING, calm, is_ours, queue_age, tasks_of
from .context import Again, Context, Refused

PATHS = 100
LONGEST_S = 36 * 3600.0
"""How long one export task may take: terabytes at the pace of the file system, small files at 1,000 a second."""
_BUSY = "DataRepositoryTaskExecuting"


def export(ctx: Context) -> None:
    """Export everything that the survey names, or wait for FSx where links export by themselves.

    Raises:
        Again: A task runs, or the queue is not empty.
        Refused: A task failed, or some of its files did.
    """
    state = ctx.state
    survey = ctx.survey()
    if "valid_from" not in state:
        calm(ctx)
        state["valid_from"] = ctx.clock()
        state["tasks"] = []
    if survey["too_many_paths"]:
        raise Refused(
            "what has to be exported lies scattered over more than 2,000 places between files that must not be: put it "
            "into folders of its own below the checkpoints, or name what may stay with --leave"
        )
    paths = survey["paths"]
    while len(state["tasks"]) * PATHS < len(paths) or state.get("task"):
        _one_task(ctx, survey, paths)
    if survey["ways"]["auto"]:
        age = queue_age(ctx)
        if age:
            ctx.wait(
                "queue",
                60,
                QUEUE_S,
                f"the export queue of {ctx.hot_tier_id} is not empty after a day: the oldest file has waited "
                f"{age:,.0f} s",
                now=f"the oldest file of the export queue has waited for {age:,.0f} s",
            )


def _one_task(ctx: Context, survey: dict[str, Any], paths: list[str]) -> None:
    """Start the next task or join the one that runs, and look for its end."""
    state = ctx.state
    number = len(state["tasks"])
    token = f"{state['run']}-{number}"[:63]
    if not state.get("task"):
        running = [each for each in tasks_of(ctx) if each["Lifecycle"] in RUNNING]
        mine = [each for each in running if _tag(each) == token]
        if mine:
            state["task"] = mine[0]["TaskId"]
        elif running:
            _wait_for_other(ctx, running)
        else:
            state["task"] = _start(ctx, survey, paths[number * PATHS : (number + 1) * PATHS], token)
            raise Again(15, f"export task {state['task']} begins")
    task = ctx.aws("fsx").describe_data_repository_tasks(TaskIds=[state["task"]])["DataRepositoryTasks"][0]
    name = f"export task {task['TaskId']}"
    if task["Lifecycle"] in RUNNING:
        counts = task.get("Status") or {}
        state["progress"] = {
            key: counts[key] for key in ("TotalCount", "SucceededCount", "FailedCount") if key in counts
        }
        ctx.wait(
            task["TaskId"],
            30,
            LONGEST_S,
            f"{name} does not end; see it in FSx, and run the release again",
            [name],
            now=f"{name} has done {counts.get('SucceededCount') or 0:,} files",
        )
    failed = int((task.get("Status") or {}).get("FailedCount") or 0)
    if task["Lifecycle"] != "SUCCEEDED" or failed:
        reasons, report = _reasons(ctx, task)
        told = (task.get("FailureDetails") or {}).get("Message", "")
        raise Refused(
            f"{name} ended {task['Lifecycle']}, {failed:,} files failed{': ' + told if told else ''}. "
            f"{'Its report is ' + report + '. ' if report else ''}Put this right and run the release again, which "
            "exports "
            "what is missing",
            reasons or [name],
        )
    state["tasks"] = [*state["tasks"], task["TaskId"]]
    state["task"] = ""
    state.pop("progress", None)


def _start(ctx: Context, survey: dict[str, Any], paths: list[str], token: str) -> str:
    link = _link_of(survey, paths[0])
    try:
        made = ctx.aws("fsx").create_data_repository_task(
            FileSystemId=ctx.hot_tier_id,
            Type="EXPORT_TO_REPOSITORY",
            Paths=paths,
            Report={
                "Enabled": True,
                "Path": f"s3://{link['bucket']}/{link['prefix']}.training-storage/",
                "Format": "REPORT_CSV_20191124",
                "Scope": "FAILED_FILES_ONLY",
            },
            ClientRequestToken=token,
            Tags=[
                {"Key": "Name", "Value": f"{ctx.workload}-release"},
                {"Key": "training-storage:workload", "Value": ctx.workload},
                {"Key": RUN_TAG, "Value": token},
            ],
        )
    except Exception as error:
        if code_of(error) == _BUSY:
            told = f"another task of {ctx.hot_tier_id}"
            ctx.wait("busy", 30, LONGEST_S, f"{told} does not end", now=f"{told} runs")
        if code_of(error) == "BadRequest":
            raise Refused(f"FSx does not export {', '.join(paths[:5])}: {error}", paths) from None
        raise
    return str(made["DataRepositoryTask"]["TaskId"])


def _wait_for_other(ctx: Context, running: list[dict[str, Any]]) -> None:
    """Wait for the export of an earlier release; a task of somebody else is named."""
    others = [each for each in running if not is_ours(each)]
    if others:
        named = [f"{each['TaskId']} ({each['Type']}, {each['Lifecycle']})" for each in others]
        raise Refused(
            f"data repository task {', '.join(named)} was started on {ctx.hot_tier_id} while the release ran; a "
            "release "
            "cancels no task: wait for its end, then run the release again",
            named,
        )
    told = "the export task of an earlier release"
    ctx.wait("earlier", 30, LONGEST_S, f"{told} does not end", [running[0]["TaskId"]], now=f"{told} runs")


def _tag(task: dict[str, Any]) -> str:
    return next((str(each["Value"]) for each in task.get("Tags") or () if each["Key"] == RUN_TAG), "")


def _link_of(survey: dict[str, Any], path: str) -> dict[str, Any]:
    for each in survey["settings"]["links"]:
        base = each["path"].strip("/")
        if base == "" or path == base or path.startswith(base + "/"):
            return dict(each)
    raise Refused(f"{path} lies under no link of the file system", [path])


def _reasons(ctx: Context, task: dict[str, Any]) -> tuple[list[str], str]:
    """Return the files that failed, with codes, and where the report lies."""
    where = (task.get("Report") or {}).get("Path", "")
    if not where:
        return [], ""
    bucket, _, prefix = where[len("s3://") :].partition("/")
    key = f"{prefix.rstrip('/')}/task-{task['TaskId'][len('task-') :]}/failures.csv"
    try:
        body = ctx.aws("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    except Exception as error:
        if code_of(error) in MISSING:
            return [], ""
        raise
    rows = csv.DictReader(io.StringIO(body.decode("utf-8", "replace")))
    found = [f"{each.get('FilePath')} ({each.get('ErrorCode')})" for _, each in zip(range(20), rows)]
    return found, f"s3://{bucket}/{key}"
