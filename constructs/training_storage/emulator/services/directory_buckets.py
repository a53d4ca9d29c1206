"""S3 Express One Zone: directory buckets, which moto takes for ordinary ones.

They are listed by themselves, are opened with sessions, and refuse what S3 refuses for them. Objects and uploads are
moto's; their entity tags are random, as the service's are. Nothing is faster here, and listings are in order, which a
caller must not rely on.

One difference stays. With an endpoint of its own (the server here), boto3 opens a session before it creates a bucket;
CreateSession therefore answers there for buckets that do not exist.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import xmltodict  # type: ignore[import-untyped]  # ships no types
from moto.core.responses import ActionResult, EmptyResult
from moto.s3.exceptions import BucketAlreadyOwnedByYou, BucketNotEmpty, MissingBucket, MissingKey, PreconditionFailed
from moto.s3.models import S3Backend
from moto.s3.responses import S3Response

from training_storage.emulator._moto import Patches
from training_storage.emulator.services import directory_bucket_sessions as sessions
from training_storage.emulator.services import directory_bucket_settings as settings
from training_storage.emulator.services import object_conditions
from training_storage.emulator.services.directory_bucket_rules import (
    DirectoryBucketError,
    check_listing,
    check_name,
    check_object_request,
    check_policy,
    invalid_name,
    invalid_request,
    not_implemented,
    subresource,
    unsupported,
    zone_of,
)

Answer = tuple[int, dict[str, Any], Any]

_CONTROL = "s3express-control"
_SIGNED = re.compile(r"/s3express/aws4_request")
_TAGS = "/v20180820/tags/"


def arn_of(bucket: Any) -> str:
    """Return the ARN of a directory bucket."""
    return f"arn:{bucket.partition}:s3express:{bucket.region_name}:{bucket.account_id}:bucket/{bucket.name}"


def _is_express(request: Any) -> bool:
    """Whether a request is meant for S3 Express, by its host or by what it was signed for."""
    host = str(request.headers.get("host") or request.headers.get("Host") or "")
    return host.startswith(_CONTROL) or _SIGNED.search(str(request.headers.get("Authorization", ""))) is not None


def _answered(response: Any, work: Callable[[], Any]) -> Any:
    """Turn an error into S3's answer, with the status that it has there."""
    response.data.setdefault("Action", "HeadBucket")  # moto needs the name of some operation to write an error
    try:
        return work()
    except DirectoryBucketError as error:
        # the server must not take S3's own 501 for a failure of the emulator
        response.request.environ["emulator.answered"] = True
        _, headers, body = response.serialized(ActionResult(error))
        return error.status, headers, b"" if response.method == "HEAD" else body


def _refuse(error: DirectoryBucketError) -> None:
    raise error


# --- buckets


def _bucket_operation(response: Any, name: str, query: dict[str, Any]) -> Any:
    method = response.method
    wanted = subresource(method, query, response.body or b"")
    if method == "PUT" and wanted is None:
        return _create(response, name)
    if wanted == "session" and ".amazonaws." not in str(response.request.headers.get("host")):
        return _session(response, name)
    try:
        bucket = _find(response, name)
    except MissingBucket:
        if method == "HEAD":
            return 404, {}, ""
        raise
    sessions.check(sessions.token_of(response.request.headers, query), name, "GET" if method == "HEAD" else method)
    if method == "HEAD":
        return _head(bucket)
    if wanted in ("policy", "encryption", "lifecycle", "metrics", "inventory"):
        return _setting(response, bucket, wanted, query)
    if method == "DELETE":
        return response.delete_bucket()
    if method == "POST":
        return response._bucket_response_delete_keys(name)
    if wanted == "session":
        return _session(response, name)
    if wanted is None and query.get("list-type") != ["2"]:
        raise unsupported()
    check_listing(query)
    return response.list_multipart_uploads() if wanted == "uploads" else response.list_objects_v2()


def _find(response: Any, name: str) -> Any:
    bucket = response.backend.get_bucket(name)
    if bucket.region_name != response.region:
        raise MissingBucket(bucket=name)  # endpoints of a zone know the buckets of that zone
    return bucket


