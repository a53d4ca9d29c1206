"""Times of one interval in constant memory: mean and variation exactly, and a hundred values that stand for them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

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
        apart_each = [number - mean for number in numbers]
        squares = math.fsum(map(mul, apart_each, apart_each))
        # Chan's way to join two means and sums of squares, which keeps what differences of large sums would lose.
        total = self.count + count
        apart = mean - self.mean
        self._squares += squares + apart * apart * self.count * count / total
        self.mean += apart * count / total
        self.count = total
        ordered = sorted(numbers)
        if count > 2 * _KEPT and not count % _KEPT:
            # A full list, the common case: its groups are slices, which costs a third of sharing numbers out.
            each = count // _KEPT
            points = [(sum(ordered[at : at + each]) / each, float(each)) for at in range(0, count, each)]
        else:
            points = [(float(number), 1.0) for number in ordered]
        if self._points:
            points += self._points
            points.sort()
        self._points = points
        if len(points) > _KEPT:
            weight = total / _KEPT
            self._points = [(mean, weight) for mean in grouped(points, _KEPT)]

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
