"""A Lustre file system in a VPC that is there already, for the instances of a security group that is there already."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage import LustreFileSystem


class FastScratch(cdk.Stack):
    """9,600 GiB at 500 MB/s per TiB: 4,687 MB/s, kept when the stack is deleted."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        file_system = LustreFileSystem(
            self,
            "Scratch",
            vpc=vpc,
            subnet=subnet,
            storage_capacity_gib=9600,
            per_unit_storage_throughput=500,
        )
        nodes = ec2.SecurityGroup.from_security_group_id(self, "Nodes", "sg-0abc")
        file_system.allow_client(nodes)
        cdk.CfnOutput(self, "FileSystemId", value=file_system.file_system_id)
        cdk.CfnOutput(self, "FileSystemMountName", value=file_system.mount_name)


if __name__ == "__main__":
    app = cdk.App()
    FastScratch(app, "FastScratch")
    app.synth()
