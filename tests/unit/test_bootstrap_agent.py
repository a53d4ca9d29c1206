"""The bootstrap scripts on a node of stub commands: the agent, its Python and its timer."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.unit._bootstrap_node import LUSTRE, UBUNTU, Node

SETTINGS = {
    "workload": "run1",
    "region": "us-east-1",
    "tier": "lustre",
    "lake_bucket": "lake",
    "policy": {"keep_hot": 3, "promote_every": 10},
}
SERVICE, TIMER = "training-storage-checkpoints.service", "training-storage-checkpoints.timer"

# A Python whose answer to "have you all that the agent needs" is the file boto3 beside it. Modules are not run.
PYTHON = """here="$(dirname "$0")"
case "$*" in
*"boto3 is too old"*) [[ -e "$here/boto3" ]] ;;
*sys.version_info*) [[ ! -e "$STATE/python_is_old" ]] ;;
*"-m venv"*)
  [[ ! -e "$STATE/no_venv" ]] || exit 1
  mkdir -p "${@: -1}/bin" && cp "$0" "${@: -1}/bin/python"
  ;;
*"-m pip install"*)
  [[ ! -e "$STATE/no_index" ]] || exit 1
  [[ -e "$STATE/index_is_old" ]] || touch "$here/boto3"
  ;;
esac"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path)
    machine.with_lustre_client()
    machine.mount("fsx", LUSTRE)
    machine.add_command("python3", PYTHON)
    for version in range(9, 14):
        machine.add_command(f"python3.{version}", "exit 1")
    machine.settings(TS_REGION="us-east-1", TS_AGENT_TIMER="yes")
    (machine.root / "etc/training-storage/agent.json").write_text(json.dumps(SETTINGS))
    return machine


def command(node: Node) -> Path:
    return node.root / "opt/training-storage/bin/agent"


def test_a_node_with_a_good_python_gets_command_and_timer(node: Node) -> None:
    (node.bin / "boto3").touch()
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.status()["agent"] == "ready"
    assert f'exec "{node.bin}/python3" -I' in command(node).read_text()
    assert command(node).stat().st_mode & 0o111
    service = node.read(f"etc/systemd/system/{SERVICE}")
    assert f"ExecStart={command(node)} run --quiet\n" in service
    assert {"Type=oneshot", "Nice=19", "IOSchedulingClass=idle"} <= set(service.splitlines())
    timer = node.read(f"etc/systemd/system/{TIMER}")
    assert {"OnBootSec=5min", "OnUnitInactiveSec=60s", "Persistent=false"} <= set(timer.splitlines())
    assert "RandomizedDelaySec=" in timer
    assert f"start {TIMER}" in node.calls("systemctl")
    assert not (node.root / "opt/training-storage/venv").exists()


def test_the_timer_starts_with_no_boot_but_with_each_proof(node: Node) -> None:
    (node.bin / "boto3").touch()
    assert node.run().returncode == 0
    assert "[Install]" not in node.read(f"etc/systemd/system/{TIMER}")
    assert not [call for call in node.calls("systemctl") if call.startswith("enable") and TIMER in call]
    calls = node.calls()
    mounted = next(index for index, call in enumerate(calls) if call.startswith("mount -t lustre"))
    assert calls.index(f"systemctl start {TIMER}") > mounted


def test_a_storage_that_is_not_proven_starts_no_timer(node: Node) -> None:
    (node.bin / "boto3").touch()
    node.set(mount_failures="1000")
    assert node.run().returncode != 0
    assert not [call for call in node.calls("systemctl") if TIMER in call]
    assert not command(node).exists()


def test_a_second_run_changes_nothing(node: Node) -> None:
    (node.bin / "boto3").touch()
    assert node.run().returncode == 0
    before = node.files()
    node.set(calls="")
    assert node.run().returncode == 0
    assert node.files() == before
    changing = ("systemctl start", "systemctl stop", "systemctl daemon-reload", "python3 -m")
    assert [call for call in node.calls() if call.startswith(changing)] == []


def test_a_python_without_boto3_gets_an_environment_of_its_own(node: Node) -> None:
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.status()["agent"] == "ready"
    assert f'exec "{node.root}/opt/training-storage/venv/bin/python"' in command(node).read_text()
    node.set(calls="")
    assert node.run().returncode == 0
    assert not [call for call in node.calls() if "pip install" in call]


def test_without_a_way_to_a_package_index_the_boot_goes_on_and_says_why(node: Node) -> None:
    node.has("no_index")
    node.user_commands("echo once >>$TS_ROOT/ran")
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.status()["state"] == "ready"
    assert node.status()["agent"] == "unavailable"
    assert "package index" in node.status()["agent_reason"]
    assert "WARNING this node has no agent" in done.stderr
    assert not command(node).exists()
    assert not (node.root / "etc/systemd/system" / TIMER).exists()
    assert len([call for call in node.calls() if "pip install" in call]) == 2
    assert all(call.startswith("-k 10 120 ") for call in node.calls("timeout") if "pip install" in call)
    assert node.read("ran") == "once\n"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ("python_is_old", "no Python 3.9 or newer"),
        ("no_venv", "no virtual environment"),
        ("index_is_old", "the boto3 that was installed is too old"),
    ],
)
def test_what_keeps_a_node_from_its_agent_is_named(node: Node, broken: str, reason: str) -> None:
    node.has(broken)
    node.add_command("timeout", 'while [[ "$1" == -* ]]; do shift 2; done; shift; exec "$@"')
    assert node.run().returncode == 0
    assert node.status()["agent"] == "unavailable"
    assert reason in node.status()["agent_reason"]
    assert not (node.root / "opt/training-storage/venv").exists()


def test_ubuntu_gets_the_package_that_makes_environments(node: Node) -> None:
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.has("no_venv")
    node.add_command("apt-get", 'case "${@: -1}" in python3-venv) rm "$STATE/no_venv" ;; esac')
    assert node.run().returncode == 0
    assert node.status()["agent"] == "ready"


def test_a_node_without_settings_has_no_agent(node: Node) -> None:
    (node.bin / "boto3").touch()
    assert node.run().returncode == 0
    (node.root / "etc/training-storage/agent.json").unlink()
    node.set(calls="")
    assert node.run().returncode == 0
    assert "agent" not in node.status()
    assert not command(node).exists()
    assert f"stop {TIMER}" in node.calls("systemctl")
    assert not (node.root / "etc/systemd/system" / TIMER).exists()
    assert not (node.root / "etc/systemd/system" / SERVICE).exists()


def test_without_a_policy_the_agent_waits_to_be_asked(node: Node) -> None:
    (node.bin / "boto3").touch()
    node.settings(TS_REGION="us-east-1")
    assert node.run().returncode == 0
    assert node.status()["agent"] == "ready"
    assert command(node).exists()
    assert not (node.root / "etc/systemd/system" / TIMER).exists()


def test_the_command_runs_the_agent_of_the_scripts_wherever_it_is_called(node: Node, tmp_path: Path) -> None:
    node.add_command("python3", f'exec {shlex.quote(sys.executable)} "$@"')
    done = node.run()
    assert done.returncode == 0, done.stderr
    assert node.status()["agent"] == "ready"
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "node").mkdir(parents=True)
    (elsewhere / "node/__init__.py").write_text("raise RuntimeError")
    script = tmp_path / "call.sh"
    script.write_text(f'cd {elsewhere} && "{command(node)}" --help\n')
    said = node.run(script)
    assert said.returncode == 0, said.stderr
    assert "COMMAND" in said.stdout
