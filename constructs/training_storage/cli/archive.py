"""``training-storage archive``: copy what a run has made from the directory buckets back to the data lake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training_storage.cli.transfers import add_transfer_arguments, run_transfer

if TYPE_CHECKING:
    import argparse

HELP = """\
Copies on the servers' side, under the same keys, and verifies every copy by size and checksum. Interrupt
it at any moment and run the same command again: it goes on, on any machine, and copies nothing twice that
was verified. Nothing is removed unless --remove is given. Exit code 1: some objects are not there, not
verified, or not removed.
"""
EXAMPLE = """\
example: training-storage archive object-native-2048 --path checkpoints/
         training-storage archive --from s3://hot--use1-az6--x-s3/checkpoints/ --to s3://lake/checkpoints/
"""
_DEFAULT_PATH = "checkpoints/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_transfer_arguments(parser, default_path=_DEFAULT_PATH)
    parser.add_argument(
        "--remove", action="store_true", help="remove each object from the source once its copy is verified"
    )


def run(arguments: argparse.Namespace) -> int:
    """Archive, and say how it went."""
    from training_storage.operations.archive import archive_route

    return run_transfer(arguments, "archive", archive_route, _DEFAULT_PATH, remove=arguments.remove)
