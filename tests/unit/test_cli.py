"""The command line: answers, errors and exit codes, in process; whole processes where the process is the point."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from training_storage.cli import app, main
from training_storage.cli.report import exit_code
from training_storage.errors import (
    AwsError,
    CatalogError,
    PlanError,
    Problem,
    RefusedError,
    TrainingStorageError,
    ValidationError,
    WorkloadError,
)

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "llama3-70b.yaml")

UNPLANNABLE = """\
name: nothing-mounted
region: us-east-1
availability_zone_id: use1-az6
compute:
  instance_type: p5.48xlarge
  instance_count: 4
dataset:
  size: 2 TB
hot_tier: none
file_access: none
"""


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A workload file with two problems, in lines 2 and 5."""
    file = tmp_path / "broken.yaml"
    file.write_text(
        "name: llama\nregion: us-esat-1\navailability_zone_id: use1-az6\n"
        "compute: {instance_type: p5.48xlarge, instance_count: 4}\ndataset: {size: 60}\n",
        encoding="utf-8",
    )
    return str(file)


@pytest.fixture
def unplannable(tmp_path: Path) -> str:
    """A workload file that is read but not planned: POSIX code with nothing mounted."""
    file = tmp_path / "unplannable.yaml"
    file.write_text(UNPLANNABLE, encoding="utf-8")
    return str(file)


def boom(error: BaseException) -> object:
    """Return a function that raises an error whatever it is called with."""

    def raising(*_: object, **__: object) -> object:
        raise error

    return raising


# validate


def test_validate_says_ok(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", EXAMPLE]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0] == f"{EXAMPLE}: ok"
    assert err == ""


def test_validate_prints_the_warnings_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(ROOT / "examples" / "vision-small-files.yaml")]) == 0
    assert "warning metadata-import-as-task: " in capsys.readouterr().out


def test_validate_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", EXAMPLE, "--format", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["ok"], answer["workload"]) == (True, "llama3-70b")
    assert all(set(warning) == {"id", "message"} for warning in answer["warnings"])


def test_validate_prints_every_problem_with_its_line(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", broken]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == f"{broken}: 2 problems"
    assert "  line 2: region: is an unknown region" in err.splitlines()
    assert "  line 5: dataset.size: has no unit" in err.splitlines()
    assert "      got      60" in err.splitlines()


def test_validate_prints_problems_as_json_on_standard_output(broken: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", broken, "--format=json"]) == 2
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["ok"], answer["error"]) == (False, "WorkloadError")
    assert [(each["file"], each["line"], each["path"]) for each in answer["problems"]] == [
        (broken, 2, "region"),
        (broken, 5, "dataset.size"),
    ]
    assert set(answer["problems"][0]) == {"file", "line", "path", "what", "value", "allowed", "fix", "rule"}
    assert err.startswith(f"{broken}: 2 problems")


def test_validate_counts_problems_of_planning_with_their_line(
    unplannable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", unplannable, "--format", "json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert answer["error"] == "PlanError"
    assert {each["file"] for each in answer["problems"]} == {unplannable}
    assert answer["problems"][0]["line"] == UNPLANNABLE.splitlines().index("file_access: none") + 1


def test_missing_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "no-such-file.yaml"]) == 2
    assert "no-such-file.yaml: 1 problem" in capsys.readouterr().err


def test_a_catalog_file_is_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = tmp_path / "catalog.json"
    catalog.write_text('{"regions": {"us-east-1": {"zone_ids": ["use1-az99"]}}}', encoding="utf-8")
    assert main(["validate", EXAMPLE, "--catalog", str(catalog)]) == 2
    assert "allowed  use1-az99" in capsys.readouterr().err


def test_a_broken_catalog_file_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = tmp_path / "catalog.json"
    catalog.write_text("[", encoding="utf-8")
    assert main(["plan", EXAMPLE, "--catalog", str(catalog)]) == 2
    assert str(catalog) in capsys.readouterr().err


# plan


def test_plan_as_json_is_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    from training_storage import load_workload, plan

    assert main(["plan", EXAMPLE, "--format", "json"]) == 0
    assert capsys.readouterr().out == plan(load_workload(EXAMPLE)).to_json()


def test_plan_as_text_starts_with_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", EXAMPLE]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("llama3-70b: FSx for Lustre in front of S3")
    assert err == ""


def test_plan_has_no_colour_when_it_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    main(["plan", EXAMPLE])
    assert "\x1b" not in capsys.readouterr().out


# usage


