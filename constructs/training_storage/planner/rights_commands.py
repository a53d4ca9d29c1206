"""The rights of whoever runs ``checkpoints``, ``preload`` and ``release`` on what a plan has made.

Nothing here is needed to deploy. What each command calls is in ``docs/checkpoints.md`` (who may call) and
``docs/release.md`` (rights); a test runs commands and compares. Resource types and condition keys: service
authorization reference.
"""

from __future__ import annotations

from typing import Final

from training_storage.node import places
from training_storage.planner.model import Plan
from training_storage.planner.rights import lake_name, place_of

CHECKPOINTS: Final = "checkpoints/"
_TAG: Final = "training-storage:workload"
_RUN: Final = ("monitoring", "compute", "hot")


def command_rights(plan: Plan) -> list[dict[str, object]]:
    """Return the statements of whoever runs the commands, without those of ``release --abandon``.

    Args:
        plan: The plan. A lake that is still to be made stands as ``${DataLakeBucketName}``, an account that the
            workload does not name as ``${AWS::AccountId}``.
    """
    statements = [*_stacks(plan), *_release(plan)]
    if plan.workload.checkpoints is not None or plan.lustre is not None:
        statements += [*_nodes(plan), *_lake(plan)]
    return [*statements, *_listings(plan)]


def _stacks(plan: Plan) -> list[dict[str, object]]:
    partition, region, account = place_of(plan)
    stacks = f"arn:{partition}:cloudformation:{region}:{account}:stack/{plan.name}"
    return [
        _allow("SeeTheStacks", ["cloudformation:DescribeStacks"], [f"{stacks}-{part}/*" for part in ("lake", *_RUN)]),
        # Of one whose creation failed, and which has no outputs.
        _allow("SeeWhatTheHotStackMade", ["cloudformation:ListStackResources"], [f"{stacks}-hot/*"]),
    ]


def _release(plan: Plan) -> list[dict[str, object]]:
    partition, region, account = place_of(plan)
    states = f"arn:{partition}:states:{region}:{account}"
    return [
        _allow(
            "StartARelease",
            ["states:ListExecutions", "states:StartExecution"],
            [f"{states}:stateMachine:{plan.name}-release"],
        ),
        _allow(
            "FollowARelease",
            ["states:DescribeExecution", "states:GetExecutionHistory"],
            [f"{states}:execution:{plan.name}-release:*"],
        ),
    ]


def _nodes(plan: Plan) -> list[dict[str, object]]:
    partition, region, account = place_of(plan)
    return [
        _allow(
            "FindNodesAndFollowCommands",
            [
                "ec2:DescribeInstances",
                "ssm:DescribeInstanceInformation",
                "ssm:GetCommandInvocation",
                "ssm:ListCommandInvocations",
                "ssm:ListCommands",
            ],
            ["*"],
        ),
        _allow("SendCommands", ["ssm:SendCommand"], [f"arn:{partition}:ssm:{region}::document/AWS-RunShellScript"]),
        _allow(
            "SendCommandsToNodesOfTheWorkload",
            ["ssm:SendCommand"],
            [f"arn:{partition}:ec2:{region}:{account}:instance/*"],
            {"StringEquals": {f"ssm:resourceTag/{_TAG}": plan.name}},
        ),
    ]


def _lake(plan: Plan) -> list[dict[str, object]]:
    partition, _, _ = place_of(plan)
    lake = f"arn:{partition}:s3:::{lake_name(plan)}"
    reads = [places.ROOT, *([CHECKPOINTS] if plan.workload.checkpoints is not None else [])]
    statements = [
        _allow("ListAnswersAndRecords", ["s3:ListBucket"], [lake], _below(reads)),
        _allow("ReadAnswersAndRecords", ["s3:GetObject"], [f"{lake}/{each}*" for each in reads]),
        _allow("NoteWhatIsSent", ["s3:PutObject"], [f"{lake}/{each}*" for each in (places.CALLS, places.LISTS)]),
    ]
    links = plan.lustre.links if plan.lustre else ()
    others = sorted(
        {(each.bucket, each.prefix) for each in links if each.bucket and _holds_checkpoints(plan, each.path)}
    )
    for number, (bucket, prefix) in enumerate(others, start=1):
        arn = f"arn:{partition}:s3:::{bucket}"
        statements += [
            _allow(f"ListPromotedCheckpoints{number}", ["s3:ListBucket"], [arn], _below([prefix])),
            _allow(f"ReadPromotedCheckpoints{number}", ["s3:GetObject"], [f"{arn}/{prefix}*"]),
        ]
    if plan.workload.data_lake.kms_key_arn:
        key = plan.workload.data_lake.kms_key_arn
        statements.append(_allow("UseTheKeyOfTheLake", ["kms:Decrypt", "kms:GenerateDataKey"], [key]))
    return statements


def _listings(plan: Plan) -> list[dict[str, object]]:
    """Return what ``preload --metadata`` needs."""
    existing = plan.workload.lustre.file_system_id
    # What a file system of before is linked to, the plan does not know.
    if plan.lustre is None or not (plan.lustre.links or existing):
        return []
    partition, region, account = place_of(plan)
    fsx = f"arn:{partition}:fsx:{region}:{account}"
    return [
        _allow(
            "FindLinksAndTasks",
            ["fsx:DescribeDataRepositoryAssociations", "fsx:DescribeDataRepositoryTasks"],
            ["*"],
        ),
        _allow("ImportListings", ["fsx:CreateDataRepositoryTask"], [f"{fsx}:task/*"]),
        _allow(
            "ImportListingsIntoTheFileSystem",
            ["fsx:CreateDataRepositoryTask"],
            [f"{fsx}:file-system/{existing or '*'}"],
            # One that was there before does not carry the tag, and is named.
            None if existing else {"StringEquals": {f"aws:ResourceTag/{_TAG}": plan.name}},
        ),
    ]


def _holds_checkpoints(plan: Plan, path: str) -> bool:
    mount = next((each.path for each in plan.mounts if each.kind == "lustre"), "").rstrip("/")
    checkpoints = (plan.paths.checkpoints or "").rstrip("/") + "/"
    link = f"{mount}/{path.strip('/')}".rstrip("/") + "/"
    return checkpoints != "/" and (checkpoints.startswith(link) or link.startswith(checkpoints))


def _below(prefixes: list[str]) -> dict[str, object]:
    return {"StringLike": {"s3:prefix": [f"{each}*" for each in prefixes]}}


def _allow(
    sid: str, actions: list[str], resources: list[str], condition: dict[str, object] | None = None
) -> dict[str, object]:
    made: dict[str, object] = {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
    return made if condition is None else {**made, "Condition": condition}
