"""The bootstrap scripts on a node of stub commands: the CloudWatch agent, the collector, and what keeps them away."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.unit._bootstrap_node import LUSTRE, SCRIPTS, UBUNTU, Node

CONTROL = "opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl"
COLLECTOR = "training-storage-collector.service"
AGENT = "amazon-cloudwatch-agent.service"
REASON = "can't be installed"

# The control program as a stub beside the other commands; a package puts a link to it where it belongs.
INSTALL = 'mkdir -p "$TS_ROOT/opt/aws/amazon-cloudwatch-agent/bin"; ln -sf "$BIN/agent-ctl" "$TS_ROOT/' + CONTROL + '"'
CONTROL_BODY = '[[ ! -e "$STATE/agent_refuses" ]] || exit 1; touch "$STATE/active_amazon-cloudwatch-agent.service"'
SYSTEMCTL = """verb=$1
shift
[[ "$1" != --quiet ]] || shift
case "$verb" in
is-enabled | is-active) [[ -e "$STATE/${verb#is-}_$1" || -e "$STATE/${verb#is-}d_$1" ]] ;;
enable) touch "$STATE/enabled_$1" ;;
show) echo 17 ;;
stop) rm -f "$STATE/active_$1" ;;
start | restart) [[ ! -e "$STATE/no_$1" ]] && touch "$STATE/active_$1" ;;
esac"""


# The last step of the bootstrap alone, as what comes before it has tests of its own.
STEP = f"""set -euo pipefail
TS_SCRIPTS={shlex.quote(str(SCRIPTS))}
for part in lib agent metrics; do . "$TS_SCRIPTS/$part.sh"; done
. "$TS_ETC/settings"
set_up_metrics || exit 9
write_status ready
"""


def step(node: Node) -> str:
    """Run the step and return what it says."""
    script = node.state / "step.sh"
    script.write_text(STEP)
    done = node.run(script)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path)
    machine.with_lustre_client()
    machine.mount("fsx", LUSTRE)
    machine.settings(TS_REGION="us-east-1")
    machine.add_command("systemctl", SYSTEMCTL)
    machine.add_command("agent-ctl", CONTROL_BODY)
    gone = '[[ ! -e "$STATE/no_repository" ]] || exit 1'
    machine.add_command("dnf", f'case "${{@: -1}}" in amazon-cloudwatch-agent) {gone}; {INSTALL} ;; esac')
    machine.add_command("apt-get", f'case "${{@: -1}}" in *amazon-cloudwatch-agent.deb) {INSTALL} ;; esac')
    machine.set(signature="[GNUPG:] VALIDSIG 937616F3450B7D806CBD9725D58167303B789C72 2026-01-01")
    (machine.root / "etc/training-storage/cloudwatch-agent.json").write_text("{}\n")
    return machine


def test_a_node_gets_agent_and_collector(node: Node) -> None:
    step(node)
    assert node.status()["metrics"] == "ready"
    assert "metrics_reason" not in node.status()
    configuration = node.root / "etc/training-storage/cloudwatch-agent.json"
    assert node.calls("amazon-cloudwatch-agent-ctl") == [f"-a append-config -m ec2 -s -c file:{configuration}"]
    unit = set(node.read(f"etc/systemd/system/{COLLECTOR}").splitlines())
    assert {f"ExecStart={node.root}/opt/training-storage/bin/collector", "Restart=always", "MemoryMax=256M"} <= unit
    assert {"Nice=10", "CPUQuota=20%", "StartLimitIntervalSec=0"} <= unit
    assert "[Install]" not in unit
    assert (node.state / f"active_{COLLECTOR}").exists()


def test_the_storage_is_proven_and_the_jobs_run_before(node: Node) -> None:
    node.user_commands("echo job >>$STATE/calls")
    assert node.run().returncode == 0
    calls = node.calls()
    started = next(index for index, call in enumerate(calls) if call == f"systemctl restart {COLLECTOR}")
    mounted = next(index for index, call in enumerate(calls) if call.startswith("mount -t lustre"))
    assert mounted < calls.index("job") < started


def test_a_second_run_changes_nothing(node: Node) -> None:
    step(node)
    before = node.files()
    node.set(calls="")
    step(node)
    assert node.files() == before
    changing = ("systemctl start", "systemctl restart", "systemctl stop", "systemctl daemon-reload", "amazon-", "dnf")
    assert [call for call in node.calls() if call.startswith(changing)] == []


def test_a_new_configuration_is_given_to_the_agent_again(node: Node) -> None:
    step(node)
    (node.root / "etc/training-storage/cloudwatch-agent.json").write_text('{"metrics": {}}\n')
    node.set(calls="")
    step(node)
    assert len(node.calls("amazon-cloudwatch-agent-ctl")) == 1


def test_after_a_boot_agent_and_collector_run_again(node: Node) -> None:
    step(node)
    for unit in (COLLECTOR, AGENT):
        (node.state / f"active_{unit}").unlink()
    step(node)
    assert node.status()["metrics"] == "ready"
    assert (node.state / f"active_{COLLECTOR}").exists()
    assert (node.state / f"active_{AGENT}").exists()


def test_without_a_way_out_the_node_is_ready_and_says_why(node: Node) -> None:
    node.has("no_repository")
    node.add_command("timeout", 'while [[ "$1" == -* ]]; do shift 2; done; shift; exec "$@"')
    said = step(node)
    assert node.status()["state"] == "ready"
    assert node.status()["metrics"] == "unavailable"
    assert REASON in node.status()["metrics_reason"]
    assert "WARNING this node has no metrics" in said
    tries = [call for call in node.calls("timeout") if "dnf" in call]
    assert len(tries) == 2
    assert all(call.startswith("-k 10 180 ") for call in tries)
    # It tells whoever listens later.
    assert (node.state / f"active_{COLLECTOR}").exists()


def test_ubuntu_takes_the_package_of_its_region_and_checks_who_signed_it(node: Node) -> None:
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.set(machine="aarch64")
    step(node)
    assert node.status()["metrics"] == "ready"
    fetched = [call.split()[-1] for call in node.calls("curl") if "cloudwatch" in call]
    host = "https://amazoncloudwatch-agent-us-east-1.s3.us-east-1.amazonaws.com"
    assert fetched == [
        f"{host}/ubuntu/arm64/latest/amazon-cloudwatch-agent.deb",
        f"{host}/ubuntu/arm64/latest/amazon-cloudwatch-agent.deb.sig",
        f"{host}/assets/amazon-cloudwatch-agent.gpg",
    ]


def test_china_has_another_suffix(node: Node) -> None:
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.settings(TS_REGION="cn-north-1")
    step(node)
    assert any("s3.cn-north-1.amazonaws.com.cn/ubuntu/amd64/" in call for call in node.calls("curl"))


@pytest.mark.parametrize("fault", ["signature", "no_internet"])
def test_a_package_that_is_not_theirs_or_not_there_is_not_installed(node: Node, fault: str) -> None:
    (node.root / "etc/os-release").write_text(UBUNTU)
    node.set(signature="[GNUPG:] VALIDSIG 0000000000000000000000000000000000000000 2026-01-01")
    if fault == "no_internet":
        node.has("no_internet")
    step(node)
    assert node.status()["state"] == "ready"
    assert REASON in node.status()["metrics_reason"]
    assert not [call for call in node.calls("apt-get") if "cloudwatch" in call]


def test_an_image_without_a_known_package(node: Node) -> None:
    (node.root / "etc/os-release").write_text('ID=rocky\nVERSION_ID="9"\n')
    step(node)
    assert REASON in node.status()["metrics_reason"]


def test_an_agent_that_does_not_take_the_configuration(node: Node) -> None:
    node.has("agent_refuses")
    step(node)
    assert "beside what its image has" in node.status()["metrics_reason"]
    (node.state / "agent_refuses").unlink()
    step(node)
    assert node.status()["metrics"] == "ready"


def test_a_collector_that_does_not_start(node: Node) -> None:
    node.has(f"no_{COLLECTOR}")
    step(node)
    assert node.status()["metrics_reason"] == f"{COLLECTOR} can't be started"


def test_a_node_without_a_configuration_tells_nothing_any_longer(node: Node) -> None:
    step(node)
    configuration = node.root / "etc/training-storage/cloudwatch-agent.json"
    configuration.unlink()
    node.set(calls="")
    step(node)
    assert "metrics" not in node.status()
    assert not (node.root / "etc/systemd/system" / COLLECTOR).exists()
    assert not (node.root / "opt/training-storage/bin/collector").exists()
    assert node.calls("amazon-cloudwatch-agent-ctl") == [f"-a remove-config -m ec2 -s -c file:{configuration}"]
    node.set(calls="")
    step(node)
    assert node.calls("amazon-cloudwatch-agent-ctl") == []


def test_a_storage_that_is_not_proven_starts_nothing(node: Node) -> None:
    node.set(mount_failures="1000")
    assert node.run().returncode != 0
    assert not [call for call in node.calls("systemctl") if COLLECTOR in call]


def test_the_command_runs_the_collector_of_the_scripts(node: Node, tmp_path: Path) -> None:
    node.add_command("python3", f'exec {shlex.quote(sys.executable)} "$@"')
    step(node)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "node").mkdir(parents=True)
    (elsewhere / "node/__init__.py").write_text("raise RuntimeError")
    script = tmp_path / "call.sh"
    script.write_text(f'cd {elsewhere} && "{node.root}/opt/training-storage/bin/collector"\n')
    # Without a workload it ends by itself.
    (node.root / "etc/training-storage/env").write_text("")
    said = node.run(script)
    assert (said.returncode, "TRAINING_STORAGE_WORKLOAD" in said.stderr) == (2, True)


def test_status_stays_one_object(node: Node) -> None:
    step(node)
    text = (node.root / "var/lib/training-storage/status.json").read_text()
    assert json.loads(text)["metrics"] == "ready"
