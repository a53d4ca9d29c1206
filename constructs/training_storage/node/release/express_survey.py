"""Every object of directory buckets: which must be in the lake, which may stay behind, and what would be lost.

The function reads the buckets itself, because S3 tells what a file system does not. What the policy wants in the lake
is promoted; every other object must have an equal one there, under the same key. Loose objects below the checkpoints
(configuration, pointers, what a job without markers wrote) are copied there.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from .. import places
from ..aws import code_of
from ..places import HIDDEN
from ..settings import Settings
from . import express_list
from .context import Again, Context, Done, Refused, human
from .express_list import Entry
from .sorting import HALF_WRITTEN, KEEP, LEFT, SCRATCH, UNLINKED, class_of

_SCRATCH = "scratch/"
_OURS, _FOLDER = "ours", "folder"
"""Objects that are nobody's data: our own, and names of folders without a byte in them."""
_OTHERWISE = "not in the lake as it was when its bucket began to be emptied"
_MISSING, _LATE = "is not in the lake", "is newer than the lake's"
_COPIED = (_MISSING, _LATE)
"""What is copied to the lake; what somebody has put there since is never replaced."""


def settings_of(ctx: Context) -> Settings:
    """Return the settings that the agent left in its status.

    Raises:
        Refused: No agent ever ran.
    """
    status = ctx.read(places.status_key(ctx.workload))
    if status is None:
        raise Refused(
            f"the agent of {ctx.workload} has left no status in s3://{ctx.lake}/{places.status_key(ctx.workload)}, "
            f"so what has to be kept is not known; run `training-storage checkpoints promote {ctx.workload}` while its "
            f"fleet runs, which leaves one, or give everything up with `training-storage release {ctx.workload} "
            "--abandon REASON`",
            [places.status_key(ctx.workload)],
        )
    settings = Settings.from_dict(status["settings"])
    # The status may be of an earlier run: the buckets of this one are those of its stack.
    buckets = tuple(ctx.state.get("buckets") or settings.hot_buckets)
    return settings if buckets == settings.hot_buckets else replace(settings, hot_buckets=buckets)


def survey(ctx: Context) -> None:
    """Look at every object, and refuse where something would be lost."""
    if ctx.state.get("resumes"):  # the action is check: there is a proof, and it has been acted on
        ctx.state["message"] = (
            "an earlier release has begun to empty the directory buckets, and nothing was written since its proof: "
            "run the release, which goes on there"
        )
        raise Done
    settings = settings_of(ctx)
    scan(ctx, settings, "survey", copy=False)
    ctx.state["found"] = dict(ctx.state["scan"]["classes"])
    refuse_losses(ctx)
    listed = ctx.state.pop("scan")["listed"]
    if ctx.action == "check":
        keep = ctx.state["found"].get(KEEP, {"files": 0, "bytes": 0})
        told = f"{keep['files']:,} objects ({human(keep['bytes'])}) would have to be in the lake"
        if ctx.state.get("emptied"):
            told += f"; after the proof, {express_list.told(listed, ctx.state['emptied'])} are removed"
        ctx.state["message"] = told
        raise Done


# -- checkpoints


def decide(ctx: Context, settings: Settings, tree: Any) -> tuple[list[Any], Any]:
    """Return the records of promotions, and what the policy decides of the checkpoints that are there."""
    from ..checkpoints import ledgers, records
    from ..checkpoints.layouts import find_checkpoints
    from ..checkpoints.policy import decide as policy_decides

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
    return known, policy_decides(
        find_checkpoints(tree),
        known,
        ledgers.read_all(ctx.aws, ctx.lake),
        settings.policy,
        now_ns=int(ctx.clock() * 1e9),
        last=True,
    )


def unpromoted(ctx: Context, settings: Settings, tree: Any) -> list[str]:
    """Return the checkpoints that are due and not in the lake."""
    return [each.checkpoint.path for each in decide(ctx, settings, tree)[1].to_promote]


def lost(ctx: Context, settings: Settings, tree: Any) -> list[tuple[str, str]]:
    """Return checkpoints of the buckets whose copies in the lake are no longer as they were verified, and why.

    Also those that the policy would not want there: somebody has promoted them by hand.
    """
    from ..checkpoints.records import record_key
    from ..checkpoints.verification import verify_all

    known, decision = decide(ctx, settings, tree)
    by_key = {record_key(each.path, each.fingerprint): each for each in known}
    here = [
        by_key[record_key(each.checkpoint.path, each.checkpoint.fingerprint)]
        for each in decision.verdicts
        if each.promoted
    ]
    found = verify_all(ctx.aws, settings, here)
    return [(by_key[key].path, wrong[0]) for key, wrong in sorted(found.items()) if wrong]


