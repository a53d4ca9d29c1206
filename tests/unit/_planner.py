"""Workloads for planner tests: a small legal one, and changes to it by dotted path."""

from __future__ import annotations

import copy
from typing import Any

from training_storage.catalog import default_catalog
from training_storage.errors import PlanError, Problem
from training_storage.planner import Plan, plan
from training_storage.workload.model import Workload

CATALOG = default_catalog()

BASE: dict[str, Any] = {
    "name": "example",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5.48xlarge", "instance_count": 4},
    "dataset": {"size": "2 TB", "file_count": 2000, "read_rate": {"per_accelerator": "10 MB/s"}},
}
"""Four p5.48xlarge that read little: S3 alone serves it."""

SAVES = {"size": "40 GiB", "interval": "12h", "max_write_time": "10m"}
"""A checkpoints section that S3 serves."""


def make(changes: dict[str, Any] | None = None) -> Workload:
    """Return the base workload with values set by dotted path; None takes a key away."""
    data = copy.deepcopy(BASE)
    for path, value in (changes or {}).items():
        *parents, key = path.split(".")
        place = data
        for parent in parents:
            place = place.setdefault(parent, {})
        if value is None:
            place.pop(key, None)
        else:
            place[key] = value
    return Workload.model_validate(data)


def planned(changes: dict[str, Any] | None = None) -> Plan:
    """Return the plan of the changed workload."""
    return plan(make(changes))


def refused(changes: dict[str, Any] | None = None) -> tuple[Problem, ...]:
    """Return why the changed workload has no plan; fails where it has one."""
    try:
        made = planned(changes)
    except PlanError as error:
        return error.problems
    raise AssertionError(f"planned with hot tier {made.tiers.hot}")


def warning_ids(made: Plan) -> set[str]:
    """Return the ids of a plan's warnings."""
    return {warning.id for warning in made.warnings}


def warning(made: Plan, warning_id: str) -> str:
    """Return the message of one warning; fails where there is none."""
    return next(each.message for each in made.warnings if each.id == warning_id)


def because(made: Plan, rule: str, option: str) -> tuple[str, str]:
    """Return verdict and reason of an option that was looked at."""
    return next((each.verdict, each.because) for each in made.decisions if (each.rule, each.option) == (rule, option))
