"""What CloudWatch knows of writes to a file system, rounded to the side of a write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from training_storage.node.release.activity import Activity, NoMetricsError, activity

DAY = 86_400
NOW = 1_800_000_000.0  # a whole minute, and not a whole hour
ID = "fs-0123456789abcdef0"


class CloudWatch:
    """Keeps one datapoint a minute as long as CloudWatch does, and answers in pages."""

    def __init__(self, now: float, lag: float = 120, page: int = 100_000) -> None:
        self.now, self.lag, self.page = now, lag, page
        self.born = now - 455 * DAY
        self.writes: dict[float, float] = {}
        self.statuses: list[str] = []
        self.asked: list[tuple[int, float, float]] = []

    def __call__(self, service: str) -> CloudWatch:
        assert service == "cloudwatch"
        return self

    def get_metric_data(self, **given: Any) -> dict[str, Any]:
        start, end = given["StartTime"].timestamp(), given["EndTime"].timestamp()
        first = int(given.get("NextToken", 0))
        results, more = [], False
        for query in given["MetricDataQueries"]:
            stat = query["MetricStat"]
            assert stat["Metric"]["Dimensions"] == [{"Name": "FileSystemId", "Value": ID}]
            period = stat["Period"]
            points = self._points(stat["Metric"]["MetricName"], period, start, end)
            more = more or len(points) > first + self.page
            part = points[first : first + self.page]
            results.append(
                {
                    "Id": query["Id"],
                    "Label": stat["Metric"]["MetricName"],
                    "Timestamps": [datetime.fromtimestamp(at, UTC) for at, _ in part],
                    "Values": [value for _, value in part],
                    "StatusCode": "PartialData" if more else "Complete",
                }
            )
        if not first:
            self.asked.append((period, start, end))
        if self.statuses:
            results[0]["StatusCode"] = self.statuses.pop(0)
        return {"MetricDataResults": results, **({"NextToken": str(first + self.page)} if more else {})}

    def _points(self, name: str, period: int, start: float, end: float) -> list[tuple[float, float]]:
        kept = {60: 15 * DAY, 300: 63 * DAY, 3600: 455 * DAY}[period]
        found = []
        at = start
        while at < end:
            if at >= max(self.now - kept, self.born) and at + 60 <= self.now - self.lag:
                inside = [value for moment, value in self.writes.items() if at <= moment < at + period]
                found.append((at, sum(inside) if name == "DataWriteBytes" else float(len(inside))))
            at += period
        return found


def look(cloudwatch: CloudWatch, since: float, until: float = NOW) -> Activity:
    return activity(cloudwatch, ID, since, until, clock=lambda: cloudwatch.now)


def test_a_quiet_hour_says_until_when_it_is_known() -> None:
    found = look(CloudWatch(NOW), NOW - 3600)
    assert (found.write_bytes, found.last_write) == (0, None)
    assert found.known_until == NOW - 120
    assert found.max_connections == 0


def test_a_write_counts_as_late_as_its_minute_ends() -> None:
    cloudwatch = CloudWatch(NOW)
    cloudwatch.writes = {NOW - 1790: 5.0, NOW - 600: 7.0}
    found = look(cloudwatch, NOW - 3600)
    assert (found.write_bytes, found.last_write) == (12, NOW - 600 + 60)
    assert found.max_connections == 1


def test_the_minute_that_holds_the_begin_counts_whole() -> None:
    cloudwatch = CloudWatch(NOW)
    cloudwatch.writes = {NOW - 600: 7.0}
    assert look(cloudwatch, NOW - 600 + 59).write_bytes == 7
    assert look(cloudwatch, NOW - 600 + 60).write_bytes == 0


def test_a_span_without_a_length_is_one_minute() -> None:
    cloudwatch = CloudWatch(NOW)
    cloudwatch.writes = {NOW - 600: 7.0}
    assert look(cloudwatch, NOW - 590, NOW - 590).write_bytes == 7


@pytest.mark.parametrize(
    ("days", "width"), [(1, 60), (14, 60), (15, 300), (40, 300), (62, 300), (63, 3600), (200, 3600), (454, 3600)]
)
def test_an_old_write_is_seen_as_exactly_as_cloudwatch_keeps_it(days: int, width: int) -> None:
    cloudwatch = CloudWatch(NOW)
    written = NOW - days * DAY
    cloudwatch.writes = {written: 3.0}
    found = look(cloudwatch, NOW - 454.5 * DAY)
    assert found.write_bytes == 3
    assert found.last_write is not None
    assert written < found.last_write <= written + width
    # However old the begin is, the end is known to the minute.
    assert found.known_until == NOW - 120


def test_spans_leave_no_gap_and_do_not_overlap() -> None:
    cloudwatch = CloudWatch(NOW)
    look(cloudwatch, NOW - 100 * DAY)
    periods, starts, ends = zip(*cloudwatch.asked, strict=True)
    assert periods == (3600, 300, 60)
    assert ends[:-1] == starts[1:]
    assert starts[0] <= NOW - 100 * DAY
    assert ends[-1] >= NOW


def test_pages_are_one_answer() -> None:
    cloudwatch = CloudWatch(NOW, page=7)
    cloudwatch.writes = {NOW - minute * 60: 1.0 for minute in range(5, 60)}
    assert look(cloudwatch, NOW - 7200).write_bytes == 55


def test_the_newest_datapoint_says_until_when_it_is_known() -> None:
    cloudwatch = CloudWatch(NOW + 30, lag=-60)
    assert look(cloudwatch, NOW - 600, NOW + 30).known_until == NOW + 60


def test_a_file_system_without_datapoints_is_unknown_not_quiet() -> None:
    cloudwatch = CloudWatch(NOW)
    cloudwatch.born = NOW + DAY
    assert look(cloudwatch, NOW - 3600) == Activity(0, None, None, None)


@pytest.mark.parametrize("status", ["InternalError", "Forbidden", "PartialData"])
def test_half_an_answer_is_none(status: str) -> None:
    cloudwatch = CloudWatch(NOW)
    cloudwatch.statuses = [status]
    with pytest.raises(NoMetricsError, match=f"{status} for DataWriteBytes of {ID}"):
        look(cloudwatch, NOW - 600)
