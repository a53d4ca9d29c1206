"""Names that are taken in services which would quietly change what bears the name, where CloudFormation refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from training_storage.emulator.providers.base import Context


def _alarm(context: Context, given: dict[str, Any]) -> str | None:
    name = given.get("AlarmName")
    kinds = ["MetricAlarm", "CompositeAlarm"]
    found = context.client("cloudwatch").describe_alarms(AlarmNames=[name], AlarmTypes=kinds) if name else {}
    return name if found.get("MetricAlarms") or found.get("CompositeAlarms") else None


def _dashboard(context: Context, given: dict[str, Any]) -> str | None:
    name = given.get("DashboardName")
    listed = context.client("cloudwatch").list_dashboards()["DashboardEntries"]
    return name if name in [item["DashboardName"] for item in listed] else None


def _topic(context: Context, given: dict[str, Any]) -> str | None:
    name = given.get("TopicName")
    listed = context.client("sns").list_topics()["Topics"]
    return name if name in [item["TopicArn"].rsplit(":", 1)[-1] for item in listed] else None


def _queue(context: Context, given: dict[str, Any]) -> str | None:
    name = given.get("QueueName")
    listed = context.client("sqs").list_queues().get("QueueUrls", [])
    return name if name in [url.rsplit("/", 1)[-1] for url in listed] else None


def _rule(context: Context, given: dict[str, Any]) -> str | None:
    name, bus = given.get("Name"), given.get("EventBusName")
    if not name:
        return None
    try:
        context.client("events").describe_rule(Name=name, **({"EventBusName": bus} if bus else {}))
    except ClientError:
        return None
    return str(name)


def _state_machine(context: Context, given: dict[str, Any]) -> str | None:
    name = given.get("StateMachineName")
    listed = context.client("stepfunctions").list_state_machines()["stateMachines"]
    return name if name in [item["name"] for item in listed] else None


_LOOK: dict[str, Callable[[Context, dict[str, Any]], str | None]] = {
    "AWS::CloudWatch::Alarm": _alarm,
    "AWS::CloudWatch::CompositeAlarm": _alarm,
    "AWS::CloudWatch::Dashboard": _dashboard,
    "AWS::Events::Rule": _rule,
    "AWS::SNS::Topic": _topic,
    "AWS::SQS::Queue": _queue,
    "AWS::StepFunctions::StateMachine": _state_machine,
}


def taken(context: Context, type_name: str, properties: dict[str, Any]) -> str | None:
    """Return the name that properties give and something else has already; None when there is none."""
    look = _LOOK.get(type_name)
    return look(context, properties) if look else None
