"""The rights that the deploying role needs so that FSx accepts the links of a plan.

FSx checks a link with the rights of the caller, which is CloudFormation's role, and refuses with "cannot validate
access" when one is missing, however much of an administrator the person is (field report 11). The same words come when
the bucket policy denies, when the bucket is missing, or when the key refuses.

Sources: facts on data repository associations (deploy role actions, service-linked role), FSx user guide.
"""

from __future__ import annotations

from training_storage.planner.model import LinkPlan, Plan

# Path and name pattern of the role that FSx makes for each linked file system.
SERVICE_LINKED_ROLE = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*"
NEW_LAKE = "${DataLakeBucketName}"


def deploy_rights(plan: Plan) -> dict[str, object]:
    """Return an IAM policy document with the rights that the links of a plan need at deploy time.

    Args:
        plan: The plan. A lake that is still to be made stands as ``${DataLakeBucketName}``, an account that the
            workload does not name as ``${AWS::AccountId}``.

    Returns:
        A policy document; without statements where the plan links nothing.
    """
    links = plan.lustre.links if plan.lustre else ()
    if not links:
        return {"Version": "2012-10-17", "Statement": []}
    partition = plan.region_partition
    region = plan.workload.region
    account = plan.workload.account or "${AWS::AccountId}"
    buckets = sorted({_bucket_name(plan, link) for link in links})
    bucket_arns = [f"arn:{partition}:s3:::{name}" for name in buckets]
    role = f"arn:{partition}:iam::{account}:role/{SERVICE_LINKED_ROLE}"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Sid": "LinkFileSystem",
                "Effect": "Allow",
                "Action": [
                    "fsx:CreateDataRepositoryAssociation",
                    "fsx:DeleteDataRepositoryAssociation",
                    "fsx:DescribeDataRepositoryAssociations",
                    "fsx:TagResource",
                    "fsx:UpdateDataRepositoryAssociation",
                ],
                "Resource": [
                    f"arn:{partition}:fsx:{region}:{account}:association/*",
                    f"arn:{partition}:fsx:{region}:{account}:file-system/*",
                ],
            },
            {
                "Sid": "ReadLinkedBuckets",
                "Effect": "Allow",
                "Action": ["s3:Get*", "s3:List*", "s3:PutBucketPolicy"],
                "Resource": bucket_arns,
            },
            {
                "Sid": "ReadAndWriteLinkedObjects",
                "Effect": "Allow",
                "Action": ["s3:Get*", "s3:PutObject"],
                "Resource": [f"{arn}/*" for arn in bucket_arns],
            },
            {
                "Sid": "MakeTheRoleOfTheFileSystem",
                "Effect": "Allow",
                "Action": ["iam:AttachRolePolicy", "iam:CreateServiceLinkedRole", "iam:PutRolePolicy"],
                "Resource": [role],
            },
        ],
    }


def _bucket_name(plan: Plan, link: LinkPlan) -> str:
    return link.bucket or plan.workload.data_lake.bucket or plan.workload.data_lake.bucket_name or NEW_LAKE
