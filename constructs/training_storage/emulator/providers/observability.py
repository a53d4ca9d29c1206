"""Alarms, dashboards, log groups and topics, through their APIs."""

from __future__ import annotations

import json
from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, or_undo


class Alarm(Provider):
    """AWS::CloudWatch::Alarm and AWS::CloudWatch::CompositeAlarm."""

    def _put(self, context: Context, name: str, properties: dict[str, Any]) -> Made:
        cloudwatch = context.client("cloudwatch")
        given = {**properties, "AlarmName": name}
        given.pop("Tags", None)
        put = cloudwatch.put_composite_alarm if "AlarmRule" in given else cloudwatch.put_metric_alarm
        put(**given)
        return Made(name, {"Arn": context.arn("cloudwatch", f"alarm:{name}")})

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the alarm."""
        return self._put(context, properties.get("AlarmName") or context.generated_name(), properties)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put the alarm again."""
        return self._put(context, resource.physical_resource_id, properties)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the alarm."""
        context.client("cloudwatch").delete_alarms(AlarmNames=[resource.physical_resource_id])


class Dashboard(Provider):
    """AWS::CloudWatch::Dashboard; its body has to be JSON."""

    def _put(self, context: Context, name: str, properties: dict[str, Any]) -> Made:
        json.loads(properties["DashboardBody"])
        context.client("cloudwatch").put_dashboard(DashboardName=name, DashboardBody=properties["DashboardBody"])
        return Made(name)

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the dashboard."""
        return self._put(context, properties.get("DashboardName") or context.generated_name(), properties)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put the dashboard again."""
        return self._put(context, resource.physical_resource_id, properties)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the dashboard."""
        context.client("cloudwatch").delete_dashboards(DashboardNames=[resource.physical_resource_id])


class LogGroup(Provider):
    """AWS::Logs::LogGroup."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the group."""
        logs = context.client("logs")
        name = properties.get("LogGroupName") or context.generated_name()
        given = {"kmsKeyId": properties["KmsKeyId"]} if "KmsKeyId" in properties else {}
        logs.create_log_group(logGroupName=name, tags=context.all_tags(properties), **given)
        with or_undo(lambda: logs.delete_log_group(logGroupName=name)):
            self._retention(logs, name, properties)
        return Made(name, {"Arn": context.arn("logs", f"log-group:{name}:*")})

    def _retention(self, logs: Any, name: str, properties: dict[str, Any]) -> None:
        if "RetentionInDays" in properties:
            logs.put_retention_policy(logGroupName=name, retentionInDays=properties["RetentionInDays"])
        else:
            logs.delete_retention_policy(logGroupName=name)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change retention and tags; anything else is refused."""
        changed = {
            key for key in {*properties, *resource.properties} if properties.get(key) != resource.properties.get(key)
        }
        if changed - {"RetentionInDays", "Tags"}:
            return super().update(context, resource, properties)
        logs, name = context.client("logs"), resource.physical_resource_id
        self._retention(logs, name, properties)
        gone = [key for key in context.all_tags(resource.properties) if key not in context.all_tags(properties)]
        if gone:
            logs.untag_log_group(logGroupName=name, tags=gone)
        logs.tag_log_group(logGroupName=name, tags=context.all_tags(properties))
        return Made(name, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the group."""
        context.client("logs").delete_log_group(logGroupName=resource.physical_resource_id)


class Subscription(Provider):
    """AWS::SNS::Subscription."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Subscribe to the topic."""
        given = {name: properties[name] for name in ("TopicArn", "Protocol", "Endpoint") if name in properties}
        arn = context.client("sns").subscribe(**given, ReturnSubscriptionArn=True)["SubscriptionArn"]
        return Made(arn, {"Arn": arn})

    def delete(self, context: Context, resource: Resource) -> None:
        """Unsubscribe."""
        context.client("sns").unsubscribe(SubscriptionArn=resource.physical_resource_id)


class TopicPolicy(Provider):
    """AWS::SNS::TopicPolicy."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the policy on the topics."""
        self._put(context, properties)
        made = context.generated_name()
        return Made(made, {"Id": made})

    def _put(self, context: Context, properties: dict[str, Any]) -> None:
        policy = properties["PolicyDocument"]
        document = policy if isinstance(policy, str) else json.dumps(policy)
        for arn in properties["Topics"]:
            context.client("sns").set_topic_attributes(TopicArn=arn, AttributeName="Policy", AttributeValue=document)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put the new policy in place of the old one."""
        self._put(context, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """The topic goes back to its default policy when it is deleted; SNS has no call that takes a policy away."""


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::CloudWatch::Alarm": Alarm,
    "AWS::CloudWatch::CompositeAlarm": Alarm,
    "AWS::CloudWatch::Dashboard": Dashboard,
    "AWS::Logs::LogGroup": LogGroup,
    "AWS::SNS::Subscription": Subscription,
    "AWS::SNS::TopicPolicy": TopicPolicy,
}
