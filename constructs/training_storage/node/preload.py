"""Loading data ahead of a run: files whose data lies in S3 alone are restored, many at once, and counted.

Nothing is written down: what is loaded is told by the file system itself, so a run that was stopped anywhere goes on
where it was, and running twice does no harm.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any, Callable

from . import hsm
from .aws import Aws
from .errors import Refusal
from .preload_files import MARGIN, Found, Share, Sums, room, scan
from .preload_model import Counts, human
from .preload_reasons import FINAL, Reasons, shown
from .settings import Settings

PROCESSES = 8
"""Calls of ``lfs`` at once, as in the guide's ``xargs -P 8``."""

BATCH_FILES = 64
"""Files in one call. With eight calls at once 512 restores of a node are under way: FSx works on many at a time, and
its queue of requests stays short."""

BATCH_BYTES = 64 * 10**9
"""Bytes in one call, so that a few large files are spread over all calls."""

TRIES = 3
"""Restores of one file, where the reason of a failure is not final."""

BUSY_TRIES = 14
"""Calls that are refused as busy, one after another, before a batch is given up: about five minutes."""

STALL_S = 3_600.0
"""A batch of which nothing moves for so long is left to the file system and counted as failed."""

_FIRST_LOOK_S, _LAST_LOOK_S = 0.05, 5.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.5, 30.0


class Stopped(Exception):  # noqa: N818 - no error: the run was told to stop
    """The run was told to stop."""


