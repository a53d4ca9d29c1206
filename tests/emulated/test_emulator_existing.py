"""Stacks that stand on what somebody else has made: networks, groups, roles, keys, buckets and file systems."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.emulated.emulator_templates import file_system, link, network, s3_files, without
from training_storage.emulator import Emulator, StackFailedError

HOT = "hot--use1-az6--x-s3"


@pytest.fixture
def there(aws_emulator: Emulator) -> dict[str, str]:
    """A network, a key and buckets, made without a stack."""
    ec2, s3 = aws_emulator.client("ec2"), aws_emulator.client("s3")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZoneId="use1-az6")["Subnet"]["SubnetId"]
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    group = ec2.create_security_group(VpcId=vpc, GroupName="storage", Description="storage")["GroupId"]
    everything = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=everything)
    s3.create_bucket(Bucket="lake-1")
    s3.put_bucket_versioning(Bucket="lake-1", VersioningConfiguration={"Status": "Enabled"})
    s3.create_bucket(
        Bucket=HOT,
        CreateBucketConfiguration={
            "Location": {"Name": "use1-az6", "Type": "AvailabilityZone"},
            "Bucket": {"Type": "Directory", "DataRedundancy": "SingleAvailabilityZone"},
        },
    )
    key = aws_emulator.client("kms").create_key()["KeyMetadata"]["Arn"]
    return {"Vpc": vpc, "Subnet": subnet, "Table": table, "Group": group, "Key": key}


def document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def on(template: dict[str, Any], there: dict[str, str], *names: str) -> dict[str, Any]:
    """Return a template with references to what is there in place of its own resources."""
    text = json.dumps(without(template, *names))
    for name in names:
        if name in there:
            text = text.replace(json.dumps({"Ref": name}), json.dumps(there[name]))
    return dict(json.loads(text))


def test_a_gateway_endpoint_on_given_route_tables(aws_emulator: Emulator, there: dict[str, str]) -> None:
    endpoint = {
        "Type": "AWS::EC2::VPCEndpoint",
        "Properties": {
            "VpcId": there["Vpc"],
            "ServiceName": {"Fn::Sub": "com.amazonaws.${AWS::Region}.s3express"},
            "RouteTableIds": [there["Table"]],
        },
    }
    ids = aws_emulator.deploy({"Resources": {"Endpoint": endpoint}}, "net").physical_ids
    ec2 = aws_emulator.client("ec2")
    shown = ec2.describe_vpc_endpoints(VpcEndpointIds=[ids["Endpoint"]])["VpcEndpoints"][0]
    assert (shown["VpcId"], shown["RouteTableIds"], shown["VpcEndpointType"]) == (
        there["Vpc"],
        [there["Table"]],
        "Gateway",
    )
    aws_emulator.destroy("net")
    assert ec2.describe_route_tables(RouteTableIds=[there["Table"]])["RouteTables"]


def test_rules_on_a_given_group(aws_emulator: Emulator, there: dict[str, str]) -> None:
    client = {"Type": "AWS::EC2::SecurityGroup", "Properties": {"GroupDescription": "nodes", "VpcId": there["Vpc"]}}
    rule = {
        "Type": "AWS::EC2::SecurityGroupIngress",
        "Properties": {
            "GroupId": there["Group"],
            "IpProtocol": "tcp",
            "FromPort": 988,
            "ToPort": 988,
            "SourceSecurityGroupId": {"Fn::GetAtt": ["Nodes", "GroupId"]},
        },
    }
    aws_emulator.deploy({"Resources": {"Nodes": client, "Rule": rule}}, "net")
    ec2 = aws_emulator.client("ec2")

    def ports() -> list[int | None]:
        group = ec2.describe_security_groups(GroupIds=[there["Group"]])["SecurityGroups"][0]
        return [permission.get("FromPort") for permission in group["IpPermissions"]]

    assert ports() == [None, 988]
    aws_emulator.destroy("net")
    assert ports() == [None]


def test_a_file_system_in_a_given_network_with_a_given_key(aws_emulator: Emulator, there: dict[str, str]) -> None:
    template = on({"Resources": {**network(), "Fs": file_system()}}, there, "Vpc", "Subnet", "Group", "In", "Out")
    del template["Resources"]["Fs"]["DependsOn"]
    template["Resources"]["Fs"]["Properties"]["KmsKeyId"] = there["Key"]
    aws_emulator.deploy(template, "hot")
    shown = aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]
    assert (shown["VpcId"], shown["SubnetIds"], shown["KmsKeyId"]) == (there["Vpc"], [there["Subnet"]], there["Key"])


def test_a_link_of_a_given_file_system(aws_emulator: Emulator, there: dict[str, str]) -> None:
    fsx = aws_emulator.client("fsx")
    given = fsx.create_file_system(
        FileSystemType="LUSTRE",
        StorageCapacity=1200,
        SubnetIds=[there["Subnet"]],
        SecurityGroupIds=[there["Group"]],
        LustreConfiguration={"DeploymentType": "SCRATCH_2"},
        FileSystemTypeVersion="2.15",
    )["FileSystem"]["FileSystemId"]
    entry = link()
    entry["Properties"] |= {"FileSystemId": given, "DataRepositoryPath": "s3://lake-1/datasets/"}
    aws_emulator.deploy({"Resources": {"Link": entry}}, "hot")
    shown = fsx.describe_data_repository_associations()["Associations"][0]
    assert (shown["FileSystemId"], shown["DataRepositoryPath"]) == (given, "s3://lake-1/datasets/")
    aws_emulator.destroy("hot")
    assert fsx.describe_file_systems(FileSystemIds=[given])["FileSystems"]


def test_s3_files_over_a_given_bucket_with_a_given_role(aws_emulator: Emulator, there: dict[str, str]) -> None:
    template = s3_files()
    iam = aws_emulator.client("iam")
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "elasticfilesystem.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    role = iam.create_role(RoleName="given", AssumeRolePolicyDocument=document(trust))["Role"]
    rights = {"Effect": "Allow", "Action": ["s3:*", "events:*"], "Resource": "*"}
    files = template["Resources"]["Files"]
    files["Properties"] |= {"Bucket": "arn:aws:s3:::lake-1", "RoleArn": role["Arn"]}
    del files["DependsOn"]
    template = on(template, there, "Vpc", "Subnet", "Group", "In", "Out", "Bucket", "Role", "Rights")
    with pytest.raises(StackFailedError, match="is not authorized to perform"):
        aws_emulator.deploy(template, "files")
    iam.put_role_policy(RoleName="given", PolicyName="rights", PolicyDocument=document(rights))
    ids = aws_emulator.deploy(template, "files").physical_ids
    shown = aws_emulator.client("s3files").get_mount_target(mountTargetId=ids["Target"])
    assert (shown["subnetId"], shown["securityGroups"]) == (there["Subnet"], [there["Group"]])


def test_a_policy_on_a_given_directory_bucket(aws_emulator: Emulator, there: dict[str, str]) -> None:
    assert there
    arn = {"Fn::Sub": f"arn:${{AWS::Partition}}:s3express:${{AWS::Region}}:${{AWS::AccountId}}:bucket/{HOT}"}
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "lifecycle.s3.amazonaws.com"},
        "Action": "s3express:CreateSession",
        "Resource": arn,
    }
    policy = {
        "Type": "AWS::S3Express::BucketPolicy",
        "Properties": {"Bucket": HOT, "PolicyDocument": {"Version": "2012-10-17", "Statement": [statement]}},
    }
    aws_emulator.deploy({"Resources": {"Policy": policy}}, "hot")
    assert aws_emulator.lifecycle_works(HOT)


def test_a_given_role_gets_a_policy_and_loses_it(aws_emulator: Emulator) -> None:
    iam = aws_emulator.client("iam")
    iam.create_role(RoleName="given", AssumeRolePolicyDocument=document())
    statement = {"Effect": "Allow", "Action": "s3express:CreateSession", "Resource": "*"}
    policy = {
        "Type": "AWS::IAM::Policy",
        "Properties": {"PolicyName": "hot", "PolicyDocument": json.loads(document(statement)), "Roles": ["given"]},
    }
    aws_emulator.deploy({"Resources": {"Policy": policy}}, "hot")
    assert iam.list_role_policies(RoleName="given")["PolicyNames"] == ["hot"]
    aws_emulator.destroy("hot")
    assert iam.list_role_policies(RoleName="given")["PolicyNames"] == []
