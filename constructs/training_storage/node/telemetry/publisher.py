"""The thread that writes records, once an interval."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from . import quiet

if TYPE_CHECKING:
    from .recorder import Recorder


class Publisher:
    """A daemon thread; the process never waits for it but a bounded time at its end.

    Args:
        recorder: What writes a record.
        interval_s: Seconds of one.
    """

    def __init__(self, recorder: Recorder, interval_s: float) -> None:
        self._recorder = recorder
        self._interval_s = interval_s
        self._wake = threading.Event()
        self._wanted = 0
        self._done = 0
        self._changed = threading.Condition()
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
        if not self.alive() or threading.current_thread() is self._thread:
            return
        until = time.monotonic() + max(timeout_s, 0)
        with self._changed:
            self._wanted += 1
            wanted = self._wanted
        self._wake.set()
        with self._changed:
            while self._done < wanted and self.alive():
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._changed.wait(min(left, 0.1))

    def stop(self, timeout_s: float) -> None:
        """End it.

        Args:
            timeout_s: Seconds to wait for its end.
        """
        self._ends = True
        self._wake.set()
        if self.alive() and threading.current_thread() is not self._thread:
            self._thread.join(max(timeout_s, 0))

    def _run(self) -> None:
        due = time.monotonic() + self._interval_s
        while not self._ends:
            self._wake.wait(max(due - time.monotonic(), 0))
            self._wake.clear()
            if self._ends:
                return
            with self._changed:
                wanted = self._wanted
            if wanted > self._done or time.monotonic() >= due:
                try:
                    self._recorder.publish()
                except Exception as error:
                    quiet.warn("publish", "a record was not written: %r", error)
            with self._changed:
                self._done = wanted
                self._changed.notify_all()
            # After a long sleep of the machine there is one record, not one for each interval that is gone.
            now = time.monotonic()
            while due <= now:
                due += self._interval_s * max(1, int((now - due) / self._interval_s))
