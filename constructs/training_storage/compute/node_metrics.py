"""What nodes tell of themselves: who publishes it, under which name, and the rights for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from training_storage import _nag
from training_storage._arguments import has
from training_storage.compute.cloudwatch_agent import configuration_line
from training_storage.compute.mount_model import Mount, MountpointMount
from training_storage.node.emf import log_group as log_group_name
from training_storage.node.metrics.model import NAMESPACE

if TYPE_CHECKING:
    from training_storage.planner.model import Plan

OTLP_ENDPOINT: Final = "http://127.0.0.1:4318"
"""Where the collector of a node takes what Mountpoint sends; not ``localhost``, which may be an IPv6 address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeMetrics:
    """What nodes tell besides their training: CloudWatch agent and collector on each of them.

    Attributes:
        workload: Name of the workload, the dimension of every metric. Two fleets of one name are one in CloudWatch.
        gpus: Whether nodes have GPUs of NVIDIA. Default: yes.
        retention: How long the log of records is kept; metrics stay in CloudWatch for 15 months. Default: a month.
        removal_policy: What becomes of that log with its stack. Default: it goes.
    """

    workload: str
    gpus: bool = True
    retention: logs.RetentionDays = logs.RetentionDays.ONE_MONTH
    removal_policy: cdk.RemovalPolicy = cdk.RemovalPolicy.DESTROY


def metrics_of(plan: Plan) -> NodeMetrics | None:
    """Return what the nodes of a plan tell; None where monitoring is off.

    Args:
        plan: The plan.
    """
    if not plan.workload.monitoring.enabled:
        return None
    maker = plan.compute.facts.accelerator_manufacturer
    return NodeMetrics(workload=plan.name, gpus=maker is None or maker.upper() == "NVIDIA")


def metrics_environment(metrics: NodeMetrics | None) -> dict[str, str]:
    """Return what ``/etc/training-storage/env`` says of metrics: training code that reads it tells the agent.

    Args:
        metrics: What nodes tell; None: nothing.
    """
    if metrics is None:
        return {}
    return {"TRAINING_STORAGE_WORKLOAD": metrics.workload, "TRAINING_STORAGE_METRICS": "agent"}


def agent_configuration(metrics: NodeMetrics | None) -> str:
    """Return the configuration of the CloudWatch agent as one line; empty without metrics.

    Args:
        metrics: What nodes tell; None: nothing.
    """
    return "" if metrics is None else configuration_line(metrics.workload, gpus=metrics.gpus)


def metered(mount: Mount, metrics: NodeMetrics | None) -> Mount:
    """Return a mount whose Mountpoint tells the collector what it does, where nobody else is told already.

    Args:
        mount: The mount.
        metrics: What nodes tell; None: nothing.
    """
    if metrics is None or not isinstance(mount, MountpointMount) or mount.otlp_endpoint is not None:
        return mount
    return replace(mount, otlp_endpoint=OTLP_ENDPOINT)


def make_log_group(scope: Construct, construct_id: str, metrics: NodeMetrics) -> logs.LogGroup:
    """Make the log group that records go to. Nodes can't make it, so that it does not come back after its stack.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        metrics: What nodes tell.
    """
    return logs.LogGroup(
        scope,
        construct_id,
        log_group_name=log_group_name(metrics.workload),
        retention=metrics.retention,
        removal_policy=metrics.removal_policy,
    )


def grant_metrics(stack: cdk.Stack, grantee: iam.IGrantable, metrics: NodeMetrics) -> None:
    """Grant what CloudWatch agent and telemetry need: metrics of one namespace, and records into one log group.

    ``PutMetricData`` has no resource types (Service Authorization Reference, CloudWatch).

    Args:
        stack: Stack of the mounts.
        grantee: Role of the nodes, or what carries one.
        metrics: What nodes tell.
    """
    iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["cloudwatch:PutMetricData"],
        resource_arns=["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": NAMESPACE}},
    )
    # By its name: a reference would bind the stack of a role to ours.
    streams = stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name=f"{log_group_name(metrics.workload)}:*",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    iam.Grant.add_to_principal(
        grantee=grantee, actions=["logs:CreateLogStream", "logs:PutLogEvents"], resource_arns=[streams]
    )
    principal = grantee.grant_principal
    if has(principal, "node"):
        role = cast(IConstruct, principal)
        _nag.acknowledge(role, "IAM5[Resource::*]", "writing metrics knows no resources; the namespace is a condition")
        _nag.acknowledge(role, _nag.wildcard(stack, streams), "each node writes a stream of its own")
