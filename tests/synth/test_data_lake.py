"""The data lake: one fact a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Match, Template

from tests.synth.storage import only, resources, warnings
from training_storage.errors import ValidationError
from training_storage.node import places, run_command
from training_storage.tiers.data_lake import DataLake

BUCKET = "AWS::S3::Bucket"
KEY = "AWS::KMS::Key"
ARCHIVE = {"GLACIER", "DEEP_ARCHIVE", "INTELLIGENT_TIERING"}  # no hot tier reads the first two; the third may archive


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Lake")


def role(stack: cdk.Stack) -> iam.Role:
    return iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))


def their_key(stack: cdk.Stack) -> kms.IKey:
    return kms.Key.from_key_arn(stack, "TheirKey", "arn:aws:kms:us-east-1:111111111111:key/0abc")


def their_bucket(stack: cdk.Stack) -> s3.IBucket:
    return s3.Bucket.from_bucket_name(stack, "Theirs", "their-bucket")


def properties(stack: cdk.Stack) -> dict[str, Any]:
    found: dict[str, Any] = only(stack, BUCKET)["Properties"]
    return found


def lifecycle(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    return {rule["Id"]: rule for rule in properties(stack)["LifecycleConfiguration"]["Rules"]}


def statements(stack: cdk.Stack, resource_type: str = "AWS::IAM::Policy") -> list[dict[str, Any]]:
    document = "KeyPolicy" if resource_type == KEY else "PolicyDocument"
    found: list[dict[str, Any]] = only(stack, resource_type)["Properties"][document]["Statement"]
    return found


# -- a new bucket


def test_public_access_is_blocked(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    assert all(properties(stack)["PublicAccessBlockConfiguration"].values())
    assert len(properties(stack)["PublicAccessBlockConfiguration"]) == 4


def test_only_tls_is_taken(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    (deny,) = [each for each in statements(stack, "AWS::S3::BucketPolicy") if each["Effect"] == "Deny"]
    assert deny["Action"] == "s3:*"
    assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert len(deny["Resource"]) == 2


def test_report_12_no_policy_demands_an_encryption_header(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    assert "s3:x-amz-server-side-encryption" not in json.dumps(resources(stack, "AWS::S3::BucketPolicy"))


def test_objects_are_encrypted_with_a_key_of_ours_and_bucket_keys(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    (rule,) = properties(stack)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    (key_id,) = resources(stack, KEY)
    assert rule["BucketKeyEnabled"] is True
    assert rule["ServerSideEncryptionByDefault"] == {
        "SSEAlgorithm": "aws:kms",
        "KMSMasterKeyID": {"Fn::GetAtt": [key_id, "Arn"]},
    }


def test_our_key_rotates(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    assert only(stack, KEY)["Properties"]["EnableKeyRotation"] is True


def test_s3_encryption_has_no_key(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake", encryption="s3")
    (rule,) = properties(stack)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert lake.encryption_key is None
    assert resources(stack, KEY) == {}


def test_a_given_key_is_used(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", encryption_key=their_key(stack))
    (rule,) = properties(stack)["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"]["KMSMasterKeyID"] == "arn:aws:kms:us-east-1:111111111111:key/0abc"
    assert resources(stack, KEY) == {}


def test_versions_are_kept(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    assert properties(stack)["VersioningConfiguration"] == {"Status": "Enabled"}


def test_versioning_can_be_left_off(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", versioned=False)
    assert "VersioningConfiguration" not in properties(stack)
    # versioning may have been on before, and what it left behind must not cost for ever
    assert lifecycle(stack)["noncurrent-versions"]["Status"] == "Enabled"


def test_lifecycle_has_the_default_ages(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    rules = lifecycle(stack)
    # contract: 30 days to infrequent access, 30 days for noncurrent versions, 180 days for logs
    assert rules["checkpoints-to-infrequent-access"]["Prefix"] == "checkpoints/"
    assert rules["checkpoints-to-infrequent-access"]["Transitions"] == [
        {"StorageClass": "STANDARD_IA", "TransitionInDays": 30}
    ]
    assert rules["noncurrent-versions"]["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert (rules["logs"]["Prefix"], rules["logs"]["ExpirationInDays"]) == ("logs/", 180)
    assert rules["incomplete-uploads"]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}


def test_notes_that_are_done_go_and_what_says_what_is_saved_never_does(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", checkpoints_expire_after=cdk.Duration.days(90))
    expiring = {
        each["Prefix"]: each["ExpirationInDays"] for each in lifecycle(stack).values() if "ExpirationInDays" in each
    }
    assert {key: age for key, age in expiring.items() if key.startswith(places.ROOT)} == {
        places.ANSWERS: 30,
        places.PRUNING: 30,
        places.ORDERS: 30,
        places.LISTS: 30,
    }
    # An answer may be waited for for two days.
    assert min(expiring.values()) * 86_400 > run_command.LONGEST_S
    for kept in (
        places.RECORDS, places.LEDGERS, places.STATUS, places.LEASES, places.RELEASES, places.storage_node_key(),
    ):  # fmt: skip
        assert not [each for each in expiring if kept.startswith(each)], kept


def test_lifecycle_takes_given_ages(stack: cdk.Stack) -> None:
    DataLake(
        stack,
        "Lake",
        checkpoints_to_infrequent_access_after=cdk.Duration.days(60),
        noncurrent_versions_expire_after=cdk.Duration.hours(48),
        logs_expire_after=cdk.Duration.days(10),
        abort_incomplete_multipart_upload_after=cdk.Duration.days(1),
    )
    rules = lifecycle(stack)
    assert rules["checkpoints-to-infrequent-access"]["Transitions"][0]["TransitionInDays"] == 60
    assert rules["noncurrent-versions"]["NoncurrentVersionExpiration"]["NoncurrentDays"] == 2
    assert rules["logs"]["ExpirationInDays"] == 10
    assert rules["incomplete-uploads"]["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] == 1


def test_nothing_goes_where_a_hot_tier_cannot_read_it(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    classes = {each["StorageClass"] for rule in lifecycle(stack).values() for each in rule.get("Transitions", [])}
    assert classes == {"STANDARD_IA"}
    assert not classes & ARCHIVE


def test_report_10_events_go_to_eventbridge_by_the_native_property(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    assert properties(stack)["NotificationConfiguration"] == {"EventBridgeConfiguration": {"EventBridgeEnabled": True}}
    assert resources(stack, "Custom::S3BucketNotifications") == {}
    assert resources(stack, "AWS::Lambda::Function") == {}


def test_report_18_bucket_policy_and_key_are_retained_and_nothing_empties_them(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    for resource_type in (BUCKET, KEY, "AWS::S3::BucketPolicy"):
        found = only(stack, resource_type)
        assert (found["DeletionPolicy"], found["UpdateReplacePolicy"]) == ("Retain", "Retain")
    assert resources(stack, "Custom::S3AutoDeleteObjects") == {}


def test_destroy_deletes_bucket_and_key_but_an_update_never_does(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", removal_policy=cdk.RemovalPolicy.DESTROY)
    for resource_type in (BUCKET, KEY):
        found = only(stack, resource_type)
        assert (found["DeletionPolicy"], found["UpdateReplacePolicy"]) == ("Delete", "Retain")
    assert resources(stack, "Custom::S3AutoDeleteObjects") == {}


def test_a_given_name_is_used(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", bucket_name="training-lake")
    assert properties(stack)["BucketName"] == "training-lake"


def generated(stack: cdk.Stack) -> list[Any]:
    return [found["Properties"]["BucketName"]["Fn::Join"][1] for found in resources(stack, BUCKET).values()]


@pytest.mark.parametrize(
    "stack_name", ["Lake", "llama3-70b-lake", "x" * 128, "A-very-long-name-with-CAPITALS-and-more-"]
)
def test_a_generated_name_fits_and_carries_the_id_of_the_stack(app: cdk.App, stack_name: str) -> None:
    stack = cdk.Stack(app, "Stack", stack_name=stack_name.rstrip("-"))
    DataLake(stack, "Lake")
    ((head, uuid),) = generated(stack)
    assert uuid == {"Fn::Select": [2, {"Fn::Split": ["/", {"Ref": "AWS::StackId"}]}]}
    assert len(head) + len("-") + 36 <= 63  # a UUID has 36 characters; a bucket name at most 63
    assert head == head.lower()
    assert head[0].isalnum()


def test_two_lakes_of_one_stack_have_two_names(stack: cdk.Stack) -> None:
    DataLake(stack, "One")
    DataLake(stack, "Two")
    first, second = generated(stack)
    assert first[0] != second[0]


def test_child_ids_are_fixed(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake")
    assert sorted(child.node.id for child in lake.node.children) == ["Bucket", "Key"]


# -- the key policy for FSx


def fsx_statement(stack: cdk.Stack) -> dict[str, Any]:
    (found,) = [each for each in statements(stack, KEY) if each.get("Sid") == "FsxLinkedFileSystems"]
    return found


def test_the_key_lets_fsx_roles_of_the_account_use_it(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", bucket_name="training-lake")
    statement = fsx_statement(stack)
    partition, account = {"Ref": "AWS::Partition"}, {"Ref": "AWS::AccountId"}
    bucket = ["arn:", partition, ":s3:::training-lake"]
    assert statement["Principal"] == {"AWS": "*"}
    # FSx for Lustre User Guide, server-side encrypted buckets
    assert statement["Action"] == [
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey*",
        "kms:ReEncrypt*",
    ]
    assert statement["Condition"] == {
        "StringEquals": {
            "kms:CallerAccount": account,
            "kms:ViaService": {"Fn::Join": ["", ["s3.", {"Ref": "AWS::Region"}, ".", {"Ref": "AWS::URLSuffix"}]]},
        },
        "StringLike": {
            "kms:EncryptionContext:aws:s3:arn": [
                {"Fn::Join": ["", bucket]},
                {"Fn::Join": ["", [*bucket[:-1], ":s3:::training-lake/*"]]},
            ]
        },
        "ArnLike": {
            "aws:PrincipalArn": {
                "Fn::Join": [
                    "",
                    [
                        "arn:",
                        partition,
                        ":iam::",
                        account,
                        ":role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/AWSServiceRoleForFSxS3Access_*",
                    ],
                ]
            }
        },
    }


def test_the_key_names_the_bucket_without_referring_to_it(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake")
    (bucket_id,) = resources(stack, BUCKET)
    assert bucket_id not in json.dumps(only(stack, KEY))
    name = json.dumps(properties(stack)["BucketName"])
    assert name in json.dumps(fsx_statement(stack)["Condition"]["StringLike"])


def test_a_given_key_of_the_same_stack_gets_the_statement(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", encryption_key=kms.Key(stack, "Mine"))
    assert fsx_statement(stack)["Principal"] == {"AWS": "*"}
    assert warnings(stack) == []


def test_a_given_key_of_another_stack_is_left_alone_with_a_warning(app: cdk.App) -> None:
    keys, stack = cdk.Stack(app, "Keys"), cdk.Stack(app, "Lake")
    DataLake(stack, "Lake", encryption_key=kms.Key(keys, "Key"))
    assert "FsxLinkedFileSystems" not in json.dumps(statements(keys, KEY))
    (warning,) = warnings(stack)
    assert "[ack: training_storage:dataLake.keyPolicy]" in warning


@pytest.mark.parametrize(("region", "suffix"), [("us-east-1", "amazonaws.com"), ("cn-north-1", "amazonaws.com.cn")])
def test_a_printed_statement_has_no_parameter_that_the_region_settles(app: cdk.App, region: str, suffix: str) -> None:
    stack = cdk.Stack(app, "Placed", env=cdk.Environment(account="111111111111", region=region))
    arn = f"arn:aws:kms:{region}:111111111111:key/0a1b2c3d-4e5f-6071-8a9b-0c1d2e3f4a5b"
    key = kms.Key.from_key_arn(stack, "Key", arn)
    DataLake(stack, "Lake", encryption_key=key, bucket_name="training-lake")
    (warning,) = warnings(stack)
    assert f'"kms:ViaService": "s3.{region}.{suffix}"' in warning
    assert "${" not in warning


def test_an_imported_key_gets_a_warning_that_prints_the_statement(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", encryption_key=their_key(stack), bucket_name="training-lake")
    (warning,) = warnings(stack)
    assert '"arn:${AWS::Partition}:s3:::training-lake/*"' in warning
    assert "AWSServiceRoleForFSxS3Access_*" in warning


@pytest.mark.parametrize(
    ("region", "partition"), [("us-east-1", "aws"), ("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")]
)
def test_arns_follow_the_partition(app: cdk.App, region: str, partition: str) -> None:
    stack = cdk.Stack(app, "Lake", env=cdk.Environment(account="111111111111", region=region))
    lake = DataLake(stack, "Lake", bucket_name="training-lake")
    lake.grant_read(role(stack))
    condition = fsx_statement(stack)["Condition"]
    assert condition["ArnLike"]["aws:PrincipalArn"].startswith(f"arn:{partition}:iam::111111111111:role/")
    assert condition["StringLike"]["kms:EncryptionContext:aws:s3:arn"][0] == f"arn:{partition}:s3:::training-lake"
    assert condition["StringEquals"]["kms:ViaService"]["Fn::Join"][1] == [f"s3.{region}.", {"Ref": "AWS::URLSuffix"}]
    assert "arn:aws:" not in json.dumps(Template.from_stack(stack).to_json()) or partition == "aws"


# -- grants


def by_first_action(stack: cdk.Stack) -> dict[str, dict[str, Any]]:
    found = {}
    for statement in statements(stack):
        action = statement["Action"]
        found[action if isinstance(action, str) else action[0]] = statement
    return found


def test_grant_read_gives_exact_actions(stack: cdk.Stack) -> None:
    grant = DataLake(stack, "Lake").grant_read(role(stack))
    assert grant.success
    assert set(by_first_action(stack)) == {"s3:ListBucket", "s3:GetObject", "kms:Decrypt"}


def test_grant_read_is_held_to_the_prefix(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", bucket_name="training-lake").grant_read(role(stack), prefix="datasets")
    given = by_first_action(stack)
    assert given["s3:ListBucket"]["Condition"] == {"StringLike": {"s3:prefix": ["datasets/*"]}}
    assert given["s3:GetObject"]["Resource"]["Fn::Join"][1][-1] == "/datasets/*"


def test_grant_without_prefix_covers_the_bucket(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_read(role(stack))
    given = by_first_action(stack)
    assert "Condition" not in given["s3:ListBucket"]
    assert given["s3:GetObject"]["Resource"]["Fn::Join"][1][-1] == "/*"


def test_report_12_read_write_can_decrypt_and_make_data_keys(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_read_write(role(stack), prefix="checkpoints/")
    given = by_first_action(stack)
    assert given["kms:Decrypt"]["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert given["s3:AbortMultipartUpload"]["Action"] == ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]


def test_report_12_read_only_makes_no_data_keys(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_read(role(stack))
    assert "GenerateDataKey" not in json.dumps(statements(stack))


@pytest.mark.parametrize("write", [False, True])
def test_report_12_an_existing_bucket_with_its_key_gets_the_same_grants(app: cdk.App, write: bool) -> None:
    actions = []
    for name, existing in (("New", False), ("Existing", True)):
        stack = cdk.Stack(app, name)
        options: dict[str, Any] = {"bucket": their_bucket(stack)} if existing else {}
        lake = DataLake(stack, "Lake", encryption_key=their_key(stack), **options)
        grant = lake.grant_read_write(role(stack)) if write else lake.grant_read(role(stack))
        assert grant.success
        actions.append(
            [
                json.dumps(cdk.Stack.of(lake).resolve(each.to_statement_json()["Action"]))
                for each in grant.principal_statements
            ]
        )
    assert actions[0] == actions[1]
    assert any("kms:Decrypt" in each for each in actions[1])


def test_report_12_no_kms_statement_names_every_key(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_read_write(role(stack))
    for statement in statements(stack):
        assert statement["Resource"] != "*"


def test_no_action_granted_has_a_wildcard(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake")
    lake.grant_read_write(role(stack))
    lake.grant_delete(iam.User(stack, "User"))
    for policy in resources(stack, "AWS::IAM::Policy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            assert "*" not in json.dumps(statement["Action"])


def test_writing_is_not_deleting(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_read_write(role(stack))
    assert "s3:DeleteObject" not in json.dumps(statements(stack))


def test_grant_delete_takes_no_key(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_delete(role(stack), prefix="checkpoints/")
    assert set(by_first_action(stack)) == {"s3:ListBucket", "s3:DeleteObject"}


def test_a_service_gets_its_right_in_the_policy_of_our_bucket(stack: cdk.Stack) -> None:
    grant = DataLake(stack, "Lake").grant_read(iam.ServicePrincipal("fsx.amazonaws.com"))
    assert grant.success
    allowed = [each for each in statements(stack, "AWS::S3::BucketPolicy") if each["Effect"] == "Allow"]
    assert [each["Action"] for each in allowed] == ["s3:ListBucket", "s3:GetObject"]


def test_a_service_that_is_held_to_a_prefix_may_list_nothing_else(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake").grant_read(iam.ServicePrincipal("fsx.amazonaws.com"), prefix="datasets/")
    listing = [each for each in statements(stack, "AWS::S3::BucketPolicy") if each["Action"] == "s3:ListBucket"]
    assert [each.get("Condition") for each in listing] == [{"StringLike": {"s3:prefix": ["datasets/*"]}}]


def test_a_service_gets_nothing_on_an_existing_bucket_and_we_say_so(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake", bucket=their_bucket(stack))
    grant = lake.grant_read(iam.ServicePrincipal("fsx.amazonaws.com"))
    assert not grant.success
    said = warnings(stack)
    assert all("[ack: training_storage:dataLake.bucketPolicy]" in warning for warning in said)
    assert any('"arn:${AWS::Partition}:s3:::their-bucket/*"' in warning for warning in said)
    assert any('"s3:ListBucket"' in warning for warning in said)


def test_a_role_of_the_account_needs_nothing_from_the_owner(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake", bucket=their_bucket(stack))
    assert lake.grant_read(role(stack)).success
    assert warnings(stack) == []


def test_a_key_of_another_account_needs_its_owner(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Lake", env=cdk.Environment(account="222222222222", region="us-east-1"))
    lake = DataLake(stack, "Lake", bucket=their_bucket(stack), encryption_key=their_key(stack))
    assert not lake.grant_read(role(stack)).success
    assert any('"Action": "kms:Decrypt"' in warning for warning in warnings(stack))


@pytest.mark.parametrize("prefix", ["a//b", "../a"])
def test_a_prefix_that_is_none_fails(stack: cdk.Stack, prefix: str) -> None:
    lake = DataLake(stack, "Lake")
    with pytest.raises(ValidationError, match="prefix"):
        lake.grant_read(role(stack), prefix=prefix)


def test_uri_has_a_trailing_slash(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake", bucket=their_bucket(stack))
    assert lake.uri_for("datasets") == "s3://their-bucket/datasets/"
    assert lake.uri_for() == "s3://their-bucket/"


# -- an existing bucket


def test_an_existing_bucket_is_not_changed(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake", bucket=their_bucket(stack))
    assert lake.bucket_name == "their-bucket"
    assert Template.from_stack(stack).to_json().get("Resources", {}) == {}


def test_report_38_a_bucket_of_the_users_own_app_is_taken(stack: cdk.Stack) -> None:
    bucket = s3.Bucket(stack, "Mine", encryption=s3.BucketEncryption.KMS)
    lake = DataLake(stack, "Lake", bucket=bucket)
    assert lake.bucket is bucket
    assert lake.encryption_key is not None
    assert lake.bucket_arn == bucket.bucket_arn


# -- refusals


def test_all_problems_are_raised_at_once_and_nothing_is_added(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError) as caught:
        DataLake(
            stack,
            "Lake",
            bucket_name="Not.Good",
            encryption="aes",  # type: ignore[arg-type]
            logs_expire_after=cdk.Duration.hours(1),
            removal_policy=cdk.RemovalPolicy.SNAPSHOT,
        )
    assert [problem.path for problem in caught.value.problems] == [
        "bucket_name",
        "encryption",
        "logs_expire_after",
        "removal_policy",
    ]
    assert caught.value.where == "Lake/Lake"
    DataLake(stack, "Lake")


@pytest.mark.parametrize(
    "options",
    [
        {"bucket_name": "x-lake"},
        {"encryption": "s3"},
        {"versioned": True},
        {"logs_expire_after": cdk.Duration.days(3)},
        {"removal_policy": cdk.RemovalPolicy.DESTROY},
    ],
    ids=lambda options: next(iter(options)),
)
def test_options_of_a_new_bucket_do_not_go_with_an_existing_one(stack: cdk.Stack, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(options))):
        DataLake(stack, "Lake", bucket=their_bucket(stack), **options)


def test_retain_goes_with_an_existing_bucket(stack: cdk.Stack) -> None:
    DataLake(stack, "Lake", bucket=their_bucket(stack), removal_policy=cdk.RemovalPolicy.RETAIN)
    assert Template.from_stack(stack).find_resources(BUCKET, Match.any_value()) == {}


@pytest.mark.parametrize("references", ["strong", "weak"])
def test_report_39_grants_to_another_stack_leave_the_lake_without_references(
    cdk_context: dict[str, Any], tmp_path: Path, references: str
) -> None:
    app = cdk.App(
        context={**cdk_context, "@aws-cdk/core:defaultCrossStackReferences": references},
        outdir=str(tmp_path / "cdk.out"),
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
    )
    lake_stack, compute = cdk.Stack(app, "Lake"), cdk.Stack(app, "Compute")
    DataLake(lake_stack, "Lake").grant_read_write(role(compute), prefix="checkpoints/")
    text = json.dumps(Template.from_stack(lake_stack).to_json())
    assert "Fn::ImportValue" not in text
    assert "Fn::GetStackOutput" not in text
    assert len(statements(compute)) == 3
    assert compute.dependencies == [lake_stack]
    assert lake_stack.dependencies == []


def test_a_lake_of_a_nested_stack_carries_the_id_of_that_stack(stack: cdk.Stack) -> None:
    nested = cdk.NestedStack(stack, "Nested")
    DataLake(nested, "Lake")
    ((head, _),) = generated(nested)
    assert head.startswith("storage-")


@pytest.mark.parametrize(
    "alias",
    [
        lambda stack: kms.Alias.from_alias_name(stack, "Alias", "alias/lake"),
        lambda stack: kms.Alias(stack, "Alias", alias_name="alias/lake", target_key=kms.Key(stack, "Mine")),
        lambda stack: kms.Key.from_key_arn(stack, "Alias", "arn:aws:kms:us-east-1:111111111111:alias/lake"),
    ],
    ids=["name", "own", "arn"],
)
@pytest.mark.parametrize("existing", [False, True])
def test_an_alias_is_no_key_to_give_rights_on(stack: cdk.Stack, alias: Any, existing: bool) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Theirs", "their-lake") if existing else None
    with pytest.raises(ValidationError, match="an alias") as caught:
        DataLake(stack, "Lake", bucket=bucket, encryption_key=alias(stack))
    assert {problem.path for problem in caught.value.problems} == {"encryption_key"}
