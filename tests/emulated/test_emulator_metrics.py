"""Metrics of emulated file systems, and the emulator's clock.

Names and dimensions: LustreGuide, "Amazon FSx for Lustre metrics and dimensions".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.emulated.emulator_templates import changed, hot
from training_storage.emulator import Emulator, emulator


@pytest.fixture(scope="module")
def running() -> Iterator[Emulator]:
    with emulator() as aws:
        yield aws


@pytest.fixture
def file_system(running: Emulator, request: pytest.FixtureRequest) -> str:
    events = {"AutoExportPolicy": {"Events": ["NEW"]}}
    template = changed(hot(), "Resources", "Link", "Properties", "S3", to=events)
    return running.deploy(template, f"m-{abs(hash(request.node.name))}").physical_ids["Fs"]


def query(name: str, file_system: str, stat: str = "Sum", period: int = 60, **dimensions: str) -> dict[str, Any]:
    given = {"FileSystemId": file_system, **dimensions}
    metric = {
        "Namespace": "AWS/FSx",
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in given.items()],
    }
    return {"Id": name.lower(), "MetricStat": {"Metric": metric, "Period": period, "Stat": stat}}


def ask(aws: Emulator, *queries: dict[str, Any], back: float = 3600, on: float = 300) -> list[dict[float, float]]:
    now = aws.now()
    answer = aws.client("cloudwatch").get_metric_data(
        MetricDataQueries=list(queries),
        StartTime=datetime.fromtimestamp(now - back, tz=UTC),
        EndTime=datetime.fromtimestamp(now + on, tz=UTC),
        ScanBy="TimestampAscending",
    )
    return [
        {moment.timestamp(): value for moment, value in zip(each["Timestamps"], each["Values"], strict=True)}
        for each in answer["MetricDataResults"]
    ]


def test_zeros_from_the_creation_until_the_last_whole_minute(running: Emulator, file_system: str) -> None:
    created = running.now()
    assert ask(running, query("DataWriteBytes", file_system)) == [{}]
    running.advance(180)
    (found,) = ask(running, query("DataWriteBytes", file_system))
    assert list(found.values()) == [0.0] * 3
    assert min(found) == created // 60 * 60
    assert max(found) + 60 <= running.now()


def test_minutes_that_are_not_over(running: Emulator, file_system: str) -> None:
    running.metrics_lag = -120
    try:
        (found,) = ask(running, query("ClientConnections", file_system, "Maximum"))
        assert max(found) + 60 > running.now()
    finally:
        running.metrics_lag = 0.0


def test_what_was_recorded_shows_in_its_period(running: Emulator, file_system: str) -> None:
    at = running.now() - 600
    for size in (1000, 500):
        running.record_io(file_system, write_bytes=size, connections=3, at=at)
    writes, clients = ask(
        running,
        query("DataWriteBytes", file_system),
        query("ClientConnections", file_system, "Maximum", period=300),
    )
    assert writes[at // 60 * 60] == 1500
    assert sum(writes.values()) == 1500
    assert clients[at // 300 * 300] == 3
    (mean,) = ask(running, query("DataWriteBytes", file_system, "Average", period=3600), back=7200)
    assert 0 < max(mean.values()) < 1500


def test_statistics_say_the_same(running: Emulator, file_system: str) -> None:
    at = running.now() - 600
    running.record_io(file_system, write_bytes=7, at=at)
    points = running.client("cloudwatch").get_metric_statistics(
        Namespace="AWS/FSx",
        MetricName="DataWriteBytes",
        Dimensions=[{"Name": "FileSystemId", "Value": file_system}],
        StartTime=datetime.fromtimestamp(at - 60, tz=UTC),
        EndTime=datetime.fromtimestamp(at + 60, tz=UTC),
        Period=60,
        Statistics=["Sum", "Maximum"],
    )["Datapoints"]
    assert (7.0, 7.0) in [(point["Sum"], point["Maximum"]) for point in points]


def test_the_queue_grows_old_until_it_is_settled(running: Emulator, file_system: str) -> None:
    age = query("AgeOfOldestQueuedMessage", file_system, "Maximum", Publisher="AutoExport")
    running.file_system(file_system).write("datasets/new", b"x")
    running.advance(300)
    (found,) = ask(running, age)
    assert list(found.values()) == sorted(found.values())
    assert found[max(found)] > 240
    running.settle(file_system)
    assert set(ask(running, age)[0].values()) == {0.0}
    assert ask(running, query("AgeOfOldestQueuedMessage", file_system, Publisher="AutoImport")) == [{}]


def test_space_is_what_the_files_leave(running: Emulator, file_system: str) -> None:
    running.file_system(file_system).write("scratch/x", b"x" * 8192)
    running.advance(120)
    (found,) = ask(running, query("FreeDataStorageCapacity", file_system, "Minimum"))
    assert set(found.values()) == {4800 * 1024**3 - 8192}


def test_beside_other_metrics_and_expressions(running: Emulator, file_system: str) -> None:
    running.client("cloudwatch").put_metric_data(Namespace="Own", MetricData=[{"MetricName": "Loss", "Value": 2}])
    running.record_io(file_system, write_bytes=9, at=running.now() - 120)
    own = {
        "Id": "own",
        "MetricStat": {"Metric": {"Namespace": "Own", "MetricName": "Loss"}, "Period": 60, "Stat": "Sum"},
    }
    both = ask(
        running,
        own,
        {**query("DataWriteBytes", file_system), "ReturnData": False},
        {"Id": "same", "Expression": "datawritebytes"},
        back=86400,
    )
    assert [2.0 in both[0].values(), 9.0 in both[1].values(), len(both)] == [True, True, 2]


def test_metrics_end_with_their_file_system(running: Emulator) -> None:
    with emulator() as aws:
        file_system = aws.deploy(hot(), "hot").physical_ids["Fs"]
        aws.record_io(file_system, write_bytes=5, at=aws.now() - 120)
        aws.destroy("hot")
        aws.advance(3600)
        (found,) = ask(aws, query("DataWriteBytes", file_system), back=7200)
        assert sum(found.values()) == 5
        assert max(found) < aws.now() - 3000


def test_new_objects_know_the_time_that_passed(running: Emulator) -> None:
    running.advance(86_400)
    assert running.now() > time.time() + 86_000
    s3 = running.client("s3")
    s3.create_bucket(Bucket="old-and-new")
    s3.put_object(Bucket="old-and-new", Key="a", Body=b"")
    written = s3.head_object(Bucket="old-and-new", Key="a")["LastModified"].timestamp()
    assert written == pytest.approx(running.now(), abs=10)
