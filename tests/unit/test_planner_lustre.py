"""The Lustre part of a plan: overrides of every type, EFA, metadata, regions, and what is refused or warned about."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit._planner import CATALOG, because, planned, refused, warning, warning_ids
from training_storage.planner import LustrePlan


def lustre(changes: dict[str, Any] | None = None, **override: Any) -> LustrePlan:
    """The Lustre part of a plan on 20 p4d.24xlarge, which are no EFA clients of FSx."""
    made = planned(
        {"compute.instance_type": "p4d.24xlarge", "compute.instance_count": 20, "lustre": override, **(changes or {})}
    )
    assert made.lustre is not None
    return made.lustre


def reads(per_accelerator: str) -> dict[str, Any]:
    return {"dataset.read_rate": {"per_accelerator": per_accelerator}}


HDD = {"storage_type": "HDD", "per_unit_storage_throughput": 40}
TIERING = {"storage_type": "INTELLIGENT_TIERING", "links": []}
P5 = {"compute.instance_type": "p5.48xlarge"}
TIERS = (125, 250, 500, 1000)


@pytest.mark.parametrize(
    ("instance_type", "count", "rate", "efa"),
    [
        # From 10,000 MB/s required on: 160 accelerators.
        ("g6e.48xlarge", 20, "62.4 MB/s", False),
        ("g6e.48xlarge", 20, "62.5 MB/s", True),
        # Never for types that FSx does not serve over EFA: Nitro v3, trn2.
        ("p4d.24xlarge", 20, "500 MB/s", False),
        ("trn2.48xlarge", 20, "500 MB/s", False),
        # floor(1,024 / instances) interfaces; one of 16 cards of p5en moves 25,000 MB/s.
        ("p5en.48xlarge", 1024, "20 MB/s", True),
        ("p5en.48xlarge", 1025, "20 MB/s", False),
    ],
)
def test_efa_auto(instance_type: str, count: int, rate: str, efa: bool) -> None:
    part = lustre({"compute.instance_type": instance_type, "compute.instance_count": count, **reads(rate)})
    assert part.efa is efa
    assert (part.efa_interfaces_per_client is not None) is efa


def test_efa_where_tcp_leaves_the_share_of_one_instance_uncovered() -> None:
    # 4 instances, 9,600 MB/s: 2,400 MB/s each need 4 file servers; the given capacity has 2 on TCP.
    part = lustre(
        {**P5, "compute.instance_count": 4, **reads("300 MB/s"), "hot_tier": "lustre", "dataset.size": "1 TB"},
        storage_capacity="4800 GiB",
    )
    assert (part.efa, part.per_unit_storage_throughput, part.client_limit_mb_per_s) == (True, 1000, 87_500)


def test_no_efa_where_one_instance_moves_no_more_over_it() -> None:
    # g6.8xlarge: 25 Gbit/s on one card, 3,125 MB/s over either; 20,000 MB/s give TCP the servers for that.
    part = lustre({"compute.instance_type": "g6.8xlarge", "compute.instance_count": 200, **reads("100 MB/s")})
    assert part.client_limit_mb_per_s == 3125
    assert part.efa is False


def test_compute_efa_false_keeps_lustre_on_tcp() -> None:
    assert lustre({**P5, **reads("200 MB/s"), "compute.efa": False}).efa is False


@pytest.mark.parametrize("capacity", [2400, 12_000, 16_800])
def test_a_given_capacity_on_no_efa_grid_means_no_efa(capacity: int) -> None:
    assert lustre({**P5, **reads("200 MB/s")}, storage_capacity=f"{capacity} GiB").efa is False


@pytest.mark.parametrize(
    ("capacity", "tiers"), [(4800, {1000}), (9600, {500, 1000}), (19_200, {250, 500, 1000}), (38_400, set(TIERS))]
)
def test_with_efa_only_tiers_that_have_the_given_capacity_are_compared(capacity: int, tiers: set[int]) -> None:
    made = planned(
        {"compute.instance_count": 20, **reads("200 MB/s"), "lustre": {"storage_capacity": f"{capacity} GiB"}}
    )
    assert made.lustre is not None
    assert made.lustre.efa is True
    skipped = {f"PERSISTENT_2 SSD {tier} MB/s per TiB" for tier in set(TIERS) - tiers}
    assert {
        each.option
        for each in made.decisions
        if each.rule == "lustre.configuration" and "no capacity of" in each.because
    } == skipped


def test_efa_asked_for_sizes_on_the_efa_grid() -> None:
    for tier, step in zip(TIERS, (38_400, 19_200, 9600, 4800), strict=True):
        part = lustre(P5, efa=True, per_unit_storage_throughput=tier)
        assert part.efa is True
        assert part.storage_capacity_gib is not None
        assert part.storage_capacity_gib % step == 0
        assert part.servers == part.storage_capacity_gib // step


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compute.instance_type": "p4d.24xlarge"}, "FSx does not serve p4d.24xlarge over EFA"),
        ({"compute.instance_type": "g5.xlarge"}, "g5.xlarge has no EFA"),
        ({**P5, "compute.efa": False}, "compute.efa: false"),
        ({**P5, "compute.instance_count": 1025}, "1,025 instances are more than the 1,024 EFA connections"),
    ],
)
def test_efa_asked_for_that_clients_cannot_use(changes: dict[str, Any], reason: str) -> None:
    made = planned({"compute.instance_count": 20, **changes, "lustre": {"efa": True}})
    assert made.lustre is not None
    assert made.lustre.efa is True
    assert made.lustre.efa_interfaces_per_client is None
    assert reason in warning(made, "lustre-efa-unused")


def test_gds_raises_the_limit_of_one_client() -> None:
    without = lustre({**P5, **reads("200 MB/s")})
    with_gds = lustre({**P5, **reads("200 MB/s")}, gds=True)
    # 3,200 Gbit/s over 32 cards, 8 of them with FSx: 100,000 MB/s; 87,500 MB/s without GDS, 150,000 MB/s with it.
    assert (without.client_limit_mb_per_s, with_gds.client_limit_mb_per_s) == (87_500, 100_000)


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"compute.instance_type": "g6e.48xlarge", "lustre": {"gds": True, "efa": True}}, "g6e.48xlarge"),
        ({"compute.instance_type": "p6-b300.48xlarge", "lustre": {"gds": True, "efa": True}}, "p6-b300.48xlarge"),
        ({"compute.instance_type": "p5.4xlarge", "lustre": {"gds": True, "efa": True}}, "the facts do not say"),
        ({"lustre": {"gds": True}}, "clients use TCP"),
        ({"lustre": {"gds": True, "efa": False}}, "EFA"),
        ({"compute.efa": False, "lustre": {"gds": True, "efa": True}}, "clients use TCP"),
    ],
)
def test_gds_that_cannot_work_is_refused(changes: dict[str, Any], names: str) -> None:
    problems = refused({"hot_tier": "lustre", **changes})
    assert {problem.path for problem in problems} == {"lustre.gds"}
    assert any(names in problem.what for problem in problems)


def test_a_type_that_may_be_an_efa_client_counts_as_none() -> None:
    made = planned({"compute.instance_type": "g7.48xlarge", "compute.instance_count": 20, **reads("200 MB/s")})
    assert made.lustre is not None
    assert made.lustre.efa is False
    assert any("g7.48xlarge over EFA; it counts as no" in line for line in made.assumptions)


@pytest.mark.parametrize(
    ("opens", "mode", "iops"),
    [
        # 1200 GiB: AUTOMATIC 1,500 IOPS, 2 opens each.
        (3000, "AUTOMATIC", 1500),
        (3001, "USER_PROVISIONED", 3000),
        (24_001, "USER_PROVISIONED", 24_000),
        (384_000, "USER_PROVISIONED", 192_000),
        (400_000, "USER_PROVISIONED", 192_000),
    ],
)
def test_metadata_by_opens(opens: int, mode: str, iops: int) -> None:
    rate = {"samples": {"size": "1 B", "per_second_per_accelerator": opens / 160}}
    part = lustre(
        {"dataset.size": "960 GiB", "dataset.file_count": None, "dataset.read_rate": rate}, storage_capacity="1200 GiB"
    )
    assert (part.metadata_mode, part.metadata_iops) == (mode, iops)


def test_opens_beyond_every_number_give_a_warning_that_advises_shards() -> None:
    rate = {"samples": {"size": "1 B", "per_second_per_accelerator": 2500}}
    made = planned({"compute.instance_count": 20, "dataset.file_count": None, "dataset.read_rate": rate})
    text = warning(made, "metadata-short")
    assert "400,000" in text
    assert "16,000 too few" in text
    assert "shards" in text


def test_given_metadata_that_is_too_small_names_the_shortfall() -> None:
    rate = {"samples": {"size": "1 B", "per_second_per_accelerator": 100}}
    made = planned(
        {
            "compute.instance_count": 20,
            "dataset.size": "500 GB",
            "dataset.file_count": None,
            "dataset.read_rate": rate,
            "lustre": {"metadata_iops": 6000},
        }
    )
    assert made.lustre is not None
    assert (made.lustre.metadata_mode, made.lustre.metadata_iops) == ("USER_PROVISIONED", 6000)
    assert "4,000 too few" in warning(made, "metadata-short")


def test_explicit_automatic_means_planned() -> None:
    rate = {"samples": {"size": "1 B", "per_second_per_accelerator": 100}}
    changes = {"dataset.size": "500 GB", "dataset.file_count": None, "dataset.read_rate": rate}
    assert lustre(changes, metadata_iops="automatic") == lustre(changes)


def test_metadata_below_what_automatic_gives_at_every_capacity_is_refused() -> None:
    (problem,) = refused({"compute.instance_count": 20, "dataset.size": "90 TB", "lustre": {"metadata_iops": 6000}})
    assert problem.path == "lustre.metadata_iops"
    assert "6,000" in problem.what


def test_metadata_given_keeps_to_capacities_that_allow_it() -> None:
    # 9,600 GiB are the most with 6,000 automatic IOPS; 1000 MB/s per TiB is the only tier that covers 9,000 MB/s there.
    part = lustre({**reads("56.25 MB/s"), "dataset.size": "1 TB"}, metadata_iops=6000)
    assert (part.storage_capacity_gib, part.per_unit_storage_throughput, part.metadata_iops) == (9600, 1000, 6000)


@pytest.mark.parametrize(
    ("rate", "checkpoints", "capacity"),
    [
        # Reads at 200 MB/s per TiB: 2,400 MB/s are 12 TiB, 12,288 GiB.
        ("15 MB/s", None, 14_400),
        # Saves at 100: 2,000 MB/s are 20 TiB, 20,480 GiB.
        ("1 MB/s", {"size": "120 GB", "interval": "10h"}, 21_600),
        # Asynchronous: both at once, 12 TiB + 20 TiB = 32,768 GiB.
        ("15 MB/s", {"size": "120 GB", "interval": "10h", "asynchronous": True}, 33_600),
        # Restores at 200: 24,000 MB/s are 120 TiB.
        ("1 MB/s", {"size": "120 GB", "interval": "10h", "max_restore_time": "5s"}, 124_800),
    ],
)
def test_scratch_2_counts_200_for_reads_and_100_for_writes(
    rate: str, checkpoints: dict[str, Any] | None, capacity: int
) -> None:
    part = lustre({**reads(rate), "checkpoints": checkpoints}, deployment_type="SCRATCH_2")
    assert part.storage_capacity_gib == capacity
    assert part.throughput_mb_per_s == capacity / 1024 * 200
    assert part.per_unit_storage_throughput is None
    assert (part.metadata_mode, part.metadata_iops) == (None, None)
    assert part.ip_addresses == capacity // 2400 + 1
    assert part.ranking_usd_per_month == pytest.approx(capacity * 0.14)  # secondary source, us-east-1


def test_scratch_2_saves_take_twice_as_long_as_its_reads_say() -> None:
    made = planned(
        {
            "compute.instance_count": 20,
            "checkpoints": {"size": "120 GB", "interval": "10h"},
            "lustre": {"deployment_type": "SCRATCH_2"},
        }
    )
    # 21,600 GiB at 100 MB/s per TiB: 2,109.375 MB/s.
    assert made.prediction.checkpoint_write_s == pytest.approx(120_000 / 2109.375)
    assert made.prediction.restore_s == pytest.approx(120_000 / 4218.75)
    assert "promoted" in warning(made, "scratch-not-durable")


@pytest.mark.parametrize("tier", [50, 100, 200])
def test_persistent_1_ssd_with_its_tier(tier: int) -> None:
    part = lustre(reads("15 MB/s"), deployment_type="PERSISTENT_1", per_unit_storage_throughput=tier)
    need = 2400 / tier * 1024
    assert part.storage_type == "SSD"
    assert part.storage_capacity_gib == -(-max(need, 2328.3) // 2400) * 2400
    assert part.metadata_mode is None
    assert part.ranking_usd_per_month is None


@pytest.mark.parametrize(("tier", "step"), [(12, 6000), (40, 1800)])
def test_persistent_1_hdd_with_its_tier(tier: int, step: int) -> None:
    part = lustre(reads("1.5 MB/s"), storage_type="HDD", per_unit_storage_throughput=tier)
    assert part.deployment_type == "PERSISTENT_1"
    assert part.storage_capacity_gib == -(-(240 / tier * 1024) // step) * step
    assert part.servers == part.storage_capacity_gib // step


@pytest.mark.parametrize(
    ("override", "tiers"),
    [({"deployment_type": "PERSISTENT_1"}, "50, 100 or 200"), ({"storage_type": "HDD"}, "12 or 40")],
)
def test_persistent_1_without_a_tier_is_refused(override: dict[str, Any], tiers: str) -> None:
    (problem,) = refused({"hot_tier": "lustre", "lustre": override})
    assert problem.path == "lustre.per_unit_storage_throughput"
    assert tiers in problem.allowed


@pytest.mark.parametrize(("rate", "throughput", "servers"), [("15 MB/s", 4000, 1), ("26 MB/s", 8000, 2)])
def test_intelligent_tiering_buys_throughput(rate: str, throughput: int, servers: int) -> None:
    part = lustre(reads(rate), storage_type="INTELLIGENT_TIERING", links=[])
    assert part.deployment_type == "PERSISTENT_2"
    assert part.storage_capacity_gib is None
    assert part.per_unit_storage_throughput is None
    assert part.throughput_capacity_mb_per_s == throughput
    assert part.servers == servers
    # The set that every region takes: USER_PROVISIONED with 6000 or 12000.
    assert (part.metadata_mode, part.metadata_iops) == ("USER_PROVISIONED", 6000)
    assert part.links == ()


def test_a_drive_cache_changes_no_figure_of_the_plan_and_is_said_not_to_count() -> None:
    plain, cached = (
        planned({"hot_tier": "lustre", **reads("1.5 MB/s"), "lustre": {**HDD, "drive_cache": cache}})
        for cache in ("none", "read")
    )
    assert cached.lustre == plain.lustre
    assert cached.demand == plain.demand
    (said,) = set(cached.assumptions) - set(plain.assumptions)
    assert "not counted" in said


@pytest.mark.parametrize(("read_cache", "said"), [("none", 1), ("proportional", 0), ("640 GiB", 0)])
def test_a_read_cache_changes_no_figure_of_the_plan_and_none_is_said_to_be_slow(read_cache: str, said: int) -> None:
    plain, cached = (
        planned({"hot_tier": "lustre", **reads("15 MB/s"), "lustre": {**TIERING, **given}})
        for given in ({}, {"read_cache": read_cache})
    )
    assert cached.lustre == plain.lustre
    assert len([text for text in cached.assumptions if "tens of milliseconds" in text]) == said


@pytest.mark.parametrize(("gib", "warned"), [(1800, True), (5400, True), (7200, False)])
def test_hdd_under_6000_gib_warns(gib: int, warned: bool) -> None:
    override = {"storage_type": "HDD", "per_unit_storage_throughput": 40, "storage_capacity": f"{gib} GiB"}
    made = planned({"hot_tier": "lustre", "lustre": override})
    assert ("lustre-small-hdd" in warning_ids(made)) is warned


def test_intelligent_tiering_with_too_little_throughput_names_the_shortfall() -> None:
    made = planned(
        {
            "compute.instance_type": "p4d.24xlarge",
            "compute.instance_count": 20,
            **reads("50 MB/s"),
            "lustre": {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 4000, "links": []},
        }
    )
    assert "4,000 MB/s of 8,000 MB/s" in warning(made, "lustre-too-small")


def test_intelligent_tiering_takes_no_links() -> None:
    problems = refused({"hot_tier": "lustre", "lustre": {"storage_type": "INTELLIGENT_TIERING"}})
    assert any(problem.path == "lustre.links" and "links: []" in problem.allowed for problem in problems)


def test_backups_go_without_links_only() -> None:
    with_links = refused({"hot_tier": "lustre", "lustre": {"backup_retention_days": 7}})
    assert [problem.path for problem in with_links] == ["lustre.backup_retention_days"]
    assert lustre(backup_retention_days=7, links=[]).links == ()


ILLEGAL: list[tuple[dict[str, Any], str, str]] = [
    ({"storage_capacity": "3600 GiB"}, "lustre.storage_capacity", "2400"),
    ({"storage_capacity": "600 GiB"}, "lustre.storage_capacity", "1200"),
    ({"storage_capacity": "1200 GiB", "efa": True}, "lustre.storage_capacity", "19200"),
    (
        {"storage_capacity": "7200 GiB", "efa": True, "per_unit_storage_throughput": 1000},
        "lustre.storage_capacity",
        "4800",
    ),
    ({"per_unit_storage_throughput": 200}, "lustre.per_unit_storage_throughput", "125, 250, 500 or 1000"),
    ({"deployment_type": "SCRATCH_2", "per_unit_storage_throughput": 200}, "lustre.per_unit_storage_throughput", ""),
    ({"deployment_type": "SCRATCH_2", "efa": True}, "lustre.efa", "PERSISTENT_2"),
    (
        {"deployment_type": "PERSISTENT_1", "per_unit_storage_throughput": 100, "efa": True},
        "lustre.efa",
        "PERSISTENT_2",
    ),
    ({"deployment_type": "SCRATCH_2", "metadata_iops": 6000}, "lustre.metadata_iops", "PERSISTENT_2"),
    (
        {"deployment_type": "SCRATCH_2", "backup_retention_days": 7, "links": []},
        "lustre.backup_retention_days",
        "persistent",
    ),
    (
        {"deployment_type": "SCRATCH_2", "kms_key_arn": "arn:aws:kms:us-east-1:111111111111:key/0123abcd"},
        "lustre.kms_key_arn",
        "persistent",
    ),
    ({"deployment_type": "PERSISTENT_2", "storage_type": "HDD"}, "lustre.storage_type", "SSD"),
    ({"metadata_iops": 5000}, "lustre.metadata_iops", "6000"),
    ({"metadata_iops": 1500, "storage_capacity": "12000 GiB"}, "lustre.metadata_iops", "12000"),
    ({"throughput_capacity": 4000}, "lustre.throughput_capacity", "INTELLIGENT_TIERING"),
    (
        {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 5000, "links": []},
        "lustre.throughput_capacity",
        "4000",
    ),
    (
        {"storage_type": "INTELLIGENT_TIERING", "storage_capacity": "4800 GiB", "links": []},
        "lustre.storage_capacity",
        "",
    ),
    ({"drive_cache": "read"}, "lustre.drive_cache", "HDD"),
    ({**TIERING, "drive_cache": "none"}, "lustre.drive_cache", "HDD"),
    ({"read_cache": "none"}, "lustre.read_cache", "INTELLIGENT_TIERING"),
    ({**HDD, "read_cache": "64 GiB"}, "lustre.read_cache", "INTELLIGENT_TIERING"),
    ({**TIERING, "read_cache": "16 GiB"}, "lustre.read_cache", "32 to 131072 GiB"),
    ({**TIERING, "throughput_capacity": 8000, "read_cache": "63 GiB"}, "lustre.read_cache", "64 to 262144 GiB"),
    ({**TIERING, "metadata_iops": 24_000}, "lustre.metadata_iops", "6000 or 12000"),
    ({"file_system_type_version": "2.12"}, "lustre.file_system_type_version", "2.15"),
    (
        {"deployment_type": "SCRATCH_2", "file_system_type_version": "2.10"},
        "lustre.file_system_type_version",
        "2.15",
    ),
]


@pytest.mark.parametrize(("override", "path", "allowed"), ILLEGAL)
def test_an_illegal_override_is_refused_by_a_rule_and_names_what_is_allowed(
    override: dict[str, Any], path: str, allowed: str
) -> None:
    problems = refused({"hot_tier": "lustre", "dataset.size": "500 GB", "lustre": override})
    matching = [problem for problem in problems if problem.path == path]
    assert matching
    assert any(problem.rule for problem in matching)
    assert any(allowed in f"{problem.allowed} {problem.fix}" for problem in matching)


def test_every_illegal_override_is_reported_at_once() -> None:
    problems = refused(
        {
            "hot_tier": "lustre",
            "lustre": {"storage_capacity": "3600 GiB", "metadata_iops": 5000, "backup_retention_days": 7},
            "mountpoint": {"cache": "nvme", "cache_size": "900 TB"},
        }
    )
    assert {problem.path for problem in problems} == {
        "lustre.storage_capacity",
        "lustre.metadata_iops",
        "lustre.backup_retention_days",
        "mountpoint.cache_size",
    }


@pytest.mark.parametrize(
    ("override", "misses"),
    [
        # 2 TB / 0.8 are 2,328 GiB; 160 x 10 MB/s are 1,600 MB/s, and 4,800 GiB at 125 give 586.
        ({"storage_capacity": "1200 GiB", "per_unit_storage_throughput": 1000}, ["1,128 GiB of 2,328 GiB"]),
        ({"storage_capacity": "4800 GiB", "per_unit_storage_throughput": 125}, ["1,014 MB/s of 1,600 MB/s"]),
    ],
)
def test_a_legal_override_that_is_too_small_is_planned_with_its_shortfall(
    override: dict[str, Any], misses: list[str]
) -> None:
    made = planned({"compute.instance_type": "p4d.24xlarge", "compute.instance_count": 20, "lustre": override})
    assert made.lustre is not None
    assert made.lustre.per_unit_storage_throughput == override["per_unit_storage_throughput"]
    text = warning(made, "lustre-too-small")
    assert all(part in text for part in misses)


def test_too_few_file_servers_for_the_share_of_one_instance_are_named() -> None:
    made = planned(
        {
            "compute.instance_type": "p4d.24xlarge",
            "compute.instance_count": 2,
            **reads("250 MB/s"),
            "hot_tier": "lustre",
            "lustre": {"storage_capacity": "4800 GiB", "per_unit_storage_throughput": 1000},
        }
    )
    # 2,000 MB/s an instance at 625 MB/s a server.
    assert "2 of 4 file servers" in warning(made, "lustre-too-small")
    assert "1,250 MB/s" in warning(made, "client-limit")
    assert "2,000 MB/s" in warning(made, "client-limit")


def test_a_given_capacity_takes_the_cheapest_tier_that_covers() -> None:
    # 4,800 GiB: 500 MB/s per TiB give 2,344 MB/s, 250 give 1,172.
    assert lustre(reads("10 MB/s"), storage_capacity="4800 GiB").per_unit_storage_throughput == 500


def test_a_tier_that_is_given_is_planned_as_said() -> None:
    for tier in TIERS:
        part = lustre(per_unit_storage_throughput=tier)
        assert part.per_unit_storage_throughput == tier
        assert part.throughput_mb_per_s >= 1600


LIMITED = [name for name, region in CATALOG.regions.items() if region.lustre_tiers == (125, 250)]
WITHOUT = [name for name, region in CATALOG.regions.items() if region.lustre_tiers == ()]
UNKNOWN = [name for name, region in CATALOG.regions.items() if region.lustre_tiers is None]


def in_region(name: str) -> dict[str, Any]:
    return {"region": name, "availability_zone_id": f"{CATALOG.regions[name].zone_id_prefix}-az1"}


@pytest.mark.parametrize("name", LIMITED)
def test_a_region_with_two_tiers_and_no_efa(name: str) -> None:
    made = planned({**in_region(name), "compute.instance_count": 20, **reads("200 MB/s")})
    assert made.lustre is not None
    assert made.lustre.per_unit_storage_throughput in (125, 250)
    assert made.lustre.efa is False
    assert "region" in because(made, "lustre.efa", "false")[1]
    for override, path in (
        ({"per_unit_storage_throughput": 500}, "per_unit_storage_throughput"),
        ({"efa": True}, "efa"),
    ):
        (problem,) = refused({**in_region(name), "hot_tier": "lustre", "lustre": override})
        assert problem.path == f"lustre.{path}"


@pytest.mark.parametrize("name", WITHOUT)
def test_a_region_without_persistent_2_is_refused_naming_the_other_types(name: str) -> None:
    for changes in (
        {"compute.instance_count": 20},
        {"hot_tier": "lustre", "lustre": {"deployment_type": "PERSISTENT_2"}},
    ):
        (problem,) = refused({**in_region(name), **changes})
        assert "PERSISTENT_2" in problem.what
        assert "SCRATCH_2" in problem.allowed
        assert "PERSISTENT_1" in problem.allowed
    made = planned({**in_region(name), "compute.instance_count": 20, "lustre": {"deployment_type": "SCRATCH_2"}})
    assert made.lustre is not None


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_region_without_a_row_counts_as_full_with_an_assumption(name: str) -> None:
    made = planned({**in_region(name), "compute.instance_count": 20, **reads("200 MB/s")})
    assert made.lustre is not None
    assert (made.lustre.per_unit_storage_throughput, made.lustre.efa) == (1000, True)
    assert any(name in line and "all" in line for line in made.assumptions)


@pytest.mark.parametrize(("capacity", "there"), [(100_800, False), (103_200, True)])
def test_more_than_the_default_quota_gives_a_warning(capacity: int, there: bool) -> None:
    made = planned({"hot_tier": "lustre", "lustre": {"storage_capacity": f"{capacity} GiB"}})
    assert ("lustre-quota" in warning_ids(made)) is there


def test_each_configuration_says_capacity_throughput_and_price() -> None:
    made = planned({"compute.instance_type": "p4d.24xlarge", "compute.instance_count": 20})
    looked_at = [each for each in made.decisions if each.rule == "lustre.configuration"]
    assert [each.option for each in looked_at] == [f"PERSISTENT_2 SSD {tier} MB/s per TiB" for tier in TIERS]
    for each in looked_at:
        assert all(unit in each.because for unit in ("GiB", "MB/s", "USD a month"))
    assert [each.verdict for each in looked_at].count("chosen") == 1


def test_efa_is_explained_with_the_size_and_price_of_both() -> None:
    made = planned({"compute.instance_type": "p5.48xlarge", "compute.instance_count": 20, **reads("200 MB/s")})
    assert because(made, "lustre.efa", "true")[0] == "chosen"
    verdict, reason = because(made, "lustre.efa", "false")
    assert verdict == "rejected"
    assert "GiB" in reason
    assert "USD a month" in reason


def test_settings_of_lustre_without_lustre_give_a_warning() -> None:
    assert "lustre-unused" in warning_ids(planned({"lustre": {"storage_capacity": "4800 GiB"}}))
    assert "lustre-unused" not in warning_ids(planned({"lustre": {"removal": "delete"}}))
