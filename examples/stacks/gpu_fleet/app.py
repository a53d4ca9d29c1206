"""A fleet of two GPU instances with user data of one's own and no storage of ours."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import GpuFleet


class OwnData(cdk.Stack):
    """Instances that read a bucket of the team by its API."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        fleet = GpuFleet(
            self,
            "Fleet",
            vpc=vpc,
            subnet=subnet,
            instance_type="g6e.48xlarge",
            instance_count=2,
            user_commands=["systemctl start --no-block my-training.service"],
        )
        s3.Bucket.from_bucket_name(self, "Bucket", "images-of-the-team").grant_read(fleet)
        cdk.CfnOutput(self, "AutoScalingGroupName", value=fleet.auto_scaling_group_name)


if __name__ == "__main__":
    app = cdk.App()
    OwnData(app, "OwnData")
    app.synth()
