"""Files of emulated Lustre file systems: tasks, links and HSM really move them.

Metadata, error codes and states are those of the user guide (LustreGuide: "POSIX metadata support for data
repositories", "Data repository task reports", "Exporting files using HSM commands").
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.emulated.emulator_templates import hot, link
from training_storage.emulator import Emulator, emulator
from training_storage.emulator.file_system import EmulatedFileSystem


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as aws:
        yield aws


class Site:
    """One bucket and one file system, with a link for checkpoints and one that imports and exports by itself."""

    def __init__(self, aws: Emulator, name: str) -> None:
        template = hot()
        template["Resources"]["Checkpoints"] = link("/checkpoints", "checkpoints")
        template["Resources"]["Checkpoints"]["Properties"].pop("S3")
        self.aws, self.name = aws, name
        ids = aws.deploy(template, name).physical_ids
        self.bucket, self.id, self.datasets = ids["Bucket"], ids["Fs"], ids["Link"]
        self.files: EmulatedFileSystem = aws.file_system(self.id)
        self.s3, self.fsx = aws.client("s3"), aws.client("fsx")

    def put(self, key: str, body: bytes = b"data", **more: Any) -> None:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, **more)

    def get(self, key: str) -> bytes:
        return bytes(self.s3.get_object(Bucket=self.bucket, Key=key)["Body"].read())

    def objects(self) -> list[str]:
        return [item["Key"] for item in self.s3.list_objects_v2(Bucket=self.bucket).get("Contents", ())]

    def start(self, kind: str, paths: list[str], **more: Any) -> str:
        given = {"Report": {"Enabled": False}, **more}
        answer = self.fsx.create_data_repository_task(FileSystemId=self.id, Type=kind, Paths=paths, **given)
        return str(answer["DataRepositoryTask"]["TaskId"])

    def look(self, task: str) -> dict[str, Any]:
        found: dict[str, Any] = self.fsx.describe_data_repository_tasks(TaskIds=[task])["DataRepositoryTasks"][0]
        return found

    def run(self, kind: str, paths: list[str], **more: Any) -> dict[str, Any]:
        task = self.start(kind, paths, **more)
        for _ in range(2):
            self.look(task)
        return self.look(task)

    def export(self, *paths: str, **more: Any) -> dict[str, Any]:
        return self.run("EXPORT_TO_REPOSITORY", list(paths), **more)


@pytest.fixture
def site(running: Emulator, request: pytest.FixtureRequest) -> Site:
    return Site(running, f"site-{abs(hash(request.node.name))}")


def counts(task: dict[str, Any]) -> tuple[str, int, int, int]:
    status = task["Status"]
    return task["Lifecycle"], status["TotalCount"], status["SucceededCount"], status["FailedCount"]


def test_an_export_writes_the_files_with_their_metadata(site: Site) -> None:
    place = site.files.write("checkpoints/run/step-1/model.pt", b"weights")
    place.chmod(0o640)
    os.utime(place, ns=(1_700_000_000_000_000_001, 1_700_000_000_000_000_002))
    site.files.write("scratch/tmp", b"not linked")
    assert counts(site.export("checkpoints/run")) == ("SUCCEEDED", 1, 1, 0)
    assert site.objects() == ["checkpoints/run/step-1/model.pt"]
    assert site.get("checkpoints/run/step-1/model.pt") == b"weights"
    meta = site.s3.head_object(Bucket=site.bucket, Key="checkpoints/run/step-1/model.pt")["Metadata"]
    assert meta == {
        "file-permissions": "0100640",
        "file-owner": str(os.getuid()),
        "file-group": str(os.getgid()),
        "file-atime": meta["file-atime"],
        "file-mtime": "1700000000000000002ns",
        "user-agent": "aws-fsx-lustre",
    }
    assert site.files.hsm_state("checkpoints/run/step-1/model.pt") == ["exists", "archived"]


def test_an_export_writes_what_changed_and_nothing_else(site: Site) -> None:
    for name in "abc":
        site.files.write(f"checkpoints/{name}", name)
    site.export("checkpoints")
    site.files.write("checkpoints/b", b"changed")
    assert site.files.not_exported() == ["checkpoints/b"]
    assert site.files.hsm_state("checkpoints/b") == ["exists", "dirty", "archived"]
    assert counts(site.export("/")) == ("SUCCEEDED", 1, 1, 0)
    assert site.get("checkpoints/b") == b"changed"


def test_counts_grow_while_a_task_runs(site: Site) -> None:
    for number in range(10):
        site.files.write(f"checkpoints/{number}")
    task = site.start("EXPORT_TO_REPOSITORY", ["checkpoints"])
    assert "Status" not in site.look(task)
    assert counts(site.look(task)) == ("EXECUTING", 10, 5, 0)
    assert counts(site.look(task)) == ("SUCCEEDED", 10, 10, 0)


@pytest.mark.parametrize("path", ["checkpoints/gone", "scratch"])
def test_a_path_that_cannot_be_exported_fails_the_task(site: Site, path: str) -> None:
    site.files.write("checkpoints/a")
    site.files.write("scratch/a")
    last = site.export("checkpoints", path)
    assert (last["Lifecycle"], site.objects()) == ("FAILED", [])
    assert path in last["FailureDetails"]["Message"]


def report(site: Site) -> dict[str, Any]:
    path = f"s3://{site.bucket}/checkpoints/.reports/"
    return {"Enabled": True, "Format": "REPORT_CSV_20191124", "Scope": "FAILED_FILES_ONLY", "Path": path}


def test_failed_files_are_in_the_report(site: Site) -> None:
    long = "/".join(["checkpoints", *("x" * 200 for _ in range(6))])
    site.files.write(long)
    for name in ("a", "b"):
        site.files.write(f"checkpoints/{name}")
    site.aws.fail_files(site.id, {"/checkpoints/b": "S3AccessDenied"})
    last = site.export("checkpoints", Report=report(site))
    assert counts(last) == ("FAILED", 3, 1, 2)
    text = site.get(f"checkpoints/.reports/{last['TaskId']}/failures.csv").decode()
    assert list(csv.reader(io.StringIO(text))) == [
        ["FilePath", "FileStatus", "ErrorCode"],
        ["checkpoints/b", "failed", "S3AccessDenied"],
        [long, "failed", "PathSizeTooLong"],
    ]
    site.aws.fail_files(site.id, {})
    assert counts(site.export("checkpoints")) == ("FAILED", 2, 1, 1)
    assert "checkpoints/b" in site.objects()


def test_a_task_fails_as_a_whole_once(site: Site) -> None:
    site.files.write("checkpoints/a")
    site.aws.fail_task(site.id, "disk on fire")
    last = site.export("checkpoints")
    assert (last["Lifecycle"], last["FailureDetails"]["Message"]) == ("FAILED", "disk on fire")
    assert site.objects() == []
    assert site.export("checkpoints")["Lifecycle"] == "SUCCEEDED"


def test_tasks_are_held_and_let_go(site: Site) -> None:
    site.files.write("checkpoints/a")
    site.aws.hold_tasks(site.id)
    task = site.start("EXPORT_TO_REPOSITORY", ["checkpoints"])
    assert [site.look(task)["Lifecycle"] for _ in range(5)][1:] == ["EXECUTING"] * 4
    site.aws.settle(site.id)
    assert (site.look(task)["Lifecycle"], site.objects()) == ("EXECUTING", [])
    site.aws.hold_tasks(site.id, False)
    site.aws.settle(site.id)
    assert (site.look(task)["Lifecycle"], site.objects()) == ("SUCCEEDED", ["checkpoints/a"])


def test_a_task_takes_the_time_that_was_asked_for(site: Site) -> None:
    site.files.write("checkpoints/a")
    site.aws.slow_tasks(site.id, looks=2, seconds=600)
    task = site.start("EXPORT_TO_REPOSITORY", ["checkpoints"])
    assert [site.look(task)["Lifecycle"] for _ in range(5)][1:] == ["EXECUTING"] * 4
    site.aws.advance(601)
    assert [site.look(task)["Lifecycle"] for _ in range(2)] == ["EXECUTING", "SUCCEEDED"]


def test_the_same_token_is_the_same_task(site: Site) -> None:
    site.files.write("checkpoints/a")
    first = site.start("EXPORT_TO_REPOSITORY", ["checkpoints"], ClientRequestToken="one")
    assert site.start("EXPORT_TO_REPOSITORY", ["checkpoints"], ClientRequestToken="one") == first
    with pytest.raises(ClientError, match="IncompatibleParameterError"):
        site.start("EXPORT_TO_REPOSITORY", ["/"], ClientRequestToken="one")
    site.aws.settle(site.id)
    assert site.start("EXPORT_TO_REPOSITORY", ["checkpoints"], ClientRequestToken="one") == first
    assert site.start("EXPORT_TO_REPOSITORY", ["checkpoints"], ClientRequestToken="two") != first


def test_an_import_makes_files_without_data(site: Site) -> None:
    meta = {"file-permissions": "0100600", "file-mtime": "1700000000000000002ns"}
    site.put("datasets/a/b.tar", b"x" * 100_000, Metadata=meta)
    site.put("datasets/a/plain", b"y")
    site.put("datasets/a//strange", b"z")
    last = site.run("IMPORT_METADATA_FROM_REPOSITORY", [f"s3://{site.bucket}/datasets/"])
    assert counts(last) == ("FAILED", 3, 2, 1)
    assert site.files.files() == ["datasets/a/b.tar", "datasets/a/plain"]
    found = (site.files.path / "datasets/a/b.tar").stat()
    assert (found.st_size, found.st_mtime_ns, found.st_mode & 0o777) == (100_000, 1_700_000_000_000_000_002, 0o600)
    assert site.files.hsm_state("datasets/a/b.tar") == ["released", "exists", "archived"]
    assert site.files.used() == 0
    assert site.files.read("datasets/a/b.tar") == b"x" * 100_000
    assert site.files.released() == ["datasets/a/plain"]
    assert counts(site.run("IMPORT_METADATA_FROM_REPOSITORY", []))[2] == 2  # nothing is overwritten
    assert site.files.released() == ["datasets/a/plain"]


def test_an_import_path_that_is_not_there_fails_the_task(site: Site) -> None:
    for path in (f"s3://{site.bucket}/datasets/gone", "s3://elsewhere/x", "datasets"):
        assert site.run("IMPORT_METADATA_FROM_REPOSITORY", [path])["Lifecycle"] == "FAILED"


def test_archived_objects_show_and_cannot_be_read(site: Site) -> None:
    site.put("datasets/old", b"cold", StorageClass="GLACIER")
    assert site.run("IMPORT_METADATA_FROM_REPOSITORY", [])["Lifecycle"] == "SUCCEEDED"
    with pytest.raises(OSError, match="cannot be read"):
        site.files.read("datasets/old")


def test_links_survive_both_ways(site: Site) -> None:
    site.files.write("checkpoints/step-1", b"1")
    (site.files.path / "checkpoints/latest").symlink_to("step-1")
    assert counts(site.export("checkpoints")) == ("SUCCEEDED", 2, 2, 0)
    (site.files.path / "checkpoints/latest").unlink()
    site.run("IMPORT_METADATA_FROM_REPOSITORY", [])
    assert (site.files.path / "checkpoints/latest").readlink() == Path("step-1")


def release(site: Site, days: int, *paths: str) -> dict[str, Any]:
    idle = {"DurationSinceLastAccess": {"Unit": "DAYS", "Value": days}}
    return site.run("RELEASE_DATA_FROM_FILESYSTEM", list(paths or ["/"]), ReleaseConfiguration=idle)


def test_release_takes_exported_files_that_were_not_used(site: Site) -> None:
    for name in ("kept", "gone"):
        site.files.write(f"checkpoints/{name}", b"x" * 10_000)
    site.export("checkpoints")
    site.files.write("checkpoints/new", b"x")
    site.files.write("checkpoints/kept", b"y" * 10_000)
    before = (site.files.path / "checkpoints/gone").stat().st_mtime_ns
    assert counts(release(site, 7)) == ("SUCCEEDED", 0, 0, 0)
    site.aws.advance(8 * 86400)
    assert counts(release(site, 7)) == ("SUCCEEDED", 1, 1, 0)
    assert site.files.released() == ["checkpoints/gone"]
    assert (site.files.path / "checkpoints/gone").stat().st_mtime_ns == before
    assert site.files.not_exported() == ["checkpoints/kept", "checkpoints/new"]
    assert counts(site.export("checkpoints")) == ("SUCCEEDED", 2, 2, 0)  # the hole is not exported over the data
    assert site.get("checkpoints/gone") == b"x" * 10_000


def test_a_link_is_filled_when_it_is_made(running: Emulator, site: Site) -> None:
    site.put("extra/a", b"12345")
    site.fsx.create_data_repository_association(
        FileSystemId=site.id,
        FileSystemPath="/extra",
        DataRepositoryPath=f"s3://{site.bucket}/extra/",
        BatchImportMetaDataOnCreate=True,
    )
    assert site.files.files() == ["extra/a"]
    assert (site.files.path / "extra/a").stat().st_size == 5


def automatic(site: Site, *events: str) -> None:
    site.fsx.update_data_repository_association(
        AssociationId=site.datasets,
        S3={"AutoImportPolicy": {"Events": list(events)}, "AutoExportPolicy": {"Events": list(events)}},
    )


def test_automatic_export_waits_until_it_is_settled(site: Site) -> None:
    automatic(site, "NEW", "CHANGED", "DELETED")
    assert site.files.queue_age() == 0
    site.files.write("datasets/out", b"1")
    assert (site.files.queue_age() or 0) >= 1
    assert site.objects() == []
    assert site.aws.settle(site.id) == ["export datasets/out"]
    assert (site.get("datasets/out"), site.files.queue_age()) == (b"1", 0)
    site.files.write("datasets/out", b"22")
    assert site.aws.settle(site.id) == ["export datasets/out"]
    (site.files.path / "datasets/out").unlink()
    site.aws.settle(site.id)
    assert (site.objects(), site.aws.settle(site.id)) == ([], [])


def test_automatic_import_follows_the_bucket(site: Site) -> None:
    automatic(site, "NEW", "CHANGED", "DELETED")
    site.put("datasets/in", b"1")
    assert site.aws.settle(site.id) == ["import datasets/in"]
    site.put("datasets/in", b"22")
    assert (site.files.queue_age("AutoImport") or 0) >= 1
    site.aws.settle(site.id)
    assert site.files.read("datasets/in") == b"22"
    site.s3.delete_object(Bucket=site.bucket, Key="datasets/in")
    site.aws.settle(site.id)
    assert site.files.files() == []


def test_settling_runs_beside_what_waits(site: Site) -> None:
    site.files.write("checkpoints/a")
    task = site.start("EXPORT_TO_REPOSITORY", ["checkpoints"])
    with site.aws.settling(site.id, each=0.001):
        while not site.objects():
            pass
    assert site.look(task)["Lifecycle"] in ("EXECUTING", "SUCCEEDED")


def test_files_go_with_their_file_system(site: Site) -> None:
    place = site.files.write("checkpoints/a").parent.parent
    site.aws.destroy(site.name, retain=[])
    assert not place.exists()


def test_files_go_with_the_emulator() -> None:
    with emulator() as aws:
        place = aws.file_system(aws.deploy(hot(), "hot").physical_ids["Fs"]).path
        assert (place / "datasets").is_dir()
    assert not place.parent.parent.exists()
