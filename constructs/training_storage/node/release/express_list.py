"""The list of what a proof covers in directory buckets, object by object, and the mark of a release that empties them.

The list lies in the lake in parts of one page of a listing each, so that memory does not grow with the number of
objects. The sum of hashes over it says whether a bucket still holds exactly what was listed: its order says nothing,
because a directory bucket has none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

from .. import places
from ..aws import code_of
from ..checkpoints.layouts import LAST_REMOVED
from .context import Context, Refused, human
from .sorting import HALF_WRITTEN, KEEP, UNPROMOTED

RANKS = LAST_REMOVED + 1
"""Passes in which files are removed: what makes a checkpoint complete goes first, so that a release that is interrupted
never leaves something that looks like a smaller, complete checkpoint."""

_BITS = 128


@dataclass(frozen=True)
class Entry:
    """One object as it was listed.

    Attributes:
        key: Its key.
        size: Bytes.
        etag: ETag without quotes.
        modified: When it was written, seconds since 1970.
        kind: Its class.
        rank: The pass in which it is removed.
        there: ETag of its equal in the lake; empty for one that needs none.
    """

    key: str
    size: int
    etag: str
    modified: float
    kind: str = ""
    rank: int = LAST_REMOVED
    there: str = ""


def entry_of(listed: Mapping[str, Any]) -> Entry:
    """Return what a listing says of an object."""
    return Entry(listed["Key"], int(listed["Size"]), str(listed["ETag"]).strip('"'), listed["LastModified"].timestamp())


def nothing() -> dict[str, Any]:
    """Return the sum over no objects: parts, objects, bytes, and the sum of hashes as text."""
    return {"parts": 0, "objects": 0, "bytes": 0, "digest": "0"}


def add(listed: dict[str, Any], bucket: str, entries: Iterable[Entry]) -> None:
    """Add the objects of a page to a sum."""
    total = int(listed["digest"], 16)
    for each in entries:
        total += int.from_bytes(hashed(bucket, each), "big")
        listed["objects"] += 1
        listed["bytes"] += each.size
    listed["parts"] += 1
    listed["digest"] = f"{total % (1 << _BITS):x}"


def hashed(bucket: str, entry: Entry) -> bytes:
    """Return what stands for an object in a bucket: another one, or one that was written again, has another hash."""
    text = json.dumps([bucket, entry.key, entry.size, entry.etag, entry.modified])
    return hashlib.sha256(text.encode()).digest()[: _BITS // 8]


def told(listed: Mapping[str, Any], buckets: Iterable[str]) -> str:
    """Return in words what is removed."""
    count = len(list(buckets))
    where = f"{count} directory bucket{'' if count == 1 else 's'}"
    return f"{listed['objects']:,} objects ({human(listed['bytes'])}) in {where}"


# -- the parts


def write_part(ctx: Context, number: int, bucket: str, entries: Iterable[Entry]) -> None:
    """Write a part of the list."""
    lines = [json.dumps({"run": ctx.state["run"], "bucket": bucket})]
    lines += [json.dumps(astuple(each)) for each in entries]
    key = places.manifest_part_key(ctx.hot_tier_id, ctx.state["run"], number)
    ctx.aws("s3").put_object(
        Bucket=ctx.lake, Key=key, Body=("\n".join(lines) + "\n").encode(), ContentType="application/jsonl"
    )


def read_part(ctx: Context, run: str, number: int) -> tuple[str, list[Entry]]:
    """Return the bucket and the objects of a part of the list.

    Raises:
        Refused: It is not there.
    """
    key = places.manifest_part_key(ctx.hot_tier_id, run, number)
    try:
        body = ctx.aws("s3").get_object(Bucket=ctx.lake, Key=key)["Body"].read()
    except Exception as error:
        if code_of(error) != "NoSuchKey":
            raise
        raise Refused(
            f"s3://{ctx.lake}/{key}, which names what a proof covers, is gone: bring back an earlier version; without "
            f"it, look at the directory buckets, delete s3://{ctx.lake}/{_key(ctx)}, and run the release again",
            [key],
        ) from None
    first, *lines = body.decode().splitlines()
    return json.loads(first)["bucket"], [Entry(*json.loads(line)) for line in lines]


# -- the mark


def _key(ctx: Context) -> str:
    return places.hot_tier_folder(places.RELEASES, ctx.hot_tier_id) + "emptying.json"


def mark(ctx: Context) -> dict[str, Any] | None:
    """Return the mark of a release that began to empty the buckets of this hot stack; None where none did.

    A stack that is made anew has another id, also where its name and the names of its buckets are the same.
    """
    found = ctx.read(_key(ctx))
    if found is None or found.get("stack") != (ctx.state.get("stacks") or {}).get("hot"):
        return None
    return found


def covers(ctx: Context, removes: Mapping[str, Any]) -> bool:
    """Return whether a proof says what is removed from each of the buckets that have to be emptied now."""
    return set(ctx.state.get("emptied") or ()) <= set(removes.get("buckets") or ())


def doubted(ctx: Context, valid_from: float) -> bool:
    """Return whether a proof was found not to hold when it was acted on."""
    found = mark(ctx) if ctx.state.get("emptied") else None
    return bool(found and found["doubt"] and abs(found["proof"]["valid_from"] - valid_from) < 0.001)


def begin(ctx: Context) -> None:
    """Write down, before anything is removed, by which proof it is."""
    ctx.write(_key(ctx), _mark(ctx, begun=True, doubt=False))


def doubt(ctx: Context) -> None:
    """Write down that the proof is not to be acted on any more: the next release proves anew."""
    found = mark(ctx)
    ctx.write(_key(ctx), _mark(ctx, begun=bool(found and found.get("begun")), doubt=True))


def _mark(ctx: Context, **more: bool) -> dict[str, Any]:
    proof = ctx.state["proof"]
    return {"stack": ctx.state["stacks"]["hot"], "proof": proof, "at": ctx.clock(), **more}


def before(ctx: Context, prefix: str) -> dict[str, Entry]:
    """Return what a release that has begun to remove had listed of checkpoints, by key.

    Args:
        ctx: The call.
        prefix: Prefix of the checkpoints.
    """
    found = mark(ctx)
    if found is None or not found.get("begun"):
        return {}
    removes, known = found["proof"]["removes"], {}
    for number in range(removes["parts"]):
        for each in read_part(ctx, removes["run"], number)[1]:
            if each.key.startswith(prefix) and each.kind in (KEEP, UNPROMOTED, HALF_WRITTEN):
                known[each.key] = each
    return known
