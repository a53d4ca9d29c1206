"""Copies from directory buckets and uploads from disks: what they say of themselves, parts, and interruptions."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.life.actions import HOT, LAKE, PATH, World, bring, saved
from tests.life.faults import Fault, Faulty, Killed
from training_storage.node.checkpoints import (
    lake,
    promotion,
    promotion_copy,
    promotion_upload,
)
from training_storage.node.checkpoints.promotion import PromotionError

# -- copies


def test_a_copy_carries_what_the_source_says_and_no_tags(tmp_path: Path) -> None:
    world = saved(tmp_path, "express")
    bring(world)
    for each in world.find(PATH).files:
        metadata = world.aws.s3.buckets[LAKE].now()[f"checkpoints/{each.path}"].metadata
        assert metadata == {"file-mtime": f"{each.modified_ns}ns", "training-storage-source": each.etag}


def test_copies_that_are_there_are_left(tmp_path: Path) -> None:
    world = saved(tmp_path, "express")
    one = bring(world)
    faulty = Faulty(world.aws, None)
    assert bring(world, faulty).files == one.files
    assert "s3.copy_object" not in faulty.calls


def test_a_source_that_changes_is_not_copied(tmp_path: Path) -> None:
    world = saved(tmp_path, "express")
    found = world.find(PATH)
    tree = world.tree()
    job = promotion.Job(world.aws, world.settings, tree, found, last=frozenset())
    entry = found.files[0]
    bucket = next(name for name in HOT if f"checkpoints/{entry.path}" in world.aws.s3.buckets[name].now())
    world.aws.s3.put_object(Bucket=bucket, Key=f"checkpoints/{entry.path}", Body=b"x" * entry.size)
    with pytest.raises(PromotionError) as error:
        promotion_copy.copy(job)
    assert error.value.reasons == {entry.path: "SourceChanged"}


def test_large_objects_are_copied_in_parts_and_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion_copy, "LARGEST", 1000)
    monkeypatch.setattr(promotion_copy, "PART", 400)
    monkeypatch.setattr(lake, "WORKERS", 1)
    world = World(tmp_path, "express")
    world.save(PATH, size=1500)
    counted = World(tmp_path / "counted", "express")
    counted.save(PATH, size=1500)
    counting = Faulty(counted.aws, None)
    bring(counted, counting)
    world.aws.now += 10
    with pytest.raises(Killed):
        bring(world, Faulty(world.aws, Fault(counting.calls.index("s3.upload_part_copy"), "killed-after")))
    again = Faulty(world.aws, None)
    record = bring(world, again)
    assert world.lake() == world.made[PATH]
    assert again.calls.count("s3.upload_part_copy") == 2 * 4 - 1, "one part was there already"
    assert again.calls.count("s3.create_multipart_upload") == 1
    assert all(each.checksum.startswith("CRC32=") for each in record.files)
    assert not world.aws.s3.buckets[LAKE].uploads


def test_parts_of_an_older_object_are_thrown_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion_copy, "LARGEST", 1000)
    monkeypatch.setattr(promotion_copy, "PART", 400)
    world = World(tmp_path, "express")
    key = f"checkpoints/{PATH}/__0_0.distcp"
    upload = world.aws.s3.create_multipart_upload(Bucket=LAKE, Key=key)["UploadId"]
    world.aws.s3.upload_part(Bucket=LAKE, Key=key, UploadId=upload, PartNumber=1, Body=b"o" * 400)
    world.save(PATH, size=1500)
    bring(world)
    assert world.lake() == world.made[PATH]
    assert not world.aws.s3.buckets[LAKE].uploads


# -- uploads


def test_an_upload_says_what_the_file_was(tmp_path: Path) -> None:
    world = saved(tmp_path, "nvme")
    record = bring(world)
    for each in record.files:
        thing = world.aws.s3.buckets[LAKE].now()[f"checkpoints/{each.path}"]
        about = (world.checkpoints / each.path).stat()
        assert thing.metadata == {
            "file-mtime": f"{about.st_mtime_ns}ns",
            "file-permissions": f"0{about.st_mode:o}",
            "file-owner": str(about.st_uid),
            "file-group": str(about.st_gid),
        }
        crc = base64.b64encode(zlib.crc32(thing.body).to_bytes(4, "big")).decode()
        assert each.checksum == f"CRC32={crc}"


def test_the_file_that_makes_it_complete_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for tier in ("nvme", "express"):
        world = World(tmp_path / tier, tier)
        world.save(PATH, ranks=30)
        bring(world)
        uploaded = list(world.aws.s3.buckets[LAKE].things)
        assert uploaded[-1] == f"checkpoints/{PATH}/.metadata"


def test_large_files_go_up_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion_upload, "WHOLE", 1000)
    monkeypatch.setattr(promotion_upload, "PART", 100)
    world = World(tmp_path, "nvme")
    key = f"checkpoints/{PATH}/__0_0.distcp"
    world.aws.s3.create_multipart_upload(Bucket=LAKE, Key=key)  # left by a run that was killed
    world.save(PATH, size=1550)
    assert bring(world)
    assert world.lake() == world.made[PATH]
    assert world.aws.s3.buckets[LAKE].now()[key].parts == 16
    assert not world.aws.s3.buckets[LAKE].uploads


def test_an_upload_that_fails_leaves_no_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(promotion_upload, "WHOLE", 1000)
    monkeypatch.setattr(promotion_upload, "PART", 100)
    monkeypatch.setattr(lake, "WORKERS", 1)
    world = World(tmp_path, "nvme")
    world.save(PATH, size=1550)
    counting = Faulty(world.aws, None)
    with pytest.raises(RuntimeError):
        bring(world, counting, report=_breaks_at("uploading"))
    at = counting.calls.index("s3.upload_part") + 3
    world.aws.s3.buckets[LAKE].uploads.clear()
    with pytest.raises(Exception, match="SlowDown"):
        bring(world, Faulty(world.aws, Fault(at, "throttle")))
    assert not world.aws.s3.buckets[LAKE].uploads


def _breaks_at(state: str) -> Callable[[dict[str, Any]], None]:
    def breaks(progress: dict[str, Any]) -> None:
        if progress["state"] == state and "parts" in progress:
            raise RuntimeError(state)

    return breaks


def test_files_of_a_checkpoint_that_are_links_are_not_followed(tmp_path: Path) -> None:
    world = saved(tmp_path, "nvme")
    found = world.find(PATH)
    name = found.files[0].path
    (world.checkpoints / name).unlink()
    (world.checkpoints / name).symlink_to("/etc/passwd")
    job = promotion.Job(world.aws, world.settings, world.tree(), found)
    with pytest.raises((PromotionError, OSError)):
        promotion_upload.upload(job)
    assert not [body for body in world.lake().values() if b"root:" in body]
