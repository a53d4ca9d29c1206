"""``agent flush``: bring to the lake whatever is due, the last checkpoint of each series included, before nodes go."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..checkpoints import disks, orders, records, verification
from ..settings import Settings
from ._tier import Turn, answered

HELP = "promote all that is due and the last checkpoint of each series, and prune nothing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: there are none."""


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Promote, and say what lies on this node's disk; a release that holds the agents is who asks for this."""
    del arguments
    return flushed(Turn(settings, aws, progress))


def flushed(turn: Turn) -> dict[str, Any]:
    """Do this node's part, and lead where it is its turn, until nobody wants more of it; then look once more.

    Returns:
        What the run did; ``checkpoints`` and ``unsaved`` as this node sees them at the end, with the last one of each
        series due; ``disk``: what lies here, as ``disks.told`` says it, of a tier of local disks.

    Raises:
        Failure: Something went wrong with a part of it.
    """
    spread = orders.is_spread(turn.settings)
    result = turn.together(prune=False, last=True) if spread else turn.take(prune=False, last=True)
    answer = answered(result)
    if turn.settings.tier != "nvme":
        return answer
    seen = turn.once(dry_run=True, prune=False, last=True)
    answered(seen)
    known = records.read_all(turn.aws, turn.settings.lake_bucket, damaged=[])
    wrong = verification.verify_all(turn.aws, turn.settings, known, turn.progress)
    agreed = [each for each in known if not wrong.get(records.record_key(each.path, each.fingerprint))]
    leaving = [each.body["path"] for each in orders.open_orders(turn.desk()) if each.prunes] if spread else []
    return {
        **answer,
        "checkpoints": seen.checkpoints,
        "unsaved": seen.unsaved,
        "disk": disks.told(turn.tree.files(), seen.checkpoints, agreed, leaving),
    }
