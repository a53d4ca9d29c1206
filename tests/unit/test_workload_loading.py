"""Workload files: everything wrong is said at once, with line, field, value, what is allowed and what to change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from training_storage.catalog import default_catalog
from training_storage.errors import Problem, WorkloadError
from training_storage.units import Duration, Rate, Size
from training_storage.workload import (
    Workload,
    load_workload,
    load_workload_with_lines,
    parse_workload,
    workload_from_dict,
)
from training_storage.workload.model import Checkpoints, Compute, Dataset, Network

ROOT = Path(__file__).resolve().parents[2]

MINIMAL = """\
name: llama3-70b
region: us-east-1
availability_zone_id: use1-az6
compute:
  instance_type: p5en.48xlarge
  instance_count: 64
dataset:
  size: 60 TB
"""


def small() -> dict[str, Any]:
    """Return the smallest workload as plain data."""
    return {
        "name": "llama3-70b",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "compute": {"instance_type": "p5en.48xlarge", "instance_count": 64},
        "dataset": {"size": "60 TB"},
    }


def with_field(path: str, value: object) -> dict[str, Any]:
    """Return the smallest workload with one field set; sections that it lacks are made."""
    data = small()
    section = data
    *parents, key = path.split(".")
    for parent in parents:
        section = section.setdefault(parent, {})
    section[key] = value
    if parents[:1] == ["checkpoints"] and key not in {"parameters", "size"}:
        section["size"] = "912 GiB"
    return data


def problems(data: dict[str, Any]) -> tuple[Problem, ...]:
    """Return what is wrong with a workload; empty for a right one."""
    try:
        workload_from_dict(data)
    except WorkloadError as error:
        return error.problems
    return ()


def problem(data: dict[str, Any]) -> Problem:
    """Return the one thing that is wrong with a workload."""
    (found,) = problems(data)
    return found


# What the file says, and what it says when it says nothing


def test_defaults_are_those_of_the_contract() -> None:
    workload = parse_workload(MINIMAL)
    assert workload.dataset.size == Size(60 * 10**12)
    assert (workload.compute.purchase, workload.compute.efa, workload.compute.image) == ("on-demand", "auto", "auto")
    assert (workload.dataset.interface, workload.dataset.access, workload.dataset.hot_fraction) == (
        "posix",
        "read-mostly",
        1,
    )
    assert workload.checkpoints is None
    assert workload.scratch_size == Size(0)
    assert (workload.hot_tier, workload.file_access) == ("auto", "auto")
    assert (workload.lustre.compression, workload.lustre.file_system_type_version) == ("lz4", "2.15")
    assert (workload.lustre.removal, workload.lustre.links, workload.lustre.gds) == (None, None, False)
    assert (workload.network.internet, workload.mountpoint.cache, workload.mountpoint.read_only) == (
        "nat",
        "auto",
        True,
    )
    lake = workload.data_lake
    assert (lake.encryption, lake.versioned, lake.removal) == ("kms", True, "retain")
    assert lake.checkpoints_to_infrequent_access_after == Duration(30 * 86400)
    assert lake.noncurrent_versions_expire_after == Duration(30 * 86400)
    assert lake.logs_expire_after == Duration(180 * 86400)
    assert lake.checkpoints_expire_after is None
    assert workload.monitoring.enabled is True
    life = workload.lifecycle
    assert (life.guard, life.warn_when_free_below, life.preload_paths) == (True, 0.1, ("/datasets",))
    assert (life.release_data_after, life.release_data_when_free_below) == (None, None)
    assert (life.release_when_idle_for, life.preload_at) == (None, None)


def test_defaults_of_checkpoints_are_those_of_the_contract() -> None:
    checkpoints = workload_from_dict(with_field("checkpoints.parameters", 70e9)).checkpoints
    assert checkpoints is not None
    assert (checkpoints.bytes_per_parameter, checkpoints.max_stall, checkpoints.restore_readers) == (14, 0.01, 1)
    assert (checkpoints.interval, checkpoints.max_write_time) == (Duration(1800), Duration(60))
    assert checkpoints.max_restore_time == Duration(300)
    assert (checkpoints.asynchronous, checkpoints.keep_hot, checkpoints.promote_every) == (False, 3, 10)
    assert (checkpoints.best, checkpoints.incomplete_expire_after) == (None, Duration(86400))


def test_the_whole_contract_file_is_read() -> None:
    workload = parse_workload("""\
