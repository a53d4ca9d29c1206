"""Removal from the hot tier: only what is proven elsewhere or not needed, and only what was looked at."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.life.actions import HOT, LAKE, World
from tests.life.fake_s3 import error
from tests.life.faults import Fault, Faulty, Killed
from training_storage.node.checkpoints import lake as lake_module
from training_storage.node.checkpoints import ledgers, pruning
from training_storage.node.checkpoints.model import Ledger

TIERS = ["lustre", "express"]


def with_checkpoints(tmp_path: Path, tier: str = "lustre", count: int = 6) -> World:
    world = World(tmp_path, tier)
    for number in range(1, count + 1):
        world.save(f"run1/step-{number}")
    return world


def ledger_of(world: World) -> Ledger:
    return ledgers.read_all(world.aws, LAKE)["run1"]


@pytest.mark.parametrize("tier", TIERS)
def test_the_newest_stay_and_the_rest_goes(tmp_path: Path, tier: str) -> None:
    world = with_checkpoints(tmp_path, tier)
    result = world.run()
    assert result.errors == []
    assert [each["path"] for each in result.pruned] == [f"run1/step-{number}" for number in (1, 2, 3, 4)]
    assert world.hot_paths() == {"run1/step-5", "run1/step-6"}
    assert set(world.hot()) == {name for path in world.hot_paths() for name in world.made[path]}
    assert ledger_of(world).pruning == {}
    assert [each["path"] for each in result.checkpoints] == ["run1/step-5", "run1/step-6"]


@pytest.mark.parametrize("tier", TIERS)
def test_a_due_one_whose_copy_was_lost_is_kept_and_promoted_again(tmp_path: Path, tier: str) -> None:
    world = with_checkpoints(tmp_path, tier)
    world.run(prune=False)
    world.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/step-2/__0_0.distcp")
    result = world.run(promote=False)
    assert [each for each in result.errors if "is not there" in each]
    assert "run1/step-2" in world.hot_paths()
    assert result.unsaved == ["run1/step-2"]
    again = world.run()
    assert [each["path"] for each in again.promoted] == ["run1/step-2"]
    assert {"run1/step-2", "run1/step-4", "run1/step-6"} <= world.lake_paths()
    assert world.hot_paths() == {"run1/step-5", "run1/step-6"}


@pytest.mark.parametrize("tier", TIERS)
def test_the_lake_is_looked_at_directly_before_the_removal(tmp_path: Path, tier: str) -> None:
    world = with_checkpoints(tmp_path, tier)
    world.run(prune=False)

    def loses(progress: dict[str, Any]) -> None:
        if progress["state"] == "removing" and progress["path"] == "run1/step-2":
            world.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/step-2/__0_0.distcp")

    result = world.run(report=loses)
    assert "no longer in the lake" in result.kept["run1/step-2"]
    assert world.hot_paths() == {"run1/step-2", "run1/step-5", "run1/step-6"}
    assert ledger_of(world).pruning == {}


@pytest.mark.parametrize("tier", TIERS)
def test_a_checkpoint_written_again_in_between_is_kept(tmp_path: Path, tier: str) -> None:
    world = with_checkpoints(tmp_path, tier)

    def writes(progress: dict[str, Any]) -> None:
        if progress["state"] == "removing" and progress["path"] == "run1/step-1":
            world.save("run1/step-1")

    result = world.run(report=writes)
    assert "changed since it was looked at" in result.kept["run1/step-1"]
    assert "run1/step-1" in world.hot_paths()


def test_one_that_a_pointer_names_meanwhile_is_kept(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)

    def points(progress: dict[str, Any]) -> None:
        if progress["state"] == "removing" and progress["path"] == "run1/step-1":
            world.put("run1/latest", b"step-1")

    result = world.run(report=points)
    assert "pointer" in result.kept["run1/step-1"]
    assert "run1/step-1" in world.hot_paths()


def test_newer_ones_that_vanish_meanwhile_keep_the_older(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)

    def removes(progress: dict[str, Any]) -> None:
        if progress["state"] == "removing" and progress["path"] == "run1/step-4":
            shutil.rmtree(world.checkpoints / "run1/step-6")

    result = world.run(report=removes)
    assert "run1/step-4" in result.kept
    assert {"run1/step-4", "run1/step-5"} <= world.hot_paths()


def test_a_folder_that_changes_on_its_way_to_the_trash_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = with_checkpoints(tmp_path)
    rename = Path.rename

    def writes_first(self: Path, target: Path) -> Path:
        if self.name == "step-1":
            (self / "__0_0.distcp").write_bytes(b"another epoch")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", writes_first)
    result = world.run()
    assert "changed while it was being removed" in result.kept["run1/step-1"]
    assert (world.checkpoints / "run1/step-1/__0_0.distcp").read_bytes() == b"another epoch"
    assert list((world.checkpoints / pruning.TRASH).iterdir()) == []


def test_a_symbolic_link_in_a_checkpoint_keeps_it(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    (world.checkpoints / "run1/step-1/tokenizer").symlink_to("/opt/tokenizer")
    result = world.run()
    assert "symbolic link, tokenizer" in result.kept["run1/step-1"]
    assert (world.checkpoints / "run1/step-1/tokenizer").is_symlink()
    assert "run1/step-1" in world.hot_paths()


class Stop:
    """Kills the process at the n-th act on the file system."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self.after = after

    def __call__(self, act: Any) -> Any:
        def acts(*given: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                raise Killed("before")
            answer = act(*given, **named)
            if self.left == 0:
                raise Killed("after")
            return answer

        return acts


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_act_on_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    for at in range(1, 40):
        world = with_checkpoints(tmp_path / str(at))
        world.run(prune=False)
        stop = Stop(at, after=after)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", stop(Path.rename))
            patch.setattr(os, "unlink", stop(os.unlink))
            patch.setattr(os, "rmdir", stop(os.rmdir))
            with suppress(Killed):
                world.run()
        assert {"run1/step-5", "run1/step-6"} <= world.hot_paths()
        assert {"run1/step-2", "run1/step-4", "run1/step-6"} <= world.lake_paths()
        result = world.run()
        assert result.errors == []
        assert world.hot_paths() == {"run1/step-5", "run1/step-6"}
        assert list((world.checkpoints / pruning.TRASH).glob("*")) == []
        assert ledger_of(world).pruning == {}
        if stop.left > 0:
            break
    else:
        pytest.fail("the run has more acts than were tried")


def test_what_was_not_looked_at_in_the_trash_comes_back(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    world.run(prune=False)
    found = world.find("run1/step-6")  # one of the newest: whoever put it there was wrong
    trash = pruning.trash_of(world.tree(), found.path, found.fingerprint)  # type: ignore[arg-type]  # a local tree
    trash.parent.mkdir(parents=True)
    (world.checkpoints / found.path).rename(trash)
    ledger = ledger_of(world)
    ledgers.write(
        world.aws, LAKE, Ledger("run1", ledger.numbers, ledger.last, {found.path: found.fingerprint}, ledger.etag)
    )
    assert world.run().errors == []
    assert world.hot_paths() == {"run1/step-5", "run1/step-6"}


def test_a_removal_of_another_workload_is_not_taken_for_done(tmp_path: Path) -> None:
    """Two workloads share a lake. The agent of one dies in the middle of a removal; the other finds nothing of it."""
    world = with_checkpoints(tmp_path)
    world.run(prune=False)
    stop = Stop(1, after=True)  # in the trash, and not looked at there
    with pytest.MonkeyPatch.context() as patch, suppress(Killed):
        patch.setattr(Path, "rename", stop(Path.rename))
        world.run()
    begun = ledger_of(world)
    assert list(begun.pruning) == ["run1/step-1"]
    assert begun.pruned_by == "training"
    mine, there = world.settings, world.checkpoints
    world.settings, world.checkpoints = replace(mine, workload="other"), tmp_path / "other"
    world.checkpoints.mkdir()
    assert world.run(node="i-9").errors == []
    assert ledger_of(world) == begun
    world.settings, world.checkpoints = mine, there
    assert world.run().errors == []
    assert world.hot_paths() == {"run1/step-5", "run1/step-6"}
    assert ledger_of(world).pruning == {}


def test_strangers_in_the_trash_are_named_and_left(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    stranger = world.checkpoints / pruning.TRASH / "something.gone"
    stranger.mkdir(parents=True)
    (stranger / "precious").write_text("x")
    result = world.run()
    assert any("something.gone" in each for each in result.errors)
    assert (stranger / "precious").read_text() == "x"


def test_a_place_that_was_taken_again_keeps_both(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    world.run(prune=False)
    found = world.find("run1/step-1")
    tree: Any = world.tree()
    trash = pruning.trash_of(tree, found.path, found.fingerprint)
    trash.parent.mkdir(parents=True)
    (world.checkpoints / found.path).rename(trash)
    world.save("run1/step-1")
    ledger = ledger_of(world)
    ledgers.write(
        world.aws, LAKE, Ledger("run1", ledger.numbers, ledger.last, {found.path: found.fingerprint}, ledger.etag)
    )
    for _ in range(2):  # also later: the ledger goes on naming it
        result = world.run()
        assert any("made again" in each for each in result.errors)
        assert trash.is_dir()
        assert ledger_of(world).pruning == {found.path: found.fingerprint}


# -- directory buckets


def test_what_makes_it_complete_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_module, "WORKERS", 1)
    world = with_checkpoints(tmp_path, "express")
    world.run(prune=False)
    deleted: list[str] = []
    delete = world.aws.s3.delete_object

    def notes(**given: Any) -> Any:
        deleted.append(given["Key"])
        return delete(**given)

    world.aws.s3.delete_object = notes  # type: ignore[method-assign]  # listens
    world.run()
    hot = [key for key in deleted if "step-1/" in key]
    assert hot[0] == "checkpoints/run1/step-1/.metadata"
    assert len(hot) == 3


def test_an_object_written_again_is_not_removed(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path, "express")
    world.run(prune=False)
    delete = world.aws.s3.delete_object

    def writes_first(**given: Any) -> Any:
        if given["Key"].endswith("step-1/__1_0.distcp"):
            world.aws.s3.put_object(Bucket=given["Bucket"], Key=given["Key"], Body=b"new")
        return delete(**given)

    world.aws.s3.delete_object = writes_first  # type: ignore[method-assign]  # somebody is faster
    result = world.run()
    assert "written again" in result.kept["run1/step-1"]
    assert world.hot()["run1/step-1/__1_0.distcp"] == b"new"
    world.aws.s3.delete_object = delete  # type: ignore[method-assign]  # as before
    world.run()
    assert world.hot()["run1/step-1/__1_0.distcp"] == b"new"


def test_what_was_saved_after_an_interrupted_removal_is_no_rest_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker of both has the same bytes, and so the same ETag."""
    monkeypatch.setattr(lake_module, "WORKERS", 1)
    world = with_checkpoints(tmp_path, "express")
    world.run(prune=False)
    for at in range(200):
        if _killed_at_a_delete(world, Faulty(world.aws, Fault(at, "killed-after"))):
            break
    assert ledger_of(world).pruning
    assert "run1/step-1/.metadata" not in world.hot()
    world.save("run1/step-1")
    assert world.run().errors == []
    assert world.hot_paths() == {"run1/step-1", "run1/step-6"}


def test_a_server_without_conditional_deletes(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path, "express")
    delete = world.aws.s3.delete_object

    def refuses(**given: Any) -> Any:
        if "IfMatch" in given:
            raise error("NotImplemented", "DeleteObject", status=501)
        return delete(**given)

    world.aws.s3.delete_object = refuses  # type: ignore[method-assign]  # an older server
    assert world.run().errors == []
    assert world.hot_paths() == {"run1/step-5", "run1/step-6"}


def test_the_rest_of_an_interrupted_removal_stays_where_the_lake_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_module, "WORKERS", 1)
    world = World(tmp_path, "express")
    world.settings = world.settings.from_dict(
        {**world.settings.to_dict(), "policy": {"keep_hot": 1, "promote_every": 1}}
    )
    for number in (1, 2):
        world.save(f"run1/step-{number}")
    world.run(prune=False)
    counting = Faulty(world.aws, None)
    for at in range(200):
        counting = Faulty(world.aws, Fault(at, "killed-after"))
        if _killed_at_a_delete(world, counting):
            break
    left = [name for name in world.hot() if name.startswith("run1/step-1/")]
    assert len(left) == 2
    world.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/step-1/__0_0.distcp")
    result = world.run()
    assert any("the rest of run1/step-1 is kept" in each for each in result.errors)
    assert [name for name in world.hot() if name.startswith("run1/step-1/")] == left


def _killed_at_a_delete(world: World, faulty: Faulty) -> bool:
    snapshot = {name: dict(world.aws.s3.buckets[name].things) for name in (*HOT, LAKE)}
    copies = {name: {key: list(each) for key, each in things.items()} for name, things in snapshot.items()}
    with suppress(Killed):
        world.run(faulty)
    if faulty.hit.endswith("s3.delete_object"):
        return True
    for name, things in copies.items():
        world.aws.s3.buckets[name].things = things
    return False
