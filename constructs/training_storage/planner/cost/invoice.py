"""The bill of a plan: lines from every part of it, and their sums."""

from __future__ import annotations

import math
from collections.abc import Iterable

from training_storage.planner.cost.after_run import after_run
from training_storage.planner.cost.compute import fleet
from training_storage.planner.cost.express import express_items
from training_storage.planner.cost.lines import Item, line
from training_storage.planner.cost.lustre import lustre_items
from training_storage.planner.cost.network import network_items
from training_storage.planner.cost.s3 import lake_items, read_items
from training_storage.planner.cost.usage import Parts, measure_usage
from training_storage.planner.draft import Draft
from training_storage.planner.model_cost import Cost

NOT_COUNTED = (
    "not in the bill: volumes of nodes, CloudWatch, KMS requests, taxes, support, and data that leaves the region"
)


def estimate(draft: Draft, parts: Parts, *, run_h: float | None) -> Cost:
    """Return the bill.

    Args:
        draft: The plan while it is written; takes assumptions.
        parts: The parts of the plan that cost something.
        run_h: Length of one run, hours; None where it is not known.
    """
    usage = measure_usage(draft, parts.prediction)
    items: list[Item] = []
    if parts.lustre is not None:
        items.extend(lustre_items(draft, parts.lustre, usage))
    if parts.express is not None:
        items.extend(express_items(draft, parts.express, usage))
    items.extend(read_items(draft, parts, usage))
    items.extend(lake_items(draft, parts, usage))
    items.extend(network_items(draft, parts))
    items.append(fleet(draft))
    draft.assume(NOT_COUNTED)
    lines = tuple(line(draft, each, run_h) for each in items)
    storage = [each for each in lines if each.group == "storage"]
    compute = [each for each in lines if each.group == "compute"]
    return Cost(
        currency="USD",
        region=draft.workload.region,
        run_h=run_h,
        lines=lines,
        storage_hourly=_sum(each.hourly for each in storage),
        storage_run=_sum(each.run for each in storage),
        storage_monthly=_sum(each.monthly for each in storage),
        compute_hourly=_sum(each.hourly for each in compute),
        compute_run=_sum(each.run for each in compute),
        compute_monthly=_sum(each.monthly for each in compute),
        hourly=_sum(each.hourly for each in lines),
        run=_sum(each.run for each in lines),
        monthly=_sum(each.monthly for each in lines),
        unpriced=tuple(dict.fromkeys(each.item for each in lines if each.unit_price is None)),
        after_run=after_run(draft, parts, items, lines),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None
