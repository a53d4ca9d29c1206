"""Links to S3: one fact a test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from tests.synth.storage import ASSOCIATION, FILE_SYSTEM, file_system, only, resources, warnings
from training_storage.errors import ValidationError
from training_storage.tiers.association import DataRepositoryAssociation
from training_storage.tiers.data_lake import DataLake
from training_storage.tiers.lustre import LustreFileSystem


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot")


def theirs(stack: cdk.Stack, name: str = "their-bucket") -> s3.IBucket:
    return s3.Bucket.from_bucket_name(stack, f"Bucket-{name}", name)


def link(hot: LustreFileSystem, construct_id: str, path: str, bucket: s3.IBucket | DataLake, **options: Any) -> Any:
    return hot.add_link(construct_id, file_system_path=path, bucket=bucket, **options)


def properties(stack: cdk.Stack) -> dict[str, Any]:
    found: dict[str, Any] = only(stack, ASSOCIATION)["Properties"]
    return found


def refused(hot: LustreFileSystem, path: str, bucket: s3.IBucket, **options: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        link(hot, "Refused", path, bucket, **options)
    return caught.value


def test_a_link_names_file_system_path_and_address(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    link(hot, "Data", "/datasets", theirs(stack), bucket_prefix="datasets/")
    (file_system_id,) = resources(stack, FILE_SYSTEM)
    assert properties(stack)["FileSystemId"] == {"Ref": file_system_id}
    assert properties(stack)["FileSystemPath"] == "/datasets"
    assert properties(stack)["DataRepositoryPath"] == "s3://their-bucket/datasets/"


@pytest.mark.parametrize("path", ["data", "/data/", "/data"])
def test_report_09_three_spellings_of_a_path_are_written_as_one(stack: cdk.Stack, path: str) -> None:
    link(file_system(stack), "Data", path, theirs(stack))
    assert properties(stack)["FileSystemPath"] == "/data"


@pytest.mark.parametrize(("prefix", "address"), [("", ""), ("/", ""), ("a", "a/"), ("a/", "a/"), ("/a/b", "a/b/")])
def test_the_address_ends_in_a_slash(stack: cdk.Stack, prefix: str, address: str) -> None:
    link(file_system(stack), "Data", "/data", theirs(stack), bucket_prefix=prefix)
    assert properties(stack)["DataRepositoryPath"] == f"s3://their-bucket/{address}"


def test_nothing_is_imported_or_exported_by_default(stack: cdk.Stack) -> None:
    link(file_system(stack), "Data", "/data", theirs(stack))
    assert "S3" not in properties(stack)


def test_events_are_written_as_the_api_has_them(stack: cdk.Stack) -> None:
    link(
        file_system(stack),
        "Data",
        "/data",
        theirs(stack),
        import_events=["new", "changed"],
        export_events=["new", "changed", "deleted"],
    )
    assert properties(stack)["S3"] == {
        "AutoImportPolicy": {"Events": ["NEW", "CHANGED"]},
        "AutoExportPolicy": {"Events": ["NEW", "CHANGED", "DELETED"]},
    }


def test_import_alone_exports_nothing(stack: cdk.Stack) -> None:
    link(file_system(stack), "Data", "/data", theirs(stack), import_events=["new"])
    assert list(properties(stack)["S3"]) == ["AutoImportPolicy"]


@pytest.mark.parametrize("given", [False, True])
def test_report_08_the_import_at_creation_can_be_left_out(stack: cdk.Stack, given: bool) -> None:
    link(file_system(stack), "Data", "/data", theirs(stack), batch_import_meta_data_on_create=given)
    assert properties(stack)["BatchImportMetaDataOnCreate"] is given


def test_a_chunk_size_is_written_when_given(stack: cdk.Stack) -> None:
    link(file_system(stack), "Data", "/data", theirs(stack), imported_file_chunk_size_mib=256)
    assert properties(stack)["ImportedFileChunkSize"] == 256


# -- order


def depends_on(stack: cdk.Stack, logical_id: str) -> set[str]:
    return set(resources(stack, ASSOCIATION)[logical_id].get("DependsOn", []))


def by_path(stack: cdk.Stack) -> dict[str, str]:
    return {found["Properties"]["FileSystemPath"]: name for name, found in resources(stack, ASSOCIATION).items()}


@pytest.mark.parametrize("count", [2, 5, 8])
def test_report_09_links_are_made_one_after_another(stack: cdk.Stack, count: int) -> None:
    hot, bucket = file_system(stack), theirs(stack)
    for index in range(count):
        link(hot, f"Link{index}", f"/d{index}", bucket, bucket_prefix=f"p{index}/")
    names = by_path(stack)
    for index in range(1, count):
        assert names[f"/d{index - 1}"] in depends_on(stack, names[f"/d{index}"])
    assert len(hot.links) == count


def test_report_11_a_link_waits_for_bucket_policy_and_key_of_the_lake(stack: cdk.Stack) -> None:
    link(file_system(stack), "Data", "/data", DataLake(stack, "Lake"), import_events=["new"])
    ((name, _),) = resources(stack, ASSOCIATION).items()
    for resource_type in ("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::KMS::Key"):
        (needed,) = resources(stack, resource_type)
        assert needed in depends_on(stack, name), resource_type


def test_report_11_a_link_waits_for_bucket_policy_and_key_of_a_users_own_bucket(stack: cdk.Stack) -> None:
    bucket = s3.Bucket(stack, "Mine", encryption=s3.BucketEncryption.KMS, enforce_ssl=True)
    link(file_system(stack), "Data", "/data", bucket)
    ((name, _),) = resources(stack, ASSOCIATION).items()
    for resource_type in ("AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::KMS::Key"):
        (needed,) = resources(stack, resource_type)
        assert needed in depends_on(stack, name), resource_type


def test_report_10_the_bucket_of_a_link_gets_no_notifications_from_us(stack: cdk.Stack) -> None:
    lake = DataLake(stack, "Lake")
    link(file_system(stack), "Data", "/data", lake, import_events=["new", "changed"])
    assert resources(stack, "Custom::S3BucketNotifications") == {}
    (bucket,) = resources(stack, "AWS::S3::Bucket")
    assert bucket in depends_on(stack, *by_path(stack).values())


def test_a_lake_of_another_stack_is_deployed_first_and_knows_nothing_of_the_run(app: cdk.App) -> None:
    lake_stack, hot_stack = cdk.Stack(app, "Lake"), cdk.Stack(app, "Hot")
    lake = DataLake(lake_stack, "Lake")
    link(file_system(hot_stack), "Data", "/data", lake)
    text = json.dumps(Template.from_stack(lake_stack).to_json())
    assert hot_stack.dependencies == [lake_stack]
    assert lake_stack.dependencies == []
    assert "Fn::ImportValue" not in text
    assert "Fn::GetStackOutput" not in text


def test_a_link_can_stand_outside_its_file_system(stack: cdk.Stack) -> None:
    hot, bucket = file_system(stack), theirs(stack)
    first = DataRepositoryAssociation(
        stack, "One", file_system=hot, file_system_path="/a", bucket=bucket, bucket_prefix="a"
    )
    second = link(hot, "Two", "/b", bucket, bucket_prefix="b")
    assert hot.links == (first, second)
    names = by_path(stack)
    assert names["/a"] in depends_on(stack, names["/b"])


def test_the_id_of_a_link_comes_from_the_resource(stack: cdk.Stack) -> None:
    made = link(file_system(stack), "Data", "/data", theirs(stack))
    (name,) = resources(stack, ASSOCIATION)
    assert stack.resolve(made.association_id) == {"Fn::GetAtt": [name, "AssociationId"]}


# -- refusals


def test_report_09_the_ninth_link_fails_naming_8(stack: cdk.Stack) -> None:
    hot, bucket = file_system(stack), theirs(stack)
    for index in range(8):
        link(hot, f"Link{index}", f"/d{index}", bucket, bucket_prefix=f"p{index}/")
    error = refused(hot, "/d8", bucket, bucket_prefix="p8/")
    assert "8" in str(error)
    assert len(resources(stack, ASSOCIATION)) == 8


@pytest.mark.parametrize(
    ("first", "second"),
    [("/data", "/data/train"), ("/data/train", "/data"), ("data", "/data/"), ("/", "/x"), ("/x", "/")],
)
def test_report_09_paths_that_overlap_fail_naming_both(stack: cdk.Stack, first: str, second: str) -> None:
    hot, bucket = file_system(stack), theirs(stack)
    link(hot, "First", first, bucket, bucket_prefix="a/")
    message = str(refused(hot, second, bucket, bucket_prefix="b/"))
    assert first in message
    assert second in message


@pytest.mark.parametrize(("first", "second"), [("a/", "a/"), ("a", "/a"), ("a/", "a/b/"), ("", "a/")])
def test_report_09_prefixes_that_overlap_fail(stack: cdk.Stack, first: str, second: str) -> None:
    hot, bucket = file_system(stack), theirs(stack)
    link(hot, "First", "/x", bucket, bucket_prefix=first)
    (problem,) = refused(hot, "/y", bucket, bucket_prefix=second).problems
    assert problem.path == "bucket_prefix"


def test_report_09_prefixes_that_only_begin_alike_pass(stack: cdk.Stack) -> None:
    hot, bucket = file_system(stack), theirs(stack)
    link(hot, "A", "/a", bucket, bucket_prefix="a/")
    link(hot, "Ab", "/ab", bucket, bucket_prefix="ab/")
    assert len(resources(stack, ASSOCIATION)) == 2


def test_report_09_a_lake_without_a_name_yet_is_one_bucket_all_the_same(stack: cdk.Stack) -> None:
    hot, lake = file_system(stack), DataLake(stack, "Lake")
    link(hot, "A", "/a", lake, bucket_prefix="data/")
    (problem,) = refused(hot, "/b", lake.bucket, bucket_prefix="data/v1/").problems
    assert "s3://Hot/Lake/Bucket/data/v1/" in problem.what


def test_the_same_prefix_of_two_buckets_passes(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    link(hot, "A", "/a", theirs(stack, "bucket-a"), bucket_prefix="data/")
    link(hot, "B", "/b", theirs(stack, "bucket-b"), bucket_prefix="data/")
    assert len(resources(stack, ASSOCIATION)) == 2


@pytest.mark.parametrize("events", [["new", "new"], ["renamed"], ["NEW"]])
@pytest.mark.parametrize("direction", ["import_events", "export_events"])
def test_other_events_fail_naming_the_argument(stack: cdk.Stack, direction: str, events: Sequence[str]) -> None:
    (problem,) = refused(file_system(stack), "/data", theirs(stack), **{direction: events}).problems
    assert problem.path == direction


def test_all_problems_are_raised_at_once_and_nothing_is_added(stack: cdk.Stack) -> None:
    hot = file_system(stack)
    error = refused(
        hot,
        "/a/../b",
        theirs(stack),
        bucket_prefix="a//b",
        import_events=["renamed"],
        imported_file_chunk_size_mib=0,
    )
    assert {problem.path for problem in error.problems} == {
        "file_system_path",
        "bucket_prefix",
        "import_events",
        "imported_file_chunk_size_mib",
    }
    assert error.where == "Hot/Hot/Refused"
    assert hot.node.try_find_child("Refused") is None
    assert hot.links == ()


def test_a_file_system_with_backups_takes_no_link(stack: cdk.Stack) -> None:
    hot = file_system(stack, automatic_backup_retention_days=7)
    (problem,) = refused(hot, "/data", theirs(stack)).problems
    assert problem.path == "automatic_backup_retention_days"


def test_import_from_another_region_fails_and_export_does_not(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Hot", env=cdk.Environment(account="111111111111", region="us-east-1"))
    hot = file_system(stack)
    bucket = s3.Bucket.from_bucket_attributes(stack, "Far", bucket_name="far-bucket", region="eu-west-1")
    (problem,) = refused(hot, "/data", bucket, import_events=["new"]).problems
    assert "eu-west-1" in problem.what
    link(hot, "Data", "/data", bucket, export_events=["new"])


def test_a_bucket_with_a_key_of_somebody_else_gets_a_warning_that_prints_the_statement(stack: cdk.Stack) -> None:
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:us-east-1:111111111111:key/0abc")
    bucket = s3.Bucket.from_bucket_attributes(stack, "B", bucket_name="their-bucket", encryption_key=key)
    link(file_system(stack), "Data", "/data", bucket)
    (warning,) = warnings(stack)
    assert "AWSServiceRoleForFSxS3Access_*" in warning
    assert "[ack: training_storage:dataLake.keyPolicy]" in warning
