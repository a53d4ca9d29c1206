"""The published tables behind a plan, read off plans: what is typed here is the table, what is asked is the planner.

Sources: FSx for Lustre User Guide (performance, using-fsx-lustre, managing-metadata-performance, configure-efa-clients,
ssd-storage), FSx API model, MLPerf Storage configurations, S3 performance guidance, guidance of AWS China Summit 2026.
"""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.unit._planner import CATALOG, planned, refused, warning, warning_ids
from training_storage.planner import LustrePlan, Plan

SMALL = {"dataset.size": "100 GB", "dataset.file_count": None, "hot_tier": "lustre"}


def lustre_of(changes: dict[str, Any]) -> LustrePlan:
    part = planned(SMALL | changes).lustre
    assert part is not None
    return part


def capacity(gib: int, **more: Any) -> dict[str, Any]:
    return {"lustre": {"storage_capacity": f"{gib} GiB", **more}}


# -- throughput and capacity (section 1 of the User Guide's tables)

# Deployment, storage, tier, baseline disk MB/s per TiB read and written.
THROUGHPUT = [
    ("SCRATCH_2", "SSD", None, 200, 100),
    ("PERSISTENT_2", "SSD", 125, 125, 125),
    ("PERSISTENT_2", "SSD", 250, 250, 250),
    ("PERSISTENT_2", "SSD", 500, 500, 500),
    ("PERSISTENT_2", "SSD", 1000, 1000, 1000),
    ("PERSISTENT_1", "SSD", 50, 50, 50),
    ("PERSISTENT_1", "SSD", 100, 100, 100),
    ("PERSISTENT_1", "SSD", 200, 200, 200),
    ("PERSISTENT_1", "HDD", 12, 12, 12),
    ("PERSISTENT_1", "HDD", 40, 40, 40),
]


@pytest.mark.parametrize(("deployment", "storage", "tier", "read", "write"), THROUGHPUT)
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_baseline_throughput_of_a_tib(
    deployment: str, storage: str, tier: int | None, read: int, write: int, steps: int
) -> None:
    step = {12: 6000, 40: 1800}[tier or 0] if storage == "HDD" else 2400
    given = {"deployment_type": deployment, "storage_type": storage, "per_unit_storage_throughput": tier}
    part = lustre_of(capacity(step * steps, **{key: value for key, value in given.items() if value is not None}))
    assert part.throughput_mb_per_s == pytest.approx(step * steps / 1024 * read)
    assert part.write_throughput_mb_per_s == pytest.approx(step * steps / 1024 * write)


@pytest.mark.parametrize(
    ("gib", "given", "mb_per_s"),
    # The guide's examples and the quota: TiB of 1024 GiB. 1.2 "TiB" at 200 are 234; 1200 GiB at 500 are 586, not 600.
    [
        (1200, {"deployment_type": "PERSISTENT_1", "per_unit_storage_throughput": 200}, 234.4),
        (1200, {"per_unit_storage_throughput": 500}, 585.9),
        (1200, {"per_unit_storage_throughput": 250}, 293.0),
        (100_800, {"per_unit_storage_throughput": 1000}, 98_437.5),
    ],
)
def test_published_examples_of_throughput(gib: int, given: dict[str, Any], mb_per_s: float) -> None:
    assert lustre_of(capacity(gib, **given)).throughput_mb_per_s == pytest.approx(mb_per_s, abs=0.05)


@pytest.mark.parametrize(("gib", "warned"), [(100_800, False), (103_200, True)])
def test_default_quota_of_the_account(gib: int, warned: bool) -> None:
    made = planned(SMALL | capacity(gib, per_unit_storage_throughput=1000, efa=False))
    assert ("lustre-quota" in warning_ids(made)) is warned


