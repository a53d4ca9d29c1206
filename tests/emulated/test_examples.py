"""Every example through its life: create, deploy again, grow, destroy. The emulated APIs are asked, not exit codes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.assemblies import EXAMPLES, ROOT, Assembly, example, synthesize
from training_storage.emulator import Emulator, Stack, StackFailedError, emulator
from training_storage.parts import is_anything_made
from training_storage.planner import Plan, plan
from training_storage.workload import load_workload

# What the team of existing-everything has is made first: test_existing_everything.py.
ALONE = tuple(name for name in EXAMPLES if name != "existing-everything")

# What the contract calls the release order: what is expensive goes first, the lake stays.
RELEASE = ("monitoring", "compute", "hot")


def plan_of(name: str) -> Plan:
    return plan(load_workload(ROOT / "examples" / f"{name}.yaml"))


def grown(name: str) -> Assembly:
    """The example with a larger file system, or with one instance more where it has none."""
    data = YAML(typ="safe").load((ROOT / "examples" / f"{name}.yaml").read_text(encoding="utf-8"))
    planned = plan_of(name).lustre
    if planned is None:
        data["compute"]["instance_count"] += 1
    else:
        assert planned.storage_capacity_gib is not None
        # The EFA step of the tier is what one more server holds.
        step = planned.storage_capacity_gib // planned.servers
        data["lustre"] |= {
            "storage_capacity": f"{planned.storage_capacity_gib + step} GiB",
            "per_unit_storage_throughput": planned.per_unit_storage_throughput,
        }
    return synthesize(data)


class Deployed:
    """One example in an emulator of its own."""

    def __init__(self, name: str, aws: Emulator) -> None:
        self.name = name
        self.aws = aws
        self.plan = plan_of(name)
        self.stacks: dict[str, Stack] = aws.deploy_assembly(example(name).folder)

    def client(self, service: str) -> Any:
        """The client of a service where the workload stands."""
        return self.aws.client(service, region=self.plan.workload.region)

    def destroy(self, part: str) -> None:
        self.aws.destroy(f"{self.name}-{part}", region=self.plan.workload.region)

    def alive(self) -> set[str]:
        return {stack["StackName"] for stack in self.client("cloudformation").describe_stacks()["Stacks"]}

    def directory_buckets(self) -> list[str]:
        return sorted(bucket["Name"] for bucket in self.client("s3").list_directory_buckets()["Buckets"])

    def s3_file_systems(self) -> list[dict[str, Any]]:
        files = self.client("s3files")
        found = files.list_file_systems()["fileSystems"]
        return [files.get_file_system(fileSystemId=each["fileSystemId"]) for each in found]

    def stack(self, part: str) -> Stack:
        return self.stacks[f"{self.name}-{part}"]

    def file_systems(self) -> list[dict[str, Any]]:
        return list(self.client("fsx").describe_file_systems()["FileSystems"])

    def links(self) -> list[dict[str, Any]]:
        return list(self.client("fsx").describe_data_repository_associations()["Associations"])

    def group(self) -> dict[str, Any]:
        groups = self.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
        (found,) = [each for each in groups if not each["AutoScalingGroupName"].endswith("-storage-node")]
        return dict(found)

    def launch_template(self) -> dict[str, Any]:
        group = self.group()
        chosen = group["LaunchTemplate"]
        versions = self.client("ec2").describe_launch_template_versions(
            LaunchTemplateId=chosen["LaunchTemplateId"], Versions=[chosen["Version"]]
        )
        (found,) = versions["LaunchTemplateVersions"]
        return dict(found["LaunchTemplateData"])

    def user_data(self) -> str:
        return base64.b64decode(self.launch_template()["UserData"]).decode()

    def lake(self) -> str:
        return str(self.stack("lake").outputs["DataLakeBucketName"])


@pytest.fixture(scope="module", params=ALONE)
def deployed(request: pytest.FixtureRequest) -> Iterator[Deployed]:
    """One deployment an example: first come the tests that only look, then those that change it, in their order."""
    with emulator(region=plan_of(request.param).workload.region) as aws:
        yield Deployed(request.param, aws)


def test_the_file_system_is_the_planned_one(deployed: Deployed) -> None:
    planned = deployed.plan.lustre
    if planned is None:
        assert deployed.file_systems() == []
        return
    (found,) = deployed.file_systems()
    lustre = found["LustreConfiguration"]
    assert found["StorageCapacity"] == planned.storage_capacity_gib
    assert found["FileSystemTypeVersion"] == "2.15"
    assert lustre["DeploymentType"] == planned.deployment_type
    assert lustre["PerUnitStorageThroughput"] == planned.per_unit_storage_throughput
    assert lustre["MetadataConfiguration"]["Mode"] == planned.metadata_mode
    assert lustre["EfaEnabled"] is planned.efa
    assert lustre["DataCompressionType"] == "LZ4"
    assert found["FileSystemId"] == deployed.stack("hot").outputs["FileSystemId"]
    assert lustre["MountName"] == deployed.stack("hot").outputs["FileSystemMountName"]


def test_the_links_are_the_planned_ones_and_export_nothing(deployed: Deployed) -> None:
    planned = deployed.plan.lustre.links if deployed.plan.lustre else ()
    found = {link["FileSystemPath"]: link for link in deployed.links()}
    assert sorted(found) == sorted(link.path for link in planned)
    for link in planned:
        made = found[link.path]
        assert made["DataRepositoryPath"] == f"s3://{deployed.lake()}/{link.prefix}"
        assert made.get("BatchImportMetaDataOnCreate", False) is link.import_metadata_on_create
        imports = made.get("S3", {}).get("AutoImportPolicy", {}).get("Events", [])
        assert sorted(imports) == sorted(event.upper() for event in link.import_events)
        assert made.get("S3", {}).get("AutoExportPolicy", {}).get("Events", []) == []


def test_the_directory_buckets_are_the_planned_ones(deployed: Deployed) -> None:
    wanted = 0 if deployed.plan.express is None else deployed.plan.express.bucket_count
    wanted += deployed.plan.shared_cache is not None
    found = deployed.directory_buckets()
    assert len(found) == wanted
    assert all(name.endswith(f"--{deployed.plan.workload.availability_zone_id}--x-s3") for name in found)
    assert not {bucket["Name"] for bucket in deployed.client("s3").list_buckets()["Buckets"]} & set(found)
    if wanted:
        output = "DirectoryBucketNames" if deployed.plan.express else "SharedCacheBucketName"
        assert sorted(deployed.stack("hot").outputs[output].split(",")) == found
        assert all(name in deployed.user_data() for name in found)


def test_expiry_of_directory_buckets_really_works(deployed: Deployed) -> None:
    if deployed.plan.shared_cache is None:
        assert deployed.plan.workload.express.expire_after is None
        return
    (name,) = deployed.directory_buckets()
    assert deployed.aws.lifecycle_works(name)


def test_s3_files_shows_the_lake_in_the_subnet_of_the_fleet(deployed: Deployed) -> None:
    found = deployed.s3_file_systems()
    if deployed.plan.s3_files is None:
        assert found == []
        return
    (file_system,) = found
    assert file_system["status"] == "available"
    assert file_system["bucket"].endswith(f":{deployed.lake()}")
    assert file_system["fileSystemId"] == deployed.stack("hot").outputs["S3FileSystemId"]
    assert file_system["fileSystemId"] in deployed.user_data()
    (target,) = deployed.client("s3files").list_mount_targets(fileSystemId=file_system["fileSystemId"])["mountTargets"]
    assert target["subnetId"] in deployed.group()["VPCZoneIdentifier"]


def test_the_fleet_has_the_planned_size_and_interfaces(deployed: Deployed) -> None:
    compute = deployed.plan.compute
    group = deployed.group()
    assert (group["MinSize"], group["DesiredCapacity"]) == (compute.instance_count, compute.instance_count)
    interfaces = deployed.launch_template().get("NetworkInterfaces", [])
    made = [
        (item.get("NetworkCardIndex", 0), item["DeviceIndex"], item.get("InterfaceType", "interface"))
        for item in interfaces
    ]
    wanted = [(item.network_card_index, item.device_index, item.interface_type) for item in compute.facts.efa_layout]
    assert made == (wanted if compute.efa else made)
    assert deployed.launch_template()["InstanceType"] == compute.instance_type


def test_user_data_names_what_was_really_made(deployed: Deployed) -> None:
    text = deployed.user_data()
    assert "None" not in text
    assert "${" + "Token" not in text
    assert deployed.lake() in text
    for file_system in deployed.file_systems():
        assert file_system["FileSystemId"] in text
        assert file_system["LustreConfiguration"]["MountName"] in text
    # Field report 22: EC2 takes 16,384 bytes; ours stays under 8,192 to leave room for the user.
    assert len(text.encode()) < 8192


def test_the_lake_is_private_encrypted_versioned_and_sends_events(deployed: Deployed) -> None:
    s3, bucket = deployed.client("s3"), deployed.lake()
    assert s3.get_public_access_block(Bucket=bucket)["PublicAccessBlockConfiguration"] == {
        "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True,
    }  # fmt: skip
    (rule,) = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rule["ApplyServerSideEncryptionByDefault"]["SSEAlgorithm"] == "aws:kms"
    assert rule["BucketKeyEnabled"] is True
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert "EventBridgeConfiguration" in s3.get_bucket_notification_configuration(Bucket=bucket)
    policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    denied = [s for s in policy["Statement"] if s["Effect"] == "Deny"]
    assert any(s["Condition"] == {"Bool": {"aws:SecureTransport": "false"}} for s in denied)


def test_the_second_deploy_changes_nothing(deployed: Deployed) -> None:
    before = {name: stack.physical_ids for name, stack in deployed.stacks.items()}
    again = deployed.aws.deploy_assembly(example(deployed.name).folder)
    assert {name: stack.physical_ids for name, stack in again.items()} == before


def test_the_hot_stack_cannot_go_under_a_running_fleet(deployed: Deployed) -> None:
    if f"{deployed.name}-hot" not in deployed.stacks:
        assert not is_anything_made(deployed.plan)
        return
    with pytest.raises(StackFailedError, match=r"in use|imported"):
        deployed.destroy("hot")


def test_growing_keeps_the_file_system_and_the_fleet(deployed: Deployed) -> None:
    before = [file_system["FileSystemId"] for file_system in deployed.file_systems()]
    capacity = [file_system["StorageCapacity"] for file_system in deployed.file_systems()]
    group = deployed.group()["AutoScalingGroupName"]
    size = deployed.group()["DesiredCapacity"]
    deployed.aws.deploy_assembly(grown(deployed.name).folder)
    assert [file_system["FileSystemId"] for file_system in deployed.file_systems()] == before
    assert deployed.group()["AutoScalingGroupName"] == group
    if before:
        assert [file_system["StorageCapacity"] for file_system in deployed.file_systems()] > capacity
    else:
        assert deployed.group()["DesiredCapacity"] == size + 1


def test_release_order_frees_what_is_expensive_and_loses_nothing(deployed: Deployed) -> None:
    s3, bucket = deployed.client("s3"), deployed.lake()
    s3.put_object(Bucket=bucket, Key="checkpoints/step-1000/.metadata", Body=b"kept")
    for part in RELEASE:
        if f"{deployed.name}-{part}" in deployed.stacks:
            deployed.destroy(part)
    assert deployed.file_systems() == []
    assert deployed.links() == []
    assert deployed.directory_buckets() == []
    assert deployed.s3_file_systems() == []
    assert deployed.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"] == []
    assert s3.get_object(Bucket=bucket, Key="checkpoints/step-1000/.metadata")["Body"].read() == b"kept"


def test_everything_can_go_and_the_lake_still_holds_its_objects(deployed: Deployed) -> None:
    s3, bucket = deployed.client("s3"), deployed.lake()
    s3.put_object(Bucket=bucket, Key="models/final.safetensors", Body=b"kept")
    for name in reversed(list(deployed.stacks)):
        if name in deployed.alive():
            deployed.destroy(name.removeprefix(f"{deployed.name}-"))
    assert s3.get_object(Bucket=bucket, Key="models/final.safetensors")["Body"].read() == b"kept"
    groups = deployed.client("ec2").describe_security_groups()["SecurityGroups"]
    assert [group["GroupName"] for group in groups if group["GroupName"] != "default"] == []


def test_a_retained_file_system_outlives_its_stack(tmp_path: Path) -> None:
    data = YAML(typ="safe").load((ROOT / "examples" / "llama3-70b.yaml").read_text(encoding="utf-8"))
    data["lustre"] = {"removal": "retain"}
    with emulator() as aws:
        stacks = aws.deploy_assembly(synthesize(data, folder=str(tmp_path)).folder)
        for name in reversed(list(stacks)):
            if not name.endswith(("-network", "-lake")):
                aws.destroy(name)
        (file_system,) = aws.client("fsx").describe_file_systems()["FileSystems"]
        groups = {group["GroupId"] for group in aws.client("ec2").describe_security_groups()["SecurityGroups"]}
        assert file_system["FileSystemId"] == stacks["llama3-70b-hot"].outputs["FileSystemId"]
        # Field report 18: a kept file system keeps its group too, or the delete stops half way.
        assert len(groups) >= 2


@pytest.fixture
def object_native() -> Iterator[Deployed]:
    with emulator() as aws:
        yield Deployed("object-native-2048", aws)


def test_a_hot_bucket_with_anything_in_it_does_not_go(object_native: Deployed) -> None:
    s3, (bucket,) = object_native.client("s3"), object_native.directory_buckets()
    s3.put_object(Bucket=bucket, Key="checkpoints/step-1000/.metadata", Body=b"not archived")
    for part in ("monitoring", "compute"):
        object_native.destroy(part)
    with pytest.raises(StackFailedError, match="not empty"):
        object_native.destroy("hot")
    assert s3.get_object(Bucket=bucket, Key="checkpoints/step-1000/.metadata")["Body"].read() == b"not archived"
    s3.delete_object(Bucket=bucket, Key="checkpoints/step-1000/.metadata")
    object_native.destroy("hot")
    assert object_native.directory_buckets() == []


def test_a_shared_cache_is_emptied_and_goes_with_its_stack() -> None:
    with emulator() as aws:
        made = Deployed("express-cache", aws)
        s3, (bucket,) = made.client("s3"), made.directory_buckets()
        for index in range(3):
            s3.put_object(Bucket=bucket, Key=f"blocks/{index}", Body=b"a copy")
        s3.create_multipart_upload(Bucket=bucket, Key="blocks/half")
        for part in RELEASE:
            made.destroy(part)
        assert made.directory_buckets() == []


def test_s3_files_keeps_what_waits_to_be_exported() -> None:
    with emulator() as aws:
        made = Deployed("legacy-nfs-finetune", aws)
        (file_system,) = made.s3_file_systems()
        region = made.plan.workload.region
        aws.set_pending_exports(file_system["fileSystemId"], 3, region=region)
        for part in ("monitoring", "compute"):
            made.destroy(part)
        with pytest.raises(StackFailedError, match=r"[Ee]xport"):
            made.destroy("hot")
        assert len(made.s3_file_systems()) == 1
        aws.set_pending_exports(file_system["fileSystemId"], 0, region=region)
        made.destroy("hot")
        assert made.s3_file_systems() == []
