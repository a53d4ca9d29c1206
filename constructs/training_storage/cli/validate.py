"""``training-storage validate``: is the workload file right, and is there a legal plan for it?"""

from __future__ import annotations

import json
from dataclasses import asdict

import typer

from training_storage.cli.inputs import CatalogOption, FileArgument, FormatOption, Output, read_plan

EXAMPLE = """\
Example:

  training-storage validate examples/llama3-70b.yaml
"""


def validate(file: FileArgument, output: FormatOption = Output.TEXT, catalog: CatalogOption = None) -> None:
    """Check a workload file: everything that is wrong is reported at once, with its line and what to change.

    Nothing is written and nobody is asked: no AWS account is needed. Exit code 2: the file has problems.
    """
    plan = read_plan(file, catalog)
    if output is Output.JSON:
        document = {"ok": True, "workload": plan.name, "warnings": [asdict(warning) for warning in plan.warnings]}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{file}: ok")
    for warning in plan.warnings:
        typer.echo(f"  warning {warning.id}: {warning.message}")
