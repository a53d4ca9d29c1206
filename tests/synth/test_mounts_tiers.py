"""Mounts of directory buckets and S3 Files with the real tiers: rights, networks, and what is not there without."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match, Template

from tests.synth._fakes import FakeDirectoryBucket, FakeS3Files
from training_storage.compute import (
    BucketAccess,
    GpuFleet,
    LustreMount,
    MountpointMount,
    NodeStorage,
    S3FilesMount,
    TrainingNetwork,
)
from training_storage.compute.mount_model import Mount
from training_storage.errors import ValidationError
from training_storage.tiers import DataLake, DirectoryBucket, LustreFileSystem, S3FileSystem

ZONE = "use1-az6"


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Stack", env=cdk.Environment(account="111111111111", region="us-east-1"))


def network(stack: cdk.Stack) -> Any:
    return TrainingNetwork.from_attributes(
        stack, "Network", vpc_id="vpc-0abc", subnet_id="subnet-0abc", availability_zone_id=ZONE,
        has_gateway_endpoints=True,
    )  # fmt: skip


def role(stack: cdk.Stack) -> iam.Role:
    return iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))


def granted(stack: cdk.Stack, storage: NodeStorage) -> list[dict[str, Any]]:
    """Return the statements that a role gets, less the one for the scripts."""
    storage.grant(role(stack))
    (policy,) = [
        found
        for name, found in Template.from_stack(stack).find_resources("AWS::IAM::Policy").items()
        if name.startswith("Role")
    ]
    statements: list[dict[str, Any]] = policy["Properties"]["PolicyDocument"]["Statement"]
    return [each for each in statements if "cdk-hnb659fds-assets" not in json.dumps(each["Resource"])]


def actions(statement: dict[str, Any]) -> set[str]:
    found = statement["Action"]
    return {found} if isinstance(found, str) else set(found)


def every_action(statements: list[dict[str, Any]]) -> set[str]:
    return set().union(*(actions(each) for each in statements))


# Directory buckets


def made(stack: cdk.Stack, **options: Any) -> DirectoryBucket:
    return DirectoryBucket(stack, "Hot", availability_zone_id=ZONE, **options)


BUCKETS: dict[str, Callable[[cdk.Stack], Any]] = {
    "made": made,
    "imported": lambda stack: DirectoryBucket.from_bucket_name(stack, "Hot", "hot--use1-az6--x-s3"),
    "a bucket of the CDK": lambda stack: s3.Bucket.from_bucket_name(stack, "Hot", "hot--use1-az6--x-s3"),
}
USES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "read-only mount": lambda bucket: {"mounts": [MountpointMount(bucket=bucket, path="/hot")]},
    "writable mount": lambda bucket: {
        "mounts": [MountpointMount(bucket=bucket, path="/hot", read_only=False, allow_delete=True)]
    },
    "mount of a prefix": lambda bucket: {"mounts": [MountpointMount(bucket=bucket, path="/hot", prefix="v3/")]},
    "reading": lambda bucket: {"mounts": [], "buckets": [BucketAccess(bucket=bucket)]},
    "writing": lambda bucket: {"mounts": [], "buckets": [BucketAccess(bucket=bucket, write=True)]},
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("bucket", BUCKETS.values(), ids=BUCKETS)
def test_report_17_nodes_open_sessions_without_a_condition_and_have_no_rights_of_s3(
    stack: cdk.Stack, bucket: Callable[[cdk.Stack], Any], use: Callable[[Any], dict[str, Any]]
) -> None:
    (statement,) = granted(stack, NodeStorage(stack, "Storage", **use(bucket(stack))))
    assert statement["Action"] == "s3express:CreateSession"
    assert "Condition" not in statement
    arn = json.dumps(statement["Resource"])
    assert ":s3express:us-east-1:111111111111:bucket/" in arn
    assert "*" not in arn


@pytest.mark.parametrize("read_only", [True, False])
def test_report_12_the_key_of_a_directory_bucket_is_used_both_ways(stack: cdk.Stack, read_only: bool) -> None:
    key = kms.Key(stack, "Key")
    mount = MountpointMount(bucket=made(stack, encryption_key=key), path="/hot", read_only=read_only)
    statements = granted(stack, NodeStorage(stack, "Storage", mounts=[mount]))
    on_key = [each for each in statements if "kms:Decrypt" in actions(each)]
    assert [actions(each) for each in on_key] == [{"kms:Decrypt", "kms:GenerateDataKey"}]
    assert "Key" in json.dumps(on_key[0]["Resource"])


def test_report_12_an_imported_name_with_its_key_gets_the_same_rights(stack: cdk.Stack) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111111111111:key/0abc")
    bucket = s3.Bucket.from_bucket_name(stack, "Hot", "hot--use1-az6--x-s3")
    storage = NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=bucket, path="/hot", key=key)])
    assert every_action(granted(stack, storage)) == {
        "s3express:CreateSession", "kms:Decrypt", "kms:GenerateDataKey",
    }  # fmt: skip


def test_a_read_only_mount_asks_the_bucket_for_reading_and_a_writable_one_for_writing(stack: cdk.Stack) -> None:
    reading, writing = FakeDirectoryBucket("a--use1-az6--x-s3"), FakeDirectoryBucket("b--use1-az6--x-s3")
    mounts = [
        MountpointMount(bucket=reading, path="/a"),
        MountpointMount(bucket=writing, path="/b", read_only=False),
    ]
    NodeStorage(stack, "Storage", mounts=mounts).grant(role(stack))
    assert (reading.grants, writing.grants) == (["read"], ["read-write"])


def test_the_region_of_a_directory_bucket_is_that_of_its_stack(app: cdk.App, stack: cdk.Stack) -> None:
    there = cdk.Stack(app, "There", env=cdk.Environment(account="111111111111", region="us-west-2"))
    hot = DirectoryBucket.from_bucket_name(there, "Hot", "hot--usw2-az1--x-s3")
    storage = NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=hot, path="/hot")])
    assert "BUCKET_REGION=us-west-2" in storage.commands()
    warnings = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("mounts.otherRegion"))
    assert len(warnings) == 1


def test_a_bucket_of_other_code_has_the_region_of_the_mounts(stack: cdk.Stack) -> None:
    storage = NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=FakeDirectoryBucket(), path="/hot")])
    assert "BUCKET_REGION=us-east-1" in storage.commands()


# Shared cache


@pytest.mark.parametrize("cache", ["express", "nvme+express"])
def test_a_shared_cache_is_read_and_written_by_the_nodes(stack: cdk.Stack, cache: Any) -> None:
    shared = FakeDirectoryBucket("cache--use1-az6--x-s3")
    mount = MountpointMount(bucket=DataLake(stack, "Lake"), cache=cache, cache_bucket=shared)
    storage = NodeStorage(stack, "Storage", mounts=[mount])
    storage.grant(role(stack))
    assert shared.grants == ["read-write"]
    text = storage.commands()
    assert "CACHE_BUCKET=cache--use1-az6--x-s3" in text
    assert ("CACHE=yes" in text) == (cache == "nvme+express")


def test_a_key_for_new_objects_is_granted(stack: cdk.Stack) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111111111111:key/0abc")
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "general")
    mount = MountpointMount(bucket=bucket, read_only=False, sse="aws:kms", sse_kms_key=key)
    storage = NodeStorage(stack, "Storage", mounts=[mount])
    assert f"SSE_KMS_KEY={key.key_arn}" in storage.commands()
    assert {"kms:Decrypt", "kms:GenerateDataKey"} <= every_action(granted(stack, storage))


# S3 Files


def s3_files(stack: cdk.Stack, place: Any) -> S3FileSystem:
    return S3FileSystem(stack, "Files", bucket=DataLake(stack, "Lake"), vpc=place.vpc, subnet=place.subnet)


def fleet(stack: cdk.Stack, place: Any, storage: NodeStorage) -> GpuFleet:
    return GpuFleet(
        stack, "Fleet", vpc=place.vpc, subnet=place.subnet, instance_type="g6e.48xlarge", instance_count=2,
        storage=storage,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, {"s3files:ClientMount"}),
        ({"read_only": False}, {"s3files:ClientMount", "s3files:ClientWrite"}),
        (
            {"read_only": False, "root_access": True},
            {"s3files:ClientMount", "s3files:ClientWrite", "s3files:ClientRootAccess"},
        ),
    ],
    ids=["read-only", "writable", "root"],
)
def test_report_34_nodes_have_the_client_rights_on_that_file_system_alone(
    stack: cdk.Stack, options: dict[str, Any], wanted: set[str]
) -> None:
    files = s3_files(stack, network(stack))
    storage = NodeStorage(stack, "Storage", mounts=[S3FilesMount(file_system=files, **options)])
    found = [each for each in granted(stack, storage) if any(it.startswith("s3files:") for it in actions(each))]
    assert every_action(found) == wanted
    assert all("Files" in json.dumps(each["Resource"]) and "*" not in json.dumps(each["Resource"]) for each in found)


@pytest.mark.parametrize("direct_read", [True, False])
def test_reading_past_the_file_system_needs_the_rights_of_the_bucket(stack: cdk.Stack, direct_read: bool) -> None:
    files = s3_files(stack, network(stack))
    storage = NodeStorage(stack, "Storage", mounts=[S3FilesMount(file_system=files, direct_read=direct_read)])
    assert ("s3:GetObject" in every_action(granted(stack, storage))) is direct_read
    assert ("NO_DIRECT_READ=yes" in storage.commands()) is not direct_read


def test_the_client_is_let_in_on_2049_and_nodes_wait_for_the_rules(stack: cdk.Stack) -> None:
    place = network(stack)
    fleet(stack, place, NodeStorage(stack, "Storage", mounts=[S3FilesMount(file_system=s3_files(stack, place))]))
    resources = Template.from_stack(stack).to_json()["Resources"]
    rules = {
        name
        for name, each in resources.items()
        if each["Type"].startswith("AWS::EC2::SecurityGroup") and each["Properties"].get("FromPort") == 2049
    }
    assert {resources[name]["Type"] for name in rules} == {
        "AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress",
    }  # fmt: skip
    (group,) = [each for each in resources.values() if each["Type"] == "AWS::AutoScaling::AutoScalingGroup"]
    assert rules <= set(group["DependsOn"])


def test_one_file_system_on_two_paths_lets_the_client_in_once(stack: cdk.Stack) -> None:
    files = FakeS3Files(stack)
    mounts = [
        S3FilesMount(file_system=files),
        S3FilesMount(file_system=files, path="/results", read_only=False, direct_read=False),
    ]
    client = ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc")
    NodeStorage(stack, "Storage", mounts=mounts).attach(client=client, grantee=role(stack))
    assert files.clients == [client]
    assert files.grants == [("read", True), ("read-write", False)]


def test_report_34_off_there_is_no_right_no_port_and_no_setting_of_s3_files(stack: cdk.Stack) -> None:
    place = network(stack)
    hot = LustreFileSystem(stack, "Hot", vpc=place.vpc, subnet=place.subnet, storage_capacity_gib=1200)
    mounts: list[Mount] = [
        LustreMount(file_system=hot),
        MountpointMount(bucket=DataLake(stack, "Lake")),
        MountpointMount(bucket=DirectoryBucket(stack, "Express", availability_zone_id=ZONE), path="/hot"),
    ]
    fleet(stack, place, NodeStorage(stack, "Storage", mounts=mounts))
    text = json.dumps(Template.from_stack(stack).to_json())
    assert "s3files" not in text.lower()
    assert "s3-files" not in text
    assert "2049" not in text


def test_the_settings_of_a_file_system_say_what_was_asked_for(stack: cdk.Stack) -> None:
    files = FakeS3Files(stack)
    plain = NodeStorage(stack, "Plain", mounts=[S3FilesMount(file_system=files)]).commands()
    asked = NodeStorage(
        stack,
        "Asked",
        mounts=[
            S3FilesMount(
                file_system=files, read_only=False, root_access=True, direct_read=False, ship_logs=True,
                region="us-west-2",
            )
        ],
    ).commands()  # fmt: skip
    options = {"ROOT_ACCESS=yes", "NO_DIRECT_READ=yes", "SHIP_LOGS=yes"}
    assert {"KIND=s3-files", "READ_ONLY=yes", "FILE_SYSTEM_REGION=us-east-1"} <= set(plain)
    assert not options & set(plain)
    assert options | {"FILE_SYSTEM_REGION=us-west-2"} <= set(asked)
    assert "READ_ONLY=yes" not in asked


SLIPS: list[tuple[str, dict[str, Any]]] = [
    ("file_system", {"file_system": "fs-0123456789abcdef0"}),
    ("path", {"path": "/usr"}),
    ("read_only", {"read_only": "no"}),
    ("root_access", {"root_access": 1}),
    ("direct_read", {"direct_read": None}),
    ("ship_logs", {"ship_logs": "yes"}),
    ("region", {"region": "Ireland"}),
]


@pytest.mark.parametrize(("field", "values"), SLIPS, ids=[field for field, _ in SLIPS])
def test_a_slip_in_a_mount_of_s3_files_is_named(stack: cdk.Stack, field: str, values: dict[str, Any]) -> None:
    mount = S3FilesMount(**{"file_system": FakeS3Files(stack), **values})
    with pytest.raises(ValidationError) as caught:
        NodeStorage(stack, "Storage", mounts=[mount])
    assert {problem.path for problem in caught.value.problems} == {f"mounts[0].{field}"}


def test_mounts_that_disagree_on_the_configuration_of_their_client_are_refused(stack: cdk.Stack) -> None:
    files = FakeS3Files(stack)
    mounts = [S3FilesMount(file_system=files), S3FilesMount(file_system=files, path="/other", ship_logs=True)]
    with pytest.raises(ValidationError, match="ship_logs"):
        NodeStorage(stack, "Storage", mounts=mounts)


def test_checkpoints_below_a_read_only_mount_of_s3_files_are_refused(stack: cdk.Stack) -> None:
    mount = S3FilesMount(file_system=FakeS3Files(stack))
    with pytest.raises(ValidationError, match="read-only mount /lake"):
        NodeStorage(stack, "Storage", mounts=[mount], checkpoint_path="/lake/checkpoints")


def test_a_file_system_in_another_stack_makes_no_circle(app: cdk.App) -> None:
    hot, compute = cdk.Stack(app, "Hot"), cdk.Stack(app, "Compute")
    place = TrainingNetwork(hot, "Network", availability_zone_id=ZONE)
    storage = NodeStorage(compute, "Storage", mounts=[S3FilesMount(file_system=s3_files(hot, place))])
    fleet(compute, place, storage)
    app.synth()
    assert [each.stack_name for each in compute.dependencies] == ["Hot"]
    assert hot.dependencies == []


# Prefixes that hold what IAM reads as a pattern

ODD, PATTERN = "v?/a*${aws:userid}/", "v${?}/a${*}${$}{aws:userid}/*"


def files_below(stack: cdk.Stack, bucket: Any) -> S3FileSystem:
    place = network(stack)
    return S3FileSystem(stack, "Files", bucket=bucket, prefix=ODD, vpc=place.vpc, subnet=place.subnet)


BELOW: dict[str, Callable[[cdk.Stack], dict[str, Any]]] = {
    "mount of a bucket": lambda stack: {
        "mounts": [MountpointMount(bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "general"), prefix=ODD)]
    },
    "mount of a lake": lambda stack: {"mounts": [MountpointMount(bucket=DataLake(stack, "Lake"), prefix=ODD)]},
    "access to a lake": lambda stack: {
        "mounts": [],
        "buckets": [BucketAccess(bucket=DataLake(stack, "Lake"), prefix=ODD, write=True)],
    },
    "S3 Files": lambda stack: {"mounts": [S3FilesMount(file_system=files_below(stack, DataLake(stack, "Lake")))]},
}


@pytest.mark.parametrize("use", BELOW.values(), ids=BELOW)
def test_what_iam_reads_as_a_pattern_or_a_variable_stands_for_itself_in_a_prefix(
    stack: cdk.Stack, use: Callable[[cdk.Stack], dict[str, Any]]
) -> None:
    storage = NodeStorage(stack, "Storage", **use(stack))
    (listing,) = [each for each in granted(stack, storage) if actions(each) == {"s3:ListBucket"}]
    assert listing["Condition"] == {"StringLike": {"s3:prefix": [PATTERN]}}
    policies = json.dumps(Template.from_stack(stack).find_resources("AWS::IAM::Policy"))
    assert f"/{PATTERN}" in policies
    assert f"/{ODD}" not in policies


def test_a_prefix_that_is_known_later_stays_what_it_is(stack: cdk.Stack) -> None:
    prefix = cdk.CfnParameter(stack, "Prefix").value_as_string
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "general")
    statements = granted(stack, NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=bucket, prefix=prefix)]))
    (listing,) = [each for each in statements if actions(each) == {"s3:ListBucket"}]
    assert listing["Condition"]["StringLike"]["s3:prefix"] == [{"Fn::Join": ["", [{"Ref": "Prefix"}, "*"]]}]
