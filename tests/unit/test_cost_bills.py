"""Bills that were worked out by hand from the workload files: every line with its quantity, priced by primes.

A GB of the bill has 2^30 bytes, a month 730 hours, a part of S3 8 MiB. An accelerator fails once in 50,000 hours.
"""

from __future__ import annotations

import math

import pytest

from tests.unit._cost import PRIMES, ROOT, example
from training_storage.planner import Plan

GIB = 2**30
PART = 8 * 2**20
MONTH = 730

Bill = list[tuple[str, bool, float]]
"""Item, whether it is paid once a run, quantity."""

NAT: Bill = [("nat.gateway", False, MONTH), ("vpc.public_ipv4", False, MONTH)]
ONE_ZONE: Bill = [("data_transfer.cross_zone", False, 0)]
KEY: Bill = [("kms.key", False, 1)]


def llama3_70b() -> Bill:
    files, checkpoint = 30e12 / 256e6, 70e9 * 14
    promoted_a_month = 2 * MONTH / 10  # a save each half hour, each tenth a key version
    return [
        ("lustre.PERSISTENT_2.SSD.500", False, 67_200),
        ("s3.get_requests", True, files * (31 + 1) / 1000),  # 256 MB are 31 parts; one HEAD
        ("s3.put_requests", True, files / 1000 / 1000),  # LIST answers with 1,000 keys
        ("s3.standard.storage", False, 30e12 / GIB),
        ("s3.standard.storage", False, promoted_a_month * checkpoint / GIB),
        ("s3.put_requests", False, promoted_a_month * math.ceil(checkpoint / PART) / 1000),
        *KEY,
        *ONE_ZONE,
        *NAT,
        ("ec2.p5en.48xlarge", False, 64 * MONTH),
    ]


def vision_small_files() -> Bill:
    files = 1.3e9
    return [
        ("lustre.PERSISTENT_2.SSD.250", False, 172_800),
        # 256 H100 x 1,100 samples a second at 2 opens per IOPS: 140,800, in steps of 12,000; AUTOMATIC has 84,000.
        ("lustre.metadata_iops", False, 144_000 - 84_000),
        ("s3.get_requests", True, 2 * files / 1000),
        ("s3.put_requests", True, files / 1000 / 1000),
        ("s3.standard.storage", False, 143e12 / GIB),
        ("s3.standard.storage", False, MONTH / 10 * 60),
        ("s3.put_requests", False, MONTH / 10 * 60 * 128 / 1000),  # 60 GiB in parts of 8 MiB
        *KEY,
        *ONE_ZONE,
        *NAT,
        ("ec2.p5.48xlarge", False, 32 * MONTH),
    ]


def existing_everything() -> Bill:
    """The file system, the key, the VPC and the cache are there already; the lake is theirs, and its data counts."""
    files = 2e12 / 800e3
    promoted_a_month = 2 * MONTH / 10
    return [
        ("s3.get_requests", True, 2 * files / 1000),
        ("s3.put_requests", True, files / 1000 / 1000),
        ("s3.standard.storage", False, 2e12 / GIB),
        ("s3.standard.storage", False, promoted_a_month * 200),
        ("s3.put_requests", False, promoted_a_month * 200 * 128 / 1000),
        *ONE_ZONE,
        ("ec2.p5.48xlarge", False, 20 * MONTH),
    ]


