"""Loading ahead without anybody watching: a state machine calls ``run`` until the data is there.

Every call looks at what is there first, so it may be repeated at any point. The storage node is started where no node
of the workload is online, and stopped again at the end; a note in the lake says that it was started from here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Callable

from . import calls, places
from .aws import MISSING, Aws, code_of
from .preload_model import combine, human
from .run_command import LONGEST_S, NodeAnswer, online_nodes

LOOK_S = 30
"""Seconds between two calls."""

SLOWER, LEAST_OFTEN_S = 0.05, 300
"""Share of the time waited so far that the next call waits, and the most: an execution of Step Functions has room for
25,000 events of history (its quotas), a call and its wait are ten of them, and a preload may take two days."""

BOOT_S = 3_600.0
"""How long a node may take to boot, mount and answer: no wait of ours is shorter than an hour (field report 8)."""

MOST_TRIES = 5
"""Commands that may fail or be lost, one after another."""

MOST_NODES = 4
"""Nodes that share the work: FSx does it, and a node only asks."""


def arguments(paths: Any) -> list[str]:
    """Return the arguments of a preload that make two of them the same, as the command line makes them too."""
    return ["preload", *(word for each in sorted(set(paths)) for word in ("--path", each))]


def run(event: Mapping[str, Any], aws: Aws, clock: Callable[[], float]) -> dict[str, Any]:
    """Do what can be done now.

    Args:
        event: ``workload``, ``lake_bucket`` and ``paths`` (as of ``--path``; left out: every link that imports), and
            what the call before returned.
        aws: Clients.
        clock: Seconds since 1970.

    Returns:
        The event with ``status``: ``again`` after ``wait`` seconds, ``next`` (the data is there; ``answer`` has the
        counts, also of files that failed) or ``refused`` with ``message``.
    """
    state = dict(event)
    state.setdefault("since", clock())
    workload, bucket = state["workload"], state["lake_bucket"]
    argv = arguments(state.get("paths") or ())
    online = online_nodes(aws, workload)
    if not online and not state.get("command_id"):
        return _boot(state, aws, clock)
    if not state.get("command_id"):
        call, _ = calls.start_or_join(
            aws, bucket, workload, argv, lambda: online[:MOST_NODES], timeout_s=LONGEST_S, clock=clock,
            for_nodes=lambda chosen: ["--among", ",".join(chosen)],
        )  # fmt: skip
        state["command_id"] = call.command_id
        return _again(state, f"asked {len(call.instance_ids)} nodes to load", clock())
    call_now = calls.current(aws, bucket, workload, argv)
    if call_now is None or call_now.command_id != state["command_id"]:
        # Another one of the same kind has taken its place; what this one did is done.
        return _anew(state, "the command is gone; it is sent again", clock())
    found = calls.look(aws, bucket, call_now)
    if any(each.progress or each.state == "done" for each in found):
        state.pop("no_node_since", None)
    if any(not each.over for each in found):
        return _again(state, _progress(found), clock())
    calls.finish(aws, bucket, workload, argv, call_now)
    troubles = "; ".join(each.message for each in found if each.state != "done")
    if any(each.state == "refused" for each in found):
        return _end(state, aws, "refused", troubles)
    if troubles:
        # Booting, gone, or failed: what is loaded stays loaded, and the next one goes on from there.
        booting = all(each.not_ready for each in found)
        state["tries"] = state.get("tries", 0) + (0 if booting else 1)
        if state["tries"] > MOST_TRIES or (booting and _without_node(state, clock) > BOOT_S):
            return _end(state, aws, "refused", troubles)
        return _anew(state, troubles, clock())
    answer = combine([each.answer or {} for each in found])
    # What travels between states is small: files that failed are named in the answers in the lake.
    state["answer"] = {key: value for key, value in answer.items() if key != "failures"}
    text = (
        f"{answer['loaded']:,} files loaded ({human(answer['loaded_bytes'])}), {answer['there']:,} already there, "
        f"{answer['failed']:,} failed"
    )
    return _end(state, aws, "next", text)


def _boot(state: dict[str, Any], aws: Aws, clock: Callable[[], float]) -> dict[str, Any]:
    name, group = _group(state, aws)
    if group is None:
        return _end(
            state,
            aws,
            "refused",
            f"no node of {state['workload']} takes commands, and there is no group {name} to start one: is the stack "
            f"{state['workload']}-hot deployed?",
        )
    if _without_node(state, clock) > BOOT_S:
        text = f"no node of {state['workload']} takes commands after {BOOT_S / 60:.0f} minutes: look at {name}"
        return _end(state, aws, "refused", text)
    if group["DesiredCapacity"] == 0:
        # The note first: a node that nobody remembers would run for ever.
        _note(aws, state["lake_bucket"], started=True)
        aws("autoscaling").set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=1, HonorCooldown=False)
    return _again(state, f"{name} is starting", clock())


def _group(state: dict[str, Any], aws: Aws) -> tuple[str, dict[str, Any] | None]:
    """Return the name of the group of the storage node, and what it is; None where it is gone."""
    name = f"{state['workload']}-storage-node"
    found = aws("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    return name, found[0] if found else None


def _without_node(state: dict[str, Any], clock: Callable[[], float]) -> float:
    """Return for how many seconds no node has begun with anything."""
    now = clock()
    return now - float(state.setdefault("no_node_since", now))


def _end(state: dict[str, Any], aws: Aws, status: str, text: str) -> dict[str, Any]:
    """Stop the storage node where a preload had started it, and say how it went."""
    if _started(aws, state["lake_bucket"]):
        name, group = _group(state, aws)
        if group is not None:
            aws("autoscaling").set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=0, HonorCooldown=False)
        _note(aws, state["lake_bucket"], started=False)
    return _told(state, status, text)


def _again(state: dict[str, Any], text: str, now: float) -> dict[str, Any]:
    waited = now - state["since"]
    return {**_told(state, "again", text), "wait": int(max(LOOK_S, min(waited * SLOWER, LEAST_OFTEN_S)))}


def _anew(state: dict[str, Any], text: str, now: float) -> dict[str, Any]:
    state.pop("command_id", None)
    return _again(state, text, now)


def _told(state: dict[str, Any], status: str, text: str) -> dict[str, Any]:
    return {**state, "status": status, "wait": 0, "message": text, **({"refused": text} if status == "refused" else {})}


def _progress(found: tuple[NodeAnswer, ...]) -> str:
    sums = combine([each.progress or each.answer or {} for each in found])
    return f"{sums['done']:,} of {sums['files']:,} files, {human(sums['done_bytes'])} of {human(sums['bytes'])}"


def _started(aws: Aws, bucket: str) -> bool:
    try:
        found = json.loads(aws("s3").get_object(Bucket=bucket, Key=places.storage_node_key())["Body"].read())
    except Exception as error:
        if code_of(error) in MISSING:
            return False
        raise
    return bool(found.get("started"))


def _note(aws: Aws, bucket: str, *, started: bool) -> None:
    aws("s3").put_object(
        Bucket=bucket,
        Key=places.storage_node_key(),
        Body=json.dumps({"started": started}).encode(),
        ContentType="application/json",
    )
