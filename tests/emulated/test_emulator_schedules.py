"""State machines that wait, schedules that are fired, alarms that change."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulated.emulator_templates import hot
from training_storage.emulator import Emulator, EmulatorError, emulator

CODE = """
import time

def handler(event, context):
    if event.get("fail"):
        raise ValueError("not this time")
    return {"status": "next", "at": time.time()}
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as aws:
        yield aws


def machine(name: str, states: dict[str, Any], **more: Any) -> dict[str, Any]:
    definition = {"StartAt": next(iter(states)), "States": states, **more}
    return {
        "Type": "AWS::StepFunctions::StateMachine",
        "Properties": {
            "StateMachineName": name,
            "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
            "DefinitionString": json.dumps(definition),
            "DefinitionSubstitutions": {"function": {"Fn::GetAtt": ["Function", "Arn"]}, "fs": {"Ref": "Fs"}},
        },
    }


ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}
FUNCTION = {
    "Type": "AWS::Lambda::Function",
    "Properties": {
        "Handler": "index.handler",
        "Runtime": "python3.12",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Code": {"ZipFile": CODE},
        "Timeout": 60,
    },
}


def invoke(payload: Any, **more: Any) -> dict[str, Any]:
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": "${function}", **payload},
        "OutputPath": "$.Payload",
        **more,
    }


RELEASE = {
    "FileSystemId": "${fs}",
    "Type": "RELEASE_DATA_FROM_FILESYSTEM",
    "Paths": ["/"],
    "ReleaseConfiguration": {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": 0}},
    "Report": {"Enabled": False},
}
AGAIN = [{"ErrorEquals": ["ValueError"], "IntervalSeconds": 60, "MaxAttempts": 3, "BackoffRate": 2}]


@pytest.fixture(scope="module")
def ids(running: Emulator) -> dict[str, str]:
    template = hot()
    template["Resources"] |= {"Role": ROLE, "Function": FUNCTION}
    refused = {"Type": "Fail", "Error": "Refused", "CausePath": "States.JsonToString($)"}
    task = {"Type": "Task", "Resource": "arn:aws:states:::aws-sdk:fsx:createDataRepositoryTask", "Parameters": RELEASE}
    caught = {"ErrorEquals": ["FSx.DataRepositoryTaskExecutingException"], "Next": "busy"}
    template["Resources"] |= {
        "Waits": machine(
            "waits",
            {
                "wait": {"Type": "Wait", "SecondsPath": "$.wait", "Next": "call"},
                "call": invoke({"Payload": {"step": "one", "state.$": "$"}}, Next="end"),
                "end": {"Type": "Succeed"},
            },
        ),
        "Retries": machine("retries", {"call": invoke({"Payload": {"fail": True}}, Retry=AGAIN, End=True)}),
        "Direct": machine("direct", {"call": {"Type": "Task", "Resource": "${function}", "End": True}}),
        "Refuses": machine("refuses", {"no": refused}),
        "Endless": machine(
            "endless",
            {
                "wait": {"Type": "Wait", "Seconds": 3600, "Next": "on"},
                "on": {"Type": "Pass", "Next": "wait"},
            },
            TimeoutSeconds=7200,
        ),
        "Releases": machine(
            "releases",
            {
                "release": {**task, "Catch": [caught], "End": True},
                "busy": {"Type": "Pass", "Result": {"was": "busy"}, "End": True},
            },
        ),
        "Alarm": {
            "Type": "AWS::CloudWatch::Alarm",
            "Properties": {
                "AlarmName": "short",
                "Namespace": "AWS/FSx",
                "MetricName": "FreeDataStorageCapacity",
                "Dimensions": [{"Name": "FileSystemId", "Value": {"Ref": "Fs"}}],
                "ComparisonOperator": "LessThanThreshold",
                "EvaluationPeriods": 1,
                "Period": 60,
                "Statistic": "Minimum",
                "Threshold": 1,
            },
        },
        "Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {
                "EventPattern": {
                    "source": ["aws.cloudwatch"],
                    "detail-type": ["CloudWatch Alarm State Change"],
                    "resources": [{"Fn::GetAtt": ["Alarm", "Arn"]}],
                    "detail": {"state": {"value": ["ALARM"]}},
                },
                "Targets": [
                    {"Id": "one", "Arn": {"Ref": "Releases"}, "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]}},
                ],
            },
        },
        "Daily": schedule(
            "daily",
            "arn:aws:scheduler:::aws-sdk:fsx:createDataRepositoryTask",
            {**RELEASE, "FileSystemId": "${Fs}", "ClientRequestToken": "<aws.scheduler.execution-id>"},
        ),
        "Hourly": schedule("hourly", {"Ref": "Waits"}, {"wait": 1}),
    }
    return running.deploy(template, "schedules").physical_ids


