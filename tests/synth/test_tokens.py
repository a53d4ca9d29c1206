"""Whether a value is known at synth is answered without asking the CDK where that is certain: both must agree."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest

from training_storage._tokens import concrete, is_concrete

KNOWN: list[Any] = [
    "",
    "plain",
    "${Name}",
    "${AWS::Region}",
    "$Token[x]",
    0,
    -1,
    2**63,
    1.5,
    -1e289,
    float("-1e300"),
    True,
    None,
    ["a", "b"],
    [],
    {"key": ["value"]},
    cdk.Duration.days(1),
]


def tokens() -> list[Any]:
    ref = {"Ref": "Name"}
    return [
        cdk.Token.as_string(ref),
        f"before {cdk.Token.as_string(ref)} after",
        cdk.Token.as_number(ref),
        cdk.Token.as_list(ref),
        cdk.Token.as_any(ref),
        cdk.Aws.REGION,
    ]


@pytest.mark.parametrize("value", KNOWN, ids=[f"{number}-{type(value).__name__}" for number, value in enumerate(KNOWN)])
def test_a_known_value_is_known_to_both(value: Any) -> None:
    assert is_concrete(value)
    assert concrete(value) == value
    if value is not None:
        assert not cdk.Token.is_unresolved(value)


@pytest.mark.parametrize("number", range(6))
def test_a_token_is_a_token_to_both(number: int) -> None:
    value = tokens()[number]
    assert cdk.Token.is_unresolved(value)
    assert not is_concrete(value)
    assert concrete(value) is None


@pytest.mark.parametrize("number", range(6))
def test_a_token_inside_a_list_or_a_dict_is_found(number: int) -> None:
    value = tokens()[number]
    assert not is_concrete(["known", value])
    assert not is_concrete([value])
    assert not is_concrete({"key": value})
