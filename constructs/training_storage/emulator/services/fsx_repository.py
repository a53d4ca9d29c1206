"""Data repository associations and tasks: the link between a Lustre file system and its bucket."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from moto.core.exceptions import JsonRESTError
from moto.fsx.models import FSxBackend

# https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html
MAX_ASSOCIATIONS = 8
# Deployment types, and the storage type, that cannot be linked.
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html
_NOT_LINKABLE = {"SCRATCH_1"}
_EVENTS = {"NEW", "CHANGED", "DELETED"}
# AUTO_RELEASE_DATA exists too, for File Cache only
_TASK_TYPES = {"EXPORT_TO_REPOSITORY", "IMPORT_METADATA_FROM_REPOSITORY", "RELEASE_DATA_FROM_FILESYSTEM"}
_MAX_PATHS = 100
_UNFINISHED = ("PENDING", "EXECUTING", "CANCELING")


@dataclass
class Store:
    """Associations and tasks of one account and region.

    Attributes:
        associations: Associations by id, as the API shows them.
        tasks: Tasks by id, as the API shows them.
        file_counts: Files that the next task on a file system will report; 0 where nothing was said.
    """

    associations: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    file_counts: dict[str, tuple[int, int]] = field(default_factory=dict)


# Kept by backend: a new emulator has new backends
_stores: WeakKeyDictionary[FSxBackend, Store] = WeakKeyDictionary()


def store(backend: FSxBackend) -> Store:
    """Return the associations and tasks of a backend."""
    return _stores.setdefault(backend, Store())


def _error(code: str, message: str) -> JsonRESTError:
    return JsonRESTError(code, message)


def _file_system(backend: FSxBackend, given: dict[str, Any]) -> Any:
    file_system_id = given["FileSystemId"]
    if file_system_id not in backend.file_systems:
        raise _error("FileSystemNotFound", f"File system '{file_system_id}' does not exist.")
    return backend.file_systems[file_system_id]


def _page(items: list[dict[str, Any]], given: dict[str, Any], key: str) -> dict[str, Any]:
    start = int(given.get("NextToken") or 0)
    end = start + int(given.get("MaxResults") or len(items) or 1)
    answer: dict[str, Any] = {key: items[start:end]}
    if end < len(items):
        answer["NextToken"] = str(end)
    return answer


def _normal(path: str) -> str:
    return "/" + path.strip("/")


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def create_data_repository_association(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Link a directory to a bucket or prefix."""
    file_system = _file_system(backend, given)
    lustre = file_system.lustre_configuration or {}
    if lustre.get("DeploymentType", "SCRATCH_1") in _NOT_LINKABLE or file_system.storage_type == "INTELLIGENT_TIERING":
        kind = "INTELLIGENT_TIERING" if file_system.storage_type == "INTELLIGENT_TIERING" else "SCRATCH_1"
        raise _error("UnsupportedOperation", f"Data repository associations are not supported on {kind} file systems")
    if lustre.get("ImportPath"):
        raise _error("BadRequest", "A file system with an ImportPath cannot have data repository associations")
    if lustre.get("AutomaticBackupRetentionDays"):
        raise _error("BadRequest", "Turn automatic backups off before linking a file system to a data repository")
    if file_system.to_dict()["FileSystemTypeVersion"] == "2.10":
        raise _error("UnsupportedOperation", "Data repository associations need Lustre version 2.12 or newer")
    _check_association(backend, given)
    association_id = f"dra-0{uuid.uuid4().hex[:16]}"
    association = {
        "AssociationId": association_id,
        "ResourceARN": f"arn:{backend.partition}:fsx:{backend.region_name}:{backend.account_id}"
        f":association/{given['FileSystemId']}/{association_id}",
        "FileSystemId": given["FileSystemId"],
        "FileSystemPath": given["FileSystemPath"],
        "DataRepositoryPath": given["DataRepositoryPath"],
        "BatchImportMetaDataOnCreate": bool(given.get("BatchImportMetaDataOnCreate", False)),
        "ImportedFileChunkSize": given.get("ImportedFileChunkSize", 1024),
        "S3": given.get("S3") or {},
        "Tags": given.get("Tags") or [],
        "Lifecycle": "AVAILABLE",
        "CreationTime": time.time(),
    }
    store(backend).associations[association_id] = association
    backend.tagger.tag_resource(association["ResourceARN"], association["Tags"])
    return {"Association": association}


