"""FSx for Lustre: capacity grids, throughput, servers, metadata and limits, against published tables."""

from __future__ import annotations

import pytest

from training_storage.catalog import StorageOption, default_catalog
from training_storage.errors import CatalogError

LUSTRE = default_catalog().lustre


def option(deployment: str, storage: str = "SSD") -> StorageOption:
    row = LUSTRE.option(deployment, storage)
    assert row is not None
    return row


P2, P1, SCRATCH, HDD = (
    option("PERSISTENT_2"),
    option("PERSISTENT_1"),
    option("SCRATCH_2"),
    option("PERSISTENT_1", "HDD"),
)
IT = option("PERSISTENT_2", "INTELLIGENT_TIERING")
P2_TIERS = (125, 250, 500, 1000)
EFA_STEPS = list(zip(P2_TIERS, (38400, 19200, 9600, 4800), strict=True))

# Every grid: option, tier, EFA, sizes below the step, step. FSx API model; FSx for Lustre User Guide getting-started.
GRIDS = [
    *[(P2, tier, False, (1200,), 2400) for tier in P2_TIERS],
    *[(P2, tier, True, (), step) for tier, step in EFA_STEPS],
    *[(P1, tier, False, (1200,), 2400) for tier in (50, 100, 200)],
    (SCRATCH, None, False, (1200,), 2400),
    (HDD, 12, False, (), 6000),
    (HDD, 40, False, (), 1800),
]
GRID_IDS = [f"{row.deployment_type}-{row.storage_type}-{tier}{'-efa' if efa else ''}" for row, tier, efa, *_ in GRIDS]
grids = pytest.mark.parametrize(("row", "tier", "efa", "first", "step"), GRIDS, ids=GRID_IDS)


def test_every_pair_that_can_be_asked_for() -> None:
    assert set(LUSTRE.options) == {
        ("SCRATCH_2", "SSD"),
        ("PERSISTENT_1", "SSD"),
        ("PERSISTENT_1", "HDD"),
        ("PERSISTENT_2", "SSD"),
        ("PERSISTENT_2", "INTELLIGENT_TIERING"),
    }


def test_pairs_that_fsx_does_not_have() -> None:
    assert LUSTRE.option("PERSISTENT_2", "HDD") is None
    assert LUSTRE.option("SCRATCH_2", "INTELLIGENT_TIERING") is None


def test_names_for_messages() -> None:
    assert LUSTRE.deployment_types == ("SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2")
    assert LUSTRE.storage_types("PERSISTENT_2") == ("SSD", "INTELLIGENT_TIERING")
    assert LUSTRE.storage_types("PERSISTENT_9") == ()
    assert LUSTRE.versions == ("2.10", "2.12", "2.15")


