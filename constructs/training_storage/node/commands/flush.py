"""``agent flush``: bring to the lake whatever is due, the last checkpoint of each series included, before nodes go."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..checkpoints import orders
from ..checkpoints.run_result import RunResult
from ..roots import node_name
from ..settings import Settings
from ._tier import LOOK_S, Turn, answered

HELP = "promote all that is due and the last checkpoint of each series, and prune nothing"

LEAST_S = 60.0
"""How long a node of several goes on looking: the one that leads may begin later, and then wants its part."""
LONGEST_S = 900.0
"""How long it waits for others; what is still missing then stands in the answer."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: there are none."""


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Promote; a release that holds the agents is who asks for this."""
    del arguments
    turn = Turn(settings, aws, progress)
    if not orders.is_spread(settings):
        return answered(turn.take(prune=False, last=True))
    return answered(flush_spread(turn))


def flush_spread(turn: Turn) -> RunResult:
    """Do this node's part, and lead where it is its turn, until nobody wants more of it."""
    began = turn.clock()
    while True:
        result = turn.once(prune=False, last=True)
        spent = turn.clock() - began
        if spent >= LONGEST_S or (spent >= LEAST_S and (result.errors or not _wanted(turn, result))):
            return result
        turn.progress({"state": "waiting", "for": result.waiting or result.holder or "other nodes"})
        turn.sleep(LOOK_S)


def _wanted(turn: Turn, result: RunResult) -> bool:
    """Whether others are waited for, or wait for this node."""
    if result.waiting or result.holder:
        return True
    name = node_name()
    desk = orders.Desk(turn.aws, turn.settings, turn.tree, name, turn.clock, turn.sleep, turn.progress)
    return any(each.body["act"] != "prune" and name not in each.receipts for each in orders.open_orders(desk))
