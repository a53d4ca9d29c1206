"""Progress of commands on nodes, on standard error: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from training_storage.units import format_bytes

if TYPE_CHECKING:
    from training_storage.node.run_command import NodeAnswer

_LINE_S: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


class NodesReporter:
    """What nodes are doing; a context, so that the bar goes whatever happens.

    Args:
        quiet: Say nothing: somebody parses the output.
    """

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        self._plain = quiet or not sys.stderr.isatty()
        self._quiet = quiet
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn(),
            console=Console(stderr=True), disable=self._plain, transient=True,
        )  # fmt: skip
        self._row = self._bar.add_task("asking a node", total=None)
        self._next = 0.0
        self._sent = False

    def __enter__(self) -> NodesReporter:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._bar.stop()
        if isinstance(error, KeyboardInterrupt):
            after = "the node goes on, and the same command joins it again" if self._sent else "nothing was begun"
            self._line(f"stopped looking; {after}")

    def _line(self, text: str) -> None:
        with suppress(OSError):  # the command does not end because nobody listens
            print(text, file=sys.stderr, flush=True)

    def started(self, nodes: tuple[str, ...], joined: bool) -> None:
        """Say who does the work."""
        self._sent = True
        shown = ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
        text = f"{'joined' if joined else 'asked'} {shown}"
        if self._plain and not self._quiet:
            self._line(text)
        self._bar.update(self._row, description=text)

    def look(self, answers: Sequence[NodeAnswer]) -> None:
        """Show one look."""
        parts = [text for each in answers if (text := _progress_text(each.progress))]
        if not parts:
            return
        more = f" (and {len(parts) - 1} more nodes)" if len(parts) > 1 else ""
        self._bar.update(self._row, description=parts[0] + more)
        if self._plain and not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_S
            self._line(parts[0] + more)


def _progress_text(progress: dict[str, Any] | None) -> str:
    """Return the progress of a node in words; empty where it has none."""
    if not progress:
        return ""
    what = str(progress.get("path") or progress.get("source") or "")
    state = str(progress.get("state") or ("reading" if "source" in progress else ""))
    done, total = progress.get("bytes_done", progress.get("bytes")), progress.get("bytes_total")
    size = ""
    if isinstance(done, int | float):
        size = format_bytes(done) + (f" of {format_bytes(total)}" if isinstance(total, int | float) else "")
    return " ".join(part for part in (state, what, size) if part)


@contextmanager
def counting(what: str, *, quiet: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Show a count of files, and yield what takes ``files`` and ``files_done``.

    Args:
        what: What is counted, in words.
        quiet: Say nothing.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    plain = quiet or not sys.stderr.isatty()
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), disable=plain, transient=True,
    )  # fmt: skip
    row = bar.add_task(what, total=None)

    def progress(figures: dict[str, Any]) -> None:
        bar.update(row, completed=figures.get("files_done"), total=figures.get("files"))

    with bar:
        yield progress
