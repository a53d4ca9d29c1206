"""FSx for Lustre in the emulator: what describe shows, and what is refused.

Limits and refusals are those of the FSx API reference (service model 2018-03-01) and the Lustre user guide.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulated.emulator_templates import changed, file_system, hot, link, network, without
from training_storage.emulator import Emulator, StackFailedError


@pytest.fixture
def ids(aws_emulator: Emulator) -> dict[str, str]:
    return aws_emulator.deploy(hot(), "hot").physical_ids


def code(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_a_file_system_is_described_as_the_service_does(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    shown = aws_emulator.client("fsx").describe_file_systems(FileSystemIds=[ids["Fs"]])["FileSystems"][0]
    assert re.fullmatch(r"fs-0[0-9a-f]{16}", ids["Fs"])
    assert (shown["Lifecycle"], shown["FileSystemTypeVersion"]) == ("AVAILABLE", "2.15")
    assert shown["DNSName"] == f"{ids['Fs']}.fsx.us-east-1.amazonaws.com"
    assert shown["VpcId"] == ids["Vpc"]
    assert re.fullmatch(r"[a-z0-9]{8}", shown["LustreConfiguration"]["MountName"])
    assert shown["LustreConfiguration"]["DeploymentType"] == "PERSISTENT_2"


def test_attributes_agree_with_the_service(aws_emulator: Emulator) -> None:
    template = hot()
    for name in ("DNSName", "LustreMountName", "ResourceARN"):
        template["Outputs"][name] = {"Value": {"Fn::GetAtt": ["Fs", name]}}
    outputs = aws_emulator.deploy(template, "hot").outputs
    shown = aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]
    assert outputs["DNSName"] == shown["DNSName"]
    assert outputs["LustreMountName"] == shown["LustreConfiguration"]["MountName"]
    assert outputs["ResourceARN"] == shown["ResourceARN"]


def test_an_unknown_file_system_is_not_found(aws_emulator: Emulator) -> None:
    with pytest.raises(ClientError) as error:
        aws_emulator.client("fsx").describe_file_systems(FileSystemIds=["fs-0123456789abcdef0"])
    assert code(error) == "FileSystemNotFound"


def test_update_file_system(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    fsx = aws_emulator.client("fsx")
    answer = fsx.update_file_system(
        FileSystemId=ids["Fs"],
        StorageCapacity=7200,
        LustreConfiguration={"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 12000}},
    )["FileSystem"]
    assert answer["StorageCapacity"] == 7200
    assert answer["LustreConfiguration"]["MetadataConfiguration"] == {"Mode": "USER_PROVISIONED", "Iops": 12000}
    assert answer["LustreConfiguration"]["PerUnitStorageThroughput"] == 250


def test_efa_cannot_be_switched_later(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    template = changed(hot(), "Resources", "Fs", "Properties", "LustreConfiguration", "EfaEnabled", to=True)
    with pytest.raises(StackFailedError, match="cannot be updated: EfaEnabled"):
        aws_emulator.update("hot", template)
    assert aws_emulator.stack("hot").physical_ids == ids


def test_another_deployment_type_is_another_file_system(aws_emulator: Emulator) -> None:
    template = without(hot(), "Link")
    first = aws_emulator.deploy(template, "hot").physical_ids["Fs"]
    other = changed(
        template, "Resources", "Fs", "Properties", "LustreConfiguration", to={"DeploymentType": "SCRATCH_2"}
    )
    assert aws_emulator.update("hot", other).physical_ids["Fs"] != first


@pytest.mark.parametrize("lost", ["In", "Out"])
def test_efa_needs_the_security_group_rules_first(aws_emulator: Emulator, lost: str) -> None:
    template = {"Resources": {**network(), "Fs": file_system(EfaEnabled=True)}}
    template["Resources"]["Fs"]["DependsOn"] = [name for name in ("In", "Out") if name != lost]
    template["Resources"][lost]["DependsOn"] = "Fs"
    with pytest.raises(StackFailedError, match="security group"):
        aws_emulator.deploy(template, "hot")


def test_efa_takes_rules_by_group_id_only(aws_emulator: Emulator) -> None:
    template = {"Resources": {**network(), "Fs": file_system(EfaEnabled=True)}}
    del template["Resources"]["In"]["Properties"]["SourceSecurityGroupId"]
    template["Resources"]["In"]["Properties"]["CidrIp"] = "0.0.0.0/0"
    with pytest.raises(StackFailedError, match="Insufficient security group permissions to create an EFA-enabled"):
        aws_emulator.deploy(template, "hot")


def test_lustre_needs_port_988(aws_emulator: Emulator) -> None:
    template = {"Resources": {**network(), "Fs": file_system()}}
    template["Resources"]["In"]["Properties"] |= {"IpProtocol": "tcp", "FromPort": 1018, "ToPort": 1023}
    with pytest.raises(StackFailedError, match="do not permit Lustre LNET network traffic on port 988"):
        aws_emulator.deploy(template, "hot")


def test_the_log_group_has_to_be_there(aws_emulator: Emulator) -> None:
    arn = "arn:aws:logs:us-east-1:123456789012:log-group:/aws/fsx/hot"
    template = {
        "Resources": {**network(), "Fs": file_system(LogConfiguration={"Level": "WARN_ERROR", "Destination": arn})}
    }
    with pytest.raises(StackFailedError, match="log group '/aws/fsx/hot' does not exist"):
        aws_emulator.deploy(template, "hot")
    template["Resources"]["Logs"] = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": "/aws/fsx/hot"}}
    template["Resources"]["Fs"]["DependsOn"] = ["In", "Out", "Logs"]
    assert aws_emulator.deploy(template, "hot").status == "CREATE_COMPLETE"


def links(count: int) -> dict[str, Any]:
    template = without(hot(), "Link")
    for number in range(count):
        template["Resources"][f"Link{number}"] = link(f"/d{number}", f"d{number}")
    return template


def test_eight_associations_and_no_more(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(links(8), "hot")
    with pytest.raises(StackFailedError, match="can have 8 data repository associations"):
        aws_emulator.update("hot", links(9))


@pytest.mark.parametrize(
    ("path", "source", "named"),
    [
        ("/datasets/a", "other", "FileSystemPath"),
        ("/", "other", "FileSystemPath"),
        ("/other", "datasets/a", "DataRepositoryPath"),
    ],
)
def test_paths_do_not_overlap(aws_emulator: Emulator, path: str, source: str, named: str) -> None:
    template = hot()
    template["Resources"]["Second"] = {**link(path, source), "DependsOn": "Link"}
    with pytest.raises(StackFailedError, match=f"{named} '.*' overlaps"):
        aws_emulator.deploy(template, "hot")


def test_a_neighbour_with_the_same_beginning_is_no_overlap(aws_emulator: Emulator) -> None:
    template = hot()
    template["Resources"]["Second"] = link("/datasets2", "datasets2")
    assert aws_emulator.deploy(template, "hot").status == "CREATE_COMPLETE"


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (
            {"LustreConfiguration": {"DeploymentType": "SCRATCH_1"}, "StorageCapacity": 1200},
            "not supported on SCRATCH_1",
        ),
        (
            {"StorageType": "INTELLIGENT_TIERING", "LustreConfiguration": {"DeploymentType": "PERSISTENT_2"}},
            "not supported on INTELLIGENT_TIERING",
        ),
        (
            {"FileSystemTypeVersion": "2.10", "LustreConfiguration": {"DeploymentType": "SCRATCH_2"}},
            "need Lustre version 2.12",
        ),
        (
            {"LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "AutomaticBackupRetentionDays": 7}},
            "Turn automatic backups off",
        ),
    ],
)
def test_file_systems_that_cannot_be_linked(aws_emulator: Emulator, properties: dict[str, Any], reason: str) -> None:
    template = hot()
    template["Resources"]["Fs"]["Properties"] |= properties
    with pytest.raises(StackFailedError, match=reason):
        aws_emulator.deploy(template, "hot")


def test_an_association_is_listed_and_filtered(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    fsx = aws_emulator.client("fsx")
    one = fsx.describe_data_repository_associations(Filters=[{"Name": "file-system-id", "Values": [ids["Fs"]]}])[
        "Associations"
    ][0]
    assert (one["AssociationId"], one["Lifecycle"]) == (ids["Link"], "AVAILABLE")
    assert one["S3"]["AutoImportPolicy"]["Events"] == ["NEW", "CHANGED"]
    others = fsx.describe_data_repository_associations(
        Filters=[{"Name": "file-system-id", "Values": ["fs-0123456789abcdef0"]}]
    )
    assert others["Associations"] == []


def test_an_association_changes_in_place(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    template = changed(hot(), "Resources", "Link", "Properties", "S3", to={"AutoExportPolicy": {"Events": ["NEW"]}})
    assert aws_emulator.update("hot", template).physical_ids == ids
    shown = aws_emulator.client("fsx").describe_data_repository_associations()["Associations"][0]["S3"]
    assert shown["AutoImportPolicy"]["Events"] == []
    assert shown["AutoExportPolicy"]["Events"] == ["NEW"]


def test_report_10_a_link_that_imports_has_its_notification_until_somebody_replaces_all(
    aws_emulator: Emulator, ids: dict[str, str]
) -> None:
    fsx, s3 = aws_emulator.client("fsx"), aws_emulator.client("s3")
    (association,) = fsx.describe_data_repository_associations(AssociationIds=[ids["Link"]])["Associations"]
    bucket = association["DataRepositoryPath"].removeprefix("s3://").partition("/")[0]

    def named() -> list[str]:
        found = s3.get_bucket_notification_configuration(Bucket=bucket)
        return [each["Id"] for each in found.get("TopicConfigurations", ())]

    def imports(*events: str) -> None:
        fsx.update_data_repository_association(
            AssociationId=ids["Link"], S3={"AutoImportPolicy": {"Events": list(events)}}
        )

    imports("NEW")
    assert named() == ["FSx"]
    s3.put_object(Bucket=bucket, Key="datasets/a", Body=b"a")  # what FSx hears of disturbs nobody
    s3.put_bucket_notification_configuration(Bucket=bucket, NotificationConfiguration={"EventBridgeConfiguration": {}})
    assert named() == []
    imports("NEW", "CHANGED")  # what the diagnosis advises
    assert named() == ["FSx"]
    assert "EventBridgeConfiguration" in s3.get_bucket_notification_configuration(Bucket=bucket)
    imports()
    assert named() == []


def test_an_association_with_a_bucket_that_is_not_there(aws_emulator: Emulator) -> None:
    template = changed(
        hot(), "Resources", "Link", "Properties", "DataRepositoryPath", to="s3://nowhere-at-all/datasets/"
    )
    with pytest.raises(StackFailedError, match="Not Found"):
        aws_emulator.deploy(template, "hot")


def test_a_file_system_with_associations_is_not_deleted(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    with pytest.raises(ClientError, match="still has data repository associations") as error:
        aws_emulator.client("fsx").delete_file_system(FileSystemId=ids["Fs"])
    assert code(error) == "BadRequest"


def start(aws: Emulator, file_system_id: str, **more: Any) -> dict[str, Any]:
    given = {"Type": "IMPORT_METADATA_FROM_REPOSITORY", "Report": {"Enabled": False}, **more}
    task: dict[str, Any] = aws.client("fsx").create_data_repository_task(FileSystemId=file_system_id, **given)[
        "DataRepositoryTask"
    ]
    return task


def look(aws: Emulator, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = aws.client("fsx").describe_data_repository_tasks(TaskIds=[task_id])["DataRepositoryTasks"][
        0
    ]
    return found


def test_a_task_goes_through_its_states(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    aws_emulator.task_files(ids["Fs"], total=12)
    task = start(aws_emulator, ids["Fs"])["TaskId"]
    seen = [look(aws_emulator, task) for _ in range(4)]
    assert [item["Lifecycle"] for item in seen] == ["PENDING", "EXECUTING", "SUCCEEDED", "SUCCEEDED"]
    assert seen[2]["Status"] | {"LastUpdatedTime": None} == {
        "TotalCount": 12,
        "SucceededCount": 12,
        "FailedCount": 0,
        "LastUpdatedTime": None,
    }


def test_a_task_with_failed_files_fails(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    aws_emulator.task_files(ids["Fs"], total=12, failed=2)
    task = start(aws_emulator, ids["Fs"])["TaskId"]
    last = [look(aws_emulator, task) for _ in range(3)][-1]
    assert last["Lifecycle"] == "FAILED"
    assert (last["Status"]["SucceededCount"], last["Status"]["FailedCount"]) == (10, 2)


def test_one_task_at_a_time(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    start(aws_emulator, ids["Fs"])
    with pytest.raises(ClientError) as error:
        start(aws_emulator, ids["Fs"])
    assert code(error) == "DataRepositoryTaskExecuting"


def test_a_task_is_canceled(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    fsx = aws_emulator.client("fsx")
    task = start(aws_emulator, ids["Fs"])["TaskId"]
    assert fsx.cancel_data_repository_task(TaskId=task)["Lifecycle"] == "CANCELING"
    assert [look(aws_emulator, task)["Lifecycle"] for _ in range(2)] == ["CANCELING", "CANCELED"]
    with pytest.raises(ClientError) as error:
        fsx.cancel_data_repository_task(TaskId=task)
    assert code(error) == "DataRepositoryTaskEnded"


REPORT = {"Enabled": True, "Format": "REPORT_CSV_20191124", "Scope": "FAILED_FILES_ONLY"}


@pytest.mark.parametrize(
    ("report", "reason"),
    [(REPORT, "needs Path"), ({**REPORT, "Path": "s3://elsewhere/reports"}, "not under a linked data repository path")],
)
def test_a_report_needs_a_linked_path(
    aws_emulator: Emulator, ids: dict[str, str], report: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ClientError, match=reason):
        start(aws_emulator, ids["Fs"], Report=report)


def test_a_report_under_the_link_is_taken(aws_emulator: Emulator, ids: dict[str, str]) -> None:
    report = {**REPORT, "Path": f"s3://{ids['Bucket']}/datasets/reports"}
    assert start(aws_emulator, ids["Fs"], Report=report)["Lifecycle"] == "PENDING"


def test_an_export_task_does_not_run_beside_automatic_export(aws_emulator: Emulator) -> None:
    template = changed(hot(), "Resources", "Link", "Properties", "S3", to={"AutoExportPolicy": {"Events": ["NEW"]}})
    ids = aws_emulator.deploy(template, "hot").physical_ids
    with pytest.raises(ClientError, match="automatic export"):
        start(aws_emulator, ids["Fs"], Type="EXPORT_TO_REPOSITORY")


def test_nothing_is_left_for_the_next_emulator(aws_emulator: Emulator) -> None:
    assert aws_emulator.client("fsx").describe_data_repository_associations()["Associations"] == []
    assert aws_emulator.client("fsx").describe_data_repository_tasks()["DataRepositoryTasks"] == []


# --- other storage classes


def other_class(kind: str, **lustre: Any) -> dict[str, Any]:
    template = {"Resources": {**network(), "Bucket": {"Type": "AWS::S3::Bucket"}, "Fs": file_system()}}
    properties = template["Resources"]["Fs"]["Properties"]
    properties |= {"StorageType": kind, "LustreConfiguration": lustre}
    if kind == "INTELLIGENT_TIERING":
        del properties["StorageCapacity"]
    return template


def tiering(throughput: int = 4000) -> dict[str, Any]:
    return other_class(
        "INTELLIGENT_TIERING",
        DeploymentType="PERSISTENT_2",
        ThroughputCapacity=throughput,
        DataReadCacheConfiguration={"SizingMode": "USER_PROVISIONED", "SizeGiB": 1024},
        MetadataConfiguration={"Mode": "USER_PROVISIONED", "Iops": 6000},
    )


def test_hard_disks_with_their_cache(aws_emulator: Emulator) -> None:
    template = other_class("HDD", DeploymentType="PERSISTENT_1", PerUnitStorageThroughput=12, DriveCacheType="READ")
    template["Resources"]["Fs"]["Properties"]["StorageCapacity"] = 6000
    first = aws_emulator.deploy(template, "hot").physical_ids["Fs"]
    shown = aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]
    assert (shown["StorageType"], shown["StorageCapacity"]) == ("HDD", 6000)
    assert shown["LustreConfiguration"]["DriveCacheType"] == "READ"
    template["Resources"]["Fs"]["Properties"]["LustreConfiguration"]["DriveCacheType"] = "NONE"
    assert aws_emulator.update("hot", template).physical_ids["Fs"] != first


def test_tiering_has_no_capacity(aws_emulator: Emulator) -> None:
    aws_emulator.deploy(tiering(), "hot")
    shown = aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]
    assert (shown["StorageType"], "StorageCapacity" in shown) == ("INTELLIGENT_TIERING", False)
    assert shown["LustreConfiguration"]["ThroughputCapacity"] == 4000
    assert shown["LustreConfiguration"]["DataReadCacheConfiguration"]["SizeGiB"] == 1024
    assert shown["FileSystemTypeVersion"] == "2.15"


def test_throughput_of_tiering_goes_up_in_place(aws_emulator: Emulator) -> None:
    first = aws_emulator.deploy(tiering(), "hot").physical_ids
    assert aws_emulator.update("hot", tiering(8000)).physical_ids == first
    shown = aws_emulator.client("fsx").describe_file_systems()["FileSystems"][0]
    assert shown["LustreConfiguration"]["ThroughputCapacity"] == 8000
    with pytest.raises(StackFailedError, match="can only be increased"):
        aws_emulator.update("hot", tiering(4000))


def test_tiering_has_no_capacity_to_change(aws_emulator: Emulator) -> None:
    ids = aws_emulator.deploy(tiering(), "hot").physical_ids
    with pytest.raises(ClientError, match="has no storage capacity to change"):
        aws_emulator.client("fsx").update_file_system(FileSystemId=ids["Fs"], StorageCapacity=4800)


def test_tiering_takes_no_link(aws_emulator: Emulator) -> None:
    template = tiering()
    template["Resources"]["Link"] = link()
    with pytest.raises(StackFailedError, match="not supported on INTELLIGENT_TIERING"):
        aws_emulator.deploy(template, "hot")
