"""The rules one by one: what the page says of them, how sure they are, and when they say nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.causes import CAUSES, observed
from tests.diagnosis.world import START, World
from training_storage.node.metrics import OURS, SERVICES
from training_storage.operations.deployed_facts import EXPECTED_PARAMETER
from training_storage.operations.diagnosis.diagnose import NOT_STORAGE, UNKNOWN, Diagnosis, diagnose
from training_storage.operations.diagnosis.finding import HIGH, LOW, MEDIUM, confidence, strength
from training_storage.operations.diagnosis.from_cloudwatch import S3_FILE_SYSTEM_ID
from training_storage.operations.diagnosis.observation import Observation, Series
from training_storage.operations.diagnosis.outliers import outliers
from training_storage.operations.diagnosis.rules import RULES
from training_storage.operations.diagnosis.saved import read_expected
from training_storage.operations.diagnosis.wanted import WANTED
from training_storage.planner import plan
from training_storage.planner.expectations import expectations
from training_storage.workload import load_workload

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
ROOM = ROOT / "constructs" / "training_storage"


def world(name: str, strong: bool = True, **changes: Any) -> World:
    return replace(World(), **{**(CAUSES[name][2] if strong else CAUSES[name][1]), **changes})


def found(seen: Observation | World) -> Diagnosis:
    return diagnose(seen.observation() if isinstance(seen, World) else seen)


def step(name: str) -> str:
    primary = found(observed(name, "strong")).primary
    assert primary is not None
    return primary.next_step


# -- the page


def test_the_page_has_every_rule_as_it_is() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `") and line.count("|") == 6]
    assert rows == [
        f"| `{rule.id}` | {rule.kind} | {rule.condition} | {rule.step} | "
        f"{', '.join(f'`{each}`' for each in rule.explains) or '-'} |"
        for rule in RULES
    ]


def test_the_rights_of_the_page_are_those_that_are_asked_by() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    statements = json.loads(block)["Statement"]
    given = {
        action
        for each in statements
        for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
    }
    names = ["operations/status.py", "operations/status_metrics.py", "operations/deployed_facts.py"]
    files = [*(ROOM / each for each in names), *(ROOM / "operations" / "diagnosis").glob("*.py")]
    asked = {action for path in files for action in re.findall(r'"([a-z0-9]+:[A-Z]\w+)"', path.read_text("utf-8"))}
    # Of objects that are listed or encrypted nobody asks by name.
    assert given == asked | {"s3:ListBucket", "kms:Decrypt"}
    assert not any("*" in action for action in given)
    reading = ("Describe", "List", "Get", "Decrypt")
    assert all(action.partition(":")[2].startswith(reading) for action in given)
    # Whoever describes many of a kind names none of them: on an ARN these rights are no rights.
    whole = {name for each in statements if each["Resource"] == "*" for name in each["Action"]}
    assert {
        each for each in given if each.startswith(("fsx:", "cloudwatch:", "ec2:")) or "Information" in each
    } == whole


def test_every_metric_that_is_asked_for_is_in_the_tables() -> None:
    for metric, names, statistic in WANTED:
        known = OURS.get(metric) or SERVICES[metric]
        assert frozenset(names) in {frozenset(each) for each in known.dimensions}, metric
        assert statistic in ("Sum", "Average", "Maximum", "Minimum")
    assert len(set(WANTED)) == len(WANTED)
    asked = {metric for metric, _, _ in WANTED}
    assert {name for rule in RULES for name in rule.needs} <= asked
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert {each for rule in RULES for each in rule.explains} <= {rule.id for rule in RULES}


def test_names_that_stacks_make_are_those_that_are_asked_for() -> None:
    assert f'"{S3_FILE_SYSTEM_ID}"' in (ROOT / "stacks" / "hot.py").read_text("utf-8")
    made = (ROOM / "parts" / "monitoring.py").read_text("utf-8")
    assert f'f"{EXPECTED_PARAMETER.format("{plan.name}")}"' in made


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_every_example_expects_can_be_read_again(path: Path) -> None:
    told = expectations(plan(load_workload(path)))
    without_nulls = {key: value for key, value in told.to_dict().items() if value is not None}
    assert read_expected(json.loads(json.dumps(without_nulls))) == told


# -- how sure


@pytest.mark.parametrize(
    ("strengths", "others", "wanted"),
    [
        ([1.0, 0.5], [True], HIGH),
        ([1.0, 0.1], [True, True], MEDIUM),
        ([1.0], [True, None], MEDIUM),
        ([1.0], [False], MEDIUM),
        ([0.1], [None], LOW),
        ([0.1], [False, True], LOW),
        ([0.3], [], HIGH),
    ],
)
def test_confidence(strengths: list[float], others: list[bool | None], wanted: str) -> None:
    assert confidence(strengths, others) == wanted


def test_strength_goes_from_the_border_to_where_it_is_plain() -> None:
    assert [strength(value, 0.8, 1.0) for value in (0.5, 0.8, 0.9, 1.0, 2.0)] == pytest.approx([0, 0, 0.5, 1, 1])
    assert strength(2.0, 10.0, 2.5) == 1.0  # figures that count when they are low
    assert strength(12.0, 10.0, 2.5) == 0.0


@pytest.mark.parametrize("name", CAUSES)
def test_a_strong_cause_is_no_less_sure_than_a_weak_one(name: str) -> None:
    weak, strong = (found(observed(name, each)).primary for each in ("weak", "strong"))
    assert weak is not None
    assert strong is not None
    order = (LOW, MEDIUM, HIGH)
    assert order.index(strong.confidence) >= order.index(weak.confidence)
    assert strong.confidence != LOW
    if strong.gain_share is not None and weak.gain_share is not None:
        assert strong.gain_share >= weak.gain_share * 0.9


def test_outliers_need_others() -> None:
    assert outliers({"a": 1.0, "b": 9.0}) == {}
    assert outliers({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.5})["d"] > 3.5
    assert max(abs(each) for each in outliers({"a": 1.0, "b": 1.0, "c": 1.0}).values()) == 0


# -- numbers


def test_the_gain_is_the_waiting_at_the_price_of_the_fleet() -> None:
    seen = world("busy CPUs")
    primary = found(seen).primary
    assert primary is not None
    assert primary.gain_share == pytest.approx(0.45, abs=0.01)
    assert primary.gain_usd_per_hour == pytest.approx((primary.gain_share or 0) * 55.0 * seen.nodes)
    assert primary.gain_gpu_hours_per_hour == pytest.approx((primary.gain_share or 0) * seen.count)


def test_next_steps_have_numbers_of_the_plan() -> None:
    assert "lustre.per_unit_storage_throughput: 500` in the workload file (now 250" in step("file system at its limit")
    assert "per_accelerator: 25" in step("s3 of one instance")
    assert re.search(r"it takes 1[23] nodes", step("express of one instance"))
    assert "lustre.metadata_iops: 24000" in step("small files")
    assert "preload llama --path /datasets" in step("first epoch")
    assert "--association-id dra-1 --s3 'AutoImportPolicy={Events=[NEW,CHANGED]}'" in step("no notification")
    assert "terminate-instance-in-auto-scaling-group --instance-id i-00000000000000003" in step("slow node")
    assert "rank 5 on i-00000000000000002" in step("slow rank")
    assert "lfs migrate -c -1 -S 16M" in step("hot target")
    assert "lustre.storage_capacity: 12000 GiB" in step("full")


def test_a_cause_comes_before_its_effect_and_a_fault_beside_it() -> None:
    seen = world("small files", notified=False)
    verdict = found(seen)
    assert verdict.verdict == "small-files"
    assert next(each.id for each in verdict.also) == "auto-import-without-notification"


def test_what_stops_training_comes_first() -> None:
    assert found(world("busy CPUs", missing_mounts=1)).verdict == "mounts-missing"
    assert found(world("busy CPUs", free=0.004, fullest=0.004)).verdict == "file-system-full"


# -- when nobody can tell


def test_nothing_reported_is_unknown_and_says_what_is_missing() -> None:
    seen = Observation(workload="x", since=START, until=START + 3600, period_s=60.0, series=())
    verdict = found(seen)
    assert verdict.verdict == UNKNOWN
    assert verdict.primary is None
    assert any("telemetry" in each for each in verdict.missing)
    assert any("--workload" in each for each in verdict.missing)


def test_busy_gpus_without_telemetry_are_not_storage() -> None:
    seen = World().observation()
    without = replace(seen, series=tuple(each for each in seen.series if OURS.get(each.metric) is None
                                         or OURS[each.metric].source != "telemetry"))  # fmt: skip
    assert found(without).verdict == NOT_STORAGE
    assert "no telemetry came" in found(without).because


def test_idle_gpus_that_do_not_wait_are_not_storage() -> None:
    seen = World().observation()
    idle = tuple(
        replace(each, points=tuple((moment, 35.0) for moment, _ in each.points))
        if each.metric == "nvidia_smi_utilization_gpu"
        else each
        for each in seen.series
    )
    verdict = found(replace(seen, series=idle))
    assert verdict.verdict == NOT_STORAGE
    assert "training code or between the nodes" in verdict.because


def test_batches_that_are_ready_are_not_storage() -> None:
    seen = world("few workers").observation()
    ready = tuple(
        replace(each, points=tuple((moment, 3.0) for moment, _ in each.points))
        if each.metric == "LoaderQueueEmptyShare"
        else each
        for each in seen.series
    )
    verdict = found(replace(seen, series=ready))
    assert verdict.verdict == NOT_STORAGE
    assert "pin_memory" in verdict.because


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_without_a_plan_a_rule_says_less_and_never_something_else(name: str) -> None:
    verdict = found(replace(observed(name, "strong"), expected=None))
    allowed = {CAUSES[name][0], UNKNOWN, NOT_STORAGE}
    if name in ("tcp", "node at its limit", "s3 of one instance", "express of one instance"):
        allowed |= {"read-latency"}  # requests do wait; without limits nobody knows for what
    assert verdict.verdict in allowed, verdict.to_dict()
    if verdict.primary is not None:
        assert verdict.primary.gain_usd_per_hour is None


@pytest.mark.parametrize("name", sorted(CAUSES))
def test_any_series_may_be_missing(name: str) -> None:
    """Each metric taken away alone: no rule breaks, and a verdict that stays has its evidence."""
    seen = world(name, periods=8, nodes=4).observation()
    for metric in sorted({each.metric for each in seen.series}):
        verdict = found(replace(seen, series=tuple(each for each in seen.series if each.metric != metric)))
        assert verdict.primary is None or verdict.primary.evidence
        json.dumps(verdict.to_dict(), allow_nan=False)


def test_periods_without_points_and_zeros_break_nothing() -> None:
    seen = world("busy CPUs", periods=4).observation()
    for value in (0.0, 1e18):
        series = tuple(
            replace(each, points=tuple((moment, value) for moment, _ in each.points)) for each in seen.series
        )
        json.dumps(found(replace(seen, series=series)).to_dict())
    empty = tuple(
        Series(metric=e.metric, dimensions=e.dimensions, statistic=e.statistic, points=()) for e in seen.series
    )
    assert found(replace(seen, series=empty, facts={})).verdict == UNKNOWN


def test_some_nodes_that_report_nothing_are_counted() -> None:
    seen = World().observation()
    missing = tuple(each for each in seen.series if each.dimensions.get("InstanceId") != "i-00000000000000002")
    assert "1 of 6 nodes report nothing" in found(replace(seen, series=missing)).missing
