"""Demand against supply: one bar for everything that bounds reads, and the demand as a line across them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from training_storage.planner.model_prediction import SupplyLimit
from training_storage.planner.words import mb_per_s, number
from training_storage.report import chart as base
from training_storage.report.chart import Chart, Variant
from training_storage.report.ticks import label_values, round_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES: Final = {
    "disk": "Disks",
    "network": "Network of the fleet",
    "client": "Clients together",
    "requests": "S3 requests",
    "opens": "File opens",
    "latency": "Reads in flight",
}
"""Limits as a person calls them."""

_ROOM = 1.6
"""The axis ends at so many times the larger of demand and tightest limit; what is far above is cut, and said."""


def limits_chart(limits: Sequence[SupplyLimit], demand: float | None) -> Chart:
    """Return the chart.

    Args:
        limits: What bounds reads, the tightest first.
        demand: Reads of the whole fleet, MB/s; None where they are not known.
    """
    asked = "the read demand is not known" if demand is None else f"{mb_per_s(demand)} are asked for"
    parts = "; ".join(f"{NAMES[limit.name]}: {mb_per_s(limit.mb_per_s)}" for limit in limits)
    return base.chart(
        "limits",
        "Read demand against what each limit lets through",
        f"{asked}. Limits, the tightest first: {parts}.",
        lambda variant: _draw(variant, limits, demand),
    )


def _draw(variant: Variant, limits: Sequence[SupplyLimit], demand: float | None) -> Figure:
    wide = variant.is_wide
    row, top, bottom = (38.0, 34.0, 46.0) if wide else (54.0, 34.0, 46.0)
    made = base.figure(variant, top + row * len(limits) + bottom)
    left = 24 + max(base.text_width(NAMES[limit.name], bold=True) for limit in limits) if wide else 8.0
    right = 24 + max(base.text_width(mb_per_s(limit.mb_per_s), bold=True) for limit in limits) if wide else 26.0
    plot = base.axes(made, left=left, right=right, top=top, bottom=bottom)
    end = _ROOM * max(limits[0].mb_per_s, demand or 0.0)
    plot.set_xlim(0, end)
    plot.set_ylim(len(limits), 0)
    label_values(plot, round_values(end, 5 if wide else 3), number, left=left, right=right)
    plot.grid(axis="x")
    plot.set_yticks([])
    plot.set_xlabel("MB/s, reads of the whole fleet", fontsize=base.FONT_PX)
    width = variant.width - left - right
    for index, limit in enumerate(limits):
        _bar(plot, index, limit, end=end, demand=demand, wide=wide, width=width)
    if demand is not None:
        _demand_line(plot, demand, end, width=width)
    return made


def _bar(
    plot: Axes, index: int, limit: SupplyLimit, *, end: float, demand: float | None, wide: bool, width: float
) -> None:
    short = demand is not None and limit.mb_per_s < demand * (1 - 1e-9)
    color = base.ALARM if short else base.ACCENT if index == 0 else base.NEUTRAL
    center, height = (index + 0.5, 0.5) if wide else (index + 0.66, 0.34)
    shown = min(limit.mb_per_s, end)
    face, hatch = (base.SURFACE, "////") if short else (color, None)
    plot.barh(center, shown, height=height, color=face, edgecolor=color, hatch=hatch, linewidth=1.2)
    if limit.mb_per_s > end:  # two strokes across the end: it goes on
        for offset in (18, 11):
            x = end * (1 - offset / width)
            plot.plot(
                [x - end * 3 / width, x + end * 3 / width],
                [center + height * 0.75, center - height * 0.75],
                color=base.SURFACE, linewidth=3, solid_capstyle="butt",
            )  # fmt: skip
    weight = "bold" if index == 0 else "normal"
    name, value = NAMES[limit.name], mb_per_s(limit.mb_per_s)
    if wide:
        place, over = plot.get_yaxis_transform(), center
        plot.text(-12 / width, over, name, transform=place, ha="right", va="center_baseline", weight=weight)
        plot.text(1 + 12 / width, over, value, transform=place, ha="left", va="center_baseline", weight=weight)
    else:
        place, over = plot.get_yaxis_transform(), index + 0.40
        plot.text(0, over, name, transform=place, ha="left", va="baseline", weight=weight)
        plot.text(1, over, value, transform=place, ha="right", va="baseline", weight=weight)


def _demand_line(plot: Axes, demand: float, end: float, *, width: float) -> None:
    label = f"Demand {mb_per_s(demand)}"
    plot.axvline(demand, color=base.INK, linewidth=1.6, dashes=(4, 3))
    half = base.text_width(label, bold=True) / 2 * end / width
    x = min(max(demand, half), end - half)
    plot.text(x, -8 * plot.get_ylim()[0] / plot.bbox.height, label, ha="center", va="baseline", weight="bold")
