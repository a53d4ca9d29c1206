"""How a workload is, at a glance: each part is asked for on its own, and one that nobody tells is not known."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from training_storage.errors import RefusedError
from training_storage.node.metrics.services import PUBLISHERS
from training_storage.node.release import proof as proofs
from training_storage.node.release.stacks import resources_of
from training_storage.node.run_command import online_nodes, running_nodes
from training_storage.operations import deployed_facts
from training_storage.operations.checkpoints import last_status
from training_storage.operations.deployment import DATA_LAKE_BUCKET_NAME, DIRECTORY_BUCKET_NAMES, FILE_SYSTEM_ID
from training_storage.operations.questions import Unanswered, ask, ask_all, prepare
from training_storage.operations.status_metrics import newest
from training_storage.operations.status_model import ATTENTION, BROKEN, NONE, OK, UNKNOWN, Part, Status
from training_storage.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from training_storage.node.aws import Aws
    from training_storage.planner.expectations import Expectations

STACKS: Final = ("lake", "network", "hot", "compute", "monitoring")
_RUN: Final = ("hot", "compute", "monitoring")
_SETTLED: Final = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")
_GUARD: Final = "Custom::ReleaseGuard"
_OLD_QUEUE_S: Final = 3600.0
_OLD_STATUS_S: Final = 900.0
"""Age of the agent's last status from which it is worth a word: an agent writes one each minute or two."""
_LITTLE_FREE: Final = 0.1
_NO_FREE: Final = 0.01
_GIB: Final = float(1 << 30)
_NAMED: Final = 3


def status(
    aws: Aws,
    name: str,
    region: str,
    *,
    expected: Expectations | None = None,
    clock: Callable[[], float] = time.time,
) -> Status:
    """Return how a workload is; what can be asked at the same time is.

    Args:
        aws: Clients.
        name: Workload name.
        region: Region of the clients, for messages.
        expected: What the plan says, for prices and nodes. Left out: what the stack of monitoring keeps.
        clock: Replaced in tests.

    Raises:
        RefusedError: There is no stack of that name.
        AwsError: AWS does not know the caller.
    """
    prepare(aws, "cloudformation", "cloudwatch", "fsx", "s3", "ssm", "ec2")
    now = clock()
    stacks = ask_all({part: _stack(aws, f"{name}-{part}") for part in STACKS})
    if all(each is None for each in stacks.values()):
        raise RefusedError(
            f"no stack of a workload {name!r} in {region}: none of {', '.join(f'{name}-{each}' for each in STACKS)}; "
            "fix: check the name, which stands in the workload file, and --region and --profile"
        )
    known = {part: found for part, found in stacks.items() if not isinstance(found, Unanswered)}
    outputs: dict[str, str] = {}
    for part in ("compute", "lake", "hot"):
        outputs |= deployed_facts.outputs(known.get(part))
    system, lake = outputs.get(FILE_SYSTEM_ID), outputs.get(DATA_LAKE_BUCKET_NAME)
    if expected is None:
        told = ask_all({"expected": lambda: deployed_facts.expected(aws, name)})["expected"]
    else:
        told = expected
    plan = None if isinstance(told, Unanswered) else told

    def known_of_hot() -> str | None:
        if "hot" not in known:
            raise Unanswered("the hot stack could not be asked for it")
        return system

    questions: dict[str, Callable[[], Part]] = {
        "file system": lambda: _file_system(aws, known_of_hot(), now=now, outputs=outputs),
        "links": lambda: _links(aws, known_of_hot()),
        "tasks": lambda: _tasks(aws, known_of_hot()),
        "queue": lambda: _queue(aws, known_of_hot(), now),
        "nodes": lambda: _nodes(aws, name, plan, now, running=known.get("compute") is not None),
        "checkpoints": lambda: _checkpoints(aws, lake, name, now),
        "release": lambda: _release(aws, lake, system or name, known),
    }
    answers = ask_all(questions)
    parts = [
        Part(name=each, state=UNKNOWN, text=answer.why) if isinstance(answer, Unanswered) else answer
        for each, answer in answers.items()
    ]
    cost = _cost(known, told, now)
    return Status(workload=name, seen_at=now, parts=(_stacks(name, stacks), *parts, cost))


def _stack(aws: Aws, stack_name: str) -> Callable[[], dict[str, Any] | None]:
    return lambda: deployed_facts.stack(aws, stack_name)


