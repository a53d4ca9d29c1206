"""The agent of nodes: its settings as a file of the bootstrap, and what it may do.

The settings are those of ``training_storage.node.settings``; names and ids in them may be tokens.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import IConstruct

from training_storage import _nag
from training_storage._arguments import has
from training_storage.compute.mount_model import DirectoryBucketTarget, Lake, LustreClientTarget, bucket_name_of
from training_storage.node import places
from training_storage.node.checkpoints.model import Best, Policy
from training_storage.node.settings import Link, Settings
from training_storage.tiers._iam import keys_below

if TYPE_CHECKING:
    from training_storage.planner.model import MountPlan, Plan
    from training_storage.workload.model import Checkpoints

METRICS_NAMESPACE: Final = "TrainingStorage"
"""The one namespace that nodes may write metrics to."""

CHECKPOINTS_PREFIX: Final = "checkpoints/"
"""Where checkpoints lie in the lake, and in the first of the hot buckets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgent:
    """What works on the storage of a node besides training: promotes, prunes, verifies, loads, lists.

    Attributes:
        settings: What it knows of its workload. Without a policy it runs only when it is asked to.
        data_lake: The lake that the settings name.
        file_system: The Lustre file system that the settings name; None without one.
        timer: Whether it runs by itself every minute, where the settings have a policy. Default: yes.
    """

    settings: Settings
    data_lake: Lake
    file_system: LustreClientTarget | None = None
    timer: bool = True

    @property
    def runs_by_itself(self) -> bool:
        """Whether a timer starts it."""
        return self.timer and self.settings.policy is not None


def agent_of(
    plan: Plan,
    *,
    region: str,
    data_lake: Lake,
    file_system: LustreClientTarget | None,
    directory_buckets: tuple[DirectoryBucketTarget, ...],
) -> NodeAgent | None:
    """Return the agent of a plan's nodes; None where nothing lies on a hot tier or a disk that it would look after.

    Args:
        plan: The plan.
        region: Region of everything.
        data_lake: The lake.
        file_system: The Lustre file system; None without one.
        directory_buckets: The hot buckets, in the order of their index.
    """
    saves = plan.workload.checkpoints
    if plan.lustre is not None and file_system is not None:
        tier, hot_tier_id = "lustre", file_system.file_system_id
    elif saves is not None and plan.tiers.hot == "express":
        tier, hot_tier_id = "express", plan.name
    elif saves is not None and plan.paths.checkpoints is not None:
        tier, hot_tier_id = "nvme", plan.name
    else:
        return None
    lake_bucket = bucket_name_of(data_lake)
    settings = Settings(
        workload=plan.name,
        region=region,
        tier=tier,
        lake_bucket=lake_bucket,
        lake_prefix=CHECKPOINTS_PREFIX,
        hot_tier_id=hot_tier_id,
        mount=_lustre_path(plan.mounts) if tier == "lustre" else "",
        checkpoints=plan.paths.checkpoints or "",
        scratch=plan.paths.scratch or "",
        hot_buckets=tuple(bucket.bucket_name for bucket in directory_buckets) if tier == "express" else (),
        links=_links(plan, lake_bucket),
        nodes=plan.compute.instance_count,
        policy=None if saves is None else _policy(saves),
        max_restore_s=None if saves is None else float(saves.max_restore_time.seconds),
        restore_readers=1 if saves is None else saves.restore_readers,
    )
    return NodeAgent(settings=settings, data_lake=data_lake, file_system=file_system if tier == "lustre" else None)


def _lustre_path(mounts: tuple[MountPlan, ...]) -> str:
    return next(mount.path for mount in mounts if mount.kind == "lustre")


def _links(plan: Plan, lake_bucket: str) -> tuple[Link, ...]:
    """Return the links that are made; those of a file system that is there already are not known."""
    return tuple(
        Link(
            path=link.path,
            bucket=link.bucket or lake_bucket,
            prefix=link.prefix,
            imports=bool(link.import_events) or link.import_metadata_on_create,
            exports=bool(link.export_events),
        )
        for link in (plan.lustre.links if plan.lustre is not None else ())
    )


def _policy(saves: Checkpoints) -> Policy:
    return Policy(
        keep_hot=saves.keep_hot,
        promote_every=saves.promote_every,
        best=None if saves.best is None else Best(metric=saves.best.metric, goal=saves.best.goal),
        incomplete_expires_after_s=int(saves.unfinished_after.seconds),
    )


def settings_line(settings: Settings) -> str:
    """Return the settings as one line of JSON, without what stands in ``/etc/training-storage/env`` already.

    The names of a hundred directory buckets would not fit into user data twice.

    Args:
        settings: The settings.
    """
    given = {key: value for key, value in settings.to_dict().items() if key != "hot_buckets"}
    return json.dumps(given, separators=(",", ":"), sort_keys=True)


