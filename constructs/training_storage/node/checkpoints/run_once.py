"""One run of the agent: what is there, what goes to the lake, what may leave the hot tier. Any run may be the last.

A run that is killed anywhere leaves a state from which the next one goes on. What goes wrong with one checkpoint stops
no other; it is not pruned, and stands in the status.
"""

from __future__ import annotations

import time
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Callable

from ..aws import Aws
from ..settings import Settings
from . import ledgers, orders, orders_lead, parts, records, status, verification
from .layouts import find_checkpoints
from .lease import Lease, LeaseLost, lease_of
from .model import Checkpoint, Decision, Ledger, Policy, Record, Verdict
from .policy import decide
from .promotion import PromotionError, Report
from .promotion import promote as promote_one
from .pruning import Kept, Pruner, strangers
from .run_result import RunResult, short, told
from .tree import Tree


def run_once(
    aws: Aws,
    settings: Settings,
    tree: Tree,
    *,
    node: str,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    promote: bool = True,
    prune: bool = True,
    asked: AbstractSet[str] = frozenset(),
    last: bool = False,
    dry_run: bool = False,
    report: Report = lambda _progress: None,
    since_ns: int | None = None,
) -> RunResult:
    """Run the agent once.

    Args:
        aws: Clients.
        settings: Settings of the agent.
        tree: The hot tier.
        node: This node.
        clock: The time, seconds since 1970.
        sleep: Waits for tasks and queues.
        promote: Bring to the lake what is due.
        prune: Remove what may be removed.
        asked: Paths of checkpoints that are promoted by hand.
        last: The newest complete checkpoint of each series is due too.
        dry_run: Say what would be done, and change nothing at all, in AWS or on the hot tier.
        report: Takes progress.
        since_ns: Nanoseconds since 1970 from which on this node's disks hold what was written: a node that came later
            has lost nothing of an earlier checkpoint, and cannot say that there was nothing. Left out: as its disk
            says.

    Returns:
        What was done. Errors are in it; only what concerns the whole run before it began is raised.
    """
    run = _Run(aws, settings, tree, node, clock, sleep, asked, last, report, RunResult(node, dry_run))
    if settings.policy is None:
        run.result.errors.append(
            f"{settings.workload} has no checkpoint policy; fix: a section checkpoints in its file"
        )
        return run.result
    run.policy = settings.policy
    spread = orders.is_spread(settings)
    run.since_ns = since_ns
    if dry_run:
        run.guarded(lambda: run.view(promote=promote, prune=prune))
        return run.result
    if spread:
        run.guarded(run.tell)
        run.guarded(lambda: run.serve(promote=promote, prune=prune))
    lease = lease_of(aws, settings, node, clock, getattr(tree, "root", ""))
    walked: Any = tree
    taken: list[bool] = []
    try:
        run.guarded(lambda: taken.append(lease.acquire()))
        if not taken or not taken[0]:
            run.result.elected = False
            run.result.holder = lease.other.holder if lease.other else ""
            return run.result
        run.lease = lease
        walked.tick = run.check
        lost = run.guarded(lambda: run.lead(promote=promote, prune=prune, spread=spread))
        if not lost:
            run.guarded(run.write_status)
        lease.release()
    finally:
        walked.tick = lambda: None
        lease.close()
    return run.result


