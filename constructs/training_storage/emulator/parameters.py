"""Parameters of a template: their types, what they may be, and what they refer to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from training_storage.emulator.intrinsics import text
from training_storage.emulator.stack import EmulatedStack
from training_storage.emulator.template import Template, TemplateError


def resolve(stack: EmulatedStack, template: Template, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of every parameter: text, or a list of text.

    Raises:
        TemplateError: A parameter is missing, unknown, not allowed, or names something that does not exist.
    """
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
    if kind.startswith("AWS::SSM::Parameter::"):
        _check_parameter(name, slot, value)
        found = _stored(stack, name, str(value))
        inner = kind.removeprefix("AWS::SSM::Parameter::Value<").removesuffix(">")
        if inner == "AWS::SSM::Parameter::Name":
            return text(value)
        items = [item.strip() for item in found.split(",")] if _listed(inner) else [found]
        _check_exist(stack, name, inner, items)
        return items if _listed(inner) else found
    listed = _listed(kind)
    items = list(value) if isinstance(value, list) else text(value).split(",") if listed else [text(value)]
    # A number stays as it was written: what a Ref gives is text, also where it has leading zeros.
    items = [text(item).strip() if listed else text(item) for item in items]
    for item in items:
        if kind in ("Number", "List<Number>"):
            _number(name, item)
        _check_parameter(name, slot, item)
    _check_exist(stack, name, kind, items)
    return items if listed else items[0]


def _listed(kind: str) -> bool:
    return kind == "CommaDelimitedList" or kind.startswith("List<")


def _stored(stack: EmulatedStack, name: str, key: str) -> str:
    """Return what Parameter Store holds under a key."""
    problem = f"Unable to fetch parameters [{key}] from parameter store for this account ({name})"
    try:
        answer = stack.context("").client("ssm").get_parameter(Name=key, WithDecryption=True)["Parameter"]
    except ClientError:
        raise TemplateError(problem) from None
    if answer["Type"] == "SecureString":
        raise TemplateError(
            f"Parameters [{key}] referenced by template have types not supported by CloudFormation ({name})"
        )
    return str(answer["Value"])


# How EC2 lists what a parameter of each type may name. Images are left out: the emulator makes their ids up.
_LOOKED_UP: dict[str, tuple[str, str, str]] = {
    "AWS::EC2::AvailabilityZone::Name": ("describe_availability_zones", "AvailabilityZones", "ZoneName"),
    "AWS::EC2::KeyPair::KeyName": ("describe_key_pairs", "KeyPairs", "KeyName"),
    "AWS::EC2::SecurityGroup::GroupName": ("describe_security_groups", "SecurityGroups", "GroupName"),
    "AWS::EC2::SecurityGroup::Id": ("describe_security_groups", "SecurityGroups", "GroupId"),
    "AWS::EC2::Subnet::Id": ("describe_subnets", "Subnets", "SubnetId"),
    "AWS::EC2::VPC::Id": ("describe_vpcs", "Vpcs", "VpcId"),
    "AWS::EC2::Volume::Id": ("describe_volumes", "Volumes", "VolumeId"),
}


def _check_exist(stack: EmulatedStack, name: str, kind: str, values: Sequence[str]) -> None:
    """Refuse a parameter of a type such as AWS::EC2::VPC::Id that names nothing in the account and region."""
    inner = kind.removeprefix("List<").removesuffix(">")
    if inner == "AWS::EC2::Image::Id":
        known = {value for value in values if re.fullmatch(r"ami-[0-9a-z]{8,17}", value)}
    elif inner in _LOOKED_UP:
        operation, key, field = _LOOKED_UP[inner]
        known = {item.get(field) for item in getattr(stack.context("").client("ec2"), operation)()[key]}
    else:
        return
    for value in values:
        if value not in known:
            raise TemplateError(
                f"Parameter validation failed: parameter value {value} for parameter name {name} does not exist"
            )


def _number(name: str, value: str) -> None:
    try:
        float(value)
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
