"""A CloudFormation template: read from JSON or YAML, with its parameters, conditions and references.

Nothing here talks to a service; values come from the functions in ``intrinsics.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml  # type: ignore[import-untyped]  # ships no types

from training_storage.emulator import template_format
from training_storage.emulator.template_format import TemplateError

__all__ = ["PSEUDO_PARAMETERS", "Template", "TemplateError", "depends_on", "parse", "references", "split_get_att"]

PSEUDO_PARAMETERS = {
    "AWS::AccountId", "AWS::NoValue", "AWS::NotificationARNs", "AWS::Partition", "AWS::Region", "AWS::StackId",
    "AWS::StackName", "AWS::URLSuffix",
}  # fmt: skip

SUBSTITUTION = re.compile(r"\$\{([^!}][^}]*)\}")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML ships no types
    """YAML with the short forms of the intrinsic functions, with dates left as text, and no key twice."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Refuse a key that stands there twice: the first value would be lost without a word."""
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        _once(keys)
        return super().construct_mapping(node, deep=deep)


def _once(keys: list[Any]) -> None:
    twice = sorted({str(key) for key in keys if keys.count(key) > 1}) if len(set(map(str, keys))) < len(keys) else []
    if twice:
        raise TemplateError(f"Template format error: duplicate keys {twice}")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    _once([key for key, _ in pairs])
    return dict(pairs)


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
        document = json.loads(body, object_pairs_hook=_pairs)
    except ValueError:
        try:
            document = yaml.load(body, Loader=_Loader)  # noqa: S506 - a SafeLoader with CloudFormation's tags
        except yaml.YAMLError as error:
            raise TemplateError(f"Template format error: not valid JSON or YAML. {error}") from None
    if not isinstance(document, dict):
        raise TemplateError("Template format error: unsupported structure.")
    template_format.check(document, body)
    return Template(body=body, document=document)


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
