"""An S3 of one process that answers as AWS documents it, and fails where a test says so.

General purpose buckets have MD5 sums as ETags unless a key encrypts them; directory buckets have none, list in no
order, take no tags and no prefix without a slash. Only what a transfer uses is there.
"""

from __future__ import annotations

import base64
import hashlib
import io
import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

from botocore.exceptions import ClientError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def error(code: str, status: int, operation: str = "Operation") -> ClientError:
    told: Any = {"Error": {"Code": code, "Message": "said S3"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(told, operation)


def crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


@dataclass
class Object:
    body: bytes
    etag: str
    sums: dict[str, str] = field(default_factory=dict)
    composite: bool = False
    parts: list[tuple[str, int]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    archived: bool = False
    modified: datetime = NOW


@dataclass
class Upload:
    bucket: str
    key: str
    upload_id: str
    settings: dict[str, Any]
    parts: dict[int, bytes] = field(default_factory=dict)


class FakeS3:
    """A client. ``calls`` holds what was asked; ``before`` maps an operation to functions called one after another."""

    def __init__(self, *buckets: str, encrypted: tuple[str, ...] = (), sums: bool = True) -> None:
        self.buckets: dict[str, dict[str, Object]] = {bucket: {} for bucket in buckets}
        self.encrypted = encrypted
        self.sums = sums
        self.uploads: dict[str, Upload] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.before: dict[str, list[Callable[..., object]]] = {}
        self.always: dict[str, Callable[..., object]] = {}
        self.damage: Callable[[bytes], bytes] = lambda body: body
        self.now = NOW
        self._chance = random.Random(3)

    # For tests

    def s3(self, connections: int) -> Any:
        return self

    def count(self, operation: str) -> int:
        return sum(name == operation for name, _ in self.calls)

    def put(self, bucket: str, key: str, body: bytes, **more: Any) -> Object:
        made = Object(body, self._etag(bucket, body), modified=self.now, **more)
        self.buckets[bucket][key] = made
        return made

    def put_parts(self, bucket: str, key: str, *bodies: bytes) -> Object:
        """Put an upload with checksums of its parts alone, as boto3 makes it."""
        parts = [(crc32(body), len(body)) for body in bodies]
        of_all = crc32(b"".join(base64.b64decode(text) for text, _ in parts))
        return self.put(
            bucket, key, b"".join(bodies), sums={"CRC32": f"{of_all}-{len(bodies)}"}, composite=True, parts=parts
        )

    def keys(self, bucket: str) -> set[str]:
        return {key for key in self.buckets[bucket] if not key.startswith(".training-storage/")}

    def fail(self, operation: str, *errors: Exception | None) -> None:
        """Let the next calls of an operation fail; None lets one pass."""

        def thrower(what: Exception | None) -> Callable[..., None]:
            def throw(**_: Any) -> None:
                if what is not None:
                    raise what

            return throw

        self.before.setdefault(operation, []).extend(thrower(each) for each in errors)

    # Inside

    def _etag(self, bucket: str, body: bytes) -> str:
        if bucket.endswith("--x-s3") or bucket in self.encrypted:
            return self._chance.randbytes(16).hex() if bucket in self.encrypted else self._chance.randbytes(9).hex()
        return hashlib.md5(body).hexdigest()

    def _asked(self, operation: str, **asked: Any) -> None:
        self.calls.append((operation, asked))
        if self.before.get(operation):
            self.before[operation].pop(0)(**asked)
        if operation in self.always:
            self.always[operation](**asked)
        if asked.get("Bucket") not in self.buckets:
            raise error("NoSuchBucket", 404, operation)

    def _find(self, operation: str, bucket: str, key: str, if_match: str | None) -> Object:
        found = self.buckets[bucket].get(key)
        if found is None:
            raise error("NoSuchKey", 404, operation)
        if if_match is not None and if_match.strip('"') != found.etag:
            raise error("PreconditionFailed", 412, operation)
        return found

    def _store(self, bucket: str, key: str, body: bytes, algorithm: str | None, **more: Any) -> Object:
        body = self.damage(body)
        sums = {"CRC32": crc32(body)} if algorithm and self.sums else {}
        return self.put(bucket, key, body, sums=sums, **more)

    def _answer(self, **told: Any) -> dict[str, Any]:
        return told | {"ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(self.now)}}}

    @staticmethod
    def _sums(found: Object) -> dict[str, str]:
        told = {f"Checksum{name}": value for name, value in found.sums.items()}
        return told | ({"ChecksumType": "COMPOSITE" if found.composite else "FULL_OBJECT"} if told else {})

    # Operations

    def head_object(self, **asked: Any) -> Any:
        self._asked("HeadObject", **asked)
        found = self._find("HeadObject", asked["Bucket"], asked["Key"], asked.get("IfMatch"))
        told = {"ContentLength": len(found.body), "ETag": f'"{found.etag}"', **found.about}
        if found.tags:
            told["TagCount"] = len(found.tags)
        return self._answer(**told, **(self._sums(found) if asked.get("ChecksumMode") == "ENABLED" else {}))

    def get_object(self, **asked: Any) -> Any:
        self._asked("GetObject", **asked)
        found = self._find("GetObject", asked["Bucket"], asked["Key"], asked.get("IfMatch"))
        body = found.body
        if "Range" in asked:
            first, last = map(int, asked["Range"].removeprefix("bytes=").split("-"))
            body = body[first : last + 1]
        return self._answer(Body=io.BytesIO(body))

    def put_object(self, **asked: Any) -> Any:
        self._asked("PutObject", **asked)
        self.put(asked["Bucket"], asked["Key"], asked["Body"])
        return self._answer()

    def delete_object(self, **asked: Any) -> Any:
        self._asked("DeleteObject", **asked)
        self._find("DeleteObject", asked["Bucket"], asked["Key"], asked.get("IfMatch"))
        del self.buckets[asked["Bucket"]][asked["Key"]]
        return self._answer()

    def get_object_attributes(self, **asked: Any) -> Any:
        self._asked("GetObjectAttributes", **asked)
        found = self._find("GetObjectAttributes", asked["Bucket"], asked["Key"], None)
        marker = asked.get("PartNumberMarker", 0)
        numbered = list(enumerate(found.parts, 1))[marker : marker + 2]  # pages of two
        parts = [{"PartNumber": n, "Size": size, "ChecksumCRC32": text} for n, (text, size) in numbered]
        more = marker + 2 < len(found.parts)
        told = {"Parts": parts, "IsTruncated": more, "NextPartNumberMarker": marker + 2}
        return self._answer(ETag=found.etag, ObjectParts=told if found.parts else {})

    def get_object_tagging(self, **asked: Any) -> Any:
        self._asked("GetObjectTagging", **asked)
        found = self.buckets[asked["Bucket"]][asked["Key"]]
        return self._answer(TagSet=[{"Key": key, "Value": value} for key, value in found.tags.items()])

    def copy_object(self, **asked: Any) -> Any:
        self._asked("CopyObject", **asked)
        source = self._source("CopyObject", asked)
        if source.tags and asked["Bucket"].endswith("--x-s3") and asked.get("TaggingDirective") != "REPLACE":
            raise error("NotImplemented", 501, "CopyObject")
        made = self._store(
            asked["Bucket"], asked["Key"], source.body, "CRC32" if source.sums else None, about=source.about
        )
        return self._answer(CopyObjectResult={"ETag": f'"{made.etag}"', **self._sums(made)})

    def _source(self, operation: str, asked: dict[str, Any]) -> Object:
        at = asked["CopySource"]
        found = self._find(operation, at["Bucket"], at["Key"], asked["CopySourceIfMatch"])
        if found.archived:
            raise error("InvalidObjectState", 403, operation)
        return found

    def list_objects_v2(self, **asked: Any) -> Any:
        self._asked("ListObjectsV2", **asked)
        prefix, objects = asked.get("Prefix", ""), self.buckets[asked["Bucket"]]
        if asked["Bucket"].endswith("--x-s3"):
            assert not prefix or prefix.endswith("/")
            assert "StartAfter" not in asked
        after = asked.get("ContinuationToken", asked.get("StartAfter", ""))
        keys = sorted(key for key in objects if key.startswith(prefix) and key > after)
        page = keys[: asked.get("MaxKeys", 1000)]
        shown = page if not asked["Bucket"].endswith("--x-s3") else random.Random(1).sample(page, len(page))
        contents = [
            {
                "Key": key,
                "Size": len(objects[key].body),
                "ETag": f'"{objects[key].etag}"',
                "LastModified": objects[key].modified,
                **({"ChecksumAlgorithm": list(objects[key].sums)} if objects[key].sums else {}),
            }
            for key in shown
        ]
        more = len(keys) > len(page)
        return self._answer(
            Contents=contents, IsTruncated=more, **({"NextContinuationToken": page[-1]} if more else {})
        )

    def get_paginator(self, _: str) -> Any:
        client = self

        class Pages:
            def paginate(self, **asked: Any) -> Any:
                yield client.list_objects_v2(**asked)

        return Pages()

    # Uploads in parts

    def create_multipart_upload(self, **asked: Any) -> Any:
        self._asked("CreateMultipartUpload", **asked)
        made = Upload(asked["Bucket"], asked["Key"], f"upload-{len(self.calls)}", asked)
        self.uploads[made.upload_id] = made
        return self._answer(UploadId=made.upload_id)

    def _upload(self, operation: str, asked: dict[str, Any]) -> Upload:
        if asked["UploadId"] not in self.uploads:
            raise error("NoSuchUpload", 404, operation)
        return self.uploads[asked["UploadId"]]

    def upload_part_copy(self, **asked: Any) -> Any:
        self._asked("UploadPartCopy", **asked)
        upload, source = self._upload("UploadPartCopy", asked), self._source("UploadPartCopy", asked)
        first, last = map(int, asked["CopySourceRange"].removeprefix("bytes=").split("-"))
        body = source.body[first : last + 1]
        upload.parts[asked["PartNumber"]] = body
        return self._answer(CopyPartResult={"ETag": f'"{zlib.crc32(body)}"', "ChecksumCRC32": crc32(body)})

    def list_parts(self, **asked: Any) -> Any:
        self._asked("ListParts", **asked)
        upload = self._upload("ListParts", asked)
        marker = asked.get("PartNumberMarker", 0)
        numbers = [number for number in sorted(upload.parts) if number > marker]
        parts = [
            {"PartNumber": n, "Size": len(upload.parts[n]), "ETag": f'"{zlib.crc32(upload.parts[n])}"'}
            for n in numbers[:2]  # pages of two
        ]
        more = len(numbers) > 2
        return self._answer(Parts=parts, IsTruncated=more, **({"NextPartNumberMarker": numbers[1]} if more else {}))

    def list_multipart_uploads(self, **asked: Any) -> Any:
        self._asked("ListMultipartUploads", **asked)
        found = [u for u in self.uploads.values() if u.bucket == asked["Bucket"] and u.key.startswith(asked["Prefix"])]
        told = [{"Key": u.key, "UploadId": u.upload_id, "Initiated": self.now} for u in found]
        return self._answer(Uploads=told)

    def complete_multipart_upload(self, **asked: Any) -> Any:
        self._asked("CompleteMultipartUpload", **asked)
        upload = self._upload("CompleteMultipartUpload", asked)
        numbers = [part["PartNumber"] for part in asked["MultipartUpload"]["Parts"]]
        assert numbers == list(range(1, len(numbers) + 1)), "part numbers are consecutive"
        etags = [part["ETag"] for part in asked["MultipartUpload"]["Parts"]]
        assert etags == [f'"{zlib.crc32(upload.parts[number])}"' for number in numbers]
        body = b"".join(upload.parts[number] for number in numbers)
        about = {name: upload.settings[name] for name in ("ContentType", "Metadata") if name in upload.settings}
        made = self._store(upload.bucket, upload.key, body, upload.settings.get("ChecksumAlgorithm"), about=about)
        made.etag = f"{made.etag}-{len(numbers)}"
        del self.uploads[upload.upload_id]
        return self._answer()

    def abort_multipart_upload(self, **asked: Any) -> Any:
        self._asked("AbortMultipartUpload", **asked)
        self._upload("AbortMultipartUpload", asked)
        del self.uploads[asked["UploadId"]]
        return self._answer()
