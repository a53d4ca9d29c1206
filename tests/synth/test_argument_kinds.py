"""Arguments of the wrong kind: every construct names them before the CDK sees them, and leaves the tree as it was."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tests.synth.storage import file_system, subnet, vpc
from training_storage import load_workload, plan
from training_storage.compute import (
    BucketAccess,
    GpuFleet,
    ImportedNetwork,
    LustreMount,
    MountpointMount,
    NodeStorage,
    TrainingNetwork,
)
from training_storage.errors import ValidationError
from training_storage.monitoring import AlarmTopic, StorageAlarms, StorageDashboard
from training_storage.tiers import (
    DataLake,
    DataRepositoryAssociation,
    DirectoryBucket,
    ImportedDirectoryBucket,
    ImportedLustreFileSystem,
    ImportedS3FileSystem,
    LustreFileSystem,
    S3FileSystem,
)
from training_storage.training_storage import TrainingStorage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def right(kind: type, stack: cdk.Stack) -> dict[str, Any]:
    """The arguments that a construct cannot do without."""
    zone = {"availability_zone_id": "use1-az6"}
    if kind is LustreFileSystem:
        return {"vpc": vpc(stack), "subnet": subnet(stack), "storage_capacity_gib": 1200}
    if kind is ImportedLustreFileSystem:
        group = ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc")
        return {"file_system_id": "fs-0123456789abcdef0", "mount_name": "abcdefgh", "security_group": group}
    if kind is S3FileSystem:
        return {"bucket": DataLake(stack, "Lake"), "vpc": vpc(stack), "subnet": subnet(stack)}
    if kind is ImportedS3FileSystem:
        group = ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc")
        return {"file_system_id": "fs-0123456789abcdef0", "security_group": group}
    if kind is GpuFleet:
        return {"vpc": vpc(stack), "subnet": subnet(stack), "instance_type": "p5.48xlarge", "instance_count": 2}
    if kind is DataRepositoryAssociation:
        lake = DataLake(stack, "Lake")
        return {"file_system": file_system(stack), "file_system_path": "/data", "bucket": lake}
    if kind is TrainingStorage:
        return {
            "plan": plan(load_workload(EXAMPLES / "lora-finetune.yaml")),
            "vpc": vpc(stack),
            "subnet": subnet(stack),
        }
    others: dict[object, dict[str, Any]] = {
        DataLake: {},
        DirectoryBucket: zone,
        ImportedDirectoryBucket: {"bucket_name": "hot--use1-az6--x-s3"},
        NodeStorage: {"mounts": []},
        TrainingNetwork: zone,
        ImportedNetwork: {**zone, "vpc_id": "vpc-0abc", "subnet_id": "subnet-0abc"},
        StorageDashboard: {"dashboard_name": "runs", "bucket_name": "lake"},
        StorageAlarms: {"name": "run", "workload": "run"},
        AlarmTopic: {},
    }
    return others[kind]


CONSTRUCTS: list[type] = [
    DataLake,
    DirectoryBucket,
    ImportedDirectoryBucket,
    LustreFileSystem,
    ImportedLustreFileSystem,
    DataRepositoryAssociation,
    S3FileSystem,
    ImportedS3FileSystem,
    GpuFleet,
    NodeStorage,
    TrainingNetwork,
    ImportedNetwork,
    StorageDashboard,
    StorageAlarms,
    AlarmTopic,
    TrainingStorage,
]


def arguments(kind: type) -> list[str]:
    return [
        name
        for name, parameter in inspect.signature(kind.__init__).parameters.items()  # type: ignore[misc]
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]


EVERY = [(kind, name) for kind in CONSTRUCTS for name in arguments(kind)]


@pytest.fixture(scope="module")
def one_app(cdk_context: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> cdk.App:
    """An app for all of these tests: none of them synthesizes it, and to make one takes longer than what they do."""
    return cdk.App(context=cdk_context, outdir=str(tmp_path_factory.mktemp("cdk.out")), analytics_reporting=False)


@pytest.fixture
def stack(one_app: cdk.App) -> cdk.Stack:
    name = f"Stack{len(one_app.node.children)}"
    return cdk.Stack(one_app, name, env=cdk.Environment(account="111111111111", region="us-east-1"))


Place = tuple[cdk.Stack, dict[str, Any]]


@pytest.fixture(scope="module")
def place(one_app: cdk.App) -> Callable[[type], Place]:
    """A stack for each kind of construct, with what that one cannot do without: what is refused leaves it as it was."""

    @cache
    def of(kind: type) -> Place:
        stack = cdk.Stack(one_app, kind.__name__, env=cdk.Environment(account="111111111111", region="us-east-1"))
        return stack, right(kind, stack)

    return of


def refuse(make: Callable[[], object], scope: Construct, path: str) -> str:
    before = [child.node.id for child in scope.node.children]
    with pytest.raises(ValidationError) as caught:
        make()
    assert path in [problem.path for problem in caught.value.problems]
    assert [child.node.id for child in scope.node.children] == before
    return str(caught.value)


@pytest.mark.parametrize("value", [object(), pytest.param(1 + 2j, marks=pytest.mark.long)], ids=["object", "complex"])
@pytest.mark.parametrize(("kind", "name"), EVERY, ids=lambda each: each if isinstance(each, str) else each.__name__)
def test_what_no_argument_takes_is_named(place: Callable[[type], Place], kind: type, name: str, value: object) -> None:
    stack, given = place(kind)
    refuse(lambda: kind(stack, "Made", **{**given, name: value}), stack, name)


def fitting(kind: type, name: str) -> str:
    """Return the form of a token that an argument of this annotation may well be given."""
    annotation = str(inspect.signature(kind.__init__).parameters[name].annotation)  # type: ignore[misc]
    forms = {"Sequence": "list", "list": "list", "int": "number", "float": "number", "str": "text"}
    return next((form for word, form in forms.items() if re.search(rf"\b{word}\b", annotation)), "resolvable")


# The others, of which most fit nothing that the argument takes, are long.
TOKENS = [
    pytest.param(kind, name, form, marks=() if form == fitting(kind, name) else pytest.mark.long)
    for kind, name in EVERY
    for form in ("text", "number", "list", "resolvable")
]


@pytest.mark.parametrize(
    ("kind", "name", "form"), TOKENS, ids=lambda each: each if isinstance(each, str) else each.__name__
)
def test_a_token_is_taken_or_named_in_every_argument(stack: cdk.Stack, kind: type, name: str, form: str) -> None:
    tokens: dict[str, Callable[[], object]] = {
        "text": lambda: cdk.Fn.import_value("network"),
        "number": lambda: cdk.CfnParameter(stack, "Number", type="Number").value_as_number,
        "list": lambda: cdk.CfnParameter(stack, "List", type="CommaDelimitedList").value_as_list,
        "resolvable": lambda: cdk.Fn.condition_if("Large", 1, 2),
    }
    given = {**right(kind, stack), name: tokens[form]()}
    before = [child.node.id for child in stack.node.children]
    try:
        kind(stack, "Made", **given)
    except ValidationError as refused:  # an argument that goes with another one may be what is named
        assert refused.problems  # noqa: PT017
        assert [child.node.id for child in stack.node.children] == before


@pytest.mark.parametrize("kind", [LustreFileSystem, S3FileSystem, GpuFleet])
def test_one_subnet_in_a_list_is_named(stack: cdk.Stack, kind: type) -> None:
    given = right(kind, stack)
    assert "a subnet of the CDK" in refuse(
        lambda: kind(stack, "Made", **{**given, "subnet": [given["subnet"]]}), stack, "subnet"
    )


@pytest.mark.parametrize(
    ("kind", "name"),
    [each for each in EVERY if inspect.signature(each[0].__init__).parameters[each[1]].default is not None],  # type: ignore[misc]
    ids=lambda each: each if isinstance(each, str) else each.__name__,
)
def test_none_where_something_is_needed_is_named(place: Callable[[type], Place], kind: type, name: str) -> None:
    stack, given = place(kind)
    refuse(lambda: kind(stack, "Made", **{**given, name: None}), stack, name)


WRONG: list[tuple[type, str, object, str]] = [
    (GpuFleet, "instance_type", ec2.InstanceType("p5.48xlarge"), "such as p5en.48xlarge"),
    (GpuFleet, "instance_count", "2", "a whole number"),
    (GpuFleet, "instance_count", 2.5, "a whole number"),
    (GpuFleet, "instance_count", True, "a whole number"),
    (GpuFleet, "user_commands", "echo ready", "a list of shell lines"),
    (GpuFleet, "image", ec2.MachineImage.latest_amazon_linux2023(), "ssm:/parameter/name"),
    (GpuFleet, "security_group", "sg-0abc", "from_security_group_id"),
    (GpuFleet, "start", "2026-12-01T11:30:00Z", "datetime"),
    (GpuFleet, "signal_timeout", 3600, "a Duration"),
    (GpuFleet, "placement_group", "", "a placement group that exists"),
    (GpuFleet, "subnet", "subnet-0abc", "from_subnet_attributes"),
    (LustreFileSystem, "storage_capacity_gib", "1200", "a whole number"),
    (LustreFileSystem, "removal_policy", "retain", "RemovalPolicy.RETAIN"),
    (LustreFileSystem, "kms_key", "arn:aws:kms:us-east-1:111111111111:key/1", "from_key_arn"),
    (LustreFileSystem, "log_group", "/aws/fsx/mine", "from_log_group_name"),
    (LustreFileSystem, "log_retention", 30, "RetentionDays"),
    (LustreFileSystem, "file_system_type_version", 2.15, "text"),
    (LustreFileSystem, "throughput_capacity_mb_per_s", "4000", "a whole number"),
    (LustreFileSystem, "drive_cache_type", True, "text"),
    (LustreFileSystem, "read_cache_gib", 64.5, "a whole number"),
    (ImportedLustreFileSystem, "security_group", "sg-0abc", "from_security_group_id"),
    (ImportedLustreFileSystem, "file_system_type_version", 2.15, "text"),
    (ImportedLustreFileSystem, "existing_links", ["/datasets"], '{"/datasets": "s3://their-bucket/datasets/"}'),
    (DataRepositoryAssociation, "file_system", "fs-0123456789abcdef0", "LustreFileSystem.from_attributes"),
    (S3FileSystem, "bucket", "their-bucket", "a DataLake"),
    (S3FileSystem, "expire_after", 7, "Duration"),
    (S3FileSystem, "import_rules", {"prefix": ""}, "S3FilesImportRule"),
    (S3FileSystem, "additional_security_groups", ["sg-0abc"], "security groups"),
    (S3FileSystem, "role", "arn:aws:iam::111111111111:role/mine", "from_role_arn"),
    (S3FileSystem, "encryption_key", "alias/mine", "from_key_arn"),
    (ImportedS3FileSystem, "security_group", "sg-0abc", "from_security_group_id"),
    (DataLake, "bucket", "their-bucket", "from_bucket_name"),
    (DataLake, "encryption_key", "alias/mine", "from_key_arn"),
    (DataLake, "logs_expire_after", 30, "Duration.days(30)"),
    (DataLake, "versioned", "yes", "True or False"),
    (DirectoryBucket, "availability_zone_id", 4, "text"),
    (DirectoryBucket, "base_name", ["hot"], "text"),
    (DirectoryBucket, "encryption_key", "alias/mine", "from_key_arn"),
    (DirectoryBucket, "expire_after", 3, "Duration.days(30)"),
    (DirectoryBucket, "abort_incomplete_multipart_upload_after", "7d", "Duration.days(30)"),
    (DirectoryBucket, "content_is_cache", "yes", "True or False"),
    (DirectoryBucket, "removal_policy", "delete", "RemovalPolicy.RETAIN"),
    (ImportedDirectoryBucket, "bucket_name", ["hot--use1-az6--x-s3"], "text"),
    (ImportedDirectoryBucket, "account", 111111111111, "text"),
    (DataRepositoryAssociation, "bucket", "their-bucket", "from_bucket_name"),
    (DataRepositoryAssociation, "import_events", "new", "a list of texts"),
    (NodeStorage, "mounts", LustreMount(file_system=None), "put it in a list"),  # type: ignore[arg-type]
    (NodeStorage, "environment", {"EPOCHS": 3}, "texts by their names"),
    (TrainingStorage, "plan", "llama3-70b.yaml", "plan(load_workload("),
    (TrainingStorage, "data_lake", "their-bucket", "a DataLake"),
    (ImportedNetwork, "route_table_ids", "rtb-0abc", "a list of texts"),
]


@pytest.mark.parametrize(
    ("kind", "name", "value", "said"),
    WRONG,
    ids=[f"{kind.__name__}-{name}-{index}" for index, (kind, name, _, _) in enumerate(WRONG)],
)
def test_a_slip_is_answered_with_what_to_write(
    place: Callable[[type], Place], kind: type, name: str, value: object, said: str
) -> None:
    stack, given = place(kind)
    assert said in refuse(lambda: kind(stack, "Made", **{**given, name: value}), stack, name)


@pytest.mark.parametrize("kind", [DataLake, DataRepositoryAssociation])
@pytest.mark.parametrize("form", ["ours", "existing", "by the name of a bucket"])
def test_a_directory_bucket_is_no_lake_and_is_linked_to_nothing(stack: cdk.Stack, kind: type, form: str) -> None:
    bucket: object
    if form == "ours":
        bucket = DirectoryBucket(stack, "Express", availability_zone_id="use1-az6")
    elif form == "existing":
        bucket = DirectoryBucket.from_bucket_name(stack, "Express", "hot--use1-az6--x-s3")
    else:
        bucket = s3.Bucket.from_bucket_name(stack, "Express", "hot--use1-az6--x-s3")
    given = {**right(kind, stack), "bucket": bucket}
    assert "general purpose bucket" in refuse(lambda: kind(stack, "Made", **given), stack, "bucket")


def test_all_slips_are_named_at_once(stack: cdk.Stack) -> None:
    place = right(GpuFleet, stack)
    with pytest.raises(ValidationError) as caught:
        GpuFleet(stack, "Fleet", **{**place, "instance_count": "2", "user_commands": "echo", "role": "nodes"})
    assert {problem.path for problem in caught.value.problems} == {"instance_count", "user_commands", "role"}


MOUNT_SLIPS: list[tuple[str, Mapping[str, object]]] = [
    ("bucket", {"bucket": "their-bucket"}),
    ("path", {"path": None}),
    ("path", {"path": "/"}),
    ("path", {"path": "/data/../etc"}),
    ("path", {"path": "/" + "x" * 300}),
    *(("path", {"path": f"/{name}"}) for name in ("etc", "usr", "var", "home", "opt", "tmp", "boot", "root")),
    ("prefix", {"prefix": None}),
    ("uid", {"uid": "root"}),
    ("gid", {"gid": -1}),
    ("region", {"region": "Ireland"}),
    ("cache_size_mib", {"cache": "nvme", "cache_size_mib": "500"}),
    ("maximum_throughput_gbps", {"maximum_throughput_gbps": "100"}),
    ("read_only", {"read_only": "no"}),
    ("key", {"key": "alias/mine"}),
    ("file_mode", {"file_mode": 0o644}),
    ("uid", {"uid": 0}),
    ("cache", {"cache": None}),
    ("cache_bucket", {"cache": "express", "cache_bucket": "cache--use1-az6--x-s3"}),
    ("bind", {"bind": "ens32"}),
    *((name, {name: 1.5}) for name in ("metadata_ttl", "negative_metadata_ttl", "max_threads", "part_size_mib")),
    *((name, {name: "8"}) for name in ("read_part_size_mib", "write_part_size_mib", "memory_target_mib")),
    ("otlp_export_interval_seconds", {"otlp_endpoint": "http://localhost:4318", "otlp_export_interval_seconds": "30"}),
    *((name, {name: 3}) for name in ("sse", "upload_checksums", "storage_class", "endpoint_url", "otlp_endpoint")),
    ("expected_bucket_owner", {"expected_bucket_owner": 111111111111}),
    ("sse_kms_key", {"sse": "aws:kms", "sse_kms_key": "alias/mine"}),
    *((name, {name: "yes"}) for name in ("incremental_upload", "requester_pays", "transfer_acceleration")),
    *((name, {name: None}) for name in ("dual_stack", "log_metrics", "allow_delete", "allow_overwrite")),
]


@pytest.mark.parametrize(("field", "values"), MOUNT_SLIPS, ids=str)
def test_a_slip_in_a_mountpoint_mount_is_named(stack: cdk.Stack, field: str, values: Mapping[str, Any]) -> None:
    mount = MountpointMount(**{"bucket": DataLake(stack, "Lake"), **values})
    refuse(lambda: NodeStorage(stack, "Storage", mounts=[mount]), stack, f"mounts[0].{field}")


LUSTRE_SLIPS: list[tuple[str, Mapping[str, object]]] = [
    ("file_system", {"file_system": "fs-0123456789abcdef0"}),
    ("efa", {"efa": True}),  # the file system of the test is made without EFA
    ("gds", {"gds": True}),
    ("on_tcp", {"on_tcp": "ignore"}),
    ("checkpoints", {"checkpoints": "/fsx/checkpoints"}),
    ("checkpoints", {"checkpoints": "../elsewhere"}),
    ("scratch", {"scratch": "a b"}),
    ("path", {"path": "/usr"}),
]


@pytest.mark.parametrize(("field", "values"), LUSTRE_SLIPS, ids=str)
def test_a_slip_in_a_lustre_mount_is_named(stack: cdk.Stack, field: str, values: Mapping[str, Any]) -> None:
    mount = LustreMount(**{"file_system": file_system(stack), **values})
    refuse(lambda: NodeStorage(stack, "Storage", mounts=[mount]), stack, f"mounts[0].{field}")


def test_a_slip_in_an_access_is_named(stack: cdk.Stack) -> None:
    access = BucketAccess(bucket="their-bucket")  # type: ignore[arg-type]
    refuse(lambda: NodeStorage(stack, "Storage", mounts=[], buckets=[access]), stack, "buckets[0].bucket")


def test_a_client_without_connections_is_named(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    refuse(lambda: hot.allow_client("sg-0abc"), stack, "client")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", ["grant_read", "grant_read_write", "grant_delete"])
def test_a_grantee_that_is_no_principal_is_named(stack: cdk.Stack, method: str) -> None:
    lake = DataLake(stack, "Lake")
    refuse(lambda: getattr(lake, method)("arn:aws:iam::111111111111:role/mine"), stack, "grantee")


# CloudFormation User Guide, CreationPolicy attribute
@pytest.mark.parametrize(("hours", "passes"), [(0, False), (1, True), (12, True), (12.5, False), (24, False)])
def test_the_wait_for_signals_is_one_that_cloudformation_takes(stack: cdk.Stack, hours: float, passes: bool) -> None:
    given = {**right(GpuFleet, stack), "signal_timeout": cdk.Duration.minutes(hours * 60)}
    if passes:
        GpuFleet(stack, "Fleet", **given)
    else:
        assert "12 hours" in refuse(lambda: GpuFleet(stack, "Fleet", **given), stack, "signal_timeout")


def test_a_role_of_another_account_is_refused_naming_both(stack: cdk.Stack) -> None:
    role = iam.Role.from_role_arn(stack, "Role", "arn:aws:iam::222222222222:role/theirs")
    given = right(GpuFleet, stack)
    said = refuse(lambda: GpuFleet(stack, "Fleet", role=role, **given), stack, "role")
    assert "222222222222" in said
    assert "111111111111" in said


def test_moments_and_objects_of_the_right_kind_pass(stack: cdk.Stack) -> None:
    GpuFleet(
        stack,
        "Fleet",
        **right(GpuFleet, stack),
        purchase="capacity-block",
        capacity_reservation_id="cr-0abc",
        start=datetime(2026, 12, 1, 11, 30, tzinfo=UTC),
        end=datetime(2026, 12, 8, 10, 30, tzinfo=UTC),
        user_data=ec2.UserData.for_linux(),
        role=iam.Role.from_role_name(stack, "Role", "mine"),
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc"),
    )