class TestGrid:
    @grids
    def test_report_01_the_grid_is_legal_and_nothing_between(
        self, row: StorageOption, tier: int | None, efa: bool, first: tuple[int, ...], step: int
    ) -> None:
        legal = {*first, *range(step, 20 * step + 1, step)}
        assert {gib for gib in range(0, 20 * step + 1, 100) if LUSTRE.is_legal_capacity(row, gib, tier, efa)} == legal

    @pytest.mark.parametrize("tier", P2_TIERS)
    @pytest.mark.parametrize(
        ("gib", "legal"),
        [
            (0, False),
            (600, False),
            (1200, True),
            (1201, False),
            (2400, True),
            (3600, False),
            (4800, True),
            (460800, True),
        ],
    )
    def test_report_01_sizes_of_persistent_2(self, tier: int, gib: int, legal: bool) -> None:
        assert LUSTRE.is_legal_capacity(P2, gib, tier) is legal

    @pytest.mark.parametrize("tier", P2_TIERS)
    @pytest.mark.parametrize(
        ("gib", "around"),
        [(3600, (2400, 4800)), (1201, (1200, 2400)), (600, (None, 1200)), (0, (None, 1200)), (-5, (None, 1200)),
         (1200, (None, 2400)), (2400, (1200, 4800)), (4800, (2400, 7200))],
    )  # fmt: skip
    def test_report_01_neighbours_for_the_message(self, tier: int, gib: int, around: tuple[int | None, int]) -> None:
        assert LUSTRE.neighbours(P2, gib, tier) == around

    @grids
    def test_report_01_neighbours_are_legal_and_next_on_every_grid(
        self, row: StorageOption, tier: int | None, efa: bool, first: tuple[int, ...], step: int
    ) -> None:
        legal = [*first, *range(step, 8 * step + 1, step)]
        for gib in range(0, 7 * step + 1, 300):
            below, above = LUSTRE.neighbours(row, gib, tier, efa)
            assert below == max((size for size in legal if size < gib), default=None)
            assert above == min(size for size in legal if size > gib)

    @pytest.mark.parametrize("row", [P2, SCRATCH], ids=["PERSISTENT_2", "SCRATCH_2"])
    @pytest.mark.parametrize(
        ("needed", "granted"),
        # 2 TiB are 2048 GiB; 2 TB are 1863 GiB
        [(1400, 2400), (1200, 1200), (2048, 2400), (2e12 / 2**30, 2400), (0, 1200), (0.5, 1200), (1200.5, 2400),
         (2400, 2400), (2400.1, 4800), (7201, 9600)],
    )  # fmt: skip
    def test_report_02_a_need_is_rounded_up(self, row: StorageOption, needed: float, granted: int) -> None:
        tier = 250 if row is P2 else None
        assert LUSTRE.round_up_gib(row, needed, tier) == granted

    @grids
    def test_report_02_rounding_gives_the_smallest_legal_size_that_covers(
        self, row: StorageOption, tier: int | None, efa: bool, first: tuple[int, ...], step: int
    ) -> None:
        legal = [*first, *range(step, 9 * step + 1, step)]
        for tenth in range(0, 80 * step, 977):
            needed = tenth / 10
            assert LUSTRE.round_up_gib(row, needed, tier, efa) == min(size for size in legal if size >= needed)

    @grids
    def test_report_02_a_legal_size_stays_what_it_is(
        self, row: StorageOption, tier: int | None, efa: bool, first: tuple[int, ...], step: int
    ) -> None:
        for gib in (*first, step, 3 * step, 48 * step):
            assert LUSTRE.round_up_gib(row, gib, tier, efa) == gib

    def test_report_02_float_noise_does_not_cost_a_step(self) -> None:
        needed = 4800 * (1 + 1e-12)
        assert needed > 4800
        assert LUSTRE.round_up_gib(P2, needed, 500) == 4800

    def test_report_02_throughput_is_by_tib_of_1024_gib(self) -> None:
        assert LUSTRE.read_mb_per_s(P2, 4800, 500) == 2343.75

    @pytest.mark.parametrize(("tier", "step"), EFA_STEPS)
    def test_report_05_smallest_efa_size_by_tier(self, tier: int, step: int) -> None:
        assert LUSTRE.step_gib(P2, tier, efa=True) == step
        assert LUSTRE.is_legal_capacity(P2, step, tier, efa=True)
        assert LUSTRE.round_up_gib(P2, 1200, tier, efa=True) == step
        assert LUSTRE.neighbours(P2, 1200, tier, efa=True) == (None, step)

    @pytest.mark.parametrize(("tier", "gib"), [(250, 1200), (1000, 7200), (125, 19200), (500, 4800)])
    def test_report_05_sizes_off_the_efa_grid(self, tier: int, gib: int) -> None:
        assert LUSTRE.is_legal_capacity(P2, gib, tier) is True
        assert LUSTRE.is_legal_capacity(P2, gib, tier, efa=True) is False

    @pytest.mark.parametrize("row", [SCRATCH, P1, HDD, IT], ids=["SCRATCH_2", "PERSISTENT_1", "HDD", "IT"])
    def test_report_05_no_efa_but_on_persistent_2_ssd(self, row: StorageOption) -> None:
        assert row.efa_step_gib == {}
        with pytest.raises(CatalogError, match="has no EFA capacity"):
            LUSTRE.step_gib(row, None, efa=True)

    def test_an_unknown_tier_is_our_error(self) -> None:
        with pytest.raises(CatalogError, match=r"got 300; allowed: 125, 250, 500, 1000"):
            LUSTRE.read_mb_per_s(P2, 2400, 300)

    def test_a_step_that_is_the_same_for_all_tiers_needs_no_tier(self) -> None:
        assert LUSTRE.step_gib(P2, None) == 2400


