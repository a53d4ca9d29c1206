"""Removes from directory buckets exactly what a proof covers, so that their stack can go; nothing else ever does.

Worked only where the stack of the release says so, on buckets that the deployed hot stack deletes. The lake is looked
at once more before the first object goes, and the buckets are compared with what was listed for the proof. Each object
goes on condition that it is still the one that was listed. Whatever was not listed, or has changed, stays and ends the
release. A mark in the lake says by which proof the removal has begun, so that the next release goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, Callable, TypeVar

from ..aws import MISSING, TAKEN, code_of
from ..checkpoints import lake
from . import express_list
from .context import SHOWN, Again, Context, Refused, human
from .express_list import Entry
from .express_proof import nobody_wrote
from .express_survey import note, pages, settings_of
from .sorting import KEEP
from .stacks import LONGEST_S, find_stack, removable

CALL_S = 60.0
"""How long a call works at most: with each the command says how far it is."""
NAMED = 2_000_000
"""Objects up to which those that are not in the list are looked for by name, 100 bytes of memory each."""
_BUSY_S = 1_800.0
_ALONE = frozenset({"MalformedXML", "InvalidArgument", "NotImplemented"})
"""What S3 says to a batch with a key that XML cannot hold, or with a condition that it does not take of a batch."""
_BUSY = frozenset({"SlowDown", "InternalError", "ServiceUnavailable", "503", "500", "RequestTimeout"})
_STOP = "Nothing more is removed. Stop what writes, and run the release again, which proves anew what is there"

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def empty(ctx: Context) -> None:
    """Remove what the proof covers from the buckets that the hot stack deletes.

    Raises:
        Again: There is more to do.
        Refused: Something is not as it was proven, or the stack would not go.
    """
    removes = (ctx.state.get("proof") or {}).get("removes") or {}
    if ctx.tier != "express" or not ctx.state.get("empties") or not removes:
        return
    buckets = _buckets(ctx, removes["buckets"])
    if not buckets:
        return
    ctx.deadline = min(ctx.deadline, ctx.clock() + CALL_S)
    work = ctx.state.setdefault("emptying", {"phase": "lake", "part": 0, "rank": 0, "objects": 0, "bytes": 0})
    try:
        for phase, act in _PHASES.items():
            if work["phase"] == phase:
                act(ctx, work, removes, buckets)
                work.update(phase=_after(phase), part=0)
    except _Doubt as found:
        express_list.doubt(ctx)
        raise Refused(f"{found.text}. {_STOP}", found.blocking) from None


class _Doubt(Refused):
    """Something is not as the proof says; the proof is not acted on any more."""


def _after(phase: str) -> str:
    names = [*_PHASES, "ended"]
    return names[names.index(phase) + 1]


def _buckets(ctx: Context, proven: Iterable[str]) -> list[str]:
    """Return the buckets to empty: those that the proof covers and the hot stack, as it is deployed now, deletes.

    Raises:
        Refused: The fleet's stack is there (again), or the hot stack would not go.
        Again: Something is being done to the hot stack.
    """
    stacks = ctx.state.get("stacks") or {}
    name = f"{ctx.workload}-hot"
    stack = find_stack(ctx.aws, stacks["hot"]) if "hot" in stacks else None
    if stack is None:
        return []
    if find_stack(ctx.aws, f"{ctx.workload}-compute") is not None:
        raise Refused(
            f"stack {ctx.workload}-compute is there: the directory buckets stay as they are while a fleet may write to "
            "them. Run the release again",
            [f"{ctx.workload}-compute"],
        )
    if stack.get("EnableTerminationProtection"):
        raise Refused(
            f"stack {name} is protected against deletion: its directory buckets stay as they are. Take the protection "
            "away, and run the release again",
            [name],
        )
    if stack["StackStatus"].endswith("_IN_PROGRESS"):
        told = f"stack {name} is {stack['StackStatus']}"
        ctx.wait("hot", 30, LONGEST_S, f"{told}; see its events, and run the release again", [name], now=told)
    deleted = removable(ctx.aws, stack["StackId"], "AWS::S3Express::DirectoryBucket")
    return [each for each in proven if each in deleted]


# -- before anything is removed


def _look(ctx: Context, _work: dict[str, Any], removes: dict[str, Any], buckets: list[str]) -> None:
    """Make sure that the buckets hold exactly what was listed, or less where a removal has begun."""
    settings = replace(settings_of(ctx), hot_buckets=tuple(buckets))
    young = _young_uploads(ctx, buckets)
    if young:
        raise _Doubt(f"{len(young)} uploads in parts were begun after the proof", young)
    for bucket, page in pages(ctx, settings, "empty"):
        note(ctx.state["scan"], page)
        express_list.add(ctx.state["scan"]["listed"], bucket, map(express_list.entry_of, page))
    try:
        nobody_wrote(ctx)
    except Refused as refused:
        raise _Doubt(refused.text, refused.blocking) from None
    listed = ctx.state.pop("scan")["listed"]
    if any(listed[each] != removes[each] for each in ("objects", "digest")):
        _refuse_strangers(ctx, removes, listed, buckets)
    express_list.begin(ctx)


def _refuse_strangers(ctx: Context, removes: dict[str, Any], listed: dict[str, Any], buckets: list[str]) -> None:
    # Something is gone, which may be what an earlier release removed; what is there has to be in the list.
    if max(listed["objects"], removes["objects"]) > NAMED:
        if _resumes(ctx):
            return  # each object is removed on condition, and what is left at the end is refused
        raise _Doubt(
            f"the directory buckets do not hold what the proof covers: {removes['objects']:,} objects then, "
            f"{listed['objects']:,} now",
            buckets,
        )
    strange = _strangers(ctx, removes, buckets)
    if strange:
        raise _Doubt(f"{strange[0]} and others, {len(strange)} or more in all, are not as the proof has them", strange)


def _resumes(ctx: Context) -> bool:
    found = express_list.mark(ctx)
    return bool(found and found.get("begun") and found["proof"].get("removes") == ctx.state["proof"]["removes"])


def _strangers(ctx: Context, removes: dict[str, Any], buckets: list[str]) -> list[str]:
    """Return objects that the list has not, or has otherwise."""
    known: set[bytes] = set()
    for number in range(removes["parts"]):
        bucket, entries = express_list.read_part(ctx, removes["run"], number)
        known.update(express_list.hashed(bucket, each) for each in entries)
    return [
        f"s3://{bucket}/{entry.key}"
        for bucket in buckets
        for entry in _listed(ctx, bucket)
        if express_list.hashed(bucket, entry) not in known
    ][:SHOWN]


def _look_at_lake(ctx: Context, work: dict[str, Any], removes: dict[str, Any], _buckets: list[str]) -> None:
    """Make sure that the lake still has what the proof found there, and that the list is that of the proof."""
    listed = work.setdefault("listed", express_list.nothing())
    while work["part"] < removes["parts"]:
        bucket, entries = express_list.read_part(ctx, removes["run"], work["part"])
        express_list.add(listed, bucket, entries)
        kept = [each for each in entries if each.kind == KEEP]
        wrong = [told for told in _parallel(ctx, _otherwise(ctx), kept) if told]
        if wrong:
            raise _Doubt(f"{len(wrong):,} objects are no longer in the lake as they were proven, or more", wrong)
        work["part"] += 1
        if work["part"] < removes["parts"] and ctx.clock() >= ctx.deadline:
            raise Again(0, f"looked at {listed['objects']:,} of {removes['objects']:,} objects in the lake once more")
    if any(listed[each] != removes[each] for each in listed):
        raise _Doubt("the list of what the proof covers is not the one that it was made with", ["the list"])


def _otherwise(ctx: Context) -> Callable[[Entry], str]:
    def told(entry: Entry) -> str:
        there = lake.look(ctx.aws, ctx.lake, entry.key)
        if there is None:
            return f"{entry.key}: is not in the lake"
        same = (there.size, there.etag) == (entry.size, entry.there)
        return "" if same else f"{entry.key}: is another object in the lake"

    return told


# -- removing


def _remove(ctx: Context, work: dict[str, Any], removes: dict[str, Any], buckets: list[str]) -> None:
    """Remove the listed objects, what makes checkpoints complete first."""
    while work["rank"] < express_list.RANKS:
        while work["part"] < removes["parts"]:
            bucket, entries = express_list.read_part(ctx, removes["run"], work["part"])
            chosen = [each for each in entries if each.rank == work["rank"]]
            if chosen and bucket in buckets:
                _remove_page(ctx, bucket, chosen)
                work["objects"] += len(chosen)
                work["bytes"] += sum(each.size for each in chosen)
            work["part"] += 1
            if ctx.clock() >= ctx.deadline:
                raise Again(
                    0,
                    f"{work['objects']:,} of {removes['objects']:,} objects removed "
                    f"({human(work['bytes'])} of {human(removes['bytes'])})",
                )
        work.update(rank=work["rank"] + 1, part=0)


def _remove_page(ctx: Context, bucket: str, entries: list[Entry]) -> None:
    each_takes = -(-len(entries) // max(1, ctx.workers))
    batches = [entries[start : start + each_takes] for start in range(0, len(entries), each_takes)]
    answers = _parallel(ctx, lambda batch: _batch(ctx, bucket, batch), batches)
    changed, busy, refused = (sorted(text for answer in answers for text in answer[kind]) for kind in _KINDS)
    if changed:
        raise _Doubt(f"{changed[0]} was written after the proof, or is another object than the proof has", changed)
    if refused:
        raise Refused(f"S3 does not remove {len(refused):,} objects, the first of them {refused[0]}", refused)
    if busy:
        ctx.wait("busy", 5, _BUSY_S, f"S3 does not remove {busy[0]}", busy, now=f"S3 is busy: {busy[0]}")


_KINDS = ("changed", "busy", "refused")


def _batch(ctx: Context, bucket: str, entries: list[Entry]) -> dict[str, list[str]]:
    """Remove objects on condition; return what was not removed, by reason. One that is gone already is removed."""
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    by_key = {each.key: each for each in entries}
    asked = [
        {
            "Key": each.key,
            "ETag": f'"{each.etag}"',
            "Size": each.size,
            "LastModifiedTime": datetime.fromtimestamp(each.modified, timezone.utc),
        }
        for each in entries
    ]
    try:
        answer = ctx.aws("s3").delete_objects(Bucket=bucket, Delete={"Objects": asked, "Quiet": True})
        errors = list(answer.get("Errors") or ())
    except Exception as error:
        code = code_of(error)
        if code == "NoSuchBucket":
            return found
        if code not in _ALONE:
            raise
        errors = [{"Key": each.key, "Code": "PreconditionFailed"} for each in entries]  # each by itself
    for each in errors:
        code, key = str(each.get("Code")), str(each.get("Key"))
        where = f"s3://{bucket}/{key}"
        if code in TAKEN and key in by_key:
            if not _alone(ctx, bucket, by_key[key]):
                found["changed"].append(where)
        elif code in _BUSY:
            found["busy"].append(f"{where}: {code}")
        elif code not in MISSING:
            found["refused"].append(f"{where}: {code} {each.get('Message', '')}".rstrip())
    return found


def _alone(ctx: Context, bucket: str, entry: Entry) -> bool:
    """Look at one object that did not go with others, and remove it if it is the listed one; return whether it is gone.

    A time may be compared more exactly than it can be given, and a key may be none that XML can hold.
    """
    there = lake.look(ctx.aws, bucket, entry.key)
    if there is None:
        return True
    if (there.size, there.etag, int(there.uploaded)) != (entry.size, entry.etag, int(entry.modified)):
        return False
    try:
        ctx.aws("s3").delete_object(Bucket=bucket, Key=entry.key, IfMatch=f'"{entry.etag}"', IfMatchSize=entry.size)
    except Exception as error:
        code = code_of(error)
        if code in TAKEN:
            # Gone by a request whose answer was lost, or written again a moment ago.
            return lake.look(ctx.aws, bucket, entry.key) is None
        if code not in MISSING | {"NoSuchBucket"}:
            raise
    return True


# -- uploads in parts, and what is left


def _uploads(ctx: Context, bucket: str) -> Iterator[dict[str, Any]]:
    given: dict[str, Any] = {"Bucket": bucket}
    while True:
        try:
            page = ctx.aws("s3").list_multipart_uploads(**given)
        except Exception as error:
            if code_of(error) != "NoSuchBucket":
                raise
            return
        yield from page.get("Uploads") or ()
        if not page.get("IsTruncated"):
            return
        given["KeyMarker"] = page["NextKeyMarker"]  # directory buckets know no second marker


def _young_uploads(ctx: Context, buckets: list[str]) -> list[str]:
    return [
        f"s3://{bucket}/{each['Key']} (upload {each['UploadId']})"
        for bucket in buckets
        for each in _uploads(ctx, bucket)
        if not _older(ctx, each)
    ]


def _older(ctx: Context, upload: dict[str, Any]) -> bool:
    return bool(upload["Initiated"].timestamp() < int(ctx.state["valid_from"]))


def _abort(ctx: Context, _work: dict[str, Any], _removes: dict[str, Any], buckets: list[str]) -> None:
    """Abort uploads in parts that nobody has ended before the proof."""
    for bucket in buckets:
        found = list(_uploads(ctx, bucket))
        young = [f"s3://{bucket}/{each['Key']} (upload {each['UploadId']})" for each in found if not _older(ctx, each)]
        if young:
            raise _Doubt(f"{len(young)} uploads in parts were begun after the proof", young)
        for each in found:
            try:
                ctx.aws("s3").abort_multipart_upload(Bucket=bucket, Key=each["Key"], UploadId=each["UploadId"])
            except Exception as error:
                if code_of(error) not in MISSING | {"NoSuchUpload", "NoSuchBucket"}:
                    raise
            if ctx.clock() >= ctx.deadline:
                raise Again(0, f"ending uploads in parts of {bucket}")


def _nothing_left(ctx: Context, _work: dict[str, Any], _removes: dict[str, Any], buckets: list[str]) -> None:
    """Make sure that nothing is left, which would be nothing that the proof covers."""
    for bucket in buckets:
        left = []
        for each in _listed(ctx, bucket):
            left.append(f"s3://{bucket}/{each.key}")
            if len(left) == SHOWN:
                break
        if left:
            raise _Doubt(f"{left[0]} is not among what the proof covers", left)


def _listed(ctx: Context, bucket: str) -> Iterator[Entry]:
    given: dict[str, Any] = {"Bucket": bucket}
    while True:
        try:
            page = ctx.aws("s3").list_objects_v2(**given)
        except Exception as error:
            if code_of(error) != "NoSuchBucket":
                raise
            return
        yield from map(express_list.entry_of, page.get("Contents") or ())
        if not page.get("NextContinuationToken"):
            return
        given["ContinuationToken"] = page["NextContinuationToken"]


def _parallel(ctx: Context, act: Callable[[_Item], _Answer], items: list[_Item]) -> list[_Answer]:
    with ThreadPoolExecutor(max(1, min(ctx.workers, len(items) or 1))) as pool:
        return list(pool.map(act, items))


_PHASES: dict[str, Callable[[Context, dict[str, Any], dict[str, Any], list[str]], None]] = {
    "lake": _look_at_lake,
    "look": _look,
    "remove": _remove,
    "uploads": _abort,
    "left": _nothing_left,
}
"""What is done, in its order; what a call has ended is not done again by the next one."""
