"""Objects and uploads of a directory bucket in the emulator, and conditions that hold in buckets of both kinds."""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from training_storage.emulator import Emulator

HOT = "hot--use1-az6--x-s3"
LAKE = "lake-1"
CONFIGURATION: Any = {
    "Location": {"Name": "use1-az6", "Type": "AvailabilityZone"},
    "Bucket": {"Type": "Directory", "DataRedundancy": "SingleAvailabilityZone"},
}
PART = b"p" * (5 * 1024 * 1024)


@pytest.fixture
def s3(aws_emulator: Emulator) -> Any:
    client = aws_emulator.client("s3")
    client.create_bucket(Bucket=HOT, CreateBucketConfiguration=CONFIGURATION)
    client.create_bucket(Bucket=LAKE)
    return client


@pytest.fixture(params=[HOT, LAKE])
def bucket(request: pytest.FixtureRequest, s3: Any) -> str:
    return str(request.param) if s3 else ""


def code(work: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as error:
        work()
    return str(error.value.response["Error"]["Code"])


def put(s3: Any, bucket: str, key: str, body: bytes = b"x", **given: Any) -> str:
    return str(s3.put_object(Bucket=bucket, Key=key, Body=body, **given)["ETag"])


def read(s3: Any, bucket: str, key: str) -> bytes:
    return bytes(s3.get_object(Bucket=bucket, Key=key)["Body"].read())


# --- objects of a directory bucket


def test_an_object_comes_and_goes(s3: Any) -> None:
    put(s3, HOT, "a/b", b"content", Metadata={"step": "7"})
    head = s3.head_object(Bucket=HOT, Key="a/b")
    assert (head["ContentLength"], head["StorageClass"], head["Metadata"]) == (7, "EXPRESS_ONEZONE", {"step": "7"})
    assert read(s3, HOT, "a/b") == b"content"
    assert s3.get_object(Bucket=HOT, Key="a/b", Range="bytes=1-3")["Body"].read() == b"ont"
    s3.delete_object(Bucket=HOT, Key="a/b")
    assert code(lambda: s3.head_object(Bucket=HOT, Key="a/b")) == "404"
    assert code(lambda: read(s3, HOT, "a/b")) == "NoSuchKey"


def test_entity_tags_are_no_hashes(s3: Any) -> None:
    first, second = put(s3, HOT, "a"), put(s3, HOT, "b")
    assert first != second
    assert re.fullmatch(r'"[0-9a-f]{32}"', first)
    assert s3.head_object(Bucket=HOT, Key="a")["ETag"] == first
    assert put(s3, LAKE, "a") == put(s3, LAKE, "b")


def test_copies_between_buckets_of_both_kinds(s3: Any) -> None:
    put(s3, LAKE, "a", b"content")
    s3.copy_object(Bucket=HOT, Key="b", CopySource={"Bucket": LAKE, "Key": "a"})
    s3.copy_object(Bucket=HOT, Key="c", CopySource={"Bucket": HOT, "Key": "b"})
    s3.copy_object(Bucket=LAKE, Key="d", CopySource={"Bucket": HOT, "Key": "c"})
    assert read(s3, LAKE, "d") == b"content"
    assert s3.head_object(Bucket=HOT, Key="c")["StorageClass"] == "EXPRESS_ONEZONE"
    assert "StorageClass" not in s3.head_object(Bucket=LAKE, Key="d")


def test_many_are_listed_in_pages(s3: Any) -> None:
    for number in range(5):
        put(s3, HOT, f"d/{number}")
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=HOT, Prefix="d/", PaginationConfig={"PageSize": 2})
    assert [item["Key"] for page in pages for item in page["Contents"]] == [f"d/{number}" for number in range(5)]


def test_directories_are_listed(s3: Any) -> None:
    for key in ("a/b/c", "a/d", "e"):
        put(s3, HOT, key)
    shown = s3.list_objects_v2(Bucket=HOT, Prefix="a/", Delimiter="/")
    assert [item["Key"] for item in shown["Contents"]] == ["a/d"]
    assert [item["Prefix"] for item in shown["CommonPrefixes"]] == ["a/b/"]


