"""The bootstrap scripts on a node of stub commands: the Lustre client, its mount, its proof and its transport."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.unit._bootstrap_node import FILE_SYSTEM_ID, KERNEL, LUSTRE, LUSTRE_EFA, UBUNTU, Node


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path)
    machine.with_lustre_client()
    machine.mount("fsx", LUSTRE)
    return machine


def test_a_good_node_mounts_proves_and_signals_success(node: Node) -> None:
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.calls("mount") == [
        f"-t lustre -o relatime,flock {FILE_SYSTEM_ID}.fsx.us-east-1.amazonaws.com@tcp:/abcdefgh {node.root}/fsx"
    ]
    assert node.signals() == ["SUCCESS"]
    assert node.status()["state"] == "ready"
    assert node.status()["file_system_id"] == FILE_SYSTEM_ID


def test_the_signal_names_stack_resource_instance_and_region(node: Node) -> None:
    node.run()
    assert node.calls("aws") == [
        "cloudformation signal-resource --region us-east-1 --stack-name llama3-compute "
        "--logical-resource-id FleetABC --unique-id i-0abc --status SUCCESS"
    ]


def test_the_probe_is_deleted(node: Node) -> None:
    node.run()
    assert [path.name for path in (node.root / "fsx").iterdir() if path.is_file()] == []


def test_report_20_a_mount_that_fails_twice_and_then_works_is_a_success(node: Node) -> None:
    node.set(mount_failures="2")
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert len(node.calls("mount")) == 3
    assert node.signals() == ["SUCCESS"]


def test_report_20_a_name_that_resolves_late_is_a_success(node: Node) -> None:
    node.set(getent_failures="2")
    assert node.run().returncode == 0
    assert len(node.calls("getent")) == 3


@pytest.mark.parametrize("broken", ["mount_failures", "getent_failures"])
def test_report_20_failing_for_ever_is_bounded_signalled_and_names_the_file_system(node: Node, broken: str) -> None:
    node.set(**{broken: "1000"})
    done = node.run()
    assert done.returncode != 0
    tried = node.calls("mount" if broken == "mount_failures" else "getent")
    assert len(tried) == 6  # TS_TRIES of the test; 20 by default, and never fewer than 5
    assert node.signals() == ["FAILURE"]
    assert any(FILE_SYSTEM_ID in line and "step" in line for line in done.stderr.splitlines() if "ERROR" in line)
    assert node.status()["state"] == "failed"
    assert FILE_SYSTEM_ID in node.status()["message"]


def test_report_20_a_mount_that_returns_before_it_takes_data_is_tried_again(node: Node) -> None:
    node.add_command("dd", 'down dd_failures || exit 1; exec /usr/bin/dd "$@"')
    node.set(dd_failures="2")
    assert node.run().returncode == 0


def test_report_20_a_file_system_that_takes_no_data_fails(node: Node) -> None:
    node.add_command("dd", "exit 1")
    done = node.run()
    assert done.returncode != 0
    assert node.signals() == ["FAILURE"]
    assert FILE_SYSTEM_ID in done.stderr


def test_a_second_run_changes_nothing(node: Node) -> None:
    node.user_commands("echo once >>$TS_ROOT/ran")
    node.with_nvme()
    assert node.run().returncode == 0
    before = node.files()
    node.set(calls="")
    assert node.run().returncode == 0
    assert node.files() == before
    changing = ("mount ", "dnf ", "lfs setstripe", "systemctl enable", "systemctl start", "systemctl daemon-reload")
    assert [call for call in node.calls() if call.startswith(changing)] == []


def test_fstab_has_one_line_that_never_hangs_a_boot(node: Node) -> None:
    (node.root / "etc/fstab").write_text("UUID=1 / xfs defaults 0 0\nold@tcp:/x /fsx lustre defaults 0 0\n")
    node.run()
    node.run()
    lines = node.read("etc/fstab").splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("UUID=1 / ")
    options = lines[1].split()[3].split(",")
    assert {"_netdev", "nofail", "x-systemd.automount", "relatime", "flock"} <= set(options)


def test_fstab_waits_for_the_efa_set_up_where_efa_is_wanted(node: Node) -> None:
    node.mount("fsx", LUSTRE_EFA)
    node.with_efa()
    node.run()
    assert "x-systemd.requires=configure-efa-fsx-lustre-client.service" in node.read("etc/fstab")


def test_report_20_a_mount_that_hangs_has_a_bound(node: Node) -> None:
    # 20 tries of 90 s with 15 s between them are 35 minutes: a stack waits for an hour
    node.add_command("timeout", 'while [[ "$1" == -* ]]; do shift 2; done; shift; exec "$@"')
    assert node.run().returncode == 0
    assert [call.split()[:2] for call in node.calls("timeout") if " lustre " in call] == [["90", "mount"]]


def test_fstab_does_not_wait_for_an_efa_set_up_that_failed(node: Node) -> None:
    # a unit that is not there would keep the mount from coming back after a reboot
    node.mount("fsx", LUSTRE_EFA)
    node.has("module_efa", "no_internet")
    assert node.run().returncode == 0
    assert node.status()["transport"] == "tcp"
    assert "configure-efa" not in node.read("etc/fstab")


def test_a_node_that_boots_when_no_stack_waits_does_not_fail(node: Node) -> None:
    node.set(
        signal_answer="An error occurred (ValidationError): Stack is in CREATE_COMPLETE state and cannot be signaled"
    )
    done = node.run()
    assert done.returncode == 0
    assert len(node.calls("aws")) == 1
    assert "no stack waits" in done.stderr


def test_a_refused_signal_is_tried_again_and_does_not_fail_the_node(node: Node) -> None:
    node.set(signal_answer="An error occurred (AccessDenied)")
    assert node.run().returncode == 0
    assert len(node.calls("aws")) == 5


def test_a_node_without_a_stack_signals_nothing(node: Node) -> None:
    node.settings(TS_REGION="us-east-1")
    assert node.run().returncode == 0
    assert node.calls("aws") == []


# Lustre client


def test_report_21_a_client_that_is_there_is_not_installed_again(node: Node) -> None:
    node.run()
    assert node.calls("dnf") == []


def test_report_21_al2023_installs_the_client_by_its_name(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.mount("fsx", LUSTRE)
    node.has("dnf_has_lustre-client")
    assert node.run().returncode == 0
    assert node.calls("dnf") == ["install -y lustre-client"]


def test_report_21_a_missing_kernel_package_names_kernel_page_and_file_system(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.mount("fsx", LUSTRE)
    done = node.run()
    assert done.returncode != 0
    message = node.status()["message"]
    assert KERNEL in message
    assert "lustre-client-matrix" in message
    assert FILE_SYSTEM_ID in message
    assert node.signals() == ["FAILURE"]


def test_report_21_ubuntu_asks_for_the_package_of_the_running_kernel(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.mount("fsx", LUSTRE)
    node.has(f"apt_has_lustre-client-modules-{KERNEL}")
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.calls("apt-get") == [
        "update -q",
        f"install -y -q -o DPkg::Lock::Timeout=300 lustre-client-modules-{KERNEL}",
    ]
    assert "ubuntu jammy main" in node.read("etc/apt/sources.list.d/fsxlustreclientrepo.list")


def test_report_21_ubuntu_without_that_package_stops_before_any_install(tmp_path: Path) -> None:
    node = Node(tmp_path)
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.mount("fsx", LUSTRE)
    assert node.run().returncode != 0
    assert node.calls("apt-get") == ["update -q"]
    assert f"lustre-client-modules-{KERNEL}" in node.status()["message"]


# EFA


def test_efa_traffic_that_rises_is_reported_as_efa(node: Node) -> None:
    node.mount("fsx", LUSTRE_EFA)
    node.with_efa(interfaces=8)
    assert node.run().returncode == 0
    assert node.status()["transport"] == "efa"
    assert node.status()["efa_interfaces"] == "8"


@pytest.mark.parametrize(("interfaces", "why"), [(0, "no EFA interface"), (8, "do not rise")])
def test_efa_wanted_and_tcp_used_is_said_loudly(node: Node, interfaces: int, why: str) -> None:
    node.mount("fsx", LUSTRE_EFA)
    node.with_efa(rising=False, interfaces=interfaces)
    done = node.run()
    assert done.returncode == 0
    assert node.status()["transport"] == "tcp"
    assert why in node.status()["warning"]
    assert "WARNING" in done.stderr
    assert node.signals() == ["SUCCESS"]


def test_efa_wanted_and_tcp_used_fails_where_that_is_asked_for(node: Node) -> None:
    node.mount("fsx", {**LUSTRE_EFA, "ON_TCP": "fail"})
    node.with_efa(rising=False)
    done = node.run()
    assert done.returncode != 0
    assert node.signals() == ["FAILURE"]
    assert FILE_SYSTEM_ID in node.status()["message"]


def test_without_efa_nobody_warns_of_tcp(node: Node) -> None:
    done = node.run()
    assert node.status()["transport"] == "tcp"
    assert "WARNING" not in done.stderr
    assert node.calls("lnetctl") == []


def _efa_package(node: Node, result: int = 0) -> None:
    """AWS's zip: a folder with setup.sh, which makes the unit."""
    import zipfile

    name = "configure-efa-fsx-lustre-client"
    with zipfile.ZipFile(node.state / "downloads" / f"{name}.zip", "w") as archive:
        archive.writestr(
            f"{name}/setup.sh",
            f'echo "setup $*" >>"$STATE/calls"; touch "$STATE"/{{enabled,active}}_{name}.service; exit {result}\n',
        )


