"""What the commands on a workload file share: their arguments, and reading and planning with line numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from training_storage.errors import PlanError

if TYPE_CHECKING:
    import argparse

    from training_storage.planner.model import Plan
    from training_storage.units import Duration

TEXT_OR_JSON: tuple[str, ...] = ("text", "json")


def add_workload_arguments(parser: argparse.ArgumentParser, formats: tuple[str, ...] = TEXT_OR_JSON) -> None:
    """Declare FILE, --format and --catalog.

    Args:
        parser: The parser of the command.
        formats: Forms that the command prints.
    """
    parser.add_argument("file", metavar="FILE", type=_workload_file, help="workload file, YAML; - for standard input")
    add_format_argument(parser, formats)
    parser.add_argument(
        "--catalog",
        metavar="FILE",
        type=lambda name: Path(file_name(name)),
        action="append",
        default=[],
        help="catalog file that corrects or adds facts; may be given several times, a later one wins",
    )


def file_name(name: str) -> str:
    """Return the name of a file; an empty one, such as that of an unset shell variable, would mean the folder."""
    from argparse import ArgumentTypeError

    if not name:
        raise ArgumentTypeError("the name is empty")
    return name


def _workload_file(name: str) -> str:
    """Return the name of a workload file, that of standard input for a hyphen."""
    return "/dev/stdin" if name == "-" else file_name(name)


def region(name: str) -> str:
    """Return the name of a region; that of a zone, or its id, would only fail in AWS, and with other words."""
    import re
    from argparse import ArgumentTypeError

    if not re.fullmatch(r"[a-z]{2,4}(?:-[a-z]+)+-[0-9]+", name):
        raise ArgumentTypeError(f"{name!r} is not a region; a region such as us-east-1 is wanted, no zone or zone ID")
    return name


def length_of_time(text: str) -> Duration:
    """Return a length of time such as ``14d``, as a workload file has it."""
    from argparse import ArgumentTypeError

    from training_storage.workload.fields import duration
    from training_storage.workload.section import Refused

    try:
        return duration(text)
    except Refused as error:
        (problem,) = error.problems
        raise ArgumentTypeError(f"{text!r} {problem.what}; allowed: {problem.allowed}, such as 14d") from None


def add_format_argument(parser: argparse.ArgumentParser, formats: tuple[str, ...] = TEXT_OR_JSON) -> None:
    """Declare --format."""
    parser.add_argument("--format", choices=formats, default="text", help="form of the result (default: text)")


def read_plan(file: str, catalog_files: list[Path], run_length: Duration | None = None) -> Plan:
    """Return the plan of a workload file.

    Args:
        file: The workload file.
        catalog_files: Catalog files, a later one over an earlier one. Empty: the facts of the package.
        run_length: How long one run trains, for its cost. Left out: as ``plan`` takes it.

    Raises:
        WorkloadError: The file cannot be read as a workload.
        PlanError: It cannot be planned as asked; the problems carry the lines of the file.
        CatalogError: A catalog file is not usable.
    """
    from training_storage.catalog import load_catalog
    from training_storage.planner import plan
    from training_storage.workload import load_workload_with_lines

    catalog = load_catalog(*catalog_files)
    workload, lines = load_workload_with_lines(file, catalog)
    try:
        return plan(workload, catalog=catalog, run_length=run_length)
    except PlanError as error:
        raise PlanError(lines.locate(error.problems)) from None
