"""The guard in front of a file system: what lets it go, what keeps it, and what people are told."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.life.fake_aws import FakeAws
from tests.life.faults import KINDS, Fault, Faulty
from training_storage.node import places
from training_storage.node.functions.release_guard import index
from training_storage.node.release import guard, proof
from training_storage.node.release.proof import Proof

LAKE = "lake"
STACK = "arn:aws:cloudformation:us-east-1:111111111111:stack/small-hot/0a1b"
MINUTE, HOUR, DAY = 60, 3_600, 86_400


class World(FakeAws):
    """A file system that is a day old, its lake, its stack, and CloudFormation's mailbox."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.s3.make(LAKE)
        self.id = self.fsx.make(folder, [])
        self.state = "DELETE_IN_PROGRESS"
        self.answers: list[dict[str, Any]] = []
        self._clients["cloudformation"] = self
        self.sleep(DAY)

    def describe_stacks(self, *, StackName: str) -> dict[str, Any]:
        assert StackName == STACK
        return {"Stacks": [{"StackStatus": self.state}]}

    def written(self, count: float = 1e9) -> float:
        """Let clients write now; return when."""
        self.cloudwatch.record("DataWriteBytes", self.id, count)
        return self.now

    def proven(self, **given: Any) -> Proof:
        """Write a proof of now."""
        made = Proof(
            **{
                "kind": "proof",
                "workload": "small",
                "hot_tier_id": self.id,
                "written_at": self.now,
                "valid_from": self.now - 10 * MINUTE,
                "files": 1234,
                "bytes": 56_000_000_000,
                **given,
            }
        )
        proof.write(self, LAKE, replace(made, hot_tier_id=self.id))
        if made.hot_tier_id != self.id:
            self.put(places.proof_key(self.id), made.to_dict())
        return made

    def put(self, key: str, data: object) -> None:
        self.s3.put_object(Bucket=LAKE, Key=key, Body=data if isinstance(data, bytes) else json.dumps(data).encode())

    def decide(self, aws: Any = None) -> guard.Answer:
        return guard.decide(aws or self, guard.Asked(self.id, "small", LAKE), clock=self.clock, sleep=self.sleep)

    def request(self, kind: str, aws: Any = None, **given: Any) -> dict[str, Any]:
        """Send a request as CloudFormation does; return the answer that it gets."""
        event = {
            "RequestType": kind,
            "ResponseURL": "https://cloudformation-custom-resource-response.example.com/?signed",
            "StackId": STACK,
            "RequestId": "r-1",
            "LogicalResourceId": "Guard",
            "ResourceProperties": {"FileSystemId": self.id, "Workload": "small", "LakeBucket": LAKE},
            **({} if kind == "Create" else {"PhysicalResourceId": "Guard"}),
            **given,
        }
        index.handler(event, None, aws=aws or self, clock=self.clock, sleep=self.sleep)
        return self.answers[-1]


class Done:
    def __enter__(self) -> Done:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path)

    def urlopen(request: Any, timeout: float) -> Done:
        made.answers.append(json.loads(request.data))
        return Done()

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return made


# -- what lets it go


def test_a_proof_lets_go_what_was_not_written_to_since(world: World) -> None:
    world.written()
    world.sleep(HOUR)
    world.proven()
    world.sleep(20 * MINUTE)
    said = world.decide()
    assert said.may_go, said.reason
    assert "1,234 files (56 GB) were found in S3" in said.reason


def test_the_minutes_before_the_delete_are_waited_for(world: World) -> None:
    world.written()
    world.sleep(HOUR)
    world.proven()
    began = world.now
    assert world.decide().may_go
    # CloudWatch is two minutes late, and the minute of the delete has to be over.
    assert 2 * MINUTE <= world.now - began <= guard.WAIT_S + guard.LOOK_S


