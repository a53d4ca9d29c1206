"""What CloudFormation refuses in a template before it looks at any service: shapes, names, limits, arguments.

All of the template counts here, also what conditions leave out and the branches that ``Fn::If`` does not take.
Limits: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

SECTIONS = {
    "AWSTemplateFormatVersion", "Conditions", "Description", "Mappings", "Metadata", "Outputs", "Parameters",
    "Resources", "Rules", "Transform",
}  # fmt: skip
_VERSION = "2010-09-09"
_LIMITS = {"Mappings": 200, "Outputs": 200, "Parameters": 200, "Resources": 500}
_DESCRIPTION_BYTES = 1024
_BODY_BYTES = 1_048_576

_RESOURCE_KEYS = {
    "Condition", "CreationPolicy", "DeletionPolicy", "DependsOn", "Metadata", "Properties", "Type", "UpdatePolicy",
    "UpdateReplacePolicy",
}  # fmt: skip
_PARAMETER_KEYS = {
    "AllowedPattern", "AllowedValues", "ConstraintDescription", "Default", "Description", "MaxLength", "MaxValue",
    "MinLength", "MinValue", "NoEcho", "Type",
}  # fmt: skip
_OUTPUT_KEYS = {"Condition", "Description", "Export", "Value"}
POLICIES = {
    "DeletionPolicy": {"Delete", "Retain", "RetainExceptOnCreate", "Snapshot"},
    "UpdateReplacePolicy": {"Delete", "Retain", "Snapshot"},
}
# Transforms whose functions are understood here; any other would change the template in ways nobody looked at.
_TRANSFORMS = {"AWS::LanguageExtensions"}

_SPECIFIC = (
    r"AWS::EC2::(AvailabilityZone::Name|Image::Id|Instance::Id|KeyPair::KeyName|SecurityGroup::GroupName|"
    r"SecurityGroup::Id|Subnet::Id|Volume::Id|VPC::Id)|AWS::Route53::HostedZone::Id"
)
_PARAMETER_TYPE = re.compile(
    rf"String|Number|List<Number>|CommaDelimitedList|{_SPECIFIC}|List<({_SPECIFIC})>|AWS::SSM::Parameter::Name|"
    rf"AWS::SSM::Parameter::Value<(String|List<String>|CommaDelimitedList|{_SPECIFIC}|List<({_SPECIFIC})>)>"
)

_CONDITION_FUNCTIONS = {"Condition": 1, "Fn::And": None, "Fn::Equals": 2, "Fn::Not": 1, "Fn::Or": None}
_RULE_FUNCTIONS = {"Fn::Contains", "Fn::EachMemberEquals", "Fn::EachMemberIn"}
_EXTENSIONS = {"Fn::Length", "Fn::ToJsonString"}
# How many arguments a function takes as a list; None for those with another form.
_FUNCTIONS: dict[str, tuple[int, ...] | None] = {
    "Fn::Base64": None,
    "Fn::Cidr": (2, 3),
    "Fn::FindInMap": (3, 4),
    "Fn::GetAZs": None,
    "Fn::GetAtt": None,
    "Fn::GetStackOutput": None,
    "Fn::If": (3,),
    "Fn::ImportValue": None,
    "Fn::Join": (2,),
    "Fn::Length": None,
    "Fn::Select": (2,),
    "Fn::Split": (2,),
    "Fn::Sub": None,
    "Fn::ToJsonString": None,
}
# Functions whose values a condition may compare.
_IN_CONDITIONS = {
    "Fn::FindInMap", "Fn::Join", "Fn::Length", "Fn::Select", "Fn::Split", "Fn::Sub", "Fn::ToJsonString",
}  # fmt: skip
_SUB = re.compile(r"\$\{([^!}][^}]*|)\}")
_SUB_NAME = re.compile(r"[A-Za-z0-9_.:]+")


class TemplateError(Exception):
    """The template, or what it was given, cannot be deployed; CloudFormation calls this a ValidationError."""


def _refuse(text: str) -> None:
    raise TemplateError(f"Template format error: {text}")


def check(document: Mapping[str, Any], body: str) -> None:
    """Check the shape of a template.

    Raises:
        TemplateError: With the first thing that is wrong.
    """
    if len(body.encode()) > _BODY_BYTES:
        raise TemplateError(f"Template may not exceed {_BODY_BYTES} bytes in size.")
    unknown = sorted(map(str, set(document) - SECTIONS))
    if unknown:
        raise TemplateError(f"Invalid template property or properties {unknown}")
    if str(document.get("AWSTemplateFormatVersion", _VERSION)) != _VERSION:
        _refuse(f"unsupported value for AWSTemplateFormatVersion; it is {_VERSION}.")
    description = document.get("Description", "")
    if not isinstance(description, str) or len(description.encode()) > _DESCRIPTION_BYTES:
        _refuse(f"Description must be text of at most {_DESCRIPTION_BYTES} bytes.")
    extended = _transforms(document)
    for name in SECTIONS - {"AWSTemplateFormatVersion", "Description", "Transform"}:
        section = document.get(name)
        if section is not None and not isinstance(section, dict):
            _refuse(f"{name} must be an object.")
        if len(section or ()) > _LIMITS.get(name, len(section or ())):
            _refuse(f"Number of {name.lower()}, {len(section or ())}, is greater than maximum allowed, {_LIMITS[name]}")
    _parameters(document.get("Parameters") or {})
    _mappings(document.get("Mappings") or {})
    _resources(document.get("Resources"), extended=extended)
    _outputs(document.get("Outputs") or {})
    twice = sorted(set(document.get("Parameters") or {}) & set(document["Resources"]))
    if twice:
        _refuse(f"a parameter and a resource have the same name: {twice}.")
    _functions(document, extended=extended)


def _transforms(document: Mapping[str, Any]) -> bool:
    """Refuse transforms that are not run here; say whether the language extensions are on."""
    transforms = document.get("Transform") or []
    transforms = [transforms] if isinstance(transforms, str | dict) else transforms
    foreign = [item for item in transforms if not isinstance(item, str) or item not in _TRANSFORMS]
    if foreign:
        raise TemplateError(f"the emulator does not run transforms: {foreign}")
    return bool(transforms)


def _named(name: Any, kind: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9]{1,255}", str(name)):
        _refuse(f"{kind} name {name} is non alphanumeric.")


def _parameters(parameters: Mapping[str, Any]) -> None:
    for name, slot in parameters.items():
        _named(name, "Parameter")
        if not isinstance(slot, dict) or not isinstance(slot.get("Type"), str):
            _refuse(f"parameter {name} must have a Type.")
        if not _PARAMETER_TYPE.fullmatch(slot["Type"]):
            _refuse(f"Unrecognized parameter type: {slot['Type']}")
        unknown = sorted(set(slot) - _PARAMETER_KEYS)
        if unknown:
            raise TemplateError(f"Invalid template parameter property {unknown} of {name}")
        if isinstance(slot.get("Default"), dict | list):
            _refuse(f"Every Default member must be a string, that of parameter {name} is not.")


def _mappings(mappings: Mapping[str, Any]) -> None:
    for name, mapping in mappings.items():
        _named(name, "Mapping")
        if not isinstance(mapping, dict) or not mapping or not all(isinstance(row, dict) for row in mapping.values()):
            _refuse(f"Every Mappings member must be a map of maps, {name} is not.")
        for row in mapping.values():
            for value in row.values():
                if isinstance(value, dict) or value is None or any(isinstance(i, dict | list) for i in _items(value)):
                    _refuse(f"Every Mappings attribute must be a String or a List; mapping {name}.")


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _resources(resources: Any, *, extended: bool) -> None:
    if not isinstance(resources, dict) or not resources:
        _refuse("At least one Resources member must be defined.")
    for logical_id, resource in resources.items():
        where = f"[/Resources/{logical_id}]"
        _named(logical_id, "Resource")
        if not isinstance(resource, dict) or not isinstance(resource.get("Type"), str):
            _refuse(f"{where} Every Resources object must contain a Type member.")
        unknown = sorted(map(str, set(resource) - _RESOURCE_KEYS))
        if unknown:
            raise TemplateError(f"Invalid template resource property {unknown} in {where}")
        for key in ("Properties", "Metadata", "CreationPolicy", "UpdatePolicy"):
            if not isinstance(resource.get(key) or {}, dict):
                _refuse(f"{where} {key} must be an object.")
        if not isinstance(resource.get("Condition", ""), str):
            _refuse(f"{where} Every Condition member must be a string.")
        needs = resource.get("DependsOn", [])
        if not isinstance(needs, str) and not (isinstance(needs, list) and all(isinstance(n, str) for n in needs)):
            _refuse(f"{where} DependsOn must be a string or a list of strings.")
        for policy, allowed in POLICIES.items():
            _policy(where, policy, resource.get(policy, "Delete"), allowed, extended=extended)


def _policy(where: str, policy: str, value: Any, allowed: set[str], *, extended: bool) -> None:
    if not isinstance(value, str):
        if not extended or not isinstance(value, dict):
            _refuse(f"{where} Every {policy} member must be a string.")
    elif value not in allowed:
        _refuse(f"{where} Unrecognized {policy} {value}.")
    elif value == "Snapshot":
        raise TemplateError(f"{where} the emulator takes no snapshots, as {policy} {value} wants")


def _outputs(outputs: Mapping[str, Any]) -> None:
    for name, output in outputs.items():
        _named(name, "Output")
        if not isinstance(output, dict) or output.get("Value") is None:
            _refuse(f"Output {name} is malformed: it needs a Value.")
        unknown = sorted(set(output) - _OUTPUT_KEYS)
        if unknown:
            raise TemplateError(f"Invalid template output property {unknown} of {name}")
        if isinstance(output["Value"], list):
            _refuse("The Value field of every Outputs member must evaluate to a String.")
        if not isinstance(output.get("Condition", ""), str) or not isinstance(output.get("Description", ""), str):
            _refuse(f"Output {name} is malformed: Condition and Description are strings.")
        if "Export" in output and (not isinstance(output["Export"], dict) or set(output["Export"]) != {"Name"}):
            _refuse(f"Output {name} is malformed: Export needs a Name and nothing else.")


def _functions(document: Mapping[str, Any], *, extended: bool) -> None:
    conditions, resources = document.get("Conditions") or {}, set(document["Resources"])
    for name, body in conditions.items():
        _condition(name, body)
    for logical_id, resource in document["Resources"].items():
        _walk(resource, f"resource {logical_id}", conditions, resources, extended=extended)
    for name, output in (document.get("Outputs") or {}).items():
        _walk(output, f"output {name}", conditions, resources, extended=extended)
        if "Export" in output:
            _independent(output["Export"]["Name"], resources, f"the Name in Export of output {name}")
    _arguments(conditions, extended=extended)


def _condition(name: str, body: Any) -> None:
    """Check that a condition is built from the functions that conditions may have."""
    _named(name, "Condition")
    if not isinstance(body, dict) or len(body) != 1 or next(iter(body)) not in _CONDITION_FUNCTIONS:
        _refuse(f"Every Conditions member must be one of {', '.join(sorted(_CONDITION_FUNCTIONS))}; {name} is not.")
    function, argument = next(iter(body.items()))
    if function == "Condition":
        if not isinstance(argument, str):
            _refuse(f"Condition {name} must name another condition.")
        return
    count = len(argument) if isinstance(argument, list) else 0
    wanted = _CONDITION_FUNCTIONS[function]
    if count != wanted if wanted else not 2 <= count <= 10:
        _refuse(f"every {function} object requires a list of {wanted or '2 to 10'} parameters, in {name}.")
    if function != "Fn::Equals":
        for part in argument:
            _condition(name, part)
        return
    for used, _ in _calls(argument):
        if used not in _IN_CONDITIONS and used != "Ref":
            raise TemplateError(f"Template validation error: {used} cannot be used in the Conditions block ({name}).")


def _calls(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every function of a value, with its argument."""
    if isinstance(value, list):
        for item in value:
            yield from _calls(item)
    elif isinstance(value, dict):
        for name, argument in value.items():
            if str(name).startswith("Fn::") or (name == "Ref" and len(value) == 1):
                if len(value) > 1:
                    _refuse(f"{name} must stand alone in its object, not beside {sorted(set(value) - {name})}.")
                yield name, argument
            yield from _calls(argument)


