"""What the AWS Price List answered: products, and the price of an item among them, or why there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from training_storage.operations.price_list_items import Item

_MOST_USD = 100_000
_LEAST_USD = Decimal("0.000000000001")
_MOST_UNITS = Decimal(10) ** 18
"""Nothing that is sold by a unit costs more or less; beyond them stands an error."""


class UnreadableError(Exception):
    """A product from which no price can be taken; the text says why, for the source of a row."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product of an answer.

    Attributes:
        sku: SKU.
        attributes: Attributes, with the product family among them.
        published: ISO date on which the price list was published; empty where the answer has none.
        terms: On-Demand terms as AWS writes them.
    """

    sku: str
    attributes: Mapping[str, str]
    published: str
    terms: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rate:
    """The price of a product.

    Attributes:
        steps: Units from which on a price holds, from 0, and that price in USD, ascending.
        unit: Unit of the price list.
        effective: ISO date from which on it holds; empty where the answer has none.
    """

    steps: tuple[tuple[Decimal, Decimal], ...]
    unit: str
    effective: str


@dataclass(frozen=True, slots=True)
class Found:
    """What the price list says on one item.

    Attributes:
        usd: Price of one unit of the price book, the first ones where there are tiers; None where there is no price.
        tiers: Units of the price book and the price beyond them.
        text: Where the price is from, or why there is none.
        date: ISO date of the price list; empty where the answer has none.
    """

    usd: float | None
    tiers: tuple[tuple[float, float], ...]
    text: str
    date: str


def read_product(text: str) -> Product:
    """Read one entry of an answer.

    Raises:
        UnreadableError: It is no product.
    """
    try:
        given = json.loads(text)
        product = given["product"]
        attributes = {str(key): str(value) for key, value in product["attributes"].items()}
        attributes["productFamily"] = str(product.get("productFamily", ""))
        sku, terms = str(product["sku"]), (given.get("terms") or {}).get("OnDemand") or {}
        published = _date(given.get("publicationDate"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableError("an entry of the answer is no product") from error
    if not isinstance(terms, dict):
        raise UnreadableError(f"the terms of SKU {sku} cannot be read")
    return Product(sku, attributes, published, terms)


def rate_of(product: Product) -> Rate:
    """Return the one On-Demand price of a product.

    Raises:
        UnreadableError: It has none, more than one, or one that is not in USD.
    """
    sku = product.sku
    if len(product.terms) != 1:
        raise UnreadableError(f"SKU {sku} has {len(product.terms)} On-Demand terms, not one")
    (term,) = product.terms.values()
    try:
        dimensions = list(term["priceDimensions"].values())
        units = {str(dimension["unit"]) for dimension in dimensions}
        currencies = {str(currency) for dimension in dimensions for currency in dimension["pricePerUnit"]}
        if currencies != {"USD"}:
            named = ", ".join(sorted(currencies)) or "no currency"
            raise UnreadableError(f"SKU {sku} is priced in {named}, not in USD alone")
        ranges = sorted(
            (
                Decimal(str(dimension["beginRange"])),
                str(dimension["endRange"]),
                Decimal(str(dimension["pricePerUnit"]["USD"])),
            )
            for dimension in dimensions
        )
    except (KeyError, TypeError, AttributeError, InvalidOperation) as error:
        raise UnreadableError(f"the price of SKU {sku} cannot be read") from error
    if len(units) != 1:
        raise UnreadableError(f"the price of SKU {sku} is in {len(units)} units, not one")
    ends = [end for _, end, _ in ranges]
    begins = [str(begin.normalize()) for begin, _, _ in ranges]
    if begins[0] != "0" or ends[-1] != "Inf" or [_plain(end) for end in ends[:-1]] != begins[1:]:
        raise UnreadableError(f"the tiers of SKU {sku} do not join")
    if any(begin > _MOST_UNITS for begin, _, _ in ranges):
        raise UnreadableError(f"the tiers of SKU {sku} begin beyond all reason")
    if any(not price.is_finite() or (price and not _LEAST_USD <= price <= _MOST_USD) for _, _, price in ranges):
        raise UnreadableError(f"the price of SKU {sku} is not a number from 0 that a price can be")
    steps = tuple((begin, price) for begin, _, price in ranges)
    return Rate(steps, units.pop(), _date(term.get("effectiveDate")))


def find(item: Item, products: Iterable[Product]) -> Found:
    """Return the price of an item among the products of its question.

    There is one where all products that fit have the same price; products at 0 USD are left out, since nothing of the
    price book is free: they stand for what is billed elsewhere.
    """
    service = item.question.service
    asked = tuple(products)
    fitting = [product for product in asked if _fits(item, product)]
    published = max((product.published for product in fitting or asked), default="")
    if not fitting:
        return _none(f"no product of {service} fits", published)
    rates: list[tuple[str, Rate]] = []  # one SKU may be there twice, at two prices
    try:
        for product in fitting:
            rate = rate_of(product)
            if not re.fullmatch(item.sold_by, rate.unit):
                return _none(f"{service} SKU {product.sku} is sold by {rate.unit}, which is not expected", published)
            if any(price for _, price in rate.steps):
                rates.append((product.sku, rate))
    except UnreadableError as error:
        return _none(f"{service}: {error}", published)
    if not rates:
        return _none(f"{service} has the product at 0 USD only, SKU {_listed(p.sku for p in fitting)}", published)
    if len({rate.steps for _, rate in rates}) > 1:
        said = _listed(f"{sku} at {rate.steps[0][1].normalize():f} USD" for sku, rate in rates)
        return _none(f"{len(rates)} products of {service} fit and their prices differ: {said}", published)
    rate = rates[0][1]
    (_, first), *rest = rate.steps
    effective = f", effective {rate.effective}" if rate.effective else ""
    return Found(
        usd=float(first * item.times),
        tiers=tuple((float(begin / item.times), float(price * item.times)) for begin, price in rest),
        text=f"{service}, SKU {_listed(sku for sku, _ in rates)}{effective}",
        date=published or rate.effective,
    )


def _none(reason: str, published: str) -> Found:
    return Found(usd=None, tiers=(), text=reason, date=published)


def _fits(item: Item, product: Product) -> bool:
    return any(
        all(re.fullmatch(pattern, product.attributes.get(name, "")) for name, pattern in wanted.items())
        for wanted in item.attributes
    )


def _listed(names: Iterable[str]) -> str:
    """Return the names, sorted so that the order of an answer changes nothing; many are cut."""
    found = sorted(set(names))
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def _date(given: object) -> str:
    text = str(given or "")[:10]
    return text if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text) else ""


def _plain(number: str) -> str:
    try:
        return str(Decimal(number).normalize())
    except InvalidOperation:
        return number
