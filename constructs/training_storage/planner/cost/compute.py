"""The fleet on the bill."""

from __future__ import annotations

from training_storage.planner.cost.lines import Item
from training_storage.planner.draft import Draft
from training_storage.planner.prices import fleet_item


def fleet(draft: Draft) -> Item:
    """Return the instances, as they are bought.

    Args:
        draft: The plan while it is written.
    """
    bought = draft.workload.compute.purchase
    return Item(
        item=fleet_item(draft),
        label=f"{draft.needs.instances:,} x {draft.facts.name}, {bought}",
        group="compute",
        kind="gpu",
        unit="hour",
        per_hour=float(draft.needs.instances),
    )
