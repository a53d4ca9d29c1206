"""``training-storage status``: what is said of each part, also where a part is broken, denied or not there."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from tests.diagnosis.world import World
from tests.life.fake_aws import START, FakeAws
from training_storage.cli import main
from training_storage.cli.render_status import as_text
from training_storage.errors import AwsError, RefusedError
from training_storage.node import places
from training_storage.node.release.proof import Proof
from training_storage.operations import aws as operations_aws
from training_storage.operations.diagnosis.diagnose import diagnose
from training_storage.operations.status import status
from training_storage.operations.status_model import Status

ROOT = Path(__file__).resolve().parents[2]
NAME = "llama"
TAGS = {"training-storage:workload": NAME}
GIB = 1 << 30


class Denying:
    """A client that refuses some of its calls."""

    def __init__(self, client: Any, refused: dict[str, str]) -> None:
        self._client, self._refused = client, refused

    def __getattr__(self, name: str) -> Any:
        code = self._refused.get(name) or self._refused.get("*")
        if code is None:
            return getattr(self._client, name)

        def call(*_given: Any, **_named: Any) -> Any:
            raise ClientError({"Error": {"Code": code, "Message": "no"}}, name)

        return call


class Cloud(FakeAws):
    """A run that goes well, until a test changes it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.refused: dict[str, dict[str, str]] = {}
        self.machines.get_parameter = self._parameter  # type: ignore[attr-defined]  # the fake has none
        self.system = self.fsx.make(folder, [("/datasets", "lake", "datasets/", False)])
        self.s3.make("lake")
        hot = {"FileSystemId": self.system}
        guard = [
            {"ResourceType": "Custom::ReleaseGuard", "LogicalResourceId": "Guard", "PhysicalResourceId": "g",
             "ResourceStatus": "CREATE_COMPLETE"}
        ]  # fmt: skip
        self.cloudformation.make(f"{NAME}-lake", {"DataLakeBucketName": "lake"})
        self.cloudformation.make(f"{NAME}-hot", hot, guard)
        self.cloudformation.make(f"{NAME}-compute", {})
        self.cloudformation.make(f"{NAME}-monitoring", {})
        for _ in range(6):
            self.machines.start(TAGS)
        self.now += 7200
        self.measure("FreeDataStorageCapacity", 500.0 * GIB)
        self.measure("AgeOfOldestQueuedMessage", 30.0, Publisher="AutoExport")
        self.agent(unsaved=[], errors=[])
        self.now += 300

    def measure(self, name: str, value: float, **dimensions: str) -> None:
        self.cloudwatch.record(name, self.system, value, **dimensions)

    def agent(self, *, unsaved: list[str], errors: list[str]) -> None:
        checkpoint = {
            "path": "run1/step-300", "complete": True, "promoted": not unsaved, "size": 9 * GIB,
            "modified_ns": int((self.now - 600) * 1e9),
        }  # fmt: skip
        body = {
            "workload": NAME, "written_at": self.now, "node": "i-1", "checkpoints": [checkpoint], "unsaved": unsaved,
            "errors": errors,
        }  # fmt: skip
        self.s3.put_object(Bucket="lake", Key=places.status_key(self.system), Body=json.dumps(body).encode())

    def _parameter(self, *, Name: str) -> dict[str, Any]:
        assert Name == f"/training-storage/{NAME}/expected"
        told = {key: value for key, value in World().expected().to_dict().items() if value is not None}
        return {"Parameter": {"Value": json.dumps(told)}}

    def __call__(self, service: str) -> Any:
        client = super().__call__(service)
        return Denying(client, self.refused[service]) if service in self.refused else client

    def status(self) -> Status:
        return status(self, NAME, "us-east-1", clock=self.clock)


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return Cloud(tmp_path)


def test_all_is_well(cloud: Cloud) -> None:
    found = cloud.status()
    assert {each.name: each.state for each in found.parts if each.name != "nodes"} == {
        "stacks": "ok", "file system": "ok", "links": "ok", "tasks": "ok", "queue": "ok", "checkpoints": "ok",
        "release": "ok", "cost": "ok",
    }  # fmt: skip
    assert not found.is_broken
    assert found.part("stacks").text == "lake, hot, compute, monitoring"
    system = found.part("file system")
    assert system.data["free_bytes"] == 500.0 * GIB
    assert "1,200 GiB" in system.text
    assert "41.7 %" in system.text
    assert found.part("nodes").text.startswith("6 of 6 nodes running, 6 online")
    assert found.part("nodes").state == "ok"
    assert "no collector has reported" in found.part("nodes").lines[0]
    assert found.part("checkpoints").text == "1 complete, 1 in the lake, 0 not yet"
    assert found.part("release").text.startswith("guarded; not proven")
    hours = (7200 + 300) / 3600
    usd = found.part("cost").data["usd"]
    assert usd == {"storage": pytest.approx(12.0 * hours), "gpus": pytest.approx(330.0 * hours)}


