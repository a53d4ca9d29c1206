"""Handlers of signals that raise while telemetry has the thread: what they raise is training's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder
from training_storage.node.telemetry import Telemetry


class PreemptedError(Exception):
    """What a scheduler's signal becomes."""


class Handler:
    def method(self, number: int, frame: Any) -> None:
        raise PreemptedError(number)


def function(number: int, frame: Any) -> None:
    raise PreemptedError(number)


def interrupts(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


class Interrupted(Clock):
    """A clock at whose look the signal comes, when it is told so: in the midst of telemetry."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = -1

    def __call__(self) -> int:
        self.looks -= 1
        if self.looks == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        return super().__call__()


def in_a_loop(telemetry: Telemetry, clock: Interrupted, look: int) -> None:
    for number in telemetry.watch(Loader(clock, [0.1] * 8)):
        clock.looks = look if number == 3 else clock.looks


def in_a_save(telemetry: Telemetry, clock: Interrupted, look: int) -> None:
    clock.looks = look
    with telemetry.checkpoint("save"):
        clock.pass_s(1)


def at_a_step(telemetry: Telemetry, clock: Interrupted, look: int) -> None:
    clock.looks = look
    telemetry.step()
    telemetry.step()


@pytest.mark.parametrize(
    ("handler", "raised"),
    [(function, PreemptedError), (Handler().method, PreemptedError), (interrupts, KeyboardInterrupt)],
    ids=["function", "method", "KeyboardInterrupt"],
)
@pytest.mark.parametrize("look", [1, 2])
@pytest.mark.parametrize("train", [in_a_loop, in_a_save, at_a_step])
def test_what_a_handler_raises_reaches_training(
    train: Callable[[Telemetry, Interrupted, int], None], look: int, handler: Any, raised: type[BaseException]
) -> None:
    clock, kept = Interrupted(), Kept()
    telemetry = recorder(clock, kept, interval_s=3600)
    telemetry.epoch(1)
    signal.signal(signal.SIGUSR1, handler)
    with pytest.raises(raised):
        train(telemetry, clock, look)
    telemetry.flush()
    before = kept.total("CheckpointBlockedTime"), len(kept.all("CheckpointSaveTime"))

    with telemetry.checkpoint("save"):
        clock.pass_s(2)
    clock.pass_s(100)
    telemetry.flush()

    assert kept.total("CheckpointBlockedTime") - before[0] == pytest.approx(2)
    assert len(kept.all("CheckpointSaveTime")) - before[1] == 1


def test_faults_of_a_loader_are_still_no_faults_of_training(caplog: pytest.LogCaptureFixture) -> None:
    clock, kept = Clock(), Kept()
    telemetry = recorder(clock, kept)
    signal.signal(signal.SIGUSR1, function)

    def size(_: object) -> int:
        raise PreemptedError("not by a signal")

    assert len(list(telemetry.watch(Loader(clock, [0.1] * 3), batch_bytes=size))) == 3
    assert len(caplog.messages) == 1
