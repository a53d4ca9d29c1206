"""Numbers and sentences as the page writes them: no rounding that turns something into nothing, or a part into all."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

from training_storage.planner.words import percent

_SMALLEST_USD: Final = 1e-6
_NO_DIFFERENCE: Final = 1e-9
"""Shares that differ by less are equal, as the steps have it: both are quotients of decimal input."""

_PLAIN_WORD: Final = re.compile(r"[a-z]+(?:[ ,:;-]|$)")
"""A first word that is one: not a key of the workload file, a type of instance, an id or a path."""

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Characters that nobody sees and that change what is seen: controls, marks of direction, halves of characters."""


def usd(value: float) -> str:
    """Return an amount: none of its cents above 100, two digits of what is below ten cents.

    Args:
        value: USD.
    """
    return f"{_whole(value) if abs(value) >= 100 or value == 0 else money(value)} USD"


def money(value: float) -> str:
    """Return an amount as a bill has it, with its cents; two digits of what is below ten cents.

    Args:
        value: USD.
    """
    if value == 0 or abs(value) >= 0.095:  # half a cent is no cent, and 4.5 are no 4
        return f"{value + 0.0:,.2f}"
    return decimal(value, 2) if abs(value) >= _SMALLEST_USD else f"under {decimal(_SMALLEST_USD, 1)}"


def monthly(value: float) -> str:
    """Return an amount of a month, as ``usd`` without its unit.

    Args:
        value: USD.
    """
    return usd(value).removesuffix(" USD")


def signed_monthly(value: float) -> str:
    """Return the difference of two amounts of a month with its sign; ``0`` where there is none.

    Args:
        value: USD.
    """
    if abs(value) < _SMALLEST_USD:
        return "0"
    return f"{'+' if value > 0 else '-'}{monthly(abs(value))}"


def _whole(value: float) -> str:
    return f"{value + 0.0:,.0f}"  # a sum that is -0.0 is 0


def decimal(value: float, digits: int) -> str:
    """Return a number with so many digits that count, and without an exponent: ``0.0000125``.

    Args:
        value: The number.
        digits: Digits that count.
    """
    return f"{Decimal(f'{value:.{digits}g}'):,f}"


def nearly(share: float) -> str:
    """Return a share of the time: with two more digits near 100, where three would round all of it up.

    Args:
        share: 0 to 1.
    """
    if 0.99 <= share < 1:
        return "over 99.99 %" if share >= 0.99995 else f"{share * 100:.2f} %"
    return percent(share)


def signed_share(difference: float) -> str:
    """Return the difference of two shares of the time with its sign; ``0 %`` where there is none.

    Args:
        difference: -1 to 1.
    """
    if abs(difference) < _NO_DIFFERENCE:
        return "0 %"
    return f"{'+' if difference > 0 else '-'}{nearly(abs(difference))}"


def is_wait(share: float | None) -> bool:
    """Return whether a share of the time is one: what is left of rounding is not.

    Args:
        share: 0 to 1; None where it is not known.
    """
    return share is not None and share > _NO_DIFFERENCE


def relative(difference: float) -> str:
    """Return a relative difference with its sign, and far ones as a factor: ``-0.56 %``, ``x 4.8``.

    Args:
        difference: Above -1.
    """
    if abs(difference) < 5e-5:
        return "0 %"
    if difference > 9:
        return f"x {decimal(difference + 1, 3)}" if math.isfinite(difference) else "far more"
    return f"{'+' if difference > 0 else '-'}{percent(abs(difference))}"


def sentence(text: str) -> str:
    """Return a text that begins like a sentence; what has to stay as it is typed, such as a key, does.

    Args:
        text: The text.
    """
    return f"{text[:1].upper()}{text[1:]}" if _PLAIN_WORD.match(text) else text


def visible(text: str) -> str:
    r"""Return a text with what cannot be seen written out: a mark that turns the direction of a path is ``\u202e``.

    Args:
        text: The text.
    """
    return _UNSEEN.sub(lambda hit: f"\\u{ord(hit[0]):04x}", text)
