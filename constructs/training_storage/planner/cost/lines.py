"""One line of the bill: how much of an item, and what that costs in an hour, a run and a month."""

from __future__ import annotations

from dataclasses import dataclass

from training_storage.planner.draft import Draft
from training_storage.planner.model_cost import HOURS_PER_MONTH, CostLine, Group, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What is used, before it is priced. Exactly one of the three quantities is given.

    Attributes:
        item: Item of the price book.
        label: The same for people.
        group: ``storage`` or ``compute``.
        kind: What is paid for.
        unit: Unit of the price.
        per_month: Units that stand, billed by the month (GiB, IOPS).
        per_hour: Units used in one hour of training (instance hours, requests, GB).
        once: Units used once a run.
        hot: Whether it ends when the hot tier is released.
    """

    item: str
    label: str
    group: Group
    kind: Kind
    unit: str
    per_month: float | None = None
    per_hour: float | None = None
    once: float | None = None
    hot: bool = False


def line(draft: Draft, used: Item, run_h: float | None) -> CostLine:
    """Return the line of one item in the region of the workload.

    Args:
        draft: Where the price book is.
        used: What is used.
        run_h: Length of one run, hours; None where it is not known.
    """
    book, region = draft.catalog.prices, draft.workload.region
    usd, row = book.usd(used.item, region), book.price(used.item, region)
    a_run: float | None
    if used.once is not None:
        quantity, an_hour, a_run = used.once, 0.0, used.once
    elif used.per_hour is not None:
        quantity, an_hour = used.per_hour * HOURS_PER_MONTH, used.per_hour
        a_run = None if run_h is None else used.per_hour * run_h
    else:
        quantity = used.per_month or 0.0
        an_hour = quantity / HOURS_PER_MONTH
        a_run = None if run_h is None else an_hour * run_h
    return CostLine(
        item=used.item,
        label=used.label,
        group=used.group,
        kind=used.kind,
        quantity=quantity,
        unit=used.unit,
        unit_price=usd,
        hourly=None if usd is None else an_hour * usd,
        run=None if usd is None or a_run is None else a_run * usd,
        monthly=None if usd is None else quantity * usd,
        once=used.once is not None,
        hot=used.hot,
        source=None if row is None else f"{row.source.text} ({row.source.date}, {row.source.trust})",
    )
