"""The S3 Files API, and its place among the services that moto knows."""

from __future__ import annotations

import re
from typing import Any

from moto.core.responses import ActionResult, BaseResponse, EmptyResult

from training_storage.emulator._moto import Patches
from training_storage.emulator.services import s3_files_network
from training_storage.emulator.services.s3_files import S3FilesBackend, Shown, s3_files_backends

_SERVICE = "s3files"


class S3FilesResponse(BaseResponse):
    """Answers requests; moto finds operations by their name in snake case."""

    def __init__(self) -> None:
        super().__init__(service_name=_SERVICE)
        self.automated_parameter_parsing = True

    @property
    def backend(self) -> S3FilesBackend:
        """What the service knows in the caller's account and region."""
        return s3_files_backends[self.current_account][self.region]

    def _given(self, *names: str) -> Shown:
        found = {name: self._get_param(name) for name in names}
        return {name: value for name, value in found.items() if value is not None}

    def _page(self, items: list[Shown], key: str, limit: int) -> ActionResult:
        start = int(self._get_param("nextToken") or 0)
        end = start + int(self._get_param("maxResults") or limit)
        shown: Shown = {key: [_named(item) for item in items[start:end]]}
        if end < len(items):
            shown["nextToken"] = str(end)
        return ActionResult(shown)

    def create_file_system(self) -> ActionResult:
        """Answer CreateFileSystem."""
        given = self._given("bucket", "prefix", "clientToken", "kmsKeyId", "roleArn", "tags")
        made = self.backend.create_file_system(given)
        # why it will not become available is seen later
        return ActionResult(_named({name: value for name, value in made.items() if name != "statusMessage"}))

    def get_file_system(self) -> ActionResult:
        """Answer GetFileSystem."""
        return ActionResult(_named(self.backend.get_file_system(self._get_param("fileSystemId"))))

    def list_file_systems(self) -> ActionResult:
        """Answer ListFileSystems."""
        bucket = self._get_param("bucket")
        found = [self.backend.get_file_system(key) for key in self.backend.file_systems]
        return self._page([item for item in found if bucket in (None, item["bucket"])], "fileSystems", 100)

    def delete_file_system(self) -> EmptyResult:
        """Answer DeleteFileSystem."""
        force = str(self._get_param("forceDelete")).lower() == "true"
        self.backend.delete_file_system(self._get_param("fileSystemId"), force=force)
        return EmptyResult()

    def get_synchronization_configuration(self) -> ActionResult:
        """Answer GetSynchronizationConfiguration."""
        key = self.backend.find(self._get_param("fileSystemId"))["fileSystemId"]
        return ActionResult(self.backend.synchronization[key])

    def put_synchronization_configuration(self) -> EmptyResult:
        """Answer PutSynchronizationConfiguration."""
        given = self._given("latestVersionNumber", "importDataRules", "expirationDataRules")
        self.backend.put_synchronization(self._get_param("fileSystemId"), given)
        return EmptyResult()

    def put_file_system_policy(self) -> EmptyResult:
        """Answer PutFileSystemPolicy."""
        self.backend.put_policy(self._get_param("fileSystemId"), self._get_param("policy"))
        return EmptyResult()

    def get_file_system_policy(self) -> ActionResult:
        """Answer GetFileSystemPolicy."""
        return ActionResult(self.backend.get_policy(self._get_param("fileSystemId")))

    def delete_file_system_policy(self) -> EmptyResult:
        """Answer DeleteFileSystemPolicy."""
        key = self.backend.get_policy(self._get_param("fileSystemId"))["fileSystemId"]
        del self.backend.policies[key]
        return EmptyResult()

    def create_mount_target(self) -> ActionResult:
        """Answer CreateMountTarget."""
        names = ("fileSystemId", "subnetId", "ipv4Address", "ipv6Address", "ipAddressType", "securityGroups")
        return ActionResult(self.backend.network.create(self._given(*names)))

    def get_mount_target(self) -> ActionResult:
        """Answer GetMountTarget."""
        return ActionResult(self.backend.network.find(self._get_param("mountTargetId")))

    def update_mount_target(self) -> ActionResult:
        """Answer UpdateMountTarget."""
        groups = self._get_param("securityGroups")
        return ActionResult(self.backend.network.update(self._get_param("mountTargetId"), groups))

    def delete_mount_target(self) -> EmptyResult:
        """Answer DeleteMountTarget."""
        self.backend.network.delete(self._get_param("mountTargetId"))
        return EmptyResult()

    def list_mount_targets(self) -> ActionResult:
        """Answer ListMountTargets."""
        key, point = self._get_param("fileSystemId"), self._get_param("accessPointId")
        if point:
            key = self.backend.access_point(point)["fileSystemId"]
        if key:
            key = self.backend.find(key)["fileSystemId"]
        found = [item for item in self.backend.mount_targets.values() if key in (None, item["fileSystemId"])]
        return self._page(found, "mountTargets", 100)

    def create_access_point(self) -> ActionResult:
        """Answer CreateAccessPoint."""
        given = self._given("clientToken", "tags", "fileSystemId", "posixUser", "rootDirectory")
        return ActionResult(_named(self.backend.create_access_point(given)))

    def get_access_point(self) -> ActionResult:
        """Answer GetAccessPoint."""
        return ActionResult(_named(self.backend.access_point(self._get_param("accessPointId"))))

    def delete_access_point(self) -> EmptyResult:
        """Answer DeleteAccessPoint."""
        key = self.backend.access_point(self._get_param("accessPointId"))["accessPointId"]
        del self.backend.access_points[key]
        return EmptyResult()

    def list_access_points(self) -> ActionResult:
        """Answer ListAccessPoints."""
        key = self.backend.find(self._get_param("fileSystemId"))["fileSystemId"]
        found = [item for item in self.backend.access_points.values() if item["fileSystemId"] == key]
        return self._page(found, "accessPoints", 1000)

    def list_tags_for_resource(self) -> ActionResult:
        """Answer ListTagsForResource."""
        return ActionResult({"tags": self.backend.tagged(self._get_param("resourceId"))["tags"]})

    def tag_resource(self) -> EmptyResult:
        """Answer TagResource."""
        item, new = self.backend.tagged(self._get_param("resourceId")), self._get_param("tags")
        keys = [tag["key"] for tag in new]
        item["tags"] = [tag for tag in item["tags"] if tag["key"] not in keys] + list(new)
        return EmptyResult()

    def untag_resource(self) -> EmptyResult:
        """Answer UntagResource."""
        item, keys = self.backend.tagged(self._get_param("resourceId")), self._get_param("tagKeys")
        item["tags"] = [tag for tag in item["tags"] if tag["key"] not in keys]
        return EmptyResult()


def _named(item: Shown) -> Shown:
    """Add the name, which is a tag."""
    name = next((tag["value"] for tag in item.get("tags") or () if tag["key"] == "Name"), None)
    return item if name is None else {**item, "name": name}


# moto reads both from a module beside the backend.
url_bases = [
    r"https?://s3files(?:-fips)?\.(?:.+)\.amazonaws\.com(?:\.cn)?",
    r"https?://s3files(?:-fips)?\.(?:.+)\.api\.aws",
    r"https?://s3files(?:-fips)?\.(?:.+)\.api\.amazonwebservices\.com\.cn",
]
url_paths = {"{0}/.*$": S3FilesResponse.dispatch}


def install(patches: Patches) -> None:
    """Make the service known in this process and to the server."""
    from moto import backend_index, backends

    # first: the pattern of S3 would take every host that begins with s3
    patterns = [(_SERVICE, re.compile(base)) for base in url_bases]
    patches.set(backend_index, "backend_url_patterns", patterns + backend_index.backend_url_patterns)
    known = backends.get_backend

    def get_backend(name: Any) -> Any:
        return s3_files_backends if name == _SERVICE else known(name)

    patches.set(backends, "get_backend", get_backend)
    s3_files_network.install(patches)
