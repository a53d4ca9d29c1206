"""Which checkpoints replace each other: only those whose names say a step. All others are never counted or removed."""

from __future__ import annotations

import pytest

from tests.unit._checkpoints import DAY, NOW, SECOND, MemoryTree, dcp
from training_storage.node.checkpoints.layouts import find_checkpoints
from training_storage.node.checkpoints.model import Decision, Ledger, Policy
from training_storage.node.checkpoints.policy import decide
from training_storage.node.checkpoints.steps import form, says_step

MINUTE = 60 * SECOND


def look(
    tree: MemoryTree, *, keep_hot: int = 1, every: int = 10, ledger: Ledger | None = None, last: bool = False
) -> Decision:
    known = {} if ledger is None else {ledger.series: ledger}
    return decide(find_checkpoints(tree), (), known, Policy(keep_hot, every), now_ns=NOW, last=last)


@pytest.mark.parametrize(
    "name",
    ["step-300", "Step_300", "global_step100", "iter_0000100", "checkpoint-5", "epoch=2-step=300.ckpt", "300", "CKPT-7",
     "llama--val_loss=0.50-step=100-consumed_samples=800.0-last", "2026-01-31_12-00-00", "run-step-5", "epoch3"],
)  # fmt: skip
def test_names_that_say_a_step(name: str) -> None:
    assert says_step(f"run1/{name}")


@pytest.mark.parametrize(
    "name", ["best", "last", "final", "model", "rank_0", "pp1", "release", "llama3-70b", "stage-2"]
)
def test_names_that_say_none(name: str) -> None:
    assert not says_step(f"run1/{name}")


def test_the_form_of_a_name_has_no_numbers_and_no_sign_of_a_temporary_one() -> None:
    assert form("run1/tmp-checkpoint-500") == form("run1/checkpoint-9") == "checkpoint-#"
    assert form("run1/global_step100_universal") != form("run1/global_step100")


def test_a_folder_that_is_overwritten_with_each_save_does_not_push_the_steps_out() -> None:
    """With one to keep, ``last`` would be the one, and be half-written whenever the job is killed in it."""
    tree = MemoryTree()
    for step in range(1, 4):
        tree.write(NOW - DAY + step * MINUTE, dcp(f"run1/step-{step}"))
        tree.write(NOW - DAY + step * MINUTE + SECOND, dcp("run1/last"))
    verdicts = look(tree).by_path()
    assert {path for path, each in verdicts.items() if not each.prune} == {"run1/step-3", "run1/last"}


def test_it_takes_no_number_so_that_key_versions_are_those_of_steps() -> None:
    tree, ledger, due = MemoryTree(), Ledger("run1"), set()
    for step in range(1, 5):
        for path in (f"run1/step-{step}", "run1/last"):
            tree.write(NOW - DAY + step * MINUTE, dcp(path))
            decision = look(tree, every=2, keep_hot=9, ledger=ledger)
            ledger = decision.ledgers["run1"]
            due |= {each.checkpoint.path for each in decision.to_promote}
    assert due == {"run1/step-2", "run1/step-4"}
    assert ledger.last == 4


def test_parts_of_a_checkpoint_that_lie_side_by_side_are_not_versions_of_each_other() -> None:
    tree = MemoryTree().write(
        NOW - DAY, {**dcp("run1/final/model"), **dcp("run1/final/optimizer"), **dcp("run1/x/rank_0")}
    )
    tree.write(NOW - DAY, {**dcp("run1/x/rank_1"), **dcp("run1/x/rank_2")})
    assert look(tree).to_prune == ()


def test_before_a_release_what_says_no_step_is_due_with_the_last_one() -> None:
    tree = MemoryTree().write(NOW - 2 * DAY, dcp("run1/best")).write(NOW - DAY, dcp("run1/step-1"))
    tree.write(NOW - DAY + MINUTE, dcp("run1/step-2"))
    assert {each.checkpoint.path for each in look(tree, last=True).to_promote} == {"run1/best", "run1/step-2"}


def test_a_series_without_any_step_is_counted_as_before() -> None:
    tree = MemoryTree().write(NOW - 2 * DAY, dcp("run1/best")).write(NOW - DAY, dcp("run1/last"))
    decision = look(tree, every=2)
    assert [(each.checkpoint.path, each.number) for each in decision.verdicts] == [("run1/best", 1), ("run1/last", 2)]
    assert decision.to_prune == ()


def marked(path: str, size: int = 4000, *, marker: bool = True) -> dict[str, bytes | str]:
    return {f"{path}/model.pt": b"m" * size, **({f"{path}/COMPLETE": b""} if marker else {})}


def test_a_folder_of_samples_beside_checkpoints_is_no_half_written_one() -> None:
    tree = MemoryTree().write(NOW - 9 * DAY, {"run1/samples_step-1/x.npy": b"x" * 900})
    tree.write(NOW - 9 * DAY, {"run1/global_step1_universal/mp_rank_00_model_states.pt": b"x"})
    for step in (1, 2, 3):
        tree.write(NOW - 8 * DAY + step * MINUTE, marked(f"run1/step-{step}"))
    pruned = {each.checkpoint.path for each in look(tree, keep_hot=3).to_prune}
    assert pruned == set()


def test_checkpoints_from_before_markers_were_written_stay() -> None:
    tree = MemoryTree().write(NOW - 9 * DAY, marked("run1/step-1", marker=False))
    tree.write(NOW - 8 * DAY, marked("run1/step-2", 4001))
    (old, _) = look(tree).verdicts
    assert not old.prune
    assert "from before markers" in old.because


@pytest.mark.parametrize("left", [marked("run1/step-1", 3000, marker=False), {"run1/step-1/other.pt": b"x"}])
def test_a_marker_checkpoint_that_was_cut_goes_when_its_time_is_over(left: dict[str, bytes | str]) -> None:
    tree = MemoryTree().write(NOW - 9 * DAY, left).write(NOW - 8 * DAY, marked("run1/step-2"))
    assert [each.checkpoint.path for each in look(tree).to_prune] == ["run1/step-1"]