# Deployment, storage, tier, EFA, sizes below the step, step.
GRIDS: list[tuple[str, str, int | None, bool, tuple[int, ...], int]] = [
    ("SCRATCH_2", "SSD", None, False, (1200,), 2400),
    ("PERSISTENT_1", "SSD", 50, False, (1200,), 2400),
    ("PERSISTENT_1", "SSD", 200, False, (1200,), 2400),
    ("PERSISTENT_1", "HDD", 12, False, (), 6000),
    ("PERSISTENT_1", "HDD", 40, False, (), 1800),
    ("PERSISTENT_2", "SSD", 125, False, (1200,), 2400),
    ("PERSISTENT_2", "SSD", 1000, False, (1200,), 2400),
    ("PERSISTENT_2", "SSD", 125, True, (), 38_400),
    ("PERSISTENT_2", "SSD", 250, True, (), 19_200),
    ("PERSISTENT_2", "SSD", 500, True, (), 9600),
    ("PERSISTENT_2", "SSD", 1000, True, (), 4800),
]


@pytest.mark.parametrize(("deployment", "storage", "tier", "efa", "first", "step"), GRIDS)
def test_sizes_that_fsx_takes_are_planned_and_no_others(
    deployment: str, storage: str, tier: int | None, efa: bool, first: tuple[int, ...], step: int
) -> None:
    given: dict[str, Any] = {"deployment_type": deployment, "storage_type": storage}
    given |= {"efa": True} if efa else {}
    given |= {"per_unit_storage_throughput": tier} if tier else {}
    for gib in {*first, step, 2 * step, 5 * step}:
        assert lustre_of(capacity(gib, **given)).storage_capacity_gib == gib
    for gib in {600, 1199, 1201, step - 600, step + 600, 2 * step + 600} - {*first, step}:
        assert "lustre.storage_capacity" in {each.path for each in refused(SMALL | capacity(gib, **given))}


@pytest.mark.parametrize(
    ("gib", "given", "servers", "addresses"),
    # "Server" in the scratch table counts the metadata server: 2 at 1.2 to 2.4 "TiB", 22 at 50.4.
    [
        (1200, {"deployment_type": "SCRATCH_2"}, 1, 2),
        (2400, {"deployment_type": "SCRATCH_2"}, 1, 2),
        (4800, {"deployment_type": "SCRATCH_2"}, 2, 3),
        (9600, {"deployment_type": "SCRATCH_2"}, 4, 5),
        (50_400, {"deployment_type": "SCRATCH_2"}, 21, 22),
        # 40 file servers and 4 metadata servers of 12,000 IOPS.
        (96_000, {"per_unit_storage_throughput": 1000, "efa": False}, 40, 44),
        (96_000, {"per_unit_storage_throughput": 1000, "efa": True}, 20, 24),
        (38_400, {"per_unit_storage_throughput": 125, "efa": True}, 1, 2),
        (18_000, {"deployment_type": "PERSISTENT_1", "storage_type": "HDD", "per_unit_storage_throughput": 12}, 3, 4),
        (18_000, {"deployment_type": "PERSISTENT_1", "storage_type": "HDD", "per_unit_storage_throughput": 40}, 10, 11),
    ],
)
def test_servers_and_addresses(gib: int, given: dict[str, Any], servers: int, addresses: int) -> None:
    part = lustre_of(capacity(gib, **given))
    assert (part.servers, part.ip_addresses) == (servers, addresses)


@pytest.mark.parametrize(
    ("required_mb", "bought", "servers"), [(1, 4000, 1), (4000, 4000, 1), (4001, 8000, 2), (12_000, 12_000, 3)]
)
def test_intelligent_tiering_is_bought_in_steps_of_4000(required_mb: int, bought: int, servers: int) -> None:
    part = lustre_of(
        {
            "compute.instance_count": 32,
            "dataset.read_rate": {"per_accelerator": f"{required_mb / 256!r} MB/s"},
            "lustre": {"storage_type": "INTELLIGENT_TIERING", "links": [], "read_cache": "proportional"},
        }
    )
    assert (part.throughput_capacity_mb_per_s, part.servers) == (bought, servers)


# -- metadata


