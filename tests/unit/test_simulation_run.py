"""A simulated run: planted failures by hand, no second lost or counted twice, same seed same figures, always an end."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_storage.errors import ValidationError
from training_storage.planner.efficiency import effective_ratio
from training_storage.simulation import RunInput, RunResult, simulate_run
from training_storage.simulation.random_streams import even_exponential, exponential

HOUR = 3600.0


def run(**changes: Any) -> RunInput:
    """100 s of training and a save of 10 s, 1000 s long; 20 s to restart and 30 s to restore."""
    base = RunInput(
        run_s=1000.0,
        mtbf_s=math.inf,
        interval_s=100.0,
        save_s=10.0,
        restart_s=20.0,
        restore_s=30.0,
        asynchronous=False,
    )
    return replace(base, **changes)


def spent(result: RunResult) -> float:
    return result.work_s + result.lost_s + result.wait_s + result.stall_s + result.restart_s + result.restore_s


# By hand


def test_without_failures_training_and_saves_take_turns() -> None:
    found = simulate_run(run(), failures=[])
    # Nine cycles of 110 s, then 10 s of training.
    assert (found.saves, found.failures, found.restores) == (9, 0, 0)
    assert (found.work_s, found.stall_s) == (910.0, 90.0)
    assert found.effective_training_time_ratio == 0.91
    assert found.stall_fraction == 0.09
    assert found.lost_s_per_failure is None


def test_a_failure_in_training_throws_away_what_was_trained_since_the_last_save() -> None:
    found = simulate_run(run(), failures=[150.0])
    # A save at 110, 40 s of training lost at 150, restart to 170, restore to 200, then seven cycles and 30 s.
    assert (found.lost_s, found.restart_s, found.restore_s) == (40.0, 20.0, 30.0)
    assert (found.saves, found.restores) == (8, 1)
    assert found.work_s == 100.0 + 7 * 100.0 + 30.0
    assert found.stall_s == 80.0
    assert found.stall_fraction == 80.0 / (830.0 + 40.0 + 80.0)  # restart and restore are no part of it
    assert found.lost_s_per_failure == 40.0


def test_a_failure_in_a_save_throws_away_the_whole_interval() -> None:
    found = simulate_run(run(), failures=[105.0])
    assert found.lost_s == 100.0
    assert found.stall_s == 5.0 + 70.0  # half a save, then seven: 845 s from 155 on
    assert found.saves == 7


def test_a_failure_in_a_restore_begins_the_recovery_again_and_loses_no_work() -> None:
    found = simulate_run(run(), failures=[150.0, 190.0])
    assert found.failures == 2
    assert found.restores == 1
    assert found.lost_s == 40.0
    assert found.restart_s == 40.0
    assert found.restore_s == 20.0 + 30.0
    assert found.lost_s_per_failure == 20.0


def test_a_failure_before_the_first_save_loses_everything() -> None:
    found = simulate_run(run(run_s=120.0), failures=[60.0])
    assert (found.lost_s, found.work_s, found.saves) == (60.0, 10.0, 0)


def test_asynchronous_saves_do_not_stall_and_are_durable_later() -> None:
    found = simulate_run(run(asynchronous=True), failures=[])
    # Snapshots at 100, 200, ... 900, durable 10 s later.
    assert (found.saves, found.stall_s, found.work_s) == (9, 0.0, 1000.0)


@pytest.mark.parametrize(("moment", "lost"), [(205.0, 105.0), (215.0, 15.0)])
def test_a_failure_goes_back_to_the_newest_snapshot_that_is_durable(moment: float, lost: float) -> None:
    # Snapshots at 100 (durable at 110) and 200 (durable at 210).
    assert simulate_run(run(asynchronous=True, run_s=300.0), failures=[moment]).lost_s == lost


def test_after_a_restore_the_first_snapshot_is_an_interval_away() -> None:
    found = simulate_run(run(asynchronous=True, run_s=260.0 + 109.0), failures=[210.5])
    # Restored at 260.5: the next snapshot is taken at 360.5 and would be durable at 370.5.
    assert found.saves == 2


def test_a_save_longer_than_the_interval_holds_up_the_next_snapshot() -> None:
    found = simulate_run(run(asynchronous=True, save_s=250.0), failures=[])
    # Snapshots at 100, 350, 600, 850.
    assert found.saves == 3
    assert found.work_s == 1000.0


def test_waiting_for_data_slows_training_and_nothing_else() -> None:
    found = simulate_run(run(wait_fraction=0.25), failures=[150.0])
    assert found.work_s == 0.75 * 830.0
    assert found.wait_s == 0.25 * (830.0 + 40.0)
    assert found.lost_s == 30.0
    assert found.lost_training_s == 40.0
    assert found.wait_fraction == 0.25
    assert (found.stall_s, found.restart_s, found.restore_s) == (80.0, 20.0, 30.0)


def test_reads_that_share_with_a_save_wait_while_it_is_written() -> None:
    found = simulate_run(run(asynchronous=True, saving_wait_fraction=1.0), failures=[])
    # Nine saves of 10 s in which nothing is trained.
    assert (found.wait_s, found.work_s) == (90.0, 910.0)


# Laws

moments = st.lists(st.floats(0.001, 50_000), max_size=30).map(sorted)
inputs = st.builds(
    RunInput,
    run_s=st.floats(1, 50_000),
    mtbf_s=st.just(math.inf),
    interval_s=st.floats(1, 5000),
    save_s=st.floats(0, 2000),
    restart_s=st.floats(0, 500),
    restore_s=st.floats(0, 500),
    asynchronous=st.booleans(),
    wait_fraction=st.floats(0, 1),
    saving_wait_fraction=st.none() | st.floats(0, 1),
)


@settings(deadline=None)
@given(inputs, moments)
def test_every_second_is_counted_once(given_: RunInput, failures: list[float]) -> None:
    found = simulate_run(given_, failures=failures)
    assert spent(found) == pytest.approx(given_.run_s, rel=1e-9)
    assert min(found.work_s, found.lost_s, found.wait_s, found.stall_s, found.restart_s, found.restore_s) >= -1e-9
    assert found.failures == sum(moment < given_.run_s for moment in failures)
    assert found.restores <= found.failures
    assert found.lost_s <= found.lost_training_s + 1e-9
    if given_.asynchronous:
        assert found.stall_s == 0


def test_two_failures_of_one_moment_are_booked_though_the_clock_is_past_it_by_a_rounding() -> None:
    given_ = run(run_s=2051.0, mtbf_s=math.inf, interval_s=1.0, save_s=0.0, restart_s=0.0, restore_s=0.0)
    found = simulate_run(given_, failures=[1.1275424485172607, 2050.0190593433585, 2050.0190593433585])
    assert found.failures == 3
    assert spent(found) == pytest.approx(2051.0, rel=1e-9)


@settings(deadline=None)
@given(inputs, moments, st.integers(20, 400))
def test_large_steps_book_what_small_ones_do(given_: RunInput, failures: list[float], most_steps: int) -> None:
    # A moment on the border of two cycles may fall to either: such failures are moved off it.
    cycle = given_.cycle_s
    failures = [moment + cycle * 1e-3 for moment in failures]
    small = simulate_run(given_, failures=failures, most_steps=10**6)
    large = simulate_run(given_, failures=failures, most_steps=most_steps)
    if large.cut_short or small.cycles_a_step > 1:
        return
    for name in ("work_s", "lost_s", "wait_s", "stall_s", "restart_s", "restore_s", "lost_training_s"):
        assert getattr(large, name) == pytest.approx(getattr(small, name), rel=1e-6, abs=1e-6 * given_.run_s), name
    assert abs(large.saves - small.saves) <= 1  # the last one may end with the run


def test_large_steps_are_really_taken_and_agree_over_many_failures() -> None:
    for asynchronous in (False, True):
        given_ = run(run_s=2e6, mtbf_s=9000.0, asynchronous=asynchronous, wait_fraction=0.1, saving_wait_fraction=0.6)
        small, large = simulate_run(given_), simulate_run(given_, most_steps=8000)
        assert (small.cycles_a_step, large.cycles_a_step) == (1, math.ceil(2e6 / given_.cycle_s * 2.5 / 8000))
        assert large.cycles_a_step > 4
        assert large.failures == small.failures > 150
        assert large.saves == small.saves
        assert large.work_s == pytest.approx(small.work_s, rel=1e-9)
        assert large.lost_s == pytest.approx(small.lost_s, rel=1e-9)


def test_the_same_seed_gives_the_same_figures_and_another_one_others() -> None:
    given_ = run(run_s=100 * HOUR, mtbf_s=HOUR)
    assert simulate_run(given_, seed=3) == simulate_run(given_, seed=3)
    assert simulate_run(given_, seed=3) != simulate_run(given_, seed=4)


def test_failures_do_not_move_when_something_else_changes() -> None:
    base, slow = run(run_s=50 * HOUR, mtbf_s=HOUR), run(run_s=50 * HOUR, mtbf_s=HOUR, save_s=50.0, restore_s=0.0)
    assert simulate_run(base, seed=5).failures == simulate_run(slow, seed=5).failures
    # Twice the mean time: the same failures at twice the time.
    twice = run(run_s=100 * HOUR, mtbf_s=2 * HOUR)
    assert simulate_run(twice, seed=5).failures == simulate_run(base, seed=5).failures


def test_waits_scale_the_ratio_and_nothing_else() -> None:
    base = run(run_s=50 * HOUR, mtbf_s=HOUR)
    free, waiting = simulate_run(base, seed=1), simulate_run(replace(base, wait_fraction=0.4), seed=1)
    expected = 0.6 * free.effective_training_time_ratio
    assert waiting.effective_training_time_ratio == pytest.approx(expected, rel=1e-12)
    assert waiting.lost_s_per_failure == pytest.approx(free.lost_s_per_failure, rel=1e-12)


@pytest.mark.parametrize(
    ("worse", "by"),
    [
        ("save_s", {"save_s": 40.0}),
        ("restart_s", {"restart_s": 200.0}),
        ("restore_s", {"restore_s": 300.0}),
        ("mtbf_s", {"mtbf_s": 1200.0}),
        ("interval_s", {"interval_s": 1500.0}),
        ("saving_wait_fraction", {"asynchronous": True, "saving_wait_fraction": 1.0}),
    ],
)
def test_what_is_worse_leaves_less_effective_time(worse: str, by: dict[str, Any]) -> None:
    base = run(run_s=250 * HOUR, mtbf_s=HOUR, asynchronous=by.get("asynchronous", False))
    better = simulate_run(base, seed=2).effective_training_time_ratio
    assert simulate_run(replace(base, **by), seed=2).effective_training_time_ratio < better - 0.01, worse


@pytest.mark.parametrize("asynchronous", [False, True])
def test_shared_throughput_follows_its_own_renewal_argument(asynchronous: bool) -> None:
    """Independent of the planner: what a snapshot holds, times the chance that it becomes durable."""
    interval, save, mtbf, recovery, wait, saving = 300.0, 60.0, 4000.0, 500.0, 0.1, 0.7
    gaps = even_exponential(9, "failures", mtbf, 4000)
    given_ = RunInput(
        run_s=math.nextafter(sum(gaps), math.inf),
        mtbf_s=mtbf,
        interval_s=interval,
        save_s=save,
        restart_s=200.0,
        restore_s=300.0,
        asynchronous=asynchronous,
        wait_fraction=wait,
        saving_wait_fraction=saving,
    )
    found = simulate_run(given_, failures=accumulate(gaps), most_steps=10**7).effective_training_time_ratio
    expected = 0.0
    for number in range(1, 400):
        if asynchronous:
            held = interval * (1 - wait) if number == 1 else save * (1 - saving) + (interval - save) * (1 - wait)
            durable_at = number * interval + save
        else:
            held, durable_at = interval * (1 - wait), number * (interval + save)
        expected += held * math.exp(-(recovery + durable_at) / mtbf)
    assert found == pytest.approx(expected / mtbf, rel=0.01)


def test_independent_failures_agree_with_the_planner_within_chance() -> None:
    given_ = run(run_s=2e7, mtbf_s=1000.0)
    found = simulate_run(given_, most_steps=10**7)
    expected = effective_ratio(interval_s=100, write_s=10, mtbf_s=1000, recovery_s=50, asynchronous=False)
    # 20,000 failures: the lost share is known to about 1 %.
    assert 1 - found.effective_training_time_ratio == pytest.approx(1 - expected, rel=0.04)
    assert found.failures == pytest.approx(20_000, rel=0.03)


# Bounds

EXTREMES = [
    {"mtbf_s": 1e-3, "run_s": 1e9},
    {"mtbf_s": 1e-300, "run_s": 1e9},
    {"mtbf_s": 1e-6, "run_s": 1e9, "restart_s": 0.0, "restore_s": 0.0},
    {"interval_s": 1e-3, "run_s": 1e9},
    {"interval_s": 1e-9, "save_s": 0.0, "run_s": 1e12},
    {"interval_s": 1e-300, "save_s": 0.0, "run_s": 1e300},
    {"interval_s": 1e-3, "save_s": 0.0, "run_s": 1e9, "mtbf_s": 3600.0},
    {"interval_s": 1e-3, "save_s": 1.0, "run_s": 1e9, "mtbf_s": 3600.0, "asynchronous": True},
    {"restore_s": 1e9, "mtbf_s": 60.0, "run_s": 1e9},
    {"save_s": 1e9, "mtbf_s": 60.0, "run_s": 1e9},
    {"run_s": 1e-9},
]


@pytest.mark.parametrize("extreme", EXTREMES, ids=str)
def test_extremes_end_soon_and_count_every_second(extreme: dict[str, Any]) -> None:
    given_ = run(**extreme)
    began = time.process_time()
    found = simulate_run(given_, most_steps=20_000)
    assert time.process_time() - began < 2
    assert spent(found) == pytest.approx(found.wall_s, rel=1e-6)
    assert 0 <= found.effective_training_time_ratio <= 1


def test_a_run_with_too_many_failures_ends_early_and_says_so() -> None:
    found = simulate_run(run(run_s=1e9, mtbf_s=1000.0), most_steps=20_000)
    assert found.cut_short
    assert found.wall_s < 1e8
    expected = effective_ratio(interval_s=100, write_s=10, mtbf_s=1000, recovery_s=50, asynchronous=False)
    assert found.effective_training_time_ratio == pytest.approx(expected, abs=0.02)
    assert not simulate_run(run()).cut_short


def test_progress_grows_to_the_end() -> None:
    told: list[float] = []
    simulate_run(run(run_s=1e7, mtbf_s=1000.0), progress=told.append)
    assert len(told) > 3
    assert told == sorted(told)
    assert told[0] > 0
    assert told[-1] <= 1


def test_what_cannot_be_simulated_is_refused_at_once_and_in_full() -> None:
    with pytest.raises(ValidationError) as caught:
        run(run_s=0, interval_s=-1, save_s=math.inf, restart_s=math.nan, wait_fraction=1.5)
    assert [problem.path for problem in caught.value.problems] == [
        "run_s", "interval_s", "save_s", "restart_s", "wait_fraction",
    ]  # fmt: skip


# Streams


def test_streams_of_two_purposes_differ_and_each_repeats() -> None:
    def first(seed: int | str, purpose: str) -> list[float]:
        stream = exponential(seed, purpose, 1.0)
        return [next(stream) for _ in range(5)]

    assert first(1, "failures") == first(1, "failures")
    assert (
        len({tuple(first(*each)) for each in ((1, "failures"), (1, "latency"), (2, "failures"), ("1.1", "failures"))})
        == 4
    )


def test_both_kinds_of_numbers_are_exponential() -> None:
    stream = exponential(7, "failures", 50.0)
    for numbers, tolerance in (
        ([next(stream) for _ in range(20_000)], 0.03),
        (even_exponential(7, "x", 50.0, 2000), 0.005),
    ):
        mean = sum(numbers) / len(numbers)
        assert mean == pytest.approx(50.0, rel=tolerance)
        assert sum(number > 50.0 for number in numbers) / len(numbers) == pytest.approx(math.exp(-1), rel=tolerance)
        assert sum(number > 150.0 for number in numbers) / len(numbers) == pytest.approx(
            math.exp(-3), rel=4 * tolerance
        )


def test_even_numbers_come_in_no_order() -> None:
    numbers = even_exponential(7, "x", 50.0, 500)
    assert numbers != sorted(numbers)
    ups = sum(second > first for first, second in pairwise(numbers))
    assert 200 < ups < 300
