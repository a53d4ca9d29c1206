"""Reads IAM policies, where a service here has to know what a policy lets it do.

Nothing is enforced with it for callers. It answers one question: may this service, or this role, do this now? What it
cannot read it does not guess at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from training_storage.emulator.errors import EmulatorError

Document = Mapping[str, Any]


def allowed(
    documents: Iterable[Document], *, action: str, resource: str, context: Mapping[str, str], service: str | None = None
) -> bool:
    """Say whether policies allow an action: one statement does, and none denies it.

    Args:
        documents: The policies.
        action: For example ``s3:ListBucket``.
        resource: ARN of what the action is for; a trust policy does not look at it.
        context: Condition keys of the request with their values; any other key is absent from it.
        service: The service that asks, where the policies name principals; None for policies of a role.
    """
    keys = {name.lower(): value for name, value in context.items()}
    found = False
    for document in documents:
        for statement in _many(document.get("Statement")):
            if not (
                _principal(statement, service)
                and _named(statement, "Action", action, ignore_case=True)
                and _named(statement, "Resource", resource)
                and _conditions(statement, keys)
            ):
                continue
            if statement.get("Effect") == "Deny":
                return False
            found = True
    return found


def _many(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def like(pattern: str, value: str, *, ignore_case: bool = False) -> bool:
    """Say whether a value fits a pattern with ``*`` and ``?``."""
    expression = "".join(".*" if sign == "*" else "." if sign == "?" else re.escape(sign) for sign in pattern)
    return re.fullmatch(expression, value, re.DOTALL | (re.IGNORECASE if ignore_case else 0)) is not None


def _named(statement: Mapping[str, Any], element: str, value: str, *, ignore_case: bool = False) -> bool:
    """Whether the statement is about this action or resource; one that names none is about all."""
    if f"Not{element}" in statement:
        return not any(like(str(item), value, ignore_case=ignore_case) for item in _many(statement[f"Not{element}"]))
    if element not in statement:
        return True
    return any(like(str(item), value, ignore_case=ignore_case) for item in _many(statement[element]))


def _principal(statement: Mapping[str, Any], service: str | None) -> bool:
    if service is None:
        return True
    if "NotPrincipal" in statement:
        return not _is_service(statement["NotPrincipal"], service)
    return _is_service(statement.get("Principal"), service)


def _is_service(principal: Any, service: str) -> bool:
    if principal == "*":
        return True
    if not isinstance(principal, Mapping):
        return False
    return service in _many(principal.get("Service")) or "*" in _many(principal.get("AWS"))


def _conditions(statement: Mapping[str, Any], keys: Mapping[str, str]) -> bool:
    for operator, tests in (statement.get("Condition") or {}).items():
        for key, values in tests.items():
            if not _holds(str(operator), keys.get(str(key).lower()), [str(value) for value in _many(values)]):
                return False
    return True


_COMPARED = {
    "NumericEquals": lambda left, right: left == right,
    "NumericNotEquals": lambda left, right: left != right,
    "NumericLessThan": lambda left, right: left < right,
    "NumericLessThanEquals": lambda left, right: left <= right,
    "NumericGreaterThan": lambda left, right: left > right,
    "NumericGreaterThanEquals": lambda left, right: left >= right,
}
_EQUAL = {"StringEquals", "StringEqualsIgnoreCase", "StringNotEquals", "StringNotEqualsIgnoreCase"}
_LIKE = {"StringLike", "StringNotLike", "ArnEquals", "ArnLike", "ArnNotEquals", "ArnNotLike"}


def _holds(operator: str, value: str | None, wanted: list[str]) -> bool:
    name = operator.removeprefix("ForAnyValue:").removeprefix("ForAllValues:")
    optional = name.endswith("IfExists") or operator.startswith("ForAllValues:")
    name = name.removesuffix("IfExists")
    if name == "Null":
        return (value is None) == (wanted[0].lower() == "true")
    if value is None:
        # a comparison that says "not" is true of what is absent
        return optional or "Not" in name
    if name == "Bool":
        return value.lower() in [item.lower() for item in wanted]
    if name in _COMPARED:
        return any(_COMPARED[name](float(value), float(item)) for item in wanted)
    if name in _EQUAL:
        fold = "IgnoreCase" in name
        same = any(item.lower() == value.lower() if fold else item == value for item in wanted)
        return same != ("Not" in name)
    if name in _LIKE:
        return any(like(item, value) for item in wanted) != ("Not" in name)
    raise EmulatorError(f"the emulator cannot evaluate the condition operator {operator} of a policy")
