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
         training-storage plan examples/llama3-70b.yaml --rights > deploy-rights.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_workload_arguments(parser)
    parser.add_argument(
        "--rights",
        action="store_true",
        help="print, in place of the plan, the IAM policy (JSON) that the deploying role needs so that FSx accepts the "
        "links to S3; without links it has no statement",
    )


def run(arguments: argparse.Namespace) -> None:
    """Print the plan, or the rights that deploying its links needs."""
    plan = read_plan(arguments.file, arguments.catalog)
    if arguments.rights:
        import json

        from training_storage.planner.rights import deploy_rights

        sys.stdout.write(json.dumps(deploy_rights(plan), indent=2) + "\n")
        return
    if arguments.format == "json":
        sys.stdout.write(plan.to_json())
        return
    from training_storage.cli.render import render_plan

    sys.stdout.write(render_plan(plan, width=width(), color=_wants_color()))


def _wants_color() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
