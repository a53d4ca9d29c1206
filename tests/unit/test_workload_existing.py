"""What is there already: an existing file system, directory bucket, group or role is described, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest

from training_storage.errors import WorkloadError
from training_storage.planner import plan
from training_storage.workload import workload_from_dict

FILE_SYSTEM: dict[str, Any] = {
    "file_system_id": "fs-0123456789abcdef0",
    "mount_name": "abcdefgh",
    "security_group_id": "sg-0123456789abcdef0",
    "storage_capacity": "38400 GiB",
    "per_unit_storage_throughput": 250,
    "efa": False,
}
ZONE = "use1-az6"


def data(**sections: Any) -> dict[str, Any]:
    return {
        "name": "run",
        "region": "us-east-1",
        "availability_zone_id": ZONE,
        "compute": {"instance_type": "p5.48xlarge", "instance_count": 20},
        "dataset": {"size": "10 TB", "file_count": 10_000, "read_rate": {"per_accelerator": "10 MB/s"}},
        "checkpoints": {"size": "100 GiB"},
        **sections,
    }


def problems(**sections: Any) -> set[str]:
    with pytest.raises(WorkloadError) as caught:
        workload_from_dict(data(**sections))
    return {problem.path for problem in caught.value.problems}


def without(section: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key not in keys}


@pytest.mark.parametrize(
    "key", ["mount_name", "security_group_id", "storage_capacity", "per_unit_storage_throughput", "efa"]
)
def test_an_existing_file_system_is_described_in_full(key: str) -> None:
    assert f"lustre.{key}" in problems(lustre=without(FILE_SYSTEM, key))


def test_auto_does_not_say_how_an_existing_file_system_was_made() -> None:
    assert problems(lustre=FILE_SYSTEM | {"efa": "auto"}) == {"lustre.efa"}


def test_a_scratch_file_system_has_no_tier_and_a_tiering_one_no_capacity() -> None:
    scratch = without(FILE_SYSTEM, "per_unit_storage_throughput", "efa")
    assert problems(lustre=scratch | {"deployment_type": "SCRATCH_2"}) == {"lustre.efa"}
    tiering = without(FILE_SYSTEM, "storage_capacity", "per_unit_storage_throughput")
    tiering |= {"storage_type": "INTELLIGENT_TIERING", "links": []}
    assert problems(lustre=tiering) == {"lustre.throughput_capacity"}
    made = plan(workload_from_dict(data(hot_tier="lustre", lustre=tiering | {"throughput_capacity": 4000})))
    assert made.lustre is not None
    assert made.lustre.throughput_capacity_mb_per_s == 4000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kms_key_arn", "arn:aws:kms:us-east-1:111111111111:key/0123abcd"),
        ("removal", "delete"),
        ("backup_retention_days", 7),
        ("compression", "none"),
    ],
)
def test_what_is_there_is_not_made_in_another_way(key: str, value: object) -> None:
    assert f"lustre.{key}" in problems(lustre=FILE_SYSTEM | {key: value})


def test_a_mount_name_alone_names_nothing() -> None:
    assert problems(lustre={"mount_name": "abcdefgh"}) == {"lustre.mount_name"}


def test_an_existing_file_system_is_planned_as_it_is() -> None:
    made = plan(workload_from_dict(data(lustre=FILE_SYSTEM)))
    assert made.lustre is not None
    assert (made.lustre.storage_capacity_gib, made.lustre.per_unit_storage_throughput) == (38_400, 250)
    assert made.lustre.links == ()
    assert any("fs-0123456789abcdef0" in each for each in made.assumptions)


def test_an_existing_file_system_that_is_too_small_is_named() -> None:
    small = FILE_SYSTEM | {"storage_capacity": "1200 GiB", "per_unit_storage_throughput": 125}
    made = plan(workload_from_dict(data(lustre=small)))
    assert "lustre-too-small" in {warning.id for warning in made.warnings}


def test_links_that_are_given_are_made_on_an_existing_file_system() -> None:
    links = [{"path": "/run7", "source": "s3://lake-of-theirs/datasets/"}]
    made = plan(workload_from_dict(data(lustre=FILE_SYSTEM | {"links": links})))
    assert made.lustre is not None
    assert [link.path for link in made.lustre.links] == ["/run7"]


BUCKET = f"hot--{ZONE}--x-s3"


@pytest.mark.parametrize(
    ("express", "path"),
    [
        ({"bucket_names": ["hot--use1-az4--x-s3"]}, "express.bucket_names[0]"),
        ({"bucket_names": [BUCKET, BUCKET]}, "express.bucket_names[1]"),
        ({"bucket_names": ["a-plain-bucket"]}, "express.bucket_names[0]"),
        ({"bucket_names": [BUCKET], "base_name": "hot"}, "express.base_name"),
        ({"bucket_names": [BUCKET], "expire_after": "3d"}, "express.expire_after"),
        ({"bucket_names": [BUCKET], "removal": "delete"}, "express.removal"),
        ({"bucket_names": [BUCKET], "content_is_cache": True}, "express.content_is_cache"),
        ({"expire_prefixes": ["checkpoints/"]}, "express.expire_prefixes"),
        ({"expire_after": "3d", "expire_prefixes": ["checkpoints"]}, "express.expire_prefixes"),
        ({"expire_after": "3d", "expire_prefixes": ["a/", "a/b/"]}, "express.expire_prefixes"),
        ({"bucket_names": [BUCKET], "expire_prefixes": ["a/"]}, "express.expire_prefixes"),
        ({"content_is_cache": True}, "express.content_is_cache"),
        ({"content_is_cache": True, "removal": "retain"}, "express.content_is_cache"),
        ({"kms_key_arn": "arn:aws:kms:us-west-2:111111111111:key/0123abcd"}, "express.kms_key_arn"),
    ],
)
def test_settings_of_directory_buckets(express: dict[str, Any], path: str) -> None:
    assert problems(express=express) == {path}


def object_code(**sections: Any) -> dict[str, Any]:
    compute = {"instance_type": "p5.48xlarge", "instance_count": 200}
    dataset = {"size": "10 TB", "interface": "object", "read_rate": {"per_accelerator": "10 MB/s"}}
    return data(compute=compute, dataset=dataset, **sections)


def test_named_directory_buckets_are_counted_as_they_are() -> None:
    names = [f"hot-{index}--{ZONE}--x-s3" for index in range(3)]
    made = plan(workload_from_dict(object_code(express={"bucket_names": names})))
    assert made.express is not None
    assert made.express.bucket_count == 3


def test_too_few_directory_buckets_are_named() -> None:
    workload = object_code(express={"bucket_names": [BUCKET]})
    # Small objects: 1,600 x 10 MB/s in files of 8 KB are two million opens a second.
    workload["dataset"]["average_file_size"] = "8 KB"
    made = plan(workload_from_dict(workload))
    assert "express-buckets-short" in {warning.id for warning in made.warnings}


@pytest.mark.parametrize(
    ("mountpoint", "path"),
    [
        ({"cache_bucket": BUCKET}, "mountpoint.cache_bucket"),
        ({"cache": "nvme", "cache_bucket": BUCKET}, "mountpoint.cache_bucket"),
        ({"cache": "express", "cache_bucket": "cache--use1-az4--x-s3"}, "mountpoint.cache_bucket"),
        ({"cache": "express", "cache_size": "10 GiB"}, "mountpoint.cache_size"),
    ],
)
def test_settings_of_a_shared_cache(mountpoint: dict[str, Any], path: str) -> None:
    assert problems(mountpoint=mountpoint) == {path}


def test_a_shared_cache_is_planned_where_something_is_mounted_through_it() -> None:
    few = {"instance_type": "p5.48xlarge", "instance_count": 2}
    made = plan(workload_from_dict(data(compute=few, mountpoint={"cache": "express"})))
    assert made.shared_cache is not None
    assert (made.shared_cache.availability_zone_id, made.shared_cache.expire_after_days) == (ZONE, 7)
    assert "shared-cache-large-files" in {warning.id for warning in made.warnings}
    theirs = data(compute=few, mountpoint={"cache": "express", "cache_bucket": BUCKET})
    existing = plan(workload_from_dict(theirs)).shared_cache
    assert existing is not None
    assert existing.expire_after_days is None
    aged = data(compute=few, mountpoint={"cache": "express"}, express={"expire_after": "2d"})
    planned = plan(workload_from_dict(aged)).shared_cache
    assert planned is not None
    assert planned.expire_after_days == 2


@pytest.mark.parametrize(
    ("s3_files", "path"),
    [
        ({"file_system_id": "fs-0123456789abcdef01234"}, "s3_files.security_group_id"),
        (
            {"file_system_id": "fs-0123456789abcdef01234", "security_group_id": "sg-0123abcd", "expire_after": "3d"},
            "s3_files.expire_after",
        ),
        (
            {"file_system_id": "fs-0123456789abcdef01234", "security_group_id": "sg-0123abcd", "removal": "delete"},
            "s3_files.removal",
        ),
        ({"expire_after": "366d"}, "s3_files.expire_after"),
        ({"expire_after": "12h"}, "s3_files.expire_after"),
    ],
)
def test_settings_of_s3_files(s3_files: dict[str, Any], path: str) -> None:
    assert problems(s3_files=s3_files) == {path}


def test_a_role_of_another_partition_is_refused() -> None:
    compute = {
        "instance_type": "p5.48xlarge",
        "instance_count": 20,
        "role_arn": "arn:aws-cn:iam::111111111111:role/nodes",
    }
    assert problems(compute=compute) == {"compute.role_arn"}


def test_a_role_of_another_account_is_refused_where_the_account_is_known() -> None:
    compute = {
        "instance_type": "p5.48xlarge",
        "instance_count": 20,
        "role_arn": "arn:aws:iam::222222222222:role/nodes",
    }
    assert problems(compute=compute, account="111111111111") == {"compute.role_arn"}
    assert plan(workload_from_dict(data(compute=compute))).workload.compute.role_arn == compute["role_arn"]


@pytest.mark.parametrize("role", ["training-nodes", "arn:aws:iam::1:role/x", "arn:aws:iam::111111111111:user/x"])
def test_what_is_no_role_is_refused(role: str) -> None:
    compute = {"instance_type": "p5.48xlarge", "instance_count": 20, "role_arn": role}
    assert problems(compute=compute) == {"compute.role_arn"}


KEY = "arn:aws:kms:us-east-1:111111111111:key/01234567-89ab-cdef-0123-456789abcdef"


@pytest.mark.parametrize("section", ["express", "data_lake"])
def test_an_alias_is_no_key_to_give_rights_on(section: str) -> None:
    assert problems(**{section: {"kms_key_arn": KEY.replace("key/", "alias/")}}) == {f"{section}.kms_key_arn"}
    workload_from_dict(data(**{section: {"kms_key_arn": KEY}}))


@pytest.mark.parametrize("base", ["hot--use1-az6", "hot--use1-az6--x-s3", "xn--hot", "sthree-hot", "a-s3alias"])
def test_a_base_name_is_one_that_the_construct_takes(base: str) -> None:
    assert problems(express={"base_name": base}) == {"express.base_name"}


def test_a_name_that_is_too_long_is_none_of_a_directory_bucket() -> None:
    longest = f"{'a' * 47}--use1-az6--x-s3"
    workload_from_dict(data(express={"bucket_names": [longest]}))
    assert problems(express={"bucket_names": [f"a{longest}"]}) == {"express.bucket_names[0]"}
    assert problems(mountpoint={"cache": "express", "cache_bucket": f"a{longest}"}) == {"mountpoint.cache_bucket"}


def test_a_shared_cache_does_not_lie_in_the_hot_tier() -> None:
    hot = f"hot--{ZONE}--x-s3"
    given: dict[str, Any] = {
        "express": {"bucket_names": [hot]},
        "mountpoint": {"cache": "express", "cache_bucket": hot},
    }
    assert problems(**given) == {"mountpoint.cache_bucket"}


@pytest.mark.parametrize("digits", [3, 16, 41])
def test_an_id_of_s3_files_is_one_that_the_construct_takes(digits: int) -> None:
    given = {"file_system_id": f"fs-{'0' * digits}", "security_group_id": "sg-0123456789abcdef0"}
    assert problems(s3_files=given) == {"s3_files.file_system_id"}
