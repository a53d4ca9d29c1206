"""A file system by the clock: loaded before a run, kept free during it, released when nobody needs it any more."""

from datetime import UTC, datetime

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage import DataLake, LustreFileSystem
from training_storage.lifecycle import DataReleaseSchedule, FreeSpaceRelease, IdleRelease, PreloadSchedule


class Hot(cdk.Stack):
    """The file system is made somewhere else; the schedules go with this stack."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        lake = DataLake(self, "DataLake")
        file_system = LustreFileSystem.from_attributes(
            self,
            "FileSystem",
            file_system_id="fs-0123456789abcdef0",
            mount_name="abcdefgh",
            security_group=ec2.SecurityGroup.from_security_group_id(self, "Group", "sg-0123456789abcdef0"),
        )
        run, start = "vision", datetime(2030, 12, 1, 6, tzinfo=UTC)
        PreloadSchedule(self, "Preload", workload=run, data_lake=lake, at=start)
        week = cdk.Duration.days(7)
        DataReleaseSchedule(self, "ByAge", workload=run, file_system=file_system, unused_for=week)
        FreeSpaceRelease(
            self, "BySpace", workload=run, file_system=file_system, storage_capacity_gib=4800, free_share=0.1
        )
        IdleRelease(self, "Idle", workload=run, idle_for=cdk.Duration.hours(12))


if __name__ == "__main__":
    app = cdk.App()
    Hot(app, "vision-hot")
    app.synth()
