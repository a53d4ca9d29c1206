"""A token in any argument of a storage construct never crashes a check, and reaches the template as it is."""

from __future__ import annotations

import inspect
import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.synth.s3_files import files
from tests.synth.storage import file_system
from training_storage.errors import ValidationError
from training_storage.tiers.association import DataRepositoryAssociation
from training_storage.tiers.data_lake import DataLake
from training_storage.tiers.express import DirectoryBucket
from training_storage.tiers.imported_directory_bucket import ImportedDirectoryBucket
from training_storage.tiers.imported_lustre import ImportedLustreFileSystem
from training_storage.tiers.imported_s3_files import ImportedS3FileSystem
from training_storage.tiers.lustre import LustreFileSystem
from training_storage.tiers.s3_files import S3FilesImportRule, S3FileSystem

NUMBER, TEXT, LIST, BOOL = "number", "text", "list", "bool"

LUSTRE = {
    "storage_capacity_gib": NUMBER,
    "deployment_type": TEXT,
    "storage_type": TEXT,
    "per_unit_storage_throughput": NUMBER,
    "throughput_capacity_mb_per_s": NUMBER,
    "drive_cache_type": TEXT,
    "read_cache_mode": TEXT,
    "read_cache_gib": NUMBER,
    "metadata_mode": TEXT,
    "metadata_iops": NUMBER,
    "efa_enabled": BOOL,
    "data_compression_type": TEXT,
    "file_system_type_version": TEXT,
    "weekly_maintenance_start_time": TEXT,
    "automatic_backup_retention_days": NUMBER,
}
LUSTRE_OTHERS = {  # interfaces, enumerations and plain switches: no tokens of their own
    "vpc",
    "subnet",
    "kms_key",
    "security_group",
    "manage_security_group_rules",
    "log_group",
    "log_retention",
    "removal_policy",
    "catalog",
}
LUSTRE_CLASSES: dict[str, dict[str, Any]] = {  # arguments that only some storage classes have
    "throughput_capacity_mb_per_s": {"storage_type": "INTELLIGENT_TIERING", "storage_capacity_gib": None},
    "read_cache_mode": {
        "storage_type": "INTELLIGENT_TIERING",
        "storage_capacity_gib": None,
        "throughput_capacity_mb_per_s": 4000,
    },
    "drive_cache_type": {"deployment_type": "PERSISTENT_1", "storage_type": "HDD", "storage_capacity_gib": 6000},
}
LUSTRE_CLASSES["read_cache_gib"] = LUSTRE_CLASSES["read_cache_mode"]
EXISTING = {
    "file_system_id": TEXT,
    "mount_name": TEXT,
    "dns_name": TEXT,
    "efa_enabled": BOOL,
    "deployment_type": TEXT,
    "storage_type": TEXT,
    "file_system_type_version": TEXT,
}
EXISTING_OTHERS = {"security_group", "manage_security_group_rules", "existing_links", "catalog"}
LINK = {
    "file_system_path": TEXT,
    "bucket_prefix": TEXT,
    "import_events": LIST,
    "export_events": LIST,
    "batch_import_meta_data_on_create": BOOL,
    "imported_file_chunk_size_mib": NUMBER,
}
LINK_OTHERS = {"file_system", "bucket"}
S3_FILES = {"prefix": TEXT, "accept_bucket_warning": BOOL}
S3_FILES_OTHERS = {  # import_rules and expire_after have tests of their own
    "bucket",
    "vpc",
    "subnet",
    "expire_after",
    "import_rules",
    "security_group",
    "additional_security_groups",
    "manage_security_group_rules",
    "role",
    "encryption_key",
    "removal_policy",
    "catalog",
}
EXISTING_S3_FILES = {"file_system_id": TEXT, "prefix": TEXT}
EXISTING_S3_FILES_OTHERS = {"security_group", "bucket", "manage_security_group_rules"}
LAKE = {"bucket_name": TEXT, "encryption": TEXT}
LAKE_AGES = (
    "checkpoints_to_infrequent_access_after",
    "checkpoints_expire_after",
    "noncurrent_versions_expire_after",
    "logs_expire_after",
    "abort_incomplete_multipart_upload_after",
)
LAKE_OTHERS = {"bucket", "encryption_key", "versioned", "removal_policy", "request_metrics"}

