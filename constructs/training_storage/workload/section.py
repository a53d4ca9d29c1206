"""Base of every section.

Which keys stand together is checked even where single values are wrong, so that one run reports everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails

from training_storage.errors import Problem
from training_storage.workload.fields import REFUSED, refuse


class Section(BaseModel):
    """Base of every section. Frozen; an unknown key is an error."""

    # A class is built when it is first used: only Workload is, with all the others inside, and start-up stays short.
    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, populate_by_name=True, defer_build=True
    )

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:  # noqa: ARG003 - for subclasses
        """Yield a problem for each pair of keys that exclude or need each other; paths are relative to the section."""
        return ()

    def values_together(self) -> Iterable[Problem]:
        """Yield a problem for each pair of values that do not go together; paths are relative to the section."""
        return ()

    @model_validator(mode="wrap")
    @classmethod
    def _all_at_once(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        found: list[Problem] = []
        if isinstance(data, Mapping):
            found.extend(cls.keys_together({key: value for key, value in data.items() if value is not None}))
        try:
            section = handler(data)
        except ValidationError as error:
            if not found:
                raise
            raise _join(cls.__name__, error, found) from None
        if isinstance(data, Mapping):
            found.extend(section.values_together())
        if found:
            raise _join(cls.__name__, None, found)
        return section


def _join(title: str, error: ValidationError | None, problems: Iterable[Problem]) -> ValidationError:
    """Return one error with the details of both."""
    lines: list[InitErrorDetails] = []
    for one in error.errors(include_url=False) if error else ():
        context = one.get("ctx", {})
        if one["type"] == REFUSED:
            context.pop("text")
            lines.append({"type": refuse(**context), "loc": one["loc"], "input": one["input"]})
        else:
            lines.append({"type": one["type"], "loc": one["loc"], "input": one["input"], "ctx": context})
    lines.extend(
        {
            "type": refuse(problem.what, allowed=problem.allowed, fix=problem.fix),
            "loc": (problem.path,) if problem.path else (),
            "input": problem.value,
        }
        for problem in problems
    )
    return ValidationError.from_exception_data(title, lines)
