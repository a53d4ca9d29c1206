"""The steps of directory buckets: the function reads them itself, because S3 tells what a file system does not.

What the policy wants in the lake is promoted; every other object must have an equal one there, under the same key.
Loose objects below the checkpoints (configuration, pointers) are copied there. A listing of a directory bucket shows
when each object was written, so that a look after the fleet is gone says for certain whether anybody wrote.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from .. import places
from ..aws import code_of
from ..places import HIDDEN
from ..settings import Settings
from . import proof as proofs
from .checks import shown
from .context import Again, Context, Done, Refused, human
from .sorting import CLASSES, KEEP, LEFT, SCRATCH, UNLINKED, class_of

LONGEST_S = 12 * 3600.0
"""How long promotion may take, over all calls."""
_SCRATCH = "scratch/"


class _TimeIsUp(BaseException):
    """This call has to end; the next one goes on."""


def settings_of(ctx: Context) -> Settings:
    """Return the settings that the agent left in its status.

    Raises:
        Refused: No agent ever ran.
    """
    status = ctx.read(places.status_key(ctx.workload))
    if status is None:
        raise Refused(
            f"the agent of {ctx.workload} has left no status in s3://{ctx.lake}/{places.status_key(ctx.workload)}, "
            "so what "
            "has to be kept is not known; run `training-storage checkpoints list` on a fleet that runs, or name "
            "everything "
            "that may be lost with --leave and delete the stacks with an override",
            [places.status_key(ctx.workload)],
        )
    settings = Settings.from_dict(status["settings"])
    # The status may be of an earlier run: the buckets of this one are those of its stack.
    buckets = tuple(ctx.state.get("buckets") or settings.hot_buckets)
    return settings if buckets == settings.hot_buckets else replace(settings, hot_buckets=buckets)


def survey(ctx: Context) -> None:
    """Look at every object, and refuse where something would be lost."""
    settings = settings_of(ctx)
    _scan(ctx, settings, "survey", copy=False)
    ctx.state["found"] = dict(ctx.state["scan"]["classes"])
    _refuse_losses(ctx)
    ctx.state.pop("scan")
    if ctx.action == "check":
        keep = ctx.state["found"].get(KEEP, {"files": 0, "bytes": 0})
        ctx.state["message"] = f"{keep['files']:,} objects ({human(keep['bytes'])}) would have to be in the lake"
        raise Done


def export(ctx: Context) -> None:
    """Promote what is due, the last of each series included, in calls that end in time."""
    from ..checkpoints.run_once import run_once
    from ..checkpoints.tree import BucketTree

    ctx.state.setdefault("valid_from", ctx.clock())
    settings = settings_of(ctx)
    if settings.policy is None:
        return
    tree = BucketTree(ctx.aws, settings.hot_buckets, settings.lake_prefix)
    lost = _lost(ctx, settings, tree)
    if not lost and not _unpromoted(ctx, settings, tree):
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
            asked=frozenset(path for path, _ in lost),
            last=True,
            report=report,
        )
    except _TimeIsUp:
        raise Again(0) from None
    left = sorted({*_unpromoted(ctx, settings, tree), *(path for path, _ in _lost(ctx, settings, tree))})
    if left:
        told = "; ".join(str(each) for each in (result.to_dict().get("errors") or ())[:3])
        ctx.wait(
            "promotion",
            30,
            LONGEST_S if not told else 300.0,
            f"{len(left)} checkpoints that have to be in the lake are not: {told or 'see the status of the agent'}",
            left,
        )


def _decide(ctx: Context, settings: Settings, tree: Any) -> tuple[list[Any], Any]:
    from ..checkpoints import ledgers, records
    from ..checkpoints.layouts import find_checkpoints
    from ..checkpoints.policy import decide

    assert settings.policy is not None  # noqa: S101 - callers look
    damaged: list[str] = []
    known = records.read_all(ctx.aws, ctx.lake, damaged=damaged)
    if damaged:
        raise Refused(
            f"{len(damaged)} records of promotions cannot be read, so that what they promised is not known: delete "
            "them, or "
            "bring back an earlier version, and run the release again",
            damaged,
        )
    return known, decide(
        find_checkpoints(tree),
        known,
        ledgers.read_all(ctx.aws, ctx.lake),
        settings.policy,
        now_ns=int(ctx.clock() * 1e9),
        last=True,
    )


def _unpromoted(ctx: Context, settings: Settings, tree: Any) -> list[str]:
    return [each.checkpoint.path for each in _decide(ctx, settings, tree)[1].to_promote]


def _lost(ctx: Context, settings: Settings, tree: Any) -> list[tuple[str, str]]:
    """Return checkpoints of the buckets whose copies in the lake are no longer as they were verified, and why.

    Also those that the policy would not want there: somebody has promoted them by hand.
    """
    from ..checkpoints.records import record_key
    from ..checkpoints.verification import verify_all

    known, decision = _decide(ctx, settings, tree)
    by_key = {record_key(each.path, each.fingerprint): each for each in known}
    here = [
        by_key[record_key(each.checkpoint.path, each.checkpoint.fingerprint)]
        for each in decision.verdicts
        if each.promoted
    ]
    found = verify_all(ctx.aws, settings, here)
    return [(by_key[key].path, wrong[0]) for key, wrong in sorted(found.items()) if wrong]


def compare(ctx: Context) -> None:
    """Verify what was promoted, object by object, and look at every other object once more."""
    from ..checkpoints.tree import BucketTree

    settings = settings_of(ctx)
    state = ctx.state
    if ctx.proven and state.get("partly"):
        # Some buckets are deleted already: what is left of a checkpoint says nothing any more, the proof does.
        for _, page in _pages(ctx, settings, "compare"):
            _note(state["scan"], page)
        _nobody_wrote(ctx)
        return
    if settings.policy is not None and not state.get("verified"):
        tree = BucketTree(ctx.aws, settings.hot_buckets, settings.lake_prefix)
        due = _unpromoted(ctx, settings, tree)
        if due:
            raise Refused(
                "checkpoints became due while the release ran: stop the training job, and run the release again", due
            )
        lost = _lost(ctx, settings, tree)
        if lost:
            raise Refused(
                f"{len(lost)} promoted checkpoints are no longer in the lake as they were verified; run the release "
                "again, which promotes them once more",
                [f"{path}: {told}" for path, told in lost],
            )
        state["verified"] = True
    _scan(ctx, settings, "compare", copy=True)
    if not ctx.proven:
        _refuse_losses(ctx)
    _nobody_wrote(ctx)


def prove(ctx: Context) -> None:
    """Write the proof."""
    classes = ctx.state["scan"]["classes"]
    left = {name: {**each, "why": CLASSES[name]} for name, each in classes.items() if name != KEEP}
    keep = classes.get(KEEP, {"files": 0, "bytes": 0})
    made = proofs.Proof(
        kind="proof",
        workload=ctx.workload,
        hot_tier_id=ctx.hot_tier_id,
        written_at=ctx.clock(),
        valid_from=ctx.state["valid_from"],
        files=keep["files"],
        bytes=keep["bytes"],
        left=left,
    )
    proofs.write(ctx.aws, ctx.lake, made)
    ctx.state["proof"] = shown(made)
    ctx.state.pop("scan")


def quiet_again(ctx: Context) -> None:
    """Make sure, after the fleet is gone, that no object was written since the proof."""
    settings = settings_of(ctx)
    for _, page in _pages(ctx, settings, "again"):
        _note(ctx.state["scan"], page)
    _nobody_wrote(ctx)
    ctx.state.pop("scan")


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
            for each in page.get("Contents", ()):
                if not _ours(each["Key"]) and each["LastModified"].timestamp() >= int(moment):
                    return False
            token = page.get("NextContinuationToken") or ""
            if not token:
                break
            if ctx.clock() >= ctx.deadline:
                return False
    return True


# -- looking at every object


def _pages(ctx: Context, settings: Settings, name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield pages of all buckets, from where the last call stopped.

    Raises:
        Again: This call has to end.
    """
    scan = ctx.state.get("scan") or {}
    if scan.get("name") != name:
        scan = {"name": name, "bucket": 0, "token": "", "newest": 0.0, "newest_key": "", "classes": {}, "blocking": []}
    ctx.state["scan"] = scan
    s3 = ctx.aws("s3")
    while scan["bucket"] < len(settings.hot_buckets):
        bucket = settings.hot_buckets[scan["bucket"]]
        given = {"ContinuationToken": scan["token"]} if scan["token"] else {}
        try:
            page = s3.list_objects_v2(Bucket=bucket, **given)
        except Exception as error:
            if code_of(error) != "NoSuchBucket":
                raise
            page = {}
        yield bucket, [each for each in page.get("Contents", ()) if not each["Key"].endswith("/")]
        scan["token"] = page.get("NextContinuationToken") or ""
        if not scan["token"]:
            scan["bucket"] += 1
        if ctx.clock() >= ctx.deadline and scan["bucket"] < len(settings.hot_buckets):
            raise Again(0)