@pytest.mark.parametrize(
    "arguments",
    [[], ["plann", EXAMPLE], ["plan"], ["plan", EXAMPLE, "--formt", "json"], ["plan", EXAMPLE, "--format", "xml"],
     ["plan", EXAMPLE, "extra"], ["plan", EXAMPLE, "--", "extra"], ["--no"], ["emulate"]],
    ids=" ".join,
)  # fmt: skip
def test_bad_usage_is_2_and_says_how(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "error: " in err
    assert "--help" in err


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["plan"], "plan"),
        (["plan", EXAMPLE, "extra"], "plan"),
        (["plan", EXAMPLE, "--", "extra"], "plan"),
        (["validate", EXAMPLE, EXAMPLE], "validate"),
        (["preload", "first", "--nodes", "0"], "preload"),
        (["emulate"], "emulate"),
        (["emulate", "cdk", "--version"], "emulate"),
    ],
)
def test_bad_usage_of_a_command_points_to_the_help_of_that_command(
    arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(arguments)
    assert f"Try `training-storage {command} --help`." in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["emulate"], ["emulate", "cdk", "deploy"]], ids=" ".join)
def test_a_command_without_its_dashes_is_told_of_them(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(arguments)
    assert "follows a -- that stands alone" in capsys.readouterr().err


def test_bad_usage_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--format", "json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["error"], answer["problems"]) == ("UsageError", [])


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    # The help of a long name stands on the next line.
    assert all(re.search(rf"^    {name}(?: |$)", out, re.MULTILINE) for name in app.COMMANDS)
    assert "example: " in out


@pytest.mark.parametrize("name", sorted(app.COMMANDS))
def test_every_command_has_help_with_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: training-storage {name} ")
    assert re.search(rf"examples?: training-storage {name} ", out)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"training-storage {version('training-storage')}\n"


# exit codes


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ValidationError(Problem(what="x")), 2),
        (WorkloadError(Problem(what="x")), 2),
        (PlanError(Problem(what="x")), 2),
        (CatalogError(Problem(what="x")), 2),
        (RefusedError("x"), 1),
        (AwsError("x"), 3),
        (TrainingStorageError("x"), 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_exit_codes_follow_the_contract(error: TrainingStorageError, code: int) -> None:
    assert exit_code(error) == code


def test_aws_errors_carry_operation_and_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = AwsError("no", operation="CreateDataRepositoryTask", code="AccessDeniedException")
    monkeypatch.setattr("training_storage.cli.plan.read_plan", boom(error))
    assert main(["plan", EXAMPLE, "--format", "json"]) == 3
    out, err = capsys.readouterr()
    answer = json.loads(out)
    assert (answer["operation"], answer["code"]) == ("CreateDataRepositoryTask", "AccessDeniedException")
    assert err == "error: no\n"


def test_an_unexpected_error_is_one_line_and_advice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TRAINING_STORAGE_DEBUG", raising=False)
    monkeypatch.setattr("training_storage.cli.plan.read_plan", boom(KeyError("a\nb")))
    assert main(["plan", EXAMPLE]) == 70
    err = capsys.readouterr().err
    assert err.startswith("error: unexpected KeyError: ")
    assert "TRAINING_STORAGE_DEBUG=1" in err
    assert "Traceback" not in err


def test_an_unexpected_error_shows_its_traceback_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINING_STORAGE_DEBUG", "1")
    monkeypatch.setattr("training_storage.cli.plan.read_plan", boom(KeyError("x")))
    assert main(["plan", EXAMPLE]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_interrupting_is_130_and_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("training_storage.cli.plan.read_plan", boom(KeyboardInterrupt()))
    assert main(["plan", EXAMPLE]) == 130
    assert capsys.readouterr().err == "interrupted\n"


# whole processes


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process."""
    return subprocess.run(
        [sys.executable, "-m", "training_storage", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        cwd=ROOT,
    )


@pytest.mark.slow
def test_the_module_is_the_command() -> None:
    done = run("plan", EXAMPLE, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["workload"] == "llama3-70b"


@pytest.mark.slow
def test_the_same_plan_in_every_process() -> None:
    outputs = {run("plan", EXAMPLE, "--format", "json", PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    assert len(outputs) == 1


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error() -> None:
    python, example = shlex.quote(sys.executable), shlex.quote(str(EXAMPLE))
    command = f"{python} -m training_storage plan {example} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, cwd=ROOT)
    # The whole text may fit into the pipe before the reader goes.
    assert done.returncode in {0, 128 + signal.SIGPIPE}
    assert done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [["plan", EXAMPLE], ["plan", EXAMPLE, "--format", "json"], ["validate", EXAMPLE]],
    ids=lambda each: f"{each[0]}-{each[-1]}".replace(EXAMPLE, "text"),
)
def test_planning_loads_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from training_storage.cli import main; main(sys.argv[1:]);"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True, cwd=ROOT
    )
    loaded = set(done.stderr.split())
    assert "ruamel" in loaded
    assert loaded & {"aws_cdk", "jsii", "boto3", "botocore", "moto", "rich", "typer", "pydantic"} == set()
