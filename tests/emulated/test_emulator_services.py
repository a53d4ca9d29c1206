"""What a template declares is what the emulated services show: network, fleet, buckets, keys, alarms, parameters."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.emulated.emulator_templates import changed, network, without
from training_storage.emulator import Emulator, StackFailedError


def only(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def tagged(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": kind, "Properties": properties}


# --- network


def test_security_group_rules_are_those_of_the_template(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy({"Resources": network()}, "net").physical_ids
    group = aws_emulator.client("ec2").describe_security_groups(GroupIds=[ids["Group"]])["SecurityGroups"][0]
    assert [pair["GroupId"] for rule in group["IpPermissions"] for pair in rule["UserIdGroupPairs"]] == [ids["Group"]]
    assert ids["Group"] in [
        pair["GroupId"] for rule in group["IpPermissionsEgress"] for pair in rule["UserIdGroupPairs"]
    ]
    aws_emulator.update("net", without({"Resources": network()}, "In"))
    group = aws_emulator.client("ec2").describe_security_groups(GroupIds=[ids["Group"]])["SecurityGroups"][0]
    assert group["IpPermissions"] == []


def test_inline_outbound_rules_replace_the_open_one(aws_emulator: Emulator) -> None:
    template = only(**network())
    rule = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0", "Description": "https"}
    template["Resources"]["Group"]["Properties"]["SecurityGroupEgress"] = [rule]
    del template["Resources"]["Out"]
    ids = aws_emulator.deploy(template, "net").physical_ids
    group = aws_emulator.client("ec2").describe_security_groups(GroupIds=[ids["Group"]])["SecurityGroups"][0]
    assert [(rule["IpProtocol"], rule["FromPort"]) for rule in group["IpPermissionsEgress"]] == [("tcp", 443)]


def test_subnet_by_zone_id(aws_emulator: Emulator) -> None:
    template = {"Resources": network(), "Outputs": {"Zone": {"Value": {"Fn::GetAtt": ["Subnet", "AvailabilityZone"]}}}}
    stack = aws_emulator.deploy(template, "net")
    shown = aws_emulator.client("ec2").describe_subnets(SubnetIds=[stack.physical_ids["Subnet"]])["Subnets"][0]
    assert shown["AvailabilityZoneId"] == "use1-az6"
    assert stack.outputs["Zone"] == shown["AvailabilityZone"]
    assert shown["MapPublicIpOnLaunch"] is False


def test_a_zone_that_the_region_lacks(aws_emulator: Emulator) -> None:
    template = changed(
        {"Resources": network()}, "Resources", "Subnet", "Properties", "AvailabilityZoneId", to="usw2-az1"
    )
    with pytest.raises(StackFailedError, match="us-east-1 has no such zone"):
        aws_emulator.deploy(template, "net")


def whole_network() -> dict[str, Any]:
    resources = {
        **network(),
        "Public": tagged(
            "AWS::EC2::Subnet", VpcId={"Ref": "Vpc"}, CidrBlock="10.0.64.0/24", AvailabilityZoneId="use1-az6"
        ),
        "Igw": tagged("AWS::EC2::InternetGateway"),
        "Attach": tagged("AWS::EC2::VPCGatewayAttachment", VpcId={"Ref": "Vpc"}, InternetGatewayId={"Ref": "Igw"}),
        "Eip": {**tagged("AWS::EC2::EIP", Domain="vpc"), "DependsOn": "Attach"},
        "Nat": tagged(
            "AWS::EC2::NatGateway", SubnetId={"Ref": "Public"}, AllocationId={"Fn::GetAtt": ["Eip", "AllocationId"]}
        ),
        "PublicTable": tagged("AWS::EC2::RouteTable", VpcId={"Ref": "Vpc"}),
        "PublicRoute": {
            **tagged(
                "AWS::EC2::Route",
                RouteTableId={"Ref": "PublicTable"},
                DestinationCidrBlock="0.0.0.0/0",
                GatewayId={"Ref": "Igw"},
            ),
            "DependsOn": "Attach",
        },
        "PublicLink": tagged(
            "AWS::EC2::SubnetRouteTableAssociation", RouteTableId={"Ref": "PublicTable"}, SubnetId={"Ref": "Public"}
        ),
        "Table": tagged("AWS::EC2::RouteTable", VpcId={"Ref": "Vpc"}, Tags=[{"Key": "Name", "Value": "private"}]),
        "Route": tagged(
            "AWS::EC2::Route",
            RouteTableId={"Ref": "Table"},
            DestinationCidrBlock="0.0.0.0/0",
            NatGatewayId={"Ref": "Nat"},
        ),
        "Link": tagged(
            "AWS::EC2::SubnetRouteTableAssociation", RouteTableId={"Ref": "Table"}, SubnetId={"Ref": "Subnet"}
        ),
        "Gateway": tagged(
            "AWS::EC2::VPCEndpoint",
            VpcId={"Ref": "Vpc"},
            ServiceName={"Fn::Sub": "com.amazonaws.${AWS::Region}.s3"},
            RouteTableIds=[{"Ref": "Table"}],
            VpcEndpointType="Gateway",
        ),
        "Interface": tagged(
            "AWS::EC2::VPCEndpoint",
            VpcId={"Ref": "Vpc"},
            ServiceName={"Fn::Sub": "com.amazonaws.${AWS::Region}.ssm"},
            SubnetIds=[{"Ref": "Subnet"}],
            SecurityGroupIds=[{"Ref": "Group"}],
            PrivateDnsEnabled=True,
            VpcEndpointType="Interface",
        ),
        "Logs": tagged("AWS::Logs::LogGroup", LogGroupName="/vpc", RetentionInDays=30),
        "FlowRole": tagged("AWS::IAM::Role", AssumeRolePolicyDocument={"Version": "2012-10-17", "Statement": []}),
        "Flow": tagged(
            "AWS::EC2::FlowLog",
            ResourceId={"Ref": "Vpc"},
            ResourceType="VPC",
            TrafficType="REJECT",
            LogGroupName={"Ref": "Logs"},
            DeliverLogsPermissionArn={"Fn::GetAtt": ["FlowRole", "Arn"]},
        ),
    }
    return {"Resources": resources}


def test_a_whole_network_comes_and_goes(aws_emulator: Emulator) -> None:
    ec2 = aws_emulator.client("ec2")
    ids = aws_emulator.deploy(whole_network(), "net").physical_ids
    vpc = [{"Name": "vpc-id", "Values": [ids["Vpc"]]}]
    tables = {table["RouteTableId"]: table for table in ec2.describe_route_tables(Filters=vpc)["RouteTables"]}
    routes = [route.get("NatGatewayId") for route in tables[ids["Table"]]["Routes"]]
    assert ids["Nat"] in routes
    assert {item["SubnetId"] for item in tables[ids["Table"]]["Associations"]} == {ids["Subnet"]}
    kinds = {
        item["VpcEndpointId"]: item["VpcEndpointType"]
        for item in ec2.describe_vpc_endpoints(Filters=vpc)["VpcEndpoints"]
    }
    assert kinds == {ids["Gateway"]: "Gateway", ids["Interface"]: "Interface"}
    assert ec2.describe_flow_logs()["FlowLogs"][0]["ResourceId"] == ids["Vpc"]
    assert ids["Eip"].count(".") == 3  # Ref of an address is the address
    tags = {tag["Key"]: tag["Value"] for tag in tables[ids["Table"]]["Tags"]}
    assert tags["Name"] == "private"
    assert tags["aws:cloudformation:stack-name"] == "net"

    aws_emulator.destroy("net")
    assert {item["State"] for item in ec2.describe_vpc_endpoints(Filters=vpc)["VpcEndpoints"]} <= {"deleted"}
    assert ec2.describe_addresses()["Addresses"] == []
    assert ec2.describe_flow_logs()["FlowLogs"] == []
    assert {gateway["State"] for gateway in ec2.describe_nat_gateways(Filters=vpc)["NatGateways"]} <= {"deleted"}
    assert ids["Vpc"] not in [item["VpcId"] for item in ec2.describe_vpcs()["Vpcs"]]


def test_tags_of_the_stack_reach_its_resources(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy({"Resources": network()}, "net", tags={"team": "ml"}).physical_ids
    vpc = aws_emulator.client("ec2").describe_vpcs(VpcIds=[ids["Vpc"]])["Vpcs"][0]
    assert {"Key": "team", "Value": "ml"} in vpc["Tags"]


# --- fleet


def fleet(count: int = 2) -> dict[str, Any]:
    return {
        "Parameters": {
            "Image": {
                "Type": "AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>",
                "Default": "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-al2023/latest/ami-id",
            }
        },
        "Resources": {
            **network(),
            "Role": tagged(
                "AWS::IAM::Role",
                AssumeRolePolicyDocument={"Version": "2012-10-17", "Statement": []},
                ManagedPolicyArns=[{"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"}],
            ),
            "Profile": tagged("AWS::IAM::InstanceProfile", Roles=[{"Ref": "Role"}]),
            "Place": tagged("AWS::EC2::PlacementGroup", Strategy="cluster"),
            "Template": tagged(
                "AWS::EC2::LaunchTemplate",
                LaunchTemplateData={
                    "ImageId": {"Ref": "Image"},
                    "InstanceType": "p5en.48xlarge",
                    "IamInstanceProfile": {"Arn": {"Fn::GetAtt": ["Profile", "Arn"]}},
                    "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
                    "Placement": {"GroupName": {"Ref": "Place"}},
                    "UserData": {"Fn::Base64": {"Fn::Sub": "#!/bin/bash\necho ${AWS::Region}\n"}},
                    "NetworkInterfaces": [
                        {
                            "DeviceIndex": 0,
                            "NetworkCardIndex": 0,
                            "Groups": [{"Ref": "Group"}],
                            "InterfaceType": "interface",
                        },
                        {
                            "DeviceIndex": 1,
                            "NetworkCardIndex": 1,
                            "Groups": [{"Ref": "Group"}],
                            "InterfaceType": "efa-only",
                        },
                    ],
                },
            ),
            "Fleet": {
                **tagged(
                    "AWS::AutoScaling::AutoScalingGroup",
                    MinSize="0",
                    MaxSize=str(count),
                    DesiredCapacity=str(count),
                    VPCZoneIdentifier=[{"Ref": "Subnet"}],
                    LaunchTemplate={
                        "LaunchTemplateId": {"Ref": "Template"},
                        "Version": {"Fn::GetAtt": ["Template", "LatestVersionNumber"]},
                    },
                    Tags=[{"Key": "Name", "Value": "gpu", "PropagateAtLaunch": True}],
                ),
                "CreationPolicy": {"ResourceSignal": {"Count": count, "Timeout": "PT30M"}},
                "UpdatePolicy": {"AutoScalingScheduledAction": {"IgnoreUnmodifiedGroupSizeProperties": True}},
            },
            "Hook": tagged(
                "AWS::AutoScaling::LifecycleHook",
                AutoScalingGroupName={"Ref": "Fleet"},
                LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING",
                HeartbeatTimeout=300,
            ),
            "Start": tagged(
                "AWS::AutoScaling::ScheduledAction",
                AutoScalingGroupName={"Ref": "Fleet"},
                DesiredCapacity=count,
                StartTime="2036-12-01T11:30:00Z",
            ),
        },
    }


def test_a_fleet_is_what_its_template_says(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(fleet(), "fleet").physical_ids
    ec2, autoscaling = aws_emulator.client("ec2"), aws_emulator.client("autoscaling")
    version = ec2.describe_launch_template_versions(LaunchTemplateId=ids["Template"])["LaunchTemplateVersions"][0]
    data = version["LaunchTemplateData"]
    assert [(item["NetworkCardIndex"], item["InterfaceType"]) for item in data["NetworkInterfaces"]] == [
        (0, "interface"),
        (1, "efa-only"),
    ]
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    assert base64.b64decode(data["UserData"]).decode() == "#!/bin/bash\necho us-east-1\n"
    assert data["ImageId"].startswith("ami-")
    group = autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"][0]
    assert (group["DesiredCapacity"], len(group["Instances"]), group["VPCZoneIdentifier"]) == (2, 2, ids["Subnet"])
    hooks = autoscaling.describe_lifecycle_hooks(AutoScalingGroupName=ids["Fleet"])["LifecycleHooks"]
    assert [hook["LifecycleHookName"] for hook in hooks] == [ids["Hook"]]
    actions = autoscaling.describe_scheduled_actions()["ScheduledUpdateGroupActions"]
    assert [(action["ScheduledActionName"], action["DesiredCapacity"]) for action in actions] == [(ids["Start"], 2)]
    assert actions[0]["StartTime"].year == 2036
    place = ec2.describe_placement_groups(GroupNames=[ids["Place"]])["PlacementGroups"][0]
    assert (place["Strategy"], place["State"]) == ("cluster", "available")


def test_a_changed_launch_template_is_a_new_version_of_the_same(aws_emulator: Emulator) -> None:
    first = aws_emulator.deploy(fleet(), "fleet").physical_ids
    data = ("Resources", "Template", "Properties", "LaunchTemplateData", "InstanceType")
    second = aws_emulator.update("fleet", changed(fleet(3), *data, to="p5.48xlarge"))
    assert second.physical_ids == first
    group = aws_emulator.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"][0]
    assert group["LaunchTemplate"]["Version"] == "2"
    types = [item["InstanceType"] for item in group["Instances"]]
    assert sorted(types) == ["p5.48xlarge", "p5en.48xlarge", "p5en.48xlarge"]  # who runs, stays as it is


def test_a_fleet_grows_in_place_and_is_destroyed(aws_emulator: Emulator) -> None:
    first = aws_emulator.deploy(fleet(2), "fleet").physical_ids
    assert aws_emulator.update("fleet", fleet(3)).physical_ids == first
    autoscaling = aws_emulator.client("autoscaling")
    assert len(autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"][0]["Instances"]) == 3
    aws_emulator.destroy("fleet")
    assert autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"] == []
    assert aws_emulator.client("ec2").describe_placement_groups()["PlacementGroups"] == []


def test_a_misspelt_managed_policy_fails(aws_emulator: Emulator) -> None:
    arn = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCor"
    with pytest.raises(StackFailedError, match="does not exist or is not attachable"):
        aws_emulator.deploy(changed(fleet(), "Resources", "Role", "Properties", "ManagedPolicyArns", to=[arn]), "fleet")


@pytest.mark.parametrize(
    "name",
    [
        "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-al2023/latest/ami-id",
        "/aws/service/neuron/dlami/base/amazon-linux-2023/latest/image_id",
        "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64",
    ],
)
def test_public_image_parameters(aws_emulator: Emulator, name: str) -> None:
    assert aws_emulator.client("ssm").get_parameter(Name=name)["Parameter"]["Value"].startswith("ami-")


def test_a_misspelt_image_parameter_fails(aws_emulator: Emulator) -> None:
    wrong = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-al2023/latest/ami"
    with pytest.raises(StackFailedError, match="Unable to fetch parameters"):
        aws_emulator.deploy(changed(fleet(), "Parameters", "Image", "Default", to=wrong), "fleet")


# --- buckets


def lake(**properties: Any) -> dict[str, Any]:
    return {
        "Resources": {
            "Key": tagged(
                "AWS::KMS::Key", EnableKeyRotation=True, KeyPolicy={"Version": "2012-10-17", "Statement": []}
            ),
            "Bucket": tagged(
                "AWS::S3::Bucket",
                BucketEncryption={
                    "ServerSideEncryptionConfiguration": [
                        {
                            "BucketKeyEnabled": True,
                            "ServerSideEncryptionByDefault": {
                                "SSEAlgorithm": "aws:kms",
                                "KMSMasterKeyID": {"Fn::GetAtt": ["Key", "Arn"]},
                            },
                        }
                    ]
                },
                VersioningConfiguration={"Status": "Enabled"},
                PublicAccessBlockConfiguration={"BlockPublicAcls": True, "BlockPublicPolicy": True},
                NotificationConfiguration={"EventBridgeConfiguration": {"EventBridgeEnabled": True}},
                LifecycleConfiguration={
                    "Rules": [
                        {
                            "Id": "checkpoints",
                            "Status": "Enabled",
                            "Prefix": "checkpoints/",
                            "Transitions": [{"StorageClass": "STANDARD_IA", "TransitionInDays": 30}],
                            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
                        }
                    ]
                },
                **properties,
            ),
            "Policy": tagged(
                "AWS::S3::BucketPolicy",
                Bucket={"Ref": "Bucket"},
                PolicyDocument={
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Deny",
                            "Principal": "*",
                            "Action": "s3:*",
                            "Resource": {"Fn::GetAtt": ["Bucket", "Arn"]},
                            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                        }
                    ],
                },
            ),
        }
    }


def test_every_setting_of_a_bucket_is_seen_in_s3(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(lake(), "lake").physical_ids
    s3, bucket = aws_emulator.client("s3"), ids["Bucket"]
    rule = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]
    assert rule["BucketKeyEnabled"] is True
    assert rule["ApplyServerSideEncryptionByDefault"]["KMSMasterKeyID"].endswith(ids["Key"])
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert "EventBridgeConfiguration" in s3.get_bucket_notification_configuration(Bucket=bucket)
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"]["BlockPublicAcls"] is True
    lifecycle = s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"][0]
    assert (lifecycle["ID"], lifecycle["Filter"]) == ("checkpoints", {"Prefix": "checkpoints/"})
    assert lifecycle["Transitions"] == [{"Days": 30, "StorageClass": "STANDARD_IA"}]
    assert lifecycle["NoncurrentVersionExpiration"]["NoncurrentDays"] == 30
    assert lifecycle["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    assert policy["Statement"][0]["Resource"] == f"arn:aws:s3:::{bucket}"
    assert aws_emulator.client("kms").get_key_rotation_status(KeyId=ids["Key"])["KeyRotationEnabled"] is True


def test_a_setting_that_is_taken_away_is_switched_off(aws_emulator: Emulator) -> None:
    bucket = aws_emulator.deploy(lake(), "lake").physical_ids["Bucket"]
    template = lake()
    for name in ("NotificationConfiguration", "LifecycleConfiguration", "VersioningConfiguration"):
        del template["Resources"]["Bucket"]["Properties"][name]
    assert aws_emulator.update("lake", template).physical_ids["Bucket"] == bucket
    s3 = aws_emulator.client("s3")
    assert "EventBridgeConfiguration" not in s3.get_bucket_notification_configuration(Bucket=bucket)
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Suspended"
    with pytest.raises(s3.exceptions.ClientError, match="NoSuchLifecycleConfiguration"):
        s3.get_bucket_lifecycle_configuration(Bucket=bucket)


def test_a_policy_that_denies_plain_http_does_not_lock_anybody_out(aws_emulator: Emulator) -> None:
    """Policies are stored, not enforced; half of moto's check would ignore the condition and deny everything."""
    bucket = aws_emulator.deploy(lake(), "lake").physical_ids["Bucket"]
    aws_emulator.client("s3").put_object(Bucket=bucket, Key="datasets/a", Body=b"1")
    assert aws_emulator.client("s3").get_object(Bucket=bucket, Key="datasets/a")["Body"].read() == b"1"


