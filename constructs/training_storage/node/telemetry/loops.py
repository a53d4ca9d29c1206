"""One pass over a loader: when a batch is asked for, when it has come, when a step ends.

This is what every step of training passes through. It takes the lock for a moment, looks at the clock, and keeps
numbers in lists, which are folded a thousand at a time; nothing here waits or leaves the process.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable, Union

from . import quiet
from .cells import FOLD, MOST_BYTES
from .loaders import depth_of
from .streams import Pairs, Stream

if TYPE_CHECKING:
    from .recorder import Recorder

BatchBytes = Union[int, Callable[[Any], Any], None]
"""Bytes of a batch, or what tells them of one."""


class Loop:
    """One pass over a loader.

    All times are ns of the recorder's clock.

    Attributes:
        name: Name of the loader.
        thread: The thread that runs it.
        counts: Whether its batches are steps: not those of a loop inside another one.
        explicit: Whether ``step()`` ends its steps.
        stepped: Whether it was called in this pass.
        entered_ns: When the loop began.
        hooked: Whether it is seen from outside, by the hooks of a framework.
        muted: Whether its waits are another loop's, too.
        waiting: Whether a batch is asked for and has not come.
        asked_ns: When it was asked for; later by the time of a save meanwhile.
        begun_ns: When the step began; 0 for none.
        excluded_ns: Time since then that is no part of the step.
        resumes: Whether its batches are steps again when the loop that took this over has ended.
        provisional: Steps that ended with a batch and may turn out to be parts of one.
        away_ns: All time so far that was no part of its steps.
        around: The loops of its thread that it began in, and what they had of such time by then.
        within: The loop whose wait this one is a part of, as of a loader that is watched twice.
    """

    __slots__ = (
        "_batch_bytes",
        "_counted_ns",
        "_depth",
        "_pairs",
        "_ready",
        "_recorder",
        "around",
        "asked_ns",
        "away_ns",
        "begun_ns",
        "counts",
        "entered_ns",
        "excluded_ns",
        "explicit",
        "hooked",
        "muted",
        "name",
        "provisional",
        "resumes",
        "stepped",
        "thread",
        "waiting",
        "within",
    )

    def __init__(self, recorder: Recorder, name: str, batch_bytes: BatchBytes, stream: Stream | None) -> None:
        self._recorder = recorder
        self._batch_bytes = batch_bytes
        self._counted_ns = 0
        self._depth: Callable[[], int] | None = None
        self._ready = 0
        self._pairs = None if stream is None else Pairs(stream)
        self.name = name
        self.thread = threading.get_ident()
        self.counts = True
        self.explicit = False
        self.stepped = False
        self.hooked = False
        self.muted = False
        self.waiting = False
        self.asked_ns = self.begun_ns = self.excluded_ns = 0
        self.provisional = 0
        self.resumes = False
        self.away_ns = 0
        self.around: tuple[tuple[Loop, int], ...] = ()
        self.within: Loop | None = None
        self.entered_ns = recorder.clock()

    def ask(self) -> None:
        """A batch is asked for: the step before it ends."""
        try:
            recorder = self._recorder
            with recorder.lock:
                now = recorder.clock()
                if now >= recorder.due_ns:
                    recorder.publish(now)
                if self.begun_ns and not self.explicit:
                    if self.counts:
                        taken = now - self.begun_ns - self.excluded_ns
                        recorder.cell.steps.append(taken if taken > 0 else 0)
                        self.provisional += 1
                    self.begun_ns = now
                    self.excluded_ns = 0
                elif not self.begun_ns:
                    self.begun_ns = now
                    self.excluded_ns = 0
                self.asked_ns = now
                self.waiting = True
                if self._depth is not None:
                    self._ready = self._depth()
            if self._pairs is not None:
                self._pairs.ask()
        except Exception as error:
            self._simpler(error)

    def takes(self, iterator: Any) -> None:
        """Batches come from here; the first one is asked for already.

        Args:
            iterator: What they are taken from.
        """
        try:
            self._depth = depth_of(iterator)
            if self._depth is not None:
                self._ready = self._depth()
                outer = self.within
                if outer is not None and outer._depth is None:
                    outer._depth, outer._ready = self._depth, self._ready
        except Exception as error:
            self._simpler(error)

    def inside(self, outer: Loop) -> None:
        """This loop runs in the wait of another: with the lock held.

        It is a loader that is watched twice, or one that the other loader reads. Its waits are part of the other's, and
        its batches are no steps; what it tells of its queue the other one takes over.

        Args:
            outer: The other one.
        """
        self.within = outer
        self.counts = False
        self.muted = True
        if outer._batch_bytes is not None:
            self._batch_bytes = None

    def came(self, batch: Any) -> Any:
        """The batch has come; return it.

        Args:
            batch: The batch.
        """
        try:
            recorder = self._recorder
            with recorder.lock:
                now = recorder.clock()
                self.waiting = False
                cell = recorder.cell
                wait = now - self.asked_ns
                if wait < 0:
                    wait = 0
                if self.muted:
                    pass
                elif self._pairs is not None:
                    self._streamed(wait)
                else:
                    if self._depth is None:
                        kept = cell.waits
                    else:
                        kept = cell.known
                        cell.depths.append((self._ready, wait))
                    kept.append(wait)
                    if self._counted_ns:
                        cell.more_wait_ns -= self._counted_ns
                        self._counted_ns = 0
                    if len(kept) >= FOLD:
                        cell.fold()
            if self._batch_bytes is not None:
                self._read(batch)
        except Exception as error:
            self._simpler(error)
        return batch

    def over(self) -> None:
        """There is no further batch: the wait for one was a wait, and no step follows."""
        try:
            recorder = self._recorder
            with recorder.lock:
                if self.waiting and not self.muted:
                    wait, counted = max(recorder.clock() - self.asked_ns, 0), self._counted_ns
                    self._counted_ns = 0
                    recorder.cell.more_wait_ns += (
                        wait - counted if self._pairs is None else self._pairs.come(wait, counted)
                    )
                self.waiting = False
                self.begun_ns = 0
        except Exception as error:
            self._simpler(error)

    def left(self, now: int) -> None:
        """The loop is left, by a break as well; with the lock held. The step under way counts: its work is done.

        Args:
            now: The time.
        """
        cell = self._recorder.cell
        if self.begun_ns and not self.waiting and self.counts and not self.explicit:
            cell.steps.append(max(now - self.begun_ns - self.excluded_ns, 0))
        self.begun_ns = 0
        self.waiting = False
        if self._pairs is not None:
            cell.more_wait_ns += self._pairs.rest()
        if self.within is not None and self.within._depth is self._depth:
            # It would keep the workers of a pass that is over.
            self.within._depth = None

    def step(self, now: int) -> None:
        """A step ends because training says so; with the lock held.

        Batches of this pass that counted as steps until now were parts of this one.

        Args:
            now: The time.
        """
        steps = self._recorder.cell.steps
        begun, excluded = self.begun_ns, self.excluded_ns
        self.stepped = True
        if not self.explicit:
            self.explicit = True
            parts = min(self.provisional, len(steps))
            if parts and parts == self.provisional:
                begun -= sum(steps[-parts:])
                del steps[-parts:]
        if begun:
            steps.append(max(now - begun - excluded, 0))
        self.begun_ns = now
        self.excluded_ns = 0

    def exclude(self, taken_ns: int) -> None:
        """Time is neither a wait nor part of a step; with the lock held.

        Args:
            taken_ns: So much, ended now.
        """
        self.excluded_ns += taken_ns
        self.away_ns += taken_ns
        if self.waiting:
            self.asked_ns += taken_ns

    def no_wait(self) -> None:
        """What passed since a batch was asked for was no wait for it."""
        with self._recorder.lock:
            if self.waiting:
                self.asked_ns = self._recorder.clock()

    def split(self, now: int) -> None:
        """An interval ends; with the lock held. What was waited until now is its own.

        Args:
            now: The time.
        """
        self.provisional = 0
        if self.waiting and not self.muted:
            waited = now - self.asked_ns - self._counted_ns
            if waited > 0:
                self._recorder.cell.more_wait_ns += waited
                self._counted_ns += waited

    def _streamed(self, wait: int) -> None:
        cell = self._recorder.cell
        counted, self._counted_ns = self._counted_ns, 0
        cell.streamed = True
        if self._pairs is not None:
            cell.more_wait_ns += self._pairs.come(wait, counted)
        if self._depth is None:
            cell.judged.append(wait)
            if len(cell.judged) >= FOLD:
                cell.fold()
        else:
            cell.depths.append((self._ready, wait))
            if len(cell.depths) >= FOLD:
                cell.fold()

    def _read(self, batch: Any) -> None:
        given = self._batch_bytes
        try:
            size = int(given(batch)) if callable(given) else int(given or 0)
            if not 0 <= size <= MOST_BYTES:
                raise ValueError("a number of bytes is from 0 to 2^63")  # noqa: TRY301 - one warning for both
        except Exception as error:
            self._batch_bytes = None
            quiet.warn("batch_bytes", "the bytes of batches are not counted: batch_bytes: %r", error)
            return
        with self._recorder.lock:
            cell = self._recorder.cell
            cell.read_bytes = (cell.read_bytes or 0) + size

    def _simpler(self, error: Exception) -> None:
        """Go on with what cannot fail: the host's clock."""
        quiet.warn("loop", "telemetry of loop %r goes on with less: %r", self.name, error)
        self._pairs = None
        self._depth = None
