"""``agent verify``: compare what was promoted with the lake, object by object."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..checkpoints import records, verification
from ..errors import Refusal
from ..settings import Settings
from ._tier import relative

HELP = "compare promoted checkpoints with the lake, object by object; changes nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folder of a checkpoint; left out: all records")


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Verify; records that no longer agree are named, and are no failure of the command."""
    damaged: list[str] = []
    known = records.read_all(aws, settings.lake_bucket, damaged=damaged)
    asked = relative(settings, arguments.paths)
    unknown = sorted(asked - {each.path for each in known})
    if unknown:
        raise Refusal(f"nothing records a promotion of {', '.join(unknown)}")
    chosen = [each for each in known if not asked or each.path in asked]
    found = verification.verify_all(aws, settings, chosen, progress)
    return {
        "records": len(chosen),
        "files": sum(len(each.files) for each in chosen),
        "bytes": sum(each.size for each in chosen),
        "wrong": {key: wrong for key, wrong in sorted(found.items()) if wrong},
        "damaged": damaged,
    }
