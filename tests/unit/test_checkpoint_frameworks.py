"""Layouts of frameworks that save with the writers of others: PyTorch Lightning, NeMo, Megatron under other names."""

from __future__ import annotations

from tests.unit._checkpoints import NOW, SECOND, MemoryTree, dcp, only, zero
from training_storage.node.checkpoints.layouts import find_checkpoints

NEMO = "run1/llama--val_loss=0.50-step=100-consumed_samples=800.0-last"


def test_lightning_with_deepspeed_is_complete_with_the_tag_inside() -> None:
    tree = MemoryTree().write(NOW, zero("run1/epoch=2-step=300.ckpt/checkpoint"))
    assert not only(tree).complete
    tree.write(NOW + SECOND, {"run1/epoch=2-step=300.ckpt/latest": "checkpoint"})
    found = only(tree)
    assert (found.path, found.series, found.step) == ("run1/epoch=2-step=300.ckpt", "run1", 300)
    assert found.complete, found.missing
    tree.write(NOW + 60 * SECOND, zero("run1/epoch=2-step=300.ckpt/checkpoint"))
    assert not only(tree).complete


def test_a_run_whose_name_has_a_step_is_no_checkpoint_of_lightning() -> None:
    tree = MemoryTree().write(NOW, zero("llama-step2/a")).write(NOW, {"llama-step2/latest": "a"})
    assert not only(tree).complete


def test_nemo_is_one_checkpoint_from_its_first_byte_and_complete_when_the_note_beside_it_is_gone() -> None:
    tree = MemoryTree().write(NOW, {f"{NEMO}-unfinished": ""})
    tree.write(NOW, {f"{NEMO}/weights/common.pt": b"c", **dcp(f"{NEMO}/weights")})
    assert (only(tree).path, only(tree).missing) == (NEMO, f"its end: {NEMO[5:]}-unfinished lies beside it")
    tree.write(NOW, {f"{NEMO}/weights/metadata.json": "{}", f"{NEMO}/context/model.yaml": "a: b"})
    assert not only(tree).complete
    tree.remove(f"{NEMO}-unfinished")
    found = only(tree)
    assert (found.path, found.series, found.layout) == (NEMO, "run1", "nemo")
    assert found.complete, found.missing
    tree.remove(f"{NEMO}/weights/metadata.json")
    assert "metadata.json" in only(tree).missing


def test_a_distributed_checkpoint_of_megatron_is_one_under_any_name() -> None:
    tree = MemoryTree().write(NOW, {"run1/step-5/common.pt": b"c", **dcp("run1/step-5")})
    assert "metadata.json" in only(tree).missing
    tree.write(NOW, {"run1/step-5/metadata.json": "{}"})
    assert only(tree).complete


def test_files_that_are_whole_checkpoints_themselves_are_left_alone() -> None:
    tree = MemoryTree().write(NOW, {f"run1/model-step-{step}.pt": b"x" for step in (100, 200)})
    tree.write(NOW, {"run1/epoch=2-step=300.ckpt": b"x", "last.ckpt": b"x", **dcp("")})
    assert find_checkpoints(tree) == []


def test_names_are_read_in_any_case() -> None:
    tree = MemoryTree().write(NOW, {"run1/Step-100/model.pt": b"x"})
    assert (only(tree).step, only(tree).complete) == (100, False)
