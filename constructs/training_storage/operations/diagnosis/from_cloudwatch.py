"""An observation of what is deployed: CloudWatch, and what FSx, S3 and Systems Manager say besides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from training_storage.errors import Problem, RefusedError, ValidationError
from training_storage.node.aws import Aws
from training_storage.node.metrics import OURS, SERVICES
from training_storage.node.metrics.model import INSTANCE, NAMESPACE, RANK, WORKLOAD
from training_storage.node.metrics.services import FILE_SYSTEM, PUBLISHER, PUBLISHERS
from training_storage.operations import deployed_facts
from training_storage.operations.deployment import DATA_LAKE_BUCKET_NAME, DIRECTORY_BUCKET_NAMES, FILE_SYSTEM_ID
from training_storage.operations.diagnosis import wanted
from training_storage.operations.diagnosis.observation import Observation, Series
from training_storage.operations.diagnosis.wanted import Wanted
from training_storage.operations.questions import Unanswered, ask, ask_all, prepare
from training_storage.planner.expectations import Expectations

S3_FILE_SYSTEM_ID: Final = "S3FileSystemId"
"""Output of the hot stack; a test compares it with the stack."""

BATCH: Final = 500
"""Metrics that GetMetricData takes in one call (CloudWatch API reference)."""
DATAPOINTS: Final = 100_800
"""Datapoints that it returns in one call (the same)."""
MOST_SERIES: Final = 20_000
"""Series that are asked for at most: CloudWatch charges 0.01 USD for 1,000."""
_RECENT_S: Final = 3 * 3600.0
"""ListMetrics can leave out what has had no datapoint for three hours, and nothing else."""
_DAY_S: Final = 86_400.0
# CloudWatch keeps datapoints of one minute for 15 days, of five minutes for 63, of an hour for 455.
_KEPT: Final = ((60.0, 15 * _DAY_S), (300.0, 63 * _DAY_S), (3600.0, 455 * _DAY_S))
_MOST_PERIODS: Final = 1440
"""Periods of a series: a day by the minute. More says nothing more."""

_STACKS: Final = ("hot", "lake", "compute")
_NODE_NAMES: Final = ("ElapsedTime", "StorageReadBytes", "MountsMissing", "nvidia_smi_utilization_gpu")
"""Metrics of nodes that are listed for the ids of nodes and ranks: telemetry's, the collector's two, the agent's."""

_Query = tuple[str, dict[str, str], str]


def period_of(since: float, until: float, now: float) -> float:
    """Return the length of a period, seconds: a minute, or as long as CloudWatch still keeps and rules need.

    Raises:
        ValidationError: CloudWatch keeps nothing of that time.
    """
    for period_s, kept_s in _KEPT:
        if now - since < kept_s and (until - since) / period_s <= _MOST_PERIODS:
            return period_s
    back, long = (now - since) / _DAY_S, (until - since) / _DAY_S
    raise ValidationError(
        Problem(
            what="CloudWatch keeps nothing of this time, or rules need more of it than can be asked for",
            path="since",
            value=f"{back:,.0f} days back, over {long:,.0f} days",
            allowed="at most 60 days at a time, no more than 455 days back",
        )
    )


def observe(
    aws: Aws, name: str, since: float, until: float, *, now: float, expected: Expectations | None = None
) -> Observation:
    """Return what is known of a workload in a span of time.

    Args:
        aws: Clients.
        name: Workload name.
        since: Begin, seconds since 1970.
        until: End, seconds since 1970.
        now: The time.
        expected: What the plan says. Left out: what the stack of monitoring keeps.

    Raises:
        ValidationError: CloudWatch keeps nothing of that time.
        RefusedError: Nothing of that name is there.
        AwsError: AWS does not know the caller.
    """
    period_s = period_of(since, until, now)
    begin, end = since // period_s * period_s, until // period_s * period_s
    prepare(aws, "cloudformation", "cloudwatch", "fsx", "s3", "ssm")
    unknown: list[str] = []
    stacks = _answered(
        ask_all({part: lambda part=part: deployed_facts.stack(aws, f"{name}-{part}") for part in _STACKS}),  # type: ignore[misc]  # mypy cannot infer a lambda with a default
        unknown,
        "stack {}".format,
    )
    outputs = deployed_facts.outputs(stacks.get("lake")) | deployed_facts.outputs(stacks.get("hot"))
    facts = _facts(aws, name, outputs, unknown, expected)
    told = facts.pop("expected", None) or expected
    queries, cut = _queries(aws, name, outputs, unknown, recent=now - since < _RECENT_S)
    if cut:
        unknown.append(f"{cut:,} series of ranks and nodes, as more than {MOST_SERIES:,} were there")
    series = _series(aws, queries, begin, max(end, begin + period_s), period_s, unknown)
    if not series and len(stacks) == len(_STACKS) and not any(stacks.values()):
        raise RefusedError(
            f"no stack of a workload {name!r} is there, and no metric of it in this time; fix: check the name, which "
            "stands in the workload file, and --region, --profile and --since"
        )
    return Observation(
        workload=name,
        since=begin,
        until=max(end, begin),
        period_s=period_s,
        series=series,
        expected=told,
        facts=facts,
        unknown=tuple(unknown),
    )


