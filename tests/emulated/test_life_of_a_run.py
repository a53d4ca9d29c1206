"""One run from its first deploy to its release and back, by the product's own code: templates, functions, agents.

What the lake has to hold is worked out here from what the trainer wrote, not by the code under test.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.emulated.life import SMALL, STACKS, Life, Trainer, life_of, write
from tests.life.faults import Fault, Faulty, Killed
from training_storage.emulator import StackFailedError
from training_storage.node.checkpoints.run_once import run_once
from training_storage.node.checkpoints.run_result import RunResult
from training_storage.node.checkpoints.tree import LocalTree
from training_storage.node.roots import rooted

pytestmark = pytest.mark.slow

SHARDS = {f"datasets/v1/shard-{number}.tar": bytes([65 + number]) * 2000 for number in range(3)}
LOSSES = (3.0, 2.5, 2.6, 2.4, 2.45, 2.7, 2.8)
"""The trainer's: numbers 1, 2 and 4 are the best so far, 3 and 6 key versions, 7 is the last; 5 stays behind."""


def begin(life: Life) -> None:
    """Deploy around a data set that is in the lake already."""
    life.deploy("lake")
    for key, body in SHARDS.items():
        life.put(key, body)
    life.deploy()


@contextmanager
def on_node(life: Life) -> Iterator[None]:
    """Let this process open files where the first node has them."""
    before = os.environ.get("TS_ROOT")
    os.environ["TS_ROOT"] = str(life.nodes()[0].root)
    try:
        yield
    finally:
        os.environ.pop("TS_ROOT")
        if before is not None:
            os.environ["TS_ROOT"] = before


def agent(life: Life, aws: Any) -> RunResult:
    """Run the agent of the first node in this process, with clients that may fail."""
    settings = life.settings()
    with on_node(life):
        return run_once(
            aws,
            settings,
            LocalTree(rooted(settings.checkpoints)),
            node=life.nodes()[0].id,
            clock=life.aws.now,
            sleep=life.aws.advance,
        )


def hot(life: Life) -> dict[str, bytes]:
    """Return the files below the checkpoints folder, by path below it."""
    files = life.file_system
    return {
        path[len("checkpoints/") :]: files.read(path)
        for path in files.files("checkpoints")
        if "/.training-storage" not in path
    }


def whole(trainer: Trainer, found: dict[str, bytes]) -> set[str]:
    """Return the checkpoints whose every file is there as it was written."""
    return {path for path, files in trainer.saved.items() if files.items() <= found.items()}


def recorded(life: Life) -> dict[str, list[str]]:
    """Return the files of each record of a promotion."""
    found = life.objects(".training-storage/checkpoints/records/")
    records = [[json.loads(line) for line in body.splitlines()] for body in found.values()]
    return {first["path"]: [each["path"] for each in files] for first, *files in records}


def nothing_is_lost(life: Life, trainer: Trainer, context: str) -> None:
    """What has to be in the lake is there, recorded and equal, or still on the hot tier, with the newest ones."""
    there, lake = whole(trainer, hot(life)), whole(trainer, life.promoted())
    proven = set(recorded(life))
    due = set(trainer.promises(keep_last=False))
    assert proven <= lake, f"{context}: recorded, and not in the lake: {proven - lake}"
    assert due <= there | (lake & proven), f"{context}: lost {due - there - (lake & proven)}"
    assert set(trainer.newest()) <= there, f"{context}: the newest went"


