"""Rights around S3 Files: the service's own role, and those of clients."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from tests.synth.s3_files import (
    ACCOUNT,
    FILE_SYSTEM,
    FILE_SYSTEM_POLICY,
    POLICY,
    REGION,
    ROLE,
    actions,
    files,
    known_stack,
    node_role,
    statements,
    text,
)
from tests.synth.storage import only, resources, warnings
from training_storage.errors import ValidationError
from training_storage.tiers import DataLake
from training_storage.tiers._s3_files_role import OBJECT_ACTIONS

PLACES = [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
SUFFIX = {"aws": "amazonaws.com", "aws-cn": "amazonaws.com.cn", "aws-us-gov": "amazonaws.com"}
KEY_ARN = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0abc"
GRANTS = {  # S3 User Guide, how S3 Files works with IAM
    "grant_read": {"s3files:ClientMount"},
    "grant_read_write": {"s3files:ClientMount", "s3files:ClientWrite"},
    "grant_root": {"s3files:ClientMount", "s3files:ClientWrite", "s3files:ClientRootAccess"},
}


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return known_stack(app)


def their_key(stack: cdk.Stack) -> kms.IKey:
    return kms.Key.from_key_arn(stack, "TheirKey", KEY_ARN)


def their_lake(stack: cdk.Stack, *, key: bool) -> DataLake:
    bucket = s3.Bucket.from_bucket_name(stack, "Theirs", "their-bucket")
    return DataLake(stack, "Lake", bucket=bucket, encryption_key=their_key(stack) if key else None)


def service(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    """Statements of the service's policy by their ids."""
    return {statement["Sid"]: statement for statement in statements(stack, "FilesServicePolicy")}


# -- the role of the service


@pytest.mark.parametrize(("region", "partition"), PLACES)
def test_report_35_the_service_takes_the_role_on_for_file_systems_of_this_account_and_region(
    app: cdk.App, region: str, partition: str
) -> None:
    stack = known_stack(app, region=region)
    files(stack)
    (statement,) = only(stack, ROLE)["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Principal"] == {"Service": "elasticfilesystem.amazonaws.com"}
    assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": ACCOUNT}
    arn = text(statement["Condition"]["ArnLike"]["aws:SourceArn"]).replace("<AWS::Partition>", partition)
    assert arn == f"arn:{partition}:s3files:{region}:{ACCOUNT}:file-system/*"


