"""Field reports 2, 4 and 5 in their planning part, and what a plan says about itself."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from tests.unit._planner import CATALOG, SAVES, because, make, planned, refused, warning, warning_ids
from training_storage.planner import LustrePlan, plan

TIERS = (125, 250, 500, 1000)
EFA_STEPS = {125: 38_400, 250: 19_200, 500: 9600, 1000: 4800}
# 1200, 2400, then multiples of 2400: FSx API reference.
LEGAL = [1200, *range(2400, 100_801, 2400)]


def asking(need_gib: float, **override: Any) -> LustrePlan:
    """The file system of a workload that needs so much space, headroom included, and no throughput."""
    made = planned(
        {
            "compute.instance_type": "p4d.24xlarge",
            "dataset.size": f"{need_gib * 0.8!r} GiB",
            "dataset.read_rate": None,
            "hot_tier": "lustre",
            "lustre": override,
        }
    )
    assert made.lustre is not None
    return made.lustre


@pytest.mark.parametrize(
    ("need", "granted"),
    # 2 TiB are 2048 GiB, 2 TB are 1863 GiB.
    [(1400, 2400), (1200, 1200), (2048, 2400), (2e12 / 2**30, 2400), (1201, 2400), (2401, 4800), (4800, 4800)],
)
def test_report_02_the_plan_shows_what_is_asked_and_what_is_granted(need: float, granted: int) -> None:
    part = asking(need)
    assert part.asked_capacity_gib == pytest.approx(need)
    assert part.storage_capacity_gib == granted


@pytest.mark.parametrize("tier", TIERS)
def test_report_02_every_size_of_the_grid_is_granted_as_it_is_and_one_more_takes_the_next(tier: int) -> None:
    for size, larger in pairwise(LEGAL):
        assert asking(size, per_unit_storage_throughput=tier).storage_capacity_gib == size
        assert asking(size + 1, per_unit_storage_throughput=tier).storage_capacity_gib == larger


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("size", [1200, 2400, 4800, 48_000])
def test_report_02_throughput_counts_tib_of_1024_gib(size: int, tier: int) -> None:
    part = asking(size, storage_capacity=f"{size} GiB", per_unit_storage_throughput=tier)
    assert part.throughput_mb_per_s == size / 1024 * tier


@pytest.mark.parametrize("name", sorted(CATALOG.instance_types))
def test_report_04_every_persistent_2_plan_has_a_metadata_mode_and_version_2_15(name: str) -> None:
    row = CATALOG.instance_types[name]
    block = {
        "compute.purchase": "capacity-block",
        "compute.capacity_reservation_id": "cr-0123456789abcdef0",
        "compute.start": "2026-12-01T11:30:00Z",
        "compute.end": "2026-12-08T10:30:00Z",
    }
    on_demand = not row.usage_classes or "on-demand" in row.usage_classes
    changes = {"compute.instance_type": name, "compute.instance_count": 17, "compute.image": "ami-0123456789abcdef0"}
    part = planned({**changes, **({} if on_demand else block)}).lustre
    assert part is not None
    assert part.metadata_mode == "AUTOMATIC"
    assert part.file_system_type_version == "2.15"


def test_report_04_the_smallest_file_system_has_a_metadata_mode_and_scratch_has_none() -> None:
    assert (asking(100).storage_capacity_gib, asking(100).metadata_mode, asking(100).metadata_iops) == (
        1200,
        "AUTOMATIC",
        1500,
    )
    assert asking(100, deployment_type="SCRATCH_2").metadata_mode is None


@pytest.mark.parametrize(("tier", "step"), EFA_STEPS.items())
def test_report_05_efa_takes_every_multiple_of_its_step_and_nothing_between(tier: int, step: int) -> None:
    changes: dict[str, Any] = {"hot_tier": "lustre", "dataset.size": "100 GB", "dataset.read_rate": None}
    for factor in (1, 2, 3, 10):
        override = {"efa": True, "per_unit_storage_throughput": tier, "storage_capacity": f"{factor * step} GiB"}
        part = planned({**changes, "lustre": override}).lustre
        assert part is not None
        assert part.storage_capacity_gib == factor * step
    for size in sorted({1200, step // 2, step + 2400, step * 3 // 2}):
        if size % step:
            override = {"efa": True, "per_unit_storage_throughput": tier, "storage_capacity": f"{size} GiB"}
            problems = refused({**changes, "lustre": override})
            assert any(str(step) in f"{problem.allowed} {problem.fix}" for problem in problems)


def test_report_05_efa_at_250_names_19200() -> None:
    override = {"efa": True, "per_unit_storage_throughput": 250, "storage_capacity": "1200 GiB"}
    problems = refused({"hot_tier": "lustre", "lustre": override})
    assert any("19200" in f"{problem.allowed} {problem.fix}" for problem in problems)


def test_report_05_the_plan_shows_size_and_price_with_and_without_efa() -> None:
    made = planned({"compute.instance_count": 20, "dataset.read_rate": {"per_accelerator": "200 MB/s"}})
    assert made.lustre is not None
    _, without = because(made, "lustre.efa", "false")
    label = f"PERSISTENT_2 SSD {made.lustre.per_unit_storage_throughput} MB/s per TiB"
    _, with_efa = because(made, "lustre.configuration", label)
    for text in (without, with_efa):
        assert "GiB" in text
        assert "USD a month" in text


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"compute.instance_count": 64, "checkpoints": SAVES},
        {"dataset.interface": "object", "compute.instance_count": 125},
    ],
)
def test_same_workload_same_bytes(changes: dict[str, Any]) -> None:
    first, second = plan(make(changes)), plan(make(changes))
    assert first.to_json() == second.to_json()
    assert json.loads(first.to_json())["workload"] == "example"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpoints": {"parameters": 70e9}}, "14 bytes a parameter"),
        ({}, "fails once in 50,000 hours"),
        ({"checkpoints": {"size": "1 TB"}}, "nothing is counted from a failure to the start of the restore"),
    ],
)
def test_figures_of_ours_are_said_as_assumptions(changes: dict[str, Any], words: str) -> None:
    assert any(words in line for line in planned(changes).assumptions)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checkpoints": {"parameters": 70e9, "bytes_per_parameter": 14}}, "bytes a parameter"),
        # What an author gives is no assumption of ours, even where it is the default.
        ({"compute.accelerator_mttf": "50000h"}, "fails once in"),
        ({"checkpoints": {"size": "1 TB", "restart_time": "0s"}}, "from a failure to the start of the restore"),
    ],
)
def test_figures_of_the_author_are_not(changes: dict[str, Any], words: str) -> None:
    assert not any(words in line for line in planned(changes).assumptions)


def test_ranking_prices_are_said_to_be_of_low_trust() -> None:
    made = planned({"compute.instance_count": 20})
    assert any("us-east-1" in line and "trust is low" in line for line in made.assumptions)


def test_prices_of_us_east_1_rank_every_region() -> None:
    here = planned({"compute.instance_count": 20})
    there = planned({"compute.instance_count": 20, "region": "us-west-2", "availability_zone_id": "usw2-az1"})
    assert here.lustre is not None
    assert there.lustre is not None
    assert here.lustre.ranking_usd_per_month == there.lustre.ranking_usd_per_month


# SCRATCH_2, PERSISTENT_1 SSD and HDD are the types that can be made with 2.10 (facts of the catalog).
WITH_2_10 = [
    {"deployment_type": "SCRATCH_2"},
    {"deployment_type": "PERSISTENT_1", "per_unit_storage_throughput": 50},
    {"storage_type": "HDD", "per_unit_storage_throughput": 12},
]
OLD = {"hot_tier": "lustre", "lustre.file_system_type_version": "2.10", "lustre.links": []}


@pytest.mark.parametrize("kind", WITH_2_10)
@pytest.mark.parametrize(
    ("image", "client"),
    [
        ("auto", "al2023"),
        ("ssm:/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64", "al2023"),
        (
            "ssm:/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/latest/ami-id",
            "ubuntu22.04",
        ),
    ],
)
def test_report_07_2_10_and_a_new_client_are_refused_naming_both(kind: dict[str, Any], image: str, client: str) -> None:
    lustre = {f"lustre.{name}": value for name, value in kind.items()}
    (problem,) = refused({**OLD, **lustre, "compute.image": image})
    assert problem.rule == "lustre.version-clients"
    assert "2.10" in problem.what
    assert client in problem.what


@pytest.mark.parametrize("kind", WITH_2_10)
def test_report_07_2_10_and_an_image_that_says_nothing_warn_naming_both(kind: dict[str, Any]) -> None:
    lustre = {f"lustre.{name}": value for name, value in kind.items()}
    message = warning(planned({**OLD, **lustre, "compute.image": "ami-0123456789abcdef0"}), "lustre-old-version")
    assert "2.10" in message
    assert "ami-0123456789abcdef0" in message


@pytest.mark.parametrize("version", ["2.12", "2.15"])
def test_report_07_newer_servers_do_not_warn(version: str) -> None:
    changes = {**OLD, "lustre.deployment_type": "SCRATCH_2", "lustre.file_system_type_version": version}
    assert "lustre-old-version" not in warning_ids(planned({**changes, "compute.image": "ami-0123456789abcdef0"}))


def test_the_largest_throughput_capacity_is_planned_as_far_as_it_goes() -> None:
    # 2,000,000 MB/s is the most of INTELLIGENT_TIERING: FSx API model. 400 x 8 x 1 GB/s are 3,200,000.
    made = planned(
        {
            "compute.instance_count": 400,
            "dataset.read_rate.per_accelerator": "1 GB/s",
            "lustre.storage_type": "INTELLIGENT_TIERING",
            "lustre.links": [],
        }
    )
    assert made.lustre is not None
    assert made.lustre.throughput_capacity_mb_per_s == 2_000_000
    assert "1,200,000 MB/s of 3,200,000 MB/s" in warning(made, "lustre-too-small")
