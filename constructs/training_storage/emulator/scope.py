"""What the functions of one stack's template can see: its own resources, other stacks, and the emulated services."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from training_storage.emulator import clients
from training_storage.emulator.intrinsics import Scope, text
from training_storage.emulator.providers import provider_for
from training_storage.emulator.providers.base import Provider, Resource, ResourceError
from training_storage.emulator.stack import EmulatedStack
from training_storage.emulator.template import Template, TemplateError, depends_on, references


class StackOutside:
    """Everything beyond a stack's own template, looked up where it really is."""

    def __init__(self, stack: EmulatedStack) -> None:
        self.stack = stack
        self.imports: set[str] = set()

    def availability_zones(self, region: str) -> list[str]:
        """Ask the emulated EC2."""
        answer = clients.client("ec2", self.stack.account_id, region).describe_availability_zones()
        return [zone["ZoneName"] for zone in answer["AvailabilityZones"]]

    def imported(self, export_name: str) -> str:
        """Find the export, and remember that this stack holds on to it."""
        export = _backend(self.stack.account_id, self.stack.region_name).exports.get(export_name)
        if export is None:
            raise TemplateError(f"No export named {export_name} found.")
        self.imports.add(export_name)
        return str(export.value)

    def stack_output(self, stack_name: str, output: str, region: str | None, role_arn: str | None) -> str:
        """Read an output of another stack, in another region or account where asked."""
        account = role_arn.split(":")[4] if role_arn else self.stack.account_id
        stacks = _backend(account, region or self.stack.region_name).stacks.values()
        for stack in stacks:
            if stack_name in (stack.name, stack.stack_id):
                for entry in stack.outputs or ():
                    if entry["OutputKey"] == output:
                        return str(entry["OutputValue"])
                raise TemplateError(f"Fn::GetStackOutput: stack {stack_name} has no output {output}")
        raise TemplateError(f"Fn::GetStackOutput: stack {stack_name} does not exist")

    def dynamic(self, service: str, key: str) -> str:
        """Resolve ``ssm``, ``ssm-secure`` and ``secretsmanager`` references."""
        context = self.stack.context("")
        try:
            if service in ("ssm", "ssm-secure"):
                answer = context.client("ssm").get_parameter(Name=key, WithDecryption=True)
                return str(answer["Parameter"]["Value"])
            if service == "secretsmanager":
                secret, _, rest = key.partition(":SecretString")
                value = str(context.client("secretsmanager").get_secret_value(SecretId=secret)["SecretString"])
                field = rest.strip(":").split(":")[0]
                if not field:
                    return value
                return str(json.loads(value)[field])
        except (ClientError, KeyError, ValueError) as error:
            raise TemplateError(f"Could not resolve {{{{resolve:{service}:{key}}}}}: {error}") from None
        raise TemplateError(f"Could not resolve {{{{resolve:{service}:{key}}}}}: unknown service {service}")

    def reference(self, logical_id: str) -> str:
        """``Ref`` of a resource that was made."""
        provider, resource = self._made(logical_id)
        return provider.reference(self.stack.context(logical_id), resource)

    def attribute(self, logical_id: str, name: str) -> Any:
        """``Fn::GetAtt`` of a resource that was made."""
        provider, resource = self._made(logical_id)
        try:
            return provider.attribute(self.stack.context(logical_id), resource, name)
        except ResourceError as error:
            raise TemplateError(f"Template error: {error}") from None

    def _made(self, logical_id: str) -> tuple[Provider, Resource]:
        resource = self.stack.resources.get(logical_id)
        provider = provider_for(resource.cf_resource_type, self.stack.region_name) if resource else None
        if resource is None or provider is None:
            raise TemplateError(f"Template format error: Unresolved resource dependencies [{logical_id}]")
        return provider, resource


def _backend(account: str, region: str) -> Any:
    from moto.cloudformation.models import cloudformation_backends

    return cloudformation_backends[account][region]