@pytest.mark.parametrize("state", ["ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_FAILED", "CREATE_FAILED", "DELETE_FAILED"])
def test_a_stack_that_was_rolled_back_is_broken(cloud: Cloud, state: str) -> None:
    cloud.cloudformation.stacks[f"{NAME}-hot"]["StackStatus"] = state
    found = cloud.status()
    assert found.is_broken
    assert f"{NAME}-hot is {state}" in found.part("stacks").lines


def test_a_link_that_does_not_work_is_broken(cloud: Cloud) -> None:
    cloud.fsx.links[0] |= {"Lifecycle": "MISCONFIGURED", "FailureDetails": {"Message": "access denied"}}
    found = cloud.status()
    assert found.is_broken
    assert "MISCONFIGURED" in found.part("links").lines[0]
    assert "access denied" in found.part("links").lines[0]


def test_little_room_an_old_queue_and_missing_nodes_want_a_look(cloud: Cloud) -> None:
    cloud.measure("FreeDataStorageCapacity", 60.0 * GIB)
    cloud.measure("AgeOfOldestQueuedMessage", 9000.0, Publisher="AutoExport")
    cloud.now += 300
    cloud.machines.stop(sorted(cloud.machines.instances)[0])
    found = cloud.status()
    assert {name: found.part(name).state for name in ("file system", "queue", "nodes")} == {
        "file system": "attention", "queue": "attention", "nodes": "attention",
    }  # fmt: skip
    assert "2.5 h" in found.part("queue").text
    assert not found.is_broken


def test_tasks_that_go_on_come_first(cloud: Cloud) -> None:
    cloud.fsx.create_data_repository_task(
        FileSystemId=cloud.system, Type="IMPORT_METADATA_FROM_REPOSITORY", Paths=["datasets"], Report={"Enabled": False}
    )
    found = cloud.status().part("tasks")
    assert found.text == "1 pending or executing"
    assert "IMPORT_METADATA_FROM_REPOSITORY PENDING" in found.lines[0]


def test_checkpoints_that_are_not_in_the_lake_are_named(cloud: Cloud) -> None:
    cloud.agent(unsaved=["run1/step-300"], errors=["cannot write"])
    found = cloud.status().part("checkpoints")
    assert found.state == "attention"
    assert {"not in the lake yet: run1/step-300", "error: cannot write"} <= set(found.lines)


def test_a_proof_is_shown(cloud: Cloud) -> None:
    proof = Proof("proof", NAME, cloud.system, written_at=START, valid_from=START, files=3, bytes=10**9)
    cloud.s3.put_object(Bucket="lake", Key=places.proof_key(cloud.system), Body=json.dumps(proof.to_dict()).encode())
    assert "proven: 3 files, 1 GB" in cloud.status().part("release").text


@pytest.mark.parametrize(
    ("service", "call", "part", "says"),
    [
        ("fsx", "describe_file_systems", "file system", "fsx:DescribeFileSystems"),
        ("fsx", "describe_data_repository_associations", "links", "fsx:DescribeDataRepositoryAssociations"),
        ("fsx", "describe_data_repository_tasks", "tasks", "fsx:DescribeDataRepositoryTasks"),
        ("cloudwatch", "get_metric_data", "queue", "cloudwatch:GetMetricData"),
        ("ec2", "describe_instances", "nodes", "ec2:DescribeInstances"),
        ("s3", "get_paginator", "checkpoints", "s3:GetObject"),
        ("s3", "get_object", "release", "s3:GetObject"),
        ("ssm", "get_parameter", "cost", "ssm:GetParameter"),
    ],
)
@pytest.mark.parametrize("code", ["AccessDeniedException", "ThrottlingException"])
def test_what_is_denied_or_throttled_is_not_known(
    cloud: Cloud, service: str, call: str, part: str, says: str, code: str
) -> None:
    cloud.refused = {service: {call: code}}
    found = cloud.status()
    assert found.part(part).state == "unknown"
    assert says in found.part(part).text
    assert ("throttles" in found.part(part).text) == (code == "ThrottlingException")
    assert found.part("stacks").state == "ok"
    assert not found.is_broken


