"""Checkpoints of a workload from the command line: what is where, promoting and pruning by hand, verifying, drilling.

What concerns the hot tier runs on its nodes; the lake alone is looked at from here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from training_storage.errors import AwsError, RefusedError
from training_storage.node import places
from training_storage.node.checkpoints import records, verification
from training_storage.node.run_command import NodeAnswer
from training_storage.node.settings import Settings
from training_storage.operations.aws import aws_errors
from training_storage.operations.node_commands import NodeRun, choose_nodes, choose_readers, run_on_nodes

if TYPE_CHECKING:
    from training_storage.node.aws import Aws
    from training_storage.node.checkpoints.model import Record

OnStart = Callable[[tuple[str, ...], bool], None]
OnLook = Callable[[tuple[NodeAnswer, ...]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Checkpoints of a workload, on both sides.

    Attributes:
        seen_at: When the hot tier was looked at, seconds since 1970; None where it never was.
        seen_by: The node that looked; empty where none did.
        live: Whether it was looked at for this answer. False: it is what the agent's last run saw.
        why_not_live: Why no node was asked, or why the answer did not come; empty where ``live``.
        hot: Checkpoints on the hot tier, as the agent's status has them.
        lake: Promoted checkpoints, oldest first.
        unsaved: Paths on the hot tier that have to be in the lake and are not.
        errors: What the node says went wrong.
    """

    seen_at: float | None
    seen_by: str
    live: bool
    why_not_live: str
    hot: tuple[dict[str, Any], ...]
    lake: tuple[Record, ...]
    unsaved: tuple[str, ...]
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What became of promoted checkpoints in the lake.

    Attributes:
        records: Records that were looked at.
        files: Their objects.
        wrong: What no longer agrees, by key of the record; only records with something wrong.
        damaged: Records that cannot be read.
    """

    records: int
    files: int
    wrong: dict[str, list[str]] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether everything that was promoted is as it was verified."""
        return not self.wrong and not self.damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """What a restore would take.

    Attributes:
        source: ``hot`` or ``lake``.
        checkpoint: What was read.
        size: Bytes of it.
        reader: ``files``, ``mountpoint`` or ``s3``; several with commas where nodes differ.
        nodes: Nodes that read.
        readers: Replicas that each read the whole; 1 on local disks, where each node reads its own part.
        bytes: Bytes read by all nodes.
        seconds: The slowest node: nobody trains before the last rank has its state.
        cached_bytes: Bytes that came from the page cache of nodes; None where no node could tell.
        from_memory: Whether a node measured its memory and not the storage.
        max_restore_s: What the workload file allows; None where it says nothing.
        metrics: What became of the metric, by node.
        missing: Parts on local disks of nodes that did not read, each with ``node``, ``files`` and ``bytes``: a restart
            without those nodes has no whole checkpoint.
    """

    source: str
    checkpoint: str
    size: int
    reader: str
    nodes: int
    readers: int
    bytes: int
    seconds: float
    cached_bytes: int | None
    from_memory: bool
    max_restore_s: float | None
    metrics: dict[str, str]
    missing: tuple[dict[str, Any], ...] = ()

    @property
    def mb_per_s(self) -> float:
        """Decimal MB/s of all nodes together."""
        return self.bytes / 1e6 / self.seconds if self.seconds > 0 else 0.0

    @property
    def in_time(self) -> bool | None:
        """Whether a restart may take so long; None where nothing says how long, or where parts were not read."""
        return None if self.max_restore_s is None or self.missing else self.seconds <= self.max_restore_s


def last_status(aws: Aws, lake_bucket: str, name: str) -> dict[str, Any] | None:
    """Return what an agent of the workload saw last, whichever hot tier it had then; None where none has run.

    Args:
        aws: Clients.
        lake_bucket: The data lake.
        name: Workload name.

    Raises:
        AwsError: AWS refused or failed.
    """
    newest: dict[str, Any] | None = None
    with aws_errors("ListObjectsV2"):
        for page in aws("s3").get_paginator("list_objects_v2").paginate(Bucket=lake_bucket, Prefix=places.STATUS):
            for each in page.get("Contents", ()):
                body = aws("s3").get_object(Bucket=lake_bucket, Key=each["Key"])["Body"].read()
                try:
                    found = json.loads(body)
                    written = float(found["written_at"])
                except (ValueError, KeyError, TypeError):
                    continue  # another run writes it anew
                ours = found.get("workload") == name
                if ours and (newest is None or written > float(newest["written_at"])):
                    newest = found
    return newest


