"""Checkpoints on local disks of several nodes: each has a part, and nothing is decided before all have answered."""

from __future__ import annotations

import os
import random
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.life.actions import LAKE, World
from tests.life.faults import KINDS, Fault, Faulty, Killed
from training_storage.node import places
from training_storage.node.checkpoints import lake as lake_module
from training_storage.node.checkpoints.run_result import RunResult

NODES = ("i-1", "i-2", "i-3")


class Fleet(World):
    """Three nodes with disks of their own; the first writes the file that makes a checkpoint complete."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path, "nvme", nodes=len(NODES))
        self.roots = {node: tmp_path / node for node in NODES}

    def save_spread(self, path: str, ranks: int = 2) -> None:
        self.aws.now += 60
        self.made[path] = {}
        for number, node in enumerate(NODES):
            for rank in range(number * ranks, (number + 1) * ranks):
                name = f"{path}/__{rank}_0.distcp"
                self.made[path][name] = f"{path} {rank} {self.aws.now}".encode()
                self.put(name, self.made[path][name], self.roots[node])
        self.made[path][f"{path}/.metadata"] = b"metadata of " + path.encode()
        self.put(f"{path}/.metadata", self.made[path][f"{path}/.metadata"], self.roots["i-1"])

    def on(self, node: str, aws: Any = None, **given: Any) -> RunResult:
        return self.run(aws, node=node, root=self.roots[node], since_ns=given.pop("since_ns", 0), **given)

    def round(self, rounds: int = 1) -> list[RunResult]:
        return [self.on(node) for _ in range(rounds) for node in NODES]

    def disks(self) -> dict[str, bytes]:
        return {
            each.relative_to(root).as_posix(): each.read_bytes()
            for root in self.roots.values()
            for each in root.rglob("*")
            if each.is_file() and ".training-storage" not in each.as_posix()
        }

    def on_disks(self) -> set[str]:
        disks = self.disks()
        return {path for path, files in self.made.items() if files.items() <= disks.items()}


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    fleet = Fleet(tmp_path)
    for number in range(1, 6):
        fleet.save_spread(f"run1/step-{number}")
    return fleet


def test_every_node_brings_its_part_and_the_union_is_recorded(fleet: Fleet) -> None:
    results = fleet.round(4)
    assert [each.errors for each in results] == [[]] * 12
    assert fleet.lake_paths() == {"run1/step-2", "run1/step-4"}
    assert set(fleet.recorded()) == {"run1/step-2", "run1/step-4"}
    assert fleet.recorded()["run1/step-2"]["files"] == 7
    assert fleet.on_disks() == {"run1/step-4", "run1/step-5"}
    assert set(fleet.disks()) == {name for path in fleet.on_disks() for name in fleet.made[path]}
    assert fleet.status()["waiting"] == []
    assert fleet.status()["unsaved"] == []


def test_the_lake_never_shows_half_of_one_as_complete(fleet: Fleet) -> None:
    fleet.round()
    for node in ("i-1", "i-2"):
        fleet.on(node)
        assert not [name for name in fleet.lake() if name.endswith(".metadata")]
    fleet.on("i-3")
    fleet.on("i-1")
    assert fleet.lake_paths() == {"run1/step-2", "run1/step-4"}


def test_a_node_that_never_told_what_it_holds_keeps_everything(fleet: Fleet) -> None:
    for _ in range(4):
        for node in ("i-1", "i-2"):
            assert fleet.on(node).errors == []
    assert fleet.recorded() == {}
    assert set(fleet.made) == fleet.on_disks()
    assert any("run1/step-5: waiting for the word of 1 of 3 nodes" in each for each in fleet.status()["waiting"])
    assert [each["complete"] for each in fleet.status()["checkpoints"]] == [False] * 5


def test_nodes_of_another_workload_speak_for_none_of_this_one(fleet: Fleet, tmp_path: Path) -> None:
    """Three nodes have told, and one of them belongs to a workload that shares the lake: a part is not known."""
    mine = fleet.settings
    others = replace(mine, workload="other", hot_tier_id="other")
    fleet.roots["i-9"] = tmp_path / "i-9"
    fleet.put("eval1/step-1/__0_0.distcp", b"of the other", fleet.roots["i-9"])
    for _ in range(4):
        fleet.settings = others
        assert fleet.on("i-9").errors == []
        fleet.settings = mine
        for node in ("i-1", "i-2"):
            result = fleet.on(node)
            assert result.errors == []
    assert fleet.recorded() == {}
    assert fleet.lake() == {}
    assert {each["path"] for each in result.checkpoints} == {f"run1/step-{number}" for number in range(1, 6)}
    assert {"run1/step-1", "run1/step-5"} <= fleet.on_disks()
    fleet.round(4)
    assert fleet.lake_paths() == {"run1/step-2", "run1/step-4"}


def test_receipts_that_have_passed_are_replaced_by_the_record(fleet: Fleet) -> None:
    """A rule of the lake removes orders and receipts after a month; what lies on disks for longer may go too."""
    fleet.round(4)
    for key in fleet.aws.s3.content(LAKE, places.ORDERS):
        fleet.aws.s3.delete_object(Bucket=LAKE, Key=key)
    fleet.save_spread("run1/step-6")
    fleet.save_spread("run1/step-7")
    results = fleet.round(5)
    assert [each.errors for each in results[-3:]] == [[]] * 3
    assert fleet.on_disks() == {"run1/step-6", "run1/step-7"}
    assert {"run1/step-2", "run1/step-4", "run1/step-6"} <= fleet.lake_paths()


def test_a_node_that_is_gone_leaves_it_open_and_nothing_is_removed(fleet: Fleet) -> None:
    fleet.on("i-3")
    for _ in range(4):
        for node in ("i-1", "i-2"):
            result = fleet.on(node)
    result = fleet.on("i-1")
    assert any("run1/step-2: waiting for receipts of 1 of 3 nodes" in each for each in result.waiting)
    assert fleet.recorded() == {}
    assert {"run1/step-2", "run1/step-4"} <= fleet.on_disks()
    assert fleet.status()["unsaved"] == ["run1/step-2", "run1/step-4"]
    assert any("i-1, i-2" in each for each in fleet.status()["waiting"])


def test_a_node_that_came_later_does_not_say_that_there_was_nothing(fleet: Fleet) -> None:
    shutil.rmtree(fleet.roots["i-3"])
    fleet.roots["i-3"].mkdir()
    came = int((fleet.aws.now + 1) * 1e9)
    for _ in range(3):
        for node in NODES:
            fleet.on(node, since_ns=came if node == "i-3" else 0)
    assert fleet.recorded() == {}
    lacks = {each["missing"] for each in fleet.status()["checkpoints"]}
    assert lacks == {"what 1 of 3 nodes held that are gone: others came after it was written"}
    assert fleet.status()["waiting"] == []  # nobody can bring it any more
    fleet.save_spread("run1/step-6")
    for _ in range(4):
        for node in NODES:
            fleet.on(node, since_ns=came if node == "i-3" else 0, last=True)
    assert set(fleet.recorded()) == {"run1/step-6"}


def test_a_node_that_died_after_an_order_does_not_let_its_successor_answer(fleet: Fleet) -> None:
    for node in ("i-3", "i-2", "i-1"):
        fleet.on(node)
    shutil.rmtree(fleet.roots["i-3"])
    fleet.roots["i-4"] = fleet.roots["i-3"]
    fleet.roots["i-4"].mkdir()
    came = int(fleet.aws.now * 1e9)
    for _ in range(3):
        for node in ("i-1", "i-2", "i-4"):
            result = fleet.on(node, since_ns=came if node == "i-4" else 0)
            assert result.errors == []
    assert fleet.recorded() == {}
    fleet.aws.now += 7 * 3600
    for node in ("i-1", "i-2", "i-4", "i-1"):
        fleet.on(node, since_ns=came if node == "i-4" else 0)
    assert not any(each["complete"] for each in fleet.status()["checkpoints"])
    assert fleet.recorded() == {}


def test_what_a_node_had_uploaded_before_it_died_counts(fleet: Fleet) -> None:
    fleet.round()
    fleet.on("i-1")
    fleet.on("i-3")  # its part is in the lake
    shutil.rmtree(fleet.roots.pop("i-3"))
    fleet.aws.now += 7 * 3600
    for _ in range(3):
        for node in ("i-1", "i-2"):
            assert fleet.on(node).errors == []
    assert {"run1/step-2", "run1/step-4"} <= set(fleet.recorded())
    assert fleet.lake_paths() == {"run1/step-2", "run1/step-4"}


def test_a_union_that_is_not_whole_is_not_recorded(fleet: Fleet) -> None:
    for each in fleet.roots["i-2"].rglob("*.distcp"):
        each.unlink()  # a disk that lost its files without anybody noticing
    fleet.round(3)
    assert {each["missing"] for each in fleet.status()["checkpoints"]} == {"shards of rank 2 (__2_N.distcp)"}
    assert fleet.recorded() == {}


def test_files_that_vanish_after_an_order_are_not_recorded(fleet: Fleet) -> None:
    fleet.round()
    fleet.on("i-1")
    for each in fleet.roots["i-2"].rglob("*.distcp"):
        each.unlink()
    fleet.round(3)
    assert fleet.recorded() == {}
    assert not [name for name in fleet.lake() if name.endswith(".metadata")]


def test_one_name_with_two_contents(fleet: Fleet) -> None:
    for node in ("i-1", "i-2"):
        (fleet.roots[node] / "run1/step-2/shared.pt").write_bytes(node.encode())
        _same_time(fleet, node, "run1/step-2/shared.pt")
    results = fleet.round(2)
    assert any("two nodes with different contents" in text for each in results for text in each.errors)
    assert "run1/step-2" not in fleet.recorded()


def test_one_name_with_one_content(fleet: Fleet) -> None:
    for node in ("i-1", "i-2"):
        (fleet.roots[node] / "run1/step-2/config.json").write_bytes(b"{}")
        _same_time(fleet, node, "run1/step-2/config.json")
    assert [each.errors for each in fleet.round(3)] == [[]] * 9
    assert "run1/step-2" in fleet.recorded()


def _same_time(fleet: Fleet, node: str, name: str) -> None:
    beside = next((fleet.roots[node] / name).parent.glob("*.distcp")).stat()
    os.utime(fleet.roots[node] / name, ns=(beside.st_mtime_ns, beside.st_mtime_ns))


def test_a_part_that_was_written_again_is_left_alone(fleet: Fleet) -> None:
    """Training fell back and saves step 1 again while its removal is on its way through the nodes."""
    fleet.round(3)
    fleet.aws.now += 600
    for number in range(6, 8):
        fleet.save_spread(f"run1/step-{number}")
    for node in ("i-2", "i-3"):
        fleet.on(node, prune=False)
    fleet.on("i-1")  # orders the removal of the older ones, and removes its own part
    fleet.aws.now += 600
    fleet.save_spread("run1/step-4")
    for node in ("i-2", "i-3"):
        fleet.on(node)
    assert "run1/step-4" in fleet.on_disks()


def test_a_run_that_may_not_prune_serves_no_removal(fleet: Fleet) -> None:
    for node in ("i-2", "i-3"):
        fleet.on(node, prune=False)
    assert fleet.on("i-1").pruned  # and the order is written
    held = sorted(each for each in fleet.roots["i-2"].rglob("*.distcp"))
    assert len(held) == 10
    fleet.on("i-2", prune=False)
    assert sorted(fleet.roots["i-2"].rglob("*.distcp")) == held
    fleet.on("i-2")
    assert len(list(fleet.roots["i-2"].rglob("*.distcp"))) == 6


def test_fault_by_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_module, "WORKERS", 1)
    for seed in range(25):
        chance = random.Random(seed)
        fleet = Fleet(tmp_path / str(seed))
        told = [f"seed {seed}"]
        for _ in range(2):
            for _ in range(2):
                fleet.save_spread(f"run1/step-{len(fleet.made) + 1}")
            for node in chance.choices(NODES, k=4):
                faulty = Faulty(fleet.aws, Fault(chance.randrange(50), chance.choice(KINDS)))
                with suppress(Killed):
                    fleet.on(node, faulty)
                told.append(f"{node}: {faulty.hit}")
                due = {path for number, path in enumerate(fleet.made, 1) if number % 2 == 0}
                assert set(fleet.recorded()) <= fleet.lake_paths(), told
                everywhere = fleet.disks().items() | fleet.lake().items()
                for path in due:
                    whole = fleet.made[path].items() <= everywhere
                    assert whole or path in fleet.lake_paths(), told
                assert set(list(fleet.made)[-2:]) <= fleet.on_disks(), told
        fleet.aws.now += 700
        results = fleet.round(5)
        told.append(str([each.errors for each in results]))
        assert fleet.on_disks() == {"run1/step-3", "run1/step-4"}, told
        assert fleet.lake_paths() == {"run1/step-2", "run1/step-4"}, told
        assert set(fleet.recorded()) == {"run1/step-2", "run1/step-4"}, told
        assert not fleet.aws.s3.buckets[LAKE].uploads
