"""Widgets of a dashboard as plain data, in CloudWatch's structure (API Reference, Dashboard Body Structure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from training_storage.monitoring.metrics import PERIOD_S, Math, Reading

COLUMNS: Final = 24
GRAPH_HEIGHT: Final = 6
GREY: Final = "#7f7f7f"
RED: Final = "#d62728"

Widget = dict[str, Any]
Row = list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A horizontal line: what the plan expects, or where an alarm rises.

    Attributes:
        value: Where it is; None draws nothing.
        label: What it says.
        colour: Its colour.
        right: Whether it belongs to the right axis.
    """

    value: float | None
    label: str
    colour: str = GREY
    right: bool = False

    def annotation(self) -> dict[str, Any]:
        """Return it as an annotation."""
        axis = {"yAxis": "right"} if self.right else {}
        return {"label": self.label, "value": significant(self.value or 0.0), "color": self.colour, **axis}


def significant(value: float) -> float:
    """Return a number with nine significant digits, whole where it is whole."""
    short = float(f"{value:.9g}")
    return int(short) if short.is_integer() else short


def reading(one: Reading, label: str, **options: Any) -> list[Row]:
    """Return the row of one metric."""
    return [one.row(label=label, **options)]


def math(one: Math, *, id: str = "", label: str = "", **options: Any) -> list[Row]:
    """Return the row of an expression and the hidden rows of what it refers to.

    Args:
        one: The expression; one without an expression is its single reading.
        id: Name by which other expressions refer to it.
        label: What it is called; its own label when left out.
        options: Further options of the row.
    """
    if not one.expression:
        return reading(one.readings[0], label or one.label, **options)
    period = one.readings[0].period_s if one.readings else PERIOD_S
    head = {"expression": one.expression, "label": label or one.label, "period": period, **options}
    return [[{**head, "id": id} if id else head], *(each.row(visible=False) for each in one.readings)]


def found(expression: str, *, label: str = "", **options: Any) -> list[Row]:
    """Return the row of a search; a label that is left out is CloudWatch's, which names the dimensions that differ."""
    return [[{"expression": expression, "label": label, "period": PERIOD_S, **options}]]


def graph(
    title: str,
    rows: Iterable[Row],
    *,
    region: str,
    unit: str,
    lines: Sequence[Line] = (),
    right_unit: str = "",
    width: int = 8,
) -> Widget:
    """Return a graph over time; rows with an id that is there already are left out.

    Args:
        title: Title.
        rows: Rows of metrics.
        region: Region.
        unit: Unit of the left axis.
        lines: Horizontal lines.
        right_unit: Unit of the right axis; no right axis when left out.
        width: Columns.
    """
    axes = {"left": {"label": unit, "min": 0, "showUnits": False}}
    if right_unit:
        axes["right"] = {"label": right_unit, "min": 0, "showUnits": False}
    drawn = [line.annotation() for line in lines if line.value is not None]
    return _metric(
        {
            "view": "timeSeries",
            "title": title,
            "region": region,
            "metrics": _once(rows),
            "period": PERIOD_S,
            "yAxis": axes,
            **({"annotations": {"horizontal": drawn}} if drawn else {}),
        },
        width,
        GRAPH_HEIGHT,
    )


def numbers(title: str, rows: Iterable[Row], *, region: str, width: int, height: int) -> Widget:
    """Return single values, each with a small line of its past.

    Args:
        title: Title.
        rows: Rows of metrics.
        region: Region.
        width: Columns.
        height: Rows of the grid.
    """
    properties = {
        "view": "singleValue",
        "title": title,
        "region": region,
        "metrics": _once(rows),
        "period": PERIOD_S,
        "sparkline": True,
    }
    return _metric(properties, width, height)


def alarm_states(title: str, arns: Sequence[str], *, width: int, height: int) -> Widget:
    """Return the states of alarms."""
    return {
        "type": "alarm",
        "width": width,
        "height": height,
        "properties": {"title": title, "alarms": list(arns)},
    }


def words(markdown: str, *, height: int = 1) -> Widget:
    """Return a line of text over the whole width."""
    return {
        "type": "text",
        "width": COLUMNS,
        "height": height,
        "properties": {"markdown": markdown, "background": "transparent"},
    }


def laid_out(widgets: Iterable[Sequence[Mapping[str, Any]]]) -> list[Widget]:
    """Return widgets with their places: each row below the one before, from left to right."""
    placed: list[Widget] = []
    top = 0
    for row in widgets:
        left = 0
        for each in row:
            placed.append({**each, "x": left, "y": top})
            left += each["width"]
        top += max((each["height"] for each in row), default=0)
    return placed


def _metric(properties: dict[str, Any], width: int, height: int) -> Widget:
    return {"type": "metric", "width": width, "height": height, "properties": properties}


def _once(rows: Iterable[Row]) -> list[Row]:
    """Return rows, and of those with the same id the first, unless a later one shows what the first hides."""
    kept: dict[object, Row] = {}
    for number, row in enumerate(rows):
        key = row[-1].get("id") or number
        before = kept.get(key)
        if before is None or (before[-1].get("visible") is False and row[-1].get("visible") is not False):
            kept[key] = row
    return list(kept.values())
