"""Emulated nodes: a root folder, the mount, ``lfs``, and Systems Manager that really runs commands there."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulated.emulator_templates import hot
from training_storage.emulator import Emulator, emulator
from training_storage.emulator.node import EmulatedNode

WORKLOAD = {"training-storage:workload": "demo"}


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as aws:
        yield aws


def group(name: str, desired: int) -> dict[str, Any]:
    template: dict[str, Any] = {
        "Template": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {"LaunchTemplateData": {"ImageId": "ami-12345678", "InstanceType": "m5.large"}},
        },
        "Fleet": {
            "Type": "AWS::AutoScaling::AutoScalingGroup",
            "Properties": {
                "AutoScalingGroupName": name,
                "MinSize": "0",
                "MaxSize": "2",
                "DesiredCapacity": str(desired),
                "VPCZoneIdentifier": [{"Ref": "Subnet"}],
                "LaunchTemplate": {
                    "LaunchTemplateId": {"Ref": "Template"},
                    "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
                },
                "Tags": [
                    {"Key": "training-storage:workload", "Value": "demo", "PropagateAtLaunch": True},
                    {"Key": "mine", "Value": "only", "PropagateAtLaunch": False},
                ],
            },
        },
    }
    return template


@pytest.fixture(scope="module")
def ids(running: Emulator) -> dict[str, str]:
    template = hot()
    template["Resources"] |= group("demo-fleet", 1)
    return running.deploy(template, "hot").physical_ids


@pytest.fixture
def node(running: Emulator, ids: dict[str, str]) -> EmulatedNode:
    assert ids
    return running.nodes()[0]


def put(aws: Emulator, ids: dict[str, str], key: str, body: bytes, **more: Any) -> None:
    aws.client("s3").put_object(Bucket=ids["Bucket"], Key=f"datasets/{key}", Body=body, **more)
    aws.settle(ids["Fs"])


def send(aws: Emulator, node: EmulatedNode, *lines: str, **parameters: list[str]) -> str:
    answer = aws.client("ssm").send_command(
        InstanceIds=[node.id],
        DocumentName="AWS-RunShellScript",
        Parameters={"commands": list(lines), **parameters},
        TimeoutSeconds=60,
    )
    return str(answer["Command"]["CommandId"])


def wait(aws: Emulator, node: EmulatedNode, command: str, *wanted: str) -> dict[str, Any]:
    over = wanted or ("Success", "Failed", "TimedOut", "Cancelled")
    for _ in range(1000):
        found: dict[str, Any] = aws.client("ssm").get_command_invocation(CommandId=command, InstanceId=node.id)
        if found["Status"] in over:
            return found
        time.sleep(0.01)
    raise AssertionError(found)


def test_an_instance_of_a_group_is_a_node(running: Emulator, node: EmulatedNode, ids: dict[str, str]) -> None:
    assert (node.root / "var/lib/cloud/data/instance-id").read_text().strip() == node.id
    assert (node.root / "fsx").resolve() == running.file_system(ids["Fs"]).path
    assert node.tags["training-storage:workload"] == "demo"
    assert "mine" not in node.tags
    assert running.nodes(WORKLOAD) == [node]
    assert running.nodes({"training-storage:workload": "other"}) == []


def test_a_group_that_grows_and_shrinks(running: Emulator, node: EmulatedNode) -> None:
    started: list[EmulatedNode] = []
    running.on_instance(started.append)
    scaling = running.client("autoscaling")
    scaling.set_desired_capacity(AutoScalingGroupName="demo-fleet", DesiredCapacity=2)
    (other,) = started
    ssm, filters = running.client("ssm"), [{"Key": "PingStatus", "Values": ["Online"]}]
    online = ssm.describe_instance_information(Filters=filters)["InstanceInformationList"]
    assert {item["InstanceId"] for item in online} == {node.id, other.id}
    command = send(running, other, "sleep 60")
    wait(running, other, command, "InProgress")
    running.client("ec2").terminate_instances(InstanceIds=[other.id])
    time.sleep(0.05)
    assert wait(running, other, command, "InProgress")["ResponseCode"] == -1  # nobody is there to say how it ended
    assert other.id not in [item.id for item in running.nodes()]  # the group has started another one
    with pytest.raises(ClientError, match="InvalidInstanceId"):
        send(running, other, "true")
    running.advance(10_000)
    assert wait(running, other, command)["Status"] == "TimedOut"
    scaling.set_desired_capacity(AutoScalingGroupName="demo-fleet", DesiredCapacity=1)


def test_a_command_really_runs(running: Emulator, node: EmulatedNode) -> None:
    command = send(running, node, "echo $TS_ROOT", "echo no >&2", "exit 3")
    found = wait(running, node, command)
    assert (found["Status"], found["ResponseCode"]) == ("Failed", 3)
    assert (found["StandardOutputContent"], found["StandardErrorContent"]) == (f"{node.root}\n", "no\n")
    listed = running.client("ssm").list_command_invocations(CommandId=command, Details=True)["CommandInvocations"]
    assert [(item["InstanceId"], item["CommandPlugins"][0]["ResponseCode"]) for item in listed] == [(node.id, 3)]
    (sent,) = running.client("ssm").list_commands(CommandId=command)["Commands"]
    assert (sent["Status"], sent["ErrorCount"]) == ("Failed", 1)


def test_output_is_cut(running: Emulator, node: EmulatedNode) -> None:
    found = wait(running, node, send(running, node, "head -c 30000 /dev/zero | tr '\\0' x"))
    assert len(found["StandardOutputContent"]) == 24_000


def test_a_command_that_takes_too_long(running: Emulator, node: EmulatedNode) -> None:
    found = wait(running, node, send(running, node, "sleep 60", executionTimeout=["1"]))
    assert (found["Status"], found["StatusDetails"]) == ("TimedOut", "ExecutionTimedOut")


def test_commands_are_cancelled_and_killed(running: Emulator, node: EmulatedNode) -> None:
    first, second = send(running, node, "sleep 60"), send(running, node, "sleep 60")
    for command in (first, second):
        wait(running, node, command, "InProgress")
    running.client("ssm").cancel_command(CommandId=first)
    assert wait(running, node, first)["Status"] == "Cancelled"
    node.kill()
    found = wait(running, node, second)
    assert (found["Status"], found["ResponseCode"]) == ("Failed", 137)


def test_a_node_that_is_not_reached(running: Emulator, node: EmulatedNode) -> None:
    node.online = False
    try:
        command = send(running, node, "true")
        assert wait(running, node, command, "Pending")["ResponseCode"] == -1
        running.advance(61)
        assert wait(running, node, command)["StatusDetails"] == "DeliveryTimedOut"
    finally:
        node.online = True


def test_an_agent_is_installed(running: Emulator, node: EmulatedNode) -> None:
    node.install([sys.executable, "-c", "import sys; print(*sys.argv[1:])"], {"workload": "demo"})
    assert (node.root / "etc/training-storage/agent.json").read_text() == '{"workload": "demo"}'
    assert node.agent("list", "a b").stdout == "list a b\n"
    line = '"${TS_ROOT:-}/opt/training-storage/bin/agent" list'
    assert wait(running, node, send(running, node, line))["StandardOutputContent"] == "list\n"


def test_the_agent_does_not_see_the_emulator_and_sees_its_clock(running: Emulator, node: EmulatedNode) -> None:
    text = "import time\ntry:\n import training_storage\nexcept ImportError:\n print(time.time())"
    ahead = running.now() - time.time()
    seen = float(node.run([sys.executable, "-S", "-c", "import sitecustomize\n" + text]).stdout)
    assert seen == pytest.approx(time.time() + ahead, abs=20)


def test_reaching_aws_from_a_node(running: Emulator, node: EmulatedNode) -> None:
    running.client("s3").create_bucket(Bucket="seen-from-a-node")
    text = "import boto3; print(boto3.client('s3').list_buckets()['Buckets'][-1]['Name'])"
    assert "seen-from-a-node" in node.run([sys.executable, "-c", text]).stdout


def lfs(node: EmulatedNode, *words: str) -> tuple[int, str]:
    done = node.run(["lfs", *words], environment={"LC_ALL": "C"})
    return done.returncode, done.stdout.replace(str(node.root), "") + done.stderr.replace(str(node.root), "")


def test_lfs_restores_what_is_released(running: Emulator, node: EmulatedNode, ids: dict[str, str]) -> None:
    put(running, ids, "a b.tar", b"x" * 5000)
    put(running, ids, "old", b"cold", StorageClass="GLACIER")
    place, old = str(node.root / "fsx/datasets/a b.tar"), str(node.root / "fsx/datasets/old")
    state = "/fsx/datasets/a b.tar: (0x0000000d) released exists archived, archive_id:1\n"
    assert lfs(node, "hsm_state", place) == (0, state)
    assert lfs(node, "hsm_restore", place, old) == (0, "")
    assert lfs(node, "hsm_state", place) == (0, "/fsx/datasets/a b.tar: (0x00000009) exists archived, archive_id:1\n")
    assert (running.file_system(ids["Fs"]).path / "datasets/a b.tar").read_bytes() == b"x" * 5000
    assert "released" in lfs(node, "hsm_state", old)[1]  # as on Lustre: no word of why
    assert lfs(node, "hsm_action", place) == (0, "/fsx/datasets/a b.tar: NOOP\n")
    assert lfs(node, "hsm_release", place) == (0, "")
    assert lfs(node, "hsm_state", place) == (0, state)


def test_lfs_restores_no_more_than_fits(running: Emulator, node: EmulatedNode, ids: dict[str, str]) -> None:
    put(running, ids, "large", b"x" * 100_000)
    files = running.file_system(ids["Fs"])
    files.limit_space(files.used() + 50_000)
    assert lfs(node, "hsm_restore", str(node.root / "fsx/datasets/large")) == (0, "")
    assert "datasets/large" in files.released()
    files.limit_space(None)


def test_lfs_exports_one_file(running: Emulator, node: EmulatedNode, ids: dict[str, str]) -> None:
    place = running.file_system(ids["Fs"]).write("datasets/own", b"mine")
    assert lfs(node, "hsm_state", str(place))[1].endswith("own: (0x00000000)\n")
    assert lfs(node, "hsm_release", str(place))[0] == 1
    assert lfs(node, "hsm_archive", str(place)) == (0, "")
    assert running.client("s3").get_object(Bucket=ids["Bucket"], Key="datasets/own")["Body"].read() == b"mine"
    assert running.file_system(ids["Fs"]).hsm_state("datasets/own") == ["exists", "archived"]
    assert running.settle(ids["Fs"]) == []


def test_lfs_says_what_is_not_there(node: EmulatedNode) -> None:
    code, text = lfs(node, "hsm_state", str(node.root / "fsx/gone"))
    assert (code, text) == (2, "can't get hsm state for /fsx/gone: No such file or directory\n")
    assert lfs(node, "hsm_restore", str(node.root / "fsx/gone"))[0] == 2
    assert lfs(node, "setstripe")[0] == 22


def test_lfs_shows_space_and_finds(running: Emulator, node: EmulatedNode, ids: dict[str, str]) -> None:
    running.file_system(ids["Fs"]).write("scratch/x", b"1")
    lines = [line.split() for line in lfs(node, "df", str(node.root / "fsx"))[1].splitlines()]
    assert lines[2][0].endswith("-OST0000_UUID")
    assert int(lines[2][1]) == 4800 * 1024**2
    assert lfs(node, "find", str(node.root / "fsx/scratch"), "-type", "f") == (0, "/fsx/scratch/x\n")


def test_python_on_a_node_reads_released_files(running: Emulator, node: EmulatedNode, ids: dict[str, str]) -> None:
    put(running, ids, "lazy", b"behind")
    put(running, ids, "cold", b"behind", StorageClass="DEEP_ARCHIVE")
    read = "import sys; sys.stdout.write(open(sys.argv[1]).read())"
    assert node.run([sys.executable, "-c", read, f"{node.root}/fsx/datasets/lazy"]).stdout == "behind"
    done = node.run([sys.executable, "-c", read, f"{node.root}/fsx/datasets/cold"])
    assert "No data available" in done.stderr
