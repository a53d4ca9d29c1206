"""``training-storage release`` as it is typed: what is printed, what is asked, and the exit code."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from rich.console import Console

from tests.unit._release import RELEASED, World
from training_storage.cli.app import main
from training_storage.cli.render_release import Progress
from training_storage.operations import aws
from training_storage.operations.release import release
from training_storage.operations.release_abandon import abandon
from training_storage.operations.release_execution import Look

LEFT = {"datasets": {"files": 7, "bytes": 2_000_000, "why": "came from S3"}, "scratch": {"files": 1, "bytes": 5}}
PROVEN = {
    "status": "done",
    "step": "storage-node-off",
    "proof": {
        "kind": "proof", "workload": "run", "hot_tier_id": "fs-1", "valid_from": 1_800_000_000.0, "files": 1200,
        "bytes": 3_400_000_000_000, "left": LEFT, "tasks": ["task-1"],
    },
}  # fmt: skip


class Session:
    region_name = "us-east-1"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(prove=PROVEN, release=RELEASED)
    monkeypatch.setattr(aws, "make_session", lambda *_: Session())
    monkeypatch.setattr(aws, "clients", lambda _: made)
    for function in (release, abandon):
        monkeypatch.setitem(function.__kwdefaults__ or {}, "poll_s", 0.0)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return made


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(text))


def test_the_proof_is_shown_and_the_name_is_typed(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "run\n")
    assert main(["release", "run"]) == 0
    told = capsys.readouterr()
    assert (
        told.out
        == """\
Proof of run, hot tier fs-1
  in S3            1,200 files, 3.4 TB, compared object by object
  unchanged since  2027-01-15 08:00:00 UTC
  exported by      task-1
  left behind      datasets: 7 files, 2.0 MB, came from S3
                   scratch: 1 file, 5 B
  goes             run-monitoring
                   run-compute
                   run-hot
  stays            the data lake s3://lake/ and everything in it
run: released
  run is released
  deleted  run-monitoring
  deleted  run-compute
  deleted  run-hot
  stays    the data lake s3://lake/, run-lake, and run-network if it is there
"""
    )
    assert "export: FSx exports what is not in S3; task-1 has done 4 of 10 files" in told.err
    assert "Type run to release it" in told.err


def test_what_is_removed_from_directory_buckets_is_said_before_anybody_is_asked(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    removes = {"run": "r", "parts": 2, "objects": 1_234, "bytes": 5_000_000, "digest": "0", "buckets": ["a--x-s3", "b"]}
    proof = {**PROVEN["proof"], "removes": removes}  # type: ignore[dict-item]  # a proof is a dictionary
    world.machine.ends["prove"] = {**PROVEN, "proof": proof}
    typed(monkeypatch, "no\n")
    assert main(["release", "run"]) == 1
    told = capsys.readouterr().out
    what = "1,234 objects, 5.0 MB, in 2 directory buckets, after the fleet is gone: a--x-s3, b"
    assert f"  then removed     {what}\n" in told
    assert told.index("then removed") < told.index("goes  ")


@pytest.mark.parametrize("text", ["yes\n", "\n", "", "Run\n"])
def test_anything_else_keeps_it(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    typed(monkeypatch, text)
    assert main(["release", "run"]) == 1
    assert "nothing was deleted" in capsys.readouterr().err
    assert [each["action"] for each in world.machine.started] == ["prove"]


def test_without_a_terminal_the_proof_is_printed_and_nothing_deleted(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["release", "run"]) == 1
    told = capsys.readouterr()
    assert "1,200 files" in told.out
    assert "without a terminal" in told.err
    assert "--yes" in told.err
    assert [each["action"] for each in world.machine.started] == ["prove"]


def test_yes_asks_nobody(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "run", "--yes"]) == 0
    assert "Type" not in capsys.readouterr().err


def test_json_is_one_object_with_every_key(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "run", "--yes", "--format", "json"]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert list(found) == [
        "workload", "region", "outcome", "execution", "joined", "hot_tier_id", "message", "refused", "blocking",
        "found", "stacks", "kept", "proof",
    ]  # fmt: skip
    assert (found["outcome"], found["stacks"]) == ("released", ["run-monitoring", "run-compute", "run-hot"])
    assert told.err == ""


def test_json_without_yes_has_the_proof_and_says_no(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "run", "--format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["outcome"], found["proof"]["files"]) == ("not-confirmed", 1200)


def test_a_refusal_says_what_blocks_and_ends_with_one(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.machine.ends["prove"] = {
        "status": "refused",
        "step": "survey",
        "refused": "not all",
        "blocking": ["/a", "/b"],
    }
    assert main(["release", "run", "--yes"]) == 1
    assert capsys.readouterr().out.splitlines()[1:] == ["  not all", "  blocks: /a", "  blocks: /b"]
    world.machine.ends["check"] = {"status": "refused", "action": "check", "step": "survey", "refused": "not all"}
    assert main(["release", "run", "--dry-run"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == "run: refused, and nothing was deleted"


def test_a_dry_run_says_what_it_found(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.machine.ends["check"] = {
        "status": "done", "step": "survey", "message": "3 files", "found": {"keep": {"files": 3, "bytes": 9}},
    }  # fmt: skip
    assert main(["release", "run", "--dry-run"]) == 0
    assert (
        capsys.readouterr().out
        == """\
