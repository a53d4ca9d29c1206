"""What people look at and who is told: dashboard, alarms, topic, the watch on links, and what the plan expects."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final

from constructs import Construct

from training_storage.compute import GpuFleet
from training_storage.errors import Problem, ValidationError
from training_storage.lifecycle import LinkWatch
from training_storage.monitoring import AlarmTopic, Expected, StorageAlarms, StorageDashboard
from training_storage.node.metrics.services import CHECKPOINTS_FILTER, DATASETS_FILTER, WHOLE_BUCKET_FILTER
from training_storage.parts.hot import HotStorage
from training_storage.planner.expectations import expectations
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake, DirectoryBucket

if TYPE_CHECKING:
    from aws_cdk import aws_sns as sns
    from aws_cdk import aws_ssm as ssm

_MOST_BYTES: Final = 4096
"""Of a standard parameter (Systems Manager API, PutParameter)."""
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """What watches one run.

    Attributes:
        dashboard: The dashboard.
        alarms: The alarms.
        topic: The topic that is ours; None where nobody is told by mail.
        link_watch: What looks at the links of the file system; None without links.
        expected: The parameter with what the plan expects.
    """

    dashboard: StorageDashboard
    alarms: StorageAlarms
    topic: AlarmTopic | None
    link_watch: LinkWatch | None
    expected: ssm.StringParameter


def make_monitoring(
    scope: Construct,
    plan: Plan,
    *,
    data_lake: DataLake,
    storage: HotStorage,
    fleet: GpuFleet | None,
) -> Monitoring | None:
    """Make what watches a plan's run, under ids that never change; nothing where monitoring is off.

    Args:
        scope: Parent.
        plan: The plan, whose figures are drawn as lines and give the thresholds.
        data_lake: The lake.
        storage: What stands between lake and fleet.
        fleet: The fleet, if it is ours.
    """
    wanted = plan.workload.monitoring
    if not wanted.enabled:
        return None
    # Loading these takes time, and planning needs none of them.
    from aws_cdk import aws_sns as sns
    from aws_cdk import aws_ssm as ssm

    expected = expected_of(plan)
    told: list[sns.ITopic] = []
    topic = AlarmTopic(scope, "AlarmTopic", emails=[wanted.alarm_email]) if wanted.alarm_email else None
    if topic is not None:
        told.append(topic.topic)
    if wanted.alarm_topic_arn:
        told.append(sns.Topic.from_topic_arn(scope, "GivenAlarmTopic", wanted.alarm_topic_arn))
    file_system = storage.file_system
    links = file_system is not None and plan.lustre is not None and bool(plan.lustre.links)
    watch = (
        LinkWatch(scope, "LinkWatch", workload=plan.name, file_system=file_system)
        if links and file_system is not None
        else None
    )
    # A bucket that was there before has the filters of its owner, if any.
    made_here = plan.workload.data_lake.bucket is None
    watched: dict[str, Any] = {
        "workload": plan.name,
        "file_system_id": file_system.file_system_id if file_system else None,
        "bucket_name": data_lake.bucket_name,
        "bucket_filter_ids": (DATASETS_FILTER, CHECKPOINTS_FILTER) if made_here else (),
        "s3_file_system_id": storage.s3_file_system.file_system_id if storage.s3_file_system else None,
        "expected": expected,
    }
    # How many nodes of somebody else come, and when, nobody knows: none of them is missing.
    counted = expected if fleet else replace(expected, instance_count=None)
    alarms = StorageAlarms(
        scope, "Alarms", name=plan.name, links=watch is not None, topics=told, **{**watched, "expected": counted}
    )
    buckets = [*storage.directory_buckets, *([storage.shared_cache] if storage.shared_cache else [])]
    dashboard = StorageDashboard(
        scope,
        "Dashboard",
        dashboard_name=f"{plan.name}-storage",
        auto_scaling_group_name=fleet.auto_scaling_group.ref if fleet else None,
        planned_throughput_mb_per_s=plan.lustre.throughput_mb_per_s if plan.lustre else None,
        directory_bucket_names=[each.bucket_name for each in buckets if isinstance(each, DirectoryBucket)],
        directory_filter_id=WHOLE_BUCKET_FILTER,
        alarms=alarms,
        **watched,
    )
    parameter = ssm.StringParameter(
        scope,
        "Expected",
        parameter_name=f"/training-storage/{plan.name}/expected",
        description=f"What the metrics of {plan.name} should show, by its plan",
        string_value=expected_text(plan),
    )
    return Monitoring(dashboard=dashboard, alarms=alarms, topic=topic, link_watch=watch, expected=parameter)


def expected_of(plan: Plan) -> Expected:
    """Return what a plan expects, for dashboard and alarms.

    Args:
        plan: The plan.
    """
    figures = expectations(plan).to_dict()
    known = {each.name for each in fields(Expected)}
    return Expected(
        **{name: value for name, value in figures.items() if name in known},
        storage_capacity_gib=plan.lustre.storage_capacity_gib if plan.lustre else None,
        warn_when_free_below=plan.workload.lifecycle.warn_when_free_below,
    )


def expected_text(plan: Plan) -> str:
    """Return what a plan expects as JSON without what it does not know, numbers with six significant digits.

    Args:
        plan: The plan.

    Raises:
        ValidationError: It does not fit into a parameter of Systems Manager.
    """
    figures = {name: _short(value) for name, value in expectations(plan).to_dict().items() if value is not None}
    text = json.dumps(figures, separators=(",", ":"))
    if len(text.encode()) > _MOST_BYTES:
        raise ValidationError(
            Problem(
                what="what the plan expects does not fit into a parameter",
                path="name",
                value=len(text.encode()),
                allowed=f"at most {_MOST_BYTES} bytes",
                fix="give shorter paths",
            )
        )
    return text


def _short(value: object) -> object:
    if not isinstance(value, float):
        return value
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short
