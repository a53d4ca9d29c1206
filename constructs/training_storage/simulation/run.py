"""A whole run: training, saves that stall or overlap, failures at any moment, restarts and restores."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal

from training_storage.simulation.model import Progress, RunInput, RunResult
from training_storage.simulation.random_streams import exponential

if TYPE_CHECKING:
    import simpy

MOST_STEPS: Final = 400_000
"""Events of one simulated run at most; about half a second."""

Phase = Literal["train", "train while saving", "stall", "restart", "restore"]


def simulate_run(
    given: RunInput,
    *,
    seed: int | str = 0,
    failures: Iterable[float] | None = None,
    progress: Progress | None = None,
    most_steps: int = MOST_STEPS,
) -> RunResult:
    """Play one run and say where its time went.

    The number of events is bounded: very many intervals are taken several at a step, which changes no figure, and a run
    with very many failures ends early, which the result says.

    Args:
        given: The run.
        seed: Of the failures.
        failures: Moments of the failures in seconds from the start, ascending. Left out: drawn, with the mean time
            between failures, at any moment, in saves and restores too.
        progress: Called now and then.
        most_steps: Events at most.
    """
    import simpy

    moments = _moments(given, seed) if failures is None else iter(failures)
    # A cycle is two events, a failure with what follows about five. Four fifths of the steps may go to cycles.
    per_step = max(1, math.ceil(_ratio(given.run_s, given.cycle_s) * 2.5 / most_steps))
    run = _Run(given, simpy.Environment(), per_step)
    wall_s = run.play(moments, most_steps, progress)
    return run.result(wall_s)


def _moments(given: RunInput, seed: int | str) -> Iterator[float]:
    return accumulate(exponential(seed, "failures", given.mtbf_s))


def _ratio(long: float, short: float) -> float:
    """Return the quotient, and the largest number where it is too large for one."""
    return min(long / short, 1e300) if short > long * 1e-300 else 1e300


class _Run:
    """One run on its way through time."""

    def __init__(self, given: RunInput, env: simpy.Environment, per_step: int) -> None:
        self._given = given
        self._env = env
        self._per_step = per_step
        saving = given.wait_fraction if given.saving_wait_fraction is None else given.saving_wait_fraction
        self._share_waiting: dict[Phase, float] = {"train": given.wait_fraction, "train while saving": saving}
        self._spent: dict[str, float] = dict.fromkeys(("lost", "wait", "stall", "restart", "restore"), 0.0)
        # The phase that is open: what books it, and when it began.
        self._open: tuple[Callable[[float], None], float] | None = None
        # Training with the waits in it, and what of it is work; each also as of the newest durable checkpoint.
        self._trained_s = self._work_s = 0.0
        self._durable = (0.0, 0.0)
        self._lost_training_s = 0.0
        self._failures = self._saves = self._restores = 0

    def play(self, moments: Iterator[float], most_steps: int, progress: Progress | None) -> float:
        """Run to the end of the run or of the steps; return the moment."""
        env, until = self._env, self._given.run_s
        job = env.process(self._job())
        env.process(self._fail(job, moments))
        steps = 0
        while env.peek() < until and steps < most_steps:
            env.step()
            steps += 1
            if progress is not None and steps % 8192 == 0:
                progress(max(env.now / until, steps / most_steps))
        end = env.now if env.peek() < until else until
        self._close(end)
        return end

    def result(self, wall_s: float) -> RunResult:
        """Return where the time up to ``wall_s`` went."""
        spent = self._spent
        return RunResult(
            wall_s=wall_s,
            work_s=self._work_s,
            lost_s=spent["lost"],
            wait_s=spent["wait"],
            stall_s=spent["stall"],
            restart_s=spent["restart"],
            restore_s=spent["restore"],
            lost_training_s=self._lost_training_s,
            failures=self._failures,
            saves=self._saves,
            restores=self._restores,
            cut_short=wall_s < self._given.run_s,
            cycles_a_step=self._per_step,
        )

    # What happens

    def _fail(self, job: simpy.Process, moments: Iterator[float]) -> Generator[simpy.Event, Any, None]:
        for moment in moments:
            if moment >= self._given.run_s:
                return
            # The clock is a sum of waits: at a second failure of one moment it may be past it by a rounding.
            yield self._env.timeout(max(0.0, moment - self._env.now))
            job.interrupt()

    def _job(self) -> Generator[simpy.Event, Any, None]:
        import simpy

        given, down = self._given, False
        while True:
            try:
                if down:
                    yield from self._spend("restart", given.restart_s)
                    yield from self._spend("restore", given.restore_s)
                    self._restores += 1
                    down = False
                yield from self._train()
            except simpy.Interrupt:
                self._failures += 1
                self._close(self._env.now)
                trained_s, work_s = self._durable
                self._lost_training_s += self._trained_s - trained_s
                self._spent["lost"] += self._work_s - work_s
                self._trained_s, self._work_s = trained_s, work_s
                down = True

    def _train(self) -> Generator[simpy.Event, Any, None]:
        """Train and save without end: an exception is the way out."""
        given = self._given
        if given.asynchronous:
            yield from self._spend("train", given.interval_s)
        while self._per_step > 1:
            yield from self._cycles()
        while not given.asynchronous:
            yield from self._spend("train", given.interval_s)
            yield from self._spend("stall", given.save_s)
            self._durable = self._now()
            self._saves += 1
        while True:
            snapshot = self._now()
            yield from self._spend("train while saving", given.save_s)
            self._durable = snapshot
            self._saves += 1
            # A save that takes longer than the interval holds up the next snapshot, not training.
            yield from self._spend("train", given.cycle_s - given.save_s)

    def _spend(self, phase: Phase, seconds: float) -> Generator[simpy.Event, Any, None]:
        self._open = (partial(self._book, phase), self._env.now)
        yield self._env.timeout(seconds)
        self._open = None
        self._book(phase, seconds)

    def _cycles(self) -> Generator[simpy.Event, Any, None]:
        """Take several cycles in one step, for runs with very many; a failure is booked where it falls."""
        cycle_s, count = self._given.cycle_s, self._per_step
        self._open = (
            lambda seconds: self._book_cycles(min(count, math.floor(_ratio(seconds, cycle_s))), seconds),
            self._env.now,
        )
        yield self._env.timeout(count * cycle_s)
        self._open = None
        self._book_cycles(count, count * cycle_s)

    # How the time is booked

    def _now(self) -> tuple[float, float]:
        return self._trained_s, self._work_s

    def _close(self, now: float) -> None:
        """Book a phase that a failure or the end of the run breaks off."""
        if self._open is not None:
            book, began = self._open
            self._open = None
            book(now - began)

    def _book(self, phase: Phase, seconds: float) -> None:
        waiting = self._share_waiting.get(phase)
        if waiting is None:
            self._spent[phase] += seconds
        else:
            self._trained_s += seconds
            self._spent["wait"] += seconds * waiting
            self._work_s += seconds * (1 - waiting)

    def _book_cycles(self, whole: int, seconds: float) -> None:
        """Book as many whole cycles, and what is left of the seconds as the begin of another."""
        given = self._given
        left = max(0.0, seconds - whole * given.cycle_s)
        if not given.asynchronous:
            self._book("train", whole * given.interval_s)
            self._book("stall", whole * given.save_s)
            if whole:
                self._durable = self._now()
            self._saves += whole
            self._book("train", min(left, given.interval_s))
            self._book("stall", max(0.0, left - given.interval_s))
            return
        before = self._now()
        self._book("train while saving", whole * given.save_s)
        self._book("train", whole * (given.cycle_s - given.save_s))
        if whole:  # the snapshot of the last whole cycle was taken at its begin
            now = self._now()
            self._durable = (now[0] - (now[0] - before[0]) / whole, now[1] - (now[1] - before[1]) / whole)
        self._saves += whole
        if left >= given.save_s and left > 0:
            self._durable = self._now()
            self._saves += 1
        self._book("train while saving", min(left, given.save_s))
        self._book("train", max(0.0, left - given.save_s))
