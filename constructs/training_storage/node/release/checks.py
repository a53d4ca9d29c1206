"""What must hold before a release begins, and that nobody wrote meanwhile."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from .. import places
from ..aws import code_of
from ..run_command import STORAGE_NODE, running_nodes
from . import express_list
from . import proof as proofs
from .activity import NoMetricsError, activity
from .context import Again, Context, Done, Refused, human, utc
from .idle import not_idle
from .stacks import PARTS, removable, resources_of, stacks_of

RUNNING = ("PENDING", "EXECUTING", "CANCELING")
RUN_TAG = "training-storage:release"
"""Tag of the export tasks of a release."""

QUIET_S = 180.0
"""How long nobody may have written before an export begins: what is seen of the last minute is not whole."""
METRICS_S = 1_200.0
"""How long datapoints of CloudWatch are waited for."""
STILL_BUSY_S = 900.0
QUEUE_S = 86_400.0

_USABLE = ("AVAILABLE", "UPDATING", "MISCONFIGURED")
_FILE_SYSTEM, _BUCKET = "AWS::FSx::FileSystem", "AWS::S3Express::DirectoryBucket"


def preconditions(ctx: Context) -> None:
    """Find what is deployed, and refuse while something is under way that a release must not cut off."""
    state = ctx.state
    if ctx.action not in ("check", "prove", "release"):
        raise Refused(f"action is {ctx.action!r}; allowed: check, prove, release")
    state.setdefault("run", f"{int(ctx.clock()):x}-{secrets.token_hex(4)}")
    stacks = stacks_of(ctx)
    state["running"] = sum(1 for role in running_nodes(ctx.aws, ctx.workload).values() if role != STORAGE_NODE)
    state["stacks"] = {name: each["StackId"] for name, each in stacks.items()}
    if not stacks:
        state["message"] = f"nothing of {ctx.workload} is deployed: there is nothing to release"
        raise Done
    _find_tier(ctx, stacks)
    not_idle(ctx, stacks)
    if ctx.tier == "lustre":
        no_tasks(ctx, ours=True)
    _given_proof(ctx, stacks)
    if ctx.tier == "lustre" and not ctx.proven:
        if stacks["hot"]["StackStatus"] == "DELETE_IN_PROGRESS":
            raise Refused(
                f"stack {ctx.workload}-hot is being deleted, and no proof that holds allows it: wait until the "
                "delete has "
                "ended, and run the release again if the file system is still there",
                [f"{ctx.workload}-hot"],
            )
        links_in_order(ctx)
        queue_empty(ctx)


def _find_tier(ctx: Context, stacks: dict[str, dict[str, Any]]) -> None:
    state, hot = ctx.state, stacks.get("hot")
    outputs = {each["OutputKey"]: each["OutputValue"] for each in (hot or {}).get("Outputs") or ()}
    resources = _resources(ctx, hot["StackId"]) if hot else []
    mine = {
        kind: [
            each["PhysicalResourceId"]
            for each in resources
            if each["ResourceType"] == kind
            and each.get("PhysicalResourceId")
            and each.get("ResourceStatus", "") not in ("DELETE_COMPLETE", "DELETE_SKIPPED")
        ]
        for kind in (_FILE_SYSTEM, _BUCKET)
    }
    if mine[_FILE_SYSTEM]:
        state.update(tier="lustre", hot_tier_id=mine[_FILE_SYSTEM][0])
        _look_at_file_system(ctx)
        return
    status = ctx.read(places.status_key(ctx.workload)) or {}
    settings = status.get("settings") or {}
    buckets = [each for each in str(outputs.get("DirectoryBucketNames", "")).split(",") if each]
    state["hot_tier_id"] = ctx.workload
    if any(each["ResourceType"] == _FILE_SYSTEM for each in resources):
        state.update(tier="gone", note="the file system is gone already; only stacks are left to delete")
    elif "FileSystemId" in outputs:
        name = outputs["FileSystemId"]
        state.update(tier="kept", hot_tier_id=name, note=f"file system {name} is yours: it stays, with all its files")
    elif mine[_BUCKET]:
        # In the order of their index, which a stack without outputs does not tell: its creation failed.
        there = [each for each in buckets if each in mine[_BUCKET]] or sorted(mine[_BUCKET])
        state.update(tier="express", buckets=there, partly=len(there) < len(buckets))
        # The lake's stack says what is wanted, and the deployed hot stack what it does: it may be of another time.
        deleted = removable(ctx.aws, hot["StackId"], _BUCKET) if hot and state.get("empties") else []
        state["emptied"] = [each for each in there if each in deleted]
    elif settings.get("tier") == "express" or (hot and any(each["ResourceType"] == _BUCKET for each in resources)):
        kept = ", ".join(settings.get("hot_buckets") or buckets)
        state.update(
            tier="kept", note=f"directory buckets {kept} are no part of the stacks: they stay".replace("  ", " ")
        )
    else:
        state["tier"] = "nvme"


def _resources(ctx: Context, stack_id: str) -> list[dict[str, Any]]:
    try:
        return resources_of(ctx.aws, stack_id)
    except Exception as error:
        if code_of(error) == "ValidationError" and "does not exist" in str(error):
            raise Again(10, "the hot stack went away a moment ago") from None
        raise


def _look_at_file_system(ctx: Context) -> None:
    try:
        found = ctx.aws("fsx").describe_file_systems(FileSystemIds=[ctx.hot_tier_id])["FileSystems"]
    except Exception as error:
        if code_of(error) != "FileSystemNotFound":
            raise
        found = []
    if not found or found[0]["Lifecycle"] == "DELETING":
        ctx.state.update(
            tier="gone", note=f"file system {ctx.hot_tier_id} is gone already; only stacks are left to delete"
        )
        return
    if found[0]["Lifecycle"] not in _USABLE:
        raise Refused(
            f"file system {ctx.hot_tier_id} is {found[0]['Lifecycle']}; a release needs it AVAILABLE: nothing can "
            "be read "
            "from it as it is",
            [ctx.hot_tier_id],
        )
    ctx.state["mount_name"] = (found[0].get("LustreConfiguration") or {}).get("MountName", "")


# -- tasks, links, queue


def tasks_of(ctx: Context) -> Iterator[dict[str, Any]]:
    """Yield the data repository tasks of the file system."""
    given: dict[str, Any] = {"Filters": [{"Name": "file-system-id", "Values": [ctx.hot_tier_id]}]}
    while True:
        page = ctx.aws("fsx").describe_data_repository_tasks(**given)
        yield from page["DataRepositoryTasks"]
        if not page.get("NextToken"):
            return
        given["NextToken"] = page["NextToken"]


def is_ours(task: dict[str, Any]) -> bool:
    """Return whether a release started a task."""
    return any(each["Key"] == RUN_TAG for each in task.get("Tags") or ())


def no_tasks(ctx: Context, *, ours: bool) -> None:
    """Refuse while a task is under way; none is ever cancelled.

    Args:
        ctx: The call.
        ours: Whether an export of a release may run: the export step waits for it.

    Raises:
        Refused: One is.
    """
    busy = [
        each
        for each in tasks_of(ctx)
        if each["Lifecycle"] in RUNNING and not (ours and is_ours(each) and each["Lifecycle"] != "CANCELING")
    ]
    if busy:
        named = [f"{each['TaskId']} ({each['Type']}, {each['Lifecycle']})" for each in busy]
        raise Refused(
            f"data repository task {', '.join(named)} of {ctx.hot_tier_id} has not ended: the file system cannot be "
            "deleted "
            "beside it, and what it exports is not all in S3. A release cancels no task: wait for its end, then run "
            "the "
            "release again",
            named,
        )


def links_in_order(ctx: Context) -> list[dict[str, Any]]:
    """Return the associations of the file system.

    Raises:
        Refused: One is not AVAILABLE.
    """
    found: list[dict[str, Any]] = []
    given: dict[str, Any] = {"Filters": [{"Name": "file-system-id", "Values": [ctx.hot_tier_id]}]}
    while True:
        page = ctx.aws("fsx").describe_data_repository_associations(**given)
        found += page["Associations"]
        if not page.get("NextToken"):
            break
        given["NextToken"] = page["NextToken"]
    wrong = [
        f"{each['AssociationId']} ({each['FileSystemPath']}, {each['Lifecycle']})"
        for each in found
        if each["Lifecycle"] != "AVAILABLE"
    ]
    if wrong:
        raise Refused(
            f"data repository association {', '.join(wrong)} is not AVAILABLE, so that an export does not arrive; "
            "see its failure details in FSx, repair it, and run the release again",
            wrong,
        )
    return found


def queue_empty(ctx: Context) -> None:
    """Refuse while files wait to be exported by themselves.

    Raises:
        Refused: They do.
    """
    age = queue_age(ctx)
    if age:
        raise Refused(
            f"the export queue of {ctx.hot_tier_id} is not empty: the oldest file has waited for {age:,.0f} seconds. "
            "Wait until AgeOfOldestQueuedMessage (AutoExport) is 0, and run the release again",
            [f"AutoExport queue of {ctx.hot_tier_id}"],
        )


def queue_age(ctx: Context) -> float:
    """Return how long the oldest file of the export queue has waited, in seconds; 0 where none does."""
    now = ctx.clock()
    answer = ctx.aws("cloudwatch").get_metric_data(
        MetricDataQueries=[
            {
                "Id": "age",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/FSx",
                        "MetricName": "AgeOfOldestQueuedMessage",
                        "Dimensions": [
                            {"Name": "FileSystemId", "Value": ctx.hot_tier_id},
                            {"Name": "Publisher", "Value": "AutoExport"},
                        ],
                    },
                    "Period": 60,
                    "Stat": "Maximum",
                },
                "ReturnData": True,
            }
        ],
        StartTime=datetime.fromtimestamp(now - 900, timezone.utc),
        EndTime=datetime.fromtimestamp(now, timezone.utc),
        ScanBy="TimestampDescending",
    )
    points = list(zip(answer["MetricDataResults"][0]["Timestamps"], answer["MetricDataResults"][0]["Values"]))
    return float(max(points, key=lambda each: each[0])[1]) if points else 0.0


# -- who writes


def still(ctx: Context, since: float, needed: float, fix: str) -> None:
    """Make sure that nobody wrote since a moment.

    Args:
        ctx: The call.
        since: The moment.
        needed: Until when that must be known.
        fix: What to do where somebody did.

    Raises:
        Refused: Somebody did, or CloudWatch does not say so in time.
        Again: It is not known yet.
    """
    try:
        seen = activity(ctx.aws, ctx.hot_tier_id, since, max(needed, ctx.clock()), clock=ctx.clock)
    except NoMetricsError as error:
        ctx.wait("metrics", 60, METRICS_S, f"CloudWatch does not say whether {ctx.hot_tier_id} was written to: {error}")
        raise
    if seen.last_write is not None and seen.last_write > since:
        raise Refused(
            f"{human(seen.write_bytes)} were written to {ctx.hot_tier_id} after {utc(since)}, the last of them before "
            f"{utc(seen.last_write)}: what was exported before is no proof of that. {fix}",
            [f"writes to {ctx.hot_tier_id} until {utc(seen.last_write)}"],
        )
    # Each server of a file system reports for itself: a minute is whole once the next one has begun to arrive.
    known = seen.known_until is not None and seen.known_until >= needed + 60
    if not known or seen.known_from is None or seen.known_from > since:
        ctx.wait(
            "metrics",
            60,
            METRICS_S,
            f"CloudWatch has no datapoints of DataWriteBytes of {ctx.hot_tier_id} from {utc(since)} to {utc(needed)}: "
            "whether somebody wrote is not known, and without that nothing is deleted. Run the release again",
            now="CloudWatch does not know the last minutes yet",
        )


def calm(ctx: Context) -> None:
    """Wait until nobody has written for some minutes, so that an export has something to be a proof of.

    Raises:
        Refused: Somebody goes on writing.
        Again: It is not calm yet.
    """
    now = ctx.clock()
    try:
        seen = activity(ctx.aws, ctx.hot_tier_id, now - 2 * QUIET_S, now, clock=ctx.clock)
    except NoMetricsError as error:
        ctx.wait("metrics", 60, METRICS_S, f"CloudWatch does not say whether {ctx.hot_tier_id} is written to: {error}")
        raise
    if seen.last_write is not None and seen.last_write > now - QUIET_S:
        ctx.wait(
            "calm",
            60,
            STILL_BUSY_S,
            f"{ctx.hot_tier_id} is being written to: {human(seen.write_bytes)} in the last minutes. Stop the "
            "training job, "
            "and run the release again",
            [f"writes to {ctx.hot_tier_id} until {utc(seen.last_write)}"],
            now=f"{human(seen.write_bytes)} were written until {utc(seen.last_write)}; it has to be quiet for "
            f"{QUIET_S / 60:.0f} minutes",
        )
    first = ctx.state.setdefault("since", {}).setdefault("looked", now)
    if seen.known_until is None or seen.known_until < first:
        ctx.wait(
            "metrics",
            60,
            METRICS_S,
            f"CloudWatch has no datapoints of DataWriteBytes of {ctx.hot_tier_id}: whether somebody writes is not "
            "known, "
            "and without that nothing is deleted. Run the release again",
            now="CloudWatch does not know the last minutes yet",
        )


# -- a proof that is there already


def _given_proof(ctx: Context, stacks: dict[str, dict[str, Any]]) -> None:
    """Take a proof that somebody has confirmed, or that an interrupted release has acted on."""
    given = ctx.state.get("proof")
    given = None if isinstance(given, dict) else given
    begun = any(stacks[name]["StackStatus"].startswith("DELETE") for name in PARTS if name in stacks)
    if ctx.state.get("emptied") and _emptying(ctx, given):
        return
    if ctx.action == "check" or (given is None and not begun) or ctx.tier in ("gone", "kept"):
        return
    found = proofs.read(ctx.aws, ctx.lake, ctx.hot_tier_id)
    if given is not None and (found is None or abs(found.valid_from - float(given)) > 0.001):
        raise Refused(
            f"the proof that was confirmed (valid from {utc(float(given))}) is not the last one of "
            f"{ctx.hot_tier_id}; run "
            "the release again, and confirm what it shows then"
        )
    if found is None or found.kind != "proof" or ctx.tier == "nvme":
        return
    if ctx.tier == "express" and given is None:
        from . import express_proof

        # Buckets have no id that would tell a proof of an earlier run apart.
        if found.valid_from < stacks["hot"]["CreationTime"].timestamp():
            return
        if not express_proof.untouched_since(ctx, found.valid_from):
            return
    if ctx.tier == "lustre":
        seen = activity(ctx.aws, ctx.hot_tier_id, found.valid_from, ctx.clock(), clock=ctx.clock)
        if seen.last_write is not None and seen.last_write > found.valid_from:
            if given is None:
                return
            raise Refused(
                f"{human(seen.write_bytes)} were written to {ctx.hot_tier_id} after the proof that was confirmed: "
                "it is "
                "worthless now. Run the release again",
                [f"writes to {ctx.hot_tier_id} until {utc(seen.last_write)}"],
            )
        index = ctx.read(found.manifest) if found.manifest else None
        # Another release may have written one since, of fewer files, and never come to its proof.
        if index is None or (index["keep_files"], index["keep_bytes"]) != (found.files, found.bytes):
            if given is None:
                return  # it is proven anew
            raise Refused(
                f"the manifest s3://{ctx.lake}/{found.manifest} is no longer that of the proof that was confirmed; run "
                "the release again, and confirm what it shows then"
            )
        ctx.state["manifest"] = index["run"]
    if not express_list.covers(ctx, found.removes) or express_list.doubted(ctx, found.valid_from):
        if given is None:
            return  # it is proven anew
        raise Refused(
            "the proof that was confirmed does not say what is removed from the directory buckets, or was found not to "
            "hold when a release acted on it; run the release again, and confirm what it shows then"
        )
    ctx.state.update(proven=True, valid_from=found.valid_from, proof=shown(found))


def _emptying(ctx: Context, given: Any) -> bool:
    """Go on with the proof by which an earlier release has begun to empty the buckets; return whether that is it."""
    from . import express_proof

    found = express_proof.begun(ctx)
    if found is None or (given is not None and abs(found.valid_from - float(given)) > 0.001):
        return False
    ctx.state["resumes"] = True
    if ctx.action != "check":
        ctx.state.update(proven=True, valid_from=found.valid_from, proof=shown(found))
    return True


def shown(proof: proofs.Proof) -> dict[str, Any]:
    """Return a proof as it travels in the state: without names."""
    left = {
        name: {key: each[key] for key in ("files", "bytes", "why") if key in each} for name, each in proof.left.items()
    }
    return {**proof.to_dict(), "left": left, "tasks": list(proof.tasks)[:20]}
