"""What one step up or down changes, where it pays, and where the answer changes as a workload grows. Pure."""

from __future__ import annotations

from training_storage.whatif.break_even import break_even
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
from training_storage.whatif.steps import steps
from training_storage.whatif.sweep import default_sweep, sweep

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
    "break_even",
    "default_sweep",
    "steps",
    "sweep",
]