def _setting(response: Any, bucket: Any, wanted: str, query: dict[str, Any]) -> Any:
    if wanted == "encryption":
        return settings.encryption(response, bucket)
    if wanted == "lifecycle":
        return settings.lifecycle(response, bucket)
    if wanted == "metrics":
        return settings.metrics(response, bucket, query)
    if wanted == "inventory":
        return settings.inventory(response, bucket, query)
    if response.method == "GET":
        return response.get_bucket_policy()
    if response.method == "DELETE":
        return response.delete_bucket_policy()
    check_policy(response.body, arn_of(bucket))
    response.backend.put_bucket_policy(bucket.name, response.body)
    return 204, {}, ""


def _create(response: Any, name: str) -> Any:
    given = (xmltodict.parse(response.body) if response.body else {}).get("CreateBucketConfiguration") or {}
    location, kind = given.get("Location") or {}, given.get("Bucket") or {}
    if kind.get("Type") != "Directory" or not location.get("Name"):
        raise invalid_request("A directory bucket needs Location and Bucket in its CreateBucketConfiguration")
    zone = str(location["Name"])
    check_name(name, zone)
    _check_zone(response, zone, str(location.get("Type")), str(kind.get("DataRedundancy")))
    backend = response.backend
    if name in backend.buckets:
        raise BucketAlreadyOwnedByYou(bucket_name=name)
    bucket = backend.create_bucket(name, response.region)
    settings.prepare(bucket)
    tags = (given.get("Tags") or {}).get("Tag") or []
    tags = tags if isinstance(tags, list) else [tags]
    if tags:
        backend.tagger.tag_resource(arn_of(bucket), [{"Key": tag["Key"], "Value": tag["Value"] or ""} for tag in tags])
    response.data["Action"] = "CreateBucket"
    where = f"https://{name}.s3express-{zone}.{response.region}.amazonaws.com/"
    return response.serialized(ActionResult({"Location": where, "BucketArn": arn_of(bucket)}))


_REDUNDANCY = {"AvailabilityZone": "SingleAvailabilityZone", "LocalZone": "SingleLocalZone"}


def _check_zone(response: Any, zone: str, kind: str, redundancy: str) -> None:
    from moto.ec2.models import ec2_backends

    if _REDUNDANCY.get(kind) != redundancy:
        raise invalid_request(f"A directory bucket of location type {kind} has not the data redundancy {redundancy}")
    backend = ec2_backends[response.current_account][response.region]
    zones = {item.zone_id for item in backend.describe_availability_zones()}
    if kind == "AvailabilityZone" and zone not in zones:
        known = ", ".join(sorted(zones))
        raise invalid_request(f"Location {zone} is no zone of {response.region}; zones: {known}")


def _head(bucket: Any) -> Answer:
    zone = zone_of(bucket.name)
    kind = "AvailabilityZone" if str(zone).count("-") == 1 else "LocalZone"
    headers = {
        "x-amz-access-point-alias": "false",
        "x-amz-bucket-arn": arn_of(bucket),
        "x-amz-bucket-location-name": zone,
        "x-amz-bucket-location-type": kind,
        "x-amz-bucket-region": bucket.region_name,
        "content-type": "application/xml",
    }
    return 200, headers, ""


def _session(response: Any, name: str) -> Any:
    mode = response.request.headers.get("x-amz-create-session-mode")
    credentials = sessions.create(response.current_account, name, mode)
    response.data["Action"] = "CreateSession"
    return response.serialized(ActionResult({"Credentials": credentials}))


def _list(response: Any, query: dict[str, Any]) -> Any:
    """List the directory buckets of the region, in pages."""
    found = sorted(
        (item for item in response.backend.buckets.values() if zone_of(item.name) is not None),
        key=lambda item: str(item.name),
    )
    after = query.get("continuation-token", [""])[0]
    here = [item for item in found if item.region_name == response.region and item.name > after]
    page = here[: int(query.get("max-directory-buckets", ["1000"])[0])]
    shown: dict[str, Any] = {
        "Buckets": [
            {
                "Name": item.name,
                "CreationDate": item.creation_date,
                "BucketRegion": item.region_name,
                "BucketArn": arn_of(item),
            }
            for item in page
        ]
    }
    if len(page) < len(here):
        shown["ContinuationToken"] = page[-1].name
    response.data["Action"] = "ListDirectoryBuckets"
    return response.serialized(ActionResult(shown))


