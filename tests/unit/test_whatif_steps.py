"""Steps: each is a legal plan one step away, what it says is what its plan says, and a step up never adds wait."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from tests.strategies import Data, dump_workload, workload_dicts
from tests.unit._planner import CATALOG, SAVES, make, planned
from training_storage.catalog import load_catalog
from training_storage.errors import PlanError
from training_storage.planner import Plan, plan
from training_storage.units import Duration
from training_storage.whatif import Step, steps
from training_storage.whatif.figures import difference_of, figures_of, gpu_wait_fraction, unpriced_differences
from training_storage.workload import load_workload, parse_workload, workload_from_dict

ROOT = Path(__file__).resolve().parents[2]
NOISE = 1e-9
_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)
LUSTRE = {"hot_tier": "lustre", "compute.instance_count": 8}


def example(name: str) -> Plan:
    """Return the plan of an example."""
    return plan(load_workload(ROOT / "examples" / f"{name}.yaml"))


def step(made: Plan, kind: str, direction: str) -> Step:
    """Return one step of a plan."""
    return next(each for each in steps(made) if (each.kind, each.direction) == (kind, direction))


def tier(made: Plan, hot: str) -> Step:
    """Return the step to another hot tier."""
    return next(each for each in steps(made) if each.figures is not None and each.figures.hot == hot)


def planned_or_none(data: Data) -> Plan | None:
    """Return the plan of random data; None where there is none."""
    try:
        return plan(workload_from_dict(data))
    except PlanError:
        return None


# Every step


@settings(_SETTINGS, max_examples=80)
@given(workload_dicts())
def test_one_step_up_never_raises_the_wait_and_verdicts_follow_from_the_figures(data: Data) -> None:
    made = planned_or_none(data)
    assume(made is not None)
    assert made is not None
    found = steps(made)
    check_waits(made, found)
    check_verdicts(found)


def check_waits(made: Plan, found: tuple[Step, ...]) -> None:
    """No step up in throughput or capacity waits longer in any way, or delivers less."""
    before = made.prediction
    for each in found:
        if each.kind == "tier" or each.direction != "up" or each.plan is None or each.difference is None:
            continue
        after = each.plan.prediction
        for now, then in (
            (before.data_wait_fraction, after.data_wait_fraction),
            (before.checkpoint_stall_fraction, after.checkpoint_stall_fraction),
            (before.gpu_wait_fraction, after.gpu_wait_fraction),
            (before.data_wait_with_saves_fraction, after.data_wait_with_saves_fraction),
            (gpu_wait_fraction(made), gpu_wait_fraction(each.plan)),
        ):
            assert (now is None) is (then is None)
            assert now is None or then is None or then <= now + NOISE
        assert after.read_supply_mb_per_s >= before.read_supply_mb_per_s * (1 - NOISE)


@settings(_SETTINGS, max_examples=60)
@given(workload_dicts())
def test_steps_are_what_a_file_with_their_keys_gives(data: Data) -> None:
    made = planned_or_none(data)
    assume(made is not None)
    assert made is not None
    found = steps(made)
    assert [each.kind for each in found] == ["throughput", "throughput", "capacity", "capacity", "tier", "tier"]
    for each in found:
        if each.plan is None:
            assert (each.figures, each.difference, each.changes, each.verdict) == (None, None, {}, "not possible")
            assert each.because
            continue
        written: Data = {**data}
        for path, value in each.changes.items():
            section, _, key = path.rpartition(".")
            if section:
                written[section] = {**written.get(section, {}), key: value}
            else:
                written[key] = value
        again = plan(parse_workload(dump_workload(written)))
        assert again.to_json() == each.plan.to_json()
        check_one_step(made, each)


def check_one_step(made: Plan, each: Step) -> None:
    """Nothing but what the step names is another one: type, EFA, and for a capacity step the tier."""
    assert each.plan is not None
    if each.kind == "tier":
        assert each.plan.tiers.hot != made.tiers.hot
        return
    before, after = made.lustre, each.plan.lustre
    assert before is not None
    assert after is not None
    same = ("deployment_type", "storage_type", "efa", "file_system_type_version", "links")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]
    way = 1 if each.direction == "up" else -1
    if each.kind == "capacity":
        assert after.per_unit_storage_throughput == before.per_unit_storage_throughput
        assert (after.storage_capacity_gib or 0) * way > (before.storage_capacity_gib or 0) * way
    else:
        assert after.throughput_mb_per_s * way >= before.throughput_mb_per_s * way
        if before.storage_capacity_gib is not None:
            assert (after.storage_capacity_gib or 0) >= before.storage_capacity_gib
            assert after.per_unit_storage_throughput is not None
            assert before.per_unit_storage_throughput is not None
            assert after.per_unit_storage_throughput * way > before.per_unit_storage_throughput * way


def check_verdicts(all_steps: tuple[Step, ...]) -> None:
    """The verdict is the one that storage, lost time and their sum give."""
    for each in all_steps:
        found = each.difference
        if found is None:
            continue
        storage, waits, net = found.storage_hourly, found.gpu_wait_fraction, found.net_usd_per_hour
        if storage is None or waits is None:
            assert each.verdict == "not known"
            continue
        waits += found.failure_loss_fraction or 0.0
        cheaper, dearer = storage < -1e-6, storage > 1e-6
        slower, faster = waits > NOISE, waits < -NOISE
        expected = {
            "pays": net is not None and net < 0 and ((dearer and faster) or (cheaper and slower)),
            "does not pay": net is not None and net >= 0 and ((dearer and faster) or (cheaper and slower)),
            "not known": net is None and ((dearer and faster) or (cheaper and slower)),
            "cheaper and no slower": cheaper and not slower,
            "dearer and no faster": dearer and not (slower or faster),
            "dearer and slower": dearer and slower,
            "slower at the same price": not (dearer or cheaper) and slower,
            "faster at the same price": not (dearer or cheaper) and faster,
            "no difference": not (dearer or cheaper or slower or faster),
        }
        assert [verdict for verdict, true in expected.items() if true] == [each.verdict]
        if each.kind == "tier":
            waits = found.gpu_wait_fraction or 0.0
            assert (each.direction == "up") is (dearer and waits <= NOISE)
            assert (each.direction == "down") is (cheaper and waits >= -NOISE)


def test_differences_are_those_of_the_two_plans() -> None:
    made = example("vision-small-files")
    found = step(made, "throughput", "down")
    assert found.plan is not None
    assert found.difference is not None
    before, after = figures_of(made), figures_of(found.plan)
    assert found.figures == after
    assert found.difference == difference_of(made, found.plan)
    assert found.difference.storage_hourly == pytest.approx((after.storage_hourly or 0) - (before.storage_hourly or 0))
    assert found.difference.storage_monthly == pytest.approx(
        (after.storage_monthly or 0) - (before.storage_monthly or 0)
    )
    waits = (after.gpu_wait_fraction or 0) - (before.gpu_wait_fraction or 0)
    assert waits > 0.1
    fleet = 32 * (CATALOG.prices.usd("ec2.p5.48xlarge", "us-east-1") or 0)
    assert found.difference.idle_gpu_usd_per_hour == pytest.approx(waits * fleet)
    failures = (after.failure_loss_fraction or 0) - (before.failure_loss_fraction or 0)
    assert found.difference.net_usd_per_hour == pytest.approx(
        (found.difference.storage_hourly or 0) + (waits + failures) * fleet
    )
    assert found.verdict == "does not pay"


# Which step


def test_throughput_goes_to_the_next_tier_at_the_same_capacity() -> None:
    made = planned({**LUSTRE, "lustre.per_unit_storage_throughput": 250, "lustre.storage_capacity": "4800 GiB"})
    up, down = step(made, "throughput", "up"), step(made, "throughput", "down")
    assert up.changes == {
        "lustre.per_unit_storage_throughput": 500,
        "lustre.storage_capacity": "4800 GiB",
        "lustre.efa": False,
    }
    assert (up.option, down.option) == ("4,800 GiB at 500 MB/s per TiB", "4,800 GiB at 125 MB/s per TiB")


def test_where_the_other_tier_has_larger_steps_capacity_grows_with_it() -> None:
    # FSx for Lustre User Guide: with EFA steps of 9,600 GiB at 500 and of 19,200 GiB at 250 MB/s per TiB.
    made = example("llama3-70b")
    assert made.lustre is not None
    assert made.lustre.storage_capacity_gib == 67_200
    down = step(made, "throughput", "down")
    assert down.changes["lustre.storage_capacity"] == f"{math.ceil(67_200 / 19_200) * 19_200} GiB"


def test_what_the_file_says_already_is_not_written_again() -> None:
    made = planned({**LUSTRE, "lustre.per_unit_storage_throughput": 250, "lustre.efa": False})
    assert set(step(made, "capacity", "up").changes) == {"lustre.storage_capacity"}
    assert set(step(made, "throughput", "up").changes) == {
        "lustre.per_unit_storage_throughput",
        "lustre.storage_capacity",
    }


def test_capacity_goes_to_the_legal_ones_beside_it() -> None:
    made = planned({**LUSTRE, "dataset.size": "1 GB", "lustre.storage_capacity": "2400 GiB"})
    assert step(made, "capacity", "up").changes["lustre.storage_capacity"] == "4800 GiB"
    assert step(made, "capacity", "down").changes["lustre.storage_capacity"] == "1200 GiB"


def test_a_capacity_that_does_not_hold_what_is_hot_is_no_step() -> None:
    made = planned({**LUSTRE, "dataset.size": "2 TB"})
    down = step(made, "capacity", "down")
    assert down.verdict == "not possible"
    assert down.because == "1,200 GiB do not hold the 2,328 GiB that have to be hot"


def test_a_file_system_that_is_too_small_as_given_may_still_grow() -> None:
    made = planned({**LUSTRE, "dataset.size": "20 TB", "lustre.storage_capacity": "2400 GiB"})
    assert step(made, "capacity", "up").figures is not None
    assert step(made, "throughput", "up").figures is not None
    assert step(made, "capacity", "down").verdict == "not possible"


@pytest.mark.parametrize(
    ("changes", "kind", "direction", "because"),
    [
        ({}, "throughput", "up", "S3 has no throughput to buy: it grows with the fleet; "),
        ({}, "capacity", "down", "S3 holds what is put there: no capacity is bought"),
        (
            {"hot_tier": "express", "dataset.interface": "object"},
            "throughput",
            "down",
            "S3 Express has no throughput to buy: it grows with the fleet; ",
        ),
        (
            {**LUSTRE, "lustre.per_unit_storage_throughput": 1000},
            "throughput",
            "up",
            "1000 MB/s per TiB is the highest tier of PERSISTENT_2 SSD",
        ),
        (
            {**LUSTRE, "lustre.per_unit_storage_throughput": 125},
            "throughput",
            "down",
            "125 MB/s per TiB is the lowest tier of PERSISTENT_2 SSD",
        ),
        (
            {**LUSTRE, "lustre.deployment_type": "SCRATCH_2"},
            "throughput",
            "up",
            "SCRATCH_2 SSD has one throughput per TiB; more of it comes with more capacity",
        ),
        (
            {**LUSTRE, "dataset.size": "1 GB", "lustre.storage_capacity": "1200 GiB"},
            "capacity",
            "down",
            "1,200 GiB is the smallest file system of this type and tier",
        ),
        (
            {**LUSTRE, "lustre.storage_type": "INTELLIGENT_TIERING", "lustre.links": []},
            "capacity",
            "up",
            "INTELLIGENT_TIERING grows and shrinks with the data: no capacity is bought",
        ),
        (
            {**LUSTRE, "lustre.storage_type": "INTELLIGENT_TIERING", "lustre.links": []},
            "throughput",
            "down",
            "4,000 MB/s are the least of INTELLIGENT_TIERING",
        ),
    ],
)
def test_a_step_that_does_not_exist_says_why(changes: dict[str, Any], kind: str, direction: str, because: str) -> None:
    found = step(planned(changes), kind, direction)
    assert found.verdict == "not possible"
    assert found.because.startswith(because)


def test_the_tiers_of_the_region_bound_the_steps() -> None:
    here = {"region": "ca-west-1", "availability_zone_id": "caw1-az1"}
    made = planned({**LUSTRE, **here, "lustre.per_unit_storage_throughput": 250})
    up = step(made, "throughput", "up")
    assert up.because == "250 MB/s per TiB is the highest tier of PERSISTENT_2 SSD that ca-west-1 offers"


def test_throughput_that_is_bought_goes_by_its_step() -> None:
    made = planned(
        {
            **LUSTRE,
            "lustre.storage_type": "INTELLIGENT_TIERING",
            "lustre.links": [],
            "lustre.throughput_capacity": 8000,
        }
    )
    assert step(made, "throughput", "up").changes["lustre.throughput_capacity"] == 12000
    assert step(made, "throughput", "down").changes["lustre.throughput_capacity"] == 4000


def test_what_is_there_already_is_not_changed() -> None:
    made = example("existing-everything")
    for each in steps(made)[:4]:
        assert each.because == "fs-0a1b2c3d4e5f60718 is there already: a plan does not change it"


def test_another_tier_that_no_legal_plan_has_says_what_the_planner_says() -> None:
    made = planned({"region": "us-west-1", "availability_zone_id": "usw1-az1"})
    found = steps(made)[-1]
    assert found.kind == "tier"
    assert found.because.startswith("hot_tier: usw1-az1 has no S3 Express One Zone")


def test_a_lower_tier_that_is_no_slower_is_no_step_down() -> None:
    # With EFA the steps grow as the tiers fall: 4,800 GiB at 1000, 9,600 at 500 and so on are 4,800 MB/s each.
    made = planned({**LUSTRE, "lustre.efa": True, "lustre.storage_capacity": "4800 GiB"})
    assert made.lustre is not None
    assert made.lustre.per_unit_storage_throughput == 1000
    down = step(made, "throughput", "down")
    assert down.verdict == "not possible"
    assert down.because == (
        "4,800 GiB at 1000 MB/s per TiB, with EFA, have the least throughput: lower tiers begin at 9,600 GiB, and with "
        "no less of it"
    )


# What a verdict says


FAILING: dict[str, Any] = {
    "compute.instance_count": 32,
    "dataset.interface": "object",
    "dataset.read_rate": {"per_accelerator": "20 MB/s"},
    "checkpoints": {"parameters": 4e11, "interval": "auto", "asynchronous": True, "max_write_time": "10m"},
}
"""Large checkpoints: how soon a restore ends and a save is durable is worth more than the storage."""


@pytest.mark.parametrize("asynchronous", [True, False])
@pytest.mark.parametrize("hot", ["none", "lustre", "express"])
def test_what_failures_take_is_what_the_effective_time_lacks_beside_waits(hot: str, *, asynchronous: bool) -> None:
    made = planned(
        {**FAILING, "hot_tier": hot, "checkpoints": {**FAILING["checkpoints"], "asynchronous": asynchronous}}
    )
    seen, found = made.prediction, figures_of(made)
    ratio, stall = seen.effective_training_time_ratio, seen.checkpoint_stall_fraction
    assert ratio is not None
    assert found.failure_loss_fraction is not None
    assert 0.001 < found.failure_loss_fraction < 0.1
    if seen.data_wait_with_saves_fraction is None and not (seen.data_wait_fraction and stall):
        assert 1 - ratio == pytest.approx((found.gpu_wait_fraction or 0) + found.failure_loss_fraction)
    elif not stall:
        left = ratio * (1 - (seen.data_wait_with_saves_fraction or 0)) / (1 - (seen.data_wait_fraction or 0))
        assert 1 - left == pytest.approx((found.gpu_wait_fraction or 0) + found.failure_loss_fraction)


def test_a_cheaper_tier_that_loses_more_to_failures_is_not_called_no_slower() -> None:
    made = planned({**FAILING, "dataset.interface": "posix", "hot_tier": "express"})
    found = tier(made, "none")
    assert found.difference is not None
    assert found.difference.gpu_wait_fraction == 0
    assert (found.difference.storage_hourly or 0) < 0
    assert (found.difference.effective_training_time_ratio or 0) < -0.001
    lost = found.difference.failure_loss_fraction or 0
    fleet = 32 * (CATALOG.prices.usd("ec2.p5.48xlarge", "us-east-1") or 0)
    assert found.difference.failure_usd_per_hour == pytest.approx(lost * fleet)
    assert found.difference.net_usd_per_hour == pytest.approx((found.difference.storage_hourly or 0) + lost * fleet)
    assert found.verdict == ("pays" if (found.difference.net_usd_per_hour or 0) < 0 else "does not pay")
    assert "accelerators wait as long, failures take " in found.because


def test_a_shortfall_that_a_smaller_step_makes_larger_is_said() -> None:
    made = planned(
        {**LUSTRE, "dataset.read_rate": {"per_accelerator": "300 MB/s"}, "lustre.storage_capacity": "9600 GiB"}
    )
    assert "lustre-too-small" in {each.id for each in made.warnings}
    down, up = step(made, "throughput", "down"), step(made, "capacity", "up")
    assert "lustre-too-small" not in down.new_warnings
    assert any(each.startswith("the file system as given misses ") for each in down.misses)
    assert up.misses == ()


def test_what_is_paid_once_speaks_against_a_step_where_it_outweighs_the_hours() -> None:
    workload = make({"compute.instance_count": 1, "hot_tier": "lustre"})
    found = [
        (length, each)
        for length in (Duration(86400), Duration(3000 * 86400))
        for each in steps(plan(workload, run_length=length))
        if each.difference is not None
    ]
    said = 0
    for length, each in found:
        difference = each.difference
        assert difference is not None
        hours = length.seconds / 3600
        lost = (difference.net_usd_per_hour or 0) - (difference.storage_hourly or 0)
        total = (difference.storage_run or 0) + lost * hours
        turned = total * (difference.net_usd_per_hour or 0) < 0
        assert bool(each.over_a_run) is turned
        assert each.over_a_run in each.because
        if turned:
            said += 1
            more = "more" if total > 0 else "less"
            assert each.over_a_run == f"a run of 24 h costs {abs(total):,.2f} USD {more} in all, with what is paid once"
    assert said


@pytest.mark.parametrize("interface", ["posix", "object"])
def test_posix_code_misses_a_file_system_on_s3_express(interface: str) -> None:
    found = tier(planned({"hot_tier": "lustre", "dataset.interface": interface}), "express")
    named = [each for each in found.misses if "POSIX code needs a file system" in each]
    assert len(named) == (1 if interface == "posix" else 0)


def test_shortfalls_of_a_cheaper_step_stand_beside_its_verdict() -> None:
    saves = {"size": "1 TiB", "asynchronous": True, "interval": "12h", "max_write_time": "1h", "max_restore_time": "1m"}
    made = planned({**LUSTRE, "dataset.size": "100 GB", "checkpoints": saves})
    down = step(made, "capacity", "down")
    assert (down.verdict, down.new_warnings) == ("pays", ("lustre-too-small",))
    (missed,) = down.misses
    assert missed.startswith("the file system as given misses ")


def test_what_asynchronous_saves_take_from_reads_counts_as_wait() -> None:
    made = example("llama3-70b")
    down = step(made, "throughput", "down")
    assert down.plan is not None
    assert down.plan.prediction.data_wait_fraction == 0
    assert down.difference is not None
    assert down.difference.gpu_wait_fraction == pytest.approx(down.plan.prediction.data_wait_with_saves_fraction)
    assert down.verdict == "does not pay"


def test_without_a_price_of_a_tier_nothing_is_known() -> None:
    made = planned({"region": "us-west-2", "availability_zone_id": "usw2-az1"})
    found = tier(made, "lustre")
    assert found.plan is not None
    assert found.difference is not None
    assert any(item.startswith("lustre.") for item in unpriced_differences(made, found.plan))
    assert (found.difference.storage_hourly, found.difference.net_usd_per_hour) == (None, None)
    assert (found.verdict, found.direction) == ("not known", "sideways")
    assert found.because.startswith("no price for ")


def test_items_without_a_price_that_both_have_drop_out() -> None:
    made = example("vision-small-files")
    found = step(made, "throughput", "up")
    assert found.plan is not None
    before, after = without_price(made, "nat.gateway"), without_price(found.plan, "nat.gateway")
    assert unpriced_differences(before, after) == ()
    assert difference_of(before, after).storage_hourly == pytest.approx(difference_of(made, found.plan).storage_hourly)
    before, after = (without_price(each, "lustre.PERSISTENT_2.SSD.500") for each in (made, found.plan))
    assert unpriced_differences(before, after) == ("lustre.PERSISTENT_2.SSD.500",)
    assert difference_of(before, after).storage_hourly is None


def without_price(made: Plan, item: str) -> Plan:
    """Return a plan in whose bill one item has no price, and its sums."""
    lines = tuple(
        replace(line, unit_price=None, hourly=None, run=None, monthly=None) if line.item == item else line
        for line in made.cost.lines
    )
    known = [line for line in lines if line.group == "storage" and line.hourly is not None]
    cost = replace(
        made.cost,
        lines=lines,
        storage_hourly=sum(line.hourly or 0 for line in known),
        storage_monthly=sum(line.monthly or 0 for line in known),
    )
    return replace(made, cost=cost)


def test_without_a_price_of_the_fleet_the_verdict_names_the_price_from_which_it_pays() -> None:
    made = example("vision-small-files")
    workload = replace_purchase(made)
    spot = plan(workload, catalog=made.catalog)
    found = step(spot, "throughput", "down")
    assert found.difference is not None
    assert found.difference.idle_gpu_usd_per_hour is None
    assert found.verdict == "not known"
    saved, waits = -(found.difference.storage_hourly or 0), found.difference.gpu_wait_fraction or 0
    waits += found.difference.failure_loss_fraction or 0
    assert f"it pays up to {saved / waits:,.2f} USD an hour" in found.because


def replace_purchase(made: Plan) -> Any:
    from training_storage.workload import change_workload

    return change_workload(made.workload, {"compute.purchase": "spot"})


def test_without_reads_and_saves_no_wait_is_known() -> None:
    made = planned({**LUSTRE, "dataset.read_rate": None})
    found = step(made, "capacity", "up")
    assert found.difference is not None
    assert found.difference.gpu_wait_fraction is None
    assert found.verdict == "not known"
    assert found.because.endswith("reads and saves are not known, so that no wait is")


def test_the_length_of_the_run_and_the_catalog_count_for_the_steps_too(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(
        '{"prices": {"us-east-1": {"lustre.PERSISTENT_2.SSD.500": {"usd": 1.0, "unit": "GiB-month"}}}}',
        encoding="utf-8",
    )
    catalog = load_catalog(file)
    workload = make({**LUSTRE, "lustre.per_unit_storage_throughput": 250, "checkpoints": SAVES})
    made = plan(workload, catalog=catalog, run_length=Duration(86400))
    up = step(made, "throughput", "up")
    assert up.plan is not None
    assert up.plan.cost.run_h == 24
    line = next(each for each in up.plan.cost.lines if each.item == "lustre.PERSISTENT_2.SSD.500")
    assert line.unit_price == 1.0


def test_a_step_as_plain_data_has_every_key_and_no_plan() -> None:
    found = step(example("vision-small-files"), "capacity", "up").to_dict()
    assert set(found) == {
        "kind", "direction", "option", "changes", "figures", "difference", "verdict", "because", "over_a_run",
        "misses", "new_warnings",
    }  # fmt: skip


def test_a_plan_whose_bill_has_no_storage_line_costs_nothing_there() -> None:
    made = planned()
    bare = replace(made, cost=replace(made.cost, lines=(), storage_hourly=None, storage_monthly=None))
    assert (figures_of(bare).storage_hourly, figures_of(bare).storage_monthly) == (0.0, 0.0)
