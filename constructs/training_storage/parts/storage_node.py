"""The node that looks at a file system when no fleet is there."""

from __future__ import annotations

from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage.compute import BucketAccess, LustreMount, NodeStorage
from training_storage.compute.agent import agent_of
from training_storage.compute.node_rights import acknowledge_node_statements, node_statements
from training_storage.lifecycle import StorageNode
from training_storage.parts.hot import HotStorage
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake, LustreFileSystem


def make_storage_node(
    scope: Construct,
    construct_id: str,
    plan: Plan,
    *,
    vpc: ec2.IVpc,
    subnet: ec2.ISubnet,
    data_lake: DataLake,
    storage: HotStorage,
) -> StorageNode | None:
    """Make the storage node of a plan; None where the plan makes no Lustre file system.

    It mounts the file system alone, over TCP, and makes no directories there. Its agent runs only when it is asked to.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
        vpc: VPC of the subnet.
        subnet: Subnet of the file system.
        data_lake: The lake.
        storage: What stands between lake and fleet.
    """
    file_system, stack = storage.file_system, cdk.Stack.of(scope)
    if not isinstance(file_system, LustreFileSystem):
        return None
    agent = agent_of(plan, region=stack.region, data_lake=data_lake, file_system=file_system, directory_buckets=())
    assert agent is not None  # noqa: S101 - a plan with Lustre has an agent
    node_storage = NodeStorage(
        scope,
        f"{construct_id}Storage",
        mounts=[LustreMount(file_system=file_system, path=agent.settings.mount, checkpoints=None, scratch=None)],
        buckets=[BucketAccess(bucket=data_lake)],
        agent=replace(agent, timer=False),
        catalog=plan.catalog,
    )
    user_data = ec2.UserData.for_linux()
    node_storage.add_to(user_data)
    node = StorageNode(scope, construct_id, workload=plan.name, vpc=vpc, subnet=subnet, user_data=user_data)
    policy = iam.Policy(node, "Policy", statements=node_statements(stack, signal=False))
    node.role.attach_inline_policy(policy)
    acknowledge_node_statements(policy)
    rules = node_storage.attach(client=node, grantee=node)
    # The instance needs them for as long as it runs, so that the group goes first.
    node.auto_scaling_group.node.add_dependency(policy, node.role, *rules)
    return node