def build(stack: EmulatedStack, template: Template, given: Mapping[str, Any]) -> Scope:
    """Work out parameters and conditions of a template for a stack, and check its rules.

    Raises:
        TemplateError: A parameter is missing, unknown or not allowed; a condition or a rule does not hold together.
    """
    scope = Scope(
        outside=StackOutside(stack),
        pseudo={
            "AWS::AccountId": stack.account_id,
            "AWS::NotificationARNs": list(stack.notification_arns),
            "AWS::Partition": stack.partition,
            "AWS::Region": stack.region_name,
            "AWS::StackId": stack.stack_id,
            "AWS::StackName": stack.name,
            "AWS::URLSuffix": "amazonaws.com.cn" if stack.partition == "aws-cn" else "amazonaws.com",
        },
        mappings=template.section("Mappings"),
    )
    scope.parameters = _parameters(stack, template, given)
    for name in template.section("Conditions"):
        _condition(scope, template, name, ())
    scope.active = frozenset(
        logical_id for logical_id, resource in template.resources.items() if _holds(scope, resource, logical_id)
    )
    for name, rule in template.section("Rules").items():
        if "RuleCondition" in rule and not scope.condition(rule["RuleCondition"]):
            continue
        for assertion in rule.get("Assertions", ()):
            if not scope.condition(assertion["Assert"]):
                raise TemplateError(f"Rule {name} failed: {assertion.get('AssertDescription', 'assertion is false')}")
    return scope


def _holds(scope: Scope, entry: Mapping[str, Any], where: str) -> bool:
    name = entry.get("Condition")
    if name is None:
        return True
    if name not in scope.conditions:
        raise TemplateError(f"Template format error: Unresolved condition {name} in {where}")
    return scope.conditions[name]


def _condition(scope: Scope, template: Template, name: str, path: tuple[str, ...]) -> None:
    if name in scope.conditions:
        return
    if name in path:
        raise TemplateError(f"Template error: circular conditions {[*path, name]}")
    body = template.section("Conditions")[name]
    for other in _conditions_in(body):
        if other not in template.section("Conditions"):
            raise TemplateError(f"Template error: unresolved condition dependency {other}")
        _condition(scope, template, other, (*path, name))
    scope.conditions[name] = scope.condition(body)


def _conditions_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if set(value) == {"Condition"}:
            yield value["Condition"]
        for item in value.values():
            yield from _conditions_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _conditions_in(item)


def _parameters(stack: EmulatedStack, template: Template, given: Mapping[str, Any]) -> dict[str, Any]:
    slots = template.section("Parameters")
    unknown = sorted(set(given) - set(slots))
    if unknown:
        raise TemplateError(f"Parameters: {unknown} do not exist in the template")
    missing = sorted(name for name, slot in slots.items() if name not in given and "Default" not in slot)
    if missing:
        raise TemplateError(f"Parameters: {missing} must have values")
    stack.hidden_parameters = {name for name, slot in slots.items() if str(slot.get("NoEcho", "")).lower() == "true"}
    return {name: _parameter(stack, name, slot, given.get(name, slot.get("Default"))) for name, slot in slots.items()}


def _parameter(stack: EmulatedStack, name: str, slot: Mapping[str, Any], value: Any) -> Any:
    kind = slot["Type"]
    if kind.startswith("AWS::SSM::Parameter::Value"):
        try:
            answer = stack.context("").client("ssm").get_parameter(Name=str(value), WithDecryption=True)
        except ClientError:
            raise TemplateError(
                f"Unable to fetch parameters [{value}] from parameter store for this account ({name})"
            ) from None
        found = str(answer["Parameter"]["Value"])
        return found.split(",") if "<List<" in kind or "CommaDelimitedList" in kind else found
    listed = kind == "CommaDelimitedList" or kind.startswith("List<")
    items = [item.strip() for item in text(value).split(",")] if listed and not isinstance(value, list) else value
    for item in items if listed else [items]:
        _check_parameter(name, slot, item)
    if kind in ("Number", "List<Number>"):
        numbers = [_number(name, item) for item in (items if listed else [items])]
        return numbers if listed else numbers[0]
    return items if listed else text(items)


def _number(name: str, value: Any) -> int | float:
    try:
        return int(value) if re.fullmatch(r"-?\d+", str(value)) else float(value)
    except ValueError:
        raise TemplateError(f"Parameter '{name}' must be a number, got {value!r}") from None


