"""The notification that FSx puts on a bucket, so that a link imports by itself.

It is named ``FSx`` and stands beside what the bucket notifies already. Whoever replaces the notifications takes
it away, and nothing is imported any more (LustreGuide, "Automatically import updates from your S3 bucket").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moto.fsx.models import FSxBackend

NAME = "FSx"
_EVENTS = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]


def set_notification(backend: FSxBackend, bucket_name: str, links: Iterable[dict[str, Any]]) -> None:
    """Put the notification on a bucket that a link imports from, and take it off one that none does.

    Args:
        backend: The account and region.
        bucket_name: The bucket; one that does not exist is left alone.
        links: Every link of the account and region, as the API shows them.
    """
    from moto.s3.models import Notification, NotificationConfiguration, s3_backends

    bucket = s3_backends[backend.account_id][backend.partition].buckets.get(bucket_name)
    if bucket is None:
        return
    wanted = any(
        bucket_of(link) == bucket_name and ((link["S3"] or {}).get("AutoImportPolicy") or {}).get("Events")
        for link in links
    )
    found: Any = bucket.notification_configuration
    if found is None:
        if not wanted:
            return
        found = NotificationConfiguration()
        bucket.notification_configuration = found
    found.topic = [each for each in found.topic if each.id != NAME]
    if wanted:
        # FSx's own topic, in an account of its own: nobody else can look at it, and moto drops what it cannot deliver.
        topic = f"arn:{backend.partition}:sns:{backend.region_name}:{'0' * 12}:fsx-{backend.account_id}"
        found.topic.append(Notification(topic, _EVENTS, notification_id=NAME))


def bucket_of(link: dict[str, Any]) -> str:
    """Return the bucket of a link."""
    return str(link["DataRepositoryPath"]).removeprefix("s3://").partition("/")[0]
