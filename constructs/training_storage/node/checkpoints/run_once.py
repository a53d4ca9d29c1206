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
from . import ledgers, orders, orders_lead, parts, records
from .lease import LeaseLost, lease_of
from .model import Checkpoint, Decision, Ledger, Verdict
from .promotion import PromotionError, Report
from .promotion import promote as promote_one
from .pruning import Kept, Pruner, strangers
from .run_look import Look
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
    result, policy = RunResult(node, dry_run), settings.policy
    if policy is None:
        result.errors.append(f"{settings.workload} has no checkpoint policy; fix: a section checkpoints in its file")
        return result
    run = _Run(aws, settings, policy, tree, node, clock, sleep, asked, last, report, result, since_ns)
    spread = orders.is_spread(settings)
    if dry_run:
        run.guarded(lambda: run.view(promote=promote, prune=prune))
        return result
    if spread:
        run.guarded(run.tell)
        run.guarded(lambda: run.serve(promote=promote, prune=prune))
    lease = lease_of(aws, settings, node, clock, getattr(tree, "root", ""))
    walked: Any = tree
    taken: list[bool] = []
    try:
        run.guarded(lambda: taken.append(lease.acquire()))
        if not taken or not taken[0]:
            result.elected = False
            result.holder = lease.other.holder if lease.other else ""
            return result
        run.lease = lease
        walked.tick = run.check
        lost = run.guarded(lambda: run.lead(promote=promote, prune=prune, spread=spread))
        if not lost:
            run.guarded(run.write_status)
        lease.release()
    finally:
        walked.tick = lambda: None
        lease.close()
    return result


class _Run(Look):
    """What one run does."""

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
            self._lead_orders(checkpoints, promote=promote, prune=prune)
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

    def _lead_orders(self, checkpoints: list[Checkpoint], *, promote: bool, prune: bool) -> None:
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
            self._note(self._decide(checkpoints, self._ledgers))
        if prune:
            self.result.errors += orders_lead.release(desk, self._verdicts, self._records, self.check)
            self.serve(prune=True)
        self.result.waiting = orders_lead.close(desk, self._verdicts, self.check, prune=prune)
