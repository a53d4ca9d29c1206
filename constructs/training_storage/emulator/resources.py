"""What the engine works out about resources: their policies, their order, and why one failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from training_storage.emulator.intrinsics import Scope, text
from training_storage.emulator.providers.base import Made, Resource, error_code, reason
from training_storage.emulator.template import TemplateError

# Codes, besides those that say NotFound, with which a service says that there is nothing to delete.
_GONE = {"NoSuchBucket", "NoSuchEntity", "NoSuchBucketPolicy"}


def policy(scope: Scope, entry: Mapping[str, Any], name: str) -> str:
    """Return DeletionPolicy or UpdateReplacePolicy of a resource in a template; Delete where it has none."""
    value = entry.get(name)
    return "Delete" if value is None else text(scope.resolve(value))


def changed(old: Resource, properties: dict[str, Any], made: Made, waits: tuple[str, ...]) -> Resource:
    """Return a resource as it is after an update."""
    return Resource(
        logical_resource_id=old.logical_resource_id,
        physical_resource_id=made.physical_id,
        cf_resource_type=old.cf_resource_type,
        properties=properties,
        attributes=dict(made.attributes) or old.attributes,
        deletion_policy=old.deletion_policy,
        depends=waits,
        state=made.state if made.state is not None else old.state,
        status="UPDATE_COMPLETE",
    )


def newest_first(resources: Mapping[str, Resource]) -> list[str]:
    """Order resources so that everything goes before what it stands on."""
    done: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in done and name in resources:
            for other in resources[name].depends:
                visit(other)
            done[name] = None

    for name in resources:
        visit(name)
    return list(reversed(done))


def depth(resource: Resource, among: Sequence[Resource]) -> int:
    """Return how many of the others a resource stands on, one upon the other."""
    by_name = {item.logical_resource_id: item for item in among}
    return max((1 + depth(by_name[name], among) for name in resource.depends if name in by_name), default=0)


def already_gone(error: BaseException) -> bool:
    """Say whether a delete failed because there is nothing to delete; CloudFormation takes that for done."""
    code = error_code(error)
    return "NotFound" in code or code in _GONE


def explain(error: BaseException) -> str:
    """Return an error as the reason of a stack event."""
    return str(error) if isinstance(error, TemplateError) else reason(error)
