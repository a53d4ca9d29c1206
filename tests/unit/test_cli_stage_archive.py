"""``stage`` and ``archive``: arguments, exit codes, what is printed where."""

from __future__ import annotations

import errno
import io
import json
import sys
from typing import Any

import pytest

from training_storage.cli import main, transfers
from training_storage.cli.transfers import FAILURES_SHOWN
from training_storage.errors import AwsError, RefusedError
from training_storage.operations import transfer as operations
from training_storage.operations.transfer_model import Failure, Options, Report, Route

PLACES = ["--from", "s3://lake/data/", "--to", "s3://hot--use1-az6--x-s3/data/"]


class Called:
    """Stands in for the transfer: keeps what it was asked, and returns or raises what a test wants."""

    def __init__(self) -> None:
        self.report = Report(
            transfer_id="0123", sources=["s3://lake/data/"], destinations=["s3://hot/data/"], complete=True
        )
        self.error: BaseException | None = None
        self.note = ""

    def __call__(self, connection: Any, route: Route, options: Options, *, on_progress: Any, on_note: Any) -> Report:
        self.connection, self.route, self.options = connection, route, options
        if self.note:
            on_note(self.note)
        on_progress(self.report)
        if self.error is not None:
            raise self.error
        return self.report


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Called:
    made = Called()
    monkeypatch.setattr(operations, "transfer", made)
    return made


@pytest.mark.parametrize("command", ["stage", "archive"])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "say what to copy: NAME of a deployed workload, or --from and --to"),
        (["--from", "s3://lake/"], "say what to copy"),
        (["name", *PLACES], "give NAME, or --from and --to, not both"),
        ([*PLACES, "--path", "x/"], "--path goes with NAME"),
        ([*PLACES, "--concurrency", "0"], "no number from 1 to 4096"),
        ([*PLACES, "--concurrency", "many"], "no number from 1 to 4096"),
        ([*PLACES, "--verify", "never"], "invalid choice"),
    ],
)
def test_bad_usage(command: str, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, *arguments]) == 2
    assert text in capsys.readouterr().err


def test_stage_has_no_way_to_remove(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stage", *PLACES, "--remove"]) == 2
    assert "--remove" in capsys.readouterr().err


def test_a_place_that_is_none_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stage", "--from", "lake", "--to", "s3://hot/"]) == 2
    assert "s3://bucket/prefix/" in capsys.readouterr().err


def test_arguments_reach_the_transfer(called: Called) -> None:
    words = ["--verify", "read", "--concurrency", "7", "--dry-run", "--region", "eu-west-1", "--profile", "work"]
    assert main(["archive", *PLACES, *words, "--remove"]) == 0
    assert called.options == Options(verify="read", concurrency=7, dry_run=True, remove=True)
    assert (called.connection.region, called.connection.profile) == ("eu-west-1", "work")
    assert [place.uri for place in called.route.destinations] == ["s3://hot--use1-az6--x-s3/data/"]


def test_nothing_is_removed_unless_it_is_asked(called: Called) -> None:
    main(["archive", *PLACES])
    assert not called.options.remove


@pytest.mark.parametrize(("command", "path"), [("stage", "datasets/"), ("archive", "checkpoints/")])
@pytest.mark.parametrize("given", [None, "other/"])
def test_the_name_of_a_workload_finds_the_way(
    called: Called, command: str, path: str, given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str]] = []

    def route_of(session: Any, name: str, path: str) -> Route:
        asked.append((name, path))
        return Route((), ())

    module = "stage.staging_route" if command == "stage" else "archive.archive_route"
    monkeypatch.setattr(f"training_storage.operations.{module}", route_of)
    assert main([command, "vision", *(["--path", given] if given else [])]) == 0
    assert asked == [("vision", given or path)]


def failures(count: int) -> list[Failure]:
    return [
        Failure(f"s3://lake/data/{number}", "restore it first", "InvalidObjectState", "failed")
        for number in range(count)
    ]


