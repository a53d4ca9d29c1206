"""The first pass over the data, read through from S3: worked out by hand, and where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit._planner import CATALOG, make, planned
from training_storage.catalog.prices import PriceBook
from training_storage.planner import plan
from training_storage.planner.model_prediction import FirstEpoch

SIZE: dict[str, Any] = {"storage_capacity": "9600 GiB", "per_unit_storage_throughput": 250, "efa": False}
LARGE: dict[str, Any] = {**SIZE, "storage_capacity": "240000 GiB"}
SMALL: dict[str, Any] = {
    "hot_tier": "lustre",
    "lustre": SIZE,
    "dataset.file_count": None,
    "dataset.average_file_size": "100 KB",
    "dataset.read_rate": {"per_accelerator": "40 MB/s"},
}
"""2 TB in files of 100 KB, read at 1,280 MB/s; 5,500 GET a second bring 550 MB/s, the disks take 2,343.75."""

FLEET_USD = 4 * 55.04
DATASETS = {"path": "/datasets", "source": "s3://elsewhere/data/"}


def first(changes: dict[str, Any]) -> FirstEpoch:
    found = planned({**SMALL, **changes}).prediction.first_epoch
    assert found is not None
    return found


def test_small_files_come_slower_than_they_are_read() -> None:
    found = first({})
    assert (found.read_gb, found.load_mb_per_s) == pytest.approx((2000, 550))
    assert (found.steady_s, found.first_s) == pytest.approx((2e6 / 1280, 2e6 / 550))
    assert found.data_wait_fraction == pytest.approx(1 - 550 / 1280)
    assert found.added_gpu_usd == pytest.approx((2e6 / 550 - 2e6 / 1280) / 3600 * FLEET_USD)


def test_loading_ahead_costs_the_file_system_for_as_long() -> None:
    found = first({})
    # 12,800 opens a second ask for 6,400 metadata IOPS: 12,000, of which 6,000 are above AUTOMATIC.
    storage = 9600 * CATALOG.prices.rows[("us-east-1", "lustre.PERSISTENT_2.SSD.250")].usd  # type: ignore[operator]  # both are priced
    metadata = 6000 * CATALOG.prices.rows[("us-east-1", "lustre.metadata_iops")].usd  # type: ignore[operator]  # both are priced
    assert found.preload_s == pytest.approx(2e6 / 550)
    assert found.preload_storage_usd == pytest.approx(2e6 / 550 / 3600 * (storage + metadata) / 730)


@pytest.mark.parametrize(
    ("changes", "load"),
    [
        # 12 MB in two parts: requests of 6 MB; the disks take less.
        ({"dataset.average_file_size": "12 MB"}, 2343.75),
        ({"dataset.average_file_size": "400 KB"}, 2200),
        # 8 MiB and one byte make two requests of half of it.
        (
            {"dataset.average_file_size": "8388609 B", "lustre": {**SIZE, "storage_capacity": "240000 GiB"}},
            5500 * 4.1943045,
        ),
        # Files of unknown size count as full parts.
        ({"dataset.average_file_size": None, "lustre": LARGE}, 5500 * 8.388608),
        # SCRATCH_2 writes 100 MB/s per TiB, half of what it reads.
        (
            {
                "dataset.average_file_size": "1 GB",
                "lustre": {"deployment_type": "SCRATCH_2", "storage_capacity": "4800 GiB"},
            },
            468.75,
        ),
    ],
)
def test_the_assumed_rate_is_the_smaller_of_requests_and_disks(changes: dict[str, Any], load: float) -> None:
    found = first(changes)
    assert found.load_mb_per_s == pytest.approx(load)
    assert "no rate is published" in found.assumption


def test_the_assumption_is_one_of_the_plan() -> None:
    made = planned(SMALL)
    assert made.prediction.first_epoch is not None
    assert made.prediction.first_epoch.assumption in made.assumptions


def test_where_files_come_as_fast_as_they_are_read_the_first_pass_is_like_any_other() -> None:
    found = first({"dataset.average_file_size": "1 MB"})
    assert found.first_s == found.steady_s == pytest.approx(2e6 / 1280)
    assert (found.data_wait_fraction, found.added_gpu_usd) == (0, 0)


def test_a_pass_that_waits_for_the_file_system_anyway_waits_no_less() -> None:
    found = first(
        {"dataset.average_file_size": "1 GB", "dataset.read_rate": {"per_accelerator": f"{4687.5 / 32} MB/s"}}
    )
    assert found.steady_s == found.first_s == pytest.approx(2e6 / 2343.75)
    assert found.data_wait_fraction == pytest.approx(0.5)
    assert found.added_gpu_usd == 0


def test_only_what_one_run_reads_is_loaded() -> None:
    half, whole = first({"dataset.hot_fraction": 0.5}), first({})
    assert (half.read_gb, half.first_s, half.preload_s) == (1000, whole.first_s / 2, whole.preload_s / 2)


def test_unknown_prices_stay_unknown() -> None:
    found = first({"region": "eu-west-1", "availability_zone_id": "euw1-az1", "compute.purchase": "spot"})
    assert (found.added_gpu_usd, found.preload_storage_usd) == (None, None)


@pytest.mark.parametrize(
    ("changes", "there"),
    [
        ({}, True),
        ({"dataset.version": "v3"}, True),
        ({"lustre": {**SIZE, "links": [DATASETS]}, "dataset.source": "s3://elsewhere/data/"}, True),
        # A link to the whole bucket covers a prefix of it, not the other way round.
        (
            {
                "lustre": {**SIZE, "links": [{**DATASETS, "source": "s3://elsewhere/"}]},
                "dataset.source": "s3://elsewhere/data/",
            },
            True,
        ),
        ({"lustre": {**SIZE, "links": [DATASETS]}, "dataset.source": "s3://elsewhere/"}, False),
        ({"lustre": {**SIZE, "links": [DATASETS]}, "dataset.source": "s3://other/data/"}, False),
        ({"lustre": {**SIZE, "links": [DATASETS]}}, False),
        ({"lustre": {**SIZE, "links": []}}, False),
        # Listed once at creation, and never again: its files are still read through.
        (
            {
                "lustre": {**SIZE, "links": [{**DATASETS, "import": [], "import_metadata_on_create": True}]},
                "dataset.source": "s3://elsewhere/data/",
            },
            True,
        ),
        (
            {
                "lustre": {**SIZE, "links": [{**DATASETS, "import": [], "import_metadata_on_create": False}]},
                "dataset.source": "s3://elsewhere/data/",
            },
            True,  # the listing is imported by a task, which the plan names
        ),
        ({"dataset.read_rate": None}, False),
        ({"dataset.hot_fraction": 0}, False),
        ({"hot_tier": "none", "lustre": None}, False),
        ({"hot_tier": "express", "lustre": None, "dataset.interface": "object"}, False),
        ({"lustre": {"storage_type": "INTELLIGENT_TIERING", "links": []}}, False),
    ],
)
def test_only_a_link_that_covers_the_data_set_makes_a_first_pass(changes: dict[str, Any], there: bool) -> None:
    made = planned({**SMALL, **changes})
    assert (made.prediction.first_epoch is not None) is there
    loads = any(line.item == "s3.get_requests" and line.once and line.quantity > 0 for line in made.cost.lines)
    if made.tiers.hot == "lustre" and made.demand.read_mb_per_s is not None and "dataset.hot_fraction" not in changes:
        assert loads is there  # the bill takes the same way


def test_of_a_cache_without_a_price_loading_ahead_has_none() -> None:
    hdd = {
        "deployment_type": "PERSISTENT_1",
        "storage_type": "HDD",
        "per_unit_storage_throughput": 12,
        "storage_capacity": "12000 GiB",
    }
    rows = dict(CATALOG.prices.rows)
    rows["us-east-1", "lustre.PERSISTENT_1.HDD.12"] = replace(
        CATALOG.prices.rows["us-east-1", "lustre.SCRATCH_2.SSD"], item="lustre.PERSISTENT_1.HDD.12", usd=0.025
    )
    catalog = replace(CATALOG, prices=PriceBook(rows))
    found = {}
    for cache in ("none", "read"):
        made = plan(make({**SMALL, "lustre": {**hdd, "drive_cache": cache}}), catalog=catalog).prediction.first_epoch
        assert made is not None
        found[cache] = (made.preload_s, made.preload_storage_usd)
    assert found["none"][1] == pytest.approx(found["none"][0] / 3600 * 12_000 * 0.025 / 730)
    assert found["read"][1] is None


@pytest.mark.parametrize("links", [None, [DATASETS]])
def test_an_existing_file_system_has_the_links_that_are_given(links: list[dict[str, str]] | None) -> None:
    existing = {
        **SIZE,
        "file_system_id": "fs-0123456789abcdef0",
        "mount_name": "fsx",
        "security_group_id": "sg-0123456789abcdef0",
    }
    given = existing if links is None else {**existing, "links": links}
    made = plan(make({**SMALL, "lustre": given, "dataset.source": "s3://elsewhere/data/"}))
    assert (made.prediction.first_epoch is not None) is (links is not None)
    if made.prediction.first_epoch is not None:
        assert made.prediction.first_epoch.preload_storage_usd == 0  # paid whatever this job does
        assert not [line for line in made.cost.lines if line.hot and not line.once]
