"""The registry: every rule says what it must, keeps its own pair of examples, and is listed once."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import training_storage.rules
from training_storage.errors import Problem, ValidationError
from training_storage.rules import ALL_RULES
from training_storage.rules.base import Rule, relabel, require
from training_storage.rules.lustre import LUSTRE_RULES
from training_storage.rules.lustre_settings import PERSISTENT_2


@pytest.fixture(params=ALL_RULES, ids=lambda rule: rule.id)
def rule(request: pytest.FixtureRequest) -> Rule[Any]:
    found: Rule[Any] = request.param
    return found


def test_the_passing_subject_passes(rule: Rule[Any]) -> None:
    assert list(rule.check(rule.passes)) == []


def test_the_failing_subject_fails(rule: Rule[Any]) -> None:
    assert list(rule.check(rule.fails))


def test_a_problem_says_where_and_what_is_allowed(rule: Rule[Any]) -> None:
    for problem in rule.check(rule.fails):
        assert problem.what
        assert problem.path
        assert problem.allowed or problem.fix


def test_a_rule_says_statement_reason_and_source(rule: Rule[Any]) -> None:
    assert rule.statement.strip()
    assert rule.reason.strip()
    assert rule.source.strip()


def test_an_id_is_room_full_stop_subject(rule: Rule[Any]) -> None:
    assert re.fullmatch(r"[a-z0-9-]+\.[a-z0-9-]+", rule.id)


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in ALL_RULES]
    assert len(ids) == len(set(ids))


def test_every_rule_of_every_module_is_registered() -> None:
    registered = set(map(id, ALL_RULES))
    missing = [
        value.id
        for info in pkgutil.iter_modules(training_storage.rules.__path__)
        for value in vars(importlib.import_module(f"training_storage.rules.{info.name}")).values()
        for value in (value if isinstance(value, tuple) else (value,))
        if isinstance(value, Rule) and id(value) not in registered
    ]
    assert missing == []


def test_the_page_of_rules_is_current() -> None:
    from training_storage.rules.page import rules_page

    page = (Path(__file__).resolve().parents[2] / "docs" / "rules.md").read_text(encoding="utf-8")
    assert page == rules_page(), "run: python -m training_storage.rules.page > docs/rules.md"


def test_relabel_carries_the_index_over() -> None:
    problems = (Problem(what="x", path="links[3].path"), Problem(what="y", path="storage_capacity_gib"))
    said = relabel(problems, {"links[].path": "lustre.links[].path"})
    assert [problem.path for problem in said] == ["lustre.links[3].path", "storage_capacity_gib"]


def test_relabel_drops_the_index_where_the_new_path_has_none() -> None:
    said = relabel((Problem(what="x", path="links[3].path"),), {"links[].path": "file_system_path"})
    assert said[0].path == "file_system_path"


def test_require_raises_every_problem_with_its_rule_and_place() -> None:
    settings = replace(PERSISTENT_2, storage_capacity_gib=3600, per_unit_storage_throughput=200)
    with pytest.raises(ValidationError) as caught:
        require(LUSTRE_RULES, settings, where="Stack/Hot")
    assert [problem.rule for problem in caught.value.problems] == ["lustre.capacity-step", "lustre.throughput-tier"]
    assert str(caught.value).startswith("Stack/Hot: ")
