"""Which option of Mountpoint is for which mount, and which go together.

The tables here are read off the flags and their notes in Mountpoint's CONFIGURATION page and off what the S3 User Guide
says that directory buckets lack; not off the table of the package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from tests.synth._fakes import FakeDirectoryBucket
from training_storage.compute import MountpointMount, NodeStorage
from training_storage.errors import ValidationError
from training_storage.rules.mountpoint_options import MANAGED_FLAGS, MOUNT_OPTIONS, UNOFFERED_FLAGS

GENERAL_READ, GENERAL_WRITE, DIRECTORY_READ, DIRECTORY_WRITE = (
    "general purpose bucket, read-only",
    "general purpose bucket, writable",
    "directory bucket, read-only",
    "directory bucket, writable",
)
KINDS = (GENERAL_READ, GENERAL_WRITE, DIRECTORY_READ, DIRECTORY_WRITE)
EVERYWHERE = set(KINDS)
WRITABLE = {GENERAL_WRITE, DIRECTORY_WRITE}
GENERAL = {GENERAL_READ, GENERAL_WRITE}
KEY_ARN = "arn:aws:kms:us-east-1:111111111111:key/0abc"

# Flag of the page, the fields that ask for it, and where it is legal.
TABLE: list[tuple[str, Mapping[str, Any], set[str]]] = [
    ("--allow-delete", {"allow_delete": True}, WRITABLE),
    ("--allow-overwrite", {"allow_overwrite": True}, WRITABLE),
    ("--incremental-upload", {"incremental_upload": True}, {DIRECTORY_WRITE}),
    ("--cache", {"cache": "nvme"}, EVERYWHERE),
    ("--max-cache-size", {"cache": "nvme", "cache_size_mib": 1024}, EVERYWHERE),
    ("--cache-xz", {"cache": "express", "cache_bucket": "CACHE"}, GENERAL),
    ("--metadata-ttl", {"metadata_ttl": "indefinite"}, EVERYWHERE),
    ("--metadata-ttl", {"metadata_ttl": 300}, EVERYWHERE),
    ("--negative-metadata-ttl", {"negative_metadata_ttl": "minimal"}, EVERYWHERE),
    ("--maximum-throughput-gbps", {"maximum_throughput_gbps": 100}, EVERYWHERE),
    ("--max-threads", {"max_threads": 64}, EVERYWHERE),
    ("--memory-target", {"memory_target_mib": 4096}, EVERYWHERE),
    ("--part-size", {"part_size_mib": 16}, EVERYWHERE),
    ("--read-part-size", {"read_part_size_mib": 16}, EVERYWHERE),
    ("--write-part-size", {"write_part_size_mib": 16}, WRITABLE),
    ("--sse", {"sse": "aws:kms"}, {GENERAL_WRITE}),
    ("--sse", {"sse": "AES256"}, {GENERAL_WRITE}),
    ("--sse-kms-key-id", {"sse": "aws:kms:dsse", "sse_kms_key": "KEY"}, {GENERAL_WRITE}),
    ("--upload-checksums", {"upload_checksums": "off"}, WRITABLE),
    ("--storage-class", {"storage_class": "STANDARD_IA"}, {GENERAL_WRITE}),
    ("--expected-bucket-owner", {"expected_bucket_owner": "111111111111"}, EVERYWHERE),
    ("--requester-pays", {"requester_pays": True}, GENERAL),
    ("--transfer-acceleration", {"transfer_acceleration": True}, GENERAL),
    ("--dual-stack", {"dual_stack": True}, EVERYWHERE),
    ("--endpoint-url", {"endpoint_url": "https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com"}, EVERYWHERE),
    ("--bind", {"bind": ["ens32", "ens65"]}, EVERYWHERE),
    ("--otlp-endpoint", {"otlp_endpoint": "http://localhost:4318"}, EVERYWHERE),
    (
        "--otlp-export-interval",
        {"otlp_endpoint": "http://localhost:4318", "otlp_export_interval_seconds": 30},
        EVERYWHERE,
    ),
    ("--log-metrics", {"log_metrics": True}, EVERYWHERE),
]
# Pairs that Mountpoint (or the endpoints of S3) refuse, by the field that is named.
EXCLUSIVE: list[tuple[str, Mapping[str, Any]]] = [
    ("part_size_mib", {"part_size_mib": 16, "read_part_size_mib": 16}),
    ("part_size_mib", {"part_size_mib": 16, "write_part_size_mib": 16}),
    ("endpoint_url", {"endpoint_url": "https://s3.example.com", "dual_stack": True}),
    ("endpoint_url", {"endpoint_url": "https://s3.example.com", "transfer_acceleration": True}),
    ("sse", {"sse": "aws:kms", "cache": "express", "cache_bucket": "CACHE"}),
    ("cache_bucket", {"cache": "express", "cache_bucket": "CACHE", "endpoint_url": "https://s3.example.com"}),
    ("cache_bucket", {"cache": "express", "cache_bucket": "CACHE", "transfer_acceleration": True}),
    ("sse_kms_key", {"sse": "AES256", "sse_kms_key": "KEY"}),
]
# What another option must stand beside.
ALONE: list[tuple[str, Mapping[str, Any]]] = [
    ("cache_size_mib", {"cache_size_mib": 1024}),
    ("cache_size_mib", {"cache": "express", "cache_bucket": "CACHE", "cache_size_mib": 1024}),
    ("cache_bucket", {"cache_bucket": "CACHE"}),
    ("cache_bucket", {"cache": "nvme", "cache_bucket": "CACHE"}),
    ("cache_bucket", {"cache": "express"}),
    ("cache_bucket", {"cache": "nvme+express"}),
    ("sse_kms_key", {"sse_kms_key": "KEY"}),
    ("otlp_export_interval_seconds", {"otlp_export_interval_seconds": 30}),
]
VALUES: list[tuple[str, Mapping[str, Any]]] = [
    *(("metadata_ttl", {"metadata_ttl": value}) for value in ("forever", "60", 0, -1, 3_153_600_001)),
    *(("negative_metadata_ttl", {"negative_metadata_ttl": value}) for value in ("none", 0)),
    *(("part_size_mib", {"part_size_mib": value}) for value in (0, 4, 5121)),
    *(("read_part_size_mib", {"read_part_size_mib": value}) for value in (4, 5121)),
    *(("write_part_size_mib", {"write_part_size_mib": value}) for value in (4, 5121)),
    ("max_threads", {"max_threads": 0}),
    ("sse", {"sse": "aws:kms:sse"}),
    ("sse", {"sse": "aes256"}),
    ("upload_checksums", {"upload_checksums": "sha256"}),
    *(
        ("storage_class", {"storage_class": name})
        for name in ("GLACIER", "DEEP_ARCHIVE", "EXPRESS_ONEZONE", "standard")
    ),
    *(("expected_bucket_owner", {"expected_bucket_owner": value}) for value in ("1111", "1111-1111-1111", "")),
    *(("bind", {"bind": value}) for value in (["-x"], [""], ["ens 32"], ["ens32", "ens32"], ["x" * 16])),
    *(("otlp_endpoint", {"otlp_endpoint": value}) for value in ("localhost:4318", "http://a b", 'http://a"')),
    *(("endpoint_url", {"endpoint_url": value}) for value in ("s3.example.com", "ftp://a", "https://a?b")),
    (
        "otlp_export_interval_seconds",
        {"otlp_endpoint": "http://localhost:4318", "otlp_export_interval_seconds": 0},
    ),
    *(("cache", {"cache": value}) for value in ("ebs", "express+nvme", "")),
    *((field, {field: value}) for field in ("uid", "gid") for value in (0, 2**32 - 1, 2**32)),
    *(("prefix", {"prefix": value}) for value in ("x" * 1023 + "/", "ä" * 512 + "/", "datasets", "/datasets/")),
    *((field, {field: f"http://a:{port}"}) for field in ("otlp_endpoint", "endpoint_url") for port in (0, 65536)),
]
# Every flag of Mountpoint 1.24, as its help lists them.
ALL_FLAGS = set(
    """--read-only --allow-other --allow-root --allow-delete --allow-overwrite --incremental-upload --prefix --region
    --endpoint-url --dual-stack --expected-bucket-owner --cache --max-cache-size --cache-xz --metadata-ttl
    --negative-metadata-ttl --maximum-throughput-gbps --max-threads --memory-target --read-part-size --write-part-size
    --part-size --sse --sse-kms-key-id --upload-checksums --storage-class --uid --gid --file-mode --dir-mode
    --auto-unmount --foreground --bind --ca-bundle --infer-content-type --log-directory --log-metrics --otlp-endpoint
    --otlp-export-interval --debug --debug-crt --no-log --profile --no-sign-request --requester-pays
    --transfer-acceleration --force-path-style --user-agent-prefix""".split()  # noqa: SIM905 - fifty lines otherwise
)


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Stack", env=cdk.Environment(account="111111111111", region="us-east-1"))


def make(stack: cdk.Stack, kind: str, options: Mapping[str, Any]) -> NodeStorage:
    """Make a node with one mount of a kind, with options."""
    values = dict(options)
    if values.get("cache_bucket") == "CACHE":
        values["cache_bucket"] = FakeDirectoryBucket("cache--use1-az6--x-s3")
    if values.get("sse_kms_key") == "KEY":
        values["sse_kms_key"] = kms.Key.from_key_arn(stack, "Key", KEY_ARN)
    bucket: Any = FakeDirectoryBucket()
    if kind in GENERAL:
        bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "general-bucket")
    mount = MountpointMount(bucket=bucket, path="/data", read_only=kind not in WRITABLE, **values)
    return NodeStorage(stack, "Storage", mounts=[mount], local_nvme_gb=644)


def refused(stack: cdk.Stack, kind: str, options: Mapping[str, Any]) -> list[str]:
    """Return the paths that are named where a mount is refused."""
    with pytest.raises(ValidationError) as caught:
        make(stack, kind, options)
    assert all(problem.allowed for problem in caught.value.problems)
    return [problem.path for problem in caught.value.problems]


def named(options: Mapping[str, Any]) -> str:
    return "+".join(f"{name}={value}" for name, value in options.items())


LEGAL = [(kind, options) for _, options, kinds in TABLE for kind in KINDS if kind in kinds]
ILLEGAL = [(kind, options) for _, options, kinds in TABLE for kind in KINDS if kind not in kinds]


@pytest.mark.parametrize(("kind", "options"), LEGAL, ids=[f"{kind}: {named(options)}" for kind, options in LEGAL])
def test_an_option_passes_where_it_is_legal_and_reaches_the_node(
    stack: cdk.Stack, kind: str, options: Mapping[str, Any]
) -> None:
    plain = make(cdk.Stack(stack, "Plain"), kind, {}).commands()
    assert make(stack, kind, options).commands() != plain


@pytest.mark.parametrize(("kind", "options"), ILLEGAL, ids=[f"{kind}: {named(options)}" for kind, options in ILLEGAL])
def test_an_option_is_refused_by_name_where_it_is_not(stack: cdk.Stack, kind: str, options: Mapping[str, Any]) -> None:
    asked = {f"mounts[0].{name}" for name in options}
    found = set(refused(stack, kind, options))
    assert found
    assert found <= asked


@pytest.mark.parametrize("pairs", [EXCLUSIVE, ALONE], ids=["excluded", "alone"])
def test_options_that_exclude_or_need_each_other_are_refused_by_name(
    app: cdk.App, pairs: list[tuple[str, Mapping[str, Any]]]
) -> None:
    for number, (field, options) in enumerate(pairs):
        place = cdk.Stack(app, f"Stack{number}", env=cdk.Environment(account="111111111111", region="us-east-1"))
        assert f"mounts[0].{field}" in refused(place, GENERAL_WRITE, options), options


@pytest.mark.parametrize(("field", "options"), VALUES, ids=[named(options) for _, options in VALUES])
def test_a_value_that_mountpoint_or_s3_refuse_is_refused_by_name(
    stack: cdk.Stack, field: str, options: Mapping[str, Any]
) -> None:
    assert f"mounts[0].{field}" in refused(stack, GENERAL_WRITE, options)


def test_all_other_pairs_of_legal_options_pass(app: cdk.App) -> None:
    """Two options that nothing keeps apart stand together; done by rule, since a synthesis each would take minutes."""
    from training_storage.compute.mount_subjects import mount_settings
    from training_storage.rules.base import find_problems
    from training_storage.rules.mounts import MOUNT_RULES, NodeSettings

    place = cdk.Stack(app, "Stack")
    key = kms.Key.from_key_arn(place, "Key", KEY_ARN)
    buckets: dict[str, Any] = {
        kind: s3.Bucket.from_bucket_name(place, f"Bucket{number}", "general")
        if kind in GENERAL
        else FakeDirectoryBucket()
        for number, kind in enumerate(KINDS)
    }
    apart = [set(options) for _, options in EXCLUSIVE]
    for kind in KINDS:
        rows = [options for _, options, kinds in TABLE if kind in kinds]
        for first, second in combinations(rows, 2):
            options: dict[str, Any] = {**first, **second}
            same_field = any(first[name] != second[name] for name in set(first) & set(second))
            if same_field or any(fields <= set(options) and fields != {"sse", "sse_kms_key"} for fields in apart):
                continue
            if "cache_bucket" in options:
                options["cache_bucket"] = FakeDirectoryBucket("cache--use1-az6--x-s3")
            if "sse_kms_key" in options:
                options["sse_kms_key"] = key
            mount = MountpointMount(bucket=buckets[kind], read_only=kind not in WRITABLE, **options)
            node = NodeSettings(mounts=(mount_settings(mount),), local_nvme_gb=644)
            assert find_problems(MOUNT_RULES, node) == (), (kind, options)


def test_every_flag_is_offered_managed_or_left_out_with_a_reason() -> None:
    offered = {option.flag for option in MOUNT_OPTIONS if option.kind == "mountpoint"}
    groups = [offered, set(MANAGED_FLAGS), set(UNOFFERED_FLAGS)]
    assert set.union(*groups) == ALL_FLAGS
    assert sum(map(len, groups)) == len(ALL_FLAGS)
    assert all(UNOFFERED_FLAGS.values())


def test_every_flag_that_is_offered_is_in_the_table_of_these_tests() -> None:
    assert {option.flag for option in MOUNT_OPTIONS if option.kind == "mountpoint"} == {flag for flag, _, _ in TABLE}


def test_a_directory_bucket_is_known_by_its_type_whatever_its_name(stack: cdk.Stack) -> None:
    later = FakeDirectoryBucket(cdk.CfnParameter(stack, "Name").value_as_string)
    mount = MountpointMount(bucket=later, path="/hot", read_only=False, storage_class="STANDARD")
    with pytest.raises(ValidationError, match="storage_class on a mount of a directory bucket"):
        NodeStorage(stack, "Storage", mounts=[mount])


def test_a_directory_bucket_is_known_by_its_name_as_a_bucket_of_the_cdk_too(stack: cdk.Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "hot--use1-az6--x-s3")
    mount = MountpointMount(bucket=bucket, path="/hot", requester_pays=True)
    with pytest.raises(ValidationError, match="requester_pays on a mount of a directory bucket"):
        NodeStorage(stack, "Storage", mounts=[mount])


def test_the_cache_is_never_the_bucket_that_is_mounted(stack: cdk.Stack) -> None:
    shared = FakeDirectoryBucket()
    general = s3.Bucket.from_bucket_name(stack, "Bucket", "general")
    mounts = [
        MountpointMount(bucket=general, cache="express", cache_bucket=shared),
        MountpointMount(bucket=shared, path="/hot"),
    ]
    with pytest.raises(ValidationError, match="a shared cache in a bucket that is mounted") as caught:
        NodeStorage(stack, "Storage", mounts=mounts)
    assert [problem.path for problem in caught.value.problems] == ["mounts[0].cache_bucket"]


def test_a_cache_bucket_is_a_directory_bucket_by_type(stack: cdk.Stack) -> None:
    bucket: Any = s3.Bucket.from_bucket_name(stack, "Cache", "cache--use1-az6--x-s3")
    general = s3.Bucket.from_bucket_name(stack, "Bucket", "general")
    mount = MountpointMount(bucket=general, cache="express", cache_bucket=bucket)
    with pytest.raises(ValidationError, match=re.escape("DirectoryBucket.from_bucket_name")):
        NodeStorage(stack, "Storage", mounts=[mount])


def test_report_12_a_key_of_an_alias_is_refused(stack: cdk.Stack) -> None:
    alias: Any = kms.Key.from_key_arn(stack, "Key", KEY_ARN).add_alias("alias/mine")
    general = s3.Bucket.from_bucket_name(stack, "Bucket", "general")
    mount = MountpointMount(bucket=general, read_only=False, sse="aws:kms", sse_kms_key=alias)
    with pytest.raises(ValidationError, match="sse_kms_key"):
        NodeStorage(stack, "Storage", mounts=[mount])


@pytest.mark.parametrize(
    ("options", "fits"),
    [({}, True), ({"region": "us-east-1"}, True), ({"region": "eu-west-1"}, False), ({"region": "us-west-2"}, False)],
)
def test_a_shared_cache_lies_in_the_region_of_its_bucket(
    stack: cdk.Stack, options: Mapping[str, Any], fits: bool
) -> None:
    shared = {"cache": "express", "cache_bucket": "CACHE", **options}
    if fits:
        make(stack, GENERAL_READ, shared)
    else:
        assert refused(stack, GENERAL_READ, shared) == ["mounts[0].cache_bucket"]


def test_a_shared_cache_lies_in_the_region_that_the_cdk_knows_of_its_bucket(stack: cdk.Stack) -> None:
    bucket = s3.Bucket.from_bucket_attributes(stack, "Bucket", bucket_name="general", region="eu-west-1")
    mount = MountpointMount(bucket=bucket, cache="express", cache_bucket=FakeDirectoryBucket())
    with pytest.raises(ValidationError, match="a shared cache in us-east-1 for a bucket of eu-west-1"):
        NodeStorage(stack, "Storage", mounts=[mount])


def test_a_shared_cache_of_a_stack_whose_region_is_known_later_passes(app: cdk.App) -> None:
    place = cdk.Stack(app, "Anywhere")
    make(place, GENERAL_READ, {"cache": "express", "cache_bucket": "CACHE"})


def test_a_bucket_with_dots_is_not_accelerated(stack: cdk.Stack) -> None:
    bucket = s3.Bucket.from_bucket_name(stack, "Bucket", "lake.example")
    with pytest.raises(ValidationError, match="whose name has a dot"):
        NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=bucket, transfer_acceleration=True)])
