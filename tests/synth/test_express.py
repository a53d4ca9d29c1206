"""Directory buckets: what is in the template, what is refused, and what is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk.assertions import Template

from tests.synth.storage import only, resources, warnings
from training_storage import load_catalog
from training_storage.errors import ValidationError
from training_storage.tiers import DirectoryBucket, ImportedDirectoryBucket

BUCKET = "AWS::S3Express::DirectoryBucket"
POLICY = "AWS::S3Express::BucketPolicy"
ZONE = "use1-az4"
ENV = cdk.Environment(account="111111111111", region="us-east-1")


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot", env=ENV)


def make(stack: cdk.Stack, construct_id: str = "Bucket", **options: Any) -> DirectoryBucket:
    return DirectoryBucket(stack, construct_id, **{"availability_zone_id": ZONE, "base_name": "ckpt", **options})


def properties(stack: cdk.Stack) -> dict[str, Any]:
    return dict(only(stack, BUCKET)["Properties"])


def statements(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    """Statements of the bucket policy by their ids."""
    document = only(stack, POLICY)["Properties"]["PolicyDocument"]
    return {statement["Sid"]: statement for statement in document["Statement"]}


def refused(stack: cdk.Stack, **options: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        make(stack, **options)
    assert stack.node.children == []
    return str(caught.value)


# -- name and zone


@pytest.mark.parametrize(
    ("region", "zone"), [("us-east-1", "use1-az4"), ("us-west-2", "usw2-az1"), ("ap-northeast-1", "apne1-az4")]
)
def test_report_16_the_name_is_made_of_base_and_zone(app: cdk.App, region: str, zone: str) -> None:
    stack = cdk.Stack(app, "Hot", env=cdk.Environment(region=region))
    make(stack, availability_zone_id=zone)
    given = properties(stack)
    assert given["BucketName"] == f"ckpt--{zone}--x-s3"
    assert given["LocationName"] == zone


@pytest.mark.parametrize("zone", ["us-east-1a", "us-east-1f", "us-west-2-lax-1a", "us-east-1"])
def test_report_16_a_zone_name_is_refused_at_synth(stack: cdk.Stack, zone: str) -> None:
    said = refused(stack, availability_zone_id=zone)
    assert zone in said
    assert "use1-az4" in said


@pytest.mark.parametrize("zone", ["usw2-az1", "use2-az1", "euw1-az1", "cnn1-az1"])
def test_report_16_a_zone_of_another_region_is_refused_at_synth(stack: cdk.Stack, zone: str) -> None:
    assert "the stack is in us-east-1" in refused(stack, availability_zone_id=zone)


@pytest.mark.parametrize("zone", ["use1-az4", "usw2-az1", "eun1-az3"])
def test_a_stack_for_any_region_takes_every_zone_with_s3_express(app: cdk.App, zone: str) -> None:
    stack = cdk.Stack(app, "Hot")
    make(stack, availability_zone_id=zone)
    assert properties(stack)["LocationName"] == zone


@pytest.mark.parametrize(
    "base", ["x" * 48, "my.data", "Ckpt", "ckpt--use1-az4--x-s3", "ckpt--use1-az5--x-s3", "ckpt--x-s3", "ckpt_1", ""]
)
def test_report_16_a_base_name_in_the_wrong_form_is_refused_at_synth(stack: cdk.Stack, base: str) -> None:
    assert "base_name" in refused(stack, base_name=base)


def test_report_16_the_longest_name_has_63_characters(stack: cdk.Stack) -> None:
    make(stack, base_name="x" * 47)
    assert len(properties(stack)["BucketName"]) == 63


def test_without_a_base_name_the_name_is_made_of_the_stacks_id(stack: cdk.Stack) -> None:
    make(stack, "First", base_name=None)
    make(stack, "Second", base_name=None)
    names = [each["Properties"]["BucketName"]["Fn::Join"] for each in resources(stack, BUCKET).values()]
    heads = []
    for separator, (inner, suffix) in names:
        assert separator == ""
        assert suffix == "--use1-az4--x-s3"
        hyphen, (head, uuid) = inner["Fn::Join"]
        assert hyphen == "-"
        assert uuid == {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
        assert len(f"{head}-{'0' * 36}{suffix}") <= 63
        heads.append(head)
    assert len(set(heads)) == 2


@pytest.mark.parametrize("zone", ["use1-az4", "apne1-az1", "euc1-ist1-az1"])
def test_a_generated_name_fits_every_zone(app: cdk.App, tmp_path: Path, zone: str) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("regions: {eu-central-1: {express_zone_ids: [euc1-ist1-az1]}}\n", encoding="utf-8")
    stack = cdk.Stack(app, "A-stack-with-a-very-long-name-that-fits-in-no-bucket-name")
    make(stack, base_name=None, availability_zone_id=zone, catalog=load_catalog(facts))
    (inner, suffix) = properties(stack)["BucketName"]["Fn::Join"][1]
    assert len(f"{inner['Fn::Join'][1][0]}-{'0' * 36}{suffix}") <= 63


def test_a_region_without_s3_express_is_refused_with_the_way_out(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Hot", env=cdk.Environment(region="eu-central-1"))
    said = refused(stack, availability_zone_id="euc1-az1")
    assert "eu-central-1 has none" in said
    assert "LustreFileSystem" in said


def test_a_catalog_of_ones_own_opens_a_zone(app: cdk.App, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("regions: {eu-central-1: {express_zone_ids: [euc1-az1]}}\n", encoding="utf-8")
    stack = cdk.Stack(app, "Hot", env=cdk.Environment(region="eu-central-1"))
    make(stack, availability_zone_id="euc1-az1", catalog=load_catalog(facts))
    assert properties(stack)["LocationName"] == "euc1-az1"


def test_data_is_kept_in_one_zone(stack: cdk.Stack) -> None:
    make(stack)
    assert properties(stack)["DataRedundancy"] == "SingleAvailabilityZone"


def test_a_local_zone_has_its_own_redundancy(app: cdk.App, tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("regions: {us-west-2: {express_zone_ids: [usw2-lax1-az1]}}\n", encoding="utf-8")
    stack = cdk.Stack(app, "Hot", env=cdk.Environment(region="us-west-2"))
    make(stack, availability_zone_id="usw2-lax1-az1", catalog=load_catalog(facts))
    assert properties(stack)["DataRedundancy"] == "SingleLocalZone"


# -- encryption


def rule_of_encryption(stack: cdk.Stack) -> dict[str, Any]:
    (rule,) = properties(stack)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    return dict(rule)


def test_s3_holds_the_key_by_default(stack: cdk.Stack) -> None:
    assert make(stack).encryption_key is None
    assert rule_of_encryption(stack) == {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}


def test_a_key_is_written_by_its_arn(stack: cdk.Stack) -> None:
    key = kms.Key(stack, "Key")
    assert make(stack, encryption_key=key).encryption_key is key
    rule = rule_of_encryption(stack)
    (logical_id,) = resources(stack, "AWS::KMS::Key")
    assert rule["ServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": {"Fn::GetAtt": [logical_id, "Arn"]},
    }
    assert rule["BucketKeyEnabled"] is True


@pytest.mark.parametrize("kind", ["own", "by name", "by arn"])
def test_an_alias_is_refused(app: cdk.App, kind: str) -> None:
    keys, stack = cdk.Stack(app, "Keys", env=ENV), cdk.Stack(app, "Hot", env=ENV)
    if kind == "own":
        key: kms.IKey = kms.Alias(keys, "Alias", alias_name="alias/hot", target_key=kms.Key(keys, "Key"))
    elif kind == "by name":
        key = kms.Alias.from_alias_name(keys, "Alias", "alias/aws/s3")
    else:
        key = kms.Key.from_key_arn(keys, "Key", "arn:aws:kms:us-east-1:111111111111:alias/hot")
    assert "the key itself" in refused(stack, encryption_key=key)


def test_a_key_of_another_region_is_refused(app: cdk.App) -> None:
    keys, stack = cdk.Stack(app, "Keys", env=ENV), cdk.Stack(app, "Hot", env=ENV)
    key = kms.Key.from_key_arn(keys, "Key", "arn:aws:kms:us-west-2:111111111111:key/0a1b")
    assert "a key of us-east-1" in refused(stack, encryption_key=key)


# -- lifecycle and the policy that it needs


def lifecycle(stack: cdk.Stack) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = properties(stack)["LifecycleConfiguration"]["Rules"]
    return rules


def test_incomplete_uploads_go_after_a_week_by_default(stack: cdk.Stack) -> None:
    make(stack)
    assert lifecycle(stack) == [
        {
            "Id": "incomplete-uploads",
            "Status": "Enabled",
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
        }
    ]


def test_objects_go_when_asked_for(stack: cdk.Stack) -> None:
    make(
        stack,
        expire_after=cdk.Duration.days(3),
        abort_incomplete_multipart_upload_after=cdk.Duration.hours(48),
    )
    rules = {rule["Id"]: rule for rule in lifecycle(stack)}
    assert rules["expiry"] == {"Id": "expiry", "Status": "Enabled", "ExpirationInDays": 3}
    assert rules["incomplete-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 2}


def test_checkpoints_go_and_the_data_sets_beside_them_stay(stack: cdk.Stack) -> None:
    make(stack, expire_after=cdk.Duration.days(3), expire_prefixes=["checkpoints/", "tmp/"])
    assert [(rule["Prefix"], rule["ExpirationInDays"]) for rule in lifecycle(stack) if "ExpirationInDays" in rule] == [
        ("checkpoints/", 3),
        ("tmp/", 3),
    ]


def test_rules_of_prefixes_have_ids_of_their_own(stack: cdk.Stack) -> None:
    make(stack, expire_after=cdk.Duration.days(3), expire_prefixes=["checkpoints/", "tmp/"])
    assert [rule["Id"] for rule in lifecycle(stack)] == ["incomplete-uploads", "expiry", "expiry2"]


def test_a_prefix_that_expires_without_an_age_is_refused(stack: cdk.Stack) -> None:
    assert "give expire_after" in refused(stack, expire_prefixes=["checkpoints/"])


@pytest.mark.parametrize("prefix", ["checkpoints", "/checkpoints/", "/", ""])
def test_a_prefix_that_would_reach_further_or_nothing_is_refused(stack: cdk.Stack, prefix: str) -> None:
    assert "expire_prefixes" in refused(stack, expire_after=cdk.Duration.days(3), expire_prefixes=[prefix])


@pytest.mark.parametrize("age", ["expire_after", "abort_incomplete_multipart_upload_after"])
@pytest.mark.parametrize("hours", [0, 1, 36])
def test_an_age_that_is_no_whole_day_is_refused(stack: cdk.Stack, age: str, hours: int) -> None:
    assert "whole days" in refused(stack, **{age: cdk.Duration.hours(hours)})


@pytest.mark.parametrize("options", [{}, {"expire_after": cdk.Duration.days(3)}], ids=["uploads", "expiry"])
def test_the_lifecycle_service_may_open_sessions_wherever_there_are_rules(
    stack: cdk.Stack, options: dict[str, Any]
) -> None:
    make(stack, **options)
    assert lifecycle(stack)
    (logical_id,) = resources(stack, BUCKET)
    assert only(stack, POLICY)["Properties"]["Bucket"] == {"Ref": logical_id}
    assert statements(stack)["Lifecycle"] == {
        "Sid": "Lifecycle",
        "Effect": "Allow",
        "Principal": {"Service": "lifecycle.s3.amazonaws.com"},
        "Action": "s3express:CreateSession",
        "Resource": {
            "Fn::Join": [
                "",
                ["arn:aws:s3express:us-east-1:111111111111:bucket/", {"Ref": logical_id}],
            ]
        },
        "Condition": {
            "StringEquals": {"s3express:SessionMode": "ReadWrite", "aws:SourceAccount": "111111111111"},
        },
    }


def test_tls_before_1_2_opens_no_session(stack: cdk.Stack) -> None:
    make(stack)
    statement = statements(stack)["TlsVersion"]
    assert (statement["Effect"], statement["Principal"]) == ("Deny", {"AWS": "*"})
    assert statement["Condition"] == {"NumericLessThan": {"s3express:TlsVersion": 1.2}}


def test_nobody_else_is_named_in_the_policy(stack: cdk.Stack) -> None:
    make(stack)
    assert set(statements(stack)) == {"Lifecycle", "TlsVersion"}


# -- what is kept


@pytest.mark.parametrize(
    ("policy", "kept"),
    [
        (None, "Retain"),
        (cdk.RemovalPolicy.RETAIN, "Retain"),
        (cdk.RemovalPolicy.DESTROY, "Delete"),
    ],
)
def test_removal_drives_bucket_and_policy_and_a_replacement_never_deletes(
    stack: cdk.Stack, policy: cdk.RemovalPolicy | None, kept: str
) -> None:
    make(stack, removal_policy=policy)
    for kind in (BUCKET, POLICY):
        found = only(stack, kind)
        assert (found["DeletionPolicy"], found["UpdateReplacePolicy"]) == (kept, "Retain")


def test_a_snapshot_is_no_way_to_remove_it(stack: cdk.Stack) -> None:
    assert "RETAIN or DESTROY" in refused(stack, removal_policy=cdk.RemovalPolicy.SNAPSHOT)


def test_report_18_nothing_empties_a_bucket_unless_it_is_said(stack: cdk.Stack) -> None:
    make(stack, removal_policy=cdk.RemovalPolicy.DESTROY)
    assert set(Template.from_stack(stack).to_json()["Resources"]) == {
        *resources(stack, BUCKET),
        *resources(stack, POLICY),
    }


@pytest.mark.parametrize("policy", [None, cdk.RemovalPolicy.RETAIN])
def test_a_cache_that_is_kept_is_refused(stack: cdk.Stack, policy: cdk.RemovalPolicy | None) -> None:
    said = refused(stack, content_is_cache=True, removal_policy=policy)
    assert "nothing would use it" in said
    assert "DESTROY" in said


# -- all at once


def test_all_problems_are_raised_at_once_and_nothing_is_added(stack: cdk.Stack) -> None:
    said = refused(
        stack,
        availability_zone_id="us-east-1a",
        base_name="My.Data",
        expire_after=cdk.Duration.hours(1),
        content_is_cache=True,
        removal_policy=cdk.RemovalPolicy.SNAPSHOT,
    )
    for path in ("availability_zone_id", "base_name", "expire_after", "content_is_cache", "removal_policy"):
        assert f"{path}: " in said
    assert said.startswith("Hot/Bucket: 5 problems")


@pytest.mark.parametrize("name", ["availability_zone_id", "base_name"])
def test_what_is_known_at_deploy_only_passes_unchecked(stack: cdk.Stack, name: str) -> None:
    parameter = cdk.CfnParameter(stack, "Text").value_as_string
    make(stack, **{name: parameter})
    text = json.dumps(properties(stack)["BucketName"])
    assert '{"Ref": "Text"}' in text
    assert "--x-s3" in text


# -- names, addresses


def test_names_and_addresses(stack: cdk.Stack) -> None:
    bucket = make(stack)
    assert bucket.availability_zone_id == ZONE
    (logical_id,) = resources(stack, BUCKET)
    assert stack.resolve(bucket.bucket_name) == {"Ref": logical_id}
    assert stack.resolve(bucket.uri_for()) == {"Fn::Join": ["", ["s3://", {"Ref": logical_id}, "/"]]}
    assert stack.resolve(bucket.uri_for("shards")) == {"Fn::Join": ["", ["s3://", {"Ref": logical_id}, "/shards/"]]}


@pytest.mark.parametrize("prefix", ["a//b", "../a"])
def test_a_prefix_that_is_none_is_refused(stack: cdk.Stack, prefix: str) -> None:
    with pytest.raises(ValidationError, match="prefix"):
        make(stack).uri_for(prefix)


def test_a_prefix_that_is_known_at_deploy_is_taken_as_it_is(stack: cdk.Stack) -> None:
    assert "Token" in make(stack).uri_for(cdk.CfnParameter(stack, "Text").value_as_string)


def test_several_buckets_stand_side_by_side(stack: cdk.Stack) -> None:
    for index in range(3):
        make(stack, f"Bucket{index}", base_name=f"hot-{index}")
    names = [each["Properties"]["BucketName"] for each in resources(stack, BUCKET).values()]
    assert names == [f"hot-{index}--use1-az4--x-s3" for index in range(3)]


# -- a bucket that exists already


def test_an_existing_bucket_is_taken_as_it_is(stack: cdk.Stack) -> None:
    theirs = DirectoryBucket.from_bucket_name(stack, "Theirs", "shared--use1-az5--x-s3")
    assert isinstance(theirs, ImportedDirectoryBucket)
    assert theirs.bucket_name == "shared--use1-az5--x-s3"
    assert theirs.availability_zone_id == "use1-az5"
    assert theirs.encryption_key is None
    assert theirs.uri_for("a/b") == "s3://shared--use1-az5--x-s3/a/b/"
    assert theirs.bucket_arn == "arn:aws:s3express:us-east-1:111111111111:bucket/shared--use1-az5--x-s3"
    assert Template.from_stack(stack).to_json().get("Resources", {}) == {}
    assert warnings(stack) == []


def test_an_existing_bucket_can_belong_to_another_account(stack: cdk.Stack) -> None:
    theirs = DirectoryBucket.from_bucket_name(stack, "Theirs", "shared--use1-az5--x-s3", account="222222222222")
    assert ":s3express:us-east-1:222222222222:bucket/" in json.dumps(stack.resolve(theirs.bucket_arn))


@pytest.mark.parametrize(
    "name", ["shared", "shared--use1-az5", "shared--us-east-1a--x-s3", "Shared--use1-az5--x-s3", "a--usw2-az1--x-s3"]
)
def test_report_16_a_name_that_no_directory_bucket_of_the_region_has_is_refused(stack: cdk.Stack, name: str) -> None:
    with pytest.raises(ValidationError, match="bucket_name") as caught:
        DirectoryBucket.from_bucket_name(stack, "Theirs", name)
    assert name in str(caught.value)
    assert stack.node.children == []


def test_the_zone_of_a_name_known_at_deploy_is_not_known(stack: cdk.Stack) -> None:
    name = cdk.CfnParameter(stack, "Name").value_as_string
    theirs = DirectoryBucket.from_bucket_name(stack, "Theirs", name)
    assert theirs.availability_zone_id is None
    assert stack.resolve(theirs.bucket_name) == {"Ref": "Name"}


def test_an_alias_is_no_key_of_an_existing_bucket_either(stack: cdk.Stack) -> None:
    alias = kms.Alias.from_alias_name(stack, "Alias", "alias/hot")
    with pytest.raises(ValidationError, match="encryption_key"):
        DirectoryBucket.from_bucket_name(stack, "Theirs", "shared--use1-az5--x-s3", encryption_key=alias)
