"""The preload command against an emulated deployment: what it prints, what it exits with, what FSx then holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial

import pytest

from tests.assemblies import example
from training_storage.cli import main
from training_storage.emulator import Emulator, emulator
from training_storage.operations import preload

NAME = "vision-small-files"
COMMAND = ["preload", NAME, "--metadata", "--region", "us-east-1"]


@pytest.fixture(scope="module")
def deployed() -> Iterator[Emulator]:
    with emulator() as aws:
        aws.deploy_assembly(example(NAME).folder, [f"{NAME}-hot"])
        yield aws


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "import_metadata", partial(preload.import_metadata, sleep=lambda _: None))


def file_system(aws: Emulator) -> str:
    return str(aws.stack(f"{NAME}-hot").outputs["FileSystemId"])


def test_imports_every_link_and_says_how_many_files_are_there(
    deployed: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.task_files(file_system(deployed), total=1_300_000)
    assert main(COMMAND) == 0
    printed = capsys.readouterr()
    assert "/datasets: the listing of s3://" in printed.out
    assert "1300000 files" in printed.out
    assert "EXECUTING" in printed.err  # progress by lines where the output is no terminal


def test_leaves_import_tasks_in_fsx(deployed: Emulator) -> None:
    before = len(deployed.client("fsx").describe_data_repository_tasks()["DataRepositoryTasks"])
    assert main([*COMMAND, "--path", "/datasets"]) == 0
    tasks = deployed.client("fsx").describe_data_repository_tasks()["DataRepositoryTasks"]
    assert len(tasks) == before + 1
    assert {task["Type"] for task in tasks} == {"IMPORT_METADATA_FROM_REPOSITORY"}


def test_failed_files_are_exit_code_1_with_where_to_look(
    deployed: Emulator, capsys: pytest.CaptureFixture[str]
) -> None:
    deployed.task_files(file_system(deployed), total=100, failed=3)
    assert main([*COMMAND, "--path", "/datasets"]) == 1
    assert "3 of 100 files failed" in capsys.readouterr().out


def test_json_holds_the_counts(deployed: Emulator, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.task_files(file_system(deployed), total=10)
    assert main([*COMMAND, "--path", "/datasets", "--format", "json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert (result["lifecycle"], result["succeeded"], result["failed"]) == ("SUCCEEDED", 10, 0)


def test_a_workload_that_is_not_deployed_is_exit_code_1(deployed: Emulator, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preload", "nobody", "--metadata", "--region", "us-east-1"]) == 1
    assert "no stack nobody-hot" in capsys.readouterr().err


def test_data_needs_a_node_and_the_message_says_which(deployed: Emulator, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preload", NAME, "--region", "us-east-1"]) == 1
    assert f"no node of {NAME} is running" in capsys.readouterr().err
