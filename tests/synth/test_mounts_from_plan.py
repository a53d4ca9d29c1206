"""What a plan says about nodes, as mounts, rights, paths and user data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from tests.synth._fakes import FakeFileSystem
from training_storage import NotDeployableError, Plan, ValidationError, load_workload, plan
from training_storage.compute import LustreMount, MountpointMount, NodeStorage
from training_storage.planner.model import MountPlan
from training_storage.tiers import DataLake

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def planned(tmp_path: Path, name: str, section: str = "", line: str = "") -> Plan:
    """Plan an example, with a line put into one of its sections."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    if section:
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
        self.storage = NodeStorage.from_plan(
            self.stack, "Storage", plan=plan_, data_lake=DataLake(self.stack, "Lake"), **options
        )
        self.role = iam.Role(self.stack, "Role", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
        self.storage.grant(self.role)

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


def test_nodes_of_a_plan_with_lustre_only_read_the_lake(app: cdk.App, tmp_path: Path) -> None:
    text = json.dumps(Made(app, planned(tmp_path, "llama3-70b")).statements())
    assert "s3:GetObject" in text
    assert "s3:PutObject" not in text
    assert "kms:GenerateDataKey" not in text


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


def test_a_mount_without_a_construct_is_refused_as_not_deployable(app: cdk.App, tmp_path: Path) -> None:
    plan_ = planned(tmp_path, "lora-finetune")
    mounts = (MountPlan(path="/lake", kind="s3-files", read_only=True, options={}),)
    with pytest.raises(NotDeployableError, match="s3-files"):
        Made(app, replace(plan_, mounts=mounts))