def schedule(name: str, arn: Any, given: dict[str, Any]) -> dict[str, Any]:
    return {
        "Type": "AWS::Scheduler::Schedule",
        "Properties": {
            "Name": name,
            "ScheduleExpression": "rate(1 day)",
            "FlexibleTimeWindow": {"Mode": "OFF"},
            "Target": {
                "Arn": arn,
                "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
                "Input": {"Fn::Sub": json.dumps(given)},
            },
        },
    }


def execute(aws: Emulator, arn: str, given: dict[str, Any] | None = None) -> dict[str, Any]:
    started = aws.client("stepfunctions").start_execution(stateMachineArn=arn, input=json.dumps(given or {}))
    return aws.finished(started["executionArn"])


def test_a_wait_lets_time_pass_and_takes_none(running: Emulator, ids: dict[str, str]) -> None:
    began, before = time.monotonic(), running.now()
    done = execute(running, ids["Waits"], {"wait": 7200})
    assert (done["status"], json.loads(done["input"])) == ("SUCCEEDED", {"wait": 7200})
    assert json.loads(done["output"])["at"] >= before + 7200  # also for the function
    assert time.monotonic() - began < 30


def test_retries_end_and_say_why(running: Emulator, ids: dict[str, str]) -> None:
    before = running.now()
    done = execute(running, ids["Retries"])
    assert (done["status"], done["error"]) == ("FAILED", "ValueError")
    assert json.loads(done["cause"])["errorMessage"] == "not this time"
    assert running.now() - before >= 60 + 120 + 240
    history = running.client("stepfunctions").get_execution_history(executionArn=done["executionArn"])["events"]
    assert [event["type"] for event in history].count("TaskFailed") == 4


def test_a_function_by_its_arn(running: Emulator, ids: dict[str, str]) -> None:
    assert json.loads(execute(running, ids["Direct"], {"a": 1})["output"])["status"] == "next"


def test_the_cause_of_a_refusal_is_the_state(running: Emulator, ids: dict[str, str]) -> None:
    done = execute(running, ids["Refuses"], {"refused": "because"})
    assert (done["status"], done["error"], json.loads(done["cause"])) == ("FAILED", "Refused", {"refused": "because"})


def test_a_machine_times_out_by_the_time_that_it_waited(running: Emulator, ids: dict[str, str]) -> None:
    assert execute(running, ids["Endless"])["status"] == "TIMED_OUT"


def released(aws: Emulator, ids: dict[str, str]) -> list[str]:
    files = aws.file_system(ids["Fs"])
    aws.client("s3").put_object(Bucket=ids["Bucket"], Key="datasets/a", Body=b"12345")
    aws.settle(ids["Fs"])
    files.read("datasets/a")
    assert files.released() == []
    return files.released()


def test_a_schedule_calls_the_api_of_fsx(running: Emulator, ids: dict[str, str]) -> None:
    released(running, ids)
    task = running.fire_schedule("daily")["DataRepositoryTask"]
    assert task["Lifecycle"] == "PENDING"
    with pytest.raises(ClientError, match="DataRepositoryTaskExecuting"):
        running.fire_schedule("daily")
    running.settle(ids["Fs"])
    assert running.file_system(ids["Fs"]).released() == ["datasets/a"]


def test_a_schedule_starts_a_state_machine(running: Emulator, ids: dict[str, str]) -> None:
    assert ids["Hourly"] == "hourly"
    assert running.finished(running.fire_schedule("hourly")["executionArn"])["status"] == "SUCCEEDED"


def test_a_schedule_that_is_not_there(running: Emulator, ids: dict[str, str]) -> None:
    with pytest.raises(EmulatorError, match="no schedule nightly"):
        running.fire_schedule("nightly")


def test_an_alarm_starts_what_a_rule_names(running: Emulator, ids: dict[str, str]) -> None:
    released(running, ids)
    running.set_alarm_state("short", "OK")
    assert executions(running, ids) == 0
    running.set_alarm_state("short")
    running.set_alarm_state("short")  # no change, no event
    assert executions(running, ids) == 1
    running.settle(ids["Fs"])
    assert running.file_system(ids["Fs"]).released() == ["datasets/a"]


def executions(aws: Emulator, ids: dict[str, str]) -> int:
    found = aws.client("stepfunctions").list_executions(stateMachineArn=ids["Releases"])["executions"]
    for each in found:
        assert aws.finished(each["executionArn"])["status"] == "SUCCEEDED"
    return len(found)


def test_errors_of_an_integration_are_caught_by_their_name(running: Emulator, ids: dict[str, str]) -> None:
    running.fire_schedule("daily")
    assert json.loads(execute(running, ids["Releases"])["output"]) == {"was": "busy"}
    running.settle(ids["Fs"])


def test_schedules_and_rules_go_with_their_stack(running: Emulator, ids: dict[str, str]) -> None:
    running.client("s3").delete_object(Bucket=ids["Bucket"], Key="datasets/a")
    running.destroy("schedules")
    assert running.client("scheduler").list_schedules()["Schedules"] == []
    assert running.client("events").list_rules()["Rules"] == []