class TestThroughput:
    @pytest.mark.parametrize(
        ("row", "tier", "read", "write"),
        # MB/s per TiB, baseline disk. SSD page; HDD and PERSISTENT_1 of the guide of June 2023
        [(SCRATCH, None, 200, 100), *[(P2, tier, tier, tier) for tier in P2_TIERS],
         *[(P1, tier, tier, tier) for tier in (50, 100, 200)], (HDD, 12, 12, 12), (HDD, 40, 40, 40)],
        ids=lambda value: value.deployment_type if isinstance(value, StorageOption) else str(value),
    )  # fmt: skip
    def test_baseline_per_tib(self, row: StorageOption, tier: int | None, read: float, write: float) -> None:
        assert LUSTRE.read_mb_per_s(row, 1024, tier) == read
        assert LUSTRE.write_mb_per_s(row, 1024, tier) == write

    def test_1200_gib_at_500_give_586_and_not_600(self) -> None:
        assert LUSTRE.read_mb_per_s(P2, 1200, 500) == pytest.approx(585.9375)

    def test_quota_at_tier_1000(self) -> None:
        assert LUSTRE.read_mb_per_s(P2, LUSTRE.default_quota_gib, 1000) == pytest.approx(98_437.5)


class TestServers:
    @pytest.mark.parametrize(
        ("gib", "servers"),
        # The guide's scratch table counts one metadata server with them: 2, 2, 3, 5 and 22 servers
        [(1200, 1), (2400, 1), (4800, 2), (9600, 4), (50_400, 21)],
    )
    def test_scratch_table(self, gib: int, servers: int) -> None:
        assert LUSTRE.servers(SCRATCH, gib, None) == servers
        assert LUSTRE.ip_addresses(servers, None) == servers + 1

    @pytest.mark.parametrize(("tier", "step"), EFA_STEPS)
    def test_one_server_an_efa_step(self, tier: int, step: int) -> None:
        assert [LUSTRE.servers(P2, count * step, tier, efa=True) for count in (1, 2, 20)] == [1, 2, 20]

    @pytest.mark.parametrize(("tier", "gib", "servers"), [(12, 6000, 1), (12, 12000, 2), (40, 1800, 1), (40, 9000, 5)])
    def test_hdd(self, tier: int, gib: int, servers: int) -> None:
        assert LUSTRE.servers(HDD, gib, tier) == servers

    def test_96000_gib_take_44_addresses(self) -> None:
        # 40 file servers, and 4 metadata servers for the 48,000 IOPS that AUTOMATIC gives there
        servers = LUSTRE.servers(P2, 96_000, 125)
        iops = LUSTRE.automatic_metadata_iops(96_000)
        assert (servers, iops, LUSTRE.ip_addresses(servers, iops)) == (40, 48_000, 44)

    @pytest.mark.parametrize(
        ("iops", "metadata_servers"),
        [(None, 1), (1500, 1), (12_000, 1), (24_000, 2), (36_000, 3), (192_000, 16)],
    )
    def test_one_metadata_server_for_12000_iops(self, iops: int | None, metadata_servers: int) -> None:
        assert LUSTRE.ip_addresses(7, iops) == 7 + metadata_servers


class TestMetadata:
    @pytest.mark.parametrize(
        ("gib", "iops"),
        # Guide: 1200, 2400, 4800-9600, 12000-45600, then 12,000 for each full 24,000 GiB, at most 192,000
        [(1200, 1500), (2400, 3000), (4800, 6000), (7200, 6000), (9600, 6000), (12_000, 12_000), (45_600, 12_000),
         (48_000, 24_000), (69_600, 24_000), (72_000, 36_000), (96_000, 48_000), (100_800, 48_000), (384_000, 192_000),
         (408_000, 192_000), (2_400_000, 192_000)],
    )  # fmt: skip
    def test_automatic_by_capacity(self, gib: int, iops: int) -> None:
        assert LUSTRE.automatic_metadata_iops(gib) == iops

    def test_automatic_is_always_a_legal_number(self) -> None:
        granted = {LUSTRE.automatic_metadata_iops(gib) for gib in (1200, *range(2400, 480_001, 2400))}
        assert granted <= set(LUSTRE.metadata_iops_values())

    def test_automatic_never_falls_as_capacity_grows(self) -> None:
        granted = [LUSTRE.automatic_metadata_iops(gib) for gib in (1200, *range(2400, 480_001, 2400))]
        assert granted == sorted(granted)

    def test_legal_numbers(self) -> None:
        assert LUSTRE.metadata_iops_values() == (1500, 3000, 6000, *range(12_000, 192_001, 12_000))

    @pytest.mark.parametrize(
        ("needed", "granted"),
        [(0, 1500), (1500, 1500), (1500.5, 3000), (6001, 12_000), (12_001, 24_000), (191_999, 192_000),
         (192_000, 192_000), (500_000, 192_000)],
    )  # fmt: skip
    def test_next_legal_number(self, needed: float, granted: int) -> None:
        assert LUSTRE.next_metadata_iops(needed) == granted

    def test_12000_iops_are_24000_opens(self) -> None:
        assert 12_000 * LUSTRE.opens_per_metadata_iops == 24_000


