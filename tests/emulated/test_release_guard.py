"""The release guard's own code, called by the emulator's CloudFormation: deletes, and creations that are taken back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3

from training_storage.emulator import Emulator, StackFailedError, emulator
from training_storage.lifecycle import ReleaseGuard
from training_storage.node import places
from training_storage.tiers import DataLake, LustreFileSystem

MINUTE = 60


@dataclass
class Hot:
    """A deployed file system with its guard."""

    aws: Emulator
    outputs: dict[str, str]

    @property
    def file_system_id(self) -> str:
        return self.outputs["FileSystemId"]

    @property
    def lake(self) -> str:
        return self.outputs["LakeName"]

    def file_systems(self) -> list[str]:
        return [each["FileSystemId"] for each in self.aws.client("fsx").describe_file_systems()["FileSystems"]]

    def aged(self) -> None:
        """Let an hour pass, so that the file system is none that was just made."""
        self.aws.advance(3600)

    def written(self, count: float = 5e9) -> None:
        """Let clients write in this minute."""
        self.aws.record_io(self.file_system_id, write_bytes=count)

    def put(self, key: str, data: dict[str, Any]) -> None:
        self.aws.client("s3").put_object(Bucket=self.lake, Key=key, Body=json.dumps(data).encode())

    def proof(self, **given: Any) -> None:
        now = self.aws.now()
        made = {
            "kind": "proof",
            "workload": "run",
            "hot_tier_id": self.file_system_id,
            "written_at": now,
            "valid_from": now - 3 * MINUTE,
            "files": 3,
            "bytes": 30,
        }
        self.put(places.proof_key(self.file_system_id), made | given)


def make_node(stack: cdk.Stack, vpc: ec2.Vpc, system: LustreFileSystem) -> ec2.CfnInstance:
    node = ec2.CfnInstance(
        stack,
        "Node",
        image_id="ami-12c6146b",  # one that moto knows
        instance_type="p5.48xlarge",
        subnet_id=vpc.public_subnets[0].subnet_id,
    )
    node.node.add_dependency(system)
    return node


def app_of(app: cdk.App, *, broken: bool = False, node: bool = False, guard: bool = True, system: bool = True) -> str:
    stack = cdk.Stack(app, "run-hot", env=cdk.Environment(region="us-east-1"))
    vpc = ec2.Vpc(stack, "Vpc", max_azs=1, nat_gateways=0, restrict_default_security_group=False)
    lake = DataLake(stack, "Lake", encryption="s3")
    cdk.CfnOutput(stack, "LakeName", value=lake.bucket_name)
    if not system:
        ReleaseGuard(stack, "Guard", file_system=None, data_lake=lake, workload_name="run")
        return app.synth().directory
    hot = LustreFileSystem(
        stack,
        "FileSystem",
        vpc=vpc,
        subnet=vpc.public_subnets[0],
        storage_capacity_gib=1200,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    cdk.CfnOutput(stack, "FileSystemId", value=hot.file_system_id)
    if guard:
        made = ReleaseGuard(stack, "Guard", file_system=hot, data_lake=lake, workload_name="run")
        if broken:
            refused = s3.CfnBucket(stack, "Broken", bucket_name="broken-bucket")
            refused.add_property_override("Unknown", 1)
            refused.node.add_dependency(made)
            if node:
                refused.node.add_dependency(make_node(stack, vpc, hot))
    # Added last, and still deleted after the guard.
    hot.add_link("Link", file_system_path="/datasets", bucket=lake, bucket_prefix="datasets/")
    return app.synth().directory


@pytest.fixture(scope="module")
def account() -> Iterator[Emulator]:
    with emulator() as aws:
        # The guard waits for the minute after the delete: here CloudWatch has it at once.
        aws.metrics_lag = -3 * MINUTE
        yield aws


@pytest.fixture
def hot(account: Emulator, make_app: Callable[[], cdk.App]) -> Iterator[Hot]:
    made = Hot(account, dict(account.deploy_assembly(app_of(make_app()))["run-hot"].outputs))
    yield made
    if "run-hot" in account.stacks():
        made.proof(kind="override", by="the test", reason="it is over")
        account.destroy("run-hot")


def refusal(hot: Hot) -> str:
    with pytest.raises(StackFailedError) as caught:
        hot.aws.destroy("run-hot")
    assert hot.file_systems() == [hot.file_system_id]
    links = hot.aws.client("fsx").describe_data_repository_associations()["Associations"]
    assert [each["FileSystemPath"] for each in links] == ["/datasets"]
    return str(caught.value)


@pytest.mark.parametrize("age", [0, 3600])
def test_nobody_wrote_and_the_stack_goes(hot: Hot, age: float) -> None:
    hot.aws.advance(age)
    hot.aws.destroy("run-hot")
    assert hot.file_systems() == []
    # Who asked for an override can be read when the stack is gone.
    groups = hot.aws.client("logs").describe_log_groups()["logGroups"]
    assert any("Guard" in each["logGroupName"] for each in groups)


def test_what_was_written_and_never_proven_stays_with_its_links_until_it_is(hot: Hot) -> None:
    hot.aged()
    hot.written()
    hot.put(
        places.status_key(hot.file_system_id),
        {
            "written_at": hot.aws.now(),
            "checkpoints": [{"path": "run1/step-300", "size": 979_000_000_000}],
            "unsaved": ["run1/step-300"],
        },
    )
    said = refusal(hot)
    assert f"{hot.file_system_id} is kept: it was last written to at" in said
    assert "checkpoints run1/step-300 (979 GB)" in said
    assert "`training-storage release run`" in said
    hot.aws.advance(10 * MINUTE)
    hot.proof()
    hot.aws.destroy("run-hot")
    assert hot.file_systems() == []


def test_a_proof_older_than_the_last_write_does_not_count(hot: Hot) -> None:
    hot.aged()
    hot.proof()
    hot.written(1)
    assert "it was written to until" in refusal(hot)


def test_an_override_counts_for_an_hour(hot: Hot) -> None:
    hot.written()
    hot.proof(kind="override", by="me", reason="nothing to keep")
    hot.aws.advance(2 * 3600)
    assert "counts for an hour" in refusal(hot)
    hot.proof(kind="override", by="me", reason="nothing to keep")
    hot.aws.destroy("run-hot")
    assert hot.file_systems() == []


def test_a_failed_create_is_taken_back_with_its_file_system(account: Emulator, make_app: Callable[[], cdk.App]) -> None:
    before = account.client("fsx").describe_file_systems()["FileSystems"]
    with pytest.raises(StackFailedError, match="Unknown"):
        account.deploy_assembly(app_of(make_app(), broken=True))
    assert account.client("fsx").describe_file_systems()["FileSystems"] == before
    status = account.client("cloudformation").describe_stacks(StackName="run-hot")["Stacks"][0]["StackStatus"]
    assert status == "ROLLBACK_COMPLETE"
    account.destroy("run-hot")


@pytest.mark.slow
def test_a_failed_create_that_was_written_to_is_not_taken_back(
    account: Emulator, make_app: Callable[[], cdk.App]
) -> None:
    """Nodes of the same stack may have trained before another resource failed: what they wrote stays."""
    kept: list[str] = []

    def write(_: Any) -> None:
        (found,) = account.client("fsx").describe_file_systems()["FileSystems"]
        kept.append(found["FileSystemId"])
        account.record_io(kept[0], write_bytes=1e9)

    account.on_instance(write)
    with pytest.raises(StackFailedError, match="ROLLBACK_FAILED"):
        account.deploy_assembly(app_of(make_app(), broken=True, node=True))
    events = account.client("cloudformation").describe_stack_events(StackName="run-hot")["StackEvents"]
    assert any("is kept: it was last written to" in each.get("ResourceStatusReason", "") for each in events)
    found = account.client("fsx").describe_file_systems()["FileSystems"]
    assert [each["FileSystemId"] for each in found] == kept
    there = account.client("cloudformation").describe_stack_resources(StackName="run-hot")["StackResources"]
    (lake,) = [each["PhysicalResourceId"] for each in there if each["LogicalResourceId"].startswith("LakeBucket")
               and each["ResourceType"] == "AWS::S3::Bucket"]  # fmt: skip
    Hot(account, {"FileSystemId": kept[0], "LakeName": lake}).proof(kind="override", by="me", reason="it is over")
    account.destroy("run-hot")


def test_an_update_that_takes_an_unproven_file_system_out_is_taken_back(
    hot: Hot, make_app: Callable[[], cdk.App]
) -> None:
    hot.aged()
    hot.written()
    with pytest.raises(StackFailedError, match="UPDATE_ROLLBACK_COMPLETE"):
        hot.aws.deploy_assembly(app_of(make_app(), system=False))
    assert hot.file_systems() == [hot.file_system_id]
    hot.aws.advance(10 * MINUTE)
    hot.proof()
    hot.aws.deploy_assembly(app_of(make_app(), system=False))
    assert hot.file_systems() == []


def test_taking_the_guard_out_deletes_nothing(hot: Hot, make_app: Callable[[], cdk.App]) -> None:
    hot.aged()
    hot.written()
    hot.aws.deploy_assembly(app_of(make_app(), guard=False))
    assert hot.file_systems() == [hot.file_system_id]
