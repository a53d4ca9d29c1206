"""Rules of the data lake bucket."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from training_storage.rules.base import find_problems
from training_storage.rules.data_lake import DATA_LAKE_RULES, LAKE_PREFIXES, DataLakeSettings

NEW = DataLakeSettings(existing=False, bucket_name="training-lake", encryption="kms", encryption_key=False)


def rules_broken(settings: DataLakeSettings) -> list[str | None]:
    return [problem.rule for problem in find_problems(DATA_LAKE_RULES, settings)]


def test_nothing_known_breaks_nothing() -> None:
    assert rules_broken(DataLakeSettings()) == []


@pytest.mark.parametrize("name", ["abc", "a1-b2", "x" * 63])
def test_bucket_names_pass(name: str) -> None:
    assert rules_broken(replace(NEW, bucket_name=name)) == []


@pytest.mark.parametrize(
    "name", ["ab", "x" * 64, "Lake", "a.b.c", "-lake", "lake-", "a_b", "xn--lake", "lake-s3alias", "lake--x-s3", ""]
)
def test_other_bucket_names_fail(name: str) -> None:
    assert rules_broken(replace(NEW, bucket_name=name)) == ["data-lake.bucket-name"]


def test_an_unknown_encryption_fails() -> None:
    assert rules_broken(replace(NEW, encryption="aes")) == ["data-lake.encryption"]


@pytest.mark.parametrize("days", [0, 0.5, 1.5, -1])
@pytest.mark.parametrize("age", ["noncurrent_versions_expire_after", "logs_expire_after"])
def test_ages_are_whole_days(age: str, days: float) -> None:
    given: dict[str, Any] = {f"{age}_days": days}
    assert rules_broken(replace(NEW, **given)) == ["data-lake.ages"]


@pytest.mark.parametrize(("days", "right"), [(1, False), (29, False), (30, True), (365, True)])
def test_infrequent_access_starts_at_30_days(days: int, right: bool) -> None:  # Amazon S3 User Guide, lifecycle
    broken = rules_broken(replace(NEW, checkpoints_to_infrequent_access_after_days=days))
    assert broken == ([] if right else ["data-lake.infrequent-access-age"])


def test_each_option_of_a_new_bucket_is_named_when_one_exists_already() -> None:
    settings = DataLakeSettings(existing=True, new_bucket_options=("bucket_name", "versioned"))
    problems = find_problems(DATA_LAKE_RULES, settings)
    assert [problem.path for problem in problems] == ["bucket_name", "versioned"]


def test_the_prefixes_are_those_of_the_contract() -> None:
    assert list(LAKE_PREFIXES) == [
        "raw/",
        "datasets/",
        "checkpoints/",
        "models/",
        "logs/",
        "evaluations/",
        ".training-storage/",
    ]
