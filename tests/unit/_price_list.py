"""A price list for tests: products in the shape that GetProducts answers with, behind botocore's Stubber."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import boto3
from botocore.stub import Stubber

from training_storage.catalog import Catalog, default_catalog
from training_storage.operations.price_list_items import ITEMS, Question, instance_items

TYPES = ("p5.48xlarge", "g6.xlarge")
CATALOG: Catalog = replace(
    default_catalog(), instance_types={name: default_catalog().instance_types[name] for name in TYPES}
)
"""The catalog with two instance types: a test of the whole would need a question for each."""

QUESTIONS: tuple[Question, ...] = tuple(dict.fromkeys(item.question for item in (*ITEMS, *instance_items(TYPES))))

Steps = Sequence[tuple[str, str, str]]
"""Begin, end and price of each tier, as the price list writes them."""


def product(
    sku: str,
    attributes: dict[str, str],
    price: str | Steps,
    unit: str,
    *,
    family: str = "Storage",
    currency: str = "USD",
    published: str = "2026-09-17T19:05:28Z",
    effective: str = "2026-09-01T00:00:00Z",
) -> str:
    """Return one entry of an answer, with a Reserved term beside the On-Demand one as EC2 has it."""
    steps: Steps = [("0", "Inf", price)] if isinstance(price, str) else price
    term = f"{sku}.JRTCKXETXF"
    dimensions = {
        f"{term}.{number}": {
            "unit": unit,
            "beginRange": begin,
            "endRange": end,
            "description": f"${usd} per {unit}",
            "appliesTo": [],
            "rateCode": f"{term}.{number}",
            "pricePerUnit": {currency: usd},
        }
        for number, (begin, end, usd) in enumerate(steps)
    }
    return json.dumps(
        {
            "product": {"productFamily": family, "attributes": attributes, "sku": sku},
            "serviceCode": "Amazon",
            "terms": {
                "OnDemand": {
                    term: {
                        "priceDimensions": dimensions,
                        "sku": sku,
                        "effectiveDate": effective,
                        "offerTermCode": "JRTCKXETXF",
                        "termAttributes": {},
                    }
                },
                "Reserved": {f"{sku}.38NPMPTW36": {"priceDimensions": {}, "sku": sku}},
            },
            "version": "20260917190528",
            "publicationDate": published,
        }
    )


def lustre(sku: str, usage: str, price: str, unit: str = "GB-Mo", family: str = "Storage", **attributes: str) -> str:
    """Return a product of FSx for Lustre."""
    given = {"usagetype": usage, "fileSystemType": "Lustre", "operation": "CreateFileSystem:Lustre", **attributes}
    return product(sku, given, price, unit, family=family)


def instance(name: str, price: str, **attributes: str) -> str:
    """Return a product of EC2."""
    given = {"instanceType": name, "operation": "RunInstances", "marketoption": "OnDemand", **attributes}
    return product(f"SKU{name.upper()}", given, price, "Hrs", family="Compute Instance")


FRANKFURT: dict[str, list[str]] = {
    "AmazonFSx": [
        lustre("L0", "EUC1-Storage", "0.168"),
        lustre("L125", "EUC1-Storage.SSD.125", "0.174", storageType="SSD", throughputCapacity="125"),
        lustre("L250", "EUC1-Storage.SSD.250", "0.252"),
        lustre("L500", "EUC1-Other", "0.408", storageType="SSD", throughputCapacity="500"),
        lustre("LIOPS", "EUC1-MetadataIOPS", "0.066", "IOPS-Mo", "Provisioned IOPS"),
        lustre("LB", "EUC1-BackupUsage", "0.06"),
    ],
    "AmazonS3": [
        product(
            "S3S",
            {"usagetype": "EUC1-TimedStorage-ByteHrs", "volumeType": "Standard"},
            [("51200", "512000", "0.0235000000"), ("512000", "Inf", "0.0225000000"), ("0", "51200", "0.0245000000")],
            "GB-Mo",
        ),
        product("S3SIA", {"usagetype": "EUC1-TimedStorage-SIA-ByteHrs"}, "0.0135", "GB-Mo"),
        product("S3T", {"usagetype": "EUC1-Tables-TimedStorage-ByteHrs"}, "0.0281", "GB-Mo"),
        product("S3P", {"usagetype": "EUC1-Requests-Tier1"}, "0.0000054000", "Requests", family="API Request"),
        product("S3G", {"usagetype": "EUC1-Requests-Tier2"}, "0.0000004300", "Requests", family="API Request"),
    ],
    "NAT Gateway": [
        product("NH", {"usagetype": "EUC1-NatGateway-Hours"}, "0.052", "Hrs", family="NAT Gateway"),
        product("NB", {"usagetype": "EUC1-NatGateway-Bytes"}, "0.052", "GB", family="NAT Gateway"),
    ],
    "AmazonVPC": [
        product("VH", {"usagetype": "EUC1-VpcEndpoint-Hours"}, "0.012", "Hrs", family="VpcEndpoint"),
        product("VG", {"usagetype": "EUC1-VpcEndpoint-GWLBE-Hours"}, "0.099", "Hrs", family="VpcEndpoint"),
        product(
            "VB",
            {"usagetype": "EUC1-VpcEndpoint-Bytes"},
            [("0", "1048576", "0.01"), ("1048576", "5242880", "0.006"), ("5242880", "Inf", "0.004")],
            "GB",
            family="VpcEndpoint",
        ),
    ],
    "awskms": [product("K", {"usagetype": "eu-central-1-KMS-Keys"}, "1.0000000000", "Keys", family="Encryption Key")],
    "AWSDataTransfer": [
        product("T", {"usagetype": "EUC1-DataTransfer-Regional-Bytes"}, "0.01", "GB", family="Data Transfer"),
        product("TX", {"usagetype": "EUC1-DataTransfer-xAZ-In-Bytes"}, "0.00", "GB", family="Data Transfer"),
    ],
    "p5.48xlarge": [instance("p5.48xlarge", "68.8000000000")],
    "g6.xlarge": [instance("g6.xlarge", "1.0061000000")],
}
"""An answer to each question by its key; prices of Frankfurt that are made up, in the shape of the price list."""


def key(question: Question) -> str:
    """Return what tells a question from the others."""
    filters = dict(question.filters)
    return filters.get("instanceType") or (
        filters["productFamily"] if question.service == "AmazonEC2" else question.service
    )


@lru_cache(maxsize=1)
def _client() -> Any:
    """Return one client for all tests: making it takes longer than a test."""
    return boto3.client(
        "pricing", region_name="eu-central-1", aws_access_key_id="testing", aws_secret_access_key="testing"
    )


_active: list[Stubber] = []
"""The stub that answers now."""


class Aws:
    """A session whose price list is stubbed; the one that was made last answers.

    Attributes:
        asked: What clients were made with.
    """

    region_name = None

    def __init__(self) -> None:
        for stub in _active:
            stub.deactivate()
        self.pricing = _client()
        self.stub = Stubber(self.pricing)
        _active[:] = [self.stub]
        self.stub.activate()
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def client(self, name: str, **options: Any) -> Any:
        """Return the client, and remember how it was asked for."""
        self.asked.append((name, options))
        return self.pricing

    def answer(
        self, region: str = "eu-central-1", answers: dict[str, list[str]] | None = None, *, page: int = 100
    ) -> Aws:
        """Let every question be answered in turn, in pages of ``page`` products."""
        given = FRANKFURT if answers is None else answers
        for question in QUESTIONS:
            self.answer_one(question, region, given.get(key(question), []), page=page)
        return self

    def answer_one(self, question: Question, region: str, products: Sequence[str], *, page: int = 100) -> None:
        """Let one question be answered."""
        pages = [products[start : start + page] for start in range(0, len(products), page)] or [[]]
        token: str | None = None
        for number, content in enumerate(pages):
            expected = expected_of(question, region, token)
            token = f"token{number}" if number + 1 < len(pages) else None
            response = {
                "FormatVersion": "aws_v1",
                "PriceList": list(content),
                **({"NextToken": token} if token else {}),
            }
            self.stub.add_response("get_products", response, expected)

    def refuse(self, code: str, *, after: Iterable[Question] = (), message: str = "no") -> Aws:
        """Let some questions be answered, and the next one refused."""
        for question in after:
            self.answer_one(question, "eu-central-1", FRANKFURT[key(question)])
        self.stub.add_client_error("get_products", service_error_code=code, service_message=message)
        return self


def expected_of(question: Question, region: str, token: str | None) -> dict[str, Any]:
    """Return the parameters of one call."""
    return {
        "ServiceCode": question.service,
        "Filters": question.filters_in(region),
        "FormatVersion": "aws_v1",
        "MaxResults": 100,
        **({"NextToken": token} if token else {}),
    }