@pytest.mark.parametrize(
    "how", [{"Prefix": "a"}, {"Prefix": "a/b"}, {"Delimiter": "-"}, {"StartAfter": "a"}], ids=lambda how: str(how)
)
def test_ways_of_listing_that_it_does_not_have(s3: Any, how: dict[str, str]) -> None:
    put(s3, LAKE, "a/b/c")
    assert s3.list_objects_v2(Bucket=LAKE, **how)["Name"] == LAKE
    assert code(lambda: s3.list_objects_v2(Bucket=HOT, **how)) == "InvalidRequest"


@pytest.mark.parametrize(
    ("operation", "given", "refused"),
    [
        ("put_object", {"Tagging": "a=b"}, "NotImplemented"),
        ("put_object", {"StorageClass": "STANDARD_IA"}, "InvalidStorageClass"),
        ("put_object", {"WebsiteRedirectLocation": "/x"}, "NotImplemented"),
        ("put_object", {"ServerSideEncryption": "aws:kms:dsse"}, "InvalidRequest"),
        ("put_object_tagging", {"Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}}, "MethodNotAllowed"),
        ("get_object_tagging", {}, "MethodNotAllowed"),
        ("delete_object_tagging", {}, "MethodNotAllowed"),
        ("get_object_acl", {}, "MethodNotAllowed"),
        ("put_object_legal_hold", {"LegalHold": {"Status": "ON"}}, "MethodNotAllowed"),
        ("restore_object", {"RestoreRequest": {"Days": 1}}, "MethodNotAllowed"),
        ("get_object", {"VersionId": "1"}, "InvalidArgument"),
    ],
)
def test_what_objects_of_it_do_not_have(s3: Any, operation: str, given: dict[str, Any], refused: str) -> None:
    put(s3, HOT, "a")
    assert code(lambda: getattr(s3, operation)(Bucket=HOT, Key="a", **given)) == refused


def test_appending(s3: Any) -> None:
    put(s3, HOT, "log", b"one", WriteOffsetBytes=0)
    put(s3, HOT, "log", b"two", WriteOffsetBytes=3)
    assert read(s3, HOT, "log") == b"onetwo"
    assert code(lambda: put(s3, HOT, "log", b"three", WriteOffsetBytes=3)) == "InvalidWriteOffset"
    assert read(s3, HOT, "log") == b"onetwo"


def test_renaming(s3: Any) -> None:
    etag = put(s3, HOT, "a/tmp", b"content", Metadata={"step": "7"})
    s3.rename_object(Bucket=HOT, Key="b/final", RenameSource="a/tmp")
    assert read(s3, HOT, "b/final") == b"content"
    head = s3.head_object(Bucket=HOT, Key="b/final")
    assert (head["ETag"], head["Metadata"]) == (etag, {"step": "7"})
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=HOT)["Contents"]] == ["b/final"]


def test_renaming_replaces_unless_told_otherwise(s3: Any) -> None:
    put(s3, HOT, "new", b"new")
    old = put(s3, HOT, "old", b"old")

    def rename(**given: Any) -> Any:
        return s3.rename_object(Bucket=HOT, Key="old", RenameSource="new", **given)

    assert code(lambda: rename(DestinationIfNoneMatch="*")) == "PreconditionFailed"
    assert code(lambda: rename(DestinationIfMatch='"0"')) == "PreconditionFailed"
    assert code(lambda: rename(SourceIfMatch='"0"')) == "PreconditionFailed"
    assert code(lambda: rename(SourceIfNoneMatch="*")) == "PreconditionFailed"
    assert read(s3, HOT, "old") == b"old"
    rename(DestinationIfMatch=old)
    assert read(s3, HOT, "old") == b"new"


def test_renaming_what_is_not_there(s3: Any) -> None:
    assert code(lambda: s3.rename_object(Bucket=HOT, Key="b", RenameSource="a")) == "NoSuchKey"


