"""Errors as a reader sees them: text on standard error, with ``--format json`` an object on standard output as well."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import traceback
from typing import TYPE_CHECKING, Any, Final

from training_storage.errors import (
    AwsError,
    Problem,
    RefusedError,
    TrainingStorageError,
    ValidationError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

EXIT_NO: Final = 1
EXIT_INPUT: Final = 2
EXIT_AWS: Final = 3
EXIT_BUG: Final = 70
"""EX_SOFTWARE of sysexits.h."""
EXIT_OUTPUT: Final = 74
"""EX_IOERR of sysexits.h."""
EXIT_INTERRUPTED: Final = 130
"""128 and SIGINT, as shells say it."""
EXIT_BROKEN_PIPE: Final = 141
"""128 and SIGPIPE, as shells say it."""

_EXITS: Final[tuple[tuple[type[TrainingStorageError], int], ...]] = (
    (ValidationError, EXIT_INPUT),
    (RefusedError, EXIT_NO),
    (AwsError, EXIT_AWS),
)


def exit_code(error: TrainingStorageError) -> int:
    """Return the exit code of an error."""
    return next((code for kind, code in _EXITS if isinstance(error, kind)), EXIT_INPUT)


def width() -> int:
    """Return the columns to write for: those of the terminal, 60 to 120; 100 where the output is none."""
    if not sys.stdout.isatty():
        return 100
    return min(120, max(60, shutil.get_terminal_size((100, 24)).columns))


def report(error: TrainingStorageError, *, as_json: bool) -> int:
    """Print an error and return its exit code."""
    problems = error.problems if isinstance(error, ValidationError) else ()
    extra: dict[str, Any] = {}
    if isinstance(error, AwsError):
        extra = {"operation": error.operation, "code": error.code}
    if as_json:
        _print_json(type(error).__name__, str(error), problems, extra)
    print(render_problems(problems, width=width()) if problems else f"error: {error}", file=sys.stderr)
    return exit_code(error)


class UsageError(Exception):
    """The command line itself is wrong.

    Attributes:
        message: What is wrong.
        usage: How the command is called.
        program: The command, for the advice to ask for its help.
    """

    def __init__(self, message: str, usage: str = "", program: str = "training-storage") -> None:
        self.message = message
        self.usage = usage
        self.program = program
        super().__init__(message)


def report_usage(error: UsageError, *, as_json: bool) -> int:
    """Print what is wrong with the command line itself and return the exit code."""
    if as_json:
        _print_json("UsageError", error.message, (), {})
    if error.usage:
        print(error.usage, file=sys.stderr)
    print(f"error: {error.message}\nTry `{error.program} --help`.", file=sys.stderr)
    return EXIT_INPUT


def report_output(file: str, error: OSError, *, as_json: bool) -> int:
    """Print why a file cannot be written and return the exit code."""
    message = f"{file} cannot be written: {error.strerror or error}"
    if as_json:
        _print_json("OutputError", message, (), {})
    print(f"error: {message}", file=sys.stderr)
    return EXIT_OUTPUT


def report_bug(error: Exception, *, as_json: bool) -> int:
    """Print one line about an exception that nobody expected, and return the exit code."""
    said = " ".join(str(error).split())
    message = f"unexpected {type(error).__name__}{': ' if said else ''}{said[:500]}"
    if as_json:
        _print_json("InternalError", message, (), {})
    if os.environ.get("TRAINING_STORAGE_DEBUG") == "1":
        traceback.print_exception(error)
    print(
        f"error: {message}\nThis is a mistake of training-storage, not of yours. "
        "Run the command again with TRAINING_STORAGE_DEBUG=1 and report what it prints.",
        file=sys.stderr,
    )
    return EXIT_BUG


def _print_json(kind: str, message: str, problems: Iterable[Problem], extra: dict[str, Any]) -> None:
    document = {
        "ok": False,
        "error": kind,
        "message": message,
        **extra,
        "problems": [problem.to_dict() for problem in problems],
    }
    print(json.dumps(document, indent=2, ensure_ascii=False))


def render_problems(problems: Iterable[Problem], *, width: int) -> str:
    """Return problems as text, grouped by file: what is wrong, then the value, what is allowed and what to change."""
    found = tuple(problems)
    lines: list[str] = []
    file: str | None = None
    for problem in found:
        if problem.file != file and problem.file is not None:
            count = sum(other.file == problem.file for other in found)
            lines.append(f"{problem.file}: {count} problem{'' if count == 1 else 's'}")
        file = problem.file
        place = f"line {problem.line}: " if problem.line else ""
        path = f"{problem.path}: " if problem.path else ""
        lines.extend(_wrapped(f"{place}{path}{problem.what}", "  ", width))
        details = (
            ("got", "" if problem.value is None else str(problem.value)),
            ("allowed", problem.allowed),
            ("fix", problem.fix),
        )
        for name, text in details:
            if text:
                lines.extend(_wrapped(text, f"      {name:<9}", width))
    return "\n".join(lines)


def _wrapped(text: str, lead: str, width: int) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        width,
        initial_indent=lead,
        subsequent_indent=" " * len(lead) if lead.strip() else f"{lead}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
