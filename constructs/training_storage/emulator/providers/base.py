"""What a resource type has to say about itself so that the engine can create, change and delete it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from training_storage.emulator import clients, schemas


class ResourceError(Exception):
    """A resource cannot be created, changed or deleted; the text becomes the reason in the stack's events.

    It is raised before anything is changed.
    """


@contextmanager
def ignoring(*codes: str) -> Iterator[None]:
    """Let a service say that what is to be taken away is not there."""
    try:
        yield
    except ClientError as error:
        if error_code(error) not in codes:
            raise


@contextmanager
def or_undo(undo: Callable[[], Any]) -> Iterator[None]:
    """Take back the first part of a create when a later part fails: the stack knows of no half resource."""
    try:
        yield
    except Exception:  # whatever it was: it is raised again
        undo()
        raise


def reason(error: BaseException) -> str:
    """Return an error as the reason of a stack event."""
    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        return f"{details.get('Message', error)} (Service: {error.operation_name}, Code: {details.get('Code', '?')})"
    if isinstance(error, ResourceError | BotoCoreError):
        return str(error)
    message = getattr(error, "message", None) or str(error)
    return message if getattr(error, "code", None) else f"{type(error).__name__}: {message}"


def error_code(error: BaseException) -> str:
    """Return the service's code of a ClientError; empty for anything else."""
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


@dataclass(frozen=True, slots=True)
class Context:
    """Where a resource is being made.

    Attributes:
        account: Account id.
        region: Region name.
        partition: ``aws``, ``aws-cn`` or ``aws-us-gov``.
        stack_id: ARN of the stack.
        stack_name: Name of the stack.
        logical_id: Logical id of the resource.
        tags: Tags of the stack, which its resources inherit.
    """

    account: str
    region: str
    partition: str
    stack_id: str
    stack_name: str
    logical_id: str
    tags: dict[str, str] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        """Return the boto3 client of a service, in the stack's account and region."""
        return clients.client(service, self.account, self.region)

    def arn(self, service: str, resource: str) -> str:
        """Return an ARN in the stack's partition, region and account."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def generated_name(self, limit: int = 255, *, lower: bool = False) -> str:
        """Return the kind of name that CloudFormation gives: stack, logical id and a random end, cut to fit."""
        end = uuid.uuid4().hex[:12]
        end = end if lower else end.upper()
        room = limit - len(end) - 1
        name = f"{self.stack_name}-{self.logical_id}"
        if len(name) > room:
            half = (room - 1) // 2
            name = f"{self.stack_name[:half]}-{self.logical_id[: room - 1 - min(half, len(self.stack_name))]}"
        name = f"{name.rstrip('-')}-{end}"
        return re.sub(r"[^a-z0-9-]", "", name.lower()) if lower else name

    def all_tags(self, properties: dict[str, Any], *, system: bool = False) -> dict[str, str]:
        """Return a resource's own tags over those of the stack.

        Args:
            properties: Properties of the resource, with ``Tags`` as a list or a map.
            system: Add the ``aws:`` tags that CloudFormation writes; most emulated services refuse them from anybody.
        """
        own = properties.get("Tags") or []
        mine = dict(own) if isinstance(own, dict) else {tag["Key"]: str(tag["Value"]) for tag in own}
        written = {
            "aws:cloudformation:stack-name": self.stack_name,
            "aws:cloudformation:stack-id": self.stack_id,
            "aws:cloudformation:logical-id": self.logical_id,
        }
        return {**(written if system else {}), **self.tags, **mine}

    def tag_list(self, properties: dict[str, Any], *, system: bool = False) -> list[dict[str, str]]:
        """Return the same tags as a list of Key and Value."""
        return [{"Key": name, "Value": value} for name, value in self.all_tags(properties, system=system).items()]

    def tagged(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Return the argument ``Tags`` of a create call; nothing without tags, since the list may not be empty."""
        tags = self.tag_list(properties)
        return {"Tags": tags} if tags else {}


