"""Build the stacks of a plan. A stack that would hold nothing is not made."""

from __future__ import annotations

from dataclasses import dataclass

import aws_cdk as cdk
from constructs import Construct

from stacks.compute import ComputeStack
from stacks.hot import HotStack
from stacks.lake import LakeStack
from stacks.monitoring import MonitoringStack
from stacks.network import NetworkStack
from training_storage.parts import is_anything_made
from training_storage.planner.model import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStacks:
    """The stacks of one workload; None for one that would hold nothing."""

    lake: LakeStack
    network: NetworkStack | None
    hot: HotStack | None
    compute: ComputeStack
    monitoring: MonitoringStack | None


def build_stacks(scope: Construct, plan: Plan) -> TrainingStacks:
    """Make the stacks of a plan: lake and network are kept for years, hot, compute and monitoring for one run.

    Args:
        scope: The app, or a stage.
        plan: The plan.
    """
    workload = plan.workload
    env = cdk.Environment(account=workload.account, region=workload.region)
    lake = LakeStack(scope, f"{plan.name}-lake", plan=plan, env=env)
    network = (
        NetworkStack(scope, f"{plan.name}-network", plan=plan, env=env) if workload.network.vpc_id is None else None
    )
    hot = (
        HotStack(scope, f"{plan.name}-hot", plan=plan, lake=lake, network=network, env=env)
        if is_anything_made(plan)
        else None
    )
    compute = ComputeStack(scope, f"{plan.name}-compute", plan=plan, lake=lake, network=network, hot=hot, env=env)
    monitoring = (
        MonitoringStack(scope, f"{plan.name}-monitoring", plan=plan, compute=compute, env=env)
        if workload.monitoring.enabled
        else None
    )
    return TrainingStacks(lake=lake, network=network, hot=hot, compute=compute, monitoring=monitoring)
