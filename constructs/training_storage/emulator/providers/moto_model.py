"""Types for which moto has a CloudFormation model that can both create and delete.

A model that cannot delete would leave its resource behind without a word, so such types are treated as if moto had no
model at all.
"""

from __future__ import annotations

from typing import Any

from moto.cloudformation.exceptions import UnformattedGetAttTemplateException
from moto.cloudformation.parsing import get_model_map
from moto.core.common_models import CloudFormationModel

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError


def model_of(type_name: str) -> type[CloudFormationModel] | None:
    """Return moto's model of a type, if it is complete enough to be trusted with a stack."""
    model = get_model_map().get(type_name)
    if model is None:
        return None
    return model if _implements(model, "delete_from_cloudformation_json") or hasattr(model, "delete") else None


def _implements(model: type[CloudFormationModel], method: str) -> bool:
    return not hasattr(getattr(model, method), "__isabstractmethod__")


class MotoModelProvider(Provider):
    """A type that moto's own model creates."""

    def __init__(self, type_name: str, region: str) -> None:
        super().__init__(type_name, region)
        self.model = get_model_map()[type_name]

    def has_attribute(self, name: str) -> bool:
        """Say what the registry says; without a schema, what moto says."""
        return super().has_attribute(name) or self.model.has_cfn_attr(name)

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Let moto create it."""
        made = self.model.create_from_cloudformation_json(
            self._name(context, properties),
            {"Type": self.type_name, "Properties": _copy(properties)},
            context.account,
            context.region,
            LogicalId=context.logical_id,
            StackId=context.stack_id,
            ResourceType=self.type_name,
        )
        return Made(str(made.physical_resource_id), state=made)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Let moto update it, and refuse to call it an update when moto made another one."""
        if not _implements(self.model, "update_from_cloudformation_json"):
            return super().update(context, resource, properties)
        name_property = self.model.cloudformation_name_type()
        new = _copy(properties)
        if name_property and self.schema and name_property in self.schema.document.get("properties", {}):
            # moto takes a missing name for a new name, and would create another resource
            new.setdefault(name_property, resource.physical_resource_id)
        changed = self.model.update_from_cloudformation_json(
            original_resource=resource.state,
            new_resource_name=resource.physical_resource_id,
            cloudformation_json={"Type": self.type_name, "Properties": new},
            account_id=context.account,
            region_name=context.region,
        )
        if str(changed.physical_resource_id) != resource.physical_resource_id:
            raise ResourceError(f"the emulator cannot update {self.type_name} in place: it was made anew")
        return Made(resource.physical_resource_id, state=changed)

    def delete(self, context: Context, resource: Resource) -> None:
        """Let moto delete it."""
        if _implements(self.model, "delete_from_cloudformation_json"):
            self.model.delete_from_cloudformation_json(
                resource.physical_resource_id,
                {"Type": self.type_name, "Properties": _copy(resource.properties)},
                context.account,
                context.region,
            )
        else:
            resource.state.delete(context.account, context.region)

    def attribute(self, context: Context, resource: Resource, name: str) -> Any:
        """Ask moto; where it does not know an attribute that the registry lists, invent one."""
        if name not in resource.attributes:
            try:
                value = resource.state.get_cfn_attribute(name)
            except (AttributeError, NotImplementedError, UnformattedGetAttTemplateException):
                value = None
            if value is None:
                return super().attribute(context, resource, name)
            return value
        return resource.attributes[name]

    def _name(self, context: Context, properties: dict[str, Any]) -> str:
        name_property = self.model.cloudformation_name_type()
        given = properties.get(name_property) if name_property else None
        return str(given) if given else context.generated_name(64)


def _copy(value: Any) -> Any:
    """Moto's models change what they are given."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
