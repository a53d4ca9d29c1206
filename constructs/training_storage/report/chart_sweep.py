"""Where the answer changes: tier, price and waiting of one field of the workload over many values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from training_storage.planner.words import number, percent, seconds
from training_storage.report import chart as base
from training_storage.report.chart import Chart, Variant
from training_storage.report.ticks import label_values
from training_storage.report.words import is_wait
from training_storage.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from training_storage.whatif.model import Span, Sweep, SweepPoint

ANSWERS: Final = {
    "none": "S3 alone",
    "lustre": "FSx for Lustre",
    "express": "S3 Express One Zone",
    "refused": "No plan",
}
"""Answers of a sweep as a person calls them."""

_FILLS: Final = {
    "none": (base.NEUTRAL, base.NEUTRAL, None),
    "lustre": (base.ACCENT, base.ACCENT, None),
    "express": (base.SURFACE, base.ACCENT, "////"),
    "refused": (base.SURFACE, base.ALARM, "xxxx"),
}
"""Fill, edge and hatch of each answer: told apart without colour too."""

_LOGARITHMIC_FROM: Final = 50.0
"""A range whose ends are so many times apart gets a logarithmic axis."""

_LAST: Final = 0.04
"""Share of the axis that a last value has whose answer is no other value's."""

_TICKS_LEAST: Final = 3
_WIDER: Final = 1.03
"""Browsers may write a line so many times wider than the sum of its letters."""


def value_text(value: float, unit: str) -> str:
    """Return a value of a sweep with its unit.

    Args:
        value: The number.
        unit: ``B``, ``B/s``, ``s`` or empty.
    """
    if unit == "s":
        return seconds(value)
    if unit in {"B", "B/s"}:
        return format_bytes(value) + unit[1:]
    return number(value)


def span_text(span: Span) -> str:
    """Return the values of a range with one answer: ``1 to 16``, or one alone.

    Args:
        span: The range.
    """
    return span.first if span.first == span.last else f"{span.first} to {span.last}"


def sweep_chart(sweep: Sweep) -> Chart:
    """Return the chart.

    Args:
        sweep: The answers; at least two values.
    """
    spans = "; ".join(f"{span_text(span)}: {ANSWERS.get(span.answer, span.answer)}" for span in sweep.tiers)
    return base.chart(
        "sweep",
        f"Hot tier, price of storage and waiting over {sweep.field}",
        f"{spans}.",
        lambda variant: _draw(variant, sweep),
    )


def _draw(variant: Variant, sweep: Sweep) -> Figure:
    wide = variant.is_wide
    points = sorted(sweep.points, key=lambda point: point.value)
    panels = [
        ("Storage, USD a month", [_price(point) for point in points]),
        ("Waiting accelerators, share of the time", [_wait(point) for point in points]),
    ]
    # Neither what is not known nor all zeros.
    panels = [(title, values) for title, values in panels if any(is_wait(value) for value in values)]
    answers = [answer for answer in _FILLS if any(_answer(point) == answer for point in points)]
    rows = _legend_rows(answers, variant.width)
    top, ribbon, gap, panel, bottom = len(rows) * 24 + 26.0, 26.0, 36.0, 120.0 if wide else 104.0, 50.0
    made = base.figure(variant, top + ribbon + len(panels) * (gap + panel) + bottom)
    shown = [value for _, values in panels for value in values if value is not None]
    left = 16 + max((base.text_width(number(value)) for value in shown), default=0.0)
    left, right = max(left, 46.0), 34.0 if wide else 28.0
    height = made.get_figheight() * 72
    band = base.axes(made, left=left, right=right, top=top, bottom=height - top - ribbon)
    end = _end(points)
    _ribbon(band, points, end)
    plots = [band]
    for index, (title, values) in enumerate(panels):
        over = top + ribbon + gap + index * (gap + panel)
        plot = base.axes(made, left=left, right=right, top=over, bottom=height - over - panel)
        _panel(plot, points, values, end, share=title.startswith("Waiting"))
        # Beside a wide axis of amounts a title reaches beyond the drawing: it then begins above the axis.
        room = variant.width - left
        shift = min(0.0, room - base.text_width(title) * _WIDER)
        plot.text(
            shift / (room - right), 1 + 9 / panel, title, transform=plot.transAxes, ha="left", va="baseline",
            color=base.INK, fontsize=base.FONT_PX,
        )  # fmt: skip
        plots.append(plot)
    _values(plots, sweep, points, left=left, right=right, wide=wide)
    _legend(made, rows, variant.width)
    return made


def _answer(point: SweepPoint) -> str:
    return "refused" if point.figures is None else point.figures.hot


def _price(point: SweepPoint) -> float | None:
    return None if point.figures is None else point.figures.storage_monthly


def _wait(point: SweepPoint) -> float | None:
    return None if point.figures is None else point.figures.gpu_wait_fraction


def _end(points: list[SweepPoint]) -> float:
    """Return where the axis ends: a bit beyond the last value where that alone has its answer, so that it is seen."""
    first, last = points[0].value, points[-1].value
    if _answer(points[-1]) == _answer(points[-2]):
        return last
    return last * (last / first) ** _LAST if _is_logarithmic(points) else last + (last - first) * _LAST


