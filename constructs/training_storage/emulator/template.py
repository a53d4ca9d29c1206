"""A CloudFormation template: read from JSON or YAML, with its parameters, conditions and references.

Nothing here talks to a service; values come from the functions in ``intrinsics.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml  # type: ignore[import-untyped]

_SECTIONS = {
    "AWSTemplateFormatVersion", "Conditions", "Description", "Mappings", "Metadata", "Outputs", "Parameters",
    "Resources", "Rules", "Transform",
}  # fmt: skip
_RESOURCE_KEYS = {
    "Condition", "CreationPolicy", "DeletionPolicy", "DependsOn", "Metadata", "Properties", "Type", "UpdatePolicy",
    "UpdateReplacePolicy",
}  # fmt: skip
# Transforms whose functions are understood here; any other would change the template in ways nobody looked at.
_TRANSFORMS = {"AWS::LanguageExtensions"}
_POLICIES = {"Delete", "Retain", "RetainExceptOnCreate", "Snapshot"}

PSEUDO_PARAMETERS = {
    "AWS::AccountId", "AWS::NoValue", "AWS::NotificationARNs", "AWS::Partition", "AWS::Region", "AWS::StackId",
    "AWS::StackName", "AWS::URLSuffix",
}  # fmt: skip

SUBSTITUTION = re.compile(r"\$\{([^!}][^}]*)\}")


class TemplateError(Exception):
    """The template, or what it was given, cannot be deployed; CloudFormation calls this a ValidationError."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """YAML with the short forms of the intrinsic functions, and with dates left as text."""


def _short_form(loader: Any, suffix: str, node: Any) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        if name == "Fn::GetAtt":
            value = value.split(".", 1)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    return {name: value}


_Loader.add_multi_constructor("!", _short_form)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclass(frozen=True, slots=True)
class Template:
    """One template that was read and is well formed.

    Attributes:
        body: The text as given: what GetTemplate returns.
        document: The whole template as plain data.
    """

    body: str
    document: dict[str, Any] = field(repr=False)

    def section(self, name: str) -> dict[str, Any]:
        """Return a section; empty when the template lacks it."""
        return self.document.get(name) or {}

    @property
    def resources(self) -> dict[str, dict[str, Any]]:
        """Resources by logical id, conditions not applied."""
        return self.section("Resources")


def parse(body: str) -> Template:
    """Read a template.

    Raises:
        TemplateError: Not JSON or YAML, or not the shape of a template.
    """
    try:
        document = json.loads(body)
    except ValueError:
        try:
            document = yaml.load(body, Loader=_Loader)  # noqa: S506 - a SafeLoader with CloudFormation's tags
        except yaml.YAMLError as error:
            raise TemplateError(f"Template format error: not valid JSON or YAML. {error}") from None
    if not isinstance(document, dict):
        raise TemplateError("Template format error: unsupported structure.")
    unknown = sorted(set(document) - _SECTIONS)
    if unknown:
        raise TemplateError(f"Invalid template property or properties {unknown}")
    transforms = document.get("Transform") or []
    transforms = [transforms] if isinstance(transforms, str | dict) else transforms
    foreign = [transform for transform in transforms if transform not in _TRANSFORMS]
    if foreign:
        raise TemplateError(f"the emulator does not run transforms: {foreign}")
    _check_resources(document.get("Resources"))
    for name, parameter in (document.get("Parameters") or {}).items():
        if not isinstance(parameter, dict) or not isinstance(parameter.get("Type"), str):
            raise TemplateError(f"Template format error: parameter {name} must have a Type.")
    return Template(body=body, document=document)


def _check_resources(resources: Any) -> None:
    if not isinstance(resources, dict) or not resources:
        raise TemplateError("Template format error: At least one Resources member must be defined.")
    for logical_id, resource in resources.items():
        where = f"[/Resources/{logical_id}]"
        if not re.fullmatch(r"[A-Za-z0-9]{1,255}", str(logical_id)):
            raise TemplateError(f"Template format error: Resource name {logical_id} is non alphanumeric.")
        if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
            raise TemplateError(f"Template format error: {where} Every Resources object must contain a Type member.")
        unknown = sorted(set(resource) - _RESOURCE_KEYS)
        if unknown:
            raise TemplateError(f"Invalid template resource property {unknown} in {where}")
        if not isinstance(resource.get("Properties") or {}, dict):
            raise TemplateError(f"Template format error: {where} Properties must be an object.")
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            value = resource.get(policy)
            if isinstance(value, str) and value not in _POLICIES:
                raise TemplateError(f"Template format error: {where} unrecognized {policy} {value}.")


def depends_on(resource: Mapping[str, Any]) -> list[str]:
    """Return ``DependsOn`` as a list."""
    value = resource.get("DependsOn") or []
    return [value] if isinstance(value, str) else list(value)


def active_branch(value: Any, conditions: Mapping[str, bool]) -> Any:
    """Return the branch that ``Fn::If`` takes, or the value itself where there is no (known) condition."""
    while isinstance(value, dict) and len(value) == 1 and "Fn::If" in value:
        arguments = value["Fn::If"]
        if not (isinstance(arguments, list) and len(arguments) == 3 and arguments[0] in conditions):
            break
        value = arguments[1] if conditions[arguments[0]] else arguments[2]
    return value


def references(value: Any, conditions: Mapping[str, bool]) -> Iterator[tuple[str, str | None]]:
    """Yield every name that a value refers to, and the attribute asked for; branches not taken do not count."""
    value = active_branch(value, conditions)
    if isinstance(value, list):
        for item in value:
            yield from references(item, conditions)
        return
    if not isinstance(value, dict):
        return
    if set(value) == {"Ref"} and isinstance(value["Ref"], str):
        yield value["Ref"], None
    elif set(value) == {"Fn::GetAtt"}:
        name, attribute = split_get_att(value["Fn::GetAtt"])
        yield name, attribute if isinstance(attribute, str) else None
        yield from references(attribute, conditions)
    elif set(value) == {"Fn::Sub"}:
        argument = value["Fn::Sub"]
        text, variables = (argument, {}) if isinstance(argument, str) else (argument[0], argument[1])
        for name in SUBSTITUTION.findall(text):
            if name not in variables:
                target, _, attribute = name.partition(".")
                yield target, attribute or None
        yield from references(variables, conditions)
    else:
        for item in value.values():
            yield from references(item, conditions)


def split_get_att(argument: Any) -> tuple[str, Any]:
    """Return logical id and attribute of a ``Fn::GetAtt``, whichever of its forms is used.

    Raises:
        TemplateError: It has neither form.
    """
    if isinstance(argument, str) and "." in argument:
        name, attribute = argument.split(".", 1)
        return name, attribute
    if isinstance(argument, list) and len(argument) >= 2 and isinstance(argument[0], str):
        rest = argument[1] if len(argument) == 2 else ".".join(map(str, argument[1:]))
        return argument[0], rest
    raise TemplateError(f"Template error: every Fn::GetAtt object requires two non-empty parameters, got {argument!r}")
