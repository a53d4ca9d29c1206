"""What the functions of one stack's template can see: its own resources, other stacks, and the emulated services."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from training_storage.emulator import clients, parameters
from training_storage.emulator.intrinsics import Scope
from training_storage.emulator.partitions import URL_SUFFIXES
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
            "AWS::URLSuffix": URL_SUFFIXES.get(stack.partition, "amazonaws.com"),
        },
        mappings=template.section("Mappings"),
    )
    scope.parameters = parameters.resolve(stack, template, given)
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


def in_order(stack: EmulatedStack, template: Template, scope: Scope) -> dict[str, tuple[str, ...]]:
    """Check all types and references, and return the resources with what each waits for, in an order that works.

    Raises:
        TemplateError: Unknown types, references that point nowhere, attributes that a type lacks, or a circle.
    """
    problems: list[str] = []
    # CloudFormation looks at the whole template here, also at what conditions leave out.
    kinds = {entry["Type"] for entry in template.resources.values()}
    unknown = sorted(kind for kind in kinds if provider_for(kind, stack.region_name) is None)
    if unknown:
        raise TemplateError(f"Template format error: Unrecognized resource types: {unknown}")
    waits: dict[str, tuple[str, ...]] = {}
    for logical_id, entry in template.resources.items():
        problems += [
            f"Unresolved resource dependencies [{name}] in DependsOn of {logical_id}"
            for name in depends_on(entry)
            if name not in template.resources
        ]
        values = [entry.get(key) for key in _WITH_FUNCTIONS]
        if "{{resolve:ssm-secure:" in str(values) and entry["Type"] not in _SECURE:
            problems.append(f"SSM Secure reference is not supported in: [{entry['Type']}] ({logical_id})")
        problems += _nowhere(stack, template, scope, values, logical_id)
        if logical_id not in scope.active:
            continue
        problems += _left_out(scope, template, values, logical_id)
        needed = dict.fromkeys(name for name in depends_on(entry) if name in scope.active)
        for name, _ in references(values, scope.conditions):
            if name in scope.active:
                needed[name] = None
        waits[logical_id] = tuple(needed)
    for name, output in template.section("Outputs").items():
        problems += _nowhere(stack, template, scope, output["Value"], f"output {name}")
        if _holds(scope, output, name):
            problems += _left_out(scope, template, output["Value"], f"output {name}")
    if problems:
        raise TemplateError("Template format error: " + "; ".join(dict.fromkeys(problems)))
    return _sorted(waits)


# The parts of a resource in which CloudFormation resolves functions.
_WITH_FUNCTIONS = ("Properties", "Metadata", "CreationPolicy", "UpdatePolicy")

# Types that take secure strings of Parameter Store, in one property or another:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references-ssm-secure-strings.html
_SECURE = {
    "AWS::DirectoryService::MicrosoftAD", "AWS::DirectoryService::SimpleAD", "AWS::ElastiCache::ReplicationGroup",
    "AWS::IAM::User", "AWS::KinesisFirehose::DeliveryStream", "AWS::OpsWorks::App", "AWS::OpsWorks::Stack",
    "AWS::RDS::DBCluster", "AWS::RDS::DBInstance", "AWS::Redshift::Cluster",
}  # fmt: skip


def _nowhere(stack: EmulatedStack, template: Template, scope: Scope, value: Any, where: str) -> list[str]:
    """Find references to names and attributes that do not exist, in branches that are not taken too."""
    problems = []
    for name, attribute in references(value, {}):
        if name in template.resources:
            provider = provider_for(template.resources[name]["Type"], stack.region_name)
            if attribute is not None and provider is not None and not provider.has_attribute(attribute):
                problems.append(f"resource {name} does not support attribute type {attribute} in Fn::GetAtt ({where})")
        elif attribute is not None or (
            name not in scope.parameters and name not in scope.pseudo and name != "AWS::NoValue"
        ):
            problems.append(f"Unresolved resource dependencies [{name}] in {where}")
    return problems


def _left_out(scope: Scope, template: Template, value: Any, where: str) -> list[str]:
    """Find references to resources that a condition leaves out."""
    found = (name for name, _ in references(value, scope.conditions))
    return [
        f"Unresolved resource dependencies [{name}] in {where}"
        for name in found
        if name in template.resources and name not in scope.active
    ]


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
