"""What Mountpoint for Amazon S3 did, from the points that it sends.

Source: mountpoint-s3, ``doc/METRICS.md``. Times are microseconds. What it sends are deltas; they are added up here
until the next record is made.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from .otlp import DELTA, Point

NAMES = ("read_bytes", "write_bytes", "opens", "waits", "wait_us", "errors", "throttled")

_THROTTLED = ("503", "429")
_NOT_FOUND = "404"
"""Programs look for files that are not there; that is no failure."""


class Meter:
    """Adds points up, from the thread that takes requests, and hands the sums to the one that makes records."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: dict[str, float] | None = None

    def add(self, points: Iterable[Point]) -> int:
        """Add the points of one export.

        Args:
            points: The points. Only an export with a metric of Mountpoint's makes anything known.

        Returns:
            How many of Mountpoint's points could not be used, being no deltas.
        """
        sums = dict.fromkeys(NAMES, 0.0)
        ours = unusable = 0
        for point in points:
            if not point.name.startswith(("fuse.", "s3.", "process.")):
                continue
            ours += 1
            if point.temporality == DELTA:
                _add(sums, point)
            elif point.temporality:
                unusable += 1
        if ours > unusable:
            with self._lock:
                before = self._sums or {}
                self._sums = {name: before.get(name, 0.0) + value for name, value in sums.items()}
        return unusable

    def take(self) -> dict[str, float] | None:
        """Return what was added since the last call, by ``NAMES``; None where nothing came."""
        with self._lock:
            sums, self._sums = self._sums, None
        return sums


def _add(sums: dict[str, float], point: Point) -> None:
    if point.value < 0:
        return
    request = point.attributes.get("fuse_request", "")
    if point.name == "fuse.io_size" and request in ("read", "write"):
        sums[f"{request}_bytes"] += point.value
    elif point.name == "fuse.request_latency" and request in ("open", "create"):
        sums["opens"] += point.count
    elif point.name == "s3.request_first_byte_latency":
        sums["waits"] += point.count
        sums["wait_us"] += point.value
    elif point.name == "s3.request_errors":
        status = point.attributes.get("http_status", "")
        sums["errors"] += 0 if status == _NOT_FOUND else point.value
        sums["throttled"] += point.value if status in _THROTTLED else 0
