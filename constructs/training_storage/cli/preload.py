"""``training-storage preload``: load a data set, or its listing, into the file system before a run."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from training_storage.cli.inputs import add_format_argument, region
from training_storage.cli.report import UsageError

if TYPE_CHECKING:
    import argparse

    from training_storage.operations.preload import ImportResult, LinkedPath
    from training_storage.operations.tasks import TaskStatus

HELP = """\
Loads the data of files that so far lie in S3 alone, so that the first epoch reads them as fast as later
ones. Nodes of the workload ask for it, many files at once; files whose data is there are not loaded again.
Refused where the data would not fit. With --metadata it imports the listing of linked prefixes, which is
needed once after a deploy when the plan says so.
Interrupting is safe: nodes and FSx go on, and the same command joins them again. Exit code 1: it ended, and
files failed.
"""
EXAMPLE = """\
example: training-storage preload vision-small-files --path /datasets/v3
         training-storage preload vision-small-files --metadata
"""
_PROGRAM = "training-storage preload"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="workload name, the prefix of its stacks")
    parser.add_argument(
        "--path", dest="paths", metavar="PATH", action="append", default=[],
        help="directory or file below the mount, such as /datasets/v3; may be repeated (default: every link that "
        "imports). With --metadata one linked path",
    )  # fmt: skip
    parser.add_argument("--list", metavar="FILE", type=Path, help="file with one path a line, in place of --path")
    parser.add_argument("--nodes", metavar="N|all", type=_nodes, help="nodes that share the work at most (default: 4)")
    parser.add_argument("--metadata", action="store_true", help="import the listing; the data comes on first read")
    parser.add_argument("--dry-run", action="store_true", help="say what would be loaded, and whether it fits")
    parser.add_argument("--no-wait", dest="wait", action="store_false", help="start it and leave it alone")
    parser.add_argument("--region", type=region, help="region (default: the environment's)")
    parser.add_argument("--profile", help="profile of the AWS configuration")
    add_format_argument(parser)


def _nodes(text: str) -> int:
    """Read a number of nodes; 0 stands for all."""
    from argparse import ArgumentTypeError

    if text == "all":
        return 0
    if not text.isdecimal() or not 1 <= int(text) <= 1000:
        raise ArgumentTypeError(f"{text!r} is neither all nor a number from 1 to 1000")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Load or import, and say how it went."""
    if arguments.metadata:
        return _metadata(arguments)
    if arguments.list is not None and arguments.paths:
        raise UsageError("--path and --list exclude each other", program=_PROGRAM)
    for each in arguments.paths:
        if ".." in each.split("/") or not each.strip():
            raise UsageError(
                f"--path {each!r} is no path below the mount; allowed: one such as /datasets/v3, without ..",
                program=_PROGRAM,
            )
    if arguments.dry_run and not arguments.wait:
        raise UsageError("--dry-run has nothing to leave alone; give it without --no-wait", program=_PROGRAM)
    from training_storage.cli.preload_data import DataReporter, as_dict, as_text
    from training_storage.operations.aws import make_session
    from training_storage.operations.preload_data import DEFAULT_NODES, preload_data, read_list

    nodes = DEFAULT_NODES if arguments.nodes is None else arguments.nodes or None
    listed = None if arguments.list is None else read_list(arguments.list)
    with DataReporter(quiet=arguments.format == "json") as report:
        result = preload_data(
            make_session(arguments.region, arguments.profile),
            arguments.name,
            paths=arguments.paths,
            listed=listed,
            nodes=nodes,
            dry_run=arguments.dry_run,
            wait=arguments.wait,
            on_start=report.started,
            on_look=report.look,
        )
    if arguments.format == "json":
        print(json.dumps(as_dict(result), indent=2))
    else:
        print(as_text(result, arguments.name))
    return 0 if not arguments.wait or result.is_clean else 1


def _metadata(arguments: argparse.Namespace) -> int:
    for given, option in (
        (arguments.list is not None, "--list"),
        (arguments.nodes is not None, "--nodes"),
        (arguments.dry_run, "--dry-run"),
    ):
        if given:
            raise UsageError(f"{option} is for data; FSx imports a listing alone", program=_PROGRAM)
    if len(arguments.paths) > 1:
        raise UsageError("--metadata takes one --path, or none for every link", program=_PROGRAM)
    from training_storage.operations.aws import make_session
    from training_storage.operations.preload import import_metadata

    report = _Reporter(quiet=arguments.format == "json")
    with report:
        results = import_metadata(
            make_session(arguments.region, arguments.profile),
            arguments.name,
            path=arguments.paths[0] if arguments.paths else None,
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
            SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
            TimeElapsedColumn(), console=console, disable=self._plain,
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
