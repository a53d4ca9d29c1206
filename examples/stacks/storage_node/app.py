"""A node that mounts a file system of the team only while somebody has to look at it."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.compute import LustreMount, NodeStorage
from training_storage.lifecycle import StorageNode
from training_storage.tiers import LustreFileSystem


class LookingGlass(cdk.Stack):
    """An empty group; set its size to 1, and an instance mounts the file system."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(self, "Subnet", subnet_id="subnet-0abc")
        file_system = LustreFileSystem.from_attributes(
            self,
            "FileSystem",
            file_system_id="fs-0123456789abcdef0",
            mount_name="abcdefgh",
            security_group=ec2.SecurityGroup.from_security_group_id(self, "Group", "sg-0abc"),
        )
        storage = NodeStorage(self, "Storage", mounts=[LustreMount(file_system=file_system)])
        storage.add_to(user_data := ec2.UserData.for_linux())
        node = StorageNode(self, "Node", workload="run1", vpc=vpc, subnet=subnet, user_data=user_data)
        storage.attach(client=node, grantee=node)
        cdk.CfnOutput(self, "AutoScalingGroupName", value=node.auto_scaling_group_name)


if __name__ == "__main__":
    app = cdk.App()
    LookingGlass(app, "LookingGlass")
    app.synth()
