"""What S3 Files looks at in its surroundings: the bucket, the role, the rules of synchronization.

The service creates a file system with a role that is not ready and leaves it in ``creating``, with the reason beside
it: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-files-prereq-policies.html. Texts are the emulator's own;
the service does not publish its.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError
from moto.core.exceptions import ServiceException

from training_storage.emulator import clients
from training_storage.emulator.services import policies
from training_storage.emulator.services.directory_bucket_rules import zone_of

SERVICE = "elasticfilesystem.amazonaws.com"
RULE_PREFIX = "DO-NOT-DELETE-S3-Files"
_ENCRYPTIONS = ("AES256", "aws:kms")
_TRIGGERS = ("ON_DIRECTORY_FIRST_ACCESS", "ON_FILE_ACCESS")
# Of each kind of right that the role needs, one action that stands for it
_BUCKET_ACTIONS = ("s3:ListBucket", "s3:ListBucketVersions")
_OBJECT_ACTIONS = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
_RULE_ACTIONS = ("events:PutRule", "events:PutTargets", "events:DeleteRule", "events:RemoveTargets")
_KEY_ACTIONS = ("kms:GenerateDataKey", "kms:Decrypt")


class S3FilesError(ServiceException):
    """An error of the S3 Files API.

    Attributes:
        errorCode: What exactly was wrong; the service's errors carry it beside their message.
    """

    def __init__(self, code: str, error_code: str, message: str) -> None:
        super().__init__(code, message)
        self.errorCode = error_code


def invalid(message: str, error_code: str = "BadRequest") -> S3FilesError:
    """A request that can never work."""
    return S3FilesError("ValidationException", error_code, message)


def conflict(error_code: str, message: str) -> S3FilesError:
    """A request that does not fit the state of things."""
    return S3FilesError("ConflictException", error_code, message)


def not_found(error_code: str, message: str) -> S3FilesError:
    """A request for something that is not there."""
    return S3FilesError("ResourceNotFoundException", error_code, message)


def bucket_name(arn: str) -> str:
    """Return the name in a bucket's ARN."""
    return arn.rsplit(":", 1)[-1]


def find_bucket(account: str, region: str, arn: str) -> Any:
    """Return the bucket that a file system is for.

    Raises:
        S3FilesError: There is no such bucket in the region, or it is not one that S3 Files can use.
    """
    from moto.s3.models import s3_backends
    from moto.utilities.utils import get_partition

    name = bucket_name(arn)
    if zone_of(name) is not None or ":s3express:" in arn:
        raise invalid(f"Bucket {name} is a directory bucket; S3 Files needs a general purpose bucket")
    bucket = s3_backends[account][get_partition(region)].buckets.get(name)
    if bucket is None:
        raise not_found("BucketNotFound", f"Bucket {name} does not exist")
    if bucket.region_name != region:
        raise invalid(f"Bucket {name} is in {bucket.region_name}; the file system has to be in the same Region")
    if not bucket.is_versioned:
        raise invalid(f"Bucket {name} does not have versioning enabled; S3 Files requires it")
    algorithm = _encryption(bucket).get("SSEAlgorithm", "AES256")
    if algorithm not in _ENCRYPTIONS:
        raise invalid(f"Bucket {name} is encrypted with {algorithm}; S3 Files supports {', '.join(_ENCRYPTIONS)}")
    return bucket


def _encryption(bucket: Any) -> dict[str, Any]:
    rule = (bucket.encryption or {}).get("Rule") or {}
    return dict(rule.get("ApplyServerSideEncryptionByDefault") or {})


