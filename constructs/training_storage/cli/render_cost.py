"""What a plan costs, as a person reads it in a terminal: a line for each item, sums, and keeping beside releasing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from training_storage.planner.words import counted, number, seconds

if TYPE_CHECKING:
    from training_storage.planner.model_cost import AfterRun, Cost, CostLine

_UNKNOWN: Final = "not known"
_GAP: Final = 2
_DOUBTFUL: Final = {"derived": "follows from another region's", "conflict": "has sources that disagree"}
"""What a reader is told of a price whose row was not read as it stands."""

_LEAST_ROOM: Final = 24
"""Columns that labels need beside the amounts; with fewer each label stands above its amounts."""


def cost_lines(cost: Cost, *, width: int) -> list[str]:
    """Return the section as lines of text, its heading left out.

    Args:
        cost: The bill.
        width: Columns to write for.
    """
    rows = list(_rows(cost))
    columns = len(rows[0][1])
    widths = [max(len(row[1][index]) for row in rows) for index in range(columns)]
    room = width - 2 - sum(widths) - _GAP * columns
    if room < _LEAST_ROOM:
        return list(_stacked(rows, width))
    lines: list[str] = []
    for label, figures in rows:
        wrapped = textwrap.wrap(
            label, room, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        ) or [""]
        right = "".join(f"{' ' * _GAP}{figure:>{widths[index]}}" for index, figure in enumerate(figures))
        lines.extend(f"  {part}" for part in wrapped[:-1])
        lines.append(f"  {wrapped[-1]:<{room}}{right}".rstrip())
    return lines


def _stacked(rows: list[tuple[str, tuple[str, ...]]], width: int) -> Iterator[str]:
    """Yield each label, and below it each amount with the name of its column: for amounts that leave labels no room."""
    _, names = rows[0]
    for label, figures in rows[1:]:
        yield from _folded(label, width)
        for name, figure in zip(names, figures, strict=True):
            if figure:
                amount = figure if figure == _UNKNOWN else f"{figure} {name}"
                yield f"    {amount}"


def _folded(label: str, width: int) -> list[str]:
    return textwrap.wrap(
        label, width, initial_indent="  ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )


def cost_notes(cost: Cost) -> Iterator[tuple[str, str]]:
    """Yield name and text of what stands below the lines: items without a price, keeping beside releasing."""
    if cost.unpriced:
        yield "price not known", f"{', '.join(cost.unpriced)}; in no sum{_refresh(cost.region)}"
    doubtful = {line.item: line.trust for line in cost.lines if line.monthly and line.trust in _DOUBTFUL}
    if doubtful:
        named = "; ".join(f"{item} {_DOUBTFUL[str(trust)]}" for item, trust in doubtful.items())
        yield "price in doubt", f"{named}; `training-storage prices show` has the sources"
    if cost.after_run is not None:
        yield "after the run", _after_run(cost.after_run)


def _refresh(region: str) -> str:
    """How to fill what is missing; the price list of China is in CNY, and only prices of one's own help there."""
    if region.startswith("cn-"):
        return "; a catalog file of yours can give them (`--catalog`)"
    return f"; `training-storage prices refresh --region {region}` asks AWS for them, and `--catalog` takes its file"


def _rows(cost: Cost) -> Iterator[tuple[str, tuple[str, ...]]]:
    with_run = cost.run_h is not None
    yield "", _columns("an hour", f"a run of {seconds((cost.run_h or 0) * 3600)}", "a month", with_run)
    for group, name in (("storage", "storage, requests and network"), ("compute", "")):
        lines = [line for line in cost.lines if line.group == group]
        for line in lines:
            yield _label(line), _figures(line.hourly, line.run, line.monthly, with_run)
        if name:
            yield name, _figures(cost.storage_hourly, cost.storage_run, cost.storage_monthly, with_run)
    yield "in all", _figures(cost.hourly, cost.run, cost.monthly, with_run)


def _label(line: CostLine) -> str:
    """What the line is for; without a price how much of it, so that whoever knows the price can go on."""
    if line.unit_price is not None:
        return line.label
    if line.unit == "1000 requests":
        used = counted(line.quantity * 1000, "request")
    else:
        used = f"{number(line.quantity)} {line.unit}{'s' if line.unit == 'hour' and line.quantity != 1 else ''}"
    return f"{line.label} ({used})"


def _columns(hourly: str, run: str, monthly: str, with_run: bool) -> tuple[str, ...]:
    return (hourly, run, monthly) if with_run else (hourly, monthly)


def _figures(hourly: float | None, run: float | None, monthly: float | None, with_run: bool) -> tuple[str, ...]:
    if monthly is None:
        return _columns("", "", _UNKNOWN, with_run)
    return _columns(usd(hourly), usd(run), usd(monthly), with_run)


def usd(value: float | None) -> str:
    """Return an amount: whole from 1,000 up, to the cent below."""
    if value is None:
        return _UNKNOWN
    if value == 0:
        return "0"
    if value < 0.005:
        return "< 0.01"
    return f"{value:,.0f}" if value >= 999.995 else f"{value:,.2f}"


def _after_run(after: AfterRun) -> str:
    if after.keep_hourly is None:
        return "what keeping the hot tier costs is not known, for a price of it is not"
    keep = f"keeping the hot tier costs {usd(after.keep_hourly)} USD an hour"
    release = ["releasing it and loading the data again"]
    if after.reload_usd is None:
        release.append("costs what is not known")
    else:
        release.append(f"costs {usd(after.reload_usd)} USD")
    if after.reload_s is not None:
        release.append(f"and takes {seconds(after.reload_s)} before the next run, besides making it anew")
    advice = ""
    if after.break_even_h is not None:
        advice = f": release it where the next run is more than {seconds(after.break_even_h * 3600)} away"
    return f"{keep}; {' '.join(release)}{advice}"
