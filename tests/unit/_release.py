"""A deployed run whose release machine ends as a test says, for tests of the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from tests.life.fake_aws import FakeAws
from training_storage.operations.release import Release, release
from training_storage.operations.release_abandon import abandon
from training_storage.operations.release_execution import Look

MACHINE = "arn:aws:states:us-east-1:111111111111:stateMachine:run-release"
PROOF = {"kind": "proof", "workload": "run", "hot_tier_id": "fs-1", "valid_from": 5.0, "files": 3, "bytes": 30}
PROVEN = {"status": "done", "step": "storage-node-off", "proof": PROOF}
RELEASED = {"status": "done", "step": "delete-hot", "proof": PROOF, "message": "run is released"}


class StepFunctions:
    """State machines whose executions end, after one look, as a test says for their action."""

    def __init__(self, ends: dict[str, Any]) -> None:
        self.ends = ends
        self.executions: list[dict[str, Any]] = []
        self.started: list[dict[str, Any]] = []
        self.hidden = 0
        """Listings that do not show the newest execution yet."""

    def put(self, given: dict[str, Any], name: str = "x") -> str:
        arn = f"{MACHINE.replace('stateMachine', 'execution')}:{name}-{len(self.executions)}"
        self.executions.insert(0, {"executionArn": arn, "status": "RUNNING", "input": json.dumps(given), "name": name})
        return arn

    def list_executions(self, *, stateMachineArn: str, statusFilter: str = "", **_: Any) -> dict[str, Any]:
        assert stateMachineArn == MACHINE
        seen = self.executions[1:] if self.hidden else self.executions
        self.hidden = max(0, self.hidden - 1)
        return {"executions": [each for each in seen if statusFilter in ("", each["status"])]}

    def start_execution(self, *, name: str, input: str, **_: Any) -> dict[str, Any]:
        if any(each["name"] == name for each in self.executions):
            raise ClientError({"Error": {"Code": "ExecutionAlreadyExists", "Message": name}}, "StartExecution")
        self.started.append(json.loads(input))
        return {"executionArn": self.put(json.loads(input), name)}

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:
        (found,) = [each for each in self.executions if each["executionArn"] == executionArn]
        shown = dict(found)
        if found["status"] == "RUNNING" and found.get("looked"):
            end = self.ends[json.loads(found["input"])["action"]]
            if callable(end):
                end = end()
            if end.get("error"):
                found.update(status="FAILED", error=end["error"], cause=end["cause"])
            elif end["status"] == "refused" and not end.get("quiet"):
                found.update(status="FAILED", error="Refused", cause=json.dumps(end))
            else:
                found.update(status="SUCCEEDED", output=json.dumps(end))
            shown = dict(found)
        found["looked"] = True
        return shown

    def get_execution_history(self, **_: Any) -> dict[str, Any]:
        waits = {"name": "export: wait", "input": json.dumps({"waiting_for": "task-1 has done 4 of 10 files"})}
        return {"events": [{"type": "TaskScheduled"}, {"type": "WaitStateEntered", "stateEnteredEventDetails": waits}]}


class World:
    """A deployed run in front of a lake."""

    def __init__(self, **ends: Any) -> None:
        self.fake = FakeAws()
        self.machine = StepFunctions({"check": RELEASED, "prove": PROVEN, "release": RELEASED, **ends})
        self.fake.s3.make("lake")
        stacks = self.fake("cloudformation")
        stacks.make("run-lake", {"DataLakeBucketName": "lake", "ReleaseStateMachineArn": MACHINE})
        stacks.make("run-hot", {"FileSystemId": "fs-1"})
        stacks.make("run-compute")
        stacks.make("run-monitoring")
        self.asked: list[Any] = []
        self.looks: list[Look] = []
        self.begun: list[tuple[str, bool]] = []

    def __call__(self, service: str) -> Any:
        return self.machine if service == "stepfunctions" else self.fake(service)

    def confirm(self, answer: bool) -> Callable[[Any], bool]:
        def ask(about: Any) -> bool:
            self.asked.append(about)
            return answer

        return ask

    def release(self, *, yes: bool = True, **options: Any) -> Release:
        return release(
            self, "run", "us-east-1", confirm=self.confirm(yes), on_look=self.looks.append,
            on_start=lambda action, joined: self.begun.append((action, joined)), sleep=lambda _: None, **options,
        )  # fmt: skip

    def abandon(self, *, yes: bool = True, **options: Any) -> Release:
        return abandon(
            self, "run", "us-east-1", reason="the run was a test", confirm=self.confirm(yes),
            clock=lambda: 1000.0, sleep=lambda _: None, **options,
        )  # fmt: skip