def express_cache() -> Bill:
    files, gib = 2e12 / 200e3, 2e12 / GIB
    opens = 8 * 8 * 30 * 3600 * MONTH  # samples of 64 accelerators in a month, one a file
    refills = MONTH / (7 * 24)
    return [
        ("s3_express.storage", False, gib),
        ("s3_express.put_requests", True, files / 1000),
        ("s3_express.upload", True, gib),
        ("s3_express.put_requests", False, files * refills / 1000),
        ("s3_express.upload", False, gib * refills),
        ("s3_express.get_requests", False, opens / 1000),
        ("s3_express.retrieval", False, opens * 200e3 / GIB),
        ("s3.get_requests", True, files / 1000),
        ("s3.get_requests", False, files * refills / 1000),
        ("s3.get_requests", False, opens / 1000),  # HEAD
        ("s3.put_requests", False, opens / 1000),  # LIST
        ("s3.standard.storage", False, gib),
        ("s3.standard.storage", False, 4 * 2),
        ("s3.standard.storage", False, MONTH / 10 * 2),
        ("s3.standard.storage", False, MONTH * 0.9 * 2 * 30 * 24 / MONTH),  # pruned versions stay 30 days
        ("s3.put_requests", False, MONTH * 256 / 1000),
        ("s3.get_requests", False, 64 / 50_000 * MONTH * 256 / 1000),
        *KEY,
        *ONE_ZONE,
        *NAT,
        ("ec2.g6e.48xlarge", False, 8 * MONTH),
    ]


def legacy_nfs_finetune() -> Bill:
    files, checkpoint = 3e12 / 20e6, 8e9 * 14
    requests = 32 * 40e6 / 20e6 * (1 + 3) * 3600 * MONTH  # 32 L40S; a file of 20 MB: an open and 3 parts
    saves = MONTH / 6
    parts = math.ceil(checkpoint / PART)
    return [
        ("s3_files.write", True, files * 4096 / GIB),
        ("s3_files.read", False, requests * 4096 / GIB),
        ("s3.get_requests", False, requests / 1000),
        ("s3.standard.storage", False, 3e12 / GIB),
        ("s3.standard.storage", False, 4 * checkpoint / GIB),
        ("s3.standard.storage", False, saves / 10 * checkpoint / GIB),
        ("s3.standard.storage", False, saves * 0.9 * checkpoint / GIB * 30 * 24 / MONTH),
        ("s3.put_requests", False, saves * parts / 1000),
        ("s3.get_requests", False, 32 / 50_000 * MONTH * parts / 1000),
        *KEY,
        *ONE_ZONE,
        *NAT,
        ("ec2.g6e.48xlarge", False, 4 * MONTH),
    ]


def lora_finetune() -> Bill:
    files = 800e9 / 200e6
    opens = 16 * 60e6 / 200e6 * 3600 * MONTH
    saves = 4 * MONTH
    return [
        ("s3.get_requests", True, 2 * files * 24 / 1000),  # two nodes, 24 parts a file
        ("s3.get_requests", False, opens / 1000),
        ("s3.put_requests", False, opens / 1000),
        ("s3.standard.storage", False, 800e9 / GIB),
        ("s3.standard.storage", False, 4 * 4),
        ("s3.standard.storage", False, saves / 10 * 4),
        ("s3.standard.storage", False, saves * 0.9 * 4 * 30 * 24 / MONTH),
        ("s3.put_requests", False, saves * 512 / 1000),
        ("s3.get_requests", False, 16 / 50_000 * MONTH * 512 / 1000),
        *KEY,
        *NAT,
        ("ec2.g6e.48xlarge", False, 2 * MONTH),
    ]


def china_finetune() -> Bill:
    files = 300e9 / 100e6
    opens = 16 * 25e6 / 100e6 * 3600 * MONTH
    saves = 3 * MONTH
    return [
        ("s3.get_requests", True, 4 * files * 12 / 1000),
        ("s3.get_requests", False, opens / 1000),
        ("s3.put_requests", False, opens / 1000),
        ("s3.standard.storage", False, 300e9 / GIB),
        ("s3.standard.storage", False, 4 * 2),
        ("s3.standard.storage", False, saves / 10 * 2),
        ("s3.standard.storage", False, saves * 0.9 * 2 * 30 * 24 / MONTH),
        ("s3.put_requests", False, saves * 256 / 1000),
        ("s3.get_requests", False, 16 / 50_000 * MONTH * 256 / 1000),
        *KEY,
        *NAT,
        ("ec2.g4dn.12xlarge", False, 4 * MONTH),
    ]


