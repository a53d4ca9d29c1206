"""How the emulator reads IAM policies, where a service has to know what one lets it do.

The order of evaluation and the operators are those of the IAM user guide.
"""

from __future__ import annotations

from typing import Any

import pytest

from training_storage.emulator import EmulatorError
from training_storage.emulator.services.policies import allowed

ACTION, RESOURCE = "s3:GetObject", "arn:aws:s3:::lake/datasets/a"


def statement(**given: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": ACTION, "Resource": RESOURCE, **given}


def asked(*statements: dict[str, Any], service: str | None = None, **context: str) -> bool:
    keys = {name.replace("_", ":"): value for name, value in context.items()}
    return allowed([{"Statement": list(statements)}], action=ACTION, resource=RESOURCE, context=keys, service=service)


def test_nothing_is_allowed_without_a_statement() -> None:
    assert not asked()


def test_one_statement_may_stand_alone() -> None:
    assert allowed([{"Statement": statement()}], action=ACTION, resource=RESOURCE, context={})


def test_a_deny_wins_wherever_it_stands() -> None:
    deny = {"Statement": [statement(Effect="Deny", Action="*", Resource="*")]}
    for documents in ([deny, {"Statement": [statement()]}], [{"Statement": [statement()]}, deny]):
        assert not allowed(documents, action=ACTION, resource=RESOURCE, context={})


@pytest.mark.parametrize(
    ("given", "holds"),
    [
        ({"Action": "s3:Get*"}, True),
        ({"Action": ["s3:PutObject", "S3:GETOBJECT"]}, True),
        ({"Action": "s3:GetObjec?"}, True),
        ({"Action": "s3:Put*"}, False),
        ({"Resource": "arn:aws:s3:::lake/*"}, True),
        ({"Resource": "arn:aws:s3:::LAKE/*"}, False),
        ({"Resource": ["arn:aws:s3:::lake", "arn:aws:s3:::lake/checkpoints/*"]}, False),
    ],
)
def test_actions_and_resources(given: dict[str, Any], holds: bool) -> None:
    assert asked(statement(**given)) is holds


def test_all_but_some() -> None:
    assert asked({"Effect": "Allow", "NotAction": "s3:Put*", "Resource": "*"})
    assert not asked({"Effect": "Allow", "NotAction": "s3:Get*", "Resource": "*"})
    assert not asked({"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:s3:::lake/*"})


@pytest.mark.parametrize(
    ("principal", "holds"),
    [
        ({"Principal": {"Service": "lifecycle.s3.amazonaws.com"}}, True),
        ({"Principal": {"Service": ["a.amazonaws.com", "lifecycle.s3.amazonaws.com"]}}, True),
        ({"Principal": {"Service": "a.amazonaws.com"}}, False),
        ({"Principal": {"AWS": "arn:aws:iam::123456789012:root"}}, False),
        ({"Principal": {"AWS": "*"}}, True),
        ({"Principal": "*"}, True),
        ({"NotPrincipal": {"Service": "lifecycle.s3.amazonaws.com"}}, False),
        ({}, False),
    ],
)
def test_principals(principal: dict[str, Any], holds: bool) -> None:
    assert asked(statement(**principal), service="lifecycle.s3.amazonaws.com") is holds


@pytest.mark.parametrize(
    ("operator", "wanted", "value", "holds"),
    [
        ("StringEquals", "one", "one", True),
        ("StringEquals", ["two", "one"], "one", True),
        ("StringEquals", "One", "one", False),
        ("StringEqualsIgnoreCase", "One", "one", True),
        ("StringNotEquals", "one", "one", False),
        ("StringNotEquals", ["two", "three"], "one", True),
        ("StringLike", "o*", "one", True),
        ("StringNotLike", "o*", "one", False),
        ("ArnLike", "arn:*:one", "arn:aws:one", True),
        ("ArnNotEquals", "arn:*:one", "arn:aws:one", False),
        ("Bool", "true", "true", True),
        ("Bool", True, "true", True),
        ("Bool", "false", "true", False),
        ("NumericLessThan", "1.2", "1.3", False),
        ("NumericGreaterThanEquals", 1.2, "1.2", True),
        ("NumericNotEquals", "1", "1", False),
        ("Null", "false", "one", True),
        ("Null", "true", "one", False),
        ("ForAnyValue:StringEquals", "one", "one", True),
    ],
)
def test_operators(operator: str, wanted: Any, value: str, holds: bool) -> None:
    assert asked(statement(Condition={operator: {"aws:Key": wanted}}), aws_Key=value) is holds


@pytest.mark.parametrize(
    ("operator", "holds"),
    [
        ("StringEquals", False),
        ("StringEqualsIfExists", True),
        ("StringNotEquals", True),
        ("NumericLessThan", False),
        ("NotIpAddress", True),
        ("IpAddress", False),
        ("ForAllValues:StringEquals", True),
        ("Null", False),
    ],
)
def test_what_is_absent(operator: str, holds: bool) -> None:
    wanted = "false" if operator == "Null" else "1"
    assert asked(statement(Condition={operator: {"aws:Key": wanted}})) is holds


def test_all_conditions_have_to_hold_and_keys_have_no_case() -> None:
    condition = {"StringEquals": {"AWS:KEY": "one", "aws:other": "two"}}
    assert asked(statement(Condition=condition), aws_Key="one", aws_Other="two")
    assert not asked(statement(Condition=condition), aws_Key="one", aws_Other="three")


def test_an_operator_that_it_does_not_know() -> None:
    with pytest.raises(EmulatorError, match="DateLessThan"):
        asked(statement(Condition={"DateLessThan": {"aws:CurrentTime": "2030-01-01"}}), aws_CurrentTime="2026-01-01")
