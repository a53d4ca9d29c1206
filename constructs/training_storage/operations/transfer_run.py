"""One run of a transfer: feeds the copiers, takes their answers, writes the journal."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from sys import intern
from typing import TYPE_CHECKING, Any, Final

from training_storage.errors import AwsError
from training_storage.operations.aws import aws_errors
from training_storage.operations.transfer_confirm import BATCH, Confirmer
from training_storage.operations.transfer_connection import AwsConnection, Connection, is_answered_inside
from training_storage.operations.transfer_copy import ObjectCopier
from training_storage.operations.transfer_errors import OF_THE_OBJECT
from training_storage.operations.transfer_history import find_journal, learn, open_journal
from training_storage.operations.transfer_index import TransferIndex
from training_storage.operations.transfer_journal import Journal, Upload
from training_storage.operations.transfer_listing import (
    Page,
    SourceReader,
    check_places,
    index_destinations,
    index_sources,
)
from training_storage.operations.transfer_model import Entry, Failure, Options, Outcome, Report, Route
from training_storage.operations.transfer_parts import LargeObjectCopier, abort, settle
from training_storage.operations.transfer_pools import Answer, PartThreads, Pool, ProcessPool, ThreadPool

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

LARGE_OBJECTS: Final = 4
"""Objects copied in parts at once; they share the threads for parts."""
PROGRESS_S: Final = 0.2
CONFIRM_S: Final = 2.0
"""Copies wait for so long at most until they are looked at where they lie."""
CONFIRMS: Final = 2
"""Listings for that beside each other."""
_PAGE: Final = 1_000
"""Objects of one page of a listing."""
_WAITING: Final = 5_000
"""Entries held here at most while the copiers are busy."""
HOPELESS: Final = 200
"""So many failures one after another, and none verified between them, end a run: the cause is not in the objects."""


class Run:
    """One run.

    Args:
        connection: How to reach S3.
        route: From where to where.
        options: How.
        on_progress: Called with the counts.
        on_note: Called with what the user should know at once.
        sleep: Replaced in tests.
    """

    def __init__(
        self,
        connection: Connection,
        route: Route,
        options: Options,
        on_progress: Callable[[Report], None] | None,
        on_note: Callable[[str], None] | None,
        sleep: Callable[[float], None],
    ) -> None:
        self._connection = connection
        self._route = route
        self._options = options
        self._processes, self._threads = options.spread()
        self._on_progress = on_progress
        self._on_note = on_note
        self._sleep = sleep
        self._began = time.monotonic()
        self._shown_at = 0.0
        self._answers: SimpleQueue[Answer] = SimpleQueue()
        self._cancelled = False
        self._open = 0
        self._failed_in_a_row = 0
        self._unseen: list[Outcome] = []
        self._unseen_since = 0.0
        self._confirming = 0
        self._lost = False
        self._small: deque[Entry] = deque()
        self._large: deque[Entry] = deque()
        self._report = Report(
            transfer_id=route.transfer_id,
            sources=[place.uri for place in route.sources],
            destinations=[place.uri for place in route.destinations],
            dry_run=options.dry_run,
        )

    def go(self) -> Report:
        """Run; see ``transfer``."""
        client = self._connection.s3(self._processes * self._threads + 16)
        check_places(client, self._route, note=self._note, sleep=self._sleep)
        journal = (find_journal if self._options.dry_run else open_journal)(client, self._route, self._note)
        index = TransferIndex()
        try:
            if journal is not None:
                self._report.journal = journal.uri
                learn(journal, index, self._note, read_alone=self._options.verify == "read")
            index_destinations(client, self._route, index)
            index_sources(client, self._route, index)
            reader = SourceReader(client, self._route, index, with_known=self._options.remove)
            try:
                if self._options.dry_run or journal is None:
                    self._count(reader)
                else:
                    self._work(client, journal, reader)
            finally:
                reader.stop()
        finally:
            index.close()
        self._show(always=True)
        return self._report

    def _count(self, reader: SourceReader) -> None:
        """Say what a run would do."""
        report = self._report
        while not report.complete:
            for entry in self._read(reader, 1.0):
                if entry.copy_mark:
                    report.known += 1
                    report.known_bytes += entry.size
                    continue
                if entry.look:
                    report.to_compare += 1
                else:
                    report.to_copy += 1
                    report.to_copy_bytes += entry.size
                report.without_checksum += not entry.checksum
            self._show()

    # Work

    def _work(self, client: S3Client, journal: Journal, reader: SourceReader) -> None:
        parts = PartThreads(self._processes * self._threads)
        left: dict[tuple[str, str], Upload] = {}
        settings: dict[str, Any] = {
            "verify": self._options.verify,
            "remove": self._options.remove,
            "sleep": self._sleep,
            "ranges": parts,
            "cancelled": lambda: self._cancelled,
        }
        in_parts = LargeObjectCopier(
            client, self._route, limits=self._options.limits, parts=parts, book=journal, left=left, **settings
        )
        large = ThreadPool(in_parts, LARGE_OBJECTS, self._answers)
        confirmer = Confirmer(client, self._route, parts)
        confirms = PartThreads(CONFIRMS)  # of its own: it waits for what the others do
        small: Pool | None = None
        pools: list[Pool] = [large]
        state = "failed"
        try:
            with aws_errors("ListMultipartUploads"):
                left |= settle(client, [each for each in journal.left if self._is_ours(each)], journal.ended)
            if left:
                self._note(f"{len(left)} uploads in parts that an earlier run left are taken up again")
            while not self._report.complete or self._open or self._small or self._large:
                self._fill(reader)
                if small is None and self._small:
                    small = self._small_pool(ObjectCopier(client, self._route, **settings))
                    pools.append(small)
                self._feed(small, self._small)
                self._feed(large, self._large)
                self._take(journal)
                self._confirm(confirmer, confirms)
                journal.tick()
                self._report.under_way_bytes = in_parts.under_way_bytes
                self._show()
            for upload in left.values():
                if refused := abort(client, upload):
                    self._note(f"an upload in parts of s3://{upload.bucket}/{upload.key} can't be aborted: {refused}")
                else:
                    journal.ended(upload)
            state = "finished"
        except KeyboardInterrupt:
            state = "interrupted"
            raise
        finally:
            self._cancelled = state != "finished"
            for pool in pools:
                if self._cancelled:
                    pool.stop()
                else:
                    pool.finish()
            for threads in (confirms, parts):
                threads.shutdown(wait=not self._cancelled)
            if self._cancelled:
                with suppress(AwsError):  # the first error is the one to tell
                    self._take_rest(journal)
                    journal.close(state)
            else:
                journal.close(state)

    def _is_ours(self, upload: Upload) -> bool:
        return any(
            upload.bucket == place.bucket and upload.key.startswith(place.prefix) for place in self._route.destinations
        )

    def _small_pool(self, copier: ObjectCopier) -> Pool:
        # Processes take a second to start; a single page of objects is nearly copied by then.
        many = not self._report.complete or len(self._small) > _PAGE
        if many and self._processes > 1 and isinstance(self._connection, AwsConnection) and not is_answered_inside():
            return ProcessPool(
                self._connection,
                self._route,
                verify=self._options.verify,
                remove=self._options.remove,
                processes=self._processes,
                threads=self._threads,
                answers=self._answers,
            )
        return ThreadPool(copier, self._processes * self._threads, self._answers)

    def _read(self, reader: SourceReader, timeout: float) -> list[Entry]:
        page: Page | None = reader.take(timeout)
        if page is None:
            return []
        report = self._report
        report.listed += page.listed
        report.listed_bytes += page.listed_bytes
        report.known += page.known
        report.known_bytes += page.known_bytes
        report.failed += len(page.failures)
        for failure in page.failures:
            report.fail(failure)
        report.complete = not page.more
        return page.entries

    def _fill(self, reader: SourceReader) -> None:
        while not self._report.complete and len(self._small) < _WAITING and len(self._large) < _WAITING:
            before = self._report.listed
            entries = self._read(reader, 0.0 if self._open or self._small else 0.1)
            for entry in entries:
                is_large = entry.size > self._options.limits.single_copy_bytes
                (self._large if is_large else self._small).append(entry)
            if self._report.listed == before:
                return

    def _feed(self, pool: Pool | None, waiting: deque[Entry]) -> None:
        if pool is None or not waiting:
            return
        entries = [waiting.popleft() for _ in range(min(pool.room, len(waiting)))]
        if entries:
            self._open += len(entries)
            pool.submit(entries)

    def _take(self, journal: Journal) -> None:
        """Take the answers that are there; wait a moment for the first."""
        with suppress(Empty):
            told = self._answers.get(timeout=0.05) if self._open else self._answers.get_nowait()
            while True:
                self._account(told, journal)
                told = self._answers.get_nowait()

    def _take_rest(self, journal: Journal) -> None:
        """Write down what was verified before the run was stopped."""
        with suppress(Empty):
            while True:
                told = self._answers.get_nowait()
                if told[0] == "outcome" and (outcome := Outcome(*told[1:])).seen:
                    self._note_outcome(outcome, journal)
                elif told[0] == "confirmed":
                    self._note_confirmed(told[1], journal)

    def _account(self, told: Answer, journal: Journal) -> None:
        if told[0] == "stop":
            raise AwsError(told[2], code=told[1])
        if told[0] == "confirmed":
            self._note_confirmed(told[1], journal)
            return
        if told[0] == "lost":
            if not self._lost:
                self._note("a process that copied died, perhaps for want of memory; the others do what it had taken")
            self._lost = True
            self._open -= 1
            self._small.append(Entry(*told[1:]))
            return
        outcome = Outcome(*told[1:])
        if not outcome.seen:
            self._unseen_since = self._unseen_since if self._unseen else time.monotonic()
            self._unseen.append(outcome)
            return
        self._open -= 1
        self._note_outcome(outcome, journal)
        if outcome.status != "failed":
            self._failed_in_a_row = 0
        elif outcome.code not in OF_THE_OBJECT:
            self._failed_in_a_row += 1
        if self._failed_in_a_row >= HOPELESS:
            raise AwsError(
                f"{HOPELESS} objects failed one after another, the last with: {outcome.reason}; what was verified is "
                "written down, and the same command goes on",
                code=outcome.code,
            )

    def _confirm(self, confirmer: Confirmer, threads: PartThreads) -> None:
        """Have copies looked at where they lie: a thousand at once, or what there is after a while or at the end."""
        if not self._unseen:
            return
        nothing_else = self._open == len(self._unseen) + self._confirming and not self._small and not self._large
        is_due = time.monotonic() - self._unseen_since >= CONFIRM_S
        if len(self._unseen) >= BATCH or nothing_else or is_due:
            some, self._unseen = self._unseen, []
            self._confirming += len(some)
            threads.submit(self._answer_confirmed, confirmer, some)

    def _answer_confirmed(self, confirmer: Confirmer, outcomes: list[Outcome]) -> None:
        try:
            self._answers.put(["confirmed", confirmer.confirm(outcomes)])
        except Exception:  # whoever looks at each of them tries again, and says what is wrong
            self._answers.put(["confirmed", [(outcome, False) for outcome in outcomes]])

    def _note_confirmed(self, told: list[tuple[Outcome, bool]], journal: Journal) -> None:
        self._open -= len(told)
        self._confirming -= len(told)
        for outcome, is_equal in told:
            if is_equal:
                self._failed_in_a_row = 0
                self._note_outcome(outcome, journal)
            else:  # whoever looks at it next compares it, and copies it anew if need be
                again = Entry(outcome.source, outcome.relative, outcome.size, outcome.etag, look=True, made=True)
                self._small.append(again)

    def _note_outcome(self, outcome: Outcome, journal: Journal) -> None:
        report = self._report
        report.read_bytes += outcome.read_bytes
        if outcome.status == "verified":
            if outcome.proof == "journal":
                report.known += 1
                report.known_bytes += outcome.size
            else:
                journal.verified(outcome)
                report.proofs[outcome.proof] = report.proofs.get(outcome.proof, 0) + 1
                if outcome.copied:
                    report.copied += 1
                    report.copied_bytes += outcome.size
                else:
                    report.present += 1
                    report.present_bytes += outcome.size
            report.removed += outcome.removed
            if self._options.remove and not outcome.removed:
                report.not_removed += 1
                self._fail(outcome, "not removed")
        elif outcome.status == "gone":
            report.gone += 1
        elif outcome.status == "unverified":
            report.unverified += 1
            self._fail(outcome, "unverified")
        else:
            report.failed += 1
            self._fail(outcome, "failed")

    def _fail(self, outcome: Outcome, kind: str) -> None:
        place = self._route.sources[outcome.source]
        uri = f"s3://{place.bucket}/{place.prefix}{outcome.relative}"
        # Few reasons for many objects: each is held once.
        self._report.fail(Failure(uri, intern(outcome.reason), intern(outcome.code), kind))

    # Telling

    def _note(self, text: str) -> None:
        self._report.notes.append(text)
        if self._on_note is not None:
            self._on_note(text)

    def _show(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if self._on_progress is not None and (always or now - self._shown_at >= PROGRESS_S):
            self._shown_at = now
            self._report.seconds = now - self._began
            self._on_progress(self._report)