def test_nothing_but_refusals_is_not_known_and_no_traceback(cloud: Cloud) -> None:
    names = ("cloudformation", "cloudwatch", "fsx", "s3", "ssm", "ec2")
    cloud.refused = {service: {"*": "AccessDenied"} for service in names}
    found = cloud.status()
    assert {each.name for each in found.parts if each.state != "unknown"} == set()
    assert not found.is_broken


def test_without_stacks_there_is_nothing_to_show(cloud: Cloud) -> None:
    with pytest.raises(RefusedError, match="no stack of a workload 'other'"):
        status(cloud, "other", "us-east-1", clock=cloud.clock)


def test_whom_aws_does_not_know_learns_that_at_once(cloud: Cloud) -> None:
    cloud.refused = {"cloudformation": {"*": "ExpiredToken"}}
    with pytest.raises(AwsError, match="sign in again"):
        cloud.status()


class _Session:
    region_name = "us-east-1"


@pytest.fixture
def command(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    monkeypatch.setattr(operations_aws, "make_session", lambda *_given: _Session())
    monkeypatch.setattr(operations_aws, "clients", lambda _session: cloud)
    return cloud


def test_the_command_shows_it(command: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", NAME]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{NAME}, as seen at ")
    assert any(line.startswith("  file system  ok") for line in lines)
    command.fsx.links[0]["Lifecycle"] = "MISCONFIGURED"
    assert main(["status", NAME, "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["broken"] is True
    assert told["links"]["links"][0]["lifecycle"] == "MISCONFIGURED"
    assert told["cost"]["usd_per_hour"] == {"storage": 12.0, "gpus": 330.0}


def test_without_credentials_it_says_so(
    command: Cloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nobody(**_given: Any) -> Any:
        raise NoCredentialsError

    monkeypatch.setattr(command.cloudformation, "describe_stacks", nobody)
    assert main(["status", NAME]) == 3
    assert "no AWS credentials found" in capsys.readouterr().err


def test_a_file_system_that_is_gone_is_broken(cloud: Cloud) -> None:
    cloud.refused = {"fsx": {"describe_file_systems": "FileSystemNotFound"}}
    found = cloud.status()
    assert found.is_broken
    assert "is gone" in found.part("file system").text


def test_after_a_release_there_is_nothing_to_prove(cloud: Cloud) -> None:
    for part in ("hot", "compute", "monitoring"):
        del cloud.cloudformation.stacks[f"{NAME}-{part}"]
    found = cloud.status()
    assert not found.is_broken
    assert found.part("release").text == found.part("cost").text == "no run is deployed"


def test_without_a_link_that_carries_changes_there_is_no_queue(cloud: Cloud) -> None:
    cloud.now += 9000  # the last figure is older than an hour
    assert cloud.status().part("queue").state == "none"
    cloud.fsx.links[0]["S3"] = {"AutoExportPolicy": {"Events": ["NEW"]}}
    assert cloud.status().part("queue").state == "unknown"


def test_messages_of_aws_stay_on_their_line(cloud: Cloud) -> None:
    cloud.fsx.links[0] |= {
        "Lifecycle": "MISCONFIGURED", "FailureDetails": {"Message": "denied\n  BROKEN\x1b[31m [red]now[/red]"},
    }  # fmt: skip
    text = as_text(cloud.status())
    assert "denied BROKEN[31m [red]now[/red]" in text
    assert "\x1b" not in text
    assert len(text.splitlines()) == 1 + sum(1 + len(each.lines) for each in cloud.status().parts)


def test_the_page_names_every_field_of_both_answers(cloud: Cloud) -> None:
    page = (ROOT / "docs" / "diagnosis.md").read_text(encoding="utf-8")
    answer = diagnose(replace(World(), cpu_limit=300.0, notified=False).observation()).to_dict()
    finding = answer["finding"]
    for part, fields in (("answer", answer), ("finding", finding), ("evidence", finding["evidence"][0])):
        (row,) = re.findall(rf"^\| {part} \| (.*?) \|", page, re.MULTILINE)
        assert re.findall(r"`(\w+)`", row) == list(fields)
    whole = cloud.status().to_dict()
    (row,) = re.findall(r"^\| status \| (.*?) \|", page, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == list(whole)
    for name, part in whole.items():
        if isinstance(part, dict):
            assert list(part)[:3] == ["state", "text", "lines"], name


def test_the_minute_that_goes_on_is_not_looked_at(cloud: Cloud) -> None:
    """Its sum has some of the targets alone, and a file system that has room would be full."""
    cloud.cloudwatch.lag = 0.0
    cloud.now = cloud.now // 60 * 60 + 30
    cloud.measure("FreeDataStorageCapacity", 1.0 * GIB)
    cloud.now += 10
    assert cloud.status().part("file system").data["free_bytes"] == 500.0 * GIB
