"""The restore drill of local disks of two nodes: each reads its own part, and what nobody read is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.life.actions import LAKE, World
from tests.life.commands import run_agent, said, sign_in, told
from training_storage.node import drill

NAME = "training"
TAGS = {"training-storage:workload": NAME}
FOLDER = "/opt/dlami/nvme/checkpoints"
PATH = "run1/step-2"


class Disks(World):
    """Two nodes with the real agent, each with a root of its own."""

    def __init__(self, tmp_path: Path) -> None:
        super().__init__(tmp_path, "nvme", nodes=2)
        self.aws.cloudformation.make(f"{NAME}-lake", {"DataLakeBucketName": LAKE})
        self.aws.machines.group(f"{NAME}-fleet", TAGS, 2, 8)
        self.aws.machines.run = self._run
        self.nodes = sorted(self.aws.machines.instances)
        self.roots = {node: tmp_path / node for node in self.nodes}
        self.seconds = dict(zip(self.nodes, (2.0, 5.0), strict=True))
        """How long each node reads."""
        self.readings: list[tuple[str, str]] = []
        """What was read, by node, as a path below the checkpoint folder."""
        self.asked: list[str] = []
        for root in self.roots.values():
            (root / FOLDER[1:]).mkdir(parents=True)

    def _run(self, node: str, text: str) -> tuple[int, str, str]:
        self.asked.append(node)
        settings = {**self.settings.to_dict(), "checkpoints": FOLDER, "max_restore_s": 10.0, "restore_readers": 4}
        return run_agent(self.roots[node], node, text, settings, self.aws, self.aws.sleep)

    def lay(self, path: str) -> None:
        """Save a checkpoint over both disks, and let both tell of it."""
        self.aws.now += 60
        for number, node in enumerate(self.nodes):
            shard = b"x" * (1000 * (number + 1))
            self.put(f"{path}/__{number}_0.distcp", shard, self.roots[node] / FOLDER[1:])
        self.put(f"{path}/.metadata", b"metadata", self.roots[self.nodes[0]] / FOLDER[1:])

    def tell(self) -> None:
        for node in 2 * self.nodes:  # the second time each has looked after the other has told
            code, out, err = self._run(node, "agent run --quiet")
            assert code == 0, out + err


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disks:
    made = Disks(tmp_path)
    monkeypatch.setattr("training_storage.node.checkpoints.parts._booted_ns", lambda: 0)
    sign_in(monkeypatch, made.aws)
    read = drill.read_files

    def timed(pieces: Any, **given: Any) -> drill.Reading:
        node = made.asked[-1]
        made.readings += [(node, piece.path.partition(FOLDER + "/")[2]) for piece in pieces]
        clock = iter((0.0, made.seconds[node]))
        return read(pieces, **given, clock=lambda: next(clock))

    monkeypatch.setattr(drill, "read_files", timed)
    for step in (1, 2):
        made.lay(f"run1/step-{step}")
    made.tell()
    return made


def test_each_node_reads_its_own_part_once_and_the_slowest_counts(two: Disks) -> None:
    found = told("restore-drill", NAME, "--source", "hot")
    [hot] = found["drills"]
    first, second = two.nodes
    assert sorted(two.readings) == [
        (first, f"{PATH}/.metadata"),
        (first, f"{PATH}/__0_0.distcp"),
        (second, f"{PATH}/__1_0.distcp"),
    ]
    assert (hot["checkpoint"], hot["nodes"], hot["restore_readers"]) == (PATH, 2, 1)
    assert hot["bytes"] == hot["size"] == 1000 + 2000 + len(b"metadata")
    assert hot["seconds"] == 5.0
    assert hot["in_time"] is True
    assert hot["missing"] == []
    [put] = two.aws.cloudwatch.put
    [data] = put["MetricData"]
    assert (data["Value"], data["Dimensions"][1]["Value"]) == (5.0, "hot")


def test_an_older_checkpoint_may_be_named(two: Disks) -> None:
    [hot] = told("restore-drill", NAME, "--source", "hot", "--path", f"{FOLDER}/run1/step-1")["drills"]
    assert hot["checkpoint"] == "run1/step-1"
    assert hot["bytes"] == hot["size"]


def test_a_part_on_a_node_that_did_not_read_is_named_and_is_no_restore(two: Disks) -> None:
    first, second = two.nodes
    text = said("restore-drill", NAME, "--source", "hot", "--nodes", "1", code=1)
    assert f"MISSING: 1 file of it, 2 KB, on local disks of {second}" in text
    assert "in time" not in text
    assert {node for node, _ in two.readings} == {first}
    assert two.aws.cloudwatch.put == []
    [hot] = told("restore-drill", NAME, "--source", "hot", "--nodes", "1", code=1)["drills"]
    assert hot["in_time"] is None
    assert hot["missing"] == [{"node": second, "files": 1, "bytes": 2000}]


def test_a_part_that_two_nodes_have_is_not_missing(two: Disks) -> None:
    shard = two.roots[two.nodes[1]] / FOLDER[1:] / PATH / "__1_0.distcp"
    copy = two.roots[two.nodes[0]] / FOLDER[1:] / PATH / "__1_0.distcp"
    two.aws.write(copy, shard.read_bytes())
    two.aws.write(shard.with_name(".metadata"), b"metadata")  # as new as the copy
    two.tell()
    [hot] = told("restore-drill", NAME, "--source", "hot", "--nodes", "1")["drills"]
    assert hot["missing"] == []
    assert hot["bytes"] == hot["size"]


def test_what_the_others_have_not_told_is_no_checkpoint_to_read(two: Disks) -> None:
    """Half of it would be read in half the time."""
    two.aws.now += 60
    two.put("run1/step-3/__0_0.distcp", b"x", two.roots[two.nodes[0]] / FOLDER[1:])
    two.put("run1/step-3/.metadata", b"metadata", two.roots[two.nodes[0]] / FOLDER[1:])
    text = said("restore-drill", NAME, "--source", "hot", "--path", "run1/step-3", code=1)
    assert "run1/step-3" in text
    assert two.aws.cloudwatch.put == []


def test_both_sides_of_local_disks(two: Disks) -> None:
    two.tell()
    found = told("restore-drill", NAME)
    drills = {each["source"]: each for each in found["drills"]}
    assert drills["hot"]["checkpoint"] == drills["lake"]["checkpoint"] == PATH
    # A restart on other nodes reads from the lake, each replica the whole.
    assert drills["lake"]["bytes"] == 4 * drills["hot"]["bytes"]
    assert drills["lake"]["restore_readers"] == 4
    assert [put["MetricData"][0]["Dimensions"][1]["Value"] for put in two.aws.cloudwatch.put] == ["hot", "lake"]
