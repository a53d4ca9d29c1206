"""Conditions of S3's requests that moto does not look at, its checksum CRC-64/NVME, and the age of uploads.

They hold for buckets of both kinds: a copy of exactly the object that was seen, an object that is replaced or deleted
only if it is still the one that was seen.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlparse

import xmltodict  # type: ignore[import-untyped]  # ships no types
from moto.core.compat import HAS_CRT
from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.s3 import models, responses, utils
from moto.s3.exceptions import MissingKey, PreconditionFailed
from moto.s3.models import FakeMultipart, S3Backend
from moto.s3.responses import S3Response

from training_storage.emulator._moto import Patches
from training_storage.emulator.services.directory_bucket_rules import zone_of


def same(etag: str, found: Any) -> bool:
    """Say whether an object bears an entity tag, quoted or not."""
    return etag.replace('"', "") == str(found.etag).replace('"', "")


def check_target(headers: Any, found: Any) -> None:
    """Refuse to write to a name that is not as the request expects it: free, or held by one certain object."""
    if headers.get("If-None-Match") == "*" and found is not None:
        raise PreconditionFailed("If-None-Match")
    wanted = headers.get("If-Match")
    if wanted:
        if found is None:
            raise MissingKey
        if not same(wanted, found):
            raise PreconditionFailed("If-Match")


def _check_source(headers: Any, backend: Any) -> None:
    wanted = headers.get("x-amz-copy-source-if-match")
    if not wanted:
        return
    bucket, _, key = unquote(urlparse(headers["x-amz-copy-source"]).path).lstrip("/").partition("/")
    version = urlparse(headers["x-amz-copy-source"]).query.removeprefix("versionId=") or None
    found = backend.get_object(bucket, key, version_id=version)
    if found is not None and not same(wanted, found):
        raise PreconditionFailed("x-amz-copy-source-If-Match")


def _copying(original: Callable[[Any], Any], *, whole: bool) -> Callable[[Any], Any]:
    def copy(self: Any) -> Any:
        _check_source(self.headers, self.backend)
        if whole:
            check_target(self.headers, self.backend.get_object(self.bucket_name, self.parse_key_name()))
        return original(self)

    return copy


def _time(text: str) -> datetime:
    found = parsedate_to_datetime(text) if "," in text else datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _as_seen(found: Any, *, etag: str | None, modified: str | None, size: str | None) -> bool:
    if etag and etag != "*" and not same(etag, found):
        return False
    seen = found.last_modified.replace(tzinfo=UTC, microsecond=0)
    if modified and _time(modified).replace(microsecond=0) != seen:
        return False
    return size is None or int(size) == int(found.size)


def _deleting(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def delete_object(self: Any) -> Any:
        modified, size = (self.headers.get(f"x-amz-if-match-{name}") for name in ("last-modified-time", "size"))
        found = self.backend.get_object(self.bucket_name, self.parse_key_name())
        if found is not None and not _as_seen(found, etag=None, modified=modified, size=size):
            raise PreconditionFailed("If-Match")
        return original(self)

    return delete_object


_TEXT = "At least one of the pre-conditions you specified did not hold"


def _deleting_many(original: Callable[..., Any]) -> Callable[..., Any]:
    def delete_keys(self: Any, bucket_name: str, authenticated: bool = True) -> Any:
        given = xmltodict.parse(self.body, strip_whitespace=False)["Delete"]
        objects = given.get("Object", [])
        objects = objects if isinstance(objects, list) else [objects]
        changed = [item for item in objects if not _expected(self.backend, bucket_name, item)]
        if not changed:
            return original(self, bucket_name, authenticated)
        kept = [item for item in objects if item not in changed]
        deleted, _ = self.backend.delete_objects(bucket_name, kept)
        failed = {"Code": "PreconditionFailed", "Message": _TEXT}
        shown = {
            "Deleted": [{"Key": key, "VersionId": version or None} for key, version, _ in deleted],
            "Errors": [{"Key": item["Key"], **failed} for item in changed],
        }
        self.data["Action"] = "DeleteObjects"
        return self.serialized(ActionResult(shown))

    return delete_keys


def _expected(backend: Any, bucket_name: str, item: dict[str, Any]) -> bool:
    found = backend.get_object(bucket_name, item["Key"], version_id=item.get("VersionId"))
    if found is None:
        return True
    return _as_seen(found, etag=item.get("ETag"), modified=item.get("LastModifiedTime"), size=item.get("Size"))


def _list_uploads(self: Any) -> Any:
    """List uploads in progress with the time when they began, in pages."""
    found = list(self.backend.list_multipart_uploads(self.bucket_name).values())
    query = {name: values[0] for name, values in self.querystring.items() if values}
    prefix, after, limit = query.get("prefix") or "", query.get("key-marker"), int(query.get("max-uploads") or 1000)
    marker = query.get("upload-id-marker") or ""
    found = sorted((one for one in found if one.key_name.startswith(prefix)), key=lambda one: (one.key_name, one.id))
    opaque = zone_of(self.bucket_name) is not None
    if after and opaque:  # a directory bucket knows no second marker, and says that its first one means nothing
        key, _, marker = base64.urlsafe_b64decode(after).decode().partition("\n")
        found = [one for one in found if (one.key_name, one.id) > (key, marker)]
    elif after:
        found = [one for one in found if (one.key_name, one.id) > (after, marker or "\U0010ffff")]
    page = found[:limit]
    shown: dict[str, Any] = {
        "Bucket": self.bucket_name,
        "KeyMarker": after or "",
        "UploadIdMarker": "" if opaque else marker,
        "Prefix": prefix,
        "MaxUploads": limit,
        "IsTruncated": len(page) < len(found),
        "Uploads": [
            {
                "Key": one.key_name,
                "UploadId": one.id,
                "StorageClass": one.storage or "STANDARD",
                "Initiated": getattr(one, "initiated", None),
                "ChecksumAlgorithm": one.metadata.get("x-amz-checksum-algorithm"),
                "ChecksumType": one.metadata.get("x-amz-checksum-type"),
            }
            for one in page
        ],
    }
    if len(page) < len(found) and opaque:
        last = f"{page[-1].key_name}\n{page[-1].id}"
        shown["NextKeyMarker"] = base64.urlsafe_b64encode(last.encode()).decode()
    elif len(page) < len(found):
        shown["NextKeyMarker"], shown["NextUploadIdMarker"] = page[-1].key_name, page[-1].id
    self.data["Action"] = "ListMultipartUploads"
    return self.serialized(ActionResult(shown))


# CRC-64/NVME: the polynomial of the NVM Express specification, bits reversed
_POLYNOMIAL = 0x9A6C9329AC4BC9B5
_ALL = (1 << 64) - 1


@lru_cache
def _table() -> tuple[int, ...]:
    entries = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ (_POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return tuple(entries)


def crc64nvme(data: bytes) -> int:
    """Return the CRC-64/NVME of data, S3's own checksum of objects that come without one."""
    table, value = _table(), _ALL
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ _ALL


