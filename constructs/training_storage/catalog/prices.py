"""The price book: what one unit of each item costs, by region; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from training_storage.catalog.model import Price


@dataclass(frozen=True, slots=True)
class PriceBook:
    """Prices by item and region.

    Stable item names: ``lustre.{deployment}.{storage}.{tier}`` such as ``lustre.PERSISTENT_2.SSD.500``
    (``lustre.SCRATCH_2.SSD`` has no tier), ``lustre.metadata_iops``, ``ec2.{type}``, ``s3_express.storage`` and so on.
    No list price was read from AWS for most of them: look at the trust of a row before relying on it.

    Attributes:
        rows: Every row by (region, item).
    """

    rows: Mapping[tuple[str, str], Price] = field(hash=False)

    def price(self, item: str, region: str) -> Price | None:
        """Return the row as it stands, or None where the region has none of that item."""
        return self.rows.get((region, item))

    def usd(self, item: str, region: str) -> float | None:
        """Return the price of one unit in USD, or None where it is not known.

        Where a price has tiers it is that of the first units of a month; ``usd_for`` counts the others too. A row of
        another region never stands in, and a row that is only remembered is no price: look at it with ``price``.
        """
        row = self._usable(item, region)
        return None if row is None else row.usd

    def usd_for(self, item: str, region: str, quantity: float) -> float | None:
        """Return what a quantity of one month costs in USD, through the tiers of its price; None as ``usd`` does.

        Args:
            item: Name of the item.
            region: Region.
            quantity: Units of one month, from 0.
        """
        row = self._usable(item, region)
        return None if row is None else row.cost(quantity)

    def average_usd(self, item: str, region: str, quantity: float) -> float | None:
        """Return what one unit costs on average where ``quantity`` are used in a month; None as ``usd`` does.

        It is the price of the first unit where the quantity is 0.
        """
        row = self._usable(item, region)
        if row is None or not row.tiers or quantity <= 0:
            return None if row is None else row.usd
        cost = row.cost(quantity)
        return None if cost is None else cost / quantity

    def _usable(self, item: str, region: str) -> Price | None:
        row = self.rows.get((region, item))
        return None if row is None or row.source.trust == "remembered" else row

    def items(self, region: str) -> tuple[str, ...]:
        """Return the names of all items that have a row in the region, in the order of the book."""
        return tuple(item for place, item in self.rows if place == region)
