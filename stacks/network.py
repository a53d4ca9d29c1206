"""The VPC of the runs, where none is given."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.compute import ImportedNetwork, TrainingNetwork
from training_storage.parts import uses_directory_buckets
from training_storage.planner.model import Plan


class NetworkStack(cdk.Stack):
    """A VPC with one private subnet in the workload's zone."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, description=f"Network of {plan.name}", **kwargs)
        network = TrainingNetwork(
            self,
            "Network",
            availability_zone_id=plan.workload.availability_zone_id,
            internet=plan.workload.network.internet,
            express=uses_directory_buckets(plan),
        )
        self.vpc: ec2.IVpc = network.vpc
        self.subnet: ec2.ISubnet = network.subnet


def given_network(scope: Construct, plan: Plan, *, add_endpoints: bool) -> tuple[ec2.IVpc, ec2.ISubnet]:
    """Return the VPC and subnet that the workload names.

    Args:
        scope: Stack that uses them.
        plan: The plan; its workload names both.
        add_endpoints: Whether gateway endpoints are added to the given route tables: one stack of a workload does.
    """
    network = plan.workload.network
    assert network.vpc_id is not None and network.subnet_id is not None  # noqa: S101, PT018 - loading refuses one alone
    imported = ImportedNetwork(
        scope,
        "Network",
        vpc_id=network.vpc_id,
        subnet_id=network.subnet_id,
        availability_zone_id=plan.workload.availability_zone_id,
        route_table_ids=network.route_table_ids if add_endpoints else (),
        express=uses_directory_buckets(plan),
        has_gateway_endpoints=not add_endpoints,
    )
    return imported.vpc, imported.subnet
