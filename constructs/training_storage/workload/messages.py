"""Validation errors of the model as problems that say what is allowed and what to change."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import ValidationError

from training_storage.errors import Problem
from training_storage.workload.fields import REFUSED
from training_storage.workload.model import Workload
from training_storage.workload.section import Section
from training_storage.workload.source import join_path, shorten

_QUOTED = re.compile(r"'([^']*)'")


def problems_of(error: ValidationError, written: Mapping[str, object]) -> list[Problem]:
    """Return every error as a problem; paths are those of a workload file.

    Args:
        error: What the model found.
        written: Values as they stand in the file, by path.
    """
    return [_problem(one, written) for one in error.errors(include_url=False)]


def _problem(error: Any, written: Mapping[str, object]) -> Problem:
    location: tuple[str | int, ...] = error["loc"]
    context: dict[str, Any] = error.get("ctx", {})
    kind, value = error["type"], error["input"]
    path = shorten(join_path(location))
    if kind == REFUSED:
        fix = context["fix"]
        if context["quote"]:
            fix = f'put it in quotes: "{written.get(path, value)}"'
        return Problem(what=context["what"], path=path, value=_shown(value), allowed=context["allowed"], fix=fix)
    if kind == "missing":
        return _missing(location, path)
    if kind == "extra_forbidden":
        return _unknown_key(location, path, value)
    if kind == "literal_error":
        return _unknown_value(path, value, _QUOTED.findall(context["expected"]))
    if kind in ("model_type", "model_attributes_type"):
        keys = _keys(_section_at(location))
        return Problem(
            what="is not a mapping", path=path, value=_shown(value), allowed=f"keys and values below it: {keys}"
        )
    if kind == "tuple_type":
        return Problem(
            what="is not a list",
            path=path,
            value=_shown(value),
            allowed="a list: [a, b], or a line with a hyphen for each",
        )
    return Problem(what=error["msg"][:1].lower() + error["msg"][1:], path=path, value=_shown(value))


def _shown(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return shorten(str(value))


def _missing(location: Sequence[str | int], path: str) -> Problem:
    section, key = _section_at(location[:-1]), str(location[-1])
    field = next((field for name, field in section.model_fields.items() if (field.alias or name) == key), None)
    example = field.examples[0] if field is not None and field.examples else ""
    fix = f"add {key}: {example}" if example and "below it" not in example else f"add {key}, with {example}"
    return Problem(what="is missing", path=path, allowed="a value: it has no default", fix=fix)


def _unknown_key(location: Sequence[str | int], path: str, value: object) -> Problem:
    section, key = _section_at(location[:-1]), str(location[-1])
    keys = [field.alias or name for name, field in section.model_fields.items()]
    elsewhere = [where for where, name in _all_keys(Workload, ()) if name == key]
    near = get_close_matches(key[:100].lower(), keys, n=1, cutoff=0.75)
    if not near and not elsewhere:
        near = get_close_matches(key[:100].lower(), keys, n=1, cutoff=0.5)
    if near:
        fix = f"did you mean {near[0]}?"
    elif elsewhere:
        places = [f"in {where}" if where else "at the top of the file" for where in elsewhere[:3]]
        fix = f"belongs {' or '.join(places)}"
    else:
        fix = "remove it"
    return Problem(what="is an unknown key", path=path, value=_shown(value), allowed=", ".join(keys), fix=fix)


def _unknown_value(path: str, value: object, known: Sequence[str]) -> Problem:
    near = (
        get_close_matches(value[:100].lower(), [each.lower() for each in known], n=1) if isinstance(value, str) else []
    )
    meant = next((each for each in known if near and each.lower() == near[0]), None)
    return Problem(
        what="is not one of the known values",
        path=path,
        value=_shown(value),
        allowed=f"{', '.join(known[:-1])} or {known[-1]}" if len(known) > 1 else known[0],
        fix=f"did you mean {meant}?" if meant else "",
    )


def _keys(section: type[Section]) -> str:
    return ", ".join(field.alias or name for name, field in section.model_fields.items())


def _inner(annotation: Any) -> type[Section] | None:
    """Return the section in an annotation such as ``Section | None`` or ``tuple[Section, ...] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for each in get_args(annotation) if (found := _inner(each)) is not None), None)


def _section_at(location: Sequence[str | int]) -> type[Section]:
    section: type[Section] = Workload
    for part in location:
        for name, field in section.model_fields.items():
            if (field.alias or name) == part:
                section = _inner(field.annotation) or section
    return section


def _all_keys(section: type[Section], location: tuple[str | int, ...]) -> Iterator[tuple[str, str]]:
    for name, field in section.model_fields.items():
        key = field.alias or name
        yield join_path(location), key
        inner = _inner(field.annotation)
        if inner is not None:
            yield from _all_keys(inner, (*location, key))
