"""Break-even: storage and lost accelerator time of the plan and of one step, over the reads that the fleet asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from training_storage.planner.words import listed, mb_per_s, number
from training_storage.report import chart as base
from training_storage.report.chart import Chart, Variant
from training_storage.report.ticks import label_values, round_values
from training_storage.report.words import sentence

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from training_storage.whatif.model import BreakEven

_LEADING: Final = 19.0
_ROOM: Final = 2.2
"""The axis ends at so many times the dearest point that matters: accelerators that wait cost far more than storage, and
the whole range would press everything else flat."""


def break_even_chart(found: BreakEven, number_of: int) -> Chart:
    """Return the chart of one step.

    Args:
        found: Both curves; their prices are known.
        number_of: Counts the charts, for ids that are unique in the page.
    """
    crossings = found.crossings_mb_per_s or ()
    where = listed([mb_per_s(each) for each in crossings])
    said = f"They cost the same at {where}" if crossings else "One of them is cheaper over the whole range"
    asked = "" if found.read_mb_per_s is None else f" This workload reads {mb_per_s(found.read_mb_per_s)}."
    return base.chart(
        f"break-even-{number_of}",
        f"Storage and lost accelerator time, USD an hour: this plan beside {found.step}",
        f"{said}; looked at from 0 to {mb_per_s(found.up_to_mb_per_s)}.{asked}",
        lambda variant: _draw(variant, found),
    )


def _draw(variant: Variant, found: BreakEven) -> Figure:
    wide = variant.is_wide
    texts = [base.wrap(text, variant.width - 44) for text in ("This plan", sentence(found.step))]
    legend = sum(len(text) for text in texts) * _LEADING + 10
    top, bottom = legend + 46, 50.0
    made = base.figure(variant, top + (250 if wide else 210) + bottom)
    last, end = _last(found), _end(found)
    labels = max(base.text_width(number(tick)) for tick in (end, end * 0.75, end / 3))
    left, right = labels + 16, 40.0 if wide else 30.0
    plot = base.axes(made, left=left, right=right, top=top, bottom=bottom)
    _scales(plot, last, end)
    label_values(plot, round_values(last, 5 if wide else 3), number, left=left, right=right)
    reads = [point.read_mb_per_s for point in found.points]
    step = [point.step_usd_per_hour for point in found.points]
    ours = [point.plan_usd_per_hour for point in found.points]
    plot.plot(reads, ours, color=base.ACCENT, linewidth=2.4)
    plot.plot(reads, step, color=base.INK, linewidth=2, dashes=(5, 3))  # over it: between its dashes the other is seen
    _marks(plot, found, last, end, variant.width - left - right)
    _legend(made, texts, variant.width)
    height = made.get_figheight() * 72
    made.text(0, 1 - (top - 10) / height, "USD an hour", ha="left", va="baseline", color=base.MUTED)
    return made


def _last(found: BreakEven) -> float:
    """Return where the axis of reads ends: a range that goes far beyond all that matters would hide it."""
    places = [*(found.crossings_mb_per_s or ()), *([] if found.read_mb_per_s is None else [found.read_mb_per_s])]
    return min(found.up_to_mb_per_s, _ROOM * max(places)) if found.crossings_mb_per_s else found.up_to_mb_per_s


def _end(found: BreakEven) -> float:
    """Return where the axis of costs ends."""
    most = max(max(point.plan_usd_per_hour, point.step_usd_per_hour) for point in found.points)
    places = [*(found.crossings_mb_per_s or ()), *([] if found.read_mb_per_s is None else [found.read_mb_per_s])]
    curves = [curve for curve in (found.plan_curve, found.step_curve) if curve is not None]
    matters = max((curve.usd_per_hour(place) for curve in curves for place in places), default=0.0)
    end = min(most, matters * _ROOM) if matters > 0 else most
    return max(end, most * 1e-3, 1e-6) * 1.05


def _scales(plot: Axes, last: float, end: float) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    plot.set_xlim(0, last)
    plot.set_ylim(0, end)
    plot.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    plot.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    plot.grid(axis="y")
    plot.set_xlabel("MB/s, reads of the whole fleet", fontsize=base.FONT_PX)


def _marks(plot: Axes, found: BreakEven, last: float, end: float, width: float) -> None:
    """Mark what the workload reads, and where both cost the same."""
    if found.read_mb_per_s is not None and found.read_mb_per_s <= last:
        plot.axvline(found.read_mb_per_s, color=base.MUTED, linewidth=1.4, dashes=(1.5, 2.5))
        label = f"This workload {mb_per_s(found.read_mb_per_s)}"
        half = base.text_width(label) / 2 * last / width
        x = min(max(found.read_mb_per_s, half), last - half)
        plot.text(x, end * (1 + 26 / plot.bbox.height), label, ha="center", va="baseline")
    for crossing in found.crossings_mb_per_s or ():
        assert found.plan_curve is not None  # noqa: S101 - crossings come from curves
        plot.plot(
            [crossing], [found.plan_curve.usd_per_hour(crossing)], marker="o", markersize=9, color=base.SURFACE,
            markeredgecolor=base.INK, markeredgewidth=2, clip_on=False, zorder=5,
        )  # fmt: skip


def _legend(made: Figure, texts: list[list[str]], width: float) -> None:
    from matplotlib.lines import Line2D

    height = made.get_figheight() * 72
    y = 14.0
    for lines, (color, dashes) in zip(texts, ((base.ACCENT, (1, 0)), (base.INK, (5, 3))), strict=True):
        made.add_artist(
            Line2D([4 / width, 30 / width], [1 - (y - 4) / height] * 2, color=color, linewidth=2.2, dashes=dashes)
        )
        for line in lines:
            made.text(40 / width, 1 - y / height, line, ha="left", va="baseline")
            y += _LEADING
