"""What the commands on checkpoints share: the hot tier of this node, a run of the agent, and how it is answered."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Callable

from ..aws import Aws
from ..checkpoints import orders, parts
from ..checkpoints.run_once import run_once
from ..checkpoints.run_result import RunResult
from ..checkpoints.tree import BucketTree, LocalTree, Tree
from ..errors import Failure, Refusal
from ..release.hold import held_until
from ..release.survey import check_place
from ..roots import node_name, rooted
from ..settings import Settings

Progress = Callable[[dict[str, Any]], None]

LONGEST_WAIT_S = 900.0
"""How long a command waits for the node whose turn it is; the turn of a node that has died is over by then."""
LOOK_S = 5.0
LEAST_S = 60.0
"""How long a node of several goes on looking: another may begin later, and then wants its part."""
STUCK_S = 900.0
"""How long it waits for others while nothing changes; what is still missing then stands in the answer."""
_SHOWN = 5


def tree_of(settings: Settings, aws: Aws) -> Tree:
    """Return the hot tier that holds checkpoints.

    Raises:
        Refusal: There is no policy, or it is not there: what is not mounted would look like one that is empty.
    """
    if settings.policy is None:
        raise Refusal(f"{settings.workload} has no checkpoint policy; fix: a section checkpoints in its workload file")
    if settings.tier == "express":
        if not settings.hot_buckets:
            raise Refusal(f"the settings of {settings.workload} name no directory buckets")
        return BucketTree(aws, settings.hot_buckets, settings.lake_prefix)
    if settings.tier == "lustre":
        check_place(settings, "", "")
    elif not os.path.isdir(rooted(settings.checkpoints)):  # noqa: PTH112 - as in ``settings``
        raise Refusal(f"{settings.checkpoints} is not there; the bootstrap makes it on local disks of the node")
    return LocalTree(rooted(settings.checkpoints))


def relative(settings: Settings, paths: Iterable[str]) -> frozenset[str]:
    """Return paths of checkpoints below their folder, however people give them: ``/fsx/checkpoints/run1/step-300``."""
    found = set()
    for each in paths:
        path = each.rstrip("/")
        for root in (settings.checkpoints, f"s3://{settings.lake_bucket}/{settings.lake_prefix}".rstrip("/")):
            if root and path.startswith(root.rstrip("/") + "/"):
                path = path[len(root.rstrip("/")) + 1 :]
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise Refusal(
                f"{each!r} is no checkpoint; allowed: its folder below {settings.checkpoints or settings.lake_prefix}"
            )
        found.add(path)
    return frozenset(found)


def released(settings: Settings, aws: Aws, clock: Callable[[], float] = time.time) -> str:
    """Return why the hot tier has to be left as it is: a release looks at it; empty where none does."""
    until = held_until(aws, settings.lake_bucket, settings.hot_tier_id, clock)
    if until is None:
        return ""
    end = datetime.fromtimestamp(until, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"a release of {settings.workload} looks at its hot tier, which stays as it is until it ends or {end}"


@dataclass
class Turn:
    """A run of the agent, tried until it is this node's turn.

    Attributes:
        settings: Settings of the agent.
        aws: Clients.
        progress: Takes progress.
        clock: The time, seconds since 1970.
        sleep: Waits.
    """

    settings: Settings
    aws: Aws
    progress: Progress
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], Any] = time.sleep
    tree: Tree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = tree_of(self.settings, self.aws)

    def desk(self) -> orders.Desk:
        """Return this node's view of the orders of several nodes."""
        return orders.Desk(self.aws, self.settings, self.tree, node_name(), self.clock, self.sleep, self.progress)

    def once(self, **how: Any) -> RunResult:
        """Run once, whether or not it is this node's turn."""
        return run_once(
            self.aws,
            self.settings,
            self.tree,
            node=node_name(),
            clock=self.clock,
            sleep=self.sleep,
            report=self.progress,
            **how,
        )

    def together(self, **how: Any) -> RunResult:
        """Run with the other nodes, each with disks of its own, until nobody waits for anybody's part any more.

        Returns:
            The last run; what is still not saved or not told stands in it.
        """
        began = changed = self.clock()
        before: Any = None
        while True:
            result = self.once(**how)
            now = self.clock()
            state = (result.holder, result.waiting, result.unsaved)
            if state != before:
                before, changed = state, now
            if now - changed >= STUCK_S:
                changed = max(changed, min(parts.last_alive(self.desk()), now))
            wanted = result.holder or not result.elected or result.waiting or result.unsaved
            if now - changed >= STUCK_S or (now - began >= LEAST_S and (result.errors or not wanted)):
                return result
            self.progress({"state": "waiting", "for": result.waiting or result.holder or "other nodes"})
            self.sleep(LOOK_S)

    def take(self, **how: Any) -> RunResult:
        """Run when it is this node's turn.

        Raises:
            Refusal: It is another node's for too long.
        """
        end = self.clock() + LONGEST_WAIT_S
        while True:
            result = self.once(**how)
            if result.elected or result.errors:
                return result
            if self.clock() >= end:
                raise Refusal(
                    f"{result.holder} has run the agent for {LONGEST_WAIT_S / 60:.0f} minutes; try again later"
                )
            self.progress({"state": "waiting", "for": result.holder})
            self.sleep(LOOK_S)


def answered(result: RunResult) -> dict[str, Any]:
    """Return the answer of a run.

    Raises:
        Failure: Something went wrong with a part of it.
    """
    answer = result.to_dict()
    if result.errors:
        more = len(result.errors) - _SHOWN
        text = "; ".join(result.errors[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")
        raise Failure(text, answer)
    return answer
