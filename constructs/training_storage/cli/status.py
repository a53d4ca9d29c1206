"""``training-storage status``: show what is deployed of a workload, how it is, and what it has cost so far."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from training_storage.cli.inputs import add_format_argument, file_name, region

if TYPE_CHECKING:
    import argparse

HELP = """\
Stacks, file system, links, tasks, queue, nodes and their mounts, checkpoints, release and cost, each asked
for on its own: what is denied or missing is not known, and the reason is said. Nothing is changed. Exit
code 1: something is broken, such as a link that is MISCONFIGURED or a stack that was rolled back.
"""
EXAMPLE = """\
examples: training-storage status llama3-70b
          training-storage status llama3-70b --format json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", metavar="NAME", help="workload name, the prefix of its stacks")
    parser.add_argument(
        "--workload", metavar="FILE", type=file_name,
        help="workload file for prices and nodes (default: what was deployed)",
    )  # fmt: skip
    parser.add_argument(
        "--catalog", metavar="FILE", type=lambda name: Path(file_name(name)), action="append", default=[],
        help="catalog file that corrects or adds facts, for --workload; may be repeated",
    )  # fmt: skip
    parser.add_argument("--region", type=region, help="region (default: the environment's)")
    parser.add_argument("--profile", help="profile of the AWS configuration")
    add_format_argument(parser)


def run(arguments: argparse.Namespace) -> int:
    """Look, and show."""
    from training_storage.cli.render_status import as_text, wants_color
    from training_storage.operations.aws import clients, make_session
    from training_storage.operations.status import status

    expected = None
    if arguments.workload is not None:
        from training_storage.cli.inputs import read_plan
        from training_storage.planner.expectations import expectations

        expected = expectations(read_plan(arguments.workload, arguments.catalog))
        if expected.workload != arguments.name:
            print(f"note: {arguments.workload} describes {expected.workload}, not {arguments.name}", file=sys.stderr)
    session = make_session(arguments.region, arguments.profile)
    found = status(clients(session), arguments.name, session.region_name or "", expected=expected)
    if arguments.format == "json":
        print(json.dumps(found.to_dict(), indent=2))
    else:
        print(as_text(found, color=wants_color()))
    return 1 if found.is_broken else 0
