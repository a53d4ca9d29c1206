"""Alarms: they rise where they should and not at the border, say what to do, and CloudWatch takes them."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from tests.monitoring import bodies, evaluation
from tests.monitoring.subjects import ENV, EXPECTED, FILE_SYSTEM, WHOLE, alarms_of, whole
from training_storage.errors import ValidationError
from training_storage.monitoring import AlarmTopic, Expected, StorageAlarms
from training_storage.monitoring.definitions import ALARMS, COMPOSITE
from training_storage.node.metrics.figures import FIGURES
from training_storage.units import GIB

MINUTE_OF_MB_S = 60e6


def alarm(id_: str) -> dict[str, Any]:
    return bodies.alarms(whole())[f"run-{id_}"]


def always(**series: float | None) -> dict[str, list[float | None]]:
    return {name: [value] * 60 for name, value in series.items()}


# By id: what makes it rise, and what is just at its border and does not.
BORDERS: dict[str, tuple[dict[str, float | None], dict[str, float | None]]] = {
    "gpu-utilisation-low": ({"value": 49.9}, {"value": 50}),
    # The plan predicts 7 %, and 5 points more are allowed.
    "gpus-wait-for-data": ({"wait": 58, "elapsed": 480}, {"wait": 57.6, "elapsed": 480}),
    "read-throughput-low": ({"bytes": 1999 * MINUTE_OF_MB_S}, {"bytes": 2000 * MINUTE_OF_MB_S}),
    # 90 % of 6000 MB/s read, or of 3000 MB/s written.
    "storage-throughput-at-limit": (
        {"reads": 0, "writes": 2701 * MINUTE_OF_MB_S},
        {"reads": 5400 * MINUTE_OF_MB_S, "writes": 2700 * MINUTE_OF_MB_S},
    ),
    "metadata-at-limit": ({"value": 540_001}, {"value": 540_000}),
    "mds-cpu-high": ({"value": 80.1}, {"value": 80}),
    "s3-throttled": (
        {"errors1": 11, "requests1": 500, "errors2": None, "requests2": 500},
        {"errors1": 5, "requests1": 500, "errors2": 5, "requests2": 500},
    ),
    "checkpoint-save-slow": ({"value": 60.1}, {"value": 60}),
    "restore-slow": ({"value": 300.1}, {"value": 300}),
    "restore-drill-slow": ({"value": 300.1}, {"value": 300}),
    "step-time-varies": ({"value": 25.1}, {"value": 25}),
    # 2 % of 500 USD/h is what the storage costs.
    "idle-gpus-cost-more-than-storage": (
        {"wait": 9, "blocked": 0.7, "elapsed": 480},
        {"wait": 9, "blocked": 0.6, "elapsed": 480},
    ),
    "export-queue-old": ({"value": 3601}, {"value": 3600}),
    "import-queue-old": ({"value": 86_401}, {"value": 86_400}),
    "association-broken": ({"value": 1}, {"value": 0}),
    # Four targets: a tenth of 4800 GiB is 120 GiB on each.
    "free-capacity-low": ({"least": 119 * GIB, "targets": 4}, {"least": 120 * GIB, "targets": 4}),
    "clients-missing": ({"value": 7}, {"value": 8}),
    "s3-files-import-failures": ({"value": 1}, {"value": 0}),
    "s3-files-export-failures": ({"value": 1}, {"value": 0}),
    # Eight nodes have five samples each in five minutes; one that is late is no node that is missing.
    "metrics-missing": ({"samples": 35}, {"samples": 39}),
}


def test_every_alarm_has_its_border_here() -> None:
    assert set(BORDERS) == {each.id for each in ALARMS}
    assert {f"run-{each.id}" for each in ALARMS} == set(bodies.alarms(whole()))


@pytest.mark.parametrize("id_", BORDERS)
def test_it_rises_beyond_its_border_and_not_at_it(id_: str) -> None:
    beyond, border = BORDERS[id_]
    assert evaluation.state(alarm(id_), always(**beyond)) == "ALARM"
    assert evaluation.state(alarm(id_), always(**border)) == "OK"


@pytest.mark.parametrize("id_", BORDERS)
def test_one_datapoint_less_than_it_needs_does_not_raise_it(id_: str) -> None:
    beyond, border = BORDERS[id_]
    need = alarm(id_)["DatapointsToAlarm"]
    mixed = {name: [border[name]] * (60 - need + 1) + [beyond[name]] * (need - 1) for name in beyond}
    assert evaluation.state(alarm(id_), mixed) == "OK"
    enough = {name: [border[name]] * (60 - need) + [beyond[name]] * need for name in beyond}
    assert evaluation.state(alarm(id_), enough) == "ALARM"


@pytest.mark.parametrize(
    ("id_", "before", "after"),
    [
        ("gpus-wait-for-data", "ALARM", "OK"),
        ("gpu-utilisation-low", "ALARM", "OK"),
        ("idle-gpus-cost-more-than-storage", "ALARM", "OK"),
        ("checkpoint-save-slow", "ALARM", "ALARM"),
        ("checkpoint-save-slow", "OK", "OK"),
        ("free-capacity-low", "ALARM", "ALARM"),
        ("clients-missing", "OK", "INSUFFICIENT_DATA"),
        ("association-broken", "OK", "INSUFFICIENT_DATA"),
        ("metrics-missing", "OK", "ALARM"),
        ("s3-throttled", "ALARM", "OK"),
    ],
)
def test_without_data(id_: str, before: str, after: str) -> None:
    nothing = always(**dict.fromkeys(BORDERS[id_][0], None))
    assert evaluation.state(alarm(id_), nothing, before) == after


def test_a_save_between_two_quiet_minutes_is_not_forgotten() -> None:
    slow = {"value": [None] * 30 + [400.0]}
    assert evaluation.state(alarm("checkpoint-save-slow"), slow) == "ALARM"
    assert evaluation.state(alarm("checkpoint-save-slow"), {"value": [400.0] + [None] * 30}, "ALARM") == "ALARM"
    assert evaluation.state(alarm("checkpoint-save-slow"), {"value": [None] * 30 + [20.0]}, "ALARM") == "OK"


# The composite one


def standing(*ids: str) -> bool:
    (composite,) = bodies.of(whole(), "AWS::CloudWatch::CompositeAlarm").values()
    references = {key.removeprefix("Alarms")[:-8]: key for key in bodies.of(whole(), "AWS::CloudWatch::Alarm")}
    short = {"".join(part.capitalize() for part in id_.split("-")) for id_ in ids}
    return evaluation.composite(composite["AlarmRule"], {references[each] for each in short})


@pytest.mark.parametrize(
    ("ids", "rises"),
    [
        ((), False),
        (("gpus-wait-for-data",), False),
        (("storage-throughput-at-limit", "metadata-at-limit", "mds-cpu-high", "s3-throttled"), False),
        (("gpus-wait-for-data", "storage-throughput-at-limit"), True),
        (("gpus-wait-for-data", "metadata-at-limit"), True),
        (("gpus-wait-for-data", "mds-cpu-high"), True),
        (("gpus-wait-for-data", "s3-throttled"), True),
        (("gpus-wait-for-data", "gpu-utilisation-low", "clients-missing"), False),
        (("checkpoint-save-slow",), True),
    ],
)
def test_gpus_wait_for_storage_only_where_the_storage_shows_why(ids: tuple[str, ...], rises: bool) -> None:
    assert standing(*ids) is rises


def test_saves_beside_training_hold_nobody_up() -> None:
    made = alarms_of(workload="run", expected=Expected(max_write_s=60, asynchronous=True))
    assert bodies.of(made, "AWS::CloudWatch::CompositeAlarm") == {}
    made = alarms_of(workload="run", expected=Expected(max_write_s=60, asynchronous=False))
    assert len(bodies.of(made, "AWS::CloudWatch::CompositeAlarm")) == 1


# What CloudWatch takes, and what is named


def test_cloudwatch_takes_the_alarms_and_their_metrics_exist() -> None:
    found = bodies.alarms(whole())
    assert {key: bodies.alarm_problems(each) for key, each in found.items() if bodies.alarm_problems(each)} == {}
    uses = [use for each in found.values() for use in bodies.in_alarm(each)]
    assert [use.unknown() for use in uses if use.unknown()] == []


def test_alarms_of_the_figures_exist() -> None:
    assert {figure.alarm for figure in FIGURES if figure.alarm} <= {each.id for each in ALARMS}


def test_alone_on_a_file_system_of_somebody_else() -> None:
    made = bodies.alarms(alarms_of(file_system_id=FILE_SYSTEM))
    assert set(made) == {"run-mds-cpu-high"}
    made = bodies.alarms(alarms_of(file_system_id=FILE_SYSTEM, expected=EXPECTED))
    assert set(made) == {
        f"run-{each}"
        for each in (
            "storage-throughput-at-limit", "metadata-at-limit", "mds-cpu-high", "export-queue-old", "import-queue-old",
            "free-capacity-low", "clients-missing",
        )
    }  # fmt: skip


def test_one_metric_alone_is_written_without_queries() -> None:
    assert alarm("clients-missing")["MetricName"] == "ClientConnections"
    assert "Metrics" not in alarm("clients-missing")


def test_the_text_of_an_alarm_says_why_where_to_look_and_what_to_run() -> None:
    for each in ALARMS:
        text = alarm(each.id)["AlarmDescription"]
        for part in (each.title, each.reason, each.look, each.because, f"docs/alarms/{each.id}.md"):
            assert part in text
        assert "training-storage diagnose run" in text


def test_pages_on_the_web() -> None:
    made = bodies.alarms(alarms_of(workload="run", runbook_url="https://example.com/alarms"))
    assert "https://example.com/alarms/metrics-missing.md" not in json.dumps(made)
    assert "https://example.com/alarms/gpus-wait-for-data.md" in json.dumps(made)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "nothing to watch"),
        ({"name": "a b", "workload": "run"}, "not a name"),
        ({"workload": "it's"}, "not a name"),
        ({"workload": "run", "bucket_filter_ids": ["a"]}, "filters of no bucket"),
        ({"bucket_name": "lake", "bucket_filter_ids": list("abcdef")}, "more filters"),
        ({"workload": 3}, "not what this argument takes"),
        ({"workload": "run", "expected": {"read_mb_per_s": 3}}, "not what this argument takes"),
        ({"workload": "run", "expected": Expected(supply_mb_per_s=-1)}, "less than nothing"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_made(options: dict[str, Any], says: str) -> None:
    stack = cdk.Stack(cdk.App(), "Stack")
    with pytest.raises(ValidationError, match=says):
        StorageAlarms(stack, "Alarms", **{"name": "run", **options})
    assert stack.node.try_find_child("Alarms") is None


# Who is told


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    stack = cdk.Stack(cdk.App(), "Stack", env=ENV)
    topic = AlarmTopic(stack, "Told", emails=["ops@example.com"])
    StorageAlarms(stack, "Alarms", name="run", topics=[topic.topic], **WHOLE)
    return dict(Template.from_stack(stack).to_json())


def test_all_but_evidence_tell_the_topic_when_they_rise_and_when_they_are_over(told: dict[str, Any]) -> None:
    silent = set()
    for name, each in bodies.alarms(told).items():
        assert each.get("AlarmActions") == each.get("OKActions")
        if "AlarmActions" not in each:
            silent.add(name.removeprefix("run-"))
    assert silent == {"storage-throughput-at-limit", "metadata-at-limit", "mds-cpu-high"}
    (composite,) = bodies.of(told, "AWS::CloudWatch::CompositeAlarm").values()
    assert composite["AlarmActions"]
    assert composite["AlarmName"] == f"run-{COMPOSITE}"


def test_alarms_of_this_account_may_use_the_topic_and_its_key_and_only_over_tls(told: dict[str, Any]) -> None:
    (key,) = bodies.of(told, "AWS::KMS::Key").values()
    (topic,) = bodies.of(told, "AWS::SNS::Topic").values()
    (policy,) = bodies.of(told, "AWS::SNS::TopicPolicy").values()
    assert "alias/aws/sns" not in str(topic["KmsMasterKeyId"])
    assert key["EnableKeyRotation"]
    for statements, action in (
        (key["KeyPolicy"]["Statement"], "kms:Decrypt"),
        (policy["PolicyDocument"]["Statement"], "sns:Publish"),
    ):
        (of_alarms,) = (each for each in statements if each["Principal"] == {"Service": "cloudwatch.amazonaws.com"})
        assert action in of_alarms["Action"]
        assert of_alarms["Condition"]["StringEquals"] == {"aws:SourceAccount": "111111111111"}
    (denied,) = (each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Deny")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    (mail,) = bodies.of(told, "AWS::SNS::Subscription").values()
    assert (mail["Protocol"], mail["Endpoint"]) == ("email", "ops@example.com")


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValidationError, match="not a mail address"):
        AlarmTopic(cdk.Stack(cdk.App(), "Stack"), "Told", emails=["ops"])


def test_long_names_and_addresses_leave_a_text_that_cloudwatch_takes() -> None:
    options: dict[str, Any] = {"workload": "w" * 200, "runbook_url": f"https://example.com/{'x' * 500}"}
    made = bodies.alarms(alarms_of(**{**WHOLE, **options}))
    assert {key: wrong for key, each in made.items() if (wrong := bodies.alarm_problems(each))} == {}
    for id_ in ("metrics-missing", "free-capacity-low"):
        text = made[f"run-{id_}"]["AlarmDescription"]
        assert f"{options['runbook_url']}/{id_}.md" in text
        assert text.endswith(f"training-storage diagnose {'w' * 200}.")


@pytest.mark.parametrize(("price", "written"), [(2_500_000.0, "2500000"), (1234.5678, "1234.57"), (0.00002, "0.00002")])
def test_prices_of_any_size_stand_in_the_expression_without_an_exponent(price: float, written: str) -> None:
    made = alarms_of(workload="run", expected=Expected(gpu_usd_per_hour=price, storage_usd_per_hour=10))
    idle = bodies.alarms(made)["run-idle-gpus-cost-more-than-storage"]
    assert bodies.alarm_problems(idle) == []
    assert idle["Metrics"][0]["Expression"].startswith(f"{written} * ")
