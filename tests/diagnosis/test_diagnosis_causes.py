"""Planted causes in a simulated fleet: the verdict names each, weak and strong, alone and beside another anomaly."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.diagnosis.causes import CAUSES, DISTRACTORS, HEALTHY, observed
from tests.diagnosis.world import World
from training_storage.operations.diagnosis.diagnose import NOT_STORAGE, diagnose
from training_storage.operations.diagnosis.rules import RULES

PLANTED: list[tuple[str, str, str, dict[str, Any]]] = [
    (name, strength, verdict, changes)
    for name, (verdict, weak, strong) in CAUSES.items()
    for strength, changes in (("weak", weak), ("strong", strong))
]
IDS = [f"{name}, {strength}" for name, strength, _, _ in PLANTED]


def beside(changes: dict[str, Any], distractor: dict[str, Any]) -> World | None:
    """The world with both; None where both are about the same."""
    if set(changes) & set(distractor):
        return None
    return replace(World(), **changes, **distractor)


@pytest.mark.parametrize(("name", "strength", "verdict", "changes"), PLANTED, ids=IDS)
def test_the_verdict_names_the_planted_cause(name: str, strength: str, verdict: str, changes: dict[str, Any]) -> None:
    found = diagnose(observed(name, strength))
    assert found.verdict == verdict, found.to_dict()
    assert found.primary is not None
    assert found.primary.evidence
    assert found.primary.next_step


@pytest.mark.parametrize(("number", "planted"), tuple(enumerate(PLANTED)), ids=IDS)
def test_an_anomaly_beside_it_does_not_win(number: int, planted: tuple[str, str, str, dict[str, Any]]) -> None:
    _, _, verdict, changes = planted
    names = [name for name in DISTRACTORS if beside(changes, DISTRACTORS[name]) is not None]
    name = names[number % len(names)]
    world = beside(changes, DISTRACTORS[name])
    assert world is not None
    assert diagnose(world.observation()).verdict == verdict, name


@pytest.mark.parametrize("name", HEALTHY)
def test_compute_bound_is_not_storage(name: str) -> None:
    found = diagnose(replace(World(), **HEALTHY[name]).observation())
    assert (found.verdict, found.primary) == (NOT_STORAGE, None), found.to_dict()
    assert {"GPUs wait for data"} <= {each.name for each in found.evidence}


@pytest.mark.parametrize("name", DISTRACTORS)
def test_a_mild_anomaly_alone_is_no_finding(name: str) -> None:
    assert diagnose(replace(World(), **DISTRACTORS[name]).observation()).verdict == NOT_STORAGE


def test_every_rule_is_planted() -> None:
    assert {verdict for verdict, _, _ in CAUSES.values()} == {rule.id for rule in RULES}


def test_every_pair_of_cause_and_anomaly() -> None:
    wrong = []
    for (name, strength, verdict, changes), distractor in itertools.product(PLANTED, DISTRACTORS):
        for seed in (3,):
            world = beside(changes, DISTRACTORS[distractor])
            if world is None:
                continue
            found = diagnose(replace(world, seed=seed).observation())
            if found.verdict != verdict:
                wrong.append((name, strength, distractor, seed, found.verdict))
    assert wrong == []


def test_random_fleets() -> None:
    """Whatever the size and the rates of a fleet, a cause that is strong enough is named."""
    wrong = []
    for seed in range(100):
        chance = random.Random(seed)
        nodes, ranks = chance.randint(3, 12), chance.choice((1, 2, 4, 8))
        demand, servers = chance.uniform(20, 400), chance.choice((4, 8, 16))
        base = World(nodes=nodes, ranks=ranks, demand=demand, servers=servers, periods=14, seed=seed)
        fleet, node, less = demand * nodes * ranks, demand * ranks, chance.uniform(0.3, 0.88)
        free = replace(
            base, server_limit=2.5 * fleet / servers, cpu_limit=3 * node, requests=demand / 100,
            open_limit=3 * fleet / base.file_mb, node_limit=100 * node,
        )  # fmt: skip
        for verdict, world in {
            NOT_STORAGE: free,
            "storage-throughput": replace(free, server_limit=less * fleet / servers),
            "preprocessing": replace(free, cpu_limit=less * node),
            "small-files": replace(free, file_mb=0.2, open_limit=less * fleet / 0.2),
            "slow-node": replace(free, slow_node=1, slow_factor=less),
            "read-latency": replace(free, latency_ms=50.0, requests=less * demand / 20),
            "checkpoint-write-path": replace(free, save_rate=chance.uniform(1000, 4000)),
        }.items():
            found = diagnose(world.observation()).verdict
            if found != verdict:
                wrong.append((seed, verdict, found))
    assert wrong == []
