"""Promotion and pruning under faults: AWS calls fail in each way, tasks fail, processes die between two lines.

What had to be kept is never lost, and one undisturbed run afterwards finishes.
"""

from __future__ import annotations

import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.life.actions import LAKE, World
from tests.life.faults import KINDS, Fault, Faulty, Killed
from training_storage.node.checkpoints import lake as lake_module
from training_storage.node.checkpoints import pruning

KEEP, EVERY = 2, 2
TIERS: dict[str, dict[str, Any]] = {
    "export-task": {"tier": "lustre"},
    "auto-export": {"tier": "lustre", "exports": True},
    "upload": {"tier": "nvme"},
    "copy": {"tier": "express"},
}


@pytest.fixture(autouse=True)
def one_request_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a fault at call n is the same in every run."""
    monkeypatch.setattr(lake_module, "WORKERS", 1)


def due(world: World) -> set[str]:
    """What the policy promises to keep in the lake: each second checkpoint, in the order of saving."""
    return {path for number, path in enumerate(world.made, 1) if number % EVERY == 0}


def assert_nothing_is_lost(world: World, told: str, lost: frozenset[str] = frozenset()) -> None:
    hot, in_lake = world.hot_paths(), world.lake_paths()
    newest = set(list(world.made)[-KEEP:])
    assert newest <= hot, told
    in_trash = _in_trash(world)
    assert due(world) <= hot | in_lake | in_trash, told
    assert set(world.recorded()) <= in_lake | lost, told


def _in_trash(world: World) -> set[str]:
    """Checkpoints that lie whole under another name, where the next run finds them."""
    if world.tier == "express":
        return set()
    found = set()
    for folder in (world.checkpoints / pruning.TRASH).glob("*"):
        there = {each.name: each.read_bytes() for each in folder.iterdir()}
        found |= {
            path for path, files in world.made.items() if {n.rpartition("/")[2]: b for n, b in files.items()} == there
        }
    return found


def assert_it_is_done(world: World, told: str) -> None:
    assert world.hot_paths() == set(list(world.made)[-KEEP:]), told
    assert due(world) <= world.lake_paths(), told
    assert set(world.recorded()) == due(world), told
    left = {key: json.loads(body)["pruning"] for key, body in _objects(world, "ledgers/").items()}
    assert not any(left.values()), told
    assert world.tier == "express" or not list((world.checkpoints / pruning.TRASH).glob("*")), told
    assert world.status()["unsaved"] == [], told
    assert not world.aws.s3.buckets[LAKE].uploads, told


def _objects(world: World, below: str) -> dict[str, bytes]:
    return world.aws.s3.content(LAKE, f".training-storage/checkpoints/{below}")


def world_with(tmp_path: Path, method: str, saved: int) -> World:
    world = World(tmp_path, keep_hot=KEEP, promote_every=EVERY, **TIERS[method])
    for number in range(1, saved + 1):
        world.save(f"run1/step-{number}")
    return world


def try_to_run(world: World, aws: Any, **given: Any) -> None:
    with suppress(Killed):
        world.run(aws, **given)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", TIERS)
def test_each_call_fails_once(tmp_path: Path, method: str, kind: str) -> None:
    world = world_with(tmp_path / "counted", method, 5)
    counting = Faulty(world.aws, None)
    world.run(counting)
    calls = len(counting.calls)
    assert calls > 15
    # Each way at another sixth of the calls; the random lives below reach the rest.
    for at in range(KINDS.index(kind), calls, len(KINDS)):
        world = world_with(tmp_path / str(at), method, 5)
        faulty = Faulty(world.aws, Fault(at, kind))
        try_to_run(world, faulty)
        assert_nothing_is_lost(world, faulty.hit)
        world.run()
        assert_it_is_done(world, faulty.hit)


def a_random_life(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    method = chance.choice(list(TIERS))
    world = world_with(tmp_path / str(seed), method, 0)
    told: list[str] = [f"seed {seed}, {method}"]
    rmtree = shutil.rmtree
    deleted: set[str] = set()
    for _ in range(chance.randint(1, 3)):
        for _ in range(chance.randint(1, 3)):
            world.save(f"run1/step-{len(world.made) + 1}")
        faulty = Faulty(world.aws, Fault(chance.randrange(60), chance.choice(KINDS)))
        what = chance.randrange(6)
        if what == 0:
            world.aws.fsx.fail_next_task = True
        elif what == 1 and world.tier == "lustre":
            victim = chance.choice([name for name in world.hot() if name.startswith("run1/")])
            world.aws.fsx.failing[f"checkpoints/{victim}"] = "S3AccessDenied"
        elif what == 2:

            def dies(folder: Any) -> None:
                for each in list(Path(folder).iterdir())[: chance.randint(0, 2)]:
                    each.unlink()
                raise Killed("while a folder is being removed")

            shutil.rmtree = dies  # type: ignore[assignment]  # the process dies inside it
        elif what == 3 and method != "auto-export" and (there := world.lake()):
            lost = chance.choice(sorted(there))  # somebody deletes an object of the lake
            if lost.rpartition("/")[0] in world.hot_paths():
                world.aws.s3.delete_object(Bucket=LAKE, Key=f"checkpoints/{lost}")
                deleted.add(lost.rpartition("/")[0])
                told.append(f"lost {lost}")
        try:
            try_to_run(world, faulty, node=chance.choice(["i-1", "i-2"]))
        finally:
            shutil.rmtree = rmtree
        told.append(faulty.hit or str(what))
        assert_nothing_is_lost(world, "; ".join(told), frozenset(deleted))
        world.aws.now += chance.choice([0, 700])
    world.aws.fsx.failing.clear()
    world.aws.fsx.fail_next_task = False
    world.aws.now += 700
    result = world.run(node="i-3")
    assert_it_is_done(world, "; ".join([*told, str(result.errors), str(result.kept)]))
    shutil.rmtree(tmp_path / str(seed))


@pytest.mark.parametrize("block", range(3))
def test_random_lives(tmp_path: Path, block: int) -> None:
    for seed in range(block * 60, (block + 1) * 60):
        a_random_life(tmp_path, seed)


@pytest.mark.slow
def test_many_random_lives(tmp_path: Path) -> None:
    for seed in range(1_000, 1_800):
        a_random_life(tmp_path, seed)