HOT = {"availability_zone_id": TEXT, "base_name": TEXT}
HOT_AGES = ("expire_after", "abort_incomplete_multipart_upload_after")
HOT_OTHERS = {
    "encryption_key",
    "expire_prefixes",  # has a test of its own
    "removal_policy",
    "content_is_cache",
    "request_metrics",
    "catalog",
}
EXISTING_HOT = {"bucket_name": TEXT, "account": TEXT}
EXISTING_HOT_OTHERS = {"encryption_key"}


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Stack")


def token(stack: cdk.Stack, kind: str) -> Any:
    """A value that is known at deploy only."""
    if kind == NUMBER:
        return cdk.CfnParameter(stack, "Number", type="Number").value_as_number
    if kind == LIST:
        return cdk.CfnParameter(stack, "List", type="CommaDelimitedList").value_as_list
    if kind == BOOL:
        return cdk.Fn.condition_equals(cdk.CfnParameter(stack, "Flag").value_as_string, "yes")
    return cdk.CfnParameter(stack, "Text").value_as_string


@pytest.mark.parametrize(
    ("construct", "covered"),
    [
        (LustreFileSystem, {*LUSTRE, *LUSTRE_OTHERS}),
        (ImportedLustreFileSystem, {*EXISTING, *EXISTING_OTHERS}),
        (DataRepositoryAssociation, {*LINK, *LINK_OTHERS}),
        (S3FileSystem, {*S3_FILES, *S3_FILES_OTHERS}),
        (ImportedS3FileSystem, {*EXISTING_S3_FILES, *EXISTING_S3_FILES_OTHERS}),
        (DataLake, {*LAKE, *LAKE_AGES, *LAKE_OTHERS}),
        (DirectoryBucket, {*HOT, *HOT_AGES, *HOT_OTHERS}),
        (ImportedDirectoryBucket, {*EXISTING_HOT, *EXISTING_HOT_OTHERS}),
    ],
)
def test_every_argument_is_covered(construct: type, covered: set[str]) -> None:
    arguments = set(inspect.signature(construct.__init__).parameters) - {"self", "scope", "construct_id"}  # type: ignore[misc]
    assert arguments == covered


@pytest.mark.parametrize(("argument", "kind"), LUSTRE.items())
def test_a_file_system_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    file_system(stack, **{**LUSTRE_CLASSES.get(argument, {}), argument: token(stack, kind)})
    Template.from_stack(stack)


def existing(stack: cdk.Stack, **options: Any) -> ImportedLustreFileSystem:
    given: dict[str, Any] = {
        "file_system_id": "fs-0123456789abcdef0",
        "mount_name": "abcdefgh",
        "security_group": ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc"),
    }
    return ImportedLustreFileSystem(stack, "Existing", **{**given, **options})


@pytest.mark.parametrize(("argument", "kind"), EXISTING.items())
def test_an_existing_file_system_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    made = existing(stack, **{argument: token(stack, kind)})
    made.add_link("Data", bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "their-bucket"), file_system_path="/data")
    made.allow_client(ec2.SecurityGroup.from_security_group_id(stack, "Client", "sg-0def"))
    Template.from_stack(stack)


@pytest.mark.parametrize("place", ["directory", "address", "prefix"])
def test_links_that_are_there_may_be_tokens(stack: cdk.Stack, place: str) -> None:
    text = token(stack, TEXT)
    there = {
        "directory": {text: "s3://their-bucket/data/"},
        "address": {"/data": text},
        "prefix": {"/data": f"s3://their-bucket/{text}/"},
    }[place]
    made = existing(stack, existing_links=there)
    made.add_link(
        "Other",
        bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "their-bucket"),
        file_system_path="/other",
        bucket_prefix="other/",
    )
    Template.from_stack(stack)


def test_a_group_whose_id_is_a_token_gets_its_rules(stack: cdk.Stack) -> None:
    group = ec2.SecurityGroup.from_security_group_id(stack, "Late", token(stack, TEXT))
    existing(stack, security_group=group).allow_client(
        ec2.SecurityGroup.from_security_group_id(stack, "Client", "sg-0def")
    )
    rules = Template.from_stack(stack).find_resources("AWS::EC2::SecurityGroupIngress").values()
    assert {"Ref": "Text"} in [rule["Properties"]["GroupId"] for rule in rules]


@pytest.mark.parametrize("deployment_type", ["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"])
def test_a_token_capacity_reaches_the_template(stack: cdk.Stack, deployment_type: str) -> None:
    file_system(stack, storage_capacity_gib=token(stack, NUMBER), deployment_type=deployment_type)
    (found,) = Template.from_stack(stack).find_resources("AWS::FSx::FileSystem").values()
    assert found["Properties"]["StorageCapacity"] == {"Ref": "Number"}


