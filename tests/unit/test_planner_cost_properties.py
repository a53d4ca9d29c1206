"""The bill over random workloads: its sums, and that more demand is never cheaper within one way of storing.

More demand is a higher read rate, more data, larger or more checkpoints, or less time to save or to restore. The fleet
and the size of one file stay. Where the hot tier or EFA changes, or what nodes cache, requests end or another grid of
capacities begins, and the bill may fall; the last tests pin one case of each.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.strategies import workload_dicts
from tests.unit._planner import planned, warning_ids
from training_storage.errors import PlanError, WorkloadError
from training_storage.planner import Plan, plan
from training_storage.units import Duration, Size
from training_storage.workload.model import Workload

Data = dict[str, Any]
_SETTINGS = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much], derandomize=True
)
RUN = Duration(10 * 86_400)
OWN_VPC = {"vpc_id": "vpc-0123456789abcdef0", "subnet_id": "subnet-0123456789abcdef0"}


def made(data: Data) -> Plan | None:
    try:
        return plan(Workload.model_validate(data), run_length=RUN)
    except (PlanError, WorkloadError):
        return None


# -- the sums


def check_sums(bill: Any) -> None:
    """Each total against the lines, added here one by one and not as the planner adds them."""
    for period in ("hourly", "run", "monthly"):
        for total, group in ((period, None), (f"storage_{period}", "storage"), (f"compute_{period}", "compute")):
            known = [
                value
                for line in bill.lines
                if group is None or line.group == group
                for value in [getattr(line, period)]
                if value is not None
            ]
            printed = getattr(bill, total)
            assert (printed is None) is (not known), total
            if known:
                assert printed == pytest.approx(sum(known), rel=1e-12), total
    assert {line.group for line in bill.lines} <= {"storage", "compute"}
    assert list(bill.unpriced) == list(dict.fromkeys(each.item for each in bill.lines if each.unit_price is None))


def check_lines(bill: Any) -> None:
    for line in bill.lines:
        assert line.quantity >= 0
        assert math.isfinite(line.quantity)
        if line.unit_price is None:
            assert (line.hourly, line.run, line.monthly) == (None, None, None)
            continue
        assert line.source, line.item
        assert line.monthly == pytest.approx(line.quantity * line.unit_price)
        if line.once:
            assert line.hourly == 0
            assert line.run is None or line.run == pytest.approx(line.monthly)
        else:
            assert line.hourly == pytest.approx(line.monthly / 730)
            assert line.run is None or line.run == pytest.approx(line.hourly * bill.run_h)
        assert (line.run is None) is (bill.run_h is None)
    groups = [line.group for line in bill.lines]
    assert groups == sorted(groups, reverse=True)  # storage before compute


def check_bill(data: Data, run_length: Duration | None) -> None:
    try:
        done = plan(Workload.model_validate(data), run_length=run_length)
    except (PlanError, WorkloadError):
        return
    check_sums(done.cost)
    check_lines(done.cost)
    # The fleet is on the bill once, and is what idle accelerators are priced by.
    (fleet,) = [line for line in done.cost.lines if line.group == "compute"]
    assert fleet.quantity == 730 * done.compute.instance_count
    idle, waits = done.prediction.idle_gpu_usd_per_hour, done.prediction.gpu_wait_fraction
    if fleet.hourly is not None and waits is not None:
        assert idle == pytest.approx(waits * fleet.hourly)
    else:
        assert idle is None
    # What stands on the bill of the hot tier is what the plan has.
    hot = {line.item.split(".")[0] for line in done.cost.lines if line.hot}
    assert ("lustre" in hot) is (done.lustre is not None and done.workload.lustre.file_system_id is None)


RUNS = st.sampled_from([None, Duration(3600), RUN])


@settings(_SETTINGS, max_examples=150)
@given(workload_dicts(), RUNS)
def test_bill_is_the_sum_of_its_lines(data: Data, run_length: Duration | None) -> None:
    check_bill(data, run_length)


@pytest.mark.slow
@settings(_SETTINGS, max_examples=300)
@given(workload_dicts(), RUNS)
def test_hundreds_of_bills_are_the_sums_of_their_lines(data: Data, run_length: Duration | None) -> None:
    check_bill(data, run_length)


# -- more demand is never cheaper


def amount(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: float(f"{10**exponent:.6g}"))


@st.composite
def fleets(draw: st.DrawFn) -> Data:
    types = ["p5.48xlarge", "p5en.48xlarge", "p4d.24xlarge", "g6e.48xlarge", "g5.xlarge", "trn1.32xlarge"]
    out: Data = {
        "instance_type": draw(st.sampled_from(types)),
        "instance_count": draw(st.sampled_from([1, 2, 4, 8, 16, 17, 40, 128, 300])),
    }
    return out | draw(st.sampled_from([{}, {}, {"efa": False}]))


@st.composite
def overrides(draw: st.DrawFn) -> Data:
    kind = draw(st.sampled_from(["", "", "efa", "tcp", "capacity", "tier", "scratch", "metadata", "bought", "backups"]))
    gib = draw(st.sampled_from([38_400, 76_800, 153_600]))
    kinds: dict[str, Data] = {
        "": {},
        "efa": {"efa": True},
        "tcp": {"efa": False},
        "capacity": {"storage_capacity": f"{gib} GiB", "efa": draw(st.booleans())},
        "tier": {"per_unit_storage_throughput": draw(st.sampled_from([125, 250, 500, 1000])), "efa": False},
        "scratch": {"deployment_type": "SCRATCH_2"},
        "metadata": {"metadata_iops": draw(st.sampled_from([12_000, 48_000, 192_000])), "efa": False},
        "bought": {"storage_type": "INTELLIGENT_TIERING", "links": [], "read_cache": "none"},
        "backups": {"links": [], "backup_retention_days": 7, "efa": False},
    }
    return kinds[kind]


@st.composite
def demands(draw: st.DrawFn) -> Data:
    """Workloads whose demand can be raised without touching fleet or file size."""
    data: Data = {
        "name": "demand",
        "region": "us-east-1",
        "availability_zone_id": "use1-az6",
        "network": draw(st.sampled_from([{}, {"internet": "none"}, OWN_VPC])),
        "compute": draw(fleets()),
        "dataset": {
            "size": f"{draw(amount(1, 3e5))!r} GB",
            "interface": draw(st.sampled_from(["posix", "posix", "object"])),
            "access": draw(st.sampled_from(["read-mostly", "read-mostly", "read-write"])),
            "hot_fraction": draw(st.sampled_from([1.0, 0.5])),
        },
        "hot_tier": draw(st.sampled_from(["auto", "auto", "auto", "lustre", "none", "express"])),
        "lustre": draw(overrides()),
        "scratch_size": draw(st.sampled_from(["0 B", "100 GB"])),
        "mountpoint": draw(st.sampled_from([{}, {}, {"cache": "none"}, {"cache": "nvme"}, {"cache": "express"}])),
    }
    dataset = data["dataset"]
    rate = draw(st.sampled_from(["none", "rate", "rate", "samples", "tokens"]))
    if rate == "samples":
        each = {"size": f"{draw(amount(1e3, 1e8))!r} B", "per_second_per_accelerator": draw(amount(0.1, 3000))}
        dataset["read_rate"] = {"samples": each}
    elif rate == "tokens":
        dataset["read_rate"] = {"tokens": {"per_second_per_accelerator": draw(amount(10, 1e6))}}
    elif rate == "rate":
        dataset["read_rate"] = {"per_accelerator": f"{draw(amount(0.1, 3000))!r} MB/s"}
    if rate != "samples" and draw(st.booleans()):
        dataset["average_file_size"] = f"{draw(amount(1e3, 1e10))!r} B"
    if draw(st.booleans()):
        data["checkpoints"] = {
            "size": f"{draw(amount(1, 2e4))!r} GB",
            "interval": draw(st.sampled_from(["auto", "30m", "4h", "1d"])),
            "max_write_time": f"{draw(st.sampled_from([10, 60, 600]))}s",
            "max_stall": draw(st.sampled_from([0.01, 0.05, 0.3])),
            "max_restore_time": draw(st.sampled_from(["1m", "5m", "1h"])),
            "restore_readers": draw(st.sampled_from([1, 4])),
            "asynchronous": draw(st.booleans()),
        }
    return data


def _scaled(text: str, factor: float) -> str:
    number, unit = text.split()
    return f"{float(number) * factor!r} {unit}"


def parts_of(data: Data) -> list[str]:
    """What can be raised; what decides most often, more often."""
    saves = ["checkpoint", "write time", "write time", "write time", "restore time", "readers", "kept"]
    reads = ["reads", "reads", "reads"] if "read_rate" in data["dataset"] else []
    return ["data", "data", "scratch", *reads, *(saves if "checkpoints" in data else [])]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Data, str, Data]:
    """A workload, and the same with one part of its demand raised."""
    data = draw(demands())
    what = draw(st.sampled_from(parts_of(data)))
    factor = draw(st.one_of(st.sampled_from([1.0, 1.001, 1.1, 2.0]), amount(1, 1000)))
    return data, what, raised(data, what, factor)


def raised(data: Data, what: str, factor: float) -> Data:
    """The same workload with one part of its demand made larger."""
    more = copy.deepcopy(data)
    dataset, saves = more["dataset"], more.get("checkpoints", {})
    if what == "reads":
        rate = dataset["read_rate"]
        if "per_accelerator" in rate:
            rate["per_accelerator"] = _scaled(rate["per_accelerator"], factor)
        else:
            (each,) = rate.values()
            each["per_second_per_accelerator"] *= factor
    elif what == "data":
        dataset["size"] = _scaled(dataset["size"], factor)
    elif what == "scratch":
        more["scratch_size"] = f"{Size.parse(more['scratch_size']).bytes * factor + 1e9!r} B"
    elif what == "checkpoint":
        saves["size"] = _scaled(saves["size"], factor)
    elif what == "write time":
        saves["max_write_time"] = f"{Duration.parse(saves['max_write_time']).seconds / factor!r} s"
    elif what == "restore time":
        saves["max_restore_time"] = f"{Duration.parse(saves['max_restore_time']).seconds / factor!r} s"
    elif what == "readers":
        saves["restore_readers"] += max(1, int(factor))
    else:
        saves["keep_hot"] = 3 + max(1, int(min(factor, 100)))
    return more


def way(done: Plan) -> tuple[object, ...]:
    """How the data is stored and read; while it is the same, no more demand may be cheaper."""
    return (
        done.tiers,
        None if done.lustre is None else (done.lustre.efa, done.lustre.deployment_type),
        tuple((mount.kind, mount.options.get("cache")) for mount in done.mounts),
        # A cache on the nodes that all data fits into is filled once a run; beyond, every read is one of S3.
        done.tiers.hot == "none" and any(line.once and line.item == "s3.get_requests" for line in done.cost.lines),
    )


def totals(done: Plan) -> Iterator[tuple[str, float | None]]:
    for name in ("storage_hourly", "storage_run", "storage_monthly", "hourly", "run", "monthly"):
        yield name, getattr(done.cost, name)


def check_never_cheaper(data: Data, more: Data) -> None:
    before, after = made(data), made(more)
    assume(before is not None and after is not None)
    assert before is not None
    assert after is not None
    # More demand never takes a hot tier away, and never makes a file system that ranks cheaper where EFA stays.
    assert (before.tiers.hot, after.tiers.hot) != ("lustre", "none")
    if before.lustre is not None and after.lustre is not None and before.lustre.efa == after.lustre.efa:
        ranks = before.lustre.ranking_usd_per_month, after.lustre.ranking_usd_per_month
        if ranks[0] is not None and ranks[1] is not None:
            assert ranks[1] >= ranks[0] * (1 - 1e-9)
    if way(before) != way(after):
        return
    assert before.cost.unpriced == after.cost.unpriced or set(before.cost.unpriced) < set(after.cost.unpriced)
    for (name, was), (_, is_now) in zip(totals(before), totals(after), strict=True):
        assert (was is None) is (is_now is None), name
        if was is not None and is_now is not None and before.cost.unpriced == after.cost.unpriced:
            assert is_now >= was * (1 - 1e-9), name
    assert after.cost.compute_monthly == before.cost.compute_monthly


@settings(_SETTINGS, max_examples=200)
@given(pairs())
def test_more_demand_is_never_cheaper_while_it_is_stored_the_same_way(pair: tuple[Data, str, Data]) -> None:
    data, _, more = pair
    check_never_cheaper(data, more)


@pytest.mark.slow
@settings(_SETTINGS, max_examples=500)
@given(pairs())
def test_more_demand_is_never_cheaper_over_hundreds(pair: tuple[Data, str, Data]) -> None:
    data, _, more = pair
    check_never_cheaper(data, more)


# -- where more demand is cheaper, and why


def test_a_hot_tier_ends_the_requests_of_reading_from_s3() -> None:
    """5,400 requests a second cost 5,676 USD a month; the file system that serves 5,600 costs 2,448."""

    def done(requests: int) -> Plan:
        rate = {"samples": {"size": "1 MB", "per_second_per_accelerator": requests / 2 / 128}}
        return planned(
            {
                "compute.instance_count": 16,
                "dataset": {"size": "2 TB", "interface": "object", "read_rate": rate},
            }
        )

    on_s3, on_lustre = done(5400), done(5600)
    assert (on_s3.tiers.hot, on_lustre.tiers.hot) == ("none", "lustre")
    # 5,400 x 3600 x 730 requests at 0.0004 USD a thousand.
    (asked,) = [line for line in on_s3.cost.lines if line.item == "s3.get_requests"]
    assert asked.monthly == pytest.approx(5400 * 3600 * 730 / 1000 * 0.0004)
    assert on_lustre.cost.storage_monthly is not None
    assert on_s3.cost.storage_monthly is not None
    assert on_lustre.cost.storage_monthly < on_s3.cost.storage_monthly - 3000


def test_data_that_leaves_the_cache_of_the_nodes_ends_its_filling() -> None:
    """Each node fills its cache once a run; where the data does not fit, what is read slowly asks for less."""

    def done(terabytes: int) -> Plan:
        return planned(
            {
                "compute.instance_count": 16,
                "dataset": {
                    "size": f"{terabytes} TB",
                    "average_file_size": "1 GB",
                    "read_rate": {"per_accelerator": "10 KB/s"},
                },
            }
        )

    fits, does_not = done(20), done(40)
    assert [plan_.mounts[0].options["cache"] for plan_ in (fits, does_not)] == ["nvme", "none"]

    def asked(done_: Plan) -> float:
        return sum(line.monthly or 0 for line in done_.cost.lines if line.item == "s3.get_requests")

    assert asked(fits) == pytest.approx(16 * 20_000 * 120 / 1000 * 0.0004, rel=0.01)
    assert asked(does_not) < 1 < 10 < asked(fits)


def test_efa_begins_another_grid_of_capacities() -> None:
    """One instance needs 16 servers over TCP for its 9,999 MB/s; from 10,000 on it comes over EFA and needs three."""

    def done(mb_per_s: int, **lustre: Any) -> Plan:
        return planned(
            {
                "compute.instance_count": 1,
                "dataset.read_rate": {"per_accelerator": f"{mb_per_s / 8!r} MB/s"},
                "hot_tier": "lustre",
                "lustre": lustre,
            }
        )

    over_tcp, over_efa = done(9999), done(10_000)
    assert over_tcp.lustre is not None
    assert over_efa.lustre is not None
    assert (over_tcp.lustre.efa, over_efa.lustre.efa) == (False, True)
    # 43,200 GiB at 250 against 14,400 GiB at 1000.
    assert over_tcp.lustre.ranking_usd_per_month == pytest.approx(43_200 * 0.21)
    assert over_efa.lustre.ranking_usd_per_month == pytest.approx(14_400 * 0.60)
    # Where EFA is given, it is not so.
    for efa in (True, False):
        less, more = done(9999, efa=efa).lustre, done(10_000, efa=efa).lustre
        assert less is not None
        assert more is not None
        assert (less.ranking_usd_per_month or 0) <= (more.ranking_usd_per_month or 0)
    assert not warning_ids(over_tcp) & {"client-limit", "lustre-too-small"}
