"""Checkpoints as text for people and as data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from training_storage.node.checkpoints.records import described
from training_storage.node.drill import EMITTED, LEFT
from training_storage.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from training_storage.operations.advise import Advice
    from training_storage.operations.checkpoints import Drill, Listing, Verified
    from training_storage.operations.node_commands import NodeRun

_NS = 1_000_000_000


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines in columns; the last column is as long as it is."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    widths[-1] = 0
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]


# -- list


def listing_as_text(found: Listing, name: str) -> str:
    """Return both sides as tables, and what to do about what is not in the lake."""
    lines = []
    if not found.live:
        seen = f"as {found.seen_by} saw it at {_moment(found.seen_at)}" if found.seen_at else "never seen by an agent"
        lines.append(f"hot tier: {seen}; {found.why_not_live}")
    else:
        lines.append(f"hot tier: {_count(len(found.hot), 'checkpoint')}, as {found.seen_by} sees it")
    if found.hot:
        lines += _table(
            ("  checkpoint", "state", "no.", "size", "written", "in the lake", "because"),
            [_hot_row(each) for each in found.hot],
        )
    lines.append(f"lake: {_count(len(found.lake), 'checkpoint')} promoted and verified")
    if found.lake:
        lines += _table(
            ("  checkpoint", "no.", "files", "size", "promoted", "by", "because"),
            [
                (
                    f"  {each.path}", _text(each.number), f"{len(each.files):,}", format_bytes(each.size),
                    each.promoted_at, each.method, each.reason,
                )
                for each in found.lake
            ],
        )  # fmt: skip
    if found.unsaved:
        lines.append(
            f"not in the lake yet: {', '.join(found.unsaved)}; the agent promotes them within minutes, and "
            f"`training-storage checkpoints promote {name}` does it now"
        )
    lines += [f"error: {each}" for each in found.errors]
    return "\n".join(lines)


def _hot_row(each: dict[str, Any]) -> tuple[str, ...]:
    state = "complete" if each["complete"] else "half-written"
    promoted = "yes" if each["promoted"] else f"due: {each['due']}" if each["due"] else "no"
    return (
        f"  {each['path']}", state, _text(each["number"]), format_bytes(each["size"]),
        _moment(each["modified_ns"] / _NS), promoted, each["because"],
    )  # fmt: skip


def _text(value: object) -> str:
    return "-" if value is None else str(value)


def listing_as_dict(found: Listing) -> dict[str, Any]:
    """Return both sides as plain data."""
    return {
        "seen_at": found.seen_at,
        "seen_by": found.seen_by,
        "live": found.live,
        "why_not_live": found.why_not_live,
        "hot": list(found.hot),
        "lake": [described(each) for each in found.lake],
        "unsaved": list(found.unsaved),
        "errors": list(found.errors),
    }


# -- promote and prune


def run_as_text(run: NodeRun, name: str, action: str) -> str:
    """Return what nodes did."""
    return "\n".join(line for each in run.answers for line in _answer_lines(each.answer or {}, name, action))


def _answer_lines(answer: dict[str, Any], name: str, action: str) -> list[str]:
    would = "would be " if answer.get("dry_run") else ""
    lines = [
        f"{word}: {each['path']}, {_count(each['files'], 'file')}, {format_bytes(each['bytes'])}: {each['reason']}"
        for word, key in ((f"{would}promoted", "promoted"), (f"{would}removed from the hot tier", "pruned"))
        for each in answer.get(key, ())
        if (key == "promoted") == (action == "promote")
    ]
    lines += [f"kept: {path}: {why}" for path, why in sorted(answer.get("kept", {}).items())]
    lines += [f"waiting: {each}" for each in answer.get("waiting", ())]
    lines += [f"error: {each}" for each in answer.get("errors", ())]
    if not answer.get("elected", True) and not answer.get("dry_run"):
        holder = answer.get("holder")
        who = f"{holder} runs the agent just now" if holder else "another node acts for this one"
        lines.append(f"{answer.get('node', '')}: {who}; what is due is done there")
    if not lines:
        lines.append(f"{name}: nothing to {action}")
    return lines


def run_as_dict(run: NodeRun) -> dict[str, Any]:
    """Return what nodes did as plain data."""
    return {
        "joined": run.joined,
        "nodes": [
            {"instance_id": each.instance_id, "state": each.state, **(each.answer or {})} for each in run.answers
        ],
    }


# -- verify


def verified_as_text(found: Verified, name: str, lake: str) -> str:
    """Return what no longer agrees, or that everything does."""
    if not found.records and not found.damaged:
        return f"{name}: nothing was promoted to {lake} yet"
    lines = [f"{_count(found.records, 'promoted checkpoint')}, {_count(found.files, 'object')} compared with {lake}"]
    for key, wrong in sorted(found.wrong.items()):
        lines.append(f"{key}: {_count(len(wrong), 'file')} no longer as verified")
        lines += [f"  {each}" for each in wrong[:5]]
        if len(wrong) > 5:
            lines.append(f"  and {len(wrong) - 5:,} more; --format json names all")
    lines += [f"{key}: the record cannot be read" for key in found.damaged]
    if found.is_clean:
        lines.append("everything is as it was verified")
    else:
        lines.append(
            "what is still on the hot tier is promoted again by the agent; an older version of an object can be "
            "brought back in S3 where the bucket keeps versions"
        )
    return "\n".join(lines)


def verified_as_dict(found: Verified) -> dict[str, Any]:
    """Return what no longer agrees as plain data."""
    return {
        "ok": found.is_clean,
        "records": found.records,
        "files": found.files,
        "wrong": found.wrong,
        "damaged": list(found.damaged),
    }


# -- restore drill


def drills_as_text(drills: Sequence[Drill], skipped: Sequence[str], name: str) -> str:
    """Return how long a restore takes from each side, against what it may take."""
    lines = []
    for each in drills:
        readers = f", {each.readers} replicas" if each.readers > 1 else ""
        lines.append(
            f"{each.source}: {each.checkpoint}, {format_bytes(each.size)}, read by {_count(each.nodes, 'node')}"
            f"{readers} as {each.reader}: {format_seconds(each.seconds)} at {each.mb_per_s:,.0f} MB/s"
        )
        if each.in_time is not None and each.max_restore_s is not None:
            word = "in time" if each.in_time else "TOO LONG"
            lines.append(f"  {word}: the workload file allows {format_seconds(each.max_restore_s)}")
        lines += [
            f"  MISSING: {_count(part['files'], 'file')} of it, {format_bytes(part['bytes'])}, on local disks of "
            f"{part['node']}, which did not read; fix: drill on all nodes, and see whether that one is online"
            for part in each.missing
        ]
        if each.from_memory:
            lines.append(
                f"  warning: {format_bytes(each.cached_bytes or 0)} came from the page cache of the nodes: their "
                "memory was measured, not the storage; fix: drill on nodes that neither wrote nor read it since they "
                "booted"
            )
        elif each.cached_bytes is None and each.reader != "s3":
            lines.append("  note: these nodes cannot say how much came from their page cache")
        told = {node: text for node, text in each.metrics.items() if text not in (EMITTED, LEFT)}
        lines += [f"  metric of {node}: {text}" for node, text in sorted(told.items())]
    lines += [f"not read: {each}" for each in skipped]
    if not drills:
        lines.append(f"{name}: nothing was read")
    return "\n".join(lines)


def drills_as_dict(drills: Sequence[Drill], skipped: Sequence[str]) -> dict[str, Any]:
    """Return the drills as plain data."""
    return {
        "drills": [
            {
                "source": each.source,
                "checkpoint": each.checkpoint,
                "size": each.size,
                "reader": each.reader,
                "nodes": each.nodes,
                "restore_readers": each.readers,
                "bytes": each.bytes,
                "seconds": each.seconds,
                "mb_per_s": round(each.mb_per_s, 1),
                "cached_bytes": each.cached_bytes,
                "from_memory": each.from_memory,
                "max_restore_s": each.max_restore_s,
                "in_time": each.in_time,
                "metrics": each.metrics,
                "missing": list(each.missing),
            }
            for each in drills
        ],
        "skipped": list(skipped),
    }


# -- advise


def advice_as_text(told: Advice, name: str) -> str:
    """Return what was observed, what it costs, and what to do."""
    seen = told.observed
    source = "the job says so" if seen.write_from == "metric" else "from first to last file; a lower bound"
    interval = "not known from one save" if seen.interval_s is None else format_seconds(seen.interval_s)
    lines = [
        f"{name}: {_count(seen.saves, 'save')} looked at",
        f"  a save takes        {format_seconds(seen.write_s)} ({source}); allowed are "
        f"{format_seconds(told.max_write_s)}",
        f"  training between    {interval}; the workload file says {format_seconds(told.configured_interval_s)}",
        f"  a failure every     {told.mtbf_h:,.1f} h of the fleet ({told.mtbf_from}), and each throws away "
        f"{format_seconds(told.lost_work_s_per_failure)} of training",
        f"  progress now        {told.ratio_now:.2%} of the time",
        f"  recommended         every {format_seconds(told.recommended_interval_s)}: {told.ratio_recommended:.2%}",
    ]
    lines += [f"  finding: {each}" for each in told.findings]
    lines.append(f"{told.advice}")
    return "\n".join(lines)
