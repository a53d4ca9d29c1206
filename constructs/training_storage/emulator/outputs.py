"""Outputs and exports of a stack, and who holds on to them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from training_storage.emulator.intrinsics import Scope, text
from training_storage.emulator.scope import StackOutside
from training_storage.emulator.stack import EmulatedStack
from training_storage.emulator.template import Template, TemplateError


def publish(stack: EmulatedStack, backend: Any, scope: Scope, template: Template) -> None:
    """Work out outputs and exports; only when all of them are right do they take effect.

    Raises:
        TemplateError: A value does not resolve, an export's name is taken, or an export in use would change.
    """
    outputs: list[dict[str, Any]] = []
    exports: dict[str, str] = {}
    for key, output in template.section("Outputs").items():
        if "Condition" in output and not scope.conditions[output["Condition"]]:
            continue
        entry = {"OutputKey": key, "OutputValue": text(scope.resolve(output["Value"]))}
        if output.get("Description"):
            entry["Description"] = output["Description"]
        if output.get("Export"):
            name = text(scope.resolve(output["Export"]["Name"]))
            if not re.fullmatch(r"[A-Za-z0-9:-]{1,255}", name):
                raise TemplateError(
                    f"Cannot export output {key}. Exported names must only contain alphanumeric characters, colons, "
                    f"or hyphens, got {name!r}"
                )
            if not entry["OutputValue"].strip():
                raise TemplateError(
                    f"Cannot export output {key}. Exported values must not be empty or whitespace-only."
                )
            if name in exports:
                raise TemplateError(
                    f"Export with name {name} is given twice by stack {stack.name}, again by output {key}"
                )
            entry["ExportName"] = name
            exports[name] = entry["OutputValue"]
        outputs.append(entry)
    _check(stack, backend, exports)
    for name in stack.export_values:
        backend.exports.pop(name, None)
    stack.output_list, stack.export_values = outputs, exports
    backend.exports.update({export.name: export for export in stack.exports})
    if isinstance(scope.outside, StackOutside):
        stack.imports = scope.outside.imports


def users(backend: Any, export_name: str) -> str:
    """Name the stacks that import an export; empty when there are none."""
    stacks = (stack for stack in backend.stacks.values() if isinstance(stack, EmulatedStack))
    return " and ".join(sorted(stack.name for stack in stacks if export_name in stack.imports))


def _check(stack: EmulatedStack, backend: Any, exports: Mapping[str, str]) -> None:
    for name in exports:
        other = backend.exports.get(name)
        if other is not None and other.exporting_stack_id != stack.stack_id:
            raise TemplateError(f"Export with name {name} is already exported by stack {other.exporting_stack_id}")
    for name, value in stack.export_values.items():
        holders = users(backend, name) if exports.get(name) != value else ""
        if holders:
            verb = "updated" if name in exports else "deleted"
            raise TemplateError(f"Export {name} cannot be {verb} as it is in use by {holders}")
