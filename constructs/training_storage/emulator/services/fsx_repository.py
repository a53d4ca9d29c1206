"""Data repository associations, the link between a file system and its bucket; and what is kept about its tasks."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from moto.core.exceptions import JsonRESTError
from moto.fsx.models import FSxBackend

from training_storage.emulator import world
from training_storage.emulator.services import fsx_files
from training_storage.emulator.services.fsx_notifications import bucket_of, set_notification

# https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html
MAX_ASSOCIATIONS = 8
# Deployment types, and the storage type, that cannot be linked.
# https://docs.aws.amazon.com/fsx/latest/APIReference/API_CreateDataRepositoryAssociation.html
_NOT_LINKABLE = {"SCRATCH_1"}
_EVENTS = {"NEW", "CHANGED", "DELETED"}


@dataclass
class Behaviour:
    """What a test wants of the tasks of one file system.

    Attributes:
        counts: Files that tasks report, in all and failed, instead of touching any; None: they really run.
        failing: Codes of files that fail, by path below the root.
        failures: Messages of tasks that fail as a whole, next one first.
        held: Whether tasks stay EXECUTING.
        seconds: How long a task runs, in the emulator's time, at least.
        looks: How often a running task is seen before it ends, at least.
    """

    counts: tuple[int, int] | None = None
    failing: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    held: bool = False
    seconds: float = 0.0
    looks: int = 1


@dataclass
class Store:
    """Associations and tasks of one account and region.

    Attributes:
        associations: Associations by id, as the API shows them.
        tasks: Tasks by id, as the API shows them.
        tokens: Task and what was asked for, by file system and client request token.
        runs: Work of tasks that have begun.
        behaviours: What a test said about a file system.
    """

    associations: dict[str, dict[str, Any]] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    runs: dict[str, Any] = field(default_factory=dict)
    behaviours: dict[str, Behaviour] = field(default_factory=dict)

    def behaviour(self, file_system_id: str) -> Behaviour:
        """Return what a test said about a file system, to read or to change."""
        return self.behaviours.setdefault(file_system_id, Behaviour())

    def links(self, file_system_id: str) -> list[dict[str, Any]]:
        """Return the associations of a file system."""
        return [link for link in self.associations.values() if link["FileSystemId"] == file_system_id]


# Kept by backend: a new emulator has new backends
_stores: WeakKeyDictionary[FSxBackend, Store] = WeakKeyDictionary()


def store(backend: FSxBackend) -> Store:
    """Return the associations and tasks of a backend."""
    return _stores.setdefault(backend, Store())


def error(code: str, message: str) -> JsonRESTError:
    """Return an error of the FSx API."""
    return JsonRESTError(code, message)


def file_system_of(backend: FSxBackend, given: dict[str, Any]) -> Any:
    """Return the file system that a request names, or refuse the request."""
    file_system_id = given["FileSystemId"]
    if file_system_id not in backend.file_systems:
        raise error("FileSystemNotFound", f"File system '{file_system_id}' does not exist.")
    return backend.file_systems[file_system_id]


def page(items: list[dict[str, Any]], given: dict[str, Any], key: str) -> dict[str, Any]:
    """Return one page of a list, as the API cuts it."""
    start = int(given.get("NextToken") or 0)
    end = start + int(given.get("MaxResults") or len(items) or 1)
    answer: dict[str, Any] = {key: items[start:end]}
    if end < len(items):
        answer["NextToken"] = str(end)
    return answer


def _normal(path: str) -> str:
    return "/" + path.strip("/")


def within(inner: str, outer: str) -> bool:
    """Say whether a path is another one or lies below it."""
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


# What an INTELLIGENT_TIERING file system, which has no capacity, shows to ``lfs df``: it grows with its files.
_ELASTIC_GIB = 1 << 20


def describe(backend: FSxBackend, file_system_id: str) -> None:
    """Let processes on nodes know a file system as it is now."""
    file_system: Any = backend.file_systems[file_system_id]
    capacity = (file_system.storage_capacity or _ELASTIC_GIB) * 1024**3
    fsx_files.describe(file_system_id, file_system.mount_name, capacity, store(backend).links(file_system_id))


def create_data_repository_association(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Link a directory to a bucket or prefix."""
    file_system = file_system_of(backend, given)
    lustre = file_system.lustre_configuration or {}
    if lustre.get("DeploymentType", "SCRATCH_1") in _NOT_LINKABLE or file_system.storage_type == "INTELLIGENT_TIERING":
        kind = "INTELLIGENT_TIERING" if file_system.storage_type == "INTELLIGENT_TIERING" else "SCRATCH_1"
        raise error("UnsupportedOperation", f"Data repository associations are not supported on {kind} file systems")
    if lustre.get("ImportPath"):
        raise error("BadRequest", "A file system with an ImportPath cannot have data repository associations")
    if lustre.get("AutomaticBackupRetentionDays"):
        raise error("BadRequest", "Turn automatic backups off before linking a file system to a data repository")
    if file_system.to_dict()["FileSystemTypeVersion"] == "2.10":
        raise error("UnsupportedOperation", "Data repository associations need Lustre version 2.12 or newer")
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
        "CreationTime": world.now(),
    }
    store(backend).associations[association_id] = association
    backend.tagger.tag_resource(association["ResourceARN"], association["Tags"])
    _make_directory(association)
    describe(backend, given["FileSystemId"])
    _notify(backend, association)
    return {"Association": association}


