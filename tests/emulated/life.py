"""Drives one workload through its life in the emulator: deploy, nodes with the agent, a trainer, commands, release.

Everything that stands there is the product's own: synthesized templates with their file assets, Lambda code, state
machines, user data. Nodes get what their user data writes, and the package of the agent that it names; of the bootstrap
only packages, kernel modules and mounts are left out. Waits take moments, and the emulated clock goes on by what they
would have been.

    with life_of(SMALL) as life:
        life.deploy()
        trainer = life.trainer()
        trainer.save(100, eval_loss=2.5)
        print(life.command("checkpoints", "promote", life.name).out)
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import inspect
import io
import os
import pkgutil
import random
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from types import FunctionType
from typing import Any

from tests.assemblies import Assembly, synthesize
from training_storage.emulator import Emulator, Stack, emulator
from training_storage.emulator.file_system import EmulatedFileSystem
from training_storage.emulator.node import EmulatedNode
from training_storage.node.settings import Settings
from training_storage.node.sharding import bucket_index

SMALL: dict[str, Any] = {
    "name": "run",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5.48xlarge", "instance_count": 2},
    "hot_tier": "lustre",
    "dataset": {
        "size": "2 TB",
        "version": "v1",
        "average_file_size": "64 MB",
        "read_rate": {"per_accelerator": "20 MB/s"},
    },
    "checkpoints": {
        "size": "100 GB",
        "interval": "30m",
        "keep_hot": 2,
        "promote_every": 3,
        "best": {"metric": "eval_loss", "goal": "min"},
    },
}
"""A Lustre workload of two nodes: of its checkpoints two stay, every third, each best and the last go to the lake."""

STACKS = ("monitoring", "compute", "hot")
"""Stacks of a run, in the order in which a release deletes them."""

MOMENT_S = 0.03
"""How long a wait of the agent really takes."""

LOOK_S = 0.3
"""How long a command really waits between two looks: each takes time from the emulator, which works meanwhile."""

_HERE_DOCUMENT = re.compile(r"^cat >\"?([^\"\n]+)\"? <<'(\w+)'\n(.*?)^\2$", re.DOTALL | re.MULTILINE)
_PLACES = {"$TS_ETC": "/etc/training-storage", "$TS_OPT": "/opt/training-storage"}

# The agent as ``agent.sh`` starts it, but that its waits are short, and its clock goes on by what they would have been.
_AGENT = f"""import sys, time
real, now, skipped = time.sleep, time.time, [0.0]
def sleep(seconds):
    real(min(seconds, {MOMENT_S}))
    skipped[0] += max(0.0, seconds - {MOMENT_S})
