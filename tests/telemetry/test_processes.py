"""Real processes, threads and clocks, briefly: forks, exits, ranks, and what an import costs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from training_storage.node.telemetry import Telemetry, nbytes

HEAD = "import os, sys, threading, time\nfrom training_storage.node import telemetry\n"


def run(code: str, timeout: float = 20, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HEAD + code],
        env={**os.environ, **environment},
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def test_an_import_loads_the_standard_library_alone() -> None:
    code = (
        "wrong = {'aws_cdk', 'jsii', 'boto3', 'botocore', 'pydantic', 'torch', 'numpy', 'http.client', 'ssl'}\n"
        "print(sorted(wrong & set(sys.modules)), threading.active_count())\n"
    )
    assert run(code).stdout.strip() == "[] 1"


def test_a_child_never_writes_and_a_rank_that_is_forked_before_does(tmp_path: Path) -> None:
    path = tmp_path / "m"
    code = """
def loop(count):
    for _ in telemetry.watch(range(count)):
        time.sleep(0.001)
def child(count, code):
    if os.fork() == 0:
        loop(count); telemetry.flush(); telemetry.close(); os._exit(code)
    return os.wait()[1]
ended = [child(11, 3)]
for number in telemetry.watch(range(22)):
    if number in (5, 6):
        ended.append(child(33, 4))
telemetry.close()
print([os.waitstatus_to_exitcode(each) for each in ended])
"""
    done = run(code, TRAINING_STORAGE_METRICS=f"file:{path}")
    assert (done.stdout.strip(), done.stderr) == ("[3, 4, 4]", "")
    assert sorted(record["Steps"] for record in records(path)) == [11, 22]


def test_a_fork_while_the_thread_holds_the_lock_blocks_no_child(tmp_path: Path) -> None:
    code = """
recorder = telemetry.watch.__self__
for number in telemetry.watch(range(3)):
    held, free = threading.Event(), threading.Event()
    def hold():
        with recorder.lock:
            held.set(); free.wait(5)
    thread = threading.Thread(target=hold); thread.start(); held.wait()
    pid = os.fork()
    if pid == 0:
        for _ in telemetry.watch([1]): telemetry.step()
        os._exit(0)
    free.set(); thread.join()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run(code, TRAINING_STORAGE_METRICS=f"file:{tmp_path}/m").stdout.split() == ["0", "0", "0"]


def test_what_is_left_is_written_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "m"
    code = "for _ in telemetry.watch(range(7)): pass\nraise SystemExit(5)"
    assert run(code, TRAINING_STORAGE_METRICS=f"file:{path}").returncode == 5
    assert [record["Steps"] for record in records(path)] == [7]


def test_an_end_without_an_agent_is_quick_and_quiet() -> None:
    with socket.socket() as listening:
        # A port that takes connections and answers nothing.
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        endpoint = f"otlp=http://127.0.0.1:{listening.getsockname()[1]}"
        code = (
            "for _ in telemetry.watch(range(7)): pass\n"
            "begun = time.monotonic(); telemetry.close(0.3); print(time.monotonic() - begun < 1.5)"
        )
        done = run(code, TRAINING_STORAGE_METRICS=endpoint)
    assert (done.stdout.strip(), done.returncode) == ("True", 0)
    assert "Traceback" not in done.stderr


def test_standard_output_that_is_closed_at_the_end() -> None:
    code = "for _ in telemetry.watch(range(7)): pass\nsys.stdout.close(); os.close(1)"
    done = run(code, TRAINING_STORAGE_METRICS="stdout")
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


def test_a_handler_of_a_signal_may_flush(tmp_path: Path) -> None:
    path = tmp_path / "m"
    telemetry = Telemetry(metrics=f"file:{path}", interval_s=3600)
    got: list[float] = []

    def handler(*_: object) -> None:
        telemetry.flush()
        got.append(time.monotonic())

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        telemetry.epoch(1)
        begun = time.perf_counter()
        for _ in telemetry.watch(iter(lambda: time.perf_counter() < begun + 0.3, False)):
            pass
        taken = time.perf_counter() - begun
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    telemetry.close()
    assert len(got) > 3
    assert sum(record["ElapsedTime"] for record in records(path)) == pytest.approx(taken, rel=0.05)


def test_records_come_by_themselves_while_a_batch_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "m"
    telemetry = Telemetry(metrics=f"file:{path}", interval_s=0.1)
    seen = 0
    waited = 0.0

    def batches() -> Any:
        nonlocal waited, seen
        begun = time.perf_counter()
        while seen < 3 and time.perf_counter() < begun + 10:
            time.sleep(0.05)
            seen = len(records(path))
        waited = time.perf_counter() - begun
        yield 1

    for _ in telemetry.watch(batches()):
        pass
    telemetry.close()
    assert seen >= 3
    assert sum(record["DataWaitTime"] for record in records(path)) == pytest.approx(waited, rel=0.05, abs=0.05)
    for record in records(path):
        assert record["DataWaitTime"] <= record["ElapsedTime"]


