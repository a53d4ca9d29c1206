"""An instance of one's own that sees a bucket as files: rights and bootstrap come from NodeStorage."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage.compute import MountpointMount, NodeStorage


class Notebook(cdk.Stack):
    """The lake is mounted and proven before the notebook starts."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        node = ec2.Instance(
            self,
            "Node",
            vpc=vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[subnet]),
            instance_type=ec2.InstanceType("g6e.12xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )
        bucket = s3.Bucket.from_bucket_name(self, "Bucket", "images-of-the-team")
        storage = NodeStorage(self, "Storage", mounts=[MountpointMount(bucket=bucket, prefix="v3/")])
        storage.attach(client=node, grantee=node)
        storage.add_to(node.user_data, user_commands=["systemctl start jupyter.service"])


if __name__ == "__main__":
    app = cdk.App()
    Notebook(app, "Notebook")
    app.synth()
