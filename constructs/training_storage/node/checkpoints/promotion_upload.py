"""Promotion from a disk of a node, or from a folder that no link holds: read the files and put them.

Checksums are CRC-32, which the standard library computes: the AWS CRT, which CRC-64/NVME needs, is not on every image.
"""

from __future__ import annotations

import base64
import os
import stat
import zlib
from typing import Any, BinaryIO, Callable

from . import lake
from .model import FileEntry
from .promotion import Job, PromotionError, Sums

WHOLE = 64 * 2**20
"""Bytes up to which a file is put with one request."""
PART = 64 * 2**20
MOST_PARTS = 10_000
READERS = 4
"""Parts of one file in memory at a time."""
_BLOCK = 2**20
_TELL = 1024
"""Blocks between two reports of a file that is only read."""


def upload(job: Job) -> Sums:
    """Upload every file of a checkpoint; those that are there already are read and compared only.

    Returns:
        Checksums of the files as they were read.

    Raises:
        PromotionError: A file changed while it was read.
        ClientError: S3 refused or failed.
        OSError: A file cannot be read.
    """
    return upload_files(job, job.checkpoint.files)


def upload_files(job: Job, entries: tuple[FileEntry, ...]) -> Sums:
    """Upload some files: small ones beside each other, large ones one after the other, those of ``last`` last."""
    sums: Sums = {}

    def one(entry: FileEntry) -> str:
        return _upload_one(job, entry)

    def done(entry: FileEntry, checksum: str) -> None:
        sums[entry.path] = {"CRC32": checksum}
        job.done("uploading", entry)

    before = [each for each in entries if each.path not in job.last]
    lake.in_parallel(one, [each for each in before if each.size <= WHOLE], done)
    for entry in before:
        if entry.size > WHOLE:
            done(entry, one(entry))
    for entry in entries:
        if entry.path in job.last:
            done(entry, one(entry))
    return sums


def _upload_one(job: Job, entry: FileEntry) -> str:
    target = job.place(entry.path)
    there = lake.look(job.aws, target.bucket, target.key)
    with _opened(job, entry) as stream:
        about = os.fstat(stream.fileno())
        if there is not None and there.size == entry.size and there.modified_ns == entry.modified_ns:
            # Small files are read in threads of their own, and are over soon.
            tick = (lambda: job.tell("comparing", file=entry.path)) if entry.size > WHOLE else None
            checksum = _text(_read_through(stream, tick))
            if there.sums.get("CRC32") == checksum:
                _still(stream, entry)
                return checksum
            stream.seek(0)
        metadata = {
            # As FSx writes them, so that a file system which imports the object gives the file back as it was.
            "file-mtime": f"{entry.modified_ns}ns",
            "file-permissions": f"0{about.st_mode:o}",
            "file-owner": str(about.st_uid),
            "file-group": str(about.st_gid),
        }
        if entry.size > WHOLE:
            return _upload_parts(job, entry, target, stream, metadata)
        body = stream.read(WHOLE + 1)
        _still(stream, entry)
        if len(body) != entry.size:
            raise _changed(entry)
        checksum = _text(zlib.crc32(body))
        job.aws("s3").put_object(
            Bucket=target.bucket, Key=target.key, Body=body, Metadata=metadata, ChecksumCRC32=checksum
        )
        return checksum


def _opened(job: Job, entry: FileEntry) -> BinaryIO:
    tree: Any = job.tree
    path = os.path.join(tree.root, entry.path)  # noqa: PTH118 - names that are no UTF-8 stay what they are
    try:
        stream = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    except FileNotFoundError:
        raise _changed(entry) from None
    try:
        _still(stream, entry)
    except BaseException:
        stream.close()
        raise
    return stream


def _still(stream: BinaryIO, entry: FileEntry) -> None:
    """Look whether an open file is the one that was listed."""
    about = os.fstat(stream.fileno())
    if not stat.S_ISREG(about.st_mode) or (about.st_size, about.st_mtime_ns) != (entry.size, entry.modified_ns):
        raise _changed(entry)


def _changed(entry: FileEntry) -> PromotionError:
    return PromotionError(
        f"{entry.path} changed while it was being uploaded; nothing is recorded", {entry.path: "FileChanged"}
    )


def _read_through(stream: BinaryIO, tick: Callable[[], None] | None) -> int:
    whole = blocks = 0
    while True:
        block = stream.read(_BLOCK)
        if not block:
            return whole
        whole = zlib.crc32(block, whole)
        blocks += 1
        if tick is not None and blocks % _TELL == 0:
            tick()


def _text(checksum: int) -> str:
    return base64.b64encode(checksum.to_bytes(4, "big")).decode()


# -- large files


def _upload_parts(job: Job, entry: FileEntry, target: lake.Place, stream: BinaryIO, metadata: dict[str, str]) -> str:
    s3 = job.aws("s3")
    where = {"Bucket": target.bucket, "Key": target.key}
    _abort_left(job, target)
    upload = s3.create_multipart_upload(
        **where, Metadata=metadata, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT"
    )["UploadId"]
    size = max(PART, -(-entry.size // MOST_PARTS))
    parts: list[dict[str, Any]] = []
    whole = 0

    def put(numbered: tuple[int, bytes]) -> dict[str, Any]:
        number, body = numbered
        checksum = _text(zlib.crc32(body))
        answer = s3.upload_part(**where, UploadId=upload, PartNumber=number, Body=body, ChecksumCRC32=checksum)
        return {"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32": checksum}

    try:
        while True:
            bodies: list[tuple[int, bytes]] = []
            while len(bodies) < READERS:
                body = stream.read(size)
                if not body:
                    break
                whole = zlib.crc32(body, whole)
                bodies.append((len(parts) + len(bodies) + 1, body))
            if not bodies:
                break
            parts += lake.in_parallel(put, bodies)
            job.tell("uploading", file=entry.path, parts=len(parts))
        _still(stream, entry)
        s3.complete_multipart_upload(
            **where,
            UploadId=upload,
            MultipartUpload={"Parts": parts},
            ChecksumCRC32=_text(whole),
            ChecksumType="FULL_OBJECT",
        )
    except Exception:
        _abort_left(job, target, quietly=True)
        raise
    return _text(whole)


def _abort_left(job: Job, target: lake.Place, *, quietly: bool = False) -> None:
    """Abort uploads of a key that were left: their parts cost money and nobody sees them."""
    s3 = job.aws("s3")
    try:
        for each in s3.list_multipart_uploads(Bucket=target.bucket, Prefix=target.key).get("Uploads", ()):
            if each["Key"] == target.key:
                s3.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=each["UploadId"])
    except Exception:
        if not quietly:
            raise
