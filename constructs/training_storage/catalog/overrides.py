"""A user's rows over the rows of the package: merged, and checked all at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from math import inf
from pathlib import Path

from pydantic import ValidationError as ShapeError

from training_storage.catalog.catalog import nearest
from training_storage.catalog.files import Document, Place, read, rows_of
from training_storage.catalog.model import Source
from training_storage.catalog.shapes import SHAPES, Shape, SourceShape
from training_storage.catalog.tables import TWO_KEYS, Row, Tables
from training_storage.errors import CatalogError, Problem

_SOURCES = frozenset({"source", "field_sources"})

CONSTANTS = frozenset({"lustre_limits", "object_storage"})
"""Tables of single values, each of the kind of its default."""

CLOSED = CONSTANTS | {"read_latencies", "stream_rates", "failure_rates"}
"""Tables whose rows are read by name: a file may change them, not add to them."""

_KEYS = {
    "instance_types": (r"[a-z0-9-]+\.[a-z0-9-]+", "an EC2 type such as p5.48xlarge"),
    "mountpoint_throughput": (r"[a-z0-9-]+\.[a-z0-9-]+", "an EC2 type such as p5.48xlarge"),
    "regions": (r"[a-z]+(-[a-z]+)+-\d+", "a region such as us-east-1"),
    "prices": (r"[a-z]+(-[a-z]+)+-\d+", "a region such as us-east-1"),
}


_BY_THE_HOUR = ("ec2.", "ec2-spot.", "ec2-capacity-block.")


def merge(tables: Tables, paths: Iterable[Path]) -> Tables:
    """Put the rows of files over ``tables``, in order, and return them.

    Raises:
        CatalogError: With every problem in every file.
    """
    problems: list[Problem] = []
    for path in paths:
        try:
            document = read(path)
        except CatalogError as error:
            problems.extend(error.problems)
            continue
        overlay = _Overlay(tables, document)
        overlay.lay()
        problems.extend(overlay.problems)
    if problems:
        raise CatalogError(problems)
    return tables


class _Overlay:
    """One file over the tables."""

    def __init__(self, tables: Tables, document: Document) -> None:
        self.tables = tables
        self.document = document
        self.sources: dict[str, Source] = {}
        self.problems: list[Problem] = []
        self.units = {item: row["unit"] for rows in tables["prices"].values() for item, row in rows.items()}

    def refuse(self, place: Place, problem: Problem) -> None:
        file = str(self.document.path)
        self.problems.append(replace(problem, path=".".join(place), file=file, line=self.document.line(place)))

    def lay(self) -> None:
        content = self.document.content
        if not isinstance(content, dict):
            self.refuse((), Problem(what="the file holds no tables", value=_short(content), allowed=_tables_form()))
            return
        for place, given in rows_of(content.get("sources", {}), ("sources",), two_keys=False):
            source = self.source(place, given)
            if source:
                self.sources[place[-1]] = source
        for name, table in content.items():
            if name == "sources":
                continue
            if name not in SHAPES:
                self.refuse((name,), _unknown("table", name, (*SHAPES, "sources"), _tables_form()))
                continue
            for place, given in rows_of(table, (name,), two_keys=name in TWO_KEYS):
                self.row(place, given)

    def row(self, place: Place, given: object) -> None:
        table = place[0]
        if not isinstance(given, dict) or len(place) != (3 if table in TWO_KEYS else 2):
            self.refuse(place, Problem(what="not a row", value=_short(given), allowed="fields and their values"))
            return
        pattern, form = _KEYS.get(table, (".+", ""))
        if not re.fullmatch(pattern, place[1]):
            self.refuse(place, Problem(what="not a key of this table", value=place[1], allowed=form))
            return
        rows = self.tables[table].setdefault(place[1], {}) if table in TWO_KEYS else self.tables[table]
        known: Row | None = rows.get(place[-1])
        if known is None and table in CLOSED:
            self.refuse(place, _unknown("name", place[-1], rows, "the names that the catalog has"))
            return
        fields = {key: value for key, value in given.items() if key not in _SOURCES}
        base = {key: value for key, value in (known or {}).items() if key not in _SOURCES}
        if table == "prices" and "usd" in fields:
            base.pop("tiers", None)  # one price given is the price of every unit, not of the first ones
        source = self.source((*place, "source"), given.get("source"))
        checked = self.check(place, {**base, **fields}, SHAPES[table])
        if table in CONSTANTS and checked and (form := _unlike(checked["value"], base["value"])):
            value = _short(checked["value"])
            self.refuse((*place, "value"), Problem(what="not the kind of value", value=value, allowed=form))
        if table == "prices" and checked:
            self.check_unit(place, checked["unit"])
        if checked is None or source is None:
            return
        if known is not None:
            text = f"{source.text}: {', '.join(fields) or 'nothing'}; else {known['source'].text}"
            source = replace(source, text=text)
        row: Row = {**checked, "source": source}
        if table == "regions":
            old: dict[str, Source] = (known or {}).get("field_sources", {})
            row["field_sources"] = {field: each for field, each in old.items() if field not in fields}
        rows[place[-1]] = row

    def check_unit(self, place: Place, unit: str) -> None:
        """Refuse a price by another unit than that in which the bill counts: requests are sold by the thousand."""
        item = place[-1]
        wanted = "hour" if item.startswith(_BY_THE_HOUR) else self.units.get(item, unit)
        if unit != wanted:
            self.refuse(
                (*place, "unit"),
                Problem(
                    what="not the unit in which a plan counts it",
                    value=_short(unit),
                    allowed=wanted,
                    fix=f"write unit: {wanted}, and the price of that",
                ),
            )

    def source(self, place: Place, given: object) -> Source | None:
        """Return the source of a user's row, of trust ``user`` whatever the file says; None where it is refused."""
        form = "a name under sources, or {text, date}, or nothing"
        if given is None:
            return Source(text=self.document.path.name, date="", trust="user")
        if isinstance(given, str):
            if given not in self.sources:
                self.refuse(place, _unknown("source", given, self.sources, form))
            return self.sources.get(given)
        if not isinstance(given, dict):
            self.refuse(place, Problem(what="not a source", value=_short(given), allowed=form))
            return None
        checked = self.check(place, given, SourceShape)
        return Source(text=checked["text"], date=checked["date"], trust="user") if checked else None

    def check(self, place: Place, row: Row, shape: type[Shape]) -> Row | None:
        """Return the row with its defaults, or None where something is wrong with it."""
        try:
            checked = shape.model_validate(row)
        except ShapeError as error:
            # One problem a field: further branches of a union that fail say nothing more.
            kinds = {str(detail["loc"][0]): detail["type"] for detail in reversed(error.errors()) if detail["loc"]}
            for name, kind in reversed(kinds.items()):
                self.refuse((*place, name), _problem(kind, name, row, shape))
            return None
        found = list(checked.problems())
        for problem in found:
            self.refuse((*place, problem.path), problem)
        return None if found else checked.model_dump()


