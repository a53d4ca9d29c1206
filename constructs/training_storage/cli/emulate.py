"""``training-storage emulate``: a command against an AWS that exists in this process alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from training_storage.cli.inputs import region
from training_storage.cli.report import UsageError

if TYPE_CHECKING:
    import argparse

TAKES_REST = True
HELP = """\
No account, no network, nothing kept afterwards: the emulator starts empty, sets the environment that the
AWS tools need, runs the command and stops with it. The exit code is the command's own; 3 if the command
ended well but the emulator failed inside. It shows that templates deploy, update and delete; it does not
show that AWS accepts every value, that IAM permits, or that anything is fast.
"""
EXAMPLE = """\
example: training-storage emulate -- cdk bootstrap -c workload=first.yaml

several commands in one emulator:
  training-storage emulate --workload first.yaml -- bash -c "cdk bootstrap -c workload=first.yaml &&
    cdk deploy --all --require-approval never -c workload=first.yaml"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; the command to run follows a ``--``."""
    parser.usage = "%(prog)s [options] -- COMMAND ..."
    parser.add_argument("--region", type=region, help="region of the caller (default: the workload's, else us-east-1)")
    parser.add_argument("--account", help="account of the caller (default: the workload's, else 123456789012)")
    parser.add_argument(
        "--workload",
        type=Path,
        metavar="FILE",
        help="workload file to take region and account from (default: the command's -c workload=FILE)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command and return its exit code."""
    command: list[str] = arguments.rest
    if not command:
        raise UsageError(
            "no command given; it follows a -- that stands alone",
            "usage: training-storage emulate [options] -- COMMAND ...",
            "training-storage emulate",
        )
    from training_storage.emulator import run_command

    file = arguments.workload or _workload_of(command)
    found_account, found_region = _place(file) if file is not None else (None, None)
    chosen = {"account": arguments.account or found_account, "region": arguments.region or found_region}
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
