"""What CloudWatch takes as a dashboard and as an alarm, and which metrics a template names.

Sources: CloudWatch API Reference, "Dashboard Body Structure and Syntax", "PutDashboard", "PutMetricAlarm",
"PutCompositeAlarm"; CloudWatch User Guide, "Search expression syntax" and "Metrics Insights".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from training_storage.node.metrics import OURS, SERVICES

TABLE = {(metric.namespace, metric.name): metric for metric in (*OURS.values(), *SERVICES.values())}
STATISTICS = {"Average", "Maximum", "Minimum", "SampleCount", "Sum"}
FUNCTIONS = {"AVG": "Average", "MAX": "Maximum", "MIN": "Minimum", "COUNT": "SampleCount", "SUM": "Sum"}
MATH = {"ABS", "AVG", "ASC", "CEIL", "DESC", "FILL", "FLOOR", "IF", "MAX", "MIN", "SUM", "SLICE", "SORT", "SEARCH"}
_ID = re.compile(r"[a-z][A-Za-z0-9_]{0,254}")
_SEARCH = re.compile(r"""SEARCH\('\{(?P<schema>[^}]*)\} (?P<terms>[^']*)', '(?P<stat>\w+)', (?P<period>\d+)\)""")
_SELECT = re.compile(
    r"""SELECT (?P<function>[A-Z]+)\((?P<name>\w+)\) FROM SCHEMA\("(?P<namespace>[^"]+)", (?P<names>[\w, ]+)\)"""
    r""" WHERE (?P<where>\w+ = '[^']+'(?: AND \w+ = '[^']+')*)"""
)


@dataclass(frozen=True)
class Use:
    """A metric that is named somewhere."""

    namespace: str
    name: str
    dimensions: frozenset[str]
    statistic: str

    def unknown(self) -> str:
        """Return why the tables do not have it; empty where they do."""
        metric = TABLE.get((self.namespace, self.name))
        if metric is None:
            return f"{self}: no such metric"
        if self.dimensions not in {frozenset(names) for names in metric.dimensions}:
            return f"{self}: not under these dimensions"
        if self.statistic not in STATISTICS and not re.fullmatch(r"p\d{1,2}", self.statistic):
            return f"{self}: no such statistic"
        return ""


def plain(value: Any) -> Any:
    """Return a value of a template with its references as text."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"Ref"}:
        known = {"AWS::Region": "us-east-1", "AWS::Partition": "aws", "AWS::AccountId": "111111111111"}
        return known.get(value["Ref"], value["Ref"])
    if set(value) == {"Fn::Join"}:
        between, parts = value["Fn::Join"]
        return between.join(str(plain(part)) for part in parts)
    if set(value) == {"Fn::GetAtt"}:
        name, attribute = value["Fn::GetAtt"]
        return (
            f"arn:aws:cloudwatch:us-east-1:111111111111:alarm:{name}" if attribute == "Arn" else f"{name}-{attribute}"
        )
    if set(value) == {"Fn::ImportValue"}:
        return str(value["Fn::ImportValue"]).replace(":", "-")
    return {key: plain(each) for key, each in value.items()}


def of(template: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    """Return the properties of the resources of a kind."""
    return {
        key: plain(each.get("Properties", {})) for key, each in template["Resources"].items() if each["Type"] == kind
    }


def dashboard(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of the only dashboard of a template."""
    ((_, properties),) = of(template, "AWS::CloudWatch::Dashboard").items()
    body: dict[str, Any] = json.loads(properties["DashboardBody"])
    return body


