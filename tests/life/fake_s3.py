"""S3 in memory: general purpose buckets with versions and conditions, directory buckets without order."""

from __future__ import annotations

import base64
import hashlib
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from tests.life.fake_aws import FakeAws

REGION = "us-east-1"
PAGE = 1000


def error(code: str, operation: str, message: str = "", status: int = 400) -> ClientError:
    """Return what boto3 raises."""
    told: Any = {"Error": {"Code": code, "Message": message or code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(told, operation)


def moment(seconds: float) -> Any:
    """Return a time as boto3 does: S3 knows whole seconds."""
    return datetime.fromtimestamp(int(seconds), UTC)


def checksums(thing: Thing) -> dict[str, str]:
    value = base64.b64encode(zlib.crc32(thing.body).to_bytes(4, "big")).decode()
    return {"ChecksumCRC32": value, "ChecksumType": "FULL_OBJECT"}


@dataclass
class Thing:
    """One version of an object."""

    body: bytes
    modified: float
    version: str
    metadata: dict[str, str] = field(default_factory=dict)
    storage_class: str = "STANDARD"
    parts: int = 0

    @property
    def etag(self) -> str:
        digest = hashlib.md5(self.body, usedforsecurity=False).hexdigest()
        return f'"{digest}-{self.parts}"' if self.parts else f'"{digest}"'


@dataclass
class Bucket:
    """A bucket: versions of each key, oldest first; None marks a delete."""

    name: str
    things: dict[str, list[Thing | None]] = field(default_factory=dict)
    uploads: dict[str, dict[str, Any]] = field(default_factory=dict)

    def now(self) -> dict[str, Thing]:
        """Return what a reader sees."""
        things = list(self.things.items())  # at once: other threads write meanwhile
        return {key: found[-1] for key, found in things if found and found[-1] is not None}


def _as_asked(there: Thing, asked: dict[str, Any]) -> bool:
    """Return whether an object meets the conditions of a request that names it among others."""
    return bool(
        asked.get("ETag", there.etag).strip('"') == there.etag.strip('"')
        and asked.get("Size", len(there.body)) == len(there.body)
        and asked.get("LastModifiedTime", moment(there.modified)) == moment(there.modified)
    )


class S3:
    """The S3 client."""

    def __init__(self, aws: FakeAws) -> None:
        self._aws = aws
        self.buckets: dict[str, Bucket] = {}
        self._count = 0

    # -- for tests

    def make(self, name: str) -> Bucket:
        """Make a bucket."""
        return self.buckets.setdefault(name, Bucket(name))

    def content(self, bucket: str, prefix: str = "") -> dict[str, bytes]:
        """Return every object below a prefix."""
        return {key: each.body for key, each in self.buckets[bucket].now().items() if key.startswith(prefix)}

    # -- the API

    def _bucket(self, name: str, operation: str) -> Bucket:
        if name not in self.buckets:
            raise error("NoSuchBucket", operation, status=404)
        return self.buckets[name]

    def _found(self, bucket: str, key: str, operation: str) -> Thing:
        found = self._bucket(bucket, operation).now().get(key)
        if found is None:
            raise error("404" if operation == "HeadObject" else "NoSuchKey", operation, status=404)
        return found

    def _put(self, bucket: str, key: str, body: bytes, given: dict[str, Any], operation: str, parts: int = 0) -> Thing:
        held = self._bucket(bucket, operation)
        there = held.now().get(key)
        if given.get("IfNoneMatch") == "*" and there is not None:
            raise error("PreconditionFailed", operation, status=412)
        wanted = given.get("IfMatch")
        if wanted is not None:
            if there is None:
                raise error("NoSuchKey", operation, status=404)
            if there.etag.strip('"') != wanted.strip('"'):
                raise error("PreconditionFailed", operation, status=412)
        self._count += 1
        made = Thing(
            body,
            self._aws.clock(),
            f"v{self._count}",
            dict(given.get("Metadata") or {}),
            given.get("StorageClass", "STANDARD"),
            parts,
        )
        held.things.setdefault(key, []).append(made)
        return made

    def put_object(self, *, Bucket: str, Key: str, Body: Any = b"", **given: Any) -> dict[str, Any]:
        body = Body if isinstance(Body, bytes) else Body.encode() if isinstance(Body, str) else Body.read()
        made = self._put(Bucket, Key, body, given, "PutObject")
        return {"ETag": made.etag, "VersionId": made.version, **checksums(made)}

    def get_object(self, *, Bucket: str, Key: str, **given: Any) -> dict[str, Any]:
        found = self._found(Bucket, Key, "GetObject")
        body = found.body
        if "IfMatch" in given and given["IfMatch"].strip('"') != found.etag.strip('"'):
            raise error("PreconditionFailed", "GetObject", status=412)
        if found.storage_class in ("GLACIER", "DEEP_ARCHIVE"):
            raise error("InvalidObjectState", "GetObject", status=403)
        if "Range" in given:
            first, _, last = given["Range"].removeprefix("bytes=").partition("-")
            body = body[int(first) : int(last) + 1 if last else None]
        return {**self._about(found), "Body": io.BytesIO(body), "ContentLength": len(body)}

    def head_object(self, *, Bucket: str, Key: str, **_given: Any) -> dict[str, Any]:
        found = self._found(Bucket, Key, "HeadObject")
        return {**self._about(found), "ContentLength": len(found.body)}

    def _about(self, found: Thing) -> dict[str, Any]:
        return {
            "ETag": found.etag,
            "LastModified": moment(found.modified),
            "VersionId": found.version,
            "Metadata": dict(found.metadata),
            **({} if found.storage_class == "STANDARD" else {"StorageClass": found.storage_class}),
            **checksums(found),
        }

    def list_objects_v2(self, *, Bucket: str, Prefix: str = "", **given: Any) -> dict[str, Any]:
        held = self._bucket(Bucket, "ListObjectsV2").now()
        keys = sorted(key for key in held if key.startswith(Prefix))
        if Bucket.endswith("--x-s3"):  # no order there
            keys.sort(key=lambda key: hashlib.sha256(key.encode()).hexdigest())
        after = given.get("ContinuationToken") or given.get("StartAfter")
        if after is not None:
            keys = keys[keys.index(after) + 1 :] if after in keys else [key for key in keys if key > after]
        most = int(given.get("MaxKeys", PAGE))
        shown, more = keys[:most], len(keys) > most
        answer: dict[str, Any] = {
            "KeyCount": len(shown),
            "IsTruncated": more,
            "Contents": [
                {
                    "Key": key,
                    "Size": len(held[key].body),
                    "ETag": held[key].etag,
                    "LastModified": moment(held[key].modified),
                    "StorageClass": held[key].storage_class,
                }
                for key in shown
            ],
        }
        delimiter = given.get("Delimiter")
        if delimiter:
            folders = sorted(
                {
                    Prefix + key[len(Prefix) :].split(delimiter, 1)[0] + delimiter
                    for key in shown
                    if delimiter in key[len(Prefix) :]
                }
            )
            answer["CommonPrefixes"] = [{"Prefix": each} for each in folders]
            answer["Contents"] = [each for each in answer["Contents"] if delimiter not in each["Key"][len(Prefix) :]]
        if not answer["Contents"]:
            del answer["Contents"]
        if more:
            answer["NextContinuationToken"] = shown[-1]
        return answer

    def get_paginator(self, operation: str) -> Any:
        method = getattr(self._aws("s3"), operation)

        class Pages:
            def paginate(self, **given: Any) -> Iterator[dict[str, Any]]:
                given.pop("PaginationConfig", None)
                while True:
                    page = method(**given)
                    yield page
                    if not page.get("IsTruncated"):
                        return
                    given["ContinuationToken"] = page["NextContinuationToken"]

        return Pages()

    def delete_object(self, *, Bucket: str, Key: str, **given: Any) -> dict[str, Any]:
        held = self._bucket(Bucket, "DeleteObject")
        there = held.now().get(Key)
        wanted = given.get("IfMatch")
        if wanted is not None and (there is None or there.etag.strip('"') != wanted.strip('"')):
            raise error("PreconditionFailed", "DeleteObject", status=412)
        if there is not None and given.get("IfMatchSize", len(there.body)) != len(there.body):
            raise error("PreconditionFailed", "DeleteObject", status=412)
        if there is not None:
            held.things[Key].append(None)
        return {}

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any], **_given: Any) -> dict[str, Any]:
        """Delete objects, each on its own conditions; one that is not there is deleted."""
        held = self._bucket(Bucket, "DeleteObjects")
        assert 0 < len(Delete["Objects"]) <= 1000
        deleted, errors = [], []
        for each in Delete["Objects"]:
            there = held.now().get(each["Key"])
            if there is not None and not _as_asked(there, each):
                errors.append({"Key": each["Key"], "Code": "PreconditionFailed", "Message": "as it is"})
                continue
            if there is not None:
                held.things[each["Key"]].append(None)
            deleted.append({"Key": each["Key"]})
        shown: dict[str, Any] = {} if Delete.get("Quiet") else {"Deleted": deleted}
        return {**shown, **({"Errors": errors} if errors else {})}

    def copy_object(self, *, Bucket: str, Key: str, CopySource: Any, **given: Any) -> dict[str, Any]:
        source = self._source(CopySource, "CopyObject")
        if "CopySourceIfMatch" in given and given["CopySourceIfMatch"].strip('"') != source.etag.strip('"'):
            raise error("PreconditionFailed", "CopyObject", status=412)
        if len(source.body) > 5 * 2**30:
            raise error("InvalidRequest", "CopyObject", "larger than the maximum allowable size for a copy source")
        kept = given.get("Metadata") if given.get("MetadataDirective") == "REPLACE" else source.metadata
        made = self._put(Bucket, Key, source.body, {**given, "Metadata": kept}, "CopyObject")
        about = {"ETag": made.etag, "LastModified": moment(made.modified), **checksums(made)}
        return {"CopyObjectResult": about, "VersionId": made.version}

    def _source(self, given: Any, operation: str) -> Thing:
        if isinstance(given, str):
            bucket, _, key = given.lstrip("/").partition("/")
        else:
            bucket, key = given["Bucket"], given["Key"]
        return self._found(bucket, key, operation)

    def create_multipart_upload(self, *, Bucket: str, Key: str, **given: Any) -> dict[str, Any]:
        held = self._bucket(Bucket, "CreateMultipartUpload")
        self._count += 1
        upload = f"upload{self._count}"
        held.uploads[upload] = {"Key": Key, "given": given, "parts": {}, "Initiated": self._aws.clock()}
        return {"UploadId": upload}

    def _upload(self, bucket: str, upload: str, operation: str) -> dict[str, Any]:
        found = self._bucket(bucket, operation).uploads.get(upload)
        if found is None:
            raise error("NoSuchUpload", operation, status=404)
        return found

    def upload_part(
        self, *, Bucket: str, Key: str, UploadId: str, PartNumber: int, Body: Any, **_given: Any
    ) -> dict[str, Any]:
        body = Body if isinstance(Body, bytes) else Body.read()
        upload = self._upload(Bucket, UploadId, "UploadPart")
        assert upload["Key"] == Key
        upload["parts"][PartNumber] = body
        return {"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"', **checksums(Thing(body, 0, ""))}

    def upload_part_copy(
        self, *, Bucket: str, Key: str, UploadId: str, PartNumber: int, CopySource: Any, **given: Any
    ) -> dict[str, Any]:
        source = self._source(CopySource, "UploadPartCopy").body
        if "CopySourceRange" in given:
            first, _, last = given["CopySourceRange"].removeprefix("bytes=").partition("-")
            source = source[int(first) : int(last) + 1]
        upload = self._upload(Bucket, UploadId, "UploadPartCopy")
        assert upload["Key"] == Key
        upload["parts"][PartNumber] = source
        etag = f'"{hashlib.md5(source, usedforsecurity=False).hexdigest()}"'
        return {"CopyPartResult": {"ETag": etag, **checksums(Thing(source, 0, ""))}}

    def list_parts(self, *, Bucket: str, Key: str, UploadId: str, **_given: Any) -> dict[str, Any]:
        upload = self._upload(Bucket, UploadId, "ListParts")
        assert upload["Key"] == Key
        return {
            "IsTruncated": False,
            "Parts": [
                {
                    "PartNumber": number,
                    "Size": len(body),
                    "ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"',
                }
                for number, body in sorted(upload["parts"].items())
            ],
        }

    def list_multipart_uploads(self, *, Bucket: str, Prefix: str = "", **_given: Any) -> dict[str, Any]:
        held = self._bucket(Bucket, "ListMultipartUploads")
        return {
            "IsTruncated": False,
            "Uploads": [
                {"Key": each["Key"], "UploadId": name, "Initiated": moment(each["Initiated"])}
                for name, each in held.uploads.items()
                if each["Key"].startswith(Prefix)
            ],
        }

    def complete_multipart_upload(
        self, *, Bucket: str, Key: str, UploadId: str, MultipartUpload: dict[str, Any], **given: Any
    ) -> dict[str, Any]:
        upload = self._upload(Bucket, UploadId, "CompleteMultipartUpload")
        numbers = [each["PartNumber"] for each in MultipartUpload["Parts"]]
        if sorted(numbers) != numbers or any(number not in upload["parts"] for number in numbers):
            raise error("InvalidPart", "CompleteMultipartUpload")
        body = b"".join(upload["parts"][number] for number in numbers)
        made = self._put(Bucket, Key, body, {**upload["given"], **given}, "CompleteMultipartUpload", parts=len(numbers))
        del self.buckets[Bucket].uploads[UploadId]
        return {"ETag": made.etag, "VersionId": made.version, **checksums(made)}

    def abort_multipart_upload(self, *, Bucket: str, Key: str, UploadId: str, **_given: Any) -> dict[str, Any]:
        self._upload(Bucket, UploadId, "AbortMultipartUpload")
        assert self.buckets[Bucket].uploads.pop(UploadId)["Key"] == Key
        return {}

    def head_bucket(self, *, Bucket: str) -> dict[str, Any]:
        self._bucket(Bucket, "HeadBucket")
        return {"BucketRegion": REGION}
