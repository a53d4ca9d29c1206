"""Records in CloudWatch's embedded metric format: one line of JSON that is a log event and metrics at once.

Source of the rules: CloudWatch user guide, "Specification: Embedded metric format": at most 100 metrics in a directive,
100 values in a metric, 30 dimensions in a set, names of at most 1,024 characters, values that are finite numbers. Of
PutMetricData: values within 2^360 on both sides; values of dimensions are ASCII without control characters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Union

from .metrics.model import NAMESPACE
from .metrics.ours import OURS

_LARGEST = 2.0**360
"""CloudWatch takes no value beyond it, nor any metric of a record that has one."""

Value = Union[float, Sequence[float]]
"""One number, or up to ``MAX_VALUES`` of them."""

MAX_VALUES = 100
LOG_GROUP_PREFIX = "/training-storage/"


def log_group(workload: str) -> str:
    """Return the log group that a workload's records go to.

    Args:
        workload: Name of the workload.
    """
    return f"{LOG_GROUP_PREFIX}{workload}/metrics"


def record(
    values: Mapping[str, Value],
    dimensions: Mapping[str, str],
    *,
    timestamp_s: float,
    properties: Mapping[str, Any] | None = None,
    only: Sequence[tuple[str, ...]] | None = None,
) -> dict[str, Any]:
    """Return one record; metrics of one set of dimensions stand in one directive, so that none is counted twice.

    A set of dimensions that is not wholly in ``dimensions`` is left out, and so is a value that is no finite number, or
    one that CloudWatch does not take.

    Args:
        values: Values by name of ``OURS``.
        dimensions: Value by name of dimension; empty ones count as missing.
        timestamp_s: End of the interval, seconds since 1970.
        properties: What else the log event holds; it makes no metric and costs none.
        only: Sets of dimensions to keep to. Left out: all that ``dimensions`` has the values of.

    Raises:
        KeyError: A name is not in ``OURS``.
    """
    given = {name: text for name, value in dimensions.items() if (text := _text(value))}
    kept = {name: clean for name, value in values.items() if (clean := _finite(value)) is not None}
    by_sets: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name in kept:
        sets = tuple(
            each for each in OURS[name].dimensions if given.keys() >= set(each) and (only is None or each in only)
        )
        if sets:
            by_sets.setdefault(sets, []).append(name)
    return {
        "_aws": {
            "Timestamp": round(timestamp_s * 1000),
            "LogGroupName": log_group(given["Workload"]) if "Workload" in given else f"{LOG_GROUP_PREFIX}metrics",
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [list(each) for each in sets],
                    "Metrics": [{"Name": name, "Unit": OURS[name].unit} for name in names],
                }
                for sets, names in by_sets.items()
            ],
        },
        **(properties or {}),
        **given,
        **kept,
    }


def line(given: Mapping[str, Any]) -> bytes:
    """Return a record as one line, its newline included."""
    return json.dumps(given, separators=(",", ":"), allow_nan=False, default=str).encode() + b"\n"


def _finite(value: Value) -> float | list[float] | None:
    if isinstance(value, Sequence):
        return [number for each in value if (number := _number(each)) is not None][:MAX_VALUES] or None
    return _number(value)


def _number(value: float) -> float | None:
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and abs(number) <= _LARGEST else None


def _text(value: object) -> str:
    """Return the value of a dimension as CloudWatch takes it: printable ASCII, at most 1,024 characters.

    What is not ASCII is written as Python writes it, so that two values stay two.
    """
    escaped = str(value).strip().encode("ascii", "backslashreplace").decode()
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in escaped)[:1024]
