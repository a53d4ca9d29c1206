"""Sweeps: each point is the plan of its value and nothing else, ranges hold what they say, refused values say why."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import Data, workload_dicts
from tests.unit._planner import CATALOG, make, planned
from training_storage.catalog import load_catalog
from training_storage.errors import PlanError, Problem, ValidationError, WorkloadError
from training_storage.planner import plan
from training_storage.planner.planning import plan_figures
from training_storage.units import Duration
from training_storage.whatif import Figures, Span, Sweep, default_sweep, sweep
from training_storage.whatif.figures import figures_of
from training_storage.whatif.sweep import REFUSED
from training_storage.workload import Workload, change_workload, load_workload, workload_from_dict

ROOT = Path(__file__).resolve().parents[2]
_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)


def llama() -> Workload:
    return load_workload(ROOT / "examples" / "llama3-70b.yaml")


def check_spans(found: Sweep) -> None:
    """Ranges follow each other without a gap, neighbours differ, and every point inside has the answer."""
    said: tuple[tuple[tuple[Span, ...], Callable[[Figures], str]], ...] = (
        (found.tiers, lambda figures: figures.hot),
        (found.configurations, lambda figures: figures.configuration),
    )
    for spans, answer in said:
        assert (spans[0].first_index, spans[-1].last_index) == (0, len(found.points) - 1)
        for before, after in pairwise(spans):
            assert after.first_index == before.last_index + 1
            assert before.answer != after.answer
        for span in spans:
            inside = found.points[span.first_index : span.last_index + 1]
            assert (span.first, span.last) == (inside[0].text, inside[-1].text)
            assert {REFUSED if each.figures is None else answer(each.figures) for each in inside} == {span.answer}


# Each point


SWEEPS = {
    "compute.instance_count": "1,16,17,63,64,65,300,1200",
    "dataset.size": "1 GB,1 TB,900 TB",
    "dataset.hot_fraction": "0,0.5,1",
    "scratch_size": "0 B,10 TB",
    "compute.accelerator_mttf": "1000h,50000h",
    "lustre.per_unit_storage_throughput": "125,250,500,600,1000",
    "lustre.storage_capacity": "1200 GiB,1201 GiB,4800 GiB,38400 GiB",
}


@settings(_SETTINGS, max_examples=40)
@given(workload_dicts(), st.sampled_from(sorted(SWEEPS)))
def test_each_point_is_the_plan_of_a_file_with_that_value(data: Data, field: str) -> None:
    workload = workload_from_dict(data)
    try:
        found = sweep(workload, field, SWEEPS[field])
    except WorkloadError:  # no value is legal there
        for text in SWEEPS[field].split(","):
            with pytest.raises(WorkloadError):
                change_workload(workload, {field: int(text) if text.isdecimal() else text})
        return
    except ValidationError:  # another key of the workload excludes the field
        return
    check_spans(found)
    for point in found.points:
        value = float(point.text) if field.endswith("fraction") else point.text
        value = int(point.text) if point.text.isdecimal() else value
        figures, reasons = outcome(workload, field, value)
        assert point.figures == figures
        assert [each.what for each in point.problems] == reasons


@settings(_SETTINGS, max_examples=60)
@given(workload_dicts())
def test_a_plan_for_its_figures_lacks_nothing_but_decisions_and_assumptions(data: Data) -> None:
    workload = workload_from_dict(data)
    problems: tuple[Problem, ...] = ()
    try:
        whole = plan(workload, catalog=CATALOG)
    except PlanError as error:
        problems = error.problems
    if problems:
        with pytest.raises(PlanError) as caught:
            plan_figures(workload, catalog=CATALOG)
        assert caught.value.problems == problems
        return
    assert whole.decisions
    assert plan_figures(workload, catalog=CATALOG) == replace(whole, decisions=(), assumptions=())


def outcome(workload: Workload, field: str, value: Any) -> tuple[Figures | None, list[str]]:
    """Return the figures of one changed workload, or why it has none."""
    try:
        return figures_of(plan(change_workload(workload, {field: value}))), []
    except (WorkloadError, PlanError) as error:
        return None, [each.what for each in error.problems]


def test_two_thousand_instances_are_two_thousand_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    module = sys.modules["training_storage.whatif.sweep"]
    counts: list[int] = []
    real = module.plan_figures

    def counted(workload: Workload, **settings_: Any) -> Any:
        counts.append(workload.compute.instance_count)
        return real(workload, **settings_)

    monkeypatch.setattr(module, "plan_figures", counted)
    found = sweep(llama(), "instance_count", "1..2000")
    assert counts == list(range(1, 2001))
    assert len(found.points) == 2000
    check_spans(found)


def test_the_tier_changes_where_the_contract_says() -> None:
    found = sweep(make(), "instance_count", "1..40")
    assert [(each.answer, each.first, each.last) for each in found.tiers] == [
        ("none", "1", "16"),
        ("lustre", "17", "40"),
    ]
    assert (found.field, found.unit, found.given, found.workload) == ("compute.instance_count", "", 4, "example")


def test_a_configuration_is_one_whatever_its_capacity() -> None:
    found = sweep(make({"hot_tier": "lustre"}), "dataset.size", "10 TB,20 TB,40 TB")
    capacities = [each.figures.storage_capacity_gib for each in found.points if each.figures is not None]
    assert len(set(capacities)) == 3
    assert len(found.configurations) == 1


def test_values_are_plain_numbers_and_texts_of_the_file() -> None:
    found = sweep(make(), "dataset.size", ["1 TB", "1 TiB"])
    assert [(each.value, each.text) for each in found.points] == [(10**12, "1 TB"), (2**40, "1024 GiB")]
    assert (found.unit, found.given) == ("B", 2 * 10**12)
    assert sweep(make(), "checkpoints.size", "1 GB").given is None
    assert sweep(make(), "lustre.metadata_iops", "1500,3000").given is None


def test_the_length_of_the_run_and_the_catalog_count(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text('{"prices": {"us-east-1": {"ec2.p5.48xlarge": {"usd": 1.0, "unit": "hour"}}}}', encoding="utf-8")
    found = sweep(make(), "instance_count", "2,3", catalog=load_catalog(file), run_length=Duration(86400))
    first, second = (each.figures for each in found.points)
    assert first is not None
    assert second is not None
    assert first.storage_run is not None
    assert (second.compute_hourly or 0) - (first.compute_hourly or 0) == pytest.approx(1.0)


def test_progress_is_told_after_each_point() -> None:
    told: list[tuple[int, int]] = []
    sweep(make(), "instance_count", "1..3", progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 3), (2, 3), (3, 3)]


# Values that are refused


def test_a_value_that_no_plan_has_is_a_point_with_its_reasons() -> None:
    found = sweep(make({"hot_tier": "lustre"}), "lustre.storage_capacity", "1200 GiB,1300 GiB,2400 GiB")
    assert [each.figures is None for each in found.points] == [False, True, False]
    (problem,) = found.points[1].problems
    assert problem.path == "lustre.storage_capacity"
    assert [each.answer for each in found.tiers] == ["lustre", REFUSED, "lustre"]


def test_a_field_that_no_value_of_the_range_fits_is_an_error_and_not_a_table() -> None:
    with pytest.raises(WorkloadError) as caught:
        sweep(make(), "instance_count", "0")
    (problem,) = caught.value.problems
    assert (problem.path, problem.what) == ("compute.instance_count", "is out of range")


def test_a_section_without_its_other_keys_is_an_error() -> None:
    with pytest.raises(WorkloadError) as caught:
        sweep(make({"dataset.read_rate": None}), "samples.per_second_per_accelerator", "1..10:1")
    assert [each.path for each in caught.value.problems] == ["dataset.read_rate.samples.size"]


def test_a_key_that_excludes_the_field_is_an_error() -> None:
    with pytest.raises(ValidationError, match="is given together with file_count"):
        sweep(make(), "average_file_size", "1 MB,2 MB")


def test_plans_that_are_refused_all_are_still_an_answer() -> None:
    made = make({"hot_tier": "none", "file_access": "none"})
    found = sweep(made, "instance_count", "1,2")
    assert [each.answer for each in found.tiers] == [REFUSED]
    assert all(each.problems for each in found.points)


# As plain data, and that of a report


def test_as_plain_data_it_is_json_with_every_key() -> None:
    found = sweep(make({"hot_tier": "lustre"}), "lustre.storage_capacity", "1200 GiB,1300 GiB").to_dict()
    json.dumps(found)
    assert set(found) == {"workload", "field", "unit", "given", "points", "tiers", "configurations"}
    points: Any = found["points"]
    assert all(set(point) == {"value", "text", "figures", "problems", "asked"} for point in points)
    assert points[0]["figures"]["hot"] == "lustre"
    assert set(points[1]["problems"][0]) == {"file", "line", "path", "what", "value", "allowed", "fix", "rule"}


@pytest.mark.parametrize(("count", "most"), [(1, 32), (8, 32), (64, 256), (1000, 4000)])
def test_the_sweep_of_a_report_holds_the_fleet_and_some_beyond(count: int, most: int) -> None:
    found = default_sweep(make({"compute.instance_count": count}), catalog=CATALOG)
    values = [each.value for each in found.points]
    assert values == sorted(set(values))
    assert (values[0], values[-1]) == (1, most)
    assert count in values
    assert len([each for each in found.points if each.asked]) <= 101


@pytest.mark.parametrize(("field", "changes"), [("tiers", {}), ("configurations", {"hot_tier": "lustre"})])
def test_the_sweep_of_a_report_has_the_values_at_which_the_answer_changes(field: str, changes: dict[str, Any]) -> None:
    workload = make({"compute.instance_count": 150, "dataset.read_rate": {"per_accelerator": "200 MB/s"}, **changes})
    found, every = default_sweep(workload), sweep(workload, "instance_count", "1..600")
    spans: list[tuple[Span, ...]] = [getattr(each, field) for each in (found, every)]
    sampled, exact = ([(each.answer, each.first, each.last) for each in each_] for each_ in spans)
    assert sampled == exact
    assert len(sampled) > 1
    assert len(found.points) < 150


# Borders between the values


def test_where_the_tier_changes_between_two_counts_both_neighbours_are_points() -> None:
    found = sweep(llama(), "instance_count", "4..1024*2")
    assert [(each.value, each.asked) for each in found.points] == [
        (4, True), (8, True), (16, True), (17, False), (32, True), (64, True),
        (128, True), (256, True), (512, True), (1024, True),
    ]  # fmt: skip
    assert [(each.first, each.last) for each in found.tiers] == [("4", "16"), ("17", "1024")]
    check_spans(found)
    check_point(llama(), found, 3)


def check_point(workload: Workload, found: Sweep, index: int) -> None:
    point = found.points[index]
    assert point.figures == outcome(workload, found.field, int(point.text))[0]


def test_each_of_several_changes_between_two_counts_is_found() -> None:
    object_native = load_workload(ROOT / "examples" / "object-native-2048.yaml")
    found = sweep(object_native, "instance_count", "100,2000000")
    # From 1,000 accelerators on S3 Express; the subnet of an own VPC holds 16,379 addresses; the file takes 1,000,000.
    assert [(each.answer, each.first, each.last) for each in found.tiers] == [
        ("lustre", "100", "124"),
        ("express", "125", "16379"),
        (REFUSED, "16380", "2000000"),
    ]
    check_spans(found)
    for index, point in enumerate(found.points):
        if point.figures is not None:
            check_point(object_native, found, index)
    assert [each.asked for each in found.points] == [True, False, False, False, False, True]


def test_no_border_is_looked_for_between_values_that_are_not_whole() -> None:
    found = sweep(make(), "dataset.read_rate.per_accelerator", "1 MB/s,8 GB/s")
    assert len(found.tiers) == len(found.points) == 2


def test_values_are_taken_in_their_order_and_once() -> None:
    found = sweep(make(), "instance_count", "17,2,16,2")
    assert [each.value for each in found.points] == [2, 16, 17]
    assert [(each.first, each.last) for each in found.tiers] == [("2", "16"), ("17", "17")]


def test_the_same_sweep_twice_is_the_same() -> None:
    assert sweep(llama(), "instance_count", "10..30") == sweep(llama(), "instance_count", "10..30")
    assert planned() == planned()
