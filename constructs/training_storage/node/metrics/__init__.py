"""Every metric that tells whether storage holds training back: name, unit, dimensions, statistic, where it comes from.

Nodes write by these tables, dashboards and alarms draw by them, and the diagnosis asks by them; no other place in the
product spells the name of a metric. ``figures`` has the ten that people look at.
"""

from __future__ import annotations

from .model import FLEET, KIND, NAMESPACE, NODE, RANK, SOURCE, Figure, Metric
from .ours import OURS
from .services import SERVICES

__all__ = ["FLEET", "KIND", "NAMESPACE", "NODE", "OURS", "RANK", "SERVICES", "SOURCE", "Figure", "Metric"]
