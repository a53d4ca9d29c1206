"""What a metric is, and the sets of dimensions that ours are published under."""

from __future__ import annotations

from dataclasses import dataclass

NAMESPACE = "TrainingStorage"
"""Namespace of everything that nodes of ours write."""

WORKLOAD = "Workload"
INSTANCE = "InstanceId"
RUN = "Run"
RANK_NAME = "Rank"

FLEET = (WORKLOAD,)
"""All nodes together. Every record counts once here: Sum over it is the fleet's, Average the mean of records."""
NODE = (WORKLOAD, INSTANCE)
"""One node: the id of the instance, or the host's name outside EC2."""
RANK = (WORKLOAD, RUN, INSTANCE, RANK_NAME)
"""One process of one run. Ranks are numbered over the whole run, as launchers do."""
KIND = (WORKLOAD, "Kind")
"""All nodes together, by kind of storage: ``lustre``, ``mountpoint``, ``nfs``, ``nvme``."""
SOURCE = (WORKLOAD, "Source")
"""What the restore drill read: ``hot`` or ``lake``."""


@dataclass(frozen=True)
class Metric:
    """One metric of CloudWatch.

    Attributes:
        name: Its name there.
        namespace: ``TrainingStorage``, or that of a service.
        unit: Unit of CloudWatch, such as ``Seconds``; what the service says, where it is a service's.
        dimensions: The sets of dimensions that it is published under, names only.
        statistic: The statistic that means something for it over the first set.
        source: Who writes it: ``telemetry``, ``collector``, ``cloudwatch-agent``, ``drill``, or the service's name.
        meaning: What one value says, in one sentence.
        trust: ``seen`` where the name and its dimensions were read in a source, ``doubtful`` where the facts say so.
    """

    name: str
    namespace: str
    unit: str
    dimensions: tuple[tuple[str, ...], ...]
    statistic: str
    source: str
    meaning: str
    trust: str = "seen"


@dataclass(frozen=True)
class Figure:
    """One of the ten figures that tell whether storage holds training back.

    Attributes:
        number: 1 to 10.
        title: What people call it.
        metrics: Keys of ``OURS`` or ``SERVICES`` that it is worked out from.
        unit: Unit in which it is shown.
        formula: How it follows from the metrics, in words.
        expected: Field of the plan's expectations that is drawn beside it; empty where the plan has none.
        alarm: Id of the alarm that speaks of it; empty where none does.
    """

    number: int
    title: str
    metrics: tuple[str, ...]
    unit: str
    formula: str
    expected: str
    alarm: str
