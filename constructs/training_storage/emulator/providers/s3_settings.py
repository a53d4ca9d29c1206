"""How each property of a bucket is said in the S3 API, and how it is taken away again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """One property of AWS::S3::Bucket.

    Attributes:
        name: The property.
        put: Sets it: client, bucket, the property's value.
        clear: Takes it away: client, bucket. None where S3 has no such call and the default has to be set.
    """

    name: str
    put: Callable[[Any, str, Any], object]
    clear: Callable[[Any, str], object]

    def apply(self, s3: Any, bucket: str, value: Any) -> None:
        """Set the property, or take it away where the value is None."""
        if value is None:
            self.clear(s3, bucket)
        else:
            self.put(s3, bucket, value)


def encryption(s3: Any, bucket: str, value: Any) -> None:
    """Set the default encryption of a bucket."""
    rules = []
    for rule in value["ServerSideEncryptionConfiguration"]:
        said: dict[str, Any] = {}
        by_default = rule.get("ServerSideEncryptionByDefault")
        if by_default:
            said["ApplyServerSideEncryptionByDefault"] = by_default
        if "BucketKeyEnabled" in rule:
            said["BucketKeyEnabled"] = rule["BucketKeyEnabled"]
        if "BlockedEncryptionTypes" in rule:
            said["BlockedEncryptionTypes"] = rule["BlockedEncryptionTypes"]
        rules.append(said)
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    """Say a lifecycle rule the way S3 does: one filter, lists of transitions."""
    said: dict[str, Any] = {"Status": rule["Status"]}
    if "Id" in rule:
        said["ID"] = rule["Id"]
    conditions: list[tuple[str, Any]] = [("Prefix", rule["Prefix"])] if "Prefix" in rule else []
    conditions += [("Tag", tag) for tag in rule.get("TagFilters", ())]
    for size in ("ObjectSizeGreaterThan", "ObjectSizeLessThan"):
        if size in rule:
            conditions.append((size, int(rule[size])))
    if len(conditions) == 1:
        said["Filter"] = dict(conditions)
    elif conditions:
        both: dict[str, Any] = {name: value for name, value in conditions if name != "Tag"}
        tags = [value for name, value in conditions if name == "Tag"]
        said["Filter"] = {"And": {**both, **({"Tags": tags} if tags else {})}}
    else:
        said["Filter"] = {"Prefix": ""}
    expiration = {
        api: rule[name]
        for name, api in (
            ("ExpirationInDays", "Days"),
            ("ExpirationDate", "Date"),
            ("ExpiredObjectDeleteMarker", "ExpiredObjectDeleteMarker"),
        )
        if name in rule
    }
    if expiration:
        said["Expiration"] = expiration
    transitions = rule.get("Transitions") or ([rule["Transition"]] if "Transition" in rule else [])
    if transitions:
        said["Transitions"] = [
            {
                "StorageClass": item["StorageClass"],
                **({"Days": item["TransitionInDays"]} if "TransitionInDays" in item else {}),
                **({"Date": item["TransitionDate"]} if "TransitionDate" in item else {}),
            }
            for item in transitions
        ]
    noncurrent = rule.get("NoncurrentVersionTransitions") or (
        [rule["NoncurrentVersionTransition"]] if "NoncurrentVersionTransition" in rule else []
    )
    if noncurrent:
        said["NoncurrentVersionTransitions"] = [
            {
                "StorageClass": item["StorageClass"],
                "NoncurrentDays": item["TransitionInDays"],
                **_newer(item),
            }
            for item in noncurrent
        ]
    if "NoncurrentVersionExpiration" in rule:
        item = rule["NoncurrentVersionExpiration"]
        said["NoncurrentVersionExpiration"] = {"NoncurrentDays": item["NoncurrentDays"], **_newer(item)}
    elif "NoncurrentVersionExpirationInDays" in rule:
        said["NoncurrentVersionExpiration"] = {"NoncurrentDays": rule["NoncurrentVersionExpirationInDays"]}
    if "AbortIncompleteMultipartUpload" in rule:
        said["AbortIncompleteMultipartUpload"] = rule["AbortIncompleteMultipartUpload"]
    return said


def _newer(item: dict[str, Any]) -> dict[str, Any]:
    return {"NewerNoncurrentVersions": item["NewerNoncurrentVersions"]} if "NewerNoncurrentVersions" in item else {}


def lifecycle(s3: Any, bucket: str, value: Any) -> None:
    """Set the lifecycle rules of a bucket."""
    rules = [_rule(rule) for rule in value["Rules"]]
    s3.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})


def _logging(s3: Any, bucket: str, value: Any) -> None:
    status = {
        "TargetBucket": value.get("DestinationBucketName", bucket),
        "TargetPrefix": value.get("LogFilePrefix", ""),
    }
    s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={"LoggingEnabled": status})


def _notification(s3: Any, bucket: str, value: Any) -> None:
    said: dict[str, Any] = {}
    # the property means "on" unless it says off: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/
    # aws-properties-s3-bucket-eventbridgeconfiguration.html
    if "EventBridgeConfiguration" in value and value["EventBridgeConfiguration"].get("EventBridgeEnabled", True):
        said["EventBridgeConfiguration"] = {}
    for name, arn in (("Lambda", "Function"), ("Queue", "Queue"), ("Topic", "Topic")):
        entries = value.get(f"{name}Configurations")
        if entries:
            api = "LambdaFunctionConfigurations" if name == "Lambda" else f"{name}Configurations"
            target = "LambdaFunctionArn" if name == "Lambda" else f"{arn}Arn"
            said[api] = [_target(entry, target, entry[arn]) for entry in entries]
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration=said)


def _target(entry: dict[str, Any], key: str, arn: str) -> dict[str, Any]:
    said: dict[str, Any] = {key: arn, "Events": [entry["Event"]]}
    rules = ((entry.get("Filter") or {}).get("S3Key") or {}).get("Rules")
    if rules:
        said["Filter"] = {"Key": {"FilterRules": rules}}
    return said


def _versioning(s3: Any, bucket: str, value: Any) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": value["Status"]})


def _suspend(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})


_CANNED = {
    "Private": "private",
    "PublicRead": "public-read",
    "PublicReadWrite": "public-read-write",
    "AuthenticatedRead": "authenticated-read",
    "LogDeliveryWrite": "log-delivery-write",
    "BucketOwnerRead": "bucket-owner-read",
    "BucketOwnerFullControl": "bucket-owner-full-control",
    "AwsExecRead": "aws-exec-read",
}


def request_metrics(item: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of request metrics as the API takes it.

    Args:
        item: One of ``MetricsConfigurations``.
    """
    said = {name: item[name] for name in ("Prefix", "AccessPointArn") if name in item}
    tags = item.get("TagFilters") or []
    if len(said) + len(tags) > 1:
        return {"Id": item["Id"], "Filter": {"And": said | ({"Tags": tags} if tags else {})}}
    found = said | ({"Tag": tags[0]} if tags else {})
    return {"Id": item["Id"], **({"Filter": found} if found else {})}


