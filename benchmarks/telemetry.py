"""What watching a loop costs: microseconds a step and memory, beside the bare loop in one run.

Both loops run over the same iterable with the same body, in turns; records go to a file, once a second. Memory is what
the process holds more than before (resident set) after millions of steps, and what Python's allocator counts. Exit code
1 where a step costs more than 5 microseconds, or memory grows by more than 20 MB.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from training_storage.node.telemetry import Telemetry

MICROSECONDS, MEGABYTES = 5.0, 20.0
"""What a step and the memory may cost."""


class Queue:
    """An iterator with the attributes of PyTorch's loader with workers, so that the depth of its queue is read."""

    def __init__(self, count: int) -> None:
        self._left = iter(range(count))
        self._data_queue = self
        self._task_info: dict[int, Any] = {}
        self._tasks_outstanding = 0

    def qsize(self) -> int:
        return 2

    def __iter__(self) -> Queue:
        return self

    def __next__(self) -> int:
        return next(self._left)


def loop(batches: Iterable[Any]) -> float:
    """Return seconds of processors of a loop that does nothing."""
    gc.collect()
    begun = time.process_time()
    for _ in batches:
        pass
    return time.process_time() - begun


def turns(telemetry: Telemetry, make: Callable[[int], Any], steps: int, rounds: int) -> tuple[float, float]:
    """Return the medians of the bare and of the watched loop, microseconds a step."""
    bare, watched = [], []
    for _ in range(rounds):
        bare.append(loop(make(steps)))
        watched.append(loop(telemetry.watch(make(steps))))
    return median(bare) / steps * 1e6, median(watched) / steps * 1e6


def resident_mb() -> float:
    """Return the resident set of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="turns of both loops (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=200_000, help="steps of one turn (default: %(default)s)")
    parser.add_argument("--long", type=int, default=10_000_000, help="steps of the long loop (default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        before = resident_mb()
        telemetry = Telemetry(metrics=f"file:{place}/metrics.jsonl", workload="benchmark", interval_s=1)
        telemetry.epoch(1)
        makers: tuple[tuple[str, Callable[[int], Any]], ...] = (("any iterable", range), ("a queue that tells", Queue))
        found = [(name, *turns(telemetry, make, arguments.steps, arguments.rounds)) for name, make in makers]
        off = Telemetry(metrics="off")
        bare, silent = turns(off, range, arguments.steps, arguments.rounds)
        warm = resident_mb()
        loop(telemetry.watch(range(arguments.long)))
        grown = resident_mb() - warm
        tracemalloc.start()
        loop(telemetry.watch(range(20_000)))
        first = tracemalloc.get_traced_memory()[0]
        loop(telemetry.watch(range(100_000)))
        held, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        telemetry.close()
        whole = resident_mb() - before
    print(f"microseconds of processor a step, medians of {arguments.rounds} turns of {arguments.steps:,} steps:")
    for name, plain, watched in found:
        print(
            f"  {name}: bare {plain:.3f}, watched {watched:.3f}: {watched - plain:.2f} more, {watched / plain:.0f}-fold"
        )
    print(f"  off: bare {bare:.3f}, watched {silent:.3f}")
    print(f"resident memory: {whole:.1f} MB for telemetry in all, {grown:+.1f} MB over {arguments.long:,} steps")
    print(
        f"Python's allocator: {first / 1e6:.2f} MB, {held / 1e6:.2f} MB five times later, {peak / 1e6:.2f} MB at most"
    )
    slowest = max(watched - plain for _, plain, watched in found)
    print(f"targets: {MICROSECONDS:g} microseconds a step, {MEGABYTES:g} MB")
    return 0 if slowest <= MICROSECONDS and max(whole, grown) <= MEGABYTES else 1


if __name__ == "__main__":
    raise SystemExit(main())
