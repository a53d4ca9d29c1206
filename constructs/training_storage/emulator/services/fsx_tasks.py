"""Data repository tasks: they really move files between the directory of a file system and the emulated S3.

A task takes looks: each description takes an unfinished one a step on, so that a poller sees every state. Where a test
asked for seconds or for more looks, it takes those too.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from moto.fsx.models import FSxBackend

from training_storage.emulator import world
from training_storage.emulator.services import fsx_files
from training_storage.emulator.services.fsx_repository import (
    Behaviour,
    association_of,
    error,
    file_system_of,
    page,
    store,
    within,
)

# AUTO_RELEASE_DATA exists too, for File Cache only
_TASK_TYPES = {"EXPORT_TO_REPOSITORY", "IMPORT_METADATA_FROM_REPOSITORY", "RELEASE_DATA_FROM_FILESYSTEM"}
_MAX_PATHS = 100
_DAY = 86400.0
UNFINISHED = ("PENDING", "EXECUTING", "CANCELING")
"""States of a task that has not ended."""


@dataclass
class _Run:
    """The work of one task.

    Attributes:
        work: Files that are left: name for the report, path below the root, and what to do, which returns a code.
        total: Files in all.
        succeeded: Files that are done.
        failed: Codes of files that failed, by name.
        problem: Why the task as a whole fails; empty where it does not.
        looks: How often it was seen running.
    """

    work: list[tuple[str, str, Callable[[], str | None]]]
    total: int = 0
    succeeded: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    problem: str = ""
    looks: int = 0


def create_data_repository_task(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Start an export, an import or a release; asked again with the same client request token: return that task."""
    file_system = file_system_of(backend, given)
    file_system_id = file_system.file_system_id
    if given["Type"] not in _TASK_TYPES:
        raise error("BadRequest", f"Unknown data repository task type {given['Type']}")
    tasks, tokens = store(backend).tasks, store(backend).tokens
    token = (file_system_id, given.get("ClientRequestToken") or uuid4().hex)
    asked = {name: value for name, value in given.items() if name != "ClientRequestToken"}
    if token in tokens:
        # asked again with the same token: the task that was made then, in whatever state it is
        known, before = tokens[token]
        if before != json.dumps(asked, sort_keys=True):
            raise error(
                "IncompatibleParameterError",
                f"The client request token was used with other parameters for task '{known}'",
            )
        return {"DataRepositoryTask": dict(tasks[known])}
    busy = [
        task for task in tasks.values() if task["FileSystemId"] == file_system_id and task["Lifecycle"] in UNFINISHED
    ]
    if busy:
        raise error("DataRepositoryTaskExecuting", f"A data repository task is already executing: {busy[0]['TaskId']}")
    _check_task(backend, file_system_id, given)
    task_id = f"task-0{uuid4().hex[:16]}"
    task = {
        "TaskId": task_id,
        "ResourceARN": f"arn:{backend.partition}:fsx:{backend.region_name}:{backend.account_id}:task/{task_id}",
        "FileSystemId": file_system_id,
        "Type": given["Type"],
        "Lifecycle": "PENDING",
        "Paths": given.get("Paths") or [],
        "Report": given["Report"],
        "Tags": given.get("Tags") or [],
        "CreationTime": world.now(),
    }
    if "ReleaseConfiguration" in given:
        task["ReleaseConfiguration"] = given["ReleaseConfiguration"]
    tasks[task_id] = task
    tokens[token] = (task_id, json.dumps(asked, sort_keys=True))
    return {"DataRepositoryTask": dict(task)}


def _check_task(backend: FSxBackend, file_system_id: str, given: dict[str, Any]) -> None:
    links = [link for link in store(backend).associations.values() if link["FileSystemId"] == file_system_id]
    lustre = backend.file_systems[file_system_id].lustre_configuration or {}
    if not links and not lustre.get("ImportPath"):
        raise error("BadRequest", f"File system '{file_system_id}' is not linked to a data repository")
    if given["Type"] == "EXPORT_TO_REPOSITORY":
        exporting = [
            link["AssociationId"] for link in links if (link["S3"].get("AutoExportPolicy") or {}).get("Events")
        ]
        if exporting:
            raise error("BadRequest", f"Export tasks cannot run beside automatic export of {', '.join(exporting)}")
    if len(given.get("Paths") or ()) > _MAX_PATHS:
        raise error("BadRequest", f"A data repository task takes at most {_MAX_PATHS} paths")
    report = given.get("Report") or {}
    if report.get("Enabled"):
        lacking = [name for name in ("Path", "Format", "Scope") if not report.get(name)]
        if lacking:
            raise error("BadRequest", f"An enabled report needs {', '.join(lacking)}")
        sources = [link["DataRepositoryPath"].rstrip("/") for link in links]
        if sources and not any(within(report["Path"].rstrip("/"), source) for source in sources):
            raise error("BadRequest", f"Report path '{report['Path']}' is not under a linked data repository path")
        if report["Format"] != "REPORT_CSV_20191124" or report["Scope"] != "FAILED_FILES_ONLY":
            raise error("BadRequest", "A report has Format REPORT_CSV_20191124 and Scope FAILED_FILES_ONLY")


