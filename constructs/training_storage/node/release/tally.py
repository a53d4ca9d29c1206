"""Counts of the classes of a survey or a manifest, and the places that an export names: bounded, however many files."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from .sorting import BLOCKING, CLASSES, KEEP, Found

NAMES = 100
"""Names that are listed of a class."""

MOST_PLACES = 2_000
"""Paths that export tasks are given, 100 a task."""

_GROUPS = 2_000
_SHOWN = 20


class Tally:
    """Counts files and bytes by class, lists the first names, and adds up where the most lies.

    Args:
        mount: Where the file system is mounted.
    """

    def __init__(self, mount: str) -> None:
        self._depth = mount.rstrip("/").count("/")
        self._classes: dict[str, dict[str, Any]] = {name: {"files": 0, "bytes": 0, "names": []} for name in CLASSES}
        self._groups: dict[str, dict[str, list[int]]] = {name: {} for name in BLOCKING}
        self._few: dict[str, dict[str, list[int]]] = {name: {} for name in BLOCKING}
        self.files = 0
        self.bytes = 0

    def add(self, found: Found) -> None:
        """Count one file."""
        held = self._classes[found.kind]
        held["files"] += 1
        held["bytes"] += found.size
        if len(held["names"]) < NAMES:
            held["names"].append(found.path)
        self.files += 1
        self.bytes += found.size
        if found.kind in self._groups:
            self._group(self._groups[found.kind], found)
            if len(self._few[found.kind]) <= _SHOWN:
                self._few[found.kind][found.path] = [1, found.size]

    def _group(self, groups: dict[str, list[int]], found: Found) -> None:
        parts = found.path.split("/")
        inner = len(parts) - 1 - self._depth
        for deep in (2, 1):
            name = "/".join(parts[: self._depth + 1 + min(deep, max(inner - 1, 1))])
            if name in groups or len(groups) < _GROUPS or deep == 1:
                held = groups.setdefault(name, [0, 0])
                held[0] += 1
                held[1] += found.size
                return

    def to_dict(self) -> dict[str, Any]:
        """Return the classes that have files: files, bytes, first names; of those that block, the biggest places.

        Few files are their own places, so that each can be put right, or left, by its name.
        """
        shown: dict[str, Any] = {}
        for name, held in self._classes.items():
            if not held["files"]:
                continue
            shown[name] = {**held, "why": CLASSES[name]}
            if name in self._groups:
                places = self._few[name] if len(self._few[name]) <= _SHOWN else self._groups[name]
                biggest = sorted(places.items(), key=lambda each: (-each[1][1], each[0]))[:_SHOWN]
                shown[name]["biggest"] = [
                    {"path": path, "files": files, "bytes": size} for path, (files, size) in biggest
                ]
        return shown


class Places:
    """Finds the fewest paths that hold exactly the files that export tasks must take.

    A directory that holds nothing else is one path. Files come in the order of a walk, a directory's at a stretch.

    Args:
        mount: Where the file system is mounted; it is never a path itself.
        mixed: Directories, as nodes name them, that are never named as a whole; it may grow while files come.

    Attributes:
        paths: The paths so far, relative to the mount as FSx wants them.
        too_many: Whether there were more than ``MOST_PLACES``.
    """

    def __init__(self, mount: str, mixed: Container[str] = ()) -> None:
        self._mount = mount.rstrip("/")
        self._mixed = mixed
        self._open: list[_Folder] = [_Folder("")]
        self.paths: list[str] = []
        self.too_many = False

    def add(self, found: Found) -> None:
        """Take the next file of the walk."""
        inner = found.path[len(self._mount) + 1 :]
        folder, _, _ = inner.rpartition("/")
        self._go_to(folder)
        here = self._open[-1]
        if found.kind == KEEP and found.way == "task":
            here.take(inner)
        else:
            here.whole = False

    def close(self) -> list[str]:
        """End the walk, and return the paths."""
        self._go_to("")
        root = self._open[0]
        self._emit(root.kept)
        self.too_many = self.too_many or root.lost
        return self.paths

    def _go_to(self, folder: str) -> None:
        while self._open[-1].path and not (folder + "/").startswith(self._open[-1].path + "/"):
            self._close(self._open.pop())
        here = self._open[-1].path
        for part in filter(None, folder[len(here) :].strip("/").split("/")):
            here = f"{here}/{part}" if here else part
            self._open.append(_Folder(here))

    def _close(self, folder: _Folder) -> None:
        above = self._open[-1]
        if folder.whole and f"{self._mount}/{folder.path}" not in self._mixed:
            above.take(folder.path)
            return
        above.whole = False
        self._emit(folder.kept)
        self.too_many = self.too_many or folder.lost

    def _emit(self, paths: list[str]) -> None:
        room = MOST_PLACES - len(self.paths)
        self.too_many = self.too_many or len(paths) > room
        self.paths += paths[:room]


class _Folder:
    def __init__(self, path: str) -> None:
        self.path = path
        self.whole = True
        self.lost = False
        self.kept: list[str] = []

    def take(self, path: str) -> None:
        if len(self.kept) < MOST_PLACES:
            self.kept.append(path)
        else:
            self.lost = True


def blocking(classes: dict[str, Any], limit: int = _SHOWN) -> list[dict[str, Any]]:
    """Return what keeps a release from going on: class, path, files and bytes, the biggest first."""
    found = [
        {"class": name, **place} for name in BLOCKING if name in classes for place in classes[name].get("biggest", ())
    ]
    return sorted(found, key=lambda each: (-each["bytes"], each["path"]))[:limit]
