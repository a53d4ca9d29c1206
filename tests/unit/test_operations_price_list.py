"""Refreshing prices: questions against the service model of the Price List API (botocore Stubber), and the file."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit._planner import make
from tests.unit._price_list import CATALOG, FRANKFURT, QUESTIONS, Aws, instance, key, lustre, product
from training_storage.catalog import load_catalog
from training_storage.errors import AwsError, CatalogError, RefusedError
from training_storage.operations.aws import CLIENT_CONFIG
from training_storage.operations.price_list import Refresh, endpoint_for, refresh_prices
from training_storage.operations.price_list_file import PriceFile
from training_storage.operations.price_list_items import ITEMS, NOT_ASKED, instance_items
from training_storage.planner import plan

REGION = "eu-central-1"
KEY_ROW = {"unit": "month", "usd": 1.0, "source": {"text": "AWS Price List: awskms", "date": "", "trust": "seen"}}
ITEM_NAMES = {item.name for item in (*ITEMS, *instance_items(CATALOG.instance_types))} | set(NOT_ASKED)


@pytest.fixture
def aws() -> Aws:
    return Aws()


def refresh(aws: Aws, file: Path, region: str = REGION, **more: Any) -> Refresh:
    return refresh_prices(aws, region, file, catalog=CATALOG, **more)  # type: ignore[arg-type] # only client() is used


def rows(file: Path, region: str = REGION) -> dict[str, Any]:
    found = json.loads(file.read_text(encoding="utf-8"))["prices"][region]
    assert isinstance(found, dict)
    return found


class TestQuestions:
    @pytest.mark.parametrize(
        ("region", "endpoint"),
        # Service endpoints of the Price List Query API
        [("us-west-2", "us-east-1"), ("sa-east-1", "us-east-1"), ("us-gov-west-1", "us-east-1"),
         ("eu-west-3", "eu-central-1"), ("ap-southeast-4", "ap-south-1"), ("cn-north-1", "cn-northwest-1")],
    )  # fmt: skip
    def test_the_endpoint_is_one_of_those_there_are(self, region: str, endpoint: str) -> None:
        assert endpoint_for(region) == endpoint

    def test_botocore_knows_the_endpoints(self) -> None:
        import boto3

        session = boto3.session.Session()
        known = {*session.get_available_regions("pricing"), *session.get_available_regions("pricing", "aws-cn")}
        regions = ["us-east-1", "eu-west-1", "ap-south-1", "cn-north-1"]
        assert {endpoint_for(region) for region in regions} == known

    @pytest.mark.parametrize("region", ["us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1", "eusc-de-east-1"])
    def test_a_partition_without_the_api_is_refused(self, aws: Aws, tmp_path: Path, region: str) -> None:
        with pytest.raises(RefusedError, match=region):
            refresh(aws, tmp_path / "prices.json", region)

    def test_one_client_with_bounded_retries(self, aws: Aws, tmp_path: Path) -> None:
        refresh(aws.answer(), tmp_path / "prices.json")
        assert aws.asked == [("pricing", {"region_name": "eu-central-1", "config": CLIENT_CONFIG})]
        assert vars(CLIENT_CONFIG)["retries"]["total_max_attempts"] == 6

    def test_every_question_is_asked_once(self, aws: Aws, tmp_path: Path) -> None:
        told: list[tuple[int, int, str]] = []
        refresh(aws.answer(), tmp_path / "prices.json", on_question=lambda *what: told.append(what))
        aws.stub.assert_no_pending_responses()
        assert [number for number, _, _ in told] == list(range(len(QUESTIONS)))
        assert {total for _, total, _ in told} == {len(QUESTIONS)}
        assert told[0][2] == "AmazonFSx"
        assert told[-1][2] == "g6.xlarge"

    @pytest.mark.parametrize("page", [1, 2])
    def test_pages_are_read_to_the_end(self, tmp_path: Path, page: int) -> None:
        whole = refresh(Aws().answer(), tmp_path / "whole.json")
        paged = refresh(Aws().answer(page=page), tmp_path / "paged.json")
        assert paged.priced == whole.priced
        assert (tmp_path / "paged.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


class TestRows:
    def test_every_item_has_a_row(self, aws: Aws, tmp_path: Path) -> None:
        result = refresh(aws.answer(), tmp_path / "prices.json")
        assert set(rows(tmp_path / "prices.json")) == ITEM_NAMES
        assert {price.item for price in (*result.priced, *result.unknown)} == ITEM_NAMES
        assert (result.left, result.kept) == ((), ())
        assert (result.region, result.endpoint) == (REGION, "eu-central-1")

    def test_a_row_says_service_sku_and_dates_of_the_answer(self, aws: Aws, tmp_path: Path) -> None:
        refresh(aws.answer(), tmp_path / "prices.json")
        assert rows(tmp_path / "prices.json")["lustre.PERSISTENT_2.SSD.125"] == {
            "unit": "GiB-month",
            "usd": 0.174,
            "source": {
                "text": "AWS Price List: AmazonFSx, SKU L125, effective 2026-09-01",
                "date": "2026-09-17",
                "trust": "seen",
            },
        }

    def test_tiers(self, aws: Aws, tmp_path: Path) -> None:
        refresh(aws.answer(), tmp_path / "prices.json")
        row = rows(tmp_path / "prices.json")["s3.standard.storage"]
        assert row["tiers"] == [{"above": 51_200, "usd": 0.0235}, {"above": 512_000, "usd": 0.0225}]
        prices = load_catalog(tmp_path / "prices.json").prices
        assert prices.usd_for("s3.standard.storage", REGION, 51_300) == pytest.approx(51_200 * 0.0245 + 100 * 0.0235)

    def test_what_has_no_product_is_null_with_the_reason(self, aws: Aws, tmp_path: Path) -> None:
        result = refresh(aws.answer(), tmp_path / "prices.json")
        row = rows(tmp_path / "prices.json")["lustre.PERSISTENT_2.SSD.1000"]
        assert row["usd"] is None
        assert row["source"]["text"] == "AWS Price List: no product of AmazonFSx fits"
        reasons = {price.item: price.source for price in result.unknown}
        assert reasons["lustre.PERSISTENT_2.SSD.1000"] == "no product of AmazonFSx fits"
        assert "not known to this program" in reasons["s3_files.read"]

    def test_several_prices_are_null_and_named_in_the_result(self, aws: Aws, tmp_path: Path) -> None:
        two = [*FRANKFURT["AmazonFSx"], lustre("L125B", "EUC1-Storage.SSD.125", "0.2")]
        result = refresh(aws.answer(answers={**FRANKFURT, "AmazonFSx": two}), tmp_path / "prices.json")
        assert rows(tmp_path / "prices.json")["lustre.PERSISTENT_2.SSD.125"]["usd"] is None
        reasons = {price.item: price.source for price in result.unknown}
        assert "L125 at 0.174 USD, L125B at 0.2 USD" in reasons["lustre.PERSISTENT_2.SSD.125"]

    def test_prices_in_yuan_are_no_prices(self, aws: Aws, tmp_path: Path) -> None:
        yuan = {name: [entry.replace('"USD"', '"CNY"') for entry in entries] for name, entries in FRANKFURT.items()}
        with pytest.raises(RefusedError, match="nothing was written"):
            refresh(aws.answer("cn-north-1", yuan), tmp_path / "prices.json", "cn-north-1")
        assert not list(tmp_path.iterdir())

    def test_a_region_that_no_price_list_has_writes_nothing(self, aws: Aws, tmp_path: Path) -> None:
        with pytest.raises(RefusedError, match="no price for us-east-9"):
            refresh(aws.answer("us-east-9", {}), tmp_path / "prices.json", "us-east-9")
        assert not list(tmp_path.iterdir())

    def test_an_entry_that_is_no_product_leaves_its_items_unknown(self, aws: Aws, tmp_path: Path) -> None:
        broken = [*FRANKFURT["AmazonFSx"], "{}"]
        result = refresh(aws.answer(answers={**FRANKFURT, "AmazonFSx": broken}), tmp_path / "prices.json")
        reasons = {price.item: price.source for price in result.unknown}
        assert reasons["lustre.PERSISTENT_2.SSD.125"] == "AmazonFSx: an entry of the answer is no product"
        assert rows(tmp_path / "prices.json")["nat.gateway"]["usd"] == 0.052

    @pytest.mark.parametrize("code", ["InvalidParameterException", "NotFoundException"])
    def test_a_question_that_is_not_understood_leaves_its_items_unknown(
        self, aws: Aws, tmp_path: Path, code: str
    ) -> None:
        aws.refuse(code, message="unknown field")
        for question in QUESTIONS[1:]:
            aws.answer_one(question, REGION, FRANKFURT[key(question)])
        result = refresh(aws, tmp_path / "prices.json")
        reasons = {price.item: price.source for price in result.unknown}
        assert reasons["lustre.backup"] == f"AmazonFSx refused the question: {code}: unknown field"
        assert rows(tmp_path / "prices.json")["kms.key"]["usd"] == 1

    def test_a_row_of_the_package_stands_where_the_price_list_has_none(self, aws: Aws, tmp_path: Path) -> None:
        result = refresh(aws.answer("us-east-1"), tmp_path / "prices.json", "us-east-1")
        left = {price.item for price in result.left}
        assert {"lustre.PERSISTENT_2.SSD.1000", "s3_express.storage", "s3_files.read"} <= left
        assert not left & set(rows(tmp_path / "prices.json", "us-east-1"))
        prices = load_catalog(tmp_path / "prices.json").prices
        assert prices.usd("lustre.PERSISTENT_2.SSD.1000", "us-east-1") == 0.6
        # Only remembered, so no price that would have to stand:
        assert rows(tmp_path / "prices.json", "us-east-1")["lustre.PERSISTENT_1.SSD.50"]["usd"] is None


class TestPlan:
    def test_the_file_prices_a_plan_of_the_region(self, aws: Aws, tmp_path: Path) -> None:
        refresh(aws.answer(), tmp_path / "prices.json")
        changes = {"region": REGION, "availability_zone_id": "euc1-az1", "hot_tier": "lustre"}
        before = {line.item: line.unit_price for line in plan(make(changes)).cost.lines}
        after = plan(make(changes), catalog=load_catalog(tmp_path / "prices.json")).cost
        assert set(before.values()) == {None}
        prices = {line.item: line.unit_price for line in after.lines}
        assert prices["ec2.p5.48xlarge"] == 68.8
        ((item, storage),) = ((item, usd) for item, usd in prices.items() if item.startswith("lustre.PERSISTENT_2.SSD"))
        assert storage == {"125": 0.174, "250": 0.252, "500": 0.408}[item.rpartition(".")[2]]
        assert after.compute_hourly == pytest.approx(4 * 68.8)

    def test_the_source_of_a_line_is_the_price_list(self, aws: Aws, tmp_path: Path) -> None:
        refresh(aws.answer(), tmp_path / "prices.json")
        row = load_catalog(tmp_path / "prices.json").prices.price("ec2.p5.48xlarge", REGION)
        assert row is not None
        assert row.source.text == "AWS Price List: AmazonEC2, SKU SKUP5.48XLARGE, effective 2026-09-01"
        assert (row.source.date, row.source.trust) == ("2026-09-17", "user")


class TestFile:
    OWN: ClassVar[dict[str, Any]] = {
        "sources": {"deal": {"text": "our agreement", "date": "2026-10-01"}},
        "prices": {
            "us-west-2": {"nat.gateway": {"unit": "hour", "usd": 0.04}},
            REGION: {
                "nat.gateway": {"unit": "hour", "usd": 0.03, "source": "deal"},
                "ec2-spot.p5.48xlarge": {"unit": "hour", "usd": 20, "source": {"text": "last month"}},
            },
        },
        "mountpoint_throughput": {"p5en.48xlarge": {"gbps": 90}},
    }

    def own(self, folder: Path) -> Path:
        file = folder / "prices.json"
        file.write_text(json.dumps(self.OWN), encoding="utf-8")
        return file

    def test_rows_of_the_owner_and_of_other_regions_stay(self, aws: Aws, tmp_path: Path) -> None:
        file = self.own(tmp_path)
        result = refresh(aws.answer(), file)
        content = json.loads(file.read_text(encoding="utf-8"))
        assert content["sources"] == self.OWN["sources"]
        assert content["prices"]["us-west-2"] == self.OWN["prices"]["us-west-2"]
        assert content["mountpoint_throughput"] == self.OWN["mountpoint_throughput"]
        for item, row in self.OWN["prices"][REGION].items():
            assert content["prices"][REGION][item] == row
        assert content["prices"][REGION]["nat.data_processed"]["usd"] == 0.052
        assert result.kept == ("ec2-spot.p5.48xlarge", "nat.gateway")
        assert "nat.gateway" not in {price.item for price in result.priced}

    def test_a_second_refresh_replaces_the_rows_of_the_first(self, tmp_path: Path) -> None:
        file = self.own(tmp_path)
        refresh(Aws().answer(), file)
        dearer = {**FRANKFURT, "p5.48xlarge": [instance("p5.48xlarge", "99.5")], "AmazonFSx": []}
        refresh(Aws().answer(answers=dearer), file)
        assert rows(file)["ec2.p5.48xlarge"]["usd"] == 99.5
        assert rows(file)["lustre.backup"]["usd"] is None
        assert rows(file)["nat.gateway"]["usd"] == 0.03

    def test_the_same_answer_gives_the_same_bytes(self, tmp_path: Path) -> None:
        file = self.own(tmp_path)
        refresh(Aws().answer(), file)
        first = file.read_bytes()
        refresh(Aws().answer(), file)
        assert file.read_bytes() == first

    def test_a_second_region_leaves_the_first(self, tmp_path: Path) -> None:
        file = tmp_path / "prices.json"
        refresh(Aws().answer(), file)
        first = rows(file)
        refresh(Aws().answer("eu-west-1"), file, "eu-west-1")
        assert rows(file) == first
        assert rows(file, "eu-west-1")["nat.gateway"]["usd"] == 0.052

    def test_a_yaml_file_keeps_its_comments(self, aws: Aws, tmp_path: Path) -> None:
        file = tmp_path / "prices.yaml"
        file.write_text(
            "# Ours\nprices:\n  eu-central-1:\n    # as of the deal\n    nat.gateway: {unit: hour, usd: 0.03}\n",
            encoding="utf-8",
        )
        refresh(aws.answer(), file)
        text = file.read_text(encoding="utf-8")
        assert "# Ours" in text
        assert "# as of the deal" in text
        prices = load_catalog(file).prices
        assert prices.usd("nat.gateway", REGION) == 0.03
        assert prices.usd("ec2.p5.48xlarge", REGION) == 68.8
        refresh(Aws().answer(), file)
        assert file.read_text(encoding="utf-8") == text

    def test_a_link_stays_a_link(self, aws: Aws, tmp_path: Path) -> None:
        link = tmp_path / "link.json"
        link.symlink_to(self.own(tmp_path))
        refresh(aws.answer(), link)
        assert link.is_symlink()
        assert rows(tmp_path / "prices.json")["nat.data_processed"]["usd"] == 0.052

    def test_rights_of_the_file_stay(self, aws: Aws, tmp_path: Path) -> None:
        file = self.own(tmp_path)
        file.chmod(0o640)
        refresh(aws.answer(), file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o640

    def test_a_new_file_has_the_rights_that_any_new_file_has(self, aws: Aws, tmp_path: Path) -> None:
        plain = tmp_path / "plain"
        plain.touch()
        refresh(aws.answer(), tmp_path / "prices.json")
        assert (tmp_path / "prices.json").stat().st_mode == plain.stat().st_mode

    @pytest.mark.parametrize(
        ("name", "text"),
        [("prices.json", "{"), ("prices.json", '{"prices": {"eu-central-1": {"x": 3}}}'), ("prices.yaml", "a: [1"),
         ("prices.json", "[]"), ("prices.txt", ""), ("none/prices.json", None)],
    )  # fmt: skip
    def test_a_file_that_is_none_is_refused_before_anything_is_asked(
        self, aws: Aws, tmp_path: Path, name: str, text: str | None
    ) -> None:
        if text is not None:
            (tmp_path / name).write_text(text, encoding="utf-8")
        with pytest.raises(CatalogError):
            refresh(aws, tmp_path / name)
        assert aws.asked == []
        assert text is None or (tmp_path / name).read_text(encoding="utf-8") == text

    def test_a_folder_that_is_closed_is_refused_before_anything_is_asked(
        self, aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(CatalogError, match="not open to you"):
            refresh(aws, tmp_path / "prices.json")
        assert aws.asked == []

    def test_two_refreshes_at_once_keep_the_regions_of_both(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file, real = tmp_path / "prices.json", os.fsync

        def slow(handle: int) -> None:
            time.sleep(0.2)  # the other one reads the file meanwhile, if it may
            real(handle)

        monkeypatch.setattr(os, "fsync", slow)
        places = (REGION, "eu-central-2")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda place: PriceFile(file).write(place, {"kms.key": KEY_ROW}), places))
        assert set(json.loads(file.read_text(encoding="utf-8"))["prices"]) == set(places)
        assert [each.name for each in tmp_path.iterdir()] == ["prices.json"]


class TestFailures:
    @pytest.mark.parametrize(
        ("code", "advice"),
        [("AccessDeniedException", "ask for exactly this action"), ("ThrottlingException", "again in a minute"),
         ("InternalErrorException", "GetProducts failed"), ("ExpiredNextTokenException", "GetProducts failed")],
    )  # fmt: skip
    @pytest.mark.parametrize("before", [0, 3])
    def test_a_refusal_writes_nothing(self, aws: Aws, tmp_path: Path, code: str, advice: str, before: int) -> None:
        aws.refuse(code, after=QUESTIONS[:before])
        with pytest.raises(AwsError, match=advice) as caught:
            refresh(aws, tmp_path / "prices.json")
        assert (caught.value.operation, caught.value.code) == ("GetProducts", code)
        assert not list(tmp_path.iterdir())

    def test_a_token_that_comes_again_is_an_error_and_no_endless_loop(self, aws: Aws, tmp_path: Path) -> None:
        for _ in range(3):
            aws.stub.add_response("get_products", {"PriceList": [], "NextToken": "same"})
        with pytest.raises(AwsError, match="same next token"):
            refresh(aws, tmp_path / "prices.json")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
    def test_a_write_that_is_broken_off_leaves_the_file_of_before(
        self, aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
    ) -> None:
        file = tmp_path / "prices.json"
        file.write_text('{"prices": {}}', encoding="utf-8")

        def broken(_: int) -> None:
            raise error

        monkeypatch.setattr(os, "fsync", broken)
        with pytest.raises((KeyboardInterrupt, CatalogError)):
            refresh(aws.answer(), file)
        assert file.read_text(encoding="utf-8") == '{"prices": {}}'
        assert [each.name for each in tmp_path.iterdir()] == ["prices.json"]

    def test_interrupted_while_asking_writes_nothing(self, aws: Aws, tmp_path: Path) -> None:
        def interrupt(number: int, *_: object) -> None:
            if number == 4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            refresh(aws.answer(), tmp_path / "prices.json", on_question=interrupt)
        assert not list(tmp_path.iterdir())

    def test_without_credentials(self, tmp_path: Path, without_credentials: Callable[[], Any]) -> None:
        with pytest.raises(AwsError, match="no AWS credentials found"):
            refresh_prices(without_credentials(), REGION, tmp_path / "prices.json", catalog=CATALOG)
        assert not list(tmp_path.iterdir())

    @pytest.fixture
    def without_credentials(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Any]:
        import boto3

        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
        return boto3.session.Session


USAGES = ["Storage.SSD.125", "Storage.SSD.250", "Storage", "BackupUsage", "TimedStorage-ByteHrs", "Requests-Tier2"]
MONEY = st.decimals(0, 10, places=4).map(str)


@given(
    prices=st.dictionaries(st.sampled_from(USAGES), st.lists(MONEY, min_size=1, max_size=3)),
    unit=st.sampled_from(["GB-Mo", "GB-Mo", "Requests", "Hrs"]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_price_is_written_that_no_answer_held(tmp_path: Path, prices: dict[str, list[str]], unit: str) -> None:
    entries = [
        product(f"{usage}{number}", {"usagetype": f"EUC1-{usage}"}, usd, unit)
        for usage, each in prices.items()
        for number, usd in enumerate(each)
    ]
    answers = {"AmazonFSx": entries, "AmazonS3": entries, "p5.48xlarge": FRANKFURT["p5.48xlarge"]}
    file = tmp_path / "prices.json"
    file.unlink(missing_ok=True)
    refresh(Aws().answer(answers=answers), file)
    held = {Decimal(usd) for each in prices.values() for usd in each} | {Decimal("68.8")}
    times = {item.name: item.times for item in (*ITEMS, *instance_items(CATALOG.instance_types))}
    for item, row in rows(file).items():
        if row["usd"] is not None:
            assert row["usd"] in {float(usd * times[item]) for usd in held if usd}
