"""A prefix of a bucket that is there already as a shared file system, for code that renames, appends or locks."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import S3FileSystem


class SharedHome(cdk.Stack):
    """Whoever mounts it needs a group that may reach it, and a role that may read it."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        bucket = s3.Bucket.from_bucket_name(self, "Bucket", "homes-of-the-team")
        files = S3FileSystem(self, "Files", bucket=bucket, prefix="home/", vpc=vpc, subnet=subnet)
        files.allow_client(ec2.SecurityGroup.from_security_group_id(self, "Nodes", "sg-0abc"))
        files.grant_read_write(iam.Role.from_role_name(self, "Trainers", "trainers"))
        cdk.CfnOutput(self, "FileSystemId", value=files.file_system_id)


if __name__ == "__main__":
    app = cdk.App()
    SharedHome(app, "SharedHome")
    app.synth()
