"""Which values of many stand out: by the median and its deviation, which a few odd ones do not move."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Final, TypeVar

from training_storage.operations.diagnosis import borders

_Name = TypeVar("_Name")
Place = tuple[str, str]
"""Node and rank."""

MOST: Final = 0.2
"""Share of ranks that may stand out; where more do, it is no single node or rank."""


def outliers(values: Mapping[_Name, float]) -> dict[_Name, float]:
    """Return the robust z-score of each value: 0.6745 x (value - median) / MAD; empty for fewer than three.

    The MAD is at least 1 % of the median and never 0, so that values that hardly differ make no outliers.
    """
    if len(values) < 3:
        return {}
    middle = statistics.median(values.values())
    spread = statistics.median(abs(value - middle) for value in values.values())
    spread = max(spread, abs(middle) * 0.01, 1e-9)
    return {name: 0.6745 * (value - middle) / spread for name, value in values.items()}


def slow_ranks(shares: Mapping[Place, float]) -> dict[Place, float]:
    """Return the ranks that wait far longer than the others, with their scores; empty where too many do.

    Args:
        shares: Share of its time that each rank waits.
    """
    if two := _slower_of_two(shares):
        return two
    if len(shares) < 3:
        return {}
    middle = statistics.median(shares.values())
    slow = {
        place: score
        for place, score in outliers(shares).items()
        if score >= borders.OUTLIER and shares[place] - middle >= borders.WAIT
    }
    if len(slow) <= max(1.0, MOST * len(shares)):
        return slow
    # All the same where they are the ranks of one node of three or more.
    nodes = {node for node, _ in slow}
    return slow if len(nodes) == 1 and len({node for node, _ in shares}) >= 3 else {}


def _slower_of_two(shares: Mapping[Place, float]) -> dict[Place, float]:
    """Return the ranks of one of two nodes, where each of them waits and hardly any of the other does."""
    nodes = sorted({node for node, _ in shares})
    if len(nodes) != 2:
        return {}
    parts = [{place: share for place, share in shares.items() if place[0] == node} for node in nodes]
    quick, slow = sorted(parts, key=lambda part: min(part.values()))
    apart = min(slow.values()) - max(quick.values()) >= borders.WAIT
    return dict.fromkeys(slow, borders.OUTLIER) if apart and max(quick.values()) < borders.WAIT else {}


def whole_wait(shares: Mapping[Place, float]) -> float:
    """Return the share of its time in which the job waits: the median rank's, or that of a large part of the ranks.

    Ranks go step by step together: where more of them wait than can be odd ones, all lose what these do.

    Args:
        shares: Share of its time that each rank waits; at least one.
    """
    slow = slow_ranks(shares)
    middle = statistics.median(share for place, share in shares.items() if place not in slow)
    if len(shares) < 3 or slow:
        return middle
    return max(middle, sorted(shares.values(), reverse=True)[max(1, int(MOST * len(shares)))])
