"""Whether clients wrote to a Lustre file system in a span of time, as CloudWatch knows it.

FSx publishes one datapoint a minute for each file system (namespace ``AWS/FSx``, dimension ``FileSystemId``): the sum
of ``DataWriteBytes`` is what all clients wrote in that minute, the maximum of ``ClientConnections`` how many stood.
Every rounding here is to the side of a write: a minute that overlaps the span counts whole, and a write counts as late
as its minute ends. Datapoints come some minutes late, so an answer says until when it knows anything.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ..aws import Aws

NAMESPACE = "AWS/FSx"
WRITTEN = "DataWriteBytes"
CONNECTIONS = "ClientConnections"

_DAY_S = 86_400
_HOUR_S = 3_600
# CloudWatch keeps datapoints of one minute for 15 days, of five minutes for 63, of an hour for 455 (its API reference,
# GetMetricData), and answers with nothing where a shorter period is asked of an older time. Two hours are left between.
_PERIODS = ((_HOUR_S, None), (300, 63 * _DAY_S - 2 * _HOUR_S), (60, 15 * _DAY_S - 2 * _HOUR_S))
KEPT_S = 455 * _DAY_S
"""How long CloudWatch knows anything, in seconds: of what was before, no answer says that nothing was written."""

_Point = tuple[float, float, float]
"""Begin and end of a period, seconds since 1970, and what CloudWatch says of it."""


class NoMetricsError(Exception):
    """CloudWatch answered, and its answer is not whole: nothing follows from it."""


@dataclass(frozen=True)
class Activity:
    """What clients did to a file system in a span of time.

    Attributes:
        write_bytes: Bytes that clients wrote.
        last_write: Seconds since 1970: end of the newest period in which clients wrote; None where they did not.
        known_until: Seconds since 1970: end of the newest period that has a datapoint of what was written; None where
            none has. Of later moments nothing is known, and each server of a file system reports for itself: a minute
            is whole once the next one has a datapoint too.
        max_connections: Most connections of clients at any time; None where CloudWatch has no datapoint of them.
        known_from: Seconds since 1970: begin of the oldest such period; None where it knows of none.
    """

    write_bytes: float
    last_write: float | None
    known_until: float | None
    max_connections: float | None
    known_from: float | None = None


def activity(
    aws: Aws, file_system_id: str, since: float, until: float, *, clock: Callable[[], float] = time.time
) -> Activity:
    """Return what clients did to a file system from one moment to another.

    It looks at each minute of the last 15 days, each five minutes of the last 63, each hour beyond: that is what
    CloudWatch keeps. What was before its 455 days it does not know, and neither does this.

    Args:
        aws: Clients.
        file_system_id: ``fs-...``.
        since: Seconds since 1970; the period that holds it counts whole.
        until: Seconds since 1970; the period that holds it counts whole.
        clock: The time, in seconds since 1970.

    Raises:
        ClientError: CloudWatch refused or failed.
        NoMetricsError: CloudWatch answered with a part only.
    """
    now = clock()
    written: list[_Point] = []
    connections: list[_Point] = []
    for period, start, end in _spans(since, until, now):
        for name, points in _points(aws, file_system_id, period, start, end).items():
            (written if name == "written" else connections).extend(points)
    writes = [end for _, end, value in written if value > 0]
    return Activity(
        write_bytes=math.fsum(value for *_, value in written),
        last_write=max(writes, default=None),
        known_until=max((end for _, end, _ in written), default=None),
        max_connections=max((value for *_, value in connections), default=None),
        known_from=min((begin for begin, *_ in written), default=None),
    )


def _spans(since: float, until: float, now: float) -> Iterator[tuple[int, float, float]]:
    """Yield period, begin and end of what is asked of CloudWatch, one after the other without a gap."""
    for number, (period, oldest) in enumerate(_PERIODS):
        newest = _PERIODS[number + 1][1] if number + 1 < len(_PERIODS) else None
        # Whole hours, so that no period of one span overlaps the next.
        begin = since if oldest is None else max(since, _whole_hour(now - oldest))
        end = until if newest is None else min(until, _whole_hour(now - newest))
        if begin < end or (begin == end == until and newest is None):
            start = math.floor(begin / period) * period
            yield period, start, max(math.ceil(end / period) * period, start + period)


def _whole_hour(moment: float) -> float:
    return float(math.ceil(moment / _HOUR_S) * _HOUR_S)


def _points(aws: Aws, file_system_id: str, period: int, start: float, end: float) -> dict[str, list[_Point]]:
    """Return begin, end and value of each period, by id of the query."""
    request: dict[str, Any] = {
        "MetricDataQueries": [
            _query("written", WRITTEN, "Sum", file_system_id, period),
            _query("connections", CONNECTIONS, "Maximum", file_system_id, period),
        ],
        "StartTime": datetime.fromtimestamp(start, timezone.utc),
        "EndTime": datetime.fromtimestamp(end, timezone.utc),
        "ScanBy": "TimestampAscending",
    }
    found: dict[str, list[_Point]] = {"written": [], "connections": []}
    token = ""
    while True:
        answer = aws("cloudwatch").get_metric_data(**request, **({"NextToken": token} if token else {}))
        token = answer.get("NextToken") or ""
        for each in answer["MetricDataResults"]:
            status = each.get("StatusCode", "Complete")
            # A part with more to come is a page; a part without is a hole that nobody could tell from quiet.
            if status != "Complete" and not (status == "PartialData" and token):
                name = each.get("Label", each["Id"])
                raise NoMetricsError(f"CloudWatch answers {status} for {name} of {file_system_id}")
            begins = [float(moment.timestamp()) for moment in each["Timestamps"]]
            found[each["Id"]] += [(at, at + period, float(value)) for at, value in zip(begins, each["Values"])]
        if not token:
            return found


def _query(name: str, metric: str, statistic: str, file_system_id: str, period: int) -> dict[str, Any]:
    return {
        "Id": name,
        "MetricStat": {
            "Metric": {
                "Namespace": NAMESPACE,
                "MetricName": metric,
                "Dimensions": [{"Name": "FileSystemId", "Value": file_system_id}],
            },
            "Period": period,
            "Stat": statistic,
        },
        "ReturnData": True,
    }