def _notify(backend: FSxBackend, association: dict[str, Any]) -> None:
    set_notification(backend, bucket_of(association), store(backend).associations.values())


def _make_directory(association: dict[str, Any]) -> None:
    link, there = fsx_files.link_of(association), fsx_files.states(association["FileSystemId"])
    (there.root / link.path).mkdir(parents=True, exist_ok=True)
    if association["BatchImportMetaDataOnCreate"]:
        for key, item in fsx_files.objects(link).items():
            fsx_files.import_object(there, link, key, item)


def _check_association(backend: FSxBackend, given: dict[str, Any]) -> None:
    path, source = given.get("FileSystemPath") or "", given.get("DataRepositoryPath") or ""
    if not path.startswith("/"):
        raise error("BadRequest", f"FileSystemPath '{path}' must start with a slash")
    if not source.startswith("s3://") or len(source) <= len("s3://"):
        raise error("BadRequest", f"DataRepositoryPath '{source}' must be s3://bucket/prefix/")
    for policy in ("AutoImportPolicy", "AutoExportPolicy"):
        strange = set(((given.get("S3") or {}).get(policy) or {}).get("Events") or ()) - _EVENTS
        if strange:
            raise error("BadRequest", f"{policy} has unknown events: {', '.join(sorted(strange))}")
    others = [link for link in store(backend).associations.values() if link["FileSystemId"] == given["FileSystemId"]]
    if len(others) >= MAX_ASSOCIATIONS:
        raise error("ServiceLimitExceeded", f"A file system can have {MAX_ASSOCIATIONS} data repository associations")
    for other in others:
        mine, theirs = _normal(path), _normal(other["FileSystemPath"])
        if within(mine, theirs) or within(theirs, mine):
            raise error("BadRequest", f"FileSystemPath '{path}' overlaps with '{other['FileSystemPath']}'")
        mine, theirs = source.rstrip("/"), other["DataRepositoryPath"].rstrip("/")
        if within(mine, theirs) or within(theirs, mine):
            raise error("BadRequest", f"DataRepositoryPath '{source}' overlaps with '{other['DataRepositoryPath']}'")


def association_of(backend: FSxBackend, association_id: str) -> dict[str, Any]:
    """Return an association, or refuse the request that names it."""
    found = store(backend).associations.get(association_id)
    if found is None:
        raise error("DataRepositoryAssociationNotFound", f"Association '{association_id}' does not exist.")
    return found


def describe_data_repository_associations(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """List associations, by id or filter."""
    wanted = given.get("AssociationIds")
    found = [association_of(backend, key) for key in wanted] if wanted else list(store(backend).associations.values())
    for one in given.get("Filters") or ():
        name, values = one["Name"], one["Values"]
        if name == "file-system-id":
            found = [item for item in found if item["FileSystemId"] in values]
        elif name == "data-repository-type":
            found = found if "S3" in values else []
        else:
            raise error("BadRequest", f"Filter {name} is not supported for data repository associations")
    return page(found, given, "Associations")


def update_data_repository_association(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Change the policies or the chunk size."""
    association = association_of(backend, given["AssociationId"])
    if "S3" in given:
        association["S3"] = {**association["S3"], **given["S3"]}
    if "ImportedFileChunkSize" in given:
        association["ImportedFileChunkSize"] = given["ImportedFileChunkSize"]
    _notify(backend, association)
    return {"Association": association}


def delete_data_repository_association(backend: FSxBackend, given: dict[str, Any]) -> dict[str, Any]:
    """Remove the link; the files in the bucket stay."""
    association = association_of(backend, given["AssociationId"])
    del store(backend).associations[association["AssociationId"]]
    if given.get("DeleteDataInFileSystem"):
        shutil.rmtree(fsx_files.states(association["FileSystemId"]).root / fsx_files.link_of(association).path)
    describe(backend, association["FileSystemId"])
    _notify(backend, association)
    return {
        "AssociationId": association["AssociationId"],
        "Lifecycle": "DELETING",
        "DeleteDataInFileSystem": bool(given.get("DeleteDataInFileSystem", False)),
    }


OPERATIONS: dict[str, Callable[[FSxBackend, dict[str, Any]], dict[str, Any]]] = {
    "create_data_repository_association": create_data_repository_association,
    "delete_data_repository_association": delete_data_repository_association,
    "describe_data_repository_associations": describe_data_repository_associations,
    "update_data_repository_association": update_data_repository_association,
}