class TestLimits:
    def test_one_client(self) -> None:
        # FSx performance page: 700, 1200, 100 and 5 Gbit/s
        assert LUSTRE.efa_client_mb_per_s == 700 * 125
        assert LUSTRE.gds_client_mb_per_s == 1200 * 125
        assert LUSTRE.tcp_client_mb_per_s == 100 * 125
        assert LUSTRE.tcp_server_mb_per_s == 5 * 125

    def test_20_servers_fill_one_tcp_client(self) -> None:
        assert LUSTRE.servers(P2, 48_000, 125) * LUSTRE.tcp_server_mb_per_s == LUSTRE.tcp_client_mb_per_s

    def test_counts_and_quotas(self) -> None:
        assert (LUSTRE.max_links, LUSTRE.max_efa_connections, LUSTRE.default_quota_gib) == (8, 1024, 100_800)
        assert (LUSTRE.metadata_iops_per_server, LUSTRE.efa_advised_mb_per_s) == (12_000, 10_000)


class TestWhatATypeSupports:
    @pytest.mark.parametrize(
        ("row", "links", "backups", "kms", "metadata"),
        [(SCRATCH, True, False, False, False), (P1, True, True, True, False), (HDD, True, True, True, False),
         (P2, True, True, True, True), (IT, False, True, True, True)],
        ids=["SCRATCH_2", "PERSISTENT_1", "HDD", "PERSISTENT_2", "INTELLIGENT_TIERING"],
    )  # fmt: skip
    def test_reports_03_04_06(self, row: StorageOption, links: bool, backups: bool, kms: bool, metadata: bool) -> None:
        assert (row.links, row.backups, row.kms, row.metadata_configuration) == (links, backups, kms, metadata)

    def test_report_03_tiers(self) -> None:
        assert [row.tiers for row in (SCRATCH, P1, HDD, P2, IT)] == [(), (50, 100, 200), (12, 40), P2_TIERS, ()]

    @pytest.mark.parametrize(
        "row", LUSTRE.options.values(), ids=lambda row: f"{row.deployment_type}-{row.storage_type}"
    )
    def test_report_07_every_type_can_be_made_with_2_15(self, row: StorageOption) -> None:
        assert "2.15" in row.versions

    @pytest.mark.parametrize("row", [P2, IT], ids=["SSD", "INTELLIGENT_TIERING"])
    def test_report_07_persistent_2_has_no_2_10(self, row: StorageOption) -> None:
        assert "2.10" not in row.versions


class TestIntelligentTiering:
    @pytest.mark.parametrize(
        ("mb_per_s", "legal"),
        [(0, False), (1000, False), (4000, True), (6000, False), (8000, True), (2_000_000, True), (2_004_000, False)],
    )
    def test_throughput_in_multiples_of_4000(self, mb_per_s: int, legal: bool) -> None:
        assert LUSTRE.is_legal_throughput_capacity(mb_per_s) is legal

    @pytest.mark.parametrize(("needed", "granted", "servers"), [(0, 4000, 1), (4000, 4000, 1), (4001, 8000, 2)])
    def test_throughput_is_rounded_up_and_one_server_a_step(self, needed: float, granted: int, servers: int) -> None:
        assert LUSTRE.round_up_throughput_capacity(needed) == granted
        assert LUSTRE.intelligent_tiering_servers(granted) == servers

    def test_metadata_and_cache(self) -> None:
        assert LUSTRE.intelligent_tiering_metadata_iops == (6000, 12_000)
        assert LUSTRE.intelligent_tiering_cache_min_gib_per_step == 32
        assert LUSTRE.intelligent_tiering_cache_max_gib_per_step == 131_072