def _walk(value: Any, where: str, conditions: Mapping[str, Any], resources: set[str], *, extended: bool) -> None:
    _arguments(value, extended=extended)
    for name, argument in _calls(value):
        if name == "Fn::If" and argument[0] not in conditions:
            _refuse(f"Unresolved condition {argument[0]} in {where}.")
        if name == "Fn::ImportValue":
            _independent(argument, resources, f"the attribute in Fn::ImportValue of {where}")
        if name in _RULE_FUNCTIONS or name in _CONDITION_FUNCTIONS:
            _refuse(f"{name} cannot be used in {where}.")


def _independent(value: Any, resources: set[str], what: str) -> None:
    """Refuse what is only known once resources exist."""
    depends = []
    for name, argument in _calls(value):
        names = [argument] if name == "Ref" else _SUB.findall(str(argument)) if name == "Fn::Sub" else []
        if name == "Fn::GetAtt":
            names = [argument.split(".")[0] if isinstance(argument, str) else str(argument[0])]
        depends += [found for found in names if found.split(".")[0] in resources]
    depends += [name for name, _ in _calls(value) if name in ("Fn::ImportValue", "Fn::GetAZs")]
    if depends:
        raise TemplateError(
            f"Template error: {what} must not depend on any resources, imported values, or Fn::GetAZs: {depends}"
        )