def _is_logarithmic(points: list[SweepPoint]) -> bool:
    first, last = points[0].value, points[-1].value
    return first > 0 and last / first >= _LOGARITHMIC_FROM


def _ribbon(band: Axes, points: list[SweepPoint], end: float) -> None:
    """Draw neighbours with one answer as one bar, up to the first value of the next answer."""
    edges = [*(point.value for point in points), end]
    start = 0
    for index, point in enumerate(points):
        if index + 1 < len(points) and _answer(points[index + 1]) == _answer(point):
            continue
        fill, edge, hatch = _FILLS[_answer(point)]
        low, high = edges[start], edges[index + 1]
        band.barh(0.5, high - low, left=low, height=1.0, color=fill, edgecolor=edge, hatch=hatch, linewidth=1.2)
        start = index + 1
    band.set_ylim(0, 1)
    band.set_yticks([])


def _panel(
    plot: Axes, points: list[SweepPoint], values: list[float | None], end: float, *, share: bool
) -> None:  # fmt: skip
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    known = [float("nan") if value is None else value for value in values]
    places = [*(point.value for point in points), end]
    plot.plot(places, [*known, known[-1]], color=base.ACCENT, linewidth=2, drawstyle="steps-post")
    most = max(value for value in values if value is not None)
    plot.set_ylim(0, max(most * 1.08, 0.01 if share else 1.0))
    plot.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 2.5, 5, 10]))
    words = percent if share else number
    plot.yaxis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    plot.grid(axis="y")


def _values(
    plots: list[Axes], sweep: Sweep, points: list[SweepPoint], *, left: float, right: float, wide: bool
) -> None:  # fmt: skip
    """Give all panels the axis of values, and mark that of the workload."""
    first, last, logarithmic = points[0].value, points[-1].value, _is_logarithmic(points)
    whole = not sweep.unit and all(point.value == int(point.value) for point in points)
    ticks = _ticks(first, last, 5 if wide else 3, logarithmic=logarithmic, whole=whole)
    width = plots[0].bbox.width
    for plot in plots:
        plot.set_xscale("log" if logarithmic else "linear")
        plot.set_xlim(first, _end(points))
        label_values(
            plot,
            ticks if plot is plots[-1] else [],
            lambda value: value_text(value, sweep.unit),
            left=left,
            right=right,
        )
        if sweep.given is not None and first <= sweep.given <= last:
            plot.axvline(sweep.given, color=base.INK, linewidth=1.4, dashes=(1.5, 2.5), clip_on=False)
    plots[-1].set_xlabel(sweep.field, fontsize=base.FONT_PX)
    if sweep.given is not None and first <= sweep.given <= last:
        label = f"This workload {value_text(sweep.given, sweep.unit)}"
        half = base.text_width(label) / 2 / width
        place = plots[0].transData.transform((sweep.given, 0))[0] - plots[0].bbox.x0
        at = min(max(place / plots[0].bbox.width, half), 1 - half)
        plots[0].text(at, 1.3, label, transform=plots[0].transAxes, ha="center", va="baseline")


def _ticks(first: float, last: float, most: int, *, logarithmic: bool, whole: bool) -> list[float]:
    """Return round values between two ends, and where there are few of them the ends; no half of what is counted."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    locator = (
        LogLocator(numticks=most + 1) if logarithmic else MaxNLocator(most, steps=[1, 2, 2.5, 5, 10], integer=whole)
    )
    ticks = [float(tick) for tick in locator.tick_values(first, last) if first <= tick <= last]
    if logarithmic and len(ticks) < _TICKS_LEAST:
        ticks = [tick for tick in LogLocator(subs=(1.0, 3.0)).tick_values(first, last) if first <= tick <= last]
    return ticks if len(ticks) > 1 else [first, last]


def _legend_rows(answers: list[str], width: float) -> list[list[tuple[str, float]]]:
    """Return answers with the place of each, in rows that fit."""
    rows: list[list[tuple[str, float]]] = [[]]
    x = 2.0
    for answer in answers:
        need = 34 + base.text_width(ANSWERS[answer]) + 22
        if rows[-1] and x + need > width:
            rows.append([])
            x = 2.0
        rows[-1].append((answer, x))
        x += need
    return rows


def _legend(made: Figure, rows: list[list[tuple[str, float]]], width: float) -> None:
    from matplotlib.patches import Rectangle

    height = made.get_figheight() * 72
    for index, row in enumerate(rows):
        y = 16 + index * 24
        for answer, x in row:
            fill, edge, hatch = _FILLS[answer]
            made.add_artist(
                Rectangle(
                    (x / width, 1 - (y + 1) / height),
                    24 / width,
                    13 / height,
                    facecolor=fill,
                    edgecolor=edge,
                    hatch=hatch,
                    linewidth=1.2,
                )
            )
            made.text((x + 32) / width, 1 - y / height, ANSWERS[answer], ha="left", va="baseline")
