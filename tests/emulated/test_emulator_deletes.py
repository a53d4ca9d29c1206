"""Stacks deleted through the API by code that runs in the emulator, as the release of a run does it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulated.emulator_templates import hot
from training_storage.emulator import Emulator, emulator, run_command

ROLE = {
    "Type": "AWS::IAM::Role",
    "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
}
GUARD = """
import json, os, urllib.request
import boto3

def handler(event, context):
    there = boto3.client("ssm").get_parameters(Names=["may-go"])["Parameters"]
    ok = event["RequestType"] != "Delete" or bool(there)
    answer = {"Status": "SUCCESS" if ok else "FAILED", "Reason": "no proof: run training-storage release",
              "PhysicalResourceId": "guard", "StackId": event["StackId"], "RequestId": event["RequestId"],
              "LogicalResourceId": event["LogicalResourceId"]}
    request = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), method="PUT")
    urllib.request.urlopen(request)
"""
DELETER = """
import boto3

def handler(event, context):
    client = boto3.client("cloudformation")
    arn = client.describe_stacks(StackName=event["name"])["Stacks"][0]["StackId"]
    client.delete_stack(StackName=event["name"])
    stack = client.describe_stacks(StackName=arn)["Stacks"][0]
    events = client.describe_stack_events(StackName=arn)["StackEvents"]
    failed = [one["ResourceStatusReason"] for one in events if one["ResourceStatus"] == "DELETE_FAILED"]
    return {"status": stack["StackStatus"], "failed": failed}
"""


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as aws:
        template = {"Resources": {"Role": ROLE, "Function": function(DELETER)}}
        aws.deploy(template, "lake")
        yield aws


def function(code: str) -> dict[str, Any]:
    properties = {
        "Code": {"ZipFile": code},
        "Handler": "index.handler",
        "Runtime": "python3.13",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Timeout": 60,
    }
    return {"Type": "AWS::Lambda::Function", "Properties": properties}


def delete(aws: Emulator, name: str) -> dict[str, Any]:
    where = aws.stack("lake").physical_ids["Function"]
    answer = aws.client("lambda").invoke(FunctionName=where, Payload=json.dumps({"name": name}).encode())
    found: dict[str, Any] = json.loads(answer["Payload"].read())
    return found


def test_a_function_deletes_a_stack(running: Emulator) -> None:
    running.deploy(hot(), "hot")
    assert delete(running, "hot") == {"status": "DELETE_COMPLETE", "failed": []}
    assert running.stacks() == ["lake"]
    assert running.client("fsx").describe_file_systems()["FileSystems"] == []


def test_a_guard_refuses_and_lets_go(running: Emulator) -> None:
    template = hot()
    guard = {
        "Type": "Custom::Guard",
        "DependsOn": ["Fs", "Link"],
        "Properties": {"ServiceToken": {"Fn::GetAtt": ["Function", "Arn"]}},
    }
    template["Resources"] |= {"Role": ROLE, "Function": function(GUARD), "Guard": guard}
    ids = running.deploy(template, "guarded").physical_ids
    running.file_system(ids["Fs"]).write("datasets/precious", b"1")
    refused = delete(running, "guarded")
    assert refused["status"] == "DELETE_FAILED"
    assert any("no proof: run training-storage release" in reason for reason in refused["failed"])
    assert running.file_system(ids["Fs"]).files() == ["datasets/precious"]
    running.client("ssm").put_parameter(Name="may-go", Value="yes", Type="String")
    assert delete(running, "guarded")["status"] == "DELETE_COMPLETE"


SCRIPT = """
import boto3, io, os, pathlib, time
s3, fsx, ec2 = boto3.client("s3"), boto3.client("fsx"), boto3.client("ec2")
s3.create_bucket(Bucket="lake")
vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/18")["Subnet"]["SubnetId"]
made = fsx.create_file_system(FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[subnet],
    FileSystemTypeVersion="2.15", LustreConfiguration={"DeploymentType": "PERSISTENT_2"})["FileSystem"]["FileSystemId"]
fsx.create_data_repository_association(FileSystemId=made, FileSystemPath="/out", DataRepositoryPath="s3://lake/out/",
    S3={"AutoExportPolicy": {"Events": ["NEW"]}})
place = pathlib.Path(os.environ["TRAINING_STORAGE_EMULATOR_FILES"]) / made / "out"
(place / "a").write_bytes(b"by itself")
deadline = time.time() + 30
while not s3.list_objects_v2(Bucket="lake").get("KeyCount") and time.time() < deadline:
    time.sleep(0.05)
print(s3.get_object(Bucket="lake", Key="out/a")["Body"].read().decode())
"""


def test_a_command_finds_the_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "work.py"
    script.write_text(SCRIPT)
    assert run_command([sys.executable, str(script)]) == 0
    assert capfd.readouterr().out == "by itself\n"
