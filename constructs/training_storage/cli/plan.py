"""``training-storage plan``: the choice, the numbers that drove it, what was rejected and why."""

from __future__ import annotations

import os
import sys

import typer

from training_storage.cli.inputs import CatalogOption, FileArgument, FormatOption, Output, read_plan
from training_storage.cli.report import width

EXAMPLE = """\
Example:

  training-storage plan examples/llama3-70b.yaml --format json
"""


def plan(file: FileArgument, output: FormatOption = Output.TEXT, catalog: CatalogOption = None) -> None:
    """Size the storage of a workload: tiers, file system, mounts, and why.

    The same file, catalog and prices give the same plan; nobody is asked and nothing is written. Exit code 2: the file
    has problems, or no legal plan does what it asks for.
    """
    made = read_plan(file, catalog)
    if output is Output.JSON:
        typer.echo(made.to_json(), nl=False)
        return
    from training_storage.cli.render import render_plan

    typer.echo(render_plan(made, width=width(), color=_wants_color()), nl=False)


def _wants_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
