"""A clock that moves when it is told to, loaders and loops that take a known time by it, and a place for records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from training_storage.node.telemetry import Telemetry

MS = 1_000_000


class Clock:
    """Steady ns."""

    def __init__(self) -> None:
        self.now = 1_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_s(self, seconds: float) -> None:
        self.now += round(seconds * 1e9)


class Kept:
    """A sink that keeps records, or says no."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.away = False

    def send(self, record: Mapping[str, Any]) -> None:
        if self.away:
            raise ConnectionRefusedError("nobody listens")
        self.records.append(dict(record))

    def close(self) -> None:
        pass

    @property
    def last(self) -> dict[str, Any]:
        return self.records[-1]

    def total(self, name: str) -> float:
        """Sum of a metric over all records, its lists included."""
        values = [record[name] for record in self.records if name in record]
        return sum(sum(each) if isinstance(each, list) else each for each in values)

    def all(self, name: str) -> list[float]:
        values = [record[name] for record in self.records if name in record]
        return [one for each in values for one in (each if isinstance(each, list) else [each])]


class Loader:
    """Batches that take a known time each."""

    def __init__(self, clock: Clock, waits: Sequence[float] | Callable[[int], float], count: int = 0) -> None:
        self._clock = clock
        self._waits = waits
        self._count = count if callable(waits) else len(waits)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for number in range(self._count):
            self._clock.pass_s(self._waits(number) if callable(self._waits) else self._waits[number])
            yield number


def recorder(clock: Clock, sink: Kept, **given: Any) -> Telemetry:
    told = {"workload": "w", "run": "r1", "rank": 3, "instance": "i-0a1", "interval_s": 60.0, **given}
    return Telemetry(clock=clock, sink=sink, wall=lambda: 1_700_000_000 + clock.now * 1e-9, **told)
