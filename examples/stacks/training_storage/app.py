"""A whole workload in one stack of one's own: lake, file system, fleet and dashboard from a workload file."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_sns as sns
from constructs import Construct

from training_storage import TrainingStorage, load_workload, plan

WORKLOAD = Path(__file__).with_name("workload.yaml")


class VisionRun(cdk.Stack):
    """The network is ours, sizes come from the plan, and the team hears where the data is."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        storage = TrainingStorage(self, "Storage", plan=plan(load_workload(WORKLOAD)), vpc=vpc, subnet=subnet)
        assert storage.fleet is not None
        sns.Topic(self, "Finished").grant_publish(storage.fleet)
        cdk.CfnOutput(self, "DataLakeBucketName", value=storage.data_lake.bucket_name)


if __name__ == "__main__":
    app = cdk.App()
    VisionRun(app, "VisionRun", env=cdk.Environment(region="us-east-1"))
    app.synth()
