"""Lustre file systems of every storage class, and one that exists already, through their life in the emulator."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.emulated.emulator_templates import hot, without
from training_storage.emulator import Emulator, StackFailedError
from training_storage.tiers import LustreFileSystem

HDD: dict[str, Any] = {
    "deployment_type": "PERSISTENT_1",
    "storage_type": "HDD",
    "storage_capacity_gib": 7200,
    "per_unit_storage_throughput": 40,
}
TIERED: dict[str, Any] = {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity_mb_per_s": 4000}


def empty_stack() -> cdk.Stack:
    app = cdk.App(analytics_reporting=False, builtin_cloud_formation_validation=False)
    return cdk.Stack(app, "Hot", synthesizer=cdk.DefaultStackSynthesizer(generate_bootstrap_version_rule=False))


def template(**options: Any) -> dict[str, Any]:
    """A network with one file system, as the construct writes it."""
    stack = empty_stack()
    network = ec2.Vpc(stack, "Vpc", max_azs=1, nat_gateways=0, restrict_default_security_group=False)
    LustreFileSystem(
        stack,
        "Hot",
        vpc=network,
        subnet=network.isolated_subnets[0],
        removal_policy=cdk.RemovalPolicy.DESTROY,
        **options,
    )
    return dict(Template.from_stack(stack).to_json())


def existing(file_system_id: str, mount_name: str, path: str, **options: Any) -> dict[str, Any]:
    """A stack that takes a file system and links a directory of it to a bucket of its own."""
    stack = empty_stack()
    theirs = LustreFileSystem.from_attributes(
        stack,
        "Theirs",
        file_system_id=file_system_id,
        mount_name=mount_name,
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0abc"),
        **options,
    )
    bucket = s3.Bucket(stack, "Results", removal_policy=cdk.RemovalPolicy.DESTROY)
    theirs.add_link("Link", file_system_path=path, bucket=bucket, export_events=["new", "changed"])
    return dict(Template.from_stack(stack).to_json())


def described(emulator: Emulator) -> list[dict[str, Any]]:
    return [dict(each) for each in emulator.client("fsx").describe_file_systems()["FileSystems"]]


def links_of(emulator: Emulator) -> list[str]:
    found = emulator.client("fsx").describe_data_repository_associations()["Associations"]
    return sorted(each["FileSystemPath"] for each in found)


@pytest.mark.parametrize("cache", ["NONE", "READ"])
def test_hdd_is_made_and_goes_with_its_stack(aws_emulator: Emulator, cache: str) -> None:
    assert aws_emulator.deploy(template(**HDD, drive_cache_type=cache), "hot").status == "CREATE_COMPLETE"
    (made,) = described(aws_emulator)
    assert (made["StorageType"], made["StorageCapacity"]) == ("HDD", 7200)
    assert made["LustreConfiguration"]["DriveCacheType"] == cache
    aws_emulator.destroy("hot")
    assert described(aws_emulator) == []


def test_another_drive_cache_is_another_file_system_and_the_old_one_stays(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(template(**HDD), "hot")
    aws_emulator.update("hot", template(**HDD, drive_cache_type="READ"))
    caches = [made["LustreConfiguration"]["DriveCacheType"] for made in described(aws_emulator)]
    assert sorted(caches) == ["NONE", "READ"]


def test_intelligent_tiering_is_made_without_a_capacity(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(template(**TIERED, read_cache_gib=64, efa_enabled=True), "hot")
    (made,) = described(aws_emulator)
    assert made.get("StorageCapacity") is None
    assert made["LustreConfiguration"]["DataReadCacheConfiguration"] == {
        "SizingMode": "USER_PROVISIONED",
        "SizeGiB": 64,
    }


def test_throughput_and_read_cache_change_in_place(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(template(**TIERED), "hot")
    (before,) = described(aws_emulator)
    changed = {**TIERED, "throughput_capacity_mb_per_s": 8000}
    aws_emulator.update("hot", template(**changed, read_cache_mode="NO_CACHE"))
    (after,) = described(aws_emulator)
    assert after["FileSystemId"] == before["FileSystemId"]
    assert after["LustreConfiguration"]["ThroughputCapacity"] == 8000
    assert after["LustreConfiguration"]["DataReadCacheConfiguration"] == {"SizingMode": "NO_CACHE"}


def test_report_18_a_link_to_an_existing_file_system_goes_with_its_stack_and_the_file_system_stays(
    aws_emulator: Emulator,
) -> None:
    aws_emulator.deploy(hot(), "theirs")
    (there,) = described(aws_emulator)
    mount_name = there["LustreConfiguration"]["MountName"]
    aws_emulator.deploy(existing(there["FileSystemId"], mount_name, "/results"), "mine")
    assert links_of(aws_emulator) == ["/datasets", "/results"]
    aws_emulator.destroy("mine")
    assert links_of(aws_emulator) == ["/datasets"]
    assert described(aws_emulator) == [there]


def test_what_existing_links_would_have_said_fsx_says_at_deploy(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(hot(), "theirs")
    (there,) = described(aws_emulator)
    mount_name = there["LustreConfiguration"]["MountName"]
    with pytest.raises(StackFailedError, match="overlaps"):
        aws_emulator.deploy(existing(there["FileSystemId"], mount_name, "/datasets/v3"), "mine")
    known = {"/datasets": "s3://their-bucket/datasets/"}
    with pytest.raises(ValueError, match="/datasets/v3 and /datasets are nested"):
        existing(there["FileSystemId"], mount_name, "/datasets/v3", existing_links=known)


def test_a_changed_link_is_refused_at_once_and_made_in_two_deploys(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(without(hot(), "Link"), "theirs")
    (there,) = described(aws_emulator)
    names = (there["FileSystemId"], there["LustreConfiguration"]["MountName"])
    first, second = existing(*names, "/results"), existing(*names, "/results/v2")
    aws_emulator.deploy(first, "mine")
    with pytest.raises(StackFailedError, match="overlaps"):
        aws_emulator.update("mine", second)
    assert links_of(aws_emulator) == ["/results"]
    (link,) = [name for name, each in first["Resources"].items() if each["Type"].endswith("DataRepositoryAssociation")]
    aws_emulator.update("mine", without(first, link))
    aws_emulator.update("mine", second)
    assert links_of(aws_emulator) == ["/results/v2"]
