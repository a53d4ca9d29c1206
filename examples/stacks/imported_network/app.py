"""A VPC that is there already, by its ids; its subnet gets the free gateway endpoint for S3, and an instance."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage.compute import ImportedNetwork


class InOurVpc(cdk.Stack):
    """S3 traffic of the instance no longer goes through the NAT gateway."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        network = ImportedNetwork(
            self,
            "Network",
            vpc_id="vpc-0abc",
            subnet_id="subnet-0abc",
            availability_zone_id="use1-az6",
            availability_zone="us-east-1b",
            route_table_ids=["rtb-0abc"],
        )
        ec2.Instance(
            self,
            "Node",
            vpc=network.vpc,
            vpc_subnets=ec2.SubnetSelection(subnets=[network.subnet]),
            instance_type=ec2.InstanceType("g6e.12xlarge"),
            machine_image=ec2.MachineImage.latest_amazon_linux2023(),
        )


if __name__ == "__main__":
    app = cdk.App()
    InOurVpc(app, "InOurVpc")
    app.synth()
