"""What goes to the lake, and what may leave the hot tier: a pure function of what is there and what is recorded.

Four things keep it safe whatever happens between two looks:

- A checkpoint is its path and its fingerprint. Written again under the same name it is another one, with a number of
  its own, and proven nowhere.
- A number, once in a ledger, stays: what was due yesterday is due today, also when newer ones came and went.
- Only what says a step is replaced by a later one. ``best``, ``last`` or ``rank_0`` has no number beside those that do,
  takes no place among the newest, and is never removed.
- The newest ones are kept by number (the order in which they were first seen) and by time. Clocks that jump, and old
  checkpoints that come back from the lake, confuse one of the two, never both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from .completeness import MARKERS, METRICS
from .model import Best, Checkpoint, Decision, Ledger, Policy, Record, Verdict
from .records import record_key
from .steps import form, says_step

_ABOUT = 0.999
"""Checkpoints of one model differ by some bytes: numbers in them have more digits. A file that was cut is shorter."""

REMEMBERED = 1_000
"""Numbers of checkpoints that are gone stay in the ledger for so many more: a folder that a walk missed comes back."""


def decide(
    checkpoints: Iterable[Checkpoint],
    records: Iterable[Record],
    ledgers: Mapping[str, Ledger],
    policy: Policy,
    *,
    now_ns: int,
    asked: AbstractSet[str] = frozenset(),
    last: bool = False,
    suspect: AbstractSet[str] = frozenset(),
) -> Decision:
    """Return what the policy says of every checkpoint.

    Args:
        checkpoints: What lies on the hot tier.
        records: What has been promoted and verified. A record that cannot be read is left out: not promoted.
        ledgers: Ledgers by series, as they were read.
        policy: The policy.
        now_ns: The time, nanoseconds since 1970.
        asked: Paths of checkpoints that are promoted by hand.
        last: Whether the newest complete checkpoint of each series is due too.
        suspect: Keys of records whose objects in the lake no longer agree: they count as not promoted.
    """
    recorded: dict[str, list[Record]] = {}
    for record in records:
        recorded.setdefault(record.series, []).append(record)
    here: dict[str, list[Checkpoint]] = {}
    for checkpoint in checkpoints:
        here.setdefault(checkpoint.series, []).append(checkpoint)
    verdicts: list[Verdict] = []
    updated = dict(ledgers)
    for series in sorted(here):
        look = _Series(
            sorted(here[series], key=_age),
            recorded.get(series, ()),
            ledgers.get(series) or Ledger(series),
            policy,
            now_ns,
            asked,
            last,
            suspect,
        )
        verdicts.extend(look.verdicts())
        if look.numbers or series in ledgers:
            updated[series] = look.ledger()
    return Decision(tuple(verdicts), updated)


class _Series:
    """One look at one series."""

    def __init__(
        self,
        checkpoints: Sequence[Checkpoint],
        records: Sequence[Record],
        ledger: Ledger,
        policy: Policy,
        now_ns: int,
        asked: AbstractSet[str],
        last: bool,
        suspect: AbstractSet[str],
    ) -> None:
        # What was complete once is complete as long as its files are the same: what told so may be gone by now, such as
        # a pointer file that a restart has set back.
        self.checkpoints = [
            replace(each, complete=True, missing="") if not each.complete and _name(each) in ledger.numbers else each
            for each in checkpoints
        ]
        self.policy = policy
        self.now_ns = now_ns
        self.asked = asked
        self.before = ledger
        self.complete = [each for each in self.checkpoints if each.complete]
        # A folder that is written again with each save would take every other number, and each place that is kept.
        self.counted = [each for each in self.complete if says_step(each.path)] or self.complete
        self.trusted = [each for each in records if record_key(each.path, each.fingerprint) not in suspect]
        self.records = {(each.path, each.fingerprint): each for each in records}
        self.proven = {(each.path, each.fingerprint) for each in self.trusted}
        self.last, self.numbers = self._count(records)
        self.best = _best_so_far(policy.best, self.trusted, self.numbers, self.counted)
        keep = max(1, policy.keep_hot)
        by_number = sorted(self.counted, key=lambda each: self.numbers[each.path])[-keep:]
        self.newest = {each.path for each in (*by_number, *self.counted[-keep:])}
        self.final: set[str] = set()
        if last and self.complete:
            self.final = {by_number[-1].path, self.complete[-1].path}
            self.final.update(each.path for each in self.complete if not says_step(each.path))

    def _count(self, records: Sequence[Record]) -> tuple[int, dict[str, int]]:
        """Return the highest number ever given, and the numbers of those that are counted by path."""
        highest = max([self.before.last, *(each.number or 0 for each in records)])
        numbers: dict[str, int] = {}
        taken = set(self.before.numbers.values())
        new = []
        for each in self.counted:
            number = self.before.numbers.get(_name(each))
            if number is None:
                record = self.records.get((each.path, each.fingerprint))
                number = record.number if record and record.number not in taken else None
            if number is None:
                new.append(each)
            else:
                numbers[each.path] = number
                taken.add(number)
        for each in new:
            highest += 1
            numbers[each.path] = highest
        return highest, numbers

    def ledger(self) -> Ledger:
        """Return the ledger with the numbers of this look; the same one where nothing is new."""
        numbers = {name: number for name, number in self.before.numbers.items() if number > self.last - REMEMBERED}
        numbers.update((_name(each), self.numbers[each.path]) for each in self.counted)
        there = {each.path: each for each in self.checkpoints}
        pruning = {
            path: fingerprint
            for path, fingerprint in self.before.pruning.items()
            if path in there and (not there[path].complete or there[path].fingerprint == fingerprint)
        }
        if (numbers, self.last, pruning) == (self.before.numbers, self.before.last, self.before.pruning):
            return self.before
        return replace(self.before, numbers=numbers, last=self.last, pruning=pruning)

    def verdicts(self) -> list[Verdict]:
        return [self._complete(each) if each.complete else self._incomplete(each) for each in self.checkpoints]

    def _complete(self, checkpoint: Checkpoint) -> Verdict:
        number = self.numbers.get(checkpoint.path)
        due, why = self._due(checkpoint, number)
        identity = (checkpoint.path, checkpoint.fingerprint)
        promoted = identity in self.proven
        prune = False
        if due and not promoted:
            lost = identity in self.records
            rest = "its objects in the lake no longer agree with its record" if lost else "it is not in the lake yet"
            because = f"{why}; {rest}"
        elif checkpoint.path in self.newest:
            because = f"among the newest {max(1, self.policy.keep_hot)}" + (f"; {why}" if why else "")
        elif checkpoint.pinned:
            because = "a pointer file names it" + (f"; {why}" if why else "")
        elif not says_step(checkpoint.path):
            because = "its name says no step, so that no later one replaces it" + (f"; {why}" if why else "")
        else:
            prune = True
            newer = f"{len(self.counted)} complete, the newest {max(1, self.policy.keep_hot)} stay"
            because = f"{why or 'no key version'}; {newer}"
        state = "in the lake" if promoted else ""
        return Verdict(
            checkpoint,
            number,
            due,
            promoted,
            prune,
            f"{'not counted' if number is None else f'number {number}'}: {because}" + (f"; {state}" if state else ""),
        )

    def _due(self, checkpoint: Checkpoint, number: int | None) -> tuple[str, str]:
        """Return why a checkpoint has to be in the lake, as a word and in words."""
        if number is not None and number % self.policy.promote_every == 0:
            return "every", f"a key version (every {self.policy.promote_every})"
        if checkpoint.path in self.best and self.policy.best:
            metric = self.policy.best.metric
            return "best", f"the best so far ({metric} {_value(checkpoint.metrics, metric):g})"
        if checkpoint.path in self.final:
            kept = "" if says_step(checkpoint.path) else "kept with "
            return "last", f"{kept}the last of its series"
        if checkpoint.path in self.asked:
            return "asked", "asked for"
        return "", ""

    def _incomplete(self, checkpoint: Checkpoint) -> Verdict:
        limit_s = self.policy.incomplete_expires_after_s
        still_s = (self.now_ns - checkpoint.modified_ns) / 1e9
        # Only one of the same layout and form of name tells that the job went on and left this one behind.
        newer = [
            each
            for each in self.counted
            if each.layout == checkpoint.layout
            and form(each.path) == form(checkpoint.path)
            and checkpoint.modified_ns < each.modified_ns <= self.now_ns
        ]
        prune = False
        if checkpoint.path in self.asked:
            because = "asked for, but a half-written one is never promoted"
        elif checkpoint.path in self.before.pruning:
            # What had to be in the lake before its first file went may be lost there by now: that is looked at first.
            because = "its removal was interrupted, and ends only with what was to be removed then"
        elif checkpoint.pinned:
            because = "a pointer file names it"
        elif not says_step(checkpoint.path):
            because = "its name says no step, so that no later one replaces it"
        elif not newer:
            because = "no newer complete one of its layout and form of name in the series"
        elif _lacks_marker_alone(checkpoint, newer[-1]):
            because = (
                f"it has every file that {newer[-1].path} has, so it may be from before markers were written; fix: "
                f"write its marker ({MARKERS[0]}), or remove it by hand"
            )
        elif still_s < limit_s:
            because = f"unchanged for {max(0, still_s):.0f} s, kept for {limit_s} s"
        else:
            prune, because = True, f"unchanged for {still_s:.0f} s (kept for {limit_s} s), and {len(newer)} newer"
        told = f"half-written, it lacks {checkpoint.missing}; {because}"
        return Verdict(checkpoint, None, "", False, prune, told, self._doubtful(checkpoint))

    def _doubtful(self, checkpoint: Checkpoint) -> bool:
        """Whether nothing tells a finished one from a half-written one: no marker, and none like it has one."""
        if checkpoint.layout != "marker" or any(each.path.rpartition("/")[2] in MARKERS for each in checkpoint.files):
            return False
        marked = [
            each for each in self.complete if each.layout == "marker" and form(each.path) == form(checkpoint.path)
        ]
        return not marked or any(_lacks_marker_alone(checkpoint, each) for each in marked)


def _age(checkpoint: Checkpoint) -> tuple[int, int, str]:
    return (checkpoint.modified_ns, -1 if checkpoint.step is None else checkpoint.step, checkpoint.path)


def _lacks_marker_alone(checkpoint: Checkpoint, whole: Checkpoint) -> bool:
    """Whether a checkpoint has all that a complete one has but its marker, in names and about in size."""
    if checkpoint.layout != "marker":
        return False

    def sizes(of: Checkpoint) -> dict[str, int]:
        return {each.path[len(of.path) + 1 :]: each.size for each in of.files}

    mine = sizes(checkpoint)
    other = {name: size for name, size in sizes(whole).items() if name not in (*MARKERS, METRICS)}
    there = sum(mine.get(name, 0) for name in other)
    return (
        mine.keys().isdisjoint(MARKERS)
        and bool(other)
        and other.keys() <= mine.keys()
        and there >= sum(other.values()) * _ABOUT
    )


def _name(checkpoint: Checkpoint) -> str:
    """Return the name of a checkpoint in a ledger.

    Metrics that are written later, when the checkpoint has been evaluated, make no new checkpoint of it: they are left
    out. What is in the lake is told by the whole fingerprint.
    """
    metrics = f"{checkpoint.path}/{METRICS}"
    if any(each.path == metrics for each in checkpoint.files):
        rest = tuple(each for each in checkpoint.files if each.path != metrics)
        return f"{checkpoint.path}@{replace(checkpoint, files=rest).fingerprint}"
    return f"{checkpoint.path}@{checkpoint.fingerprint}"


def _best_so_far(
    best: Best | None, records: Sequence[Record], numbers: Mapping[str, int], complete: Sequence[Checkpoint]
) -> set[str]:
    """Return the paths of checkpoints that were better than all before them, in the order of their numbers."""
    if best is None:
        return set()
    sign = -1 if best.goal == "min" else 1
    own = {(each.path, numbers[each.path]) for each in complete}
    # What was promoted stands for itself where it has left the hot tier.
    values = [
        (each.number or 0, "", value)
        for each in records
        for value in [_value(each.metrics, best.metric)]
        if value is not None and (each.path, each.number) not in own
    ]
    values += [
        (numbers[each.path], each.path, value)
        for each in complete
        for value in [_value(each.metrics, best.metric)]
        if value is not None
    ]
    found: set[str] = set()
    highest: float | None = None
    for _, path, value in sorted(values):
        if highest is None or sign * value > highest:
            highest = sign * value
            found.add(path)
    return found


def _value(metrics: Mapping[str, float], name: str) -> float | None:
    """Return a metric; the Trainer puts ``eval_`` before the names of its own."""
    value = metrics.get(name)
    return metrics.get(f"eval_{name}") if value is None else value
