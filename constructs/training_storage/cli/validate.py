"""``training-storage validate``: is the workload file right, and is there a legal plan for it?"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from training_storage.cli.inputs import add_workload_arguments, read_plan

if TYPE_CHECKING:
    import argparse

HELP = """\
Everything that is wrong is reported at once, with its line and what to change. Nothing is written and
nobody is asked: no AWS account is needed. Exit code 2: the file has problems.
"""
EXAMPLE = """\
example: training-storage validate examples/llama3-70b.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_workload_arguments(parser)


def run(arguments: argparse.Namespace) -> None:
    """Print that the file is right, with the warnings of its plan; everything else is raised."""
    plan = read_plan(arguments.file, arguments.catalog)
    if arguments.format == "json":
        document = {"ok": True, "workload": plan.name, "warnings": [asdict(warning) for warning in plan.warnings]}
        print(json.dumps(document, indent=2, ensure_ascii=False))
        return
    print(f"{arguments.file}: ok")
    for warning in plan.warnings:
        print(f"  warning {warning.id}: {warning.message}")
