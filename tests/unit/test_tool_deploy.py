"""`make deploy`: what goes wrong before and around the CDK command line is said in a sentence."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ProfileNotFound

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples" / "llama3-70b.yaml")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool as a module, outside of an emulator, with its outputs in a folder of the test."""
    spec = importlib.util.spec_from_file_location("tool_deploy", ROOT / "tools" / "deploy.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "OUTPUTS", tmp_path / "made" / "outputs.json")
    monkeypatch.delenv(module.INSIDE, raising=False)
    return module


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands that would have been run; each ends well."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def call(tool: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["deploy.py", *arguments])
    code: int = tool.main()
    return code


def signed_in(monkeypatch: pytest.MonkeyPatch, account: str) -> None:
    class Sts:
        def get_caller_identity(self) -> dict[str, str]:
            return {"Account": account}

    monkeypatch.setattr(boto3, "client", lambda *_, **__: Sts())


@pytest.mark.parametrize(
    "error",
    [
        NoCredentialsError(),
        ProfileNotFound(profile="mine"),
        ClientError({"Error": {"Code": "ExpiredToken", "Message": "expired"}}, "GetCallerIdentity"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_who_is_not_signed_in_is_told_to(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    started: list[list[str]],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    def client(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(boto3, "client", client)
    assert call(tool, monkeypatch, "--target", "aws", "--workload", EXAMPLE) == 3
    said = capsys.readouterr().err
    assert said.startswith("error: AWS does not say whose account this is: ")
    assert "sign in first" in said
    assert started == []


def test_a_workload_that_is_not_there_is_2(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(tool, monkeypatch, "--workload", "fisrt.yaml") == 2
    assert capsys.readouterr().err.splitlines()[:2] == ["fisrt.yaml: 1 problem", "  there is no such file"]
    assert started == []


@pytest.mark.parametrize("given", [[], ["--workload", ""]], ids=["left out", "empty"])
def test_a_real_account_never_gets_the_example_by_default(
    tool: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    started: list[list[str]],
    capsys: pytest.CaptureFixture[str],
    given: list[str],
) -> None:
    with pytest.raises(SystemExit) as left:
        call(tool, monkeypatch, "--target", "aws", *given)
    assert left.value.code == 2
    assert "add WORKLOAD=FILE" in capsys.readouterr().err
    assert started == []


@pytest.mark.parametrize("given", [[], ["--workload", ""]], ids=["left out", "empty"])
def test_the_emulator_gets_the_example_by_default(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, started: list[list[str]], given: list[str]
) -> None:
    assert call(tool, monkeypatch, *given) == 0
    assert started[0][-1] == EXAMPLE


@pytest.mark.slow
def test_ctrl_c_reaches_node_and_not_its_launchers(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A launcher in Python around Node, as the index has them; the terminal interrupts both."""
    launcher = tmp_path / "cdk"
    script = "process.kill(process.ppid, 'SIGINT'); process.kill(process.pid, 'SIGINT'); setTimeout(() => {}, 30000)"
    launcher.write_text(
        f"#!{sys.executable}\nimport subprocess, sys\nsys.exit(subprocess.call(['node', '-e', {script!r}]))\n"
    )
    launcher.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert tool._cdk("deploy") != 0
    assert "Traceback" not in capfd.readouterr().err


def test_an_interrupted_deployment_is_130_without_a_traceback(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", run)
    assert call(tool, monkeypatch, "--workload", EXAMPLE) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_nothing_is_believed_without_outputs(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, started: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    signed_in(monkeypatch, "111111111111")
    assert call(tool, monkeypatch, "--target", "aws", "--workload", EXAMPLE) == 3
    assert "no stack has outputs" in capsys.readouterr().err
    assert [command[:2] for command in started] == [["cdk", "bootstrap"], ["cdk", "deploy"]]


def test_the_account_of_the_workload_is_bootstrapped_before_that_of_the_caller(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, started: list[list[str]], tmp_path: Path
) -> None:
    signed_in(monkeypatch, "111111111111")
    own = tmp_path / "own.yaml"
    own.write_text(Path(EXAMPLE).read_text(encoding="utf-8") + '\naccount: "222222222222"\n', encoding="utf-8")
    call(tool, monkeypatch, "--target", "aws", "--workload", str(own))
    call(tool, monkeypatch, "--target", "aws", "--workload", EXAMPLE)
    bootstrapped = [command[2] for command in started if command[1] == "bootstrap"]
    assert bootstrapped == ["aws://222222222222/us-east-1", "aws://111111111111/us-east-1"]


def test_a_real_account_is_asked_before_rights_are_widened(
    tool: ModuleType, monkeypatch: pytest.MonkeyPatch, started: list[list[str]]
) -> None:
    signed_in(monkeypatch, "111111111111")
    call(tool, monkeypatch, "--target", "aws", "--workload", EXAMPLE)
    assert "--require-approval" not in started[-1]