def test_only_directory_buckets_rename(s3: Any) -> None:
    put(s3, LAKE, "a")
    assert code(lambda: s3.rename_object(Bucket=LAKE, Key="b", RenameSource="a")) == "NotImplemented"
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=LAKE)["Contents"]] == ["a"]


# --- uploads


def upload(s3: Any, bucket: str, key: str, numbers: tuple[int, ...] = (1, 2), **given: Any) -> tuple[str, list[Any]]:
    began = s3.create_multipart_upload(Bucket=bucket, Key=key, **given)["UploadId"]
    where = {"Bucket": bucket, "Key": key, "UploadId": began}
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(**where, PartNumber=number, Body=PART)["ETag"]}
        for number in numbers
    ]
    return began, parts


def complete(s3: Any, bucket: str, key: str, began: str, parts: list[Any], **given: Any) -> Any:
    return s3.complete_multipart_upload(
        Bucket=bucket, Key=key, UploadId=began, MultipartUpload={"Parts": parts}, **given
    )


def test_an_upload_in_parts(s3: Any) -> None:
    began, parts = upload(s3, HOT, "big")
    shown = s3.list_multipart_uploads(Bucket=HOT)["Uploads"]
    assert [(item["Key"], item["UploadId"], item["StorageClass"]) for item in shown] == [
        ("big", began, "EXPRESS_ONEZONE")
    ]
    assert len(s3.list_parts(Bucket=HOT, Key="big", UploadId=began)["Parts"]) == 2
    etag = complete(s3, HOT, "big", began, parts)["ETag"]
    assert re.fullmatch(r'"[0-9a-f]{32}-2"', etag)
    assert s3.head_object(Bucket=HOT, Key="big")["ContentLength"] == 2 * len(PART)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=HOT)


def test_part_numbers_are_consecutive(s3: Any) -> None:
    for bucket, refused in ((LAKE, None), (HOT, "InvalidPart")):
        began, parts = upload(s3, bucket, "big", (1, 3))
        if refused is None:
            assert complete(s3, bucket, "big", began, parts)["ETag"]
        else:
            assert code(lambda: complete(s3, HOT, "big", began, parts)) == refused  # noqa: B023 - called at once


def test_parts_are_copied_from_a_lake(s3: Any) -> None:
    put(s3, LAKE, "big", PART + b"end")
    began = s3.create_multipart_upload(Bucket=HOT, Key="big")["UploadId"]
    parts = []
    for number, span in ((1, f"bytes=0-{len(PART) - 1}"), (2, f"bytes={len(PART)}-{len(PART) + 2}")):
        copied = s3.upload_part_copy(
            Bucket=HOT,
            Key="big",
            UploadId=began,
            PartNumber=number,
            CopySource={"Bucket": LAKE, "Key": "big"},
            CopySourceRange=span,
        )
        parts.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    complete(s3, HOT, "big", began, parts)
    assert read(s3, HOT, "big") == PART + b"end"


def test_an_aborted_upload_is_gone(s3: Any) -> None:
    began, _ = upload(s3, HOT, "big", (1,))
    s3.abort_multipart_upload(Bucket=HOT, Key="big", UploadId=began)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=HOT)
    assert code(lambda: s3.abort_multipart_upload(Bucket=HOT, Key="big", UploadId=began)) == "NoSuchUpload"


def test_uploads_say_when_they_began(s3: Any, bucket: str) -> None:
    s3.create_multipart_upload(Bucket=bucket, Key="big")
    began = s3.list_multipart_uploads(Bucket=bucket)["Uploads"][0]["Initiated"]
    assert abs(datetime.now(tz=UTC) - began) < timedelta(minutes=5)


def test_uploads_are_listed_in_pages(s3: Any, bucket: str) -> None:
    for number in range(5):
        s3.create_multipart_upload(Bucket=bucket, Key=f"u/{number}")
    pages = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    assert [item["Key"] for page in pages for item in page["Uploads"]] == [f"u/{number}" for number in range(5)]


# --- conditions, in buckets of both kinds


