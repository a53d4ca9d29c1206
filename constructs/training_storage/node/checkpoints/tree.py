"""What lies below the folder that holds checkpoints: on a file system, or in directory buckets."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Callable, Protocol

from ..aws import MISSING, Aws, code_of
from ..places import HIDDEN
from ..sharding import bucket_index
from .model import FileEntry

READ_LIMIT = 1 << 20
"""Bytes that ``read`` returns at most when it is not told otherwise."""

_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ESTALE})
"""What a walk meets where a training job removes or renames at the same moment."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _nothing() -> None:
    """Do nothing."""


class Tree(Protocol):
    """Files below the folder that holds checkpoints. Paths are relative to it."""

    def files(self, under: str = "") -> Iterator[FileEntry]:
        """Yield every file below a folder, in no order, but those of ours (``.training-storage*``).

        Args:
            under: The folder. Left out: everything.
        """
        ...

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return the first bytes of a file.

        Raises:
            FileNotFoundError: It is not there (any more).
        """
        ...

    def remove(self, path: str) -> None:
        """Remove one file; one that is not there any more is no error."""
        ...


class LocalTree:
    """A folder of a file system: Lustre, or local NVMe.

    Symbolic links are never followed, neither by the walk nor by ``read`` and ``remove``, so that nothing outside the
    folder is ever read or removed. Names that are no UTF-8 keep their bytes as surrogates (PEP 383).
    """

    def __init__(self, root: str) -> None:
        """Stand on a folder.

        Args:
            root: The folder that holds checkpoints, such as ``/fsx/checkpoints``; one that is not there is empty.
        """
        self.root = root
        self.links: dict[str, str] = {}
        """Symbolic links that the last walk met, by path: what each says, not what it leads to."""
        self.tick: Callable[[], None] = _nothing
        """Called with each folder of a walk: one over millions of files takes longer than a lease lasts."""

    def files(self, under: str = "") -> Iterator[FileEntry]:
        """Yield every file below a folder; what vanishes meanwhile is passed over.

        Args:
            under: The folder. Left out: the root.

        Raises:
            OSError: A folder cannot be read. It is not passed over, because a checkpoint that lacks the files of such a
                folder is not the checkpoint.
        """
        if not under:
            self.links = {}
        folders = [under]
        while folders:
            folder = folders.pop()
            self.tick()
            inner = folder + "/" if folder else ""
            try:
                scan = os.scandir(f"{self.root}/{folder}")
            except OSError as error:
                if error.errno in _GONE:
                    continue
                raise
            with scan:
                for entry in scan:
                    name = entry.name
                    if name.startswith(HIDDEN):
                        continue
                    try:
                        if entry.is_symlink():
                            self.links[inner + name] = os.readlink(entry.path)  # noqa: PTH115 - a Path for each file costs more than the walk
                        elif entry.is_dir(follow_symlinks=False):
                            folders.append(inner + name)
                        else:
                            found = entry.stat(follow_symlinks=False)
                            if stat.S_ISREG(found.st_mode):
                                yield FileEntry(inner + name, found.st_size, found.st_mtime_ns)
                    except OSError as error:
                        if error.errno not in _GONE:
                            raise

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return the first bytes of a file.

        Args:
            path: The file.
            limit: Bytes at most. Left out: 1 MiB.

        Raises:
            FileNotFoundError: It is not there (any more).
            OSError: It cannot be read, or is a symbolic link.
            ValueError: The path leads out of the root.
        """
        with self._folder_of(path) as (folder, name):
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
            with os.fdopen(descriptor, "rb") as stream:
                return stream.read(limit)

    def remove(self, path: str) -> None:
        """Remove one file, and the folders above it that are empty then, but not the root.

        Args:
            path: The file; one that is not there any more is no error.

        Raises:
            OSError: It cannot be removed.
            ValueError: The path leads out of the root.
        """
        try:
            with self._folder_of(path) as (folder, name):
                os.unlink(name, dir_fd=folder)
        except OSError as error:
            if error.errno not in _GONE:
                raise
        while "/" in path:
            path = path.rpartition("/")[0]
            try:
                with self._folder_of(path) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:  # not empty, or gone: both are fine, an empty folder is nothing that anybody misses
                return

    @contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        """Open the folder of a path step by step, so that no link on the way is followed."""
        *folders, name = path.split("/")
        if not name or any(part in ("", ".", "..") for part in (*folders, name)):
            raise ValueError(f"{path!r} is no path below {self.root}")
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in folders:
                inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, name
        finally:
            os.close(descriptor)


