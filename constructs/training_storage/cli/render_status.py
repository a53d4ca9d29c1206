"""The status of a workload as text for people."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from training_storage.cli.moments import told

if TYPE_CHECKING:
    from training_storage.operations.status_model import Status

_MARKS: Final = {"ok": "ok", "attention": "look", "broken": "BROKEN", "unknown": "?", "none": "-"}
_COLORS: Final = {"ok": "32", "attention": "33", "broken": "1;31", "unknown": "35", "none": "2"}


def wants_color() -> bool:
    """Whether standard output is a terminal that is asked for colours."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def as_text(found: Status, *, color: bool = False) -> str:
    """Return a status, a part a line and its details below it.

    Args:
        found: The status.
        color: Whether to mark states with terminal colours.
    """
    lines = [f"{found.workload}, as seen at {told(found.seen_at)}"]
    wide = max(len(each.name) for each in found.parts)
    marked = max(len(mark) for mark in _MARKS.values())
    for each in found.parts:
        mark = f"{_MARKS[each.state]:<{marked}}"
        shown = f"\x1b[{_COLORS[each.state]}m{mark}\x1b[0m" if color else mark
        text = f"not known: {each.text}" if each.state == "unknown" else each.text
        lines.append(f"  {each.name:<{wide}}  {shown}  {_plain(text)}")
        lines += [f"  {'':<{wide}}  {'':<{marked}}  {_plain(line)}" for line in each.lines]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Return text of AWS or of a node on one line, without what a terminal would act on."""
    return "".join(each for each in " ".join(text.split()) if each.isprintable())