class Loader:
    """Restores files in batches.

    Args:
        reasons: Says why a file failed.
        counts: Where files are counted.
        run: Runs ``lfs``.
        free: Returns bytes free on the file system.
        processes: Calls at once.
        clock: Steady seconds.
        sleep: Waits seconds.
        report: Called when something may have changed.
        name: Returns the text by which a path is named in the answer.
    """

    def __init__(
        self,
        reasons: Reasons,
        counts: Counts,
        *,
        run: hsm.Run,
        free: Callable[[], int],
        processes: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Any],
        report: Callable[[], Any],
        name: Callable[[str], str],
    ) -> None:
        self._reasons, self._counts, self._run, self._free = reasons, counts, run, free
        self._processes, self._clock, self._sleep = processes, clock, sleep
        self._report, self._name = report, name
        self._stop = threading.Event()
        self._batches = count()
        self._chance = random.Random()  # noqa: S311 - spreads waits, keeps no secret

    def load(self, files: Iterable[Found]) -> None:
        """Load files; returns when each is counted.

        Raises:
            hsm.NoLustreError: There is no ``lfs``.
        """
        waiting: deque[Future[None]] = deque()
        pool = ThreadPoolExecutor(max_workers=self._processes, thread_name_prefix="preload")
        try:
            for batch in _batches(self._worth_asking(files)):
                waiting.append(pool.submit(self._batch, batch))
                # A tree may hold more files than memory holds names.
                while len(waiting) >= 2 * self._processes:
                    waiting.popleft().result()
            while waiting:
                waiting.popleft().result()
        except BaseException:  # a signal too: restores that are queued go on in the file system, no more are queued
            self._stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _worth_asking(self, files: Iterable[Found]) -> Iterator[Found]:
        for number, each in enumerate(files):
            if each.problem:
                code, text = each.problem, each.text
                if code == "vanished":
                    code = self._reasons.object(each.path, missing=True) or code
                self._counts.add_failed(self._name(each.path), 0, code, text)
            elif each.maybe_released:
                yield each
            else:
                self._counts.add_there(each.size)
            if number % 1000 == 0:
                self._report()

    def _batch(self, files: list[Found]) -> None:
        number = next(self._batches)
        try:
            left = self._released(files, self._counts.add_there)
            for attempt in range(TRIES):
                if not left:
                    return
                if attempt:
                    self._pause(2.0 * attempt)
                queued = self._queue(left)
                moved = self._wait(queued, number)
                left = self._not_hopeless(self._released(queued, self._counts.add_loaded))
                if not moved:  # another restore would only wait behind the one that stands still
                    for each in left:
                        self._fail(each, "", code="stalled")
                    return
            for each in left:
                self._fail(each, "")
        except Stopped:
            return
        finally:
            self._counts.moving(number, 0)

    def _released(self, files: Sequence[Found], here: Callable[[int], None]) -> list[Found]:
        """Return files whose data is not there; the others are counted with ``here``."""
        left = []
        for each, state in self._ask(hsm.states, files):
            if not hsm.is_released(state):
                here(each.size)
            elif hsm.is_lost(state):
                self._counts.add_failed(self._name(each.path), each.size, "gone-from-s3", state)
            else:
                left.append(each)
        self._report()
        return left

    def _ask(
        self, question: Callable[[Sequence[str], hsm.Run], hsm.Told], files: Sequence[Found]
    ) -> list[tuple[Found, str]]:
        """Ask about files until each has an answer or is counted as failed."""
        answers: list[tuple[Found, str]] = []
        left, busy = list(files), 0
        while left:
            told = question([each.path for each in left], self._run)
            answers += [(each, told.by_path[each.path]) for each in left if each.path in told.by_path]
            left = [each for each in left if each.path not in told.by_path]
            if not left:
                break
            if told.busy and busy < BUSY_TRIES:
                busy += 1
                self._back_off(busy)
                continue
            self._fail(left.pop(0), "" if told.busy else told.error, code="busy" if told.busy else "")
            busy = 0
        return answers

    def _queue(self, files: Sequence[Found]) -> list[Found]:
        """Ask for the data of files, and return those that are queued; the others are counted as failed."""
        for tries in range(1, BUSY_TRIES + 1):
            told = hsm.restore([each.path for each in files], self._run)
            # One that did not answer in time may have queued them: waiting for them shows it.
            if told.code in (0, hsm.TIMED_OUT) or "already in progress" in told.error:
                return list(files)
            if not told.busy:
                break
            self._back_off(tries)
        else:
            for each in files:
                self._fail(each, told.error, code="busy")
            return []
        if len(files) > 1:  # one of them is refused, and with it the whole call
            return [one for each in files for one in self._queue([each])]
        self._fail(files[0], told.error)
        return []

    def _wait(self, files: Sequence[Found], number: int) -> bool:
        """Wait until nothing is being done with any of the files; return False where nothing moved for too long."""
        left, look, before, since = list(files), _FIRST_LOOK_S, None, self._clock()
        while left:
            told = self._ask(hsm.actions, left)
            left = [each for each, action in told if not hsm.is_idle(action)]
            moved = {each.path: hsm.bytes_moved(action) for each, action in told if not hsm.is_idle(action)}
            here = sum(each.size for each in files) - sum(each.size for each in left)
            self._counts.moving(number, here + sum(moved.values()) if left else 0)
            if not left:
                return True
            self._report()
            if moved != before:
                before, since = moved, self._clock()
            elif self._clock() - since > STALL_S:
                return False  # counted by what the states then say
            self._pause(look)
            look = min(look * 1.6, _LAST_LOOK_S)
        return True

    def _not_hopeless(self, files: Sequence[Found]) -> list[Found]:
        """Return files that another restore may bring; the others are counted with their reason."""
        left = []
        free = self._free() if files else 0
        for each in files:
            if free < each.size:
                self._counts.add_failed(self._name(each.path), each.size, "no-space", "")
                continue
            code, text = self._reasons.of(each.path, "")
            if code in FINAL:
                self._counts.add_failed(self._name(each.path), each.size, code, text)
            else:
                left.append(each)
        return left

    def _fail(self, each: Found, text: str, code: str = "") -> None:
        if not code:
            code, text = self._reasons.of(each.path, text)
        self._counts.add_failed(self._name(each.path), each.size, code, text)

    def _back_off(self, tries: int) -> None:
        """Wait longer each time, and not all batches at once."""
        most = min(_LAST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (tries - 1))
        self._pause(most * (0.5 + self._chance.random() / 2))

    def _pause(self, seconds: float) -> None:
        if self._stop.is_set():
            raise Stopped
        self._sleep(seconds)


