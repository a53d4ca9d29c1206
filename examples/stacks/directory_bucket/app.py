"""A hot bucket in the zone of the GPUs, for code that reads objects itself; it is a cache and goes with its stack."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage import DirectoryBucket


class HotObjects(cdk.Stack):
    """Shards live here for three days; what is worth keeping is in the data lake."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        hot = DirectoryBucket(
            self,
            "Hot",
            availability_zone_id="use1-az6",
            base_name="shards-of-the-team",
            expire_after=cdk.Duration.days(3),
            removal_policy=cdk.RemovalPolicy.DESTROY,
            content_is_cache=True,
        )
        trainers = iam.Role.from_role_name(self, "Trainers", "trainers")
        hot.grant_read_write(trainers)
        cdk.CfnOutput(self, "ShardsUri", value=hot.uri_for("shards/"))


if __name__ == "__main__":
    app = cdk.App()
    HotObjects(app, "HotObjects")
    app.synth()
