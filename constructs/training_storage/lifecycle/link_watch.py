"""Looks whether a link of a file system has stopped: FSx has neither a metric nor an event that says so."""

from __future__ import annotations

import json
from typing import Any, Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage._arguments import TEXT, misfits
from training_storage.errors import ValidationError
from training_storage.lifecycle._machines import make_machine
from training_storage.lifecycle._names import name_problems
from training_storage.lifecycle._schedules import make_schedule
from training_storage.lifecycle.data_release import FILE_SYSTEM
from training_storage.node.metrics import NAMESPACE, OURS
from training_storage.tiers import ImportedLustreFileSystem, LustreFileSystem

_EVERY: Final = "rate(5 minutes)"
_STOPPED: Final = ("MISCONFIGURED", "FAILED")
_METRIC: Final = OURS["LinksBroken"]


class LinkWatch(Construct):
    """Each five minutes writes whether a link of a file system has stopped: metric ``LinksBroken``, 0 or 1.

    A link that is ``MISCONFIGURED`` or ``FAILED`` carries nothing over, while training goes on as if nothing were. A
    schedule of EventBridge Scheduler starts a small state machine, ``WORKLOAD-links``, which asks FSx and writes the
    metric without code of ours; where FSx does not answer, nothing is written, and the alarm says that it does not
    know.

    Example::

        LinkWatch(self, "Links", workload="llama3-70b", file_system=file_system)

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        workload: The workload's name.
        file_system: The file system.

    Raises:
        ValidationError: An argument breaks a rule; nothing is added to the tree.

    Attributes:
        state_machine: What looks.
        schedule: When it does.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        workload: str,
        file_system: LustreFileSystem | ImportedLustreFileSystem,
    ) -> None:
        where = f"{scope.node.path}/{construct_id}".lstrip("/")
        problems = misfits({"workload": (workload, TEXT), "file_system": (file_system, FILE_SYSTEM)})
        problems += name_problems(workload)
        if problems:
            raise ValidationError(problems, where=where)
        super().__init__(scope, construct_id)
        self.state_machine: Final = make_machine(
            self,
            "StateMachine",
            name=f"{workload}-links",
            body=self._definition(workload, file_system.file_system_id),
            rights=[
                # Neither takes a resource (service authorization reference of FSx and of CloudWatch).
                iam.PolicyStatement(actions=["fsx:DescribeDataRepositoryAssociations"], resources=["*"]),
                iam.PolicyStatement(
                    actions=["cloudwatch:PutMetricData"],
                    resources=["*"],
                    conditions={"StringEquals": {"cloudwatch:namespace": NAMESPACE}},
                ),
            ],
            comment=f"Looks whether a link of {workload} has stopped",
        )
        self.schedule: Final = make_schedule(
            self,
            name=f"{workload}-links",
            description=f"Looks at the links of {workload}",
            expression=_EVERY,
            target_arn=self.state_machine.state_machine_arn,
            given={},
            rights=[
                iam.PolicyStatement(actions=["states:StartExecution"], resources=[self.state_machine.state_machine_arn])
            ],
        )

    def _definition(self, workload: str, file_system_id: str) -> str:
        def call(action: str, parameters: dict[str, Any], **more: Any) -> dict[str, Any]:
            resource = cdk.Stack.of(self).format_arn(
                service="states",
                region="",
                account="",
                resource=f"aws-sdk:{action}",
                arn_format=cdk.ArnFormat.NO_RESOURCE_NAME,
            )
            retry = {"ErrorEquals": ["States.ALL"], "IntervalSeconds": 5, "MaxAttempts": 4, "BackoffRate": 2}
            return {"Type": "Task", "Resource": resource, "Parameters": parameters, "Retry": [retry], **more}

        def write(value: int) -> dict[str, Any]:
            datum = {
                "MetricName": _METRIC.name,
                "Dimensions": [{"Name": "Workload", "Value": workload}],
                "Unit": _METRIC.unit,
                "Value": value,
            }
            return call("cloudwatch:putMetricData", {"Namespace": NAMESPACE, "MetricData": [datum]}, End=True)

        stopped = {name.lower(): f"States.ArrayContains($.lifecycles, '{name}')" for name in _STOPPED}
        either = [{"Variable": f"$.{name}", "BooleanEquals": True} for name in stopped]
        return json.dumps(
            {
                "Comment": "Looks whether a link has stopped",
                "StartAt": "look",
                "TimeoutSeconds": 240,
                "States": {
                    "look": call(
                        "fsx:describeDataRepositoryAssociations",
                        {
                            "Filters": [{"Name": "file-system-id", "Values": [file_system_id]}],
                            # As many as one answer holds; a file system has eight at most.
                            "MaxResults": 25,
                        },
                        ResultSelector={"lifecycles.$": "$.Associations[*].Lifecycle"},
                        Next="judge",
                    ),
                    "judge": {
                        "Type": "Pass",
                        "Parameters": {f"{name}.$": text for name, text in stopped.items()},
                        "Next": "stopped",
                    },
                    "stopped": {"Type": "Choice", "Choices": [{"Or": either, "Next": "write 1"}], "Default": "write 0"},
                    "write 1": write(1),
                    "write 0": write(0),
                },
            },
            separators=(",", ":"),
        )
