"""Each rule of fleet, network and mounts: its own pair of examples, and the borders that the pair does not show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from training_storage.rules.base import Rule, find_problems
from training_storage.rules.fleet import FLEET_RULES, FleetSettings
from training_storage.rules.mountpoint_options import MANAGED_FLAGS, MOUNT_OPTIONS, UNOFFERED_FLAGS, mount_option
from training_storage.rules.mounts import MOUNT_RULES, MountSettings, NodeSettings, cache_limit_mib
from training_storage.rules.network import NETWORK_RULES, NetworkSettings, private_addresses

RULES: list[Rule[Any]] = [*FLEET_RULES, *NETWORK_RULES, *MOUNT_RULES]


def each_rule() -> list[Any]:
    return [pytest.param(rule, id=rule.id) for rule in RULES]


@pytest.mark.parametrize("rule", each_rule())
def test_example_that_passes_keeps_every_rule_of_its_room(rule: Rule[Any]) -> None:
    room = next(room for room in (FLEET_RULES, NETWORK_RULES, MOUNT_RULES) if rule in room)
    assert find_problems(room, rule.passes) == ()


@pytest.mark.parametrize("rule", each_rule())
def test_example_that_fails_is_reported_with_what_is_allowed(rule: Rule[Any]) -> None:
    problems = find_problems([rule], rule.fails)
    assert problems
    assert all(problem.rule == rule.id and problem.path and problem.allowed for problem in problems)


@pytest.mark.parametrize("room", [FLEET_RULES, NETWORK_RULES, MOUNT_RULES], ids=["fleet", "network", "mounts"])
def test_rules_pass_over_what_is_not_known(room: tuple[Rule[Any], ...]) -> None:
    empty = {FLEET_RULES: FleetSettings(), NETWORK_RULES: NetworkSettings(), MOUNT_RULES: NodeSettings()}[room]
    assert find_problems(room, empty) == ()


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_own_private_subnet_has_16384_addresses_less_those_of_aws_and_of_the_endpoints() -> None:
    # /18 = 16,384; AWS keeps 5 in each subnet; internet none makes 8 interface endpoints.
    assert private_addresses("nat") == 16_379
    assert private_addresses("none") == 16_371


@pytest.mark.parametrize(
    ("addresses", "internet", "legal"), [(16_379, "nat", True), (16_380, "nat", False), (16_372, "none", False)]
)
def test_address_count_has_its_border_at_the_subnet(addresses: int, internet: str, legal: bool) -> None:
    settings = NetworkSettings(own=True, internet=internet, addresses=addresses)
    assert (find_problems(NETWORK_RULES, settings) == ()) is legal


def test_a_given_vpc_is_not_counted() -> None:
    assert find_problems(NETWORK_RULES, NetworkSettings(own=False, internet="nat", addresses=20_000)) == ()


@pytest.mark.parametrize("zone", ["use1-az6", "usw2-az1", "apne1-az4", "use1-dfw2-az1", "cnn1-az1", "usgw1-az1"])
def test_zone_ids_pass(zone: str) -> None:
    assert find_problems(NETWORK_RULES, NetworkSettings(availability_zone_id=zone)) == ()


@pytest.mark.parametrize("zone", ["us-east-1a", "us-gov-west-1b", "", "az6", "USE1-AZ6"])
def test_other_forms_of_a_zone_fail(zone: str) -> None:
    (problem,) = find_problems(NETWORK_RULES, NetworkSettings(availability_zone_id=zone))
    assert "use1-az6" in problem.allowed


def test_report_32_cache_of_500_gib_on_600_gib_is_refused_naming_80_percent() -> None:
    node = NodeSettings(
        mounts=(MountSettings(path="/lake", kind="mountpoint", cache="nvme", cache_size_mib=500 * 1024),),
        local_nvme_gb=600 * 2**30 / 10**9,
    )
    (problem,) = find_problems(MOUNT_RULES, node)
    assert "80%" in str(problem)
    assert "491520 MiB" in problem.allowed  # 480 GiB


def test_cache_limit_is_80_percent_in_mib() -> None:
    assert cache_limit_mib(600 * 2**30 / 10**9) == 491_520


def test_report_30_checkpoints_on_a_directory_bucket_pass() -> None:
    mount = MountSettings(path="/hot", kind="mountpoint", read_only=False, directory_bucket=True)
    assert find_problems(MOUNT_RULES, NodeSettings(mounts=(mount,), checkpoint_path="/hot/checkpoints")) == ()


def test_report_28_a_block_with_spot_fails() -> None:
    fleet = FleetSettings(purchase="spot", has_reservation_id=True, capacity_reservation_id="cr-0123")
    assert [problem.rule for problem in find_problems(FLEET_RULES, fleet)] == ["fleet.reservation-target"]


def test_report_29_id_and_group_together_fail() -> None:
    fleet = FleetSettings(purchase="reservation", has_reservation_id=True, has_reservation_group=True)
    (problem,) = find_problems(FLEET_RULES, fleet)
    assert "capacity_reservation_resource_group_arn" in problem.path


def test_mounts_with_a_common_beginning_are_apart() -> None:
    node = NodeSettings(mounts=(MountSettings(path="/data"), MountSettings(path="/data2")))
    assert find_problems(MOUNT_RULES, node) == ()


def test_naive_time_is_refused() -> None:
    block = next(rule for rule in FLEET_RULES if rule.id == "fleet.capacity-block-schedule").passes
    assert block.start is not None
    naive = replace(block, start=block.start.replace(tzinfo=None))
    assert [problem.path for problem in find_problems(FLEET_RULES, naive)] == ["start"]


def problems_of_path(path: str) -> list[str | None]:
    return [problem.rule for problem in find_problems(MOUNT_RULES, NodeSettings(mounts=(MountSettings(path=path),)))]


@pytest.mark.parametrize(
    "path",
    ["/usr", "/usr/lake", "/etc/lake", "/tmp/lake", "/home", "/mnt", "/var", "/opt/dlami/nvme", "/root",
     "/opt/training-storage", "/opt/training-storage/lake", "/var/lib/training-storage"],
)  # fmt: skip
def test_no_mount_covers_what_the_system_or_the_bootstrap_needs(path: str) -> None:
    assert problems_of_path(path) == ["mounts.system-directory"]


@pytest.mark.parametrize("path", ["/lake", "/mnt/lake", "/srv/shared", "/opt/dlami/lake", "/users", "/var/lake"])
def test_a_directory_of_its_own_is_fine(path: str) -> None:
    assert problems_of_path(path) == []


@pytest.mark.parametrize("path", ["/", "//lake", "/mnt/../usr", "/lake/.", "/..", "lake", ""])
def test_a_path_that_is_not_plain_is_refused(path: str) -> None:
    assert problems_of_path(path) == ["mounts.path"]


# Options


def problems_of(mount: MountSettings) -> list[tuple[str | None, str]]:
    node = NodeSettings(mounts=(mount,), local_nvme_gb=644)
    return [(problem.rule, problem.path) for problem in find_problems(MOUNT_RULES, node)]


@pytest.mark.parametrize("option", MOUNT_OPTIONS, ids=lambda option: option.name)
def test_an_option_of_one_kind_of_mount_is_none_of_another(option: Any) -> None:
    values: dict[str, Any] = {"cache": "nvme", "bind": ("ens32",)}
    value = values.get(option.name, True)
    for kind in {"mountpoint", "lustre", "s3-files"} - {option.kind}:
        found = find_problems(MOUNT_RULES, NodeSettings(mounts=(MountSettings(kind=kind, **{option.name: value}),)))
        assert ("mounts.option-kind", f"mounts[0].{option.name}") in {(each.rule, each.path) for each in found}


def test_an_option_whose_value_is_known_later_is_looked_at_too() -> None:
    later = MountSettings(kind="mountpoint", read_only=True, unknown=frozenset({"storage_class"}))
    assert problems_of(later) == [("mounts.write-flags", "mounts[0].storage_class")]
    beside = MountSettings(kind="mountpoint", otlp_export_interval_seconds=30, unknown=frozenset({"otlp_endpoint"}))
    assert problems_of(beside) == []


def test_gpudirect_storage_needs_efa() -> None:
    assert problems_of(MountSettings(kind="lustre", gds=True)) == [("mounts.option-pairs", "mounts[0].gds")]


def test_what_is_not_known_of_a_bucket_is_not_held_against_an_option() -> None:
    assert problems_of(MountSettings(kind="mountpoint", storage_class="STANDARD", incremental_upload=True)) == []


def test_options_name_options() -> None:
    for option in MOUNT_OPTIONS:
        for other in (option.needs, *option.excludes):
            assert not other or mount_option(other).kind == option.kind
        assert option.why or len(option.buckets) == 2


def test_the_page_names_every_option_and_every_flag() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "bootstrap.md").read_text(encoding="utf-8")
    options = [option for option in MOUNT_OPTIONS if option.kind == "mountpoint"]
    flags = [option.flag for option in options] + list(MANAGED_FLAGS) + list(UNOFFERED_FLAGS)
    assert [flag for flag in flags if f"`{flag}`" not in page] == []
    assert [option.name for option in options if option.name not in page] == []
