"""Figures of loops whose truth is known, by a simulated clock."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator

import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_a_slow_loader(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(Loader(clock, lambda _: 0.3, 1000), batch_bytes=4096):
        clock.pass_s(0.1)
    telemetry.close()
    assert kept.total("ElapsedTime") == pytest.approx(400)
    assert kept.total("DataWaitTime") == pytest.approx(300)
    assert kept.total("Steps") == 1000
    assert kept.total("TrainingReadBytes") == 4096 * 1000
    assert kept.last["DataWaitShare"] == pytest.approx(75, rel=0.02)
    assert kept.all("StepTime") == pytest.approx([0.4] * len(kept.all("StepTime")))
    assert kept.all("LoaderQueueEmptyShare") == [100.0] * len(kept.records)
    assert len(kept.records) == 7
    assert [record["IntervalSeconds"] for record in kept.records[:6]] == pytest.approx([60] * 6, abs=0.4)


def test_a_loop_that_computes(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(Loader(clock, lambda _: 0.0001, 500)):
        clock.pass_s(0.2)
    telemetry.close()
    assert kept.total("DataWaitTime") == pytest.approx(0.05)
    assert kept.all("LoaderQueueEmptyShare") == [0.0] * len(kept.records)
    assert kept.total("ElapsedTime") == pytest.approx(100.05)


def test_a_wait_of_one_per_cent_of_a_step_is_no_empty_queue(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(Loader(clock, [0.004, 0.004, 0.02, 0.004])):
        clock.pass_s(1)
    telemetry.close()
    assert kept.all("LoaderQueueEmptyShare") == [25.0]


def test_slow_steps_and_their_variation(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for number in telemetry.watch(Loader(clock, lambda _: 0.0, 40)):
        clock.pass_s(0.5 if number % 2 else 1.5)
    telemetry.close()
    assert kept.last["StepTimeVariation"] == pytest.approx(50)
    assert sorted(set(kept.last["StepTime"])) == [0.5, 1.5]
    assert kept.last["Steps"] == 40


def test_a_checkpoint_is_neither_wait_nor_step(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for number in telemetry.watch(Loader(clock, lambda _: 0.1, 100)):
        clock.pass_s(0.9)
        if number % 10 == 9:
            with telemetry.checkpoint("save", bytes=7) as save:
                clock.pass_s(5)
                save.bytes = 10**9
    telemetry.close()
    assert kept.total("ElapsedTime") == pytest.approx(150)
    assert kept.total("CheckpointBlockedTime") == pytest.approx(50)
    assert kept.all("CheckpointSaveTime") == pytest.approx([5] * 10)
    assert kept.total("CheckpointSaveBytes") == 10**10
    assert kept.total("DataWaitTime") == pytest.approx(10)
    assert kept.all("StepTime") == pytest.approx([1] * 100)


def test_a_save_beside_training_does_not_block(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    begun, ends = threading.Event(), threading.Event()

    def save() -> None:
        with telemetry.checkpoint("save"):
            begun.set()
            ends.wait(10)

    thread = threading.Thread(target=save)
    for number in telemetry.watch(Loader(clock, lambda _: 0.0, 10)):
        if number == 2:
            thread.start()
            assert begun.wait(10)
        clock.pass_s(1)
        if number == 6:
            ends.set()
            thread.join()
    telemetry.close()
    assert kept.all("CheckpointSaveTime") == pytest.approx([5])
    assert kept.total("CheckpointBlockedTime") == 0
    assert kept.all("StepTime") == pytest.approx([1] * 10)


def test_a_restore_before_the_loop_and_a_save_after_it_hold_it_up(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    with telemetry.checkpoint("restore"):
        clock.pass_s(30)
    clock.pass_s(1000)
    for _ in telemetry.watch(Loader(clock, [0.0] * 5)):
        clock.pass_s(1)
    with telemetry.checkpoint("save"):
        clock.pass_s(10)
    telemetry.close()
    assert kept.all("RestoreTime") == pytest.approx([30])
    assert kept.total("CheckpointBlockedTime") == pytest.approx(40)
    assert kept.total("ElapsedTime") == pytest.approx(45)


def test_a_failed_save_blocks_but_is_none(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(Loader(clock, [0.0])):
        with pytest.raises(OSError, match="full"), telemetry.checkpoint("save"):  # noqa: PT012 - the clock moves
            clock.pass_s(3)
            raise OSError("full")
    telemetry.close()
    assert kept.all("CheckpointSaveTime") == []
    assert kept.total("CheckpointBlockedTime") == pytest.approx(3)


def test_a_long_wait_and_a_long_save_are_shared_among_intervals(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)

    def minutes(count: int) -> None:
        for _ in range(count):
            clock.pass_s(60)
            telemetry.flush()

    def batches() -> Iterator[int]:
        yield 1
        minutes(3)
        yield 2

    for number in telemetry.watch(batches()):
        if number == 2:
            clock.pass_s(30)
            with telemetry.checkpoint("save"):
                minutes(2)
                clock.pass_s(15)
    telemetry.close()
    assert kept.all("ElapsedTime") == pytest.approx([60, 60, 60, 90, 60, 15])
    assert kept.all("DataWaitTime") == pytest.approx([60, 60, 60, 0, 0, 0])
    assert kept.all("CheckpointBlockedTime") == pytest.approx([0, 0, 0, 60, 60, 15])
    assert kept.all("CheckpointSaveTime") == pytest.approx([135])
    assert kept.all("StepTime") == pytest.approx([0, 210])


def test_several_batches_a_step(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for number in telemetry.watch(Loader(clock, lambda _: 0.1, 40)):
        clock.pass_s(0.4)
        if number % 4 == 3:
            telemetry.step()
    telemetry.close()
    assert kept.total("Steps") == 10
    assert kept.all("StepTime") == pytest.approx([2] * 10)
    assert kept.total("DataWaitTime") == pytest.approx(4)


def test_steps_without_a_loader(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for number in range(11):
        telemetry.step()
        clock.pass_s(2)
        if number == 4:
            with telemetry.checkpoint("save"):
                clock.pass_s(7)
    telemetry.close()
    assert kept.all("StepTime") == pytest.approx([2] * 10)
    assert kept.total("ElapsedTime") == pytest.approx(27)
    assert kept.total("CheckpointBlockedTime") == pytest.approx(7)
    assert "DataWaitTime" not in kept.last


def test_epochs(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    loader = Loader(clock, [0.0] * 10)
    for _ in range(3):
        for _ in telemetry.watch(loader):
            clock.pass_s(1)
        telemetry.flush()
    for _ in telemetry.watch(loader):
        break
    telemetry.flush()
    for _ in telemetry.watch(loader):
        clock.pass_s(1)
    telemetry.flush()
    assert kept.all("Epoch") == [1, 2, 3, 4, 4]


@pytest.mark.parametrize(("told", "said"), [([0, 1, 2], [1, 2, 3]), ([1, 2], [1, 2]), ([7, 8], [7, 8])])
def test_epochs_that_training_tells(told: list[int], said: list[int], clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for number in told:
        telemetry.epoch(number)
        for _ in telemetry.watch(iter([1, 2])):
            clock.pass_s(1)
        telemetry.flush()
    assert kept.all("Epoch") == said


def test_an_iterator_says_nothing_of_epochs(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(iter([1, 2])):
        clock.pass_s(1)
    telemetry.close()
    assert kept.all("Epoch") == []


def test_an_evaluation_inside_a_step_is_no_part_of_it(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for number in telemetry.watch(Loader(clock, lambda _: 0.1, 10)):
        clock.pass_s(0.9)
        if number == 5:
            for _ in telemetry.watch(Loader(clock, lambda _: 0.2, 10), name="eval"):
                clock.pass_s(0.3)
    telemetry.close()
    assert kept.all("StepTime") == pytest.approx([1] * 10)
    assert kept.total("Steps") == 10
    assert kept.total("DataWaitTime") == pytest.approx(3)
    assert kept.total("ElapsedTime") == pytest.approx(15)


def test_two_loaders_side_by_side(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    images = telemetry.watch(Loader(clock, lambda _: 0.1, 10), name="images", batch_bytes=10)
    texts = telemetry.watch(Loader(clock, lambda _: 0.2, 10), name="texts", batch_bytes=1)
    for _ in zip(images, texts, strict=True):
        clock.pass_s(0.7)
    telemetry.close()
    assert kept.total("Steps") == 10
    assert kept.all("StepTime") == pytest.approx([1] * 10)
    assert kept.total("DataWaitTime") == pytest.approx(3)
    assert kept.total("ElapsedTime") == pytest.approx(10)
    assert kept.total("TrainingReadBytes") == 110


@pytest.mark.parametrize("tail", [1.1, 2.0, 5.0])
def test_the_mean_of_the_values_is_the_mean_of_the_steps(tail: float, clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=3600)
    drawn = random.Random(7)
    times = [round(0.0001 * drawn.paretovariate(tail), 9) for _ in range(50_000)]
    for number in telemetry.watch(Loader(clock, lambda _: 0.0, len(times))):
        clock.pass_s(min(times[number], 0.5))
    telemetry.close()
    truth = [min(each, 0.5) for each in times]
    values = kept.last["StepTime"]
    assert len(values) == 100
    assert sum(values) / 100 == pytest.approx(sum(truth) / len(truth), rel=1e-4)
    ordered = sorted(truth)
    assert values[49] == pytest.approx(ordered[len(truth) // 2], rel=0.05)
    assert values[89] == pytest.approx(ordered[int(len(truth) * 0.9)], rel=0.1)


def test_steps_of_several_batches_stay_such_over_epochs_and_intervals(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept, interval_s=5)
    for _ in range(40):
        for number in telemetry.watch(Loader(clock, [0.25] * 8)):
            clock.pass_s(0.75)
            if number % 4 == 3:
                telemetry.step()
    telemetry.flush()
    first = kept.total("Steps")
    for _ in range(3):
        for _ in telemetry.watch(Loader(clock, [0.25] * 8)):
            clock.pass_s(0.75)
    telemetry.flush()

    assert first == pytest.approx(80, abs=3)
    assert kept.total("Steps") - first == 16


def test_a_step_that_ends_as_its_interval_begins_is_counted(clock: Clock, kept: Kept) -> None:
    telemetry = recorder(clock, kept)
    for _ in telemetry.watch(Loader(clock, [0.5] * 4)):
        clock.pass_s(0.5)
        telemetry.flush()
    telemetry.flush()

    assert kept.total("Steps") == len(kept.all("StepTime")) == 4
