"""The bootstrap scripts on a node that had other mounts before: an image of another node, or other settings."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit._bootstrap_node import HOT, LAKE, LUSTRE, S3_FILES, S3_FILES_ID, SCRIPTS, UBUNTU, Node

OTHER = "fs-0aaaaaaaaaaaaaaaa"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path)
    machine.with_lustre_client()
    machine.set(mount_s3_version="1.24.0", efs_utils_version="3.2.0")
    machine.mount("lake", LAKE)
    machine.mount("files", S3_FILES)
    machine.mount("fsx", LUSTRE)
    done = machine.run()
    assert done.returncode == 0, done.stderr
    machine.set(calls="")
    return machine


def forget(node: Node, name: str) -> None:
    (node.root / "etc/training-storage/mounts.d" / name).unlink()


@pytest.mark.parametrize(
    "changed",
    [{"FILE_SYSTEM_ID": OTHER}, {"READ_ONLY": "", "ROOT_ACCESS": "yes"}, {"NO_DIRECT_READ": "yes"}],
    ids=["another file system", "writable", "other options"],
)
def test_another_mount_of_s3_files_on_the_path_does_not_pass_for_what_is_asked_for(
    node: Node, changed: dict[str, str]
) -> None:
    wanted = {**S3_FILES, **changed}
    node.mount("files", wanted)
    assert node.run().returncode == 0
    assert node.calls("umount") == [f"--lazy {node.root}/files"]
    (mounted,) = node.calls("mount")
    assert f"{wanted['FILE_SYSTEM_ID']}:/" in mounted
    (line,) = [line for line in node.read("etc/fstab").splitlines() if "s3files" in line]
    assert line.startswith(f"{wanted['FILE_SYSTEM_ID']}:/ /files")


def test_another_lustre_file_system_on_the_path_does_not_pass_for_what_is_asked_for(node: Node) -> None:
    dns_name = f"{OTHER}.fsx.us-east-1.amazonaws.com"
    node.mount("fsx", {**LUSTRE, "FILE_SYSTEM_ID": OTHER, "DNS_NAME": dns_name, "MOUNT_NAME": "zzzzzzzz"})
    assert node.run().returncode == 0
    assert "stop fsx.mount fsx.automount" in node.calls("systemctl")
    assert node.calls("mount") == [f"-t lustre -o relatime,flock {dns_name}@tcp:/zzzzzzzz {node.root}/fsx"]
    (line,) = [line for line in node.read("etc/fstab").splitlines() if " lustre " in line]
    assert line.startswith(f"{dns_name}@tcp:/zzzzzzzz /fsx")


@pytest.mark.parametrize(("name", "kind"), [("files", "s3files"), ("fsx", "lustre")])
def test_a_mount_that_is_no_longer_asked_for_is_ended_and_leaves_fstab(node: Node, name: str, kind: str) -> None:
    fstab = node.root / "etc/fstab"
    fstab.write_text(f"UUID=1 / xfs defaults 0 0\n/dev/x /{name} ext4 defaults 0 0\n{fstab.read_text()}")
    forget(node, name)
    assert node.run().returncode == 0
    lines = fstab.read_text().splitlines()
    assert lines[:2] == ["UUID=1 / xfs defaults 0 0", f"/dev/x /{name} ext4 defaults 0 0"]
    assert not any(f" {kind} " in line for line in lines)
    assert node.calls("umount") == [f"--lazy {node.root}/{name}"]


def test_a_bucket_that_is_no_longer_asked_for_is_mounted_at_no_boot(node: Node) -> None:
    forget(node, "lake")
    assert node.run().returncode == 0
    unit = "training-storage-mountpoint-lake.service"
    assert not (node.root / "etc/systemd/system" / unit).exists()
    assert {f"stop {unit}", f"disable --quiet {unit}", "daemon-reload"} <= set(node.calls("systemctl"))


@pytest.mark.parametrize(("name", "kind"), [("lake", "mountpoint"), ("files", "s3-files")])
def test_a_path_that_changes_its_kind_of_mount_has_one(node: Node, name: str, kind: str) -> None:
    values = LAKE if kind == "s3-files" else S3_FILES
    node.mount(name, {**values, "MOUNT_PATH": f"/{name}"})
    assert node.run().returncode == 0
    unit = node.root / f"etc/systemd/system/training-storage-mountpoint-{name}.service"
    assert unit.exists() is (kind == "s3-files")
    assert (f" /{name} s3files " in node.read("etc/fstab")) is (kind == "mountpoint")


def test_mounts_of_others_are_left_alone(node: Node) -> None:
    other = f"{OTHER}:/ /home s3files _netdev 0 0"
    fstab = node.root / "etc/fstab"
    fstab.write_text(f"{other}\n{fstab.read_text()}")
    mine = node.root / "etc/systemd/system/mount-s3-mine.service"
    mine.write_text("[Service]\n")
    assert node.run().returncode == 0
    assert other in node.read("etc/fstab").splitlines()
    assert mine.exists()
    assert node.calls("umount") == []


def test_the_boot_waits_for_what_systemd_mounts_itself_so_that_nothing_is_mounted_twice(node: Node) -> None:
    node.mount("deep-data", {**S3_FILES, "MOUNT_PATH": "/deep-data/set.1"})
    assert node.run().returncode == 0
    (after,) = [line for line in node.unit("bootstrap").splitlines() if line.startswith("After=")]
    assert after.endswith(r" deep\x2ddata-set.1.mount files.mount")


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("/files", "files"),
        ("/mnt/data-lake", r"mnt-data\x2dlake"),
        ("/.hidden/.x", r"\x2ehidden-.x"),
        ("/a_b.c", "a_b.c"),
    ],
)
def test_units_of_mounts_have_the_names_that_systemd_gives_them(path: str, unit: str) -> None:
    script = f'. "{SCRIPTS}/old_mounts.sh"; mount_unit "{path}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == unit


def test_a_shared_cache_that_can_not_be_written_is_named_with_the_mount(node: Node) -> None:
    node.mount("lake", {**LAKE, "CACHE_BUCKET": "cache--use1-az6--x-s3"})
    node.set(mount_s3_failures="1000")
    assert node.run().returncode != 0
    assert "or its cache s3://cache--use1-az6--x-s3/, can't be mounted on /lake" in node.status()["message"]


def test_every_option_that_is_left_out_is_named(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.set(mount_s3_version="1.20.0", release_version="1.20.0")
    node.mount("hot", {**HOT, "READ_ONLY": "yes", "OTLP_ENDPOINT": "http://localhost:4318"})
    node.mount("lake", {**LAKE, "MEMORY_TARGET_MIB": "4096"})
    assert node.run().returncode == 0
    assert "OTLP_ENDPOINT on /hot" in node.status()["left_out"]
    assert "MEMORY_TARGET_MIB on /lake" in node.status()["left_out"]


@pytest.mark.parametrize("busy", [0, 1, 7])
def test_local_disks_that_are_still_joined_are_waited_for(tmp_path: Path, busy: int) -> None:
    node = Node(tmp_path)
    node.set(mount_s3_version="1.24.0", jobs=str(busy), mounted="")
    node.with_nvme()
    node.mount("lake", {**LAKE, "CACHE": "yes"})
    assert node.run().returncode == 0
    assert len([call for call in node.calls("systemctl") if call.startswith("show")]) == busy + 1
    assert "--cache" in node.unit("mountpoint-lake")


def test_local_disks_that_are_never_joined_are_waited_for_with_a_bound(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.set(mount_s3_version="1.24.0", jobs="1000")
    node.mount("lake", LAKE)
    done = node.run()
    assert done.returncode == 0
    assert "dlami-nvme.service is not done yet" in done.stderr


def test_every_download_has_a_bound(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.root / "etc/os-release").write_text(UBUNTU)
    (node.state / f"apt_has_lustre-client-modules-{'6.1.132-147.221.amzn2023.x86_64'}").touch()
    node.set(efs_utils_version="", mount_s3_version="")
    (node.state / "downloads/efs-utils-installer.sh").write_text('echo 3.2.0 >"$STATE/efs_utils_version"\n')
    for name, values in (("fsx", {**LUSTRE, "EFA": "yes"}), ("lake", LAKE), ("files", S3_FILES)):
        node.mount(name, values)
    node.run()
    downloads = [call for call in node.calls("curl") if " -o " in call]
    assert len({call.split()[-1] for call in downloads}) >= 2
    assert all("--connect-timeout" in call and "--max-time" in call for call in downloads)
    assert S3_FILES_ID not in "".join(downloads)


@pytest.mark.parametrize("arguments", [(), ("boot",)])
def test_one_run_waits_for_another(node: Node, arguments: tuple[str, ...]) -> None:
    node.add_command("flock", 'exec /usr/bin/flock "$@"')
    assert node.run(arguments=arguments).returncode == 0
    lock = f"--close {node.root}/var/lib/training-storage/lock"
    assert node.calls("flock") == [" ".join([lock, "bash", f"{SCRIPTS}/bootstrap.sh", *arguments])]


def test_nothing_is_done_without_the_lock(node: Node) -> None:
    node.add_command("flock", "exit 1")
    assert node.run().returncode != 0
    assert [call for call in node.calls() if not call.startswith("flock")] == []
