"""The folders of a listing, and the small files in them that layouts have to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .model import FileEntry
from .tree import Tree

_READ_LIMIT = 64 << 20
"""Indexes of large models and logs of long runs have megabytes."""


class Folder:
    """A folder with its own files and folders, as the walk saw them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = path.rpartition("/")[2]
        self.files: dict[str, FileEntry] = {}
        self.folders: dict[str, Folder] = {}

    def below(self) -> Iterator[FileEntry]:
        """Yield all files at any depth."""
        yield from self.files.values()
        for each in self.folders.values():
            yield from each.below()

    def walk(self) -> Iterator[Folder]:
        """Yield this folder and all below it."""
        yield self
        for each in self.folders.values():
            yield from each.walk()

    @property
    def modified_ns(self) -> int:
        """When its last file was written; 0 without files."""
        return max((each.modified_ns for each in self.below()), default=0)


class Reader:
    """Small files of a tree, each read once; what is gone, too long or no text is None."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._read: dict[str, bytes | None] = {}

    def load(self, entries: Iterable[FileEntry]) -> None:
        """Read many at once: over S3 one after another would take minutes."""
        wanted = [each for each in entries if each.path not in self._read]
        if len(wanted) < 8:
            return
        with ThreadPoolExecutor(max_workers=16) as pool:
            for each, content in zip(wanted, pool.map(self._fetch, wanted)):
                self._read[each.path] = content

    def text(self, entry: FileEntry | None) -> str | None:
        """Return what a file says, without spaces around it."""
        if entry is None:
            return None
        if entry.path not in self._read:
            self._read[entry.path] = self._fetch(entry)
        content = self._read[entry.path]
        try:
            return None if content is None else content.decode("utf-8").strip()
        except UnicodeDecodeError:
            return None

    def json(self, entry: FileEntry | None) -> dict[str, Any] | None:
        """Return the JSON object in a file; None for everything else."""
        text = self.text(entry)
        try:
            value = json.loads(text) if text else None
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def _fetch(self, entry: FileEntry) -> bytes | None:
        if entry.size > _READ_LIMIT:
            return None
        try:
            return self._tree.read(entry.path, _READ_LIMIT)
        except (FileNotFoundError, NotADirectoryError):
            return None
