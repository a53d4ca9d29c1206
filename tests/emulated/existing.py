"""What a platform team has already, made in an emulator, and the example that runs in it with the ids that came out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from training_storage.emulator import Emulator

ROOT = Path(__file__).resolve().parents[2]
ZONE = "use1-az6"
CACHE = f"team-cache--{ZONE}--x-s3"
LAKE = "team-training-lake"
ROLE = "training-nodes"


def prepare(aws: Emulator, name: str = "existing-everything") -> dict[str, Any]:
    """Make what the example names, and return its workload with the ids that AWS gave."""
    data: dict[str, Any] = YAML(typ="safe").load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    account, region = data["account"], data["region"]

    def client(service: str) -> Any:
        return aws.client(service, account=account, region=region)

    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    zones = ec2.describe_availability_zones()["AvailabilityZones"]
    zone = next(each["ZoneName"] for each in zones if each["ZoneId"] == ZONE)
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.0.0/18", AvailabilityZone=zone)["Subnet"]["SubnetId"]
    routes = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=routes, SubnetId=subnet)
    groups = [
        ec2.create_security_group(GroupName=group, Description=group, VpcId=vpc)["GroupId"]
        for group in ("team-nodes", "team-lustre")
    ]
    for low, high in ((988, 988), (1018, 1023)):  # FSx looks for them while it makes the file system
        among = [{"GroupId": groups[1]}]
        rule = [{"IpProtocol": "tcp", "FromPort": low, "ToPort": high, "UserIdGroupPairs": among}]
        ec2.authorize_security_group_ingress(GroupId=groups[1], IpPermissions=rule)
        ec2.authorize_security_group_egress(GroupId=groups[1], IpPermissions=rule)
    key = client("kms").create_key(Description="lake of the team")["KeyMetadata"]["Arn"]
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    role = client("iam").create_role(
        RoleName=ROLE, AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    )["Role"]["Arn"]
    s3 = client("s3")
    s3.create_bucket(Bucket=LAKE)
    s3.put_bucket_versioning(Bucket=LAKE, VersioningConfiguration={"Status": "Enabled"})
    s3.create_bucket(
        Bucket=CACHE,
        CreateBucketConfiguration={
            "Location": {"Type": "AvailabilityZone", "Name": ZONE},
            "Bucket": {"Type": "Directory", "DataRedundancy": "SingleAvailabilityZone"},
        },
    )
    made = client("fsx").create_file_system(
        FileSystemType="LUSTRE",
        FileSystemTypeVersion="2.15",
        StorageCapacity=38_400,
        SubnetIds=[subnet],
        SecurityGroupIds=[groups[1]],
        LustreConfiguration={"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 250},
    )["FileSystem"]
    data["network"] = {"vpc_id": vpc, "subnet_id": subnet, "route_table_ids": [routes]}
    data["compute"] |= {"security_group_id": groups[0], "role_arn": role}
    data["lustre"] |= {
        "file_system_id": made["FileSystemId"],
        "mount_name": made["LustreConfiguration"]["MountName"],
        "security_group_id": groups[1],
    }
    data["data_lake"]["kms_key_arn"] = key
    return data
