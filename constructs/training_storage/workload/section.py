"""Base of every section of a workload: a frozen record that reads itself from plain data and reports every problem.

Small on purpose, and no library: whoever types ``training-storage plan`` waits for every import, and a general model
library costs more than all the rest of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from training_storage.errors import Problem, WorkloadError

T = TypeVar("T")
Read = Callable[[object], T]
"""Turns a value as it stands in a file into one of the model, or raises ``Refused``."""

QUOTE = "put it in quotes"
"""The fix of a value that quotes would mend; the value follows where it is known how it is written."""

_MAX_TEXT = 120
_NOTHING: Any = object()


class Refused(Exception):  # noqa: N818 - never leaves this package
    """A value that is no legal one.

    Attributes:
        problems: What is wrong; paths are relative to the value.
    """

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__(*problems)


def refuse(what: str, *, allowed: str = "", fix: str = "") -> Refused:
    """Return the error of one refused value."""
    return Refused(Problem(what=what, allowed=allowed, fix=fix))


def shorten(text: str) -> str:
    """Return text that fits into a message."""
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."


def join_path(parent: str, child: str) -> str:
    """Return a field path such as ``lustre.links[1].path`` from two parts of it."""
    if not parent or not child or child.startswith("["):
        return parent + child
    return f"{parent}.{child}"


class Field:
    """How one field is read.

    Attributes:
        read: Reads its value.
        make: Makes its default; None for a field that must be given.
        example: What to write for a field that must be given.
        key: Its key in a file; empty where that is its name.
        section: The section that its value is or holds, if any.
    """

    __slots__ = ("example", "key", "make", "read", "section")

    def __init__(
        self, read: Read[Any], make: Callable[[], Any] | None, example: str, key: str, section: type[Section] | None
    ) -> None:
        self.read = read
        self.make = make
        self.example = example
        self.key = key
        self.section = section

    def readable(self, given: Mapping[str, Any], key: str) -> Any:
        """Return the value under a key, the default without one, and None for a value that cannot be read."""
        if key not in given:
            return None if self.make is None else self.make()
        value = given[key]
        try:
            return self.read(value)
        except Refused:
            if self.section is None:
                return None
        if self.read == self.section.read:
            return self.section.readable(value) if isinstance(value, Mapping) else None
        return tuple(map(self.section.readable, value)) if isinstance(value, list | tuple) else None


def item(
    read: Read[Any] | type[Section],
    *,
    default: Any = _NOTHING,
    default_factory: Callable[[], Any] | None = None,
    example: str = "",
    key: str = "",
) -> Any:
    """Declare a field of a section.

    Args:
        read: Reads its value; a section class reads itself.
        default: Its value where it is not given. Left out, and ``default_factory`` too: it must be given.
        default_factory: Makes that value, once: it is shared, and so must be frozen as a section is.
        example: What to write for it, for the message where it is missing.
        key: Its key in a file where that cannot be its name.
    """
    make: Callable[[], Any] | None = lambda: default  # noqa: E731 - shorter than a function with a name
    if default is _NOTHING:
        make = None if default_factory is None else cache(default_factory)
    reads, inner = _reader(read)
    return Field(reads, make, example, key, inner)


def list_of(read: Read[Any] | type[Section]) -> Read[tuple[Any, ...]]:
    """Return what reads a list of such values."""
    one, inner = _reader(read)

    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise refuse("is not a list", allowed="a list: [a, b], or a line with a hyphen for each")
        out: list[Any] = []
        problems: list[Problem] = []
        for index, each in enumerate(value):
            try:
                out.append(one(each))
            except Refused as error:
                problems.extend(_below(f"[{index}]", each, error.problems))
        if problems:
            raise Refused(*problems)
        return tuple(out)

    read_all.section = inner  # type: ignore[attr-defined]  # functions may carry attributes
    return read_all


def _reader(read: Read[Any] | type[Section]) -> tuple[Read[Any], type[Section] | None]:
    if isinstance(read, type) and issubclass(read, Section):
        return read.read, read
    return read, getattr(read, "section", None)


def _below(path: str, value: object, problems: Iterable[Problem]) -> Iterable[Problem]:
    for problem in problems:
        if not problem.path and problem.value is None:
            yield replace(problem, path=path, value=None if isinstance(value, Mapping) else shown(value))
        else:
            yield replace(problem, path=join_path(path, problem.path), value=shown(problem.value))


def shown(value: object) -> object:
    """Return a value as a message shows it."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return shorten(f"[{', '.join(map(str, value))}]")
    if isinstance(value, Mapping):
        return shorten(f"{{{', '.join(f'{key}: {shown(each)}' for key, each in value.items())}}}")
    return shorten(str(value))


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(item,))
class Section:
    """Base of every section: frozen, compared by value, made from keyword arguments.

    Attributes:
        model_fields_set: Names of the fields that were given, as against those that have their default.

    Raises:
        WorkloadError: On creation, with every problem of the arguments.
    """

    fields: ClassVar[Mapping[str, Field]] = {}
    _names_by_key: ClassVar[Mapping[str, str]] = {}
    model_fields_set: frozenset[str]

    def __init_subclass__(cls) -> None:
        cls.fields = {name: value for name, value in vars(cls).items() if isinstance(value, Field)}
        cls._names_by_key = {field.key or name: name for name, field in cls.fields.items()}
        for name in cls.fields:
            delattr(cls, name)

    def __init__(self, **given: Any) -> None:
        try:
            self._fill(given, {name: name for name in self.fields})
        except Refused as error:
            raise WorkloadError(error.problems, where=type(self).__name__) from None

    @classmethod
    def model_validate(cls, data: object) -> Self:
        """Return the section of a mapping in the shape of a workload file; a section is returned as it is.

        Neither catalog nor service rules are asked: ``load_workload`` and ``workload_from_dict`` do.

        Raises:
            WorkloadError: With every problem; paths are relative to the section.
        """
        try:
            return cls.read(data)
        except Refused as error:
            raise WorkloadError(error.problems, where=cls.__name__) from None

    @classmethod
    def read(cls, data: object) -> Self:
        """Return what ``model_validate`` returns; raises ``Refused``, for the section around this one."""
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            raise refuse("is not a mapping", allowed=f"keys and values below it: {', '.join(cls.keys())}")
        section = cls.__new__(cls)
        section._fill(data, cls.keys())
        return section

    @classmethod
    def readable(cls, data: object) -> Self:
        """Return what can be read of a section that may have problems, for checks that look at several fields.

        A field that cannot be read is None, whatever its type says; so is every field of what is no mapping. None for
        the whole is a section that is not given: every field then has its default. Nothing is refused.
        """
        section = cls.__new__(cls)
        given = {} if data is None else data if isinstance(data, Mapping) else dict.fromkeys(cls.keys())
        values = {name: cls.fields[name].readable(given, key) for key, name in cls.keys().items()}
        section.__dict__.update(
            values, model_fields_set=frozenset(name for key, name in cls.keys().items() if key in given)
        )
        return section

    @classmethod
    def keys(cls) -> Mapping[str, str]:
        """Return the names of the fields by their key in a file."""
        return cls._names_by_key

    @classmethod
    def keys_together(cls, given: Mapping[str, Any]) -> Iterable[Problem]:  # noqa: ARG003 - for subclasses
        """Yield a problem for each pair of keys that exclude or need each other; paths are relative to the section."""
        return ()

    def values_together(self) -> Iterable[Problem]:
        """Yield a problem for each pair of values that do not go together; paths are relative to the section."""
        return ()

    def _fill(self, data: Mapping[Any, Any], names: Mapping[str, str]) -> None:
        values: dict[str, Any] = {}
        problems: list[Problem] = []
        for key, value in data.items():
            name = names.get(key) if isinstance(key, str) else None
            if name is None:
                problems.append(unknown_key(type(self), str(key), value))
                continue
            field = self.fields[name]
            if value is None and field.make is not None and field.make() is None:
                continue
            try:
                values[name] = field.read(value)
            except Refused as error:
                problems.extend(_below(key, value, error.problems))
        given = frozenset(values)
        for key, name in names.items():
            field = self.fields[name]
            if name in values or (key in data and data[key] is not None):
                continue
            if field.make is not None:
                values[name] = field.make()
            elif key not in data:
                fix = f"add {key}: {field.example}" if field.section is None else f"add {key}, with {field.example}"
                problems.append(Problem(what="is missing", path=key, allowed="a value: it has no default", fix=fix))
        # Which keys stand together is looked at even where single values are wrong: one run reports everything.
        problems.extend(self.keys_together({key: value for key, value in data.items() if value is not None}))
        if not problems:
            self.__dict__.update(values, model_fields_set=given)
            problems.extend(self.values_together())
        if problems:
            raise Refused(*problems)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be deleted")

    def _values(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self.fields)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in zip(self.fields, self._values(), strict=True))
        return f"{type(self).__name__}({values})"


def unknown_key(section: type[Section], key: str, value: object) -> Problem:
    """Return the problem of a key that a section does not have: the nearest one that it has, or where it belongs."""
    keys = list(section.keys())
    elsewhere = _places_of(key)
    near = get_close_matches(key[:100].lower(), keys, n=1, cutoff=0.75)
    if not near and not elsewhere:
        near = get_close_matches(key[:100].lower(), keys, n=1, cutoff=0.5)
    if near:
        fix = f"did you mean {near[0]}?"
    elif elsewhere:
        fix = f"belongs {' or '.join(elsewhere[:3])}"
    else:
        fix = "remove it"
    return Problem(what="is an unknown key", path=shorten(key), value=shown(value), allowed=", ".join(keys), fix=fix)


def _places_of(key: str) -> list[str]:
    from training_storage.workload.model import Workload

    found: list[str] = []

    def walk(section: type[Section], path: str) -> None:
        for each, name in section.keys().items():
            if each == key:
                found.append(f"in {path}" if path else "at the top of the file")
            inner = section.fields[name].section
            if inner is not None:
                walk(inner, join_path(path, each))

    walk(Workload, "")
    return found
