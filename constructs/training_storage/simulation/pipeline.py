"""The way of the data, read by read: readers, latency, a shared link, a bounded queue, and accelerators that take."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from training_storage.simulation.model import PipelineInput, PipelineResult, Progress
from training_storage.simulation.random_streams import exponential

if TYPE_CHECKING:
    import simpy

MOST_SLOTS: Final = 256
"""Slots of one accelerator that are simulated; more are simulated as that many with larger units."""

MOST_ACCELERATORS: Final = 8
"""Accelerators that are simulated; more share a link in the same way, only with more events."""

# Units of one accelerator in the window; latencies that vary take more to show their mean.
_FEWEST_UNITS: Final = 512
_FEWEST_UNITS_VARYING: Final = 2048
_WARM_UP_ROUNDS: Final = 4  # of all slots, before the window


def simulate_pipeline(given: PipelineInput, *, seed: int = 0, progress: Progress | None = None) -> PipelineResult:
    """Run the pipeline until it runs even, then measure.

    Every accelerator has ``workers x prefetch`` slots. A slot starts a read, waits the latency, then for its turn on
    the link, and is free again when the accelerator takes the unit: a loader counts units on the way and units that are
    ready together. The number of reads is bounded whatever the input.

    Args:
        given: The pipeline.
        seed: Of the latencies, where they vary.
        progress: Called now and then.
    """
    import simpy

    given, bundle = _bounded(given)
    run = _Pipeline(given, simpy.Environment(), exponential(seed, "latency", given.latency_s))
    run.play(progress)
    waited = sum(each.waited_s for each in run.accelerators)
    took = waited + run.window_units * len(run.accelerators) * run.step_s
    units = run.window_units * len(run.accelerators)
    return PipelineResult(
        wait_fraction=waited / took,
        empty_fraction=sum(each.empty for each in run.accelerators) / units,
        delivered_mb_per_s=units * given.unit_mb / took,
        read_s=run.read_s / run.measured_reads,
        units=units,
        window_s=took / len(run.accelerators),
        bundle=bundle,
    )


def _bounded(given: PipelineInput) -> tuple[PipelineInput, float]:
    """Return the same pipeline with no more slots and accelerators than are simulated.

    Fewer slots with units that are larger in proportion keep the same bytes on the way.
    """
    bundle = max(1.0, given.slots / MOST_SLOTS)
    if bundle > 1:
        given = replace(
            given,
            workers=MOST_SLOTS,
            prefetch=1,
            unit_mb=given.unit_mb * bundle,
            # A bundle arrives as its units would, side by side: each keeps its own rate.
            stream_mb_per_s=None if given.stream_mb_per_s is None else given.stream_mb_per_s * bundle,
        )
    return replace(given, accelerators=min(given.accelerators, MOST_ACCELERATORS)), bundle


@dataclass(slots=True)
class _Accelerator:
    """What one accelerator saw in the window."""

    waited_s: float = 0.0
    empty: int = 0


@dataclass(frozen=True, slots=True)
class _Unit:
    """A unit that is ready: its number in the order of starts, and the event by which its slot is free again."""

    number: int
    taken: simpy.Event


class _Pipeline:
    """One pipeline on its way through time."""

    def __init__(self, given: PipelineInput, env: simpy.Environment, latencies: Iterator[float]) -> None:
        self._given = given
        self._env = env
        self._latencies = latencies if given.varying_latency else repeat(given.latency_s)
        self._link_free_at = 0.0
        self._transfer_s = given.unit_mb / (given.supply_mb_per_s * given.accelerators)
        self._stream_s = 0.0 if given.stream_mb_per_s is None else given.unit_mb / given.stream_mb_per_s
        self.step_s = given.unit_mb / given.demand_mb_per_s
        # Whole rounds of the slots: where latency binds, units come in rounds, and a part of one would count double.
        fewest = _FEWEST_UNITS_VARYING if given.varying_latency else _FEWEST_UNITS
        self.window_units = given.slots * math.ceil(fewest / given.slots)
        self._warm_up_units = max(100, _WARM_UP_ROUNDS * given.slots)
        self.accelerators = [_Accelerator() for _ in range(given.accelerators)]
        self.read_s = 0.0
        self.measured_reads = 0
        self.reads = 0

    def play(self, progress: Progress | None) -> None:
        """Run until every accelerator has had its window."""
        env = self._env
        every = env.all_of([env.process(self._accelerator(each)) for each in self.accelerators])
        needed = (self._warm_up_units + self.window_units) * len(self.accelerators)
        steps = 0
        while not every.triggered:
            env.step()
            steps += 1
            if progress is not None and steps % 8192 == 0:
                progress(min(1.0, self.reads / needed))

    def _accelerator(self, seen: _Accelerator) -> Generator[simpy.Event, Any, None]:
        """Start the readers; its end is the end of the window."""
        import simpy

        env = self._env
        ready = simpy.FilterStore(env) if self._given.in_order else simpy.Store(env)
        numbers = iter(range(10**18))
        # One by one, at the pace of the slower of link and accelerator. All at once they would begin with a full queue
        # and a link that is behind, and take long to get even where the supply is close to the demand.
        pace_s = max(self.step_s, self._transfer_s * self._given.accelerators)
        for place in range(self._given.slots):
            env.process(self._slot(ready, numbers, place * pace_s))
        windowed = env.event()
        env.process(self._take(ready, seen, windowed))
        yield windowed

    def _take(self, ready: simpy.Store, seen: _Accelerator, windowed: simpy.Event) -> Generator[simpy.Event, Any, None]:
        """Take a unit each step, and note the waits of the window.

        It goes on after its window, so that the link stays as busy for those that are not done.
        """
        env, last = self._env, self._warm_up_units + self.window_units
        for number in range(10**18):
            asked = env.now
            unit: _Unit = yield (_numbered(ready, number) if self._given.in_order else ready.get())
            unit.taken.succeed()
            if self._warm_up_units <= number < last:
                waited = env.now - asked
                seen.waited_s += waited
                # Rounding of the clock is no wait.
                seen.empty += waited > 1e-9 * self.step_s
            yield env.timeout(self.step_s)
            if number == last:
                windowed.succeed()

    def _slot(self, ready: simpy.Store, numbers: Iterator[int], begin_s: float) -> Generator[simpy.Event, Any, None]:
        """Read, hand over, and start again when the unit is taken."""
        env = self._env
        yield env.timeout(begin_s)
        while True:
            began, number = env.now, next(numbers)
            yield env.timeout(next(self._latencies))
            # First come, first served: a link needs no queue, only the moment from which it is free.
            self._link_free_at = max(env.now, self._link_free_at) + self._transfer_s
            yield env.timeout(max(self._link_free_at - env.now, self._stream_s))
            if number >= self._warm_up_units:
                self.read_s += env.now - began
                self.measured_reads += 1
            self.reads += 1
            taken = env.event()
            yield ready.put(_Unit(number, taken))
            yield taken


def _numbered(ready: simpy.Store, number: int) -> simpy.Event:
    """Return the event by which the unit of that number is there."""
    import simpy

    assert isinstance(ready, simpy.FilterStore)  # noqa: S101 - narrows the type for mypy; in order means this store
    return ready.get(lambda unit: unit.number == number)
