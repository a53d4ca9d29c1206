"""What is kept for years: the data lake."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from training_storage.planner.model import Plan
from training_storage.training_storage import make_data_lake


class LakeStack(cdk.Stack):
    """The data lake. Nothing in it refers to a run, so that every run can be deleted without touching it."""

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, description=f"Data lake of {plan.name}, kept for years", **kwargs)
        self.data_lake = make_data_lake(self, "DataLake", plan)
        cdk.CfnOutput(self, "DataLakeBucketName", value=self.data_lake.bucket_name)
