"""Directory buckets through their life: what is deleted with its stack, and what no deploy ever deletes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import aws_cdk as cdk
import pytest

from training_storage.emulator import Emulator, StackFailedError, emulator
from training_storage.tiers import DirectoryBucket

NAME = "cache--use1-az6--x-s3"
CACHE = {"removal_policy": cdk.RemovalPolicy.DESTROY, "content_is_cache": True}


@pytest.fixture(scope="module")
def account() -> Iterator[Emulator]:
    with emulator() as aws:
        yield aws


@pytest.fixture
def aws(account: Emulator) -> Iterator[Emulator]:
    yield account
    buckets = account.client("s3")
    for name in [each["Name"] for each in buckets.list_directory_buckets()["Buckets"]]:
        for upload in buckets.list_multipart_uploads(Bucket=name).get("Uploads", ()):
            buckets.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        for each in buckets.list_objects_v2(Bucket=name).get("Contents", ()):
            buckets.delete_object(Bucket=name, Key=each["Key"])
    if "run-hot" in account.stacks():
        account.destroy("run-hot")
    for name in [each["Name"] for each in buckets.list_directory_buckets()["Buckets"]]:
        buckets.delete_bucket(Bucket=name)


def deploy(aws: Emulator, app: cdk.App, **options: Any) -> None:
    given = {"availability_zone_id": "use1-az6", "base_name": "cache", **options}
    DirectoryBucket(cdk.Stack(app, "run-hot"), "Hot", **given)
    aws.deploy_assembly(app.synth().directory)


def fill(aws: Emulator) -> None:
    buckets = aws.client("s3")
    for number in range(3):
        buckets.put_object(Bucket=NAME, Key=f"shards/{number}", Body=b"x")
    buckets.create_multipart_upload(Bucket=NAME, Key="half")


def objects(aws: Emulator, name: str = NAME) -> int:
    return int(aws.client("s3").list_objects_v2(Bucket=name)["KeyCount"])


def names(aws: Emulator) -> list[str]:
    return [each["Name"] for each in aws.client("s3").list_directory_buckets()["Buckets"]]


def test_a_cache_goes_with_its_stack(aws: Emulator, app: cdk.App) -> None:
    deploy(aws, app, **CACHE)
    fill(aws)
    aws.destroy("run-hot")
    assert names(aws) == []


def test_what_is_no_cache_keeps_the_stack_from_going(aws: Emulator, app: cdk.App) -> None:
    deploy(aws, app, removal_policy=cdk.RemovalPolicy.DESTROY)
    fill(aws)
    with pytest.raises(StackFailedError, match="not empty"):
        aws.destroy("run-hot")
    assert objects(aws) == 3


def test_a_bucket_is_kept_by_default(aws: Emulator, app: cdk.App) -> None:
    deploy(aws, app)
    fill(aws)
    aws.destroy("run-hot")
    assert objects(aws) == 3


@pytest.mark.parametrize("after", [{}, {"removal_policy": cdk.RemovalPolicy.DESTROY}], ids=["retain", "destroy"])
def test_taking_the_flag_away_deletes_no_object(
    aws: Emulator, make_app: Callable[[], cdk.App], after: dict[str, Any]
) -> None:
    deploy(aws, make_app(), **CACHE)
    fill(aws)
    deploy(aws, make_app(), **after)
    assert objects(aws) == 3


def test_a_replaced_bucket_stays_with_its_objects(aws: Emulator, make_app: Callable[[], cdk.App]) -> None:
    deploy(aws, make_app(), **CACHE)
    fill(aws)
    deploy(aws, make_app(), **CACHE, base_name="other")
    assert objects(aws) == 3
    aws.destroy("run-hot")
    assert names(aws) == [NAME]
    assert objects(aws) == 3
