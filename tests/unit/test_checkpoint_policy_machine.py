"""A training job, an agent that is killed anywhere, and a lake that loses objects: no sequence loses the only copy.

The agent here is the smallest one that keeps the order: ledger, objects, record, list of what is removed, removal. What
it may do is told by ``decide``; whether that was right is told by what this module has written down itself.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.unit._checkpoints import DAY, NOW, SECOND, MemoryTree, dcp, trainer, zero
from training_storage.node.checkpoints.layouts import find_checkpoints, removal_order
from training_storage.node.checkpoints.model import (
    Best,
    Checkpoint,
    Decision,
    FileEntry,
    Ledger,
    Policy,
    Record,
    RecordedFile,
    Verdict,
)
from training_storage.node.checkpoints.policy import decide
from training_storage.node.checkpoints.records import record_key

EXAMPLES = int(os.environ.get("CHECKPOINT_MACHINE_EXAMPLES", "50"))
SERIES = ("run1", "run2")
LAYOUTS = ("dcp", "deepspeed", "huggingface", "marker")


class Killed(Exception):  # noqa: N818 - what happens to the agent
    """The agent's process is gone."""


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Life(RuleBasedStateMachine):
    """Hot tier, lake, and what is known to be true."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = MemoryTree()
        self.lake: dict[str, bytes] = {}
        self.records: dict[str, Record] = {}
        self.ledgers: dict[str, Ledger] = {}
        self.lists: dict[str, tuple[Checkpoint, str]] = {}
        self.now = NOW
        self.step = 0
        self.content = 0
        self.layout = dict.fromkeys(SERIES, "dcp")
        self.open: dict[str, tuple[str, int, float | None]] = {}
        self.finished: set[str] = set()
        self.promoted: set[str] = set()
        self.over: set[str] = set()
        self.values: dict[str, float] = {}
        self.left = -1
        self.seen: tuple[int, list[Checkpoint]] = (-1, [])
        self.names: dict[tuple[str, str], str] = {}

    @initialize(
        keep=st.integers(1, 3),
        every=st.integers(1, 4),
        goal=st.sampled_from(["", "min", "max"]),
        layouts=st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)),
    )
    def begin(self, keep: int, every: int, goal: str, layouts: tuple[str, str]) -> None:
        best = Best("eval_loss", goal) if goal else None
        self.policy = Policy(keep, every, best, incomplete_expires_after_s=86_400)
        self.layout = dict(zip(SERIES, layouts, strict=True))

    # -- the training job

    def path(self, series: str, step: int) -> str:
        name = {"dcp": "step-", "marker": "step-", "deepspeed": "global_step", "huggingface": "checkpoint-"}
        return f"{series}/{name[self.layout[series]]}{step}"

    def files(self, series: str, path: str, step: int, value: float | None) -> dict[str, bytes | str]:
        """Files of a save, in the order in which they are written; each save has contents of its own."""
        self.content += 1
        metrics = {} if value is None else {"eval_loss": value}
        layout = self.layout[series]
        kinds: dict[str, Callable[[], dict[str, bytes | str]]] = {
            "dcp": lambda: dcp(path, 2),
            "deepspeed": lambda: {**zero(path), f"{series}/latest": path.rpartition("/")[2]},
            "huggingface": lambda: trainer(path, step, **metrics),
            "marker": lambda: {f"{path}/x.pt": b"x", f"{path}/DONE": b""},
        }
        made = kinds[layout]()
        if metrics and layout != "huggingface":
            first = next(iter(made))
            made = {first: made.pop(first), f"{path}/metrics.json": f'{{"eval_loss": {value}}}', **made}
        return {
            name: f"{content!s}{self.content}" if name.endswith((".pt", ".distcp", ".safetensors")) else content
            for name, content in made.items()
        }

    def save(self, series: str, step: int, value: float | None, ahead: int = 0) -> None:
        path = self.path(series, step)
        self.now += 10 * SECOND
        for name in [each for each in self.tree.held if each.startswith(path + "/metrics.json")]:
            self.tree.remove(name)
        self.tree.write(self.now + ahead, self.files(series, path, step, value))
        self.open.pop(path, None)
        self.note(path, value)

    def found(self) -> list[Checkpoint]:
        if self.seen[0] != self.tree.version:
            self.seen = (self.tree.version, find_checkpoints(self.tree))
        return self.seen[1]

    def note(self, path: str, value: float | None) -> None:
        """Write down that what lies there now is a whole checkpoint."""
        for each in self.found():
            if each.path == path:
                # In the ledger metrics that came later make no difference; here they come with the save.
                name = self.name(each)
                self.finished.add(name)
                if value is not None:
                    self.values[name] = value

    def name(self, checkpoint: Checkpoint) -> str:
        key = (checkpoint.path, checkpoint.fingerprint)
        if key not in self.names:
            files = tuple(each for each in checkpoint.files if not each.path.endswith("/metrics.json"))
            self.names[key] = f"{checkpoint.path}@{replace(checkpoint, files=files).fingerprint}"
        return self.names[key]

    series = st.sampled_from(SERIES)
    metric = st.none() | st.integers(1, 6).map(float)

    @rule(series=series, value=metric, ahead=st.sampled_from([0, 0, 0, 0, 10 * DAY]))
    def saves(self, series: str, value: float | None, ahead: int) -> None:
        self.goes_on(series)
        self.step += 1
        # Which save DeepSpeed's files are of is told by times alone.
        self.save(series, self.step, value, 0 if self.layout[series] == "deepspeed" else ahead)

    def goes_on(self, series: str) -> None:
        """A job that comes after one that was killed while it saved over an old name passes that step again.

        DeepSpeed alone needs that: its files do not say which save they are of.
        """
        for path in sorted(self.over):
            begun = self.open.get(path)
            if begun is not None and begun[0] == series and self.layout[series] == "deepspeed":
                self.save(*begun)
        self.over &= set(self.open)

    @rule(series=series, value=metric, share=st.floats(0.1, 0.9))
    def begins_to_save(self, series: str, value: float | None, share: float) -> None:
        self.goes_on(series)
        self.step += 1
        self.half(series, self.step, value, share)

    def half(self, series: str, step: int, value: float | None, share: float) -> None:
        path = self.path(series, step)
        self.now += 10 * SECOND
        files = list(self.files(series, path, step, value).items())
        # Never the whole of it: what makes it complete is the last of them.
        count = min(max(1, int(len(files) * share)), len(files) - (2 if self.layout[series] == "deepspeed" else 1))
        self.tree.write(self.now, dict(files[: max(1, count)]))
        self.open[path] = (series, step, value)

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def ends_a_save(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.open)))
        series, step, value = self.open[path]
        self.goes_on(series)
        self.save(series, step, value)

    @precondition(lambda self: self.complete())
    @rule(data=st.data(), value=metric, whole=st.booleans(), share=st.floats(0.1, 0.9))
    def saves_under_an_old_name(self, data: st.DataObject, value: float | None, whole: bool, share: float) -> None:
        found = data.draw(st.sampled_from(self.complete()))
        if found.modified_ns > self.now:
            return  # a clock that was ahead then and is right now: the order of writing cannot be told from times
        self.goes_on(found.series)
        if whole:
            self.save(found.series, found.step or 0, value)
        else:
            self.half(found.series, found.step or 0, value, share)
            self.over.add(found.path)

    @rule(days=st.sampled_from([0.01, 0.5, 2]))
    def time_passes(self, days: float) -> None:
        self.now += int(days * DAY)

    # -- what goes wrong

    @precondition(lambda self: self.lake)
    @rule(data=st.data(), how=st.sampled_from(["lost", "overwritten"]))
    def lake_object_is(self, data: st.DataObject, how: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.lake)))
        if how == "lost":
            del self.lake[key]
        else:
            self.lake[key] = b"something else"

    @rule()
    def hot_tier_is_lost(self) -> None:
        self.tree.held.clear()
        self.tree.version += 1
        self.open.clear()

    @precondition(lambda self: self.records)
    @rule(data=st.data(), old_times=st.booleans())
    def comes_back_from_the_lake(self, data: st.DataObject, old_times: bool) -> None:
        record = self.records[data.draw(st.sampled_from(sorted(self.records)))]
        if record.path in self.open or any(each.startswith(record.path + "/") for each in self.tree.held):
            return
        if not self.agrees(record):
            return
        self.now += 10 * SECOND
        for each in record.files:
            self.tree.write(each.modified_ns if old_times else self.now, {each.path: self.lake[each.path]})
        self.note(record.path, record.metrics.get("eval_loss"))

    @precondition(lambda self: self.complete())
    @rule(data=st.data())
    def pointer_names(self, data: st.DataObject) -> None:
        found = data.draw(st.sampled_from(self.complete()))
        self.tree.write(self.now, {f"{found.series}/best": found.path.rpartition("/")[2]})

    # -- the agent

    @rule(kill=st.integers(0, 40), asked=st.booleans(), last=st.booleans())
    def agent_looks_and_is_killed(self, kill: int, asked: bool, last: bool) -> None:
        self.left = kill
        try:
            self.look(asked=frozenset({f"run1/step-{self.step}"}) if asked else frozenset(), last=last)
        except Killed:
            pass
        finally:
            self.left = -1

    @rule(refused=st.booleans())
    def agent_looks(self, refused: bool) -> None:
        self.look(refused=refused)

    def tick(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def agrees(self, record: Record) -> bool:
        return all(each.path in self.lake and digest(self.lake[each.path]) == each.etag for each in record.files)

    def decide(self, asked: frozenset[str], last: bool) -> Decision:
        suspect = {key for key, record in self.records.items() if not self.agrees(record)}
        found = self.found()
        counted = [self.name(each) for each in found if each.complete]
        assert set(counted) <= self.finished, "a half-written one is taken for complete"
        decision = decide(
            found,
            tuple(self.records.values()),
            self.ledgers,
            self.policy,
            now_ns=self.now,
            asked=asked,
            last=last,
            suspect=suspect,
        )
        assert not any(each.due or each.number for each in decision.verdicts if not each.checkpoint.complete)
        return decision

    def look(self, asked: frozenset[str] = frozenset(), last: bool = False, refused: bool = False) -> None:
        """Do what the agent does once; where promotions are refused, it goes on without them."""
        self.finish()
        decision = self.decide(asked, last)
        self.tick()
        self.ledgers = dict(decision.ledgers)
        for verdict in () if refused else decision.to_promote:
            self.promote(verdict)
        decision = self.decide(asked, last)
        for verdict in decision.to_prune:
            self.prune(verdict.checkpoint, verdict.due)

    def promote(self, verdict: Verdict) -> None:
        checkpoint = verdict.checkpoint
        self.promoted.add(self.name(checkpoint))
        for each in checkpoint.files:
            self.tick()
            self.lake[each.path] = self.tree.held[each.path][0]
        self.tick()
        record = Record(
            checkpoint.path,
            checkpoint.series,
            checkpoint.layout,
            checkpoint.step,
            verdict.number,
            checkpoint.fingerprint,
            verdict.due,
            "upload",
            "2026-01-01T00:00:00Z",
            checkpoint.metrics,
            tuple(
                RecordedFile(each.path, each.size, each.modified_ns, digest(self.lake[each.path]))
                for each in checkpoint.files
            ),
        )
        self.records[record_key(record.path, record.fingerprint)] = record

    def prune(self, checkpoint: Checkpoint, due: str) -> None:
        self.tick()
        ledger = self.ledgers.get(checkpoint.series)
        if ledger is not None and checkpoint.complete:
            pruning = {**ledger.pruning, checkpoint.path: checkpoint.fingerprint}
            self.ledgers[checkpoint.series] = replace(ledger, pruning=pruning)
            self.lists[checkpoint.path] = (checkpoint, due)
        if checkpoint.complete:
            self.may_go(checkpoint)
        for each in removal_order(checkpoint):
            self.tick()
            self.remove(checkpoint, each)
        self.ended(checkpoint)

    def ended(self, checkpoint: Checkpoint) -> None:
        self.tick()
        ledger = self.ledgers.get(checkpoint.series)
        if ledger is not None:
            rest = {path: each for path, each in ledger.pruning.items() if path != checkpoint.path}
            self.ledgers[checkpoint.series] = replace(ledger, pruning=rest)
        self.lists.pop(checkpoint.path, None)

    def finish(self) -> None:
        for checkpoint, due in list(self.lists.values()):
            there = {each.path: each for each in self.tree.files(checkpoint.path)}
            rest = [each for each in removal_order(checkpoint) if there.get(each.path) == each]
            if rest and len(rest) < len(checkpoint.files):
                record = self.records.get(record_key(checkpoint.path, checkpoint.fingerprint))
                if due and (record is None or not self.agrees(record)):
                    continue
                for each in rest:
                    self.tick()
                    self.remove(checkpoint, each)
            self.ended(checkpoint)

    # -- what has to be true

    def complete(self) -> list[Checkpoint]:
        """What is complete, or was when it was counted and has not changed since."""
        known = {name for ledger in self.ledgers.values() for name in ledger.numbers}
        return [each for each in self.found() if each.complete or self.name(each) in known]

    def has_to_be_kept(self, checkpoint: Checkpoint) -> bool:
        """Whether a complete checkpoint is a key version or was the best of all that have got a number."""
        numbers = self.ledgers[checkpoint.series].numbers
        number = numbers[self.name(checkpoint)]
        if number % self.policy.promote_every == 0:
            return True
        value = self.values.get(self.name(checkpoint))
        if self.policy.best is None or value is None:
            return False
        sign = 1 if self.policy.best.goal == "max" else -1
        earlier = [
            sign * self.values[each] for each, given in numbers.items() if given < number and each in self.values
        ]
        return not earlier or sign * value > max(earlier)

    def may_go(self, checkpoint: Checkpoint) -> None:
        assert not checkpoint.pinned
        others = [each for each in self.complete() if each.series == checkpoint.series]
        numbers = self.ledgers[checkpoint.series].numbers
        keep = self.policy.keep_hot
        assert len(others) > keep
        by_number = sorted(others, key=lambda each: numbers[self.name(each)])[-keep:]
        by_time = sorted(others, key=lambda each: (each.modified_ns, each.step or 0))[-keep:]
        assert checkpoint.path not in {each.path for each in (*by_number, *by_time)}

    def remove(self, checkpoint: Checkpoint, entry: FileEntry) -> None:
        """Remove one file: the only place where the agent does."""
        assert checkpoint.path not in self.open or not checkpoint.complete
        if checkpoint.complete and self.has_to_be_kept(checkpoint):
            record = self.records[record_key(checkpoint.path, checkpoint.fingerprint)]
            assert self.agrees(record), "the only copy is removed"
            assert digest(self.tree.held[entry.path][0]) == digest(self.lake[entry.path])
        if not checkpoint.complete:
            assert checkpoint.path not in self.lists, "what an interrupted removal left is removed by its list only"
            newer = [
                each
                for each in self.complete()
                if each.series == checkpoint.series and each.modified_ns > checkpoint.modified_ns
            ]
            assert newer
            assert self.now - checkpoint.modified_ns >= DAY
        self.tree.remove(entry.path)

    @invariant()
    def only_whole_ones_are_counted_and_promoted(self) -> None:
        for ledger in self.ledgers.values():
            assert set(ledger.numbers) <= self.finished
            assert len(set(ledger.numbers.values())) == len(ledger.numbers)
        assert self.promoted <= self.finished
        assert {self.name(each) for each in self.found() if each.complete} <= self.finished

    def teardown(self) -> None:
        if not hasattr(self, "policy"):
            return
        self.now += 20 * DAY
        self.look()
        for verdict in self.decide(frozenset(), False).verdicts:
            if verdict.checkpoint.complete and self.has_to_be_kept(verdict.checkpoint):
                assert verdict.promoted
        # A promotion over the objects of an older one of the same name can make another one the best that there is.
        for _ in range(4):
            self.look()
        after = self.tree.version
        self.look()
        assert self.tree.version == after
        decision = self.decide(frozenset(), False)
        assert decision.to_promote == ()
        assert decision.to_prune == ()
        for verdict in decision.verdicts:
            checkpoint = verdict.checkpoint
            if not checkpoint.complete:
                continue
            if self.has_to_be_kept(checkpoint):
                assert verdict.promoted
                assert all(self.lake[each.path] == self.tree.held[each.path][0] for each in checkpoint.files)
        for series in SERIES:
            whole = [each for each in self.complete() if each.series == series]
            numbers = self.ledgers[series].numbers if series in self.ledgers else {}
            keep = self.policy.keep_hot
            newest = {each.path for each in sorted(whole, key=lambda each: numbers[self.name(each)])[-keep:]}
            newest |= {each.path for each in sorted(whole, key=lambda e: (e.modified_ns, e.step or 0))[-keep:]}
            assert {each.path for each in whole if not each.pinned} <= newest


TestLife = Life.TestCase
TestLife.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate] if "CHECKPOINT_MACHINE_FAST" in os.environ else list(Phase),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
