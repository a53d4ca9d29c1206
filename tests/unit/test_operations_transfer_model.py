"""Places, ways, several buckets, processes, and what is deployed."""

from __future__ import annotations

import datetime
from queue import SimpleQueue
from typing import Any

import boto3
import pytest
from botocore.exceptions import ParamValidationError
from botocore.stub import Stubber

from tests.unit._fake_s3 import FakeS3, crc32
from training_storage.cli.transfers import as_text
from training_storage.errors import AwsError, RefusedError, ValidationError
from training_storage.node.sharding import bucket_index, object_uri
from training_storage.operations import transfer_model
from training_storage.operations.archive import archive_route
from training_storage.operations.deployment import find_buckets
from training_storage.operations.stage import staging_route
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_connection import AwsConnection, read_time
from training_storage.operations.transfer_model import Entry, Location, Options, Outcome, Route
from training_storage.operations.transfer_pools import ProcessPool

LAKE = "lake"
HOT = tuple(f"hot{number}--use1-az6--x-s3" for number in range(3))


def places(*buckets: str, prefix: str = "data/") -> tuple[Location, ...]:
    return tuple(Location(bucket=bucket, prefix=prefix) for bucket in buckets)


# Places


@pytest.mark.parametrize(
    ("uri", "bucket", "prefix"),
    [
        ("s3://lake", "lake", ""),
        ("s3://lake/", "lake", ""),
        ("s3://lake/datasets", "lake", "datasets/"),
        ("s3://lake/datasets/v3/", "lake", "datasets/v3/"),
        ("s3://hot--use1-az6--x-s3/ü b/", "hot--use1-az6--x-s3", "ü b/"),
    ],
)
def test_a_uri_is_a_bucket_and_a_prefix_with_a_slash(uri: str, bucket: str, prefix: str) -> None:
    assert Location.parse(uri, "--from") == Location(bucket=bucket, prefix=prefix)


@pytest.mark.parametrize(
    "uri", ["", "lake", "lake/datasets/", "https://lake/", "s3:/lake", "s3://", "s3://a/", "s3://La_ke/x"]
)
def test_anything_else_is_refused_with_the_form(uri: str) -> None:
    with pytest.raises(ValidationError, match="allowed: s3://bucket/ or s3://bucket/prefix/"):
        Location.parse(uri, "--from")


@pytest.mark.parametrize(
    ("sources", "destinations", "text"),
    [
        (places(LAKE), places(LAKE), "source and destination at once"),
        (places(LAKE, prefix=""), places(LAKE, prefix="a/"), "source and destination at once"),
        (places(LAKE), places(HOT[0], HOT[0]), "named twice"),
        (places(LAKE), (*places(HOT[0]), *places(HOT[1], prefix="x/")), "share a prefix"),
        (places(LAKE), places(HOT[0], prefix=".training-storage/x/"), "keeps its own"),
        (places(LAKE, prefix=".training-storage/"), places(HOT[0]), "keeps its own"),
    ],
)
def test_ways_that_lead_nowhere_are_refused(sources: Any, destinations: Any, text: str) -> None:
    with pytest.raises(ValidationError, match=text):
        Route(sources, destinations)


# Several directory buckets


def test_the_bucket_of_a_key_is_its_crc32_modulo_their_number() -> None:
    assert bucket_index("123456789", 1000) == 0xCBF43926 % 1000
    assert bucket_index("ü", 7) == bucket_index("ü", 7)
    assert {bucket_index("any", 1), bucket_index("other", 1)} == {0}


def test_keys_that_differ_in_a_digit_spread_evenly() -> None:
    counts = [0] * 4
    for number in range(10_000):
        counts[bucket_index(f"datasets/v3/shard-{number:06d}.tar", 4)] += 1
    assert min(counts) > 2_300


@pytest.mark.parametrize("count", [0, -1])
def test_no_bucket_is_refused(count: int) -> None:
    with pytest.raises(ValueError, match="allowed: 1 or more"):
        bucket_index("key", count)


