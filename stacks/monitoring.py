"""What people look at while a run goes on."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stacks.compute import ComputeStack
from training_storage.parts import make_dashboard
from training_storage.planner.model import Plan


class MonitoringStack(cdk.Stack):
    """One small dashboard."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        compute: ComputeStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"Dashboard of {plan.name}, for one run", **kwargs)
        dashboard = make_dashboard(
            self,
            "Dashboard",
            plan,
            data_lake=compute.data_lake,
            file_system=compute.storage.file_system,
            fleet=compute.fleet,
        )
        assert dashboard is not None  # noqa: S101 - the caller makes this stack only with monitoring on
        cdk.CfnOutput(self, "DashboardName", value=dashboard.dashboard_name)
