"""Where ``training-storage emulate`` takes account and region from, and what it hands on."""

from __future__ import annotations

from pathlib import Path

import pytest

from training_storage import emulator
from training_storage.cli import main

ROOT = Path(__file__).resolve().parents[2]

WORKLOAD = """
name: small
region: eu-west-1
availability_zone_id: euw1-az1
account: "111111111111"
compute: {instance_type: p5.48xlarge, instance_count: 2}
dataset: {size: 1 TB}
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], dict[str, str]]]:
    """Commands that would have been run."""
    seen: list[tuple[list[str], dict[str, str]]] = []

    def run_command(command: list[str], **options: str) -> int:
        seen.append((command, options))
        return 7

    monkeypatch.setattr(emulator, "run_command", run_command, raising=False)
    return seen


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(WORKLOAD)
    return path


def test_the_exit_code_is_handed_on(calls: list[tuple[list[str], dict[str, str]]]) -> None:
    assert main(["emulate", "--", "cdk", "deploy", "--all"]) == 7
    assert calls == [(["cdk", "deploy", "--all"], {})]


@pytest.mark.parametrize("shape", ["words", "one word", "shell"])
def test_account_and_region_are_those_of_the_workload(
    calls: list[tuple[list[str], dict[str, str]]], workload: Path, shape: str
) -> None:
    command = {
        "words": ["cdk", "deploy", "-c", f"workload={workload}"],
        "one word": ["cdk", "deploy", f"--context=workload={workload}"],
        "shell": ["bash", "-c", f"cdk bootstrap && cdk deploy -c 'workload={workload}' --all"],
    }[shape]
    main(["emulate", "--", *command])
    assert calls == [(command, {"account": "111111111111", "region": "eu-west-1"})]


def test_options_win(calls: list[tuple[list[str], dict[str, str]]], workload: Path) -> None:
    main(["emulate", "--workload", str(workload), "--region", "us-west-2", "--", "true"])
    assert calls == [(["true"], {"account": "111111111111", "region": "us-west-2"})]


def test_a_workload_with_mistakes_is_the_commands_to_report(
    calls: list[tuple[list[str], dict[str, str]]], tmp_path: Path
) -> None:
    path = tmp_path / "broken.yaml"
    path.write_text("name: [")
    main(["emulate", "--", "cdk", "deploy", "-c", f"workload={path}"])
    assert calls[0][1] == {}


def test_no_command_is_bad_usage(calls: list[tuple[list[str], dict[str, str]]]) -> None:
    assert main(["emulate"]) == 2
    assert calls == []
