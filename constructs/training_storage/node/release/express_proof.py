"""The steps of directory buckets that bring what must be kept to the lake, and prove that it is there.

A listing of a directory bucket shows when each object was written, so that a look after the fleet is gone says for
certain whether anybody wrote.
"""

from __future__ import annotations

from typing import Any

from ..aws import code_of
from . import express_list
from . import proof as proofs
from .checks import shown
from .context import Again, Context, Refused
from .express_survey import lost, note, pages, refuse_losses, scan, settings_of, unpromoted
from .sorting import CLASSES, KEEP

LONGEST_S = 12 * 3600.0
"""How long promotion may take, over all calls."""


class _TimeIsUp(BaseException):
    """This call has to end; the next one goes on."""


def export(ctx: Context) -> None:
    """Promote what is due, the last of each series included, in calls that end in time."""
    from ..checkpoints.run_once import run_once
    from ..checkpoints.tree import BucketTree

    ctx.state.setdefault("valid_from", ctx.clock())
    settings = settings_of(ctx)
    if settings.policy is None:
        return
    tree = BucketTree(ctx.aws, settings.hot_buckets, settings.lake_prefix)
    gone = lost(ctx, settings, tree)
    if not gone and not unpromoted(ctx, settings, tree):
        return

    def report(*_given: Any, **_more: Any) -> None:
        if ctx.clock() >= ctx.deadline:
            raise _TimeIsUp

    result: Any = None
    try:
        result = run_once(
            ctx.aws,
            settings,
            tree,
            node=f"release-{ctx.state['run']}",
            clock=ctx.clock,
            sleep=ctx.sleep,
            promote=True,
            prune=False,
            asked=frozenset(path for path, _ in gone),
            last=True,
            report=report,
        )
    except _TimeIsUp:
        raise Again(0) from None
    left = sorted({*unpromoted(ctx, settings, tree), *(path for path, _ in lost(ctx, settings, tree))})
    if left:
        told = "; ".join(str(each) for each in (result.to_dict().get("errors") or ())[:3])
        ctx.wait(
            "promotion",
            30,
            LONGEST_S if not told else 300.0,
            f"{len(left)} checkpoints that have to be in the lake are not: {told or 'see the status of the agent'}",
            left,
        )


def compare(ctx: Context) -> None:
    """Verify what was promoted, object by object, and look at every other object once more."""
    from ..checkpoints.tree import BucketTree

    settings = settings_of(ctx)
    state = ctx.state
    if ctx.proven and (state.get("partly") or state.get("resumes")):
        # Something is deleted already: what is left of a checkpoint says nothing any more, the proof does.
        for _, page in pages(ctx, settings, "compare"):
            note(state["scan"], page)
        nobody_wrote(ctx)
        return
    if settings.policy is not None and not state.get("verified"):
        tree = BucketTree(ctx.aws, settings.hot_buckets, settings.lake_prefix)
        due = unpromoted(ctx, settings, tree)
        if due:
            raise Refused(
                "checkpoints became due while the release ran: stop the training job, and run the release again", due
            )
        gone = lost(ctx, settings, tree)
        if gone:
            raise Refused(
                f"{len(gone)} promoted checkpoints are no longer in the lake as they were verified; run the release "
                "again, which promotes them once more",
                [f"{path}: {told}" for path, told in gone],
            )
        state["verified"] = True
    scan(ctx, settings, "compare", copy=True, write=bool(state.get("emptied")) and not ctx.proven)
    if not ctx.proven:
        refuse_losses(ctx)
    nobody_wrote(ctx)


def prove(ctx: Context) -> None:
    """Write the proof."""
    seen = ctx.state["scan"]
    classes = seen["classes"]
    left = {name: {**each, "why": CLASSES[name]} for name, each in classes.items() if name != KEEP}
    keep = classes.get(KEEP, {"files": 0, "bytes": 0})
    emptied = ctx.state.get("emptied")
    made = proofs.Proof(
        kind="proof",
        workload=ctx.workload,
        hot_tier_id=ctx.hot_tier_id,
        written_at=ctx.clock(),
        valid_from=ctx.state["valid_from"],
        files=keep["files"],
        bytes=keep["bytes"],
        left=left,
        removes={"run": ctx.state["run"], "buckets": list(emptied), **seen["listed"]} if emptied else {},
    )
    proofs.write(ctx.aws, ctx.lake, made)
    ctx.state["proof"] = shown(made)
    ctx.state.pop("scan")


def quiet_again(ctx: Context) -> None:
    """Make sure, after the fleet is gone, that no object was written since the proof."""
    settings = settings_of(ctx)
    for _, page in pages(ctx, settings, "again"):
        note(ctx.state["scan"], page)
    nobody_wrote(ctx)
    ctx.state.pop("scan")


def nobody_wrote(ctx: Context) -> None:
    """Refuse where a look has found an object that is younger than the proof.

    Raises:
        Refused: It has.
    """
    seen = ctx.state["scan"]
    if seen["newest"] >= int(ctx.state["valid_from"]):
        raise Refused(
            f"{seen['newest_key']} was written while the release ran, or after its proof: stop the training job, "
            "and run the "
            "release again",
            [seen["newest_key"]],
        )


def untouched_since(ctx: Context, moment: float) -> bool:
    """Return whether no object was written since a moment; False too where a call is too short to look at all."""
    for bucket in settings_of(ctx).hot_buckets:
        token = ""
        while True:
            given = {"ContinuationToken": token} if token else {}
            try:
                page = ctx.aws("s3").list_objects_v2(Bucket=bucket, **given)
            except Exception as error:
                if code_of(error) != "NoSuchBucket":
                    raise
                page = {}
            seen: dict[str, Any] = {"newest": 0.0, "newest_key": ""}
            note(seen, list(page.get("Contents", ())))
            if seen["newest"] >= int(moment):
                return False
            token = page.get("NextContinuationToken") or ""
            if not token:
                break
            if ctx.clock() >= ctx.deadline:
                return False
    return True


def begun(ctx: Context) -> proofs.Proof | None:
    """Return the proof by which an earlier release has begun to empty the buckets, if nobody has written since."""
    found = express_list.mark(ctx)
    if found is None or found["doubt"]:
        return None
    made = proofs.Proof.from_dict(found["proof"])
    return made if express_list.covers(ctx, made.removes) and untouched_since(ctx, made.valid_from) else None
