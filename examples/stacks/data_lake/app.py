"""A data lake for a research team, and a role that reads its data sets and writes its evaluations."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from training_storage import DataLake


class ResearchLake(cdk.Stack):
    """The bucket and its key stay when the stack is deleted."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        lake = DataLake(self, "Lake", logs_expire_after=cdk.Duration.days(30))
        analysts = iam.Role(self, "Analysts", assumed_by=iam.AccountRootPrincipal())
        lake.grant_read(analysts, prefix="datasets/")
        lake.grant_read_write(analysts, prefix="evaluations/")
        cdk.CfnOutput(self, "DataLakeBucketName", value=lake.bucket_name)


if __name__ == "__main__":
    app = cdk.App()
    ResearchLake(app, "ResearchLake")
    app.synth()
