"""What is kept for years: the data lake, and what proves and releases the runs in front of it."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from constructs import Construct

from training_storage.parts import make_data_lake, make_release_machine
from training_storage.planner.model import Plan


class LakeStack(cdk.Stack):
    """The data lake, or what stands around a bucket that is there already, and the machine that releases runs.

    Nothing in it refers to a run, so that every run can be deleted without touching it.

    Attributes:
        data_lake: The lake.
        makes_bucket: Whether its bucket is made here.
        release: The machine that releases runs.
    """

    def __init__(self, scope: Construct, construct_id: str, *, plan: Plan, **kwargs: Any) -> None:
        super().__init__(scope, construct_id, description=f"Data lake of {plan.name}, kept for years", **kwargs)
        self.makes_bucket = plan.workload.data_lake.bucket is None
        self.data_lake = make_data_lake(self, "DataLake", plan)
        cdk.CfnOutput(self, "DataLakeBucketName", value=self.data_lake.bucket_name)
        self.release = make_release_machine(self, "Release", plan, data_lake=self.data_lake)
        cdk.CfnOutput(
            self,
            "ReleaseStateMachineArn",
            value=self.release.state_machine_arn,
            description=f"Started by: training-storage release {plan.name}",
        )
