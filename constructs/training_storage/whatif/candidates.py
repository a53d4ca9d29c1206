"""Which configurations stand one step away from a plan, as keys of its workload file.

Every step of a file system gives tier, capacity and EFA together: the planner would otherwise take another tier for the
new capacity, and the step would be two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import get_args

from training_storage.catalog.model import StorageOption
from training_storage.planner.model import HotTier, LustrePlan, Plan
from training_storage.planner.words import gib, mb_per_s
from training_storage.whatif.model import Direction, StepKind, Value

_WAYS: tuple[Direction, ...] = ("up", "down")
_TIER_NAMES: dict[HotTier, str] = {"none": "no hot tier", "lustre": "FSx for Lustre", "express": "S3 Express One Zone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One configuration to plan, or the reason why there is none.

    Attributes:
        kind: What is changed.
        direction: Which way; for another hot tier the figures say.
        option: The configuration in words.
        changes: Values by dotted path of the workload file.
        impossible: Why there is none; empty where there is one.
    """

    kind: StepKind
    direction: Direction
    option: str
    changes: dict[str, Value] = field(default_factory=dict)
    impossible: str = ""


def candidates(plan: Plan) -> Iterator[list[Candidate]]:
    """Yield the steps in the order of reading, each as options of which the first that can be planned counts."""
    lustre = plan.lustre
    for direction in _WAYS:
        yield (
            [_without_choice(plan, "throughput", direction)] if lustre is None else _throughput(plan, lustre, direction)
        )
    for direction in _WAYS:
        yield [_without_choice(plan, "capacity", direction)] if lustre is None else [_capacity(plan, lustre, direction)]
    for tier in get_args(HotTier):
        if tier != plan.tiers.hot:
            yield [Candidate(kind="tier", direction="sideways", option=_TIER_NAMES[tier], changes={"hot_tier": tier})]


def _without_choice(plan: Plan, kind: StepKind, direction: Direction) -> Candidate:
    """S3 and S3 Express: nothing is bought by throughput or capacity."""
    name = "S3 Express" if plan.tiers.hot == "express" else "S3"
    if kind == "capacity":
        reason = f"{name} holds what is put there: no capacity is bought"
    else:
        tightest = next((each for each in plan.prediction.limits if each.name == plan.prediction.binds), None)
        bound = "" if tightest is None else f"; {tightest.name} binds: {tightest.because}"
        reason = f"{name} has no throughput to buy: it grows with the fleet{bound}"
    return Candidate(kind=kind, direction=direction, option=f"{kind} {direction}", impossible=reason)


def _throughput(plan: Plan, lustre: LustrePlan, direction: Direction) -> list[Candidate]:
    there = _there_already(plan, "throughput", direction)
    if there is not None:
        return [there]
    if lustre.throughput_capacity_mb_per_s is not None:
        return [_bought_throughput(plan, lustre, lustre.throughput_capacity_mb_per_s, direction)]
    option, tier = _option(plan, lustre), lustre.per_unit_storage_throughput
    if option is None or tier is None or lustre.storage_capacity_gib is None:
        kind = f"{lustre.deployment_type} {lustre.storage_type}"
        reason = f"{kind} has one throughput per TiB; more of it comes with more capacity"
        return [_impossible("throughput", direction, f"throughput {direction}", reason)]
    offered = _offered_tiers(plan, option)
    tiers = [each for each in offered if (each > tier if direction == "up" else each < tier)]
    if not tiers:
        most = "highest" if direction == "up" else "lowest"
        of = f" that {plan.workload.region} offers" if len(offered) < len(option.tiers) else ""
        reason = f"{tier} MB/s per TiB is the {most} tier of {option.deployment_type} {option.storage_type}{of}"
        return [_impossible("throughput", direction, f"throughput {direction}", reason)]
    found = []
    least: list[int] = []
    for other in sorted(tiers, reverse=direction == "down"):
        capacity = plan.catalog.lustre.round_up_gib(option, lustre.storage_capacity_gib, other, lustre.efa)
        supply = plan.catalog.lustre.read_mb_per_s(option, capacity, other)
        if direction == "down" and supply >= lustre.throughput_mb_per_s:
            least.append(capacity)  # it has to be so much larger that it is no slower
            continue
        found.append(_file_system(plan, lustre, "throughput", direction, other, capacity))
    if not found:
        now = f"{gib(lustre.storage_capacity_gib)} at {tier} MB/s per TiB{', with EFA,' if lustre.efa else ''}"
        reason = f"{now} have the least throughput: lower tiers begin at {gib(min(least))}, and with no less of it"
        return [_impossible("throughput", direction, f"throughput {direction}", reason)]
    return found


