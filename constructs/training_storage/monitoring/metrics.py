"""Metrics as dashboards, alarms and the CDK write them, from the tables of ``node/metrics`` alone.

A name, a set of dimensions or a statistic that is in no table is refused: a graph of a metric that nobody writes is
empty, and an alarm on one is silent, and neither says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from training_storage.errors import Problem, ValidationError
from training_storage.node.metrics import OURS, SERVICES, Metric

if TYPE_CHECKING:
    from aws_cdk import aws_cloudwatch as cloudwatch

PERIOD_S: Final = 60
"""Everything here has a datapoint a minute, but the sizes of buckets (facts: AWS/FSx; request metrics of S3)."""
STATISTICS: Final = ("Average", "Maximum", "Minimum", "SampleCount", "Sum", "p50", "p90", "p99")
_FUNCTIONS: Final = {"Average": "AVG", "Maximum": "MAX", "Minimum": "MIN", "SampleCount": "COUNT", "Sum": "SUM"}
_TABLES: Final[Mapping[str, Metric]] = {**OURS, **SERVICES}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One metric read with one statistic: a row of a graph, an input of an alarm.

    Attributes:
        id: Name in the expressions beside it: a lower-case letter, then letters, digits and ``_``.
        metric: The metric.
        dimensions: Values by name, in the order of the table.
        statistic: Statistic.
        period_s: Seconds of one datapoint.
    """

    id: str
    metric: Metric
    dimensions: Mapping[str, str]
    statistic: str
    period_s: int = PERIOD_S

    def row(self, **options: Any) -> list[Any]:
        """Return the row of a widget's ``metrics``.

        Args:
            options: Further options, such as ``label``, ``color``, ``yAxis`` and ``visible``.
        """
        names = [part for pair in self.dimensions.items() for part in pair]
        given = {"id": self.id, "stat": self.statistic, "period": self.period_s, **options}
        return [self.metric.namespace, self.metric.name, *names, given]


@dataclass(frozen=True, slots=True, kw_only=True)
class Math:
    """An expression over readings.

    Attributes:
        expression: In the language of metric math.
        readings: What it refers to.
        label: What it is called.
    """

    expression: str
    readings: tuple[Reading, ...] = field(default=())
    label: str = ""


def read(
    key: str, statistic: str | None = None, *, id: str = "", period_s: int = PERIOD_S, **dimensions: str
) -> Reading:
    """Return a reading of a metric of the tables.

    Args:
        key: Key of ``OURS`` or ``SERVICES``, such as ``DataWaitTime`` or ``AWS/FSx DataReadBytes``.
        statistic: Statistic; that of the table when left out.
        id: Name in expressions; the metric's name with a small first letter when left out.
        period_s: Seconds of one datapoint.
        dimensions: Values by name; their names are one of the sets of the table.

    Raises:
        ValidationError: The metric, its set of dimensions or the statistic is in no table.
    """
    metric = _metric(key)
    names = _names(metric, dimensions)
    chosen = statistic or metric.statistic
    if chosen not in STATISTICS:
        raise ValidationError(
            Problem(what="not a statistic", path=key, value=chosen, allowed=", ".join(STATISTICS)), where="metrics"
        )
    return Reading(
        id=id or metric.name[0].lower() + metric.name[1:],
        metric=metric,
        dimensions={name: dimensions[name] for name in names},
        statistic=chosen,
        period_s=period_s,
    )


