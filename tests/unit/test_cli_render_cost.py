"""The bill as text: a row for each line, sums, what has no price, keeping beside releasing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.strategies import workload_dicts
from tests.unit._cost import bill, book, example, priced
from tests.unit._planner import planned
from training_storage.cli.render import render_plan
from training_storage.cli.render_cost import cost_lines, cost_notes, usd
from training_storage.errors import PlanError
from training_storage.planner import AfterRun, plan
from training_storage.workload import workload_from_dict

EXPRESS = {"hot_tier": "express", "dataset.interface": "object"}


def row(text: list[str], label: str) -> list[str]:
    """Return the figures behind a label."""
    (found,) = [line for line in text if line.strip().startswith(label)]
    return found.strip().removeprefix(label).split()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.004, "< 0.01"),
        (0.005, "0.01"),
        (1.234, "1.23"),
        (999.994, "999.99"),
        (999.996, "1,000"),
        (1000.0, "1,000"),
        (2957189.12, "2,957,189"),
        (None, "not known"),
    ],
)
def test_amounts(value: float | None, text: str) -> None:
    assert usd(value) == text


def test_every_line_and_every_sum_has_its_row_with_an_hour_a_run_and_a_month() -> None:
    cost = bill(EXPRESS, hours=10)
    text = cost_lines(cost, width=200)
    assert [each.strip() for each in text[0].split("  ") if each] == ["an hour", "a run of 10 h", "a month"]
    assert len(text) == 1 + len(cost.lines) + 2
    for line in cost.lines:
        (found,) = [each for each in text if each.startswith(f"  {line.label} ")]
        figures = [each for each in found[len(line.label) + 2 :].split("  ") if each.strip()]
        assert [each.strip() for each in figures] == [usd(line.hourly), usd(line.run), usd(line.monthly)]
    sums = (cost.storage_hourly, cost.storage_run, cost.storage_monthly)
    assert row(text, "storage, requests and network") == [usd(each) for each in sums]
    assert row(text, "in all") == [usd(each) for each in (cost.hourly, cost.run, cost.monthly)]
    assert text.index(next(each for each in text if "storage, requests" in each)) == len(text) - 3  # before the GPUs


def test_without_a_length_of_the_run_there_is_no_column_of_it() -> None:
    text = cost_lines(bill(EXPRESS), width=120)
    assert "a run" not in text[0]
    assert len(row(text, "in all")) == 2


@pytest.mark.parametrize("width", [60, 80, 100, 120])
@pytest.mark.parametrize("hours", [None, 168])
def test_no_line_is_wider_than_asked(width: int, hours: float | None) -> None:
    for name in ("llama3-70b", "express-cache", "object-native-2048", "legacy-nfs-finetune"):
        text = cost_lines(example(name, hours=hours).cost, width=width)
        assert max(map(len, text)) <= width
        assert all(line == line.rstrip() for line in text)


@pytest.mark.parametrize("times", [1.0, 1e6, 1e9])
@pytest.mark.parametrize("hours", [None, 168.0, 1e8])
def test_amounts_that_leave_labels_no_room_stand_below_them(hours: float | None, times: float) -> None:
    cost = bill(EXPRESS, hours=hours)
    lines = tuple(
        replace(
            line,
            hourly=(line.hourly or 0) * times,
            run=None if line.run is None else line.run * times,
            monthly=(line.monthly or 0) * times,
        )
        for line in cost.lines
    )
    text = cost_lines(replace(cost, lines=lines), width=60)
    assert max(map(len, text)) <= 60
    for line in lines:
        assert sum(usd(line.monthly) in each for each in text) >= 1
        for word in line.label.split():
            assert any(word in each.split() for each in text), word
    if times > 1 and hours == 1e8:
        amount = f"    {usd(lines[0].run)} a run of 4,166,667 d"
        assert text[text.index(amount) - 1] == f"    {usd(lines[0].hourly)} an hour"
        assert text[text.index(amount) + 1] == f"    {usd(lines[0].monthly)} a month"


def test_one_request_is_one() -> None:
    cost = bill(
        {**EXPRESS, "dataset.file_count": 1}, catalog=priced(book("us-east-1", without=["s3_express.get_requests"]))
    )
    text = cost_lines(cost, width=200)
    assert row(text, "HEAD: the copies of 1 file are checked (1 request)") == ["not", "known"]


def test_what_has_no_price_says_how_much_of_it_and_is_named_below() -> None:
    cost = bill(EXPRESS, catalog=priced(book("us-east-1", without=["s3_express.upload", "s3_express.get_requests"])))
    text = cost_lines(cost, width=200)
    assert row(text, "upload of the staged data (1,863 GB)") == ["not", "known"]
    assert row(text, "HEAD: the copies of 2,000 files are checked (2,000 requests)") == ["not", "known"]
    notes = dict(cost_notes(cost))
    assert notes["price not known"] == (
        "s3_express.upload, s3_express.get_requests; in no sum; `training-storage prices refresh --region us-east-1` "
        "asks AWS for them, and `--catalog` takes its file"
    )
    assert notes["after the run"].startswith("keeping the hot tier costs ")
    assert "releasing it and loading the data again costs what is not known" in notes["after the run"]


def test_hours_without_a_price_are_many_or_one() -> None:
    cost = bill(catalog=priced(book("us-east-1", without=["nat.gateway", "kms.key"])))
    text = cost_lines(cost, width=120)
    assert row(text, "NAT gateway (730 hours)") == ["not", "known"]
    assert row(text, "key of the data lake (1 month)") == ["not", "known"]


def test_prices_of_china_come_from_a_file_of_ones_own() -> None:
    cost = planned({"region": "cn-north-1", "availability_zone_id": "cnn1-az1"}).cost
    assert dict(cost_notes(cost))["price not known"].endswith(
        "; in no sum; a catalog file of yours can give them (`--catalog`)"
    )


def test_prices_in_doubt_are_named_where_they_count() -> None:
    lustre = {"hot_tier": "lustre", "lustre": {"storage_capacity": "9600 GiB", "efa": False}}
    for tier, said in (
        (125, None),
        (500, "lustre.PERSISTENT_2.SSD.500 follows from another region's"),
        (1000, "lustre.PERSISTENT_2.SSD.1000 has sources that disagree"),
    ):
        found = dict(cost_notes(planned({**lustre, "lustre.per_unit_storage_throughput": tier}).cost))
        assert found.get("price in doubt") == (said and f"{said}; `training-storage prices show` has the sources")


def test_a_region_without_prices_has_no_sum() -> None:
    cost = bill({"region": "eu-west-1", "availability_zone_id": "euw1-az1", "hot_tier": "lustre"})
    text = cost_lines(cost, width=200)
    assert row(text, "in all") == row(text, "storage, requests and network") == ["not", "known"]
    assert dict(cost_notes(cost))["after the run"].endswith("is not known, for a price of it is not")


AFTER = AfterRun(keep_hourly=8.28, keep_monthly=6048.0, reload_usd=55.5, reload_s=15_120.0, break_even_h=6.7)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {},
            "keeping the hot tier costs 8.28 USD an hour; releasing it and loading the data again costs 55.50 USD and "
            "takes 4.2 h before the next run, besides making it anew: release it where the next run is more than 6.7 h "
            "away",
        ),
        (
            {"reload_s": None},
            "keeping the hot tier costs 8.28 USD an hour; releasing it and loading the data again costs 55.50 USD: "
            "release it where the next run is more than 6.7 h away",
        ),
        (
            {"reload_usd": None, "reload_s": None, "break_even_h": None},
            "keeping the hot tier costs 8.28 USD an hour; releasing it and loading the data again costs what is not "
            "known",
        ),
    ],
)
def test_keeping_and_releasing_in_words(changes: dict[str, Any], text: str) -> None:
    cost = replace(bill(EXPRESS), after_run=replace(AFTER, **changes))
    assert dict(cost_notes(cost))["after the run"] == text


def test_without_a_hot_tier_nothing_is_said_of_releasing() -> None:
    assert dict(cost_notes(bill())) == {}


def test_the_plan_has_the_bill_behind_the_storage_and_before_the_reasons() -> None:
    text = render_plan(example("llama3-70b"), width=120)
    assert text.index("\nFile system\n") < text.index("\nWhat it costs, USD by the prices of us-east-1\n")
    assert text.index("\nWhat it costs") < text.index("\nChosen, and why\n")
    assert "ranked at" not in text  # the bill says it


def test_where_other_prices_rank_they_stand_beside_the_bill() -> None:
    data = {
        "name": "example",
        "region": "eu-west-1",
        "availability_zone_id": "euw1-az1",
        "compute": {"instance_type": "p5.48xlarge", "instance_count": 4},
        "dataset": {"size": "2 TB"},
        "hot_tier": "lustre",
    }
    text = render_plan(plan(workload_from_dict(data)), width=300)
    (line,) = [each for each in text.splitlines() if each.strip().startswith("ranked at")]
    assert line.endswith("by the prices of us-east-1; the bill counts those of eu-west-1 alone")


@given(workload_dicts())
@settings(derandomize=True, max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
def test_every_bill_fits_into_a_terminal(data: dict[str, Any]) -> None:
    try:
        cost = plan(workload_from_dict(data)).cost
    except PlanError:
        return
    text = cost_lines(cost, width=80)
    assert max(map(len, text)) <= 80
    assert "None" not in "\n".join(text)
