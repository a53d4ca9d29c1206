"""The steps of a release, in their order. Each may be worked twice: what it did lies in S3 and in AWS.

A release proves that everything that must be kept is in S3, and only then deletes. It cancels no task, waits for a
bounded time only, and keeps everything when it is in doubt.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from typing import Any, Callable

from ..aws import Aws, code_of
from ..run_command import passing
from . import express_empty, express_proof, express_survey, hold, local, lustre, proof
from .checks import preconditions, shown
from .compare import WORKERS
from .context import Again, Context, Done, Refused
from .exports import export as export_lustre
from .idle import no_fleet
from .nodes import have_node, node_off
from .stacks import delete, kept_resources

CALL_S = 600.0
"""When a call begins to end: Lambda ends it after 15 minutes."""

DENIED = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Forbidden", "403", "AuthorizationError"}
)
_HELD = ("lustre", "express")
"""Tiers whose agents leave them alone while a release looks; on local disks they are what uploads."""

EMPTYING = "empty-hot"
"""The step that only a release has which may remove objects from directory buckets."""

_KEPT_OUT = frozenset({"since", "commands", "tries", "failures", "progress"})
"""What belongs to one step alone."""


def _per_tier(**work: Callable[[Context], None]) -> Callable[[Context], None]:
    """Return a step that does what the tier needs, and nothing where a proof that holds was given."""

    def step(ctx: Context) -> None:
        if ctx.tier in work and not ctx.proven:
            work[ctx.tier](ctx)

    return step


def _survey(ctx: Context) -> None:
    if ctx.action == "check" and ctx.tier in ("gone", "kept"):
        ctx.state["message"] = ctx.state.get("note", "")
        raise Done
    _per_tier(lustre=lustre.survey, express=express_survey.survey, nvme=local.survey)(ctx)


def _compare(ctx: Context) -> None:
    # Also before a release that was confirmed: what a proof rests on may have been deleted from S3 since.
    if ctx.tier == "lustre":
        lustre.compare(ctx)
    elif ctx.tier == "express":
        express_proof.compare(ctx)
        if ctx.proven:
            ctx.state.pop("scan", None)


def _prove(ctx: Context) -> None:
    if ctx.tier in ("gone", "kept"):
        made = proof.Proof(
            kind="proof",
            workload=ctx.workload,
            hot_tier_id=ctx.hot_tier_id,
            written_at=ctx.clock(),
            valid_from=ctx.clock(),
            left={"stays": {"files": 0, "bytes": 0, "why": ctx.state.get("note", "")}},
        )
        ctx.state["proof"] = shown(made)  # nothing is deleted that a guard would ask for it
    else:
        _per_tier(lustre=lustre.prove, express=express_proof.prove, nvme=local.prove)(ctx)
    if ctx.action == "prove":
        _node_off(ctx)


def _node_off(ctx: Context) -> None:
    if ctx.tier == "lustre":
        node_off(ctx)


def _delete_monitoring(ctx: Context) -> None:
    no_fleet(ctx)
    delete(ctx, "monitoring")


def _delete_compute(ctx: Context) -> None:
    if "compute" not in ctx.state.get("asked", {}):
        no_fleet(ctx)
    if ctx.tier == "nvme" and "compute" in ctx.state.get("stacks", {}) and "compute" not in ctx.state.get("asked", {}):
        local.before_compute(ctx)
    delete(ctx, "compute")


def _quiet_again(ctx: Context) -> None:
    if ctx.tier == "lustre":
        lustre.quiet_again(ctx)
    elif ctx.tier == "express":
        express_proof.quiet_again(ctx)


def _delete_hot(ctx: Context) -> None:
    delete(ctx, "hot")
    kept = kept_resources(ctx, "hot")
    if kept:
        ctx.state["kept"] = kept
    ctx.state["message"] = f"{ctx.workload} is released"


STEPS: dict[str, Callable[[Context], None]] = {
    "preconditions": preconditions,
    "node": _per_tier(lustre=have_node),
    "survey": _survey,
    "export": _per_tier(lustre=export_lustre, express=express_proof.export, nvme=local.export),
    "manifest": _per_tier(lustre=lustre.manifest),
    "compare": _compare,
    "quiet": _per_tier(lustre=lustre.quiet),
    "prove": _prove,
    "storage-node-off": _node_off,
    "delete-monitoring": _delete_monitoring,
    "delete-compute": _delete_compute,
    "quiet-again": _quiet_again,
    EMPTYING: express_empty.empty,
    "delete-hot": _delete_hot,
}
"""Every step, in its order."""

DELETING = ("delete-monitoring", "delete-compute", "quiet-again", EMPTYING, "delete-hot")
"""Steps that an action that deletes nothing never works."""

LAST_OF = {"check": "survey", "prove": "storage-node-off", "release": "delete-hot"}
"""The last step of each action."""


def run(
    step: str,
    event: Mapping[str, Any],
    aws: Aws,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
    *,
    workers: int = WORKERS,
) -> dict[str, Any]:
    """Work one step.

    Args:
        step: Its name, of ``STEPS``.
        event: The state that the step before returned; of the first the input: ``workload``, ``lake_bucket``,
            ``action`` (``check``, ``prove``, ``release``), ``leave``, ``proof``, ``idle_hours``, and ``empties``:
            whether directory buckets that their stack deletes are emptied after the proof; left out, they are not.
        aws: Clients.
        clock: The time, in seconds since 1970.
        sleep: Waits seconds.
        workers: Requests to S3 at a time.

    Returns:
        The state with ``status``: ``next``; ``again`` after ``wait`` seconds; ``refused`` with ``refused`` (a text) and
        ``blocking`` (names); ``done``: nothing is left to do.

    Raises:
        ClientError: AWS was throttled or failed: the step may be worked again.
        BotoCoreError: AWS was not reached: likewise.
        KeyError: There is no such step.
    """
    if step not in STEPS:
        raise KeyError(step)
    state = json.loads(json.dumps(dict(event)))
    for name in ("status", "wait", "refused", "blocking", "waiting_for"):
        state.pop(name, None)
    if state.get("step") != step:
        for name in _KEPT_OUT:
            state.pop(name, None)
    state["step"] = step
    ctx = Context(aws, clock, sleep, state["workload"], state["lake_bucket"], state, workers, clock() + CALL_S)
    answer: dict[str, Any] = {"status": "next", "wait": 0}
    try:
        if ctx.tier in _HELD:
            hold.hold(aws, ctx.lake, ctx.hot_tier_id, clock)
            state["held"] = True
        _work(ctx, step)
    except Again as again:
        answer = {"status": "again", "wait": max(int(again.wait), 1), "waiting_for": again.text}
    except Done:
        answer["status"] = "done"
        # A lease that an agent writes would make the proof worthless before anybody has read it: the hold ends by
        # itself.
        _tidy(ctx, lifts=ctx.action != "prove")
    except Refused as refused:
        answer = _refusal(ctx, refused.text, refused.blocking)
        if refused.quiet:
            answer["quiet"] = True
    except ValueError as error:
        text = f"what lies in s3://{ctx.lake} cannot be read: {error}. Put this right and run the release again"
        answer = _refusal(ctx, text, [f"s3://{ctx.lake}"])
    except Exception as error:
        if not hasattr(error, "response") or passing(error):
            raise
        action = getattr(error, "operation_name", "a call")
        code = code_of(error)
        if code in DENIED:
            text = f"AWS denies {action} to the release of {ctx.workload}: {error}. Allow it, and run the release again"
        else:
            text = f"AWS refuses {action}: {error}. Put this right and run the release again"
        answer = _refusal(ctx, text, [action])
    return {**state, **answer}


def _work(ctx: Context, step: str) -> None:
    if ctx.action != "release" and step in DELETING:
        raise Done
    STEPS[step](ctx)
    if step == LAST_OF.get(ctx.action):
        raise Done


def _refusal(ctx: Context, text: str, blocking: list[Any]) -> dict[str, Any]:
    _tidy(ctx)
    named = [str(each)[:300] for each in blocking]
    return {"status": "refused", "wait": 0, "refused": text[:4000], "blocking": named}


def _tidy(ctx: Context, *, lifts: bool = True) -> None:
    """Let agents work again, and send a node away that was started; the next run does it where this one cannot."""
    if ctx.tier not in _HELD:
        return
    # One that never held, such as a look whether a run is idle, leaves the hold of another one alone.
    if lifts and ctx.state.get("held"):
        with contextlib.suppress(Exception):
            hold.lift(ctx.aws, ctx.lake, ctx.hot_tier_id)
    if ctx.state.get("started_node"):
        with contextlib.suppress(Exception):
            node_off(ctx)
