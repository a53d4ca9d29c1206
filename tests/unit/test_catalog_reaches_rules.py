"""A user's catalog file decides what is legal too: planner, checks of a workload file and rules take one catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit._planner import make
from training_storage.catalog import Catalog, load_catalog
from training_storage.cli import main
from training_storage.errors import PlanError, Problem, WorkloadError
from training_storage.planner import Plan, plan
from training_storage.rules.base import find_problems
from training_storage.rules.fleet import FLEET_RULES, FleetSettings
from training_storage.rules.links import LINK_RULES, LinkSettings
from training_storage.rules.lustre import LUSTRE_RULES
from training_storage.rules.lustre_settings import PERSISTENT_2, TIERED
from training_storage.rules.mounts import MOUNT_RULES, MountSettings, NodeSettings
from training_storage.workload import workload_from_dict

FIVE_THOUSAND = {
    "lustre_options": {
        "PERSISTENT_2": {"SSD": {"step_gib": dict.fromkeys(("125", "250", "500", "1000"), 5000), "first_gib": []}}
    }
}
"""Capacities in steps of 5000 GiB, which no rule of the package takes."""

OnLustre = Callable[..., dict[str, Any]]


@pytest.fixture
def catalog_of(tmp_path: Path) -> Callable[[dict[str, Any]], Catalog]:
    """Return what reads tables as a user's catalog file."""

    def load(tables: dict[str, Any]) -> Catalog:
        file = tmp_path / "catalog.json"
        file.write_text(json.dumps(tables), encoding="utf-8")
        return load_catalog(file)

    return load


def on_lustre(**lustre: Any) -> dict[str, Any]:
    """Return a workload on Lustre as plain data."""
    return {
        "name": "example",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "compute": {"instance_type": "p5.48xlarge", "instance_count": 4},
        "dataset": {"size": "2 TB", "file_count": 2000, "read_rate": {"per_accelerator": "10 MB/s"}},
        "hot_tier": "lustre",
        "lustre": lustre,
    }


def planned(data: dict[str, Any], catalog: Catalog) -> Plan:
    return plan(workload_from_dict(data, catalog=catalog), catalog=catalog)


def problems(data: dict[str, Any], catalog: Catalog) -> tuple[Problem, ...]:
    with pytest.raises((WorkloadError, PlanError)) as caught:
        planned(data, catalog)
    return caught.value.problems


def test_a_planned_capacity_is_one_of_the_users_steps(catalog_of: Callable[..., Catalog]) -> None:
    found = planned(on_lustre(), catalog_of(FIVE_THOUSAND)).lustre
    assert found is not None
    assert found.storage_capacity_gib == 5000


def test_a_given_capacity_is_held_against_the_users_steps(catalog_of: Callable[..., Catalog]) -> None:
    catalog = catalog_of(FIVE_THOUSAND)
    found = planned(on_lustre(storage_capacity="10000 GiB"), catalog).lustre
    assert found is not None
    assert found.storage_capacity_gib == 10_000
    (problem,) = problems(on_lustre(storage_capacity="4800 GiB"), catalog)
    assert (problem.rule, problem.fix) == ("lustre.capacity-step", "5000 GiB")


def test_the_planner_alone_takes_its_catalog_too(catalog_of: Callable[..., Catalog]) -> None:
    workload = make({"hot_tier": "lustre", "lustre.storage_capacity": "10000 GiB"})
    found = plan(workload, catalog=catalog_of(FIVE_THOUSAND)).lustre
    assert found is not None
    assert found.storage_capacity_gib == 10_000


def test_a_new_tier_is_legal(catalog_of: Callable[..., Catalog]) -> None:
    tiers = ("125", "250", "500", "1000", "2000")
    row = {
        "tiers": [int(tier) for tier in tiers],
        "step_gib": dict.fromkeys(tiers, 2400),
        "gib_per_server": dict.fromkeys(tiers, 2400),
        "efa_step_gib": dict.fromkeys(tiers, 4800),
        "read_mb_per_s_per_tib": {tier: int(tier) for tier in tiers},
        "write_mb_per_s_per_tib": {tier: int(tier) for tier in tiers},
    }
    regions = {"us-east-1": {"lustre_tiers": [int(tier) for tier in tiers]}}
    catalog = catalog_of({"lustre_options": {"PERSISTENT_2": {"SSD": row}}, "regions": regions})
    found = planned(on_lustre(per_unit_storage_throughput=2000), catalog).lustre
    assert found is not None
    assert found.per_unit_storage_throughput == 2000


