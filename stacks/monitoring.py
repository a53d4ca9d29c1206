"""What people look at while a run goes on."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stacks.compute import ComputeStack
from training_storage.parts import make_monitoring
from training_storage.planner.model import Plan


class MonitoringStack(cdk.Stack):
    """Dashboard, alarms and what the plan expects; all of it goes with the run."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        compute: ComputeStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"Dashboard and alarms of {plan.name}, for one run", **kwargs)
        made = make_monitoring(self, plan, data_lake=compute.data_lake, storage=compute.storage, fleet=compute.fleet)
        assert made is not None  # noqa: S101 - the caller makes this stack only with monitoring on
        cdk.CfnOutput(self, "DashboardName", value=made.dashboard.dashboard_name)
        cdk.CfnOutput(self, "ExpectedParameter", value=made.expected.parameter_name)
        if made.alarms.composite is not None:
            cdk.CfnOutput(self, "GpusWaitAlarm", value=made.alarms.composite.ref)
        if made.topic is not None:
            cdk.CfnOutput(self, "AlarmTopicArn", value=made.topic.topic.topic_arn)
