"""What S3 refuses for directory buckets: names, operations, headers, ways of listing, policies.

Codes and texts are those of S3 where it publishes them or clients have recorded them (a setting that a directory bucket
does not have is taken for a wrong CreateBucket request); where neither is the case, the sentence of the user guide
stands for the text: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-express-differences.html.
"""

from __future__ import annotations

import json
import re
from typing import Any

from moto.s3.exceptions import S3ClientError

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/directory-bucket-naming-rules.html
_SUFFIX = "--x-s3"
_BASE = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_LONGEST = 63
_RESERVED = ("xn--", "sthree-", "amzn-s3-demo-")


class DirectoryBucketError(S3ClientError):
    """An error of S3, with the status that it has over HTTP."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code, message)
        self.status = status


def zone_of(bucket: str) -> str | None:
    """Return the zone that a directory bucket's name ends in; None for the name of another bucket."""
    if not bucket.endswith(_SUFFIX):
        return None
    base, _, zone = bucket.removesuffix(_SUFFIX).rpartition("--")
    return zone if base else None


def invalid_name() -> DirectoryBucketError:
    """S3's answer to a name that no bucket of the kind can have."""
    return DirectoryBucketError(400, "InvalidBucketName", "The specified bucket is not valid.")


def check_name(bucket: str, location: str) -> None:
    """Refuse a name that no directory bucket of the zone can have."""
    base = bucket.removesuffix(f"--{location}{_SUFFIX}")
    if zone_of(bucket) != location or len(bucket) > _LONGEST or base.startswith(_RESERVED) or not _BASE.fullmatch(base):
        raise invalid_name()


def unsupported() -> DirectoryBucketError:
    """S3's answer to a method or subresource that a resource does not have."""
    return DirectoryBucketError(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")


def not_implemented() -> DirectoryBucketError:
    """S3's answer to a header that means something a bucket cannot do."""
    return DirectoryBucketError(
        501, "NotImplemented", "A header you provided implies functionality that is not implemented"
    )


def invalid_request(message: str) -> DirectoryBucketError:
    """S3's answer to a parameter that is not valid here."""
    return DirectoryBucketError(400, "InvalidRequest", message)


# Subresources of a bucket, and those that a directory bucket has, by method.
_SUBRESOURCES = {
    "abac", "accelerate", "acl", "analytics", "cors", "delete", "encryption", "intelligent-tiering", "inventory",
    "lifecycle", "location", "logging", "metadataConfiguration", "metadataTable", "metrics", "notification",
    "object-lock", "ownershipControls", "policy", "policyStatus", "publicAccessBlock", "replication", "requestPayment",
    "session", "tagging", "uploads", "versioning", "versions", "website",
}  # fmt: skip
_OF_A_BUCKET = {
    "DELETE": {"encryption", "inventory", "lifecycle", "metrics", "policy"},
    "GET": {"encryption", "inventory", "lifecycle", "metrics", "policy", "session", "uploads"},
    "POST": {"delete"},
    "PUT": {"encryption", "inventory", "lifecycle", "metrics", "policy"},
}
_OF_AN_OBJECT = {
    "acl", "annotation", "encryption", "legal-hold", "restore", "retention", "select", "tagging", "torrent",
}  # fmt: skip
_ROOT = re.compile(rb"<(?!\?)([A-Za-z]+)")


def subresource(method: str, query: dict[str, Any], body: bytes) -> str | None:
    """Return the subresource of a bucket that a request is for, or None; refuse those that directory buckets lack."""
    named = sorted(_SUBRESOURCES.intersection(query))
    if not named:
        return None
    wanted = named[0]
    if wanted in _OF_A_BUCKET.get(method, ()):
        return wanted
    root = _ROOT.search(body) if method == "PUT" else None
    if root is None:
        raise unsupported()
    text = f"{root.group(1).decode()} is not valid, expected CreateBucketConfiguration"
    raise DirectoryBucketError(400, "InvalidArgument", text)


_HEADERS = (
    "x-amz-object-lock-legal-hold", "x-amz-object-lock-mode", "x-amz-object-lock-retain-until-date",
    "x-amz-server-side-encryption-customer-algorithm", "x-amz-tagging", "x-amz-website-redirect-location",
)  # fmt: skip


def check_object_request(query: dict[str, Any], headers: Any) -> None:
    """Refuse what objects of a directory bucket do not have."""
    if _OF_AN_OBJECT.intersection(query):
        raise unsupported()
    if query.get("versionId", ["null"])[0] != "null":
        raise DirectoryBucketError(400, "InvalidArgument", "Invalid version id specified")
    if any(headers.get(name) for name in _HEADERS):
        raise not_implemented()
    if headers.get("x-amz-storage-class", "EXPRESS_ONEZONE") != "EXPRESS_ONEZONE":
        raise DirectoryBucketError(400, "InvalidStorageClass", "The storage class you specified is not valid")
    if headers.get("x-amz-server-side-encryption", "AES256") not in ("AES256", "aws:kms"):
        raise invalid_request("Directory buckets support server-side encryption with AES256 and aws:kms")


def check_listing(query: dict[str, Any]) -> None:
    """Refuse what listing a directory bucket cannot do: prefixes of half a name, other delimiters, starting points."""
    delimiter, prefix = (query.get(name, [""])[0] for name in ("delimiter", "prefix"))
    if delimiter not in ("", "/"):
        raise invalid_request("For directory buckets, / is the only supported delimiter.")
    if prefix and not prefix.endswith("/"):
        raise invalid_request("For directory buckets, only prefixes that end in a delimiter (/) are supported.")
    if "start-after" in query or "upload-id-marker" in query:
        raise invalid_request("StartAfter and UploadIdMarker are not supported for directory buckets.")


def check_policy(body: bytes, arn: str) -> None:
    """Refuse a bucket policy that is about other actions or resources than the bucket's."""
    try:
        statements = json.loads(body)["Statement"]
    except (ValueError, KeyError, TypeError):
        text = "This policy contains invalid Json"
        raise DirectoryBucketError(400, "MalformedPolicy", text) from None
    for statement in statements if isinstance(statements, list) else [statements]:
        actions, resources = (
            item if isinstance(item, list) else [item]
            for item in (statement.get(name, statement.get(f"Not{name}", [])) for name in ("Action", "Resource"))
        )
        if not all(action == "*" or str(action).lower().startswith("s3express:") for action in actions):
            raise DirectoryBucketError(400, "MalformedPolicy", "Policy has invalid action")
        if not resources or not all(str(item) in (arn, f"{arn}/*", "*") for item in resources):
            raise DirectoryBucketError(400, "MalformedPolicy", "Policy has invalid resource")
