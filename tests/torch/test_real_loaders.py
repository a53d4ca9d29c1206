"""Telemetry around PyTorch itself, on CPUs: `make test-torch` runs it, in an environment that has torch."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, Dataset  # noqa: E402 - after the line that skips without torch

from training_storage.node.telemetry import Telemetry, nbytes  # noqa: E402 - as above

torch.set_num_threads(1)


class Slow(Dataset):  # type: ignore[type-arg, misc, unused-ignore] # torch is not there where types are checked
    """Samples that take a known time each."""

    def __init__(self, count: int, seconds: float) -> None:
        self._count = count
        self._seconds = seconds

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Any:
        time.sleep(self._seconds)
        return torch.full((256,), float(index))


class Clocked:
    """Takes the time of ``next()`` by itself: the truth that telemetry is held against."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.waited = 0.0

    def loop(self, watched: Any, body: Any) -> float:
        begun = last = time.perf_counter()
        for batch in watched:
            self.waited += time.perf_counter() - last
            body(batch)
            last = time.perf_counter()
        self.waited += time.perf_counter() - last
        return time.perf_counter() - begun


def measured(tmp_path: Path, loader: Any, body: Any, **options: Any) -> tuple[dict[str, Any], float, float]:
    path = tmp_path / "metrics.jsonl"
    telemetry = Telemetry(metrics=f"file:{path}", workload="w", interval_s=3600)
    telemetry.epoch(1)
    clocked = Clocked(loader)
    taken = clocked.loop(telemetry.watch(loader, **options), lambda batch: body(telemetry, batch))
    telemetry.close()
    (line,) = path.read_text(encoding="utf-8").splitlines()
    return json.loads(line), taken, clocked.waited


def work(seconds: float) -> Any:
    def body(_: Telemetry, batch: Any) -> None:
        model = torch.nn.Linear(256, 16)
        model(batch).sum().backward()
        time.sleep(seconds)

    return body


@pytest.mark.parametrize("workers", [0, 2])
def test_a_slow_loader(workers: int, tmp_path: Path) -> None:
    loader = DataLoader(Slow(240, 0.01), batch_size=8, num_workers=workers)
    record, taken, waited = measured(tmp_path, loader, work(0.005), batch_bytes=nbytes)
    assert record["ElapsedTime"] == pytest.approx(taken, rel=0.05)
    assert record["DataWaitTime"] == pytest.approx(waited, rel=0.05)
    assert record["Steps"] == 30
    assert record["TrainingReadBytes"] == 240 * 256 * 4
    # Two workers that keep step with each other deliver two batches at once.
    assert record["LoaderQueueEmptyShare"] > (30 if workers else 90)
    assert record.get("LoaderQueueDepth", 0) < 2
    assert ("LoaderQueueDepth" in record) == (workers > 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_slow_step(workers: int, tmp_path: Path) -> None:
    loader = DataLoader(Slow(240, 0.0002), batch_size=8, num_workers=workers)
    record, taken, waited = measured(tmp_path, loader, work(0.05))
    assert record["ElapsedTime"] == pytest.approx(taken, rel=0.05)
    assert record["DataWaitTime"] == pytest.approx(waited, rel=0.05, abs=0.01)
    if workers:
        assert record["LoaderQueueDepth"] > 2
        assert record["LoaderQueueEmptyShare"] < 20


def test_slow_preprocessing(tmp_path: Path) -> None:
    def collate(samples: list[Any]) -> Any:
        time.sleep(0.06)
        return torch.stack(samples)

    loader = DataLoader(Slow(160, 0.0), batch_size=8, num_workers=2, collate_fn=collate)
    record, _, waited = measured(tmp_path, loader, work(0.005))
    assert record["DataWaitTime"] == pytest.approx(waited, rel=0.05)
    assert record["LoaderQueueEmptyShare"] > 30


def test_a_slow_checkpoint(tmp_path: Path) -> None:
    state = {"weights": torch.zeros(2_000_000)}
    saves: list[float] = []

    def body(telemetry: Telemetry, batch: Any) -> None:
        time.sleep(0.01)
        if int(batch[0, 0]) % 80 == 0:
            begun = time.perf_counter()
            with telemetry.checkpoint("save") as save:
                torch.save(state, tmp_path / "model.pt")
                time.sleep(0.2)
                save.bytes = (tmp_path / "model.pt").stat().st_size
            saves.append(time.perf_counter() - begun)

    loader = DataLoader(Slow(240, 0.0001), batch_size=8, num_workers=2)
    record, taken, waited = measured(tmp_path, loader, body)
    assert len(saves) == 3
    assert sorted(record["CheckpointSaveTime"]) == pytest.approx(sorted(saves), rel=0.05)
    assert record["CheckpointBlockedTime"] == pytest.approx(sum(saves), rel=0.05)
    assert record["CheckpointSaveBytes"] == pytest.approx(3 * 8_000_000, rel=0.01)
    assert record["DataWaitTime"] == pytest.approx(waited, rel=0.05, abs=0.02)
    # The end of the workers follows the last step, and is a wait.
    assert sum(record["StepTime"]) <= taken - sum(saves)


def test_workers_that_are_kept_for_the_next_epoch_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    telemetry = Telemetry(metrics=f"file:{path}", workload="w", interval_s=3600)
    loader = telemetry.watch(DataLoader(Slow(64, 0.001), batch_size=8, num_workers=2, persistent_workers=True))
    for _ in range(3):
        for _ in loader:
            time.sleep(0.02)
        telemetry.flush()
    telemetry.close()
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [record["Epoch"] for record in records] == [1, 2, 3]
    assert [record["Steps"] for record in records] == [8, 8, 8]
    assert records[-1]["LoaderQueueDepth"] > 1
    assert len(loader) == 8


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    loader = DataLoader(Slow(64, 0.001), batch_size=8)
    record, _, waited = measured(tmp_path, loader, work(0.001), device="cuda")
    if not torch.cuda.is_available():
        assert record["WaitsMeasuredBy"] == "host"
        assert record["DataWaitTime"] == pytest.approx(waited, rel=0.05, abs=0.01)
    else:
        assert record["WaitsMeasuredBy"] == "stream"