def test_report_35_without_account_and_region_both_are_filled_in_at_deploy(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Hot")
    files(stack)
    (statement,) = only(stack, ROLE)["Properties"]["AssumeRolePolicyDocument"]["Statement"]
    assert statement["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
    arn = text(statement["Condition"]["ArnLike"]["aws:SourceArn"])
    assert arn == "arn:<AWS::Partition>:s3files:<AWS::Region>:<AWS::AccountId>:file-system/*"


def test_the_role_lists_the_bucket_and_its_versions(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake")
    files(stack, bucket=lake, prefix="datasets/")
    assert service(stack)["Bucket"] == {
        "Sid": "Bucket",
        "Effect": "Allow",
        "Action": ["s3:ListBucket", "s3:ListBucketVersions"],
        "Resource": stack.resolve(lake.bucket_arn),
        "Condition": {"StringEquals": {"aws:ResourceAccount": ACCOUNT}},
    }


@pytest.mark.parametrize(("prefix", "end"), [("", "/*"), ("datasets/", "/datasets/*"), ("a/b/", "/a/b/*")])
def test_the_role_reads_and_writes_objects_under_the_prefix_alone(stack: cdk.Stack, prefix: str, end: str) -> None:
    lake = DataLake(stack, "Lake")
    files(stack, bucket=lake, prefix=prefix)
    statement = service(stack)["Objects"]
    assert text(statement["Resource"]) == text(stack.resolve(lake.bucket_arn)) + end
    assert statement["Condition"] == {"StringEquals": {"aws:ResourceAccount": ACCOUNT}}


def test_object_actions_are_what_the_patterns_of_the_guide_stand_for() -> None:
    from cfnlint.data import AdditionalSpecs
    from cfnlint.helpers import load_resource

    known = load_resource(AdditionalSpecs, filename="Policies.json")["s3"]["Actions"]
    # S3 User Guide, prerequisites for S3 Files: the role's statement on objects.
    patterns = ("abortmultipartupload", "deleteobject*", "getobject*", "list*", "putobject*")
    on_objects = {
        name
        for name, facts in known.items()
        if "object" in facts.get("Resources", []) and any(fnmatchcase(name, pattern) for pattern in patterns)
    }
    assert {action.removeprefix("s3:").lower() for action in OBJECT_ACTIONS} == on_objects


@pytest.mark.parametrize(("region", "partition"), PLACES)
def test_report_35_the_role_makes_its_event_rules_and_no_others(app: cdk.App, region: str, partition: str) -> None:
    stack = known_stack(app, region=region)
    files(stack)
    write, read = service(stack)["EventRules"], service(stack)["EventRulesRead"]
    rules = f"arn:{partition}:events:{region}:{ACCOUNT}:rule/"
    assert text(write["Resource"]).replace("<AWS::Partition>", partition) == rules + "DO-NOT-DELETE-S3-Files*"
    assert text(read["Resource"]).replace("<AWS::Partition>", partition) == rules + "*"
    assert write["Condition"] == {"StringEquals": {"events:ManagedBy": "elasticfilesystem.amazonaws.com"}}
    assert actions(write) == [
        "events:DeleteRule",
        "events:DisableRule",
        "events:EnableRule",
        "events:PutRule",
        "events:PutTargets",
        "events:RemoveTargets",
    ]
    assert actions(read) == [
        "events:DescribeRule",
        "events:ListRuleNamesByTarget",
        "events:ListRules",
        "events:ListTargetsByRule",
    ]


@pytest.mark.parametrize(("region", "partition"), PLACES)
def test_report_35_the_role_uses_the_buckets_key_by_way_of_s3(app: cdk.App, region: str, partition: str) -> None:
    stack = known_stack(app, region=region)
    lake = DataLake(stack, "Lake")
    files(stack, bucket=lake, prefix="datasets/")
    assert lake.encryption_key is not None
    statement = service(stack)["S3FilesBucketKey"]
    assert statement["Resource"] == stack.resolve(lake.encryption_key.key_arn)
    assert actions(statement) == [
        "kms:Decrypt",
        "kms:Encrypt",
        "kms:GenerateDataKey",
        "kms:ReEncryptFrom",
        "kms:ReEncryptTo",
    ]
    via = text(statement["Condition"]["StringEquals"]["kms:ViaService"]).replace("<AWS::URLSuffix>", SUFFIX[partition])
    assert via == f"s3.{region}.{SUFFIX[partition]}"
    bucket = text(stack.resolve(lake.bucket_arn))
    context = statement["Condition"]["StringLike"]["kms:EncryptionContext:aws:s3:arn"]
    assert [text(each) for each in context] == [bucket, f"{bucket}/datasets/*"]


def test_without_a_key_there_is_no_key_statement(stack: cdk.Stack) -> None:
    files(stack, bucket=DataLake(stack, "Lake", encryption="s3"))
    assert "kms" not in json.dumps(service(stack))


@pytest.mark.parametrize("where", ["lake", "bucket", "existing"])
def test_report_35_every_key_that_is_known_is_reached(stack: cdk.Stack, where: str) -> None:
    bucket: Any
    if where == "lake":
        bucket = DataLake(stack, "Lake", encryption_key=kms.Key(stack, "Key"))
    elif where == "bucket":
        bucket = s3.Bucket(stack, "Mine", versioned=True, encryption=s3.BucketEncryption.KMS)
    else:
        bucket = their_lake(stack, key=True)
    files(stack, bucket=bucket)
    assert service(stack)["S3FilesBucketKey"]["Resource"] == stack.resolve(bucket.encryption_key.key_arn)


def test_a_key_of_the_app_needs_nothing_in_its_policy(stack: cdk.Stack) -> None:
    files(stack, bucket=DataLake(stack, "Lake"))
    assert "elasticfilesystem" not in json.dumps(only(stack, "AWS::KMS::Key"))
    assert warnings(stack) == []


def test_a_key_of_somebody_else_is_said_with_the_statement(stack: cdk.Stack) -> None:
    files(stack, bucket=their_lake(stack, key=True), prefix="datasets/")
    (warning,) = [each for each in warnings(stack) if "training_storage:s3Files.keyPolicy" in each]
    for said in ("kms:ReEncryptTo", "their-bucket/datasets/*", "kms:ViaService", "FilesServiceRole", '"Resource": "*"'):
        assert said in warning


def test_no_action_of_the_role_has_a_wildcard_and_no_resource_is_everything(stack: cdk.Stack) -> None:
    files(stack)
    for statement in service(stack).values():
        assert not any("*" in action for action in actions(statement))
        assert statement["Resource"] != "*"


def test_a_role_of_yours_gets_what_it_needs(stack: cdk.Stack) -> None:
    mine = iam.Role(stack, "Mine", assumed_by=iam.ServicePrincipal("elasticfilesystem.amazonaws.com"))
    files(stack, role=mine)
    assert only(stack, FILE_SYSTEM)["Properties"]["RoleArn"] == stack.resolve(mine.role_arn)
    (policy,) = [each for name, each in resources(stack, POLICY).items() if name.startswith("FilesServicePolicy")]
    assert policy["Properties"]["Roles"] == [stack.resolve(mine.role_name)]
    assert len(resources(stack, ROLE)) == 1


@pytest.mark.parametrize("mutable", [True, False])
def test_a_role_that_exists_gets_it_where_it_takes_policies(stack: cdk.Stack, mutable: bool) -> None:
    theirs = iam.Role.from_role_arn(stack, "Theirs", f"arn:aws:iam::{ACCOUNT}:role/theirs", mutable=mutable)
    files(stack, role=theirs)
    made = [name for name in resources(stack, POLICY) if name.startswith("FilesServicePolicy")]
    assert len(made) == (1 if mutable else 0)
    assert resources(stack, ROLE) == {}
    waits = only(stack, FILE_SYSTEM)["DependsOn"]
    assert [name for name in waits if name.startswith("FilesServicePolicy")] == made


def test_a_role_that_takes_no_policies_is_said_with_every_statement(stack: cdk.Stack) -> None:
    theirs = iam.Role.from_role_arn(stack, "Theirs", f"arn:aws:iam::{ACCOUNT}:role/theirs", mutable=False)
    files(stack, role=theirs)
    (warning,) = warnings(stack)
    assert "[ack: training_storage:s3Files.roleNotMutable]" in warning
    for said in (*OBJECT_ACTIONS, "sts:AssumeRole", "events:PutRule", "kms:ReEncryptFrom", "aws:SourceArn"):
        assert f'"{said}"' in warning


# -- clients


def grants(stack: cdk.Stack, method: str, **options: Any) -> list[dict[str, Any]]:
    """Statements of a node's role after one grant."""
    nodes = node_role(stack)
    made = files(stack, prefix="datasets/")
    assert getattr(made, method)(nodes, **options).success
    return statements(stack, "NodesDefaultPolicy")


@pytest.mark.parametrize(("method", "wanted"), GRANTS.items())
def test_report_34_a_grant_gives_client_actions_on_this_file_system_alone(
    stack: cdk.Stack, method: str, wanted: set[str]
) -> None:
    given = [each for each in grants(stack, method) if actions(each)[0].startswith("s3files:")]
    (file_system,) = resources(stack, FILE_SYSTEM)
    assert [(set(actions(each)), each["Resource"]) for each in given] == [
        (wanted, {"Fn::GetAtt": [file_system, "FileSystemArn"]})
    ]


@pytest.mark.parametrize("method", GRANTS)
def test_report_34_nothing_is_granted_on_every_resource(stack: cdk.Stack, method: str) -> None:
    for statement in grants(stack, method):
        assert statement["Resource"] != "*"
        assert not any("*" in action for action in actions(statement))


@pytest.mark.parametrize("method", GRANTS)
def test_a_grant_lets_clients_read_past_the_file_system(stack: cdk.Stack, method: str) -> None:
    given = {actions(each)[0]: each for each in grants(stack, method)}
    assert actions(given["s3:GetObject"]) == ["s3:GetObject", "s3:GetObjectVersion"]
    assert text(given["s3:GetObject"]["Resource"]).endswith("/datasets/*")
    assert given["s3:ListBucket"]["Condition"] == {"StringLike": {"s3:prefix": ["datasets/*"]}}
    assert actions(given["kms:Decrypt"]) == ["kms:Decrypt"]


@pytest.mark.parametrize("method", GRANTS)
def test_without_direct_reads_only_the_file_system_is_granted(stack: cdk.Stack, method: str) -> None:
    given = grants(stack, method, direct_read=False)
    assert {action.partition(":")[0] for each in given for action in actions(each)} == {"s3files"}


def test_no_grant_lets_clients_write_objects_themselves(stack: cdk.Stack) -> None:
    assert not any("s3:Put" in action for each in grants(stack, "grant_root") for action in actions(each))


def test_a_grant_to_a_role_of_the_account_makes_no_policy_of_the_file_system(stack: cdk.Stack) -> None:
    files(stack).grant_root(node_role(stack))
    assert resources(stack, FILE_SYSTEM_POLICY) == {}
    assert warnings(stack) == []


def other_account(stack: cdk.Stack) -> dict[str, iam.IGrantable]:
    return {
        "account": iam.AccountPrincipal("222222222222"),
        "role": iam.Role.from_role_arn(stack, "Other", "arn:aws:iam::222222222222:role/other"),
    }


@pytest.mark.parametrize("kind", ["account", "role"])
@pytest.mark.parametrize(("method", "wanted"), GRANTS.items())
def test_another_account_gets_the_right_in_the_policy_of_the_file_system(
    stack: cdk.Stack, kind: str, method: str, wanted: set[str]
) -> None:
    made = files(stack)
    assert getattr(made, method)(other_account(stack)[kind]).success
    (policy,) = resources(stack, FILE_SYSTEM_POLICY).values()
    (statement,) = policy["Properties"]["Policy"]["Statement"]
    assert set(actions(statement)) == wanted
    assert "222222222222" in json.dumps(statement["Principal"])
    assert statement["Resource"] == stack.resolve(made.file_system_arn)
    assert policy["Properties"]["FileSystemId"] == stack.resolve(made.file_system_id)


@pytest.mark.parametrize("kind", ["account", "role"])
def test_another_account_is_told_what_it_allows_itself(stack: cdk.Stack, kind: str) -> None:
    files(stack).grant_read_write(other_account(stack)[kind])
    (warning,) = [each for each in warnings(stack) if "s3Files.otherAccount" in each]
    for said in ("222222222222", "s3files:ClientWrite", "mounttargetip"):
        assert said in warning


def test_two_grants_to_other_accounts_share_the_one_policy(stack: cdk.Stack) -> None:
    made = files(stack)
    for account in ("222222222222", "333333333333"):
        made.grant_read(iam.AccountPrincipal(account), direct_read=False)
    (policy,) = resources(stack, FILE_SYSTEM_POLICY).values()
    said = json.dumps(policy["Properties"]["Policy"])
    assert "222222222222" in said
    assert "333333333333" in said


def test_a_statement_of_your_own_goes_into_that_policy(stack: cdk.Stack) -> None:
    made = files(stack)
    statement = iam.PolicyStatement(
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=["s3files:ClientRootAccess"],
        resources=[made.file_system_arn],
    )
    assert made.add_to_resource_policy(statement).statement_added
    (policy,) = resources(stack, FILE_SYSTEM_POLICY).values()
    assert policy["Properties"]["Policy"]["Statement"][0]["Effect"] == "Deny"


def test_a_right_that_only_the_bucket_owner_can_give_is_no_success(stack: cdk.Stack) -> None:
    made = files(stack, bucket=their_lake(stack, key=False))
    assert not made.grant_read(other_account(stack)["account"]).success
    assert any("dataLake.bucketPolicy" in each for each in warnings(stack))


@pytest.mark.parametrize("method", GRANTS)
@pytest.mark.parametrize(
    ("options", "path"), [({"grantee": "arn:aws:iam::1:role/x"}, "grantee"), ({"direct_read": "no"}, "direct_read")]
)
def test_a_slip_in_a_grant_is_named(stack: cdk.Stack, method: str, options: dict[str, Any], path: str) -> None:
    made, given = files(stack), {"grantee": node_role(stack), **options}
    with pytest.raises(ValidationError) as caught:
        getattr(made, method)(**given)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_cdk_nag_finds_nothing_in_the_service_policy_that_is_not_acknowledged(app: cdk.App) -> None:
    import cdk_nag

    cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))
    files(known_stack(app), prefix="datasets/")
    folder = Path(app.synth().directory)
    report = json.loads((folder / "validation-report.json").read_text(encoding="utf-8"))
    (nag,) = [part for part in report["pluginReports"] if part["pluginName"] == "AwsSolutions"]
    assert nag["violations"] == []
    assert any("IAM5" in each["ruleName"] for each in nag["suppressedViolations"])