@pytest.mark.parametrize(
    ("gib", "iops"),
    [
        (1200, 1500),
        (2400, 3000),
        (4800, 6000),
        (9600, 6000),
        (12_000, 12_000),
        (45_600, 12_000),
        (48_000, 24_000),
        (69_600, 24_000),
        (72_000, 36_000),
        (96_000, 48_000),
        (384_000, 192_000),
        (480_000, 192_000),
    ],
)
def test_automatic_metadata_and_the_opens_that_it_serves(gib: int, iops: int) -> None:
    def part(opens: float) -> LustrePlan:
        rate = {"samples": {"size": "1 KB", "per_second_per_accelerator": opens / 32}}
        return lustre_of({"dataset.read_rate": rate, **capacity(gib, per_unit_storage_throughput=1000, efa=False)})

    enough = part(2 * iops)
    assert (enough.metadata_mode, enough.metadata_iops) == ("AUTOMATIC", iops)
    more = part(2 * iops + 2)
    following = {1500: 3000, 3000: 6000, 6000: 12_000}.get(iops, min(iops + 12_000, 192_000))
    assert (more.metadata_mode, more.metadata_iops) == ("USER_PROVISIONED", following)


def test_a_million_opens_are_more_than_any_file_system_serves() -> None:
    made = planned(SMALL | {"dataset.read_rate": {"samples": {"size": "1 KB", "per_second_per_accelerator": 31_250}}})
    assert made.lustre is not None
    assert made.lustre.metadata_iops == 192_000
    said = warning(made, "metadata-short")
    assert all(each in said for each in ("1,000,000", "384,000", "616,000", "shards"))


# -- clients

# Type, Gbit/s, cards, EFA connections that a client opens, clients of one file system, GPUDirect Storage.
EFA_CLIENTS = [
    ("p5.4xlarge", 100, 1, 1, 1024, False),
    ("p5.48xlarge", 3200, 32, 8, 128, True),
    ("p5en.48xlarge", 3200, 16, 8, 128, True),
    ("p6-b200.48xlarge", 3200, 8, 8, 128, True),
    ("p6-b300.48xlarge", 6400, 17, 16, 64, False),
    ("g6.8xlarge", 25, 1, 1, 1024, False),
    ("g6.48xlarge", 100, 1, 1, 1024, False),
    ("g6e.24xlarge", 200, 2, 2, 512, False),
    ("g6e.48xlarge", 400, 4, 2, 512, False),
]


@pytest.mark.parametrize(("name", "gbps", "cards", "connections", "clients", "gds"), EFA_CLIENTS)
def test_what_one_client_moves_over_efa(
    name: str, gbps: int, cards: int, connections: int, clients: int, gds: bool
) -> None:
    def part(count: int, **lustre: Any) -> LustrePlan:
        return lustre_of(
            {"compute": {"instance_type": name, "instance_count": count}, "lustre": {"efa": True, **lustre}}
        )

    limit = gbps * 125 * connections / cards
    for count in (1, clients):
        found = part(count)
        assert found.efa_interfaces_per_client == connections
        assert found.client_limit_mb_per_s == pytest.approx(min(limit, 700 * 125))
    if gds:
        assert part(1, gds=True).client_limit_mb_per_s == pytest.approx(min(limit, 1200 * 125))
    else:
        problems = refused(
            SMALL | {"compute": {"instance_type": name, "instance_count": 1}, "lustre": {"efa": True, "gds": True}}
        )
        assert "lustre.gds" in {each.path for each in problems}


@pytest.mark.parametrize("name", ["p4d.24xlarge", "p4de.24xlarge", "trn2.48xlarge", "g5.48xlarge", "p3dn.24xlarge"])
def test_types_that_fsx_does_not_serve_over_efa(name: str) -> None:
    """However large the demand: 100 Gbit/s a client, and 5 of them from each file server."""
    made = planned(
        {
            "compute": {"instance_type": name, "instance_count": 20},
            "dataset.read_rate": {"per_accelerator": "3 GB/s"},
            "hot_tier": "lustre",
        }
    )
    assert made.lustre is not None
    assert not made.lustre.efa
    network = CATALOG.instance_types[name].network_gbps
    assert made.lustre.client_limit_mb_per_s == 125 * min(100, network, 5 * made.lustre.servers)


