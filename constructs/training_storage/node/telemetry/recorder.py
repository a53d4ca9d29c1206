"""The recorder: what a process measures of its training, and the record that it writes of each interval."""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any, Callable

from .. import emf
from . import environment, quiet
from .cells import FOLD, Cell
from .checkpoints import Checkpoint
from .epochs import Epochs
from .loops import BatchBytes, Loop
from .publisher import Publisher
from .sinks import Sink, sink_of
from .streams import stream_of

NEVER = 1 << 62

_EVALUATION = re.compile(r"(eval|evaluation|val|valid|validation|test|dev|predict)(?![a-z])", re.IGNORECASE)
"""Names of loops that are no training, whose batches are no steps, wherever they run."""

_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


class Recorder:
    """Measures one process of a run and writes a record each interval; ``Telemetry`` is what training sees of it.

    Attributes:
        lock: Held by whoever changes what is below, for a moment.
        clock: Steady ns.
        cell: The interval under way.
        checkpoints: Saves and restores under way, by thread.
        due_ns: When a step writes the record; never, where a thread does.
    """

    def __init__(
        self,
        *,
        metrics: str | None = None,
        workload: str | None = None,
        run: str | None = None,
        rank: int | str | None = None,
        instance: str | None = None,
        interval_s: float | None = None,
        per_rank: bool | None = None,
        sink: Sink | None = None,
        clock: Callable[[], int] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        # A signal's handler may flush in the midst of a step of its own thread.
        self.lock = threading.RLock()
        self.clock: Callable[[], int] = time.perf_counter_ns if clock is None else clock
        self.wall = wall
        self.cell = Cell()
        self.checkpoints: dict[int, Checkpoint] = {}
        self.due_ns = NEVER
        self._threaded = clock is None
        self._given: dict[str, Any] = {
            "metrics": metrics,
            "workload": workload,
            "run": run,
            "rank": rank,
            "instance": instance,
            "interval_s": interval_s,
            "per_rank": per_rank,
        }
        self._own_sink = sink
        self._who: environment.Identity | None = None
        self._sink: Sink | None = None
        self._publisher: Publisher | None = None
        self._silent = False
        self._loops: list[Loop] = []
        self._active = 0
        self._since_ns = 0
        self._lead = threading.main_thread().ident or 0
        self._epochs = Epochs()
        self._free: tuple[int, int] | None = None
        self._free_excluded_ns = 0
        self._stepping: str | None = None
        self._dropped = 0
        _recorders.add(self)

    def flush(self, timeout_s: float = 2.0) -> None:
        """Write what was measured until now.

        Args:
            timeout_s: Seconds to wait for it; it goes on beside training after them.
        """
        try:
            publisher = self._publisher
            if publisher is not None:
                # A handler of a signal that came in the midst of a step: the record is written when it has returned.
                owned = getattr(self.lock, "_is_owned", bool)()
                publisher.flush(0.0 if owned else timeout_s)
            elif self._who is not None:
                self.publish()
        except Exception as error:
            quiet.warn("flush", "records were not written: %r", error)

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is left and stop; what is measured afterwards starts anew.

        Args:
            timeout_s: Seconds to wait for it.
        """
        try:
            until = time.monotonic() + timeout_s
            self.flush(timeout_s)
            publisher, self._publisher = self._publisher, None
            if publisher is not None:
                publisher.stop(max(until - time.monotonic(), 0.0))
            atexit.unregister(self.close)
            sink, self._sink = self._sink, None
            if sink is not None and sink is not self._own_sink and (publisher is None or not publisher.alive()):
                sink.close()
            self._who = None
            self.due_ns = NEVER
        except Exception as error:
            quiet.warn("close", "telemetry is not closed: %r", error)

    def starts(self) -> bool:
        """Return whether anything is to be measured; the first time, find out and begin."""
        if self._who is not None:
            return True
        if self._silent:
            return False
        with self.lock:
            try:
                return self._who is not None or (not self._silent and self._start())
            except Exception:
                # What failed once is not tried again with each step.
                self._silent = True
                raise

    def enter(self, name: str, batch_bytes: BatchBytes, device: object, loader: object = None) -> Loop:
        """Return a loop that has asked for its first batch.

        Args:
            name: Name of the loader.
            batch_bytes: As for ``watch``.
            device: As for ``watch``.
            loader: What is iterated over; its passes are epochs. None where a framework tells them.
        """
        loop = Loop(self, name, batch_bytes, stream_of(device))
        with self.lock:
            now = self.clock()
            outer = self.loops_of(loop.thread)
            counting = [each for each in outer if each.counts]
            loop.counts = not _EVALUATION.match(name) and all(
                each.name == name and not each.hooked for each in counting
            )
            # From its first batch on: an interval that ends in the first step would keep its batches as steps.
            loop.explicit = loop.counts and name == self._stepping
            loop.around = tuple((each, each.away_ns) for each in outer)
            waits = [each for each in outer if each.waiting and not each.hooked and loader is not None]
            if waits:
                loop.inside(waits[-1])
            if loop.counts:
                # The latest of one name: the other may have been left where only a traceback holds it.
                for each in counting:
                    each.counts, each.begun_ns, each.resumes = False, 0, True
            loop.hooked = loader is None
            if loader is not None:
                # Waits that the hooks of a framework see from outside are this loop's, which sees them from inside.
                for each in outer:
                    each.muted = each.muted or each.hooked
                if loop.counts or any(each.hooked for each in outer):
                    number = self._epochs.begins(loader)
                    self.cell.epoch = self.cell.epoch if number is None else number
            # What could fail is done: a loop that is not entered must not seem to last for ever.
            self._loops.append(loop)
            self._lead = loop.thread
            self._free = None
            self.active(now, 1)
            self.cell.watched = True
        loop.ask()
        return loop

    def leave(self, loop: Loop, loader: object = None, whole: bool = False) -> None:
        """A loop ends.

        Args:
            loop: The loop.
            loader: What it iterated over.
            whole: Whether there was no further batch.
        """
        try:
            with self.lock:
                if loop not in self._loops:
                    return
                now = self.clock()
                begun = loop.entered_ns
                loop.left(now)
                if loop.counts:
                    self._stepping = loop.name if loop.stepped else None
                self._loops.remove(loop)
                for other in reversed(self.loops_of(loop.thread) if loop.counts else ()):
                    if other.resumes and other.name == loop.name:
                        other.counts, other.begun_ns, other.resumes = True, 0, False
                        break
                self.active(now, -1)
                if whole and loader is not None and loop.within is None:
                    self._epochs.ends(loader)
                for outer, away in loop.around if loop.within is None and not loop.counts else ():
                    # Less what has been taken out meanwhile: a save in this loop, or a loop inside it.
                    if outer.name != loop.name and not outer.waiting and outer.begun_ns <= begun:
                        outer.exclude(max(now - begun - (outer.away_ns - away), 0))
        except Exception as error:
            quiet.warn("leave", "the end of loop %r is not measured: %r", loop.name, error)

    def loops_of(self, thread: int) -> tuple[Loop, ...]:
        """Return the loops that a thread is in; with the lock held.

        Args:
            thread: The thread.
        """
        return tuple([each for each in self._loops if each.thread == thread])

    def leads(self, thread: int) -> bool:
        """Return whether a thread stands for training while no loop is watched; with the lock held.

        Args:
            thread: The thread.
        """
        return not self._loops and thread == self._lead

    def active(self, now: int, more: int) -> None:
        """Something that is watched begins or ends; with the lock held. What overlaps counts once.

        Args:
            now: The time.
            more: 1 or -1.
        """
        if self._active:
            self.cell.elapsed_ns += now - self._since_ns
        self._since_ns = now
        self._active = max(self._active + more, 0)

    def stepped(self) -> None:
        """A step ends in this thread, because training says so."""
        thread = threading.get_ident()
        with self.lock:
            now = self.clock()
            if now >= self.due_ns:
                self.publish(now)
            loop = next((each for each in self._loops if each.thread == thread and each.counts), None)
            if loop is not None:
                loop.step(now)
            else:
                self._free_step(thread, now)
            if len(self.cell.steps) >= FOLD:
                self.cell.fold()

    def told(self, number: int) -> None:
        """Training tells the epoch.

        Args:
            number: Its number, from 0 or 1.
        """
        with self.lock:
            self.cell.epoch = self._epochs.told(number)

    def at_epoch(self, number: int) -> None:
        """A framework tells the epoch.

        Args:
            number: Its number, from 1.
        """
        with self.lock:
            self.cell.epoch = number

    def saved(self, taken_ns: int) -> None:
        """A save ended that held this thread's loop up; where a framework tells of it afterwards.

        Args:
            taken_ns: How long it took.
        """
        if taken_ns < 0 or not self.starts():
            return
        with self.lock:
            self.cell.saves.add([taken_ns * 1e-9])
            self.cell.blocked_ns += taken_ns
            for loop in self.loops_of(threading.get_ident()):
                loop.exclude(taken_ns)

    def exclude_free(self, thread: int, taken_ns: int) -> None:
        """Time is no part of a step that ``step()`` ends outside of loops; with the lock held.

        Args:
            thread: The thread.
            taken_ns: So much.
        """
        if self._free is not None and self._free[0] == thread:
            self._free_excluded_ns += taken_ns

    def publish(self, now: int | None = None) -> None:
        """Write a record of what was measured since the last one.

        Args:
            now: The time, where it is known.
        """
        who = self._who
        if who is None:
            return
        with self.lock:
            now = self.clock() if now is None else now
            if self.due_ns <= now:
                every = int(who.interval_s * 1e9)
                self.due_ns += every * ((now - self.due_ns) // every + 1)
            cell = self._turn(now)
        values = cell.values()
        self.cell.mean_before_ns = cell.mean_step_ns()
        if not values:
            return
        values["DroppedRecords"] = float(self._dropped)
        properties = {
            **who.properties(),
            "IntervalSeconds": round(cell.length_ns * 1e-9, 3),
            "WaitsMeasuredBy": "stream" if cell.streamed else "host",
        }
        self._deliver(emf.record(values, who.dimensions(), timestamp_s=self.wall(), properties=properties))

    def _turn(self, now: int) -> Cell:
        """Begin a new interval and return the one before."""
        for loop in self._loops:
            open_one = self.checkpoints.get(loop.thread)
            loop.split(now if open_one is None else open_one.since())
        for checkpoint in self.checkpoints.values():
            checkpoint.split(now)
        self.active(now, 0)
        cell = self.cell
        cell.length_ns = now - cell.begun_ns
        self.cell = Cell(cell.epoch)
        self.cell.begun_ns = now
        self.cell.watched = bool(self._loops)
        return cell

    def _deliver(self, record: Mapping[str, Any]) -> None:
        sink = self._sink
        if sink is None:
            return
        try:
            sink.send(record)
        except Exception as error:
            self._dropped += 1
            quiet.warn("sink", "records of telemetry are dropped, and counted, until somebody takes them: %s", error)
        else:
            self._dropped = 0

    def _start(self) -> bool:
        """Find out who writes and where to, and begin; with the lock held."""
        who = environment.identity(self._given, self.wall())
        sink = None if _is_worker() else self._own_sink
        if sink is None and not _is_worker():
            try:
                sink = sink_of(who.metrics)
            except Exception as error:
                quiet.warn("metrics", "telemetry is off: %s", error)
        if sink is None:
            self._silent = True
            return False
        self._sink = sink
        self._dropped = 0
        now = self.clock()
        self.cell = Cell()
        self.cell.begun_ns = self._since_ns = now
        self.cell.watched = bool(self._loops)
        if not self._threaded:
            self.due_ns = now + int(who.interval_s * 1e9)
        # Other threads look at it without the lock: it comes last.
        self._who = who
        if self._threaded:
            self._publisher = Publisher(self, who.interval_s)
            self._publisher.start()
            atexit.register(self.close)
        return True

    def _free_step(self, thread: int, now: int) -> None:
        if self._free is not None and self._free[0] == thread:
            taken = max(now - self._free[1] - self._free_excluded_ns, 0)
            self.cell.steps.append(taken)
            if not self._active:
                self.cell.elapsed_ns += taken
        self._free = (thread, now)
        self._free_excluded_ns = 0

    def forked(self) -> None:
        """This is a child of the process that measured: it never writes, unless it is configured anew."""
        began = self._who is not None
        self.lock = threading.RLock()
        self._publisher = None
        self._sink = None
        self._who = None
        self._silent = self._silent or began
        self.due_ns = NEVER
        self._loops = []
        self.checkpoints = {}
        self._active = 0
        self.cell = Cell()
        self._free = None
        self._lead = threading.get_ident()


def _is_worker() -> bool:
    """Return whether this is a process that loads data for another one."""
    data = sys.modules.get("torch.utils.data")
    told = getattr(data, "get_worker_info", None)
    return told is not None and told() is not None


def _forked() -> None:
    for each in tuple(_recorders):
        each.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
