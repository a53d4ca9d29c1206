"""Tags of EC2 resources, which all work the same way."""

from __future__ import annotations

from typing import Any

from training_storage.emulator.providers.base import Context, Made, Provider, Resource


def specification(context: Context, properties: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """Return ``TagSpecifications`` for a create call."""
    return [{"ResourceType": kind, "Tags": context.tag_list(properties, system=True)}]


def retag(context: Context, resource_id: str, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Make a resource's tags those of its new properties."""
    ec2 = context.client("ec2")
    before, after = (context.all_tags(old), context.all_tags(new))
    gone = [{"Key": key} for key in before if key not in after]
    if gone:
        ec2.delete_tags(Resources=[resource_id], Tags=gone)
    ec2.create_tags(Resources=[resource_id], Tags=context.tag_list(new, system=True))


class TaggedProvider(Provider):
    """An EC2 resource in which nothing but its tags can change in place."""

    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:
        """Change the tags; refuse anything else."""
        others = {
            name
            for name in {*resource.properties, *properties}
            if resource.properties.get(name) != properties.get(name)
        } - {"Tags"}
        if others:
            return super().update(context, resource, properties)
        retag(context, self.tagged_id(resource), resource.properties, properties)
        return Made(resource.physical_resource_id, resource.attributes)

    def tagged_id(self, resource: Resource) -> str:
        """Return the id that carries the tags."""
        return resource.physical_resource_id
