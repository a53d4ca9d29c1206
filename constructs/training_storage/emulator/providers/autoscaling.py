"""Auto Scaling groups and what hangs on them, through the Auto Scaling API."""

from __future__ import annotations

from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource

# Properties that the API takes as they are, at creation and at update.
_SHARED = (
    "AvailabilityZones", "CapacityRebalance", "Context", "DefaultInstanceWarmup", "DesiredCapacityType",
    "HealthCheckGracePeriod", "HealthCheckType", "LaunchConfigurationName", "LaunchTemplate", "MaxInstanceLifetime",
    "MixedInstancesPolicy", "NewInstancesProtectedFromScaleIn", "PlacementGroup", "ServiceLinkedRoleARN",
    "TerminationPolicies", "AvailabilityZoneDistribution", "AvailabilityZoneImpairmentPolicy", "DeletionProtection",
    "CapacityReservationSpecification", "InstanceMaintenancePolicy", "SkipZonalShiftValidation",
)  # fmt: skip
_CREATE_ONLY = (
    "InstanceId",
    "LoadBalancerNames",
    "TargetGroupARNs",
    "LifecycleHookSpecificationList",
    "TrafficSources",
)


class Group(Provider):
    """AWS::AutoScaling::AutoScalingGroup; its instances start at once, and no creation signal is waited for."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the group."""
        name = properties.get("AutoScalingGroupName") or context.generated_name()
        autoscaling = context.client("autoscaling")
        autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            **self._given(properties, *_SHARED, *_CREATE_ONLY),
            Tags=self._tags(context, name, properties),
        )
        group = autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"][0]
        return Made(name, {"AutoScalingGroupARN": group["AutoScalingGroupARN"]})

    def _given(self, properties: dict[str, Any], *names: str) -> dict[str, Any]:
        given = {name: properties[name] for name in names if name in properties}
        for name, api in (("MinSize", "MinSize"), ("MaxSize", "MaxSize"), ("DesiredCapacity", "DesiredCapacity")):
            if name in properties:
                given[api] = int(properties[name])
        if "Cooldown" in properties:
            given["DefaultCooldown"] = int(properties["Cooldown"])
        if properties.get("VPCZoneIdentifier"):
            given["VPCZoneIdentifier"] = ",".join(properties["VPCZoneIdentifier"])
        return given

    def _tags(self, context: Context, name: str, properties: dict[str, Any]) -> list[dict[str, Any]]:
        launch = {tag["Key"]: tag.get("PropagateAtLaunch", True) for tag in properties.get("Tags") or ()}
        return [
            {
                "ResourceId": name,
                "ResourceType": "auto-scaling-group",
                "Key": key,
                "Value": value,
                "PropagateAtLaunch": bool(launch.get(key, True)),
            }
            for key, value in context.all_tags(properties, system=True).items()
        ]

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change the group in place; running instances stay as they are."""
        autoscaling, name = context.client("autoscaling"), resource.physical_resource_id
        autoscaling.update_auto_scaling_group(AutoScalingGroupName=name, **self._given(properties, *_SHARED))
        before, after = context.all_tags(resource.properties), context.all_tags(properties)
        gone = [key for key in before if key not in after]
        if gone:
            base = {"ResourceId": name, "ResourceType": "auto-scaling-group"}
            autoscaling.delete_tags(Tags=[{**base, "Key": key} for key in gone])
        autoscaling.create_or_update_tags(Tags=self._tags(context, name, properties))
        return Made(name, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the group and its instances."""
        context.client("autoscaling").delete_auto_scaling_group(
            AutoScalingGroupName=resource.physical_resource_id, ForceDelete=True
        )


class LifecycleHook(Provider):
    """AWS::AutoScaling::LifecycleHook."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the hook on its group."""
        name = properties.get("LifecycleHookName") or context.generated_name()
        context.client("autoscaling").put_lifecycle_hook(**{**properties, "LifecycleHookName": name})
        return Made(name, {"LifecycleHookName": name})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put the hook again."""
        name = resource.physical_resource_id
        context.client("autoscaling").put_lifecycle_hook(**{**properties, "LifecycleHookName": name})
        return Made(name, resource.attributes)

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the hook away."""
        context.client("autoscaling").delete_lifecycle_hook(
            LifecycleHookName=resource.physical_resource_id,
            AutoScalingGroupName=resource.properties["AutoScalingGroupName"],
        )


class ScheduledAction(Provider):
    """AWS::AutoScaling::ScheduledAction."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Put the action on its group, under a generated name."""
        return self._put(context, context.generated_name(), properties)

    def _put(self, context: Context, name: str, properties: dict[str, Any]) -> Made:
        given = dict(properties)
        for size in ("MinSize", "MaxSize", "DesiredCapacity"):
            if size in given:
                given[size] = int(given[size])
        context.client("autoscaling").put_scheduled_update_group_action(**given, ScheduledActionName=name)
        return Made(name, {"ScheduledActionName": name})

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Put the action again."""
        return self._put(context, resource.physical_resource_id, properties)

    def delete(self, context: Context, resource: Resource) -> None:
        """Take the action away."""
        context.client("autoscaling").delete_scheduled_action(
            ScheduledActionName=resource.physical_resource_id,
            AutoScalingGroupName=resource.properties["AutoScalingGroupName"],
        )


PROVIDERS: dict[str, type[Provider]] = {
    "AWS::AutoScaling::AutoScalingGroup": Group,
    "AWS::AutoScaling::LifecycleHook": LifecycleHook,
    "AWS::AutoScaling::ScheduledAction": ScheduledAction,
}
