"""Data that S3 has is taken off the disks of a file system: by age each day, or when space gets short."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from constructs import Construct, IConstruct

from training_storage import _nag
from training_storage._arguments import DURATION, LISTED_TEXTS, NUMBER, TEXT, Kind, has, misfits
from training_storage._tokens import concrete, is_concrete
from training_storage.errors import Problem, ValidationError
from training_storage.lifecycle._machines import make_machine
from training_storage.lifecycle._names import at_deploy, name_problems, whole_units
from training_storage.lifecycle._schedules import make_schedule
from training_storage.tiers import ImportedLustreFileSystem, LustreFileSystem
from training_storage.units import GIB

FILE_SYSTEM: Final = Kind(
    allowed="a Lustre file system",
    fits=lambda value: has(value, "file_system_id", "file_system_arn", "mount_name"),
    fix="LustreFileSystem(self, ...), or LustreFileSystem.from_attributes",
)
_MOST_PATHS: Final = 100  # of one data repository task (facts: FSx API, CreateDataRepositoryTask)
_LOOK_AGAIN_S: Final = 3600
_LONGEST_S: Final = 7 * 24 * 3600


class DataReleaseSchedule(Construct):
    """Each day releases the data of files that S3 has and that nobody has used for some days.

    EventBridge Scheduler calls the API of FSx, without code between. FSx releases only files that have been exported to
    a linked bucket, and never their names: the next read brings the data back from S3. Age is the time since the last
    access, change or write; with clients that mount ``noatime``, reads do not count.

    A call while another task runs is refused by FSx; Scheduler tries again for six hours, and then on the next day.

    Example::

        DataReleaseSchedule(
            self, "Release", workload="llama3-70b", file_system=file_system, unused_for=cdk.Duration.days(7)
        )

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        workload: The workload's name; the schedule is named ``WORKLOAD-release-data``.
        file_system: The file system; Lustre 2.12 or newer, with a link.
        unused_for: Days without use, whole days, 0 or more.
        paths: Paths below the root of the file system, at most 100. Left out, all of it.

    Raises:
        ValidationError: An argument breaks a rule; nothing is added to the tree.

    Attributes:
        schedule: The schedule.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workload: str,
        file_system: LustreFileSystem | ImportedLustreFileSystem,
        unused_for: cdk.Duration,
        paths: Sequence[str] = ("/",),
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        problems = _wrong_kinds(workload, file_system, paths, {"unused_for": (unused_for, DURATION)})
        days, wrong = whole_units(
            unused_for, "unused_for", unit="days", seconds=86_400, least=0, why="FSx counts no shorter time"
        )
        problems += wrong
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        self.schedule: Final = make_schedule(
            self,
            name=f"{workload}-release-data",
            description=f"Releases data of {workload} that S3 has and nobody has used for {days} days",
            expression="rate(1 day)",
            target_arn=_without_place(self, "scheduler", "aws-sdk:fsx:createDataRepositoryTask"),
            # The token makes a call that Scheduler repeats the same call for FSx.
            given={
                **_task(file_system.file_system_id, paths, days),
                "ClientRequestToken": "<aws.scheduler.execution-id>",
            },
            rights=_may_create_tasks(self, file_system),
        )


