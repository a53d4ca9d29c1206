"""The page of the bill has every item that a bill can have, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.unit._cost import ROOT, bill, example
from tests.unit.test_cost_bills import EXAMPLES
from training_storage.catalog import load_catalog

LUSTRE: list[dict[str, Any]] = [
    {"storage_type": "HDD", "per_unit_storage_throughput": 12, "storage_capacity": "6000 GiB", "drive_cache": "read"},
    {"deployment_type": "SCRATCH_2"},
    {"links": [], "backup_retention_days": 7, "metadata_iops": 192_000},
    {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 4000, "links": [], "read_cache": "proportional"},
    {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 4000, "links": [], "read_cache": "100 GiB"},
]
OTHERS: list[dict[str, Any]] = [
    {"network.internet": "none"},
    {"compute.purchase": "spot"},
    {
        "compute.purchase": "capacity-block",
        "compute.capacity_reservation_id": "cr-0123456789abcdef0",
        "compute.start": "2026-12-01T12:00:00Z",
        "compute.end": "2026-12-02T18:00:00Z",
    },
    {"hot_tier": "none", "file_access": "s3-files", "dataset.file_count": None, "dataset.average_file_size": "20 KB"},
]
PAGE = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")


def named() -> set[str]:
    """Return the items in the first column of every table."""
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    return {item for cell in cells for item in re.findall(r"`([^`]+)`", cell)}


def general(item: str) -> str:
    """Return an item as the page writes it."""
    if item.startswith("ec2"):
        return f"{item.partition('.')[0]}.{{type}}"
    tier = re.fullmatch(r"lustre\.\w+\.(?:SSD|HDD)\.\d+", item)
    return "lustre.{deployment}.{storage}.{tier}" if tier else item


def test_the_page_has_every_item_of_a_bill_and_no_other() -> None:
    bills = [example(name).cost for name in EXAMPLES]
    bills += [bill({"hot_tier": "lustre", "lustre": lustre}) for lustre in LUSTRE] + [bill(each) for each in OTHERS]
    found = {general(line.item) for cost in bills for line in cost.lines}
    assert found == named()


def test_the_price_of_the_page_is_one_that_a_catalog_takes(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "my-prices.yaml"
    file.write_text(block, encoding="utf-8")
    assert load_catalog(file).prices.usd("ec2-spot.p5.48xlarge", "us-east-1") == 21.5