def _answered(answers: Mapping[str, Any], unknown: list[str], called: Any = str) -> dict[str, Any]:
    """Return the answers, and note the others."""
    found = {}
    for name, answer in answers.items():
        if isinstance(answer, Unanswered):
            unknown.append(f"{called(name)}: {answer.why}")
        else:
            found[name] = answer
    return found


def _facts(
    aws: Aws, name: str, outputs: Mapping[str, str], unknown: list[str], expected: Expectations | None
) -> dict[str, Any]:
    questions: dict[str, Any] = {}
    if expected is None:
        questions["expected"] = lambda: deployed_facts.expected(aws, name)
    system = outputs.get(FILE_SYSTEM_ID)
    if system:
        questions |= {
            "file_system": lambda: deployed_facts.file_system(aws, system),
            "associations": lambda: deployed_facts.associations(aws, system),
            "tasks": lambda: deployed_facts.tasks(aws, system),
        }
    words = {"expected": "what the plan expects", "file_system": "the file system", "associations": "its links"}
    found = _answered(ask_all(questions), unknown, lambda key: words.get(key, f"its {key}"))
    buckets = sorted({each["bucket"] for each in found.get("associations", ()) if each["import"]})
    notified = _answered(
        ask_all({bucket: lambda bucket=bucket: deployed_facts.notification(aws, bucket) for bucket in buckets}),  # type: ignore[misc]  # as above
        unknown,
        "notifications of {}".format,
    )
    return {**found, "bucket_notification": notified}


# -- what to ask for


def _queries(
    aws: Aws, name: str, outputs: Mapping[str, str], unknown: list[str], *, recent: bool
) -> tuple[list[_Query], int]:
    """Return the series to ask for, those of the whole first, and how many were left out."""
    listings: dict[str, Any] = {
        metric: lambda metric=metric: _list(
            aws, recent, Namespace=NAMESPACE, MetricName=metric, Dimensions=[{"Name": WORKLOAD, "Value": name}]
        )
        for metric in _NODE_NAMES
    }
    system = outputs.get(FILE_SYSTEM_ID)
    if system:
        listings["AWS/FSx"] = lambda: _list(
            aws, recent, Namespace="AWS/FSx", Dimensions=[{"Name": FILE_SYSTEM, "Value": system}]
        )
    answers = ask_all(listings)
    failed = sorted({each.why for each in answers.values() if isinstance(each, Unanswered)})
    unknown += [f"ids of nodes, ranks and file servers: {why}" for why in failed]
    ours = [of for metric in _NODE_NAMES if not isinstance(answers[metric], Unanswered) for _, of in answers[metric]]
    nodes = sorted({of[INSTANCE] for of in ours if INSTANCE in of})
    ranks = {tuple(sorted(of.items())): of for of in ours if set(of) == set(RANK)}
    queries = _of(wanted.FLEETS, [{WORKLOAD: name}])
    if system:
        of = {FILE_SYSTEM: system}
        listed = answers.get("AWS/FSx")
        there = [] if isinstance(listed, Unanswered) or listed is None else listed
        queries += _of(wanted.FILE_SYSTEMS, [of])
        queries += _of(wanted.QUEUES, [{**of, PUBLISHER: each} for each in PUBLISHERS])
        queries += [
            (metric, found, statistic)
            for metric, names, statistic in (*wanted.SERVERS, *wanted.TARGETS)
            for listed_name, found in there
            if listed_name == SERVICES[metric].name and set(found) == set(names)
        ]
    queries += _of(wanted.BUCKETS, _buckets(outputs))
    if files := outputs.get(S3_FILE_SYSTEM_ID):
        queries += _of(wanted.S3_FILES, [{FILE_SYSTEM: files}])
    queries += [each for node in nodes for each in _of(wanted.NODES, [{WORKLOAD: name, INSTANCE: node}])]
    queries += [each for of in ranks.values() for each in _of(wanted.RANKS, [of])]
    return queries[:MOST_SERIES], max(0, len(queries) - MOST_SERIES)


