"""What a plan costs: the lines of an invoice and their sums."""

from __future__ import annotations

from training_storage.planner.cost.invoice import estimate
from training_storage.planner.cost.usage import Parts

__all__ = ["Parts", "estimate"]
