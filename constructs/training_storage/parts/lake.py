"""The data lake of a plan."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_s3 as s3
from constructs import Construct

from training_storage.parts.settings import REMOVAL, key_of
from training_storage.planner.model import Plan
from training_storage.tiers import DataLake


def make_data_lake(scope: Construct, construct_id: str, plan: Plan) -> DataLake:
    """Make the data lake of a plan, or take the bucket that the workload names.

    Args:
        scope: Parent.
        construct_id: Id in the parent.
        plan: The plan.
    """
    settings = plan.workload.data_lake
    key = key_of(scope, f"{construct_id}Key", settings.kms_key_arn)
    if settings.bucket is not None:
        bucket = s3.Bucket.from_bucket_attributes(
            scope, f"{construct_id}Existing", bucket_name=settings.bucket, encryption_key=key
        )
        return DataLake(scope, construct_id, bucket=bucket, encryption_key=key)
    return DataLake(
        scope,
        construct_id,
        bucket_name=settings.bucket_name,
        encryption=settings.encryption,
        encryption_key=key,
        versioned=settings.versioned,
        removal_policy=REMOVAL[settings.removal],
        checkpoints_to_infrequent_access_after=Duration.seconds(
            settings.checkpoints_to_infrequent_access_after.seconds
        ),
        checkpoints_expire_after=None
        if settings.checkpoints_expire_after is None
        else Duration.seconds(settings.checkpoints_expire_after.seconds),
        noncurrent_versions_expire_after=Duration.seconds(settings.noncurrent_versions_expire_after.seconds),
        logs_expire_after=Duration.seconds(settings.logs_expire_after.seconds),
        request_metrics=plan.workload.monitoring.enabled,
    )
