"""The configuration that the planner finds is the cheapest one of the whole legal grid.

The search below is a plain walk over every legal capacity of every tier. It shares no code and no table with the
planner: the numbers are those of the FSx for Lustre User Guide and the price rows of us-east-1.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

import pytest

from tests.unit._planner import make
from training_storage.planner import plan

PRICE = {125: 0.145, 250: 0.21, 500: 0.34, 1000: 0.60}
EFA_STEP = {125: 38_400, 250: 19_200, 500: 9600, 1000: 4800}
METADATA_PRICE = 0.055
# Gbit/s, cards, default FSx interfaces (0: no EFA client), accelerators.
FLEET = {
    "p4d.24xlarge": (400, 4, 0, 8),
    "p5.48xlarge": (3200, 32, 8, 8),
    "p5en.48xlarge": (3200, 16, 8, 8),
    "g6e.48xlarge": (400, 4, 2, 8),
    "g6.8xlarge": (25, 1, 1, 1),
    "g5.xlarge": (2.5, 1, 0, 1),
    "trn1.32xlarge": (800, 8, 2, 16),
    "p6-b300.48xlarge": (6400, 17, 16, 8),
}
Found = tuple[float, int, int, bool]


def automatic(gib: int) -> int:
    if gib >= 48_000:
        return min(gib // 24_000 * 12_000, 192_000)
    return 12_000 if gib >= 12_000 else 6000 if gib >= 4800 else 3000 if gib >= 2400 else 1500


def iops_for(opens: float) -> int:
    legal = [1500, 3000, 6000, *range(12_000, 192_001, 12_000)]
    return next((value for value in legal if 2 * value >= opens), 192_000)


def grid(step: int | None, most: int) -> Iterator[int]:
    if step is None:
        yield 1200
    yield from range(step or 2400, most + 1, step or 2400)


def cheapest(required: float, space: float, opens: float, servers: int, efa: bool) -> Found:
    best: Found | None = None
    for tier, price in PRICE.items():
        step = EFA_STEP[tier] if efa else None
        least = max(space, required / tier * 1024)
        # No metadata saving lies beyond the capacity at which AUTOMATIC ends.
        for gib in grid(step, int(max(least, 384_000)) + 100_000):
            behind = math.ceil(gib / (step or 2400))
            if gib < space or gib / 1024 * tier < required or behind < servers:
                continue
            cost = gib * price
            if opens > 2 * automatic(gib):
                cost += max(0, iops_for(opens) - automatic(gib)) * METADATA_PRICE
            found = (round(cost, 4), gib, tier, efa)
            if best is None or found[:2] < best[:2]:
                best = found
    assert best is not None
    return best


def brute_force(instance_type: str, count: int, required: float, space: float, opens: float) -> Found:
    gbps, cards, interfaces, _ = FLEET[instance_type]
    network, share = gbps * 125, required / count
    servers = max(1, math.ceil(min(share, network, 12_500) / 625))
    plain = cheapest(required, space, opens, servers, efa=False)
    limit = min(network, 12_500, 625 * math.ceil(plain[1] / 2400))
    used = min(interfaces, 1024 // count)
    if used == 0 or min(network * used / cards, 87_500) <= limit or (required < 10_000 and share <= limit):
        return plain
    return cheapest(required, space, opens, 1, efa=True)


def demands(count: int, seed: int) -> Iterator[tuple[str, int, float, float, float]]:
    draw = random.Random(seed)
    for _ in range(count):
        instance_type = draw.choice(list(FLEET))
        instances = draw.choice([1, 2, 3, 8, 17, 64, 128, 129, 500, 1024])
        read = round(10 ** draw.uniform(1, 5.7), 3)
        space = round(10 ** draw.uniform(2, 5.9), 3)
        opens = 0.0 if draw.random() < 0.4 else round(10 ** draw.uniform(2, 5.9))
        yield instance_type, instances, read, space, opens


@pytest.mark.parametrize("seed", range(6))
def test_the_chosen_configuration_is_the_cheapest_of_the_grid(seed: int) -> None:
    for instance_type, count, read, space, opens in demands(100, seed):
        accelerators = count * FLEET[instance_type][3]
        rate: dict[str, object] = {"per_accelerator": f"{read / accelerators!r} MB/s"}
        if opens:
            size = f"{read * 1e6 / opens!r} B"
            rate = {"samples": {"size": size, "per_second_per_accelerator": opens / accelerators}}
        made = plan(
            make(
                {
                    "compute.instance_type": instance_type,
                    "compute.instance_count": count,
                    "dataset.size": f"{space * 0.8!r} GiB",
                    "dataset.file_count": None,
                    "dataset.read_rate": rate,
                    "hot_tier": "lustre",
                }
            )
        )
        part = made.lustre
        assert part is not None
        wanted = brute_force(instance_type, count, read, space, opens)
        got = (part.ranking_usd_per_month, part.storage_capacity_gib, part.per_unit_storage_throughput, part.efa)
        assert got[0] == pytest.approx(wanted[0], rel=1e-9), (instance_type, count, read, space, opens)
        assert got[1:] == wanted[1:], (instance_type, count, read, space, opens)


def test_the_walk_finds_the_published_border_of_metadata() -> None:
    # 69,600 GiB have 24,000 automatic IOPS, 72,000 have 36,000: one step more costs 348 USD and saves 660 USD.
    assert cheapest(100.0, 69_000.0, 60_000.0, 1, efa=False)[1] == 72_000


@pytest.mark.parametrize(
    ("space", "opens", "capacity"),
    [(69_000, 60_000, 72_000), (67_200, 49_000, 67_200), (69_600, 48_000, 69_600)],
)
def test_one_step_more_where_it_saves_metadata(space: int, opens: int, capacity: int) -> None:
    made = plan(
        make(
            {
                "compute.instance_type": "p4d.24xlarge",
                "dataset.size": f"{space * 0.8!r} GiB",
                "dataset.file_count": None,
                "dataset.read_rate": {"samples": {"size": "1 KB", "per_second_per_accelerator": opens / 32}},
                "hot_tier": "lustre",
            }
        )
    )
    assert made.lustre is not None
    assert made.lustre.storage_capacity_gib == capacity


@pytest.mark.parametrize(
    ("rate", "capacity", "tier"),
    [
        # 72,000 GiB at 500 and 40,800 GiB at 1000 MB/s per TiB both cost 24,480 USD: the smaller wins.
        ("39.05 GB/s", 40_800, 1000),
        # One step beside it, no tie.
        ("34.6 GB/s", 36_000, 1000),
    ],
)
def test_a_tie_takes_the_smaller_capacity(rate: str, capacity: int, tier: int) -> None:
    made = plan(
        make(
            {
                "compute.instance_type": "p4d.24xlarge",
                "compute.instance_count": 20,
                "dataset.size": "20 TB",
                "dataset.read_rate": {
                    "samples": {"size": rate.removesuffix("/s"), "per_second_per_accelerator": 1 / 160}
                },
                "hot_tier": "lustre",
                "lustre": {"efa": False},
            }
        )
    )
    assert made.lustre is not None
    assert (made.lustre.storage_capacity_gib, made.lustre.per_unit_storage_throughput) == (capacity, tier)