def _members(ctx: Context, settings: Settings) -> dict[str, tuple[str, int]]:
    """Return the class of each file of a checkpoint, and when it may be removed, by path below the checkpoints.

    Checkpoints that nothing tells finished or not have no record that could prove them: their files are loose ones.
    """
    from ..checkpoints.layouts import removal_rank
    from ..checkpoints.tree import BucketTree

    if settings.policy is None:
        return {}
    tree = BucketTree(ctx.aws, settings.hot_buckets, settings.lake_prefix)
    found: dict[str, tuple[str, int]] = {}
    for verdict in decide(ctx, settings, tree)[1].verdicts:
        if verdict.doubtful:
            continue
        kind = class_of(verdict)
        for each in verdict.checkpoint.files:
            found[each.path] = kind, removal_rank(verdict.checkpoint, each.path)
    return found


# -- looking at every object


def pages(ctx: Context, settings: Settings, name: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield pages of all buckets, from where the last call stopped.

    Raises:
        Again: This call has to end.
    """
    seen = ctx.state.get("scan") or {}
    if seen.get("name") != name:
        seen = {"name": name, "bucket": 0, "token": "", "newest": 0.0, "newest_key": "", "classes": {}, "blocking": []}
        seen["listed"] = express_list.nothing()
    ctx.state["scan"] = seen
    s3 = ctx.aws("s3")
    while seen["bucket"] < len(settings.hot_buckets):
        bucket = settings.hot_buckets[seen["bucket"]]
        given = {"ContinuationToken": seen["token"]} if seen["token"] else {}
        try:
            page = s3.list_objects_v2(Bucket=bucket, **given)
        except Exception as error:
            if code_of(error) != "NoSuchBucket":
                raise
            page = {}
        yield bucket, list(page.get("Contents", ()))
        seen["token"] = page.get("NextContinuationToken") or ""
        if not seen["token"]:
            seen["bucket"] += 1
        if ctx.clock() >= ctx.deadline and seen["bucket"] < len(settings.hot_buckets):
            raise Again(0)


def scan(ctx: Context, settings: Settings, name: str, *, copy: bool, write: bool = False) -> None:
    """Sort every object, and compare with the lake what must be there.

    Args:
        ctx: The call; what is found lies in its state under ``scan``.
        settings: Settings of the agent.
        name: Name of this look: another one begins anew.
        copy: Whether loose objects below the checkpoints are copied to the lake.
        write: Whether a list of what is found is written for the step that empties the buckets.

    Raises:
        Again: This call has to end.
    """
    members = _members(ctx, settings)
    before = {} if ctx.proven else express_list.before(ctx, settings.lake_prefix)
    emptied = ctx.state.get("emptied") or ()
    for bucket, page in pages(ctx, settings, name):
        note(ctx.state["scan"], page)

        def sorted_one(each: dict[str, Any], bucket: str = bucket) -> tuple[Entry, str]:
            return _sorted(ctx, settings, bucket, each, members, before, copy=copy, look=write)

        with ThreadPoolExecutor(max(1, min(ctx.workers, len(page) or 1))) as pool:
            found = list(pool.map(sorted_one, page))
        _count(ctx.state["scan"], bucket, found)
        if bucket in emptied:
            listed = ctx.state["scan"]["listed"]
            entries = [entry for entry, _ in found]
            if write:
                express_list.write_part(ctx, listed["parts"], bucket, entries)
            express_list.add(listed, bucket, entries)


def _sorted(
    ctx: Context,
    settings: Settings,
    bucket: str,
    each: dict[str, Any],
    members: dict[str, tuple[str, int]],
    before: dict[str, Entry],
    *,
    copy: bool,
    look: bool,
) -> tuple[Entry, str]:
    """Return what an object is, and what keeps it from being in the lake; empty where nothing does."""
    entry = express_list.entry_of(each)
    key = entry.key
    inner = key[len(settings.lake_prefix) :] if key.startswith(settings.lake_prefix) else None
    if _ours(key):
        return replace(entry, kind=_OURS), ""
    if key.endswith("/") and not entry.size:
        return replace(entry, kind=_FOLDER), ""
    if _left(ctx, bucket, key):
        return replace(entry, kind=LEFT), ""
    kind, rank = members.get(inner, ("", entry.rank)) if inner is not None else ("", entry.rank)
    entry = replace(entry, rank=rank)
    known = before.get(key)
    if known is not None and known.etag == entry.etag and kind in ("", HALF_WRITTEN):
        # A part of it is removed already: what is left of a checkpoint says nothing, the proof of then does.
        if known.kind != KEEP:
            return replace(entry, kind=known.kind), ""
        told, there = _equal(ctx, bucket, each, newer=True)
        return replace(entry, kind=KEEP, there=there), told and f"{told}: {_OTHERWISE}"
    if kind == KEEP and look:
        told, there = _equal(ctx, bucket, each, newer=True)
        return replace(entry, kind=KEEP, there=there), told
    if kind:
        return replace(entry, kind=kind), ""
    if key.startswith(_SCRATCH):
        return replace(entry, kind=SCRATCH), ""
    told, there = _equal(ctx, bucket, each, newer=inner is not None)
    if told and inner is not None and told in _COPIED:
        if not copy:
            told = ""  # it is copied later
        else:
            told = _copied(ctx, settings, bucket, each)
            if not told:
                told, there = _equal(ctx, bucket, each, newer=True)
    return replace(entry, kind=KEEP, there=there), told


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


def _equal(ctx: Context, bucket: str, each: dict[str, Any], *, newer: bool) -> tuple[str, str]:
    """Return what tells an object from that of the lake, and the ETag of that one.

    Where both have a checksum of the whole object by the same algorithm, that tells. Otherwise the one in the lake must
    not be older, unless what is here was copied from there, so that times say nothing.

    Args:
        ctx: The call.
        bucket: Bucket of the object.
        each: The object, as it was listed.
        newer: Whether the one in the lake was made of this one.
    """
    from ..checkpoints import lake

    there = lake.look(ctx.aws, ctx.lake, each["Key"])
    if there is None:
        return _MISSING, ""
    late = newer and there.uploaded < each["LastModified"].timestamp()
    if there.size != each["Size"]:
        return (_LATE if late else f"has {each['Size']:,} bytes, and {there.size:,} in the lake"), ""
    here = lake.look(ctx.aws, bucket, each["Key"]) if there.sums else None
    both = set(here.sums) & set(there.sums) if here is not None else set()
    if here is not None and any(here.sums[name] != there.sums[name] for name in both):
        return (_LATE if late else "has another content than in the lake"), ""
    return (_LATE, "") if late and not both else ("", there.etag)


def note(seen: dict[str, Any], page: list[dict[str, Any]]) -> None:
    """Remember the newest object of a look."""
    for each in page:
        when = each["LastModified"].timestamp()
        if when > seen["newest"] and not _ours(each["Key"]):
            seen.update(newest=when, newest_key=each["Key"])


def refuse_losses(ctx: Context) -> None:
    """Refuse where a look has found what would be lost.

    Raises:
        Refused: It has.
    """
    seen = ctx.state["scan"]
    gone = seen["classes"].get(UNLINKED)
    if gone:
        raise Refused(
            f"{gone['files']:,} objects ({human(gone['bytes'])}) of the directory buckets are not in the lake as "
            "they are: "
            "`training-storage archive` copies them, --leave names what may be lost",
            seen["blocking"],
        )


def _count(seen: dict[str, Any], bucket: str, found: list[tuple[Entry, str]]) -> None:
    for entry, told in found:
        if entry.kind in (_OURS, _FOLDER):
            continue
        held = seen["classes"].setdefault(UNLINKED if told else entry.kind, {"files": 0, "bytes": 0})
        held["files"] += 1
        held["bytes"] += entry.size
        if told and len(seen["blocking"]) < 20:
            seen["blocking"].append(f"s3://{bucket}/{entry.key}: {told}"[:300])


def _ours(key: str) -> bool:
    return any(part.startswith(HIDDEN) for part in key.split("/"))


def _left(ctx: Context, bucket: str, key: str) -> bool:
    for each in ctx.leave:
        plain = each[len(f"s3://{bucket}/") :] if each.startswith(f"s3://{bucket}/") else each
        plain = plain.strip("/")
        if key == plain or key.startswith(plain + "/"):
            return True
    return False
