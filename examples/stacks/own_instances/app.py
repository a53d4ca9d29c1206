"""The storage of a workload file for instances that are not ours: paths, rights and bootstrap by ``connect``."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage import TrainingStorage, load_workload, plan

WORKLOAD = Path(__file__).with_name("workload.yaml")


class Workbench(cdk.Stack):
    """Lake and file system of the plan, and an instance of one's own that mounts them."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(
            self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"], private_subnet_ids=["subnet-0abc"]
        )
        storage = TrainingStorage(
            self, "Storage", plan=plan(load_workload(WORKLOAD)), vpc=vpc, subnet=vpc.private_subnets[0], fleet=False
        )
        node = ec2.Instance(
            self,
            "Node",
            vpc=vpc,
            instance_type=ec2.InstanceType("g6e.48xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )
        for rule in storage.connect(node, role=node.role, user_data=node.user_data):
            node.instance.node.add_dependency(rule)  # the instance alone: its security group is part of the rules


if __name__ == "__main__":
    app = cdk.App()
    Workbench(app, "Workbench", env=cdk.Environment(region="us-east-1"))
    app.synth()
