"""Rights on directory buckets: who gets what, in whose policy, and what only an owner can give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template

from tests.synth.storage import only, resources, warnings
from training_storage.errors import ValidationError
from training_storage.tiers import DirectoryBucket, ImportedDirectoryBucket

BUCKET = "AWS::S3Express::DirectoryBucket"
POLICY = "AWS::S3Express::BucketPolicy"
ENV = cdk.Environment(account="111111111111", region="us-east-1")
NAME = "shared--use1-az4--x-s3"
ARN = f"arn:aws:s3express:us-east-1:111111111111:bucket/{NAME}"
Anyone = DirectoryBucket | ImportedDirectoryBucket


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot", env=ENV)


def ours(stack: cdk.Stack, **options: Any) -> DirectoryBucket:
    return DirectoryBucket(stack, "Bucket", **{"availability_zone_id": "use1-az4", "base_name": "ckpt", **options})


def theirs(stack: cdk.Stack, **options: Any) -> ImportedDirectoryBucket:
    return DirectoryBucket.from_bucket_name(stack, "Theirs", NAME, **options)


def role(stack: cdk.Stack) -> iam.Role:
    return iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))


def role_of_another_account(stack: cdk.Stack) -> iam.IRole:
    return iam.Role.from_role_arn(stack, "TheirRole", "arn:aws:iam::222222222222:role/theirs")


def key_of_another_account(stack: cdk.Stack) -> kms.IKey:
    return kms.Key.from_key_arn(stack, "TheirKey", "arn:aws:kms:us-east-1:222222222222:key/0a1b")


def statements(stack: cdk.Stack, kind: str = "AWS::IAM::Policy") -> list[dict[str, Any]]:
    return [
        statement
        for each in resources(stack, kind).values()
        for statement in each["Properties"]["PolicyDocument"]["Statement"]
    ]


def granted(stack: cdk.Stack) -> list[dict[str, Any]]:
    """What the bucket policy says beyond the lifecycle service and TLS."""
    return [each for each in statements(stack, POLICY) if "Sid" not in each]


@pytest.mark.parametrize("method", ["grant_read", "grant_read_write"])
def test_report_17_the_right_is_to_open_sessions_on_the_arn_of_the_bucket(stack: cdk.Stack, method: str) -> None:
    grant = getattr(ours(stack), method)(role(stack))
    assert grant.success
    (logical_id,) = resources(stack, BUCKET)
    assert statements(stack) == [
        {
            "Effect": "Allow",
            "Action": "s3express:CreateSession",
            "Resource": {
                "Fn::Join": ["", ["arn:aws:s3express:us-east-1:111111111111:bucket/", {"Ref": logical_id}]],
            },
        }
    ]


@pytest.mark.parametrize("method", ["grant_read", "grant_read_write"])
def test_report_17_the_right_on_an_existing_bucket_has_the_same_form(stack: cdk.Stack, method: str) -> None:
    assert getattr(theirs(stack), method)(role(stack)).success
    assert statements(stack) == [{"Effect": "Allow", "Action": "s3express:CreateSession", "Resource": ARN}]


@pytest.mark.parametrize("region", [None, "us-west-2"])
def test_report_17_the_arn_follows_the_stack(app: cdk.App, region: str | None) -> None:
    stack = cdk.Stack(app, "Hot", env=cdk.Environment(region=region))
    ours(stack, availability_zone_id="usw2-az1").grant_read(role(stack))
    (statement,) = statements(stack)
    parts = [part if isinstance(part, str) else part["Ref"] for part in statement["Resource"]["Fn::Join"][1]]
    said = "".join(parts)
    assert ":s3express:" in said
    assert ":bucket/" in said
    assert (region or "AWS::Region") in said
    assert "AWS::AccountId" in said


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("method", ["grant_read", "grant_read_write"])
def test_report_17_no_right_of_s3_is_given(stack: cdk.Stack, method: str, keyed: bool) -> None:
    bucket = ours(stack, encryption_key=kms.Key(stack, "Key") if keyed else None)
    getattr(bucket, method)(role(stack))
    assert '"s3:' not in json.dumps([statements(stack), statements(stack, POLICY)])


@pytest.mark.parametrize("method", ["grant_read", "grant_read_write"])
def test_report_17_no_session_mode_is_asked_for_by_default(stack: cdk.Stack, method: str) -> None:
    getattr(ours(stack), method)(role(stack))
    assert "SessionMode" not in json.dumps(statements(stack))


@pytest.mark.parametrize("existing", [False, True])
def test_report_17_a_reader_that_is_not_mountpoint_can_be_held_to_reading(stack: cdk.Stack, existing: bool) -> None:
    bucket: Anyone = theirs(stack) if existing else ours(stack)
    assert bucket.grant_read(role(stack), session_mode_condition=True).success
    (statement,) = statements(stack)
    assert statement["Condition"] == {"StringEquals": {"s3express:SessionMode": "ReadOnly"}}


# -- the key


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("method", ["grant_read", "grant_read_write"])
def test_report_12_who_reads_or_writes_can_use_the_key(stack: cdk.Stack, method: str, existing: bool) -> None:
    key = kms.Key(stack, "Key")
    bucket: Anyone = theirs(stack, encryption_key=key) if existing else ours(stack, encryption_key=key)
    assert getattr(bucket, method)(role(stack)).success
    (logical_id,) = resources(stack, "AWS::KMS::Key")
    on_key = [each for each in statements(stack) if each["Action"] != "s3express:CreateSession"]
    assert on_key == [
        {
            "Effect": "Allow",
            "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
            "Resource": {"Fn::GetAtt": [logical_id, "Arn"]},
        }
    ]
    assert warnings(stack) == []


def test_report_12_no_right_on_a_key_where_s3_holds_it(stack: cdk.Stack) -> None:
    ours(stack).grant_read_write(role(stack))
    assert "kms:" not in json.dumps(statements(stack))


def test_a_key_of_another_account_needs_its_owner(stack: cdk.Stack) -> None:
    bucket = ours(stack, encryption_key=key_of_another_account(stack))
    assert not bucket.grant_read(role(stack)).success
    (warning,) = warnings(stack)
    assert "[ack: training_storage:directoryBucket.keyPolicy]" in warning
    assert '"Action": ["kms:Decrypt", "kms:GenerateDataKey"]' in warning


def test_a_key_of_another_stack_is_left_as_it_is(app: cdk.App) -> None:
    keys, stack = cdk.Stack(app, "Keys", env=ENV), cdk.Stack(app, "Hot", env=ENV)
    key = kms.Key(keys, "Key")
    assert ours(stack, encryption_key=key).grant_read_write(role(stack)).success
    assert warnings(stack) == []
    assert len(only(keys, "AWS::KMS::Key")["Properties"]["KeyPolicy"]["Statement"]) == 1


# -- who is not of this account


def principals(stack: cdk.Stack) -> dict[str, iam.IGrantable]:
    return {
        "service": iam.ServicePrincipal("fsx.amazonaws.com"),
        "role of another account": role_of_another_account(stack),
        "another account": iam.AccountPrincipal("222222222222"),
    }


WHO = ["service", "role of another account", "another account"]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("condition", [False, True])
def test_others_get_their_right_in_the_policy_of_our_bucket(stack: cdk.Stack, who: str, condition: bool) -> None:
    grantee = principals(stack)[who]
    assert ours(stack).grant_read(grantee, session_mode_condition=condition).success
    (statement,) = granted(stack)
    assert statement["Action"] == "s3express:CreateSession"
    assert statement["Principal"] == (
        {"Service": "fsx.amazonaws.com"}
        if who == "service"
        else {
            "AWS": "arn:aws:iam::222222222222:role/theirs"
            if who == "role of another account"
            else "arn:aws:iam::222222222222:root"
        }
    )
    assert ("Condition" in statement) is condition
    assert warnings(stack) == []


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("method", ["grant_read", "grant_read_write"])
def test_others_need_the_owner_of_an_existing_bucket(stack: cdk.Stack, who: str, method: str) -> None:
    grantee = principals(stack)[who]
    assert not getattr(theirs(stack), method)(grantee).success
    (warning,) = warnings(stack)
    assert "[ack: training_storage:directoryBucket.bucketPolicy]" in warning
    assert f'"Resource": "{ARN}"' in warning
    assert '"Action": "s3express:CreateSession"' in warning


def test_a_role_of_ours_needs_the_owner_of_a_bucket_of_another_account(stack: cdk.Stack) -> None:
    assert not theirs(stack, account="222222222222").grant_read_write(role(stack)).success
    (warning,) = warnings(stack)
    assert "directoryBucket.bucketPolicy" in warning
    (statement,) = statements(stack)
    assert "222222222222" in statement["Resource"]


def test_the_warning_can_be_acknowledged(stack: cdk.Stack) -> None:
    bucket = theirs(stack)
    cdk.Annotations.of(bucket).acknowledge_warning("training_storage:directoryBucket.bucketPolicy", "its owner did")
    bucket.grant_read(iam.ServicePrincipal("fsx.amazonaws.com"))
    assert warnings(stack) == []


def test_a_role_of_the_account_needs_no_policy_of_the_bucket(stack: cdk.Stack) -> None:
    ours(stack).grant_read_write(role(stack))
    assert granted(stack) == []


def test_a_role_that_takes_no_policies_is_left_as_it_is(stack: cdk.Stack) -> None:
    fixed = iam.Role.from_role_arn(stack, "Fixed", "arn:aws:iam::111111111111:role/theirs", mutable=False)
    ours(stack).grant_read(fixed)
    assert resources(stack, "AWS::IAM::Policy") == {}


# -- arguments


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("method", ["grant_read", "grant_read_write"])
@pytest.mark.parametrize("grantee", ["arn:aws:iam::111111111111:role/mine", None, 7])
def test_a_grantee_that_is_no_principal_is_named(
    stack: cdk.Stack, method: str, grantee: object, existing: bool
) -> None:
    bucket: Anyone = theirs(stack) if existing else ours(stack)
    with pytest.raises(ValidationError, match="grantee"):
        getattr(bucket, method)(grantee)


@pytest.mark.parametrize("value", ["ReadOnly", 1, None])
def test_a_condition_is_asked_for_or_not(stack: cdk.Stack, value: Any) -> None:
    with pytest.raises(ValidationError, match="session_mode_condition"):
        ours(stack).grant_read(role(stack), session_mode_condition=value)


def test_a_condition_is_not_left_to_the_deploy(stack: cdk.Stack) -> None:
    later: Any = cdk.Fn.condition_equals(cdk.CfnParameter(stack, "Flag").value_as_string, "yes")
    with pytest.raises(ValidationError, match="known at synth"):
        ours(stack).grant_read(role(stack), session_mode_condition=later)


# -- two stacks


@pytest.mark.parametrize("references", ["strong", "weak"])
@pytest.mark.parametrize("options", [{}, {"content_is_cache": True, "removal_policy": cdk.RemovalPolicy.DESTROY}])
@pytest.mark.parametrize("keyed", [False, True])
def test_report_39_grants_to_another_stack_leave_the_bucket_without_references(
    cdk_context: dict[str, Any], tmp_path: Path, references: str, options: dict[str, Any], keyed: bool
) -> None:
    app = cdk.App(
        context={**cdk_context, "@aws-cdk/core:defaultCrossStackReferences": references},
        outdir=str(tmp_path / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    hot, compute = cdk.Stack(app, "Hot"), cdk.Stack(app, "Compute")
    bucket = ours(hot, encryption_key=kms.Key(hot, "Key") if keyed else None, **options)
    bucket.grant_read(role(compute))
    bucket.grant_read_write(iam.Role(compute, "Other", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")))
    text = json.dumps(Template.from_stack(hot).to_json())
    assert "Fn::ImportValue" not in text
    assert "Fn::GetStackOutput" not in text
    assert len(resources(compute, "AWS::IAM::Policy")) == 2
    assert compute.dependencies == [hot]
    assert hot.dependencies == []


def test_a_stack_of_another_account_names_the_bucket_without_a_reference(app: cdk.App) -> None:
    hot = cdk.Stack(app, "Hot", env=ENV)
    compute = cdk.Stack(app, "Compute", env=cdk.Environment(account="222222222222", region="us-east-1"))
    theirs = iam.Role(compute, "Role", role_name="trainers", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    assert ours(hot).grant_read_write(theirs).success
    (identity,) = statements(compute)
    assert identity["Resource"] == "arn:aws:s3express:us-east-1:111111111111:bucket/ckpt--use1-az4--x-s3"
    (statement,) = granted(hot)
    assert statement["Principal"] == {"AWS": "arn:aws:iam::222222222222:role/trainers"}
