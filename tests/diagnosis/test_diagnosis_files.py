"""``diagnose --file``: records of telemetry and saved observations, whole, garbled, mixed and cut off."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.diagnosis.causes import observed
from tests.diagnosis.world import World
from training_storage.cli import main
from training_storage.cli.render_diagnosis import as_text
from training_storage.errors import ValidationError
from training_storage.node import emf
from training_storage.operations.diagnosis.diagnose import diagnose
from training_storage.operations.diagnosis.from_records import observe_records, read_records
from training_storage.operations.diagnosis.saved import from_dict, read_expected, to_dict, to_text

BEGIN = 1_800_000_000.0


def record(values: dict[str, Any], at: float, workload: str = "w", **more: str) -> str:
    return emf.line(emf.record(values, {"Workload": workload, **more}, timestamp_s=BEGIN + at)).decode()


def of_rank(rank: int, at: float, **values: Any) -> str:
    return record(values, at, Run="r1", InstanceId=f"i-{rank // 2}", Rank=str(rank))


def test_records_are_folded_by_minute_and_dimensions() -> None:
    lines = [
        of_rank(rank, minute * 60 + 30, ElapsedTime=60.0, DataWaitTime=6.0 * rank, StepTime=[1.0, 3.0])
        for rank in range(4)
        for minute in range(10)
    ]
    seen = observe_records(read_records(lines))
    assert (seen.workload, seen.period_s, seen.since, seen.until) == ("w", 60.0, BEGIN, BEGIN + 570)
    fleet = seen.one("ElapsedTime", "Workload")
    assert fleet is not None
    assert fleet.points == tuple((BEGIN + 60.0 * (minute + 1), 240.0) for minute in range(10))
    nodes = seen.all("DataWaitTime", "Workload", "InstanceId")
    assert [each.values[0] for each in nodes] == [6.0, 30.0]
    assert len(seen.all("DataWaitTime", "Workload", "Run", "InstanceId", "Rank")) == 4
    steps = seen.one("StepTime", "Workload")
    assert steps is not None
    assert steps.values == (2.0,) * 10


def test_statistics_are_those_of_the_table() -> None:
    lines = [of_rank(rank, 30, CheckpointSaveTime=10.0 + rank, LoaderQueueEmptyShare=20.0 * rank) for rank in range(4)]
    seen = observe_records(read_records(lines))
    slowest, empty = seen.one("CheckpointSaveTime", "Workload"), seen.one("LoaderQueueEmptyShare", "Workload")
    assert slowest is not None
    assert empty is not None
    assert (slowest.statistic, slowest.values) == ("Maximum", (13.0,))
    assert (empty.statistic, empty.values) == ("Average", (30.0,))


def test_short_runs_have_periods_of_their_own_interval() -> None:
    jitter = random.Random(4)
    lines = [of_rank(0, n * 0.5 + jitter.uniform(-0.1, 0.1), ElapsedTime=0.5, DataWaitTime=0.1) for n in range(20)]
    seen = observe_records(read_records(lines))
    assert seen.period_s == pytest.approx(0.5, rel=0.1)
    fleet = seen.one("ElapsedTime", "Workload")
    assert fleet is not None
    assert fleet.total == pytest.approx(10.0)
    assert len(fleet.points) >= 18


@pytest.mark.parametrize("per_rank", [True, False])
def test_ranks_that_write_at_other_moments_have_one_period(per_rank: bool) -> None:
    lines = []
    for rank in range(8):
        for number in range(12):
            whole = of_rank(rank, number * 0.5 + rank * 0.01, ElapsedTime=0.5, DataWaitTime=0.1)
            if not per_rank:  # as with one set of dimensions less, for fleets of many ranks
                found = json.loads(whole)
                sets = found["_aws"]["CloudWatchMetrics"][0]
                sets["Dimensions"] = [each for each in sets["Dimensions"] if "Rank" not in each]
                whole = json.dumps(found)
            lines.append(whole)
    seen = observe_records(read_records(lines))
    assert seen.period_s == pytest.approx(0.5)
    fleet = seen.one("ElapsedTime", "Workload")
    assert fleet is not None
    assert fleet.values == pytest.approx((4.0,) * 12)


def test_a_record_within_a_line_of_a_log_counts_and_the_rest_is_skipped() -> None:
    whole = of_rank(0, 30, ElapsedTime=60.0)
    lines = [
        "step 12 loss 0.3",
        "",
        f"rank0: {whole}",
        whole[: len(whole) // 2],
        '{"_aws": 3}',
        '{"_aws": {"Timestamp": "soon", "CloudWatchMetrics": []}}',
        '{"_aws": {"Timestamp": NaN, "CloudWatchMetrics": []}}',
        whole.replace("TrainingStorage", "Other"),
        "[" * 100_000 + '"_aws"{',
        '{"_aws": ' + "[" * 100_000,
    ]
    read = read_records(lines)
    assert (read.records, read.skipped) == (2, 7)  # one of another namespace is a record with nothing for us
    assert {each.metric for each in read.samples} == {"ElapsedTime"}


def test_values_and_dimensions_that_are_none_of_ours_are_left_out() -> None:
    found = json.loads(of_rank(0, 30, ElapsedTime=60.0, StepTime=[1.0, 2.0]))
    directive = found["_aws"]["CloudWatchMetrics"][0]
    directive["Dimensions"] += [["Workload", "Colour"], ["Missing"]]
    directive["Metrics"] += [{"Name": "Invented"}, {"Name": "DataWaitTime"}]
    found |= {"Colour": "red", "Invented": 5, "DataWaitTime": "much", "StepTime": [1.0, "x", True, None]}
    read = read_records([json.dumps(found)])
    assert {(each.metric, each.values) for each in read.samples} >= {("ElapsedTime", (60.0,)), ("StepTime", (1.0,))}
    assert not any("Colour" in each.dimensions or each.metric == "Invented" for each in read.samples)


def test_garbled_lines_never_break_it() -> None:
    chance = random.Random(7)
    whole = of_rank(0, 30, ElapsedTime=60.0, StepTime=[1.0, 2.0], DataWaitTime=3.0)
    for _ in range(300):
        text = list(whole)
        for _ in range(chance.randint(1, 6)):
            text[chance.randrange(len(text))] = chance.choice('{}[]",:0e9 nul\\x')
        read_records(["".join(text)])


def test_records_of_several_workloads_want_a_name() -> None:
    lines = [record({"FileOpens": 1.0}, 30, each, InstanceId="i-1") for each in ("a", "b")]
    with pytest.raises(ValidationError, match="several workloads: a, b"):
        observe_records(read_records(lines))
    assert observe_records(read_records(lines), workload="b").workload == "b"
    with pytest.raises(ValidationError, match="no record is of this workload; got 'c'; allowed: a, b"):
        observe_records(read_records(lines), workload="c")


@pytest.mark.parametrize("name", ["hot target", "no notification", "page cache"])
def test_what_is_saved_is_what_was_seen(name: str) -> None:
    seen = observed(name, "strong")
    again = from_dict(json.loads(to_text(seen)))
    assert to_dict(again) == to_dict(seen)
    assert diagnose(again).to_dict() == diagnose(seen).to_dict()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("version", 2, "version of the observation is not known; got 2"),
        ("since", "today", "since, until and period_s"),
        ("period_s", 0, "longer than 0 s"),
        ("until", 0, "not before the begin"),
        ("series", [{"metric": "ElapsedTime"}], r"series\[0\]: .*'statistic' is missing"),
        ("series", [{"metric": "X", "statistic": "Sum", "dimensions": {}, "points": []}], "in no table"),
        ("series", [{"metric": "Steps", "statistic": "p99", "dimensions": {}, "points": []}], "allowed: Sum"),
        ("series", [{"metric": "Steps", "statistic": "Sum", "dimensions": {}, "points": [[1]]}], r"series\[0\]"),
        ("series", [{"metric": "Steps", "statistic": "Sum", "dimensions": {}, "points": [[1, None]]}], "finite"),
        ("series", 3, "unknown|series"),
        ("expected", {"region": "x"}, "'workload' is missing"),
        ("expected", {"workload": "x", "servers": "eight"}, "servers is 'eight'"),
        ("facts", {"associations": ["x"]}, "no list of objects"),
        ("facts", {"bucket_notification": {"b": 3}}, "no object for each"),
        ("facts", {"file_system": 3}, "file_system is no object"),
        ("facts", [1], "facts"),
    ],
)
def test_an_observation_that_is_wrong_is_refused_by_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: Any, says: str
) -> None:
    given = to_dict(World(nodes=1, ranks=1, periods=1).observation()) | {field: value}
    with pytest.raises(ValidationError, match=says):
        from_dict(given)
    path = tmp_path / "seen.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    assert main(["diagnose", "--file", str(path)]) == 2
    assert "observation" in capsys.readouterr().err


def test_the_command_on_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seen.json"
    path.write_text(to_text(observed("hot target", "strong")), encoding="utf-8")
    assert main(["diagnose", "--file", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "llama: many nodes read the same files, and one storage target holds them"
    assert lines[1] == "  hot-storage-target, confidence high"
    assert any(line.startswith("  next step") for line in lines)
    assert any("USD an hour" in line for line in lines)
    assert main(["diagnose", "other", "--file", str(path)]) == 2
    assert "is an observation of llama, not of other" in " ".join(capsys.readouterr().err.split())
    path.write_text("nothing\nof ours\n", encoding="utf-8")
    assert main(["diagnose", "--file", str(path)]) == 2
    # A long path may break the line.
    said = " ".join(capsys.readouterr().err.split())
    assert f"{path}: 1 problem no line is a record of ours (of 2)" in said
    path.write_text("", encoding="utf-8")
    assert main(["diagnose", "--file", str(path)]) == 2
    assert f"{path}: 1 problem is empty" in " ".join(capsys.readouterr().err.split())
    for wrong in (
        ["diagnose"],
        ["diagnose", "--file", str(tmp_path / "none")],
        ["diagnose", "--file", str(path), "--since", "1h"],
        ["diagnose", "--file", ""],
    ):
        assert main(wrong) == 2, wrong


def test_a_workload_file_says_what_to_expect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = Path(__file__).resolve().parents[2] / "examples" / "llama3-70b.yaml"
    path = tmp_path / "seen.json"
    path.write_text(to_text(replace(observed("busy CPUs", "strong"), expected=None)), encoding="utf-8")
    assert main(["diagnose", "--file", str(path), "--workload", str(example), "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "preprocessing"
    assert told["finding"]["gain_usd_per_hour"] > 0


# -- what a file can hold and nobody expects


def answer(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["diagnose", "--file", str(path)])
    told = capsys.readouterr()
    return code, told.out + told.err


def test_packed_and_marked_files_are_read_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = to_text(observed("busy CPUs", "strong")).encode()
    for name, raw in (("seen.json.gz", gzip.compress(text)), ("marked.json", b"\xef\xbb\xbf" + text)):
        (tmp_path / name).write_bytes(raw)
        code, said = answer(tmp_path / name, capsys)
        assert code == 1
        assert "preprocessing" in said
    for name, raw in (("cut.gz", gzip.compress(text)[:99]), ("none.gz", b"\x1f\x8b and text"), ("empty", b"")):
        (tmp_path / name).write_bytes(raw)
        assert answer(tmp_path / name, capsys)[0] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"since": 1e18, "until": 1e18},
        {"since": -5.0},
        {"series": [{"metric": "Steps", "dimensions": {}, "statistic": "Sum", "points": [[1, 10**400]]}]},
        {"series": [{"metric": "Steps", "dimensions": {}, "statistic": "Sum", "points": [[1, 1e300]]}]},
        {"expected": {"workload": "w", "paths": {"datasets": 3}}},
        {"expected": {"workload": "w", "gpu_usd_per_hour": float("nan")}},
        {"expected": {"workload": "w", "supply_mb_per_s": -1}},
        {"facts": {"associations": [{"import": [1], "bucket": "b"}]}},
        {"facts": {"associations": [{"import": ["NEW"], "bucket": ["b"]}]}},
        {"facts": {"associations": None}},
        {"facts": {"bucket_notification": {"b": {"ids": [1]}}}},
    ],
)
def test_values_that_no_metric_has_are_bad_input(
    change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "seen.json"
    path.write_text(json.dumps({**to_dict(World(nodes=1, periods=2).observation()), **change}))
    code, said = answer(path, capsys)
    assert code == 2, said
    assert "cannot be read" in said


def test_records_of_no_time_or_size_are_none_and_the_others_count(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = [of_rank(0, at, ElapsedTime=60.0, DataWaitTime=1.0) for at in range(30, 330, 60)]
    nanoseconds = fine[0].replace(str(int(BEGIN * 1000 + 30_000)), "1800000000000000000000")
    huge = fine[0].replace("60.0", "9" * 400)
    assert nanoseconds != fine[0] != huge
    path = tmp_path / "metrics.log"
    path.write_text("".join([nanoseconds, *fine, huge]))
    code, said = answer(path, capsys)
    assert code == 0
    assert "1 lines of the file are no records" in said


def test_a_plan_of_which_hardly_anything_is_known_breaks_nothing() -> None:
    thin = read_expected({"workload": "llama"})
    for name in ("busy CPUs", "file system at its limit", "small files", "tcp", "slow saves"):
        seen = observed(name, "strong")
        json.dumps(diagnose(replace(seen, expected=thin)).to_dict(), allow_nan=False)
    assert diagnose(replace(observed("small files", "strong"), expected=thin)).verdict == "small-files"


def test_commands_in_a_narrow_terminal_stay_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    seen = World(nodes=3, notified=False, cpu_limit=300.0, export_age_s=9000.0, export_grows=True).observation()
    text = as_text(diagnose(seen), seen)
    assert "data-\n" not in text
    assert "training-\n" not in text
    assert "update-data-repository-association" in text
