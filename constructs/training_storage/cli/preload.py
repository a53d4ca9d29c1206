"""``training-storage preload``: bring the listing of the data set into the file system after a deploy."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from training_storage.cli.inputs import add_format_argument, region
from training_storage.cli.report import UsageError

if TYPE_CHECKING:
    import argparse

    from training_storage.operations.preload import ImportResult, LinkedPath
    from training_storage.operations.tasks import TaskStatus

HELP = """\
Imports the listing of the linked bucket prefixes into the file system. Needed once after a deploy when
the plan says that the listing is imported by a task. Interrupting is safe: the task goes on in FSx, and
the same command joins it again. Exit code 1: the import ended, and files failed.
"""
EXAMPLE = """\
example: training-storage preload vision-small-files --metadata
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="workload name, the prefix of its stacks")
    parser.add_argument("--metadata", action="store_true", help="import the listing; the data comes on first read")
    parser.add_argument("--path", help="one linked path such as /datasets (default: every link)")
    parser.add_argument("--no-wait", dest="wait", action="store_false", help="start the import and leave it alone")
    parser.add_argument("--region", type=region, help="region (default: the environment's)")
    parser.add_argument("--profile", help="profile of the AWS configuration")
    add_format_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Import, and say how it went."""
    if not arguments.metadata:
        raise UsageError(
            "say what to load: --metadata, the listing; the data itself comes from S3 on first read",
            program="training-storage preload",
        )
    from training_storage.operations.aws import make_session
    from training_storage.operations.preload import import_metadata

    report = _Reporter(quiet=arguments.format == "json")
    with report:
        results = import_metadata(
            make_session(arguments.region, arguments.profile),
            arguments.name,
            path=arguments.path,
            wait=arguments.wait,
            on_start=report.started,
            on_progress=report.progress,
            on_queue=report.queued,
        )
    if arguments.format == "json":
        print(json.dumps([_as_dict(result) for result in results], indent=2))
    else:
        for result in results:
            print(_as_text(result))
    return 1 if arguments.wait and not all(result.task.is_clean for result in results) else 0


class _Reporter:
    """Progress on standard error: a bar on a terminal, a line a look elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(stderr=True)
        self._plain = quiet or not sys.stderr.isatty()
        self._quiet = quiet
        self._bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
            console=console, disable=self._plain,
        )  # fmt: skip
        self._row = self._bar.add_task("looking at the file system", total=None)
        self._last = ""

    def __enter__(self) -> _Reporter:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._bar.stop()
        if isinstance(error, KeyboardInterrupt):
            print("stopped looking; the import goes on in FSx, and the same command joins it again", file=sys.stderr)

    def _line(self, text: str) -> None:
        if self._plain and not self._quiet and text != self._last:
            print(text, file=sys.stderr)
        self._last = text

    def started(self, link: LinkedPath, status: TaskStatus, started: bool) -> None:
        """Say which task does the work."""
        verb = "started" if started else "joined the running"
        self._bar.reset(self._row, description=f"{link.path} from {link.repository}", total=status.total)
        self._line(f"{link.path}: {verb} task {status.task_id}, importing the listing of {link.repository}")

    def progress(self, link: LinkedPath, status: TaskStatus) -> None:
        """Show one look."""
        self._bar.update(self._row, completed=status.succeeded + status.failed, total=status.total)
        of = f" of {status.total}" if status.total else ""
        self._line(f"{link.path}: {status.lifecycle}, {status.succeeded}{of} files, {status.failed} failed")

    def queued(self, link: LinkedPath, status: TaskStatus) -> None:
        """Say what is in the way."""
        text = f"{link.path}: waiting for task {status.task_id} ({status.lifecycle}); FSx runs one at a time"
        self._bar.update(self._row, description=text)
        self._line(text)


def _as_text(result: ImportResult) -> str:
    task = result.task
    if task.is_clean:
        return f"{result.link.path}: the listing of {result.link.repository} is there, {task.succeeded} files"
    if not task.is_finished:
        return f"{result.link.path}: task {task.task_id} is {task.lifecycle}; run the same command to follow it"
    why = f": {task.message}" if task.message else ""
    return (
        f"{result.link.path}: task {task.task_id} ended {task.lifecycle} with {task.failed} of "
        f"{task.succeeded + task.failed} files failed{why}; the reasons are in the file system's log group"
    )


def _as_dict(result: ImportResult) -> dict[str, object]:
    return {
        "path": result.link.path,
        "source": result.link.repository,
        "association_id": result.link.association_id,
        "task_id": result.task.task_id,
        "lifecycle": result.task.lifecycle,
        "succeeded": result.task.succeeded,
        "failed": result.task.failed,
        "message": result.task.message,
    }
