"""How large user data is, before the values in it are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk

UNKNOWN_VALUE_BYTES: Final = 256
"""Allowance for a value that is known only when the stack is deployed.

Longer than any id, name or DNS name that a bootstrap names: bucket 63, FSx DNS name about 60, key ARN about 90, stack
name 128.
"""
_PSEUDO_PARAMETERS: Final = {
    # Longest names today, with room: us-isof-south-1, aws-iso-f, amazonaws-us-gov.com and their like.
    "AWS::Region": 24,
    "AWS::Partition": 16,
    "AWS::URLSuffix": 32,
    "AWS::AccountId": 12,
    "AWS::StackName": 128,
}


def worst_case_bytes(stack: cdk.Stack, text: str, longest: Mapping[str, int] | None = None) -> int:
    """Return the largest number of bytes that a text with tokens can have when it is deployed.

    Args:
        stack: Stack of the text.
        text: The text.
        longest: Bytes that single tokens in it can have at most, where less than ``UNKNOWN_VALUE_BYTES``. Left out,
            nothing more is known of any.
    """
    known = {_form(stack.resolve(token)): size for token, size in (longest or {}).items()}
    return _size(stack.resolve(text), known)


def _form(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _size(value: object, known: Mapping[str, int]) -> int:
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, int | float):
        return len(str(value))
    if isinstance(value, dict) and known and (found := known.get(_form(value))) is not None:
        return found
    if isinstance(value, dict) and len(value) == 1:
        ((name, argument),) = value.items()
        if name == "Ref":
            return _PSEUDO_PARAMETERS.get(str(argument), UNKNOWN_VALUE_BYTES)
        if name == "Fn::Join" and isinstance(argument, list) and isinstance(argument[1], list):
            separators = len(str(argument[0]).encode()) * max(0, len(argument[1]) - 1)
            return separators + sum(_size(part, known) for part in argument[1])
        if name == "Fn::Sub" and isinstance(argument, str):
            return _sub_size(argument)
    return UNKNOWN_VALUE_BYTES


def _sub_size(text: str) -> int:
    literal, *rest = text.split("${")
    size = len(literal.encode())
    for part in rest:
        name, _, after = part.partition("}")
        size += _PSEUDO_PARAMETERS.get(name, UNKNOWN_VALUE_BYTES) + len(after.encode())
    return size
