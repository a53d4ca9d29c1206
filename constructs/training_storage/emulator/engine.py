"""Creates, updates and deletes stacks: in order, with rollback, and with a reason for everything that fails.

moto's own engine skips what it does not know and calls the stack complete; this one has no such path. A resource is
made by its provider or the stack fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moto.cloudformation.models import cloudformation_backends

from training_storage.emulator import outputs
from training_storage.emulator import scope as scopes
from training_storage.emulator.intrinsics import Scope
from training_storage.emulator.providers import existing, provider_for
from training_storage.emulator.providers.base import Made, Provider, Resource, ResourceError
from training_storage.emulator.resources import already_gone, changed, depth, explain, newest_first, policy
from training_storage.emulator.stack import DEPLOY_LOCK, EmulatedStack
from training_storage.emulator.template import Template, TemplateError

_STACK = "AWS::CloudFormation::Stack"


class _FailedError(Exception):
    """A resource failed; its event is written, and the stack has to roll back."""


@dataclass(slots=True)
class _Leftover:
    """A resource that the new template no longer needs, to be deleted once the update is safe."""

    resource: Resource
    policy: str


class Deployment:
    """One create, update or delete of one stack."""

    def __init__(self, stack: EmulatedStack) -> None:
        self.stack = stack
        self.backend = cloudformation_backends[stack.account_id][stack.region_name]
        self._undo: list[tuple[Resource, Callable[[], None]]] = []
        self._leftovers: list[_Leftover] = []

    def create(self, template: Template, parameters: Mapping[str, Any]) -> None:
        """Create the stack; it ends in CREATE_COMPLETE, or rolled back with the reason as an event.

        Raises:
            TemplateError: The template cannot be deployed at all; nothing was made.
        """
        with DEPLOY_LOCK:
            scope, order = self._prepare(template, parameters)
            self.stack.use(template)
            self.stack.parameters = dict(parameters)
            self.stack.resolved_parameters = scope.parameters
            self.stack.set_status("CREATE_IN_PROGRESS", "User Initiated")
            try:
                for logical_id, waits in order.items():
                    self._create(scope, template, logical_id, waits)
                self._publish(scope, template)
            except _FailedError as error:
                self._roll_back_create(str(error))
            else:
                self.stack.set_status("CREATE_COMPLETE")

    def update(self, template: Template, parameters: Mapping[str, Any], tags: Mapping[str, str] | None = None) -> None:
        """Update the stack; it ends in UPDATE_COMPLETE, or as it was with the reason as an event.

        Raises:
            TemplateError: The template cannot be deployed at all; nothing was changed.
        """
        with DEPLOY_LOCK:
            scope, order = self._prepare(template, parameters)
            before = (self.stack.loaded, self.stack.parameters, self.stack.resolved_parameters, self.stack.tags)
            # A stack that a failed create left standing (rollback disabled) may be updated into a working one.
            self.stack.set_status("UPDATE_IN_PROGRESS", "User Initiated")
            if tags is not None:
                self.stack.tags = dict(tags)
            try:
                for logical_id, waits in order.items():
                    self._apply(scope, template, logical_id, waits, retag=before[3] != self.stack.tags)
                self._publish(scope, template)
            except _FailedError as error:
                self.stack.parameters, self.stack.resolved_parameters, self.stack.tags = before[1:]
                self._roll_back_update(str(error))
                return
            self.stack.use(template)
            self.stack.parameters = dict(parameters)
            self.stack.resolved_parameters = scope.parameters
            self.stack.set_status("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            kept = self._clean_up(order)
            why = f"Update completed; these resources could not be deleted and were left: {kept}" if kept else None
            self.stack.set_status("UPDATE_COMPLETE", why)

    def delete(self, retain: tuple[str, ...] = ()) -> bool:
        """Delete the stack; return whether it is gone. Retained resources stay in the emulated services."""
        with DEPLOY_LOCK:
            before = self.stack.status
            self.stack.set_status("DELETE_IN_PROGRESS", "User Initiated")
            used = {name: outputs.users(self.backend, name) for name in self.stack.export_values}
            blocked = [f"Export {name} cannot be deleted as it is in use by {by}" for name, by in used.items() if by]
            if blocked:
                # CloudFormation gives the delete up and leaves the stack in the state it was in
                self.stack.set_status(before, "; ".join(blocked))
                return False
            failed = self._delete_all(lambda name, kept: name in retain or kept in ("Retain", "RetainExceptOnCreate"))
            if failed:
                names = ", ".join(failed)
                self.stack.set_status("DELETE_FAILED", f"The following resource(s) failed to delete: [{names}]. ")
                return False
            for name in self.stack.export_values:
                self.backend.exports.pop(name, None)
            self.stack.imports = set()
            self.stack.set_status("DELETE_COMPLETE")
            return True

    def _delete_all(self, stays: Callable[[str, str], bool]) -> list[str]:
        """Delete the stack's resources but those that stay; return which failed.

        What a resource stands on that could not be deleted is left alone.
        """
        failed: list[str] = []
        for logical_id in newest_first(self.stack.resources):
            resource = self.stack.resources[logical_id]
            if any(logical_id in other.depends for other in self.stack.resources.values()):
                continue
            if stays(logical_id, resource.deletion_policy):
                self._skip(resource)
            elif not self._delete(resource):
                failed.append(logical_id)
                continue
            del self.stack.resources[logical_id]
        return failed

    def _prepare(self, template: Template, parameters: Mapping[str, Any]) -> tuple[Scope, dict[str, tuple[str, ...]]]:
        scope = scopes.build(self.stack, template, parameters)
        return scope, scopes.in_order(self.stack, template, scope)

    def _provider(self, kind: str) -> Provider:
        provider = provider_for(kind, self.stack.region_name)
        if provider is None:
            raise TemplateError(f"Template format error: Unrecognized resource types: ['{kind}']")
        return provider

    def _properties(self, scope: Scope, provider: Provider, entry: Mapping[str, Any]) -> dict[str, Any]:
        return provider.check(scope.resolve(entry.get("Properties") or {}))

    def _create(
        self,
        scope: Scope,
        template: Template,
        logical_id: str,
        waits: tuple[str, ...],
        *,
        replaces: Resource | None = None,
    ) -> None:
        entry = template.resources[logical_id]
        kind = entry["Type"]
        provider = self._provider(kind)
        action = "UPDATE" if replaces else "CREATE"
        if replaces is None:
            self.stack.record(logical_id, "", kind, "CREATE_IN_PROGRESS")
        try:
            kept = policy(scope, entry, "DeletionPolicy")
            properties = self._properties(scope, provider, entry)
            self._check_free(provider, logical_id, properties)
            made = provider.create(self.stack.context(logical_id), properties)
        except Exception as error:
            self.stack.record(logical_id, "", kind, f"{action}_FAILED", explain(error))
            raise _FailedError(logical_id) from error
        resource = Resource(
            logical_resource_id=logical_id,
            physical_resource_id=made.physical_id,
            cf_resource_type=kind,
            properties=properties,
            attributes=dict(made.attributes),
            deletion_policy=kept,
            depends=waits,
            state=made.state,
        )

        def undo() -> None:
            if replaces is None:
                del self.stack.resources[logical_id]
            else:
                self.stack.resources[logical_id] = replaces

        self.stack.resources[logical_id] = resource
        self._undo.append((resource, undo))
        self.stack.record(logical_id, made.physical_id, kind, f"{action}_COMPLETE")

    def _check_free(self, provider: Provider, logical_id: str, properties: dict[str, Any]) -> None:
        """Refuse a resource whose name, given by the user, another resource has already."""
        kind = provider.type_name
        for stack in list(self.backend.stacks.values()):
            for other in stack.resources.values() if isinstance(stack, EmulatedStack) else ():
                if other.cf_resource_type == kind and provider.custom_named(other.properties, properties):
                    raise ResourceError(f"{other.physical_resource_id} already exists in stack {stack.stack_id}")
        name = existing.taken(self.stack.context(logical_id), kind, properties)
        if name is not None:
            raise ResourceError(f"Resource of type '{kind}' with identifier '{name}' already exists.")

    def _apply(self, scope: Scope, template: Template, logical_id: str, waits: tuple[str, ...], *, retag: bool) -> None:
        old = self.stack.resources.get(logical_id)
        if old is None:
            self._create(scope, template, logical_id, waits)
            return
        entry = template.resources[logical_id]
        kind = entry["Type"]
        try:
            provider = self._provider(kind)
            properties = self._properties(scope, provider, entry)
            policies = {name: policy(scope, entry, name) for name in ("DeletionPolicy", "UpdateReplacePolicy")}
            replaced_by = self._replacement(provider, old, kind, properties)
        except Exception as error:
            self.stack.record(logical_id, old.physical_resource_id, kind, "UPDATE_FAILED", explain(error))
            raise _FailedError(logical_id) from error
        if replaced_by:
            self.stack.record(
                logical_id,
                old.physical_resource_id,
                kind,
                "UPDATE_IN_PROGRESS",
                "Requested update requires the creation of a new physical resource; hence creating one: "
                f"{', '.join(replaced_by)} changed",
            )
            self._create(scope, template, logical_id, waits, replaces=old)
            self._leftovers.append(_Leftover(old, policies["UpdateReplacePolicy"]))
        elif properties != old.properties or (retag and "Tags" in properties):
            self._update(provider, old, properties, waits, policies["UpdateReplacePolicy"])
        self._settle(self.stack.resources[logical_id], policies["DeletionPolicy"], waits)

    def _settle(self, resource: Resource, deletion_policy: str, waits: tuple[str, ...]) -> None:
        """Give a resource what the new template says beside its properties; a rollback takes that back too."""
        before = resource.deletion_policy, resource.depends
        resource.deletion_policy, resource.depends = deletion_policy, waits

        def undo() -> None:
            resource.deletion_policy, resource.depends = before

        self._undo.append((resource, undo))

    def _replacement(self, provider: Provider, old: Resource, kind: str, properties: dict[str, Any]) -> list[str]:
        """Name the changes that need a new resource; refuse those for which there may be none."""
        logical_id = old.logical_resource_id
        if old.cf_resource_type != kind:
            raise ResourceError(
                "Update of resource type is not permitted. "
                f"The new template modifies resource type of the following resources: [{logical_id}]"
            )
        causes = provider.replaced_by(old.properties, properties) if properties != old.properties else []
        if causes and self.stack.disable_rollback:
            raise ResourceError("Replacement type updates not supported on stack with disable-rollback.")
        if causes and provider.custom_named(old.properties, properties):
            raise ResourceError(
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {logical_id} and update the stack again ({', '.join(causes)} changed)."
            )
        return causes

    def _update(
        self, provider: Provider, old: Resource, properties: dict[str, Any], waits: tuple[str, ...], replaced: str
    ) -> None:
        logical_id, kind = old.logical_resource_id, old.cf_resource_type
        self.stack.record(logical_id, old.physical_resource_id, kind, "UPDATE_IN_PROGRESS")
        try:
            made = provider.update(self.stack.context(logical_id), old, properties)
        except Exception as error:
            self.stack.record(logical_id, old.physical_resource_id, kind, "UPDATE_FAILED", explain(error))
            if provider.half_updated(error):
                self._undo_with(provider, old, changed(old, properties, Made(old.physical_resource_id), waits))
            raise _FailedError(logical_id) from error
        new = changed(old, properties, made, waits)
        self.stack.resources[logical_id] = new
        self._undo_with(provider, old, new)
        if new.physical_resource_id != old.physical_resource_id:  # a custom resource that answered with another id
            self._leftovers.append(_Leftover(old, replaced))
        self.stack.record(logical_id, new.physical_resource_id, kind, "UPDATE_COMPLETE")

    def _undo_with(self, provider: Provider, old: Resource, new: Resource) -> None:
        """Remember how a resource gets its old properties back, under the tags that the stack has by then."""

        def undo() -> None:
            back = provider.update(self.stack.context(old.logical_resource_id), new, old.properties)
            self.stack.resources[old.logical_resource_id] = changed(old, old.properties, back, old.depends)

        self._undo.append((new, undo))

    def _publish(self, scope: Scope, template: Template) -> None:
        try:
            outputs.publish(self.stack, self.backend, scope, template)
        except (TemplateError, KeyError) as error:
            action = self.stack.status.split("_", 1)[0]
            self.stack.record(self.stack.name, self.stack.stack_id, _STACK, f"{action}_FAILED", explain(error))
            raise _FailedError("Outputs") from error

    def _roll_back_create(self, failed: str) -> None:
        why = f"The following resource(s) failed to create: [{failed}]. "
        if self.stack.disable_rollback:
            self.stack.set_status("CREATE_FAILED", why)
            return
        self.stack.set_status("ROLLBACK_IN_PROGRESS", why + "Rollback requested by user.")
        # "RetainExceptOnCreate" exists because plain "Retain" keeps the resource even here
        self._delete_all(lambda _, kept: kept == "Retain")
        self.stack.set_status("ROLLBACK_FAILED" if self.stack.resources else "ROLLBACK_COMPLETE", why)

    def _roll_back_update(self, failed: str) -> None:
        why = f"The following resource(s) failed to update: [{failed}]. "
        if self.stack.disable_rollback:
            self.stack.set_status("UPDATE_FAILED", why)
            return
        self.stack.set_status("UPDATE_ROLLBACK_IN_PROGRESS", why)
        undeleted: list[Resource] = []
        for resource, undo in reversed(self._undo):
            try:
                undo()
            except Exception as error:
                self.stack.record(
                    resource.logical_resource_id,
                    resource.physical_resource_id,
                    resource.cf_resource_type,
                    "UPDATE_FAILED",
                    explain(error),
                )
                self.stack.set_status("UPDATE_ROLLBACK_FAILED", why)
                return
            standing = self.stack.resources.get(resource.logical_resource_id)
            if standing is None or standing.physical_resource_id != resource.physical_resource_id:
                undeleted.append(resource)
        self.stack.set_status("UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS", why)
        for resource in undeleted:
            made_anew = resource.logical_resource_id in self.stack.resources
            # "RetainExceptOnCreate" exists because plain "Retain" keeps a resource even here
            if resource.deletion_policy == "Retain" and not made_anew:
                self._skip(resource)
            else:
                self._delete(resource)
        self.stack.set_status("UPDATE_ROLLBACK_COMPLETE", why)

    def _clean_up(self, order: Mapping[str, tuple[str, ...]]) -> list[str]:
        """Delete what was replaced or is no longer in the template; return what could not be deleted."""
        gone = {name: resource for name, resource in self.stack.resources.items() if name not in order}
        kept = []
        for logical_id in newest_first(gone):
            resource = self.stack.resources.pop(logical_id)
            retained = resource.deletion_policy in ("Retain", "RetainExceptOnCreate")
            self._leftovers.append(_Leftover(resource, "Retain" if retained else "Delete"))
        standing = [leftover.resource for leftover in self._leftovers]
        # What stood on something that was replaced goes first: newest first, by what it waited for.
        for leftover in sorted(self._leftovers, key=lambda item: depth(item.resource, standing), reverse=True):
            if leftover.policy == "Retain":
                self._skip(leftover.resource)
            elif not self._delete(leftover.resource):
                kept.append(f"{leftover.resource.logical_resource_id} ({leftover.resource.physical_resource_id})")
        return kept

    def _delete(self, resource: Resource) -> bool:
        logical_id, physical_id, kind = (
            resource.logical_resource_id,
            resource.physical_resource_id,
            resource.cf_resource_type,
        )
        self.stack.record(logical_id, physical_id, kind, "DELETE_IN_PROGRESS")
        try:
            self._provider(kind).delete(self.stack.context(logical_id), resource)
        except Exception as error:
            if not already_gone(error):
                resource.status = "DELETE_FAILED"
                self.stack.record(logical_id, physical_id, kind, "DELETE_FAILED", explain(error))
                return False
        self.stack.record(logical_id, physical_id, kind, "DELETE_COMPLETE")
        return True

    def _skip(self, resource: Resource) -> None:
        self.stack.record(
            resource.logical_resource_id, resource.physical_resource_id, resource.cf_resource_type, "DELETE_SKIPPED"
        )
