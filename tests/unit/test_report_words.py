"""What the report says: the decision in words, what to change, where lines cross, and what will be deployed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit._planner import SAVES, planned
from training_storage.planner import Plan
from training_storage.report import chart
from training_storage.report.deployment import Flow, deployment, mount_words
from training_storage.report.money import cost_table
from training_storage.report.outlook import (
    break_even_words,
    key_table,
    point_table,
    span_table,
    step_table,
    sweep_words,
    undrawn_words,
)
from training_storage.report.summary import change, decision, key_figures, nearly, usd
from training_storage.whatif import BreakEven, Step, break_even, steps, sweep

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


def test_prices_that_are_not_known_are_counted_and_never_zero() -> None:
    made = planned({"region": "ap-southeast-1", "availability_zone_id": "apse1-az2"})
    assert made.cost.monthly is None
    assert "No price is known for ap-southeast-1" in said(made)
    assert "0 USD" not in said(made)
    shown = {name: value for name, value, _ in key_figures(made)}
    assert shown["Storage, month"] == shown["With fleet, month"] == "not known"


def test_key_figures_are_those_of_the_plan() -> None:
    made = planned({"checkpoints": SAVES})
    shown = {name: value for name, value, _ in key_figures(made)}
    assert made.cost.storage_monthly is not None
    assert made.cost.monthly is not None
    assert made.prediction.gpu_wait_fraction is not None
    assert shown["Storage, month"] == usd(made.cost.storage_monthly)
    assert shown["With fleet, month"] == usd(made.cost.monthly)
    assert shown["GPU wait"] == f"{made.prediction.gpu_wait_fraction * 100:.3g} %"


def test_a_share_just_below_one_is_not_all() -> None:
    assert nearly(0.99981) == "99.98 %"
    assert nearly(1.0) == "100 %"
    assert nearly(0.5) == "50 %"


# What to change


def step(verdict: str, *, net: float | None = None, misses: tuple[str, ...] = (), option: str = "the step") -> Step:
    base = next(each for each in steps(planned({"compute.instance_count": 20})) if each.difference is not None)
    assert base.difference is not None
    difference = replace(base.difference, net_usd_per_hour=net)
    return replace(base, verdict=verdict, difference=difference, misses=misses, option=option, because="a reason")  # type: ignore[arg-type]  # a verdict of the test


def test_the_step_that_saves_most_is_advised() -> None:
    found = change(planned(), [step("pays", net=-1, option="little"), step("pays", net=-5, option="much")])
    assert found == "much: a reason."


def test_a_step_that_misses_the_demand_is_no_advice() -> None:
    found = change(planned(), [step("cheaper and no slower", net=-5, misses=("half of it",))])
    assert "Nothing by cost" in found


@pytest.mark.parametrize("verdict", ["does not pay", "dearer and no faster", "dearer and slower", "no difference"])
def test_a_step_that_is_no_better_is_no_advice(verdict: str) -> None:
    assert "the step" not in change(planned(), [step(verdict, net=-5)])


def test_what_cannot_be_judged_is_said() -> None:
    assert change(planned(), [step("not known")]).startswith("Not known: ")


def test_warnings_come_before_all_is_well() -> None:
    quiet, loud = planned({"checkpoints": SAVES}), planned()
    assert quiet.warnings == ()
    assert loud.warnings
    assert change(quiet, []) == "Nothing: the plan covers what is asked for."
    assert "read the warning" in change(loud, []).lower()


# The bill


def test_a_line_that_is_paid_once_says_so_and_units_read_well() -> None:
    made = planned({"compute.instance_count": 20, "checkpoints": SAVES})
    table = cost_table(made.cost)
    assert table is not None
    quantities = {row.cells[0]: row.cells[1] for row in table.rows if len(row.cells) > 1}
    for line in made.cost.lines:
        text = quantities[line.label]
        assert line.unit in text
        assert text.endswith("a run") == (line.once and "month" not in line.unit)
    assert any(" x 1000 requests a " in text for text in quantities.values())
    assert any(text.endswith(" hours a month") for text in quantities.values())


# Other answers


def breaking_even() -> BreakEven:
    made = planned({"compute.instance_count": 20, "checkpoints": SAVES})
    found = [break_even(made, each) for each in steps(made) if each.plan is not None]
    return next(each for each in found if each.crossings_mb_per_s)


def test_every_crossing_and_both_ends_are_in_words_and_numbers() -> None:
    found = breaking_even()
    words, table = break_even_words(found), point_table(found)
    assert table is not None
    for crossing in found.crossings_mb_per_s or ():
        assert f"{crossing:,.0f}" in words
        assert any(row.cells[0] == f"{crossing:,.0f} MB/s" for row in table.rows)
    assert table.rows[0].cells[0] == "0 MB/s"
    assert table.rows[-1].cells[0] == f"{found.points[-1].read_mb_per_s:,.0f} MB/s"
    assert len(table.rows) <= 70


def test_a_break_even_without_prices_names_what_is_missing() -> None:
    made = planned({"region": "ap-southeast-1", "availability_zone_id": "apse1-az2"})
    found = [(each, break_even(made, each)) for each in steps(made) if each.plan is not None]
    assert found[0][1].points == ()
    words = undrawn_words(found)
    assert words.startswith("Not drawn: ")
    for step_, each in found:
        assert step_.option in words
        assert all(what in words for what in each.missing)
    assert undrawn_words([(found[0][0], breaking_even())]) == ""


def test_steps_show_their_sign_their_keys_and_what_they_miss() -> None:
    made = planned({"compute.instance_count": 20})
    looked_at = list(steps(made))
    looked_at[0] = replace(looked_at[0], misses=("a part of it",))
    table = step_table(looked_at)
    assert table is not None
    for row, each in zip(table.rows, looked_at, strict=True):
        assert row.cells[0].lower().startswith(each.kind)
        assert each.because in row.cells[4]
        if each.figures is None or each.difference is None:
            assert row.cells[1:4] == ("", "", "")
            continue
        storage = each.difference.storage_monthly
        assert row.cells[2] == ("not known" if storage is None else f"{storage:+,.0f}")
    keys = key_table(looked_at)
    assert keys is not None
    possible = [each for each in looked_at if each.figures is not None]
    for row, each in zip(keys.rows, possible, strict=True):
        assert all(f"{key}: " in row.cells[2] for key in each.changes)
    assert "It misses what is asked for: a part of it" in table.rows[0].cells[4]


def test_a_sweep_says_where_the_tier_changes_and_why_there_is_no_plan() -> None:
    found = sweep(planned({"checkpoints": SAVES}).workload, "compute.instance_count", ["1", "16", "17", "40"])
    table = span_table(found)
    assert table is not None
    assert [row.cells for row in table.rows] == [("1 to 16", "S3 alone"), ("17 to 40", "FSx for Lustre")]
    assert "Accelerators wait at none of these values" not in sweep_words(found)  # saves stall
    crowded = sweep(planned().workload, "compute.instance_count", ["17", "20000"])
    table = span_table(crowded)
    assert table is not None
    assert table.rows[1].cells[:2] == ("20000", "no plan")
    assert "network.vpc_id: more addresses" in table.rows[1].cells[2]
    assert sweep_words(crowded) == "Accelerators wait at none of these values."
    none = replace(found, points=tuple(replace(each, figures=None) for each in found.points))
    assert sweep_words(none) == "There is a plan for none of these values."


# What will be deployed


def flows(made: Plan) -> dict[tuple[str, str], str]:
    out: dict[tuple[str, str], list[Flow]] = {}
    for flow in deployment(made).flows:
        out.setdefault((flow.source, flow.target), []).append(flow)
    return {key: "; ".join(line.text for flow in each for line in flow.lines) for key, each in out.items()}


def test_without_a_hot_tier_data_goes_straight_and_saves_come_back_by_nvme() -> None:
    made = planned({"checkpoints": SAVES})
    assert deployment(made).stack("hot") is None
    found = flows(made)
    assert set(found) == {("lake", "compute"), ("compute", "lake")}
    assert "reads 320 MB/s; /lake: Mountpoint, read-only" in found["lake", "compute"]
    assert "through local NVMe; to checkpoints/" in found["compute", "lake"]


def test_lustre_has_its_links_its_exports_and_the_lake_beside_it() -> None:
    links = [
        {"path": f"/{name}", "source": f"s3://a-bucket-of-this-test/{name}/", "export": ["new"] if name == "b" else []}
        for name in "abcde"
    ]
    found = flows(planned({"compute.instance_count": 20, "lustre.links": links, "checkpoints": SAVES}))
    assert "/a from s3://a-bucket-of-this-test/a/" in found["lake", "hot"]
    assert "and 2 more, in the table below" in found["lake", "hot"]
    assert found["hot", "lake"] == "exports /b"
    assert "reads 1,600 MB/s" in found["hot", "compute"]
    assert found["compute", "hot"].startswith("saves ")
    assert "/lake: Mountpoint" in found["lake", "compute"]


def test_express_is_filled_and_emptied_by_commands() -> None:
    found = flows(planned({"hot_tier": "express", "dataset.interface": "object"}))
    assert "training-storage stage" in found["lake", "hot"]
    assert "training-storage archive" in found["hot", "lake"]
    assert ("lake", "compute") not in found


EXISTING: dict[str, Any] = {
    "network": {"vpc_id": "vpc-0123456789abcdef0", "subnet_id": "subnet-0123456789abcdef0"},
    "data_lake.bucket": "a-lake-of-this-test",
    "hot_tier": "lustre",
    "lustre": {
        "file_system_id": "fs-0123456789abcdef0", "mount_name": "abcdefgh", "efa": False,
        "security_group_id": "sg-0123456789abcdef0", "storage_capacity": "38400 GiB",
        "per_unit_storage_throughput": 250, "links": [],
    },
}  # fmt: skip


def test_what_is_there_already_is_in_no_stack() -> None:
    found = deployment(planned(EXISTING))
    assert [stack.name for stack in found.stacks] == [None, None, None, "example-compute", "example-monitoring"]
    names = ("a-lake-of-this-test", "fs-0123456789abcdef0", "vpc-0123456789abcdef0")
    for stack, name in zip(found.stacks, names, strict=False):
        assert stack.parts[0].is_there
        assert name in [line.text for line in stack.parts[0].lines]


def test_links_of_an_existing_file_system_are_a_stack() -> None:
    link = {"path": "/data", "source": "s3://a-lake-of-this-test/datasets/"}
    found = deployment(planned(EXISTING | {"lustre": EXISTING["lustre"] | {"links": [link]}}))
    hot = found.stack("hot")
    assert hot is not None
    assert hot.name == "example-hot"
    assert "1 link to S3 made anew" in [line.text for line in hot.parts[0].lines]


def test_mounts_say_cache_and_kind_of_bucket() -> None:
    made = planned({"hot_tier": "express", "checkpoints": SAVES})
    assert [mount_words(mount) for mount in made.mounts if mount.path == "/hot"] == [
        "Mountpoint of a directory bucket, read-write"
    ]
    cached = planned({"mountpoint.cache": "nvme"})
    assert mount_words(cached.mounts[0]).endswith("cache on local NVMe")


# Text in drawings


def test_lines_of_drawings_fit_and_lose_nothing() -> None:
    text = "s3://a-bucket-with-a-long-name/and/prefixes/without/any/blank/at/all/ and words after it"
    for room in (60.0, 120.0, 400.0):
        lines = chart.wrap(text, room)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
        assert all(chart.text_width(line) <= room for line in lines)
    assert chart.wrap("", 100) == [""]


def test_widths_grow_with_size_weight_and_blanks() -> None:
    plain = chart.text_width("a plain line")
    assert chart.text_width("a plain line", 26) == pytest.approx(2 * plain)
    assert chart.text_width("a plain line", bold=True) > plain
    assert chart.text_width("a  plain line") > plain
    assert chart.text_width("iii", mono=True) == pytest.approx(chart.text_width("MMM", mono=True))
