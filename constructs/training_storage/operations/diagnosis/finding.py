"""What a rule says: a finding with its evidence as numbers, how sure it is, and one next step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from training_storage.operations.diagnosis.look import Look

STOP: Final = "stop"
"""Training stops, or is about to."""
BOTTLENECK: Final = "bottleneck"
"""GPUs wait, and this is what for."""
FAULT: Final = "fault"
"""Something does not do what it is there for; no GPU waits for it now."""
MEASUREMENT: Final = "measurement"
"""What was measured is not what it looks like."""
KINDS: Final = (STOP, BOTTLENECK, FAULT, MEASUREMENT)
"""In the order in which a verdict is chosen."""

HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"
WEIGHTS: Final = {HIGH: 1.0, MEDIUM: 0.6, LOW: 0.3}
"""How much a gain counts by the confidence in it, where several findings are ranked."""

_PLAIN: Final = 0.3
"""Strength from which evidence counts as plain, of 0 at the border to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One figure that a finding rests on.

    Attributes:
        name: What it is, in words.
        observed: Its value; text where it is no number.
        expected: The limit or the value of the plan; None where there is none.
        unit: Its unit; empty for counts and text.
        against: What ``expected`` is: ``planned``, ``limit``, ``border``, ``others``; empty without one.
    """

    name: str
    observed: float | str
    expected: float | None = None
    unit: str = ""
    against: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "name": self.name,
            "observed": self.observed,
            "expected": self.expected,
            "unit": self.unit,
            "against": self.against,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a rule found.

    Attributes:
        id: Id of the rule.
        title: The verdict, in one sentence without its full stop.
        kind: One of ``KINDS``.
        confidence: ``high``, ``medium`` or ``low``; see ``confidence``.
        evidence: The figures, the most telling first.
        next_step: One thing to do: a command, or a change of the workload file, with numbers.
        gain_share: Share (0 to 1) of the fleet's time that the next step is expected to win back; None where not known.
        gain_gpu_hours_per_hour: The same as hours of GPUs in an hour; None where not known.
        gain_usd_per_hour: The same as USD an hour; None where not known.
    """

    id: str
    title: str
    kind: str
    confidence: str
    evidence: tuple[Evidence, ...]
    next_step: str
    gain_share: float | None = None
    gain_gpu_hours_per_hour: float | None = None
    gain_usd_per_hour: float | None = None

    @property
    def rank(self) -> tuple[int, float, float]:
        """What findings are sorted by: kind, then the gain times the confidence in it, then the confidence."""
        weight = WEIGHTS[self.confidence]
        return KINDS.index(self.kind), -(self.gain_share or 0.0) * weight, -weight

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "id": self.id,
            "title": self.title,
            "kind": self.kind,
            "confidence": self.confidence,
            "evidence": [each.to_dict() for each in self.evidence],
            "next_step": self.next_step,
            "gain_share": self.gain_share,
            "gain_gpu_hours_per_hour": self.gain_gpu_hours_per_hour,
            "gain_usd_per_hour": self.gain_usd_per_hour,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule: looks at figures, and says what it found. It makes no calls and keeps nothing.

    Attributes:
        id: Its id.
        kind: Kind of what it finds, where it is one of several: the gravest.
        condition: When it fires, in words, with its borders.
        step: What it advises, in words.
        needs: Metrics without any of which it cannot say anything.
        explains: Rules whose findings are only the effect of this one's.
        check: Returns a finding, or None where it does not fire or cannot tell.
    """

    id: str
    kind: str
    condition: str
    step: str
    needs: tuple[str, ...]
    check: Callable[[Look], Finding | None]
    explains: tuple[str, ...] = ()


def strength(value: float, border: float, plain: float) -> float:
    """Return how far a figure is past its border: 0 at the border or before it, 1 where it is plain or beyond.

    Args:
        value: The figure.
        border: Where it begins to count.
        plain: Where nobody doubts it; below the border for figures that count when they are low.
    """
    return min(max((value - border) / (plain - border), 0.0), 1.0)


def confidence(strengths: Sequence[float], others_excluded: Sequence[bool | None] = ()) -> str:
    """Return how sure a rule may be.

    ``high``: the weakest of its figures is at least 30 % of the way from its border to where it is plain, and every
    other explanation was looked at and is not so. ``medium``: one of the two. ``low``: neither.

    Args:
        strengths: Of each figure that is needed, by ``strength``.
        others_excluded: Of each other explanation: True where figures exclude it, None where they are missing.
    """
    plain = min(strengths, default=1.0) >= _PLAIN
    alone = all(each is True for each in others_excluded)
    return HIGH if plain and alone else MEDIUM if plain or alone else LOW
