"""``training-storage emulate``: a command against an AWS that exists in this process alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = """\
Example:

  training-storage emulate -- cdk deploy --all -c workload=examples/llama3-70b.yaml

Several commands in one emulator:

  training-storage emulate -- bash -c "cdk bootstrap && cdk deploy --all --require-approval never"
"""


def emulate(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its arguments.")],
    region: Annotated[
        str | None, typer.Option(help="Region of the caller. [default: the workload's, else us-east-1]", show_default=False)
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(help="Account of the caller. [default: the workload's, else 123456789012]", show_default=False),
    ] = None,
    workload: Annotated[
        Path | None,
        typer.Option(help="Workload file to take region and account from. [default: the command's -c workload=FILE]"),
    ] = None,
) -> int:
    """Run a command against an emulated AWS: no account, no network, nothing kept afterwards.

    The emulator starts empty, sets the environment that the AWS tools need, runs the command and stops with it. The
    exit code is the command's own; 3 if the command ended well but the emulator failed inside. It shows that templates
    deploy, update and delete; it does not show that AWS accepts every value, that IAM permits, or that anything is fast.
    """
    from training_storage.emulator import run_command

    file = workload or _workload_of(command)
    found_account, found_region = _place(file) if file is not None else (None, None)
    chosen = {"account": account or found_account, "region": region or found_region}
    return run_command(command, **{name: value for name, value in chosen.items() if value is not None})


def _workload_of(command: list[str]) -> Path | None:
    """Return the file in ``-c workload=FILE`` of the command, if it is there to be read."""
    for word in command:
        _, found, name = word.rpartition("workload=")
        path = Path(name.split()[0].strip("'\"")) if found and name.split() else None
        if path is not None and path.is_file():
            return path
    return None


def _place(file: Path) -> tuple[str | None, str | None]:
    """Return account and region of a workload file; one with mistakes is the command's to report."""
    from training_storage.errors import TrainingStorageError
    from training_storage.workload import load_workload

    try:
        found = load_workload(file)
    except (TrainingStorageError, OSError):
        return None, None
    return found.account, found.region
