"""Reading a user's file as plain data, with the line of each key where the format tells it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from training_storage.errors import CatalogError, Problem

Place = tuple[str, ...]
MAX_BYTES = 4_000_000
"""Forty times the files of the package; without a bound a device or a wrong file would fill the memory."""


@dataclass(frozen=True, slots=True)
class Document:
    """What a file says.

    Attributes:
        path: The file.
        content: Plain dicts, lists and scalars; the keys of dicts are text.
        lines: Line of each key by its place, counted from 1; empty for JSON.
    """

    path: Path
    content: object
    lines: dict[Place, int]

    def line(self, place: Place) -> int | None:
        """Return the line of a place, or of the nearest place around it."""
        while place:
            if place in self.lines:
                return self.lines[place]
            place = place[:-1]
        return None


def read(path: Path) -> Document:
    """Read one file.

    Raises:
        CatalogError: The file cannot be read, or is neither JSON nor YAML.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refuse(path, "is not UTF-8 text") from error
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _refuse(path, f"cannot be read: {(getattr(error, 'strerror', None) or str(error)).lower()}") from error
    if len(data) > MAX_BYTES:
        raise _refuse(path, "is too large for a catalog file", allowed=f"at most {MAX_BYTES:,} bytes")
    try:
        if path.suffix.lower() == ".json":
            return Document(path, json.loads(text, object_pairs_hook=_unique), {})
        if path.suffix.lower() in {".yaml", ".yml"}:
            lines: dict[Place, int] = {}
            return Document(path, _plain(YAML(typ="rt").load(text), (), lines), lines)
    except json.JSONDecodeError as error:
        raise _refuse(path, f"is not JSON: {error.msg.lower()}", error.lineno) from error
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        raise _refuse(path, f"is not YAML: {error.problem or error.context}", line) from error
    except YAMLError as error:
        raise _refuse(path, f"is not YAML: {str(error).splitlines()[0]}") from error
    except ValueError as error:  # a number of thousands of digits, a date that does not exist
        raise _refuse(path, f"holds a value that cannot be read: {error}") from error
    except RecursionError as error:
        raise _refuse(path, "is nested too deeply, or refers to itself") from error
    except _DuplicateKeyError as error:
        raise _refuse(path, f"has a key twice: {error}") from error
    raise _refuse(path, "is neither JSON nor YAML by its name", allowed="a name that ends in .json, .yaml or .yml")


class _DuplicateKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _DuplicateKeyError(key)
        found[key] = value
    return found


def _plain(value: object, place: Place, lines: dict[Place, int]) -> object:
    """Return plain data, and note the line of each key. Dates become ISO text, as JSON has them."""
    if isinstance(value, CommentedMap):
        found: dict[str, object] = {}
        for key, item in value.items():
            lines[(*place, str(key))] = value.lc.key(key)[0] + 1 if value.lc.data and key in value.lc.data else 0
            found[str(key)] = _plain(item, (*place, str(key)), lines)
        return found
    if isinstance(value, list):
        return [_plain(item, place, lines) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, datetime.date | datetime.datetime):
        return value.isoformat()
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return value


def _refuse(path: Path, what: str, line: int | None = None, *, allowed: str = "") -> CatalogError:
    return CatalogError(Problem(what=f"the file {what}", allowed=allowed, file=str(path), line=line), where=str(path))


def rows_of(table: object, place: Place, *, two_keys: bool) -> Iterator[tuple[Place, object]]:
    """Yield the rows of a table with their places; what is no mapping is yielded as it is, for the caller to refuse."""
    if not isinstance(table, dict):
        yield place, table
        return
    for key, value in table.items():
        if two_keys:
            yield from rows_of(value, (*place, key), two_keys=False)
        else:
            yield (*place, key), value