class BucketTree:
    """A prefix of one or several directory buckets.

    Listings of a directory bucket are not in order, know no start key, and take only prefixes that end in ``/``
    (Amazon S3 user guide, "Differences for directory buckets").
    """

    def __init__(self, aws: Aws, buckets: Sequence[str], prefix: str) -> None:
        """Stand on a prefix.

        Args:
            aws: Clients.
            buckets: Names of the buckets, in the order of their index.
            prefix: Key prefix that holds checkpoints, such as ``checkpoints/``.

        Raises:
            ValueError: There is no bucket, or the prefix does not end in ``/``.
        """
        if not buckets:
            raise ValueError("buckets is empty; allowed: one or more names")
        if prefix and not prefix.endswith("/"):
            raise ValueError(f"prefix is {prefix!r}; allowed: one that ends in '/', or none")
        self.buckets = tuple(buckets)
        self.prefix = prefix
        self._s3: Any = aws("s3")
        self._places: dict[str, str] = {}
        self.tick: Callable[[], None] = _nothing
        """Called with each page of a listing: one over millions of objects takes longer than a lease lasts."""

    def key_of(self, path: str) -> str:
        """Return the key of a file."""
        return self.prefix + path

    def bucket_of(self, path: str) -> str:
        """Return the bucket that holds a file: where the last listing saw it, else where its key belongs."""
        return self._places.get(path) or self.buckets[bucket_index(self.key_of(path), len(self.buckets))]

    def files(self, under: str = "") -> Iterator[FileEntry]:
        """Yield every object below the prefix but those of ours and the markers of folders.

        A key that lies in several buckets counts once: where it belongs by its CRC-32, as everything that reads does.

        Args:
            under: A folder below the prefix. Left out: everything.

        Raises:
            ClientError: S3 refused or failed.
        """
        prefix = self.prefix + (under + "/" if under else "")
        seen: dict[str, FileEntry] = {}
        for bucket in self.buckets:
            for page in self._pages(bucket, prefix):
                self.tick()
                for each in page.get("Contents", ()):
                    key: str = each["Key"]
                    path = key[len(self.prefix) :]
                    if key.endswith("/") or not path or _is_ours(path):
                        continue
                    if path in seen and self.buckets[bucket_index(key, len(self.buckets))] != bucket:
                        continue
                    modified = int(each["LastModified"].timestamp()) * 1_000_000_000
                    seen[path] = FileEntry(path, int(each["Size"]), modified, str(each["ETag"]).strip('"'))
                    self._places[path] = bucket
        yield from seen.values()

    def read(self, path: str, limit: int = READ_LIMIT) -> bytes:
        """Return the first bytes of an object.

        Args:
            path: The file.
            limit: Bytes at most. Left out: 1 MiB.

        Raises:
            FileNotFoundError: It is not there (any more).
            ClientError: S3 refused or failed.
        """
        try:
            answer = self._s3.get_object(Bucket=self.bucket_of(path), Key=self.key_of(path))
        except Exception as error:
            if code_of(error) in MISSING:
                raise FileNotFoundError(errno.ENOENT, "no such object", path) from error
            raise
        body = answer["Body"]
        try:
            return bytes(body.read(limit))
        finally:
            body.close()

    def remove(self, path: str) -> None:
        """Remove one object; one that is not there any more is no error.

        Raises:
            ClientError: S3 refused or failed.
        """
        self._s3.delete_object(Bucket=self.bucket_of(path), Key=self.key_of(path))
        self._places.pop(path, None)

    def _pages(self, bucket: str, prefix: str) -> Iterator[dict[str, Any]]:
        more: dict[str, str] = {}
        while True:
            page = self._s3.list_objects_v2(Bucket=bucket, Prefix=prefix, **more)
            yield page
            token = page.get("NextContinuationToken")
            if not page.get("IsTruncated") or not token:
                return
            more = {"ContinuationToken": token}


def _is_ours(path: str) -> bool:
    return HIDDEN in path and any(part.startswith(HIDDEN) for part in path.split("/"))
