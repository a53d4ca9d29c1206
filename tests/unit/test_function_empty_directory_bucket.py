"""The function that empties a directory bucket: what it removes and when, and that CloudFormation gets its answer."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import BadStatusLine, RemoteDisconnected
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ReadTimeoutError
from botocore.stub import ANY, Stubber

from training_storage.node.functions.empty_directory_bucket import index

BUCKET = "hot--use1-az6--x-s3"
FUNCTION = "arn:aws:lambda:us-east-1:111111111111:function:emptying"
STACK = "arn:aws:cloudformation:us-east-1:111111111111:stack/run-hot/0a1b"


def refused(code: str, operation: str = "Operation", message: str = "no") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, operation)


@dataclass
class Bucket:
    """An S3 client whose one bucket lists without order, and whose listings do not outlive a removal."""

    keys: set[str] = field(default_factory=set)
    uploads: dict[str, str] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    failures: dict[str, list[Exception]] = field(default_factory=dict)
    stuck: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Code by key that is not deleted, and how many times."""
    epoch: int = 0
    page: int = 1000
    lock: Any = field(default_factory=threading.Lock)

    def _call(self, name: str, bucket: str) -> None:
        assert bucket == BUCKET
        self.calls.append(name)
        if self.failures.get(name):
            raise self.failures[name].pop(0)

    def list_objects_v2(self, *, Bucket: str, MaxKeys: int, ContinuationToken: str = "") -> dict[str, Any]:
        with self.lock:
            self._call("list_objects_v2", Bucket)
            start = 0
            if ContinuationToken:
                epoch, start = map(int, ContinuationToken.split(":"))
                assert epoch == self.epoch, "a listing goes on although objects were removed"
            ordered = sorted(self.keys, key=lambda key: key[::-1])
            size = min(MaxKeys, self.page)
            part, more = ordered[start : start + size], len(ordered) > start + size
            answer: dict[str, Any] = {"IsTruncated": more, "KeyCount": len(part)}
            if part:
                answer["Contents"] = [{"Key": key} for key in part]
            return answer | ({"NextContinuationToken": f"{self.epoch}:{start + size}"} if more else {})

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            self._call("delete_objects", Bucket)
            keys = [each["Key"] for each in Delete["Objects"]]
            assert len(keys) <= 1000
            if any(ord(letter) < 32 for key in keys for letter in key):
                raise refused("MalformedXML", "DeleteObjects")
            self.batches.append(len(keys))
            errors = []
            for key in keys:
                code, times = self.stuck.get(key, ("", 0))
                if times:
                    self.stuck[key] = (code, times - 1)
                    errors.append({"Key": key, "Code": code, "Message": "not now"})
                else:
                    self.keys.discard(key)
            self.epoch += 1
            return {"Errors": errors} if errors else {}

    def delete_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        with self.lock:
            self._call("delete_object", Bucket)
            self.keys.discard(Key)
            self.epoch += 1
            return {}

    def list_multipart_uploads(self, *, Bucket: str, MaxUploads: int) -> dict[str, Any]:
        with self.lock:
            self._call("list_multipart_uploads", Bucket)
            part = list(self.uploads.items())[: min(MaxUploads, self.page)]
            found = [{"Key": key, "UploadId": upload_id} for upload_id, key in part]
            return {"Uploads": found} if found else {}

    def abort_multipart_upload(self, *, Bucket: str, Key: str, UploadId: str) -> dict[str, Any]:
        with self.lock:
            self._call("abort_multipart_upload", Bucket)
            assert self.uploads.pop(UploadId) == Key
            return {}


class Context:
    """A run with a given time left, in answer to each question in turn; the last one holds."""

    invoked_function_arn = FUNCTION

    def __init__(self, *left_ms: int) -> None:
        self.left_ms = list(left_ms or (900_000,))

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms.pop(0) if len(self.left_ms) > 1 else self.left_ms[0]