def test_the_uri_of_a_key_names_its_bucket() -> None:
    uris = [f"s3://{bucket}/" for bucket in HOT]
    assert object_uri("a/b", uris) == f"s3://{HOT[bucket_index('a/b', 3)]}/a/b"


def run(s3: FakeS3, route: Route, **options: Any) -> Any:
    return transfer(s3, route, Options(processes=1, concurrency=4, **options), sleep=lambda _: None)


def test_objects_are_staged_to_the_bucket_of_their_key_and_archived_from_all() -> None:
    s3 = FakeS3(LAKE, *HOT, encrypted=(LAKE,))
    for number in range(30):
        s3.put(LAKE, f"data/{number}", b"%d" % number, sums={"CRC32": crc32(b"%d" % number)})
    stage = Route(places(LAKE), places(*HOT))
    assert run(s3, stage).copied == 30
    for index, bucket in enumerate(HOT):
        assert s3.keys(bucket) == {key for key in s3.keys(LAKE) if bucket_index(key, 3) == index}
    assert run(s3, stage).known == 30
    for number in range(30):
        del s3.buckets[LAKE][f"data/{number}"]
    assert run(s3, Route(stage.destinations, stage.sources)).copied == 30
    assert len(s3.keys(LAKE)) == 30


def test_what_lies_in_the_wrong_bucket_is_not_taken_for_a_copy() -> None:
    s3 = FakeS3(LAKE, *HOT, encrypted=(LAKE,))
    s3.put(LAKE, "data/1", b"1", sums={"CRC32": crc32(b"1")})
    wrong = HOT[(bucket_index("data/1", 3) + 1) % 3]
    s3.put(wrong, "data/1", b"1")
    assert run(s3, Route(places(LAKE), places(*HOT)), dry_run=True).to_copy == 1


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_of_a_key_in_two_sources_the_right_one_is_copied_and_none_removed_however_often_it_runs(wrong: int) -> None:
    keys = {bucket_index(key, 3): key for key in (f"data/{number}" for number in range(20))}
    for right, key in keys.items():
        if right == wrong:
            continue
        s3 = FakeS3(LAKE, *HOT)
        s3.put(HOT[right], key, b"right")
        s3.put(HOT[wrong], key, b"wrong")
        for turn in range(3):
            report = run(s3, Route(places(*HOT), places(LAKE)), remove=True)
            assert (report.copied, report.known) == ((1, 0) if turn == 0 else (0, 1))
            assert (report.failed, report.removed, report.not_removed) == (1, 0, 1)
            (failed,) = [failure for failure in report.failures if failure.kind == "failed"]
            assert failed.uri == f"s3://{HOT[wrong]}/{key}"
            assert HOT[right] in failed.reason
            assert s3.buckets[LAKE][key].body == b"right"
        del s3.buckets[HOT[wrong]][key]
        assert run(s3, Route(places(*HOT), places(LAKE)), remove=True).removed == 1


def test_an_object_in_the_wrong_bucket_alone_is_archived_too() -> None:
    s3 = FakeS3(LAKE, *HOT)
    for number in range(3):
        s3.put(HOT[number], f"data/of {number}", b"1")
    report = run(s3, Route(places(*HOT), places(LAKE)), remove=True)
    assert (report.copied, report.removed, report.is_clean) == (3, 3, True)


def test_the_mark_of_the_folder_has_no_name_in_the_root_of_a_bucket() -> None:
    s3 = FakeS3(LAKE, "other")
    s3.put(LAKE, "data/", b"")
    s3.put(LAKE, "data/one", b"1")
    s3.put(LAKE, "data/sub/", b"")
    report = run(s3, Route(places(LAKE), (Location(bucket="other"),)), remove=True)
    assert (report.listed, report.copied, report.is_clean) == (2, 2, True)
    assert s3.keys("other") == {"one", "sub/"}
    s3.put(LAKE, "data/", b"not empty")
    report = run(s3, Route(places(LAKE), (Location(bucket="other"),)))
    assert (report.failed, report.is_clean) == (1, False)


