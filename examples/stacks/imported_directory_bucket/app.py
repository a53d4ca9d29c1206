"""A directory bucket that is there already, read by a role of this stack."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage import DirectoryBucket


class Readers(cdk.Stack):
    """The right is to open sessions on the bucket; S3 Express has no rights on single objects."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        shared = DirectoryBucket.from_bucket_name(self, "Shared", "shards-of-the-team--use1-az6--x-s3")
        readers = iam.Role(self, "Readers", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        shared.grant_read(readers)
        cdk.CfnOutput(self, "Zone", value=shared.availability_zone_id or "not known")


if __name__ == "__main__":
    app = cdk.App()
    Readers(app, "Readers")
    app.synth()
