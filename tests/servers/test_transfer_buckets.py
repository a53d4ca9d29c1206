"""Transfers between real S3 buckets in small: what is removed, taken up again, shared out, and only looked at."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.servers.seaweed import S3Server
from training_storage.cli import main
from training_storage.node.sharding import bucket_index
from training_storage.operations import transfer_model as model
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_connection import AwsConnection
from training_storage.operations.transfer_model import Limits, Location, Options, Report, Route

pytestmark = pytest.mark.slow

MIB = 2**20
SMALL_LIMITS = Limits(single_copy_bytes=6 * MIB, part_bytes=5 * MIB)


class Pair:
    """A lake and directory buckets of one test."""

    def __init__(self, server: S3Server, hot: int = 1) -> None:
        self.server = server
        self.client = server.client()
        name = uuid.uuid4().hex[:12]
        self.lake = f"lake-{name}"
        self.hot = [f"hot{number}-{name}--use1-az6--x-s3" for number in range(hot)]
        for bucket in (self.lake, *self.hot):
            self.client.create_bucket(Bucket=bucket)

    def stage_route(self, prefix: str = "datasets/") -> Route:
        lake, *hot = (Location(bucket=bucket, prefix=prefix) for bucket in (self.lake, *self.hot))
        return Route((lake,), tuple(hot))

    def stage(self, **options: Any) -> Report:
        return transfer(AwsConnection(), self.stage_route(), Options(limits=SMALL_LIMITS, **options))

    def archive(self, **options: Any) -> Report:
        there = self.stage_route("checkpoints/")
        route = Route(there.destinations, there.sources)
        return transfer(AwsConnection(), route, Options(limits=SMALL_LIMITS, **options))

    def read(self, bucket: str, key: str) -> bytes:
        return bytes(self.client.get_object(Bucket=bucket, Key=key)["Body"].read())


@pytest.fixture
def pair(s3_environment: S3Server) -> Pair:
    return Pair(s3_environment)


def some(count: int, prefix: str = "datasets/") -> dict[str, bytes]:
    return {f"{prefix}shard-{number:04d}": f"object {number}".encode() for number in range(count)}


@pytest.mark.parametrize("verify", model.VERIFY)
def test_objects_arrive_and_are_proved(pair: Pair, verify: model.Verify) -> None:
    pair.server.put(pair.lake, some(20))
    report = pair.stage(verify=verify)
    assert (report.copied, report.proofs) == (20, {"read" if verify == "read" else "etag": 20})
    assert {key: pair.read(pair.hot[0], key) for key in some(20)} == some(20)


def test_metadata_comes_along_in_one_request_and_in_parts(pair: Pair) -> None:
    for key, size in (("datasets/small", 3), ("datasets/large", 7 * MIB)):
        pair.client.put_object(
            Bucket=pair.lake, Key=key, Body=os.urandom(size), ContentType="text/x", Metadata={"made-by": "test"}
        )
    assert pair.stage().is_clean
    for key in ("datasets/small", "datasets/large"):
        head = pair.client.head_object(Bucket=pair.hot[0], Key=key)
        assert (head["ContentType"], head["Metadata"]) == ("text/x", {"made-by": "test"})


def test_parts_are_proved_by_the_checksum_of_the_whole_where_the_source_has_one(pair: Pair) -> None:
    pair.client.put_object(Bucket=pair.lake, Key="datasets/large", Body=os.urandom(12 * MIB))
    report = pair.stage(verify="server")
    assert report.proofs == {"checksum": 1}


def test_parts_of_an_object_without_checksum_are_read(pair: Pair) -> None:
    pair.server.put(pair.lake, {"datasets/large": os.urandom(12 * MIB)})
    report = pair.stage()
    assert report.proofs == {"read": 1}
    assert report.read_bytes == 24 * MIB


def test_parts_of_an_object_without_checksum_are_unverified_where_reading_is_not_wanted(pair: Pair) -> None:
    pair.server.put(pair.lake, {"datasets/large": os.urandom(12 * MIB)})
    for _ in range(2):  # and the second run copies nothing
        report = pair.stage(verify="server")
        assert (report.unverified, report.is_clean, report.done_bytes) == (1, False, 0)
    assert report.copied == 0


def test_several_directory_buckets_share_the_keys_and_give_them_back(s3_environment: S3Server) -> None:
    pair = Pair(s3_environment, hot=3)
    pair.server.put(pair.lake, some(60))
    assert pair.stage().copied == 60
    for number, bucket in enumerate(pair.hot):
        assert set(pair.server.listing(bucket)) == {key for key in some(60) if bucket_index(key, 3) == number}
    for key, body in some(30, "checkpoints/").items():
        pair.server.put(pair.hot[bucket_index(key, 3)], {key: body})
    assert pair.archive(remove=True).removed == 30
    assert {key: pair.read(pair.lake, key) for key in some(30, "checkpoints/")} == some(30, "checkpoints/")


def test_a_key_that_two_sources_hold_is_reported_and_copied_once(s3_environment: S3Server) -> None:
    pair = Pair(s3_environment, hot=2)
    right = bucket_index("checkpoints/step", 2)
    for number, bucket in enumerate(pair.hot):
        pair.server.put(bucket, {"checkpoints/step": b"%d" % number})
    report = pair.archive(remove=True)
    assert (report.copied, report.failed, report.removed) == (1, 1, 0)
    assert "another of the buckets holds the same key" in report.failures[0].reason
    assert pair.read(pair.lake, "checkpoints/step") == b"%d" % right
    assert [list(pair.server.listing(bucket)) for bucket in pair.hot] == [["checkpoints/step"]] * 2


def test_remove_takes_what_is_verified_and_nothing_else(pair: Pair) -> None:
    objects = some(30, "checkpoints/") | {"checkpoints/large": os.urandom(7 * MIB), "elsewhere/kept": b"kept"}
    pair.server.put(pair.hot[0], objects)
    report = pair.archive(remove=True, verify="server")
    assert (report.removed, report.unverified) == (30, 1)  # nothing proves the large one without reading
    assert set(pair.server.listing(pair.hot[0])) == {"checkpoints/large", "elsewhere/kept"}
    report = pair.archive(remove=True)
    assert (report.removed, report.is_clean) == (1, True)
    assert set(pair.server.listing(pair.hot[0])) == {"elsewhere/kept"}
    assert pair.read(pair.lake, "checkpoints/large") == objects["checkpoints/large"]


def test_remove_in_a_later_run_takes_what_an_earlier_one_verified_and_has_not_changed(pair: Pair) -> None:
    pair.server.put(pair.hot[0], some(10, "checkpoints/"))
    assert pair.archive().copied == 10
    assert len(pair.server.listing(pair.hot[0])) == 10
    pair.server.put(pair.hot[0], {"checkpoints/shard-0003": b"written anew"})
    report = pair.archive(remove=True)
    assert (report.known, report.copied, report.removed) == (9, 1, 10)
    assert pair.read(pair.lake, "checkpoints/shard-0003") == b"written anew"


def test_remove_copies_anew_what_has_vanished_from_the_destination(pair: Pair) -> None:
    pair.server.put(pair.hot[0], some(3, "checkpoints/"))
    pair.archive()
    pair.client.delete_object(Bucket=pair.lake, Key="checkpoints/shard-0001")
    report = pair.archive(remove=True)
    assert (report.known, report.copied, report.removed) == (2, 1, 3)
    assert {key: pair.read(pair.lake, key) for key in some(3, "checkpoints/")} == some(3, "checkpoints/")


def test_a_copy_that_somebody_changed_is_made_again(pair: Pair) -> None:
    pair.server.put(pair.lake, some(5))
    pair.stage()
    pair.server.put(pair.hot[0], {"datasets/shard-0002": b"object X"})  # of the same size
    report = pair.stage()
    assert (report.known, report.copied) == (4, 1)
    assert pair.read(pair.hot[0], "datasets/shard-0002") == b"object 2"


def test_what_another_tool_copied_is_proved_and_not_copied(pair: Pair) -> None:
    pair.server.put(pair.lake, some(5))
    pair.server.put(pair.hot[0], some(4))
    report = pair.stage()
    assert (report.present, report.copied) == (4, 1)


def test_a_dry_run_counts_and_leaves_no_trace(pair: Pair) -> None:
    pair.server.put(pair.lake, some(5))
    pair.server.put(pair.hot[0], some(2))
    report = pair.stage(dry_run=True)
    assert (report.to_copy, report.to_compare, report.copied) == (3, 2, 0)
    assert set(pair.server.listing(pair.lake)) == set(some(5))
    assert set(pair.server.listing(pair.hot[0])) == set(some(2))


def test_the_whole_lake_without_what_this_product_keeps_there(pair: Pair) -> None:
    pair.server.put(pair.lake, some(3))
    pair.stage()
    report = transfer(AwsConnection(), pair.stage_route(""))
    assert report.listed == 3
    assert set(pair.server.listing(pair.hot[0])) == set(some(3))


def test_another_prefix_at_the_destination(pair: Pair) -> None:
    pair.server.put(pair.lake, {"a/b/one": b"1", "a/bc/two": b"2"})
    places = ["--from", f"s3://{pair.lake}/a/b", "--to", f"s3://{pair.hot[0]}/x/"]
    assert main(["stage", *places]) == 0
    assert list(pair.server.listing(pair.hot[0])) == ["x/one"]


# Killed in the middle of an upload in parts

KILLED = """
import os, signal, sys
import botocore.client
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_connection import AwsConnection
from training_storage.operations.transfer_model import Limits, Location, Options, Route

