"""The intrinsic functions: from a template's values to the values that a service gets.

Whatever cannot be resolved is an error with the function's name; nothing becomes None or stays text.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from training_storage.emulator.template import PSEUDO_PARAMETERS, TemplateError, split_get_att

_SUB = re.compile(r"\$\{(!?)([^}]*)\}")
_DYNAMIC = re.compile(r"\{\{resolve:([a-z-]+):([^}]+)\}\}")


class _NoValue:
    """What ``AWS::NoValue`` resolves to: the property or list item goes away."""

    def __repr__(self) -> str:
        return "AWS::NoValue"


NO_VALUE = _NoValue()


class Outside(Protocol):
    """What a template can reach beyond its own text."""

    def availability_zones(self, region: str) -> list[str]:
        """Names of the zones of a region."""

    def imported(self, export_name: str) -> str:
        """Value of an export of another stack."""

    def stack_output(self, stack_name: str, output: str, region: str | None, role_arn: str | None) -> str:
        """Output of another stack, read directly."""

    def dynamic(self, service: str, key: str) -> str:
        """Value of a dynamic reference such as ``{{resolve:ssm:/name}}``."""

    def reference(self, logical_id: str) -> str:
        """What ``Ref`` gives for a resource that exists by now."""

    def attribute(self, logical_id: str, name: str) -> Any:
        """What ``Fn::GetAtt`` gives for a resource that exists by now."""


@dataclass(slots=True)
class Scope:
    """All that the functions of one template can see.

    Attributes:
        outside: Everything beyond the template.
        pseudo: Pseudo parameters such as ``AWS::Region``.
        parameters: Parameters with their final values.
        mappings: The template's mappings.
        conditions: The template's conditions, evaluated.
        active: Logical ids of the resources whose condition holds.
    """

    outside: Outside
    pseudo: Mapping[str, Any]
    parameters: dict[str, Any] = field(default_factory=dict)
    mappings: Mapping[str, Any] = field(default_factory=dict)
    conditions: dict[str, bool] = field(default_factory=dict)
    active: frozenset[str] = frozenset()

    def resolve(self, value: Any) -> Any:
        """Resolve a value of the template, deeply.

        Raises:
            TemplateError: A function is unknown, malformed, or points at something that does not exist.
        """
        if isinstance(value, dict):
            if len(value) == 1:
                name, argument = next(iter(value.items()))
                function = _FUNCTIONS.get(name)
                if function is not None:
                    with _of(name, argument):
                        return self._late(function(self, argument))
                if name.startswith("Fn::"):
                    raise TemplateError(f"Template error: unsupported function {name}")
            resolved = {key: self.resolve(item) for key, item in value.items()}
            return {key: item for key, item in resolved.items() if item is not NO_VALUE}
        if isinstance(value, list):
            return [item for item in (self.resolve(item) for item in value) if item is not NO_VALUE]
        if value is None:
            raise TemplateError("[/Resources] 'null' values are not allowed in templates")
        return self._late(value)

    def _late(self, value: Any) -> Any:
        """Resolve dynamic references, also those that a function has put together."""
        if isinstance(value, str) and "{{resolve:" in value:
            return _DYNAMIC.sub(lambda match: self.outside.dynamic(match.group(1), match.group(2)), value)
        return value

    def condition(self, value: Any) -> bool:
        """Evaluate a condition or a rule's assertion.

        Raises:
            TemplateError: Not a condition function, or not its arguments.
        """
        with _of("a condition", value):
            return self._condition(value)

    def _condition(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        if isinstance(value, dict) and len(value) == 1:
            name, argument = next(iter(value.items()))
            if name == "Condition":
                if argument not in self.conditions:
                    raise TemplateError(f"Template error: unresolved condition dependency {argument}")
                return self.conditions[argument]
            if name == "Fn::Not":
                return not self.condition(argument[0])
            if name == "Fn::And":
                return all(self.condition(item) for item in argument)
            if name == "Fn::Or":
                return any(self.condition(item) for item in argument)
            if name == "Fn::Equals":
                left, right = (self.resolve(item) for item in argument)
                return bool(text(left) == text(right) if not isinstance(left, list | dict) else left == right)
            if name == "Fn::Contains":
                items, wanted = (self.resolve(item) for item in argument)
                return text(wanted) in [text(item) for item in items]
            if name == "Fn::EachMemberIn":
                items, allowed = (self.resolve(item) for item in argument)
                return all(item in allowed for item in items)
            if name == "Fn::EachMemberEquals":
                items, wanted = (self.resolve(item) for item in argument)
                return all(item == wanted for item in items)
        raise TemplateError(f"Template error: not a condition: {value!r}")


@contextmanager
def _of(name: str, argument: Any) -> Iterator[None]:
    """Say which function it was that got something it cannot work with."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise TemplateError(f"Template error: {name} cannot work with {argument!r}: {error}") from None


