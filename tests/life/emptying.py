"""A run on directory buckets that their stack deletes: a bucket that holds anything does not go."""

from __future__ import annotations

from typing import Any

from tests.life.fake_s3 import moment
from tests.life.release_world import LAKE, NAME, drive
from tests.life.test_release_tiers import HOT, Tier
from training_storage.node.checkpoints.layouts import find_checkpoints
from training_storage.node.checkpoints.tree import BucketTree

HOT_STACK = f"{NAME}-hot"


class Emptied(Tier):
    """A run whose release empties its directory buckets.

    Attributes:
        saved: What lay in the buckets before any release.
        waits: What releases said while they were at it.
    """

    def __init__(self) -> None:
        super().__init__("express")
        self.saved: dict[str, bytes] = {}
        self.waits: list[str] = []
        self.fill()
        self.saved = self.hot()

    def _goes(self, name: str) -> None:
        if name == HOT_STACK:
            assert self.hot() == {}, "a bucket that is not empty cannot be deleted"
            assert not any(self.aws.s3.buckets[each].uploads for each in HOT), "uploads keep a bucket too"
        super()._goes(name)

    def release(
        self, action: str = "release", before: Any = lambda _step: None, aws: Any = None, tries: int = 1, **given: Any
    ) -> dict[str, Any]:
        """Drive the steps as the machine of a release that empties does."""
        return drive(
            self.aws, NAME, action, aws=aws, before=before, tries=tries, waits=self.waits, **{"empties": True, **given}
        )

    @property
    def gone(self) -> bool:
        """Whether the hot stack is deleted."""
        return HOT_STACK not in self.aws.cloudformation.stacks

    def kept(self) -> set[str]:
        """Return the keys that have to be in the lake, of what ``fill`` writes."""
        ends = ("config.json", "a.tar")
        return {key for key in self.saved if "/step-3/" in key or "/step-5/" in key or key.endswith(ends)}

    def nothing_lost(self, told: str = "") -> None:
        """Look whether everything that has to be kept is in the lake, or still where it was."""
        lake, hot = self.aws.s3.content(LAKE), self.hot()
        for key in self.kept():
            assert self.saved[key] in (lake.get(key), hot.get(key)), f"{told}: {key} is lost"
        if hot != self.saved:  # a removal has begun: nothing that has to be kept rests on the buckets any more
            assert {key: lake.get(key) for key in self.kept()} == {key: self.saved[key] for key in self.kept()}, told

    def no_smaller_ones(self, told: str = "") -> None:
        """Look whether each checkpoint that looks complete has all its files."""
        for each in find_checkpoints(BucketTree(self.aws, HOT, "checkpoints/")):
            there = {f"checkpoints/{file.path}" for file in each.files}
            whole = {key for key in self.saved if key.startswith(f"checkpoints/{each.path}/")}
            assert not each.complete or there == whole, f"{told}: {each.path}"

    def rename(self, key: str, to: str) -> None:
        """Rename an object, as directory buckets can: it keeps its time and its ETag."""
        for each in HOT:
            things = self.aws.s3.buckets[each].things
            if key in things:
                things[to] = things.pop(key)

    def again_as_new(self) -> None:
        """Deploy a stack of the same name, with buckets of the same names."""
        resources = [
            {"ResourceType": "AWS::S3Express::DirectoryBucket", "PhysicalResourceId": each, "LogicalResourceId": each}
            for each in HOT
        ]
        self.aws.cloudformation.make(HOT_STACK, {"DirectoryBucketNames": ",".join(HOT)}, resources)
        made = self.aws.cloudformation.stacks[HOT_STACK]
        made["StackId"] = made["StackId"][:-1] + "1"
        made["CreationTime"] = moment(self.aws.now)