@dataclass
class World:
    """Everything around the function."""

    bucket: Bucket = field(default_factory=Bucket)
    state: str | Exception = "DELETE_IN_PROGRESS"
    answers: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    unreachable: int = 0
    invoked: list[dict[str, Any]] = field(default_factory=list)
    invoke_fails: Exception | None = None
    clients: list[str] = field(default_factory=list)
    now: float = 1_000_000.0
    slept: list[float] = field(default_factory=list)

    def client(self, service: str, **options: Any) -> Any:
        self.clients.append(service)
        return self.bucket if service == "s3" else self

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:
        assert StackName == STACK
        if isinstance(self.state, Exception):
            raise self.state
        return {"Stacks": [{"StackStatus": self.state}]}

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:
        assert (FunctionName, InvocationType) == (FUNCTION, "Event")
        if self.invoke_fails is not None:
            raise self.invoke_fails
        self.invoked.append(json.loads(Payload))
        return {}

    def urlopen(self, request: Any, timeout: float) -> Any:
        if self.unreachable:
            self.unreachable -= 1
            raise OSError("no route")
        self.requests.append(request)
        self.answers.append(json.loads(request.data))
        return Done()

    def run(self, request_type: str = "Delete", context: Context | None = None, **more: Any) -> None:
        index.handler(event(request_type, **more), context or Context())

    @property
    def answer(self) -> dict[str, Any]:
        (only,) = self.answers
        return only


class Done:
    def __enter__(self) -> Done:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def event(request_type: str, **more: Any) -> dict[str, Any]:
    physical = {} if request_type == "Create" else {"PhysicalResourceId": "HotEmptying"}
    return {
        "RequestType": request_type,
        "ResponseURL": "https://answers.example/signed",
        "StackId": STACK,
        "RequestId": "request-1",
        "LogicalResourceId": "HotEmptying",
        "ResourceType": "Custom::EmptyDirectoryBucket",
        "ResourceProperties": {"ServiceToken": FUNCTION, "BucketName": BUCKET},
        **physical,
        **more,
    }


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(boto3, "client", made.client)
    monkeypatch.setattr(urllib.request, "urlopen", made.urlopen)
    monkeypatch.setattr(time, "sleep", made.slept.append)
    monkeypatch.setattr(time, "time", lambda: made.now)
    return made


def keys(count: int) -> set[str]:
    return {f"shards/{number:06}.tar" for number in range(count)}


# -- what is removed


def test_2500_objects_go_in_pages(world: World) -> None:
    world.bucket.keys = keys(2500)
    world.run()
    assert world.bucket.keys == set()
    assert sorted(world.bucket.batches) == [500, 1000, 1000]
    assert world.answer["Status"] == "SUCCESS"
    assert "2,500 objects" in world.answer["Reason"]


def test_more_objects_than_one_look_holds_go_too(world: World) -> None:
    world.bucket.page = 10
    world.bucket.keys = keys(405)  # sixteen pages a look
    world.run()
    assert world.bucket.keys == set()
    assert "405 objects" in world.answer["Reason"]


def test_uploads_in_progress_are_aborted(world: World) -> None:
    world.bucket.uploads = {f"id-{number}": f"checkpoints/{number % 7}" for number in range(1203)}
    world.run()
    assert world.bucket.uploads == {}
    assert "1,203 uploads" in world.answer["Reason"]


def test_objects_and_uploads_go_together(world: World) -> None:
    world.bucket.keys, world.bucket.uploads = keys(3), {"id-1": "a", "id-2": "a"}
    world.run()
    assert world.answer["Reason"] == "3 objects and 2 uploads in progress removed"


def test_an_empty_bucket_is_looked_at_once(world: World) -> None:
    world.run()
    assert world.bucket.calls == ["list_objects_v2", "list_multipart_uploads"]
    assert world.answer["Status"] == "SUCCESS"


def test_what_comes_while_it_is_emptied_goes_too(world: World) -> None:
    world.bucket.uploads = {"id-1": "late"}
    abort = world.bucket.abort_multipart_upload

    def completed_meanwhile(**given: Any) -> dict[str, Any]:
        world.bucket.keys.add("late")
        return abort(**given)

    world.bucket.abort_multipart_upload = completed_meanwhile  # type: ignore[method-assign]
    world.run()
    assert world.bucket.keys == set()
    assert world.answer["Status"] == "SUCCESS"


# -- when


@pytest.mark.parametrize("request_type", ["Create", "Update"])
def test_only_a_delete_reaches_for_anything(world: World, request_type: str) -> None:
    world.bucket.keys = keys(3)
    world.run(request_type)
    assert world.clients == []
    assert world.bucket.keys == keys(3)
    assert world.answer["Status"] == "SUCCESS"


