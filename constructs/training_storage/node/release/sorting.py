"""Sorts every file of a file system: what must be kept, what came from S3 unchanged, and what may go.

One walk in the order in which S3 lists keys, so that files under a link that imports meet their objects as both streams
go by: memory does not grow with the number of files, but with the largest directory and with the files of checkpoints.
A file of which nothing is certain is never sorted into what may go.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Callable

from .. import hsm
from ..aws import Aws
from ..errors import Refusal
from ..places import HIDDEN
from ..roots import rooted
from ..settings import Link, Settings

KEEP = "keep"
DATASETS = "datasets"
CHANGED = "changed-data"
SCRATCH = "scratch"
UNPROMOTED = "unpromoted"
HALF_WRITTEN = "half-written"
UNLINKED = "unlinked"
NAMELESS = "nameless"
LEFT = "left"

CLASSES = {
    KEEP: "must be in S3",
    DATASETS: "came from S3 and equal their objects",
    CHANGED: "lie under a link that only imports, and are not in S3 as they are here",
    SCRATCH: "scratch, which is never exported",
    UNPROMOTED: "complete checkpoints that the policy leaves behind",
    HALF_WRITTEN: "checkpoints that were never finished",
    UNLINKED: "lie under no link, so that nothing takes them to S3",
    NAMELESS: "have names that S3 cannot hold: no UTF-8, or a key of more than 1,024 bytes",
    LEFT: "left behind as asked",
}
"""Every class, with what it says of its files."""

BLOCKING = (CHANGED, UNLINKED, NAMELESS)
"""Classes that make a release refuse."""

LATE_S = 5.0
"""How far the clocks of a client and of S3 may be apart. Both are kept by the Amazon Time Sync Service."""

LONGEST_KEY = 1024
BATCH = 500
"""Files that one ``lfs hsm_state`` is asked of."""

_BUFFER = 4096
_DIRTY, _LOST = 0x02, 0x40
_IN_S3 = 0x09  # exists, archived

States = Callable[[Sequence[str]], "dict[str, int]"]
"""Flags of the hierarchical storage manager of files, by path; a file that it does not know is not in the answer."""


@dataclass(frozen=True)
class Found:
    """One file.

    Attributes:
        path: As nodes name it: ``/fsx/checkpoints/run1/config.json``.
        size: Bytes.
        modified_ns: Last modification.
        kind: One of ``CLASSES``.
        bucket: Bucket of its object; empty where it has none.
        key: Key of its object.
        way: How a file to keep gets to S3: ``task``, ``auto`` or ``upload``; empty for every other one.
        checkpoint: The checkpoint that it belongs to; empty for none.
    """

    path: str
    size: int
    modified_ns: int
    kind: str
    bucket: str = ""
    key: str = ""
    way: str = ""
    checkpoint: str = ""


def hsm_states(paths: Sequence[str], ask: Callable[[Sequence[str]], hsm.Told] = hsm.states) -> dict[str, int]:
    """Ask Lustre for the state of files; no answer for one that cannot be read (any more).

    Args:
        paths: Where the files lie on this node.
        ask: Asks of many at once; the answer ends before the first that cannot be read.

    Raises:
        OSError: The servers do not answer now.
    """
    found: dict[str, int] = {}
    waiting = list(paths)
    while waiting:
        told = ask(waiting)
        for path, text in told.by_path.items():
            flags = text.split(" ", 1)[0].strip("():")
            found[path] = int(flags, 16) if flags.startswith("0x") else 0
        if len(told.by_path) < len(waiting) and told.busy:
            raise OSError(errno.EAGAIN, f"lfs hsm_state: {told.error}", waiting[len(told.by_path)])
        waiting = waiting[len(told.by_path) + 1 :]
    return found


class Sorter:
    """Sorts the files of a mounted file system.

    Args:
        aws: Clients.
        settings: Settings of the node.
        leave: Paths that are left behind on purpose with everything below them: as nodes name them
            (``/fsx/checkpoints/old``), or below the root of the file system (``/checkpoints/old``).
        clock: The time, in seconds since 1970.
        states: Asks Lustre for the state of files. Left out: ``lfs``, where it is installed; without it, size and time
            are compared with S3.

    Attributes:
        verdicts: What the policy says of each checkpoint, by path; empty without a policy.
        mixed: Directories that hold names of ours, and so are never exported as a whole.
        pointers: Symbolic links that were met: they hold no data, and are named in what is left behind.
        special: Pipes, sockets and devices that were met.
    """

    def __init__(
        self,
        aws: Aws,
        settings: Settings,
        *,
        leave: Iterable[str] = (),
        clock: Callable[[], float] = time.time,
        states: States | None = None,
    ) -> None:
        self._aws, self._settings, self._clock = aws, settings, clock
        self._leave = tuple(_as_nodes_name(each, settings.mount.rstrip("/")) for each in leave if each.strip("/"))
        self._states = states if states is not None else hsm_states if shutil.which("lfs") else None
        self._root = rooted(settings.mount)
        self._checkpoints = settings.checkpoints.rstrip("/")
        self._scratch = settings.scratch.rstrip("/")
        # FSx runs no export task beside a link that exports by itself.
        self._by_hand = "upload" if any(each.exports for each in settings.links) else "task"
        self._members: dict[str, tuple[str, str]] = {}
        self._listings: dict[str, _Listing] = {}
        self.verdicts: dict[str, Any] = {}
        self.mixed: set[str] = set()
        self.pointers: list[str] = []
        self.pointer_count = 0
        self.special = 0

    def files(self) -> Iterator[Found]:
        """Yield every file in the order of S3's listings; names of ours (``.training-storage*``) are passed over.

        Raises:
            Refusal: Another file system is mounted below this one.
            OSError: A directory cannot be read: it is not taken for an empty one.
            ClientError: S3 refused or failed.
        """
        self._judge()
        held: list[tuple[Found, _Object | None]] = []
        asked = 0
        for found in self._walk(self._root, self._settings.mount.rstrip("/"), os.stat(self._root).st_dev):  # noqa: PTH116
            there = self._object_of(found) if found.kind == DATASETS else None
            asked += there is not None
            held.append((found, there))
            if asked >= BATCH or len(held) >= _BUFFER:
                yield from self._settled(held)
                held, asked = [], 0
        yield from self._settled(held)

    # -- checkpoints

    def _judge(self) -> None:
        if not self._checkpoints or self._settings.policy is None:
            return
        from ..checkpoints import ledgers, records
        from ..checkpoints.layouts import find_checkpoints
        from ..checkpoints.policy import decide
        from ..checkpoints.tree import LocalTree

        lake = self._settings.lake_bucket
        damaged: list[str] = []
        decision = decide(
            find_checkpoints(LocalTree(rooted(self._checkpoints))),
            records.read_all(self._aws, lake, damaged=damaged),
            ledgers.read_all(self._aws, lake),
            self._settings.policy,
            now_ns=int(self._clock() * 1e9),
            last=True,
        )
        self.verdicts = decision.by_path()
        for path, verdict in self.verdicts.items():
            kind = class_of(verdict)
            if damaged and records.record_key(path, verdict.checkpoint.fingerprint) in damaged:
                kind = KEEP  # somebody wanted it in the lake, and what says so cannot be read
            for each in verdict.checkpoint.files:
                # A file of two checkpoints is kept when one of them is.
                if self._members.get(each.path, ("", ""))[0] != KEEP:
                    self._members[each.path] = kind, path

    # -- the walk

    def _walk(self, real: str, path: str, device: int) -> Iterator[Found]:
        """Yield the files below a directory, sorted by the bytes of their keys."""
        try:
            entries = _sorted(real)
        except FileNotFoundError:
            if real == self._root:
                raise
            return  # removed since its parent was read
        for entry, is_directory in entries:
            inner = f"{path}/{entry.name}"
            if entry.name.startswith(HIDDEN) and self._ours(path):
                self.mixed.add(path)
                continue
            try:
                about = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if is_directory:
                if about.st_dev != device:
                    raise Refusal(
                        f"{inner} is another file system, mounted on top of this one: what lies under it cannot be "
                        "seen; unmount it on this node and run the release again"
                    )
                yield from self._walk(entry.path, inner, device)
                continue
            if stat.S_ISLNK(about.st_mode):
                self.pointer_count += 1
                if len(self.pointers) < 100:
                    self.pointers.append(inner)
            elif stat.S_ISREG(about.st_mode):
                yield self._sorted_file(inner, about)
            else:
                self.special += 1

    def _ours(self, path: str) -> bool:
        checkpoints = self._checkpoints
        return path == self._settings.mount.rstrip("/") or _below(path, checkpoints)

    def _sorted_file(self, path: str, about: os.stat_result) -> Found:
        link = self._settings.link_of(path)
        kind, way, checkpoint = self._kind(path, link)
        bucket, key = "", ""
        if kind in (KEEP, DATASETS):
            bucket, key = self._object_name(path, link)
            if kind == KEEP and not _can_be_key(key):
                kind, way = NAMELESS, ""
        if any(_below(path, each) for each in self._leave):
            kind, way = LEFT, ""
        return Found(path, about.st_size, about.st_mtime_ns, kind, bucket, key, way, checkpoint)

    def _kind(self, path: str, link: Link | None) -> tuple[str, str, str]:
        way = "upload" if link is None else "auto" if link.exports else self._by_hand
        if _below(path, self._scratch):
            return SCRATCH, "", ""
        if _below(path, self._checkpoints):
            kind, checkpoint = self._members.get(path[len(self._checkpoints) + 1 :], (KEEP, ""))
            if link is not None and link.exports:
                kind = KEEP  # it is in S3 anyway
            return kind, way if kind == KEEP else "", checkpoint
        if link is None:
            return UNLINKED, "", ""
        if link.imports and not link.exports:
            return DATASETS, "", ""
        return KEEP, way, ""

    def _object_name(self, path: str, link: Link | None) -> tuple[str, str]:
        if link is None:
            return self._settings.lake_bucket, self._settings.lake_prefix + path[len(self._checkpoints) + 1 :]
        base = (self._settings.mount.rstrip("/") + "/" + link.path.strip("/")).rstrip("/")
        return link.bucket, link.prefix + path[len(base) + 1 :]

    # -- files that came from S3

    def _object_of(self, found: Found) -> _Object | None:
        link = self._settings.link_of(found.path)
        if link is None:
            return None
        if link.path not in self._listings:
            self._listings[link.path] = _Listing(self._aws, link.bucket, link.prefix)
        return self._listings[link.path].find(os.fsencode(found.key))

    def _settled(self, held: list[tuple[Found, _Object | None]]) -> Iterator[Found]:
        """Yield files, those that should have come from S3 sorted by what S3 and Lustre say of them."""
        there = [found for found, known in held if known is not None]
        flags: dict[str, int] = {}
        if self._states is not None and there:
            mount = len(self._settings.mount.rstrip("/"))
            real = {self._root.rstrip("/") + found.path[mount:]: found.path for found in there}
            flags = {real[path]: flag for path, flag in self._states(list(real)).items() if path in real}
        for found, known in held:
            if found.kind != DATASETS or (known is not None and self._came_from(found, known, flags)):
                yield found
            else:
                yield Found(found.path, found.size, found.modified_ns, CHANGED, found.bucket, found.key)

    def _came_from(self, found: Found, known: _Object, flags: dict[str, int]) -> bool:
        if known.size != found.size:
            return False
        if self._states is not None:
            flag = flags.get(found.path, 0)
            return flag & _IN_S3 == _IN_S3 and not flag & (_DIRTY | _LOST)
        return found.modified_ns <= (known.modified + LATE_S) * 1e9


def class_of(verdict: Any) -> str:
    """Return the class of the files of a checkpoint."""
    if not verdict.checkpoint.complete:
        # A job that writes no marker has finished checkpoints too, and nothing tells which.
        return KEEP if verdict.doubtful else HALF_WRITTEN
    return KEEP if verdict.due or verdict.promoted else UNPROMOTED


@dataclass(frozen=True)
class _Object:
    size: int
    modified: float


class _Listing:
    """The objects below a prefix, in the order of their keys, each asked for once and in that order."""

    def __init__(self, aws: Aws, bucket: str, prefix: str) -> None:
        self._objects = self._all(aws("s3"), bucket, prefix)
        self._next: tuple[bytes, _Object] | None = next(self._objects, None)

    @staticmethod
    def _all(s3: Any, bucket: str, prefix: str) -> Iterator[tuple[bytes, _Object]]:
        token = ""
        while True:
            page = s3.list_objects_v2(Bucket=bucket, Prefix=prefix, **({"ContinuationToken": token} if token else {}))
            for each in page.get("Contents", ()):
                yield (
                    each["Key"].encode("utf-8", "surrogateescape"),
                    _Object(int(each["Size"]), each["LastModified"].timestamp()),
                )
            token = page.get("NextContinuationToken") or ""
            if not token:
                return

    def find(self, key: bytes) -> _Object | None:
        while self._next is not None and self._next[0] < key:
            self._next = next(self._objects, None)
        if self._next is not None and self._next[0] == key:
            return self._next[1]
        return None


def _sorted(real: str) -> list[tuple[os.DirEntry[str], bool]]:
    with os.scandir(real) as entries:
        found = [(each, each.is_dir(follow_symlinks=False)) for each in entries]
    # S3 lists by the bytes of whole keys: what lies in "a/" comes after "a.txt" and before "a0".
    found.sort(key=lambda each: os.fsencode(each[0].name) + (b"/" if each[1] else b""))
    return found


def _as_nodes_name(path: str, mount: str) -> str:
    plain = "/" + path.strip("/")
    return plain if _below(plain, mount) else mount + plain


def _below(path: str, base: str) -> bool:
    return bool(base) and (path == base or path.startswith(base + "/"))


def _can_be_key(key: str) -> bool:
    try:
        return len(key.encode()) <= LONGEST_KEY
    except UnicodeEncodeError:
        return False
