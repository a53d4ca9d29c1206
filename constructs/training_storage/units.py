"""Sizes, rates and durations: the quantity carries its unit, so that GiB and GB never meet by accident.

A size is a number and ``B KB MB GB TB PB`` (powers of 1000) or ``KiB MiB GiB TiB PiB`` (powers of 1024); a rate is a
size and ``/s``; a duration is a number and ``s``, ``m``, ``h`` or ``d``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

KB, MB, GB, TB, PB = (10**n for n in (3, 6, 9, 12, 15))
KIB, MIB, GIB, TIB, PIB = (2**n for n in (10, 20, 30, 40, 50))

SIZE_UNITS: dict[str, int] = {
    "B": 1, "KB": KB, "MB": MB, "GB": GB, "TB": TB, "PB": PB,
    "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB, "PiB": PIB,
}  # fmt: skip
DURATION_UNITS: dict[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_NUMBER = r"(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)"
_SIZE = re.compile(rf"{_NUMBER}\s*(?P<unit>[A-Za-z]+)")
_DURATION = re.compile(rf"{_NUMBER}\s*(?P<unit>[A-Za-z]+)")

SIZE_FORM = "a number and one of B, KB, MB, GB, TB, PB (powers of 1000), KiB, MiB, GiB, TiB, PiB (powers of 1024)"
RATE_FORM = f"{SIZE_FORM}, then /s"
DURATION_FORM = "a number and one of s, m, h, d"


_LEAST_SHOWN = 1e-6
"""Amounts below it are shown as less than it: more zeros tell nobody anything."""


def _plain(value: Decimal) -> int | float:
    """Return an int where the value is one, so that equal inputs print equally."""
    return int(value) if value == value.to_integral_value() else float(value)


def _split(pattern: re.Pattern[str], units: dict[str, int], text: str, form: str) -> int | float:
    match = pattern.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not {form}")
    unit = match["unit"]
    if unit not in units:
        near = next((known for known in units if known.lower() == unit.lower()), None)
        hint = f"; did you mean {near}?" if near else ""
        raise ValueError(f"unknown unit {unit!r}: {form}{hint}")
    return _plain(Decimal(match["number"]) * units[unit])


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """An amount of data.

    Attributes:
        bytes: The amount in bytes.
    """

    bytes: int | float

    @classmethod
    def parse(cls, text: str) -> Size:
        """Read ``60 TB`` or ``912 GiB``. Raises ValueError that says the form."""
        return cls(_split(_SIZE, SIZE_UNITS, text, SIZE_FORM))

    @property
    def mb(self) -> float:
        """The amount in MB (10^6 bytes)."""
        return self.bytes / MB

    @property
    def gib(self) -> float:
        """The amount in GiB (2^30 bytes)."""
        return self.bytes / GIB

    def __str__(self) -> str:
        return format_bytes(self.bytes)


@dataclass(frozen=True, slots=True, order=True)
class Rate:
    """An amount of data per second.

    Attributes:
        bytes_per_s: The rate in bytes per second.
    """

    bytes_per_s: int | float

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Read ``2.86 GB/s``. Raises ValueError that says the form."""
        text = text.strip()
        if not text.endswith("/s"):
            raise ValueError(f"not {RATE_FORM}")
        return cls(_split(_SIZE, SIZE_UNITS, text[:-2], RATE_FORM))

    @property
    def mb_per_s(self) -> float:
        """The rate in MB/s (10^6 bytes per second)."""
        return self.bytes_per_s / MB

    def __str__(self) -> str:
        return f"{format_bytes(self.bytes_per_s)}/s"


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A length of time.

    Attributes:
        seconds: The length in seconds.
    """

    seconds: int | float

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read ``30m`` or ``12h``. Raises ValueError that says the form."""
        return cls(_split(_DURATION, DURATION_UNITS, text, DURATION_FORM))

    def __str__(self) -> str:
        return format_seconds(self.seconds)


def plain_digits(value: float, figures: int = 3) -> str:
    """Return so many significant figures in digits alone: ``0.00003``, not ``3e-05``; nothing below a millionth."""
    if 0 < value < _LEAST_SHOWN:
        return f"< {_LEAST_SHOWN:f}"
    text = f"{value:.{figures}g}"
    return f"{Decimal(text):f}" if "e" in text else text


def format_bytes(value: float) -> str:
    """Return bytes in the largest decimal unit that keeps the number at 1 or more: ``60 TB``, ``978.4 GB``."""
    for unit in ("PB", "TB", "GB", "MB", "KB"):
        if abs(value) >= SIZE_UNITS[unit]:
            return f"{value / SIZE_UNITS[unit]:.4g} {unit}"
    return f"{value:.4g} B"


def format_seconds(value: float) -> str:
    """Return seconds as a person says them: ``0.86 s``, ``78 s``, ``12.5 min``, ``6.3 h``, ``2.1 d``."""
    if value < 120:
        return f"{plain_digits(value)} s"
    if value < 7200:
        return f"{value / 60:.3g} min"
    if value < 172800:
        return f"{value / 3600:.3g} h"
    days = value / 86400
    return f"{days:.3g} d" if days < 1000 else f"{days:,.0f} d"
