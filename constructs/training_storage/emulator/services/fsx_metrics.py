"""Metrics that FSx publishes about emulated Lustre file systems (namespace ``AWS/FSx``), one datapoint a minute.

From the creation of a file system on, every minute that is over has a datapoint: zero, what a test recorded, or what
the directory shows. Names and dimensions are those of the user guide (LustreGuide, "Amazon FSx for Lustre metrics and
dimensions"). moto keeps other metrics and answers about them; queries of both kinds may stand in one request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from weakref import WeakKeyDictionary

from moto.cloudwatch.models import CloudWatchBackend
from moto.fsx.models import FSxBackend

from training_storage.emulator import world
from training_storage.emulator._moto import Patches
from training_storage.emulator.services import fsx_files
from training_storage.emulator.services import fsx_repository as repository

_NAMESPACE = "AWS/FSx"
_MINUTE = 60
_ZERO = frozenset(
    {
        "DataReadBytes", "DataWriteBytes", "DataReadOperations", "DataWriteOperations", "MetadataOperations",
        "ClientConnections",
    }
)  # fmt: skip
_AGE = "AgeOfOldestQueuedMessage"
_FREE = "FreeDataStorageCapacity"

_Series = dict[int, float]
# By backend: values by file system and metric, and by the second in which their minute begins
_recorded: WeakKeyDictionary[FSxBackend, dict[tuple[str, str], _Series]] = WeakKeyDictionary()
_lives: WeakKeyDictionary[FSxBackend, dict[str, list[float]]] = WeakKeyDictionary()


def born(backend: FSxBackend, file_system_id: str, at: float) -> None:
    """Let the metrics of a file system begin."""
    _lives.setdefault(backend, {})[file_system_id] = [at, math.inf]


def gone(backend: FSxBackend, file_system_id: str) -> None:
    """Let the metrics of a file system end; what was published stays."""
    life = _lives.get(backend, {}).get(file_system_id)
    if life is not None:
        life[1] = world.now()


def record(backend: FSxBackend, file_system_id: str, name: str, value: float, at: float) -> None:
    """Keep the value of a metric in one minute.

    Args:
        backend: Where the file system is.
        file_system_id: The file system; its metrics begin with the first thing that is recorded of it.
        name: Metric.
        value: Added to what the minute has of bytes and operations; in place of it for everything else.
        at: A moment in that minute, seconds since 1970.
    """
    minute = int(at // _MINUTE * _MINUTE)
    series = _recorded.setdefault(backend, {}).setdefault((file_system_id, name), {})
    adds = name in _ZERO and name != "ClientConnections"
    series[minute] = value + (series.get(minute, 0.0) if adds else 0.0)
    life = _lives.setdefault(backend, {}).setdefault(file_system_id, [at, math.inf])
    life[0] = min(life[0], at)


def _known(life: list[float]) -> tuple[int, int]:
    """Return begin of the first minute that has a datapoint, and end of the last one."""
    until = min(world.now() - world.current().metrics_lag, life[1])
    return int(life[0] // _MINUTE * _MINUTE), int(until // _MINUTE * _MINUTE)


def _values(
    backend: FSxBackend, name: str, dimensions: dict[str, str]
) -> tuple[Callable[[int], float], list[float]] | None:
    """Return value by minute of one metric, and from when to when it lived; None where nothing is published."""
    file_system_id = dimensions.get("FileSystemId", "")
    life = _lives.get(backend, {}).get(file_system_id)
    wanted = {"FileSystemId", "Publisher"} if name == _AGE else {"FileSystemId"}
    if life is None or set(dimensions) != wanted:
        return None
    key = f"{name}/{dimensions['Publisher']}" if name == _AGE else name
    series = _recorded.get(backend, {}).get((file_system_id, key), {})
    if name in _ZERO:
        return lambda minute: series.get(minute, 0.0), life
    there: Any = backend.file_systems.get(file_system_id)
    if name == _FREE and there is not None and there.storage_capacity:
        free = float(there.storage_capacity * 1024**3 - fsx_files.states(file_system_id).used())
        return lambda minute: series.get(minute, free), life
    if name == _AGE and there is not None:
        links = [fsx_files.link_of(item) for item in repository.store(backend).links(file_system_id)]
        age = fsx_files.queue_age(file_system_id, links, dimensions["Publisher"])
        if age is None and not series:
            return None
        since = world.now() - (age or 0.0)
        end = _known(life)[1]

        def waiting(minute: int) -> float:
            # the newest minute shows what waits now, also where its change came after it
            least = age or 0.0 if minute == end - _MINUTE else 0.0
            return series.get(minute, max(least, minute - since) if age else 0.0)

        return waiting, life
    return (lambda minute: series[minute], life) if series else None


def _periods(
    start: float, end: float, period: int, life: list[float], minutes: Any
) -> Iterator[tuple[int, list[float]]]:
    first, last = _known(life)
    for begin in range(int(start // period * period), math.ceil(end), period):
        known = range(max(begin, first), min(begin + period, last), _MINUTE)
        values = []
        for minute in known:
            try:
                values.append(minutes(minute))
            except KeyError:
                continue
        if values:
            yield begin, values


def _statistic(name: str, values: list[float]) -> float:
    known: dict[str, Callable[[list[float]], float]] = {
        "Sum": math.fsum,
        "Maximum": max,
        "Minimum": min,
        "Average": lambda given: math.fsum(given) / len(given),
        "SampleCount": len,
    }
    if name not in known:
        raise NotImplementedError(f"the emulator has no statistic {name} of FSx metrics")
    return float(known[name](values))


def _points(
    cloudwatch: CloudWatchBackend, stat: dict[str, Any], start: datetime, end: datetime
) -> list[tuple[datetime, float]]:
    from moto.fsx.models import fsx_backends

    metric = stat["Metric"]
    backend = fsx_backends[cloudwatch.account_id][cloudwatch.region_name]
    dimensions = {one["Name"]: one["Value"] for one in metric.get("Dimensions") or ()}
    found = _values(backend, metric["MetricName"], dimensions)
    if found is None:
        return []
    spans = _periods(_epoch(start), _epoch(end), int(stat["Period"]), found[1], found[0])
    return [
        (datetime.fromtimestamp(begin, tz=UTC).replace(tzinfo=None), _statistic(stat["Stat"], values))
        for begin, values in spans
    ]


def _epoch(moment: datetime) -> float:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _ours(query: dict[str, Any]) -> bool:
    return bool(query.get("MetricStat", {}).get("Metric", {}).get("Namespace") == _NAMESPACE)


def install(patches: Patches) -> None:
    """Answer about FSx; leave everything else to moto, in the same request too."""
    get_data, get_statistics = CloudWatchBackend.get_metric_data, CloudWatchBackend.get_metric_statistics

    def get_metric_data(
        self: Any,
        queries: list[dict[str, Any]],
        start_time: datetime,
        end_time: datetime,
        scan_by: str = "TimestampAscending",
    ) -> list[dict[str, Any]]:
        ours = [query for query in queries if _ours(query)]
        if not ours:
            return get_data(self, queries, start_time, end_time, scan_by)
        stats = [query for query in queries if "MetricStat" in query and not _ours(query)]
        shown = [{**query, "ReturnData": True} for query in stats]
        results = get_data(self, shown, start_time, end_time, scan_by) if shown else []
        for query in ours:
            points = _points(self, query["MetricStat"], start_time, end_time)
            if scan_by == "TimestampDescending":
                points.reverse()
            label = query.get("Label") or query["MetricStat"]["Metric"]["MetricName"]
            results.append(_result(query, label, points))
        by_id = {result["id"]: result for result in results}
        for query in queries:
            if "Expression" in query:
                from moto.cloudwatch.metric_data_expression_parser import parse_expression

                values, timestamps = parse_expression(query["Expression"], results)
                made: list[tuple[Any, Any]] = list(zip(timestamps, values, strict=True))
                by_id[query["Id"]] = _result(query, query.get("Label") or query["Id"], made)
        return [by_id[query["Id"]] for query in queries if str(query.get("ReturnData", True)).lower() != "false"]

    def get_metric_statistics(self: Any, namespace: str, metric_name: str, *given: Any, **more: Any) -> Any:
        if namespace != _NAMESPACE:
            return get_statistics(self, namespace, metric_name, *given, **more)
        return _statistics(self, metric_name, *given, **more)

    patches.set(CloudWatchBackend, "get_metric_data", get_metric_data)
    patches.set(CloudWatchBackend, "get_metric_statistics", get_metric_statistics)


def _result(query: dict[str, Any], label: str, points: list[tuple[Any, Any]]) -> dict[str, Any]:
    return {
        "id": query["Id"],
        "label": label,
        "timestamps": [moment for moment, _ in points],
        "values": [value for _, value in points],
        "status_code": "Complete",
    }


def _statistics(
    cloudwatch: Any,
    metric_name: str,
    start_time: datetime,
    end_time: datetime,
    period: int,
    stats: list[str],
    dimensions: list[dict[str, str]],
    unit: str | None = None,  # noqa: ARG001 - as moto calls it; FSx metrics have one unit each
) -> list[dict[str, Any]]:
    metric = {"MetricName": metric_name, "Dimensions": dimensions}
    found: dict[datetime, dict[str, Any]] = {}
    for stat in stats:
        query = {"Metric": metric, "Period": period, "Stat": stat}
        for moment, value in _points(cloudwatch, query, start_time, end_time):
            found.setdefault(moment, {"Timestamp": moment, "Unit": "None"})[stat] = value
    return [found[moment] for moment in sorted(found)]
