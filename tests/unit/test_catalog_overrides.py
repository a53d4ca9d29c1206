"""A user's catalog files: adding rows, changing rows, and every problem at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from training_storage.catalog import Catalog, default_catalog, load_catalog
from training_storage.errors import CatalogError, Problem

NEW_TYPE = {
    "accelerators": 8,
    "network_cards": 8,
    "efa_interfaces": 8,
    "primary_card_has_efa": True,
    "network_gbps": 3200,
    "architecture": "x86_64",
}


def p5(**fields: object) -> object:
    return {"instance_types": {"p5.48xlarge": fields}}


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Catalog]:
    def write_and_load(*documents: object) -> Catalog:
        paths = []
        for number, document in enumerate(documents):
            path = tmp_path / f"mine-{number}.json"
            path.write_text(json.dumps(document), encoding="utf-8")
            paths.append(path)
        return load_catalog(*paths)

    return write_and_load


@pytest.fixture
def problems(load: Callable[..., Catalog]) -> Callable[..., dict[str, Problem]]:
    def refused(*documents: object) -> dict[str, Problem]:
        with pytest.raises(CatalogError) as error:
            load(*documents)
        assert len({problem.path for problem in error.value.problems}) == len(error.value.problems)
        return {problem.path: problem for problem in error.value.problems}

    return refused


def test_no_file_gives_the_default() -> None:
    assert load_catalog() is default_catalog()


class TestAdd:
    def test_an_instance_type_by_the_facts_that_a_workload_file_would_give(self, load: Callable[..., Catalog]) -> None:
        row = load({"instance_types": {"p9.48xlarge": {**NEW_TYPE, "fsx_efa_client": True}}}).instance_types[
            "p9.48xlarge"
        ]
        assert (row.known, row.ip_gbps, row.efa_interfaces, len(row.efa_layout)) == (True, 100, 8, 9)
        assert (row.fsx_efa_interfaces, row.gds, row.image_family, row.local_nvme_gb) == (2, None, None, 0)

    def test_a_row_without_a_source_names_the_file(self, load: Callable[..., Catalog]) -> None:
        source = load({"instance_types": {"p9.48xlarge": NEW_TYPE}}).instance_types["p9.48xlarge"].source
        assert (source.text, source.date, source.trust) == ("mine-0.json", "", "user")

    def test_prices_of_a_region(self, load: Callable[..., Catalog]) -> None:
        row = {"unit": "GiB-month", "usd": 0.16, "source": {"text": "our contract", "date": "2026-11-01"}}
        prices = load({"prices": {"eu-west-1": {"lustre.PERSISTENT_2.SSD.125": row}}}).prices
        assert prices.usd("lustre.PERSISTENT_2.SSD.125", "eu-west-1") == 0.16
        found = prices.price("lustre.PERSISTENT_2.SSD.125", "eu-west-1")
        assert found is not None
        assert (found.source.text, found.source.date, found.source.trust) == ("our contract", "2026-11-01", "user")

    def test_a_price_of_a_new_type_shows_in_its_row(self, load: Callable[..., Catalog]) -> None:
        price = {"us-east-1": {"ec2.p9.48xlarge": {"unit": "hour", "usd": 99}}}
        catalog = load({"instance_types": {"p9.48xlarge": NEW_TYPE}, "prices": price})
        assert catalog.instance_types["p9.48xlarge"].on_demand_usd_per_hour == 99

    def test_a_region(self, load: Callable[..., Catalog]) -> None:
        region = {"partition": "aws", "zone_id_prefix": "mars1", "zone_ids": ["mars1-az1"]}
        row = load({"regions": {"ma-north-1": region}}).regions["ma-north-1"]
        assert (row.zone_ids, row.lustre_tiers, row.s3_files, row.express_zone_ids) == (("mars1-az1",), None, None, ())

    def test_a_reference_workload(self, load: Callable[..., Catalog]) -> None:
        row = {"sample_bytes": 1e6, "batch_size": 10, "step_s": 0.5, "au_threshold": 0.9}
        found = load({"reference_workloads": {"ours": {"H200": row}}}).reference("ours", "H200")
        assert found is not None
        assert found.read_bytes_per_s == pytest.approx(18e6)

    def test_mountpoint_throughput_of_a_type(self, load: Callable[..., Catalog]) -> None:
        catalog = load({"mountpoint_throughput": {"g6.8xlarge": {"gbps": 25}}})
        assert catalog.instance_types["g6.8xlarge"].mountpoint_gbps == 25


class TestOverride:
    def test_given_fields_change_and_others_stay(self, load: Callable[..., Catalog]) -> None:
        before = default_catalog().instance_types["g7.48xlarge"]
        after = load({"instance_types": {"g7.48xlarge": {"fsx_efa_client": True}}}).instance_types["g7.48xlarge"]
        assert (before.fsx_efa_client, after.fsx_efa_client, after.fsx_efa_interfaces) == (None, True, 2)
        assert after.vcpus == before.vcpus
        assert after.efa_layout == before.efa_layout

    def test_the_source_says_which_fields_are_the_users(self, load: Callable[..., Catalog]) -> None:
        source = load({"instance_types": {"g7.48xlarge": {"gds": True}}}).instance_types["g7.48xlarge"].source
        assert source.trust == "user"
        assert source.text.startswith("mine-0.json: gds; else EC2 DescribeInstanceTypes")

    def test_the_bandwidth_of_the_layout_follows_the_network(self, load: Callable[..., Catalog]) -> None:
        row = load({"instance_types": {"g6.8xlarge": {"network_gbps": 40}}}).instance_types["g6.8xlarge"]
        assert row.ip_gbps == 40

    def test_a_named_source(self, load: Callable[..., Catalog]) -> None:
        document = {
            "sources": {"quote": {"text": "our quote", "date": "2026-11-02", "trust": "seen"}},
            "prices": {"us-east-1": {"lustre.SCRATCH_2.SSD": {"usd": 0.1, "source": "quote"}}},
        }
        row = load(document).prices.price("lustre.SCRATCH_2.SSD", "us-east-1")
        assert row is not None
        assert (row.usd, row.unit, row.source.date, row.source.trust) == (0.1, "GiB-month", "2026-11-02", "user")

    def test_a_users_price_of_what_was_only_remembered_is_a_price(self, load: Callable[..., Catalog]) -> None:
        prices = load({"prices": {"us-east-1": {"lustre.PERSISTENT_1.SSD.50": {"usd": 0.15}}}}).prices
        assert prices.usd("lustre.PERSISTENT_1.SSD.50", "us-east-1") == 0.15

    def test_a_price_can_be_set_to_unknown(self, load: Callable[..., Catalog]) -> None:
        prices = load({"prices": {"us-east-1": {"ec2.p5.48xlarge": {"usd": None}}}}).prices
        assert prices.usd("ec2.p5.48xlarge", "us-east-1") is None

    def test_one_price_given_is_the_price_of_every_unit(self, load: Callable[..., Catalog]) -> None:
        prices = load({"prices": {"us-east-1": {"s3.standard.storage": {"usd": 0.02}}}}).prices
        assert prices.usd_for("s3.standard.storage", "us-east-1", 1_000_000) == pytest.approx(20_000)

    def test_tiers_of_a_users_file(self, load: Callable[..., Catalog]) -> None:
        row = {"unit": "GB", "usd": 0.5, "tiers": [{"above": 10, "usd": 0.25}, {"above": 20, "usd": 0}]}
        prices = load({"prices": {"eu-west-1": {"nat.data_processed": row}}}).prices
        assert prices.usd_for("nat.data_processed", "eu-west-1", 100) == pytest.approx(7.5)

    def test_a_unit_given_alone_keeps_the_tiers(self, load: Callable[..., Catalog]) -> None:
        prices = load({"prices": {"us-east-1": {"s3.standard.storage": {"unit": "GB-month"}}}}).prices
        assert prices.usd_for("s3.standard.storage", "us-east-1", 102_400) == pytest.approx(2_304)

    def test_a_region_keeps_the_sources_of_the_fields_that_it_keeps(self, load: Callable[..., Catalog]) -> None:
        before = default_catalog().regions["eu-west-3"]
        after = load({"regions": {"eu-west-3": {"lustre_tiers": [125, 250]}}}).regions["eu-west-3"]
        assert after.lustre_tiers == (125, 250)
        assert "lustre_tiers" not in after.field_sources
        assert after.field_sources["lustre_efa"] == before.field_sources["lustre_efa"]

    def test_a_limit(self, load: Callable[..., Catalog]) -> None:
        assert load({"lustre_limits": {"default_quota_gib": {"value": 500_000}}}).lustre.default_quota_gib == 500_000

    def test_a_capacity_step(self, load: Callable[..., Catalog]) -> None:
        steps = {"125": 19200, "250": 9600, "500": 4800, "1000": 2400}
        lustre = load({"lustre_options": {"PERSISTENT_2": {"SSD": {"efa_step_gib": steps}}}}).lustre
        row = lustre.option("PERSISTENT_2", "SSD")
        assert row is not None
        assert lustre.round_up_gib(row, 1, 1000, efa=True) == 2400

    def test_a_later_file_wins(self, load: Callable[..., Catalog]) -> None:
        first = {"lustre_limits": {"max_links": {"value": 9}}}
        second = {"lustre_limits": {"max_links": {"value": 10}}}
        assert load(first, second).lustre.max_links == 10

    def test_the_default_catalog_stays_as_it_is(self, load: Callable[..., Catalog]) -> None:
        load({"lustre_limits": {"max_links": {"value": 9}}})
        assert default_catalog().lustre.max_links == 8

    @pytest.mark.parametrize("path", sorted((Path(load_catalog.__code__.co_filename).parent / "data").glob("*.json")),
                             ids=lambda path: path.stem)  # fmt: skip
    def test_a_copy_of_a_data_file_is_a_legal_file_that_changes_no_value(self, path: Path) -> None:
        copied, default = load_catalog(path), default_catalog()
        assert [row.ip_gbps for row in copied.instance_types.values()] == [
            row.ip_gbps for row in default.instance_types.values()
        ]
        assert {name: row.efa_layout for name, row in copied.instance_types.items()} == {
            name: row.efa_layout for name, row in default.instance_types.items()
        }
        assert {name: row.zone_ids for name, row in copied.regions.items()} == {
            name: row.zone_ids for name, row in default.regions.items()
        }
        assert {key: row.usd for key, row in copied.prices.rows.items()} == {
            key: row.usd for key, row in default.prices.rows.items()
        }
        assert {key: row.step_gib for key, row in copied.lustre.options.items()} == {
            key: row.step_gib for key, row in default.lustre.options.items()
        }
        assert replace(copied.lustre, options={}, sources={}) == replace(default.lustre, options={}, sources={})
        assert replace(copied.object_storage, storage_classes={}, sources={}) == replace(
            default.object_storage, storage_classes={}, sources={}
        )


UNITS = {
    "s3.get_requests": "request",
    "s3.standard.storage": "GB",
    "lustre.PERSISTENT_2.SSD.250": "TiB-month",
    "ec2-spot.p5.48xlarge": "month",
    "ec2.p9.48xlarge": "second",
}


class TestPrices:
    @pytest.mark.parametrize(("item", "unit"), UNITS.items())
    @pytest.mark.parametrize("place", ["us-east-1", "eu-west-1"])
    def test_another_unit_than_that_of_the_bill_is_refused(
        self, problems: Callable[..., dict[str, Problem]], item: str, unit: str, place: str
    ) -> None:
        found = problems({"prices": {place: {item: {"unit": unit, "usd": 1}}}})
        problem = found[f"prices.{place}.{item}.unit"]
        row = default_catalog().prices.price(item, "us-east-1")
        assert (problem.value, problem.allowed) == (unit, "hour" if row is None else row.unit)

    def test_an_item_that_no_book_has_takes_any_unit(self, load: Callable[..., Catalog]) -> None:
        row = {"unit": "GiB-month", "usd": 0.1}
        prices = load({"prices": {"us-east-1": {"lustre.PERSISTENT_1.HDD.read_cache": row}}}).prices
        assert prices.usd("lustre.PERSISTENT_1.HDD.read_cache", "us-east-1") == 0.1

    @pytest.mark.parametrize("usd", [1e308, 1.1e9, 1e-13, 5e-324, -0.1])
    def test_a_price_that_no_sum_could_hold_is_refused(
        self, problems: Callable[..., dict[str, Problem]], usd: float
    ) -> None:
        assert "prices.us-east-1.nat.gateway.usd" in problems({"prices": {"us-east-1": {"nat.gateway": {"usd": usd}}}})
        tiers = {"usd": 1, "tiers": [{"above": 10, "usd": usd}]}
        assert "prices.us-east-1.nat.gateway.tiers" in problems({"prices": {"us-east-1": {"nat.gateway": tiers}}})

    @pytest.mark.parametrize("usd", [0, 1e-12, 1e9, None])
    def test_a_price_at_the_edge_is_one(self, load: Callable[..., Catalog], usd: float | None) -> None:
        assert (
            load({"prices": {"us-east-1": {"nat.gateway": {"usd": usd}}}}).prices.usd("nat.gateway", "us-east-1") == usd
        )


class TestYaml:
    def test_yaml_with_plain_dates(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text(
            "sources: {quote: {text: our quote, date: 2026-11-02}}\n"
            "prices:\n  us-east-1:\n    lustre.SCRATCH_2.SSD: {usd: 0.1, source: quote}\n",
            encoding="utf-8",
        )
        row = load_catalog(path).prices.price("lustre.SCRATCH_2.SSD", "us-east-1")
        assert row is not None
        assert (row.usd, row.source.date) == (0.1, "2026-11-02")

    def test_a_problem_names_file_and_line(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text("regions:\n  us-east-1:\n    zone_ids: [use1-az1]\n    s3_files: perhaps\n", encoding="utf-8")
        with pytest.raises(CatalogError) as refused:
            load_catalog(path)
        (problem,) = refused.value.problems
        assert (problem.file, problem.line, problem.path) == (str(path), 4, "regions.us-east-1.s3_files")

    def test_tiers_may_be_numbers_as_keys(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yml"
        path.write_text("lustre_options: {PERSISTENT_1: {HDD: {step_gib: {12: 3000, 40: 900}}}}\n", encoding="utf-8")
        row = load_catalog(path).lustre.option("PERSISTENT_1", "HDD")
        assert row is not None
        assert row.step_gib == {12: 3000, 40: 900}


class TestBroken:
    def test_every_problem_in_every_file_at_once(self, problems: Callable[..., dict[str, Problem]]) -> None:
        found = problems(
            {
                "instance_types": {"p9.48xlarge": {**NEW_TYPE, "accelerators": "eight"}, "p8.48xlarge": {}},
                "prices": {"us-east-1": {"ec2.p5.48xlarge": {"usd": -1}}},
            },
            {"regions": {"us-east-1": {"zone_ids": ["us-east-1a"]}}},
        )
        assert {"instance_types.p9.48xlarge.accelerators", "prices.us-east-1.ec2.p5.48xlarge.usd"} <= set(found)
        assert "regions.us-east-1.zone_ids" in found
        missing = {path.rpartition(".")[2] for path in found if path.startswith("instance_types.p8")}
        assert missing == set(NEW_TYPE)

    def test_a_wrong_value_names_value_and_what_is_allowed(self, problems: Callable[..., dict[str, Problem]]) -> None:
        found = problems({"instance_types": {"p5.48xlarge": {"network_gbps": "fast"}}})
        problem = found["instance_types.p5.48xlarge.network_gbps"]
        assert (problem.value, problem.allowed) == ("fast", "a number above 0 in Gbit/s")

    @pytest.mark.parametrize(
        ("document", "path", "fix"),
        [
            ({"instance_type": {}}, "instance_type", "instance_types"),
            (p5(network_gbs=1), "instance_types.p5.48xlarge.network_gbs", "network_gbps"),
            ({"lustre_limits": {"max_link": {"value": 1}}}, "lustre_limits.max_link", "max_links"),
            ({"sources": {"quote": {"text": "x"}}, "lustre_limits": {"max_links": {"value": 9, "source": "quoet"}}},
             "lustre_limits.max_links.source", "quote"),
        ],
    )  # fmt: skip
    def test_an_unknown_name_names_the_nearest(
        self, problems: Callable[..., dict[str, Problem]], document: object, path: str, fix: str
    ) -> None:
        assert problems(document)[path].fix == f"did you mean {fix}?"

    @pytest.mark.parametrize(
        ("document", "path"),
        [
            ([1, 2], ""),
            ({"regions": []}, "regions"),
            ({"regions": {"us-east-1": 3}}, "regions.us-east-1"),
            ({"prices": {"us-east-1": {"x": 3}}}, "prices.us-east-1.x"),
            ({"prices": {"us-east-1": {"x": {"unit": "GB", "usd": 1, "tiers": [{"above": 2, "usd": 1},
              {"above": 2, "usd": 0.5}]}}}}, "prices.us-east-1.x.tiers"),
            ({"prices": {"us-east-1": {"x": {"unit": "GB", "usd": 1, "tiers": [{"above": 0, "usd": 1}]}}}},
             "prices.us-east-1.x.tiers"),
            ({"prices": {"us-east-1": {"x": {"unit": "GB", "usd": None, "tiers": [{"above": 2, "usd": 1}]}}}},
             "prices.us-east-1.x.tiers"),
            ({"prices": {"us-east-1": 3}}, "prices.us-east-1"),
            ({"prices": {"us-east-1a": {"x": {"unit": "hour", "usd": 1}}}}, "prices.us-east-1a.x"),
            ({"instance_types": {"p9": NEW_TYPE}}, "instance_types.p9"),
            ({"sources": {"a": 3}}, "sources.a"),
            ({"sources": {"a": {"text": "x", "date": "yesterday"}}}, "sources.a.date"),
            ({"sources": 3}, "sources"),
            ({"lustre_limits": {"max_links": {"value": 9, "source": 3}}}, "lustre_limits.max_links.source"),
            (p5(vcpus=1.5), "instance_types.p5.48xlarge.vcpus"),
            (p5(network_gbps=10**400), "instance_types.p5.48xlarge.network_gbps"),
            (p5(vcpus=True), "instance_types.p5.48xlarge.vcpus"),
            (p5(network_gbps=float("inf")), "instance_types.p5.48xlarge.network_gbps"),
            (p5(architecture="mips"), "instance_types.p5.48xlarge.architecture"),
            (p5(efa_interfaces=33), "instance_types.p5.48xlarge.efa_interfaces"),
            (p5(efa_cards=[0, 0]), "instance_types.p5.48xlarge.efa_cards"),
            (p5(fsx_efa_interfaces=33), "instance_types.p5.48xlarge.fsx_efa_interfaces"),
            (p5(capacity_block=False), "instance_types.p5.48xlarge.capacity_block"),
            ({"lustre_options": {"PERSISTENT_2": {"SSD": {"step_gib": {"125": 2400}}}}},
             "lustre_options.PERSISTENT_2.SSD.step_gib"),
            ({"lustre_options": {"PERSISTENT_2": {"SSD": {"step_gib": {"x": 2400}}}}},
             "lustre_options.PERSISTENT_2.SSD.step_gib"),
            ({"lustre_limits": {"max_links": {"value": "8"}}}, "lustre_limits.max_links.value"),
            ({"lustre_limits": {"max_links": {"value": 8.5}}}, "lustre_limits.max_links.value"),
            ({"lustre_limits": {"max_links": {"value": 0}}}, "lustre_limits.max_links.value"),
            ({"lustre_limits": {"max_links": {"value": float("nan")}}}, "lustre_limits.max_links.value"),
            ({"lustre_limits": {"metadata_iops_first": {"value": []}}}, "lustre_limits.metadata_iops_first.value"),
            ({"lustre_limits": {"automatic_metadata_iops_from_gib": {"value": [[0]]}}},
             "lustre_limits.automatic_metadata_iops_from_gib.value"),
            ({"object_storage": {"mountpoint_minimum_version": {"value": 1.2}}},
             "object_storage.mountpoint_minimum_version.value"),
            ({"object_storage": {"mountpoint_cache_disk_share_max": {"value": float("inf")}}},
             "object_storage.mountpoint_cache_disk_share_max.value"),
        ],
    )  # fmt: skip
    def test_one_wrong_thing_is_one_problem(
        self, problems: Callable[..., dict[str, Problem]], document: object, path: str
    ) -> None:
        found = problems(document)
        assert set(found) == {path}
        assert found[path].allowed

    @pytest.mark.parametrize(
        ("name", "content", "what"),
        [
            ("mine.json", b"{", "is not JSON"),
            ("mine.json", b'{"prices": {}, "prices": {}}', "has a key twice: prices"),
            ("mine.json", b"\xff\xfe\x00", "is not UTF-8 text"),
            ("mine.json", b"[" * 100_000, "is nested too deeply"),
            ("mine.yaml", b"a: [1\nb: 2", "is not YAML"),
            ("mine.yaml", b"prices: {}\nprices: {}\n", "is not YAML"),
            ("mine.yaml", b"a: \x01", "is not YAML"),
            ("mine.yaml", b"a: 2026-13-45", "holds a value that cannot be read"),
            ("mine.json", b"[" + b"9" * 5000 + b"]", "holds a value that cannot be read"),
            ("mine.toml", b"", "is neither JSON nor YAML by its name"),
        ],
    )
    def test_a_file_that_cannot_be_read_is_our_error(
        self, tmp_path: Path, name: str, content: bytes, what: str
    ) -> None:
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(CatalogError) as refused:
            load_catalog(path)
        (problem,) = refused.value.problems
        assert what in problem.what
        assert problem.file == str(path)

    def test_a_missing_file_and_a_broken_one_are_both_named(self, tmp_path: Path) -> None:
        (tmp_path / "broken.json").write_text("{", encoding="utf-8")
        with pytest.raises(CatalogError) as refused:
            load_catalog(tmp_path / "missing.json", tmp_path / "broken.json")
        assert [Path(str(problem.file)).name for problem in refused.value.problems] == ["missing.json", "broken.json"]

    def test_an_empty_yaml_file_is_refused(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.yaml"
        path.write_text("", encoding="utf-8")
        with pytest.raises(CatalogError, match="the file holds no tables"):
            load_catalog(path)