def _bought_throughput(plan: Plan, lustre: LustrePlan, now: int, direction: Direction) -> Candidate:
    facts = plan.catalog.lustre
    step = facts.intelligent_tiering_throughput_step_mb_per_s
    wanted = now + step if direction == "up" else now - step
    if not facts.is_legal_throughput_capacity(wanted):
        reason = f"{mb_per_s(now)} are the {'most' if direction == 'up' else 'least'} of INTELLIGENT_TIERING"
        return _impossible("throughput", direction, f"throughput {direction}", reason)
    return Candidate(
        kind="throughput",
        direction=direction,
        option=f"throughput capacity {mb_per_s(wanted)}",
        changes=_pinned(plan, {"lustre.throughput_capacity": wanted, "lustre.efa": lustre.efa}),
    )


def _capacity(plan: Plan, lustre: LustrePlan, direction: Direction) -> Candidate:
    there = _there_already(plan, "capacity", direction)
    if there is not None:
        return there
    option, now = _option(plan, lustre), lustre.storage_capacity_gib
    if option is None or now is None:
        reason = "INTELLIGENT_TIERING grows and shrinks with the data: no capacity is bought"
        return _impossible("capacity", direction, f"capacity {direction}", reason)
    tier = lustre.per_unit_storage_throughput
    below, above = plan.catalog.lustre.neighbours(option, now, tier, lustre.efa)
    wanted = above if direction == "up" else below
    if wanted is None:
        reason = f"{gib(now)} is the smallest{' EFA-enabled' if lustre.efa else ''} file system of this type and tier"
        return _impossible("capacity", direction, f"capacity {direction}", reason)
    return _file_system(plan, lustre, "capacity", direction, tier, wanted)


def _file_system(
    plan: Plan, lustre: LustrePlan, kind: StepKind, direction: Direction, tier: int | None, capacity: int
) -> Candidate:
    changes: dict[str, Value] = {} if tier is None else {"lustre.per_unit_storage_throughput": tier}
    changes |= {"lustre.storage_capacity": f"{capacity} GiB", "lustre.efa": lustre.efa}
    size = gib(capacity)
    return Candidate(
        kind=kind,
        direction=direction,
        option=size if tier is None else f"{size} at {tier} MB/s per TiB",
        changes=_pinned(plan, changes),
    )


def _pinned(plan: Plan, changes: dict[str, Value]) -> dict[str, Value]:
    """Leave out what the workload file says already."""
    given = plan.workload.lustre
    kept = dict(changes)
    for key, known in (
        ("lustre.per_unit_storage_throughput", given.per_unit_storage_throughput),
        ("lustre.efa", given.efa if isinstance(given.efa, bool) else None),
    ):
        if known is not None and kept.get(key) == known:
            del kept[key]
    return kept


def _there_already(plan: Plan, kind: StepKind, direction: Direction) -> Candidate | None:
    name = plan.workload.lustre.file_system_id
    if not name:
        return None
    return _impossible(kind, direction, f"{kind} {direction}", f"{name} is there already: a plan does not change it")


def _impossible(kind: StepKind, direction: Direction, option: str, reason: str) -> Candidate:
    return Candidate(kind=kind, direction=direction, option=option, impossible=reason)


def _option(plan: Plan, lustre: LustrePlan) -> StorageOption | None:
    """Return the row of the file system where it is bought by capacity."""
    option = plan.catalog.lustre.option(lustre.deployment_type, lustre.storage_type)
    return option if option is not None and option.step_gib else None


def _offered_tiers(plan: Plan, option: StorageOption) -> tuple[int, ...]:
    """Return the tiers of a type that the region offers, ascending; all where the facts do not say."""
    tiers = tuple(sorted(option.tiers))
    region = plan.catalog.regions.get(plan.workload.region)
    if option.deployment_type != "PERSISTENT_2" or region is None or region.lustre_tiers is None:
        return tiers
    return tuple(tier for tier in tiers if tier in region.lustre_tiers)
