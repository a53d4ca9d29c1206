"""The GPU fleet of one run."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from stacks.hot import HotStack
from stacks.lake import LakeStack
from stacks.network import NetworkStack, given_network
from stacks.objects import acknowledge_objects
from stacks.schedules import add_schedules
from training_storage.parts import HotStorage, make_fleet, make_hot_storage, make_node_storage
from training_storage.planner.model import Plan


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
        self.data_lake = lake.data_lake
        self.storage: HotStorage = (
            # What is there already and needs no resource of ours has no stack of its own.
            hot.storage if hot else make_hot_storage(self, plan, vpc=vpc, subnet=subnet, data_lake=self.data_lake)
        )
        node_storage = make_node_storage(self, "FleetStorage", plan, data_lake=self.data_lake, storage=self.storage)
        self.fleet = make_fleet(self, "Fleet", plan, vpc=vpc, subnet=subnet, node_storage=node_storage)
        # The policy of a role that is given stands beside the fleet and not in it.
        for holder in {self.fleet.node.path: self.fleet, self.fleet.role.node.path: self.fleet.role}.values():
            acknowledge_objects(
                holder,
                self.data_lake,
                lake,
                {
                    "": "nodes read the lake; only the names of its objects stand open",
                    "checkpoints/": "nodes write checkpoints below this one prefix",
                    ".training-storage/": "the agent of nodes writes records and answers below this one prefix",
                },
            )
        if hot is None:
            add_schedules(self, plan, lake=lake, storage=self.storage)
        cdk.CfnOutput(self, "AutoScalingGroupName", value=self.fleet.auto_scaling_group.ref)
        # The dashboard refers to the group. The export stays without a dashboard, so that switching monitoring off does
        # not take away what the monitoring stack, which is still there then, imports.
        self.export_value(self.fleet.auto_scaling_group.ref)