def flat(checkpoints: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    return {path: body for files in checkpoints.values() for path, body in files.items()}


def test_a_run_whose_agent_is_killed_at_every_step() -> None:
    with life_of(SMALL) as life:
        begin(life)
        trainer = life.trainer()
        for number, loss in enumerate(LOSSES, 1):
            trainer.save(number * 100, eval_loss=loss)
        half = trainer.save(750, complete=False)
        trainer.put("run1/config.json", b"{}")
        step, kills, seen = 800, 0, set()
        for number in range(400):
            ended = 0
            for kind in ("killed-before", "killed-after"):
                if kills % 4 == 0:  # always something to promote and to prune
                    trainer.save(step, eval_loss=3.0)
                    step += 100
                faulty = Faulty(life.client, Fault(number, kind))
                try:
                    agent(life, faulty)
                    ended += not faulty.hit
                except Killed:
                    kills += 1
                    seen.add(faulty.calls[-1])
                nothing_is_lost(life, trainer, faulty.hit or "undisturbed")
            if ended == 2:
                break
        assert ended == 2
        assert kills > 50
        assert seen >= {"fsx.create_data_repository_task", "s3.put_object", "s3.list_objects_v2"}
        result = agent(life, life.client)
        assert (result.errors, result.unsaved) == ([], [])
        assert whole(trainer, hot(life)) == set(trainer.newest())
        assert half in {each["path"] for each in result.checkpoints}
        assert life.promoted() == flat(trainer.promises(keep_last=False))

        # A whole process is killed while FSx exports; another node finishes.
        while trainer.saved and step:
            path = trainer.save(step, eval_loss=3.0)
            step += 100
            if path in trainer.promises(keep_last=False):
                break
        life.aws.hold_tasks(life.file_system.id)
        first, second = life.nodes()
        process = first.start('"$TS_ROOT/opt/training-storage/bin/agent" run')
        deadline = time.monotonic() + 30
        tasks = life.client("fsx").describe_data_repository_tasks
        while not any(each["Lifecycle"] == "EXECUTING" for each in tasks()["DataRepositoryTasks"]):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        first.stop(process, signal.SIGKILL)
        assert first.finish(process)[0] == 137
        life.aws.hold_tasks(life.file_system.id, held=False)
        nothing_is_lost(life, trainer, "SIGKILL")
        assert path not in recorded(life)
        life.aws.advance(601)  # the turn of a node that died is over then
        done = second.agent("run")
        assert done.returncode == 0, done.stderr
        assert [each["path"] for each in json.loads(done.stdout)["promoted"]] == [path]
        nothing_is_lost(life, trainer, "after SIGKILL")
        assert life.promoted() == flat(trainer.promises(keep_last=False))


def test_a_run_by_hand() -> None:
    with life_of(SMALL) as life:
        begin(life)
        assert sorted(life.file_system.released()) == [key.replace("/v1", "") for key in SHARDS]
        said = life.command("preload", life.name)
        assert said.code == 0, said
        assert f"loaded                     {len(SHARDS)} files" in said.out
        assert life.file_system.released() == []
        trainer = life.trainer()
        for number, loss in enumerate(LOSSES, 1):
            trainer.save(number * 100, eval_loss=loss)
        said = life.command("checkpoints", "list", life.name, "--format", "json")
        listed = json.loads(said.out)
        due = {each["path"] for each in listed["hot"] if each["due"]}
        assert due == set(trainer.promises(keep_last=False))
        said = life.command("checkpoints", "prune", life.name)
        assert said.code == 0, said
        assert whole(trainer, hot(life)) == set(trainer.promises(keep_last=False)) | set(trainer.newest())
        assert life.command("checkpoints", "promote", life.name, "--path", "run1/step-700").code == 0
        assert life.promoted() == flat(trainer.promises())
        assert life.command("checkpoints", "prune", life.name).code == 0
        assert whole(trainer, hot(life)) == set(trainer.newest())
        assert life.command("checkpoints", "verify", life.name).code == 0
        said = life.command("checkpoints", "restore-drill", life.name, "--format", "json")
        assert said.code == 0, said
        drilled = {each["source"]: each["checkpoint"] for each in json.loads(said.out)["drills"]}
        assert drilled == {"hot": "run1/step-700", "lake": "run1/step-700"}
        life.put("checkpoints/run1/step-100/.metadata", b"damaged")
        said = life.command("checkpoints", "verify", life.name)
        assert said.code == 1
        assert "run1/step-100/.metadata" in said.out


def refused(life: Life, *argv: str) -> str:
    said = life.command("release", life.name, "--yes", *argv)
    assert said.code == 1, said
    assert set(life.stacks()) >= set(STACKS)
    return said.out + said.err


def test_a_run_is_released_and_comes_back() -> None:
    with life_of(SMALL) as life:
        begin(life)
        trainer = life.trainer()
        for number, loss in enumerate(LOSSES, 1):
            trainer.save(number * 100, eval_loss=loss)
        trainer.save(750, complete=False)
        trainer.put("run1/config.json", b'{"lr": 1e-4}')
        node = life.nodes()[0]
        assert node.agent("run").returncode == 0
        write(life, node, "/fsx/scratch/shuffle.bin", b"0" * 5000)
        file_system = life.file_system.id

        fsx = life.client("fsx")
        life.aws.hold_tasks(file_system)
        task = fsx.create_data_repository_task(
            FileSystemId=file_system, Type="IMPORT_METADATA_FROM_REPOSITORY", Report={"Enabled": False}
        )["DataRepositoryTask"]["TaskId"]
        assert task in refused(life)
        life.aws.hold_tasks(file_system, held=False)
        life.file_system.settle()

        write(life, life.nodes()[0], "/fsx/datasets/shard-0.tar", b"changed")
        told = refused(life)
        assert "/fsx/datasets/shard-0.tar" in told
        assert "--leave" in told
        leave = ("--leave", "/fsx/datasets/shard-0.tar")

        for minute in range(40):
            life.aws.record_io(file_system, write_bytes=1e9, at=life.aws.now() + 60 * minute)
        assert f"writes to {file_system}" in refused(life, *leave)
        life.aws.advance(40 * 60)

        # Nothing goes past the guard before there is a proof; then no fleet is left to look, and the storage node does.
        life.aws.destroy("run-monitoring")
        life.aws.destroy("run-compute")
        with pytest.raises(StackFailedError, match="`training-storage release run`"):
            life.aws.destroy("run-hot")
        assert life.file_system.id == file_system
        assert whole(trainer, hot(life)) >= set(trainer.newest())
        links = fsx.describe_data_repository_associations()["Associations"]
        assert sorted(each["FileSystemPath"] for each in links) == ["/checkpoints", "/datasets"]
        assert life.nodes() == []

        said = life.command("release", life.name, "--yes", *leave)
        assert said.code == 0, said
        assert sorted(life.stacks()) == ["lake", "network"]
        assert life.nodes() == []
        promised = flat(trainer.promises()) | trainer.beside
        assert life.promoted() == promised
        assert life.objects("datasets/") == SHARDS

        # The run comes back from what the lake holds.
        life.deploy()
        assert life.file_system.id != file_system
        names = {f"checkpoints/{path}" for path in promised} | {key.replace("/v1", "") for key in SHARDS}
        assert set(life.file_system.files()) >= names
        assert set(life.file_system.released()) >= names
        newest = trainer.newest()[-1]
        said = life.command("preload", life.name, "--path", f"/checkpoints/{newest}")
        assert said.code == 0, said
        assert not [path for path in life.file_system.released() if newest in path]
        for path, body in trainer.saved[newest].items():
            assert (life.file_system.path / "checkpoints" / path).read_bytes() == body

        said = life.command("release", life.name, "--yes")
        assert said.code == 0, said
        assert life.deleted() == list(STACKS)
        assert life.promoted() == promised
        lake = life.lake
        life.aws.destroy("run-lake")
        assert {key[len("checkpoints/") :] for key in life.objects("checkpoints/run1", lake)} == set(promised)


def test_a_failed_create_of_the_hot_stack_is_taken_back_with_its_guard() -> None:
    with life_of(SMALL) as life:
        life.deploy("lake")
        template = copy.deepcopy(life.assembly.templates["run-hot"])
        guarded = [name for name, each in template["Resources"].items() if "ServiceToken" in each.get("Properties", {})]
        assert guarded
        template["Resources"]["Broken"] = {
            "Type": "AWS::S3::Bucket",
            "DependsOn": guarded,
            "Properties": {"Unknown": 1},
        }
        place = life.assembly.folder / "run-hot.template.json"
        whole_template = place.read_text(encoding="utf-8")
        place.write_text(json.dumps(template), encoding="utf-8")
        with pytest.raises(StackFailedError, match="Unknown") as failed:
            life.deploy("hot")
        assert failed.value.status == "ROLLBACK_COMPLETE"
        assert life.client("fsx").describe_file_systems()["FileSystems"] == []
        place.write_text(whole_template, encoding="utf-8")
        life.deploy()
        assert life.stacks()[-1] == "monitoring"


EXPRESS = {key: value for key, value in SMALL.items() if key != "hot_tier"} | {
    "hot_tier": "express",
    "dataset": {**SMALL["dataset"], "interface": "object"},
    "express": {"removal": "delete"},
}
DISKS = {**SMALL, "hot_tier": "none"}


def five_saved(life: Life) -> Trainer:
    trainer = life.trainer()
    for number, loss in enumerate(LOSSES[:5], 1):
        trainer.save(number * 100, eval_loss=loss)
    trainer.save(550, complete=False)
    return trainer


def test_a_run_on_directory_buckets() -> None:
    with life_of(EXPRESS) as life:
        life.deploy()
        (bucket,) = life.settings().hot_buckets
        trainer = five_saved(life)
        for action in ("promote", "prune"):
            said = life.command("checkpoints", action, life.name)
            assert said.code == 0, said
        assert life.promoted() == flat(trainer.promises(keep_last=False))
        assert {path.rpartition("/")[0] for path in on_tier(life)} == {*trainer.newest(), "run1/step-550"}
        there = life.objects("", bucket)
        said = life.command("release", life.name, "--dry-run")
        assert said.code == 0, said
        assert f"after the proof, {len(there)} objects" in said.out
        assert life.objects("", bucket) == there
        # No stack deletes a bucket that holds anything: the release removes what its proof covers, and nothing before.
        said = life.command("release", life.name, "--yes")
        assert said.code == 0, said
        assert f"in 1 directory bucket, after the fleet is gone: {bucket}" in said.out
        assert "removing from the directory buckets what the proof covers" in said.err
        assert bucket not in [each["Name"] for each in life.client("s3").list_directory_buckets()["Buckets"]]
        assert life.deleted() == list(STACKS)
        assert life.promoted() == flat(trainer.promises())


def test_a_run_on_local_disks() -> None:
    """Each node brings, and removes, its part when the node whose turn it is has asked for it.

    Its release: test_spread_life.py.
    """
    with life_of(DISKS) as life:
        life.deploy()
        assert life.settings().tier == "nvme"
        trainer = five_saved(life)
        for _ in range(2):
            life.tick()
        assert life.promoted() == flat(trainer.promises(keep_last=False))
        assert {path.rpartition("/")[0] for path in on_tier(life)} == {*trainer.newest(), "run1/step-550"}


def on_tier(life: Life) -> dict[str, bytes]:
    """Return what lies on directory buckets, or on the disks of all nodes, by path below the checkpoints."""
    settings = life.settings()
    if settings.tier == "express":
        found: dict[str, bytes] = {}
        for bucket in settings.hot_buckets:
            found |= life.objects(settings.lake_prefix, bucket)
        return {key[len(settings.lake_prefix) :]: body for key, body in found.items()}
    roots = [node.root / settings.checkpoints.strip("/") for node in life.nodes()]
    return {
        place.relative_to(root).as_posix(): place.read_bytes()
        for root in roots
        for place in root.rglob("*")
        if place.is_file() and ".training-storage" not in place.as_posix()[len(root.as_posix()) :]
    }
