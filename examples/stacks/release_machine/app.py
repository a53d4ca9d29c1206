"""The safe release of runs, in the stack of a lake that outlives them."""

import aws_cdk as cdk
from constructs import Construct

from training_storage import DataLake, ReleaseMachine


class Lake(cdk.Stack):
    """`training-storage release vision` starts the machine; it deletes the stacks vision-monitoring, -compute, -hot."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        lake = DataLake(self, "DataLake")
        release = ReleaseMachine(self, "Release", workload="vision", data_lake=lake, read_prefixes=["datasets/"])
        # The command finds both by the names of these outputs.
        cdk.CfnOutput(self, "DataLakeBucketName", value=lake.bucket_name)
        cdk.CfnOutput(self, "ReleaseStateMachineArn", value=release.state_machine_arn)


if __name__ == "__main__":
    app = cdk.App()
    Lake(app, "vision-lake")
    app.synth()
