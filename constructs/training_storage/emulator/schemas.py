"""The CloudFormation registry schemas that cfn-lint ships: what a type is called, takes, gives back and cannot change.

The files are read directly: importing cfn-lint for them costs about a second.
Resolved properties are checked here, not the template: a reference that yields the wrong kind of id fails the deploy.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import util
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.validators import extend

from training_storage.emulator.errors import EmulatorUnavailableError

_PREFIX = "/properties/"


@lru_cache
def _folder() -> Path:
    spec = util.find_spec("cfnlint")
    if spec is None or spec.submodule_search_locations is None:
        raise EmulatorUnavailableError("the emulator needs the schemas of cfn-lint")
    return Path(next(iter(spec.submodule_search_locations))) / "data" / "schemas"


@lru_cache
def _types(region: str) -> dict[str, str]:
    """Types of a region; a region without a list of its own takes that of us-east-1, as cfn-lint does."""
    path = _folder() / "providers" / f"{region}.json"
    if not path.exists():
        path = _folder() / "providers" / "us-east-1.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _pattern(_validator: Any, pattern: str, instance: object, _schema: Any) -> Any:
    """Check a pattern, unless it is written in a dialect that Python does not have (Java's classes of letters)."""
    if not isinstance(instance, str):
        return
    try:
        matches = re.search(pattern, instance) is not None
    except re.error:
        return
    if not matches:
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


# Ids that stand for themselves; a name of another kind under one of them is a reference gone wrong.
_FORMATS = {
    "AWS::EC2::Image.Id": r"ami-([0-9a-z]{8}|[0-9a-z]{17})|resolve:ssm:.+",
    "AWS::EC2::SecurityGroup.Id": r"sg-([0-9a-fA-F]{8}|[0-9a-fA-F]{17})",
    "AWS::EC2::Subnet.Id": r"subnet-([0-9a-fA-F]{8}|[0-9a-fA-F]{17})",
    "AWS::EC2::VPC.Id": r"vpc-([0-9a-fA-F]{8}|[0-9a-fA-F]{17})",
    "AWS::IAM::Role.Arn": r"arn:aws[a-z-]*:iam::\d{12}:role/.+",
    "AWS::KMS::Key.Arn": r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:(key|alias)/.+",
    "AWS::SNS::Topic.Arn": r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:.+",
}


def _format(_validator: Any, name: Any, instance: object, _schema: Any) -> Any:
    pattern = _FORMATS.get(str(name))
    if pattern is not None and isinstance(instance, str) and re.fullmatch(pattern, instance) is None:
        yield ValidationError(f"{instance!r} is not a {name}")


def _no_case(_validator: Any, allowed: Any, instance: object, _schema: Any) -> Any:
    if str(instance).lower() not in {str(item).lower() for item in allowed}:
        yield ValidationError(f"{instance!r} is not one of {allowed}")


def _exactly_one(_validator: Any, names: Any, instance: object, _schema: Any) -> Any:
    if isinstance(instance, dict) and len([name for name in names if name in instance]) != 1:
        yield ValidationError(f"exactly one of {names} is required")


def _at_least_one(_validator: Any, names: Any, instance: object, _schema: Any) -> Any:
    if isinstance(instance, dict) and not any(name in instance for name in names):
        yield ValidationError(f"at least one of {names} is required")


def _excluded(_validator: Any, rules: Any, instance: object, _schema: Any) -> Any:
    if isinstance(instance, dict):
        for name, others in rules.items():
            both = [other for other in others if other in instance] if name in instance else []
            if both:
                yield ValidationError(f"{name} and {', '.join(both)} exclude each other")


def _needed(_validator: Any, rules: Any, instance: object, _schema: Any) -> Any:
    if isinstance(instance, dict):
        for name, others in rules.items():
            missing = [other for other in others if other not in instance] if name in instance else []
            if missing:
                yield ValidationError(f"{name} needs {', '.join(missing)}")


# cfn-lint writes some rules of the services in words of its own.
_Validator = extend(
    Draft7Validator,
    {
        "dependentExcluded": _excluded,
        "dependentRequired": _needed,
        "enumCaseInsensitive": _no_case,
        "format": _format,
        "pattern": _pattern,
        "requiredOr": _at_least_one,
        "requiredXor": _exactly_one,
    },
)  # type: ignore[no-untyped-call]  # jsonschema gives extend no types


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """One resource type, as the registry describes it.

    Attributes:
        type_name: For example ``AWS::FSx::FileSystem``.
        document: The schema itself.
        read_only: Attributes that the service returns, as dotted names: what ``Fn::GetAtt`` may ask for.
        create_only: Properties that cannot change in place, as dotted names.
        identifier: Properties that make up the identifier, in order.
        read_only_items: Read-only properties inside lists, as dotted names with ``*`` for the item.
    """

    type_name: str
    document: dict[str, Any]
    read_only: tuple[str, ...]
    create_only: tuple[str, ...]
    identifier: tuple[str, ...]
    read_only_items: tuple[str, ...] = ()

    def problem(self, properties: dict[str, Any]) -> str | None:
        """Say what is wrong with resolved properties, or None."""
        fixed = set(self.create_only)  # what is listed as both can be given
        found = [name for name in (*self.read_only, *self.read_only_items) if _given(properties, name)]
        given = [name for name in found if name not in fixed]
        if given:
            names = ", ".join(name.replace(".", "/") for name in given)
            return f"Properties validation failed for {self.type_name}: read-only properties cannot be given: {names}"
        error = best_match(_Validator(self.document).iter_errors(properties))
        if error is None:
            return None
        where = "/".join(str(part) for part in error.absolute_path)
        return f"Properties validation failed for {self.type_name}: #{'/' + where if where else ''}: {error.message}"

    def coerce(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Turn ``"1200"`` and ``"true"`` into what the type wants, as CloudFormation does for parameters."""
        return dict(_coerce(properties, self.document, self.document))

    def leaf(self, attribute: str) -> dict[str, Any]:
        """Return the schema of a dotted attribute; empty when the registry says nothing about it."""
        node: dict[str, Any] = self.document
        for part in attribute.split("."):
            node = _follow(node, self.document).get("properties", {}).get(part, {})
        return _follow(node, self.document)


@lru_cache
def load(type_name: str, region: str = "us-east-1") -> TypeSchema | None:
    """Return the schema of a type in a region, or None where the registry does not know it."""
    key = _types(region).get(type_name)
    if key is None:
        return None
    document = json.loads((_folder() / "resources" / f"{key}.json").read_text(encoding="utf-8"))

    def names(section: str, *, items: bool = False) -> tuple[str, ...]:
        found = (path[len(_PREFIX) :].replace("/", ".") for path in document.get(section) or ())
        return tuple(dict.fromkeys(name for name in found if ("*" in name) == items))

    return TypeSchema(
        type_name=type_name,
        document=document,
        read_only=names("readOnlyProperties"),
        create_only=(*names("createOnlyProperties"), *names("createOnlyProperties", items=True)),
        identifier=names("primaryIdentifier"),
        read_only_items=names("readOnlyProperties", items=True),
    )


def changed_create_only(schema: TypeSchema, old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Name the create-only properties that differ: a change in any of them needs a new resource."""
    return [name for name in schema.create_only if _pick(old, name) != _pick(new, name)]


def invent(schema: TypeSchema, attribute: str, *, partition: str, region: str, account: str, logical_id: str) -> Any:
    """Make up a value of the right shape for an attribute of a type that only its schema describes."""
    leaf = schema.leaf(attribute)
    kind = leaf.get("type")
    if kind in ("integer", "number"):
        return 1
    if kind == "boolean":
        return False
    if kind == "array":
        return []
    if kind == "object":
        return {}
    unique = uuid.uuid4().hex[:17]
    if attribute.lower().endswith("arn"):
        service = schema.type_name.split("::")[1].lower()
        kind_name = schema.type_name.split("::")[2].lower()
        return f"arn:{partition}:{service}:{region}:{account}:{kind_name}/{logical_id.lower()}-{unique}"
    prefix = re.search(r"(?:^|[|(^])([a-z]+)-(?:\(\?:|\(|\[)", leaf.get("pattern", ""))
    return f"{prefix.group(1) if prefix else logical_id.lower()}-{unique}"


def _pick(properties: Any, dotted: str) -> Any:
    part, _, rest = dotted.partition(".")
    if part == "*":
        found: Any = list(properties) if isinstance(properties, list) else None
        return [_pick(item, rest) if rest else item for item in found] if found is not None else None
    if not isinstance(properties, dict):
        return None
    return _pick(properties.get(part), rest) if rest else properties.get(part)


def _given(properties: Any, dotted: str) -> bool:
    value = _pick(properties, dotted)
    return any(item is not None and item != [] for item in _flat(value))


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, list) and value:
        for item in value:
            yield from _flat(item)
    else:
        yield value


def _follow(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    for _ in range(20):  # chains of references are short; a loop would be a broken schema
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        node: Any = root
        for part in reference[2:].split("/"):
            node = node.get(part, {}) if isinstance(node, dict) else {}
        schema = node
    return schema if isinstance(schema, dict) else {}


def _coerce(value: Any, schema: Any, root: dict[str, Any]) -> Any:
    schema = _follow(schema, root)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        patterns = list(schema.get("patternProperties", {}).values())
        rest = patterns[0] if patterns else others if isinstance(others, dict) else {}
        return {key: _coerce(item, properties.get(key, rest), root) for key, item in value.items()}
    if isinstance(value, list):
        return [_coerce(item, schema.get("items", {}), root) for item in value]
    kind = schema.get("type")
    if kind == "string" and isinstance(value, bool):
        return "true" if value else "false"
    if kind == "string" and isinstance(value, int | float):
        return str(value)
    if kind == "boolean" and value in ("true", "false"):
        return value == "true"
    if kind == "integer" and isinstance(value, str) and re.fullmatch(r"-?\d+", value):
        return int(value)
    if kind == "number" and isinstance(value, str) and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return float(value)
    return value
