"""Commands of the agent on checkpoints, called as Systems Manager calls them."""

from __future__ import annotations

import dataclasses
import functools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.life.actions import LAKE, World
from training_storage.node import agent, places
from training_storage.node.checkpoints import records
from training_storage.node.checkpoints.lease import lease_of
from training_storage.node.commands import _tier, flush, promote, prune
from training_storage.node.commands import run as run_command
from training_storage.node.release import hold

INSTANCE = "i-0123456789abcdef0"


class Calls:
    """A node of a world, whose agent is called as Systems Manager calls it."""

    def __init__(self, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.root = tmp_path / "node"
        monkeypatch.setenv("TS_ROOT", str(self.root))
        monkeypatch.setenv("TRAINING_STORAGE_INSTANCE_ID", INSTANCE)
        # The world's folders stand for a mount of this node.
        self.settings = dataclasses.replace(
            world.settings,
            mount="/fsx" if world.settings.mount else "",
            checkpoints="/fsx/checkpoints" if world.settings.checkpoints else "",
        )
        settings = self.root / "etc/training-storage/agent.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps(self.settings.to_dict()), encoding="utf-8")
        (self.root / "fsx").symlink_to(world.root)
        turn = functools.partial(_tier.Turn, clock=world.aws.clock, sleep=world.aws.sleep)
        for module in (run_command, promote, prune, flush):
            monkeypatch.setattr(module, "Turn", turn)
        monkeypatch.setattr("training_storage.node.commands._tier.time.time", world.aws.clock)
        self._count = 0

    def __call__(self, *argv: str) -> dict[str, Any]:
        """Run a command and return what it wrote into the lake."""
        self._count += 1
        command_id = f"c{self._count}"
        code = agent.main([*argv, "--command-id", command_id], aws=self.world.aws, sleep=self.world.aws.sleep)
        key = f"{places.ANSWERS}{command_id}/{INSTANCE}.json"
        whole: dict[str, Any] = json.loads(self.world.aws.s3.get_object(Bucket=LAKE, Key=key)["Body"].read())
        assert whole["exit_code"] == code
        return whole

    def done(self, *argv: str) -> dict[str, Any]:
        """Run a command that must do what it is asked to."""
        whole = self(*argv)
        assert whole["state"] == "done", whole
        answer: dict[str, Any] = whole["answer"]
        return answer


@pytest.fixture(params=["lustre", "express", "nvme"])
def calls(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(World(tmp_path, request.param), tmp_path, monkeypatch)


@pytest.fixture
def lustre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(World(tmp_path), tmp_path, monkeypatch)


def paths(found: list[dict[str, Any]]) -> list[str]:
    return [each["path"] for each in found]


def test_a_run_promotes_what_is_due_and_prunes_what_may_go(calls: Calls) -> None:
    for step in range(1, 6):
        calls.world.save(f"run1/step-{step}")
    answer = calls.done("run")
    assert paths(answer["promoted"]) == ["run1/step-2", "run1/step-4"]
    assert paths(answer["pruned"]) == ["run1/step-1", "run1/step-2", "run1/step-3"]
    listed = calls.done("list")
    assert paths(listed["checkpoints"]) == ["run1/step-4", "run1/step-5"]
    assert paths(listed["lake"]) == ["run1/step-2"]
    assert listed["unsaved"] == []


def test_a_run_with_nothing_to_do_is_quiet(lustre: Calls, capsys: pytest.CaptureFixture[str]) -> None:
    lustre.world.save("run1/step-1")
    assert agent.main(["run", "--quiet"], aws=lustre.world.aws) == 0
    assert capsys.readouterr().out == ""
    lustre.world.save("run1/step-2")
    assert agent.main(["run", "--quiet"], aws=lustre.world.aws) == 0
    assert paths(json.loads(capsys.readouterr().out)["promoted"]) == ["run1/step-2"]


@pytest.mark.parametrize("command", ["run", "promote", "prune"])
def test_a_dry_run_changes_nothing(lustre: Calls, command: str) -> None:
    for step in range(1, 6):
        lustre.world.save(f"run1/step-{step}")
    before = sorted(each.as_posix() for each in lustre.world.root.rglob("*"))
    answer = lustre.done(command, "--dry-run")
    # What is not in the lake yet would not be removed now.
    assert paths(answer["pruned"]) == ([] if command == "promote" else ["run1/step-1", "run1/step-3"])
    assert sorted(each.as_posix() for each in lustre.world.root.rglob("*")) == before
    assert [each for each in lustre.world.aws.s3.buckets[LAKE].things if not each.startswith(places.ANSWERS)] == []


@pytest.mark.parametrize("form", ["run1/step-1", "/fsx/checkpoints/run1/step-1/", "s3://lake/checkpoints/run1/step-1"])
def test_a_checkpoint_is_promoted_by_hand_however_it_is_named(lustre: Calls, form: str) -> None:
    lustre.world.save("run1/step-1")
    lustre.world.save("run1/step-2")
    answer = lustre.done("promote", form)
    assert ("run1/step-1", "asked") in [(each["path"], each["reason"]) for each in answer["promoted"]]
    assert answer["pruned"] == []


def test_promoting_what_is_not_there_is_a_failure_that_says_so(lustre: Calls) -> None:
    lustre.world.save("run1/step-1")
    lustre.world.save("run1/step-2", complete=False)
    whole = lustre("promote", "run1/step-2", "run9/step-1")
    assert (whole["state"], whole["exit_code"]) == ("failed", 3)
    assert "there is no checkpoint run9/step-1" in whole["message"]
    assert "run1/step-2 is half-written" in whole["message"]


@pytest.mark.parametrize("path", ["../datasets", "/fsx/datasets", "/etc", ""])
def test_no_path_leads_out_of_the_folder(lustre: Calls, path: str) -> None:
    assert lustre("promote", path)["state"] == "refused"


def test_verify_names_what_is_no_longer_in_the_lake(calls: Calls) -> None:
    for step in range(1, 5):
        calls.world.save(f"run1/step-{step}")
    calls.done("run")
    good = calls.done("verify")
    assert (good["records"], good["wrong"]) == (2, {})
    calls.world.aws.s3.put_object(Bucket=LAKE, Key="checkpoints/run1/step-2/.metadata", Body=b"another")
    bad = calls.done("verify", "run1/step-2")
    assert bad["records"] == 1
    ((key, wrong),) = bad["wrong"].items()
    assert key.startswith(f"{places.RECORDS}run1/step-2@")
    assert ".metadata" in wrong[0]
    assert calls("verify", "run1/step-3")["state"] == "refused"


def test_a_flush_brings_the_last_one_and_prunes_nothing(calls: Calls) -> None:
    for step in range(1, 4):
        calls.world.save(f"run1/step-{step}")
    answer = calls.done("flush")
    assert paths(answer["promoted"]) == ["run1/step-2", "run1/step-3"]
    assert answer["pruned"] == []


def test_while_a_release_looks_the_hot_tier_stays_as_it_is(lustre: Calls) -> None:
    world = lustre.world
    for step in range(1, 6):
        world.save(f"run1/step-{step}")
    hold.hold(world.aws, LAKE, world.settings.hot_tier_id, world.aws.clock)
    assert "a release of training" in lustre.done("run")["held"]
    for command in ("promote", "prune"):
        assert lustre(command)["state"] == "refused"
    assert len(list((world.checkpoints / "run1").iterdir())) == 5
    assert records.read_all(world.aws, LAKE) == []
    # The release itself asks for this.
    assert paths(lustre.done("flush")["promoted"]) == ["run1/step-2", "run1/step-4", "run1/step-5"]


def test_a_command_waits_for_its_turn_and_refuses_when_that_does_not_come(lustre: Calls) -> None:
    world = lustre.world
    world.save("run1/step-1")
    lease = lease_of(world.aws, world.settings, "i-other", world.aws.clock)
    assert lease.acquire()
    began = world.aws.now
    whole = lustre("promote", "run1/step-1")
    assert whole["state"] == "refused"
    assert "i-other" in whole["message"]
    assert world.aws.now - began >= 600
    lease.release()
    assert paths(lustre.done("promote", "run1/step-1")["promoted"]) == ["run1/step-1"]


def test_without_a_policy_the_commands_say_what_to_change(lustre: Calls) -> None:
    settings = dataclasses.replace(lustre.settings, policy=None)
    (lustre.root / "etc/training-storage/agent.json").write_text(json.dumps(settings.to_dict()), encoding="utf-8")
    for command in ("run", "list", "promote", "prune", "flush"):
        whole = lustre(command)
        assert whole["state"] == "refused"
        assert "section checkpoints" in whole["message"]


def test_local_disks_that_are_not_there_are_no_empty_hot_tier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Calls(World(tmp_path, "nvme"), tmp_path, monkeypatch)
    (calls.root / "fsx").unlink()
    assert "is not there" in calls("run")["message"]
    assert not [key for key in calls.world.aws.s3.buckets[LAKE].things if key.startswith(places.STATUS)]


def test_lustre_that_is_not_mounted_is_no_empty_hot_tier(lustre: Calls) -> None:
    mounts = lustre.root / "proc/self/mounts"
    mounts.parent.mkdir(parents=True)
    mounts.write_text("/dev/nvme0n1p1 / xfs rw 0 0\n", encoding="utf-8")
    whole = lustre("run")
    assert whole["state"] == "refused"
    assert "no Lustre file system is mounted at /fsx" in whole["message"]


def test_a_flush_of_several_nodes_goes_on_until_each_has_brought_its_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, "nvme", nodes=2)
    other = tmp_path / "disk-of-the-other"
    world.save("run1/step-1", ranks=1)
    world.put("run1/step-1/__1_0.distcp", b"the other rank", root=other)
    calls = Calls(world, tmp_path, monkeypatch)
    rounds: list[float] = []

    def sleep(seconds: float) -> None:
        world.aws.sleep(seconds)
        if len(rounds) == 3:
            world.run(node="i-other", root=other, prune=False, last=True)
        rounds.append(seconds)

    turn = functools.partial(_tier.Turn, clock=world.aws.clock, sleep=sleep)
    monkeypatch.setattr(flush, "Turn", turn)
    answer = calls.done("flush")
    assert paths(answer["checkpoints"]) == ["run1/step-1"]
    assert (answer["unsaved"], answer["waiting"]) == ([], [])
    assert "checkpoints/run1/step-1/__1_0.distcp" in world.aws.s3.content(LAKE)


def test_a_flush_that_waits_for_a_node_in_vain_ends_and_names_what_is_not_in_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, "nvme", nodes=2)
    world.save("run1/step-1")
    answer = Calls(world, tmp_path, monkeypatch).done("flush")
    assert answer["waiting"] == ["run1/step-1: waiting for the word of 1 of 2 nodes on what they hold of it"]
    assert [(each["path"], each["complete"]) for each in answer["checkpoints"]] == [("run1/step-1", False)]
    assert answer["disk"]["classes"] == {"half-written": {"files": 3, "bytes": answer["disk"]["bytes"]}}
