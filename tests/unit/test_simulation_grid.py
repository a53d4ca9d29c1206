"""Formulas against simulation on the whole grid, and the page that shows it."""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from training_storage.planner.efficiency import effective_ratio, lost_work_s
from training_storage.simulation import PipelineInput, RunInput, closed_forms
from training_storage.simulation.grid import Grid, pipeline_cases, run_cases, run_grid
from training_storage.simulation.page import simulation_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "simulation.md"
ALLOWED = 0.03
"""Of what a formula says: tighter than has to be, so that one that is off by six in a hundred shows in each figure."""
MOST_CPU_S = 60  # about 15 on a quiet core

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def grid() -> Grid:
    began = time.process_time()
    found = run_grid()
    assert time.process_time() - began < MOST_CPU_S
    return found


# The formulas once more, written from their statement and not from the code of the planner.


def effective(given: RunInput) -> float:
    dt, w, m, r = given.interval_s, given.save_s, given.mtbf_s, given.restart_s + given.restore_s
    if given.asynchronous:
        ratio = dt * math.exp(-w / m) / (m * math.exp(r / m) * (math.exp(dt / m) - 1))
    else:
        ratio = dt / (m * math.exp(r / m) * (math.exp((dt + w) / m) - 1))
    return ratio * (1 - given.wait_fraction)


def lost(given: RunInput) -> float:
    """What is left of the mean time between failures when progress, saves and recovery are taken off."""
    dt, w, m, r = given.interval_s, given.save_s, given.mtbf_s, given.restart_s + given.restore_s
    running = m * math.exp(-r / m)
    kept = effective(given) / (1 - given.wait_fraction) * m
    if given.asynchronous:
        return running - kept
    # Share of the running time in saves: the part of each cycle that survives to them.
    saving = math.exp(-dt / m) * (1 - math.exp(-w / m)) / (1 - math.exp(-(dt + w) / m))
    return running * (1 - saving) - kept


def delivered(given: PipelineInput) -> float:
    read_s = given.latency_s + (given.unit_mb / given.stream_mb_per_s if given.stream_mb_per_s else 0)
    in_flight = given.workers * given.prefetch * given.unit_mb / read_s
    return min(given.demand_mb_per_s, given.supply_mb_per_s, in_flight)


def test_the_formulas_of_the_grid_are_those_that_are_stated() -> None:
    cases = 0
    for _, pipeline in pipeline_cases():
        assert closed_forms.delivered_mb_per_s(pipeline) == pytest.approx(delivered(pipeline), rel=1e-12)
        wait = max(0.0, 1 - delivered(pipeline) / pipeline.demand_mb_per_s)
        assert closed_forms.wait_fraction(pipeline) == pytest.approx(wait, abs=1e-12)
        cases += 1
    for _, run, _ in run_cases():
        if not run.asynchronous:
            stall = run.save_s / (run.interval_s + run.save_s)
            assert closed_forms.stall_fraction(run) == pytest.approx(stall, rel=1e-12)
        cycle = {
            "interval_s": run.interval_s,
            "write_s": run.save_s,
            "mtbf_s": run.mtbf_s,
            "recovery_s": run.restart_s + run.restore_s,
            "asynchronous": run.asynchronous,
        }
        if run.save_s <= run.interval_s:
            ratio = effective_ratio(**cycle) * (1 - run.wait_fraction)  # type: ignore[arg-type]  # one dict for both
            assert ratio == pytest.approx(effective(run), rel=1e-9)
            assert closed_forms.effective_training_time_ratio(run) == pytest.approx(effective(run), rel=1e-9)
            assert lost_work_s(**cycle) == pytest.approx(lost(run), rel=1e-6)  # type: ignore[arg-type]  # as above
            assert closed_forms.lost_s_per_failure(run) == pytest.approx(lost(run), rel=1e-6)
        cases += 1
    assert cases >= 280


def test_there_are_enough_cases_of_each_kind() -> None:
    pipelines, runs = list(pipeline_cases()), list(run_cases())
    assert len(pipelines) >= 120
    assert len(runs) >= 120
    assert len({case for _, case in pipelines}) == len(pipelines)
    assert len({(case, independent) for _, case, independent in runs}) == len(runs)


def test_formulas_that_claim_to_be_exact_agree(grid: Grid) -> None:
    assert grid.cases >= 280
    assert len(grid.exact) >= 550
    off = [check for check in grid.exact if abs(check.difference) > ALLOWED]
    assert off == []


@pytest.mark.parametrize("wrong", [0.94, 1.06])
def test_a_formula_that_is_six_percent_off_would_be_seen_in_every_figure(grid: Grid, wrong: float) -> None:
    seen, compared = Counter[str](), Counter[str]()
    for check in grid.exact:
        compared[check.figure] += 1
        seen[check.figure] += abs(replace(check, closed_form=check.closed_form * wrong).difference) > ALLOWED
    assert {figure: seen[figure] / count for figure, count in compared.items() if seen[figure] < 0.9 * count} == {}


def test_every_figure_is_claimed_and_compared_often_enough(grid: Grid) -> None:
    compared = Counter(check.figure for check in grid.exact)
    assert compared["delivered MB/s"] >= 120
    assert compared["data wait"] >= 80
    assert compared["effective time"] >= 120
    assert compared["lost time"] >= 120
    assert compared["lost to a failure, s"] >= 120
    assert compared["stall"] >= 12


def test_binding_limits_and_free_ones_are_both_among_the_cases(grid: Grid) -> None:
    waits = [check.closed_form for check in grid.exact if check.figure == "data wait"]
    assert min(waits) < 0.15
    assert max(waits) > 0.95
    ratios = [check.closed_form for check in grid.exact if check.figure == "effective time"]
    assert min(ratios) < 0.25
    assert max(ratios) > 0.97


def test_where_no_claim_is_made_the_simulation_shows_why(grid: Grid) -> None:
    """A claim withheld everywhere would pass the other tests: the kinds that are meant to be off are off."""
    worst = {
        group: max(abs(check.difference) for check in grid.inexact if group in check.group)
        for group in (
            "handed over in order",
            "share the throughput",
            "varying latency",
            "S3 Express",
            "synchronous saves",
        )
    }
    assert min(worst.values()) > ALLOWED, worst
    reads = [check for check in grid.checks if check.group.startswith("reads from")]
    assert sum(bool(check.claim) for check in reads) < len(reads) / 20


def test_the_page_is_made_from_the_code(grid: Grid) -> None:
    made = simulation_page(grid)
    assert made == PAGE.read_text(encoding="utf-8"), (
        "run: python -m training_storage.simulation.page > docs/simulation.md"
    )


def test_the_page_names_the_worst_case(grid: Grid) -> None:
    worst = max(grid.exact, key=lambda check: abs(check.difference))
    text = PAGE.read_text(encoding="utf-8")
    assert f"**The worst is {worst.difference * 100:+.2f} %**: {worst.figure}" in text
    assert worst.inputs in text
