"""Workloads that differ in single fields: the same as files that say so, refused for the same reasons."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import Data, dump_workload, workload_dicts
from tests.unit._planner import BASE, CATALOG
from training_storage.errors import Problem, WorkloadError
from training_storage.units import Size
from training_storage.workload import Workload, change_workload, parse_workload, workload_from_dict
from training_storage.workload.changing import Variations

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "compute.instance_count": st.sampled_from([0, 1, 17, 64, 65, 2000, 10**7]),
    "dataset.size": st.sampled_from(["1 TB", "60 TB", "0 B", "3"]),
    "dataset.read_rate.per_accelerator": st.sampled_from(["10 MB/s", "2 GB/s"]),
    "dataset.hot_fraction": st.sampled_from([0, 0.5, 1, 1.5]),
    "checkpoints.max_write_time": st.sampled_from(["30s", "1h"]),
    "scratch_size": st.sampled_from(["0 B", "5 TB"]),
    "lustre.storage_capacity": st.sampled_from(["1200 GiB", "4800 GiB", "4801 GiB", "38400 GiB"]),
    "lustre.per_unit_storage_throughput": st.sampled_from([12, 125, 500, 700]),
    "lustre.throughput_capacity": st.sampled_from([4000, 4001]),
    "lustre.backup_retention_days": st.sampled_from([0, 7, 91]),
    "s3_files.expire_after": st.sampled_from(["3d", "400d"]),
    "compute.type_facts.efa_interfaces": st.sampled_from([0, 1, 40]),
    "compute.type_facts.accelerators": st.sampled_from([1, 8]),
    "dataset.read_rate.samples.size": st.sampled_from(["1 MB"]),
    "express.expire_after": st.sampled_from(["1d", "36h"]),
    "data_lake.checkpoints_to_infrequent_access_after": st.sampled_from(["29d", "60d"]),
    "mountpoint.cache_size": st.sampled_from(["100 GiB"]),
}
_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)


def base() -> Workload:
    return workload_from_dict(copy.deepcopy(BASE))


def with_value(data: Data, path: str, value: Any) -> Data:
    """Return the data of a file with a value at a path."""
    changed = copy.deepcopy(data)
    *parents, key = path.split(".")
    place = changed
    for parent in parents:
        place = place.setdefault(parent, {})
    place[key] = value
    return changed


def answer(make: Any) -> Workload | set[Problem]:
    """Return the workload, or the problems without their place in a file."""
    try:
        workload = make()
    except WorkloadError as error:
        return {problem.at(None, None) for problem in error.problems}
    assert isinstance(workload, Workload)
    return workload


@settings(_SETTINGS, max_examples=100)
@given(workload_dicts(), st.sampled_from(sorted(VALUES)), st.data())
def test_a_changed_workload_is_what_a_file_with_that_value_gives(data: Data, path: str, draw: st.DataObject) -> None:
    value = draw.draw(VALUES[path])
    workload = workload_from_dict(data)
    file = answer(lambda: parse_workload(dump_workload(with_value(data, path, value))))
    changed = answer(lambda: change_workload(workload, {path: value}))
    varied = answer(lambda: Variations(workload, path, catalog=CATALOG).at(value))
    if isinstance(file, Workload):
        assert changed == file
        assert varied == file
        assert isinstance(varied, Workload)
        assert varied.model_fields_set == file.model_fields_set
    else:
        # A file shows values as they are written, a workload as they were read.
        assert isinstance(changed, set)
        assert {(each.path, each.what, each.allowed, each.fix) for each in changed} == {
            (each.path, each.what, each.allowed, each.fix) for each in file
        }
        assert varied == changed


def test_the_workload_itself_stays_as_it_is() -> None:
    workload = base()
    change_workload(workload, {"compute.instance_count": 9, "lustre.storage_capacity": "4800 GiB"})
    assert workload == base()
    assert "lustre" not in workload.model_fields_set


def test_none_takes_a_field_out() -> None:
    assert change_workload(base(), {"dataset.read_rate": None}).dataset.read_rate is None


def test_a_value_of_the_model_will_do() -> None:
    assert change_workload(base(), {"dataset.size": Size(5 * 10**12)}).dataset.size == Size(5 * 10**12)


def test_every_problem_of_several_changes_is_there() -> None:
    with pytest.raises(WorkloadError) as caught:
        change_workload(base(), {"compute.instance_count": 0, "lustre.storage_capacity": "1300 GiB"})
    assert {each.path for each in caught.value.problems} == {"compute.instance_count", "lustre.storage_capacity"}


def test_what_is_wrong_elsewhere_is_said_before_any_value_is_looked_at() -> None:
    wrong = Workload.model_validate({**copy.deepcopy(BASE), "availability_zone_id": "use2-az1"})
    with pytest.raises(WorkloadError) as caught:
        Variations(wrong, "compute.instance_count", catalog=CATALOG)
    assert [each.path for each in caught.value.problems] == ["availability_zone_id"]


def test_a_rule_on_the_field_itself_is_asked_for_every_value() -> None:
    block: Data = {
        "instance_type": "p5.48xlarge",
        "instance_count": 8,
        "purchase": "capacity-block",
        "capacity_reservation_id": "cr-0123456789abcdef0",
        "start": "2026-12-01T11:30:00Z",
        "end": "2026-12-08T10:30:00Z",
    }
    workload = workload_from_dict({**copy.deepcopy(BASE), "compute": block})
    variations = Variations(workload, "compute.instance_count", catalog=CATALOG)
    assert variations.at(64).compute.instance_count == 64
    with pytest.raises(WorkloadError) as varied:
        variations.at(65)
    with pytest.raises(WorkloadError) as changed:
        change_workload(workload, {"compute.instance_count": 65})
    assert varied.value.problems == changed.value.problems
    assert [each.path for each in varied.value.problems] == ["compute.instance_count"]