name: llama3-70b
region: us-east-1
availability_zone_id: use1-az6
account: "111111111111"
network: {vpc_id: vpc-0abc, subnet_id: subnet-0abc, route_table_ids: [rtb-0abc]}
compute:
  instance_type: p5en.48xlarge
  instance_count: 64
  purchase: capacity-block
  capacity_reservation_id: cr-0abc
  start: 2026-12-01T11:30:00Z
  end: 2026-12-08T10:30:00Z
  placement_group: auto
  efa: auto
  image: ssm:/parameter/name
  user_commands: ["echo ready"]
dataset:
  size: 60 TB
  version: v3
  file_count: 1200000
  read_rate: {samples: {size: 146.6 MB, per_second_per_accelerator: 19.5, per_file: 1}}
  loader: {workers_per_accelerator: 8, prefetch: 2}
  source: s3://existing-bucket/prefix/
checkpoints: {parameters: 70e9, interval: auto, max_write_time: 60s}
scratch_size: 5 TB
hot_tier: lustre
file_access: mountpoint
lustre:
  deployment_type: PERSISTENT_2
  storage_type: SSD
  storage_capacity: 4800 GiB
  per_unit_storage_throughput: 250
  metadata_iops: automatic
  file_system_type_version: "2.15"
  kms_key_arn: arn:aws:kms:us-east-1:111111111111:key/0123
  links:
    - path: /datasets
      source: s3://bucket/prefix/
      import: [new, changed]
      export: []
      import_metadata_on_create: true
express: {base_name: hot, expire_after: 3d}
s3_files: {read_only: true, root_access: false}
mountpoint: {cache: auto, cache_size: 500 GiB, read_only: true}
data_lake:
  bucket_name: my-new-bucket
  encryption: kms
  kms_key_arn: arn:aws:kms:us-east-1:111111111111:key/0123
  checkpoints_to_infrequent_access_after: 30d