@pytest.mark.parametrize(("servers", "gbps"), [(1, 5), (2, 10), (10, 50), (19, 95), (20, 100), (42, 100)])
def test_a_tcp_client_needs_twenty_servers_for_its_100_gbps(servers: int, gbps: int) -> None:
    part = lustre_of(capacity(2400 * servers, per_unit_storage_throughput=1000, efa=False))
    assert part.client_limit_mb_per_s == gbps * 125


# -- demand: MLPerf Storage, overheads of saving


@pytest.mark.parametrize(
    ("model", "instance_type", "per_second_at_full_use", "threshold"),
    # Files a second and accelerator; one sample a file.
    [
        ("cosmoflow", "p5.48xlarge", 286, 0.7),
        ("retinanet", "p6-b200.48xlarge", 505, 0.85),
        ("unet3d", "p5.48xlarge", 21.7, 0.9),
    ],
)
def test_files_a_second_that_one_accelerator_opens(
    model: str, instance_type: str, per_second_at_full_use: float, threshold: float
) -> None:
    row = CATALOG.reference(model, CATALOG.instance_types[instance_type].accelerator_model)
    assert row is not None
    made = planned(
        {
            "compute.instance_type": instance_type,
            "dataset.file_count": None,
            "dataset.average_file_size": f"{row.sample_bytes} B",
            "dataset.read_rate": {"reference": model},
        }
    )
    assert made.demand.file_opens_per_s is not None
    assert made.demand.file_opens_per_s / made.accelerators == pytest.approx(
        per_second_at_full_use * threshold, rel=0.005
    )


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05])
@pytest.mark.parametrize("interval_s", [600, 1800, 7200])
def test_write_rate_for_a_share_of_the_time(share: float, interval_s: int) -> None:
    """Published as size / (e x dt), the first order: counted is the share of the time with the save in it, 1 - e less.

    The mean rate, size / dt, is what the disks carry over time, and far below.
    """
    made = planned(
        {
            "compute.instance_count": 32,
            "checkpoints": {
                "size": "1 TB",
                "interval": f"{interval_s}s",
                "max_write_time": f"{interval_s}s",
                "max_stall": share,
            },
        }
    )
    first_order = 1e6 / (share * interval_s)
    write = made.demand.checkpoint_write_mb_per_s
    assert write == pytest.approx(first_order * (1 - share))
    assert write is not None
    assert write > 10 * 1e6 / interval_s
    # And the plan keeps to the share.
    assert made.prediction.checkpoint_stall_fraction is not None
    assert made.prediction.checkpoint_stall_fraction <= share * (1 + 1e-9)


# -- S3, S3 Express, S3 Files


def s3_plan(changes: dict[str, Any]) -> Plan:
    return planned({"dataset.interface": "object", "hot_tier": "none", **changes})


def test_one_prefix_serves_5500_reads_and_3500_writes_a_second() -> None:
    """Parts of 8 MiB: 46,137 MB/s of reads and 29,360 MB/s of saves, however many instances ask."""
    made = s3_plan(
        {
            "compute.instance_count": 16,
            "dataset.file_count": None,
            "dataset.read_rate": {"per_accelerator": "500 MB/s"},
            "checkpoints": {"size": "29360128 MB", "interval": "24h", "max_write_time": "1h"},
        }
    )
    assert made.prediction.data_wait_fraction == pytest.approx(1 - 5500 * 8.388608 / 64_000)
    assert made.prediction.checkpoint_write_s == pytest.approx(29_360_128 / (3500 * 8.388608))
    assert made.prediction.restore_s == pytest.approx(29_360_128 / (5500 * 8.388608))