def test_the_efa_client_is_set_up_before_anything_mounts(node: Node) -> None:
    node.mount("fsx", LUSTRE_EFA)
    node.has("module_efa", "efa_rises")
    node.set(efa_interfaces="8")
    _efa_package(node)
    assert node.run().returncode == 0
    names = [call.split()[0] for call in node.calls()]
    assert names.index("setup") < names.index("mount")
    assert "modprobe" not in names


def test_gds_is_passed_to_the_set_up(node: Node) -> None:
    node.mount("fsx", {**LUSTRE_EFA, "GDS": "yes"})
    node.has("module_efa")
    _efa_package(node)
    node.run()
    assert "setup --optimized-for-gds" in node.calls()


def test_an_error_of_the_set_up_counts_less_than_its_unit(node: Node) -> None:
    node.mount("fsx", {**LUSTRE_EFA, "ON_TCP": "fail"})
    node.has("module_efa", "efa_rises")
    node.set(efa_interfaces="8")
    _efa_package(node, result=1)
    assert node.run().returncode == 0


def test_a_set_up_that_can_not_be_fetched_falls_back_to_tcp_or_fails_as_asked(tmp_path: Path) -> None:
    results = {}
    for on_tcp in ("report", "fail"):
        node = Node(tmp_path / on_tcp)
        node.with_lustre_client()
        node.mount("fsx", {**LUSTRE_EFA, "ON_TCP": on_tcp})
        node.has("module_efa", "no_internet")
        results[on_tcp] = node.run().returncode
    assert results == {"report": 0, "fail": 1}


