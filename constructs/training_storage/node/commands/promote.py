"""``agent promote``: bring checkpoints to the lake by hand."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..checkpoints import orders
from ..errors import Refusal
from ..settings import Settings
from ._tier import Turn, answered, relative, released

HELP = "bring checkpoints to the lake: those that are named, or all that are due"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folder of a checkpoint; left out: all that are due")
    parser.add_argument("--last", action="store_true", help="the newest complete one of each series too")
    parser.add_argument("--dry-run", action="store_true", help="say what would be promoted, and change nothing")


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Promote, and prune nothing."""
    if not arguments.dry_run and (held := released(settings, aws)):
        raise Refusal(held)
    asked = relative(settings, arguments.paths)
    turn = Turn(settings, aws, progress)
    # Of several nodes with disks of their own each brings its part, and none can end before the others have.
    run_ = turn.together if orders.is_spread(settings) and not arguments.dry_run else turn.take
    return answered(run_(prune=False, asked=asked, last=arguments.last, dry_run=arguments.dry_run))
