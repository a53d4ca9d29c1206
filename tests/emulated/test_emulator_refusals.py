"""What CloudFormation certainly refuses, the emulator refuses too: a deploy that is green here must not be red there.

Each case is a template that differs in one thing from one that deploys.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from training_storage.emulator import Emulator, StackFailedError


def bucket(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": properties}


def parameter(value: Any, **more: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}, **more}


def good() -> dict[str, Any]:
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "good",
        "Parameters": {"Name": {"Type": "String", "Default": "lake"}},
        "Mappings": {"Sizes": {"us-east-1": {"Small": "1200", "List": ["a", "b"]}}},
        "Conditions": {"Yes": {"Fn::Equals": [{"Ref": "Name"}, "lake"]}, "No": {"Fn::Not": [{"Condition": "Yes"}]}},
        "Resources": {
            "A": bucket(),
            "B": parameter({"Fn::If": ["Yes", {"Ref": "A"}, "none"]}),
            "Out": {**parameter("x"), "Condition": "No"},
        },
        "Outputs": {"X": {"Value": {"Ref": "A"}, "Export": {"Name": "good:x"}}},
    }


def value(of: Any) -> Callable[[dict[str, Any]], None]:
    """Give the parameter B another value."""

    def change(template: dict[str, Any]) -> None:
        template["Resources"]["B"]["Properties"]["Value"] = of

    return change


def put(*path: str, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(template: dict[str, Any]) -> None:
        node = template
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = to

    return change


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    # shape of the template
    "version": (put("AWSTemplateFormatVersion", to="2011-01-01"), "AWSTemplateFormatVersion"),
    "description-too-long": (put("Description", to="x" * 1025), "at most 1024 bytes"),
    "section-is-a-list": (put("Outputs", to=[]), "Outputs must be an object"),
    "501-resources": (put("Resources", to={f"A{n}": bucket() for n in range(501)}), "maximum allowed, 500"),
    "201-outputs": (put("Outputs", to={f"A{n}": {"Value": "x"} for n in range(201)}), "maximum allowed, 200"),
    "same-name-parameter-resource": (put("Parameters", "A", to={"Type": "String", "Default": "x"}), "same name"),
    "output-name": (put("Outputs", "a-b", to={"Value": "x"}), "non alphanumeric"),
    "foreach": (put("Resources", "Fn::ForEach::Loop", to=["N", ["a"], {"X${N}": bucket()}]), "non alphanumeric"),
    "foreach-in-properties": (
        put("Resources", "A", "Properties", "Tags", to={"Fn::ForEach::T": ["N", ["a"], {}], "B": 1}),
        "must stand alone",
    ),
    "macro": (put("Transform", to="AWS::Serverless-2016-10-31"), "does not run transforms"),
    "transform-function": (value({"Fn::Transform": {"Name": "AWS::Include"}}), "unsupported function Fn::Transform"),
    # parameters
    "parameter-type": (put("Parameters", "Name", "Type", to="Strng"), "Unrecognized parameter type"),
    "list-of-string": (put("Parameters", "Name", "Type", to="List<String>"), "Unrecognized parameter type"),
    "parameter-key": (put("Parameters", "Name", "Defualt", to="x"), "Invalid template parameter property"),
    "default-is-a-list": (put("Parameters", "Name", "Default", to=["x"]), "Every Default member must be a string"),
    "default-not-allowed": (put("Parameters", "Name", "AllowedValues", to=["other"]), "AllowedValues"),
    "vpc-that-is-not-there": (
        put("Parameters", "V", to={"Type": "AWS::EC2::VPC::Id", "Default": "vpc-00000000"}),
        "vpc-00000000 for parameter name V does not exist",
    ),
    "subnets-that-are-not-there": (
        put("Parameters", "S", to={"Type": "List<AWS::EC2::Subnet::Id>", "Default": "subnet-00000000"}),
        "does not exist",
    ),
    "image-that-is-none": (
        put("Parameters", "I", to={"Type": "AWS::EC2::Image::Id", "Default": "vpc-1"}),
        "does not exist",
    ),
    "stored-parameter-that-is-not-there": (
        put("Parameters", "P", to={"Type": "AWS::SSM::Parameter::Name", "Default": "/nowhere"}),
        "Unable to fetch parameters",
    ),
    "number": (put("Parameters", "N", to={"Type": "List<Number>", "Default": "1,x"}), "must be a number"),
    # mappings
    "mapping-of-text": (put("Mappings", "Sizes", to={"us-east-1": "x"}), "map of maps"),
    "mapping-too-deep": (put("Mappings", "Sizes", "us-east-1", "Deep", to={"a": "b"}), "String or a List"),
    "no-such-key": (value({"Fn::FindInMap": ["Sizes", {"Ref": "AWS::Region"}, "Large"]}), "Unable to get mapping"),
    "default-without-extensions": (
        value({"Fn::FindInMap": ["Sizes", "x", "y", {"DefaultValue": "z"}]}),
        "AWS::LanguageExtensions only",
    ),
    "map-with-two": (value({"Fn::FindInMap": ["Sizes", "us-east-1"]}), "needs 3 arguments"),
    # conditions
    "condition-unknown": (put("Resources", "A", "Condition", to="Nope"), "Unresolved condition Nope"),
    "if-unknown-in-a-branch-not-taken": (
        value({"Fn::If": ["Yes", "x", {"Fn::If": ["Nope", "a", "b"]}]}),
        "Unresolved condition Nope",
    ),
    "condition-circle": (put("Conditions", "Yes", to={"Fn::Not": [{"Condition": "No"}]}), "circular conditions"),
    "condition-on-a-resource": (put("Conditions", "Yes", to={"Fn::Equals": [{"Ref": "A"}, "x"]}), "Unresolved"),
    "condition-with-getatt": (
        put("Conditions", "Yes", to={"Fn::Equals": [{"Fn::GetAtt": ["A", "Arn"]}, "x"]}),
        "cannot be used in the Conditions block",
    ),
    "condition-with-import": (
        put("Conditions", "Yes", to={"Fn::Equals": [{"Fn::ImportValue": "x"}, "x"]}),
        "cannot be used in the Conditions block",
    ),
    "not-with-two": (put("Conditions", "Yes", to={"Fn::Not": [{"Condition": "No"}] * 2}), "requires a list of 1"),
    "and-with-one": (
        put("Conditions", "No", to={"Fn::And": [{"Condition": "Yes"}]}),
        "requires a list of 2 to 10",
    ),
    "equals-without-list": (put("Conditions", "Yes", to={"Fn::Equals": "x"}), "requires a list of 2"),
    "condition-is-text": (put("Conditions", "Yes", to="true"), "Every Conditions member"),
    "and-in-a-property": (value({"Fn::And": [True, True]}), "Fn::And cannot be used"),
    # references
    "ref-in-a-branch-not-taken": (value({"Fn::If": ["Yes", "x", {"Ref": "Nowhere"}]}), "Nowhere"),
    "sub-in-a-branch-not-taken": (value({"Fn::If": ["Yes", "x", {"Fn::Sub": "${Nowhere.Arn}"}]}), "Nowhere"),
    "ref-in-a-resource-left-out": (put("Resources", "Out", "Properties", "Value", to={"Ref": "Nowhere"}), "Nowhere"),
    "type-in-a-resource-left-out": (put("Resources", "Out", "Type", to="AWS::S3::Nope"), "Unrecognized resource types"),
    "ref-in-metadata": (put("Resources", "A", "Metadata", to={"M": {"Ref": "Nowhere"}}), "Nowhere"),
    "ref-in-a-creation-policy": (
        put("Resources", "A", "CreationPolicy", to={"ResourceSignal": {"Count": {"Ref": "Nowhere"}}}),
        "Nowhere",
    ),
    "ref-in-an-output-left-out": (
        put("Outputs", "N", to={"Condition": "No", "Value": {"Ref": "Nowhere"}}),
        "Nowhere",
    ),
    "depends-on-nothing": (put("Resources", "A", "DependsOn", to=["Nowhere"]), "Nowhere"),
    "depends-on-a-function": (put("Resources", "A", "DependsOn", to={"Ref": "B"}), "DependsOn must be"),
    "depends-on-itself": (put("Resources", "A", "DependsOn", to="A"), "Circular dependency"),
    "refers-to-itself": (value({"Ref": "B"}), "Circular dependency"),
    "circle-through-metadata": (put("Resources", "A", "Metadata", to={"M": {"Ref": "B"}}), "Circular dependency"),
    "ref-of-a-list": (value({"Ref": ["A"]}), "single String value"),
    "pseudo-parameter": (value({"Ref": "AWS::Regoin"}), "AWS::Regoin"),
    # functions
    "join-with-a-function-for-a-delimiter": (value({"Fn::Join": [{"Ref": "Name"}, ["a", "b"]]}), "delimiter"),
    "join-of-text": (value({"Fn::Join": [",", "a"]}), "needs a list"),
    "join-of-a-list-in-a-list": (value({"Fn::Join": [",", [["a"], "b"]]}), "a string is needed"),
    "split-without-delimiter": (value({"Fn::Select": [0, {"Fn::Split": ["", "a"]}]}), "may not be empty"),
    "select-beyond": (value({"Fn::Select": [2, ["a", "b"]]}), "at index 2"),
    "select-negative": (value({"Fn::Select": ["-1", ["a", "b"]]}), "at index -1"),
    "select-by-text": (value({"Fn::Select": ["x", ["a", "b"]]}), "Fn::Select cannot work with"),
    "cidr-of-text": (value({"Fn::Select": [0, {"Fn::Cidr": ["x", 2, 8]}]}), "Fn::Cidr cannot work with"),
    "cidr-too-many": (value({"Fn::Select": [0, {"Fn::Cidr": ["10.0.0.0/24", 9, 5]}]}), "Fn::Cidr cannot take 9"),
    "cidr-zero": (value({"Fn::Join": ["", {"Fn::Cidr": ["10.0.0.0/16", 0, 8]}]}), "between 1 and 256"),
    "sub-of-a-function": (value({"Fn::Sub": {"Ref": "A"}}), "Fn::Sub intrinsic functions"),
    "sub-with-a-strange-name": (value({"Fn::Sub": "${A%.*}"}), "variable names in Fn::Sub"),
    "sub-with-nothing": (value({"Fn::Sub": "x${}"}), "variable names in Fn::Sub"),
    "sub-of-a-list": (value({"Fn::Sub": ["${L}", {"L": ["a"]}]}), "a string is needed"),
    "length-without-extensions": (value({"Fn::Length": ["a"]}), "needs the transform"),
    "json-without-extensions": (value({"Fn::ToJsonString": {"a": 1}}), "needs the transform"),
    "if-with-two": (value({"Fn::If": ["Yes", "x"]}), "Fn::If needs 3 arguments"),
    "if-beside-others": (value({"Fn::If": ["Yes", "x", "y"], "Other": "z"}), "must stand alone"),
    "null": (value(None), "null"),
    "import-of-a-reference": (value({"Fn::ImportValue": {"Ref": "A"}}), "must not depend on any resources"),
    "import-of-an-import": (value({"Fn::ImportValue": {"Fn::ImportValue": "x"}}), "must not depend on any resources"),
    "secure-string": (value("{{resolve:ssm-secure:/x}}"), "SSM Secure reference is not supported"),
    # policies
    "policy-unknown": (put("Resources", "A", "DeletionPolicy", to="Keep"), "Unrecognized DeletionPolicy"),
    "policy-function": (put("Resources", "A", "DeletionPolicy", to={"Ref": "Name"}), "must be a string"),
    "replace-policy-except-on-create": (
        put("Resources", "A", "UpdateReplacePolicy", to="RetainExceptOnCreate"),
        "Unrecognized UpdateReplacePolicy",
    ),
    "snapshot": (put("Resources", "A", "DeletionPolicy", to="Snapshot"), "takes no snapshots"),
    "resource-key": (put("Resources", "A", "DeletePolicy", to="Retain"), "Invalid template resource property"),
    # outputs
    "output-without-value": (put("Outputs", "Y", to={"Description": "x"}), "needs a Value"),
    "output-key": (put("Outputs", "X", "Values", to="x"), "Invalid template output property"),
    "output-list": (put("Outputs", "X", "Value", to=["a"]), "must evaluate to a String"),
    "output-that-becomes-a-list": (put("Outputs", "X", "Value", to={"Fn::GetAZs": ""}), "a string is needed"),
    "output-condition": (put("Outputs", "X", "Condition", to="Nope"), "Unresolved condition Nope"),
    "export-twice": (put("Outputs", "Y", to={"Value": "y", "Export": {"Name": "good:x"}}), "given twice"),
    "export-name-with-a-slash": (put("Outputs", "X", "Export", to={"Name": "a/b"}), "alphanumeric characters"),
    "export-empty": (put("Outputs", "X", "Value", to=" "), "must not be empty"),
    "export-without-name": (put("Outputs", "X", "Export", to={}), "Export needs a Name"),
    "export-name-from-a-resource": (
        put("Outputs", "X", "Export", to={"Name": {"Ref": "A"}}),
        "must not depend on any resources",
    ),
    # properties
    "property-unknown": (put("Resources", "A", "Properties", "Foo", to=1), "'Foo' was unexpected"),
    "property-unknown-deep": (
        put("Resources", "A", "Properties", "VersioningConfiguration", to={"Status": "Enabled", "Foo": 1}),
        "'Foo' was unexpected",
    ),
    "property-of-the-wrong-kind": (put("Resources", "A", "Properties", "BucketName", to=["x"]), "is not of type"),
    "property-outside-its-values": (
        put("Resources", "A", "Properties", "VersioningConfiguration", to={"Status": "On"}),
        "is not one of",
    ),
    "property-read-only": (put("Resources", "A", "Properties", "Arn", to="arn:aws:s3:::x"), "read-only.*Arn"),
    "two-of-which-one": (
        put("Resources", "G", to={"Type": "AWS::AutoScaling::AutoScalingGroup", "Properties": {
            "MinSize": "0", "MaxSize": "0", "LaunchConfigurationName": "x", "InstanceId": "i-1",
        }}),
        "exactly one of",
    ),
    "none-of-which-one": (put("Resources", "G", to={"Type": "AWS::Events::Rule", "Properties": {}}), "at least one of"),
    "two-that-exclude-each-other": (
        put("Resources", "S", to={"Type": "AWS::EC2::Subnet", "Properties": {
            "VpcId": "vpc-12345678", "CidrBlock": "10.0.0.0/24", "AvailabilityZone": "us-east-1a",
            "AvailabilityZoneId": "use1-az6",
        }}),
        "exclude each other",
    ),
    "a-subnet-for-a-vpc": (
        put("Resources", "S", to={"Type": "AWS::EC2::SecurityGroup", "Properties": {
            "GroupDescription": "x", "VpcId": "subnet-12345678",
        }}),
        "is not a AWS::EC2::VPC.Id",
    ),
}  # fmt: skip


def test_the_good_template_deploys(aws_emulator: Emulator) -> None:
    stack = aws_emulator.deploy(good(), "good")
    assert stack.resource("B").properties["Value"] == stack.physical_ids["A"]


@pytest.mark.parametrize("case", REFUSED)
def test_refused(aws_emulator: Emulator, case: str) -> None:
    change, why = REFUSED[case]
    template = good()
    change(template)
    with pytest.raises(StackFailedError, match=why):
        aws_emulator.deploy(template, "bad")
    s3 = aws_emulator.client("s3")
    assets = aws_emulator.bootstrap()
    assert [item["Name"] for item in s3.list_buckets()["Buckets"]] == [assets], "something was left behind"


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_name_that_stands_there_twice_is_refused(aws_emulator: Emulator, form: str) -> None:
    """A parser that takes the last one would lose a resource without a word."""
    text = {
        "json": '{"Resources": {"A": {"Type": "AWS::S3::Bucket"}, "A": {"Type": "AWS::SNS::Topic"}}}',
        "yaml": "Resources:\n  A: {Type: 'AWS::S3::Bucket'}\n  A: {Type: 'AWS::SNS::Topic'}\n",
    }[form]
    with pytest.raises(StackFailedError, match=r"duplicate keys \['A'\]"):
        aws_emulator.deploy(text, "twice")


@pytest.mark.parametrize("text", ["", "[]", "{", "a: b: c", "Resources: {}", "\x00"])
def test_text_that_is_no_template_is_refused(aws_emulator: Emulator, text: str) -> None:
    with pytest.raises(StackFailedError):
        aws_emulator.deploy(text, "bad")


@pytest.mark.parametrize("name", ["1a", "a_b", "a b", "ä", "a" * 129, "a.b"])
def test_a_stack_name_that_cloudformation_refuses(aws_emulator: Emulator, name: str) -> None:
    with pytest.raises(StackFailedError, match="'stackName' failed to satisfy constraint"):
        aws_emulator.deploy(good(), name)


def test_language_extensions_bring_their_functions(aws_emulator: Emulator) -> None:
    template = {**good(), "Transform": "AWS::LanguageExtensions"}
    found = {"Fn::FindInMap": ["Sizes", "nowhere", "Small", {"DefaultValue": {"Fn::ToJsonString": {"a": ["b"]}}}]}
    template["Resources"]["B"]["Properties"]["Value"] = found
    template["Resources"]["B"]["DeletionPolicy"] = {"Fn::If": ["Yes", "Retain", "Delete"]}
    stack = aws_emulator.deploy(template, "extended")
    assert json.loads(stack.resource("B").properties["Value"]) == {"a": ["b"]}
    assert stack.resource("B").deletion_policy == "Retain"


VALUES: dict[str, tuple[Any, str]] = {
    "literal": ({"Fn::Sub": "${!Name}-${Name}-$Name-$${Name}"}, "${Name}-lake-$Name-$lake"),
    "sub-map-wins": ({"Fn::Sub": ["${Name}", {"Name": "other"}]}, "other"),
    "sub-attribute": ({"Fn::Sub": "${Named.Arn}"}, "arn:aws:s3:::named"),
    "if-inside-join": (
        {"Fn::Join": ["-", ["a", {"Fn::If": ["No", "b", {"Ref": "AWS::NoValue"}]}, "c"]]}, "a-c"
    ),
    "if-inside-sub": ({"Fn::Sub": ["${X}", {"X": {"Fn::If": ["Yes", "x", "y"]}}]}, "x"),
    "join-of-a-list-parameter": ({"Fn::Join": ["+", {"Ref": "List"}]}, "1+2+3"),
    "select-of-a-list-parameter": ({"Fn::Select": ["1", {"Ref": "List"}]}, "2"),
    "select-of-a-split": ({"Fn::Select": [1, {"Fn::Split": [".", "a.b.c"]}]}, "b"),
    "map-of-a-list": ({"Fn::Select": [1, {"Fn::FindInMap": ["Sizes", {"Ref": "AWS::Region"}, "List"]}]}, "b"),
    "cidr": ({"Fn::Select": [3, {"Fn::Cidr": ["10.0.0.0/16", 4, 8]}]}, "10.0.3.0/24"),
    "zones": ({"Fn::Select": [0, {"Fn::GetAZs": {"Ref": "AWS::Region"}}]}, "us-east-1a"),
    "base64": ({"Fn::Base64": {"Fn::Sub": "${Name}"}}, "bGFrZQ=="),
    "number-keeps-its-zeros": ({"Ref": "Number"}, "007"),
    "boolean": ({"Fn::Join": ["", [True, 1, 1.5]]}, "true11.5"),
    "dynamic": ("a-{{resolve:ssm:/stored}}-b", "a-value-b"),
    "dynamic-out-of-a-sub": ({"Fn::Sub": ["{{resolve:ssm:/${X}}}", {"X": "stored"}]}, "value"),
    "dynamic-out-of-a-join": ({"Fn::Join": ["", ["{{resolve:ssm:", "/stored", "}}"]]}, "value"),
    "stored-parameter": ({"Ref": "Stored"}, "value"),
    "condition-in-or": ({"Fn::If": ["Either", "x", "y"]}, "x"),
}  # fmt: skip


@pytest.mark.parametrize("case", VALUES)
def test_a_value(aws_emulator: Emulator, case: str) -> None:
    given, wanted = VALUES[case]
    aws_emulator.client("ssm").put_parameter(Name="/stored", Value="value", Type="String")
    template = good()
    template["Parameters"] |= {
        "List": {"Type": "CommaDelimitedList", "Default": "1, 2,3"},
        "Number": {"Type": "Number", "Default": "007"},
        "Stored": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/stored"},
    }
    template["Conditions"]["Either"] = {"Fn::Or": [{"Condition": "No"}, {"Condition": "Yes"}]}
    template["Resources"] |= {"Named": bucket(BucketName="named"), "B": parameter(given)}
    assert aws_emulator.deploy(template, "values").resource("B").properties["Value"] == wanted


@pytest.mark.parametrize(
    ("region", "partition", "suffix"),
    [
        ("cn-north-1", "aws-cn", "amazonaws.com.cn"),
        ("us-gov-west-1", "aws-us-gov", "amazonaws.com"),
        ("eu-central-2", "aws", "amazonaws.com"),
    ],
)
def test_pseudo_parameters_of_other_partitions(
    aws_emulator: Emulator, region: str, partition: str, suffix: str
) -> None:
    template = {
        "Resources": {
            "A": bucket(),
            "B": parameter({"Fn::Sub": "${AWS::Partition} ${AWS::Region} ${AWS::URLSuffix} ${AWS::AccountId}"}),
        },
        "Outputs": {"Arn": {"Value": {"Fn::GetAtt": ["A", "Arn"]}}, "Id": {"Value": {"Ref": "AWS::StackId"}}},
    }
    stack = aws_emulator.deploy(template, "there", region=region)
    assert stack.resource("B").properties["Value"] == f"{partition} {region} {suffix} 123456789012"
    assert stack.outputs["Arn"].startswith(f"arn:{partition}:s3:::")
    assert stack.id.startswith(f"arn:{partition}:cloudformation:{region}:")
    assert aws_emulator.destroy("there", region=region).status == "DELETE_COMPLETE"


def test_a_secret_parameter_is_not_shown(aws_emulator: Emulator) -> None:
    template = good()
    template["Parameters"]["Name"]["NoEcho"] = True
    aws_emulator.deploy(template, "secret", {"Name": "lake"})
    shown = aws_emulator.client("cloudformation").describe_stacks(StackName="secret")["Stacks"][0]["Parameters"]
    assert shown == [{"ParameterKey": "Name", "ParameterValue": "****"}]


def test_a_secure_string_is_no_parameter_value(aws_emulator: Emulator) -> None:
    aws_emulator.client("ssm").put_parameter(Name="/secret", Value="x", Type="SecureString")
    template = good()
    template["Parameters"]["S"] = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/secret"}
    with pytest.raises(StackFailedError, match="types not supported by CloudFormation"):
        aws_emulator.deploy(template, "secret")


# --- the API


ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}


@pytest.mark.parametrize(
    ("named", "given", "needed"),
    [
        (False, [], "CAPABILITY_IAM"),
        (True, ["CAPABILITY_IAM"], "CAPABILITY_NAMED_IAM"),
        (False, ["CAPABILITY_IAM"], None),
        (False, ["CAPABILITY_NAMED_IAM"], None),
        (True, ["CAPABILITY_NAMED_IAM"], None),
    ],
)
@pytest.mark.parametrize("operation", ["create_stack", "create_change_set"])
def test_identities_need_to_be_acknowledged(
    aws_emulator: Emulator, operation: str, named: bool, given: list[str], needed: str | None
) -> None:
    role = copy.deepcopy(ROLE)
    if named:
        role["Properties"]["RoleName"] = "mine"  # type: ignore[index]
    client = aws_emulator.client("cloudformation")
    more = {"ChangeSetName": "c", "ChangeSetType": "CREATE"} if operation == "create_change_set" else {}
    call = getattr(client, operation)
    body = json.dumps({"Resources": {"R": role}})
    if needed is None:
        call(StackName="roles", TemplateBody=body, Capabilities=given, **more)
        return
    with pytest.raises(client.exceptions.InsufficientCapabilitiesException, match=rf"\[{needed}\]"):
        call(StackName="roles", TemplateBody=body, Capabilities=given, **more)
    assert aws_emulator.stacks() == []


@pytest.mark.parametrize(
    ("options", "status"),
    [
        ({}, "ROLLBACK_COMPLETE"),
        ({"DisableRollback": True}, "CREATE_FAILED"),
        ({"DisableRollback": False}, "ROLLBACK_COMPLETE"),
        ({"OnFailure": "DO_NOTHING"}, "CREATE_FAILED"),
        ({"OnFailure": "ROLLBACK"}, "ROLLBACK_COMPLETE"),
        ({"OnFailure": "DELETE"}, "DELETE_COMPLETE"),
    ],
)
def test_what_a_failed_create_leaves(aws_emulator: Emulator, options: dict[str, Any], status: str) -> None:
    body = json.dumps({"Resources": {"A": bucket(BucketName="first"), "B": {**bucket(Foo=1), "DependsOn": "A"}}})
    client = aws_emulator.client("cloudformation")
    made = client.create_stack(StackName="failing", TemplateBody=body, **options)["StackId"]
    assert client.describe_stacks(StackName=made)["Stacks"][0]["StackStatus"] == status
    names = [item["Name"] for item in aws_emulator.client("s3").list_buckets()["Buckets"]]
    assert ("first" in names) == (status == "CREATE_FAILED")


def test_a_template_too_long_to_be_sent_inline(aws_emulator: Emulator) -> None:
    client = aws_emulator.client("cloudformation")
    body = json.dumps({"Metadata": {"Filler": "x" * 52_000}, "Resources": {"A": bucket()}})
    with pytest.raises(client.exceptions.ClientError, match="51200"):
        client.create_stack(StackName="long", TemplateBody=body)


def test_a_template_that_is_too_long(aws_emulator: Emulator) -> None:
    template = {"Metadata": {"Filler": "x" * 1_100_000}, "Resources": {"A": bucket()}}
    with pytest.raises(StackFailedError, match="may not exceed"):
        aws_emulator.deploy(template, "long")


def test_imports_into_a_stack_are_refused(aws_emulator: Emulator) -> None:
    client = aws_emulator.client("cloudformation")
    with pytest.raises(client.exceptions.ClientError, match="does not import existing resources"):
        client.create_change_set(
            StackName="s",
            ChangeSetName="c",
            ChangeSetType="IMPORT",
            TemplateBody=json.dumps({"Resources": {"A": bucket()}}),
            ResourcesToImport=[
                {
                    "ResourceType": "AWS::S3::Bucket",
                    "LogicalResourceId": "A",
                    "ResourceIdentifier": {"BucketName": "b"},
                }
            ],
        )


def test_stack_sets_are_refused(aws_emulator: Emulator) -> None:
    client = aws_emulator.client("cloudformation")
    with pytest.raises(client.exceptions.ClientError, match="does not run stack sets"):
        client.create_stack_set(StackSetName="s", TemplateBody=json.dumps({"Resources": {"A": bucket()}}))


def test_resources_are_retained_by_hand_only_after_a_failed_delete(aws_emulator: Emulator) -> None:
    aws_emulator.deploy({"Resources": {"A": bucket()}}, "s")
    client = aws_emulator.client("cloudformation")
    with pytest.raises(client.exceptions.ClientError, match="DELETE_FAILED"):
        client.delete_stack(StackName="s", RetainResources=["A"])


def test_a_change_set_is_void_after_another_was_executed(aws_emulator: Emulator) -> None:
    aws_emulator.deploy({"Resources": {"A": parameter("1")}}, "s")
    client = aws_emulator.client("cloudformation")
    for number in ("2", "3"):
        body = json.dumps({"Resources": {"A": parameter(number)}})
        client.create_change_set(StackName="s", ChangeSetName=f"c{number}", TemplateBody=body)
    with pytest.raises(client.exceptions.AlreadyExistsException):
        client.create_change_set(StackName="s", ChangeSetName="c2", TemplateBody=body)
    client.execute_change_set(StackName="s", ChangeSetName="c3")
    with pytest.raises(client.exceptions.ClientError, match="does not exist"):
        client.execute_change_set(StackName="s", ChangeSetName="c2")
    assert aws_emulator.stack("s").resource("A").properties["Value"] == "3"
