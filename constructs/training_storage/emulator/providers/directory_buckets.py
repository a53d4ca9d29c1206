"""Directory buckets of S3 Express One Zone, and their policies."""

from __future__ import annotations

from typing import Any

from training_storage.emulator.providers.base import (
    Context,
    Made,
    Provider,
    Resource,
    ResourceError,
    error_code,
    ignoring,
    or_undo,
)
from training_storage.emulator.providers.s3_settings import encryption, lifecycle, request_metrics
from training_storage.emulator.providers.storage import BucketPolicy

_LONGEST_NAME = 63
_KINDS = {"SingleAvailabilityZone": "AvailabilityZone", "SingleLocalZone": "LocalZone"}


class DirectoryBucket(Provider):
    """AWS::S3Express::DirectoryBucket."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the bucket in its zone, and apply every property through the S3 API."""
        s3, zone, redundancy = context.client("s3"), properties["LocationName"], properties["DataRedundancy"]
        suffix = f"--{zone}--x-s3"
        name = properties.get("BucketName")
        if name is None:
            name = context.generated_name(_LONGEST_NAME - len(suffix), lower=True) + suffix
        elif not name.endswith(suffix):
            # S3 knows by the ending what kind of bucket is meant, and would make another one
            raise ResourceError(f"the name of a directory bucket must end in {suffix}, got {name}")
        configuration: dict[str, Any] = {
            "Location": {"Name": zone, "Type": _KINDS[redundancy]},
            "Bucket": {"Type": "Directory", "DataRedundancy": redundancy},
            **context.tagged(properties),
        }
        s3.create_bucket(Bucket=name, CreateBucketConfiguration=configuration)
        with or_undo(lambda: s3.delete_bucket(Bucket=name)):
            self._apply(s3, name, {}, properties)
        zones = context.client("ec2").describe_availability_zones()["AvailabilityZones"]
        return Made(
            name,
            {
                "Arn": self._arn(context, name),
                "AvailabilityZoneName": next((item["ZoneName"] for item in zones if item["ZoneId"] == zone), zone),
            },
        )

    def _arn(self, context: Context, name: str) -> str:
        return context.arn("s3express", f"bucket/{name}")

    def _apply(self, s3: Any, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        for key, put, clear in (
            ("BucketEncryption", encryption, s3.delete_bucket_encryption),
            ("LifecycleConfiguration", lifecycle, s3.delete_bucket_lifecycle),
        ):
            if old.get(key) == new.get(key):
                continue
            if key in new:
                put(s3, name, new[key])
            else:
                clear(Bucket=name)
        self._several(s3, name, "metrics", old, new, request_metrics)
        self._several(s3, name, "inventory", old, new, _inventory)

    def _several(self, s3: Any, name: str, kind: str, old: dict[str, Any], new: dict[str, Any], said: Any) -> None:
        """Put and delete configurations of which a bucket may have several, each with an id."""
        before, after = (
            {item["Id"]: item for item in properties.get(f"{kind.capitalize()}Configurations") or ()}
            for properties in (old, new)
        )
        for key in before.keys() - after.keys():
            with ignoring("NoSuchConfiguration"):
                getattr(s3, f"delete_bucket_{kind}_configuration")(Bucket=name, Id=key)
        for key, item in after.items():
            if before.get(key) != item:
                given = {f"{kind.capitalize()}Configuration": said(item)}
                getattr(s3, f"put_bucket_{kind}_configuration")(Bucket=name, Id=key, **given)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Apply the properties that changed; one that is gone is switched off."""
        name, old = resource.physical_resource_id, resource.properties
        self._apply(context.client("s3"), name, old, properties)
        control, arn = context.client("s3control"), self._arn(context, name)
        gone = [key for key in context.all_tags(old) if key not in context.all_tags(properties)]
        if gone:
            control.untag_resource(AccountId=context.account, ResourceArn=arn, TagKeys=gone)
        if context.tag_list(properties):
            control.tag_resource(AccountId=context.account, ResourceArn=arn, Tags=context.tag_list(properties))
        return Made(name, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the bucket; it must be empty, of uploads in progress too."""
        try:
            context.client("s3").delete_bucket(Bucket=resource.physical_resource_id)
        except Exception as error:
            if error_code(error) != "BucketNotEmpty":
                raise
            raise ResourceError(
                f"The bucket you tried to delete is not empty: {resource.physical_resource_id} has objects or "
                "incomplete multipart uploads"
            ) from error


def _inventory(item: dict[str, Any]) -> dict[str, Any]:
    target = item["Destination"]
    names = {"BucketArn": "Bucket", "BucketAccountId": "AccountId", "Format": "Format", "Prefix": "Prefix"}
    return {
        "Id": item["Id"],
        "IsEnabled": item["Enabled"],
        "IncludedObjectVersions": item["IncludedObjectVersions"],
        "Schedule": {"Frequency": item["ScheduleFrequency"]},
        "Destination": {"S3BucketDestination": {api: target[name] for name, api in names.items() if name in target}},
        **({"Filter": {"Prefix": item["Prefix"]}} if "Prefix" in item else {}),
        **({"OptionalFields": item["OptionalFields"]} if "OptionalFields" in item else {}),
    }


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::S3Express::BucketPolicy": BucketPolicy,
    "AWS::S3Express::DirectoryBucket": DirectoryBucket,
}