monitoring: {enabled: true, alarm_email: ops@example.com, alarm_topic_arn: "arn:aws:sns:us-east-1:111111111111:alarms"}
""")
    assert workload.account == "111111111111"
    assert workload.compute.start is not None
    assert workload.compute.start.isoformat() == "2026-12-01T11:30:00+00:00"
    assert workload.checkpoints is not None
    assert (workload.checkpoints.parameters, workload.checkpoints.interval) == (70e9, "auto")
    assert workload.dataset.read_rate is not None
    assert workload.dataset.read_rate.samples is not None
    assert workload.dataset.read_rate.samples.size == Size(146_600_000)
    assert workload.lustre.storage_capacity == Size(4800 * 2**30)
    assert workload.lustre.links is not None
    assert workload.lustre.links[0].import_ == ("new", "changed")
    assert workload.express.expire_after == Duration(3 * 86400)
    assert workload.dataset.version == "v3"


@pytest.mark.parametrize("name", ["llama3-70b", "lora-finetune", "vision-small-files"])
def test_examples_are_read(name: str) -> None:
    assert load_workload(ROOT / "examples" / f"{name}.yaml").name == name


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", "a"),
        ("name", "a" * 40),
        ("name", "a-1"),
        ("account", "012345678901"),
        ("compute.instance_count", 1),
        ("compute.instance_count", 64.0),
        ("compute.efa", True),
        ("compute.efa", False),
        ("compute.placement_group", "cluster"),
        ("compute.image", "ami-0123456789abcdef0"),
        ("compute.image", "ssm:/my/image"),
        ("dataset.hot_fraction", 0),
        ("dataset.hot_fraction", 1),
        ("dataset.file_count", 1.2e6),
        ("dataset.version", "2026-11-30"),
        ("dataset.source", "s3://a.bucket.with.dots/"),
        ("dataset.read_rate", {}),
        ("checkpoints.interval", "auto"),
        ("checkpoints.max_stall", 0.5),
        ("scratch_size", "0 GB"),
        ("lustre.storage_capacity", "1200 GiB"),
        ("lustre.metadata_iops", 192_000),
        ("lustre.links", []),
        ("lustre.gds", True),
        ("mountpoint.cache", "none"),
        ("data_lake.encryption", "s3"),
        ("network.internet", "none"),
        ("network", {"vpc_id": "vpc-0abc", "subnet_id": "subnet-0abc"}),
    ],
)
def test_legal_values_are_taken(path: str, value: object) -> None:
    assert problems(with_field(path, value)) == ()


# Single values


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("name", "9a", "is not a usable name"),
        ("name", "Llama", "is not a usable name"),
        ("name", "a_b", "is not a usable name"),
        ("name", "a" * 41, "is too long: 41 characters"),
        ("name", "", "is not a usable name"),
        ("account", 111111111111, "is read as a number"),
        ("account", "1111", "is not an account id"),
        ("compute.instance_count", 0, "is out of range"),
        ("compute.instance_count", -1, "is out of range"),
        ("compute.instance_count", 1.5, "is not a whole number"),
        ("compute.instance_count", True, "is not a whole number"),
        ("compute.instance_count", "64", "is not a whole number"),
        ("compute.instance_count", float("nan"), "is not a whole number"),
        ("compute.instance_count", 10**400, "is out of range"),
        ("compute.instance_count", [1], "is not a whole number"),
        ("compute.purchase", "capacity_block", "is not one of the known values"),
        ("compute.purchase", ["spot"], "is not one of the known values"),
        ("compute.efa", "no", "is neither auto, true nor false"),
        ("compute.image", "latest", "is not an image"),
        ("compute.user_commands", "echo", "is not a list"),
        ("compute.user_commands", [" "], "is not a shell command"),
        ("compute.capacity_reservation_id", "0abc", "is not an id of the form cr-..."),
        ("dataset.size", 60, "has no unit"),
        ("dataset.size", "60", "is not a quantity with its unit"),
        ("dataset.size", "60 tb", "unknown unit 'tb'"),
        ("dataset.size", "0 TB", "is out of range"),
        ("dataset.size", "1001 PB", "is out of range"),
        ("dataset.size", "1e999 TB", "is out of range"),
        ("dataset.size", "-1 TB", "is not a quantity with its unit"),
        ("dataset.size", ["1 TB"], "is not a quantity with its unit"),
        ("dataset.average_file_size", "50 MB/s", "is not a quantity with its unit"),
        ("dataset.file_count", 0, "is out of range"),
        ("dataset.version", "a/b", "is not usable as a folder name"),
        ("dataset.version", 3, "is read as a number"),
        ("dataset.hot_fraction", 1.01, "is out of range"),
        ("dataset.hot_fraction", -0.1, "is out of range"),
        ("dataset.hot_fraction", "half", "is not a plain number"),
        ("dataset.hot_fraction", float("nan"), "is out of range"),
        ("dataset.hot_fraction", float("inf"), "is out of range"),
        ("dataset.source", "s3://bucket/prefix", "is not the address of a prefix in S3"),
        ("dataset.source", "bucket/prefix/", "is not the address of a prefix in S3"),
        ("dataset.source", "s3://Bucket/p/", "names a bucket that cannot be"),
        ("dataset.source", "s3://192.168.1.1/", "names a bucket that cannot be"),
        ("dataset.source", "s3://hot--use1-az6--x-s3/", "names a bucket that cannot be"),
        ("dataset.source", "s3://bucket/a//b/", "has a prefix that is no plain path"),
        ("dataset.source", "s3://bucket/../b/", "has a prefix that is no plain path"),
        ("dataset.read_rate", {"per_accelerator": "2.86 GB"}, "is not a quantity with its unit"),
        ("dataset.read_rate", {"samples": {"size": "1 MB", "per_second_per_accelerator": 0}}, "is out of range"),
        ("checkpoints.max_stall", 0, "is out of range"),
        ("checkpoints.max_stall", 1, "is out of range"),
        ("checkpoints.interval", 30, "has no unit"),
        ("checkpoints.interval", "30 min", "unknown unit 'min'"),
        ("checkpoints.interval", "0s", "is out of range"),
        ("checkpoints.keep_hot", 0, "is out of range"),
        ("checkpoints.asynchronous", "yes", "is neither true nor false"),
        ("lustre.storage_capacity", "4.8 TB", "is not a whole number of GiB"),
        ("lustre.metadata_iops", "auto", "is neither automatic nor a whole number"),
        ("lustre.file_system_type_version", 2.15, "is read as a number"),
        ("lustre.backup_retention_days", 91, "is out of range"),
        ("lustre.kms_key_arn", "alias/key", "is not an ARN of KMS"),
        ("express.base_name", "with.dots", "is not the base of a bucket name"),
        ("express.base_name", "hot--use1-az6--x-s3", "is a name that general purpose buckets cannot have"),
        ("express.expire_after", "36h", "is not an age that a lifecycle rule can have"),
        ("data_lake.bucket", "my.bucket", "has a full stop"),
        ("data_lake.bucket_name", "ab", "is not a bucket name"),
        ("data_lake.checkpoints_to_infrequent_access_after", "29d", "is not an age that a lifecycle rule can have"),
        ("monitoring.alarm_email", "ops", "is not an e-mail address"),
        ("monitoring.alarm_topic_arn", "arn:aws:sqs:us-east-1:111111111111:q", "is not an ARN of SNS"),
        ("network.vpc_id", "subnet-0abc", "is not an id of the form vpc-..."),
        ("compute", ["p5"], "is not a mapping"),
        ("checkpoints", "none", "is not a mapping"),
        ("region", "us-east-1a", "is not a region"),
    ],
)
def test_illegal_values_are_refused(path: str, value: object, what: str) -> None:
    found = [
        each for each in problems(with_field(path, value)) if each.path.startswith(path) and each.what.startswith(what)
    ]
    assert len(found) == 1
    assert found[0].allowed


def test_a_value_is_shown_as_it_is_written() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(MINIMAL.replace("60 TB", "060"))
    assert caught.value.problems[0].value == "060"


def test_an_unquoted_account_is_told_how_to_keep_its_zeros() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload("account: 012345678901\n" + MINIMAL)
    (found,) = caught.value.problems
    assert (found.line, found.fix) == (1, 'put it in quotes: "012345678901"')


def test_yaml_1_1_words_are_told_what_to_write() -> None:
    assert problem(with_field("monitoring.enabled", "no")).fix.startswith("write false")


def test_a_unit_in_the_wrong_case_is_told_the_right_one() -> None:
    assert problem(with_field("dataset.size", "60 gb")).fix == "did you mean GB?"


# Keys


def test_missing_keys_are_named_with_an_example() -> None:
    found = {each.path: each.fix for each in problems({"compute": {}, "dataset": {}})}
    assert found == {
        "name": "add name: llama3-70b",
        "region": "add region: us-east-1",
        "availability_zone_id": "add availability_zone_id: use1-az6",
        "compute.instance_type": "add instance_type: p5en.48xlarge",
        "compute.instance_count": "add instance_count: 64",
        "dataset.size": "add size: 60 TB",
    }


def test_missing_section_is_told_what_it_needs() -> None:
    data = small()
    del data["compute"]
    assert problem(data).fix == "add compute, with instance_type and instance_count"


@pytest.mark.parametrize(
    ("path", "fix"),
    [
        ("regoin", "did you mean region?"),
        ("compute.instance_typ", "did you mean instance_type?"),
        ("lustre.storage_capacity_gib", "did you mean storage_capacity?"),
        ("compute.hot_tier", "belongs at the top of the file"),
        ("hot_fraction", "belongs in dataset"),
        ("dataset.keep_hot", "belongs in checkpoints"),
        ("per_unit_storage_throughput", "belongs in lustre"),
        ("compute.root_access", "belongs in s3_files"),
        ("dataset.zzzzzz", "remove it"),
    ],
)
def test_unknown_keys_name_the_nearest_or_the_right_section(path: str, fix: str) -> None:
    found = problem(with_field(path, 1))
    assert (found.path, found.what, found.fix) == (path, "is an unknown key", fix)


def test_the_python_name_of_import_is_no_key_of_a_file() -> None:
    link = {"path": "/a", "source": "s3://bucket-a/a/", "import_": ["new"]}
    assert problem(with_field("lustre.links", [link])).fix == "did you mean import?"


@pytest.mark.parametrize(
    ("path", "value", "fix"),
    [
        ("compute.purchase", "on_demand", "did you mean on-demand?"),
        ("lustre.deployment_type", "persistent_2", "did you mean PERSISTENT_2?"),
        ("hot_tier", "lustr", "did you mean lustre?"),
    ],
)
def test_unknown_words_name_the_nearest(path: str, value: str, fix: str) -> None:
    assert problem(with_field(path, value)).fix == fix


# Keys that stand together


@pytest.mark.parametrize(
    ("section", "values", "path", "what"),
    [
        (
            "dataset",
            {"size": "1 TB", "file_count": 5, "average_file_size": "1 MB"},
            "dataset.average_file_size",
            "is given together with file_count",
        ),
        (
            "dataset",
            {"size": "1 TB", "read_rate": {"per_accelerator": "1 GB/s", "reference": "unet3d"}},
            "dataset.read_rate.reference",
            "is given together with per_accelerator",
        ),
        ("checkpoints", {}, "checkpoints", "says neither parameters nor size"),
        ("checkpoints", {"parameters": 1e9, "size": "1 GiB"}, "checkpoints.size", "is given together with parameters"),
        (
            "network",
            {"vpc_id": "vpc-0abc"},
            "network.subnet_id",
            "a VPC and its subnet are given together or not at all",
        ),
        (
            "network",
            {"subnet_id": "subnet-0abc"},
            "network.vpc_id",
            "a VPC and its subnet are given together or not at all",
        ),
        ("network", {"route_table_ids": ["rtb-0abc"]}, "network.route_table_ids", "are route tables of no given VPC"),
        (
            "network",
            {"vpc_id": "vpc-0abc", "subnet_id": "subnet-0abc", "internet": "none"},
            "network.internet",
            "says how a VPC is made, and one is given",
        ),
        (
            "mountpoint",
            {"cache": "none", "cache_size": "1 GiB"},
            "mountpoint.cache_size",
            "is the size of a cache that is switched off",
        ),
        (
            "data_lake",
            {"bucket": "one-bucket", "bucket_name": "another"},
            "data_lake.bucket_name",
            "is given together with bucket",
        ),
        (
            "data_lake",
            {"encryption": "s3", "kms_key_arn": "arn:aws:kms:us-east-1:111111111111:key/0"},
            "data_lake.kms_key_arn",
            "is given with encryption: s3",
        ),
        (
            "lustre",
            {"backup_retention_days": 7},
            "lustre.backup_retention_days",
            "a file system with links to S3 cannot have backups",
        ),
        (
            "lustre",
            {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 4000},
            "lustre.links",
            "S3 links are not supported",
        ),
        ("lustre", {"storage_capacity": "3600 GiB"}, "lustre.storage_capacity", "no capacity of PERSISTENT_2 SSD"),
        (
            "lustre",
            {"deployment_type": "SCRATCH_2", "per_unit_storage_throughput": 200},
            "lustre.per_unit_storage_throughput",
            "SCRATCH_2 SSD has no throughput tiers",
        ),
        (
            "lustre",
            {"per_unit_storage_throughput": 200},
            "lustre.per_unit_storage_throughput",
            "no throughput tier of PERSISTENT_2 SSD",
        ),
        ("lustre", {"metadata_iops": 1501}, "lustre.metadata_iops", "no legal number of metadata IOPS"),
        (
            "lustre",
            {"file_system_type_version": "2.10"},
            "lustre.file_system_type_version",
            "Lustre 2.10 has no links to S3",
        ),
    ],
)
def test_keys_that_exclude_or_need_each_other(section: str, values: dict[str, Any], path: str, what: str) -> None:
    found = [each for each in problems(with_field(section, values)) if each.path == path]
    assert any(each.what.startswith(what) for each in found)


def test_links_may_not_lie_in_each_other() -> None:
    links = [{"path": "/data", "source": "s3://bucket-a/a/"}, {"path": "/data/train", "source": "s3://bucket-a/b/"}]
    found = problem(with_field("lustre.links", links))
    assert found.path == "lustre.links[1].path"
    assert found.rule == "links.paths-apart"


def test_a_link_event_named_twice_is_refused() -> None:
    links = [{"path": "/data", "source": "s3://bucket-a/a/", "import": ["new", "new"]}]
    assert problem(with_field("lustre.links", links)).path == "lustre.links[0].import"


def test_nine_links_are_too_many() -> None:
    links = [{"path": f"/d{n}", "source": f"s3://bucket-a/d{n}/"} for n in range(9)]
    assert problem(with_field("lustre.links", links)).rule == "links.count"


def test_thousands_of_links_are_refused_with_one_problem() -> None:
    links = [{"path": "/a", "source": "s3://bucket-a/a/"}] * 5000
    assert problem(with_field("lustre.links", links)).value == 5000


def test_a_reservation_needs_its_id() -> None:
    assert problem(with_field("compute.purchase", "reservation")).path == "compute.capacity_reservation_id"


def test_an_id_needs_a_purchase_that_uses_it() -> None:
    assert problem(with_field("compute.capacity_reservation_id", "cr-0abc")).path == "compute.capacity_reservation_id"


def test_times_belong_to_a_capacity_block() -> None:
    assert problem(with_field("compute.start", "2026-12-01T11:30:00Z")).path == "compute.start"


def block(**changes: object) -> dict[str, Any]:
    """Return a workload on a Capacity Block."""
    data = small()
    data["compute"] |= {
        "instance_count": 16,
        "purchase": "capacity-block",
        "capacity_reservation_id": "cr-0123",
        "start": "2026-12-01T11:30:00Z",
        "end": "2026-12-08T10:30:00Z",
    } | changes
    return data


def test_a_capacity_block_is_taken() -> None:
    assert problems(block()) == ()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"end": "2026-12-01T11:30:00Z"}, "compute.end"),
        ({"start": "2026-12-01T11:30:00"}, "compute.start"),
        ({"start": "1 December"}, "compute.start"),
        ({"placement_group": "cluster"}, "compute.placement_group"),
    ],
)
def test_report_28_capacity_block_exclusions(changes: dict[str, object], path: str) -> None:
    assert [each.path for each in problems(block(**changes))] == [path]


@pytest.mark.parametrize("key", ["capacity_reservation_id", "start", "end"])
def test_report_28_a_capacity_block_needs_id_and_times(key: str) -> None:
    data = block()
    del data["compute"][key]
    assert [each.path for each in problems(data)] == [f"compute.{key}"]


# The catalog


def test_unknown_region_names_the_nearest() -> None:
    found = problem(with_field("region", "us-eastt-1"))
    assert "us-east-1" in found.fix


@pytest.mark.parametrize("zone", ["us-east-1a", "us-west-2b", "eu-central-1c"])
def test_report_15_a_zone_name_is_refused_and_an_id_wanted(zone: str) -> None:
    found = problem(with_field("availability_zone_id", zone))
    assert "an id like use1-az6 is wanted" in found.what
    assert "describe-availability-zones" in found.fix


def test_report_15_a_zone_of_another_region_is_refused_with_its_region() -> None:
    found = problem(with_field("availability_zone_id", "usw2-az1"))
    assert "us-west-2" in found.what
    assert "use1-az6" in found.allowed


@pytest.mark.parametrize("name", sorted(default_catalog().regions))
def test_every_zone_of_every_region_is_taken(name: str) -> None:
    for zone in default_catalog().regions[name].zone_ids:
        data = small() | {"region": name, "availability_zone_id": zone}
        assert [each for each in problems(data) if each.path in {"region", "availability_zone_id"}] == []


@pytest.mark.parametrize("name", sorted(default_catalog().instance_types))
def test_report_27_efa_only_on_types_that_have_it(name: str) -> None:
    data = small()
    facts = default_catalog().instance_types[name]
    data["compute"] = {"instance_type": name, "instance_count": 2, "efa": True}
    found = [each for each in problems(data) if each.path == "compute.efa"]
    assert bool(found) is not facts.has_efa
    assert all(name in each.what for each in found)


def test_report_27_an_unknown_type_is_asked_for_its_facts() -> None:
    data = small()
    data["compute"] = {"instance_type": "p9.48xlarge", "instance_count": 2, "efa": True}
    found = problem(data)
    assert found.path == "compute.instance_type"
    for fact in (
        "accelerators",
        "network_cards",
        "efa_interfaces",
        "primary_card_has_efa",
        "network_gbps",
        "architecture",
    ):
        assert fact in found.allowed


FACTS = {
    "accelerators": 8,
    "network_cards": 8,
    "efa_interfaces": 8,
    "primary_card_has_efa": True,
    "network_gbps": 3200,
    "architecture": "x86_64",
}


def unknown_type(**changes: object) -> dict[str, Any]:
    """Return a workload on a type that the catalog does not know."""
    data = small()
    data["compute"] = {"instance_type": "p9.48xlarge", "instance_count": 2, "efa": True, "type_facts": FACTS | changes}
    return data


def test_report_27_an_unknown_type_with_its_facts_is_taken() -> None:
    assert problems(unknown_type()) == ()


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"efa_interfaces": 9}, "compute.type_facts.efa_interfaces"),
        ({"primary_card_has_efa": False}, "compute.type_facts.efa_interfaces"),
        ({"efa_interfaces": 0}, "compute.type_facts.primary_card_has_efa"),
        ({"efa_interfaces": 0, "primary_card_has_efa": False}, "compute.efa"),
        (
            {"efa_interfaces": 0, "primary_card_has_efa": False, "fsx_efa_client": True},
            "compute.type_facts.fsx_efa_client",
        ),
        ({"architecture": "arm"}, "compute.type_facts.architecture"),
        ({"accelerators": 0}, "compute.type_facts.accelerators"),
    ],
)
def test_facts_that_contradict_each_other_are_refused(changes: dict[str, object], path: str) -> None:
    assert path in [each.path for each in problems(unknown_type(**changes))]


def test_a_misspelt_type_names_the_nearest() -> None:
    assert problem(with_field("compute.instance_type", "p5en.48xlrage")).fix.startswith("did you mean p5en.48xlarge?")


def test_facts_of_a_known_type_are_refused() -> None:
    assert problem(with_field("compute.type_facts", FACTS)).path == "compute.type_facts"


@pytest.mark.parametrize("name", sorted(default_catalog().instance_types))
def test_purchase_follows_what_ec2_sells(name: str) -> None:
    facts = default_catalog().instance_types[name]
    data = small()
    data["compute"] = {"instance_type": name, "instance_count": 2, "purchase": "spot"}
    assert bool(problems(data)) is (bool(facts.usage_classes) and "spot" not in facts.usage_classes)


@pytest.mark.parametrize("model", default_catalog().reference_models())
def test_a_reference_is_taken_exactly_where_the_accelerator_has_a_row(model: str) -> None:
    measured = default_catalog().reference_accelerators(model)
    for facts in default_catalog().instance_types.values():
        data = with_field("dataset.read_rate", {"reference": model})
        data["compute"]["instance_type"] = facts.name
        found = [each for each in problems(data) if each.path == "dataset.read_rate.reference"]
        assert bool(found) is (facts.accelerator_model not in measured)
        assert all(accelerator in each.allowed for each in found for accelerator in measured)


def test_an_unknown_reference_names_the_nearest() -> None:
    assert problem(with_field("dataset.read_rate", {"reference": "unet"})).fix == "did you mean unet3d?"


def test_a_reference_needs_a_known_accelerator() -> None:
    data = unknown_type()
    data["dataset"]["read_rate"] = {"reference": "unet3d"}
    assert "per_accelerator, samples or tokens" in problem(data).fix


@pytest.mark.parametrize(
    ("path", "arn"),
    [
        ("lustre.kms_key_arn", "arn:aws:kms:eu-west-1:111111111111:key/0"),
        ("data_lake.kms_key_arn", "arn:aws-cn:kms:us-east-1:111111111111:key/0"),
        ("monitoring.alarm_topic_arn", "arn:aws:sns:eu-west-1:111111111111:alarms"),
    ],
)
def test_keys_and_topics_stand_in_the_region(path: str, arn: str) -> None:
    found = problem(with_field(path, arn))
    assert found.path == path
    assert "us-east-1" in found.allowed


@pytest.mark.parametrize("name", sorted(default_catalog().instance_types))
def test_gds_only_on_types_that_fsx_serves_with_it(name: str) -> None:
    data = with_field("lustre.gds", True)
    data["compute"]["instance_type"] = name
    found = [each for each in problems(data) if each.path == "lustre.gds"]
    assert bool(found) is not bool(default_catalog().instance_types[name].gds)


# Everything at once


def test_problems_of_every_kind_come_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_workload(
            """\
