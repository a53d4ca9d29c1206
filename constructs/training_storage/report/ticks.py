"""Marks of an axis whose labels fit: none over another one, and none beyond the drawing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from training_storage.report.chart import text_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BETWEEN: Final = 12.0
"""Pixels between two labels at least."""
_EDGE: Final = 1.0


def label_values(
    plot: Axes, ticks: Sequence[float], words: Callable[[float], str], *, left: float, right: float
) -> None:  # fmt: skip
    """Label the axis of values of a plot whose limits and scale are set.

    A label that would reach beyond the drawing stands beside its mark; one that would touch the one before is left out.
    The last is worth more than those before it: it says how far the axis goes.

    Args:
        plot: The plot.
        ticks: Values that may have a label, ascending.
        words: Gives the text of a value.
        left: Pixels between the begin of the axis and the edge of the drawing.
        right: Pixels between its end and the other edge.
    """
    from matplotlib.ticker import NullLocator

    begin, width = plot.bbox.x0, plot.bbox.width
    placed: list[tuple[float, str, Literal["left", "center", "right"], float, float]] = []
    for tick in ticks:
        text = words(tick)
        at, wide = float(plot.transData.transform((tick, 0.5))[0]) - begin, text_width(text)
        if at - wide / 2 < -left + _EDGE:
            placed.append((tick, text, "left", at, at + wide))
        elif at + wide / 2 > width + right - _EDGE:
            placed.append((tick, text, "right", at - wide, at))
        else:
            placed.append((tick, text, "center", at - wide / 2, at + wide / 2))
    kept = placed[-1:]
    for each in placed[:-1]:
        before = kept[-2][4] if len(kept) > 1 else -left
        if each[3] >= before + (_BETWEEN if len(kept) > 1 else 0.0) and each[4] + _BETWEEN <= kept[-1][3]:
            kept.insert(-1, each)
    plot.xaxis.set_minor_locator(NullLocator())
    plot.set_xticks([each[0] for each in kept], labels=[each[1] for each in kept])
    for label, each in zip(plot.get_xticklabels(), kept, strict=True):
        label.set_horizontalalignment(each[2])


def round_values(most: float, count: int) -> list[float]:
    """Return round values from 0 to an end.

    Args:
        most: The end.
        count: How many parts at most.
    """
    from matplotlib.ticker import MaxNLocator

    found = MaxNLocator(count, steps=[1, 2, 2.5, 5, 10]).tick_values(0, most)
    return [float(each) for each in found if 0 <= each <= most]
