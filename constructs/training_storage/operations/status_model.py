"""The parts of a status, and how each is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

OK: Final = "ok"
ATTENTION: Final = "attention"
BROKEN: Final = "broken"
UNKNOWN: Final = "unknown"
NONE: Final = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a workload.

    Attributes:
        name: Its name.
        state: ``ok``, ``attention``, ``broken``, ``unknown``, or ``none`` where there is no such part.
        text: How it is, in words; why it is not known, where it is not.
        lines: More about it, for people.
        data: The same as plain data.
    """

    name: str
    state: str
    text: str
    lines: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"state": self.state, "text": self.text, "lines": list(self.lines), **self.data}


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a workload is.

    Attributes:
        workload: Its name.
        seen_at: Seconds since 1970.
        parts: Its parts, in the order in which they are shown.
    """

    workload: str
    seen_at: float
    parts: tuple[Part, ...]

    @property
    def is_broken(self) -> bool:
        """Whether a part is broken."""
        return any(each.state == BROKEN for each in self.parts)

    def part(self, name: str) -> Part:
        """Return a part by its name.

        Raises:
            StopIteration: There is none.
        """
        return next(each for each in self.parts if each.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "workload": self.workload,
            "seen_at": self.seen_at,
            "broken": self.is_broken,
            **{each.name.replace(" ", "_"): each.to_dict() for each in self.parts},
        }
