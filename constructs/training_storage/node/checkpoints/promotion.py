"""Bring a checkpoint to the lake, and prove that it is there before anything says so.

How it gets there depends on where it lies: one module a method, all of them safe to be called again after they were
interrupted. The proof is the same for all: every object against its file, and the files once more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Callable

from ..aws import Aws
from ..settings import Settings
from . import lake
from .completeness import MARKERS, TRAINER_STATE
from .layouts import removal_order
from .model import Checkpoint, FileEntry, Record, RecordedFile
from .tree import Tree

SKEW_S = 5.0
"""How far the clocks of a node and of S3 may be apart, where only they tell whether an object is newer than a file."""

Report = Callable[[dict[str, Any]], None]


class PromotionError(Exception):
    """A checkpoint is not proven to be in the lake; nothing is recorded.

    Attributes:
        reasons: Why, by file: an error code of FSx or S3, or one of ours. Empty where it is not about single files.
    """

    def __init__(self, message: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reasons: dict[str, str] = dict(reasons or {})


@dataclass(frozen=True)
class Job:
    """One promotion.

    Attributes:
        aws: Clients.
        settings: Settings of the agent.
        tree: The hot tier.
        checkpoint: What goes to the lake.
        clock: The time, seconds since 1970.
        sleep: Waits.
        report: Takes progress.
        last: Paths of files that go last, so that the lake never shows a half-uploaded checkpoint as a complete one.
    """

    aws: Aws
    settings: Settings
    tree: Tree
    checkpoint: Checkpoint
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    report: Report = lambda _progress: None
    last: frozenset[str] = frozenset()
    _done: dict[str, int] = field(default_factory=lambda: {"files": 0, "bytes": 0})

    def place(self, path: str) -> lake.Place:
        """Return where a file belongs in S3."""
        return lake.place_of(self.settings, path)

    def tell(self, state: str, **more: Any) -> None:
        """Report what is being done."""
        total = {"files": len(self.checkpoint.files), "bytes": self.checkpoint.size}
        done = {"files_done": self._done["files"], "bytes_done": self._done["bytes"]}
        self.report({"path": self.checkpoint.path, "state": state, **total, **done, **more})

    def done(self, state: str, entry: FileEntry) -> None:
        """Report that a file is done."""
        self._done["files"] += 1
        self._done["bytes"] += entry.size
        self.tell(state)


Sums = dict[str, dict[str, str]]
"""Checksums that the hot side knows: by path, then base64 by algorithm."""


def completing(checkpoint: Checkpoint) -> frozenset[str]:
    """Return the files that make a checkpoint complete: uploaded last, as they are removed first."""
    order = removal_order(checkpoint)
    skip = len(lake.inside(checkpoint.path))
    named = {each.path for each in order if each.path[skip:] in {*MARKERS, TRAINER_STATE, ".metadata"}}
    return frozenset(named or {each.path for each in order[:1]})


def promote(
    aws: Aws,
    settings: Settings,
    tree: Tree,
    checkpoint: Checkpoint,
    *,
    number: int | None,
    reason: str,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    report: Report = lambda _progress: None,
) -> Record:
    """Bring a complete checkpoint to the lake.

    Args:
        aws: Clients.
        settings: Settings of the agent.
        tree: The hot tier.
        checkpoint: The checkpoint.
        number: Its number in the series.
        reason: Why: ``every``, ``best``, ``last`` or ``asked``.
        clock: The time, seconds since 1970.
        sleep: Waits for tasks and queues.
        report: Takes progress: path, state, files and bytes, of which are done.

    Returns:
        The record: every object was compared. It is not written yet.

    Raises:
        PromotionError: It is not proven to be in the lake.
        ClientError: AWS refused or failed.
        BotoCoreError: AWS was not reached.
    """
    method = lake.method_of(settings, checkpoint.path)
    last = completing(checkpoint)
    job = Job(aws, settings, tree, checkpoint, clock=clock, sleep=sleep, report=report, last=last)
    _refuse(job)
    _unchanged(job, "before")
    job.tell("starting", method=method)
    sums = _bring(method)(job)
    job.tell("verifying", method=method)
    files, wrong = prove(job, checkpoint.files, sums)
    if wrong:
        raise PromotionError(_told(checkpoint.path, method, wrong), wrong)
    _unchanged(job, "while")
    return Record(
        path=checkpoint.path,
        series=checkpoint.series,
        layout=checkpoint.layout,
        step=checkpoint.step,
        number=number,
        fingerprint=checkpoint.fingerprint,
        reason=reason,
        method=method,
        promoted_at=iso(clock()),
        metrics=dict(checkpoint.metrics),
        files=tuple(files),
    )


def iso(seconds: float) -> str:
    """Return a time as ISO 8601, UTC, whole seconds."""
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bring(method: str) -> Callable[[Job], Sums]:
    # Imported here: they raise this module's error.
    from . import promotion_auto, promotion_copy, promotion_export, promotion_upload

    return {
        "export-task": promotion_export.export,
        "auto-export": promotion_auto.wait_for_export,
        "copy": promotion_copy.copy,
        "upload": promotion_upload.upload,
    }[method]


def _refuse(job: Job) -> None:
    checkpoint = job.checkpoint
    if not checkpoint.complete:
        raise PromotionError(f"{checkpoint.path} is half-written ({checkpoint.missing}); only complete ones go to S3")
    unfit = {each.path: _unfit(job.place(each.path).key) for each in checkpoint.files}
    wrong = {path: code for path, code in unfit.items() if code}
    if wrong:
        raise PromotionError(_told(checkpoint.path, "any method", wrong), wrong)
    if len({job.place(each.path).link for each in checkpoint.files}) > 1:
        raise PromotionError(
            f"{checkpoint.path} lies under several links of the file system; fix: save checkpoints below one of them"
        )


def _unfit(key: str) -> str:
    """Return why S3 cannot hold a key: it takes UTF-8 of at most 1,024 bytes (Amazon S3 user guide, object keys)."""
    try:
        return "" if len(key.encode()) <= 1024 else "PathSizeTooLong"
    except UnicodeEncodeError:
        return "NameNotUtf8"


def _unchanged(job: Job, when: str) -> None:
    """Look whether the files on the hot tier are those that the checkpoint was found with."""
    now = replace(job.checkpoint, files=lake.hot_files(job.tree, job.checkpoint))
    if now.fingerprint != job.checkpoint.fingerprint:
        raise PromotionError(
            f"{job.checkpoint.path} changed {when} it was being promoted; nothing is recorded; fix: leave finished "
            "checkpoints alone; the next run looks at it anew"
        )


def prove(
    job: Job, entries: tuple[FileEntry, ...], sums: Mapping[str, Mapping[str, str]], *, strict: bool = False
) -> tuple[list[RecordedFile], dict[str, str]]:
    """Compare objects in S3 with files, one by one.

    Args:
        job: The promotion.
        entries: The files.
        sums: Checksums that the hot side knows.
        strict: Take nothing for proven that does not carry the modification time of its file: for telling whether
            earlier work can be trusted, where the clocks of two machines are not enough.

    Returns:
        What can be recorded, and what is wrong, by path.
    """
    place = job.place(job.checkpoint.path)
    prefix = place.key if not job.checkpoint.path else place.key + "/"
    there = lake.listing(job.aws, place.bucket, prefix)
    wrong: dict[str, str] = {}
    for entry in entries:
        found = there.get(job.place(entry.path).key)
        if found is None:
            wrong[entry.path] = "NotInS3"
        elif found.size != entry.size:
            wrong[entry.path] = "SizeDiffers"
    if wrong:
        return [], wrong  # no need to look closer

    def compare(entry: FileEntry) -> RecordedFile | str:
        where = job.place(entry.path)
        found = lake.look(job.aws, where.bucket, where.key)
        return _compared(entry, found, sums.get(entry.path, {}), strict)

    proven: list[RecordedFile] = []

    def done(_entry: FileEntry, _answer: RecordedFile | str) -> None:
        job.tell("verifying")  # a look at each of a million objects takes longer than a lease lasts

    for entry, answer in zip(entries, lake.in_parallel(compare, entries, done)):
        if isinstance(answer, str):
            wrong[entry.path] = answer
        else:
            proven.append(answer)
    return proven, wrong


def _compared(entry: FileEntry, found: lake.Seen | None, sums: Mapping[str, str], strict: bool) -> RecordedFile | str:
    if found is None:
        return "NotInS3"
    if found.size != entry.size:
        return "SizeDiffers"
    if found.modified_ns is not None:
        if not same_time(found.modified_ns, entry.modified_ns):
            return "NotThisVersionOfTheFile"
    elif strict or (found.uploaded + 1 + SKEW_S) * 1e9 < entry.modified_ns:
        return "OlderThanTheFile"
    agreed = ""
    for algorithm in sorted(set(sums) & set(found.sums)):
        if sums[algorithm] != found.sums[algorithm]:
            return "ChecksumDiffers"
        agreed = f"{algorithm}={sums[algorithm]}"
    return RecordedFile(entry.path, entry.size, entry.modified_ns, found.etag, found.version, agreed)


def same_time(one_ns: int, other_ns: int) -> bool:
    """Whether two modification times are the same; a Lustre client may show whole seconds where its server has more."""
    if one_ns == other_ns:
        return True
    second = 1_000_000_000
    return (one_ns % second == 0 or other_ns % second == 0) and one_ns // second == other_ns // second


_FIX = {
    "NotInS3": "where an export task succeeded, FSx takes the file for exported already: touch it",
    "SizeDiffers": "somebody else wrote to the same key",
    "NotThisVersionOfTheFile": "the object was made of an older version of the file",
    "OlderThanTheFile": "the object was uploaded before the file was last written",
    "ChecksumDiffers": "the bytes are not those of the file",
    "PathSizeTooLong": "S3 keys have at most 1,024 bytes: use shorter names",
    "NameNotUtf8": "S3 keys are UTF-8: rename the file",
    "S3AccessDenied": "FSx, or the key that encrypts the bucket, does not let it write",
}


def _told(path: str, method: str, wrong: Mapping[str, str]) -> str:
    first, code = sorted(wrong.items())[0]
    more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    fix = f" ({_FIX[code]})" if code in _FIX else ""
    return (
        f"{path} is not in S3 after {method}: {first}: {code}{fix}{more}; nothing is recorded, the next run tries again"
    )


def failed(path: str, method: str, wrong: Mapping[str, str], message: str) -> PromotionError:
    """Return the error of a method that said itself what failed."""
    if wrong:
        return PromotionError(_told(path, method, wrong) + (f"; {message}" if message else ""), wrong)
    return PromotionError(
        f"{path} is not in S3 after {method}: {message or 'no reason is given'}; the next run tries again"
    )
