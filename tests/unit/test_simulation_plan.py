"""A plan, simulated: what is taken from it, what stands beside what, what is said, and what it never loads."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit._planner import planned
from training_storage.cli.render_simulation import render_simulation
from training_storage.planner import Plan, plan
from training_storage.simulation import Simulation, simulate
from training_storage.simulation.inputs import Notes, pipeline_of, reads_first, run_of
from training_storage.units import GIB, MB, Duration
from training_storage.workload import load_workload

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))
SAVES: dict[str, Any] = {"size": "400 GiB", "interval": "30m", "max_write_time": "2m", "restart_time": "4m"}
LOADER: dict[str, Any] = {"workers_per_accelerator": 4, "prefetch": 2}
SMALL_FILES: dict[str, Any] = {
    "hot_tier": "none",
    "dataset.loader": LOADER,
    "dataset.read_rate": {"per_accelerator": "5 MB/s"},
    "dataset.file_count": 20_000_000,
}
SHARED: dict[str, Any] = {
    "compute.instance_count": 32,
    "dataset.read_rate": {"per_accelerator": "100 MB/s"},
    "checkpoints": {"size": "4000 GiB", "interval": "30m", "asynchronous": True},
}
NEVER_TRAINS: dict[str, Any] = {
    "compute.instance_count": 2000,
    "compute.accelerator_mttf": "1h",
    "checkpoints": SAVES,
}
"""A quarter of a second between failures, minutes to recover."""
MILLISECONDS: dict[str, Any] = {"checkpoints": {**SAVES, "size": "1 B", "interval": "0.001s"}}
DAY = Duration(86_400)
"""More than twenty saves of half an hour, and not much to simulate."""
DAYS = Duration(5 * 86_400)
TOO_SMALL: dict[str, Any] = {"hot_tier": "lustre", "lustre.storage_capacity": "4800 GiB"}
LONG = Duration(400 * 86_400)


def figure(simulation: Simulation, name: str) -> Any:
    found = simulation.figure(name)
    assert found is not None, name
    return found


@cache
def never_trains() -> Simulation:
    """Simulated once for all that look at it, as are the others here: none of them changes anything."""
    return simulate(planned(NEVER_TRAINS))


@cache
def milliseconds() -> Simulation:
    return simulate(planned(MILLISECONDS))


def pipeline(made: Plan) -> Any:
    found = pipeline_of(made, Notes([]))
    assert found is not None
    return found


# From the plan


def test_the_data_path_is_that_of_the_plan() -> None:
    made = planned(SMALL_FILES)
    found = pipeline(made)
    assert found.demand_mb_per_s == 5
    others = [limit.mb_per_s for limit in made.prediction.limits if limit.name != "latency"]
    assert found.supply_mb_per_s == min(others) / made.accelerators
    assert (found.workers, found.prefetch, found.accelerators) == (4, 2, 8)
    assert found.unit_mb == 0.1  # 2 TB in 20 million files
    assert found.latency_s == 0.2 + 0.2  # first byte and open on S3


@pytest.mark.parametrize(
    "changes",
    [
        SMALL_FILES,
        {**SMALL_FILES, "dataset.interface": "object"},
        {**SMALL_FILES, "file_access": "s3-files"},
        {**SMALL_FILES, "file_access": "s3-files", "dataset.file_count": 2000},
        {**SMALL_FILES, "hot_tier": "lustre"},
        {**SMALL_FILES, "hot_tier": "express", "dataset.interface": "object"},
        {**SMALL_FILES, "dataset.file_count": 2000},
        {**SMALL_FILES, "dataset.read_rate": {"samples": {"size": "1 MB", "per_second_per_accelerator": 5}}},
    ],
    ids=["s3", "objects", "s3-files-small", "s3-files", "lustre", "express", "large-files", "samples"],
)
def test_one_read_is_the_one_that_the_plan_counts(changes: dict[str, Any]) -> None:
    made = planned(changes)
    limit = next(limit for limit in made.prediction.limits if limit.name == "latency")
    found = pipeline(made)
    bytes_s = found.unit_mb / found.stream_mb_per_s if found.stream_mb_per_s else 0.0
    in_flight = made.accelerators * found.slots * found.unit_mb / (found.latency_s + bytes_s)
    assert in_flight == pytest.approx(limit.mb_per_s, rel=1e-9)


def test_the_run_is_that_of_the_plan() -> None:
    made = planned({"checkpoints": SAVES, "compute.accelerator_mttf": "1000h"})
    found = run_of(made, 5000.0, 0.125, Notes([]))
    assert found is not None
    expected = made.prediction
    assert (found.run_s, found.wait_fraction, found.asynchronous) == (5000, 0.125, False)
    assert (found.interval_s, found.save_s, found.restore_s) == (1800, expected.checkpoint_write_s, expected.restore_s)
    assert found.restart_s == 240
    assert found.mtbf_s == pytest.approx(1000 * 3600 / 32)
    assert found.saving_wait_fraction is None


def test_a_save_takes_the_disks_and_reads_get_what_is_left() -> None:
    made = planned(SHARED)
    found = run_of(made, 5000.0, 0.0, Notes([]))
    assert found is not None
    assert made.lustre is not None
    rate = 4000 * GIB / MB / found.save_s
    assert made.prediction.checkpoint_write_bound_by == "disk"
    assert rate == pytest.approx(made.lustre.write_throughput_mb_per_s)
    assert found.saving_wait_fraction == 1
    gentle = reads_first(made, found)
    assert gentle is not None
    left = made.lustre.throughput_mb_per_s - 256 * 100
    assert gentle.save_s == pytest.approx(4000 * GIB / MB / left)
    assert gentle.saving_wait_fraction is None


def test_on_s3_saves_take_nothing_from_reads() -> None:
    made = planned({"checkpoints": {**SAVES, "asynchronous": True, "max_write_time": "30m"}, "hot_tier": "none"})
    found = run_of(made, 5000.0, 0.0, Notes([]))
    assert found is not None
    assert (found.asynchronous, found.saving_wait_fraction) == (True, None)


# The length of a run


def test_the_length_is_the_one_asked_for_else_that_of_the_cost_else_30_days() -> None:
    made = planned()  # without saves no run is played: its length is told all the same
    assert simulate(made, run_length=Duration(7200)).run_s == 7200
    found = simulate(made)
    assert found.run_s == 30 * 86_400
    assert any("30 days" in note for note in found.notes)
    costed = plan(planned({"checkpoints": SAVES}).workload, run_length=DAY)
    played = simulate(costed)
    assert played.run_s == 86_400
    assert played.run is not None
    assert played.run.wall_s == 86_400
    assert simulate(costed, run_length=Duration(7200)).run_s == 7200


# Figures


def test_what_claims_to_be_exact_agrees() -> None:
    made = planned({**SMALL_FILES, "checkpoints": SAVES, "compute.accelerator_mttf": "300h"})
    assert made.prediction.data_wait_fraction is not None
    found = simulate(made, run_length=LONG)
    names = [each.name for each in found.figures]
    assert names == [
        "delivered_mb_per_s", "data_wait_fraction", "checkpoint_stall_fraction", "effective_training_time_ratio",
        "lost_work_s_per_failure", "failures",
    ]  # fmt: skip
    for each in found.figures:
        if each.name in ("data_wait_fraction", "delivered_mb_per_s", "checkpoint_stall_fraction", "failures"):
            continue
        assert each.exact, each
        assert each.difference is not None
        assert abs(each.difference) < 0.05, each
    assert figure(found, "effective_training_time_ratio").closed_form == made.prediction.effective_training_time_ratio
    assert figure(found, "lost_work_s_per_failure").closed_form == made.prediction.lost_work_s_per_failure
    assert figure(found, "data_wait_fraction").closed_form == made.prediction.data_wait_fraction
    assert figure(found, "failures").closed_form == pytest.approx(LONG.seconds / (300 * 3600 / 32))


def test_latency_that_binds_shows_in_the_wait_and_in_the_ratio() -> None:
    made = planned({**SMALL_FILES, "checkpoints": SAVES})
    wait = made.prediction.data_wait_fraction
    assert made.prediction.binds == "latency"
    assert wait is not None
    assert wait > 0.5
    found = simulate(made, run_length=DAYS)
    assert figure(found, "data_wait_fraction").simulated == pytest.approx(wait, rel=0.01)
    assert figure(found, "delivered_mb_per_s").simulated == pytest.approx(160 * (1 - wait), rel=0.02)
    assert found.run_input is not None
    assert found.run_input.wait_fraction == figure(found, "data_wait_fraction").simulated


def test_reads_that_are_not_exact_make_the_ratio_not_exact() -> None:
    # One read in flight, whose bytes take as long as its first byte.
    alone = {"dataset.loader": {"workers_per_accelerator": 1, "prefetch": 1}, "hot_tier": "express"}
    fast = {"dataset.interface": "object", "dataset.read_rate": {"per_accelerator": "20 GB/s"}, "checkpoints": SAVES}
    found = simulate(planned({**alone, **fast}), run_length=DAYS)
    reads, ratio = figure(found, "delivered_mb_per_s"), figure(found, "effective_training_time_ratio")
    assert abs(ratio.difference) > 0.05
    assert not reads.exact
    assert not ratio.exact
    assert ratio.because == f"the data delivered is not: {reads.because}"


def test_saves_that_starve_reads_are_flagged_with_both_ends() -> None:
    found = simulate(planned(SHARED), run_length=DAYS)
    ratio, wait = figure(found, "effective_training_time_ratio"), figure(found, "data_wait_with_saves_fraction")
    assert not ratio.exact
    assert not wait.exact
    assert "while a save is written" in ratio.because
    assert found.run_input is not None
    share = found.run_input.save_s / 1800
    assert wait.simulated == pytest.approx(share, rel=0.02)
    assert ratio.simulated == pytest.approx(ratio.closed_form - share, abs=0.002)
    (note,) = (note for note in found.notes if "share the disks" in note)
    assert "reads come first, a save takes 59 s" in note


def test_a_short_run_says_that_its_ends_count() -> None:
    found = simulate(planned({"checkpoints": SAVES}), run_length=Duration(7200))
    ratio = figure(found, "effective_training_time_ratio")
    assert not ratio.exact
    assert "2 h has less than 20 saves" in ratio.because


def test_a_loader_that_keeps_the_order_is_warned_of() -> None:
    found = simulate(planned({**SMALL_FILES, "dataset.loader": {"workers_per_accelerator": 8, "prefetch": 4}}))
    wait = figure(found, "data_wait_fraction").simulated
    (note,) = (note for note in found.notes if "in their order" in note)
    said = float(note.split("would wait ")[1].split(" %")[0]) / 100
    assert said > wait + 0.01
    assert "an assumption" in note


# What is not known


def test_without_a_read_rate_there_is_no_data_path_and_a_run_without_waits() -> None:
    found = simulate(planned({"dataset.read_rate": None, "checkpoints": SAVES}), run_length=DAYS)
    assert (found.pipeline, found.pipeline_input) == (None, None)
    assert found.run is not None
    assert found.run.wait_s == 0
    assert any("read rate is not known" in note for note in found.notes)


def test_without_checkpoints_there_is_no_run() -> None:
    found = simulate(planned())
    assert (found.run, found.run_input, found.runs, found.ratio_low, found.ratio_high) == (None, None, 0, None, None)
    assert [each.name for each in found.figures] == ["delivered_mb_per_s", "data_wait_fraction"]
    assert any("without a checkpoints section" in note for note in found.notes)


def test_without_a_loader_reads_have_no_latency_and_it_is_said() -> None:
    found = simulate(planned())
    assert found.pipeline_input is not None
    assert (found.pipeline_input.slots, found.pipeline_input.latency_s) == (8, 0)
    assert any("dataset.loader is not given" in note for note in found.notes)


def test_with_neither_there_is_still_an_answer() -> None:
    found = simulate(planned({"dataset.read_rate": None}))
    assert found.figures == ()
    assert "Simulated event by event" in render_simulation(found)


# Runs and seeds


def test_the_same_seed_gives_the_same_bytes_and_another_other_ones() -> None:
    made = planned({**SMALL_FILES, "checkpoints": SAVES, "compute.accelerator_mttf": "300h"})
    first, again, other = (json.dumps(simulate(made, seed=seed, run_length=DAY).to_dict()) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_few_failures_mean_more_runs_and_chance_is_told() -> None:
    made = planned({"checkpoints": SAVES})
    found = simulate(made)
    assert found.runs == 100
    assert found.ratio_low is not None
    assert found.ratio_high is not None
    assert found.ratio_low <= figure(found, "effective_training_time_ratio").simulated <= found.ratio_high
    failures = figure(found, "failures")
    assert failures.standard_error is not None
    assert failures.standard_error == pytest.approx(math.sqrt(failures.closed_form / 100), rel=0.3)
    assert failures.chance
    many = simulate(planned({"checkpoints": SAVES, "compute.accelerator_mttf": "5h"}))
    assert many.runs == 1
    assert (many.ratio_low, many.ratio_high) == (None, None)
    assert figure(many, "effective_training_time_ratio").standard_error is None
    # How far chance moves a count of failures is known without a second run.
    assert figure(many, "failures").standard_error == pytest.approx(math.sqrt(figure(many, "failures").closed_form))
    assert figure(many, "failures").chance


def test_runs_without_a_single_failure_say_so_and_blame_no_formula() -> None:
    found = simulate(planned({"checkpoints": SAVES, "compute.accelerator_mttf": "40000000h"}), run_length=DAY)
    failures, ratio = figure(found, "failures"), figure(found, "effective_training_time_ratio")
    assert failures.closed_form == pytest.approx(24 * 32 / 4e7)
    assert failures.simulated == 0
    assert failures.chance
    assert not ratio.exact
    assert ratio.because == "no failure falls into 100 runs of 24 h: what failures take is not in what is simulated"


def test_the_first_run_is_the_one_of_the_seed() -> None:
    from training_storage.simulation import simulate_run

    made = planned({"checkpoints": SAVES, "compute.accelerator_mttf": "2000h"})
    found = simulate(made, seed=11, run_length=DAYS)
    assert found.runs > 1
    assert found.run_input is not None
    assert found.run is not None
    alone = simulate_run(found.run_input, seed=11)
    assert (found.run.failures, found.run.saves) == (alone.failures, alone.saves)
    assert found.run.work_s == pytest.approx(alone.work_s, rel=1e-9)


# Bounds


@pytest.mark.parametrize(
    "changes",
    [
        NEVER_TRAINS,
        MILLISECONDS,
        {"checkpoints": {"size": "1 B", "interval": "auto"}},
        {**TOO_SMALL, "checkpoints": {"size": "100 TiB", "interval": "1s", "asynchronous": True}},
        {**TOO_SMALL, "dataset.read_rate": {"per_accelerator": "1 PB/s"}, "checkpoints": SAVES},
        {"dataset.read_rate": {"per_accelerator": "1 B/s"}},
        {"dataset.loader": {"workers_per_accelerator": 10_000, "prefetch": 10_000}},
        {"compute": {"instance_type": "g6f.large", "instance_count": 1}, "checkpoints": SAVES},
    ],
    ids=["never-trains", "milliseconds", "auto", "huge", "petabytes", "a-byte", "slots", "an-eighth"],
)
def test_extremes_end_soon_with_an_answer(changes: dict[str, Any]) -> None:
    began = time.process_time()
    known = {id(NEVER_TRAINS): never_trains, id(MILLISECONDS): milliseconds}.get(id(changes))
    found = simulate(planned(changes)) if known is None else known()
    assert time.process_time() - began < 5
    json.dumps(found.to_dict(), allow_nan=False)
    assert render_simulation(found).endswith("\n")


def test_a_fleet_that_never_trains_says_so() -> None:
    found = never_trains()
    assert figure(found, "effective_training_time_ratio").simulated < 1e-3
    assert any("the simulation ends after" in note for note in found.notes)
    assert not figure(found, "lost_work_s_per_failure").exact


def test_a_very_long_run_of_very_short_intervals_takes_large_steps() -> None:
    found = milliseconds()
    assert found.run is not None
    assert found.run.cycles_a_step > 1000
    ratio = figure(found, "effective_training_time_ratio")
    assert ratio.simulated == pytest.approx(ratio.closed_form, rel=0.001)


def test_progress_is_told_from_begin_to_end() -> None:
    told: list[float] = []
    simulate(planned({**SMALL_FILES, "checkpoints": SAVES}), run_length=DAY, progress=told.append)
    assert told == sorted(told)
    assert told[0] < 0.3
    assert told[-1] == 1


# Shown


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_simulated_and_shown(example: Path) -> None:
    found = simulate(plan(load_workload(example)), run_length=DAY)
    data = found.to_dict()
    assert list(data) == [each.name for each in fields(Simulation)]
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    for width in (60, 100, 140):
        lines = render_simulation(found, width).splitlines()
        assert [line for line in lines if len(line) > width] == []
    shown = render_simulation(found)
    for each in found.figures:
        assert each.label in shown


def test_the_table_has_formula_simulation_and_difference() -> None:
    shown = render_simulation(simulate(planned({**SMALL_FILES, "checkpoints": SAVES}), run_length=DAYS), 110)
    assert "formula" in shown.splitlines()[1]
    (wait,) = (line for line in shown.splitlines() if line.strip().startswith("data wait"))
    # 256 reads of 0.1 MB in flight, 0.401 s each, bring 64 of 160 MB/s.
    assert wait.split()[2:4] == [f"{100 - 256 * 0.1 / (0.4 + 0.1 / 85) / 1.6:.3g}", "%"]
    assert "the run of this seed" in shown
    assert "nine runs of ten" in shown


# Weight


def test_simpy_is_loaded_only_where_something_is_simulated() -> None:
    code = (
        "import importlib, sys\n"
        "for name in ('', '.planner', '.simulation', '.cli'):\n"
        "    importlib.import_module('training_storage' + name); print('simpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["False"] * 4


def test_a_plan_without_simulation_loads_neither_simpy_nor_this_room() -> None:
    code = (
        "import sys; from training_storage.cli import main\n"
        f"try: main(['plan', {str(EXAMPLES[0])!r}])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print([name for name in sys.modules if name.startswith(('simpy', 'training_storage.simulation'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]"
