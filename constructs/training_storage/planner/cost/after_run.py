"""Keeping the hot tier after a run, beside releasing it and loading it again before the next one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from training_storage.planner.cost.lines import Item
from training_storage.planner.cost.usage import Parts
from training_storage.planner.draft import Draft
from training_storage.planner.model_cost import HOURS_PER_MONTH, AfterRun, CostLine


def after_run(draft: Draft, parts: Parts, items: Sequence[Item], lines: Sequence[CostLine]) -> AfterRun | None:
    """Return both sides; None without a hot tier that a stack of ours holds.

    Released means that the stacks of the hot tier, the fleet and the monitoring are gone; the data lake stays, and with
    it everything that was promoted.

    Args:
        draft: The plan while it is written.
        parts: The parts of the plan.
        items: What is used.
        lines: The same, priced, in the same order.
    """
    workload, hot = draft.workload, parts.tiers.hot
    ours = {
        "none": False,
        "lustre": workload.lustre.file_system_id is None,
        "express": not workload.express.bucket_names,
    }[hot]
    if not ours:
        return None
    keep = _sum([line.hourly for item, line in zip(items, lines, strict=True) if item.stands_hot])
    asked = [line.monthly for line in lines if line.once and line.hot]
    first = parts.prediction.first_epoch
    reload_s = first.preload_s if first is not None and hot == "lustre" else None
    reload_usd = _sum(asked) if asked else None
    if hot == "lustre" and reload_usd is not None:
        # A file system is paid by its capacity from the first second on, a bucket by what is there already.
        whole = keep is not None and reload_s is not None
        reload_usd = reload_usd + (keep or 0.0) * (reload_s or 0.0) / 3600 if whole else None
    return AfterRun(
        keep_hourly=keep,
        keep_monthly=None if keep is None else keep * HOURS_PER_MONTH,
        reload_usd=reload_usd,
        reload_s=reload_s,
        break_even_h=None if not keep or reload_usd is None else reload_usd / keep,
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None where one part is not known: half a sum would answer the wrong question."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known and len(known) == len(values) else None
