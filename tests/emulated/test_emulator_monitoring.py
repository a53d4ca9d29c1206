"""Dashboard, alarms, topic and the watch on links as a user deploys them, changes them and takes them away."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk.assertions import Template

from tests.emulated.emulator_templates import hot
from tests.monitoring import bodies
from training_storage.emulator import Emulator, emulator
from training_storage.lifecycle import LinkWatch
from training_storage.monitoring import AlarmTopic, Expected, StorageAlarms, StorageDashboard
from training_storage.tiers import LustreFileSystem

pytestmark = pytest.mark.slow

ENV = cdk.Environment(account="111111111111", region="us-east-1")


def template(data_wait_percent: float, *, saves: bool = True) -> dict[str, Any]:
    """Return a file system with all that watches it."""
    stack = cdk.Stack(cdk.App(), "watched", env=ENV, synthesizer=cdk.LegacyStackSynthesizer())
    file_system_id = cdk.Fn.ref("Fs")
    expected = Expected(
        instance_count=2,
        supply_mb_per_s=100,
        file_opens_limit_per_s=100,
        max_write_s=60 if saves else None,
        asynchronous=False,
        data_wait_percent=data_wait_percent,
        storage_capacity_gib=1200,
        warn_when_free_below=0.1,
    )
    topic = AlarmTopic(stack, "Told", emails=["ops@example.com"])
    file_system = LustreFileSystem.from_attributes(
        stack,
        "FileSystem",
        file_system_id=file_system_id,
        mount_name="abcdefgh",
        security_group=ec2.SecurityGroup.from_security_group_id(stack, "Group", "sg-0123456789abcdef0"),
    )
    LinkWatch(stack, "Links", workload="run", file_system=file_system)
    watched: dict[str, Any] = {"workload": "run", "file_system_id": file_system_id, "expected": expected}
    alarms = StorageAlarms(stack, "Alarms", name="run", links=True, topics=[topic.topic], **watched)
    StorageDashboard(stack, "Dashboard", dashboard_name="run-storage", alarms=alarms, **watched)
    made = dict(Template.from_stack(stack).to_json())
    made["Resources"] |= hot()["Resources"]
    return made


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as aws:
        aws.deploy(template(5), "watched")
        yield aws


def test_dashboard_and_alarms_are_there_as_they_were_written(running: Emulator) -> None:
    cloudwatch, ids = running.client("cloudwatch"), running.stack("watched").physical_ids
    body = json.loads(cloudwatch.get_dashboard(DashboardName="run-storage")["DashboardBody"])
    assert bodies.body_problems(body) == []
    assert ids["Fs"] in json.dumps(body)
    found = cloudwatch.describe_alarms(AlarmTypes=["MetricAlarm", "CompositeAlarm"])
    alarms = {each["AlarmName"]: each for each in found["MetricAlarms"]}
    assert {"run-gpus-wait-for-data", "run-mds-cpu-high", "run-association-broken", "run-clients-missing"} <= set(
        alarms
    )
    query = alarms["run-mds-cpu-high"]["Metrics"][0]["Expression"]
    assert query.endswith(f"WHERE FileSystemId = '{ids['Fs']}'")
    (composite,) = found["CompositeAlarms"]
    assert 'ALARM("run-gpus-wait-for-data")' in composite["AlarmRule"]
    assert composite["AlarmActions"] == alarms["run-gpus-wait-for-data"]["AlarmActions"]


def test_the_topic_has_its_key_its_policy_and_its_subscriber(running: Emulator) -> None:
    sns = running.client("sns")
    (topic,) = sns.list_topics()["Topics"]
    attributes = sns.get_topic_attributes(TopicArn=topic["TopicArn"])["Attributes"]
    assert attributes["KmsMasterKeyId"]
    assert {each["Effect"] for each in json.loads(attributes["Policy"])["Statement"]} == {"Allow", "Deny"}
    (subscribed,) = sns.list_subscriptions_by_topic(TopicArn=topic["TopicArn"])["Subscriptions"]
    assert (subscribed["Protocol"], subscribed["Endpoint"]) == ("email", "ops@example.com")


def broken(running: Emulator) -> float:
    """Fire the watch on links once, and return what it wrote."""
    running.finished(running.fire_schedule("run-links")["executionArn"])
    now = time.time()
    points = running.client("cloudwatch").get_metric_statistics(
        Namespace="TrainingStorage",
        MetricName="LinksBroken",
        Dimensions=[{"Name": "Workload", "Value": "run"}],
        StartTime=now - 3600,
        EndTime=now + 3600,
        Period=3600,
        Statistics=["Maximum"],
    )["Datapoints"]
    return float(max(each["Maximum"] for each in points))


def test_the_watch_on_links_says_when_one_has_stopped(running: Emulator) -> None:
    assert broken(running) == 0
    from moto.fsx.models import fsx_backends

    from training_storage.emulator.services.fsx_repository import store

    (link,) = store(fsx_backends[running.account]["us-east-1"]).links(running.stack("watched").physical_ids["Fs"])
    link["Lifecycle"] = "MISCONFIGURED"
    assert broken(running) == 1
    link["Lifecycle"] = "AVAILABLE"


def test_a_bucket_keeps_the_request_metrics_that_it_is_told_to(running: Emulator) -> None:
    def bucket(*kept: dict[str, Any]) -> dict[str, Any]:
        properties = {"MetricsConfigurations": list(kept)} if kept else {}
        return {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": properties}}}

    def shown() -> list[dict[str, Any]]:
        found = running.client("s3").list_bucket_metrics_configurations(Bucket=name)
        return list(found.get("MetricsConfigurationList", []))

    data = {"Id": "datasets", "Prefix": "datasets/"}
    name = running.deploy(bucket(data, {"Id": "all"}), "bucket").physical_ids["Bucket"]
    assert shown() == [{"Id": "datasets", "Filter": {"Prefix": "datasets/"}}, {"Id": "all"}]
    running.update("bucket", bucket({"Id": "datasets", "Prefix": "data/"}))
    assert shown() == [{"Id": "datasets", "Filter": {"Prefix": "data/"}}]
    running.update("bucket", bucket())
    assert shown() == []
    running.destroy("bucket")


def test_a_change_is_made_in_place_and_nothing_is_left_behind(running: Emulator) -> None:
    cloudwatch = running.client("cloudwatch")
    before = running.stack("watched").physical_ids
    after = running.update("watched", template(30, saves=False)).physical_ids
    assert {key: before[key] for key in after} == after
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=["run-gpus-wait-for-data"])["MetricAlarms"]
    assert alarm["Threshold"] == 35
    assert cloudwatch.describe_alarms(AlarmNames=["run-checkpoint-save-slow"])["MetricAlarms"] == []
    running.destroy("watched")
    left = cloudwatch.describe_alarms(AlarmTypes=["MetricAlarm", "CompositeAlarm"])
    assert left["MetricAlarms"] == left["CompositeAlarms"] == []
    assert cloudwatch.list_dashboards()["DashboardEntries"] == []
    assert running.client("sns").list_topics()["Topics"] == []
