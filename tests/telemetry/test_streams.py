"""Waits measured on the GPU's stream, against a simulated GPU that works behind the host."""

from __future__ import annotations

from typing import Any

import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder


class Event:
    def __init__(self, clock: Clock, when: int) -> None:
        self._clock = clock
        self.when = when

    def query(self) -> bool:
        return self._clock.now >= self.when

    def elapsed_time(self, later: Any, /) -> float:
        assert self.query()
        assert later.query()
        return float(later.when - self.when) * 1e-6


class Gpu:
    """Work is handed over at once and done in order; an event is passed when all before it is done."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.done = clock.now

    def run(self, seconds: float) -> None:
        self.done = max(self.done, self._clock.now) + round(seconds * 1e9)

    def record(self) -> Event:
        # An event that is recorded while the GPU is idle is passed at once, and is where it stands from then on.
        self.done = max(self.done, self._clock.now)
        return Event(self._clock, self.done)

    def synchronize(self) -> None:
        self._clock.now = max(self._clock.now, self.done)


class Watching(Loader):
    """Knows how long the GPU was idle between the question for a batch and its coming."""

    def __init__(self, clock: Clock, wait: float, count: int, gpu: Gpu) -> None:
        super().__init__(clock, lambda _: wait, count)
        self.idle_ns = 0
        self._gpu = gpu

    def __iter__(self) -> Any:
        inner = super().__iter__()
        while True:
            asked, done = self._clock.now, self._gpu.done
            try:
                batch = next(inner)
            except StopIteration:
                return
            self.idle_ns += max(self._clock.now - max(asked, done), 0)
            yield batch


@pytest.mark.parametrize(
    ("wait", "work", "every"),
    [
        pytest.param(0.08, 0.1, 0, id="hidden behind the GPU"),
        pytest.param(0.15, 0.1, 0, id="exposed in part"),
        pytest.param(0.5, 0.01, 0, id="exposed nearly whole"),
        pytest.param(0.08, 0.1, 1, id="with a synchronize each step"),
        pytest.param(0.08, 0.1, 10, id="with a synchronize each ten steps"),
    ],
)
def test_the_exposed_wait_is_measured(wait: float, work: float, every: int) -> None:
    clock, kept = Clock(), Kept()
    gpu = Gpu(clock)
    telemetry = recorder(clock, kept)
    loader = Watching(clock, wait, 300, gpu)
    for number in telemetry.watch(loader, device=gpu):
        gpu.run(work)
        clock.pass_s(0.001)
        if every and number % every == every - 1:
            gpu.synchronize()
    gpu.synchronize()
    telemetry.close()
    assert kept.total("DataWaitTime") == pytest.approx(loader.idle_ns * 1e-9, rel=0.05, abs=0.2)
    assert {record["WaitsMeasuredBy"] for record in kept.records} == {"stream"}
    host = Kept()
    clock = Clock()
    gpu = Gpu(clock)
    telemetry = recorder(clock, host)
    for number in telemetry.watch(Watching(clock, wait, 300, gpu)):
        gpu.run(work)
        clock.pass_s(0.001)
        if every and number % every == every - 1:
            gpu.synchronize()
    telemetry.close()
    assert host.total("DataWaitTime") == pytest.approx(300 * wait)
    assert kept.total("DataWaitTime") <= host.total("DataWaitTime") * 1.0001


def test_a_stream_that_fails_leaves_the_hosts_clock(caplog: pytest.LogCaptureFixture) -> None:
    clock, kept = Clock(), Kept()

    class Captured(Gpu):
        left = 20

        def record(self) -> Event:
            self.left -= 1
            if self.left < 0:
                raise RuntimeError("operation not permitted when stream is capturing")
            return super().record()

    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(Loader(clock, lambda _: 0.1, 100), device=Captured(clock)):
        clock.pass_s(0.1)
    telemetry.close()
    assert kept.total("DataWaitTime") == pytest.approx(10, rel=0.02)
    assert sum("capturing" in message for message in caplog.messages) == 1


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "tpu", 7, "cpu", None])
def test_what_is_no_device_leaves_the_hosts_clock(device: object) -> None:
    clock, kept = Clock(), Kept()
    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(Loader(clock, lambda _: 0.1, 10), device=device):
        clock.pass_s(0.1)
    telemetry.close()
    assert kept.last["DataWaitTime"] == pytest.approx(1)
    assert kept.last["WaitsMeasuredBy"] == "host"


def test_a_gpu_far_behind_keeps_few_events() -> None:
    clock, kept = Clock(), Kept()
    gpu = Gpu(clock)
    gpu.run(10_000)
    telemetry = recorder(clock, kept, interval_s=3600)
    for _ in telemetry.watch(Loader(clock, lambda _: 0.1, 2000), device=gpu):
        clock.pass_s(0.1)
    telemetry.close()
    assert kept.total("DataWaitTime") == 0
    assert kept.total("LoaderQueueEmptyShare") > 99
