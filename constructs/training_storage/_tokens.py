"""One place that asks whether a value is known at synth.

A CDK number token is a real float near -1.9e289 and a string token is text, so every comparison on them is wrong
without an error. Constructs hand ``concrete(x)`` to the rules, which pass over None.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Final, TypeVar

from aws_cdk import Token

T = TypeVar("T")

# A question to the CDK is a round trip to Node. Most values answer it themselves: the text of a token holds one of
# these marks, and a number token lies near -1.9e289 (aws-cdk-lib, core/lib/private/encoding.ts).
_MARKS: Final = ("${Token[", "#{Token[")
_NUMBER_TOKENS_BELOW: Final = -1e280
_WHOLE_MARK: Final = re.compile(r"\$\{Token\[[a-zA-Z0-9:._-]+\]\}")
"""Text that holds this is a token in any case: the CDK asks the same of it, and nothing more."""
_TEXT_TOKEN: Final = re.compile(r"\$\{Token\[[^\]]*\]\}")


def is_concrete(value: object) -> bool:
    """Whether the value, and everything in a list or dict, is known at synth."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, str) and not any(mark in value for mark in _MARKS):
        return True
    if isinstance(value, str) and _WHOLE_MARK.search(value):
        return False
    if isinstance(value, int | float) and value > _NUMBER_TOKENS_BELOW:
        return True
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)
        if len(items) == 1 and isinstance(items[0], str) and _MARKS[1] in items[0] and Token.is_unresolved(items):
            return False  # a list token is a list of one text that is no text token by itself
        return all(is_concrete(item) for item in items)
    if isinstance(value, dict):
        return all(is_concrete(key) and is_concrete(item) for key, item in value.items())
    if isinstance(value, float) and not isfinite(value):
        return True  # no token is NaN or infinite, and JSON has no such number: asking jsii would end its process
    return not Token.is_unresolved(value)


def is_list_token(value: object) -> bool:
    """Whether a list is one whose items are only known at deploy; Python sees a list of one text."""
    return isinstance(value, list | tuple) and any(isinstance(each, str) and _MARKS[1] in each for each in value)


def concrete(value: T | None) -> T | None:
    """Return the value, or None where it is a token or not given."""
    return value if value is not None and is_concrete(value) else None


def literal_text(text: str) -> str:
    """Return what is known of a text at synth: all of it, or what stands around the tokens in it."""
    return _TEXT_TOKEN.sub("", text)
