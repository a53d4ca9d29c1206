"""What functions call in AWS, as runs in memory record it, against the rights that their templates give."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3

from tests.life.emptying import Emptied
from tests.life.fake_aws import FakeAws
from tests.life.release_world import LAKE, TAGS, World, world
from tests.life.test_release_tiers import HOT, Tier, flushing
from tests.synth.storage import resources
from training_storage.lifecycle import PreloadSchedule, ReleaseGuard, ReleaseMachine
from training_storage.node import places, preload_steps
from training_storage.node.cloudformation import state_of
from training_storage.node.release import guard
from training_storage.node.release.steps import STEPS, run
from training_storage.tiers import DataLake

ENV = cdk.Environment(account="111111111111", region="us-east-1")

OF_S3 = {
    "head_object": "s3:GetObject",
    "get_object": "s3:GetObject",
    "list_objects_v2": "s3:ListBucket",
    "put_object": "s3:PutObject",
    "copy_object": "s3:PutObject",
    "create_multipart_upload": "s3:PutObject",
    "upload_part_copy": "s3:PutObject",
    "complete_multipart_upload": "s3:PutObject",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
    "list_parts": "s3:ListMultipartUploadParts",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
}
"""Actions behind calls (Amazon S3 User Guide, required permissions); every other service names them alike."""


class Recorder:
    """Clients that note action and resource of each call."""

    def __init__(self, aws: FakeAws) -> None:
        self.aws = aws
        self.seen: set[tuple[str, str]] = set()

    def __call__(self, service: str) -> Any:
        return _Client(self, service)


class _Client:
    def __init__(self, recorder: Recorder, service: str) -> None:
        self._recorder, self._service = recorder, service

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._recorder.aws(self._service), name)

        def call(**given: Any) -> Any:
            self._recorder.seen |= set(_needed(self._service, name, given))
            return method(**given)

        return call


def _needed(service: str, name: str, given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield action and resource; a resource that is known by a pattern of names alone is left to other tests."""
    if service != "s3":
        yield f"{service}:{''.join(each.capitalize() for each in name.split('_'))}", ""
        return
    places = [(OF_S3[name], given["Bucket"], given.get("Key", ""))]
    if source := given.get("CopySource"):
        places.append(("s3:GetObject", source["Bucket"], source["Key"]))
    for action, bucket, key in places:
        if bucket.endswith("--x-s3"):
            yield "s3express:CreateSession", f"arn:aws:s3express:us-east-1:111111111111:bucket/{bucket}"
        elif "Bucket" in action:
            yield action, f"arn:aws:s3:::{bucket}"
        else:
            yield action, f"arn:aws:s3:::{bucket}/{key}"


def _rights(stack: cdk.Stack) -> list[tuple[str, str]]:
    """Return action and resource pattern of all that the function may do."""
    roles = {each["Properties"]["Role"]["Fn::GetAtt"][0] for each in resources(stack, "AWS::Lambda::Function").values()}
    found = []
    for policy in resources(stack, "AWS::IAM::Policy").values():
        if not roles & {each["Ref"] for each in policy["Properties"]["Roles"]}:
            continue
        for each in policy["Properties"]["PolicyDocument"]["Statement"]:
            actions = each["Action"] if isinstance(each["Action"], list) else [each["Action"]]
            targets = each["Resource"] if isinstance(each["Resource"], list) else [each["Resource"]]
            found += [(action, _text(target)) for action in actions for target in targets]
    return found


def _text(target: Any) -> str:
    if isinstance(target, str):
        return target
    if "Fn::Join" in target:
        return "".join(_text(each) for each in target["Fn::Join"][1])
    return "*" if "Ref" in target else json.dumps(target)


