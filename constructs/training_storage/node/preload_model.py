"""What a preload counts, what it answers, and the sum of the answers of several nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .preload_reasons import WORDS

MOST_NAMED = 1_000
"""Failures named file by file in one answer; the rest is counted by reason."""


@dataclass
class Counts:
    """Counts of a run; safe in several threads.

    Attributes:
        loaded: Files whose data this run brought.
        there: Files whose data was there.
        failed: Files whose data is not there.
        reasons: Failed files by code.
        failures: Path, code and text of the first of them.
    """

    loaded: int = 0
    loaded_bytes: int = 0
    there: int = 0
    there_bytes: int = 0
    failed: int = 0
    failed_bytes: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    _moving: dict[int, int] = field(default_factory=dict)
    _most: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add_loaded(self, size: int) -> None:
        """Count a file whose data came."""
        with self._lock:
            self.loaded += 1
            self.loaded_bytes += size

    def add_there(self, size: int) -> None:
        """Count a file whose data was there."""
        with self._lock:
            self.there += 1
            self.there_bytes += size

    def add_failed(self, path: str, size: int, code: str, text: str) -> None:
        """Count a file whose data did not come."""
        with self._lock:
            self.failed += 1
            self.failed_bytes += size
            self.reasons[code] = self.reasons.get(code, 0) + 1
            if len(self.failures) < MOST_NAMED:
                self.failures.append({"path": path, "code": code, "text": text})

    def moving(self, batch: int, moved: int) -> None:
        """Note bytes of restores that are under way; 0 when a batch is over."""
        with self._lock:
            if moved:
                self._moving[batch] = moved
            else:
                self._moving.pop(batch, None)

    def progress(self, files: int, size: int) -> dict[str, Any]:
        """Return how far the run is.

        Args:
            files: Files of this share.
            size: Their bytes.
        """
        with self._lock:
            done = self.loaded + self.there + self.failed
            counted = self.loaded_bytes + self.there_bytes + self.failed_bytes + sum(self._moving.values())
            # A restore that fails takes its bytes back; a bar that runs backwards helps nobody.
            self._most = max(self._most, min(size, counted))
            return {
                "phase": "loading",
                "files": max(files, done),
                "bytes": size,
                "done": done,
                "done_bytes": self._most,
                "loaded": self.loaded,
                "loaded_bytes": self.loaded_bytes,
                "there": self.there,
                "failed": self.failed,
            }

    def answer(self) -> dict[str, Any]:
        """Return the counts as plain data."""
        with self._lock:
            return {
                "files": self.loaded + self.there + self.failed,
                "bytes": self.loaded_bytes + self.there_bytes + self.failed_bytes,
                "loaded": self.loaded,
                "loaded_bytes": self.loaded_bytes,
                "there": self.there,
                "there_bytes": self.there_bytes,
                "failed": self.failed,
                "failed_bytes": self.failed_bytes,
                "reasons": dict(sorted(self.reasons.items())),
                "failures": list(self.failures),
                "failures_left_out": self.failed - len(self.failures),
            }


_SUMMED = (
    "files", "bytes", "loaded", "loaded_bytes", "there", "there_bytes", "failed", "failed_bytes", "failures_left_out",
    "to_load", "to_load_bytes", "done", "done_bytes",
)  # fmt: skip


def combine(answers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of the answers, or of the progress, of several nodes.

    Args:
        answers: What the nodes returned; keys that are not there count as nothing.

    Returns:
        Sums, reasons by code with ``count`` and ``what``, at most 1,000 failures, and every warning once.
    """
    found: dict[str, Any] = dict.fromkeys(_SUMMED, 0)
    reasons: dict[str, int] = {}
    failures: list[dict[str, str]] = []
    warnings: list[str] = []
    seconds = 0.0
    for each in answers:
        for name in _SUMMED:
            found[name] += int(each.get(name) or 0)
        for code, count in (each.get("reasons") or {}).items():
            reasons[code] = reasons.get(code, 0) + int(count)
        failures.extend(each.get("failures") or ())
        warnings.extend(text for text in each.get("warnings") or () if text not in warnings)
        seconds = max(seconds, float(each.get("seconds") or 0))
    found["failures_left_out"] += max(0, len(failures) - MOST_NAMED)
    found["failures"] = failures[:MOST_NAMED]
    found["reasons"] = {
        code: {"count": count, "what": WORDS.get(code, "")}
        for code, count in sorted(reasons.items(), key=lambda one: (-one[1], one[0]))
    }
    found["warnings"] = warnings
    found["seconds"] = seconds
    return found


def human(size: float) -> str:
    """Return bytes in powers of 1000, three digits: ``1.23 TB``."""
    value, unit = float(size), "B"
    for unit in ("B", "KB", "MB", "GB", "TB", "PB"):
        if abs(value) < 999.5 or unit == "PB":
            break
        value /= 1000
    if unit == "B":
        return f"{value:.0f} B"
    return f"{value:.2f} {unit}" if value < 9.995 else f"{value:.1f} {unit}" if value < 99.95 else f"{value:.0f} {unit}"
