"""An observation as a file: JSON that ``diagnose NAME --save`` writes and ``diagnose --file`` reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from training_storage.errors import Problem, ValidationError
from training_storage.node.metrics import OURS, SERVICES
from training_storage.operations.diagnosis.observation import Observation, Series
from training_storage.planner.expectations import Expectations

FORMAT: Final = "training-storage-observation"
VERSION: Final = 1
LARGEST: Final = 2.0**360
"""Magnitude of the largest value that CloudWatch takes (CloudWatch API reference, MetricDatum)."""
LATEST_S: Final = 32_503_680_000.0
"""The year 3000: what is later is not in seconds."""
_STATISTICS: Final = ("Sum", "Average", "Maximum", "Minimum")


def to_dict(observation: Observation) -> dict[str, Any]:
    """Return an observation as plain data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "workload": observation.workload,
        "since": observation.since,
        "until": observation.until,
        "period_s": observation.period_s,
        "expected": None if observation.expected is None else observation.expected.to_dict(),
        "facts": dict(observation.facts),
        "unknown": list(observation.unknown),
        "series": [
            {
                "metric": each.metric,
                "dimensions": dict(each.dimensions),
                "statistic": each.statistic,
                "points": [list(point) for point in each.points],
            }
            for each in observation.series
        ],
    }


def to_text(observation: Observation) -> str:
    """Return an observation as JSON, a series a line."""
    whole = to_dict(observation)
    series = whole.pop("series")
    head = json.dumps(whole, indent=1)[:-2]
    return head + ',\n "series": [\n  ' + ",\n  ".join(json.dumps(each) for each in series) + "\n ]\n}\n"


def is_observation(given: Any) -> bool:
    """Return whether plain data says that it is an observation."""
    return isinstance(given, dict) and given.get("format") == FORMAT


def from_dict(given: Mapping[str, Any]) -> Observation:
    """Return what ``to_dict`` gave.

    Raises:
        ValidationError: It is not of this form, with the field that is wrong.
    """
    if given.get("version") != VERSION:
        raise ValidationError(
            Problem(
                what="this version of the observation is not known",
                path="version",
                value=given.get("version"),
                allowed=str(VERSION),
                fix="write it anew with diagnose NAME --save FILE",
            )
        )
    where = "workload"
    try:
        workload = str(given["workload"])
        where = "since, until and period_s"
        since, until, period_s = (_number(given[name]) for name in ("since", "until", "period_s"))
        if period_s <= 0 or not 0 <= since <= until <= LATEST_S:
            wrong = "a period is longer than 0 s, times are seconds since 1970, and the end is not before the begin"
            raise ValueError(wrong)  # noqa: TRY301 - one way out
        where = "expected"
        expected = None if given.get("expected") is None else read_expected(given["expected"])
        where = "facts"
        facts = _facts(given.get("facts") or {})
        where = "unknown"
        unknown = tuple(str(each) for each in given.get("unknown") or ())
        series = []
        for number, each in enumerate(given["series"]):
            where = f"series[{number}]"
            series.append(_series(each))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ValidationError(
            Problem(
                what=f"the observation cannot be read: {said}",
                path=where,
                fix="docs/diagnosis.md has its form; diagnose NAME --save FILE writes it",
            )
        ) from error
    return Observation(
        workload=workload,
        since=since,
        until=until,
        period_s=period_s,
        series=tuple(series),
        expected=expected,
        facts=facts,
        unknown=unknown,
    )


_TEXTS: Final = ("workload", "region", "instance_type", "hot", "file_access")
_FLAGS: Final = ("efa", "asynchronous", "import_events", "export_events")


def read_expected(given: Mapping[str, Any]) -> Expectations:
    """Return what a plan expects, read from plain data.

    Args:
        given: What ``Expectations.to_dict`` gave, nulls left out or not.

    Raises:
        KeyError: ``workload`` is missing.
        TypeError: A field is of another kind.
    """
    expected = Expectations.from_dict(given)
    for name in Expectations.__dataclass_fields__:
        value = getattr(expected, name)
        kinds: tuple[type, ...] = (
            (str,) if name in _TEXTS else (bool,) if name in _FLAGS else (dict,) if name == "paths" else (int, float)
        )
        if value is not None and (not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)):
            raise TypeError(f"{name} is {value!r}")
        if isinstance(value, int | float) and not 0 <= value <= LARGEST:
            raise TypeError(f"{name} is {value!r}, which is no size or rate")
    if not all(isinstance(each, str) for each in (expected.paths or {}).values()):
        raise TypeError(f"paths is {expected.paths!r}")
    return expected


def _facts(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts whose shape the rules can rely on: lists of texts where they join, texts where they name."""
    facts = dict(given)
    for name in ("associations", "tasks"):
        if not all(isinstance(each, dict) for each in facts.get(name, ())):
            raise TypeError(f"{name} is no list of objects")
    for name in ("bucket_notification", "file_system"):
        if not isinstance(facts.get(name, {}), dict):
            raise TypeError(f"{name} is no object")
    for each in facts.get("bucket_notification", {}).values():
        if not isinstance(each, dict) or not _texts(each.get("ids")):
            raise TypeError("bucket_notification has no object for each bucket, or no list of ids in one")
    for each in facts.get("associations", ()):
        if not all(_texts(each.get(way)) for way in ("import", "export")):
            raise TypeError("import and export of an association are lists of events")
        for name in ("id", "path", "source", "bucket", "lifecycle", "message"):
            if not isinstance(each.get(name, ""), str):
                raise TypeError(f"{name} of an association is {each[name]!r}")
    return facts


def _texts(given: Any) -> bool:
    return given is None or (isinstance(given, list) and all(isinstance(each, str) for each in given))


def _series(given: Mapping[str, Any]) -> Series:
    metric, statistic = given["metric"], given["statistic"]
    if metric not in OURS and metric not in SERVICES:
        raise ValueError(f"metric {metric!r} is in no table of metrics")
    if statistic not in _STATISTICS:
        raise ValueError(f"statistic {statistic!r}; allowed: {', '.join(_STATISTICS)}")
    points = sorted((_number(moment), _number(value)) for moment, value in given["points"])
    return Series(
        metric=metric,
        dimensions={str(name): str(value) for name, value in given["dimensions"].items()},
        statistic=statistic,
        points=tuple(points),
    )


def _number(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not abs(given) <= LARGEST:
        raise TypeError(f"{str(given)[:40]} is no finite number that a metric can have")
    return float(given)
