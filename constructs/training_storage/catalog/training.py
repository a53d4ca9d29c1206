"""What training meets besides throughput: how long a read waits for its first byte, and how often accelerators fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from training_storage.catalog.model import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLatency:
    """How long one step of a read takes, as published: a range.

    Attributes:
        low_s: Lower end, seconds; None where only an upper end is published ("under 1 ms").
        high_s: Upper end, seconds: what a plan counts; None where nothing is published.
        below_bytes: The row holds for reads smaller than this; None where it holds for all.
        source: Where the row comes from.
    """

    low_s: float | None
    high_s: float | None
    source: Source
    below_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRate:
    """What one request brings once its bytes flow, as published: a range.

    Attributes:
        low_mb_per_s: Lower end, MB/s: what a plan counts; None where nothing is published.
        high_mb_per_s: Upper end, MB/s; None where only a lower end is published.
        source: Where the row comes from.
    """

    low_mb_per_s: float | None
    high_mb_per_s: float | None
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRate:
    """How often one accelerator fails.

    Attributes:
        accelerator_mttf_h: Hours between failures of one accelerator that end the run.
        source: Where the row comes from.
    """

    accelerator_mttf_h: float
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCatalog:
    """Latencies of the tiers and failure rates.

    Tiers are ``s3``, ``s3_express``, ``s3_files`` and ``lustre.`` with the storage type such as ``lustre.SSD``. A tier
    without a row is not known: what would need it is then left out.

    Attributes:
        latencies: By tier and step such as ``s3.first_byte``; the other step is ``open``: finding a file before it is
            read. A tier with ``.small`` at its end is the same tier for reads below ``below_bytes``.
        stream_rates: By tier.
        failure_rates: By name; ``default`` is what a plan counts.
    """

    latencies: Mapping[str, ReadLatency] = field(hash=False)
    stream_rates: Mapping[str, StreamRate] = field(hash=False)
    failure_rates: Mapping[str, FailureRate] = field(hash=False)

    def first_byte(self, tier: str, read_bytes: float | None = None) -> ReadLatency | None:
        """Return how long a read waits for its first byte.

        Args:
            tier: The tier.
            read_bytes: Size of the read. Left out: a large one.
        """
        return self._latency(tier, "first_byte", read_bytes)

    def open(self, tier: str, read_bytes: float | None = None) -> ReadLatency | None:
        """Return how long finding a file takes before its first read; arguments as for ``first_byte``."""
        return self._latency(tier, "open", read_bytes)

    def stream_mb_per_s(self, tier: str, read_bytes: float | None = None) -> float | None:
        """Return what one request brings at least, MB/s; None where nothing is published. Arguments as above."""
        row = self.stream_rates.get(f"{tier}.small" if self._small(tier, "first_byte", read_bytes) else tier)
        return None if row is None else row.low_mb_per_s

    @property
    def accelerator_mttf(self) -> FailureRate:
        """The failure rate of a workload that gives none."""
        return self.failure_rates["default"]

    def _latency(self, tier: str, step: str, read_bytes: float | None) -> ReadLatency | None:
        return self._small(tier, step, read_bytes) or self.latencies.get(f"{tier}.{step}")

    def _small(self, tier: str, step: str, read_bytes: float | None) -> ReadLatency | None:
        """The row for small reads, where the tier has one and the read is so small."""
        row = None if read_bytes is None else self.latencies.get(f"{tier}.small.{step}")
        if row is None or read_bytes is None or row.below_bytes is None or read_bytes >= row.below_bytes:
            return None
        return row