@pytest.mark.parametrize("request_type", ["Create", "Update", "Delete"])
def test_the_physical_id_never_changes(world: World, request_type: str) -> None:
    world.run(request_type, ResourceProperties={"BucketName": BUCKET}, OldResourceProperties={"BucketName": "old"})
    assert world.answer["PhysicalResourceId"] == "HotEmptying"


@pytest.mark.parametrize(
    "state",
    [
        "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_IN_PROGRESS",
        "DELETE_FAILED",
        "CREATE_COMPLETE",
    ],
)
def test_a_stack_that_goes_on_living_keeps_its_objects(world: World, state: str) -> None:
    world.state, world.bucket.keys = state, keys(3)
    world.run()
    assert world.bucket.calls == []
    assert world.answer["Status"] == "SUCCESS"
    assert state in world.answer["Reason"]


@pytest.mark.parametrize("state", ["DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"])
def test_a_stack_that_goes_takes_its_objects_along(world: World, state: str) -> None:
    world.state, world.bucket.keys = state, keys(3)
    world.run()
    assert world.bucket.keys == set()


def test_without_a_known_state_nothing_goes(world: World) -> None:
    world.state, world.bucket.keys = refused("AccessDenied", "DescribeStacks"), keys(3)
    world.run()
    assert world.bucket.keys == keys(3)
    assert world.answer["Status"] == "FAILED"
    assert "DescribeStacks" in world.answer["Reason"]


# -- what S3 refuses


def test_a_key_that_is_refused_once_goes_at_the_next_look(world: World) -> None:
    world.bucket.keys, world.bucket.stuck = keys(5), {"shards/000003.tar": ("InternalError", 1)}
    world.run()
    assert world.bucket.keys == set()
    assert world.answer["Reason"].startswith("5 objects")


def test_a_key_that_stays_is_named_and_the_others_go(world: World) -> None:
    world.bucket.keys, world.bucket.stuck = keys(2500), {"shards/000007.tar": ("AccessDenied", 99)}
    world.run()
    assert world.bucket.keys == {"shards/000007.tar"}
    assert world.answer["Status"] == "FAILED"
    for part in (BUCKET, "1 object and", "shards/000007.tar: AccessDenied not now", "2,499 objects"):
        assert part in world.answer["Reason"]
    assert world.slept == [2, 4]


def test_a_key_that_xml_cannot_hold_goes_by_itself_and_takes_its_batch_along(world: World) -> None:
    world.bucket.keys = keys(1500) | {"shards/\x01.tar"}
    world.run()
    assert world.bucket.keys == set()
    assert world.answer["Status"] == "SUCCESS"
    assert "1,501 objects" in world.answer["Reason"]


def test_keys_that_go_by_themselves_stop_when_time_is_up(world: World) -> None:
    world.bucket.keys = keys(10) | {"\x01"}
    world.run(context=Context(*[900_000] * 6, 1000))
    assert world.answers == []
    assert 0 < len(world.bucket.keys) < 11
    assert world.invoked[0]["Continuation"]["objects"] == 11 - len(world.bucket.keys)


def test_a_key_that_is_gone_already_is_no_failure(world: World) -> None:
    world.bucket.keys = keys(2)

    def gone(**given: Any) -> dict[str, Any]:
        world.bucket.keys.clear()
        return {"Errors": [{"Key": "shards/000000.tar", "Code": "NoSuchKey"}]}

    world.bucket.delete_objects = gone  # type: ignore[method-assign]
    world.run()
    assert world.answer["Status"] == "SUCCESS"


@pytest.mark.parametrize("error", [refused("SlowDown"), ReadTimeoutError(endpoint_url="https://s3express")])
def test_a_request_that_fails_is_made_again(world: World, error: Exception) -> None:
    world.bucket.keys, world.bucket.uploads = keys(1200), {"id-1": "a"}
    world.bucket.failures = {"delete_objects": [error], "abort_multipart_upload": [error]}
    world.run()
    assert (world.bucket.keys, world.bucket.uploads) == (set(), {})
    assert world.answer["Reason"] == "1,200 objects and 1 upload in progress removed"


