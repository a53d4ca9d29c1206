"""Commands on the nodes of a workload, from the command line: find nodes, send or join, and follow to the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from training_storage.errors import RefusedError
from training_storage.node import calls
from training_storage.node.run_command import LONGEST_S, STORAGE_NODE, NodeAnswer, online_nodes, running_nodes
from training_storage.operations.aws import aws_errors

if TYPE_CHECKING:
    from training_storage.node.aws import Aws

LOOK_S: Final = 5.0
"""Seconds between two looks; nodes write their progress as often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRun:
    """How a command on nodes ended, or where it stands.

    Attributes:
        instance_ids: The nodes.
        answers: One a node, in their order.
        joined: Whether it was running already.
    """

    instance_ids: tuple[str, ...]
    answers: tuple[NodeAnswer, ...]
    joined: bool

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return all(each.over for each in self.answers)


def choose_nodes(aws: Aws, name: str, most: int | None) -> tuple[str, ...]:
    """Return nodes that take commands now, those of the fleet first.

    Args:
        aws: Clients.
        name: Workload name.
        most: So many at most; all where None.

    Raises:
        RefusedError: There is none; the message says why and how to start one.
    """
    online = online_nodes(aws, name)
    if online:
        return online if most is None else online[:most]
    running = running_nodes(aws, name)
    group = f"{name}-storage-node"
    start = (
        f"aws autoscaling set-desired-capacity --auto-scaling-group-name {group} --desired-capacity 1, wait until it "
        "has booted, and set it to 0 afterwards"
    )
    if not running:
        raise RefusedError(
            f"no node of {name} is running: its fleet is at zero, and so is its storage node; fix: start the storage "
            f"node with {start}"
        )
    shown = ", ".join(sorted(running)[:3]) + (f" and {len(running) - 3} more" if len(running) > 3 else "")
    raise RefusedError(
        f"{len(running)} nodes of {name} are running ({shown}), and none is online in Systems Manager; fix: wait where "
        "they are still booting; else look at amazon-ssm-agent on them, and at the way from their subnet to Systems "
        f"Manager (NAT, or endpoints ssm, ssmmessages and ec2messages); or start the storage node with {start}"
    )


def choose_readers(aws: Aws, name: str, most: int | None) -> tuple[str, ...]:
    """Return nodes that read as a restart would: of the fleet; the storage node, which trains nothing, for want of one.

    Args:
        aws: Clients.
        name: Workload name.
        most: So many at most; all where None.

    Raises:
        RefusedError: There is none; the message says why and how to start one.
    """
    online, roles = choose_nodes(aws, name, None), running_nodes(aws, name)
    fleet = tuple(each for each in online if roles.get(each) != STORAGE_NODE)
    return (fleet or online)[:most]


def run_on_nodes(
    aws: Aws,
    name: str,
    lake_bucket: str,
    argv: Sequence[str],
    *,
    nodes: Callable[[], Sequence[str]],
    for_nodes: Callable[[Sequence[str]], Sequence[str]] = lambda _: (),
    wait: bool = True,
    told_later: bool = False,
    timeout_s: float = LONGEST_S,
    on_start: Callable[[tuple[str, ...], bool], None] | None = None,
    on_look: Callable[[tuple[NodeAnswer, ...]], None] | None = None,
    sleep: Callable[[float], Any] = time.sleep,
    clock: Callable[[], float] = time.time,
    look_s: float = LOOK_S,
) -> NodeRun:
    """Run the agent on nodes, or join the same command where it runs, and follow it to its end.

    Interrupting leaves the command running; the same call joins it. A look that fails because AWS throttles is no news
    and no failure.

    Args:
        aws: Clients.
        name: Workload name.
        lake_bucket: The data lake, where nodes leave their answers.
        argv: Subcommand and arguments; what makes two calls the same.
        nodes: Returns the nodes to ask; called only where nothing is joined.
        for_nodes: Returns more arguments for these nodes.
        wait: Follow to the end. False: send, look once and return.
        told_later: Take the answer of a command that was joined and is over already. Left out: such an answer may be
            hours old, and says nothing of now, so that the command is sent again.
        timeout_s: Seconds after which Systems Manager ends the command, at most 48 hours.
        on_start: Called with the nodes, and whether the command was joined.
        on_look: Called with each look.
        sleep: Replaced in tests.
        clock: Replaced in tests.
        look_s: Seconds between two looks.

    Raises:
        RefusedError: No node takes commands.
        AwsError: AWS refused or failed.
    """
    while True:
        with aws_errors("SendCommand"):
            call, joined = calls.start_or_join(
                aws, lake_bucket, name, argv, nodes, timeout_s=timeout_s, clock=clock, for_nodes=for_nodes
            )
        if not joined or told_later:
            break
        with aws_errors("ListCommandInvocations"):
            if any(not each.over for each in calls.look(aws, lake_bucket, call)):
                break
        with aws_errors("PutObject"):
            calls.finish(aws, lake_bucket, name, argv, call)
    if on_start is not None:
        on_start(call.instance_ids, joined)
    while True:
        with aws_errors("ListCommandInvocations"):
            answers = calls.look(aws, lake_bucket, call)
        if on_look is not None:
            on_look(answers)
        found = NodeRun(instance_ids=call.instance_ids, answers=answers, joined=joined)
        if found.over:
            with aws_errors("PutObject"):
                calls.finish(aws, lake_bucket, name, argv, call)
            return found
        if not wait:
            return found
        sleep(look_s)