def _buckets(outputs: Mapping[str, str]) -> list[dict[str, str]]:
    lake = outputs.get(DATA_LAKE_BUCKET_NAME)
    hot = [each for each in outputs.get(DIRECTORY_BUCKET_NAMES, "").split(",") if each]
    pairs = [(lake, wanted.FILTERS[0])] if lake else []
    return [
        {"BucketName": bucket, "FilterId": kept}
        for bucket, kept in (*pairs, *((each, wanted.FILTERS[2]) for each in hot))
    ]


def _of(series: Iterable[Wanted], dimensions: Sequence[Mapping[str, str]]) -> list[_Query]:
    return [(metric, dict(of), statistic) for of in dimensions for metric, _, statistic in series]


def _list(aws: Aws, recent: bool, **request: Any) -> list[tuple[str, dict[str, str]]]:
    """Return name and dimensions of metrics that there are.

    Raises:
        Unanswered: CloudWatch does not say.
    """

    def question() -> list[tuple[str, dict[str, str]]]:
        more = {"RecentlyActive": "PT3H"} if recent else {}
        found: list[tuple[str, dict[str, str]]] = []
        while True:
            page = aws("cloudwatch").list_metrics(**request, **more)
            found += [
                (each["MetricName"], {one["Name"]: one["Value"] for one in each["Dimensions"]})
                for each in page["Metrics"]
            ]
            if not page.get("NextToken"):
                return found
            more["NextToken"] = page["NextToken"]

    return ask("cloudwatch:ListMetrics", question)


# -- values


def _series(
    aws: Aws, queries: Sequence[_Query], begin: float, end: float, period_s: float, unknown: list[str]
) -> tuple[Series, ...]:
    size = max(1, min(BATCH, int(DATAPOINTS // max(1.0, (end - begin) / period_s))))
    batches = [queries[at : at + size] for at in range(0, len(queries), size)]
    answers = ask_all(
        {str(at): lambda batch=batch: _batch(aws, batch, begin, end, period_s) for at, batch in enumerate(batches)}  # type: ignore[misc]  # as above
    )
    failed = [each.why for each in answers.values() if isinstance(each, Unanswered)]
    if failed:
        part = f"{len(failed)} of {len(batches)} batches of metrics" if len(failed) < len(batches) else "all metrics"
        unknown.append(f"{part}: {failed[0]}")
    found: list[Series] = []
    for answer in answers.values():
        if not isinstance(answer, Unanswered):
            series, messages = answer
            found += series
            unknown += [each for each in messages if each not in unknown]
    return tuple(found)


def _batch(
    aws: Aws, queries: Sequence[_Query], begin: float, end: float, period_s: float
) -> tuple[list[Series], list[str]]:
    def question() -> tuple[list[Series], list[str]]:
        request: dict[str, Any] = {
            "MetricDataQueries": [_query(f"m{at}", *each, period_s) for at, each in enumerate(queries)],
            "StartTime": datetime.fromtimestamp(begin, UTC),
            "EndTime": datetime.fromtimestamp(end, UTC),
            "ScanBy": "TimestampAscending",
        }
        points: dict[str, dict[float, float]] = {}
        messages: list[str] = []
        while True:
            page = aws("cloudwatch").get_metric_data(**request)
            for each in page["MetricDataResults"]:
                # CloudWatch names a period by its begin.
                ends = (moment.timestamp() + period_s for moment in each["Timestamps"])
                points.setdefault(each["Id"], {}).update(zip(ends, map(float, each["Values"]), strict=True))
                if each.get("StatusCode") in ("Forbidden", "InternalError"):
                    messages.append(f"CloudWatch gives {queries[int(each['Id'][1:])][0]} only in part")
            messages += [str(each.get("Value", "")) for each in page.get("Messages") or ()]
            if not page.get("NextToken"):
                break
            request["NextToken"] = page["NextToken"]
        series = [
            Series(metric=metric, dimensions=of, statistic=statistic, points=tuple(sorted(found.items())))
            for at, (metric, of, statistic) in enumerate(queries)
            if (found := points.get(f"m{at}"))
        ]
        return series, messages

    return ask("cloudwatch:GetMetricData", question)


def _query(query_id: str, metric: str, of: Mapping[str, str], statistic: str, period_s: float) -> dict[str, Any]:
    known = OURS.get(metric) or SERVICES[metric]
    return {
        "Id": query_id,
        "MetricStat": {
            "Metric": {
                "Namespace": known.namespace,
                "MetricName": known.name,
                "Dimensions": [{"Name": name, "Value": value} for name, value in of.items()],
            },
            "Period": int(period_s),
            "Stat": statistic,
        },
    }
