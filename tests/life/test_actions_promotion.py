"""Ways to the lake: each ends in a proof object by object, or in an error that names the file, and records nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.life.actions import LAKE, PATH, World, bring, saved
from tests.life.faults import Fault, Faulty
from training_storage.node.checkpoints import (
    lake,
    promotion,
    promotion_auto,
    promotion_export,
)
from training_storage.node.checkpoints.promotion import PromotionError
from training_storage.node.settings import Link

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "export-task": ("lustre", {}),
    "auto-export": ("lustre", {"exports": True}),
    "copy": ("express", {}),
    "upload": ("nvme", {}),
}


@pytest.mark.parametrize("method", WAYS)
def test_report_30_no_way_to_the_lake_leads_through_a_mount_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    tier, given = WAYS[method]
    world = saved(tmp_path, tier, **given)
    mount = tmp_path / "lake" / "checkpoints"
    mount.mkdir(parents=True)
    renamed: list[str] = []
    monkeypatch.setenv("TS_ROOT", str(tmp_path))
    monkeypatch.setattr(os, "rename", lambda source, _target: renamed.append(source))
    monkeypatch.setattr(os, "replace", lambda source, _target: renamed.append(source))
    bring(world)
    assert world.lake() == world.made[PATH]
    assert list(mount.iterdir()) == []
    assert renamed == []


@pytest.mark.parametrize("method", WAYS)
def test_every_way_ends_in_a_proof(tmp_path: Path, method: str) -> None:
    tier, given = WAYS[method]
    world = saved(tmp_path, tier, **given)
    told: list[dict[str, Any]] = []
    record = bring(world, report=told.append)
    assert (record.method, record.number, record.reason, record.layout) == (method, 1, "every", "dcp")
    assert record.promoted_at.startswith("2027-01-15T")
    assert {each.path for each in record.files} == set(world.made[PATH])
    assert world.lake() == world.made[PATH]
    for each in record.files:
        thing = world.aws.s3.buckets[LAKE].now()[f"checkpoints/{each.path}"]
        assert (each.size, each.etag, each.version) == (len(thing.body), thing.etag.strip('"'), thing.version)
    assert record.fingerprint == world.find(PATH).fingerprint
    assert world.recorded() == {}, "the caller records it"
    assert told[-1]["state"] == "verifying"
    assert told[-1]["bytes"] == record.size


def test_which_way(tmp_path: Path) -> None:
    lustre = World(tmp_path / "1").settings
    assert lake.method_of(lustre, PATH) == "export-task"
    assert lake.place_of(lustre, PATH + "/x").key == "checkpoints/run1/step-1/x"
    loose = World(tmp_path / "2", linked=False).settings
    assert lake.method_of(loose, PATH) == "upload"
    assert lake.place_of(loose, PATH).key == "checkpoints/run1/step-1"
    # A task cannot run on a file system of which any link exports by itself.
    mixed = replace(lustre, links=(*lustre.links, Link("/logs", LAKE, "logs/", False, True)))
    assert lake.method_of(mixed, PATH) == "upload"
    whole = replace(lustre, links=(Link("/", "other", "all/", True, False),))
    assert lake.place_of(whole, PATH) == lake.Place("other", "all/checkpoints/run1/step-1", whole.links[0])


# -- what no way accepts


@pytest.mark.parametrize("method", WAYS)
def test_a_half_written_one_is_never_promoted(tmp_path: Path, method: str) -> None:
    tier, given = WAYS[method]
    world = World(tmp_path, tier, **given)
    world.save(PATH, complete=False)
    before = dict(world.lake())
    with pytest.raises(PromotionError, match="half-written"):
        bring(world)
    assert world.lake() == before


@pytest.mark.parametrize("method", ["export-task", "upload"])
def test_a_checkpoint_that_changes_meanwhile_is_not_recorded(tmp_path: Path, method: str) -> None:
    tier, given = WAYS[method]
    world = saved(tmp_path, tier, **given)

    def writes(progress: dict[str, Any]) -> None:
        if progress["state"] == "verifying":
            world.aws.now += 60
            world.put(f"{PATH}/__0_0.distcp", b"written again")

    with pytest.raises(PromotionError, match="changed while it was being promoted; nothing is recorded"):
        bring(world, report=writes)


@pytest.mark.parametrize("method", WAYS)
def test_an_object_that_is_not_the_file_is_found(tmp_path: Path, method: str) -> None:
    tier, given = WAYS[method]
    world = saved(tmp_path, tier, **given)
    victim = f"checkpoints/{PATH}/__1_0.distcp"

    def spoils(progress: dict[str, Any]) -> None:
        if progress["state"] == "verifying":
            world.aws.s3.delete_object(Bucket=LAKE, Key=victim)

    with pytest.raises(PromotionError) as error:
        bring(world, report=spoils)
    assert error.value.reasons == {f"{PATH}/__1_0.distcp": "NotInS3"}


def test_same_size_other_bytes(tmp_path: Path) -> None:
    for tier in ("nvme", "express"):
        world = saved(tmp_path / tier, tier)

        def spoils(progress: dict[str, Any], world: World = world) -> None:
            if progress["state"] == "verifying":
                key = f"checkpoints/{PATH}/__1_0.distcp"
                kept = world.aws.s3.buckets[LAKE].now()[key].metadata
                world.aws.s3.put_object(Bucket=LAKE, Key=key, Body=os.urandom(20), Metadata=kept)

        with pytest.raises(PromotionError) as error:
            bring(world, report=spoils)
        assert error.value.reasons == {f"{PATH}/__1_0.distcp": "ChecksumDiffers"}


def test_an_object_older_than_the_file(tmp_path: Path) -> None:
    world = saved(tmp_path)
    entry = world.find(PATH).files[0]
    job = promotion.Job(world.aws, world.settings, world.tree(), world.find(PATH))
    key = f"checkpoints/{entry.path}"
    for late, verdict in ((0, ""), (4, ""), (60, "OlderThanTheFile")):
        world.aws.now = entry.modified_ns / 1e9 - late
        for each in world.find(PATH).files:
            body = world.made[PATH][each.path]
            world.aws.s3.put_object(Bucket=LAKE, Key=f"checkpoints/{each.path}", Body=body)
        world.aws.s3.put_object(Bucket=LAKE, Key=key, Body=world.made[PATH][entry.path])
        _, wrong = promotion.prove(job, (entry,), {})
        assert wrong == ({entry.path: verdict} if verdict else {})
        # Where only clocks speak for it, earlier work is not trusted.
        assert promotion.prove(job, (entry,), {}, strict=True)[1]


@pytest.mark.parametrize(
    ("written", "wrong"),
    [("{ns}ns", False), ("{ns}", False), ("{s}000000000ns", False), ("{before}ns", True), ("rubbish", False)],
)
def test_the_time_that_fsx_writes_beside_an_object_decides(tmp_path: Path, written: str, wrong: bool) -> None:
    world = saved(tmp_path)
    found = world.find(PATH)
    job = promotion.Job(world.aws, world.settings, world.tree(), found)
    for each in found.files:
        ns = each.modified_ns
        text = written.format(ns=ns, s=ns // 1_000_000_000, before=ns - 60_000_000_000)
        body = world.made[PATH][each.path]
        world.aws.s3.put_object(Bucket=LAKE, Key=f"checkpoints/{each.path}", Body=body, Metadata={"file-mtime": text})
    assert set(promotion.prove(job, found.files, {})[1].values()) == ({"NotThisVersionOfTheFile"} if wrong else set())


def test_names_that_s3_cannot_hold(tmp_path: Path) -> None:
    world = World(tmp_path, "nvme")
    long = "/".join(["x" * 200] * 6)
    world.save(PATH)
    world.put(f"{PATH}/{long}/notes", b"1")
    world.aws.now += 1
    world.put(f"{PATH}/.metadata", b"again")
    with pytest.raises(PromotionError) as error:
        bring(world)
    assert set(error.value.reasons.values()) == {"PathSizeTooLong"}
    assert world.lake() == {}


# -- export tasks


def task_of(world: World) -> dict[str, Any]:
    [task] = world.aws.fsx.tasks
    return task


def test_export_asks_for_a_report_and_names_what_it_is(tmp_path: Path) -> None:
    world = saved(tmp_path)
    bring(world)
    task = task_of(world)
    assert task["Type"] == "EXPORT_TO_REPOSITORY"
    assert task["Paths"] == ["checkpoints/run1/step-1"]
    assert {each["Key"]: each["Value"] for each in task["Tags"]}["training-storage:checkpoint"] == PATH
    assert task["Report"] == {
        "Enabled": True,
        "Path": f"s3://{LAKE}/checkpoints/.training-storage",
        "Format": "REPORT_CSV_20191124",
        "Scope": "FAILED_FILES_ONLY",
    }


def test_failed_files_are_named_with_their_codes(tmp_path: Path) -> None:
    world = saved(tmp_path)
    world.aws.fsx.failing = {f"checkpoints/{PATH}/__1_0.distcp": "S3AccessDenied"}
    with pytest.raises(PromotionError, match="S3AccessDenied") as error:
        bring(world)
    assert error.value.reasons == {f"{PATH}/__1_0.distcp": "S3AccessDenied"}
    assert bring(world).method == "export-task", "the next run starts another task"
    assert len(world.aws.fsx.tasks) == 2


def test_a_task_that_fails_without_files(tmp_path: Path) -> None:
    world = saved(tmp_path)
    world.aws.fsx.fail_next_task = True
    with pytest.raises(PromotionError, match="ended FAILED: an internal error") as error:
        bring(world)
    assert error.value.reasons == {}
    assert bring(world)


def test_a_task_in_the_way_is_waited_for_and_never_cancelled(tmp_path: Path) -> None:
    world = saved(tmp_path)
    world.aws.fsx.looks = 5
    other = world.aws.fsx.create_data_repository_task(
        FileSystemId=world.settings.hot_tier_id, Type="RELEASE_DATA_FROM_FILESYSTEM", Report={"Enabled": False}
    )["DataRepositoryTask"]["TaskId"]
    waits: list[float] = []
    told: list[dict[str, Any]] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        world.aws.sleep(seconds)

    bring(world, sleep=sleep, report=told.append)
    assert waits[:3] == [15, 22.5, 33.75]
    assert any(each.get("waiting_for") == other for each in told)
    assert [task["Lifecycle"] for task in world.aws.fsx.tasks] == ["SUCCEEDED", "SUCCEEDED"]


def test_a_request_whose_answer_got_lost_starts_no_second_task(tmp_path: Path) -> None:
    world = saved(tmp_path)
    calls = _calls(tmp_path)
    at = calls.index("fsx.create_data_repository_task")
    with pytest.raises(ReadTimeoutError):
        bring(world, Faulty(world.aws, Fault(at, "timeout-after")))
    assert bring(world)
    assert len(world.aws.fsx.tasks) == 1


def _calls(tmp_path: Path) -> list[str]:
    world = saved(tmp_path / "calls")
    faulty = Faulty(world.aws, None)
    bring(world, faulty)
    return faulty.calls


def test_a_running_task_over_the_same_path_is_joined_and_not_trusted(tmp_path: Path) -> None:
    world = saved(tmp_path)
    world.aws.fsx.create_data_repository_task(
        FileSystemId=world.settings.hot_tier_id,
        Type="EXPORT_TO_REPOSITORY",
        Paths=[f"checkpoints/{PATH}"],
        Report={"Enabled": False},
    )
    assert bring(world)
    assert len(world.aws.fsx.tasks) == 1
    # One that had passed a file before it was written: what it left is not taken for the file.
    world.save(PATH)
    world.aws.fsx.create_data_repository_task(
        FileSystemId=world.settings.hot_tier_id,
        Type="EXPORT_TO_REPOSITORY",
        Paths=[f"checkpoints/{PATH}"],
        Report={"Enabled": False},
    )
    exports = world.aws.fsx.export
    world.aws.fsx.export = lambda *_given: None  # type: ignore[method-assign]  # it came by before

    def sleep(seconds: float) -> None:
        world.aws.sleep(seconds)
        if world.aws.fsx.tasks[1]["Lifecycle"] == "SUCCEEDED":
            world.aws.fsx.export = exports  # type: ignore[method-assign]  # as above

    assert bring(world, sleep=sleep)
    assert len(world.aws.fsx.tasks) == 3


def test_what_an_earlier_run_exported_is_not_exported_again(tmp_path: Path) -> None:
    world = saved(tmp_path)
    one, other = bring(world), bring(world)
    assert len(world.aws.fsx.tasks) == 1
    assert one.files == other.files


def test_a_task_that_succeeds_without_a_file_says_what_to_do(tmp_path: Path) -> None:
    world = saved(tmp_path)
    world.aws.fsx.export = lambda *_given: None  # type: ignore[method-assign]  # FSx takes it for exported already
    with pytest.raises(PromotionError, match="touch it"):
        bring(world)


@pytest.mark.parametrize(
    "text",
    [
        'FilePath,FileStatus,ErrorCode\n"/checkpoints/run1/step-1/a ""b"", c",FAILED,S3Error\n',
        '"checkpoints/run1/step-1/a ""b"", c", "FAILED", "S3Error"\r\n',
        '\ufeffFilePath, FileStatus, ErrorCode\n/fsx/checkpoints/run1/step-1/"a ""b"", c"',
        '"/fsx/checkpoints/run1/step-1/a ""b"", c",failed,S3Error\n\n',
    ],
)
def test_reports_are_read_however_they_are_quoted(text: str) -> None:
    found = promotion_export.read_report(text, "checkpoints/run1/step-1", "run1/step-1")
    if '/"a' in text:  # a quote within a cell is no quoting: the row is kept, whatever it says
        assert len(found) == 1
    else:
        assert found == {'run1/step-1/a "b", c': "S3Error"}


# -- automatic export


def test_auto_export_waits_for_objects_and_queue(tmp_path: Path) -> None:
    world = World(tmp_path, exports=True)
    export = world.aws.fsx.export
    world.aws.fsx.export = lambda *_given: None  # type: ignore[method-assign]  # the queue is long
    world.save(PATH)
    waited: list[float] = []

    def queue(age: float) -> None:
        world.aws.cloudwatch.record("AgeOfOldestQueuedMessage", world.settings.hot_tier_id, age, Publisher="AutoExport")

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        world.aws.sleep(seconds)
        if len(waited) <= 10:
            queue(300.0)
        if len(waited) == 5:
            for name in world.made[PATH]:
                export(world.settings.hot_tier_id, f"checkpoints/{name}")
        if len(waited) > 10:
            queue(0.0)

    assert bring(world, sleep=sleep).method == "auto-export"
    assert len(waited) > 10
    assert world.aws.fsx.tasks == []


def test_auto_export_gives_up_for_this_run_where_nothing_moves(tmp_path: Path) -> None:
    world = World(tmp_path, exports=True)
    export = world.aws.fsx.export
    world.aws.fsx.export = lambda *_given: None  # type: ignore[method-assign]  # the link is broken
    world.save(PATH)
    began = world.aws.now
    with pytest.raises(PromotionError, match="FSx has not exported it") as error:
        bring(world)
    assert set(error.value.reasons.values()) == {"NotInS3"}
    assert world.aws.now - began == pytest.approx(promotion_auto.PATIENCE_S, abs=60)
    for name in world.made[PATH]:
        export(world.settings.hot_tier_id, f"checkpoints/{name}")
    assert bring(world)
