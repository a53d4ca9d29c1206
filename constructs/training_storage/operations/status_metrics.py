"""The newest value of single metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from training_storage.node.aws import Aws
from training_storage.node.metrics import OURS, SERVICES
from training_storage.operations.questions import ask

_BACK_S: Final = 3600.0
_PERIOD_S: Final = 60


def newest(aws: Aws, wanted: Sequence[tuple[str, Mapping[str, str], str]], now: float) -> list[float | None]:
    """Return the newest value of the last hour of each metric; None where it has none.

    Args:
        aws: Clients.
        wanted: Key of the metrics' tables, dimensions and statistic, at most 500.
        now: Seconds since 1970.

    Raises:
        Unanswered: CloudWatch does not say.
    """

    def question() -> list[float | None]:
        queries: list[dict[str, Any]] = []
        for at, (metric, of, statistic) in enumerate(wanted):
            known = OURS.get(metric) or SERVICES[metric]
            named = [{"Name": name, "Value": value} for name, value in of.items()]
            about = {"Namespace": known.namespace, "MetricName": known.name, "Dimensions": named}
            queries.append({"Id": f"m{at}", "MetricStat": {"Metric": about, "Period": _PERIOD_S, "Stat": statistic}})
        page = aws("cloudwatch").get_metric_data(
            MetricDataQueries=queries,
            StartTime=datetime.fromtimestamp(now - _BACK_S, UTC),
            # The minute that goes on has the samples of some targets and nodes alone.
            EndTime=datetime.fromtimestamp(now // _PERIOD_S * _PERIOD_S, UTC),
            ScanBy="TimestampDescending",
        )
        found: dict[str, tuple[Any, float]] = {}
        for each in page["MetricDataResults"]:
            pairs = list(zip(each["Timestamps"], each["Values"], strict=True))
            if pairs:
                found[each["Id"]] = max(pairs, key=lambda pair: pair[0])
        return [float(found[f"m{at}"][1]) if f"m{at}" in found else None for at in range(len(wanted))]

    return ask("cloudwatch:GetMetricData", question)