def test_a_bucket_setting_that_is_not_applied_fails(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="does not apply these bucket properties: AccelerateConfiguration"):
        aws_emulator.deploy(lake(AccelerateConfiguration={"AccelerationStatus": "Enabled"}), "lake")


def test_a_directory_bucket_is_named_by_its_zone(aws_emulator: Emulator) -> None:
    express = tagged(
        "AWS::S3Express::DirectoryBucket", DataRedundancy="SingleAvailabilityZone", LocationName="use1-az6"
    )
    name = aws_emulator.deploy(only(A=express), "hot").physical_ids["A"]
    assert name.endswith("--use1-az6--x-s3")
    wrong = changed(only(A=express), "Resources", "A", "Properties", "BucketName", to="hot--use1-az4--x-s3")
    with pytest.raises(StackFailedError, match="must end in --use1-az6--x-s3"):
        aws_emulator.deploy(wrong, "wrong")


# --- what people look at


def watch(threshold: float = 1) -> dict[str, Any]:
    return only(
        Topic=tagged("AWS::SNS::Topic"),
        Mail=tagged("AWS::SNS::Subscription", TopicArn={"Ref": "Topic"}, Protocol="email", Endpoint="ops@example.com"),
        Alarm=tagged(
            "AWS::CloudWatch::Alarm",
            Namespace="AWS/FSx",
            MetricName="FreeDataStorageCapacity",
            Statistic="Sum",
            Period=300,
            EvaluationPeriods=1,
            ComparisonOperator="LessThanThreshold",
            Threshold=threshold,
            Dimensions=[{"Name": "FileSystemId", "Value": "fs-0123456789abcdef0"}],
            AlarmActions=[{"Ref": "Topic"}],
        ),
        Board=tagged("AWS::CloudWatch::Dashboard", DashboardName="hot", DashboardBody='{"widgets": []}'),
    )


