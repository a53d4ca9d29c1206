"""The bootstrap on a node of stub commands: options of Mountpoint, versions that lack one, directory buckets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit._bootstrap_node import HOT, LAKE, SCRIPTS, Node
from training_storage.catalog import default_catalog
from training_storage.rules.mountpoint_options import MOUNT_OPTIONS

WRITABLE = {**LAKE, "READ_ONLY": ""}
KEY = "arn:aws:kms:us-east-1:111111111111:key/0abc"

# Each setting, and what it becomes on the command line (Mountpoint's CONFIGURATION page).
FLAGS: list[tuple[str, str, str]] = [
    ("INCREMENTAL_UPLOAD", "yes", "--incremental-upload"),
    ("REQUESTER_PAYS", "yes", "--requester-pays"),
    ("TRANSFER_ACCELERATION", "yes", "--transfer-acceleration"),
    ("DUAL_STACK", "yes", "--dual-stack"),
    ("LOG_METRICS", "yes", "--log-metrics"),
    ("MAX_THREADS", "64", "--max-threads 64"),
    ("METADATA_TTL", "indefinite", "--metadata-ttl indefinite"),
    ("METADATA_TTL", "300", "--metadata-ttl 300"),
    ("NEGATIVE_METADATA_TTL", "minimal", "--negative-metadata-ttl minimal"),
    ("CACHE_BUCKET", "cache--use1-az6--x-s3", "--cache-xz cache--use1-az6--x-s3"),
    ("SSE", "aws:kms", "--sse aws:kms"),
    ("SSE_KMS_KEY", KEY, f"--sse-kms-key-id {KEY}"),
    ("UPLOAD_CHECKSUMS", "crc64nvme", "--upload-checksums crc64nvme"),
    ("STORAGE_CLASS", "STANDARD_IA", "--storage-class STANDARD_IA"),
    ("EXPECTED_BUCKET_OWNER", "111111111111", "--expected-bucket-owner 111111111111"),
    ("ENDPOINT_URL", "https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com", "--endpoint-url https://bucket.vpce-1"),
    ("OTLP_ENDPOINT", "http://localhost:4318", "--otlp-endpoint http://localhost:4318"),
    ("OTLP_EXPORT_INTERVAL_SECONDS", "30", "--otlp-export-interval 30"),
    ("PART_SIZE_MIB", "16", "--part-size 16777216"),
    ("READ_PART_SIZE_MIB", "32", "--read-part-size 33554432"),
    ("WRITE_PART_SIZE_MIB", "64", "--write-part-size 67108864"),
    ("BIND", "ens32 ens65", "--bind ens32 --bind ens65"),
]
# What a version must be for a setting (facts of Mountpoint's change log).
SINCE = [
    ("OTLP_ENDPOINT", "http://localhost:4318", "--otlp-endpoint", "1.20.0", "1.21.0"),
    ("UPLOAD_CHECKSUMS", "crc64nvme", "--upload-checksums", "1.22.3", "1.23.0"),
    ("MEMORY_TARGET_MIB", "4096", "--memory-target", "1.23.9", "1.24.0"),
]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path)
    machine.set(mount_s3_version="1.24.0")
    return machine


def command(node: Node, name: str = "lake") -> str:
    (line,) = [line for line in node.unit(f"mountpoint-{name}").splitlines() if line.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=") + " "


@pytest.mark.parametrize(("setting", "value", "flag"), FLAGS, ids=lambda each: each)
def test_a_setting_becomes_its_flag(node: Node, setting: str, value: str, flag: str) -> None:
    node.mount("lake", {**WRITABLE, setting: value})
    assert node.run().returncode == 0
    assert f" {flag}" in command(node)


def test_what_is_not_asked_for_stands_nowhere(node: Node) -> None:
    node.mount("lake", LAKE)
    node.run()
    assert set(re.findall(r"--[a-z-]+", command(node))) == {
        "--region", "--allow-other", "--uid", "--gid", "--dir-mode", "--file-mode", "--read-only",
        "--maximum-throughput-gbps", "--memory-target",
    }  # fmt: skip


def test_a_mount_has_nothing_of_the_one_before(node: Node) -> None:
    names = {setting for setting, _, _ in FLAGS}
    node.mount("a", {**WRITABLE, "MOUNT_PATH": "/a", **{setting: value for setting, value, _ in FLAGS}})
    node.mount("lake", LAKE)
    node.run()
    assert "--bind ens32" in command(node, "a")
    known = re.search(r"MOUNT_SETTINGS=\((.*?)\n\)", (SCRIPTS / "lib.sh").read_text(), re.DOTALL)
    assert known is not None
    assert names <= set(known[1].split())
    assert not any(f" {flag.split()[0]} " in command(node) for _, _, flag in FLAGS)


# Versions


@pytest.mark.parametrize(("setting", "value", "flag", "old", "new"), SINCE, ids=lambda each: each)
def test_a_flag_is_given_from_its_version_on(
    node: Node, setting: str, value: str, flag: str, old: str, new: str
) -> None:
    node.set(mount_s3_version=new)
    node.mount("lake", {**WRITABLE, setting: value})
    assert node.run().returncode == 0
    assert f" {flag} {value} " in command(node)
    assert node.calls("dnf") == []


@pytest.mark.parametrize(("setting", "value", "flag", "old", "new"), SINCE, ids=lambda each: each)
def test_a_flag_that_no_version_to_be_had_knows_is_left_out_and_named(
    node: Node, setting: str, value: str, flag: str, old: str, new: str
) -> None:
    node.set(mount_s3_version=old)
    node.has("no_internet")
    node.mount("lake", {**WRITABLE, setting: value})
    done = node.run()
    assert done.returncode == 0
    assert flag not in command(node)
    assert f"WARNING /lake is mounted without {setting}={value}" in done.stderr
    assert node.status()["left_out"] == f"{setting} on /lake: Mountpoint {old} is older than {new}"


@pytest.mark.parametrize(("setting", "value", "flag", "old", "new"), SINCE, ids=lambda each: each)
def test_a_newer_version_is_looked_for_where_a_flag_needs_it(
    node: Node, setting: str, value: str, flag: str, old: str, new: str
) -> None:
    node.set(mount_s3_version=old, **{"dnf_has_mount-s3": new})
    node.mount("lake", {**WRITABLE, setting: value})
    assert node.run().returncode == 0
    assert node.calls("dnf") == ["install -y mount-s3"]
    assert f" {flag} {value} " in command(node)


def test_the_version_is_that_of_all_mounts_from_the_first_on(node: Node) -> None:
    node.set(mount_s3_version="1.21.0", **{"dnf_has_mount-s3": "1.24.0"})
    node.mount("a", {**LAKE, "MOUNT_PATH": "/a"})
    node.mount("lake", {**WRITABLE, "UPLOAD_CHECKSUMS": "crc64nvme"})
    node.run()
    assert "--memory-target" in command(node, "a")


def test_crc32c_needs_no_newer_version(node: Node) -> None:
    node.set(mount_s3_version="1.20.0")
    node.mount("lake", {**WRITABLE, "UPLOAD_CHECKSUMS": "crc32c"})
    node.run()
    assert " --upload-checksums crc32c " in command(node)
    assert node.calls("dnf") == []


def test_versions_are_those_of_the_catalog_and_of_the_table_of_options() -> None:
    text = "".join(path.read_text() for path in SCRIPTS.glob("*.sh"))
    facts = default_catalog().object_storage
    assert f"MOUNTPOINT_MINIMUM={facts.mountpoint_minimum_version} " in text
    assert f"EFS_UTILS_MINIMUM={facts.s3_files_minimum_efs_utils_version} " in text
    since = re.findall(r"^ *([A-Z_=*| ]+)\) echo ([0-9.]+) ;;", text, re.MULTILINE)
    in_scripts = {name: version for names, version in since for name in re.findall(r"([A-Z_]+)=\*", names)}
    assert in_scripts == {option.name.upper(): option.since for option in MOUNT_OPTIONS if option.since}
    assert facts.mountpoint_memory_target_version == in_scripts["MEMORY_TARGET_MIB"]


# Directory buckets and the shared cache


@pytest.mark.parametrize("read_only", ["yes", ""])
def test_report_17_a_directory_bucket_has_no_storage_class(node: Node, read_only: str) -> None:
    node.mount("hot", {**HOT, "READ_ONLY": read_only})
    assert node.run().returncode == 0
    assert "--storage-class" not in command(node, "hot")
    assert command(node, "hot").split()[-2:] == ["hot--use1-az6--x-s3", "/hot"]


def test_report_30_a_writable_directory_bucket_is_written_renamed_read_and_left_clean(node: Node) -> None:
    node.add_command("mv", 'exec /bin/mv "$@"')
    node.mount("hot", {**HOT, "ALLOW_DELETE": "yes"})
    assert node.run().returncode == 0
    renamed = [call for call in node.calls("mv") if f"{node.root}/hot/.training-storage-node-1/probe" in call]
    assert len(renamed) == 1
    assert list((node.root / "hot").iterdir()) == []


def test_report_30_a_directory_bucket_that_cannot_rename_ends_the_bootstrap(node: Node) -> None:
    node.add_command(
        "mv", '[[ "$*" != */hot/* ]] || { echo "Function not implemented" >&2; exit 1; }; exec /bin/mv "$@"'
    )
    node.mount("hot", {**HOT, "ALLOW_DELETE": "yes"})
    assert node.run().returncode != 0
    assert "hot--use1-az6--x-s3" in node.status()["message"]
    assert "rename" in node.status()["message"]
    assert node.signals() == ["FAILURE"]


def test_a_probe_that_cannot_be_deleted_stays_once_a_boot(node: Node) -> None:
    boot = node.root / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    node.mount("hot", HOT)
    for name in ("one", "one", "two"):
        boot.write_text(f"{name}\n")
        assert node.run().returncode == 0
    place = node.root / "hot/.training-storage-node-1"
    assert sorted(path.name for path in place.iterdir()) == ["probe-one", "probe-two"]


def test_a_read_only_directory_bucket_is_never_written(node: Node) -> None:
    node.mount("hot", {**HOT, "READ_ONLY": "yes"})
    assert node.run().returncode == 0
    assert list((node.root / "hot").iterdir()) == []


def test_a_general_purpose_bucket_is_not_asked_to_rename(node: Node) -> None:
    node.mount("lake", {**WRITABLE, "ALLOW_DELETE": "yes"})
    assert node.run().returncode == 0
    assert not (node.root / "lake/.training-storage-node-1").exists()


def test_both_caches_stand_side_by_side(node: Node) -> None:
    node.with_nvme()
    node.mount("lake", {**LAKE, "CACHE": "yes", "CACHE_BUCKET": "cache--use1-az6--x-s3"})
    assert node.run().returncode == 0
    assert " --cache-xz cache--use1-az6--x-s3 " in command(node)
    assert f" --cache {node.root}/opt/dlami/nvme/training-storage/cache/lake " in command(node)


def test_a_shared_cache_needs_no_local_disk(node: Node) -> None:
    node.mount("lake", {**LAKE, "CACHE_BUCKET": "cache--use1-az6--x-s3"})
    done = node.run()
    assert done.returncode == 0
    assert " --cache-xz cache--use1-az6--x-s3 " in command(node)
    assert "without its cache" not in done.stderr
