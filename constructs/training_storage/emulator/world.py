"""What one emulator has beside the emulated services: a folder for files, and a clock that a test can set ahead."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from training_storage.emulator.hsm import FILES


@dataclass
class World:
    """The surroundings of one emulator.

    Attributes:
        folder: Folder for files of file systems and nodes.
        ahead: By how much its clock is ahead of the real one, in seconds.
        metrics_lag: How old a minute is, in seconds after its end, when CloudWatch has its datapoint. Below zero,
            minutes are known before they are over.
    """

    folder: Path
    ahead: float = 0.0
    metrics_lag: float = 0.0


_worlds: list[World] = []

at_end: list[Callable[[], None]] = []
"""What is called before the files of an emulator go: nobody may still write them."""


@contextmanager
def surroundings() -> Iterator[World]:
    """Make the surroundings of an emulator; its folder goes with it."""
    with tempfile.TemporaryDirectory(prefix="training-storage-files-", ignore_cleanup_errors=True) as name:
        world = World(Path(name).resolve())
        (world.folder / FILES).mkdir()
        _worlds.append(world)
        try:
            yield world
        finally:
            for end in at_end:
                end()
            _worlds.remove(world)


def current() -> World:
    """Return the surroundings of the emulator that runs."""
    return _worlds[-1]


def running() -> bool:
    """Say whether an emulator runs that was begun with its surroundings."""
    return bool(_worlds)


def now() -> float:
    """Return the emulator's time, seconds since 1970: the real one and what a test has let pass."""
    return time.time() + (_worlds[-1].ahead if _worlds else 0.0)


def advance(seconds: float) -> None:
    """Let time pass."""
    if _worlds:
        _worlds[-1].ahead += seconds
