"""Random workload files are read, or refused with our own error: never anything else.

Thousands of them go on through planner and synthesis in tests/synth/test_random_workloads.py.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, seed, settings

from tests.strategies import broken_workload_dicts, dump_workload, workload_dicts
from training_storage.errors import WorkloadError
from training_storage.workload import Workload, parse_workload, workload_from_dict

FAST = settings(
    derandomize=True, max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


def check_valid(data: dict[str, Any]) -> None:
    """A legal file is read, the same as text and as plain data."""
    assert parse_workload(dump_workload(data)) == workload_from_dict(data)


def check_broken(data: dict[str, Any]) -> None:
    """A broken file is read after all, or refused with problems that can be printed."""
    text = dump_workload(data)
    for as_text in (True, False):
        error: WorkloadError | None = None
        try:
            parse_workload(text) if as_text else workload_from_dict(data)
        except WorkloadError as caught:
            error = caught
        if error is not None:
            assert error.problems
            assert all(problem.what and problem.to_dict() for problem in error.problems)
            assert len(str(error)) < 200_000


@FAST
@given(workload_dicts())
def test_legal_files_are_read(data: dict[str, Any]) -> None:
    check_valid(data)


@FAST
@given(broken_workload_dicts())
def test_broken_files_are_refused_with_our_error(data: dict[str, Any]) -> None:
    check_broken(data)


def test_every_key_of_the_file_occurs_among_random_files() -> None:
    from training_storage.workload.section import Section

    wanted: set[str] = set()

    def walk(section: type[Section], path: str) -> None:
        for key, name in section.keys().items():
            wanted.add(f"{path}{key}")
            inner = section.fields[name].section
            if inner is not None:
                walk(inner, f"{path}{key}.")

    walk(Workload, "")
    seen: set[str] = set()

    def note(value: Any, path: str) -> None:
        if isinstance(value, list):
            for each in value:
                note(each, path)
        elif isinstance(value, dict):
            for key, child in value.items():
                seen.add(f"{path}{key}")
                note(child, f"{path}{key}.")

    # One long run goes on from files that it has seen; short ones begin anew, and stop when all keys were there.
    for number in range(16):
        if wanted <= seen:
            break

        @seed(number)
        @settings(FAST, derandomize=False, max_examples=100)
        @given(workload_dicts())
        def collect(data: dict[str, Any]) -> None:
            note(data, "")

        collect()
    assert wanted - seen == set()
