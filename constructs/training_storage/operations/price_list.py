"""Prices of a region from the AWS Price List, as a catalog file that a plan reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from training_storage.catalog import Catalog, default_catalog
from training_storage.errors import RefusedError
from training_storage.operations.aws import CLIENT_CONFIG, aws_errors
from training_storage.operations.price_list_answer import Found, Product, UnreadableError, find, read_product
from training_storage.operations.price_list_file import MARK, PriceFile
from training_storage.operations.price_list_items import ITEMS, NOT_ASKED, Item, Question, instance_items

if TYPE_CHECKING:
    from boto3.session import Session

_ENDPOINTS: Final = (("cn-", "cn-northwest-1"), ("eu-", "eu-central-1"), ("ap-", "ap-south-1"))
_OTHERS_ENDPOINT: Final = "us-east-1"
_WITHOUT_API: Final = ("us-iso", "eu-iso", "eusc-")
"""Regions of partitions that have no Price List API, and that no other partition lists."""

_REFUSALS: Final = frozenset({"InvalidParameterException", "NotFoundException"})
"""The question is not understood: its items stay unknown, and the others are asked all the same."""

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """One item of a refresh.

    Attributes:
        item: Name in the price book.
        unit: Unit.
        usd: Price of one unit; None where the price list gave none.
        tiers: Units of a month and the price beyond them, ascending.
        source: Where the price is from, or why there is none.
        date: ISO date of the price list; empty where the answer had none.
    """

    item: str
    unit: str
    usd: float | None
    tiers: tuple[tuple[float, float], ...]
    source: str
    date: str

    def to_row(self) -> dict[str, Any]:
        """Return the row of a catalog file."""
        source = {"text": MARK + self.source, "date": self.date, "trust": "seen"}
        tiers = [{"above": above, "usd": usd} for above, usd in self.tiers]
        return {"unit": self.unit, "usd": self.usd, **({"tiers": tiers} if tiers else {}), "source": source}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """What a refresh did.

    Attributes:
        region: Region of the prices.
        endpoint: Region of the Price List API that was asked.
        file: File that was written.
        priced: Items with a price, as written.
        unknown: Items that were written as unknown, with the reason.
        left: Items without an answer whose row in the package's price book stands, with the reason.
        kept: Items whose row in the file was written by its owner, and stays.
    """

    region: str
    endpoint: str
    file: Path
    priced: tuple[Price, ...]
    unknown: tuple[Price, ...]
    left: tuple[Price, ...]
    kept: tuple[str, ...]


def endpoint_for(region: str) -> str:
    """Return the region of the Price List API that is asked: each serves all regions of its partition.

    Raises:
        RefusedError: No Price List API has the region.
    """
    if region.startswith(_WITHOUT_API):
        message = f"the Price List API does not have {region}; fix: write its prices into a catalog file yourself"
        raise RefusedError(message)
    return next((endpoint for start, endpoint in _ENDPOINTS if region.startswith(start)), _OTHERS_ENDPOINT)


def refresh_prices(
    session: Session,
    region: str,
    file: Path,
    *,
    catalog: Catalog | None = None,
    on_question: Progress | None = None,
) -> Refresh:
    """Ask the price list for every item of the price book in a region, and write a catalog file.

    The caller needs ``pricing:GetProducts``. The file is read before the first question, and written in one step after
    the last: whoever is interrupted or refused has the file of before.

    Args:
        session: Session of the caller.
        region: Region of the prices.
        file: Catalog file, YAML or JSON by its name. Where it is there, rows of other regions and of the file's owner
            stay; those of an earlier refresh of the region do not.
        catalog: Where instance types and items come from; the package's own when left out.
        on_question: Called before each question with its number from 0, how many there are, and what is asked.

    Raises:
        CatalogError: The file is there and is no catalog file, or cannot be written.
        RefusedError: No price list has the region, or not one price was found; nothing was written.
        AwsError: AWS refused or failed; nothing was written.
    """
    endpoint = endpoint_for(region)
    target = PriceFile(file)
    kept = target.own_items(region)
    facts = catalog or default_catalog()
    items = (*ITEMS, *instance_items(facts.instance_types))
    with aws_errors("GetProducts"):
        client = session.client("pricing", region_name=endpoint, config=CLIENT_CONFIG)
        prices = [*_ask(client, region, items, on_question)]
    prices.extend(
        Price(item=name, unit=unit, usd=None, tiers=(), source=reason, date="")
        for name, (unit, reason) in NOT_ASKED.items()
    )
    priced = [price for price in prices if price.usd is not None]
    if not priced:
        reason = f"the price list gave no price for {region}: {prices[0].source}"
        raise RefusedError(f"{reason}; nothing was written; fix: check --region")
    new = [price for price in prices if price.item not in kept]
    known = facts.prices
    left = [price for price in new if price.usd is None and known.usd(price.item, region) is not None]
    written = [price for price in new if price not in left]
    target.write(region, {price.item: price.to_row() for price in written})
    return Refresh(
        region=region,
        endpoint=endpoint,
        file=file,
        priced=tuple(price for price in written if price.usd is not None),
        unknown=tuple(price for price in written if price.usd is None),
        left=tuple(left),
        kept=tuple(sorted(kept)),
    )


def _ask(client: Any, region: str, items: tuple[Item, ...], on_question: Progress | None) -> Iterator[Price]:
    """Yield the price of each item, each question asked once."""
    questions = list(dict.fromkeys(item.question for item in items))
    answers: dict[Question, tuple[tuple[Product, ...], str]] = {}
    for number, question in enumerate(questions):
        if on_question:
            on_question(number, len(questions), dict(question.filters).get("instanceType", question.service))
        answers[question] = _answer(client, region, question)
    for item in items:
        products, refusal = answers[item.question]
        found = find(item, products)
        if refusal:
            found = Found(usd=None, tiers=(), text=refusal, date="")
        yield Price(
            item=item.name, unit=item.unit, usd=found.usd, tiers=found.tiers, source=found.text, date=found.date
        )


def _answer(client: Any, region: str, question: Question) -> tuple[tuple[Product, ...], str]:
    """Return the products of all pages; or none, and why the question was refused or its answer is of no use."""
    pages = client.get_paginator("get_products").paginate(
        ServiceCode=question.service,
        Filters=question.filters_in(region),
        FormatVersion="aws_v1",
        PaginationConfig={"PageSize": 100},
    )
    try:
        return tuple(read_product(text) for page in pages for text in page.get("PriceList", ())), ""
    except UnreadableError as error:
        return (), f"{question.service}: {error}"
    except ClientError as error:
        details = error.response.get("Error", {})
        if details.get("Code") not in _REFUSALS:
            raise
        said = f"{details.get('Code')}: {details.get('Message', '')}".rstrip(": ")
        return (), f"{question.service} refused the question: {said}"