def test_a_token_beside_a_wrong_value_does_not_hide_it(stack: cdk.Stack) -> None:
    with pytest.raises(ValueError, match="weekly_maintenance_start_time"):
        file_system(stack, storage_capacity_gib=token(stack, NUMBER), weekly_maintenance_start_time="Sunday")


@pytest.mark.parametrize(("argument", "kind"), LINK.items())
def test_a_link_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    options: dict[str, Any] = {"file_system_path": "/data", "bucket_prefix": "data/", argument: token(stack, kind)}
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "their-bucket")
    hot = file_system(stack)
    hot.add_link("Data", bucket=bucket, **options)
    hot.add_link("Other", bucket=bucket, file_system_path="/other", bucket_prefix="other/")
    Template.from_stack(stack)


def test_a_link_takes_a_bucket_whose_name_is_a_token(stack: cdk.Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", token(stack, TEXT))
    file_system(stack).add_link("Data", bucket=bucket, file_system_path="/data", bucket_prefix="d/")
    (found,) = Template.from_stack(stack).find_resources("AWS::FSx::DataRepositoryAssociation").values()
    assert found["Properties"]["DataRepositoryPath"] == {"Fn::Join": ["", ["s3://", {"Ref": "Text"}, "/d/"]]}


@pytest.mark.parametrize(("argument", "kind"), LAKE.items())
def test_a_lake_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    DataLake(stack, "Lake", **{argument: token(stack, kind)})
    Template.from_stack(stack)


@pytest.mark.parametrize("argument", LAKE_AGES)
def test_a_lake_takes_a_token_as_an_age(stack: cdk.Stack, argument: str) -> None:
    age: dict[str, Any] = {argument: cdk.Duration.days(token(stack, NUMBER))}
    DataLake(stack, "Lake", **age)
    Template.from_stack(stack)


@pytest.mark.parametrize("argument", LAKE_AGES)
def test_an_age_in_other_units_that_is_only_known_at_deploy_is_refused(stack: cdk.Stack, argument: str) -> None:
    age: dict[str, Any] = {argument: cdk.Duration.hours(token(stack, NUMBER))}
    with pytest.raises(ValidationError, match=argument):
        DataLake(stack, "Lake", **age)


def test_grants_take_a_token_as_prefix(stack: cdk.Stack) -> None:
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    lake, prefix = DataLake(stack, "Lake"), token(stack, TEXT)
    assert lake.grant_read(role, prefix=prefix).success
    assert lake.grant_read_write(role, prefix=prefix).success
    assert "Token" in lake.uri_for(prefix)
    Template.from_stack(stack)


@pytest.mark.parametrize(("argument", "kind"), S3_FILES.items())
def test_s3_files_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    made = files(stack, **{argument: token(stack, kind)})
    made.grant_read(iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")))
    (found,) = Template.from_stack(stack).find_resources("AWS::S3Files::FileSystem").values()
    assert stack.resolve(token_of(stack, kind)) in found["Properties"].values()


def token_of(stack: cdk.Stack, kind: str) -> Any:
    """The token that ``token`` made."""
    if kind == BOOL:
        return {"Fn::Equals": [{"Ref": "Flag"}, "yes"]}
    return {"Ref": "Text"}


@pytest.mark.parametrize(("field", "kind"), [("prefix", TEXT), ("size_less_than_bytes", NUMBER), ("trigger", TEXT)])
def test_an_import_rule_takes_a_token(stack: cdk.Stack, field: str, kind: str) -> None:
    rules = [S3FilesImportRule(), S3FilesImportRule(**{"prefix": "a/", field: token(stack, kind)})]
    files(stack, import_rules=rules)
    (found,) = Template.from_stack(stack).find_resources("AWS::S3Files::FileSystem").values()
    rule = found["Properties"]["SynchronizationConfiguration"]["ImportDataRules"][1]
    assert {"Ref": "Number" if kind == NUMBER else "Text"} in rule.values()


def test_s3_files_takes_a_token_as_expiration_in_days(stack: cdk.Stack) -> None:
    files(stack, expire_after=cdk.Duration.days(token(stack, NUMBER)))
    (found,) = Template.from_stack(stack).find_resources("AWS::S3Files::FileSystem").values()
    rules = found["Properties"]["SynchronizationConfiguration"]["ExpirationDataRules"]
    assert rules == [{"DaysAfterLastAccess": {"Ref": "Number"}}]


def test_an_expiration_in_other_units_that_is_only_known_at_deploy_is_refused(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError, match="expire_after"):
        files(stack, expire_after=cdk.Duration.hours(token(stack, NUMBER)))


def test_s3_files_takes_a_bucket_whose_name_is_a_token(stack: cdk.Stack) -> None:
    files(stack, bucket=s3.Bucket.from_bucket_name(stack, "Bucket", token(stack, TEXT)))
    (found,) = Template.from_stack(stack).find_resources("AWS::S3Files::FileSystem").values()
    assert {"Ref": "Text"} in found["Properties"]["Bucket"]["Fn::Join"][1]


@pytest.mark.parametrize(("argument", "kind"), EXISTING_S3_FILES.items())
def test_an_existing_s3_files_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    given: dict[str, Any] = {
        "file_system_id": "fs-0123456789abcdef0",
        "security_group": ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc"),
        "bucket": DataLake(stack, "Lake"),
    }
    made = ImportedS3FileSystem(stack, "Existing", **{**given, argument: token(stack, kind)})
    made.grant_read_write(iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com")))
    made.allow_client(ec2.SecurityGroup.from_security_group_id(stack, "Client", "sg-0def"))
    assert '"Ref": "Text"' in json.dumps(Template.from_stack(stack).to_json())


def hot(stack: cdk.Stack, **options: Any) -> DirectoryBucket:
    return DirectoryBucket(stack, "Hot", **{"availability_zone_id": "use1-az6", "base_name": "hot", **options})


@pytest.mark.parametrize(("argument", "kind"), HOT.items())
def test_a_directory_bucket_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    assert hot(stack, **{argument: token(stack, kind)}).grant_read(role).success
    Template.from_stack(stack)


def test_a_generated_name_takes_a_token_as_zone(stack: cdk.Stack) -> None:
    hot(stack, base_name=None, availability_zone_id=token(stack, TEXT))
    Template.from_stack(stack)


@pytest.mark.parametrize("argument", HOT_AGES)
def test_a_directory_bucket_takes_a_token_as_an_age(stack: cdk.Stack, argument: str) -> None:
    hot(stack, **{argument: cdk.Duration.days(token(stack, NUMBER))})
    (found,) = Template.from_stack(stack).find_resources("AWS::S3Express::DirectoryBucket").values()
    assert {"Ref": "Number"} in [
        rule.get("ExpirationInDays") or rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"]
        for rule in found["Properties"]["LifecycleConfiguration"]["Rules"]
    ]


def test_a_directory_bucket_takes_a_token_as_a_prefix_that_expires(stack: cdk.Stack) -> None:
    hot(stack, expire_after=cdk.Duration.days(3), expire_prefixes=[token(stack, TEXT)])
    (found,) = Template.from_stack(stack).find_resources("AWS::S3Express::DirectoryBucket").values()
    assert {"Ref": "Text"} in [rule.get("Prefix") for rule in found["Properties"]["LifecycleConfiguration"]["Rules"]]


def test_how_many_prefixes_expire_is_known_at_synth(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError, match="as many as are known at synth"):
        hot(stack, expire_after=cdk.Duration.days(3), expire_prefixes=token(stack, LIST))


@pytest.mark.parametrize("argument", HOT_AGES)
def test_an_age_of_a_directory_bucket_in_other_units_is_refused(stack: cdk.Stack, argument: str) -> None:
    with pytest.raises(ValidationError, match=argument):
        hot(stack, **{argument: cdk.Duration.hours(token(stack, NUMBER))})


def test_whether_a_bucket_is_emptied_is_known_at_synth(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError, match="content_is_cache"):
        hot(stack, content_is_cache=token(stack, BOOL), removal_policy=cdk.RemovalPolicy.DESTROY)


@pytest.mark.parametrize(("argument", "kind"), EXISTING_HOT.items())
def test_an_existing_directory_bucket_takes_a_token(stack: cdk.Stack, argument: str, kind: str) -> None:
    given: dict[str, Any] = {"bucket_name": "hot--use1-az6--x-s3", argument: token(stack, kind)}
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    assert ImportedDirectoryBucket(stack, "Theirs", **given).grant_read_write(role).success
    Template.from_stack(stack)
