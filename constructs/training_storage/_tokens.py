"""One place that asks whether a value is known at synth.

A CDK number token is a real float near -1.9e289 and a string token is text, so every comparison on them is wrong
without an error. Constructs hand ``concrete(x)`` to the rules, which pass over None.
"""

from __future__ import annotations

from math import isfinite
from typing import TypeVar

from aws_cdk import Token

T = TypeVar("T")


def is_concrete(value: object) -> bool:
    """Whether the value, and everything in a list or dict, is known at synth."""
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)
        if len(items) == 1 and isinstance(items[0], str) and Token.is_unresolved(items):
            return False  # a list token is a list of one text that is no text token by itself
        return all(is_concrete(item) for item in items)
    if isinstance(value, dict):
        return all(is_concrete(key) and is_concrete(item) for key, item in value.items())
    if isinstance(value, float) and not isfinite(value):
        return True  # no token is NaN or infinite, and JSON has no such number: asking jsii would end its process
    return not Token.is_unresolved(value)


def concrete(value: T | None) -> T | None:
    """Return the value, or None where it is a token or not given."""
    return value if value is not None and is_concrete(value) else None
