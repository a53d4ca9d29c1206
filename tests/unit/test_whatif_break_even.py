"""Break-even: both cost the same at a crossing, whoever is said to be cheaper is so, and no crossing is missed."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.strategies import Data, workload_dicts
from tests.unit._planner import CATALOG, make, planned
from training_storage.errors import PlanError, ValidationError, WorkloadError
from training_storage.planner import Plan, plan
from training_storage.whatif import BreakEven, Curve, Step, break_even, steps
from training_storage.whatif.break_even import GRID, segments_of
from training_storage.whatif.figures import figures_of, gpu_wait_fraction
from training_storage.workload import change_workload, load_workload, workload_from_dict

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = settings(deadline=None, derandomize=True, max_examples=200)

amounts = st.one_of(st.just(0.0), st.floats(0.01, 5_000))
shares = st.one_of(st.just(0.0), st.floats(0, 0.3))
supplies = st.floats(1, 1_000_000)


@st.composite
def curves(draw: st.DrawFn, fleet: float) -> Curve:
    supply = draw(supplies)
    return Curve(
        storage_hourly=draw(amounts),
        storage_hourly_per_mb_per_s=draw(st.one_of(st.just(0.0), st.floats(1e-6, 0.2))),
        read_supply_mb_per_s=supply,
        saving_supply_mb_per_s=supply * draw(st.one_of(st.just(0.0), st.floats(0.001, 1))),
        saving_fraction=draw(st.one_of(st.just(0.0), st.floats(0, 1))),
        checkpoint_stall_fraction=draw(shares),
        failure_fraction=draw(shares),
        fleet_usd_per_hour=fleet,
    )


pairs = st.floats(0.5, 50_000).flatmap(lambda fleet: st.tuples(curves(fleet), curves(fleet)))


def example(name: str) -> Plan:
    """Return the plan of an example."""
    return plan(load_workload(ROOT / "examples" / f"{name}.yaml"))


def possible(made: Plan) -> list[Step]:
    """Return the steps of a plan that are possible."""
    return [each for each in steps(made) if each.plan is not None]


def same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6)


def check_segments(ours: Curve, theirs: Curve, end: float) -> None:
    """The answer of each segment holds all through it, both are equal at its border, and there is no gap."""
    found = segments_of(ours, theirs, end)
    assert (found[0].from_mb_per_s, found[-1].to_mb_per_s) == (0.0, end)
    for before, after in pairwise(found):
        assert before.to_mb_per_s == after.from_mb_per_s
        assert before.cheaper != after.cheaper
        border = after.from_mb_per_s
        assert same(ours.usd_per_hour(border), theirs.usd_per_hour(border))
    for each in found:
        width = each.to_mb_per_s - each.from_mb_per_s
        for part in range(1, 40):
            read = each.from_mb_per_s + width * part / 40
            more = theirs.usd_per_hour(read) - ours.usd_per_hour(read)
            if same(theirs.usd_per_hour(read), ours.usd_per_hour(read)):
                continue  # so near to a border that either answer is right
            assert each.cheaper == ("plan" if more > 0 else "step")


@SETTINGS
@given(pairs, st.floats(10, 5_000_000))
def test_who_is_said_to_be_cheaper_is(pair: tuple[Curve, Curve], end: float) -> None:
    check_segments(*pair, end)


@SETTINGS
@given(pairs)
def test_the_answer_of_the_other_way_round_is_the_same(pair: tuple[Curve, Curve]) -> None:
    ours, theirs = pair
    one, other = segments_of(ours, theirs, 1e6), segments_of(theirs, ours, 1e6)
    turned = {"plan": "step", "step": "plan", "same": "same"}
    assert [turned[each.cheaper] for each in other] == [each.cheaper for each in one]
    assert [each.from_mb_per_s for each in other] == pytest.approx([each.from_mb_per_s for each in one])


def curve(**changes: float) -> Curve:
    given: dict[str, float] = {
        "storage_hourly": 10.0,
        "storage_hourly_per_mb_per_s": 0.0,
        "read_supply_mb_per_s": 1000.0,
        "saving_supply_mb_per_s": 1000.0,
        "saving_fraction": 0.0,
        "checkpoint_stall_fraction": 0.0,
        "failure_fraction": 0.0,
        "fleet_usd_per_hour": 100.0,
    }
    return Curve(**{**given, **changes})


def test_more_throughput_pays_from_the_reads_at_which_the_wait_costs_the_difference() -> None:
    # 20 USD more an hour are a fifth of the fleet: 1 - 1000 / reads = 0.2 at 1250 MB/s.
    found = segments_of(curve(), curve(storage_hourly=30.0, read_supply_mb_per_s=2000.0), 3000.0)
    assert [each.cheaper for each in found] == ["plan", "step"]
    assert found[1].from_mb_per_s == pytest.approx(1250)


def test_beyond_both_supplies_the_lines_can_cross_once_more() -> None:
    # Far out the waits grow alike, and the step costs 45 USD more: 100 x 900 / reads = 45 at 2000 MB/s.
    found = segments_of(curve(), curve(storage_hourly=55.0, read_supply_mb_per_s=1900.0), 10_000.0)
    assert [each.cheaper for each in found] == ["plan", "step", "plan"]
    assert [each.from_mb_per_s for each in found[1:]] == pytest.approx([1000 / 0.55, 2000])


def test_requests_that_grow_with_reads_can_cross_before_anybody_waits() -> None:
    found = segments_of(
        curve(), curve(storage_hourly=5.0, storage_hourly_per_mb_per_s=0.01, read_supply_mb_per_s=1000.0), 2000.0
    )
    assert [(each.cheaper, each.to_mb_per_s) for each in found] == [("step", 500.0), ("plan", 2000.0)]


def test_requests_do_not_grow_beyond_what_is_delivered() -> None:
    found = curve(storage_hourly_per_mb_per_s=0.01)
    assert found.storage_usd_per_hour(1000) == pytest.approx(20)
    assert found.storage_usd_per_hour(5000) == pytest.approx(20)
    assert found.usd_per_hour(5000) == pytest.approx(20 + 80)


def test_reads_wait_while_a_save_is_written_and_between_saves() -> None:
    found = curve(saving_supply_mb_per_s=200.0, saving_fraction=0.25)
    assert found.wait_fraction(100) == 0
    assert found.wait_fraction(400) == pytest.approx(0.25 * 0.5)
    assert found.wait_fraction(2000) == pytest.approx(0.25 * 0.9 + 0.75 * 0.5)
    # A tenth of the fleet: a quarter of the time 1 - 200 / reads = 0.4 of it.
    segments = segments_of(found, curve(storage_hourly=20.0), 500.0)
    assert [each.cheaper for each in segments] == ["plan", "step"]
    assert segments[1].from_mb_per_s == pytest.approx(200 / 0.6)


def test_what_failures_take_of_the_remaining_time_counts() -> None:
    found = curve(failure_fraction=0.2, checkpoint_stall_fraction=0.1)
    assert found.lost_fraction(500) == pytest.approx(1 - 0.8 * 0.9)
    assert found.lost_fraction(2000) == pytest.approx(1 - 0.8 * (1 - 0.1 - 0.5))
    assert found.usd_per_hour(2000) == pytest.approx(10 + 100 * 0.68)
    # 28 USD of lost time stand against 15 more of storage; from 1 - 1000 / reads = 13 / 80 on the plan loses less.
    segments = segments_of(found, curve(storage_hourly=25.0, read_supply_mb_per_s=2000.0), 3000.0)
    assert [each.cheaper for each in segments] == ["step"]
    segments = segments_of(curve(storage_hourly=25.0), found, 3000.0)
    assert [each.cheaper for each in segments] == ["plan", "step"]
    assert found.usd_per_hour(segments[1].from_mb_per_s) == pytest.approx(
        25 + 100 * (1 - 1000 / segments[1].from_mb_per_s)
    )


def test_the_same_price_is_the_same_until_one_of_them_waits() -> None:
    found = segments_of(curve(), curve(read_supply_mb_per_s=2000.0), 3000.0)
    assert [(each.cheaper, each.to_mb_per_s) for each in found] == [("same", 1000.0), ("step", 3000.0)]


# Plans


@pytest.mark.parametrize("name", ["llama3-70b", "vision-small-files", "lora-finetune", "express-cache"])
def test_plans_and_their_steps(name: str) -> None:
    made = example(name)
    for each in possible(made):
        found = break_even(made, each)
        assert found.plan_curve is not None
        assert found.step_curve is not None
        assert found.crossings_mb_per_s is not None
        for crossing in found.crossings_mb_per_s:
            assert same(found.plan_curve.usd_per_hour(crossing), found.step_curve.usd_per_hour(crossing))
        check_segments(found.plan_curve, found.step_curve, found.up_to_mb_per_s)
        check_planned_reads(made, each, found)
        check_points(found)


def check_planned_reads(made: Plan, each: Step, found: BreakEven) -> None:
    """At the reads of the workload both curves are what the two plans say."""
    reads = made.demand.read_mb_per_s
    assert reads is not None
    assert found.read_mb_per_s == reads
    assert each.plan is not None
    fleet = sum(line.hourly or 0 for line in made.cost.lines if line.kind == "gpu")
    for side, curve_ in ((made, found.plan_curve), (each.plan, found.step_curve)):
        assert curve_ is not None
        waits = gpu_wait_fraction(side)
        assert curve_.wait_fraction(reads) == pytest.approx(waits)
        lost = (waits or 0) + (figures_of(side).failure_loss_fraction or 0)
        assert curve_.usd_per_hour(reads) == pytest.approx((side.cost.storage_hourly or 0) + lost * fleet)
    extra = (each.plan.cost.storage_hourly or 0) - (made.cost.storage_hourly or 0)
    assert found.break_even_wait_fraction == pytest.approx(extra / fleet)


@settings(
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(workload_dicts())
def test_both_curves_are_what_the_plans_say_at_the_reads_of_the_workload(data: Data) -> None:
    data["compute"].pop("purchase", None)  # only On-Demand has prices
    data = {**data, "region": "us-east-1", "availability_zone_id": "use1-az6"}
    try:
        made = plan(workload_from_dict(data))
    except (PlanError, WorkloadError):
        return
    for each in possible(made):
        found = break_even(made, each)
        if found.plan_curve is None or found.step_curve is None:
            continue
        check_segments(found.plan_curve, found.step_curve, found.up_to_mb_per_s)
        if made.demand.read_mb_per_s is not None:
            check_planned_reads(made, each, found)


def check_points(found: BreakEven) -> None:
    reads = [point.read_mb_per_s for point in found.points]
    assert reads == sorted(set(reads))
    assert (reads[0], reads[-1]) == (0.0, found.up_to_mb_per_s)
    assert {found.up_to_mb_per_s * part / GRID for part in range(GRID + 1)} <= set(reads)
    assert set(found.crossings_mb_per_s or ()) <= set(reads)
    assert found.plan_curve is not None
    assert found.step_curve is not None
    for point in found.points:
        assert point.plan_usd_per_hour == found.plan_curve.usd_per_hour(point.read_mb_per_s)
        assert point.step_usd_per_hour == found.step_curve.usd_per_hour(point.read_mb_per_s)


RATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"per_accelerator": "40 MB/s"}, {"per_accelerator": "15 MB/s"}),
    (
        {"samples": {"size": "1 MB", "per_second_per_accelerator": 40}},
        {"samples": {"size": "1 MB", "per_second_per_accelerator": 15}},
    ),
    (
        {"tokens": {"per_second_per_accelerator": 1e7, "bytes_per_token": 4}},
        {"tokens": {"per_second_per_accelerator": 3.75e6, "bytes_per_token": 4}},
    ),
]


@pytest.mark.parametrize(("now", "less"), RATES, ids=lambda rate: next(iter(rate)))
@pytest.mark.parametrize("hot", ["none", "express"])
def test_requests_grow_as_the_bill_at_other_reads_has_them(now: dict[str, Any], less: dict[str, Any], hot: str) -> None:
    shape: dict[str, Any] = {"dataset.interface": "object", "hot_tier": hot, "dataset.file_count": 200_000}
    made, smaller = (planned({**shape, "dataset.read_rate": rate}) for rate in (now, less))
    other = next(each for each in possible(made))
    found = break_even(made, other).plan_curve
    reads = smaller.demand.read_mb_per_s
    assert found is not None
    assert reads is not None
    assert found.storage_hourly_per_mb_per_s > 0
    assert found.storage_usd_per_hour(reads) == pytest.approx(smaller.cost.storage_hourly)


def test_a_starved_tier_is_billed_for_what_it_delivers() -> None:
    made = planned(
        {
            "dataset.interface": "object",
            "hot_tier": "none",
            "dataset.read_rate": {"per_accelerator": "8 GB/s"},
            "dataset.file_count": None,
        }
    )
    assert (made.prediction.data_wait_fraction or 0) > 0.5
    found = break_even(made, possible(made)[0]).plan_curve
    assert found is not None
    assert found.storage_usd_per_hour(made.demand.read_mb_per_s or 0) == pytest.approx(made.cost.storage_hourly)
    assert 0 < found.storage_hourly < (made.cost.storage_hourly or 0)


def test_a_reference_workload_is_taken_by_its_rate() -> None:
    shape: dict[str, Any] = {
        "compute.instance_type": "p5.48xlarge",
        "dataset.interface": "object",
        "dataset.read_rate": {"reference": "unet3d"},
    }
    made = planned({**shape, "hot_tier": "express"})
    found = break_even(made, possible(made)[0]).plan_curve
    assert found is not None
    assert found.storage_hourly_per_mb_per_s > 0


def test_the_range_reaches_the_bend_and_the_crossing_or_as_far_as_asked() -> None:
    made = example("llama3-70b")
    up = possible(made)[0]
    found = break_even(made, up)
    assert found.up_to_mb_per_s >= 2 * (made.demand.read_mb_per_s or 0)
    assert found.crossings_mb_per_s is not None
    (crossing,) = found.crossings_mb_per_s
    assert crossing < found.up_to_mb_per_s
    short = break_even(made, up, up_to_mb_per_s=crossing / 2)
    assert (short.up_to_mb_per_s, short.crossings_mb_per_s) == (crossing / 2, ())


def test_without_reads_both_curves_are_there_all_the_same() -> None:
    made = planned({"hot_tier": "lustre", "dataset.read_rate": None, "compute.instance_count": 8})
    found = break_even(made, next(each for each in possible(made) if each.kind == "throughput"))
    assert found.read_mb_per_s is None
    assert found.crossings_mb_per_s
    assert found.break_even_wait_fraction is not None


def test_what_is_not_known_is_named_and_nothing_is_drawn() -> None:
    made = planned(
        {"region": "us-west-2", "availability_zone_id": "usw2-az1", "compute.purchase": "spot", "hot_tier": "lustre"}
    )
    found = break_even(made, next(each for each in possible(made) if each.kind == "throughput"))
    assert any(each.startswith("no price for lustre.") for each in found.missing)
    assert found.missing[-1] == "the price of the fleet is not known"
    assert (found.crossings_mb_per_s, found.break_even_wait_fraction) == (None, None)
    assert (found.plan_curve, found.step_curve, found.segments, found.points) == (None, None, (), ())


def test_items_that_both_lack_a_price_for_are_named() -> None:
    made = example("llama3-70b")
    step = possible(made)[0]
    assert step.plan is not None
    made, other = without_price(made, "nat.gateway"), without_price(step.plan, "nat.gateway")
    found = break_even(made, replace(step, plan=other))
    assert found.left_out == ("nat.gateway",)
    assert found.crossings_mb_per_s is not None


def without_price(made: Plan, item: str) -> Plan:
    """Return a plan in whose bill one item has no price."""
    lines = tuple(
        replace(line, unit_price=None, hourly=None, run=None, monthly=None) if line.item == item else line
        for line in made.cost.lines
    )
    return replace(made, cost=replace(made.cost, lines=lines))


def test_a_step_that_is_not_possible_has_no_break_even() -> None:
    made = planned()
    impossible = next(each for each in steps(made) if each.plan is None)
    with pytest.raises(ValidationError, match="is not possible"):
        break_even(made, impossible)


@pytest.mark.parametrize("end", [0.0, -1.0, math.inf, math.nan])
def test_a_range_that_is_none_is_refused(end: float) -> None:
    made = example("llama3-70b")
    with pytest.raises(ValidationError, match="is no end of a range"):
        break_even(made, possible(made)[0], up_to_mb_per_s=end)


def test_half_the_reads_are_planned_without_touching_the_workload() -> None:
    made = plan(make(), catalog=CATALOG)
    before = made.workload
    break_even(made, possible(made)[0])
    assert made.workload is before
    assert change_workload(before, {}) == before
