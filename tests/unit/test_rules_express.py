"""Rules of directory buckets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from training_storage.catalog import default_catalog, load_catalog
from training_storage.rules.base import find_problems
from training_storage.rules.express import (
    DIRECTORY_BUCKET_RULES,
    DirectoryBucketSettings,
    directory_bucket_suffix,
    zone_of_directory_bucket,
)

NEW = DirectoryBucketSettings(region="us-east-1", availability_zone_id="use1-az4", base_name="ckpt")
EXISTING = DirectoryBucketSettings(region="us-east-1", existing=True, bucket_name="ckpt--use1-az4--x-s3")

# Amazon S3 User Guide, directory bucket zones
ZONES = {
    "us-east-1": ("use1-az4", "use1-az5", "use1-az6"),
    "us-east-2": ("use2-az1", "use2-az2"),
    "us-west-2": ("usw2-az1", "usw2-az3", "usw2-az4"),
    "ap-south-1": ("aps1-az1", "aps1-az3"),
    "ap-northeast-1": ("apne1-az1", "apne1-az4"),
    "eu-west-1": ("euw1-az1", "euw1-az3"),
    "eu-north-1": ("eun1-az1", "eun1-az2", "eun1-az3"),
}
EVERY_ZONE = [(region, zone) for region, zones in ZONES.items() for zone in zones]


def rules_broken(settings: DirectoryBucketSettings) -> list[str | None]:
    return [problem.rule for problem in find_problems(DIRECTORY_BUCKET_RULES, settings)]


def said(settings: DirectoryBucketSettings) -> str:
    (problem,) = find_problems(DIRECTORY_BUCKET_RULES, settings)
    return str(problem)


def test_nothing_known_breaks_nothing() -> None:
    assert rules_broken(DirectoryBucketSettings()) == []


# -- prefixes that expire


def test_prefixes_beside_each_other_expire() -> None:
    assert rules_broken(replace(NEW, expires=True, expire_prefixes=("a/", "ab/", None))) == []


@pytest.mark.parametrize("prefixes", [("a/", "a/"), ("a/", "a/b/"), ("a/b/", "a/")])
def test_a_prefix_in_another_one_is_named_with_the_one_to_keep(prefixes: tuple[str, str]) -> None:
    assert "keep a/ alone" in said(replace(NEW, expires=True, expire_prefixes=prefixes))


def test_an_age_known_at_deploy_is_an_age() -> None:
    assert rules_broken(replace(NEW, expires=True, expire_after_days=None, expire_prefixes=("a/",))) == []


# -- zones


@pytest.mark.parametrize(("region", "zone"), EVERY_ZONE)
def test_zones_with_s3_express_pass(region: str, zone: str) -> None:
    assert rules_broken(replace(NEW, region=region, availability_zone_id=zone)) == []


@pytest.mark.parametrize(("region", "zone"), EVERY_ZONE)
def test_zones_with_s3_express_pass_where_the_region_is_not_known(region: str, zone: str) -> None:
    assert rules_broken(replace(NEW, region=None, availability_zone_id=zone)) == []


@pytest.mark.parametrize("name", ["us-east-1a", "us-west-2d", "eu-north-1c", "us-gov-west-1a", "us-west-2-lax-1a"])
def test_report_16_a_zone_name_is_refused_saying_what_is_wanted(name: str) -> None:
    text = said(replace(NEW, availability_zone_id=name))
    assert "zone name" in text
    assert "use1-az4, use1-az5, use1-az6" in text
    assert f"'{name}'" in text


@pytest.mark.parametrize("name", ["us-east-1a", "eu-west-1b"])
def test_report_16_without_a_known_region_a_form_is_shown(name: str) -> None:
    assert "a zone ID such as use1-az4" in said(replace(NEW, region=None, availability_zone_id=name))


@pytest.mark.parametrize("text", ["", "use1", "us-east-1", "az4", "USE1-AZ4", "use1-az4 ", "use1-az4--x-s3"])
def test_report_16_what_is_no_zone_id_breaks_one_rule(text: str) -> None:
    assert rules_broken(replace(NEW, availability_zone_id=text)) == ["directory-bucket.zone-id"]


@pytest.mark.parametrize(("region", "zone"), EVERY_ZONE)
def test_report_16_a_zone_of_another_region_is_refused_naming_both(region: str, zone: str) -> None:
    for other in ZONES:
        if other != region:
            settings = replace(NEW, region=other, availability_zone_id=zone)
            assert rules_broken(settings) == ["directory-bucket.zone-region"]
            assert f"a zone of {region}, and the stack is in {other}" in said(settings)


def test_a_zone_without_s3_express_names_those_of_the_region() -> None:
    text = said(replace(NEW, availability_zone_id="use1-az1"))
    assert "use1-az4, use1-az5, use1-az6 in us-east-1" in text
    assert "FSx for Lustre" in text


@pytest.mark.parametrize(("region", "zone"), [("eu-central-1", "euc1-az1"), ("cn-north-1", "cnn1-az1")])
def test_a_region_without_s3_express_names_the_regions_that_have_it(region: str, zone: str) -> None:
    text = said(replace(NEW, region=region, availability_zone_id=zone))
    assert f"{region} has none" in text
    assert "us-east-2 (use2-az1, use2-az2)" in text
    assert "FSx for Lustre" in text


def test_a_region_that_the_catalog_lacks_is_no_reason_to_pass() -> None:
    assert rules_broken(replace(NEW, region="xx-new-1", availability_zone_id="xxn1-az1")) == ["directory-bucket.zone"]
    assert rules_broken(replace(NEW, region=None, availability_zone_id="xxn1-az1")) == ["directory-bucket.zone"]


def test_a_catalog_of_ones_own_can_add_zones(tmp_path: Path) -> None:
    facts = tmp_path / "facts.yaml"
    facts.write_text("regions: {eu-central-1: {express_zone_ids: [euc1-az1, euc1-az2]}}\n", encoding="utf-8")
    mine = replace(NEW, region="eu-central-1", availability_zone_id="euc1-az2")
    assert rules_broken(mine) == ["directory-bucket.zone"]
    assert rules_broken(replace(mine, catalog=load_catalog(facts))) == []


# -- names


@pytest.mark.parametrize("base", ["a", "ckpt", "a-b--c", "0", "x" * 47])
def test_base_names_pass(base: str) -> None:
    assert rules_broken(replace(NEW, base_name=base)) == []


@pytest.mark.parametrize(
    "base",
    ["", "a.b", "Ckpt", "CKPT", "a_b", "a b", "-a", "a-", "é", "a/b", "xn--a", "sthree-a", "sthree-configurator"],
)
def test_report_16_other_base_names_break_one_rule(base: str) -> None:
    assert rules_broken(replace(NEW, base_name=base)) == ["directory-bucket.base-name"]


@pytest.mark.parametrize("base", ["amzn-s3-demo-a", "a-s3alias", "a--ol-s3"])
def test_reserved_parts_of_base_names_break_one_rule(base: str) -> None:
    assert rules_broken(replace(NEW, base_name=base)) == ["directory-bucket.base-name"]


@pytest.mark.parametrize(("region", "zone"), EVERY_ZONE)
def test_report_16_63_characters_with_the_suffix_are_the_most(region: str, zone: str) -> None:
    longest = 63 - len(f"--{zone}--x-s3")
    settings = replace(NEW, region=region, availability_zone_id=zone, base_name="x" * longest)
    assert rules_broken(settings) == []
    longer = replace(settings, base_name="x" * (longest + 1))
    assert rules_broken(longer) == ["directory-bucket.name-length"]
    assert f"at most {longest} characters" in said(longer)


@pytest.mark.parametrize("zone", ["use1-az4", "use1-az5", "usw2-az1", "usw2-lax1-az1"])
@pytest.mark.parametrize("ending", ["--{}--x-s3", "--{}", "--x-s3", "--{}--xa-s3"])
def test_report_16_the_suffix_is_not_doubled(zone: str, ending: str) -> None:
    settings = replace(NEW, base_name="ckpt" + ending.format(zone))
    assert rules_broken(settings) == ["directory-bucket.suffix"]
    assert "base_name='ckpt'" in said(settings)
    assert ending.format(zone) in said(settings)


def test_a_suffix_alone_has_no_name_to_advise() -> None:
    text = [str(problem) for problem in find_problems(DIRECTORY_BUCKET_RULES, replace(NEW, base_name="--x-s3"))]
    assert any("give a name in front of it" in each for each in text)


def test_the_suffix_is_that_of_the_catalog() -> None:
    assert directory_bucket_suffix("use1-az4", default_catalog()) == "--use1-az4--x-s3"


@pytest.mark.parametrize("name", ["ckpt--use1-az4--x-s3", "a--b--usw2-az1--x-s3", "a--usw2-lax1-az1--x-s3"])
def test_names_of_existing_buckets_pass(name: str) -> None:
    assert rules_broken(replace(EXISTING, bucket_name=name)) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ckpt",
        "ckpt--use1-az4",
        "ckpt--x-s3",
        "Ckpt--use1-az4--x-s3",
        "a.b--use1-az4--x-s3",
        "--use1-az4--x-s3",
        "ckpt--us-east-1a--x-s3",
        f"{'x' * 48}--use1-az4--x-s3",
        "s3://ckpt--use1-az4--x-s3",
    ],
)
def test_report_16_other_names_of_existing_buckets_fail(name: str) -> None:
    assert rules_broken(replace(EXISTING, bucket_name=name)) == ["directory-bucket.existing-name"]


def test_an_existing_bucket_of_another_region_is_refused() -> None:
    settings = replace(EXISTING, bucket_name="ckpt--usw2-az1--x-s3", availability_zone_id="usw2-az1")
    assert rules_broken(settings) == ["directory-bucket.zone-region"]


def test_an_existing_bucket_may_be_in_a_zone_that_the_catalog_lacks() -> None:
    assert rules_broken(replace(EXISTING, region="eu-central-1", availability_zone_id="euc1-az1")) == []


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("ckpt--use1-az4--x-s3", "use1-az4"),
        ("a--b--usw2-az1--x-s3", "usw2-az1"),
        ("a--use1-az4--use1-az5--x-s3", "use1-az5"),
        ("a--usw2-lax1-az1--x-s3", "usw2-lax1-az1"),
        ("lake", None),
    ],
)
def test_the_zone_is_read_out_of_the_name(name: str, zone: str | None) -> None:
    assert zone_of_directory_bucket(name) == zone


# -- key, ages, removal


def test_a_key_of_another_region_fails() -> None:
    settings = replace(NEW, encryption_key="arn:aws:kms:us-west-2:111111111111:key/0a1b")
    assert rules_broken(settings) == ["directory-bucket.encryption-key"]


def test_a_key_of_another_account_passes() -> None:
    assert rules_broken(replace(NEW, encryption_key="arn:aws:kms:us-east-1:222222222222:key/0a1b")) == []


@pytest.mark.parametrize("days", [0, 0.5, 1.5, -1])
@pytest.mark.parametrize("age", ["expire_after", "abort_incomplete_multipart_upload_after"])
def test_ages_are_whole_days(age: str, days: float) -> None:
    given: dict[str, Any] = {f"{age}_days": days}
    settings = replace(NEW, **given)
    assert rules_broken(settings) == ["directory-bucket.ages"]
    assert age in said(settings)


@pytest.mark.parametrize(
    ("cache", "deleted", "right"),
    [(True, True, True), (True, False, False), (False, True, True), (False, False, True), (True, None, True)],
)
def test_only_what_is_deleted_can_be_a_cache(cache: bool, deleted: bool | None, right: bool) -> None:
    settings = replace(NEW, content_is_cache=cache, deleted_with_stack=deleted)
    assert rules_broken(settings) == ([] if right else ["directory-bucket.cache-removal"])


@pytest.mark.parametrize(("account", "right"), [("111111111111", True), ("1111", False), ("data", False)])
def test_an_owner_is_an_account_id(account: str, right: bool) -> None:
    assert rules_broken(replace(EXISTING, account=account)) == ([] if right else ["directory-bucket.account"])
