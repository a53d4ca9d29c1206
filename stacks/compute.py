"""The GPU fleet of one run."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stacks.hot import HotStack
from stacks.lake import LakeStack
from stacks.network import NetworkStack, given_network
from training_storage.planner.model import Plan
from training_storage.training_storage import make_fleet


class ComputeStack(cdk.Stack):
    """The fleet; every node proves its storage before it reports success."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        plan: Plan,
        lake: LakeStack,
        network: NetworkStack | None,
        hot: HotStack | None,
        **kwargs: Any,
    ) -> None:
        super().__init__(scope, construct_id, description=f"GPU fleet of {plan.name}, for one run", **kwargs)
        vpc, subnet = (network.vpc, network.subnet) if network else given_network(self, plan, add_endpoints=True)
        self.fleet = make_fleet(
            self,
            "Fleet",
            plan,
            vpc=vpc,
            subnet=subnet,
            data_lake=lake.data_lake,
            file_system=hot.file_system if hot else None,
        )
        cdk.CfnOutput(self, "AutoScalingGroupName", value=self.fleet.auto_scaling_group.ref)
