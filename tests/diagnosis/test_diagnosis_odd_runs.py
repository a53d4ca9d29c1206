"""Runs that are not one steady run over the whole time: stopped, two in a row, of many ranks, seen by the hour."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tests.diagnosis.world import PERIOD_S, START, World
from training_storage.operations.diagnosis.diagnose import NOT_STORAGE, UNKNOWN, diagnose
from training_storage.operations.diagnosis.folding import Sample, end_of_period, fold
from training_storage.operations.diagnosis.observation import Observation
from training_storage.operations.diagnosis.outliers import whole_wait


def seen(samples: Iterable[Sample], of: World, periods: int, period_s: float = PERIOD_S) -> Observation:
    whole = of.observation()
    return replace(
        whole, until=START + periods * PERIOD_S, period_s=period_s, series=fold(samples, end_of_period(period_s))
    )


def later(of: World, periods: int, run: str = "r1") -> list[Sample]:
    """Return the samples of a world so many periods later, as another run."""
    return [
        replace(
            each,
            moment=each.moment + periods * PERIOD_S,
            dimensions={**each.dimensions, **({"Run": run} if "Run" in each.dimensions else {})},
        )
        for each in of.samples()
    ]


def idle(of: World, periods: int) -> list[Sample]:
    """Return what nodes and services tell when nobody trains."""
    return later(replace(of, no_training=True, demand=0.001, save_every=99), periods)


def with_values(of: World, metric: str, value: float, ranks: Iterable[int]) -> list[Sample]:
    """Return samples with another value of single ranks."""
    chosen = {str(each) for each in ranks}
    return [
        replace(each, values=(value,)) if each.metric == metric and each.dimensions.get("Rank") in chosen else each
        for each in of.samples()
    ]


LIMITED: dict[str, Any] = {"server_limit": 3000 * 0.6 / 8}
BUSY: dict[str, Any] = {"cpu_limit": 500 * 0.6}


@pytest.mark.parametrize(("cause", "changes"), [("storage-throughput", LIMITED), ("preprocessing", BUSY)])
@pytest.mark.parametrize("idle_periods", [6, 48])
def test_a_run_that_stopped_within_the_time_is_judged_by_its_own(
    cause: str, changes: dict[str, Any], idle_periods: int
) -> None:
    of = World(nodes=3, **changes, demand=500.0) if cause == "storage-throughput" else World(nodes=3, **changes)
    after = idle(replace(of, periods=idle_periods), of.periods)
    alone, both = (
        diagnose(seen(each, of, of.periods + idle_periods)) for each in (of.samples(), [*of.samples(), *after])
    )
    assert alone.verdict == both.verdict == cause
    assert alone.primary is not None
    assert both.primary is not None
    assert both.primary.next_step == alone.primary.next_step


def test_of_two_runs_in_a_row_the_newer_is_judged() -> None:
    fine, slow = World(nodes=3), World(nodes=3, **BUSY)
    assert diagnose(seen([*fine.samples(), *later(slow, 12, "r2")], slow, 24)).verdict == "preprocessing"
    mended = diagnose(seen([*slow.samples(), *later(fine, 12, "r2")], slow, 24))
    assert mended.verdict == NOT_STORAGE


def test_a_run_in_its_first_epoch_is_not_judged_by_the_one_before() -> None:
    before = World(nodes=3, epoch_periods=1)
    now = World(nodes=3, epoch_periods=12, **BUSY)
    verdict = diagnose(seen([*before.samples(), *later(now, 12, "r2")], now, 24))
    assert verdict.verdict != NOT_STORAGE
    assert verdict.primary is not None
    assert (verdict.primary.gain_share or 0) > 0.3


def test_an_evaluation_beside_the_run_does_not_hide_it() -> None:
    run = World(nodes=3, **BUSY)
    beside = [
        replace(each, moment=each.moment + PERIOD_S, dimensions={**each.dimensions, "Run": "eval"},
                values=(0.1,) if each.metric == "DataWaitTime" else each.values)
        for each in run.samples()
        if each.dimensions.get("Rank") == "0" and each.moment > START + 10 * PERIOD_S
    ]  # fmt: skip
    assert diagnose(seen([*run.samples(), *beside], run, 13)).verdict == "preprocessing"


def test_ranks_that_end_early_and_gaps_change_nothing() -> None:
    of = World(nodes=4, **BUSY)
    some = [
        each
        for each in of.samples()
        if not (each.dimensions.get("Rank") in ("0", "5") and each.moment > START + 300)
        and not START + 200 < each.moment < START + 330
    ]
    assert diagnose(seen(some, of, 12)).verdict == "preprocessing"


# -- many wait, not the median one


def test_where_a_third_of_the_ranks_wait_the_job_waits() -> None:
    """In step with each other the others look busy, and the whole fleet loses what these lose."""
    of = World(nodes=9, save_every=99)
    samples = [
        replace(each, values=(35.0,)) if each.metric == "LoaderQueueEmptyShare" else each
        for each in with_values(of, "DataWaitTime", 30.0, range(6))
    ]
    verdict = diagnose(seen(samples, of, 12))
    assert verdict.verdict != NOT_STORAGE
    assert verdict.primary is not None
    assert verdict.primary.gain_share == pytest.approx(0.5)


def test_whole_wait() -> None:
    def shares(*values: float) -> dict[tuple[str, str], float]:
        return {(f"i-{rank // 2}", str(rank)): value for rank, value in enumerate(values)}

    assert whole_wait(shares(0.4)) == 0.4
    assert whole_wait(shares(0.4, 0.2)) == pytest.approx(0.3)
    assert whole_wait(shares(0.01, 0.01, 0.01, 0.01, 0.01, 0.5)) == 0.01  # one is a slow rank
    assert whole_wait(shares(*[0.01] * 6, *[0.5] * 4)) == 0.5
    assert whole_wait(shares(*[0.5] * 10)) == 0.5


def test_two_slow_nodes_of_many_are_nodes_and_no_single_ranks() -> None:
    of = World(nodes=16, ranks=4, periods=3, save_every=99, servers=32)
    verdict = diagnose(seen(with_values(of, "DataWaitTime", 30.0, [*range(8, 12), *range(20, 24)]), of, 3))
    assert verdict.verdict == "slow-node"
    assert verdict.primary is not None
    assert "2 nodes are slow" in verdict.primary.title
    assert "i-00000000000000002" in verdict.primary.title
    assert "i-00000000000000005" in verdict.primary.title
    assert "slow-rank" not in [each.id for each in verdict.also]


def test_a_node_that_was_replaced_lacks_no_mount() -> None:
    of = World(nodes=3, periods=24, missing_mounts=1)
    gone = [
        each
        for each in of.samples()
        if not (each.dimensions.get("InstanceId") == f"i-{0:017x}" and each.moment > START + 300)
    ]
    assert diagnose(seen(gone, of, 24)).verdict == NOT_STORAGE
    assert diagnose(seen(of.samples(), of, 24)).verdict == "mounts-missing"


# -- what the queue of the loader says


def stalls(ready: float) -> Observation:
    """The loader of ``few workers``, but so many percent of its batches are asked for while none is ready."""
    whole = World(nodes=3, loader_limit=250 * 0.8).observation()
    return replace(
        whole,
        series=tuple(
            replace(each, points=tuple((moment, ready) for moment, _ in each.points))
            if each.metric == "LoaderQueueEmptyShare"
            else each
            for each in whole.series
        ),
    )


def test_a_few_long_stalls_are_waiting_for_the_loader() -> None:
    assert diagnose(stalls(12.0)).verdict == "preprocessing"
    # Waiting of 20 % with 9 % of batches late: each of them would be two steps late, which is possible.
    assert diagnose(stalls(9.9)).verdict == UNKNOWN
    assert diagnose(stalls(3.0)).verdict == NOT_STORAGE


def test_data_in_the_page_cache_and_too_few_workers_is_the_loader() -> None:
    whole = World(nodes=3, loader_limit=250 * 0.5, application_factor=400.0).observation()
    # Nothing is asked of storage, so that no request waits.
    seen_ = replace(whole, series=tuple(each for each in whole.series if each.metric != "StorageRpcWaitTime"))
    verdict = diagnose(seen_)
    assert verdict.verdict == "preprocessing"
    assert "page-cache-only" in [each.id for each in verdict.also]


# -- longer periods


@pytest.mark.parametrize("period_s", [300.0, 3600.0])
@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        ("storage-throughput", {"server_limit": 750 * 0.6 / 8}),
        ("preprocessing", {"cpu_limit": 250 * 0.6}),
        ("file-system-full", {"free": 0.005, "fullest": 0.004}),
        ("storage-target-full", {"fullest": 0.002}),
        ("checkpoint-write-path", {"save_rate": 1200.0}),
        (NOT_STORAGE, {}),
    ],
)
def test_longer_periods_give_the_same_verdict(period_s: float, cause: str, changes: dict[str, Any]) -> None:
    of = World(nodes=3, ranks=1, periods=122, **changes)
    begin = START // 3600 * 3600 - START
    samples = [replace(each, moment=each.moment + begin) for each in of.samples()]
    minute, longer = (diagnose(seen(samples, of, 122, each)) for each in (PERIOD_S, period_s))
    assert minute.verdict == longer.verdict == cause
    if longer.primary is not None and minute.primary is not None:
        assert longer.primary.evidence[0].observed == pytest.approx(minute.primary.evidence[0].observed, rel=0.1)


def test_bursts_are_no_hot_target_where_a_period_has_many_minutes() -> None:
    """The highest sample of an hour is that of a busy minute, of all targets."""
    of = World(nodes=3, ranks=1, periods=60, **BUSY)
    samples = [
        replace(each, values=tuple(value * (5 if minute == 0 else 0.8) for value in each.values))
        if each.metric == "AWS/FSx DataReadBytes" and (minute := int((each.moment - START) // 60) % 10) is not None
        else each
        for each in of.samples()
        if "Utilization" not in each.metric
    ]
    verdict = diagnose(seen(samples, of, 60, 600.0))
    assert "hot-storage-target" not in [verdict.verdict, *(each.id for each in verdict.also)]


def test_writes_of_several_saves_in_one_period_are_no_full_write_path() -> None:
    of = World(nodes=3, ranks=1, periods=60, save_rate=1200.0)
    verdict = diagnose(seen(of.samples(), of, 60, 3600.0))
    assert verdict.verdict == "checkpoint-write-path"
    assert verdict.primary is not None
    assert "takes no more" not in verdict.primary.next_step


# -- gains


def test_no_gain_is_negative_or_more_than_the_fleet() -> None:
    expected = World().expected()
    of = replace(
        World(nodes=3, restore_s=50.0).observation(), expected=replace(expected, restore_s=100.0, max_restore_s=40.0)
    )
    verdict = diagnose(of)
    assert verdict.verdict == "restore-slow"
    assert verdict.primary is not None
    assert 0 < (verdict.primary.gain_share or 0) <= 1
    over = World(nodes=3, **BUSY)
    wrong = diagnose(seen(with_values(over, "DataWaitTime", 600.0, range(6)), over, 12))
    assert wrong.primary is not None
    assert wrong.primary.gain_share == 1.0
    assert wrong.primary.gain_usd_per_hour == pytest.approx(expected.gpu_usd_per_hour or 0, rel=0.6)


@pytest.mark.parametrize("ranks", [1, 4])
def test_of_two_nodes_one_can_be_slow(ranks: int) -> None:
    """Neither is the median one: where every rank of one waits and none of the other, it is the node."""
    verdict = diagnose(World(nodes=2, ranks=ranks, slow_node=1, slow_factor=0.5).observation())
    assert verdict.verdict == "slow-node"
    assert verdict.primary is not None
    assert verdict.primary.title.startswith("one node is slow, and all wait for it: i-00000000000000001")
    assert diagnose(World(nodes=2, ranks=ranks, cpu_limit=ranks * 125.0).observation()).verdict == "preprocessing"


@pytest.mark.parametrize(("latency_ms", "verdict"), [(4.0, "preprocessing"), (60.0, "read-latency")])
def test_what_is_quick_for_s3_is_slow_for_s3_express(latency_ms: float, verdict: str) -> None:
    express: dict[str, Any] = {"hot": "express", "file_access": "none", "efa_planned": False, "request_mb": 0.5}
    of = World(nodes=3, latency_ms=latency_ms, requests=300 * latency_ms / 1000, **express)
    assert diagnose(of.observation()).verdict == verdict


@pytest.mark.parametrize(
    ("verdict", "changes"),
    [("storage-throughput", {"server_limit": 1500 * 0.5 / 8}), ("preprocessing", {"cpu_limit": 500 * 0.5})],
)
def test_long_saves_do_not_hide_what_is_at_its_limit_between_them(verdict: str, changes: dict[str, Any]) -> None:
    """A third of the time goes into saves, in which nothing is read: means stay far from any limit."""
    of = World(nodes=3, checkpoint_gb=90, save_rate=1100.0, periods=16, **changes)
    found = diagnose(of.observation())
    assert found.verdict == verdict
    assert found.primary is not None
    assert "more workers" not in found.primary.next_step.partition(";")[0]
    assert "checkpoint-write-path" in [each.id for each in found.also]
