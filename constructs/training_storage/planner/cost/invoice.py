"""The bill of a plan: lines from every part of it, and their sums."""

from __future__ import annotations

from collections.abc import Iterable

from training_storage.planner.cost.lines import Item, line
from training_storage.planner.draft import Draft
from training_storage.planner.model import LustrePlan
from training_storage.planner.model_cost import Cost
from training_storage.planner.prices import fleet_item


def estimate(draft: Draft, *, lustre: LustrePlan | None, run_h: float | None) -> Cost:
    """Return the bill.

    Args:
        draft: The plan while it is written; takes assumptions.
        lustre: The file system, if any.
        run_h: Length of one run, hours; None where it is not known.
    """
    items = [
        *_lustre(draft, lustre),
        Item(
            item=fleet_item(draft),
            label=f"{draft.needs.instances:,} x {draft.facts.name}",
            group="compute",
            kind="gpu",
            unit="hour",
            per_hour=float(draft.needs.instances),
        ),
    ]
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
        after_run=None,
    )


def _lustre(draft: Draft, lustre: LustrePlan | None) -> list[Item]:
    if lustre is None or lustre.storage_capacity_gib is None:
        return []
    name = f"lustre.{lustre.deployment_type}.{lustre.storage_type}"
    tier = lustre.per_unit_storage_throughput
    items = [
        Item(
            item=f"{name}.{tier}" if tier else name,
            label=f"Lustre, {lustre.storage_capacity_gib:,} GiB",
            group="storage",
            kind="storage",
            unit="GiB-month",
            per_month=float(lustre.storage_capacity_gib),
            hot=True,
        )
    ]
    if lustre.metadata_mode == "USER_PROVISIONED" and lustre.metadata_iops is not None:
        extra = lustre.metadata_iops - draft.catalog.lustre.automatic_metadata_iops(lustre.storage_capacity_gib)
        if extra > 0:
            items.append(
                Item(
                    item="lustre.metadata_iops",
                    label=f"{extra:,} metadata IOPS above AUTOMATIC",
                    group="storage",
                    kind="metadata",
                    unit="IOPS-month",
                    per_month=float(extra),
                    hot=True,
                )
            )
    return items


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
