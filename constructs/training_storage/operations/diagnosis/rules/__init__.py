"""The rules, one module a family. Their order is that of the documentation."""

from __future__ import annotations

from training_storage.operations.diagnosis.finding import Rule
from training_storage.operations.diagnosis.rules import files, links, loader, measurement, nodes, saves, throughput

RULES: tuple[Rule, ...] = (
    *throughput.RULES,
    *loader.RULES,
    *files.RULES,
    *saves.RULES,
    *nodes.RULES,
    *links.RULES,
    *measurement.RULES,
)

__all__ = ["RULES"]
