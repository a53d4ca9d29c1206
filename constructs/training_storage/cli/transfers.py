"""What ``stage`` and ``archive`` share: their arguments, progress, and how a transfer is told."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from training_storage.cli.inputs import add_format_argument, region
from training_storage.cli.report import UsageError
from training_storage.units import format_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from boto3.session import Session

    from training_storage.operations.transfer_model import Report, Route

FAILURES_SHOWN: Final = 20
_LINE_S: Final = 10.0
"""Seconds between two lines of progress where there is no terminal."""


def add_transfer_arguments(parser: argparse.ArgumentParser, *, default_path: str) -> None:
    """Declare the arguments of both commands."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="workload name, the prefix of its stacks")
    parser.add_argument("--path", help=f"prefix to copy (default: {default_path}); with NAME only")
    parser.add_argument(
        "--from", dest="sources", metavar="URI", action="append", default=[],
        help="s3://bucket/prefix/ in place of NAME; several directory buckets are given one by one",
    )  # fmt: skip
    parser.add_argument(
        "--to", dest="destinations", metavar="URI", action="append", default=[],
        help="s3://bucket/prefix/ in place of NAME; of several the key decides, in the order given",
    )  # fmt: skip
    parser.add_argument(
        "--verify", choices=("auto", "server", "read"), default="auto",
        help="auto (default): by checksums of S3, and by reading both sides where there are none; server: never by "
        "reading; read: always by reading",
    )  # fmt: skip
    parser.add_argument(
        "--concurrency", metavar="N", type=_count, help="objects at once (default: 32 a processor, at most 256)"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would be copied, and change nothing")
    parser.add_argument("--region", type=region, help="region of the destination (default: the environment's)")
    parser.add_argument("--profile", help="profile of the AWS configuration")
    add_format_argument(parser)


def _count(text: str) -> int:
    from argparse import ArgumentTypeError

    if not text.isdecimal() or not 1 <= int(text) <= 4096:
        raise ArgumentTypeError(f"{text!r} is no number from 1 to 4096")
    return int(text)


def run_transfer(
    arguments: argparse.Namespace,
    command: str,
    route_of: Callable[[Session, str, str], Route],
    default_path: str,
    *,
    remove: bool = False,
) -> int:
    """Transfer as the arguments say, tell how it went, and return the exit code.

    Args:
        arguments: The parsed command line.
        command: ``stage`` or ``archive``.
        route_of: Finds the way of a workload: session, name, path.
        default_path: Path when none is given.
        remove: Whether verified objects are removed from the source.
    """
    _check(arguments, command)
    from training_storage.operations.aws import make_session
    from training_storage.operations.transfer import transfer
    from training_storage.operations.transfer_connection import AwsConnection
    from training_storage.operations.transfer_model import Location, Options, Route

    if arguments.name is not None:
        path = default_path if arguments.path is None else arguments.path
        route = route_of(make_session(arguments.region, arguments.profile), arguments.name, path)
    else:
        route = Route(
            sources=tuple(Location.parse(uri, "--from") for uri in arguments.sources),
            destinations=tuple(Location.parse(uri, "--to") for uri in arguments.destinations),
        )
    told = _Progress(quiet=arguments.format == "json")
    with told:
        report = transfer(
            AwsConnection(arguments.region, arguments.profile),
            route,
            Options(
                verify=arguments.verify,
                remove=remove,
                concurrency=arguments.concurrency,
                dry_run=arguments.dry_run,
            ),
            on_progress=told.show,
            on_note=told.note,
        )
    if arguments.format == "json":
        print(json.dumps(as_dict(report), indent=2, ensure_ascii=False))
    else:
        print(as_text(report, remove=remove))
    return 0 if report.is_clean else 1


def _check(arguments: argparse.Namespace, command: str) -> None:
    places = bool(arguments.sources or arguments.destinations)
    if arguments.name is not None and places:
        message = "give NAME, or --from and --to, not both"
    elif arguments.name is None and not (arguments.sources and arguments.destinations):
        message = "say what to copy: NAME of a deployed workload, or --from and --to"
    elif places and arguments.path is not None:
        message = "--path goes with NAME; the URIs of --from and --to hold their own prefix"
    else:
        return
    raise UsageError(message, program=f"training-storage {command}")


class _Progress:
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
        self._row = self._bar.add_task("looking at both sides", total=None, bytes="")
        self._next = time.monotonic() + _LINE_S

    def __enter__(self) -> _Progress:
        self._bar.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._bar.stop()
        if isinstance(error, KeyboardInterrupt):
            print(
                "stopped; what was verified is written down, and the same command goes on from there", file=sys.stderr
            )

    def note(self, text: str) -> None:
        """Say something at once."""
        if not self._plain:
            self._bar.console.print(f"note: {text}", markup=False, highlight=False)
        elif not self._quiet:
            self._print(f"note: {text}")

    @staticmethod
    def _print(text: str) -> None:
        with suppress(OSError):  # a transfer does not end because nobody listens, or a log's disk is full
            print(text, file=sys.stderr, flush=True)

    def show(self, report: Report) -> None:
        """Show the counts."""
        at_least = "" if report.complete else "at least "
        objects = f"{report.done:,} of {at_least}{report.listed:,} objects"
        size = f"{format_bytes(report.done_bytes)} of {at_least}{format_bytes(report.listed_bytes)}"
        if not self._plain:
            total = report.listed_bytes or None
            moved = report.done_bytes + report.under_way_bytes
            self._bar.update(self._row, description=objects, completed=moved, total=total, bytes=size)
        elif not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_S
            under_way = f", {format_bytes(report.under_way_bytes)} under way" if report.under_way_bytes else ""
            failed = f", {report.failed:,} failed" if report.failed else ""
            self._print(f"{objects}, {size} verified{under_way}{failed}")


def as_text(report: Report, *, remove: bool) -> str:
    """Return the result as text."""
    way = f"{', '.join(report.sources)} to {', '.join(report.destinations)}"
    if report.dry_run:
        lines = [
            f"{way}: {report.listed:,} objects, {format_bytes(report.listed_bytes)}",
            f"  {report.known:,} are verified already, {format_bytes(report.known_bytes)}",
            f"  {report.to_copy:,} would be copied, {format_bytes(report.to_copy_bytes)}",
            f"  {report.to_compare:,} would be compared with what is there, and copied where they differ",
        ]
        if report.without_checksum:
            lines.append(
                f"  {report.without_checksum:,} of these have no checksum in the listing: where S3 has none to "
                "compare, --verify auto reads both sides"
            )
    else:
        verified = report.known + report.present + report.copied
        lines = [
            f"{way}: {verified:,} of {report.listed:,} objects verified, {format_bytes(report.done_bytes)}, in "
            f"{report.seconds:,.1f} s",
            f"  {report.copied:,} copied, {report.known:,} verified by an earlier run, "
            f"{report.present:,} there already",
        ]
        if report.proofs:
            words = {"checksum": "by checksum", "etag": "by size and MD5", "read": "by reading both sides"}
            proofs = ", ".join(f"{count:,} {words[proof]}" for proof, count in sorted(report.proofs.items()))
            lines.append(f"  verified {proofs}")
        if remove:
            lines.append(f"  {report.removed:,} removed from the source after they were verified")
        if report.gone:
            lines.append(f"  {report.gone:,} vanished from the source meanwhile")
    if not report.listed:
        lines.append("  nothing lies there: check the prefix")
    lines.extend(_failures(report))
    return "\n".join(lines)


def _failures(report: Report) -> list[str]:
    if not report.failures:
        return []
    count = len(report.failures) + report.failures_left_out
    lines = [f"  {count:,} not as they should be:"]
    lines += [f"    {failure.uri}: {failure.kind}: {failure.reason}" for failure in report.failures[:FAILURES_SHOWN]]
    if count > FAILURES_SHOWN:
        named = "names the first 100,000" if report.failures_left_out else "names all"
        lines.append(f"    and {count - FAILURES_SHOWN:,} more; --format json {named}")
    lines.append("  run the same command again: it looks at these alone")
    return lines


def as_dict(report: Report) -> dict[str, Any]:
    """Return the result as plain data."""
    from dataclasses import asdict

    return {
        "ok": report.is_clean,
        **{
            name: value
            for name, value in asdict(report).items()
            if name not in ("failures", "complete", "under_way_bytes")
        },
        "failures": [failure._asdict() for failure in report.failures],
    }