# --- objects


def _object_operation(response: Any, name: str, query: dict[str, Any], original: Callable[[], Any]) -> Any:
    headers = response.request.headers
    _find(response, name)
    sessions.check(sessions.token_of(headers, query), name, response.method)
    if response.method == "PUT" and "renameObject" in query:
        return _rename(response, name)
    check_object_request(query, headers)
    offset = headers.get("x-amz-write-offset-bytes") if response.method == "PUT" else None
    return original() if offset is None else _append(response, name, int(offset), original)


def _append(response: Any, name: str, offset: int, original: Callable[[], Any]) -> Any:
    """Put what is there before what comes, for a request that says where it continues."""
    key = response.parse_key_name()
    found = response.backend.get_object(name, key)
    size = 0 if found is None else found.size
    if offset != size:
        raise DirectoryBucketError(
            400,
            "InvalidWriteOffset",
            f"The write offset value that you specified does not match the current object size: {offset}, {size}",
        )
    if found is None:
        return original()
    response.body = found.value + (response.body or b"")
    answer = original()
    made = response.backend.get_object(name, key)
    made.checksum_algorithm = made.checksum_value = None  # the request's is that of the part alone
    return answer


def _rename(response: Any, name: str) -> Any:
    """Give an object another name, unless a condition on either name does not hold."""
    headers, backend = response.request.headers, response.backend
    new = response.parse_key_name()
    # "/key", "key", and "/bucket/key" as some clients write it
    old = unquote(str(headers["x-amz-rename-source"])).lstrip("/").removeprefix(f"{name}/")
    bucket = backend.get_bucket(name)
    source, target = backend.get_object(name, old), backend.get_object(name, new)
    if source is None:
        raise MissingKey(key=old)
    if new.endswith("/") or old.endswith("/"):
        raise invalid_request("Objects whose key ends in / cannot be renamed")
    wanted = headers.get("x-amz-rename-source-if-match")
    unwanted = headers.get("x-amz-rename-source-if-none-match")
    if (wanted and not object_conditions.same(wanted, source)) or (
        unwanted and (unwanted == "*" or object_conditions.same(unwanted, source))
    ):
        raise PreconditionFailed("x-amz-rename-source-if-match")
    object_conditions.check_target(headers, target)
    if old != new:
        if target is not None:
            bucket.keys.pop(new)
        # taken out without throwing its content away, which moto's pop does
        dict.pop(bucket.keys, old)
        source.name = new
        bucket.keys.setlist(new, [source])
    response.data["Action"] = "RenameObject"
    return response.serialized(EmptyResult())


# --- installation


def _put_object(original: Callable[..., Any]) -> Callable[..., Any]:
    def put_object(self: Any, bucket_name: str, key_name: str, value: bytes, *rest: Any, **given: Any) -> Any:
        if zone_of(bucket_name) is None:
            return original(self, bucket_name, key_name, value, *rest, **given)
        etag, given["storage"] = given.pop("etag", None), "EXPRESS_ONEZONE"
        # random, as the service's are: who takes them for a hash of the content fails here too
        parts = f"-{etag.rsplit('-', 1)[1]}" if etag else ""
        return original(self, bucket_name, key_name, value, *rest, etag=uuid.uuid4().hex + parts, **given)

    return put_object