def object_native_2048() -> Bill:
    files, checkpoint = 80e12 / (256 * 2**20), 405e9 * 14
    read = 2048 * 20e6 * 3600 * MONTH
    saves, parts = 2 * MONTH, math.ceil(checkpoint / PART)
    restored = 2048 / 50_000 * MONTH * 2  # two readers
    return [
        ("s3_express.storage", False, (80e12 + 4 * checkpoint) / GIB),
        ("s3_express.put_requests", True, (files + files / 1000) / 1000),  # one COPY a file up to 1 GiB, and a LIST
        ("s3_express.upload", True, 80e12 / GIB),
        ("s3_express.get_requests", True, files / 1000),
        ("s3.put_requests", True, files / 1000 / 1000),
        ("s3_express.get_requests", False, (read / (256 * 2**20) * 33 + restored * parts) / 1000),
        ("s3_express.put_requests", False, saves * parts / 1000),
        ("s3_express.upload", False, saves * checkpoint / GIB),
        ("s3_express.retrieval", False, (read + (restored + saves / 10) * checkpoint) / GIB),
        ("s3.standard.storage", False, 80e12 / GIB),
        ("s3.standard.storage", False, saves / 10 * checkpoint / GIB),
        ("s3.put_requests", False, saves / 10 * math.ceil(checkpoint / (256 * 2**20)) / 1000),
        *KEY,
        *ONE_ZONE,
        *NAT,
        ("ec2.p5en.48xlarge", False, 256 * MONTH),
    ]


EXAMPLES = {
    "llama3-70b": llama3_70b,
    "vision-small-files": vision_small_files,
    "existing-everything": existing_everything,
    "express-cache": express_cache,
    "legacy-nfs-finetune": legacy_nfs_finetune,
    "lora-finetune": lora_finetune,
    "china-finetune": china_finetune,
    "object-native-2048": object_native_2048,
}
HOURS = 300.0


@pytest.fixture(scope="module")
def plans() -> dict[str, Plan]:
    return {name: example(name, hours=HOURS) for name in EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_line_is_the_one_worked_out_by_hand(name: str, plans: dict[str, Plan]) -> None:
    cost, wanted = plans[name].cost, EXAMPLES[name]()
    assert [(line.item, line.once) for line in cost.lines] == [(item, once) for item, once, _ in wanted]
    for line, (item, _, quantity) in zip(cost.lines, wanted, strict=True):
        assert line.quantity == pytest.approx(quantity, rel=1e-9), item


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_amount_is_the_quantity_at_the_prime_of_its_item(name: str, plans: dict[str, Plan]) -> None:
    cost, wanted = plans[name].cost, EXAMPLES[name]()
    month = hour = run = 0.0
    for line, (item, once, quantity) in zip(cost.lines, wanted, strict=True):
        usd = quantity * PRIMES[item]
        an_hour = 0.0 if once else usd / MONTH
        a_run = usd if once else an_hour * HOURS
        assert line.monthly == pytest.approx(usd, rel=1e-9), item
        assert line.hourly == pytest.approx(an_hour, rel=1e-9), item
        assert line.run == pytest.approx(a_run, rel=1e-9), item
        month, hour, run = month + usd, hour + an_hour, run + a_run
    assert (cost.monthly, cost.hourly, cost.run) == pytest.approx((month, hour, run), rel=1e-9)
    assert cost.unpriced == ()


def test_every_example_has_its_bill() -> None:
    files = sorted(path.stem for path in (ROOT / "examples").glob("*.yaml"))
    assert files == sorted(EXAMPLES)


def test_what_ends_with_the_hot_tier(plans: dict[str, Plan]) -> None:
    llama = [line.item for line in plans["llama3-70b"].cost.lines if line.hot]
    assert llama == ["lustre.PERSISTENT_2.SSD.500", "s3.get_requests", "s3.put_requests"]
    express = {line.item for line in plans["object-native-2048"].cost.lines if line.hot}
    assert {each for each in express if not each.startswith("s3_express.")} == {"s3.put_requests"}
    assert not [line for line in plans["lora-finetune"].cost.lines if line.hot]