@dataclass(slots=True)
class Resource:
    """A resource that exists, as the stack remembers it.

    The first three names are those that moto's answers look for.
    """

    logical_resource_id: str
    physical_resource_id: str
    cf_resource_type: str
    properties: dict[str, Any]
    attributes: dict[str, Any]
    deletion_policy: str = "Delete"
    depends: tuple[str, ...] = ()
    state: Any = None
    status: str = "CREATE_COMPLETE"


@dataclass(slots=True)
class Made:
    """What a provider reports after creating or updating: the physical id, and the attributes for ``Fn::GetAtt``."""

    physical_id: str
    attributes: dict[str, Any] = field(default_factory=dict)
    state: Any = None


class Provider:
    """One resource type. Subclasses say how; the engine says when.

    ``create`` and ``update`` get resolved properties that were checked against the registry schema.
    """

    def __init__(self, type_name: str, region: str) -> None:
        self.type_name = type_name
        self.region = region
        self.schema = schemas.load(type_name, region)

    def check(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Return properties with the types that the schema wants.

        Raises:
            ResourceError: The schema refuses them.
        """
        if self.schema is None:
            return properties
        coerced = self.schema.coerce(properties)
        problem = self.schema.problem(coerced)
        if problem:
            raise ResourceError(problem)
        return coerced

    def has_attribute(self, name: str) -> bool:
        """Say whether ``Fn::GetAtt`` may ask for this attribute of the type."""
        return self.schema is not None and name in self.schema.read_only

    def replaced_by(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """Name the changed properties that need a new resource; empty when the change can be made in place."""
        return schemas.changed_create_only(self.schema, old, new) if self.schema else []

    def custom_named(self, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
        """Name the identifier properties, if the user gave all of them and left them as they are.

        Such a resource cannot be replaced: the new one would need the name of the old one.
        """
        names = self.schema.identifier if self.schema else ()
        return list(names) if names and all(name in new and old.get(name) == new[name] for name in names) else []

    def create(self, context: Context, properties: dict[str, Any]) -> Made:
        """Create the resource."""
        raise NotImplementedError  # abstract: each provider has its own

    # Others read the arguments that this one does not need.
    def update(self, context: Context, resource: Resource, properties: dict[str, Any]) -> Made:  # noqa: ARG002
        """Change the resource in place; ``resource.properties`` are the old ones."""
        changed = sorted(
            name
            for name in {*resource.properties, *properties}
            if resource.properties.get(name) != properties.get(name)
        )
        raise ResourceError(f"the emulator has no update in place for {self.type_name}: {', '.join(changed)} changed")

    def half_updated(self, error: Exception) -> bool:
        """Say whether an update that failed may have changed something, so that a rollback has to update back."""
        return not isinstance(error, ResourceError)

    def delete(self, context: Context, resource: Resource) -> None:
        """Delete the resource."""
        raise NotImplementedError  # abstract: each provider has its own

    def reference(self, context: Context, resource: Resource) -> str:  # noqa: ARG002 - some types need the context
        """What ``Ref`` gives."""
        return resource.physical_resource_id

    def attribute(self, context: Context, resource: Resource, name: str) -> Any:
        """What ``Fn::GetAtt`` gives.

        Raises:
            ResourceError: The type has no such attribute.
        """
        if name not in resource.attributes:
            if not self.has_attribute(name):
                raise ResourceError(f"{self.type_name} does not support attribute {name} in Fn::GetAtt")
            resource.attributes[name] = self.invented(context, name)
        return resource.attributes[name]

    def invented(self, context: Context, name: str) -> Any:
        """Make up an attribute that nothing but the registry knows.

        Raises:
            ResourceError: The registry does not know the type.
        """
        if self.schema is None:
            raise ResourceError(f"{self.type_name} has no schema to make {name} from")
        return schemas.invent(
            self.schema,
            name,
            partition=context.partition,
            region=context.region,
            account=context.account,
            logical_id=context.logical_id,
        )
