"""Dashboards: what they name exists, CloudWatch takes them, and people see first what they came for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.monitoring import bodies
from tests.monitoring.subjects import EXPECTED, FILE_SYSTEM, dashboard_of, whole
from training_storage.errors import ValidationError
from training_storage.monitoring import Expected, cloudwatch_metric
from training_storage.monitoring.metrics import read, search, select
from training_storage.node.metrics.figures import FIGURES


def titles(body: dict[str, Any]) -> list[str]:
    return [each["properties"]["title"] for each in body["widgets"] if "title" in each["properties"]]


def lines(body: dict[str, Any], title: str) -> dict[str, float]:
    (widget,) = (each for each in body["widgets"] if each["properties"].get("title") == title)
    drawn = widget["properties"].get("annotations", {}).get("horizontal", [])
    return {each["label"]: each["value"] for each in drawn}


@pytest.fixture(scope="module")
def everything() -> dict[str, Any]:
    return bodies.dashboard(whole())


def test_cloudwatch_takes_a_dashboard_of_everything(everything: dict[str, Any]) -> None:
    assert bodies.body_problems(everything) == []


def test_every_metric_of_the_dashboard_is_in_a_table(everything: dict[str, Any]) -> None:
    uses = list(bodies.in_dashboard(everything))
    assert [use.unknown() for use in uses if use.unknown()] == []
    assert len({use.name for use in uses}) > 40


def test_the_first_line_says_whether_gpus_wait_and_for_what(everything: dict[str, Any]) -> None:
    text, numbers, states = everything["widgets"][:3]
    assert "are the GPUs waiting, and for what?" in text["properties"]["markdown"]
    assert "training-storage diagnose run" in text["properties"]["markdown"]
    shown = [row[-1]["label"] for row in numbers["properties"]["metrics"] if row[-1].get("visible", True)]
    assert shown == [
        "waits for data, % of time",
        "held up by checkpoints, % of time",
        "computes, % of time",
        "GPU utilisation, %",
    ]
    assert numbers["y"] == states["y"] == text["height"]
    named = [arn.split(":alarm:Alarms")[1] for arn in states["properties"]["alarms"]]
    assert named[0].startswith("GpusWaitForStorage")
    assert len(named) == 7


def test_the_ten_figures_stand_below_it_each_beside_what_is_expected(everything: dict[str, Any]) -> None:
    assert titles(everything)[2:12] == [f"{figure.number}. {figure.title}" for figure in FIGURES]
    for figure in FIGURES:
        if figure.expected:
            expected = getattr(EXPECTED, figure.expected)
            assert expected in lines(everything, f"{figure.number}. {figure.title}").values()


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.title)
def test_a_figure_shows_the_metrics_that_it_is_worked_out_from(everything: dict[str, Any], figure: Any) -> None:
    (widget,) = (w for w in everything["widgets"] if w["properties"].get("title") == f"{figure.number}. {figure.title}")
    named = {use.name for use in bodies.in_dashboard({"widgets": [widget]})}
    assert {key.split(" ")[-1] for key in figure.metrics} <= named


def test_where_alarms_rise_is_drawn(everything: dict[str, Any]) -> None:
    assert lines(everything, "2. GPU data-wait time") == {"plan: 7": 7, "alarm gpus-wait-for-data": 12}
    assert lines(everything, "6. Checkpoint save time") == {"plan: 40": 40, "alarm checkpoint-save-slow": 60}


def test_storage_and_idle_gpus_are_in_the_same_unit(everything: dict[str, Any]) -> None:
    (widget,) = (w for w in everything["widgets"] if w["properties"].get("title", "").startswith("10."))
    assert widget["properties"]["yAxis"]["left"]["label"] == "USD/h"
    assert "500 * (FILL(wait, 0) + FILL(blocked, 0)) / elapsed" in json.dumps(widget)
    assert lines(everything, widget["properties"]["title"]) == {"plan: 10": 10}


@pytest.mark.parametrize(
    ("options", "there", "gone"),
    [
        ({"file_system_id": FILE_SYSTEM}, "File system throughput", "GPU"),
        ({"bucket_name": "lake"}, "Data lake", "File system"),
        ({"workload": "run"}, "Are the GPUs waiting?", "FSx"),
        ({"s3_file_system_id": "fs-1"}, "Moved by the S3 file system", "lake"),
        (
            {"directory_bucket_names": ["a--use1-az6--x-s3"], "directory_filter_id": "all"},
            "Read from directory buckets",
            "the lake",
        ),
    ],
)
def test_what_is_not_there_has_no_row(options: dict[str, Any], there: str, gone: str) -> None:
    body = bodies.dashboard(dashboard_of(**options))
    assert bodies.body_problems(body) == []
    assert there in titles(body)
    assert not any(gone in title for title in titles(body))


def test_alarm_pages_on_the_web_are_linked() -> None:
    alone = dashboard_of(workload="run", runbook_url="https://example.com/alarms")
    text = bodies.dashboard(alone)["widgets"][0]["properties"]["markdown"]
    assert "[gpus-wait-for-storage](https://example.com/alarms/gpus-wait-for-storage.md)" in text


def test_wrong_expected_figures_are_named_together() -> None:
    wrong = Expected(read_mb_per_s=-1, instance_count="8", asynchronous="no")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(ValidationError) as refused:
        dashboard_of(workload="run", expected=wrong)
    assert {each.path for each in refused.value.problems} == {
        "expected.read_mb_per_s",
        "expected.instance_count",
        "expected.asynchronous",
    }


# The tables are the only source of names


@pytest.mark.parametrize(
    ("key", "dimensions", "says"),
    [
        ("DataWaitTimes", {"Workload": "run"}, "did you mean 'DataWaitTime'"),
        ("DataWaitTime", {"Workload": "run", "Kind": "nfs"}, "not written under these dimensions"),
        ("AWS/FSx CPUUtilization", {"FileSystemId": "fs-1"}, "FileSystemId and FileServer"),
        ("AWS/FSx FreeStorageCapacity", {"FileSystemId": "fs-1"}, "no metric of the tables"),
    ],
)
def test_a_metric_that_nobody_writes_is_refused(key: str, dimensions: dict[str, str], says: str) -> None:
    given: dict[str, Any] = dimensions
    with pytest.raises(ValidationError, match=says):
        cloudwatch_metric(key, **given)


def test_a_statistic_that_cloudwatch_does_not_have_is_refused() -> None:
    with pytest.raises(ValidationError, match="not a statistic"):
        read("StepTime", "Mean", Workload="run")


def test_searches_and_queries_refuse_dimensions_too() -> None:
    with pytest.raises(ValidationError, match="not written under"):
        search("DataWaitTime", over=("FileServer",), Workload="run")
    with pytest.raises(ValidationError, match="not written under"):
        select("AWS/FSx CPUUtilization", over=("StorageTargetId",), FileSystemId="fs-1")


def test_a_metric_for_widgets_of_ones_own() -> None:
    metric = cloudwatch_metric("DataWaitShare", Workload="run", InstanceId="i-1")
    assert (metric.namespace, metric.metric_name, metric.statistic) == ("TrainingStorage", "DataWaitShare", "Average")
    assert metric.dimensions == {"Workload": "run", "InstanceId": "i-1"}


# The validator itself


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": 20}, "too large"),
        ({"type": "graph"}, "type graph"),
        ({"height": 0}, "too large"),
    ],
)
def test_the_validator_sees_wrong_places(everything: dict[str, Any], change: dict[str, Any], says: str) -> None:
    spoiled = [dict(each) for each in everything["widgets"]]
    spoiled[4] |= change
    assert any(says in each for each in bodies.body_problems({"widgets": spoiled}))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([{"expression": "a / b", "id": "e"}], "refers to"),
        (["AWS/FSx", {"stat": "Sum"}], "names"),
        (["AWS/FSx", "DataReadBytes", "FileSystemId", {"stat": "Sum"}], "names"),
        (["AWS/FSx", "DataReadBytes", "FileSystemId", "fs-1", {"stat": "Sum", "id": "Big"}], "ids"),
        (["AWS/FSx", "DataReadBytes", "FileSystemId", "fs-1", {"stat": "Sum", "period": 61}], "period"),
        (["AWS/FSx", "DataReadBytes", "FileSystemId", "fs-1", {"statistic": "Sum"}], "options"),
    ],
)
def test_the_validator_sees_wrong_rows(everything: dict[str, Any], row: list[Any], says: str) -> None:
    widget = json.loads(json.dumps(everything["widgets"][3 + 1]))
    widget["properties"]["metrics"] = [row]
    assert any(says in each for each in bodies.body_problems({"widgets": [widget]}))