def list_checkpoints(
    aws: Aws,
    name: str,
    lake_bucket: str,
    *,
    on_start: OnStart | None = None,
    on_look: OnLook | None = None,
    sleep: Callable[[float], Any] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> Listing:
    """Return the checkpoints of a workload on its hot tier and in its lake.

    Where no node can be asked, the hot tier is shown as the agent's last run saw it.

    Args:
        aws: Clients.
        name: Workload name.
        lake_bucket: The data lake.
        on_start: Called with the node that is asked, and whether its answer was waited for already.
        on_look: Called with each look.
        sleep: Replaced in tests.
        clock: Replaced in tests.

    Raises:
        AwsError: AWS refused or failed.
    """
    damaged: list[str] = []
    with aws_errors("ListObjectsV2"):
        promoted = records.read_all(aws, lake_bucket, damaged=damaged)
    lake = tuple(sorted(promoted, key=lambda each: (each.series, each.promoted_at, each.path)))
    bad = tuple(f"the record {key} cannot be read" for key in damaged)
    try:
        run = run_on_nodes(
            aws, name, lake_bucket, ["list"], nodes=lambda: choose_nodes(aws, name, 1),
            on_start=on_start, on_look=on_look, sleep=sleep, clock=clock,
        )  # fmt: skip
        answer = run.answers[0].answer
        why = f"{run.instance_ids[0]} gave no answer: {run.answers[0].message or run.answers[0].state}"
    except RefusedError as refused:
        answer, why = None, f"no node was asked: {refused}"
    if answer is not None:
        return Listing(
            seen_at=clock(),
            seen_by=str(answer.get("node", run.instance_ids[0])),
            live=True,
            why_not_live="",
            hot=tuple(answer["checkpoints"]),
            lake=lake,
            unsaved=tuple(answer["unsaved"]),
            errors=(*answer.get("errors", ()), *bad),
        )
    status = last_status(aws, lake_bucket, name) or {}
    return Listing(
        seen_at=status.get("written_at"),
        seen_by=str(status.get("node", "")),
        live=False,
        why_not_live=why,
        hot=tuple(status.get("checkpoints", ())),
        lake=lake,
        unsaved=tuple(status.get("unsaved", ())),
        errors=(*status.get("errors", ()), *bad),
    )


def act(
    aws: Aws,
    name: str,
    lake_bucket: str,
    argv: Sequence[str],
    *,
    on_start: OnStart | None = None,
    on_look: OnLook | None = None,
    sleep: Callable[[float], Any] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> NodeRun:
    """Promote or prune by hand: run the agent on a node, or on every one where checkpoints lie on local disks.

    Args:
        aws: Clients.
        name: Workload name.
        lake_bucket: The data lake.
        argv: Subcommand of the agent and its arguments.
        on_start: Called with the nodes, and whether they were at it already.
        on_look: Called with each look.
        sleep: Replaced in tests.
        clock: Replaced in tests.

    Raises:
        RefusedError: No node takes commands.
        AwsError: AWS refused or failed.
    """
    spread = (last_status(aws, lake_bucket, name) or {}).get("tier") == "nvme"
    return run_on_nodes(
        aws, name, lake_bucket, argv, nodes=lambda: choose_nodes(aws, name, None if spread else 1),
        on_start=on_start, on_look=on_look, sleep=sleep, clock=clock,
    )  # fmt: skip


def verify(
    aws: Aws, name: str, lake_bucket: str, *, on_progress: Callable[[dict[str, Any]], None] | None = None
) -> Verified:
    """Compare everything that was promoted with the lake, object by object; no node is needed.

    Args:
        aws: Clients.
        name: Workload name.
        lake_bucket: The data lake.
        on_progress: Called with the number of records and files, and how many are done.

    Raises:
        RefusedError: No agent has run yet, so that nothing says where checkpoints lie.
        AwsError: AWS refused or failed.
    """
    damaged: list[str] = []
    with aws_errors("ListObjectsV2"):
        promoted = records.read_all(aws, lake_bucket, damaged=damaged)
    if not promoted:
        return Verified(records=0, files=0, damaged=tuple(damaged))
    status = last_status(aws, lake_bucket, name)
    if status is None:
        raise RefusedError(
            f"no agent of {name} has written a status into {lake_bucket}, which says where its checkpoints lie in the "
            "lake; fix: check the name; the agent of a running node writes one within minutes"
        )
    settings = Settings.from_dict(status["settings"])
    with aws_errors("ListObjectsV2"):
        found = verification.verify_all(aws, settings, promoted, on_progress or (lambda _progress: None))
    return Verified(
        records=len(promoted),
        files=sum(len(each.files) for each in promoted),
        wrong={key: wrong for key, wrong in found.items() if wrong},
        damaged=tuple(damaged),
    )


def restore_drill(
    aws: Aws,
    name: str,
    lake_bucket: str,
    *,
    path: str | None = None,
    source: str = "both",
    nodes: int | None = None,
    on_start: OnStart | None = None,
    on_look: OnLook | None = None,
    sleep: Callable[[float], Any] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> tuple[tuple[Drill, ...], tuple[str, ...]]:
    """Read a checkpoint back on nodes, as a restart would.

    Args:
        aws: Clients.
        name: Workload name.
        lake_bucket: The data lake.
        path: Checkpoint below the checkpoint folder. Left out: the newest on each side.
        source: ``hot``, ``lake`` or ``both``.
        nodes: So many nodes at most. Left out: every one of the fleet that is online, as a restart has them.
        on_start: Called with the nodes.
        on_look: Called with each look.
        sleep: Replaced in tests.
        clock: Replaced in tests.

    Returns:
        One drill a side, and what was not read and why.

    Raises:
        RefusedError: No node takes commands, or nothing was read by all of them.
        AwsError: AWS refused or failed, on a node too.
    """
    argv = ["drill", "--source", source, *(["--path", path] if path else [])]
    run = run_on_nodes(
        aws, name, lake_bucket, argv, nodes=lambda: choose_readers(aws, name, nodes),
        for_nodes=lambda chosen: ["--among", ",".join(chosen)],
        on_start=on_start, on_look=on_look, sleep=sleep, clock=clock,
    )  # fmt: skip
    require_answers(run, name)
    answers = {each.instance_id: each.answer for each in run.answers if each.answer is not None}
    skipped = sorted({f"{side}: {why}" for one in answers.values() for side, why in one["skipped"].items()})
    drills = []
    for side in ("hot", "lake"):
        read = {node: one["readings"][side] for node, one in answers.items() if side in one["readings"]}
        # The share of a node that could not read was read by nobody: the others' time is no restore time.
        if not read or len(read) < len(answers):
            continue
        if len({(each["checkpoint"], each.get("fingerprint")) for each in read.values()}) > 1:
            names = ", ".join(sorted({str(each["checkpoint"]) for each in read.values()}))
            skipped.append(f"{side}: nodes read different checkpoints ({names}): one came meanwhile; fix: --path")
            continue
        drills.append(_sum_up(side, read, next(iter(answers.values()))))
    if not drills:
        raise RefusedError("; ".join(skipped))
    return tuple(drills), tuple(skipped)


def require_answers(run: NodeRun, name: str) -> None:
    """Raise what a node answered instead of an answer.

    Raises:
        RefusedError: A node refused.
        AwsError: A node failed, or is lost.
    """
    for each in run.answers:
        if each.state == "refused":
            raise RefusedError(f"{each.instance_id}: {each.message}")
        if each.answer is None:
            raise AwsError(
                f"{each.instance_id} of {name} {each.state}: {each.message or 'no reason was given'}; "
                "fix: mend that, and run the same command again",
                operation="RunCommand",
            )


def _sum_up(side: str, read: dict[str, dict[str, Any]], about: dict[str, Any]) -> Drill:
    first = next(iter(read.values()))
    cached = [each["cached_bytes"] for each in read.values() if each["cached_bytes"] is not None]
    missing = {part["node"]: part for each in read.values() for part in each.get("missing", ())}
    return Drill(
        source=side,
        checkpoint=first["checkpoint"],
        size=first["size"],
        reader=", ".join(sorted({each["reader"] for each in read.values()})),
        nodes=len(read),
        readers=first.get("readers", about["restore_readers"]),
        bytes=sum(each["bytes"] for each in read.values()),
        seconds=max(each["seconds"] for each in read.values()),
        cached_bytes=sum(cached) if cached else None,
        from_memory=any(each["from_memory"] for each in read.values()),
        max_restore_s=about["max_restore_s"],
        metrics={node: each["metric"] for node, each in read.items()},
        missing=tuple(missing[node] for node in sorted(missing)),
    )
