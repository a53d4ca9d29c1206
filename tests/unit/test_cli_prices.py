"""``training-storage prices``: what show prints, and what refresh says, with its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.unit._price_list import CATALOG, FRANKFURT, QUESTIONS, Aws
from training_storage.catalog import default_catalog, load_catalog
from training_storage.cli.app import main

BOOK = default_catalog().prices


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["prices", *arguments]) == code
    return capsys.readouterr().out


class TestShow:
    @pytest.mark.parametrize("region", ["us-east-1", "us-east-2"])
    def test_every_row_of_the_region_has_a_line(self, capsys: pytest.CaptureFixture[str], region: str) -> None:
        lines = printed(capsys, "show", "--region", region).splitlines()
        named = [line.split()[0] for line in lines if re.search(r"\[\d+\]$", line) and not line.startswith("[")]
        assert named == list(BOOK.items(region))

    def test_a_line_says_price_unit_trust_date_and_source(self, capsys: pytest.CaptureFixture[str]) -> None:
        out = printed(capsys, "show")
        line = next(line for line in out.splitlines() if line.startswith("lustre.PERSISTENT_2.SSD.500 "))
        *cells, number = line.split()
        assert cells == ["lustre.PERSISTENT_2.SSD.500", "0.34", "GiB-month", "derived", "2026-10-09"]
        assert f"{number} Third-party note on us-east-2" in out

    def test_what_is_not_known_is_said(self, capsys: pytest.CaptureFixture[str]) -> None:
        out = printed(capsys, "show")
        assert re.search(r"^lustre.PERSISTENT_2.INTELLIGENT_TIERING.requests +unknown +1000 requests", out, re.M)
        assert re.search(r"^lustre.PERSISTENT_1.SSD.50 +unknown \(0.14 remembered, not used\) +GiB-month", out, re.M)

    def test_tiers_and_small_prices_in_digits(self, capsys: pytest.CaptureFixture[str]) -> None:
        out = printed(capsys, "show")
        assert re.search(r"^s3.standard.storage +0.023 .*\n +0.022 +above 51,200\n +0.021 +above 512,000\n", out, re.M)
        assert re.search(r"^s3_express.get_requests +0.00003 ", out, re.M)
        assert re.search(r"^kms.key +1 +month", out, re.M)

    def test_as_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        document = json.loads(printed(capsys, "show", "--format", "json"))
        assert (document["region"], document["currency"]) == ("us-east-1", "USD")
        rows = {row["item"]: row for row in document["prices"]}
        assert list(rows) == list(BOOK.items("us-east-1"))
        assert {item: row["usd"] for item, row in rows.items()} == {item: BOOK.usd(item, "us-east-1") for item in rows}
        assert rows["lustre.PERSISTENT_1.SSD.50"]["remembered_usd"] == 0.14
        assert rows["s3.standard.storage"]["tiers"] == [
            {"above": 51200, "usd": 0.022}, {"above": 512000, "usd": 0.021},
        ]  # fmt: skip
        assert all(row["source"] and row["date"] and row["trust"] and row["unit"] for row in rows.values())

    def test_rows_of_a_catalog_file(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        file = tmp_path / "mine.yaml"
        file.write_text("prices: {eu-west-1: {nat.gateway: {unit: hour, usd: 0.048}}}", encoding="utf-8")
        out = printed(capsys, "show", "--region", "eu-west-1", "--catalog", str(file))
        assert re.search(r"^nat.gateway +0.048 +hour +user +- +\[1\]$", out, re.M)
        assert "[1] mine.yaml" in out

    def test_a_region_without_rows_is_exit_code_1_and_says_what_to_do(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["prices", "show", "--region", "eu-west-1"]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert "no row of eu-west-1" in err
        assert "prices refresh --region eu-west-1" in err

    def test_a_catalog_file_that_is_none_is_exit_code_2(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        assert main(["prices", "show", "--catalog", str(tmp_path / "none.yaml")]) == 2
        assert "cannot be read" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "arguments",
        [[], ["list"], ["show", "--region", "us-east-1a"], ["show", "--catalog", ""], ["refresh"],
         ["refresh", "--region", "eu-west-1", "--output", ""]],
        ids=" ".join,
    )  # fmt: skip
    def test_bad_usage_is_exit_code_2(self, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
        assert main(["prices", *arguments]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert "error: " in err
        assert "Traceback" not in err

    def test_the_help_names_the_right_that_is_needed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "pricing:GetProducts" in printed(capsys, "--help")
        assert "pricing:GetProducts" in printed(capsys, "refresh", "--help")


class TestRefresh:
    @pytest.fixture(autouse=True)
    def aws(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Aws:
        from training_storage.operations import price_list

        aws = Aws()
        profiles: list[str | None] = []

        def session(region: str | None = None, profile: str | None = None) -> Any:
            profiles.append(profile)
            return aws

        monkeypatch.setattr("training_storage.operations.aws.make_session", session)
        monkeypatch.setattr(price_list, "default_catalog", lambda: CATALOG)
        monkeypatch.chdir(tmp_path)
        self.profiles = profiles
        return aws

    def test_it_writes_a_file_that_a_catalog_can_read_and_says_so(
        self, aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        aws.answer()
        out = printed(capsys, "refresh", "--region", "eu-central-1", "--profile", "billing")
        assert self.profiles == ["billing"]
        assert out.startswith("prices-eu-central-1.json: ")
        assert "--catalog prices-eu-central-1.json" in out
        assert "no product of AmazonFSx fits: lustre.PERSISTENT_1.SSD.50" in " ".join(out.split())
        assert load_catalog(tmp_path / "prices-eu-central-1.json").prices.usd("nat.gateway", "eu-central-1") == 0.052

    def test_the_counts_are_those_of_the_file(
        self, aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        aws.answer()
        out = printed(capsys, "refresh", "--region", "eu-central-1", "--output", "p.json")
        rows = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))["prices"]["eu-central-1"].values()
        known = sum(row["usd"] is not None for row in rows)
        assert f"{known} prices of eu-central-1" in out
        assert f"{len(rows) - known} items unknown" in out

    def test_as_json(self, aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        aws.answer()
        document = json.loads(printed(capsys, "refresh", "--region", "eu-central-1", "--format", "json"))
        content = json.loads((tmp_path / "prices-eu-central-1.json").read_text(encoding="utf-8"))
        rows = content["prices"]["eu-central-1"]
        assert document["priced"] == {item: row for item, row in rows.items() if row["usd"] is not None}
        assert set(document["unknown"]) == {item for item, row in rows.items() if row["usd"] is None}
        assert (document["region"], document["endpoint"]) == ("eu-central-1", "eu-central-1")
        assert document["file"] == "prices-eu-central-1.json"

    def test_rows_that_stay_are_named(self, aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        (tmp_path / "p.yaml").write_text("prices: {us-east-1: {nat.gateway: {usd: 0.03}}}", encoding="utf-8")
        aws.answer("us-east-1", {**FRANKFURT, "AmazonFSx": []})
        out = " ".join(printed(capsys, "refresh", "--region", "us-east-1", "--output", "p.yaml").split())
        assert "1 row of yours left as before: nat.gateway" in out
        assert "without an answer, for which the package has a price" in out

    @pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException"])
    def test_a_refusal_is_exit_code_3_without_a_file_or_traceback(
        self, aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path, code: str
    ) -> None:
        aws.refuse(code, after=QUESTIONS[:2])
        assert main(["prices", "refresh", "--region", "eu-central-1"]) == 3
        out, err = capsys.readouterr()
        assert out == ""
        assert code in err
        assert "GetProducts" in err
        assert "Traceback" not in err
        assert not list(tmp_path.iterdir())

    def test_a_refusal_as_json_carries_operation_and_code(self, aws: Aws, capsys: pytest.CaptureFixture[str]) -> None:
        aws.refuse("AccessDeniedException")
        out = printed(capsys, "refresh", "--region", "eu-central-1", "--format", "json", code=3)
        document = json.loads(out)
        assert (document["error"], document["operation"], document["code"]) == (
            "AwsError", "GetProducts", "AccessDeniedException",
        )  # fmt: skip

    def test_interrupted_is_exit_code_130_and_says_that_nothing_was_written(
        self, aws: Aws, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("training_storage.operations.price_list._answer", interrupt)
        assert main(["prices", "refresh", "--region", "eu-central-1"]) == 130
        assert "no file was written" in capsys.readouterr().err
        assert not list(tmp_path.iterdir())