def _check_association(backend: FSxBackend, given: dict[str, Any]) -> None:
    path, source = given.get("FileSystemPath") or "", given.get("DataRepositoryPath") or ""
    if not path.startswith("/"):
        raise _error("BadRequest", f"FileSystemPath '{path}' must start with a slash")
    if not source.startswith("s3://") or len(source) <= len("s3://"):
        raise _error("BadRequest", f"DataRepositoryPath '{source}' must be s3://bucket/prefix/")
    for policy in ("AutoImportPolicy", "AutoExportPolicy"):
        strange = set(((given.get("S3") or {}).get(policy) or {}).get("Events") or ()) - _EVENTS
        if strange:
            raise _error("BadRequest", f"{policy} has unknown events: {', '.join(sorted(strange))}")
    others = [link for link in store(backend).associations.values() if link["FileSystemId"] == given["FileSystemId"]]
    if len(others) >= MAX_ASSOCIATIONS:
        raise _error("ServiceLimitExceeded", f"A file system can have {MAX_ASSOCIATIONS} data repository associations")
    for other in others:
        mine, theirs = _normal(path), _normal(other["FileSystemPath"])
        if _within(mine, theirs) or _within(theirs, mine):
            raise _error("BadRequest", f"FileSystemPath '{path}' overlaps with '{other['FileSystemPath']}'")
        mine, theirs = source.rstrip("/"), other["DataRepositoryPath"].rstrip("/")
        if _within(mine, theirs) or _within(theirs, mine):
            raise _error("BadRequest", f"DataRepositoryPath '{source}' overlaps with '{other['DataRepositoryPath']}'")


def _association(backend: FSxBackend, association_id: str) -> dict[str, Any]:
    found = store(backend).associations.get(association_id)
    if found is None:
        raise _error("DataRepositoryAssociationNotFound", f"Association '{association_id}' does not exist.")
    return found


