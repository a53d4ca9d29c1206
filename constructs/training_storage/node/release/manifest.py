"""The manifest: every file that must be in S3, as a node sees it after the export. Removes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, Callable

from .. import places
from ..aws import Aws
from ..roots import rooted
from ..settings import Settings
from .compare import Entry, look
from .sorting import KEEP, Found, Sorter, States
from .survey import EVERY, Progress, summary
from .tally import Tally

PART = 20_000
"""Files of one part."""


def manifest(
    aws: Aws,
    settings: Settings,
    *,
    run: str,
    leave: Iterable[str] = (),
    progress: Progress = lambda _figures: None,
    clock: Callable[[], float] = time.time,
    states: States | None = None,
    part_size: int = PART,
) -> dict[str, Any]:
    """Write every file that must be kept, in parts, and then the index at ``places.manifest_key``.

    What no link takes to S3 is uploaded on the way. Checkpoints that have to be in the lake, have no record and are
    found there whole get their record.

    Args:
        aws: Clients.
        settings: Settings of the node.
        run: Tells manifests apart.
        leave: Paths that are left behind on purpose.
        progress: Takes figures now and then.
        clock: The time, in seconds since 1970.
        states: As in ``Sorter``.
        part_size: Files of one part.

    Returns:
        Counts of the index.

    Raises:
        Refusal: Something keeps it from seeing everything.
        OSError: A directory or a file cannot be read.
        ClientError: S3 refused or failed.
    """
    began = clock()
    writer = _Writer(aws, settings, run, part_size)
    began_there = writer.time(began)
    sorter = Sorter(aws, settings, leave=leave, clock=clock, states=states)
    tally = Tally(settings.mount)
    for found in sorter.files():
        tally.add(found)
        if found.kind == KEEP:
            if found.way == "upload":
                _upload(aws, settings, found)
            writer.add(found)
        if tally.files % EVERY == 0:
            progress({"files": tally.files, "bytes": tally.bytes})
    writer.flush()
    recorded = _record(aws, settings, sorter, clock)
    ended = clock()
    whole: dict[str, Any] = {
        "version": 1,
        "run": run,
        "workload": settings.workload,
        "hot_tier_id": settings.hot_tier_id,
        "began": began,
        "ended": ended,
        "began_there": began_there,
        "ended_there": writer.time(ended),
        "parts": writer.parts,
        "keep_files": sum(each["files"] for each in writer.parts),
        "keep_bytes": sum(each["bytes"] for each in writer.parts),
        "files": tally.files,
        "bytes": tally.bytes,
        "classes": tally.to_dict(),
        "pointers": sorter.pointers,
        "pointer_count": sorter.pointer_count,
        "recorded": recorded,
    }
    body = json.dumps(whole, indent=1, sort_keys=True) + "\n"
    aws("s3").put_object(
        Bucket=settings.lake_bucket,
        Key=places.manifest_key(settings.hot_tier_id),
        Body=body.encode(),
        ContentType="application/json",
    )
    return {**summary(whole), "parts": len(writer.parts), "recorded": len(recorded)}


class _Writer:
    def __init__(self, aws: Aws, settings: Settings, run: str, size: int) -> None:
        self._aws, self._settings, self._run, self._size = aws, settings, run, size
        self._lines: list[str] = []
        self._bytes = 0
        self._skew: float | None = None
        self.parts: list[dict[str, Any]] = []

    def add(self, found: Found) -> None:
        line = {
            "path": found.path,
            "bucket": found.bucket,
            "key": found.key,
            "size": found.size,
            "mtime_ns": found.modified_ns,
        }
        self._lines.append(json.dumps(line, sort_keys=True))
        self._bytes += found.size
        if len(self._lines) >= self._size:
            self.flush()

    def flush(self) -> None:
        if not self._lines:
            return
        body = ("\n".join(self._lines) + "\n").encode()
        key = places.manifest_part_key(self._settings.hot_tier_id, self._run, len(self.parts))
        self._aws("s3").put_object(
            Bucket=self._settings.lake_bucket, Key=key, Body=body, ContentType="application/x-ndjson"
        )
        self.parts.append(
            {
                "key": key,
                "files": len(self._lines),
                "bytes": self._bytes,
                "sha256": hashlib.sha256(body).hexdigest(),
            }
        )
        self._lines, self._bytes = [], 0

    def time(self, here: float) -> float:
        """Return what a clock of AWS shows when this node's shows ``here``: CloudWatch's times are of that clock."""
        if self._skew is None:
            before = time.time()
            answer = self._aws("s3").list_objects_v2(
                Bucket=self._settings.lake_bucket,
                Prefix=places.hot_tier_folder(places.RELEASES, self._settings.hot_tier_id),
                MaxKeys=1,
            )
            self._skew = 0.0
            told = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
            with contextlib.suppress(TypeError, ValueError):
                self._skew = parsedate_to_datetime(told).timestamp() - before
            # The header knows whole seconds.
            self._skew = 0.0 if abs(self._skew) < 2 else self._skew
        return here + self._skew


def _upload(aws: Aws, settings: Settings, found: Found) -> None:
    """Upload a file that no link takes to S3, where its object is not there or is another one.

    One that changes meanwhile is left: the comparison that follows will name it.
    """
    if not look(aws, Entry(found.path, found.bucket, found.key, found.size, found.modified_ns)).wrong:
        return
    from ..checkpoints.lake import Place
    from ..checkpoints.model import Checkpoint, FileEntry
    from ..checkpoints.promotion import Job, PromotionError
    from ..checkpoints.promotion_upload import upload_files
    from ..checkpoints.tree import LocalTree

    class Loose(Job):
        def place(self, _path: str) -> Place:
            return Place(found.bucket, found.key, None)

    entry = FileEntry(found.path[len(settings.mount.rstrip("/")) + 1 :], found.size, found.modified_ns)
    nothing = Checkpoint("", "", "marker", None, False, "", False, 0, (entry,))
    with contextlib.suppress(PromotionError):
        upload_files(Loose(aws, settings, LocalTree(rooted(settings.mount)), nothing), (entry,))


def _record(aws: Aws, settings: Settings, sorter: Sorter, clock: Callable[[], float]) -> list[str]:
    """Write the records of checkpoints that the export has taken to the lake; return their paths.

    One that is not there whole gets none: the comparison that follows will name its files.
    """
    due = [each for each in sorter.verdicts.values() if each.due and each.checkpoint.complete and not each.promoted]
    if not due:
        return []
    from ..checkpoints import records
    from ..checkpoints.lake import method_of, place_of
    from ..checkpoints.model import Record, RecordedFile

    done = []
    for verdict in due:
        checkpoint, files = verdict.checkpoint, []
        for each in checkpoint.files:
            place = place_of(settings, each.path)
            seen = look(aws, Entry(each.path, place.bucket, place.key, each.size, each.modified_ns))
            if seen.wrong:
                break
            files.append(RecordedFile(each.path, each.size, each.modified_ns, seen.etag, seen.version))
        else:
            when = datetime.fromtimestamp(clock(), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            records.write(
                aws,
                settings.lake_bucket,
                Record(
                    path=checkpoint.path,
                    series=checkpoint.series,
                    layout=checkpoint.layout,
                    step=checkpoint.step,
                    number=verdict.number,
                    fingerprint=checkpoint.fingerprint,
                    reason=verdict.due,
                    method=method_of(settings, checkpoint.path),
                    promoted_at=when,
                    metrics=checkpoint.metrics,
                    files=tuple(files),
                ),
            )
            done.append(checkpoint.path)
    return done
