"""What is a checkpoint, and when it is complete."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.unit._checkpoints import NOW, SECOND, MemoryTree, dcp, dist, legacy, only, trainer, zero
from training_storage.node.checkpoints.layouts import find_checkpoints, removal_order
from training_storage.node.checkpoints.model import FileEntry

# -- PyTorch


def test_dcp_is_complete_with_metadata_and_all_ranks() -> None:
    found = only(MemoryTree().write(NOW, dcp("run1/step-300")))
    assert (found.path, found.series, found.layout, found.step) == ("run1/step-300", "run1", "dcp", 300)
    assert found.complete
    assert found.missing == ""
    assert len(found.files) == 5


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (".metadata", ".metadata, which PyTorch writes last (4 shards"),
        ("__0_0.distcp", "shards of rank 0"),
        ("__2_0.distcp", "shards of rank 2"),
    ],
)
def test_dcp_without_a_part_is_half_written(gone: str, words: str) -> None:
    tree = MemoryTree().write(NOW, dcp("run1/step-300"))
    tree.remove(f"run1/step-300/{gone}")
    found = only(tree)
    assert not found.complete
    assert words in found.missing


def test_dcp_with_an_empty_metadata_is_half_written() -> None:
    found = only(MemoryTree().write(NOW, {**dcp("s/step-1"), "s/step-1/.metadata": b""}))
    assert (found.complete, found.missing) == (False, ".metadata is empty")


def test_dcp_ranks_without_data_write_empty_shards() -> None:
    assert only(MemoryTree().write(NOW, {**dcp("s/step-1"), "s/step-1/__3_0.distcp": b""})).complete
    empty = MemoryTree().write(NOW, {**dcp("s/step-1", 1), "s/step-1/__0_0.distcp": b""})
    assert only(empty).missing == "content: all shards are empty"


def test_dcp_second_shard_of_a_rank_has_a_first() -> None:
    found = only(MemoryTree().write(NOW, {**dcp("s/step-1"), "s/step-1/__1_2.distcp": b"x"}))
    assert found.missing == "shard __1_1.distcp"


def test_dcp_that_is_being_written_again_is_half_written() -> None:
    tree = MemoryTree().write(NOW, dcp("s/step-1"))
    tree.write(NOW + 60 * SECOND, {"s/step-1/__1_0.distcp": b"newer"})
    assert "newer than __1_0.distcp" in only(tree).missing
    # Clocks of nodes differ a little.
    tree.write(NOW + 61 * SECOND, {"s/step-1/.metadata": b"p"}).write(
        NOW + 62 * SECOND, {"s/step-1/__1_0.distcp": b"n"}
    )
    assert only(tree).complete


# -- DeepSpeed


@pytest.mark.parametrize("stage", [1, 3])
def test_deepspeed_is_complete_when_latest_names_it(stage: int) -> None:
    tree = (
        MemoryTree().write(NOW, zero("run1/global_step500", stage=stage)).write(NOW, {"run1/latest": "global_step500"})
    )
    found = only(tree)
    assert (found.layout, found.step, found.complete, found.pinned) == ("deepspeed", 500, True, True)


def test_deepspeed_newer_than_latest_is_half_written_and_older_ones_are_complete() -> None:
    tree = MemoryTree().write(NOW - 9 * SECOND, zero("r/global_step400")).write(NOW, zero("r/global_step500"))
    tree.write(NOW, {"r/latest": "global_step500\n"}).write(NOW + 9 * SECOND, zero("r/global_step600"))
    verdicts = {each.step: (each.complete, each.pinned) for each in find_checkpoints(tree)}
    assert verdicts == {400: (True, False), 500: (True, True), 600: (False, False)}


def test_deepspeed_an_earlier_step_that_is_written_again_is_half_written() -> None:
    tree = MemoryTree().write(NOW, zero("r/global_step400")).write(NOW, zero("r/global_step500"))
    tree.write(NOW, {"r/latest": "global_step500"})
    tree.write(NOW + 60 * SECOND, {"r/global_step400/mp_rank_00_model_states.pt": b"again"})
    assert {each.step: each.complete for each in find_checkpoints(tree)} == {400: False, 500: True}
    tree.write(NOW + 60 * SECOND, {"r/global_step500/mp_rank_00_model_states.pt": b"again"})
    assert "being written again" in find_checkpoints(tree)[1].missing


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"mp_rank_00_model_states.pt": None}, "model states"),
        ({"mp_rank_00_model_states.pt": b""}, "it is empty"),
        ({"bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": None}, "optimizer states zero_pp_rank_0_mp_rank_00"),
        ({"mp_rank_02_model_states.pt": b"x"}, "model states of rank 1"),
        ({"mp_rank_01_model_states.pt": b"x"}, "optimizer states zero_pp_rank_0_mp_rank_01"),
    ],
)
def test_deepspeed_lacks(change: dict[str, bytes | None], words: str) -> None:
    tree = MemoryTree().write(NOW, zero("r/global_step5")).write(NOW, {"r/latest": "global_step5"})
    for name, content in change.items():
        if content is None:
            tree.remove(f"r/global_step5/{name}")
        else:
            tree.write(NOW, {f"r/global_step5/{name}": content})
    assert words in only(tree).missing


def test_deepspeed_without_latest_is_half_written() -> None:
    assert "latest beside it" in only(MemoryTree().write(NOW, zero("r/global_step5"))).missing


# -- Megatron


@pytest.mark.parametrize("kind", [legacy, dist])
def test_megatron(kind: Callable[[str], dict[str, bytes | str]]) -> None:
    tree = MemoryTree().write(NOW - SECOND, kind("r/iter_0000100")).write(NOW, kind("r/iter_0000200"))
    tree.write(NOW, {"r/latest_checkpointed_iteration.txt": "200"})
    tree.write(NOW + 9 * SECOND, kind("r/iter_0000300"))
    verdicts = {each.step: (each.layout, each.complete, each.pinned) for each in find_checkpoints(tree)}
    assert verdicts == {
        100: ("megatron", True, False),
        200: ("megatron", True, True),
        300: ("megatron", False, False),
    }


def test_megatron_release() -> None:
    tree = MemoryTree().write(NOW, legacy("r/release")).write(NOW, {"r/latest_checkpointed_iteration.txt": "release\n"})
    found = only(tree)
    assert (found.path, found.step, found.complete, found.pinned) == ("r/release", None, True, True)
    tree.write(NOW, legacy("r/iter_0000001"))
    assert [each.complete for each in find_checkpoints(tree)] == [False, True]


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"mp_rank_00/model_optim_rng.pt": b""}, "mp_rank_00/model_optim_rng.pt"),
        ({"mp_rank_01/model_optim_rng.pt": b"x"}, "mp_rank_00"),
        ({"mp_rank_00_000/model_optim_rng.pt": b"x", "mp_rank_01_001/model_optim_rng.pt": b"x"}, "mp_rank_00_001"),
        ({"mp_rank_00/model_optim_rng.pt": b"x", "mp_rank_00/distrib_optim.pt": b""}, "distrib_optim.pt"),
        ({"common.pt": b"x", "__0_0.distcp": b"x"}, ".metadata"),
        ({"common.pt": b"x", "__0_0.distcp": b"x", ".metadata": b"x"}, "metadata.json"),
        ({"metadata.json": "{}"}, "everything but metadata.json"),
        ({"metadata.json": "{"}, "no JSON object"),
        ({"other.pt": b"x"}, "weights"),
    ],
)
def test_megatron_lacks(files: dict[str, bytes | str], words: str) -> None:
    tree = MemoryTree().write(NOW, {f"r/iter_0000100/{name}": content for name, content in files.items()})
    tree.write(NOW, {"r/latest_checkpointed_iteration.txt": "100"})
    assert words in only(tree).missing


# -- Hugging Face


def test_trainer() -> None:
    found = only(MemoryTree().write(NOW, trainer("out/checkpoint-500", 500, eval_loss=1.5)))
    assert (found.layout, found.step, found.complete) == ("huggingface", 500, True)
    assert found.metrics == {"eval_loss": 1.5}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"trainer_state.json": None}, "trainer_state.json, which the Trainer writes last"),
        ({"trainer_state.json": '{"global_step": 50'}, "no JSON object"),
        ({"trainer_state.json": '{"global_step": 400}'}, "it says global_step 400"),
        ({"model.safetensors": None}, "weights"),
        ({"model.safetensors": b""}, "weights"),
        ({"rng_state_1.pth": b"x"}, "rng_state_0.pth"),
        ({"model.safetensors.index.json": '{"weight_map": {"a": "m-1.safetensors"}}'}, "m-1.safetensors"),
        ({"model.safetensors.index.json": "{}"}, "names no weights"),
        ({"optimizer.pt.tmp": b"x"}, "optimizer.pt.tmp is a temporary one"),
        ({"pytorch_model_fsdp_0/__0_0.distcp": b"x"}, "in pytorch_model_fsdp_0: .metadata"),
        ({"latest": "global_step400", **zero("global_step500")}, "in global_step500: latest still names"),
    ],
)
def test_trainer_lacks(change: dict[str, bytes | str | None], words: str) -> None:
    tree = MemoryTree().write(NOW, trainer("out/checkpoint-500", 500))
    for name, content in change.items():
        if content is None:
            tree.remove(f"out/checkpoint-500/{name}")
        else:
            tree.write(NOW, {f"out/checkpoint-500/{name}": content})
    found = only(tree)
    assert not found.complete
    assert words in found.missing


def test_trainer_that_writes_a_step_again_is_half_written() -> None:
    tree = MemoryTree().write(NOW, trainer("out/checkpoint-500", 500))
    tree.write(NOW + 60 * SECOND, {"out/checkpoint-500/model.safetensors": b"again"})
    assert "newer than model.safetensors" in only(tree).missing
    # What other ranks and callbacks write a moment later is none.
    tree = MemoryTree().write(NOW, trainer("out/checkpoint-500", 500))
    tree.write(NOW + 60 * SECOND, {"out/checkpoint-500/rng_state_0.pth": b"x", "out/checkpoint-500/README.md": "x"})
    assert only(tree).complete


def test_trainer_with_shards_adapters_fsdp_and_deepspeed() -> None:
    tree = MemoryTree().write(NOW, trainer("a/checkpoint-1", 1)).write(NOW, trainer("b/checkpoint-1", 1))
    tree.write(NOW, trainer("c/checkpoint-1", 1)).write(NOW, trainer("d/checkpoint-1", 1))
    for run in "abcd":
        tree.remove(f"{run}/checkpoint-1/model.safetensors")
    names = {"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors"}
    tree.write(NOW, {"a/checkpoint-1/model.safetensors.index.json": json.dumps({"weight_map": names})})
    tree.write(NOW, {f"a/checkpoint-1/{name}": b"w" for name in names.values()})
    tree.write(NOW, {"b/checkpoint-1/adapter_model.safetensors": b"w"})
    tree.write(NOW, dcp("c/checkpoint-1/pytorch_model_fsdp_0"))
    tree.write(NOW, {**zero("d/checkpoint-1/global_step1", stage=3), "d/checkpoint-1/latest": "global_step1"})
    found = find_checkpoints(tree)
    assert [(each.path, each.complete, each.missing) for each in found] == [
        (f"{run}/checkpoint-1", True, "") for run in "abcd"
    ]


def test_trainer_temporary_folder_and_final_model() -> None:
    tree = (
        MemoryTree().write(NOW, trainer("out/tmp-checkpoint-600", 600)).write(NOW, trainer("out/checkpoint-500", 500))
    )
    # The Trainer leaves the state and the final model in the folder that holds the checkpoints: that is none.
    tree.write(NOW, {"out/trainer_state.json": '{"global_step": 600}', "out/model.safetensors": b"final"})
    found = {each.path: (each.series, each.step, each.complete) for each in find_checkpoints(tree)}
    assert found == {"out/checkpoint-500": ("out", 500, True), "out/tmp-checkpoint-600": ("out", 600, False)}


def test_trainer_best_is_pinned() -> None:
    tree = MemoryTree()
    for step in (1, 2, 3):
        tree.write(NOW, trainer(f"out/checkpoint-{step}", step))
    state = {"global_step": 3, "best_model_checkpoint": "/fsx/checkpoints/out/checkpoint-2"}
    tree.write(NOW, {"out/checkpoint-3/trainer_state.json": json.dumps(state)})
    assert [each.pinned for each in find_checkpoints(tree)] == [False, True, False]


# -- markers


@pytest.mark.parametrize("name", ["COMPLETE", ".complete", "_SUCCESS", "DONE"])
def test_marker(name: str) -> None:
    tree = MemoryTree().write(NOW, {"run/step_7/x.pt": b"x", "run/step_7/deep/y.pt": b"y"})
    assert name in only(tree).missing or only(tree).layout == "marker"
    tree.write(NOW, {f"run/step_7/{name}": b""})
    found = only(tree)
    assert (found.layout, found.series, found.step, found.complete) == ("marker", "run", 7, True)


def test_marker_older_than_a_file_does_not_count() -> None:
    tree = MemoryTree().write(NOW, {"run/step_7/x.pt": b"x", "run/step_7/DONE": b""})
    tree.write(NOW + 1, {"run/step_7/x.pt": b"again"})
    assert only(tree).missing == "a marker as new as x.pt: DONE is older"
    tree.write(NOW + 1, {"run/step_7/COMPLETE": b""})
    assert only(tree).complete
    tree.write(NOW + 9, {"run/step_7/metrics.json": '{"eval_loss": 2}'})
    assert only(tree).metrics == {"eval_loss": 2.0}
    assert only(tree).complete


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"files": {"x.pt": 1}}', ""),
        ('{"files": {"x.pt": 2}}', "x.pt with 2 bytes: it has 1 bytes"),
        ('{"files": {"x.pt": 1, "y.pt": 5}}', "y.pt with 5 bytes: it is not there"),
        ('{"files": ["x.pt"]}', "has to be an object"),
        ('{"files": {"x.pt"', "has to be an object"),
        ('{"step": 7}', ""),
        ("step 7", ""),
    ],
)
def test_marker_with_a_list(content: str, words: str) -> None:
    found = only(MemoryTree().write(NOW, {"run/step_7/x.pt": b"x", "run/step_7/COMPLETE": content}))
    assert found.complete is (not words)
    assert words in found.missing


def test_marker_alone_is_no_checkpoint_content() -> None:
    assert only(MemoryTree().write(NOW, {"run/step_7/COMPLETE": b""})).missing == "everything but COMPLETE"


# -- what is one, and whose


def test_configs_and_logs_are_no_checkpoints() -> None:
    tree = MemoryTree().write(
        NOW,
        {
            "run1/config.yaml": "x",
            "run1/logs/step-300/events.out": b"x",
            "run1/step-300/config.json": "{}",
            "model.pt": b"x",
            "run1/final/model.safetensors": b"x",
            "2024/01/notes.txt": "x",
        },
    )
    assert find_checkpoints(tree) == []


def test_run_with_a_marker_of_its_own_is_no_checkpoint() -> None:
    tree = MemoryTree().write(NOW, dcp("run1/step-1")).write(NOW, {"run1/DONE": b"", "run1/latest": "step-1"})
    tree.write(NOW, {"run1/.metadata": b"stray"})
    found = only(tree)
    assert (found.path, found.pinned) == ("run1/step-1", True)


def test_outermost_folder_wins() -> None:
    tree = MemoryTree().write(NOW, dcp("run/step-5/model")).write(NOW, dcp("run/step-5/optimizer"))
    assert "marker" in only(tree).missing
    tree.write(NOW, {"run/step-5/COMPLETE": b""})
    assert (only(tree).path, only(tree).complete) == ("run/step-5", True)
    tree.remove("run/step-5/optimizer/.metadata")
    assert only(tree).missing.startswith("in optimizer: .metadata")


def test_nested_runs_are_series_of_their_own() -> None:
    tree = MemoryTree().write(NOW, dcp("team/run1/step-1")).write(NOW, dcp("team/run2/seed-3/step-1"))
    tree.write(NOW, dcp("step-9")).write(NOW, dcp("sweep/run-7/100"))
    assert [(each.series, each.step) for each in find_checkpoints(tree)] == [
        ("", 9),
        ("sweep/run-7", 100),
        ("team/run1", 1),
        ("team/run2/seed-3", 1),
    ]


@pytest.mark.parametrize("name", ["step-3.tmp", "tmp-step-3", ".tmp-step-3", "step-3.partial", "step-3_tmp"])
def test_temporary_names_are_half_written(name: str) -> None:
    found = only(MemoryTree().write(NOW, dcp(f"run/{name}")))
    assert (found.series, found.step, found.complete) == ("run", 3, False)
    assert "temporary" in found.missing


@pytest.mark.parametrize(
    ("name", "step"),
    [("epoch=2-step=300", 300), ("ep0-ba1000", 1000), ("llama-iter-12", 12), ("ckpt_00042", 42), ("weights", None)],
)
def test_steps_of_names(name: str, step: int | None) -> None:
    assert only(MemoryTree().write(NOW, dcp(f"run/{name}"))).step == step


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("run/latest", "step-1"),
        ("run/latest", "step-1/\n"),
        ("run/latest_checkpoint.txt", "/fsx/checkpoints/run/step-1"),
        ("latest", "run/step-1"),
        ("run/best", "./step-1"),
    ],
)
def test_pointers_pin(path: str, content: str) -> None:
    tree = MemoryTree().write(NOW, dcp("run/step-1")).write(NOW, dcp("run/step-2")).write(NOW, {path: content})
    assert [each.pinned for each in find_checkpoints(tree)] == [True, False]


def test_metrics_are_finite_numbers() -> None:
    tree = MemoryTree().write(NOW, trainer("r/checkpoint-1", 1, eval_loss=float("nan"), eval_f1=0.5, loss=3.0))
    assert only(tree).metrics == {"eval_f1": 0.5}
    given = '{"eval_loss": 1e999, "f1": 1, "ok": true, "name": "x", "deep": {"a": 1}, "big": 1' + "0" * 400 + "}"
    tree.write(NOW, {"r/checkpoint-1/metrics.json": given})
    assert only(tree).metrics == {"eval_f1": 0.5, "f1": 1.0}
    tree.write(NOW, {"r/checkpoint-1/metrics.json": "[" * 100_000})
    assert only(tree).metrics == {"eval_f1": 0.5}


def test_checkpoint_that_changes_during_the_walk_is_half_written() -> None:
    class Busy(MemoryTree):
        def files(self, under: str = "") -> Iterator[FileEntry]:
            yield from super().files(under)
            if not under:
                self.write(NOW, {"run/step-1/__4_0.distcp": b"late"})

    tree = Busy()
    tree.write(NOW, dcp("run/step-1")).write(NOW - 10**12, dcp("run/step-0"))
    assert [each.complete for each in find_checkpoints(tree)] == [True, False]


def test_files_that_vanish_after_the_walk_are_no_error() -> None:
    class Vanishing(MemoryTree):
        def read(self, path: str, limit: int = 1 << 20) -> bytes:
            raise FileNotFoundError(path)

    tree = Vanishing()
    tree.write(NOW, trainer("r/checkpoint-1", 1)).write(NOW, zero("d/global_step1")).write(NOW, {"d/latest": "x"})
    assert [each.complete for each in find_checkpoints(tree)] == [False, False]


# -- removal


KINDS: dict[str, tuple[str, dict[str, bytes | str]]] = {
    "dcp": ("r/step-1", dcp("r/step-1")),
    "deepspeed": ("r/global_step1", {**zero("r/global_step1"), "r/latest": "global_step1"}),
    "deepspeed 3": ("r/global_step1", {**zero("r/global_step1", stage=3), "r/latest": "global_step1"}),
    "megatron": ("r/iter_0000001", {**legacy("r/iter_0000001"), "r/latest_checkpointed_iteration.txt": "1"}),
    "megatron dist": ("r/iter_0000001", {**dist("r/iter_0000001"), "r/latest_checkpointed_iteration.txt": "1"}),
    "huggingface": ("r/checkpoint-1", trainer("r/checkpoint-1", 1)),
    "marker": ("r/step-1", {"r/step-1/a.pt": b"x", "r/step-1/b.pt": b"x", "r/step-1/DONE": b""}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_removal_never_leaves_a_complete_checkpoint(kind: str) -> None:
    path, files = KINDS[kind]
    tree = MemoryTree().write(NOW, files)
    whole = only(tree)
    assert (whole.path, whole.complete) == (path, True)
    order = removal_order(whole)
    assert sorted(each.path for each in order) == [each.path for each in whole.files]
    for each in order:
        tree.remove(each.path)
        assert [left.path for left in find_checkpoints(tree) if left.complete] == []


# -- what killed jobs leave behind newer ones


def test_deepspeed_folder_of_a_killed_job_is_never_complete_by_a_later_save() -> None:
    left = zero("r/global_step400", ranks=3)
    whole = zero("r/global_step500", ranks=4)
    tree = MemoryTree().write(NOW, left).write(NOW, {**whole, "r/latest": "global_step500"})
    assert (
        "zero_pp_rank_3_mp_rank_00_optim_states.pt and 0 more that global_step500 has"
        in find_checkpoints(tree)[0].missing
    )
    for name in zero("r/global_step400"):
        if "optim" in name:
            tree.remove(name)
    tree.remove("r/global_step400/bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt")
    assert "zero_pp_rank_0" in find_checkpoints(tree)[0].missing
    more = MemoryTree().write(NOW, zero("r/global_step400", ranks=8))
    more.write(NOW, {**whole, "r/latest": "global_step500"})
    assert "nothing tells how many there are" in find_checkpoints(more)[0].missing
    gone = MemoryTree().write(NOW, zero("r/global_step400")).write(NOW, {"r/latest": "global_step500"})
    assert "global_step500, which is finished for sure, is not there" in only(gone).missing


def test_megatron_folder_of_a_killed_job_is_never_complete_by_a_later_save() -> None:
    tree = MemoryTree().write(NOW, legacy("r/iter_0000100", ranks=1)).write(NOW, legacy("r/iter_0000200"))
    tree.write(NOW, {"r/latest_checkpointed_iteration.txt": "200"})
    found = find_checkpoints(tree)
    assert [each.complete for each in found] == [False, True]
    assert "mp_rank_01/model_optim_rng.pt" in found[0].missing