def cloudwatch_metric(
    key: str, statistic: str | None = None, *, period_s: int = PERIOD_S, label: str | None = None, **dimensions: str
) -> cloudwatch.Metric:
    """Return a metric of the tables for widgets and alarms of your own.

    Example:
        ```python
        waits = cloudwatch_metric("DataWaitShare", Workload="llama3-70b", InstanceId="i-0123456789abcdef0")
        ```

    Args:
        key: Key of ``training_storage.node.metrics.OURS`` or ``SERVICES``.
        statistic: Statistic; that of the table when left out.
        period_s: Seconds of one datapoint.
        label: What it is called in a graph; CloudWatch's own name when left out.
        dimensions: Values by name; their names are one of the sets of the table.

    Raises:
        ValidationError: The metric, its set of dimensions or the statistic is in no table.
    """
    from aws_cdk import Duration
    from aws_cdk import aws_cloudwatch as cloudwatch

    reading = read(key, statistic, period_s=period_s, **dimensions)
    return cloudwatch.Metric(
        namespace=reading.metric.namespace,
        metric_name=reading.metric.name,
        dimensions_map=dict(reading.dimensions),
        statistic=reading.statistic,
        period=Duration.seconds(reading.period_s),
        label=label,
    )


def search(key: str, statistic: str | None = None, *, over: Iterable[str], **dimensions: str) -> str:
    """Return a search for a metric under dimensions whose values nobody knows at synth; no alarm can stand on one.

    Args:
        key: Key of ``OURS`` or ``SERVICES``.
        statistic: Statistic; that of the table when left out.
        over: Names of the dimensions that are searched over.
        dimensions: Values that are known, by name.

    Raises:
        ValidationError: The metric or its set of dimensions is in no table.
    """
    metric = _metric(key)
    names = _names(metric, [*dimensions, *over])
    # Names with a slash stand in quotes (CloudWatch User Guide, search expression syntax).
    schema = ",".join([f'"{metric.namespace}"' if "/" in metric.namespace else metric.namespace, *names])
    known = "".join(f' {name}="{dimensions[name]}"' for name in names if name in dimensions)
    return f"SEARCH('{{{schema}}} MetricName=\"{metric.name}\"{known}', '{statistic or metric.statistic}', {PERIOD_S})"


def farthest(expression: str, *, highest: bool = True, number: int = 5) -> str:
    """Return the few series of a search that stand out.

    Args:
        expression: The search.
        highest: Whether the highest means stand out; else the lowest do.
        number: How many are shown.
    """
    return f"SLICE(SORT({expression}, AVG, {'DESC' if highest else 'ASC'}), 0, {number})"


def select(key: str, statistic: str | None = None, *, over: Iterable[str], **dimensions: str) -> str:
    """Return a Metrics Insights query: one series over dimensions whose values nobody knows; alarms can stand on it.

    Args:
        key: Key of ``OURS`` or ``SERVICES``.
        statistic: Statistic that has a function there; that of the table when left out.
        over: Names of the dimensions that are looked over.
        dimensions: Values that are known, by name.

    Raises:
        ValidationError: The metric or its set of dimensions is in no table.
    """
    metric = _metric(key)
    names = _names(metric, [*dimensions, *over])
    where = " AND ".join(f"{name} = '{dimensions[name]}'" for name in names if name in dimensions)
    function = _FUNCTIONS[statistic or metric.statistic]
    schema = f'SCHEMA("{metric.namespace}", {", ".join(names)})'
    return f"SELECT {function}({metric.name}) FROM {schema} WHERE {where}"  # noqa: S608 - a query of CloudWatch, no SQL


def _metric(key: str) -> Metric:
    metric = _TABLES.get(key)
    if metric is None:
        near = get_close_matches(key, _TABLES, n=1)
        raise ValidationError(
            Problem(
                what="no metric of the tables",
                path="metric",
                value=key,
                allowed="a key of training_storage.node.metrics.OURS or SERVICES",
                fix=f"did you mean {near[0]!r}?" if near else "",
            ),
            where="metrics",
        )
    return metric


def _names(metric: Metric, given: Iterable[str]) -> tuple[str, ...]:
    wanted = frozenset(given)
    for names in metric.dimensions:
        if frozenset(names) == wanted:
            return names
    raise ValidationError(
        Problem(
            what="not written under these dimensions",
            path=metric.name,
            value=", ".join(sorted(wanted)) or "none",
            allowed=" or ".join(" and ".join(names) for names in metric.dimensions),
        ),
        where="metrics",
    )
