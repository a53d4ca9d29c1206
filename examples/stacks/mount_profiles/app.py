"""Mounts by what they are for: a data set that is read, checkpoints that are saved, scratch on the local disks."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import DirectoryBucket, GpuFleet
from training_storage.compute import NodeStorage, checkpoint_writing, dataset_reading, local_scratch

NVME_GB = 7600  # of g6e.48xlarge


class Trainers(cdk.Stack):
    """Checkpoints go to a bucket in the zone of the GPUs, which can rename; the data set never changes."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        hot = DirectoryBucket(self, "Hot", availability_zone_id="use1-az6")
        images = s3.Bucket.from_bucket_name(self, "Images", "images-of-the-team")
        storage = NodeStorage(
            self,
            "Storage",
            mounts=[
                dataset_reading(images, prefix="v3/", immutable=True, local_nvme_gb=NVME_GB),
                checkpoint_writing(hot, file_bytes=200e9, files_at_once=8),
            ],
            directories=local_scratch(local_nvme_gb=NVME_GB),
        )
        GpuFleet(self, "Fleet", vpc=vpc, subnet=subnet, instance_type="g6e.48xlarge", instance_count=4, storage=storage)


if __name__ == "__main__":
    app = cdk.App()
    Trainers(app, "Trainers")
    app.synth()
