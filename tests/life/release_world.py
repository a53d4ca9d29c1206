"""A run that is to be released: a file system in a folder, a lake, stacks, nodes that work commands in this process."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.life.fake_aws import FakeAws
from tests.life.faults import Killed
from training_storage.node import places
from training_storage.node.commands import manifest as manifest_command
from training_storage.node.commands import survey as survey_command
from training_storage.node.errors import Refusal
from training_storage.node.release.manifest import manifest
from training_storage.node.release.steps import STEPS, run
from training_storage.node.release.survey import check_place, survey
from training_storage.node.settings import Link, Settings

NAME = "run"
LAKE = "lake"
TAGS = {"training-storage:workload": NAME}


def drive(
    made: FakeAws,
    workload: str,
    action: str,
    *,
    aws: Any = None,
    before: Callable[[str], None] = lambda _step: None,
    tries: int = 1,
    waits: list[str] | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Drive the steps of a release as the state machine does, and return the state that they end in.

    Args:
        made: The cloud, with its clock.
        workload: The workload's name.
        action: What is asked for.
        aws: Clients of the steps. Left out: the cloud's own.
        before: Called before each step.
        tries: How often a step that fails is worked.
        waits: Takes what is said of each wait.
        given: The rest of the input.

    Raises:
        Exception: A step failed more often than that.
    """
    state: dict[str, Any] = {"workload": workload, "lake_bucket": LAKE, "action": action, **given}
    for step in STEPS:
        before(step)
        for _ in range(1000):
            state = _tried(step, state, made, aws or made, tries)
            if state["status"] != "again":
                break
            if waits is not None:
                waits.append(state["waiting_for"])
            made.sleep(state["wait"])
        else:
            raise AssertionError(f"{step} never ends: {state}")
        if state["status"] != "next":
            return state
    return state


def _tried(step: str, state: dict[str, Any], made: FakeAws, aws: Any, tries: int) -> dict[str, Any]:
    for number in range(tries):
        try:
            return run(step, state, aws, made.clock, made.sleep, workers=1)
        except Exception:
            if number == tries - 1:
                raise
            made.sleep(15)
    raise AssertionError


