"""The small dashboard."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from training_storage.errors import ValidationError
from training_storage.monitoring import StorageDashboard


def body(app: cdk.App, **options: Any) -> str:
    stack = cdk.Stack(app, "Stack")
    StorageDashboard(stack, "Dashboard", dashboard_name="run-storage", **options)
    (dashboard,) = Template.from_stack(stack).find_resources("AWS::CloudWatch::Dashboard").values()
    shown = dashboard["Properties"]["DashboardBody"]
    return shown if isinstance(shown, str) else json.dumps(shown)


def test_shows_throughput_against_the_plan(app: cdk.App) -> None:
    text = body(app, file_system_id="fs-1", planned_read_mb_per_s=12800.0, planned_throughput_mb_per_s=29296.875)
    assert "DataReadBytes" in text
    assert "12800" in text
    assert "29296.875" in text


def test_sums_a_minute_of_bytes_into_mb_per_second(app: cdk.App) -> None:
    # One-minute data: MB/s is the sum over 60 s divided by 60 x 10^6.
    assert "dataReadBytes / 60000000" in body(app, file_system_id="fs-1")


def test_uses_only_metric_names_of_lustre(app: cdk.App) -> None:
    text = body(app, file_system_id="fs-1")
    # These belong to other FSx types and would show nothing (facts: fsx-lustre section 5).
    assert not any(name in text for name in ("FreeStorageCapacity", "UsedStorageCapacity", "MemoryUtilization"))


def test_shows_the_fleet_and_the_lake_without_a_file_system(app: cdk.App) -> None:
    text = body(app, bucket_name="lake", auto_scaling_group_name="fleet", planned_read_mb_per_s=960.0)
    assert "NetworkIn" in text
    assert "BucketSizeBytes" in text
    assert "960" in text


@pytest.mark.parametrize("name", ["", "a b", "x" * 256, "run/storage"])
def test_refuses_names_that_cloudwatch_does_not_take(app: cdk.App, name: str) -> None:
    stack = cdk.Stack(app, "Stack")
    with pytest.raises(ValidationError, match="not a dashboard name"):
        StorageDashboard(stack, "Dashboard", dashboard_name=name, file_system_id="fs-1")
    assert stack.node.try_find_child("Dashboard") is None


def test_refuses_to_show_nothing(app: cdk.App) -> None:
    with pytest.raises(ValidationError, match="nothing to show"):
        StorageDashboard(cdk.Stack(app, "Stack"), "Dashboard", dashboard_name="run")


@pytest.mark.parametrize(
    ("argument", "token"),
    [
        ("dashboard_name", cdk.Lazy.string),
        ("file_system_id", cdk.Lazy.string),
        ("bucket_name", cdk.Lazy.string),
        ("auto_scaling_group_name", cdk.Lazy.string),
    ],
)
def test_takes_text_tokens(app: cdk.App, argument: str, token: Callable[..., str]) -> None:
    parameter = cdk.CfnParameter(stack := cdk.Stack(app, "Stack"), "Value")
    options: dict[str, Any] = {"dashboard_name": "run", "file_system_id": "fs-1", argument: parameter.value_as_string}
    StorageDashboard(stack, "Dashboard", **options)
    Template.from_stack(stack).resource_count_is("AWS::CloudWatch::Dashboard", 1)


@pytest.mark.parametrize(
    "argument",
    ["planned_read_mb_per_s", "planned_throughput_mb_per_s", "planned_file_opens_per_s", "instance_count"],
)
def test_takes_number_tokens(app: cdk.App, argument: str) -> None:
    stack = cdk.Stack(app, "Stack")
    parameter = cdk.CfnParameter(stack, "Value", type="Number")
    options: dict[str, Any] = {argument: parameter.value_as_number}
    StorageDashboard(stack, "Dashboard", dashboard_name="run", file_system_id="fs-1", **options)
    Template.from_stack(stack).resource_count_is("AWS::CloudWatch::Dashboard", 1)
