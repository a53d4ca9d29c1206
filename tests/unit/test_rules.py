"""The registry: every rule says what it must, keeps its own pair of examples, and is listed once."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

import pytest

import training_storage.rules
from training_storage.rules import ALL_RULES
from training_storage.rules.base import Rule


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