def _check_parameter(name: str, slot: Mapping[str, Any], value: Any) -> None:
    allowed = slot.get("AllowedValues")
    if allowed is not None and text(value) not in [text(item) for item in allowed]:
        raise TemplateError(f"Parameter '{name}' must be one of AllowedValues {allowed}, got {value!r}")
    pattern = slot.get("AllowedPattern")
    if pattern is not None and re.fullmatch(pattern, text(value)) is None:
        raise TemplateError(f"Parameter '{name}' must match pattern {pattern}, got {value!r}")
    size = len(text(value))
    if size < int(slot.get("MinLength", 0)) or size > int(slot.get("MaxLength", size)):
        raise TemplateError(f"Parameter '{name}' has a length of {size}, outside MinLength and MaxLength")
    if "MinValue" in slot and float(value) < float(slot["MinValue"]):
        raise TemplateError(f"Parameter '{name}' must be a number not less than {slot['MinValue']}, got {value!r}")
    if "MaxValue" in slot and float(value) > float(slot["MaxValue"]):
        raise TemplateError(f"Parameter '{name}' must be a number not greater than {slot['MaxValue']}, got {value!r}")


def in_order(stack: EmulatedStack, template: Template, scope: Scope) -> dict[str, tuple[str, ...]]:
    """Check all types and references, and return the resources with what each waits for, in an order that works.

    Raises:
        TemplateError: Unknown types, references that point nowhere, attributes that a type lacks, or a circle.
    """
    problems: list[str] = []
    unknown = sorted(
        {
            kind
            for logical_id, kind in ((name, entry["Type"]) for name, entry in template.resources.items())
            if logical_id in scope.active and provider_for(kind, stack.region_name) is None
        }
    )
    if unknown:
        raise TemplateError(f"Template format error: Unrecognized resource types: {unknown}")
    waits: dict[str, tuple[str, ...]] = {}
    for logical_id, entry in template.resources.items():
        if logical_id not in scope.active:
            continue
        needed = dict.fromkeys(name for name in depends_on(entry) if name in scope.active)
        problems += [
            f"Unresolved resource dependencies [{name}] in DependsOn of {logical_id}"
            for name in depends_on(entry)
            if name not in template.resources
        ]
        problems += _dangling(stack, template, scope, entry.get("Properties"), logical_id)
        for name, _ in references(entry.get("Properties"), scope.conditions):
            if name in scope.active:
                needed[name] = None
        waits[logical_id] = tuple(name for name in needed if name != logical_id)
    for name, output in template.section("Outputs").items():
        if _holds(scope, output, name):
            problems += _dangling(stack, template, scope, output.get("Value"), f"output {name}")
    if problems:
        raise TemplateError("Template format error: " + "; ".join(dict.fromkeys(problems)))
    return _sorted(waits)


def _dangling(stack: EmulatedStack, template: Template, scope: Scope, value: Any, where: str) -> list[str]:
    problems = []
    for name, attribute in references(value, scope.conditions):
        if name in scope.active:
            provider = provider_for(template.resources[name]["Type"], stack.region_name)
            if attribute is not None and provider is not None and not provider.has_attribute(attribute):
                problems.append(f"resource {name} does not support attribute type {attribute} in Fn::GetAtt ({where})")
        elif attribute is not None or (
            name not in scope.parameters and name not in scope.pseudo and name != "AWS::NoValue"
        ):
            problems.append(f"Unresolved resource dependencies [{name}] in {where}")
    return problems


def _sorted(waits: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Put every resource after those it waits for, keeping the template's order where it is free."""
    ordered: dict[str, tuple[str, ...]] = {}
    state: dict[str, bool] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if state.get(name):
            return
        if name in state:
            circle = [*path[path.index(name) :], name]
            raise TemplateError(f"Circular dependency between resources: [{', '.join(circle)}]")
        state[name] = False
        for other in waits[name]:
            visit(other, (*path, name))
        state[name] = True
        ordered[name] = waits[name]

    for name in waits:
        visit(name, ())
    return ordered
