"""Which files a preload looks at: directories and lists, this node's share of them, and whether their data fits."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any, Callable
from zlib import crc32

from .errors import Refusal

DATA_BLOCKS = 8
"""A file with more blocks of 512 bytes has data. Lustre gives a released one a block or two, so that tools like ``tar``
do not take it for a hole; the smallest file with data has one page of 4 KiB."""

LOOKERS = 8
"""Folders that are listed at once."""

MARGIN = 0.05
"""Share of the file system that a preload leaves free: targets do not fill evenly, and a full one fails every write."""


@dataclass(frozen=True)
class Found:
    """One file, or one path that is none.

    Attributes:
        path: Absolute path; bytes that are no UTF-8 as surrogates.
        size: Bytes.
        maybe_released: Whether its data may still lie in S3; False: it has blocks, so nobody needs to be asked.
        problem: Code of what is wrong with it (see ``preload_reasons``); empty for a file.
        text: What is wrong in words; empty where the code says it.
    """

    path: str
    size: int
    maybe_released: bool
    problem: str = ""
    text: str = ""


@dataclass(frozen=True)
class Share:
    """This node's part of all files, by the CRC-32 of the path below the mount: no table, and the same on every node.

    Attributes:
        index: From 1.
        of: Number of shares.
        mount: Where the file system lies on this node: others may have it elsewhere. Empty: paths are those of all.
    """

    index: int
    of: int
    mount: str = ""

    @classmethod
    def parse(cls, text: str) -> Share:
        """Read ``2/4``.

        Raises:
            Refusal: It is no share.
        """
        first, slash, last = text.partition("/")
        if slash and first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last):
            return cls(int(first), int(last))
        raise Refusal(f"--share is {text!r}; allowed: I/N with 1 <= I <= N, such as 2/4")

    @classmethod
    def among(cls, instance: str, instances: str) -> Share:
        """Find the share of an instance by its place in a list ``i-1,i-2``.

        Raises:
            Refusal: It is not in it.
        """
        names = [each for each in instances.split(",") if each]
        if instance not in names:
            raise Refusal(f"--among does not name this instance ({instance or 'its id is not known'})")
        return cls(names.index(instance) + 1, len(names))

    def holds(self, path: str) -> bool:
        """Return whether a path is in this share."""
        inner = path[len(self.mount) :] if self.mount and path.startswith(self.mount + "/") else path
        return self.of == 1 or crc32(os.fsencode(inner)) % self.of == self.index - 1


def below_mount(path: str, mount: str) -> str:
    """Return the absolute path of one below the mount.

    Args:
        path: ``/datasets`` or ``datasets``.
        mount: ``/fsx``; where it lies on this machine.

    Raises:
        Refusal: It climbs out, or is no path.
    """
    parts = [each for each in path.split("/") if each not in ("", ".")]
    if ".." in parts or "\0" in path:
        raise Refusal(f"path {path!r} leads out of {mount}; allowed: paths below it, without ..")
    whole = "/" + "/".join(parts)
    base = mount.rstrip("/")
    return base + whole if parts else base


def walk(roots: Sequence[str], mount: str) -> Iterator[Found]:
    """Yield every regular file below directories; links are not followed, and what cannot be read is yielded too.

    Args:
        roots: Absolute paths of directories or files.
        mount: The mount; a root that a link leads out of it is a problem.
    """
    inside = os.path.realpath(mount)
    stack = list(reversed(_outermost(roots)))
    for root in list(stack):
        real = os.path.realpath(root)
        if real != inside and not real.startswith(inside.rstrip("/") + "/"):
            stack.remove(root)
            yield Found(root, 0, False, "outside", f"it leads to {real}")
    # Each name is a question to a server: several folders at once, so that nobody waits for one answer after another.
    with ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="look") as pool:
        waiting: deque[Future[tuple[list[str], list[Found]]]] = deque()
        while stack or waiting:
            while stack and len(waiting) < 2 * LOOKERS:
                waiting.append(pool.submit(_folder, stack.pop()))
            folders, found = waiting.popleft().result()
            stack.extend(folders)
            yield from found


def _folder(folder: str) -> tuple[list[str], list[Found]]:
    """Return the folders in a folder, and its files."""
    try:
        with os.scandir(folder) as opened:
            entries = sorted(opened, key=lambda each: each.name)
    except NotADirectoryError:
        return [], [look(folder)]
    except FileNotFoundError:
        return [], [Found(folder, 0, False, "vanished")]
    except OSError as error:
        return [], [Found(folder, 0, False, "other", f"the directory cannot be read: {error.strerror or error}")]
    folders, found = [], []
    for entry in entries:
        if entry.is_symlink():
            continue
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.path)
            continue
        each = look(entry.path)
        if each.problem != "not-a-file":  # sockets and the like are no one's data set
            found.append(each)
    return folders, found


def listed(lines: Iterable[bytes], mount: str) -> Iterator[Found]:
    """Yield what a list of paths names, one a line; empty lines are skipped.

    Args:
        lines: Lines as bytes, paths below the mount.
        mount: The mount.
    """
    inside = os.path.realpath(mount)
    parents: dict[str, bool] = {}
    for line in lines:
        name = os.fsdecode(line.rstrip(b"\r\n"))
        if not name.strip():
            continue
        try:
            path = below_mount(name, mount)
        except Refusal as refusal:
            yield Found(name, 0, False, "outside", str(refusal))
            continue
        parent = os.path.dirname(path)  # noqa: PTH120 - a string of any bytes; Path would gain nothing
        if parent not in parents:
            if len(parents) > 100_000:
                parents.clear()
            real = os.path.realpath(parent)
            parents[parent] = real == inside or real.startswith(inside.rstrip("/") + "/")
        yield look(path) if parents[parent] else Found(path, 0, False, "outside", "a link leads out of the mount")


def look(path: str) -> Found:
    """Look at one path."""
    try:
        about = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return Found(path, 0, False, "vanished")
    except (OSError, ValueError) as error:
        return Found(path, 0, False, "other", str(getattr(error, "strerror", "") or error))
    if not stat.S_ISREG(about.st_mode):
        return Found(path, 0, False, "not-a-file")
    return Found(path, about.st_size, about.st_blocks <= DATA_BLOCKS)


@dataclass
class Sums:
    """Counts of a scan: of all shares, and of this one."""

    files: int = 0
    bytes: int = 0
    to_load: int = 0
    to_load_bytes: int = 0
    share_files: int = 0
    share_bytes: int = 0
    share_to_load_bytes: int = 0
    problems: int = 0


def scan(found: Iterable[Found], share: Share, report: Callable[[Sums], Any]) -> Sums:
    """Count what there is, without asking for the state of any file.

    Args:
        found: Files of all shares.
        share: This node's.
        report: Called every few thousand files.
    """
    sums = Sums()
    for number, each in enumerate(found, 1):
        if each.problem:
            sums.problems += 1
            continue
        mine = share.holds(each.path)
        sums.files += 1
        sums.bytes += each.size
        if mine:
            sums.share_files += 1
            sums.share_bytes += each.size
        if each.maybe_released:
            sums.to_load += 1
            sums.to_load_bytes += each.size
            if mine:
                sums.share_to_load_bytes += each.size
        if number % 5000 == 0:
            report(sums)
    return sums


def room(targets: Mapping[str, tuple[int, int]], mount: str, statvfs: Callable[[str], Any]) -> tuple[int, int]:
    """Return bytes free, and the size of the file system.

    Args:
        targets: Size and free bytes of its storage targets, as ``hsm.targets`` returns them.
        mount: The mount, which is asked where they are not known.
        statvfs: Asks it.
    """
    if targets:
        return sum(free for _, free in targets.values()), sum(size for size, _ in targets.values())
    about = statvfs(mount)
    return about.f_bavail * about.f_frsize, about.f_blocks * about.f_frsize


def lines_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file from its beginning."""
    stream.seek(0)
    yield from stream


def _outermost(roots: Sequence[str]) -> list[str]:
    """Return roots without those that lie below another."""
    kept: list[str] = []
    for each in sorted(set(roots)):
        if not any(each == one or each.startswith(one.rstrip("/") + "/") for one in kept):
            kept.append(each)
    return kept
