"""Settings of a directory bucket: default encryption, lifecycle rules, request metrics.

moto's lifecycle rules know no sizes and its buckets no request metrics, so the rules are kept here as they came.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import xmltodict  # type: ignore[import-untyped]  # ships no types
from moto.core.responses import ActionResult
from moto.s3.exceptions import MalformedXML, NoSuchLifecycleConfiguration

from training_storage.emulator.services.directory_bucket_rules import DirectoryBucketError, invalid_request

Answer = tuple[int, dict[str, Any], Any]

# Every object is encrypted with keys of S3 unless a key is named, and KMS is asked once for many objects.
_DEFAULT_ENCRYPTION = {
    "Rule": {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": "false"}
}


@dataclass(eq=False)
class Settings:
    """What moto's bucket has no room for.

    Attributes:
        lifecycle: Lifecycle rules, as the API shows them.
        metrics: Configurations of request metrics by id.
        key: The KMS key that the bucket has once been given; there can be no other.
    """

    lifecycle: list[dict[str, Any]] = field(default_factory=list)
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    key: str | None = None


_kept: WeakKeyDictionary[Any, Settings] = WeakKeyDictionary()


def of(bucket: Any) -> Settings:
    """Return the settings of a bucket of moto's."""
    return _kept.setdefault(bucket, Settings())


def prepare(bucket: Any) -> None:
    """Give a new bucket what it has by default."""
    bucket.encryption = _DEFAULT_ENCRYPTION


def encryption(response: Any, bucket: Any) -> Answer | str:
    """Get, put or delete the default encryption."""
    if response.method == "GET":
        return response.get_bucket_encryption()  # type: ignore[no-any-return]  # moto answers without types
    if response.method == "DELETE":
        bucket.encryption = _DEFAULT_ENCRYPTION
        return 204, {}, ""
    given = response._encryption_config_from_body()
    rule = given["Rule"]
    by_default = rule["ApplyServerSideEncryptionByDefault"]
    key = by_default.get("KMSMasterKeyID")
    if by_default["SSEAlgorithm"] not in ("AES256", "aws:kms"):
        raise invalid_request("Directory buckets support server-side encryption with AES256 and aws:kms")
    if by_default["SSEAlgorithm"] == "aws:kms":
        _check_key(of(bucket), key)
        of(bucket).key = key
        rule["BucketKeyEnabled"] = "true"
    bucket.encryption = given
    return 200, {}, ""


_BY_NAME = re.compile(r"(arn:.*:)?alias/")


def _check_key(settings: Settings, key: str | None) -> None:
    if not key or _BY_NAME.match(key):
        said = f"got {key}" if key else "got none"
        raise DirectoryBucketError(
            400,
            "InvalidArgument",
            "A directory bucket needs the ID or ARN of a customer managed KMS key; aliases and the AWS managed key "
            f"(aws/s3) are not supported: {said}",
        )
    if settings.key is not None and settings.key.rsplit("/", 1)[-1] != key.rsplit("/", 1)[-1]:
        raise invalid_request(
            "A directory bucket supports one customer managed KMS key for the lifetime of the bucket; "
            f"it already has {settings.key}"
        )


_ACTIONS = ("Expiration", "AbortIncompleteMultipartUpload")
_OTHERS = ("Transition", "NoncurrentVersionExpiration", "NoncurrentVersionTransition")


def lifecycle(response: Any, bucket: Any) -> Answer:
    """Get, put or delete the lifecycle rules."""
    settings = of(bucket)
    if response.method == "GET":
        if not settings.lifecycle:
            raise NoSuchLifecycleConfiguration(bucket_name=bucket.name)
        response.data["Action"] = "GetBucketLifecycleConfiguration"
        # Moto answers without types.
        return response.serialized(ActionResult({"Rules": settings.lifecycle}))  # type: ignore[no-any-return]
    if response.method == "DELETE":
        settings.lifecycle = []
        return 204, {}, ""
    given = xmltodict.parse(response.body)["LifecycleConfiguration"]
    settings.lifecycle = [_rule(rule) for rule in _many(given.get("Rule"))]
    return 200, {}, ""


def _many(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _rule(given: dict[str, Any]) -> dict[str, Any]:
    strange = [name for name in _OTHERS if name in given]
    strange += [name for name in given.get("Expiration") or {} if name != "Days"]
    if strange or not any(name in given for name in _ACTIONS):
        raise invalid_request(
            "Lifecycle rules of directory buckets expire objects by days and abort incomplete multipart uploads"
            + (f", not {', '.join(strange)}" if strange else "")
        )
    rule: dict[str, Any] = {"Status": given["Status"]}
    if given.get("ID"):
        rule["ID"] = given["ID"]
    if "Filter" in given:
        rule["Filter"] = _filter(given["Filter"] or {})
    elif "Prefix" in given:
        rule["Prefix"] = given["Prefix"] or ""
    else:
        raise MalformedXML
    if "Expiration" in given:
        rule["Expiration"] = {"Days": int(given["Expiration"]["Days"])}
    if "AbortIncompleteMultipartUpload" in given:
        days = int(given["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"])
        rule["AbortIncompleteMultipartUpload"] = {"DaysAfterInitiation": days}
    return rule


def _filter(given: dict[str, Any]) -> dict[str, Any]:
    if "Tag" in given or "Tag" in (given.get("And") or {}):
        raise invalid_request("Lifecycle rules of directory buckets filter by prefix and size, not by tags")
    said: dict[str, Any] = {"And": _filter(given["And"])} if given.get("And") else {}
    if "Prefix" in given:
        said["Prefix"] = given["Prefix"] or ""
    for name in ("ObjectSizeGreaterThan", "ObjectSizeLessThan"):
        if name in given:
            said[name] = int(given[name])
    return said


def metrics(response: Any, bucket: Any, query: dict[str, Any]) -> Answer:
    """Get, list, put or delete configurations of request metrics."""
    settings = of(bucket)
    name = query.get("id", [None])[0]
    if response.method == "PUT":
        given = dict(xmltodict.parse(response.body)["MetricsConfiguration"])
        given.pop("@xmlns", None)
        settings.metrics[given["Id"]] = given
        return 200, {}, ""
    if response.method == "GET" and name is None:
        response.data["Action"] = "ListBucketMetricsConfigurations"
        shown = {"MetricsConfigurationList": list(settings.metrics.values()), "IsTruncated": False}
        return response.serialized(ActionResult(shown))  # type: ignore[no-any-return]  # moto answers without types
    if name not in settings.metrics:
        raise DirectoryBucketError(404, "NoSuchConfiguration", "The specified configuration does not exist.")
    if response.method == "DELETE":
        del settings.metrics[name]
        return 204, {}, ""
    response.data["Action"] = "GetBucketMetricsConfiguration"
    # Moto answers without types.
    return response.serialized(ActionResult({"MetricsConfiguration": settings.metrics[name]}))  # type: ignore[no-any-return]


def inventory(response: Any, bucket: Any, query: dict[str, Any]) -> Answer:
    """Get, list, put or delete inventory configurations, which moto keeps for every bucket."""
    if response.method == "PUT":
        response.backend.put_bucket_inventory_configuration(bucket.name, response._inventory_config_from_body())
        return 200, {}, ""
    if response.method == "GET":
        one = "id" in query
        answer: Answer = (
            response.get_bucket_inventory_configuration() if one else response.list_bucket_inventory_configurations()
        )
        return answer
    if bucket.inventory_configs.pop(query.get("id", [""])[0], None) is None:
        raise DirectoryBucketError(404, "NoSuchConfiguration", "The specified configuration does not exist.")
    return 204, {}, ""
