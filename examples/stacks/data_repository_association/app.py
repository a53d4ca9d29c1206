"""A link between a Lustre file system and a bucket that both exist in the same stack, made by itself."""

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage import DataRepositoryAssociation, LustreFileSystem


class LinkedScratch(cdk.Stack):
    """Files under /images appear with the objects of the bucket; nothing is exported."""

    def __init__(self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None) -> None:
        super().__init__(scope, construct_id, env=env)
        vpc = ec2.Vpc.from_vpc_attributes(self, "Vpc", vpc_id="vpc-0abc", availability_zones=["us-east-1b"])
        subnet = ec2.Subnet.from_subnet_attributes(
            self, "Subnet", subnet_id="subnet-0abc", availability_zone="us-east-1b", route_table_id="rtb-0abc"
        )
        file_system = LustreFileSystem(self, "Scratch", vpc=vpc, subnet=subnet, storage_capacity_gib=1200)
        link = DataRepositoryAssociation(
            self,
            "Images",
            file_system=file_system,
            file_system_path="/images",
            bucket=s3.Bucket.from_bucket_name(self, "Bucket", "images-of-the-team"),
            bucket_prefix="v3/",
            import_events=["new", "changed", "deleted"],
        )
        cdk.CfnOutput(self, "AssociationId", value=link.association_id)


if __name__ == "__main__":
    app = cdk.App()
    LinkedScratch(app, "LinkedScratch")
    app.synth()
