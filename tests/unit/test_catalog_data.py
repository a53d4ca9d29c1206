"""The data files: every row has a source, a date and a trust, and the shape that a user's row must have too."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hatchling.builders.wheel import WheelBuilder

from training_storage.catalog import Source
from training_storage.catalog.files import rows_of
from training_storage.catalog.loading import DATA, default_tables
from training_storage.catalog.model import Trust
from training_storage.catalog.shapes import SHAPES, SourceShape
from training_storage.catalog.tables import TWO_KEYS

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(DATA.glob("*.json"))
IDS = [path.stem for path in FILES]
SOURCES = {"source", "field_sources"}


def rows() -> Iterator[tuple[str, dict[str, Any]]]:
    for table, content in default_tables().items():
        for place, row in rows_of(content, (table,), two_keys=table in TWO_KEYS):
            assert isinstance(row, dict)
            yield ".".join(place), row


ROWS = dict(rows())


def test_all_tables_have_rows() -> None:
    assert {name.split(".")[0] for name in ROWS} == set(SHAPES)


@pytest.mark.parametrize("name", ROWS)
def test_the_row_has_source_date_and_trust(name: str) -> None:
    sources = [ROWS[name]["source"], *ROWS[name].get("field_sources", {}).values()]
    for source in sources:
        assert isinstance(source, Source)
        assert source.text
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", source.date)
        assert source.trust in set(get_args(Trust)) - {"user"}


@pytest.mark.parametrize("name", ROWS)
def test_the_row_has_the_shape_that_a_users_row_must_have(name: str) -> None:
    shape = SHAPES[name.split(".")[0]]
    row = shape.model_validate({key: value for key, value in ROWS[name].items() if key not in SOURCES})
    assert list(row.problems()) == []


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_every_source_is_well_formed_and_used(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    sources = json.loads(text)["sources"]
    for source in sources.values():
        assert SourceShape.model_validate(source).date
    named = set(re.findall(r'"source": "([^"]+)"', text))
    for fields in re.findall(r'"field_sources": \{([^}]*)\}', text):
        named |= set(re.findall(r': "([^"]+)"', fields))
    assert named == set(sources)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_no_key_is_written_twice(path: Path) -> None:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len({key for key, _ in pairs}) == len(pairs)
        return dict(pairs)

    assert json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=unique)


def test_reading_again_gives_the_same_and_nothing_shared() -> None:
    first, second = default_tables(), default_tables()
    assert first == second
    first["regions"]["us-east-1"]["zone_ids"].clear()
    assert default_tables() == second


def test_the_data_ships_in_the_wheel(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    shipped = {name for name in zipfile.ZipFile(wheel).namelist() if "/catalog/data/" in name}
    assert shipped == {f"training_storage/catalog/data/{path.name}" for path in FILES}
