"""Any call of a transfer may fail in any way: it ends, says why in words, and loses nothing."""

from __future__ import annotations

from signal import SIGINT, default_int_handler, pthread_kill, signal
from threading import Event, Lock, Thread, current_thread, main_thread
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError, ReadTimeoutError, SSLError

from tests.unit._fake_s3 import FakeS3, crc32, error
from training_storage.errors import AwsError, RefusedError, TrainingStorageError
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_journal import Journal, Upload
from training_storage.operations.transfer_model import Limits, Location, Options, Report, Route

LAKE, OTHER, HOT = "lake", "other-lake", "hot--use1-az6--x-s3"
ENDS_S = 60.0
OPERATIONS = (
    "ListObjectsV2", "PutObject", "GetObject", "HeadObject", "GetObjectAttributes", "CopyObject", "DeleteObject",
    "ListMultipartUploads", "CreateMultipartUpload", "UploadPartCopy", "ListParts", "CompleteMultipartUpload",
    "AbortMultipartUpload",
)  # fmt: skip
ERRORS = {
    "denied": error("AccessDenied", 403),
    "busy": error("SlowDown", 503),
    "broken": error("InternalError", 500),
    "elsewhere": error("PermanentRedirect", 301),
    "no bucket": error("NoSuchBucket", 404),
    "expired": error("ExpiredToken", 400),
    "unknown": error("NeverHeardOf", 418),
    "no answer": ReadTimeoutError(endpoint_url="https://s3"),
    "no line": EndpointConnectionError(endpoint_url="https://s3"),
    "no trust": SSLError(endpoint_url="https://s3", error=ValueError("certificate")),
    "nobody": NoCredentialsError(),
}
BODIES = {"data/small": b"small", "data/parts": b"part" * 5, "data/old": b"old"}


def route(destination: str) -> Route:
    return Route((Location(bucket=LAKE, prefix="data/"),), (Location(bucket=destination, prefix="data/"),))


def setup(destination: str) -> FakeS3:
    """A lake with a small object, a large one that a killed run has half copied, and an upload of one that is gone."""
    s3 = FakeS3(LAKE, OTHER, HOT, encrypted=(LAKE,))
    for key, body in BODIES.items():
        s3.put(LAKE, key, body, sums={} if key == "data/old" else {"CRC32": crc32(body)})
    journal = Journal(s3, OTHER if destination == OTHER else LAKE, route(destination).transfer_id)  # type: ignore[arg-type]
    for key in ("data/parts", "data/gone"):
        upload_id = s3.create_multipart_upload(Bucket=destination, Key=key)["UploadId"]
        etag = s3.buckets[LAKE]["data/parts"].etag
        upload = Upload(destination, key, etag, len(BODIES["data/parts"]), 8, "")
        journal.intend(upload)
        journal.begun(upload._replace(upload_id=upload_id))
    s3.calls.clear()
    return s3


def ends(s3: FakeS3, destination: str, **options: Any) -> Report | BaseException:
    """Return how a transfer ends; it must."""
    ended: list[Report | BaseException] = []

    def run() -> None:
        limits = Limits(single_copy_bytes=10, part_bytes=8)
        settings = Options(processes=1, limits=limits, **{"concurrency": 2} | options)
        try:
            ended.append(transfer(s3, route(destination), settings, sleep=lambda _: None))
        except BaseException as error:
            ended.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    thread.join(ENDS_S)
    assert ended, "the transfer hangs"
    return ended[0]


def throw(what: Exception) -> Any:
    def thrower(**_: Any) -> None:
        raise what

    return thrower


# Each operation and each error meets both kinds of bucket, in turns.
PAIRS = [
    (name, operation, (OTHER, HOT)[(row + column) % 2])
    for row, name in enumerate(ERRORS)
    for column, operation in enumerate(OPERATIONS)
]


@pytest.mark.parametrize(("name", "operation", "destination"), PAIRS)
def test_whatever_fails_is_told_in_words_and_loses_nothing(name: str, operation: str, destination: str) -> None:
    failure = ERRORS[name]
    for before in (1, None):  # the second call, or all
        s3 = setup(destination)
        if before is None:
            s3.always[operation] = throw(failure)
        else:
            s3.fail(operation, *[None] * before, failure)
        ended = ends(s3, destination, remove=True)
        assert isinstance(ended, Report | TrainingStorageError), (before, ended)
        there = {key: s3.buckets[destination][key].body for key in s3.keys(destination)}
        assert {key: BODIES[key] for key in BODIES if key not in s3.keys(LAKE)}.items() <= there.items()
        if isinstance(ended, Report):
            assert not ended.is_clean or (there == BODIES and not s3.keys(LAKE))
            assert ended.is_clean or ended.failures

        # And the same command goes on when the cause is gone.
        s3.before.clear()
        s3.always.clear()
        again = ends(s3, destination, remove=True)
        assert isinstance(again, Report)
        assert again.is_clean
        assert {key: s3.buckets[destination][key].body for key in s3.keys(destination)} == BODIES


@pytest.mark.parametrize("destination", [OTHER, HOT])
@pytest.mark.parametrize("options", [{"concurrency": 1}, {"concurrency": 1, "verify": "read"}])
def test_one_object_at_once_comes_to_its_end(options: dict[str, Any], destination: str) -> None:
    ended = ends(setup(destination), destination, **options)
    assert isinstance(ended, Report)
    assert (ended.copied, ended.is_clean) == (3, True)