def test_an_upload_that_stays_is_named(world: World) -> None:
    world.bucket.uploads = {"id-1": "checkpoints/1"}
    world.bucket.failures = {"abort_multipart_upload": [refused("AccessDenied", "AbortMultipartUpload")] * 9}
    world.run()
    assert world.answer["Status"] == "FAILED"
    assert "upload of checkpoints/1: " in world.answer["Reason"]


def test_an_upload_that_is_gone_already_is_no_failure(world: World) -> None:
    world.bucket.uploads = {"id-1": "a"}

    def gone(**given: Any) -> None:
        world.bucket.uploads.clear()
        raise refused("NoSuchUpload")

    world.bucket.abort_multipart_upload = gone  # type: ignore[assignment]
    world.run()
    assert world.answer["Status"] == "SUCCESS"


@pytest.mark.parametrize(
    "call", ["list_objects_v2", "list_multipart_uploads", "delete_objects", "abort_multipart_upload"]
)
def test_a_bucket_that_is_gone_is_empty(world: World, call: str) -> None:
    world.bucket.keys, world.bucket.uploads = keys(1), {"id-1": "a"}
    world.bucket.failures = {call: [refused("NoSuchBucket")]}
    world.run()
    assert world.answer["Status"] == "SUCCESS"
    assert "gone already" in world.answer["Reason"]


# -- CloudFormation is answered


CRASHES: list[Exception] = [refused("AccessDenied"), RuntimeError("boom"), KeyError("Contents"), MemoryError()]


@pytest.mark.parametrize("error", CRASHES, ids=lambda error: type(error).__name__)
def test_a_crash_is_answered(world: World, error: Exception) -> None:
    world.bucket.failures = {"list_objects_v2": [error]}
    world.run()
    assert world.answer["Status"] == "FAILED"
    assert world.answer["Reason"]


def test_a_request_that_is_not_understood_is_answered(world: World) -> None:
    world.run(ResourceProperties={})
    assert world.answer["Status"] == "FAILED"
    assert "BucketName" in world.answer["Reason"]


def test_the_answer_has_what_cloudformation_wants(world: World) -> None:
    world.run()
    assert world.answer == {
        "Status": "SUCCESS",
        "Reason": "0 objects and 0 uploads in progress removed",
        "PhysicalResourceId": "HotEmptying",
        "StackId": STACK,
        "RequestId": "request-1",
        "LogicalResourceId": "HotEmptying",
    }
    (request,) = world.requests
    assert (request.get_method(), request.full_url) == ("PUT", "https://answers.example/signed")
    assert request.get_header("Content-type") == ""


@pytest.mark.parametrize("letter", ["x", "ü", "\U0001f4be"])
def test_a_long_reason_is_cut(world: World, letter: str) -> None:
    world.bucket.failures = {"list_objects_v2": [RuntimeError(letter * 9000)]}
    world.run()
    (request,) = world.requests
    assert len(request.data) <= 4096  # bytes: CloudFormation User Guide, custom resource responses
    assert world.answer["Reason"].startswith(f"RuntimeError: {letter * 200}")


def test_an_answer_that_is_no_http_is_sent_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Any] = [RemoteDisconnected("no word"), BadStatusLine("?")]

    def urlopen(request: Any, timeout: float) -> Any:
        if answers:
            raise answers.pop()
        return world.urlopen(request, timeout)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    world.run()
    assert world.answer["Status"] == "SUCCESS"


def test_an_answer_that_does_not_arrive_is_sent_again(world: World) -> None:
    world.unreachable = 2
    world.run()
    assert world.answer["Status"] == "SUCCESS"


def test_an_answer_that_never_arrives_ends_the_run_with_an_error(world: World) -> None:
    world.unreachable = 99
    with pytest.raises(OSError, match="no route"):
        world.run()


# -- time


def test_when_time_runs_out_another_run_goes_on(world: World) -> None:
    world.bucket.page, world.bucket.keys = 1, keys(5)
    world.run(context=Context(900_000, 100_000))
    (again,) = world.invoked
    assert world.answers == []
    assert again["Continuation"] == {"started": 1_000_000.0, "objects": 1, "uploads": 0, "ended": False}
    index.handler(again, Context())
    assert world.bucket.keys == set()
    assert world.answer["Status"] == "SUCCESS"
    assert world.answer["Reason"].startswith("5 objects")


