"""Which tier: both sides of every border of the tier rules. First match wins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit._planner import CATALOG, SAVES, because, planned, refused, warning, warning_ids
from training_storage.planner.words import percent

# An instance of p5.48xlarge moves 100 Gbit/s to S3 (one of its cards carries IP): 12,500 MB/s.
# One prefix: 5,500 GET and 3,500 PUT a second of 8 MiB: 46,137.344 and 29,360.128 MB/s (Mountpoint troubleshooting).


def hot(changes: dict[str, Any]) -> str:
    return planned(changes).tiers.hot


def saves(**values: Any) -> dict[str, Any]:
    """A checkpoint of 250 GB: 10 s on two p5.48xlarge. Other bounds are wide."""
    section = {"size": "250 GB", "interval": "1d", "max_write_time": "1h", "max_restore_time": "1h", **values}
    return {"compute.instance_count": 2, "checkpoints": section}


def with_rate(instances: int, per_accelerator: str, **dataset: Any) -> dict[str, Any]:
    """Reads without file sizes: only bytes count."""
    return {
        "compute.instance_count": instances,
        "dataset.file_count": None,
        "dataset.read_rate": {"per_accelerator": per_accelerator},
        **{f"dataset.{key}": value for key, value in dataset.items()},
    }


OBJECT = {"dataset.interface": "object", "compute.instance_type": "g6.8xlarge"}  # one accelerator an instance

BORDERS: list[tuple[str, dict[str, Any], str, dict[str, Any], str]] = [
    (
        "object code from 1000 accelerators",
        {**OBJECT, "compute.instance_count": 999},
        "lustre",
        {**OBJECT, "compute.instance_count": 1000},
        "express",
    ),
    (
        "object code from 1000 accelerators on 8-GPU instances",
        {"dataset.interface": "object", "compute.instance_count": 124},
        "lustre",
        {"dataset.interface": "object", "compute.instance_count": 125},
        "express",
    ),
    (
        "POSIX code stays on Lustre at 1000 accelerators",
        {"compute.instance_count": 125},
        "lustre",
        {"compute.instance_count": 125, "dataset.interface": "object"},
        "express",
    ),
    (
        "object code in a zone without S3 Express",
        {"dataset.interface": "object", "compute.instance_count": 125, "availability_zone_id": "use1-az2"},
        "lustre",
        {"dataset.interface": "object", "compute.instance_count": 125, "availability_zone_id": "use1-az5"},
        "express",
    ),
    ("more than 16 instances", {"compute.instance_count": 16}, "none", {"compute.instance_count": 17}, "lustre"),
    (
        "reads against the network of one instance",
        with_rate(1, "1562.5 MB/s"),
        "none",
        with_rate(1, "1562.6 MB/s"),
        "lustre",
    ),
    (
        "reads against the network of two instances",
        with_rate(2, "1562.5 MB/s"),
        "none",
        with_rate(2, "1562.6 MB/s"),
        "lustre",
    ),
    (
        "reads against one prefix",
        with_rate(4, "1441.792 MB/s"),
        "none",
        with_rate(4, "1441.8 MB/s"),
        "lustre",
    ),
    (
        "reads against the network where that is the row of Mountpoint's table",
        # g6.8xlarge: 25 Gbit/s.
        {**with_rate(2, "3125 MB/s"), "compute.instance_type": "g6.8xlarge"},
        "none",
        {**with_rate(2, "3126 MB/s"), "compute.instance_type": "g6.8xlarge"},
        "lustre",
    ),
    (
        "an open and one part for each file of 1 MB",
        {
            "dataset.file_count": None,
            "dataset.average_file_size": "1 MB",
            "dataset.read_rate": {"per_accelerator": "85.9375 MB/s"},
        },
        "none",
        {
            "dataset.file_count": None,
            "dataset.average_file_size": "1 MB",
            "dataset.read_rate": {"per_accelerator": "85.95 MB/s"},
        },
        "lustre",
    ),
    (
        "a file one byte larger than a part takes two",
        {
            "dataset.file_count": None,
            "dataset.average_file_size": "8 MiB",
            "dataset.read_rate": {"per_accelerator": "500 MB/s"},
        },
        "none",
        {
            "dataset.file_count": None,
            "dataset.average_file_size": "8388609 B",
            "dataset.read_rate": {"per_accelerator": "500 MB/s"},
        },
        "lustre",
    ),
    (
        "a save as long as max_write_time, by the network",
        saves(max_write_time="10s"),
        "none",
        saves(max_write_time="9.99s"),
        "lustre",
    ),
    (
        "a save as long as max_write_time, by one prefix",
        {**saves(size="293601280000 B", max_write_time="10s"), "compute.instance_count": 8},
        "none",
        {**saves(size="293.7 GB", max_write_time="10s"), "compute.instance_count": 8},
        "lustre",
    ),
    (
        "a restore as long as max_restore_time",
        saves(max_restore_time="10s"),
        "none",
        saves(max_restore_time="9.99s"),
        "lustre",
    ),
    (
        "a restore by several readers",
        saves(max_restore_time="20s", restore_readers=2),
        "none",
        saves(max_restore_time="20s", restore_readers=3),
        "lustre",
    ),
    (
        "an asynchronous save that ends before the next one",
        saves(interval="10.1s", asynchronous=True),
        "none",
        saves(interval="10s", asynchronous=True),
        "lustre",
    ),
    (
        "a synchronous stall under 1 %",
        saves(interval="991s"),
        "none",
        saves(interval="990s"),
        "lustre",
    ),
    (
        "a synchronous stall under max_stall",
        saves(interval="491s", max_stall=0.02),
        "none",
        saves(interval="490s", max_stall=0.02),
        "lustre",
    ),
    (
        "asynchronous saves do not stall",
        saves(interval="100s", asynchronous=True),
        "none",
        saves(interval="100s"),
        "lustre",
    ),
    (
        # mtbf 50,000 h / 8192; interval sqrt(2 w mtbf), w 10 s; stall under 2 % from about 9 h of mtbf on.
        "interval auto: stall by the failure rate",
        saves(interval="auto", max_stall=0.0009),
        "none",
        saves(interval="auto", max_stall=0.0006),
        "lustre",
    ),
    (
        # g6.8xlarge has 2 x 450 GB.
        "local NVMe for two checkpoints",
        {**saves(size="450 GB"), "compute.instance_type": "g6.8xlarge", "compute.instance_count": 1},
        "none",
        {**saves(size="450.1 GB"), "compute.instance_type": "g6.8xlarge", "compute.instance_count": 1},
        "lustre",
    ),
    (
        "local NVMe counts for POSIX code only",
        {**saves(size="1 GB"), "compute.instance_type": "inf2.48xlarge", "dataset.interface": "object"},
        "none",
        {**saves(size="1 GB"), "compute.instance_type": "inf2.48xlarge"},
        "lustre",
    ),
    (
        "local NVMe counts for saves only",
        {"compute.instance_type": "inf2.48xlarge", "compute.instance_count": 1},
        "none",
        {"compute.instance_type": "inf2.48xlarge", "compute.instance_count": 1, "checkpoints": SAVES},
        "lustre",
    ),
    (
        # S3 Files: 3 GiB/s a client, 3,221.225472 MB/s.
        "reads through S3 Files where the job writes in the data tree",
        with_rate(1, "402.65 MB/s", access="read-write"),
        "none",
        with_rate(1, "402.66 MB/s", access="read-write"),
        "lustre",
    ),
    (
        "S3 Files is slower than Mountpoint",
        with_rate(1, "500 MB/s"),
        "none",
        with_rate(1, "500 MB/s", access="read-write"),
        "lustre",
    ),
    (
        # 250 GB at 2 x 3,221 MB/s: 38.8 s.
        "a restore through S3 Files reads at its rate",
        saves(max_restore_time="20s"),
        "none",
        {**saves(max_restore_time="20s"), "dataset.access": "read-write"},
        "lustre",
    ),
    (
        "saves beside S3 Files go to S3 at its own rate",
        {**saves(max_write_time="10s"), "dataset.access": "read-write"},
        "none",
        {**saves(max_write_time="9.99s"), "dataset.access": "read-write"},
        "lustre",
    ),
    (
        "a job that writes in the data tree, in a region without S3 Files",
        {"region": "me-central-1", "availability_zone_id": "mec1-az1"},
        "none",
        {"region": "me-central-1", "availability_zone_id": "mec1-az1", "dataset.access": "read-write"},
        "lustre",
    ),
]


@pytest.mark.parametrize(
    ("below", "tier_below", "above", "tier_above"), [case[1:] for case in BORDERS], ids=[case[0] for case in BORDERS]
)
def test_both_sides_of_a_border(below: dict[str, Any], tier_below: str, above: dict[str, Any], tier_above: str) -> None:
    assert (hot(below), hot(above)) == (tier_below, tier_above)


def test_a_demand_that_is_not_given_is_not_counted() -> None:
    assert hot({"dataset.read_rate": None, "dataset.file_count": None, "dataset.size": "900 TB"}) == "none"


def test_first_match_wins_over_what_s3_would_serve() -> None:
    made = planned({"compute.instance_count": 17, "checkpoints": SAVES})
    assert made.tiers.hot == "lustre"
    assert "s3-would-serve" in warning_ids(made)
    assert "USD a month" in warning(made, "s3-would-serve")


WOULD_SERVE: list[dict[str, Any]] = [
    {"compute.instance_count": 17, "checkpoints": SAVES},
    {"dataset.interface": "object", "compute.instance_count": 125},
    {"compute.instance_count": 17, "dataset.access": "read-write"},  # S3 Files
    {"compute.instance_count": 17, "dataset.average_file_size": "5 MB", "dataset.file_count": None},
    {"compute.instance_count": 17, "mountpoint.cache": "express", "availability_zone_id": "use1-az6"},
]


@pytest.mark.parametrize("changes", WOULD_SERVE)
def test_s3_would_serve_says_both_costs_by_the_bills(changes: dict[str, Any]) -> None:
    made, without = planned(changes), planned({**changes, "hot_tier": "none"})
    text = warning(made, "s3-would-serve")
    costs = (made.cost.storage_monthly, without.cost.storage_monthly)
    assert None not in costs
    name = {"lustre": "Lustre", "express": "S3 Express"}[made.tiers.hot]
    assert f"with {name} {costs[0]:,.0f} USD a month, without a hot tier {costs[1]:,.0f} USD a month" in text
    assert not any("looks a file up" in each for each in made.assumptions)  # nothing of the other bill is said here
    assert [each.option for each in made.decisions if each.rule == "mountpoint.cache"].count("nvme") <= 1


SMALL_FILES: dict[str, Any] = {
    "compute.instance_count": 8,
    "dataset.size": "20 TB",
    "dataset.file_count": None,
    "dataset.average_file_size": "2 MB",
    "dataset.read_rate": {"per_accelerator": "60 MB/s"},
}
"""1,920 opens a second: S3 serves them, and a LIST and a HEAD of each cost more than a file system."""


def test_requests_that_cost_more_than_a_file_system_are_named_with_both_bills() -> None:
    made, with_lustre = planned(SMALL_FILES), planned({**SMALL_FILES, "hot_tier": "lustre"})
    assert made.tiers.hot == "none"
    ours, theirs = made.cost.storage_monthly, with_lustre.cost.storage_monthly
    assert ours is not None
    assert theirs is not None
    assert theirs < ours
    text = warning(made, "lustre-would-be-cheaper")
    assert f"are {ours:,.0f} USD a month, " in text
    assert f"hot_tier: lustre they would be {theirs:,.0f} USD a month" in text
    assert not any("hot tier" in each and "lustre" in each for each in made.assumptions)
    assert {each.rule for each in made.decisions}.isdisjoint({"lustre.configuration", "lustre.efa"})


@pytest.mark.parametrize(
    "changes",
    [
        {"dataset.average_file_size": "100 MB"},  # few requests
        {"hot_tier": "none"},  # asked for
        {"hot_tier": "lustre"},
        {"region": "us-east-2", "availability_zone_id": "use2-az1"},  # requests have no price
        {"dataset.size": "3000 TB"},  # a file system that holds them costs more
    ],
)
def test_nothing_is_said_of_a_file_system_that_is_not_cheaper(changes: dict[str, Any]) -> None:
    assert "lustre-would-be-cheaper" not in warning_ids(planned({**SMALL_FILES, **changes}))


def test_saves_that_stay_on_the_nodes_are_warned_of() -> None:
    made = planned({"checkpoints": SAVES})
    assert made.paths.checkpoints == "/opt/dlami/nvme/checkpoints"
    assert "/opt/dlami/nvme/checkpoints" in warning(made, "saves-on-nodes")
    for changes in (
        {},
        {"checkpoints": SAVES, "hot_tier": "lustre"},
        {"checkpoints": SAVES, "dataset.interface": "object"},
    ):
        assert "saves-on-nodes" not in warning_ids(planned(changes))


def test_requests_of_one_prefix_are_an_assumption_where_they_decide() -> None:
    many = {**SMALL_FILES, "dataset.average_file_size": "200 KB"}
    assert any("one prefix of the bucket, which serves 5,500" in each for each in planned(many).assumptions)
    assert not any("one prefix of the bucket" in each for each in planned(SMALL_FILES).assumptions)


def test_s3_would_serve_knows_no_cost_where_a_line_has_no_price() -> None:
    # The region has rows of Lustre and none of S3: a part of the bill is no cost to compare.
    there = {"region": "us-east-2", "availability_zone_id": "use2-az1", "compute.instance_count": 17}
    text = warning(planned(there), "s3-would-serve")
    assert "with Lustre price not known, without a hot tier price not known" in text


def test_s3_would_serve_says_what_it_does_not_do() -> None:
    # Each accelerator has one read of 1 MB in flight, and S3 takes 200 ms to open and 200 ms to the first byte.
    changes = {
        "compute.instance_count": 17,
        "dataset.file_count": None,
        "dataset.read_rate": {"samples": {"size": "1 MB", "per_second_per_accelerator": 10}},
        "dataset.loader": {"workers_per_accelerator": 1, "prefetch": 1},
    }
    made, without = planned(changes), planned({**changes, "hot_tier": "none"})
    assert made.prediction.data_wait_fraction == 0
    wait = without.prediction.data_wait_fraction
    assert wait is not None
    assert wait > 0.5
    assert f"wait for data {percent(wait)} of the time there, for latency" in warning(made, "s3-would-serve")
    plain = planned({"compute.instance_count": 17})
    assert "wait" not in warning(plain, "s3-would-serve")


@pytest.mark.parametrize(
    "changes",
    [
        {"hot_tier": "lustre"},  # asked for
        {"compute.instance_count": 17, **with_rate(17, "1000 MB/s")},  # S3 does not serve it
        {},  # no hot tier
        # nothing that could write in the data tree
        {
            "region": "me-central-1",
            "availability_zone_id": "mec1-az1",
            "compute.instance_count": 17,
            "dataset.access": "read-write",
        },
        # hot_tier: none would be refused: no rename, nothing mounted, S3 Files without versions, in another bucket
        {"compute.instance_count": 17, "dataset.access": "read-write", "file_access": "mountpoint"},
        {"compute.instance_count": 17, "file_access": "none"},
        {"compute.instance_count": 17, "dataset.access": "read-write", "data_lake.versioned": False},
        {"compute.instance_count": 17, "dataset.access": "read-write", "dataset.source": "s3://other-bucket/data/"},
    ],
)
def test_s3_would_serve_is_said_only_where_a_rule_decided_against_it(changes: dict[str, Any]) -> None:
    assert "s3-would-serve" not in warning_ids(planned(changes))


def test_lustre_that_saves_slower_than_s3_says_both_times() -> None:
    made = planned({"compute.instance_count": 17, "checkpoints": SAVES})
    assert made.prediction.checkpoint_write_s is not None
    text = warning(made, "slower-than-s3")
    assert "on S3 1.46 s" in text  # 40 GiB at 29,360 MB/s


def test_faster_lustre_gives_no_warning() -> None:
    made = planned({"compute.instance_count": 17, "checkpoints": {**SAVES, "interval": "1m", "max_stall": 0.01}})
    assert "slower-than-s3" not in warning_ids(made)


@pytest.mark.parametrize(
    ("checkpoints", "there"),
    [
        # Equal at an interval of 5,940 s: 5,940 x 0.01 / 0.99 = 60 s.
        ({"interval": "5940s"}, False),
        ({"interval": "5939s"}, True),
        ({"interval": "5941s"}, False),
        ({"interval": "60s", "asynchronous": True}, False),
    ],
)
def test_stall_bound_is_said_where_the_stall_sets_the_write_rate(checkpoints: dict[str, Any], there: bool) -> None:
    made = planned({"hot_tier": "lustre", "checkpoints": {"size": "1 TB", **checkpoints}})
    assert ("stall-bound" in warning_ids(made)) is there


def test_stall_bound_gives_the_price_at_max_write_time_and_the_advice() -> None:
    changes = {"compute.instance_count": 17, "checkpoints": {"size": "1 TB", "interval": "10m"}}
    made = planned(changes)
    # The same demand with the write rate of max_write_time: a save that the stall does not bind.
    relaxed = planned({**changes, "checkpoints": {"size": "1 TB", "interval": "10d"}})
    assert made.lustre is not None
    assert relaxed.lustre is not None
    text = warning(made, "stall-bound")
    assert f"{made.lustre.ranking_usd_per_month:,.0f} USD a month" in text
    assert f"at max_write_time {relaxed.lustre.ranking_usd_per_month:,.0f} USD a month" in text
    assert "asynchronous" in text


def test_stall_bound_belongs_to_lustre() -> None:
    made = planned({"dataset.interface": "object", "compute.instance_count": 125, "checkpoints": SAVES})
    assert made.tiers.hot == "express"
    assert "stall-bound" not in warning_ids(made)


@pytest.mark.parametrize("given", ["none", "lustre", "express"])
def test_a_given_hot_tier_is_taken_whatever_the_rules_say(given: str) -> None:
    made = planned({"compute.instance_count": 130, "dataset.interface": "object", "hot_tier": given})
    assert made.tiers.hot == given
    assert because(made, "hot-tier", given)[0] == "chosen"


def test_a_given_none_that_does_not_serve_names_what_it_misses() -> None:
    made = planned({**with_rate(4, "2 GB/s"), "hot_tier": "none"})
    text = warning(made, "s3-too-small")
    assert "64,000 MB/s" in text
    assert "50,000 MB/s" in text


def test_a_given_express_in_a_zone_without_it_names_the_zones() -> None:
    (problem,) = refused({"hot_tier": "express", "dataset.interface": "object", "availability_zone_id": "use1-az2"})
    assert problem.path == "hot_tier"
    assert all(zone in problem.allowed for zone in CATALOG.regions["us-east-1"].express_zone_ids)
    assert problem.fix.endswith("choose another zone")


def test_a_given_express_in_a_region_without_it_sends_to_another_region() -> None:
    place = {"region": "cn-north-1", "availability_zone_id": "cnn1-az1", "compute.instance_type": "p4d.24xlarge"}
    (problem,) = refused({"hot_tier": "express", "dataset.interface": "object", **place})
    assert problem.fix.endswith("choose another region")


def test_posix_saves_without_hot_tier_need_local_nvme() -> None:
    (problem,) = refused({"compute.instance_type": "inf2.48xlarge", "hot_tier": "none", "checkpoints": SAVES})
    assert problem.path == "hot_tier"
    assert "inf2.48xlarge" in problem.what


@pytest.mark.parametrize(
    ("changes", "access"),
    [
        ({}, "mountpoint"),
        ({"dataset.interface": "object"}, "none"),
        ({"dataset.access": "read-write"}, "s3-files"),
        ({"dataset.interface": "object", "dataset.access": "read-write"}, "none"),
        ({"hot_tier": "lustre"}, "mountpoint"),
        ({"hot_tier": "lustre", "dataset.access": "read-write"}, "mountpoint"),
        ({"hot_tier": "lustre", "dataset.interface": "object"}, "none"),
        ({"hot_tier": "express"}, "mountpoint"),
        ({"hot_tier": "express", "dataset.interface": "object"}, "none"),
        ({"file_access": "s3-files"}, "s3-files"),
        ({"file_access": "mountpoint", "dataset.interface": "object"}, "mountpoint"),
        ({"file_access": "none", "hot_tier": "lustre"}, "none"),
    ],
)
def test_file_access(changes: dict[str, Any], access: str) -> None:
    assert planned(changes).tiers.file_access == access


@pytest.mark.parametrize(
    ("changes", "path", "names"),
    [
        ({"file_access": "none"}, "file_access", "nothing is mounted"),
        ({"file_access": "none", "hot_tier": "none"}, "file_access", "nothing is mounted"),
        ({"file_access": "mountpoint", "dataset.access": "read-write"}, "file_access", "rename"),
        ({"file_access": "mountpoint", "dataset.access": "read-write", "hot_tier": "express"}, "file_access", "rename"),
        ({"dataset.access": "read-write", "hot_tier": "express"}, "hot_tier", "rename"),
        (
            {"region": "me-central-1", "availability_zone_id": "mec1-az1", "file_access": "s3-files"},
            "file_access",
            "no S3 Files",
        ),
        (
            {
                "region": "me-central-1",
                "availability_zone_id": "mec1-az1",
                "dataset.access": "read-write",
                "hot_tier": "none",
            },
            "hot_tier",
            "no S3 Files",
        ),
        ({"file_access": "s3-files", "data_lake": {"versioned": False}}, "data_lake.versioned", "versioned"),
        ({"dataset.access": "read-write", "s3_files": {"read_only": True}}, "s3_files.read_only", "read-only"),
        (
            {"dataset.access": "read-write", "dataset.source": "s3://elsewhere/data/"},
            "dataset.source",
            "data lake only",
        ),
    ],
)
def test_what_cannot_be_mounted_is_refused(changes: dict[str, Any], path: str, names: str) -> None:
    (problem,) = refused(changes)
    assert problem.path == path
    assert names in problem.what
    assert problem.fix


def test_a_region_whose_s3_files_is_not_known_counts_as_having_it() -> None:
    made = planned({"region": "me-south-1", "availability_zone_id": "mes1-az1", "dataset.access": "read-write"})
    assert made.tiers.file_access == "s3-files"
    assert any("S3 Files" in line for line in made.assumptions)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"compute.instance_count": 17},
        {"dataset.interface": "object", "compute.instance_count": 125},
        {"hot_tier": "lustre"},
        {"dataset.access": "read-write"},
    ],
)
def test_every_option_has_one_verdict_with_a_reason(changes: dict[str, Any]) -> None:
    made = planned(changes)
    for rule, options in (
        ("hot-tier", {"none", "lustre", "express"}),
        ("file-access", {"none", "mountpoint", "s3-files"}),
    ):
        looked_at = [each for each in made.decisions if each.rule == rule]
        assert {each.option for each in looked_at} == options
        assert len(looked_at) == len(options)
        assert [each.option for each in looked_at if each.verdict == "chosen"] == [
            made.tiers.hot if rule == "hot-tier" else made.tiers.file_access
        ]
        assert all(each.because for each in looked_at)


@pytest.mark.parametrize(
    ("saves_size", "rate", "buckets"),
    [
        # PUT: 8 MiB parts, 100,000 a second a bucket: 838.8608 GB/s. GET: 200,000 a second.
        ("838 GB", "1 MB/s", 1),
        ("839 GB", "1 MB/s", 2),
        ("1 GB", "1.6 GB/s", 1),
        ("1 GB", "1.7 GB/s", 2),
    ],
)
def test_directory_buckets_by_request_rate(saves_size: str, rate: str, buckets: int) -> None:
    made = planned(
        {
            **with_rate(125, rate),
            "dataset.interface": "object",
            "checkpoints": {"size": saves_size, "max_write_time": "1s", "interval": "1d", "max_restore_time": "1d"},
        }
    )
    assert made.express is not None
    assert made.express.bucket_count == buckets
    assert made.express.availability_zone_id == "use1-az6"


def test_restores_count_as_reads_of_a_directory_bucket() -> None:
    section = {"size": "1700 GB", "max_write_time": "1h", "interval": "10d", "max_restore_time": "1s"}
    made = planned({"dataset.interface": "object", "compute.instance_count": 125, "checkpoints": section})
    assert made.express is not None
    assert made.express.bucket_count == 2  # 1700 GB/s of 8 MiB: 202,656 GET a second


@pytest.mark.parametrize(
    ("checkpoints", "missed"),
    # 125 p5.48xlarge move 1,562,500 MB/s.
    [
        ({"size": "93 TB", "interval": "1d", "max_write_time": "60s"}, ()),
        ({"size": "94 TB", "interval": "1d", "max_write_time": "60s"}, ("60.2 s", "max_write_time is 60 s")),
        ({"size": "94 TB", "interval": "1d", "max_write_time": "2m", "max_restore_time": "1m"}, ("max_restore_time",)),
        ({"size": "40 TB", "interval": "30m"}, ("1.4 %", "max_stall is 1 %")),
        ({"size": "40 TB", "interval": "30m", "asynchronous": True}, ()),
    ],
)
def test_what_saves_to_express_miss_is_named(checkpoints: dict[str, Any], missed: tuple[str, ...]) -> None:
    made = planned({"compute.instance_count": 125, "dataset.interface": "object", "checkpoints": checkpoints})
    assert made.tiers.hot == "express"
    assert ("express-too-slow" in warning_ids(made)) is bool(missed)
    assert all(each in warning(made, "express-too-slow") for each in missed)
