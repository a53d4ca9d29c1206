"""Alarms on the storage of one workload, and one that says: GPUs wait for storage."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from training_storage._arguments import TEXT, Kind, has, misfits, misfits_among, optional
from training_storage._tokens import concrete
from training_storage.errors import Problem, ValidationError
from training_storage.monitoring.definitions import (
    ALARMS,
    COMPOSITE,
    COMPOSITE_TITLE,
    EVIDENCE,
    SAVING,
    WAITING,
    AlarmDefinition,
)
from training_storage.monitoring.metrics import PERIOD_S, Math, Reading
from training_storage.monitoring.subject import KINDS, Expected, Subject, expected_problems

if TYPE_CHECKING:
    from aws_cdk import aws_sns as sns

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_TOPICS: Final = Kind(
    allowed="a list of topics of the CDK",
    fits=lambda value: isinstance(value, list | tuple) and all(has(each, "topic_arn") for each in value),
    fix='[sns.Topic.from_topic_arn(self, "Told", arn)]',
)
_MOST_FILTERS: Final = 5
"""An alarm takes ten metrics (CloudWatch API, PutMetricAlarm): errors and requests of so many filters."""
LONGEST_TEXT: Final = 1024
"""Characters of an alarm's description (CloudWatch API, PutMetricAlarm)."""
DOCS: Final = "docs/alarms"


