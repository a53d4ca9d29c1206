"""Numbers as they stand in decisions and warnings: short, with their unit, the same on every machine."""

from __future__ import annotations

from training_storage.units import format_seconds


def number(value: float) -> str:
    """Return a number with thousands separators: whole from 100 up, three digits below."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


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
    return f"{share * 100:.3g} %"


def seconds(value: float) -> str:
    """Return a length of time as a person says it: ``78.4 s``, ``12.5 min``."""
    return format_seconds(value)


def listed(parts: list[str] | tuple[str, ...], last: str = "and") -> str:
    """Return ``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"
