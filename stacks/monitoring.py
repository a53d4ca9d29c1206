"""What people look at while a run goes on."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stacks.compute import ComputeStack
from stacks.hot import HotStack
from stacks.lake import LakeStack
from training_storage.planner.model import Plan
from training_storage.training_storage import make_dashboard


class MonitoringStack(cdk.Stack):
    """One small dashboard."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        lake: LakeStack,
        hot: HotStack | None,
        compute: ComputeStack,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"Dashboard of {plan.name}, for one run", **kwargs)
        dashboard = make_dashboard(
            self,
            "Dashboard",
            plan,
            data_lake=lake.data_lake,
            file_system=hot.file_system if hot else None,
            fleet=compute.fleet,
        )
        assert dashboard is not None  # noqa: S101 - the caller makes this stack only with monitoring on
        cdk.CfnOutput(self, "DashboardName", value=dashboard.dashboard_name)