name: Llama
region: us-east-1
availability_zone_id: usw2-az1
account: 111111111111
compute:
  instance_type: p5en.48xlarg
  instance_count: 0
  purchase: reservation
  efa: no
dataset:
  size: 60
  size: 61
  average_file_size: 1 MB
  file_count: 3
checkpoints:
lustre:
  storage_capacity: 3600 GiB
  links:
    - path: /a
      source: s3://bucket-a/a/
    - {path: /a/b, source: s3://bucket-a/b/}
""",
            file="w.yaml",
        )
    found = [(each.line, each.path) for each in caught.value.problems]
    assert found == [
        (1, "name"),
        (3, "availability_zone_id"),
        (4, "account"),
        (5, "compute.capacity_reservation_id"),
        (6, "compute.instance_type"),
        (7, "compute.instance_count"),
        (9, "compute.efa"),
        (12, "dataset.size"),
        (14, "dataset.file_count"),
        (15, "checkpoints"),
        (17, "lustre.storage_capacity"),
        (21, "lustre.links[1].path"),
    ]
    assert {each.file for each in caught.value.problems} == {"w.yaml"}


def test_a_file_is_named_as_the_user_named_it(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(MINIMAL.replace("64", "0"), encoding="utf-8")
    with pytest.raises(WorkloadError, match=rf"{file}:6: compute.instance_count: is out of range; got 0; allowed: "):
        load_workload(file)


def test_lines_come_with_the_workload(tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(MINIMAL, encoding="utf-8")
    workload, lines = load_workload_with_lines(file)
    assert workload == parse_workload(MINIMAL)
    assert lines.line("compute.instance_count") == 6


def test_problems_are_plain_data() -> None:
    (found,) = problems(with_field("dataset.size", 60))
    assert json.loads(json.dumps(found.to_dict()))["path"] == "dataset.size"


def test_plain_data_and_text_give_the_same_workload() -> None:
    assert workload_from_dict(small()) == parse_workload(MINIMAL)
    assert hash(workload_from_dict(small())) == hash(parse_workload(MINIMAL))


# The model in code


def test_a_workload_can_be_made_in_code() -> None:
    made = Workload(
        name="llama3-70b",
        region="us-east-1",
        availability_zone_id="use1-az6",
        compute=Compute(instance_type="p5en.48xlarge", instance_count=64),
        dataset=Dataset(size=Size(60 * 10**12)),
    )
    assert made == parse_workload(MINIMAL)


def test_a_workload_made_in_code_is_checked() -> None:
    with pytest.raises(WorkloadError, match="instance_count: is out of range; got 0"):
        Compute(instance_type="p5en.48xlarge", instance_count=0)
    with pytest.raises(WorkloadError, match="says neither parameters nor size"):
        Checkpoints()


@pytest.mark.parametrize("data", [[], "x", None, 5, {1: 2}, {"name": {}}])
def test_plain_data_of_another_shape_is_our_error(data: Any) -> None:
    assert problems(data)


def test_a_section_read_by_itself_is_checked() -> None:
    assert Network.model_validate({"internet": "none"}) == Network(internet="none")
    with pytest.raises(WorkloadError, match="is an unknown key"):
        Network.model_validate({"internt": "none"})


def test_a_section_is_frozen() -> None:
    section = Network()
    with pytest.raises(AttributeError, match="frozen"):
        section.internet = "none"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del section.internet


def test_a_section_knows_what_was_given() -> None:
    assert Network(internet="nat").model_fields_set == {"internet"}
    assert Network().model_fields_set == frozenset()
    assert Network(internet="nat") == Network()


def test_quantities_in_code_carry_their_unit() -> None:
    workload = workload_from_dict(with_field("dataset.read_rate", {"per_accelerator": "2.86 GB/s"}))
    assert workload.dataset.read_rate is not None
    assert workload.dataset.read_rate.per_accelerator == Rate(2_860_000_000)
