"""Objects copied in parts: the plan of the parts, what is taken up again, what is cleaned up, what proves the whole."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit._fake_s3 import FakeS3, crc32, error
from training_storage.operations.checksums import can_combine, combine
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_journal import Journal, Upload
from training_storage.operations.transfer_model import (
    LIMITS,
    MAX_PART_BYTES,
    MAX_PARTS,
    Limits,
    Location,
    Options,
    Report,
    Route,
)
from training_storage.operations.transfer_parts import plan_parts

LAKE, HOT, OTHER = "lake", "hot--use1-az6--x-s3", "other-lake"
TIB = 2**40


class OnePart(Limits):
    """Parts of ten bytes: the real ones are whole MiB."""

    def part_size(self, size: int) -> int:
        return 10


TINY = OnePart(single_copy_bytes=10, part_bytes=10)


def run(s3: FakeS3, source: str = LAKE, destination: str = HOT, **options: Any) -> Report:
    s3.calls.clear()
    route = Route((Location(bucket=source, prefix="data/"),), (Location(bucket=destination, prefix="data/"),))
    return transfer(s3, route, Options(processes=1, concurrency=2, limits=TINY, **options), sleep=lambda _: None)


@pytest.fixture
def s3() -> FakeS3:
    made = FakeS3(LAKE, HOT, OTHER, encrypted=(LAKE,))
    body = bytes(range(45))
    made.put(LAKE, "data/large", body, sums={"CRC32": crc32(body)})
    return made


# The plan


@given(st.integers(1, 48 * TIB))
def test_parts_follow_each_other_cover_the_object_and_keep_to_the_limits(size: int) -> None:
    part_size = LIMITS.part_size(size)
    assert part_size <= MAX_PART_BYTES
    assert -(-size // part_size) <= MAX_PARTS
    if size // part_size < 200:
        spans = plan_parts(size, part_size)
        assert (spans[0][0], spans[-1][1]) == (0, size - 1)
        assert all(after[0] == before[1] + 1 for before, after in pairwise(spans))


def test_objects_up_to_the_limit_are_copied_with_one_request() -> None:
    assert LIMITS.single_copy_bytes <= 5 * 2**30


def test_more_parts_than_s3_takes_are_refused() -> None:
    with pytest.raises(ValueError, match="10001 parts"):
        plan_parts(10_001, 1)


# Copying


def test_an_object_above_the_limit_is_copied_in_consecutive_parts_and_proved(s3: FakeS3) -> None:
    report = run(s3, verify="server")
    assert (report.copied, report.proofs) == (1, {"checksum": 1})
    assert s3.buckets[HOT]["data/large"].body == bytes(range(45))
    asked = [each for name, each in s3.calls if name == "UploadPartCopy"]
    assert sorted(each["PartNumber"] for each in asked) == [1, 2, 3, 4, 5]
    assert {each["CopySourceIfMatch"] for each in asked} == {f'"{s3.buckets[LAKE]["data/large"].etag}"'}
    assert s3.count("CopyObject") == 0


def test_an_object_at_the_limit_is_copied_with_one_request(s3: FakeS3) -> None:
    s3.put(LAKE, "data/large", b"0123456789", sums={"CRC32": crc32(b"0123456789")})
    assert run(s3).is_clean
    assert (s3.count("CopyObject"), s3.count("CreateMultipartUpload")) == (1, 0)


def test_the_upload_makes_a_checksum_of_the_whole_by_the_algorithm_of_the_source(s3: FakeS3) -> None:
    run(s3)
    (asked,) = [each for name, each in s3.calls if name == "CreateMultipartUpload"]
    assert (asked["ChecksumAlgorithm"], asked["ChecksumType"]) == ("CRC32", "FULL_OBJECT")


def test_a_bucket_that_knows_no_such_checksum_gets_none_and_is_read(s3: FakeS3) -> None:
    s3.fail("CreateMultipartUpload", error("InvalidRequest", 400))
    report = run(s3)
    assert (report.proofs, report.is_clean) == ({"read": 1}, True)


def test_what_an_object_is_described_with_comes_along(s3: FakeS3) -> None:
    s3.buckets[LAKE]["data/large"].about = {"ContentType": "text/x", "Metadata": {"step": "9"}}
    run(s3)
    assert s3.buckets[HOT]["data/large"].about == {"ContentType": "text/x", "Metadata": {"step": "9"}}


@pytest.mark.parametrize(("destination", "tagging"), [(HOT, None), (OTHER, "team=vision&run=a+b")])
def test_tags_come_along_where_they_are_taken(s3: FakeS3, destination: str, tagging: str | None) -> None:
    s3.buckets[LAKE]["data/large"].tags = {"team": "vision", "run": "a b"}
    assert run(s3, LAKE, destination).is_clean
    (asked,) = [each for name, each in s3.calls if name == "CreateMultipartUpload"]
    assert asked.get("Tagging") == tagging


def test_a_damaged_whole_never_counts(s3: FakeS3) -> None:
    s3.damage = lambda body: body[:-1] + b"?"
    report = run(s3, remove=True)
    assert (report.failed, report.copied, report.removed) == (1, 0, 0)
    assert "not equal" in report.failures[0].reason


# What goes wrong


def test_a_source_that_changes_between_two_parts_is_copied_anew_and_leaves_no_upload(s3: FakeS3) -> None:
    body = b"n" * 33
    s3.before["UploadPartCopy"] = [
        lambda **_: None,
        lambda **_: s3.put(LAKE, "data/large", body, sums={"CRC32": crc32(body)}),
    ]
    report = run(s3)
    assert (report.copied, report.is_clean) == (1, True)
    assert s3.buckets[HOT]["data/large"].body == body
    assert s3.uploads == {}


@pytest.mark.parametrize("body", [b"", b"small"])
def test_a_source_that_becomes_small_meanwhile_is_copied_with_one_request(s3: FakeS3, body: bytes) -> None:
    s3.before["UploadPartCopy"] = [
        lambda **_: None,
        lambda **_: s3.put(LAKE, "data/large", body, sums={"CRC32": crc32(body)}),
    ]
    report = run(s3)
    assert (report.copied, report.is_clean, s3.uploads) == (1, True, {})
    assert s3.buckets[HOT]["data/large"].body == body
    assert s3.count("CreateMultipartUpload") == 1


def test_parts_that_are_there_are_not_copied_again_after_a_broken_one(s3: FakeS3) -> None:
    s3.fail("UploadPartCopy", None, None, error("InternalError", 500))
    assert run(s3).is_clean
    assert s3.count("CreateMultipartUpload") == 1
    assert 6 <= s3.count("UploadPartCopy") <= 8


def test_an_object_that_is_given_up_leaves_no_upload(s3: FakeS3) -> None:
    def fail(**_: Any) -> None:
        raise error("InternalError", 500)

    s3.always["UploadPartCopy"] = fail
    assert run(s3).failed == 1
    assert s3.uploads == {}


def test_a_denied_part_leaves_no_upload(s3: FakeS3) -> None:
    s3.fail("UploadPartCopy", error("AccessDenied", 403))
    assert run(s3).failed == 1
    assert s3.uploads == {}


def test_a_lost_answer_to_the_completion_costs_no_second_copy(s3: FakeS3) -> None:
    complete = s3.complete_multipart_upload
    lost: list[bool] = []

    def lose(**asked: Any) -> Any:
        answer = complete(**asked)
        if not lost:
            lost.append(True)
            return complete(**asked)  # botocore tries again, and S3 knows no such upload any more
        return answer

    s3.complete_multipart_upload = lose  # type: ignore[method-assign]
    report = run(s3)
    assert (report.copied, s3.count("CreateMultipartUpload")) == (1, 1)


# Interrupted before


def leave_upload(s3: FakeS3, parts: int, *, named: bool = True) -> None:
    """Leave what a run leaves that is killed after some parts, or before it wrote down the id of the upload."""
    route = Route((Location(bucket=LAKE, prefix="data/"),), (Location(bucket=HOT, prefix="data/"),))
    journal = Journal(s3, LAKE, route.transfer_id)  # type: ignore[arg-type]
    source = s3.buckets[LAKE]["data/large"]
    upload = Upload(HOT, "data/large", source.etag, len(source.body), 10, "")
    journal.intend(upload)
    upload_id = s3.create_multipart_upload(
        Bucket=HOT, Key="data/large", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT"
    )["UploadId"]
    if named:
        journal.begun(upload._replace(upload_id=upload_id))
    for number, (first, last) in list(enumerate(plan_parts(len(source.body), 10), 1))[:parts]:
        s3.upload_part_copy(
            Bucket=HOT, Key="data/large", UploadId=upload_id, PartNumber=number,
            CopySource={"Bucket": LAKE, "Key": "data/large"},
            CopySourceRange=f"bytes={first}-{last}", CopySourceIfMatch=f'"{source.etag}"',
        )  # fmt: skip


@pytest.mark.parametrize("named", [True, False])
def test_an_upload_of_an_earlier_run_is_taken_up_with_its_parts(s3: FakeS3, named: bool) -> None:
    leave_upload(s3, 3, named=named)
    report = run(s3)
    assert (report.copied, report.is_clean) == (1, True)
    assert (s3.count("CreateMultipartUpload"), s3.count("UploadPartCopy")) == (0, 2)
    assert "1 uploads in parts that an earlier run left are taken up again" in report.notes


def test_an_upload_of_another_object_of_the_same_key_is_aborted(s3: FakeS3) -> None:
    leave_upload(s3, 3)
    s3.put(LAKE, "data/large", b"n" * 33)
    assert run(s3).is_clean
    assert s3.count("AbortMultipartUpload") == 1
    assert s3.uploads == {}


def test_an_upload_of_a_source_that_is_gone_is_aborted(s3: FakeS3) -> None:
    leave_upload(s3, 3)
    del s3.buckets[LAKE]["data/large"]
    assert run(s3).is_clean
    assert s3.uploads == {}


def test_an_upload_of_somebody_else_is_left_alone(s3: FakeS3) -> None:
    theirs = s3.create_multipart_upload(Bucket=HOT, Key="data/large")["UploadId"]
    assert run(s3).is_clean
    assert list(s3.uploads) == [theirs]


def test_an_upload_that_has_ended_is_not_looked_for_again(s3: FakeS3) -> None:
    run(s3)
    run(s3)
    assert s3.count("ListMultipartUploads") == 0


def test_an_upload_that_vanished_meanwhile_is_made_anew(s3: FakeS3) -> None:
    leave_upload(s3, 3)
    s3.fail("ListParts", error("NoSuchUpload", 404))
    assert run(s3).is_clean


# Checksums of the whole out of those of the parts

CRCS = {"CRC32": (32, 0xEDB88320), "CRC32C": (32, 0x82F63B78), "CRC64NVME": (64, 0x9A6C9329AC4BC9B5)}


def bitwise(algorithm: str, body: bytes) -> str:
    bits, polynomial = CRCS[algorithm]
    ones = (1 << bits) - 1
    value = ones
    for byte in body:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (polynomial if value & 1 else 0)
    return b64encode((value ^ ones).to_bytes(bits // 8, "big")).decode()


@pytest.mark.parametrize(
    ("algorithm", "check"), [("CRC32", "cbf43926"), ("CRC32C", "e3069283"), ("CRC64NVME", "ae8b14860a799888")]
)
def test_the_published_check_values(algorithm: str, check: str) -> None:
    assert b64decode(bitwise(algorithm, b"123456789")).hex() == check
    parts = [(bitwise(algorithm, part), len(part)) for part in (b"1234", b"", b"56789")]
    assert b64decode(combine(algorithm, parts)).hex() == check


@given(st.sampled_from(sorted(CRCS)), st.lists(st.binary(max_size=40), max_size=6))
def test_the_checksum_of_the_whole_is_that_of_its_bytes(algorithm: str, bodies: list[bytes]) -> None:
    parts = [(bitwise(algorithm, body), len(body)) for body in bodies]
    assert combine(algorithm, parts) == bitwise(algorithm, b"".join(bodies))


def test_hashes_do_not_combine() -> None:
    assert [name for name in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256") if can_combine(name)] == sorted(CRCS)


def test_parts_that_are_copied_are_progress_before_the_object_is_complete(s3: FakeS3) -> None:
    seen: list[int] = []
    complete = s3.complete_multipart_upload

    def slow(**asked: Any) -> Any:
        time.sleep(0.5)  # longer than the pause between two looks at the counts
        return complete(**asked)

    s3.complete_multipart_upload = slow  # type: ignore[method-assign]
    route = Route((Location(bucket=LAKE, prefix="data/"),), (Location(bucket=HOT, prefix="data/"),))
    report = transfer(
        s3, route, Options(processes=1, concurrency=2, limits=TINY),
        on_progress=lambda report: seen.append(report.under_way_bytes),
    )  # fmt: skip
    assert 45 in seen
    assert (report.copied_bytes, seen[-1]) == (45, 0)
