"""The files of an emulated Lustre file system, as a test looks at them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from training_storage.emulator.services import fsx_files, fsx_repository, fsx_tasks


class EmulatedFileSystem:
    """A directory that stands for a Lustre file system, and what HSM knows about its files.

    Reading the directory itself gives zeros where a file is released: only ``read`` and Python programs on emulated
    nodes bring the data back, as any read does on Lustre.

    Attributes:
        id: Id of the file system.
        path: The directory; what a node has mounted.
    """

    def __init__(self, backend: Any, file_system_id: str) -> None:
        self._backend = backend
        self.id = file_system_id
        self._files = fsx_files.states(file_system_id)
        self.path: Path = self._files.root

    def files(self, path: str = "") -> list[str]:
        """Return the files at or below a path, as paths below the root, in order.

        Args:
            path: Path below the root; the whole file system when left out.
        """
        return list(fsx_files.walk(self.path, path.strip("/")))

    def write(self, path: str, data: bytes | str = b"") -> Path:
        """Write a file, with the folders that it needs; return where it lies.

        Args:
            path: Path below the root.
            data: Content; text is written as UTF-8.
        """
        place = self.path / path.strip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.encode() if isinstance(data, str) else data)
        return place

    def read(self, path: str) -> bytes:
        """Read a file as a node would: one that is released is brought back first.

        Args:
            path: Path below the root.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: The object of a released file is gone or archived.
        """
        fsx_files.restore(self.id, path.strip("/"))
        return (self.path / path.strip("/")).read_bytes()

    def hsm_state(self, path: str) -> list[str]:
        """Return the HSM flags of a file: of ``released``, ``exists``, ``dirty``, ``archived``; empty for a new one.

        Args:
            path: Path below the root.

        Raises:
            FileNotFoundError: There is no such file.
        """
        return self._files.flags(path.strip("/"))

    def released(self) -> list[str]:
        """Return the files whose data is in the bucket only."""
        return [path for path in self.files() if "released" in self.hsm_state(path)]

    def not_exported(self) -> list[str]:
        """Return the files that are not in a bucket as they are here, under a link or not."""
        return [path for path in self.files() if fsx_files.changed(self._files, path)]

    def used(self) -> int:
        """Return what the files take on the file system, in bytes: released ones nothing."""
        return self._files.used()

    def limit_space(self, size: int | None) -> None:
        """Let restores fail that would take the file system beyond a size; writing goes on as the disk allows.

        Args:
            size: Bytes; None for no limit.
        """
        self._files.describe(limit=size)

    def age(self, path: str, seconds: float) -> None:
        """Make a file look as if it had last been written and read some time ago; its HSM state stays as it is.

        Args:
            path: Path below the root.
            seconds: How long ago.
        """
        relative = path.strip("/")
        place = self.path / relative
        state, dirty = self._files.state(relative)
        found = place.stat()
        back = round(seconds * 1e9)
        os.utime(place, ns=(found.st_atime_ns - back, found.st_mtime_ns - back))
        if state is not None and not dirty:
            state.mtime_ns = place.stat().st_mtime_ns
            self._files.record(state)

    def queue_age(self, publisher: str = "AutoExport") -> float | None:
        """Return the age of the oldest change that automatic export or import has not done, in seconds.

        Args:
            publisher: ``AutoExport`` or ``AutoImport``.

        Returns:
            0 where nothing waits; None where no link has the policy.
        """
        return fsx_files.queue_age(self.id, self._links(), publisher)

    def settle(self) -> list[str]:
        """Do what FSx does by itself after a while; see ``Emulator.settle``."""
        fsx_tasks.finish(self._backend, self.id)
        failing = fsx_repository.store(self._backend).behaviour(self.id).failing
        return fsx_files.settle(self.id, self._links(), failing)

    def _links(self) -> list[fsx_files.Link]:
        return [fsx_files.link_of(item) for item in fsx_repository.store(self._backend).links(self.id)]