time.sleep = sleep
time.time = lambda: now() + skipped[0]
sys.path.insert(0, sys.argv.pop(1))
from node.agent import main
sys.exit(main())"""


@dataclass(frozen=True)
class Said:
    """What a command ended with and printed."""

    code: int
    out: str
    err: str


def files_of(user_data: str) -> dict[str, str]:
    """Return the files that user data writes on a node, by path."""
    found = {}
    for place, _, text in _HERE_DOCUMENT.findall(user_data):
        for name, folder in _PLACES.items():
            place = place.replace(name, folder)
        found[place] = text
    return found


def values_of(lines: str) -> dict[str, str]:
    """Return the values of ``NAME='value'`` lines."""
    return {name: value.strip("'\"") for name, _, value in (line.partition("=") for line in lines.splitlines())}


class Life:
    """One workload in an emulator.

    Attributes:
        aws: The emulator.
        name: The workload's name.
        data: The workload file, as data.
        assembly: Its synthesized stacks.
        user_data: User data of each node, by instance id.
    """

    def __init__(self, aws: Emulator, data: Mapping[str, Any]) -> None:
        self.aws = aws
        self.data = dict(data)
        self.name = str(data["name"])
        self.assembly: Assembly = synthesize(self.data)
        self.user_data: dict[str, str] = {}
        self._stacks: dict[str, str] = {}
        self._packages: dict[str, Path] = {}
        self._bodies: dict[tuple[str, str, str], bytes] = {}
        aws.on_instance(self._boot)

    def client(self, service: str) -> Any:
        """Return a client; the type that code of nodes takes for ``aws``."""
        return self.aws.client(service)

    # -- stacks

    def deploy(self, *parts: str) -> dict[str, Stack]:
        """Deploy stacks of the workload, with what they depend on; all where none is named."""
        made = self.aws.deploy_assembly(self.assembly.folder, [f"{self.name}-{part}" for part in parts] or None)
        self._stacks |= {name[len(self.name) + 1 :]: stack.id for name, stack in made.items()}
        return made

    def stacks(self) -> list[str]:
        """Return the parts that are deployed, such as ``lake``."""
        return [each[len(self.name) + 1 :] for each in self.aws.stacks() if each.startswith(self.name + "-")]

    def output(self, part: str, name: str) -> str:
        """Return an output of a stack."""
        return self.aws.stack(f"{self.name}-{part}").outputs[name]

    @property
    def lake(self) -> str:
        """Name of the lake's bucket."""
        return self.output("lake", "DataLakeBucketName")

    @property
    def file_system(self) -> EmulatedFileSystem:
        """The files of the Lustre file system."""
        return self.aws.file_system(self.output("hot", "FileSystemId"))

    def deleted(self) -> list[str]:
        """Return the parts of the last deploy whose deletion has ended, in the order in which it did."""
        found = []
        for part, stack in self._stacks.items():
            events = self.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
            found += [
                (each["Timestamp"], part)
                for each in events
                if each["PhysicalResourceId"] == stack and each["ResourceStatus"] == "DELETE_COMPLETE"
            ]
        return [part for _, part in sorted(found)]

    # -- nodes

    def nodes(self) -> list[EmulatedNode]:
        """Return the nodes that run, those of the fleet and the storage node."""
        return self.aws.nodes({"training-storage:workload": self.name})

    def settings(self, node: EmulatedNode | None = None) -> Settings:
        """Return what the agent of a node knows, read as the agent reads it; the first node's when left out."""
        from training_storage.node.settings import load

        return load(str((node or self.nodes()[0]).root / "etc/training-storage/agent.json"))

    def tick(self) -> None:
        """Let a minute pass, after which the timer of every node runs its agent once.

        Raises:
            AssertionError: One failed.
        """
        self.aws.advance(60)
        for node in self.nodes():
            done = node.agent("run", "--quiet")
            assert done.returncode == 0, done.stderr

    def _boot(self, node: EmulatedNode) -> None:
        """Do what user data does on a node: write its files, and install the package that they name."""
        answer = self.client("ec2").describe_instance_attribute(InstanceId=node.id, Attribute="userData")
        text = self.user_data[node.id] = base64.b64decode(answer["UserData"]["Value"]).decode()
        files = files_of(text)
        for place, content in files.items():
            path = node.root / place.strip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        if "/etc/training-storage/agent.json" not in files:
            return
        package = self._package(values_of(files["/etc/training-storage/settings"]))
        node.install([sys.executable, "-B", "-c", _AGENT, str(package)])
        settings = self.settings(node)
        if settings.tier == "nvme":
            (node.root / settings.checkpoints.strip("/")).mkdir(parents=True, exist_ok=True)

    def _package(self, settings: Mapping[str, str]) -> Path:
        """Fetch the zip that user data fetches; return the folder that holds its package ``node``."""
        key = settings["TS_SCRIPTS_KEY"]
        if key not in self._packages:
            body = self.client("s3").get_object(Bucket=settings["TS_SCRIPTS_BUCKET"], Key=key)["Body"].read()
            folder = Path(mkdtemp(prefix="agent."))
            zipfile.ZipFile(io.BytesIO(body)).extractall(folder / "node")
            self._packages[key] = folder
        return self._packages[key]

    def close(self) -> None:
        """Remove what lies on this machine."""
        for folder in (self.assembly.folder, *self._packages.values()):
            shutil.rmtree(folder, ignore_errors=True)

    # -- data, commands

    def put(self, key: str, body: bytes) -> None:
        """Put an object into the lake."""
        self.client("s3").put_object(Bucket=self.lake, Key=key, Body=body)

    def objects(self, prefix: str = "", bucket: str = "") -> dict[str, bytes]:
        """Return the objects of a bucket; the lake's when left out."""
        s3, bucket = self.client("s3"), bucket or self.lake
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = {}
        for each in (each for page in pages for each in page.get("Contents", ())):
            known = bucket, each["Key"], each["ETag"]
            if known not in self._bodies:
                self._bodies[known] = s3.get_object(Bucket=bucket, Key=each["Key"])["Body"].read()
            found[each["Key"]] = self._bodies[known]
        return found

    def promoted(self) -> dict[str, bytes]:
        """Return what lies in the lake below its checkpoints, without reports of tasks, by path below them."""
        found = self.objects("checkpoints/")
        return {key[len("checkpoints/") :]: body for key, body in found.items() if "/.training-storage" not in key}

    def trainer(self, series: str = "run1") -> Trainer:
        """Return a training job that has not saved anything yet."""
        return Trainer(self, series)

    def command(self, *argv: str) -> Said:
        """Run ``training-storage`` in this process."""
        from training_storage.cli import main

        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main([*argv, "--region", self.aws.region])
            except SystemExit as ended:
                code = int(ended.code or 0)
        return Said(code, out.getvalue(), err.getvalue())


