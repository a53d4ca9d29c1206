"""Profiles of mounts: the values that suit a role, worked out from numbers and held against the rules."""

from __future__ import annotations

import math
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

from tests.synth._fakes import FakeDirectoryBucket, FakeFileSystem
from training_storage.compute import (
    LustreMount,
    MountpointMount,
    NodeStorage,
    checkpoint_writing,
    dataset_reading,
    local_scratch,
)
from training_storage.errors import ValidationError
from training_storage.tiers import DataLake

TB, MIB = 1e12, 2**20


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Stack")


@pytest.fixture
def bucket(stack: cdk.Stack) -> s3.IBucket:
    return s3.Bucket.from_bucket_name(stack, "Bucket", "general-bucket")


# Reading a data set


def test_a_data_set_is_read_only_and_left_as_mountpoint_has_it(bucket: s3.IBucket) -> None:
    assert dataset_reading(bucket) == MountpointMount(bucket=bucket)


@pytest.mark.parametrize(("immutable", "ttl"), [(True, "indefinite"), (False, None)])
def test_metadata_of_what_never_changes_is_kept_for_ever(bucket: s3.IBucket, immutable: bool, ttl: str | None) -> None:
    assert dataset_reading(bucket, immutable=immutable).metadata_ttl == ttl


@pytest.mark.parametrize(
    ("nvme_gb", "read_bytes", "cache"),
    [
        (0, None, "none"),
        (7600, None, "nvme"),
        (7600, 6 * TB, "nvme"),  # 80 % of 7600 GB are 6080 GB
        (7600, 6.1 * TB, "none"),
    ],
)
def test_a_cache_on_nvme_where_the_type_has_it_and_a_run_fits(
    bucket: s3.IBucket, nvme_gb: float, read_bytes: float | None, cache: str
) -> None:
    assert dataset_reading(bucket, local_nvme_gb=nvme_gb, read_bytes=read_bytes).cache == cache


@pytest.mark.parametrize(("nvme_gb", "cache"), [(0, "express"), (7600, "nvme+express")])
def test_a_shared_cache_where_its_bucket_is_given(bucket: s3.IBucket, nvme_gb: float, cache: str) -> None:
    shared = FakeDirectoryBucket("cache--use1-az6--x-s3")
    mount = dataset_reading(bucket, local_nvme_gb=nvme_gb, cache_bucket=shared)
    assert (mount.cache, mount.cache_bucket) == (cache, shared)


@pytest.mark.parametrize(
    ("fleet_mb_per_s", "file_bytes", "part_mib"),
    [
        (None, None, None),
        (46_000, None, None),  # 5,500 requests of 8 MiB carry 46,137 MB/s
        (46_200, None, 16),
        (100_000, None, 32),  # 16 MiB carry 92,274 MB/s
        (100_000, 10 * MIB, 16),  # one request a file
        (100_000, 4 * MIB, None),
        (10**9, None, 5120),  # never more than S3 takes
    ],
)
def test_parts_keep_the_fleet_below_the_requests_of_a_prefix(
    bucket: s3.IBucket, fleet_mb_per_s: float | None, file_bytes: float | None, part_mib: int | None
) -> None:
    mount = dataset_reading(bucket, fleet_read_mb_per_s=fleet_mb_per_s, file_bytes=file_bytes)
    assert mount.read_part_size_mib == part_mib


def test_a_directory_bucket_serves_more_requests(bucket: s3.IBucket) -> None:
    # 200,000 requests of 8 MiB carry 1,677,721 MB/s
    assert dataset_reading(FakeDirectoryBucket(), fleet_read_mb_per_s=1_600_000).read_part_size_mib is None
    assert dataset_reading(bucket, fleet_read_mb_per_s=1_600_000).read_part_size_mib == 512


# Saving checkpoints


def test_report_30_a_general_purpose_bucket_is_refused_naming_rename(stack: cdk.Stack, bucket: s3.IBucket) -> None:
    targets: list[Any] = [bucket, DataLake(stack, "Lake"), s3.Bucket(stack, "Made")]
    for target in targets:
        with pytest.raises(ValidationError, match="rename"):
            checkpoint_writing(target)


@pytest.mark.parametrize("target", [None, "fs-0123456789abcdef0", 3])
def test_what_is_no_target_is_named(target: Any) -> None:
    with pytest.raises(ValidationError, match="not what checkpoints can be saved on"):
        checkpoint_writing(target)


def test_report_30_lustre_is_a_place_for_checkpoints(stack: cdk.Stack) -> None:
    system = FakeFileSystem(stack)
    assert checkpoint_writing(system, efa=True) == LustreMount(file_system=system, efa=True)


