"""Where objects are copied: threads of this process, or several processes with threads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, Protocol

from training_storage.operations.transfer_connection import AwsConnection
from training_storage.operations.transfer_copy import ObjectCopier
from training_storage.operations.transfer_model import Entry, Outcome, Route, Verify
from training_storage.operations.transfer_worker import answer

Answer = list[Any]
"""``["outcome", *Outcome]``, ``["stop", code, reason]``, ``["cancelled", source, relative]``, or ``["lost", *Entry]``
for what a process had taken that died."""

ENTRIES_A_LINE: Final = 16
_TURN_S: Final = 0.2


class Pool(Protocol):
    """Copies entries and puts an answer for each into a queue."""

    @property
    def room(self) -> int:
        """How many entries it takes now."""

    def submit(self, entries: Sequence[Entry]) -> None:
        """Take entries; returns at once."""

    def finish(self) -> None:
        """Let what was taken end, and free everything."""

    def stop(self) -> None:
        """End now; what was taken may stay unanswered."""


class ThreadPool:
    """Threads of this process.

    Args:
        copier: Copies one object.
        threads: How many at once.
        answers: Where answers go.
        ahead: How many entries may wait.
    """

    def __init__(self, copier: ObjectCopier, threads: int, answers: SimpleQueue[Answer], *, ahead: int = 2) -> None:
        self._copier = copier
        self._answers = answers
        self._entries: SimpleQueue[Entry | None] = SimpleQueue()
        self._lock = Lock()
        self._open = 0
        self._most = threads * ahead
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _work(self) -> None:
        while (entry := self._entries.get()) is not None:
            told = answer(self._copier, entry)
            with self._lock:
                self._open -= 1
            self._answers.put(told)

    @property
    def room(self) -> int:
        """How many entries it takes now."""
        return self._most - self._open

    def submit(self, entries: Sequence[Entry]) -> None:
        """Take entries; returns at once."""
        with self._lock:
            self._open += len(entries)
        for entry in entries:
            self._entries.put(entry)

    def finish(self) -> None:
        """Let what was taken end, and free everything."""
        self.stop()
        for thread in self._threads:
            thread.join()

    def stop(self) -> None:
        """End after what is being copied; the copier is told by its own switch."""
        for _ in self._threads:
            self._entries.put(None)


class PartThreads(Executor):
    """Threads for parts, which an interrupted process does not wait for."""

    def __init__(self, threads: int) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call ``fn`` in one of the threads."""
        future: Future[Any] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as error:  # raised again by whoever asks for the result
                    future.set_exception(error)

        self._calls.put(call)
        return future

    def in_order(self, fn: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Call ``fn`` with each item and yield what it returns, in the order of the items.

        Waits in turns: a signal that comes just before a wait is only seen when the wait ends.
        """
        for future in [self.submit(fn, item) for item in items]:
            while not wait_for([future], timeout=_TURN_S).done:
                pass
            yield future.result()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - as its base has it
        """End the threads after what was submitted."""
        for _ in self._threads:
            self._calls.put(None)
        for thread in self._threads if wait else ():
            thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


class ProcessPool:
    """Several processes; each ends by itself when this one is gone.

    Args:
        connection: How they reach S3.
        route: From where to where.
        verify: How copies are verified.
        remove: Whether verified objects are removed from the source.
        processes: How many.
        threads: Threads of each.
        answers: Where answers go.
    """

    def __init__(
        self,
        connection: AwsConnection,
        route: Route,
        *,
        verify: Verify,
        remove: bool,
        processes: int,
        threads: int,
        answers: SimpleQueue[Answer],
    ) -> None:
        self._answers = answers
        self._most = processes * threads * 2
        self._lock = Lock()
        order = {
            "region": connection.region,
            "profile": connection.profile,
            "sources": [asdict(place) for place in route.sources],
            "destinations": [asdict(place) for place in route.destinations],
            "verify": verify,
            "remove": remove,
            "threads": threads,
        }
        self._workers = [self._begin(order) for _ in range(processes)]
        self._open: list[dict[tuple[int, str], Entry]] = [{} for _ in self._workers]
        self._ended = [False for _ in self._workers]
        self._lost: set[tuple[int, str]] = set()
        self._readers = [Thread(target=self._read, args=(number,), daemon=True) for number in range(processes)]
        for reader in self._readers:
            reader.start()

    @staticmethod
    def _begin(order: dict[str, Any]) -> subprocess.Popen[str]:
        # The folder of this package, for a caller that found it in its working folder alone.
        root = str(Path(__file__).resolve().parents[2])
        paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
        debug = os.environ.get("TRAINING_STORAGE_DEBUG") == "1"
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "training_storage.operations.transfer_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if debug else subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            start_new_session=True,  # Ctrl-C is for the process that the user started
        )
        _say(process, order)
        return process

    def _read(self, number: int) -> None:
        output = self._workers[number].stdout
        assert output is not None  # noqa: S101 - a pipe was asked for
        with suppress(ValueError):  # the pipe is closed, or a dying process wrote half a line
            for line in output:
                for told in json.loads(line):
                    with self._lock:
                        if told[0] == "outcome":
                            self._open[number].pop((told[1], told[2]), None)
                    self._answers.put(told)
        self._lose(number)

    def _lose(self, number: int) -> None:
        """Answer for what a process took and will not bring to its end: another one may, once."""
        with self._lock:
            self._ended[number] = True
            nobody_left = all(self._ended)
            lost = list(self._open[number].items())
            self._open[number].clear()
            again = {place for place, _ in lost if place not in self._lost and not nobody_left}
            self._lost |= again
        for place, entry in lost:
            if place in again:
                self._answers.put(["lost", *entry._replace(look=True)])  # its copy may be there
                continue
            reason = "a process that copied died, perhaps for want of memory; fix: run the same command again"
            outcome = Outcome(entry.source, entry.relative, entry.size, entry.etag, "failed", reason=reason)
            self._answers.put(["outcome", *outcome])

    @property
    def room(self) -> int:
        """How many entries it takes now."""
        with self._lock:
            return self._most - sum(map(len, self._open))

    def submit(self, entries: Sequence[Entry]) -> None:
        """Take entries; returns at once."""
        for start in range(0, len(entries), ENTRIES_A_LINE):
            some = entries[start : start + ENTRIES_A_LINE]
            with self._lock:
                # One that has ended is the last choice: everything it takes fails.
                number = min(range(len(self._workers)), key=lambda each: (self._ended[each], len(self._open[each])))
                self._open[number] |= {(entry.source, entry.relative): entry for entry in some}
            _say(self._workers[number], some)
            if self._ended[number]:
                self._lose(number)

    def finish(self) -> None:
        """Let what was taken end, and free everything."""
        for worker in self._workers:
            _say(worker, [])
        for worker, reader in zip(self._workers, self._readers, strict=True):
            worker.wait()
            reader.join()

    def stop(self) -> None:
        """End now; what was taken may stay unanswered."""
        with self._lock:
            for open_entries in self._open:
                open_entries.clear()
        for worker in self._workers:
            worker.kill()
            worker.wait()


def _say(process: subprocess.Popen[str], message: Any) -> None:
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    with suppress(OSError):  # it died; its reader says so
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
