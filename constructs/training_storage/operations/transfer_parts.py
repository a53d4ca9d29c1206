"""Large objects: copied in parts that run beside each other, and taken up again where a run was interrupted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, wait
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError

from training_storage.operations.checksums import can_combine
from training_storage.operations.transfer_copy import ObjectCopier, Where
from training_storage.operations.transfer_errors import judge
from training_storage.operations.transfer_journal import Upload
from training_storage.operations.transfer_model import MAX_PART_BYTES, MAX_PARTS, Entry, Limits, Outcome
from training_storage.operations.transfer_verify import Seen, look

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

_KEPT: Final = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType", "Metadata")
"""What CopyObject carries over by itself and a multipart upload must be told."""


class UploadBook(Protocol):
    """Where uploads are written down before they hold anything."""

    def intend(self, upload: Upload) -> None:
        """Write down that an upload is about to be made; it stands in the bucket when this returns."""

    def begun(self, upload: Upload) -> None:
        """Write down the id of an upload; it stands in the bucket when this returns."""

    def ended(self, upload: Upload) -> None:
        """Write down that there is no such upload any more."""


def plan_parts(size: int, part_size: int) -> list[tuple[int, int]]:
    """Return the first and last byte of each part, numbered from 1 without a gap as directory buckets want it.

    Raises:
        ValueError: The object would need more parts, or larger ones, than S3 takes.
    """
    count = -(-size // part_size)
    if count > MAX_PARTS or part_size > MAX_PART_BYTES:
        raise ValueError(f"{size} bytes in parts of {part_size} are {count} parts; S3 takes {MAX_PARTS} of 5 GiB")
    return [(start, min(start + part_size, size) - 1) for start in range(0, size, part_size)]


class LargeObjectCopier(ObjectCopier):
    """Copies objects above the limit of one request.

    Args:
        client: Client of the destination's region.
        options: Those of ``ObjectCopier``.
        limits: Size of the parts.
        parts: Copies parts; shared by all objects.
        book: Where uploads are written down.
        left: Uploads that earlier runs left, by bucket and key.
    """

    def __init__(
        self,
        client: S3Client,
        *options: Any,
        limits: Limits,
        parts: Executor,
        book: UploadBook,
        left: dict[tuple[str, str], Upload],
        **more: Any,
    ) -> None:
        super().__init__(client, *options, **more)
        self._limits = limits
        self._parts = parts
        self._book = book
        self._left = left
        self._moved: dict[Entry, int] = {}
        self._lock = Lock()

    @property
    def under_way_bytes(self) -> int:
        """Bytes of parts that are copied of objects that are not yet complete and verified."""
        with self._lock:
            return sum(self._moved.values())

    def copy(self, entry: Entry, where: Where) -> Mapping[str, Any]:
        """Copy in parts; with one request where the object has become small, for an upload has no empty part.

        Returns:
            Nothing: a large object is looked at when it is complete.

        Raises:
            ClientError: S3 refused; 412 where the source is no more what was listed.
        """
        if entry.size <= self._limits.single_copy_bytes:
            return super().copy(entry, where)
        source = look(self.client, where.source_bucket, where.source_key, etag=entry.etag)
        upload, done = self._take_up(entry, where)
        if upload is None:
            upload, done = self._begin(entry, where, source), {}
        try:
            made = self._copy_parts(entry, where, upload, done)
            self.client.complete_multipart_upload(
                Bucket=where.bucket, Key=where.key, UploadId=upload.upload_id, MultipartUpload={"Parts": made}
            )
        except (ClientError, BotoCoreError) as error:
            if judge(error).code == "NoSuchUpload":
                # An answer that was lost, another run, or a lifecycle rule: what lies there decides.
                self._book.ended(upload)
                return {}
            if judge(error).meaning != "again":
                self._abort(upload)
            else:
                self._left[where.bucket, where.key] = upload
            raise
        self._book.ended(upload)
        return {}

    def handle(self, entry: Entry) -> Outcome:
        """Bring one object to its end, and leave no upload of a failed one behind."""
        try:
            outcome = super().handle(entry)
        finally:
            with self._lock:
                self._moved = {of: size for of, size in self._moved.items() if of.relative != entry.relative}
        where = self.where(entry)
        upload = self._left.pop((where.bucket, where.key), None)
        if upload is not None:
            self._abort(upload)
        return outcome

    def _abort(self, upload: Upload) -> None:
        """Abort an upload; where that fails it stays in the journal, and the next run tries again."""
        if not abort(self.client, upload):
            self._book.ended(upload)

    def _take_up(self, entry: Entry, where: Where) -> tuple[Upload | None, dict[int, Mapping[str, Any]]]:
        """Return the upload of an earlier try with the parts it holds, if it is of this very object."""
        upload = self._left.pop((where.bucket, where.key), None)
        if upload is None:
            return None, {}
        if (upload.etag, upload.size) != (entry.etag, entry.size):
            self._abort(upload)
            return None, {}
        sizes = {
            number: last + 1 - first
            for number, (first, last) in enumerate(plan_parts(upload.size, upload.part_size), 1)
        }
        done: dict[int, Mapping[str, Any]] = {}
        marker = 0
        while True:
            try:
                page: Mapping[str, Any] = self.client.list_parts(
                    Bucket=upload.bucket, Key=upload.key, UploadId=upload.upload_id, PartNumberMarker=marker
                )
            except (ClientError, BotoCoreError) as error:
                if judge(error).code != "NoSuchUpload":
                    self._left[where.bucket, where.key] = upload
                    raise
                self._book.ended(upload)
                return None, {}
            done |= {part["PartNumber"]: part for part in page.get("Parts", ())
                     if part["Size"] == sizes.get(part["PartNumber"])}  # fmt: skip
            if not page.get("IsTruncated"):
                return upload, done
            marker = page["NextPartNumberMarker"]

    def _begin(self, entry: Entry, where: Where, source: Seen) -> Upload:
        part_size = self._limits.part_size(entry.size)
        upload = Upload(
            bucket=where.bucket, key=where.key, etag=entry.etag, size=entry.size, part_size=part_size, upload_id=""
        )
        plan_parts(entry.size, part_size)
        self._book.intend(upload)
        settings: dict[str, Any] = {name: source.head[name] for name in _KEPT if source.head.get(name)}
        if source.head.get("TagCount") and not where.to_directory_bucket:
            tags = self.client.get_object_tagging(Bucket=where.source_bucket, Key=where.source_key)["TagSet"]
            settings["Tagging"] = urlencode({tag["Key"]: tag["Value"] for tag in tags})
        # The algorithm of the source, so that both sides can be compared; without one, a checksum for the next time.
        known = [name for name in (*source.sums, *source.part_sums) if can_combine(name)]
        checksum = {"ChecksumAlgorithm": known[0] if known else "CRC64NVME", "ChecksumType": "FULL_OBJECT"}
        answer = self._create(where, settings, (checksum, {}))
        begun = upload._replace(upload_id=answer["UploadId"])
        self._book.begun(begun)
        return begun

    def _create(self, where: Where, settings: dict[str, Any], choices: tuple[dict[str, Any], ...]) -> Mapping[str, Any]:
        for number, checksum in enumerate(choices, 1):
            try:
                return self.client.create_multipart_upload(Bucket=where.bucket, Key=where.key, **settings, **checksum)
            except ClientError as error:
                # A bucket that does not know the checksum: without one, and compared by what there is.
                status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
                if number == len(choices) or status not in (400, 501):
                    raise
        raise AssertionError("there is a last choice")

    def _copy_parts(
        self, entry: Entry, where: Where, upload: Upload, done: Mapping[int, Mapping[str, Any]]
    ) -> list[Any]:
        def copy_part(number: int, first: int, last: int) -> Mapping[str, Any]:
            self._check()
            part = self.client.upload_part_copy(
                Bucket=where.bucket,
                Key=where.key,
                UploadId=upload.upload_id,
                PartNumber=number,
                CopySource={"Bucket": where.source_bucket, "Key": where.source_key},
                CopySourceRange=f"bytes={first}-{last}",
                CopySourceIfMatch=f'"{entry.etag}"',
            )["CopyPartResult"]
            with self._lock:
                self._moved[entry] += last + 1 - first
            return part

        plan = dict(enumerate(plan_parts(upload.size, upload.part_size), 1))
        with self._lock:
            self._moved[entry] = sum(part["Size"] for part in done.values())
        running = {
            number: self._parts.submit(copy_part, number, *span) for number, span in plan.items() if number not in done
        }
        try:
            made = {number: future.result() for number, future in running.items()}
        except BaseException:
            for future in running.values():
                future.cancel()
            wait(running.values())  # a part that lands after the abort would keep the upload alive
            raise
        return [_as_completed(number, done.get(number) or made[number]) for number in plan]


def _as_completed(number: int, part: Mapping[str, Any]) -> dict[str, Any]:
    sums = {name: value for name, value in part.items() if name.startswith("Checksum") and name != "ChecksumType"}
    return {"PartNumber": number, "ETag": part["ETag"], **sums}


def abort(client: S3Client, upload: Upload) -> str:
    """Abort an upload that this product made.

    Returns:
        Why it still stands; empty where there is no such upload any more.
    """
    try:
        client.abort_multipart_upload(Bucket=upload.bucket, Key=upload.key, UploadId=upload.upload_id)
    except (ClientError, BotoCoreError) as error:
        verdict = judge(error)
        return "" if verdict.code in ("NoSuchUpload", "404") else verdict.reason
    return ""


def settle(client: S3Client, uploads: list[Upload], ended: Callable[[Upload], None]) -> dict[tuple[str, str], Upload]:
    """Return the uploads of earlier runs that still exist, by bucket and key.

    An upload whose id was never written down, because the run was killed between making it and saying so, is found
    among the uploads of its key that began after that was intended. Where uploads can't be listed, those with an id are
    taken for existing, and the others stay in the journal.

    Args:
        client: Client of the destination's region.
        uploads: Those that the journal has no end of, oldest first.
        ended: Called with each that is there no more.

    Raises:
        ClientError: Nothing can be asked any more, with expired credentials for example.
        BotoCoreError: The same, without an answer.
    """
    found: dict[tuple[str, str], Upload] = {}
    named = {upload.upload_id for upload in uploads if upload.upload_id}
    for upload in uploads:
        try:
            existing = _uploads_of_key(client, upload)
        except (ClientError, BotoCoreError) as error:
            if judge(error).meaning == "stop":
                raise
            if not upload.upload_id:
                continue
            existing = {upload.upload_id: upload.intended}
        ids = [upload.upload_id] if upload.upload_id in existing else []
        if not upload.upload_id:
            ids = [each for each, begun in existing.items() if begun >= upload.intended and each not in named]
        for upload_id in ids:
            earlier = found.pop((upload.bucket, upload.key), None)
            if earlier is not None and not abort(client, earlier):
                ended(earlier)
            found[upload.bucket, upload.key] = upload._replace(upload_id=upload_id)
        if not ids:
            ended(upload)
    return found


def _uploads_of_key(client: S3Client, upload: Upload) -> dict[str, float]:
    """Return the ids of the uploads of a key, each with the time it began."""
    # A prefix in a directory bucket ends with a slash, so the folder is listed.
    request: dict[str, Any] = {"Bucket": upload.bucket, "Prefix": upload.key.rpartition("/")[0]}
    request["Prefix"] += "/" if request["Prefix"] else ""
    found: dict[str, float] = {}
    while True:
        page = client.list_multipart_uploads(**request)
        found |= {
            item["UploadId"]: item["Initiated"].timestamp()
            for item in page.get("Uploads", ())
            if item["Key"] == upload.key
        }
        if not page.get("IsTruncated"):
            return found
        # Directory buckets go on by the key alone.
        markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page.get("NextUploadIdMarker")}
        request |= {name: value for name, value in markers.items() if value}
