"""CloudFormation's API on top of the emulator's engine: stacks, change sets, events and exports.

moto's own operations lose outputs of change sets, answer the wrong change set where two stacks have one of the same
name, and report success where creating a resource raised. They are replaced, not mended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from moto.cloudformation.exceptions import AlreadyExistsException, CloudFormationError, ValidationError
from moto.cloudformation.models import Change, ChangeSet, CloudFormationBackend
from moto.cloudformation.responses import CloudFormationResponse
from moto.cloudformation.utils import generate_changeset_id, generate_stack_id
from moto.core.responses import ActionResult, EmptyResult
from moto.core.utils import utcnow

from training_storage.emulator import schemas
from training_storage.emulator import scope as scopes
from training_storage.emulator._moto import Patches
from training_storage.emulator.engine import Deployment
from training_storage.emulator.providers import provider_for
from training_storage.emulator.services.cloudformation_requests import (
    read_body,
    read_flag,
    read_parameters,
    read_tags,
    require_capabilities,
)
from training_storage.emulator.stack import DEPLOY_LOCK, EmulatedStack
from training_storage.emulator.template import Template, TemplateError, parse

NO_CHANGES = "The submitted information didn't contain changes. Submit different information to create a change set."

# A stack in one of these can only be deleted (or, on AWS, brought back by ContinueUpdateRollback).
_DEAD = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "DELETE_FAILED", "UPDATE_ROLLBACK_FAILED")

# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html
_NAME = re.compile(r"[a-zA-Z][-a-zA-Z0-9]{0,127}")


class ChangeSetNotFoundError(CloudFormationError):
    """The command line waits for this code, not for ValidationError."""

    code = "ChangeSetNotFound"


class _ChangeSet(ChangeSet):
    """A change set that holds its parsed template."""

    stack: EmulatedStack

    def __init__(
        self, stack: EmulatedStack, name: str, kind: str, template: Template, parameters: dict[str, Any]
    ) -> None:
        self.stack = stack
        self.stack_id, self.stack_name = stack.stack_id, stack.name
        self.change_set_id = generate_changeset_id(name, stack.region_name, stack.account_id)
        self.change_set_name = name
        self.change_set_type = kind
        self.loaded = template
        self.template = template.body
        self.template_dict = template.document
        self.parameters = parameters
        self.tags: Any = None
        self.notification_arns: list[str] | None = None
        self.role_arn: str | None = None
        self.description = ""
        self.creation_time = utcnow()
        self.changes: list[Change] = []
        self.status, self.execution_status = "CREATE_COMPLETE", "AVAILABLE"
        self.status_reason: str | None = None


def create(
    backend: CloudFormationBackend, name: str, template: Template, parameters: dict[str, Any], **options: Any
) -> EmulatedStack:
    """Create a stack and wait for its end.

    Raises:
        ValidationError: The template is refused; no stack is made.
        AlreadyExistsException: A stack of that name exists.
    """
    with DEPLOY_LOCK:
        if find(backend, name) is not None:
            raise AlreadyExistsException(f"Stack [{name}] already exists")
        stack = _new_stack(backend, name, parameters, **options)
        _check(stack, template, parameters)
        backend.stacks[stack.stack_id] = stack
        _run(lambda: Deployment(stack).create(template, parameters))
        return stack


def update(
    backend: CloudFormationBackend,
    name: str,
    template: Template,
    parameters: dict[str, Any],
    tags: dict[str, str] | None = None,
) -> EmulatedStack:
    """Update a stack and wait for its end.

    Raises:
        ValidationError: There is no such stack, it cannot be updated, or nothing would change.
    """
    with DEPLOY_LOCK:
        stack = need(backend, name)
        if stack.status in _DEAD or stack.status == "REVIEW_IN_PROGRESS":
            raise ValidationError(message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
        _check(stack, template, parameters)
        if not _differs(stack, template, parameters, tags):
            raise ValidationError(message="No updates are to be performed.")
        _run(lambda: Deployment(stack).update(template, parameters, tags))
        return stack


def delete(backend: CloudFormationBackend, name: str, retain: tuple[str, ...] = ()) -> EmulatedStack | None:
    """Delete a stack and wait for its end; None when there is none, which CloudFormation takes for done."""
    with DEPLOY_LOCK:
        stack = find(backend, name)
        if stack is None:
            return None
        if stack.enable_termination_protection:
            raise ValidationError(
                message=f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        if Deployment(stack).delete(retain):
            del backend.stacks[stack.stack_id]
            backend.deleted_stacks[stack.stack_id] = stack
            for key in [key for key, item in backend.change_sets.items() if item.stack_id == stack.stack_id]:
                del backend.change_sets[key]
    return stack


def find(backend: CloudFormationBackend, name: str) -> EmulatedStack | None:
    """Return a living stack by name or ARN."""
    for stack in list(backend.stacks.values()):
        if name in (stack.name, stack.stack_id) and isinstance(stack, EmulatedStack):
            return stack
    return None


def need(backend: CloudFormationBackend, name: str) -> EmulatedStack:
    """Return a living stack by name or ARN, or say that there is none."""
    stack = find(backend, name)
    if stack is None:
        raise ValidationError(message=f"Stack with id {name} does not exist")
    return stack


def _new_stack(backend: CloudFormationBackend, name: str, parameters: dict[str, Any], **options: Any) -> EmulatedStack:
    if not _NAME.fullmatch(name):
        raise ValidationError(
            message=f"1 validation error detected: Value '{name}' at 'stackName' failed to satisfy constraint: "
            f"Member must satisfy regular expression pattern: {_NAME.pattern}"
        )
    return EmulatedStack(  # type: ignore[abstract]  # moto's own class is used so too
        stack_id=generate_stack_id(name, backend.region_name, backend.account_id),
        name=name,
        account_id=backend.account_id,
        region_name=backend.region_name,
        parameters=parameters,
        **options,
    )


def _check(stack: EmulatedStack, template: Template, parameters: dict[str, Any]) -> None:
    _run(lambda: scopes.in_order(stack, template, scopes.build(stack, template, parameters)))


def _run(action: Callable[[], Any]) -> None:
    try:
        action()
    except TemplateError as error:
        raise ValidationError(message=str(error)) from None


def _parse(body: str) -> Template:
    try:
        return parse(body)
    except TemplateError as error:
        raise ValidationError(message=str(error)) from None


def _differs(stack: EmulatedStack, template: Template, parameters: dict[str, Any], tags: dict[str, str] | None) -> bool:
    if stack.template_dict != template.document or (tags is not None and tags != stack.tags):
        return True
    # An SSM parameter may have a new value under the same name.
    return scopes.build(stack, template, parameters).parameters != stack.resolved_parameters


def _changes(stack: EmulatedStack, template: Template, parameters: dict[str, Any]) -> list[Change]:
    """Say what a change set would do, as far as the templates tell without running it."""
    scope = scopes.build(stack, template, parameters)
    changes = []
    for logical_id, entry in template.resources.items():
        old = stack.template_dict.get("Resources", {}).get(logical_id)
        if logical_id not in scope.active:
            continue
        if logical_id not in stack.resources:
            changes.append(Change("Add", logical_id, entry["Type"]))
        elif old != entry or _touched(stack, scope, entry):
            changes.append(_modification(stack, logical_id, old or {}, entry))
    for logical_id, resource in stack.resources.items():
        if logical_id not in scope.active:
            changes.append(Change("Remove", logical_id, resource.cf_resource_type))
    for change in changes:
        existing = stack.resources.get(change.logical_resource_id)
        # Moto's class declares no such field.
        change.physical_resource_id = existing.physical_resource_id if existing else None  # type: ignore[attr-defined]
    return changes


def _touched(stack: EmulatedStack, scope: Any, entry: dict[str, Any]) -> bool:
    from training_storage.emulator.template import references

    return any(
        scope.parameters.get(name) != stack.resolved_parameters.get(name)
        for name, _ in references(entry.get("Properties"), scope.conditions)
        if name in scope.parameters
    )


def _modification(stack: EmulatedStack, logical_id: str, old: dict[str, Any], entry: dict[str, Any]) -> Any:
    change: Any = Change("Modify", logical_id, entry["Type"])
    provider = provider_for(entry["Type"], stack.region_name)
    before, after = old.get("Properties") or {}, entry.get("Properties") or {}
    replaced = schemas.changed_create_only(provider.schema, before, after) if provider and provider.schema else []
    change.replacement = "True" if replaced else "False"
    change.scope = ["Properties"] if before != after else ["Metadata"]
    return change


class _Operations:
    """Operations of the CloudFormation API, as methods of moto's response class."""

    def create_stack(self: Any) -> ActionResult:
        template = _parse(read_body(self))
        require_capabilities(self, template)
        on_failure = self._get_param("OnFailure") or "ROLLBACK"
        stack = create(
            self.cloudformation_backend,
            self._get_param("StackName"),
            template,
            read_parameters(self, {}),
            disable_rollback=read_flag(self, "DisableRollback") or on_failure == "DO_NOTHING",
            tags=read_tags(self),
            notification_arns=self._get_param("NotificationARNs", []),
            role_arn=self._get_param("RoleARN"),
            enable_termination_protection=read_flag(self, "EnableTerminationProtection"),
            timeout_in_mins=self._get_param("TimeoutInMinutes"),
            policy=self._get_param("StackPolicyBody") or "",
        )
        if on_failure == "DELETE" and stack.status == "ROLLBACK_COMPLETE":
            delete(self.cloudformation_backend, stack.stack_id)
        return ActionResult({"StackId": stack.stack_id})

    def update_stack(self: Any) -> ActionResult:
        stack = need(self.cloudformation_backend, self._get_param("StackName"))
        template = _parse(read_body(self, stack))
        require_capabilities(self, template)
        stack.disable_rollback = read_flag(self, "DisableRollback")
        update(
            self.cloudformation_backend,
            stack.name,
            template,
            read_parameters(self, stack.parameters),
            read_tags(self) or None,
        )
        return ActionResult({"StackId": stack.stack_id})

    def delete_stack(self: Any) -> ActionResult:
        name, retain = self._get_param("StackName"), tuple(self._get_param("RetainResources", []))
        stack = find(self.cloudformation_backend, name)
        if retain and stack is not None and stack.status != "DELETE_FAILED":
            raise ValidationError(
                message=f"Invalid operation on stack [{stack.stack_id}]. Specify resources to retain only when a stack "
                "is in the DELETE_FAILED state"
            )
        delete(self.cloudformation_backend, name, retain)
        return EmptyResult()

    def create_change_set(self: Any) -> ActionResult:
        backend = self.cloudformation_backend
        name, kind = self._get_param("StackName"), self._get_param("ChangeSetType") or "UPDATE"
        if kind == "IMPORT" or self._get_param("ResourcesToImport"):
            raise ValidationError(message="the emulator does not import existing resources into a stack")
        stack = find(backend, name)
        if stack is not None and any(
            item.change_set_name == self._get_param("ChangeSetName") and item.stack_id == stack.stack_id
            for item in backend.change_sets.values()
        ):
            raise AlreadyExistsException(f"ChangeSet {self._get_param('ChangeSetName')} already exists")
        if kind == "UPDATE" and stack is None:
            raise ValidationError(message=f"Stack [{name}] does not exist")
        if kind == "CREATE" and stack is not None and stack.status != "REVIEW_IN_PROGRESS":
            raise ValidationError(
                message=f"Stack [{name}] already exists and cannot be created again with the changeSet."
            )
        parameters = read_parameters(self, stack.parameters if stack else {})
        template = _parse(read_body(self, stack))
        require_capabilities(self, template, macros=False)  # a change set shows what a macro made
        if stack is None:
            stack = _new_stack(backend, name, parameters, tags=read_tags(self), role_arn=self._get_param("RoleARN"))
            _check(stack, template, parameters)
            backend.stacks[stack.stack_id] = stack
            stack.set_status("REVIEW_IN_PROGRESS", "User Initiated")
        elif stack.status in _DEAD:
            raise ValidationError(message=f"Stack:{stack.stack_id} is in {stack.status} state and can not be updated.")
        else:
            _check(stack, template, parameters)
        change_set = _ChangeSet(stack, self._get_param("ChangeSetName"), kind, template, parameters)
        change_set.tags = read_tags(self)
        change_set.description = self._get_param("Description")
        change_set.notification_arns = self._get_param("NotificationARNs", [])
        change_set.changes = _changes(stack, template, parameters)
        if kind == "UPDATE" and not _differs(stack, template, parameters, change_set.tags or stack.tags):
            change_set.status, change_set.execution_status = "FAILED", "UNAVAILABLE"
            change_set.status_reason = NO_CHANGES
        backend.change_sets[change_set.change_set_id] = change_set
        return ActionResult({"Id": change_set.change_set_id, "StackId": stack.stack_id})

    def describe_change_set(self: Any) -> ActionResult:
        return ActionResult(_change_set(self))

    def delete_change_set(self: Any) -> ActionResult:
        with suppress(ChangeSetNotFoundError):  # deleting what is not there is no error
            del self.cloudformation_backend.change_sets[_change_set(self).change_set_id]
        return EmptyResult()

    def execute_change_set(self: Any) -> ActionResult:
        change_set = _change_set(self)
        stack = change_set.stack
        if change_set.execution_status != "AVAILABLE":
            raise ValidationError(
                message=f"ChangeSet [{change_set.change_set_id}] cannot be executed in its current status of "
                f"[{change_set.status}]"
            )
        stack.disable_rollback = read_flag(self, "DisableRollback")
        with DEPLOY_LOCK:
            # the others were made against what is about to change
            sets = self.cloudformation_backend.change_sets
            for key in [key for key, item in sets.items() if item.stack_id == stack.stack_id]:
                del sets[key]
            deployment = Deployment(stack)
            if change_set.change_set_type == "CREATE":
                stack.tags = dict(change_set.tags or {})
                _run(lambda: deployment.create(change_set.loaded, change_set.parameters))
            else:
                tags = change_set.tags or None
                _run(lambda: deployment.update(change_set.loaded, change_set.parameters, tags))
        return EmptyResult()

    def list_change_sets(self: Any) -> ActionResult:
        stack = need(self.cloudformation_backend, self._get_param("StackName"))
        sets = [item for item in self.cloudformation_backend.change_sets.values() if item.stack_id == stack.stack_id]
        return ActionResult({"Summaries": sets})

    def list_imports(self: Any) -> ActionResult:
        name = self._get_param("ExportName")
        users = [stack.name for stack in self.cloudformation_backend.stacks.values() if name in stack.imports]
        if not users:
            raise ValidationError(message=f"Export '{name}' is not imported by any stack.")
        return ActionResult({"Imports": users})

    def update_termination_protection(self: Any) -> ActionResult:
        stack = need(self.cloudformation_backend, self._get_param("StackName"))
        stack.enable_termination_protection = read_flag(self, "EnableTerminationProtection")
        return ActionResult({"StackId": stack.stack_id})