def text(value: Any) -> str:
    """Return a scalar the way CloudFormation writes it into a string.

    Raises:
        TemplateError: It is no scalar.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    raise TemplateError(f"Template error: a string is needed, got {value!r}")


def _ref(scope: Scope, name: Any) -> Any:
    if name == "AWS::NoValue":
        return NO_VALUE
    if name in scope.parameters:
        return scope.parameters[name]
    if name in PSEUDO_PARAMETERS and name in scope.pseudo:
        return scope.pseudo[name]
    if name in scope.active:
        return scope.outside.reference(name)
    raise TemplateError(f"Template format error: Unresolved resource dependencies [{name}] in the template")


def _get_att(scope: Scope, argument: Any) -> Any:
    logical_id, attribute = split_get_att(argument)
    if logical_id not in scope.active:
        raise TemplateError(f"Template error: instance of Fn::GetAtt references undefined resource {logical_id}")
    return scope.outside.attribute(logical_id, text(scope.resolve(attribute)))


def _join(scope: Scope, argument: Any) -> str:
    delimiter, items = _arguments("Fn::Join", argument, 2)
    resolved = scope.resolve(items)
    if not isinstance(resolved, list):
        raise TemplateError(f"Template error: Fn::Join needs a list, got {resolved!r}")
    return str(delimiter).join(text(item) for item in resolved)


def _split(scope: Scope, argument: Any) -> list[str]:
    delimiter, source = _arguments("Fn::Split", argument, 2)
    return text(scope.resolve(source)).split(delimiter)


def _select(scope: Scope, argument: Any) -> Any:
    index, items = _arguments("Fn::Select", argument, 2)
    number, resolved = int(scope.resolve(index)), scope.resolve(items)
    if not isinstance(resolved, list) or not 0 <= number < len(resolved):
        raise TemplateError(f"Template error: Fn::Select cannot select value at index {number} of {resolved!r}")
    return resolved[number]


def _sub(scope: Scope, argument: Any) -> str:
    template, variables = (argument, {}) if isinstance(argument, str) else _arguments("Fn::Sub", argument, 2)
    values = {name: scope.resolve(value) for name, value in variables.items()}

    def replace(match: re.Match[str]) -> str:
        if match.group(1):  # ${!Literal}
            return "${" + match.group(2) + "}"
        name = match.group(2)
        if name in values:
            return text(values[name])
        return text(_get_att(scope, name) if "." in name else _ref(scope, name))

    return _SUB.sub(replace, template)


def _if(scope: Scope, argument: Any) -> Any:
    name, yes, no = _arguments("Fn::If", argument, 3)
    if name not in scope.conditions:
        raise TemplateError(f"Template error: unresolved condition {name}")
    return scope.resolve(yes if scope.conditions[name] else no)


def _find_in_map(scope: Scope, argument: Any) -> Any:
    default = argument[3]["DefaultValue"] if len(argument) == 4 else NO_VALUE
    names = [text(scope.resolve(part)) for part in argument[:3]]
    node: Any = scope.mappings
    for name in names:
        if not isinstance(node, Mapping) or name not in node:
            if default is not NO_VALUE:
                return scope.resolve(default)
            raise TemplateError(f"Template error: Unable to get mapping for {'::'.join(names)}")
        node = node[name]
    return node


def _import_value(scope: Scope, argument: Any) -> str:
    return scope.outside.imported(text(scope.resolve(argument)))


def _stack_output(scope: Scope, argument: Any) -> str:
    given = scope.resolve(argument)
    if not isinstance(given, dict) or not {"StackName", "OutputName"} <= set(given):
        raise TemplateError(f"Template error: Fn::GetStackOutput needs StackName and OutputName, got {given!r}")
    return scope.outside.stack_output(
        given["StackName"], given["OutputName"], given.get("Region"), given.get("RoleArn")
    )


def _zones(scope: Scope, argument: Any) -> list[str]:
    return scope.outside.availability_zones(text(scope.resolve(argument)) or scope.pseudo["AWS::Region"])


def _base64(scope: Scope, argument: Any) -> str:
    return base64.b64encode(text(scope.resolve(argument)).encode()).decode()


def _cidr(scope: Scope, argument: Any) -> list[str]:
    block, count, *bits = (scope.resolve(part) for part in argument)
    if not 1 <= int(count) <= 256:
        raise TemplateError(f"Template error: Fn::Cidr takes between 1 and 256 blocks, got {count}")
    network = ipaddress.ip_network(block)
    prefix = network.max_prefixlen - int(bits[0]) if bits else network.max_prefixlen - 8
    subnets = network.subnets(new_prefix=prefix)
    try:
        return [str(next(subnets)) for _ in range(int(count))]
    except StopIteration:
        raise TemplateError(f"Template error: Fn::Cidr cannot take {count} blocks of /{prefix} from {block}") from None


def _json_string(scope: Scope, argument: Any) -> str:
    return json.dumps(scope.resolve(argument), separators=(",", ":"))


def _length(scope: Scope, argument: Any) -> int:
    return len(scope.resolve(argument))


def _arguments(name: str, argument: Any, count: int) -> list[Any]:
    if not isinstance(argument, list) or len(argument) != count:
        raise TemplateError(f"Template error: {name} needs {count} arguments, got {argument!r}")
    return argument


_FUNCTIONS: dict[str, Callable[[Scope, Any], Any]] = {
    "Ref": _ref,
    "Fn::Base64": _base64,
    "Fn::Cidr": _cidr,
    "Fn::FindInMap": _find_in_map,
    "Fn::GetAZs": _zones,
    "Fn::GetAtt": _get_att,
    "Fn::GetStackOutput": _stack_output,
    "Fn::If": _if,
    "Fn::ImportValue": _import_value,
    "Fn::Join": _join,
    "Fn::Length": _length,
    "Fn::Select": _select,
    "Fn::Split": _split,
    "Fn::Sub": _sub,
    "Fn::ToJsonString": _json_string,
}
