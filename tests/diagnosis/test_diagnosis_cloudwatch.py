"""``diagnose NAME``: CloudWatch is asked in pages and batches, and gives the verdict of the same series offline.

What cannot be asked is named.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    PartialCredentialsError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from tests.diagnosis.causes import CAUSES
from tests.diagnosis.test_status import Cloud
from tests.diagnosis.world import FS, NAME, PERIOD_S, START, World
from training_storage.cli import main
from training_storage.errors import AwsError, RefusedError, ValidationError
from training_storage.node.metrics import OURS, SERVICES
from training_storage.operations import aws as operations_aws
from training_storage.operations.diagnosis import from_cloudwatch
from training_storage.operations.diagnosis.diagnose import UNKNOWN, diagnose
from training_storage.operations.diagnosis.folding import Sample, end_of_period, fold
from training_storage.operations.diagnosis.from_cloudwatch import BATCH, DATAPOINTS, observe, period_of
from training_storage.operations.diagnosis.observation import Observation
from training_storage.operations.questions import Unanswered, ask


def metric_of(sample: Sample) -> tuple[str, dict[str, Any]]:
    known = OURS.get(sample.metric) or SERVICES[sample.metric]
    return known.namespace, {
        "MetricName": known.name,
        "Dimensions": [{"Name": name, "Value": value} for name, value in sample.dimensions.items()],
    }


class CloudWatch:
    """CloudWatch with small pages, which keeps its own rules."""

    def __init__(self, world: World) -> None:
        self.samples = list(world.samples())
        self.periods = world.periods
        self.calls: list[str] = []
        self.folded: dict[float, dict[Any, tuple[tuple[float, float], ...]]] = {}

    def list_metrics(self, *, Namespace: str, NextToken: str = "0", **given: Any) -> dict[str, Any]:
        self.calls.append("list")
        wanted = {each["Name"]: each["Value"] for each in given["Dimensions"]}
        of_one = self.samples[: len(self.samples) // self.periods]  # each period has the same metrics, but for saves
        found = {
            json.dumps(metric, sort_keys=True)
            for each in of_one
            for namespace, metric in (metric_of(each),)
            if namespace == Namespace
            and given.get("MetricName", metric["MetricName"]) == metric["MetricName"]
            and wanted.items() <= dict(each.dimensions).items()
        }
        page, at = [json.loads(each) for each in sorted(found)], int(NextToken)
        return {"Metrics": page[at : at + 7], **({"NextToken": str(at + 7)} if at + 7 < len(page) else {})}

    def get_metric_data(
        self, *, MetricDataQueries: list[dict[str, Any]], NextToken: str = "0", **given: Any
    ) -> dict[str, Any]:
        self.calls.append("get")
        period = MetricDataQueries[0]["MetricStat"]["Period"]
        begin, end = given["StartTime"].timestamp(), given["EndTime"].timestamp()
        assert len(MetricDataQueries) <= BATCH
        assert len(MetricDataQueries) * (end - begin) / period <= DATAPOINTS
        assert len({each["Id"] for each in MetricDataQueries}) == len(MetricDataQueries)
        if period not in self.folded:
            self.folded[period] = {
                (each.metric, tuple(sorted(each.dimensions.items())), each.statistic): each.points
                for each in fold(self.samples, end_of_period(period))
            }
        at = int(NextToken)
        results = []
        for query in MetricDataQueries[at : at + 50]:
            stat = query["MetricStat"]
            of = tuple(sorted((each["Name"], each["Value"]) for each in stat["Metric"]["Dimensions"]))
            name, space = stat["Metric"]["MetricName"], stat["Metric"]["Namespace"]
            key = name if space == "TrainingStorage" else f"{space} {name}"
            points = [
                point for point in self.folded[period].get((key, of, stat["Stat"]), ()) if begin < point[0] <= end
            ]
            results.append(
                {
                    "Id": query["Id"],
                    "Timestamps": [datetime.fromtimestamp(moment - period, UTC) for moment, _ in points],
                    "Values": [value for _, value in points],
                    "StatusCode": "Complete",
                }
            )
        more = {"NextToken": str(at + 50)} if at + 50 < len(MetricDataQueries) else {}
        return {"MetricDataResults": results, "Messages": [], **more}


class Deployed(Cloud):
    """A run whose CloudWatch has the series of a world."""

    def __init__(self, folder: Path, world: World, cloudwatch: Any = None) -> None:
        super().__init__(folder)
        self.world = world
        self.fsx.systems[FS] = self.fsx.systems.pop(self.system) | {
            "FileSystemId": FS, "StorageCapacity": 9600, "LustreConfiguration": {"PerUnitStorageThroughput": 250},
        }  # fmt: skip
        self.fsx.links[0] |= {
            "FileSystemId": FS, "S3": {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}},
        }  # fmt: skip
        self.cloudformation.stacks[f"{NAME}-hot"]["Outputs"] = [{"OutputKey": "FileSystemId", "OutputValue": FS}]
        self._clients["cloudwatch"] = cloudwatch or CloudWatch(world)
        ids = [{"Id": "FSx"}] if world.notified else [{"Id": "mine"}]
        self.s3.get_bucket_notification_configuration = lambda **_given: {"TopicConfigurations": ids}  # type: ignore[attr-defined]  # the fake has none

    def _parameter(self, *, Name: str) -> dict[str, Any]:
        told = {key: value for key, value in self.world.expected().to_dict().items() if value is not None}
        return {"Parameter": {"Value": json.dumps(told)}}

    def observe(self) -> Observation:
        end = START + self.world.periods * PERIOD_S
        return observe(self, NAME, START, end, now=end + 120)


WORLDS = ("hot target", "busy CPUs", "no notification", "slow node")


@pytest.mark.parametrize("name", WORLDS)
def test_the_verdict_is_that_of_the_same_series_offline(tmp_path: Path, name: str) -> None:
    world = replace(World(periods=12), **CAUSES[name][2])
    seen = Deployed(tmp_path, world).observe()
    offline = world.observation()
    assert seen.unknown == ()
    assert {(each.metric, tuple(sorted(each.dimensions.items())), each.statistic) for each in seen.series} == {
        (each.metric, tuple(sorted(each.dimensions.items())), each.statistic) for each in offline.series
    }
    found, wanted = diagnose(seen), diagnose(offline)
    assert found.verdict == wanted.verdict == CAUSES[name][0]
    assert found.primary is not None
    assert wanted.primary is not None
    assert [each.observed for each in found.primary.evidence if isinstance(each.observed, float)] == pytest.approx(
        [each.observed for each in wanted.primary.evidence if isinstance(each.observed, float)]
    )


def test_moto_has_the_same_metrics(tmp_path: Path) -> None:
    """Through a service that keeps what was put: names, dimensions, statistics and periods are those of CloudWatch."""
    import boto3
    from moto import mock_aws

    world = World(nodes=3, ranks=1, periods=6, save_every=20, demand=1000, cpu_limit=4000, requests=32, hot_target=0.6)
    with mock_aws():
        session = boto3.session.Session("x", "x", region_name="us-east-1")
        client: Any = session.client("cloudwatch")
        by_namespace: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for each in world.samples():
            namespace, metric = metric_of(each)
            moment = datetime.fromtimestamp(each.moment, UTC)
            by_namespace[namespace] += [{**metric, "Timestamp": moment, "Value": value} for value in each.values]
        for namespace, data in by_namespace.items():
            for at in range(0, len(data), 500):
                client.put_metric_data(Namespace=namespace, MetricData=data[at : at + 500])
        seen = Deployed(tmp_path, world, client).observe()
    found = diagnose(seen)
    assert seen.unknown == ()
    assert found.verdict == diagnose(world.observation()).verdict == "hot-storage-target"


def test_more_series_than_a_batch_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_cloudwatch, "BATCH", 20)
    world = replace(World(periods=6), **CAUSES["busy CPUs"][2])
    cloud = Deployed(tmp_path, world)
    seen = cloud.observe()
    assert len(seen.series) == len(world.observation().series)
    assert cloud("cloudwatch").calls.count("get") > 5
    monkeypatch.setattr(from_cloudwatch, "MOST_SERIES", 60)
    cut = cloud.observe()
    assert len(cut.series) <= 60
    assert "series of ranks and nodes" in " ".join(cut.unknown)


@pytest.mark.parametrize("code", ["AccessDenied", "Throttling"])
@pytest.mark.parametrize(
    ("service", "call", "says", "verdict"),
    [
        ("fsx", "describe_file_systems", "fsx:DescribeFileSystems", "hot-storage-target"),
        ("fsx", "describe_data_repository_associations", "fsx:DescribeDataRepositoryAssoc", "hot-storage-target"),
        ("fsx", "describe_data_repository_tasks", "fsx:DescribeDataRepositoryTasks", "hot-storage-target"),
        ("s3", "get_bucket_notification_configuration", "s3:GetBucketNotification", "hot-storage-target"),
        ("ssm", "get_parameter", "ssm:GetParameter", "hot-storage-target"),
        ("cloudwatch", "list_metrics", "cloudwatch:ListMetrics", "hot-storage-target"),
        ("cloudwatch", "get_metric_data", "cloudwatch:GetMetricData", UNKNOWN),
        ("cloudformation", "describe_stacks", "cloudformation:DescribeStacks", None),
    ],
)
def test_what_is_denied_or_throttled_is_named(
    tmp_path: Path, service: str, call: str, says: str, verdict: str | None, code: str
) -> None:
    cloud = Deployed(tmp_path, replace(World(periods=6), **CAUSES["hot target"][2]))
    cloud.refused = {service: {call: code}}
    seen = cloud.observe()
    assert any(says in each for each in seen.unknown), seen.unknown
    assert verdict is None or diagnose(seen).verdict == verdict


def test_whom_aws_does_not_know_learns_that_at_once(tmp_path: Path) -> None:
    cloud = Deployed(tmp_path, World(periods=2))
    cloud.refused = {"cloudformation": {"*": "ExpiredToken"}}
    with pytest.raises(AwsError, match="sign in again"):
        cloud.observe()


@pytest.mark.parametrize(
    "error",
    [
        *(
            ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeStacks")
            for code in ("RequestExpired", "RequestTimeTooSkewed", "InvalidAccessKeyId", "IncompleteSignature")
        ),
        UnauthorizedSSOTokenError(),
        TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"),
        PartialCredentialsError(provider="env", cred_var="AWS_SECRET_ACCESS_KEY"),
    ],
    ids=lambda error: error.response["Error"]["Code"] if isinstance(error, ClientError) else type(error).__name__,
)
def test_a_sign_in_that_has_ended_and_a_clock_that_is_wrong_are_no_answer(error: Exception) -> None:
    def question() -> None:
        raise error

    with pytest.raises(AwsError):
        ask("cloudformation:DescribeStacks", question)
    with pytest.raises(Unanswered):
        ask("cloudformation:DescribeStacks", lambda: (_ for _ in ()).throw(EndpointConnectionError(endpoint_url="x")))


def test_a_garbled_parameter_is_not_known(tmp_path: Path) -> None:
    cloud = Deployed(tmp_path, World(periods=2))
    for text in ("{", "[]", '{"workload": "llama", "servers": "many"}', "{}"):
        cloud.machines.get_parameter = lambda text=text, **_given: {"Parameter": {"Value": text}}  # type: ignore[attr-defined]  # the fake has none
        assert any(each.startswith("what the plan expects: ") for each in cloud.observe().unknown), text


@pytest.mark.parametrize(
    ("back_h", "long_h", "period_s"), [(1, 1, 60), (24, 24, 60), (48, 47, 300), (24 * 20, 1, 300), (24 * 70, 24, 3600)]
)
def test_periods_are_what_cloudwatch_still_keeps(back_h: float, long_h: float, period_s: float) -> None:
    now = START
    assert period_of(now - back_h * 3600, now - (back_h - long_h) * 3600, now) == period_s


def test_a_time_of_which_nothing_is_kept_is_refused() -> None:
    with pytest.raises(ValidationError, match="455 days"):
        period_of(START - 500 * 86_400, START - 499 * 86_400, START)


class _Session:
    region_name = "us-east-1"


def test_the_command_saves_what_it_saw_and_reads_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "fsx"
    folder.mkdir()
    cloud = Deployed(folder, replace(World(periods=12), **CAUSES["hot target"][2]))
    monkeypatch.setattr(operations_aws, "make_session", lambda *_given: _Session())
    monkeypatch.setattr(operations_aws, "clients", lambda _session: cloud)
    monkeypatch.setattr("time.time", lambda: START + 12 * PERIOD_S)
    saved = tmp_path / "seen.json"
    assert main(["diagnose", NAME, "--since", "12m", "--save", str(saved), "--format", "json"]) == 1
    first = json.loads(capsys.readouterr().out)
    assert first["verdict"] == "hot-storage-target"
    assert first["finding"]["gain_usd_per_hour"] > 0
    assert main(["diagnose", "--file", str(saved), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == first
    assert main(["diagnose", NAME, "--since", "30m", "--until", "40m"]) == 2
    assert main(["diagnose", NAME, "--since", "tomorrow"]) == 2
    assert "no moment" in capsys.readouterr().err


def test_a_name_that_nothing_is_known_of_is_refused(tmp_path: Path) -> None:
    cloud = Deployed(tmp_path, World(periods=2))
    with pytest.raises(RefusedError, match="no stack of a workload 'lama'"):
        observe(cloud, "lama", START, START + 120, now=START + 300)
    cloud.refused = {"cloudformation": {"*": "AccessDenied"}}
    assert observe(cloud, "lama", START, START + 120, now=START + 300).series == ()
