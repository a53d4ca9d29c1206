"""What the report says: numbers and sentences, the bill, where lines cross, and what will be deployed."""

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
    sweep_scope,
    sweep_words,
    undrawn_words,
)
from training_storage.report.words import money, nearly, relative, sentence, signed_monthly, signed_share, usd, visible
from training_storage.whatif import BreakEven, break_even, steps, sweep

# Numbers and sentences


def test_amounts_never_round_to_nothing_and_shares_never_to_all() -> None:
    amounts = (0.0, 1234.5, 0.1, 0.0949, 0.045, 0.005, 0.00123456, 1e-9)
    assert [money(each) for each in amounts] == [
        "0.00", "1,234.50", "0.10", "0.095", "0.045", "0.005", "0.0012", "under 0.000001",
    ]  # fmt: skip
    assert [usd(each) for each in (0.0, -0.0, 99.994, 100.0, 735.4, 0.0012)] == [
        "0 USD", "0 USD", "99.99 USD", "100 USD", "735 USD", "0.0012 USD",
    ]  # fmt: skip
    assert [signed_monthly(each) for each in (0.0, -1e-12, 0.3, -0.3, -7488.2, 0.004)] == [
        "0", "0", "+0.30", "-0.30", "-7,488", "+0.004",
    ]  # fmt: skip
    assert [nearly(each) for each in (0.99981, 0.99999, 1.0, 0.5, 0.0)] == [
        "99.98 %", "over 99.99 %", "100 %", "50 %", "0 %",
    ]  # fmt: skip
    assert [signed_share(each) for each in (0.0, -4.7e-17, 0.1, -0.99999)] == ["0 %", "0 %", "+10 %", "-over 99.99 %"]
    assert [relative(each) for each in (0.0, 1e-6, -0.0056, 3.744, 50.0)] == [
        "0 %", "0 %", "-0.56 %", "+374 %", "x 51",
    ]  # fmt: skip


def test_sentences_begin_like_sentences_and_keys_stay_as_they_are_typed() -> None:
    assert sentence("data set in the data lake") == "Data set in the data lake"
    assert sentence("asynchronous") == "Asynchronous"
    for typed in ("dataset.loader is not given", "hot_tier is given", "p5.48xlarge has EFA", "s3://a/b", "4 x 2", ""):
        assert sentence(typed) == typed


def test_what_is_not_seen_is_written_out() -> None:
    assert visible("a\u202eb\u0000c\ud800") == "a\\u202eb\\u0000c\\ud800"
    plain = "ünï עברית 中文 a\tb\nc"
    assert visible(plain) == plain
    assert "".join(chart.wrap("s3://bucket/a\u202eb/", 400)) == "s3://bucket/a\\u202eb/"


# The bill


def test_a_line_that_is_paid_once_says_so_and_units_read_well() -> None:
    made = planned({"compute.instance_count": 20, "checkpoints": SAVES})
    table = cost_table(made.cost)
    assert table is not None
    quantities = {row.cells[0]: row.cells[1] for row in table.rows if len(row.cells) > 1}
    for line in made.cost.lines:
        text = quantities[sentence(line.label)]
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
        assert row.cells[2] == ("not known" if storage is None else signed_monthly(storage))
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
    assert table.rows[-1].cells[0].endswith("20000")
    assert table.rows[-1].cells[1] == "No plan"
    assert "network.vpc_id: more addresses" in table.rows[-1].cells[2]
    assert sweep_words(crowded) == "Accelerators wait at none of these values."
    assert sweep_scope(found).startswith("The same workload with 4 values of compute.instance_count, each planned by ")
    added = sum(not point.asked for point in crowded.points)
    assert added > 0
    assert f"with 2 values of compute.instance_count, each planned by itself, and {added} more to" in sweep_scope(
        crowded
    )
    assert sweep_scope(found).endswith("; what lies between two of them was not looked at.")
    every = sweep(planned().workload, "instance_count", "3..6")
    assert sweep_scope(every) == "The same workload with 4 values of compute.instance_count, each planned by itself."
    assert "with 1 value of" in sweep_scope(replace(found, points=found.points[:1]))
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


def test_what_is_there_already_is_in_no_stack_and_the_lake_holds_the_release_alone() -> None:
    found = deployment(planned(EXISTING))
    made = ["example-lake", None, None, "example-compute", "example-monitoring"]
    assert [stack.name for stack in found.stacks] == made
    assert [part.title for part in found.stacks[0].parts if not part.is_there] == ["Release"]
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