@pytest.mark.parametrize(
    ("files_a_second", "file", "share"),
    # Each file of up to 8 MiB takes two requests, one to open it and one to read it.
    [(2750, "1 MB", 1.0), (5500, "1 MB", 0.5), (11_000, "8 MiB", 0.25), (5500, "8388609 B", 1 / 3)],
)
def test_small_files_are_bound_by_requests(files_a_second: int, file: str, share: float) -> None:
    rate = {"samples": {"size": file, "per_second_per_accelerator": files_a_second / 128}}
    made = s3_plan({"compute.instance_count": 16, "dataset.file_count": None, "dataset.read_rate": rate})
    assert made.prediction.data_wait_fraction == pytest.approx(1 - share, abs=1e-9)
    assert made.prediction.read_supply_mb_per_s == pytest.approx((made.demand.read_mb_per_s or 0) * share)


def test_s3_files_gives_a_client_3_gib_a_second() -> None:
    made = planned(
        {
            "dataset.access": "read-write",
            "dataset.read_rate": {"per_accelerator": "800 MB/s"},
            "hot_tier": "none",
        }
    )
    assert made.tiers.file_access == "s3-files"
    assert made.prediction.data_wait_fraction == pytest.approx(1 - 3 * 2**30 / 6400e6)


@pytest.mark.parametrize(("requests", "buckets"), [(199_000, 1), (201_000, 2), (1_000_000, 5), (2_000_000, 10)])
def test_directory_buckets_of_200000_reads_a_second(requests: int, buckets: int) -> None:
    made = planned(
        {
            "compute.instance_count": 128,
            "dataset": {
                "size": "2 PB",
                "interface": "object",
                "read_rate": {"per_accelerator": f"{requests * 2**23 / 1024!r} B/s"},
            },
        }
    )
    assert made.express is not None
    assert made.express.bucket_count == buckets


# -- which tier: guidance for 1 to 16 instances, for many nodes, and for 1,000 accelerators


@pytest.mark.parametrize(
    ("interface", "instances", "tier"),
    [
        ("posix", 1, "none"),
        ("posix", 16, "none"),
        ("posix", 17, "lustre"),
        ("posix", 125, "lustre"),
        ("posix", 500, "lustre"),
        ("posix", 2000, "lustre"),
        ("object", 16, "none"),
        ("object", 17, "lustre"),
        ("object", 124, "lustre"),  # 992 accelerators
        ("object", 125, "express"),  # 1,000
        ("object", 2000, "express"),
    ],
)
def test_scale_and_interface_decide_together(interface: str, instances: int, tier: str) -> None:
    made = planned({"compute.instance_count": instances, "dataset.interface": interface})
    assert made.accelerators == 8 * instances
    assert made.tiers.hot == tier


# -- prices that rank (low trust) and prices of instances


@pytest.mark.parametrize(("tier", "usd"), [(125, 0.145), (250, 0.21), (500, 0.34), (1000, 0.60)])
def test_price_of_a_gib_month(tier: int, usd: float) -> None:
    made = planned(SMALL | capacity(9600, per_unit_storage_throughput=tier, efa=False))
    assert made.lustre is not None
    assert made.lustre.ranking_usd_per_month == pytest.approx(9600 * usd)
    (line,) = [each for each in made.cost.lines if each.item == f"lustre.PERSISTENT_2.SSD.{tier}"]
    assert (line.unit_price, line.quantity) == (usd, 9600)
    assert line.monthly == pytest.approx(9600 * usd)
    assert line.hourly == pytest.approx(9600 * usd / 730)


def test_price_of_metadata_above_the_automatic_number() -> None:
    opens = {"samples": {"size": "1 KB", "per_second_per_accelerator": 48_000 / 32}}
    given = capacity(9600, per_unit_storage_throughput=125, efa=False)
    made = planned(SMALL | {"dataset.read_rate": opens} | given)
    (line,) = [each for each in made.cost.lines if each.kind == "metadata"]
    assert (line.unit_price, line.quantity) == (0.055, 24_000 - 6000)
    assert made.lustre is not None
    assert made.lustre.ranking_usd_per_month == pytest.approx(9600 * 0.145 + 18_000 * 0.055)


