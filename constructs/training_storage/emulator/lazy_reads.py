"""Python programs on emulated nodes read released files as on Lustre: opening one to read brings its data back first.

Loaded by a ``sitecustomize`` that the emulator puts on the path of nodes. It also lets such programs see the time that
a test has let pass. Standard library only. Programs in other languages read zeros.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from training_storage.emulator import hsm, lfs

CLOCK = "TRAINING_STORAGE_EMULATOR_CLOCK"
"""Variable with the seconds by which the emulator's time is ahead."""

FILES = "TRAINING_STORAGE_EMULATOR_FILES"
"""Variable with the folder that has one folder for each file system."""

_busy = threading.local()


def _opened(event: str, given: tuple[Any, ...]) -> None:
    if event != "open" or getattr(_busy, "now", False):
        return
    path, mode, flags = given
    if not isinstance(path, str | bytes | os.PathLike):
        return
    emptied = "w" in mode if isinstance(mode, str) else bool(flags & os.O_TRUNC)
    if emptied:
        return
    _busy.now = True
    try:
        place = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - for every open of the program: text is quicker
        roots = (os.environ.get(FILES), os.environ.get("TS_ROOT"))
        if not any(root and place.startswith(root) for root in roots):
            return
        found = hsm.find(Path(place))
        if found is None:
            return
        try:
            there = lfs.bring(*found)
        except FileNotFoundError:
            return
        if not there:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA), place)
    finally:
        _busy.now = False


def _open_below(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
    """Open like ``os.open``; what is opened below a folder is watched too, for its event has the bare name alone."""
    if dir_fd is not None and not os.path.isabs(path):  # noqa: PTH117 - as above
        folder = os.readlink(f"/proc/self/fd/{dir_fd}")  # noqa: PTH115 - as above
        _opened("open", (os.path.join(folder, os.fsdecode(path)), None, flags))  # noqa: PTH118 - as above
    return _os_open(path, flags, mode, dir_fd=dir_fd)


_os_open = os.open


def install() -> None:
    """Watch what this process opens, and set its clock."""
    sys.addaudithook(_opened)
    if os.path.isdir("/proc/self/fd"):  # noqa: PTH112 - as above
        os.open = _open_below
    ahead = float(os.environ.get(CLOCK) or 0)
    if ahead:
        real, real_ns = time.time, time.time_ns
        time.time = lambda: real() + ahead
        time.time_ns = lambda: real_ns() + round(ahead * 1e9)
