"""Dashboard, alarms and expected figures of the examples: one of each tier, and one where all was there before."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tests.assemblies import ROOT, example
from tests.monitoring import bodies
from training_storage.parts import HotStorage, make_data_lake, make_monitoring
from training_storage.parts.monitoring import expected_text
from training_storage.planner import plan
from training_storage.planner.expectations import Expectations, expectations
from training_storage.workload import load_workload

# One of each hot tier, S3 Files, and what somebody else made.
TIERS = ("llama3-70b", "object-native-2048", "lora-finetune", "legacy-nfs-finetune", "existing-everything")


def monitoring(name: str) -> dict[str, Any]:
    return example(name).templates[f"{name}-monitoring"]


@pytest.mark.parametrize("name", TIERS)
def test_cloudwatch_takes_the_alarms_and_their_metrics_exist(name: str) -> None:
    found = bodies.alarms(monitoring(name))
    assert found
    assert {key: bodies.alarm_problems(each) for key, each in found.items() if bodies.alarm_problems(each)} == {}
    uses = [use for each in found.values() for use in bodies.in_alarm(each)]
    assert [use.unknown() for use in uses if use.unknown()] == []


@pytest.mark.parametrize("name", TIERS)
def test_cloudwatch_takes_the_dashboard_of_an_example(name: str) -> None:
    assert bodies.body_problems(bodies.dashboard(monitoring(name))) == []


@pytest.mark.parametrize("name", TIERS)
def test_every_metric_of_an_example_is_in_a_table(name: str) -> None:
    uses = bodies.in_dashboard(bodies.dashboard(monitoring(name)))
    assert [use.unknown() for use in uses if use.unknown()] == []


def test_tiers_show_themselves_and_nothing_else() -> None:
    rows = {
        name: [
            w["properties"]["markdown"] for w in bodies.dashboard(monitoring(name))["widgets"] if w["type"] == "text"
        ]
        for name in TIERS
    }
    assert {name: [row for row in found if "FSx" in row or "Directory" in row or "Files" in row] for name, found in
            rows.items()} == {
        "llama3-70b": ["## FSx for Lustre"],
        "object-native-2048": ["## Directory buckets (S3 Express One Zone)"],
        "lora-finetune": [],
        "legacy-nfs-finetune": ["## S3 Files"],
        "existing-everything": ["## FSx for Lustre"],
    }  # fmt: skip


def test_a_file_system_that_was_there_before_is_shown_and_watched() -> None:
    body = bodies.dashboard(monitoring("existing-everything"))
    assert any(each["properties"].get("title") == "File system throughput" for each in body["widgets"])
    made = bodies.alarms(monitoring("existing-everything"))
    assert {"existing-everything-clients-missing", "existing-everything-association-broken"} <= set(made)
    # Nobody told its bucket to keep request metrics.
    assert "existing-everything-s3-throttled" not in made


def test_monitoring_that_is_off_makes_nothing(tmp_path: Any) -> None:
    text = (ROOT / "examples" / "lora-finetune.yaml").read_text(encoding="utf-8")
    (tmp_path / "off.yaml").write_text(f"{text}\nmonitoring: {{enabled: false}}\n", encoding="utf-8")
    made = plan(load_workload(tmp_path / "off.yaml"))
    stack = cdk.Stack(cdk.App(), "Stack")
    lake = make_data_lake(stack, "DataLake", made)
    before = [each.node.path for each in stack.node.find_all()]
    assert make_monitoring(stack, made, data_lake=lake, storage=HotStorage(), fleet=None) is None
    assert [each.node.path for each in stack.node.find_all()] == before


def test_a_tier_that_is_not_there_has_no_alarm() -> None:
    of_tiers = {
        "llama3-70b": {"clients-missing", "free-capacity-low", "mds-cpu-high", "association-broken"},
        "object-native-2048": set(),
        "lora-finetune": set(),
        "legacy-nfs-finetune": {"s3-files-import-failures", "s3-files-export-failures"},
    }
    every = set().union(*of_tiers.values())
    for name, wanted in of_tiers.items():
        made = {key.removeprefix(f"{name}-") for key in bodies.alarms(example(name).templates[f"{name}-monitoring"])}
        assert made & every == wanted


@pytest.mark.parametrize("name", TIERS)
def test_what_the_plan_expects_is_a_parameter_that_reads_back(name: str) -> None:
    (parameter,) = bodies.of(monitoring(name), "AWS::SSM::Parameter").values()
    assert parameter["Name"] == f"/training-storage/{name}/expected"
    assert parameter["Type"] == "String"
    assert len(parameter["Value"].encode()) <= 4096
    said = json.loads(parameter["Value"])
    assert None not in said.values()
    wanted = expectations(plan(load_workload(ROOT / "examples" / f"{name}.yaml"))).to_dict()
    assert set(said) == {key for key, value in wanted.items() if value is not None}
    for key, value in Expectations.from_dict(said).to_dict().items():
        assert value == (pytest.approx(wanted[key], rel=1e-5) if isinstance(wanted[key], float) else wanted[key])


def test_the_parameter_is_the_same_each_time() -> None:
    made = plan(load_workload(ROOT / "examples" / "llama3-70b.yaml"))
    assert expected_text(made) == expected_text(made)


def test_a_watch_on_links_only_where_there_are_links() -> None:
    named = {
        name: [each["Name"] for each in bodies.of(monitoring(name), "AWS::Scheduler::Schedule").values()]
        for name in TIERS
    }
    assert {name: found for name, found in named.items() if found} == {
        "llama3-70b": ["llama3-70b-links"],
        "existing-everything": ["existing-everything-links"],
    }


def test_nodes_of_somebody_else_are_not_counted() -> None:
    """How many come, and when, nobody knows: an alarm on them would stand from the deployment on."""
    made = plan(load_workload(ROOT / "examples" / "lora-finetune.yaml"))
    stack = cdk.Stack(cdk.App(), "Stack")
    make_monitoring(stack, made, data_lake=make_data_lake(stack, "DataLake", made), storage=HotStorage(), fleet=None)
    ids = set(bodies.alarms(Template.from_stack(stack).to_json()))
    assert "lora-finetune-gpus-wait-for-data" in ids
    assert not ids & {"lora-finetune-metrics-missing", "lora-finetune-clients-missing"}
