"""What happens to a run by the clock: data is loaded before it begins, and the tier goes when it has long been idle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from training_storage._arguments import DURATION, LISTED_TEXTS, MOMENT, TEXT, misfits, optional
from training_storage._node_code import node_function
from training_storage._tokens import concrete
from training_storage.errors import Problem, ValidationError
from training_storage.lifecycle._machines import make_machine
from training_storage.lifecycle._names import LAKE, name_problems, whole_units
from training_storage.lifecycle._release_rights import allow_commands
from training_storage.lifecycle._schedules import make_schedule
from training_storage.lifecycle._step_states import machine_of, step_states
from training_storage.lifecycle._waits import wait_for_policy
from training_storage.node import places
from training_storage.tiers import DataLake

_LONGEST_STEP: Final = cdk.Duration.minutes(15)
_LONGEST_PRELOAD_S: Final = 2 * 24 * 3600


class IdleRelease(Construct):
    """Asks each hour whether a run has been idle for some hours, and releases it then, through the same proof.

    Idle is what the release calls so: no node of the fleet was there, and nothing was written, for that long. A run
    that is not idle costs one short execution an hour. The schedule stands in a stack of the run and goes with it.

    Example::

        IdleRelease(self, "Idle", workload="llama3-70b", idle_for=cdk.Duration.hours(12))

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        workload: The workload's name; the schedule is named ``WORKLOAD-release-when-idle``.
        idle_for: Whole hours, 1 or more.
        state_machine_arn: The release machine. Left out, the one named ``WORKLOAD-release`` of this account and region,
            to which no reference runs.

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
        idle_for: cdk.Duration,
        state_machine_arn: str | None = None,
    ) -> None:
        problems = misfits(
            {
                "workload": (workload, TEXT),
                "idle_for": (idle_for, DURATION),
                "state_machine_arn": (state_machine_arn, optional(TEXT)),
            }
        )
        problems += name_problems(workload)
        hours, wrong = whole_units(
            idle_for, "idle_for", unit="hours", seconds=3600, least=1, why="the schedule looks once an hour"
        )
        problems += wrong
        if problems:
            raise ValidationError(problems, where=f"{scope.node.path}/{construct_id}".lstrip("/"))
        super().__init__(scope, construct_id)
        arn = state_machine_arn or cdk.Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=f"{workload}-release",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        self.schedule: Final = make_schedule(
            self,
            name=f"{workload}-release-when-idle",
            description=f"Releases {workload} when it has been idle for {hours} hours",
            expression="rate(1 hour)",
            target_arn=arn,
            given={"workload": workload, "action": "release", "leave": [], "idle_hours": hours},
            rights=[iam.PolicyStatement(actions=["states:StartExecution"], resources=[arn])],
        )


class PreloadSchedule(Construct):
    """Loads the data of a file system from S3 at a moment before a run, once.

    At the moment a state machine named ``WORKLOAD-preload`` starts, with one function that is called again until the
    data is there: it sends the work to nodes of the workload through SSM, starts the storage node where there is none,
    and follows. ``training-storage preload WORKLOAD`` does the same by hand.

    Example::

        from datetime import datetime

        PreloadSchedule(
            self,
            "Preload",
            workload="llama3-70b",
            data_lake=lake,
            at=datetime.fromisoformat("2030-12-01T06:00:00+00:00"),
        )

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        workload: The workload's name; the schedule is named ``WORKLOAD-preload`` too.
        data_lake: The lake, where nodes leave their answers.
        at: The moment, with its time zone, whole seconds; one that has passed does nothing.
        paths: Folders of the file system. Left out, ``/datasets``.

    Raises:
        ValidationError: An argument breaks a rule; nothing is added to the tree.

    Attributes:
        schedule: The schedule.
        state_machine: The state machine that it starts.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workload: str,
        data_lake: DataLake,
        at: datetime,
        paths: Sequence[str] = ("/datasets",),
    ) -> None:
        problems = misfits(
            {
                "workload": (workload, TEXT),
                "data_lake": (data_lake, LAKE),
                "at": (at, MOMENT),
                "paths": (paths, LISTED_TEXTS),
            }
        )
        problems += name_problems(workload)
        if MOMENT.fits(at) and at.tzinfo is None:
            problems.append(
                Problem(
                    what="a moment without a time zone",
                    path="at",
                    value=at.isoformat(),
                    allowed="a datetime with its time zone",
                    fix=f'datetime.fromisoformat("{at.isoformat()}+00:00")',
                )
            )
        if LISTED_TEXTS.fits(paths) and not paths:
            problems.append(
                Problem(what="no path", path="paths", allowed="one or more", fix='leave it out, or give ["/datasets"]')
            )
        for path in paths if LISTED_TEXTS.fits(paths) else ():
            known = concrete(path)
            if known is not None and not known.startswith("/"):
                problems.append(
                    Problem(
                        what="not a folder of the file system",
                        path="paths",
                        value=known,
                        allowed="a path that starts with /, below the root of the file system",
                        fix=f"/{known}",
                    )
                )
        if problems:
            raise ValidationError(problems, where=f"{scope.node.path}/{construct_id}".lstrip("/"))
        super().__init__(scope, construct_id)
        function = self._make_function(workload, data_lake)
        self.state_machine: Final = make_machine(
            self,
            "StateMachine",
            name=f"{workload}-preload",
            body=machine_of(
                step_states("preload", "done", function.function_arn, cdk.Stack.of(self).partition),
                start="preload",
                longest_s=_LONGEST_PRELOAD_S,
                comment=f"Loads the data of {workload} from S3",
            ),
            rights=[iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[function.function_arn])],
            comment=f"Loads the data of {workload} from S3",
        )
        moment = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
        self.schedule: Final = make_schedule(
            self,
            name=f"{workload}-preload",
            description=f"Loads the data of {workload} from S3 before its run",
            expression=f"at({moment})",
            target_arn=self.state_machine.state_machine_arn,
            given={"workload": workload, "action": "preload", "paths": list(paths)},
            rights=[
                iam.PolicyStatement(actions=["states:StartExecution"], resources=[self.state_machine.state_machine_arn])
            ],
        )

    def _make_function(self, workload: str, data_lake: DataLake) -> lambda_.Function:
        description = f"Loads the data of {workload} from S3"
        role = iam.Role(
            self, "FunctionRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"), description=description
        )
        log_group = logs.LogGroup(
            self, "LogGroup", retention=logs.RetentionDays.ONE_YEAR, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        log_group.grant_write(role)
        allow_commands(self, role, workload)
        # Without the right to list the whole bucket, S3 answers 403 and not 404 for an object that is not there.
        role.add_to_principal_policy(iam.PolicyStatement(actions=["s3:ListBucket"], resources=[data_lake.bucket_arn]))
        data_lake.grant_read_write(role, prefix=places.ROOT)
        function = node_function(
            self,
            name="preload",
            description=description,
            role=role,
            log_group=log_group,
            timeout=_LONGEST_STEP,
            memory_size=512,
            environment={"WORKLOAD": workload, "LAKE_BUCKET": data_lake.bucket_name},
        )
        wait_for_policy(function, role)
        return function
