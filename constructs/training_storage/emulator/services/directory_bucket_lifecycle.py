"""Lifecycle of a directory bucket: what its rules would delete, if the bucket lets S3's lifecycle in at all.

A rule alone does nothing: https://docs.aws.amazon.com/AmazonS3/latest/userguide/directory-buckets-objects-lifecycle.html.
"""

from __future__ import annotations

import json
from typing import Any

from training_storage.emulator.services import directory_bucket_settings as settings
from training_storage.emulator.services import policies
from training_storage.emulator.services.directory_buckets import arn_of

_SERVICE = "lifecycle.s3.amazonaws.com"


def works(bucket: Any) -> bool:
    """Say whether the bucket's policy lets S3's lifecycle open a session that may write."""
    if not bucket.policy:
        return False
    text = bucket.policy.decode() if isinstance(bucket.policy, bytes) else str(bucket.policy)
    return policies.allowed(
        [json.loads(text)],
        action="s3express:CreateSession",
        resource=arn_of(bucket),
        service=_SERVICE,
        context={
            "aws:PrincipalIsAWSService": "true",
            "aws:PrincipalServiceName": _SERVICE,
            "aws:SecureTransport": "true",
            "aws:SourceAccount": bucket.account_id,
            "aws:SourceArn": arn_of(bucket),
            "s3express:ResourceAccount": bucket.account_id,
            "s3express:SessionMode": "ReadWrite",
            "s3express:TlsVersion": "1.3",
        },
    )


def expire(backend: Any, bucket: Any, days: int) -> list[str]:
    """Delete what the rules delete once everything in the bucket is some days old.

    Returns:
        Keys of the objects, and of the uploads that were aborted.
    """
    if not works(bucket):
        return []
    gone: list[str] = []
    for rule in settings.of(bucket).lifecycle:
        if rule["Status"] != "Enabled":
            continue
        if _due(rule.get("Expiration"), "Days", days):
            keys = [key.name for key in bucket.keys.values() if _covers(rule, key.name, key.size)]
            for key in keys:
                backend.delete_object(bucket.name, key)
            gone += keys
        if _due(rule.get("AbortIncompleteMultipartUpload"), "DaysAfterInitiation", days):
            uploads = [upload for upload in bucket.multiparts.values() if _covers(rule, upload.key_name, None)]
            for upload in uploads:
                backend.abort_multipart_upload(bucket.name, upload.id)
            gone += [upload.key_name for upload in uploads]
    return gone


def _due(action: dict[str, Any] | None, name: str, days: int) -> bool:
    return action is not None and int(action[name]) <= days


def _covers(rule: dict[str, Any], key: str, size: int | None) -> bool:
    given = rule.get("Filter") or {"Prefix": rule.get("Prefix", "")}
    tests = {**given, **given.get("And", {})}
    if not key.startswith(tests.get("Prefix", "")):
        return False
    if size is None:
        return True
    return bool(tests.get("ObjectSizeGreaterThan", -1) < size < tests.get("ObjectSizeLessThan", size + 1))
