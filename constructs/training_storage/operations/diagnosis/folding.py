"""Samples folded into series as CloudWatch folds them: by metric, dimensions and period, one statistic each."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from training_storage.operations.diagnosis.observation import Series
from training_storage.operations.diagnosis.wanted import WANTED, Wanted

_STATISTICS: Final[Mapping[str, Callable[[list[float]], float]]] = {
    "Sum": math.fsum,
    "Average": statistics.fmean,
    "Maximum": max,
    "Minimum": min,
}


@dataclass(frozen=True, slots=True)
class Sample:
    """What somebody published of one metric at one moment under one set of dimensions.

    Attributes:
        metric: Key of the metrics' tables.
        dimensions: Values by name.
        moment: Seconds since 1970.
        values: The values.
    """

    metric: str
    dimensions: Mapping[str, str]
    moment: float
    values: tuple[float, ...]


def end_of_period(period_s: float) -> Callable[[float], float]:
    """Return what gives the end of the period of a moment, as CloudWatch cuts time.

    Args:
        period_s: Length of a period.
    """
    return lambda moment: (math.floor(moment / period_s) + 1) * period_s


def fold(
    samples: Iterable[Sample], end_of: Callable[[float], float], wanted: Iterable[Wanted] = WANTED
) -> tuple[Series, ...]:
    """Return the series of samples, in the order of their names.

    Args:
        samples: The samples.
        end_of: Returns the end of the period that a moment belongs to.
        wanted: Which series to make. Left out: all that the rules look at.
    """
    statistics_of: dict[tuple[str, frozenset[str]], list[str]] = defaultdict(list)
    for metric, names, statistic in wanted:
        statistics_of[metric, frozenset(names)].append(statistic)
    found: dict[tuple[str, tuple[tuple[str, str], ...]], dict[float, list[float]]] = {}
    for each in samples:
        key = each.metric, tuple(sorted(each.dimensions.items()))
        if (each.metric, frozenset(each.dimensions)) in statistics_of:
            found.setdefault(key, {}).setdefault(end_of(each.moment), []).extend(each.values)
    return tuple(
        Series(
            metric=metric,
            dimensions=dict(dimensions),
            statistic=statistic,
            points=tuple((moment, _STATISTICS[statistic](values)) for moment, values in sorted(periods.items())),
        )
        for (metric, dimensions), periods in sorted(found.items(), key=lambda each: each[0])
        for statistic in statistics_of[metric, frozenset(dict(dimensions))]
    )
