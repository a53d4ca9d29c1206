"""Every type that has no model of its own: known from its registry schema alone.

Such a resource lives in the stack and nowhere else. Its properties are checked, its id and attributes are invented in
the shape that the schema describes, and a reference to it resolves; no describe call of its service will show it.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from training_storage.emulator.providers.base import Context, Made, Provider, Resource, ResourceError


class GenericProvider(Provider):
    """A type that exists only as its schema says."""

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Remember the resource, under an id made from its identifier properties."""
        known, named = (self.schema.read_only, self.schema.identifier) if self.schema else ((), ())
        if named and all(name in properties for name in named):
            self._claim(context, "|".join(str(properties[name]) for name in named))
        attributes = {name: self.invented(context, name) for name in known}
        parts = []
        for name in named:
            value = properties.get(name, attributes.get(name))
            if value is None:
                value = context.generated_name(63, lower=True) if "Name" in name else self.invented(context, name)
            parts.append(str(value))
        return Made("|".join(parts) or context.generated_name(), attributes)

    def _claim(self, context: Context, name: str) -> None:
        """Refuse a name that is taken, also by a resource that a stack retained when it was deleted."""
        taken = _names.setdefault(_backend(context), set())
        if (self.type_name, name) in taken:
            raise ResourceError(f"Resource of type '{self.type_name}' with identifier '{name}' already exists.")
        taken.add((self.type_name, name))

    # Others read the arguments that this one does not need.
    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:  # noqa: ARG002
        """Keep id and attributes; the engine keeps the new properties."""
        return Made(resource.physical_resource_id, resource.attributes, resource.state)

    def delete(self, context: Context, resource: Resource) -> None:
        """Forget it, and free its name."""
        _names.setdefault(_backend(context), set()).discard((self.type_name, resource.physical_resource_id))


# Kept by backend: a new emulator has new backends, and names are unique in an account and region.
_names: WeakKeyDictionary[Any, set[tuple[str, str]]] = WeakKeyDictionary()


def _backend(context: Context) -> Any:
    from moto.cloudformation.models import cloudformation_backends

    return cloudformation_backends[context.account][context.region]
