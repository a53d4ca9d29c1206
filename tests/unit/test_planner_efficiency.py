"""Effective training time and lost work: against exact arithmetic, drawn failures, and as properties."""

from __future__ import annotations

import math
import random
from decimal import Decimal, localcontext
from typing import TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from training_storage.planner.efficiency import effective_ratio, lost_work_s


class Cycle(TypedDict):
    interval_s: float
    write_s: float
    mtbf_s: float
    recovery_s: float
    asynchronous: bool


def cycle(interval_s: float, write_s: float, mtbf_s: float, recovery_s: float, asynchronous: bool) -> Cycle:
    return Cycle(
        interval_s=interval_s,
        write_s=write_s,
        mtbf_s=mtbf_s,
        recovery_s=recovery_s,
        asynchronous=asynchronous,
    )


def by_definition(given_: Cycle) -> tuple[float, float]:
    """The published forms with 60 digits."""
    with localcontext() as context:
        context.prec = 60
        dt, w, m, r = (Decimal(given_[key]) for key in ("interval_s", "write_s", "mtbf_s", "recovery_s"))
        if given_["asynchronous"]:
            dt = max(dt, w)
            kept = dt * (-w / m).exp() / ((dt / m).exp() - 1)
            return float(kept / m / (r / m).exp()), float((m - kept) / (r / m).exp())
        kept = dt / (((dt + w) / m).exp() - 1)
        # The mean over a cycle of the time since its start, at most dt, with the density of a failure in it.
        gone = (m * (1 - (-dt / m).exp()) - dt * (-(dt + w) / m).exp()) / (1 - (-(dt + w) / m).exp())
        return float(kept / m / (r / m).exp()), float(gone / (r / m).exp())


def drawn(given_: Cycle, failures: int) -> tuple[float, float]:
    """Ratio and lost work of a run with so many failures, counted step by step."""
    rng = random.Random(20261130)
    kept = lost = total = 0.0
    for _ in range(failures):
        left = rng.expovariate(1 / given_["mtbf_s"])
        total += left
        left -= given_["recovery_s"]
        if left < 0:
            continue
        trained = durable = 0.0
        if given_["asynchronous"]:
            while left >= durable + given_["interval_s"] + given_["write_s"]:
                durable += given_["interval_s"]
            trained = left
        else:
            while left >= given_["interval_s"] + given_["write_s"]:
                left -= given_["interval_s"] + given_["write_s"]
                durable += given_["interval_s"]
            trained = durable + min(left, given_["interval_s"])
        kept += durable
        lost += trained - durable
    return kept / total, lost / failures


@pytest.mark.parametrize(
    ("given_", "ratio", "lost"),
    [
        # Failures are rare and saves short: half an interval is lost, and w where it is durable later.
        (cycle(1800, 0, 1e12, 0, False), 1.0, 900.0),
        (cycle(1800, 60, 1e12, 0, True), 1.0, 960.0),
        # 1800 / 1860 for saves, and nothing else.
        (cycle(1800, 60, 1e12, 0, False), 1800 / 1860, 1800 * (900 + 60) / 1860),
        # Interval ln 2 x M, no saves: half of the cycles end, ln 2 / (2 - 1); the rest of the mean time M is lost.
        (cycle(1000 * math.log(2), 0, 1000, 0, False), math.log(2), 1000 * (1 - math.log(2))),
        # Recovery of ln 4 x M: a quarter of the failures find the run training.
        (cycle(1000 * math.log(2), 0, 1000, 1000 * math.log(4), False), math.log(2) / 4, 250 * (1 - math.log(2))),
        # Asynchronous, w = dt = ln 2 x M: e^(-w/M) halves what is kept.
        (
            cycle(1000 * math.log(2), 1000 * math.log(2), 1000, 0, True),
            math.log(2) / 2,
            1000 * (1 - math.log(2) / 2),
        ),
    ],
)
def test_by_hand(given_: Cycle, ratio: float, lost: float) -> None:
    assert effective_ratio(**given_) == pytest.approx(ratio, rel=1e-8)
    assert lost_work_s(**given_) == pytest.approx(lost, rel=1e-8)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("mtbf_s", [50.0, 11_135.0, 1e6, 1e10, 1e15])
