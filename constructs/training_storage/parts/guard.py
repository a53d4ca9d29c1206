"""The guard in front of the file system of a plan."""

from __future__ import annotations

from constructs import Construct

from training_storage.lifecycle import ReleaseGuard
from training_storage.parts.hot import HotStorage
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake, LustreFileSystem


def make_release_guard(
    scope: Construct, construct_id: str, plan: Plan, *, storage: HotStorage, data_lake: DataLake
) -> ReleaseGuard | None:
    """Make the guard of a plan; None where the file system stays, or the workload wants no guard.

    A plan without a file system of ours has one too: the plan before may have had one, which the update would delete.

    Args:
        scope: Parent, in the stack of the file system.
        construct_id: Id in the parent.
        plan: The plan.
        storage: What stands between lake and fleet.
        data_lake: The lake that proofs lie in.
    """
    ours = storage.file_system if isinstance(storage.file_system, LustreFileSystem) else None
    if not plan.workload.lifecycle.guard or (ours is not None and not plan.workload.has_guard):
        return None
    return ReleaseGuard(scope, construct_id, file_system=ours, data_lake=data_lake, workload_name=plan.name)