def test_copies_that_a_listing_could_not_show_are_looked_at_and_counted_as_copied() -> None:
    s3 = FakeS3(LAKE, OTHER)
    for number in range(100):
        s3.put(LAKE, f"data/{number:03d}", b"%d" % number)

    def deny(**asked: Any) -> None:
        if "StartAfter" in asked:
            raise error("AccessDenied", 403, "ListObjectsV2")

    s3.always["ListObjectsV2"] = deny
    ended = ends(s3, OTHER)
    assert isinstance(ended, Report)
    assert (ended.copied, ended.present, ended.is_clean) == (100, 0, True)
    assert s3.count("CopyObject") == 100


def test_listings_never_leave_the_prefix_that_the_caller_may_list() -> None:
    s3 = FakeS3(LAKE, OTHER)
    for number in range(100):
        s3.put(LAKE, f"data/{number:03d}", b"%d" % number)
    ends(s3, OTHER)
    asked = [about for name, about in s3.calls if name == "ListObjectsV2"]
    assert [about for about in asked if not about["Prefix"].startswith(("data/", ".training-storage/transfers/"))] == []


def test_a_line_that_breaks_in_a_part_costs_that_part_alone() -> None:
    s3 = setup(HOT)
    s3.uploads.clear()
    s3.fail("UploadPartCopy", None, ReadTimeoutError(endpoint_url="https://s3"))
    ended = ends(s3, HOT)
    assert isinstance(ended, Report)
    assert ended.is_clean
    assert (s3.count("CreateMultipartUpload"), s3.uploads) == (1, {})
    assert s3.count("UploadPartCopy") <= 4  # of three


def test_an_upload_that_cannot_be_aborted_is_told_and_tried_again_by_the_next_run() -> None:
    s3 = setup(HOT)
    s3.always["AbortMultipartUpload"] = throw(error("AccessDenied", 403))
    ended = ends(s3, HOT)
    assert isinstance(ended, Report)
    assert any(f"s3://{HOT}/data/gone can't be aborted" in note for note in ended.notes)
    assert [upload.key for upload in s3.uploads.values()] == ["data/gone"]
    s3.always.clear()
    ends(s3, HOT)
    assert s3.uploads == {}


def test_without_the_right_to_list_uploads_those_with_an_id_are_taken_up() -> None:
    s3 = setup(HOT)
    s3.always["ListMultipartUploads"] = throw(error("AccessDenied", 403))
    ended = ends(s3, HOT)
    assert isinstance(ended, Report)
    assert ended.is_clean
    assert (s3.count("CreateMultipartUpload"), s3.uploads) == (0, {})


@pytest.mark.parametrize(
    ("code", "status", "kind", "words"),
    [
        ("PermanentRedirect", 301, AwsError, "pass --region"),
        ("ExpiredToken", 400, AwsError, "sign in again"),
        ("NoSuchBucket", 404, RefusedError, "does not exist"),
        ("AccessDenied", 403, AwsError, "lacks this right"),
    ],
)
def test_the_first_look_says_what_to_do(code: str, status: int, kind: type[Exception], words: str) -> None:
    s3 = setup(HOT)
    s3.fail("ListObjectsV2", error(code, status, "ListObjectsV2"))
    ended = ends(s3, HOT)
    assert isinstance(ended, kind)
    assert words in str(ended)


def test_a_dry_run_needs_no_right_to_the_journal() -> None:
    s3 = setup(HOT)
    assert isinstance(ends(s3, HOT), Report)

    def deny(**asked: Any) -> None:
        if ".training-storage/" in asked["Prefix"]:
            raise error("AccessDenied", 403, "ListObjectsV2")

    s3.always["ListObjectsV2"] = deny
    ended = ends(s3, HOT, dry_run=True)
    assert isinstance(ended, Report)
    assert (ended.to_copy, ended.to_compare, ended.known) == (0, 3, 0)
    assert "can't be read" in ended.notes[0]
    s3.always.clear()
    ended = ends(s3, HOT, dry_run=True)
    assert isinstance(ended, Report)
    assert (ended.to_compare, ended.known) == (0, 3)


@pytest.mark.parametrize("what", ["ListObjectsV2", "GetObject"])
def test_an_interrupt_does_not_wait_for_listings_nor_for_the_journal(what: str) -> None:
    s3 = setup(HOT)
    answered, pressed, main = Event(), Lock(), main_thread().ident
    assert main is not None

    def hang(**asked: Any) -> None:
        is_first = what == "ListObjectsV2" and "MaxKeys" in asked
        if not is_first and current_thread() is not main_thread():
            if pressed.acquire(blocking=False):  # once: a second one would come when the test is over
                pthread_kill(main, SIGINT)
            answered.wait(ENDS_S)

    s3.always[what] = hang
    before = signal(SIGINT, default_int_handler)  # a shell may have handed down that it is ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            transfer(s3, route(HOT), Options(processes=1))
        assert not answered.is_set()
    finally:
        answered.set()
        signal(SIGINT, before)


@pytest.mark.parametrize("failure", [NoCredentialsError(), EndpointConnectionError(endpoint_url="https://s3")])
def test_no_credentials_and_no_line_are_errors_of_aws(failure: Exception) -> None:
    s3 = setup(HOT)
    s3.always["ListObjectsV2"] = throw(failure)
    assert isinstance(ends(s3, HOT), AwsError)