@pytest.mark.parametrize(
    ("interval_s", "write_s"), [(1800.0, 30.0), (60.0, 60.0), (0.5, 0.001), (1e5, 10.0), (7.0, 0.0)]
)
@pytest.mark.parametrize("recovery_s", [0.0, 420.0])
def test_the_digits_hold_however_rare_or_frequent_failures_are(
    interval_s: float, write_s: float, mtbf_s: float, recovery_s: float, asynchronous: bool
) -> None:
    given_ = cycle(interval_s, write_s, mtbf_s, recovery_s, asynchronous)
    ratio, lost = by_definition(given_)
    assert effective_ratio(**given_) == pytest.approx(ratio, rel=1e-12, abs=1e-290)
    assert lost_work_s(**given_) == pytest.approx(lost, rel=1e-10, abs=1e-290)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("interval_s", "write_s", "mtbf_s", "recovery_s"),
    [(1800, 30, 11_135, 300), (100, 90, 100, 50), (600, 200, 3000, 0), (3600, 5, 3600, 900)],
)
def test_failures_that_are_drawn_say_the_same(
    interval_s: float, write_s: float, mtbf_s: float, recovery_s: float, asynchronous: bool
) -> None:
    given_ = cycle(interval_s, write_s, mtbf_s, recovery_s, asynchronous)
    ratio, lost = drawn(given_, 40_000)
    # 40,000 failures leave about 1 % of chance.
    assert effective_ratio(**given_) == pytest.approx(ratio, rel=0.03)
    assert lost_work_s(**given_) == pytest.approx(lost, rel=0.03)


def test_an_asynchronous_save_longer_than_the_interval_delays_the_next() -> None:
    assert effective_ratio(**cycle(10, 100, 1000, 5, True)) == effective_ratio(**cycle(100, 100, 1000, 5, True))
    assert lost_work_s(**cycle(10, 100, 1000, 5, True)) == lost_work_s(**cycle(100, 100, 1000, 5, True))


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("interval_s", "write_s", "mtbf_s", "recovery_s"),
    [
        (1800, 1e9, 1, 0),  # a save outlasts every failure
        (1e9, 1, 1e-6, 0),  # so does the interval
        (60, 1, 10, 1e12),  # the run never comes back
        (0, 0, 100, 0),
        (0, 5, 100, 0),
        (1e-12, 1e-15, 1e15, 0),
        (3e8, 3e8, 1e15, 3e8),
    ],
)
def test_the_ends_of_the_world_give_a_number(
    interval_s: float, write_s: float, mtbf_s: float, recovery_s: float, asynchronous: bool
) -> None:
    given_ = cycle(interval_s, write_s, mtbf_s, recovery_s, asynchronous)
    assert 0 <= effective_ratio(**given_) <= 1
    assert 0 <= lost_work_s(**given_) <= mtbf_s * (1 + 1e-9)


def times(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda power: 10.0**power)


CYCLES = st.builds(cycle, times(1e-3, 3e8), times(1e-9, 1e9), times(1e-6, 1e15), times(1e-3, 1e9), st.booleans())


@settings(max_examples=400, deadline=None, derandomize=True)
@given(CYCLES)
def test_the_ratio_is_a_share_and_lost_work_a_time(given_: Cycle) -> None:
    ratio, lost = effective_ratio(**given_), lost_work_s(**given_)
    assert 0 <= ratio <= 1
    longest = max(given_["interval_s"], given_["write_s"]) if given_["asynchronous"] else given_["interval_s"]
    most = longest + given_["write_s"] if given_["asynchronous"] else longest
    assert 0 <= lost <= most * (1 + 1e-9)
    # What is kept and what is lost of the mean time between two failures is not more than that.
    assert ratio * given_["mtbf_s"] + lost <= given_["mtbf_s"] * (1 + 1e-9)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(CYCLES, st.floats(1, 1e6))
def test_shorter_saves_rarer_failures_and_faster_recovery_never_lower_it(given_: Cycle, factor: float) -> None:
    before = effective_ratio(**given_)
    shorter, rarer, faster = given_.copy(), given_.copy(), given_.copy()
    shorter["write_s"] /= factor
    rarer["mtbf_s"] *= factor
    faster["recovery_s"] /= factor
    for better in (shorter, rarer, faster):
        assert effective_ratio(**better) >= before * (1 - 1e-9)
