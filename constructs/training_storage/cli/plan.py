"""``training-storage plan``: the choice, the numbers that drove it, what was rejected and why."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from training_storage.cli.inputs import add_workload_arguments, read_plan
from training_storage.cli.report import width

if TYPE_CHECKING:
    import argparse

HELP = """\
The same file, catalog and prices give the same plan; nobody is asked and nothing is written. Exit code
2: the file has problems, or no legal plan does what it asks for.
"""
EXAMPLE = """\
example: training-storage plan examples/llama3-70b.yaml --format json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_workload_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print the plan."""
    plan = read_plan(arguments.file, arguments.catalog)
    if arguments.format == "json":
        sys.stdout.write(plan.to_json())
        return
    from training_storage.cli.render import render_plan

    sys.stdout.write(render_plan(plan, width=width(), color=_wants_color()))


def _wants_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
