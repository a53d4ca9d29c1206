"""What lies on each node's local disk, as the nodes tell it in the lake: the union is what checkpoints are judged by.

A node sees its own ranks alone, and their names do not say how many others there are. So each writes the list of its
files, and the few small ones that layouts read, on every run. A checkpoint counts as complete when the union is, and
when as many nodes as the fleet has were there when it was written and have looked at their disks since. The list is
written when it changes; a small object beside it says when it was looked at last.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from .. import places
from ..aws import Aws
from . import lake
from .completeness import INDEXES, TRAINER_STATE
from .folders import Reader
from .layouts import find_checkpoints, is_read
from .model import Checkpoint, FileEntry

if TYPE_CHECKING:
    from .orders import Desk, Order

SKEW_NS = 2_000_000_000
"""How far clocks of nodes may be apart where one has to have looked after another has written."""

GONE_S = 6 * 3600.0
"""A node that has told nothing for so long is gone, with its disk. An upload of its part may take hours."""

UNTOLD = "the word of"
"""How a checkpoint begins to say what it lacks where nodes have not looked at their disks since it was written."""

ALIVE_S = 120.0
"""How often a node that uploads says that it does: others wait for it then."""

_SEEN = "seen/"
_ALIVE = "alive/"
_LONGEST = 1 << 20
_SINCE = places.HIDDEN + "/since"


@dataclass(frozen=True)
class Part:
    """What one node holds.

    Attributes:
        node: The node.
        told_at: When it looked last, seconds since 1970.
        first_told_at: When it first told exactly this.
        since_ns: From when on its disk holds what was written, nanoseconds since 1970.
        files: Its files below the checkpoint folder.
        texts: What small files say that layouts read, by path.
        links: Symbolic links, by path.
    """

    node: str
    told_at: float
    first_told_at: float
    since_ns: int
    files: tuple[FileEntry, ...]
    texts: Mapping[str, str]
    links: Mapping[str, str]

    def holds(self, path: str) -> bool:
        """Whether it has any file of a checkpoint."""
        inner = lake.inside(path)
        return any(each.path.startswith(inner) for each in self.files)


# -- each node


def look(desk: Desk) -> Part:
    """Look at the own disk.

    Raises:
        OSError: A folder cannot be read.
    """
    now = desk.clock()
    files = tuple(sorted(desk.tree.files(), key=lambda each: each.path))
    reader = Reader(desk.tree)
    texts = {}
    for each in files:
        if is_read(each):
            text = _condensed(each.path.rpartition("/")[2], reader, each)
            if text is not None and len(text) <= _LONGEST:
                texts[each.path] = text
    links = dict(getattr(desk.tree, "links", {}))
    return Part(desk.node, now, now, since_of(desk), files, texts, links)


def tell(desk: Desk) -> Part:
    """Look at the own disk, and write what lies there into the lake.

    Raises:
        ClientError: S3 refused or failed.
        OSError: A folder cannot be read.
    """
    part = look(desk)
    content: dict[str, Any] = {
        "since_ns": part.since_ns,
        "files": [[each.path, each.size, each.modified_ns] for each in part.files],
        "texts": part.texts,
        "links": part.links,
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    there = desk.get(f"{_folder(desk)}{desk.node}.json")
    if there is None or there.get("digest") != digest:
        told = {"node": desk.node, "told_at": part.told_at, "digest": digest, **content}
        desk.put(f"{_folder(desk)}{desk.node}.json", told)
    else:
        part = replace(part, first_told_at=float(there["told_at"]))
    desk.put(f"{_folder(desk)}{_SEEN}{desk.node}.json", {"told_at": part.told_at, "digest": digest})
    return part


def live(desk: Desk) -> None:
    """Say that this node is at work; never a reason to stop it."""
    with suppress(Exception):
        desk.put(f"{_folder(desk)}{_ALIVE}{desk.node}.json", {"at": desk.clock()})


def last_alive(desk: Desk) -> float:
    """Return when any other node last said that it is at work, seconds since 1970; 0 where none ever did.

    Raises:
        ClientError: S3 refused or failed.
    """
    prefix = _folder(desk) + _ALIVE
    found = lake.listing(desk.aws, desk.settings.lake_bucket, prefix)
    return max((each.uploaded for key, each in found.items() if key != f"{prefix}{desk.node}.json"), default=0.0)


def _folder(desk: Desk) -> str:
    """Return where the nodes of this hot tier tell: workloads that share a lake have nothing to tell each other."""
    return places.hot_tier_folder(places.PARTS, desk.settings.hot_tier_id)


def since_of(desk: Desk) -> int:
    """Return from when on a node's disk holds what was written, nanoseconds since 1970.

    A file on the disk says so: it outlives a reboot, as local disks do, and is gone when they are.
    """
    if desk.since_ns is not None:
        return desk.since_ns
    booted = _booted_ns()
    root = getattr(desk.tree, "root", "")
    place = os.path.join(root, _SINCE)  # noqa: PTH118 - as in ``settings``
    try:
        with open(place, encoding="ascii") as stream:  # noqa: PTH123 - as in ``settings``
            return min(int(stream.read()), booted)
    except (OSError, ValueError):
        pass
    with suppress(OSError):  # a disk that takes no file is asked again: the boot is the later of the two
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120 - as above
        with open(place, "w", encoding="ascii") as stream:  # noqa: PTH123 - as above
            stream.write(str(booted))
    return booted


def _booted_ns() -> int:
    try:
        with open("/proc/stat", encoding="utf-8") as stream:  # noqa: PTH123 - as in ``settings``
            booted = next(line for line in stream if line.startswith("btime "))
        return int(booted.split()[1]) * 1_000_000_000
    except (OSError, StopIteration):
        return int(time.time() * 1e9)


def _condensed(name: str, reader: Reader, entry: FileEntry) -> str | None:
    """Return what a small file says, of large ones what layouts need of it."""
    if name == TRAINER_STATE:
        state = reader.json(entry)
        if state is None:
            return None
        history = state.get("log_history")
        values: dict[str, Any] = {}
        for each in history if isinstance(history, list) else ():
            if isinstance(each, dict):
                values.update({key: value for key, value in each.items() if str(key).startswith("eval_")})
        kept = {key: state[key] for key in ("global_step", "best_model_checkpoint") if key in state}
        return json.dumps({**kept, "log_history": [values]})
    if name in INDEXES:
        shards = (reader.json(entry) or {}).get("weight_map")
        if not isinstance(shards, dict):
            return None
        return json.dumps({"weight_map": {each: each for each in sorted({str(one) for one in shards.values()})}})
    return reader.text(entry)


# -- all nodes together


def read_all(aws: Aws, bucket: str, hot_tier_id: str) -> list[Part]:
    """Return what every node of a hot tier has told, by node; also nodes that are gone by now.

    Args:
        aws: Clients.
        bucket: The lake.
        hot_tier_id: The workload's name: local disks have no other. Nodes of another one hold nothing of its
            checkpoints, and their word would stand for one that has not spoken.

    Raises:
        ClientError: S3 refused or failed.
        ValueError: What lies there cannot be read.
    """

    def read(key: str) -> dict[str, Any] | None:
        found = lake.content(aws, bucket, key)
        return None if found is None else dict(json.loads(found))

    folder = places.hot_tier_folder(places.PARTS, hot_tier_id)
    there = [key[len(folder) :] for key in lake.listing(aws, bucket, folder)]
    names = sorted(each for each in there if "/" not in each)
    # The time first: a list that is written between the two looks is newer than it, never older.
    seen = lake.in_parallel(lambda name: read(folder + _SEEN + name), names)
    told = lake.in_parallel(lambda name: read(folder + name), names)
    parts = []
    for body, when in zip(told, seen):
        if body is None:
            continue
        first = float(body["told_at"])
        last = float(when["told_at"]) if when and when["digest"] == body["digest"] else first
        files = tuple(FileEntry(path, size, modified) for path, size, modified in body["files"])
        parts.append(Part(body["node"], max(first, last), first, body["since_ns"], files, body["texts"], body["links"]))
    return parts


def with_own(parts: Iterable[Part], own: Part) -> list[Part]:
    """Put what a node sees now in the place of what it told."""
    known = {each.node: each for each in parts}
    before = known.get(own.node)
    if before is not None and (before.files, before.texts) == (own.files, own.texts):
        own = replace(own, first_told_at=before.first_told_at)
    return list({**known, own.node: own}.values())


def counted(parts: Iterable[Part], orders: Sequence[Order], now: float) -> list[Part]:
    """Leave out what is gone with its node, and what is on its way out by an order.

    Of a node that is gone what it has uploaded for an open order still counts: that is in the lake.
    """
    leaving = [(lake.inside(each.body["path"]), int(each.body["written_ns"])) for each in orders if each.prunes]
    found = []
    for part in parts:
        files = part.files
        if now - part.told_at > GONE_S:
            kept = [lake.inside(each.body["path"]) for each in orders if not each.prunes and part.node in each.receipts]
            files = tuple(each for each in files if each.path.startswith(tuple(kept)))
            if not files:
                continue
        if leaving:
            files = tuple(each for each in files if not _leaves(each, leaving))
        found.append(replace(part, files=files))
    return found


def _leaves(entry: FileEntry, leaving: Sequence[tuple[str, int]]) -> bool:
    from .orders import SKEW_NS as LATE_NS

    return any(entry.path.startswith(inner) and entry.modified_ns <= until + LATE_NS for inner, until in leaving)


class Union:
    """All parts as one tree, to read only. Of a file that several nodes have the newest counts.

    Args:
        parts: What nodes hold.
        root: Where checkpoints lie on a node, for symbolic links that are absolute.
    """

    def __init__(self, parts: Iterable[Part], root: str = "") -> None:
        self.root = root.rstrip("/") or None
        self.links: dict[str, str] = {}
        self._entries: dict[str, FileEntry] = {}
        self._texts: dict[str, str | None] = {}
        for part in sorted(parts, key=lambda each: each.node):
            self.links.update(part.links)
            for each in part.files:
                other = self._entries.get(each.path)
                if other is None or (each.modified_ns, each.size) > (other.modified_ns, other.size):
                    self._entries[each.path] = each
                    self._texts[each.path] = part.texts.get(each.path)

    def files(self, under: str = "") -> Iterator[FileEntry]:
        """Yield every file below a folder."""
        inner = lake.inside(under)
        return iter([each for path, each in self._entries.items() if path.startswith(inner)])

    def read(self, path: str, limit: int = 1 << 20) -> bytes:
        """Return what a small file says.

        Raises:
            FileNotFoundError: Its node did not tell.
        """
        text = self._texts.get(path)
        if text is None:
            raise FileNotFoundError(errno.ENOENT, "not told", path)
        return text.encode("utf-8", "surrogateescape")[:limit]

    def remove(self, path: str) -> None:
        """Refuse: it lies on other disks.

        Raises:
            PermissionError: Always.
        """
        raise PermissionError(errno.EPERM, "it lies on disks of several nodes", path)


def checkpoints(parts: Sequence[Part], nodes: int, root: str = "") -> list[Checkpoint]:
    """Return the checkpoints of all nodes together, by path.

    Args:
        parts: What counts.
        nodes: How many nodes write a checkpoint together.
        root: Where checkpoints lie on a node.
    """
    found = []
    for each in find_checkpoints(Union(parts, root)):
        lacks = _untold(each, parts, nodes) if each.complete else ""
        found.append(replace(each, complete=False, missing=lacks) if lacks else each)
    return found


def _untold(checkpoint: Checkpoint, parts: Sequence[Part], nodes: int) -> str:
    """Say how many nodes' parts are not known: names of ranks do not tell how many there are."""
    holders = [each for each in parts if each.holds(checkpoint.path)]
    others = [each for each in parts if each not in holders]
    # What lies on a disk was written before it was told, also where the times of its files are wrong.
    newest = max((each.first_told_at for each in holders), default=0.0) * 1e9
    since = min(checkpoint.modified_ns + SKEW_NS, newest)
    told = [each for each in (*holders, *others) if each.told_at * 1e9 >= since]
    there = [each for each in told if each in holders or each.since_ns <= checkpoint.modified_ns]
    if len(there) >= nodes:
        return ""
    if len(told) >= nodes:
        return f"what {nodes - len(there)} of {nodes} nodes held that are gone: others came after it was written"
    return f"{UNTOLD} {nodes - len(told)} of {nodes} nodes on what they hold of it"
