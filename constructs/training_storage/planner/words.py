"""Numbers as they stand in decisions and warnings: short, with their unit, the same on every machine."""

from __future__ import annotations

from training_storage.units import format_seconds, plain_digits


def number(value: float) -> str:
    """Return a number with thousands separators: whole from 100 up, three digits below."""
    if value >= 100 or value == int(value):
        return f"{value + 0.0:,.0f}"  # of a zero below 0, 0
    return plain_digits(value)


def counted(value: float, what: str) -> str:
    """Return a number of things: ``1 file``, ``1,200 files``."""
    text = number(value)
    return f"{text} {what}{'' if text == '1' else 's'}"


def mb_per_s(value: float) -> str:
    """Return a rate in MB/s: ``12,500 MB/s``."""
    return f"{number(value)} MB/s"


def gib(value: float) -> str:
    """Return a capacity in GiB: ``4,800 GiB``."""
    return f"{number(value)} GiB"


def usd_per_month(value: float | None) -> str:
    """Return a monthly price, or that it is not known."""
    return "price not known" if value is None else f"{value:,.0f} USD a month"


def percent(share: float) -> str:
    """Return a share in percent: ``0.55 %``."""
    return f"{plain_digits(share * 100)} %"


def seconds(value: float) -> str:
    """Return a length of time as a person says it: ``78.4 s``, ``12.5 min``."""
    return format_seconds(value)


def listed(parts: list[str] | tuple[str, ...], last: str = "and") -> str:
    """Return ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"
