"""What a node's agent knows of its workload: ``/etc/training-storage/agent.json``, written by user data.

The same object, as JSON, is what the release function gets of a hot tier without a shared file system.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .checkpoints.model import Best, Policy

PATH = "/etc/training-storage/agent.json"

HOT_URIS = "TRAINING_STORAGE_HOT_URIS"
"""Line of the file ``env`` beside the settings that names the directory buckets, in the order of their index."""


@dataclass(frozen=True)
class Link:
    """A directory of the file system that is linked to a prefix of a bucket.

    Attributes:
        path: Directory below the root of the file system: ``/checkpoints``; ``/`` for the whole.
        bucket: The bucket.
        prefix: Key prefix with a trailing slash; empty for the whole bucket.
        imports: Whether anything is imported: by itself, or the listing at creation.
        exports: Whether FSx exports by itself; export tasks cannot run beside it.
    """

    path: str
    bucket: str
    prefix: str
    imports: bool
    exports: bool


@dataclass(frozen=True)
class Settings:
    """Settings of the agent.

    Attributes:
        workload: The workload's name.
        region: Region of everything.
        tier: ``lustre``, ``express`` or ``nvme``: where training writes checkpoints.
        lake_bucket: The data lake.
        lake_prefix: Where checkpoints lie in it; ``checkpoints/``.
        hot_tier_id: ``fs-...`` on Lustre, the workload's name otherwise.
        mount: Where the file system is mounted (``/fsx``); empty without one.
        checkpoints: Folder that holds checkpoints (``/fsx/checkpoints``, ``/opt/dlami/nvme/checkpoints``); empty for
            object code, and where there is no checkpoint policy.
        scratch: Folder that is never exported; empty without one.
        hot_buckets: Directory buckets in the order of their index; empty but on ``express``.
        links: Links of the file system.
        nodes: Instances of the fleet.
        policy: The policy; None for a workload without checkpoints.
        max_restore_s: Seconds that a restart may take to read a checkpoint; None without checkpoints.
        restore_readers: Replicas that each read a whole checkpoint at a restart.
    """

    workload: str
    region: str
    tier: str
    lake_bucket: str
    lake_prefix: str
    hot_tier_id: str
    mount: str
    checkpoints: str
    scratch: str
    hot_buckets: tuple[str, ...]
    links: tuple[Link, ...]
    nodes: int
    policy: Policy | None
    max_restore_s: float | None
    restore_readers: int

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Settings:
        """Read settings; a key that is not there takes its emptiest value.

        Raises:
            KeyError: The workload, region, tier or lake bucket is not there.
        """
        policy = given.get("policy")
        best = policy.get("best") if policy else None
        return cls(
            workload=given["workload"],
            region=given["region"],
            tier=given["tier"],
            lake_bucket=given["lake_bucket"],
            lake_prefix=given.get("lake_prefix", "checkpoints/"),
            hot_tier_id=given.get("hot_tier_id") or given["workload"],
            mount=given.get("mount", ""),
            checkpoints=given.get("checkpoints", ""),
            scratch=given.get("scratch", ""),
            hot_buckets=tuple(given.get("hot_buckets", ())),
            links=tuple(Link(**each) for each in given.get("links", ())),
            nodes=int(given.get("nodes", 1)),
            policy=None
            if policy is None
            else Policy(
                keep_hot=int(policy["keep_hot"]),
                promote_every=int(policy["promote_every"]),
                best=None if best is None else Best(metric=best["metric"], goal=best["goal"]),
                incomplete_expires_after_s=int(policy.get("incomplete_expires_after_s", 86_400)),
            ),
            max_restore_s=given.get("max_restore_s"),
            restore_readers=int(given.get("restore_readers", 1)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data that ``from_dict`` reads."""
        policy = self.policy
        return {
            "workload": self.workload,
            "region": self.region,
            "tier": self.tier,
            "lake_bucket": self.lake_bucket,
            "lake_prefix": self.lake_prefix,
            "hot_tier_id": self.hot_tier_id,
            "mount": self.mount,
            "checkpoints": self.checkpoints,
            "scratch": self.scratch,
            "hot_buckets": list(self.hot_buckets),
            "links": [dict(vars(each)) for each in self.links],
            "nodes": self.nodes,
            "policy": None
            if policy is None
            else {
                "keep_hot": policy.keep_hot,
                "promote_every": policy.promote_every,
                "best": None if policy.best is None else dict(vars(policy.best)),
                "incomplete_expires_after_s": policy.incomplete_expires_after_s,
            },
            "max_restore_s": self.max_restore_s,
            "restore_readers": self.restore_readers,
        }

    def link_of(self, path: str) -> Link | None:
        """Return the link that a path on the file system lies under; None for one that no link holds.

        Args:
            path: Absolute path with the mount: ``/fsx/checkpoints/run1``.
        """
        inner = "/" + path[len(self.mount) :].strip("/") if path.startswith(self.mount.rstrip("/") + "/") else ""
        for each in self.links:
            base = "/" + each.path.strip("/")
            if inner and (base == "/" or inner == base or inner.startswith(base + "/")):
                return each
        return None


def load(path: str = PATH) -> Settings:
    """Read the settings of this node, with the directory buckets of the file ``env`` where they name none themselves.

    Args:
        path: The file. Left out: where user data writes it.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no JSON.
    """
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123 - the room's modules load nothing that they can spare
        given = dict(json.load(stream))
    if given.get("tier") == "express" and not given.get("hot_buckets"):
        given["hot_buckets"] = _hot_buckets(path.rpartition("/")[0] + "/env")
    return Settings.from_dict(given)


def _hot_buckets(path: str) -> list[str]:
    with open(path, encoding="utf-8") as stream:  # noqa: PTH123 - as above
        values = [line.partition("=")[2].strip().strip('"') for line in stream if line.startswith(HOT_URIS + "=")]
    return [uri[len("s3://") :].strip("/") for uri in ",".join(values).split(",") if uri]