def test_a_write_after_the_proof_is_seen_although_its_datapoint_comes_late(world: World) -> None:
    world.written()
    world.sleep(HOUR)
    world.proven()
    world.sleep(MINUTE)
    world.written()
    said = world.decide()
    assert not said.may_go
    assert "it was written to until 2027-" in said.reason


@pytest.mark.parametrize("ago", [9 * MINUTE, MINUTE, 1])
def test_any_write_after_what_the_proof_holds_for_keeps_it(world: World, ago: float) -> None:
    world.sleep(HOUR)
    world.proven()
    world.sleep(10 * MINUTE - ago)
    world.written(1)
    world.sleep(ago)
    assert not world.decide().may_go


def test_what_no_client_ever_wrote_to_may_go(world: World) -> None:
    said = world.decide()
    assert (said.may_go, said.override) == (True, None)
    assert said.reason == f"{world.id} may go: no client ever wrote to it"


@pytest.mark.parametrize("silent", [True, False])
def test_a_file_system_that_was_just_made_may_go_before_cloudwatch_knows_it(world: World, silent: bool) -> None:
    world.id = world.fsx.make(world.fsx.systems[world.id]["directory"], [])
    world.cloudwatch.silent = silent
    world.sleep(5 * MINUTE)
    began = world.now
    assert world.decide().may_go
    assert world.now == began


def test_a_young_one_that_was_written_to_stays(world: World) -> None:
    world.id = world.fsx.make(world.fsx.systems[world.id]["directory"], [])
    world.sleep(5 * MINUTE)
    world.written(1)
    world.sleep(4 * MINUTE)
    assert not world.decide().may_go


@pytest.mark.parametrize(("state", "goes"), [("CREATING", True), ("FAILED", True), ("AVAILABLE", False)])
def test_without_datapoints_only_one_that_cannot_be_used_goes(world: World, state: str, goes: bool) -> None:
    world.cloudwatch.silent = True
    world.fsx.systems[world.id]["Lifecycle"] = state
    assert world.decide().may_go is goes


@pytest.mark.parametrize("state", ["gone", "DELETING"])
def test_what_is_gone_or_going_holds_nothing_up(world: World, state: str) -> None:
    world.written()
    if state == "gone":
        del world.fsx.systems[world.id]
    else:
        world.fsx.systems[world.id]["Lifecycle"] = state
    said = world.decide()
    assert (said.may_go, said.reason) == (True, f"{world.id} is gone already")


def test_an_override_of_the_last_hour_lets_it_go_and_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.written()
    world.proven(kind="override", by="arn:aws:iam::111111111111:user/lead", reason="a failed run, nothing to keep")
    world.sleep(59 * MINUTE)
    with caplog.at_level("WARNING"):
        answer = world.request("Delete")
    assert answer["Status"] == "SUCCESS"
    assert "user/lead asked for it: a failed run, nothing to keep" in answer["Reason"]
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    logged = json.loads(line.removeprefix("override: "))
    assert (logged["by"], logged["reason"]) == (
        "arn:aws:iam::111111111111:user/lead",
        "a failed run, nothing to keep",
    )


# -- what keeps it


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "override", "by": "me", "reason": "old", "written_at": -61 * MINUTE}, "counts for an hour"),
        ({"kind": "override", "by": "me", "reason": "early", "written_at": HOUR}, "yet to come"),
        ({"kind": "override", "by": "", "reason": "who?"}, "does not say who asked for it, and why"),
        ({"kind": "override", "by": "me", "reason": ""}, "does not say who asked for it, and why"),
        ({"kind": "wish"}, "is 'wish', and no proof"),
        ({"hot_tier_id": "fs-0000000000000000f"}, "speaks of fs-0000000000000000f of small"),
        ({"workload": "other"}, "of other"),
        ({"valid_from": HOUR}, "later than it can be"),
        ({"valid_from": 0, "written_at": -HOUR}, "later than it can be"),
    ],
)
def test_what_is_no_proof_of_it_keeps_it(world: World, given: dict[str, Any], said: str) -> None:
    world.written()
    world.sleep(HOUR)
    for key in {"written_at", "valid_from"} & set(given):
        given = given | {key: world.now + given[key]}
    world.proven(**given)
    answer = world.decide()
    assert not answer.may_go
    assert said in answer.reason


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b"{}", b'{"kind": "proof"}'])
def test_a_proof_that_cannot_be_read_keeps_it(world: World, body: bytes) -> None:
    world.put(places.proof_key(world.id), body)
    said = world.decide()
    assert not said.may_go
    assert "cannot be looked up" in said.reason


