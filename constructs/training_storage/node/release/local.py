"""The steps of local disks: every node that runs uploads what is due, and twice, so that a job that goes on is seen."""

from __future__ import annotations

from typing import Any

from .. import places
from ..run_command import online_nodes, running_nodes
from . import proof as proofs
from .checks import shown
from .context import Context, Done, Refused
from .nodes import ONLINE_S, READY_S, command
from .sorting import CLASSES, HALF_WRITTEN, UNPROMOTED

NO_SETTINGS = "the agent's settings"
"""How a node says that nothing of its workload lies on local disks, or anywhere else that the agent looks after."""


def survey(ctx: Context) -> None:
    """Look which nodes there are; refuse where one cannot be asked."""
    nodes = _nodes(ctx)
    if ctx.action == "check":
        ctx.state["message"] = f"{len(nodes)} nodes would upload what is due from their local disks"
        raise Done


def export(ctx: Context) -> None:
    """Have every node upload what is due, the last checkpoint included."""
    ctx.state.setdefault("valid_from", ctx.clock())
    if not _flush(ctx, "flush"):
        return  # no node runs: local disks went with them, and nothing can be saved any more
    unsaved = _unsaved(ctx)
    if unsaved:
        raise Refused(
            f"{len(unsaved)} checkpoints on local disks have to be in the lake and are not: see `training-storage "
            f"checkpoints list {ctx.workload}`",
            unsaved,
        )


def prove(ctx: Context) -> None:
    """Write the proof."""
    status = ctx.read(places.status_key(ctx.workload)) or {}
    seen = status.get("checkpoints") or []
    kept = [each for each in seen if each.get("promoted")]
    left: dict[str, dict[str, Any]] = {}
    for each in seen:
        if not each.get("promoted"):
            name = UNPROMOTED if each.get("complete") else HALF_WRITTEN
            held = left.setdefault(name, {"files": 0, "bytes": 0, "why": CLASSES[name]})
            held["files"] += each.get("files") or 0
            held["bytes"] += each.get("size") or 0
    left["local disks"] = {"files": 0, "bytes": 0, "why": "whatever else lies on local disks of nodes goes with them"}
    made = proofs.Proof(
        kind="proof",
        workload=ctx.workload,
        hot_tier_id=ctx.hot_tier_id,
        written_at=ctx.clock(),
        valid_from=ctx.state["valid_from"],
        files=sum(each.get("files") or 0 for each in kept),
        bytes=sum(each.get("size") or 0 for each in kept),
        left=left,
    )
    proofs.write(ctx.aws, ctx.lake, made)
    ctx.state["proof"] = shown(made)


def before_compute(ctx: Context) -> None:
    """Look once more before the nodes go, which take their disks along.

    Raises:
        Refused: A checkpoint became due since the proof.
    """
    if ctx.state.get("flushed_again"):
        return
    before = _promoted(ctx)
    before = ctx.state.setdefault("promoted_before", before)
    if not _flush(ctx, "flush-again"):
        return
    new = [each for each in _promoted(ctx) if each not in before]
    unsaved = _unsaved(ctx)
    if new or unsaved:
        raise Refused(
            f"checkpoints were written after the proof: stop the training job of {ctx.workload}, and run the "
            "release again",
            new + unsaved,
        )
    ctx.state["flushed_again"] = True


def _flush(ctx: Context, name: str) -> bool:
    """Have all nodes upload what is due; return whether there was one that has anything to do with checkpoints."""
    held = (ctx.state.get("commands") or {}).get(name)
    nodes = held["nodes"] if held else _nodes(ctx)
    if not nodes:
        return False
    try:
        command(ctx, name, ["flush"], nodes)
    except Refused as refused:
        if NO_SETTINGS in refused.text and "is not there" in refused.text:
            return False
        raise
    return True


def _nodes(ctx: Context) -> list[str]:
    """Return all nodes that run.

    Raises:
        Again: One is not online yet.
        Refused: One cannot be asked.
    """
    running = running_nodes(ctx.aws, ctx.workload)
    silent = sorted(set(running) - set(online_nodes(ctx.aws, ctx.workload)))
    if silent:
        ctx.wait(
            "online",
            30,
            min(ONLINE_S, READY_S),
            f"nodes {', '.join(silent[:5])} run and take no commands, so that what lies on their local disks is not "
            "known. "
            "Repair Systems Manager on them, or terminate them if nothing on them is needed, and run the release again",
            silent,
        )
    return sorted(running)


def _promoted(ctx: Context) -> list[str]:
    status = ctx.read(places.status_key(ctx.workload)) or {}
    return [
        f"{each['path']}@{each.get('fingerprint', '')}"
        for each in status.get("checkpoints") or ()
        if each.get("promoted")
    ]


def _unsaved(ctx: Context) -> list[str]:
    status = ctx.read(places.status_key(ctx.workload)) or {}
    return [str(each) for each in status.get("unsaved") or ()]
