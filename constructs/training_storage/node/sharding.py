"""Which of several directory buckets holds a key: the same answer for staging, for archiving and for training code."""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32


def bucket_index(key: str, bucket_count: int) -> int:
    """Return the index of the bucket that holds a key.

    The index is the CRC-32 of the key's UTF-8 bytes modulo the number of buckets: no table, the same in every language,
    and even over keys that differ in one digit.

    Args:
        key: Object key as it stands in the bucket, prefix included.
        bucket_count: Number of buckets, 1 or more, in the order in which they were deployed.

    Raises:
        ValueError: ``bucket_count`` is less than 1.

    Example::

        from training_storage.node.sharding import bucket_index

        bucket_index("datasets/shard-0001.tar", 4)
    """
    if bucket_count < 1:
        raise ValueError(f"bucket_count is {bucket_count}; allowed: 1 or more")
    return crc32(key.encode()) % bucket_count


def object_uri(key: str, bucket_uris: Sequence[str]) -> str:
    """Return the whole URI of a key.

    Args:
        key: Object key as it stands in the bucket, prefix included.
        bucket_uris: ``s3://bucket/`` of every bucket in the order in which they were deployed: the parts of
            ``TRAINING_STORAGE_HOT_URIS`` between its commas.

    Raises:
        ValueError: There is no bucket.

    Example::

        import os
        from training_storage.node.sharding import object_uri

        uris = os.environ.get("TRAINING_STORAGE_HOT_URIS", "s3://hot--use1-az6--x-s3/").split(",")
        object_uri("datasets/shard-0001.tar", uris)
    """
    return f"{bucket_uris[bucket_index(key, len(bucket_uris))].rstrip('/')}/{key}"
