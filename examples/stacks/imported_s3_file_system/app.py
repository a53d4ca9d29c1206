"""An S3 Files file system that is there already, on an instance of one's own: group, role and mount."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import S3FileSystem
from training_storage.compute import NodeStorage, S3FilesMount


class Editor(cdk.Stack):
    """The instance may write; nothing of the file system itself is changed."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"], private_subnet_ids=["subnet-0abc"]
        )
        files = S3FileSystem.from_attributes(
            self,
            "Files",
            file_system_id="fs-0123456789abcdef0",
            security_group=ec2.SecurityGroup.from_security_group_id(self, "FilesGroup", "sg-0abc"),
            bucket=s3.Bucket.from_bucket_name(self, "Bucket", "homes-of-the-team"),
        )
        node = ec2.Instance(
            self,
            "Node",
            vpc=vpc,
            instance_type=ec2.InstanceType("g6e.12xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )
        storage = NodeStorage(self, "Storage", mounts=[S3FilesMount(file_system=files, path="/team", read_only=False)])
        storage.attach(client=node, grantee=node)
        storage.add_to(node.user_data)


if __name__ == "__main__":
    app = cdk.App()
    Editor(app, "Editor")
    app.synth()
