"""``agent drill``: read a checkpoint back from the hot tier and from the lake, and say how long it took."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, Callable

from .. import drill
from ..aws import Aws
from ..checkpoints import lake, orders, parts, records
from ..checkpoints.layouts import find_checkpoints
from ..checkpoints.model import Checkpoint, Record
from ..checkpoints.tree import BucketTree, LocalTree
from ..errors import Refusal
from ..roots import instance_id, rooted
from ..settings import Settings
from ._tier import Turn, relative

HELP = "read a checkpoint back from the hot tier and from the lake, and time it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--path", default="", help="checkpoint below the checkpoint folder; left out: the newest")
    parser.add_argument("--source", choices=("hot", "lake", "both"), default="both", help="where to read")
    parser.add_argument("--among", default="", help="instances that share the reading: ID,ID,...; left out: this one")
    parser.add_argument("--threads", type=int, default=drill.THREADS, help="readers at once on this node")


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Read, time, emit the metric, and return what was measured.

    Raises:
        Refusal: There is no checkpoint to read, or an argument says nothing.
    """
    nodes = arguments.among.split(",") if arguments.among else [instance_id()]
    share, shares = _share(nodes), len(nodes)
    if arguments.threads < 1:
        raise Refusal(f"--threads is {arguments.threads}; allowed: 1 or more")
    readings: dict[str, Any] = {}
    skipped: dict[str, str] = {}
    path = next(iter(relative(settings, [arguments.path])), "") if arguments.path else ""
    for source in ("hot", "lake"):
        if arguments.source not in (source, "both"):
            continue
        counted = _Counter(source, progress)
        try:
            if source == "hot" and orders.is_spread(settings):
                found, reading = _own_part(Turn(settings, aws, progress), path, nodes, arguments.threads, counted)
            else:
                found, reading = (_hot if source == "hot" else _lake)(
                    settings, aws, path, share, shares, arguments.threads, counted
                )
        except Refusal as refusal:
            if arguments.source != "both":
                raise
            skipped[source] = str(refusal)
            continue
        told = {"readers": settings.restore_readers, "missing": [], **found, **reading.to_dict()}
        told["metric"] = drill.emit_slowest(aws, settings, source, told, command_id=arguments.command_id, nodes=nodes)
        readings[source] = told
    if not readings:
        raise Refusal("; ".join(skipped.values()))
    return {
        "share": share,
        "shares": shares,
        "restore_readers": settings.restore_readers,
        "max_restore_s": settings.max_restore_s,
        "readings": readings,
        "skipped": skipped,
    }


class _Counter:
    def __init__(self, source: str, progress: Callable[[dict[str, Any]], None]) -> None:
        self._source, self._progress, self._bytes = source, progress, 0

    def __call__(self, count: int) -> None:
        self._bytes += count
        self._progress({"source": self._source, "bytes": self._bytes})


def _share(nodes: Sequence[str]) -> int:
    """Return which of the nodes this is, from 0."""
    mine = instance_id()
    if mine not in nodes:
        raise Refusal(f"--among names {len(nodes)} instances, and this one, {mine or 'without an id'}, is none of them")
    return nodes.index(mine)


def _newest(found: Sequence[Checkpoint], path: str) -> Checkpoint:
    whole = [each for each in found if each.complete]
    if path:
        named = [each for each in found if each.path == path]
        if not named:
            raise Refusal(f"there is no checkpoint {path} on the hot tier; `checkpoints list` shows those there are")
        if not named[0].complete:
            raise Refusal(f"checkpoint {path} is half-written: {named[0].missing}")
        return named[0]
    if not whole:
        last = max(found, key=_age, default=None)
        lacks = f": the newest, {last.path}, lacks {last.missing}" if last else ""
        raise Refusal(f"there is no complete checkpoint on the hot tier{lacks}")
    return max(whole, key=_age)


def _age(checkpoint: Checkpoint) -> tuple[int, int, str]:
    return checkpoint.modified_ns, checkpoint.step or 0, checkpoint.path


def _about(chosen: Checkpoint | Record) -> dict[str, Any]:
    """Return what was read, so that nodes which read something else are told from those that shared it."""
    return {"checkpoint": chosen.path, "fingerprint": chosen.fingerprint, "size": chosen.size}


