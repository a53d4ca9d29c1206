"""S3 Files in the emulator: what a file system stands on, what its API answers, and how stacks make and delete it.

Requirements and quotas are those of the S3 user guide (chapters on S3 Files), names those of the service model.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.emulated.emulator_templates import s3_files, without
from training_storage.emulator import Emulator, EmulatorError, StackFailedError


@pytest.fixture
def ids(aws_emulator: Emulator) -> dict[str, str]:
    stack = aws_emulator.deploy(s3_files(), "files")
    return {**stack.physical_ids, "FileSystemId": stack.physical_ids["Files"].rsplit("/", 1)[-1]}


@pytest.fixture
def files(aws_emulator: Emulator) -> Any:
    return aws_emulator.client("s3files")


def code(work: Callable[[], Any]) -> tuple[str, str]:
    """Return the code of a refusal, and what the service says beside it."""
    with pytest.raises(ClientError) as error:
        work()
    response: Any = error.value.response
    return response["Error"]["Code"], response.get("errorCode", "")


def with_properties(name: str, **properties: Any) -> dict[str, Any]:
    template = s3_files()
    template["Resources"][name]["Properties"] |= properties
    return template


# --- file systems


def test_a_file_system_is_shown_as_the_service_does(files: Any, ids: dict[str, str]) -> None:
    shown = files.get_file_system(fileSystemId=ids["FileSystemId"])
    assert shown["status"] == "available"
    assert shown["fileSystemArn"] == ids["Files"]
    assert ids["Files"] == f"arn:aws:s3files:us-east-1:123456789012:file-system/{ids['FileSystemId']}"
    assert shown["bucket"] == f"arn:aws:s3:::{ids['Bucket']}"
    assert files.get_file_system(fileSystemId=ids["Files"])["fileSystemId"] == ids["FileSystemId"]
    assert [item["fileSystemId"] for item in files.list_file_systems()["fileSystems"]] == [ids["FileSystemId"]]
    assert files.list_file_systems(bucket="arn:aws:s3:::another")["fileSystems"] == []


def test_one_that_is_not_there(files: Any) -> None:
    work = lambda: files.get_file_system(fileSystemId="fs-00000000000000000")  # noqa: E731
    assert code(work) == ("ResourceNotFoundException", "FileSystemNotFound")


def test_attributes_agree_with_the_service(aws_emulator: Emulator, files: Any) -> None:
    template = s3_files()
    names = {
        "Files": ["FileSystemArn", "FileSystemId", "OwnerId", "Status", "CreationTime"],
        "Target": ["AvailabilityZoneId", "NetworkInterfaceId", "VpcId", "Status"],
    }
    template["Outputs"] = {
        f"{logical_id}{name}": {"Value": {"Fn::GetAtt": [logical_id, name]}}
        for logical_id, attributes in names.items()
        for name in attributes
    }
    template["Outputs"]["Ref"] = {"Value": {"Ref": "Files"}}
    outputs = aws_emulator.deploy(template, "files").outputs
    assert outputs["Ref"] == outputs["FilesFileSystemArn"]
    assert (outputs["FilesStatus"], outputs["FilesOwnerId"]) == ("available", "123456789012")
    target = files.list_mount_targets(fileSystemId=outputs["FilesFileSystemId"])["mountTargets"][0]
    assert outputs["TargetNetworkInterfaceId"] == target["networkInterfaceId"]
    assert (outputs["TargetAvailabilityZoneId"], outputs["TargetVpcId"]) == ("use1-az6", target["vpcId"])


@pytest.mark.parametrize(
    ("bucket", "reason"),
    [
        (None, "does not have versioning enabled"),
        ({"VersioningConfiguration": {"Status": "Suspended"}}, "does not have versioning enabled"),
        (
            {
                "VersioningConfiguration": {"Status": "Enabled"},
                "BucketEncryption": {
                    "ServerSideEncryptionConfiguration": [
                        {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms:dsse"}}
                    ]
                },
            },
            "S3 Files supports AES256, aws:kms",
        ),
    ],
)
def test_buckets_that_cannot_be_used(aws_emulator: Emulator, bucket: dict[str, Any] | None, reason: str) -> None:
    template = s3_files()
    template["Resources"]["Bucket"]["Properties"] = bucket or {}
    with pytest.raises(StackFailedError, match=reason):
        aws_emulator.deploy(template, "files")
    assert aws_emulator.client("s3files").list_file_systems()["fileSystems"] == []


def test_a_bucket_that_is_not_there(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="Bucket nowhere-at-all does not exist"):
        aws_emulator.deploy(with_properties("Files", Bucket="arn:aws:s3:::nowhere-at-all"), "files")


def test_a_bucket_of_another_region(aws_emulator: Emulator) -> None:
    there = aws_emulator.client("s3", region="eu-west-1")
    there.create_bucket(Bucket="far-away", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    there.put_bucket_versioning(Bucket="far-away", VersioningConfiguration={"Status": "Enabled"})
    with pytest.raises(StackFailedError, match="far-away is in eu-west-1"):
        aws_emulator.deploy(with_properties("Files", Bucket="arn:aws:s3:::far-away"), "files")


def test_a_directory_bucket(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="needs a general purpose bucket"):
        aws_emulator.deploy(with_properties("Files", Bucket="arn:aws:s3:::hot--use1-az6--x-s3"), "files")


# --- the role


def test_the_rights_have_to_be_there_first(aws_emulator: Emulator) -> None:
    template = s3_files()
    template["Resources"]["Rights"]["DependsOn"] = "Files"
    del template["Resources"]["Files"]["DependsOn"]
    with pytest.raises(StackFailedError, match=r"did not stabilize: .* is creating: .* is not authorized to perform"):
        aws_emulator.deploy(template, "files")
    assert aws_emulator.client("s3files").list_file_systems()["fileSystems"] == []
    assert aws_emulator.client("events").list_rules()["Rules"] == []


def test_a_role_that_is_not_there(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match=r"The role .*role/nobody does not exist"):
        aws_emulator.deploy(with_properties("Files", RoleArn="arn:aws:iam::123456789012:role/nobody"), "files")


@pytest.mark.parametrize(
    "change",
    [
        {"Principal": {"Service": "ec2.amazonaws.com"}},
        {"Condition": {"StringEquals": {"aws:SourceAccount": "111122223333"}}},
        {"Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:elasticfilesystem:us-east-1:123456789012:file-system/*"}}},
        {"Effect": "Deny"},
    ],
    ids=["service", "account", "file-system", "deny"],
)
def test_a_role_that_the_service_cannot_take_on(aws_emulator: Emulator, change: dict[str, Any]) -> None:
    template = s3_files()
    template["Resources"]["Role"]["Properties"]["AssumeRolePolicyDocument"]["Statement"][0] |= change
    with pytest.raises(StackFailedError, match=r"elasticfilesystem.amazonaws.com cannot assume the role"):
        aws_emulator.deploy(template, "files")


@pytest.mark.parametrize(("index", "lacking"), [(0, "s3:ListBucket"), (1, "s3:GetObject"), (2, "events:PutRule")])
def test_a_role_that_lacks_a_right(aws_emulator: Emulator, index: int, lacking: str) -> None:
    template = s3_files()
    del template["Resources"]["Rights"]["Properties"]["PolicyDocument"]["Statement"][index]
    with pytest.raises(StackFailedError, match=f"is not authorized to perform {lacking} on"):
        aws_emulator.deploy(template, "files")


def test_rights_on_another_prefix_are_none(aws_emulator: Emulator) -> None:
    template = with_properties("Files", Prefix="datasets/")
    statement = template["Resources"]["Rights"]["Properties"]["PolicyDocument"]["Statement"][1]
    statement["Resource"] = {"Fn::Sub": "${Bucket.Arn}/checkpoints/*"}
    with pytest.raises(StackFailedError, match=r"s3:GetObject on .*/datasets/"):
        aws_emulator.deploy(template, "files")
    statement["Resource"] = {"Fn::Sub": "${Bucket.Arn}/datasets/*"}
    assert aws_emulator.deploy(template, "files").status == "CREATE_COMPLETE"


def test_rights_by_a_managed_policy(aws_emulator: Emulator) -> None:
    template = s3_files()
    rights = template["Resources"]["Rights"]
    rights["Type"] = "AWS::IAM::ManagedPolicy"
    del rights["Properties"]["PolicyName"]
    assert aws_emulator.deploy(template, "files").status == "CREATE_COMPLETE"


def test_an_encrypted_bucket_needs_rights_on_its_key(aws_emulator: Emulator) -> None:
    template = s3_files()
    resources = template["Resources"]
    default = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": {"Fn::GetAtt": ["Key", "Arn"]}}
    resources["Key"] = {"Type": "AWS::KMS::Key", "Properties": {}}
    resources["Bucket"]["Properties"]["BucketEncryption"] = {
        "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": default, "BucketKeyEnabled": True}]
    }
    with pytest.raises(StackFailedError, match="is not authorized to perform kms:GenerateDataKey"):
        aws_emulator.deploy(template, "files")
    by_s3 = {
        "StringEquals": {"kms:ViaService": {"Fn::Sub": "s3.${AWS::Region}.${AWS::URLSuffix}"}},
        "StringLike": {"kms:EncryptionContext:aws:s3:arn": [{"Fn::GetAtt": ["Bucket", "Arn"]}]},
    }
    resources["Rights"]["Properties"]["PolicyDocument"]["Statement"].append(
        {
            "Effect": "Allow",
            "Action": ["kms:GenerateDataKey", "kms:Decrypt"],
            "Resource": {"Fn::GetAtt": ["Key", "Arn"]},
            "Condition": by_s3,
        }
    )
    assert aws_emulator.deploy(template, "files").status == "CREATE_COMPLETE"


def test_through_the_api_it_stays_in_creating(aws_emulator: Emulator, files: Any) -> None:
    ids = aws_emulator.deploy(without(s3_files(), "Rights", "Files", "Target"), "files").physical_ids
    arn = aws_emulator.client("iam").get_role(RoleName=ids["Role"])["Role"]["Arn"]
    made = files.create_file_system(bucket=f"arn:aws:s3:::{ids['Bucket']}", roleArn=arn)
    assert made["status"] == "creating"
    everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
    aws_emulator.client("iam").put_role_policy(
        RoleName=ids["Role"], PolicyName="late", PolicyDocument=json.dumps({"Version": "2012-10-17", **everything})
    )
    shown = files.get_file_system(fileSystemId=made["fileSystemId"])
    assert (shown["status"], "not authorized to perform s3:ListBucket" in shown["statusMessage"]) == ("creating", True)
    mount = lambda: files.create_mount_target(fileSystemId=made["fileSystemId"], subnetId=ids["Subnet"])  # noqa: E731
    assert code(mount) == ("ConflictException", "IncorrectFileSystemLifeCycleState")
    files.delete_file_system(fileSystemId=made["fileSystemId"])
    made = files.create_file_system(bucket=f"arn:aws:s3:::{ids['Bucket']}", roleArn=arn)
    assert files.get_file_system(fileSystemId=made["fileSystemId"])["status"] == "available"


def test_the_same_token_makes_one(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    role = files.get_file_system(fileSystemId=ids["FileSystemId"])["roleArn"]
    given = {"bucket": f"arn:aws:s3:::{ids['Bucket']}", "roleArn": role, "clientToken": "once"}
    first = files.create_file_system(**given)["fileSystemId"]
    assert files.create_file_system(**given)["fileSystemId"] == first
    assert code(lambda: files.create_file_system(**given, prefix="a/")) == (
        "ConflictException",
        "FileSystemAlreadyExists",
    )


# --- events of the bucket


def test_it_listens_to_its_bucket(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    s3, events = aws_emulator.client("s3"), aws_emulator.client("events")
    assert "EventBridgeConfiguration" in s3.get_bucket_notification_configuration(Bucket=ids["Bucket"])
    rule = events.list_rules()["Rules"][0]
    assert rule["Name"].startswith("DO-NOT-DELETE-S3-Files")
    assert rule["ManagedBy"] == "elasticfilesystem.amazonaws.com"
    assert json.loads(rule["EventPattern"])["detail"]["bucket"]["name"] == [ids["Bucket"]]
    s3.put_object(Bucket=ids["Bucket"], Key="a", Body=b"x")
    aws_emulator.destroy("files", retain=["Bucket"])
    assert events.list_rules()["Rules"] == []


def test_other_notifications_of_the_bucket_stay(aws_emulator: Emulator) -> None:
    template = s3_files()
    template["Resources"]["Queue"] = {"Type": "AWS::SQS::Queue"}
    queue = {"Event": "s3:ObjectCreated:*", "Queue": {"Fn::GetAtt": ["Queue", "Arn"]}}
    template["Resources"]["Bucket"]["Properties"]["NotificationConfiguration"] = {"QueueConfigurations": [queue]}
    bucket = aws_emulator.deploy(template, "files").physical_ids["Bucket"]
    shown = aws_emulator.client("s3").get_bucket_notification_configuration(Bucket=bucket)
    assert len(shown["QueueConfigurations"]) == 1
    assert "EventBridgeConfiguration" in shown


def test_without_events_it_is_misconfigured(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    s3 = aws_emulator.client("s3")
    s3.put_bucket_notification_configuration(Bucket=ids["Bucket"], NotificationConfiguration={})
    shown = files.get_file_system(fileSystemId=ids["FileSystemId"])
    assert (shown["status"], "does not send events" in shown["statusMessage"]) == ("misconfigured", True)
    s3.put_bucket_notification_configuration(
        Bucket=ids["Bucket"], NotificationConfiguration={"EventBridgeConfiguration": {}}
    )
    assert files.get_file_system(fileSystemId=ids["FileSystemId"])["status"] == "available"


# --- synchronization


def rules(*prefixes: str, days: int = 7) -> dict[str, Any]:
    return {
        "ImportDataRules": [
            {"Prefix": prefix, "Trigger": "ON_FILE_ACCESS", "SizeLessThan": 1048576} for prefix in prefixes
        ],
        "ExpirationDataRules": [{"DaysAfterLastAccess": days}],
    }


def test_synchronization_by_default(files: Any, ids: dict[str, str]) -> None:
    shown = files.get_synchronization_configuration(fileSystemId=ids["FileSystemId"])
    assert shown["importDataRules"] == [
        {"prefix": "", "trigger": "ON_DIRECTORY_FIRST_ACCESS", "sizeLessThan": 128 * 1024}
    ]
    assert shown["expirationDataRules"] == [{"daysAfterLastAccess": 30}]


def test_synchronization_changes_in_place(aws_emulator: Emulator, files: Any) -> None:
    template = with_properties("Files", SynchronizationConfiguration=rules("", "datasets/"))
    ids = aws_emulator.deploy(template, "files").physical_ids
    template = with_properties("Files", SynchronizationConfiguration=rules("", days=1))
    assert aws_emulator.update("files", template).physical_ids == ids
    shown = files.get_synchronization_configuration(fileSystemId=ids["Files"])
    assert [rule["prefix"] for rule in shown["importDataRules"]] == [""]
    assert shown["expirationDataRules"] == [{"daysAfterLastAccess": 1}]
    assert shown["latestVersionNumber"] == 3


@pytest.mark.parametrize("prefixes", [("datasets/",), ("", ""), ("", "a/", "a/")])
def test_rules_of_synchronization_that_do_not_fit(aws_emulator: Emulator, prefixes: tuple[str, ...]) -> None:
    with pytest.raises(StackFailedError, match="importDataRules"):
        aws_emulator.deploy(with_properties("Files", SynchronizationConfiguration=rules(*prefixes)), "files")
    assert aws_emulator.client("s3files").list_file_systems()["fileSystems"] == []


def test_two_do_not_change_it_at_once(files: Any, ids: dict[str, str]) -> None:
    given = {
        "importDataRules": [{"prefix": "", "trigger": "ON_FILE_ACCESS", "sizeLessThan": 0}],
        "expirationDataRules": [{"daysAfterLastAccess": 1}],
        "latestVersionNumber": 1,
        "fileSystemId": ids["FileSystemId"],
    }
    files.put_synchronization_configuration(**given)
    assert code(lambda: files.put_synchronization_configuration(**given)) == ("ConflictException", "VersionMismatch")


# --- updates


@pytest.mark.parametrize("change", [{"Prefix": "datasets/"}, {"AcceptBucketWarning": True}])
def test_other_properties_make_another_one(aws_emulator: Emulator, files: Any, change: dict[str, Any]) -> None:
    first = aws_emulator.deploy(s3_files(), "files").physical_ids
    second = aws_emulator.update("files", with_properties("Files", **change)).physical_ids
    assert first["Files"] != second["Files"]
    assert first["Target"] != second["Target"]
    assert [item["fileSystemArn"] for item in files.list_file_systems()["fileSystems"]] == [second["Files"]]
    assert [item["mountTargetId"] for item in files.list_mount_targets()["mountTargets"]] == [second["Target"]]


def test_tags_change_in_place(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    template = with_properties("Files", Tags=[{"Key": "Name", "Value": "lake"}])
    assert aws_emulator.update("files", template).physical_ids["Files"] == ids["Files"]
    assert files.get_file_system(fileSystemId=ids["FileSystemId"])["name"] == "lake"
    tags = files.list_tags_for_resource(resourceId=ids["FileSystemId"])["tags"]
    assert tags == [{"key": "Name", "value": "lake"}]
    aws_emulator.update("files", s3_files())
    assert files.list_tags_for_resource(resourceId=ids["FileSystemId"])["tags"] == []


# --- exports


def test_it_is_kept_while_exports_wait(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    aws_emulator.set_pending_exports(ids["FileSystemId"], 3)
    with pytest.raises(StackFailedError, match="3 files that are not exported to its bucket yet") as error:
        aws_emulator.destroy("files")
    assert error.value.status == "DELETE_FAILED"
    # what it stands on is left alone
    assert {"Bucket", "Role", "Files"} <= set(aws_emulator.stack("files").physical_ids)
    assert files.get_file_system(fileSystemId=ids["FileSystemId"])["status"] == "available"
    aws_emulator.set_pending_exports(ids["Files"], 0)
    assert aws_emulator.destroy("files").status == "DELETE_COMPLETE"


def test_exports_in_another_account_and_region(aws_emulator: Emulator) -> None:
    template = s3_files()
    template["Resources"]["Subnet"]["Properties"]["AvailabilityZoneId"] = "euw1-az1"
    ids = aws_emulator.deploy(template, "files", account="111122223333", region="eu-west-1").physical_ids
    aws_emulator.set_pending_exports(ids["Files"], 1)
    with pytest.raises(StackFailedError, match="1 files that are not exported"):
        aws_emulator.destroy("files", account="111122223333", region="eu-west-1")


def test_a_replacement_leaves_the_old_one_while_exports_wait(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    aws_emulator.set_pending_exports(ids["FileSystemId"], 1)
    after = aws_emulator.update("files", with_properties("Files", Prefix="datasets/"))
    assert after.status == "UPDATE_COMPLETE"
    assert any(event.status == "DELETE_FAILED" and "not exported" in event.reason for event in after.events)


def test_force_loses_what_waits(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    aws_emulator.set_pending_exports(ids["FileSystemId"], 3)
    files.delete_mount_target(mountTargetId=ids["Target"])
    key = ids["FileSystemId"]
    assert code(lambda: files.delete_file_system(fileSystemId=key)) == ("ConflictException", "PendingExports")
    files.delete_file_system(fileSystemId=key, forceDelete=True)
    assert files.list_file_systems()["fileSystems"] == []


def test_the_metric_shows_what_waits(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    aws_emulator.set_pending_exports(ids["FileSystemId"], 3)
    now = datetime.now(tz=UTC)
    points = aws_emulator.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/S3/Files",
        MetricName="PendingExports",
        Dimensions=[{"Name": "FileSystemId", "Value": ids["FileSystemId"]}],
        StartTime=now - timedelta(minutes=5),
        EndTime=now + timedelta(minutes=5),
        Period=600,
        Statistics=["Maximum"],
    )["Datapoints"]
    assert [point["Maximum"] for point in points] == [3.0]


def test_exports_of_a_file_system_that_is_not_there(aws_emulator: Emulator) -> None:
    with pytest.raises(EmulatorError, match="no S3 Files file system fs-1"):
        aws_emulator.set_pending_exports("fs-1", 1)


# --- mount targets


def test_a_mount_target_has_an_address(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    target = files.get_mount_target(mountTargetId=ids["Target"])
    assert (target["subnetId"], target["status"], target["availabilityZoneId"]) == (
        ids["Subnet"],
        "available",
        "use1-az6",
    )
    interface = aws_emulator.client("ec2").describe_network_interfaces(
        NetworkInterfaceIds=[target["networkInterfaceId"]]
    )["NetworkInterfaces"][0]
    assert (interface["PrivateIpAddress"], interface["SubnetId"]) == (target["ipv4Address"], ids["Subnet"])
    assert [group["GroupId"] for group in interface["Groups"]] == target["securityGroups"] == [ids["Group"]]
    assert interface["RequesterManaged"] is True


def test_what_it_uses_is_kept(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    ec2 = aws_emulator.client("ec2")
    interface = files.get_mount_target(mountTargetId=ids["Target"])["networkInterfaceId"]
    assert code(lambda: ec2.delete_security_group(GroupId=ids["Group"]))[0] == "DependencyViolation"
    assert code(lambda: ec2.delete_subnet(SubnetId=ids["Subnet"]))[0] == "DependencyViolation"
    assert code(lambda: ec2.delete_network_interface(NetworkInterfaceId=interface))[0] == "InvalidParameterValue"
    files.delete_mount_target(mountTargetId=ids["Target"])
    assert ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    ec2.delete_subnet(SubnetId=ids["Subnet"])


def test_a_group_in_another_stack_waits_for_it(aws_emulator: Emulator) -> None:
    everything = s3_files()
    names = ("Vpc", "Subnet", "Group", "In", "Out")
    net = {"Resources": {name: everything["Resources"][name] for name in names}}
    there = aws_emulator.deploy(net, "net").physical_ids
    files = without(everything, *names)
    files["Resources"]["Target"]["Properties"] |= {"SubnetId": there["Subnet"], "SecurityGroups": [there["Group"]]}
    aws_emulator.deploy(files, "files")
    with pytest.raises(StackFailedError, match="has dependencies and cannot be deleted"):
        aws_emulator.destroy("net")
    aws_emulator.destroy("files")
    assert aws_emulator.destroy("net").status == "DELETE_COMPLETE"


def second(**properties: Any) -> dict[str, Any]:
    """The template with another subnet in another zone, and a second mount target in it."""
    template = s3_files()
    subnet = {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.64.0/24", "AvailabilityZoneId": "use1-az4"}
    template["Resources"]["Other"] = {"Type": "AWS::EC2::Subnet", "Properties": subnet}
    target = copy.deepcopy(template["Resources"]["Target"])
    target["Properties"] |= {"SubnetId": {"Ref": "Other"}, **properties}
    template["Resources"]["Second"] = target
    return template


def test_one_in_each_zone(aws_emulator: Emulator, files: Any) -> None:
    aws_emulator.deploy(second(), "files")
    zones = {item["availabilityZoneId"] for item in files.list_mount_targets()["mountTargets"]}
    assert zones == {"use1-az4", "use1-az6"}


def test_not_two_in_one_zone(aws_emulator: Emulator) -> None:
    template = second()
    template["Resources"]["Other"]["Properties"]["AvailabilityZoneId"] = "use1-az6"
    with pytest.raises(StackFailedError, match="has a mount target in use1-az6 already"):
        aws_emulator.deploy(template, "files")


def test_not_in_two_networks(aws_emulator: Emulator) -> None:
    template = second()
    template["Resources"]["OtherVpc"] = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.1.0.0/16"}}
    template["Resources"]["Other"]["Properties"] |= {"VpcId": {"Ref": "OtherVpc"}, "CidrBlock": "10.1.0.0/24"}
    del template["Resources"]["Second"]["Properties"]["SecurityGroups"]
    template["Resources"]["Second"]["DependsOn"] = "Target"
    with pytest.raises(StackFailedError, match="all are in one VPC"):
        aws_emulator.deploy(template, "files")


def test_five_security_groups_and_no_more(aws_emulator: Emulator) -> None:
    template = s3_files()
    for number in range(5):
        group = {"GroupDescription": "more", "VpcId": {"Ref": "Vpc"}}
        template["Resources"][f"G{number}"] = {"Type": "AWS::EC2::SecurityGroup", "Properties": group}
    groups = [{"Ref": f"G{number}"} for number in range(5)]
    target = template["Resources"]["Target"]["Properties"]
    target["SecurityGroups"] = groups
    ids = aws_emulator.deploy(template, "files").physical_ids
    target["SecurityGroups"] = [*groups, {"Ref": "Group"}]
    with pytest.raises(StackFailedError, match="at most 5 security groups, got 6"):
        aws_emulator.update("files", template)
    target["SecurityGroups"] = [{"Ref": "Group"}]
    assert aws_emulator.update("files", template).physical_ids == ids
    shown = aws_emulator.client("s3files").get_mount_target(mountTargetId=ids["Target"])
    assert shown["securityGroups"] == [ids["Group"]]


def test_a_group_of_another_network(aws_emulator: Emulator) -> None:
    template = s3_files()
    template["Resources"]["OtherVpc"] = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.1.0.0/16"}}
    group = {"GroupDescription": "other", "VpcId": {"Ref": "OtherVpc"}}
    template["Resources"]["OtherGroup"] = {"Type": "AWS::EC2::SecurityGroup", "Properties": group}
    template["Resources"]["Target"]["Properties"]["SecurityGroups"] = [{"Ref": "OtherGroup"}]
    with pytest.raises(StackFailedError, match="does not exist in VPC"):
        aws_emulator.deploy(template, "files")


def test_a_subnet_that_is_not_there(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="subnet ID 'subnet-00000000000000000' does not exist"):
        aws_emulator.deploy(with_properties("Target", SubnetId="subnet-00000000000000000"), "files")


@pytest.mark.parametrize(
    ("given", "reason"),
    [({"Ipv4Address": "10.9.0.9"}, "not in subnet"), ({"IpAddressType": "DUAL_STACK"}, "has no IPv6 addresses")],
)
def test_addresses_that_the_subnet_does_not_have(aws_emulator: Emulator, given: dict[str, str], reason: str) -> None:
    with pytest.raises(StackFailedError, match=reason):
        aws_emulator.deploy(with_properties("Target", **given), "files")


def test_an_address_of_ones_own(aws_emulator: Emulator, files: Any) -> None:
    ids = aws_emulator.deploy(with_properties("Target", Ipv4Address="10.0.0.77"), "files").physical_ids
    assert files.get_mount_target(mountTargetId=ids["Target"])["ipv4Address"] == "10.0.0.77"


def test_a_file_system_with_mount_targets_is_kept(files: Any, ids: dict[str, str]) -> None:
    delete = lambda: files.delete_file_system(fileSystemId=ids["FileSystemId"])  # noqa: E731
    assert code(delete) == ("ConflictException", "FileSystemInUse")


# --- access points and policies


def with_access_point() -> dict[str, Any]:
    template = s3_files()
    template["Resources"]["Point"] = {
        "Type": "AWS::S3Files::AccessPoint",
        "Properties": {
            "FileSystemId": {"Fn::GetAtt": ["Files", "FileSystemId"]},
            "PosixUser": {"Uid": "1000", "Gid": "1001", "SecondaryGids": ["7"]},
            "RootDirectory": {
                "Path": "/team",
                "CreationPermissions": {"OwnerUid": "1000", "OwnerGid": "1001", "Permissions": "0750"},
            },
        },
    }
    return template


def test_an_access_point(aws_emulator: Emulator, files: Any) -> None:
    ids = aws_emulator.deploy(with_access_point(), "files").physical_ids
    shown = files.get_access_point(accessPointId=ids["Point"])
    assert shown["posixUser"] == {"uid": 1000, "gid": 1001, "secondaryGids": [7]}
    assert shown["rootDirectory"]["creationPermissions"] == {"ownerUid": 1000, "ownerGid": 1001, "permissions": "0750"}
    assert shown["accessPointArn"] == f"{ids['Files']}/access-point/{ids['Point']}"
    assert len(files.list_access_points(fileSystemId=ids["Files"])["accessPoints"]) == 1
    targets = files.list_mount_targets(accessPointId=ids["Point"])["mountTargets"]
    assert [item["mountTargetId"] for item in targets] == [ids["Target"]]
    aws_emulator.update("files", s3_files())
    assert code(lambda: files.get_access_point(accessPointId=ids["Point"])) == (
        "ResourceNotFoundException",
        "AccessPointNotFound",
    )


def with_policy(effect: str = "Allow") -> dict[str, Any]:
    template = s3_files()
    statement = {"Effect": effect, "Principal": {"AWS": "*"}, "Action": "s3files:ClientMount"}
    template["Resources"]["Policy"] = {
        "Type": "AWS::S3Files::FileSystemPolicy",
        "Properties": {
            "FileSystemId": {"Fn::GetAtt": ["Files", "FileSystemId"]},
            "Policy": {"Version": "2012-10-17", "Statement": [statement]},
        },
    }
    return template


def test_a_policy_comes_changes_and_goes(aws_emulator: Emulator, files: Any) -> None:
    key = aws_emulator.deploy(with_policy(), "files").physical_ids["Policy"]

    def effect() -> str:
        policy = json.loads(files.get_file_system_policy(fileSystemId=key)["policy"])
        return str(policy["Statement"][0]["Effect"])

    assert effect() == "Allow"
    aws_emulator.update("files", with_policy("Deny"))
    assert effect() == "Deny"
    aws_emulator.update("files", s3_files())
    assert code(effect) == ("ResourceNotFoundException", "PolicyNotFound")


def test_a_policy_that_is_there_already(aws_emulator: Emulator, files: Any, ids: dict[str, str]) -> None:
    policy = json.dumps({"Version": "2012-10-17", "Statement": []})
    files.put_file_system_policy(fileSystemId=ids["FileSystemId"], policy=policy)
    with pytest.raises(StackFailedError, match="already exists"):
        aws_emulator.update("files", with_policy())


def test_policies_that_the_service_refuses(files: Any, ids: dict[str, str]) -> None:
    def put(text: str) -> Any:
        return files.put_file_system_policy(fileSystemId=ids["FileSystemId"], policy=text)

    assert code(lambda: put("no json")) == ("ValidationException", "InvalidPolicy")
    long = json.dumps({"Statement": [{"Sid": "a" * 20000}]})
    assert code(lambda: put(long)) == ("ValidationException", "PolicyTooLong")


def test_nothing_is_left_for_the_next_emulator(files: Any) -> None:
    assert files.list_file_systems()["fileSystems"] == []
    assert files.list_mount_targets()["mountTargets"] == []


def test_properties_are_checked_against_the_registry(aws_emulator: Emulator) -> None:
    with pytest.raises(StackFailedError, match="Properties validation failed for AWS::S3Files::FileSystem"):
        aws_emulator.deploy(with_properties("Files", Bucket="lake"), "files")


@pytest.mark.slow
def test_the_same_over_http(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    own = boto3.client(
        "s3files",
        endpoint_url=aws_emulator.server.url,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    )
    key = ids["FileSystemId"]
    assert own.get_file_system(fileSystemId=ids["Files"])["status"] == "available"
    assert own.list_mount_targets(fileSystemId=key)["mountTargets"][0]["mountTargetId"] == ids["Target"]
    own.tag_resource(resourceId=key, tags=[{"key": "a", "value": "b"}])
    assert own.list_tags_for_resource(resourceId=ids["Files"])["tags"] == [{"key": "a", "value": "b"}]
    assert code(lambda: own.delete_file_system(fileSystemId=key)) == ("ConflictException", "FileSystemInUse")
    own.delete_mount_target(mountTargetId=ids["Target"])
    own.delete_file_system(fileSystemId=key)
    assert own.list_file_systems()["fileSystems"] == []
    assert aws_emulator.server.failures == []
