"""``training-storage stage``: copy data sets from the data lake to the directory buckets of S3 Express."""

from __future__ import annotations

from typing import TYPE_CHECKING

from training_storage.cli.transfers import add_transfer_arguments, run_transfer

if TYPE_CHECKING:
    import argparse

HELP = """\
Copies on the servers' side, under the same keys, and verifies every copy by size and checksum. Interrupt
it at any moment and run the same command again: it goes on, on any machine, and copies nothing twice that
was verified. It never deletes anything. Exit code 1: some objects are not there or not verified.
"""
EXAMPLE = """\
example: training-storage stage object-native-2048 --path datasets/v7/
         training-storage stage --from s3://lake/datasets/ --to s3://hot--use1-az6--x-s3/datasets/
"""
_DEFAULT_PATH = "datasets/"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_transfer_arguments(parser, default_path=_DEFAULT_PATH)


def run(arguments: argparse.Namespace) -> int:
    """Stage, and say how it went."""
    from training_storage.operations.stage import staging_route

    return run_transfer(arguments, "stage", staging_route, _DEFAULT_PATH)
