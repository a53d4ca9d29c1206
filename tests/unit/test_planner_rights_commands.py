"""The rights of whoever runs the commands: exact, and enough for what the commands call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit._planner import SAVES, planned
from tests.unit._release import World as ReleaseWorld
from tests.unit.test_preload_data import World as PreloadWorld
from training_storage.planner.rights_commands import command_rights

RUN: dict[str, Any] = {
    "name": "run", "account": "111111111111", "data_lake.bucket": "my-lake", "hot_tier": "lustre", "checkpoints": SAVES,
}  # fmt: skip
KEY = "arn:aws:kms:us-east-1:111111111111:key/0123abcd"
OF_S3 = {
    "get_object": "s3:GetObject", "head_object": "s3:GetObject", "list_objects_v2": "s3:ListBucket",
    "put_object": "s3:PutObject",
}  # fmt: skip
"""Actions behind calls (Amazon S3 User Guide, required permissions); every other service names them alike."""


def statements(**changes: Any) -> dict[str, dict[str, Any]]:
    found: list[dict[str, Any]] = command_rights(planned({**RUN, **changes}))
    by_sid = {each["Sid"]: each for each in found}
    assert len(by_sid) == len(found)
    return by_sid


class Recorder:
    """Clients that note which action each call needs."""

    def __init__(self, aws: Any) -> None:
        self.aws, self.actions = aws, set[str]()

    def __call__(self, service: str) -> Any:
        return _Client(self, service)


class _Client:
    def __init__(self, recorder: Recorder, service: str) -> None:
        self._recorder, self._service = recorder, service

    def __getattr__(self, name: str) -> Any:
        action = {"stepfunctions": "states"}.get(self._service, self._service)
        words = "".join(each.capitalize() for each in name.split("_"))
        self._recorder.actions.add(OF_S3[name] if self._service == "s3" else f"{action}:{words}")
        return getattr(self._recorder.aws(self._service), name)


def allowed(**changes: Any) -> set[str]:
    return {action for each in statements(**changes).values() for action in each["Action"]}


def test_a_preload_calls_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = PreloadWorld(tmp_path, monkeypatch)
    world.files(2)
    world.aws.machines._scale("vision-storage-node", 1)
    caller = Recorder(world.aws)
    inner = world._run

    def on_the_node(instance: str, text: str) -> tuple[int, str, str]:
        world.seen = world.aws  # a node has rights of its own
        try:
            return inner(instance, text)
        finally:
            world.seen = caller

    world.aws.machines.run = on_the_node
    world.seen = caller
    assert world.load(listed=b"datasets/0\n").counts["loaded"] == 1
    assert caller.actions <= allowed()
    assert {"ssm:SendCommand", "s3:PutObject", "cloudformation:DescribeStacks"} <= caller.actions


def test_a_release_calls_nothing_else() -> None:
    world = ReleaseWorld()
    stack = world.fake("cloudformation").stacks["run-hot"]
    stack.update(StackStatus="ROLLBACK_FAILED", Outputs=[])
    stack["resources"] = [{"ResourceType": "AWS::FSx::FileSystem", "PhysicalResourceId": "fs-1"}]
    recorder = Recorder(world.__call__)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        patched.setattr(ReleaseWorld, "__call__", lambda _self, service: recorder(service))
        recorder.aws = lambda service: world.machine if service == "stepfunctions" else world.fake(service)
        assert world.release().outcome == "released"
    assert recorder.actions <= allowed()
    assert {"states:StartExecution", "cloudformation:ListStackResources"} <= recorder.actions


def test_rights_are_held_to_one_workload() -> None:
    found = statements()
    assert found["StartARelease"]["Resource"] == ["arn:aws:states:us-east-1:111111111111:stateMachine:run-release"]
    assert found["FollowARelease"]["Resource"] == ["arn:aws:states:us-east-1:111111111111:execution:run-release:*"]
    assert found["SendCommandsToNodesOfTheWorkload"]["Condition"] == {
        "StringEquals": {"ssm:resourceTag/training-storage:workload": "run"}
    }
    assert found["ImportListingsIntoTheFileSystem"]["Condition"] == {
        "StringEquals": {"aws:ResourceTag/training-storage:workload": "run"}
    }
    assert found["NoteWhatIsSent"]["Resource"] == [
        "arn:aws:s3:::my-lake/.training-storage/answers/calls/*",
        "arn:aws:s3:::my-lake/.training-storage/preload/lists/*",
    ]
    wide = {sid for sid, each in found.items() if "*" in each["Resource"]}
    assert wide == {"FindNodesAndFollowCommands", "FindLinksAndTasks"}
    assert not any("*" in action for each in found.values() for action in each["Action"])


def test_nobody_is_given_the_right_to_delete_a_run_without_a_proof() -> None:
    assert "cloudformation:DeleteStack" not in allowed()
    assert not any("release" in each for each in statements()["NoteWhatIsSent"]["Resource"])


def test_a_file_system_of_before_is_named_and_has_no_tag_of_ours() -> None:
    theirs = {
        "file_system_id": "fs-0123456789abcdef0", "mount_name": "abcdefgh", "security_group_id": "sg-0123456789abcdef0",
        "efa": False, "storage_capacity": "4800 GiB", "per_unit_storage_throughput": 1000,
        "deployment_type": "PERSISTENT_2",
    }  # fmt: skip
    found = statements(lustre=theirs)["ImportListingsIntoTheFileSystem"]
    assert found["Resource"] == ["arn:aws:fsx:us-east-1:111111111111:file-system/fs-0123456789abcdef0"]
    assert "Condition" not in found


def test_the_key_of_the_lake_is_named() -> None:
    assert "UseTheKeyOfTheLake" not in statements()
    assert statements(**{"data_lake.kms_key_arn": KEY})["UseTheKeyOfTheLake"]["Resource"] == [KEY]


def test_checkpoints_in_another_bucket_are_read_there_and_data_sets_are_not() -> None:
    links = [
        {"path": "/datasets", "source": "s3://data-bucket/x/"},
        {"path": "/checkpoints", "source": "s3://kept-bucket/y/"},
    ]
    found = statements(**{"lustre.links": links})
    assert found["ReadPromotedCheckpoints1"]["Resource"] == ["arn:aws:s3:::kept-bucket/y/*"]
    assert "ReadPromotedCheckpoints2" not in found


def test_without_a_file_system_there_is_no_listing_to_import() -> None:
    assert "ImportListings" not in statements(hot_tier="none")
    assert {"StartARelease", "SeeTheStacks"} <= statements(hot_tier="none").keys()
