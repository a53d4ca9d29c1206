"""Whether a run is idle: asked by a schedule each hour, and once more before anything is deleted for it."""

from __future__ import annotations

from typing import Any

from .. import places
from ..run_command import ROLE_TAG, STORAGE_NODE, WORKLOAD_TAG, running_nodes
from . import hold
from .activity import activity
from .context import Context, Refused


def not_idle(ctx: Context, stacks: dict[str, dict[str, Any]]) -> None:
    """Refuse where the release was asked for because of idleness, and the run is not idle.

    Args:
        ctx: The call.
        stacks: Stacks of the run, by part.

    Raises:
        Refused: Somebody uses it, used it lately, or is about to.
    """
    hours = ctx.state.get("idle_hours")
    if not hours:
        return
    if not ctx.state.get("held") and hold.held_until(ctx.aws, ctx.lake, ctx.hot_tier_id, ctx.clock) is not None:
        # Two at once would replace each other's lists; and a proof that somebody reads is theirs to confirm.
        raise Refused(f"not idle: a release looks at {ctx.hot_tier_id}, or has just proven it", quiet=True)
    now = ctx.clock()
    since = now - float(hours) * 3600
    nodes = running_nodes(ctx.aws, ctx.workload, starting=True)
    if nodes:
        raise Refused(f"not idle: {len(nodes)} nodes of {ctx.workload} run", sorted(nodes), quiet=True)
    wanted = _wanted_nodes(ctx)
    if wanted and not _begun(ctx, stacks):
        raise Refused(f"not idle: the fleet waits for {wanted} nodes, and the run has not begun", quiet=True)
    for name, stack in stacks.items():
        begun = stack.get("LastUpdatedTime") or stack["CreationTime"]
        if begun.timestamp() > since:
            raise Refused(f"not idle: stack {ctx.workload}-{name} is younger than {hours} hours", quiet=True)
    if ctx.tier == "lustre":
        seen = activity(ctx.aws, ctx.hot_tier_id, since, now, clock=ctx.clock)
        if seen.max_connections is None or seen.max_connections > 0 or seen.write_bytes > 0:
            raise Refused(f"not idle: clients used {ctx.hot_tier_id} within the last {hours} hours", quiet=True)
        return
    status = ctx.read(places.status_key(ctx.workload)) or {}
    if float(status.get("written_at") or 0.0) > since:
        raise Refused(f"not idle: an agent of {ctx.workload} ran within the last {hours} hours", quiet=True)


def no_fleet(ctx: Context) -> None:
    """Refuse to delete for idleness what has got nodes since: hours may lie between the look and the delete.

    Raises:
        Refused: There are nodes.
    """
    if not ctx.state.get("idle_hours"):
        return
    roles = running_nodes(ctx.aws, ctx.workload, starting=True)
    fleet = sorted(name for name, role in roles.items() if role != STORAGE_NODE)
    if fleet:
        raise Refused(f"not idle any more: {len(fleet)} nodes of {ctx.workload} run", fleet, quiet=True)


def _wanted_nodes(ctx: Context) -> int:
    """Return how many nodes the groups of the workload want, the storage node left out."""
    wanted = 0
    given: dict[str, Any] = {"Filters": [{"Name": f"tag:{WORKLOAD_TAG}", "Values": [ctx.workload]}]}
    while True:
        page = ctx.aws("autoscaling").describe_auto_scaling_groups(**given)
        for each in page["AutoScalingGroups"]:
            tags = {tag["Key"]: tag["Value"] for tag in each.get("Tags") or ()}
            wanted += 0 if tags.get(ROLE_TAG) == STORAGE_NODE else int(each["DesiredCapacity"])
        if not page.get("NextToken"):
            return wanted
        given["NextToken"] = page["NextToken"]


def _begun(ctx: Context, stacks: dict[str, dict[str, Any]]) -> bool:
    """Return whether a run was ever there: its nodes may be waited for, such as by a capacity block of tomorrow."""
    if ctx.tier == "lustre":
        made = stacks["hot"]["CreationTime"].timestamp()
        return activity(ctx.aws, ctx.hot_tier_id, made, ctx.clock(), clock=ctx.clock).last_write is not None
    status = ctx.read(places.status_key(ctx.hot_tier_id)) or {}
    first = min(float(each["CreationTime"].timestamp()) for each in stacks.values())
    return float(status.get("written_at") or 0.0) > first
