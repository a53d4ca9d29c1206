"""The rights of the nodes' role suffice for every call that the agent makes: a missing one would show on AWS alone."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from tests.life.actions import HOT, LAKE, World
from tests.life.fake_s3 import error
from tests.synth.test_mounts_from_plan import Made, planned
from tests.synth.test_node_agent import given
from training_storage.node.settings import Link

ON_OBJECTS = {
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "put_object": "s3:PutObject",
    "copy_object": "s3:PutObject",
    "create_multipart_upload": "s3:PutObject",
    "upload_part": "s3:PutObject",
    "upload_part_copy": "s3:PutObject",
    "complete_multipart_upload": "s3:PutObject",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "list_parts": "s3:ListMultipartUploadParts",
    "delete_object": "s3:DeleteObject",
}
ON_BUCKETS = {"list_objects_v2": "s3:ListBucket", "list_multipart_uploads": "s3:ListBucketMultipartUploads"}
ON_ALL = {
    "describe_data_repository_tasks": "fsx:DescribeDataRepositoryTasks",
    "describe_data_repository_associations": "fsx:DescribeDataRepositoryAssociations",
    "get_metric_statistics": "cloudwatch:GetMetricStatistics",
}
"""Service Authorization Reference, and the required permissions of Amazon S3 API operations."""


def needed(service: str, name: str, asked: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the actions of a call, each with its resource."""
    bucket = asked.get("Bucket", "")
    if bucket in HOT:
        yield "s3express:CreateSession", f"arn:aws:s3express:us-east-1:1:bucket/{bucket}"
    elif service == "s3" and name in ON_BUCKETS:
        yield ON_BUCKETS[name], f"arn:aws:s3:::{bucket}"
    elif service == "s3":
        where = f"arn:aws:s3:::{bucket}/{asked['Key']}"
        yield ON_OBJECTS[name], where
        if "IfMatch" in asked:
            yield "s3:GetObject", where
    elif name == "create_data_repository_task":
        yield "fsx:CreateDataRepositoryTask", f"arn:aws:fsx:us-east-1:1:file-system/{asked['FileSystemId']}"
        yield "fsx:CreateDataRepositoryTask", "arn:aws:fsx:us-east-1:1:task/task-1"
        yield "fsx:TagResource", "arn:aws:fsx:us-east-1:1:task/task-1"
    else:
        yield ON_ALL[name], "*"


class Enforced:
    """AWS that refuses what the statements of a role do not allow."""

    def __init__(self, world: World, made: Made) -> None:
        self.world = world
        self.statements = [each for each in made.statements() if each["Effect"] == "Allow"]
        self.refused: set[str] = set()

    def plain(self, value: Any) -> str:
        """Return a resource with names in place of references."""
        if isinstance(value, str):
            return value
        if "Fn::Join" in value:
            return "".join(self.plain(each) for each in value["Fn::Join"][1])
        if "Fn::GetAtt" in value and value["Fn::GetAtt"][0].startswith("LakeBucket"):
            return f"arn:aws:s3:::{LAKE}"
        names = {"AWS::Partition": "aws", "AWS::Region": "us-east-1", "AWS::AccountId": "1"}
        return names.get(value.get("Ref", ""), self.world.settings.hot_tier_id if "Ref" in value else "?")

    def allows(self, action: str, resource: str, prefix: str) -> bool:
        for each in self.statements:
            actions = each["Action"] if isinstance(each["Action"], list) else [each["Action"]]
            resources = each["Resource"] if isinstance(each["Resource"], list) else [each["Resource"]]
            if action not in actions or not any(fnmatch.fnmatchcase(resource, self.plain(one)) for one in resources):
                continue
            wanted = each.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
            if wanted is None or any(fnmatch.fnmatchcase(prefix, one) for one in wanted):
                return True
        return False

    def __call__(self, service: str) -> Any:
        return _Client(self, service, self.world.aws(service))


class _Client:
    def __init__(self, enforced: Enforced, service: str, client: Any) -> None:
        self._enforced, self._service, self._client = enforced, service, client

    def __getattr__(self, name: str) -> Any:
        def call(**asked: Any) -> Any:
            for action, resource in needed(self._service, name, asked):
                if not self._enforced.allows(action, resource, asked.get("Prefix", "")):
                    self._enforced.refused.add(f"{action} on {resource}")
                    raise error("AccessDenied", name)
            return getattr(self._client, name)(**asked)

        return call


def life(world: World, made: Made, monkeypatch: pytest.MonkeyPatch) -> Enforced:
    """Let a job save, overwrite, die in a save, and the agent run beside it, with the rights of the role only."""
    for module in ("promotion_copy", "promotion_upload"):
        name = f"training_storage.node.checkpoints.{module}"
        monkeypatch.setattr(f"{name}.{'LARGEST' if module == 'promotion_copy' else 'WHOLE'}", 15)
    aws = Enforced(world, made)
    for step in range(1, 8):
        world.save(f"run1/step-{step}", complete=step != 3)
        world.run(aws)
    world.aws.sleep(3 * 86_400)
    result = world.run(aws, asked=frozenset({"run1/step-7"}))
    assert (result.errors, aws.refused) == ([], set())
    assert {"run1/step-2", "run1/step-5", "run1/step-7"} == set(world.recorded()) <= world.lake_paths()
    assert "run1/step-3" not in world.hot_paths()
    assert not [key for key in world.hot() if key.startswith("run1/step-3/")]
    return aws


@pytest.mark.parametrize("how", ["task", "auto", "beside"])
def test_of_lustre(app: cdk.App, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exported by tasks into the lake; exported by FSx itself, and uploaded beside such a link, into another bucket."""
    world = World(tmp_path, exports=how == "auto")
    events = ["new", "changed"]
    links: list[dict[str, Any]] = [
        {"path": "/checkpoints", "source": f"s3://{LAKE}/checkpoints/", "export": events if how == "auto" else []}
    ]
    if how == "beside":
        links.append({"path": "/results", "source": "s3://their-bucket/", "export": events})
        other = Link("/results", "their-bucket", "", imports=True, exports=True)
        world.settings = replace(world.settings, links=(*world.settings.links, other))
    made = Made(app, given() if how == "task" else given(lustre={"links": links}))
    assert life(world, made, monkeypatch).refused == set()


def test_of_directory_buckets(app: cdk.App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.life.actions.HOT", HOT[:1])  # as many as the example is planned with
    made = Made(app, planned(tmp_path, "object-native-2048"))
    assert life(World(tmp_path, "express"), made, monkeypatch).refused == set()


def test_of_local_disks(app: cdk.App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert life(World(tmp_path, "nvme"), Made(app, planned(tmp_path, "lora-finetune")), monkeypatch).refused == set()
