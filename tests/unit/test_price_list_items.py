"""The table of items, and the price of an item among products: what fits, and what stays unknown."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit._price_list import FRANKFURT, instance, key, lustre, product
from training_storage.catalog import default_catalog
from training_storage.operations.price_list_answer import (
    Found,
    Product,
    UnreadableError,
    find,
    rate_of,
    read_product,
)
from training_storage.operations.price_list_items import ITEMS, NOT_ASKED, Item, instance_items

BOOK = default_catalog().prices
BY_NAME = {item.name: item for item in (*ITEMS, *instance_items(["p5.48xlarge"]))}


def look(name: str, *entries: str) -> Found:
    return find(BY_NAME[name], [read_product(entry) for entry in entries])


class TestTable:
    def test_every_item_of_the_book_is_asked_for_or_said_not_to_be(self) -> None:
        book = {item for _, item in BOOK.rows if not item.startswith("ec2.")}
        assert {item.name for item in ITEMS} | set(NOT_ASKED) == book
        assert not {item.name for item in ITEMS} & set(NOT_ASKED)

    @pytest.mark.parametrize("item", ITEMS, ids=lambda item: item.name)
    def test_units_are_those_of_the_book(self, item: Item) -> None:
        row = BOOK.price(item.name, "us-east-1")
        assert row is not None
        assert item.unit == row.unit

    @pytest.mark.parametrize("name", NOT_ASKED)
    def test_units_of_what_is_not_asked_for_are_those_of_the_book(self, name: str) -> None:
        row = BOOK.price(name, "us-east-1")
        assert row is not None
        assert NOT_ASKED[name][0] == row.unit

    @pytest.mark.parametrize("item", BY_NAME.values(), ids=BY_NAME.keys())
    def test_every_question_is_of_one_region_by_exact_values(self, item: Item) -> None:
        filters = item.question.filters_in("ap-south-2")
        assert {"Type": "TERM_MATCH", "Value": "ap-south-2"}.items() <= filters[0].items()
        assert all(each["Type"] == "TERM_MATCH" for each in filters)

    def test_few_questions_serve_all_items_but_instances(self) -> None:
        assert len({item.question for item in ITEMS}) == 7

    def test_an_instance_is_linux_on_demand_on_shared_hardware(self) -> None:
        (item,) = instance_items(["p5en.48xlarge"])
        assert dict(item.question.filters) == {
            "regionCode": "{region}", "instanceType": "p5en.48xlarge", "operatingSystem": "Linux", "tenancy": "Shared",
            "preInstalledSw": "NA", "capacitystatus": "Used",
        }  # fmt: skip

    def test_the_page_names_each_item_with_its_service(self) -> None:
        page = (Path(__file__).resolve().parents[2] / "docs" / "prices.md").read_text(encoding="utf-8")
        table = page.partition("## What is asked")[2]
        said: dict[str, str] = {}
        for line in table.splitlines():
            if line.startswith("| `"):
                names, service, *_ = line.strip("|").split(" | ")
                said |= dict.fromkeys(re.findall(r"`([^`]+)`", names), service.strip(" `"))
        assert said == {item.name: item.question.service for item in ITEMS} | dict.fromkeys(NOT_ASKED, "none")


class TestFind:
    @pytest.mark.parametrize(
        ("name", "entry", "usd"),
        [
            ("lustre.SCRATCH_2.SSD", lustre("A", "USW2-Storage", "0.1400000000"), 0.14),
            ("lustre.PERSISTENT_1.SSD.200", lustre("A", "USW2-Storage.SSD.200", "0.2900000000"), 0.29),
            ("lustre.PERSISTENT_2.SSD.1000", lustre("A", "USE1-Storage.SSD.1000", "0.6"), 0.6),
            ("lustre.PERSISTENT_2.SSD.500",
             lustre("A", "any", "0.34", storageType="SSD", throughputCapacity="500 MB/s/TiB"), 0.34),
            ("lustre.PERSISTENT_1.HDD.12", lustre("A", "any", "0.025", storageType="HDD", throughputCapacity="12"),
             0.025),
            ("lustre.metadata_iops", lustre("A", "any", "0.055", "IOPS-Mo", "Provisioned IOPS"), 0.055),
            ("lustre.PERSISTENT_2.INTELLIGENT_TIERING.throughput",
             lustre("A", "any", "0.52", "MiBps-Mo", "Provisioned Throughput"), 0.52),
            ("lustre.backup", lustre("A", "USE1-BackupUsage", "0.05"), 0.05),
            ("s3.get_requests", product("A", {"usagetype": "Requests-Tier2"}, "0.0000004000", "Requests"), 0.0004),
            ("s3.put_requests", product("A", {"usagetype": "Requests-Tier1"}, "0.0000050000", "Requests"), 0.005),
            ("s3_express.put_requests", product("A", {"usagetype": "Requests-XZ-Tier1"}, "0.00000113", "Requests"),
             0.00113),
            ("s3_express.storage", product("A", {"usagetype": "USE2-TimedStorage-XZ-ByteHrs"}, "0.11", "GB-Mo"), 0.11),
            ("s3_express.upload", product("A", {"usagetype": "Upload-XZ"}, "0.0032", "GB"), 0.0032),
            ("nat.gateway", product("A", {"usagetype": "NatGateway-Hours"}, "0.045", "Hrs"), 0.045),
            ("vpc.interface_endpoint", product("A", {"usagetype": "USE1-VpcEndpoint-Hours"}, "0.01", "Hrs"), 0.01),
            ("kms.key", product("A", {"usagetype": "us-east-1-KMS-Keys"}, "1.0000000000", "Keys"), 1.0),
            ("data_transfer.cross_zone",
             product("A", {"usagetype": "DataTransfer-Regional-Bytes"}, "0.0100000000", "GB"), 0.01),
            ("ec2.p5.48xlarge", instance("p5.48xlarge", "55.0400000000"), 55.04),
            ("ec2.p5.48xlarge", product("A", {"operation": "RunInstances"}, "55.04", "Hrs",
                                        family="Compute Instance (bare metal)"), 55.04),
        ],
    )  # fmt: skip
    def test_names_of_the_price_list(self, name: str, entry: str, usd: float) -> None:
        found = look(name, entry)
        assert (found.usd, found.tiers) == (usd, ())
        assert found.date == "2026-09-17"
        assert "SKU" in found.text
        assert "effective 2026-09-01" in found.text

    @pytest.mark.parametrize(
        ("name", "entry"),
        [
            ("lustre.PERSISTENT_2.SSD.125", lustre("A", "USE1-Storage.SSD.1250", "0.1")),
            ("lustre.PERSISTENT_2.SSD.125", lustre("A", "USE1-Storage.HDD.125", "0.1")),
            ("lustre.PERSISTENT_2.SSD.125", lustre("A", "x", "0.1", storageType="SSD", throughputCapacity="1250")),
            ("lustre.PERSISTENT_2.SSD.125", lustre("A", "x", "0.1", storageType="HDD", throughputCapacity="125")),
            ("lustre.SCRATCH_2.SSD", lustre("A", "USE1-Storage.SSD.50", "0.1")),
            ("s3.standard.storage", product("A", {"usagetype": "TimedStorage-SIA-ByteHrs"}, "0.1", "GB-Mo")),
            ("s3.standard.storage", product("A", {"usagetype": "USE1-Tables-TimedStorage-ByteHrs"}, "1", "GB-Mo")),
            ("s3.get_requests", product("A", {"usagetype": "Requests-SIA-Tier2"}, "0.1", "Requests")),
            ("nat.gateway", product("A", {"usagetype": "NatGateway-Prvd-Hours"}, "0.1", "Hrs")),
            ("vpc.interface_endpoint", product("A", {"usagetype": "USE1-VpcEndpoint-GWLBE-Hours"}, "0.1", "Hrs")),
            ("kms.key", product("A", {"usagetype": "us-east-1-KMS-Requests"}, "0.1", "Keys")),
            ("data_transfer.cross_zone", product("A", {"usagetype": "USE1-DataTransfer-xAZ-In-Bytes"}, "0.1", "GB")),
            ("ec2.p5.48xlarge", instance("p5.48xlarge", "1", operation="RunInstances:0010")),
            ("ec2.p5.48xlarge", instance("p5.48xlarge", "1", marketoption="CapacityBlock")),
        ],
    )  # fmt: skip
    def test_names_that_are_only_alike_are_no_price(self, name: str, entry: str) -> None:
        found = look(name, entry)
        assert (found.usd, found.tiers) == (None, ())
        assert "no product of" in found.text

    def test_no_product_at_all(self) -> None:
        assert look("nat.gateway") == Found(None, (), "no product of AmazonEC2 fits", "")

    def test_several_prices_are_unknown_and_named(self) -> None:
        found = look(
            "lustre.PERSISTENT_2.SSD.125",
            lustre("B", "USE1-Storage.SSD.125", "0.145"),
            lustre("A", "x", "0.15", storageType="SSD", throughputCapacity="125"),
        )
        assert found.usd is None
        assert found.text == "2 products of AmazonFSx fit and their prices differ: A at 0.15 USD, B at 0.145 USD"

    def test_several_products_of_one_price_are_one_price_and_all_named(self) -> None:
        entries = [product(sku, {"usagetype": "Requests-Tier1"}, "0.000005", "Requests") for sku in ("B", "A")]
        found = look("s3.put_requests", *entries)
        assert found.usd == 0.005
        assert found.text.startswith("AmazonS3, SKU A, B")

    def test_one_sku_at_two_prices_has_none(self) -> None:
        entries = [product("A", {"usagetype": "NatGateway-Hours"}, price, "Hrs") for price in ("0.045", "0.052")]
        assert look("nat.gateway", *entries).usd is None
        assert look("nat.gateway", entries[0], entries[0]).text.startswith("AmazonEC2, SKU A, effective")

    def test_products_that_differ_only_in_a_later_tier_differ(self) -> None:
        tiers = [[("0", "10", "0.02"), ("10", "Inf", last)] for last in ("0.01", "0.015")]
        entries = [
            product(str(number), {"usagetype": "TimedStorage-ByteHrs"}, steps, "GB-Mo")
            for number, steps in enumerate(tiers)
        ]
        assert look("s3.standard.storage", *entries).usd is None

    def test_the_order_of_the_answer_changes_nothing(self) -> None:
        entries = [lustre(sku, "USE1-Storage.SSD.125", price) for sku, price in zip("ABC", "123", strict=True)]
        assert look("lustre.PERSISTENT_2.SSD.125", *entries) == look("lustre.PERSISTENT_2.SSD.125", *entries[::-1])

    def test_a_product_at_0_usd_is_not_the_price(self) -> None:
        free, paid = instance("p5.48xlarge", "0.0000000000"), instance("p5.48xlarge", "55.04")
        assert look("ec2.p5.48xlarge", free, paid.replace("SKUP5", "SKUPAID")).usd == 55.04
        found = look("ec2.p5.48xlarge", free)
        assert found.usd is None
        assert "0 USD only" in found.text

    def test_tiers_in_any_order(self) -> None:
        entries = FRANKFURT["AmazonS3"]
        found = look("s3.standard.storage", *entries)
        assert (found.usd, found.tiers) == (0.0245, ((51_200, 0.0235), (512_000, 0.0225)))

    def test_tiers_of_requests_are_counted_in_the_unit_of_the_book(self) -> None:
        steps = [("0", "1000000000", "0.0000004"), ("1000000000", "Inf", "0.0000003")]
        found = look("s3.get_requests", product("A", {"usagetype": "Requests-Tier2"}, steps, "Requests"))
        assert (found.usd, found.tiers) == (0.0004, ((1_000_000, 0.0003),))

    @pytest.mark.parametrize(
        ("entry", "reason"),
        [
            (product("A", {"usagetype": "NatGateway-Hours"}, "1", "Quantity"), "sold by Quantity"),
            (product("A", {"usagetype": "NatGateway-Hours"}, "1", "Hrs", currency="CNY"), "priced in CNY"),
            (product("A", {"usagetype": "NatGateway-Hours"}, [("1", "Inf", "1")], "Hrs"), "do not join"),
            (product("A", {"usagetype": "NatGateway-Hours"}, [("0", "5", "1")], "Hrs"), "do not join"),
            (product("A", {"usagetype": "NatGateway-Hours"}, [("0", "5", "1"), ("6", "Inf", "1")], "Hrs"),
             "do not join"),
            (product("A", {"usagetype": "NatGateway-Hours"}, [("0", "Inf", "1"), ("0", "Inf", "2")], "Hrs"),
             "do not join"),
            (product("A", {"usagetype": "NatGateway-Hours"}, [], "Hrs"), "no currency"),
            (product("A", {"usagetype": "NatGateway-Hours"}, "-1", "Hrs"), "not a number from 0"),
            (product("A", {"usagetype": "NatGateway-Hours"}, "NaN", "Hrs"), "not a number from 0"),
            (product("A", {"usagetype": "NatGateway-Hours"}, "cheap", "Hrs"), "cannot be read"),
            (product("A", {"usagetype": "NatGateway-Hours"}, "1E+400", "Hrs"), "not a number from 0"),
            (product("A", {"usagetype": "NatGateway-Hours"}, "1E-13", "Hrs"), "not a number from 0"),
            (product("A", {"usagetype": "NatGateway-Hours"}, [("0", "1E+400", "1"), ("1E+400", "Inf", "2")], "Hrs"),
             "beyond all reason"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_taken_for_a_price_is_unknown_with_its_reason(self, entry: str, reason: str) -> None:
        found = look("nat.gateway", entry)
        assert (found.usd, found.tiers) == (None, ())
        assert reason in found.text
        assert found.date == "2026-09-17"

    @pytest.mark.parametrize("terms", [{}, {"OnDemand": {}}, {"OnDemand": {"a": {}, "b": {}}}, {"OnDemand": {"a": 3}}])
    def test_terms_that_are_not_one(self, terms: dict[str, Any]) -> None:
        entry = {**json.loads(product("A", {"usagetype": "NatGateway-Hours"}, "1", "Hrs")), "terms": terms}
        assert look("nat.gateway", json.dumps(entry)).usd is None

    @pytest.mark.parametrize("entry", ["", "3", "{}", '{"product": {}}', '{"product": {"sku": "A", "attributes": 3}}'])
    def test_an_entry_that_is_no_product(self, entry: str) -> None:
        with pytest.raises(UnreadableError):
            read_product(entry)

    def test_without_a_date_of_publication_the_effective_date_stands(self) -> None:
        entry = json.loads(product("A", {"usagetype": "NatGateway-Hours"}, "1", "Hrs"))
        del entry["publicationDate"]
        assert look("nat.gateway", json.dumps(entry)).date == "2026-09-01"


NAMES = st.sampled_from(list(BY_NAME))
USAGES = st.sampled_from(
    ["Storage", "Storage.SSD.125", "USE1-Storage.SSD.250", "TimedStorage-ByteHrs", "Requests-Tier1", "Requests-Tier2",
     "NatGateway-Hours", "NatGateway-Bytes", "USE1-VpcEndpoint-Bytes", "us-east-1-KMS-Keys", "Upload-XZ", "other"]
)  # fmt: skip
PRICES = st.decimals(0, 100, places=6).map(str)


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    bounds = sorted(draw(st.sets(st.integers(1, 10**6), max_size=3)))
    ends = [*map(str, bounds), draw(st.sampled_from(["Inf", "Inf", "Inf", "7"]))]
    return [(begin, end, draw(PRICES)) for begin, end in zip(["0", *map(str, bounds)], ends, strict=True)]


ENTRIES = st.builds(
    lambda sku, usage, price, unit, family: product(
        sku,
        {"usagetype": usage, "storageType": "SSD", "throughputCapacity": "125", "operation": "RunInstances"},
        price,
        unit,
        family=family,
    ),
    st.sampled_from("ABCD"),
    USAGES,
    PRICES | steps(),
    st.sampled_from(["GB-Mo", "Hrs", "GB", "Requests", "Keys", "IOPS-Mo"]),
    st.sampled_from(["Storage", "Compute Instance", "Provisioned IOPS", "NAT Gateway"]),
)


@given(name=NAMES, entries=st.lists(ENTRIES, max_size=6))
def test_a_price_is_one_that_the_answer_holds_and_the_only_one(name: str, entries: list[str]) -> None:
    item, products = BY_NAME[name], [read_product(entry) for entry in entries]
    found = find(item, products)
    if found.usd is None:
        assert found.tiers == ()
        return
    named = re.search(r"SKU ([A-D, ]+?)(?:, effective|$)", found.text)
    assert named is not None
    told = [entry for entry in products if entry.sku in named[1].split(", ") and paid(entry, item)]
    assert told
    for entry in told:
        (_, first), *rest = rate_of(entry).steps
        assert found.usd == float(first * item.times)
        assert found.tiers == tuple((float(begin / item.times), float(usd * item.times)) for begin, usd in rest)


def paid(entry: Product, item: Item) -> bool:
    """Whether a product fits by its own attributes alone and costs something."""
    fits = any(
        all(re.fullmatch(pattern, entry.attributes.get(name, "")) for name, pattern in wanted.items())
        for wanted in item.attributes
    )
    return fits and any(usd > Decimal(0) for _, usd in rate_of(entry).steps)


def test_every_key_of_the_answers_is_a_question() -> None:
    questions = {item.question for item in (*ITEMS, *instance_items(["p5.48xlarge", "g6.xlarge"]))}
    assert {key(question) for question in questions} == set(FRANKFURT)