run: nothing stands in the way of a release; nothing was changed
  keep             3 files, 9 B
  3 files
"""
    )


def test_abandoning_says_what_is_lost_and_wants_the_name(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "run\n")
    assert main(["release", "run", "--abandon", "a test"]) == 0
    out = capsys.readouterr().out
    assert "Nothing proves that hot tier fs-1 of run is in S3." in out
    assert "unknown: no agent of its nodes has ever reported" in out
    assert "run: deleted without a proof" in out


def test_abandoning_without_a_terminal_deletes_nothing(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "run", "--abandon", "a test"]) == 1
    assert world.fake.cloudformation.deleted == []


def test_an_unknown_workload_ends_with_one(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["release", "other"]) == 1
    assert "no stack of a workload 'other'" in capsys.readouterr().err


def test_aws_that_fails_ends_with_three(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.machine.ends["prove"] = {"error": "States.Timeout", "cause": "", "status": ""}
    assert main(["release", "run", "--yes"]) == 3
    assert "run the same command again" in capsys.readouterr().err


def test_nodes_that_run_are_named_before_anybody_is_asked(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A job between two saves writes nothing: to the proof it looks like one that has ended."""
    world.machine.ends["prove"] = {**PROVEN, "running": 4}
    assert main(["release", "run"]) == 1
    assert "with 4 nodes of the fleet that run now" in capsys.readouterr().out
    world.machine.ends["prove"] = {**PROVEN, "running": 0}
    assert main(["release", "run"]) == 1
    assert "that run now" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [["--abandon", " "], ["--abandon", "x", "--dry-run"], ["--abandon", "x", "--leave", "/a"], ["--leave", "a"], []],
)
def test_bad_usage_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    given: list[Any] = ["release", "run", *arguments] if arguments else ["release"]
    assert main(given) == 2


def test_what_lies_in_a_directory_bucket_is_left_by_its_address(world: World) -> None:
    assert main(["release", "run", "--dry-run", "--leave", "s3://hot--use1-az6--x-s3/a"]) == 0
    assert world.machine.started[0]["leave"] == ["s3://hot--use1-az6--x-s3/a"]


def test_brackets_in_what_it_waits_for_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rich takes them for markup, and one that closes what was not opened ends the command."""
    seen = io.StringIO()
    console = Console(file=seen, force_terminal=True, width=200)
    monkeypatch.setattr("rich.console.Console", lambda **_: console)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress("run", quiet=False) as progress:
        progress.look(Look(step="survey", waiting=True, message="/fsx/[/a] cannot be read"))
    assert "/fsx/[/a] cannot be read" in seen.getvalue()


def test_an_interrupt_says_that_the_release_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.machine, "get_execution_history", interrupted)
    assert main(["release", "run", "--yes"]) == 130
    assert "the same command joins it again" in capsys.readouterr().err