def _problem(kind: str, name: str, row: Row, shape: type[Shape]) -> Problem:
    if kind == "extra_forbidden":
        allowed = ", ".join((*shape.model_fields, "source"))
        return replace(_unknown("key", name, shape.model_fields, allowed), value=_short(row[name]))
    allowed = shape.model_fields[name].description or "" if name in shape.model_fields else ""
    if kind == "missing":
        return Problem(what="missing, and the catalog has no such row to take it from", allowed=allowed)
    return Problem(what="not a value of this field", value=_short(row.get(name)), allowed=allowed)


def _unlike(value: object, default: object) -> str:
    """Return what is allowed where a constant is of another kind than its default; empty where it is alike."""
    if isinstance(default, list):
        alike = isinstance(value, list) and value and not any(_unlike(item, default[0]) for item in value)
        pairs_fit = not isinstance(default[0], list) or (
            isinstance(value, list) and all(isinstance(item, list) and len(item) == len(default[0]) for item in value)
        )
        return "" if alike and pairs_fit else f"a list such as {default}"
    if isinstance(default, str):
        return "" if isinstance(value, str) and value else f"text such as {default}"
    whole = isinstance(default, int)
    of_the_kind = isinstance(value, int) or not whole
    if isinstance(value, int | float) and not isinstance(value, bool) and of_the_kind:
        fits = 0 <= value < inf and (value or not default)
        return "" if fits else _number_form(default)
    return _number_form(default)


def _number_form(default: object) -> str:
    whole = isinstance(default, int)
    return f"a {'whole ' if whole else ''}number above 0 such as {default}"


def _unknown(kind: str, name: str, known: Iterable[str], allowed: str) -> Problem:
    near = nearest(name, known)
    return Problem(what=f"unknown {kind}", value=name, allowed=allowed, fix=f"did you mean {near}?" if near else "")


def _tables_form() -> str:
    return f"tables {', '.join(SHAPES)}, and sources"


def _short(value: object) -> object:
    """Return the value for a message; long text and large structures are cut."""
    if isinstance(value, int | float | bool) or value is None:
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