def _stacks(name: str, stacks: Mapping[str, Any]) -> Part:
    lines: list[str] = []
    states: list[str] = []
    data: dict[str, str | None] = {}
    for part, found in stacks.items():
        if found is None:
            data[part] = None
            continue
        if isinstance(found, Unanswered):
            states.append(UNKNOWN)
            lines.append(f"{name}-{part}: not known: {found.why}")
            data[part] = "unknown"
            continue
        now = str(found["StackStatus"])
        data[part] = now
        state = (
            OK if now in _SETTLED else ATTENTION if now.endswith("_IN_PROGRESS") and "ROLLBACK" not in now else BROKEN
        )
        if now == "UPDATE_ROLLBACK_COMPLETE":
            state = ATTENTION  # it runs, as it was before the deployment that failed
        states.append(state)
        if state != OK:
            why = f": {found['StackStatusReason']}" if found.get("StackStatusReason") else ""
            lines.append(f"{name}-{part} is {now}{why}")
    there = [part for part, found in data.items() if found not in (None, "unknown")]
    missing = [part for part in _RUN if data.get(part, "") is None]
    text = f"{', '.join(there) or 'none known'}" + (f"; not deployed: {', '.join(missing)}" if missing else "")
    return Part(name="stacks", state=_worst(states), text=text, lines=tuple(lines), data={"stacks": data})


def _worst(states: list[str]) -> str:
    return next((each for each in (BROKEN, ATTENTION, UNKNOWN) if each in states), OK)


def _file_system(aws: Aws, system: str | None, *, now: float, outputs: Mapping[str, str]) -> Part:
    if system is None:
        buckets = [each for each in outputs.get(DIRECTORY_BUCKET_NAMES, "").split(",") if each]
        if buckets:
            return Part(name="file system", state=NONE, text=f"none; directory buckets {', '.join(buckets)}",
                        data={"directory_buckets": buckets})  # fmt: skip
        return Part(name="file system", state=NONE, text="none")
    try:
        found = deployed_facts.file_system(aws, system)
    except Unanswered as none:
        if _NO_SYSTEM not in none.why:
            raise
        text = f"{system} is gone, and what was on it alone; the hot stack still names it"
        return Part(name="file system", state=BROKEN, text=text, data={"id": system, "lifecycle": "DELETED"})
    capacity = found["storage_capacity_gib"]
    state = OK if found["lifecycle"] == "AVAILABLE" else BROKEN if found["lifecycle"] in _BAD_SYSTEM else ATTENTION
    text = f"{system} {found['lifecycle']}"
    if capacity:
        text += f", {capacity:,} GiB"
        tier = found["per_unit_storage_throughput"]
        throughput = capacity / 1024 * tier if tier else found["throughput_capacity"]
        text += f", {throughput:,.0f} MB/s" if throughput else ""
    lines = [found["message"]] if found["message"] else []
    free, least = _free(aws, system, now, lines)
    if free is not None:
        text += f", {format_bytes(free)} free"
        share = free / (capacity * _GIB) if capacity else 1.0
        text += f" ({share * 100:.3g} %)" if capacity else ""
        if share < _LITTLE_FREE and state == OK:
            state = BROKEN if share < _NO_FREE else ATTENTION
        if least is not None:
            lines.append(f"the fullest storage target has {format_bytes(least)} free")
    data = {**found, "free_bytes": free, "fullest_target_free_bytes": least}
    return Part(name="file system", state=state, text=text, lines=tuple(lines), data=data)


_NO_SYSTEM: Final = "FileSystemNotFound"
_BAD_SYSTEM: Final = ("FAILED", "MISCONFIGURED", "MISCONFIGURED_UNAVAILABLE")


def _free(aws: Aws, system: str, now: float, lines: list[str]) -> tuple[float | None, float | None]:
    try:
        name, of = "AWS/FSx FreeDataStorageCapacity", {"FileSystemId": system}
        found = newest(aws, [(name, of, "Sum"), (name, of, "Minimum")], now)
    except Unanswered as none:
        lines.append(f"free space is not known: {none.why}")
        return None, None
    if found[0] is None:
        lines.append("free space is not known: CloudWatch has no figure of the last hour")
    return found[0], found[1]


def _links(aws: Aws, system: str | None) -> Part:
    if system is None:
        return Part(name="links", state=NONE, text="none")
    found = deployed_facts.associations(aws, system)
    lines, states = [], []
    for each in found:
        bad = each["lifecycle"] in ("MISCONFIGURED", "FAILED")
        states.append(OK if each["lifecycle"] == "AVAILABLE" else BROKEN if bad else ATTENTION)
        ways = ", ".join(
            f"{way} {'and '.join(f'{event.lower()} ' for event in each[way]).strip()}"
            for way in ("import", "export")
            if each[way]
        )
        lines.append(
            f"{each['path']} {each['lifecycle']}, {each['source']}, {ways or 'nothing by itself'}"
            + (f": {each['message']}" if each["message"] else "")
        )
    state = _worst(states) if found else NONE
    return Part(
        name="links", state=state, text=f"{len(found)}" if found else "none", lines=tuple(lines), data={"links": found}
    )


