"""Prices that more than one part of a plan asks for."""

from __future__ import annotations

from training_storage.planner.draft import Draft

_FLEET_ITEMS = {
    "on-demand": "ec2.{}",
    "reservation": "ec2.{}",
    "spot": "ec2-spot.{}",
    "capacity-block": "ec2-capacity-block.{}",
}


def fleet_item(draft: Draft) -> str:
    """Return the item of the price book for one instance, as it is bought.

    An On-Demand Capacity Reservation is billed like On-Demand; Spot and Capacity Blocks have prices of their own, which
    the book has only where a user's catalog gives them.
    """
    compute = draft.workload.compute
    return _FLEET_ITEMS[compute.purchase].format(compute.instance_type)


def fleet_usd_per_hour(draft: Draft) -> float | None:
    """Return the price of the whole fleet, USD an hour; None where it is not known."""
    usd = draft.catalog.prices.usd(fleet_item(draft), draft.workload.region)
    return None if usd is None else usd * draft.needs.instances
