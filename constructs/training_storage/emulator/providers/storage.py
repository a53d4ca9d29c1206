"""S3 buckets with everything that their properties switch on, and bucket policies."""

from __future__ import annotations

import json
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
    """AWS::S3::BucketPolicy, and that of directory buckets."""

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

    def custom_named(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:  # noqa: ARG002 - as its base has it
        """A policy has no name of its own."""
        return []

    # Others read the arguments that this one does not need.
    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:  # noqa: ARG002
        """Put the new policy in place of the old one."""
        return self._put(context, properties)

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the policy off the bucket."""
        context.client("s3").delete_bucket_policy(Bucket=resource.physical_resource_id)


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::S3::Bucket": Bucket,
    "AWS::S3::BucketPolicy": BucketPolicy,
}
