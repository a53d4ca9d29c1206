"""A stack as moto's answers expect to find it, with what the engine knows about it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from moto.cloudformation.models import Event, Stack
from moto.cloudformation.parsing import Export
from moto.core.utils import utcnow
from moto.utilities.utils import get_partition

from training_storage.emulator.errors import StackEvent
from training_storage.emulator.providers.base import Context, Resource
from training_storage.emulator.template import Template

# Deploys of one emulator run one after the other: CloudFormation runs stacks side by side, but nothing here depends on
# that, and moto's backends have no locks of their own.
DEPLOY_LOCK = threading.RLock()


class EmulatedStack(Stack):
    """Replaces moto's stack: same face to the API, another engine behind it."""

    def __init__(
        self,
        *,
        stack_id: str,
        name: str,
        account_id: str,
        region_name: str,
        parameters: Mapping[str, Any],
        tags: Mapping[str, str] | None = None,
        notification_arns: list[str] | None = None,
        role_arn: str | None = None,
        enable_termination_protection: bool = False,
        timeout_in_mins: int | None = None,
        policy: str = "",
        disable_rollback: bool = False,
    ) -> None:
        # moto's own __init__ would start its engine; every attribute that its answers read is set here instead
        self.stack_id = stack_id
        self.name = name
        self.account_id = account_id
        self.region_name = region_name
        self.template: Any = ""
        self.template_dict: dict[str, Any] = {}
        self.description = None
        self.parameters = dict(parameters)
        self.notification_arns = notification_arns or []
        self.role_arn = role_arn
        self.tags = dict(tags or {})
        self.events: list[Event] = []
        self.timeout_in_minutes = timeout_in_mins
        self.policy = policy
        self.enable_termination_protection = enable_termination_protection
        self.creation_time = utcnow()
        self.status = "REVIEW_IN_PROGRESS"
        self.status_reason: str | None = None
        self.disable_rollback = disable_rollback

        self.loaded: Template | None = None
        self.resources: dict[str, Resource] = {}
        self.resolved_parameters: dict[str, Any] = {}
        self.hidden_parameters: set[str] = set()
        self.output_list: list[dict[str, Any]] = []
        self.export_values: dict[str, str] = {}
        self.imports: set[str] = set()

    @property
    def partition(self) -> str:
        """Partition of the stack's region."""
        return get_partition(self.region_name)

    @property
    def parameter_list(self) -> list[dict[str, Any]]:
        """Parameters with the values that were used, and what an SSM parameter resolved to."""
        listed = []
        for key, value in self.resolved_parameters.items():
            given = self.parameters.get(key, _default(self.template_dict, key))
            shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            entry = {"ParameterKey": key, "ParameterValue": "****" if key in self.hidden_parameters else shown}
            kind = self.template_dict.get("Parameters", {}).get(key, {}).get("Type", "")
            if kind.startswith("AWS::SSM::Parameter::"):
                entry = {"ParameterKey": key, "ParameterValue": str(given), "ResolvedValue": shown}
            listed.append(entry)
        return listed

    @property
    def stack_parameters(self) -> dict[str, Any]:
        """Parameters with their final values."""
        return self.resolved_parameters

    @property
    def stack_resources(self) -> list[Any]:
        """The resources that exist."""
        return list(self.resources.values())

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """Outputs, as DescribeStacks shows them."""
        return self.output_list

    @property
    def exports(self) -> list[Export]:
        """Exports of this stack."""
        return [Export(self.stack_id, name, value) for name, value in self.export_values.items()]

    @property
    def template_description(self) -> str | None:
        """The template's description."""
        return self.template_dict.get("Description")

    def use(self, template: Template) -> None:
        """Make a template the stack's current one."""
        self.loaded = template
        self.template = template.body
        self.template_dict = template.document
        self.description = template.document.get("Description")

    def context(self, logical_id: str) -> Context:
        """Return where a resource of this stack is being made."""
        return Context(
            account=self.account_id,
            region=self.region_name,
            partition=self.partition,
            stack_id=self.stack_id,
            stack_name=self.name,
            logical_id=logical_id,
            tags=self.tags,
        )

    def set_status(self, status: str, why: str | None = None) -> None:
        """Move the stack to a status and say so in its history."""
        self.status = status
        self.status_reason = why
        self.record(self.name, self.stack_id, "AWS::CloudFormation::Stack", status, why)

    def record(self, logical_id: str, physical_id: str, kind: str, status: str, why: str | None = None) -> None:
        """Add an event to the stack's history."""
        event = Event(
            stack_id=self.stack_id,
            stack_name=self.name,
            logical_resource_id=logical_id,
            physical_resource_id=physical_id,
            resource_type=kind,
            resource_status=status,
            resource_status_reason=why,
            resource_properties=None,
        )
        event.sendToSns(self.account_id, self.region_name, self.notification_arns)
        self.events.append(event)

    def history(self) -> tuple[StackEvent, ...]:
        """Return the events in the emulator's own words, oldest first."""
        return tuple(
            StackEvent(
                event.logical_resource_id,
                event.resource_type,
                event.resource_status,
                event.resource_status_reason or "",
            )
            for event in self.events
        )

    def first_failure(self, since: int = 0) -> str:
        """Return the first reason that an event gives for a failure; empty when nothing failed."""
        for event in self.events[since:]:
            if event.resource_status.endswith("_FAILED") and event.resource_status_reason:
                return f"{event.logical_resource_id} ({event.resource_type}): {event.resource_status_reason}"
        return ""


def _default(template: Mapping[str, Any], parameter: str) -> Any:
    return template.get("Parameters", {}).get(parameter, {}).get("Default")
