"""The dashboard: are the GPUs waiting, and for what; the ten figures; nodes that stand out; the services."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from training_storage._arguments import NUMBER, TEXT, Kind, has, misfits_among, optional
from training_storage._tokens import concrete
from training_storage.errors import Problem, ValidationError
from training_storage.monitoring import figures, services
from training_storage.monitoring.alarms import StorageAlarms, filter_problems
from training_storage.monitoring.definitions import COMPOSITE
from training_storage.monitoring.subject import KINDS, Expected, Subject, expected_problems
from training_storage.monitoring.widgets import COLUMNS, Widget, laid_out, words

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,255}")
_ALARMS: Final = Kind(
    allowed="StorageAlarms", fits=lambda value: has(value, "arns", "arn"), fix="StorageAlarms(self, ...)"
)


class StorageDashboard(Construct):
    """One dashboard for one training storage.

    With ``workload`` its first line answers whether the GPUs wait, and for what; below it are the ten figures, each
    with what the plan expects as a line, and the nodes that stand out. Then come the services, as far as they are
    given: the file system with its servers and targets, the fleet, the lake, directory buckets, S3 Files. What is not
    given is left out. Servers, targets and nodes are searched for, so that it needs no name that is not known yet.

    Example:
        ```python
        StorageDashboard(
            self,
            "Dashboard",
            dashboard_name="llama3-70b",
            workload="llama3-70b",
            file_system_id=file_system.file_system_id,
            expected=Expected(read_mb_per_s=12800, data_wait_percent=2),
        )
        ```

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        dashboard_name: Name in CloudWatch, unique in the account and region: letters, digits, ``-`` and ``_``.
        file_system_id: Lustre file system to show, ours or not; its rows are left out when not given.
        bucket_name: Bucket of the data lake to show; its row is left out when not given.
        auto_scaling_group_name: Fleet to show; its graph is left out when not given.
        planned_read_mb_per_s: Read demand, MB/s, drawn as a line; that of ``expected`` when left out.
        planned_throughput_mb_per_s: Throughput of the file system, MB/s, drawn as a line; no line when left out.
        planned_file_opens_per_s: File opens, drawn as a line; those of ``expected`` when left out.
        instance_count: Instances that should be connected, drawn as a line; that of ``expected`` when left out.
        workload: Name under which nodes write metrics. Left out: no first line, no figures and no nodes.
        bucket_filter_ids: Filters of the lake's request metrics; its requests are left out without.
        directory_bucket_names: Directory buckets to show; only with ``directory_filter_id``.
        directory_filter_id: Filter of their request metrics.
        s3_file_system_id: File system of S3 Files to show; its rows are left out when not given.
        expected: What the metrics should show, drawn as lines; no lines when left out.
        alarms: Alarms whose states stand in the first line; none when left out.
        runbook_url: Folder of the alarms' pages on the web. Left out, the first line names them in the repository.

    Raises:
        ValidationError: An argument is of another kind, the name is not one that CloudWatch takes, or there is nothing
            to show.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        dashboard_name: str,
        file_system_id: str | None = None,
        bucket_name: str | None = None,
        auto_scaling_group_name: str | None = None,
        planned_read_mb_per_s: float | None = None,
        planned_throughput_mb_per_s: float | None = None,
        planned_file_opens_per_s: float | None = None,
        instance_count: int | None = None,
        workload: str | None = None,
        bucket_filter_ids: Sequence[str] = (),
        directory_bucket_names: Sequence[str] = (),
        directory_filter_id: str | None = None,
        s3_file_system_id: str | None = None,
        expected: Expected | None = None,
        alarms: StorageAlarms | None = None,
        runbook_url: str | None = None,
    ) -> None:
        given = locals()
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        problems = misfits_among(_KINDS, given)
        problems = problems or _problems(given)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        lines = expected or Expected()
        subject = Subject(
            workload=workload,
            file_system_id=file_system_id,
            bucket_name=bucket_name,
            bucket_filter_ids=tuple(bucket_filter_ids),
            directory_bucket_names=tuple(directory_bucket_names) if directory_filter_id else (),
            directory_filter_id=directory_filter_id,
            s3_file_system_id=s3_file_system_id,
            auto_scaling_group_name=auto_scaling_group_name,
            # What is only known at deploy cannot be drawn.
            expected=replace(
                lines,
                read_mb_per_s=_first(planned_read_mb_per_s, lines.read_mb_per_s),
                file_opens_per_s=_first(planned_file_opens_per_s, lines.file_opens_per_s),
                instance_count=_first(instance_count, lines.instance_count),
            ),
        )
        rows = _rows(
            subject,
            title=dashboard_name,
            region=cdk.Stack.of(self).region,
            throughput_mb_per_s=concrete(planned_throughput_mb_per_s),
            arns={} if alarms is None else _arns(alarms),
            runbook_url=runbook_url,
        )
        self._dashboard = cloudwatch.Dashboard(
            self, "Resource", dashboard_name=dashboard_name, widgets=[[_Board(laid_out(rows))]]
        )

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """The CDK dashboard, for widgets of your own; they come below ours."""
        return self._dashboard

    @property
    def dashboard_name(self) -> str:
        """Name of the dashboard."""
        return self._dashboard.dashboard_name


