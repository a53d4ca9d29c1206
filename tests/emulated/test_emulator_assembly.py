"""Cloud assemblies in the emulator: order, assets, parameters, accounts and regions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from training_storage.emulator import Emulator, EmulatorError, StackFailedError, emulator


def parameter(value: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}}


BASE = {
    "Resources": {"A": parameter("base")},
    "Outputs": {"Value": {"Value": "from-base", "Export": {"Name": "base:value"}}},
}
TOP = {"Resources": {"A": parameter({"Fn::ImportValue": "base:value"})}}
HANDLER = {
    "Resources": {
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
        },
        "Function": {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {
                    "S3Bucket": {"Fn::Sub": "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}"},
                    "S3Key": "code.zip",
                },
                "Handler": "main.handler",
                "Runtime": "python3.13",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        },
    }
}


class Assembly:
    """Writes what ``cdk synth`` would write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.artifacts: dict[str, Any] = {}

    def add(
        self,
        name: str,
        template: dict[str, Any],
        *,
        after: tuple[str, ...] = (),
        environment: str = "aws://unknown-account/unknown-region",
        files: dict[str, Any] | None = None,
        images: dict[str, Any] | None = None,
        **properties: Any,
    ) -> None:
        (self.folder / f"{name}.template.json").write_text(json.dumps(template))
        assets = {"version": "1", "files": files or {}, "dockerImages": images or {}}
        (self.folder / f"{name}.assets.json").write_text(json.dumps(assets))
        self.artifacts[f"{name}.assets"] = {"type": "cdk:asset-manifest", "properties": {"file": f"{name}.assets.json"}}
        self.artifacts[name] = {
            "type": "aws:cloudformation:stack",
            "environment": environment,
            "properties": {"templateFile": f"{name}.template.json", **properties},
            "dependencies": [*after, f"{name}.assets"],
        }
        manifest = {"version": "55.0.0", "artifacts": self.artifacts}
        (self.folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.fixture
def assembly(tmp_path: Path) -> Assembly:
    return Assembly(tmp_path)


def test_stacks_go_in_the_order_of_their_dependencies(aws_emulator: Emulator, assembly: Assembly) -> None:
    assembly.add("top", TOP, after=("base",))
    assembly.add("base", BASE)
    deployed = aws_emulator.deploy_assembly(assembly.folder)
    assert list(deployed) == ["base", "top"]
    assert deployed["top"].resource("A").properties["Value"] == "from-base"


def test_a_chosen_stack_brings_what_it_needs(aws_emulator: Emulator, assembly: Assembly) -> None:
    assembly.add("base", BASE)
    assembly.add("other", {"Resources": {"A": parameter("x")}})
    assembly.add("top", TOP, after=("base",), stackName="the-top")
    assert list(aws_emulator.deploy_assembly(assembly.folder, ["the-top"])) == ["base", "the-top"]
    with pytest.raises(EmulatorError, match="no stack nowhere; stacks: base, other, the-top"):
        aws_emulator.deploy_assembly(assembly.folder, ["nowhere"])


def test_a_second_deploy_changes_nothing(aws_emulator: Emulator, assembly: Assembly) -> None:
    assembly.add("base", BASE)
    first = aws_emulator.deploy_assembly(assembly.folder)["base"]
    second = aws_emulator.deploy_assembly(assembly.folder)["base"]
    assert (second.events, second.physical_ids) == (first.events, first.physical_ids)


def test_what_failed_stops_the_rest(aws_emulator: Emulator, assembly: Assembly) -> None:
    assembly.add("base", {"Resources": {"A": {"Type": "AWS::S3::Bucket", "Properties": {"Foo": 1}}}})
    assembly.add("top", TOP, after=("base",))
    with pytest.raises(StackFailedError, match="'Foo' was unexpected"):
        aws_emulator.deploy_assembly(assembly.folder)
    assert "top" not in aws_emulator.stacks()


def test_file_assets_are_where_the_template_looks(aws_emulator: Emulator, assembly: Assembly) -> None:
    code = assembly.folder / "asset.code"
    code.mkdir()
    (code / "main.py").write_text("def handler(event, context):\n    return 'from the asset'\n")
    destination = {
        "bucketName": "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}",
        "objectKey": "code.zip",
    }
    source = {"path": "asset.code", "packaging": "zip"}
    assembly.add("code", HANDLER, files={"x": {"source": source, "destinations": {"current": destination}}})
    name = aws_emulator.deploy_assembly(assembly.folder)["code"].physical_ids["Function"]
    answer = aws_emulator.client("lambda").invoke(FunctionName=name)["Payload"].read()
    assert json.loads(answer) == "from the asset"


def test_container_images_are_refused(aws_emulator: Emulator, assembly: Assembly) -> None:
    assembly.add("code", BASE, images={"x": {}})
    with pytest.raises(EmulatorError, match="container image assets"):
        aws_emulator.deploy_assembly(assembly.folder)


def test_parameters_tags_and_bootstrap_version(aws_emulator: Emulator, assembly: Assembly) -> None:
    version = {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}
    template = {
        "Parameters": {"Name": {"Type": "String"}, "BootstrapVersion": version},
        "Resources": {
            "A": parameter({"Ref": "Name"}),
            "V": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        },
    }
    assembly.add("stack", template, parameters={"Name": "assembly"}, tags={"team": "ml"})
    stack = aws_emulator.deploy_assembly(assembly.folder)["stack"]
    assert stack.resource("A").properties["Value"] == "assembly"
    vpc = aws_emulator.client("ec2").describe_vpcs(VpcIds=[stack.physical_ids["V"]])["Vpcs"][0]
    assert {"Key": "team", "Value": "ml"} in vpc["Tags"]
    stack = aws_emulator.deploy_assembly(assembly.folder, parameters={"stack": {"Name": "given"}})["stack"]
    assert stack.resource("A").properties["Value"] == "given"


def test_account_and_region_of_the_stack(aws_emulator: Emulator, assembly: Assembly) -> None:
    where = {"Fn::Sub": "${AWS::AccountId} ${AWS::Region}"}
    assembly.add("stack", {"Resources": {"A": parameter(where)}}, environment="aws://111111111111/eu-west-1")
    stack = aws_emulator.deploy_assembly(assembly.folder)["stack"]
    assert stack.resource("A").properties["Value"] == "111111111111 eu-west-1"
    name = stack.physical_ids["A"]
    there = aws_emulator.client("ssm", account="111111111111", region="eu-west-1")
    assert there.get_parameter(Name=name)["Parameter"]["Value"] == "111111111111 eu-west-1"
    assert aws_emulator.stacks() == []
    assert aws_emulator.stacks(account="111111111111", region="eu-west-1") == ["stack"]


def test_the_emulator_can_be_that_account(assembly: Assembly) -> None:
    assembly.add("stack", BASE, environment="aws://111111111111/eu-west-1")
    with emulator(account="111111111111", region="eu-west-1") as aws:
        assert aws.client("sts").get_caller_identity()["Account"] == "111111111111"
        aws.deploy_assembly(assembly.folder)
        assert aws.stacks() == ["stack"]


def test_no_assembly(aws_emulator: Emulator, tmp_path: Path) -> None:
    with pytest.raises(EmulatorError, match="no cloud assembly"):
        aws_emulator.deploy_assembly(tmp_path)
