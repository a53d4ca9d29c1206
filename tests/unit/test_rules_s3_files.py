"""Rules of S3 Files file systems, over their whole range."""

from __future__ import annotations

from dataclasses import replace

import pytest

from training_storage.catalog import default_catalog
from training_storage.rules.base import find_problems
from training_storage.rules.s3_files import S3_FILES_RULES
from training_storage.rules.s3_files_settings import (
    DEFAULT_EXPIRE_DAYS,
    DEFAULT_IMPORT_BELOW_BYTES,
    IMPORT_TRIGGERS,
    ImportSettings,
    S3FilesSettings,
)

ROOT = ImportSettings(prefix="", trigger="ON_DIRECTORY_FIRST_ACCESS", size_less_than_bytes=131_072)


def broken(**fields: object) -> list[str | None]:
    settings = replace(S3FilesSettings(), **fields)  # type: ignore[arg-type]
    return [problem.rule for problem in find_problems(S3_FILES_RULES, settings)]


def test_nothing_known_breaks_nothing() -> None:
    assert broken() == []


def test_the_defaults_are_the_ones_that_aws_names() -> None:
    assert DEFAULT_EXPIRE_DAYS == 7  # S3 User Guide, S3 Files best practices: 1 to 7 days for training
    assert DEFAULT_IMPORT_BELOW_BYTES == 128 * 1024  # S3 User Guide, S3 Files performance
    assert IMPORT_TRIGGERS == ("ON_DIRECTORY_FIRST_ACCESS", "ON_FILE_ACCESS")


@pytest.mark.parametrize("name", sorted(default_catalog().regions))
def test_a_region_is_refused_exactly_where_the_catalog_says_no(name: str) -> None:
    refused = default_catalog().regions[name].s3_files is False
    assert broken(region=name) == (["s3-files.region"] if refused else [])


def test_a_region_without_a_row_passes() -> None:
    assert broken(region="xx-new-1") == []


def test_a_region_without_s3_files_names_the_other_ways() -> None:
    (problem,) = find_problems(S3_FILES_RULES, S3FilesSettings(region="me-central-1"))
    assert "me-central-1" in str(problem)
    assert "Mountpoint" in problem.fix
    assert "LustreFileSystem" in problem.fix


@pytest.mark.parametrize(("versioned", "right"), [(None, True), (True, True), (False, False)])
def test_report_35_versioning_must_be_on(versioned: bool | None, right: bool) -> None:
    assert broken(versioned=versioned) == ([] if right else ["s3-files.bucket-versioning"])


def test_report_35_the_refusal_names_versioning() -> None:
    (problem,) = find_problems(S3_FILES_RULES, S3FilesSettings(versioned=False))
    assert "versioning" in problem.what
    assert problem.path == "bucket"


@pytest.mark.parametrize(
    ("encryption", "right"), [("AES256", True), ("aws:kms", True), ("aws:kms:dsse", False), (None, True)]
)
def test_report_35_encryption_is_sse_s3_or_sse_kms(encryption: str | None, right: bool) -> None:
    assert broken(bucket_encryption=encryption) == ([] if right else ["s3-files.bucket-encryption"])


@pytest.mark.parametrize(
    ("here", "there", "right"),
    [("a", "a", True), ("a", "b", False), (None, "b", True), ("a", None, True), (None, None, True)],
)
@pytest.mark.parametrize("what", ["region", "account"])
def test_bucket_and_file_system_are_in_one_place(what: str, here: str | None, there: str | None, right: bool) -> None:
    assert broken(**{what: here, f"bucket_{what}": there}) == ([] if right else ["s3-files.bucket-place"])


def test_both_places_are_named_at_once() -> None:
    wrong = {"region": "a", "bucket_region": "b", "account": "1", "bucket_account": "2"}
    assert broken(**wrong) == ["s3-files.bucket-place"] * 2


@pytest.mark.parametrize("prefix", ["", "datasets/", "a/b/c/", "x" * 1023 + "/"])
def test_prefixes_pass(prefix: str) -> None:
    assert broken(prefix=prefix) == []
    assert broken(import_rules=(ROOT, replace(ROOT, prefix=prefix or "other/"))) == []


@pytest.mark.parametrize("prefix", ["datasets", "/datasets/", "/", "a/b", "x" * 1024 + "/"])
def test_other_prefixes_fail(prefix: str) -> None:
    assert broken(prefix=prefix) == ["s3-files.prefix"]
    assert broken(import_rules=(ROOT, replace(ROOT, prefix=prefix))) == ["s3-files.import-rule"]


