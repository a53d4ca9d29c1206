"""The rights that the deploying role needs so that the services accept the tiers of a plan.

FSx checks a link with the rights of the caller, which is CloudFormation's role, and refuses with "cannot validate
access" when one is missing, however much of an administrator the person is (field report 11). The same words come when
the bucket policy denies, when the bucket is missing, or when the key refuses. S3 Files sets the notifications of the
bucket and its EventBridge rule with the caller's rights too.

Sources: facts on data repository associations (deploy role actions, service-linked role), FSx user guide; permissions
of the handlers in the CloudFormation registry schemas of 2026-10-20 for AWS::S3Express and AWS::S3Files.
"""

from __future__ import annotations

from collections.abc import Iterable

from training_storage.planner.model import LinkPlan, Plan

# Path and name pattern of the role that FSx makes for each linked file system.
SERVICE_LINKED_ROLE = "aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*"
NEW_LAKE = "${DataLakeBucketName}"
_ROLE_PREFIX = 20
"""Characters of a stack's name that a role's name begins with for sure: CloudFormation cuts it to stay within 64."""


def deploy_rights(plan: Plan, more: Iterable[dict[str, object]] = ()) -> dict[str, object]:
    """Return an IAM policy document with the rights that the tiers of a plan need at deploy time.

    Args:
        plan: The plan. A lake that is still to be made stands as ``${DataLakeBucketName}``, an account that the
            workload does not name as ``${AWS::AccountId}``.
        more: Statements after these. Left out: none.

    Returns:
        A policy document; without statements where the plan has no links, directory buckets or S3 Files to make.
    """
    return {
        "Version": "2012-10-17",
        "Statement": [*_link_statements(plan), *_express_statements(plan), *_s3_files_statements(plan), *more],
    }


def place_of(plan: Plan) -> tuple[str, str, str]:
    """Return partition, region and account as ARNs have them."""
    return plan.region_partition, plan.workload.region, plan.workload.account or "${AWS::AccountId}"


def _link_statements(plan: Plan) -> list[dict[str, object]]:
    links = plan.lustre.links if plan.lustre else ()
    if not links:
        return []
    partition, region, account = place_of(plan)
    buckets = sorted({_bucket_name(plan, link) for link in links})
    bucket_arns = [f"arn:{partition}:s3:::{name}" for name in buckets]
    role = f"arn:{partition}:iam::{account}:role/{SERVICE_LINKED_ROLE}"
    return [
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
    ]


def _express_statements(plan: Plan) -> list[dict[str, object]]:
    workload = plan.workload
    made = (plan.express is not None and not workload.express.bucket_names) or (
        plan.shared_cache is not None and workload.mountpoint.cache_bucket is None
    )
    if not made:
        return []
    partition, region, account = place_of(plan)
    buckets = f"arn:{partition}:s3express:{region}:{account}:bucket/*--{workload.availability_zone_id}--x-s3"
    statements: list[dict[str, object]] = [
        {
            "Sid": "MakeDirectoryBuckets",
            "Effect": "Allow",
            "Action": [
                "s3express:CreateBucket",
                "s3express:DeleteBucket",
                "s3express:DeleteBucketPolicy",
                "s3express:GetBucketPolicy",
                "s3express:GetEncryptionConfiguration",
                "s3express:GetInventoryConfiguration",
                "s3express:GetLifecycleConfiguration",
                "s3express:GetMetricsConfiguration",
                "s3express:ListTagsForResource",
                "s3express:PutBucketPolicy",
                "s3express:PutEncryptionConfiguration",
                "s3express:PutInventoryConfiguration",
                "s3express:PutLifecycleConfiguration",
                "s3express:PutMetricsConfiguration",
                "s3express:TagResource",
                "s3express:UntagResource",
            ],
            "Resource": [buckets],
        },
        {
            "Sid": "FindDirectoryBuckets",
            "Effect": "Allow",
            "Action": ["ec2:DescribeAvailabilityZones", "s3express:ListAllMyDirectoryBuckets"],
            "Resource": ["*"],
        },
    ]
    if workload.express.kms_key_arn:
        statements.append(
            {
                "Sid": "UseTheKeyOfDirectoryBuckets",
                "Effect": "Allow",
                "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
                "Resource": [workload.express.kms_key_arn],
            }
        )
    return statements


def _s3_files_statements(plan: Plan) -> list[dict[str, object]]:
    if plan.s3_files is None or plan.workload.s3_files.file_system_id is not None:
        return []
    partition, region, account = place_of(plan)
    return [
        {
            "Sid": "MakeS3Files",
            "Effect": "Allow",
            "Action": [
                "s3files:CreateFileSystem",
                "s3files:CreateMountTarget",
                "s3files:DeleteFileSystem",
                "s3files:DeleteMountTarget",
                "s3files:GetFileSystem",
                "s3files:GetMountTarget",
                "s3files:GetSynchronizationConfiguration",
                "s3files:ListMountTargets",
                "s3files:ListTagsForResource",
                "s3files:PutSynchronizationConfiguration",
                "s3files:TagResource",
                "s3files:UntagResource",
                "s3files:UpdateMountTarget",
            ],
            "Resource": [f"arn:{partition}:s3files:{region}:{account}:file-system/*"],
        },
        {
            "Sid": "LetS3FilesHearOfChanges",
            "Effect": "Allow",
            "Action": ["s3:GetBucketNotification", "s3:PutBucketNotification"],
            "Resource": [f"arn:{partition}:s3:::{lake_name(plan)}"],
        },
        {
            "Sid": "MakeTheRuleOfS3Files",
            "Effect": "Allow",
            "Action": [
                "events:DeleteRule",
                "events:DescribeRule",
                "events:ListTargetsByRule",
                "events:PutRule",
                "events:PutTargets",
                "events:RemoveTargets",
            ],
            "Resource": [f"arn:{partition}:events:{region}:{account}:rule/DO-NOT-DELETE-S3-Files*"],
        },
        {
            "Sid": "FindTheRuleOfS3Files",
            "Effect": "Allow",
            "Action": ["events:ListRules"],
            "Resource": [f"arn:{partition}:events:{region}:{account}:rule/*"],
        },
        {
            "Sid": "MakeTheInterfaceOfTheMountTarget",
            "Effect": "Allow",
            "Action": [
                "ec2:CreateNetworkInterface",
                "ec2:DeleteNetworkInterface",
                "ec2:ModifyNetworkInterfaceAttribute",
            ],
            "Resource": [
                f"arn:{partition}:ec2:{region}:{account}:network-interface/*",
                f"arn:{partition}:ec2:{region}:{account}:security-group/*",
                f"arn:{partition}:ec2:{region}:{account}:subnet/*",
            ],
        },
        {
            "Sid": "LookForTheSubnet",
            "Effect": "Allow",
            "Action": ["ec2:DescribeSubnets"],
            "Resource": ["*"],
        },
        {
            "Sid": "HandTheRoleToS3Files",
            "Effect": "Allow",
            "Action": ["iam:PassRole"],
            "Resource": [f"arn:{partition}:iam::{account}:role/{plan.name[:_ROLE_PREFIX]}*"],
            "Condition": {"StringEquals": {"iam:PassedToService": "elasticfilesystem.amazonaws.com"}},
        },
    ]


def _bucket_name(plan: Plan, link: LinkPlan) -> str:
    return link.bucket or lake_name(plan)


def lake_name(plan: Plan) -> str:
    """Return the name of the lake's bucket, or what stands for one that is still to be made."""
    return plan.workload.data_lake.bucket or plan.workload.data_lake.bucket_name or NEW_LAKE