def test_more_links_are_legal(catalog_of: Callable[..., Catalog]) -> None:
    links = [{"path": f"/d{number}", "source": f"s3://bucket/d{number}/"} for number in range(9)]
    found = planned(on_lustre(links=links), catalog_of({"lustre_limits": {"max_links": {"value": 9}}})).lustre
    assert found is not None
    assert len(found.links) == 9


def test_the_users_catalog_reaches_the_rules_through_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog, workload = tmp_path / "catalog.json", tmp_path / "workload.json"
    catalog.write_text(json.dumps(FIVE_THOUSAND), encoding="utf-8")
    workload.write_text(json.dumps(on_lustre(storage_capacity="10000 GiB")), encoding="utf-8")
    assert main(["plan", str(workload), "--catalog", str(catalog), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["lustre"]["storage_capacity_gib"] == 10_000
    assert main(["plan", str(workload)]) == 2


NVME = MountSettings(path="/lake", kind="mountpoint", directory_bucket=False, cache="nvme", cache_size_mib=900_000)


@pytest.mark.parametrize(
    ("rules", "subject", "tables"),
    [
        (LUSTRE_RULES, replace(PERSISTENT_2, storage_capacity_gib=5000), FIVE_THOUSAND),
        (
            LUSTRE_RULES,
            replace(PERSISTENT_2, metadata_mode="USER_PROVISIONED", metadata_iops=204_000),
            {"lustre_limits": {"metadata_iops_max": {"value": 204_000}}},
        ),
        (
            LUSTRE_RULES,
            replace(TIERED, throughput_capacity_mb_per_s=6000),
            {"lustre_limits": {"intelligent_tiering_throughput_step_mb_per_s": {"value": 2000}}},
        ),
        (
            LUSTRE_RULES,
            replace(TIERED, metadata_iops=24_000),
            {"lustre_limits": {"intelligent_tiering_metadata_iops": {"value": [24_000]}}},
        ),
        (
            LINK_RULES,
            tuple(LinkSettings(path=f"/d{n}", bucket="lake", prefix=f"p{n}/") for n in range(9)),
            {"lustre_limits": {"max_links": {"value": 9}}},
        ),
        (
            FLEET_RULES,
            FleetSettings(image="auto"),
            {
                "instance_types": {"p3dn.24xlarge": {"image_family": "dl-base-gpu"}},
                "image_families": {"dl-base-gpu": {"parameters": {"x86_64": "/images/v100"}}},
            },
        ),
        (
            MOUNT_RULES,
            NodeSettings(mounts=(NVME,), local_nvme_gb=1000.0),  # 900,000 MiB are 94 % of 1000 GB
            {"object_storage": {"mountpoint_cache_disk_share_max": {"value": 0.95}}},
        ),
        (
            MOUNT_RULES,
            NodeSettings(mounts=(MountSettings(path="/lake", kind="mountpoint", memory_target_mib=256),)),
            {"object_storage": {"mountpoint_memory_target_min_mib": {"value": 256}}},
        ),
    ],
)
def test_every_room_of_rules_takes_the_users_facts(
    catalog_of: Callable[..., Catalog], rules: Any, subject: Any, tables: dict[str, Any]
) -> None:
    catalog = catalog_of(tables)
    ours = subject
    if isinstance(subject, FleetSettings):
        ours = replace(subject, facts=load_catalog().instance_types["p3dn.24xlarge"])
        subject = replace(subject, facts=catalog.instance_types["p3dn.24xlarge"])
    assert find_problems(rules, ours) != ()
    theirs = (
        tuple(replace(each, catalog=catalog) for each in subject)
        if isinstance(subject, tuple)
        else replace(subject, catalog=catalog)
    )
    assert find_problems(rules, theirs) == ()
