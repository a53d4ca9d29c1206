"""Where records go, and what becomes of them while nobody listens: real sockets, files and an HTTP server."""

from __future__ import annotations

import http.server
import json
import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.telemetry.simulated import Clock, Loader
from training_storage.node.telemetry import Telemetry
from training_storage.node.telemetry.sinks import Udp, sink_of


def interval(telemetry: Telemetry, clock: Clock, steps: int = 4) -> None:
    """One interval of training, whose record goes out."""
    for _ in telemetry.watch(Loader(clock, [0.5] * steps)):
        clock.pass_s(0.5)
    telemetry.flush()


def recorder(metrics: str) -> tuple[Telemetry, Clock]:
    clock = Clock()
    return Telemetry(metrics=metrics, clock=clock, workload="w", run="r1", rank=0, instance="i-0a1"), clock


class Agent:
    """Listens on a port of its own; may go and come back there."""

    def __init__(self, kind: int) -> None:
        self._kind = kind
        self.port = 0
        self.got: list[dict[str, Any]] = []
        self.come()

    def come(self) -> None:
        self.socket = socket.socket(socket.AF_INET, self._kind)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", self.port))
        self.socket.settimeout(2)
        self.port = self.socket.getsockname()[1]
        self.connection: socket.socket | None = None
        if self._kind == socket.SOCK_STREAM:
            self.socket.listen()

    def go(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.socket.close()

    def take(self) -> dict[str, Any]:
        if self._kind == socket.SOCK_DGRAM:
            data = self.socket.recv(70_000)
        else:
            if self.connection is None:
                self.connection, _ = self.socket.accept()
                self.connection.settimeout(2)
            data = b""
            while not data.endswith(b"\n"):
                data += self.connection.recv(70_000)
        return dict(json.loads(data))


@pytest.mark.parametrize(
    ("scheme", "kind"), [("udp", socket.SOCK_DGRAM), ("tcp", socket.SOCK_STREAM)], ids=["udp", "tcp"]
)
def test_an_agent_that_goes_and_comes_back(scheme: str, kind: int, caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(kind)
    telemetry, clock = recorder(f"{scheme}://127.0.0.1:{agent.port}")
    interval(telemetry, clock)
    first = agent.take()
    assert first["DataWaitTime"] == pytest.approx(2)
    assert first["DroppedRecords"] == 0
    agent.go()
    for _ in range(3):
        interval(telemetry, clock)
    agent.come()
    interval(telemetry, clock)
    assert agent.take()["DroppedRecords"] == 3
    interval(telemetry, clock)
    assert agent.take()["DroppedRecords"] == 0
    telemetry.close()
    agent.go()
    assert sum("dropped" in message for message in caplog.messages) == 1


def test_an_agent_that_was_never_there() -> None:
    agent = Agent(socket.SOCK_DGRAM)
    agent.go()
    telemetry, clock = recorder(f"udp://127.0.0.1:{agent.port}")
    interval(telemetry, clock)
    interval(telemetry, clock)
    agent.come()
    interval(telemetry, clock)
    assert agent.take()["DroppedRecords"] == 2
    agent.go()


def test_the_agent_of_a_node_listens_on_25888() -> None:
    sink = sink_of("agent")
    assert isinstance(sink, Udp)
    assert vars(sink)["_address"] == ("127.0.0.1", 25888)


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry, clock = recorder("stdout")
    interval(telemetry, clock)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["Steps"] == 4


def test_a_standard_output_that_is_closed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    telemetry, clock = recorder("stdout")
    closed = (tmp_path / "closed").open("w", encoding="utf-8")
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    interval(telemetry, clock)
    monkeypatch.setattr(sys, "stdout", None)
    interval(telemetry, clock)
    with (tmp_path / "open").open("w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        interval(telemetry, clock)
    assert json.loads((tmp_path / "open").read_text())["DroppedRecords"] == 2


def test_a_file_that_processes_share(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    recorders = [recorder(f"file:{path}") for _ in range(3)]
    for _ in range(5):
        for telemetry, clock in recorders:
            interval(telemetry, clock)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["Steps"] for line in lines] == [4] * 15


def test_a_folder_that_is_not_there_and_a_disk_that_is_full(tmp_path: Path) -> None:
    telemetry, clock = recorder(f"file:{tmp_path}/later/metrics.jsonl")
    interval(telemetry, clock)
    (tmp_path / "later").mkdir()
    interval(telemetry, clock)
    assert json.loads((tmp_path / "later" / "metrics.jsonl").read_text())["DroppedRecords"] == 1
    telemetry, clock = recorder("file:/dev/full")
    interval(telemetry, clock)
    interval(telemetry, clock)


def test_half_a_line_spoils_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    telemetry, clock = recorder(f"file:{path}")
    whole = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: whole(handle, data[:100]))
    interval(telemetry, clock)
    monkeypatch.setattr(os, "write", whole)
    interval(telemetry, clock)
    half, line = path.read_text(encoding="utf-8").splitlines()
    assert len(half) == 100
    assert json.loads(line)["DroppedRecords"] == 1


def test_a_pipe_that_nobody_reads_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    telemetry, clock = recorder(f"file:{tmp_path}/pipe")
    begun = time.monotonic()
    interval(telemetry, clock)
    assert time.monotonic() - begun < 1


class Collector(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.got.append((self.path, self.headers["Content-Type"], json.loads(body)))  # type: ignore[attr-defined] # set by the test
        self.send_response(self.server.status)  # type: ignore[attr-defined] # set by the test
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_open_telemetry() -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), Collector)
    got: list[tuple[str, str, dict[str, Any]]] = []
    server.got = got  # type: ignore[attr-defined] # for the handler
    server.status = 200  # type: ignore[attr-defined] # for the handler
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    telemetry, clock = recorder(f"otlp=http://127.0.0.1:{server.server_port}")
    for _ in telemetry.watch(Loader(clock, [0.5] * 4)):
        clock.pass_s(0.5)
    with telemetry.checkpoint("save", bytes=10):
        clock.pass_s(3)
    telemetry.flush()
    server.status = 503  # type: ignore[attr-defined] # for the handler
    interval(telemetry, clock)
    server.status = 200  # type: ignore[attr-defined] # for the handler
    interval(telemetry, clock)
    server.shutdown()
    server.server_close()
    path, content, request = got[0]
    assert (path, content) == ("/v1/metrics", "application/json")
    (resource,) = request["resourceMetrics"]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "w"}}]
    metrics = {each["name"]: each for each in resource["scopeMetrics"][0]["metrics"]}
    (wait,) = metrics["DataWaitTime"]["sum"]["dataPoints"]
    assert wait["asDouble"] == 2
    assert metrics["DataWaitTime"]["unit"] == "s"
    assert metrics["DataWaitTime"]["sum"]["aggregationTemporality"] == 1
    assert {each["key"]: each["value"]["stringValue"] for each in wait["attributes"]} == {
        "InstanceId": "i-0a1", "Run": "r1", "Rank": "0",
    }  # fmt: skip
    assert int(wait["timeUnixNano"]) - int(wait["startTimeUnixNano"]) == 7_000_000_000
    (times,) = metrics["StepTime"]["summary"]["dataPoints"]
    assert (times["count"], times["sum"]) == ("4", 4.0)
    assert metrics["DataWaitShare"]["gauge"]["dataPoints"][0]["asDouble"] == pytest.approx(100 * 2 / 7)
    dropped = {each["name"]: each for each in got[2][2]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]}
    assert dropped["DroppedRecords"]["sum"]["dataPoints"][0]["asDouble"] == 1


