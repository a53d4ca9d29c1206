"""What one step up or down changes, where it pays, and where the answer changes as a workload grows. Pure."""

from __future__ import annotations

from training_storage.whatif.model import (
    BreakEven,
    Curve,
    Difference,
    Figures,
    Point,
    Segment,
    Span,
    Step,
    Sweep,
    SweepPoint,
)

__all__ = [
    "BreakEven",
    "Curve",
    "Difference",
    "Figures",
    "Point",
    "Segment",
    "Span",
    "Step",
    "Sweep",
    "SweepPoint",
]
