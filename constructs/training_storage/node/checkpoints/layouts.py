"""Which folders of a tree are checkpoints, of which series and step, and what a half-written one lacks.

The outermost folder that is a checkpoint wins: a PyTorch checkpoint inside ``checkpoint-500/`` is a part of it. A
folder that holds checkpoints of several steps is a run, never a checkpoint, whatever else lies in it.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from . import completeness
from .completeness import DEEPSPEED_POINTER, MARKERS, MEGATRON_POINTER, METRICS, TRAINER_STATE
from .folders import Folder, Reader
from .model import Checkpoint, FileEntry
from .steps import bare
from .tree import Tree

POINTERS = (
    DEEPSPEED_POINTER,
    MEGATRON_POINTER,
    "latest_universal",
    "latest.txt",
    "latest_checkpoint",
    "latest_checkpoint.txt",
    "last_checkpoint",
    "best",
    "best.txt",
)
"""Files beside checkpoints that name one: it is never pruned. A symbolic link to a checkpoint does the same."""

_RECENT_NS = 120_000_000_000
"""Checkpoints written so shortly before the newest file are listed twice, in case one was written during the walk."""

_STEP = re.compile(
    r"(?:^|[-_.=])(?:global_?step|steps?|iter(?:ation)?|checkpoint|ckpt|epoch|ep|batch|ba|update)[-_=]?(\d+)"
    r"(?:\.(?:ckpt|pt|pth|dcp))?$",
    re.IGNORECASE,
)
_HUGGINGFACE = re.compile(r"^checkpoint-\d+$")
_MEGATRON = re.compile(r"^iter_\d+$")
_DEEPSPEED = re.compile(r"^global_step\d+$")
_DATA = (
    ".pt",
    ".pth",
    ".bin",
    ".safetensors",
    ".distcp",
    ".ckpt",
    ".npz",
    ".npy",
    ".h5",
    ".msgpack",
    ".pkl",
    ".tar",
    ".tmp",
    ".partial",
)
_STATES = ("_model_states.pt", "_optim_states.pt")


def find_checkpoints(tree: Tree) -> list[Checkpoint]:
    """Return every checkpoint of a tree, by path; what is none (configurations, logs) is left out.

    A checkpoint that changes between two looks at it is half-written, whatever its files say.

    Args:
        tree: What lies below the folder that holds checkpoints.

    Raises:
        OSError: A folder or file cannot be read.
        ClientError: S3 refused or failed.
    """
    root, small, newest = _grow(tree.files())
    reader = Reader(tree)
    reader.load(small)
    links: Mapping[str, str] = getattr(tree, "links", {})
    pinned = set(_pinned(root, reader, links))
    if isinstance(base := getattr(tree, "root", None), str):
        pinned.update(each[len(base) + 1 :] for each in tuple(pinned) if each.startswith(base + "/"))
    found = [_checkpoint(each, parent, layout, reader, pinned) for each, parent, layout in _candidates(root)]
    return sorted(
        (_settled(each, tree) if each.complete and each.modified_ns >= newest - _RECENT_NS else each for each in found),
        key=lambda each: each.path,
    )


def removal_order(checkpoint: Checkpoint) -> tuple[FileEntry, ...]:
    """Return the files of a checkpoint in the order in which they may be removed.

    What makes it complete goes first, so that a removal that is interrupted never leaves something that looks like a
    smaller, complete checkpoint.
    """
    return tuple(sorted(checkpoint.files, key=lambda entry: (removal_rank(checkpoint, entry.path), entry.path)))


LAST_REMOVED = 2
"""Rank of files that are removed last: all that do not make a checkpoint complete."""


def removal_rank(checkpoint: Checkpoint, path: str) -> int:
    """Return when a file of a checkpoint may be removed: every one of a lower rank goes first."""
    name = path.rpartition("/")[2]
    own = path[len(checkpoint.path) + 1 :]
    if own in MARKERS or own in (TRAINER_STATE, ".metadata"):
        return 0
    if name in (".metadata", "metadata.json", "model_optim_rng.pt", "model_rng.pt") or name.endswith(
        "_model_states.pt"
    ):
        return 1
    return LAST_REMOVED


def _grow(files: Iterable[FileEntry]) -> tuple[Folder, list[FileEntry], int]:
    """Return the folders of a listing, the small files that will be read, and the time of the newest file."""
    root = Folder("")
    folders = {"": root}
    small: list[FileEntry] = []
    newest = 0

    def folder_of(path: str) -> Folder:
        known = folders.get(path)
        if known is None:
            known = folders[path] = Folder(path)
            folder_of(path.rpartition("/")[0]).folders[known.name] = known
        return known

    last, current = "", root
    for entry in files:
        path, _, name = entry.path.rpartition("/")
        if path != last:
            last, current = path, folder_of(path)
        current.files[name] = entry
        if entry.modified_ns > newest:
            newest = entry.modified_ns
        if name in _READ or (name in MARKERS and entry.size):
            small.append(entry)
    return root, small, newest


def is_read(entry: FileEntry) -> bool:
    """Whether what a file says matters for what is a checkpoint, and for when it is complete."""
    name = entry.path.rpartition("/")[2]
    return name in _READ or (name in MARKERS and entry.size > 0)


_READ = frozenset({*POINTERS, TRAINER_STATE, METRICS, "metadata.json", *completeness.INDEXES})


def _candidates(root: Folder) -> Iterator[tuple[Folder, Folder, str]]:
    """Yield each folder that is a checkpoint, its parent and its layout. Files right in the root are in none."""
    parents = [root]
    while parents:
        parent = parents.pop()
        for each in parent.folders.values():
            layout = _layout(each, parent)
            if layout and not _is_run(each, layout):
                yield each, parent, layout
            else:
                parents.append(each)


def _layout(folder: Folder, parent: Folder) -> str:
    """Return the layout that a folder looks like, complete or not; empty for one that is no checkpoint."""
    name = bare(folder.name)
    files = folder.files
    if _MEGATRON.match(name) or name == "release":
        beside = MEGATRON_POINTER in parent.files
        inside = (
            "common.pt" in files
            or "metadata.json" in files
            or any(each.startswith("mp_rank_") for each in folder.folders)
        )
        if beside or (inside and name != "release"):
            return "megatron"
    own = (
        "deepspeed"
        if any(each.endswith(_STATES) for each in files)
        else "dcp"
        if ".metadata" in files or ".metadata.tmp" in files or any(each.endswith(".distcp") for each in files)
        else "marker"
        if any(each in files for each in MARKERS)
        else ""
    )
    if _HUGGINGFACE.match(name) and (TRAINER_STATE in files or (not own and _holds_data(folder))):
        return "huggingface"
    if own:
        return own
    if completeness.is_nemo(folder, parent):
        return "nemo"
    if _DEEPSPEED.match(name) and _holds_data(folder):
        return "deepspeed"
    return "marker" if _STEP.search(name) and _holds_data(folder) else ""


def _is_run(folder: Folder, layout: str) -> bool:
    """Whether a folder holds checkpoints of several steps, and is therefore not one itself."""
    name = bare(folder.name)
    says = bool(_STEP.search(name) or name.isdigit() or _MEGATRON.match(name))
    direct = any(each.endswith((*_STATES, ".distcp")) or each in MARKERS for each in folder.files) or any(
        each in folder.files for each in (".metadata", TRAINER_STATE)
    )
    if (says and direct) or layout == "megatron":
        return False
    for each in folder.walk():
        for inner in each.folders.values():
            if layout == "huggingface" and _DEEPSPEED.match(inner.name):
                continue
            if _STEP.search(bare(inner.name)) and _layout(inner, each):
                return True
    return False


def _checkpoint(folder: Folder, parent: Folder, layout: str, reader: Reader, pinned: set[str]) -> Checkpoint:
    missing = _temporary(folder) or _missing(folder, parent, layout, reader)
    state = reader.json(folder.files.get(TRAINER_STATE))
    step = _step(folder.name, state)
    files = sorted(folder.below(), key=lambda each: each.path)
    return Checkpoint(
        path=folder.path,
        series=parent.path,
        layout=layout,
        step=step,
        complete=not missing,
        missing=missing,
        pinned=folder.path in pinned,
        modified_ns=max(each.modified_ns for each in files),
        files=tuple(files),
        metrics=_metrics(reader.json(folder.files.get(METRICS)), state),
    )


def _missing(folder: Folder, parent: Folder, layout: str, reader: Reader) -> str:
    if layout == "megatron":
        return completeness.megatron(folder, parent, reader)
    if layout == "deepspeed":
        return completeness.deepspeed(folder, parent, reader)
    if layout == "nemo":
        return completeness.nemo(folder, parent)
    own = (
        completeness.dcp(folder)
        if layout == "dcp"
        else completeness.huggingface(folder, reader)
        if layout == "huggingface"
        else completeness.marker(folder, reader)
    )
    return own or completeness.nested(folder, reader)


def _settled(checkpoint: Checkpoint, tree: Tree) -> Checkpoint:
    """Look at a checkpoint again: the walk may have met it while it was being written."""
    again = {each.path: each for each in tree.files(checkpoint.path)}
    if len(again) == len(checkpoint.files) and all(again.get(each.path) == each for each in checkpoint.files):
        return checkpoint
    return replace(checkpoint, complete=False, missing="rest: it changed while it was looked at")


def _temporary(folder: Folder) -> str:
    """Name the first temporary file or folder: the own name counts too."""
    if bare(folder.name) != folder.name:
        return f"its final name: {folder.name} is a temporary one"
    for each in folder.walk():
        for name in (*each.folders, *each.files):
            if bare(name) != name:
                inner = each.path[len(folder.path) + 1 :]
                return f"final names: {inner + '/' if inner else ''}{name} is a temporary one"
    return ""


def _step(name: str, state: Mapping[str, Any] | None) -> int | None:
    final = bare(name)
    found = _STEP.search(final)
    if found:
        return int(found.group(1))
    if final.isdigit():
        return int(final)
    step = (state or {}).get("global_step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def _holds_data(folder: Folder) -> bool:
    """Whether anything in a folder looks like weights: without them it is a folder of logs or configurations."""
    return any(each.path.endswith(_DATA) for each in folder.below())


def _metrics(given: Mapping[str, Any] | None, state: Mapping[str, Any] | None) -> dict[str, float]:
    """Return numbers of ``metrics.json``, and the last ``eval_*`` values that the Trainer logged."""
    values: dict[str, float] = {}
    history = (state or {}).get("log_history")
    for each in history if isinstance(history, list) else ():
        if isinstance(each, dict):
            values.update(_numbers((key, value) for key, value in each.items() if str(key).startswith("eval_")))
    values.update(_numbers((given or {}).items()))
    return dict(sorted(values.items()))


def _numbers(pairs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, float]]:
    for key, value in pairs:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        try:
            number = float(value)
        except OverflowError:
            continue
        if math.isfinite(number):
            yield key, number


def _pinned(root: Folder, reader: Reader, links: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths that pointer files and symbolic links name; some may be no checkpoints."""
    for folder in root.walk():
        inner = folder.path + "/" if folder.path else ""
        for name in POINTERS:
            named = (reader.text(folder.files.get(name)) or "")[:4096] if name in folder.files else ""
            if not named:
                continue
            if name == MEGATRON_POINTER and named.isdigit():
                yield from (
                    inner + each for each in folder.folders if _MEGATRON.match(each) and int(each[5:]) == int(named)
                )
            else:
                yield from _named(folder.path, named)
        states = [
            (state.get("global_step") or 0, state.get("best_model_checkpoint"))
            for each in folder.folders.values()
            for state in [reader.json(each.files.get(TRAINER_STATE))]
            if state and isinstance(state.get("global_step"), int)
        ]
        # What the Trainer loads at the end of training is what its newest state calls the best.
        best = max(states, key=lambda each: each[0])[1] if states else None
        if isinstance(best, str):
            yield from _named(folder.path, best)
    for path, target in links.items():
        yield from _named(path.rpartition("/")[0], target)


def _named(folder: str, name: str) -> Iterator[str]:
    """Yield what a name that stands in a folder may mean: a path from there, or one from elsewhere into it."""
    name = name.rstrip("/")
    yield posixpath.normpath(posixpath.join(folder, name))
    yield posixpath.join(folder, posixpath.basename(name))