class World:
    """A deployed run on Lustre.

    Args:
        root: A folder for the node's root.
        exports: Whether the checkpoints' link exports by itself.
        links: Whether there are links at all.
    """

    def __init__(self, root: Path, *, exports: bool = False, links: bool = True, fleet: int = 0) -> None:
        self.waits: list[str] = []
        """What a release said of each of its waits."""
        self.root = root
        self.aws = FakeAws()
        self.node_aws: Any = self.aws
        self.aws.s3.make(LAKE)
        self.mount = root / "fsx"
        self.mount.mkdir(parents=True, exist_ok=True)
        theirs = (
            [("/datasets", LAKE, "datasets/", False), ("/checkpoints", LAKE, "checkpoints/", exports)] if links else []
        )
        self.id = self.aws.fsx.make(self.mount, theirs)
        self.settings = Settings.from_dict(
            {
                "workload": NAME,
                "region": "us-east-1",
                "tier": "lustre",
                "lake_bucket": LAKE,
                "hot_tier_id": self.id,
                "mount": "/fsx",
                "checkpoints": "/fsx/checkpoints",
                "scratch": "/fsx/scratch",
                "links": [vars(Link(path, bucket, prefix, not each, each)) for path, bucket, prefix, each in theirs],
                "policy": {"keep_hot": 2, "promote_every": 3},
            }
        )
        self.aws.cloudformation.make(f"{NAME}-monitoring")
        self.aws.cloudformation.make(f"{NAME}-compute")
        self.aws.cloudformation.make(
            f"{NAME}-hot",
            {"FileSystemId": self.id},
            [{"ResourceType": "AWS::FSx::FileSystem", "PhysicalResourceId": self.id, "LogicalResourceId": "Fs"}],
        )
        self.aws.cloudformation.on_delete = self._stack_goes
        self.aws.machines.group(f"{NAME}-storage-node", {**TAGS, "training-storage:role": "storage-node"}, 0, 1)
        self.aws.machines.group(f"{NAME}-fleet", TAGS, fleet, 8)
        self.aws.machines.run = self._run
        self.lost: dict[str, bytes] = {}
        """Everything that lay on the file system when it went, by path below the mount."""
        self.gone = False
        self.aws.sleep(3600)

    def _stack_goes(self, name: str) -> None:
        if name == f"{NAME}-compute":
            self.aws.machines.group(f"{NAME}-fleet", TAGS, 0, 8)
        if name == f"{NAME}-hot":
            assert not any(each["Lifecycle"] in ("PENDING", "EXECUTING", "CANCELING") for each in self.aws.fsx.tasks)
            self.lost = self.content()
            self.gone = True
            self.aws.fsx.systems.pop(self.id, None)
            self.aws.machines.group(f"{NAME}-storage-node", TAGS, 0, 1)

    def content(self) -> dict[str, bytes]:
        """Return every file of the file system."""
        return {
            each.relative_to(self.mount).as_posix(): each.read_bytes()
            for each in self.mount.rglob("*")
            if each.is_file()
        }

    def write(self, path: str, body: bytes = b"x", *, age: float = 3000.0) -> None:
        """Write a file below the mount, so long ago."""
        file = self.mount / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)
        stamp = int((self.aws.now - age) * 1e9)
        os.utime(file, ns=(stamp, stamp))

    def train(self, path: str, body: bytes = b"new") -> None:
        """Write a file now, as a training job does."""
        self.aws.write(self.mount / path, body, self.id)

    def dataset(self, path: str, body: bytes = b"data") -> None:
        """Put an object into the lake, and the file that FSx imports."""
        self.aws.s3.put_object(Bucket=LAKE, Key=f"datasets/{path}", Body=body)
        self.write(f"datasets/{path}", body, age=0.0)

    def checkpoint(self, step: int, *, complete: bool = True, series: str = "run1", age: float = 3000.0) -> None:
        """Write a checkpoint with a marker."""
        folder = f"checkpoints/{series}/step-{step}"
        for rank in range(2):
            body = f"{series} {step} {rank}".encode()
            self.write(f"{folder}/rank{rank}.pt", body if complete else body[:-1], age=age - step)
        if complete:
            self.write(f"{folder}/COMPLETE", b"", age=age - step)

    def fill(self) -> None:
        """Write what a run leaves: data sets, checkpoints, configuration, scratch."""
        for number in range(3):
            self.dataset(f"shard-{number}.tar", f"shard {number}".encode())
        for step in range(1, 6):
            self.checkpoint(step)
        self.checkpoint(9, complete=False)
        self.write("checkpoints/run1/config.json", b"{}")
        self.write("checkpoints/run1/.training-storage/lock", b"mine")
        self.write("scratch/tmp.bin", b"0" * 10)
        self.write(".training-storage-probe", b"")
        self.aws.sleep(1000)

    # -- nodes

    def _run(self, instance: str, text: str) -> tuple[int, str, str]:
        words = shlex.split(text)[1:]
        parser = argparse.ArgumentParser()
        parser.add_argument("--command-id")
        module: Any = {"survey": survey_command, "manifest": manifest_command}[words[0]]
        module.add_arguments(parser)
        given = parser.parse_args(words[1:])
        state, code, answer, message = "done", 0, None, ""
        try:
            with node_root(self.root):
                check_place(self.settings, given.hot_tier_id, given.mount_name)
                work: Callable[..., Any] = survey if words[0] == "survey" else manifest
                answer = work(
                    self.node_aws,
                    self.settings,
                    run=given.run,
                    leave=given.leave,
                    clock=self.aws.clock,
                    **({"part_size": 4} if work is manifest else {}),
                )
        except Refusal as refusal:
            state, code, message = "refused", 1, str(refusal)
        except Killed:
            return 137, "", "Killed"
        except Exception as error:
            state, code, message = "failed", 3, str(error)
        body = json.dumps({"state": state, "exit_code": code, "answer": answer, "message": message})
        self.aws.s3.put_object(Bucket=LAKE, Key=f"{places.ANSWERS}{given.command_id}/{instance}.json", Body=body)
        return code, "", message

    # -- driving

    def release(
        self,
        action: str = "release",
        *,
        aws: Any = None,
        before: Callable[[str], None] = lambda _step: None,
        tries: int = 6,
        **given: Any,
    ) -> dict[str, Any]:
        """Drive the steps as the state machine does, and return the state that they end in.

        Raises:
            Exception: A step failed more often than the state machine tries.
        """
        return drive(self.aws, NAME, action, aws=aws, before=before, tries=tries, waits=self.waits, **given)

    def kept(self) -> set[str]:
        """Return the files that the policy of this world wants in the lake, of those that ``fill`` writes."""
        wanted = {"checkpoints/run1/config.json"}
        for step in (3, 5):
            wanted |= {f"checkpoints/run1/step-{step}/{name}" for name in ("rank0.pt", "rank1.pt", "COMPLETE")}
        return wanted

    def lake(self) -> dict[str, bytes]:
        """Return the lake's objects below the links."""
        return {key: body for key, body in self.aws.s3.content(LAKE).items() if not key.startswith(places.ROOT)}


@contextmanager
def node_root(root: Path) -> Iterator[None]:
    """Let a folder stand for the root of a node."""
    before = os.environ.get("TS_ROOT")
    os.environ["TS_ROOT"] = str(root)
    try:
        yield
    finally:
        if before is None:
            del os.environ["TS_ROOT"]
        else:
            os.environ["TS_ROOT"] = before


@contextmanager
def world(**given: Any) -> Iterator[World]:
    """Make a world in memory, where the machine has such a place."""
    shm = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shm if shm.is_dir() and os.access(shm, os.W_OK) else None) as folder:
        yield World(Path(folder), **given)
