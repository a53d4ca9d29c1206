"""A small evaluator of alarms: metric math over made-up series, missing data, M of N datapoints, composite rules."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Series = Sequence[float | None]


def values(expression: str, series: Mapping[str, Series]) -> list[float | None]:
    """Return an expression of metric math over series of the same length; None is a missing datapoint."""
    length = max(len(each) for each in series.values())
    node = ast.parse(expression, mode="eval").body
    return [_at(node, {name: each[number] for name, each in series.items()}) for number in range(length)]


_OPERATORS: Mapping[type[Any], Callable[[float, float], float | None]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right if right else None,
    ast.Gt: lambda left, right: float(left > right),
}


def _at(node: ast.expr, given: Mapping[str, float | None]) -> float | None:
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]  # only numbers stand in our expressions
    if isinstance(node, ast.Name):
        return given[node.id]
    if isinstance(node, ast.BinOp):
        return _both(type(node.op), _at(node.left, given), _at(node.right, given))
    if isinstance(node, ast.Compare):
        (operator,), (right,) = node.ops, node.comparators
        return _both(type(operator), _at(node.left, given), _at(right, given))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    if node.func.id == "FILL":
        found = _at(node.args[0], given)
        return _at(node.args[1], given) if found is None else found
    assert node.func.id == "IF"
    condition = _at(node.args[0], given)
    return None if condition is None else _at(node.args[1 if condition else 2], given)


def _both(operator: type[Any], left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else _OPERATORS[operator](left, right)


def watched(alarm: Mapping[str, Any], series: Mapping[str, Series]) -> list[float | None]:
    """Return what an alarm compares. A single metric and a query are the series ``value``."""
    head = next((each for each in alarm.get("Metrics", []) if "Expression" in each), None)
    if head is None or head["Expression"].startswith("SELECT"):
        return list(series["value"])
    return values(head["Expression"], series)


def state(alarm: Mapping[str, Any], series: Mapping[str, Series], before: str = "OK") -> str:
    """Return the state of an alarm after series (CloudWatch User Guide, how alarms treat missing data)."""
    seen = watched(alarm, series)[-alarm["EvaluationPeriods"] :]
    above = alarm["ComparisonOperator"] == "GreaterThanThreshold"
    treat = alarm["TreatMissingData"]
    there = [each for each in seen if each is not None]
    if not there and treat in ("missing", "ignore"):
        return "INSUFFICIENT_DATA" if treat == "missing" else before
    beyond = sum(each > alarm["Threshold"] if above else each < alarm["Threshold"] for each in there)
    if treat == "breaching":
        beyond += len(seen) - len(there)
    return "ALARM" if beyond >= alarm["DatapointsToAlarm"] else "OK"


def composite(rule: str, standing: set[str]) -> bool:
    """Return whether a composite alarm stands; alarms by the reference in its rule."""
    words = re.sub(r'ALARM\("([^"]+)"\)', lambda found: str(found[1] in standing), rule)
    assert not re.sub(r"True|False|AND|OR|NOT|[() ]", "", words), words
    tree = ast.parse(words.replace("AND", "and").replace("OR", "or").replace("NOT", "not"), mode="eval")
    return _true(tree.body)


def _true(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return bool(node.value)
    assert isinstance(node, ast.BoolOp)
    found = [_true(each) for each in node.values]
    return all(found) if isinstance(node.op, ast.And) else any(found)
