"""Demand: what is worked out of a workload, what is not known, and the limits of one client."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit._planner import CATALOG, make, planned, refused, warning_ids
from training_storage.planner.demand import Needs, measure
from training_storage.planner.draft import Draft
from training_storage.planner.lustre_efa import efa_client_limit, tcp_client_limit
from training_storage.planner.lustre_plan import _ask, _given_settings  # the question as the planner asks it


def needs(changes: dict[str, Any]) -> Needs:
    workload = make(changes)
    problems: list[Any] = []
    facts = CATALOG.instance_types[workload.compute.instance_type]
    result = measure(workload, facts, CATALOG, problems)
    assert problems == []
    return result


@pytest.mark.parametrize("model", ["unet3d", "resnet50", "cosmoflow"])
def test_reference_without_a_row_for_the_accelerator_names_those_that_have_one(model: str) -> None:
    problem = next(
        each
        for each in refused({"compute.instance_type": "trn1.32xlarge", "dataset.read_rate": {"reference": model}})
        if each.path == "dataset.read_rate.reference"
    )
    rows = {row.accelerator for row in CATALOG.reference_workloads if row.model == model}
    assert all(accelerator in problem.allowed for accelerator in rows)


def test_unknown_reference_names_the_known_ones() -> None:
    (problem,) = refused({"dataset.read_rate": {"reference": "unet4d"}})
    assert "unet3d" in problem.allowed
    assert problem.value == "unet4d"


def lustre_question(changes: dict[str, Any]) -> Any:
    workload = make({"hot_tier": "lustre", **changes})
    facts = CATALOG.instance_types[workload.compute.instance_type]
    draft = Draft(
        workload=workload,
        catalog=CATALOG,
        region=CATALOG.regions[workload.region],
        facts=facts,
        needs=measure(workload, facts, CATALOG, []),
    )
    return _ask(draft, _given_settings(draft, ()))


def test_transport_limits_of_one_client() -> None:
    question = lustre_question({"compute.instance_type": "g6e.48xlarge"})
    # 400 Gbit/s over 4 cards, 2 of them with FSx: 25,000 MB/s; over TCP 625 MB/s a server up to 12,500 MB/s.
    assert efa_client_limit(question, 2) == 25_000
    assert [tcp_client_limit(question, servers) for servers in (1, 2, 20, 21)] == [625, 1250, 12_500, 12_500]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"dataset.read_rate": None}, "read_mb_per_s"),
        ({"dataset.read_rate": None}, "file_opens_per_s"),
        ({"dataset.file_count": None}, "file_opens_per_s"),
        ({}, "checkpoint_gib"),
        ({}, "checkpoint_write_mb_per_s"),
        ({}, "restore_read_mb_per_s"),
        ({"dataset.read_rate": None}, "required_mb_per_s"),
    ],
)
def test_what_is_not_given_is_null(changes: dict[str, Any], field: str) -> None:
    assert getattr(planned(changes).demand, field) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"dataset.read_rate": None}, {"reads-unknown", "opens-unknown", "checkpoints-unknown"}),
        ({"dataset.file_count": None}, {"opens-unknown", "checkpoints-unknown"}),
        ({}, {"checkpoints-unknown"}),
        ({"checkpoints": {"size": "40 GiB", "interval": "12h"}}, set()),
    ],
)
def test_what_is_not_given_gives_a_warning(changes: dict[str, Any], expected: set[str]) -> None:
    assert {each for each in warning_ids(planned(changes)) if each.endswith("-unknown")} == expected


@pytest.mark.parametrize(
    ("checkpoints", "seconds"),
    [
        # Synchronous: the smaller of max_write_time and interval x f / (1 - f), f = 0.01.
        ({"interval": "99m"}, 60.0),
        ({"interval": "98m"}, 98 * 60 * 0.01 / 0.99),
        ({"interval": "98m", "max_stall": 0.5}, 60.0),
        # Asynchronous: the smaller of max_write_time and interval.
        ({"interval": "50s", "asynchronous": True}, 50.0),
        ({"interval": "70s", "asynchronous": True}, 60.0),
        # 32 accelerators: mtbf 5,625,000 s, and 2 x mtbf x (1/99)^2 = 1147.8 s.
        ({"interval": "auto", "max_write_time": "1h"}, 2 * 5_625_000 / 99**2),
        ({"interval": "auto", "max_write_time": "2m"}, 120.0),
        # 2 x mtbf = 130 days.
        ({"interval": "auto", "asynchronous": True, "max_write_time": "200d"}, 2 * 5_625_000.0),
        ({"interval": "auto", "asynchronous": True, "max_write_time": "100d"}, 100 * 86400.0),
    ],
)
def test_longest_save(checkpoints: dict[str, Any], seconds: float) -> None:
    saves = needs({"checkpoints": {"size": "1 TB", **checkpoints}}).saves
    assert saves is not None
    assert saves.longest_write_s == pytest.approx(seconds)


def test_interval_of_a_stall_is_the_bound_it_came_from() -> None:
    saves = needs({"checkpoints": {"size": "1 TB", "interval": "auto", "max_write_time": "1h"}}).saves
    assert saves is not None
    assert saves.stall_fraction(saves.longest_write_s) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("asynchronous", "required"),
    # 320 MB/s of reads, 1000 GB / 1000 s of saves, 1000 GB / 2000 s of restores.
    [(False, 1000.0), (True, 1320.0)],
)
def test_asynchronous_saves_add_to_reads(asynchronous: bool, required: float) -> None:
    demand = needs(
        {
            "checkpoints": {
                "size": "1 TB",
                "interval": "30d",
                "max_write_time": "1000s",
                "max_restore_time": "2000s",
                "asynchronous": asynchronous,
            }
        }
    ).demand
    assert demand.required_mb_per_s == pytest.approx(required)


def test_hot_capacity_holds_data_checkpoints_and_scratch_with_headroom() -> None:
    demand = needs(
        {
            "dataset.size": "1000 GiB",
            "dataset.hot_fraction": 0.5,
            "checkpoints": {"size": "10 GiB", "keep_hot": 4},
            "scratch_size": "50 GiB",
        }
    ).demand
    assert demand.hot_capacity_gib == pytest.approx((500 + 5 * 10 + 50) / 0.8)


@pytest.mark.parametrize(
    ("dataset", "requests"),
    [
        # One open and one request for each part of 8 MiB.
        ({"average_file_size": "8 MiB", "file_count": None}, 320e6 / 2**23 * 2),
        ({"average_file_size": "8388609 B", "file_count": None}, 320e6 / 8388609 * 3),
        ({"file_count": 2000}, 0.32 * (1 + math.ceil(1e9 / 2**23))),
        # Unknown size: 8 MiB parts of the read rate.
        ({"file_count": None}, 320e6 / 2**23),
    ],
)
def test_read_requests(dataset: dict[str, Any], requests: float) -> None:
    found = needs({f"dataset.{key}": value for key, value in dataset.items()})
    assert found.read_requests_per_s == pytest.approx(requests)


def test_one_sample_a_file_gives_the_file_size() -> None:
    found = needs(
        {
            "dataset.file_count": None,
            "dataset.read_rate": {"samples": {"size": "20 MiB", "per_second_per_accelerator": 1}},
        }
    )
    assert found.file_bytes == 20 * 2**20
    assert found.read_requests_per_s == pytest.approx(32 * (1 + 3))