def _scan(ctx: Context, settings: Settings, name: str, *, copy: bool) -> None:
    members: dict[str, str] = {}
    if settings.policy is not None:
        from ..checkpoints.tree import BucketTree

        tree = BucketTree(ctx.aws, settings.hot_buckets, settings.lake_prefix)
        for verdict in _decide(ctx, settings, tree)[1].verdicts:
            members.update({each.path: class_of(verdict) for each in verdict.checkpoint.files})
    for bucket, page in _pages(ctx, settings, name):
        scan = ctx.state["scan"]
        _note(scan, page)
        asked = []
        for each in page:
            key = each["Key"]
            inner = key[len(settings.lake_prefix) :] if key.startswith(settings.lake_prefix) else None
            if _ours(key):
                continue
            if _left(ctx, bucket, key):
                _count(scan, LEFT, each)
            elif inner is not None and inner in members:
                _count(scan, members[inner], each)
            elif key.startswith(_SCRATCH):
                _count(scan, SCRATCH, each)
            else:
                asked.append((each, inner is not None))
        with ThreadPoolExecutor(max(1, min(ctx.workers, len(asked) or 1))) as pool:
            settle = partial(_settle, ctx, settings, bucket)
            looks = list(pool.map(lambda one: settle(one[0], loose=one[1] and copy), asked))  # noqa: B023 - ends here
        for (each, loose), told in zip(asked, looks):
            if not told:
                _count(scan, KEEP, each)
            elif loose and not copy:
                _count(scan, KEEP, each)  # it is copied later
            else:
                _count(scan, UNLINKED, each)
                if len(scan["blocking"]) < 20:
                    scan["blocking"].append(f"s3://{bucket}/{each['Key']}: {told}"[:300])