def _tasks(aws: Aws, system: str | None) -> Part:
    if system is None:
        return Part(name="tasks", state=NONE, text="none")
    found = deployed_facts.tasks(aws, system)
    going = [each for each in found if each["lifecycle"] in ("PENDING", "EXECUTING", "CANCELING")]
    last = next((each for each in found if each not in going), None)
    lines = [_task(each) for each in going]
    state = OK
    if last is not None:
        lines.append(f"last: {_task(last)}")
        if last["lifecycle"] == "FAILED":
            state = ATTENTION
    text = f"{len(going)} pending or executing" if going else "none pending or executing"
    return Part(name="tasks", state=state, text=text, lines=tuple(lines), data={"tasks": found[:20]})


def _task(each: Mapping[str, Any]) -> str:
    done = f", {each['succeeded'] or 0:,} of {each['total']:,} files" if each["total"] is not None else ""
    failed = f", {each['failed']:,} failed" if each["failed"] else ""
    why = f": {each['message']}" if each["message"] else ""
    return f"{each['id']} {each['type']} {each['lifecycle']}{done}{failed}{why}"


def _queue(aws: Aws, system: str | None, now: float) -> Part:
    if system is None:
        return Part(name="queue", state=NONE, text="none")
    name = "AWS/FSx AgeOfOldestQueuedMessage"
    asked = [(name, {"FileSystemId": system, "Publisher": each}, "Maximum") for each in PUBLISHERS]
    ages = dict(zip(("import", "export"), newest(aws, asked, now), strict=True))
    known = {way: age for way, age in ages.items() if age is not None}
    if not known:
        if not any(each["import"] or each["export"] for each in deployed_facts.associations(aws, system)):
            return Part(name="queue", state=NONE, text="none: no link carries changes by itself", data={"age_s": ages})
        return Part(name="queue", state=UNKNOWN, text="CloudWatch has no figure of the last hour", data={"age_s": ages})
    text = ", ".join(f"{way} {format_seconds(age)} old" for way, age in known.items())
    state = ATTENTION if max(known.values()) >= _OLD_QUEUE_S else OK
    return Part(name="queue", state=state, text=text, data={"age_s": ages})


def _nodes(aws: Aws, name: str, plan: Expectations | None, now: float, *, running: bool) -> Part:
    found = ask("ec2:DescribeInstances", lambda: running_nodes(aws, name))
    fleet = [node for node, role in found.items() if not role]
    planned = plan.instance_count if plan is not None and running else None
    text = f"{len(fleet)}" + (f" of {planned}" if planned is not None else "") + " nodes running"
    lines: list[str] = []
    state = ATTENTION if planned is not None and len(fleet) < planned else OK if fleet else NONE
    online: int | None = None
    try:
        online = len([each for each in ask("ssm:DescribeInstanceInformation", lambda: online_nodes(aws, name))
                      if each in fleet])  # fmt: skip
        text += f", {online} online"
        state = ATTENTION if online < len(fleet) else state
    except Unanswered as none:
        lines.append(f"whether they take commands is not known: {none.why}")
    missing: float | None = None
    if fleet:
        try:
            (missing,) = newest(aws, [("MountsMissing", {"Workload": name}, "Maximum")], now)
        except Unanswered as none:
            lines.append(f"whether mounts are missing is not known: {none.why}")
        else:
            if missing is None:
                lines.append("whether mounts are missing is not known: no collector has reported in the last hour")
            elif missing > 0:
                state = BROKEN
                text += ", mounts missing"
                lines.append(f"a node lacks {missing:g} mounts; `training-storage diagnose {name}` names it")
            else:
                text += ", mounts there"
    data = {"fleet": sorted(fleet), "planned": planned, "online": online, "mounts_missing": missing}
    return Part(name="nodes", state=state, text=text, lines=tuple(lines), data=data)