def preload(
    aws: Aws,
    settings: Settings,
    source: Callable[[], Iterator[Found]],
    *,
    share: Share,
    dry_run: bool = False,
    processes: int = PROCESSES,
    run: hsm.Run = hsm.run_program,
    statvfs: Callable[[str], Any] = os.statvfs,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Any] = time.sleep,
    report: Callable[[dict[str, Any]], Any] = lambda _: None,
    name: Callable[[str], str] = shown,
) -> dict[str, Any]:
    """Load the data of files, or say what would be loaded.

    Args:
        aws: Clients; S3 is asked why files fail.
        settings: Settings whose ``mount`` is where the file system lies.
        source: Returns the files of all shares, each time it is called.
        share: This node's share.
        dry_run: Count only.
        processes: Calls of ``lfs`` at once.
        run: Runs ``lfs``.
        statvfs: Tells the room on the file system.
        clock: Steady seconds.
        sleep: Waits seconds.
        report: Takes progress.
        name: Returns the text by which a path is named in the answer.

    Returns:
        Counts, reasons and failures (see ``preload_model``), ``warnings``, ``seconds``, ``free`` and ``size`` of the
        file system in bytes as they were before.

    Raises:
        Refusal: The data of all shares does not fit, or there is no Lustre client.
    """
    began = clock()
    sums = scan(source(), share, lambda found: report(_looking(found)))
    try:
        targets = hsm.targets(settings.mount, run)
    except hsm.NoLustreError as error:
        raise Refusal("there is no lfs on this node: its image has no Lustre client") from error
    left, size = room(targets, settings.mount, statvfs)
    free = max(0, left - int(size * MARGIN))
    needed = f"{human(sums.to_load_bytes)} in {sums.to_load:,} files"
    rule = f"{human(free)} (what is free less {MARGIN:.0%} of the file system's {human(size)})"
    fits = sums.to_load_bytes <= free
    about = {"free": free, "size": size, "to_load_total": sums.to_load, "to_load_total_bytes": sums.to_load_bytes}
    if dry_run:
        return {
            **about,
            "dry_run": True,
            "fits": fits,
            "files": sums.share_files,
            "bytes": sums.share_bytes,
            "to_load": sums.to_load,
            "to_load_bytes": sums.to_load_bytes,
            "there": sums.files - sums.to_load,
            "there_bytes": sums.bytes - sums.to_load_bytes,
            "problems": sums.problems,
            "warnings": [] if fits else [f"{needed} would be loaded, and there is room for {rule}"],
            "seconds": clock() - began,
        }
    if not fits:
        raise Refusal(
            f"{needed} have to be loaded, and there is room for {rule}; fix: load less with --path or --list, release "
            "exported data, or give the file system more capacity; nothing was loaded"
        )
    warnings = _target_warnings(targets, sums)
    counts = Counts()
    Loader(
        Reasons(aws, settings),
        counts,
        run=run,
        free=lambda: room(hsm.targets(settings.mount, run), settings.mount, statvfs)[0],
        processes=processes,
        clock=clock,
        sleep=sleep,
        report=lambda: report(counts.progress(sums.share_files, sums.share_bytes)),
        name=name,
    ).load(each for each in source() if share.holds(each.path))
    return {**counts.answer(), **about, "warnings": warnings, "seconds": clock() - began}


def _batches(files: Iterable[Found]) -> Iterator[list[Found]]:
    batch: list[Found] = []
    size = 0
    for each in files:
        if batch and (len(batch) >= BATCH_FILES or size + each.size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(each)
        size += each.size
    if batch:
        yield batch


def _looking(sums: Sums) -> dict[str, Any]:
    return {"phase": "looking", "files": sums.files, "bytes": sums.bytes, "done": 0, "done_bytes": 0}


def _target_warnings(targets: Mapping[str, tuple[int, int]], sums: Sums) -> list[str]:
    """Name the storage target that is likely to be full before the others are."""
    if not targets or not sums.to_load_bytes:
        return []
    part = sums.to_load_bytes / len(targets)
    least = min(targets, key=lambda each: (targets[each][1], each))
    if targets[least][1] >= part:
        return []
    return [
        f"storage target {least} has {human(targets[least][1])} free, and its part of the load is about {human(part)}: "
        "files on it may fail with no space although others have room"
    ]


def real(settings: Settings, mount: str) -> Settings:
    """Return settings whose mount is where it lies on this machine.

    Args:
        settings: Settings as user data wrote them.
        mount: The path with ``TS_ROOT`` before it.
    """
    return replace(settings, mount=mount)
