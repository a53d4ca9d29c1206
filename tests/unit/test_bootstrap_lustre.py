"""The bootstrap scripts on a node of stub commands: the Lustre client, its mount, its proof and its transport."""

from __future__ import annotations

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
    assert node.calls("apt-get") == ["update -q", f"install -y -q lustre-client-modules-{KERNEL}"]
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


def test_client_settings_come_back_after_a_boot(node: Node) -> None:
    node.run()
    unit = node.unit("lustre-tune")
    assert "RequiresMountsFor=/fsx" in unit
    assert "lustre_tune.sh" in unit
    assert "enable --quiet training-storage-lustre-tune.service" in node.calls("systemctl")


def test_checkpoints_are_striped_over_all_targets_and_scratch_is_made(node: Node) -> None:
    node.run()
    assert f"setstripe -c -1 -S 16M {node.root}/fsx/checkpoints" in node.calls("lfs")
    assert (node.root / "fsx/scratch").is_dir()


def test_directories_are_not_made_where_the_plan_has_none(node: Node) -> None:
    node.mount("fsx", {**LUSTRE, "CHECKPOINTS": "", "SCRATCH": ""})
    node.run()
    assert list((node.root / "fsx").iterdir()) == []
    assert node.calls("lfs") == []
