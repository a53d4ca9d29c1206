"""The release of local disks of several nodes, with the agents' own code on every disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.life.actions import LAKE, World
from tests.life.faults import Fault, Faulty, Killed
from tests.life.release_world import drive
from training_storage.node import agent, places
from training_storage.node.checkpoints.run_once import run_once
from training_storage.node.checkpoints.tree import LocalTree
from training_storage.node.commands import _tier, flush
from training_storage.node.errors import Failure
from training_storage.node.release import proof as proofs

NAME = "training"
TAGS = {"training-storage:workload": NAME}


class Disks(World):
    """Nodes with disks of their own, which run the agent's commands in this process."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nodes: int = 2) -> None:
        super().__init__(tmp_path, "nvme", nodes=nodes)
        self.monkeypatch = monkeypatch
        self.tmp_path = tmp_path
        self.aws.cloudformation.make(f"{NAME}-monitoring")
        self.aws.cloudformation.make(f"{NAME}-compute")
        self.aws.machines.group(f"{NAME}-fleet", TAGS, nodes, 8)
        self.aws.machines.run = self._run_command
        self.aws.cloudformation.on_delete = lambda _name: None
        self.roots: dict[str, Path] = {}
        self.since: dict[str, int] = {}
        for node in sorted(self.aws.machines.instances):
            self.come(node)
        self.silent: set[str] = set()
        self.faulty: Callable[[str], Any] = lambda _node: self.aws

    @property
    def nodes(self) -> list[str]:
        return sorted(self.roots)

    def come(self, node: str) -> None:
        self.roots[node] = self.tmp_path / node
        self.roots[node].mkdir()
        self.since[node] = int(self.aws.now * 1e9)

    def die(self, node: str) -> None:
        self.aws.machines.stop(node)
        shutil.rmtree(self.roots.pop(node))

    def lay(self, path: str, files: dict[str, tuple[int, bytes]]) -> None:
        """Save a checkpoint: content by name, each on the disk of a node by its number."""
        self.aws.now += 60
        self.made[path] = {}
        for name, (number, body) in files.items():
            self.put(name, body, self.roots[self.nodes[number]])
            if name.startswith(path + "/"):
                self.made[path][name] = body

    def dcp(self, path: str, *, complete: bool = True) -> None:
        """Save as PyTorch does: a rank a node, and the coordinator's file on the first."""
        files = {f"{path}/__{at}_0.distcp": (at, f"{path} {at}".encode()) for at in range(len(self.roots))}
        if complete:
            files[f"{path}/.metadata"] = (0, path.encode())
        self.lay(path, files)

    def agents(self, aws: Any = None, only: str = "", **how: Any) -> list[Any]:
        """Run the agent once on every node, or on one."""
        results = []
        for node in self.nodes:
            if node in self.silent or (only and node != only):
                continue
            self.aws.now += 5
            tree = LocalTree(str(self.roots[node]))
            results.append(
                run_once(
                    aws or self.aws, self.settings, tree, node=node, clock=self.aws.clock, sleep=self.aws.sleep,
                    since_ns=self.since[node], **how,
                )
            )  # fmt: skip
        return results

    def _run_command(self, node: str, text: str) -> tuple[int, str, str]:
        """Flush on a node, while the others are at it too."""
        command_id = text.split()[-1]

        def sleep(seconds: float) -> None:
            self.aws.sleep(seconds)
            for other in self.nodes:
                if other != node:
                    self.agents(only=other, prune=False, last=True)

        self.monkeypatch.setattr(_tier, "node_name", lambda: node)
        self.monkeypatch.setattr(_tier, "tree_of", lambda _settings, _aws: LocalTree(str(self.roots[node])))
        self.monkeypatch.setattr("training_storage.node.checkpoints.parts._booted_ns", lambda: self.since[node])
        turn = _tier.Turn(self.settings, self.faulty(node), lambda _figures: None, self.aws.clock, sleep)
        state, code, message = "done", 0, ""
        answer: object = None
        try:
            answer = flush.flushed(turn)
        except Failure as failure:
            state, code, message, answer = "failed", 3, str(failure), failure.answer
        except Killed:
            return 137, "", "Killed"
        body = json.dumps({"state": state, "exit_code": code, "answer": answer, "message": message})
        self.aws.s3.put_object(Bucket=LAKE, Key=agent.answer_key(command_id, node), Body=body)
        return code, "", message

    def release(self, action: str = "release", before: Any = lambda _step: None, **given: Any) -> dict[str, Any]:
        """Drive the steps."""
        return drive(self.aws, NAME, action, before=before, **given)

    @property
    def stands(self) -> bool:
        return f"{NAME}-compute" in self.aws.cloudformation.stacks


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disks:
    return Disks(tmp_path, monkeypatch)