def _task(backend: FSxBackend, task_id: str) -> dict[str, Any]:
    found = store(backend).tasks.get(task_id)
    if found is None:
        raise error("DataRepositoryTaskNotFound", f"Data repository task '{task_id}' does not exist.")
    return found


def describe_data_repository_tasks(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """List tasks; each look takes an unfinished one a step on, so that a poller sees every state."""
    wanted = given.get("TaskIds")
    found = [_task(backend, key) for key in wanted] if wanted else list(store(backend).tasks.values())
    for one in given.get("Filters") or ():
        name, values = one["Name"], one["Values"]
        if name == "file-system-id":
            found = [item for item in found if item["FileSystemId"] in values]
        elif name == "task-lifecycle":
            found = [item for item in found if item["Lifecycle"] in values]
        elif name == "data-repository-association-id":
            systems = [association_of(backend, value)["FileSystemId"] for value in values]
            found = [item for item in found if item["FileSystemId"] in systems]
        else:
            raise error("BadRequest", f"Filter {name} is not supported for data repository tasks")
    answer = page([dict(task) for task in found], given, "DataRepositoryTasks")
    shown = {task["TaskId"] for task in answer["DataRepositoryTasks"]}
    for task in found:
        if task["TaskId"] in shown:
            _step(backend, task)
    return answer


def _step(backend: FSxBackend, task: dict[str, Any]) -> None:
    behaviour = store(backend).behaviour(task["FileSystemId"])
    moment = world.now()
    if task["Lifecycle"] == "PENDING":
        run = _start(backend, task, behaviour)
        store(backend).runs[task["TaskId"]] = run
        if not behaviour.held:
            _work(run, len(run.work) // 2, behaviour)
        task.update(Lifecycle="EXECUTING", StartTime=moment, Status=_status(run, moment))
    elif task["Lifecycle"] == "EXECUTING":
        run = store(backend).runs[task["TaskId"]]
        run.looks += 1
        if behaviour.held or run.looks < behaviour.looks or moment < task["StartTime"] + behaviour.seconds:
            task["Status"] = _status(run, moment)
            return
        _work(run, len(run.work), behaviour)
        task.update(
            Lifecycle="FAILED" if run.failed or run.problem else "SUCCEEDED",
            EndTime=moment,
            Status=_status(run, moment),
        )
        if run.failed or run.problem:
            message = run.problem or f"{len(run.failed)} of {run.total} files failed"
            task["FailureDetails"] = {"Message": message}
        _report(task, run)
    elif task["Lifecycle"] == "CANCELING":
        task.update(Lifecycle="CANCELED", EndTime=moment)


def _status(run: _Run, moment: float) -> dict[str, Any]:
    return {
        "TotalCount": run.total,
        "SucceededCount": run.succeeded,
        "FailedCount": len(run.failed),
        "LastUpdatedTime": moment,
    }


def _work(run: _Run, count: int, behaviour: Behaviour) -> None:
    for name, path, act in run.work[:count]:
        try:
            code = behaviour.failing.get(path) or act()
        except FileNotFoundError:
            continue  # gone since the task began: nothing to do, and no failure
        except OSError:
            code = "InternalError"
        if code is None:
            run.succeeded += 1
        else:
            run.failed[name] = code
    del run.work[:count]


def _start(backend: FSxBackend, task: dict[str, Any], behaviour: Behaviour) -> _Run:
    if behaviour.failures:
        return _Run([], problem=behaviour.failures.pop(0))
    if behaviour.counts is not None:
        total, failed = behaviour.counts
        said: list[tuple[str, str, Callable[[], str | None]]] = []
        said += [(f"file-{number}", "", lambda: "InternalError") for number in range(failed)]
        run = _Run(said, total=total, succeeded=0)
        run.work.append(("", "", lambda: _count(run, total - failed - 1)))
        if total == failed:
            run.work.pop()
        return run
    links = [fsx_files.link_of(item) for item in store(backend).links(task["FileSystemId"])]
    files = fsx_files.states(task["FileSystemId"])
    try:
        if task["Type"] == "EXPORT_TO_REPOSITORY":
            work = list(_exports(files, links, task["Paths"]))
        elif task["Type"] == "RELEASE_DATA_FROM_FILESYSTEM":
            work = list(_releases(files, task))
        else:
            work = list(_imports(files, links, task["Paths"]))
    except _InvalidPathError as problem:
        return _Run([], problem=str(problem))
    return _Run(work, total=len(work))


def _count(run: _Run, more: int) -> None:
    run.succeeded += more


class _InvalidPathError(Exception):
    """A path of a task that does not exist, or that no link holds: the whole task fails."""


def _chosen(files: Any, paths: list[str]) -> Iterator[str]:
    seen = set()
    for given in paths or ["/"]:
        path = fsx_files.normal(given)
        if not os.path.lexists(files.root / path):
            raise _InvalidPathError(f"The path '{given}' does not exist")
        for found in fsx_files.walk(files.root, path):
            if found not in seen:
                seen.add(found)
                yield found


def _exports(files: Any, links: list[Any], paths: list[str]) -> Iterator[Any]:
    for given in paths:
        path = fsx_files.normal(given)
        if not any(fsx_files.within(path, link.path) or fsx_files.within(link.path, path) for link in links):
            raise _InvalidPathError(f"The path '{given}' is not linked to a data repository")
    for path in _chosen(files, paths):
        link = next((link for link in links if fsx_files.within(path, link.path)), None)
        if link is not None and fsx_files.changed(files, path):
            yield path, path, lambda link=link, path=path: fsx_files.export_file(files, link, path)


def _releases(files: Any, task: dict[str, Any]) -> Iterator[Any]:
    idle = (task.get("ReleaseConfiguration") or {}).get("DurationSinceLastAccess") or {}
    before = world.now() - float(idle.get("Value", 0)) * _DAY
    for path in _chosen(files, task["Paths"]):
        found = (files.root / path).lstat()
        if max(found.st_atime, found.st_mtime, found.st_ctime) <= before and "archived" in files.flags(path):
            if files.state(path)[1] or files.state(path)[0].released:
                continue
            yield path, path, lambda path=path: None if files.release(path) else "ResourceBusy"


def _imports(files: Any, links: list[Any], paths: list[str]) -> Iterator[Any]:
    chosen: dict[str, Any] = {}
    for link in links:
        if not paths:
            chosen.update({key: (link, item) for key, item in fsx_files.objects(link).items()})
    for given in paths:
        bucket, _, key = given.removeprefix("s3://").partition("/")
        link = next(
            (
                one
                for one in links
                if one.bucket == bucket and fsx_files.within(key.rstrip("/"), one.prefix.rstrip("/"))
            ),
            None,
        )
        if not given.startswith("s3://") or link is None:
            raise _InvalidPathError(f"The path '{given}' is not in a linked data repository")
        wanted = key.rstrip("/")
        found = {name: item for name, item in fsx_files.objects(link).items() if fsx_files.within(name, wanted)}
        if not found and wanted != link.prefix.rstrip("/"):
            raise _InvalidPathError(f"The path '{given}' does not exist")
        chosen.update({name: (link, item) for name, item in found.items()})
    for key, (link, item) in sorted(chosen.items()):
        path = link.file(key)
        yield path, path, lambda link=link, key=key, item=item: fsx_files.import_object(files, link, key, item)


def _report(task: dict[str, Any], run: _Run) -> None:
    report = task["Report"]
    if not report.get("Enabled") or not run.failed:
        return
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["FilePath", "FileStatus", "ErrorCode"])
    rows.writerows([name, "failed", code] for name, code in sorted(run.failed.items()))
    bucket, _, folder = report["Path"].removeprefix("s3://").partition("/")
    key = f"{folder.rstrip('/')}/{task['TaskId']}/failures.csv".lstrip("/")
    fsx_files.put_object(bucket, key, text.getvalue().encode())


def finish(backend: FSxBackend, file_system_id: str) -> None:
    """Let the unfinished tasks of a file system run to their end, except where they are held."""
    if store(backend).behaviour(file_system_id).held:
        return
    for task in store(backend).tasks.values():
        while task["FileSystemId"] == file_system_id and task["Lifecycle"] in UNFINISHED:
            _step(backend, task)
            if task["Lifecycle"] == "EXECUTING":
                behaviour = store(backend).behaviour(file_system_id)
                store(backend).runs[task["TaskId"]].looks = behaviour.looks
                task["StartTime"] = min(task["StartTime"], world.now() - behaviour.seconds)


def cancel_data_repository_task(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Stop a task that has not ended."""
    task = _task(backend, given["TaskId"])
    if task["Lifecycle"] not in ("PENDING", "EXECUTING"):
        raise error("DataRepositoryTaskEnded", f"Data repository task '{task['TaskId']}' has ended")
    task["Lifecycle"] = "CANCELING"
    return {"Lifecycle": "CANCELING", "TaskId": task["TaskId"]}


OPERATIONS: dict[str, Callable[[FSxBackend, dict[str, Any]], dict[str, Any]]] = {
    "cancel_data_repository_task": cancel_data_repository_task,
    "create_data_repository_task": create_data_repository_task,
    "describe_data_repository_tasks": describe_data_repository_tasks,
}