def _checkpoints(aws: Aws, lake: str | None, name: str, now: float) -> Part:
    if lake is None:
        raise Unanswered("no stack names the data lake")
    found = ask("s3:GetObject", lambda: last_status(aws, lake, name))
    if found is None:
        return Part(name="checkpoints", state=NONE, text="no agent has looked yet")

    def read() -> Part:
        seen = list(found.get("checkpoints", ()))
        whole = [each for each in seen if each["complete"]]
        promoted = [each for each in seen if each["promoted"]]
        unsaved, errors = list(found.get("unsaved", ())), [str(each) for each in found.get("errors", ())]
        newest_one = max(whole, key=lambda each: each["modified_ns"], default=None)
        age = now - float(found["written_at"])
        lines = []
        if newest_one is not None:
            old = format_seconds(max(0.0, now - newest_one["modified_ns"] / 1e9))
            lines.append(f"newest: {newest_one['path']}, {format_bytes(newest_one['size'])}, {old} old")
        if unsaved:
            more = f" and {len(unsaved) - _NAMED} more" if len(unsaved) > _NAMED else ""
            lines.append(f"not in the lake yet: {', '.join(unsaved[:_NAMED])}{more}")
        lines += [f"error: {each}" for each in errors[:_NAMED]]
        lines.append(f"as {found.get('node', 'a node')} saw it {format_seconds(max(0.0, age))} ago")
        state = ATTENTION if errors or (unsaved and age > _OLD_STATUS_S) else OK
        text = f"{len(whole)} complete, {len(promoted)} in the lake, {len(unsaved)} not yet"
        data = {
            "newest": newest_one["path"] if newest_one else None, "complete": len(whole), "promoted": len(promoted),
            "unsaved": unsaved, "errors": errors, "written_at": found["written_at"],
        }  # fmt: skip
        return Part(name="checkpoints", state=state, text=text, lines=tuple(lines), data=data)

    return ask("s3:GetObject", read)


def _release(aws: Aws, lake: str | None, hot_tier: str, stacks: Mapping[str, Mapping[str, Any] | None]) -> Part:
    hot = stacks.get("hot")
    lines: list[str] = []
    guarded: bool | None = None
    if hot is not None:
        try:
            made = ask("cloudformation:ListStackResources", lambda: resources_of(aws, str(hot["StackName"])))
            guarded = any(each["ResourceType"] == _GUARD for each in made)
        except Unanswered as none:
            lines.append(f"whether a guard stands before the hot tier is not known: {none.why}")
    if lake is None:
        raise Unanswered("no stack names the data lake")
    bucket = lake
    found = ask("s3:GetObject", lambda: proofs.read(aws, bucket, hot_tier))
    guard = (
        {True: "guarded", False: "no guard", None: "guard not known"}[guarded] if hot is not None else "no hot stack"
    )
    if found is None and all(stacks.get(part, ...) is None for part in ("hot", "compute")):
        text = "no run is deployed"
    elif found is None:
        text = f"{guard}; not proven: `training-storage release` proves it"
    elif found.kind == "override":
        text = f"{guard}; to be deleted without proof: {found.reason}"
    else:
        text = f"{guard}; proven: {found.files:,} files, {format_bytes(found.bytes)}, if nothing was written since"
    data = {"guarded": guarded, "proof": None if found is None else found.to_dict()}
    return Part(name="release", state=OK, text=text, lines=tuple(lines), data=data)


def _cost(stacks: Mapping[str, Any], told: Expectations | Unanswered, now: float) -> Part:
    hours = {
        part: max(0.0, now - found["CreationTime"].timestamp()) / 3600
        for part in ("hot", "compute")
        if (found := stacks.get(part)) is not None and "CreationTime" in found
    }
    if not hours:
        known = "hot" in stacks and "compute" in stacks
        return Part(
            name="cost", state=NONE if known else UNKNOWN, text="no run is deployed" if known else "no stack told"
        )
    if isinstance(told, Unanswered):
        return Part(name="cost", state=UNKNOWN, text=f"prices: {told.why}; --workload FILE gives them")
    rows = [
        (what, hours.get(part, 0.0), price)
        for what, part, price in (
            ("storage", "hot", told.storage_usd_per_hour),
            ("GPUs", "compute", told.gpu_usd_per_hour),
        )
    ]
    if "hot" not in hours:  # S3 alone: what is stored costs while the fleet runs
        rows[0] = ("storage", hours["compute"], told.storage_usd_per_hour)
    texts = [
        f"{what} {'price not known' if price is None else f'{price * spent:,.2f} USD ({price:,.2f} USD/h)'}"
        for what, spent, price in rows
    ]
    span = format_seconds(max(hours.values()) * 3600)
    usd = {what.lower(): None if price is None else price * spent for what, spent, price in rows}
    data = {"hours": hours, "usd": usd, "usd_per_hour": {what.lower(): price for what, _, price in rows}}
    note = "prices of the plan by the hours since the stacks were made, the whole fleet running"
    return Part(name="cost", state=OK, text=f"{', '.join(texts)} in {span}", lines=(note,), data=data)
