"""Which lines a bill has, and how much each counts: every tier, what is there already, what is not known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.unit._cost import CATALOG, PRIMES, bill, items, lines, only
from tests.unit._planner import make, planned
from training_storage.catalog import default_catalog
from training_storage.operations.transfer_model import LIMITS
from training_storage.planner import Plan, plan
from training_storage.planner.cost.express import COPY_PART_BYTES, SINGLE_COPY_BYTES
from training_storage.units import GIB, MIB, Size

MONTH = 730
LUSTRE: dict[str, Any] = {"hot_tier": "lustre"}
SAVES = {"size": "40 GiB", "interval": "30m"}
SECONDS = 3600 * MONTH
READ = 4 * 8 * 10e6
"""Bytes a second that the base workload reads: 32 accelerators at 10 MB/s."""


def made(changes: dict[str, Any]) -> Plan:
    return plan(make(changes), catalog=CATALOG)


def assumed(changes: dict[str, Any], part: str) -> bool:
    return any(part in text for text in made(changes).assumptions)


# Lustre


@pytest.mark.parametrize(
    ("lustre", "item", "gib"),
    [
        ({"per_unit_storage_throughput": 125, "storage_capacity": "4800 GiB"}, "lustre.PERSISTENT_2.SSD.125", 4800),
        ({"per_unit_storage_throughput": 1000, "storage_capacity": "4800 GiB"}, "lustre.PERSISTENT_2.SSD.1000", 4800),
        ({"deployment_type": "SCRATCH_2", "storage_capacity": "4800 GiB"}, "lustre.SCRATCH_2.SSD", 4800),
        (
            {"deployment_type": "PERSISTENT_1", "per_unit_storage_throughput": 100, "storage_capacity": "2400 GiB"},
            "lustre.PERSISTENT_1.SSD.100",
            2400,
        ),
        (
            {"storage_type": "HDD", "per_unit_storage_throughput": 40, "storage_capacity": "7200 GiB"},
            "lustre.PERSISTENT_1.HDD.40",
            7200,
        ),
    ],
)
def test_capacity_is_paid_at_the_price_of_its_type_and_tier(lustre: dict[str, Any], item: str, gib: int) -> None:
    cost = bill(LUSTRE | {"lustre": lustre})
    (line,) = (each for each in cost.lines if each.item.startswith("lustre."))
    assert (line.item, line.quantity, line.unit, line.hot) == (item, gib, "GiB-month", True)
    assert line.monthly == gib * PRIMES[item]


def test_the_read_cache_of_hdd_storage_is_a_fifth_of_the_capacity_on_a_line_of_its_own() -> None:
    hdd = {"storage_type": "HDD", "per_unit_storage_throughput": 12, "storage_capacity": "12000 GiB"}
    assert not [each for each in items(bill(LUSTRE | {"lustre": hdd})) if "cache" in each]
    cost = bill(LUSTRE | {"lustre": hdd | {"drive_cache": "read"}})
    assert only(cost, "lustre.PERSISTENT_1.HDD.read_cache").quantity == 2400


def test_metadata_iops_are_paid_above_what_automatic_gives() -> None:
    capacity = {"per_unit_storage_throughput": 125, "storage_capacity": "4800 GiB"}  # AUTOMATIC: 6,000 there
    given = bill(LUSTRE | {"lustre": capacity | {"metadata_iops": 24_000}})
    assert only(given, "lustre.metadata_iops").quantity == 18_000
    exact = bill(LUSTRE | {"lustre": capacity | {"metadata_iops": 6000}})
    assert "lustre.metadata_iops" not in items(exact)


TIERING = {"storage_type": "INTELLIGENT_TIERING", "throughput_capacity": 8000, "links": []}
NAME = "lustre.PERSISTENT_2.INTELLIGENT_TIERING"


@pytest.mark.parametrize(
    ("cache", "item", "quantity"),
    [
        ("none", None, 0),
        ("500 GiB", "read_cache", 500),
        ("proportional", "read_cache_proportional", 8000),
        (None, "read_cache_proportional", 8000),  # what is deployed where nothing is said
    ],
)
def test_intelligent_tiering_buys_throughput_metadata_and_a_cache_and_counts_what_is_stored(
    cache: str | None, item: str | None, quantity: int
) -> None:
    tiering = TIERING if cache is None else TIERING | {"read_cache": cache}
    cost = bill(LUSTRE | {"lustre": tiering, "checkpoints": SAVES, "scratch_size": "100 GiB"})
    found = {line.item.removeprefix(f"{NAME}."): line for line in cost.lines if line.item.startswith("lustre.")}
    assert set(found) == {"throughput", "frequent", "metadata_iops", *([item] if item else [])}
    assert found["throughput"].quantity == 8000
    assert found["frequent"].quantity == pytest.approx(2e12 / GIB + 4 * 40 + 100)
    assert found["metadata_iops"].quantity == 6000
    if item:
        assert found[item].quantity == quantity
    assert all(line.hot for line in found.values())


@pytest.mark.parametrize(
    ("days", "interval", "gib"),
    [
        (1, "30m", 0),
        (7, "30m", 6 * 4 * 40),  # 48 saves a day, four of them stand
        (7, "12h", 6 * 2 * 40),  # two are new each day
        (2, "30m", 1 * 4 * 40),
    ],
)
def test_backups_hold_the_data_once_and_the_new_checkpoints_of_each_further_day(
    days: int, interval: str, gib: int
) -> None:
    changes = LUSTRE | {
        "lustre": {"links": [], "backup_retention_days": days},
        "checkpoints": {"size": "40 GiB", "interval": interval},
    }
    line = only(bill(changes), "lustre.backup")
    assert line.quantity == pytest.approx(2e12 / GIB + 4 * 40 + gib)
    assert line.hot
    assert assumed(changes, "backups are incremental")


@pytest.mark.parametrize("lustre", [{"links": []}, {"links": [], "backup_retention_days": 0}])
def test_no_backups_no_line(lustre: dict[str, Any]) -> None:
    assert "lustre.backup" not in items(bill(LUSTRE | {"lustre": lustre}))


EXISTING = {
    "file_system_id": "fs-0123456789abcdef0",
    "mount_name": "fsx",
    "security_group_id": "sg-0123456789abcdef0",
    "storage_capacity": "38400 GiB",
    "per_unit_storage_throughput": 250,
    "efa": False,
}


def test_a_file_system_that_is_there_costs_nothing_more_and_the_plan_says_so() -> None:
    changes = LUSTRE | {"lustre": EXISTING}
    cost = bill(changes)
    assert not [each for each in items(cost) if each.startswith("lustre.")]
    assert not [line for line in cost.lines if line.once]  # no link of ours, so nothing is loaded
    assert cost.after_run is None
    assert assumed(changes, "fs-0123456789abcdef0 is there already and is paid whatever this job does")


def test_a_link_that_is_made_on_it_still_loads_the_data() -> None:
    link = {"path": "/run7", "source": "s3://elsewhere/data/"}
    changes = LUSTRE | {"lustre": EXISTING | {"links": [link]}, "dataset.source": "s3://elsewhere/data/"}
    assert [line.item for line in bill(changes).lines if line.once] == ["s3.get_requests", "s3.put_requests"]


@pytest.mark.parametrize(
    "links", [[], [{"path": "/other", "source": "s3://elsewhere/data/"}]], ids=["none", "of other data"]
)
def test_data_that_no_link_brings_is_not_loaded_by_fsx(links: list[dict[str, str]]) -> None:
    changes = LUSTRE | {"lustre": {"links": links}}
    assert not [line for line in bill(changes).lines if line.once]
    assert assumed(changes, "no link brings the data set to the file system")


def test_the_first_load_reads_the_hot_part_and_asks_for_every_file() -> None:
    whole, part = bill(LUSTRE), bill(LUSTRE | {"dataset.hot_fraction": 0.25})
    parts = 2000 * math.ceil(1e9 / (8 * MIB))
    (get,) = lines(whole, "s3.get_requests")
    assert get.quantity == pytest.approx((parts + 2000) / 1000)
    assert get.once
    assert only(part, "s3.get_requests").quantity == pytest.approx((parts / 4 + 2000) / 1000)


@pytest.mark.parametrize(("size", "parts"), [("8 MiB", 1), ("8388609 B", 2), ("1 KB", 1)])
def test_a_file_is_loaded_in_parts_of_8_mib(size: str, parts: int) -> None:
    cost = bill(LUSTRE | {"dataset.file_count": None, "dataset.average_file_size": size})
    assert only(cost, "s3.get_requests").quantity == pytest.approx(2e12 / Size.parse(size).bytes * (parts + 1) / 1000)


def test_files_of_unknown_number_are_loaded_by_the_part_and_the_plan_says_what_is_missing() -> None:
    changes = LUSTRE | {"dataset.file_count": None}
    cost = bill(changes)
    assert only(cost, "s3.get_requests").quantity == pytest.approx(2e12 / (8 * MIB) / 1000)
    assert "s3.put_requests" not in items(cost)
    assert assumed(changes, "the number of files is not known")


# The data lake


def test_data_in_a_bucket_of_others_is_stored_at_their_cost_and_read_at_ours() -> None:
    changes = {"dataset.source": "s3://elsewhere/data/", "mountpoint.cache": "none"}
    cost = bill(changes)
    assert "s3.standard.storage" not in items(cost)
    assert only(cost, "s3.get_requests").quantity > 0
    assert assumed(changes, "lies in elsewhere, whose owner pays for its storage")


def test_data_in_a_lake_that_is_there_already_counts() -> None:
    changes = {"data_lake.bucket": "our-lake", "dataset.source": "s3://our-lake/data/"}
    assert only(bill(changes), "s3.standard.storage").quantity == pytest.approx(2e12 / GIB)


@pytest.mark.parametrize(("every", "promoted"), [(10, 146), (1, 1460), (4, 365)])
def test_key_versions_count_a_month_each(every: int, promoted: int) -> None:
    cost = bill(LUSTRE | {"checkpoints": SAVES | {"promote_every": every}})
    data, kept = lines(cost, "s3.standard.storage")
    assert kept.quantity == pytest.approx(promoted * 40)
    assert kept.hourly == pytest.approx(2 / every * 40 * PRIMES["s3.standard.storage"])
    put = next(line for line in lines(cost, "s3.put_requests") if not line.once)
    assert put.quantity == pytest.approx(promoted * 5120 / 1000)
    assert not data.hot
    assert not kept.hot


@pytest.mark.parametrize(
    ("lake", "gib"),
    [
        ({}, 1460 * 0.9 * 40 * 30 * 24 / MONTH),
        ({"noncurrent_versions_expire_after": "3d"}, 1460 * 0.9 * 40 * 3 * 24 / MONTH),
        ({"versioned": False}, None),
        ({"bucket": "our-lake"}, None),
    ],
)
def test_without_a_hot_tier_pruned_checkpoints_stay_as_versions(lake: dict[str, Any], gib: float | None) -> None:
    changes = {"hot_tier": "none", "checkpoints": SAVES, "data_lake": lake}
    stored = lines(bill(changes), "s3.standard.storage")
    assert [line.quantity for line in stored[1:3]] == pytest.approx([4 * 40, 146 * 40])
    assert [line.quantity for line in stored[3:]] == pytest.approx([] if gib is None else [gib])
    assert assumed(changes, "whether our-lake keeps old versions is not known") == ("bucket" in lake)


def test_every_checkpoint_a_key_version_prunes_none() -> None:
    changes = {"hot_tier": "none", "checkpoints": SAVES | {"promote_every": 1}}
    assert len(lines(bill(changes), "s3.standard.storage")) == 3


def test_restores_are_read_once_a_failure_and_reader() -> None:
    changes = {"hot_tier": "none", "checkpoints": SAVES | {"restore_readers": 3}, "mountpoint.cache": "none"}
    restore = lines(bill(changes), "s3.get_requests")[-1]
    assert restore.quantity == pytest.approx(32 / 50_000 * MONTH * 3 * 5120 / 1000)


def test_saves_by_the_recommended_interval_are_those_that_the_prediction_names() -> None:
    changes = {"hot_tier": "none", "checkpoints": SAVES | {"interval": "auto"}}
    interval_s = made(changes).prediction.checkpoint_interval_s
    assert interval_s is not None
    saves = lines(bill(changes), "s3.put_requests")[-1]
    assert saves.quantity == pytest.approx(SECONDS / interval_s * 5120 / 1000)


def test_no_checkpoints_no_lines_of_them() -> None:
    cost = bill({"mountpoint.cache": "none"})
    assert items(cost)[:3] == ["s3.get_requests", "s3.put_requests", "s3.standard.storage"]
    assert items(cost).count("s3.standard.storage") == 1


@pytest.mark.parametrize(
    ("lake", "keys"),
    [
        ({}, 1),
        ({"encryption": "kms"}, 1),
        ({"encryption": "s3"}, 0),
        ({"kms_key_arn": "arn:aws:kms:us-east-1:111111111111:key/01234567-89ab-cdef-0123-456789abcdef"}, 0),
        ({"bucket": "our-lake"}, 0),
    ],
)
def test_a_key_costs_where_one_is_made(lake: dict[str, Any], keys: int) -> None:
    assert len(lines(bill({"data_lake": lake}), "kms.key")) == keys


# Reads without a hot tier


def test_mountpoint_without_a_cache_pays_for_opens_parts_and_look_ups() -> None:
    changes = {"mountpoint.cache": "none"}
    cost = bill(changes)
    opens = READ / 1e9 * SECONDS
    assert only(cost, "s3.get_requests").quantity == pytest.approx(opens * (1 + 120) / 1000)
    assert only(cost, "s3.put_requests").quantity == pytest.approx(opens / 1000)
    assert assumed(changes, "a LIST costs as much as a PUT")


def test_code_with_an_s3_client_makes_no_look_ups() -> None:
    cost = bill({"dataset.interface": "object"})
    assert only(cost, "s3.get_requests").quantity == pytest.approx(READ / 1e9 * 121 * SECONDS / 1000)
    assert "s3.put_requests" not in items(cost)


def test_a_local_cache_that_holds_everything_is_filled_once_on_every_node() -> None:
    cost = bill()
    fill, look_ups = lines(cost, "s3.get_requests")
    assert [fill.quantity, look_ups.quantity] == pytest.approx([4 * 2000 * 120 / 1000, READ / 1e9 * SECONDS / 1000])
    assert [fill.once, look_ups.once] == [True, False]


@pytest.mark.parametrize(("size", "once"), [("2.01 TB", True), ("1.99 TB", False)])
def test_a_local_cache_helps_where_it_holds_all_that_one_run_reads(size: str, once: bool) -> None:
    changes = {"mountpoint.cache_size": size}
    assert lines(bill(changes), "s3.get_requests")[0].once is once
    assert assumed(changes, "the nvme cache does not keep what one run reads") is not once


def test_a_local_cache_holds_what_is_hot() -> None:
    part = {"dataset.hot_fraction": 0.5, "mountpoint.cache_size": "1.1 TB"}
    assert lines(bill(part), "s3.get_requests")[0].once


SMALL = {"dataset.file_count": 10_000_000, "mountpoint.cache": "express"}
"""Files of 200 KB in a shared cache."""


def test_a_shared_cache_holds_the_files_and_is_filled_again_when_they_expire() -> None:
    cost = bill(SMALL | {"express.expire_after": "2d"})
    refills = MONTH / 48
    assert only(cost, "s3_express.storage").quantity == pytest.approx(2e12 / GIB)
    puts, uploads = lines(cost, "s3_express.put_requests"), lines(cost, "s3_express.upload")
    assert [line.quantity for line in puts] == pytest.approx([10_000, 10_000 * refills])
    assert [line.quantity for line in uploads] == pytest.approx([2e12 / GIB, 2e12 / GIB * refills])
    assert [line.once for line in puts] == [True, False]
    assert only(cost, "s3_express.retrieval").quantity == pytest.approx(READ * SECONDS / GIB)
    assert only(cost, "s3_express.get_requests").quantity == pytest.approx(READ / 200e3 * SECONDS / 1000)
    assert all(line.hot for line in cost.lines if line.item.startswith("s3_express."))


def test_a_shared_cache_that_is_there_is_filled_once_and_outlives_the_stacks() -> None:
    cost = bill(SMALL | {"mountpoint.cache_bucket": "cache--use1-az6--x-s3"})
    assert len(lines(cost, "s3_express.put_requests")) == len(lines(cost, "s3_express.upload")) == 1
    assert not [line for line in cost.lines if line.hot]


@pytest.mark.parametrize("files", [1_900_000, None], ids=["above 1 MiB", "unknown"])
def test_a_shared_cache_of_files_that_it_does_not_keep_costs_nothing(files: int | None) -> None:
    changes = SMALL | {"dataset.file_count": files}
    cost = bill(changes)
    assert not [each for each in items(cost) if each.startswith("s3_express.")]
    assert only(cost, "s3.get_requests").once is False
    assert assumed(changes, "the express cache does not keep what one run reads")


@pytest.mark.parametrize(("size", "kept"), [("1 MiB", True), ("1048577 B", False)])
def test_a_shared_cache_keeps_files_up_to_1_mib(size: str, kept: bool) -> None:
    cost = bill(SMALL | {"dataset.file_count": None, "dataset.average_file_size": size})
    assert ("s3_express.storage" in items(cost)) is kept


def test_a_shared_cache_beside_lustre_is_not_filled_by_training() -> None:
    changes = LUSTRE | SMALL
    assert not [each for each in items(bill(changes)) if each.startswith("s3_express.")]
    assert assumed(changes, "training reads on lustre")


def test_reads_count_as_far_as_s3_delivers_them() -> None:
    """One prefix serves 5,500 requests a second, whatever is asked for."""
    cost = bill({"hot_tier": "none", "dataset.read_rate": {"per_accelerator": "5 GB/s"}, "mountpoint.cache": "none"})
    assert only(cost, "s3.get_requests").quantity == pytest.approx(5500 * SECONDS / 1000)


def test_unknown_reads_make_no_lines() -> None:
    cost = bill({"dataset.read_rate": None, "mountpoint.cache": "none"})
    assert items(cost)[0] == "s3.standard.storage"


# S3 Files


def through_s3_files(changes: dict[str, Any]) -> dict[str, Any]:
    return {"file_access": "s3-files", "hot_tier": "none"} | changes


def test_s3_files_keeps_small_files_and_meters_at_least_32_kib() -> None:
    files, opens = 2e12 / 20e3, 32 * 0.5e6 / 20e3 * SECONDS
    size = {"dataset.file_count": None, "dataset.average_file_size": "20 KB"}
    cost = bill(through_s3_files(size | {"dataset.read_rate": {"per_accelerator": "500 KB/s"}}))
    assert only(cost, "s3_files.storage").quantity == pytest.approx(2e12 / GIB)
    assert only(cost, "s3_files.write").quantity == pytest.approx(files * (32 + 4) * 1024 / GIB)
    assert only(cost, "s3_files.read").quantity == pytest.approx(opens * (32 + 4) * 1024 / GIB)
    (get,) = lines(cost, "s3.get_requests")
    assert get.quantity == pytest.approx(files / 1000)
    assert get.once


def test_s3_files_bills_files_of_10_kib_at_least_and_whole_kib_of_larger_reads() -> None:
    tiny = bill(through_s3_files({"dataset.file_count": None, "dataset.average_file_size": "1 KiB"}))
    assert only(tiny, "s3_files.storage").quantity == pytest.approx(2e12 / 1024 * 10 * 1024 / GIB)
    odd = bill(through_s3_files({"dataset.file_count": None, "dataset.average_file_size": "65000 B"}))
    assert only(odd, "s3_files.write").quantity == pytest.approx(2e12 / 65000 * (64 + 4) * 1024 / GIB)


@pytest.mark.parametrize(("size", "kept"), [("131071 B", True), ("128 KiB", False)])
def test_s3_files_reads_files_of_128_kib_from_s3(size: str, kept: bool) -> None:
    cost = bill(through_s3_files({"dataset.file_count": None, "dataset.average_file_size": size}))
    assert ("s3_files.storage" in items(cost)) is kept
    assert only(cost, "s3.get_requests").once is kept


def test_s3_files_imports_whole_directories_whatever_part_is_hot() -> None:
    changes = through_s3_files({"dataset.file_count": None, "dataset.average_file_size": "20 KB"})
    whole, part = bill(changes), bill(changes | {"dataset.hot_fraction": 0.1})
    assert only(whole, "s3_files.write").quantity == only(part, "s3_files.write").quantity
    assert only(whole, "s3_files.storage").quantity == only(part, "s3_files.storage").quantity


def test_files_of_unknown_size_count_as_read_from_s3() -> None:
    changes = through_s3_files({"dataset.file_count": None})
    cost = bill(changes)
    assert "s3_files.write" not in items(cost)
    assert only(cost, "s3_files.read").quantity == pytest.approx(READ / (8 * MIB) * 4096 * SECONDS / GIB)
    assert assumed(changes, "files of unknown size count as large")


def test_s3_files_that_is_there_is_paid_by_use_too() -> None:
    there = {"s3_files": {"file_system_id": "fs-0123456789abcdef0", "security_group_id": "sg-0123456789abcdef0"}}
    changes = through_s3_files({"dataset.file_count": None, "dataset.average_file_size": "20 KB"} | there)
    assert only(bill(changes), "s3_files.storage").hot is False


def test_s3_files_beside_another_source_of_the_data_is_not_read() -> None:
    cost = bill(through_s3_files({"dataset.source": "s3://elsewhere/data/", "mountpoint.cache": "none"}))
    assert not [each for each in items(cost) if each.startswith("s3_files.")]
    assert only(cost, "s3.get_requests").quantity > 0


# S3 Express


EXPRESS: dict[str, Any] = {"hot_tier": "express", "dataset.interface": "object"}


@pytest.mark.parametrize(("size", "copies"), [("1 GiB", 1), ("1025 MiB", 5 + 2), ("10 GiB", 40 + 2), ("1 MB", 1)])
def test_staging_copies_large_files_in_parts(size: str, copies: int) -> None:
    changes = EXPRESS | {"dataset.file_count": None, "dataset.average_file_size": size}
    files = 2e12 / Size.parse(size).bytes
    staged = next(line for line in lines(bill(changes), "s3_express.put_requests") if line.once)
    assert staged.quantity == pytest.approx((files * copies + files / 1000) / 1000)


def test_staging_counts_as_the_command_copies() -> None:
    assert (LIMITS.single_copy_bytes, LIMITS.part_bytes) == (SINGLE_COPY_BYTES, COPY_PART_BYTES)


def test_staging_moves_the_hot_part() -> None:
    cost = bill(EXPRESS | {"dataset.hot_fraction": 0.5})
    assert only(cost, "s3_express.upload").quantity == pytest.approx(1e12 / GIB)
    assert only(cost, "s3_express.storage").quantity == pytest.approx(1e12 / GIB)


def test_files_of_unknown_number_are_staged_by_the_part() -> None:
    changes = EXPRESS | {"dataset.file_count": None}
    cost = bill(changes)
    assert only(cost, "s3_express.put_requests").quantity == pytest.approx(2e12 / (8 * MIB) / 1000)
    assert [line.once for line in lines(cost, "s3_express.get_requests")] == [False]
    assert assumed(changes, "files of unknown number are staged in parts of 8 MiB")


def test_posix_code_on_a_directory_bucket_looks_files_up() -> None:
    cost = bill({"hot_tier": "express", "checkpoints": SAVES})
    running = next(line for line in lines(cost, "s3_express.put_requests") if not line.once)
    assert running.quantity == pytest.approx((1460 * 5120 + READ / 1e9 * SECONDS) / 1000)


def test_directory_buckets_that_are_there_hold_what_this_job_puts_there() -> None:
    changes = EXPRESS | {"express.bucket_names": ["hot--use1-az6--x-s3"]}
    cost = bill(changes)
    assert only(cost, "s3_express.storage").quantity == pytest.approx(2e12 / GIB)
    assert not [line for line in cost.lines if line.hot]
    assert cost.after_run is None
    assert assumed(changes, "what this job puts into express.bucket_names")


# Network and fleet


@pytest.mark.parametrize(
    "changes", [LUSTRE, EXPRESS, through_s3_files({}), SMALL], ids=["lustre", "express", "s3-files", "shared cache"]
)
def test_nothing_crosses_zones_and_a_line_says_why(changes: dict[str, Any]) -> None:
    line = only(bill(changes), "data_transfer.cross_zone")
    assert (line.quantity, line.monthly) == (0, 0)
    assert "use1-az6" in line.label


def test_without_anything_in_a_zone_there_is_no_such_line() -> None:
    assert "data_transfer.cross_zone" not in items(bill())


def test_a_way_to_the_internet_costs_a_gateway_and_its_address() -> None:
    cost = bill()
    assert only(cost, "nat.gateway").quantity == only(cost, "vpc.public_ipv4").quantity == MONTH
    assert assumed({}, "S3 takes the gateway endpoint, which is free")


def test_without_internet_the_interface_endpoints_cost() -> None:
    cost = bill({"network.internet": "none"})
    assert only(cost, "vpc.interface_endpoint").quantity == 8 * MONTH
    assert not [each for each in items(cost) if each.startswith("nat.")]


@pytest.mark.parametrize("tables", [["rtb-0123456789abcdef0"], None])
def test_a_vpc_that_is_there_costs_nothing_more_and_what_is_not_known_is_said(tables: list[str] | None) -> None:
    network: dict[str, Any] = {"vpc_id": "vpc-0123456789abcdef0", "subnet_id": "subnet-0123456789abcdef0"}
    changes = {"network": network | ({"route_table_ids": tables} if tables else {})}
    assert not [line for line in bill(changes).lines if line.kind == "network"]
    assert assumed(changes, "its NAT gateways and endpoints are not in the bill")
    assert assumed(changes, "whether S3 traffic passes a NAT gateway is not known") is (tables is None)


BLOCK = {"purchase": "capacity-block", "start": "2026-12-01T12:00:00Z", "end": "2026-12-08T06:00:00Z"}


@pytest.mark.parametrize(
    ("purchase", "item"),
    [
        ({"purchase": "on-demand"}, "ec2.p5.48xlarge"),
        ({"purchase": "reservation", "capacity_reservation_id": "cr-0123456789abcdef0"}, "ec2.p5.48xlarge"),
        ({"purchase": "spot"}, "ec2-spot.p5.48xlarge"),
        (BLOCK | {"capacity_reservation_id": "cr-0123456789abcdef0"}, "ec2-capacity-block.p5.48xlarge"),
    ],
)
def test_instances_are_paid_as_they_are_bought(purchase: dict[str, Any], item: str) -> None:
    changes = {f"compute.{key}": value for key, value in purchase.items()}
    cost = bill(changes)
    (fleet,) = (line for line in cost.lines if line.kind == "gpu")
    assert (fleet.item, fleet.group, fleet.hourly) == (item, "compute", 4 * PRIMES[item])
    assert cost.compute_hourly == fleet.hourly
    assert [line for line in cost.lines if line.group == "compute"] == [fleet]


def test_spot_and_capacity_blocks_have_no_price_unless_the_user_gives_one() -> None:
    for purchase in ({"purchase": "spot"}, BLOCK | {"capacity_reservation_id": "cr-0123456789abcdef0"}):
        changes = {f"compute.{key}": value for key, value in purchase.items()}
        cost = plan(make(changes)).cost
        assert cost.compute_monthly is None
        assert [line.unit_price for line in cost.lines if line.kind == "gpu"] == [None]
        assert cost.monthly == cost.storage_monthly


def test_the_plan_says_what_no_bill_counts() -> None:
    for changes in ({}, LUSTRE, EXPRESS):
        assert assumed(changes, "not in the bill: volumes of nodes, CloudWatch")


@pytest.mark.parametrize("changes", [{}, LUSTRE, EXPRESS, SMALL, through_s3_files({}), LUSTRE | {"lustre": TIERING}])
def test_units_are_those_of_the_price_rows(changes: dict[str, Any]) -> None:
    book = default_catalog().prices
    rows = [(line.item, line.unit, book.price(line.item, "us-east-1")) for line in bill(changes).lines]
    known = [(item, unit, row.unit) for item, unit, row in rows if row is not None]
    assert known
    assert [each for each in known if each[1] != each[2]] == []


def test_a_user_s_price_counts() -> None:
    key = ("us-east-1", "ec2-spot.p5.48xlarge")
    row = replace(CATALOG.prices.rows[key], usd=11.0)
    catalog = replace(CATALOG, prices=replace(CATALOG.prices, rows={**CATALOG.prices.rows, key: row}))
    cost = bill({"compute.purchase": "spot"}, catalog=catalog)
    assert cost.compute_hourly == 44.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"mountpoint.cache": "nvme"}, True),
        ({"mountpoint.cache": "express", "dataset.average_file_size": "1 MB"}, True),
        ({"mountpoint.cache": "none"}, False),
        ({"mountpoint.cache": "nvme", "dataset.read_rate": {"per_accelerator": "1 MB/s"}}, False),  # no wait
    ],
)
def test_a_wait_for_s3_behind_a_cache_is_said_to_be_that_of_the_first_pass(changes: dict[str, Any], said: bool) -> None:
    slow = {
        "hot_tier": "none",
        "dataset.file_count": None,
        "dataset.average_file_size": "10 MB",
        "dataset.read_rate": {"per_accelerator": "2 GB/s"},
    }
    made = planned({**slow, **changes})
    assert any("is that of the first pass" in each for each in made.assumptions) is said