call, seen = botocore.client.BaseClient._make_api_call, []
def watched(self, operation, parameters):
    answer = call(self, operation, parameters)
    seen.append(operation)
    if seen.count(sys.argv[3]) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
    return answer
botocore.client.BaseClient._make_api_call = watched
transfer(
    AwsConnection(),
    Route((Location(bucket=sys.argv[1], prefix="datasets/"),), (Location(bucket=sys.argv[2], prefix="datasets/"),)),
    Options(limits=Limits(single_copy_bytes=6 * 2**20, part_bytes=5 * 2**20), concurrency=1),
)
"""


def kill_after(pair: Pair, operation: str, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, pair.lake, pair.hot[0], operation, str(count)],
        env=os.environ | pair.server.environment, check=False, capture_output=True,
    )  # fmt: skip
    assert done.returncode == -9, done.stderr


def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    from botocore.client import BaseClient

    client: Any = BaseClient
    made: Counter[str] = Counter()
    call = client._make_api_call

    def counted(self: Any, operation: str, parameters: Any) -> Any:
        made[operation] += 1
        return call(self, operation, parameters)

    monkeypatch.setattr(client, "_make_api_call", counted)
    return made


def test_parts_that_a_killed_run_copied_are_not_copied_again(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    body = os.urandom(24 * MIB)  # five parts
    pair.client.put_object(Bucket=pair.lake, Key="datasets/large", Body=body)
    kill_after(pair, "UploadPartCopy", 3)
    assert len(pair.client.list_multipart_uploads(Bucket=pair.hot[0])["Uploads"]) == 1
    made = calls(monkeypatch)
    report = pair.stage()
    assert (report.copied, report.is_clean) == (1, True)
    assert (made["CreateMultipartUpload"], made["UploadPartCopy"]) == (0, 2)
    assert pair.read(pair.hot[0], "datasets/large") == body
    assert "Uploads" not in pair.client.list_multipart_uploads(Bucket=pair.hot[0])


def test_an_upload_that_a_killed_run_could_not_write_down_is_found(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.client.put_object(Bucket=pair.lake, Key="datasets/large", Body=os.urandom(12 * MIB))
    mine = pair.client.create_multipart_upload(Bucket=pair.hot[0], Key="datasets/other")["UploadId"]
    kill_after(pair, "CreateMultipartUpload", 1)
    made = calls(monkeypatch)
    assert pair.stage().is_clean
    assert made["CreateMultipartUpload"] == 0
    left = pair.client.list_multipart_uploads(Bucket=pair.hot[0])["Uploads"]
    assert [upload["UploadId"] for upload in left] == [mine]  # that of somebody else is left alone


def test_an_upload_of_an_object_that_changed_is_aborted(pair: Pair) -> None:
    pair.client.put_object(Bucket=pair.lake, Key="datasets/large", Body=os.urandom(24 * MIB))
    kill_after(pair, "UploadPartCopy", 2)
    body = os.urandom(12 * MIB)
    pair.client.put_object(Bucket=pair.lake, Key="datasets/large", Body=body)
    assert pair.stage().is_clean
    assert pair.read(pair.hot[0], "datasets/large") == body
    assert "Uploads" not in pair.client.list_multipart_uploads(Bucket=pair.hot[0])


def test_an_upload_of_an_object_that_is_gone_is_aborted(pair: Pair) -> None:
    pair.client.put_object(Bucket=pair.lake, Key="datasets/large", Body=os.urandom(24 * MIB))
    kill_after(pair, "UploadPartCopy", 2)
    pair.client.delete_object(Bucket=pair.lake, Key="datasets/large")
    assert pair.stage().is_clean
    assert "Uploads" not in pair.client.list_multipart_uploads(Bucket=pair.hot[0])


# A process of several dies

DIES = """
import json, os, signal, sys
from training_storage.operations import transfer_pools
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_connection import AwsConnection
from training_storage.operations.transfer_model import Location, Options, Route