# Settings of the client


def test_large_hosts_get_module_options_before_the_mount_and_all_client_settings(node: Node) -> None:
    # FSx for Lustre User Guide, performance tips; 192 vCPUs and 2 TiB as p5en.48xlarge
    node.run()
    assert node.read("etc/modprobe.d/training-storage-lustre.conf").splitlines() == [
        "options ptlrpc ptlrpcd_per_cpt_max=32",
        "options ksocklnd credits=2560",
    ]
    assert node.calls("lctl") == [
        "set_param osc.*.max_dirty_mb=64",
        "set_param ldlm.namespaces.*.lru_max_age=600000",
        "set_param ldlm.namespaces.*.lru_size=19200",
        "set_param osc.*OST*.max_rpcs_in_flight=32",
        "set_param mdc.*.max_rpcs_in_flight=64",
        "set_param mdc.*.max_mod_rpcs_in_flight=50",
    ]


@pytest.mark.parametrize(("cpus", "gib", "settings"), [(64, 64, 1), (65, 64, 4), (64, 65, 3), (65, 65, 6)])
def test_client_settings_have_their_borders_at_64_vcpus_and_64_gib(
    node: Node, cpus: int, gib: int, settings: int
) -> None:
    node.set(cpus=str(cpus))
    (node.root / "proc/meminfo").write_text(f"MemTotal: {gib * 1024 * 1024} kB\n")
    node.run()
    assert len(node.calls("lctl")) == settings
    assert (node.root / "etc/modprobe.d/training-storage-lustre.conf").exists() is (cpus > 64)


