"""Records for OpenTelemetry: a metrics export request as JSON over HTTP, with nothing but the standard library.

Source of the shape: OpenTelemetry protocol 1.x, ``ExportMetricsServiceRequest`` in its JSON mapping: 64-bit integers
are strings, enumerations numbers.
"""

from __future__ import annotations

import http.client
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from ..metrics.ours import OURS
from .sinks import LARGEST

_UNITS = {"Seconds": "s", "Milliseconds": "ms", "Bytes": "By", "Percent": "%", "Count": "1"}
_DELTA = 1
_QUANTILES = (0.0, 0.5, 0.9, 0.99, 1.0)
_WAIT_S = 1.0


class Otlp:
    """A collector.

    Args:
        endpoint: ``http://host:port``; ``/v1/metrics`` is added where it has no path.
    """

    def __init__(self, endpoint: str) -> None:
        parts = urllib.parse.urlsplit(endpoint)
        self._secure = parts.scheme == "https"
        self._host = parts.netloc
        self._path = parts.path if parts.path.strip("/") else "/v1/metrics"

    def send(self, record: Mapping[str, Any]) -> None:
        """Post one export request."""
        body = json.dumps(request(record), separators=(",", ":"), allow_nan=False).encode()
        if len(body) > LARGEST:
            raise ValueError(f"a record of {len(body)} bytes is longer than {LARGEST}")
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = kind(self._host, timeout=_WAIT_S)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read(LARGEST)
            if not 200 <= answer.status < 300:
                raise OSError(f"{self._host} answered {answer.status}")
        except http.client.HTTPException as error:
            raise OSError(f"{self._host}: {error!r}") from error
        finally:
            connection.close()

    def close(self) -> None:
        """Nothing is kept open."""


def request(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the export request of a record: sums as deltas, lists as summaries, everything else as gauges.

    Args:
        record: In embedded metric format; its workload names the service, other dimensions are attributes.
    """
    end = int(record["_aws"]["Timestamp"]) * 1_000_000
    begin = end - int(float(record.get("IntervalSeconds", 0)) * 1e9)
    times = {"startTimeUnixNano": str(begin), "timeUnixNano": str(end)}
    attributes = [_attribute(name, record[name]) for name in ("InstanceId", "Run", "Rank") if name in record]
    metrics = [
        {"name": name, "unit": _UNITS.get(OURS[name].unit, OURS[name].unit), **_data(name, value, times, attributes)}
        for name, value in record.items()
        if name in OURS
    ]
    return {
        "resourceMetrics": [
            {
                "resource": {"attributes": [_attribute("service.name", record.get("Workload", ""))]},
                "scopeMetrics": [{"scope": {"name": "training_storage.telemetry"}, "metrics": metrics}],
            }
        ]
    }


def _data(name: str, value: Any, times: Mapping[str, str], attributes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    point: dict[str, Any] = {**times, "attributes": list(attributes)}
    if isinstance(value, list):
        values = sorted(value)
        point["count"] = str(len(values))
        point["sum"] = sum(values)
        point["quantileValues"] = [
            {"quantile": each, "value": values[min(int(each * len(values)), len(values) - 1)]} for each in _QUANTILES
        ]
        return {"summary": {"dataPoints": [point]}}
    point["asDouble"] = float(value)
    if OURS[name].statistic == "Sum":
        return {"sum": {"dataPoints": [point], "aggregationTemporality": _DELTA, "isMonotonic": True}}
    return {"gauge": {"dataPoints": [point]}}


def _attribute(name: str, value: Any) -> dict[str, Any]:
    return {"key": name, "value": {"stringValue": str(value)}}
