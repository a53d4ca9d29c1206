"""Directory buckets in the emulator: what S3 shows of them, what it refuses, and how stacks make and keep them.

Refusals are those of the S3 user guide ("Differences for directory buckets") and of the service model.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from tests.emulated.emulator_templates import directory_bucket, lifecycle_policy, without
from training_storage.emulator import Emulator, EmulatorError, StackFailedError

NAME = "hot--use1-az6--x-s3"
WITHOUT_SESSIONS: Any = {"disable_s3_express_session_auth": True}
ARN = f"arn:aws:s3express:us-east-1:123456789012:bucket/{NAME}"


def configuration(zone: str = "use1-az6", redundancy: str = "SingleAvailabilityZone") -> dict[str, Any]:
    return {
        "Location": {"Name": zone, "Type": "AvailabilityZone"},
        "Bucket": {"Type": "Directory", "DataRedundancy": redundancy},
    }


@pytest.fixture
def s3(aws_emulator: Emulator) -> Any:
    client = aws_emulator.client("s3")
    client.create_bucket(Bucket=NAME, CreateBucketConfiguration=configuration())
    return client


def code(work: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as error:
        work()
    return str(error.value.response["Error"]["Code"])


def hot(**properties: Any) -> dict[str, Any]:
    return {"Resources": {"Hot": directory_bucket(**properties)}}


# --- buckets


def test_it_is_listed_by_itself(s3: Any) -> None:
    s3.create_bucket(Bucket="lake-1")
    assert [bucket["Name"] for bucket in s3.list_directory_buckets()["Buckets"]] == [NAME]
    assert [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]] == ["lake-1"]


def test_it_is_listed_in_its_region_only(aws_emulator: Emulator, s3: Any) -> None:
    assert s3.list_directory_buckets()["Buckets"]
    assert aws_emulator.client("s3", region="us-west-2").list_directory_buckets()["Buckets"] == []


def test_the_list_has_pages(s3: Any) -> None:
    for number in range(4):
        s3.create_bucket(Bucket=f"b{number}--use1-az6--x-s3", CreateBucketConfiguration=configuration())
    pages = s3.get_paginator("list_directory_buckets").paginate(PaginationConfig={"PageSize": 2})
    assert [len(page["Buckets"]) for page in pages] == [2, 2, 1]


def test_head_says_where_it_is(s3: Any) -> None:
    shown = s3.head_bucket(Bucket=NAME)
    assert (shown["BucketLocationType"], shown["BucketLocationName"]) == ("AvailabilityZone", "use1-az6")
    assert (shown["BucketRegion"], shown["BucketArn"], shown["AccessPointAlias"]) == ("us-east-1", ARN, False)


# The code depends on whether boto3 has to open a session first, which fails then, or still has one.
GONE = ("404", "NoSuchBucket")


def test_one_that_is_not_there(aws_emulator: Emulator) -> None:
    s3 = aws_emulator.client("s3")
    assert code(lambda: s3.create_session(Bucket=NAME)) == "NoSuchBucket"
    assert code(lambda: s3.head_bucket(Bucket=NAME)) in GONE
    assert code(lambda: s3.list_objects_v2(Bucket=NAME)) == "NoSuchBucket"


def test_creating_it_twice(s3: Any) -> None:
    again = lambda: s3.create_bucket(Bucket=NAME, CreateBucketConfiguration=configuration())  # noqa: E731
    assert code(again) == "BucketAlreadyOwnedByYou"


def test_another_account_cannot_take_the_name(aws_emulator: Emulator, s3: Any) -> None:
    other = aws_emulator.client("s3", account="111122223333")
    assert s3.head_bucket(Bucket=NAME)
    assert code(lambda: other.create_bucket(Bucket=NAME, CreateBucketConfiguration=configuration())) == (
        "BucketAlreadyExists"
    )


@pytest.mark.parametrize(
    "name", ["xn--hot--use1-az6--x-s3", "sthree-hot--use1-az6--x-s3", "-hot--use1-az6--x-s3", "Hot--use1-az6--x-s3"]
)
def test_names_that_are_not_valid(aws_emulator: Emulator, name: str) -> None:
    s3 = aws_emulator.client("s3")
    assert code(lambda: s3.create_bucket(Bucket=name, CreateBucketConfiguration=configuration())) == "InvalidBucketName"


def test_a_name_with_another_zone(aws_emulator: Emulator) -> None:
    s3 = aws_emulator.client("s3")
    made = lambda: s3.create_bucket(Bucket=NAME, CreateBucketConfiguration=configuration("use1-az4"))  # noqa: E731
    assert code(made) == "InvalidBucketName"


def test_an_ordinary_name_for_a_directory_bucket(aws_emulator: Emulator) -> None:
    s3 = aws_emulator.client("s3")
    assert code(lambda: s3.create_bucket(Bucket="hot", CreateBucketConfiguration=configuration())) == (
        "InvalidBucketName"
    )
    assert s3.list_buckets()["Buckets"] == []


def test_a_zone_of_another_region(aws_emulator: Emulator) -> None:
    s3 = aws_emulator.client("s3")
    name = "hot--usw2-az1--x-s3"
    with pytest.raises(ClientError, match="usw2-az1 is no zone of us-east-1"):
        s3.create_bucket(Bucket=name, CreateBucketConfiguration=configuration("usw2-az1"))


def test_redundancy_fits_the_location(aws_emulator: Emulator) -> None:
    s3 = aws_emulator.client("s3")
    given = configuration(redundancy="SingleLocalZone")
    assert code(lambda: s3.create_bucket(Bucket=NAME, CreateBucketConfiguration=given)) == "InvalidRequest"


def test_from_another_region_it_is_not_there(aws_emulator: Emulator, s3: Any) -> None:
    assert s3.head_bucket(Bucket=NAME)
    assert code(lambda: aws_emulator.client("s3", region="us-west-2").head_bucket(Bucket=NAME)) in GONE


def test_tags_are_given_at_creation_and_changed_by_the_control_api(aws_emulator: Emulator) -> None:
    given = {**configuration(), "Tags": [{"Key": "team", "Value": "vision"}]}
    aws_emulator.client("s3").create_bucket(Bucket=NAME, CreateBucketConfiguration=given)
    control, where = aws_emulator.client("s3control"), {"AccountId": "123456789012", "ResourceArn": ARN}
    assert control.list_tags_for_resource(**where)["Tags"] == [{"Key": "team", "Value": "vision"}]
    control.tag_resource(**where, Tags=[{"Key": "cost", "Value": "7"}])
    control.untag_resource(**where, TagKeys=["team"])
    assert control.list_tags_for_resource(**where)["Tags"] == [{"Key": "cost", "Value": "7"}]


# --- sessions


def test_a_session_lasts_five_minutes(s3: Any) -> None:
    credentials = s3.create_session(Bucket=NAME)["Credentials"]
    assert 280 < credentials["Expiration"].timestamp() - time.time() <= 300
    assert set(credentials) == {"AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration"}


def test_a_client_of_its_own_opens_sessions_by_itself(s3: Any) -> None:
    own, sent = boto3.client("s3"), []
    own.meta.events.register("before-send.s3", lambda request, **_: sent.append(request))
    own.put_object(Bucket=NAME, Key="a/b", Body=b"x")
    assert own.get_object(Bucket=NAME, Key="a/b")["Body"].read() == b"x"
    assert [("session" in request.url, "X-Amz-S3session-Token" in request.headers) for request in sent] == [
        (True, False),
        (False, True),
        (False, True),
    ]
    assert s3.list_objects_v2(Bucket=NAME)["KeyCount"] == 1


def test_a_client_without_sessions_is_served_too(s3: Any) -> None:
    own = boto3.client("s3", config=Config(s3=WITHOUT_SESSIONS))
    own.put_object(Bucket=NAME, Key="a", Body=b"x")
    assert s3.head_object(Bucket=NAME, Key="a")["ContentLength"] == 1


def with_session(s3: Any, token: str) -> Any:
    """A client that presents a token in place of its session's."""
    own = boto3.client("s3", config=Config(s3=WITHOUT_SESSIONS))

    def present(params: dict[str, Any], **_: Any) -> None:
        params["headers"]["x-amz-s3session-token"] = token

    own.meta.events.register("before-call", present)
    return own


