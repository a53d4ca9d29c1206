"""Staging and archiving against an emulated deployment: in this process, and from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.assemblies import example
from training_storage.cli import main
from training_storage.emulator import Emulator, emulator
from training_storage.emulator.command import environment
from training_storage.node.sharding import bucket_index
from training_storage.operations import transfer_run
from training_storage.operations.archive import archive_route
from training_storage.operations.stage import staging_route
from training_storage.operations.transfer import transfer
from training_storage.operations.transfer_connection import AwsConnection, is_answered_inside
from training_storage.operations.transfer_model import Options

NAME, REGION = "object-native-2048", "us-west-2"
ODD = (
    "",
    "empty/",
    "ümläut-日本",
    "a b+c%25",
    "../up",
    "./here",
    "/double",
    "new\nline",
    "k" * 1015,
    "?a=b&c#d",
    "~(*)'\"",
)
"""Names below the prefix, as S3 takes them."""


class Deployed:
    """The buckets of the example."""

    def __init__(self, aws: Emulator) -> None:
        self.aws = aws
        self.s3: Any = aws.client("s3")
        self.lake = aws.stack(f"{NAME}-lake").outputs["DataLakeBucketName"]
        self.hot = aws.stack(f"{NAME}-hot").outputs["DirectoryBucketNames"].split(",")

    def put(self, bucket: str, objects: dict[str, bytes]) -> None:
        for key, body in objects.items():
            self.s3.put_object(Bucket=bucket, Key=key, Body=body)

    def objects(self, prefix: str, *buckets: str) -> dict[str, bytes]:
        found = {}
        for bucket in buckets:
            for page in self.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
                for item in page.get("Contents", ()):
                    found[item["Key"]] = self.s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        return found


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    with emulator(region=REGION) as aws:
        aws.deploy_assembly(example(NAME).folder, [f"{NAME}-hot"])
        yield Deployed(aws)


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--region", REGION, "--format", "json"]) == code
    return dict(json.loads(capsys.readouterr().out))


def test_the_ways_are_those_of_the_deployed_stacks(deployed: Deployed) -> None:
    session = boto3.session.Session(region_name=REGION)
    there, back = staging_route(session, NAME, "datasets/"), archive_route(session, NAME, "datasets/")
    assert [place.bucket for place in (*there.sources, *there.destinations)] == [deployed.lake, *deployed.hot]
    assert (back.sources, back.destinations) == (there.destinations, there.sources)


def test_objects_of_every_name_are_staged_once(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    objects = {f"names/{name}": name.encode() if not name.endswith("/") else b"" for name in ODD}
    deployed.put(deployed.lake, objects | {"namesake/other": b"not asked for"})
    first = run(capsys, "stage", NAME, "--path", "names")
    assert (first["copied"], first["failed"], first["unverified"]) == (len(ODD), 0, 0)
    assert deployed.objects("", *deployed.hot) == objects
    second = run(capsys, "stage", NAME, "--path", "names/")
    assert (second["known"], second["copied"]) == (len(ODD), 0)


def test_results_are_archived_and_then_removed(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    objects = {f"checkpoints/step-{number}/shard": b"%d" % number for number in range(60)}
    for key, body in objects.items():
        deployed.put(deployed.hot[bucket_index(key, len(deployed.hot))], {key: body})
    assert run(capsys, "archive", NAME)["copied"] == 60
    deployed.put(deployed.hot[bucket_index("checkpoints/step-3/shard", len(deployed.hot))],
                 {"checkpoints/step-3/shard": b"X"})  # fmt: skip
    report = run(capsys, "archive", NAME, "--remove")
    assert (report["known"], report["copied"], report["removed"]) == (59, 1, 60)
    assert deployed.objects("checkpoints/", *deployed.hot) == {}
    assert deployed.objects("checkpoints/", deployed.lake) == objects | {"checkpoints/step-3/shard": b"X"}


def test_same_size_and_other_bytes_are_noticed(deployed: Deployed, capsys: pytest.CaptureFixture[str]) -> None:
    deployed.put(deployed.lake, {"twins/one": b"right"})
    deployed.put(deployed.hot[bucket_index("twins/one", len(deployed.hot))], {"twins/one": b"wrong"})
    assert run(capsys, "stage", NAME, "--path", "twins/")["copied"] == 1
    assert deployed.objects("twins/", *deployed.hot) == {"twins/one": b"right"}


def test_nothing_leaves_the_process_that_the_emulator_answers(
    deployed: Deployed, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_answered_inside()
    assert AwsConnection(REGION).quick(1)[1] is None
    monkeypatch.setattr(transfer_run, "_PAGE", 10)  # more objects than these are for processes elsewhere
    deployed.put(deployed.lake, {f"pages/{number:04d}": b"" for number in range(11)})
    route = staging_route(boto3.session.Session(region_name=REGION), NAME, "pages/")
    assert transfer(AwsConnection(REGION), route, Options(processes=2)).copied == 11


@pytest.mark.slow
def test_another_process_stages_by_processes_of_its_own(deployed: Deployed, tmp_path: Path) -> None:
    objects = {f"many/{number:04d}": b"%d" % number for number in range(1_050)}  # more than a page
    deployed.put(deployed.lake, objects)
    variables = environment({}, url=deployed.aws.server.url, region=REGION, folder=tmp_path)
    command = [sys.executable, "-m", "training_storage", "stage", NAME, "--path", "many/", "--format", "json"]
    done = subprocess.run(command, env=variables, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["copied"], report["failed"]) == (1_050, 0)
    assert len(deployed.objects("many/", *deployed.hot)) == 1_050
