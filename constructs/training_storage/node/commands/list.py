"""``agent list``: the checkpoints of the hot tier as the policy sees them, and those that only the lake has."""

from __future__ import annotations

import argparse
from typing import Any, Callable

from ..aws import Aws
from ..checkpoints import ledgers, orders, records
from ..checkpoints.layouts import find_checkpoints
from ..checkpoints.model import Record
from ..checkpoints.policy import decide
from ..checkpoints.status import checkpoint_of
from ..roots import node_name
from ..settings import Settings
from ._tier import Turn

HELP = "list checkpoints: complete or not, promoted or not, what would be pruned"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments: there are none."""


def run(
    arguments: argparse.Namespace, settings: Settings, aws: Aws, progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Look, and change nothing. Records are believed here; ``verify`` compares them with the lake."""
    del arguments
    turn = Turn(settings, aws, progress)
    assert settings.policy is not None  # noqa: S101 - ``Turn`` refuses without one
    damaged: list[str] = []
    known = records.read_all(aws, settings.lake_bucket, damaged=damaged)
    spread = orders.is_spread(settings)
    found = orders.look_together(turn.desk()).checkpoints if spread else find_checkpoints(turn.tree)
    verdicts = decide(
        found,
        known,
        ledgers.read_all(aws, settings.lake_bucket),
        settings.policy,
        now_ns=int(turn.clock() * 1e9),
    ).verdicts
    here = {(each.checkpoint.path, each.checkpoint.fingerprint) for each in verdicts}
    return {
        "node": node_name(),
        "workload": settings.workload,
        "hot_tier_id": settings.hot_tier_id,
        "tier": settings.tier,
        "checkpoints": [checkpoint_of(each) for each in verdicts],
        "unsaved": [each.checkpoint.path for each in verdicts if each.due and not each.promoted],
        "lake": [_told(each) for each in known if (each.path, each.fingerprint) not in here],
        "damaged": damaged,
    }


def _told(record: Record) -> dict[str, Any]:
    """Return what is said of a checkpoint that has left the hot tier."""
    return {
        "path": record.path,
        "series": record.series,
        "step": record.step,
        "number": record.number,
        "reason": record.reason,
        "promoted_at": record.promoted_at,
        "size": record.size,
        "files": len(record.files),
    }
