"""Price book, reference workloads and object storage facts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_storage.catalog import ReferenceWorkload, default_catalog

CATALOG = default_catalog()
PRICES = CATALOG.prices


class TestPriceBook:
    @pytest.mark.parametrize(
        ("item", "usd"),
        # Contract section 3, and instance prices of 2026-07-20
        [("lustre.PERSISTENT_2.SSD.125", 0.145), ("lustre.PERSISTENT_2.SSD.250", 0.21),
         ("lustre.PERSISTENT_2.SSD.500", 0.34), ("lustre.PERSISTENT_2.SSD.1000", 0.60),
         ("lustre.metadata_iops", 0.055), ("lustre.SCRATCH_2.SSD", 0.14), ("ec2.p5.48xlarge", 55.04),
         ("ec2.p5en.48xlarge", 63.296), ("ec2.g6e.48xlarge", 30.13118), ("s3_express.storage", 0.11),
         ("s3_files.storage", 0.3), ("nat.data_processed", 0.045)],
    )  # fmt: skip
    def test_us_east_1(self, item: str, usd: float) -> None:
        assert PRICES.usd(item, "us-east-1") == usd

    @pytest.mark.parametrize("item", ["lustre.PERSISTENT_2.SSD.125", "lustre.metadata_iops", "ec2.p5.48xlarge"])
    def test_no_fall_back_to_another_region(self, item: str) -> None:
        assert PRICES.usd(item, "eu-west-1") is None
        assert PRICES.price(item, "eu-west-1") is None

    @pytest.mark.parametrize("name", ["p5e.48xlarge", "trn2.48xlarge", "trn2u.48xlarge", "p6e-gb200.36xlarge"])
    def test_a_type_without_a_price_row_has_no_price(self, name: str) -> None:
        assert PRICES.usd(f"ec2.{name}", "us-east-1") is None
        assert CATALOG.instance_types[name].on_demand_usd_per_hour is None

    @pytest.mark.parametrize("item", [item for item in PRICES.items("us-east-1") if item.startswith("ec2.")])
    def test_the_instance_row_shows_the_price_of_the_book(self, item: str) -> None:
        row = CATALOG.instance_types[item.removeprefix("ec2.")]
        assert row.on_demand_usd_per_hour == PRICES.usd(item, "us-east-1")

    @pytest.mark.parametrize("tier", [50, 100, 200])
    def test_persistent_1_is_only_remembered_and_so_no_price(self, tier: int) -> None:
        # Contract: PERSISTENT_1 has no price rows.
        row = PRICES.price(f"lustre.PERSISTENT_1.SSD.{tier}", "us-east-1")
        assert row is not None
        assert row.source.trust == "remembered"
        assert PRICES.usd(row.item, "us-east-1") is None

    def test_what_was_looked_for_and_not_found_is_a_row_without_a_price(self) -> None:
        row = PRICES.price("lustre.PERSISTENT_2.INTELLIGENT_TIERING.requests", "us-east-1")
        assert row is not None
        assert row.usd is None

    def test_price_of_tier_1000_is_marked_as_a_conflict(self) -> None:
        row = PRICES.price("lustre.PERSISTENT_2.SSD.1000", "us-east-1")
        assert row is not None
        assert row.source.trust == "conflict"

    @pytest.mark.parametrize(
        ("item", "usd"),
        # AWS' price lists of 2026 for us-east-1, see the source of each row
        [("s3.standard.storage", 0.023), ("s3.get_requests", 0.0004), ("s3.put_requests", 0.005),
         ("nat.gateway", 0.045), ("vpc.interface_endpoint", 0.01), ("vpc.interface_endpoint_data", 0.01),
         ("kms.key", 1.0)],
    )  # fmt: skip
    def test_requests_network_and_keys(self, item: str, usd: float) -> None:
        assert PRICES.usd(item, "us-east-1") == usd


class TestTiers:
    @pytest.mark.parametrize(
        ("gb", "usd"),
        # First 50 TB at 0.023, next 450 TB at 0.022, the rest at 0.021 USD; a TB is 1,024 GB in the price list
        [(0, 0), (1, 0.023), (51_200, 1_177.6), (51_201, 1_177.622), (512_000, 11_315.2), (512_001, 11_315.221),
         (1_000_000, 11_315.2 + 488_000 * 0.021)],
    )  # fmt: skip
    def test_s3_storage_costs_less_beyond_50_and_500_tb(self, gb: float, usd: float) -> None:
        assert PRICES.usd_for("s3.standard.storage", "us-east-1", gb) == pytest.approx(usd, rel=1e-12)

    @pytest.mark.parametrize(("gb", "usd"), [(2**20, 10_485.76), (2**20 + 1, 10_485.766), (2**23, 48_234.496)])
    def test_endpoints_cost_less_beyond_1_and_5_pb(self, gb: float, usd: float) -> None:
        assert PRICES.usd_for("vpc.interface_endpoint_data", "us-east-1", gb) == pytest.approx(usd, rel=1e-12)

    def test_the_average_is_between_the_first_price_and_the_last(self) -> None:
        average = PRICES.average_usd("s3.standard.storage", "us-east-1", 102_400)
        assert average == pytest.approx((0.023 + 0.022) / 2)

    @pytest.mark.parametrize("gb", [0, 1, 51_200])
    def test_the_average_of_the_first_tier_is_its_price(self, gb: float) -> None:
        assert PRICES.average_usd("s3.standard.storage", "us-east-1", gb) == pytest.approx(0.023)

    def test_without_tiers_a_quantity_costs_its_multiple(self) -> None:
        assert PRICES.usd_for("nat.gateway", "us-east-1", 730) == pytest.approx(32.85)
        assert PRICES.average_usd("nat.gateway", "us-east-1", 1e9) == 0.045

    @pytest.mark.parametrize(
        ("item", "region"),
        [("s3.standard.storage", "eu-west-1"), ("lustre.PERSISTENT_1.SSD.50", "us-east-1"),
         ("lustre.PERSISTENT_2.INTELLIGENT_TIERING.requests", "us-east-1"), ("nothing", "us-east-1")],
    )  # fmt: skip
    def test_what_is_no_price_has_no_cost_and_no_average(self, item: str, region: str) -> None:
        assert PRICES.usd_for(item, region, 10) is None
        assert PRICES.average_usd(item, region, 10) is None

    @given(quantity=st.floats(1e-3, 1e9), more=st.floats(0, 1e9))
    def test_more_never_costs_less_in_all_nor_more_a_unit(self, quantity: float, more: float) -> None:
        item = ("s3.standard.storage", "us-east-1")
        small, large = PRICES.usd_for(*item, quantity), PRICES.usd_for(*item, quantity + more)
        assert small is not None
        assert large is not None
        assert large >= small * (1 - 1e-12)
        average, later = PRICES.average_usd(*item, quantity), PRICES.average_usd(*item, quantity + more)
        assert average is not None
        assert later is not None
        assert later >= 0.021 * (1 - 1e-9)
        assert later <= average * (1 + 1e-9)


class TestReferences:
    @pytest.mark.parametrize(
        ("model", "accelerator", "mb_per_s"),
        # MLPerf Storage: AU threshold x batch x sample / step, MB/s
        [("unet3d", "A100", 1452.176), ("unet3d", "H100", 2859.3931), ("unet3d", "V100", 387.9464),
         ("resnet50", "A100", 94.8911), ("resnet50", "H100", 184.2751), ("resnet50", "V100", 33.8688),
         ("cosmoflow", "H100", 565.6972), ("cosmoflow", "V100", 211.5321), ("bert", "V100", 0.1116),
         ("retinanet", "B200", 138.5557), ("flux", "MI355", 69.2746), ("dlrm", "B200", 23274.0181)],
    )  # fmt: skip
    def test_published_rate_at_the_threshold(self, model: str, accelerator: str, mb_per_s: float) -> None:
        row = CATALOG.reference(model, accelerator)
        assert row is not None
        assert row.read_bytes_per_s / 1e6 == pytest.approx(mb_per_s, rel=0.005)

    @pytest.mark.parametrize(
        ("model", "accelerator", "files_per_s"),
        # Files a second at AU 1: cosmoflow 286, retinanet 505, unet3d 21.7
        [("cosmoflow", "H100", 285.7), ("retinanet", "B200", 504.7), ("unet3d", "H100", 21.67)],
    )
    def test_files_per_second(self, model: str, accelerator: str, files_per_s: float) -> None:
        row = CATALOG.reference(model, accelerator)
        assert row is not None
        assert row.samples_per_s / row.samples_per_file / row.au_threshold == pytest.approx(files_per_s, rel=0.001)

    def test_models_and_accelerators_for_messages(self) -> None:
        assert set(CATALOG.reference_models()) == {
            "unet3d", "resnet50", "cosmoflow", "bert", "retinanet", "flux", "dlrm",
        }  # fmt: skip
        assert set(CATALOG.reference_accelerators("unet3d")) == {"A100", "H100", "V100"}
        assert CATALOG.reference_accelerators("alexnet") == ()

    @pytest.mark.parametrize(("model", "accelerator"), [("unet3d", "L40S"), ("alexnet", "H100"), ("unet3d", None)])
    def test_no_row(self, model: str, accelerator: str | None) -> None:
        assert CATALOG.reference(model, accelerator) is None

    @pytest.mark.parametrize("row", CATALOG.reference_workloads, ids=lambda row: f"{row.model}-{row.accelerator}")
    def test_one_row_for_each_pair(self, row: ReferenceWorkload) -> None:
        assert CATALOG.reference(row.model, row.accelerator) is row


class TestObjectStorage:
    def test_rates_of_one_prefix(self) -> None:
        # Mountpoint TROUBLESHOOTING: 5,500 GET or HEAD, 3,500 PUT, parts of 8 MiB
        storage = CATALOG.object_storage
        assert storage.get_requests_per_s_per_prefix == 5500
        assert storage.put_requests_per_s_per_prefix == 3500
        assert storage.part_bytes == 8 * 2**20

    def test_rates_of_one_directory_bucket(self) -> None:
        storage = CATALOG.object_storage
        assert (storage.express_get_requests_per_s, storage.express_put_requests_per_s) == (200_000, 100_000)

    def test_one_s3_files_client(self) -> None:
        assert CATALOG.object_storage.s3_files_client_bytes_per_s == 3 * 2**30

    def test_report_32_mountpoint_is_1_20_or_later(self) -> None:
        assert CATALOG.object_storage.mountpoint_minimum_version == "1.20.0"
        assert CATALOG.object_storage.mountpoint_cache_disk_share_max == 0.8

    def test_report_34_efs_utils_is_3_1_2_or_later(self) -> None:
        assert CATALOG.object_storage.s3_files_minimum_efs_utils_version == "3.1.2"

    def test_infrequent_access_from_30_days_on(self) -> None:
        classes = CATALOG.object_storage.storage_classes
        assert classes["STANDARD_IA"].first_transition_day == 30
        assert classes["GLACIER_IR"].first_transition_day == 0

    def test_classes_that_nobody_reads_without_a_restore(self) -> None:
        classes = CATALOG.object_storage.storage_classes
        assert {name for name, row in classes.items() if not row.readable} == {"GLACIER", "DEEP_ARCHIVE"}

    def test_report_16_directory_bucket_name_and_its_suffix(self) -> None:
        storage = CATALOG.object_storage
        assert storage.directory_bucket_name("ckpt", "use1-az4") == "ckpt--use1-az4--x-s3"
        assert storage.directory_bucket_name("ckpt--use1-az4--x-s3", "use1-az4") == "ckpt--use1-az4--x-s3"
        assert (storage.directory_bucket_name_min_length, storage.directory_bucket_name_max_length) == (3, 63)
