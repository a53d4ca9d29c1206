"""Latencies and failure rates: the published figures, and a user's file over them that reaches the plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit._planner import make
from training_storage.catalog import Catalog, default_catalog, load_catalog
from training_storage.catalog.loading import DATA
from training_storage.errors import CatalogError
from training_storage.planner import Plan, plan
from training_storage.workload.model import Compute

TRAINING = default_catalog().training
LOADER = {"workers_per_accelerator": 1, "prefetch": 1}
ON_S3 = {"hot_tier": "none", "dataset.loader": LOADER}


@pytest.fixture
def load(tmp_path: Path) -> Callable[[object], Catalog]:
    def write_and_load(document: object) -> Catalog:
        path = tmp_path / "mine.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return load_catalog(path)

    return write_and_load


def latency(made: Plan) -> float | None:
    return next((limit.mb_per_s for limit in made.prediction.limits if limit.name == "latency"), None)


@pytest.mark.parametrize(
    ("tier", "read_bytes", "first_byte", "open_"),
    [
        # S3 User Guide, optimizing performance: roughly 100 to 200 ms.
        ("s3", 1e6, (0.1, 0.2), (0.1, 0.2)),
        # S3 User Guide, S3 Express performance: a single-digit number of milliseconds.
        ("s3_express", 1e6, (0.001, 0.01), (0.001, 0.01)),
        # S3 User Guide, S3 Files performance: files under 128 KiB are kept in the file system, others come from S3.
        ("s3_files", None, (0.1, 0.2), (None, 0.001)),
        ("s3_files", 131_072, (0.1, 0.2), (None, 0.001)),
        ("s3_files", 131_071, (None, 0.001), (None, 0.001)),
        # FSx for Lustre User Guide, SSD and HDD storage, latency at P50; Intelligent-Tiering.
        ("lustre.SSD", 1e6, (None, 0.001), (None, 0.001)),
        ("lustre.HDD", 1e6, (0.001, 0.01), (None, 0.001)),
        ("lustre.INTELLIGENT_TIERING", 1e6, (0.01, 0.1), (None, 0.001)),
    ],
)
def test_latencies_are_the_published_ranges(
    tier: str, read_bytes: float | None, first_byte: tuple[float | None, float], open_: tuple[float | None, float]
) -> None:
    for found, wanted in (
        (TRAINING.first_byte(tier, read_bytes), first_byte),
        (TRAINING.open(tier, read_bytes), open_),
    ):
        assert found is not None
        assert (found.low_s, found.high_s) == wanted


def test_an_unknown_tier_has_no_latency() -> None:
    assert TRAINING.first_byte("tape") is None
    assert TRAINING.stream_mb_per_s("tape") is None


@pytest.mark.parametrize(
    ("tier", "read_bytes", "rate"),
    [
        ("s3", 1e6, 85),
        ("s3_files", 1e6, 85),
        ("s3_files", 1000, None),
        ("s3_express", 1e6, None),
        ("lustre.SSD", 1, None),
    ],
)
def test_a_request_brings_the_slow_end_of_what_is_published(tier: str, read_bytes: float, rate: float | None) -> None:
    # Design patterns of the S3 User Guide: one request for each 85 to 90 MB/s.
    assert TRAINING.stream_mb_per_s(tier, read_bytes) == rate


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("default", 50_000),  # MLCommons Storage v2.0: 3 minutes with a million accelerators
        ("llama3", 16_384 * 54 * 24 / 419),  # 419 unexpected interruptions of 16,384 in 54 days
        ("rsc1", 1000 * 24 * 8 / 6.5),  # 6.50 failures in 1,000 node-days, nodes of 8
    ],
)
def test_failure_rates_are_the_published_ones(name: str, hours: float) -> None:
    assert TRAINING.failure_rates[name].accelerator_mttf_h == pytest.approx(hours, rel=1e-4)


def test_the_default_of_the_workload_file_is_the_row_of_the_catalog() -> None:
    field = Compute.fields["accelerator_mttf"]
    assert field.make is not None
    assert field.make().seconds == TRAINING.accelerator_mttf.accelerator_mttf_h * 3600


def test_a_copy_of_the_data_file_changes_no_value() -> None:
    copied = load_catalog(DATA / "training.json").training
    assert {name: (row.low_s, row.high_s, row.below_bytes) for name, row in copied.latencies.items()} == {
        name: (row.low_s, row.high_s, row.below_bytes) for name, row in TRAINING.latencies.items()
    }
    assert {name: row.low_mb_per_s for name, row in copied.stream_rates.items()} == {
        name: row.low_mb_per_s for name, row in TRAINING.stream_rates.items()
    }
    assert {name: row.accelerator_mttf_h for name, row in copied.failure_rates.items()} == {
        name: row.accelerator_mttf_h for name, row in TRAINING.failure_rates.items()
    }


def test_a_measured_latency_changes_the_limit(load: Callable[[object], Catalog]) -> None:
    # 32 reads of 8.388608 MB: files of 1 GB are found once in 119 reads, and their bytes come at 85 MB/s.
    workload = make(ON_S3)
    given = load({"read_latencies": {"s3.first_byte": {"low_s": None, "high_s": 0.03}}})
    for catalog, first_s in ((default_catalog(), 0.2), (given, 0.03)):
        read_s = first_s + 0.2 * 8.388608 / 1000 + 8.388608 / 85
        assert latency(plan(workload, catalog=catalog)) == pytest.approx(32 * 8.388608 / read_s)
    row = given.training.first_byte("s3")
    assert row is not None
    assert row.source.trust == "user"


def test_a_latency_that_is_set_to_unknown_is_no_limit_and_the_plan_says_so(load: Callable[[object], Catalog]) -> None:
    made = plan(make(ON_S3), catalog=load({"read_latencies": {"s3.first_byte": {"low_s": None, "high_s": None}}}))
    assert latency(made) is None
    assert any(line.startswith("latency of S3 is not known") for line in made.assumptions)


def test_a_rate_that_is_set_to_unknown_is_left_out_and_the_plan_says_so(load: Callable[[object], Catalog]) -> None:
    given = {"stream_rates": {"s3": {"low_mb_per_s": None, "high_mb_per_s": None}}}
    made = plan(make(ON_S3), catalog=load(given))
    assert latency(made) == pytest.approx(32 * 8.388608 / (0.2 + 0.2 * 8.388608 / 1000))
    assert any("no rate of one stream is published" in line for line in made.assumptions)


def test_a_failure_rate_of_the_users_file_counts_where_the_workload_gives_none(
    load: Callable[[object], Catalog],
) -> None:
    catalog = load({"failure_rates": {"default": {"accelerator_mttf_h": 32_000, "source": {"text": "our logs"}}}})
    made = plan(make(), catalog=catalog)
    assert made.prediction.mtbf_h == 1000
    assert any("once in 32,000 hours" in line and "our logs" in line for line in made.assumptions)
    assert plan(make({"compute.accelerator_mttf": "64000h"}), catalog=catalog).prediction.mtbf_h == 2000


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"read_latencies": {"s3.frist_byte": {"high_s": 1}}}, "read_latencies.s3.frist_byte"),
        ({"read_latencies": {"s3.open": {"low_s": 2, "high_s": 1}}}, "read_latencies.s3.open.low_s"),
        ({"read_latencies": {"s3.open": {"high_s": 0}}}, "read_latencies.s3.open.high_s"),
        ({"stream_rates": {"s3": {"low_mb_per_s": 91}}}, "stream_rates.s3.low_mb_per_s"),
        ({"failure_rates": {"default": {"accelerator_mttf_h": 0}}}, "failure_rates.default.accelerator_mttf_h"),
        ({"failure_rates": {"mine": {"accelerator_mttf_h": 9000}}}, "failure_rates.mine"),
    ],
)
def test_a_wrong_row_is_refused_with_its_place(
    load: Callable[[object], Catalog], document: dict[str, object], path: str
) -> None:
    with pytest.raises(CatalogError) as error:
        load(document)
    (problem,) = error.value.problems
    assert problem.path == path
    assert problem.allowed