def _metrics(s3: Any, bucket: str, value: list[dict[str, Any]]) -> None:
    before = s3.list_bucket_metrics_configurations(Bucket=bucket).get("MetricsConfigurationList", [])
    for gone in {each["Id"] for each in before} - {each["Id"] for each in value}:
        s3.delete_bucket_metrics_configuration(Bucket=bucket, Id=gone)
    for each in value:
        s3.put_bucket_metrics_configuration(Bucket=bucket, Id=each["Id"], MetricsConfiguration=request_metrics(each))


SETTINGS = (
    Setting(
        "AccessControl",
        lambda s3, bucket, value: s3.put_bucket_acl(Bucket=bucket, ACL=_CANNED[value]),
        lambda s3, bucket: s3.put_bucket_acl(Bucket=bucket, ACL="private"),
    ),
    Setting(
        "PublicAccessBlockConfiguration",
        lambda s3, bucket, value: s3.put_public_access_block(Bucket=bucket, PublicAccessBlockConfiguration=value),
        lambda s3, bucket: s3.delete_public_access_block(Bucket=bucket),
    ),
    Setting(
        "OwnershipControls",
        lambda s3, bucket, value: s3.put_bucket_ownership_controls(Bucket=bucket, OwnershipControls=value),
        lambda s3, bucket: s3.delete_bucket_ownership_controls(Bucket=bucket),
    ),
    Setting("VersioningConfiguration", _versioning, _suspend),
    Setting("BucketEncryption", encryption, lambda s3, bucket: s3.delete_bucket_encryption(Bucket=bucket)),
    Setting("LifecycleConfiguration", lifecycle, lambda s3, bucket: s3.delete_bucket_lifecycle(Bucket=bucket)),
    Setting(
        "LoggingConfiguration",
        _logging,
        lambda s3, bucket: s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={}),
    ),
    Setting(
        "NotificationConfiguration",
        _notification,
        lambda s3, bucket: s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={}),
    ),
    Setting(
        "CorsConfiguration",
        lambda s3, bucket, value: s3.put_bucket_cors(
            Bucket=bucket,
            CORSConfiguration={
                "CORSRules": [
                    {key.replace("Id", "ID"): item for key, item in rule.items()} for rule in value["CorsRules"]
                ]
            },
        ),
        lambda s3, bucket: s3.delete_bucket_cors(Bucket=bucket),
    ),
    Setting("MetricsConfigurations", _metrics, lambda s3, bucket: _metrics(s3, bucket, [])),
)

# Applied nowhere: a deploy that uses one must not look as if it worked. ObjectLockEnabled and names are dealt with at
# creation; tags with every change.
UNSUPPORTED = frozenset(
    {
        "AccelerateConfiguration", "AnalyticsConfigurations", "IntelligentTieringConfigurations",
        "InventoryConfigurations", "MetadataConfiguration", "MetadataTableConfiguration",
        "ObjectLockConfiguration", "ReplicationConfiguration", "WebsiteConfiguration",
    }
)  # fmt: skip
