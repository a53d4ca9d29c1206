"""Amazon S3 Files: file systems over a bucket, mount targets, access points and policies."""

from __future__ import annotations

import json
from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError, or_undo


def _api(value: Any) -> Any:
    """Say property names as the API does, which begins them in lower case."""
    if isinstance(value, dict):
        return {key[:1].lower() + key[1:]: _api(item) for key, item in value.items()}
    return [_api(item) for item in value] if isinstance(value, list) else value


def _given(properties: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name[:1].lower() + name[1:]: _api(properties[name]) for name in names if name in properties}


def _tags(context: Context, properties: dict[str, Any]) -> dict[str, Any]:
    tags = _api(context.tag_list(properties))
    return {"tags": tags} if tags else {}


def _retag(context: Context, resource_id: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    files = context.client("s3files")
    gone = [key for key in context.all_tags(old) if key not in context.all_tags(new)]
    if gone:
        files.untag_resource(resourceId=resource_id, tagKeys=gone)
    if context.tag_list(new):
        files.tag_resource(resourceId=resource_id, tags=_api(context.tag_list(new)))


class FileSystem(Provider):
    """AWS::S3Files::FileSystem; ``Ref`` is its ARN."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the file system and wait for it: one whose role is not ready never becomes available."""
        files = context.client("s3files")
        key = files.create_file_system(
            **_given(properties, "Bucket", "Prefix", "ClientToken", "KmsKeyId", "RoleArn", "AcceptBucketWarning"),
            **_tags(context, properties),
        )["fileSystemId"]
        with or_undo(lambda: files.delete_file_system(fileSystemId=key, forceDelete=True)):
            made = files.get_file_system(fileSystemId=key)
            if made["status"] != "available":
                raise ResourceError(
                    f"Resource did not stabilize: file system {key} is {made['status']}: {made.get('statusMessage')}"
                )
            self._synchronize(files, key, properties.get("SynchronizationConfiguration"))
        return Made(made["fileSystemArn"], self._attributes(files, key))

    def _synchronize(self, files: Any, key: str, wanted: dict[str, Any] | None) -> None:
        if wanted is None:
            return
        version = files.get_synchronization_configuration(fileSystemId=key)["latestVersionNumber"]
        given = _given(wanted, "ImportDataRules", "ExpirationDataRules")
        files.put_synchronization_configuration(fileSystemId=key, latestVersionNumber=version, **given)

    def _attributes(self, files: Any, key: str) -> dict[str, Any]:
        shown = files.get_file_system(fileSystemId=key)
        version = files.get_synchronization_configuration(fileSystemId=key)["latestVersionNumber"]
        return {
            "CreationTime": shown["creationTime"].isoformat(),
            "FileSystemArn": shown["fileSystemArn"],
            "FileSystemId": key,
            "OwnerId": shown["ownerId"],
            "Status": shown["status"],
            "StatusMessage": shown.get("statusMessage", ""),
            "SynchronizationConfiguration.LatestVersionNumber": version,
        }

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change the rules of synchronization and tags."""
        files, key, old = context.client("s3files"), resource.attributes["FileSystemId"], resource.properties
        name = "SynchronizationConfiguration"
        if name in old and name not in properties:
            raise ResourceError(f"{name} cannot be taken away, only changed")
        if old.get(name) != properties.get(name):
            self._synchronize(files, key, properties.get(name))
        _retag(context, key, old, properties)
        return Made(resource.physical_resource_id, self._attributes(files, key))

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the file system; refused while files wait for export, or mount targets exist."""
        context.client("s3files").delete_file_system(fileSystemId=resource.attributes["FileSystemId"])


class MountTarget(Provider):
    """AWS::S3Files::MountTarget."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the mount target in its subnet."""
        made = context.client("s3files").create_mount_target(
            **_given(
                properties,
                "FileSystemId",
                "SubnetId",
                "SecurityGroups",
                "Ipv4Address",
                "Ipv6Address",
                "IpAddressType",
            )
        )
        names = ("mountTargetId", "availabilityZoneId", "networkInterfaceId", "ownerId", "status", "vpcId")
        attributes = {name[:1].upper() + name[1:]: made[name] for name in names}
        return Made(made["mountTargetId"], {**attributes, "StatusMessage": made.get("statusMessage", "")})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change the security groups."""
        context.client("s3files").update_mount_target(
            mountTargetId=resource.physical_resource_id, securityGroups=properties.get("SecurityGroups") or []
        )
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the mount target."""
        context.client("s3files").delete_mount_target(mountTargetId=resource.physical_resource_id)


class AccessPoint(Provider):
    """AWS::S3Files::AccessPoint."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the access point; numbers are text in a template."""
        given = _given(properties, "FileSystemId", "ClientToken", "RootDirectory")
        user = properties.get("PosixUser")
        if user:
            given["posixUser"] = {"uid": int(user["Uid"]), "gid": int(user["Gid"])}
            if "SecondaryGids" in user:
                given["posixUser"]["secondaryGids"] = [int(item) for item in user["SecondaryGids"]]
        creation = given.get("rootDirectory", {}).get("creationPermissions")
        if creation:
            creation.update({name: int(creation[name]) for name in ("ownerUid", "ownerGid")})
        made = context.client("s3files").create_access_point(**given, **_tags(context, properties))
        names = ("accessPointId", "accessPointArn", "ownerId", "status")
        return Made(made["accessPointId"], {name[:1].upper() + name[1:]: made[name] for name in names})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change tags; nothing else can change."""
        _retag(context, resource.physical_resource_id, resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the access point; the files under it stay."""
        context.client("s3files").delete_access_point(accessPointId=resource.physical_resource_id)


class FileSystemPolicy(Provider):
    """AWS::S3Files::FileSystemPolicy."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the policy on the file system, unless it has one."""
        files, key = context.client("s3files"), properties["FileSystemId"]
        try:
            files.get_file_system_policy(fileSystemId=key)
        except files.exceptions.ResourceNotFoundException as error:
            if error.response.get("errorCode") != "PolicyNotFound":
                raise
        else:
            raise ResourceError(f"Resource of type '{self.type_name}' with identifier '{key}' already exists.")
        return self._put(context, properties)

    def _put(self, context: Context, properties: dict[str, Any]) -> Made:
        key = properties["FileSystemId"]
        context.client("s3files").put_file_system_policy(fileSystemId=key, policy=json.dumps(properties["Policy"]))
        return Made(key)

    def custom_named(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:  # noqa: ARG002 - as its base has it
        """A policy has no name of its own."""
        return []

    # Others read the arguments that this one does not need.
    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:  # noqa: ARG002
        """Put the new policy in place of the old one."""
        return self._put(context, properties)

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the policy off the file system."""
        context.client("s3files").delete_file_system_policy(fileSystemId=resource.physical_resource_id)


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::S3Files::AccessPoint": AccessPoint,
    "AWS::S3Files::FileSystem": FileSystem,
    "AWS::S3Files::FileSystemPolicy": FileSystemPolicy,
    "AWS::S3Files::MountTarget": MountTarget,
}
