"""What Mountpoint sends by OTLP: read as a whole or not at all, added up, taken over HTTP with bounds."""

from __future__ import annotations

import contextlib
import http.client
import math
import random
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from tests.collector import inputs
from training_storage.node.collector.mountpoint import Meter
from training_storage.node.collector.otlp import MAX_POINTS, Point, parse_export
from training_storage.node.collector.receiver import MAX_BYTES, Receiver

BODY = inputs.mountpoint_export()
SUMS = {
    "read_bytes": 5e6,
    "write_bytes": 1e6,
    "opens": 9,
    "waits": 20,
    "wait_us": 1e6,
    "errors": 4,
    "throttled": 3,
}


def test_points_of_every_kind() -> None:
    body = inputs.export(
        inputs.metric("a", [({"k": "v", "n": 7}, 2.5, 4)]),
        inputs.metric("b", [({}, 3.5, 2)], kind="histogram", temporality=2),
        inputs.metric("c", [({"k": "v"}, -3, 1)], kind="sum"),
        inputs.metric("d", [({}, 0.25, 1)], kind="gauge"),
    )
    assert parse_export(body) == [
        Point("a", {"k": "v", "n": "7"}, 2.5, 4, 1),
        Point("b", {}, 3.5, 2, 2),
        Point("c", {"k": "v"}, -3.0, 1, 1),
        Point("d", {}, 0.25, 1, 0),
    ]
    assert parse_export(b"") == []


def test_what_mountpoint_sends_becomes_counters() -> None:
    meter = Meter()
    assert meter.take() is None
    points = parse_export(BODY)
    assert points is not None
    assert meter.add(points) == 0
    assert meter.take() == SUMS
    assert meter.take() is None
    for _ in range(2):
        meter.add(points)
    assert meter.take() == {name: 2 * value for name, value in SUMS.items()}


def test_others_make_nothing_known_and_sums_since_the_start_are_not_counted() -> None:
    meter = Meter()
    others = parse_export(inputs.export(inputs.metric("training.loss", [({}, 2.5, 4)])))
    since_start = parse_export(
        inputs.export(inputs.metric("fuse.io_size", [({"fuse_request": "read"}, 5e9, 40)], temporality=2))
    )
    assert others is not None
    assert since_start is not None
    assert meter.add(others) == 0
    assert meter.add(since_start) == 1
    assert meter.take() is None


def test_a_request_that_is_cut_off_is_none() -> None:
    for end in range(1, len(BODY)):
        assert parse_export(BODY[:end]) is None


def test_garbage_raises_nothing() -> None:
    pick = random.Random(11)
    for _ in range(1500):
        changed = bytearray(BODY)
        for _ in range(pick.randint(1, 6)):
            changed[pick.randrange(len(changed))] = pick.randrange(256)
        points = parse_export(bytes(changed))
        assert points is None or all(math.isfinite(each.value) and each.count >= 0 for each in points)
        Meter().add(points or [])
    assert parse_export(b"\x0b\x0b") is None
    assert parse_export(b"\xff" * 30) is None


def test_no_finite_number_is_no_number() -> None:
    body = inputs.export(inputs.metric("fuse.io_size", [({"fuse_request": "read"}, float("nan"), 4)]))
    assert struct.pack("<d", float("nan")) in body
    assert parse_export(body) is None


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def meter() -> Meter:
    return Meter()


@pytest.fixture
def receiver(meter: Meter, said: list[str]) -> Iterator[Receiver]:
    made = Receiver(meter, ("127.0.0.1", 0), said.append, poll_s=0.01)
    yield made
    made.stop()


def post(receiver: Receiver, body: bytes, path: str = "/v1/metrics", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=5)
    given = {
        "Content-Type": "application/x-protobuf",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    connection.request("POST", path, body, given)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def test_an_export_over_http(receiver: Receiver, meter: Meter) -> None:
    assert post(receiver, BODY) == 200
    assert meter.take() == SUMS


def test_what_is_not_taken(receiver: Receiver, meter: Meter) -> None:
    assert post(receiver, BODY, "/v1/traces") == 404
    assert post(receiver, BODY[:-1]) == 400
    assert post(receiver, b"{}", Content_Type="application/json") == 415
    assert post(receiver, BODY, Content_Encoding="gzip") == 415
    assert post(receiver, BODY, Content_Length=str(MAX_BYTES + 1)) == 413
    assert post(receiver, BODY, Content_Length="-5") == 411
    assert meter.take() is None
    assert post(receiver, BODY) == 200


def test_sums_since_the_start_are_said(receiver: Receiver, said: list[str]) -> None:
    body = inputs.export(inputs.metric("fuse.io_size", [({"fuse_request": "read"}, 5e9, 40)], temporality=2))
    assert post(receiver, body) == 200
    assert ["only deltas" in text for text in said] == [True]


@pytest.mark.parametrize("nested", [True, False])
def test_a_request_of_more_points_than_memory_should_hold_is_none(nested: bool) -> None:
    """Each empty point is two bytes there and some hundred here."""
    many = [inputs.metric("fuse.io_size", [({}, 1.0, 1)] * 100)] * (MAX_POINTS // 100)
    assert len(parse_export(inputs.export(*many)) or ()) == MAX_POINTS
    histogram = inputs.message(9, inputs.message(1, b"") * (MAX_POINTS + 1))
    more = [inputs.message(1, b"x") + histogram] if nested else [*many, inputs.metric("s3.x", [({}, 1.0, 1)])]
    assert parse_export(inputs.export(*more)) is None


def test_a_client_that_sends_byte_by_byte_keeps_nobody_out(
    receiver: Receiver, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver._server, "whole_s", 0.2)
    ended = threading.Event()

    def drip() -> None:
        with socket.create_connection(("127.0.0.1", receiver.port)) as slow, contextlib.suppress(OSError):
            while not ended.wait(0.05):
                slow.sendall(b"P")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        assert post(receiver, BODY) == 200
    finally:
        ended.set()
        dripping.join()
    assert meter.take() == SUMS