def test_one_slow_rank(tmp_path: Path) -> None:
    path = tmp_path / "m"
    code = """
slow, waited = os.environ["RANK"] == "2", 0
def batches():
    global waited
    for number in range(20):
        begun = time.perf_counter()
        time.sleep(0.03 if slow else 0.002)
        waited += time.perf_counter() - begun
        yield number
telemetry.epoch(1)
begun = time.perf_counter()
for _ in telemetry.watch(batches()):
    time.sleep(0.01)
taken = time.perf_counter() - begun
telemetry.close()
print(taken, waited)
"""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", HEAD + code],
            env={**os.environ, "TRAINING_STORAGE_METRICS": f"file:{path}", "RANK": str(rank), "SLURM_JOB_ID": "77"},
            stdout=subprocess.PIPE, text=True,
        )
        for rank in range(4)
    ]  # fmt: skip
    truth = [tuple(map(float, rank.communicate(timeout=20)[0].split())) for rank in ranks]
    found = {int(record["Rank"]): record for record in records(path)}
    assert sorted(found) == [0, 1, 2, 3]
    assert {record["Run"] for record in found.values()} == {"77"}
    for rank in range(4):
        taken, waited = truth[rank]
        assert found[rank]["ElapsedTime"] == pytest.approx(taken, rel=0.05)
        assert found[rank]["DataWaitTime"] == pytest.approx(waited, rel=0.05, abs=0.05)
        assert found[rank]["Steps"] == 20
    assert max(found, key=lambda rank: found[rank]["DataWaitShare"]) == 2


def test_many_small_files(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}.bin").write_bytes(bytes(1000 + number))
    telemetry = Telemetry(metrics=f"file:{tmp_path}/m")
    waited = 0.0

    def batches() -> Any:
        nonlocal waited
        for begin in range(0, 300, 10):
            begun = time.perf_counter()
            batch = [(tmp_path / f"{number}.bin").read_bytes() for number in range(begin, begin + 10)]
            time.sleep(0.003)
            waited += time.perf_counter() - begun
            yield batch

    for _ in telemetry.watch(batches(), batch_bytes=nbytes):
        time.sleep(0.001)
    telemetry.close()
    (record,) = records(tmp_path / "m")
    assert record["TrainingReadBytes"] == sum(range(1000, 1300))
    assert record["DataWaitTime"] == pytest.approx(waited, rel=0.05)
    assert record["LoaderQueueEmptyShare"] > 90


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["udp", "tcp"])
def test_an_agent_that_is_killed_and_started_again_while_training_runs(
    kind: int, caplog: pytest.LogCaptureFixture
) -> None:
    def listen(port: int = 0) -> socket.socket:
        agent = socket.socket(socket.AF_INET, kind)
        agent.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        agent.bind(("127.0.0.1", port))
        agent.settimeout(3)
        if kind == socket.SOCK_STREAM:
            agent.listen()
        return agent

    def take(agent: socket.socket) -> dict[str, Any]:
        if kind == socket.SOCK_DGRAM:
            return dict(json.loads(agent.recv(70_000)))
        connection, _ = agent.accept()
        with connection, connection.makefile("rb") as stream:
            return dict(json.loads(stream.readline()))

    agent = listen()
    port = agent.getsockname()[1]
    scheme = "udp" if kind == socket.SOCK_DGRAM else "tcp"
    telemetry = Telemetry(metrics=f"{scheme}://127.0.0.1:{port}", interval_s=0.05)
    slowest, steps, ended = 0.0, 0, threading.Event()

    def train() -> None:
        nonlocal slowest, steps
        last = time.perf_counter()
        for _ in telemetry.watch(iter(ended.is_set, True)):
            time.sleep(0.002)
            steps += 1
            slowest, last = max(slowest, time.perf_counter() - last), time.perf_counter()

    training = threading.Thread(target=train)
    training.start()
    assert take(agent)["DroppedRecords"] == 0
    agent.close()
    time.sleep(0.4)
    before = steps
    agent = listen(port)
    dropped = take(agent)["DroppedRecords"]
    ended.set()
    training.join(5)
    telemetry.close()
    agent.close()
    assert not training.is_alive()
    assert before > 10
    assert dropped >= 1
    assert slowest < 1
    assert sum("dropped" in message for message in caplog.messages) == 1


def test_a_million_steps_keep_no_more_than_a_hundred_thousand(tmp_path: Path) -> None:
    telemetry = Telemetry(metrics=f"file:{tmp_path}/m", interval_s=1)

    def steps(count: int) -> int:
        for _ in telemetry.watch(range(count)):
            pass
        telemetry.flush()
        return tracemalloc.get_traced_memory()[0]

    steps(1000)
    tracemalloc.start()
    try:
        before = steps(20_000)
        tracemalloc.stop()
        steps(1_000_000)
        tracemalloc.start()
        after = steps(20_000)
    finally:
        tracemalloc.stop()
    telemetry.close()
    assert sum(record["Steps"] for record in records(tmp_path / "m")) == 1_041_000
    assert abs(after - before) < 200_000


def test_threads_lose_nothing(tmp_path: Path) -> None:
    telemetry = Telemetry(metrics=f"file:{tmp_path}/m", interval_s=0.05)

    def train() -> None:
        for number in telemetry.watch(range(2000), batch_bytes=3):
            if number % 500 == 0:
                with telemetry.checkpoint("save", bytes=5):
                    pass

    threads = [threading.Thread(target=train) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    telemetry.close()
    found = records(tmp_path / "m")
    assert sum(record.get("Steps", 0) for record in found) == 8000
    assert sum(record.get("TrainingReadBytes", 0) for record in found) == 24_000
    assert sum(record.get("CheckpointSaveBytes", 0) for record in found) == 80
