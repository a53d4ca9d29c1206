"""What a plan says about nodes, as mounts, rights, paths and user data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from tests.synth._fakes import FakeFileSystem
from training_storage import Plan, ValidationError, load_workload, plan
from training_storage.compute import LustreMount, MountpointMount, NodeStorage, S3FilesMount
from training_storage.tiers import DataLake, DirectoryBucket, S3FileSystem

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def planned(tmp_path: Path, name: str, section: str = "", line: str = "") -> Plan:
    """Plan an example, with a line put into one of its sections, in place of the one of that key."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    if section:
        text = re.sub(rf"^  {line.partition(':')[0]}:.*\n", "", text, flags=re.MULTILINE)
        assert f"\n{section}:\n" in text
        text = text.replace(f"\n{section}:\n", f"\n{section}:\n  {line}\n")
    path = tmp_path / f"{name}.yaml"
    path.write_text(text)
    return plan(load_workload(path))


class Made:
    """The mounts of a plan, with a role that holds their rights."""

    def __init__(self, app: cdk.App, plan_: Plan, **options: Any) -> None:
        self.stack = cdk.Stack(app, "Compute")
        self.file_system = FakeFileSystem(self.stack)
        options.setdefault("file_system", self.file_system)
        if plan_.express is not None:
            options.setdefault(
                "directory_buckets", [self.bucket(f"hot-{n}") for n in range(plan_.express.bucket_count)]
            )
        if plan_.shared_cache is not None:
            options.setdefault("shared_cache", self.bucket("cache"))
        if plan_.s3_files is not None:
            group = ec2.SecurityGroup.from_security_group_id(self.stack, "Group", "sg-0123456789abcdef0")
            options.setdefault(
                "s3_file_system",
                S3FileSystem.from_attributes(
                    self.stack, "Files", file_system_id="fs-0123456789abcdef01234", security_group=group
                ),
            )
        self.storage = NodeStorage.from_plan(
            self.stack, "Storage", plan=plan_, data_lake=DataLake(self.stack, "Lake"), **options
        )
        self.role = iam.Role(self.stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        self.storage.grant(self.role)

    def bucket(self, base: str) -> Any:
        return DirectoryBucket.from_bucket_name(self.stack, base, f"{base}--use1-az6--x-s3")

    @property
    def text(self) -> str:
        """The bootstrap, with what is not known yet as JSON."""
        resolved = self.stack.resolve("\n".join(self.storage.commands()))
        return (
            resolved
            if isinstance(resolved, str)
            else "".join(part if isinstance(part, str) else json.dumps(part) for part in resolved["Fn::Join"][1])
        )

    def statements(self) -> list[dict[str, Any]]:
        (policy,) = [
            found
            for found in Template.from_stack(self.stack).find_resources("AWS::IAM::Policy").values()
            if "Role" in json.dumps(found["Properties"]["Roles"])
        ]
        return list(policy["Properties"]["PolicyDocument"]["Statement"])


def test_llama3_mounts_lustre_over_efa_and_the_lake_read_only(app: cdk.App, tmp_path: Path) -> None:
    lustre, lake = Made(app, planned(tmp_path, "llama3-70b")).storage.mounts
    assert isinstance(lustre, LustreMount)
    assert isinstance(lake, MountpointMount)
    assert (lustre.path, lustre.efa, lustre.on_tcp) == ("/fsx", True, "report")
    assert (lustre.checkpoints, lustre.scratch) == ("checkpoints", "scratch")
    # one ENA interface of 100 Gbit/s on p5en (contract section 3, S3)
    assert (lake.path, lake.read_only, lake.maximum_throughput_gbps, lake.cache) == ("/lake", True, 100, "none")


def test_lustre_that_is_reached_over_tcp_is_not_set_up_for_efa(app: cdk.App, tmp_path: Path) -> None:
    plan_ = planned(tmp_path, "llama3-70b", "lustre", "efa: false")
    lustre = Made(app, plan_).storage.mounts[0]
    assert isinstance(lustre, LustreMount)
    assert lustre.efa is False


def test_lora_has_no_lustre_and_a_cache_of_at_most_80_percent_of_its_nvme(app: cdk.App, tmp_path: Path) -> None:
    (lake,) = Made(app, planned(tmp_path, "lora-finetune")).storage.mounts
    assert isinstance(lake, MountpointMount)
    assert lake.cache == "nvme"
    # g6e.48xlarge: 4 x 1900 GB
    assert lake.cache_size_mib is not None
    assert 0 < lake.cache_size_mib <= 7600 * 10**9 * 0.8 / 2**20


def test_lora_makes_its_checkpoint_directory_on_local_nvme(app: cdk.App, tmp_path: Path) -> None:
    assert "TS_DIRECTORIES=/opt/dlami/nvme/checkpoints\n" in Made(app, planned(tmp_path, "lora-finetune")).text


def test_nodes_of_a_plan_without_lustre_may_write_checkpoints_to_the_lake(app: cdk.App, tmp_path: Path) -> None:
    found = [
        each for each in Made(app, planned(tmp_path, "lora-finetune")).statements() if "s3:PutObject" in each["Action"]
    ]
    assert len(found) == 1
    assert "/checkpoints/*" in json.dumps(found[0]["Resource"])


def written(made: Made) -> set[str]:
    """Prefixes of the lake that nodes may write."""
    resources = [each["Resource"] for each in made.statements() if "s3:PutObject" in each["Action"]]
    return set(re.findall(r'"/([^"]*)\*"', json.dumps(resources)))


def test_nodes_of_a_plan_with_lustre_only_read_the_lake(app: cdk.App, tmp_path: Path) -> None:
    made = Made(app, planned(tmp_path, "llama3-70b"))
    assert "s3:GetObject" in json.dumps(made.statements())
    # Besides what is ours: FSx writes checkpoints, and nodes only ask it to.
    assert written(made) == {".training-storage/"}
    assert "s3:DeleteObject" not in json.dumps(made.statements())


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("llama3-70b", "TRAINING_STORAGE_DATASETS=/fsx/datasets"),
        ("llama3-70b", "TRAINING_STORAGE_CHECKPOINTS=/fsx/checkpoints"),
        ("llama3-70b", "TRAINING_STORAGE_SCRATCH=/fsx/scratch"),
        ("lora-finetune", "TRAINING_STORAGE_DATASETS=/lake/datasets"),
        ("lora-finetune", "TRAINING_STORAGE_CHECKPOINTS=/opt/dlami/nvme/checkpoints"),
    ],
)
def test_the_env_file_has_the_paths_of_the_plan(app: cdk.App, tmp_path: Path, name: str, line: str) -> None:
    assert f"{line}\n" in Made(app, planned(tmp_path, name)).text


