"""The verdict over an observation: what the GPUs wait for, or that storage is not it, or that nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from training_storage.node.metrics.model import FLEET, NODE
from training_storage.operations.diagnosis import borders
from training_storage.operations.diagnosis.finding import MEASUREMENT, Evidence, Finding, Rule
from training_storage.operations.diagnosis.look import Look, percent
from training_storage.operations.diagnosis.observation import Observation
from training_storage.operations.diagnosis.rules import RULES

NOT_STORAGE: Final = "not-storage"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What follows from an observation.

    Attributes:
        workload: Name of the workload.
        since: Begin of the span, seconds since 1970.
        until: Its end.
        verdict: Id of the rule whose finding is the first; ``not-storage`` or ``unknown``.
        because: Why, where no rule's finding is the verdict; empty otherwise.
        primary: The finding; None for ``not-storage`` and ``unknown``.
        also: Other findings, the one that matters most first.
        evidence: Figures of the whole, where there is no finding.
        missing: What was not there to look at, in words.
    """

    workload: str
    since: float
    until: float
    verdict: str
    because: str
    primary: Finding | None
    also: tuple[Finding, ...]
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "workload": self.workload,
            "since": self.since,
            "until": self.until,
            "verdict": self.verdict,
            "because": self.because,
            "finding": None if self.primary is None else self.primary.to_dict(),
            "also_seen": [each.to_dict() for each in self.also],
            "evidence": [each.to_dict() for each in self.evidence],
            "missing": list(self.missing),
        }


def diagnose(observation: Observation, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Return the verdict over an observation; the same observation gives the same verdict.

    Args:
        observation: What was observed.
        rules: Rules to look by. Left out: all.
    """
    look = Look(observation)
    found = {rule.id: finding for rule in rules if (finding := rule.check(look)) is not None}
    explained = {
        effect
        for rule in rules
        if rule.id in found and found[rule.id].kind == rule.kind  # a mere fault explains no waiting
        for effect in rule.explains
        if effect in found
    }
    causes = sorted((each for name, each in found.items() if name not in explained), key=lambda each: each.rank)
    effects = sorted((each for name, each in found.items() if name in explained), key=lambda each: each.rank)
    missing = (*_missing(look, rules), *observation.unknown)
    first = causes[0] if causes else None
    if first is not None and first.kind == MEASUREMENT and _trains_well(look):
        first = None  # busy GPUs that read from memory are no trouble
    if first is not None:
        return Diagnosis(
            workload=observation.workload,
            since=observation.since,
            until=observation.until,
            verdict=first.id,
            because="",
            primary=first,
            also=tuple(each for each in (*causes, *effects) if each is not first),
            evidence=(),
            missing=missing,
        )
    verdict, because = _without_finding(look)
    return Diagnosis(
        workload=observation.workload,
        since=observation.since,
        until=observation.until,
        verdict=verdict,
        because=because,
        primary=None,
        also=(*causes, *effects),
        evidence=tuple(_figures(look)),
        missing=missing,
    )


def _trains_well(look: Look) -> bool:
    return look.wait is not None and look.wait < borders.WAIT and (look.gpu is None or look.gpu >= borders.GPU_BUSY)


def _without_finding(look: Look) -> tuple[str, str]:
    if look.wait is None:
        if look.gpu is not None and look.gpu >= borders.GPU_BUSY:
            return NOT_STORAGE, "the GPUs are busy; how long they wait for data is not known, for no telemetry came"
        return UNKNOWN, (
            "nobody reported how long the GPUs wait for data: no telemetry came in this time; call "
            "`training_storage.node.telemetry.watch(loader)` in the training code, or look at another time with --since"
        )
    if look.wait < borders.WAIT:
        if look.gpu is None or look.gpu >= borders.GPU_BUSY:
            return NOT_STORAGE, "the GPUs hardly wait for data, and nothing else of the storage is out of order"
        return NOT_STORAGE, (
            "the GPUs hardly wait for data: what keeps them from work is in the training code or between the nodes "
            "(small kernels, communication, stalls of the host)"
        )
    if look.queue_empty is not None and look.queue_empty < min(borders.QUEUE_EMPTY, borders.QUEUE_FULL * look.wait):
        return NOT_STORAGE, (
            "batches are ready when they are asked for: what takes time is bringing them to the GPU (copies to the "
            "device, `pin_memory=True`, collating in the training process)"
        )
    if look.queue_empty is not None and look.queue_empty < borders.QUEUE_EMPTY:
        return UNKNOWN, (
            "the GPUs wait for data, and most batches are ready when they are asked for: a few of them come very late, "
            "or bringing them to the GPU takes the time; the telemetry of single ranks, or a profile, tells which"
        )
    return UNKNOWN, (
        "the GPUs wait for data, and no rule tells for what: no limit is reached, and CPUs and requests do not tell "
        "either, or their figures are missing"
    )


def _figures(look: Look) -> list[Evidence]:
    rows = look.waiting()
    for name, share in (
        ("saves hold the loop up", look.blocked),
        ("CPUs of the median node busy", look.cpu),
        ("storage in use, of the nearest limit", look.storage_share),
        ("metadata servers in use", look.metadata_share),
    ):
        if share is not None:
            rows.append(percent(name, share, borders.LIMIT if "in use" in name else None))
    return rows


def _missing(look: Look, rules: Sequence[Rule]) -> list[str]:
    """Return what rules would have looked at and was not there, by what it is, in words."""
    seen = {each.metric for each in look.seen.series if each.points}
    expected, lines = look.expected, []
    ours = {name for rule in rules for name in rule.needs if not name.startswith("AWS/")} - {"RestoreTime", "Epoch"}
    telemetry = {"DataWaitTime", "ElapsedTime"} & ours
    if telemetry - seen:
        lines.append("telemetry of the training process (DataWaitTime, ElapsedTime)")
    collector = ("StorageReadBytes", "StorageRpcWaitTime", "cpu_usage_active", "nvidia_smi_utilization_gpu")
    lacking = [name for name in collector if name not in seen]
    if lacking:
        lines.append(f"figures of nodes ({', '.join(lacking)})")
    if look.on_lustre and not any(name.startswith("AWS/FSx") for name in seen):
        lines.append("figures of the file system (AWS/FSx)")
    if expected is None:
        lines.append("what the plan expects: limits of nodes and storage, prices (give --workload FILE)")
    else:
        nodes = {each.dimensions["InstanceId"] for each in look.seen.all("StorageReadBytes", *NODE)}
        if nodes and len(nodes) < (expected.instance_count or 0):
            lines.append(f"{expected.instance_count - len(nodes)} of {expected.instance_count} nodes report nothing")
        unknown = [
            words
            for value, words in (
                (expected.node_limit_mb_per_s, "the limit of a node"),
                (expected.supply_mb_per_s, "what the storage gives"),
                (expected.gpu_usd_per_hour, "the price of the fleet"),
            )
            if value is None
        ]
        if unknown:
            lines.append(f"the plan does not know {', '.join(unknown)}")
    if look.seen.one("DroppedRecords", *FLEET) is not None:
        dropped = look.totals("DroppedRecords", *FLEET) or 0
        if dropped:
            lines.append(f"{dropped:,.0f} records of telemetry that nobody took")
    return lines
