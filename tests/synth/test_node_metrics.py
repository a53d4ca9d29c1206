"""What nodes tell of themselves: configuration of the CloudWatch agent, rights, log group, request metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsonschema
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from tests.synth.test_mounts_from_plan import Made, planned
from training_storage import DataLake, DirectoryBucket, ValidationError
from training_storage.compute import MountpointMount, NodeMetrics, NodeStorage
from training_storage.compute.cloudwatch_agent import configuration, configuration_line
from training_storage.node.emf import log_group
from training_storage.node.metrics.ours import OURS

NAME = "run1"
GROUP = f"/training-storage/{NAME}/metrics"

_TEXTS: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "uniqueItems": True,
    "items": {"type": "string", "minLength": 1},
}
_DIMENSIONS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string", "minLength": 1}}
SCHEMA: dict[str, Any] = {
    # What the agent's own schema says of the parts that are used (translator/config/schema.json).
    "type": "object",
    "additionalProperties": False,
    "required": ["logs", "metrics"],
    "properties": {
        "logs": {
            "type": "object",
            "additionalProperties": False,
            "required": ["metrics_collected"],
            "properties": {
                "log_stream_name": {"type": "string", "minLength": 1, "maxLength": 512},
                "metrics_collected": {"type": "object", "minProperties": 1},
            },
        },
        "metrics": {
            "type": "object",
            "additionalProperties": False,
            "required": ["metrics_collected"],
            "properties": {
                "namespace": {"type": "string", "minLength": 1, "maxLength": 255},
                "append_dimensions": _DIMENSIONS,
                "aggregation_dimensions": {"type": "array", "minItems": 1, "uniqueItems": True, "items": _TEXTS},
                "metrics_collected": {
                    "type": "object",
                    "minProperties": 1,
                    "additionalProperties": {
                        "type": "object",
                        "required": ["measurement"],
                        "additionalProperties": False,
                        "properties": {
                            "measurement": _TEXTS,
                            "resources": _TEXTS,
                            "drop_original_metrics": _TEXTS,
                            "append_dimensions": _DIMENSIONS,
                            "totalcpu": {"type": "boolean"},
                        },
                    },
                },
            },
        },
    },
}


def test_the_configuration_is_one_that_the_agent_takes() -> None:
    for gpus in (True, False):
        given = json.loads(configuration_line(NAME, gpus=gpus))
        jsonschema.validate(given, SCHEMA)
        assert ("nvidia_gpu" in given["metrics"]["metrics_collected"]) is gpus


def test_the_agent_writes_every_metric_of_the_table_that_is_its_own_and_no_other() -> None:
    plugins = configuration(NAME)["metrics"]["metrics_collected"]
    prefix = {name: name for name in plugins} | {"nvidia_gpu": "nvidia_smi"}
    written = {f"{prefix[name]}_{field}" for name, plugin in plugins.items() for field in plugin["measurement"]}
    assert written == {name for name, metric in OURS.items() if metric.source == "cloudwatch-agent"}


OWN_DIMENSIONS = {
    "cpu": ("cpu",),
    "disk": ("device", "fstype", "path"),
    "diskio": ("name",),
    "mem": (),
    "net": ("interface",),
    "nvidia_gpu": ("arch", "index", "name"),
}


def published(plugin: str, field: str, metrics: dict[str, Any]) -> set[frozenset[str]]:
    """What the agent sends: the original where it is not dropped, and each aggregate that has fewer dimensions."""
    given = metrics["metrics_collected"][plugin]
    original = frozenset((*OWN_DIMENSIONS[plugin], *given["append_dimensions"], *metrics["append_dimensions"]))
    found = set() if field in given.get("drop_original_metrics", ()) else {original}
    for each in metrics["aggregation_dimensions"]:
        if len(each) < len(original) and original.issuperset(each):
            found.add(frozenset(each))
    return found


def test_the_agent_publishes_the_sets_of_the_table_and_nothing_beside_them() -> None:
    metrics = configuration(NAME)["metrics"]
    sets = tuple(tuple(each) for each in metrics["aggregation_dimensions"])
    for name, metric in OURS.items():
        if metric.source == "cloudwatch-agent":
            assert (metric.dimensions, metric.namespace) == (sets, metrics["namespace"]), name
    assert metrics["append_dimensions"] == {"InstanceId": "${aws:InstanceId}"}
    for name, plugin in metrics["metrics_collected"].items():
        assert plugin["append_dimensions"] == {"Workload": NAME}
        for field in plugin["measurement"]:
            assert published(name, field, metrics) == {frozenset(each) for each in sets}, name


def test_records_are_taken_on_the_node_alone() -> None:
    assert configuration(NAME)["logs"]["metrics_collected"] == {"emf": {"service_address": "udp://127.0.0.1:25888"}}


def statements(template: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        statement
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::IAM::Policy"
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
    ]


def test_a_node_of_anybody_s_gets_configuration_rights_and_log_group(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Mine", env=cdk.Environment(account="111111111111", region="cn-north-1"))
    bucket = s3.Bucket.from_bucket_name(stack, "Lake", "lake")
    mounts = [
        MountpointMount(bucket=bucket),
        MountpointMount(bucket=bucket, path="/other", otlp_endpoint="http://10.0.0.1:4318"),
    ]
    storage = NodeStorage(stack, "Storage", mounts=mounts, metrics=NodeMetrics(workload=NAME, gpus=False))
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    storage.grant(role)
    user_data = ec2.UserData.for_linux()
    storage.add_to(user_data)
    text = user_data.render()

    assert configuration_line(NAME, gpus=False) in text.splitlines()
    assert f"TRAINING_STORAGE_WORKLOAD={NAME}\nTRAINING_STORAGE_METRICS=agent\n" in text
    assert text.count("OTLP_ENDPOINT=http://127.0.0.1:4318\n") == 1
    assert text.count("OTLP_ENDPOINT=http://10.0.0.1:4318\n") == 1
    assert storage.mounts == tuple(mounts)

    template = app.synth().get_stack_by_name("Mine").template
    groups = [each for each in template["Resources"].values() if each["Type"] == "AWS::Logs::LogGroup"]
    assert [(each["Properties"], each["DeletionPolicy"]) for each in groups] == [
        ({"LogGroupName": GROUP, "RetentionInDays": 30}, "Delete")
    ]
    assert log_group(NAME) == GROUP
    given = [each for each in statements(template) if "s3:" not in json.dumps(each["Action"])]
    assert given == [
        {
            "Action": "cloudwatch:PutMetricData",
            "Condition": {"StringEquals": {"cloudwatch:namespace": "TrainingStorage"}},
            "Effect": "Allow",
            "Resource": "*",
        },
        {
            "Action": ["logs:CreateLogStream", "logs:PutLogEvents"],
            "Effect": "Allow",
            "Resource": f"arn:aws-cn:logs:cn-north-1:111111111111:log-group:{GROUP}:*",
        },
    ]


def test_without_metrics_nothing_of_them_is_there(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Mine")
    bucket = s3.Bucket.from_bucket_name(stack, "Lake", "lake")
    storage = NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=bucket)])
    text = "\n".join(storage.commands())
    assert storage.log_group is None
    assert not [word for word in ("cloudwatch-agent", "OTLP", "TRAINING_STORAGE_METRICS") if word in text]


def test_environment_of_ones_own_comes_first(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Mine")
    environment = {"TRAINING_STORAGE_METRICS": "off"}
    metrics = NodeMetrics(workload=NAME)
    storage = NodeStorage(stack, "Storage", mounts=[], environment=environment, metrics=metrics)
    assert [line for line in storage.commands() if "STORAGE_METRICS" in line] == ["TRAINING_STORAGE_METRICS=off"]


@pytest.mark.parametrize(("workload", "gpus"), [(7, True), ("a", "no"), ("", True), ("two words", True), (None, True)])
def test_what_is_no_metrics_is_refused(app: cdk.App, workload: Any, gpus: Any) -> None:
    metrics: Any = "run1" if workload is None else NodeMetrics(workload=workload, gpus=gpus)
    with pytest.raises(ValidationError, match="NodeMetrics"):
        NodeStorage(cdk.Stack(app, "Mine"), "Storage", mounts=[], metrics=metrics)


def test_a_plan_with_monitoring_tells_and_one_without_does_not(app: cdk.App, tmp_path: Path) -> None:
    made = Made(app, planned(tmp_path, "object-native-2048"))
    assert made.storage.metrics == NodeMetrics(workload="object-native-2048")
    assert '"nvidia_gpu"' in made.text


def test_the_lake_counts_requests_by_folder_and_a_directory_bucket_all_of_them(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Buckets", env=cdk.Environment(account="111111111111", region="us-east-1"))
    DataLake(stack, "Lake", request_metrics=True)
    DirectoryBucket(stack, "Hot", availability_zone_id="use1-az6", request_metrics=True)
    DataLake(stack, "Quiet")
    DirectoryBucket(stack, "QuietHot", availability_zone_id="use1-az6")
    template = app.synth().get_stack_by_name("Buckets").template
    found = {
        (resource["Type"], json.dumps(resource["Properties"].get("MetricsConfigurations")))
        for resource in template["Resources"].values()
        if resource["Type"] in ("AWS::S3::Bucket", "AWS::S3Express::DirectoryBucket")
    }
    folders = [{"Id": name, "Prefix": f"{name}/"} for name in ("datasets", "checkpoints")]
    assert found == {
        ("AWS::S3::Bucket", json.dumps(folders)),
        ("AWS::S3::Bucket", "null"),
        ("AWS::S3Express::DirectoryBucket", json.dumps([{"Id": "all"}])),
        ("AWS::S3Express::DirectoryBucket", "null"),
    }


def test_request_metrics_of_a_bucket_that_is_there_are_its_owner_s(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Theirs")
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "theirs")
    with pytest.raises(ValidationError, match="request_metrics"):
        DataLake(stack, "Lake", bucket=bucket, request_metrics=True)
