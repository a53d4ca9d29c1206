"""After a failure everything is as it was: what a rollback has to take back, and names that are taken."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.emulated.emulator_templates import changed, without
from training_storage.emulator import Emulator, StackFailedError

TRUST = {"Version": "2012-10-17", "Statement": []}
BROKEN = {"Type": "AWS::S3::Bucket", "Properties": {"Foo": 1}}


def only(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def bucket(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": properties}


def stored(name: str, value: Any = "x", **more: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value, "Name": name}, **more}


def names(aws: Emulator) -> set[str]:
    return {item["Name"] for item in aws.client("s3").list_buckets()["Buckets"]}


def test_creates_are_taken_back_newest_first(aws_emulator: Emulator) -> None:
    template = only(
        A=bucket(), B={**bucket(), "DependsOn": "A"}, C={**bucket(), "DependsOn": "B"}, D={**BROKEN, "DependsOn": "C"}
    )
    with pytest.raises(StackFailedError) as caught:
        aws_emulator.deploy(template, "back")
    assert [event.logical_id for event in caught.value.events if event.status == "DELETE_COMPLETE"] == ["C", "B", "A"]


def test_a_rolled_back_update_brings_the_deletion_policy_back(aws_emulator: Emulator) -> None:
    """A bucket that was retained before the failed update is retained after it."""
    template = only(A={**bucket(BucketName="precious"), "DeletionPolicy": "Retain"})
    aws_emulator.deploy(template, "policy")
    worse = changed(template, "Resources", "A", "DeletionPolicy", to="Delete")
    worse["Resources"]["B"] = {**BROKEN, "DependsOn": "A"}
    with pytest.raises(StackFailedError):
        aws_emulator.update("policy", worse)
    assert aws_emulator.stack("policy").resource("A").deletion_policy == "Retain"
    aws_emulator.destroy("policy")
    assert "precious" in names(aws_emulator)


def test_a_rolled_back_update_brings_tags_of_the_stack_back(aws_emulator: Emulator) -> None:
    template = only(A=bucket(BucketName="tagged", Tags=[{"Key": "own", "Value": "1"}]))
    aws_emulator.deploy(template, "tags", tags={"team": "old"})
    worse = changed(template, "Resources", "B", to={**BROKEN, "DependsOn": "A"})
    with pytest.raises(StackFailedError):
        aws_emulator.update("tags", worse, tags={"team": "new"})
    tags = aws_emulator.client("s3").get_bucket_tagging(Bucket="tagged")["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {"own": "1", "team": "old"}


@pytest.mark.parametrize(("policy", "left"), [("Retain", True), ("RetainExceptOnCreate", False), ("Delete", False)])
def test_what_a_failed_update_added_and_retains(aws_emulator: Emulator, policy: str, left: bool) -> None:
    aws_emulator.deploy(only(A=bucket()), "added")
    added = {**bucket(BucketName="newcomer"), "DeletionPolicy": policy}
    with pytest.raises(StackFailedError):
        aws_emulator.update("added", only(A=bucket(), N=added, B={**BROKEN, "DependsOn": "N"}))
    assert ("newcomer" in names(aws_emulator)) is left
    assert list(aws_emulator.stack("added").physical_ids) == ["A"]


def test_an_update_that_fails_half_way_is_taken_back(aws_emulator: Emulator) -> None:
    """A role loses one policy before the service refuses the other: it gets the first one back."""
    good, bad = (f"arn:aws:iam::aws:policy/{name}" for name in ("AmazonSSMManagedInstanceCore", "NoSuchPolicy"))
    role = {
        "Type": "AWS::IAM::Role",
        "Properties": {"RoleName": "worker", "AssumeRolePolicyDocument": TRUST, "ManagedPolicyArns": [good]},
    }
    aws_emulator.deploy(only(A=role), "half")
    with pytest.raises(StackFailedError) as caught:
        aws_emulator.update(
            "half", changed(only(A=role), "Resources", "A", "Properties", "ManagedPolicyArns", to=[bad])
        )
    assert caught.value.status == "UPDATE_ROLLBACK_COMPLETE"
    attached = aws_emulator.client("iam").list_attached_role_policies(RoleName="worker")["AttachedPolicies"]
    assert [item["PolicyArn"] for item in attached] == [good]


HALF_MADE: dict[str, tuple[dict[str, Any], Callable[[Emulator], list[str]]]] = {
    "role": (
        {"Type": "AWS::IAM::Role", "Properties": {
            "RoleName": "half", "AssumeRolePolicyDocument": TRUST,
            "ManagedPolicyArns": [f"arn:aws:iam::aws:policy/{n}" for n in ("AmazonSSMManagedInstanceCore", "Nope")],
        }},
        lambda aws: [item["RoleName"] for item in aws.client("iam").list_roles()["Roles"]],
    ),
    "managed policy": (
        {"Type": "AWS::IAM::ManagedPolicy", "Properties": {
            "ManagedPolicyName": "half", "Roles": ["nobody"], "PolicyDocument": TRUST,
        }},
        lambda aws: [item["PolicyName"] for item in aws.client("iam").list_policies(Scope="Local")["Policies"]],
    ),
    "instance profile": (
        {"Type": "AWS::IAM::InstanceProfile", "Properties": {"InstanceProfileName": "half", "Roles": ["nobody"]}},
        lambda aws: [
            item["InstanceProfileName"] for item in aws.client("iam").list_instance_profiles()["InstanceProfiles"]
        ],
    ),
    "bucket": (
        {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": "half", "Tags": [{"Key": "aws:x", "Value": "1"}]}},
        lambda aws: sorted(names(aws)),
    ),
    "security group": (
        {"Type": "AWS::EC2::SecurityGroup", "Properties": {
            "GroupName": "half", "GroupDescription": "x",
            "SecurityGroupIngress": [{"IpProtocol": "-1", "SourceSecurityGroupId": "sg-12345678"}],
        }},
        lambda aws: [item["GroupName"] for item in aws.client("ec2").describe_security_groups()["SecurityGroups"]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", HALF_MADE)
def test_a_resource_that_was_half_made_is_gone(aws_emulator: Emulator, kind: str) -> None:
    resource, look = HALF_MADE[kind]
    with pytest.raises(StackFailedError) as caught:
        aws_emulator.deploy(only(A=resource), "half")
    assert caught.value.status == "ROLLBACK_COMPLETE"
    assert "half" not in look(aws_emulator)


# --- names that are taken


TAKEN = {
    "alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": {
        "AlarmName": "a", "ComparisonOperator": "LessThanThreshold", "EvaluationPeriods": 1, "MetricName": "m",
        "Namespace": "n", "Period": 60, "Statistic": "Sum", "Threshold": 1,
    }},
    "dashboard": {"Type": "AWS::CloudWatch::Dashboard", "Properties": {"DashboardName": "a", "DashboardBody": "{}"}},
    "log group": {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/aws/fsx/a"}},
    "role": {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "a", "AssumeRolePolicyDocument": TRUST}},
    "parameter": stored("/a"),
    "bucket": bucket(BucketName="aaa"),
    "state machine": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {
        "StateMachineName": "a", "RoleArn": "arn:aws:iam::123456789012:role/x",
        "DefinitionString": json.dumps({"StartAt": "S", "States": {"S": {"Type": "Succeed"}}}),
    }},
    "topic": {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "a"}},
    "queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "a"}},
    "rule": {"Type": "AWS::Events::Rule", "Properties": {"Name": "a", "ScheduleExpression": "rate(1 hour)"}},
    "document": {"Type": "AWS::SSM::Document", "Properties": {
        "Name": "aaa", "DocumentType": "Command", "DocumentFormat": "JSON",
        "Content": {"schemaVersion": "2.2", "description": "x", "mainSteps": []},
    }},
    "known by its schema": {"Type": "AWS::Scheduler::Schedule", "Properties": {
        "Name": "a", "ScheduleExpression": "rate(1 hour)", "FlexibleTimeWindow": {"Mode": "OFF"},
        "Target": {"Arn": "arn:aws:sqs:us-east-1:123456789012:q", "RoleArn": "arn:aws:iam::123456789012:role/x"},
    }},
    "table": {"Type": "AWS::DynamoDB::Table", "Properties": {
        "TableName": "aaa", "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "a", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "a", "KeyType": "HASH"}],
    }},
}  # fmt: skip


@pytest.mark.parametrize("where", ["same stack", "other stack", "after retaining"])
@pytest.mark.parametrize("kind", TAKEN)
def test_a_name_that_is_taken(aws_emulator: Emulator, kind: str, where: str) -> None:
    """An emulator that made the second one over the first would call green what AWS refuses."""
    resource = TAKEN[kind]
    if where == "same stack":
        with pytest.raises(StackFailedError):
            aws_emulator.deploy(only(A=resource, B=resource), "first")
        return
    first = aws_emulator.deploy(only(A={**resource, "DeletionPolicy": "Retain"}), "first")
    if where == "after retaining":
        aws_emulator.destroy("first")
    with pytest.raises(StackFailedError):
        aws_emulator.deploy(only(A=resource), "second")
    if where == "other stack":
        assert aws_emulator.stack("first").physical_ids == first.physical_ids


@pytest.mark.parametrize("kind", TAKEN)
def test_a_name_is_free_again_after_a_delete(aws_emulator: Emulator, kind: str) -> None:
    for name in ("first", "second"):
        aws_emulator.deploy(only(A=TAKEN[kind]), name)
        aws_emulator.destroy(name)


@pytest.mark.parametrize("kind", TAKEN)
def test_a_named_resource_under_another_logical_id_is_refused(aws_emulator: Emulator, kind: str) -> None:
    """CloudFormation makes the new one before it deletes the old one."""
    first = aws_emulator.deploy(only(A=TAKEN[kind]), "move")
    with pytest.raises(StackFailedError) as caught:
        aws_emulator.update("move", only(B=TAKEN[kind]))
    assert caught.value.status == "UPDATE_ROLLBACK_COMPLETE"
    assert aws_emulator.stack("move").physical_ids == first.physical_ids


def test_a_second_policy_on_a_bucket_is_refused(aws_emulator: Emulator) -> None:
    statement = {"Effect": "Deny", "Principal": "*", "Action": "s3:*", "Resource": "*"}
    policy = {
        "Type": "AWS::S3::BucketPolicy",
        "Properties": {"Bucket": {"Ref": "A"}, "PolicyDocument": {"Version": "2012-10-17", "Statement": [statement]}},
    }
    with pytest.raises(StackFailedError, match="bucket policy already exists"):
        aws_emulator.deploy(only(A=bucket(), P=policy, Q=policy), "twice")


def test_a_name_can_be_used_once_a_region_and_account(aws_emulator: Emulator) -> None:
    schedule = only(A=TAKEN["known by its schema"], B=TAKEN["alarm"])
    aws_emulator.deploy(schedule, "here")
    aws_emulator.deploy(schedule, "here", region="eu-west-1")
    aws_emulator.deploy(schedule, "here", account="111111111111")
    assert aws_emulator.stacks(region="eu-west-1") == aws_emulator.stacks(account="111111111111") == ["here"]
    aws_emulator.destroy("here")
    assert aws_emulator.stack("here", region="eu-west-1").status == "CREATE_COMPLETE"


# --- exports


def exporting(**values: str) -> dict[str, Any]:
    outputs = {name: {"Value": value, "Export": {"Name": f"x:{name}"}} for name, value in values.items()}
    return {**only(A=bucket()), "Outputs": outputs}


def importing(name: str, **more: Any) -> dict[str, Any]:
    return {**only(P=stored("/p", {"Fn::ImportValue": {"Fn::Sub": f"x:{name}"}})), **more}


def test_an_export_in_use_cannot_be_left_out(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(exporting(a="1", b="2"), "lake")
    aws_emulator.deploy(importing("a"), "user")
    with pytest.raises(StackFailedError, match="Export x:a cannot be deleted as it is in use by user") as caught:
        aws_emulator.update("lake", exporting(b="2"))
    assert caught.value.status == "UPDATE_ROLLBACK_COMPLETE"
    assert aws_emulator.stack("lake").outputs == {"a": "1", "b": "2"}
    assert aws_emulator.update("lake", exporting(a="1")).outputs == {"a": "1"}
    listed = aws_emulator.client("cloudformation").list_exports()["Exports"]
    assert {item["Name"]: item["Value"] for item in listed} == {"x:a": "1"}


def test_a_failed_create_holds_no_import_and_no_export(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(exporting(a="1"), "lake")
    template = importing("a")
    template["Resources"]["B"] = BROKEN
    template["Outputs"] = {"O": {"Value": "o", "Export": {"Name": "x:o"}}}
    with pytest.raises(StackFailedError):
        aws_emulator.deploy(template, "user")
    assert [item["Name"] for item in aws_emulator.client("cloudformation").list_exports()["Exports"]] == ["x:a"]
    assert aws_emulator.destroy("lake").status == "DELETE_COMPLETE"


def test_an_import_that_a_condition_switches_off_holds_nothing(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(exporting(a="1"), "lake")
    template = importing(
        "a",
        Parameters={"Use": {"Type": "String", "Default": "yes"}},
        Conditions={"Used": {"Fn::Equals": [{"Ref": "Use"}, "yes"]}},
    )
    template["Resources"]["P"]["Properties"]["Value"] = {"Fn::If": ["Used", {"Fn::ImportValue": "x:a"}, "none"]}
    aws_emulator.deploy(template, "user")
    with pytest.raises(StackFailedError, match="in use by user"):
        aws_emulator.destroy("lake")
    aws_emulator.update("user", template, {"Use": "no"})
    assert aws_emulator.destroy("lake").status == "DELETE_COMPLETE"


def test_a_refused_delete_leaves_the_stack_as_it_was(aws_emulator: Emulator) -> None:
    made = aws_emulator.deploy(exporting(a="1"), "lake")
    aws_emulator.deploy(importing("a"), "user")
    with pytest.raises(StackFailedError):
        aws_emulator.destroy("lake")
    now = aws_emulator.stack("lake")
    assert (now.status, now.physical_ids, now.outputs) == ("CREATE_COMPLETE", made.physical_ids, made.outputs)
    assert made.physical_ids["A"] in names(aws_emulator)


# --- more than one at a time


def test_two_threads_make_one_stack_of_a_name(aws_emulator: Emulator) -> None:
    client = aws_emulator.client("cloudformation")
    body = json.dumps(only(**{f"A{number}": bucket() for number in range(20)}))
    results: list[str] = []

    def make() -> None:
        try:
            client.create_stack(StackName="once", TemplateBody=body)
            results.append("made")
        except client.exceptions.AlreadyExistsException:
            results.append("refused")

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == ["made", "refused", "refused", "refused"]
    assert aws_emulator.stacks() == ["once"]
    assert len(names(aws_emulator)) == 20


def test_stacks_made_side_by_side(aws_emulator: Emulator) -> None:
    failed: list[BaseException] = []

    def make(number: int) -> None:
        try:
            aws_emulator.deploy(only(A=bucket(), P=stored(f"/p{number}", {"Ref": "A"})), f"stack{number}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(aws_emulator.stacks()) == [f"stack{number}" for number in range(8)]


# --- custom resources


HANDLER = """
import json, os, urllib.request
import boto3