def test_shards_on_both_disks_are_in_the_lake_before_the_nodes_go(two: Disks) -> None:
    for step in range(1, 4):
        two.dcp(f"run1/step-{step}")
    two.lay("run1", {"run1/config.json": (0, b"{}")})
    state = two.release()
    assert state["status"] == "done", state
    assert not two.stands
    assert {"run1/step-2", "run1/step-3"} <= two.lake_paths()
    assert set(two.recorded()) == {"run1/step-2", "run1/step-3"}
    proof = proofs.read(two.aws, LAKE, NAME)
    assert proof is not None
    assert (proof.files, proof.left["unpromoted"]["files"], proof.left["loose"]["files"]) == (6, 3, 1)


def test_the_agents_alone_bring_it_too_and_remove_it_later(two: Disks) -> None:
    for step in range(1, 6):
        two.dcp(f"run1/step-{step}")
    for _ in range(4):
        assert [each.errors for each in two.agents()] == [[], []]
    assert set(two.recorded()) == {"run1/step-2", "run1/step-4"}
    left = {each.parent.name for root in two.roots.values() for each in root.rglob("*.distcp")}
    assert left == {"step-4", "step-5"}


def test_a_checkpoint_of_which_no_node_has_the_marker_is_named(two: Disks) -> None:
    two.dcp("run1/step-1")
    two.dcp("run1/step-2", complete=False)
    state = two.release()
    assert state["status"] == "refused"
    assert state["blocking"] == ["run1/step-2 lacks .metadata, which PyTorch writes last (2 shards are there)"]
    assert two.stands
    state = two.release(leave=["/checkpoints/run1/step-2"])
    assert state["status"] == "done", state
    assert state["proof"]["left"]["half-written"]["files"] == 2


def test_a_node_that_takes_no_part_keeps_the_others(two: Disks) -> None:
    two.dcp("run1/step-1")
    two.aws.machines.online = False
    assert "take no commands" in two.release()["refused"]
    assert two.stands


def test_a_node_that_died_with_its_part_is_named_and_its_checkpoints_are_lost(two: Disks) -> None:
    two.dcp("run1/step-1")
    two.agents()
    gone, stays = two.nodes[1], two.nodes[0]
    two.die(gone)
    state = two.release()
    assert state["status"] == "refused"
    assert state["blocking"] == [f"run1/step-1: 1 files (13 bytes) of it went with {gone}"]
    assert two.stands
    state = two.release(leave=["/checkpoints/run1/step-1"])
    assert state["status"] == "done", state
    assert state["proof"]["left"]["lost"]["files"] == 1
    assert two.nodes == [stays]


def test_a_node_that_came_later_does_not_answer_for_the_one_before(two: Disks) -> None:
    two.dcp("run1/step-1")
    two.die(two.nodes[1])  # before it told anybody anything
    two.aws.sleep(600)
    two.come(two.aws.machines.start(TAGS, f"{NAME}-fleet"))
    state = two.release()
    assert state["status"] == "refused"
    assert "nodes held that are gone: others came after it was written" in state["blocking"][0]
    assert two.stands
    two.dcp("run1/step-2")
    state = two.release(leave=["/checkpoints/run1/step-1"])
    assert state["status"] == "done", state
    assert set(two.recorded()) == {"run1/step-2"}


def test_what_is_written_after_the_proof_keeps_the_nodes(two: Disks) -> None:
    two.dcp("run1/step-1")
    state = two.release(before=lambda step: two.dcp("run1/step-2") if step == "delete-compute" else None)
    assert state["status"] == "refused"
    assert "written after the proof" in state["refused"]
    assert two.stands


