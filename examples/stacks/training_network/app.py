"""A VPC for training: one private subnet in one zone, given by its id, with a gateway endpoint for S3."""

import aws_cdk as cdk
from constructs import Construct

from training_storage import TrainingNetwork


class Network(cdk.Stack):
    """No way to the internet: interface endpoints take its place."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        network = TrainingNetwork(self, "Network", availability_zone_id="use1-az6", internet="none", cidr="10.8.0.0/16")
        cdk.CfnOutput(self, "VpcId", value=network.vpc.vpc_id)
        cdk.CfnOutput(self, "SubnetId", value=network.subnet.subnet_id)


if __name__ == "__main__":
    app = cdk.App()
    Network(app, "Network")
    app.synth()