def handler(event, context):
    calls = boto3.client("sqs")
    properties = event["ResourceProperties"]
    said = " ".join([event["RequestType"], event.get("PhysicalResourceId", "-"), properties["Id"]])
    calls.send_message(QueueUrl=os.environ["QUEUE"], MessageBody=said)
    failed = event["RequestType"] == "Update" and properties["Id"] == "broken"
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    answer |= {"Status": "FAILED" if failed else "SUCCESS", "Reason": "broken", "PhysicalResourceId": properties["Id"]}
    if event["RequestType"] == "Delete":
        answer["PhysicalResourceId"] = event["PhysicalResourceId"]
    body = json.dumps(answer).encode()
    urllib.request.urlopen(urllib.request.Request(event["ResponseURL"], data=body, method="PUT"))
"""


def custom(identity: str, *extra: str) -> dict[str, Any]:
    template = only(
        Calls={"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "calls"}},
        Role={"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": TRUST}},
        Function={
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Runtime": "python3.13", "Handler": "index.handler", "Timeout": 60, "Code": {"ZipFile": HANDLER},
                "Role": {"Fn::GetAtt": ["Role", "Arn"]}, "Environment": {"Variables": {"QUEUE": {"Ref": "Calls"}}},
            },
        },
        Thing={
            "Type": "Custom::Thing",
            "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}, "Id": identity},
        },
    )  # fmt: skip
    for name in extra:
        template["Resources"][name] = {**BROKEN, "DependsOn": "Thing"}
    return template


def calls(aws: Emulator) -> list[str]:
    queue = aws.client("sqs").get_queue_url(QueueName="calls")["QueueUrl"]
    found = []
    while messages := aws.client("sqs").receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages"):
        found += [message["Body"] for message in messages]
        for message in messages:
            aws.client("sqs").delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    return found


def test_a_custom_resource_with_another_id_loses_the_old_one_last(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(custom("one"), "custom")
    aws_emulator.update("custom", custom("two"))
    assert calls(aws_emulator) == ["Create - one", "Update one two", "Delete one one"]
    assert aws_emulator.stack("custom").physical_ids["Thing"] == "two"


def test_a_rolled_back_custom_resource_keeps_the_old_one(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(custom("one"), "custom")
    with pytest.raises(StackFailedError):
        aws_emulator.update("custom", custom("two", "Bad"))
    assert calls(aws_emulator) == ["Create - one", "Update one two", "Update two one", "Delete two two"]
    assert aws_emulator.stack("custom").physical_ids["Thing"] == "one"


def test_a_custom_resource_whose_update_failed_gets_its_old_properties(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(custom("one"), "custom")
    with pytest.raises(StackFailedError, match="broken") as caught:
        aws_emulator.update("custom", custom("broken"))
    assert caught.value.status == "UPDATE_ROLLBACK_COMPLETE"
    assert calls(aws_emulator) == ["Create - one", "Update one broken", "Update one one"]


def test_a_resource_that_goes_with_its_condition(aws_emulator: Emulator) -> None:
    template = {
        **only(A=bucket(), B={**bucket(BucketName="sometimes"), "Condition": "On"}),
        "Parameters": {"Flag": {"Type": "String", "Default": "on"}},
        "Conditions": {"On": {"Fn::Equals": [{"Ref": "Flag"}, "on"]}},
    }
    aws_emulator.deploy(template, "flag")
    aws_emulator.update("flag", template, {"Flag": "off"})
    assert "sometimes" not in names(aws_emulator)
    aws_emulator.update("flag", template, {"Flag": "on"})
    assert "sometimes" in names(aws_emulator)
    assert aws_emulator.update("flag", without(template, "B")).physical_ids.keys() == {"A"}