def test_a_put_only_if_nothing_is_there(s3: Any, bucket: str) -> None:
    put(s3, bucket, "a", IfNoneMatch="*")
    assert code(lambda: put(s3, bucket, "a", IfNoneMatch="*")) == "PreconditionFailed"


def test_a_put_only_over_what_was_seen(s3: Any, bucket: str) -> None:
    seen = put(s3, bucket, "a", b"one")
    put(s3, bucket, "a", b"two", IfMatch=seen)
    assert code(lambda: put(s3, bucket, "a", b"three", IfMatch=seen)) == "PreconditionFailed"
    assert read(s3, bucket, "a") == b"two"


def test_a_delete_only_of_what_was_seen(s3: Any, bucket: str) -> None:
    seen = put(s3, bucket, "a", b"one")
    put(s3, bucket, "a", b"two")
    assert code(lambda: s3.delete_object(Bucket=bucket, Key="a", IfMatch=seen)) == "PreconditionFailed"
    s3.delete_object(Bucket=bucket, Key="a", IfMatch=s3.head_object(Bucket=bucket, Key="a")["ETag"])
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_delete_by_size_and_time(s3: Any) -> None:
    put(s3, HOT, "a", b"one")
    seen = s3.head_object(Bucket=HOT, Key="a")["LastModified"]

    def delete(**given: Any) -> Any:
        return s3.delete_object(Bucket=HOT, Key="a", **given)

    assert code(lambda: delete(IfMatchSize=4)) == "PreconditionFailed"
    assert code(lambda: delete(IfMatchLastModifiedTime=seen - timedelta(seconds=1))) == "PreconditionFailed"
    delete(IfMatchSize=3, IfMatchLastModifiedTime=seen)
    assert s3.list_objects_v2(Bucket=HOT)["KeyCount"] == 0


