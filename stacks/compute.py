"""The GPU fleet of one run."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.hot import HotStack
from stacks.lake import LakeStack
from stacks.network import NetworkStack, given_network
from training_storage import _nag
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
        _acknowledge_object_wildcards(self, lake)
        cdk.CfnOutput(self, "AutoScalingGroupName", value=self.fleet.auto_scaling_group.ref)
        # The dashboard refers to the group. The export stays without a dashboard, so that switching monitoring off does
        # not take away what the monitoring stack, which is still there then, imports.
        self.export_value(self.fleet.auto_scaling_group.ref)


def _acknowledge_object_wildcards(stack: ComputeStack, lake: LakeStack) -> None:
    """Acknowledge what nodes may do to objects of the lake: names of objects cannot be known here."""
    bucket = lake.data_lake.bucket
    made_here = isinstance(bucket.node.default_child, s3.CfnBucket)
    arn = lake.export_value(bucket.bucket_arn) if made_here else bucket.bucket_arn
    shown = _nag.flat(stack, arn)
    for prefix, reason in (
        ("", "nodes read the lake; only the names of its objects stand open"),
        ("checkpoints/", "nodes write checkpoints below this one prefix"),
    ):
        _nag.acknowledge(stack.fleet, f"IAM5[Resource::{shown}/{prefix}*]", reason)
