"""The command ``training-storage``: finds a command, runs it, and turns errors into exit codes.

The parser is the standard library's: every other one costs more at start-up than a whole plan.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, NoReturn

from training_storage.cli.report import (
    EXIT_BROKEN_PIPE,
    EXIT_INTERRUPTED,
    EXIT_OUTPUT,
    UsageError,
    report,
    report_bug,
    report_usage,
)
from training_storage.errors import TrainingStorageError

PROGRAM: Final = "training-storage"
_OUTPUT_ERRORS: Final = frozenset({errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG})
"""What writing to a stream fails with: the reader went away, the disk is full or gone."""

COMMANDS: Final[dict[str, str]] = {
    "validate": "check a workload file, with every problem at once",
    "plan": "size the storage of a workload, and say why",
    "preload": "load data from S3 into the file system before a run, or the listing of linked prefixes",
    "stage": "copy data sets from the data lake to S3 Express directory buckets, verified and resumable",
    "archive": "copy results from directory buckets back to the data lake, verified and resumable",
    "checkpoints": "show, promote, prune, verify and restore checkpoints, and advise on their interval",
    "release": "prove that a run is in S3, and delete its fleet and hot tier",
    "status": "show what is deployed of a workload, how it is, and what it has cost so far",
    "diagnose": "say whether GPUs wait for storage, for what, and what to do next",
    "prices": "show the price book, or refresh it from the AWS Price List",
    "emulate": "run a command against the embedded AWS emulator",
}
"""Commands and their line of help, in the order of the help. Each is a module of this package that is imported when its
command is called: its docstring is the first line of the command's help, ``HELP`` the rest and ``EXAMPLE`` the end;
``add_arguments(parser)`` declares arguments, and ``run(arguments)`` returns the exit code, None for 0. What follows a
``--`` is ``arguments.rest``; only a module with ``TAKES_REST = True`` is given any."""

_DESCRIPTION = """\
Describe a GPU training workload, and get the AWS storage that keeps its GPUs busy.

Deploying is `cdk deploy --all -c workload=FILE`."""
_EPILOG = """\
exit codes: 0 done; 1 done, and the answer is no; 2 bad usage or bad input; 3 AWS refused or failed;
70 a mistake of this program; 74 the output cannot be written; 130 interrupted

example: training-storage plan examples/llama3-70b.yaml"""


class _Parser(argparse.ArgumentParser):
    """A parser that raises in place of leaving the process."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage().strip(), self.prog)


class _Version(argparse.Action):
    def __call__(self, *_: Any) -> None:
        from importlib.metadata import version

        print(f"{PROGRAM} {version(PROGRAM)}")
        raise SystemExit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; nothing is raised.

    Args:
        arguments: What follows the program's name. Left out: those of the process.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    end = given.index("--") if "--" in given else len(given)
    own, rest = given[:end], given[end + 1 :]
    # Read here, because bad usage is no parsed command.
    as_json = "--format=json" in own or ("--format", "json") in pairwise(own)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller: whoever writes may go on
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        code = _answer(own, rest, as_json=as_json)
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        _drop_output()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        _drop_output()
        with suppress(OSError):
            print(f"error: the output cannot be written: {error.strerror or error}", file=sys.stderr)
        return EXIT_OUTPUT
    return code


def _answer(own: list[str], rest: list[str], *, as_json: bool) -> int:
    """Run a command, print what went wrong, and return the exit code; raises OSError where nothing can be printed."""
    try:
        return _run(own, rest)
    except TrainingStorageError as error:
        return report(error, as_json=as_json)
    except UsageError as error:
        return report_usage(error, as_json=as_json)
    except SystemExit as done:  # help and version
        return int(done.code or 0)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except OSError as error:
        if error.filename is None and error.errno in _OUTPUT_ERRORS:
            raise
        return report_bug(error, as_json=as_json)
    except Exception as error:
        return report_bug(error, as_json=as_json)


def _drop_output() -> None:
    """Send what is left to nowhere: Python flushes both streams once more at exit, and may not fail there either."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):  # ValueError: a stream without a file behind it
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run(own: list[str], rest: list[str]) -> int:
    name = next((word for word in own if not word.startswith("-")), None)
    module = import_module(f"training_storage.cli.{name}") if name in COMMANDS else None
    parser = _Parser(prog=PROGRAM, description=_DESCRIPTION, epilog=_EPILOG)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    called = parser
    for command, summary in COMMANDS.items():
        if command == name and module is not None:
            settings = {
                "description": f"{_first_line(module)}\n\n{module.HELP.strip()}",
                "epilog": module.EXAMPLE.rstrip(),
            }
            called = commands.add_parser(command, help=summary, **settings)
            module.add_arguments(called)
        else:
            commands.add_parser(command, help=summary)
    arguments, unknown = parser.parse_known_args(own)
    arguments.rest = rest
    assert module is not None  # noqa: S101 - the parser refuses unknown and missing commands
    takes_rest = getattr(module, "TAKES_REST", False)
    if unknown:
        advice = "; the command to run follows a -- that stands alone" if takes_rest and not rest else ""
        called.error(f"unrecognized arguments: {' '.join(unknown)}{advice}")
    if rest and not takes_rest:
        called.error(f"{name} takes nothing after --")
    return module.run(arguments) or 0


def _first_line(module: Any) -> str:
    line = str(module.__doc__).strip().splitlines()[0].partition(": ")[2]
    return line[:1].upper() + line[1:]
