"""What Lustre's HSM knows about the files of an emulated file system: which are in the bucket, which have no data here.

The state of a file lies beside the file system, never in it: a walk of the directory sees the user's files alone. One
small file each, replaced whole, so that the emulator and ``lfs`` on emulated nodes can write it side by side. Standard
library only: ``lfs`` starts for every file that is restored.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FILES = "files"
"""Folder with one folder for each file system: what a mount shows."""

_STATES = "hsm"
_ABOUT = "about"
_BITS = {"exists": 0x1, "dirty": 0x2, "released": 0x4, "archived": 0x8, "noarchive": 0x20, "lost": 0x40}
# The order in which ``lfs hsm_state`` writes them (lfs_hsm_state in Lustre's lfs.c).
_SHOWN = ("released", "exists", "dirty", "archived", "noarchive", "lost")


@dataclass
class State:
    """What is known about one file.

    Attributes:
        path: Path below the root of the file system, without a leading slash.
        bucket: Bucket that has a copy.
        key: Key of the copy.
        etag: ETag of the copy, without quotes.
        size: Size that the copy stands for, in bytes.
        mtime_ns: Modification time that the copy stands for.
        inode: The file that was copied; another one under the same name is a new file.
        released: Whether the data lies in the bucket only.
    """

    path: str
    bucket: str
    key: str
    etag: str
    size: int
    mtime_ns: int
    inode: int
    released: bool


class FileStates:
    """States of the files of one file system.

    Attributes:
        root: Directory that stands for the file system.
    """

    def __init__(self, base: Path, file_system_id: str) -> None:
        self.root = base / FILES / file_system_id
        self._states = base / _STATES / file_system_id

        self._about = base / _ABOUT / f"{file_system_id}.json"

    def create(self) -> None:
        """Make the folders."""
        self.root.mkdir(parents=True, exist_ok=True)
        self._states.mkdir(parents=True, exist_ok=True)
        self._about.parent.mkdir(exist_ok=True)

    def remove(self) -> None:
        """Delete the files and all that is known about them."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.rmtree(self._states, ignore_errors=True)
        self._about.unlink(missing_ok=True)

    def describe(self, **more: object) -> None:
        """Keep facts that processes on nodes need: ``mount_name``, ``capacity``, ``limit``, ``links``."""
        place = self._about.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        place.write_text(json.dumps({**self._facts(), **more}), encoding="utf-8")
        place.replace(self._about)

    def _facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = json.loads(self._about.read_bytes())
        except FileNotFoundError:
            return {}
        return facts

    def limit(self) -> int | None:
        """Return the bytes beyond which nothing is restored; None where nobody set any."""
        found = self._facts().get("limit")
        return None if found is None else int(found)

    def described(self) -> tuple[str, int]:
        """Return mount name and capacity in bytes."""
        facts = self._facts()
        return str(facts.get("mount_name", "fsx")), int(facts.get("limit") or facts.get("capacity") or 0)

    def link_of(self, path: str) -> tuple[str, str] | None:
        """Return bucket and key of a file; None where no link holds it."""
        for folder, bucket, prefix in self._facts().get("links", ()):
            if not folder or path.startswith(folder + "/"):
                return str(bucket), str(prefix) + path[len(folder) :].lstrip("/")
        return None

    def used(self) -> int:
        """Return what the files take, in bytes: released ones nothing."""
        total = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                with suppress(FileNotFoundError):
                    total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - many files
        return total

    def _place(self, path: str) -> Path:
        return self._states / hashlib.sha256(os.fsencode(path)).hexdigest()

    def recorded(self, path: str) -> State | None:
        """Return what was last recorded for a path, whatever lies there now."""
        try:
            return State(**json.loads(self._place(path).read_bytes()))
        except FileNotFoundError:
            return None

    def all_recorded(self) -> Iterator[State]:
        """Yield everything that was recorded, also for files that are gone."""
        for place in sorted(self._states.iterdir()):
            if place.suffix:
                continue
            try:
                yield State(**json.loads(place.read_bytes()))
            except FileNotFoundError:
                continue

    def record(self, state: State) -> None:
        """Keep the state of a file."""
        place = self._place(state.path)
        partial = place.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
        partial.write_text(json.dumps(asdict(state)), encoding="utf-8")
        partial.replace(place)

    def forget(self, path: str) -> None:
        """Drop what is known about a path."""
        self._place(path).unlink(missing_ok=True)

    def state(self, path: str) -> tuple[State | None, bool]:
        """Return the state of the file that lies at a path now, and whether it was changed since it was copied.

        Args:
            path: Path below the root.

        Raises:
            FileNotFoundError: There is no such file.
        """
        found = (self.root / path).lstat()
        state = self.recorded(path)
        if state is None or state.inode != found.st_ino:
            return None, False
        return state, (state.size, state.mtime_ns) != (found.st_size, found.st_mtime_ns)

    def flags(self, path: str) -> list[str]:
        """Return the HSM flags of a file, in the order in which ``lfs`` shows them.

        Raises:
            FileNotFoundError: There is no such file.
        """
        state, dirty = self.state(path)
        if state is None:
            return []
        given = {"exists", "archived"}
        if dirty:
            given.add("dirty")
        elif state.released:
            given.add("released")
        return [name for name in _SHOWN if name in given]

    def release(self, path: str) -> bool:
        """Give up the data of a file that is in the bucket as it is here.

        Returns:
            Whether its data was given up, now or before.
        """
        state, dirty = self.state(path)
        place = self.root / path
        if state is None or dirty or not stat.S_ISREG(place.lstat().st_mode):
            return False
        if not state.released:
            before = place.stat()
            sparse(place, state.size)
            os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
            state.released = True
            self.record(state)
        return True

    def restored(self, path: str, data: bytes) -> None:
        """Put the data of a released file back; its times and its inode stay.

        Args:
            path: Path below the root.
            data: Content of the object.
        """
        state, _ = self.state(path)
        place = self.root / path
        before = place.stat()
        descriptor = os.open(place, os.O_WRONLY)
        try:
            _write(descriptor, data)
            os.ftruncate(descriptor, len(data))
        finally:
            os.close(descriptor)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
        if state is not None:
            state.released = False
            self.record(state)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def sparse(place: Path, size: int) -> None:
    """Make a file a hole of a size; what it held is gone."""
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.ftruncate(descriptor, 0)
        os.ftruncate(descriptor, size)
    finally:
        os.close(descriptor)


def mask(flags: list[str]) -> int:
    """Return HSM flags as the number that ``lfs hsm_state`` prints."""
    return sum(_BITS[name] for name in flags)


def find(path: Path) -> tuple[FileStates, str] | None:
    """Return the file system that a path lies in and the path below its root; None where it lies in none.

    Args:
        path: Any path, through links or not; it need not exist.
    """
    target = Path(os.path.realpath(path))
    # a link inside a file system is a file of its own; one that leads into it, such as a mount, is not
    for place in (Path(os.path.realpath(path.parent)) / path.name, target):
        for folder in (place, *place.parents):
            if folder.parent.name == FILES and (folder.parent.parent / _STATES / folder.name).is_dir():
                relative = place.relative_to(folder).as_posix()
                return FileStates(folder.parent.parent, folder.name), "" if relative == "." else relative
    return None
