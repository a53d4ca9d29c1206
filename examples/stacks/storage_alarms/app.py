"""Alarms on a file system that was made somewhere else: who is told, by which figures, and what looks at its links."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from training_storage import LustreFileSystem
from training_storage.lifecycle import LinkWatch
from training_storage.monitoring import AlarmTopic, Expected, StorageAlarms

RUN = "vision"


class Alarms(cdk.Stack):
    """Thresholds follow from what is expected; what is not known has no alarm."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        file_system = LustreFileSystem.from_attributes(
            self,
            "FileSystem",
            file_system_id="fs-0123456789abcdef0",
            mount_name="abcdefgh",
            security_group=ec2.SecurityGroup.from_security_group_id(self, "Group", "sg-0123456789abcdef0"),
        )
        LinkWatch(self, "Links", workload=RUN, file_system=file_system)
        told = AlarmTopic(self, "Told", emails=["storage@example.com"])
        expected = Expected(
            instance_count=16, supply_mb_per_s=4687, storage_capacity_gib=4800, warn_when_free_below=0.1
        )
        StorageAlarms(
            self,
            "Alarms",
            name=RUN,
            workload=RUN,
            file_system_id=file_system.file_system_id,
            links=True,
            topics=[told.topic],
            expected=expected,
        )


if __name__ == "__main__":
    app = cdk.App()
    Alarms(app, "vision-alarms")
    app.synth()
