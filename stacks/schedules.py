"""What happens to a run by the clock, in the stack of the run that holds its storage."""

from __future__ import annotations

import aws_cdk as cdk

from stacks.lake import LakeStack
from stacks.objects import acknowledge_objects
from training_storage.node import places
from training_storage.parts import HotStorage, make_schedules
from training_storage.planner.model import Plan


def add_schedules(stack: cdk.Stack, plan: Plan, *, lake: LakeStack, storage: HotStorage) -> None:
    """Make the schedules of a plan.

    Args:
        stack: A stack of the run: they go with it.
        plan: The plan.
        lake: Stack of the lake.
        storage: What stands between lake and fleet.
    """
    made = make_schedules(stack, plan, data_lake=lake.data_lake, file_system=storage.file_system)
    for each in made:
        acknowledge_objects(
            each,
            lake.data_lake,
            lake,
            {places.ROOT: "answers of nodes lie below this prefix; only the names of objects stand open"},
        )
