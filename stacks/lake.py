"""What is kept for years: the data lake."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from training_storage.parts import make_data_lake
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake


class LakeStack(cdk.Stack):
    """The data lake. Nothing in it refers to a run, so that every run can be deleted without touching it."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, description=f"Data lake of {plan.name}, kept for years", **kwargs)
        self.data_lake = lake_in(self, plan)


def lake_in(stack: cdk.Stack, plan: Plan) -> DataLake:
    """Make the data lake of a plan in a stack, and name its bucket.

    A bucket that is there already has no stack of its own, which would hold nothing: it is taken by the first stack of
    the run.

    Args:
        stack: The stack.
        plan: The plan.
    """
    made = make_data_lake(stack, "DataLake", plan)
    cdk.CfnOutput(stack, "DataLakeBucketName", value=made.bucket_name)
    return made
