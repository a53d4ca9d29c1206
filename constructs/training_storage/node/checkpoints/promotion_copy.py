"""Promotion from directory buckets: the servers copy, no byte goes through a client."""

from __future__ import annotations

from typing import Any

from ..aws import TAKEN, code_of
from . import lake
from .model import FileEntry
from .promotion import Job, PromotionError, Sums

LARGEST = 5 * 2**30
"""Bytes that one CopyObject copies at most (Amazon S3 API reference, CopyObject)."""
PART = 2**30
MOST_PARTS = 10_000
_SOURCE = "training-storage-source"
_KEPT = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType")


def copy(job: Job) -> Sums:
    """Copy every object of a checkpoint to the lake; those that are there already are left.

    Returns:
        Checksums of the sources, where S3 has some of the whole object.

    Raises:
        PromotionError: A source changed.
        ClientError: S3 refused or failed.
    """
    sums: Sums = {}

    def one(entry: FileEntry) -> dict[str, str]:
        return _copy_one(job, entry)

    def done(entry: FileEntry, found: dict[str, str]) -> None:
        sums[entry.path] = found
        job.done("copying", entry)

    entries = job.checkpoint.files
    before = [each for each in entries if each.path not in job.last]
    lake.in_parallel(one, [each for each in before if each.size <= LARGEST], done)
    for each in before:
        if each.size > LARGEST:  # its parts run beside each other
            done(each, one(each))
    lake.in_parallel(one, [each for each in entries if each.path in job.last], done)
    return sums


def _copy_one(job: Job, entry: FileEntry) -> dict[str, str]:
    tree: Any = job.tree
    bucket, key = tree.bucket_of(entry.path), tree.key_of(entry.path)
    source = lake.look(job.aws, bucket, key)
    if source is None or (entry.etag and source.etag != entry.etag):
        raise _changed(entry)
    target = job.place(entry.path)
    there = lake.look(job.aws, target.bucket, target.key)
    if there is not None and _is_copy(entry, source, there):
        return dict(source.sums)
    about = _about(entry, source)
    try:
        if entry.size <= LARGEST:
            job.aws("s3").copy_object(
                Bucket=target.bucket,
                Key=target.key,
                CopySource={"Bucket": bucket, "Key": key},
                CopySourceIfMatch=f'"{source.etag}"',
                MetadataDirective="REPLACE",
                # A directory bucket holds no tags: asked to copy some, S3 answers 501.
                TaggingDirective="REPLACE",
                ChecksumAlgorithm=_algorithm(source),
                **about,
            )
        else:
            _copy_parts(job, entry, source, {"Bucket": bucket, "Key": key}, target, about)
    except Exception as error:
        if code_of(error) in TAKEN:
            raise _changed(entry) from error
        raise
    return dict(source.sums)


def _changed(entry: FileEntry) -> PromotionError:
    return PromotionError(
        f"{entry.path} changed while it was being copied; nothing is recorded", {entry.path: "SourceChanged"}
    )


def _about(entry: FileEntry, source: lake.Seen) -> dict[str, Any]:
    kept = {name: source.head[name] for name in _KEPT if source.head.get(name)}
    metadata = dict(source.head.get("Metadata") or {})
    metadata.update({"file-mtime": f"{entry.modified_ns}ns", _SOURCE: source.etag})
    return {**kept, "Metadata": metadata}


def _is_copy(entry: FileEntry, source: lake.Seen, there: lake.Seen) -> bool:
    """Whether an object of the lake says of itself that it is the copy, and nothing speaks against it."""
    metadata = there.head.get("Metadata") or {}
    known = set(source.sums) & set(there.sums)
    return (
        there.size == entry.size
        and there.modified_ns == entry.modified_ns
        and metadata.get(_SOURCE) == source.etag
        and all(source.sums[each] == there.sums[each] for each in known)
    )


def _algorithm(source: lake.Seen) -> str:
    """Return the checksum that S3 is to make of the copy: one that the source has, so that both can be compared."""
    return next((each for each in ("CRC64NVME", "CRC32", "CRC32C") if each in source.sums), "CRC64NVME")


# -- large objects


def _copy_parts(
    job: Job, entry: FileEntry, source: lake.Seen, where: dict[str, str], target: lake.Place, about: dict[str, Any]
) -> None:
    s3 = job.aws("s3")
    size = max(PART, -(-entry.size // MOST_PARTS))
    upload, there = _resumable(job, source, target, size, entry.size)
    if not upload:
        upload = s3.create_multipart_upload(
            Bucket=target.bucket,
            Key=target.key,
            ChecksumAlgorithm=_algorithm(source),
            ChecksumType="FULL_OBJECT",
            **about,
        )["UploadId"]

    def part(number: int) -> dict[str, Any]:
        if number in there:
            return {"PartNumber": number, "ETag": there[number]}
        first = (number - 1) * size
        answer = s3.upload_part_copy(
            Bucket=target.bucket,
            Key=target.key,
            UploadId=upload,
            PartNumber=number,
            CopySource=where,
            CopySourceIfMatch=f'"{source.etag}"',
            CopySourceRange=f"bytes={first}-{min(first + size, entry.size) - 1}",
        )
        return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

    def done(number: int, _part: dict[str, Any]) -> None:
        job.tell("copying", file=entry.path, part=number)

    parts = lake.in_parallel(part, range(1, -(-entry.size // size) + 1), done)
    s3.complete_multipart_upload(
        Bucket=target.bucket, Key=target.key, UploadId=upload, MultipartUpload={"Parts": parts}
    )


def _resumable(job: Job, source: lake.Seen, target: lake.Place, size: int, whole: int) -> tuple[str, dict[int, str]]:
    """Return an upload that an earlier run left and the parts that it holds; all others of the key are aborted.

    One that began before the source was written may hold parts of an older object.
    """
    s3 = job.aws("s3")
    found: tuple[str, dict[int, str]] = ("", {})
    for each in s3.list_multipart_uploads(Bucket=target.bucket, Prefix=target.key).get("Uploads", ()):
        if each["Key"] != target.key:
            continue
        name = each["UploadId"]
        if not found[0] and each["Initiated"].timestamp() > source.uploaded + 1:
            parts = _parts(job, target, name)
            wanted = {number: min(size, whole - (number - 1) * size) for number, _, _ in parts}
            if all(wanted[number] == held for number, held, _ in parts):
                found = (name, {number: etag for number, _, etag in parts})
                continue
        s3.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=name)
    return found


def _parts(job: Job, target: lake.Place, upload: str) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    more: dict[str, Any] = {}
    while True:
        page = job.aws("s3").list_parts(Bucket=target.bucket, Key=target.key, UploadId=upload, **more)
        found += [(each["PartNumber"], each["Size"], each["ETag"]) for each in page.get("Parts", ())]
        if not page.get("IsTruncated"):
            return found
        more = {"PartNumberMarker": page["NextPartNumberMarker"]}
