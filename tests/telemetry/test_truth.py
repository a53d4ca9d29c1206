"""Runs of random shape on a simulated clock: what arrives over all records is what happened."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder


class Run:
    """Epochs with saves, restores, evaluations, early ends and records in between, and the truth of them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock, self.kept = Clock(), Kept()
        self.telemetry = recorder(self.clock, self.kept, interval_s=self.random.choice([1, 5, 60, 1000]))
        self.truth: Counter[str] = Counter()

    def some(self, share: float) -> bool:
        return self.random.random() < share

    def time(self) -> float:
        return self.random.choice([0, 0.001, 0.1, 1, 7, 33, 90]) * self.random.random()

    def spend(self, seconds: float, *names: str) -> None:
        before = self.clock.now
        self.clock.pass_s(seconds)
        self.count((self.clock.now - before) * 1e-9, *names)

    def count(self, value: float, *names: str) -> None:
        for name in names:
            self.truth[name] += value  # type: ignore[assignment] # a sum of seconds

    def checkpoint(self, kind: str, metric: str) -> None:
        with self.telemetry.checkpoint(kind):
            for _ in range(3):
                self.spend(self.time(), "ElapsedTime", "CheckpointBlockedTime", metric)
                if self.some(0.2):
                    self.telemetry.flush()

    def loop(self, name: str, steps: tuple[str, ...]) -> None:
        waits = [self.time() for _ in range(self.random.randint(0, 7))]
        ends = self.some(0.2)
        for number in self.telemetry.watch(Loader(self.clock, waits), name=name):
            self.count(round(waits[number] * 1e9) * 1e-9, "ElapsedTime", "DataWaitTime", *steps)
            self.spend(self.time(), "ElapsedTime", *steps)
            self.count(1, *(["Steps"] if steps else []))
            if self.some(0.2):
                self.checkpoint("save", "CheckpointSaveTime")
            if steps and self.some(0.1):
                self.loop("eval", ())
            if self.some(0.1):
                self.telemetry.flush()
            if ends and self.some(0.3):
                break

    def train(self) -> None:
        for _ in range(self.random.randint(1, 4)):
            if self.some(0.4):
                self.checkpoint("restore", "RestoreTime")
            self.loop("train", ("StepTime",))
            if self.some(0.4):
                self.loop("eval", ())
            if self.some(0.3):
                self.spend(self.time())
        self.telemetry.close()


@pytest.mark.parametrize("start", range(0, 200, 50))
def test_sums_over_all_records_are_what_happened(start: int) -> None:
    for seed in range(start, start + 50):
        run = Run(seed)
        run.train()
        names = ("DataWaitTime", "CheckpointBlockedTime", "Steps", "StepTime", "CheckpointSaveTime", "RestoreTime")
        for name in ("ElapsedTime", *names):
            assert run.kept.total(name) == pytest.approx(run.truth[name], rel=1e-3, abs=1e-5), (seed, name)