def describe_data_repository_associations(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """List associations, by id or filter."""
    wanted = given.get("AssociationIds")
    found = [_association(backend, key) for key in wanted] if wanted else list(store(backend).associations.values())
    for one in given.get("Filters") or ():
        name, values = one["Name"], one["Values"]
        if name == "file-system-id":
            found = [item for item in found if item["FileSystemId"] in values]
        elif name == "data-repository-type":
            found = found if "S3" in values else []
        else:
            raise _error("BadRequest", f"Filter {name} is not supported for data repository associations")
    return _page(found, given, "Associations")


def update_data_repository_association(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Change the policies or the chunk size."""
    association = _association(backend, given["AssociationId"])
    if "S3" in given:
        association["S3"] = {**association["S3"], **given["S3"]}
    if "ImportedFileChunkSize" in given:
        association["ImportedFileChunkSize"] = given["ImportedFileChunkSize"]
    return {"Association": association}


def delete_data_repository_association(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Remove the link; the files in the bucket stay."""
    association = _association(backend, given["AssociationId"])
    del store(backend).associations[association["AssociationId"]]
    return {
        "AssociationId": association["AssociationId"],
        "Lifecycle": "DELETING",
        "DeleteDataInFileSystem": bool(given.get("DeleteDataInFileSystem", False)),
    }


def create_data_repository_task(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Start an export, an import or a release."""
    file_system = _file_system(backend, given)
    file_system_id = file_system.file_system_id
    if given["Type"] not in _TASK_TYPES:
        raise _error("BadRequest", f"Unknown data repository task type {given['Type']}")
    tasks = store(backend).tasks
    busy = [
        task for task in tasks.values() if task["FileSystemId"] == file_system_id and task["Lifecycle"] in _UNFINISHED
    ]
    if busy:
        raise _error("DataRepositoryTaskExecuting", f"A data repository task is already executing: {busy[0]['TaskId']}")
    _check_task(backend, file_system_id, given)
    task_id = f"task-0{uuid.uuid4().hex[:16]}"
    task = {
        "TaskId": task_id,
        "ResourceARN": f"arn:{backend.partition}:fsx:{backend.region_name}:{backend.account_id}:task/{task_id}",
        "FileSystemId": file_system_id,
        "Type": given["Type"],
        "Lifecycle": "PENDING",
        "Paths": given.get("Paths") or [],
        "Report": given["Report"],
        "Tags": given.get("Tags") or [],
        "CreationTime": time.time(),
    }
    if "ReleaseConfiguration" in given:
        task["ReleaseConfiguration"] = given["ReleaseConfiguration"]
    tasks[task_id] = task
    return {"DataRepositoryTask": task}


def _check_task(backend: FSxBackend, file_system_id: str, given: dict[str, Any]) -> None:
    links = [link for link in store(backend).associations.values() if link["FileSystemId"] == file_system_id]
    lustre = backend.file_systems[file_system_id].lustre_configuration or {}
    if not links and not lustre.get("ImportPath"):
        raise _error("BadRequest", f"File system '{file_system_id}' is not linked to a data repository")
    if given["Type"] == "EXPORT_TO_REPOSITORY":
        exporting = [
            link["AssociationId"] for link in links if (link["S3"].get("AutoExportPolicy") or {}).get("Events")
        ]
        if exporting:
            raise _error("BadRequest", f"Export tasks cannot run beside automatic export of {', '.join(exporting)}")
    if len(given.get("Paths") or ()) > _MAX_PATHS:
        raise _error("BadRequest", f"A data repository task takes at most {_MAX_PATHS} paths")
    report = given.get("Report") or {}
    if report.get("Enabled"):
        lacking = [name for name in ("Path", "Format", "Scope") if not report.get(name)]
        if lacking:
            raise _error("BadRequest", f"An enabled report needs {', '.join(lacking)}")
        sources = [link["DataRepositoryPath"].rstrip("/") for link in links]
        if sources and not any(_within(report["Path"].rstrip("/"), source) for source in sources):
            raise _error("BadRequest", f"Report path '{report['Path']}' is not under a linked data repository path")
        if report["Format"] != "REPORT_CSV_20191124" or report["Scope"] != "FAILED_FILES_ONLY":
            raise _error("BadRequest", "A report has Format REPORT_CSV_20191124 and Scope FAILED_FILES_ONLY")


def _task(backend: FSxBackend, task_id: str) -> dict[str, Any]:
    found = store(backend).tasks.get(task_id)
    if found is None:
        raise _error("DataRepositoryTaskNotFound", f"Data repository task '{task_id}' does not exist.")
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
            systems = [_association(backend, value)["FileSystemId"] for value in values]
            found = [item for item in found if item["FileSystemId"] in systems]
        else:
            raise _error("BadRequest", f"Filter {name} is not supported for data repository tasks")
    answer = _page([dict(task) for task in found], given, "DataRepositoryTasks")
    shown = {task["TaskId"] for task in answer["DataRepositoryTasks"]}
    for task in found:
        if task["TaskId"] in shown:
            _step(backend, task)
    return answer


def _step(backend: FSxBackend, task: dict[str, Any]) -> None:
    now = time.time()
    total, failed = store(backend).file_counts.get(task["FileSystemId"], (0, 0))
    status = {"TotalCount": total, "SucceededCount": 0, "FailedCount": 0, "LastUpdatedTime": now}
    if task["Lifecycle"] == "PENDING":
        task.update(Lifecycle="EXECUTING", StartTime=now, Status=status)
    elif task["Lifecycle"] == "EXECUTING":
        status.update(SucceededCount=total - failed, FailedCount=failed)
        task.update(Lifecycle="FAILED" if failed else "SUCCEEDED", EndTime=now, Status=status)
        if failed:
            task["FailureDetails"] = {"Message": f"{failed} of {total} files failed"}
    elif task["Lifecycle"] == "CANCELING":
        task.update(Lifecycle="CANCELED", EndTime=now)


def cancel_data_repository_task(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Stop a task that has not ended."""
    task = _task(backend, given["TaskId"])
    if task["Lifecycle"] not in ("PENDING", "EXECUTING"):
        raise _error("DataRepositoryTaskEnded", f"Data repository task '{task['TaskId']}' has ended")
    task["Lifecycle"] = "CANCELING"
    return {"Lifecycle": "CANCELING", "TaskId": task["TaskId"]}


OPERATIONS: dict[str, Callable[[FSxBackend, dict[str, Any]], dict[str, Any]]] = {
    "cancel_data_repository_task": cancel_data_repository_task,
    "create_data_repository_association": create_data_repository_association,
    "create_data_repository_task": create_data_repository_task,
    "delete_data_repository_association": delete_data_repository_association,
    "describe_data_repository_associations": describe_data_repository_associations,
    "describe_data_repository_tasks": describe_data_repository_tasks,
    "update_data_repository_association": update_data_repository_association,
}