def test_nothing_is_written_where_the_product_keeps_its_own() -> None:
    s3 = FakeS3(LAKE, "other")
    s3.put(LAKE, "data/.training-storage/transfers/x", b"1")
    report = run(s3, Route(places(LAKE), (Location(bucket="other"),)))
    assert (report.failed, report.copied) == (1, 0)
    assert "give another prefix" in report.failures[0].reason


def test_a_parameter_that_botocore_refuses_is_the_failure_of_one_object() -> None:
    s3 = FakeS3(LAKE, HOT[0])
    s3.put(LAKE, "data/1", b"1")
    s3.put(LAKE, "data/2", b"2")

    def refuse(**asked: Any) -> None:
        if asked["Key"] == "data/1":
            raise ParamValidationError(report="no such key")

    s3.always["CopyObject"] = refuse
    report = run(s3, Route(places(LAKE), places(HOT[0])), verify="read")
    assert (report.failed, report.copied) == (1, 1)


def test_failures_are_counted_and_the_first_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer_model, "FAILURES_KEPT", 3)
    s3 = FakeS3(LAKE, HOT[0])
    for number in range(10):
        s3.put(LAKE, f"data/{number}", b"1", archived=True)
    report = run(s3, Route(places(LAKE), places(HOT[0])))
    assert (report.failed, len(report.failures), report.failures_left_out) == (10, 3, 7)
    assert "10 not as they should be" in as_text(report, remove=False)


def test_a_dry_run_says_which_objects_have_no_checksum_in_the_listing_and_writes_nothing() -> None:
    s3 = FakeS3(LAKE, HOT[0], encrypted=(LAKE,))
    s3.put(LAKE, "data/new", b"1", sums={"CRC32": crc32(b"1")})
    s3.put(LAKE, "data/old", b"22")
    report = run(s3, Route(places(LAKE), places(HOT[0])), dry_run=True)
    assert (report.to_copy, report.to_copy_bytes, report.without_checksum) == (2, 3, 1)
    assert {name for name, _ in s3.calls} == {"ListObjectsV2"}


# Processes


@pytest.mark.parametrize(
    ("options", "spread"),
    [
        (Options(processes=1, concurrency=5), (1, 5)),
        (Options(processes=8, concurrency=3), (3, 1)),
        (Options(processes=4, concurrency=64), (4, 16)),
        (Options(processes=2), (2, 32)),
        (Options(processes=0), (1, 32)),
    ],
)
def test_concurrency_is_spread_over_processes(options: Options, spread: tuple[int, int]) -> None:
    assert options.spread() == spread


def test_what_a_dead_process_had_taken_is_answered_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody answers there
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    answers: SimpleQueue[list[Any]] = SimpleQueue()
    route = Route(places(LAKE), places(HOT[0]))
    pool = ProcessPool(
        AwsConnection("us-east-1"), route, verify="auto", remove=False, processes=1, threads=1, answers=answers
    )
    pool.submit([Entry(0, f"{number}", 1, "e") for number in range(2)])
    pool._workers[0].kill()
    told = [answers.get(timeout=30) for _ in range(2)]
    assert {each[2] for each in told} == {"0", "1"}
    pool.submit([Entry(0, "late", 1, "e")])
    told.append(answers.get(timeout=30))
    outcomes = [Outcome(*each[1:]) for each in told]
    assert all(each.status == "failed" and "died" in each.reason for each in outcomes)
    pool.finish()


def test_what_a_dead_process_had_taken_is_given_back_once_while_others_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    answers: SimpleQueue[list[Any]] = SimpleQueue()
    pool = ProcessPool(
        AwsConnection("us-east-1"), Route(places(LAKE), places(HOT[0])), verify="auto", remove=False,
        processes=2, threads=1, answers=answers,
    )  # fmt: skip
    pool.submit([Entry(0, "one", 1, "e")])
    (number,) = [number for number, taken in enumerate(pool._open) if taken]
    pool._workers[number].kill()
    told = answers.get(timeout=30)
    assert (told[0], Entry(*told[1:])) == ("lost", Entry(0, "one", 1, "e", look=True))
    pool.submit([Entry(*told[1:])])
    pool._workers[1 - number].kill()
    told = answers.get(timeout=30)
    assert (told[0], Outcome(*told[1:]).status) == ("outcome", "failed")
    pool.stop()


