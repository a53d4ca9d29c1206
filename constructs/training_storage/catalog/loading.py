"""Reading the catalog: the data files that come with the package, and a user's files over them."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from training_storage.catalog.catalog import Catalog
from training_storage.catalog.model import Source
from training_storage.catalog.tables import TWO_KEYS, Tables, build, resolve_source

DATA = Path(__file__).parent / "data"


@lru_cache(maxsize=1)
def default_catalog() -> Catalog:
    """Return the catalog that comes with the package; read once a process."""
    return build(default_tables())


def load_catalog(*files: Path) -> Catalog:
    """Return the default catalog with a user's files over it.

    A file is JSON (``.json``) or YAML (``.yaml``, ``.yml``) in the shape of the data files of this package: tables such
    as ``instance_types``, ``regions`` or ``prices``, in them rows by key. A row whose key is known replaces the fields
    that it gives; any other is added, and must then give every field that has no default. ``source`` may be left out,
    be a name under ``sources``, or ``{"text": ..., "date": ...}``; the trust of such a row is ``user`` either way. A
    later file wins over an earlier one.

    Args:
        files: The files, in order. None given: the default catalog.

    Raises:
        CatalogError: With every problem in every file: path of the field, value given, what is allowed, what to change.
    """
    if not files:
        return default_catalog()
    from training_storage.catalog.overrides import merge  # pydantic and YAML are only paid for here

    return build(merge(default_tables(), [Path(file) for file in files]))


def default_tables() -> Tables:
    """Return the rows of the data files, fresh: the caller may change them."""
    tables: Tables = {}
    for path in sorted(DATA.glob("*.json")):
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        sources = {name: Source(**given) for name, given in document.pop("sources").items()}
        for table, rows in document.items():
            groups = rows.values() if table in TWO_KEYS else (rows,)
            for group in groups:
                for row in group.values():
                    row["source"] = resolve_source(row["source"], sources)
                    if "field_sources" in row:
                        row["field_sources"] = {
                            field: resolve_source(given, sources) for field, given in row["field_sources"].items()
                        }
            tables[table] = rows
    return tables
