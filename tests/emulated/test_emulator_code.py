"""Code that really runs in the emulator: Lambda handlers, custom resources, state machines."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.emulated.emulator_templates import changed, hot
from training_storage.emulator import Emulator, StackFailedError

ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}


def function(code: str, **properties: Any) -> dict[str, Any]:
    return {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "Code": {"ZipFile": code},
            "Handler": "index.handler",
            "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Timeout": 30,
            **properties,
        },
    }


def with_function(code: str, **properties: Any) -> dict[str, Any]:
    return {"Resources": {"Role": ROLE, "Function": function(code, **properties)}}


def invoke(aws: Emulator, name: str, event: Any = None) -> tuple[Any, str | None]:
    answer = aws.client("lambda").invoke(FunctionName=name, Payload=json.dumps(event).encode())
    return json.loads(answer["Payload"].read()), answer.get("FunctionError")


COUNT = """
import os
import boto3

def handler(event, context):
    print("counting")
    systems = boto3.client("fsx").describe_file_systems()["FileSystems"]
    return {"ids": [item["FileSystemId"] for item in systems], "wanted": os.environ["WANTED"], "event": event,
            "name": context.function_name, "left": context.get_remaining_time_in_millis() > 0}
"""


def test_a_handler_sees_the_emulated_services(aws_emulator: Emulator) -> None:
    template = hot()
    template["Resources"] |= with_function(COUNT, Environment={"Variables": {"WANTED": {"Ref": "Fs"}}})["Resources"]
    ids = aws_emulator.deploy(template, "code").physical_ids
    answer, failed = invoke(aws_emulator, ids["Function"], {"a": 1})
    assert failed is None
    assert answer == {"ids": [ids["Fs"]], "wanted": ids["Fs"], "event": {"a": 1}, "name": ids["Function"], "left": True}
    events = aws_emulator.client("logs").filter_log_events(logGroupName=f"/aws/lambda/{ids['Function']}")["events"]
    assert any("counting" in event["message"] for event in events)


def test_a_handler_that_raises(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(
        with_function("def handler(event, context):\n    raise ValueError('no')\n"), "code"
    ).physical_ids
    answer, failed = invoke(aws_emulator, ids["Function"])
    assert failed
    assert (answer["errorType"], answer["errorMessage"]) == ("ValueError", "no")


def test_a_handler_that_takes_too_long(aws_emulator: Emulator) -> None:
    template = with_function("import time\ndef handler(event, context):\n    time.sleep(60)\n", Timeout=1)
    answer, failed = invoke(aws_emulator, aws_emulator.deploy(template, "code").physical_ids["Function"])
    assert failed
    assert answer["errorMessage"] == "Task timed out after 1.00 seconds"


STATE = """
import os
import time

seen = []

def handler(event, context, clock=time.time):
    if event == {"end": 3}:
        os._exit(3)
    seen.append(event)
    print("saw", event)
    return {"process": os.getpid(), "seen": seen, "time": clock(), "request": context.aws_request_id}
"""


def test_a_handler_is_kept_for_the_next_event_until_it_ends(aws_emulator: Emulator) -> None:
    name = aws_emulator.deploy(with_function(STATE), "code").physical_ids["Function"]
    first, _ = invoke(aws_emulator, name, 1)
    aws_emulator.advance(3600)
    second, _ = invoke(aws_emulator, name, 2)
    assert (second["process"], second["seen"]) == (first["process"], [1, 2])
    assert second["request"] != first["request"]
    assert second["time"] == pytest.approx(aws_emulator.now(), abs=20)
    events = aws_emulator.client("logs").filter_log_events(logGroupName=f"/aws/lambda/{name}")["events"]
    assert [event["message"].strip() for event in events if "saw" in event["message"]] == ["saw 1", "saw 2"]
    answer, failed = invoke(aws_emulator, name, {"end": 3})
    assert failed
    assert answer["errorType"] == "Runtime.ExitError"
    assert "ended with 3" in answer["errorMessage"]
    assert invoke(aws_emulator, name, 3)[0]["seen"] == [3]


def test_a_runtime_that_does_not_run_here_says_so(aws_emulator: Emulator) -> None:
    template = with_function("exports.handler = async () => 1", Runtime="nodejs22.x")
    answer, failed = invoke(aws_emulator, aws_emulator.deploy(template, "code").physical_ids["Function"])
    assert failed
    assert "runs Python handlers only" in answer["errorMessage"]


def test_changed_code_runs(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(with_function("def handler(event, context):\n    return 1\n"), "code").physical_ids
    after = aws_emulator.update("code", with_function("def handler(event, context):\n    return 2\n")).physical_ids
    assert after == ids
    assert invoke(aws_emulator, ids["Function"]) == (2, None)


RESPOND = """
import json
import urllib.request

def handler(event, context):
    properties = event["ResourceProperties"]
    answer = {"Status": "SUCCESS", "PhysicalResourceId": "thing-" + properties["Name"],
              "Data": {"Said": event["RequestType"] + "-" + properties["Flag"]},
              **{key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}}
    if properties["Name"] == "bad":
        answer |= {"Status": "FAILED", "Reason": "this name is bad"}
    if properties["Name"] == "silent":
        return
    body = json.dumps(answer).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], data=body, method="PUT"))
