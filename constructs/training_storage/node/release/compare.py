"""Compares a manifest with S3, object by object: there, of the same size, and made of the file as it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ..aws import MISSING, Aws, code_of
from .sorting import LATE_S

WORKERS = 48
SHOWN = 20
"""Disagreements that are named."""

_SECOND = 1_000_000_000


class ManifestChangedError(Exception):
    """A part is not what the index says: another manifest was written in between, or it is not whole."""


@dataclass(frozen=True)
class Entry:
    """A file of the manifest.

    Attributes:
        path: As nodes name it.
        bucket: Bucket of its object.
        key: Key of its object.
        size: Bytes.
        mtime_ns: Last modification.
    """

    path: str
    bucket: str
    key: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Look:
    """What S3 says of a file.

    Attributes:
        wrong: What disagrees, in words; empty where nothing does.
        etag: ETag of the object, without quotes.
        version: Its version; empty where the bucket keeps none.
    """

    wrong: str
    etag: str = ""
    version: str = ""


@dataclass(frozen=True)
class Comparison:
    """What became of comparing files.

    Attributes:
        files: Files that agree.
        bytes: Their bytes.
        wrong: Files that do not.
        named: The first of them, by path, with what disagrees.
    """

    files: int
    bytes: int
    wrong: int
    named: Mapping[str, str]


def look(aws: Aws, entry: Entry) -> Look:
    """Ask S3 for the object of one file.

    Where FSx or the agent noted the file's modification time on the object, that time decides; otherwise the object
    must not be older than the file.

    Raises:
        ClientError: S3 refused or failed.
    """
    try:
        seen = aws("s3").head_object(Bucket=entry.bucket, Key=entry.key)
    except Exception as error:
        if code_of(error) in MISSING:
            return Look(f"s3://{entry.bucket}/{entry.key} is not there")
        raise
    where = f"s3://{entry.bucket}/{entry.key}"
    size = int(seen["ContentLength"])
    if size != entry.size:
        return Look(f"{where} has {size:,} bytes, the file {entry.size:,}")
    noted = _noted(seen.get("Metadata") or {})
    if noted is None:
        if seen["LastModified"].timestamp() + LATE_S < entry.mtime_ns / _SECOND:
            return Look(f"{where} is older than the file")
    elif not _same(noted, entry.mtime_ns):
        return Look(f"{where} was made of another version of the file")
    return Look("", str(seen.get("ETag", "")).strip('"'), str(seen.get("VersionId") or ""))


def compare(aws: Aws, entries: Iterable[Entry], *, workers: int = WORKERS) -> Comparison:
    """Compare files with S3, many at once.

    Args:
        aws: Clients.
        entries: The files.
        workers: Requests at a time.

    Raises:
        ClientError: S3 refused or failed.
    """
    files, size, wrong = 0, 0, 0
    named: dict[str, str] = {}
    aws("s3")  # made once, before threads ask for it
    given = list(entries)
    if workers == 1:
        looks = [look(aws, each) for each in given]
    else:
        with ThreadPoolExecutor(workers) as pool:
            looks = list(pool.map(lambda each: look(aws, each), given))
    for entry, seen in zip(given, looks):
        if not seen.wrong:
            files += 1
            size += entry.size
            continue
        wrong += 1
        if len(named) < SHOWN:
            named[entry.path] = seen.wrong
    return Comparison(files, size, wrong, named)


def compare_part(aws: Aws, bucket: str, part: Mapping[str, Any], *, workers: int = WORKERS) -> Comparison:
    """Compare one part of a manifest with S3.

    Args:
        aws: Clients.
        bucket: The lake, which holds the part.
        part: What the index says of it: ``key``, ``sha256``, ``files``.
        workers: Requests at a time.

    Raises:
        ManifestChangedError: The part is not what the index says.
        ClientError: S3 refused or failed.
    """
    try:
        body = aws("s3").get_object(Bucket=bucket, Key=part["key"])["Body"].read()
    except Exception as error:
        if code_of(error) in MISSING:
            raise ManifestChangedError(f"{part['key']} is not there") from error
        raise
    lines = body.decode().splitlines()
    if hashlib.sha256(body).hexdigest() != part["sha256"] or len(lines) != part["files"]:
        raise ManifestChangedError(f"{part['key']} is not what the index says")
    return compare(aws, (Entry(**json.loads(line)) for line in lines), workers=workers)


def _noted(metadata: Mapping[str, str]) -> int | None:
    """Return the modification time that lies on an object, in nanoseconds; None where none does."""
    text = metadata.get("file-mtime", "")
    digits = text[:-2] if text.endswith("ns") else text
    return int(digits) if digits.isdigit() else None


def _same(one: int, other: int) -> bool:
    # A server that keeps whole seconds drops the rest.
    if one % _SECOND and other % _SECOND:
        return one == other
    return one // _SECOND == other // _SECOND
