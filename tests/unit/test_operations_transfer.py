"""Transfers of single objects: what proves a copy, what is tried again, what fails and what is removed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit._fake_s3 import FakeS3, crc32, error
from training_storage.errors import AwsError, RefusedError
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_copy import ATTEMPTS
from training_storage.operations.transfer_model import Location, Options, Report, Route

LAKE, HOT, OTHER = "lake", "hot--use1-az6--x-s3", "other-lake"
PREFIX = "data/"


class Setup:
    """A lake that KMS encrypts, a directory bucket, and another lake."""

    def __init__(self, **settings: Any) -> None:
        self.s3 = FakeS3(LAKE, HOT, OTHER, **{"encrypted": (LAKE,)} | settings)
        self.slept: list[float] = []
        self.notes: list[str] = []

    def run(self, source: str = LAKE, destination: str = HOT, **options: Any) -> Report:
        self.s3.calls.clear()
        return transfer(
            self.s3,
            Route((Location(bucket=source, prefix=PREFIX),), (Location(bucket=destination, prefix=PREFIX),)),
            Options(processes=1, concurrency=2, **options),
            on_note=self.notes.append,
            sleep=self.slept.append,
        )

    def put(self, *names: str, bucket: str = LAKE, sums: dict[str, str] | None = None) -> None:
        for name in names:
            body = f"body of {name}".encode()
            self.s3.put(bucket, PREFIX + name, body, sums={"CRC32": crc32(body)} if sums is None else sums)

    def body(self, bucket: str, name: str) -> bytes:
        return self.s3.buckets[bucket][PREFIX + name].body


@pytest.fixture
def aws() -> Setup:
    return Setup()


# What proves a copy


def test_a_checksum_of_the_whole_on_both_sides_proves_a_copy_and_nothing_is_read(aws: Setup) -> None:
    aws.put("one", "two")
    report = aws.run(verify="server")
    assert (report.copied, report.proofs, report.is_clean) == (2, {"checksum": 2}, True)
    assert not [asked for name, asked in aws.s3.calls if name == "GetObject" and "transfers" not in asked["Key"]]


def test_checksums_of_parts_are_put_together(aws: Setup) -> None:
    aws.s3.put_parts(LAKE, "data/large", b"a" * 1000, b"b" * 1000, b"c" * 77)
    report = aws.run(verify="server")
    assert (report.proofs, report.is_clean) == ({"checksum": 1}, True)
    assert aws.s3.count("GetObjectAttributes") == 2  # in pages


def test_where_parts_may_not_be_asked_for_both_sides_are_read(aws: Setup) -> None:
    aws.s3.put_parts(LAKE, "data/large", b"a" * 1000, b"b" * 1000)
    aws.s3.always["GetObjectAttributes"] = _throw(error("AccessDenied", 403))
    report = aws.run()
    assert (report.proofs, report.read_bytes) == ({"read": 1}, 4000)


def test_equal_md5_sums_prove_a_copy_between_buckets_without_a_key() -> None:
    plain = Setup(encrypted=())
    plain.put("one", bucket=OTHER, sums={})
    report = plain.run(OTHER, LAKE, verify="server")
    assert (report.proofs, report.is_clean) == ({"etag": 1}, True)


def test_an_object_without_any_checksum_is_read_on_both_sides(aws: Setup) -> None:
    aws.put("old", sums={})
    report = aws.run()
    assert (report.proofs, report.read_bytes, report.is_clean) == ({"read": 1}, 2 * len("body of old"), True)


def test_without_reading_such_an_object_is_unverified_and_never_removed(aws: Setup) -> None:
    aws.put("old", sums={})
    report = aws.run(verify="server", remove=True)
    assert (report.unverified, report.copied, report.removed, report.is_clean) == (1, 0, 0, False)
    assert report.failures[0].kind == "unverified"
    assert "--verify" in report.failures[0].reason
    assert aws.s3.keys(LAKE) == {"data/old"}


def test_reading_on_demand_reads_objects_with_checksums_too(aws: Setup) -> None:
    aws.put("one")
    assert aws.run(verify="read").proofs == {"read": 1}


@pytest.mark.parametrize("verify", ["auto", "read"])
@pytest.mark.parametrize("sums", [None, {}], ids=["with checksum", "without"])
def test_a_damaged_copy_never_counts_nor_costs_its_source(aws: Setup, verify: Any, sums: dict[str, str] | None) -> None:
    aws.put("one", sums=sums)
    aws.s3.damage = lambda body: body[:-1] + b"?"
    report = aws.run(verify=verify, remove=True)
    assert (report.failed, report.copied, report.removed) == (1, 0, 0)
    assert "the copy is not equal" in report.failures[0].reason
    assert aws.s3.keys(LAKE) == {"data/one"}
    assert aws.s3.count("CopyObject") == ATTEMPTS


def test_a_copy_of_another_size_is_seen_in_the_listing_and_made_again() -> None:
    aws = Setup(encrypted=())
    aws.put("one", "two")
    told = aws.s3.copy_object

    def lies(**asked: Any) -> Any:
        answer = told(**asked)
        if asked["Key"] == "data/one" and aws.s3.count("CopyObject") < 3:
            aws.s3.buckets[OTHER]["data/one"].body = b"short"  # after S3 had said that all is well
        return answer

    aws.s3.copy_object = lies  # type: ignore[method-assign]
    report = aws.run(LAKE, OTHER)
    assert (report.copied, report.is_clean) == (2, True)
    assert aws.body(OTHER, "one") == b"body of one"
    assert aws.s3.count("CopyObject") == 3


def test_copies_in_a_general_purpose_bucket_are_seen_by_listing_and_not_one_by_one() -> None:
    aws = Setup(encrypted=())
    aws.put(*(f"{number:03d}" for number in range(300)))
    report = aws.run(LAKE, OTHER)
    assert (report.copied, report.is_clean) == (300, True)
    assert aws.s3.count("HeadObject") == 0


def test_copies_far_apart_are_looked_at_one_by_one() -> None:
    aws = Setup(encrypted=())
    aws.put(*(f"{number:05d}" for number in range(3000)), bucket=OTHER)
    aws.put(*(f"{number:05d}" for number in range(0, 3000, 1000)))
    for number in range(0, 3000, 1000):
        del aws.s3.buckets[OTHER][f"data/{number:05d}"]
    report = aws.run(LAKE, OTHER)
    assert (report.copied, report.is_clean) == (3, True)
    assert aws.s3.count("HeadObject") == 3


# What changes meanwhile


def _throw(what: Exception) -> Any:
    def throw(**_: Any) -> None:
        raise what

    return throw


def test_an_object_that_changes_before_its_copy_is_copied_as_it_is_now(aws: Setup) -> None:
    aws.put("one")
    aws.s3.before["CopyObject"] = [lambda **_: aws.s3.put(LAKE, "data/one", b"new", sums={})]
    report = aws.run()
    assert (report.copied, report.is_clean) == (1, True)
    assert aws.body(HOT, "one") == b"new"


def test_an_object_that_changes_after_its_copy_is_copied_again(aws: Setup) -> None:
    aws.put("one")
    aws.s3.before["HeadObject"] = [
        lambda **_: None,
        lambda **_: aws.s3.put(LAKE, "data/one", b"new", sums={}),
    ]
    assert aws.run().is_clean
    assert aws.body(HOT, "one") == b"new"


def test_an_object_that_never_rests_is_reported(aws: Setup) -> None:
    aws.put("log", "one")

    def write(**asked: Any) -> None:
        if asked["Key"] == "data/log":
            aws.s3.put(LAKE, "data/log", b"x" * len(aws.s3.calls))

    aws.s3.always["CopyObject"] = write
    report = aws.run()
    assert (report.copied, report.failed) == (1, 1)
    assert "changed 3 times while being copied" in report.failures[0].reason


def test_an_object_that_grows_beyond_one_request_is_left_to_the_next_run(aws: Setup) -> None:
    aws.put("one")
    head = aws.s3.head_object

    def huge(**asked: Any) -> Any:
        answer = head(**asked)
        return answer | ({"ContentLength": 6 * 2**30} if asked["Bucket"] == LAKE else {})

    def grow(**_: Any) -> None:
        aws.s3.put(LAKE, "data/one", b"grown", sums={})
        aws.s3.head_object = huge  # type: ignore[method-assign]

    aws.s3.before["CopyObject"] = [grow]
    report = aws.run()
    assert (report.failed, report.copied) == (1, 0)
    assert "run the same command again" in report.failures[0].reason


def test_an_object_that_vanishes_is_no_failure(aws: Setup) -> None:
    aws.put("one", "two")
    aws.s3.before["CopyObject"] = [lambda **asked: aws.s3.buckets[LAKE].pop(asked["CopySource"]["Key"])]
    report = aws.run()
    assert (report.gone, report.copied, report.is_clean) == (1, 1, True)


# What fails


def test_an_archived_object_is_reported_with_the_way_out_and_the_others_are_copied(aws: Setup) -> None:
    aws.put("one", "two")
    aws.s3.buckets[LAKE]["data/one"].archived = True
    report = aws.run()
    assert (report.failed, report.copied) == (1, 1)
    assert report.failures[0].uri == f"s3://{LAKE}/data/one"
    assert report.failures[0].code == "InvalidObjectState"
    assert "restore it first" in report.failures[0].reason


def test_many_archived_objects_are_all_reported(aws: Setup) -> None:
    aws.put(*(f"{number:04d}" for number in range(1200)))
    for number in range(1100):
        aws.s3.buckets[LAKE][f"data/{number:04d}"].archived = True
    report = aws.run()
    assert (report.failed, report.copied, len(report.failures)) == (1100, 100, 1100)


def test_a_busy_s3_is_tried_again_with_longer_and_longer_waits(aws: Setup) -> None:
    aws.put("one")
    aws.s3.fail("CopyObject", *[error("SlowDown", 503)] * 3)
    assert aws.run().is_clean
    assert len(aws.slept) == 3
    assert aws.slept[2] > aws.slept[0]


def test_a_busy_s3_is_given_up_in_the_end(aws: Setup) -> None:
    aws.put("one")
    aws.s3.always["CopyObject"] = _throw(error("SlowDown", 503))
    report = aws.run()
    assert report.failed == 1
    assert f"given up after {ATTEMPTS} tries" in report.failures[0].reason


def test_an_answer_that_was_lost_after_the_copy_costs_no_second_copy(aws: Setup) -> None:
    aws.put("one")
    aws.s3.fail("HeadObject", error("InternalError", 500))
    report = aws.run()
    assert (report.copied, aws.s3.count("CopyObject")) == (1, 1)


def test_one_denied_object_is_reported_with_the_rights_that_are_needed(aws: Setup) -> None:
    aws.put("one", "two")
    aws.s3.fail("CopyObject", error("AccessDenied", 403))
    report = aws.run()
    assert (report.failed, report.copied) == (1, 1)
    assert "s3express:CreateSession" in report.failures[0].reason


def test_where_everything_is_denied_the_run_ends_early(aws: Setup) -> None:
    aws.put(*(f"{number:04d}" for number in range(900)))
    aws.s3.always["CopyObject"] = _throw(error("AccessDenied", 403, "CopyObject"))
    with pytest.raises(AwsError, match="200 objects failed one after another") as caught:
        aws.run()
    assert caught.value.code == "AccessDenied"
    assert aws.s3.count("CopyObject") < 300


def test_expired_credentials_end_the_run_and_what_was_verified_is_kept(aws: Setup) -> None:
    aws.put(*(f"{number:02d}" for number in range(50)))
    aws.s3.fail("CopyObject", *[None] * 20, *[error("ExpiredToken", 400)] * 30)
    with pytest.raises(AwsError, match="sign in again") as caught:
        aws.run()
    assert caught.value.code == "ExpiredToken"
    aws.s3.before.clear()
    report = aws.run()
    assert report.is_clean
    assert report.known + report.present >= 18  # two may have been under way
    assert report.copied <= 32


def test_a_missing_bucket_is_refused_by_name(aws: Setup) -> None:
    with pytest.raises(RefusedError, match="bucket none--use1-az6--x-s3 does not exist"):
        aws.run(destination="none--use1-az6--x-s3")


def test_a_sleeping_directory_bucket_is_waited_for_and_that_is_said(aws: Setup) -> None:
    aws.put("one")
    aws.s3.fail("ListObjectsV2", None, *[error("ServiceUnavailable", 503)] * 3)
    assert aws.run().is_clean
    assert aws.slept == [10.0] * 3
    assert f"bucket {HOT} answers 503" in aws.notes[0]


def test_a_directory_bucket_that_does_not_wake_up_is_an_error(aws: Setup) -> None:
    aws.s3.always["ListObjectsV2"] = _throw(error("ServiceUnavailable", 503, "ListObjectsV2"))
    with pytest.raises(AwsError, match="ServiceUnavailable"):
        aws.run()
    assert sum(aws.slept) == pytest.approx(290)


def test_a_denied_listing_is_an_error_with_advice(aws: Setup) -> None:
    aws.s3.fail("ListObjectsV2", error("AccessDenied", 403, "ListObjectsV2"))
    with pytest.raises(AwsError, match="the caller lacks this right"):
        aws.run()


# Directory buckets


def test_tags_are_left_behind_where_a_directory_bucket_refuses_them(aws: Setup) -> None:
    aws.put("one")
    aws.s3.buckets[LAKE]["data/one"].tags = {"team": "vision"}
    assert aws.run().is_clean


def test_tags_are_not_touched_on_the_way_to_another_bucket(aws: Setup) -> None:
    aws.put("one")
    aws.run(LAKE, OTHER)
    (asked,) = [asked for name, asked in aws.s3.calls if name == "CopyObject"]
    assert "TaggingDirective" not in asked


# Removal


def test_nothing_is_removed_by_default(aws: Setup) -> None:
    aws.put("step", bucket=HOT)
    assert aws.run(HOT, LAKE).removed == 0
    assert aws.s3.keys(HOT) == {"data/step"}


def test_removal_is_conditional_on_what_was_verified(aws: Setup) -> None:
    aws.put("step", bucket=HOT)
    etag = aws.s3.buckets[HOT]["data/step"].etag
    assert aws.run(HOT, LAKE, remove=True).removed == 1
    (asked,) = [asked for name, asked in aws.s3.calls if name == "DeleteObject"]
    assert asked["IfMatch"] == f'"{etag}"'


def test_an_object_that_changes_before_its_removal_is_copied_first(aws: Setup) -> None:
    aws.put("step", bucket=HOT)
    aws.s3.before["DeleteObject"] = [lambda **_: aws.s3.put(HOT, "data/step", b"newer step")]
    report = aws.run(HOT, LAKE, remove=True)
    assert (report.removed, aws.s3.keys(HOT)) == (1, set())
    assert aws.body(LAKE, "step") == b"newer step"


def test_an_object_of_an_earlier_run_that_changes_before_its_removal_is_copied_first(aws: Setup) -> None:
    aws.put("step", bucket=HOT)
    aws.run(HOT, LAKE)
    aws.s3.before["DeleteObject"] = [lambda **_: aws.s3.put(HOT, "data/step", b"newer step")]
    report = aws.run(HOT, LAKE, remove=True)
    assert (report.removed, aws.s3.keys(HOT)) == (1, set())
    assert aws.body(LAKE, "step") == b"newer step"


def test_a_copy_that_vanishes_right_before_the_removal_is_made_again(aws: Setup) -> None:
    aws.put("step", bucket=HOT)
    aws.run(HOT, LAKE)
    aws.s3.before["HeadObject"] = [lambda **_: aws.s3.buckets[LAKE].pop("data/step")]
    report = aws.run(HOT, LAKE, remove=True)
    assert (report.copied, report.removed) == (1, 1)
    assert aws.body(LAKE, "step") == b"body of step"


def test_without_conditional_deletes_a_look_comes_right_before(aws: Setup) -> None:
    aws.put("step", bucket=HOT)

    def refuse(**asked: Any) -> None:
        if "IfMatch" in asked:
            raise error("NotImplemented", 501)

    aws.s3.always["DeleteObject"] = refuse
    assert aws.run(HOT, LAKE, remove=True).removed == 1
    names = [name for name, _ in aws.s3.calls if name in ("HeadObject", "DeleteObject")]
    assert names[-3:] == ["DeleteObject", "HeadObject", "DeleteObject"]


def test_a_denied_removal_is_said_and_the_copy_counts(aws: Setup) -> None:
    aws.put("step", bucket=HOT)
    aws.s3.always["DeleteObject"] = _throw(error("AccessDenied", 403))
    report = aws.run(HOT, LAKE, remove=True)
    assert (report.copied, report.removed, report.not_removed, report.is_clean) == (1, 0, 1, False)
    assert report.failures[0].kind == "not removed"


# Again


def test_a_second_run_of_what_has_not_changed_asks_for_listings_alone(aws: Setup) -> None:
    aws.put(*(f"{number:02d}" for number in range(40)))
    aws.run()
    report = aws.run()
    assert (report.known, report.copied) == (40, 0)
    assert {name for name, _ in aws.s3.calls} <= {"ListObjectsV2", "GetObject", "PutObject"}


def test_a_copy_that_is_not_in_the_journal_is_compared_and_not_made_again(aws: Setup) -> None:
    aws.put("one", "two")
    aws.run()
    aws.s3.buckets[LAKE] = {key: value for key, value in aws.s3.buckets[LAKE].items() if "segments" not in key}
    report = aws.run()
    assert (report.present, report.copied, aws.s3.count("CopyObject")) == (2, 0, 0)


def test_an_expired_copy_is_made_again(aws: Setup) -> None:
    aws.put("one", "two")
    aws.run()
    del aws.s3.buckets[HOT]["data/two"]
    report = aws.run()
    assert (report.known, report.copied) == (1, 1)


def test_an_empty_source_is_done(aws: Setup) -> None:
    report = aws.run()
    assert (report.listed, report.is_clean) == (0, True)
