"""What lies on a node's local disk, and what became of it: counts for whoever lets the node go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .model import FileEntry, Record

KEPT = "keep"
UNSAVED = "unsaved"
UNPROMOTED = "unpromoted"
HALF_WRITTEN = "half-written"
LOOSE = "loose"

_NAMED = 20


def told(
    files: Iterable[FileEntry],
    checkpoints: Sequence[Mapping[str, Any]],
    records: Iterable[Record],
    leaving: Iterable[str] = (),
) -> dict[str, Any]:
    """Count the files of a disk.

    Args:
        files: What lies there.
        checkpoints: What the status says of all checkpoints.
        records: What has been promoted and agrees with the lake.
        leaving: Paths of checkpoints whose removal is ordered.

    Returns:
        ``files`` and ``bytes``; ``classes`` with both: ``keep`` (recorded, in the lake), ``unsaved`` (of a complete
        checkpoint that has to be there and is not), ``unpromoted`` (the policy leaves it), ``half-written``, ``loose``
        (in no checkpoint); ``checkpoints``: files, bytes and class of each that has files here; ``loose``: names, some.
    """
    proven = {(each.path, each.size, each.modified_ns) for record in records for each in record.files}
    kinds = {str(each["path"]): _kind(each) for each in checkpoints}
    kinds.update({path: UNPROMOTED for path in leaving if kinds.get(path, HALF_WRITTEN) == HALF_WRITTEN})
    answer: dict[str, Any] = {"files": 0, "bytes": 0, "classes": {}, "checkpoints": {}, "loose": []}
    for each in files:
        path = _checkpoint(each.path, kinds)
        kind = kinds[path] if path is not None else LOOSE
        if (each.path, each.size, each.modified_ns) in proven:
            kind = KEPT
        if kind == LOOSE and len(answer["loose"]) < _NAMED:
            answer["loose"].append(each.path)
        counts = [answer, answer["classes"].setdefault(kind, {"files": 0, "bytes": 0})]
        if path is not None:
            held = answer["checkpoints"].setdefault(path, {"files": 0, "bytes": 0, "class": kind})
            held["class"] = kind if held["class"] == KEPT else held["class"]  # one file that is not makes the whole not
            counts.append(held)
        for one in counts:
            one["files"] += 1
            one["bytes"] += each.size
    return answer


def _kind(checkpoint: Mapping[str, Any]) -> str:
    if not checkpoint["complete"]:
        return HALF_WRITTEN
    if checkpoint["promoted"] or not checkpoint["due"]:
        return UNPROMOTED
    return UNSAVED


def _checkpoint(path: str, kinds: Mapping[str, str]) -> str | None:
    folder = path.rpartition("/")[0]
    while True:
        if folder in kinds:
            return folder
        if not folder:
            return None
        folder = folder.rpartition("/")[0]
