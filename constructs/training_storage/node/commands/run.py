"""``agent run``: promote what is due, prune what may go, and say what was seen. The timer starts it every minute."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..settings import Settings
from ._tier import Turn, answered, released

HELP = "promote and prune checkpoints once, where it is this node's turn"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and change nothing")
    parser.add_argument("--quiet", action="store_true", help="say nothing where nothing was done")


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Run once; it is no failure when another node has its turn, or a release looks at the hot tier."""
    held = "" if arguments.dry_run else released(settings, aws)
    if held:
        return {} if arguments.quiet else {"held": held}
    answer = answered(Turn(settings, aws, progress).once(dry_run=arguments.dry_run))
    if not arguments.quiet:
        return answer
    # What is there stands in the status; the journal gets what was done.
    done = {key: answer[key] for key in ("promoted", "pruned", "kept", "waiting") if answer[key]}
    return {"node": answer["node"], **done} if done else {}
