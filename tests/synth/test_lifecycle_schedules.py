"""What happens by the clock: data that S3 has is released, a tier that is idle goes, data is loaded before a run."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import aws_cdk as cdk
import pytest

from tests.assemblies import synthesize
from tests.synth.storage import file_system, only, resources
from training_storage.errors import ValidationError
from training_storage.lifecycle import DataReleaseSchedule, FreeSpaceRelease, IdleRelease, PreloadSchedule
from training_storage.tiers import DataLake
from training_storage.units import GIB

ENV = cdk.Environment(account="111111111111", region="us-east-1")
SCHEDULE = "AWS::Scheduler::Schedule"
TASK = "fsx:CreateDataRepositoryTask"
AT = datetime.fromisoformat("2030-12-01T06:00:00+02:00")


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Hot", env=ENV)


def statements(stack: cdk.Stack, action: str) -> list[dict[str, Any]]:
    return [
        each
        for policy in resources(stack, "AWS::IAM::Policy").values()
        for each in policy["Properties"]["PolicyDocument"]["Statement"]
        if action in each["Action"]
    ]


def given(stack: cdk.Stack) -> dict[str, Any]:
    """Input of the one schedule; a reference in it becomes its name."""
    text = only(stack, SCHEDULE)["Properties"]["Target"]["Input"]
    if isinstance(text, dict):
        text = "".join(each if isinstance(each, str) else each["Ref"] for each in text["Fn::Join"][1])
    return dict(json.loads(text))


# ---- data that S3 has


def test_data_that_nobody_uses_is_released_each_day_by_scheduler_itself(stack: cdk.Stack) -> None:
    system = file_system(stack)
    DataReleaseSchedule(stack, "Release", workload="run", file_system=system, unused_for=cdk.Duration.days(7))
    made = only(stack, SCHEDULE)["Properties"]
    assert (made["Name"], made["ScheduleExpression"]) == ("run-release-data", "rate(1 day)")
    assert made["Target"]["Arn"] == "arn:aws:scheduler:::aws-sdk:fsx:createDataRepositoryTask"
    assert made["Target"]["RetryPolicy"]["MaximumRetryAttempts"] > 0
    asked = given(stack)
    assert asked.pop("FileSystemId") in resources(stack, "AWS::FSx::FileSystem")
    assert asked == {
        "Type": "RELEASE_DATA_FROM_FILESYSTEM",
        "Paths": ["/"],
        "ReleaseConfiguration": {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": 7}},
        "Report": {"Enabled": False},
        "ClientRequestToken": "<aws.scheduler.execution-id>",
    }
    assert resources(stack, "AWS::Lambda::Function") == {}


def test_the_schedule_may_do_one_thing_on_one_file_system(stack: cdk.Stack) -> None:
    system = file_system(stack)
    DataReleaseSchedule(stack, "Release", workload="run", file_system=system, unused_for=cdk.Duration.days(7))
    (statement,) = only(stack, "AWS::IAM::Policy")["Properties"]["PolicyDocument"]["Statement"]
    assert statement["Action"] == TASK
    (made,) = resources(stack, "AWS::FSx::FileSystem")
    tasks = "arn:aws:fsx:us-east-1:111111111111:task/*"
    assert sorted(statement["Resource"], key=str) == [tasks, {"Fn::GetAtt": [made, "ResourceARN"]}]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"unused_for": cdk.Duration.hours(30)}, "whole days"),
        ({"unused_for": 7}, "a Duration"),
        # Taken for no days at all it would release everything.
        ({"unused_for": cdk.Duration.days(cdk.Token.as_number({"Ref": "Days"}))}, "known at synth"),
        ({"paths": []}, "1 to 100"),
        ({"paths": [f"/{number}" for number in range(101)]}, "1 to 100"),
        ({"workload": "No Name"}, "not the name of a workload"),
        ({"file_system": "fs-1"}, "a Lustre file system"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(stack: cdk.Stack, options: dict[str, Any], wrong: str) -> None:
    arguments = {"workload": "run", "file_system": file_system(stack), "unused_for": cdk.Duration.days(7), **options}
    with pytest.raises(ValidationError, match=wrong):
        DataReleaseSchedule(stack, "Release", **arguments)
    assert stack.node.try_find_child("Release") is None


@pytest.mark.parametrize(
    ("construct", "options"),
    [
        (DataReleaseSchedule, {"unused_for": cdk.Duration.days(7)}),
        (FreeSpaceRelease, {"storage_capacity_gib": 1200, "free_share": 0.1}),
    ],
)
def test_lustre_2_10_cannot_release_data(stack: cdk.Stack, construct: Any, options: dict[str, Any]) -> None:
    old = file_system(stack, deployment_type="SCRATCH_2", file_system_type_version="2.10")
    with pytest.raises(ValidationError, match=r"2\.10 cannot release data"):
        construct(stack, "Release", workload="run", file_system=old, **options)


# ---- space


def short(stack: cdk.Stack, **options: Any) -> FreeSpaceRelease:
    arguments = {"workload": "run", "storage_capacity_gib": 1200, "free_share": 0.1, **options}
    return FreeSpaceRelease(stack, "Space", file_system=file_system(stack), **arguments)


def test_the_alarm_looks_at_the_fullest_target_and_a_gap_is_no_free_space(stack: cdk.Stack) -> None:
    short(stack)
    alarm = only(stack, "AWS::CloudWatch::Alarm")["Properties"]
    assert alarm["Threshold"] == 1200 * GIB * 0.1
    assert alarm["TreatMissingData"] == "ignore"
    metrics = {each["Id"]: each.get("MetricStat") for each in alarm["Metrics"] if "MetricStat" in each}
    assert {each["Stat"] for each in metrics.values()} == {"Minimum", "SampleCount"}
    for each in metrics.values():
        assert each["Period"] == 60
        assert each["Metric"]["MetricName"] == "FreeDataStorageCapacity"
        assert [one["Name"] for one in each["Metric"]["Dimensions"]] == ["FileSystemId"]


def test_the_change_of_the_alarm_starts_the_release_of_data(stack: cdk.Stack) -> None:
    short(stack)
    rule = only(stack, "AWS::Events::Rule")["Properties"]
    (alarm,) = resources(stack, "AWS::CloudWatch::Alarm")
    (machine,) = resources(stack, "AWS::StepFunctions::StateMachine")
    assert rule["EventPattern"]["resources"] == [{"Fn::GetAtt": [alarm, "Arn"]}]
    assert rule["EventPattern"]["detail"] == {"state": {"value": ["ALARM"]}}
    assert [each["Arn"] for each in rule["Targets"]] == [{"Ref": machine}]
    (started,) = statements(stack, "states:StartExecution")
    assert started["Resource"] == {"Ref": machine}


def test_another_task_is_waited_for_and_a_space_that_stays_short_is_looked_at_again(stack: cdk.Stack) -> None:
    short(stack)
    text = only(stack, "AWS::StepFunctions::StateMachine")["Properties"]["DefinitionString"]["Fn::Join"][1]
    machine = json.loads("".join(each if isinstance(each, str) else "TOKEN" for each in text))
    states = machine["States"]
    assert machine["TimeoutSeconds"] <= 7 * 24 * 3600
    asked = states["release"]["Parameters"]
    assert asked["ReleaseConfiguration"]["DurationSinceLastAccess"] == {"Unit": "DAYS", "Value": 0}
    (retry,) = states["release"]["Retry"]
    assert retry["ErrorEquals"] == ["States.ALL"]
    assert retry["MaxAttempts"] * retry["MaxDelaySeconds"] > 6 * 3600
    assert states["still short"]["Choices"][0]["Next"] == "release"


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5])
def test_a_share_lies_between_nothing_and_all(stack: cdk.Stack, share: float) -> None:
    with pytest.raises(ValidationError, match="not a share"):
        short(stack, free_share=share)


def test_a_threshold_is_worked_out_at_synth(stack: cdk.Stack) -> None:
    with pytest.raises(ValidationError, match="only known at deploy"):
        short(stack, storage_capacity_gib=cdk.CfnParameter(stack, "Size", type="Number").value_as_number)


# ---- a tier that is idle


def test_each_hour_the_release_is_asked_whether_the_run_is_idle(stack: cdk.Stack) -> None:
    IdleRelease(stack, "Idle", workload="run", idle_for=cdk.Duration.hours(12))
    made = only(stack, SCHEDULE)["Properties"]
    assert (made["Name"], made["ScheduleExpression"]) == ("run-release-when-idle", "rate(1 hour)")
    assert given(stack) == {"workload": "run", "action": "release", "leave": [], "idle_hours": 12}
    (started,) = statements(stack, "states:StartExecution")
    assert started["Resource"] == made["Target"]["Arn"]
    assert ":stateMachine:run-release" in json.dumps(started["Resource"])


@pytest.mark.parametrize("idle", [cdk.Duration.minutes(30), cdk.Duration.minutes(90)])
def test_idle_is_counted_in_hours(stack: cdk.Stack, idle: cdk.Duration) -> None:
    with pytest.raises(ValidationError, match="whole hours"):
        IdleRelease(stack, "Idle", workload="run", idle_for=idle)


# ---- data before a run


def test_data_is_loaded_once_at_a_moment(stack: cdk.Stack) -> None:
    PreloadSchedule(stack, "Preload", workload="run", data_lake=DataLake(stack, "Lake"), at=AT, paths=["/datasets/a"])
    made = only(stack, SCHEDULE)["Properties"]
    assert made["ScheduleExpression"] == "at(2030-12-01T04:00:00)"
    assert made["ScheduleExpressionTimezone"] == "UTC"
    assert given(stack)["paths"] == ["/datasets/a"]
    (machine,) = resources(stack, "AWS::StepFunctions::StateMachine")
    assert made["Target"]["Arn"] == {"Ref": machine}
    assert only(stack, "AWS::Lambda::Function")["Properties"]["Handler"] == "node.functions.preload.index.handler"
    assert statements(stack, "DeleteStack") == []


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"at": datetime(2030, 12, 1)}, "without a time zone"),
        ({"at": "2030-12-01"}, "a datetime"),
        ({"paths": ["datasets"]}, "starts with /"),
        ({"paths": []}, "no path"),
    ],
)
def test_a_moment_and_paths_are_looked_at(stack: cdk.Stack, options: dict[str, Any], wrong: str) -> None:
    arguments = {"workload": "run", "data_lake": DataLake(stack, "Lake"), "at": AT, **options}
    with pytest.raises(ValidationError, match=wrong):
        PreloadSchedule(stack, "Preload", **arguments)


# ---- from a workload file


EVERYTHING: dict[str, Any] = {
    "name": "small",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5en.48xlarge", "instance_count": 20},
    "dataset": {"size": "10 TB", "average_file_size": "100 MB"},
    "lifecycle": {
        "release_data_after": "7d",
        "release_data_when_free_below": 0.1,
        "release_when_idle_for": "12h",
        "preload_at": "2030-12-01T06:00:00Z",
    },
}


def test_a_workload_file_asks_for_all_of_it_and_outside_eyes_find_nothing() -> None:
    import cdk_nag

    def add(app: cdk.App) -> None:
        cdk.Validations.of(app).add_plugins(cdk_nag.AwsSolutionsChecks(app))

    made = synthesize(EVERYTHING, prepare=add)
    names = {each["Properties"]["Name"] for each in made.of("small-hot", SCHEDULE).values()}
    assert names == {"small-release-data", "small-release-when-idle", "small-preload"}
    machines = made.of("small-hot", "AWS::StepFunctions::StateMachine").values()
    assert {each["Properties"]["StateMachineName"] for each in machines} == {"small-free-space", "small-preload"}
    report = json.loads((made.folder / "validation-report.json").read_text(encoding="utf-8"))
    (nag,) = [part for part in report["pluginReports"] if part["pluginName"] == "AwsSolutions"]
    assert [violation["ruleName"] for violation in nag["violations"]] == []


def test_a_workload_file_that_asks_for_nothing_gets_nothing() -> None:
    from tests.assemblies import example

    # What looks at the links of the file system belongs to monitoring.
    made = [each["Properties"]["Name"] for each in example("llama3-70b").all(SCHEDULE)]
    assert made == ["llama3-70b-links"]
