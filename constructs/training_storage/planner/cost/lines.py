"""One line of the bill: how much of an item, and what that costs in an hour, a run and a month."""

from __future__ import annotations

from dataclasses import dataclass

from training_storage.planner.draft import Draft
from training_storage.planner.model_cost import HOURS_PER_MONTH, CostLine, Group, Kind

REQUESTS = 1000.0
"""S3 prices requests by the thousand."""


@dataclass(slots=True, kw_only=True)
class Item:
    """What is used, before it is priced. Exactly one of the three quantities is given.

    Attributes:
        item: Item of the price book.
        label: The same for people.
        kind: What is paid for.
        unit: Unit of the price.
        per_month: Units that stand, billed by the month (GiB, IOPS).
        per_hour: Units used in one hour of training (instance hours, requests, GB).
        once: Units used once a run.
        group: ``storage`` or ``compute``.
        hot: Whether it ends when the hot tier is released.
    """

    item: str
    label: str
    kind: Kind
    unit: str
    per_month: float | None = None
    per_hour: float | None = None
    once: float | None = None
    group: Group = "storage"
    hot: bool = False

    @property
    def stands_hot(self) -> bool:
        """Whether it is paid for as long as the hot tier is there, trained or not."""
        return self.hot and self.per_month is not None


def requests(
    item: str, label: str, *, per_hour: float | None = None, once: float | None = None, hot: bool = False
) -> Item:
    """Return requests, which are priced by the thousand, counted in an hour of training or once a run."""
    return Item(
        item=item,
        label=label,
        kind="requests",
        unit="1000 requests",
        per_hour=None if per_hour is None else per_hour / REQUESTS,
        once=None if once is None else once / REQUESTS,
        hot=hot,
    )


def gigabytes(
    item: str, label: str, *, per_hour: float | None = None, once: float | None = None, hot: bool = False
) -> Item:
    """Return data that is moved, GB, in an hour of training or once a run."""
    return Item(item=item, label=label, kind="transfer", unit="GB", per_hour=per_hour, once=once, hot=hot)


def line(draft: Draft, used: Item, run_h: float | None) -> CostLine:
    """Return the line of one item in the region of the workload.

    Where a price falls with the quantity, the unit price is the average over the quantity of a month. Each line begins
    at the first unit: what else the account uses is not known.

    Args:
        draft: Where the price book is.
        used: What is used.
        run_h: Length of one run, hours; None where it is not known.
    """
    book, region = draft.catalog.prices, draft.workload.region
    if used.once is not None:
        quantity, an_hour = used.once, 0.0
    elif used.per_hour is not None:
        quantity, an_hour = used.per_hour * HOURS_PER_MONTH, used.per_hour
    else:
        quantity = used.per_month or 0.0
        an_hour = quantity / HOURS_PER_MONTH
    a_run = None if run_h is None else quantity if used.once is not None else an_hour * run_h
    usd, row = book.average_usd(used.item, region, quantity), book.price(used.item, region)
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
        trust=None if row is None else row.source.trust,
    )
