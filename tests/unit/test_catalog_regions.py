"""Regions: zone IDs as moto ships them, and what each region offers."""

from __future__ import annotations

import pytest
from boto3 import Session
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from training_storage.catalog import Region, default_catalog

REGIONS = default_catalog().regions


@pytest.mark.parametrize("name", sorted(RegionsAndZonesBackend.zones))
def test_zone_ids_are_those_that_moto_ships(name: str) -> None:
    assert set(REGIONS[name].zone_ids) == {zone.zone_id for zone in RegionsAndZonesBackend.zones[name]}


@pytest.mark.parametrize("region", REGIONS.values(), ids=lambda region: region.name)
def test_zone_ids_begin_with_the_prefix_of_the_region(region: Region) -> None:
    assert {zone.rpartition("-")[0] for zone in (*region.zone_ids, *region.express_zone_ids)} == {region.zone_id_prefix}


def test_prefixes_are_unique() -> None:
    assert len({region.zone_id_prefix for region in REGIONS.values()}) == len(REGIONS)


def test_partitions_are_those_that_botocore_knows() -> None:
    session = Session()
    assert {name: row.partition for name, row in REGIONS.items()} == {
        name: session.get_partition_for_region(name) for name in REGIONS
    }


def test_china_and_govcloud_are_there() -> None:
    assert {region.partition for region in REGIONS.values()} == {"aws", "aws-cn", "aws-us-gov"}


@pytest.mark.parametrize(
    "name", ["ca-west-1", "il-central-1", "mx-central-1", "ap-southeast-5", "ap-southeast-7", "ap-east-2"]
)
def test_regions_with_the_two_small_tiers_and_no_efa(name: str) -> None:  # User Guide using-fsx-lustre
    assert (REGIONS[name].lustre_tiers, REGIONS[name].lustre_efa) == ((125, 250), False)


@pytest.mark.parametrize(
    "name",
    ["ap-northeast-3", "eu-south-1", "eu-west-3", "sa-east-1", "me-south-1", "us-gov-east-1", "us-gov-west-1"],
)
def test_regions_without_persistent_2(name: str) -> None:  # User Guide using-fsx-lustre
    assert (REGIONS[name].lustre_tiers, REGIONS[name].lustre_efa) == ((), False)


@pytest.mark.parametrize("name", ["us-east-1", "us-east-2", "ap-northeast-1"])
def test_regions_with_published_prices_of_all_tiers(name: str) -> None:
    assert (REGIONS[name].lustre_tiers, REGIONS[name].lustre_efa) == ((125, 250, 500, 1000), True)


@pytest.mark.parametrize("name", ["us-west-2", "eu-central-1", "cn-north-1"])
def test_where_the_facts_say_nothing_the_row_says_nothing(name: str) -> None:
    assert (REGIONS[name].lustre_tiers, REGIONS[name].lustre_efa) == (None, None)


EXPRESS_ZONES = {  # S3 User Guide s3-express-Endpoints
    "us-east-1": {"use1-az4", "use1-az5", "use1-az6"},
    "us-east-2": {"use2-az1", "use2-az2"},
    "us-west-2": {"usw2-az1", "usw2-az3", "usw2-az4"},
    "ap-south-1": {"aps1-az1", "aps1-az3"},
    "ap-northeast-1": {"apne1-az1", "apne1-az4"},
    "eu-west-1": {"euw1-az1", "euw1-az3"},
    "eu-north-1": {"eun1-az1", "eun1-az2", "eun1-az3"},
}


@pytest.mark.parametrize("region", REGIONS.values(), ids=lambda region: region.name)
def test_express_zones(region: Region) -> None:
    assert set(region.express_zone_ids) == EXPRESS_ZONES.get(region.name, set())


def test_s3_files_where_its_cloudformation_types_are_registered() -> None:
    assert [name for name, region in REGIONS.items() if region.s3_files is False] == ["me-central-1"]
    assert [name for name, region in REGIONS.items() if region.s3_files is None] == ["me-south-1"]
