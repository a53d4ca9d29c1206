"""The definition of the release machine, run by the emulator's interpreter around a function of a few lines."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from training_storage.emulator import Emulator
from training_storage.lifecycle._release_definition import definition
from training_storage.node.release.steps import EMPTYING, LAST_OF, STEPS

ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}
STUB = """
import json
def handler(event, context):
    state, step = dict(event["state"]), event["step"]
    state["seen"] = state.get("seen", []) + [step]
    state.update(step=step, status="next", wait=0)
    told = state["tell"].get(step)
    if told == "again" and state["seen"].count(step) < 3:
        state["status"] = "again"
    elif told == "refused":
        state.update(status="refused", refused="no", blocking=["a"])
    elif told == "quiet":
        state.update(status="refused", refused="not idle", blocking=[], quiet=True)
    elif told == "done":
        state["status"] = "done"
    elif told == "odd":
        state["status"] = "what?"
    return state
"""


def machine(aws: Emulator) -> str:
    made = aws.deploy(
        {
            "Resources": {
                "Role": ROLE,
                "Function": {
                    "Type": "AWS::Lambda::Function",
                    "Properties": {
                        "Code": {"ZipFile": STUB},
                        "Handler": "index.handler",
                        "Runtime": "python3.14",
                        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
                    },
                },
                "Machine": {
                    "Type": "AWS::StepFunctions::StateMachine",
                    "Properties": {
                        "DefinitionString": {"Fn::Sub": definition("${Function.Arn}", "${AWS::Partition}")},
                        "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                    },
                },
            }
        },
        "release",
    )
    return made.physical_ids["Machine"]


def ends(aws: Emulator, arn: str, cases: dict[str, tuple[str, dict[str, str]]]) -> dict[str, dict[str, Any]]:
    """Run an execution for each case, all at once: its action, and what steps answer other than ``next``."""
    machines = aws.client("stepfunctions")
    running = {
        name: machines.start_execution(
            stateMachineArn=arn, name=name, input=json.dumps({"action": action, "tell": tell})
        )["executionArn"]
        for name, (action, tell) in cases.items()
    }
    found: dict[str, dict[str, Any]] = {}
    for _ in range(2400):
        for name in running.keys() - found.keys():
            look = machines.describe_execution(executionArn=running[name])
            if look["status"] != "RUNNING":
                found[name] = dict(look)
        if len(found) == len(running):
            return found
        time.sleep(0.05)
    raise AssertionError("an execution has not ended")


def steps(found: dict[str, Any]) -> list[str]:
    return list(json.loads(found["output"])["seen"])


@pytest.mark.slow
def test_each_way_through_the_steps_ends_where_it_says(aws_emulator: Emulator) -> None:
    found = ends(
        aws_emulator,
        machine(aws_emulator),
        {
            "whole": ("release", {"export": "again", "delete-hot": "done"}),
            "proof": ("prove", {}),
            "look": ("check", {}),
            "no": ("release", {"survey": "refused"}),
            "busy": ("release", {"preconditions": "quiet"}),
            "odd": ("release", {"node": "odd"}),
        },
    )
    states = [each for each in STEPS if each != EMPTYING]
    assert steps(found["whole"]) == [each for each in states for _ in range(3 if each == "export" else 1)]
    assert steps(found["proof"])[-1] == LAST_OF["prove"]
    assert steps(found["look"])[-1] == LAST_OF["check"]
    assert (found["no"]["status"], found["no"]["error"]) == ("FAILED", "Refused")
    assert json.loads(found["no"]["cause"])["blocking"] == ["a"]
    assert (found["busy"]["status"], steps(found["busy"])) == ("SUCCEEDED", ["preconditions"])
    # What is not understood deletes nothing.
    assert found["odd"]["status"] == "FAILED"
