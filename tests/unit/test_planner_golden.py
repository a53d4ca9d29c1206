"""Worked examples of the planner, computed independently of it from the published facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit._planner import CATALOG, warning_ids
from training_storage.errors import PlanError
from training_storage.planner import plan
from training_storage.workload.model import Workload

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "golden_plans.json").read_text(encoding="utf-8"))
CASES = {case["id"]: case for case in GOLDEN["cases"]}
PLANNED = [name for name, case in CASES.items() if case["answer"] is not None]
REFUSED = [name for name, case in CASES.items() if case["answer"] is None]
PLAN_PARTS = ("accelerators", "demand", "tiers", "lustre", "express", "prediction")


def differences(path: str, got: Any, wanted: Any) -> list[str]:
    if isinstance(wanted, dict):
        if not isinstance(got, dict):
            return [f"{path}: {got!r} in place of {wanted!r}"]
        return [line for key, value in wanted.items() for line in differences(f"{path}.{key}", got[key], value)]
    number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    same = got == pytest.approx(wanted, rel=GOLDEN["tolerance"], abs=1e-9) if number else got == wanted
    return [] if same and (got is None) == (wanted is None) else [f"{path}: {got!r} in place of {wanted!r}"]


def test_there_are_63_examples_and_every_part_of_them_is_compared() -> None:
    parts = {part for name in PLANNED for part in CASES[name]["answer"]}
    assert len(CASES) == 63
    assert parts == {*PLAN_PARTS, "warnings"}


@pytest.mark.parametrize("name", PLANNED)
def test_example_comes_out_the_same(name: str) -> None:
    case = CASES[name]
    made = plan(Workload.model_validate(case["workload"]), catalog=CATALOG)
    printed = made.to_dict()
    wanted = case["answer"]
    found = [line for part in PLAN_PARTS for line in differences(part, printed[part], wanted[part])]
    present = warning_ids(made)
    found += [
        f"warning {warning_id}: present is {warning_id in present}"
        for warning_id, there in wanted["warnings"].items()
        if (warning_id in present) != there
    ]
    assert found == []


@pytest.mark.parametrize("name", REFUSED)
def test_example_is_refused(name: str) -> None:
    workload = Workload.model_validate(CASES[name]["workload"])
    with pytest.raises(PlanError) as error:
        plan(workload, catalog=CATALOG)
    assert all(problem.path and (problem.allowed or problem.fix) for problem in error.value.problems)
