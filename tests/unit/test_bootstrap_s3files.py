"""The bootstrap scripts on a node of stub commands: S3 Files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit._bootstrap_node import AL2023, S3_FILES, S3_FILES_ID, UBUNTU, Node

WRITABLE = {**S3_FILES, "READ_ONLY": "", "ROOT_ACCESS": "yes"}
AL2 = AL2023.replace("2023", "2")
OPTIONS = "ro,region=us-east-1"
FSTAB = f"{S3_FILES_ID}:/ /files s3files {OPTIONS},_netdev,nofail,x-systemd.requires=network-online.target 0 0"
INSTALLER = "https://amazon-efs-utils.aws.com/efs-utils-installer.sh"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path)
    machine.set(efs_utils_version="3.1.2")
    machine.mount("files", S3_FILES)
    return machine


def with_installer(node: Node, version: str) -> None:
    (node.state / "downloads/efs-utils-installer.sh").write_text(
        f'[ "$1" = --install ] && echo {version} >"$STATE/efs_utils_version"\n'
    )


def test_a_file_system_is_mounted_by_its_type_with_region_and_read_only(node: Node) -> None:
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.calls("mount") == [f"-t s3files -o {OPTIONS} {S3_FILES_ID}:/ {node.root}/files"]
    assert node.status()["s3_files_id"] == S3_FILES_ID
    assert node.status()["s3_files"] == "read-only"
    assert node.signals() == ["SUCCESS"]


def test_it_is_in_fstab_as_a_network_file_system_that_no_boot_waits_for(node: Node) -> None:
    node.run()
    assert node.read("etc/fstab").splitlines() == [FSTAB]


def test_a_second_run_changes_nothing(node: Node) -> None:
    assert node.run().returncode == 0
    before = node.files()
    node.set(calls="")
    assert node.run().returncode == 0
    assert node.files() == before
    changing = ("mount ", "dnf ", "curl -fsS", "systemctl daemon-reload", "systemctl enable")
    assert [call for call in node.calls() if call.startswith(changing)] == []


def test_a_changed_option_replaces_the_line_of_fstab(node: Node) -> None:
    (node.root / "etc/fstab").write_text("UUID=1 / xfs defaults 0 0\n/dev/x /files ext4 defaults 0 0\n")
    node.run()
    node.mount("files", {**S3_FILES, "NO_DIRECT_READ": "yes"})
    node.set(mounted="")
    assert node.run().returncode == 0
    *others, line = node.read("etc/fstab").splitlines()
    assert others == ["UUID=1 / xfs defaults 0 0", "/dev/x /files ext4 defaults 0 0"]
    assert line == FSTAB.replace(OPTIONS, f"{OPTIONS},nodirects3read")


# Version


@pytest.mark.parametrize("version", ["2.4.1", "3.0.0", "3.1.0", "3.1.1"])
def test_report_34_a_version_below_3_1_2_ends_the_bootstrap(node: Node, version: str) -> None:
    node.set(efs_utils_version=version)
    with_installer(node, version)
    done = node.run()
    assert done.returncode != 0
    message = node.status()["message"]
    assert f"amazon-efs-utils is {version}" in message
    assert "3.1.2 or later" in message
    assert S3_FILES_ID in message
    assert "amazon-efs-utils.aws.com" in message
    assert node.calls("mount") == []
    assert node.signals() == ["FAILURE"]


@pytest.mark.parametrize("version", ["3.1.2", "3.1.10", "3.2.0", "3.10.0", "4.0.0"])
def test_report_34_version_3_1_2_and_later_pass_and_nothing_is_installed(node: Node, version: str) -> None:
    node.set(efs_utils_version=version)
    assert node.run().returncode == 0
    assert node.status()["efs_utils_version"] == version
    assert node.calls("dnf") == []
    assert not any(INSTALLER in call for call in node.calls("curl"))


def test_report_34_a_node_without_the_tools_and_without_a_way_to_them_says_so(node: Node) -> None:
    node.set(efs_utils_version="")
    node.has("no_internet")
    assert node.run().returncode != 0
    assert "amazon-efs-utils is not there" in node.status()["message"]


def test_report_34_the_repository_comes_first(node: Node) -> None:
    node.set(efs_utils_version="", dnf_has_efs_utils="3.1.2")
    assert node.run().returncode == 0
    assert node.calls("dnf") == ["install -y amazon-efs-utils"]
    assert not any(INSTALLER in call for call in node.calls("curl"))


def test_report_34_a_repository_that_is_too_old_leads_to_the_installer_of_aws(node: Node) -> None:
    node.set(efs_utils_version="3.0.0", dnf_has_efs_utils="3.1.1")
    with_installer(node, "3.2.0")
    assert node.run().returncode == 0
    assert node.calls("dnf") == ["install -y amazon-efs-utils", "upgrade -y amazon-efs-utils"]
    assert node.status()["efs_utils_version"] == "3.2.0"


def test_amazon_linux_2_takes_yum(node: Node) -> None:
    (node.root / "etc/os-release").write_text(AL2)
    (node.bin / "dnf").unlink()
    node.add_command("yum", 'cp "$STATE/repository" "$STATE/efs_utils_version"')
    node.set(efs_utils_version="", repository="3.1.2")
    assert node.run().returncode == 0
    assert node.calls("yum") == ["install -y amazon-efs-utils"]


def test_ubuntu_takes_the_installer_where_its_repositories_have_no_package(node: Node) -> None:
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.set(efs_utils_version="")
    with_installer(node, "3.2.0")
    assert node.run().returncode == 0
    assert not any("amazon-efs-utils" in call for call in node.calls("apt-get"))
    assert any(INSTALLER in call for call in node.calls("curl"))


def test_ubuntu_takes_the_package_where_its_repositories_have_one(node: Node) -> None:
    (node.root / "etc/os-release").write_text(UBUNTU)
    (node.state / "apt_has_amazon-efs-utils").write_text("3.1.2\n")
    node.set(efs_utils_version="")
    assert node.run().returncode == 0
    assert node.calls("apt-get")[-1] == "install -y -q -o DPkg::Lock::Timeout=300 amazon-efs-utils"
    assert not any(INSTALLER in call for call in node.calls("curl"))


# Configuration of the client


def configuration(node: Node) -> list[str]:
    return node.read("etc/amazon/efs/s3files-utils.conf").splitlines()


def shipped(node: Node, *lines: str) -> None:
    path = node.root / "etc/amazon/efs/s3files-utils.conf"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def test_logs_are_not_sent_so_that_a_private_network_does_not_hang_the_mount(node: Node) -> None:
    shipped(node, "[mount]", "enabled = true", "[cloudwatch-log]", "enabled = true", "retention_in_days = 14")
    node.run()
    assert configuration(node) == [
        "[mount]", "enabled = true", "[cloudwatch-log]", "enabled = false", "retention_in_days = 14",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "lines",
    [(), ("[mount]",), ("[cloudwatch-log]", "log_group_name = /mine"), ("[cloudwatch-log]", "[proxy]", "a = b")],
    ids=["no file", "no section", "no line", "a section behind it"],
)
def test_the_line_is_written_once_where_it_is_missing(node: Node, lines: tuple[str, ...]) -> None:
    if lines:
        shipped(node, *lines)
    node.run()
    node.run()
    found = configuration(node)
    assert found.count("enabled = false") == 1
    section = found.index("[cloudwatch-log]")
    behind = found[section + 1 :]
    assert "enabled = false" in (behind[: behind.index("[proxy]")] if "[proxy]" in behind else behind)
    assert set(lines) <= set(found)


@pytest.mark.parametrize("blank", [" ", "\t", "\r"])
def test_a_section_is_known_with_blanks_behind_it_and_never_doubled(node: Node, blank: str) -> None:
    shipped(node, f"[cloudwatch-log]{blank}", "enabled = true")
    node.run()
    text = (node.root / "etc/amazon/efs/s3files-utils.conf").read_bytes().decode()
    assert text.count("[cloudwatch-log]") == 1
    assert "enabled = false" in text
    assert "enabled = true" not in text


def test_logs_are_sent_when_asked_for(node: Node) -> None:
    shipped(node, "[cloudwatch-log]", "# enabled = true")
    node.mount("files", {**S3_FILES, "SHIP_LOGS": "yes"})
    node.run()
    assert configuration(node) == ["[cloudwatch-log]", "enabled = true"]


# Tries and proof


def test_report_34_two_denials_and_then_success(node: Node) -> None:
    node.set(mount_failures="2")
    assert node.run().returncode == 0
    assert len(node.calls("mount")) == 3


def test_report_34_failing_for_ever_is_bounded_signalled_and_names_the_file_system(node: Node) -> None:
    node.set(mount_failures="1000")
    done = node.run()
    assert done.returncode != 0
    assert len(node.calls("mount")) == 6
    assert any(S3_FILES_ID in line for line in done.stderr.splitlines() if "ERROR" in line)
    assert "s3files:ClientMount" in node.status()["message"]
    assert "2049" in node.status()["message"]
    assert node.signals() == ["FAILURE"]
    assert not (node.root / "etc/fstab").exists()


def test_a_mount_that_is_there_and_no_mount_point_is_not_taken_for_one(node: Node) -> None:
    node.add_command("mount", ":")
    assert node.run().returncode != 0
    assert "can't be mounted" in node.status()["message"]


def test_a_mount_that_hangs_is_ended(node: Node) -> None:
    # timeout(1) is what ends it; here it says so at once, and runs what it is asked to run under any other bound
    node.add_command("timeout", 'shift 2; [[ "$1" != 90 ]] || exit 124; shift; exec "$@"')
    done = node.run()
    assert done.returncode != 0
    assert S3_FILES_ID in node.status()["message"]


def test_everything_that_touches_the_mount_has_a_bound(node: Node) -> None:
    node.add_command("timeout", 'while [[ "$1" == -* ]]; do shift 2; done; shift; exec "$@"')
    node.mount("files", WRITABLE)
    assert node.run().returncode == 0
    bounded = [call for call in node.calls("timeout") if "/files" in call]
    assert {call.split()[3] for call in bounded} == {"mkdir", "mountpoint", "mount", "find", "bash"}


def test_a_writable_mount_is_written_read_and_left_clean(node: Node) -> None:
    node.mount("files", WRITABLE)
    assert node.run().returncode == 0
    assert node.status()["s3_files"] == "writable"
    assert list((node.root / "files").iterdir()) == []
    assert f"{S3_FILES_ID}:/ /files s3files region=us-east-1,_netdev" in node.read("etc/fstab")


def test_a_read_only_mount_is_listed_and_never_written(node: Node) -> None:
    node.add_command("find", 'exec /usr/bin/find "$@"')
    node.add_command("mkdir", '[[ "$*" != *training-storage-node* ]] || exit 1; exec /bin/mkdir "$@"')
    assert node.run().returncode == 0
    assert any(f"{node.root}/files" in call for call in node.calls("find"))


def test_a_mount_that_cannot_be_listed_ends_the_bootstrap(node: Node) -> None:
    node.add_command("find", "exit 1")
    assert node.run().returncode != 0
    assert f"{S3_FILES_ID} is mounted on /files and can't be listed" in node.status()["message"]


def test_a_mount_that_does_not_keep_what_is_written_ends_the_bootstrap(node: Node) -> None:
    node.add_command("cat", 'case "$*" in *training-storage-node*) echo other ;; *) exec /bin/cat "$@" ;; esac')
    node.mount("files", WRITABLE)
    assert node.run().returncode != 0
    assert "does not take or give data" in node.status()["message"]


DENIED = (
    'case "$*" in *training-storage-node*) echo "mkdir: cannot create: Permission denied" >&2; exit 1 ;; '
    '*) exec /bin/mkdir "$@" ;; esac'
)


def test_a_squashed_root_that_may_not_write_is_a_warning(node: Node) -> None:
    node.add_command("mkdir", DENIED)
    node.mount("files", {**WRITABLE, "ROOT_ACCESS": ""})
    done = node.run()
    assert done.returncode == 0
    assert node.status()["s3_files"] == "writing not proven"
    assert "root_access" in done.stderr


def test_a_root_that_should_write_and_may_not_ends_the_bootstrap(node: Node) -> None:
    node.add_command("mkdir", DENIED)
    node.mount("files", WRITABLE)
    assert node.run().returncode != 0
    assert "s3files:ClientRootAccess" in node.status()["message"]