class FreeSpaceRelease(Construct):
    """Releases the data of all files that S3 has when the fullest disk of a file system runs short of space.

    An alarm looks at ``FreeDataStorageCapacity`` of the storage target that has least; EventBridge hands its change on
    to a small state machine named ``WORKLOAD-free-space``, which creates the task, waits while another one runs, and
    does so again each hour while the alarm stands, for a week. Only files that have been exported to a linked bucket
    are released; where none has been, nothing gets free, and the alarm goes on standing.

    Example::

        FreeSpaceRelease(
            self, "FreeSpace", workload="llama3-70b", file_system=file_system, storage_capacity_gib=4800, free_share=0.1
        )

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        workload: The workload's name.
        file_system: The file system; Lustre 2.12 or newer, with a link.
        storage_capacity_gib: Its capacity, GiB.
        free_share: Share of the capacity, above 0 and below 1: release when less is free.
        paths: Paths below the root of the file system, at most 100. Left out, all of it.

    Raises:
        ValidationError: An argument breaks a rule; nothing is added to the tree.

    Attributes:
        alarm: The alarm.
        state_machine: The state machine that it starts.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workload: str,
        file_system: LustreFileSystem | ImportedLustreFileSystem,
        storage_capacity_gib: float,
        free_share: float,
        paths: Sequence[str] = ("/",),
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        numbers = {"storage_capacity_gib": (storage_capacity_gib, NUMBER), "free_share": (free_share, NUMBER)}
        problems = _wrong_kinds(workload, file_system, paths, numbers)
        if NUMBER.fits(free_share) and is_concrete(free_share) and not 0 < free_share < 1:
            problems.append(
                Problem(
                    what="not a share",
                    path="free_share",
                    value=free_share,
                    allowed="above 0 and below 1",
                    fix="0.1 releases when less than a tenth is free",
                )
            )
        for path, (value, _) in numbers.items():
            if NUMBER.fits(value) and not is_concrete(value):
                problems.append(
                    at_deploy(path, "a number that is known at synth: the alarm's threshold is worked out of it")
                )
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        self.alarm: Final = self._make_alarm(workload, file_system.file_system_id, storage_capacity_gib, free_share)
        self.state_machine: Final = make_machine(
            self,
            "StateMachine",
            name=f"{workload}-free-space",
            body=self._definition(file_system.file_system_id, paths),
            rights=[
                *_may_create_tasks(self, file_system),
                iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=[self.alarm.alarm_arn]),
            ],
            comment=f"Releases data of {workload} that S3 has, while space is short",
        )
        # Loading it brings queues, topics and much else along, and most stacks have no such rule.
        from aws_cdk import aws_events_targets as targets

        rule = events.Rule(
            self,
            "Rule",
            rule_name=f"{workload}-free-space",
            description=f"Space of {workload} gets short",
            event_pattern=events.EventPattern(
                source=["aws.cloudwatch"],
                detail_type=["CloudWatch Alarm State Change"],
                resources=[self.alarm.alarm_arn],
                detail={"state": {"value": ["ALARM"]}},
            ),
        )
        rule.add_target(targets.SfnStateMachine(self.state_machine))

    def _make_alarm(self, workload: str, file_system_id: str, capacity_gib: float, share: float) -> cloudwatch.Alarm:
        def metric(statistic: str) -> cloudwatch.Metric:
            return cloudwatch.Metric(
                namespace="AWS/FSx",
                metric_name="FreeDataStorageCapacity",
                dimensions_map={"FileSystemId": file_system_id},
                statistic=statistic,
                period=cdk.Duration.minutes(1),
            )

        return cloudwatch.Alarm(
            self,
            "Alarm",
            alarm_name=f"{workload}-free-space",
            alarm_description=(
                f"Less than {share:.0%} would be free on the file system of {workload} if every storage target were as "
                "full as the fullest"
            ),
            # FSx publishes a sample a minute and storage target: the smallest times their number is what would be free
            # if all were as full as the fullest. Files on that one get "no space left" while the sum still looks well.
            metric=cloudwatch.MathExpression(
                expression="least * targets",
                using_metrics={"least": metric("Minimum"), "targets": metric("SampleCount")},
                label="free",
                period=cdk.Duration.minutes(1),
            ),
            threshold=round(capacity_gib * GIB * share),
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=5,
            datapoints_to_alarm=5,
            # A gap in the metric is no free space: the alarm stays as it is.
            treat_missing_data=cloudwatch.TreatMissingData.IGNORE,
        )

    def _definition(self, file_system_id: str, paths: Sequence[str]) -> str:
        def call(action: str, parameters: Mapping[str, Any], following: str) -> dict[str, Any]:
            return {
                "Type": "Task",
                "Resource": _without_place(self, "states", f"aws-sdk:{action}"),
                "Parameters": parameters,
                # Another task may run for hours; FSx refuses a second one until it has ended.
                "Retry": [
                    {
                        "ErrorEquals": ["States.ALL"],
                        "IntervalSeconds": 60,
                        "MaxAttempts": 60,
                        "BackoffRate": 1.5,
                        "MaxDelaySeconds": 900,
                    }
                ],
                "ResultPath": None if following == "wait" else "$",
                "Next": following,
            }

        look = call("cloudwatch:describeAlarms", {"AlarmNames": [self.alarm.alarm_name]}, "still short")
        standing = {"Variable": "$.MetricAlarms[0].StateValue", "StringEquals": "ALARM", "Next": "release"}
        return json.dumps(
            {
                "Comment": "Releases data that S3 has while space is short",
                "StartAt": "release",
                "TimeoutSeconds": _LONGEST_S,
                "States": {
                    "release": call("fsx:createDataRepositoryTask", _task(file_system_id, paths, 0), "wait"),
                    "wait": {"Type": "Wait", "Seconds": _LOOK_AGAIN_S, "Next": "look"},
                    "look": look,
                    "still short": {"Type": "Choice", "Choices": [standing], "Default": "done"},
                    "done": {"Type": "Succeed"},
                },
            },
            separators=(",", ":"),
        )


def _task(file_system_id: str, paths: Sequence[str], days: int) -> dict[str, Any]:
    return {
        "FileSystemId": file_system_id,
        "Type": "RELEASE_DATA_FROM_FILESYSTEM",
        "Paths": [path.strip("/") or "/" for path in paths],
        "ReleaseConfiguration": {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": days}},
        "Report": {"Enabled": False},
    }


def _without_place(scope: IConstruct, service: str, resource: str) -> str:
    """Return the ARN of an integration, which has neither region nor account."""
    return cdk.Stack.of(scope).format_arn(
        service=service, region="", account="", resource=resource, arn_format=cdk.ArnFormat.NO_RESOURCE_NAME
    )


def _may_create_tasks(
    scope: IConstruct, file_system: LustreFileSystem | ImportedLustreFileSystem
) -> list[iam.PolicyStatement]:
    tasks = cdk.Stack.of(scope).format_arn(service="fsx", resource="task", resource_name="*")
    _nag.acknowledge(
        scope,
        _nag.wildcard(cdk.Stack.of(scope), tasks),
        "FSx gives a task its id when it makes it; the file system that it works on is named",
    )
    return [
        iam.PolicyStatement(actions=["fsx:CreateDataRepositoryTask"], resources=[file_system.file_system_arn, tasks])
    ]


def _wrong_kinds(
    workload: str,
    file_system: LustreFileSystem | ImportedLustreFileSystem,
    paths: Sequence[str],
    others: Mapping[str, tuple[object, Kind]],
) -> list[Problem]:
    problems = misfits(
        {
            "workload": (workload, TEXT),
            "file_system": (file_system, FILE_SYSTEM),
            "paths": (paths, LISTED_TEXTS),
            **others,
        }
    )
    problems += name_problems(workload)
    if LISTED_TEXTS.fits(paths) and not 1 <= len(paths) <= _MOST_PATHS:
        problems.append(
            Problem(
                what="not a number of paths that a task takes",
                path="paths",
                value=len(paths),
                allowed=f"1 to {_MOST_PATHS}",
                fix="give the folders above them",
            )
        )
    version = getattr(file_system, "file_system_type_version", None) if FILE_SYSTEM.fits(file_system) else None
    if concrete(version) == "2.10":
        problems.append(
            Problem(
                what="Lustre 2.10 cannot release data",
                path="file_system",
                value=version,
                allowed="file_system_type_version 2.12 or 2.15",
                fix="make the file system with 2.15",
            )
        )
    return problems