def grant_agent(stack: cdk.Stack, grantee: iam.IGrantable, agent: NodeAgent) -> None:
    """Grant what the agent needs besides the rights of the mounts. Nothing in the lake can be deleted with it.

    Actions without resource types are given on ``*``: Service Authorization Reference, CloudWatch and Amazon FSx.

    Args:
        stack: Stack of the mounts.
        grantee: Role of the nodes, or what carries one.
        agent: The agent.
    """
    settings, lake = agent.settings, agent.data_lake
    lake.grant_read_write(grantee, prefix=places.ROOT)
    if settings.policy is None:
        return
    link = settings.link_of(settings.checkpoints) if settings.checkpoints else None
    # FSx runs no export task beside a link that exports by itself: then nodes write what another link holds.
    uploads = link is None or (not link.exports and any(each.exports for each in settings.links))
    if link is None or link.bucket == settings.lake_bucket:
        prefix = settings.lake_prefix if link is None else link.prefix
        (lake.grant_read_write if uploads else lake.grant_read)(grantee, prefix=prefix)
        if uploads:
            _grant_resuming(grantee, lake.bucket.bucket_arn, lake.bucket.arn_for_objects(keys_below(prefix)))
    else:
        _grant_reading(stack, grantee, link, writes=uploads)
    iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["cloudwatch:PutMetricData"],
        resource_arns=["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": METRICS_NAMESPACE}},
    )
    if agent.file_system is not None:
        _grant_tasks(stack, grantee, agent.file_system)
    _acknowledge(grantee, "IAM5[Resource::*]", "reading FSx tasks and metrics, and writing metrics, know no resources")


def _grant_resuming(grantee: iam.IGrantable, bucket: str, objects: str) -> None:
    """Let nodes find the uploads that one of them has left half done."""
    iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["s3:ListBucketMultipartUploads"],
        resource_arns=[bucket],  # the action knows no condition on the prefix
    )
    iam.Grant.add_to_principal(grantee=grantee, actions=["s3:ListMultipartUploadParts"], resource_arns=[objects])


def _grant_reading(stack: cdk.Stack, grantee: iam.IGrantable, link: Link, *, writes: bool) -> None:
    """Let nodes see what FSx exports into a bucket that is not the lake, and write it where FSx cannot."""
    bucket = stack.format_arn(service="s3", region="", account="", resource=link.bucket)
    below = keys_below(link.prefix)
    iam.Grant.add_to_principal(
        grantee=grantee,
        actions=["s3:ListBucket"],
        resource_arns=[bucket],
        conditions={"StringLike": {"s3:prefix": [below]}} if link.prefix else None,
    )
    objects = f"{bucket}/{below}"
    iam.Grant.add_to_principal(grantee=grantee, actions=["s3:GetObject"], resource_arns=[objects])
    if writes:
        iam.Grant.add_to_principal(
            grantee=grantee, actions=["s3:AbortMultipartUpload", "s3:PutObject"], resource_arns=[objects]
        )
        _grant_resuming(grantee, bucket, objects)
    reason = "what is exported from the checkpoints folder is verified; names of objects are not known before"
    _acknowledge(grantee, _nag.wildcard(stack, objects), reason)


def _grant_tasks(stack: cdk.Stack, grantee: iam.IGrantable, file_system: LustreClientTarget) -> None:
    tasks = stack.format_arn(service="fsx", resource="task", resource_name="*")
    here = stack.format_arn(service="fsx", resource="file-system", resource_name=file_system.file_system_id)
    iam.Grant.add_to_principal(grantee=grantee, actions=["fsx:CreateDataRepositoryTask"], resource_arns=[here, tasks])
    iam.Grant.add_to_principal(grantee=grantee, actions=["fsx:TagResource"], resource_arns=[tasks])
    iam.Grant.add_to_principal(
        grantee=grantee,
        actions=[
            "cloudwatch:GetMetricStatistics",
            "fsx:DescribeDataRepositoryAssociations",
            "fsx:DescribeDataRepositoryTasks",
        ],
        resource_arns=["*"],
    )
    _acknowledge(grantee, _nag.wildcard(stack, tasks), "the id of an export task is not known before it is made")


def _acknowledge(grantee: iam.IGrantable, rule: str, reason: str) -> None:
    """Acknowledge a finding on the role that took the rights; what carries no policy of its own has none."""
    principal = grantee.grant_principal
    if has(principal, "node"):
        _nag.acknowledge(cast(IConstruct, principal), rule, reason)