def test_a_record_whose_object_is_gone_keeps_the_nodes(two: Disks) -> None:
    two.dcp("run1/step-1")

    def lose(step: str) -> None:
        if step == "delete-compute":
            two.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/step-1/__1_0.distcp")

    state = two.release(before=lose)
    assert state["status"] == "done", state  # the nodes still had it, and brought it again
    assert two.lake_paths() == {"run1/step-1"}


def test_three_nodes_of_which_one_has_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three = Disks(tmp_path, monkeypatch, nodes=3)
    three.lay(
        "run1/step-1",
        {
            "run1/step-1/__0_0.distcp": (0, b"0"),
            "run1/step-1/__1_0.distcp": (1, b"1"),
            "run1/step-1/.metadata": (0, b"m"),
        },
    )
    assert three.release()["status"] == "done"
    assert three.lake_paths() == {"run1/step-1"}


def test_deepspeed_over_two_disks(two: Disks) -> None:
    for step in (1, 2):
        folder = f"run1/global_step{step}"
        two.lay(
            folder,
            {
                f"{folder}/mp_rank_00_model_states.pt": (0, b"model"),
                f"{folder}/zero_pp_rank_0_mp_rank_00_optim_states.pt": (0, b"zero"),
                f"{folder}/zero_pp_rank_1_mp_rank_00_optim_states.pt": (1, b"one"),
                "run1/latest": (0, f"global_step{step}".encode()),
            },
        )
    state = two.release()
    assert state["status"] == "done", state
    assert two.lake_paths() == {"run1/global_step2"}


def test_a_marker_that_lists_files_of_another_node(two: Disks) -> None:
    sizes = {"rank0.pt": 1, "rank1.pt": 2}
    for step, there in ((1, b"11"), (2, b"1")):
        folder = f"run1/step-{step}"
        two.lay(
            folder,
            {
                f"{folder}/rank0.pt": (0, b"0"),
                f"{folder}/rank1.pt": (1, there),
                f"{folder}/COMPLETE": (0, json.dumps({"files": sizes}).encode()),
            },
        )
    state = two.release()
    assert state["blocking"] == ["run1/step-2 lacks rank1.pt with 2 bytes: it has 1 bytes"]
    assert two.lake_paths() == {"run1/step-1"}


def test_hugging_face_whose_weights_lie_on_two_disks(two: Disks) -> None:
    folder = "run1/checkpoint-10"
    shards = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    two.lay(
        folder,
        {
            f"{folder}/{shards['a']}": (0, b"a"),
            f"{folder}/{shards['b']}": (1, b"b"),
            f"{folder}/model.safetensors.index.json": (0, json.dumps({"weight_map": shards}).encode()),
            f"{folder}/rng_state_0.pth": (0, b"r"),
            f"{folder}/rng_state_1.pth": (1, b"r"),
            f"{folder}/trainer_state.json": (0, json.dumps({"global_step": 10, "log_history": []}).encode()),
        },
    )
    assert two.release()["status"] == "done"
    assert two.lake_paths() == {folder}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["killed-before", "killed-after", "timeout-after", "denied"])
def test_a_flush_that_dies_at_any_call_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("training_storage.node.checkpoints.lake.WORKERS", 1)
    for at in range(0, 60, 4):
        place = tmp_path / str(at)
        place.mkdir()
        made = Disks(place, monkeypatch)
        for step in range(1, 3):
            made.dcp(f"run1/step-{step}")
        once: list[Faulty] = []

        def faulty(_node: str, made: Disks = made, once: list[Faulty] = once, at: int = at) -> Any:
            once.append(Faulty(made.aws, Fault(at, kind) if not once else None))
            return once[-1]

        made.faulty = faulty
        state = made.release()
        assert state["status"] == "done" or made.stands, (at, state)
        if not made.stands:
            assert "run1/step-2" in made.lake_paths(), (at, once[0].hit)
        else:
            assert made.release()["status"] == "done", (at, once[0].hit, state)
            assert "run1/step-2" in made.lake_paths()


def test_what_nodes_tell_lies_where_only_we_write(two: Disks) -> None:
    two.dcp("run1/step-1")
    two.agents()
    keys = [key for key in two.aws.s3.content(LAKE) if "/parts/" in key]
    assert sorted(keys) == sorted(
        f"{places.PARTS}{NAME}/{where}{node}.json" for node in two.nodes for where in ("", "seen/")
    )