def _lacking(seen: set[tuple[str, str]], rights: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted(
        (action, resource)
        for action, resource in seen
        if not any(
            action.lower() == given.lower() and (not resource or fnmatch.fnmatchcase(resource, pattern))
            for given, pattern in rights
        )
    )


def _drive(made: World | Tier, actions: tuple[str, ...] = ("check", "prove", "release")) -> set[tuple[str, str]]:
    recorder = Recorder(made.aws)
    for action in actions:
        state: dict[str, Any] = {"workload": "run", "lake_bucket": LAKE, "action": action}
        for step in STEPS:
            while True:
                state = run(step, state, recorder, made.aws.clock, made.aws.sleep, workers=1)
                if state["status"] != "again":
                    break
                made.aws.sleep(state["wait"])
            if state["status"] != "next":
                break
        assert state["status"] == "done", state
    return recorder.seen


def _machine(app: cdk.App, **options: Any) -> list[tuple[str, str]]:
    stack = cdk.Stack(app, "Lake", env=ENV)
    lake = DataLake(stack, "DataLake", bucket=s3.Bucket.from_bucket_name(stack, "Theirs", LAKE))
    ReleaseMachine(stack, "Release", workload="run", data_lake=lake, **options)
    return _rights(stack)


def test_a_release_of_a_file_system_has_every_right_that_it_uses(app: cdk.App) -> None:
    rights = _machine(app)
    for options in ({}, {"exports": True}, {"fleet": 2}):
        with world(**options) as made:
            made.fill()
            if options.get("exports"):
                for file in made.aws.fsx.files(made.id) or ():
                    made.aws.fsx.export(made.id, file)
            assert _lacking(_drive(made), rights) == []


def test_a_release_for_idleness_has_every_right_that_it_uses(app: cdk.App) -> None:
    with world() as made:
        made.fill()
        made.aws.sleep(13 * 3600)
        recorder = Recorder(made.aws)
        state: dict[str, Any] = {"workload": "run", "lake_bucket": LAKE, "action": "release", "idle_hours": 12}
        assert run("preconditions", state, recorder, made.aws.clock, made.aws.sleep)["status"] == "next"
    assert _lacking(recorder.seen, _machine(app)) == []


def test_what_a_failed_release_looks_up_is_allowed_too(app: cdk.App) -> None:
    """The report of an export task, the events of a stack that did not go."""
    with world() as made:
        made.fill()
        made.aws.fsx.failing = {"checkpoints/run1/config.json": "S3AccessDenied"}
        recorder = Recorder(made.aws)
        assert "S3AccessDenied" in json.dumps(made.release(aws=recorder))
        made.aws.cloudformation.refusing = {"run-hot": "it is used"}
        assert "it is used" in made.release(aws=recorder)["refused"]
    assert _lacking(recorder.seen, _machine(app)) == []


def test_a_release_of_directory_buckets_has_every_right_that_it_uses(
    app: cdk.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_storage.node.checkpoints.promotion_copy.LARGEST", 10)
    monkeypatch.setattr("training_storage.node.checkpoints.promotion_copy.PART", 8)
    made = Tier("express")
    made.fill()
    for step in range(6, 13):
        for name in ("rank0.pt", "COMPLETE"):
            made.put(f"checkpoints/run1/step-{step}/{name}", b"0123456789abcdef0")
    made.put("checkpoints/run1/tokenizer.bin", b"0123456789abcdef0")
    made.aws.sleep(600)
    made.aws.s3.create_multipart_upload(Bucket=LAKE, Key="checkpoints/run1/step-6/rank0.pt")
    made.aws.sleep(600)
    rights = _machine(
        app, copies_checkpoints=True, directory_bucket_names=[each.replace("hot", "???") for each in HOT],
        read_prefixes=[""],
    )  # fmt: skip
    seen = _drive(made)
    assert {"s3:ListMultipartUploadParts", "s3:ListBucketMultipartUploads", "s3:AbortMultipartUpload"} & {
        action for action, _ in seen
    }
    assert _lacking(seen, rights) == []


def test_a_release_that_empties_directory_buckets_has_every_right_that_it_uses(app: cdk.App) -> None:
    made = Emptied()
    made.aws.s3.create_multipart_upload(Bucket=HOT[0], Key="checkpoints/run1/step-9/rank0.pt")
    made.aws.sleep(600)
    names = [each.replace("hot", "???") for each in HOT]
    options = {"copies_checkpoints": True, "directory_bucket_names": names, "read_prefixes": [""]}
    rights = _machine(app, empties_directory_buckets=True, **options)
    without = _machine(cdk.App(), **options)
    recorder = Recorder(made.aws)
    for action in ("check", "prove", "release"):
        assert made.release(action, aws=recorder)["status"] == "done"
    assert made.hot() == {}
    assert _lacking(recorder.seen, rights) == []
    assert "s3:DeleteObject" not in {action for action, _ in recorder.seen | set(rights)}  # none on the lake
    # What only this release may do: read in the template of the hot stack which buckets that stack deletes.
    assert _lacking(recorder.seen, without) == [("cloudformation:GetTemplate", "")]
    assert {action for action, _ in rights} - {action for action, _ in without} == {"cloudformation:GetTemplate"}
    (where,) = [target for action, target in rights if action == "cloudformation:GetTemplate"]
    assert where.endswith(":stack/run-hot/*")


def test_a_release_of_local_disks_has_every_right_that_it_uses(app: cdk.App) -> None:
    made = Tier("nvme")
    flushing(made)
    assert _lacking(_drive(made), _machine(app)) == []


def test_a_preload_by_the_clock_has_every_right_that_it_uses(app: cdk.App) -> None:
    """From no node on, over commands that get lost, to a refusal."""
    stack = cdk.Stack(app, "Hot", env=ENV)
    lake = DataLake(stack, "DataLake", bucket=s3.Bucket.from_bucket_name(stack, "Theirs", LAKE))
    at = datetime.fromisoformat("2030-12-01T06:00:00+00:00")
    PreloadSchedule(stack, "Preload", workload="run", data_lake=lake, at=at)
    aws = FakeAws()
    aws.s3.make(LAKE)
    aws.machines.group("run-storage-node", {**TAGS, "training-storage:role": "storage-node"}, 0, 1)
    recorder = Recorder(aws)
    state: dict[str, Any] = {"workload": "run", "lake_bucket": LAKE, "paths": ["/datasets"]}
    for _ in range(100):
        state = preload_steps.run(state, recorder, aws.clock)
        if state["status"] != "again":
            break
        aws.sleep(state["wait"])
    assert state["status"] == "refused"
    assert aws.machines.instances == {}
    assert _lacking(recorder.seen, _rights(stack)) == []


@pytest.mark.parametrize("proven", [False, True])
def test_a_guard_has_every_right_that_it_uses(app: cdk.App, proven: bool) -> None:
    stack = cdk.Stack(app, "Hot", env=ENV)
    lake = DataLake(stack, "DataLake", bucket=s3.Bucket.from_bucket_name(stack, "Theirs", LAKE))
    ReleaseGuard(stack, "Guard", file_system=None, data_lake=lake, workload_name="run")
    with world() as made:
        made.fill()
        made.train("checkpoints/run1/now.json")
        made.aws.sleep(600)
        if proven:
            made.release("prove")
        made.aws.s3.put_object(Bucket=LAKE, Key=places.status_key(made.id), Body=b"{}")
        recorder = Recorder(made.aws)
        asked = guard.Asked(made.id, "run", LAKE)
        guard.check_rights(recorder, asked, clock=made.aws.clock)
        said = guard.decide(recorder, asked, clock=made.aws.clock, sleep=made.aws.sleep)
        assert said.may_go is proven
        state_of(recorder, "run-hot")
    assert _lacking(recorder.seen, _rights(stack)) == []
