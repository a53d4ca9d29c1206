"""What proves that a copy is equal to its source.

Size first, then in this order: the same checksum of the whole object on both sides; checksums of parts, put together;
equal ETags that are MD5 sums. Objects without any of these, such as uploads from before S3 made checksums by itself,
can only be compared byte by byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from botocore.exceptions import ClientError

from training_storage.operations.checksums import can_combine, combine
from training_storage.operations.transfer_model import MIB

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_MD5: Final = re.compile(r"[0-9a-f]{32}")
_BLOCK: Final = MIB
READ_RANGE: Final = 64 * MIB
"""Large objects are read in ranges of this size, several at a time."""


class MismatchError(Exception):
    """The copy is not equal to its source."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One look at an object.

    Attributes:
        bucket: Its bucket.
        key: Its key.
        size: Bytes.
        etag: Without quotes.
        sums: Checksums of the whole object by algorithm.
        part_sums: Checksums made of those of the parts, by algorithm.
        head: The whole answer of HeadObject.
    """

    bucket: str
    key: str
    size: int
    etag: str
    sums: Mapping[str, str]
    part_sums: Mapping[str, str]
    head: Mapping[str, Any]


def look(client: S3Client, bucket: str, key: str, *, etag: str = "") -> Seen:
    """Look at an object with its checksums.

    Args:
        client: Client of the bucket's region.
        bucket: Bucket.
        key: Key.
        etag: The object must still have this one; any when left out.

    Raises:
        ClientError: There is no such object (404), or it has changed (412).
    """
    condition: Any = {"IfMatch": f'"{etag}"'} if etag else {}
    return seen(bucket, key, client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED", **condition))


def seen(bucket: str, key: str, head: Mapping[str, Any]) -> Seen:
    """Read an answer of S3 about an object: ``ContentLength``, ``ETag``, and ``Checksum...`` where it has any."""
    found = {
        name.removeprefix("Checksum"): value
        for name, value in head.items()
        if name.startswith("Checksum") and name != "ChecksumType"
    }
    of_parts = {name for name, value in found.items() if head.get("ChecksumType") == "COMPOSITE" or "-" in value}
    return Seen(
        bucket=bucket,
        key=key,
        size=head["ContentLength"],
        etag=head["ETag"].strip('"'),
        sums={name: value for name, value in found.items() if name not in of_parts},
        part_sums={name: value for name, value in found.items() if name in of_parts},
        head=head,
    )


def is_md5(etag: str) -> bool:
    """Whether an ETag can be an MD5 sum. Equal ones are; one alone may stand for an object that KMS encrypted."""
    return _MD5.fullmatch(etag) is not None


def same_etag(size: int, etag: str, copy: Seen) -> bool:
    """Whether size and ETag alone prove a copy: equal ETags of the form of an MD5 sum.

    Raises:
        MismatchError: The sizes differ.
    """
    if size != copy.size:
        raise MismatchError(f"the source has {size} bytes, the copy {copy.size}")
    return is_md5(etag) and etag == copy.etag


def prove(client: S3Client, source: Seen, copy: Seen) -> Literal["checksum", "etag", ""]:
    """Say what proves that a copy is equal, by what the servers know.

    Returns:
        ``checksum``, ``etag``, or nothing where both sides have nothing that can be compared.

    Raises:
        MismatchError: A checksum or the size differs.
    """
    by_etag = same_etag(source.size, source.etag, copy)
    for algorithm in _shared(source, copy):
        one, other = _whole(client, source, algorithm), _whole(client, copy, algorithm)
        if one and other:
            if one != other:
                raise MismatchError(f"{algorithm} of the source is {one}, of the copy {other}")
            return "checksum"
    for algorithm, value in source.part_sums.items():
        # Unequal ones prove nothing: the parts may be cut in other places.
        if copy.part_sums.get(algorithm) == value:
            return "checksum"
    return "etag" if by_etag else ""


def _shared(source: Seen, copy: Seen) -> list[str]:
    of = [{*seen.sums, *filter(can_combine, seen.part_sums)} for seen in (source, copy)]
    return sorted(of[0] & of[1])


def _whole(client: S3Client, seen: Seen, algorithm: str) -> str:
    """Return the checksum of the whole object, put together where S3 only has those of the parts; empty: unknown."""
    if algorithm in seen.sums:
        return seen.sums[algorithm]
    parts: list[tuple[str, int]] = []
    marker = 0
    while True:
        try:
            answer = client.get_object_attributes(
                Bucket=seen.bucket, Key=seen.key, ObjectAttributes=["ETag", "ObjectParts"], PartNumberMarker=marker
            )
        except ClientError:
            return ""  # a right of its own, and one that not every server has
        found: Mapping[str, Any] = answer.get("ObjectParts") or {}
        parts.extend((part.get(f"Checksum{algorithm}", ""), part["Size"]) for part in found.get("Parts", ()))
        if not found.get("IsTruncated"):
            break
        marker = found["NextPartNumberMarker"]
    sizes_fit = sum(size for _, size in parts) == seen.size
    unchanged = answer.get("ETag", "").strip('"') == seen.etag
    return combine(algorithm, parts) if parts and sizes_fit and unchanged and all(text for text, _ in parts) else ""


def compare_bytes(client: S3Client, source: Seen, copy: Seen, ranges: Executor | None = None) -> None:
    """Read both objects and compare them byte by byte.

    Args:
        client: Client of the region.
        source: The source, as it was looked at.
        copy: Its copy.
        ranges: Reads ranges of large objects beside each other; one after another when left out.

    Raises:
        MismatchError: They differ.
        ClientError: One of them changed (412) or cannot be read.
    """
    if source.size != copy.size:
        raise MismatchError(f"the source has {source.size} bytes, the copy {copy.size}")
    starts = range(0, source.size, READ_RANGE)

    def compare(start: int) -> None:
        _compare_range(client, source, copy, start, min(start + READ_RANGE, source.size) - 1)

    for _ in (ranges.map if ranges else map)(compare, starts):
        pass


def _compare_range(client: S3Client, source: Seen, copy: Seen, first: int, last: int) -> None:
    bodies = [
        client.get_object(Bucket=seen.bucket, Key=seen.key, IfMatch=f'"{seen.etag}"', Range=f"bytes={first}-{last}")[
            "Body"
        ]
        for seen in (source, copy)
    ]
    try:
        place = first
        while place <= last:
            one, other = (body.read(min(_BLOCK, last + 1 - place)) for body in bodies)
            if one != other:
                offset = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
                raise MismatchError(f"the bytes differ at offset {place + offset}")
            if not one:
                raise MismatchError(f"both end at offset {place}, before their size")
            place += len(one)
    finally:
        for body in bodies:
            body.close()