def test_a_clean_transfer_is_0_and_says_how_it_was_verified(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    called.report.listed, called.report.copied, called.report.known = 5, 3, 2
    called.report.proofs = {"checksum": 2, "read": 1}
    assert main(["stage", *PLACES]) == 0
    out = capsys.readouterr().out
    assert "5 of 5 objects verified" in out
    assert "3 copied, 2 verified by an earlier run, 0 there already" in out
    assert "verified 2 by checksum, 1 by reading both sides" in out


@pytest.mark.parametrize("what", ["failed", "unverified", "not_removed"])
def test_anything_left_is_1(called: Called, what: str) -> None:
    setattr(called.report, what, 1)
    assert main(["archive", *PLACES]) == 1


def test_the_first_failures_are_named_and_the_rest_counted(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    called.report.failed, called.report.failures = 1234, failures(1234)
    assert main(["stage", *PLACES]) == 1
    out = capsys.readouterr().out
    assert out.count("restore it first") == FAILURES_SHOWN
    assert "and 1,214 more; --format json names all" in out


def test_json_has_every_count_and_every_failure(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    called.report.failed, called.report.failures = 30, failures(30)
    assert main(["stage", *PLACES, "--format", "json"]) == 1
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["ok"] is False
    assert len(told["failures"]) == 30
    assert told["failures"][0] == {
        "uri": "s3://lake/data/0", "reason": "restore it first", "code": "InvalidObjectState", "kind": "failed",
    }  # fmt: skip
    assert {"transfer_id", "journal", "listed", "copied", "known", "present", "removed", "proofs", "seconds"} <= set(
        told
    )
    assert printed.err == ""


def test_notes_are_said_at_once_on_standard_error(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    called.note = "another run is at work"
    main(["stage", *PLACES])
    assert "note: another run is at work" in capsys.readouterr().err


def test_progress_is_lines_without_a_terminal(
    called: Called, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfers, "_LINE_S", 0.0)
    called.report.listed, called.report.copied, called.report.copied_bytes = 2000, 1500, 10**9
    called.report.listed_bytes, called.report.complete = 2 * 10**9, False
    main(["stage", *PLACES])
    assert "1,500 of at least 2,000 objects, 1 GB of at least 2 GB verified" in capsys.readouterr().err


def test_a_log_that_is_full_or_closed_ends_no_transfer(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(transfers, "_LINE_S", 0.0)
    monkeypatch.setattr(sys, "stderr", Full())
    called.note = "said at once"
    assert main(["stage", *PLACES]) == 0


def test_progress_is_a_bar_of_objects_and_bytes_on_a_terminal(called: Called, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    called.report.listed, called.report.copied, called.report.copied_bytes = 2000, 1500, 10**9
    called.report.listed_bytes = 2 * 10**9
    main(["stage", *PLACES])
    assert "1,500 of 2,000 objects" in screen.getvalue()
    assert "1 GB of 2 GB" in screen.getvalue()


def test_a_dry_run_says_what_would_be_done(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    report = called.report
    report.dry_run, report.listed, report.to_copy, report.to_compare, report.without_checksum = True, 9, 5, 3, 2
    report.known = 1
    assert main(["stage", *PLACES, "--dry-run"]) == 0
    out = capsys.readouterr().out
    for text in (
        "9 objects",
        "1 are verified already",
        "5 would be copied",
        "3 would be compared",
        "2 of these have no",
    ):
        assert text in out


def test_removed_objects_are_counted(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    called.report.removed = 3
    main(["archive", *PLACES, "--remove"])
    assert "3 removed from the source after they were verified" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code"),
    [(RefusedError("no bucket"), 1), (AwsError("denied", code="AccessDenied"), 3), (KeyboardInterrupt(), 130)],
)
def test_exit_codes(called: Called, error: BaseException, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    called.error = error
    assert main(["stage", *PLACES]) == code
    assert "Traceback" not in capsys.readouterr().err


def test_an_interrupt_says_that_the_same_command_goes_on(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    called.error = KeyboardInterrupt()
    main(["stage", *PLACES])
    assert "the same command goes on from there" in capsys.readouterr().err


def test_an_empty_source_is_said(called: Called, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stage", *PLACES]) == 0
    assert "nothing lies there: check the prefix" in capsys.readouterr().out
    called.report.listed = called.report.copied = 1
    assert main(["stage", *PLACES]) == 0
    assert "nothing lies there" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [["stage", "name"], ["archive", "name"], ["preload", "name", "--metadata"]])
def test_a_missing_region_and_a_missing_profile_say_what_to_give(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    assert main(command) == 3
    assert "no region given; fix: pass --region or set AWS_REGION" in capsys.readouterr().err
    assert main([*command, "--profile", "nobody"]) == 3
    assert "(nobody) could not be found; fix: check --profile" in capsys.readouterr().err