def test_a_run_that_goes_on_is_the_same_request(world: World) -> None:
    world.run(context=Context(100_000))
    (again,) = world.invoked
    again.pop("Continuation")
    assert again == event("Delete")


def test_a_run_that_goes_on_looks_at_the_stack_again(world: World) -> None:
    world.bucket.keys = keys(1)
    world.run(context=Context(100_000))
    world.state = "DELETE_FAILED"
    index.handler(world.invoked[0], Context())
    assert world.bucket.keys == keys(1)


def test_the_margin_is_longer_than_a_request_with_all_its_tries() -> None:
    config = index._config()
    tries = config.retries["total_max_attempts"]  # type: ignore[attr-defined]
    seconds = tries * (config.connect_timeout + config.read_timeout)  # type: ignore[attr-defined]
    assert seconds * 1000 < index.MARGIN_MS


def test_after_an_hour_the_answer_is_to_delete_the_stack_again(world: World) -> None:
    world.bucket.keys = keys(3)
    started = world.now
    world.now += 3590
    world.run(Continuation={"started": started, "objects": 7_000_000, "uploads": 2, "ended": False})
    assert world.invoked == []
    assert world.answer["Status"] == "FAILED"
    for part in ("7,000,000 objects", BUCKET, "delete the stack once more"):
        assert part in world.answer["Reason"]
    assert index.HOUR_S < 3600


def test_a_second_delete_goes_on_with_what_is_left(world: World) -> None:
    world.bucket.keys = keys(3)
    world.now += 3590
    world.run(Continuation={"started": world.now - 3590, "objects": 7, "uploads": 0, "ended": False})
    world.answers.clear()
    world.run(RequestId="request-2")
    assert world.bucket.keys == set()
    assert (world.answer["Status"], world.answer["RequestId"]) == ("SUCCESS", "request-2")


def test_a_run_that_cannot_be_started_is_answered(world: World) -> None:
    world.bucket.keys, world.invoke_fails = keys(3), refused("AccessDenied", "Invoke")
    world.run(context=Context(100_000))
    assert world.answer["Status"] == "FAILED"
    assert "Invoke" in world.answer["Reason"]


def test_time_is_looked_at_between_pages(world: World) -> None:
    world.bucket.page, world.bucket.keys = 1, keys(9)
    world.run(context=Context(900_000, 900_000, 900_000, 100_000))
    assert world.bucket.calls.count("list_objects_v2") == 3
    assert len(world.bucket.keys) == 6


# -- the real client


def test_the_requests_are_those_of_the_api() -> None:
    client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="x")
    bucket = "any-bucket"  # the name of a directory bucket would make the client open a session first
    with Stubber(client) as stub:
        stub.add_response("list_objects_v2", {"IsTruncated": True, "NextContinuationToken": "t", "Contents": []})
        stub.add_response(
            "list_objects_v2",
            {"IsTruncated": False, "Contents": [{"Key": "a"}, {"Key": "b"}]},
            {"Bucket": bucket, "MaxKeys": 1000, "ContinuationToken": "t"},
        )
        stub.add_response(
            "list_multipart_uploads",
            {"Uploads": [{"Key": "c", "UploadId": "1"}]},
            {"Bucket": bucket, "MaxUploads": 1000},
        )
        stub.add_response(
            "delete_objects",
            {"Errors": [{"Key": "b", "Code": "InternalError"}]},
            {"Bucket": bucket, "Delete": {"Objects": [{"Key": "a"}, {"Key": "b"}], "Quiet": True}},
        )
        stub.add_response("abort_multipart_upload", {}, {"Bucket": bucket, "Key": "c", "UploadId": "1"})
        stub.add_response("list_objects_v2", {"IsTruncated": False}, {"Bucket": ANY, "MaxKeys": ANY})
        stub.add_response("list_multipart_uploads", {})
        done = index._empty(client, bucket, index.Progress(started=0.0), lambda: False)
        stub.assert_no_pending_responses()
    assert done == index.Progress(started=0.0, objects=1, uploads=1, ended=True)


def test_every_call_has_a_client_that_tries_again() -> None:
    made: Callable[[], Any] = index._config
    assert made().retries == {"mode": "standard", "total_max_attempts": 4}
    assert made().max_pool_connections == index.WORKERS