def alarms(template: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the alarms on metrics by name."""
    return {each["AlarmName"]: each for each in of(template, "AWS::CloudWatch::Alarm").values()}


# What is named


def in_expression(expression: str) -> Iterator[Use]:
    """Return the metrics that searches and queries of an expression name."""
    searches, queries = list(_SEARCH.finditer(expression)), list(_SELECT.finditer(expression))
    assert len(searches) == expression.count("SEARCH("), f"a search that cannot be read: {expression}"
    assert len(queries) == expression.count("SELECT "), f"a query that cannot be read: {expression}"
    for each in searches:
        namespace, *names = each["schema"].split(",")
        terms = dict(re.findall(r'(\w+)="([^"]*)"', each["terms"]))
        name = terms.pop("MetricName")
        assert set(terms) <= set(names), f"looks for {terms} in {names}"
        yield Use(namespace.strip('"'), name, frozenset(names), each["stat"])
    for each in queries:
        names = each["names"].split(", ")
        assert {part.split(" = ")[0] for part in each["where"].split(" AND ")} <= set(names)
        yield Use(each["namespace"], each["name"], frozenset(names), FUNCTIONS[each["function"]])


def in_dashboard(body: Mapping[str, Any]) -> Iterator[Use]:
    """Return the metrics that a dashboard names."""
    for widget in body["widgets"]:
        for row in widget["properties"].get("metrics", []):
            *names, options = row
            if names:
                yield Use(names[0], names[1], frozenset(names[2::2]), options["stat"])
            else:
                yield from in_expression(options["expression"])


def in_alarm(alarm: Mapping[str, Any]) -> Iterator[Use]:
    """Return the metrics that an alarm names."""
    if "MetricName" in alarm:
        names = frozenset(each["Name"] for each in alarm.get("Dimensions", []))
        yield Use(alarm["Namespace"], alarm["MetricName"], names, alarm["Statistic"])
    for query in alarm.get("Metrics", []):
        if "Expression" in query:
            yield from in_expression(query["Expression"])
        else:
            stat = query["MetricStat"]
            names = frozenset(each["Name"] for each in stat["Metric"].get("Dimensions", []))
            yield Use(stat["Metric"]["Namespace"], stat["Metric"]["MetricName"], names, stat["Stat"])


def refers_to(expression: str) -> set[str]:
    """Return the ids that an expression refers to."""
    without = re.sub(r"'[^']*'", "", _SELECT.sub("", expression))
    return {word for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", without) if word not in MATH}


# What CloudWatch refuses


def body_problems(body: Mapping[str, Any]) -> list[str]:
    """Return what CloudWatch would refuse of a dashboard."""
    wrong: list[str] = []
    widgets = body.get("widgets", [])
    if set(body) - {"widgets", "start", "end", "periodOverride", "variables"}:
        wrong.append("unknown keys of the body")
    if len(widgets) > 500:
        wrong.append("more than 500 widgets")
    if len(json.dumps(body).encode()) > 1_000_000:
        wrong.append("more than 1 MB")
    if sum(len(each["properties"].get("metrics", [])) for each in widgets) > 2500:
        wrong.append("more than 2,500 metrics")
    taken: set[tuple[int, int]] = set()
    for number, widget in enumerate(widgets):
        title = widget.get("properties", {}).get("title", f"widget {number}")
        wrong += [f"{title}: {each}" for each in _widget_problems(widget)]
        cells = {
            (column, line)
            for column in range(widget["x"], widget["x"] + widget["width"])
            for line in range(widget["y"], widget["y"] + widget["height"])
        }
        if cells & taken:
            wrong.append(f"{title}: lies on another widget")
        taken |= cells
    return wrong


def _widget_problems(widget: Mapping[str, Any]) -> Iterator[str]:
    if set(widget) != {"type", "x", "y", "width", "height", "properties"}:
        yield f"keys {sorted(widget)}"
        return
    if not (0 <= widget["x"] <= 23 and widget["y"] >= 0 and 1 <= widget["width"] <= 24):
        yield "outside the grid"
    if widget["x"] + widget["width"] > 24 or not 1 <= widget["height"] <= 1000:
        yield "too large for its place"
    checks = {"metric": _metric_problems, "text": _text_problems, "alarm": _status_problems}
    if widget["type"] not in checks:
        yield f"type {widget['type']}"
        return
    yield from checks[widget["type"]](widget["properties"])


def _text_problems(properties: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(properties.get("markdown"), str) or set(properties) - {"markdown", "background"}:
        yield "not a text"
    if properties.get("background", "solid") not in ("solid", "transparent"):
        yield "background"


def _status_problems(properties: Mapping[str, Any]) -> Iterator[str]:
    if set(properties) - {"alarms", "title", "sortBy", "states"}:
        yield "unknown keys"
    named = properties.get("alarms", [])
    if not 1 <= len(named) <= 100 or not all(re.fullmatch(r"arn:aws[a-z-]*:cloudwatch:.*:alarm:.+", a) for a in named):
        yield f"not 1 to 100 ARNs of alarms: {named}"


_PROPERTIES = {
    "metrics", "region", "title", "view", "stacked", "stat", "period", "yAxis", "annotations", "legend", "liveData",
    "sparkline", "setPeriodToTimeRange", "singleValueFullPrecision", "trend", "timezone", "accountId", "start", "end",
}  # fmt: skip
_OPTIONS = {"id", "label", "stat", "period", "color", "visible", "yAxis", "region", "accountId", "expression"}


def _metric_problems(properties: Mapping[str, Any]) -> Iterator[str]:
    if unknown := set(properties) - _PROPERTIES:
        yield f"unknown properties {unknown}"
    if not properties.get("region"):
        yield "no region"
    if properties.get("view") not in ("timeSeries", "singleValue", "gauge", "bar", "pie"):
        yield f"view {properties.get('view')}"
    rows = properties.get("metrics", [])
    if not 1 <= len(rows) <= 500:
        yield f"{len(rows)} metrics"
    ids = [row[-1]["id"] for row in rows if "id" in row[-1]]
    if len(set(ids)) < len(ids) or not all(_ID.fullmatch(each) for each in ids):
        yield f"ids {ids}"
    for row in rows:
        yield from _row_problems(row, set(ids))
    if all(row[-1].get("visible") is False for row in rows):
        yield "shows nothing"
    yield from _period_problems(properties.get("period", 300))
    for axis, said in properties.get("yAxis", {}).items():
        if axis not in ("left", "right") or set(said) - {"label", "min", "max", "showUnits"}:
            yield f"axis {axis} {said}"
    annotations = properties.get("annotations", {})
    if set(annotations) - {"horizontal", "vertical", "alarms"}:
        yield "unknown annotations"
    for line in annotations.get("horizontal", []):
        if not isinstance(line.get("value"), int | float) or set(line) - {"value", "label", "color", "yAxis", "fill"}:
            yield f"line {line}"
        if not re.fullmatch(r"#[0-9a-f]{6}", line.get("color", "#000000")) or line.get("yAxis", "left") not in (
            "left",
            "right",
        ):
            yield f"line {line}"
        if line.get("yAxis") == "right" and "right" not in properties["yAxis"]:
            yield f"a line on an axis that is not there: {line}"


def _row_problems(row: list[Any], ids: set[str]) -> Iterator[str]:
    *names, options = row
    if not isinstance(options, dict) or set(options) - _OPTIONS:
        yield f"options {options}"
        return
    yield from _period_problems(options.get("period", 60))
    if "expression" in options:
        if names:
            yield f"a metric with an expression: {row}"
        if missing := refers_to(options["expression"]) - ids:
            yield f"refers to {missing}, which is not there"
        if "SELECT" in options["expression"] and "SEARCH" in options["expression"]:
            yield "a query and a search"
        return
    if len(names) < 2 or len(names) % 2 or len(names) > 62 or not all(isinstance(n, str) and n for n in names):
        yield f"names {names}"


def _period_problems(period: int) -> Iterator[str]:
    if period not in (1, 5, 10, 30) and (period <= 0 or period % 60):
        yield f"period {period}"


def alarm_problems(alarm: Mapping[str, Any]) -> list[str]:
    """Return what CloudWatch would refuse of an alarm on metrics."""
    wrong = []
    if not 1 <= len(alarm["AlarmName"]) <= 255:
        wrong.append("name")
    if not 1 <= len(alarm["AlarmDescription"]) <= 1024:
        wrong.append(f"description of {len(alarm['AlarmDescription'])} characters")
    if alarm["ComparisonOperator"] not in (
        "GreaterThanThreshold",
        "GreaterThanOrEqualToThreshold",
        "LessThanThreshold",
        "LessThanOrEqualToThreshold",
    ):
        wrong.append("comparison")
    if alarm["TreatMissingData"] not in ("breaching", "notBreaching", "ignore", "missing"):
        wrong.append("missing data")
    if not 1 <= alarm["DatapointsToAlarm"] <= alarm["EvaluationPeriods"]:
        wrong.append("datapoints")
    if not isinstance(alarm["Threshold"], int | float):
        wrong.append("threshold")
    queries = alarm.get("Metrics", [])
    if bool(queries) == ("MetricName" in alarm):
        wrong.append("either one metric or queries")
    if queries:
        wrong += _query_problems(queries)
    periods = period_of(alarm)
    if len(periods) != 1:
        wrong.append(f"periods {periods}")
    elif next(iter(periods)) * alarm["EvaluationPeriods"] > 86_400:
        wrong.append("looks back more than a day")
    for actions in ("AlarmActions", "OKActions", "InsufficientDataActions"):
        if len(alarm.get(actions, [])) > 5:
            wrong.append(f"more than five {actions}")
    return wrong


def period_of(alarm: Mapping[str, Any]) -> set[int]:
    """Return the periods of an alarm."""
    if "Period" in alarm:
        return {alarm["Period"]}
    stats = {each["MetricStat"]["Period"] for each in alarm["Metrics"] if "MetricStat" in each}
    return stats or {each["Period"] for each in alarm["Metrics"]}


def _query_problems(queries: list[dict[str, Any]]) -> Iterator[str]:
    ids = [each["Id"] for each in queries]
    if len(set(ids)) < len(ids) or not all(_ID.fullmatch(each) for each in ids):
        yield f"ids {ids}"
    if sum(each.get("ReturnData", True) for each in queries) != 1:
        yield "not one that is compared"
    if sum("MetricStat" in each for each in queries) > 10:
        yield "more than ten metrics"
    for each in queries:
        expression = each.get("Expression", "")
        if ("MetricStat" in each) == bool(expression):
            yield f"{each['Id']}: either a metric or an expression"
        if "SEARCH" in expression:
            yield "an alarm on a search"
        if expression.startswith("SELECT") and (len(queries) > 1 or "Period" not in each):
            yield "a query stands alone and has a period"
        if missing := refers_to(expression) - set(ids):
            yield f"refers to {missing}, which is not there"
        for period in (each.get("Period"), each.get("MetricStat", {}).get("Period")):
            if period is not None:
                yield from _period_problems(period)