def test_alarms_dashboards_and_subscriptions(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(watch(), "watch").physical_ids
    cloudwatch = aws_emulator.client("cloudwatch")
    alarm = cloudwatch.describe_alarms(AlarmNames=[ids["Alarm"]])["MetricAlarms"][0]
    assert (alarm["MetricName"], alarm["AlarmActions"]) == ("FreeDataStorageCapacity", [ids["Topic"]])
    assert cloudwatch.get_dashboard(DashboardName="hot")["DashboardBody"] == '{"widgets": []}'
    assert len(aws_emulator.client("sns").list_subscriptions_by_topic(TopicArn=ids["Topic"])["Subscriptions"]) == 1
    assert aws_emulator.update("watch", watch(2)).physical_ids == ids
    assert cloudwatch.describe_alarms(AlarmNames=[ids["Alarm"]])["MetricAlarms"][0]["Threshold"] == 2
    aws_emulator.destroy("watch")
    assert cloudwatch.describe_alarms()["MetricAlarms"] == []
    assert cloudwatch.list_dashboards()["DashboardEntries"] == []


def test_roles_and_policies_change_in_place(aws_emulator: Emulator) -> None:
    def template(action: str) -> dict[str, Any]:
        return only(
            Role=tagged("AWS::IAM::Role", AssumeRolePolicyDocument={"Version": "2012-10-17", "Statement": []}),
            Policy=tagged(
                "AWS::IAM::Policy",
                PolicyName="read",
                Roles=[{"Ref": "Role"}],
                PolicyDocument={
                    "Version": "2012-10-17",
                    "Statement": [{"Effect": "Allow", "Action": action, "Resource": "*"}],
                },
            ),
        )

    ids = aws_emulator.deploy(template("s3:GetObject"), "iam").physical_ids
    assert aws_emulator.update("iam", template("s3:ListBucket")).physical_ids == ids
    iam = aws_emulator.client("iam")
    document = iam.get_role_policy(RoleName=ids["Role"], PolicyName="read")["PolicyDocument"]
    assert document["Statement"][0]["Action"] == "s3:ListBucket"
    aws_emulator.destroy("iam")
    assert iam.list_roles()["Roles"] == []


def test_a_parameter_without_a_name_gets_one(aws_emulator: Emulator) -> None:
    name = aws_emulator.deploy(only(P=tagged("AWS::SSM::Parameter", Type="String", Value="v")), "p").physical_ids["P"]
    assert aws_emulator.client("ssm").get_parameter(Name=name)["Parameter"]["Value"] == "v"


def test_log_retention_changes_in_place(aws_emulator: Emulator) -> None:
    group = only(G=tagged("AWS::Logs::LogGroup", LogGroupName="/aws/fsx/x", RetentionInDays=30))
    aws_emulator.deploy(group, "logs")
    aws_emulator.update("logs", changed(group, "Resources", "G", "Properties", "RetentionInDays", to=90))
    shown = aws_emulator.client("logs").describe_log_groups()["logGroups"][0]
    assert (shown["logGroupName"], shown["retentionInDays"]) == ("/aws/fsx/x", 90)


def test_another_region_and_partition(aws_emulator: Emulator) -> None:
    template = {
        **only(B=tagged("AWS::S3::Bucket")),
        "Outputs": {
            "Arn": {"Value": {"Fn::GetAtt": ["B", "Arn"]}},
            "Suffix": {"Value": {"Ref": "AWS::URLSuffix"}},
            "Zone": {"Value": {"Fn::Select": [0, {"Fn::GetAZs": ""}]}},
        },
    }
    outputs = aws_emulator.deploy(template, "cn", region="cn-north-1").outputs
    assert outputs["Arn"].startswith("arn:aws-cn:s3:::")
    assert (outputs["Suffix"], outputs["Zone"]) == ("amazonaws.com.cn", "cn-north-1a")
