"""Small templates that the emulator's tests share."""

from __future__ import annotations

import copy
from typing import Any


def network() -> dict[str, Any]:
    """A VPC with one subnet, and a security group that lets Lustre and EFA through."""
    return {
        "Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}},
        "Subnet": {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/18", "AvailabilityZoneId": "use1-az6"},
        },
        "Group": {
            "Type": "AWS::EC2::SecurityGroup",
            "Properties": {"GroupDescription": "storage", "VpcId": {"Ref": "Vpc"}},
        },
        "In": {
            "Type": "AWS::EC2::SecurityGroupIngress",
            "Properties": {
                "GroupId": {"Ref": "Group"},
                "IpProtocol": "-1",
                "SourceSecurityGroupId": {"Fn::GetAtt": ["Group", "GroupId"]},
            },
        },
        "Out": {
            "Type": "AWS::EC2::SecurityGroupEgress",
            "Properties": {
                "GroupId": {"Ref": "Group"},
                "IpProtocol": "-1",
                "DestinationSecurityGroupId": {"Fn::GetAtt": ["Group", "GroupId"]},
            },
        },
    }


def file_system(**lustre: Any) -> dict[str, Any]:
    """A PERSISTENT_2 file system in that network."""
    return {
        "Type": "AWS::FSx::FileSystem",
        "DependsOn": ["In", "Out"],
        "Properties": {
            "FileSystemType": "LUSTRE",
            "FileSystemTypeVersion": "2.15",
            "StorageCapacity": 4800,
            "SubnetIds": [{"Ref": "Subnet"}],
            "SecurityGroupIds": [{"Ref": "Group"}],
            "LustreConfiguration": {
                "DeploymentType": "PERSISTENT_2",
                "PerUnitStorageThroughput": 250,
                "MetadataConfiguration": {"Mode": "AUTOMATIC"},
                **lustre,
            },
        },
    }


def link(path: str = "/datasets", source: str = "datasets") -> dict[str, Any]:
    """A data repository association of that file system with the bucket."""
    return {
        "Type": "AWS::FSx::DataRepositoryAssociation",
        "Properties": {
            "FileSystemId": {"Ref": "Fs"},
            "FileSystemPath": path,
            "DataRepositoryPath": {"Fn::Sub": f"s3://${{Bucket}}/{source}/"},
            "S3": {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}},
        },
    }


def hot() -> dict[str, Any]:
    """Network, bucket, file system and link."""
    resources = {**network(), "Bucket": {"Type": "AWS::S3::Bucket"}, "Fs": file_system(), "Link": link()}
    return {"Resources": resources, "Outputs": {"FileSystemId": {"Value": {"Ref": "Fs"}}}}


def changed(template: dict[str, Any], *path: str, to: Any) -> dict[str, Any]:
    """Return the template with one value set."""
    result = copy.deepcopy(template)
    node = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = to
    return result


def without(template: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the template without some resources."""
    result = copy.deepcopy(template)
    for name in names:
        del result["Resources"][name]
    return result


def directory_bucket(**properties: Any) -> dict[str, Any]:
    """A directory bucket in one zone."""
    return {
        "Type": "AWS::S3Express::DirectoryBucket",
        "Properties": {"LocationName": "use1-az6", "DataRedundancy": "SingleAvailabilityZone", **properties},
    }


def lifecycle_policy(**condition: Any) -> dict[str, Any]:
    """The policy that lets S3's lifecycle into that bucket, under a condition if one is given."""
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "lifecycle.s3.amazonaws.com"},
        "Action": "s3express:CreateSession",
        "Resource": {"Fn::GetAtt": ["Hot", "Arn"]},
        "Condition": condition or {"StringEquals": {"s3express:SessionMode": "ReadWrite"}},
    }
    document = {"Version": "2012-10-17", "Statement": [statement]}
    return {
        "Type": "AWS::S3Express::BucketPolicy",
        "Properties": {"Bucket": {"Ref": "Hot"}, "PolicyDocument": document},
    }


def s3_files(**properties: Any) -> dict[str, Any]:
    """A versioned bucket, the role for it, and an S3 Files file system with a mount target in that network."""
    arn = {"Fn::GetAtt": ["Bucket", "Arn"]}
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "elasticfilesystem.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {
            "StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}},
            "ArnLike": {
                "aws:SourceArn": {
                    "Fn::Sub": "arn:${AWS::Partition}:s3files:${AWS::Region}:${AWS::AccountId}:file-system/*"
                }
            },
        },
    }
    rights = [
        {"Effect": "Allow", "Action": ["s3:ListBucket", "s3:ListBucketVersions"], "Resource": arn},
        {
            "Effect": "Allow",
            "Action": ["s3:AbortMultipartUpload", "s3:DeleteObject*", "s3:GetObject*", "s3:List*", "s3:PutObject*"],
            "Resource": {"Fn::Join": ["", [arn, "/*"]]},
        },
        {
            "Effect": "Allow",
            "Action": ["events:DeleteRule", "events:PutRule", "events:PutTargets", "events:RemoveTargets"],
            "Resource": {"Fn::Sub": "arn:${AWS::Partition}:events:*:*:rule/DO-NOT-DELETE-S3-Files*"},
            "Condition": {"StringEquals": {"events:ManagedBy": "elasticfilesystem.amazonaws.com"}},
        },
    ]
    resources = {
        **network(),
        "Bucket": {"Type": "AWS::S3::Bucket", "Properties": {"VersioningConfiguration": {"Status": "Enabled"}}},
        "Role": {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}},
        },
        "Rights": {
            "Type": "AWS::IAM::Policy",
            "Properties": {
                "PolicyName": "rights",
                "PolicyDocument": {"Version": "2012-10-17", "Statement": rights},
                "Roles": [{"Ref": "Role"}],
            },
        },
        "Files": {
            "Type": "AWS::S3Files::FileSystem",
            "DependsOn": "Rights",
            "Properties": {"Bucket": arn, "RoleArn": {"Fn::GetAtt": ["Role", "Arn"]}, **properties},
        },
        "Target": {
            "Type": "AWS::S3Files::MountTarget",
            "Properties": {
                "FileSystemId": {"Fn::GetAtt": ["Files", "FileSystemId"]},
                "SubnetId": {"Ref": "Subnet"},
                "SecurityGroups": [{"Ref": "Group"}],
            },
        },
    }
    return {"Resources": resources}
