"""What the checkpoint policy speaks of: files, checkpoints, series, records, decisions. Plain frozen data.

Times are nanoseconds since 1970 (as ``os.stat`` gives them), sizes bytes. Paths are relative to the root that holds
checkpoints (``/fsx/checkpoints``, or ``checkpoints/`` of a bucket), with ``/`` between their parts and none at either
end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class FileEntry:
    """One file of a hot tier, or one object of the lake.

    Attributes:
        path: Path below the root.
        size: Bytes.
        modified_ns: Last modification; of an object in S3 the time of its upload, whole seconds.
        etag: ETag without quotes; empty for a file.
    """

    path: str
    size: int
    modified_ns: int
    etag: str = ""


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint of a hot tier, complete or not.

    Attributes:
        path: Its folder below the root: ``run1/step-300``.
        series: Folder of the run that it belongs to: ``run1``; empty for the root itself.
        layout: ``dcp``, ``deepspeed``, ``megatron``, ``huggingface``, ``nemo`` or ``marker``.
        step: Training step as its name or its files say; None where neither does.
        complete: Whether everything that its layout promises is there. Only complete ones are counted or promoted.
        missing: What a half-written one lacks, in words; empty for a complete one.
        pinned: Whether a pointer file of the layout (``latest`` and the like) names it: it is never pruned.
        modified_ns: When its last file was written.
        files: Its files, by path.
        metrics: Metrics that the training job wrote beside it, by name.
    """

    path: str
    series: str
    layout: str
    step: int | None
    complete: bool
    missing: str
    pinned: bool
    modified_ns: int
    files: tuple[FileEntry, ...]
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(each.size for each in self.files)

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits of paths, sizes and modification times.

        A checkpoint that is written again under the same name is another one: what was proven of the old is no proof
        for it.
        """
        digest = hashlib.sha256()
        for each in sorted(self.files, key=lambda entry: entry.path):
            line = f"{each.path}\0{each.size}\0{each.modified_ns}\n"
            digest.update(line.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:16]


@dataclass(frozen=True)
class Best:
    """Which metric tells the best checkpoint.

    Attributes:
        metric: Name of the metric.
        goal: ``min`` or ``max``.
    """

    metric: str
    goal: str


@dataclass(frozen=True)
class Policy:
    """What is kept on the hot tier and what goes to the lake.

    Attributes:
        keep_hot: Newest complete checkpoints of a series that stay on the hot tier.
        promote_every: Each n-th complete checkpoint of a series is a key version and goes to the lake.
        best: Promotes each checkpoint that is the best so far; None: no metric is looked at.
        incomplete_expires_after_s: A half-written checkpoint older than the newest complete one is pruned when nothing
            in it has changed for so long.
    """

    keep_hot: int
    promote_every: int
    best: Best | None = None
    incomplete_expires_after_s: int = 86_400


@dataclass(frozen=True)
class RecordedFile:
    """One file of a promoted checkpoint, as it was verified in the lake.

    Attributes:
        path: Path below the root, on both sides.
        size: Bytes, on both sides.
        modified_ns: Modification time on the hot tier.
        etag: ETag of the object in the lake.
        version: Version of the object; empty where the bucket keeps none.
        checksum: Checksum that both sides agreed on, ``CRC64NVME=...``; empty where there is none.
    """

    path: str
    size: int
    modified_ns: int
    etag: str
    version: str = ""
    checksum: str = ""


@dataclass(frozen=True)
class Record:
    """A promoted checkpoint: every object was compared with its file before this was written.

    Attributes:
        path: Its folder below the root.
        series: Its series.
        layout: Its layout.
        step: Its step.
        number: Its number in the series, from 1.
        fingerprint: Fingerprint of the hot checkpoint.
        reason: Why it was promoted: ``every``, ``best``, ``last`` or ``asked``.
        method: ``export-task``, ``auto-export``, ``copy`` or ``upload``.
        promoted_at: ISO 8601, UTC.
        metrics: Metrics of the checkpoint.
        files: Its files.
    """

    path: str
    series: str
    layout: str
    step: int | None
    number: int | None
    fingerprint: str
    reason: str
    method: str
    promoted_at: str
    metrics: Mapping[str, float]
    files: tuple[RecordedFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(each.size for each in self.files)


@dataclass(frozen=True)
class Ledger:
    """Numbers of the checkpoints of one series, and what is being pruned. Written before anything depends on it.

    Attributes:
        series: The series.
        numbers: Number of each checkpoint that was seen complete, by ``path@fingerprint``.
        last: Highest number given; pruned checkpoints have had theirs.
        pruning: Checkpoints whose removal has begun, by path, each with the fingerprint that may be removed.
        etag: ETag of the object it was read from; empty for one that is not there yet.
        pruned_by: Workload that removes them: one that shares the lake sees nothing of them on its own hot tier, and
            does not take them for removed. Empty: any.
    """

    series: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    last: int = 0
    pruning: Mapping[str, str] = field(default_factory=dict)
    etag: str = ""
    pruned_by: str = ""


@dataclass(frozen=True)
class Verdict:
    """What the policy says of one checkpoint.

    Attributes:
        checkpoint: The checkpoint.
        number: Its number in the series; None for a half-written one.
        due: Why it has to be in the lake: ``every``, ``best``, ``last``, ``asked``; empty where it need not be.
        promoted: Whether a record proves that exactly these files are in the lake.
        prune: Whether it may be removed from the hot tier now.
        because: The reason, for people.
        doubtful: Whether a half-written one may be finished all the same: weights, and a job that writes no marker.
    """

    checkpoint: Checkpoint
    number: int | None
    due: str
    promoted: bool
    prune: bool
    because: str
    doubtful: bool = False


@dataclass(frozen=True)
class Decision:
    """What the policy says of everything under a root.

    Attributes:
        verdicts: One a checkpoint, series by series, oldest first.
        ledgers: Ledgers with the numbers that this look gave, by series; to be written before anything is done.
    """

    verdicts: tuple[Verdict, ...]
    ledgers: Mapping[str, Ledger]

    @property
    def to_promote(self) -> tuple[Verdict, ...]:
        """Complete checkpoints that have to be in the lake and are not."""
        return tuple(each for each in self.verdicts if each.due and not each.promoted and each.checkpoint.complete)

    @property
    def to_prune(self) -> tuple[Verdict, ...]:
        """Checkpoints that may be removed from the hot tier."""
        return tuple(each for each in self.verdicts if each.prune)

    def by_path(self) -> dict[str, Verdict]:
        """Return the verdicts by path of the checkpoint."""
        return {each.checkpoint.path: each for each in self.verdicts}