@pytest.mark.parametrize(
    ("name", "usd"),
    [
        ("p3dn.24xlarge", 31.212),
        ("p4d.24xlarge", 21.957642),
        ("p4de.24xlarge", 27.44705),
        ("p5.4xlarge", 6.88),
        ("p5.48xlarge", 55.04),
        ("p5en.48xlarge", 63.296),
        ("p6-b200.48xlarge", 113.9328),
        ("p6-b300.48xlarge", 142.416),
        ("g5.48xlarge", 16.288),
        ("g6.48xlarge", 13.3504),
    ],
)
def test_price_of_an_instance_hour(name: str, usd: float) -> None:
    made = planned({"compute": {"instance_type": name, "instance_count": 3}})
    assert made.cost.compute_hourly == pytest.approx(3 * usd)
    assert made.cost.compute_monthly == pytest.approx(3 * usd * 730)


def test_steps_of_the_tables_are_the_whole_table() -> None:
    """The catalog has no option that no row here covers."""
    options = {(deployment, storage) for deployment, storage, *_ in THROUGHPUT}
    assert options | {("PERSISTENT_2", "INTELLIGENT_TIERING")} == set(CATALOG.lustre.options)
    for deployment, storage in options:
        row = CATALOG.lustre.options[(deployment, storage)]
        tiers = {tier or 0 for d, s, tier, *_ in THROUGHPUT if (d, s) == (deployment, storage)}
        assert tiers == set(row.read_mb_per_s_per_tib)
    assert math.isclose(CATALOG.lustre.tcp_client_mb_per_s, 12_500)


# -- latency: what is published is a range or an upper end, and a plan counts the slow end

HDD = {"deployment_type": "PERSISTENT_1", "storage_type": "HDD", "per_unit_storage_throughput": 40}
BOUGHT = {"storage_type": "INTELLIGENT_TIERING", "links": [], "read_cache": "none"}


@pytest.mark.parametrize(
    ("changes", "sample", "seconds"),
    [
        # SSD: data and metadata under 1 ms. HDD: data a single-digit number of ms. INTELLIGENT_TIERING: tens of ms.
        ({"hot_tier": "lustre"}, "1 MB", 0.001 + 0.001),
        ({"hot_tier": "lustre", "lustre": HDD}, "1 MB", 0.001 + 0.010),
        ({"hot_tier": "lustre", "lustre": BOUGHT}, "1 MB", 0.001 + 0.100),
        # S3: 100 to 200 ms, then 85 to 90 MB/s a request; code that opens files looks each up first.
        ({"hot_tier": "none", "dataset.interface": "object"}, "1 MB", 0.2 + 1 / 85),
        ({"hot_tier": "none", "dataset.interface": "object"}, "8 MiB", 0.2 + 8.388608 / 85),
        ({"hot_tier": "none"}, "1 MB", 0.2 + 0.2 + 1 / 85),
        # S3 Express: a single-digit number of ms in its zone.
        ({"hot_tier": "express", "dataset.interface": "object"}, "1 MB", 0.010),
        # S3 Files: files under 128 KiB and all metadata under 1 ms, larger reads as S3 does.
        ({"hot_tier": "none", "dataset.access": "read-write"}, "1 MB", 0.001 + 0.2 + 1 / 85),
        ({"hot_tier": "none", "dataset.access": "read-write"}, "64 KB", 0.001 + 0.001),
    ],
)
def test_reads_in_flight_against_published_latency(changes: dict[str, Any], sample: str, seconds: float) -> None:
    """Little's law: 32 accelerators keep 8 x 2 reads in flight each."""
    rate = {"samples": {"size": sample, "per_second_per_accelerator": 1}}
    loader = {"workers_per_accelerator": 8, "prefetch": 2}
    asked = {"dataset.file_count": None, "dataset.read_rate": rate, "dataset.loader": loader, **changes}
    told = planned(asked).prediction
    (latency,) = [each for each in told.limits if each.name == "latency"]
    sample_mb = {"1 MB": 1.0, "8 MiB": 8.388608, "64 KB": 0.064}[sample]
    assert latency.mb_per_s == pytest.approx(32 * 8 * 2 * sample_mb / seconds)
    del asked["dataset.loader"]
    assert "latency" not in {each.name for each in planned(asked).prediction.limits}
