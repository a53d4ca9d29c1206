"""The fleet of a plan: EFA and placement resolved, types that the catalog does not know, addresses and the network."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit._planner import CATALOG, planned, refused, warning, warning_ids
from training_storage.planner.fleet import addresses_per_instance

UNKNOWN: dict[str, Any] = {
    "compute.instance_type": "q9.48xlarge",
    "compute.type_facts": {
        "accelerators": 8,
        "network_cards": 8,
        "efa_interfaces": 8,
        "primary_card_has_efa": True,
        "network_gbps": 3200,
        "architecture": "x86_64",
    },
}
OWN_IMAGE = {"compute.image": "ami-0123456789abcdef0"}
GIVEN_VPC = {"network": {"vpc_id": "vpc-0abc0abc", "subnet_id": "subnet-0abc0abc"}}


@pytest.mark.parametrize(
    ("changes", "efa"),
    [
        ({"compute.instance_count": 1}, False),
        ({"compute.instance_count": 2}, True),
        ({"compute.instance_count": 2, "compute.instance_type": "g5.xlarge"}, False),
        ({"compute.instance_count": 2, "compute.efa": False}, False),
        ({"compute.instance_count": 1, "compute.efa": True}, True),
        # One instance, and the file system uses EFA.
        ({"compute.instance_count": 1, "hot_tier": "lustre", "lustre": {"efa": True}}, True),
        (
            {"compute.instance_count": 1, "hot_tier": "lustre", "dataset.read_rate": {"per_accelerator": "1.3 GB/s"}},
            True,
        ),
        (
            {
                "compute.instance_count": 1,
                "hot_tier": "lustre",
                "lustre": {"efa": True},
                "compute.instance_type": "g5.xlarge",
            },
            False,
        ),
    ],
)
def test_efa_of_the_fleet(changes: dict[str, Any], efa: bool) -> None:
    assert planned(changes).compute.efa is efa


@pytest.mark.parametrize(
    ("changes", "placement"),
    [
        ({}, "cluster"),
        ({"compute.efa": False}, "none"),
        ({"compute.instance_type": "g5.xlarge"}, "none"),
        ({"compute.purchase": "spot"}, "none"),
        ({"compute.purchase": "reservation", "compute.capacity_reservation_id": "cr-0123456789abcdef0"}, "none"),
        ({"compute.placement_group": "none"}, "none"),
        ({"compute.placement_group": "cluster", "compute.purchase": "spot"}, "cluster"),
    ],
)
def test_placement_group(changes: dict[str, Any], placement: str) -> None:
    assert planned(changes).compute.placement_group == placement


def test_efa_on_a_type_without_it_is_refused() -> None:
    (problem,) = refused({"compute.instance_type": "g5.xlarge", "compute.efa": True})
    assert problem.path == "compute.efa"
    assert "g5.xlarge" in problem.what


def test_an_unknown_type_names_the_nearest_one() -> None:
    (problem,) = refused({"compute.instance_type": "p5.48xlarg"})
    assert problem.path == "compute.instance_type"
    assert "p5.48xlarge" in problem.fix


def test_facts_of_a_known_type_are_refused() -> None:
    (problem,) = refused({"compute.type_facts": UNKNOWN["compute.type_facts"]})
    assert problem.path == "compute.type_facts"


def test_type_facts_stand_in_for_the_catalog() -> None:
    made = planned({**UNKNOWN, "compute.instance_count": 2})
    assert made.accelerators == 16
    assert made.compute.efa is True
    assert made.compute.mountpoint_gbps == 100  # several cards, one interface with IP
    assert len([each for each in made.compute.facts.efa_layout if each.interface_type == "efa-only"]) == 8
    assert "image-unknown" in warning_ids(made)
    assert "image-unknown" not in warning_ids(planned({**UNKNOWN, **OWN_IMAGE}))


@pytest.mark.parametrize(("cards", "interfaces"), [(8, 2), (1, 1)])
def test_type_facts_that_are_efa_clients_take_the_default_interfaces(cards: int, interfaces: int) -> None:
    facts = {
        **UNKNOWN["compute.type_facts"],
        "network_cards": cards,
        "efa_interfaces": cards,
        "fsx_efa_client": True,
    }
    made = planned(
        {
            **UNKNOWN,
            "compute.type_facts": facts,
            "compute.instance_count": 20,
            "dataset.read_rate": {"per_accelerator": "1 GB/s"},
        }
    )
    assert made.lustre is not None
    assert made.lustre.efa_interfaces_per_client == interfaces


def test_type_facts_without_more_are_no_efa_client_and_have_no_nvme() -> None:
    made = planned({**UNKNOWN, "compute.instance_count": 20, "dataset.read_rate": {"per_accelerator": "1 GB/s"}})
    assert made.lustre is not None
    assert made.lustre.efa is False
    assert made.compute.facts.local_nvme_gb == 0


@pytest.mark.parametrize("name", [name for name, row in CATALOG.instance_types.items() if row.has_efa])
def test_every_efa_layout_takes_one_address(name: str) -> None:
    # Few-IP layout of the EC2 User Guide: the ENA primary carries IP, efa-only interfaces carry none.
    assert addresses_per_instance(CATALOG.instance_types[name], efa=True) == 1


# A /18 has 16,384 addresses, of which AWS keeps 5.
@pytest.mark.parametrize(("instances", "fits"), [(16_377, True), (16_378, False)])
def test_an_own_vpc_holds_instances_and_file_servers(instances: int, fits: bool) -> None:
    changes = {
        "compute.instance_count": instances,
        "compute.instance_type": "g6.xlarge",
        "dataset.size": "500 GB",
        "dataset.read_rate": {"per_accelerator": "1 KB/s"},
    }
    if fits:
        made = planned(changes)
        assert made.lustre is not None
        assert made.lustre.ip_addresses == 2
    else:
        (problem,) = refused(changes)
        assert problem.value == 16_380
        assert "bring a VPC" in problem.fix
        assert planned({**changes, **GIVEN_VPC}).compute.instance_count == instances


@pytest.mark.parametrize(
    ("changes", "fine"),
    [
        ({}, False),
        (OWN_IMAGE, True),
        ({"lustre": {"efa": False}}, True),
        ({"network": {"internet": "nat"}}, True),
        ({"compute.efa": False}, True),
    ],
)
def test_without_internet_lustre_over_efa_needs_an_image(changes: dict[str, Any], fine: bool) -> None:
    workload = {
        "compute.instance_count": 20,
        "dataset.read_rate": {"per_accelerator": "200 MB/s"},
        "network": {"internet": "none"},
        **changes,
    }
    if fine:
        assert planned(workload).lustre is not None
    else:
        (problem,) = refused(workload)
        assert problem.path == "compute.image"


def test_report_36_routes_that_cannot_be_seen_say_what_nat_would_cost() -> None:
    made = planned({**GIVEN_VPC, "dataset.size": "100 TB", "dataset.file_count": 100})
    # 100 TB are 100,000 GB at 0.045 USD.
    assert "4,500 USD" in warning(made, "gateway-endpoint-unseen")
    assert "100,000 GB" in warning(made, "gateway-endpoint-unseen")


@pytest.mark.parametrize("changes", [{}, {"network": {**GIVEN_VPC["network"], "route_table_ids": ["rtb-0abc0abc"]}}])
def test_report_36_own_and_known_routes_give_no_warning(changes: dict[str, Any]) -> None:
    assert "gateway-endpoint-unseen" not in warning_ids(planned(changes))


def test_a_capacity_block_takes_no_placement_group() -> None:
    block = {
        "compute.purchase": "capacity-block",
        "compute.capacity_reservation_id": "cr-0123456789abcdef0",
        "compute.start": "2026-12-01T11:30:00Z",
        "compute.end": "2026-12-08T10:30:00Z",
    }
    assert planned(block).compute.placement_group == "none"
    (problem,) = refused({**block, "compute.placement_group": "cluster"})
    assert problem.path == "compute.placement_group"


def test_a_zone_of_another_region_is_refused() -> None:
    (problem,) = refused({"availability_zone_id": "usw2-az1"})
    assert problem.path == "availability_zone_id"


def test_an_unknown_region_names_the_nearest_one() -> None:
    (problem,) = refused({"region": "us-east-9", "availability_zone_id": "use1-az1"})
    assert problem.path == "region"
    assert "us-east-" in problem.fix