def test_several_are_deleted_only_as_they_were_seen(s3: Any, bucket: str) -> None:
    first, second = put(s3, bucket, "a", b"one"), put(s3, bucket, "b", b"two")
    put(s3, bucket, "b", b"three")
    answer = s3.delete_objects(
        Bucket=bucket, Delete={"Objects": [{"Key": "a", "ETag": first}, {"Key": "b", "ETag": second}]}
    )
    assert [item["Key"] for item in answer["Deleted"]] == ["a"]
    assert [(item["Key"], item["Code"]) for item in answer["Errors"]] == [("b", "PreconditionFailed")]
    assert [item["Key"] for item in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["b"]


def test_a_copy_only_of_what_was_seen(s3: Any, bucket: str) -> None:
    seen = put(s3, bucket, "a", b"one")
    put(s3, bucket, "a", b"two")

    def copy(etag: str) -> Any:
        return s3.copy_object(Bucket=HOT, Key="copy", CopySource={"Bucket": bucket, "Key": "a"}, CopySourceIfMatch=etag)

    assert code(lambda: copy(seen)) == "PreconditionFailed"
    copy(s3.head_object(Bucket=bucket, Key="a")["ETag"])
    assert read(s3, HOT, "copy") == b"two"


def test_a_part_only_of_what_was_seen(s3: Any) -> None:
    seen = put(s3, LAKE, "a", b"one")
    put(s3, LAKE, "a", b"two")
    began = s3.create_multipart_upload(Bucket=HOT, Key="copy")["UploadId"]
    where = {"Bucket": HOT, "Key": "copy", "UploadId": began, "PartNumber": 1}

    def copy() -> Any:
        return s3.upload_part_copy(**where, CopySource={"Bucket": LAKE, "Key": "a"}, CopySourceIfMatch=seen)

    assert code(copy) == "PreconditionFailed"


def test_a_copy_only_to_a_free_name(s3: Any, bucket: str) -> None:
    put(s3, bucket, "a", b"one")
    there = put(s3, bucket, "b", b"two")

    def copy(**given: Any) -> Any:
        return s3.copy_object(Bucket=bucket, Key="b", CopySource={"Bucket": bucket, "Key": "a"}, **given)

    assert code(lambda: copy(IfNoneMatch="*")) == "PreconditionFailed"
    copy(IfMatch=there)
    assert read(s3, bucket, "b") == b"one"


def test_an_upload_only_to_a_free_name(s3: Any, bucket: str) -> None:
    began, parts = upload(s3, bucket, "a", (1,))
    put(s3, bucket, "a", b"other")
    assert code(lambda: complete(s3, bucket, "a", began, parts, IfNoneMatch="*")) == "PreconditionFailed"
    assert read(s3, bucket, "a") == b"other"


# --- checksums


def crc32(value: bytes) -> str:
    return base64.b64encode(binascii.crc32(value).to_bytes(4, "big")).decode()


def test_the_check_value_of_crc64nvme() -> None:
    from training_storage.emulator.services.object_conditions import crc64nvme

    # the check value of CRC-64/NVME in the catalogue of parametrised CRC algorithms
    assert crc64nvme(b"123456789") == 0xAE8B14860A799888


def test_a_copy_is_checksummed_as_asked(s3: Any, bucket: str) -> None:
    from training_storage.emulator.services.object_conditions import crc64nvme

    put(s3, LAKE, "a", b"content")
    copied = s3.copy_object(
        Bucket=bucket, Key="b", CopySource={"Bucket": LAKE, "Key": "a"}, ChecksumAlgorithm="CRC64NVME"
    )
    wanted = base64.b64encode(crc64nvme(b"content").to_bytes(8, "big")).decode()
    assert copied["CopyObjectResult"]["ChecksumCRC64NVME"] == wanted
    head = s3.head_object(Bucket=bucket, Key="b", ChecksumMode="ENABLED")
    assert head["ChecksumCRC64NVME"] == wanted


def test_a_copy_keeps_the_checksum_of_its_source(s3: Any) -> None:
    put(s3, LAKE, "a", b"content")
    s3.copy_object(Bucket=HOT, Key="b", CopySource={"Bucket": LAKE, "Key": "a"})
    assert s3.head_object(Bucket=HOT, Key="b", ChecksumMode="ENABLED")["ChecksumCRC32"] == crc32(b"content")


def test_a_checksum_over_all_parts(s3: Any, bucket: str) -> None:
    began, parts = upload(s3, bucket, "big", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    complete(s3, bucket, "big", began, parts)
    head = s3.head_object(Bucket=bucket, Key="big", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == crc32(PART + PART)


# --- over HTTP


@pytest.mark.slow
def test_the_same_over_http(aws_emulator: Emulator, s3: Any) -> None:
    own = boto3.client(
        "s3",
        endpoint_url=aws_emulator.server.url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    name = "other--use1-az6--x-s3"
    own.create_bucket(Bucket=name, CreateBucketConfiguration=CONFIGURATION)
    assert [item["Name"] for item in own.list_directory_buckets()["Buckets"]] == [HOT, name]
    assert [item["Name"] for item in own.list_buckets()["Buckets"]] == [LAKE]
    own.upload_fileobj(io.BytesIO(PART * 2), name, "d/big")
    own.rename_object(Bucket=name, Key="d/final", RenameSource="d/big")
    own.copy_object(Bucket=HOT, Key="copy", CopySource={"Bucket": name, "Key": "d/final"})
    assert s3.head_object(Bucket=HOT, Key="copy")["ContentLength"] == 2 * len(PART)
    assert code(lambda: own.list_objects_v2(Bucket=name, Prefix="d")) == "InvalidRequest"
    assert code(lambda: own.put_object(Bucket=name, Key="a", Body=b"x", Tagging="a=b")) == "NotImplemented"
    assert code(lambda: own.delete_bucket(Bucket=name)) == "BucketNotEmpty"
    own.delete_objects(Bucket=name, Delete={"Objects": [{"Key": "d/final"}]})
    own.delete_bucket(Bucket=name)
    assert code(lambda: own.head_bucket(Bucket=name)) == "404"
    assert aws_emulator.server.failures == []
