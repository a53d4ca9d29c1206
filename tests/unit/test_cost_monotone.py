"""At a fixed tier, fleet, EFA choice and file size no line falls when more is asked for.

Lines are compared by item and by whether they are paid once, hot or not: a bill has several lines of one item.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.strategies import workload_dicts
from tests.unit._cost import CATALOG, bill, book, priced
from training_storage.errors import PlanError
from training_storage.planner import Cost, Plan, plan
from training_storage.units import Duration
from training_storage.workload.model import Workload

Data = dict[str, Any]
_SETTINGS = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    derandomize=True,
    database=None,
)
TIERS: dict[str, Data] = {
    "none": {"hot_tier": "none", "mountpoint": {"cache": "none"}},
    "s3-files": {"hot_tier": "none", "file_access": "s3-files"},
    "shared cache": {"hot_tier": "none", "mountpoint": {"cache": "express"}},
    "object": {"hot_tier": "none"},
    "express": {"hot_tier": "express"},
    **{
        f"lustre {tier}": {"hot_tier": "lustre", "lustre": {"per_unit_storage_throughput": tier, "efa": False}}
        for tier in (125, 250, 500, 1000)
    },
    "scratch": {"hot_tier": "lustre", "lustre": {"deployment_type": "SCRATCH_2"}},
    "tiering": {
        "hot_tier": "lustre",
        "lustre": {"storage_type": "INTELLIGENT_TIERING", "links": [], "backup_retention_days": 3, "efa": False},
    },
}


def scale(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Data, Data]:
    """A workload and one that asks for more of one thing."""
    tier = draw(st.sampled_from(sorted(TIERS)))
    size, file = draw(scale(1e9, 1e15)), draw(scale(1e3, 1e10))
    rate, checkpoint, write_s = draw(scale(1e4, 3e9)), draw(scale(1e8, 2e13)), draw(scale(5, 3600))
    base: Data = {
        "name": "example",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "compute": {
            "instance_type": draw(st.sampled_from(["p5.48xlarge", "g6e.48xlarge"])),
            "instance_count": draw(st.integers(1, 64)),
        },
        "dataset": {
            "size": f"{size!r} B",
            "average_file_size": f"{file!r} B",
            "interface": "object" if tier == "object" else "posix",
            "hot_fraction": draw(st.sampled_from([0.1, 1.0])),
            "read_rate": {"per_accelerator": f"{rate!r} B/s"},
        },
        "checkpoints": {
            "size": f"{checkpoint!r} B",
            "interval": draw(st.sampled_from(["10m", "3h"])),
            "asynchronous": draw(st.booleans()),
            "max_write_time": f"{write_s!r} s",
            "restore_readers": 1,
            "keep_hot": 2,
        },
        **copy.deepcopy(TIERS[tier]),
    }
    more, factor = copy.deepcopy(base), draw(st.one_of(st.just(1.0), scale(1, 50)))
    asked = draw(st.sampled_from(["reads", "data", "checkpoint", "write time", "readers", "kept"]))
    if asked == "reads":
        more["dataset"]["read_rate"]["per_accelerator"] = f"{rate * factor!r} B/s"
    elif asked == "data":
        more["dataset"]["size"] = f"{size * factor!r} B"
    elif asked == "checkpoint":
        more["checkpoints"]["size"] = f"{checkpoint * factor!r} B"
    elif asked == "write time":
        more["checkpoints"]["max_write_time"] = f"{write_s / factor!r} s"
    elif asked == "readers":
        more["checkpoints"]["restore_readers"] = math.ceil(factor)
    else:
        more["checkpoints"]["keep_hot"] = 2 + math.ceil(factor)
    return base, more


def planned(data: Data) -> Plan | None:
    try:
        return plan(Workload.model_validate(data), catalog=CATALOG, run_length=Duration(86_400))
    except PlanError:
        return None


def amounts(cost: Cost) -> dict[tuple[str, bool, bool], float]:
    found: dict[tuple[str, bool, bool], float] = defaultdict(float)
    for line in cost.lines:
        # Capacity above the least brings metadata IOPS with it: the two are one choice, and compared by their sum.
        item = "lustre" if line.item.startswith("lustre.") and line.kind in ("storage", "metadata") else line.item
        assert line.monthly is not None
        found[item, line.once, line.hot] += line.monthly
    return found


@settings(_SETTINGS, max_examples=400)
@given(pairs())
def test_no_line_falls_when_more_is_asked_for(pair: tuple[Data, Data]) -> None:
    less, more = (planned(data) for data in pair)
    assume(less is not None and more is not None)
    assert less is not None
    assert more is not None
    before, after = amounts(less.cost), amounts(more.cost)
    assert before.keys() <= after.keys()
    for line, usd in before.items():
        assert after[line] >= usd * (1 - 1e-9), line
    for total in ("storage_hourly", "storage_run", "storage_monthly", "hourly", "run", "monthly"):
        assert getattr(more.cost, total) >= getattr(less.cost, total) * (1 - 1e-9), total


@settings(_SETTINGS, max_examples=60)
@given(workload_dicts(), st.sets(st.sampled_from(sorted(item for _, item in CATALOG.prices.rows)), max_size=12))
def test_totals_are_those_of_the_lines_and_what_has_no_price_is_named(data: Data, without: set[str]) -> None:
    catalog = priced(book("us-east-1", "us-west-2", without=without))
    try:
        cost = plan(Workload.model_validate(data), catalog=catalog).cost
    except PlanError:
        return
    for period in ("hourly", "run", "monthly"):
        for prefix, groups in (("storage_", {"storage"}), ("compute_", {"compute"}), ("", {"storage", "compute"})):
            parts = [getattr(line, period) for line in cost.lines if line.group in groups]
            known = [part for part in parts if part is not None]
            assert getattr(cost, f"{prefix}{period}") == (math.fsum(known) if known else None)
    assert all(line.quantity >= 0 and (line.monthly is None or line.monthly >= 0) for line in cost.lines)
    missing = [line.item for line in cost.lines if catalog.prices.price(line.item, cost.region) is None]
    assert cost.unpriced == tuple(dict.fromkeys(missing))


@pytest.mark.parametrize("tier", sorted(TIERS))
def test_every_tier_of_this_test_is_planned(tier: str) -> None:
    changes = TIERS[tier] | ({"dataset.interface": "object"} if tier == "object" else {})
    assert bill(copy.deepcopy(changes)).unpriced == ()
