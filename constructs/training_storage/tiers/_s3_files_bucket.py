"""What is known at synth of the bucket under an S3 Files file system, and what its owner is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage._arguments import BUCKET, Kind, has
from training_storage.tiers import _warnings
from training_storage.tiers._tokens import concrete
from training_storage.tiers.data_lake import DataLake

BUCKET_OR_LAKE: Final = Kind(
    allowed="a DataLake, or a bucket of the CDK",
    fits=BUCKET.fits,
    fix="s3.Bucket.from_bucket_name, or a DataLake of your app",
)
_DIRECTORY_BUCKET_END: Final = "--x-s3"


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketFacts:
    """A bucket as it was given. A field is None where it is not known.

    Attributes:
        bucket: The bucket; None for a directory bucket, which is no bucket of the CDK's.
        key: Its key.
        directory: Whether it is a directory bucket.
        versioned: Whether its versioning is enabled.
        encryption: Its default encryption, as the S3 API names it.
        sends_events: Whether its own properties switch EventBridge on.
        region: Its region.
        account: Its account.
    """

    bucket: s3.IBucket | None
    key: kms.IKey | None = None
    directory: bool | None = None
    versioned: bool | None = None
    encryption: str | None = None
    sends_events: bool | None = None
    region: str | None = None
    account: str | None = None


def facts_of(source: DataLake | s3.IBucket) -> BucketFacts:
    """Return what is known of a bucket: of a lake what it says, of a bucket of the app what its resource says."""
    lake = source if isinstance(source, DataLake) else None
    if lake is None and not has(source, "arn_for_objects"):
        return BucketFacts(bucket=None, directory=True)
    bucket = source.bucket if isinstance(source, DataLake) else source
    resource = bucket.node.default_child
    properties = _properties(resource) if isinstance(resource, s3.CfnBucket) else None
    return BucketFacts(
        bucket=bucket,
        key=lake.encryption_key if lake is not None else bucket.encryption_key,
        directory=(concrete(bucket.bucket_name) or "").endswith(_DIRECTORY_BUCKET_END),
        versioned=lake.versioned if lake is not None and lake.versioned is not None else _versioned(properties),
        encryption=_encryption(properties),
        sends_events=None if properties is None else _sends_events(properties),
        region=concrete(bucket.env.region),
        account=concrete(bucket.env.account),
    )


def say_what_the_owner_does(scope: Construct, facts: BucketFacts) -> None:
    """Warn of what a bucket needs and this app does not see: versioning of one that exists already, and events."""
    if facts.bucket is None:
        return
    name = concrete(facts.bucket.bucket_name) or "BUCKET"
    if facts.versioned is None:
        _warnings.warn(
            scope,
            _warnings.S3_FILES_BUCKET,
            "S3 Files takes this bucket only with versioning Enabled, encrypted with SSE-S3 or SSE-KMS, and in the "
            f"region of the file system. Its owner runs: aws s3api put-bucket-versioning --bucket {name} "
            "--versioning-configuration Status=Enabled. "
            + (
                "Where a key of KMS encrypts it, give both as DataLake(bucket=..., encryption_key=...), or the service "
                "cannot read it. "
                if facts.key is None
                else ""
            )
            + "Its events must go to EventBridge, too: its owner adds "
            '"EventBridgeConfiguration": {} to what aws s3api get-bucket-notification-configuration --bucket '
            f"{name} returns, and gives all of it to aws s3api put-bucket-notification-configuration, which replaces "
            "the whole; whatever manages the notifications of the bucket must not switch it off later",
        )
    elif facts.sends_events is False:
        _warnings.warn(
            scope,
            _warnings.S3_FILES_EVENTS,
            "S3 Files follows the bucket by EventBridge, and the properties of this bucket do not switch it on: set "
            "notification_configuration of its CfnBucket with EventBridgeConfigurationProperty("
            "event_bridge_enabled=True). event_bridge_enabled=True of s3.Bucket does it by a custom resource that "
            "replaces all notifications, which breaks what FSx imports from the bucket",
        )


def _properties(resource: s3.CfnBucket) -> dict[str, Any]:
    given = {
        "versioning": resource.versioning_configuration,
        "encryption": resource.bucket_encryption,
        "notifications": resource.notification_configuration,
    }
    resolved: dict[str, Any] = cdk.Stack.of(resource).resolve(given)
    return resolved


def _versioned(properties: Mapping[str, Any] | None) -> bool | None:
    """Whether a resource of the app enables versioning; None where there is no resource, or only deploy knows."""
    if properties is None:
        return None
    status = _inside(properties, "versioning", "status")
    return status == "Enabled" if isinstance(status, str) or status is None else None


def _encryption(properties: Mapping[str, Any] | None) -> str | None:
    rules = _inside(properties, "encryption", "serverSideEncryptionConfiguration")
    first = rules[0] if isinstance(rules, list) and rules else None
    found = _inside(first, "serverSideEncryptionByDefault", "sseAlgorithm")
    return found if isinstance(found, str) else None


def _sends_events(properties: Mapping[str, Any]) -> bool:
    configuration = _inside(properties, "notifications", "eventBridgeConfiguration")
    # Left out inside the configuration, EventBridgeEnabled is true (CloudFormation schema of AWS::S3::Bucket).
    return configuration is not None and _inside(configuration, "eventBridgeEnabled") is not False


def _inside(value: object, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
