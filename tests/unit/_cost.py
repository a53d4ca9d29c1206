"""A price book for tests of the bill: every item at a prime of its own, so that a wrong factor or item shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.unit._planner import make
from training_storage.catalog import Catalog, default_catalog
from training_storage.catalog.model import Price, Source
from training_storage.catalog.prices import PriceBook
from training_storage.planner import Cost, CostLine, Plan, plan
from training_storage.units import Duration
from training_storage.workload import load_workload

ROOT = Path(__file__).resolve().parents[2]

PRIMES = {
    # The tiers keep the order of the real prices, so that the same one is the cheapest.
    "lustre.PERSISTENT_2.SSD.125": 149,
    "lustre.PERSISTENT_2.SSD.250": 211,
    "lustre.PERSISTENT_2.SSD.500": 337,
    "lustre.PERSISTENT_2.SSD.1000": 601,
    "lustre.metadata_iops": 53,
    "lustre.SCRATCH_2.SSD": 139,
    "lustre.PERSISTENT_1.SSD.50": 151,
    "lustre.PERSISTENT_1.SSD.100": 191,
    "lustre.PERSISTENT_1.SSD.200": 293,
    "lustre.PERSISTENT_1.HDD.12": 23,
    "lustre.PERSISTENT_1.HDD.40": 83,
    "lustre.PERSISTENT_1.HDD.read_cache": 29,
    "lustre.PERSISTENT_2.INTELLIGENT_TIERING.throughput": 521,
    "lustre.PERSISTENT_2.INTELLIGENT_TIERING.frequent": 31,
    "lustre.PERSISTENT_2.INTELLIGENT_TIERING.read_cache": 37,
    "lustre.PERSISTENT_2.INTELLIGENT_TIERING.read_cache_proportional": 41,
    "lustre.PERSISTENT_2.INTELLIGENT_TIERING.metadata_iops": 43,
    "lustre.backup": 47,
    "s3.standard.storage": 59,
    "s3.get_requests": 61,
    "s3.put_requests": 67,
    "s3_express.storage": 71,
    "s3_express.put_requests": 73,
    "s3_express.get_requests": 79,
    "s3_express.upload": 89,
    "s3_express.retrieval": 97,
    "s3_files.storage": 101,
    "s3_files.read": 103,
    "s3_files.write": 107,
    "nat.gateway": 109,
    "nat.data_processed": 113,
    "vpc.public_ipv4": 127,
    "vpc.interface_endpoint": 131,
    "vpc.interface_endpoint_data": 137,
    "data_transfer.cross_zone": 157,
    "kms.key": 163,
    "ec2.p5en.48xlarge": 167,
    "ec2.p5.48xlarge": 173,
    "ec2.g6e.48xlarge": 179,
    "ec2.g4dn.12xlarge": 181,
    "ec2-spot.p5.48xlarge": 193,
    "ec2-capacity-block.p5.48xlarge": 197,
}
SOURCE = Source(text="a book of tests", date="2026-11-30", trust="seen")


def book(*regions: str, without: Iterable[str] = ()) -> PriceBook:
    """Return a book with every item at its prime in the given regions, less some items."""
    rows = {
        (region, item): Price(item=item, region=region, unit="unit", usd=float(usd), source=SOURCE)
        for region in regions
        for item, usd in PRIMES.items()
        if item not in set(without)
    }
    return PriceBook(rows)


def priced(prices: PriceBook) -> Catalog:
    """Return the catalog of the package with other prices."""
    return replace(default_catalog(), prices=prices)


REGIONS = ("us-east-1", "us-west-2", "cn-north-1")
CATALOG = priced(book(*REGIONS))


def example(name: str, *, hours: float | None = None) -> Plan:
    """Return the plan of an example file by the book of primes."""
    length = None if hours is None else Duration(hours * 3600)
    return plan(load_workload(ROOT / "examples" / f"{name}.yaml"), catalog=CATALOG, run_length=length)


def bill(changes: dict[str, Any] | None = None, *, hours: float | None = None, catalog: Catalog = CATALOG) -> Cost:
    """Return the bill of the base workload with values set by dotted path."""
    length = None if hours is None else Duration(hours * 3600)
    return plan(make(changes), catalog=catalog, run_length=length).cost


def lines(cost: Cost, item: str) -> list[CostLine]:
    """Return the lines of an item."""
    return [line for line in cost.lines if line.item == item]


def only(cost: Cost, item: str) -> CostLine:
    """Return the one line of an item; fails where there are none or several."""
    (found,) = lines(cost, item)
    return found


def items(cost: Cost) -> list[str]:
    """Return the items of a bill in the order of its lines."""
    return [line.item for line in cost.lines]