def test_checkpoints_are_striped_over_all_targets_and_scratch_is_made(node: Node) -> None:
    node.run()
    assert f"setstripe -c -1 -S 16M {node.root}/fsx/checkpoints" in node.calls("lfs")
    assert (node.root / "fsx/scratch").is_dir()


def test_scratch_has_a_layout_for_files_of_every_size(node: Node) -> None:
    node.run()
    (layout,) = [call for call in node.calls("lfs") if call.endswith("/fsx/scratch") and call.startswith("setstripe")]
    # FSx for Lustre User Guide, default layout of file systems since 2023-08-25
    assert layout == f"setstripe -E 100M -c 1 -E 10G -c 8 -E 100G -c 16 -E -1 -c 32 {node.root}/fsx/scratch"


@pytest.mark.parametrize("name", ["checkpoints", "scratch"])
@pytest.mark.parametrize(("mode", "after"), [(0o755, 0o1777), (0o750, 0o750), (0o2775, 0o2775)])
def test_a_directory_that_fsx_made_for_a_link_is_opened_and_a_mode_that_somebody_chose_stays(
    node: Node, name: str, mode: int, after: int
) -> None:
    # FSx makes the directory of a link as root with mode 755: jobs of other users could not save
    directory = node.root / "fsx" / name
    directory.mkdir(parents=True)
    directory.chmod(mode)
    assert node.run().returncode == 0
    assert stat.S_IMODE(directory.stat().st_mode) == after


def test_directories_are_not_made_where_the_plan_has_none(node: Node) -> None:
    node.mount("fsx", {**LUSTRE, "CHECKPOINTS": "", "SCRATCH": ""})
    node.run()
    assert list((node.root / "fsx").iterdir()) == []
    assert node.calls("lfs") == []


# Reboots


def reboot(node: Node, *, mount_failures: str = "0") -> None:
    """What a reboot leaves: an automount of fstab that mounts at the first access, and no call made yet."""
    node.set(mounted="", automounts=f"{node.root}/fsx", mount_failures=mount_failures, calls="")
    node.add_command("ls", 'down mount_failures || exit 2; echo "${1%/}" >>"$STATE/mounted"')


def test_each_boot_proves_the_storage_again(node: Node) -> None:
    node.run()
    unit = node.unit("bootstrap").splitlines()
    assert [line for line in unit if line.startswith("ExecStart=") and line.endswith("/bootstrap.sh boot")]
    assert "WantedBy=multi-user.target" in unit
    (after,) = [line.removeprefix("After=").split() for line in unit if line.startswith("After=")]
    # the network, the local disks of Deep Learning images, and LNet's EFA settings before lustre is loaded
    assert {"network-online.target", "dlami-nvme.service", "configure-efa-fsx-lustre-client.service"} <= set(after)
    assert "enable --quiet training-storage-bootstrap.service" in node.calls("systemctl")
    assert "start training-storage-bootstrap.service" not in node.calls("systemctl")


