"""An observation out of records in embedded metric format: files and standard outputs that telemetry has written."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from training_storage.errors import Problem, ValidationError
from training_storage.node.metrics.model import INSTANCE, NAMESPACE, RANK_NAME, RUN, WORKLOAD
from training_storage.node.metrics.ours import OURS
from training_storage.operations.diagnosis.folding import Sample, end_of_period, fold
from training_storage.operations.diagnosis.observation import Observation
from training_storage.operations.diagnosis.saved import LARGEST, LATEST_S
from training_storage.planner.expectations import Expectations

_MARK: Final = '"_aws"'
_PERIOD_S: Final = 60.0
_APART: Final = ("Kind", "Source")
_SETS: Final = {name: {frozenset(names) for names in metric.dimensions} for name, metric in OURS.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What was read out of lines.

    Attributes:
        samples: Values of metrics that the tables know.
        workloads: Names of the workloads that records are of.
        moments: When each source (node, process or kind of storage) wrote its records, seconds since 1970.
        records: Lines that were records.
        skipped: Lines that were none, empty ones left out.
    """

    samples: tuple[Sample, ...]
    workloads: frozenset[str]
    moments: Mapping[tuple[str, ...], tuple[float, ...]]
    records: int
    skipped: int


def read_records(lines: Iterable[str]) -> Records:
    """Return the samples of lines; what is no record is skipped, also a record within a line of a log.

    Args:
        lines: Lines of a file.
    """
    samples: list[Sample] = []
    moments: dict[tuple[str, ...], list[float]] = defaultdict(list)
    records = skipped = 0
    for line in lines:
        found = _record(line)
        if found is None:
            skipped += bool(line.strip())
            continue
        records += 1
        source, values = found
        samples += values
        if values:
            moments[source].append(values[0].moment)
    return Records(
        samples=tuple(samples),
        workloads=frozenset(each.dimensions[WORKLOAD] for each in samples),
        moments={source: tuple(sorted(found)) for source, found in moments.items()},
        records=records,
        skipped=skipped,
    )


def observe_records(read: Records, *, workload: str | None = None, expected: Expectations | None = None) -> Observation:
    """Return an observation of records, folded as CloudWatch folds them.

    Periods are minutes, as in CloudWatch. Where records came more often than that and all of them span less than five
    minutes, a period is as long as the time between two records of one source.

    Args:
        read: What was read.
        workload: Name of the workload. Left out: that of the records.
        expected: What the plan says. Left out: not known.

    Raises:
        ValidationError: No line is a record, or records are of several workloads and none is named, or of none of it.
    """
    if not read.samples:
        lines = read.records + read.skipped
        raise ValidationError(
            Problem(
                what=f"no line is a record of ours (of {lines:,})" if lines else "is empty",
                allowed="an observation, which diagnose NAME --save wrote, or lines that telemetry wrote with "
                "TRAINING_STORAGE_METRICS=file:PATH or stdout",
            )
        )
    named = ", ".join(sorted(read.workloads))
    if workload is None:
        if len(read.workloads) > 1:
            raise ValidationError(
                Problem(what=f"the records are of several workloads: {named}", fix="name one of them")
            )
        (workload,) = read.workloads
    samples = [each for each in read.samples if each.dimensions[WORKLOAD] == workload]
    if not samples:
        raise ValidationError(Problem(what="no record is of this workload", value=workload, allowed=named))
    moments = [each.moment for each in samples]
    first, last = min(moments), max(moments)
    gap = _gap(found for source, found in read.moments.items() if source[0] == workload)
    if gap is not None and gap < _PERIOD_S and last - first < 5 * _PERIOD_S:
        # Records of one source are a gap apart: each falls into a period of its own, whatever its jitter.
        period_s = gap
        series = fold(samples, lambda moment: first + round((moment - first) / gap) * gap)
        since = first - gap
    else:
        period_s = _PERIOD_S
        series = fold(samples, end_of_period(period_s))
        since = math.floor(first / period_s) * period_s
    unknown = (f"{read.skipped:,} lines of the file are no records",) if read.skipped else ()
    return Observation(
        workload=workload,
        since=since,
        until=last,
        period_s=period_s,
        series=series,
        expected=expected,
        facts={},
        unknown=(*unknown, "what only AWS knows: the file system, its links and tasks, the buckets"),
    )


def _gap(sources: Iterable[tuple[float, ...]]) -> float | None:
    """Return the usual time between two records of one source; None where no source has two."""
    gaps = [later - earlier for moments in sources for earlier, later in pairwise(moments) if later > earlier]
    return statistics.median(gaps) if gaps else None


def _record(line: str) -> tuple[tuple[str, ...], list[Sample]] | None:
    """Return the source of a line and its samples; None where it is no record."""
    begin = line.find("{")
    if begin < 0 or _MARK not in line:
        return None
    try:
        found = json.loads(line[begin:])
        about = found["_aws"]
        moment = float(about["Timestamp"]) / 1000
        directives = [
            (each["Dimensions"], [str(metric["Name"]) for metric in each["Metrics"]])
            for each in about["CloudWatchMetrics"]
            if each["Namespace"] == NAMESPACE
        ]
        samples: list[Sample] = []
        for sets, metrics in directives:
            under = [
                (frozenset(names), {key: str(found[key]) for key in names})
                for names in sets
                if all(isinstance(key, str) and key in found for key in names)
            ]
            for name in metrics:
                known = _SETS.get(name, ())
                if known and (values := _values(found.get(name))):
                    samples += [Sample(name, of, moment, values) for names, of in under if names in known]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
    # Rank and run stand in the record also where they are no dimensions.
    source = tuple(str(found.get(name, "")) for name in (WORKLOAD, INSTANCE, RUN, RANK_NAME, *_APART))
    return (source, samples) if 0 <= moment <= LATEST_S else None


def _values(given: Any) -> tuple[float, ...]:
    values = given if isinstance(given, list) else [given]
    return tuple(
        float(each)
        for each in values
        if isinstance(each, int | float) and not isinstance(each, bool) and abs(each) <= LARGEST
    )
