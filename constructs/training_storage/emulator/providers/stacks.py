"""Nested stacks."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError


class NestedStack(Provider):
    """AWS::CloudFormation::Stack."""

    def has_attribute(self, name: str) -> bool:
        """``Outputs.X`` is known once the nested stack is there."""
        return name.startswith("Outputs.") or super().has_attribute(name)

    def _ready(self, context: Context, stack_id: str) -> Made:
        stack = context.client("cloudformation").describe_stacks(StackName=stack_id)["Stacks"][0]
        if stack["StackStatus"] not in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            why = stack.get("StackStatusReason", "")
            raise ResourceError(f"Embedded stack {stack_id} was not successfully created or updated: {why}")
        outputs = {f"Outputs.{item['OutputKey']}": item["OutputValue"] for item in stack.get("Outputs", ())}
        return Made(stack_id, {"StackId": stack_id, **outputs})

    def _given(self, properties: dict[str, Any]) -> dict[str, Any]:
        parameters = properties.get("Parameters") or {}
        return {
            "TemplateURL": properties["TemplateURL"],
            # whoever deploys the outer stack has agreed to what is inside
            "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM", "CAPABILITY_AUTO_EXPAND"],
            "Parameters": [{"ParameterKey": key, "ParameterValue": str(value)} for key, value in parameters.items()],
        }

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the nested stack."""
        stack_id = context.client("cloudformation").create_stack(
            StackName=context.generated_name(128), **self._given(properties)
        )["StackId"]
        try:
            return self._ready(context, stack_id)
        except ResourceError:
            context.client("cloudformation").delete_stack(StackName=stack_id)
            raise

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Update the nested stack."""
        try:
            context.client("cloudformation").update_stack(
                StackName=resource.physical_resource_id, **self._given(properties)
            )
        except ClientError as error:
            # only something outside the nested template changed, tags for example
            if "No updates are to be performed" not in str(error):
                raise
        return self._ready(context, resource.physical_resource_id)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the nested stack."""
        client, stack_id = context.client("cloudformation"), resource.physical_resource_id
        client.delete_stack(StackName=stack_id)
        stack = client.describe_stacks(StackName=stack_id)["Stacks"][0]
        if stack["StackStatus"] != "DELETE_COMPLETE":
            raise ResourceError(f"Embedded stack {stack_id} was not deleted: {stack.get('StackStatusReason', '')}")


PROVIDERS: dict[str, type[Provider]] = {"AWS::CloudFormation::Stack": NestedStack}
