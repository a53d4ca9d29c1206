"""What every test may use: an App with the flags of cdk.json, and nothing that reaches a network."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import aws_cdk as cdk

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def cdk_context() -> dict[str, Any]:
    """Context of cdk.json: pytest does not read it by itself, and without the flags another product is tested."""
    return dict(json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"])


@pytest.fixture
def make_app(cdk_context: dict[str, Any], tmp_path: Path) -> Callable[[], cdk.App]:
    """Make Apps, each with a folder of its own."""
    import aws_cdk as cdk

    count = 0

    def make() -> cdk.App:
        nonlocal count
        count += 1
        return cdk.App(
            context=cdk_context,
            outdir=str(tmp_path / f"cdk.out.{count}"),
            analytics_reporting=False,
            builtin_cloud_formation_validation=False,
        )

    return make


@pytest.fixture
def app(make_app: Callable[[], cdk.App]) -> cdk.App:
    """One App, for one test."""
    return make_app()


LONG = (
    "tests/diagnosis/test_diagnosis_causes.py::test_every_pair_of_cause_and_anomaly",
    "tests/diagnosis/test_diagnosis_causes.py::test_random_fleets",
    "tests/emulated/test_life_page.py::test_the_pages_show_what_a_run_prints",
    "tests/emulated/test_life_of_a_run.py::test_a_run_on_directory_buckets",
    "tests/emulated/test_spread_life.py",
    "tests/emulated/test_emulator_process.py::test_the_cdk_command_line",
    "tests/emulated/test_emulator_process.py::test_emulators_in_workers_side_by_side",
    "tests/emulated/test_transfers.py::test_another_process_stages_by_processes_of_its_own",
    "tests/life/test_actions_faults.py::test_many_random_lives",
    "tests/synth/test_feature_flags.py::test_what_holds_data_keeps_its_logical_id_whatever_one_flag_is",
    "tests/synth/test_feature_flags.py::test_a_flag_of_the_list_changes_a_template",
    "tests/synth/test_feature_flags.py::test_no_other_flag_changes_a_template",
    "tests/synth/test_random_workloads.py::test_six_hundred_good_files",
    "tests/servers/test_transfer_interrupted.py",
    "tests/synth/test_random_workloads.py::test_six_hundred_broken_files",
    "tests/synth/test_random_workloads.py::test_sixty_plans_synthesize",
    "tests/synth/test_two_fleets.py",
    "tests/unit/test_planner_cheapest_given.py::test_no_configuration_that_covers_is_cheaper_over_thousands",
    "tests/unit/test_planner_cost_properties.py::test_hundreds_of_bills_are_the_sums_of_their_lines",
    "tests/unit/test_planner_cost_properties.py::test_more_demand_is_never_cheaper_over_hundreds",
    "tests/unit/test_planner_decisions_properties.py::test_hundreds_of_plans_name_what_they_miss_give_reasons_and_are_the_same",
    "tests/unit/test_planner_decisions_properties.py::test_hundreds_of_steps_up_never_make_accelerators_wait_longer",
    "tests/unit/test_planner_properties.py::test_five_hundred_plans_are_legal_cover_the_demand_and_explain_themselves",
    "tests/unit/test_simulation_grid.py",
    "tests/emulated/test_emulator_process.py::test_a_config_file_of_the_caller_leads_nowhere",
    "tests/unit/test_simulation_run.py::test_large_steps_book_what_small_ones_do",
    "tests/unit/test_workload_properties.py::test_every_key_of_the_file_occurs_among_random_files",
    "tests/emulated/test_changes.py",
    "tests/unit/test_bootstrap_old_mounts.py",
    "tests/unit/test_bootstrap_mountpoint_options.py",
    "tests/servers/test_transfer_buckets.py",
    "tests/synth/test_random_workloads.py::test_a_sample_of_plans_synthesizes",
)
"""What `make long` runs beside `make test`: wider nets over what smaller tests of `make test` show as well.

Hundreds and thousands of plans and bills: the same checks run over fewer of them in the same files.
"""


LONG_WHERE_SLOW = ("tests/life/test_release_disks.py",)
"""Files whose slow tests are long: their fast ones show each kind once."""


LONG_CASES = {
    "tests/emulated/test_examples.py::": (
        "[china-finetune]",
        "[express-cache]",
        "[lora-finetune]",
        "[vision-small-files]",
    ),
    "tests/synth/test_feature_flags.py::test_what_holds_data_keeps_its_logical_id_with_all_flags_and_with_none[": (
        "recommended]",
    ),
    "tests/synth/test_partitions.py::test_an_example_in_another_partition_names_nothing_of_this_one[": (
        "cn-northwest-1]",
        "us-gov-east-1]",
    ),
}
"""Cases by the begin of their test and their end: each has a sister of its kind in `make test`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the long ones, in one list, so that what `make test` leaves out is seen at a glance."""
    below = tuple(f"{each}{sign}" for each in LONG for sign in ("::", "["))
    for item in items:
        name = item.nodeid
        if name in LONG or name.startswith(below) or _is_long_case(name):
            item.add_marker(pytest.mark.long)
        if name.startswith(LONG_WHERE_SLOW) and item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.long)


def _is_long_case(name: str) -> bool:
    return any(name.startswith(begin) and name.endswith(ends) for begin, ends in LONG_CASES.items())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage in what is collected: it lives until the end, and so many tests take seconds each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
