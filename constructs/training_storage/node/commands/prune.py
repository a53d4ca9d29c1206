"""``agent prune``: remove from the hot tier what the policy lets go."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..errors import Refusal
from ..settings import Settings
from ._tier import Turn, answered, released

HELP = "remove checkpoints that the policy lets go from the hot tier"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and change nothing")


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Prune, and promote nothing."""
    if not arguments.dry_run and (held := released(settings, aws)):
        raise Refusal(held)
    return answered(Turn(settings, aws, progress).take(promote=False, dry_run=arguments.dry_run))
