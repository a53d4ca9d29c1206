"""A small dashboard: what the storage moves against what the plan says, and what would stop it."""

from __future__ import annotations

import re

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from training_storage._arguments import NUMBER, TEXT, misfits, optional
from training_storage._tokens import concrete
from training_storage.errors import Problem, ValidationError
from training_storage.units import GIB, MB

# CloudWatch keeps FSx metrics by the minute (facts: AWS/FSx, one-minute data).
PERIOD_S = 60
# FSx stops importing and loses changes when the queue is older than 14 days; a day's warning line is drawn well before.
QUEUE_AGE_WARNING_S = 24 * 3600
_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")


class StorageDashboard(Construct):
    """One dashboard for one training storage.

    The first row answers whether the file system moves what the plan asks of it; the second shows what would stop it:
    free space on the fullest server, clients that lost their mount, and the age of the import queue.

    Example:
        ```python
        StorageDashboard(self, "Dashboard", dashboard_name="llama3-70b", file_system_id=file_system.file_system_id)
        ```

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        dashboard_name: Name in CloudWatch, unique in the account and region: letters, digits, ``-`` and ``_``.
        file_system_id: Lustre file system to show; its row is left out when not given.
        bucket_name: Bucket of the data lake to show; its row is left out when not given.
        auto_scaling_group_name: Fleet to show; its row is left out when not given.
        planned_read_mb_per_s: Read demand of the plan, MB/s, drawn as a line; no line when left out.
        planned_throughput_mb_per_s: Throughput of the file system, MB/s, drawn as a line; no line when left out.
        planned_file_opens_per_s: File opens of the plan, drawn as a line; no line when left out.
        instance_count: Instances that should be connected, drawn as a line; no line when left out.

    Raises:
        ValidationError: The name is not one that CloudWatch takes, or there is nothing to show.
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
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        if wrong := misfits(
            {
                "dashboard_name": (dashboard_name, TEXT),
                "file_system_id": (file_system_id, optional(TEXT)),
                "bucket_name": (bucket_name, optional(TEXT)),
                "auto_scaling_group_name": (auto_scaling_group_name, optional(TEXT)),
                "planned_read_mb_per_s": (planned_read_mb_per_s, optional(NUMBER)),
                "planned_throughput_mb_per_s": (planned_throughput_mb_per_s, optional(NUMBER)),
                "planned_file_opens_per_s": (planned_file_opens_per_s, optional(NUMBER)),
                "instance_count": (instance_count, optional(NUMBER)),
            }
        ):
            raise ValidationError(wrong, where=where)
        name = concrete(dashboard_name)
        problems = []
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
        if file_system_id is None and bucket_name is None and auto_scaling_group_name is None:
            problems.append(
                Problem(
                    what="nothing to show",
                    path="file_system_id",
                    allowed="at least one of file_system_id, bucket_name and auto_scaling_group_name",
                )
            )
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        rows: list[list[cloudwatch.IWidget]] = []
        if file_system_id is not None:
            rows += _file_system_rows(
                file_system_id,
                read_mb_per_s=concrete(planned_read_mb_per_s),
                throughput_mb_per_s=concrete(planned_throughput_mb_per_s),
                file_opens_per_s=concrete(planned_file_opens_per_s),
                instance_count=concrete(instance_count),
            )
        last: list[cloudwatch.IWidget] = []
        if auto_scaling_group_name is not None:
            last.append(
                _fleet_widget(auto_scaling_group_name, None if file_system_id else concrete(planned_read_mb_per_s))
            )
        if bucket_name is not None:
            last.append(_bucket_widget(bucket_name))
        if last:
            rows.append(last)
        self._dashboard = cloudwatch.Dashboard(self, "Resource", dashboard_name=dashboard_name, widgets=rows)

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """The CDK dashboard, for widgets of your own."""
        return self._dashboard

    @property
    def dashboard_name(self) -> str:
        """Name of the dashboard."""
        return self._dashboard.dashboard_name


def _fsx(name: str, file_system_id: str, statistic: str, **dimensions: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/FSx",
        metric_name=name,
        dimensions_map={"FileSystemId": file_system_id, **dimensions},
        statistic=statistic,
        period=Duration.seconds(PERIOD_S),
    )


def _divided(metric: cloudwatch.Metric, label: str, divisor: float, period: Duration) -> cloudwatch.MathExpression:
    # Ids inside one graph must differ, so each takes its metric's name.
    id_ = metric.metric_name[0].lower() + metric.metric_name[1:]
    return cloudwatch.MathExpression(
        expression=f"{id_} / {divisor:.0f}", using_metrics={id_: metric}, label=label, period=period
    )


def _per_second(metric: cloudwatch.Metric, label: str, divisor: float) -> cloudwatch.MathExpression:
    return _divided(metric, label, PERIOD_S * divisor, Duration.seconds(PERIOD_S))


def _line(value: float | None, label: str, colour: str = "#7f7f7f") -> list[cloudwatch.HorizontalAnnotation]:
    return [] if value is None else [cloudwatch.HorizontalAnnotation(value=value, label=label, color=colour)]


def _graph(
    title: str, left: list[cloudwatch.IMetric], lines: list[cloudwatch.HorizontalAnnotation], unit: str
) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(
        title=title,
        left=left,
        left_annotations=lines,
        left_y_axis=cloudwatch.YAxisProps(label=unit, min=0, show_units=False),
        width=8,
        height=6,
    )


def _file_system_rows(
    file_system_id: str,
    *,
    read_mb_per_s: float | None,
    throughput_mb_per_s: float | None,
    file_opens_per_s: float | None,
    instance_count: int | None,
) -> list[list[cloudwatch.IWidget]]:
    moved = _graph(
        "File system throughput",
        [
            _per_second(_fsx("DataReadBytes", file_system_id, "Sum"), "read", MB),
            _per_second(_fsx("DataWriteBytes", file_system_id, "Sum"), "written", MB),
        ],
        _line(read_mb_per_s, "planned read demand") + _line(throughput_mb_per_s, "planned throughput", "#d62728"),
        "MB/s",
    )
    metadata = _graph(
        "Metadata operations",
        [_per_second(_fsx("MetadataOperations", file_system_id, "Sum"), "operations", 1)],
        _line(file_opens_per_s, "planned file opens"),
        "1/s",
    )
    clients = _graph(
        "Client connections",
        [_fsx("ClientConnections", file_system_id, "Sum")],
        _line(instance_count, "instances"),
        "clients",
    )
    free = _graph(
        "Free space on the fullest storage target",
        [_divided(_fsx("FreeDataStorageCapacity", file_system_id, "Minimum"), "free", GIB, Duration.seconds(PERIOD_S))],
        [],
        "GiB",
    )
    age = _graph(
        "Oldest change waiting in the S3 link",
        [
            _fsx("AgeOfOldestQueuedMessage", file_system_id, "Maximum", Publisher=publisher)
            for publisher in ("AutoImport", "AutoExport")
        ],
        _line(QUEUE_AGE_WARNING_S, "one day; changes are lost after 14", "#d62728"),
        "s",
    )
    return [[moved, metadata, clients], [free, age]]


def _fleet_widget(auto_scaling_group_name: str, read_mb_per_s: float | None) -> cloudwatch.GraphWidget:
    received = cloudwatch.Metric(
        namespace="AWS/EC2",
        metric_name="NetworkIn",
        dimensions_map={"AutoScalingGroupName": auto_scaling_group_name},
        statistic="Sum",
        period=Duration.seconds(PERIOD_S),
    )
    return _graph(
        "Network into the fleet (without EFA)",
        [_per_second(received, "received", MB)],
        _line(read_mb_per_s, "planned read demand"),
        "MB/s",
    )


def _bucket_widget(bucket_name: str) -> cloudwatch.GraphWidget:
    size = cloudwatch.Metric(
        namespace="AWS/S3",
        metric_name="BucketSizeBytes",
        dimensions_map={"BucketName": bucket_name, "StorageType": "StandardStorage"},
        statistic="Average",
        period=Duration.days(1),
    )
    in_gib = _divided(size, "S3 Standard", GIB, Duration.days(1))
    return _graph("Data lake", [in_gib], [], "GiB")