@pytest.mark.parametrize("file_bytes", [None, 2 * TB])
def test_report_30_a_directory_bucket_takes_renames_that_replace_and_deletes(
    stack: cdk.Stack, file_bytes: float | None
) -> None:
    mount = checkpoint_writing(FakeDirectoryBucket(), file_bytes=file_bytes)
    assert isinstance(mount, MountpointMount)
    assert (mount.read_only, mount.allow_delete, mount.allow_overwrite) == (False, True, True)
    assert mount.incremental_upload is False  # one upload at the speed of single requests
    NodeStorage(stack, "Storage", mounts=[mount], checkpoint_path="/hot/checkpoints")


def test_appending_is_there_when_asked_for() -> None:
    mount = checkpoint_writing(FakeDirectoryBucket(), append=True)
    assert isinstance(mount, MountpointMount)
    assert mount.incremental_upload is True


@pytest.mark.parametrize(
    ("file_bytes", "part_mib"),
    [
        (None, None),
        (80_000 * MIB, None),  # 10,000 parts of 8 MiB
        (80_000 * MIB + 1, 9),
        (980e9, 94),  # 70e9 parameters of 14 bytes in one file: 93.5 MiB
        (51_200_000 * MIB, 5120),
    ],
)
def test_parts_let_the_largest_file_fit_into_ten_thousand(file_bytes: float | None, part_mib: int | None) -> None:
    mount = checkpoint_writing(FakeDirectoryBucket(), file_bytes=file_bytes)
    assert isinstance(mount, MountpointMount)
    assert mount.write_part_size_mib == part_mib
    assert (part_mib or 8) * MIB * 10_000 >= (file_bytes or 0)


def test_a_file_that_no_object_can_hold_is_refused() -> None:
    with pytest.raises(ValidationError, match="several files"):
        checkpoint_writing(FakeDirectoryBucket(), file_bytes=51_200_000 * MIB + 1)


@pytest.mark.parametrize(
    ("files", "file_bytes", "memory_mib"),
    [
        (None, None, None),
        (1, None, 512),
        (47, None, 512),  # what the documentation gives for 512 MiB
        (447, None, 4096),  # and for 4 GiB
        (8, 980e9, 888),  # 8 x 94 + 8 + 128
        (32, 980e9, 3447),
    ],
)
def test_memory_is_enough_for_the_files_that_are_written_at_once(
    files: int | None, file_bytes: float | None, memory_mib: int | None
) -> None:
    mount = checkpoint_writing(FakeDirectoryBucket(), files_at_once=files, file_bytes=file_bytes)
    assert isinstance(mount, MountpointMount)
    assert mount.memory_target_mib == memory_mib
    if files is not None and memory_mib is not None:
        part = mount.write_part_size_mib or 8
        assert math.floor((memory_mib - max(128, memory_mib / 8) - 8) / part) >= files


# Scratch


def test_scratch_is_a_directory_on_the_local_disks_that_a_node_takes(stack: cdk.Stack) -> None:
    assert local_scratch(local_nvme_gb=7600) == ("/opt/dlami/nvme/scratch",)
    names = local_scratch("scratch", "shards-v1", local_nvme_gb=7600)
    assert names == ("/opt/dlami/nvme/scratch", "/opt/dlami/nvme/shards-v1")
    NodeStorage(stack, "Storage", mounts=[], directories=names)


def test_scratch_without_local_disks_is_refused_naming_what_to_take() -> None:
    with pytest.raises(ValidationError, match="choose a type with local NVMe"):
        local_scratch(local_nvme_gb=0)


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "a b", None])
def test_scratch_of_another_name_is_refused(name: Any) -> None:
    with pytest.raises(ValidationError, match="not a directory below the local disks"):
        local_scratch(name, local_nvme_gb=7600)


# Arguments


NUMBERS = ["local_nvme_gb", "read_bytes", "fleet_read_mb_per_s", "file_bytes"]


@pytest.mark.parametrize("value", [-1, "7600", object()])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_none_is_named(bucket: s3.IBucket, name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        dataset_reading(bucket, **{name: value})
    assert [problem.path for problem in caught.value.problems] == [name]


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_is_known_later_is_named(stack: cdk.Stack, bucket: s3.IBucket, name: str) -> None:
    later: Any = cdk.CfnParameter(stack, "N", type="Number").value_as_number
    with pytest.raises(ValidationError, match="known only when"):
        dataset_reading(bucket, **{name: later})


@pytest.mark.parametrize("value", ["general-bucket", None])
def test_a_bucket_that_is_none_is_named(value: Any) -> None:
    with pytest.raises(ValidationError, match="bucket"):
        dataset_reading(value)


@pytest.mark.parametrize("value", [0, 1.5, "8"])
def test_a_number_of_files_is_a_whole_one(value: Any) -> None:
    with pytest.raises(ValidationError, match="files_at_once"):
        checkpoint_writing(FakeDirectoryBucket(), files_at_once=value)
