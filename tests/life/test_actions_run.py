"""Verification of what was promoted, and a whole run of the agent: dry, failing in parts, with nothing to do."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.life.actions import LAKE, World
from tests.life.fake_s3 import Thing
from tests.life.faults import Faulty
from training_storage.node.checkpoints.model import Record, RecordedFile
from training_storage.node.checkpoints.records import read_all
from training_storage.node.checkpoints.verification import verify, verify_all


def with_checkpoints(tmp_path: Path, tier: str = "lustre", count: int = 6) -> World:
    world = World(tmp_path, tier)
    for number in range(1, count + 1):
        world.save(f"run1/step-{number}")
    return world


# -- verification


def test_verify_names_what_no_longer_agrees(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path, "nvme", 2)
    world.run()
    [record] = read_all(world.aws, LAKE)
    assert verify(world.aws, world.settings, record) == []
    key = "checkpoints/run1/step-2/__0_0.distcp"
    s3 = world.aws.s3
    body = world.made["run1/step-2"]["run1/step-2/__0_0.distcp"]
    # The same content put in parts has another ETag, and its checksum speaks for it.
    upload = s3.create_multipart_upload(Bucket=LAKE, Key=key)["UploadId"]
    s3.upload_part(Bucket=LAKE, Key=key, UploadId=upload, PartNumber=1, Body=body)
    parts: dict[str, Any] = {"Parts": [{"PartNumber": 1}]}
    s3.complete_multipart_upload(Bucket=LAKE, Key=key, UploadId=upload, MultipartUpload=parts)
    assert verify(world.aws, world.settings, record) == []
    s3.put_object(Bucket=LAKE, Key=key, Body=os.urandom(20))
    assert verify(world.aws, world.settings, record) == [
        "run1/step-2/__0_0.distcp is another object than the one that was verified: its CRC32 differs"
    ]
    s3.put_object(Bucket=LAKE, Key=key, Body=b"short")
    assert verify(world.aws, world.settings, record) == ["run1/step-2/__0_0.distcp has 5 bytes; 20 were verified"]
    s3.delete_object(Bucket=LAKE, Key=key)
    told: list[dict[str, Any]] = []
    [(_, wrong)] = verify_all(world.aws, world.settings, [record], told.append).items()
    assert wrong == ["run1/step-2/__0_0.distcp is not there"]
    assert told[-1]["files_done"] == 3


def test_ten_thousand_objects_need_few_requests(tmp_path: Path) -> None:
    world = World(tmp_path, "nvme")
    things = world.aws.s3.buckets[LAKE].things
    found = []
    for step in range(4):
        files = []
        for rank in range(2_500):
            path = f"run1/step-{step}/__{rank}_0.distcp"
            thing = Thing(path.encode(), world.aws.now, "v1")
            things[f"checkpoints/{path}"] = [thing]
            files.append(RecordedFile(path, len(thing.body), 1, thing.etag.strip('"'), "v1"))
        found.append(
            Record(
                f"run1/step-{step}", "run1", "dcp", step, step + 1, "f" * 16, "every", "upload", "", {}, tuple(files)
            )
        )
    faulty = Faulty(world.aws, None)
    verified = verify_all(faulty, world.settings, found)
    assert list(verified.values()) == [[], [], [], []]
    assert faulty.calls == ["s3.list_objects_v2"] * 12, "a thousand objects a request, and none alone"


# -- a run


def test_a_dry_run_changes_nothing_at_all(tmp_path: Path) -> None:
    for tier in ("lustre", "express", "nvme"):
        world = with_checkpoints(tmp_path / tier, tier)
        hot, lake = world.hot(), dict(world.aws.s3.content(LAKE))
        names = sorted(each.as_posix() for each in world.root.rglob("*"))
        result = world.run(dry_run=True)
        assert [each["path"] for each in result.promoted] == ["run1/step-2", "run1/step-4", "run1/step-6"]
        assert [each["path"] for each in result.pruned] == ["run1/step-1", "run1/step-3"]
        assert result.unsaved == ["run1/step-2", "run1/step-4", "run1/step-6"]
        assert (world.hot(), dict(world.aws.s3.content(LAKE))) == (hot, lake)
        assert sorted(each.as_posix() for each in world.root.rglob("*")) == names
        assert world.aws.fsx.tasks == []


def test_one_that_cannot_be_promoted_stops_no_other_and_stays(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    world.aws.fsx.failing = {"checkpoints/run1/step-2/__0_0.distcp": "S3Error"}
    result = world.run()
    assert [each["path"] for each in result.promoted] == ["run1/step-4", "run1/step-6"]
    assert result.unsaved == ["run1/step-2"]
    assert any("S3Error" in each for each in result.errors)
    assert world.hot_paths() == {"run1/step-2", "run1/step-5", "run1/step-6"}
    status = world.status()
    assert status["unsaved"] == ["run1/step-2"]
    assert status["errors"] == result.errors
    assert status["settings"] == world.settings.to_dict()
    assert json.loads(json.dumps(result.to_dict()))["elected"] is True


def test_asked_and_last(tmp_path: Path) -> None:
    world = World(tmp_path, promote_every=100)
    for number in range(1, 5):
        world.save(f"run1/step-{number}")
    result = world.run(asked={"run1/step-1", "run1/step-9"}, last=True, prune=False)
    assert {each["path"]: each["reason"] for each in result.promoted} == {"run1/step-1": "asked", "run1/step-4": "last"}
    assert result.errors == ["there is no checkpoint run1/step-9"]
    assert world.lake_paths() == {"run1/step-1", "run1/step-4"}


def test_without_a_policy_nothing_is_done(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    world.settings = world.settings.from_dict({**world.settings.to_dict(), "policy": None})
    assert "no checkpoint policy" in world.run().errors[0]
    assert world.hot_paths() == set(world.made)


def test_the_status_stands_also_after_an_error(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    world.aws.fsx.failing = {"checkpoints/run1/step-2/__0_0.distcp": "S3Error"}
    world.run()
    key = ".training-storage/checkpoints/ledgers/run1.json"
    world.aws.s3.put_object(Bucket=LAKE, Key=key, Body=b"no ledger")
    hot = world.hot_paths()
    result = world.run()
    assert any("cannot be read" in each for each in result.errors)
    assert world.status()["errors"] == result.errors
    # A run that saw nothing does not say that there is nothing to save.
    assert world.status()["unsaved"] == ["run1/step-2"]
    assert world.hot_paths() == hot


def test_one_that_was_asked_for_is_kept_where_the_lake_lost_it(tmp_path: Path) -> None:
    world = with_checkpoints(tmp_path)
    world.run(asked={"run1/step-1"}, prune=False)
    world.aws.s3.delete_object(Bucket=LAKE, Key="checkpoints/run1/step-1/__0_0.distcp")
    result = world.run()
    assert "promote it again by hand" in result.kept["run1/step-1"]
    assert "run1/step-1" in world.hot_paths()
    world.run(asked={"run1/step-1"})
    assert "run1/step-1" in world.lake_paths()
    assert world.run().errors == []
    assert world.hot_paths() == {"run1/step-5", "run1/step-6"}