def _checksum(original: Callable[..., bytes]) -> Callable[..., bytes]:
    def compute_checksum(body: bytes, algorithm: str, encode_base64: bool = True) -> bytes:
        if algorithm != "CRC64NVME" or HAS_CRT:
            return original(body, algorithm, encode_base64)
        value = crc64nvme(bytes(body)).to_bytes(8, "big")
        return base64.b64encode(value) if encode_base64 else value

    return compute_checksum


def install(patches: Patches) -> None:
    """Let S3 look at the conditions, and compute the checksum that moto replaces by another."""
    patches.set(S3Response, "copy_object", _copying(S3Response.copy_object, whole=True))
    patches.set(S3Response, "upload_part_copy", _copying(S3Response.upload_part_copy, whole=False))
    patches.set(S3Response, "delete_object", _deleting(S3Response.delete_object))
    patches.set(S3Response, "_bucket_response_delete_keys", _deleting_many(S3Response._bucket_response_delete_keys))
    patches.set(S3Response, "list_multipart_uploads", _list_uploads)

    create = S3Backend.create_multipart_upload

    def create_multipart_upload(self: Any, *rest: Any, **given: Any) -> FakeMultipart:
        made: Any = create(self, *rest, **given)
        made.initiated = utcnow()
        return made  # type: ignore[no-any-return]  # moto answers without types

    complete = S3Backend.complete_multipart_upload

    def complete_multipart_upload(self: Any, *rest: Any, **given: Any) -> Any:
        made = complete(self, *rest, **given)
        if made is not None and made.checksum_value and not made.checksum_algorithm:
            made.checksum_algorithm = "CRC64NVME"  # what moto computed where the caller asked for nothing
        return made

    patches.set(S3Backend, "create_multipart_upload", create_multipart_upload)
    patches.set(S3Backend, "complete_multipart_upload", complete_multipart_upload)
    compute = _checksum(utils.compute_checksum)
    for module in (utils, models, responses):
        patches.set(module, "compute_checksum", compute)
