"""What a file system holds, sorted, and what an export has to take: written to the lake before anything is exported."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from typing import Any, Callable

from .. import places
from ..aws import Aws
from ..errors import Refusal
from ..roots import rooted
from ..settings import Settings
from .sorting import KEEP, Sorter, States
from .tally import Places, Tally

MOUNTS = "/proc/self/mounts"
EVERY = 20_000
"""Files between two reports of progress."""

Progress = Callable[["dict[str, Any]"], None]


def survey(
    aws: Aws,
    settings: Settings,
    *,
    run: str,
    leave: Iterable[str] = (),
    progress: Progress = lambda _figures: None,
    clock: Callable[[], float] = time.time,
    states: States | None = None,
) -> dict[str, Any]:
    """Sort every file of the mounted file system, and write what was found to ``places.survey_key``. Changes nothing.

    Args:
        aws: Clients.
        settings: Settings of the node.
        run: The release that asks.
        leave: Paths that are left behind on purpose.
        progress: Takes figures now and then.
        clock: The time, in seconds since 1970.
        states: As in ``Sorter``.

    Returns:
        What was written, without lists of names and paths.

    Raises:
        Refusal: Something keeps it from seeing everything.
        OSError: A directory cannot be read.
        ClientError: S3 refused or failed.
    """
    began = clock()
    sorter = Sorter(aws, settings, leave=leave, clock=clock, states=states)
    tally, paths = Tally(settings.mount), Places(settings.mount, sorter.mixed)
    ways = {"task": 0, "auto": 0, "upload": 0}
    for found in sorter.files():
        tally.add(found)
        paths.add(found)
        if found.kind == KEEP:
            ways[found.way] += 1
        if tally.files % EVERY == 0:
            progress({"files": tally.files, "bytes": tally.bytes})
    exported = paths.close()
    whole: dict[str, Any] = {
        "version": 1,
        "run": run,
        "workload": settings.workload,
        "hot_tier_id": settings.hot_tier_id,
        "began": began,
        "ended": clock(),
        "files": tally.files,
        "bytes": tally.bytes,
        "classes": tally.to_dict(),
        "ways": ways,
        "paths": exported,
        "too_many_paths": paths.too_many,
        "pointers": sorter.pointers,
        "pointer_count": sorter.pointer_count,
        "special": sorter.special,
        "checkpoints": {
            "due": sorted(path for path, each in sorter.verdicts.items() if each.due and each.checkpoint.complete),
            "left": sorted(path for path, each in sorter.verdicts.items() if not each.due)[:100],
        },
        "settings": settings.to_dict(),
    }
    body = json.dumps(whole, indent=1, sort_keys=True) + "\n"
    aws("s3").put_object(
        Bucket=settings.lake_bucket,
        Key=places.survey_key(settings.hot_tier_id),
        Body=body.encode(),
        ContentType="application/json",
    )
    return summary(whole)


def summary(whole: dict[str, Any]) -> dict[str, Any]:
    """Return what a command answers of a survey or of an index: counts, no lists."""
    classes = {name: {"files": each["files"], "bytes": each["bytes"]} for name, each in whole["classes"].items()}
    return {"run": whole["run"], "files": whole["files"], "bytes": whole["bytes"], "classes": classes}


def check_place(settings: Settings, hot_tier_id: str, mount_name: str) -> None:
    """Make sure that what is walked is the file system that is to go, and not the empty folder below its mount.

    Args:
        settings: Settings of the node.
        hot_tier_id: The file system; empty: that of the settings.
        mount_name: Lustre's name of it; empty: any file system of Lustre.

    Raises:
        Refusal: It is not.
    """
    if settings.tier != "lustre" or not settings.mount:
        raise Refusal(f"a survey walks a shared file system; the tier of {settings.workload} is {settings.tier}")
    if hot_tier_id and hot_tier_id != settings.hot_tier_id:
        raise Refusal(f"this node serves {settings.hot_tier_id}, and not {hot_tier_id}: choose a node of that one")
    if os.environ.get("TS_ROOT") and not os.path.exists(rooted(MOUNTS)):  # noqa: PTH110 - the room spares pathlib
        return
    with open(rooted(MOUNTS), encoding="utf-8", errors="surrogateescape") as stream:  # noqa: PTH123 - as above
        mounted = [line.split()[:3] for line in stream]
    source = next((each[0] for each in reversed(mounted) if each[1] == settings.mount and each[2] == "lustre"), "")
    if not source or (mount_name and not source.endswith(f":/{mount_name}")):
        shown = f"{source} is" if source else "no Lustre file system is"
        wanted = f"{settings.hot_tier_id} ({mount_name})" if mount_name else settings.hot_tier_id
        raise Refusal(f"{shown} mounted at {settings.mount} of this node; it must be {wanted}. Mount it and run again")
