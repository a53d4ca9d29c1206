"""Storage classes of a Lustre file system: each takes its own arguments, writes its own properties, and no others."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms

from tests.synth.storage import (
    FILE_SYSTEM,
    GROUP,
    INGRESS,
    file_system,
    lustre,
    only,
    resources,
    subnet,
    vpc,
    warnings,
)
from training_storage.catalog import default_catalog
from training_storage.errors import ValidationError

HDD: dict[str, Any] = {"deployment_type": "PERSISTENT_1", "storage_type": "HDD", "storage_capacity_gib": 18_000}
TIERED: dict[str, Any] = {
    "storage_type": "INTELLIGENT_TIERING",
    "storage_capacity_gib": None,
    "throughput_capacity_mb_per_s": 8000,
}
CLASSES: dict[str, dict[str, Any]] = {
    "SCRATCH_2 SSD": {"deployment_type": "SCRATCH_2", "storage_capacity_gib": 2400},
    "PERSISTENT_1 SSD": {"deployment_type": "PERSISTENT_1", "storage_capacity_gib": 2400},
    "PERSISTENT_2 SSD": {"storage_capacity_gib": 2400},
    "PERSISTENT_1 HDD": HDD,
    "PERSISTENT_2 INTELLIGENT_TIERING": TIERED,
}
# FSx API, CreateFileSystem and CreateFileSystemLustreConfiguration: what each class has beside what all have.
PROPERTIES: dict[str, set[str]] = {
    "SCRATCH_2 SSD": {"StorageCapacity"},
    "PERSISTENT_1 SSD": {"StorageCapacity", "PerUnitStorageThroughput"},
    "PERSISTENT_2 SSD": {"StorageCapacity", "PerUnitStorageThroughput", "MetadataConfiguration"},
    "PERSISTENT_1 HDD": {"StorageCapacity", "PerUnitStorageThroughput", "DriveCacheType"},
    "PERSISTENT_2 INTELLIGENT_TIERING": {
        "ThroughputCapacity",
        "DataReadCacheConfiguration",
        "MetadataConfiguration",
    },
}
OF_A_CLASS = set().union(*PROPERTIES.values()) | {"EfaEnabled"}
# A legal value of each argument that only some classes have.
ARGUMENTS: dict[str, Any] = {
    "storage_capacity_gib": 36_000,
    "per_unit_storage_throughput": 40,
    "throughput_capacity_mb_per_s": 4000,
    "drive_cache_type": "READ",
    "read_cache_mode": "NO_CACHE",
    "read_cache_gib": 64,
    "metadata_mode": "USER_PROVISIONED",
    "metadata_iops": 12_000,
    "efa_enabled": True,
}
TAKEN: dict[str, set[str]] = {
    "SCRATCH_2 SSD": {"storage_capacity_gib"},
    "PERSISTENT_1 SSD": {"storage_capacity_gib", "per_unit_storage_throughput"},
    "PERSISTENT_2 SSD": {
        "storage_capacity_gib",
        "per_unit_storage_throughput",
        "metadata_mode",
        "metadata_iops",
        "efa_enabled",
    },
    "PERSISTENT_1 HDD": {"storage_capacity_gib", "per_unit_storage_throughput", "drive_cache_type"},
    "PERSISTENT_2 INTELLIGENT_TIERING": {
        "throughput_capacity_mb_per_s",
        "read_cache_mode",
        "read_cache_gib",
        "metadata_mode",
        "metadata_iops",
        "efa_enabled",
    },
}
FOREIGN = [(name, argument) for name in CLASSES for argument in sorted(ARGUMENTS) if argument not in TAKEN[name]]


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot")


def refused(stack: cdk.Stack, **options: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        file_system(stack, **options)
    assert stack.node.try_find_child("Hot") is None
    return caught.value


def written(stack: cdk.Stack) -> dict[str, Any]:
    """Properties of the one file system that depend on its class."""
    properties = only(stack, FILE_SYSTEM)["Properties"]
    return {name: value for name, value in {**properties, **lustre(stack)}.items() if name in OF_A_CLASS}


def test_every_pair_of_the_catalog_is_looked_at() -> None:
    pairs = {f"{deployment} {storage}" for deployment, storage in default_catalog().lustre.options}
    assert pairs == set(CLASSES)


@pytest.mark.parametrize("name", CLASSES)
def test_the_smallest_of_a_class_writes_its_own_properties_and_no_others(stack: cdk.Stack, name: str) -> None:
    file_system(stack, **CLASSES[name])
    assert set(written(stack)) == PROPERTIES[name]
    deployment, storage = name.split()
    assert only(stack, FILE_SYSTEM)["Properties"]["StorageType"] == storage
    assert lustre(stack)["DeploymentType"] == deployment


@pytest.mark.parametrize(("name", "argument"), FOREIGN)
def test_an_argument_of_another_class_fails_naming_it(stack: cdk.Stack, name: str, argument: str) -> None:
    error = refused(stack, **{**CLASSES[name], argument: ARGUMENTS[argument]})
    assert argument in [problem.path for problem in error.problems]


@pytest.mark.parametrize("name", [name for name in CLASSES if "storage_capacity_gib" in TAKEN[name]])
def test_ssd_and_hdd_without_a_capacity_fail_saying_which_are_legal(stack: cdk.Stack, name: str) -> None:
    (problem,) = refused(stack, **{**CLASSES[name], "storage_capacity_gib": None}).problems
    assert problem.path == "storage_capacity_gib"
    assert name in problem.what
    assert "multiples of" in problem.allowed


@pytest.mark.parametrize("name", CLASSES)
def test_report_07_every_class_is_made_with_2_15(stack: cdk.Stack, name: str) -> None:
    file_system(stack, **CLASSES[name])
    assert only(stack, FILE_SYSTEM)["Properties"]["FileSystemTypeVersion"] == "2.15"


@pytest.mark.parametrize("name", CLASSES)
def test_backups_are_only_written_when_asked_for(stack: cdk.Stack, name: str) -> None:
    file_system(stack, **CLASSES[name])
    assert "AutomaticBackupRetentionDays" not in lustre(stack)


@pytest.mark.parametrize("name", [name for name in CLASSES if "SCRATCH" not in name])
def test_persistent_classes_take_a_key_and_backups(stack: cdk.Stack, name: str) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111111111111:key/0abc")
    file_system(stack, **CLASSES[name], kms_key=key, automatic_backup_retention_days=7)
    assert only(stack, FILE_SYSTEM)["Properties"]["KmsKeyId"] == key.key_arn
    assert lustre(stack)["AutomaticBackupRetentionDays"] == 7


# -- HDD


@pytest.mark.parametrize("cache", ["NONE", "READ"])
@pytest.mark.parametrize(("tier", "gib"), [(12, 6000), (12, 60_000), (40, 7200), (40, 1_800_000)])
def test_hdd_writes_tier_capacity_and_drive_cache(stack: cdk.Stack, tier: int, gib: int, cache: str) -> None:
    file_system(stack, **{**HDD, "storage_capacity_gib": gib}, per_unit_storage_throughput=tier, drive_cache_type=cache)
    assert written(stack) == {
        "StorageCapacity": gib,
        "PerUnitStorageThroughput": tier,
        "DriveCacheType": cache,
    }


def test_hdd_has_no_drive_cache_and_the_lowest_tier_unless_asked_for(stack: cdk.Stack) -> None:
    file_system(stack, **HDD)
    assert (written(stack)["DriveCacheType"], written(stack)["PerUnitStorageThroughput"]) == ("NONE", 12)


@pytest.mark.parametrize(
    ("tier", "gib", "near"), [(12, 1800, "6000"), (12, 7200, "12000"), (40, 6000, "7200"), (40, 2400, "3600")]
)
def test_hdd_capacities_of_the_other_tier_fail_naming_a_near_one(
    stack: cdk.Stack, tier: int, gib: int, near: str
) -> None:
    (problem,) = refused(stack, **{**HDD, "storage_capacity_gib": gib}, per_unit_storage_throughput=tier).problems
    assert (problem.path, problem.value) == ("storage_capacity_gib", gib)
    assert near in problem.fix


@pytest.mark.parametrize("cache", ["WRITE", "read", ""])
def test_another_drive_cache_fails(stack: cdk.Stack, cache: str) -> None:
    (problem,) = refused(stack, **HDD, drive_cache_type=cache).problems
    assert (problem.path, problem.allowed) == ("drive_cache_type", "NONE or READ")


@pytest.mark.parametrize("deployment_type", ["SCRATCH_2", "PERSISTENT_2"])
def test_hdd_goes_with_persistent_1_only(stack: cdk.Stack, deployment_type: str) -> None:
    (problem,) = refused(stack, **{**HDD, "deployment_type": deployment_type}).problems
    assert problem.path == "storage_type"


@pytest.mark.parametrize(("gib", "warned"), [(1800, True), (5400, True), (7200, False), (18_000, False)])
def test_hdd_under_6000_gib_warns(stack: cdk.Stack, gib: int, warned: bool) -> None:
    file_system(stack, **{**HDD, "storage_capacity_gib": gib}, per_unit_storage_throughput=40)
    found = [text for text in warnings(stack) if "[ack: training_storage:lustre.smallHdd]" in text]
    assert len(found) == warned
    assert all(str(gib) in text and "6000" in text for text in found)


# -- INTELLIGENT_TIERING


def test_intelligent_tiering_has_safe_metadata_and_a_read_cache_unless_asked_for(stack: cdk.Stack) -> None:
    file_system(stack, **TIERED)
    assert written(stack) == {
        "ThroughputCapacity": 8000,
        "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
        "DataReadCacheConfiguration": {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"},
    }


@pytest.mark.parametrize("efa", [False, True])
@pytest.mark.parametrize("mb_per_s", [4000, 8000, 100_000, 2_000_000])
def test_intelligent_tiering_takes_multiples_of_4000_with_efa_and_without(
    stack: cdk.Stack, mb_per_s: int, efa: bool
) -> None:
    file_system(stack, **{**TIERED, "throughput_capacity_mb_per_s": mb_per_s}, efa_enabled=efa)
    assert written(stack)["ThroughputCapacity"] == mb_per_s
    assert written(stack).get("EfaEnabled", False) is efa


@pytest.mark.parametrize("efa", [False, True])
@pytest.mark.parametrize("mb_per_s", [0, 1000, 2000, 6000, 2_004_000])
def test_other_throughput_capacities_fail(stack: cdk.Stack, mb_per_s: int, efa: bool) -> None:
    (problem,) = refused(stack, **{**TIERED, "throughput_capacity_mb_per_s": mb_per_s}, efa_enabled=efa).problems
    assert (problem.path, problem.value) == ("throughput_capacity_mb_per_s", mb_per_s)
    assert "4000" in problem.allowed


def test_intelligent_tiering_needs_a_throughput_capacity(stack: cdk.Stack) -> None:
    (problem,) = refused(stack, **{**TIERED, "throughput_capacity_mb_per_s": None}).problems
    assert problem.path == "throughput_capacity_mb_per_s"


@pytest.mark.parametrize("iops", [6000, 12_000])
def test_intelligent_tiering_takes_6000_or_12000_metadata_iops(stack: cdk.Stack, iops: int) -> None:
    file_system(stack, **TIERED, metadata_iops=iops)
    assert written(stack)["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": iops}


@pytest.mark.parametrize("iops", [1500, 3000, 24_000])
def test_intelligent_tiering_takes_no_other_metadata_iops(stack: cdk.Stack, iops: int) -> None:
    (problem,) = refused(stack, **TIERED, metadata_iops=iops).problems
    assert (problem.path, problem.value) == ("metadata_iops", iops)


def test_automatic_metadata_fails_on_intelligent_tiering(stack: cdk.Stack) -> None:
    (problem,) = refused(stack, **TIERED, metadata_mode="AUTOMATIC").problems
    assert problem.value == "AUTOMATIC"


@pytest.mark.parametrize("mode", ["NO_CACHE", "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"])
def test_a_read_cache_without_a_size_has_none(stack: cdk.Stack, mode: str) -> None:
    file_system(stack, **TIERED, read_cache_mode=mode)
    assert written(stack)["DataReadCacheConfiguration"] == {"SizingMode": mode}


@pytest.mark.parametrize("given", [{}, {"read_cache_mode": "USER_PROVISIONED"}])
def test_a_size_is_a_user_provisioned_read_cache(stack: cdk.Stack, given: dict[str, Any]) -> None:
    file_system(stack, **TIERED, read_cache_gib=64, **given)
    assert written(stack)["DataReadCacheConfiguration"] == {"SizingMode": "USER_PROVISIONED", "SizeGiB": 64}


# FSx API, LustreReadCacheConfiguration: 8 to 32768 GiB for each 1000 MB/s
@pytest.mark.parametrize(("gib", "legal"), [(63, False), (64, True), (262_144, True), (262_145, False)])
def test_the_size_of_a_read_cache_follows_the_throughput(stack: cdk.Stack, gib: int, legal: bool) -> None:
    if legal:
        file_system(stack, **TIERED, read_cache_gib=gib)
        assert written(stack)["DataReadCacheConfiguration"]["SizeGiB"] == gib
        return
    (problem,) = refused(stack, **TIERED, read_cache_gib=gib).problems
    assert (problem.path, problem.allowed) == ("read_cache_gib", "64 to 262144 GiB")


@pytest.mark.parametrize(
    "given",
    [
        {"read_cache_mode": "USER_PROVISIONED"},
        {"read_cache_mode": "NO_CACHE", "read_cache_gib": 64},
        {"read_cache_mode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY", "read_cache_gib": 64},
    ],
)
def test_a_size_goes_with_user_provisioned_and_with_nothing_else(stack: cdk.Stack, given: dict[str, Any]) -> None:
    (problem,) = refused(stack, **TIERED, **given).problems
    assert problem.path == "read_cache_gib"


def test_another_read_cache_mode_fails_listing_the_three(stack: cdk.Stack) -> None:
    (problem,) = refused(stack, **TIERED, read_cache_mode="AUTOMATIC").problems
    assert problem.allowed == "NO_CACHE, USER_PROVISIONED or PROPORTIONAL_TO_THROUGHPUT_CAPACITY"


@pytest.mark.parametrize("deployment_type", ["SCRATCH_2", "PERSISTENT_1"])
def test_intelligent_tiering_goes_with_persistent_2_only(stack: cdk.Stack, deployment_type: str) -> None:
    (problem,) = refused(stack, **{**TIERED, "deployment_type": deployment_type}).problems
    assert problem.path == "storage_type"


@pytest.mark.parametrize("events", [{}, {"import_events": ["new"]}, {"export_events": ["new", "changed"]}])
def test_report_06_a_link_on_intelligent_tiering_fails_saying_that_it_has_none(
    stack: cdk.Stack, events: dict[str, Any]
) -> None:
    hot = file_system(stack, **TIERED)
    bucket = cdk.aws_s3.Bucket.from_bucket_name(stack, "Bucket", "their-bucket")
    with pytest.raises(ValidationError, match="S3 links are not supported") as caught:
        hot.add_link("Data", file_system_path="/data", bucket=bucket, **events)
    assert [problem.path for problem in caught.value.problems] == ["file_system"]
    assert resources(stack, "AWS::FSx::DataRepositoryAssociation") == {}


def test_hdd_is_linked_like_ssd(stack: cdk.Stack) -> None:
    bucket = cdk.aws_s3.Bucket.from_bucket_name(stack, "Bucket", "their-bucket")
    file_system(stack, **HDD).add_link("Data", file_system_path="/data", bucket=bucket)
    assert len(resources(stack, "AWS::FSx::DataRepositoryAssociation")) == 1


# -- all classes


@pytest.mark.parametrize("policy", [None, cdk.RemovalPolicy.RETAIN, cdk.RemovalPolicy.DESTROY])
@pytest.mark.parametrize("name", CLASSES)
def test_report_18_every_class_is_kept_or_deleted_with_its_group_and_rules(
    stack: cdk.Stack, name: str, policy: cdk.RemovalPolicy | None
) -> None:
    file_system(stack, **CLASSES[name], removal_policy=policy)
    wanted = "Delete" if policy is cdk.RemovalPolicy.DESTROY else "Retain"
    for resource_type in (FILE_SYSTEM, GROUP, INGRESS):
        assert {each["DeletionPolicy"] for each in resources(stack, resource_type).values()} == {wanted}
    assert only(stack, FILE_SYSTEM)["UpdateReplacePolicy"] == "Retain"


@pytest.mark.parametrize("argument", ["throughput_capacity_mb_per_s", "read_cache_gib", "metadata_iops"])
def test_a_number_of_intelligent_tiering_that_is_a_token_reaches_the_template(stack: cdk.Stack, argument: str) -> None:
    number = cdk.CfnParameter(stack, "Number", type="Number").value_as_number
    file_system(stack, **{**TIERED, argument: number})
    found = {
        "throughput_capacity_mb_per_s": lambda all_: all_["ThroughputCapacity"],
        "read_cache_gib": lambda all_: all_["DataReadCacheConfiguration"]["SizeGiB"],
        "metadata_iops": lambda all_: all_["MetadataConfiguration"]["Iops"],
    }[argument](written(stack))
    assert found == {"Ref": "Number"}


@pytest.mark.parametrize("argument", ["deployment_type", "storage_type"])
@pytest.mark.parametrize("name", CLASSES)
def test_with_a_type_that_is_a_token_what_is_given_is_written_and_nothing_is_added(
    stack: cdk.Stack, name: str, argument: str
) -> None:
    text = cdk.CfnParameter(stack, "Text").value_as_string
    file_system(stack, **{**CLASSES[name], argument: text})
    named = {
        "storage_capacity_gib": "StorageCapacity",
        "throughput_capacity_mb_per_s": "ThroughputCapacity",
    }
    given = {named[each] for each in named if CLASSES[name].get(each) is not None}
    assert given <= set(written(stack)) <= PROPERTIES[name]


def test_all_problems_of_a_class_are_raised_at_once(stack: cdk.Stack) -> None:
    error = refused(
        stack,
        **{**TIERED, "throughput_capacity_mb_per_s": 1000},
        metadata_iops=1500,
        read_cache_mode="SOME",
        per_unit_storage_throughput=125,
        drive_cache_type="READ",
    )
    assert {problem.path for problem in error.problems} == {
        "throughput_capacity_mb_per_s",
        "metadata_iops",
        "read_cache_mode",
        "per_unit_storage_throughput",
        "drive_cache_type",
    }


def test_subnet_rules_and_version_are_those_of_every_class(stack: cdk.Stack) -> None:
    subnets = [subnet(stack, f"Subnet{index}") for index in range(2)]
    (problem,) = refused(stack, **TIERED, vpc=vpc(stack), subnet=subnets).problems
    assert problem.path == "subnet"
    (problem,) = refused(stack, **HDD, file_system_type_version="2.17").problems
    assert problem.path == "file_system_type_version"