def _own_part(
    turn: Turn, path: str, nodes: Sequence[str], threads: int, on_bytes: Callable[[int], None]
) -> tuple[dict[str, Any], drill.Reading]:
    """Read what this node's disk holds of a checkpoint; those that share it read theirs at the same time.

    Local disks serve nobody else: a restart reads each part where it lies, and once, whatever the number of replicas.
    What lies on the disk of a node that is not asked is missing: such a restart would not have it.
    """
    desk = turn.desk()
    own = parts.look(desk)
    union = orders.look_together(desk, own)
    chosen = _newest(union.checkpoints, path)
    inner = lake.inside(chosen.path)
    asked = {*nodes, desk.node}
    there = {each.path for part in union.parts if part.node in asked for each in part.files}
    missing = []
    for part in union.parts:
        lacks = [each.size for each in part.files if each.path.startswith(inner) and each.path not in there]
        if lacks:
            missing.append({"node": part.node, "files": len(lacks), "bytes": sum(lacks)})
    root = rooted(turn.settings.checkpoints)
    mine = [(f"{root}/{each.path}", each.size) for each in own.files if each.path.startswith(inner)]
    pieces = drill.share_of(mine, readers=1, share=0, shares=1)
    about = {**_about(chosen), "readers": 1, "missing": missing}
    return about, drill.read_files(pieces, threads=threads, on_bytes=on_bytes)


def _hot(
    settings: Settings, aws: Aws, path: str, share: int, shares: int, threads: int, on_bytes: Callable[[int], None]
) -> tuple[dict[str, Any], drill.Reading]:
    if settings.tier == "express":
        tree = BucketTree(aws, settings.hot_buckets, settings.lake_prefix)
        chosen = _newest(find_checkpoints(tree), path)
        reading = None
        for bucket in settings.hot_buckets:
            files = [
                (tree.key_of(each.path), each.size) for each in chosen.files if tree.bucket_of(each.path) == bucket
            ]
            pieces = drill.share_of(files, readers=settings.restore_readers, share=share, shares=shares)
            one = drill.read_objects(aws, bucket, pieces, threads=threads, on_bytes=on_bytes)
            # Buckets are read one after another: the sum is on the safe side.
            reading = (
                one
                if reading is None
                else drill.Reading("s3", reading.bytes + one.bytes, reading.seconds + one.seconds, None, threads)
            )
        if reading is None:
            raise Refusal("the hot tier has no directory bucket")
        return _about(chosen), reading
    if not settings.checkpoints:
        raise Refusal("this workload keeps no checkpoints on a hot tier")
    root = rooted(settings.checkpoints)
    chosen = _newest(find_checkpoints(LocalTree(root)), path)
    files = [(f"{root}/{each.path}", each.size) for each in chosen.files]
    pieces = drill.share_of(files, readers=settings.restore_readers, share=share, shares=shares)
    return _about(chosen), drill.read_files(pieces, threads=threads, on_bytes=on_bytes)


def _lake(
    settings: Settings, aws: Aws, path: str, share: int, shares: int, threads: int, on_bytes: Callable[[int], None]
) -> tuple[dict[str, Any], drill.Reading]:
    # One that cannot be read is no reason not to read the others back; ``verify`` names it.
    known = records.read_all(aws, settings.lake_bucket, damaged=[])
    found = [each for each in known if not path or each.path == path]
    if not found:
        named = f"checkpoint {path} was" if path else "no checkpoint was"
        raise Refusal(f"{named} never promoted to the lake" if path else f"{named} promoted to the lake yet")
    chosen: Record = max(found, key=lambda each: (each.promoted_at, each.step or 0, each.path))
    about = _about(chosen)
    folder = drill.lake_mount(settings)
    if folder:
        files = [(f"{folder}/{each.path}", each.size) for each in chosen.files]
        pieces = drill.share_of(files, readers=settings.restore_readers, share=share, shares=shares)
        return about, drill.read_files(pieces, reader="mountpoint", threads=threads, on_bytes=on_bytes)
    files = [(lake.place_of(settings, each.path).key, each.size) for each in chosen.files]
    pieces = drill.share_of(files, readers=settings.restore_readers, share=share, shares=shares)
    bucket = lake.place_of(settings, chosen.path).bucket
    return about, drill.read_objects(aws, bucket, pieces, threads=threads, on_bytes=on_bytes)
