"""Advice on the checkpoint interval: observations, and what they are worth."""

from __future__ import annotations

import math
from typing import Any

import pytest

from training_storage.errors import RefusedError
from training_storage.operations.advise import Observed, advise, observe
from training_storage.planner.efficiency import effective_ratio

S = 10**9


def saved(end: float, took: float, *, series: str = "run", complete: bool = True, **metrics: float) -> dict[str, Any]:
    return {
        "series": series,
        "complete": complete,
        "modified_ns": int(end * S),
        "first_modified_ns": int((end - took) * S),
        "metrics": metrics,
    }


def given(**changes: Any) -> dict[str, Any]:
    return {
        "accelerators": 512,
        "configured_interval_s": 1800.0,
        "max_write_s": 60.0,
        "recovery_s": 600.0,
        "asynchronous": False,
        "assumed_mtbf_h": 50_000 / 512,
        **changes,
    }


def test_save_time_and_interval_are_medians_of_the_run_that_goes_on() -> None:
    run = [saved(1000 + 1830 * n, 30 if n != 2 else 500) for n in range(6)]
    other = [saved(500 + 10 * n, 3, series="old") for n in range(9)]
    half = [saved(99_999, 1, complete=False)]
    assert observe(run + other + half, asynchronous=False) == Observed(
        saves=6, write_s=30.0, write_from="files", interval_s=1800.0
    )
    assert observe(run, asynchronous=True).interval_s == 1830.0


def test_what_the_job_says_counts_more_than_times_of_files() -> None:
    found = observe([saved(1000 + 1000 * n, 5, save_seconds=40.0) for n in range(3)], asynchronous=False)
    assert (found.write_s, found.write_from, found.interval_s) == (40.0, "metric", 960.0)


def test_one_save_tells_no_interval_and_the_configured_one_counts() -> None:
    found = observe([saved(1000, 30)], asynchronous=False)
    assert found.interval_s is None
    cycle = {"interval_s": 1800.0, "write_s": 30.0, "mtbf_s": 50_000 / 512 * 3600, "recovery_s": 600.0}
    assert advise(found, **given()).ratio_now == effective_ratio(**cycle, asynchronous=False)


def test_nothing_saved_is_no_advice() -> None:
    with pytest.raises(RefusedError, match="no complete checkpoint"):
        observe([saved(1, 1, complete=False)], asynchronous=False)


@pytest.mark.parametrize("write_s", [1.0, 30.0, 300.0])
@pytest.mark.parametrize("mtbf_h", [2.0, 97.0])
def test_no_interval_keeps_more_than_the_recommended_one(write_s: float, mtbf_h: float) -> None:
    found = Observed(saves=9, write_s=write_s, write_from="metric", interval_s=7200.0)
    told = advise(found, **given(assumed_mtbf_h=mtbf_h))
    cycle = {"write_s": write_s, "mtbf_s": mtbf_h * 3600, "recovery_s": 600.0}
    others = [
        effective_ratio(interval_s=told.recommended_interval_s * f, **cycle, asynchronous=False)
        for f in (0.5, 0.9, 0.99, 1.01, 1.1, 2)
    ]
    assert told.ratio_recommended >= max(others)
    # Young's first order is near where saves and failures are rare.
    assert told.recommended_interval_s == pytest.approx(math.sqrt(2 * write_s * mtbf_h * 3600), rel=0.2)


def test_the_gain_is_the_difference_of_both_ratios_in_gpu_hours() -> None:
    found = Observed(saves=9, write_s=30.0, write_from="metric", interval_s=40_000.0)
    told = advise(found, **given())
    assert told.gained_gpu_hours_per_day == pytest.approx((told.ratio_recommended - told.ratio_now) * 512 * 24)
    assert told.gained_gpu_hours_per_day > 0
    assert told.advice.startswith("save more often: every ")


def test_what_is_near_the_best_is_left_as_it_is() -> None:
    best = advise(Observed(saves=9, write_s=30.0, write_from="metric", interval_s=1.0), **given())
    near = Observed(saves=9, write_s=30.0, write_from="metric", interval_s=best.recommended_interval_s * 1.05)
    told = advise(near, **given())
    assert told.gained_gpu_hours_per_day == 0.0
    assert told.advice.startswith("leave the interval as it is")


def test_observed_failures_take_the_place_of_the_assumption() -> None:
    found = Observed(saves=9, write_s=30.0, write_from="metric", interval_s=1800.0)
    told = advise(found, **given(failures=4, over_h=48.0))
    assert (told.mtbf_h, told.mtbf_from) == (12.0, "observed")
    none = advise(found, **given(failures=0, over_h=500.0))
    assert none.mtbf_h == 500.0  # at least the time without one
    assert advise(found, **given(failures=0, over_h=1.0)).mtbf_h == 50_000 / 512


@pytest.mark.parametrize(("failures", "over_h"), [(1, None), (1, 0.0), (-1, 5.0), (1, float("nan"))])
def test_failures_without_a_time_are_refused(failures: int, over_h: float | None) -> None:
    found = Observed(saves=9, write_s=30.0, write_from="metric", interval_s=1800.0)
    with pytest.raises(RefusedError, match="give no failure rate"):
        advise(found, **given(failures=failures, over_h=over_h))


@pytest.mark.parametrize(
    ("write_s", "interval_s", "words"),
    [(61.0, 1800.0, ["a save takes 61 s"]), (60.0, 1800.0, []), (1.0, 1000.0, ["saves more often"]),
     (1.0, 2500.0, ["saves less often"]), (90.0, 5000.0, ["a save takes 90 s", "saves less often"])],
)  # fmt: skip
def test_what_differs_from_the_plan_is_found(write_s: float, interval_s: float, words: list[str]) -> None:
    found = Observed(saves=9, write_s=write_s, write_from="metric", interval_s=interval_s)
    findings = advise(found, **given()).findings
    assert len(findings) == len(words)
    assert all(word in finding for word, finding in zip(words, findings, strict=True))


def test_asynchronous_saves_are_advised_by_young() -> None:
    found = Observed(saves=9, write_s=30.0, write_from="metric", interval_s=1800.0)
    told = advise(found, **given(asynchronous=True, assumed_mtbf_h=100.0))
    assert told.recommended_interval_s == pytest.approx(math.sqrt(2 * 30 * 360_000))