@pytest.mark.parametrize(
    "metrics",
    ["on", "udp://nowhere", "tcp://h:99999", "file:", "otlp=ftp://x", "otlp=", "udp:h:1", ":", "=", "STDOUT "],
)
def test_what_is_no_sink_turns_it_off_and_says_so(metrics: str, caplog: pytest.LogCaptureFixture) -> None:
    telemetry, clock = recorder(metrics)
    interval(telemetry, clock)
    interval(telemetry, clock)
    assert [message for message in caplog.messages if repr(metrics) in message and "udp://host:port" in message] != []
    assert len(caplog.messages) == 1


def test_a_name_that_does_not_resolve_is_an_agent_that_is_away() -> None:
    telemetry, clock = recorder("udp://no-such-host.invalid:25888")
    interval(telemetry, clock)
    interval(telemetry, clock)


def test_an_agent_by_name_may_move(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connected socket would send to where it was, for ever and without an error."""
    agents = [Agent(socket.SOCK_DGRAM), Agent(socket.SOCK_DGRAM)]
    where, resolve = [agents[0].port], socket.getaddrinfo

    def resolved(host: str, port: int, **given: Any) -> Any:
        assert host == "agent.test"
        return resolve("127.0.0.1", where[0], **given)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    telemetry, clock = recorder("udp://agent.test:25888")
    interval(telemetry, clock)
    where[0] = agents[1].port
    interval(telemetry, clock)
    assert [agents[0].take()["Steps"], agents[0].take()["Steps"]] == [4, 4]
    monkeypatch.setattr("training_storage.node.telemetry.sinks.RESOLVE_S", 0.0)
    interval(telemetry, clock)
    assert agents[1].take()["Steps"] == 4
    telemetry.close()
    for agent in agents:
        agent.go()


def test_a_sink_that_hangs_holds_the_end_up_once() -> None:
    class Hangs:
        def __init__(self) -> None:
            self.ended = threading.Event()

        def send(self, record: Any) -> None:
            self.ended.wait(20)

        def close(self) -> None: ...

    sink = Hangs()
    telemetry = Telemetry(sink=sink, workload="w", run="r1", rank=0, instance="i-0a1")
    telemetry.step()
    telemetry.step()
    begun = time.monotonic()
    telemetry.close(timeout_s=0.4)
    taken = time.monotonic() - begun
    sink.ended.set()
    assert 0.3 < taken < 0.75
