"""What several keys of one section say together: exclusions that more than one section has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from training_storage.errors import Problem


def at_most_one(given: Mapping[str, Any], keys: tuple[str, ...]) -> Iterable[Problem]:
    """Yield a problem for each key beyond the first of those that exclude each other."""
    present = [key for key in given if key in keys]
    first, *others = present or [""]
    listed = f"{', '.join(keys[:-1])} and {keys[-1]}"
    for key in others:
        yield Problem(
            what=f"is given together with {first}",
            path=key,
            value=given[key],
            allowed=f"at most one of {listed}",
            fix=f"leave {key} or {first} out",
        )


def without(key: str, given: Mapping[str, Any], what: str, needed: str) -> Problem:
    """Return the problem of a key that says nothing without another one."""
    return Problem(
        what=what, path=key, value=given[key], allowed=f"with {needed} only", fix=f"add {needed}, or leave {key} out"
    )


def not_with(given: Mapping[str, Any], existing: str, keys: tuple[str, ...]) -> Iterable[Problem]:
    """Yield a problem for each setting of something new beside something that is there already."""
    for key in keys:
        if key in given:
            yield Problem(
                what=f"says how one is made, and {existing} names what is there already",
                path=key,
                value=given[key],
                allowed=f"without {existing} only",
                fix=f"leave {key} or {existing} out",
            )