_KINDS: Final = {
    **{name: KINDS[name] for name in KINDS if name != "links"},
    "dashboard_name": TEXT,
    "planned_read_mb_per_s": optional(NUMBER),
    "planned_throughput_mb_per_s": optional(NUMBER),
    "planned_file_opens_per_s": optional(NUMBER),
    "instance_count": optional(NUMBER),
    "alarms": optional(_ALARMS),
    "runbook_url": optional(TEXT),
}


class _Board(cloudwatch.ConcreteWidget):
    """All widgets as one: a widget a graph would be some hundred calls to Node for one dashboard."""

    def __init__(self, widgets: list[Widget]) -> None:
        super().__init__(COLUMNS, max((each["y"] + each["height"] for each in widgets), default=1))
        self._placed = widgets

    def to_json(self) -> list[Any]:
        return self._placed


def _rows(
    subject: Subject,
    *,
    title: str,
    region: str,
    throughput_mb_per_s: float | None,
    arns: dict[str, str],
    runbook_url: str | None,
) -> list[list[Widget]]:
    rows: list[list[Widget]] = []
    if subject.workload is not None:
        rows += figures.first_line(subject, title, region, arns, runbook_url)
        rows += figures.ten_figures(subject, region)
        rows += services.outlier_rows(subject, region)
    if subject.file_system_id is not None:
        rows += services.file_system_rows(subject, region, throughput_mb_per_s)
    if subject.directory_bucket_names:
        rows += services.directory_rows(subject, region)
    if subject.s3_file_system_id is not None:
        rows += services.files_rows(subject, region)
    last: list[Widget] = []
    if subject.auto_scaling_group_name is not None:
        demand = None if subject.file_system_id else subject.expected.read_mb_per_s
        last.append(services.fleet_widget(subject, region, demand))
    if subject.bucket_name is not None:
        last += services.bucket_widgets(subject, region)
    if last:
        rows.append([words("## Fleet and data lake")])
        rows += [last[start : start + 3] for start in range(0, len(last), 3)]
    return rows


def _arns(alarms: StorageAlarms) -> dict[str, str]:
    ids = (COMPOSITE, *figures.FIRST_LINE)
    return {id_: arn for id_ in ids if (arn := alarms.arn(id_)) is not None}


def _first(planned: Any, expected: Any) -> Any:
    value = concrete(planned)
    return expected if value is None else value


def _problems(given: dict[str, Any]) -> list[Problem]:
    problems = []
    name = concrete(given["dashboard_name"])
    if name is not None and not _NAME.fullmatch(name):
        problems.append(
            Problem(
                what="not a dashboard name",
                path="dashboard_name",
                value=name,
                allowed="1 to 255 letters, digits, - and _",
                fix="replace the other characters by -",
            )
        )
    shown = ("workload", "file_system_id", "bucket_name", "auto_scaling_group_name", "s3_file_system_id")
    if all(given[each] is None for each in shown) and not given["directory_bucket_names"]:
        problems.append(
            Problem(what="nothing to show", path="file_system_id", allowed=f"at least one of {', '.join(shown)}")
        )
    problems += filter_problems(given["bucket_name"], given["bucket_filter_ids"])
    return problems + expected_problems(given["expected"])