def test_after_a_reboot_the_automount_mounts_and_the_client_settings_come_back(node: Node) -> None:
    node.run()
    reboot(node)
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.calls("mount") == []
    assert len(node.calls("ls")) == 1
    assert "set_param osc.*.max_dirty_mb=64" in node.calls("lctl")
    assert node.status()["state"] == "ready"


def test_after_a_reboot_a_mount_that_fails_twice_is_tried_again(node: Node) -> None:
    node.run()
    reboot(node, mount_failures="2")
    assert node.run().returncode == 0
    assert len(node.calls("ls")) == 3


def test_after_a_reboot_an_automount_with_nothing_behind_it_is_no_mount(node: Node) -> None:
    node.run()
    reboot(node, mount_failures="1000")
    assert node.run().returncode != 0
    assert node.status()["state"] == "failed"
    assert FILE_SYSTEM_ID in node.status()["message"]


@pytest.mark.parametrize(("second", "state"), [("i-0abc", "ready"), ("i-0def", "as it was")])
def test_the_unit_of_the_node_that_an_image_was_made_from_leaves_the_new_one_to_its_user_data(
    node: Node, second: str, state: str
) -> None:
    instance = node.root / "var/lib/cloud/data/instance-id"
    instance.parent.mkdir(parents=True)
    instance.write_text("i-0abc\n")
    assert node.run().returncode == 0
    instance.write_text(f"{second}\n")
    (node.root / "var/lib/training-storage/status.json").write_text('{"state": "as it was"}')
    assert node.run(arguments=("boot",)).returncode == 0
    assert node.status()["state"] == state


# The kernel that has a client

PACKAGES = (
    "installed linux-aws",
    "installed linux-image-aws",
    "installed linux-image-6.8.0-1021-aws",
    "installed lustre-client-modules-6.8.0-1021-aws",
    "config-files linux-image-6.8.0-1015-aws",
    "not-installed linux-image-generic",
)


@pytest.fixture
def ubuntu(node: Node) -> Node:
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.set(packages="\n".join(PACKAGES))
    return node


def test_ubuntu_holds_the_kernel_and_what_would_bring_another(ubuntu: Node) -> None:
    # aws/aws-parallelcluster #2095: an unattended upgrade, a reboot, and no Lustre
    done = ubuntu.run()
    assert done.returncode == 0, done.stderr
    assert "hold " + " ".join(name.split()[1] for name in PACKAGES[:4]) in ubuntu.calls("apt-mark")


def test_what_is_held_already_is_not_held_again(ubuntu: Node) -> None:
    ubuntu.run()
    ubuntu.set(calls="")
    ubuntu.run()
    assert ubuntu.calls("apt-mark") == ["showhold"]


def test_a_busy_package_database_is_tried_again_and_then_said(ubuntu: Node) -> None:
    ubuntu.set(hold_failures="2")
    assert "WARNING" not in ubuntu.run().stderr
    ubuntu.set(held="", hold_failures="1000")
    done = ubuntu.run()
    assert done.returncode == 0
    assert "the kernel is not held" in done.stderr


def test_amazon_linux_takes_no_kernel_by_itself_and_nothing_is_held(node: Node) -> None:
    node.run()
    assert node.calls("apt-mark") == []


def test_a_package_upgrade_does_not_restart_our_units(ubuntu: Node) -> None:
    ubuntu.run()
    assert not (ubuntu.root / "etc/needrestart").exists()
    (ubuntu.root / "etc/needrestart/conf.d").mkdir(parents=True)
    ubuntu.run()
    assert ubuntu.read("etc/needrestart/conf.d/training-storage.conf") == (
        "$nrconf{override_rc}{qr(^training-storage-)} = 0;\n"
    )


def test_the_status_names_the_kernel(node: Node) -> None:
    node.run()
    assert node.status()["kernel"] == KERNEL
