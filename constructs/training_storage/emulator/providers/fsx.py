"""Lustre file systems and their links, through the FSx API."""

from __future__ import annotations

from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError

# Lustre settings that CloudFormation replaces the file system for, though the registry lists only whole properties.
_REPLACING = (
    "CopyTagsToBackups",
    "DeploymentType",
    "DriveCacheType",
    "ExportPath",
    "ImportPath",
    "ImportedFileChunkSize",
)
# UpdateFileSystem takes none of these, and nobody documents a replacement: the update must not look as if it worked.
_FIXED = ("EfaEnabled",)


class FileSystem(Provider):
    """AWS::FSx::FileSystem."""

    def half_updated(self, error: Exception) -> bool:  # noqa: ARG002 - as its base has it
        """One call decides, and it comes first."""
        return False

    def replaced_by(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """Add what the resource reference lists for Lustre to what the registry lists."""
        before, after = old.get("LustreConfiguration") or {}, new.get("LustreConfiguration") or {}
        nested = [f"LustreConfiguration.{name}" for name in _REPLACING if before.get(name) != after.get(name)]
        return super().replaced_by(old, new) + nested

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the file system; it is available at once."""
        if properties["FileSystemType"] != "LUSTRE":
            raise ResourceError(f"the emulator knows file systems of type LUSTRE, not {properties['FileSystemType']}")
        given = {name: value for name, value in properties.items() if name != "Tags"}
        made = context.client("fsx").create_file_system(**given, **context.tagged(properties))["FileSystem"]
        return Made(
            made["FileSystemId"],
            {
                "Id": made["FileSystemId"],
                "DNSName": made["DNSName"],
                "LustreMountName": made["LustreConfiguration"]["MountName"],
                "ResourceARN": made["ResourceARN"],
            },
        )

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Send what changed; the API decides whether it can."""
        fsx = context.client("fsx")
        old, new = resource.properties, properties
        before, after = old.get("LustreConfiguration") or {}, new.get("LustreConfiguration") or {}
        lustre = {name: after[name] for name in after if before.get(name) != after[name]}
        removed = sorted(name for name in before if name not in after)
        fixed = [name for name in _FIXED if name in lustre or name in removed]
        if old.get("StorageType", "SSD") != new.get("StorageType", "SSD"):
            fixed.append("StorageType")
        if fixed:
            raise ResourceError(f"These properties of a Lustre file system cannot be updated: {', '.join(fixed)}")
        if removed:
            raise ResourceError(f"Lustre settings cannot be taken away, only changed: {', '.join(removed)}")
        change: dict[str, Any] = {"LustreConfiguration": lustre} if lustre else {}
        for name in ("StorageCapacity", "FileSystemTypeVersion"):
            if name in new and old.get(name) != new[name]:
                change[name] = new[name]
        if change:
            fsx.update_file_system(FileSystemId=resource.physical_resource_id, **change)
        _retag(context, resource.attributes["ResourceARN"], old, new)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the file system; refused while links exist or a task runs."""
        context.client("fsx").delete_file_system(FileSystemId=resource.physical_resource_id)


class DataRepositoryAssociation(Provider):
    """AWS::FSx::DataRepositoryAssociation."""

    def half_updated(self, error: Exception) -> bool:  # noqa: ARG002 - as its base has it
        """One call decides, and it comes first."""
        return False

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Link; the bucket has to exist."""
        bucket = properties["DataRepositoryPath"].removeprefix("s3://").split("/", 1)[0]
        context.client("s3").head_bucket(Bucket=bucket)
        made = context.client("fsx").create_data_repository_association(
            **{name: value for name, value in properties.items() if name != "Tags"}, **context.tagged(properties)
        )["Association"]
        return Made(made["AssociationId"], {"AssociationId": made["AssociationId"], "ResourceARN": made["ResourceARN"]})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change policies, chunk size and tags."""
        change = {
            name: properties[name]
            for name in ("S3", "ImportedFileChunkSize")
            if name in properties and properties[name] != resource.properties.get(name)
        }
        if "S3" in resource.properties and properties.get("S3") != resource.properties["S3"]:
            # a policy that the template no longer has is switched off, not left on
            off: dict[str, Any] = {name: {"Events": []} for name in resource.properties["S3"]}
            change["S3"] = {**off, **(properties.get("S3") or {})}
        context.client("fsx").update_data_repository_association(AssociationId=resource.physical_resource_id, **change)
        _retag(context, resource.attributes["ResourceARN"], resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Unlink; files stay on both sides."""
        context.client("fsx").delete_data_repository_association(
            AssociationId=resource.physical_resource_id, DeleteDataInFileSystem=False
        )


def _retag(context: Context, arn: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    fsx = context.client("fsx")
    gone = [key for key in context.all_tags(old) if key not in context.all_tags(new)]
    if gone:
        fsx.untag_resource(ResourceARN=arn, TagKeys=gone)
    if context.tag_list(new):
        fsx.tag_resource(ResourceARN=arn, Tags=context.tag_list(new))


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::FSx::DataRepositoryAssociation": DataRepositoryAssociation,
    "AWS::FSx::FileSystem": FileSystem,
}
