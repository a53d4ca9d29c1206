"""A Lustre file system that is there already: a link of ours to it, and an instance that may mount it."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import LustreFileSystem


class Inspector(cdk.Stack):
    """Nothing of the file system itself is in this stack: deleting it takes the link and the rules away, no file."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"], private_subnet_ids=["subnet-0abc"]
        )
        file_system = LustreFileSystem.from_attributes(
            self,
            "Scratch",
            file_system_id="fs-0123456789abcdef0",
            mount_name="abcdefgh",
            security_group=ec2.SecurityGroup.from_security_group_id(self, "ScratchGroup", "sg-0abc"),
        )
        bucket = s3.Bucket.from_bucket_name(self, "Bucket", "images-of-the-team")
        file_system.add_link("Images", file_system_path="/images", bucket=bucket, import_events=["new", "changed"])
        node = ec2.Instance(
            self,
            "Node",
            vpc=vpc,
            instance_type=ec2.InstanceType("g6e.12xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )
        file_system.allow_client(node)
        cdk.CfnOutput(self, "MountSource", value=f"{file_system.dns_name}@tcp:/{file_system.mount_name}")


if __name__ == "__main__":
    app = cdk.App()
    Inspector(app, "Inspector")
    app.synth()
