"""What one run of the agent sees: the hot tier, the records, whether the lake agrees with them, and the policy."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Callable

from ..aws import Aws
from ..settings import Settings
from . import ledgers, orders, parts, records, status, verification
from .layouts import find_checkpoints
from .lease import Lease, LeaseLost
from .model import Checkpoint, Decision, Ledger, Policy, Record, Verdict
from .policy import decide
from .promotion import Report
from .run_result import RunResult, short, told
from .tree import Tree


class Look:
    """What one run sees and knows: of the hot tier, of the records, and what the policy says of both.

    Args:
        aws: Clients.
        settings: Settings of the agent.
        policy: The policy.
        tree: The hot tier.
        node: This node.
        clock: The time, seconds since 1970.
        sleep: Waits.
        asked: Paths of checkpoints that are promoted by hand.
        last: The newest complete checkpoint of each series is due too.
        report: Takes progress.
        result: What is said of the run.
        since_ns: From when on this node's disk holds what was written; None: as the disk says.
    """

    def __init__(
        self,
        aws: Aws,
        settings: Settings,
        policy: Policy,
        tree: Tree,
        node: str,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        asked: AbstractSet[str],
        last: bool,
        report: Report,
        result: RunResult,
        since_ns: int | None,
    ) -> None:
        self.aws = aws
        self.settings = settings
        self.policy = policy
        self.tree = tree
        self.node = node
        self.clock = clock
        self.result = result
        self.since_ns = since_ns
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

    def _look(self) -> list[Checkpoint]:
        """Return the checkpoints of the hot tier; of local disks of several nodes those of all together."""
        if not orders.is_spread(self.settings):
            return find_checkpoints(self.tree)
        union = orders.look_together(self._desk(), self._own)
        # What was asked for once is brought to its end, also by runs that nobody asked anything of.
        wanted = {each.name for each in union.orders if not each.prunes}
        self._ordered = frozenset(each.path for each in union.checkpoints if (each.path, each.fingerprint) in wanted)
        return union.checkpoints

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

    def recorded(self, record: Record) -> None:
        """Know of a record that has just been written."""
        key = records.record_key(record.path, record.fingerprint)
        self._suspect -= {key}
        same = (record.path, record.fingerprint)
        self._records = [each for each in self._records if (each.path, each.fingerprint) != same] + [record]

    def _desk(self) -> orders.Desk:
        return orders.Desk(
            self.aws, self.settings, self.tree, self.node, self.clock, self._sleep, self.report, self.since_ns
        )
