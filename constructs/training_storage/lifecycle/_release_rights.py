"""What the function of a release may do: exact actions, on names that outlive a run and never on one file system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from training_storage import _nag
from training_storage.node.release.stacks import PARTS

WORKLOAD_TAG: Final = "training-storage:workload"
"""Tag of the file system and the instances of a workload."""

_COMMANDS: Final = {
    "autoscaling:DescribeAutoScalingGroups": "whether the storage node is there and wanted",
    "ec2:DescribeInstances": "which nodes of the workload run",
    "ssm:DescribeInstanceInformation": "which nodes take commands",
    "ssm:GetCommandInvocation": "how a command ended",
    "ssm:ListCommandInvocations": "how commands ended",
    "ssm:ListCommands": "whether a command was sent whose answer was lost",
}
"""Actions that name no resource of ours (service authorization reference), and why one looks there who runs commands
on nodes."""

_LOOKING: Final = {
    "cloudwatch:GetMetricData": "when the file system was last written to, and the age of its queues",
    "fsx:DescribeDataRepositoryAssociations": "whether the links are in order",
    "fsx:DescribeDataRepositoryTasks": "whether an export has ended",
    "fsx:DescribeFileSystems": "whether the file system is there",
}
"""The same, of a release."""

_STACK_ACTIONS: Final = (
    "cloudformation:DeleteStack",
    "cloudformation:DescribeStackEvents",
    "cloudformation:DescribeStacks",
    "cloudformation:ListStackResources",
)


def allow_release(
    scope: IConstruct, role: iam.IRole, workload: str, file_system_ids: Sequence[str], *, empties: bool = False
) -> None:
    """Let a role look at a run, let nodes and FSx copy what must be kept, and delete the stacks of the run.

    Args:
        scope: Construct around the role; findings are acknowledged on it.
        role: The role.
        workload: The workload's name.
        file_system_ids: File systems that no tag of ours names, because they were there before.
        empties: Whether it removes objects from directory buckets, and so has to read in the template of the hot stack
            which of them that stack deletes. Left out, it may not.
    """
    stack = cdk.Stack.of(scope)
    allow_commands(scope, role, workload, looking=_LOOKING)
    _allow(
        scope,
        role,
        _STACK_ACTIONS,
        [
            stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{workload}-{part}/*")
            for part in PARTS
        ],
        "The id behind a stack's name is new each time a run is made; the name is that of this run's stack alone",
    )
    _allow(
        scope,
        role,
        ["fsx:CreateDataRepositoryTask"],
        [stack.format_arn(service="fsx", resource="file-system", resource_name="*")],
        "No reference runs from the lake to the file system of a run; the tag holds it to this workload's",
        {f"aws:ResourceTag/{WORKLOAD_TAG}": workload},
    )
    if empties:
        _allow(
            scope,
            role,
            ["cloudformation:GetTemplate"],
            [stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{workload}-hot/*")],
            "The id behind a stack's name is new each time a run is made; the name is that of this run's stack alone",
        )
    if file_system_ids:
        _allow(
            scope,
            role,
            ["fsx:CreateDataRepositoryTask"],
            [stack.format_arn(service="fsx", resource="file-system", resource_name=each) for each in file_system_ids],
        )
    _allow(
        scope,
        role,
        ["fsx:CreateDataRepositoryTask", "fsx:TagResource"],
        [stack.format_arn(service="fsx", resource="task", resource_name="*")],
        "FSx gives a task its id when it makes it; which file system it works on is held by the tag",
    )


def allow_commands(
    scope: IConstruct, role: iam.IRole, workload: str, *, looking: Mapping[str, str] | None = None
) -> None:
    """Let a role run commands on the nodes of a run, and start its storage node.

    Args:
        scope: Construct around the role; findings are acknowledged on it.
        role: The role.
        workload: The workload's name.
        looking: More actions that take no resource, and what each is for. Left out: none.
    """
    stack = cdk.Stack.of(scope)
    wanted = dict(sorted({**_COMMANDS, **(looking or {})}.items()))
    _allow(
        scope,
        role,
        tuple(wanted),
        ["*"],
        "These actions take no resource: " + "; ".join(f"{action}, {why}" for action, why in wanted.items()),
    )
    _allow(
        scope,
        role,
        ["ssm:SendCommand"],
        [stack.format_arn(service="ssm", account="", resource="document", resource_name="AWS-RunShellScript")],
    )
    _allow(
        scope,
        role,
        ["ssm:SendCommand"],
        [stack.format_arn(service="ec2", resource="instance", resource_name="*")],
        "Instances come and go; the tag holds the command to those of this workload",
        {f"ssm:resourceTag/{WORKLOAD_TAG}": workload},
    )
    _allow(
        scope,
        role,
        ["autoscaling:SetDesiredCapacity"],
        [
            stack.format_arn(
                service="autoscaling",
                resource="autoScalingGroup",
                resource_name=f"*:autoScalingGroupName/{workload}-storage-node",
                arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
            )
        ],
        "The id before the name of the group is new each time a run is made; the name is exact",
    )


def _allow(
    scope: IConstruct,
    role: iam.IRole,
    actions: Sequence[str],
    resources: Sequence[str],
    reason: str = "",
    conditions: Mapping[str, str] | None = None,
) -> None:
    role.add_to_principal_policy(
        iam.PolicyStatement(
            actions=sorted(actions),
            resources=list(resources),
            conditions={"StringEquals": dict(conditions)} if conditions else None,
        )
    )
    for resource in resources:
        if "*" in resource:
            _nag.acknowledge(scope, _nag.wildcard(cdk.Stack.of(scope), resource), reason)
