"""A dashboard for a file system, a bucket and an Auto Scaling group that were made somewhere else."""

import aws_cdk as cdk
from constructs import Construct

from training_storage.monitoring import StorageDashboard


class Monitoring(cdk.Stack):
    """The plan's figures are drawn as lines beside what is measured."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        dashboard = StorageDashboard(
            self,
            "Dashboard",
            dashboard_name="vision-storage",
            file_system_id="fs-0123456789abcdef0",
            bucket_name="images-of-the-team",
            auto_scaling_group_name="trainers",
            planned_read_mb_per_s=3000,
            planned_throughput_mb_per_s=4687,
            instance_count=16,
        )
        cdk.CfnOutput(self, "DashboardName", value=dashboard.dashboard_name)


if __name__ == "__main__":
    app = cdk.App()
    Monitoring(app, "Monitoring")
    app.synth()
