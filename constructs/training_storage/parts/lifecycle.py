"""How the hot tier of a plan comes and goes: the release, and what happens by the clock."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage.lifecycle import (
    DataReleaseSchedule,
    FreeSpaceRelease,
    IdleRelease,
    PreloadSchedule,
    ReleaseMachine,
)
from training_storage.parts.object_storage import directory_bucket_patterns
from training_storage.parts.settings import days_of, key_of
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake, ImportedLustreFileSystem, LustreFileSystem


def make_release_machine(scope: Construct, construct_id: str, plan: Plan, *, data_lake: DataLake) -> ReleaseMachine:
    """Make the state machine that releases the runs of a plan's workload.

    Nothing in it refers to a run: it names what the workload file names, and patterns of names.

    Args:
        scope: Parent, in a stack that outlives the run.
        construct_id: Id in the parent.
        plan: The plan.
        data_lake: The lake.
    """
    workload = plan.workload
    links = plan.lustre.links if plan.lustre else ()
    others = sorted({link.bucket for link in links if link.bucket is not None})
    keys: list[kms.IKey] = []
    if plan.express is not None and (key := key_of(scope, f"{construct_id}Key", workload.express.kms_key_arn)):
        keys.append(key)
    existing = workload.lustre.file_system_id
    return ReleaseMachine(
        scope,
        construct_id,
        workload=plan.name,
        data_lake=data_lake,
        copies_checkpoints=plan.express is not None and workload.checkpoints is not None,
        directory_bucket_names=directory_bucket_patterns(plan),
        # What is kept, was there before, or is a cache that its own stack empties is none of the release's.
        empties_directory_buckets=plan.express is not None
        and workload.express.removal == "delete"
        and not workload.express.content_is_cache
        and not workload.express.bucket_names,
        file_system_ids=(existing,) if plan.lustre is not None and existing is not None else (),
        # Whatever lies in a directory bucket is looked for in the lake under the same key.
        read_prefixes=[""] if plan.express else sorted({link.prefix for link in links if link.bucket is None}),
        other_buckets=[
            s3.Bucket.from_bucket_name(scope, f"{construct_id}Source{number}", name)
            for number, name in enumerate(others, start=1)
        ],
        decryption_keys=keys,
    )


def make_schedules(
    scope: Construct,
    plan: Plan,
    *,
    data_lake: DataLake,
    file_system: LustreFileSystem | ImportedLustreFileSystem | None,
) -> tuple[Construct, ...]:
    """Make what the workload file wants by the clock, under ids that never change; nothing where it wants nothing.

    Args:
        scope: Parent, in a stack of the run.
        plan: The plan.
        data_lake: The lake.
        file_system: The Lustre file system; None without one.
    """
    wanted, name = plan.workload.lifecycle, plan.name
    made: list[Construct] = []
    if wanted.release_when_idle_for is not None:
        idle = Duration.seconds(wanted.release_when_idle_for.seconds)
        made.append(IdleRelease(scope, "IdleRelease", workload=name, idle_for=idle))
    if file_system is None or plan.lustre is None:
        return tuple(made)
    if wanted.release_data_after is not None:
        made.append(
            DataReleaseSchedule(
                scope,
                "DataRelease",
                workload=name,
                file_system=file_system,
                unused_for=days_of(wanted.release_data_after.seconds),
            )
        )
    capacity = plan.lustre.storage_capacity_gib
    if wanted.release_data_when_free_below is not None and capacity is not None:
        made.append(
            FreeSpaceRelease(
                scope,
                "FreeSpaceRelease",
                workload=name,
                file_system=file_system,
                storage_capacity_gib=capacity,
                free_share=wanted.release_data_when_free_below,
            )
        )
    if wanted.preload_at is not None:
        made.append(
            PreloadSchedule(
                scope,
                "Preload",
                workload=name,
                data_lake=data_lake,
                at=wanted.preload_at,
                paths=wanted.preload_paths,
            )
        )
    return tuple(made)