@pytest.mark.parametrize("prefix", ["datasets", "/datasets/", "/datasets"])
def test_a_wrong_prefix_is_answered_with_a_right_one(prefix: str) -> None:
    (problem,) = find_problems(S3_FILES_RULES, S3FilesSettings(prefix=prefix))
    assert problem.fix == "write datasets/"


def rules(count: int) -> tuple[ImportSettings, ...]:
    return (ROOT, *(replace(ROOT, prefix=f"{index}/") for index in range(count - 1)))


@pytest.mark.parametrize("count", range(1, 11))
def test_1_to_10_import_rules_pass(count: int) -> None:
    assert broken(import_rules=rules(count)) == []


@pytest.mark.parametrize("count", [11, 12])
def test_more_import_rules_fail(count: int) -> None:
    assert broken(import_rules=rules(count)) == ["s3-files.import-rules"]


def test_no_import_rule_fails() -> None:
    assert broken(import_rules=()) == ["s3-files.import-rules"]


@pytest.mark.parametrize("roots", [0, 2, 3])
def test_another_number_of_root_rules_fails(roots: int) -> None:
    given = (*[ROOT] * roots, replace(ROOT, prefix="shards/"))
    (problem,) = find_problems(S3_FILES_RULES, S3FilesSettings(import_rules=given))
    assert (problem.rule, problem.value) == ("s3-files.import-rules", roots)


def test_a_prefix_that_only_deploy_knows_may_be_the_root() -> None:
    assert broken(import_rules=(replace(ROOT, prefix=None),)) == []
    assert broken(import_rules=(ROOT, ROOT, replace(ROOT, prefix=None))) == ["s3-files.import-rules"]


# S3 Files API reference, ImportDataRule
@pytest.mark.parametrize(
    ("size", "right"), [(-1, False), (0, True), (1, True), (52_673_613_135_872, True), (52_673_613_135_873, False)]
)
def test_sizes_of_import_rules(size: int, right: bool) -> None:
    assert broken(import_rules=(replace(ROOT, size_less_than_bytes=size),)) == (
        [] if right else ["s3-files.import-rule"]
    )


@pytest.mark.parametrize("trigger", ["ON_DIRECTORY_FIRST_ACCESS", "ON_FILE_ACCESS", None])
def test_triggers_pass(trigger: str | None) -> None:
    assert broken(import_rules=(replace(ROOT, trigger=trigger),)) == []


@pytest.mark.parametrize("trigger", ["on_file_access", "", "ON_OPEN"])
def test_other_triggers_fail_naming_rule_and_field(trigger: str) -> None:
    given = (ROOT, replace(ROOT, prefix="a/", trigger=trigger))
    (problem,) = find_problems(S3_FILES_RULES, S3FilesSettings(import_rules=given))
    assert (problem.path, problem.value) == ("import_rules[1].trigger", trigger)


@pytest.mark.parametrize(
    ("days", "right"), [(0, False), (0.5, False), (1, True), (1.5, False), (7, True), (365, True), (366, False)]
)
def test_expiration_is_1_to_365_whole_days(days: float, right: bool) -> None:
    assert broken(expire_after_days=days) == ([] if right else ["s3-files.expiration"])


@pytest.mark.parametrize(("count", "right"), [(0, False), (1, True), (2, False), (3, False)])
def test_report_15_one_subnet(count: int, right: bool) -> None:
    assert broken(subnet_count=count) == ([] if right else ["s3-files.one-subnet"])


@pytest.mark.parametrize(("count", "right"), [(1, True), (5, True), (6, False), (100, False)])
def test_at_most_five_security_groups(count: int, right: bool) -> None:
    assert broken(security_group_count=count) == ([] if right else ["s3-files.security-groups"])


@pytest.mark.parametrize("name", ["fs-0123456789abcdef0", "fs-" + "0" * 40])
def test_ids_of_file_systems_pass(name: str) -> None:
    assert broken(file_system_id=name) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "fs-0abc",
        "fsap-0123456789abcdef0",
        "fs-" + "0" * 41,
        "fs-0123456789ABCDEF0",
        "arn:aws:s3files:us-east-1:111111111111:file-system/fs-0123456789abcdef0",
    ],
)
def test_other_ids_fail(name: str) -> None:
    assert broken(file_system_id=name) == ["s3-files.file-system-id"]
