"""Records against the specification of the embedded metric format, and the numbers that arrive by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.telemetry.simulated import Clock, Kept, Loader, recorder
from training_storage.node import emf
from training_storage.node.metrics import OURS

SCHEMA = json.loads((Path(__file__).parent / "emf_schema.json").read_text(encoding="utf-8"))


def check(record: Any) -> None:
    """Check a record by the schema, and what a schema cannot say: each reference has its target."""
    jsonschema.Draft202012Validator(SCHEMA).validate(record)
    seen: set[str] = set()
    for directive in record["_aws"]["CloudWatchMetrics"]:
        for dimension in (each for dimensions in directive["Dimensions"] for each in dimensions):
            assert isinstance(record[dimension], str)
            assert record[dimension].isascii()
        for metric in directive["Metrics"]:
            assert metric["Name"] not in seen
            seen.add(metric["Name"])
            assert isinstance(record[metric["Name"]], (int, float, list))


def published(record: Any) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[float]]:
    """Return what CloudWatch makes of a record: values by metric and dimensions."""
    made: dict[tuple[str, tuple[tuple[str, str], ...]], list[float]] = {}
    for directive in record["_aws"]["CloudWatchMetrics"]:
        for dimensions in directive["Dimensions"]:
            named = tuple((name, record[name]) for name in dimensions)
            for metric in directive["Metrics"]:
                value = record[metric["Name"]]
                made[metric["Name"], named] = value if isinstance(value, list) else [value]
    return made


def whole_record() -> tuple[Clock, dict[str, Any]]:
    """Return a record that has every metric of telemetry."""
    clock, kept = Clock(), Kept()
    telemetry = recorder(clock, kept)

    class Queue(Loader):
        def __init__(self) -> None:
            super().__init__(clock, [0.2] * 10)
            self._task_info: dict[int, Any] = {}
            self._tasks_outstanding = 0

        def __iter__(self) -> Any:
            self._left = iter([0.2] * 10)
            self._data_queue = self
            return self

        def qsize(self) -> int:
            return 3

        def __next__(self) -> int:
            clock.pass_s(next(self._left))
            return 1

    with telemetry.checkpoint("restore", bytes=1):
        clock.pass_s(4)
    telemetry.epoch(1)
    for _ in telemetry.watch(Queue(), batch_bytes=100):
        clock.pass_s(0.8)
    with telemetry.checkpoint("save", bytes=10**12):
        clock.pass_s(2)
    telemetry.flush()
    return clock, kept.last


def test_every_metric_of_telemetry_arrives_with_its_number() -> None:
    clock, record = whole_record()
    check(record)
    made = published(record)
    fleet = (("Workload", "w"),)
    node = (("Workload", "w"), ("InstanceId", "i-0a1"))
    rank = (("Workload", "w"), ("Run", "r1"), ("InstanceId", "i-0a1"), ("Rank", "3"))
    expected = {
        "ElapsedTime": [16.0],
        "DataWaitTime": [2.0],
        "DataWaitShare": [12.5],
        "Steps": [10.0],
        "StepTime": pytest.approx([1.0] * 10),
        "StepTimeVariation": pytest.approx([0.0], abs=1e-6),
        "LoaderQueueEmptyShare": [0.0],
        "LoaderQueueDepth": [3.0],
        "TrainingReadBytes": [1000.0],
        "CheckpointSaveTime": [2.0],
        "CheckpointBlockedTime": [6.0],
        "CheckpointSaveBytes": [1e12],
        "Epoch": [1.0],
        "DroppedRecords": [0.0],
        "RestoreTime": [4.0],
    }
    for dimensions in (fleet, node, rank):
        assert {name: value for (name, named), value in made.items() if named == dimensions} == expected
    assert len(made) == 3 * len(expected)
    written = {name for name, metric in OURS.items() if "telemetry" in metric.source}
    assert written == set(expected)
    assert record["_aws"]["LogGroupName"] == "/training-storage/w/metrics"
    assert record["_aws"]["Timestamp"] == pytest.approx((1_700_000_000 + clock.now * 1e-9) * 1000, abs=1)
    assert json.loads(emf.line(record)) == record


def test_ranks_add_up_and_none_counts_twice() -> None:
    clock, kept = Clock(), Kept()
    for rank in range(8):
        telemetry = recorder(clock, kept, rank=rank, instance=f"i-{rank // 4}")
        for _ in telemetry.watch(Loader(clock, [0.1] * 10)):
            clock.pass_s(0.9)
        telemetry.close()
    sums: dict[str, float] = {}
    for record in kept.records:
        for (name, named), values in published(record).items():
            if name == "DataWaitTime":
                key = "/".join(value for _, value in named)
                sums[key] = sums.get(key, 0) + sum(values)
    assert sums["w"] == pytest.approx(8)
    assert sums["w/i-0"] == sums["w/i-1"] == pytest.approx(4)
    assert len([key for key in sums if key.count("/") == 3]) == 8


def test_without_metrics_of_ranks_the_log_still_tells_them() -> None:
    clock, kept = Clock(), Kept()
    telemetry = recorder(clock, kept, per_rank=False)
    for _ in telemetry.watch(Loader(clock, [0.1] * 3)):
        clock.pass_s(1)
    telemetry.close()
    check(kept.last)
    assert {len(named) for _, named in published(kept.last)} == {1, 2}
    assert (kept.last["Run"], kept.last["Rank"]) == ("r1", "3")


def test_the_largest_record_is_a_datagram() -> None:
    clock, kept = Clock(), Kept()
    telemetry = recorder(clock, kept, workload="w" * 200, run="r" * 900, instance="i" * 900, interval_s=3600)
    for number in telemetry.watch(Loader(clock, lambda _: 0.123456789, 2000), batch_bytes=lambda _: 123_456_789_123):
        clock.pass_s(0.1 + number * 0.000_012_345)
        if number % 10 == 0:
            for kind in ("save", "restore"):
                with telemetry.checkpoint(kind, bytes=123_456_789_012):
                    clock.pass_s(0.123_456_789 * number / 100)
    telemetry.close()
    for record in kept.records:
        check(record)
        assert len(emf.line(record)) < 12_000
    assert max(len(record["CheckpointSaveTime"]) for record in kept.records) <= 100


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record["_aws"].pop("Timestamp"),
        lambda record: record["_aws"]["CloudWatchMetrics"][0].update(Dimensions="Workload"),
        lambda record: record["_aws"]["CloudWatchMetrics"][0]["Metrics"][0].update(Unit="seconds"),
        lambda record: record.update(StepTime=[0.1] * 101),
        lambda record: record.update(StepTime=[]),
        lambda record: record.update(ElapsedTime=None),
    ],
    ids=["no time", "dimensions", "unit", "101 values", "no values", "null"],
)
def test_the_schema_refuses_what_is_wrong(spoil: Any) -> None:
    _, record = whole_record()
    spoil(record)
    with pytest.raises(jsonschema.ValidationError):
        check(record)


@pytest.mark.parametrize(
    ("given", "arrives"),
    [
        ("läuf", "l\\xe4uf"),
        ("実験", "\\u5b9f\\u9a13"),
        (b"run-\xff".decode("utf-8", "surrogateescape"), "run-\\udcff"),
        ("a\x00b\tc", "a\\x00b\\x09c"),
        ("  r1\n", "r1"),
        ("x" * 2000, "x" * 1024),
    ],
)
def test_dimensions_are_what_cloudwatch_takes(given: str, arrives: str) -> None:
    made = emf.record({"Steps": 1.0}, {"Workload": given}, timestamp_s=1)

    assert made["Workload"] == arrives
    assert made["Workload"].isascii()


def test_a_dimension_of_spaces_is_missing() -> None:
    made = emf.record({"Steps": 1.0}, {"Workload": "w", "InstanceId": " \t"}, timestamp_s=1)

    assert [each["Dimensions"] for each in made["_aws"]["CloudWatchMetrics"]] == [[["Workload"]]]


def test_a_number_that_cloudwatch_does_not_take_is_left_out() -> None:
    values: dict[str, emf.Value] = {
        "Steps": 10**400,
        "ElapsedTime": 2.0**361,
        "StepTime": [1.0, 10**400, -(2.0**361)],
        "DataWaitTime": 0.0,
    }

    made = emf.record(values, {"Workload": "w"}, timestamp_s=1)

    assert {name: made[name] for name in values if name in made} == {"StepTime": [1.0], "DataWaitTime": 0.0}
