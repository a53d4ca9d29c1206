"""Seeded random numbers: one stream for each purpose, so that drawing more of one never shifts another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random


def exponential(seed: int | str, purpose: str, mean: float) -> Iterator[float]:
    """Yield exponential numbers without end.

    Streams of one seed and purpose differ between means by that factor alone: a run with twice the mean time between
    failures meets the same failures at twice the time.

    Args:
        seed: Any whole number or text.
        purpose: What the numbers are for.
        mean: Their mean; infinite gives infinity for ever.
    """
    stream = Random(f"{purpose}/{seed}")  # noqa: S311 - a simulation that has to repeat, no secret
    while True:
        # random() is below 1, so that the logarithm is always of a positive number.
        yield -math.log(1 - stream.random()) * mean


def even_exponential(seed: int | str, purpose: str, mean: float, count: int) -> list[float]:
    """Return exponential numbers that cover their distribution evenly, in random order.

    One number from each of ``count`` slices of equal probability. Means over them scatter far less than those over
    independent numbers, while each number by itself has the same distribution.

    Args:
        seed: Any whole number or text.
        purpose: What the numbers are for.
        mean: Their mean.
        count: How many.
    """
    stream = Random(f"{purpose}/{seed}")  # noqa: S311 - a simulation that has to repeat, no secret
    numbers = [-math.log(1 - (slice_ + stream.random()) / count) * mean for slice_ in range(count)]
    stream.shuffle(numbers)
    return numbers