def test_the_env_file_has_the_version_of_the_data_set_in_its_uri(app: cdk.App, tmp_path: Path) -> None:
    text = Made(app, planned(tmp_path, "llama3-70b")).text
    (line,) = [line for line in text.splitlines() if line.startswith("TRAINING_STORAGE_DATASETS_URI=")]
    assert line.endswith("/datasets/v3/")


def test_a_source_elsewhere_is_mounted_readable_and_named(app: cdk.App, tmp_path: Path) -> None:
    plan_ = planned(tmp_path, "lora-finetune", "dataset", "source: s3://their-bucket/v7/")
    made = Made(app, plan_)
    source = made.storage.mounts[-1]
    assert isinstance(source, MountpointMount)
    assert (source.path, source.prefix, source.read_only) == ("/source", "v7/", True)
    assert "BUCKET=their-bucket\n" in made.text
    assert "TRAINING_STORAGE_DATASETS_URI=s3://their-bucket/v7/\n" in made.text
    assert "their-bucket/v7/*" in json.dumps(made.statements())


def test_an_object_interface_has_no_mount_and_may_still_read_the_lake(app: cdk.App, tmp_path: Path) -> None:
    plan_ = planned(tmp_path, "lora-finetune", "dataset", "interface: object")
    made = Made(app, plan_)
    assert made.storage.mounts == ()
    assert "s3:GetObject" in json.dumps(made.statements())
    assert "s3:PutObject" in json.dumps(made.statements())


def test_report_22_every_example_leaves_half_of_the_user_data_to_the_user(app: cdk.App, tmp_path: Path) -> None:
    for path in sorted(EXAMPLES.glob("*.yaml")):
        made = Made(cdk.App(outdir=str(tmp_path / path.stem), analytics_reporting=False), planned(tmp_path, path.stem))
        # the measure of the fleet is the worst case; this is what stands there before any value is put in
        assert len(made.text.encode()) < 8192


def test_a_plan_with_lustre_needs_its_file_system(app: cdk.App, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="file_system"):
        Made(app, planned(tmp_path, "llama3-70b"), file_system=None)


# S3 Express One Zone


def test_a_hot_tier_in_s3_express_is_mounted_so_that_savers_can_rename_overwrite_and_delete(
    app: cdk.App, tmp_path: Path
) -> None:
    (hot,) = Made(app, planned(tmp_path, "object-native-2048")).storage.mounts
    assert isinstance(hot, MountpointMount)
    assert (hot.path, hot.read_only, hot.allow_overwrite, hot.allow_delete) == ("/hot", False, True, True)
    assert hot.incremental_upload is False
    assert hot.cache == "none"


def test_code_that_appends_gets_incremental_uploads(app: cdk.App, tmp_path: Path) -> None:
    plan_ = planned(tmp_path, "object-native-2048", "dataset", "access: read-write")
    (hot,) = Made(app, plan_).storage.mounts
    assert isinstance(hot, MountpointMount)
    assert hot.incremental_upload is True