@dataclass
class Trainer:
    """A training job: it saves as PyTorch's Distributed Checkpoint does, wherever its workload keeps checkpoints.

    Attributes:
        life: The workload.
        series: Folder of its run.
        saved: Files of each checkpoint by its path, in the order in which they were finished.
        losses: ``eval_loss`` of each checkpoint that has one.
        beside: Files beside checkpoints, such as a configuration.
    """

    life: Life
    series: str
    saved: dict[str, dict[str, bytes]] = field(default_factory=dict)
    losses: dict[str, float] = field(default_factory=dict)
    beside: dict[str, bytes] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def save(self, step: int, *, eval_loss: float | None = None, complete: bool = True, size: int = 3000) -> str:
        """Save a checkpoint half an hour after the one before; return its path."""
        self.life.aws.advance(1800)
        path = f"{self.series}/step-{step}"
        files = {f"{path}/__{rank}_0.distcp": self.chance.randbytes(size) for rank in range(2)}
        if complete and eval_loss is not None:
            files[f"{path}/metrics.json"] = f'{{"eval_loss": {eval_loss}}}'.encode()
        if complete:
            files[f"{path}/.metadata"] = f"metadata of {path}".encode()
        for name, body in files.items():
            # Each rank writes its own shard; the first one writes the rest, where nodes have disks of their own.
            shard = name.rpartition("/__")[2].partition("_")[0]
            self._write(name, body, int(shard) if shard.isdigit() else 0)
        if complete:
            self.saved[path] = files
            if eval_loss is not None:
                self.losses[path] = eval_loss
        return path

    def put(self, path: str, body: bytes) -> None:
        """Write a file beside the checkpoints, below their folder."""
        self._write(path, body, 0)
        self.beside[path] = body

    def _write(self, path: str, body: bytes, rank: int) -> None:
        settings = self.life.settings()
        if settings.tier == "express":
            key = f"{settings.lake_prefix}{path}"
            bucket = settings.hot_buckets[bucket_index(key, len(settings.hot_buckets))]
            self.life.client("s3").put_object(Bucket=bucket, Key=key, Body=body)
            return
        nodes = self.life.nodes()
        node = nodes[rank % len(nodes)] if settings.tier == "nvme" else nodes[0]
        write(self.life, node, f"{settings.checkpoints}/{path}", body)

    def promises(self, *, keep_last: bool = True) -> dict[str, dict[str, bytes]]:
        """Return the checkpoints that the policy of the workload file promises to bring to the lake."""
        policy = self.life.data["checkpoints"]
        promised, best = {}, None
        for number, (path, files) in enumerate(self.saved.items(), 1):
            loss = self.losses.get(path)
            better = "best" in policy and loss is not None and (best is None or loss < best)
            best = loss if better else best
            if number % policy["promote_every"] == 0 or better or (keep_last and number == len(self.saved)):
                promised[path] = files
        return promised

    def newest(self) -> list[str]:
        """Return the checkpoints that stay on the hot tier whatever happens."""
        return list(self.saved)[-self.life.data["checkpoints"]["keep_hot"] :]


def write(life: Life, node: EmulatedNode, path: str, body: bytes) -> Path:
    """Write a file as a job on a node does: at the emulated time, and seen by CloudWatch where it lies on Lustre."""
    place = node.root / path.strip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(body)
    now = life.aws.now()
    os.utime(place, (now, now))
    if life.settings(node).tier == "lustre":
        file_system = life.output("hot", "FileSystemId")
        life.aws.record_io(file_system, write_bytes=len(body), connections=len(life.nodes()))
    return place


def _wait(seconds: float) -> None:
    time.sleep(min(seconds, LOOK_S))


@contextmanager
def _short_waits(clock: Callable[[], float]) -> Iterator[None]:
    """Let commands of this process wait for moments only, and see the emulated time."""
    from training_storage import operations

    changed: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for each in pkgutil.iter_modules(operations.__path__):
        module = importlib.import_module(f"{operations.__name__}.{each.name}")
        for _, function in inspect.getmembers(module, inspect.isfunction):
            defaults = function.__kwdefaults__ if isinstance(function, FunctionType) else None
            if not defaults or any(defaults is one for one, _ in changed):
                continue
            changed.append((defaults, dict(defaults)))
            for name, before, after in (("sleep", time.sleep, _wait), ("clock", time.time, clock)):
                if defaults.get(name) is before:
                    defaults[name] = after
    try:
        yield
    finally:
        for defaults, before_all in changed:
            defaults.update(before_all)


@contextmanager
def life_of(workload: Mapping[str, Any]) -> Iterator[Life]:
    """Begin the life of a workload: nothing is deployed yet, and its nodes will have the agent."""
    with emulator(region=str(workload["region"])) as aws, _short_waits(aws.now):
        # A guard waits for the minute after a delete: here CloudWatch has it at once.
        aws.metrics_lag = -180
        life = Life(aws, workload)
        try:
            yield life
        finally:
            life.close()
