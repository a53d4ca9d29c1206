"""How long one read takes on a tier: finding the file, the first byte, and the rest of its bytes."""

from __future__ import annotations

from dataclasses import dataclass

from training_storage.catalog.training import ReadLatency, TrainingCatalog
from training_storage.planner.demand import PART_BYTES, Needs
from training_storage.planner.words import number, seconds
from training_storage.units import MB

_TIERS = {"s3": "S3", "s3_express": "S3 Express", "s3_files": "S3 Files"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTime:
    """One read, by what is published; of a range the cautious end.

    Attributes:
        tier: Tier as the catalog names it.
        unit_bytes: Bytes that one read in flight brings.
        first_byte: How long it waits for its first byte; None where that is not known.
        open: How long finding a file takes; None where that is not known, or where nothing is opened.
        opens_per_read: Share of the reads that begin with an open; None where opens are not known.
        files: Whether the code opens files; object code asks for an object at once.
        stream_mb_per_s: What one request brings, MB/s; None where nothing is published.
    """

    tier: str
    unit_bytes: float
    first_byte: ReadLatency | None
    open: ReadLatency | None
    opens_per_read: float | None
    files: bool
    stream_mb_per_s: float | None

    @property
    def first_byte_s(self) -> float | None:
        """To the first byte, seconds."""
        return None if self.first_byte is None else self.first_byte.high_s

    @property
    def open_s(self) -> float:
        """Opening, on average over the reads, seconds; 0 where it is not known or not needed."""
        if self.open is None or self.open.high_s is None or self.opens_per_read is None:
            return 0.0
        return self.open.high_s * self.opens_per_read

    @property
    def transfer_s(self) -> float:
        """From the first byte to the last, seconds; 0 where no rate of one request is published."""
        return 0.0 if self.stream_mb_per_s is None else self.unit_bytes / MB / self.stream_mb_per_s

    @property
    def seconds(self) -> float | None:
        """The whole read, seconds; None where the first byte is not known."""
        first = self.first_byte_s
        return None if first is None else first + self.open_s + self.transfer_s


def read_time(needs: Needs, training: TrainingCatalog, tier: str, *, files: bool) -> ReadTime | None:
    """Return how long one read takes; None where the loader is not known.

    Args:
        needs: The demand.
        training: Where latencies stand.
        tier: Tier as the catalog names it, such as ``lustre.SSD``.
        files: Whether the code opens files.
    """
    if needs.reads_in_flight is None:
        return None
    unit = unit_bytes(needs)
    return ReadTime(
        tier=tier,
        unit_bytes=unit,
        first_byte=training.first_byte(tier, unit),
        open=training.open(tier, unit) if files else None,
        opens_per_read=_opens_per_read(needs, unit) if files else None,
        files=files,
        stream_mb_per_s=training.stream_mb_per_s(tier, unit),
    )


def unit_bytes(needs: Needs) -> float:
    """Return the bytes that one read in flight brings.

    A sample; the file where samples are not known, or files are smaller; at most one part of 8 MiB, and one part where
    neither is known.
    """
    known = [size for size in (needs.sample_bytes, needs.file_bytes) if size is not None]
    return min(*known, PART_BYTES) if known else float(PART_BYTES)


def _opens_per_read(needs: Needs, unit: float) -> float | None:
    """Opens over reads: 1 where each read is a file, less where a file holds several; never above 1."""
    opens, read_mb = needs.demand.file_opens_per_s, needs.demand.read_mb_per_s
    if opens is None or not read_mb:
        return None
    return min(1.0, opens * unit / (read_mb * MB))


def explain_read(time: ReadTime) -> str:
    """Return what a reader must know about the figures of one read, as an assumption."""
    name = _TIERS.get(time.tier, time.tier.replace("lustre.", "Lustre ").replace("_", " "))
    if time.seconds is None:
        return f"latency of {name} is not known, and no limit of the reads: dataset.loader changes nothing here"
    parts = [f"first byte {_published(time.first_byte)}"]
    if time.files:
        if time.opens_per_read is None:
            parts.append("opens are not known and not counted")
        elif time.open is None or time.open.high_s is None:
            parts.append("how long an open takes is not known and not counted")
        else:
            share = "each read" if time.opens_per_read >= 1 else f"{number(time.opens_per_read)} of the reads"
            parts.append(f"open {_published(time.open)}, for {share}")
    if time.stream_mb_per_s is None:
        parts.append("no rate of one stream is published, so that the bytes after the first take no time")
    else:
        parts.append(f"then {number(time.stream_mb_per_s)} MB/s a request")
    return (
        f"one read on {name} brings {number(time.unit_bytes / MB)} MB in {seconds(time.seconds)} ({'; '.join(parts)}), "
        "and a loader keeps workers x prefetch of them in flight; read-ahead and caches on the nodes are not counted"
    )


def _published(latency: ReadLatency | None) -> str:
    """The figure that counts, and the range that it is the cautious end of."""
    if latency is None or latency.high_s is None:
        return "not known"
    if latency.low_s is None:
        return f"{seconds(latency.high_s)}, published as less"
    if latency.low_s == latency.high_s:
        return seconds(latency.high_s)
    return f"{seconds(latency.high_s)}, published as {seconds(latency.low_s)} to {seconds(latency.high_s)}"
