"""The decision in words: tier, waiting, cost, what to change; it advises nothing that makes anything worse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit._planner import SAVES, planned
from training_storage.planner import Plan, plan
from training_storage.planner.words import seconds
from training_storage.report.figures import prediction_table
from training_storage.report.money import cost_table
from training_storage.report.outlook import step_table
from training_storage.report.summary import change, decision, key_figures
from training_storage.report.words import nearly, usd
from training_storage.units import Duration
from training_storage.whatif import Step, steps
from training_storage.whatif.figures import figures_of

FAST = {"dataset.read_rate": {"per_accelerator": "2 GB/s"}, "hot_tier": "none"}
"""Four instances that read more than S3 gives."""


def said(made: Plan) -> str:
    return " ".join(decision(made))


# The decision


def test_it_begins_with_fleet_tier_and_reason() -> None:
    made = planned({"compute.instance_count": 20})
    assert made.lustre is not None
    first = decision(made)[0]
    assert first.startswith("20 x p5.48xlarge train on FSx for Lustre in front of Amazon S3 (")
    assert f"{made.lustre.storage_capacity_gib:,} GiB" in first
    assert "20 instances are more than 16" in first
    assert "Amazon S3 alone, without a hot tier" in decision(planned())[0]


def test_waiting_is_said_with_the_limit_that_binds() -> None:
    made = planned(FAST)
    wait = made.prediction.data_wait_fraction
    assert wait is not None
    assert wait > 0
    assert f"will wait for data {wait * 100:.3g} % of the time" in said(made)
    limit = {"network": "network of the fleet", "requests": "S3 requests"}[made.prediction.binds]
    assert f"tightest limit ({limit})" in said(made)


def test_no_waiting_is_said_as_such() -> None:
    assert "Accelerators will not wait for data: they ask for 320 MB/s" in said(planned())


def test_reads_that_are_not_known_are_no_promise() -> None:
    text = said(planned({"dataset.read_rate": None}))
    assert "Whether accelerators will wait for data is not known" in text
    assert "will not wait" not in text


@pytest.mark.parametrize(
    ("asynchronous", "text"), [(True, "do not stall training"), (False, "and stall training")]
)  # fmt: skip
def test_saves_say_whether_they_stall(asynchronous: bool, text: str) -> None:
    assert text in said(planned({"checkpoints": SAVES | {"asynchronous": asynchronous}}))


def test_a_longer_first_pass_says_what_loading_ahead_saves() -> None:
    # 1.3 million files of 100 KB: 5,500 requests a second bring 550 MB/s of the 1,000 that are read.
    slow = {
        "hot_tier": "lustre",
        "dataset.size": "130 GB",
        "dataset.file_count": 1_300_000,
        "dataset.read_rate": {"per_accelerator": f"{1000 / 32} MB/s"},
    }
    made = planned(slow)
    first = made.prediction.first_epoch
    assert first is not None
    assert first.added_gpu_usd is not None
    assert first.preload_storage_usd is not None
    assert f"in place of {seconds(first.steady_s)}, {usd(first.added_gpu_usd)} of accelerators; loaded ahead" in said(
        made
    )
    assert f"without them, it takes {usd(first.preload_storage_usd)} of storage instead" in said(made)
    unpriced = said(planned({**slow, "region": "eu-west-1", "availability_zone_id": "euw1-az1"}))
    assert f"in place of {seconds(first.steady_s)}." in unpriced


def test_prices_that_are_not_known_are_counted_and_never_zero() -> None:
    made = planned({"region": "ap-southeast-1", "availability_zone_id": "apse1-az2"})
    assert made.cost.monthly is None
    assert "No price is known for ap-southeast-1" in said(made)
    assert "0 USD" not in said(made)
    shown = {name: value for name, value, _ in key_figures(made)}
    assert shown["Storage, month"] == shown["With fleet, month"] == "not known"


def test_key_figures_are_those_of_the_plan() -> None:
    made = planned({"checkpoints": SAVES, "dataset.interface": "object"})
    shown = {name: value for name, value, _ in key_figures(made)}
    assert made.cost.storage_monthly is not None
    assert made.cost.monthly is not None
    assert made.prediction.gpu_wait_fraction is not None
    assert shown["Storage, month"] == usd(made.cost.storage_monthly)
    assert shown["With fleet, month"] == usd(made.cost.monthly)
    assert shown["GPU wait"] == f"{made.prediction.gpu_wait_fraction * 100:.3g} %"


def test_a_wait_is_the_one_that_steps_and_sweep_count() -> None:
    shared = planned(
        {
            "hot_tier": "lustre", "lustre.storage_capacity": "4800 GiB",
            "dataset.read_rate": {"per_accelerator": "400 MB/s"},
            "checkpoints": {"size": "4 TiB", "asynchronous": True},
        }
    )  # fmt: skip
    beside, between = shared.prediction.data_wait_with_saves_fraction, shared.prediction.data_wait_fraction
    assert beside is not None
    assert between is not None
    assert beside > between + 0.1
    shown = {name: (value, note) for name, value, note in key_figures(shared)}
    figures = figures_of(shared)
    assert figures.gpu_wait_fraction == beside
    assert shown["GPU wait"] == (nearly(beside), f"data {nearly(beside)}, saves 0 %")
    low = shared.prediction.effective_training_time_ratio_low
    assert low is not None
    assert shown["Effective training"][1].endswith(f"; {nearly(low)} where saves take all that the disks give")
    table = prediction_table(shared)
    assert table is not None
    assert figures.idle_gpu_usd_per_hour is not None
    (idle,) = [row.cells for row in table.rows if row.cells[0] == "Idle accelerators"]
    assert idle[1] == f"{usd(figures.idle_gpu_usd_per_hour)} an hour"
    assert "saves counted" in idle[2]
    assert "saves counted" not in str(prediction_table(planned({"checkpoints": SAVES, "dataset.interface": "object"})))


def test_sums_that_lack_a_price_never_look_whole() -> None:
    spot = planned({"compute.purchase": "spot", "checkpoints": SAVES})
    made = replace(spot, cost=plan(spot.workload, run_length=Duration(86_400)).cost)
    assert made.cost.unpriced == ("ec2-spot.p5.48xlarge",)
    assert "One run of 24 h costs" in said(made)
    assert said(made).endswith(", without what has no known price.")
    shown = {name: (value, note) for name, value, note in key_figures(made)}
    assert shown["Storage, month"][1] == "all prices known"  # the one that is not known is the fleet's
    assert shown["With fleet, month"] == ("not known", "1 price is not known")
    table = cost_table(made.cost)
    assert table is not None
    heads = [row.cells[0] for row in table.rows]
    assert {"Storage together", "Compute together", "Everything, without the 1 not known"} <= set(heads)


# What to change


def step(
    verdict: str,
    *,
    net: float | None = None,
    misses: tuple[str, ...] = (),
    option: str = "the step",
    change: dict[str, float] | None = None,
    after: dict[str, float] | None = None,
) -> Step:
    """A step that changes no figure but those that are given, and ends with those that are given."""
    base = next(each for each in steps(planned({"compute.instance_count": 20})) if each.difference is not None)
    assert base.difference is not None
    assert base.figures is not None
    same = dict.fromkeys(("gpu_wait_fraction", "data_wait_fraction", "checkpoint_write_s", "restore_s"), 0.0)
    difference: Any = {**same, "net_usd_per_hour": net, **(change or {})}
    figures: Any = {"read_supply_mb_per_s": 1e6, **(after or {})}
    changed: Any = {"verdict": verdict, "misses": misses, "option": option, "because": "a reason", "new_warnings": ()}
    return replace(
        base, difference=replace(base.difference, **difference), figures=replace(base.figures, **figures), **changed
    )


def test_the_step_that_saves_most_is_advised() -> None:
    found = change(planned(), [step("pays", net=-1, option="little"), step("pays", net=-5, option="much")])
    assert found == "much: a reason."


def test_a_step_that_makes_accelerators_wait_is_no_advice_whatever_it_saves() -> None:
    waits = step("pays", net=-50, option="waiting", change={"gpu_wait_fraction": 0.001})
    assert change(planned(), [waits]).startswith("Nothing: each step that saves money lets accelerators wait longer")
    assert change(planned(), [waits, step("pays", net=-1, option="little")]).startswith("little: ")
    # What rounding leaves is no wait.
    assert change(planned(), [step("pays", net=-1, option="little", change={"gpu_wait_fraction": 1e-16})]).startswith(
        "little: "
    )


def test_where_reads_are_not_known_a_step_that_delivers_less_is_no_advice() -> None:
    unknown = planned({"dataset.read_rate": None, "hot_tier": "lustre", "checkpoints": SAVES})
    supply = unknown.prediction.read_supply_mb_per_s
    less = step("cheaper and no slower", net=-5, after={"read_supply_mb_per_s": supply * 0.9})
    assert "cannot be judged without the reads" in change(unknown, [less])
    assert change(unknown, [step("cheaper and no slower", net=-5, after={"read_supply_mb_per_s": supply})]).startswith(
        "the step"
    )
    # Real ones: both other tiers save without a wait, as far as saves go.
    real = planned({"dataset.read_rate": None, "hot_tier": "lustre", "checkpoints": SAVES | {"asynchronous": True}})
    for each in steps(real):
        if each.figures is not None and each.figures.read_supply_mb_per_s < real.prediction.read_supply_mb_per_s:
            assert each.option not in change(real, steps(real))


def test_a_save_or_restore_that_is_too_long_already_does_not_get_longer_by_advice() -> None:
    made = planned({"hot_tier": "lustre", "checkpoints": SAVES | {"max_write_time": "2m", "max_restore_time": "1m"}})
    for key, allowed in (("checkpoint_write_s", 120.0), ("restore_s", 60.0)):

        def advice(more: float, after: float, key: str = key) -> str:
            return change(made, [step("cheaper and no slower", net=-5, change={key: more}, after={key: after})])

        assert not advice(30.0, allowed + 1).startswith("the step: ")
        assert advice(30.0, allowed).startswith("the step: ")
        assert advice(-30.0, allowed + 1).startswith("the step: ")  # still too long, and better than now


def test_advice_names_the_warnings_that_come_with_it() -> None:
    brings = replace(step("pays", net=-1), new_warnings=("express-starts-empty", "lustre-unused"))
    assert change(planned(), [brings]).endswith(". It brings the warnings express-starts-empty and lustre-unused.")
    assert change(planned(), [replace(brings, new_warnings=("a",))]).endswith(". It brings the warning a.")
    table = step_table([brings])
    assert table is not None
    assert table.rows[0].cells[4].endswith(". New warnings: express-starts-empty and lustre-unused")


def test_steps_that_are_all_impossible_are_not_called_unknown() -> None:
    impossible = [replace(step("not possible"), figures=None, difference=None)] * 3
    assert change(planned({"checkpoints": SAVES, "dataset.interface": "object"}), impossible) == (
        "Nothing by a step: none up or down in throughput, capacity or tier is possible."
    )
    unpriced = planned({"region": "ap-southeast-1", "availability_zone_id": "apse1-az2"})
    assert "because prices of ap-southeast-1 are not known" in change(unpriced, steps(unpriced))
    unread = planned({"dataset.read_rate": None})
    assert "because reads and saves are not known" in change(unread, steps(unread))


def test_a_step_that_misses_the_demand_is_no_advice() -> None:
    found = change(planned(), [step("cheaper and no slower", net=-5, misses=("half of it",))])
    assert found.startswith("Nothing: each step that saves money lets accelerators wait longer, misses a part")


@pytest.mark.parametrize("verdict", ["does not pay", "dearer and no faster", "dearer and slower", "no difference"])
def test_a_step_that_is_no_better_is_no_advice(verdict: str) -> None:
    assert "the step" not in change(planned(), [step(verdict, net=-5)])


def test_what_cannot_be_judged_is_said() -> None:
    assert change(planned(), [step("not known")]).startswith("Not known: ")


def test_warnings_come_before_all_is_well() -> None:
    quiet, loud = planned({"checkpoints": SAVES, "dataset.interface": "object"}), planned()
    assert quiet.warnings == ()
    assert loud.warnings
    assert change(quiet, []) == "Nothing: the plan covers what is asked for."
    assert "read the warning" in change(loud, []).lower()