def test_without_datapoints_nothing_is_known_and_it_is_kept(world: World) -> None:
    world.cloudwatch.silent = True
    world.proven()
    began = world.now
    said = world.decide()
    assert not said.may_go
    assert "CloudWatch does not know yet whether clients wrote to it" in said.reason
    assert world.now - began <= guard.WAIT_S + guard.LOOK_S


def known_from(world: World, monkeypatch: pytest.MonkeyPatch, since: float) -> None:
    """Let CloudWatch know nothing of what was before a moment."""
    whole = world.cloudwatch.get_metric_data

    def later(**given: Any) -> dict[str, Any]:
        found = whole(**given)
        for each in found["MetricDataResults"]:
            kept = [
                (at, value)
                for at, value in zip(each["Timestamps"], each["Values"], strict=True)
                if at.timestamp() >= since
            ]
            each["Timestamps"], each["Values"] = [at for at, _ in kept], [value for _, value in kept]
        return found

    monkeypatch.setattr(world.cloudwatch, "get_metric_data", later)


def test_a_gap_after_the_proof_is_not_taken_for_quiet(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.proven(valid_from=world.now - 3 * HOUR)
    known_from(world, monkeypatch, world.now - HOUR)
    said = world.decide()
    assert not said.may_go
    assert "CloudWatch does not know whether clients wrote to it after its proof" in said.reason


def test_a_gap_after_the_creation_is_not_taken_for_quiet(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.sleep(2 * DAY)
    known_from(world, monkeypatch, world.now - DAY)
    said = world.decide()
    assert not said.may_go
    assert "CloudWatch does not know whether clients wrote to it in its first hours" in said.reason


def test_of_what_is_older_than_cloudwatch_knows_only_a_proof_speaks(world: World) -> None:
    world.sleep(460 * DAY)
    said = world.decide()
    assert not said.may_go
    assert "CloudWatch knows the last 455 days only" in said.reason
    world.proven()
    assert world.decide().may_go


@pytest.mark.parametrize("kind", [each for each in KINDS if not each.startswith("killed")])
def test_no_fault_lets_an_unproven_file_system_go(world: World, kind: str) -> None:
    world.written()
    calls = Faulty(world, None)
    world.decide(calls)
    for number in range(len(calls.calls)):
        faulty = Faulty(world, Fault(number, kind))
        said = world.decide(faulty)
        assert not said.may_go, faulty.hit
        assert len(said.reason) < 1000


@pytest.mark.parametrize("what", ["proof", "nothing written", "override"])
def test_a_fault_keeps_what_could_go_and_the_next_delete_takes_it(world: World, what: str) -> None:
    if what != "nothing written":
        world.written()
    world.sleep(HOUR)
    if what == "proof":
        world.proven()
    if what == "override":
        world.proven(kind="override", by="me", reason="done with it")
    world.sleep(10 * MINUTE)
    calls = Faulty(world, None)
    world.decide(calls)
    assert "fsx.describe_file_systems" in calls.calls
    for number in range(len(calls.calls)):
        faulty = Faulty(world, Fault(number, "denied"))
        said = world.decide(faulty)
        assert not said.may_go, faulty.hit
        assert "AccessDenied" in said.reason
        assert world.decide().may_go


# -- what people are told


def status(world: World, unsaved: list[str], size: int = 912 * 2**30) -> None:
    paths = [f"run1/step-{number}00" for number in range(1, 10)]
    world.put(
        places.status_key(world.id),
        {
            "workload": "small",
            "hot_tier_id": world.id,
            "written_at": world.now - HOUR,
            "checkpoints": [{"path": path, "size": size} for path in paths],
            "unsaved": unsaved,
        },
    )


def test_the_reason_names_file_system_last_write_checkpoints_and_the_command(world: World) -> None:
    when = world.written()
    world.sleep(HOUR)
    status(world, ["run1/step-300", "run1/step-600"])
    reason = world.decide().reason
    assert world.id in reason
    assert f"last written to at {guard._moment(when - when % 60 + 60)}" in reason
    assert "checkpoints run1/step-300 (979 GB), run1/step-600 (979 GB), as seen at" in reason
    assert "`training-storage release small`" in reason


@pytest.mark.parametrize("count", [3, 4, 5000])
def test_a_long_list_is_cut_and_counted(world: World, count: int) -> None:
    world.written()
    status(world, [f"a-rather-long-name-of-a-run/step-{number:09d}" for number in range(count)])
    reason = world.decide().reason
    assert len(reason) < 1000
    assert ("more" in reason) == (count > 3)
    if count > 3:
        assert f"and {count - 3:,} more" in reason


def test_the_survey_of_a_release_names_changed_files(world: World) -> None:
    world.written()
    world.put(
        places.survey_key(world.id),
        {
            "ended": world.now,
            "classes": {"keep": {"files": 12, "bytes": 5_000_000}, "changed-data": {"files": 1500, "bytes": 2e12}},
        },
    )
    reason = world.decide().reason
    assert "12 files to be kept (5 MB) and 1,500 changed files of data sets (2 TB) when last surveyed" in reason


def test_without_a_status_it_is_said_that_nobody_knows(world: World) -> None:
    world.written()
    assert world.decide().reason.endswith("unknown: no agent and no release has looked at its files yet")


@pytest.mark.parametrize("body", [b"no JSON", b"[]", b'{"unsaved": 5}', b'{"unsaved": ["a"]}'])
def test_a_status_that_cannot_be_read_keeps_the_rest_of_the_reason(world: World, body: bytes) -> None:
    world.written()
    world.put(places.status_key(world.id), body)
    reason = world.decide().reason
    assert "Not in S3: unknown: " in reason
    assert "training-storage release small" in reason


# -- what CloudFormation asks


@pytest.mark.parametrize("state", ["DELETE_IN_PROGRESS", "ROLLBACK_IN_PROGRESS"])
def test_a_delete_fails_while_the_file_system_would_go_with_the_stack(world: World, state: str) -> None:
    world.written()
    world.state = state
    answer = world.request("Delete")
    assert answer["Status"] == "FAILED"
    assert answer["PhysicalResourceId"] == "Guard"
    assert "is kept: it was last written to at" in answer["Reason"]


@pytest.mark.parametrize(
    "state", ["UPDATE_COMPLETE_CLEANUP_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS"]
)
def test_a_guard_that_an_update_takes_out_goes(world: World, state: str) -> None:
    world.written()
    world.state = state
    answer = world.request("Delete")
    assert (answer["Status"], state in answer["Reason"]) == ("SUCCESS", True)


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_a_guard_that_can_look_is_made(world: World, kind: str) -> None:
    world.written()
    world.state = "CREATE_IN_PROGRESS"
    assert world.request(kind) == {
        "Status": "SUCCESS",
        "Reason": f"{world.id} is guarded",
        "PhysicalResourceId": "Guard",
        "StackId": STACK,
        "RequestId": "r-1",
        "LogicalResourceId": "Guard",
    }


@pytest.mark.parametrize("state", ["UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"])
@pytest.mark.parametrize(("after", "asks"), [("", True), ("Other", True), ("System", False)])
def test_an_update_that_would_delete_the_file_system_fails_first(
    world: World, after: str, asks: bool, state: str
) -> None:
    world.written()
    world.state = state
    there = {"FileSystemId": world.id, "LogicalId": "System", "Workload": "small", "LakeBucket": LAKE}
    # Under its own logical id it is replaced, and CloudFormation keeps what it replaces.
    new = world.fsx.make(world.fsx.systems[world.id]["directory"], []) if after else ""
    given = {
        "OldResourceProperties": there,
        "ResourceProperties": there | {"FileSystemId": new, "LogicalId": after},
    }
    answer = world.request("Update", **given)
    assert answer["Status"] == ("FAILED" if asks else "SUCCESS")
    if asks:
        assert f"{world.id} is kept: it was last written to at" in answer["Reason"]
        world.sleep(20 * MINUTE)
        world.proven()
        assert world.request("Update", **given)["Status"] == "SUCCESS"


def test_a_guard_without_a_file_system_stands_in_nobodys_way(world: World) -> None:
    nothing = {"FileSystemId": "", "LogicalId": "", "Workload": "small", "LakeBucket": LAKE}
    for kind in ("Create", "Update", "Delete"):
        answer = world.request(kind, ResourceProperties=nothing, OldResourceProperties=nothing)
        assert (answer["Status"], answer["Reason"]) == ("SUCCESS", "there is no file system to guard")


class Denied:
    """An ``Aws`` that one service is closed in, until some moment."""

    def __init__(self, world: World, service: str, until: float = float("inf")) -> None:
        self.world, self.service, self.until = world, service, until

    def __call__(self, service: str) -> Any:
        closed = service == self.service and self.world.now < self.until
        return Faulty(self.world, Fault(0, "denied"))(service) if closed else self.world(service)


@pytest.mark.parametrize("service", ["s3", "cloudwatch", "fsx", "cloudformation"])
def test_a_guard_that_could_never_look_is_not_made_and_holds_no_rollback_up(world: World, service: str) -> None:
    world.state = "CREATE_IN_PROGRESS"
    answer = world.request("Create", Denied(world, service))
    assert answer["Status"] == "FAILED"
    assert "AccessDenied" in answer["Reason"]
    made = answer["PhysicalResourceId"]
    world.state = "ROLLBACK_IN_PROGRESS"
    aws = world if service == "cloudformation" else Denied(world, service)
    assert world.request("Delete", aws, PhysicalResourceId=made)["Status"] == "SUCCESS"
    # Where the rollback was switched off, the file system may have been used since.
    world.written()
    world.state = "DELETE_IN_PROGRESS"
    assert world.request("Delete", PhysicalResourceId=made)["Status"] == "FAILED"


def test_rights_that_come_late_are_waited_for(world: World) -> None:
    world.state = "CREATE_IN_PROGRESS"
    assert world.request("Create", Denied(world, "cloudwatch", until=world.now + 40))["Status"] == "SUCCESS"


def test_an_update_that_is_taken_back_is_not_held_up(world: World) -> None:
    world.state = "UPDATE_ROLLBACK_IN_PROGRESS"
    assert world.request("Update", Denied(world, "s3"))["Status"] == "SUCCESS"
    world.state = "UPDATE_IN_PROGRESS"
    assert world.request("Update", Denied(world, "s3"))["Status"] == "FAILED"


@pytest.mark.parametrize("given", [{"ResourceProperties": {}}, {"RequestType": "Delete", "ResourceProperties": None}])
def test_an_odd_request_is_answered_too(world: World, given: dict[str, Any]) -> None:
    answer = world.request("Delete", **given)
    assert answer["Status"] == "FAILED"
    assert "nothing is deleted" in answer["Reason"]


def test_a_mailbox_that_is_away_for_a_moment_gets_its_answer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    there, away = urllib.request.urlopen, [OSError("no route"), OSError("no route")]

    def urlopen(request: Any, timeout: float) -> Any:
        if away:
            raise away.pop()
        return there(request, timeout=timeout)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    assert world.request("Delete")["Status"] == "SUCCESS"