def test_a_process_ends_when_whoever_started_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    pool = ProcessPool(
        AwsConnection("us-east-1"), Route(places(LAKE), places(HOT[0])), verify="auto", remove=False,
        processes=1, threads=1, answers=SimpleQueue(),
    )  # fmt: skip
    worker = pool._workers[0]
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(30) == 1


@pytest.mark.parametrize(
    "text", ["2026-01-01T12:00:00.000Z", "2026-01-01T12:00:00Z", "Thu, 01 Jan 2026 12:00:00 GMT", "1767268800"]
)
def test_times_are_read_in_every_form(text: str) -> None:
    assert read_time(text) == datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


# What is deployed


class Aws:
    """A session whose CloudFormation is stubbed."""

    region_name = "us-east-1"

    def __init__(self) -> None:
        options: dict[str, Any] = {
            "region_name": "us-east-1", "aws_access_key_id": "testing", "aws_secret_access_key": "testing",
        }  # fmt: skip
        self.stacks = boto3.client("cloudformation", **options)
        self.stub = Stubber(self.stacks)
        self.stub.activate()

    def client(self, *_: Any, **__: Any) -> Any:
        return self.stacks

    def stack(self, name: str, status: str = "CREATE_COMPLETE", **outputs: str) -> None:
        told = {
            "StackName": name,
            "CreationTime": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
            "StackStatus": status,
            "Outputs": [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()],
        }
        self.stub.add_response("describe_stacks", {"Stacks": [told]}, {"StackName": name})

    def no_stack(self) -> None:
        self.stub.add_client_error("describe_stacks", "ValidationError", "does not exist")


@pytest.fixture
def aws() -> Any:
    return Aws()


def test_the_ways_of_a_workload_lead_between_lake_and_directory_buckets_under_the_same_keys(aws: Any) -> None:
    for _ in range(2):
        aws.stack("vision-hot", DirectoryBucketNames=",".join(HOT))
        aws.stack("vision-lake", DataLakeBucketName=LAKE)
    stage = staging_route(aws, "vision", "datasets/v3")
    assert stage == Route(places(LAKE, prefix="datasets/v3/"), places(*HOT, prefix="datasets/v3/"))
    archive = archive_route(aws, "vision", "/datasets/v3/")
    assert archive == Route(stage.destinations, stage.sources)


def test_a_lake_that_was_there_is_named_by_the_stack_of_the_run(aws: Any) -> None:
    aws.stack("vision-hot", DirectoryBucketNames=HOT[0], DataLakeBucketName="given")
    aws.no_stack()
    assert find_buckets(aws, "vision").data_lake == "given"


def test_a_workload_without_directory_buckets_is_refused_with_the_way_out(aws: Any) -> None:
    aws.stack("vision-hot", FileSystemId="fs-1")
    with pytest.raises(RefusedError, match=r"holds no directory bucket.*--from and --to"):
        find_buckets(aws, "vision")


def test_a_workload_that_is_not_deployed_is_refused(aws: Any) -> None:
    aws.no_stack()
    with pytest.raises(RefusedError, match="there is no stack vision-hot in us-east-1"):
        find_buckets(aws, "vision")


def test_a_stack_in_motion_is_refused(aws: Any) -> None:
    aws.stack("vision-hot", "UPDATE_IN_PROGRESS")
    with pytest.raises(RefusedError, match="UPDATE_IN_PROGRESS"):
        find_buckets(aws, "vision")


def test_denied_stacks_are_an_error_with_advice(aws: Any) -> None:
    aws.stub.add_client_error("describe_stacks", "AccessDenied", "no")
    with pytest.raises(AwsError, match="the caller lacks this right"):
        find_buckets(aws, "vision")
