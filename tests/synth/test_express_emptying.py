"""The function that empties a directory bucket whose content is a cache: only there, with what it needs, in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template

from tests.assemblies import lint
from tests.synth.storage import only, resources, warnings
from training_storage.tiers import DirectoryBucket

BUCKET = "AWS::S3Express::DirectoryBucket"
EMPTYING = "Custom::EmptyDirectoryBucket"
FUNCTION = "AWS::Lambda::Function"
ENV = cdk.Environment(account="111111111111", region="us-east-1")


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot", env=ENV)


def cache(stack: cdk.Stack, **options: Any) -> DirectoryBucket:
    given = {"availability_zone_id": "use1-az4", "base_name": "cache", "removal_policy": cdk.RemovalPolicy.DESTROY}
    return DirectoryBucket(stack, "Bucket", **{**given, "content_is_cache": True, **options})


def statements(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    """Statements of the one role by their first action."""
    found = only(stack, "AWS::IAM::Policy")["Properties"]["PolicyDocument"]["Statement"]
    return {each["Action"] if isinstance(each["Action"], str) else each["Action"][0]: each for each in found}


@pytest.mark.parametrize(
    ("policy", "is_cache", "emptied"),
    [
        (None, False, False),
        (cdk.RemovalPolicy.RETAIN, False, False),
        (cdk.RemovalPolicy.DESTROY, False, False),
        (cdk.RemovalPolicy.DESTROY, True, True),
    ],
)
def test_a_bucket_is_emptied_where_both_say_so(
    stack: cdk.Stack, policy: cdk.RemovalPolicy | None, is_cache: bool, emptied: bool
) -> None:
    cache(stack, removal_policy=policy, content_is_cache=is_cache)
    for kind in (EMPTYING, FUNCTION, "AWS::IAM::Role", "AWS::IAM::Policy", "AWS::Logs::LogGroup"):
        assert len(resources(stack, kind)) == int(emptied)


def test_report_18_the_bucket_is_emptied_before_it_is_deleted(stack: cdk.Stack) -> None:
    cache(stack)
    (bucket,) = resources(stack, BUCKET)
    # CloudFormation deletes what refers to the bucket first.
    assert only(stack, EMPTYING)["Properties"]["BucketName"] == {"Ref": bucket}


def test_what_the_last_call_needs_goes_after_it(stack: cdk.Stack) -> None:
    cache(stack)
    needed = {
        *resources(stack, "AWS::IAM::Role"),
        *resources(stack, "AWS::IAM::Policy"),
        *resources(stack, "AWS::Logs::LogGroup"),
    }
    found = only(stack, EMPTYING)
    (function,) = resources(stack, FUNCTION)
    assert set(found["DependsOn"]) == needed
    assert found["Properties"]["ServiceToken"] == {"Fn::GetAtt": [function, "Arn"]}


def test_report_8_cloudformation_waits_an_hour(stack: cdk.Stack) -> None:
    cache(stack)
    assert int(only(stack, EMPTYING)["Properties"]["ServiceTimeout"]) >= 3600


def test_the_function_runs_as_long_as_it_can(stack: cdk.Stack) -> None:
    cache(stack)
    given = only(stack, FUNCTION)["Properties"]
    assert given["Timeout"] == 900  # AWS Lambda Developer Guide, quotas
    assert given["Runtime"].startswith("python3.")
    assert given["Handler"] == "node.functions.empty_directory_bucket.index.handler"


def test_the_policy_may_name_the_function_since_that_does_not_wait_for_it(stack: cdk.Stack) -> None:
    cache(stack)
    assert "DependsOn" not in only(stack, FUNCTION)
    (function,) = resources(stack, FUNCTION)
    assert statements(stack)["lambda:InvokeFunction"]["Resource"] == {"Fn::GetAtt": [function, "Arn"]}


def test_the_role_may_do_what_the_function_does_on_this_bucket_alone(stack: cdk.Stack) -> None:
    cache(stack)
    (bucket,) = resources(stack, BUCKET)
    (group,) = resources(stack, "AWS::Logs::LogGroup")
    given = statements(stack)
    assert set(given) == {
        "logs:CreateLogStream",
        "s3express:CreateSession",
        "cloudformation:DescribeStacks",
        "lambda:InvokeFunction",
    }
    assert given["s3express:CreateSession"]["Resource"] == {
        "Fn::Join": ["", ["arn:aws:s3express:us-east-1:111111111111:bucket/", {"Ref": bucket}]]
    }
    assert given["cloudformation:DescribeStacks"]["Resource"] == {"Ref": "AWS::StackId"}
    assert given["logs:CreateLogStream"]["Resource"] == {"Fn::GetAtt": [group, "Arn"]}
    assert "*" not in json.dumps(given)
    assert "ManagedPolicyArns" not in only(stack, "AWS::IAM::Role")["Properties"]


def test_the_role_may_use_the_key(stack: cdk.Stack) -> None:
    cache(stack, encryption_key=kms.Key(stack, "Key"))
    (key,) = resources(stack, "AWS::KMS::Key")
    assert statements(stack)["kms:Decrypt"] == {
        "Effect": "Allow",
        "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
        "Resource": {"Fn::GetAtt": [key, "Arn"]},
    }


def test_the_owner_of_a_key_of_another_account_is_told_what_the_function_needs(stack: cdk.Stack) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:222222222222:key/0a1b")
    cache(stack, encryption_key=key)
    (warning,) = warnings(stack)
    assert "directoryBucket.keyPolicy" in warning


def test_logs_go_to_a_group_of_its_own_that_forgets(stack: cdk.Stack) -> None:
    cache(stack)
    (logical_id,) = resources(stack, "AWS::Logs::LogGroup")
    assert only(stack, "AWS::Logs::LogGroup")["Properties"] == {"RetentionInDays": 30}
    assert only(stack, FUNCTION)["Properties"]["LoggingConfig"] == {"LogGroup": {"Ref": logical_id}}


def test_each_bucket_has_a_function_of_its_own(stack: cdk.Stack) -> None:
    for number in range(2):
        DirectoryBucket(
            stack,
            f"Bucket{number}",
            availability_zone_id="use1-az4",
            base_name=f"cache-{number}",
            removal_policy=cdk.RemovalPolicy.DESTROY,
            content_is_cache=True,
        )
    tokens = {each["Properties"]["ServiceToken"]["Fn::GetAtt"][0] for each in resources(stack, EMPTYING).values()}
    assert tokens == set(resources(stack, FUNCTION))
    assert len(tokens) == 2


def test_report_38_what_python_leaves_beside_the_code_changes_nothing(app: cdk.App) -> None:
    # The folder holds byte code as soon as a test has imported the function.
    import training_storage.node.functions.empty_directory_bucket.index  # noqa: F401

    stack = cdk.Stack(app, "Hot", env=ENV)
    cache(stack)
    app.synth()
    (code,) = Path(app.outdir).glob("asset.*")
    assert (code / "node/functions/empty_directory_bucket/index.py").is_file()
    assert {path.suffix for path in code.rglob("*") if path.is_file()} == {".py"}


def test_two_apps_have_the_same_bytes(make_app: Any) -> None:
    texts = set()
    for _ in range(2):
        stack = cdk.Stack(make_app(), "Hot", env=ENV)
        cache(stack)
        texts.add(json.dumps(Template.from_stack(stack).to_json()))
    assert len(texts) == 1


@pytest.mark.parametrize("keyed", [False, True])
def test_cfn_lint_finds_nothing(stack: cdk.Stack, keyed: bool) -> None:
    key = kms.Key(stack, "Key", enable_key_rotation=True) if keyed else None
    cache(stack, encryption_key=key, expire_after=cdk.Duration.days(3))
    assert lint(Template.from_stack(stack).to_json()) == []
