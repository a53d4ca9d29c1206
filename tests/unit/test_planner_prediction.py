"""What a plan predicts: every limit by name, saves and failures, and what is not known."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.strategies import workload_dicts
from tests.unit._planner import SAVES, planned, warning, warning_ids
from training_storage.errors import PlanError
from training_storage.planner import Plan, plan
from training_storage.planner.supply import Limits, Term, data_wait, tightest
from training_storage.workload.model import Workload

ON_LUSTRE: dict[str, Any] = {
    "hot_tier": "lustre",
    "lustre": {"storage_capacity": "9600 GiB", "per_unit_storage_throughput": 250, "efa": False},
}
"""2,343.75 MB/s of disks, 6,000 metadata IOPS, 4 file servers of 2,400 GiB; 4 p5.48xlarge of 3,200 Gbit/s."""


def limits(made: Plan) -> dict[str, float]:
    return {str(each.name): each.mb_per_s for each in made.prediction.limits}


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        # Lustre over TCP: 625 MB/s a file server; 32 x 10 MB/s in files of 1 GB are 0.32 opens of 12,000 a second.
        (
            ON_LUSTRE,
            {
                "disk": 9600 / 1024 * 250,
                "network": 4 * 400_000,
                "client": 4 * 4 * 625,
                "opens": 320 * 12_000 / 0.32,
            },
        ),
        # Opens are not known: no term.
        (
            {**ON_LUSTRE, "dataset.file_count": None},
            {"disk": 2343.75, "network": 1_600_000, "client": 10_000},
        ),
        # Over EFA: 8 of 32 cards of 3,200 Gbit/s are 100,000, and a client moves 87,500 at most.
        (
            {
                "hot_tier": "lustre",
                "dataset.file_count": None,
                "lustre": {"storage_capacity": "38400 GiB", "per_unit_storage_throughput": 125, "efa": True},
            },
            {"disk": 4687.5, "network": 1_600_000, "client": 4 * 87_500},
        ),
        # INTELLIGENT_TIERING: throughput is bought, 4,000 MB/s a file server.
        (
            {
                "hot_tier": "lustre",
                "dataset.file_count": None,
                "lustre": {
                    "storage_type": "INTELLIGENT_TIERING",
                    "throughput_capacity": 8000,
                    "links": [],
                    "efa": False,
                },
            },
            {"disk": 8000, "network": 1_600_000, "client": 4 * 2 * 625},
        ),
        # S3: 100 Gbit/s of IP each; files of 1 GB are 120 requests of 8.264 MB with the one that finds the file.
        (
            {"hot_tier": "none"},
            {"network": 4 * 12_500, "requests": 5500 * 1000 / (1 + 120)},
        ),
        # Unknown files: parts of 8 MiB.
        ({"hot_tier": "none", "dataset.file_count": None}, {"network": 50_000, "requests": 5500 * 8.388608}),
        # Small files: one request to find, one to read.
        (
            {"hot_tier": "none", "dataset.file_count": None, "dataset.average_file_size": "100 KB"},
            {"network": 50_000, "requests": 5500 * 0.1 / 2},
        ),
        # S3 Files: a client reads 3 GiB/s, and the network is that of the interfaces.
        (
            {"hot_tier": "none", "file_access": "s3-files", "dataset.file_count": None},
            {"network": 50_000, "client": 4 * 3 * 1073.741824, "requests": 5500 * 8.388608},
        ),
        ({"hot_tier": "express", "dataset.interface": "object"}, {"network": 50_000}),
    ],
)
def test_limits_by_name(changes: dict[str, Any], wanted: dict[str, float]) -> None:
    made = planned(changes)
    assert limits(made) == pytest.approx(wanted)
    assert made.prediction.binds == min(wanted, key=lambda name: wanted[name])
    assert made.prediction.read_supply_mb_per_s == pytest.approx(min(wanted.values()))


@pytest.mark.parametrize(
    ("changes", "name", "because"),
    [
        (ON_LUSTRE, "disk", "9,600 GiB at 250 MB/s per TiB"),
        (ON_LUSTRE, "network", "4 x 400,000 MB/s of one instance"),
        (ON_LUSTRE, "client", "4 x 2,500 MB/s of one client over TCP (file servers: 4)"),
        (ON_LUSTRE, "opens", "6,000 metadata IOPS serve 12,000 opens a second of 0.32 asked for"),
        ({"hot_tier": "none"}, "requests", "5,500 GET a second of one prefix x 8.26 MB"),
        (
            {"hot_tier": "none", "file_access": "s3-files"},
            "client",
            "4 x 3,221 MB/s of one client of S3 Files",
        ),
    ],
)
def test_each_limit_has_its_calculation(changes: dict[str, Any], name: str, because: str) -> None:
    said = {str(each.name): each.because for each in planned(changes).prediction.limits}
    assert said[name] == because


def test_the_network_is_named_before_the_client_that_it_bounds() -> None:
    # One g4dn.xlarge: 5 Gbit/s are 625 MB/s, and so is one file server.
    made = planned(
        {
            **ON_LUSTRE,
            "compute.instance_type": "g4dn.xlarge",
            "compute.instance_count": 1,
            "dataset.file_count": None,
        }
    )
    assert limits(made)["network"] == limits(made)["client"] == 625
    assert made.prediction.binds == "network"


@pytest.mark.parametrize(
    ("changes", "write", "restore"),
    [
        (ON_LUSTRE, "disk", "disk"),
        # One client over TCP moves 1,250 MB/s with two servers; 4,800 GiB at 1000 give 4,687 MB/s.
        (
            {
                "hot_tier": "lustre",
                "compute.instance_count": 1,
                "lustre": {"storage_capacity": "4800 GiB", "per_unit_storage_throughput": 1000, "efa": False},
            },
            "client",
            "client",
        ),
        ({"hot_tier": "none"}, "requests", "requests"),
        ({"hot_tier": "none", "compute.instance_count": 1}, "network", "network"),
        # 3,500 PUT of 8 MiB are 29,360 MB/s, 5,500 GET 46,137: three instances of 12,500 lie between.
        ({"hot_tier": "none", "compute.instance_count": 3}, "requests", "network"),
        ({"hot_tier": "none", "file_access": "s3-files", "compute.instance_count": 3}, "requests", "client"),
        ({"hot_tier": "express", "dataset.interface": "object"}, "network", "network"),
    ],
)
def test_what_binds_saves_and_restores(changes: dict[str, Any], write: str, restore: str) -> None:
    found = planned({**changes, "checkpoints": SAVES}).prediction
    assert (found.checkpoint_write_bound_by, found.restore_bound_by) == (write, restore)


def test_scratch_writes_half_of_what_it_reads() -> None:
    changes = {"hot_tier": "lustre", "lustre": {"deployment_type": "SCRATCH_2", "storage_capacity": "4800 GiB"}}
    found = planned({**changes, "checkpoints": SAVES}).prediction
    # 4.6875 TiB x 200 and x 100 MB/s.
    gib40_mb = 40 * 1073.741824
    assert (found.checkpoint_write_s, found.restore_s) == pytest.approx((gib40_mb / 468.75, gib40_mb / 937.5))


def test_a_restore_reads_full_parts_from_s3_however_small_the_files_of_the_data_set_are() -> None:
    changes = {
        "hot_tier": "none",
        "dataset.file_count": None,
        "dataset.average_file_size": "100 KB",
        "checkpoints": SAVES,
    }
    found = planned(changes).prediction
    assert found.read_supply_mb_per_s == pytest.approx(5500 * 0.1 / 2)
    assert found.restore_s == pytest.approx(40 * 1073.741824 / (5500 * 8.388608))


def test_without_checkpoints_nothing_is_said_of_them() -> None:
    found = planned().prediction
    assert (found.checkpoint_mode, found.checkpoint_interval_s, found.checkpoint_write_bound_by) == (None, None, None)
    assert (found.restore_bound_by, found.effective_training_time_ratio, found.lost_work_s_per_failure) == (None,) * 3
    assert found.failures_per_day == pytest.approx(24 * 32 / 50_000)


# Failures


@pytest.mark.parametrize(
    ("changes", "mtbf_h"),
    [
        ({}, 50_000 / 32),
        ({"compute.accelerator_mttf": "10000h"}, 10_000 / 32),
        ({"compute.accelerator_mttf": "250d", "compute.instance_count": 1}, 250 * 24 / 8),
    ],
)
def test_the_fleet_fails_as_often_as_its_accelerators_together(changes: dict[str, Any], mtbf_h: float) -> None:
    found = planned(changes).prediction
    assert (found.mtbf_h, found.failures_per_day) == pytest.approx((mtbf_h, 24 / mtbf_h))


def test_a_higher_failure_rate_shortens_the_automatic_interval_and_asks_for_faster_saves() -> None:
    saves = {"size": "10 TiB", "interval": "auto", "max_write_time": "2h", "max_stall": 0.01}
    usual = planned({"checkpoints": saves})
    worse = planned({"checkpoints": saves, "compute.accelerator_mttf": "500h"})
    # Stall bound: w = 2 x mtbf x (f / (1 - f))^2; with 1/100 of the mtbf w is 1/100.
    assert worse.demand.checkpoint_write_mb_per_s == pytest.approx(
        10 * 1024**4 / 1e6 / (2 * 500 * 3600 / 32 * (0.01 / 0.99) ** 2)
    )
    assert (worse.prediction.checkpoint_interval_s or 0) < (usual.prediction.checkpoint_interval_s or 0)
    assert worse.prediction.checkpoint_interval_s == worse.prediction.recommended_checkpoint_interval_s


def test_young_and_daly_of_the_llama_3_run() -> None:
    # 16,384 accelerators at 50,677 h: 11,135 s; saves of 30 s: Young 817.4 s, Daly 787.4 s (case daly_llama3).
    found = planned(
        {
            "compute.instance_count": 2048,
            "compute.accelerator_mttf": "50677h",
            "hot_tier": "lustre",
            "lustre": {"storage_capacity": "96000 GiB", "per_unit_storage_throughput": 1000},
            "checkpoints": {"size": f"{93_750 * 30} MB", "interval": "20m"},
        }
    ).prediction
    assert found.checkpoint_write_s == pytest.approx(30)
    assert found.recommended_checkpoint_interval_s == pytest.approx(817.4, rel=1e-3)
    assert found.daly_checkpoint_interval_s == pytest.approx(787.4, rel=1e-3)


def test_effective_time_counts_restart_restore_and_data_wait() -> None:
    changes = {**ON_LUSTRE, "checkpoints": {"size": "2343.75 GB", "interval": "1h", "restart_time": "0s"}}
    fast = planned(changes).prediction
    # w = R = 1000 s; mtbf 50,000 h / 32 = 5,625,000 s; dt = 3600 s.
    assert (fast.checkpoint_write_s, fast.restore_s) == pytest.approx((1000, 1000))
    ratio = 3600 / 4600 * (1 - (1000 + 4600 / 2) / 5_625_000)  # a failure costs R and half a cycle
    assert fast.effective_training_time_ratio == pytest.approx(ratio, rel=1e-6)
    changes["checkpoints"]["restart_time"] = "1d"
    slow = planned(changes).prediction
    assert slow.effective_training_time_ratio == pytest.approx(
        (fast.effective_training_time_ratio or 0) * math.exp(-86_400 / 5_625_000)
    )
    changes["dataset.read_rate"] = {"per_accelerator": f"{2 * 2343.75 / 32} MB/s"}
    waiting = planned(changes).prediction
    assert waiting.data_wait_fraction == pytest.approx(0.5)
    assert waiting.effective_training_time_ratio == pytest.approx((slow.effective_training_time_ratio or 0) / 2)


def test_asynchronous_saves_lose_what_was_trained_while_they_were_written_too() -> None:
    changes = {**ON_LUSTRE, "checkpoints": {"size": "2343.75 GB", "interval": "1h"}}
    lost = planned(changes).prediction.lost_work_s_per_failure
    changes["checkpoints"]["asynchronous"] = True
    overlapped = planned(changes).prediction
    assert lost == pytest.approx(3600 * 2800 / 4600, rel=1e-3)
    assert overlapped.lost_work_s_per_failure == pytest.approx(1800 + 1000, rel=1e-3)
    assert (overlapped.checkpoint_mode, overlapped.checkpoint_stall_fraction) == ("asynchronous", 0)


# Reads while an asynchronous save is written


@pytest.mark.parametrize(
    ("read_mb", "size_gb", "during", "in_all"),
    [
        # 1,000 + 1,000 of 2,343.75 MB/s: both are carried.
        (1000, 60, 0.0, 0.0),
        # A save of 90 GB in 60 s is 1,500 MB/s and leaves 843.75 of 1,000; 60 s of each 1,800.
        (1000, 90, 1 - 0.84375, (1 - 0.84375) / 30),
        # A save of 281.25 GB takes 120 s at full speed and leaves nothing.
        (1000, 281.25, 1.0, 120 / 1800),
        # Reads wait already: 2,343.75 of 4,687.5 MB/s, and 843.75 while it saves.
        (4687.5, 90, 1 - 0.18, 0.5 + (0.82 - 0.5) / 30),
    ],
)
def test_a_save_leaves_reads_what_it_does_not_take(
    read_mb: float, size_gb: float, during: float, in_all: float
) -> None:
    found = planned(
        {
            **ON_LUSTRE,
            "dataset.read_rate": {"per_accelerator": f"{read_mb / 32} MB/s"},
            "checkpoints": {"size": f"{size_gb} GB", "asynchronous": True, "interval": "30m"},
        }
    ).prediction
    assert found.data_wait_during_save_fraction == pytest.approx(during, abs=1e-12)
    assert found.data_wait_with_saves_fraction == pytest.approx(in_all, abs=1e-12)
    assert found.data_wait_fraction == pytest.approx(max(0.0, 1 - 2343.75 / read_mb), abs=1e-12)


@pytest.mark.parametrize(
    "changes",
    [
        {**ON_LUSTRE, "checkpoints": SAVES},
        {**ON_LUSTRE, "checkpoints": {**SAVES, "asynchronous": True}, "dataset.read_rate": None},
        {"hot_tier": "none", "checkpoints": {**SAVES, "asynchronous": True}},
    ],
)
def test_saves_that_take_nothing_from_reads_have_no_such_figure(changes: dict[str, Any]) -> None:
    found = planned(changes).prediction
    assert (found.data_wait_during_save_fraction, found.data_wait_with_saves_fraction) == (None, None)


# The warning


@pytest.mark.parametrize(
    ("changes", "words", "sibling", "advice"),
    [
        (
            {**ON_LUSTRE, "dataset.read_rate": {"per_accelerator": f"{4687.5 / 32} MB/s"}},
            "50 % of the time: reads need 4,688 MB/s and get 2,344 MB/s, which the throughput of the disks allows",
            "lustre-too-small",
            "give a larger lustre.storage_capacity or a higher lustre.per_unit_storage_throughput",
        ),
        (
            {
                "hot_tier": "lustre",
                "lustre": {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 4000, "links": []},
                "dataset.read_rate": {"per_accelerator": "250 MB/s"},
            },
            "the throughput of the disks allows",
            "lustre-too-small",
            "give a larger lustre.throughput_capacity",
        ),
        (
            {
                **ON_LUSTRE,
                "dataset.file_count": None,
                "dataset.read_rate": {"samples": {"size": "10 KB", "per_second_per_accelerator": 1000}},
                "lustre": {**ON_LUSTRE["lustre"], "metadata_iops": 6000},
            },
            "62.5 % of the time: reads need 320 MB/s and get 120 MB/s, which the rate of file opens allows",
            "metadata-short",
            "",
        ),
        (
            {
                "hot_tier": "lustre",
                "compute.instance_count": 1,
                "lustre": {"storage_capacity": "4800 GiB", "per_unit_storage_throughput": 1000, "efa": False},
                "dataset.read_rate": {"per_accelerator": "500 MB/s"},
            },
            "what one client may move allows",
            "client-limit",
            "",
        ),
        (
            {
                "hot_tier": "none",
                "dataset.file_count": None,
                "dataset.average_file_size": "10 KB",
            },
            "91.4 % of the time: reads need 320 MB/s and get 27.5 MB/s, which the request rate of one S3 prefix allows",
            "s3-too-small",
            "larger files, or shards of many samples, would lift it, or hot_tier: lustre",
        ),
        (
            {"hot_tier": "none", "compute.instance_count": 1, "dataset.read_rate": {"per_accelerator": "2 GB/s"}},
            "the network of the fleet allows",
            "s3-too-small",
            "more instances, or a type with more network, would lift it, or hot_tier: lustre",
        ),
        (
            {
                "hot_tier": "none",
                "dataset.file_count": None,
                "dataset.read_rate": {"samples": {"size": "110 KB", "per_second_per_accelerator": 10}},
                "dataset.loader": {"workers_per_accelerator": 1, "prefetch": 1},
            },
            "latency allows (32 reads in flight x 0.11 MB, each 0.401 s)",
            None,
            "more workers or prefetch of dataset.loader, or larger samples and files, would lift it, "
            "or hot_tier: lustre",
        ),
        (
            {
                "hot_tier": "none",
                "dataset.read_rate": {"per_accelerator": "1 GB/s"},
                "dataset.loader": {"workers_per_accelerator": 1, "prefetch": 1},
            },
            "latency allows (32 reads in flight x 8.39 MB",
            None,
            "more workers or prefetch of dataset.loader would lift it, or hot_tier: lustre",
        ),
    ],
)
def test_a_wait_is_warned_of_with_what_binds_and_what_lifts_it(
    changes: dict[str, Any], words: str, sibling: str | None, advice: str
) -> None:
    made = planned(changes)
    message = warning(made, "data-wait")
    assert words in message
    because = made.prediction.limits[0].because
    if sibling is None:
        assert message.endswith(f" ({because}); {advice}")
        return
    # A warning that has the figures already is named in their place; where it advises, nothing is advised twice.
    assert sibling in warning_ids(made)
    assert because not in message
    assert message.endswith(f", as {sibling} says" + (f"; {advice}" if advice else ""))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        ON_LUSTRE,
        {"dataset.read_rate": None},
        # Exactly what the disks give.
        {**ON_LUSTRE, "dataset.read_rate": {"per_accelerator": f"{2343.75 / 32} MB/s"}},
    ],
)
def test_no_wait_no_warning(changes: dict[str, Any]) -> None:
    assert "data-wait" not in warning_ids(planned(changes))


@pytest.mark.parametrize("share", [1e-6, 0.01, 0.1])
def test_a_small_wait_is_warned_of_too(share: float) -> None:
    rate = 2343.75e6 / 32 / (1 - share)
    made = planned({**ON_LUSTRE, "dataset.read_rate": {"per_accelerator": f"{rate:.6f} B/s"}})
    assert made.prediction.data_wait_fraction == pytest.approx(share, rel=1e-3)
    assert "data-wait" in warning_ids(made)


# Properties


def made_from(data: dict[str, Any]) -> Plan | None:
    try:
        return plan(Workload.model_validate(data))
    except (ValidationError, PlanError):
        return None


def check(made: Plan) -> None:
    found, read = made.prediction, made.demand.read_mb_per_s
    rates = [each.mb_per_s for each in found.limits]
    assert rates == sorted(rates)
    assert found.read_supply_mb_per_s == rates[0] > 0
    assert found.binds == found.limits[0].name
    assert len({each.name for each in found.limits}) == len(rates)
    assert all(each.because for each in found.limits)
    wait = found.data_wait_fraction
    assert (wait is None) == (read is None)
    if wait is not None and read is not None:
        assert wait == pytest.approx(max(0.0, 1 - rates[0] / read), abs=1e-12)
        assert 0 <= wait < 1
        assert ("data-wait" in warning_ids(made)) == (wait > 1e-9)
    for share in (found.effective_training_time_ratio, found.data_wait_with_saves_fraction):
        assert share is None or 0 <= share <= 1
    during, in_all = found.data_wait_during_save_fraction, found.data_wait_with_saves_fraction
    if during is not None and in_all is not None:
        assert (wait or 0) <= in_all <= during <= 1
    if found.first_epoch is not None:
        assert found.first_epoch.first_s >= found.first_epoch.steady_s
        assert found.first_epoch.data_wait_fraction >= (wait or 0) - 1e-12
    json.dumps(made.to_dict(), allow_nan=False)


_SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


@settings(_SETTINGS, max_examples=150)
@given(workload_dicts())
def test_every_prediction_follows_from_its_limits(data: dict[str, Any]) -> None:
    made = made_from(data)
    if made is not None:
        check(made)


def test_what_is_lost_is_all_that_is_no_progress() -> None:
    seen = planned({**ON_LUSTRE, "checkpoints": {"size": "2343.75 GB", "interval": "1h"}}).prediction
    assert seen.effective_training_time_ratio is not None
    # 4 p5.48xlarge of 55.04 USD.
    assert seen.lost_gpu_usd_per_hour == pytest.approx((1 - seen.effective_training_time_ratio) * 4 * 55.04)
    assert seen.lost_gpu_usd_per_hour is not None
    assert seen.idle_gpu_usd_per_hour is not None
    assert seen.lost_gpu_usd_per_hour > seen.idle_gpu_usd_per_hour
    assert planned(ON_LUSTRE).prediction.lost_gpu_usd_per_hour is None
    assert (
        planned({**ON_LUSTRE, "checkpoints": SAVES, "compute.purchase": "spot"}).prediction.lost_gpu_usd_per_hour
        is None
    )


@pytest.mark.parametrize(
    ("changes", "share"),
    [
        # 90 GB at 2,343.75 MB/s: 38.4 s of each 1,800.
        ({}, 38.4 / 1800),
        # A save that takes longer than the interval is written all the time.
        ({"checkpoints.interval": "30s"}, 1.0),
    ],
)
def test_a_save_that_takes_all_disks_leaves_reads_nothing_meanwhile(changes: dict[str, Any], share: float) -> None:
    saves = {"size": "90 GB", "interval": "30m", "asynchronous": True}
    seen = planned({**ON_LUSTRE, "checkpoints": saves, **changes}).prediction
    ratio = seen.effective_training_time_ratio
    assert ratio is not None
    assert seen.data_wait_fraction == 0
    assert seen.effective_training_time_ratio_low == pytest.approx(ratio * (1 - share), abs=1e-12)


def test_saves_that_share_no_disks_with_reads_have_one_ratio() -> None:
    saves = {"size": "90 GB", "interval": "30m"}
    for changes in (
        {**ON_LUSTRE, "checkpoints": saves},
        {"checkpoints": {**saves, "asynchronous": True}, "hot_tier": "none"},
        {**ON_LUSTRE, "checkpoints": {**saves, "asynchronous": True}, "dataset.read_rate": None},
    ):
        assert planned(changes).prediction.effective_training_time_ratio_low is None


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("compute", "saves"),
    [
        ({"accelerator_mttf": "1h", "instance_count": 16_000}, {"size": "1 PB", "interval": "auto"}),
        ({"accelerator_mttf": "1h", "instance_count": 16_000}, {"size": "1 B", "interval": "0.001s"}),
        ({"accelerator_mttf": "100000000h"}, {"size": "1 B", "interval": "3650d"}),
        ({"accelerator_mttf": "1h"}, {"size": "1000 PB", "interval": "auto", "restore_readers": 1_000_000}),
        ({}, {"size": "1 PB", "interval": "1s", "restart_time": "3650d"}),
    ],
)
def test_extremes_give_numbers(compute: dict[str, Any], saves: dict[str, Any], asynchronous: bool) -> None:
    for tier in ("none", "lustre"):
        changes: dict[str, Any] = {f"compute.{key}": value for key, value in compute.items()}
        changes |= {"hot_tier": tier, "checkpoints": {**saves, "asynchronous": asynchronous}}
        changes["dataset.loader"] = {"workers_per_accelerator": 10_000, "prefetch": 10_000}
        if tier == "lustre":
            changes["lustre"] = {"storage_capacity": "1200 GiB"}
        check(planned(changes))


@settings(_SETTINGS, max_examples=40)
@given(st.integers(1, 64), st.integers(1, 16), st.integers(1, 50), st.sampled_from(["none", "lustre"]))
def test_more_reads_in_flight_never_raise_the_wait(workers: int, prefetch: int, more: int, tier: str) -> None:
    changes: dict[str, Any] = {
        "hot_tier": tier,
        "dataset.file_count": None,
        "dataset.read_rate": {"samples": {"size": "110 KB", "per_second_per_accelerator": 2000}},
    }
    waits = []
    for count in (workers, workers * more):
        loader = {"workers_per_accelerator": count, "prefetch": prefetch}
        waits.append(planned({**changes, "dataset.loader": loader}).prediction.data_wait_fraction or 0.0)
    assert waits[1] <= waits[0]


TERMS = st.lists(st.floats(1e-3, 1e12), min_size=1, max_size=6).map(
    lambda rates: tuple(Term("disk", rate, "{}", (rate,)) for rate in rates)
)


@settings(_SETTINGS, max_examples=200)
@given(TERMS, st.data(), st.floats(1, 1e6), st.floats(1e-3, 1e12))
def test_a_limit_that_is_lifted_never_raises_the_wait(
    terms: tuple[Term, ...], data: st.DataObject, factor: float, read: float
) -> None:
    index = data.draw(st.integers(0, len(terms) - 1))
    lifted = list(terms)
    lifted[index] = terms[index]._replace(mb_per_s=terms[index].mb_per_s * factor)
    before = Limits(reads=terms, write=terms[0], restore=terms[0])
    after = replace(before, reads=tuple(lifted))
    waits = [data_wait(read, tightest(each.reads).mb_per_s) or 0.0 for each in (before, after)]
    assert 0 <= waits[1] <= waits[0] < 1