@pytest.mark.parametrize(("size", "part"), [("18 TiB", None), ("22 TiB", 10)])
def test_a_share_of_a_checkpoint_fits_one_file(app: cdk.App, tmp_path: Path, size: str, part: int | None) -> None:
    # 256 instances: 10,000 parts of 8 MiB hold 78.1 GiB, and 22 TiB are 88 GiB a node.
    text = (EXAMPLES / "object-native-2048.yaml").read_text().replace("parameters: 405e9", f"size: {size}")
    path = tmp_path / "large.yaml"
    path.write_text(text)
    (hot,) = Made(app, plan(load_workload(path))).storage.mounts
    assert isinstance(hot, MountpointMount)
    assert hot.write_part_size_mib == part


@pytest.mark.parametrize(
    "line",
    [
        "TRAINING_STORAGE_HOT_URI=s3://hot-0--use1-az6--x-s3/",
        "TRAINING_STORAGE_HOT_URIS=s3://hot-0--use1-az6--x-s3/",
        "TRAINING_STORAGE_DATASETS_URI=s3://hot-0--use1-az6--x-s3/datasets/v7/",
        "TRAINING_STORAGE_CHECKPOINTS_URI=s3://hot-0--use1-az6--x-s3/checkpoints/",
    ],
)
def test_object_code_finds_the_hot_tier_by_its_uri(app: cdk.App, tmp_path: Path, line: str) -> None:
    assert f"{line}\n" in Made(app, planned(tmp_path, "object-native-2048")).text


def test_the_lake_is_still_named_beside_a_hot_tier(app: cdk.App, tmp_path: Path) -> None:
    assert "TRAINING_STORAGE_DATA_LAKE_URI=s3://" in Made(app, planned(tmp_path, "object-native-2048")).text


def test_report_17_nodes_open_sessions_on_every_hot_bucket_and_nothing_else(app: cdk.App, tmp_path: Path) -> None:
    names = "bucket_names: [hot-0--usw2-az4--x-s3, hot-1--usw2-az4--x-s3]"
    path = tmp_path / "two.yaml"
    text = (EXAMPLES / "object-native-2048.yaml").read_text()
    path.write_text(text.split("\nexpress:\n")[0] + f"\nexpress:\n  {names}\n")
    made = Made(app, plan(load_workload(path)))
    sessions = [each for each in made.statements() if "s3express" in json.dumps(each["Action"])]
    assert {each["Action"] for each in sessions} == {"s3express:CreateSession"}
    assert all("Condition" not in each for each in sessions)
    opened = json.dumps([each["Resource"] for each in sessions])
    assert all(f"bucket/hot-{index}--use1-az6--x-s3" in opened for index in (0, 1))
    objects = [each for each in made.statements() if "s3:GetObject" in json.dumps(each["Action"])]
    assert "--x-s3" not in json.dumps(objects)
    assert written(made) == {".training-storage/", "checkpoints/"}
    assert "s3:DeleteObject" not in json.dumps(made.statements())


def test_a_shared_cache_is_used_by_the_mount_of_the_lake(app: cdk.App, tmp_path: Path) -> None:
    made = Made(app, planned(tmp_path, "express-cache"))
    (lake,) = made.storage.mounts
    assert isinstance(lake, MountpointMount)
    assert (lake.path, lake.cache, lake.read_only) == ("/lake", "express", True)
    assert lake.cache_bucket is not None
    assert lake.cache_bucket.bucket_name == "cache--use1-az6--x-s3"
    assert "s3express:CreateSession" in json.dumps(made.statements())


# S3 Files


@pytest.mark.parametrize(("root", "actions"), [("false", 2), ("true", 3)])
def test_s3_files_shows_the_lake_and_root_is_an_option(app: cdk.App, tmp_path: Path, root: str, actions: int) -> None:
    made = Made(app, planned(tmp_path, "legacy-nfs-finetune", "s3_files", f"root_access: {root}"))
    (lake,) = made.storage.mounts
    assert isinstance(lake, S3FilesMount)
    assert (lake.path, lake.read_only, lake.root_access) == ("/lake", False, root == "true")
    granted = {
        action
        for each in made.statements()
        for action in ([each["Action"]] if isinstance(each["Action"], str) else each["Action"])
        if action.startswith("s3files:")
    }
    assert len(granted) == actions


@pytest.mark.parametrize(
    ("name", "left_out", "value"),
    [
        ("object-native-2048", "directory_buckets", ()),
        ("express-cache", "shared_cache", None),
        ("legacy-nfs-finetune", "s3_file_system", None),
    ],
)
def test_what_the_plan_mounts_must_be_given(app: cdk.App, tmp_path: Path, name: str, left_out: str, value: Any) -> None:
    with pytest.raises(ValidationError, match=left_out):
        Made(app, planned(tmp_path, name), **{left_out: value})
