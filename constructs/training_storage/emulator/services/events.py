"""EventBridge and its Scheduler: a test fires a schedule, and alarms that change start what rules name.

Targets that work: state machines, functions, and the universal targets of Scheduler (any operation of an emulated
service). Nothing fires by the clock.
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import UTC, datetime
from typing import Any

from training_storage.emulator import clients, world
from training_storage.emulator._moto import Patches
from training_storage.emulator.errors import EmulatorError

_UNIVERSAL = re.compile(r"arn:[\w-]+:scheduler:::aws-sdk:(?P<service>\w+):(?P<action>\w+)")
# Scheduler and Step Functions name services as the SDK for Java does; where boto3 has another name:
_BOTO_NAMES = {"sfn": "stepfunctions", "cloudwatchlogs": "logs", "eventbridge": "events"}


def fire_schedule(account: str, region: str, name: str, group: str) -> Any:
    """Do what Scheduler does when the time of a schedule has come.

    Args:
        account: Account.
        region: Region.
        name: Name of the schedule.
        group: Its group.

    Returns:
        What the target answered.

    Raises:
        EmulatorError: There is no such schedule, it is switched off, or its target is of a kind that is not emulated.
        ClientError: The target refused.
    """
    from moto.scheduler.models import scheduler_backends

    groups = scheduler_backends[account][region].schedule_groups
    if group not in groups or name not in groups[group].schedules:
        raise EmulatorError(f"there is no schedule {name} in group {group}")
    schedule = groups[group].schedules[name]
    if schedule.state != "ENABLED":
        raise EmulatorError(f"the schedule {name} is {schedule.state}")
    values = {
        "schedule-arn": schedule.arn,
        "scheduled-time": _iso(world.now()),
        "execution-id": str(uuid.uuid4()),
        "attempt-number": "1",
    }
    text = schedule.target.get("Input") or "{}"
    for key, value in values.items():
        text = text.replace(f"<aws.scheduler.{key}>", value)
    answer = _call(account, region, schedule.target["Arn"], text)
    if schedule.action_after_completion == "DELETE" and schedule.schedule_expression.startswith("at("):
        groups[group].delete_schedule(name)
    return answer


def _call(account: str, region: str, arn: str, text: str) -> Any:
    match = _UNIVERSAL.fullmatch(arn)
    if match:
        service = match["service"].lower()
        client = clients.client(_BOTO_NAMES.get(service, service), account, region)
        return _action(client, match["action"])(**json.loads(text))
    service = arn.split(":")[2]
    if service == "states":
        return clients.client("stepfunctions", account, region).start_execution(stateMachineArn=arn, input=text)
    if service == "lambda":
        client = clients.client("lambda", account, region)
        return client.invoke(FunctionName=arn, Payload=text.encode(), InvocationType="RequestResponse")
    raise EmulatorError(f"the emulator fires no target {arn}")


def _action(client: Any, name: str) -> Any:
    wanted = name[:1].upper() + name[1:]
    for method, operation in client.meta.method_to_api_mapping.items():
        if operation == wanted:
            return getattr(client, method)
    raise EmulatorError(f"{client.meta.service_model.service_name} has no operation {name}")


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _alarm_changed(backend: Any, alarm: Any, before: str) -> None:
    """Tell the rules of the default bus that an alarm has changed (CloudWatch User Guide, "Alarm events")."""
    from moto.events.models import events_backends

    moment = _iso(world.now())
    event: Any = {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "CloudWatch Alarm State Change",
        "source": "aws.cloudwatch",
        "account": backend.account_id,
        "time": moment,
        "region": backend.region_name,
        "resources": [alarm.alarm_arn],
        "detail": {
            "alarmName": alarm.name,
            "state": {"value": alarm.state_value, "reason": alarm.state_reason, "timestamp": moment},
            "previousState": {"value": before, "timestamp": moment},
            "configuration": {"description": alarm.description, "metrics": []},
        },
    }
    bus = events_backends[backend.account_id][backend.region_name].event_buses["default"]
    for rule in list(bus.rules.values()):
        if rule.state == "ENABLED":
            rule.send_to_targets(event)


def _text(target: dict[str, Any], event: dict[str, Any]) -> str:
    """Return what a target without a fixed input gets."""
    from moto.events.utils import EventTemplateParser

    transformer = target.get("InputTransformer")
    if transformer is None:
        return json.dumps(event)
    given: Any = {"ingestion-time": event["time"], **event}
    made = EventTemplateParser.parse(
        input_template=transformer["InputTemplate"],
        input_paths_map=transformer.get("InputPathsMap") or {},
        event=given,
    )
    return made if isinstance(made, str) else json.dumps(made)


def install(patches: Patches) -> None:
    """Let alarms that are set tell EventBridge, and let rules start state machines and functions."""
    from moto.cloudwatch.models import CloudWatchBackend
    from moto.cloudwatch.responses import CloudWatchResponse
    from moto.events.models import Rule

    set_state, send = CloudWatchBackend.set_alarm_state, Rule.send_to_targets

    def set_alarm_state(self: Any, alarm_name: str, *given: Any, **more: Any) -> None:
        alarm = self.alarms.get(alarm_name)
        before = alarm.state_value if alarm is not None else ""
        set_state(self, alarm_name, *given, **more)
        if alarm is not None and alarm.state_value != before:
            _alarm_changed(self, alarm, before)

    def send_to_targets(self: Any, original_event: Any, transform_input: bool = True) -> None:
        ours = [target for target in self.targets if target["Arn"].split(":")[2] in ("states", "lambda")]
        if not ours:
            send(self, original_event, transform_input)
            return
        if not self.event_pattern.matches_event(original_event):
            return
        for target in ours:
            text = target.get("Input")
            if text is None:
                text = _text(target, original_event)
            _call(self.account_id, self.region_name, target["Arn"], text)
        others = [target for target in self.targets if target not in ours]
        if others:
            kept, self.targets = self.targets, others
            try:
                send(self, original_event, transform_input)
            finally:
                self.targets = kept

    patches.set(CloudWatchBackend, "set_alarm_state", set_alarm_state)
    # Moto keeps the rule of a composite alarm where it keeps the others, and lacks the operation alone.
    if not hasattr(CloudWatchResponse, "put_composite_alarm"):
        patches.set(CloudWatchResponse, "put_composite_alarm", CloudWatchResponse.put_metric_alarm)
    patches.set(Rule, "send_to_targets", send_to_targets)