class _Run:
    """What one run knows."""

    policy: Policy
    since_ns: int | None = None

    def __init__(
        self,
        aws: Aws,
        settings: Settings,
        tree: Tree,
        node: str,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        asked: AbstractSet[str],
        last: bool,
        report: Report,
        result: RunResult,
    ) -> None:
        self.aws = aws
        self.settings = settings
        self.tree = tree
        self.node = node
        self.clock = clock
        self.result = result
        self.lease: Lease | None = None
        self._sleep = sleep
        self._asked = frozenset(asked)
        self._last = last
        self._report = report
        self._records: list[Record] = []
        self._ledgers: dict[str, Ledger] = {}
        self._suspect: frozenset[str] = frozenset()
        self._verdicts: list[Verdict] = []
        self._gone: set[str] = set()
        self._decided = False
        self._seen: list[Checkpoint] | None = None
        self._own: parts.Part | None = None
        self._alive = self.clock()
        self._ordered: frozenset[str] = frozenset()

    # -- guards

    def guarded(self, act: Callable[[], Any]) -> bool:
        """Do something; what goes wrong becomes an error of the result. Return whether the lease was lost."""
        try:
            act()
        except LeaseLost as lost:
            self.result.errors.append(f"stopped: {lost}")
            return True
        except Exception as error:  # a run says what went wrong, whatever it is, and ends well
            self.result.errors.append(told(error))
        return False

    def check(self) -> None:
        """Make sure that this node may still act."""
        if self.lease is not None:
            self.lease.check()

    def sleep(self, seconds: float) -> None:
        """Wait, and keep the lease meanwhile."""
        self._sleep(seconds)
        self.check()

    def report(self, progress: dict[str, Any]) -> None:
        """Pass progress on, and keep the lease meanwhile."""
        self._report(progress)
        if orders.is_spread(self.settings) and not self.result.dry_run and self.clock() - self._alive >= parts.ALIVE_S:
            self._alive = self.clock()
            parts.live(self._desk())
        self.check()

    # -- looking

    def found(self) -> list[Checkpoint]:
        """Return the checkpoints of the hot tier, looked for once."""
        if self._seen is None:
            self._seen = []
            self.guarded(lambda: self._look())
        return self._seen

    def _look(self) -> list[Checkpoint]:
        self._seen = self._all_nodes() if orders.is_spread(self.settings) else find_checkpoints(self.tree)
        return self._seen

    def _all_nodes(self) -> list[Checkpoint]:
        """Return the checkpoints of all nodes together."""
        desk = self._desk()
        own = self._own or parts.look(desk)
        told_ = parts.with_own(parts.read_all(self.aws, self.settings.lake_bucket), own)
        open_ = orders.open_orders(desk)
        found = parts.checkpoints(
            parts.counted(told_, open_, self.clock()), self.settings.nodes, self.settings.checkpoints
        )
        # What was asked for once is brought to its end, also by runs that nobody asked anything of.
        wanted = {each.name for each in open_ if not each.prunes}
        self._ordered = frozenset(each.path for each in found if (each.path, each.fingerprint) in wanted)
        return found

    def _read(self) -> None:
        damaged: list[str] = []
        self._records = records.read_all(self.aws, self.settings.lake_bucket, damaged=damaged)
        self.result.errors += [
            f"the record {each} cannot be read; its checkpoint counts as not promoted" for each in damaged
        ]

    def _decide(self, checkpoints: list[Checkpoint], known: dict[str, Ledger]) -> Decision:
        return decide(
            checkpoints,
            self._records,
            known,
            self.policy,
            now_ns=int(self.clock() * 1e9),
            asked=self._asked | self._ordered,
            last=self._last,
            suspect=self._suspect,
        )

    def _doubt(self, checkpoints: list[Checkpoint]) -> None:
        """Look which records of what is on the hot tier no longer agree with the lake."""
        here = {(each.path, each.fingerprint) for each in checkpoints}
        mine = [each for each in self._records if (each.path, each.fingerprint) in here]

        def look() -> None:
            found = verification.verify_all(self.aws, self.settings, mine, self.report)
            self._suspect = frozenset(key for key, wrong in found.items() if wrong)
            self.result.errors += [
                f"{key}: {wrong[0]}"
                + (f" and {len(wrong) - 1} more" if len(wrong) > 1 else "")
                + "; it counts as not promoted"
                for key, wrong in sorted(found.items())
                if wrong
            ]

        try:
            look()
        except LeaseLost:
            raise
        except Exception as error:  # each is verified again before it is removed
            self.result.errors.append(f"the lake was not compared with the records: {told(error)}")

    def view(self, *, promote: bool, prune: bool) -> None:
        """Say what would be done."""
        checkpoints = self._look()
        self._read()
        self._ledgers = ledgers.read_all(self.aws, self.settings.lake_bucket)
        self._doubt(checkpoints)
        self._verdicts = list(self._decide(checkpoints, self._ledgers).verdicts)
        self._missing_asked()
        for each in self._verdicts:
            if promote and each.due and not each.promoted and each.checkpoint.complete:
                self.result.promoted.append(short(each, each.due))
            if prune and each.prune:
                self.result.pruned.append(short(each, each.because))
        self._tell()

    def _missing_asked(self) -> None:
        there = {each.checkpoint.path: each for each in self._verdicts}
        for path in sorted(self._asked):
            if path not in there:
                self.result.errors.append(f"there is no checkpoint {path}")
            elif not there[path].checkpoint.complete:
                self.result.errors.append(f"{path} is half-written: it lacks {there[path].checkpoint.missing}")

    def _tell(self) -> None:
        left = [each for each in self._verdicts if each.checkpoint.path not in self._gone]
        self.result.checkpoints = [status.checkpoint_of(each) for each in left]
        self.result.unsaved = [each.checkpoint.path for each in left if each.due and not each.promoted]

    def write_status(self) -> None:
        """Write what the run saw, and what it left."""
        self._tell()
        left = [each for each in self._verdicts if each.checkpoint.path not in self._gone]
        told_ = status.body(
            self.settings, node=self.node, written_at=self.clock(), verdicts=left, errors=self.result.errors
        )
        told_["waiting"] = list(self.result.waiting)
        if not self._decided:
            # Nothing was seen, which is not the same as nothing there: what the run before saw stays.
            before = status.read(self.aws, self.settings.lake_bucket, self.settings.hot_tier_id) or {}
            told_.update({key: before[key] for key in ("checkpoints", "unsaved") if key in before})
        if self.lease is not None:
            # Where the file system went away meanwhile, what was seen last may be the empty folder below it.
            self.lease.check(look=True)
        status.write(self.aws, self.settings, told_)

    # -- acting

    def lead(self, *, promote: bool, prune: bool, spread: bool) -> None:
        """Do what the elected node does."""
        self.check()
        self._ledgers = ledgers.read_all(self.aws, self.settings.lake_bucket)
        pruner = Pruner(
            self.aws,
            self.settings,
            self.tree,
            lambda found, ledger: self._decide(list(found), {ledger.series: ledger}),
            self.check,
            self.clock,
        )
        still: dict[str, str] = {}
        if prune and not spread:
            self._ledgers, still = pruner.finish(self._ledgers)
            self.result.errors += [f"{path}: {why}" for path, why in still.items()]
            self.result.errors += [
                f"{each} is in the trash and no ledger names it; fix: look at it, and remove it by hand"
                for each in strangers(self.tree, self._ledgers)
            ]
        checkpoints = self._look()
        self._read()
        self._doubt(checkpoints)
        self._note(self._decide(checkpoints, self._ledgers))
        self._missing_asked()
        if spread:
            self._lead_orders(promote=promote, prune=prune)
            return
        if promote:
            for verdict in self._verdicts:
                if verdict.due and not verdict.promoted and verdict.checkpoint.complete:
                    self._promote(verdict)
            self._note(self._decide(checkpoints, self._ledgers))
        if prune:
            self._prune(pruner, still)

    def _note(self, decision: Decision) -> None:
        """Take a decision over, and write its ledgers before anything is done."""
        self._verdicts, self._decided = list(decision.verdicts), True
        for series, ledger in decision.ledgers.items():
            before = self._ledgers.get(series)
            # A removal that is still open stays in the ledger, also where its folder is in the trash.
            pruning = dict(before.pruning) if before is not None else dict(ledger.pruning)
            wanted = replace(ledger, pruning=pruning)
            if before is None or wanted != before:
                self.check()
                self._ledgers[series] = ledgers.write(self.aws, self.settings.lake_bucket, wanted)

    def _promote(self, verdict: Verdict) -> None:
        checkpoint = verdict.checkpoint
        self.check()
        try:
            record = promote_one(
                self.aws,
                self.settings,
                self.tree,
                checkpoint,
                number=verdict.number,
                reason=verdict.due,
                clock=self.clock,
                sleep=self.sleep,
                report=self.report,
            )
            self.check()
            records.write(self.aws, self.settings.lake_bucket, record)
        except LeaseLost:
            raise
        except PromotionError as error:
            self.result.errors.append(str(error))
        except Exception as error:  # one checkpoint stops no other
            self.result.errors.append(f"{checkpoint.path}: {told(error)}")
        else:
            self.recorded(record)
            self.result.promoted.append({**short(verdict, verdict.due), "method": record.method})

    def recorded(self, record: Record) -> None:
        """Know of a record that has just been written."""
        key = records.record_key(record.path, record.fingerprint)
        self._suspect -= {key}
        same = (record.path, record.fingerprint)
        self._records = [each for each in self._records if (each.path, each.fingerprint) != same] + [record]

    def _prune(self, pruner: Pruner, still: dict[str, str]) -> None:
        proofs = {(each.path, each.fingerprint): each for each in self._records}
        stuck: set[str] = set()
        for verdict in self._verdicts:
            checkpoint = verdict.checkpoint
            series = checkpoint.series
            if not verdict.prune or series in stuck or checkpoint.path in still:
                continue
            self.report({"path": checkpoint.path, "state": "removing", "bytes": checkpoint.size})
            try:
                ledger = self._ledgers.get(series) or Ledger(series)
                proof = proofs.get((checkpoint.path, checkpoint.fingerprint))
                self._ledgers[series] = pruner.prune(verdict, proof, ledger)
            except LeaseLost:
                raise
            except Kept as kept:
                self.result.kept[checkpoint.path] = str(kept)
                if kept.ledger is not None:
                    self._ledgers[series] = kept.ledger
            except Exception as error:  # one checkpoint stops no other series
                # What the ledger says now is not known: the next run reads it.
                stuck.add(series)
                self.result.errors.append(f"{checkpoint.path} was not removed: {told(error)}")
            else:
                self._gone.add(checkpoint.path)
                self.result.pruned.append(short(verdict, verdict.because))

    # -- local disks of several nodes

    def tell(self) -> None:
        """Tell the others what lies on this node's disk."""
        self._own = parts.tell(self._desk())

    def serve(self, *, promote: bool = False, prune: bool = False) -> None:
        """Do this node's part of what the elected one has ordered."""
        served = orders.serve(self._desk(), promote=promote, prune=prune)
        self.result.errors += served.errors
        self.result.pruned += served.pruned
        self._gone |= {each["path"] for each in served.pruned}
        if served.pruned:
            self._own = None

    def _desk(self) -> orders.Desk:
        return orders.Desk(
            self.aws, self.settings, self.tree, self.node, self.clock, self._sleep, self.report, self.since_ns
        )

    def _lead_orders(self, *, promote: bool, prune: bool) -> None:
        desk = self._desk()
        if promote:
            orders_lead.ask(desk, self._verdicts, self.check)
            self.serve(promote=True)
            led = orders_lead.collect(desk, self._verdicts, self.check)
            self.result.errors += led.errors
            for record in led.records:
                self.recorded(record)
                self.result.promoted.append(
                    {"path": record.path, "reason": record.reason, "files": len(record.files), "bytes": record.size,
                     "method": record.method}
                )  # fmt: skip
            self._note(self._decide(self.found(), self._ledgers))
        if prune:
            self.result.errors += orders_lead.release(desk, self._verdicts, self._records, self.check)
            self.serve(prune=True)
        self.result.waiting = orders_lead.close(desk, self._verdicts, self.check, prune=prune)
