"""What was observed of a run in a span of time, in one shape, whether CloudWatch or a file told it."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from training_storage.planner.expectations import Expectations


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric under one value of each of its dimensions.

    Attributes:
        metric: Key of ``node.metrics.OURS`` or ``node.metrics.SERVICES``.
        dimensions: Values by name; of the sets in the table only.
        statistic: Statistic of CloudWatch.
        points: Ends of periods, seconds since 1970, with values, in the order of time.
    """

    metric: str
    dimensions: Mapping[str, str]
    statistic: str
    points: tuple[tuple[float, float], ...]

    @property
    def values(self) -> tuple[float, ...]:
        """The values alone."""
        return tuple(value for _, value in self.points)

    @property
    def total(self) -> float:
        """Sum of the values."""
        return sum(self.values)

    @property
    def mean(self) -> float | None:
        """Mean of the values; None without any."""
        return statistics.fmean(self.values) if self.points else None

    @property
    def highest(self) -> float | None:
        """Largest value; None without any."""
        return max(self.values, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything that the rules may look at; they make no calls.

    Attributes:
        workload: Name of the workload.
        since: Begin of the span, seconds since 1970.
        until: Its end.
        period_s: Length of one period of the series.
        series: All series.
        expected: What the plan says; None where no plan was found.
        facts: What is known besides metrics, plain data by name: ``associations``, ``tasks``, ``bucket_notification``,
            ``efa``, and so on; a name that is missing is not known.
        unknown: What could not be asked, with the reason, for people.
    """

    workload: str
    since: float
    until: float
    period_s: float
    series: tuple[Series, ...]
    expected: Expectations | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    def all(self, metric: str, *names: str, statistic: str | None = None) -> tuple[Series, ...]:
        """Return the series of a metric whose dimensions have just these names, such as ``*NODE``.

        Args:
            metric: Key of the table.
            *names: Names of dimensions; left out, the series of any.
            statistic: Only this statistic; left out, any.
        """
        return tuple(
            each
            for each in self.series
            if each.metric == metric
            and (not names or set(each.dimensions) == set(names))
            and (statistic is None or each.statistic == statistic)
        )

    def one(self, metric: str, *names: str, statistic: str | None = None) -> Series | None:
        """Return the first such series; None where there is none."""
        return next(iter(self.all(metric, *names, statistic=statistic)), None)

    def per_second(self, series: Series | None) -> float | None:
        """Return the mean rate of a series of sums, by the second of the periods that it has values for."""
        if series is None or not series.points:
            return None
        return series.total / (len(series.points) * self.period_s)


def merged(series: Iterable[Series]) -> dict[float, float]:
    """Return sums over series by the end of the period."""
    totals: dict[float, float] = {}
    for each in series:
        for moment, value in each.points:
            totals[moment] = totals.get(moment, 0.0) + value
    return totals
