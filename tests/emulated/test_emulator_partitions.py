"""Regions outside the partition ``aws``: ARNs, host names and service endpoints of China and of AWS GovCloud (US)."""

from __future__ import annotations

from typing import Any

import boto3
import pytest

from tests.emulated.emulator_templates import file_system, s3_files
from training_storage.emulator import Emulator, emulator

PLACES = {"cn-north-1": ("aws-cn", "amazonaws.com.cn"), "us-gov-west-1": ("aws-us-gov", "amazonaws.com")}


def everywhere(region: str) -> dict[str, Any]:
    """A stack with a resource of every service that the product uses."""
    template = s3_files()
    resources = template["Resources"]
    resources["Fs"] = file_system()
    zones = {"cn-north-1": "cnn1-az1", "us-gov-west-1": "usgw1-az1"}
    resources["Subnet"]["Properties"]["AvailabilityZoneId"] = zones[region]
    resources["Role"]["Properties"]["ManagedPolicyArns"] = [
        {"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"}
    ]
    resources |= {
        "Key": {"Type": "AWS::KMS::Key", "Properties": {}},
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {}},
        "Logs": {"Type": "AWS::Logs::LogGroup", "Properties": {}},
        "Table": {"Type": "AWS::EC2::RouteTable", "Properties": {"VpcId": {"Ref": "Vpc"}}},
        "Gateway": {
            "Type": "AWS::EC2::VPCEndpoint",
            "Properties": {
                "VpcId": {"Ref": "Vpc"},
                "ServiceName": {"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"},
                "RouteTableIds": [{"Ref": "Table"}],
            },
        },
    }
    attributes = [("Role", "Arn"), ("Bucket", "Arn"), ("Key", "Arn"), ("Logs", "Arn"), ("Fs", "ResourceARN")]
    template["Outputs"] = {name: {"Value": {"Fn::GetAtt": [name, attribute]}} for name, attribute in attributes}
    template["Outputs"] |= {name: {"Value": {"Ref": name}} for name in ("Topic", "Files")}
    template["Outputs"] |= {
        "FsHost": {"Value": {"Fn::GetAtt": ["Fs", "DNSName"]}},
        "BucketHost": {"Value": {"Fn::GetAtt": ["Bucket", "RegionalDomainName"]}},
        "Partition": {"Value": {"Ref": "AWS::Partition"}},
        "UrlSuffix": {"Value": {"Ref": "AWS::URLSuffix"}},
    }
    return template


@pytest.fixture(params=sorted(PLACES))
def region(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def outputs(aws_emulator: Emulator, region: str) -> dict[str, str]:
    return aws_emulator.deploy(everywhere(region), "all", region=region).outputs


def test_arns_have_their_partition(region: str, outputs: dict[str, str]) -> None:
    partition, suffix = PLACES[region]
    assert (outputs["Partition"], outputs["UrlSuffix"]) == (partition, suffix)
    for name in ("Role", "Bucket", "Key", "Logs", "Fs", "Topic", "Files"):
        assert outputs[name].startswith(f"arn:{partition}:"), name


def test_hosts_have_their_suffix(region: str, outputs: dict[str, str]) -> None:
    suffix = PLACES[region][1]
    assert outputs["FsHost"].endswith(f".fsx.{region}.{suffix}")
    assert outputs["BucketHost"].endswith(f".s3.{region}.{suffix}")


def test_the_services_show_what_was_made(aws_emulator: Emulator, region: str, outputs: dict[str, str]) -> None:
    iam, name = aws_emulator.client("iam", region=region), outputs["Role"].rsplit("/", 1)[-1]
    assert iam.get_role(RoleName=name)["Role"]["Arn"] == outputs["Role"]
    files = aws_emulator.client("s3files", region=region)
    assert files.get_file_system(fileSystemId=outputs["Files"])["status"] == "available"
    systems = aws_emulator.client("fsx", region=region).describe_file_systems()["FileSystems"]
    assert [item["ResourceARN"] for item in systems] == [outputs["Fs"]]


def test_everything_goes_again(aws_emulator: Emulator, region: str, outputs: dict[str, str]) -> None:
    assert outputs
    assert aws_emulator.destroy("all", region=region).status == "DELETE_COMPLETE"
    assert aws_emulator.client("s3", region=region).list_buckets()["Buckets"][0]["Name"].startswith("cdk-")
    assert aws_emulator.client("s3files", region=region).list_file_systems()["fileSystems"] == []


def test_nothing_of_it_is_seen_elsewhere(aws_emulator: Emulator, outputs: dict[str, str]) -> None:
    assert outputs
    assert aws_emulator.client("iam").list_roles()["Roles"] == []
    assert aws_emulator.client("s3").list_buckets()["Buckets"] == []
    assert aws_emulator.client("s3files").list_file_systems()["fileSystems"] == []


def test_callers_may_be_at_home_there(region: str) -> None:
    with emulator(region=region) as aws:
        stack = aws.deploy(everywhere(region), "all")
        assert stack.id.startswith(f"arn:{PLACES[region][0]}:cloudformation:{region}:")
        # a client of its own, which finds its endpoints by itself
        own = boto3.client("s3files", region_name=region)
        assert len(own.list_file_systems()["fileSystems"]) == 1
        assert len(boto3.client("iam", region_name=region).list_roles()["Roles"]) == 1


@pytest.mark.slow
def test_the_same_over_http(region: str) -> None:
    with emulator(region=region) as aws:
        aws.deploy(everywhere(region), "all")
        where: Any = {
            "endpoint_url": aws.server.url,
            "region_name": region,
            "aws_access_key_id": "testing",
            "aws_secret_access_key": "testing",
        }
        arns = [
            boto3.client("iam", **where).list_roles()["Roles"][0]["Arn"],
            boto3.client("s3files", **where).list_file_systems()["fileSystems"][0]["fileSystemArn"],
            boto3.client("fsx", **where).describe_file_systems()["FileSystems"][0]["ResourceARN"],
        ]
        assert {arn.split(":")[1] for arn in arns} == {PLACES[region][0]}
        assert len(boto3.client("s3", **where).list_buckets()["Buckets"]) == 2
        assert aws.server.failures == []
