"""The thread that writes records, once an interval.

Between it and training there is no lock but a queue that may be entered again in its midst: a signal's handler may
flush while another flush is under way.
"""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from . import quiet

if TYPE_CHECKING:
    from .recorder import Recorder

_LOOK_S = 0.002


class _Wish:
    """A record that somebody waits for."""

    done = False


class Publisher:
    """A daemon thread; the process never waits for it but a bounded time at its end.

    Args:
        recorder: What writes a record.
        interval_s: Seconds of one.
    """

    def __init__(self, recorder: Recorder, interval_s: float) -> None:
        self._recorder = recorder
        self._interval_s = interval_s
        self._wishes: queue.SimpleQueue[_Wish] = queue.SimpleQueue()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="training-storage-telemetry", daemon=True)

    def start(self) -> None:
        """Start it; without a thread there are no records, and a warning."""
        try:
            self._thread.start()
        except RuntimeError as error:
            quiet.warn("thread", "telemetry writes nothing: %s", error)

    def alive(self) -> bool:
        """Return whether it runs."""
        return self._thread.is_alive()

    def flush(self, timeout_s: float) -> None:
        """Have a record written now, and wait for it.

        Args:
            timeout_s: Seconds to wait.
        """
        wish = _Wish()
        self._wishes.put(wish)
        until = time.monotonic() + timeout_s
        while not wish.done and self.alive() and time.monotonic() < until:
            time.sleep(_LOOK_S)

    def stop(self, timeout_s: float) -> None:
        """End it.

        Args:
            timeout_s: Seconds to wait for its end.
        """
        self._ends = True
        self._wishes.put(_Wish())
        if self.alive() and threading.current_thread() is not self._thread:
            self._thread.join(max(timeout_s, 0))

    def _run(self) -> None:
        due = time.monotonic() + self._interval_s
        while not self._ends:
            wishes: list[_Wish] = []
            try:
                wishes.append(self._wishes.get(timeout=max(due - time.monotonic(), 0)))
                while True:
                    wishes.append(self._wishes.get_nowait())
            except queue.Empty:
                pass
            if self._ends:
                return
            try:
                self._recorder.publish()
            except Exception as error:
                quiet.warn("publish", "a record was not written: %r", error)
            for each in wishes:
                each.done = True
            # After a long sleep of the machine there is one record, not one for each interval that is gone.
            now = time.monotonic()
            if now >= due:
                due += self._interval_s * (1 + int((now - due) / self._interval_s))
