"""Loops in and beside one another: each wait, byte and second counts once."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_a_loader_that_is_watched_twice_counts_once(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    inner = telemetry.watch(Loader(clock, lambda _: 0.1, 20), batch_bytes=10)
    for _ in telemetry.watch(inner, batch_bytes=10):
        clock.pass_s(0.9)
    telemetry.flush()

    assert kept.total("ElapsedTime") == pytest.approx(20)
    assert kept.total("DataWaitTime") == pytest.approx(2)
    assert (kept.total("Steps"), kept.total("TrainingReadBytes")) == (20, 200)


@pytest.mark.parametrize("inner_name", ["train", "raw"])
def test_a_loader_that_reads_another_one_makes_the_steps(inner_name: str, clock: Clock, kept: Kept) -> None:
    """Two batches of the inner one, and a second of work on them, make one of the outer one; of this training waits."""
    telemetry = recorder(clock, kept, interval_s=3600)

    def pairs() -> Iterator[list[int]]:
        source = iter(telemetry.watch(Loader(clock, lambda _: 0.5, 20), name=inner_name, batch_bytes=7))
        for one in source:
            two = next(source)
            clock.pass_s(1)
            yield [one, two]

    for _ in telemetry.watch(pairs()):
        clock.pass_s(8)
    telemetry.flush()

    assert (kept.total("Steps"), kept.total("TrainingReadBytes")) == (10, 140)
    assert kept.total("DataWaitTime") == pytest.approx(20)
    assert kept.all("StepTime") == pytest.approx([10] * 10)


class Telling:
    """What is taken from a loader that tells how many batches are ready."""

    def __init__(self, ready: int) -> None:
        self._ready = ready
        self._left = 4
        self._data_queue = self
        self._task_info: dict[int, Any] = {}
        self._tasks_outstanding = 0

    def qsize(self) -> int:
        return self._ready

    def __iter__(self) -> Telling:
        return self

    def __next__(self) -> int:
        self._left -= 1
        if self._left < 0:
            raise StopIteration
        return self._left


def test_the_outer_watch_knows_the_queue_of_the_inner_one_and_keeps_no_pass_of_it(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    passes: list[weakref.ref[Telling]] = []
    held: list[int] = []

    def endless() -> Iterator[int]:
        for _ in range(3):
            one = Telling(3)
            passes.append(weakref.ref(one))
            yield from telemetry.watch(one)
            del one

    gc.freeze()  # only what is made from here on is looked through, which takes no second each time
    for _ in telemetry.watch(endless()):
        clock.pass_s(1)
        gc.collect()
        held.append(sum(each() is not None for each in passes))
    telemetry.flush()

    assert max(held) == 1
    assert kept.last["LoaderQueueDepth"] == pytest.approx(3, abs=1)


@pytest.mark.parametrize("name", ["eval", "val", "Validation", "test/seen", "eval_large"])
def test_an_evaluation_between_epochs_makes_no_steps(name: str, clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    for _ in range(2):
        for _ in telemetry.watch(Loader(clock, lambda _: 0.1, 10)):
            clock.pass_s(0.9)
        for _ in telemetry.watch(Loader(clock, lambda _: 0.05, 10), name=name):
            clock.pass_s(0.05)
    telemetry.flush()

    assert kept.total("Steps") == 20
    assert kept.all("StepTime") == pytest.approx([1] * 20)
    assert kept.total("ElapsedTime") == pytest.approx(22)
    assert kept.total("DataWaitTime") == pytest.approx(3)


def test_loops_of_other_names_are_training(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    for name in ("warmup", "tested", "values"):
        for _ in telemetry.watch(Loader(clock, lambda _: 0.1, 5), name=name):
            clock.pass_s(0.9)
    telemetry.flush()

    assert kept.total("Steps") == 15


def test_a_save_in_an_evaluation_in_a_step_is_taken_out_once(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    for number in telemetry.watch(Loader(clock, lambda _: 0.5, 6)):
        clock.pass_s(4.5)
        if number == 2:
            for each in telemetry.watch(Loader(clock, lambda _: 0.1, 3), name="eval"):
                if each == 1:
                    for _ in telemetry.watch(Loader(clock, lambda _: 0.1, 2), name="val"):
                        clock.pass_s(0.2)
                    with telemetry.checkpoint("save"):
                        clock.pass_s(3)
    telemetry.flush()

    assert kept.all("StepTime") == pytest.approx([5] * 6)
    assert kept.all("CheckpointSaveTime") == pytest.approx([3])


def test_a_loader_that_is_watched_twice_has_its_own_epochs(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    watched = telemetry.watch(telemetry.watch(Loader(clock, lambda _: 0.1, 3)))
    for _ in range(3):
        for _ in watched:
            clock.pass_s(1)
    telemetry.flush()

    assert kept.last["Epoch"] == 3
