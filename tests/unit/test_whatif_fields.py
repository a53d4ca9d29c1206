"""Fields by name and ranges of their values: with units as in the file, and with errors that say what to change."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit._planner import make
from training_storage.errors import ValidationError
from training_storage.units import GIB, Duration, Rate, Size
from training_storage.whatif.fields import find_field, numeric_fields, refuse_conflict
from training_storage.whatif.values import EVEN_POINTS, POINTS_MAX, parse_values, plain_number, values_of, written
from training_storage.workload.changing import given_values
from training_storage.workload.model import Workload
from training_storage.workload.section import Section, shorten

GB, TB = 10**9, 10**12


def values(field: str, text: str) -> list[float]:
    return [plain_number(value) for value in parse_values(find_field(field), text)]


def problem(field: str, text: str) -> Any:
    with pytest.raises(ValidationError) as caught:
        parse_values(find_field(field), text)
    (found,) = caught.value.problems
    return found


# Names


def test_every_field_that_reads_a_number_is_there() -> None:
    """A field is numeric where its reader takes a number or a quantity, whatever its type is called."""
    tries: dict[str, tuple[Any, ...]] = {
        "count": (1, 7, 60, 1500, 4000),
        "size": (Size(2**40),),
        "rate": (Rate(10**9),),
        "duration": (Duration(30 * 86400), Duration(3 * 86400)),
    }
    found: dict[str, str] = {}

    def takes(field: Any, value: Any) -> bool:
        try:
            field.read(value)
        except Exception:  # whatever a value of another kind raises: it is not taken
            return False
        return True

    def walk(section: type[Section], path: str) -> None:
        for key, name in section.keys().items():
            field, here = section.fields[name], f"{path}.{key}".lstrip(".")
            if field.section is not None:
                if isinstance(getattr(field.read, "section", None), type):
                    continue  # a list of sections
                walk(field.section, here)
                continue
            for kind, samples in tries.items():
                if any(takes(field, each) for each in samples):
                    found[here] = kind
            if found.get(here) == "count" and takes(field, 1.5) is True:
                found[here] = "number"

    walk(Workload, "")
    known = {path: field.kind for path, field in numeric_fields().items()}
    # A share ends at 1, and so takes none but the first of the whole numbers and no 1.5.
    shares = {
        "dataset.hot_fraction",
        "checkpoints.max_stall",
        "lifecycle.warn_when_free_below",
        "lifecycle.release_data_when_free_below",
    }
    assert set(known) == set(found) | shares
    assert {path: kind for path, kind in known.items() if path not in shares} == {
        path: kind for path, kind in found.items() if path not in shares
    }
    assert {known[path] for path in shares} == {"number"}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("instance_count", "compute.instance_count"),
        ("compute.instance_count", "compute.instance_count"),
        (" max_write_time ", "checkpoints.max_write_time"),
        ("read_rate.per_accelerator", "dataset.read_rate.per_accelerator"),
        ("per_accelerator", "dataset.read_rate.per_accelerator"),
        ("scratch_size", "scratch_size"),
        ("samples.size", "dataset.read_rate.samples.size"),
    ],
)
def test_a_field_is_found_by_its_path_or_its_end(name: str, path: str) -> None:
    assert find_field(name).path == path


def test_a_name_of_several_fields_names_them_all() -> None:
    with pytest.raises(ValidationError) as caught:
        find_field("size")
    (found,) = caught.value.problems
    assert found.allowed == "dataset.size or dataset.read_rate.samples.size or checkpoints.size"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("instance_cuont", "compute.instance_count"),
        ("compute.instances", "compute.instance_count"),
        ("max_write", "checkpoints.max_write_time"),
        ("lustre.storage_capacty", "lustre.storage_capacity"),
        ("dataset.sizes", "dataset.size"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ValidationError) as caught:
        find_field(name)
    (found,) = caught.value.problems
    assert found.what == "is no numeric field of a workload file"
    assert found.value == name
    assert near in found.fix


@pytest.mark.parametrize("name", ["", "compute.instance_type", "hot_tier", "lustre.links", "zzz", "compute"])
def test_what_is_no_number_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="is no numeric field"):
        find_field(name)


# Ranges


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("instance_count", "1..5", [1, 2, 3, 4, 5]),
        ("instance_count", "8..32:8", [8, 16, 24, 32]),
        ("instance_count", "1..10:4", [1, 5, 9]),
        ("instance_count", "1..16*2", [1, 2, 4, 8, 16]),
        ("instance_count", "1..4*1.3", [1, 2, 3, 4]),
        ("instance_count", "16, 32,64", [16, 32, 64]),
        ("instance_count", "64", [64]),
        ("instance_count", "7..7", [7]),
        ("checkpoints.parameters", "1e9..1e12*10", [1e9, 1e10, 1e11, 1e12]),
        ("hot_fraction", "0.1..0.5:0.1", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("dataset.size", "1 TB..3 TB:1 TB", [TB, 2 * TB, 3 * TB]),
        ("dataset.size", "1..3 TB:1", [TB, 2 * TB, 3 * TB]),
        ("dataset.size", "500 GB..2 TB:750 GB", [500 * GB, 1250 * GB, 2000 * GB]),
        ("dataset.size", "1 GiB..4 GiB*2", [GIB, 2 * GIB, 4 * GIB]),
        ("per_accelerator", "10 MB/s,2.5 GB/s", [10_000_000, 2_500_000_000]),
        ("per_accelerator", "10..20 MB/s:5", [10_000_000, 15_000_000, 20_000_000]),
        ("max_write_time", "30s..2m:30s", [30, 60, 90, 120]),
        ("max_write_time", "1m..1h*60", [60, 3600]),
        ("dataset.size", "1 GB..2 GB*1.1", [1e9, 1.1e9, 1.21e9, 1.331e9, 1.4641e9, 1.61051e9, 1.771561e9, 1.9487171e9]),
        ("hot_fraction", "0.1..0.4*1.3333", [0.1, 0.13333, 0.17777, 0.23702, 0.316]),
        ("lustre.storage_capacity", "1200 GiB..10000 GiB*1.9", [1200 * GIB, 2280 * GIB, 4332 * GIB, 8231 * GIB]),
        ("hot_fraction", "-0.0,0.5", [0, 0.5]),
        ("checkpoints.interval", "30m,1h", [1800, 3600]),
    ],
)
def test_ranges(field: str, text: str, expected: list[float]) -> None:
    assert values(field, text) == expected


def test_a_range_of_counts_goes_by_one_and_reaches_its_end() -> None:
    assert values("instance_count", "1..2000") == list(range(1, 2001))


@pytest.mark.parametrize(
    ("field", "text", "ends"),
    [
        ("dataset.size", "1 TB..100 TB", (TB, 100 * TB)),
        ("per_accelerator", "10 MB/s..2 GB/s", (10**7, 2 * 10**9)),
        ("max_write_time", "30s..10m", (30, 600)),
        ("hot_fraction", "0.1..1", (0.1, 1)),
    ],
)
def test_other_ranges_have_fifty_even_points(field: str, text: str, ends: tuple[float, float]) -> None:
    found = values(field, text)
    assert len(found) == EVEN_POINTS
    assert (found[0], found[-1]) == ends
    width = (ends[1] - ends[0]) / (EVEN_POINTS - 1)
    assert all(abs(value - ends[0] - width * index) < width / 100 for index, value in enumerate(found))


def test_even_points_are_values_that_the_field_takes() -> None:
    assert all(value % GIB == 0 for value in values("lustre.storage_capacity", "1200 GiB..9600 GiB"))
    assert all(value % 86400 == 0 for value in values("s3_files.expire_after", "1d..300d"))
    assert len(values("s3_files.expire_after", "1d..7d")) == 7


@pytest.mark.parametrize(
    ("field", "text", "what", "says"),
    [
        ("instance_count", "9..2", "runs downwards", "2..9"),
        ("instance_count", "1..x", "has 'x', which is no number", "1..2000"),
        ("instance_count", "", "has '', which is no number", "1..2000"),
        ("instance_count", "1,,3", "has '', which is no number", "1..2000"),
        ("instance_count", "1..10:", "has '', which is no number", "1..2000"),
        ("instance_count", "1.5", "has '1.5', which is no whole number", "1..2000"),
        ("instance_count", "nan..3", "has 'nan', which is no number", "1..2000"),
        ("instance_count", "1..inf", "has 'inf', which is no number", "1..2000"),
        ("instance_count", "1..10:0", "has a step that leads nowhere", "above 0"),
        ("instance_count", "1..10*1", "has the factor '1'", "above 1"),
        ("instance_count", "1..10*x", "has the factor 'x'", "above 1"),
        ("instance_count", "1e400", "has '1e400', which no field takes", "1..2000"),
        ("instance_count", "1..1e999999999", "has '1e999999999', which no field takes", "1..2000"),
        ("instance_count", f"1..{'9' * 1000}", f"has '{'9' * 120}...', which no field takes", "1..2000"),
        ("hot_fraction", "1e-999999999..1*10", "has '1e-999999999', which no field takes", "0.1..1"),
        ("hot_fraction", f"0.{'1' * 1000}", f"has '0.{'1' * 118}...', which no field takes", "0.1..1"),
        ("instance_count", "1..10*1e999999999", "has '1e999999999', which no field takes", "1..2000"),
        ("dataset.size", "1 TB..1e400 TB", "has '1e400 TB', which no field takes", "1 TB..100 TB"),
        ("max_write_time", "1e400s", "has '1e400s', which no field takes", "30s..10m"),
        ("instance_count", "0..10*2", "starts at 0, which no factor leaves", "above 0"),
        ("instance_count", "1..2,5", "is no range", "commas"),
        ("instance_count", "1..2..5", "is no range", "commas"),
        ("dataset.size", "1..3", "has '3', which is not a number and one of B", "1 TB..100 TB"),
        ("dataset.size", "1 TB..3 tb", "has '3 tb', which is unknown unit 'tb'", "1 TB..100 TB"),
        ("per_accelerator", "10 MB..20 MB", "has '20 MB', which is not", "10 MB/s"),
        ("max_write_time", "30..10 min", "has '10 min', which is unknown unit 'min'", "30s..10m"),
    ],
)
def test_what_is_no_range_says_what_one_looks_like(field: str, text: str, what: str, says: str) -> None:
    found = problem(field, text)
    assert found.what.startswith(what)
    assert found.value == shorten(text)
    assert says in found.allowed


@pytest.mark.parametrize(
    ("field", "text", "count"),
    [
        ("instance_count", "1..20000", "20,000"),
        ("dataset.size", "1 GB..1 PB:1 GB", "1,000,000"),
        ("instance_count", "1..1000000*1.0001", "138,163"),
        ("hot_fraction", ",".join(["0.5"] * 10_001), "10,001"),
    ],
)
def test_too_many_points_say_so(field: str, text: str, count: str) -> None:
    found = problem(field, text)
    assert found.what == f"has {count} points"
    assert found.value == shorten(text)
    assert found.allowed == f"{POINTS_MAX:,} points at most"
    assert found.fix


def test_the_step_that_is_advised_is_enough() -> None:
    for field, text in (
        ("instance_count", "1..20000"),
        ("dataset.size", "1 GB..1 PB:1 GB"),
        ("hot_fraction", "0.1..0.3:1e-9"),
        ("max_write_time", "1s..2s:0.00001s"),
    ):
        advised = problem(field, text).fix.removeprefix("a larger step: ")
        assert POINTS_MAX / 20 < len(values(field, advised)) <= POINTS_MAX


def test_ten_thousand_points_are_allowed() -> None:
    assert len(values("instance_count", "1..10000")) == POINTS_MAX


def test_values_of_the_model_and_texts_will_do() -> None:
    field = find_field("dataset.size")
    assert values_of(field, ["1 TB", Size(2 * TB)]) == (Size(TB), Size(2 * TB))
    assert values_of(find_field("instance_count"), range(1, 4)) == (1, 2, 3)


@pytest.mark.parametrize("given_", [[Rate(1)], [True], [1], [None], []])
def test_values_of_another_kind_are_refused(given_: list[Any]) -> None:
    with pytest.raises(ValidationError):
        values_of(find_field("dataset.size"), given_)


# How values are written


@settings(deadline=None, derandomize=True)
@given(
    st.one_of(
        st.integers(1, 10**18).map(lambda n: ("dataset.size", Size(n))),
        st.integers(1, 10**9).map(lambda n: ("dataset.size", Size(n * GIB))),
        st.integers(1, 10**12).map(lambda n: ("per_accelerator", Rate(n))),
        st.floats(1, 1e9).map(lambda n: ("per_accelerator", Rate(n))),
        st.integers(1, 10**6).map(lambda n: ("max_write_time", Duration(n))),
        st.floats(0.001, 1e5).map(lambda n: ("max_write_time", Duration(n))),
        st.integers(1, 10**6).map(lambda n: ("instance_count", n)),
        st.floats(0.0, 1.0).map(lambda n: ("hot_fraction", n)),
        st.floats(1, 1e13).map(lambda n: ("checkpoints.parameters", n)),
    )
)
def test_what_is_written_reads_as_the_same_value(pair: tuple[str, Any]) -> None:
    name, value = pair
    assert parse_values(find_field(name), written(value)) == (value,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2000, "2000"),
        (7e10, "7e10"),
        (0.1, "0.1"),
        (Size(60 * TB), "60 TB"),
        (Size(67_200 * GIB), "67200 GiB"),
        (Size(0), "0 B"),
        (Rate(2_860_000_000), "2.86 GB/s"),
        (Duration(1800), "30m"),
        (Duration(90), "90s"),
        (Duration(7 * 86400), "7d"),
        (Duration(0.5), "0.5s"),
    ],
)
def test_values_are_written_as_people_write_them(value: Any, text: str) -> None:
    assert written(value) == text


# Keys that exclude each other


def conflict(changes: dict[str, Any], name: str) -> Any:
    field = find_field(name)
    with pytest.raises(ValidationError) as caught:
        refuse_conflict(field, given_values(make(changes)), 1)
    return caught.value.problems


def test_a_field_that_another_key_excludes_says_which() -> None:
    (found,) = conflict({"dataset.read_rate": {"reference": "unet3d"}}, "per_accelerator")
    assert found.path == "dataset.read_rate.per_accelerator"
    assert found.what == "cannot be changed alone: it is given together with reference"
    assert found.fix == "leave per_accelerator or reference out in the workload file"


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"checkpoints": {"parameters": 1e9}}, "checkpoints.size"),
        ({"dataset.file_count": 10}, "average_file_size"),
        ({"mountpoint": {"cache": "none"}}, "mountpoint.cache_size"),
    ],
)
def test_conflicts_of_every_kind(changes: dict[str, Any], name: str) -> None:
    assert conflict(changes, name)


def test_a_section_that_needs_more_than_the_field_says_what() -> None:
    (found,) = conflict({}, "checkpoints.max_write_time")
    assert found.path == "checkpoints"
    assert found.what == "says neither parameters nor size"


def test_what_is_wrong_without_the_field_too_is_no_conflict() -> None:
    refuse_conflict(find_field("instance_count"), given_values(make()), 1)
    refuse_conflict(find_field("per_accelerator"), given_values(make()), 1)
