"""The release machine: its states, what it may do and on what, and that no reference runs from it to a run."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

from tests.assemblies import example, synthesize
from tests.synth.storage import only, resources
from training_storage.cli.render_release import STEPS as SAID
from training_storage.errors import ValidationError
from training_storage.lifecycle import ReleaseMachine
from training_storage.lifecycle._release_definition import definition
from training_storage.node.release.steps import EMPTYING, LAST_OF, STEPS
from training_storage.operations import release_find
from training_storage.parts import make_release_machine
from training_storage.planner import plan
from training_storage.tiers import DataLake
from training_storage.workload import parse_workload

ENV = cdk.Environment(account="111111111111", region="us-east-1")
OBJECTS: dict[str, Any] = {
    "name": "run",
    "region": "us-east-1",
    "availability_zone_id": "use1-az6",
    "compute": {"instance_type": "p5.48xlarge", "instance_count": 2},
    "hot_tier": "express",
    "dataset": {"size": "2 TB", "average_file_size": "64 MB", "interface": "object"},
    "checkpoints": {"size": "100 GB", "interval": "30m"},
}


@pytest.fixture
def stack(app: cdk.App) -> cdk.Stack:
    return cdk.Stack(app, "Lake", env=ENV)


def machine(stack: cdk.Stack, **options: Any) -> ReleaseMachine:
    return ReleaseMachine(stack, "Release", **{"workload": "run", "data_lake": DataLake(stack, "DataLake"), **options})


def states() -> dict[str, dict[str, Any]]:
    return dict(json.loads(definition("FUNCTION", "aws", empties=True))["States"])


def allowed(stack: cdk.Stack) -> list[tuple[str, str, Any]]:
    """Action, resource as text and condition of everything that the function may do."""
    roles = resources(stack, "AWS::Lambda::Function").values()
    names = {each["Properties"]["Role"]["Fn::GetAtt"][0] for each in roles}
    found = []
    for policy in resources(stack, "AWS::IAM::Policy").values():
        if names & {each["Ref"] for each in policy["Properties"]["Roles"]}:
            for each in policy["Properties"]["PolicyDocument"]["Statement"]:
                actions = each["Action"] if isinstance(each["Action"], list) else [each["Action"]]
                targets = each["Resource"] if isinstance(each["Resource"], list) else [each["Resource"]]
                found += [(a, json.dumps(r), each.get("Condition")) for a in actions for r in targets]
    return found


# ---- the definition


def test_each_step_of_the_release_is_a_state_and_goes_on_to_the_next() -> None:
    found = states()
    names = list(STEPS)
    assert [name for name in found if found[name]["Type"] == "Task"] == names
    for step, following in zip(names, [*names[1:], "done"], strict=True):
        answers = found[f"{step}: answer"]["Choices"]
        assert following in [each["Next"] for each in answers]
        assert found[step]["Parameters"]["Payload"] == {"step": step, "state.$": "$"}


def test_a_release_that_empties_nothing_has_no_state_for_it() -> None:
    without = json.loads(definition("FUNCTION", "aws"))["States"]
    assert EMPTYING not in json.dumps(without)
    assert [each for each in STEPS if each in without] == [each for each in STEPS if each != EMPTYING]
    assert "delete-hot" in [each["Next"] for each in without["quiet-again: answer"]["Choices"]]


def test_each_step_is_said_in_words() -> None:
    assert list(SAID) == list(STEPS)


@pytest.mark.parametrize("action", ["check", "prove"])
def test_an_action_that_deletes_nothing_ends_before_anything_is_deleted(action: str) -> None:
    before = list(STEPS)[: list(STEPS).index(LAST_OF[action]) + 1]
    assert not any(step.startswith("delete") or step == EMPTYING for step in before)
    (end,) = [each for each in states()[f"{LAST_OF[action]}: answer"]["Choices"] if action in json.dumps(each)]
    assert end["Next"] == "done"


def test_what_is_not_understood_is_refused() -> None:
    for name, state in states().items():
        if state["Type"] == "Choice":
            assert state["Default"] == "refused", name


def test_report_19_no_execution_is_endless_and_each_call_is_tried_again() -> None:
    whole = json.loads(definition("FUNCTION", "aws", empties=True))
    assert whole["TimeoutSeconds"] == 2 * 24 * 3600
    for step in STEPS:
        retries = whole["States"][step]["Retry"]
        assert all(each["MaxAttempts"] <= 8 and each["BackoffRate"] > 1 for each in retries)
        assert retries[-1]["ErrorEquals"] == ["States.ALL"]


def test_the_same_arguments_give_the_same_definition() -> None:
    assert definition("FUNCTION", "aws") == definition("FUNCTION", "aws")


# ---- names and rights


def test_it_is_found_by_its_name_and_keeps_a_log(stack: cdk.Stack) -> None:
    machine(stack)
    made = only(stack, "AWS::StepFunctions::StateMachine")["Properties"]
    assert made["StateMachineName"] == "run-release"
    assert made["LoggingConfiguration"]["Level"] == "ALL"
    assert all(each["Properties"]["RetentionInDays"] for each in resources(stack, "AWS::Logs::LogGroup").values())
    function = only(stack, "AWS::Lambda::Function")["Properties"]
    assert (function["Handler"], function["Timeout"]) == ("node.functions.release.index.handler", 900)
    assert set(function["Environment"]["Variables"]) == {"WORKLOAD", "LAKE_BUCKET"}


def test_it_deletes_three_stacks_and_nothing_else(stack: cdk.Stack) -> None:
    machine(stack)
    deletes = [(action, where) for action, where, _ in allowed(stack) if "Delete" in action or "Terminate" in action]
    assert {action for action, _ in deletes} == {"cloudformation:DeleteStack"}
    assert [part for part in ("monitoring", "compute", "hot") for _, where in deletes if f"run-{part}/*" in where] == [
        "monitoring", "compute", "hot",
    ]  # fmt: skip
    assert len(deletes) == 3


def test_it_passes_no_role_and_names_every_action(stack: cdk.Stack) -> None:
    machine(stack, copies_checkpoints=True, directory_bucket_names=["run-????????--use1-az4--x-s3"])
    actions = {action for action, _, _ in allowed(stack)}
    assert "iam:PassRole" not in actions
    assert not any("*" in action for action in actions)


def test_commands_and_tasks_are_held_to_the_workload_by_its_tag(stack: cdk.Stack) -> None:
    machine(stack)
    found = allowed(stack)
    tasks = [(where, when) for action, where, when in found if action == "fsx:CreateDataRepositoryTask"]
    held = [when for where, when in tasks if ":file-system/" in where]
    assert held == [{"StringEquals": {"aws:ResourceTag/training-storage:workload": "run"}}]
    commands = {where.split(":")[-1]: when for action, where, when in found if action == "ssm:SendCommand"}
    assert {bool(when) for where, when in commands.items() if "instance" in where} == {True}
    assert any("AWS-RunShellScript" in where for where in commands)


def test_a_file_system_that_was_there_before_is_named(stack: cdk.Stack) -> None:
    machine(stack, file_system_ids=["fs-0123456789abcdef0"])
    named = [where for action, where, _ in allowed(stack) if action == "fsx:CreateDataRepositoryTask"]
    assert any("file-system/fs-0123456789abcdef0" in where for where in named)


@pytest.mark.parametrize(
    ("copies", "below"), [(False, {".training-storage/*"}), (True, {".training-storage/*", "checkpoints/*"})]
)
def test_it_writes_proofs_and_only_where_it_copies_checkpoints(stack: cdk.Stack, copies: bool, below: set[str]) -> None:
    machine(stack, copies_checkpoints=copies)
    written = {where for action, where, _ in allowed(stack) if action == "s3:PutObject"}
    assert {each for each in below if any(f"/{each}" in where for where in written)} == below
    assert len(written) == len(below)


def test_a_missing_object_is_told_from_one_that_is_denied(stack: cdk.Stack) -> None:
    # S3 answers 403 for a key that is not there to whoever may not list the whole bucket.
    machine(stack)
    assert ("s3:ListBucket", None) in [(action, when) for action, _, when in allowed(stack)]


def test_other_buckets_are_read_and_not_written(stack: cdk.Stack) -> None:
    machine(stack, other_buckets=[s3.Bucket.from_bucket_name(stack, "Theirs", "theirs")])
    theirs = {action for action, where, _ in allowed(stack) if "theirs" in where}
    assert theirs == {"s3:ListBucket", "s3:GetObject"}


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"workload": "Run"}, "not the name of a workload"),
        ({"workload": 3}, "text"),
        ({"data_lake": "lake"}, "a DataLake"),
        ({"other_buckets": ["theirs"]}, "buckets of the CDK"),
        ({"directory_bucket_names": "one"}, "a list of texts"),
        ({"empties_directory_buckets": "yes"}, "empties_directory_buckets"),
        ({"empties_directory_buckets": True}, "no directory bucket is named"),
    ],
)
def test_wrong_arguments_are_refused(stack: cdk.Stack, options: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValidationError, match=wrong):
        machine(stack, **options)
    assert stack.node.try_find_child("Release") is None


# ---- in the reference stacks


@pytest.mark.parametrize("name", ["existing-everything", "object-native-2048"])
def test_a_run_can_be_released_also_in_front_of_a_lake_that_was_there_before(name: str) -> None:
    made = example(name)
    (release,) = made.of(f"{name}-lake", "AWS::StepFunctions::StateMachine").values()
    assert release["Properties"]["StateMachineName"] == f"{name}-release"
    assert release_find.RELEASE_STATE_MACHINE_ARN in made.templates[f"{name}-lake"]["Outputs"]
    stacks = {stack.removeprefix(f"{name}-") for stack in made.templates}
    assert set(release_find.RUN_PARTS) == stacks - {"lake", "network"}


def test_express_reads_the_buckets_of_any_run_and_the_whole_lake() -> None:
    template = json.dumps(example("object-native-2048").templates["object-native-2048-lake"])
    assert "object-native-2048-????????--" in template
    assert "AWS::StackId" not in json.dumps(
        [
            each
            for each in example("object-native-2048").templates["object-native-2048-lake"]["Resources"].values()
            if each["Type"] == "AWS::IAM::Policy"
        ]
    )


@pytest.mark.parametrize(
    ("express", "empties"),
    [
        ({"removal": "delete"}, True),
        ({"removal": "delete", "content_is_cache": True}, False),
        ({"removal": "retain"}, False),
        ({}, False),
        ({"bucket_names": ["mine--use1-az6--x-s3"]}, False),
    ],
)
def test_only_buckets_that_go_and_are_no_cache_are_emptied(
    stack: cdk.Stack, express: dict[str, Any], empties: bool
) -> None:
    made = plan(parse_workload(json.dumps({**OBJECTS, "express": express})))
    make_release_machine(stack, "Release", made, data_lake=DataLake(stack, "DataLake"))
    environment = only(stack, "AWS::Lambda::Function")["Properties"]["Environment"]["Variables"]
    assert (environment.get("EMPTIES_DIRECTORY_BUCKETS") == "true") is empties
    assert ("EMPTIES_DIRECTORY_BUCKETS" in environment) is empties
    assert (EMPTYING in json.dumps(only(stack, "AWS::StepFunctions::StateMachine"))) is empties
    assert ("cloudformation:GetTemplate" in {action for action, _, _ in allowed(stack)}) is empties


def test_a_given_file_system_and_foreign_buckets_are_named() -> None:
    made = synthesize(
        {
            "name": "small",
            "region": "us-east-1",
            "availability_zone_id": "use1-az6",
            "compute": {"instance_type": "p5en.48xlarge", "instance_count": 20},
            "dataset": {"size": "10 TB", "average_file_size": "100 MB"},
            "lustre": {"links": [{"path": "/data", "source": "s3://theirs/data/"}]},
        }
    )
    assert "theirs" in json.dumps(made.of("small-lake", "AWS::IAM::Policy"))
