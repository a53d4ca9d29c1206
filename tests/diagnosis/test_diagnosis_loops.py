"""Real loops, planted causes: what telemetry writes of them is true, and ``diagnose --file`` names the cause."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.world import World
from training_storage.cli import main
from training_storage.node import emf
from training_storage.node.telemetry import Telemetry
from training_storage.operations.diagnosis.from_records import observe_records, read_records
from training_storage.operations.diagnosis.observation import Observation
from training_storage.operations.diagnosis.saved import to_dict

WORKLOAD = "loop"
INTERVAL_S = 0.2
LASTS_S = 1.3
COMPUTE_S = 0.01
BATCH = 100_000


@dataclass
class Truth:
    """What a loop did, counted by itself."""

    waited_s: float = 0.0
    began: float = 0.0
    ended: float = 0.0
    steps: int = 0
    saves: list[float] = field(default_factory=list)
    read: int = 0
    opens: int = 0
    requests: int = 0
    request_s: float = 0.0
    worked_s: float = 0.0

    @property
    def lasted_s(self) -> float:
        return self.ended - self.began


class Loader:
    """Batches that a thread brings ahead of their use, two at most."""

    def __init__(self, truth: Truth, bring: Callable[[Truth], None], lasts_s: float = LASTS_S) -> None:
        self._truth, self._bring, self._lasts_s = truth, bring, lasts_s
        self._ready: queue.Queue[bytes] = queue.Queue(2)
        self._over = threading.Event()

    def _work(self) -> None:
        while not self._over.is_set():
            self._bring(self._truth)
            batch = bytes(BATCH)
            while not self._over.is_set():
                with contextlib.suppress(queue.Full):
                    self._ready.put(batch, timeout=0.02)
                    break

    def __iter__(self) -> Iterator[bytes]:
        truth = self._truth
        truth.began = asked = time.perf_counter()  # starting the worker is a wait for the first batch
        worker = threading.Thread(target=self._work)
        worker.start()
        try:
            while True:
                batch = self._ready.get(timeout=10)
                truth.waited_s += time.perf_counter() - asked
                yield batch
                asked = truth.ended = time.perf_counter()
                if asked - truth.began >= self._lasts_s:
                    break
        finally:
            self._over.set()
            worker.join()
        truth.ended = time.perf_counter()  # who asks learns only now that there is no further batch
        truth.waited_s += truth.ended - asked


class Collector:
    """What the node's collector writes, from what the loops really did."""

    def __init__(self, path: Path, truths: list[Truth], instance: str = "i-a") -> None:
        self._path, self._truths, self._instance = path, truths, instance
        self._before: dict[str, float] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._at = 0.0

    def _totals(self) -> dict[str, float]:
        names = ("read", "opens", "requests", "request_s", "worked_s")
        return {name: float(sum(getattr(each, name) for each in self._truths)) for name in names}

    def _run(self) -> None:
        while not self._over.wait(INTERVAL_S):
            self._write()

    def _write(self) -> None:
        now = time.perf_counter()
        totals, took = self._totals(), now - self._at
        moved = {name: value - self._before.get(name, 0.0) for name, value in totals.items()}
        self._before, self._at = totals, now
        values = {
            "StorageReadBytes": moved["read"],
            "FileOpens": moved["opens"],
            "cpu_usage_active": min(100.0, 100 * moved["worked_s"] / took / len(self._truths)),
        }
        if moved["requests"]:
            values["StorageRpcWaitTime"] = 1000 * moved["request_s"] / moved["requests"]
        record = emf.record(values, {"Workload": WORKLOAD, "InstanceId": self._instance}, timestamp_s=time.time())
        with self._path.open("ab") as stream:
            stream.write(emf.line(record))

    def __enter__(self) -> Collector:
        self._at = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def reading(seconds: float, size: int = BATCH) -> Callable[[Truth], None]:
    """Read a batch from a storage that takes so long."""

    def bring(truth: Truth) -> None:
        begun = time.perf_counter()
        time.sleep(seconds)
        truth.request_s += time.perf_counter() - begun
        truth.requests += 1
        truth.read += size

    return bring


def telemetry_of(path: Path, rank: int = 0) -> Telemetry:
    return Telemetry(
        metrics=f"file:{path}", workload=WORKLOAD, run="r1", rank=rank, instance="i-a", interval_s=INTERVAL_S
    )


def train(path: Path, bring: Callable[[Truth], None], *, save_s: float = 0.0) -> Truth:
    truth, telemetry = Truth(), telemetry_of(path)
    saved = time.perf_counter()
    with Collector(path, [truth]):
        for _ in telemetry.watch(Loader(truth, bring), batch_bytes=BATCH):
            time.sleep(COMPUTE_S)
            truth.steps += 1
            if save_s and time.perf_counter() - saved > 0.35:
                begun = time.perf_counter()
                with telemetry.checkpoint("save", bytes=10**6):
                    time.sleep(save_s)
                saved = time.perf_counter()
                truth.saves.append(saved - begun)
        telemetry.close()
    return truth