def role_problem(file_system: Mapping[str, Any], bucket: Any, region: str) -> str | None:
    """Say what keeps the service from working with the role of a file system, at this moment; None if nothing does."""
    account, role_arn = file_system["ownerId"], file_system["roleArn"]
    iam = clients.client("iam", account, region)
    name = role_arn.rsplit("/", 1)[-1]
    try:
        role = iam.get_role(RoleName=name)["Role"]
    except ClientError:
        return f"The role {role_arn} does not exist"
    trusted = policies.allowed(
        [role["AssumeRolePolicyDocument"]],
        action="sts:AssumeRole",
        resource=role_arn,
        service=SERVICE,
        context={"aws:SourceAccount": account, "aws:SourceArn": file_system["fileSystemArn"]},
    )
    if role["Arn"] != role_arn or not trusted:
        return f"{SERVICE} cannot assume the role {role_arn}: its trust policy does not allow it for this file system"
    documents = _documents(iam, name)
    for action, resource, context in _needed(file_system, bucket, region):
        if not policies.allowed(documents, action=action, resource=resource, context=context):
            return f"The role {role_arn} is not authorized to perform {action} on {resource}"
    return None


def _documents(iam: Any, role: str) -> list[dict[str, Any]]:
    inline = [
        iam.get_role_policy(RoleName=role, PolicyName=name)["PolicyDocument"]
        for name in iam.list_role_policies(RoleName=role)["PolicyNames"]
    ]
    for attached in iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]:
        arn = attached["PolicyArn"]
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        inline.append(iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"])
    return inline


def _needed(file_system: Mapping[str, Any], bucket: Any, region: str) -> list[tuple[str, str, dict[str, str]]]:
    account, partition = file_system["ownerId"], bucket.partition
    common = {"aws:PrincipalAccount": account, "aws:ResourceAccount": account, "aws:SecureTransport": "true"}
    prefix = file_system.get("prefix") or ""
    listing = {**common, "s3:prefix": prefix}
    one_object = f"{bucket.arn}/{prefix}object"
    needed = [(action, str(bucket.arn), listing) for action in _BUCKET_ACTIONS]
    needed += [(action, one_object, common) for action in _OBJECT_ACTIONS]
    rule = f"arn:{partition}:events:{region}:{account}:rule/{rule_name(file_system)}"
    needed += [(action, rule, {**common, "events:ManagedBy": SERVICE}) for action in _RULE_ACTIONS]
    encryption = _encryption(bucket)
    key = encryption.get("KMSMasterKeyID")
    if encryption.get("SSEAlgorithm") == "aws:kms" and key:
        arn = key if key.startswith("arn:") else f"arn:{partition}:kms:{region}:{account}:key/{key}"
        keyed = str((bucket.encryption or {})["Rule"].get("BucketKeyEnabled")).lower() == "true"
        suffix = "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com"
        context = {
            **common,
            "kms:CallerAccount": account,
            "kms:EncryptionContext:aws:s3:arn": str(bucket.arn) if keyed else one_object,
            "kms:ViaService": f"s3.{region}.{suffix}",
        }
        needed += [(action, arn, context) for action in _KEY_ACTIONS]
    return needed


def rule_name(file_system: Mapping[str, Any]) -> str:
    """Return the name of the EventBridge rule that tells a file system what changes in its bucket."""
    return f"{RULE_PREFIX}-{file_system['fileSystemId']}"


def check_synchronization(given: Mapping[str, Any]) -> None:
    """Refuse rules of synchronization that do not fit together."""
    rules, expirations = given.get("importDataRules") or [], given.get("expirationDataRules") or []
    if not 1 <= len(rules) <= 10:
        raise invalid(f"importDataRules has 1 to 10 rules, got {len(rules)}")
    prefixes = [rule["prefix"] for rule in rules]
    if prefixes.count("") != 1:
        raise invalid(f'importDataRules needs exactly one rule with the prefix "", got {prefixes.count("")}')
    doubled = sorted({prefix for prefix in prefixes if prefixes.count(prefix) > 1})
    if doubled:
        raise invalid(f"importDataRules has several rules for {', '.join(doubled)}")
    strange = [rule["trigger"] for rule in rules if rule["trigger"] not in _TRIGGERS]
    strange += [prefix for prefix in prefixes if prefix and not prefix.endswith("/")]
    if strange:
        raise invalid(f"importDataRules has values that are not valid: {', '.join(strange)}")
    if len(expirations) != 1 or not 1 <= int(expirations[0]["daysAfterLastAccess"]) <= 365:
        raise invalid("expirationDataRules has exactly one rule, with daysAfterLastAccess from 1 to 365")