killed = []
def show(report):
    for worker in pools[0]._workers[:1] if report.copied > 100 and not killed else []:
        killed.append(worker)
        worker.send_signal(signal.SIGKILL)
pools, begin = [], transfer_pools.ProcessPool.__init__
def kept(self, *arguments, **options):
    pools.append(self)
    begin(self, *arguments, **options)
transfer_pools.ProcessPool.__init__ = kept
places = [Location(bucket=bucket, prefix="datasets/") for bucket in sys.argv[1:]]
report = transfer(AwsConnection(), Route((places[0],), (places[1],)), Options(processes=2), on_progress=show)
print(json.dumps({"failed": report.failed, "clean": report.is_clean, "notes": report.notes}))
"""


# The command


def test_the_command_prints_counts_and_leaves_the_lake_alone(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    pair.server.put(pair.lake, some(7))
    places = ["--from", f"s3://{pair.lake}/datasets/", "--to", f"s3://{pair.hot[0]}/datasets/"]
    assert main(["stage", *places]) == 0
    assert "7 of 7 objects verified" in capsys.readouterr().out
    assert main(["stage", *places, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["ok"], told["known"], told["copied"]) == (True, 7, 0)
    assert {key for key in pair.server.listing(pair.lake) if not key.startswith(".")} == set(some(7))


def test_a_bucket_that_does_not_exist_is_exit_code_1(pair: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stage", "--from", f"s3://{pair.lake}/", "--to", "s3://there-is-none--use1-az6--x-s3/"]) == 1
    assert "bucket there-is-none--use1-az6--x-s3 does not exist" in capsys.readouterr().err


def test_what_a_process_that_dies_had_taken_is_done_by_the_others(pair: Pair) -> None:
    pair.server.put(pair.lake, some(3000))
    process = subprocess.Popen(
        [sys.executable, "-c", DIES, pair.lake, pair.hot[0]],
        env=os.environ | pair.server.environment, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    told = json.loads(process.communicate()[0])
    assert (told["failed"], told["clean"]) == (0, True)
    assert "a process that copied died" in told["notes"][0]
    assert {key: pair.read(pair.hot[0], key) for key in some(3000)} == some(3000)


def test_two_runs_at_once_end_right(pair: Pair) -> None:
    pair.server.put(pair.lake, some(300))
    command = [sys.executable, "-m", "training_storage", "stage", "--format", "json",
               "--from", f"s3://{pair.lake}/datasets/", "--to", f"s3://{pair.hot[0]}/datasets/"]  # fmt: skip
    start = partial(
        subprocess.Popen, command, env=os.environ | pair.server.environment, stdout=subprocess.PIPE, text=True
    )
    both = [start(), start()]
    told = [json.loads(process.communicate()[0]) for process in both]
    assert [each["ok"] for each in told] == [True, True]
    assert {key: pair.read(pair.hot[0], key) for key in some(300)} == some(300)