def test_a_session_for_reading_does_not_write(s3: Any) -> None:
    s3.put_object(Bucket=NAME, Key="a", Body=b"x")
    token = s3.create_session(Bucket=NAME, SessionMode="ReadOnly")["Credentials"]["SessionToken"]
    own = with_session(s3, token)
    assert own.get_object(Bucket=NAME, Key="a")["Body"].read() == b"x"
    for work in (
        lambda: own.put_object(Bucket=NAME, Key="b", Body=b"x"),
        lambda: own.delete_object(Bucket=NAME, Key="a"),
        lambda: own.create_multipart_upload(Bucket=NAME, Key="c"),
    ):
        assert code(work) == "AccessDenied"


def test_a_session_is_for_one_bucket(s3: Any) -> None:
    other = "other--use1-az6--x-s3"
    s3.create_bucket(Bucket=other, CreateBucketConfiguration=configuration())
    own = with_session(s3, s3.create_session(Bucket=other)["Credentials"]["SessionToken"])
    assert code(lambda: own.list_objects_v2(Bucket=NAME)) == "AccessDenied"


def test_a_session_that_is_over(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from training_storage.emulator.services import directory_bucket_sessions as sessions

    monkeypatch.setattr(sessions, "_LIFE", -sessions._LIFE)
    token = s3.create_session(Bucket=NAME)["Credentials"]["SessionToken"]
    assert code(lambda: with_session(s3, token).list_objects_v2(Bucket=NAME)) == "ExpiredToken"


def test_a_session_belongs_to_the_account_that_opened_it(aws_emulator: Emulator) -> None:
    theirs = aws_emulator.client("s3", account="111122223333")
    theirs.create_bucket(Bucket=NAME, CreateBucketConfiguration=configuration())
    credentials = theirs.create_session(Bucket=NAME)["Credentials"]
    caller = boto3.client(
        "sts", aws_access_key_id=credentials["AccessKeyId"], aws_secret_access_key=credentials["SecretAccessKey"]
    )
    assert caller.get_caller_identity()["Account"] == "111122223333"


# --- settings


def test_objects_are_encrypted_by_default(s3: Any) -> None:
    rule = s3.get_bucket_encryption(Bucket=NAME)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert s3.put_object(Bucket=NAME, Key="a", Body=b"x")["ServerSideEncryption"] == "AES256"


def encrypt(s3: Any, key: str | None, algorithm: str = "aws:kms") -> None:
    default = {"SSEAlgorithm": algorithm, **({"KMSMasterKeyID": key} if key else {})}
    s3.put_bucket_encryption(
        Bucket=NAME,
        ServerSideEncryptionConfiguration={"Rules": [{"ApplyServerSideEncryptionByDefault": default}]},
    )


def test_a_key_of_ones_own_with_bucket_keys(s3: Any) -> None:
    encrypt(s3, "arn:aws:kms:us-east-1:123456789012:key/one")
    rule = s3.get_bucket_encryption(Bucket=NAME)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["BucketKeyEnabled"] is True
    assert s3.put_object(Bucket=NAME, Key="a", Body=b"x")["SSEKMSKeyId"] == "arn:aws:kms:us-east-1:123456789012:key/one"


@pytest.mark.parametrize("key", [None, "alias/hot", "arn:aws:kms:us-east-1:123456789012:alias/aws/s3"])
def test_keys_that_it_does_not_take(s3: Any, key: str | None) -> None:
    assert code(lambda: encrypt(s3, key)) == "InvalidArgument"


def test_one_key_for_life(s3: Any) -> None:
    encrypt(s3, "one")
    s3.delete_bucket_encryption(Bucket=NAME)
    encrypt(s3, "arn:aws:kms:us-east-1:123456789012:key/one")
    with pytest.raises(ClientError, match="one customer managed KMS key for the lifetime"):
        encrypt(s3, "two")


def test_no_double_encryption(s3: Any) -> None:
    assert code(lambda: encrypt(s3, "one", "aws:kms:dsse")) == "InvalidRequest"


def policy(action: str = "s3express:CreateSession", resource: str = ARN) -> str:
    statement = {"Effect": "Deny", "Principal": "*", "Action": action, "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def test_a_policy_comes_and_goes(s3: Any) -> None:
    assert code(lambda: s3.get_bucket_policy(Bucket=NAME)) == "NoSuchBucketPolicy"
    s3.put_bucket_policy(Bucket=NAME, Policy=policy())
    assert s3.get_bucket_policy(Bucket=NAME)["Policy"] == policy()
    s3.delete_bucket_policy(Bucket=NAME)
    assert code(lambda: s3.get_bucket_policy(Bucket=NAME)) == "NoSuchBucketPolicy"


@pytest.mark.parametrize(
    "wrong",
    [
        policy("s3:GetObject"),
        policy(resource=f"arn:aws:s3:::{NAME}/*"),
        policy(resource="arn:aws:s3express:us-east-1:123456789012:bucket/other--use1-az6--x-s3"),
        "no json",
    ],
)
def test_policies_that_are_not_about_it(s3: Any, wrong: str) -> None:
    assert code(lambda: s3.put_bucket_policy(Bucket=NAME, Policy=wrong)) == "MalformedPolicy"


def lifecycle(s3: Any, **rule: Any) -> None:
    given = {"Status": "Enabled", "Filter": {"Prefix": ""}, **rule}
    s3.put_bucket_lifecycle_configuration(Bucket=NAME, LifecycleConfiguration={"Rules": [given]})


def test_lifecycle_rules_are_shown_as_they_were_given(s3: Any) -> None:
    assert code(lambda: s3.get_bucket_lifecycle_configuration(Bucket=NAME)) == "NoSuchLifecycleConfiguration"
    both = {"And": {"Prefix": "cache/", "ObjectSizeLessThan": 1048576}}
    lifecycle(s3, ID="old", Filter=both, Expiration={"Days": 7})
    assert s3.get_bucket_lifecycle_configuration(Bucket=NAME)["Rules"] == [
        {"ID": "old", "Status": "Enabled", "Filter": both, "Expiration": {"Days": 7}}
    ]


@pytest.mark.parametrize(
    "rule",
    [
        {"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]},
        {"Expiration": {"Date": "2030-01-01"}},
        {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
        {"Expiration": {"Days": 1}, "Filter": {"Tag": {"Key": "a", "Value": "b"}}},
        {},
    ],
)
def test_rules_that_its_lifecycle_does_not_have(s3: Any, rule: dict[str, Any]) -> None:
    assert code(lambda: lifecycle(s3, **rule)) == "InvalidRequest"


def test_metrics_are_switched_on_and_off(s3: Any) -> None:
    given = {"Id": "all", "Filter": {"Prefix": "a/"}}
    s3.put_bucket_metrics_configuration(Bucket=NAME, Id="all", MetricsConfiguration=given)
    assert s3.get_bucket_metrics_configuration(Bucket=NAME, Id="all")["MetricsConfiguration"] == given
    assert len(s3.list_bucket_metrics_configurations(Bucket=NAME)["MetricsConfigurationList"]) == 1
    s3.delete_bucket_metrics_configuration(Bucket=NAME, Id="all")
    assert code(lambda: s3.get_bucket_metrics_configuration(Bucket=NAME, Id="all")) == "NoSuchConfiguration"


REFUSED: dict[str, dict[str, Any]] = {
    "put_bucket_versioning": {"VersioningConfiguration": {"Status": "Enabled"}},
    "put_bucket_notification_configuration": {"NotificationConfiguration": {"EventBridgeConfiguration": {}}},
    "put_bucket_website": {"WebsiteConfiguration": {"IndexDocument": {"Suffix": "index.html"}}},
    "put_public_access_block": {"PublicAccessBlockConfiguration": {"BlockPublicAcls": False}},
    "put_bucket_ownership_controls": {"OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}},
    "put_bucket_cors": {"CORSConfiguration": {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]}},
    "put_bucket_tagging": {"Tagging": {"TagSet": [{"Key": "a", "Value": "b"}]}},
    "put_bucket_accelerate_configuration": {"AccelerateConfiguration": {"Status": "Enabled"}},
    "put_bucket_request_payment": {"RequestPaymentConfiguration": {"Payer": "Requester"}},
}


@pytest.mark.parametrize("operation", sorted(REFUSED))
def test_settings_that_it_does_not_have(s3: Any, operation: str) -> None:
    with pytest.raises(ClientError, match="is not valid, expected CreateBucketConfiguration") as error:
        getattr(s3, operation)(Bucket=NAME, **REFUSED[operation])
    assert error.value.response["Error"]["Code"] == "InvalidArgument"


@pytest.mark.parametrize(
    "operation",
    [
        "get_bucket_versioning",
        "get_bucket_notification_configuration",
        "get_bucket_location",
        "get_bucket_acl",
        "get_bucket_tagging",
        "get_bucket_website",
        "get_bucket_policy_status",
        "get_public_access_block",
        "get_object_lock_configuration",
        "list_object_versions",
        "list_objects",
        "delete_bucket_website",
        "delete_bucket_cors",
    ],
)
def test_questions_that_it_does_not_answer(s3: Any, operation: str) -> None:
    assert code(lambda: getattr(s3, operation)(Bucket=NAME)) == "MethodNotAllowed"


# --- lifecycle


def expiring(**rule: Any) -> dict[str, Any]:
    template = hot(
        BucketName=NAME, LifecycleConfiguration={"Rules": [{"Status": "Enabled", "ExpirationInDays": 7, **rule}]}
    )
    template["Resources"]["Policy"] = lifecycle_policy()
    return template


def keys(aws: Emulator) -> list[str]:
    return [item["Key"] for item in aws.client("s3").list_objects_v2(Bucket=NAME).get("Contents", ())]


def fill(aws: Emulator) -> None:
    for key in ("cache/a", "cache/b", "kept"):
        aws.client("s3").put_object(Bucket=NAME, Key=key, Body=b"x" * 10)


def test_objects_expire(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(expiring(Prefix="cache/"), "hot")
    fill(aws_emulator)
    assert aws_emulator.expire_objects(NAME, 6) == []
    assert sorted(aws_emulator.expire_objects(NAME, 7)) == ["cache/a", "cache/b"]
    assert keys(aws_emulator) == ["kept"]


def test_without_the_policy_nothing_expires(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(without(expiring(), "Policy"), "hot")
    fill(aws_emulator)
    assert not aws_emulator.lifecycle_works(NAME)
    assert aws_emulator.expire_objects(NAME, 100) == []
    assert len(keys(aws_emulator)) == 3


@pytest.mark.parametrize(
    ("condition", "works"),
    [
        ({"StringEquals": {"s3express:SessionMode": "ReadWrite", "aws:SourceAccount": "123456789012"}}, True),
        ({"StringEquals": {"s3express:SessionMode": "ReadOnly"}}, False),
        ({"StringEquals": {"aws:SourceAccount": "111122223333"}}, False),
        ({"StringEquals": {"aws:SourceVpce": "vpce-1"}}, False),
    ],
)
def test_the_policy_is_read_with_its_conditions(aws_emulator: Emulator, condition: dict[str, Any], works: bool) -> None:
    template = expiring()
    template["Resources"]["Policy"] = lifecycle_policy(**condition)
    aws_emulator.deploy(template, "hot")
    assert aws_emulator.lifecycle_works(NAME) is works


def test_a_deny_shuts_lifecycle_out(aws_emulator: Emulator) -> None:
    template = expiring()
    statements = template["Resources"]["Policy"]["Properties"]["PolicyDocument"]["Statement"]
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3express:*", "Resource": {"Fn::GetAtt": ["Hot", "Arn"]}}
    statements.append({**deny, "Condition": {"Bool": {"aws:SecureTransport": "false"}}})
    aws_emulator.deploy(template, "hot")
    assert aws_emulator.lifecycle_works(NAME)
    statements[1]["Condition"] = {"StringNotEquals": {"aws:SourceVpce": "vpce-1"}}
    aws_emulator.update("hot", template)
    assert not aws_emulator.lifecycle_works(NAME)


def test_uploads_are_aborted_and_sizes_looked_at(aws_emulator: Emulator) -> None:
    template = expiring(ObjectSizeGreaterThan="10", AbortIncompleteMultipartUpload={"DaysAfterInitiation": 1})
    aws_emulator.deploy(template, "hot")
    fill(aws_emulator)
    aws_emulator.client("s3").create_multipart_upload(Bucket=NAME, Key="half")
    assert aws_emulator.expire_objects(NAME, 30) == ["half"]
    assert "Uploads" not in aws_emulator.client("s3").list_multipart_uploads(Bucket=NAME)


def test_objects_of_another_account_expire_too(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(expiring(), "hot", account="111122223333")
    aws_emulator.client("s3", account="111122223333").put_object(Bucket=NAME, Key="a", Body=b"x")
    assert aws_emulator.lifecycle_works(NAME)
    assert aws_emulator.expire_objects(NAME, 7) == ["a"]


def test_a_rule_that_is_off_does_nothing(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(expiring(Status="Disabled"), "hot")
    fill(aws_emulator)
    assert aws_emulator.expire_objects(NAME, 100) == []


def test_only_directory_buckets_are_asked(aws_emulator: Emulator) -> None:
    aws_emulator.client("s3").create_bucket(Bucket="lake-1")
    with pytest.raises(EmulatorError, match="no directory bucket lake-1"):
        aws_emulator.expire_objects("lake-1", 1)


# --- stacks


def test_a_stack_makes_one_with_everything(aws_emulator: Emulator) -> None:
    key = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
    template = hot(
        BucketName=NAME,
        BucketEncryption={
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": key}}
            ]
        },
        LifecycleConfiguration={"Rules": [{"Id": "old", "Status": "Enabled", "ExpirationInDays": 7, "Prefix": "a/"}]},
        MetricsConfigurations=[{"Id": "all"}],
        Tags=[{"Key": "team", "Value": "vision"}],
    )
    template["Outputs"] = {name: {"Value": {"Fn::GetAtt": ["Hot", name]}} for name in ("Arn", "AvailabilityZoneName")}
    outputs = aws_emulator.deploy(template, "hot").outputs
    assert outputs["Arn"] == ARN
    zones = aws_emulator.client("ec2").describe_availability_zones(ZoneIds=["use1-az6"])["AvailabilityZones"]
    assert outputs["AvailabilityZoneName"] == zones[0]["ZoneName"]
    s3 = aws_emulator.client("s3")
    default = s3.get_bucket_encryption(Bucket=NAME)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert default["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"] == key
    assert s3.get_bucket_lifecycle_configuration(Bucket=NAME)["Rules"][0]["Expiration"] == {"Days": 7}
    assert s3.list_bucket_metrics_configurations(Bucket=NAME)["MetricsConfigurationList"] == [{"Id": "all"}]
    tags = aws_emulator.client("s3control").list_tags_for_resource(AccountId="123456789012", ResourceArn=ARN)["Tags"]
    assert tags == [{"Key": "team", "Value": "vision"}]


def test_settings_change_in_place(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(expiring(), "hot").physical_ids
    s3 = aws_emulator.client("s3")
    template = expiring()
    template["Resources"]["Hot"]["Properties"]["LifecycleConfiguration"]["Rules"][0]["ExpirationInDays"] = 3
    assert aws_emulator.update("hot", template).physical_ids == ids
    assert s3.get_bucket_lifecycle_configuration(Bucket=NAME)["Rules"][0]["Expiration"] == {"Days": 3}
    del template["Resources"]["Hot"]["Properties"]["LifecycleConfiguration"]
    template["Resources"]["Hot"]["Properties"]["Tags"] = [{"Key": "a", "Value": "b"}]
    aws_emulator.update("hot", template)
    assert code(lambda: s3.get_bucket_lifecycle_configuration(Bucket=NAME)) == "NoSuchLifecycleConfiguration"
    tags = aws_emulator.client("s3control").list_tags_for_resource(AccountId="123456789012", ResourceArn=ARN)["Tags"]
    assert tags == [{"Key": "a", "Value": "b"}]


def test_another_zone_is_another_bucket(aws_emulator: Emulator) -> None:
    first = aws_emulator.deploy(hot(), "hot").physical_ids["Hot"]
    second = aws_emulator.update("hot", hot(LocationName="use1-az4")).physical_ids["Hot"]
    assert (first[-len("--use1-az6--x-s3") :], second[-len("--use1-az4--x-s3") :]) == (
        "--use1-az6--x-s3",
        "--use1-az4--x-s3",
    )
    assert [item["Name"] for item in aws_emulator.client("s3").list_directory_buckets()["Buckets"]] == [second]


def test_a_refused_setting_leaves_no_bucket(aws_emulator: Emulator) -> None:
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "alias/hot"}
    wrong = {"ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": default}]}
    with pytest.raises(StackFailedError, match="aliases and the AWS managed key"):
        aws_emulator.deploy(hot(BucketEncryption=wrong), "hot")
    assert aws_emulator.client("s3").list_directory_buckets()["Buckets"] == []


@pytest.mark.parametrize("left", ["object", "upload"])
def test_one_that_is_not_empty_is_kept(aws_emulator: Emulator, left: str) -> None:
    aws_emulator.deploy(hot(BucketName=NAME), "hot")
    s3 = aws_emulator.client("s3")
    if left == "object":
        s3.put_object(Bucket=NAME, Key="a", Body=b"x")
    else:
        upload = s3.create_multipart_upload(Bucket=NAME, Key="a")["UploadId"]
    with pytest.raises(StackFailedError, match="The bucket you tried to delete is not empty") as error:
        aws_emulator.destroy("hot")
    assert error.value.status == "DELETE_FAILED"
    assert code(lambda: s3.delete_bucket(Bucket=NAME)) == "BucketNotEmpty"
    assert s3.head_bucket(Bucket=NAME)["BucketArn"] == ARN
    if left == "object":
        s3.delete_object(Bucket=NAME, Key="a")
    else:
        s3.abort_multipart_upload(Bucket=NAME, Key="a", UploadId=upload)
    assert aws_emulator.destroy("hot").status == "DELETE_COMPLETE"


def test_a_policy_that_the_bucket_has_already(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(hot(BucketName=NAME), "hot")
    aws_emulator.client("s3").put_bucket_policy(Bucket=NAME, Policy=policy())
    template = hot(BucketName=NAME)
    template["Resources"]["Policy"] = lifecycle_policy()
    with pytest.raises(StackFailedError, match="already exists"):
        aws_emulator.update("hot", template)


def test_a_policy_goes_with_its_stack(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(expiring(), "hot")
    aws_emulator.update("hot", without(expiring(), "Policy"))
    assert code(lambda: aws_emulator.client("s3").get_bucket_policy(Bucket=NAME)) == "NoSuchBucketPolicy"


def test_properties_are_checked_against_the_registry(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="DataRedundancy"):
        aws_emulator.deploy(hot(DataRedundancy="MultiAZ"), "hot")


EMPTYING = """
import boto3, json, urllib.request

def handler(event, context):
    s3, bucket = boto3.client("s3"), event["ResourceProperties"]["Bucket"]
    if event["RequestType"] == "Delete":
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            keys = [{"Key": item["Key"]} for item in page.get("Contents", ())]
            if keys:
                s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})
        for upload in s3.list_multipart_uploads(Bucket=bucket).get("Uploads", ()):
            s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
    answer = {"Status": "SUCCESS", "PhysicalResourceId": bucket, "Data": {}}
    answer.update({key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")})
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT"))
"""


@pytest.mark.parametrize("account", ["123456789012", "111122223333"])
def test_a_function_empties_it(aws_emulator: Emulator, account: str) -> None:
    template = hot(BucketName=NAME)
    template["Resources"] |= {
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
        },
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"ZipFile": EMPTYING},
                "Handler": "index.handler",
                "Runtime": "python3.13",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                "Timeout": 60,
            },
        },
        "Emptied": {
            "Type": "Custom::Emptied",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "Bucket": {"Ref": "Hot"}},
        },
    }
    aws_emulator.deploy(template, "hot", account=account)
    s3 = aws_emulator.client("s3", account=account)
    for key in ("a/b", "c"):
        s3.put_object(Bucket=NAME, Key=key, Body=b"x")
    s3.create_multipart_upload(Bucket=NAME, Key="half")
    assert aws_emulator.destroy("hot", account=account).status == "DELETE_COMPLETE"
    assert s3.list_directory_buckets()["Buckets"] == []
