"""Nodes and fleet of a plan."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage.compute import GpuFleet, NodeStorage
from training_storage.parts.hot import HotStorage
from training_storage.parts.settings import WORKLOAD_TAG, group_of
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake


def make_node_storage(
    scope: Construct, construct_id: str, plan: Plan, *, data_lake: DataLake, storage: HotStorage
) -> NodeStorage:
    """Make the storage of a plan as nodes see it: mounts, rights, paths and bootstrap.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
        data_lake: The lake that nodes read and write.
        storage: What stands between lake and fleet.
    """
    return NodeStorage.from_plan(
        scope,
        construct_id,
        plan=plan,
        data_lake=data_lake,
        file_system=storage.file_system,
        directory_buckets=storage.directory_buckets,
        shared_cache=storage.shared_cache,
        s3_file_system=storage.s3_file_system,
    )


def make_fleet(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    *,
    vpc: ec2.IVpc,
    subnet: ec2.ISubnet,
    node_storage: NodeStorage,
) -> GpuFleet:
    """Make the GPU fleet of a plan with its mounts, in the role and group that the workload names, or new ones.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
        vpc: VPC of the subnet.
        subnet: The one subnet for storage and fleet.
        node_storage: What each node mounts.
    """
    compute = plan.workload.compute
    role = iam.Role.from_role_arn(scope, f"{construct_id}Role", compute.role_arn) if compute.role_arn else None
    fleet = GpuFleet(
        scope,
        construct_id,
        vpc=vpc,
        subnet=subnet,
        instance_type=plan.compute.instance_type,
        instance_count=plan.compute.instance_count,
        purchase=compute.purchase,
        capacity_reservation_id=compute.capacity_reservation_id,
        start=compute.start,
        end=compute.end,
        placement_group=plan.compute.placement_group,
        efa=plan.compute.efa,
        type_facts=plan.compute.facts,
        image=compute.image,
        security_group=group_of(scope, f"{construct_id}Group", compute.security_group_id),
        role=role,
        storage=node_storage,
        user_commands=compute.user_commands,
        catalog=plan.catalog,
    )
    # How commands find the nodes of a workload.
    cdk.Tags.of(fleet.auto_scaling_group).add(WORKLOAD_TAG, plan.name)
    return fleet