def _arguments(value: Any, *, extended: bool) -> None:
    """Check the arguments of all functions of a value."""
    for name, argument in _calls(value):
        if name in _CONDITION_FUNCTIONS or name in _RULE_FUNCTIONS:
            continue
        if name == "Ref":
            if not isinstance(argument, str) or not argument:
                raise TemplateError(f"Template error: every Ref object must have a single String value, got {argument}")
            continue
        if name not in _FUNCTIONS:
            raise TemplateError(f"Template error: unsupported function {name}")
        if name in _EXTENSIONS and not extended:
            raise TemplateError(f"Template error: {name} needs the transform AWS::LanguageExtensions")
        counts = _FUNCTIONS[name]
        if counts is not None:
            count = len(argument) if isinstance(argument, list) else 0
            if count not in counts:
                raise TemplateError(f"Template error: {name} needs {counts[0]} arguments, got {argument!r}")
        _one(name, argument, extended=extended)


def _one(name: str, argument: Any, *, extended: bool) -> None:
    if name in ("Fn::Join", "Fn::Split") and not isinstance(argument[0], str):
        raise TemplateError(f"Template error: the delimiter of {name} must be a string, got {argument[0]!r}")
    if name == "Fn::Split" and not argument[0]:
        raise TemplateError("Template error: the delimiter of Fn::Split may not be empty")
    if name == "Fn::If" and not isinstance(argument[0], str):
        raise TemplateError(f"Template error: Fn::If needs the name of a condition, got {argument[0]!r}")
    if name == "Fn::FindInMap" and len(argument) == 4:
        default = argument[3]
        if not extended or not isinstance(default, dict) or set(default) != {"DefaultValue"}:
            raise TemplateError(
                "Template error: Fn::FindInMap takes 3 arguments, and a DefaultValue with AWS::LanguageExtensions only"
            )
    if name == "Fn::Sub":
        _sub(argument)


def _sub(argument: Any) -> None:
    pair = [argument, {}] if isinstance(argument, str) else argument
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or not isinstance(pair[1], dict):
        raise TemplateError(
            "Template error: One or more Fn::Sub intrinsic functions don't specify expected arguments. "
            "Specify a string as first argument, and an optional second argument to specify a mapping of values"
        )
    for name in _SUB.findall(pair[0]):
        if name not in pair[1] and not _SUB_NAME.fullmatch(name):
            raise TemplateError(
                "Template error: variable names in Fn::Sub syntax must contain only alphanumeric characters, "
                f"underscores, periods, and colons; got ${{{name}}}"
            )