def _create_upload(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_multipart_upload(self: Any, bucket_name: str, *rest: Any, **given: Any) -> Any:
        made = original(self, bucket_name, *rest, **given)
        if zone_of(bucket_name) is not None:
            made.storage = "EXPRESS_ONEZONE"
        return made

    return create_multipart_upload


def _delete_bucket(original: Callable[..., Any]) -> Callable[..., Any]:
    def delete_bucket(self: Any, bucket_name: str) -> Any:
        if zone_of(bucket_name) is not None and self.get_bucket(bucket_name).multiparts:
            raise BucketNotEmpty(bucket_name=bucket_name)
        return original(self, bucket_name)

    return delete_bucket


def _complete_body(original: Callable[..., Any]) -> Callable[..., Any]:
    def _complete_multipart_body(self: Any, body: bytes) -> Any:
        parts = list(original(self, body))
        numbers = [number for number, _ in parts]
        if zone_of(self.bucket_name) is not None and numbers != list(range(1, len(numbers) + 1)):
            raise DirectoryBucketError(
                400, "InvalidPart", "Part numbers of an upload to a directory bucket must be consecutive, from 1."
            )
        return iter(parts)

    return _complete_multipart_body


def install(patches: Patches) -> None:
    """Send requests for directory buckets here."""
    of_buckets, of_objects, of_keys = S3Response._bucket_response, S3Response._key_response, S3Response.key_response
    in_subdomain, list_buckets = S3Response.subdomain_based_buckets, S3Backend.list_buckets

    def _bucket_response(self: Any, request: Any, full_url: str) -> Any:
        name, query = self.parse_bucket_name_from_url(request, full_url), self._get_querystring(request, full_url)
        if not name and _is_express(request):
            return _answered(self, lambda: _list(self, query))
        if name and zone_of(name) is not None:
            return _answered(self, lambda: _bucket_operation(self, name, query))
        if name and "metrics" in query:
            # Moto keeps no configurations of request metrics, for buckets of any kind.
            return _answered(self, lambda: _setting(self, self.backend.get_bucket(name), "metrics", query))
        if request.method == "PUT" and not query and b"<Type>Directory</Type>" in (self.body or b""):
            return _answered(self, lambda: _refuse(invalid_name()))
        return of_buckets(self, request, full_url)

    def _key_response(self: Any, request: Any, full_url: str) -> Any:
        name = self.parse_bucket_name_from_url(request, full_url)
        query = self._get_querystring(request, full_url)
        if not name or zone_of(name) is None:
            if request.method == "PUT" and "renameObject" in query:
                return _answered(self, lambda: _refuse(not_implemented()))
            return of_objects(self, request, full_url)
        return _answered(
            self, lambda: _object_operation(self, name, query, lambda: of_objects(self, request, full_url))
        )

    def key_response(self: Any, request: Any, full_url: str, headers: Any) -> Any:
        if _is_express(request) and str(request.path).startswith(_TAGS):
            from moto.s3control.responses import S3ControlResponse

            return S3ControlResponse.dispatch(request, full_url, headers)
        return of_keys(self, request, full_url, headers)

    def subdomain_based_buckets(request: Any) -> bool:
        host = str(request.headers.get("host") or request.headers.get("Host") or "")
        return not host.startswith(_CONTROL) and in_subdomain(request)

    def listed(self: Any, prefix: str | None, bucket_region: str | None, max_buckets: str | None) -> list[Any]:
        found = list_buckets(self, prefix, bucket_region, None)
        ordinary = [bucket for bucket in found if zone_of(bucket.name) is None]
        return ordinary[: int(max_buckets)] if max_buckets else ordinary

    patches.set(S3Response, "_bucket_response", _bucket_response)
    patches.set(S3Response, "_key_response", _key_response)
    patches.set(S3Response, "key_response", key_response)
    patches.set(S3Response, "subdomain_based_buckets", staticmethod(subdomain_based_buckets))
    patches.set(S3Response, "_complete_multipart_body", _complete_body(S3Response._complete_multipart_body))
    patches.set(S3Backend, "list_buckets", listed)
    patches.set(S3Backend, "put_object", _put_object(S3Backend.put_object))
    patches.set(S3Backend, "create_multipart_upload", _create_upload(S3Backend.create_multipart_upload))
    patches.set(S3Backend, "delete_bucket", _delete_bucket(S3Backend.delete_bucket))
