"""How ``training-storage preload`` shows data that is loaded: progress, and the table at the end."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from training_storage.units import format_bytes, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from training_storage.node.run_command import NodeAnswer
    from training_storage.operations.preload_data import PreloadResult

FAILURES_SHOWN: Final = 20
_LINE_S: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class DataReporter:
    """Progress on standard error: a bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._plain = quiet or not sys.stderr.isatty()
        self._quiet = quiet
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[bytes]}"),
            TimeElapsedColumn(), console=Console(stderr=True), disable=self._plain,
        )  # fmt: skip
        self._row = self._bar.add_task("asking nodes", total=None, bytes="")
        self._next = 0.0
        self._sent = False

    def __enter__(self) -> DataReporter:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._bar.stop()
        if isinstance(error, KeyboardInterrupt):
            self._line(
                "stopped looking; the nodes go on, and the same command joins them again"
                if self._sent
                else "stopped; run the same command to go on"
            )

    def _line(self, text: str) -> None:
        with suppress(OSError):  # loading does not end because nobody listens
            print(text, file=sys.stderr, flush=True)

    def started(self, nodes: tuple[str, ...], joined: bool) -> None:
        """Say who does the work."""
        self._sent = True
        shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
        verb = "joined the preload that runs on" if joined else "loading from"
        if not self._quiet:
            text = f"{verb} {shown}"
            if self._plain:
                self._line(text)
            else:
                self._bar.console.print(text, markup=False, highlight=False)

    def look(self, answers: Sequence[NodeAnswer]) -> None:
        """Show one look."""
        from training_storage.node.preload_model import combine

        # A node that is done has no progress any more; what it counted is in its answer.
        sums = combine([_as_progress(each) for each in answers])
        phases = {str((each.progress or {}).get("phase", "starting")) for each in answers if not each.over}
        phase = "loading" if "loading" in phases else min(phases, default="done")
        failed = f", {sums['failed']:,} failed" if sums["failed"] else ""
        files = f"{phase}: {sums['done']:,} of {sums['files']:,} files{failed}"
        size = f"{format_bytes(sums['done_bytes'])} of {format_bytes(sums['bytes'])}"
        if not self._plain:
            total = sums["bytes"] or None
            self._bar.update(self._row, description=files, completed=sums["done_bytes"], total=total, bytes=size)
        elif not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_S
            self._line(f"{files}, {size}")


def _as_progress(each: NodeAnswer) -> dict[str, Any]:
    if each.answer is not None:
        return {**each.answer, "done": each.answer.get("files", 0), "done_bytes": each.answer.get("bytes", 0)}
    return each.progress or {}


def as_text(result: PreloadResult, name: str) -> str:
    """Return the table of counts, and the reasons of what failed."""
    counts, answers = result.counts, result.run.answers
    if not result.run.over:
        nodes = ", ".join(result.run.instance_ids[:3])
        return f"{name}: loading from {nodes}; run the same command to follow it"
    if any((each.answer or {}).get("dry_run") for each in answers):
        return _dry_run(result, name)
    lines = [
        f"{name}: {counts['files']:,} files looked at in {format_seconds(counts['seconds'])}",
        _row("loaded", counts["loaded"], counts["loaded_bytes"]),
        _row("already there", counts["there"], counts["there_bytes"]),
        _row("failed", counts["failed"], counts["failed_bytes"]),
    ]
    if not counts["files"] and all(each.state == "done" for each in answers):
        lines.append("  nothing lies there: check the path")
    for code, about in counts["reasons"].items():
        lines.append(f"    {about['count']:,} {code}: {about['what']}")
    lines += [f"    {each['path']}: {each['text'] or each['code']}" for each in counts["failures"][:FAILURES_SHOWN]]
    if counts["failed"] > FAILURES_SHOWN:
        lines.append(f"    and {counts['failed'] - FAILURES_SHOWN:,} more; --format json names the first 1,000")
    lines += [f"  warning: {text}" for text in counts["warnings"]]
    lines += [f"  {each.instance_id} {each.state}: {each.message}" for each in answers if each.state != "done"]
    if not result.is_clean:
        lines.append("  run the same command again: what is loaded is not loaded twice")
    return "\n".join(lines)


def _dry_run(result: PreloadResult, name: str) -> str:
    answer = next(each.answer for each in result.run.answers if each.answer is not None)
    lines = [
        f"{name}: {answer['files']:,} files, {format_bytes(answer['bytes'])}",
        _row("would load", answer["to_load"], answer["to_load_bytes"]),
        _row("already there", answer["there"], answer["there_bytes"]),
        f"  room for {format_bytes(answer['free'])} of {format_bytes(answer['size'])}",
    ]
    if answer["problems"]:
        lines.append(f"  {answer['problems']:,} paths are no file that can be loaded")
    lines += [f"  warning: {text}" for text in answer["warnings"]]
    return "\n".join(lines)


def _row(word: str, files: int, size: int) -> str:
    return f"  {word:<14}{files:>14,} files  {format_bytes(size):>10}"


def as_dict(result: PreloadResult) -> dict[str, Any]:
    """Return the result as plain data."""
    return {
        "ok": result.is_clean,
        "over": result.run.over,
        **result.counts,
        "nodes": [
            {
                "instance_id": each.instance_id,
                "state": each.state,
                "message": each.message,
                **{
                    key: value
                    for key, value in (each.answer or {}).items()
                    if key in ("free", "size", "fits", "dry_run", "loaded", "there", "failed", "seconds")
                },
            }
            for each in result.run.answers
        ],
    }