"""


def custom(name: str, kind: str = "Custom::Thing") -> dict[str, Any]:
    template = with_function(RESPOND)
    template["Resources"]["Thing"] = {
        "Type": kind,
        "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "Name": name, "Flag": True},
    }
    template["Outputs"] = {"Said": {"Value": {"Fn::GetAtt": ["Thing", "Said"]}}, "Id": {"Value": {"Ref": "Thing"}}}
    return template


@pytest.mark.parametrize("kind", ["Custom::Thing", "AWS::CloudFormation::CustomResource"])
def test_a_custom_resource_answers(aws_emulator: Emulator, kind: str) -> None:
    assert aws_emulator.deploy(custom("a", kind), "cr").outputs == {"Said": "Create-true", "Id": "thing-a"}
    assert aws_emulator.update("cr", custom("b", kind)).outputs == {"Said": "Update-true", "Id": "thing-b"}
    assert aws_emulator.destroy("cr").status == "DELETE_COMPLETE"


@pytest.mark.parametrize(
    ("name", "reason"), [("bad", "Message returned: this name is bad"), ("silent", "did not answer its ResponseURL")]
)
def test_a_custom_resource_that_fails_rolls_the_stack_back(aws_emulator: Emulator, name: str, reason: str) -> None:
    with pytest.raises(StackFailedError, match=reason):
        aws_emulator.deploy(custom(name), "cr")


def test_an_attribute_that_the_function_did_not_answer(aws_emulator: Emulator) -> None:
    template = changed(custom("a"), "Outputs", "Said", to={"Value": {"Fn::GetAtt": ["Thing", "Unsaid"]}})
    with pytest.raises(StackFailedError, match="Unsaid is not in the function's answer"):
        aws_emulator.deploy(template, "cr")


def machine() -> dict[str, Any]:
    """Starts a task on the file system, and looks at it until it has ended: what a release does."""
    template = hot()
    definition = {
        "StartAt": "Start",
        "States": {
            "Start": {
                "Type": "Task",
                "Resource": "arn:aws:states:::aws-sdk:fsx:createDataRepositoryTask",
                "Parameters": {
                    "FileSystemId.$": "$.id",
                    "Type": "EXPORT_TO_REPOSITORY",
                    "Report": {"Enabled": False},
                    "ClientRequestToken.$": "States.UUID()",
                },
                "ResultSelector": {"task.$": "$.DataRepositoryTask.TaskId"},
                "ResultPath": "$.started",
                "Next": "Look",
            },
            "Look": {
                "Type": "Task",
                "Resource": "arn:aws:states:::aws-sdk:fsx:describeDataRepositoryTasks",
                "Parameters": {"TaskIds.$": "States.Array($.started.task)"},
                "ResultPath": "$.seen",
                "Next": "Ended",
            },
            "Ended": {
                "Type": "Choice",
                "Choices": [
                    {
                        "Variable": "$.seen.DataRepositoryTasks[0].Lifecycle",
                        "StringEquals": "SUCCEEDED",
                        "Next": "Tell",
                    }
                ],
                "Default": "Again",
            },
            "Again": {"Type": "Wait", "Seconds": 0, "Next": "Look"},
            "Tell": {
                "Type": "Task",
                "Resource": "arn:aws:states:::lambda:invoke",
                "Parameters": {"FunctionName": "${function}", "Payload.$": "$.started"},
                "ResultSelector": {"said.$": "$.Payload"},
                "End": True,
            },
        },
    }
    code = "def handler(event, context):\n    return 'ended ' + event['task']\n"
    template["Resources"] |= {
        **with_function(code)["Resources"],
        "Machine": {
            "Type": "AWS::StepFunctions::StateMachine",
            "Properties": {
                "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                "DefinitionString": json.dumps(definition),
                "DefinitionSubstitutions": {"function": {"Fn::GetAtt": ["Function", "Arn"]}},
            },
        },
    }
    return template


def test_a_state_machine_runs(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(machine(), "release").physical_ids
    machines = aws_emulator.client("stepfunctions")
    arn = machines.start_execution(stateMachineArn=ids["Machine"], input=json.dumps({"id": ids["Fs"]}), name="one")
    deadline = time.monotonic() + 60
    while (state := machines.describe_execution(executionArn=arn["executionArn"]))["status"] == "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert state["status"] == "SUCCEEDED", machines.get_execution_history(executionArn=arn["executionArn"])["events"][
        -1
    ]
    task = aws_emulator.client("fsx").describe_data_repository_tasks()["DataRepositoryTasks"][0]
    assert json.loads(state["output"]) == {"said": f"ended {task['TaskId']}"}
    # Its history comes in pages, the newest events first where that is asked for.
    asked = {"executionArn": arn["executionArn"], "reverseOrder": True}
    pages = machines.get_paginator("get_execution_history").paginate(**asked, PaginationConfig={"PageSize": 3})
    numbers = [[event["id"] for event in page["events"]] for page in pages]
    assert {len(page) for page in numbers[:-1]} == {3}
    assert [number for page in numbers for number in page] == list(range(numbers[0][0], 0, -1))


def test_a_broken_definition_fails_the_stack(aws_emulator: Emulator) -> None:
    broken = changed(machine(), "Resources", "Machine", "Properties", "DefinitionString", to='{"StartAt": "A"}')
    with pytest.raises(StackFailedError, match=r"Machine \(AWS::StepFunctions::StateMachine\)"):
        aws_emulator.deploy(broken, "release")
