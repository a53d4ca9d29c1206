"""S3 buckets with everything that their properties switch on, bucket policies, and directory buckets."""

from __future__ import annotations

import json
import re
from typing import Any

from botocore.exceptions import ClientError

from training_storage.emulator.partitions import URL_SUFFIXES
from training_storage.emulator.providers.base import (
    Context,
    Made,
    Provider,
    Resource,
    ResourceError,
    error_code,
    or_undo,
)
from training_storage.emulator.providers.s3_settings import SETTINGS, UNSUPPORTED

# Suffix of a directory bucket's name: https://docs.aws.amazon.com/AmazonS3/latest/userguide/directory-bucket-naming-rules.html
_DIRECTORY_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}[a-z0-9]?--([a-z0-9-]+)--x-s3")


class Bucket(Provider):
    """AWS::S3::Bucket."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the bucket and apply every property through the S3 API."""
        strange = sorted(set(properties) & UNSUPPORTED)
        if strange:
            raise ResourceError(f"the emulator does not apply these bucket properties: {', '.join(strange)}")
        name = properties.get("BucketName") or context.generated_name(63, lower=True)
        s3 = context.client("s3")
        try:
            s3.head_bucket(Bucket=name)
        except ClientError:
            pass
        else:
            raise ResourceError(f"{name} already exists")
        where = {} if context.region == "us-east-1" else {"LocationConstraint": context.region}
        options: dict[str, Any] = {"CreateBucketConfiguration": where} if where else {}
        if properties.get("ObjectLockEnabled"):
            options["ObjectLockEnabledForBucket"] = True
        s3.create_bucket(Bucket=name, **options)
        with or_undo(lambda: s3.delete_bucket(Bucket=name)):
            self._apply(context, name, {}, properties)
        suffix = URL_SUFFIXES.get(context.partition, "amazonaws.com")
        return Made(
            name,
            {
                "Arn": f"arn:{context.partition}:s3:::{name}",
                "DomainName": f"{name}.s3.{suffix}",
                "DualStackDomainName": f"{name}.s3.dualstack.{context.region}.{suffix}",
                "RegionalDomainName": f"{name}.s3.{context.region}.{suffix}",
                "WebsiteURL": f"http://{name}.s3-website-{context.region}.{suffix}",
            },
        )

    def _apply(self, context: Context, name: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        s3 = context.client("s3")
        for setting in SETTINGS:
            if old.get(setting.name) != new.get(setting.name):
                setting.apply(s3, name, new.get(setting.name))
        if context.tag_list(new):
            s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": context.tag_list(new)})
        elif context.tag_list(old):
            s3.delete_bucket_tagging(Bucket=name)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Apply the properties that changed; one that is gone is switched off."""
        strange = sorted(set(properties) & UNSUPPORTED)
        if strange:
            raise ResourceError(f"the emulator does not apply these bucket properties: {', '.join(strange)}")
        self._apply(context, resource.physical_resource_id, resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the bucket; it must be empty, of versions too."""
        s3, name = context.client("s3"), resource.physical_resource_id
        try:
            left = s3.list_object_versions(Bucket=name, MaxKeys=1)
        except ClientError as error:
            if error_code(error) == "NoSuchBucket":
                return
            raise
        if left.get("Versions") or left.get("DeleteMarkers"):
            raise ResourceError(
                "The bucket you tried to delete is not empty. You must delete all versions in the bucket."
            )
        s3.delete_bucket(Bucket=name)


class BucketPolicy(Provider):
    """AWS::S3::BucketPolicy."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the policy on the bucket."""
        bucket = properties["Bucket"]
        try:
            context.client("s3").get_bucket_policy(Bucket=bucket)
        except ClientError as error:
            if error_code(error) != "NoSuchBucketPolicy":
                raise
        else:
            raise ResourceError(f"The bucket policy already exists on bucket {bucket}.")
        return self._put(context, properties)

    def _put(self, context: Context, properties: dict[str, Any]) -> Made:
        bucket, policy = properties["Bucket"], properties["PolicyDocument"]
        document = policy if isinstance(policy, str) else json.dumps(policy)
        context.client("s3").put_bucket_policy(Bucket=bucket, Policy=document)
        return Made(bucket)

    def custom_named(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:  # noqa: ARG002
        """A policy has no name of its own."""
        return []

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:  # noqa: ARG002
        """Put the new policy in place of the old one."""
        return self._put(context, properties)

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the policy off the bucket."""
        context.client("s3").delete_bucket_policy(Bucket=resource.physical_resource_id)


class DirectoryBucket(Provider):
    """AWS::S3Express::DirectoryBucket: an ordinary emulated bucket under a directory bucket's name."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the bucket in a zone of the region."""
        zones = {
            zone["ZoneId"]: zone["ZoneName"]
            for zone in context.client("ec2").describe_availability_zones()["AvailabilityZones"]
        }
        location = properties["LocationName"]
        if location not in zones:
            raise ResourceError(f"{context.region} has no zone {location}; zones: {', '.join(sorted(zones))}")
        suffix = f"--{location}--x-s3"
        name = properties.get("BucketName") or context.generated_name(63 - len(suffix), lower=True) + suffix
        match = _DIRECTORY_NAME.fullmatch(name)
        if match is None or match.group(1) != location:
            raise ResourceError(f"the name of a directory bucket must end in {suffix}, got {name}")
        self._backend(context).create_bucket(name, context.region)
        return Made(
            name,
            {
                "Arn": f"arn:{context.partition}:s3express:{context.region}:{context.account}:bucket/{name}",
                "AvailabilityZoneName": zones[location],
            },
        )

    def _backend(self, context: Context) -> Any:
        # the S3 client would open a session with S3 Express for such a name, which the emulated S3 does not have
        from moto.s3.models import s3_backends

        return s3_backends[context.account][context.partition]

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:  # noqa: ARG002
        """Keep the bucket: encryption and lifecycle of a directory bucket are known to the stack only."""
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the bucket; it must be empty."""
        backend, name = self._backend(context), resource.physical_resource_id
        if name not in backend.buckets:
            return
        if list(backend.buckets[name].keys):
            raise ResourceError("The bucket you tried to delete is not empty")
        backend.delete_bucket(name)


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::S3::Bucket": Bucket,
    "AWS::S3::BucketPolicy": BucketPolicy,
    "AWS::S3Express::DirectoryBucket": DirectoryBucket,
}
