"""Tables of the page: what stands in them, as text; how they look is a matter of template and style sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RowKind = Literal["", "group", "sum"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        title: Its head.
        kind: ``text``, ``number`` (aligned to the right), ``measure`` (the same, and may be broken) or ``code``.
    """

    title: str
    kind: Literal["text", "number", "measure", "code"] = "text"


@dataclass(frozen=True, slots=True)
class Row:
    """One row; its first cell is its head.

    Attributes:
        cells: The cells, as many as columns; one alone for a ``group``.
        kind: ``group`` for the head of what follows, ``sum`` for the sum of what went before.
    """

    cells: tuple[str, ...]
    kind: RowKind = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table.

    Attributes:
        caption: What it shows.
        columns: Its columns.
        rows: Its rows.
        hide_caption: Whether the caption is for screen readers alone, because a heading says the same.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    hide_caption: bool = False


def table(caption: str, columns: tuple[Column, ...], rows: list[Row], *, hide_caption: bool = False) -> Table | None:
    """Return a table, or None where it would have no row.

    Args:
        caption: What it shows.
        columns: Its columns.
        rows: Its rows.
        hide_caption: Whether a heading says the same.
    """
    return Table(caption=caption, columns=columns, rows=tuple(rows), hide_caption=hide_caption) if rows else None
