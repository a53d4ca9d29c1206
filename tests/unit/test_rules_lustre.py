"""Rules of a Lustre file system, on every type, tier and size of the catalog."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from training_storage.catalog import default_catalog
from training_storage.errors import Problem
from training_storage.rules.base import find_problems
from training_storage.rules.lustre import (
    LUSTRE_CONSTRUCT_PATHS,
    LUSTRE_RULES,
    LUSTRE_WORKLOAD_PATHS,
    NEW_CLIENTS,
    LustreSettings,
)
from training_storage.rules.lustre_existing import EXISTING_LUSTRE_RULES, ExistingLustreSettings
from training_storage.rules.lustre_settings import HDD, PERSISTENT_2, SCRATCH, TIERED

SSD_TYPES = ("SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2")
# FSx for Lustre User Guide, getting started: smallest EFA-enabled file system and step, GiB by MB/s per TiB.
EFA_STEPS = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}


def problems(settings: LustreSettings) -> tuple[Problem, ...]:
    return find_problems(LUSTRE_RULES, settings)


def rules_broken(settings: LustreSettings) -> set[str]:
    return {problem.rule or "" for problem in problems(settings)}


def ssd(deployment_type: str, gib: int | None, tier: int | None = None) -> LustreSettings:
    return LustreSettings(
        deployment_type=deployment_type, storage_type="SSD", storage_capacity_gib=gib, per_unit_storage_throughput=tier
    )


def efa(gib: int, tier: int) -> LustreSettings:
    return replace(PERSISTENT_2, efa=True, storage_capacity_gib=gib, per_unit_storage_throughput=tier)


@pytest.mark.parametrize("settings", [PERSISTENT_2, SCRATCH, HDD, TIERED])
def test_a_good_subject_of_each_kind_keeps_every_rule(settings: LustreSettings) -> None:
    assert problems(settings) == ()


def test_nothing_known_breaks_nothing() -> None:
    assert problems(LustreSettings()) == ()


@pytest.mark.parametrize("name", [each.name for each in fields(LustreSettings) if each.init and each.name != "omitted"])
@pytest.mark.parametrize("settings", [PERSISTENT_2, SCRATCH, HDD, TIERED])
def test_a_field_that_is_not_known_breaks_nothing(settings: LustreSettings, name: str) -> None:
    unknown: dict[str, Any] = {name: None}
    assert problems(replace(settings, **unknown)) == ()


@pytest.mark.parametrize("name", list(LUSTRE_WORKLOAD_PATHS))
def test_workload_paths_name_fields_of_the_settings(name: str) -> None:
    assert name in {each.name for each in fields(LustreSettings)}


@pytest.mark.parametrize("name", list(LUSTRE_CONSTRUCT_PATHS))
def test_construct_paths_name_fields_of_the_settings(name: str) -> None:
    assert name in {each.name for each in fields(LustreSettings)}


# -- capacity


@pytest.mark.parametrize("deployment_type", SSD_TYPES)
@pytest.mark.parametrize("gib", [1200, 2400, 4800, 460_800])
def test_report_01_legal_capacities_pass(deployment_type: str, gib: int) -> None:
    assert "lustre.capacity-step" not in rules_broken(ssd(deployment_type, gib))


@pytest.mark.parametrize("deployment_type", SSD_TYPES)
@pytest.mark.parametrize("gib", [-2400, 0, 600, 1201, 3600, 460_801])
def test_report_01_other_capacities_fail(deployment_type: str, gib: int) -> None:
    assert "lustre.capacity-step" in rules_broken(ssd(deployment_type, gib))


@pytest.mark.parametrize("deployment_type", SSD_TYPES)
def test_report_01_every_capacity_up_to_20000_gib(deployment_type: str) -> None:
    legal = {1200, *range(2400, 20_001, 2400)}  # FSx API, StorageCapacity: 1200, 2400 and increments of 2400
    passed = {
        gib for gib in range(0, 20_001, 100) if "lustre.capacity-step" not in rules_broken(ssd(deployment_type, gib))
    }
    assert passed == legal


def test_report_01_the_error_names_value_and_both_neighbours() -> None:
    (problem,) = problems(replace(PERSISTENT_2, storage_capacity_gib=3600))
    assert problem.value == 3600
    assert "2400" in problem.fix
    assert "4800" in problem.fix


@pytest.mark.parametrize(("tier", "step"), [(12, 6000), (40, 1800)])  # FSx API, HDD capacity by tier
def test_hdd_capacity_is_a_multiple_of_its_tiers_step(tier: int, step: int) -> None:
    hdd = replace(HDD, per_unit_storage_throughput=tier)
    assert problems(replace(hdd, storage_capacity_gib=3 * step)) == ()
    assert rules_broken(replace(hdd, storage_capacity_gib=3 * step + 600)) == {"lustre.capacity-step"}


def test_a_capacity_wrong_at_every_tier_is_named_beside_a_wrong_tier() -> None:
    settings = replace(PERSISTENT_2, storage_capacity_gib=3600, per_unit_storage_throughput=333)
    assert rules_broken(settings) == {"lustre.capacity-step", "lustre.throughput-tier"}


# -- EFA


@pytest.mark.parametrize(("tier", "step"), EFA_STEPS.items())
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_report_05_efa_steps_pass(tier: int, step: int, steps: int) -> None:
    assert problems(efa(steps * step, tier)) == ()


@pytest.mark.parametrize(("tier", "step"), EFA_STEPS.items())
@pytest.mark.parametrize("gib", [1200, 2400, 7200])
def test_report_05_smaller_or_uneven_capacities_fail_naming_the_step(tier: int, step: int, gib: int) -> None:
    (problem,) = problems(efa(gib, tier))
    assert problem.rule == "lustre.efa-capacity-step"
    assert str(step) in problem.allowed


@pytest.mark.parametrize("settings", [SCRATCH, ssd("PERSISTENT_1", 1200, 50), HDD])
def test_report_05_efa_goes_with_persistent_2_only(settings: LustreSettings) -> None:
    assert rules_broken(replace(settings, efa=True)) == {"lustre.efa-deployment-type"}


# -- throughput


@pytest.mark.parametrize("deployment_type", ["PERSISTENT_1", "PERSISTENT_2"])
def test_report_03_a_persistent_type_needs_a_tier(deployment_type: str) -> None:
    settings = replace(ssd(deployment_type, 2400), omitted=frozenset({"per_unit_storage_throughput"}))
    assert rules_broken(settings) == {"lustre.throughput-required"}


@pytest.mark.parametrize("tier", [50, 100, 125, 200, 250, 500, 1000])
def test_report_03_scratch_takes_no_tier(tier: int) -> None:
    assert rules_broken(ssd("SCRATCH_2", 2400, tier)) == {"lustre.throughput-forbidden"}


@pytest.mark.parametrize(
    ("deployment_type", "legal"), [("PERSISTENT_1", {50, 100, 200}), ("PERSISTENT_2", {125, 250, 500, 1000})]
)
def test_report_03_each_persistent_type_has_its_own_tiers(deployment_type: str, legal: set[int]) -> None:
    for tier in (12, 40, 50, 100, 125, 200, 250, 500, 1000, 1200):
        broken = rules_broken(ssd(deployment_type, 2400, tier))
        assert broken == (set() if tier in legal else {"lustre.throughput-tier"}), tier


def test_report_03_the_error_lists_the_four_tiers() -> None:
    (problem,) = problems(replace(PERSISTENT_2, per_unit_storage_throughput=200))
    for tier in (125, 250, 500, 1000):
        assert str(tier) in problem.allowed


def test_report_03_scratch_takes_no_key() -> None:
    (problem,) = problems(replace(SCRATCH, kms_key=True))
    assert problem.path == "kms_key"


def test_scratch_takes_no_backups() -> None:
    assert rules_broken(replace(SCRATCH, backup_retention_days=7)) == {"lustre.backups-scratch"}


def test_no_backups_is_right_everywhere() -> None:
    assert problems(replace(SCRATCH, backup_retention_days=0)) == ()


# -- metadata


def legal_iops() -> set[int]:
    # FSx API, MetadataConfiguration: 1500, 3000, 6000, 12000 and multiples of 12000 to 192000
    return {1500, 3000, 6000, *range(12_000, 192_001, 12_000)}


def test_metadata_iops_of_the_whole_range() -> None:
    passed = {
        iops
        for iops in range(0, 200_001, 500)
        if "lustre.metadata-iops"
        not in rules_broken(replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", metadata_iops=iops))
    }
    assert passed == legal_iops()


@pytest.mark.parametrize(
    ("gib", "automatic"),  # AUTOMATIC by capacity: FSx for Lustre User Guide, performance
    [(1200, 1500), (2400, 3000), (4800, 6000), (9600, 6000), (12_000, 12_000), (45_600, 12_000), (48_000, 24_000)],
)
def test_metadata_iops_are_not_below_automatic(gib: int, automatic: int) -> None:
    for iops in sorted(legal_iops()):
        settings = replace(PERSISTENT_2, storage_capacity_gib=gib, metadata_mode="USER_PROVISIONED", metadata_iops=iops)
        assert rules_broken(settings) == (set() if iops >= automatic else {"lustre.metadata-floor"}), iops


def test_user_provisioned_needs_a_number() -> None:
    settings = replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", omitted=frozenset({"metadata_iops"}))
    assert rules_broken(settings) == {"lustre.metadata-pair"}


@pytest.mark.parametrize("settings", [SCRATCH, ssd("PERSISTENT_1", 1200, 50), HDD])
def test_report_04_only_persistent_2_has_a_metadata_configuration(settings: LustreSettings) -> None:
    assert "lustre.metadata-deployment-type" in rules_broken(replace(settings, metadata_mode="AUTOMATIC"))


# -- version


@pytest.mark.parametrize("version", ["2.10", "2.12"])
def test_a_metadata_configuration_needs_2_15(version: str) -> None:
    assert "lustre.version-metadata" in rules_broken(replace(PERSISTENT_2, file_system_type_version=version))


def test_persistent_2_is_never_2_10() -> None:
    settings = replace(PERSISTENT_2, file_system_type_version="2.10", metadata_mode=None)
    assert rules_broken(settings) == {"lustre.version-deployment-type"}


@pytest.mark.parametrize("settings", [SCRATCH, ssd("PERSISTENT_1", 1200, 50), HDD])
def test_report_07_links_need_2_12_or_newer(settings: LustreSettings) -> None:
    linked = replace(settings, linked=True)
    assert problems(replace(linked, file_system_type_version="2.12")) == ()
    (problem,) = problems(replace(linked, file_system_type_version="2.10"))
    assert problem.value == "2.10"


@pytest.mark.parametrize("client", sorted(NEW_CLIENTS))
def test_report_07_new_clients_need_2_12_or_newer(client: str) -> None:
    (problem,) = problems(replace(SCRATCH, file_system_type_version="2.10", client_os=client))
    assert client in problem.what
    assert problem.value == "2.10"


def test_amazon_linux_2_mounts_2_10() -> None:
    assert problems(replace(SCRATCH, file_system_type_version="2.10", client_os="al2")) == ()


# -- links and storage classes


def test_report_06_intelligent_tiering_is_never_linked() -> None:
    (problem,) = problems(replace(TIERED, linked=True))
    assert "S3 links are not supported" in problem.what


def test_every_option_of_the_catalog_says_whether_it_can_be_linked() -> None:
    for option in default_catalog().lustre.options.values():
        settings = LustreSettings(deployment_type=option.deployment_type, storage_type=option.storage_type, linked=True)
        assert ("lustre.links-supported" in rules_broken(settings)) == (not option.links)


def test_links_and_backups_exclude_each_other() -> None:
    assert rules_broken(replace(PERSISTENT_2, linked=True, backup_retention_days=1)) == {"lustre.backups-links"}


@pytest.mark.parametrize("mb_per_s", [-4000, 0, 1000, 2000, 4001, 2_004_000])
def test_intelligent_tiering_throughput_comes_in_4000(mb_per_s: int) -> None:
    assert rules_broken(replace(TIERED, throughput_capacity_mb_per_s=mb_per_s)) == {"lustre.tiering-throughput"}


@pytest.mark.parametrize(
    ("mb_per_s", "smallest", "largest"), [(4000, 32, 131_072), (12_000, 96, 393_216)]
)  # FSx API: 8 to 32768 GiB for each 1000 MB/s
def test_read_cache_sizes_follow_the_throughput(mb_per_s: int, smallest: int, largest: int) -> None:
    cached = replace(TIERED, throughput_capacity_mb_per_s=mb_per_s, read_cache_mode="USER_PROVISIONED")
    for gib, right in ((smallest - 1, False), (smallest, True), (largest, True), (largest + 1, False)):
        assert (problems(replace(cached, read_cache_gib=gib)) == ()) is right


def test_a_user_provisioned_read_cache_needs_a_size() -> None:
    settings = replace(TIERED, read_cache_mode="USER_PROVISIONED", omitted=frozenset({"read_cache_gib"}))
    assert rules_broken(settings) == {"lustre.tiering-read-cache"}


@pytest.mark.parametrize("iops", [6000, 12_000])
def test_intelligent_tiering_metadata(iops: int) -> None:
    assert problems(replace(TIERED, metadata_iops=iops)) == ()


@pytest.mark.parametrize("iops", [1500, 24_000])
def test_intelligent_tiering_takes_no_other_metadata(iops: int) -> None:
    assert rules_broken(replace(TIERED, metadata_iops=iops)) == {"lustre.tiering-metadata"}


@pytest.mark.parametrize("cache", ["READ", "NONE"])
def test_hdd_says_its_drive_cache(cache: str) -> None:
    assert problems(replace(HDD, drive_cache_type=cache)) == ()


@pytest.mark.parametrize("cache", ["WRITE", "read", ""])
def test_hdd_knows_no_other_drive_cache(cache: str) -> None:
    assert rules_broken(replace(HDD, drive_cache_type=cache)) == {"lustre.drive-cache"}


@pytest.mark.parametrize("settings", [SCRATCH, PERSISTENT_2, TIERED])
def test_only_hdd_has_a_drive_cache(settings: LustreSettings) -> None:
    assert rules_broken(replace(settings, drive_cache_type="NONE")) == {"lustre.drive-cache"}


@pytest.mark.parametrize("settings", [SCRATCH, ssd("PERSISTENT_1", 1200, 50), PERSISTENT_2, HDD])
def test_only_intelligent_tiering_has_a_throughput_capacity_and_a_read_cache(settings: LustreSettings) -> None:
    assert rules_broken(replace(settings, throughput_capacity_mb_per_s=4000)) == {"lustre.tiering-throughput"}
    assert rules_broken(replace(settings, read_cache_mode="NO_CACHE")) == {"lustre.tiering-read-cache"}
    assert rules_broken(replace(settings, read_cache_gib=64)) == {"lustre.tiering-read-cache"}


@pytest.mark.parametrize("gib", [1200, 6000])
def test_intelligent_tiering_takes_no_capacity(gib: int) -> None:
    assert rules_broken(replace(TIERED, storage_capacity_gib=gib)) == {"lustre.tiering-capacity"}


@pytest.mark.parametrize("tier", [12, 125, 1000])
def test_intelligent_tiering_takes_no_tier(tier: int) -> None:
    assert rules_broken(replace(TIERED, per_unit_storage_throughput=tier)) == {"lustre.throughput-forbidden"}


@pytest.mark.parametrize("settings", [SCRATCH, HDD])
def test_report_05_types_without_metadata_are_only_told_that_they_have_no_efa(settings: LustreSettings) -> None:
    asked = replace(settings, efa=True, omitted=frozenset({"metadata_mode"}))
    assert rules_broken(asked) == {"lustre.efa-deployment-type"}


def test_hdd_without_a_drive_cache_type_fails() -> None:
    settings = replace(HDD, drive_cache_type=None, omitted=frozenset({"drive_cache_type"}))
    assert rules_broken(settings) == {"lustre.drive-cache"}


# -- the rest


@pytest.mark.parametrize("start", ["1:00:00", "7:23:59", "4:09:30"])
def test_maintenance_windows_pass(start: str) -> None:
    assert problems(replace(PERSISTENT_2, weekly_maintenance_start_time=start)) == ()


@pytest.mark.parametrize("start", ["0:00:00", "8:00:00", "7:24:00", "7:4:00", "7:04:60", "04:00", ""])
def test_other_maintenance_windows_fail(start: str) -> None:
    broken = rules_broken(replace(PERSISTENT_2, weekly_maintenance_start_time=start))
    assert broken == {"lustre.maintenance-window"}


@pytest.mark.parametrize("count", [0, 2, 3])
def test_report_15_more_than_one_subnet_fails_naming_the_option(count: int) -> None:
    (problem,) = problems(replace(PERSISTENT_2, subnet_count=count))
    assert (problem.path, problem.value) == ("subnet_count", count)
    assert LUSTRE_CONSTRUCT_PATHS[problem.path] == "subnet"


# -- a file system that exists already


def names_refused(**names: Any) -> list[str]:
    return [problem.path for problem in find_problems(EXISTING_LUSTRE_RULES, ExistingLustreSettings(**names))]


@pytest.mark.parametrize("file_system_id", ["fs-01234567", "fs-0123456789abcdef0", "fs-0123456789abcdef01"])
def test_ids_of_file_systems_pass(file_system_id: str) -> None:
    assert names_refused(file_system_id=file_system_id) == []


@pytest.mark.parametrize(
    "file_system_id", ["", "fs-0123456", "fs-0123456789ABCDEF0", "fsx-01234567", "fs-01234567 ", "fs-" + "0" * 19]
)
def test_other_ids_fail(file_system_id: str) -> None:
    assert names_refused(file_system_id=file_system_id) == ["file_system_id"]


@pytest.mark.parametrize("mount_name", ["fsx", "abcdefgh", "A1_-"])
def test_mount_names_pass(mount_name: str) -> None:
    assert names_refused(mount_name=mount_name) == []


@pytest.mark.parametrize("mount_name", ["", "/fsx", "abcdefghi", "a b", "fs\n"])
def test_other_mount_names_fail(mount_name: str) -> None:
    assert names_refused(mount_name=mount_name) == ["mount_name"]


@pytest.mark.parametrize("dns_name", ["fs-01234567.fsx.cn-north-1.amazonaws.com.cn", "10.0.1.23", "hot.example.com"])
def test_host_names_and_addresses_pass(dns_name: str) -> None:
    assert names_refused(dns_name=dns_name) == []


@pytest.mark.parametrize(
    "dns_name", ["", "hot.example.com@tcp", "hot.example.com:/fsx", "hot example", "tcp://hot", "hot.", "x" * 300]
)
def test_what_is_more_than_a_host_name_fails(dns_name: str) -> None:
    assert names_refused(dns_name=dns_name) == ["dns_name"]


@pytest.mark.parametrize("tier", [None, 300])
def test_a_capacity_without_a_legal_tier_names_the_first_sizes_too(tier: int | None) -> None:
    found = problems(ssd("PERSISTENT_2", 1000, tier))
    said = next(each.allowed for each in found if each.path == "storage_capacity_gib")
    assert said.startswith("1200, then multiples of 2400 GiB at 125 MB/s per TiB")