class StorageAlarms(Construct):
    """Alarms on what is there, each with a reason, a first look and a page, and a composite "GPUs wait for storage".

    An alarm is made only where its metric can exist and its threshold is known: without a file system there is none of
    Lustre, and without ``expected.max_restore_s`` none on restores. ``gpus-wait-for-storage`` rises when ranks wait for
    data and the storage is at a limit or throttled at the same time, or when saves that hold the loop up are too slow.
    Alarms that are evidence alone (a storage that gives all it can) tell nobody by themselves.

    Topics are told when an alarm rises and when it is over.

    Example:
        ```python
        StorageAlarms(
            self,
            "Alarms",
            name="vision",
            file_system_id="fs-0123456789abcdef0",
            expected=Expected(supply_mb_per_s=4687, storage_capacity_gib=4800, warn_when_free_below=0.1),
        )
        ```

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        name: Begin of the alarms' names: ``NAME-gpus-wait-for-data``; letters, digits, ``.``, ``_`` and ``-``.
        workload: Name under which nodes write metrics. Left out: no alarm on what nodes write.
        file_system_id: Lustre file system. Left out: no alarm on one.
        bucket_name: Bucket of the data lake; only with ``bucket_filter_ids``.
        bucket_filter_ids: Filters of its request metrics, at most five. Left out: no alarm on S3's answers.
        s3_file_system_id: File system of S3 Files. Left out: no alarm on one.
        links: Whether links are looked at by a ``LinkWatch``. Default: no, and no alarm on stopped links.
        expected: What the storage should show. Left out: only alarms that need no figure are made.
        topics: Who is told. Left out: nobody; the dashboard shows the alarms.
        runbook_url: Folder of the alarms' pages on the web, without a slash at its end. Left out, a text names the
            page in the repository, ``docs/alarms/ID.md``.

    Raises:
        ValidationError: An argument is of another kind or breaks a rule, or no alarm would be made.

    Attributes:
        alarms: The alarms by id.
        composite: ``gpus-wait-for-storage``; None where nothing in it can be made.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        workload: str | None = None,
        file_system_id: str | None = None,
        bucket_name: str | None = None,
        bucket_filter_ids: Sequence[str] = (),
        s3_file_system_id: str | None = None,
        links: bool = False,
        expected: Expected | None = None,
        topics: Sequence[sns.ITopic] = (),
        runbook_url: str | None = None,
    ) -> None:
        given = locals()
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        watched = ("workload", "file_system_id", "bucket_name", "bucket_filter_ids", "s3_file_system_id", "links")
        problems = misfits_among({each: KINDS[each] for each in (*watched, "expected")}, given)
        problems += misfits({"name": (name, TEXT), "runbook_url": (runbook_url, optional(TEXT))})
        problems += misfits({"topics": (topics, _TOPICS)})
        problems = problems or [
            *_name_problems({"name": name, "workload": workload}),
            *filter_problems(bucket_name, bucket_filter_ids),
            *expected_problems(expected),
        ]
        if problems:
            raise ValidationError(problems, where=where)
        subject = Subject(
            workload=workload,
            file_system_id=file_system_id,
            bucket_name=bucket_name,
            bucket_filter_ids=tuple(bucket_filter_ids),
            s3_file_system_id=s3_file_system_id,
            links=links,
            expected=expected or Expected(),
        )
        chosen = [
            (each, watch, threshold)
            for each in ALARMS
            if (watch := each.watch(subject)) and (threshold := each.threshold(subject.expected)) is not None
        ]
        if not chosen:
            raise ValidationError(
                Problem(
                    what="nothing to watch",
                    path="workload",
                    allowed="at least one of workload, file_system_id, bucket_filter_ids and s3_file_system_id",
                ),
                where=where,
            )
        super().__init__(scope, construct_id)
        told = [topic.topic_arn for topic in topics]

        def text(id_: str, title: str, reason: str, look: str, because: str) -> str:
            page = f"Page: {runbook_url or DOCS}/{id_}.md."
            step = f" Next step: training-storage diagnose {workload}." if workload else ""
            said = [f"{title}. ", f"{reason} ", f"First look: {look} ", f"Threshold: {because}. ", page, step]
            # Of a text that gets too long by its names, what the page says as well goes first.
            for part in (1, 2, 3):
                if sum(map(len, said)) > LONGEST_TEXT:
                    said[part] = ""
            return "".join(said)

        made = {}
        for each, watch, threshold in chosen:
            made[each.id] = self._alarm(
                f"{name}-{each.id}",
                each,
                watch,
                threshold,
                text(each.id, each.title, each.reason, each.look, each.because),
                told if each.tells else [],
            )
        self.alarms: Final[Mapping[str, cloudwatch.CfnAlarm]] = MappingProxyType(made)
        rule = composite_rule({id_: alarm.ref for id_, alarm in made.items()}, subject.expected)
        self.composite: Final = (
            None
            if rule is None
            else cloudwatch.CfnCompositeAlarm(
                self,
                _construct_id(COMPOSITE),
                alarm_name=f"{name}-{COMPOSITE}",
                alarm_description=text(
                    COMPOSITE,
                    COMPOSITE_TITLE,
                    "GPUs stand still and the storage is why.",
                    "Which of the alarms in its rule stand: they name the cause.",
                    "the alarms of its rule",
                ),
                alarm_rule=rule,
                alarm_actions=told or None,
                ok_actions=told or None,
            )
        )

    @property
    def arns(self) -> list[str]:
        """ARNs of all alarms, the composite one first."""
        composite = [] if self.composite is None else [self.composite.attr_arn]
        return composite + [alarm.attr_arn for alarm in self.alarms.values()]

    def arn(self, id_: str) -> str | None:
        """Return the ARN of an alarm, or of the composite one; None where it was not made."""
        if id_ == COMPOSITE:
            return None if self.composite is None else self.composite.attr_arn
        alarm = self.alarms.get(id_)
        return None if alarm is None else alarm.attr_arn

    def _alarm(
        self,
        name: str,
        definition: AlarmDefinition,
        watch: Math,
        threshold: float,
        text: str,
        told: list[str],
    ) -> cloudwatch.CfnAlarm:
        (first, *others) = watch.readings or (None,)
        single = first is not None and not others and not watch.expression
        # One metric alone is written without queries: what people look for in the console.
        what = _metric(first) if single and first else {"metrics": _queries(watch)}
        return cloudwatch.CfnAlarm(
            self,
            _construct_id(definition.id),
            alarm_name=name,
            alarm_description=text,
            comparison_operator=definition.comparison,
            threshold=threshold,
            evaluation_periods=definition.periods,
            datapoints_to_alarm=definition.datapoints,
            treat_missing_data=definition.missing,
            alarm_actions=told or None,
            ok_actions=told or None,
            **what,
        )


def composite_rule(names: Mapping[str, str], expected: Expected) -> str | None:
    """Return the rule of the composite alarm; None where nothing in it is there.

    Ranks that wait are storage's fault only where the storage shows why. A save that takes too long is by itself, where
    it holds the loop up.

    Args:
        names: Names, or tokens of names, of the alarms that are there, by id.
        expected: What the plan expects.
    """
    evidence = [f'ALARM("{names[each]}")' for each in EVIDENCE if each in names]
    parts = []
    if WAITING in names and evidence:
        parts.append(f'(ALARM("{names[WAITING]}") AND ({" OR ".join(evidence)}))')
    if SAVING in names and not expected.asynchronous:
        parts.append(f'ALARM("{names[SAVING]}")')
    return " OR ".join(parts) or None


def filter_problems(bucket_name: str | None, filter_ids: Sequence[str]) -> list[Problem]:
    """Return what is wrong with filters of request metrics."""
    if len(filter_ids) > _MOST_FILTERS:
        return [
            Problem(
                what="more filters than an alarm can add up",
                path="bucket_filter_ids",
                value=len(filter_ids),
                allowed=f"at most {_MOST_FILTERS}",
                fix="give one filter of the whole bucket",
            )
        ]
    if filter_ids and bucket_name is None:
        return [
            Problem(what="filters of no bucket", path="bucket_filter_ids", allowed="together with bucket_name"),
        ]
    return []


def _name_problems(names: Mapping[str, str | None]) -> list[Problem]:
    return [
        Problem(
            what="not a name",
            path=path,
            value=value,
            allowed="1 to 200 letters, digits, ., _ and -, the first a letter or digit",
            fix="replace the other characters by -",
        )
        for path, given in names.items()
        if (value := concrete(given)) is not None and not _NAME.fullmatch(value)
    ]


def _construct_id(id_: str) -> str:
    return "".join(part.capitalize() for part in id_.split("-"))


def _metric(reading: Reading) -> dict[str, object]:
    return {
        "namespace": reading.metric.namespace,
        "metric_name": reading.metric.name,
        "dimensions": [
            cloudwatch.CfnAlarm.DimensionProperty(name=name, value=value) for name, value in reading.dimensions.items()
        ],
        "statistic": reading.statistic,
        "period": reading.period_s,
    }


def _queries(watch: Math) -> list[cloudwatch.CfnAlarm.MetricDataQueryProperty]:
    query = cloudwatch.CfnAlarm.MetricDataQueryProperty
    period = watch.readings[0].period_s if watch.readings else PERIOD_S
    # A Metrics Insights query says its own period; of an expression it is that of its metrics.
    head = query(
        id="watched",
        expression=watch.expression,
        label=watch.label,
        return_data=True,
        period=None if watch.readings else period,
    )
    return [
        head,
        *(
            query(
                id=reading.id,
                metric_stat=cloudwatch.CfnAlarm.MetricStatProperty(
                    metric=cloudwatch.CfnAlarm.MetricProperty(
                        namespace=reading.metric.namespace,
                        metric_name=reading.metric.name,
                        dimensions=[
                            cloudwatch.CfnAlarm.DimensionProperty(name=name, value=value)
                            for name, value in reading.dimensions.items()
                        ],
                    ),
                    period=reading.period_s,
                    stat=reading.statistic,
                ),
                return_data=False,
            )
            for reading in watch.readings
        ),
    ]
