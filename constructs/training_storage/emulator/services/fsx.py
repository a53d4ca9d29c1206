"""Amazon FSx for Lustre: what moto lacks of its API.

File systems get ids, lifecycle, mount name and version as the service gives them; data repository associations and data
repository tasks exist; deleting a file system is refused while either is in the way. The rules checked here are the
ones that the API reference and the user guide state, not a proof that FSx would accept a request:
https://docs.aws.amazon.com/fsx/latest/APIReference/ and https://docs.aws.amazon.com/fsx/latest/LustreGuide/.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

from moto.core.exceptions import JsonRESTError
from moto.fsx.models import FileSystem, FSxBackend
from moto.fsx.responses import FSxResponse

from training_storage.emulator import world
from training_storage.emulator._moto import Patches
from training_storage.emulator.services import fsx_files, fsx_metrics, fsx_tasks
from training_storage.emulator.services import fsx_repository as repository
from training_storage.emulator.services.fsx_checks import FsxError, check, find_subnet

# Lustre version of a file system for which the request names none: 2.10 for the old types, 2.12 for PERSISTENT_2
# without metadata configuration, 2.15 with one (LustreGuide, "Lustre versions").
_DEFAULT_VERSION = "2.10"
_UPDATABLE = {
    "AutoImportPolicy", "AutomaticBackupRetentionDays", "DailyAutomaticBackupStartTime", "DataCompressionType",
    "DataReadCacheConfiguration", "LogConfiguration", "MetadataConfiguration",
    "PerUnitStorageThroughput", "RootSquashConfiguration", "ThroughputCapacity", "WeeklyMaintenanceStartTime",
}  # fmt: skip


def _get(backend: FSxBackend, file_system_id: str) -> Any:
    if file_system_id not in backend.file_systems:
        raise FsxError("FileSystemNotFound", f"File system '{file_system_id}' does not exist.")
    return backend.file_systems[file_system_id]


def _create(original: Callable[..., FileSystem]) -> Callable[..., Any]:
    def create_file_system(self: FSxBackend, **given: Any) -> Any:
        tags = given.pop("tags") or []
        file_system: Any = original(self, tags=None, **given)
        old, new = file_system.file_system_id, f"fs-0{uuid.uuid4().hex[:16]}"
        del self.file_systems[old]
        self.file_systems[new] = file_system
        file_system.file_system_id = new
        # moto writes the plain partition and suffix whatever the region
        suffix = "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"
        file_system.dns_name = f"{new}.fsx.{self.region_name}.{suffix}"
        file_system.resource_arn = f"arn:{self.partition}:fsx:{self.region_name}:{self.account_id}:file-system/{new}"
        if tags:
            self.tagger.tag_resource(file_system.resource_arn, tags)
        file_system.creation_time = world.now()
        file_system.version = given.get("file_system_type_version")
        file_system.mount_name = "fsx" if _deployment(file_system) == "SCRATCH_1" else uuid.uuid4().hex[:8]
        if file_system.file_system_type == "LUSTRE":
            _check_lustre(self, file_system)
            repository.describe(self, new)
            fsx_metrics.born(self, new, file_system.creation_time)
        return file_system

    return create_file_system


def _deployment(file_system: FileSystem) -> str:
    return str((file_system.lustre_configuration or {}).get("DeploymentType", "SCRATCH_1"))


def _check_lustre(backend: FSxBackend, file_system: Any) -> None:
    try:
        check(backend, file_system)
    except JsonRESTError:
        del backend.file_systems[file_system.file_system_id]
        raise


def _to_dict(original: Callable[[FileSystem], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    def to_dict(self: Any) -> dict[str, Any]:
        shown = original(self)
        backend = self.backend
        shown["Lifecycle"] = "AVAILABLE"
        shown["OwnerId"] = backend.account_id
        shown["CreationTime"] = self.creation_time
        subnet = find_subnet(backend, self.subnet_ids[0]) if self.subnet_ids else None
        if subnet is not None:
            shown["VpcId"] = subnet.vpc_id
        # security groups are the network interfaces' business: the service does not show them here
        shown.pop("SecurityGroupIds", None)
        if self.file_system_type == "LUSTRE":
            lustre = dict(self.lustre_configuration or {})
            lustre["DeploymentType"] = _deployment(self)
            lustre["MountName"] = self.mount_name
            shown["LustreConfiguration"] = lustre
            shown["FileSystemTypeVersion"] = self.version or _default_version(lustre)
        return shown

    return to_dict


def _default_version(lustre: dict[str, Any]) -> str:
    if lustre["DeploymentType"] != "PERSISTENT_2":
        return _DEFAULT_VERSION
    return "2.15" if "MetadataConfiguration" in lustre else "2.12"


def _describe(original: Callable[..., Any]) -> Callable[..., Any]:
    def describe_file_systems(self: Any) -> Any:
        for file_system_id in json.loads(self.body).get("FileSystemIds") or ():
            _get(self.fsx_backend, file_system_id)  # moto leaves out what it does not know
        return original(self)

    return describe_file_systems


def _update(self: Any) -> str:
    given = json.loads(self.body)
    backend = self.fsx_backend
    file_system = _get(backend, given["FileSystemId"])
    capacity = given.get("StorageCapacity")
    if capacity is not None:
        if file_system.storage_capacity is None:
            raise FsxError("BadRequest", "An INTELLIGENT_TIERING file system has no storage capacity to change")
        if capacity <= file_system.storage_capacity:
            raise FsxError(
                "BadRequest",
                f"Storage capacity can only be increased: {capacity} GiB is not above "
                f"{file_system.storage_capacity} GiB",
            )
        if _deployment(file_system) == "SCRATCH_1":
            raise FsxError("BadRequest", "Storage capacity of a SCRATCH_1 file system cannot be changed")
    changes = given.get("LustreConfiguration") or {}
    fixed = sorted(set(changes) - _UPDATABLE)
    if fixed:
        raise FsxError("BadRequest", f"These Lustre settings cannot be updated: {', '.join(fixed)}")
    current = file_system.lustre_configuration or {}
    throughput = current.get("ThroughputCapacity", 0)
    if changes.get("ThroughputCapacity", throughput) < throughput:
        raise FsxError("BadRequest", f"Throughput capacity can only be increased, from {throughput} MBps")
    tier = changes.get("PerUnitStorageThroughput")
    if current.get("EfaEnabled") and tier not in (None, current.get("PerUnitStorageThroughput")):
        raise FsxError("BadRequest", "PerUnitStorageThroughput of an EFA-enabled file system cannot be changed")
    version = given.get("FileSystemTypeVersion")
    if version and float(version) < float(file_system.to_dict().get("FileSystemTypeVersion", "0")):
        raise FsxError("BadRequest", f"The Lustre version can only go up, not to {version}")
    if capacity is not None:
        file_system.storage_capacity = capacity
    if version:
        file_system.version = version
    lustre = {**current, **changes}
    if "MetadataConfiguration" in changes:
        before = current.get("MetadataConfiguration", {})
        lustre["MetadataConfiguration"] = {**before, **changes["MetadataConfiguration"]}
        if lustre["MetadataConfiguration"].get("Mode") == "AUTOMATIC":
            lustre["MetadataConfiguration"].pop("Iops", None)
    file_system.lustre_configuration = lustre
    repository.describe(backend, given["FileSystemId"])
    return json.dumps({"FileSystem": file_system.to_dict()})


def _delete(original: Callable[..., Any]) -> Callable[..., Any]:
    def delete_file_system(self: FSxBackend, file_system_id: str, **given: Any) -> Any:
        _get(self, file_system_id)
        store = repository.store(self)
        links = store.links(file_system_id)
        if links:
            names = ", ".join(link["AssociationId"] for link in links)
            raise FsxError(
                "BadRequest", f"File system '{file_system_id}' still has data repository associations: {names}"
            )
        running = [
            task
            for task in store.tasks.values()
            if task["FileSystemId"] == file_system_id and task["Lifecycle"] in fsx_tasks.UNFINISHED
        ]
        if running:
            names = ", ".join(task["TaskId"] for task in running)
            raise FsxError(
                "BadRequest", f"File system '{file_system_id}' has unfinished data repository tasks: {names}"
            )
        fsx_files.remove(file_system_id)
        fsx_metrics.gone(self, file_system_id)
        return original(self, file_system_id=file_system_id, **given)

    return delete_file_system


def _operation(function: Callable[[FSxBackend, dict[str, Any]], dict[str, Any]]) -> Callable[[Any], str]:
    def operation(self: Any) -> str:
        return json.dumps(function(self.fsx_backend, json.loads(self.body)))

    return operation


def install(patches: Patches) -> None:
    """Add the operations, which moto finds by their name in snake case, and the metrics."""
    fsx_metrics.install(patches)
    patches.set(FSxBackend, "create_file_system", _create(FSxBackend.create_file_system))
    patches.set(FSxBackend, "delete_file_system", _delete(FSxBackend.delete_file_system))
    patches.set(FileSystem, "to_dict", _to_dict(FileSystem.to_dict))
    patches.set(FSxResponse, "describe_file_systems", _describe(FSxResponse.describe_file_systems))
    patches.set(FSxResponse, "update_file_system", _update)
    for name, function in {**repository.OPERATIONS, **fsx_tasks.OPERATIONS}.items():
        patches.set(FSxResponse, name, _operation(function))