def observed(path: Path, tmp_path: Path, **expected: Any) -> tuple[Observation, Path]:
    """The records as an observation, beside a plan of what the loop could at most."""
    with path.open("ab") as stream:
        stream.write(b"epoch 1 begins\n\n")
    lines = path.read_text(encoding="utf-8").splitlines()
    told = replace(
        World(nodes=1, ranks=1).expected(),
        **{
            "workload": WORKLOAD, "file_opens_limit_per_s": 1e5, "node_limit_mb_per_s": 1000.0,
            "supply_mb_per_s": 1000.0, "checkpoint_save_s": 0.02, "efa": False, **expected,
        },
    )  # fmt: skip
    seen = observe_records(read_records(lines), expected=told)
    saved = tmp_path / "seen.json"
    saved.write_text(json.dumps(to_dict(seen)), encoding="utf-8")
    return seen, saved


def verdict_of(saved: Path, capsys: pytest.CaptureFixture[str]) -> str:
    main(["diagnose", "--file", str(saved), "--format", "json"])
    return str(json.loads(capsys.readouterr().out)["verdict"])


def total(seen: Observation, name: str) -> float:
    series = seen.one(name, "Workload")
    return series.total if series else 0.0


def assert_true(seen: Observation, truth: Truth) -> None:
    """What telemetry says is within 5 % of what the loop did."""
    assert total(seen, "ElapsedTime") == pytest.approx(truth.lasted_s, rel=0.05)
    assert total(seen, "DataWaitTime") == pytest.approx(truth.waited_s, rel=0.05, abs=0.02 * truth.lasted_s)
    assert total(seen, "Steps") == pytest.approx(truth.steps, rel=0.05)
    assert total(seen, "TrainingReadBytes") == pytest.approx(truth.steps * BATCH, rel=0.05)
    assert total(seen, "CheckpointBlockedTime") == pytest.approx(sum(truth.saves), rel=0.05)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "metrics.log"


@pytest.mark.parametrize("slow_s", [0.016, 0.04])
def test_a_slow_storage(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], slow_s: float) -> None:
    truth = train(path, reading(slow_s))
    seen, saved = observed(path, tmp_path, node_limit_mb_per_s=truth.read / truth.request_s / 1e6)
    assert_true(seen, truth)
    assert verdict_of(saved, capsys) == "storage-throughput"


@pytest.mark.parametrize("work_s", [0.016, 0.04])
def test_slow_preprocessing(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], work_s: float) -> None:
    read = reading(0.001)

    def bring(truth: Truth) -> None:
        read(truth)
        begun = time.perf_counter()
        time.sleep(work_s)
        truth.worked_s += time.perf_counter() - begun

    truth = train(path, bring)
    seen, saved = observed(path, tmp_path, node_limit_mb_per_s=truth.read / truth.request_s / 1e6)
    assert_true(seen, truth)
    assert verdict_of(saved, capsys) == "preprocessing"


@pytest.mark.parametrize("save_s", [0.06, 0.15])
def test_a_slow_checkpoint(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], save_s: float) -> None:
    truth = train(path, reading(0.002), save_s=save_s)
    seen, saved = observed(path, tmp_path)
    assert len(truth.saves) >= 2
    assert_true(seen, truth)
    assert verdict_of(saved, capsys) == "checkpoint-write-path"


@pytest.mark.parametrize("files", [16, 40])
def test_many_small_files(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], files: int) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    for number in range(files):
        (folder / f"{number}").write_bytes(bytes(100))

    def bring(truth: Truth) -> None:
        for number in range(files):
            begun = time.perf_counter()
            time.sleep(0.001)  # what a metadata server takes that serves 1,000 opens a second at most
            truth.read += len((folder / f"{number}").read_bytes())
            truth.request_s += time.perf_counter() - begun
            truth.opens += 1
            truth.requests += 1

    truth = train(path, bring)
    seen, saved = observed(path, tmp_path, file_opens_limit_per_s=truth.opens / truth.request_s)
    assert_true(seen, truth)
    assert verdict_of(saved, capsys) == "small-files"


@pytest.mark.parametrize("slow_s", [0.016, 0.04])
def test_one_slow_rank(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], slow_s: float) -> None:
    truths, together = [Truth() for _ in range(4)], threading.Barrier(4)

    def rank(number: int) -> None:
        telemetry, truth = telemetry_of(path, number), truths[number]
        loader = Loader(truth, reading(slow_s if number == 2 else 0.002), lasts_s=3 * LASTS_S)
        for _ in telemetry.watch(loader, batch_bytes=BATCH):
            time.sleep(COMPUTE_S)
            truth.steps += 1
            together.wait(10)  # as an all-reduce does
            if truth.steps * (slow_s + 0.002) >= LASTS_S:
                break
        telemetry.close()

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(4)]
    with Collector(path, truths):
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    seen, saved = observed(path, tmp_path)
    for number in (0, 2):
        of = {"Workload": WORKLOAD, "Run": "r1", "InstanceId": "i-a", "Rank": str(number)}
        (waited,) = (each for each in seen.all("DataWaitTime", *of) if each.dimensions == of)
        truth = truths[number]
        assert waited.total == pytest.approx(truth.waited_s, rel=0.05, abs=0.02 * truth.lasted_s)
    assert verdict_of(saved, capsys) == "slow-rank"


def test_a_loop_that_computes_is_not_storage(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = train(path, reading(0.002))
    seen, saved = observed(path, tmp_path, node_limit_mb_per_s=truth.read / truth.request_s / 1e6)
    assert_true(seen, truth)
    assert verdict_of(saved, capsys) == "not-storage"
    assert main(["diagnose", "--file", str(path)]) == 0
    out = capsys.readouterr().out
    assert "1 lines of the file are no records" in out
    assert "what the plan expects" in out
