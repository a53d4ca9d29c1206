"""A file system that goes with its stack, once what was written to it is proven to be in the lake."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage import DataLake, LustreFileSystem
from training_storage.lifecycle import ReleaseGuard


class GuardedRun(cdk.Stack):
    """Deleting it fails, and says what to do instead, until a release of `vision` has left its proof in the lake."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        lake = DataLake(self, "DataLake")  # one that outlives runs stands in a stack of its own
        file_system = LustreFileSystem(
            self, "Hot", vpc=vpc, subnet=subnet, storage_capacity_gib=1200, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        file_system.add_link("Datasets", file_system_path="/datasets", bucket=lake, bucket_prefix="datasets/")
        guard = ReleaseGuard(self, "Guard", file_system=file_system, data_lake=lake, workload_name="vision")
        cdk.CfnOutput(self, "GuardLog", value=guard.log_group.log_group_name)


if __name__ == "__main__":
    app = cdk.App()
    GuardedRun(app, "vision-hot")
    app.synth()
