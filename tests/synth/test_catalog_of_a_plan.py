"""Facts of a user's catalog file go all the way: what is planned with them is also built with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2

from tests.assemblies import synthesize
from training_storage import LustreFileSystem, ValidationError, load_catalog, plan
from training_storage.catalog import Catalog
from training_storage.workload import workload_from_dict

TIERS = ("125", "250", "500", "1000")
TABLES: dict[str, Any] = {
    "lustre_options": {"PERSISTENT_2": {"SSD": {"step_gib": dict.fromkeys(TIERS, 5000), "first_gib": []}}},
    "lustre_limits": {"max_links": {"value": 9}},
    "image_families": {"dl-base-gpu": {"parameters": {"x86_64": "/images/of-our-own"}}},
    "object_storage": {"mountpoint_cache_disk_share_max": {"value": 0.95}},
}
LINKS = [{"path": f"/d{number}", "source": f"s3://bucket/d{number}/"} for number in range(9)]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    file = tmp_path / "my-facts.json"
    file.write_text(json.dumps(TABLES), encoding="utf-8")
    return load_catalog(file)


def data(**sections: Any) -> dict[str, Any]:
    return {
        "name": "mine",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "compute": {"instance_type": "p5.48xlarge", "instance_count": 4},
        "dataset": {"size": "2 TB", "file_count": 2000, "read_rate": {"per_accelerator": "10 MB/s"}},
        **sections,
    }


def test_capacity_links_and_image_are_those_of_the_users_facts(catalog: Catalog) -> None:
    given = data(hot_tier="lustre", lustre={"storage_capacity": "10000 GiB", "links": LINKS})
    made = synthesize(plan(workload_from_dict(given, catalog=catalog), catalog=catalog))
    (file_system,) = made.all("AWS::FSx::FileSystem")
    assert file_system["Properties"]["StorageCapacity"] == 10_000
    assert len(made.all("AWS::FSx::DataRepositoryAssociation")) == 9
    (template,) = made.of("mine-compute", "AWS::EC2::LaunchTemplate").values()
    image = template["Properties"]["LaunchTemplateData"]["ImageId"]
    assert image == "resolve:ssm:/images/of-our-own"


def test_the_cache_takes_the_share_of_the_users_facts(catalog: Catalog) -> None:
    # 30,400 GB are the disks of p5.48xlarge: EC2 DescribeInstanceTypes.
    made = plan(workload_from_dict(data(mountpoint={"cache": "nvme"}), catalog=catalog), catalog=catalog)
    (lake,) = made.mounts
    assert lake.options["cache_size_mib"] == int(30_400e9 * 0.95 / 2**20)
    synthesize(made)


def test_without_the_facts_a_construct_refuses(catalog: Catalog, app: cdk.App) -> None:
    stack = cdk.Stack(app, "Stack")
    vpc = ec2.Vpc(stack, "Vpc", max_azs=1)
    subnet = vpc.private_subnets[0]
    with pytest.raises(ValidationError, match="multiples of 2400 GiB"):
        LustreFileSystem(stack, "Ours", vpc=vpc, subnet=subnet, storage_capacity_gib=10_000)
    LustreFileSystem(stack, "Theirs", vpc=vpc, subnet=subnet, storage_capacity_gib=10_000, catalog=catalog)
