"""``training-storage diagnose``: say whether GPUs wait for storage, for what, and what to do next."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from training_storage.cli.inputs import add_format_argument, file_name, region
from training_storage.cli.moments import moment
from training_storage.cli.report import UsageError
from training_storage.errors import ValidationError

if TYPE_CHECKING:
    import argparse

    from training_storage.operations.diagnosis.observation import Observation
    from training_storage.planner.expectations import Expectations

HELP = """\
Looks at what telemetry, nodes and AWS services have measured, beside what the plan expects, and names one
cause with its evidence, how sure it is, one next step, and what that gains in an hour. "Not storage" is an
answer. Nothing is changed: what a right is missing for is not known, and said so. Exit code 1: something
was found; 0: storage is not it, or nobody can tell.
"""
EXAMPLE = """\
examples: training-storage diagnose llama3-70b
          training-storage diagnose llama3-70b --since 6h --until 2h --save seen.json
          training-storage diagnose --file seen.json
          training-storage diagnose --file metrics.log --workload llama3-70b.yaml
"""
_PROGRAM = "training-storage diagnose"
_GZIP = b"\x1f\x8b"
"""What a file begins with that gzip has packed, as logs that were rotated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="workload name, the prefix of its stacks")
    parser.add_argument(
        "--file", metavar="FILE", type=file_name,
        help="look at this file, and not at AWS: what --save wrote, or lines of telemetry",
    )  # fmt: skip
    parser.add_argument(
        "--since", metavar="TIME", type=moment,
        help="from so long ago, such as 1h, or from a moment, such as 2026-12-01T12:00Z (default: 1h)",
    )  # fmt: skip
    parser.add_argument("--until", metavar="TIME", type=moment, help="up to then (default: now)")
    parser.add_argument(
        "--workload", metavar="FILE", type=file_name,
        help="workload file whose plan says what to expect (default: what was deployed)",
    )  # fmt: skip
    parser.add_argument(
        "--catalog", metavar="FILE", type=lambda name: Path(file_name(name)), action="append", default=[],
        help="catalog file that corrects or adds facts, for --workload; may be repeated",
    )  # fmt: skip
    parser.add_argument("--save", metavar="FILE", type=lambda name: Path(file_name(name)), help="keep what was seen")
    parser.add_argument("--region", type=region, help="region (default: the environment's)")
    parser.add_argument("--profile", help="profile of the AWS configuration")
    add_format_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Observe, and print the verdict."""
    from training_storage.cli.render_diagnosis import as_text
    from training_storage.operations.diagnosis.diagnose import diagnose

    if arguments.file is None and arguments.name is None:
        raise UsageError("NAME or --file is wanted: the workload to look at, or a file", program=_PROGRAM)
    if arguments.file is not None and (arguments.since or arguments.until or arguments.save):
        raise UsageError("--since, --until and --save are for NAME: a file is looked at as a whole", program=_PROGRAM)
    expected = _expected(arguments)
    seen = _from_file(arguments, expected) if arguments.file is not None else _from_aws(arguments, expected)
    found = diagnose(seen)
    if arguments.save is not None:
        _save(arguments.save, seen)
    if arguments.format == "json":
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print(as_text(found, seen))
    return 0 if found.primary is None else 1


def _expected(arguments: argparse.Namespace) -> Expectations | None:
    if arguments.workload is None:
        return None
    from training_storage.cli.inputs import read_plan
    from training_storage.planner.expectations import expectations

    found = expectations(read_plan(arguments.workload, arguments.catalog))
    if arguments.name is not None and found.workload != arguments.name:
        print(f"note: {arguments.workload} describes {found.workload}, not {arguments.name}", file=sys.stderr)
    return found


def _from_file(arguments: argparse.Namespace, expected: Expectations | None) -> Observation:
    import gzip
    import zlib
    from dataclasses import replace

    from training_storage.operations.diagnosis.from_records import observe_records, read_records
    from training_storage.operations.diagnosis.saved import from_dict, is_observation

    name = "/dev/stdin" if arguments.file == "-" else arguments.file
    try:
        raw = Path(name).read_bytes()
        if raw.startswith(_GZIP):
            raw = gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"--file {arguments.file}: {said}", program=_PROGRAM) from error
    text = raw.decode("utf-8-sig", errors="replace")
    whole = None
    if text.lstrip().startswith("{"):
        try:
            whole = json.loads(text)
        except (ValueError, RecursionError):
            whole = None  # lines, perhaps
    try:
        if whole is None or not is_observation(whole):
            return observe_records(read_records(text.splitlines()), workload=arguments.name, expected=expected)
        seen = from_dict(whole)
    except ValidationError as error:
        raise ValidationError(problem.at(arguments.file, problem.line) for problem in error.problems) from error
    if arguments.name is not None and arguments.name != seen.workload:
        raise UsageError(
            f"{arguments.file} is an observation of {seen.workload}, not of {arguments.name}", program=_PROGRAM
        )
    return seen if expected is None else replace(seen, expected=expected)


def _from_aws(arguments: argparse.Namespace, expected: Expectations | None) -> Observation:
    from training_storage.operations.aws import clients, make_session
    from training_storage.operations.diagnosis.from_cloudwatch import observe

    now = time.time()
    until = now if arguments.until is None else arguments.until(now)
    since = until - 3600 if arguments.since is None else arguments.since(now)
    if since >= until or until > now + 60:
        wrong = "--since is not before --until" if since >= until else "--until is in the future"
        raise UsageError(f"{wrong}; allowed: a span of time up to now", program=_PROGRAM)
    aws = clients(make_session(arguments.region, arguments.profile))
    return observe(aws, arguments.name, since, until, now=now, expected=expected)


def _save(path: Path, seen: Observation) -> None:
    from training_storage.cli.output import write_whole
    from training_storage.operations.diagnosis.saved import to_text

    try:
        write_whole(path, to_text(seen))
    except OSError as error:
        raise UsageError(f"--save {path}: {error.strerror or error}", program=_PROGRAM) from error
