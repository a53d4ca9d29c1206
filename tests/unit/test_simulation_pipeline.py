"""The simulated data path: what binds is what is measured, one read by hand, bounded whatever the input."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_storage.errors import ValidationError
from training_storage.simulation import PipelineInput, PipelineResult, simulate_pipeline
from training_storage.simulation.pipeline import MOST_SLOTS


def pipeline(**changes: Any) -> PipelineInput:
    """One accelerator that takes ten units of 1 MB a second, a link of 20 MB/s, 4 x 2 reads without latency."""
    base = PipelineInput(demand_mb_per_s=10.0, supply_mb_per_s=20.0, unit_mb=1.0, workers=4, prefetch=2, latency_s=0.0)
    return replace(base, **changes)


def measured(**changes: Any) -> PipelineResult:
    return simulate_pipeline(pipeline(**changes))


# By hand


def test_a_supply_above_the_demand_means_no_wait() -> None:
    found = measured()
    assert found.wait_fraction == pytest.approx(0, abs=1e-9)
    assert found.empty_fraction == 0
    assert found.delivered_mb_per_s == pytest.approx(10)


def test_a_supply_below_the_demand_binds() -> None:
    found = measured(supply_mb_per_s=8.0)
    assert found.delivered_mb_per_s == pytest.approx(8)
    assert found.wait_fraction == pytest.approx(0.2)
    assert found.empty_fraction == 1


def test_one_read_in_flight_takes_latency_and_transfer_one_after_the_other() -> None:
    # 0.3 s to the first byte and 0.05 s on the link for each unit, whose work of 0.1 s overlaps with the next read.
    found = measured(workers=1, prefetch=1, latency_s=0.3)
    assert found.read_s == pytest.approx(0.35)
    assert found.delivered_mb_per_s == pytest.approx(1 / 0.35)
    assert found.wait_fraction == pytest.approx(0.25 / 0.35)


def test_a_read_shorter_than_the_work_hides_behind_it() -> None:
    found = measured(workers=1, prefetch=1, latency_s=0.04)
    assert found.wait_fraction == pytest.approx(0, abs=1e-9)
    assert found.read_s == pytest.approx(0.09)


def test_where_latency_binds_units_come_in_rounds_of_the_slots() -> None:
    # Two slots, reads of 0.25 s: one unit is there when it is asked for, the other a round later.
    found = measured(workers=2, prefetch=1, latency_s=0.25, supply_mb_per_s=math.inf)
    assert found.delivered_mb_per_s == pytest.approx(2 / 0.25)
    assert found.wait_fraction == pytest.approx(0.2)
    assert found.empty_fraction == pytest.approx(0.5)


def test_a_slot_reads_again_only_when_its_unit_is_taken() -> None:
    # Read in no time, taken each 0.1 s: what is read is what is taken, and no queue grows behind the accelerator.
    found = measured(workers=2, prefetch=1, supply_mb_per_s=math.inf)
    assert found.read_s == 0
    assert found.wait_fraction == pytest.approx(0, abs=1e-9)


def test_a_supply_close_to_the_demand_is_measured_once_the_first_rush_is_over() -> None:
    # 128 reads begin together, 17.6 units a second are supplied and 19.5 taken: a queue of the rush would last long.
    found = measured(
        demand_mb_per_s=2859.0,
        supply_mb_per_s=2573.1,
        unit_mb=146.6,
        workers=16,
        prefetch=8,
        latency_s=0.2,
        stream_mb_per_s=85.0,
        accelerators=4,
    )
    assert found.wait_fraction == pytest.approx(0.1, rel=0.01)


def test_workers_and_prefetch_count_alike() -> None:
    assert measured(workers=2, prefetch=4, latency_s=1.0) == measured(workers=8, prefetch=1, latency_s=1.0)
    assert measured(workers=2, prefetch=4, latency_s=1.0).delivered_mb_per_s == pytest.approx(8 / 1.05)


def test_the_rate_of_one_stream_holds_a_read_back_while_others_pass() -> None:
    found = measured(workers=4, prefetch=1, latency_s=0.1, stream_mb_per_s=2.0)
    # 0.1 s and 0.5 s at 2 MB/s; its 0.05 s on the link lie within.
    assert found.read_s == pytest.approx(0.6)
    assert found.delivered_mb_per_s == pytest.approx(4 / 0.6)


def test_accelerators_share_one_link() -> None:
    # Four of them, a link of 4 x 8 MB/s: a unit has it for 1 / 32 s, not 1 / 8.
    found = measured(workers=1, prefetch=1, latency_s=0.3, supply_mb_per_s=8.0, accelerators=4)
    assert found.read_s == pytest.approx(0.3 + 1 / 32, rel=1e-3)
    assert measured(supply_mb_per_s=8.0, accelerators=4).delivered_mb_per_s == pytest.approx(8)


# Latency that varies


def test_far_from_balance_only_the_mean_latency_counts() -> None:
    bound = measured(workers=16, latency_s=1.0, demand_mb_per_s=100.0, supply_mb_per_s=1000.0, varying_latency=True)
    assert bound.delivered_mb_per_s == pytest.approx(32, rel=0.05)
    free = measured(workers=16, latency_s=1.0, varying_latency=True)
    assert free.wait_fraction == pytest.approx(0, abs=1e-3)


def test_a_loader_that_keeps_the_order_waits_for_slow_reads() -> None:
    common = {"workers": 16, "latency_s": 1.0, "demand_mb_per_s": 32.0, "supply_mb_per_s": 1000.0}
    constant = measured(**common)
    anyhow = measured(**common, varying_latency=True)
    ordered = measured(**common, varying_latency=True, in_order=True)
    assert constant.wait_fraction < anyhow.wait_fraction < ordered.wait_fraction
    # In rounds it would wait for the slowest of 32 each time, 4.06 times the mean (their harmonic number); it is better
    # off than that, since units behind the slow one are ready when it comes.
    assert 32 / 4.06 < ordered.delivered_mb_per_s < 32 / 2


def test_order_does_not_matter_where_latency_is_constant() -> None:
    for latency in (0.01, 0.5, 3.0):
        found, ordered = measured(latency_s=latency), measured(latency_s=latency, in_order=True)
        assert ordered.delivered_mb_per_s == pytest.approx(found.delivered_mb_per_s, rel=1e-9)


def test_the_seed_decides_what_is_drawn_and_nothing_else() -> None:
    varied = pipeline(latency_s=0.7, varying_latency=True)
    assert simulate_pipeline(varied, seed=1) == simulate_pipeline(varied, seed=1)
    assert simulate_pipeline(varied, seed=1) != simulate_pipeline(varied, seed=2)
    assert simulate_pipeline(pipeline(latency_s=0.7), seed=1) == simulate_pipeline(pipeline(latency_s=0.7), seed=2)


# Laws

inputs = st.builds(
    PipelineInput,
    demand_mb_per_s=st.floats(1, 1000),
    supply_mb_per_s=st.floats(1, 1000),
    unit_mb=st.floats(0.01, 100),
    workers=st.integers(1, 8),
    prefetch=st.integers(1, 4),
    latency_s=st.floats(0, 2),
    stream_mb_per_s=st.none() | st.floats(1, 500),
    accelerators=st.integers(1, 3),
    in_order=st.booleans(),
)


@settings(deadline=None, max_examples=40)
@given(inputs)
def test_the_smallest_of_demand_supply_and_reads_in_flight_is_delivered(given_: PipelineInput) -> None:
    """With constant latency it is exact, once the time on the link counts into the read."""
    found = simulate_pipeline(given_)
    link_s = given_.unit_mb / given_.supply_mb_per_s / given_.accelerators
    stream_s = given_.unit_mb / given_.stream_mb_per_s if given_.stream_mb_per_s else 0.0
    in_flight = given_.workers * given_.prefetch * given_.unit_mb / (given_.latency_s + max(link_s, stream_s))
    expected = min(given_.demand_mb_per_s, given_.supply_mb_per_s, in_flight)
    assert found.delivered_mb_per_s == pytest.approx(expected, rel=0.01)
    assert found.wait_fraction == pytest.approx(1 - expected / given_.demand_mb_per_s, abs=0.01)
    assert found.read_s >= given_.latency_s + max(link_s, stream_s) - 1e-9


@settings(deadline=None, max_examples=12)
@given(inputs, st.sampled_from(["supply_mb_per_s", "workers", "prefetch", "stream_mb_per_s"]), st.integers(2, 4))
def test_more_of_anything_that_delivers_never_means_more_wait(given_: PipelineInput, name: str, times: int) -> None:
    value = getattr(given_, name)
    change: dict[str, Any] = {name: None if value is None else value * times}
    more = replace(given_, **change)
    assert simulate_pipeline(more).wait_fraction <= simulate_pipeline(given_).wait_fraction + 0.01


@settings(deadline=None, max_examples=12)
@given(inputs, st.floats(1.5, 10))
def test_more_latency_never_means_less_wait(given_: PipelineInput, times: float) -> None:
    slower = replace(given_, latency_s=given_.latency_s * times)
    assert simulate_pipeline(slower).wait_fraction >= simulate_pipeline(given_).wait_fraction - 0.01


# Bounds


@pytest.mark.parametrize(
    "extreme",
    [
        {"workers": 10_000, "prefetch": 10_000, "latency_s": 0.2},
        {"workers": 10_000, "prefetch": 10_000, "accelerators": 10**6},
        {"demand_mb_per_s": 1e9},
        {"demand_mb_per_s": 1e-9},
        {"supply_mb_per_s": 1e-9},
        {"supply_mb_per_s": math.inf},
        {"supply_mb_per_s": math.inf, "demand_mb_per_s": 1e12, "unit_mb": 1e-6},
        {"latency_s": 1e9},
        {"unit_mb": 1e12},
        {"stream_mb_per_s": 1e-6},
    ],
    ids=str,
)
def test_extremes_end_soon(extreme: dict[str, Any]) -> None:
    began = time.process_time()
    found = measured(**extreme)
    assert time.process_time() - began < 3
    assert 0 <= found.wait_fraction <= 1
    assert found.delivered_mb_per_s <= pipeline(**extreme).demand_mb_per_s * (1 + 1e-9)


def test_very_many_slots_are_bundled_and_bring_the_same() -> None:
    plain = {"demand_mb_per_s": 1e6, "supply_mb_per_s": 1e6, "latency_s": 1.0}
    found = measured(workers=100, prefetch=10, **plain)
    assert found.bundle == 1000 / MOST_SLOTS
    # 1,000 MB in flight for 1 s each.
    assert found.delivered_mb_per_s == pytest.approx(1000, rel=0.01)
    assert measured(workers=MOST_SLOTS, prefetch=1, **plain).bundle == 1
    # Each unit of a bundle keeps the rate of its own stream: 1 s of latency and 1 s of bytes.
    held = measured(workers=100, prefetch=10, stream_mb_per_s=1.0, **plain)
    assert held.delivered_mb_per_s == pytest.approx(500, rel=0.01)


def test_progress_grows_to_the_end() -> None:
    told: list[float] = []
    simulate_pipeline(pipeline(workers=64, accelerators=8), progress=told.append)
    assert len(told) > 1
    assert told == sorted(told)
    assert told[-1] <= 1


def test_what_cannot_be_simulated_is_refused_in_full() -> None:
    with pytest.raises(ValidationError) as caught:
        pipeline(demand_mb_per_s=0.0, workers=0, stream_mb_per_s=-1.0, latency_s=-1.0)
    assert [problem.path for problem in caught.value.problems] == [
        "demand_mb_per_s", "workers", "stream_mb_per_s", "latency_s",
    ]  # fmt: skip
