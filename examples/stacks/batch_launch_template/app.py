"""Lustre on the instances of AWS Batch: the launch template is ours, NodeStorage adds rights, rules and bootstrap.

A managed node group of Amazon EKS takes the same launch template. Both want user data in MIME parts, and add their own.
"""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage import LustreFileSystem
from training_storage.compute import LustreMount, NodeStorage


class BatchNodes(cdk.Stack):
    """A file system, and a launch template whose instances mount it."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        file_system = LustreFileSystem(self, "Scratch", vpc=vpc, subnet=subnet, storage_capacity_gib=4800)
        storage = NodeStorage(self, "Storage", mounts=[LustreMount(file_system=file_system)])
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        group = ec2.SecurityGroup(self, "Group", vpc=vpc)
        script, parts = ec2.UserData.for_linux(), ec2.MultipartUserData()
        storage.add_to(script)
        parts.add_user_data_part(script, ec2.MultipartBody.SHELL_SCRIPT, True)
        template = ec2.LaunchTemplate(self, "Template", role=role, security_group=group, user_data=parts)
        storage.attach(client=group, grantee=role)
        cdk.CfnOutput(self, "LaunchTemplateId", value=template.launch_template_id or "")


if __name__ == "__main__":
    app = cdk.App()
    BatchNodes(app, "BatchNodes")
    app.synth()
