"""Every type that has no model of its own: known from its registry schema alone.

Such a resource lives in the stack and nowhere else. Its properties are checked, its id and attributes are invented in
the shape that the schema describes, and a reference to it resolves; no describe call of its service will show it.
"""

from __future__ import annotations

from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource


class GenericProvider(Provider):
    """A type that exists only as its schema says."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Remember the resource, under an id made from its identifier properties."""
        known, named = (self.schema.read_only, self.schema.identifier) if self.schema else ((), ())
        attributes = {name: self.invented(context, name) for name in known}
        parts = []
        for name in named:
            value = properties.get(name, attributes.get(name))
            if value is None:
                value = context.generated_name(63, lower=True) if "Name" in name else self.invented(context, name)
            parts.append(str(value))
        return Made("|".join(parts) or context.generated_name(), attributes)

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:  # noqa: ARG002
        """Keep id and attributes; the engine keeps the new properties."""
        return Made(resource.physical_resource_id, resource.attributes, resource.state)

    def delete(self, context: Context, resource: Resource) -> None:
        """Nothing outlives the stack's memory."""
