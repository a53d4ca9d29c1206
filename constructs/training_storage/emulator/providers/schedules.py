"""Schedules of EventBridge Scheduler, and rules of EventBridge, through their APIs."""

from __future__ import annotations

import json
from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource


class Schedule(Provider):
    """AWS::Scheduler::Schedule; it never fires by itself."""

    def _named(self, context: Context, properties: dict[str, Any]) -> dict[str, Any]:
        return {**properties, "Name": properties.get("Name") or context.generated_name()}

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the schedule."""
        given = self._named(context, properties)
        made = context.client("scheduler").create_schedule(**given)
        return Made(given["Name"], {"Arn": made["ScheduleArn"]})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put the schedule again: an update leaves nothing as it was."""
        given = {**properties, "Name": resource.physical_resource_id}
        made = context.client("scheduler").update_schedule(**given)
        return Made(resource.physical_resource_id, {"Arn": made["ScheduleArn"]})

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the schedule."""
        group = resource.properties.get("GroupName", "default")
        context.client("scheduler").delete_schedule(Name=resource.physical_resource_id, GroupName=group)


class Rule(Provider):
    """AWS::Events::Rule with its targets."""

    def _put(self, context: Context, name: str, properties: dict[str, Any]) -> Made:
        events = context.client("events")
        given: dict[str, Any] = {
            key: properties[key]
            for key in ("Description", "EventBusName", "RoleArn", "ScheduleExpression", "State")
            if key in properties
        }
        pattern = properties.get("EventPattern")
        if pattern is not None:
            given["EventPattern"] = pattern if isinstance(pattern, str) else json.dumps(pattern)
        arn = events.put_rule(Name=name, **given)["RuleArn"]
        bus = {"EventBusName": properties["EventBusName"]} if "EventBusName" in properties else {}
        wanted = properties.get("Targets") or []
        there = events.list_targets_by_rule(Rule=name, **bus)["Targets"]
        gone = [item["Id"] for item in there if item["Id"] not in [target["Id"] for target in wanted]]
        if gone:
            events.remove_targets(Rule=name, Ids=gone, **bus)
        if wanted:
            events.put_targets(Rule=name, Targets=wanted, **bus)
        return Made(name, {"Arn": arn})

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the rule and its targets."""
        return self._put(context, properties.get("Name") or context.generated_name(), properties)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put both again, and take targets away that are no longer named."""
        return self._put(context, resource.physical_resource_id, properties)

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the targets away, then the rule."""
        self._put(context, resource.physical_resource_id, {**resource.properties, "Targets": []})
        bus = {"EventBusName": resource.properties["EventBusName"]} if "EventBusName" in resource.properties else {}
        context.client("events").delete_rule(Name=resource.physical_resource_id, **bus)


PROVIDERS: dict[str, type[Provider]] = {"AWS::Events::Rule": Rule, "AWS::Scheduler::Schedule": Schedule}
