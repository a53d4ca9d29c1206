"""What goes to the lake and what may leave the hot tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit._checkpoints import DAY, NOW, SECOND
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
from training_storage.node.checkpoints.policy import REMEMBERED, decide
from training_storage.node.checkpoints.records import record_key

HOUR = 3600 * SECOND
POLICY = Policy(keep_hot=2, promote_every=3)


def checkpoint(
    step: int,
    *,
    at: int | None = None,
    series: str = "run1",
    complete: bool = True,
    size: int = 5,
    pinned: bool = False,
    layout: str = "dcp",
    **metrics: float,
) -> Checkpoint:
    path = f"{series}/step-{step}" if series else f"step-{step}"
    written = NOW - 100 * DAY + step * HOUR if at is None else at
    files = (FileEntry(f"{path}/x.pt", size, written),)
    missing = "" if complete else ".metadata"
    return Checkpoint(path, series, layout, step, complete, missing, pinned, written, files, metrics)


def record(of: Checkpoint, number: int | None = 1, **changes: object) -> Record:
    files = tuple(RecordedFile(each.path, each.size, each.modified_ns, "e") for each in of.files)
    made = Record(
        of.path, of.series, of.layout, of.step, number, of.fingerprint, "every", "upload", "t", of.metrics, files
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields by name


def look(
    checkpoints: Sequence[Checkpoint],
    records: Sequence[Record] = (),
    ledgers: Mapping[str, Ledger] | None = None,
    policy: Policy = POLICY,
    *,
    now: int = NOW,
    **more: object,
) -> Decision:
    return decide(checkpoints, records, ledgers or {}, policy, now_ns=now, **more)  # type: ignore[arg-type]  # passed on


def steps(verdicts: Sequence[Verdict]) -> list[int | None]:
    return [each.checkpoint.step for each in verdicts]


def test_numbers_follow_time_and_every_third_is_due() -> None:
    decision = look([checkpoint(step) for step in (7, 1, 3, 2, 6, 5, 4)])
    assert [(each.checkpoint.step, each.number) for each in decision.verdicts] == [(each, each) for each in range(1, 8)]
    assert steps(decision.to_promote) == [3, 6]
    assert {each.due for each in decision.to_promote} == {"every"}
    assert steps(decision.to_prune) == [1, 2, 4, 5]
    ledger = decision.ledgers["run1"]
    assert (ledger.last, sorted(ledger.numbers.values())) == (7, [1, 2, 3, 4, 5, 6, 7])


def test_because_says_it_in_numbers() -> None:
    told = [each.because for each in look([checkpoint(step) for step in (1, 2, 3, 4, 5)]).verdicts]
    assert told == [
        "number 1: no key version; 5 complete, the newest 2 stay",
        "number 2: no key version; 5 complete, the newest 2 stay",
        "number 3: a key version (every 3); it is not in the lake yet",
        "number 4: among the newest 2",
        "number 5: among the newest 2",
    ]


def test_the_same_look_twice_is_the_same_decision() -> None:
    there = [checkpoint(step, eval_loss=step % 3) for step in range(1, 9)]
    policy = replace(POLICY, best=Best("eval_loss", "min"))
    first = look(there, policy=policy)
    second = look(list(reversed(there)), ledgers=first.ledgers, policy=policy)
    assert second == first
    assert second.ledgers["run1"] is first.ledgers["run1"]


def test_numbers_stay_when_others_go() -> None:
    there = [checkpoint(step) for step in range(1, 7)]
    ledgers = look(there).ledgers
    left = [there[2], there[5], checkpoint(7), checkpoint(8)]
    decision = look(left, ledgers=ledgers)
    assert [(each.checkpoint.step, each.number) for each in decision.verdicts] == [(3, 3), (6, 6), (7, 7), (8, 8)]


def test_a_checkpoint_that_a_walk_missed_keeps_its_number() -> None:
    there = [checkpoint(step) for step in range(1, 5)]
    ledgers = look([*there[:2], *there[3:]], ledgers=look(there).ledgers).ledgers
    assert look(there, ledgers=ledgers).by_path()["run1/step-3"].number == 3


def test_a_ledger_forgets_what_is_long_gone() -> None:
    old = {f"run1/step-{number}@x": number for number in range(1, 3001)}
    ledger = Ledger("run1", old, 3000)
    decision = look([checkpoint(3001)], ledgers={"run1": ledger})
    assert decision.verdicts[0].number == 3001
    assert len(decision.ledgers["run1"].numbers) == REMEMBERED


def test_series_are_counted_on_their_own() -> None:
    there = [checkpoint(step, series=series) for series in ("run2", "", "run1") for step in (1, 2, 3, 4, 5)]
    decision = look(there)
    assert [each.checkpoint.path for each in decision.to_promote] == ["step-3", "run1/step-3", "run2/step-3"]
    assert sorted(decision.ledgers) == ["", "run1", "run2"]


def test_other_ledgers_are_passed_through() -> None:
    other = Ledger("gone", {"gone/step-1@x": 1}, 1)
    decision = look([checkpoint(1)], ledgers={"gone": other})
    assert decision.ledgers["gone"] is other


def test_promoted_key_versions_may_go() -> None:
    there = [checkpoint(step) for step in range(1, 6)]
    decision = look(there, [record(there[2], 3)])
    verdict = decision.by_path()["run1/step-3"]
    assert (verdict.due, verdict.promoted, verdict.prune) == ("every", True, True)
    assert verdict.because.endswith("the newest 2 stay; in the lake")


@pytest.mark.parametrize("change", [{"fingerprint": "0" * 16}, {"path": "run1/step-4"}])
def test_a_record_of_something_else_proves_nothing(change: dict[str, object]) -> None:
    there = [checkpoint(step) for step in range(1, 6)]
    verdict = look(there, [record(there[2], 3, **change)], look(there).ledgers).by_path()["run1/step-3"]
    assert (verdict.due, verdict.promoted, verdict.prune) == ("every", False, False)


def test_lake_object_lost_after_promotion() -> None:
    there = [checkpoint(step) for step in range(1, 6)]
    lost = record(there[2], 3)
    key = record_key(lost.path, lost.fingerprint)
    verdict = look(there, [lost], suspect=frozenset({key})).by_path()["run1/step-3"]
    assert (verdict.promoted, verdict.prune) == (False, False)
    assert "no longer agree" in verdict.because


def test_written_again_under_the_same_name_is_another_one() -> None:
    there = [checkpoint(step) for step in range(1, 4)]
    first = look(there)
    again = checkpoint(3, size=6, at=NOW)
    decision = look([*there[:2], again], [record(there[2], 3)], first.ledgers)
    verdict = decision.by_path()["run1/step-3"]
    assert (verdict.number, verdict.promoted, verdict.due) == (4, False, "")
    assert decision.ledgers["run1"].last == 4


def test_metrics_that_come_later_make_no_new_number_but_another_copy() -> None:
    there = [checkpoint(step) for step in range(1, 4)]
    first = look(there)
    metrics = FileEntry("run1/step-3/metrics.json", 20, NOW)
    later = replace(there[2], files=(metrics, *there[2].files), modified_ns=NOW, metrics={"eval_loss": 1.0})
    verdict = look([*there[:2], later], [record(there[2], 3)], first.ledgers).by_path()["run1/step-3"]
    assert (verdict.number, verdict.due, verdict.promoted) == (3, "every", False)


# -- best


def test_each_best_so_far_is_due() -> None:
    losses = [3.0, 2.0, 2.5, 2.0, 1.0, 9.0, 9.0]
    policy = Policy(keep_hot=1, promote_every=100, best=Best("eval_loss", "min"))
    there = [checkpoint(step, eval_loss=loss) for step, loss in enumerate(losses, 1)]
    assert steps(look(there, policy=policy).to_promote) == [1, 2, 5]
    highest = replace(policy, best=Best("eval_loss", "max"))
    assert steps(look(there, policy=highest).to_promote) == [1, 6]
    # The Trainer calls it eval_loss, whoever writes the workload file may say loss.
    assert steps(look(there, policy=replace(policy, best=Best("loss", "min"))).to_promote) == [1, 2, 5]


def test_best_is_told_by_records_too() -> None:
    policy = Policy(keep_hot=1, promote_every=100, best=Best("eval_loss", "min"))
    gone = record(checkpoint(1, eval_loss=1.0), 1)
    there = [checkpoint(2, eval_loss=2.0), checkpoint(3, eval_loss=0.5), checkpoint(4)]
    assert steps(look(there, [gone], policy=policy).to_promote) == [3]
    # A copy that is lost is no longer the best that there is.
    key = record_key(gone.path, gone.fingerprint)
    assert steps(look(there, [gone], policy=policy, suspect=frozenset({key})).to_promote) == [2, 3]


def test_a_promoted_best_stays_due() -> None:
    policy = Policy(keep_hot=1, promote_every=100, best=Best("eval_loss", "min"))
    there = [checkpoint(1, eval_loss=1.0), checkpoint(2, eval_loss=2.0)]
    verdict = look(there, [record(there[0], 1)], policy=policy).verdicts[0]
    assert (verdict.due, verdict.promoted, verdict.prune) == ("best", True, True)


def test_half_written_ones_are_never_the_best() -> None:
    policy = Policy(keep_hot=1, promote_every=100, best=Best("eval_loss", "min"))
    there = [checkpoint(1, eval_loss=1.0), checkpoint(2, eval_loss=0.1, complete=False)]
    decision = look(there, policy=policy)
    assert steps(decision.to_promote) == [1]
    assert decision.verdicts[1].number is None


# -- last, asked, pinned


def test_last_and_asked() -> None:
    there = [checkpoint(step) for step in range(1, 6)]
    decision = look(there, asked=frozenset({"run1/step-2", "run1/step-9"}), last=True)
    assert [(each.checkpoint.step, each.due) for each in decision.to_promote] == [
        (2, "asked"),
        (3, "every"),
        (5, "last"),
    ]
    assert steps(decision.to_prune) == [1]
    half = checkpoint(9, complete=False)
    verdict = look([*there, half], asked=frozenset({"run1/step-9"}), now=NOW + 99 * DAY).by_path()["run1/step-9"]
    assert (verdict.due, verdict.prune) == ("", False)
    assert "never promoted" in verdict.because


def test_pinned_ones_stay() -> None:
    there = [checkpoint(step, pinned=step == 1) for step in range(1, 6)]
    assert steps(look(there).to_prune) == [2]
    half = [checkpoint(1, complete=False, pinned=True), *there[1:]]
    assert not look(half).by_path()["run1/step-1"].prune


# -- half-written


def half(*, at: int, layout: str = "dcp") -> Checkpoint:
    return checkpoint(50, at=at, complete=False, layout=layout)


@pytest.mark.parametrize(
    ("age", "newer_at", "layout", "goes"),
    [
        (2 * DAY, NOW - DAY, "dcp", True),
        (DAY, NOW, "dcp", True),
        (DAY - 1, NOW, "dcp", False),
        (2 * DAY, NOW - 3 * DAY, "dcp", False),
        (2 * DAY, NOW - 2 * DAY, "dcp", False),
        (2 * DAY, NOW + DAY, "dcp", False),
        (2 * DAY, NOW - DAY, "marker", False),
        (-DAY, NOW, "dcp", False),
    ],
)
def test_half_written_ones_go_when_the_job_left_them_behind(age: int, newer_at: int, layout: str, goes: bool) -> None:
    left = half(at=NOW - age, layout=layout)
    verdict = look([left, checkpoint(51, at=newer_at)]).by_path()[left.path]
    assert (verdict.prune, verdict.number, verdict.due) == (goes, None, "")
    assert verdict.because.startswith("half-written, it lacks .metadata; ")


def test_half_written_ones_of_a_series_without_a_complete_one_stay() -> None:
    assert look([half(at=0), checkpoint(1, series="run2")]).to_prune == ()


def test_what_was_counted_and_has_not_changed_is_still_complete() -> None:
    there = [checkpoint(step) for step in range(1, 6)]
    ledgers = look(there).ledgers
    unsure = [replace(each, complete=False, missing="latest") for each in there]
    decision = look(unsure, ledgers=ledgers)
    assert steps(decision.to_promote) == [3]
    assert steps(decision.to_prune) == [1, 2]


def test_the_rest_of_an_interrupted_removal_waits_for_its_own_list() -> None:
    there = [checkpoint(step) for step in range(1, 6)]
    ledger = replace(look(there).ledgers["run1"], pruning={"run1/step-1": there[0].fingerprint, "run1/step-0": "x"})
    rest = replace(there[0], complete=False, missing="everything", files=())
    decision = look([rest, *there[1:]], ledgers={"run1": ledger})
    assert not decision.verdicts[0].prune
    assert decision.ledgers["run1"].pruning == {"run1/step-1": there[0].fingerprint}


def test_a_removal_that_had_not_begun_is_decided_anew() -> None:
    there = [checkpoint(step) for step in range(1, 6)]
    ledger = replace(
        look(there).ledgers["run1"], pruning={each.path: each.fingerprint for each in (there[0], there[2], there[4])}
    )
    decision = look(there, ledgers={"run1": ledger})
    assert steps(decision.to_prune) == [1, 2]
    again = look([checkpoint(1, size=9, at=NOW), *there[1:]], ledgers={"run1": ledger})
    assert "run1/step-1" not in again.ledgers["run1"].pruning


# -- the newest, whatever clocks say


def test_fewer_than_keep_hot_all_stay() -> None:
    assert look([checkpoint(1), checkpoint(2)], policy=Policy(2, 100)).to_prune == ()
    assert steps(look([checkpoint(1), checkpoint(2)], policy=Policy(0, 100)).to_prune) == [1]


def test_one_from_the_future_does_not_push_the_newest_out() -> None:
    policy = Policy(keep_hot=1, promote_every=100)
    future = checkpoint(1, at=NOW + 99 * DAY)
    ledgers = look([future], policy=policy).ledgers
    for step in (2, 3, 4):
        decision = look(
            [future, checkpoint(step - 1), checkpoint(step)][: 2 if step == 2 else 3], ledgers=ledgers, policy=policy
        )
        ledgers = decision.ledgers
    decision = look([future, checkpoint(4), checkpoint(5)], ledgers=ledgers, policy=policy)
    assert steps(decision.to_prune) == [4]


def test_an_old_one_that_comes_back_does_not_push_the_newest_out() -> None:
    policy = Policy(keep_hot=1, promote_every=100)
    there = [checkpoint(step) for step in (5, 6)]
    ledgers = look(there, policy=policy).ledgers
    back = checkpoint(1)
    decision = look([back, *there], ledgers=ledgers, policy=policy)
    assert decision.by_path()["run1/step-1"].number == 3
    assert steps(decision.to_prune) == [5]


def test_a_lost_ledger_goes_on_from_the_records() -> None:
    there = [checkpoint(step) for step in range(30, 36)]
    decision = look(there, [record(there[0], 30), record(checkpoint(27), 27)])
    assert [each.number for each in decision.verdicts] == [30, 31, 32, 33, 34, 35]
    assert steps(decision.to_promote) == [33]


def test_a_number_of_a_record_is_never_given_twice() -> None:
    there = [checkpoint(1), checkpoint(2)]
    ledgers = look(there).ledgers
    twin = checkpoint(9)
    decision = look([*there, twin], [record(twin, 2)], ledgers)
    assert sorted(each.number or 0 for each in decision.verdicts) == [1, 2, 3]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_whatever_lies_there_the_rules_hold(data: st.DataObject) -> None:
    policy = Policy(
        data.draw(st.integers(1, 4)),
        data.draw(st.integers(1, 5)),
        data.draw(st.sampled_from([None, Best("m", "min"), Best("m", "max")])),
    )
    there = [
        replace(
            checkpoint(
                step,
                at=NOW + data.draw(st.integers(-10 * DAY, 10 * DAY)),
                series=data.draw(st.sampled_from(["a", "b"])),
                complete=data.draw(st.booleans()),
                pinned=data.draw(st.booleans()),
            ),
            metrics=data.draw(st.fixed_dictionaries({}, optional={"m": st.floats(0, 9)})),
        )
        for step in range(data.draw(st.integers(0, 14)))
    ]
    kept = [each for each in there if each.complete and data.draw(st.booleans())]
    records = [record(each, number) for number, each in enumerate(kept, 1)]
    suspect = frozenset(record_key(each.path, each.fingerprint) for each in kept if data.draw(st.booleans()))
    decision = look(there, records, policy=policy, suspect=suspect, last=data.draw(st.booleans()))
    assert len(decision.verdicts) == len(there)
    proven = {each.path for each in kept if record_key(each.path, each.fingerprint) not in suspect}
    for verdict in decision.verdicts:
        own = verdict.checkpoint
        whole = [each for each in there if each.complete and each.series == own.series]
        assert verdict.promoted == (own.path in proven)
        if not own.complete:
            assert (verdict.number, verdict.due) == (None, "")
        if verdict.prune:
            assert not own.pinned
            assert not verdict.due or verdict.promoted
            newer = [each for each in whole if each.modified_ns >= own.modified_ns and each is not own]
            assert len(newer) >= (policy.keep_hot if own.complete else 1)
    for series in ("a", "b"):
        whole = [each for each in there if each.complete and each.series == series]
        stay = [each for each in whole if not decision.by_path()[each.path].prune]
        assert len(stay) >= min(policy.keep_hot, len(whole))
