"""A workload with a hot tier, for tests of promotion and pruning: it saves, and knows what must not be lost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.life.fake_aws import FakeAws
from training_storage.node.checkpoints.layouts import find_checkpoints
from training_storage.node.checkpoints.model import Checkpoint, Policy, Record
from training_storage.node.checkpoints.promotion import promote
from training_storage.node.checkpoints.run_once import run_once
from training_storage.node.checkpoints.run_result import RunResult
from training_storage.node.checkpoints.tree import BucketTree, LocalTree
from training_storage.node.settings import Link, Settings
from training_storage.node.sharding import bucket_index

LAKE = "lake"
HOT = ("hot-0--use1-az6--x-s3", "hot-1--use1-az6--x-s3")


class World:
    """One workload.

    Args:
        tmp_path: Its disks.
        tier: ``lustre``, ``express`` or ``nvme``.
        exports: Whether the link of checkpoints exports by itself.
        linked: Whether checkpoints lie under a link.
        nodes: Instances.
        keep_hot: Policy.
        promote_every: Policy.
    """

    def __init__(
        self,
        tmp_path: Path,
        tier: str = "lustre",
        *,
        exports: bool = False,
        linked: bool = True,
        nodes: int = 1,
        keep_hot: int = 2,
        promote_every: int = 2,
    ) -> None:
        self.aws = FakeAws()
        self.aws.s3.make(LAKE)
        self.root = tmp_path / "fsx"
        self.checkpoints = self.root / "checkpoints"
        self.checkpoints.mkdir(parents=True)
        self.tier = tier
        self.made: dict[str, dict[str, bytes]] = {}
        """Content of every checkpoint that was saved, by path."""
        hot_tier_id = "training"
        links: tuple[Link, ...] = ()
        if tier == "lustre":
            if linked:
                links = (Link("/checkpoints", LAKE, "checkpoints/", True, exports),)
            hot_tier_id = self.aws.fsx.make(self.root, [(each.path, LAKE, each.prefix, exports) for each in links])
        if tier == "express":
            for name in HOT:
                self.aws.s3.make(name)
        self.settings = Settings(
            workload="training",
            region="us-east-1",
            tier=tier,
            lake_bucket=LAKE,
            lake_prefix="checkpoints/",
            hot_tier_id=hot_tier_id,
            mount=str(self.root) if tier == "lustre" else "",
            checkpoints="" if tier == "express" else str(self.checkpoints),
            scratch="",
            hot_buckets=HOT if tier == "express" else (),
            links=links,
            nodes=nodes,
            policy=Policy(keep_hot=keep_hot, promote_every=promote_every),
            max_restore_s=None,
            restore_readers=1,
        )

    # -- training

    def save(self, path: str, size: int = 20, *, ranks: int = 2, complete: bool = True) -> None:
        """Save a PyTorch checkpoint, a minute after the one before."""
        self.aws.now += 60
        files = {f"{path}/__{rank}_0.distcp": os.urandom(size) for rank in range(ranks)}
        if complete:
            files[f"{path}/.metadata"] = b"metadata of " + path.encode()
        for name, body in files.items():
            self.put(name, body)
        self.made[path] = files
        if self.tier == "lustre" and self.settings.links and self.settings.links[0].exports:
            for name in files:
                self.aws.fsx.export(self.settings.hot_tier_id, f"checkpoints/{name}")

    def put(self, name: str, body: bytes, root: Path | None = None) -> None:
        """Write one file as the training job does."""
        if self.tier == "express":
            bucket = HOT[bucket_index(f"checkpoints/{name}", len(HOT))]
            self.aws.s3.put_object(Bucket=bucket, Key=f"checkpoints/{name}", Body=body)
        else:
            self.aws.write((root or self.checkpoints) / name, body)

    # -- the agent

    def tree(self, aws: Any = None, root: Path | None = None) -> LocalTree | BucketTree:
        if self.tier == "express":
            return BucketTree(aws or self.aws, HOT, "checkpoints/")
        return LocalTree(str(root or self.checkpoints))

    def run(self, aws: Any = None, *, node: str = "i-1", root: Path | None = None, **given: Any) -> RunResult:
        """Run the agent once."""
        self.aws.now += 30
        acting = aws or self.aws
        sleep: Callable[[float], None] = self.aws.sleep
        return run_once(
            acting, self.settings, self.tree(acting, root), node=node, clock=self.aws.clock, sleep=sleep, **given
        )

    def find(self, path: str) -> Checkpoint:
        """Return a checkpoint of the hot tier."""
        return next(each for each in find_checkpoints(self.tree()) if each.path == path)

    # -- what is where

    def hot(self) -> dict[str, bytes]:
        """Return what the hot tier holds, but what is ours."""
        if self.tier == "express":
            found = {key: body for name in HOT for key, body in self.aws.s3.content(name, "checkpoints/").items()}
            return {key[len("checkpoints/") :]: body for key, body in found.items()}
        return {
            each.relative_to(self.checkpoints).as_posix(): each.read_bytes()
            for each in self.checkpoints.rglob("*")
            if each.is_file() and ".training-storage" not in each.as_posix()
        }

    def hot_paths(self) -> set[str]:
        """Return the checkpoints that are whole on the hot tier."""
        hot = self.hot()
        return {path for path, files in self.made.items() if files.items() <= hot.items()}

    def lake(self) -> dict[str, bytes]:
        """Return what the lake holds of checkpoints, by path."""
        found = self.aws.s3.content(LAKE, "checkpoints/")
        return {key[len("checkpoints/") :]: body for key, body in found.items() if "/.training-storage" not in key}

    def lake_paths(self) -> set[str]:
        """Return the checkpoints that are whole in the lake."""
        lake = self.lake()
        return {path for path, files in self.made.items() if files.items() <= lake.items()}

    def recorded(self) -> dict[str, dict[str, Any]]:
        """Return the headers of all records, by path."""
        found = self.aws.s3.content(LAKE, ".training-storage/checkpoints/records/")
        headers = [json.loads(body.decode().splitlines()[0]) for body in found.values()]
        return {each["path"]: each for each in headers}

    def status(self) -> dict[str, Any]:
        """Return the last status."""
        [body] = self.aws.s3.content(LAKE, ".training-storage/checkpoints/status/").values()
        found: dict[str, Any] = json.loads(body)
        return found


PATH = "run1/step-1"
"""The checkpoint of tests that have one."""


def saved(tmp_path: Path, tier: str = "lustre", **given: Any) -> World:
    """Return a workload that has saved one checkpoint."""
    world = World(tmp_path, tier, **given)
    world.save(PATH)
    return world


def bring(world: World, aws: Any = None, **given: Any) -> Record:
    """Bring that checkpoint to the lake, as the agent does."""
    acting = aws or world.aws
    return promote(
        acting,
        world.settings,
        world.tree(acting),
        world.find(PATH),
        number=1,
        reason="every",
        clock=world.aws.clock,
        sleep=given.pop("sleep", world.aws.sleep),
        **given,
    )
