"""Hours, runs and months, prices that fall with the quantity, unknown prices, and keeping beside releasing."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit._cost import CATALOG, PRIMES, REGIONS, SOURCE, bill, book, items, lines, only, priced
from tests.unit._planner import make
from training_storage.catalog.model import Price, PriceTier
from training_storage.catalog.prices import PriceBook
from training_storage.planner import Cost, FirstEpoch, plan
from training_storage.planner.cost import Parts
from training_storage.planner.cost.after_run import after_run
from training_storage.planner.cost.lines import Item, line
from training_storage.planner.model import Tiers
from training_storage.units import GIB, Duration

LUSTRE: dict[str, Any] = {
    "hot_tier": "lustre",
    "lustre": {"per_unit_storage_throughput": 125, "storage_capacity": "4800 GiB"},
}
EXPRESS: dict[str, Any] = {"hot_tier": "express", "dataset.interface": "object"}


def draft_of(prices: PriceBook, **changes: Any) -> Any:
    """Return what a line needs of a draft: the price book and the workload."""
    return SimpleNamespace(catalog=priced(prices), workload=make(changes))


def item(**quantity: float) -> Item:
    made = Item(item="kms.key", label="key", kind="storage", unit="month")
    return replace(made, **quantity)  # type: ignore[arg-type]  # the quantities alone are given


@pytest.mark.parametrize(
    ("used", "figures"),
    [
        ({"per_month": 730.0}, (730, 163, 163 * 10, 163 * 730)),
        ({"per_hour": 2.0}, (1460, 326, 3260, 163 * 1460)),
        ({"once": 5.0}, (5, 0, 815, 815)),
        ({"per_hour": 0.0}, (0, 0, 0, 0)),
    ],
)
def test_a_line_counts_an_hour_a_run_and_a_month(used: dict[str, float], figures: tuple[float, ...]) -> None:
    found = line(draft_of(book("us-east-1")), item(**used), 10.0)
    assert (found.quantity, found.hourly, found.run, found.monthly) == figures
    assert found.once is ("once" in used)
    assert found.source == "a book of tests (2026-11-30, seen)"


@pytest.mark.parametrize("used", [{"per_month": 1.0}, {"per_hour": 1.0}, {"once": 1.0}])
def test_a_run_of_unknown_length_has_no_amount(used: dict[str, float]) -> None:
    found = line(draft_of(book("us-east-1")), item(**used), None)
    assert found.run is None
    assert found.monthly is not None


def test_totals_of_a_run_of_unknown_length_are_not_those_of_what_is_paid_once() -> None:
    cost = bill(LUSTRE)
    assert any(each.once for each in cost.lines)
    assert (cost.run_h, cost.run, cost.storage_run, cost.compute_run) == (None, None, None, None)


def test_a_capacity_block_says_how_long_the_run_is() -> None:
    block = {
        "compute.purchase": "capacity-block",
        "compute.capacity_reservation_id": "cr-0123456789abcdef0",
        "compute.start": "2026-12-01T12:00:00Z",
        "compute.end": "2026-12-02T18:00:00Z",
    }
    cost = bill(block)
    assert cost.run_h == 30
    assert cost.compute_run == 4 * 30 * PRIMES["ec2-capacity-block.p5.48xlarge"]
    assert bill(block, hours=7).compute_run == 4 * 7 * PRIMES["ec2-capacity-block.p5.48xlarge"]


def tiered(usd: float, *tiers: tuple[float, float]) -> PriceBook:
    row = Price(
        item="s3.standard.storage",
        region="us-east-1",
        unit="GB-month",
        usd=usd,
        source=SOURCE,
        tiers=tuple(PriceTier(above, price) for above, price in tiers),
    )
    return PriceBook({**book("us-east-1").rows, ("us-east-1", "s3.standard.storage"): row})


def test_a_price_that_falls_with_the_quantity_counts_on_average_from_the_first_unit_of_each_line() -> None:
    catalog = priced(tiered(7.0, (1000.0, 5.0), (1500.0, 3.0)))
    cost = bill({"checkpoints": {"size": "40 GiB", "interval": "12h"}}, catalog=catalog)
    data, newest = lines(cost, "s3.standard.storage")[:2]
    gib = 2e12 / GIB
    assert data.monthly == pytest.approx(1000 * 7 + 500 * 5 + (gib - 1500) * 3)
    assert data.unit_price == pytest.approx((1000 * 7 + 500 * 5 + (gib - 1500) * 3) / gib)
    assert data.hourly == pytest.approx((data.monthly or 0) / 730)
    assert newest.unit_price == 7.0  # 160 GB: below the first border whatever the data set takes


# What is not known


def test_a_region_without_rows_has_every_line_and_no_amount() -> None:
    with_rows = bill(LUSTRE, hours=10)
    changes = LUSTRE | {"region": "eu-west-1", "availability_zone_id": "euw1-az1"}
    cost = bill(changes, hours=10)
    assert items(cost) == items(with_rows)
    assert [each.quantity for each in cost.lines] == [each.quantity for each in with_rows.lines]
    assert all(
        (each.unit_price, each.hourly, each.run, each.monthly, each.source) == (None,) * 5 for each in cost.lines
    )
    totals = (cost.storage_hourly, cost.storage_monthly, cost.compute_hourly, cost.hourly, cost.run, cost.monthly)
    assert totals == (None,) * 6
    assert cost.unpriced == tuple(dict.fromkeys(items(cost)))


def test_one_unknown_price_is_named_once_and_left_out_of_the_sums() -> None:
    whole = bill({"checkpoints": {"size": "40 GiB"}})
    cost = bill({"checkpoints": {"size": "40 GiB"}}, catalog=priced(book(*REGIONS, without=["s3.standard.storage"])))
    assert len(lines(cost, "s3.standard.storage")) > 1
    assert cost.unpriced == ("s3.standard.storage",)
    left_out = math.fsum(each.monthly or 0.0 for each in lines(whole, "s3.standard.storage"))
    assert cost.monthly == pytest.approx((whole.monthly or 0.0) - left_out)


def test_a_price_that_is_only_remembered_is_no_price() -> None:
    row = replace(CATALOG.prices.rows["us-east-1", "kms.key"], source=replace(SOURCE, trust="remembered"))
    catalog = priced(PriceBook({**CATALOG.prices.rows, ("us-east-1", "kms.key"): row}))
    assert bill(catalog=catalog).unpriced == ("kms.key",)


# After the run


def keep_and_reload(cost: Cost) -> tuple[float, float]:
    after = cost.after_run
    assert after is not None
    assert after.keep_hourly is not None
    assert after.reload_usd is not None
    return after.keep_hourly, after.reload_usd


def test_keeping_directory_buckets_costs_what_they_hold_and_reloading_what_staging_asks() -> None:
    cost = bill(EXPRESS | {"checkpoints": {"size": "40 GiB"}})
    keep, reload = keep_and_reload(cost)
    held = 2e12 / GIB + 160
    assert keep == pytest.approx(held * PRIMES["s3_express.storage"] / 730)
    assert reload == pytest.approx(
        (2000 + 2) / 1000 * PRIMES["s3_express.put_requests"]
        + 2e12 / GIB * PRIMES["s3_express.upload"]
        + 2 * PRIMES["s3_express.get_requests"]
        + 2 / 1000 * PRIMES["s3.put_requests"]
    )
    after = cost.after_run
    assert after is not None
    assert after.reload_s is None
    assert after.keep_monthly == pytest.approx(held * PRIMES["s3_express.storage"])
    assert after.break_even_h == pytest.approx(reload / keep)


FIRST = FirstEpoch(
    read_gb=1.0,
    load_mb_per_s=1.0,
    steady_s=1.0,
    first_s=1.0,
    data_wait_fraction=0.0,
    added_gpu_usd=None,
    preload_s=7200.0,
    preload_storage_usd=None,
    assumption="of this test",
)


def of_lustre(first: FirstEpoch | None, *, without: tuple[str, ...] = (), **lustre: Any) -> Any:
    """Return what happens after a run on Lustre whose prediction says how long loading takes."""
    catalog = priced(book("us-east-1", without=without))
    workload = make(LUSTRE | {"lustre": LUSTRE["lustre"] | lustre})
    made = plan(workload, catalog=catalog)
    draft: Any = SimpleNamespace(workload=workload, catalog=catalog)
    used = [
        Item(item=each.item, label="", kind=each.kind, unit=each.unit, hot=each.hot)
        if each.once
        else replace(item(per_month=each.quantity), item=each.item, hot=each.hot)
        for each in made.cost.lines
    ]
    parts = Parts(
        tiers=Tiers(data_lake=True, hot="lustre", file_access="none"),
        lustre=made.lustre,
        express=None,
        s3_files=None,
        shared_cache=None,
        mounts=(),
        prediction=replace(made.prediction, first_epoch=first),
    )
    return after_run(draft, parts, used, made.cost.lines)


def test_loading_a_file_system_again_costs_its_capacity_while_it_loads_and_the_requests() -> None:
    after = of_lustre(FIRST)
    keep = 4800 * PRIMES["lustre.PERSISTENT_2.SSD.125"] / 730
    parts = 2000 * 120
    requests = (parts + 2000) / 1000 * PRIMES["s3.get_requests"] + 2 / 1000 * PRIMES["s3.put_requests"]
    assert after.keep_hourly == pytest.approx(keep)
    assert after.reload_usd == pytest.approx(2 * keep + requests)
    assert after.reload_s == 7200
    assert after.break_even_h == pytest.approx((2 * keep + requests) / keep)


def test_of_unknown_loading_time_nothing_follows() -> None:
    after = of_lustre(None)
    assert after.keep_hourly is not None
    assert (after.reload_usd, after.reload_s, after.break_even_h) == (None, None, None)


@pytest.mark.parametrize(
    ("missing", "known"),
    [("lustre.PERSISTENT_2.SSD.125", False), ("s3.get_requests", True), ("s3.put_requests", True)],
)
def test_half_a_sum_answers_nothing(missing: str, known: bool) -> None:
    after = of_lustre(FIRST, without=(missing,))
    assert (after.keep_hourly is not None) is known
    assert (after.reload_usd, after.break_even_h) == (None, None)


def test_keeping_counts_metadata_and_backups_too() -> None:
    after = of_lustre(None, metadata_iops=24_000)
    storage = 4800 * PRIMES["lustre.PERSISTENT_2.SSD.125"] + 18_000 * PRIMES["lustre.metadata_iops"]
    assert after.keep_monthly == pytest.approx(storage)


def test_without_a_hot_tier_there_is_nothing_to_release() -> None:
    assert bill().after_run is None


def test_the_planner_gives_the_loading_time_of_its_prediction() -> None:
    made = plan(make(LUSTRE), catalog=CATALOG, run_length=Duration(3600))
    assert made.cost.after_run is not None
    first = made.prediction.first_epoch
    assert made.cost.after_run.reload_s == (None if first is None else first.preload_s)


def test_only_in_the_plan_of_unlinked_data_is_reloading_unknown() -> None:
    after = bill(LUSTRE | {"lustre": LUSTRE["lustre"] | {"links": []}}).after_run
    assert after is not None
    assert after.keep_hourly is not None
    assert (after.reload_usd, after.break_even_h) == (None, None)


def test_the_price_of_the_whole_hot_tier_is_that_of_its_lines() -> None:
    cost = bill(LUSTRE)
    keep, _ = keep_and_reload(cost)
    assert keep == only(cost, "lustre.PERSISTENT_2.SSD.125").hourly