def _change_set(response: Any) -> _ChangeSet:
    name, stack = response._get_param("ChangeSetName"), response._get_param("StackName")
    for item in response.cloudformation_backend.change_sets.values():
        meant = item.change_set_id == name or (
            item.change_set_name == name and stack in (item.stack_name, item.stack_id)
        )
        if meant and isinstance(item, _ChangeSet):
            return item
    raise ChangeSetNotFoundError(f"ChangeSet [{name}] does not exist")


def install(patches: Patches) -> None:
    """Put the operations in place of moto's."""
    for name, function in vars(_Operations).items():
        if not name.startswith("_"):
            patches.set(CloudFormationResponse, name, function)

    def no_stack_sets(_self: Any, *_: Any, **__: Any) -> Any:
        # moto would make the stacks of a stack set with its own engine, which skips what it does not know
        raise ValidationError(message="the emulator does not run stack sets")

    for name in ("create_stack_set", "update_stack_set", "create_stack_instances", "update_stack_instances"):
        patches.set(CloudFormationResponse, name, no_stack_sets)
    summary = CloudFormationResponse.get_template_summary

    def get_template_summary(self: Any) -> ActionResult:
        # moto reads the template with a YAML loader that takes dates for dates
        result = summary(self)
        return ActionResult(json.loads(json.dumps(result.result, default=str)))

    patches.set(CloudFormationResponse, "get_template_summary", get_template_summary)