def _settle(ctx: Context, settings: Settings, bucket: str, each: dict[str, Any], *, loose: bool) -> str:
    """Return what keeps an object from being in the lake; one below the checkpoints is copied there."""
    told = _equal(ctx, bucket, each, newer=loose)
    if not told or not loose:
        return told
    return _copied(ctx, settings, bucket, each) or _equal(ctx, bucket, each, newer=True)


def _copied(ctx: Context, settings: Settings, bucket: str, each: dict[str, Any]) -> str:
    """Copy an object to the lake as a promotion does; return why that could not be, empty where it was."""
    from ..checkpoints.lake import Place
    from ..checkpoints.model import Checkpoint, FileEntry
    from ..checkpoints.promotion import Job, PromotionError
    from ..checkpoints.promotion_copy import copy

    key = each["Key"]

    class Here:
        """The one object, in the bucket where it was found."""

        def bucket_of(self, _path: str) -> str:
            return bucket

        def key_of(self, _path: str) -> str:
            return str(key)

    class Loose(Job):
        def place(self, _path: str) -> Place:
            return Place(ctx.lake, key, None)

    when = int(each["LastModified"].timestamp() * 1e9)
    entry = FileEntry(key, each["Size"], when, str(each["ETag"]).strip('"'))
    here: Any = Here()
    try:
        copy(Loose(ctx.aws, settings, here, Checkpoint("", "", "marker", None, False, "", False, 0, (entry,))))
    except PromotionError as error:
        return str(error)
    return ""


def _equal(ctx: Context, bucket: str, each: dict[str, Any], *, newer: bool) -> str:
    """Return what tells an object from that of the lake.

    What was copied from there is younger, so that its time says nothing; its checksum does, where both have one of the
    whole object by the same algorithm.
    """
    from ..checkpoints import lake

    there = lake.look(ctx.aws, ctx.lake, each["Key"])
    if there is None:
        return "is not in the lake"
    if there.size != each["Size"]:
        return f"has {each['Size']:,} bytes, and {there.size:,} in the lake"
    if newer:
        return "is newer than the lake's" if there.uploaded < each["LastModified"].timestamp() else ""
    here = lake.look(ctx.aws, bucket, each["Key"]) if there.sums else None
    if here is not None and any(here.sums[name] != there.sums[name] for name in set(here.sums) & set(there.sums)):
        return "has another content than in the lake"
    return ""


def _note(scan: dict[str, Any], page: list[dict[str, Any]]) -> None:
    for each in page:
        when = each["LastModified"].timestamp()
        if when > scan["newest"] and not _ours(each["Key"]):
            scan.update(newest=when, newest_key=each["Key"])


def _nobody_wrote(ctx: Context) -> None:
    scan = ctx.state["scan"]
    if scan["newest"] >= int(ctx.state["valid_from"]):
        raise Refused(
            f"{scan['newest_key']} was written while the release ran, or after its proof: stop the training job, "
            "and run the "
            "release again",
            [scan["newest_key"]],
        )


def _refuse_losses(ctx: Context) -> None:
    scan = ctx.state["scan"]
    lost = scan["classes"].get(UNLINKED)
    if lost:
        raise Refused(
            f"{lost['files']:,} objects ({human(lost['bytes'])}) of the directory buckets are not in the lake as "
            "they are: "
            "`training-storage archive` copies them, --leave names what may be lost",
            scan["blocking"],
        )


def _count(scan: dict[str, Any], kind: str, each: dict[str, Any]) -> None:
    held = scan["classes"].setdefault(kind, {"files": 0, "bytes": 0})
    held["files"] += 1
    held["bytes"] += each["Size"]


def _ours(key: str) -> bool:
    return any(part.startswith(HIDDEN) for part in key.split("/"))


def _left(ctx: Context, bucket: str, key: str) -> bool:
    for each in ctx.leave:
        plain = each[len(f"s3://{bucket}/") :] if each.startswith(f"s3://{bucket}/") else each
        plain = plain.strip("/")
        if key == plain or key.startswith(plain + "/"):
            return True
    return False
