"""What the commands on a workload file share: their arguments, and reading and planning with line numbers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from training_storage.errors import PlanError

if TYPE_CHECKING:
    from training_storage.planner.model import Plan


class Output(StrEnum):
    """Forms of the result."""

    TEXT = "text"
    JSON = "json"


FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="Workload file, YAML.")]
FormatOption = Annotated[Output, typer.Option("--format", help="Form of the result.")]
CatalogOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--catalog", metavar="FILE", help="Catalog file that corrects or adds facts; may be given several times."
    ),
]


def read_plan(file: str, catalog_files: list[Path] | None) -> Plan:
    """Return the plan of a workload file.

    Args:
        file: The workload file.
        catalog_files: Catalog files, a later one over an earlier one. None: the facts of the package.

    Raises:
        WorkloadError: The file cannot be read as a workload.
        PlanError: It cannot be planned as asked; the problems carry the lines of the file.
        CatalogError: A catalog file is not usable.
    """
    from training_storage.catalog import load_catalog
    from training_storage.planner import plan
    from training_storage.workload import load_workload_with_lines

    catalog = load_catalog(*(catalog_files or ()))
    workload, lines = load_workload_with_lines(file, catalog)
    try:
        return plan(workload, catalog=catalog)
    except PlanError as error:
        raise PlanError(lines.locate(error.problems)) from None
