"""Times of one interval in constant memory: mean and variation exactly, and a hundred values that stand for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

LIMIT = 100
"""Values that one metric of a record may have."""

_KEPT = 256
"""Points kept between two additions; more than ``LIMIT``, so that regrouping again and again moves quantiles little."""


class Digest:
    """Numbers, folded in by many at once.

    Beyond ``_KEPT`` numbers what is kept are means of groups with one weight. Numbers at the bounds of a group are
    shared out between both, so that the mean of the points is always the mean of all numbers, whatever their
    distribution; extremes are drawn towards the mean of their group, the highest or lowest hundredth. Nothing is
    random: the same numbers in the same order make the same points.
    """

    __slots__ = ("_points", "_squares", "count", "mean")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0
        self._points: list[tuple[float, float]] = []

    def add(self, numbers: Sequence[float]) -> None:
        """Fold numbers in."""
        count = len(numbers)
        if not count:
            return
        mean = math.fsum(numbers) / count
        squares = math.fsum([(each - mean) ** 2 for each in numbers])
        # Chan's way to join two means and sums of squares, which keeps what differences of large sums would lose.
        total = self.count + count
        apart = mean - self.mean
        self._squares += squares + apart * apart * self.count * count / total
        self.mean += apart * count / total
        self.count = total
        points = self._points
        points.extend([(float(each), 1.0) for each in numbers])
        points.sort()
        if len(points) > _KEPT:
            weight = total / _KEPT
            self._points = [(each, weight) for each in grouped(points, _KEPT)]

    def values(self, limit: int = LIMIT) -> list[float]:
        """Return at most ``limit`` numbers, rising, whose mean is the mean of all."""
        if len(self._points) <= limit:
            return [value for value, _ in self._points]
        return grouped(self._points, limit)

    def variation(self) -> float | None:
        """Return the standard deviation of the numbers as a share of their mean; None for fewer than two."""
        if self.count < 2 or self.mean <= 0:
            return None
        return math.sqrt(max(self._squares, 0.0) / self.count) / self.mean


def grouped(points: Sequence[tuple[float, float]], groups: int) -> list[float]:
    """Return the means of so many groups of one weight.

    Args:
        points: Values and their weights, rising by value.
        groups: How many; at most the number of points.
    """
    share = math.fsum([weight for _, weight in points]) / groups
    means: list[float] = []
    room, held = share, 0.0
    for value, weight in points:
        left = weight
        # The last group takes what rounding leaves.
        while left >= room and len(means) < groups - 1:
            means.append((held + value * room) / share)
            left -= room
            room, held = share, 0.0
        held += value * left
        room -= left
    means.append(held / (share - room))
    return means
