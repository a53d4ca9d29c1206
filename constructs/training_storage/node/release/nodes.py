"""A node to look with: one that is online, or the storage node; and commands on it, from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..aws import code_of
from ..run_command import online_nodes, poll, send
from .context import Again, Context, Refused

ONLINE_S = 45 * 60.0
"""How long a node may take to come: a capacity of its own, boot, the Lustre client, the mount."""
READY_S = 20 * 60.0
"""How long an online node may take until its agent is there."""
LONGEST_COMMAND_S = 12 * 3600.0
"""Hundreds of millions of files at ten thousand a second."""
TRIES = 3


def storage_node(ctx: Context) -> str:
    """Return the name of the group of the storage node."""
    return f"{ctx.workload}-storage-node"


def have_node(ctx: Context) -> None:
    """Find a node that takes commands, or start the storage node.

    Raises:
        Again: It is on its way.
        Refused: There is none, or it does not come.
    """
    online = online_nodes(ctx.aws, ctx.workload)
    if online:
        ctx.state["node"] = online[0]
        return
    group = _group(ctx)
    if group is None:
        raise Refused(
            f"no node of {ctx.workload} is online, and there is no storage node {storage_node(ctx)}: without a node "
            "nobody "
            "sees what the file system holds. Start a node of the fleet, or deploy the hot stack again, which "
            "brings the "
            "storage node",
            [storage_node(ctx)],
        )
    ctx.state["started_node"] = True
    if group["DesiredCapacity"] < 1:
        ctx.aws("autoscaling").set_desired_capacity(AutoScalingGroupName=storage_node(ctx), DesiredCapacity=1)
    ctx.wait(
        "node",
        30,
        ONLINE_S,
        f"the storage node {storage_node(ctx)} is not online after {ONLINE_S / 60:.0f} minutes: see the activity of "
        "the "
        "group and the node's console output, and run the release again",
        [storage_node(ctx)],
        now=f"the storage node {storage_node(ctx)} starts",
    )


def node_off(ctx: Context) -> None:
    """Scale the storage node to none; a group that is gone is off."""
    group = _group(ctx)
    if group is not None and group["DesiredCapacity"] > 0:
        ctx.aws("autoscaling").set_desired_capacity(AutoScalingGroupName=storage_node(ctx), DesiredCapacity=0)
    ctx.state.pop("started_node", None)


def _group(ctx: Context) -> dict[str, Any] | None:
    found = ctx.aws("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[storage_node(ctx)])
    groups = found["AutoScalingGroups"]
    return groups[0] if groups else None


def command(ctx: Context, name: str, argv: Sequence[str], nodes: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Run a command on nodes from step to step, and return the answers when all are there.

    A command whose node is lost or failed is tried again, three times in all, on a node that is online then.

    Args:
        ctx: The call.
        name: Name within the release.
        argv: Subcommand and arguments.
        nodes: The nodes. Left out: the one that the release works with.

    Raises:
        Again: It runs.
        Refused: A node refused, or it failed too often.
    """
    commands = ctx.state.setdefault("commands", {})
    held = commands.get(name)
    tries, failures = ctx.state.setdefault("tries", {}), ctx.state.setdefault("failures", {})
    if held is None:
        where = list(nodes) or [ctx.state["node"]]
        number = tries.get(name, 0) + 1
        command_id = f"{ctx.state['run']}-{name}-{number}"
        try:
            sent = send(ctx.aws, where, argv, command_id=command_id, timeout_s=LONGEST_COMMAND_S)
        except Exception as error:
            if code_of(error) != "InvalidInstanceId" or nodes:
                raise
            told = f"{where[0]} takes no commands any more, and no other node does: {error}"
            _another(ctx)
            ctx.wait("taken", 15, READY_S, told, where, now=f"{where[0]} is gone, and {ctx.state['node']} is asked")
        commands[name] = {"id": command_id, "ssm": sent, "nodes": where}
        tries[name] = number
        raise Again(5, f"`agent {argv[0]}` begins on {', '.join(where[:3])}")
    answers = poll(ctx.aws, ctx.lake, held["id"], held["ssm"], held["nodes"])
    refused = [each for each in answers if each.state == "refused"]
    if refused:
        del commands[name]
        raise Refused(f"{refused[0].instance_id} refuses: {refused[0].message}", [each.instance_id for each in refused])
    broken = [each for each in answers if each.state in ("failed", "lost")]
    if broken:
        del commands[name]
        told = f"`agent {argv[0]}` on {broken[0].instance_id}: {broken[0].message}"
        if all(each.not_ready for each in broken):
            ctx.wait("ready", 60, READY_S, told, [each.instance_id for each in broken])
        failures[name] = failures.get(name, 0) + 1
        if failures[name] >= TRIES:
            raise Refused(
                f"{told}; tried {TRIES} times. Put this right and run the release again", [broken[0].instance_id]
            )
        if not nodes:
            _another(ctx)
        raise Again(15, told)
    if any(each.state == "running" for each in answers):
        figures = next((each.progress for each in answers if each.progress), None)
        if figures:
            ctx.state["progress"] = figures
        ctx.wait(
            name,
            15,
            LONGEST_COMMAND_S,
            f"`agent {argv[0]}` does not end; run the release again",
            held["nodes"],
            now=f"`agent {argv[0]}` runs on {', '.join(held['nodes'][:3])}",
        )
    del commands[name]
    ctx.state.pop("progress", None)
    return [each.answer or {} for each in answers]


def _another(ctx: Context) -> None:
    """Choose a node again: the one that was chosen may be gone."""
    ctx.state.pop("node", None)
    have_node(ctx)
