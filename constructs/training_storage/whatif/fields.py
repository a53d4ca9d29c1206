"""Numeric fields of a workload file, found by their dotted path or by the last part of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin, get_type_hints

from training_storage.errors import Problem, ValidationError
from training_storage.units import Duration, Rate, Size
from training_storage.workload.model import Workload
from training_storage.workload.section import Field, Section, join_path

Kind = Literal["count", "number", "size", "rate", "duration"]
Quantity = int | float | Size | Rate | Duration

_UNITS: dict[Kind, str] = {"count": "", "number": "", "size": "B", "rate": "B/s", "duration": "s"}
_FORMS: dict[Kind, str] = {
    "count": "whole numbers: 1..2000, 8..512:8, 1..1024*2 or 16,32,64",
    "number": "numbers: 0.1..1, 0.1..1:0.1, 1e9..1e12*10 or 7e9,70e9",
    "size": "sizes: 1 TB..100 TB, 1 TB..10 TB:1 TB, 1 GB..1 PB*10 or 30 TB,60 TB",
    "rate": "rates: 10 MB/s..2 GB/s, 10 MB/s..100 MB/s:10 MB/s, 1 MB/s..1 GB/s*10 or 20 MB/s,80 MB/s",
    "duration": "durations: 30s..10m, 10m..60m:10m, 30s..1h*2 or 15m,30m,1h",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericField:
    """One field of the workload file that has a number.

    Attributes:
        path: Dotted path such as ``compute.instance_count``.
        kind: What its values are.
        section: Section that it stands in.
        field: How it is read.
    """

    path: str
    kind: Kind
    section: type[Section]
    field: Field

    @property
    def unit(self) -> str:
        """Unit of its values as plain numbers: ``B``, ``B/s``, ``s`` or empty."""
        return _UNITS[self.kind]

    @property
    def form(self) -> str:
        """What its values look like, for messages."""
        return _FORMS[self.kind]


def numeric_fields() -> dict[str, NumericField]:
    """Return every field of a workload file that has a number, by dotted path, in the order of the model."""
    found: dict[str, NumericField] = {}

    def walk(section: type[Section], path: str) -> None:
        hints = get_type_hints(section)
        for key, name in section.keys().items():
            here = f"{path}.{key}" if path else key
            field = section.fields[name]
            if field.section is not None:
                if field.section in (hints[name], *get_args(hints[name])):  # no list of sections
                    walk(field.section, here)
            elif (kind := _kind(hints[name])) is not None:
                found[here] = NumericField(path=here, kind=kind, section=section, field=field)

    walk(Workload, "")
    return found


def _kind(hint: Any) -> Kind | None:
    """Return what the numbers of a type are; None for a type without any."""
    if get_origin(hint) in (tuple, Literal):
        return None
    types = set(get_args(hint)) or {hint}
    for of, kind in _KINDS:
        if of in types:
            return kind
    return None


_KINDS: tuple[tuple[type, Kind], ...] = (
    (Size, "size"),
    (Rate, "rate"),
    (Duration, "duration"),
    (float, "number"),
    (int, "count"),
)


def find_field(name: str) -> NumericField:
    """Return the field of a name.

    Args:
        name: Dotted path from the top of the file, or its end where one field alone ends so: ``instance_count``,
            ``read_rate.per_accelerator``.

    Raises:
        ValidationError: No numeric field has that name, or several have; the nearest ones are named.
    """
    known = numeric_fields()
    wanted = name.strip()
    if wanted in known:
        return known[wanted]
    ending = [path for path in known if path.endswith(f".{wanted}")] if wanted else []
    if len(ending) == 1:
        return known[ending[0]]
    if ending:
        raise ValidationError(
            Problem(what="is the name of several fields", path="sweep", value=name, allowed=" or ".join(ending))
        )
    near = _nearest(wanted, known)
    raise ValidationError(
        Problem(
            what="is no numeric field of a workload file",
            path="sweep",
            value=name,
            allowed="a number, size, rate or duration of the workload file, by its dotted path such as "
            "compute.instance_count or by its last name",
            fix=f"did you mean {' or '.join(near)}?" if near else "",
        )
    )


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    paths = list(known)
    names: dict[str, list[str]] = {}
    for path in paths:
        names.setdefault(path, []).append(path)
        names.setdefault(path.rpartition(".")[2], []).append(path)
    lower = name[:100].lower()
    for cutoff in (0.75, 0.5):
        found = get_close_matches(lower, names, n=1, cutoff=cutoff) or get_close_matches(
            lower.rpartition(".")[2], names, n=1, cutoff=cutoff
        )
        if found:
            return list(dict.fromkeys(names[found[0]]))[:3]
    return []


def refuse_conflict(field: NumericField, given: Mapping[str, Any], value: Quantity) -> None:
    """Refuse a field that a key of its section excludes, whatever its value.

    Args:
        field: The field.
        given: Given values of the whole workload, in the shape of the file.
        value: Any value of it.

    Raises:
        ValidationError: Another key is given that says the same, or one that the field needs is not given.
    """
    *parents, key = field.path.split(".")
    place: Any = given
    for parent in parents:
        place = place.get(parent) if isinstance(place, Mapping) else None
    beside = {name: each for name, each in place.items() if name != key} if isinstance(place, Mapping) else {}
    before = set(field.section.keys_together(beside)) if isinstance(place, Mapping) else set()
    problems = [each for each in field.section.keys_together({**beside, key: value}) if each not in before]
    if problems:
        prefix = ".".join(parents)
        raise ValidationError(
            Problem(
                what=f"cannot be changed alone: it {each.what}",
                path=field.path,
                allowed=each.allowed,
                fix=f"{each.fix} in the workload file" if each.fix else "",
            )
            if each.path == key
            else Problem(
                what=each.what,
                path=join_path(prefix, each.path),
                allowed=each.allowed,
                fix=each.fix,
            )
            for each in problems
        )
